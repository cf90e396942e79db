//! Builds the wheel of the Python package, and runs its tests in a virtual environment.

use crate::support::{library_dir, root, run, skip, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "bindings/python";

/// The virtual environment of the tests for this Python, with what they need; made again if that changes. Returns None
/// without Python 3.9 or newer, or if pip cannot install.
fn environment(python: &str) -> Option<PathBuf> {
    let ask = "import sys; assert sys.version_info >= (3, 9); print(sys.implementation.cache_tag, sys.prefix)";
    let version = Command::new(python).args(["-c", ask]).output().ok().filter(|output| output.status.success());
    let Some(version) = version.map(|output| text(&output)) else {
        skip("python not found (3.9 or newer)");
        return None;
    };
    let needs = std::fs::read_to_string(root().join(PACKAGE).join("tests/requirements.txt")).unwrap();
    let name = version.split_whitespace().next().unwrap();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{name}"));
    let made = place.join("made");
    let of = version.clone() + &needs;
    if std::fs::read_to_string(&made).is_ok_and(|before| before == of) {
        return Some(place);
    }
    let succeeds = |command: &mut Command| {
        let output = command.output().unwrap();
        if !output.status.success() {
            skip(&format!("python: {command:?} fails: {}", text(&output).lines().last().unwrap_or("")));
        }
        output.status.success()
    };
    let pip = place.join("bin/pip");
    (succeeds(Command::new(python).args(["-m", "venv", "--clear"]).arg(&place))
        && succeeds(
            Command::new(pip)
                .args(["install", "--quiet", "--requirement"])
                .arg(root().join(PACKAGE).join("tests/requirements.txt")),
        ))
    .then(|| std::fs::write(made, of).unwrap())
    .map(|()| place)
}

/// Builds the wheel with the library of this build, and installs it.
fn install(environment: &Path) {
    let wheels = environment.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let mut wheel = Command::new(environment.join("bin/pip"));
    wheel.args(["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]).arg(&wheels);
    run(wheel.arg(root().join(PACKAGE)).env("DPB_LIBRARY", library_dir().join("libdpb_python.so")));
    let built: Vec<PathBuf> = std::fs::read_dir(&wheels).unwrap().map(|entry| entry.unwrap().path()).collect();
    let name = built[0].file_name().unwrap().to_str().unwrap();
    assert!(built.len() == 1 && name.contains("-py3-none-linux_"), "{built:?}");
    let mut install = Command::new(environment.join("bin/pip"));
    run(install.args(["install", "--quiet", "--no-deps", "--force-reinstall"]).arg(&built[0]));
}

/// `python -m` with these arguments, in the directory of the package.
fn module(environment: &Path, arguments: &[&str]) -> Command {
    let mut python = Command::new(environment.join("bin/python"));
    // Away from the sources, so that the tests import what is installed.
    python.arg("-m").args(arguments).current_dir(root().join(PACKAGE));
    python
}

#[test]
fn the_package_passes_its_tests() {
    let Some(environment) = environment("python3") else { return };
    install(&environment);
    run(&mut module(&environment, &["mypy", "src/dpb"]));
    run(&mut module(&environment, &["pytest", "-q", "-p", "no:cacheprovider"]));
}

/// The oldest Python and the newest one of this machine, PyPy and free-threaded ones.
#[test]
#[ignore = "installs numpy for each of them"]
fn the_package_passes_its_tests_with_every_python() {
    let names = (9..20)
        .map(|minor| format!("python3.{minor}"))
        .chain(["python3.13t", "python3.14t", "pypy3"].map(String::from));
    let mut found: Vec<String> = names.collect();
    if let Ok(versions) =
        std::fs::read_dir(Path::new(&std::env::var("HOME").unwrap_or_default()).join(".pyenv/versions"))
    {
        found.extend(versions.map(|version| version.unwrap().path().join("bin/python3").display().to_string()));
    }
    found.retain(|python| {
        let ask = "import sys; assert sys.version_info >= (3, 9)";
        Command::new(python).args(["-c", ask]).output().is_ok_and(|output| output.status.success())
    });
    if found.is_empty() {
        return skip("python not found (3.9 or newer)");
    }
    for python in found {
        let Some(environment) = environment(&python) else { continue };
        install(&environment);
        eprintln!("{python}: {}", run(&mut module(&environment, &["pytest", "-q", "-p", "no:cacheprovider"])));
    }
}
