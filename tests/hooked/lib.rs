//! The library with the faults that tests must detect: see build.rs.
#![deny(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
