//! The patches that build faults into the library: tests/hooked.

#[path = "hooked/patches.rs"]
mod patches;

use crate::support::root;
use dpb::Fault;
use patches::{HOOK, Patch};
use std::collections::HashSet;

const ONE: &str = "One: A fault.\n@ a.rs\n- two\n-\n- lines\n+ one line, !FAULT\n+\n@ b.rs\n- x\n+ y\n";

#[test]
fn a_patch_replaces_what_stands_there_once() {
    let read = Patch::read(&format!("# A comment.\n\n{ONE}\n{HOOK}: Another.\n@ a.rs\n- end\n+ END\n")).unwrap();
    let asks = "crate::noise::probe::Fault::One.is_built_in()";
    let apply = |file, source| Patch::apply(&read, file, source);
    assert_eq!(apply("a.rs", "two\n\nlines; end"), Ok(format!("one line, !{asks}\n; END")));
    assert_eq!(apply("b.rs", "an x"), Ok("an y".into()));
    assert_eq!(apply("c.rs", "two x x"), Ok("two x x".into()));
    for (source, times) in [("two lines; end", 0), ("two\n\nlines two\n\nlines end", 2)] {
        let refused = apply("a.rs", source).unwrap_err();
        assert!(refused.contains(&format!("{times} times")) && refused.contains("One"), "{refused}");
    }
    assert_eq!(Patch::variants(&read), "    /// A fault.\n    One,\n");
}

#[test]
fn two_patches_of_one_place_are_refused() {
    let read = Patch::read(&ONE.repeat(2)).unwrap();
    assert!(Patch::apply(&read, "b.rs", "an x").is_err());
}

#[test]
fn what_is_no_patch_is_refused() {
    for bad in
        ["One", "@ a.rs", "- x", "One: A.\n- x", "One: A.", "One: A.\n@ a.rs\n- x", "One: A.\n@ a.rs\n- x\n+ y\n- z"]
    {
        assert!(Patch::read(bad).is_err(), "{bad}");
    }
}

/// A test names each fault of the library that tests use.
#[test]
fn a_test_names_each_fault() {
    let tests = root().join("tests");
    let mut words = HashSet::new();
    for directory in ["", "abilities", "interference", "simulation"] {
        for file in std::fs::read_dir(tests.join(directory)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(path).unwrap();
                // This list says which faults other tests see.
                let (before, after) = source.split_once("const IN_OTHER_TESTS").unwrap_or((&source, ""));
                let after = after.split_once("];").map_or("", |(_, after)| after);
                let all = before.split(is_between).chain(after.split(is_between));
                words.extend(all.map(str::to_owned));
            }
        }
    }
    for fault in Fault::ALL {
        assert!(words.contains(&format!("{fault:?}")), "{fault:?}");
    }
}

fn is_between(letter: char) -> bool {
    !letter.is_alphanumeric()
}
