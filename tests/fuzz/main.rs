//! The fuzz target, guided by libFuzzer.
#![no_main]

mod calls;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| calls::run(bytes));
