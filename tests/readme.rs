//! What our pages show must work: their programs, their commands, their links, tables and lists.
//! (Rust programs are documentation tests of the crate.)

use crate::support::{
    Link, SYSTEM_LIBRARIES, build, go, have, library_dir, root, run, snippets, sorted, text, uses, without_comments,
};
use std::path::{Path, PathBuf};
use std::process::Command;

const README: &str = "README.md";
const LINKING: &str = "bindings/c/README.md";
const NGINX: &str = "examples/nginx/README.md";

/// An empty directory of this name.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Our programs, by page and language, and what each of them must print.
const PROGRAMS: &[(&str, &str, &[&str])] = &[
    (README, "c", &["thank you"]),
    (
        "include/README.md",
        "c",
        &["and nobody's click in them", "and all placements learn from its clicks", "500 answers, 3 heard"],
    ),
    ("bindings/cpp/README.md", "cpp", &["a click counts once", " bought, for about "]),
    ("bindings/go/README.md", "go", &["a click counts once", "nobody has seen who clicked"]),
];

/// What else our pages show, and which test tries it.
const TRIED_ELSEWHERE: &[(&str, &str, &str)] =
    &[(LINKING, "cmake", "package.rs"), (NGINX, "nginx", "nginx.rs"), (NGINX, "bash", "nginx.rs")];

/// The programs in this language: where each is from, its text, and what it must print.
fn programs(language: &str) -> Vec<(String, String, &'static str)> {
    let pages = PROGRAMS.iter().filter(|(_, tongue, _)| *tongue == language);
    let of_page = |(page, _, says): &(&str, &str, &'static [&'static str])| {
        let found = snippets(page, language);
        assert_eq!(found.len(), says.len(), "{page}");
        let named = |(number, (text, says))| (format!("{}-{number}", page.replace('/', "-")), text, says);
        found.into_iter().zip(says.iter().copied()).enumerate().map(named).collect::<Vec<_>>()
    };
    pages.flat_map(of_page).collect()
}

fn builds_and_runs(language: &str, compiler: &str, standard: &str) {
    if !have(compiler) {
        return;
    }
    let place = directory(language);
    for (name, program, says) in programs(language) {
        let source = place.join(format!("{name}.{language}"));
        std::fs::write(&source, program).unwrap();
        for link in [Link::Static, Link::Shared] {
            let said = run(&mut Command::new(build(compiler, source.to_str().unwrap(), &[standard], link)));
            assert!(said.contains(says), "{name}: {said}");
        }
    }
}

#[test]
fn the_c_programs() {
    builds_and_runs("c", "cc", "-std=c99");
}

#[test]
fn the_cpp_programs() {
    builds_and_runs("cpp", "c++", "-std=c++17");
}

#[test]
fn the_go_programs() {
    let module = root().join("bindings/go");
    for (name, program, says) in programs("go") {
        let place = directory(&format!("go-{name}"));
        let path = "github.com/libdpb/libdpb/bindings/go";
        let sum =
            format!("module readme\n\ngo 1.24\n\nrequire {path} v0.0.0\n\nreplace {path} => {}\n", module.display());
        std::fs::write(place.join("go.mod"), sum).unwrap();
        std::fs::write(place.join("main.go"), program).unwrap();
        for arguments in [["vet", "."], ["run", "."]] {
            let Some(mut command) = go(place.to_str().unwrap(), &arguments) else { return };
            let said = run(command.env("GOFLAGS", "-mod=mod").env("GOPROXY", "off"));
            assert!(arguments[0] == "vet" || said.contains(says), "{name}: {said}");
        }
        let unformatted = run(Command::new("gofmt").arg("-l").arg(place.join("main.go")));
        assert_eq!(unformatted, "", "{name} is not formatted");
    }
}

/// All our pages, from the top.
fn pages() -> Vec<String> {
    let (mut found, mut stack) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = stack.pop() {
        for entry in std::fs::read_dir(root().join(&below)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = below.join(&name);
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if root().join(&path).is_dir() {
                stack.push(path);
            } else if name.ends_with(".md") {
                found.push(path.into_os_string().into_string().unwrap());
            }
        }
    }
    assert!(found.len() > 10, "{found:?}");
    found
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// A page without its blocks, line by line.
fn prose(page: &str) -> Vec<&str> {
    let mut inside = false;
    let mut is_prose = |line: &&str| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    };
    page.lines().filter(|line| is_prose(line)).collect()
}

/// Nobody adds a program to a page without a test that runs it. (Commands for a shell are tried where they can be.)
#[test]
fn every_program_is_run() {
    let mut listed: Vec<_> = PROGRAMS.iter().map(|(page, language, _)| format!("{page}: {language}")).collect();
    for (page, language, test) in TRIED_ELSEWHERE {
        assert!(std::fs::read_to_string(root().join("tests").join(test)).unwrap().contains(page), "{test}: {page}");
        listed.push(format!("{page}: {language}"));
    }
    let mut shown = Vec::new();
    for name in pages() {
        let text = page(&name);
        let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```")).step_by(2);
        shown
            .extend(fences.filter(|tongue| !["sh", "text"].contains(tongue)).map(|tongue| format!("{name}: {tongue}")));
    }
    assert_eq!(sorted(shown), sorted(listed));
}

/// Links lead somewhere, to the very heading; what pages name is there; cargo knows their examples.
#[test]
fn what_pages_name_is_there() {
    let headings = |page: &str| -> Vec<String> {
        let lines =
            prose(page).into_iter().filter_map(|line| Some(line.strip_prefix('#')?.trim_start_matches('#').trim()));
        let plain = |c: char| (c.is_alphanumeric() || " -_".contains(c)).then_some(if c == ' ' { '-' } else { c });
        lines.map(|line| line.to_lowercase().chars().filter_map(plain).collect()).collect()
    };
    let manifests = ["examples/Cargo.toml", "examples/figures/Cargo.toml", "tests/Cargo.toml"].map(page).join("\n");
    let (mut links, mut paths) = (0, 0);
    for name in pages() {
        let text = page(&name);
        for link in prose(&text).iter().flat_map(|line| line.split("](").skip(1)) {
            let link = link.split_once(')').unwrap().0;
            if link.starts_with("https://") {
                continue;
            }
            links += 1;
            let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
            let to = if path.is_empty() { root().join(&name) } else { root().join(&name).with_file_name(path) };
            assert!(to.exists(), "{name} links to {link}");
            let found =
                heading.is_none_or(|heading| headings(&page(to.to_str().unwrap())).iter().any(|h| h == heading));
            assert!(found, "{name} links to {link}");
        }
        let words = text.split(|c: char| c.is_whitespace() || "`,;()[]#".contains(c));
        for word in words.map(|word| word.trim_end_matches(['.', ':'])) {
            if ["examples/", "src/", "tests/"].iter().any(|top| word.starts_with(top)) {
                paths += 1;
                let beside = root().join(&name).with_file_name(word);
                assert!(root().join(word).exists() || beside.exists(), "{name} speaks of {word}");
            }
        }
        for rest in text.split("--example ").skip(1) {
            let example = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap();
            assert!(manifests.contains(&format!("[[example]]\nname = \"{example}\"")), "{name}: --example {example}");
        }
    }
    assert!(links > 30 && paths > 10, "{links} links, {paths} paths");
}

/// A newcomer's page: one screen or two.
#[test]
fn the_readme_is_short() {
    let lines = page(README).lines().count();
    assert!(lines <= 120, "{lines} lines: move what is long beside what it describes");
}

/// The names in the table of what there is, each in its language.
#[test]
fn what_there_is_is_there() {
    let go = sources("bindings/go", ".go");
    let code = [page("include/dpb.h"), page("bindings/cpp/dpb.hpp"), go, sources("src", ".rs")];
    let code = code.map(|code| without_comments(&code));
    let using = page("include/README.md");
    let rows = using.lines().skip_while(|line| !line.starts_with("| what | C | C++ | Go | Rust |")).skip(2);
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let cells: Vec<_> = row.split(" |").skip(1).collect();
        assert_eq!(cells.len(), 5, "{row}");
        for (cell, code) in cells.iter().zip(&code) {
            for name in cell.split('`').skip(1).step_by(2) {
                let name = name.split("::<").next().unwrap().split('(').next().unwrap();
                let name = name.rsplit(['.', ':']).next().unwrap();
                assert!(uses(code, name), "{name} of {row}");
            }
        }
    }
}

/// All source below here.
fn sources(below: &str, ending: &str) -> String {
    let (mut text, mut stack) = (String::new(), vec![root().join(below)]);
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                stack.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn the_table_has_every_policy() {
    let (readme, all, header) = (page(README), page("src/policy/README.md"), page("include/dpb.h"));
    for policy in dpb::Algorithm::ALL {
        let row = format!("| `{}` | `Algorithm::{policy:?}` | `dpb_new_", policy.name());
        let rest = all.split_once(&row).unwrap_or_else(|| panic!("no row of the table begins {row}")).1;
        let constructor = format!("dpb_new_{}(", rest.split_once('`').unwrap().0);
        assert!(header.contains(&constructor), "{constructor} is not in dpb.h");
        let cells: Vec<_> = rest.split_once('\n').unwrap().0.split(" |").map(str::trim).collect();
        let [_, _, _, can, needs, ""] = cells[..] else { panic!("{cells:?}") };
        let bandit = self::needs(*policy, needs);
        let abilities = [
            ("among", bandit.select_among(&[1]).is_ok()),
            ("change", bandit.add_arm().is_ok()),
            ("slate", bandit.select_slate(None, 2, |_, _| ()).is_ok()),
            ("snapshot", bandit.snapshot().is_ok()),
            ("merge", bandit.snapshot().is_ok_and(|snapshot| bandit.merge(&snapshot).is_ok())),
            ("prior", bandit.set_prior(1, 0.5, 10.0).is_ok()),
        ];
        let abilities: Vec<_> = abilities.iter().filter(|(_, able)| *able).map(|(name, _)| *name).collect();
        assert_eq!(can, abilities.join(", "), "{policy:?}");
        let named = |line: &str| line.contains(&format!("`{}`", policy.name()));
        assert!(all.lines().filter(|line| named(line)).count() > 1, "{policy:?} costs nothing?");
    }
    let recommended = format!("at this time `{}`", dpb::Algorithm::RECOMMENDED.name());
    assert!(readme.contains(&recommended), "the README does not say: {recommended}");
    let choices = readme.split_once("| you have | take |").unwrap().1.lines().skip(2);
    for take in choices.take_while(|line| line.starts_with('|')).map(|line| line.split('|').nth(2).unwrap()) {
        for name in take.split('`').skip(1).step_by(2).filter(|name| name.contains('-')) {
            assert!(name.parse::<dpb::Algorithm>().is_ok(), "{name} is no policy");
        }
    }
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

/// The layout names all that is in src. (That what it names is there is tested for every page.)
#[test]
fn the_map_is_the_land() {
    let map = &snippets("CONTRIBUTING.md", "text")[0];
    for entry in std::fs::read_dir(root().join("src")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(map.contains(&format!("src/{name}")), "the layout lacks src/{name}");
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
#[ignore = "builds the library once more"]
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
