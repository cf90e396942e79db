//! Most tests, in one program, which is linked once and runs other tests while one waits. Tests that count allocations,
//! or limit or search the process's memory, have their own programs. So has the header's test, which can also write the
//! header.

mod abi;
mod abilities;
mod ad_server;
mod adversarial;
mod audit;
mod audit_tool;
mod auditor;
mod bidder;
#[path = "support/browser.rs"]
mod browser;
mod budget;
mod c_api;
mod calibration;
mod central;
mod clip;
mod clock;
mod combine;
mod compare;
mod composition;
mod config_extremes;
mod costs;
mod counters;
mod cpp;
mod dist;
mod drift;
mod engine;
mod examples;
mod faults;
mod fleet;
mod fleet_go;
mod fuzz;
mod go;
mod interference;
mod java;
mod layers;
mod lift;
mod local;
mod lua;
mod metrics;
mod moving;
mod nginx;
mod noise;
mod ofrep;
mod outage;
mod outputs;
mod package;
mod parts;
mod positions;
mod prior;
mod private;
mod proofs;
mod python;
mod readme;
mod recommended;
mod sanitizers;
mod se;
mod segments;
mod servers;
mod shuffle;
mod shuffle_c;
mod site;
mod slates;
mod snapshot;
mod statement;
mod stopping;
mod support;
mod tables;
mod users;
mod values;
mod winner;

/// With `autotests = false`, cargo silently ignores a file that no target names.
#[test]
fn every_test_file_is_compiled() {
    use std::collections::BTreeSet;
    let tests = support::root().join("tests");
    let read = |file: &str| std::fs::read_to_string(tests.join(file)).unwrap();
    let quoted = |line: &str, before: &str| {
        line.trim().strip_prefix(before).and_then(|rest| rest.split('"').next()).map(str::to_owned)
    };
    // The test targets, and the files that they name as a module or by a path.
    let manifest = read("Cargo.toml");
    let targets: BTreeSet<_> = manifest.lines().filter_map(|line| quoted(line, "path = \"")).collect();
    let (mut compiled, mut left) = (BTreeSet::new(), Vec::from_iter(targets.clone()));
    while let Some(file) = left.pop() {
        if !tests.join(&file).is_file() || !compiled.insert(file.clone()) {
            continue;
        }
        for line in read(&file).lines() {
            left.extend(quoted(line, "#[path = \""));
            let module = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
            left.extend(module.filter(|_| targets.contains(&file)).map(|name| format!("{name}.rs")));
        }
    }
    let files = std::fs::read_dir(&tests).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let forgotten: Vec<_> = files.filter(|file| file.ends_with(".rs") && !compiled.contains(file)).collect();
    assert!(compiled.contains("users.rs") && forgotten.is_empty(), "not compiled: {forgotten:?}");
}
