//! Building and running C and C++ programs against the library that `cargo test` has just built.
#![allow(dead_code)] // each test file uses its share

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The system libraries that a static link needs on Linux, as the README tells users.
pub const SYSTEM_LIBRARIES: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo put libdpb.a and libdpb.so for this very test: beside its executable.
pub fn library_dir() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// Is this tool here? If not, says "skipped", and fails where DPB_REQUIRE_TOOLCHAINS=1 (CI).
pub fn have(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").output().is_ok() || Command::new(tool).arg("version").output().is_ok();
    if !found {
        skip(&format!("{tool} not found"));
    }
    found
}

/// Says "skipped: why", and fails where DPB_REQUIRE_TOOLCHAINS=1 (CI).
pub fn skip(why: &str) {
    assert!(std::env::var_os("DPB_REQUIRE_TOOLCHAINS").is_none_or(|v| v != "1"), "required: {why}");
    eprintln!("skipped: {why}");
}

#[derive(Clone, Copy, Debug)]
pub enum Link {
    Static,
    Shared,
}

/// Compiles one source file (path from the project's root) with warnings as errors and links it
/// with libdpb. `compiler` is cc or c++, `arguments` such as `-std=c11`.
pub fn build(compiler: &str, source: &str, arguments: &[&str], link: Link) -> PathBuf {
    let name = format!("{source}-{compiler}-{}-{link:?}", arguments.join("")).replace(['/', '.', '=', ' '], "_");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let libraries = library_dir();
    let mut command = Command::new(compiler);
    command.current_dir(root()).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]).args(arguments);
    command.args(["-Iinclude", "-Ibindings/cpp", source, "-xnone", "-o"]).arg(&program);
    match link {
        Link::Static => command.arg(libraries.join("libdpb.a")).args(SYSTEM_LIBRARIES),
        Link::Shared => {
            // The soname is libdpb.so.0: give the loader a file of that name.
            let named = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("shared");
            std::fs::create_dir_all(&named).unwrap();
            let (fresh, place) = (named.join(format!("libdpb.{}", std::process::id())), named.join("libdpb.so.0"));
            std::fs::copy(libraries.join("libdpb.so"), &fresh).unwrap();
            std::fs::rename(&fresh, &place).unwrap();
            command.arg(&place).arg(format!("-Wl,-rpath,{}", named.display())).arg("-lm")
        }
    };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a program that must succeed and returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
    text(&output)
}

/// All that a program printed.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// `go` with these arguments in this directory of ours, linking the static library of this very test.
/// None without Go 1.24 (the first with `#cgo noescape`) or a C compiler.
pub fn go(directory: &str, arguments: &[&str]) -> Option<Command> {
    if !have("go") || !have("cc") {
        return None;
    }
    let version = Command::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output().unwrap();
    let version = text(&version);
    let minor = version.strip_prefix("go1.").and_then(|rest| rest.split(['.', '\n']).next()?.parse::<u32>().ok());
    if minor.is_none_or(|minor| minor < 24) {
        skip(&format!("go 1.24 not found, only {version}"));
        return None;
    }
    // Go does not watch the header: tell its build cache by a flag that the header has changed.
    let header = std::fs::read(root().join("include/dpb.h")).unwrap();
    let hash = header
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut command = Command::new("go");
    command.args(arguments).current_dir(root().join(directory)).env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "1");
    command.env("CGO_CFLAGS", format!("-g -O2 -DDPB_HEADER=0x{hash:x}"));
    command.env("CGO_LDFLAGS", format!("{} {}", library_dir().join("libdpb.a").display(), SYSTEM_LIBRARIES.join(" ")));
    Some(command)
}
