//! Builds and runs C and C++ programs against the library that `cargo test` has just built.
#![allow(dead_code, reason = "tests and benches use a part each")]

pub mod coins;
pub mod http;
pub mod requests;
pub mod sealed;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU8, Ordering};

/// The system libraries that a static link needs on Linux, as bindings/c/README.md tells users.
pub const SYSTEM_LIBRARIES: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The directory of this build's libdpb.a and libdpb.so, which is that of the test's executable.
pub fn library_dir() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// target/<profile>/examples/NAME. The test itself is in target/<profile>/deps.
pub fn example(name: &str) -> PathBuf {
    let binary = library_dir().parent().unwrap().join("examples").join(name);
    let age = |path: &Path| path.metadata().and_then(|m| m.modified()).expect("cargo build --example");
    let source = root().join(format!("examples/{name}.rs"));
    assert!(age(&binary) >= age(&source), "stale: `cargo test --test` builds no examples, `cargo test` does");
    binary
}

/// Whether this tool is installed. If not, prints "skipped", and fails if DPB_REQUIRE_TOOLCHAINS=1 (CI).
pub fn have(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").output().is_ok() || Command::new(tool).arg("version").output().is_ok();
    if !found {
        skip(&format!("{tool} not found"));
    }
    found
}

/// Whether this C++ header is installed. If not, prints "skipped" with the Debian package that contains it.
pub fn have_header(header: &str, package: &str) -> bool {
    let found = finds_header(header);
    if !found {
        skip(&format!("{header} not found (apt-get install {package})"));
    }
    found
}

/// Whether the C++ compiler finds this header.
pub fn finds_header(header: &str) -> bool {
    let preprocess = ["-E", "-xc++", "-include", header, "/dev/null"];
    Command::new("c++").args(preprocess).output().is_ok_and(|output| output.status.success())
}

/// Compiles with hiredis and TLS: the system's or, as that of Debian 12 has no TLS, the one that .ci/run builds.
pub fn hiredis_with_tls() -> Option<Vec<&'static str>> {
    const OWN: &str = "target/tools/hiredis/libhiredis.so";
    if finds_header("hiredis/hiredis_ssl.h") {
        return Some(vec!["-lhiredis_ssl", "-lhiredis", "-lssl", "-lcrypto"]);
    }
    root().join(OWN).exists().then(|| vec!["-isystem", "target/tools", OWN])
}

/// An address of this computer that no other process uses, and a port that is not among those that programs get by chance.
pub fn own_address() -> (String, String) {
    static NUMBER: AtomicU8 = AtomicU8::new(100);
    let [.., high, low] = std::process::id().to_be_bytes();
    (format!("127.{}.{high}.{low}", NUMBER.fetch_add(1, Ordering::Relaxed)), "7379".into())
}

/// Prints "skipped: why". Fails if DPB_REQUIRE_TOOLCHAINS=1 (CI).
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
            // The soname is libdpb.so.0, so the loader needs a file of that name.
            let named = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("shared");
            std::fs::create_dir_all(&named).unwrap();
            let copy = format!("libdpb.{}.{:?}", std::process::id(), std::thread::current().id()); // for parallel tests
            let (fresh, place) = (named.join(copy), named.join("libdpb.so.0"));
            std::fs::copy(libraries.join("libdpb.so"), &fresh).unwrap();
            std::fs::rename(&fresh, &place).unwrap();
            command.arg(&place).arg(format!("-Wl,-rpath,{}", named.display())).arg("-lm")
        }
    };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a program that must succeed. Returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
    text(&output)
}

/// Runs a test program that must succeed; several times for `.ci/repeat`, which sets DPB_REPEAT. Returns its last output.
pub fn run_program(program: &Path) -> String {
    (1..repeats()).for_each(|_| drop(run(&mut Command::new(program))));
    run(&mut Command::new(program))
}

/// How often tests without a test seed are to be repeated.
pub fn repeats() -> u32 {
    std::env::var("DPB_REPEAT").map_or(1, |times| times.parse().expect("DPB_REPEAT is a number"))
}

/// The library's version. The test package has none of its own.
pub fn version() -> String {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"')).unwrap().to_owned()
}

/// `make` with a build directory that no other test uses.
pub fn make(build: &str) -> Command {
    let mut make = Command::new("make");
    make.current_dir(root()).env_remove("MAKEFLAGS").arg(format!("CARGO={}", env!("CARGO")));
    make.arg(format!("BUILD={}", Path::new(env!("CARGO_TARGET_TMPDIR")).join(build).display()));
    make
}

/// Sorts the names and removes duplicates.
pub fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

/// The global symbols that a file defines, each with nm's letter.
pub fn defined(file: &Path, dynamic: bool) -> Vec<String> {
    let mut nm = Command::new("nm");
    nm.args(["-g", "--defined-only", "--format=posix"]).args(dynamic.then_some("-D")).arg(file);
    let lines = run(&mut nm);
    let words = lines.lines().filter_map(|line| line.split_once(' '));
    sorted(words.map(|(name, rest)| format!("{name} {}", &rest[..1])).collect())
}

/// All output of a program.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// `go` with these arguments in this directory of the project, linked with the static library of this test's build.
/// Returns None without Go 1.24 (the first version with `#cgo noescape`) or without a C compiler.
pub fn go(directory: &str, arguments: &[&str]) -> Option<Command> {
    let library = library_dir().join("libdpb.a");
    go_linked(&format!("{} {}", library.display(), SYSTEM_LIBRARIES.join(" ")), directory, arguments)
}

/// The same, linked with other libraries.
pub fn go_linked(libraries: &str, directory: &str, arguments: &[&str]) -> Option<Command> {
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
    let mut command = Command::new("go");
    command.arg(arguments[0]);
    if arguments[0] != "mod" {
        // Only the linker gets the libraries. CGO_LDFLAGS is part of the keys in Go's cache, so for each checkout Go would
        // compile all packages that use C anew, net/http among them. What pkg-config answers is no part of the keys:
        // another checkout's library would be linked.
        command.args(["-tags=dpb_system".to_owned(), format!("-ldflags=-extldflags '{libraries}'")]);
    }
    command.args(&arguments[1..]).current_dir(root().join(directory)).env("CGO_ENABLED", "1");
    without_pkg_config(&mut command);
    Some(command)
}

/// The Go module asks pkg-config for an installed library. `true` answers nothing.
pub fn without_pkg_config(command: &mut Command) -> &mut Command {
    command.env("PKG_CONFIG", "true").env("GOTOOLCHAIN", "local")
}

/// As `go`, for modules with dependencies, which it downloads once. Returns None if that fails.
pub fn go_with_modules(directory: &str, arguments: &[&str]) -> Option<Command> {
    let command = go(directory, arguments)?;
    if !go(directory, &["mod", "download"])?.output().unwrap().status.success() {
        skip("no modules for Go: go mod download fails");
        return None;
    }
    Some(command)
}

/// An empty directory with this name, for the tests of one file.
pub fn empty_directory(file: &str, name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Copies a directory of the project to a temporary directory with this name. Leaves out the libraries, which git
/// ignores too.
pub fn copy_of(directory: &str, name: &str) -> PathBuf {
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&copy);
    let mut stack = vec![PathBuf::new()];
    while let Some(below) = stack.pop() {
        std::fs::create_dir_all(copy.join(&below)).unwrap();
        for entry in std::fs::read_dir(root().join(directory).join(&below)).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                stack.push(path);
            } else if !entry.file_name().to_str().unwrap().starts_with("libdpb.") {
                std::fs::copy(entry.path(), copy.join(path)).unwrap();
            }
        }
    }
    copy
}

/// The code blocks in this language of a page of the project, in order.
pub fn snippets(page: &str, language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(root().join(page)).unwrap();
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(tongue) = line.strip_prefix("```") {
            let block: String =
                lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
            if tongue == language {
                found.push(block);
            }
        }
    }
    assert!(!found.is_empty(), "that page has no {language} any more");
    found
}

/// The policies by their constructors in the header: "se" for dpb_new_se.
pub fn policies() -> Vec<String> {
    let header = std::fs::read_to_string(root().join("include/dpb.h")).unwrap();
    let constructors = header.split("dpb_status dpb_new_").skip(1).filter_map(|rest| rest.split_once('('));
    let words = |rest: &str| rest.split_whitespace().collect::<Vec<_>>().join(" ");
    let bandits =
        constructors.filter(|(_, rest)| words(rest).starts_with("const dpb_config *config, dpb_bandit **out,"));
    bandits.map(|(name, _)| name.to_owned()).collect()
}

/// The names of all functions that the header declares.
pub fn functions() -> Vec<String> {
    let header = std::fs::read_to_string(root().join("include/dpb.h")).unwrap();
    // The header's own (static inline) functions come last, and the library does not export them.
    let code = without_comments(&header);
    let (code, _) = code.split_once("static inline").unwrap();
    let mut names = Vec::new();
    for (at, _) in code.match_indices('(') {
        let name = code[..at].rsplit(|c: char| !is_word(c)).next().unwrap();
        if name.starts_with("dpb_") {
            names.push(name.to_owned());
        }
    }
    assert!(names.len() > 40, "{names:?}");
    names
}

/// The functions that this code does not use. A function with `_sized` or without counts as used if either is.
pub fn unused(code: &str, prefix: &str) -> Vec<String> {
    let mut names = functions();
    names.retain(|name| {
        let name = name.trim_end_matches("_sized");
        !["", "_sized"].iter().any(|more| uses(code, &format!("{prefix}{name}{more}")))
    });
    names
}

/// Removes comments and strings from C, C++ or Go code.
pub fn without_comments(source: &str) -> String {
    let mut code = String::new();
    // Quotes that do not end a string.
    let source = source.replace(r"\\", "").replace(r#"\""#, "").replace(r#"'"'"#, "");
    let mut rest = source.as_str();
    while let Some(at) = rest.find(['/', '"', '`']) {
        code += &rest[..at];
        rest = &rest[at..];
        let end = if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map(|end| end + 4)
        } else if rest.starts_with("//") {
            rest.find('\n')
        } else if let Some(text) = rest.strip_prefix('"') {
            text.find('"').map(|end| end + 2)
        } else if let Some(text) = rest.strip_prefix('`') {
            text.find('`').map(|end| end + 2)
        } else {
            code.push('/');
            Some(1)
        };
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    code + rest
}

/// Whether the code contains this word as a whole.
pub fn uses(code: &str, word: &str) -> bool {
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
