//! The example server, driven over real HTTP.
#![cfg(unix)] // SIGINT

#[path = "support/http.rs"]
mod http;

use http::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

const WINDOW: usize = 1000;

struct Served {
    server: Server,
    agent: ureq::Agent,
}

impl Served {
    fn start() -> Served {
        Served::with(&["--serve", "--port", "0", "--policy", "dp-se"])
    }

    fn with(arguments: &[&str]) -> Served {
        let server = Server::start(Command::new(binary()).args(arguments));
        assert!(server.host().starts_with("127.0.0.1:"), "{}", server.host());
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(20)))
            .build()
            .new_agent();
        Served { server, agent }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.host())
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let mut response = self.agent.get(self.url(path)).call().unwrap();
        assert_eq!(response.headers()["cache-control"], "no-store", "{path}");
        let body = response.body_mut().read_to_string().unwrap();
        let json = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path} answered no JSON: {body}"));
        (response.status().as_u16(), json)
    }

    fn click_url(&self) -> String {
        let (status, ad) = self.get("/ad");
        assert_eq!(status, 200, "{ad}");
        ad["click_url"].as_str().unwrap().to_owned()
    }

    /// Interrupts the server and returns how it ended and what it said last.
    fn interrupt(self) -> (ExitStatus, String) {
        self.server.interrupt()
    }
}

/// target/<profile>/examples/ad_server, two floors above this test in target/<profile>/deps.
fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().parent().unwrap().join("examples/ad_server");
    let age = |path: &Path| path.metadata().and_then(|m| m.modified()).expect("cargo build --example ad_server");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ad_server.rs");
    assert!(age(&binary) >= age(&source), "stale: `cargo test --test` builds no examples, `cargo test` does");
    binary
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn serves_ads_and_takes_each_click_once() {
    let server = Served::start();
    let (status, ad) = server.get("/ad?slot=top");
    assert_eq!(status, 200);
    assert_eq!(keys(&ad), BTreeSet::from(["arm", "creative", "click_url", "propensity"]));
    assert!(ad["arm"].as_u64().unwrap() < 10);
    assert!(ad["propensity"].as_f64().unwrap() > 0.0);
    let url = ad["click_url"].as_str().unwrap();
    assert_eq!(server.get(url), (200, serde_json::json!({ "clicked": true })));
    let (status, error) = server.get(url);
    assert_eq!((status, error["error"].as_str()), (409, Some("duplicate_click")));
    let (status, said) = server.interrupt();
    assert_eq!((status.code(), said.as_str()), (Some(0), "stopped\n"));
}

#[test]
fn refuses_bad_tickets_and_pages_with_a_clear_error() {
    let server = Served::start();
    let other = Served::start();
    let foreign = other.click_url();
    let before = server.get("/report").1;
    for (path, expected, error) in [
        ("/click/", 400, "malformed_ticket"),
        ("/click/12", 400, "malformed_ticket"),
        ("/click/zzzzzzzzzzzzzzzz", 400, "malformed_ticket"),
        ("/click/+123456789abcdef", 400, "malformed_ticket"),
        ("/click/0123456789abcdef0", 400, "malformed_ticket"),
        ("/click/%30123456789abcde", 400, "malformed_ticket"),
        (&foreign, 404, "unknown_ticket"),
        ("/nothing", 404, "no_such_page"),
        ("/ad/", 404, "no_such_page"),
    ] {
        let (status, body) = server.get(path);
        assert_eq!((status, body["error"].as_str()), (expected, Some(error)), "{path}: {body}");
        assert!(!body["message"].as_str().unwrap().is_empty());
    }
    let post = server.agent.post(server.url("/ad")).send_empty().unwrap();
    assert_eq!(post.status(), 405);
    assert_eq!(server.get("/report").1, before, "a refused request changed something");
}

#[test]
fn publishes_only_what_is_released() {
    let (clicked, silent) = (Served::start(), Served::start());
    for _ in 0..50 {
        let url = clicked.click_url();
        assert_eq!(clicked.get(&url).0, 200);
        assert_eq!(clicked.get(&url).0, 409);
        silent.click_url();
    }
    let report = clicked.get("/report").1;
    let fields = ["policy", "is_private", "epsilon_spent", "delta_spent", "phase", "decisions", "pending", "arms"];
    assert_eq!(keys(&report), BTreeSet::from(fields));
    let fields = BTreeSet::from(["creative", "mean", "width", "pulls", "active"]);
    assert!(report["arms"].as_array().unwrap().iter().all(|arm| keys(arm) == fields));
    // Fifty clicks and as many duplicates leave no trace before the first release.
    assert_eq!(report, silent.get("/report").1);
    assert_eq!(report["decisions"], 50);
    assert_eq!(report["epsilon_spent"], 0.0);

    let mut page = clicked.agent.get(clicked.url("/")).call().unwrap();
    let html = page.body_mut().read_to_string().unwrap();
    assert!(html.contains("/report") && !html.contains("://"), "the page needs nothing from elsewhere");
}

#[test]
fn silence_is_an_answer_once_its_window_is_over() {
    let server = Served::start();
    let first = server.click_url();
    let mut last = String::new();
    for _ in 0..WINDOW {
        last = server.click_url();
    }
    let (status, error) = server.get(&first);
    assert_eq!((status, error["error"].as_str()), (410, Some("expired_ticket")));
    assert_eq!(server.get(&last).0, 200);
    let report = server.get("/report").1;
    assert_eq!(report["decisions"], WINDOW + 1);
    assert_eq!(report["pending"], WINDOW, "the first decision's window is over");

    // DP-SE's first epoch: 21,250 silent decisions (2125 an arm) and a window.
    for _ in 0..24_000 {
        server.click_url();
    }
    let report = server.get("/report").1;
    assert_eq!(report["phase"], 2);
    assert_eq!(report["epsilon_spent"].as_f64().unwrap(), 1.0);
    for arm in report["arms"].as_array().unwrap() {
        // One click at most in 2125 pulls. Noise Lap(1): |noise| > 40 has probability 4e-18.
        assert!(arm["mean"].as_f64().unwrap().abs() < 41.0 / 2125.0, "{arm}");
    }
}

#[test]
fn an_interrupted_day_ends_cleanly_too() {
    let server = Served::with(&[]);
    while server.get("/report").1["decisions"].as_u64().unwrap() < 2000 {}
    let (status, said) = server.interrupt();
    assert_eq!(status.code(), Some(0));
    assert!(said.contains("cut short") && said.ends_with("stopped\n"), "{said}");
}
