//! Snapshots: what a handle goes on from, and what it has lost. (That no raw sum is in one: interference.rs.)

#[path = "audit/engine.rs"]
mod audit;

use audit::seed;
use dpb::{Algorithm, ArmReport, Bandit, Config, Decision, Error, Random, Seed};
use std::path::PathBuf;

const ABLE: [Algorithm; 5] = [Algorithm::Imed, Algorithm::KlUcb, Algorithm::Med, Algorithm::Ts, Algorithm::Se];
const A: [f64; 7] = [0.75, 0.625, 0.5, 0.375, 0.25, 0.1, 0.6];

fn random(number: u64) -> Random {
    Seed::new(Some(seed(number))).unwrap().stream()
}

/// What a policy can be asked for, of everything that a snapshot keeps.
fn configs(algorithm: Algorithm) -> Vec<Config> {
    let plain = Config { test_seed: Some(seed(5)), horizon: 50_000, beta: 0.5, ..Config::new(5, 1.0) };
    let all = [
        plain.clone(),
        Config { answer_window: 50, reward_bits: 0, node: 77, ..plain.clone() },
        Config { delta: 1e-6, contributions_per_user: 2, reward_min: -3.0, reward_max: 5.0, ..plain.clone() },
        Config { memory: 3000, min_propensity: 0.1, clamp_rewards: true, ..plain.clone() },
        Config { horizon: 0, beta: 0.0, ..plain },
    ];
    all.into_iter().filter(|config| Bandit::new(algorithm, config).is_ok()).collect()
}

/// Plays with delays, silence, cancellations, arms that come and go; what is still open at the end.
fn play(bandit: &Bandit, config: &Config, decisions: u32, random: &mut Random) -> Vec<Decision> {
    let mut open = Vec::new();
    for _ in 0..decisions {
        open.push(bandit.select().unwrap());
        while open.len() > 10 {
            let decision: Decision = open.swap_remove(random.below(open.len() as u64) as usize);
            let unit = f64::from(u8::from(random.unit() < A[decision.arm as usize % 7]));
            let reward = config.reward_min + unit * (config.reward_max - config.reward_min);
            let ended = match random.below(20) {
                0 => bandit.cancel(decision.ticket),
                1 if config.answer_window > 0 => Ok(()),
                _ => bandit.update(decision.ticket, reward),
            };
            assert!(matches!(ended, Ok(()) | Err(Error::Expired)), "{ended:?}");
        }
        if random.below(5000) == 0 {
            let _ = bandit.add_arm();
            let _ = bandit.retire_arm(random.below(5) as u32);
        }
    }
    open
}

/// Arms as far as they are comparable: NaN is one value, and pulls in flight are not kept.
fn known(arms: &[ArmReport]) -> Vec<[u64; 4]> {
    arms.iter().map(|a| [a.mean.to_bits(), a.width.to_bits(), a.effective_pulls.to_bits(), a.active.into()]).collect()
}

#[test]
fn a_restored_handle_knows_what_was_released_and_nothing_else() {
    for algorithm in ABLE {
        for config in configs(algorithm) {
            let bandit = Bandit::new(algorithm, &config).unwrap();
            let mut random = random(9);
            let open = play(&bandit, &config, 20_000, &mut random);
            let bytes = bandit.snapshot().unwrap();
            let restored = Bandit::restore(&bytes).unwrap();
            let (before, after) = (bandit.report().unwrap(), restored.report().unwrap());
            assert_eq!(known(&bandit.arm_reports().unwrap()), known(&restored.arm_reports().unwrap()), "{config:?}");
            assert_eq!(bandit.best_arm(), restored.best_arm());
            // What was open has expired, and its arms were not played.
            let counts = dpb::Counts { expired: before.counts.expired + before.counts.pending(), ..before.counts };
            assert_eq!(after.counts, counts);
            assert!(before.counts.pending() > 0 && after.counts.pending() == 0);
            let pulls: u64 = restored.arm_reports().unwrap().iter().map(|arm| arm.pulls).sum();
            assert_eq!(pulls, counts.answered);
            let public = |r: &dpb::Report| (r.algorithm, r.arms_active, r.epsilon_spent.to_bits(), r.changes_detected);
            assert_eq!(public(&before), public(&after));
            assert!(before.epsilon_spent <= config.epsilon && !after.is_private);
            // The tickets of the old life are foreign, whatever is done with them.
            for decision in open {
                assert_eq!(restored.update(decision.ticket, config.reward_max), Err(Error::UnknownTicket));
                assert_eq!(restored.cancel(decision.ticket), Err(Error::UnknownTicket));
            }
            assert_eq!(restored.report().unwrap().counts, counts);
            // It goes on, and on from there.
            play(&restored, &config, 20_000, &mut random);
            assert!(restored.report().unwrap().phase >= before.phase);
            assert!(restored.report().unwrap().epsilon_spent <= config.epsilon);
            let third = Bandit::restore(&restored.snapshot().unwrap()).unwrap();
            assert_eq!(known(&restored.arm_reports().unwrap()), known(&third.arm_reports().unwrap()));
        }
    }
}

/// A life that ends before its first release may have made one after its last snapshot: the next says so.
#[test]
fn a_restored_handle_admits_what_it_may_have_spent() {
    for algorithm in ABLE {
        let config = Config { horizon: 1000, ..Config::new(5, 0.7) };
        let bandit = Bandit::new(algorithm, &config).unwrap();
        assert_eq!(bandit.report().unwrap().epsilon_spent, 0.0);
        let restored = Bandit::restore(&bandit.snapshot().unwrap()).unwrap();
        let report = restored.report().unwrap();
        assert!(report.epsilon_spent > 0.699 && report.epsilon_spent <= 0.7, "{algorithm:?}: {report:?}");
        assert!(report.is_private);
    }
}

/// What was learned stays learned, over ten lives: the regret after the first is small.
#[test]
fn lives_go_on_learning() {
    for algorithm in [Algorithm::Imed, Algorithm::KlUcb, Algorithm::Med] {
        let config = Config { test_seed: Some(seed(2)), ..Config::new(5, 1.0) };
        let mut bandit = Bandit::new(algorithm, &config).unwrap();
        let (mut random, mut regret) = (random(3), [0.0; 10]);
        for lost in &mut regret {
            for _ in 0..20_000 {
                let decision = bandit.select().unwrap();
                *lost += A[0] - A[decision.arm as usize];
                let reward = f64::from(u8::from(random.unit() < A[decision.arm as usize]));
                bandit.update(decision.ticket, reward).unwrap();
            }
            bandit = Bandit::restore(&bandit.snapshot().unwrap()).unwrap();
        }
        assert!(regret[1..].iter().sum::<f64>() < 500.0, "{algorithm:?}: {regret:?}");
    }
}

#[test]
fn who_keeps_what_is_not_released_has_no_snapshot() {
    for &algorithm in Algorithm::ALL {
        let config =
            Config { horizon: 1000, delta: 1e-6, base: Algorithm::NonprivateExp3 as u32, ..Config::new(3, 1.0) };
        let delta = if algorithm == Algorithm::KlUcb { 0.0 } else { 1e-6 };
        let bandit = Bandit::new(algorithm, &Config { delta, ..config }).unwrap();
        match bandit.snapshot() {
            Ok(_) => assert!(ABLE.contains(&algorithm), "{algorithm:?}"),
            Err(error) => assert!(error == Error::Unsupported("a snapshot") && !ABLE.contains(&algorithm)),
        }
    }
}

/// A checksum as a stranger would make it, so that altered bytes come in.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 4);
    let mut crc = !0u32;
    for &byte in &bytes {
        crc ^= u32::from(byte);
        (0..8).for_each(|_| crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()));
    }
    bytes.extend((!crc).to_le_bytes());
    bytes
}

/// Bytes that were altered, with a checksum that fits: refused, or a handle that plays.
#[test]
fn altered_snapshots_never_break_anything() {
    let mut random = random(21);
    for algorithm in ABLE {
        for config in configs(algorithm) {
            let bandit = Bandit::new(algorithm, &config).unwrap();
            play(&bandit, &config, 3000, &mut random);
            let bytes = bandit.snapshot().unwrap();
            assert_eq!(sealed(bytes.clone()), bytes);
            let (mut refused, mut taken) = (0, 0);
            for _ in 0..60 {
                let mut altered = bytes.clone();
                for _ in 0..=random.below(3) {
                    let place = 5 + random.below(altered.len() as u64 - 9) as usize;
                    altered[place] = [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(6) as usize];
                }
                if random.below(8) == 0 {
                    altered.truncate(9 + random.below(altered.len() as u64 - 9) as usize);
                }
                match Bandit::restore(&sealed(altered)) {
                    Err(_) => refused += 1,
                    Ok(bandit) => {
                        taken += 1;
                        for _ in 0..300 {
                            let decision = bandit.select().unwrap();
                            let _ = bandit.update(decision.ticket, config.reward_max);
                        }
                        bandit.report().unwrap();
                        bandit.arm_reports().unwrap();
                        bandit.snapshot().unwrap();
                    }
                }
            }
            assert!(refused > 5 && taken > 5, "{algorithm:?}: {refused} {taken}");
        }
    }
}

/// Version 1, as it was written: DPB_BLESS=1 writes those that are not there.
#[test]
fn old_snapshots_are_read_for_ever() {
    for algorithm in ABLE {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("data/snapshot-1-{}", algorithm.name()));
        if std::env::var_os("DPB_BLESS").is_some() && !path.exists() {
            let config = configs(algorithm).swap_remove(1);
            let bandit = Bandit::new(algorithm, &config).unwrap();
            play(&bandit, &config, 20_000, &mut random(1));
            std::fs::write(&path, bandit.snapshot().unwrap()).unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[..5], b"dpb\x01\x01");
        let bandit = Bandit::restore(&bytes).unwrap();
        let report = bandit.report().unwrap();
        assert_eq!((report.algorithm, report.counts.decisions), (algorithm, 20_000));
        assert!(report.epsilon_spent > 0.999);
        let best = bandit.arm_reports().unwrap()[0];
        assert!(algorithm == Algorithm::Se || (best.mean - A[0]).abs() < 0.06, "{algorithm:?}: {best:?}");
        assert_eq!(bandit.select().unwrap().ticket >> 48, 77);
        // The same version, altered, is none.
        let newer = sealed([&bytes[..3], &[2], &bytes[4..]].concat());
        assert_eq!(Bandit::restore(&newer).err(), Some(Error::NewerVersion));
        assert_eq!(Bandit::restore(&bytes[..bytes.len() - 1]).err(), Some(Error::Corrupt));
        assert_eq!(Bandit::restore(&[]).err(), Some(Error::Corrupt));
    }
}
