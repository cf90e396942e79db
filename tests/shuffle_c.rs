//! The shuffle and local models from C.

use crate::support::{Link, build, have, run};
use std::process::Command;

#[test]
fn three_processes_find_the_best_arm() {
    for link in [Link::Static, Link::Shared] {
        if have("cc") {
            let printed = run(&mut Command::new(build("cc", "examples/c/shuffle_roles.c", &["-std=c99"], link)));
            assert!(printed.starts_with("arm 2 after "), "{printed}");
        }
    }
}

#[test]
fn bad_input_changes_nothing() {
    for (compiler, arguments) in [("cc", &["-std=c99"][..]), ("c++", &["-xc++", "-std=c++17"])] {
        if have(compiler) {
            run(&mut Command::new(build(compiler, "tests/c/shuffle.c", arguments, Link::Static)));
        }
    }
}
