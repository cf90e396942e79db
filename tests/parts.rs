//! Rewards in parts: refusals, and that a reward is the sum of its parts, in whatever order they come.

use crate::audit::engine::seed;
use crate::audit::sabotage::with_fault;
use crate::support::coins::Coins;
use dpb::{Algorithm, Bandit, Clock, Config, Error, Fault, Request};
use std::collections::BTreeMap;

const WINDOW: u64 = 64;
/// A click, what was bought, what came back.
const WEIGHTS: [f64; 8] = [0.125, 0.25, -0.25, 0.0, 0.0, 0.0, 0.0, 0.0];

fn parts() -> Config {
    Config { parts: 3, part_weights: WEIGHTS, reward_window: WINDOW as u32, ..Config::new(4, 1.0) }
}

fn bandit(config: &Config) -> Bandit {
    Bandit::new(Algorithm::Imed, &Config { test_seed: Some(seed(3)), ..config.clone() }).unwrap()
}

#[test]
fn bad_parts_are_refused() {
    let weights = |change: fn(&mut [f64; 8])| {
        let mut config = parts();
        change(&mut config.part_weights);
        config
    };
    let shares = "part_weights must be finite and not 0, as shares of the range too, got";
    for (config, why) in [
        (Config { parts: 9, ..parts() }, "parts must be at most 8, got 9".to_owned()),
        (
            Config { reward_window: 0, ..parts() },
            "parts must be 0 without a reward_window, at whose end they are summed up, got 3".into(),
        ),
        (
            Config { reward_bits: 0, ..parts() },
            "reward_bits must be at least 1 with parts, whose sum may be any number, got 0".into(),
        ),
        (
            Config { reward_min: 0.5, ..parts() },
            "reward_min must be at most 0 with parts, and 0 with max_clicks too: what nobody reports is 0, got 0.5"
                .into(),
        ),
        (
            Config { reward_min: -1.0, max_slots: 2, max_clicks: 1, ..parts() },
            "reward_min must be at most 0 with parts, and 0 with max_clicks too: what nobody reports is 0, got -1"
                .into(),
        ),
        (
            Config { reward_min: -2.0, reward_max: -1.0, ..parts() },
            "reward_max must be at least 0 with parts: what nobody reports is 0, got -1".into(),
        ),
        (weights(|weights| weights[1] = 0.0), format!("{shares} [0.125, 0, -0.25]")),
        (weights(|weights| weights[1] = f64::NAN), format!("{shares} [0.125, NaN, -0.25]")),
        (weights(|weights| weights[2] = f64::INFINITY), format!("{shares} [0.125, 0.25, inf]")),
        (
            Config { reward_max: 1e200, ..weights(|weights| weights[2] = 1e-200) },
            format!("{shares} [0.125, 0.25, 1e-200]"),
        ),
        (
            weights(|weights| weights[4] = 1.0),
            "part_weights must be 0 behind those of the 3 parts, got [0.125, 0.25, -0.25, 0, 1]".into(),
        ),
        (
            Config { parts: 0, ..parts() },
            "part_weights must be 0 behind those of the 0 parts, got [0.125, 0.25, -0.25]".into(),
        ),
    ] {
        assert_eq!(Bandit::new(Algorithm::Imed, &config).err().unwrap().to_string(), why);
    }
    // A single zero in front of the range's end is in it.
    assert!(Bandit::new(Algorithm::Imed, &Config { reward_min: -1.0, reward_max: 0.0, ..parts() }).is_ok());
}

#[test]
fn bad_reports_change_nothing_but_counts() {
    for clamp_rewards in [false, true] {
        let bandit = bandit(&Config { clamp_rewards, ..parts() });
        let ticket = bandit.select().unwrap().ticket;
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(bandit.update_part(ticket, 1, bad), Err(Error::InvalidReward));
            assert_eq!(bandit.update(ticket, bad), Err(Error::InvalidReward));
        }
        let missing = bandit.update_part(ticket, 3, 1.0).unwrap_err().to_string();
        assert_eq!(missing, "part must be below config.parts = 3, got 3");
        // 15 ranges are 60 units of 0.25.
        for (value, is_far) in [(60.0, false), (-60.0, false), (60.001, true), (-60.001, true), (f64::MAX, true)] {
            let one = bandit.select().unwrap().ticket;
            let expected = if is_far && !clamp_rewards { Err(Error::InvalidReward) } else { Ok(()) };
            assert_eq!(bandit.update_part(one, 1, value), expected, "{value}");
            assert_eq!(bandit.update_part(one, 1, value), expected.and(Err(Error::Duplicate)), "{value}");
        }
        assert_eq!(bandit.update(ticket, 1.0), Ok(()), "part 0 of the first ticket");
        assert_eq!(bandit.update_part(ticket, 0, 1.0), Err(Error::Duplicate));
        assert_eq!(bandit.update_part(ticket ^ 1 << 50, 0, 1.0), Err(Error::UnknownTicket));
        (0..WINDOW).for_each(|_| _ = bandit.select());
        assert_eq!(bandit.update_part(ticket, 1, 1.0), Err(Error::Expired));
        let counts = bandit.diagnostics().unwrap();
        let (rejected, duplicates) = if clamp_rewards { (7, 6) } else { (13, 3) };
        assert_eq!((counts.rejected, counts.duplicates), (rejected, duplicates));
        assert_eq!((counts.late, counts.unknown), (1, 1));
    }
    // Without parts there is part 0.
    let whole = bandit(&Config::new(2, 1.0));
    let ticket = whole.select().unwrap().ticket;
    assert_eq!(
        whole.update_part(ticket, 1, 1.0).unwrap_err().to_string(),
        "part must be 0 without config.parts, got 1"
    );
    assert_eq!(whole.update_part(ticket, 0, 7.0), Err(Error::InvalidReward));
    assert_eq!(whole.update_part(ticket, 0, 1.0), Ok(()));
    assert_eq!((whole.diagnostics().unwrap().rejected, whole.report().unwrap().counts.answered), (2, 1));
}

/// How the parts of a decision are reported: each once, in an order and at times that the number chooses, or as one sum.
#[derive(Clone, Copy)]
enum Reports {
    InOrder(u64),
    Whole,
}

/// What a handle knows after some thousand decisions, in which the same parts come.
fn learned(config: &Config, reports: Reports) -> Vec<u64> {
    let config = match reports {
        Reports::InOrder(_) => config.clone(),
        Reports::Whole => Config { parts: 0, part_weights: [0.0; 8], ..config.clone() },
    };
    let bandit = bandit(&config);
    let (mut coins, mut order) = (Coins(5), Coins(if let Reports::InOrder(number) = reports { number } else { 0 }));
    let mut due = BTreeMap::<u64, Vec<(u64, (u32, f64))>>::new();
    for now in 1..3000 {
        if config.clock == Clock::Caller {
            bandit.advance(now).unwrap();
        }
        let slots = config.max_slots.max(1);
        let mut tickets = Vec::new();
        let request = Request { slots, ..Request::default() };
        bandit.select_slots(&request, |_, decision| tickets.push(decision.ticket)).unwrap();
        for ticket in tickets {
            // In sixteenths, so that sums are exact. They may leave the range on both sides.
            let mut came: Vec<_> = (0..3).map(|part| (part, coins.below(120) as f64 / 16.0 - 0.5)).collect();
            came.retain(|_| coins.one_in(2));
            if let Reports::Whole = reports {
                let sum: f64 = came.iter().map(|&(part, value)| WEIGHTS[part as usize] * value).sum();
                bandit.update(ticket, sum.clamp(config.reward_min, config.reward_max)).unwrap();
                continue;
            }
            while !came.is_empty() {
                let part = came.swap_remove(order.below(came.len() as u64) as usize);
                // Every decision of a request comes before its window is over.
                let delay = if config.clock == Clock::Caller { WINDOW - 1 } else { (WINDOW - 8) / u64::from(slots) };
                due.entry(now + order.below(delay)).or_default().push((ticket, part));
            }
        }
        for (ticket, (part, value)) in due.remove(&now).unwrap_or_default() {
            assert_eq!(bandit.update_part(ticket, part, value), Ok(()));
            if order.one_in(3) {
                assert_eq!(bandit.update_part(ticket, part, value), Err(Error::Duplicate));
            }
        }
    }
    let counts = bandit.report().unwrap().counts;
    let arms = bandit.arm_reports().unwrap().into_iter().flat_map(|arm| [arm.mean.to_bits(), arm.pulls]);
    arms.chain([counts.decisions, counts.answered]).collect()
}

fn configs() -> Vec<Config> {
    vec![
        Config { reward_min: -1.0, reward_max: 1.0, ..parts() },
        Config { max_slots: 3, max_clicks: 1, ..parts() },
        Config { clock: Clock::Caller, reward_min: -0.5, ..parts() },
        Config { clock: Clock::Caller, max_slots: 3, max_clicks: 1, ..parts() },
    ]
}

/// All orders of reports, with repeats, give the same bits: those of one reward, the sum.
#[test]
fn a_reward_is_the_sum_of_its_parts() {
    for config in configs() {
        let whole = learned(&config, Reports::Whole);
        for number in 1..4 {
            assert_eq!(learned(&config, Reports::InOrder(number)), whole, "{config:?}");
        }
    }
}

#[test]
fn wrong_sums_are_seen() {
    for fault in
        [Fault::PartTwice, Fault::PartClampedEarly, Fault::SilenceIsMin, Fault::PartTells, Fault::PartUnclamped]
    {
        let is_wrong = || {
            let config = &configs()[0];
            let right = || learned(config, Reports::InOrder(1)) == learned(config, Reports::Whole);
            !std::panic::catch_unwind(std::panic::AssertUnwindSafe(right)).unwrap_or(false)
        };
        assert!(with_fault(fault, is_wrong), "{fault:?}");
    }
}

/// Sums and bits move with a state. Every decision earns 0.75 before the move and loses 0.25 after it, and the noise is
/// below 0.001.
#[test]
fn parts_move() {
    let config = Config { fleet_key: Some([7; 32].into()), epsilon: 1e3, ..parts() };
    let mut bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    for _ in 0..40 {
        let tickets: Vec<_> = (0..WINDOW / 2).map(|_| bandit.select().unwrap().ticket).collect();
        tickets.iter().for_each(|&ticket| bandit.update_part(ticket, 1, 3.0).unwrap());
        bandit = Bandit::resume(None, &config, &bandit.suspend(0).unwrap()).unwrap();
        bandit.claimed().unwrap();
        for ticket in tickets {
            assert_eq!(bandit.update_part(ticket, 1, 3.0), Err(Error::Duplicate));
            bandit.update_part(ticket, 2, 1.0).unwrap();
        }
    }
    for arm in bandit.arm_reports().unwrap() {
        assert!((arm.mean - 0.5).abs() < 0.01, "{arm:?}");
    }
}

/// Weights say what a released number means: releases of other weights do not merge, and no restart changes them.
#[test]
fn weights_belong_to_releases() {
    let (ours, mut other) = (bandit(&parts()), parts());
    other.part_weights[1] = 0.5;
    let snapshot = ours.snapshot().unwrap();
    let why = "part_weights must be [0.125, 0.25, -0.25], as in the snapshot, got [0.125, 0.5, -0.25]";
    assert_eq!(Bandit::restore_as(Algorithm::Imed, &other, &snapshot).err().unwrap().to_string(), why);
    assert!(matches!(bandit(&other).merge(&snapshot), Err(Error::InvalidConfig { field: "part_weights", .. })));
    let none = Config { parts: 0, part_weights: [0.0; 8], ..parts() };
    assert!(matches!(bandit(&none).merge(&snapshot), Err(Error::InvalidConfig { field: "parts", .. })));
    let restored = Bandit::restore(&snapshot).unwrap();
    let ticket = restored.select().unwrap().ticket;
    assert_eq!([1, 1, 2].map(|part| restored.update_part(ticket, part, 1.0).is_ok()), [true, false, true]);
}
