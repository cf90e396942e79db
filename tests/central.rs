//! The policies of the central model: audited, with delayed rewards, and restarted.

use crate::audit::engine::{Audit, Verdict, clopper_pearson, pattern, play, seed};
use crate::audit::sabotage::Sabotage;
use dpb::{Algorithm, Bandit, Config, Error, Seed};
use proptest::prelude::*;

/// A configuration that every policy in this file accepts.
fn config(arms: u32, epsilon: f64, number: u64) -> Config {
    Config { delta: (-10f64).exp(), horizon: 10_000, test_seed: Some(seed(number)), ..Config::new(arms, epsilon) }
}

const CENTRAL: [Algorithm; 9] = [
    Algorithm::Se,
    Algorithm::NonprivateUcb1,
    Algorithm::NonprivateKlUcb,
    Algorithm::NonprivateImed,
    Algorithm::NonprivateSe,
    Algorithm::UcbBound,
    Algorithm::Ucb,
    Algorithm::UcbInt,
    Algorithm::PrivateUcb,
];

/// Five arms pay one, except that the first `changed` pulls of arm 0 pay zero in one of the two worlds. The output is
/// when arm 0 is played again after all arms have had `pulls` pulls.
fn audit(
    algorithm: Algorithm,
    base: &Config,
    sabotage: Sabotage,
    claim: f64,
    pulls: u64,
    changed: u64,
    runs: u64,
) -> Verdict {
    const LATER: usize = 4;
    Audit::pure(claim, runs).run(|number, neighbour| {
        let config = Config { test_seed: Some(seed(number)), ..base.clone() };
        let table = |arm, pull| f64::from(u8::from(!(neighbour && arm == 0 && pull < changed)));
        let _hand = sabotage.hand(5);
        let arms = play(algorithm, &config, 5 * pulls as usize + LATER, table);
        pattern(arms[5 * pulls as usize..].iter().map(|&arm| arm == 0).collect::<Vec<_>>())
    })
}

/// The first release point of DP-UCB-INT, and the loss of its release. The report includes it as soon as an arm can
/// have had that many rewards.
fn first_release(config: &Config) -> (u64, f64) {
    let bandit = Bandit::new(Algorithm::UcbInt, config).unwrap();
    for answers in 1.. {
        bandit.update(bandit.select().unwrap().ticket, 1.0).unwrap();
        let spent = bandit.epsilon_spent(0.0).unwrap();
        if spent > 0.0 {
            return (answers, spent);
        }
    }
    unreachable!()
}

/// DP-UCB-INT releases first at the 45th reward of each arm, which costs 1.65 * 45^-0.55 = 0.2. Eight changed rewards
/// lose 8 times that, purely. There is no other release until the auditor has read enough.
#[test]
#[ignore = "fifteen seconds"]
fn dp_ucb_int_keeps_the_claim_of_its_releases() {
    let honest = Config { delta: (-10f64).exp(), ..Config::new(5, 1.0) };
    let (pulls, loss) = first_release(&honest);
    assert!(pulls == 45 && (1.6..1.7).contains(&(loss / 45f64.powf(-0.55))), "{pulls}, {loss}");
    let claim = 8.0 * loss;
    let verdict = audit(Algorithm::UcbInt, &honest, Sabotage::Nothing, claim, pulls, 8, 6000);
    let weak = audit(Algorithm::UcbInt, &honest, Sabotage::HalfNoise, claim, pulls, 8, 6000);
    println!("DP-UCB-INT: claim {claim}, {verdict:?}, with half the noise {weak:?}");
    assert!(!verdict.alarm && weak.alarm, "{verdict:?} {weak:?}");
}

/// The reported loss of DP-UCB-INT is at least that of its releases, and a function of the number of rewards. The true
/// number of releases of an arm would depend on released values.
#[test]
fn dp_ucb_int_reports_the_most_that_its_schedule_allows() {
    for (batch, v) in [(0, 1.1), (1, 1.1), (100, 1.4)] {
        let config = Config { batch, interval_exponent: v, ..config(2, 1.0, 5) };
        let (first, loss) = first_release(&config);
        let c = loss * (first as f64).powf(v / 2.0);
        let (bandit, other) = (
            Bandit::new(Algorithm::UcbInt, &Algorithm::UcbInt.fit(&config)).unwrap(),
            Bandit::new(Algorithm::UcbInt, &Algorithm::UcbInt.fit(&config)).unwrap(),
        );
        assert_eq!(bandit.epsilon_spent(0.0), Ok(0.0));
        let (mut counts, mut means, mut losses) = ([0u64; 2], [f64::NAN; 2], [0.0, 0.0]);
        let (mut renoised, mut apart) = (0, 0);
        for t in 0..20_000 {
            let (decision, else_where) = (bandit.select().unwrap(), other.select().unwrap());
            let arm = decision.arm as usize;
            apart += u64::from(decision.arm != else_where.arm);
            bandit.update(decision.ticket, f64::from(u8::from(!(t * 7 + arm).is_multiple_of(3)))).unwrap();
            other.update(else_where.ticket, f64::from(else_where.arm)).unwrap();
            counts[arm] += 1;
            for (i, report) in bandit.arm_reports().unwrap().iter().enumerate() {
                if report.mean.to_bits() != means[i].to_bits() {
                    assert_eq!(i, arm, "an idle arm was released again");
                    (means[i], renoised) = (report.mean, renoised + 1);
                    losses[i] += c * (counts[i] as f64).powf(-v / 2.0);
                }
            }
            let spent = bandit.epsilon_spent(0.0).unwrap();
            assert!(spent >= f64::max(losses[0], losses[1]) * (1.0 - 1e-9), "{spent} {losses:?}");
            assert_eq!(other.epsilon_spent(0.0), Ok(spent));
        }
        assert!(apart > 1000 && renoised > 10, "{apart} {renoised}");
        // Nothing else was released, and all releases together keep the claim.
        let (spent, most) = (bandit.epsilon_spent(0.0).unwrap(), f64::max(losses[0], losses[1]));
        assert!(spent < 1.5 * most, "{spent} against {most}");
        let report = bandit.report().unwrap();
        assert!(report.epsilon_spent <= 1.0 && report.delta_spent <= config.delta, "{report:?}");
    }
}

/// Every decision is the argmax of released mean + sqrt(2 ln t/n_a), with the bonus at this t, or for DP-UCB-INT at its
/// last release. The first decisions are all arms in turn.
#[test]
fn the_index_is_what_the_docs_say() {
    for algorithm in [Algorithm::UcbInt, Algorithm::Ucb, Algorithm::NonprivateUcb1] {
        let bandit = Bandit::new(algorithm, &algorithm.fit(&config(3, 1.0, 4))).unwrap();
        let (mut checked, mut released) = (0, [(f64::NAN, 0u64); 3]);
        for t in 1..20_000u64 {
            let arms = bandit.arm_reports().unwrap();
            for (arm, (mean, at)) in arms.iter().zip(&mut released) {
                if arm.mean.to_bits() != mean.to_bits() {
                    (*mean, *at) = (arm.mean, arm.pulls);
                }
            }
            let index = |arm: u32| {
                let (arm, (mean, at)) = (&arms[arm as usize], released[arm as usize]);
                let n = if algorithm == Algorithm::UcbInt { at } else { arm.pulls };
                mean + (2.0 * (t as f64).ln() / n as f64).sqrt()
            };
            let decision = bandit.select().unwrap();
            if algorithm == Algorithm::UcbInt && t <= 3 * 45 {
                assert_eq!(u64::from(decision.arm), (t - 1) % 3);
            }
            if arms.iter().all(|arm| !arm.mean.is_nan()) {
                let best = (0..3).map(index).fold(f64::NEG_INFINITY, f64::max);
                assert!(index(decision.arm) >= best - 1e-9, "{} at {t}: {arms:?}", algorithm.name());
                checked += 1;
            }
            let reward = [0.5, 0.25, 0.75][decision.arm as usize];
            bandit.update(decision.ticket, reward).unwrap();
        }
        assert!(checked > 19_000);
    }
}

/// The share of the worse of TD16's two arms in the second half of a run, counted over this many runs.
fn lost(config: &Config, decisions: usize, runs: u64) -> usize {
    let loses = |&number: &u64| {
        let mut random = Seed::new(Some(seed(500 + number))).unwrap().stream();
        let coins: Vec<f64> = (0..2 * decisions).map(|_| random.unit()).collect();
        let table =
            |arm, pull: u64| f64::from(u8::from(coins[2 * pull as usize + arm as usize] < [0.9, 0.6][arm as usize]));
        let config = Config { test_seed: Some(seed(number)), ..config.clone() };
        let arms = play(Algorithm::UcbInt, &config, decisions, table);
        let worse = arms[decisions / 2..].iter().filter(|&&arm| arm == 1).count();
        worse > decisions / 4
    };
    (0..runs).filter(loses).count()
}

/// Theorem 3.5 of the paper states UCB's regret plus a constant. With the printed index some runs lose the best arm: at
/// v = 1.5, eps = 2 some 2.7% at 10,000 decisions (16 of 600 expected: fewer than 4 or more than 40 with probability
/// 1e-4), so the mean is near-linear.
#[test]
#[ignore = "five seconds"]
fn with_the_printed_index_some_runs_lose_the_best_arm() {
    let printed = Config { interval_exponent: 1.5, ..config(2, 2.0, 0) };
    let share = lost(&printed, 10_000, 600);
    println!("{share} of 600");
    assert!((4..=40).contains(&share), "{share} of 600");
}

/// The rigorous index plays a worse arm until the width of its noise exceeds the best arm's by no more than the gap.
/// This formula gives the number of pulls, here for rewards without variance. (Noise that raises a mean by a thirtieth
/// prolongs that by a seventh, hence the tolerance.)
#[test]
fn the_rigorous_index_needs_what_the_docs_say() {
    let (v, gap) = (1.1, 0.3);
    for (epsilon, decisions) in [(1.0, 30_000u64), (1.0, 100_000), (4.0, 30_000)] {
        let config = Config { rigorous_index: true, ..config(2, epsilon, 3) };
        let (first, loss) = first_release(&config);
        let c = loss * (first as f64).powf(v / 2.0);
        let worse = |number| {
            let config = Config { test_seed: Some(seed(number)), ..config.clone() };
            let arms = play(Algorithm::UcbInt, &config, decisions as usize, |arm, _| [0.9, 0.6][arm as usize]);
            arms.iter().filter(|&&arm| arm == 1).count() as f64
        };
        let worse = (0..8).map(worse).sum::<f64>() / 8.0;
        let ln_t = (decisions as f64).ln();
        let index = |n: f64| (2.0 * ln_t / n).sqrt() + 3.5 * ln_t / c * n.powf(v / 2.0 - 1.0);
        let beyond = |n: f64| index(n) - index(decisions as f64 - n) < gap;
        let (mut low, mut high) = (1.0, decisions as f64 / 2.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if beyond(middle) { high = middle } else { low = middle }
        }
        println!("eps {epsilon}: {worse} pulls, {high:.0} by the formula");
        assert!((0.9..1.15).contains(&(worse / high)), "eps {epsilon}: {worse} pulls, {high} by the formula");
    }
}

/// DP-UCB's Theorem 3.3 is wrong: the pulls of a worse arm grow as ln^3 t, not as ln t.
#[test]
fn dp_ucb_plays_a_worse_arm_ln_cubed_times() {
    let at = [1_000usize, 10_000, 100_000];
    let mut pulls = [0.0; 3];
    for number in 0..8 {
        let arms = play(Algorithm::Ucb, &config(2, 1.0, number), at[2], |arm, _| [0.9, 0.6][arm as usize]);
        for (pulls, &t) in pulls.iter_mut().zip(&at) {
            *pulls += arms[..t].iter().filter(|&&arm| arm == 1).count() as f64 / 8.0;
        }
    }
    let over = |power| -> Vec<f64> { pulls.iter().zip(at).map(|(n, t)| n / (t as f64).ln().powi(power)).collect() };
    println!("{pulls:?}: over ln^2 t {:?}, over ln^3 t {:?}", over(2), over(3));
    assert!(over(3).iter().all(|x| (0.55..0.95).contains(x)), "{:?}", over(3));
    assert!(over(2)[2] > 1.7 * over(2)[0], "{:?}", over(2));
}

/// The index that includes the width of the noise is larger, so the worse arm is played more often.
#[test]
fn the_rigorous_index_explores_more() {
    let pulls = |rigorous_index| -> usize {
        let table = |arm, _| if arm == 0 { 0.9 } else { 0.3 };
        let worse = |number| {
            let config = Config { rigorous_index, ..config(2, 1.0, number) };
            play(Algorithm::UcbInt, &config, 10_000, table).iter().filter(|&&arm| arm == 1).count()
        };
        (0..10).map(worse).sum()
    };
    let (printed, rigorous) = (pulls(false), pulls(true));
    assert!(rigorous > 2 * printed, "{printed} and {rigorous}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// For any order of rewards, cancellations and silence: nothing breaks, many open decisions spread over the arms,
    /// and readable values come from rewards only.
    #[test]
    fn any_order_of_rewards_is_safe(steps in prop::collection::vec((0u8..10, 0.0..=1.0f64, any::<prop::sample::Index>()), 1..400), number: u64) {
        for algorithm in CENTRAL {
            let config = Config { pending_capacity: 16, ..config(3, 1.0, number) };
            let bandit = Bandit::new(algorithm, &algorithm.fit(&config)).unwrap();
            let mut open: Vec<u64> = Vec::new();
            let mut answered = [false; 3];
            let mut arms = std::collections::HashMap::new();
            for (action, reward, which) in &steps {
                if *action < 4 || open.is_empty() {
                    let decision = bandit.select().unwrap();
                    prop_assert!(decision.arm < 3 && decision.propensity == 1.0);
                    arms.insert(decision.ticket, decision.arm);
                    open.push(decision.ticket);
                } else {
                    let ticket = open.swap_remove(which.index(open.len()));
                    let outcome = if *action < 8 { bandit.update(ticket, *reward) } else { bandit.cancel(ticket) };
                    prop_assert!(matches!(outcome, Ok(()) | Err(Error::Expired)), "{:?}", outcome);
                    answered[arms[&ticket] as usize] |= *action < 8 && outcome.is_ok();
                }
            }
            for (arm, report) in bandit.arm_reports().unwrap().iter().enumerate() {
                prop_assert!(report.mean.is_nan() == report.width.is_nan());
                prop_assert!(answered[arm] || report.mean.is_nan());
            }
        }
    }
}

#[test]
fn a_burst_without_rewards_plays_all_arms() {
    for algorithm in CENTRAL {
        let bandit = Bandit::new(algorithm, &algorithm.fit(&config(4, 1.0, 1))).unwrap();
        let mut pulls = [0; 4];
        (0..400).for_each(|_| pulls[bandit.select().unwrap().arm as usize] += 1);
        assert!(pulls.iter().all(|&n| n >= 90), "{}: {pulls:?}", algorithm.name());
    }
}

#[test]
fn dp_se_restarts_with_all_arms_when_its_guess_is_reached() {
    // Without a horizon the guess is 4096 K = 8192; arm 1 is eliminated after some 3000 decisions.
    let config = Config { horizon: 0, ..config(2, 1.0, 1) };
    let bandit = Bandit::new(Algorithm::Se, &Algorithm::Se.fit(&config)).unwrap();
    let mut better = 0;
    let play = |until: u64, better: u32| {
        while bandit.report().unwrap().counts.decisions < until {
            let decision = bandit.select().unwrap();
            bandit.update(decision.ticket, f64::from(u8::from(decision.arm == better))).unwrap();
        }
        (bandit.best_arm(), bandit.report().unwrap())
    };
    let (best, report) = play(8192, better);
    assert!(best == Ok(0) && report.arms_active == 1 && report.phase == 1, "{best:?} {report:?}");
    // The elimination is not final: both arms are back, in a first epoch, and may now rank differently.
    let (best, report) = play(8193, better);
    assert!(best == Err(Error::NotReady) && report.arms_active == 2 && report.phase == 1, "{best:?} {report:?}");
    better = 1;
    let (best, report) = play(20_000, better);
    assert!(best == Ok(1) && report.epsilon_spent <= 1.0, "{best:?} {report:?}");
    // beta fell to 8192^-2 with the new guess: R_1 = ceil(128 ln(16 * 8192^2) + 1), twice.
    let epoch = 2 * (128.0 * (16.0 * 8192f64.powi(2)).ln() + 1.0).ceil() as u64;
    let pulls: Vec<u64> = bandit.arm_reports().unwrap().iter().map(|arm| arm.pulls).collect();
    assert_eq!(pulls.iter().sum::<u64>(), 20_000);
    assert!(pulls[1] >= 20_000 - 8192 - epoch / 2, "{pulls:?}");
}

/// Even-Dar's radius: next to an arm that always pays, an arm that never pays is eliminated in the first round n with 1
/// > 2 sqrt(ln(4 K n^2/beta)/(2 n)).
#[test]
fn successive_elimination_drops_by_its_radius() {
    for beta in [0.5, 0.01] {
        let config = Config { beta, horizon: 0, ..config(2, 1.0, 1) };
        let bandit = Bandit::new(Algorithm::NonprivateSe, &Algorithm::NonprivateSe.fit(&config)).unwrap();
        let mut rounds = 0u64;
        while bandit.best_arm().is_err() {
            for _ in 0..2 {
                let decision = bandit.select().unwrap();
                bandit.update(decision.ticket, f64::from(u8::from(decision.arm == 1))).unwrap();
            }
            rounds += 1;
        }
        let dropped = |n: &u64| 1.0 > 2.0 * ((8.0 * (n * n) as f64 / beta).ln() / (2 * n) as f64).sqrt();
        assert_eq!(Some(rounds), (1..).find(dropped), "{beta}");
        assert_eq!(bandit.best_arm(), Ok(1));
    }
}

#[test]
fn the_best_arm_at_fixed_confidence() {
    // At beta = 0.1, 300 runs cannot exclude a true failure rate slightly above 0.1, but they exclude 0.2. A rate of
    // 0.1 alarms once in a million.
    for algorithm in [Algorithm::Se, Algorithm::NonprivateSe] {
        let wrong = |&number: &u64| {
            let config = Config { beta: 0.1, horizon: 0, ..config(3, 1.0, number) };
            let bandit = Bandit::new(algorithm, &algorithm.fit(&config)).unwrap();
            let mut coins = Seed::new(Some(seed(77 + number))).unwrap().stream();
            assert_eq!(bandit.best_arm(), Err(Error::NotReady));
            while bandit.best_arm().is_err() {
                let decision = bandit.select().unwrap();
                let mean = [0.3, 0.7, 0.4][decision.arm as usize];
                bandit.update(decision.ticket, f64::from(u8::from(coins.unit() < mean))).unwrap();
            }
            bandit.best_arm() != Ok(1)
        };
        let wrong = (0..300).filter(wrong).count() as u64;
        assert!(clopper_pearson(wrong, 300, 1e-6).0 <= 0.1, "{}: {wrong} of 300", algorithm.name());
    }
}

/// Regret of the optimal baselines: below UCB1's, and below the bound of Lai and Robbins by no more than the slack of
/// the ln T term.
#[test]
fn kl_ucb_and_imed_beat_ucb1() {
    let regret = |algorithm| {
        let run = |number: u64| {
            let mut random = Seed::new(Some(seed(99 + number))).unwrap().stream();
            let coins: Vec<f64> = (0..20_000).map(|_| random.unit()).collect();
            let table = |arm, pull: u64| {
                f64::from(u8::from(coins[(pull as usize * 2 + arm as usize) % 20_000] < [0.9, 0.6][arm as usize]))
            };
            0.3 * play(algorithm, &config(2, 1.0, number), 10_000, table).iter().filter(|&&arm| arm == 1).count() as f64
        };
        (0..20).map(run).sum::<f64>() / 20.0
    };
    let ucb1 = regret(Algorithm::NonprivateUcb1);
    for algorithm in [Algorithm::NonprivateKlUcb, Algorithm::NonprivateImed] {
        let regret = regret(algorithm);
        println!("{}: {regret} against {ucb1}", algorithm.name());
        assert!(regret < ucb1 / 3.0 && regret > 1.0, "{}: {regret} against {ucb1}", algorithm.name());
    }
}
