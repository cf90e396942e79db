//! The C and C++ programs again, under AddressSanitizer on both sides of the boundary, UBSan on theirs, and on
//! ours the standard library's own checks of what unsafe code must keep. No nightly: RUSTC_BOOTSTRAP lets a
//! stable compiler take the one flag.
#![cfg(target_os = "linux")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{SYSTEM_LIBRARIES, have, root, run};

/// Not those that limit the address space, of which the sanitizer takes terabytes, nor those that need a table
/// or a hook.
const PROGRAMS: &[&str] = &[
    "c/arms.c",
    "c/bad_input.c",
    "c/central.c",
    "c/counter.c",
    "c/drift.c",
    "c/fork.c",
    "c/grow.c",
    "c/se.c",
    "c/shuffle.c",
    "c/snapshot.c",
    "c/stopping.c",
    "cpp/test_wrapper.cpp",
];

#[test]
#[ignore = "two minutes: it builds the library anew"]
fn sanitizers_find_nothing() {
    if !have("cc") || !have("c++") || !have("nm") {
        return;
    }
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sanitized");
    let version = run(Command::new("rustc").arg("-vV"));
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--release", "-p", "dpb", "--crate-type", "staticlib", "--target", host, "--target-dir"]);
    cargo.arg(&target).current_dir(root()).env("RUSTC_BOOTSTRAP", "1");
    run(cargo.env("RUSTFLAGS", "-Zsanitizer=address -Cdebug-assertions -Cforce-frame-pointers"));
    let library = target.join(host).join("release/libdpb.a");
    let symbols = run(Command::new("nm").arg(&library));
    assert!(symbols.contains("U __asan_report_store8"), "the library is not instrumented");
    for program in PROGRAMS {
        let started = std::time::Instant::now();
        run(&mut Command::new(sanitized(program, &library, &target)));
        println!("{program}: {:.1?}", started.elapsed());
    }
}

fn sanitized(source: &str, library: &Path, directory: &Path) -> PathBuf {
    let program = directory.join(source.replace(['/', '.'], "_"));
    let (compiler, standard) = if source.ends_with("pp") { ("c++", "-std=c++17") } else { ("cc", "-std=gnu11") };
    let mut command = Command::new(compiler);
    command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1", standard]);
    command.args(["-Iinclude", "-Ibindings/cpp", "-o"]).arg(&program).arg(root().join("tests").join(source));
    run(command.arg(library).args(SYSTEM_LIBRARIES).current_dir(root()));
    program
}
