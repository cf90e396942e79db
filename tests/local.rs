//! The local model: an audit of the device's encoder, and the policies on its bits.

use crate::audit::engine::{Audit, seed};
use dpb::local::RandomizedResponse;
use dpb::{Algorithm, Bandit, Config, Error, Random, Seed};

const POLICIES: [Algorithm; 2] = [Algorithm::LdpUcb, Algorithm::LdpKlUcb];

fn random(number: u64) -> Random {
    Seed::new(Some(seed(number))).unwrap().stream()
}

#[test]
fn randomized_response_keeps_its_claim_and_no_stronger_one() {
    let response = RandomizedResponse::new(1.0).unwrap();
    let world = |rewards: [f64; 2]| {
        move |number, neighbour| {
            u64::from(response.encode(rewards[usize::from(neighbour)], &mut random(number)).unwrap())
        }
    };
    for rewards in [[0.0, 1.0], [0.3, 1.0], [0.2, 0.8]] {
        let verdict = Audit::pure(1.0, 20_000).run(world(rewards));
        assert!(!verdict.alarm, "{verdict:?}");
    }
    // The same bits, tested against a claim of four fifths of the loss.
    let verdict = Audit::pure(0.8, 40_000).run(world([0.0, 1.0]));
    assert!(verdict.alarm, "{verdict:?}");
}

/// Plays one run in which every device encodes its reward. Returns the pseudo-regret and the bandit.
fn run(policy: Algorithm, epsilon: f64, means: &[f64], horizon: u64) -> (f64, Bandit) {
    let config = Config { horizon, ..Config::new(means.len() as u32, epsilon) };
    let bandit = Bandit::new(policy, &config).unwrap();
    let response = RandomizedResponse::new(epsilon).unwrap();
    let mut random = random(7);
    let best = means.iter().copied().fold(0.0, f64::max);
    let regret = (0..horizon)
        .map(|_| {
            let decision = bandit.select().unwrap();
            let mean = means[decision.arm as usize];
            let raw = f64::from(random.unit() < mean);
            let bit = response.encode(raw, &mut random).unwrap();
            bandit.update(decision.ticket, f64::from(bit)).unwrap();
            best - mean
        })
        .sum();
    (regret, bandit)
}

#[test]
fn regret_is_far_below_uniform_play() {
    let means = [0.3, 0.9, 0.2, 0.5];
    let uniform = 42_500.0;
    let regrets = POLICIES.map(|policy| {
        let (regret, bandit) = run(policy, 1.0, &means, 100_000);
        for (arm, mean) in bandit.arm_reports().unwrap().iter().zip(means) {
            assert!((arm.mean - mean).abs() <= arm.width, "{policy:?}: {arm:?} {mean}");
        }
        let report = bandit.report().unwrap();
        assert!(report.epsilon_spent > 0.999 && report.epsilon_spent <= 1.0 && report.is_private);
        println!("{policy:?}: regret {regret:.0}, {uniform} uniform");
        assert!(regret < uniform / 10.0, "{policy:?}: {regret}");
        regret
    });
    assert!(regrets[1] < regrets[0], "{regrets:?}");
}

#[test]
fn the_server_takes_bits_only() {
    for policy in POLICIES {
        let config = Config { reward_min: -1.0, reward_max: 3.0, ..Config::new(2, 1.0) };
        let bandit = Bandit::new(policy, &config).unwrap();
        let ticket = bandit.select().unwrap().ticket;
        for raw in [0.0, 1.0, 2.999, -1.5, 4.0, f64::NAN, f64::INFINITY] {
            assert_eq!(bandit.update(ticket, raw), Err(Error::InvalidReward), "{raw}");
        }
        assert_eq!(bandit.report().unwrap().epsilon_spent, 0.0);
        bandit.update(ticket, 3.0).unwrap();
        let clamped = Config { clamp_rewards: true, ..config.clone() };
        assert!(matches!(Bandit::new(policy, &clamped), Err(Error::InvalidConfig { field: "clamp_rewards", .. })));
        let windowed = Config { reward_window: 8, ..config };
        assert!(matches!(Bandit::new(policy, &windowed), Err(Error::InvalidConfig { field: "reward_window", .. })));
        let loose = Config { epsilon: 1e-9, ..Config::new(2, 1.0) };
        assert!(matches!(Bandit::new(policy, &loose), Err(Error::InvalidConfig { field: "epsilon", .. })));
    }
}

#[test]
fn a_burst_without_rewards_plays_all_arms() {
    for policy in POLICIES {
        let bandit = Bandit::new(policy, &Config::new(4, 1.0)).unwrap();
        let mut pulls = [0; 4];
        let tickets: Vec<u64> = (0..400)
            .map(|_| {
                let decision = bandit.select().unwrap();
                pulls[decision.arm as usize] += 1;
                decision.ticket
            })
            .collect();
        assert!(pulls.iter().all(|&n| (90..=110).contains(&n)), "{policy:?}: {pulls:?}");
        tickets.iter().for_each(|&ticket| bandit.cancel(ticket).unwrap());
        assert!(bandit.arm_reports().unwrap().iter().all(|arm| arm.pulls == 0 && arm.mean.is_nan()));
    }
}
