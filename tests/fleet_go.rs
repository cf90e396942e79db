//! Nodes that learn together through Redis: runs the tests of the Go package with a real redis-server.
#![cfg(unix)]

use crate::support::http::{PATIENCE, send};
use crate::support::{empty_directory, go_with_modules, have, root, run, snippets};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const MODULE: &str = "bindings/go/fleet";
const EXAMPLE: &str = "examples/go/fleet";

/// Returns None without Go, a C compiler, Redis, or the modules that the package needs. Go downloads modules once.
fn fleet(directory: &str, arguments: &[&str]) -> Option<Command> {
    if !have("redis-server") {
        return None;
    }
    go_with_modules(directory, arguments)
}

#[test]
#[ignore = "ten seconds"]
fn nodes_agree_after_faults() {
    // The tests wait more than they compute, so run eight at a time.
    let Some(mut test) = fleet(MODULE, &["test", "-count=1", "-parallel=8", "-timeout=30m", "."]) else { return };
    run(test.env("GODEBUG", "cgocheck=1"));
}

#[test]
#[ignore = "long: many times, under the race detector"]
fn nodes_agree_after_many_faults() {
    let Some(mut test) = fleet(MODULE, &["test", "-race", "-count=3", "-timeout=30m", "."]) else { return };
    run(test.env("GODEBUG", "cgocheck=1"));
}

#[test]
fn the_modules_are_tidy() {
    for directory in [MODULE, EXAMPLE] {
        let Some(mut vet) = fleet(directory, &["vet", "./..."]) else { return };
        run(&mut vet);
        run(&mut fleet(directory, &["mod", "tidy", "-diff"]).unwrap());
    }
}

/// The program in the package's README passes go vet. (The test does not run it: the program needs Redis at the default
/// port, and runs until it is interrupted.)
#[test]
fn the_pages_program_is_correct() {
    let place = empty_directory("fleet_go", "page");
    let [program] = &snippets("bindings/go/fleet/README.md", "go")[..] else { panic!("one program") };
    std::fs::write(place.join("main.go"), program).unwrap();
    let wrapper = root().join("bindings/go").canonicalize().unwrap();
    let module = std::fs::read_to_string(root().join(MODULE).join("go.mod")).unwrap();
    let path = "github.com/libdpb/libdpb/bindings/go";
    let module = module.replacen(&format!("module {path}/fleet"), "module page", 1).replacen(
        &format!("replace {path} => ../"),
        &format!(
            "require {path}/fleet v0.0.0\n\nreplace {path} => {0}\n\nreplace {path}/fleet => {0}/fleet",
            wrapper.display()
        ),
        1,
    );
    std::fs::write(place.join("go.mod"), module).unwrap();
    std::fs::copy(root().join(MODULE).join("go.sum"), place.join("go.sum")).unwrap();
    let Some(mut vet) = go_with_modules(place.to_str().unwrap(), &["vet", "."]) else { return };
    run(vet.env("GOFLAGS", "-mod=mod"));
}

/// The demonstration and the processes that it has started. They end when dropped.
struct Demo(Child);

impl Demo {
    fn end(&mut self) -> ExitStatus {
        if self.0.try_wait().unwrap().is_none() {
            // SAFETY: the process is our child, and nothing has waited for it yet.
            unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        }
        self.0.wait().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.end();
    }
}

/// The demonstration starts Redis, two servers and their visitors. Each page shows the releases of the other server.
/// Then all processes stop.
#[test]
fn the_example_shows_a_fleet() {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go_fleet");
    let Some(mut build) = fleet(EXAMPLE, &["build", "-o", program.to_str().unwrap(), "."]) else { return };
    run(&mut build);
    let mut demo = Command::new(&program);
    let mut demo = Demo(demo.args(["--demo", "2", "--interval", "100ms"]).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(demo.0.stdout.take().unwrap()).lines();
    let urls = [(); 2].map(|()| lines.next().unwrap().unwrap().split_once(": ").unwrap().1.to_owned());
    let get = |url: &str| ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap();
    // Whether each column has a mean: what this node knows, then what node 1 and node 2 have released.
    let shows = |page: &str| {
        let rows: Vec<_> = page.split("<tr>").skip(2).collect();
        assert_eq!(rows.len(), 5, "{page}");
        let is_rate = |cell: &str| cell.contains(" %<small>of ");
        (1..=3).all(|column| rows.iter().any(|row| row.split("<td>").nth(column).is_some_and(is_rate)))
    };
    let end = Instant::now() + PATIENCE;
    for url in &urls {
        while !shows(&get(url)) {
            assert!(Instant::now() < end, "{}", get(url));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(get(&format!("{url}/metrics")).contains("dpb_fleet_nodes{bandit=\"go-ads\"} 2\n"));
        assert!(get(&format!("{url}/privacy")).contains("\nNot protected: "));
        let stated: serde_json::Value = serde_json::from_str(&get(&format!("{url}/privacy.json"))).unwrap();
        assert_eq!(stated["libdpb"]["is_private"], true);
    }
    let page = get(&urls[0]);
    assert!(page.contains("name=\"viewport\"") && page.contains(" s since the last exchange"), "{page}");
    // Neither a decision nor a click.
    let host = urls[0].strip_prefix("http://").unwrap();
    for path in ["/ad", "/click/0001000000000000"] {
        for method in ["HEAD", "OPTIONS", "POST"] {
            assert_eq!(send(host, method, path, "").0, 405, "{method} {path}");
        }
    }
    assert_eq!(demo.end().code(), Some(0));
    assert!(ureq::get(&urls[0]).call().is_err(), "the server still runs");
}
