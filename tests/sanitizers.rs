//! The C and C++ programs under AddressSanitizer on both sides of the boundary. Their code also runs with UBSan, and
//! the library with the standard library's checks of unsafe code. Threads run under ThreadSanitizer, which covers the
//! standard library's lock too. This needs no nightly toolchain: RUSTC_BOOTSTRAP lets a stable compiler accept the
//! flags.
#![cfg(target_os = "linux")]

use crate::support::{SYSTEM_LIBRARIES, go_linked, have, root, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Without the programs that limit the address space, of which the sanitizer reserves terabytes, and without those that
/// need a table or a hook.
const PROGRAMS: &[&str] = &[
    "c/arms.c",
    "c/bad_input.c",
    "c/central.c",
    "c/clock.c",
    "c/combine.c",
    "c/moving.c",
    "c/counter.c",
    "c/drift.c",
    "c/fork.c",
    "c/grow.c",
    "c/linear.c",
    "c/se.c",
    "c/segments.c",
    "c/shuffle.c",
    "c/fleet.c",
    "c/snapshot.c",
    "c/stopping.c",
    "c/users.c",
    "c/warnings.c",
    "cpp/test_wrapper.cpp",
];

#[test]
#[ignore = "two minutes: it builds the library anew"]
fn sanitizers_find_nothing() {
    if !have("cc") || !have("c++") || !have("nm") {
        return;
    }
    let (library, target) = with_asan();
    let symbols = run(Command::new("nm").arg(library));
    assert!(symbols.contains("U __asan_report_store8"), "the library is not instrumented");
    for program in PROGRAMS {
        let started = std::time::Instant::now();
        run(&mut Command::new(sanitized(program, library, target)));
        println!("{program}: {:.1?}", started.elapsed());
    }
}

/// The library writes nothing beyond the memory that Go gives it, also while other goroutines add arms.
#[test]
#[ignore = "two minutes: it builds the library anew"]
fn it_writes_within_gos_memory() {
    // Under the sanitizer Go allocates more than the tests of that allow.
    let arguments = ["test", "-asan", "-skip=Allocat|ArmsComeAndGo|ForgottenHandles", "-count=1", "-timeout=30m", "."];
    let (library, _) = with_asan();
    let libraries = format!("{} {}", library.display(), SYSTEM_LIBRARIES.join(" "));
    let Some(mut test) = go_linked(&libraries, "bindings/go", &arguments) else { return };
    run(test.env("ASAN_OPTIONS", "detect_leaks=0")); // bandits that are not closed are left to the garbage collector
}

/// Each ticket gets one reward, whichever thread reports it, and nothing is read while it is written.
#[test]
#[ignore = "a minute: it builds the library anew, and the standard library"]
fn threads_have_no_data_races() {
    if !have("cc") || !have("c++") {
        return;
    }
    let sysroot = PathBuf::from(run(Command::new("rustc").args(["--print", "sysroot"])).trim());
    let host = host();
    let runtime = sysroot.join(format!("lib/rustlib/{host}/lib/librustc-stable_rt.tsan.a"));
    if !sysroot.join("lib/rustlib/src/rust/library/std").exists() || !runtime.exists() {
        return eprintln!("skipped: no source of the standard library (rustup component add rust-src)");
    }
    // Without this, the sanitizer does not see the lock's slow path and reports false races.
    let (library, target) = instrumented("thread", &["-Zbuild-std"]);
    let object = target.join("threads.o");
    let mut cc = Command::new("cc");
    cc.args(["-fsanitize=thread", "-g", "-O1", "-std=c11", "-Iinclude", "-c", "tests/c/threads.c", "-o"]).arg(&object);
    run(cc.current_dir(root()));
    // Link rustc's runtime: a C compiler's own may be older.
    let program = target.join("threads");
    let mut link = Command::new("c++");
    link.arg(&object).arg("-Wl,--whole-archive").arg(runtime).arg("-Wl,--no-whole-archive").arg(library);
    run(link.args(SYSTEM_LIBRARIES).arg("-o").arg(&program));
    // With random addresses the sanitizer may find no space for its shadow memory.
    run(Command::new("setarch").arg("-R").arg(program));
}

fn host() -> String {
    let version = run(Command::new("rustc").arg("-vV"));
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// The library under AddressSanitizer, built once for all tests, and the directory that it was built in.
fn with_asan() -> &'static (PathBuf, PathBuf) {
    static BUILT: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    BUILT.get_or_init(|| instrumented("address", &[]))
}

/// The library under this sanitizer, and the directory that it was built in.
fn instrumented(sanitizer: &str, arguments: &[&str]) -> (PathBuf, PathBuf) {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sanitized-{sanitizer}"));
    let host = host();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--release", "-p", "dpb", "--crate-type", "staticlib", "--target", &host, "--target-dir"]);
    cargo.arg(&target).args(arguments).current_dir(root()).env("RUSTC_BOOTSTRAP", "1");
    let flags = format!("-Zsanitizer={sanitizer} -Cdebug-assertions -Cforce-frame-pointers");
    run(cargo.env("RUSTFLAGS", flags));
    (target.join(host).join("release/libdpb.a"), target)
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
