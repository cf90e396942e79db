//! Stopping rules: their accuracy, their halting times, their errors, their privacy.

use crate::audit::engine::{Audit, clopper_pearson, pattern, seed};
use crate::audit::sabotage::Sabotage;
use dpb::noise::probe::{Draw, NoiseProbe};
use dpb::stopping::{StoppingConfig, StoppingRule};
use dpb::{Error, Seed};

type Make = fn(&StoppingConfig) -> dpb::Result<StoppingRule>;

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

/// t h_t (1 + 1/alpha) + c_t: the |sum| at which a private rule, at its k-th comparison at time t, halts without noise.
fn threshold(config: &StoppingConfig, t: f64, k: f64) -> f64 {
    let StoppingConfig { range, alpha, beta, epsilon, .. } = *config;
    let (s1, s2, s3) = (12.0 * range / epsilon, 12.0 * range / epsilon, 4.0 * range / epsilon);
    let hoeffding = range * (2.0 * t * (16.0 * k * k / beta).ln()).sqrt();
    let once = (4.0 / beta).ln();
    hoeffding * (1.0 + 1.0 / alpha) + s1 * once + s2 * (8.0 * k * k / beta).ln() + s3 / alpha * once
}

/// Theorem 3.3 with constants: all rules halt by this time with probability 1 - beta. At one time t the sum is below t
/// |mu| - sqrt(2 t ln(4/beta)) R with probability at most beta/2, and each noise is above ln(4/beta) of its scale with
/// probability beta/8.
fn latest(config: &StoppingConfig, mu: f64, powers_of_two: bool) -> u64 {
    let log = (4.0 / config.beta).ln();
    let noises = 2.0 * 12.0 * config.range / config.epsilon * log;
    let halts =
        |t: f64, k: f64| t * mu.abs() >= config.range * (2.0 * t * log).sqrt() + threshold(config, t, k) + noises;
    let asked = |t: &u64| {
        if powers_of_two {
            t.is_power_of_two() && halts(*t as f64, t.ilog2().into())
        } else {
            halts(*t as f64, *t as f64)
        }
    };
    (2..).find(asked).unwrap()
}

#[test]
fn the_mean_is_within_alpha_and_the_halt_in_time() {
    // 1000 streams for each rule. If the true failure rate is beta, more failures than Clopper and Pearson allow have
    // probability 1e-6 in each case.
    for (range, alpha, mu, epsilon) in [(1.0, 0.5, 0.5, 1.0), (3.0, 0.4, -1.2, 0.5)] {
        let config = StoppingConfig::new(range, alpha, 0.05, epsilon);
        for (name, make) in RULES {
            let runs: Vec<_> = (0..1000).map(|stream| run(make, &config, mu, stream)).collect();
            let latest = latest(&config, mu, name == "DP-exp-NAS");
            let wrong = runs.iter().filter(|(_, mean)| (mean - mu).abs() > alpha * mu.abs()).count() as u64;
            let late = runs.iter().filter(|(t, _)| *t > latest).count() as u64;
            let times = runs.iter().map(|(t, _)| *t as f64).sum::<f64>() / 1000.0;
            println!("{name}, mu = {mu}: {wrong} wrong, {late} later than {latest}, halts at {times:.0} on average");
            assert!(clopper_pearson(wrong, 1000, 1e-6).0 <= config.beta, "{name}: {wrong}");
            assert!(clopper_pearson(late, 1000, 1e-6).0 <= config.beta, "{name}: {late}");
        }
    }
}

/// The rules' constants: without noise, and on equal samples, the rule halts where the formula says. In the first of
/// the two settings the noise determines it, in the second the deviation of the samples.
#[test]
fn private_rules_halt_exactly_where_their_formulas_say() {
    for (alpha, beta, epsilon) in [(0.9, 0.5, 0.2), (0.2, 0.01, 20.0)] {
        let config = StoppingConfig { test_seed: Some(seed(1)), ..StoppingConfig::new(2.0, alpha, beta, epsilon) };
        for share in [1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3] {
            let sample = 2.0 * share;
            let asked = |t: u64, k: f64| t as f64 * sample >= threshold(&config, t as f64, k);
            let always = (1..).find(|&t| asked(t, t as f64)).unwrap();
            let powers = (1..).map(|k| 1 << k).find(|&t: &u64| asked(t, t.ilog2().into())).unwrap();
            for (make, first) in [(StoppingRule::dp_nas as Make, always), (StoppingRule::dp_exp_nas, powers)] {
                let _hand = Sabotage::NoNoise.hand(1);
                let mut rule = make(&config).unwrap();
                while !rule.push(sample).unwrap() {}
                assert_eq!(rule.count(), first, "{alpha} {beta} {epsilon} {share}");
                assert!((rule.mean().unwrap() - sample).abs() < 1e-4);
            }
        }
    }
}

/// Samples that raise the sum to `gap` below the threshold and keep it there for this many comparisons.
fn below(config: &StoppingConfig, gap: f64, questions: usize) -> Vec<f64> {
    let (mut samples, mut sum, mut there) = (Vec::new(), 0.0, 0);
    while there < questions {
        let t = samples.len() as f64 + 1.0;
        let wanted = threshold(config, t, t) - gap - sum;
        there += usize::from(there > 0 || wanted <= config.range);
        samples.push(wanted.clamp(-config.range, config.range));
        sum += samples[samples.len() - 1];
    }
    samples
}

/// A fault that weakens the noise in one place only.
type Weakness = fn(usize, Draw) -> f64;
const HONEST: Weakness = |_, _| 1.0;
const NO_THRESHOLD: Weakness = |before, _| if before == 0 { 0.0 } else { 1.0 };
/// The noise of comparisons at a third of its scale; the release's scale is a third of theirs.
fn third_of_questions(before: usize, draw: Draw) -> f64 {
    let question = draw == Draw::Laplace(12 << 23);
    if before > 0 && question { 1.0 / 3.0 } else { 1.0 }
}

/// Runs a rule on these samples with its noise moved. Returns when it halts, the released mean, and the noise.
fn halt(
    make: Make,
    samples: &[f64],
    weakness: Weakness,
    moves: &[(usize, i64)],
    number: u64,
) -> (u64, Option<u64>, Vec<Draw>) {
    let config = StoppingConfig { test_seed: Some(seed(number)), ..StoppingConfig::new(1.0, 0.9, 0.9, 1.0) };
    let hand = NoiseProbe::new().weakening(weakness).moving(moves);
    let mut rule = make(&config).unwrap();
    for &sample in samples {
        if rule.push(sample).unwrap() {
            break;
        }
    }
    (rule.count(), rule.mean().ok().map(f64::to_bits), hand.lift())
}

/// Executes the proof of privacy. The threshold's noise moves up by one sample's range D, that of the halting
/// comparison down by 2D, and the release's by the difference of the sums. Then a stream with one changed sample halts
/// at the same time with the same mean. The cost of the moves is the loss.
fn loss(make: Make, weakness: Weakness) -> Result<f64, String> {
    let config = StoppingConfig::new(1.0, 0.9, 0.9, 1.0);
    let d = 1 << 24;
    let mut most = 0.0f64;
    for number in 0..60 {
        // Half of the streams stay where comparisons are close, the others are coins.
        let mut coins = Seed::new(Some(seed(!number))).unwrap().stream();
        let mut samples: Vec<f64> = match number % 2 {
            0 => below(&config, 20.0, 2000),
            _ => (0..4000).map(|_| if coins.below(8) > 0 { 1.0 } else { -1.0 }).collect(),
        };
        let (changed, up) = (coins.below(300) as usize, coins.bit());
        samples[changed] = if up { -1.0 } else { 1.0 };
        let plain = halt(make, &samples, weakness, &[], number);
        if plain.1.is_none() || plain.0 <= changed as u64 {
            continue; // it does not halt, or it halts before the change
        }
        let halting = plain.2.len() - 2;
        samples[changed] *= -1.0;
        let moves = [(0, d), (halting, -2 * d), (halting + 1, if up { -d } else { d })];
        let same = halt(make, &samples, weakness, &moves, number);
        if (same.0, same.1) != (plain.0, plain.1) {
            return Err(format!("stream {number}: halts at {} and at {}", plain.0, same.0));
        }
        let cost = |&(draw, by): &(usize, i64)| match plain.2[draw] {
            Draw::Laplace(scale) => by.unsigned_abs() as f64 / scale as f64,
            other => panic!("{other:?}"),
        };
        most = most.max(moves.iter().map(cost).sum());
    }
    Ok(most)
}

#[test]
fn noise_hides_a_changed_sample() {
    for make in [StoppingRule::dp_nas as Make, StoppingRule::dp_exp_nas] {
        assert!((loss(make, HONEST).unwrap() - 1.0).abs() < 1e-6);
        for weakness in [NO_THRESHOLD, third_of_questions, |_, _| 0.9] {
            let loss = loss(make, weakness);
            assert!(loss.as_ref().is_ok_and(|&loss| loss > 1.05), "{loss:?}");
        }
    }
}

#[test]
fn the_check_detects_a_rule_that_halts_at_once() {
    // The check above can fail: the mean of the first 4 samples is wrong far more often than beta.
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
        // A refused value has changed nothing: the same seed halts at the same sample.
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

/// The public outputs of DP-NAS on a constant stream with one changed sample: the halting time, and the released sum on
/// a coarse scale.
fn halting(make: Make, sabotage: Sabotage, step: u64) -> impl Fn(u64, bool) -> u64 {
    move |number, neighbour| {
        let _hand = sabotage.hand(1);
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
    let audit = Audit::pure(1.0, 6_000);
    for (name, make, step) in
        [("DP-NAS", StoppingRule::dp_nas as Make, 100), ("DP-exp-NAS", StoppingRule::dp_exp_nas, 1)]
    {
        let verdict = audit.run(halting(make, Sabotage::Nothing, step));
        println!("{name}: {verdict:?}");
        assert!(!verdict.alarm, "{name}: {verdict:?}");
    }
    // The halting time reveals less than its budget, so the audit must detect the fault in the release alone, at eps/2.
    let release = Audit::pure(0.5, 6_000);
    let alone = |sabotage| release.run(halting(StoppingRule::dp_nas, sabotage, u64::MAX));
    let (full, half) = (alone(Sabotage::Nothing), alone(Sabotage::HalfNoise));
    println!("the release: {full:?}, with half the noise: {half:?}");
    assert!(!full.alarm && half.alarm);
}

/// A stream that stays just below the threshold repeats the same comparison. Each result reveals a little about a
/// changed sample. Only the threshold's noise, the same in all comparisons, keeps this from adding up: within eps/2,
/// the share of the halt.
#[test]
#[ignore = "five seconds"]
fn the_thresholds_noise_is_missed() {
    let config = StoppingConfig::new(1.0, 0.99, 0.99, 8.0);
    // The first sample is the changed one: 1 here and in the neighbour's stream. With a probability of e^-3/2 for each,
    // one stream in seven survives eighty comparisons, and with the neighbour's sum far fewer.
    let samples = below(&config, 3.0 * 12.0 / 8.0 - 2.0, 80);
    let halts = |weakness: Weakness| {
        let (config, samples) = (config.clone(), samples.clone());
        move |number, neighbour: bool| {
            let _hand = NoiseProbe::new().weakening(weakness);
            let mut rule =
                StoppingRule::dp_nas(&StoppingConfig { test_seed: Some(seed(number)), ..config.clone() }).unwrap();
            let first = if neighbour { 1.0 } else { -1.0 };
            let mut stream = std::iter::once(first).chain(samples[1..].iter().copied());
            pattern(stream.position(|sample| rule.push(sample).unwrap()).map(|at| at / 10))
        }
    };
    let audit = Audit::pure(4.0, 42_000);
    let (honest, missing) = (audit.run(halts(HONEST)), audit.run(halts(NO_THRESHOLD)));
    println!("{honest:?}, without it {missing:?}");
    assert!(!honest.alarm && missing.alarm, "{honest:?} {missing:?}");
}
