//! Programs, commands, links, tables and lists on the pages work and are complete. (The Rust programs are documentation
//! tests of the crate.)

use crate::support::requests::{Ask, among, of_slots};
use crate::support::{
    Link, SYSTEM_LIBRARIES, build, empty_directory, go, have, have_header, library_dir, root, run, snippets, sorted,
    text, uses, without_comments,
};
use dpb::ffi::*;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::ptr::null_mut;

const README: &str = "README.md";
const AD_SERVICE: &str = "docs/guide/ad-service.md";
const EVALUATION: &str = "docs/guide/evaluation.md";
const CHOOSING: &str = "docs/choosing.md";
const LINKING: &str = "bindings/c/README.md";
const NGINX: &str = "examples/nginx/README.md";
const FIGURES: &str = "examples/figures/README.md";

/// The programs on the pages, by page and language, and a text that each must print.
const PROGRAMS: &[(&str, &str, &[&str])] = &[
    (README, "c", &["thank you"]),
    ("docs/reference/interface.md", "c", &["was shown to a phone in Germany"]),
    (
        "docs/recipes.md",
        "c",
        &["clicks before noon", "no visitor saw an ad more than 3 times", "lost ", "at most 500 euros count: "],
    ),
    (
        "docs/recipes-learning.md",
        "c",
        &["lost without history: ", "the other ranker ", "lost with a segment for each hour: ", "shown: "],
    ),
    (AD_SERVICE, "cpp", &[": showed ad "]),
    (AD_SERVICE, "c", &["1000 ads shown so far"]),
    ("docs/guide/placements.md", "go", &["500 decisions in 500 placements"]),
    ("docs/guide/features.md", "cpp", &["desktop: ", "the ad that the visitor likes: "]),
    (EVALUATION, "cpp", &["always arm 1: 0.0"]),
    ("docs/guide/ab-test.md", "cpp", &[" is the best of 3, after "]),
    ("bindings/cpp/README.md", "cpp", &["a click counts once", " bought, for about ", "no fleet without Redis"]),
    ("bindings/go/README.md", "go", &["a click counts once", "nobody has seen who clicked"]),
];

/// Other code blocks on the pages, and the test that tries them.
const TRIED_ELSEWHERE: &[(&str, &str, &str)] = &[
    (LINKING, "cmake", "package.rs"),
    (AD_SERVICE, "cmake", "package.rs"),
    (NGINX, "nginx", "nginx.rs"),
    (NGINX, "bash", "nginx.rs"),
    ("bindings/go/fleet/README.md", "go", "fleet_go.rs"),
    ("bindings/go/prometheus/README.md", "go", "go.rs"),
    ("bindings/go/openfeature/README.md", "go", "go.rs"),
    ("bindings/lua/README.md", "lua", "lua.rs"),
    ("bindings/lua/README.md", "nginx", "lua.rs"),
    (README, "python", "python.rs"),
    ("docs/guide/ab-test.md", "python", "python.rs"),
    ("docs/operating/restarts.md", "python", "python.rs"),
    ("docs/python.md", "python", "python.rs"),
    ("docs/java.md", "java", "java.rs"),
    ("docs/java.md", "xml", "java.rs"),
    ("docs/java.md", "kotlin", "java.rs"),
    ("docs/java.md", "scala", "java.rs"),
    ("bindings/python/README.md", "python", "python.rs"),
    ("docs/tables.md", "python", "tables.rs"),
    ("docs/tables.md", "js", "tables.rs"),
    ("docs/tables.md", "java", "tables.rs"),
    ("docs/tables.md", "json", "tables.rs"),
];

/// The programs in this language: a name from the page, the text, and the expected output.
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

/// `of`: how the names of the programs begin.
fn builds_and_runs(language: &str, compiler: &str, standard: &str, link: Link, of: &str) {
    if !have(compiler) {
        return;
    }
    let place = empty_directory("readme", &format!("{language}_{link:?}"));
    for (name, program, says) in programs(language).into_iter().filter(|(name, ..)| name.starts_with(of)) {
        let source = place.join(format!("{name}.{language}"));
        let mut arguments = vec![standard];
        if program.contains("<dpb_fleet.hpp>") {
            if !have_header("hiredis/hiredis.h", "libhiredis-dev") {
                continue;
            }
            arguments.extend(["-pthread", "-Wl,--no-as-needed", "-lhiredis"]);
        }
        std::fs::write(&source, program).unwrap();
        let program = build(compiler, source.to_str().unwrap(), &arguments, link);
        let said = run(Command::new(program).current_dir(&place));
        assert!(said.contains(says), "{name}: {said}");
    }
}

#[test]
fn the_c_programs() {
    builds_and_runs("c", "cc", "-std=c99", Link::Shared, "");
}

/// The first page of the header.
#[test]
fn the_program_of_the_header() {
    if !have("cc") {
        return;
    }
    let header = page("include/dpb.h");
    let program = header.split_once("@code\n").unwrap().1.split_once(" * @endcode").unwrap().0;
    let program: String = program.lines().map(|line| format!("{}\n", line.trim_start_matches(" *"))).collect();
    let source = empty_directory("readme", "header").join("header.c");
    std::fs::write(&source, program).unwrap();
    let said = run(&mut Command::new(build("cc", source.to_str().unwrap(), &["-std=c99"], Link::Static)));
    assert!(said.contains("thank you"), "{said}");
}

#[test]
fn the_cpp_programs_of_the_wrappers_page() {
    builds_and_runs("cpp", "c++", "-std=c++17", Link::Shared, "bindings-cpp");
}

#[test]
#[ignore = "compiles for half a minute"]
fn the_cpp_programs_of_all_pages() {
    builds_and_runs("cpp", "c++", "-std=c++17", Link::Shared, "docs");
}

#[test]
#[ignore = "compiles them once more"]
fn the_programs_link_statically() {
    builds_and_runs("c", "cc", "-std=c99", Link::Static, "");
    builds_and_runs("cpp", "c++", "-std=c++17", Link::Static, "");
}

/// The C++ program of a page: an empty directory to run it in, and the program.
fn program_of(page: &str) -> Option<(PathBuf, PathBuf)> {
    have("c++").then(|| {
        let place = empty_directory("readme", &page.replace('/', "-"));
        let source = place.join("program.cpp");
        std::fs::write(&source, &snippets(page, "cpp")[0]).unwrap();
        let program = build("c++", source.to_str().unwrap(), &["-std=c++17"], Link::Static);
        (place, program)
    })
}

/// The guide's log of decisions, replayed by the command below it.
#[test]
#[ignore = "builds an example"]
fn the_log_of_the_guide() {
    let Some((place, program)) = program_of(EVALUATION) else { return };
    run(Command::new(program).current_dir(&place));
    let mut commands = snippets(EVALUATION, "sh").into_iter().filter(|block| block.contains("--example plan"));
    let command = commands.next().unwrap().replace("$HOME/libdpb", root().to_str().unwrap());
    let said = run(Command::new("sh").args(["-e", "-c", &command]).current_dir(&place));
    assert!(said.contains("100,000 decisions, 3 arms") && said.contains("| dp-imed | 0.1 | 0.0"), "{said}");
    assert!(!said.contains("propensities are wrong"), "{said}");
}

/// The guide's ad service as four processes, twice: they merge, and continue from their snapshots.
#[test]
#[ignore = "eight processes"]
fn the_ad_service_of_the_guide() {
    let Some((place, program)) = program_of(AD_SERVICE) else { return };
    for before in ["new", "restored"] {
        let start = |node: u32| {
            let mut command = Command::new(&program);
            command.arg(node.to_string()).current_dir(&place).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let processes: Vec<_> = (1..=4).map(|node| (node, start(node))).collect();
        for (node, process) in processes {
            let said = text(&process.wait_with_output().unwrap());
            assert!(said.contains(&format!("process {node}, {before}: showed ad ")), "{said}");
        }
    }
}

#[test]
fn the_go_programs() {
    let module = root().join("bindings/go");
    for (name, program, says) in programs("go") {
        let place = empty_directory("readme", &format!("go-{name}"));
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

/// All pages of the project, sorted.
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

/// The lines of a page outside of code blocks.
fn prose(page: &str) -> Vec<&str> {
    let mut inside = false;
    let mut is_prose = |line: &&str| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    };
    page.lines().filter(|line| is_prose(line)).collect()
}

/// A test runs every program on a page. (Shell commands are tried where possible.)
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

/// Links point to existing files and headings, files that pages name exist, and cargo knows their examples.
#[test]
fn files_and_links_on_pages_exist() {
    let headings = |page: &str| -> Vec<String> {
        let lines =
            prose(page).into_iter().filter_map(|line| Some(line.strip_prefix('#')?.trim_start_matches('#').trim()));
        let plain = |c: char| (c.is_alphanumeric() || " -_".contains(c)).then_some(if c == ' ' { '-' } else { c });
        lines.map(|line| line.to_lowercase().chars().filter_map(plain).collect()).collect()
    };
    let manifests = [
        "examples/Cargo.toml",
        "examples/figures/Cargo.toml",
        "examples/fleet/Cargo.toml",
        "examples/plan/Cargo.toml",
        "tests/Cargo.toml",
    ]
    .map(page)
    .join("\n");
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

/// Every "mean ± error" that these pages quote is in a table that the experiments wrote.
#[test]
fn quoted_figures_were_measured() {
    let written = std::fs::read_dir(root().join("examples/figures/out")).unwrap();
    let tables = written.map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("md".as_ref()));
    let tables: String = tables.map(|path| std::fs::read_to_string(path).unwrap() + " ").collect();
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let mut quoted = 0;
    for name in [README, "docs/index.md", CHOOSING, "docs/cost.md", "docs/requests.md"] {
        let page = page(name).replace('%', "");
        for (at, _) in page.match_indices(" ± ") {
            let mean = &page[page[..at].rfind(|c| !number(c)).unwrap() + 1..at];
            let error = page[at + " ± ".len()..].split(|c| !number(c)).next().unwrap();
            let figure = format!(" {mean} ± {} ", error.trim_end_matches('.'));
            assert!(tables.contains(&figure), "{name} quotes{figure}");
            quoted += 1;
        }
    }
    assert!(quoted > 40, "{quoted}");
}

/// The first page is one screen, and every other page is for one task. A word has a letter or a digit; programs and tables
/// count too.
#[test]
fn pages_are_short() {
    let words = |name: &str| page(name).split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
    let most = |name: &str| match name {
        README => Some(600),
        "CHANGELOG.md" => Some(300), // of a version that is not released
        "examples/README.md" => Some(1000),
        FIGURES | "CONTRIBUTING.md" => None, // below; for those who change the library
        _ => Some(2000),
    };
    let long: Vec<_> = pages().into_iter().map(|name| (words(&name), name)).collect();
    let long: Vec<_> = long.into_iter().filter(|(words, name)| most(name).is_some_and(|most| *words > most)).collect();
    assert!(long.is_empty(), "cut these, or split them by task: {long:?}");
    // Most of the words there are in tables, which the experiments write.
    let prose = page(FIGURES).lines().filter(|line| !line.starts_with('|')).flat_map(str::split_whitespace).count();
    assert!(prose <= 4500, "{FIGURES}: {prose} words outside of tables");
}

/// The names in the table of functions exist in each language.
#[test]
fn the_table_of_functions_names_existing_ones() {
    let go = sources("bindings/go", ".go");
    let [c, cpp, go, rust] = [page("include/dpb.h"), sources("bindings/cpp", ".hpp"), go, sources("src", ".rs")]
        .map(|code| without_comments(&code));
    let code = [c, cpp, go, sources("bindings/python/src", ".py"), rust];
    let using = page("docs/reference/interface.md");
    let rows = using.lines().skip_while(|line| !line.starts_with("| what | C | C++ | Go | Python | Rust |")).skip(2);
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let cells: Vec<_> = row.split(" |").skip(1).collect();
        assert_eq!(cells.len(), 6, "{row}");
        for (cell, code) in cells.iter().zip(&code) {
            for name in cell.split('`').skip(1).step_by(2) {
                let name = name.split("::<").next().unwrap().split('(').next().unwrap();
                let name = name.rsplit(['.', ':']).next().unwrap();
                assert!(uses(code, name), "{name} of {row}");
            }
        }
    }
}

/// All source below a directory, except tests of Go.
fn sources(below: &str, ending: &str) -> String {
    let (mut text, mut stack) = (String::new(), vec![root().join(below)]);
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                stack.push(path);
            } else if path.to_str().is_some_and(|name| name.ends_with(ending) && !name.ends_with("_test.go")) {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn the_table_has_every_policy() {
    let (choosing, all, header) = (page(CHOOSING), page("docs/reference/policies.md"), page("include/dpb.h"));
    for policy in dpb::Algorithm::ALL {
        let row = format!("| `{}` | `Algorithm::{policy:?}` | `dpb_new_", policy.name());
        let rest = all.split_once(&row).unwrap_or_else(|| panic!("no row of the table begins {row}")).1;
        let constructor = format!("dpb_new_{}(", rest.split_once('`').unwrap().0);
        assert!(header.contains(&constructor), "{constructor} is not in dpb.h");
        let cells: Vec<_> = rest.split_once('\n').unwrap().0.split(" |").map(str::trim).collect();
        let [_, _, _, can, needs, ""] = cells[..] else { panic!("{cells:?}") };
        let bandit = self::needs(*policy, needs);
        let abilities = [
            ("among", bandit.ask_for(&among(&[1])).is_ok()),
            ("change", bandit.add_arm().is_ok()),
            ("slate", bandit.ask_slots(&of_slots(2), |_, _| ()).is_ok()),
            ("values", bandit.ask_for(&dpb::Request { values: Some(&[1.0]), ..among(&[1]) }).is_ok()),
            ("examined", bandit.ask_for(&dpb::Request { examined: Some(&[0.5]), ..among(&[1]) }).is_ok()),
            ("snapshot", bandit.snapshot().is_ok()),
            ("merge", bandit.snapshot().is_ok_and(|snapshot| bandit.merge(&snapshot).is_ok())),
            ("prior", bandit.set_prior(1, 0.5, 10.0).is_ok()),
            ("decide", !matches!(bandit.best_arm(), Err(dpb::Error::Unsupported(_)))),
        ];
        let abilities: Vec<_> = abilities.iter().filter(|(_, able)| *able).map(|(name, _)| *name).collect();
        assert_eq!(can, abilities.join(", "), "{policy:?}");
        let named = |line: &str| line.contains(&format!("`{}`", policy.name()));
        assert!(all.lines().filter(|line| named(line)).count() > 1, "{policy:?} costs nothing?");
    }
    let recommended = format!("at this time `{}`", dpb::Algorithm::RECOMMENDED.name());
    assert!(choosing.contains(&recommended), "{CHOOSING} does not say: {recommended}");
    let choices = choosing.split_once("| you have | take |").unwrap().1.lines().skip(2);
    for take in choices.take_while(|line| line.starts_with('|')).map(|line| line.split('|').nth(2).unwrap()) {
        for name in take.split('`').skip(1).step_by(2).filter(|name| name.contains('-')) {
            assert!(name.parse::<dpb::Algorithm>().is_ok(), "{name} is no policy");
        }
    }
}

/// Pages and comments name nothing of the interface that is gone.
#[test]
fn pages_name_the_present_interface_only() {
    let header = without_comments(&page("include/dpb.h"));
    let cpp = sources("bindings/cpp", ".hpp");
    // Names that look like the interface's and are not: nginx's directives, a build tag, a symbol version, an include
    // guard, a header, metrics, a field of JSON.
    let others = [
        "examples/nginx/ngx_http_dpb_module.c",
        "bindings/go/link_system.go",
        "bindings/c/libdpb.map",
        "Makefile",
        "tests/data/decide.json",
    ]
    .map(page);
    let variables = ["tests/header.rs", "tests/dist.rs", "tests/simulation/main.rs"].map(page); // of the environment, for tests
    let others = others.join("") + &without_comments(&cpp) + &variables.join("");
    let collectors = ["collector.go", "fleet/collector.go"].map(|file| page(&format!("bindings/go/prometheus/{file}")));
    let metrics = collectors.join("") + &page("bindings/cpp/dpb_fleet.hpp");
    let is_other = |word: &str| {
        let metric = word.strip_prefix("dpb_").unwrap_or(word);
        let names = [metric, metric.trim_end_matches("_total")];
        names.iter().any(|name| metrics.contains(&format!("\"{name}\""))) || uses(&others, word)
    };
    let cpp_and_rust = [without_comments(&cpp), sources("src", ".rs"), page("bindings/c/dpb-config.cmake.in")].join("");
    let go_and_python = without_comments(&sources("bindings/go", ".go")) + &sources("bindings/python/src", ".py");
    let is_there = |word: &str| match word.split_once(['.', ':']) {
        Some((_, name)) if word.contains('.') => !name.starts_with(char::is_uppercase) || uses(&go_and_python, name),
        Some((_, name)) => uses(&cpp_and_rust, &name[1..]),
        None => uses(&header, word) || word.ends_with('_') && header.contains(word) || is_other(word),
    };
    let today = pages().into_iter().filter(|name| name != "CHANGELOG.md"); // it names earlier interfaces too
    let mut said: Vec<_> = today.map(|name| (page(&name), name)).collect();
    for (top, ending) in [("src", ".rs"), ("bindings", ".hpp"), ("bindings", ".go")] {
        let source = sources(top, ending);
        let comments: Vec<&str> =
            source.lines().filter_map(|line| line.split_once("//")).map(|(_, said)| said).collect();
        said.push((comments.join("\n"), format!("a comment in {top}")));
    }
    let mut names = 0;
    for (text, place) in &said {
        for start in ["dpb_", "DPB_", "dpb::", "dpb."] {
            for (at, _) in text.match_indices(start).filter(|(at, _)| !text[..*at].ends_with(is_of_a_name)) {
                let rest = &text[at + start.len()..];
                let word = &text[at..at + start.len() + rest.find(|c| !is_of_a_name(c)).unwrap_or(rest.len())];
                names += 1;
                assert!(is_there(word), "{place} speaks of {word}");
            }
        }
    }
    assert!(names > 500, "{names}");
}

fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A handle supports what the table of combinations lists, and nothing else.
#[test]
fn the_table_of_combinations() {
    let using = page("docs/reference/interface.md");
    let head = "| | alone | with `max_segments` | with `features` | with `expected_users` |";
    let table = using.split_once(head).unwrap().1;
    let rows: Vec<_> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 15);
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let able = |what: With| match combined(cells[1], what) {
            DPB_OK => true,
            DPB_UNSUPPORTED => false,
            status => panic!("{row}: {status}, {what:?}"),
        };
        let yes = |able| if able { "yes" } else { "no" };
        let of_features = match [DPB_MODEL_SHARED, DPB_MODEL_PER_ARM].map(|model| able(With::Features(model))) {
            [false, true] => "with `DPB_MODEL_PER_ARM`",
            [shared, per_arm] => {
                assert_eq!(shared, per_arm, "{row}");
                yes(shared)
            }
        };
        let able = [yes(able(With::Nothing)), yes(able(With::Segments)), of_features, yes(able(With::Users))];
        assert_eq!(cells[2..6], able, "{row}");
    }
}

/// The kind of handle that is combined with a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
enum With {
    Nothing,
    Segments,
    Features(u32),
    Users,
}

const COMBINING: &str = "`dpb_lead`, `dpb_contribution`, `dpb_combine`";

/// The status of a feature with a handle of this configuration.
fn combined(what: &str, with: With) -> dpb_status {
    let (max_segments, users) = (4 * u32::from(with == With::Segments), 100 * u64::from(with == With::Users));
    let row = [0.5f32; 6]; // rows of two features, for up to three arms
    let (mut bandit, mut next, mut budget) = (null_mut(), null_mut(), null_mut());
    let (mut decisions, mut number, mut low, mut high) = ([MaybeUninit::<dpb_decision>::uninit(); 2], 0, 0.0, 0.0);
    let (mut bytes, mut length, mut generation) = (vec![0; 1 << 16], 0, 0);
    // SAFETY: plain structs, filled by their functions; every pointer is to what lives here.
    unsafe {
        let (mut config, mut request) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        dpb_config_init_sized(config.as_mut_ptr(), size_of::<dpb_config>() as u32, 3, 1.0);
        dpb_request_init_sized(request.as_mut_ptr(), size_of::<dpb_request>() as u32);
        let (mut config, mut request) = (config.assume_init(), request.assume_init());
        (config.max_segments, config.expected_users) = (max_segments, users);
        if let With::Features(model) = with {
            (config.features, config.feature_model, request.features) = (2, model, row.as_ptr());
        }
        match what {
            "`expected_users`" => config.expected_users = 100,
            COMBINING => config.fleet_key = [7u8; 32].as_ptr(),
            "`forget_after`" => config.forget_after = 2048,
            "`exploration`" => config.exploration = 0.1,
            "`dpb_lift`" if config.features > 0 => config.exploration = 0.1,
            "`budget`" => {
                assert_eq!(dpb_new_budget(10.0, 0.0, &raw mut budget, null_mut()), DPB_OK);
                (config.budget, config.budget_periods) = (budget, 2 * u32::from(users > 0));
            }
            // (With users, max_slots makes the request the unit.)
            "several `slots` of a request" => (request.slots, config.max_slots) = (2, if users > 0 { 2 } else { 0 }),
            "`values` of a request" => (request.values, request.values_len) = ([1.0, 3.0, 2.0].as_ptr(), 3),
            "`examined` of a request" => (request.examined, request.examined_len) = ([0.4].as_ptr(), 1),
            "`eligible` arms of a request" => (request.eligible, request.eligible_len) = ([1, 2].as_ptr(), 2),
            _ => (),
        }
        (request.segment, request.user) = (u64::from(max_segments), config.expected_users);
        if config.features > 0 {
            let arms = if request.eligible.is_null() { 3 } else { request.eligible_len };
            request.features_len = if config.feature_model == DPB_MODEL_PER_ARM { 2 } else { 2 * arms };
        }
        let mut ask = |bandit| dpb_select_for(bandit, &raw const request, decisions.as_mut_ptr().cast());
        let mut status = dpb_new(&raw const config, &raw mut bandit, null_mut());
        if status == DPB_OK {
            status = ask(bandit);
        }
        let mut saved = |bandit| {
            assert_eq!(dpb_snapshot(bandit, bytes.as_mut_ptr(), bytes.len(), &raw mut length, null_mut()), DPB_OK);
            (bytes.as_ptr(), length)
        };
        if status == DPB_OK {
            status = match what {
                "`dpb_set_prior`" => dpb_set_prior(bandit, 1, 0.5, 10.0, null_mut()),
                "arms that come and go" => match dpb_add_arm(bandit, 0, &raw mut number, null_mut()) {
                    DPB_OK => dpb_retire_arm(bandit, 0),
                    refused => refused,
                },
                "`dpb_compare`" => match dpb_compare(bandit, 0, 1, 0.9, &raw mut low, &raw mut high) {
                    DPB_NOT_READY => DPB_OK,
                    status => status,
                },
                "`dpb_lift`" => match dpb_lift(bandit, DPB_NO_ARM, 0.9, &raw mut low, &raw mut high) {
                    DPB_NOT_READY => DPB_OK,
                    status => status,
                },
                "`dpb_merge`" => {
                    let (bytes, length) = saved(bandit);
                    dpb_merge(bandit, bytes, length, null_mut())
                }
                COMBINING => {
                    assert_eq!(dpb_new(&raw const config, &raw mut next, null_mut()), DPB_OK);
                    let status = dpb_lead(bandit, &raw mut generation, null_mut());
                    let mut contribute = || {
                        dpb_contribution(next, generation, bytes.as_mut_ptr(), bytes.len(), &raw mut length, null_mut())
                    };
                    assert_eq!((contribute(), ask(next)), (DPB_OK, DPB_OK));
                    assert_eq!(dpb_update(next, decisions[0].assume_init().ticket, 1.0), DPB_OK);
                    assert_eq!(contribute(), DPB_OK);
                    assert_eq!(dpb_combine(bandit, bytes.as_ptr(), length, null_mut()), DPB_OK);
                    status
                }
                "`dpb_snapshot`, `dpb_restore`" => {
                    let (bytes, length) = saved(bandit);
                    let status = dpb_restore(bytes, length, &raw mut next, null_mut());
                    let (bytes, length) = saved(next);
                    assert_eq!((dpb_stored(next, bytes, length, null_mut()), ask(next)), (DPB_OK, DPB_OK));
                    status
                }
                // A feature of the configuration or of the request has been tried above.
                _ => {
                    assert!(what.contains('`') && !what.contains("dpb_"), "{what} is not tried");
                    DPB_OK
                }
            };
        }
        dpb_free(bandit);
        dpb_free(next);
        dpb_budget_free(budget);
        status
    }
}

/// A policy requires exactly what the table says.
fn needs(policy: dpb::Algorithm, cell: &str) -> dpb::Bandit {
    let names: Vec<&str> = cell.split([',', ' ']).filter(|word| !["", "or"].contains(word)).collect();
    let made = |given: &[&str]| {
        let mut config = dpb::Config::new(3, 1.0);
        for name in given {
            match *name {
                "horizon" => config.horizon = 1000,
                "delta" => config.delta = 1e-6,
                "beta" => config.beta = 0.1,
                "features" => (config.features, config.model_per_arm) = (2, true),
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

/// The layout names all files in src. (Another test checks that the files that it names exist.)
#[test]
fn the_map_names_every_module() {
    let map = &snippets("CONTRIBUTING.md", "text")[0];
    for entry in std::fs::read_dir(root().join("src")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(map.contains(&format!("src/{name}")), "the layout lacks src/{name}");
    }
}

/// The commands for the files that cargo makes, in a directory that looks like the repository after `cargo build
/// --release`.
#[test]
fn the_link_commands_work() {
    if !have("cc") {
        return;
    }
    let commands: Vec<_> = snippets(LINKING, "sh").into_iter().filter(|block| block.contains("cc ad.c -I")).collect();
    assert_eq!(commands.len(), 2, "static and dynamic");
    for (number, block) in commands.iter().enumerate() {
        let place = empty_directory("readme", &format!("link{number}"));
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

/// The system libraries that rustc lists for a static link are those on the page and those that the tests link.
#[test]
#[ignore = "builds the library once more"]
#[cfg(target_os = "linux")]
fn the_system_libraries_are_those_of_rustc() {
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
