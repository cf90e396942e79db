//! The library with the faults that tests must detect: see build.rs.
#![deny(unsafe_code)]
// What a patch replaces may have been the only use of something.
#![allow(dead_code, unused_imports)]

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
