//! Runs the tests of the Go module.

use crate::support::{self, empty_directory, go, go_with_modules, repeats, root, run, snippets};
use std::process::Command;

const MODULE: &str = "bindings/go";

#[test]
#[ignore = "five seconds; `go test` vets most of it"]
fn the_module_is_tidy() {
    let Some(mut vet) = go(MODULE, &["vet", "./..."]) else { return };
    run(&mut vet);
    if let Some(mut list) = go(MODULE, &["list", "-f", "{{.Dir}}"]) {
        let unformatted = run(std::process::Command::new("gofmt").arg("-l").arg(run(&mut list).trim()));
        assert_eq!(unformatted, "", "gofmt -w these");
    }
}

/// Builds as users do, because allocations may depend on -race.
#[test]
fn the_module_passes_its_tests() {
    let count = format!("-count={}", repeats());
    let Some(mut test) = go(MODULE, &["test", &count, "-timeout=60m", "./..."]) else { return };
    run(&mut test);
}

/// With the race detector, the strictest pointer checks, and continuous garbage collection.
#[test]
#[ignore = "builds Go's libraries for the race detector"]
fn the_module_has_no_races() {
    let Some(mut test) = go(MODULE, &["test", "-race", "-count=1", "-timeout=30m", "./..."]) else { return };
    run(test.env("GODEBUG", "cgocheck=1").env("GOGC", "1"));
}

const EXAMPLES: &str = "examples/go";

#[test]
fn the_examples_pass_their_tests() {
    if let Some(mut test) = go_with_modules(EXAMPLES, &["test", "-count=1", "-timeout=30m", "./..."]) {
        run(&mut test);
    }
}

#[test]
#[ignore = "five seconds; `go test` vets most of it"]
fn the_examples_are_tidy() {
    let Some(mut vet) = go_with_modules(EXAMPLES, &["vet", "./..."]) else { return };
    run(&mut vet);
    run(&mut go(EXAMPLES, &["mod", "tidy", "-diff"]).unwrap());
}

/// Repeatedly, with many threads.
#[test]
#[ignore = "half a minute, to compile net/http for it"]
fn the_examples_pass_their_tests_under_the_race_detector() {
    if let Some(mut test) = go_with_modules(EXAMPLES, &["test", "-race", "-count=5", "-timeout=30m", "./..."]) {
        run(test.env("GODEBUG", "cgocheck=1"));
    }
}

/// The collector for Prometheus' client is a separate module, so that users of the wrapper do not get that client.
#[test]
#[ignore = "builds that client, and downloads it"]
fn the_collector_passes_its_tests() {
    passes_its_tests("bindings/go/prometheus", "bindings/go/prometheus/README.md");
}

/// So is the provider for OpenFeature.
#[test]
#[ignore = "builds its SDK, and downloads it"]
fn the_provider_passes_its_tests() {
    passes_its_tests("bindings/go/openfeature", "bindings/go/openfeature/README.md");
}

fn passes_its_tests(module: &str, page: &str) {
    let Some(mut vet) = go_with_modules(module, &["vet", "./..."]) else { return };
    run(&mut vet);
    run(&mut go(module, &["mod", "tidy", "-diff"]).unwrap());
    run(&mut go(module, &["test", "-race", "-count=1", "-timeout=30m", "./..."]).unwrap());

    // The program and the commands on its page, with this checkout.
    let place = empty_directory("go", &module.replace('/', "-"));
    let [program, commands] = ["go", "sh"].map(|language| snippets(page, language).remove(0));
    std::fs::write(place.join("main.go"), program).unwrap();
    let checkout = root().canonicalize().unwrap();
    let commands = commands.replace("$HOME/libdpb", checkout.to_str().unwrap()) + "go vet -tags dpb_system .";
    run(support::without_pkg_config(Command::new("sh").args(["-e", "-c", &commands]).current_dir(&place)));
}

/// Builds from another module with only the files that `go mod vendor` copies, which include the header.
#[test]
#[ignore = "five seconds"]
fn a_vendored_copy_builds() {
    let consumer = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go_consumer");
    let _ = std::fs::remove_dir_all(&consumer);
    std::fs::create_dir_all(&consumer).unwrap();
    const PATH: &str = "github.com/libdpb/libdpb/bindings/go";
    let module = support::root().join(MODULE).canonicalize().unwrap();
    let describe =
        format!("module consumer\n\ngo 1.24\n\nrequire {PATH} v0.0.0\n\nreplace {PATH} => {}\n", module.display());
    std::fs::write(consumer.join("go.mod"), describe).unwrap();
    let program = format!(
        "package main\n\nimport dpb \"{PATH}\"\n\nfunc main() {{\n\tbandit, err := dpb.New(dpb.NewConfig(2, 1))\n\t\
         if err != nil {{\n\t\tpanic(err)\n\t}}\n\tprintln(bandit.PolicyName())\n}}\n"
    );
    std::fs::write(consumer.join("main.go"), program).unwrap();
    let go = |arguments: &[&str]| Some(run(go(MODULE, arguments)?.current_dir(&consumer).env("GOPROXY", "off")));
    if go(&["mod", "vendor"]).is_some() {
        assert!(consumer.join("vendor").join(PATH).join("dpb.h").exists());
        assert_eq!(go(&["run", "-mod=vendor", "."]).unwrap(), format!("{}\n", dpb::Algorithm::RECOMMENDED.name()));
    }
}

/// A checkout has no library, unlike a release: the build fails with one message that says what to do.
#[test]
fn a_build_without_a_library_says_what_to_do() {
    let Some(mut build) = go(MODULE, &["build"]) else { return };
    let copy = support::copy_of(MODULE, "go_without_library");
    // Build as users do, without the tag.
    let output = build.env("GOFLAGS", "").arg("-tags=").arg("./...").current_dir(&copy).output().unwrap();
    let said = support::text(&output);
    assert!(!output.status.success(), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert!(said.contains("no libdpb.a for ") && said.contains("go build -tags dpb_system"), "{said}");
}

/// All files of the module except its tests.
fn sources() -> String {
    let mut sources = String::new();
    for entry in std::fs::read_dir(support::root().join(MODULE)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_str().unwrap();
        if name.ends_with(".go") && !name.ends_with("_test.go") {
            sources += &std::fs::read_to_string(path).unwrap();
        }
    }
    sources
}

/// Go has every function of the C interface, and a name for every number in the header.
#[test]
fn everything_is_wrapped() {
    let code = support::without_comments(&sources());
    let mut names = support::unused(&code, "C.");
    // The C code in the preambles calls functions that Go may not call directly.
    let all = sources();
    let preambles: Vec<&str> =
        all.split("/*").filter_map(|rest| rest.split_once("*/\nimport \"C\"")).map(|(c, _)| c).collect();
    let called = |name: &String| preambles.iter().any(|c| c.contains(&format!("{}(", name.trim_end_matches("_sized"))));
    names.retain(|name| !called(name));
    names.retain(|name| !["dpb_feature_hash", "dpb_decide"].contains(&name.as_str())); // in Go, because C would copy each string
    names.retain(|name| name != "dpb_store_run"); // its callbacks would cross from C to Go for each row
    let header = std::fs::read_to_string(support::root().join("include/dpb.h")).unwrap();
    let defined = header.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    let numbers = defined.filter(|(_, value)| value.parse::<u32>().is_ok());
    let numbers: Vec<String> = numbers.map(|(name, _)| name.to_owned()).collect();
    assert!(numbers.iter().any(|name| name == "DPB_COUNTER_HYBRID"), "{numbers:?}");
    names.extend(numbers.into_iter().filter(|name| !support::uses(&code, &format!("C.{name}"))));
    assert!(names.is_empty(), "bindings/go does not use {names:?}");
}
