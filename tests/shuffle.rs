//! The shuffle model: its three roles, and its two policies (audit_tool.rs audits them).

use crate::audit::engine::{Audit, pattern, seed};
use crate::audit::sabotage::Sabotage;
use dpb::privacy::calibration::ShuffleNoise;
use dpb::shuffle::{Params, Shuffler, encode, radius};
use dpb::{Algorithm, Bandit, Config, Error, Random, Seed};
use std::collections::VecDeque;

const POLICIES: [Algorithm; 2] = [Algorithm::SdpAe, Algorithm::VbSdpAe];

fn config(arms: u32, horizon: u64) -> Config {
    Config { delta: 1e-6, horizon, test_seed: Some(seed(1)), ..Config::new(arms, 1.0) }
}

fn random(number: u64) -> Random {
    Seed::new(Some(seed(number))).unwrap().stream()
}

/// One arm's batch, made by the functions of devices and shuffler.
fn batch(params: Params, random: &mut Random, mut reward: impl FnMut(&mut Random) -> f64) -> Vec<u8> {
    let mut shuffler = Shuffler::new(params, Some(seed(random.next_u64()))).unwrap();
    let mut message = vec![0; params.message_len()];
    for _ in 0..params.users() {
        let reward = reward(random);
        encode(&params, reward, random, &mut message).unwrap();
        shuffler.push(&message).unwrap();
    }
    let mut bits = vec![0; params.batch_len()];
    shuffler.take(&mut bits).unwrap();
    bits
}

#[test]
fn three_roles_find_the_best_arm() {
    let means = [0.2, 0.8, 0.4];
    for policy in POLICIES {
        let bandit = Bandit::new(policy, &config(3, 1_000_000)).unwrap();
        let mut random = random(2);
        let (mut phase, mut waiting) = (0, vec![]);
        while bandit.best_arm().is_err() {
            let decision = bandit.select().unwrap();
            if decision.phase != phase {
                assert!(waiting.is_empty(), "phase {phase} closed with a batch missing");
                phase = decision.phase;
                let arms = bandit.arm_reports().unwrap();
                waiting = (0..3).filter(|&arm| arms[arm as usize].active).collect();
            }
            assert!(waiting.contains(&decision.arm));
            // A full batch of this arm's users; the last one was requested just now.
            let params = bandit.shuffle_params(phase).unwrap();
            let bits = batch(params, &mut random, |random| f64::from(random.unit() < means[decision.arm as usize]));
            bandit.submit_shuffled(phase, decision.arm, &bits).unwrap();
            waiting.retain(|&arm| arm != decision.arm);
        }
        assert_eq!(bandit.best_arm(), Ok(1), "{policy:?}");
        let report = bandit.report().unwrap();
        assert_eq!((report.epsilon_spent, report.delta_spent), (1.0, 1e-6));
        for (arm, mean) in bandit.arm_reports().unwrap().iter().zip(means) {
            assert!((arm.mean - mean).abs() <= arm.width, "{policy:?}: {arm:?} {mean}");
        }
    }
}

#[test]
fn the_server_refuses_batches_that_are_not_open_and_nothing_changes() {
    let bandit = Bandit::new(Algorithm::SdpAe, &config(2, 1_000_000)).unwrap();
    let params = bandit.shuffle_params(1).unwrap();
    let bits = batch(params, &mut random(3), |_| 0.5);
    let submit = |phase, arm, bits: &[u8]| bandit.submit_shuffled(phase, arm, bits);
    let invalid = |outcome| matches!(outcome, Err(Error::InvalidConfig { .. }));
    for _ in 0..2 {
        assert_eq!(submit(0, 0, &bits), Err(Error::Expired));
        assert_eq!(submit(2, 0, &bits), Err(Error::NotReady));
        assert!(invalid(submit(1, 2, &bits)) && invalid(submit(1, u32::MAX, &bits)));
        assert!(invalid(submit(1, 0, &bits[1..])) && invalid(submit(1, 0, &[])));
        assert!(invalid(submit(1, 0, &[&bits[..], &[0]].concat())));
        assert!(invalid(submit(1, 0, &[&bits[1..], &[2]].concat())));
        assert_eq!(bandit.report().unwrap().epsilon_spent, 0.0);
    }
    submit(1, 0, &bits).unwrap();
    assert_eq!(submit(1, 0, &bits), Err(Error::Duplicate));
    assert!((0..5).all(|_| bandit.select().unwrap().arm == 1)); // only its batch is missing
    submit(1, 1, &bits).unwrap();
    assert_eq!(submit(1, 1, &bits), Err(Error::Expired));
    assert_eq!(bandit.report().unwrap().phase, 2);
    // An arm that was eliminated.
    let (none, all) = (vec![0; params.batch_len()], vec![1; params.batch_len()]);
    for phase in 2.. {
        submit(phase, 0, &all).unwrap();
        submit(phase, 1, &none).unwrap();
        if bandit.best_arm() == Ok(0) {
            assert_eq!(submit(phase, 1, &none), Err(Error::Expired));
            assert_eq!(submit(phase, 0, &all), Err(Error::Duplicate));
            break;
        }
    }
    let central = Bandit::new(Algorithm::Se, &Algorithm::Se.fit(&config(2, 1000))).unwrap();
    assert!(matches!(central.submit_shuffled(1, 0, &bits), Err(Error::Unsupported(_))));
    assert!(matches!(central.shuffle_params(1), Err(Error::Unsupported(_))));
}

#[test]
fn a_handle_accepts_plain_or_shuffled_rewards_only() {
    let shuffled = Bandit::new(Algorithm::SdpAe, &config(2, 1_000_000)).unwrap();
    let params = shuffled.shuffle_params(1).unwrap();
    shuffled.submit_shuffled(1, 0, &vec![0; params.batch_len()]).unwrap();
    // Plain rewards would be a second release for these users: they are not used.
    for _ in 0..10 * params.users() {
        shuffled.update(shuffled.select().unwrap().ticket, 1.0).unwrap();
    }
    assert_eq!(shuffled.report().unwrap().phase, 1);
    assert_eq!(shuffled.best_arm(), Err(Error::NotReady));

    let plain = Bandit::new(Algorithm::SdpAe, &config(2, 1_000_000)).unwrap();
    plain.update(plain.select().unwrap().ticket, 1.0).unwrap();
    let outcome = plain.submit_shuffled(1, 0, &vec![0; params.batch_len()]);
    assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
}

#[test]
fn refuses_configurations_it_cannot_run_with() {
    let good = config(2, 1000);
    let bad = [
        Config { delta: 0.0, ..good.clone() },
        Config { horizon: 0, ..good.clone() },
        Config { epsilon: 0.0, ..good.clone() },
        Config { epsilon: f64::NAN, ..good.clone() },
    ];
    for (policy, config) in POLICIES.into_iter().flat_map(|policy| bad.iter().map(move |config| (policy, config))) {
        assert!(matches!(Bandit::new(policy, config), Err(Error::InvalidConfig { .. })), "{policy:?}: {config:?}");
    }
}

/// Pseudo-regret of one simulated run.
fn regret(policy: Algorithm, config: &Config, means: &[f64], horizon: u64) -> f64 {
    let bandit = Bandit::new(policy, config).unwrap();
    let mut random = random(4);
    let best = means.iter().copied().fold(0.0, f64::max);
    (0..horizon)
        .map(|_| {
            let decision = bandit.select().unwrap();
            let mean = means[decision.arm as usize];
            bandit.update(decision.ticket, f64::from(random.unit() < mean)).unwrap();
            best - mean
        })
        .sum()
}

#[test]
fn regret_is_far_below_uniform_play_and_calibration_pays() {
    let means = [0.3, 0.9, 0.2, 0.5];
    let horizon = 100_000;
    let uniform = 42_500.0;
    for policy in POLICIES {
        let calibrated = Config { epsilon: 0.25, ..config(4, horizon) };
        let printed = Config { shuffle_printed: true, ..calibrated.clone() };
        let (ours, theirs) = (regret(policy, &calibrated, &means, horizon), regret(policy, &printed, &means, horizon));
        println!("{policy:?}: regret {ours:.0} calibrated, {theirs:.0} printed, {uniform} uniform");
        assert!(ours < uniform / 15.0, "{policy:?}: {ours}");
        assert!(ours < theirs / 2.0, "{policy:?}: {ours} {theirs}");
    }
}

#[test]
fn late_lost_and_cancelled_rewards_do_no_harm() {
    let means = [0.2, 0.9, 0.4];
    for policy in POLICIES {
        let bandit = Bandit::new(policy, &Config { pending_capacity: 256, ..config(3, 1_000_000) }).unwrap();
        let mut random = random(5);
        let mut in_flight = VecDeque::new();
        for _ in 0..200_000 {
            in_flight.push_back(bandit.select().unwrap());
            if in_flight.len() < 200 {
                continue;
            }
            let any = random.below(200) as usize;
            let decision = in_flight.swap_remove_back(any).unwrap();
            match random.below(10) {
                0 => bandit.cancel(decision.ticket).unwrap_or_else(|error| assert_eq!(error, Error::Expired)),
                1 => {} // no reward
                _ => {
                    let reward = f64::from(random.unit() < means[decision.arm as usize]);
                    bandit.update(decision.ticket, reward).unwrap_or_else(|error| assert_eq!(error, Error::Expired));
                }
            }
        }
        assert_eq!(bandit.best_arm(), Ok(1), "{policy:?}");
    }
}

#[test]
fn each_reward_enters_one_batch() {
    // Without coins released sums count rewards, less the coins' mean. Of the first arm's twenty early rewards sixteen
    // fit into the batches of eight of this phase and the next. Then the second arm's sixteen close both phases, and
    // zeros follow.
    let _hand = Sabotage::NoNoise.hand(2);
    let bandit = Bandit::new(Algorithm::SdpAe, &Config { batch: 8, ..config(2, 1000) }).unwrap();
    let coins = bandit.shuffle_params(1).unwrap().noise_mean();
    let mut early: Vec<_> = (0..40).map(|_| bandit.select().unwrap()).collect();
    early.sort_by_key(|decision| decision.arm);
    for decision in early.drain(..36) {
        bandit.update(decision.ticket, 1.0).unwrap();
        assert_eq!(bandit.update(decision.ticket, 1.0), Err(Error::Duplicate));
    }
    early.iter().for_each(|decision| bandit.cancel(decision.ticket).unwrap());
    assert_eq!(bandit.report().unwrap().phase, 3);
    for phase in 3..8 {
        (0..16).for_each(|_| bandit.update(bandit.select().unwrap().ticket, 0.0).unwrap());
        assert_eq!(bandit.report().unwrap().phase, phase + 1);
        let mean = 16.0 / f64::from(8 * phase) - coins / 8.0;
        assert!(bandit.arm_reports().unwrap().iter().all(|arm| (arm.mean - mean).abs() < 1e-6));
    }
}

/// Algorithm 2's batches: 2^t users in phase t, up to the horizon.
#[test]
fn batches_double() {
    let bandit = Bandit::new(Algorithm::VbSdpAe, &config(2, 5000)).unwrap();
    let users: Vec<_> = (1..=14).map(|phase| bandit.shuffle_params(phase).unwrap().users()).collect();
    assert_eq!(users[..12], std::array::from_fn::<_, 12, _>(|t| 2 << t));
    assert_eq!(users[12..], [4096; 2]);
}

/// An arm is eliminated exactly when its released mean is more than two widths below the best. The width is the radius
/// at half of beta/(K t (t + 1)) on each side.
#[test]
fn arms_are_dropped_by_the_radius() {
    for policy in POLICIES {
        let bandit = Bandit::new(policy, &Config { beta: 0.1, ..config(3, 1_000_000) }).unwrap();
        let (mut ones, mut plans) = ([0u64; 3], Vec::new());
        for phase in 1u32.. {
            let plan = bandit.shuffle_params(phase).unwrap();
            plans.push((plan, 1));
            let t = f64::from(phase);
            let width = radius(plans.iter().copied(), (2.0 * 3.0 * t * (t + 1.0) / 0.1).ln());
            let pulls: u64 = plans.iter().map(|(plan, _)| u64::from(plan.users())).sum();
            // Arm 0 has all its bits set. The other arms have as many fewer as they may, and arm 2 one fewer than that.
            let most = plan.batch_len() as u64;
            let total: u64 = ones[0] + most;
            let behind = (2.0 * width * pulls as f64).floor() as u64;
            let wanted = [total, total.saturating_sub(behind), total.saturating_sub(behind + 1)];
            let can = (1..3).all(|arm| wanted[arm] >= ones[arm] && wanted[arm] <= ones[arm] + most);
            for arm in 0..3 {
                let set = if can { (wanted[arm] - ones[arm]) as usize } else { most as usize };
                let mut bits = vec![0; most as usize];
                bits[..set].fill(1);
                ones[arm] += set as u64;
                bandit.submit_shuffled(phase, arm as u32, &bits).unwrap();
            }
            let arms = bandit.arm_reports().unwrap();
            assert!(arms.iter().all(|arm| (arm.width / width - 1.0).abs() < 1e-9), "{policy:?}: {arms:?} {width}");
            let left: Vec<_> = arms.iter().map(|arm| arm.active).collect();
            assert_eq!(left, [true, true, !can], "{policy:?} {phase}");
            if can {
                break;
            }
        }
    }
}

#[test]
fn the_noise_covers_several_rewards_of_a_user() {
    for policy in POLICIES {
        let config = Config { contributions_per_user: 3, ..config(2, 10_000) };
        let bandit = Bandit::new(policy, &config).unwrap();
        assert_eq!(bandit.report().unwrap().epsilon_spent, 0.0);
        (0..5000).for_each(|_| bandit.update(bandit.select().unwrap().ticket, 1.0).unwrap());
        let (report, params) = (bandit.report().unwrap(), bandit.shuffle_params(1).unwrap());
        assert!(report.epsilon_spent <= 1.0 && report.epsilon_spent > 0.999, "{report:?}");
        assert_eq!(report.delta_spent, 1e-6);
        assert!(params.epsilon() < 1.0 / 3.0 && params.delta() < 1e-6 / 3.0, "{params:?}");
        assert_eq!(bandit.epsilon_spent(1e-7), Ok(f64::INFINITY));
    }
}

/// The server's view of ten users; the first user's reward differs.
fn seen(params: Params, number: u64, neighbour: bool) -> u64 {
    let mut first = Some(f64::from(neighbour));
    let bits = batch(params, &mut random(number), |_| first.take().unwrap_or(1.0));
    pattern((bits.iter().map(|&bit| u32::from(bit)).sum::<u32>(), bits[0], bits[1]))
}

#[test]
fn encoder_and_shuffler_keep_their_claim() {
    let audit = Audit { epsilon: 1.0, delta: 1e-3, pilot: 10_000, verdict: 10_000, failure: 1e-6 };
    let exact = Params::new(audit.epsilon, audit.delta, 10, false).unwrap();
    let verdict = audit.run(|number, neighbour| seen(exact, number, neighbour));
    assert!(!verdict.alarm, "{verdict:?}");
    // Half the scale: a quarter of the coins.
    let noise = ShuffleNoise { coin_numerator: exact.noise().coin_numerator / 8, ..exact.noise() };
    let half = Params::unchecked(audit.epsilon, audit.delta, 10, noise);
    let verdict = audit.run(|number, neighbour| seen(half, number, neighbour));
    assert!(verdict.alarm, "{verdict:?}");
}
