//! Builds the wheel of the Python package, and runs its tests in a virtual environment.

use crate::support::{SYSTEM_LIBRARIES, empty_directory, have, library_dir, root, run, skip, snippets, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const PACKAGE: &str = "bindings/python";
/// The pages whose programs the package's tests run.
const PAGES: [&str; 5] =
    ["README.md", "docs/guide/ab-test.md", "docs/operating/restarts.md", "docs/python.md", "bindings/python/README.md"];

/// What the short tests need, the long ones too, and what the notebook and some tests need.
const NEEDS: &str = "bindings/python/tests/requirements.txt";
const LONG_NEEDS: &str = "bindings/python/tests/requirements-long.txt";
const NOTEBOOK_NEEDS: &str = "examples/python/requirements.txt";
const SERVICE_NEEDS: &str = "examples/python/service/requirements.txt";

/// The name of this Python with its version, and its place. None if it is missing, older than 3.9, or cannot make
/// environments.
fn known(python: &str) -> Option<(String, String)> {
    let ask = "import sys; assert sys.version_info >= (3, 9); import ensurepip, platform, sysconfig; \
               gil = 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''; \
               print(sys.implementation.name, platform.python_version() + gil, sys.prefix)";
    let output = Command::new(python).args(["-c", ask]).output().ok().filter(|output| output.status.success())?;
    let said = text(&output);
    let (name, place) = said.trim().rsplit_once(' ')?;
    Some((name.replace(' ', "-"), place.to_owned()))
}

/// The virtual environment for this Python with these requirements, for one test; made again if they change. Returns None
/// without Python 3.9 or newer, or if pip cannot install.
pub fn environment(test: &str, python: &str, requirements: &[&str]) -> Option<PathBuf> {
    let Some((name, prefix)) = known(python) else {
        skip("python not found (3.9 or newer, with python3-venv)");
        return None;
    };
    let needs: String = requirements.iter().map(|path| std::fs::read_to_string(root().join(path)).unwrap()).collect();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{test}-{name}"));
    let made = place.join("made");
    let of = prefix + "\n" + &needs;
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
        if !succeeds(
            Command::new(&pip).args(["install", "--quiet", "--no-compile", "--requirement"]).arg(root().join(path)),
        ) {
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
    run(install.args(["install", "--quiet", "--no-compile", "--no-deps", "--force-reinstall"]).arg(&built[0]));
}

/// `python -m` with these arguments, in the directory of the package.
fn module(environment: &Path, arguments: &[&str]) -> Command {
    let mut python = Command::new(environment.join("bin/python"));
    // Away from the sources, so that the tests import what is installed.
    python.arg("-m").args(arguments).current_dir(root().join(PACKAGE));
    python
}

/// pytest, which prints its slowest tests and those that it skips.
fn pytest(environment: &Path, arguments: &[&str]) -> String {
    let every = ["pytest", "-q", "-p", "no:cacheprovider", "--durations=10", "-rs"];
    run(&mut module(environment, &[&every[..], arguments].concat()))
}

/// The tests that take seconds. The others, which pytest marks as long, and mypy are in a long test.
#[test]
fn the_package_passes_its_tests() {
    let pages = std::fs::read_to_string(root().join(PACKAGE).join("tests/test_pages.py")).unwrap();
    assert!(PAGES.iter().all(|page| pages.contains(&format!("\"{page}\""))));
    let Some(environment) = environment("short", "python3", &[NEEDS]) else { return };
    install(&environment);
    eprintln!("{}", pytest(&environment, &["-m", "not long"]));
}

/// Without Python a test says so and passes; in CI it fails. Here it runs as a process of its own, with an empty path.
#[test]
fn without_python_it_is_skipped_and_in_ci_it_fails() {
    let alone = |require: &str| {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "--nocapture", "python::the_package_passes_its_tests"]);
        test.env("PATH", "/nonexistent").env("DPB_REQUIRE_TOOLCHAINS", require).current_dir(root().join("tests"));
        let output = test.output().unwrap();
        (output.status.success(), text(&output))
    };
    let (passed, said) = alone("0");
    assert!(passed && said.contains("skipped: python not found"), "{said}");
    let (passed, said) = alone("1");
    assert!(!passed && said.contains("required: python not found"), "{said}");
}

/// The environment of the long tests, with everything that some test needs.
pub fn long_environment() -> Option<&'static Path> {
    static MADE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let environment = environment("long", "python3", &[NEEDS, LONG_NEEDS, NOTEBOOK_NEEDS, SERVICE_NEEDS])?;
        install(&environment);
        Some(environment)
    });
    MADE.as_deref()
}

/// All tests and the types. No test is skipped, except on valkey-server, which Debian 12 does not have.
#[test]
#[ignore = "installs pandas, hypothesis, mypy and others, and plays ten million decisions"]
fn the_package_passes_its_long_tests() {
    let Some(environment) = long_environment() else { return };
    run(&mut module(environment, &["mypy", "src/dpb"]));
    let said = pytest(environment, &[]);
    let skipped = said.lines().filter(|line| line.starts_with("SKIPPED") && !line.contains("valkey-server not found"));
    assert_eq!(skipped.count(), 0, "{said}");
    eprintln!("{said}");
}

/// `pip install ./bindings/python` in a checkout builds the library with cargo.
#[test]
#[ignore = "builds the package"]
fn a_checkout_installs() {
    let Some(environment) = environment("checkout", "python3", &[NEEDS]) else { return };
    let mut install = Command::new(environment.join("bin/pip"));
    install.args(["install", "--quiet", "--no-deps", "--no-build-isolation", "--force-reinstall"]);
    run(install
        .arg(root().join(PACKAGE))
        .env("CARGO_TARGET_DIR", environment.join("target"))
        .env_remove("DPB_LIBRARY"));
    let program = &snippets("README.md", "python")[0];
    run(Command::new(environment.join("bin/python")).args(["-c", program]));
}

/// The types are those of the code: mypy finds a call that does not fit.
#[test]
#[ignore = "installs mypy"]
fn callers_are_checked_by_the_types() {
    let Some(environment) = long_environment() else { return };
    let place = empty_directory("python", "types");
    let checked = |program: &str| {
        std::fs::write(place.join("program.py"), program).unwrap();
        let mut mypy = Command::new(environment.join("bin/python"));
        mypy.args(["-m", "mypy", "--strict", "program.py"]).current_dir(&place).output().unwrap()
    };
    let right = "import dpb\n\nwith dpb.Bandit(arms=10, epsilon=1.0) as bandit:\n    ad = bandit.select()\n    \
                 arm: int = ad.arm\n    bandit.update(ad.ticket, 1.0)\n";
    let said = checked(right);
    assert!(said.status.success(), "{}", text(&said));
    for (from, to) in [("ad.ticket, 1.0", "ad.ticket, 'click'"), ("arm: int", "arm: str"), ("ad.arm", "ad.arms")] {
        let said = checked(&right.replacen(from, to, 1));
        assert!(!said.status.success(), "{to}");
    }
}

/// Every Python of this machine from 3.9 on, PyPy and free-threaded ones: those on the path, and those of pyenv.
#[test]
#[ignore = "installs numpy for each of them"]
fn the_package_passes_its_tests_with_every_python() {
    let versions = (9..20).flat_map(|minor| [format!("python3.{minor}"), format!("python3.{minor}t")]);
    let mut names: Vec<String> = versions.chain(["python3", "/usr/bin/python3", "pypy3"].map(String::from)).collect();
    if let Ok(versions) =
        std::fs::read_dir(Path::new(&std::env::var("HOME").unwrap_or_default()).join(".pyenv/versions"))
    {
        names.extend(versions.map(|version| version.unwrap().path().join("bin/python3").display().to_string()));
    }
    // A command of pyenv is the same Python as that in its directory.
    let found: BTreeMap<_, _> = names.into_iter().filter_map(|python| Some((known(&python)?.0, python))).collect();
    if found.is_empty() {
        return skip("python not found (3.9 or newer, with python3-venv)");
    }
    for (name, python) in &found {
        let Some(environment) = environment("every", python, &[NEEDS, LONG_NEEDS]) else { continue };
        install(&environment);
        eprintln!("{name} ({python}): {}", pytest(&environment, &[]));
    }
    if !found.keys().any(|name| name.ends_with('t')) {
        eprintln!("skipped: free-threaded python not found");
    }
}

/// Runs a notebook of examples/python in this directory. Returns its source, and what it printed and how
/// many figures it drew.
fn run_notebook(environment: &Path, name: &str, place: &Path) -> (String, String) {
    let notebook = root().join("examples/python").join(name);
    let script = "import nbclient, nbformat, sys; notebook = nbformat.read(sys.argv[1], 4); \
                  nbclient.NotebookClient(notebook, timeout=600, kernel_name='python3', \
                  resources={'metadata': {'path': sys.argv[2]}}).execute(); \
                  outputs = [output for cell in notebook.cells for output in cell.get('outputs', [])]; \
                  print(*(output.get('text', '') for output in outputs)); \
                  print(sum('image/png' in output.get('data', {}) for output in outputs), 'figures')";
    let said = run(Command::new(environment.join("bin/python")).args(["-c", script]).arg(&notebook).arg(place));
    let cells: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(notebook).unwrap()).unwrap();
    let cells = cells["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["outputs"].as_array().is_none_or(Vec::is_empty)), "committed without outputs");
    let text = |cell: &serde_json::Value| match &cell["source"] {
        serde_json::Value::Array(lines) => lines.iter().map(|line| line.as_str().unwrap()).collect(),
        text => text.as_str().unwrap().to_owned(),
    };
    (cells.iter().map(text).collect(), said)
}

/// The notebook runs, and the C++ program in it goes on from its snapshot.
#[test]
#[ignore = "installs pandas and others, and simulates for half a minute"]
fn the_notebook_runs() {
    let Some(environment) = long_environment() else { return };
    let place = empty_directory("python", "notebook");
    let (source, said) = run_notebook(environment, "cost_of_privacy.ipynb", &place);
    assert!(said.contains("\n2 figures\n"), "{said}");
    let (_, program) = source.split_once("```cpp\n").unwrap();
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

/// The notebook of a test draws its figures, and its test finds the best version. (Its seeds are fixed.)
#[test]
#[ignore = "installs matplotlib and others"]
fn the_notebook_of_a_test_runs() {
    let Some(environment) = long_environment() else { return };
    let (_, said) = run_notebook(environment, "ab_test.ipynb", &empty_directory("python", "ab_test"));
    for shown in [": Arm 1 is good enough, after ", "for a person: 0.5\n", "\n3 figures\n"] {
        assert!(said.contains(shown), "{said}");
    }
}
