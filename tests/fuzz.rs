//! Runs the fuzz target on the corpus and on random bytes. tests/fuzz runs it guided by coverage.

#[path = "fuzz/calls.rs"]
pub mod calls;

use crate::support;
use dpb::Seed;
use std::path::PathBuf;

/// The corpus: programs of guided runs, kept because of the code that they reach.
#[test]
fn the_corpus() {
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
#[test]
fn random_programs() {
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
#[test]
fn random_programs_of_a_fleet() {
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

#[test]
fn every_function_is_called() {
    let read = |file| std::fs::read_to_string(support::root().join("tests/fuzz").join(file)).unwrap();
    let source = read("calls.rs") + &read("segments.rs") + &read("features.rs");
    assert_eq!(support::unused(&support::without_comments(&source), ""), [""; 0]);
}
