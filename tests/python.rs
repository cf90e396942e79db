//! Builds the wheel of the Python package, and runs its tests in a virtual environment.

use crate::support::{SYSTEM_LIBRARIES, empty_directory, have, library_dir, root, run, skip, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "bindings/python";
/// The pages whose programs the package's tests run.
const PAGES: [&str; 3] = ["README.md", "docs/python.md", "bindings/python/README.md"];

/// What the tests need, and what the notebook and more tests need.
const NEEDS: &str = "bindings/python/tests/requirements.txt";
const NOTEBOOK_NEEDS: &str = "examples/python/requirements.txt";

/// The virtual environment for this Python with these requirements; made again if they change. Returns None without
/// Python 3.9 or newer, or if pip cannot install.
fn environment(python: &str, requirements: &[&str]) -> Option<PathBuf> {
    let ask = "import sys; assert sys.version_info >= (3, 9); print(sys.implementation.cache_tag, sys.prefix)";
    let version = Command::new(python).args(["-c", ask]).output().ok().filter(|output| output.status.success());
    let Some(version) = version.map(|output| text(&output)) else {
        skip("python not found (3.9 or newer)");
        return None;
    };
    let needs: String = requirements.iter().map(|path| std::fs::read_to_string(root().join(path)).unwrap()).collect();
    let name = version.split_whitespace().next().unwrap();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{name}-{}", requirements.len()));
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
    if !succeeds(Command::new(python).args(["-m", "venv", "--clear"]).arg(&place)) {
        return None;
    }
    for path in requirements {
        if !succeeds(Command::new(&pip).args(["install", "--quiet", "--requirement"]).arg(root().join(path))) {
            return None;
        }
    }
    std::fs::write(made, of).unwrap();
    Some(place)
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
    let pages = std::fs::read_to_string(root().join(PACKAGE).join("tests/test_pages.py")).unwrap();
    assert!(PAGES.iter().all(|page| pages.contains(&format!("\"{page}\""))));
    let Some(environment) = environment("python3", &[NEEDS]) else { return };
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
        let Some(environment) = environment(&python, &[NEEDS]) else { continue };
        install(&environment);
        eprintln!("{python}: {}", run(&mut module(&environment, &["pytest", "-q", "-p", "no:cacheprovider"])));
    }
}

/// The notebook runs, and the C++ program in it goes on from its snapshot. The tests run that need other packages.
#[test]
#[ignore = "installs pandas and others, and simulates for half a minute"]
fn the_notebook_runs() {
    let Some(environment) = environment("python3", &[NEEDS, NOTEBOOK_NEEDS]) else { return };
    install(&environment);
    run(&mut module(
        &environment,
        &["pytest", "-q", "-p", "no:cacheprovider", "tests/test_plan.py", "tests/test_bandit.py"],
    ));
    let place = empty_directory("python", "notebook");
    let notebook = root().join("examples/python/cost_of_privacy.ipynb");
    let script = "import nbclient, nbformat, sys; notebook = nbformat.read(sys.argv[1], 4); \
                  nbclient.NotebookClient(notebook, timeout=600, kernel_name='python3', \
                  resources={'metadata': {'path': sys.argv[2]}}).execute()";
    run(Command::new(environment.join("bin/python")).args(["-c", script]).arg(&notebook).arg(&place));
    let cells: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(notebook).unwrap()).unwrap();
    let cells = cells["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["outputs"].as_array().is_none_or(Vec::is_empty)), "committed without outputs");
    let text = |cell: &serde_json::Value| match &cell["source"] {
        serde_json::Value::Array(lines) => lines.iter().map(|line| line.as_str().unwrap()).collect(),
        text => text.as_str().unwrap().to_owned(),
    };
    let all: String = cells.iter().map(text).collect();
    let (_, program) = all.split_once("```cpp\n").unwrap();
    std::fs::write(place.join("main.cpp"), program.split_once("```").unwrap().0).unwrap();
    if !have("c++") {
        return;
    }
    let mut compile = Command::new("c++");
    compile.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "main.cpp", "-o", "main"]).current_dir(&place);
    for include in ["include", "bindings/cpp"] {
        compile.arg("-I").arg(root().join(include));
    }
    run(compile.arg(library_dir().join("libdpb.a")).args(SYSTEM_LIBRARIES));
    assert!(run(Command::new(place.join("main")).current_dir(&place)).starts_with("show ad "));
}
