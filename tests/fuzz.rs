//! Runs the fuzz target on the corpus and on random bytes. tests/fuzz runs it guided by coverage.

#[path = "fuzz/calls.rs"]
pub mod calls;

use crate::support;
use calls::statuses::{FUNCTIONS, declared, rare};
use dpb::{Random, Seed};
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

/// Runs this many programs, each made of the coins of its number.
fn programs(of: &str, number: u64, key: u8, make: impl Fn(&mut Random) -> Vec<u8>) {
    for number in 0..number {
        let mut seed = [key; 32];
        seed[..8].copy_from_slice(&u64::to_le_bytes(number));
        let bytes = make(&mut Seed::new(Some(seed)).unwrap().stream());
        if let Err(panic) = std::panic::catch_unwind(|| calls::run(&bytes)) {
            eprintln!("program {number} {of}: {bytes:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// A program that begins with this call: eleven bytes make the handle that every program begins with.
fn beginning(call: u8, length: usize, mut byte: impl FnMut() -> u8) -> Vec<u8> {
    [0; 11].into_iter().chain([call]).chain((0..length).map(|_| byte())).collect()
}

/// Programs of up to 400 bytes.
fn random() {
    programs("of all", 3000, 8, |random| {
        let length = 1 + random.below(400) as usize;
        (0..length).map(|_| random.next_u32() as u8).collect()
    });
}

/// Programs of two handles with a fleet key, in which every third byte or so is the number of their calls.
fn random_of_a_fleet() {
    programs("of a fleet", 1000, 9, |random| {
        beginning(159, 400, || if random.below(3) == 0 { 79 } else { random.next_u32() as u8 })
    });
}

/// Programs of nodes of a fleet.
fn random_of_nodes() {
    programs("of nodes", 40, 10, |random| beginning(219, 3000, || random.next_u32() as u8));
}

/// Programs of decisions that were made elsewhere.
#[test]
fn random_programs_of_tables() {
    programs("of tables", 2000, 11, |random| beginning(228, 600, || random.next_u32() as u8));
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
