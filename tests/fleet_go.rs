//! Nodes that share what they have released through Redis, by the Go package's own tests against a real redis-server.
#![cfg(unix)]

mod support;

use std::process::Command;
use support::{go, have, run, skip};

const MODULE: &str = "bindings/go/fleet";
const EXAMPLE: &str = "examples/go/fleet";

/// None without Go, a C compiler, Redis or the modules that it needs: those come from a proxy, once.
fn fleet(directory: &str, arguments: &[&str]) -> Option<Command> {
    if !have("redis-server") {
        return None;
    }
    let command = go(directory, arguments)?;
    if !go(directory, &["mod", "download"])?.output().unwrap().status.success() {
        skip("no modules for Go: go mod download fails");
        return None;
    }
    Some(command)
}

#[test]
fn nodes_agree_after_faults() {
    let arguments = ["test", "-race", "-short", "-count=1", "-timeout=2m", "."];
    let Some(mut test) = fleet(MODULE, &arguments) else { return };
    run(test.env("GODEBUG", "cgocheck=1"));
}

#[test]
#[ignore = "long: more faults, many times"]
fn nodes_agree_after_many_faults() {
    let arguments = ["test", "-race", "-count=5", "-timeout=10m", "."];
    let Some(mut test) = fleet(MODULE, &arguments) else { return };
    run(test.env("GODEBUG", "cgocheck=1"));
}

#[test]
fn the_modules_are_tidy() {
    for directory in [MODULE, EXAMPLE] {
        let Some(mut vet) = fleet(directory, &["vet", "./..."]) else { return };
        run(&mut vet);
        run(&mut fleet(directory, &["mod", "tidy", "-diff"]).unwrap());
    }
}
