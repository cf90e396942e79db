//! Runs the fuzz target on the corpus and on random bytes. tests/fuzz runs it guided by coverage.

#[path = "fuzz/calls.rs"]
pub mod calls;

use crate::support;
use calls::statuses::{FUNCTIONS, declared, rare};
use dpb::Seed;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Once;

/// Runs these programs, once for all tests that need it.
fn once(ran: &Once, programs: fn()) {
    ran.call_once(programs);
}

#[test]
fn the_corpus() {
    static RAN: Once = Once::new();
    once(&RAN, corpus);
}

#[test]
fn random_programs() {
    static RAN: Once = Once::new();
    once(&RAN, random);
}

#[test]
fn random_programs_of_a_fleet() {
    static RAN: Once = Once::new();
    once(&RAN, random_of_a_fleet);
}

#[test]
fn random_programs_of_nodes() {
    static RAN: Once = Once::new();
    once(&RAN, random_of_nodes);
}

/// The corpus: programs of guided runs, kept because of the code that they reach.
fn corpus() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/fuzz");
    let mut played = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        eprintln!("{}", path.display()); // printed if the program fails
        calls::run(&std::fs::read(path).unwrap());
        played += 1;
    }
    assert!(played > 0);
}

/// Programs of up to 400 bytes, each generated from its number.
fn random() {
    for number in 0..3000 {
        let mut seed = [8; 32];
        seed[..8].copy_from_slice(&u64::to_le_bytes(number));
        let mut random = Seed::new(Some(seed)).unwrap().stream();
        let length = 1 + random.below(400) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| random.next_u32() as u8).collect();
        if let Err(panic) = std::panic::catch_unwind(|| calls::run(&bytes)) {
            eprintln!("program {number}: {bytes:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Programs of two handles with a fleet key, in which every third byte or so is the number of their calls.
fn random_of_a_fleet() {
    for number in 0..1000 {
        let mut seed = [9; 32];
        seed[..8].copy_from_slice(&u64::to_le_bytes(number));
        let mut random = Seed::new(Some(seed)).unwrap().stream();
        let mut byte = || if random.below(3) == 0 { 79 } else { random.next_u32() as u8 };
        // Eleven bytes make the handle that every program begins with.
        let bytes: Vec<u8> = [0; 11].into_iter().chain([159]).chain((0..400).map(|_| byte())).collect();
        if let Err(panic) = std::panic::catch_unwind(|| calls::run(&bytes)) {
            eprintln!("program {number}: {bytes:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Programs of nodes of a fleet: eleven bytes make the handle that every program begins with.
fn random_of_nodes() {
    for number in 0..40 {
        let mut seed = [10; 32];
        seed[..8].copy_from_slice(&u64::to_le_bytes(number));
        let mut random = Seed::new(Some(seed)).unwrap().stream();
        let bytes: Vec<u8> =
            [0; 11].into_iter().chain([219]).chain((0..3000).map(|_| random.next_u32() as u8)).collect();
        if let Err(panic) = std::panic::catch_unwind(|| calls::run(&bytes)) {
            eprintln!("program {number} of nodes");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Programs of decisions that were made elsewhere.
#[test]
fn random_programs_of_tables() {
    for number in 0..2000 {
        let mut seed = [11; 32];
        seed[..8].copy_from_slice(&u64::to_le_bytes(number));
        let mut random = Seed::new(Some(seed)).unwrap().stream();
        let bytes: Vec<u8> =
            [0; 11].into_iter().chain([228]).chain((0..600).map(|_| random.next_u32() as u8)).collect();
        if let Err(panic) = std::panic::catch_unwind(|| calls::run(&bytes)) {
            eprintln!("program {number} of tables: {bytes:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// The names of all functions that return a status.
pub fn statuses() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.name)
}

/// Each function returns all statuses that its comment in the header lists, and (as every call checks) no others.
#[test]
fn comments_list_the_statuses_that_functions_return() {
    the_corpus();
    random_programs();
    random_programs_of_a_fleet();
    random_programs_of_nodes();
    rare(calls::CONSTRUCTORS);
    calls::nodes::rare();
    assert_eq!(FUNCTIONS.iter().map(|function| function.name).collect::<BTreeSet<_>>(), declared());
    for function in FUNCTIONS {
        // dpb_combine is full with 2^20 contributors.
        let expected: &[&str] = if function.name == "dpb_combine" { &["DPB_FULL"] } else { &[] };
        assert_eq!(function.missing(), expected, "{}", function.name);
    }
}

#[test]
fn every_function_is_called() {
    let read = |file| std::fs::read_to_string(support::root().join("tests/fuzz").join(file)).unwrap();
    let source =
        read("calls.rs") + &read("segments.rs") + &read("features.rs") + &read("nodes.rs") + &read("tables.rs");
    assert_eq!(support::unused(&support::without_comments(&source), ""), [""; 0]);
}
