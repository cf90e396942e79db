//! The examples in C, C++ and Go, built as they say and driven with real HTTP requests.
#![cfg(unix)] // SIGINT

#[path = "support/http.rs"]
mod http;
mod support;

use http::Server;
use std::path::PathBuf;
use std::process::Command;
use support::{Link, build, go, have, run, skip};

const WINDOW: usize = 1000;

#[test]
fn quickstart_learns() {
    if !have("cc") {
        return;
    }
    for (standard, link) in [("-std=c99", Link::Static), ("-std=c17", Link::Shared)] {
        let printed = run(&mut Command::new(build("cc", "examples/c/quickstart.c", &[standard], link)));
        let shown = |ad: usize| -> u32 {
            let line = printed.lines().nth(ad).unwrap();
            line.strip_prefix(&format!("ad {ad}: shown"))
                .and_then(|rest| rest.split_once("times")?.0.trim().parse().ok())
                .unwrap()
        };
        assert_eq!((0..5).map(shown).sum::<u32>(), 100_000, "{printed}");
        // The gap to the second is 0.3: DP-SE drops it by its second epoch, but with probability beta = 1e-5.
        assert!(shown(4) > 50_000, "{printed}");
        assert!(printed.ends_with("privacy loss of one visitor: 1\n"), "{printed}");
    }
}

#[test]
fn the_cpp_server_serves() {
    if !have("c++") {
        return;
    }
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "cpp-httplib"]).output();
    let Some(flags) = flags.ok().filter(|output| output.status.success()) else {
        return skip("cpp-httplib not found (apt-get install libcpp-httplib-dev pkg-config)");
    };
    let flags = String::from_utf8(flags.stdout).unwrap();
    // They come before the source that needs them, so they must not be dropped as unneeded.
    let arguments: Vec<&str> =
        ["-std=c++17", "-pthread", "-Wl,--no-as-needed"].into_iter().chain(flags.split_whitespace()).collect();
    drive(&build("c++", "examples/cpp/ad_server.cpp", &arguments, Link::Static));
}

#[test]
fn the_go_server_serves() {
    const DIRECTORY: &str = "examples/go/adserver";
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go_adserver");
    let Some(mut vet) = go(DIRECTORY, &["vet", "./..."]) else { return };
    run(&mut vet);
    let Some(mut compile) = go(DIRECTORY, &["build", "-o", program.to_str().unwrap()]) else { return };
    run(&mut compile);
    drive(&program);
}

/// What every ad server promises. No more than 10 lines of JSON, so no parser.
fn drive(program: &PathBuf) {
    let start = || Server::start(Command::new(program).args(["--port", "0"]));
    let (server, other) = (start(), start());
    let click_url = |server: &Server| {
        let (status, ad) = server.get("/ad");
        assert_eq!(status, 200, "{ad}");
        let url = text_field(&ad, "click_url").to_owned();
        assert_eq!(url.len(), "/click/0123456789abcdef".len(), "{ad}");
        url
    };
    let refused = |path: &str, status: u16, error: &str| {
        let (got, body) = server.get(path);
        assert_eq!((got, text_field(&body, "error")), (status, error), "{path}: {body}");
        assert!(!text_field(&body, "message").is_empty());
    };

    // An ad.
    let (status, head, ad) = server.request("/ad?slot=top");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json") && head.contains("cache-control: no-store"), "{head}");
    assert!(number_field(&ad, "arm").unwrap() < 10.0 && number_field(&ad, "propensity").unwrap() > 0.0, "{ad}");
    assert!(!text_field(&ad, "creative").is_empty());
    let first = text_field(&ad, "click_url").to_owned();

    // A click: once.
    assert_eq!(server.get(&first), (200, r#"{"clicked":true}"#.to_owned()));
    refused(&first, 409, "duplicate_click");

    // Bad tickets change nothing.
    let before = server.get("/report");
    let overlong = format!("/click/{}", "f".repeat(2000));
    for path in [
        "/click/",
        "/click/12",
        "/click/zzzzzzzzzzzzzzzz",
        "/click/+123456789abcdef",
        "/click/0x23456789abcdef",
        "/click/0123456789abcdef0",
        "/click/0123/456789abcde",
        "/click/%20123456789abcde",
        &overlong,
    ] {
        refused(path, 400, "malformed_ticket");
    }
    refused(&click_url(&other), 404, "unknown_ticket");
    refused("/nothing", 404, "no_such_page");
    for (method, path) in
        [("POST", "/ad"), ("PUT", "/report"), ("DELETE", "/nothing"), ("HEAD", "/ad"), ("POST", &first)]
    {
        let (status, head, body) = server.send(method, path, if method == "HEAD" { "" } else { "x" });
        assert!(status == 405 && head.contains("allow: get"), "{method} {path}: {head}");
        assert!(method == "HEAD" || text_field(&body, "error") == "method_not_allowed", "{method} {path}: {body}");
    }
    assert_eq!(server.get("/report"), before);

    // The report has what is released, and no trace of a click.
    let unclicked = start();
    click_url(&unclicked);
    assert_eq!(unclicked.get("/report"), before, "one ad clicked twice, one ad not clicked");
    let report = before.1;
    assert_eq!((number_field(&report, "decisions"), number_field(&report, "epsilon_spent")), (Some(1.0), Some(0.0)));
    assert_eq!((number_field(&report, "mean"), number_field(&report, "width")), (None, None), "nothing is released");
    for field in ["answered", "pending", "duplicates", "click"] {
        assert!(!report.contains(field), "{field}: {report}");
    }
    assert_eq!(report.matches("\"active\":true").count(), 10);
    assert!(report.contains("\"is_private\":true") && !text_field(&report, "policy").is_empty());

    // The page needs nothing from elsewhere.
    let (status, page) = server.get("/");
    assert!(status == 200 && page.contains("/report") && !page.contains("://"), "{page}");

    // Silence is "no click" once its window is over.
    let silent = click_url(&server);
    let mut last = String::new();
    for _ in 0..WINDOW {
        last = click_url(&server);
    }
    refused(&silent, 410, "expired_ticket");
    assert_eq!(server.get(&last).0, 200);
    assert_eq!(number_field(&server.get("/report").1, "decisions"), Some(WINDOW as f64 + 2.0));

    let (status, said) = server.interrupt();
    assert_eq!((status.code(), said.as_str()), (Some(0), "stopped\n"));
}

/// What follows the first `"name":` in flat JSON.
fn field<'a>(json: &'a str, name: &str) -> &'a str {
    let start = json.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {json}"));
    &json[start + name.len() + 3..]
}

fn text_field<'a>(json: &'a str, name: &str) -> &'a str {
    field(json, name).strip_prefix('"').unwrap().split('"').next().unwrap()
}

/// None for null.
fn number_field(json: &str, name: &str) -> Option<f64> {
    let text = field(json, name).split([',', '}', ']']).next().unwrap();
    (text != "null").then(|| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}
