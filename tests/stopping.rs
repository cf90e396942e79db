//! Stopping rules: their accuracy, their halting times, their errors, their privacy.

#[path = "audit/engine.rs"]
mod audit;

use audit::sabotage::Sabotage;
use audit::{Audit, clopper_pearson, pattern, seed};
use dpb::stopping::{StoppingConfig, StoppingRule};
use dpb::{Error, Result, Seed};

type Make = fn(&StoppingConfig) -> Result<StoppingRule>;

const RULES: [(&str, Make); 3] =
    [("NAS", StoppingRule::nas), ("DP-NAS", StoppingRule::dp_nas), ("DP-exp-NAS", StoppingRule::dp_exp_nas)];

/// Runs a rule on coins in {-R, R} of mean mu: halting time and released mean.
fn run(make: Make, config: &StoppingConfig, mu: f64, stream: u64) -> (u64, f64) {
    let mut coins = Seed::new(Some(seed(1_000_000 + stream))).unwrap().stream();
    let config = StoppingConfig { test_seed: Some(seed(stream)), ..config.clone() };
    let mut rule = make(&config).unwrap();
    let heads = (1.0 + mu / config.range) / 2.0;
    while !rule.push(if coins.unit() < heads { config.range } else { -config.range }).unwrap() {}
    (rule.count(), rule.mean().unwrap())
}

/// Theorem 3.3's bound on the halting time, 2000 (t0 + t1 + t2).
fn bound(config: &StoppingConfig, mu: f64) -> f64 {
    let (r, mu, beta) = (config.range, mu.abs(), config.beta);
    let log = ((r / (config.alpha * mu)).ln() / beta).ln();
    let t0 = r * r * log / (config.alpha * mu).powi(2);
    let t1 = r * log / (config.epsilon * mu);
    let t2 = r * (1.0 / beta).ln() / (config.epsilon * config.alpha * mu);
    2000.0 * (t0 + t1 + t2)
}

#[test]
fn the_mean_is_within_alpha_and_the_halt_within_the_theorem() {
    // 1000 streams a rule; that a true failure rate of beta shows more failures than Clopper and
    // Pearson allow has probability 1e-6 a case.
    for (range, alpha, mu, epsilon) in [(1.0, 0.5, 0.5, 1.0), (3.0, 0.4, -1.2, 0.5)] {
        let config = StoppingConfig::new(range, alpha, 0.05, epsilon);
        for (name, make) in RULES {
            let runs: Vec<_> = (0..1000).map(|stream| run(make, &config, mu, stream)).collect();
            let wrong = runs.iter().filter(|(_, mean)| (mean - mu).abs() > alpha * mu.abs()).count() as u64;
            let late = runs.iter().filter(|(t, _)| *t as f64 > bound(&config, mu)).count() as u64;
            let times = runs.iter().map(|(t, _)| *t as f64).sum::<f64>() / 1000.0;
            println!("{name}, mu = {mu}: {wrong} wrong, {late} late, halts at {times:.0} on average");
            assert!(clopper_pearson(wrong, 1000, 1e-6).0 <= config.beta, "{name}: {wrong}");
            assert!(clopper_pearson(late, 1000, 1e-6).0 <= config.beta, "{name}: {late}");
        }
    }
}

#[test]
fn a_rule_that_halts_at_once_would_be_noticed() {
    // The check above has teeth: the mean of the first 4 samples is wrong far more often than beta.
    let config = StoppingConfig::new(1.0, 0.5, 0.05, 1.0);
    let wrong = |stream: &u64| {
        let mut coins = Seed::new(Some(seed(1_000_000 + stream))).unwrap().stream();
        let mean = (0..4).map(|_| if coins.unit() < 0.75 { 0.25 } else { -0.25 }).sum::<f64>();
        (mean - 0.5).abs() > config.alpha * 0.5
    };
    assert!(clopper_pearson((0..1000).filter(wrong).count() as u64, 1000, 1e-6).0 > config.beta);
}

#[test]
fn nas_halts_exactly_where_its_formula_says() {
    // Samples all R: |mean_t| = R, so it halts at the first t with 1 >= sqrt(2/t ln(4 t^2/beta)) (1 + 1/alpha).
    let config = StoppingConfig { test_seed: Some(seed(1)), ..StoppingConfig::new(2.0, 0.25, 0.1, 1.0) };
    let holds = |t: f64| 1.0 >= (2.0 / t * (4.0 * t * t / 0.1).ln()).sqrt() * 5.0;
    let first = (1..).find(|t| holds(f64::from(*t))).unwrap();
    let mut rule = StoppingRule::nas(&config).unwrap();
    while !rule.push(2.0).unwrap() {}
    assert_eq!((rule.count(), rule.mean()), (first as u64, Ok(2.0)));
}

#[test]
fn a_rule_says_whether_it_is_private() {
    let config = StoppingConfig::new(1.0, 0.5, 0.05, 1.0);
    let seeded = StoppingConfig { test_seed: Some(seed(1)), ..config.clone() };
    for (name, make) in RULES {
        assert_eq!(make(&config).unwrap().is_private(), name != "NAS");
        assert!(!make(&seeded).unwrap().is_private());
    }
}

#[test]
fn the_exponential_rule_halts_at_powers_of_two() {
    let config = StoppingConfig::new(1.0, 0.5, 0.05, 1.0);
    for stream in 0..50 {
        assert!(run(StoppingRule::dp_exp_nas, &config, 0.5, stream).0.is_power_of_two());
    }
}

#[test]
fn statuses() {
    for (_, make) in RULES {
        let config = StoppingConfig { test_seed: Some(seed(3)), ..StoppingConfig::new(1.0, 0.5, 0.05, 2.0) };
        let (mut rule, mut spared) = (make(&config).unwrap(), make(&config).unwrap());
        assert_eq!(rule.mean(), Err(Error::NotReady));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0001, -1.0001] {
            assert_eq!(rule.push(bad), Err(Error::InvalidReward));
        }
        // What was refused has changed nothing: the same seed halts at the same sample.
        while !rule.push(1.0).unwrap() {
            assert!(!spared.push(1.0).unwrap());
        }
        assert!(spared.push(1.0).unwrap());
        assert_eq!(rule.mean(), spared.mean());
        assert_eq!(rule.push(1.0), Err(Error::Halted));
        assert_eq!(rule.push(f64::NAN), Err(Error::Halted));
        assert_eq!(rule.mean(), spared.mean());
        assert!(format!("{rule:?}").contains(&format!("count: {}", rule.count())));
    }
}

#[test]
fn refuses_what_it_cannot_do() {
    let good = StoppingConfig::new(1.0, 0.5, 0.05, 1.0);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1.0] {
        let cases = [
            ("alpha", StoppingConfig { alpha: bad, ..good.clone() }),
            ("beta", StoppingConfig { beta: bad, ..good.clone() }),
            ("range", StoppingConfig { range: bad, ..good.clone() }),
            ("epsilon", StoppingConfig { epsilon: bad, ..good.clone() }),
        ];
        for (name, config) in cases {
            for (rule, make) in RULES {
                let fine =
                    (bad == 1.0 && (name == "range" || name == "epsilon")) || (name == "epsilon" && rule == "NAS");
                match make(&config) {
                    Ok(_) => assert!(fine, "{rule}: {name} = {bad}"),
                    Err(Error::InvalidConfig { field, .. }) => assert!(!fine && field == name, "{rule}: {field}"),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

/// What an outsider sees of DP-NAS on a constant stream with one changed sample: the halting time
/// and the released sum, on a coarse scale.
fn halting(make: Make, step: u64) -> impl Fn(u64, bool) -> u64 {
    move |number, neighbour| {
        let config = StoppingConfig { test_seed: Some(seed(number)), ..StoppingConfig::new(1.0, 0.9, 0.9, 1.0) };
        let mut rule = make(&config).unwrap();
        let mut first = if neighbour { -1.0 } else { 1.0 };
        while !rule.push(std::mem::replace(&mut first, 1.0)).unwrap() {}
        let lack = rule.count() as f64 - rule.mean().unwrap() * rule.count() as f64; // 0 or 2, plus noise
        pattern((rule.count() / step, (lack / 2.0).clamp(-1.0, 1.5).floor() as i64))
    }
}

#[test]
fn auditor_passes_the_private_rules_and_catches_half_the_noise() {
    let audit = Audit::pure(1.0, 10_000);
    for (name, make, step) in
        [("DP-NAS", StoppingRule::dp_nas as Make, 100), ("DP-exp-NAS", StoppingRule::dp_exp_nas, 1)]
    {
        let verdict = audit.run(halting(make, step));
        println!("{name}: {verdict:?}");
        assert!(!verdict.alarm, "{name}: {verdict:?}");
    }
    // The halt tells less than its budget, so the release alone, at eps/2, must give it away.
    let release = Audit::pure(0.5, 10_000);
    let alone = |make: Make| release.run(halting(make, u64::MAX));
    let full = alone(StoppingRule::dp_nas);
    let _hand = Sabotage::HalfNoise.hand(1);
    let half = alone(StoppingRule::dp_nas);
    println!("the release: {full:?}, with half the noise: {half:?}");
    assert!(!full.alarm && half.alarm);
}
