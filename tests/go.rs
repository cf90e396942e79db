//! The Go module, by its own tests.

mod support;

use support::{go, run};

const MODULE: &str = "bindings/go";

#[test]
fn the_module_is_tidy() {
    let Some(mut vet) = go(MODULE, &["vet", "./..."]) else { return };
    run(&mut vet);
    if let Some(mut list) = go(MODULE, &["list", "-f", "{{.Dir}}"]) {
        let unformatted = run(std::process::Command::new("gofmt").arg("-l").arg(run(&mut list).trim()));
        assert_eq!(unformatted, "", "gofmt -w these");
    }
}

/// Under the race detector, the strictest pointer checks, and a collector that never rests.
#[test]
fn the_module_passes_its_tests() {
    let Some(mut test) = go(MODULE, &["test", "-race", "-count=1", "./..."]) else { return };
    run(test.env("GODEBUG", "cgocheck=1").env("GOGC", "1"));
    // Once more as users build it: what allocates may depend on -race.
    if let Some(mut test) = go(MODULE, &["test", "-count=1", "./..."]) {
        run(&mut test);
    }
}

/// Every function of the header that Go calls is declared to neither let pointers escape nor call back.
#[test]
fn every_call_is_declared_cheap() {
    let header = std::fs::read_to_string(support::root().join("include/dpb.h")).unwrap();
    let mut source = String::new();
    for entry in std::fs::read_dir(support::root().join(MODULE)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "go") {
            source += &std::fs::read_to_string(path).unwrap();
        }
    }
    let calls: std::collections::BTreeSet<&str> = source
        .split("C.dpb_")
        .skip(1)
        .filter_map(|rest| rest.split_once('('))
        .map(|(name, _)| name)
        .filter(|name| header.contains(&format!("dpb_{name}("))) // not a type
        .collect();
    assert!(calls.contains("select") && calls.len() > 10, "{calls:?}");
    for name in calls {
        for directive in ["noescape", "nocallback"] {
            assert!(source.contains(&format!("#cgo {directive} dpb_{name}\n")), "#cgo {directive} dpb_{name}");
        }
    }
}
