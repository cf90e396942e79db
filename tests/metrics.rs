//! Pages of metrics: C++ writes what Go's collectors collect (their test reads the same file), and Prometheus parses it.

use crate::support::{Link, build, have, root, run};
use std::path::PathBuf;
use std::process::Command;

/// The pages of tests/cpp/metrics.cpp, by their names.
fn pages() -> impl Fn(&str) -> String {
    let program = build("c++", "tests/cpp/metrics.cpp", &["-std=c++17", "-Wshadow"], Link::Static);
    move |which| run(Command::new(&program).arg(which))
}

#[test]
fn cpp_writes_what_go_collects() {
    if !have("c++") {
        return;
    }
    let expected = std::fs::read_to_string(root().join("tests/cpp/metrics.txt")).unwrap();
    let header = std::fs::read_to_string(root().join("include/dpb.h")).unwrap();
    let version = header.split("DPB_VERSION_STRING \"").nth(1).unwrap().split('"').next().unwrap();
    let expected = expected.replace("VERSION", version);
    let page = pages();
    assert_eq!(page(""), expected);
    assert_eq!(page("public"), expected.split("# HELP dpb_duplicates").next().unwrap());
    let played = page("played");
    assert!(played.contains("dpb_lift_high{bandit=\"front \\\"page\\\"\\n\\\\\"} "), "{played}");
    assert!(played.contains("dpb_arm_mean{bandit=\"front \\\"page\\\"\\n\\\\\",arm=\"0\"} 0."), "{played}");
}

/// Checked by Prometheus' own parser and linter.
#[test]
#[ignore = "fetches Go modules"]
fn prometheus_finds_nothing_wrong() {
    if !have("c++") || !have("go") {
        return;
    }
    let page = pages();
    let pages = ["", "public", "played"].map(|which| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("metrics-{which}.txt"));
        std::fs::write(&path, page(which)).unwrap();
        path
    });
    let mut lint = Command::new("go");
    lint.args(["run", "."]).args(pages).current_dir(root().join("tests/metrics")).env("GOTOOLCHAIN", "local");
    // At first, Go also prints what it downloads.
    assert!(run(&mut lint).lines().any(|line| line == "3 pages are well-formed"));
}
