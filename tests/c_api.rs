//! The C interface, from C: statuses, struct sizes, static and shared, as C and as C++.

use crate::support::{self, Link, build, have, library_dir, root, run, run_program};
use std::path::PathBuf;
use std::process::Command;

/// Builds a test program with one compiler and standard, and runs it.
fn passes(compiler: &str, arguments: &[&str], source: &str, link: Link) {
    if have(compiler) {
        run_program(&build(compiler, source, arguments, link));
    }
}

#[test]
fn bad_input_changes_nothing() {
    passes("cc", &["-std=c11"], "tests/c/bad_input.c", Link::Static);
    passes("cc", &["-std=c99"], "tests/c/bad_input.c", Link::Shared);
    passes("c++", &["-xc++", "-std=c++17"], "tests/c/bad_input.c", Link::Shared);
}

fn valgrind(sources: &[&str]) {
    if have("cc") && have("valgrind") {
        for source in sources {
            let program = build("cc", &format!("tests/c/{source}.c"), &["-std=c11", "-O1"], Link::Static);
            let arguments =
                ["--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite,indirect,possible", "-q"];
            run(Command::new("valgrind").args(arguments).arg(program));
        }
    }
}

#[test]
fn valgrind_finds_no_leak_and_no_wild_read() {
    valgrind(&["bad_input"]);
}

#[test]
#[ignore = "a minute"]
fn valgrind_finds_none_in_other_programs() {
    valgrind(&[
        "arms", "clock", "combine", "fleet", "grow", "moving", "node", "segments", "slate", "snapshot", "users",
        "values",
    ]);
}

#[test]
fn nodes_of_a_fleet_run_on_rows() {
    passes("cc", &["-std=c99"], "tests/c/node.c", Link::Static);
    passes("c++", &["-xc++", "-std=c++17"], "tests/c/node.c", Link::Shared);
}

#[test]
fn se_keeps_the_papers_schedule() {
    passes("cc", &["-std=c11"], "tests/c/se.c", Link::Static);
}

#[test]
fn a_window_of_time_ends_without_traffic() {
    passes("cc", &["-std=c99"], "tests/c/clock.c", Link::Static);
    passes("c++", &["-xc++", "-std=c++17"], "tests/c/clock.c", Link::Shared);
}

#[test]
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(target_env = "msvc")))]
fn another_rounding_mode_changes_nothing() {
    passes("cc", &["-std=gnu11", "-frounding-math"], "tests/c/rounding.c", Link::Static);
}

#[test]
fn structs_grow() {
    passes("cc", &["-std=c99"], "tests/c/grow.c", Link::Shared);
    passes("c++", &["-xc++", "-std=c++17"], "tests/c/grow.c", Link::Static);
}

/// Every constructor with its own name, and its number, compared with the library's table.
#[test]
fn policies_have_their_names() {
    let c_name = |policy: &dpb::Algorithm| policy.name().trim_start_matches("dp-").replace('-', "_");
    let table = support::policies().into_iter().map(|named| {
        let policy = dpb::Algorithm::ALL.iter().find(|policy| c_name(policy) == named);
        let policy = policy.unwrap_or_else(|| panic!("dpb_new_{named} makes no policy of the table")).name();
        format!("{{dpb_new_{named}, \"{policy}\", DPB_POLICY_{}}},\n", named.to_uppercase())
    });
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("policies");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("table.h"), table.collect::<String>()).unwrap();
    let include = format!("-I{}", directory.display());
    passes("cc", &["-std=c99", &include], "tests/c/policies.c", Link::Static);
    passes("c++", &["-xc++", "-std=c++17", &include], "tests/c/policies.c", Link::Shared);
}

#[test]
#[cfg(unix)]
fn threads_report_each_reward_once() {
    passes("cc", &["-std=c11", "-pthread"], "tests/c/threads.c", Link::Static);
}

/// A short soak with few decisions. CONTRIBUTING.md describes the one with 10^9 decisions for each kind of handle.
#[test]
#[cfg(unix)]
fn counts_are_right_and_memory_is_flat() {
    passes("cc", &["-std=c11", "-pthread"], "tests/c/soak.c", Link::Static);
}

#[test]
fn arms_come_and_go() {
    passes("cc", &["-std=c99"], "tests/c/arms.c", Link::Static);
}

#[test]
#[cfg(target_os = "linux")]
fn a_forked_child_is_refused() {
    passes("cc", &["-std=gnu11"], "tests/c/fork.c", Link::Static);
    passes("cc", &["-std=gnu11"], "tests/c/fork.c", Link::Shared);
}

#[test]
#[cfg(target_os = "linux")]
fn a_small_stack_suffices() {
    passes("cc", &["-std=gnu11", "-pthread"], "tests/c/stack.c", Link::Static);
}

#[test]
#[cfg(target_os = "linux")]
fn allocation_failure_is_a_status() {
    passes("cc", &["-std=gnu99"], "tests/c/memory.c", Link::Static);
}

const CENTRAL_MODEL: [&str; 19] = [
    "budget",
    "central",
    "combine",
    "compare",
    "counter",
    "drift",
    "fleet",
    "linear",
    "positions",
    "moving",
    "parts",
    "verdict",
    "segments",
    "slate",
    "snapshot",
    "stopping",
    "users",
    "values",
    "warnings",
];

#[test]
fn central_model() {
    CENTRAL_MODEL.iter().for_each(|name| passes("cc", &["-std=c99"], &format!("tests/c/{name}.c"), Link::Shared));
}

#[test]
#[ignore = "compiles them all once more"]
fn central_model_in_cpp() {
    let arguments = ["-xc++", "-std=c++17"];
    CENTRAL_MODEL.iter().for_each(|name| passes("c++", &arguments, &format!("tests/c/{name}.c"), Link::Static));
}

#[test]
fn header_compiles_alone() {
    let alone = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("alone.c");
    std::fs::write(&alone, "#include \"dpb.h\"\n#include \"dpb.h\"\n").unwrap();
    let check = |compiler: &str, language: &str, standards: &[&str]| {
        if have(compiler) {
            for standard in standards {
                let mut command = Command::new(compiler);
                command.args([
                    "-Wall",
                    "-Wextra",
                    "-Wpedantic",
                    "-Werror",
                    "-fsyntax-only",
                    "-Iinclude",
                    "-x",
                    language,
                ]);
                run(command.arg(format!("-std={standard}")).arg(&alone).current_dir(root()));
            }
        }
    };
    check("cc", "c", &["c99", "c11", "c17"]);
    check("c++", "c++", &["c++11", "c++17", "c++20"]);
}

#[test]
fn the_shared_library_has_its_soname() {
    if cfg!(target_os = "linux") && have("readelf") {
        let dynamic = run(Command::new("readelf").arg("-d").arg(library_dir().join("libdpb.so")));
        assert!(dynamic.contains("[libdpb.so.0]"), "{dynamic}");
    }
}

/// Runs with the release library, as users get it except for the test hook: its panic strategy must unwind.
#[test]
#[ignore = "builds the library with all optimisations"]
fn a_panic_is_a_status_not_an_abort() {
    if !have("cc") {
        return;
    }
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("panic");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--release", "-p", "dpb-hooked", "--crate-type", "staticlib", "--target-dir"]).arg(&target);
    run(cargo.current_dir(root()));
    let program = target.join("panic_test");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-Iinclude", "tests/c/panic.c", "-o"]).arg(&program);
    cc.arg(target.join("release/libdpb.a")).args(support::SYSTEM_LIBRARIES);
    run(cc.current_dir(root()));
    run(&mut Command::new(program));
}

/// The library that users link exports the header's functions only, without test hooks or internal modules.
#[test]
fn the_release_library_exports_the_header_only() {
    if !have("nm") {
        return;
    }
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library_dir().join("libdpb.so")));
    let mut shown: Vec<_> = symbols.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    let mut declared = support::functions();
    shown.sort_unstable();
    declared.sort_unstable();
    declared.dedup();
    assert_eq!(shown, declared);
}
