//! What the Rust ad server does beside the others (see servers.rs): any policy, and a simulated day.
#![cfg(unix)] // signals

#[path = "support/http.rs"]
mod http;
mod support;

use http::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use support::example;

const WINDOW: usize = 1000;

fn start(arguments: &[&str]) -> Server {
    Server::start(Command::new(example("ad_server")).args(arguments))
}

fn get(server: &Server, path: &str) -> Value {
    let (status, body) = server.get(path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path} answered no JSON: {body}"))
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn publishes_only_what_is_released() {
    let (clicked, silent) = (start(&["--serve", "--policy", "dp-se"]), start(&["--serve", "--policy=dp-se"]));
    for _ in 0..50 {
        let ad = get(&clicked, "/ad");
        assert_eq!(keys(&ad), BTreeSet::from(["arm", "creative", "click_url", "propensity"]));
        (0..2).for_each(|_| assert_eq!(clicked.get(ad["click_url"].as_str().unwrap()).0, 204));
        get(&silent, "/ad");
    }
    let report = get(&clicked, "/report");
    let fields = ["policy", "is_private", "epsilon_spent", "delta_spent", "phase", "decisions", "pending", "arms"];
    assert_eq!(keys(&report), BTreeSet::from(fields));
    let fields = BTreeSet::from(["creative", "mean", "width", "pulls", "active"]);
    assert!(report["arms"].as_array().unwrap().iter().all(|arm| keys(arm) == fields));
    // Fifty clicks and as many duplicates leave no trace before the first release.
    assert_eq!(report, get(&silent, "/report"));
    assert_eq!(report["decisions"], 50);
    assert_eq!(report["epsilon_spent"], 0.0);
}

#[test]
fn silence_is_an_answer_once_its_window_is_over() {
    // DP-SE's first epoch: 21,250 silent decisions (2125 an arm) and a window.
    let server = start(&["--serve", "--policy", "dp-se"]);
    for _ in 0..21_250 + WINDOW + 10 {
        get(&server, "/ad");
    }
    let report = get(&server, "/report");
    assert_eq!(report["phase"], 2);
    assert_eq!(report["epsilon_spent"].as_f64().unwrap(), 1.0);
    for arm in report["arms"].as_array().unwrap() {
        // No click in 2125 pulls. Noise Lap(1): |noise| > 40 has probability 4e-18.
        assert!(arm["mean"].as_f64().unwrap().abs() < 40.0 / 2125.0, "{arm}");
    }
}

#[test]
fn an_interrupted_day_ends_cleanly_too() {
    let server = start(&[]);
    while get(&server, "/report")["decisions"].as_u64().unwrap() < 2000 {}
    let (status, said) = server.interrupt();
    assert_eq!(status.code(), Some(0));
    assert!(said.contains("cut short") && said.ends_with("stopped\n"), "{said}");
}
