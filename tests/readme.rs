//! What the README shows must work: its programs, its commands, its list of system libraries.
//! (Its Rust program is a documentation test of the crate.)

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Link, SYSTEM_LIBRARIES, build, go, have, library_dir, root, run, snippets, text};

const README: &str = "README.md";
const LINKING: &str = "bindings/c/README.md";

/// An empty directory of this name.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// `says`: what each of the language's programs must print.
fn builds_and_runs(language: &str, compiler: &str, standard: &str, says: &[&str]) {
    if !have(compiler) {
        return;
    }
    let place = directory(language);
    let snippets = snippets(README, language);
    assert_eq!(snippets.len(), says.len());
    for (number, (snippet, says)) in snippets.iter().zip(says).enumerate() {
        let source = place.join(format!("{number}.{language}"));
        std::fs::write(&source, snippet).unwrap();
        for link in [Link::Static, Link::Shared] {
            let said = run(&mut Command::new(build(compiler, source.to_str().unwrap(), &[standard], link)));
            assert!(said.contains(says), "{said}");
        }
    }
}

#[test]
fn the_c_program() {
    builds_and_runs("c", "cc", "-std=c99", &["thank you"]);
}

#[test]
fn the_cpp_program() {
    builds_and_runs("cpp", "c++", "-std=c++17", &[" bought, for about ", "a click counts once"]);
}

#[test]
fn the_go_program() {
    let module = root().join("bindings/go");
    let says = ["nobody has seen who clicked", "a click counts once"];
    let snippets = snippets(README, "go");
    assert_eq!(snippets.len(), says.len());
    for (number, (snippet, says)) in snippets.iter().zip(says).enumerate() {
        let place = directory(&format!("go{number}"));
        let name = "github.com/libdpb/libdpb/bindings/go";
        let sum =
            format!("module readme\n\ngo 1.24\n\nrequire {name} v0.0.0\n\nreplace {name} => {}\n", module.display());
        std::fs::write(place.join("go.mod"), sum).unwrap();
        std::fs::write(place.join("main.go"), snippet).unwrap();
        for arguments in [["vet", "."], ["run", "."]] {
            let Some(mut command) = go(place.to_str().unwrap(), &arguments) else { return };
            let said = run(command.env("GOFLAGS", "-mod=mod").env("GOPROXY", "off"));
            assert!(arguments[0] == "vet" || said.contains(says), "{said}");
        }
        let unformatted = run(Command::new("gofmt").arg("-l").arg(place.join("main.go")));
        assert_eq!(unformatted, "", "the README's Go is not formatted");
    }
}

#[test]
fn the_rust_program_is_a_documentation_test() {
    assert!(!snippets(README, "rust").is_empty());
    let face = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    assert!(face.contains(r#"#[doc = include_str!("../README.md")]"#));
}

#[test]
fn the_table_has_every_policy() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let all = std::fs::read_to_string(root().join("src/policy/README.md")).unwrap();
    let header = std::fs::read_to_string(root().join("include/dpb.h")).unwrap();
    for policy in dpb::Algorithm::ALL {
        let row = format!("| `{}` | `Algorithm::{policy:?}` | `dpb_new_", policy.name());
        let rest = all.split_once(&row).unwrap_or_else(|| panic!("no row of the table begins {row}")).1;
        let constructor = format!("dpb_new_{}(", rest.split_once('`').unwrap().0);
        assert!(header.contains(&constructor), "{constructor} is not in dpb.h");
        let row = rest.split_once('\n').unwrap().0;
        let bandit = needs(*policy, row.split(" | ").last().unwrap().trim_matches([' ', '|']));
        let named = |line: &str| line.contains(&format!("`{}`", policy.name()));
        assert!(all.lines().filter(|line| named(line)).count() > 1, "{policy:?} costs nothing?");
        let flexible = readme.lines().find(|line| line.contains("`dpb_select_among`")).unwrap();
        assert_eq!(bandit.select_among(&[1]).is_ok(), named(flexible), "{policy:?}: {flexible}");
        assert_eq!(bandit.add_arm().is_ok(), named(flexible), "{policy:?}: {flexible}");
    }
    let recommended = format!("at this time `{}`", dpb::Algorithm::RECOMMENDED.name());
    assert!(readme.contains(&recommended), "the README does not say: {recommended}");
}

/// What the table says that a policy needs, it needs, and no more.
fn needs(policy: dpb::Algorithm, cell: &str) -> dpb::Bandit {
    let names: Vec<&str> = cell.split([',', ' ']).filter(|word| !["", "or"].contains(word)).collect();
    let made = |given: &[&str]| {
        let mut config = dpb::Config::new(3, 1.0);
        for name in given {
            match *name {
                "horizon" => config.horizon = 1000,
                "delta" => config.delta = 1e-6,
                "beta" => config.beta = 0.1,
                "base" => config.base = dpb::Algorithm::NonprivateUcb1 as u32,
                other => panic!("{policy:?} needs {other}?"),
            }
        }
        dpb::Bandit::new(policy, &config)
    };
    if cell.contains(" or ") {
        assert!(names.iter().all(|name| made(&[*name]).is_ok()) && made(&[]).is_err(), "{policy:?}: {cell}");
    } else {
        for one in &names {
            let others: Vec<&str> = names.iter().copied().filter(|name| name != one).collect();
            assert!(made(&others).is_err(), "{policy:?} does not need {one}");
        }
    }
    made(&names).unwrap_or_else(|error| panic!("{policy:?} needs more than {names:?}: {error}"))
}

/// The layout names all that is there, and what the README names is there.
#[test]
fn the_map_is_the_land() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for entry in std::fs::read_dir(root().join("src")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(readme.contains(&name), "the README's layout lacks src/{name}");
    }
    let words = readme.split(|c: char| c.is_whitespace() || "`,()".contains(c));
    let paths: Vec<&str> = words.filter(|word| word.starts_with("examples/") || word.starts_with("src/")).collect();
    assert!(paths.len() > 10);
    for path in paths {
        assert!(root().join(path).exists(), "the README speaks of {path}");
    }
}

/// The commands for what cargo makes, in a directory that looks like ours after `cargo build --release`.
#[test]
fn the_link_commands() {
    if !have("cc") {
        return;
    }
    let commands: Vec<_> = snippets(LINKING, "sh").into_iter().filter(|block| block.contains("cc ad.c -I")).collect();
    assert_eq!(commands.len(), 2, "static and dynamic");
    for (number, block) in commands.iter().enumerate() {
        let place = directory(&format!("link{number}"));
        std::fs::create_dir_all(place.join("target/release")).unwrap();
        for name in ["libdpb.a", "libdpb.so"] {
            std::fs::hard_link(library_dir().join(name), place.join("target/release").join(name)).unwrap();
        }
        std::fs::create_dir(place.join("include")).unwrap();
        std::fs::copy(root().join("include/dpb.h"), place.join("include/dpb.h")).unwrap();
        std::fs::write(place.join("ad.c"), &snippets(README, "c")[0]).unwrap();
        let said = run(Command::new("sh").args(["-e", "-c", block]).current_dir(&place));
        assert!(said.contains("show ad"), "{said}");
    }
}

/// What rustc says that a static link needs = what our page says = what our own tests link.
#[test]
#[cfg(target_os = "linux")]
fn the_system_libraries() {
    let listed = SYSTEM_LIBRARIES.join(" ");
    let statically = snippets(LINKING, "sh").into_iter().find(|block| block.contains("release/libdpb.a")).unwrap();
    assert!(statically.contains(&format!("libdpb.a {listed} -o")), "{LINKING}: {statically}tests: {listed}");

    let output = Command::new(env!("CARGO"))
        .args(["rustc", "--offline", "--lib", "--crate-type", "staticlib", "--", "--print", "native-static-libs"])
        .current_dir(root())
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("native-static-libs"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_TERM_COLOR", "never")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let said = text(&output);
    let needed = said.lines().find_map(|line| line.split_once("native-static-libs: ")).expect("rustc lists them").1;
    assert_eq!(needed.trim(), listed, "what rustc needs, against what our users are told");
}
