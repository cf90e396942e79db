//! What a handle states about its guarantee: it is what a budget is charged, for every policy, and says what is spent.

use crate::support::requests::{Ask, fitted, of_user, store};
use dpb::{Algorithm, Bandit, Budget, Codebook, Config, Error};
use serde_json::Value;

fn stated(bandit: &Bandit) -> Value {
    serde_json::from_str(&bandit.statement().unwrap().json()).unwrap()
}

/// A budget charges what the statement states, and a handle never spends more.
#[test]
fn a_statement_states_what_a_budget_charges() {
    let mut made = 0;
    for &algorithm in Algorithm::ALL {
        for (delta, contributions_per_user, budget_periods) in
            [(0.0, 1, 0), (1e-6, 1, 0), (0.0, 3, 0), (1e-6, 3, 0), (0.0, 3, 4), (1e-6, 3, 4)]
        {
            let budget = Budget::new(100.0, 0.5).unwrap();
            let config = Config {
                delta,
                contributions_per_user,
                expected_users: if budget_periods > 0 { 1000 } else { 0 },
                budget_periods,
                horizon: 1000,
                base: Algorithm::NonprivateUcb1 as u32,
                budget: Some(budget.clone()),
                ..Config::new(2, 0.9)
            };
            let bandit = match Bandit::new(algorithm, &fitted(algorithm, config)) {
                Ok(bandit) => bandit,
                Err(Error::OverBudget(_) | Error::InvalidConfig { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            made += 1;
            let all = stated(&bandit);
            let loss = &all["deployment"]["privacy_loss"];
            let [epsilon, delta] = ["epsilon", "delta"].map(|name| loss["privacy_parameters"][name].as_f64().unwrap());
            let charged = budget.spent(delta).unwrap();
            let name = algorithm.name();
            assert!((charged / epsilon - 1.0).abs() < 1e-9, "{name}: {charged} charged, {epsilon} stated at {delta}");
            let unit = if contributions_per_user == 1 { "Event-level" } else { "User-level" };
            assert_eq!(loss["privacy_unit"], unit, "{name}");
            assert_eq!(all["libdpb"]["epsilon_spent"], 0.0, "{name}");
            for user in 0..500 {
                let decision = if budget_periods > 0 { bandit.ask_for(&of_user(user)) } else { bandit.ask() };
                let decision = decision.unwrap();
                bandit.update(decision.ticket, f64::from(u8::from(decision.arm == 0))).unwrap();
            }
            let (now, report) = (stated(&bandit), bandit.report().unwrap());
            assert_eq!(now["deployment"], all["deployment"], "{name}: it is a fact of the configuration");
            assert_eq!(now["libdpb"]["epsilon_spent"].as_f64().unwrap(), report.epsilon_spent, "{name}");
            assert!(report.epsilon_spent <= report.epsilon_limit * (1.0 + 1e-9), "{name}: {report:?}");
            let left = report.epsilon_limit - report.epsilon_spent;
            assert!((report.epsilon_left - left.max(0.0)).abs() < 1e-12, "{name}");
            assert!((report.epsilon_limit / epsilon - 1.0).abs() < 1e-9, "{name}: {report:?}");
            let page = bandit.statement().unwrap().to_string();
            for said in [format!("Epsilon is {epsilon}, delta is "), "Not protected: ".into(), name.into()] {
                assert!(page.contains(&said), "{said}: {page}");
            }
            assert!(page.split_whitespace().count() < 500 && !page.contains("  "), "{page}");
        }
    }
    assert!(made > 40, "{made}");
}

/// With private features the unit is a request with its features, and who sees its own decision is named.
#[test]
fn private_features_are_stated() {
    let codebook = Codebook::new(&[1.0, 0.0, 0.0, 1.0], 2).unwrap();
    let config = Config {
        features: 2,
        private_features: true,
        codebook_len: 2,
        codebook: Some(codebook),
        reward_window: 10,
        ..Config::new(2, 0.9)
    };
    for (private_features, said) in [(true, true), (false, false)] {
        let config = if private_features { config.clone() } else { Config { features: 2, ..Config::new(2, 0.9) } };
        let statement = Bandit::new(Algorithm::Linear, &config).unwrap().statement().unwrap();
        for text in [
            "one request with its features",
            "whoever sees a request's own decision",
            "all decisions but those of the unit",
            "noisy counts by cell",
        ] {
            assert_eq!(statement.to_string().contains(text), said, "{text}: {statement}");
        }
        assert!(statement.json().contains("whoever sees a request's own decision") == said);
    }
}

/// Without privacy nothing is stated: a baseline, a test seed.
#[test]
fn no_privacy_states_no_bound() {
    let seeded = Config { test_seed: Some([7; 32]), ..Config::new(2, 1.0) };
    for (algorithm, config) in [
        (Algorithm::NonprivateUcb1, Config::new(2, 1.0)),
        (Algorithm::Imed, seeded),
        (Algorithm::NonprivateExp3, Config { horizon: 100, ..Config::new(2, 1.0) }),
    ] {
        let bandit = Bandit::new(algorithm, &fitted(algorithm, config)).unwrap();
        let all = stated(&bandit);
        let parameters = &all["deployment"]["privacy_loss"]["privacy_parameters"];
        assert!(parameters["epsilon"].is_null() && parameters["delta"].is_null());
        assert_eq!(all["deployment"]["dp_variant"]["name"], "None");
        assert_eq!(all["libdpb"]["is_private"], false);
        let page = bandit.statement().unwrap().to_string();
        assert!(page.contains("NOT PRIVATE") && !page.contains("Epsilon is"), "{page}");
    }
}

/// Periods without a limit: the bound is for one, nothing limits the sum, and each period spends more.
#[test]
fn periods_without_a_limit_have_no_limit() {
    let config = Config { expected_users: 100, contributions_per_user: 2, ..Config::new(2, 0.5) };
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    let first = stated(&bandit);
    let loss = &first["deployment"]["privacy_loss"];
    assert_eq!(loss["privacy_parameters"]["epsilon"], 0.5);
    assert_eq!(loss["privacy_unit"], "User-period-level");
    assert!(first["libdpb"]["epsilon_left"].is_null());
    bandit.next_period().unwrap();
    store(&bandit);
    for user in 0..200 {
        let decision = bandit.select_for(&of_user(user)).unwrap();
        bandit.update(decision.ticket, 1.0).unwrap();
    }
    let report = bandit.report().unwrap();
    assert!(report.epsilon_spent > 0.999 && report.epsilon_spent <= 1.0, "{report:?}");
    assert!(report.epsilon_limit.is_infinite() && report.epsilon_left.is_infinite());
}

/// Slots and parts change what a unit is.
#[test]
fn a_unit_is_named_as_it_is() {
    let words = |config: Config| {
        let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        stated(&bandit)["deployment"]["privacy_loss"]["privacy_unit_description"].as_str().unwrap().to_owned()
    };
    assert!(words(Config::new(4, 1.0)).starts_with("one reward: "));
    assert!(words(Config { max_slots: 2, ..Config::new(4, 1.0) }).starts_with("one request with all its rewards: "));
    let mut weights = Config::new(4, 1.0).part_weights;
    (weights[0], weights[1]) = (0.5, 0.5);
    let parts = Config { parts: 2, part_weights: weights, reward_window: 10, ..Config::new(4, 1.0) };
    assert!(words(parts).starts_with("one decision with all parts of its reward: "));
    let many = Config { max_slots: 2, contributions_per_user: 5, ..Config::new(4, 1.0) };
    assert!(words(many).contains("at most 5 requests"));
}
