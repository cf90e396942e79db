//! Features that only the Rust ad server has (servers.rs tests the others): any policy, and a simulated day.
#![cfg(unix)] // signals

#[path = "../examples/common/day.rs"]
mod day;

use crate::support::example;
use crate::support::http::Server;
use day::{ARMS, CREATIVES, Day, FORGET_AFTER, NOON, best};
use dpb::{Algorithm, Bandit, Config};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

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
    assert_eq!(
        keys(&report),
        BTreeSet::from_iter(fields.into_iter().chain([
            "memory",
            "changes_detected",
            "window",
            "clock",
            "winner",
            "verdict",
            "lift"
        ]))
    );
    let fields = BTreeSet::from(["creative", "mean", "width", "effective_pulls", "pulls", "active"]);
    assert!(report["arms"].as_array().unwrap().iter().all(|arm| keys(arm) == fields));
    // Fifty clicks and as many duplicates leave no trace before the first release.
    assert_eq!(report, get(&silent, "/report"));
    assert_eq!(report["decisions"], 50);
    assert_eq!(report["epsilon_spent"], 0.0);
    let stated = get(&silent, "/privacy.json");
    assert_eq!(stated[0]["deployment"]["privacy_loss"]["privacy_unit"], "Event-level");
    assert!(silent.get("/privacy").1.contains("Not protected: "));
}

#[test]
#[ignore = "22,000 requests"]
fn a_missing_click_counts_after_its_window() {
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
fn an_interrupted_day_ends_cleanly() {
    let server = start(&[]);
    while get(&server, "/report")["decisions"].as_u64().unwrap() < 2000 {}
    let (status, said) = server.interrupt();
    assert_eq!(status.code(), Some(0));
    assert!(said.contains("cut short") && said.ends_with("stopped\n"), "{said}");
}

/// Five days at epsilon 1, with late clicks. An afternoon has 9900 clicks at best, and 5700 by uniform rotation. In
/// 1000 simulated days with `forget_after`, none had fewer than 8100, by DP-MED. Without it, they had 2700 on average
/// by DP-IMED and 3300 by DP-MED.
#[test]
fn forgetting_policies_follow_the_change_at_noon() {
    for policy in [Algorithm::Imed, Algorithm::Med] {
        let (mut lost, mut best_shown) = ([0; 2], 0);
        for number in 1..=5 {
            let day = Day { seed: number.into() };
            let spend = |forget_after| {
                let config = Config { test_seed: Some([number; 32]), ..day::config(1.0, forget_after) };
                let bandit = Bandit::new(policy, &config).unwrap();
                let won = day.in_process(&bandit).unwrap();
                let arms = bandit.arm_reports().unwrap();
                let leader = (0..ARMS).max_by(|&i, &j| arms[i].mean.total_cmp(&arms[j].mean)).unwrap();
                (won, leader, bandit.report().unwrap().changes_detected)
            };
            let (won, leader, _) = spend(FORGET_AFTER);
            let rotation = day.planned(|visitor| (visitor % ARMS as u64) as usize);
            assert!(won.clicks.iter().all(|&clicks| clicks > 7500), "{policy:?}: {:?}", won.clicks);
            assert!(leader == best(1), "{policy:?}: {:?}", won.shown);
            // The policy returns to the earlier best ad late on at most one day of ten.
            assert!(won.shown[1][best(1)] > 3 * NOON / 10, "{policy:?}: {:?}", won.shown);
            best_shown += won.shown[1][best(1)];
            let (won, _, changes) = spend(0);
            assert!(won.clicks[0] > 8000 && changes == 0, "{policy:?}: {:?}", won.clicks);
            lost[0] += won.clicks[1];
            lost[1] += rotation.clicks[1];
        }
        assert!(best_shown > 3 * NOON, "{policy:?}: {best_shown} of five afternoons");
        assert!(lost[0] < lost[1], "{policy:?}: {lost:?} clicks in five afternoons without forgetting and by rotation");
    }
}

/// The whole day over HTTP, at a running server. The printed results show both halves.
#[test]
#[ignore = "half a minute"]
fn a_day_sent_to_a_server_follows_the_change_at_noon() {
    let server = start(&["--serve"]);
    let visit = Command::new(example("ad_server")).args(["--visit", &format!("http://{}/", server.host())]).output();
    let said = String::from_utf8(visit.unwrap().stdout).unwrap();
    let numbers = |who: &str| -> Vec<f64> {
        let line =
            said.lines().find_map(|line| line.trim_start().strip_prefix(who)).unwrap_or_else(|| panic!("{said}"));
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let [ours, rotation] = ["dp-imed", "uniform rotation"].map(numbers);
    assert!(ours[0] > 7500.0 && ours[1] > 7500.0 && rotation[1] < 6000.0, "{said}");
    assert!(said.contains("the same, never forgetting") && said.contains("until noon, "), "{said}");
    // Columns: counted rewards, released rate and width, at noon and in the evening; then how often the ad was shown.
    let [kayak, bike] = [best(0), best(1)].map(|arm| numbers(CREATIVES[arm].0));
    let (noon, evening) = (kayak[1], bike[bike.len() - 3]);
    assert!((noon - 0.1).abs() < 0.02 && (evening - 0.1).abs() < 0.02, "{said}");
    assert!(said.contains("To forget cost it"), "{said}");
    let report = get(&server, "/report");
    assert_eq!(report["decisions"], day::VISITORS);
    assert!(report["changes_detected"].as_u64() < Some(20));
}
