//! A handle that is suspended and resumed loses nothing. (tests/interference.rs has the proof of privacy, and
//! `bandit::moving` tests that every variable moves.)

use crate::audit::engine::seed;
use crate::audit::sabotage::with_fault;
use crate::interference::handle::Subject;
use crate::support::coins::Coins;
use dpb::{Algorithm, Bandit, Clock, Config, Error, Fault, FleetKey};
use std::collections::VecDeque;

/// Decisions between two restarts.
const LIFE: u32 = 2000;
/// Decisions until a click arrives.
const DELAY: usize = 300;

/// A state of another length than its fields is refused, although it was sealed with the key.
#[test]
fn a_state_has_the_length_of_its_fields() {
    let config = Config {
        reward_window: 40,
        clock: Clock::Caller,
        horizon: 1000,
        features: 2,
        fleet_key: Some([3; 32].into()),
        ..Config::new(4, 1.0)
    };
    let policies = [Algorithm::Imed, Algorithm::TopTwo, Algorithm::Se, Algorithm::UcbBound, Algorithm::Linear];
    for subject in policies.map(Subject::Policy).into_iter().chain([Subject::Segments, Subject::Models]) {
        let bandit = subject.make(&config).unwrap();
        subject.play(&bandit, 30, &mut Coins(2));
        let state = bandit.suspend(0).unwrap();
        let resumed = |change: fn(&mut Vec<u8>)| {
            let forged = FleetKey::from([3; 32]).forge(&state, change);
            subject.resume(&config, &forged).map(drop)
        };
        let longer = || resumed(|content| content.push(0));
        assert_eq!(longer(), Err(Error::Corrupt), "{subject:?}");
        assert_eq!(resumed(|content| _ = content.pop()), Err(Error::Corrupt), "{subject:?}");
        assert_eq!(with_fault(Fault::StateLengthUnchecked, longer), Ok(()), "{subject:?}");
        assert_eq!(resumed(|_| ()), Ok(()), "{subject:?}");
    }
}

/// How a process ends, and what the next one continues from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Restarts {
    None,
    States,
    Snapshots,
}

fn next(bandit: Bandit, config: &Config, restarts: Restarts) -> Bandit {
    match restarts {
        Restarts::None => bandit,
        Restarts::Snapshots => Bandit::restore_as(Algorithm::Imed, config, &bandit.snapshot().unwrap()).unwrap(),
        Restarts::States => {
            let next = Bandit::resume(None, config, &bandit.suspend(0).unwrap()).unwrap();
            next.claimed().unwrap();
            next
        }
    }
}

/// Ten ads of 5% to 1% whose clicks arrive late: the clicks that are lost, and those that are refused.
fn lost(epsilon: f64, horizon: u32, restarts: Restarts, number: u64) -> (f64, u64) {
    let rates: Vec<f64> = (0..10).map(|ad| 0.05 - 0.04 * f64::from(ad) / 9.0).collect();
    let life = |life: u32| Config {
        reward_window: 1000,
        fleet_key: Some([3; 32].into()),
        test_seed: Some(seed(number << 32 | u64::from(life))), // a seed for each life, as without one
        ..Config::new(10, epsilon)
    };
    let mut bandit = Bandit::new(Algorithm::Imed, &life(0)).unwrap();
    let (mut coins, mut waiting, mut lost, mut refused) = (Coins(number << 20), VecDeque::new(), 0.0, 0);
    for time in 1..=horizon {
        let decision = bandit.select().unwrap();
        let rate = rates[decision.arm as usize];
        lost += rates[0] - rate;
        waiting.push_back((coins.toss(rate) == 1.0).then_some(decision.ticket));
        let late = if waiting.len() > DELAY { waiting.pop_front().flatten() } else { None };
        if let Some(ticket) = late {
            match bandit.update(ticket, 1.0) {
                Ok(()) => assert_eq!(bandit.update(ticket, 1.0), Err(Error::Duplicate)),
                Err(_) => refused += 1,
            }
        }
        if time % LIFE == 0 {
            bandit = next(bandit, &life(time / LIFE), restarts);
        }
    }
    (lost, refused)
}

/// The mean of some runs.
fn mean(epsilon: f64, horizon: u32, restarts: Restarts, runs: u64) -> (f64, u64) {
    let all: Vec<_> = (0..runs).map(|number| lost(epsilon, horizon, restarts, number)).collect();
    let refused = all.iter().map(|&(_, refused)| refused).sum();
    let mean = all.iter().map(|&(lost, _)| lost).sum::<f64>() / runs as f64;
    println!("{epsilon} {horizon} {restarts:?}: {mean:.0}, {refused} clicks refused");
    (mean, refused)
}

/// No click is lost by a restart, and learning goes on. With snapshots clicks of open decisions are refused, and the open
/// batches are lost.
#[test]
fn clicks_count_across_restarts() {
    let [(none, 0), (states, 0), (snapshots, refused)] =
        [Restarts::None, Restarts::States, Restarts::Snapshots].map(|restarts| mean(0.25, 60_000, restarts, 4))
    else {
        panic!("a click was refused")
    };
    assert!(refused > 100 && states < 1.3 * none && snapshots > 1.3 * none, "{none} {states} {snapshots}");
}

/// A restart every 2,000 of a million decisions loses what none loses, within a tenth.
#[test]
#[ignore = "a minute"]
fn restarts_lose_nothing() {
    for epsilon in [1.0, 0.25] {
        let [(none, _), (states, refused)] =
            [Restarts::None, Restarts::States].map(|restarts| mean(epsilon, 1_000_000, restarts, 40));
        assert!(refused == 0 && states < 1.1 * none, "{epsilon}: {none} {states}");
    }
}
