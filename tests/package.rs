//! The installation of `make install`, as users link it. It needs a build of the library with all optimisations, so
//! these are long tests.
#![cfg(target_os = "linux")]

use crate::support::{self, defined, empty_directory, functions, have, make, root, run, snippets, sorted, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Files are installed below this prefix and then moved.
const FIRST: &str = "/opt";

/// The library's directory below the prefix: `lib` itself, or further down.
const PLAIN: &str = "plain/lib";
const DEEP: &str = "deep/lib/of/its/own";

/// Where the two prefixes are after the move. None without the tools to build them.
fn installed() -> Option<&'static Path> {
    static INSTALLED: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let tools = ["make", "cc", "ld.bfd", "objcopy", "nm", "readelf"];
        if !tools.into_iter().all(have) {
            return None;
        }
        let place = empty_directory("package", "install");
        for (prefix, below) in [PLAIN, DEEP].map(|library| library.split_once('/').unwrap()) {
            let destination = format!("DESTDIR={}", place.join("stage").display());
            let layout = [format!("PREFIX={FIRST}/{prefix}"), format!("LIBDIR={below}")];
            run(make("package").arg("install").arg(destination).args(layout));
        }
        std::fs::rename(place.join("stage").join(&FIRST[1..]), place.join("moved")).unwrap();
        Some(place.join("moved"))
    });
    INSTALLED.as_deref()
}

/// The library with its faults, made in the same way.
static HOOKED: LazyLock<PathBuf> = LazyLock::new(|| {
    run(make("package-hooked").args(["PACKAGE=dpb-hooked", "all"]));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("package-hooked/libdpb.a")
});

fn dynamic_section(file: &Path) -> String {
    run(Command::new("readelf").arg("-dW").arg(file))
}

/// Limit for the archive. (Segments with all functions and dp-linear made it grow from 1.0 to 1.2 MiB, a fleet with one
/// noise to 1.27, states that move and DP-TT to 1.39, values and positions in a request to 1.47, the node of a fleet to
/// 1.75, costs, parts and a learned clip to 1.81, that clip in fleets and the verdict of a test to 1.86, several winners
/// and a lift to 1.9, private features, tables and statements to 2.09.)
const MOST_BYTES: u64 = 2_200_000;

#[test]
#[ignore = "builds the library with all optimisations"]
fn exports_the_interface_and_nothing_else() {
    let Some(installed) = installed() else { return };
    let archive = installed.join(PLAIN).join("libdpb.a");
    let size = archive.metadata().unwrap().len();
    println!("libdpb.a: {size} bytes");
    assert!(size <= MOST_BYTES, "{size}");
    assert_eq!(defined(&archive, false), sorted(functions().iter().map(|name| format!("{name} T")).collect()));

    let shared = installed.join(PLAIN).join("libdpb.so");
    let versioned = functions().into_iter().map(|name| format!("{name}@@DPB_0 T"));
    let mut shown = defined(&shared, true);
    shown.retain(|name| !name.ends_with(" A")); // leave out the version itself
    assert_eq!(shown, sorted(versioned.collect()));
    let dynamic = dynamic_section(&shared);
    assert!(dynamic.contains("[libdpb.so.0]"), "{dynamic}");
    // Rust's own library needs glibc 2.34 if it was built with that or newer; the library may need nothing newer.
    let symbols = run(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(&shared));
    let versions = symbols.split("GLIBC_2.").skip(1).filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok().map(|minor| (minor, rest.lines().next().unwrap_or_default()))
    });
    let newest = versions.max().expect("a shared library that needs libc");
    assert!(newest.0 <= 34, "needs glibc 2.{}", newest.1);
    // Older systems have parts of libc in separate libraries.
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let known = ["libc.so", "libm.so", "libgcc_s.so", "libpthread.so", "libdl.so", "ld-linux"];
    assert!(needed.clone().count() > 1 && needed.clone().all(|line| known.iter().any(|name| line.contains(name))));
    assert!(installed.join(PLAIN).join("libdpb.so.0").exists(), "the name that the loader looks for");
}

#[test]
#[ignore = "builds the library with all optimisations"]
fn installed_files_contain_no_absolute_paths() {
    let Some(installed) = installed() else { return };
    for name in ["pkgconfig/dpb.pc", "pkgconfig/dpb-static.pc", "cmake/dpb/dpb-config.cmake"] {
        let text = std::fs::read_to_string(installed.join(PLAIN).join(name)).unwrap();
        assert!(!text.contains(FIRST) && !text.contains('@'), "{text}");
    }
}

/// `make check` passes, and `make uninstall` leaves no file of an installation, and others' files alone.
#[test]
#[ignore = "builds the library with all optimisations"]
fn make_check_and_uninstall_work() {
    if installed().is_none() {
        return;
    }
    assert!(run(make("package").arg("check")).matches("passed: ").count() >= 15);
    let place = empty_directory("package", "uninstall");
    std::fs::create_dir_all(place.join("lib/pkgconfig")).unwrap();
    std::fs::write(place.join("lib/pkgconfig/other.pc"), "").unwrap();
    for what in ["install", "uninstall"] {
        run(make("package").arg(what).arg(format!("PREFIX={}", place.display())));
        let files = run(Command::new("find").arg(&place).args(["!", "-type", "d"]));
        assert_eq!(files.lines().count(), if what == "install" { 14 } else { 1 }, "{files}");
    }
}

/// A plug-in that links the library exports its own functions only.
#[test]
#[ignore = "builds the library with all optimisations"]
fn a_plug_in_does_not_export_the_library() {
    let Some(installed) = installed() else { return };
    let place = empty_directory("package", "plugin");
    let source = "#include <dpb.h>\nuint32_t plugin(void);\nuint32_t plugin(void) { return dpb_abi_version(); }\n";
    std::fs::write(place.join("plugin.c"), source).unwrap();
    for compiler in ["gcc", "clang"].into_iter().filter(|compiler| have(compiler)) {
        let mut cc = Command::new(compiler);
        cc.current_dir(&place).args(["-shared", "-fPIC", "plugin.c", "-o", "plugin.so"]);
        cc.arg("-I").arg(installed.join("plain/include")).arg(installed.join(PLAIN).join("libdpb.a")).arg("-lm");
        run(cc.args(["-Wl,-z,defs"]));
        assert_eq!(defined(&place.join("plugin.so"), true), ["plugin T"]);
    }
}

/// Every compiler, linker and link order with another Rust library, one that catches its panics and one that was built
/// to abort.
#[test]
#[ignore = "builds the library with all optimisations"]
fn links_beside_another_rust_library() {
    if installed().is_none() {
        return;
    }
    let place = empty_directory("package", "neighbour");
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    for (strategy, deals) in [("unwind", "contained"), ("abort", "aborted")] {
        let neighbour = place.join(format!("lib{strategy}.a"));
        let mut rustc = Command::new(&rustc);
        rustc.args(["--edition=2024", "--crate-type=staticlib", "-Clto=fat", "-Copt-level=2"]);
        rustc.arg(format!("-Cpanic={strategy}")).arg("tests/c/neighbour.rs").arg("-o").arg(&neighbour);
        run(rustc.current_dir(root()));
        for compiler in ["gcc", "clang"].into_iter().filter(|compiler| have(compiler)) {
            for linker in ["bfd", "gold", "lld"].into_iter().filter(|linker| have(&format!("ld.{linker}"))) {
                for order in [[&neighbour, &*HOOKED], [&*HOOKED, &neighbour]] {
                    let program = place.join("program");
                    let mut cc = Command::new(compiler);
                    cc.current_dir(root()).args(["-Wall", "-Wextra", "-Werror", "-Iinclude", "tests/c/neighbour.c"]);
                    cc.args(order).arg("-o").arg(&program).arg(format!("-fuse-ld={linker}"));
                    run(cc.args(["-Wl,--fatal-warnings", "-lpthread", "-lm", "-ldl"]));
                    let said = Command::new(&program).output().unwrap();
                    assert!(said.status.success(), "{cc:?}: {}\n{}", said.status, text(&said));
                    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), deals, "{cc:?}");
                    let segments = run(Command::new("readelf").arg("-lW").arg(&program));
                    let stack = segments.lines().find(|line| line.contains("GNU_STACK")).unwrap();
                    assert!(!stack.contains('E'), "{cc:?} makes a stack that can be executed");
                }
            }
        }
    }
}

/// For musl, and for another processor: the C tests pass there too.
fn made_for(target: &str, tools: &[&str], compiler: &str, emulator: &[&str]) {
    let emulated = emulator.first().is_none_or(|emulator| have(emulator));
    if cfg!(not(target_arch = "x86_64")) || installed().is_none() || !have(compiler) || !emulated || !have("pkg-config")
    {
        return;
    }
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let libraries = run(Command::new(&rustc).args(["--print", "target-libdir", "--target", target]));
    if !Path::new(libraries.trim()).exists() {
        eprintln!("skipped: rustup target add {target}"); // it cannot be had from apt-get
        return;
    }
    let place = empty_directory("package", target);
    for package in ["dpb", "dpb-hooked"] {
        let mut make = make(&format!("{target}-{package}"));
        make.args(tools).args([format!("TARGET={target}"), format!("PACKAGE={package}"), "install".into()]);
        make.arg(format!("RUSTC={}", rustc.display())).arg(format!("DESTDIR={}", place.display()));
        run(make.arg(format!("PREFIX=/{package}")));
    }
    let archive = place.join("dpb/lib/libdpb.a");
    assert_eq!(defined(&archive, false), sorted(functions().iter().map(|name| format!("{name} T")).collect()));
    let size = archive.metadata().unwrap().len();
    println!("{target}: {size} bytes");
    // The unwinder takes 141,672 bytes; the rest has the same limit everywhere.
    let unwinder = if target.ends_with("musl") { 142_000 } else { 0 };
    assert!(size <= MOST_BYTES + unwinder, "{size}");

    // The page's commands, with an empty home directory.
    std::fs::copy(root().join(C), place.join("ad.c")).unwrap();
    let flags = format!("CARGO={} RUSTC={}", env!("CARGO"), rustc.display());
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{target}-dpb"));
    for block in snippets("bindings/c/README.md", "sh")
        .iter()
        .filter(|block| block.contains(tools[0].split_once('=').unwrap().1))
    {
        let mut sh = Command::new("sh");
        sh.args(["-e", "-c", block]).env("HOME", &place).env("MAKEFLAGS", format!("{flags} BUILD={}", build.display()));
        let installs = block.contains("make install");
        let said = run(sh.current_dir(if installs { root() } else { &place }));
        assert!(installs || said.contains("privacy loss"), "{said}");
    }

    let tests = ["arms", "bad_input", "counter", "fork", "grow", "se", "shuffle", "snapshot", "stopping", "threads"];
    for (package, test) in tests.map(|test| ("dpb", test)).into_iter().chain([("dpb-hooked", "panic")]) {
        let library = place.join(package).join("lib");
        for how in ["-static $(pkg-config --cflags --libs dpb-static)", "$(pkg-config --cflags --libs dpb)"] {
            let source = root().join(format!("tests/c/{test}.c"));
            let rpath = format!("-Wl,-rpath,{}", library.display());
            let command = format!("{compiler} -std=gnu11 {} {how} {rpath} -o {test}", source.display());
            let mut sh = Command::new("sh");
            sh.args(["-e", "-c", &command]).current_dir(&place);
            run(sh.env("PKG_CONFIG_PATH", library.join("pkgconfig")));
            let program = place.join(test);
            let line: Vec<_> = emulator.iter().map(AsRef::as_ref).chain([program.as_os_str()]).collect();
            run(Command::new(line[0]).args(&line[1..]));
        }
    }
}

#[test]
#[ignore = "builds the library with all optimisations"]
fn made_for_musl() {
    made_for("x86_64-unknown-linux-musl", &["CC=musl-gcc"], "musl-gcc", &[]);
}

#[test]
#[ignore = "builds the library with all optimisations"]
fn made_for_another_processor() {
    let emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];
    let compiler = "aarch64-linux-gnu-gcc";
    made_for("aarch64-unknown-linux-gnu", &["CROSS=aarch64-linux-gnu-"], compiler, &emulator);
}

pub const MINGW: &str = "x86_64-w64-mingw32-";

/// What runs a command that calls Wine, and returns its output. It keeps its files in `place`, and finds DLLs in `dlls`, a
/// list with semicolons. None without Wine and MinGW.
pub fn wine(place: &Path, dlls: &str) -> Option<impl Fn(&mut Command) -> String + use<>> {
    let cc = format!("{MINGW}gcc");
    if !have(&cc) || !have("wine") {
        return None;
    }
    // Windows 10 has this file, and Wine 8 lacks it.
    let mut still = Command::new(cc);
    still.current_dir(place).arg("-shared").arg(root().join("tests/support/bcryptprimitives.c"));
    run(still.args(["-o", "bcryptprimitives.dll", "-ladvapi32"]));
    let runtime = "/usr/x86_64-w64-mingw32/lib;/usr/lib/gcc/x86_64-w64-mingw32/12-win32";
    let dlls = format!("{dlls};{};{runtime}", place.display());
    let prefix = place.join("wine");
    Some(move |command: &mut Command| {
        run(command.env("WINEPATH", &dlls).env("WINEPREFIX", &prefix).env("WINEDEBUG", "-all"))
    })
}

/// Under Wine: the C programs of `make check`, then C++ and Go with the library that pkg-config finds.
#[test]
#[ignore = "builds the library with all optimisations"]
fn made_for_windows() {
    const TARGET: &str = "x86_64-pc-windows-gnu";
    let [cc, cxx] = ["gcc", "g++"].map(|tool| format!("{MINGW}{tool}"));
    if !have(&cxx) || !have("pkg-config") {
        return;
    }
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let libraries = run(Command::new(&rustc).args(["--print", "target-libdir", "--target", TARGET]));
    if !Path::new(libraries.trim()).exists() {
        eprintln!("skipped: rustup target add {TARGET}");
        return;
    }
    let (place, _) = programs(TARGET);
    let Some(wine) = wine(&place, "bin") else { return };
    let mut make = make(TARGET);
    make.args(["check", "EMULATOR=wine"]).args([format!("TARGET={TARGET}"), format!("CROSS={MINGW}")]);
    let said = wine(make.arg(format!("RUSTC={}", rustc.display())));
    assert!(said.matches("passed: ").count() >= 14, "{said}");

    // `make check` has installed it here.
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(TARGET).join("check");
    for how in ["-static $(pkg-config --cflags --libs dpb-static)", "$(pkg-config --cflags --libs dpb)"] {
        let mut sh = Command::new("sh");
        sh.args(["-e", "-c", &format!("{cxx} -std=c++17 {}/ad.cpp {how} -o ad.exe && wine ./ad.exe", place.display())]);
        assert!(
            wine(sh.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).current_dir(&prefix))
                .contains("epsilon must be")
        );
    }
    let libraries = format!("-L{} -ldpb", prefix.join("lib").display());
    let Some(mut go) = support::go_linked(&libraries, "bindings/go", &["build", "-o"]) else { return };
    std::fs::write(place.join("main.go"), &snippets("bindings/go/README.md", "go")[0]).unwrap();
    run(go.arg(prefix.join("go.exe")).arg(place.join("main.go")).env("GOOS", "windows").env("CC", &cc));
    assert!(wine(Command::new("wine").arg("go.exe").current_dir(&prefix)).contains("a click counts once"));
}

const C: &str = "examples/c/quickstart.c";
/// Its exceptions must pass, although libdpb catches its own panics.
const CPP: &str = r#"#include <dpb.hpp>
#include <iostream>
int main() try {
  dpb::Bandit bandit(dpb::Config(3, 1.0));
  if (bandit.select().arm < 3) dpb::Bandit(dpb::Config(3, -1.0));
} catch (const dpb::Error &error) {
  std::cout << error.what() << '\n';
}
"#;

/// A directory with ad.c and ad.cpp, and the expected output of each.
fn programs(name: &str) -> (PathBuf, [(&'static str, &'static str); 2]) {
    let place = empty_directory("package", name);
    std::fs::copy(root().join(C), place.join("ad.c")).unwrap();
    std::fs::write(place.join("ad.cpp"), CPP).unwrap();
    (place, [("c", "privacy loss of one reward: 1"), ("cpp", "epsilon must be")])
}

/// Whether it loads libdpb.so when it starts.
fn is_shared(program: &Path) -> bool {
    dynamic_section(program).contains("[libdpb.so.0]")
}

#[test]
#[ignore = "builds the library with all optimisations"]
fn pkg_config_finds_the_library() {
    let Some(installed) = installed() else { return };
    if !have("pkg-config") || !have("c++") {
        return;
    }
    let (place, programs) = programs("pkg-config");
    for (language, says) in programs {
        let compile = if language == "c" { "cc ad.c" } else { "c++ -std=c++17 ad.cpp" };
        let links = [
            ("$(pkg-config --cflags --libs dpb)", true),
            ("$(pkg-config --cflags --libs dpb-static)", false),
            ("-static $(pkg-config --static --cflags --libs dpb)", false),
        ];
        for (how, shared) in links {
            let command = format!("{compile} {how} -o ad && LD_LIBRARY_PATH=$(pkg-config --variable=libdir dpb) ./ad");
            let mut sh = Command::new("sh");
            sh.args(["-e", "-c", &command]).current_dir(&place);
            let library = if shared { DEEP } else { PLAIN };
            let said = run(sh.env("PKG_CONFIG_PATH", installed.join(library).join("pkgconfig")));
            assert!(said.contains(says), "{said}");
            assert_eq!(is_shared(&place.join("ad")), shared, "{command}");
        }
    }
}

#[test]
#[ignore = "builds the library with all optimisations"]
fn cmake_finds_the_library() {
    let Some(installed) = installed() else { return };
    if !have("cmake") || !have("c++") {
        return;
    }
    let (place, programs) = programs("cmake");
    let version = support::version();
    let (series, patch) = version.rsplit_once('.').unwrap();
    let (major, minor) = series.split_once('.').unwrap();
    let later = minor.parse::<u32>().unwrap() + 1;
    let describe = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(ad LANGUAGES C CXX)\n\
         find_package(dpb {series} REQUIRED)\nfind_package(dpb {version} EXACT REQUIRED)\n\
         foreach(target static shared dpb)\nadd_executable(c-${{target}} ad.c)\n\
         target_link_libraries(c-${{target}} dpb::${{target}})\nendforeach()\n\
         add_executable(cpp-cpp ad.cpp)\ntarget_link_libraries(cpp-cpp dpb::cpp)\n\
         foreach(other {major}.{later} {series}.{patch}1 {series}1 100)\n\
         find_package(dpb ${{other}} QUIET)\nif(dpb_FOUND)\nmessage(FATAL_ERROR \"took for ${{other}}\")\nendif()\n\
         endforeach()\n"
    );
    std::fs::write(place.join("CMakeLists.txt"), describe).unwrap();
    for shared in [false, true] {
        let build = place.join(format!("shared-{shared}"));
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&place).arg("-B").arg(&build).arg(format!("-DBUILD_SHARED_LIBS={shared}"));
        run(configure.arg(match shared {
            false => format!("-DCMAKE_PREFIX_PATH={}", installed.join("plain").display()),
            true => format!("-Ddpb_DIR={}", installed.join(DEEP).join("cmake/dpb").display()),
        }));
        run(Command::new("cmake").arg("--build").arg(&build));
        for (target, wants) in [("c-static", false), ("c-shared", true), ("c-dpb", shared), ("cpp-cpp", shared)] {
            let said = run(&mut Command::new(build.join(target)));
            let language = target.split('-').next().unwrap();
            let (_, says) = programs.iter().find(|(name, _)| *name == language).unwrap();
            assert!(said.contains(says), "{said}");
            assert_eq!(is_shared(&build.join(target)), wants, "{target} with BUILD_SHARED_LIBS={shared}");
        }
    }
}

/// The commands on the pages, in order, with an empty home directory.
#[test]
#[ignore = "builds the library with all optimisations"]
fn the_commands_on_the_pages_work() {
    if installed().is_none() || !have("pkg-config") || !have("cmake") {
        return;
    }
    let (home, _) = programs("home");
    let sh = |place: &Path, block: &str| {
        let mut sh = Command::new("sh");
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
        sh.env("MAKEFLAGS", format!("CARGO={} BUILD={}", env!("CARGO"), build.display()));
        sh.args(["-e", "-c", block]).current_dir(place).env("HOME", &home);
        run(sh.env("CMAKE_PREFIX_PATH", home.join("dpb")).env("PKG_CONFIG_PATH", home.join("dpb/lib/pkgconfig")))
    };
    for page in ["README.md", "bindings/c/README.md"] {
        let _ = std::fs::remove_dir_all(home.join("dpb"));
        let blocks = snippets(page, "sh").into_iter();
        let (install, link): (Vec<_>, Vec<_>) = blocks
            .filter(|block| block.contains("make install") || block.contains("pkg-config"))
            .filter(|block| !block.contains("TARGET="))
            .partition(|block| block.contains("make install"));
        assert!(install.len() == 1 && !link.is_empty(), "{page}");
        sh(root(), &install[0]);
        for block in link {
            assert!(sh(&home, &block).contains("privacy loss"), "{page}: {block}");
        }
    }
    std::fs::write(home.join("CMakeLists.txt"), &snippets("bindings/c/README.md", "cmake")[0]).unwrap();
    assert!(sh(&home, "cmake -B build && cmake --build build && build/ad").contains("privacy loss"));

    // The guide's tasks, each in an empty directory. `the_log_of_the_guide` has those of `plan`.
    let _ = std::fs::remove_file(home.join("libdpb"));
    std::os::unix::fs::symlink(root().canonicalize().unwrap(), home.join("libdpb")).unwrap();
    let [install] = &snippets("docs/guide.md", "sh")[..] else { panic!("one block") };
    sh(&home, install);
    let tasks = [
        ("docs/guide/ad-service.md", "ads.cpp", "cpp", ": showed ad "),
        ("docs/guide/placements.md", "main.go", "go", "500 decisions in 500 placements"),
        ("docs/guide/features.md", "bidder.cpp", "cpp", "phone"),
        ("docs/guide/evaluation.md", "evaluate.cpp", "cpp", "+-"),
        ("docs/guide/ab-test.md", "test.cpp", "cpp", " is the best of 3, after "),
    ];
    for (page, file, language, says) in tasks {
        let mut blocks = snippets(page, "sh").into_iter().filter(|block| !block.contains("--example plan"));
        let (Some(block), None) = (blocks.next(), blocks.next()) else { panic!("{page}: one block") };
        if language == "go" && !have("go") {
            continue;
        }
        let place = home.join("guide").join(file);
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("CMakeLists.txt"), &snippets("docs/guide/ad-service.md", "cmake")[0]).unwrap();
        std::fs::write(place.join(file), &snippets(page, language)[0]).unwrap();
        let said = sh(&place, &block);
        assert!(said.contains(says), "{file}: {said}");
    }
}

/// Another module vendors a release of the Go module: it needs no other file of the project, and detects a library of
/// another version. The same module works with an installed library.
#[test]
#[ignore = "builds the library with all optimisations"]
fn go_needs_no_rust() {
    let Some(installed) = installed() else { return };
    if support::go("bindings/go", &["version"]).is_none() || !have("pkg-config") {
        return;
    }
    let release = support::copy_of("bindings/go", "package/go");
    let platform = run(Command::new("go").args(["env", "GOOS", "GOARCH"])).trim().replace('\n', "_");
    let library = release.join("internal/lib").join(platform);
    run(make("package").arg("go").arg(format!("GO_LIBRARY={}", library.display())));

    const PATH: &str = "github.com/libdpb/libdpb/bindings/go";
    let consumer = empty_directory("package", "go_consumer");
    let require = format!("require {PATH} v0.0.0\n\nreplace {PATH} => {}\n", release.display());
    std::fs::write(consumer.join("go.mod"), format!("module consumer\n\ngo 1.24\n\n{require}")).unwrap();
    std::fs::write(consumer.join("main.go"), &snippets("bindings/go/README.md", "go")[0]).unwrap();
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(&consumer).env("GOPROXY", "off").env("GOFLAGS", "").env("GOTOOLCHAIN", "local");
        go.env_remove("CGO_LDFLAGS").env("CGO_ENABLED", "1");
        go
    };
    run(&mut go(&["mod", "vendor"]));
    std::fs::remove_dir_all(&release).unwrap();
    run(&mut go(&["build", "-mod=vendor", "-o", "bundled"]));
    assert!(run(&mut Command::new(consumer.join("bundled"))).contains("a click counts once"));
    assert!(!is_shared(&consumer.join("bundled")));

    let vendored = consumer.join("vendor").join(PATH).join("internal/lib").join(library.file_name().unwrap());
    let stale = || run(&mut go(&["list", "-mod=vendor", "-f", "{{.Stale}}", PATH]));
    assert_eq!(stale(), "false\n");
    std::fs::write(vendored.join("libdpb.h"), "/* another */\n").unwrap();
    assert_eq!(stale(), "true\n", "go takes the old library");

    std::fs::remove_dir_all(vendored).unwrap();
    let mut build = go(&["build", "-mod=vendor", "-tags=dpb_system", "-o", "system"]);
    run(build.env("PKG_CONFIG_PATH", installed.join(PLAIN).join("pkgconfig")));
    let mut program = Command::new(consumer.join("system"));
    assert!(run(program.env("LD_LIBRARY_PATH", installed.join(PLAIN))).contains("a click counts once"));
    assert!(is_shared(&consumer.join("system")));
}

/// The version stands in Cargo.toml. A file that names it is here, with what is before it; or its comment or table has it
/// as an example, or it writes history.
#[test]
fn each_file_that_names_the_version_is_right() {
    const POMS: [&str; 5] = ["", "dpb/", "fleet/", "micrometer/", "openfeature/"];
    const EXAMPLES: [&str; 9] = [
        "CHANGELOG.md",
        "Cargo.lock", // cargo --locked checks it
        "bindings/cpp/dpb.hpp",
        "bindings/go/report.go",
        "bindings/java/dpb/src/main/java/io/github/libdpb/Bandit.java",
        "bindings/python/src/dpb/_library.py",
        "docs/support.md",
        "src/ffi/status.rs",
        "tests/header.rs",
    ];
    let places: [(&str, &[&str]); 15] = [
        ("Cargo.toml", &["\nversion = \""]),
        ("include/dpb.h", &["DPB_VERSION_STRING \""]),
        ("bindings/go/dpb.h", &["DPB_VERSION_STRING \""]),
        ("bindings/go/README.md", &["bindings/go/v"]),
        ("bindings/go/fleet/README.md", &["bindings/go/fleet/v"]),
        ("bindings/java/dpb/src/main/java/io/github/libdpb/Native.java", &["VERSION = \""]),
        ("docs/java.md", &["<version>"]),
        ("docs/publishing.md", &[" v", "`v", "go/v", "fleet/v", "prometheus/v", "openfeature/v", "libdpb-"]),
        ("examples/java/pom.xml", &["<dpb.version>"]),
        ("examples/java/prebid/pom.xml", &["<dpb.version>"]),
        ("packaging/README.md", &["libdpb-", "libdpb0_", "libdpb-dev_", "libdpb/", "bindings/go/v"]),
        ("packaging/bazel/MODULE.bazel", &["\"libdpb\",\n    version = \"", "libdpb-", "download/v"]),
        ("packaging/conan/conanfile.py", &["version = \""]),
        ("packaging/site/versions.json", &["[\""]),
        ("packaging/vcpkg/vcpkg.json", &["\"version\": \""]),
    ];
    let poms = POMS.map(|module| format!("bindings/java/{module}pom.xml"));
    let module = ["</artifactId>\n  <version>", "<artifactId>dpb-parent</artifactId>\n    <version>"];
    let places = || places.into_iter().chain(poms.iter().map(|pom| (pom.as_str(), &module[..])));
    let version = support::version();
    for (file, markers) in places() {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let named: Vec<_> = markers
            .iter()
            .flat_map(|marker| text.split(marker).skip(1))
            .filter(|after| after.starts_with(|c: char| c.is_ascii_digit()) || after.starts_with("@VERSION"))
            .map(|after| {
                after.split(|c: char| !"0123456789.@VERSION".contains(c)).next().unwrap().trim_end_matches('.')
            })
            .collect();
        assert!(!named.is_empty(), "{file} does not name the version after any of {markers:?}");
        for name in named {
            assert!(name == version || name == "@VERSION@", "{file} has version {name}, Cargo.toml {version}");
        }
    }
    let mut git = Command::new("git");
    git.current_dir(root()).args(["grep", "-lFw", "-e", &version, "--", "."]);
    let found = git.output().unwrap().stdout;
    for file in String::from_utf8(found).unwrap().lines().filter(|file| !EXAMPLES.contains(file)) {
        assert!(places().any(|(known, _)| known == file), "{file} names the version, and no test compares it");
    }
}
