//! Adversarial rewards: the regret of EXP3, DP-EXP3-Lap, EXP3_tau and Tsallis, and an audit of EXP3_tau, whose noise is
//! its own draws (tests/audit_tool.rs audits the others).

#[path = "../examples/common/adversaries.rs"]
mod adversaries;

use crate::audit::engine::{Audit, pattern, play, seed};
use adversaries::{ADVERSARIES, Adversary, median_of_means, papers_level, players, tournament};
use dpb::{Algorithm, Bandit, Config};

/// The regrets of EXP3, DP-EXP3-Lap, EXP3_tau and Tsallis.
fn regrets(adversary: Adversary, rounds: usize, runs: u64) -> [f64; 4] {
    let mut players = players(rounds, 4, papers_level(rounds, 4));
    players.remove(2);
    let regrets = tournament(adversary, &players, rounds, runs);
    std::array::from_fn(|player| median_of_means(&regrets[player], 24))
}

/// The order in Figure 1 of Tossou and Dimitrakakis (2017). Over 24 runs the medians' standard errors are below a tenth
/// of the gaps between them: with the true order, the test fails with probability below 1e-9.
#[test]
#[ignore = "T = 2^18: 20 s"]
fn regrets_are_ordered_as_in_the_papers_figure() {
    for (name, adversary) in ADVERSARIES {
        let [exp3, lap, tau, tsallis] = regrets(adversary, 1 << 18, 24);
        println!("{name}: EXP3 {exp3:.0}, DP-EXP3-Lap {lap:.0}, EXP3_tau {tau:.0}, Tsallis {tsallis:.0}");
        if name == "switching costs" {
            assert!(tau < exp3 && exp3 < lap, "{name}");
        } else {
            assert!(exp3 < lap && lap < tau, "{name}");
        }
        assert!(tsallis < exp3, "{name}");
    }
}

/// The same order at T = 2^14, where only these two games distinguish all players.
#[test]
#[ignore = "five seconds"]
fn a_short_game_shows_the_same_ordering() {
    let [exp3, lap, tau, tsallis] = regrets(adversaries::deterministic, 1 << 14, 24);
    assert!(tsallis < exp3 && exp3 < lap && lap < tau, "{exp3} {lap} {tau} {tsallis}");
    let [exp3, lap, tau, tsallis] = regrets(adversaries::switching_costs, 1 << 14, 24);
    assert!(tsallis < exp3 && tau < exp3 && exp3 < lap, "{exp3} {lap} {tau} {tsallis}");
}

/// An audit of EXP3_tau: the first eight rewards of arm 0 are one user's, all 0 or all 1. The output is how often arm 0
/// was drawn, and whether it was drawn first.
#[test]
#[ignore = "seven seconds"]
fn exp3_tau_keeps_its_claim() {
    let mut config = Config::new(5, 1.0);
    (config.horizon, config.delta, config.contributions_per_user) = (2000, 1e-2, 8);
    let world = |number, neighbour| {
        let config = Config { test_seed: Some(seed(number)), ..config.clone() };
        let arms =
            play(Algorithm::Exp3Tau, &config, 2000, |arm, pull| f64::from(u8::from(arm == 0 && pull < 8 && neighbour)));
        pattern((arms[0] == 0, arms.iter().filter(|&&arm| arm == 0).count()))
    };
    let audit = Audit { delta: config.delta, ..Audit::pure(config.epsilon, 4_000) };
    let verdict = audit.run(world);
    assert!(!verdict.alarm, "{verdict:?}");
}

/// Rewards come late, out of order, after a cancellation, or never, with and without a reward window. Arm 1 pays 0.9,
/// the others 0.1, and every policy must learn this from the rest.
#[test]
fn rewards_in_any_order_do_not_stop_learning() {
    for algorithm in [Algorithm::NonprivateExp3, Algorithm::Exp3Lap, Algorithm::Exp3Tau, Algorithm::Tsallis] {
        for window in [0, 100] {
            let mut config = Config::new(3, 4.0);
            (config.horizon, config.delta, config.batch) = (400_000, 1e-3, 4);
            (config.pending_capacity, config.reward_window) = (64, window);
            config.test_seed = Some(seed(77));
            let bandit = Bandit::new(algorithm, &algorithm.fit(&config)).unwrap();
            let mut random = adversaries::stream(78);
            let (mut open, mut best) = (Vec::new(), 0);
            for round in 0..400_000 {
                let decision = bandit.select().unwrap();
                best += u32::from(decision.arm == 1 && round >= 300_000);
                open.push((decision.ticket, if decision.arm == 1 { 0.9 } else { 0.1 }));
                if open.len() > 40 {
                    let (ticket, reward) = open.swap_remove(random.below(41) as usize);
                    // the oldest decisions have expired meanwhile
                    match random.below(20) {
                        0 => _ = bandit.cancel(ticket),
                        1 => {}
                        _ => _ = bandit.update(ticket, reward),
                    }
                }
            }
            let counts = bandit.report().unwrap().counts;
            assert!(counts.cancelled > 10_000 && (counts.expired > 10_000) == (window == 0), "{counts:?}");
            assert!(best > 60_000, "{algorithm:?} {window}: {best} of 100000");
        }
    }
}
