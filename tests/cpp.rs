//! The C++ wrapper, from C++ programs.

use crate::support::{self, Link, build, have, have_header, run_program};
use std::process::Command;

#[test]
fn the_tests_of_the_wrapper_pass() {
    wrapper_passes("c++", OLDEST, Link::Static);
}

/// Nodes of a fleet, on a store in the program.
#[test]
#[ignore = "compiles for a quarter of a minute"]
#[cfg(unix)]
fn nodes_share_a_store_of_the_host() {
    if have("c++") {
        let library = if have_header("hiredis/hiredis.h", "libhiredis-dev") { "-lhiredis" } else { "-lm" };
        let arguments = [OLDEST, "-pthread", "-Wshadow", "-Wl,--no-as-needed", library];
        run_program(&build("c++", "tests/cpp/fleet.cpp", &arguments, Link::Static));
    }
}

/// In a program without exceptions, every function that can fail has a variant that returns a status.
#[test]
#[cfg(unix)]
fn the_wrapper_works_without_exceptions() {
    works_without_exceptions("c++", OLDEST, Link::Shared);
}

#[test]
fn the_header_stands_alone() {
    header_stands_alone("c++", OLDEST);
}

#[test]
#[cfg(unix)]
#[ignore = "compiles all of it three times more"]
fn clang_and_newer_standards_agree() {
    let newer = "-std=c++20";
    for (compiler, standard) in [("c++", newer), ("clang++", OLDEST), ("clang++", newer)] {
        wrapper_passes(compiler, standard, Link::Shared);
        works_without_exceptions(compiler, standard, Link::Static);
        header_stands_alone(compiler, standard);
    }
    ["c++", "clang++"].into_iter().for_each(|compiler| header_stands_alone(compiler, "-std=c++2b"));
}

const OLDEST: &str = "-std=c++17";

fn wrapper_passes(compiler: &str, standard: &str, link: Link) {
    if !have(compiler) {
        return;
    }
    let program = build(compiler, "tests/cpp/test_wrapper.cpp", &[standard, "-pthread", "-Wshadow"], link);
    let printed = run_program(&program);
    assert!(printed.ends_with("checks held\n"), "{printed}");
}

#[cfg(unix)]
fn works_without_exceptions(compiler: &str, standard: &str, link: Link) {
    use std::os::unix::process::ExitStatusExt;
    if !have(compiler) {
        return;
    }
    let flags = [standard, "-fno-exceptions", "-fno-rtti", "-Wshadow"];
    let program = build(compiler, "tests/cpp/no_exceptions.cpp", &flags, link);
    run_program(&program);
    let aborted = Command::new(&program).arg("abort").output().unwrap();
    let said = String::from_utf8(aborted.stderr).unwrap();
    assert_eq!(said, "dpb: dpb_cancel(ticket = 7): DPB_UNKNOWN_TICKET\n");
    assert_eq!(aborted.status.signal(), Some(6), "SIGABRT");
}

/// The wrapper's header needs no other header, can be included twice, and links from two files.
fn header_stands_alone(compiler: &str, standard: &str) {
    if have(compiler) {
        build(compiler, "tests/cpp/header_alone.cpp", &[standard, "tests/cpp/header_again.cpp"], Link::Static);
    }
}

/// Each C function that returns a status is called by a C++ function that is noexcept, such as try_select.
#[test]
fn every_function_has_a_variant_that_does_not_throw() {
    let source = std::fs::read_to_string(support::root().join("bindings/cpp/dpb.hpp")).unwrap();
    let code = support::without_comments(&source);
    let is_noexcept = |call: usize| {
        let heads = ["\n  [[nodiscard]]", "\n[[nodiscard]]", "\n  void "];
        let head = heads.into_iter().filter_map(|head| code[..call].rfind(head)).max();
        head.is_some_and(|head| code[head..call].split('{').next().unwrap().contains("noexcept"))
    };
    for name in crate::fuzz::statuses() {
        let constructor = name.starts_with("dpb_new") || name.starts_with("dpb_restore");
        let mut calls = code.match_indices(name).filter(|(at, _)| !code[at + name.len()..].starts_with('_'));
        assert!(constructor || calls.any(|(at, _)| is_noexcept(at)), "no noexcept function calls {name}");
    }
    let declared = code.split("[[nodiscard]]").map(|function| function.split('{').next().unwrap());
    let throws = declared.filter(|head| head.contains(" try_") && !head.contains("noexcept"));
    assert_eq!(Vec::from_iter(throws), [""; 0]);
}

/// C++ has every function of the C interface.
#[test]
fn every_function_is_wrapped() {
    let source = std::fs::read_to_string(support::root().join("bindings/cpp/dpb.hpp")).unwrap();
    let code = support::without_comments(&source);
    let missing = support::unused(&code, "");
    assert!(missing.is_empty(), "bindings/cpp/dpb.hpp does not use {missing:?}");
}
