//! A learned clip: what it refuses, what it finds, and that restarts and moves keep it.

use crate::support::coins::Coins;
use crate::support::requests::among;
use dpb::{Algorithm, Bandit, Config, Error, Request};

fn config(epsilon: f64) -> Config {
    Config {
        reward_max: 10_000.0,
        reward_bits: 24,
        clamp_rewards: true,
        learn_clip: true,
        test_seed: Some([3; 32]),
        ..Config::new(4, epsilon)
    }
}

fn make(config: &Config) -> Bandit {
    Bandit::new(Algorithm::Imed, config).unwrap()
}

const RATES: [f64; 4] = [0.05, 0.2, 0.1, 0.05];

/// 0, or an amount from 2 to 50, with the median 10.
fn amount(arm: u32, coins: &mut Coins) -> f64 {
    let some = coins.toss(RATES[arm as usize]);
    some * 10.0 * 5f64.powf(2.0 * (coins.below(1 << 20) as f64 / f64::from(1 << 20)) - 1.0)
}

fn play(bandit: &Bandit, decisions: u32, coins: &mut Coins) -> [u32; 4] {
    let mut played = [0; 4];
    for _ in 0..decisions {
        let decision = bandit.select().unwrap();
        played[decision.arm as usize] += 1;
        bandit.update(decision.ticket, amount(decision.arm, coins)).unwrap();
    }
    played
}

fn clip(bandit: &Bandit) -> Option<f64> {
    bandit.report().unwrap().clip
}

#[test]
fn what_a_clip_cannot_have_is_refused() {
    let refused = |config: Config| Bandit::new(Algorithm::Imed, &config).err().map(|error| error.to_string());
    assert_eq!(refused(config(1.0)), None);
    for (config, why) in [
        (
            Config {
                parts: 1,
                part_weights: [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
                reward_window: 9,
                ..config(1.0)
            },
            "parts must be 0 with a learned clip, got 1",
        ),
        (Config { max_segments: 3, ..config(1.0) }, "max_segments must be 0 with a learned clip, got 3"),
        (Config { reward_min: -1.0, ..config(1.0) }, "reward_min must be 0 with a learned clip, got -1"),
        (Config { reward_bits: 23, ..config(1.0) }, "reward_bits must be 24 with a learned clip, got 23"),
        (
            Config { delta: 1e-6, max_slots: 2, ..config(1.0) },
            "delta must be 0 with a learned clip and max_slots, got 1e-6",
        ),
    ] {
        assert_eq!(refused(config).as_deref(), Some(why));
    }
    for algorithm in [Algorithm::Med, Algorithm::TopTwo, Algorithm::Se, Algorithm::NonprivateUcb1] {
        let refused = Bandit::new(algorithm, &config(1.0)).err();
        assert!(matches!(refused, Some(Error::InvalidConfig { field: "learn_clip", .. })), "{refused:?}");
    }
    let linear = Config { features: 2, ..config(1.0) };
    assert!(Bandit::new(Algorithm::recommended(&linear), &linear).is_err());
}

#[test]
fn what_needs_the_unit_of_rewards_is_refused_and_changes_nothing() {
    let keyed = make(&Config { fleet_key: Some([1; 32].into()), ..config(1.0) });
    let (snapshot, before) = (keyed.snapshot().unwrap(), keyed.report().unwrap());
    let costs = [0.1; 4];
    for refused in [
        keyed.merge(&snapshot).err(),
        keyed.lead().err(),
        keyed.set_handles(2).err(),
        keyed.contribution(7).err(),
        keyed.combine(&[1, 2]).err(),
        keyed.set_prior(1, 3.0, 10.0).err(),
        keyed.select_for(&Request { costs: Some(&costs), ..Request::default() }).err(),
        keyed.select_for(&Request { abstain: true, ..Request::default() }).err(),
    ] {
        let refused = refused.unwrap();
        assert!(matches!(refused, Error::Unsupported(_)), "{refused:?}");
        assert!(refused.to_string().contains("config.flags has DPB_LEARN_CLIP"), "{refused}");
    }
    assert_eq!(keyed.report().unwrap(), before);
    // Messages and values do not depend on it.
    assert_eq!(*keyed.open(&keyed.seal(b"x").unwrap()).unwrap(), b"x");
    let values = [1.0, 2.0, 0.0, 1.0];
    assert_ne!(keyed.select_for(&Request { values: Some(&values), ..Request::default() }).unwrap().arm, 2);
}

/// The clip is 3.5 to 7 medians, or one octave further; the best arm is played most; means are those of clipped amounts,
/// in the caller's units.
#[test]
fn finds_a_clip_and_then_the_best_arm() {
    for epsilon in [1.0, 4.0] {
        let (bandit, coins) = (make(&config(epsilon)), &mut Coins(5));
        assert_eq!(clip(&bandit), None);
        assert!(bandit.arm_reports().unwrap().iter().all(|arm| arm.mean.is_nan()));
        let played = play(&bandit, 60_000, coins);
        let clip = clip(&bandit).unwrap();
        assert!((17.0..140.0).contains(&clip), "{clip}");
        assert!(played[1] > 40_000, "{played:?}");
        // E min(x, c), where x = 10 5^u and u is uniform in [-1, 1].
        let most = f64::min(clip, 50.0);
        let share = 0.5 * ((most / 10.0).ln() / 5f64.ln() + 1.0);
        let mean = RATES[1] * ((most - 2.0) / (2.0 * 5f64.ln()) + (1.0 - share) * clip.min(50.0));
        let arm = bandit.arm_reports().unwrap()[1];
        assert!((arm.mean / mean - 1.0).abs() < 0.1 && arm.width < mean, "{arm:?} {mean} at {clip}");
        let (low, high) = bandit.compare(1, 2, 0.9).unwrap();
        assert!(low <= 0.5 * mean && 0.5 * mean <= high && low > -clip && high < clip, "{low} {high} {mean}");
    }
}

/// The pilot draws evenly among eligible arms, also for several slots, and says so. Arms come and go meanwhile.
#[test]
fn a_pilot_plays_evenly() {
    let bandit = make(&Config { max_slots: 0, ..config(1.0) });
    let mut played = [0; 4];
    for _ in 0..4000 {
        let decision = bandit.select_for(&among(&[0, 2, 3])).unwrap();
        assert_eq!(decision.propensity, 1.0 / 3.0);
        played[decision.arm as usize] += 1;
        bandit.cancel(decision.ticket).unwrap();
    }
    assert!(played[1] == 0 && [0, 2, 3].iter().all(|&arm: &usize| played[arm] > 1200), "{played:?}");
    let mut arms = Vec::new();
    bandit.select_slots(&Request { slots: 3, ..Request::default() }, |_, decision| arms.push(decision.arm)).unwrap();
    arms.sort_unstable();
    arms.dedup();
    assert_eq!(arms.len(), 3);
    bandit.retire_arm(1).unwrap();
    assert_eq!(bandit.add_arm().unwrap(), 4);
    let after: Vec<_> = (0..200).map(|_| bandit.select().unwrap().arm).collect();
    assert!(!after.contains(&1) && after.contains(&4));
    assert_eq!(clip(&bandit), None);
}

/// Without rewards the pilot ends after a third of the horizon, and then the clip is `reward_max`.
#[test]
fn a_pilot_has_an_end() {
    let bandit = make(&Config { horizon: 3000, ..config(1.0) });
    for t in 0..1200 {
        assert_eq!(clip(&bandit).is_some(), t > 1000, "{t}");
        bandit.update(bandit.select().unwrap().ticket, 0.0).unwrap();
    }
    assert_eq!(clip(&bandit), Some(10_000.0));
}

/// Restored in its pilot, a handle continues the search, and the pilot is hardly longer; restored later, it keeps the clip.
/// A state moves with the open batch.
#[test]
fn restarts_and_moves_keep_what_was_found() {
    let config = Config { fleet_key: Some([1; 32].into()), test_seed: None, ..config(1.0) };
    for moves in [false, true] {
        let (mut bandit, coins) = (make(&config), &mut Coins(6));
        let mut decisions = 0;
        while clip(&bandit).is_none() {
            play(&bandit, 50, coins);
            decisions += 50;
            assert!(decisions < 40_000);
            // Often enough to meet each stage; not so often that no batch is ever full.
            if moves {
                let state = bandit.suspend(0).unwrap();
                bandit = Bandit::resume(Some(Algorithm::Imed), &config, &state).unwrap();
                bandit.claimed().unwrap();
            } else if decisions % 1500 == 0 {
                bandit = Bandit::restore(&bandit.snapshot().unwrap()).unwrap();
            }
        }
        let before = clip(&bandit);
        bandit = Bandit::restore_as(Algorithm::Imed, &config, &bandit.snapshot().unwrap()).unwrap();
        assert_eq!(clip(&bandit), before);
        let played = play(&bandit, 30_000, coins);
        assert!(played[1] > 15_000, "{played:?}");
        let other = Config { learn_clip: false, ..config.clone() };
        let refused = Bandit::restore_as(Algorithm::Imed, &other, &bandit.snapshot().unwrap()).err();
        assert!(matches!(refused, Some(Error::InvalidConfig { field: "learn_clip", .. })), "{refused:?}");
    }
}

/// Rewards of the pilot's decisions come when it has ended: they count, or do not, and the arms are played on.
#[test]
fn late_rewards_of_the_pilot_stop_nothing() {
    for window in [300, 5000] {
        let config = Config { reward_window: window, pending_capacity: 8192, ..config(1.0) };
        let (bandit, coins) = (make(&config), &mut Coins(8));
        let mut played = [0; 4];
        for _ in 0..80_000 {
            let decision = bandit.select().unwrap();
            played[decision.arm as usize] += 1;
            let amount = amount(decision.arm, coins);
            if amount > 0.0 {
                bandit.update(decision.ticket, amount).unwrap();
            }
        }
        assert!(clip(&bandit).is_some() && played[1] > 45_000, "{window}: {played:?}");
        let answered: f64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum();
        assert!(answered <= 80_000.0, "{answered}");
    }
}
