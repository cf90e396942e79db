//! Outputs beside decisions and releases: warnings and Debug. They depend on no reward that was not released, and a
//! warning begins where its documentation says.

use crate::audit::sabotage::with_fault;
use dpb::counter::{Counter, CounterKind};
use dpb::shuffle::{Params, Shuffler};
use dpb::stopping::{StoppingConfig, StoppingRule};
use dpb::{Algorithm, Bandit, Clock, Config, Fault, Request, Warnings};

fn handle(config: &Config) -> Bandit {
    Bandit::new(Algorithm::Imed, &Config { test_seed: Some([4; 32]), ..config.clone() }).unwrap()
}

fn public(bandit: &Bandit) -> Warnings {
    bandit.report().unwrap().warnings
}

fn of_operator(bandit: &Bandit) -> Warnings {
    bandit.diagnostics().unwrap().warnings
}

fn decide(bandit: &Bandit, user: u64, reward: Option<f64>) {
    let decision = bandit.select_for(&Request { user, ..Request::default() }).unwrap();
    reward.into_iter().for_each(|reward| bandit.update(decision.ticket, reward).unwrap());
}

/// The warnings after each decision of a handle that gets this reward, but once the other one.
fn warnings(reward: f64, decisions: u32, other: Option<u32>, read: fn(&Bandit) -> Warnings) -> Vec<Warnings> {
    let bandit = handle(&Config::new(2, 1.0));
    let each = (0..decisions).map(|at| {
        decide(&bandit, 0, Some(if other == Some(at) { 1.0 - reward } else { reward }));
        read(&bandit)
    });
    each.collect()
}

/// Two worlds differ in one reward, which ends a long row of equal ones. The operator's warnings show it, and the public
/// ones do not.
#[test]
fn public_warnings_tell_no_reward() {
    for (reward, decisions, other, fault) in
        [(1.0, 1500, 600, Fault::WarningOfClicks), (0.0, 66_000, 40_000, Fault::WarningOfSilence)]
    {
        let tell = |read| warnings(reward, decisions, None, read) != warnings(reward, decisions, Some(other), read);
        assert!(!tell(public), "{fault:?}");
        assert!(tell(of_operator) && with_fault(fault, || tell(public)), "{fault:?}");
    }
}

/// The number of steps until there is a warning.
fn first(warning: Warnings, bandit: &Bandit, read: fn(&Bandit) -> Warnings, reward: fn(u32) -> f64) -> u32 {
    let warned = |&at: &u32| {
        decide(bandit, 0, Some(reward(at)));
        read(bandit).contains(warning)
    };
    (1..200_000).find(warned).expect("a warning")
}

/// Of 1024 decisions so many expire, and then one more is made.
fn is_expiring(expired: u32) -> bool {
    let bandit = handle(&Config { pending_capacity: 1, ..Config::new(2, 1.0) });
    (0..1025).for_each(|at| decide(&bandit, 0, (at >= expired).then_some(0.5)));
    public(&bandit).contains(Warnings::EXPIRING)
}

/// Of 1024 decisions so many are learned from, and then one more is made.
fn is_unlearned(learned: u64) -> bool {
    let bandit = handle(&Config { expected_users: 1000, ..Config::new(2, 1.0) });
    (0..1025).for_each(|at| decide(&bandit, if at < learned { at } else { 0 }, Some(0.5)));
    public(&bandit).contains(Warnings::UNLEARNED)
}

fn half(_: u32) -> f64 {
    0.5
}

fn stopped(pending_capacity: u32, is_set: bool) -> u32 {
    let bandit = handle(&Config { clock: Clock::Caller, pending_capacity, ..Config::new(2, 1.0) });
    if is_set {
        bandit.advance(1).unwrap();
    }
    first(Warnings::CLOCK_STOPPED, &bandit, public, half)
}

fn unmerged() -> u32 {
    let bandit = handle(&Config { fleet_key: Some([7; 32].into()), ..Config::new(2, 1.0) });
    bandit.contribution(1).unwrap();
    first(Warnings::UNMERGED, &bandit, public, half)
}

/// Each warning begins at its threshold, and another threshold is seen.
#[test]
fn warnings_begin_at_their_thresholds() {
    let of_rewards = |warning, reward| first(warning, &handle(&Config::new(2, 1.0)), of_operator, reward);
    let smallest = || of_rewards(Warnings::ALL_SMALLEST, |_| 0.0);
    let largest = || of_rewards(Warnings::ALL_LARGEST, |_| 1.0);
    let expiring = || (1..1025).find(|&expired| is_expiring(expired)).unwrap();
    let learned = || (1..1025).find(|&learned| !is_unlearned(learned)).unwrap() as u32;
    let tests: [(Fault, &dyn Fn() -> u32, u32); 8] = [
        (Fault::SmallestEarly, &smallest, 65_535),
        (Fault::LargestEarly, &largest, 1024),
        (Fault::StoppedEarly, &|| stopped(4096, false), 1024),
        (Fault::StoppedEarly, &|| stopped(64, true), 1024),
        (Fault::StoppedEarly, &|| stopped(4096, true), 4096),
        (Fault::UnmergedEarly, &unmerged, 1 << 16),
        (Fault::ExpiringEarly, &expiring, 513), // more than half
        (Fault::UnlearnedEarly, &learned, 11),  // not fewer than one in 100
    ];
    for (fault, threshold, documented) in tests {
        assert_eq!(threshold(), documented, "{fault:?}");
        assert_ne!(with_fault(fault, threshold), documented, "{fault:?}");
    }
}

/// What Debug shows of each mechanism that holds raw values, in two worlds that differ in the last one.
fn shown(world: usize) -> String {
    let last = [0.25, 0.75][world];
    let stopping = |new: fn(&StoppingConfig) -> dpb::Result<StoppingRule>| {
        let mut rule = new(&StoppingConfig { test_seed: Some([1; 32]), ..StoppingConfig::new(1.0, 0.5, 0.1, 1.0) });
        let rule = rule.as_mut().unwrap();
        [0.5, 0.5, last].into_iter().for_each(|sample| assert!(!rule.push(sample).unwrap()));
        format!("{rule:?}")
    };
    let mut shuffler = Shuffler::new(Params::new(1.0, 1e-6, 100, false).unwrap(), Some([2; 32])).unwrap();
    shuffler.push(&vec![world as u8; shuffler.params().message_len()]).unwrap();
    // It releases at the fourth value, and not at the fifth.
    let mut counter = Counter::new(CounterKind::Logarithmic, 1.0, 0, Some([3; 32])).unwrap();
    [0.5, 0.5, 0.5, 0.5, last].into_iter().for_each(|value| counter.add(value).unwrap());
    format!("{} {} {shuffler:?} {counter:?}", stopping(StoppingRule::dp_nas), stopping(StoppingRule::dp_exp_nas))
}

#[test]
fn debug_tells_no_value() {
    assert_eq!(shown(0), shown(1));
    assert_ne!(with_fault(Fault::DebugTells, || shown(0)), with_fault(Fault::DebugTells, || shown(1)));
}
