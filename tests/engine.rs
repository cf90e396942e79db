//! Random sequences of select, update, cancel, and duplicate, late and foreign calls. A simple model that stores
//! everything gives the expected statuses, counts and sums.
//!
//! Sums are compared exactly. Under `Sabotage::NoNoise` the noise has scale one grid unit (2^-24), so a released mean
//! of DP-SE times its pulls is within a few units of the model's sum. Rewards are multiples of 1/8, so a reward that is
//! lost or counted twice changes the sum by two million units.

use crate::audit::sabotage::Sabotage;
use crate::fuzz::calls::CallerTime;
use crate::support::requests::{Ask, fitted, of_slots, of_user};
use dpb::{Algorithm, Bandit, Clock, Config, Decision, Error, Fault, Request};
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    Select,
    /// Reports reward r/8 for the n-th last decision or cancels it, in any state.
    Update(usize, u8),
    Cancel(usize),
    BadReward(usize),
    Foreign(u64),
    CancelAll,
    /// Lets ticks pass without decisions.
    Skip(u64),
    /// The caller's clock moves by this many ticks, perhaps backwards.
    Advance(i64),
}

/// With the caller's clock: mostly small steps, sometimes a night, sometimes years, sometimes backwards.
fn steps_in_time() -> impl Strategy<Value = Vec<Step>> {
    let ticks = prop_oneof![8 => 0i64..6, 2 => 0i64..100, 1 => Just(1i64 << 50), 1 => -200i64..0];
    let step = prop_oneof![2 => ticks.prop_map(|ticks| vec![Step::Advance(ticks)]), 3 => steps_of(1..8)];
    prop::collection::vec(step, 1..600).prop_map(|steps| steps.concat())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    steps_of(1..3000)
}

fn steps_of(many: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Select),
        8 => (0usize..40, 0u8..=8).prop_map(|(n, r)| Step::Update(n, r)),
        1 => (0usize..40).prop_map(Step::Cancel),
        1 => (0usize..40).prop_map(Step::BadReward),
        1 => any::<u64>().prop_map(Step::Foreign),
        1 => Just(Step::CancelAll),
        1 => (0u64..12).prop_map(Step::Skip),
    ];
    prop::collection::vec(step, many)
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Open,
    Held(u8),
    Done,
    Gone,
    /// A decision that was skipped: nobody has its ticket.
    Skipped,
}

/// A plain model of the engine and DP-SE, which stores every decision.
struct Model {
    window: usize,
    /// With the caller's clock: the time, and the times of decisions.
    clock: Option<CallerTime>,
    stamps: Vec<u64>,
    capacity: usize,
    log: Vec<(Decision, Fate)>,
    answered: u64,
    cancelled: u64,
    expired: u64,
    refused: [u64; 4],
    /// Rewards of each arm in the order in which they took effect. DP-SE's epochs take the first R_e that earlier
    /// epochs left.
    arrived: Vec<VecDeque<u8>>,
    pulls: Vec<u64>,
}

impl Model {
    fn settle(&mut self, decision: Decision, reward: u8) {
        self.answered += 1;
        self.arrived[decision.arm as usize].push_back(reward);
    }

    /// Ends the decisions whose window is over, in the order in which they were made.
    fn advance(&mut self, time: u64) {
        self.clock.as_mut().unwrap().shows(time);
        self.pass();
    }

    fn skip(&mut self, ticks: u64) {
        if let Some(clock) = &mut self.clock {
            clock.skip(ticks);
            return self.pass();
        }
        for _ in 0..ticks.min(self.window as u64) {
            self.before_select();
            self.cancelled += 1;
            self.log.push((Decision { ticket: 0, propensity: 1.0, arm: 0, phase: 0 }, Fate::Skipped));
            self.stamps.push(0);
        }
    }

    fn pass(&mut self) {
        let passed = self.clock.unwrap().passed;
        for due in 0..if self.window > 0 { self.log.len() } else { 0 } {
            let (decision, fate) = self.log[due];
            if passed - self.stamps[due] < self.window as u64 {
                break;
            }
            match fate {
                Fate::Held(reward) => self.settle(decision, reward),
                Fate::Open => self.settle(decision, 0),
                Fate::Done | Fate::Gone => {}
                Fate::Skipped => continue,
            }
            self.log[due].1 = Fate::Gone;
        }
    }

    fn before_select(&mut self) {
        let counted = self.window > 0 && self.clock.is_none();
        let depth = if counted { self.window } else { self.capacity };
        let Some(due) = self.log.len().checked_sub(depth) else { return };
        let (decision, fate) = self.log[due];
        match fate {
            Fate::Held(reward) if counted => self.settle(decision, reward),
            Fate::Open if counted => self.settle(decision, 0),
            Fate::Open | Fate::Held(_) => {
                self.expired += 1;
                self.pulls[decision.arm as usize] -= 1;
            }
            Fate::Done | Fate::Gone => {}
            Fate::Skipped => return,
        }
        self.log[due].1 = Fate::Gone;
    }

    /// The status that the engine should return for a ticket; `None` if the ticket accepts a reward or a cancellation.
    fn verdict(&mut self, index: usize, cancel: bool) -> Option<Error> {
        match self.log[index].1 {
            Fate::Open => None,
            Fate::Held(_) if cancel => None, // the status must not reveal that a reward came
            Fate::Held(_) | Fate::Done => {
                self.refused[0] += 1;
                Some(Error::Duplicate)
            }
            Fate::Gone => {
                self.refused[1] += 1;
                Some(Error::Expired)
            }
            Fate::Skipped => {
                self.refused[3] += 1;
                Some(Error::UnknownTicket)
            }
        }
    }
}

/// R_e of Algorithm 3 for two arms at beta = 0.9 and epsilon, implemented independently.
fn quota(epoch: u32, epsilon: f64) -> u64 {
    let (e2, gap) = (f64::from(epoch * epoch), 0.5f64.powi(epoch as i32));
    let hoeffding = 32.0 * (8.0 * 2.0 * e2 / 0.9).ln() / (gap * gap);
    let laplace = 8.0 * (4.0 * 2.0 * e2 / 0.9).ln() / (epsilon * gap);
    (hoeffding.max(laplace) + 1.0).ceil() as u64
}

/// Plays the steps on both. Returns how many epochs ended.
fn check(steps: &[Step], clock: Clock, window: u32, capacity: u32) -> u32 {
    // beta near one makes epochs as short as possible (about 370 pulls an arm), so that a few thousand steps reach an
    // epoch's end.
    let config = Config {
        beta: 0.9,
        pending_capacity: capacity,
        reward_window: window,
        clock,
        test_seed: Some([9; 32]),
        ..Config::new(2, 1.0)
    };
    let counted = if clock == Clock::Decisions { window } else { 0 };
    let _hand = Sabotage::NoNoise.hand(2);
    let bandit = Bandit::new(Algorithm::Se, &config).unwrap();
    let mut model = Model {
        window: window as usize,
        clock: (clock == Clock::Caller).then(|| CallerTime::new(window.into(), 0)),
        stamps: Vec::new(),
        capacity: capacity.max(counted).next_power_of_two() as usize,
        log: Vec::new(),
        answered: 0,
        cancelled: 0,
        expired: 0,
        refused: [0; 4],
        arrived: vec![VecDeque::new(); 2],
        pulls: vec![0; 2],
    };
    let mut phase = 1;
    for step in steps {
        match *step {
            Step::Select => {
                model.before_select();
                let decision = bandit.select().unwrap();
                model.pulls[decision.arm as usize] += 1;
                model.log.push((decision, Fate::Open));
                model.stamps.push(model.clock.map_or(0, |clock| clock.passed));
            }
            Step::Advance(ticks) => {
                let now = model.clock.map_or(0, |clock| clock.moved(ticks));
                bandit.advance(now).unwrap();
                model.advance(now);
            }
            Step::Update(n, reward) if !model.log.is_empty() => {
                let index = model.log.len().saturating_sub(n + 1);
                let decision = model.log[index].0;
                let refusal = model.verdict(index, false);
                let outcome = bandit.update(decision.ticket, f64::from(reward) / 8.0);
                assert_eq!(outcome.err(), refusal);
                if refusal.is_none() {
                    if window > 0 {
                        model.log[index].1 = Fate::Held(reward);
                    } else {
                        model.log[index].1 = Fate::Done;
                        model.settle(decision, reward);
                    }
                }
            }
            Step::Cancel(n) if !model.log.is_empty() => {
                let index = model.log.len().saturating_sub(n + 1);
                let refusal = model.verdict(index, true);
                assert_eq!(bandit.cancel(model.log[index].0.ticket).err(), refusal);
                if refusal.is_none() {
                    model.log[index].1 = Fate::Done;
                    model.cancelled += 1;
                    model.pulls[model.log[index].0.arm as usize] -= 1;
                }
            }
            Step::BadReward(n) if !model.log.is_empty() => {
                let ticket = model.log[model.log.len().saturating_sub(n + 1)].0.ticket;
                assert_eq!(bandit.update(ticket, 1.5), Err(Error::InvalidReward));
                model.refused[2] += 1;
            }
            Step::Foreign(ticket) if model.log.iter().all(|(d, _)| d.ticket != ticket) => {
                assert_eq!(bandit.update(ticket, 0.5), Err(Error::UnknownTicket));
                model.refused[3] += 1;
            }
            Step::Skip(ticks) => {
                bandit.skip(ticks).unwrap();
                model.skip(ticks);
            }
            Step::CancelAll => {
                bandit.cancel_all().unwrap();
                for (decision, fate) in &mut model.log {
                    if matches!(fate, Fate::Open | Fate::Held(_)) {
                        *fate = Fate::Done;
                        model.cancelled += 1;
                        model.pulls[decision.arm as usize] -= 1;
                    }
                }
            }
            _ => {}
        }
        // An epoch has ended: the released sums are those of the first R_e rewards of each arm.
        let report = bandit.report().unwrap();
        if report.phase != phase || report.arms_active == 1 {
            let arms = bandit.arm_reports().unwrap();
            for (arm, arrived) in model.arrived.iter_mut().enumerate() {
                let quota = quota(phase, 1.0);
                let sum: f64 = arrived.drain(..quota as usize).map(|r| f64::from(r) / 8.0).sum();
                let released = arms[arm].mean * quota as f64;
                assert!((released - sum).abs() < 1e-4, "epoch {phase}, arm {arm}: {released} is not {sum}");
            }
            phase += 1;
            if report.arms_active == 1 {
                return phase - 1; // one arm is left, and nothing more is released
            }
        } else {
            let waiting = model.arrived.iter().all(|a| a.len() as u64 >= quota(phase, 1.0));
            assert!(!waiting, "the epoch has all its answers and did not end");
        }
    }
    let counts = bandit.report().unwrap().counts;
    assert_eq!(counts.decisions, model.log.len() as u64);
    assert_eq!((counts.answered, counts.cancelled, counts.expired), (model.answered, model.cancelled, model.expired));
    let open = model.log.iter().filter(|(_, fate)| matches!(fate, Fate::Open | Fate::Held(_))).count();
    assert_eq!(counts.pending(), open as u64);
    let d = bandit.diagnostics().unwrap();
    assert_eq!([d.duplicates, d.late, d.rejected, d.unknown], model.refused);
    let pulls: Vec<u64> = bandit.arm_reports().unwrap().iter().map(|a| a.pulls).collect();
    assert_eq!(pulls, model.pulls);
    phase - 1
}

fn histories(cases: u32) -> ProptestConfig {
    let rng_seed = prop::test_runner::RngSeed::Fixed(1);
    ProptestConfig { cases, failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(histories(40))]

    #[test]
    fn explicit_rewards_agree_with_the_model(steps in steps(), capacity in 1u32..64) {
        check(&steps, Clock::Decisions, 0, capacity);
    }

    #[test]
    fn rewards_in_windows_agree_with_the_model(steps in steps(), window in 1u32..50) {
        check(&steps, Clock::Decisions, window, 8);
    }

    #[test]
    fn windows_of_time_agree_with_the_model(steps in steps_in_time(), window in 1u32..50, capacity in 1u32..64) {
        check(&steps, Clock::Caller, window, capacity);
    }

    #[test]
    fn time_ends_no_explicit_decision(steps in steps_in_time(), capacity in 1u32..64) {
        check(&steps, Clock::Caller, 0, capacity);
    }
}

proptest! {
    #![proptest_config(histories(300))]

    #[test]
    #[ignore = "half a minute"]
    fn many_histories_agree_with_the_model(
        steps in steps(), in_time in steps_in_time(), window in 0u32..50, capacity in 1u32..64
    ) {
        check(&steps, Clock::Decisions, window, capacity);
        check(&in_time, Clock::Caller, window, capacity);
    }
}

/// A long run with all kinds of calls, in which epochs certainly end and are compared.
#[test]
fn epochs_release_exactly_their_first_rewards() {
    for (clock, window, seed) in [(Clock::Decisions, 0, 1u64), (Clock::Decisions, 17, 2), (Clock::Caller, 40, 3)] {
        let mut state = seed;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let steps: Vec<Step> = (0..40_000)
            .map(|_| match draw(16) {
                0..6 => Step::Select,
                6..13 => Step::Update(draw(40) as usize, draw(9) as u8),
                13 => Step::Cancel(draw(40) as usize),
                14 => Step::BadReward(draw(40) as usize),
                15 if clock == Clock::Caller => Step::Advance(draw(40) as i64 - 4),
                _ => Step::Foreign(draw(u64::MAX)),
            })
            .collect();
        assert!(check(&steps, clock, window, 32) >= 2);
    }
}

/// The sabotage that this file must detect: a second reward that counts.
#[test]
#[should_panic]
fn a_duplicate_that_counts_is_detected() {
    let _hand = Sabotage::Built(Fault::DuplicateBelieved).hand(2);
    let config = Config { test_seed: Some([9; 32]), ..Config::new(2, 1.0) };
    let bandit = Bandit::new(Algorithm::Se, &config).unwrap();
    let decision = bandit.select().unwrap();
    bandit.update(decision.ticket, 1.0).unwrap();
    assert_eq!(bandit.update(decision.ticket, 1.0), Err(Error::Duplicate));
}

/// A cancelled pull is issued again: the epoch still ends with R_1 rewards for each arm.
#[test]
fn a_cancelled_pull_is_issued_again() {
    let config = Config { horizon: 50_000_000, test_seed: Some([1; 32]), ..Config::new(5, 0.25) };
    let bandit = Bandit::new(Algorithm::Se, &config).unwrap();
    let mut answered = [0u64; 5];
    while bandit.report().unwrap().phase == 1 {
        let decision = bandit.select().unwrap();
        if decision.ticket.is_multiple_of(3) {
            bandit.cancel(decision.ticket).unwrap();
        } else {
            bandit.update(decision.ticket, 0.5).unwrap();
            answered[decision.arm as usize] += 1;
        }
    }
    assert_eq!(answered, [2743; 5]);
}

/// With a window, a cancellation has the same effect whether the reward has come or not: statuses, counts, arms and
/// everything later, for every policy that supports a window.
#[test]
fn a_cancellation_does_not_reveal_a_click() {
    let mut windowed = 0;
    for &algorithm in Algorithm::ALL {
        let config = |delta| Config {
            horizon: 10_000,
            beta: 0.9,
            delta,
            base: Algorithm::NonprivateExp3 as u32,
            reward_window: 8,
            test_seed: Some([3; 32]),
            ..Config::new(3, 1.0)
        };
        let worlds = [false, true].map(|clicked| {
            let made = [0.0, 1e-3]
                .into_iter()
                .find_map(|delta| Bandit::new(algorithm, &fitted(algorithm, config(delta))).ok());
            let bandit = made?;
            let mut seen = Vec::new();
            for step in 0..3000 {
                let decision = bandit.ask().unwrap();
                let cancelled = step % 3 == 0;
                if clicked && cancelled {
                    bandit.update(decision.ticket, 1.0).unwrap();
                }
                if cancelled {
                    seen.push(format!("{:?}", bandit.cancel(decision.ticket)));
                    seen.push(format!("{:?}", bandit.cancel(decision.ticket)));
                    seen.push(format!("{:?}", bandit.update(decision.ticket, 1.0)));
                } else if step % 2 == 0 {
                    bandit.update(decision.ticket, 1.0).unwrap();
                }
                let Decision { propensity, arm, phase, .. } = decision;
                seen.push(format!("{arm} {phase} {propensity} {:?}", bandit.report().unwrap()));
            }
            Some((seen, format!("{:?}", bandit.arm_reports())))
        });
        windowed += u32::from(worlds[0].is_some());
        assert!(worlds[0] == worlds[1], "{}", algorithm.name());
    }
    assert!(windowed >= 20, "{windowed}"); // all but those of the local model
}

/// An outage: `cancel_all` cancels all open decisions, in ticket order, with the same effect whether rewards have come
/// or not. Reports, arms and propensities from then on are the same, for every policy that supports a window, with
/// several slots and for users. One outage is so long that policies play their best arm.
#[test]
fn an_outage_does_not_reveal_a_click() {
    let mut windowed = 0;
    for &algorithm in Algorithm::ALL {
        let slates = matches!(algorithm, Algorithm::Imed | Algorithm::Linear);
        let config = |delta, slate, users| Config {
            horizon: 10_000,
            beta: 0.9,
            delta,
            max_slots: slate,
            max_clicks: slate / 3,
            expected_users: users,
            base: Algorithm::NonprivateExp3 as u32,
            reward_window: 8,
            test_seed: Some([3; 32]),
            ..Config::new(4, 1.0)
        };
        for (slate, users) in [(0, 0), (3, 0), (0, 5), (3, 5)] {
            if slate > 0 && !slates {
                continue;
            }
            let worlds = [false, true].map(|clicked| {
                let made = [0.0, 1e-3]
                    .into_iter()
                    .find_map(|delta| Bandit::new(algorithm, &fitted(algorithm, config(delta, slate, users))).ok());
                let bandit = made?;
                let mut seen = Vec::new();
                for step in 0..1500u64 {
                    let long = (700..1100).contains(&step);
                    let outage = long || step % 7 < 3;
                    let mut each = |decision: Decision| {
                        // The worlds differ only in an outage.
                        if if outage { clicked } else { step % 2 == 0 } {
                            bandit.update(decision.ticket, 1.0).unwrap();
                        }
                        seen.push(format!("{} {} {}", decision.arm, decision.phase, decision.propensity));
                    };
                    match (slate, users) {
                        (0, 0) => each(bandit.ask().unwrap()),
                        (0, _) => each(bandit.ask_for(&of_user(step / 2 % 5)).unwrap()),
                        _ => {
                            let user = if users > 0 { step / 2 % 5 } else { 0 };
                            let (request, mut decisions) = (Request { user, ..of_slots(3) }, Vec::new());
                            bandit.ask_slots(&request, |_, decision| decisions.push(decision)).unwrap();
                            decisions.into_iter().for_each(each);
                        }
                    }
                    // Before the first window of the outage is over.
                    if long || step % 7 == if slate > 0 { 1 } else { 2 } || (slate > 0 && step % 7 == 2) {
                        bandit.cancel_all().unwrap();
                        assert_eq!(bandit.report().unwrap().counts.pending(), 0);
                    }
                    seen.push(format!("{:?}", bandit.report().unwrap()));
                }
                Some((seen, format!("{:?}", bandit.arm_reports())))
            });
            windowed += u32::from(worlds[0].is_some());
            assert!(worlds[0] == worlds[1], "{} {slate} {users}", algorithm.name());
        }
    }
    assert!(windowed >= 2 * 19 + 2 * 2, "{windowed}");
}

/// A reward out of range leaves its decision open. Without another reward it expires, which public counts show. With a
/// valid or clamped reward it does not.
#[test]
fn a_refused_reward_shows_in_public_counts_unless_mended() {
    let counts = |clamp_rewards, again| {
        let config = Config { horizon: 100, clamp_rewards, pending_capacity: 1, ..Config::new(3, 1.0) };
        let bandit = Bandit::new(Algorithm::Se, &config).unwrap();
        let ticket = bandit.select().unwrap().ticket;
        let refused = bandit.update(ticket, 1.5);
        assert_eq!(refused.is_ok(), clamp_rewards);
        if again {
            bandit.update(ticket, 1.0).unwrap();
        }
        bandit.select().unwrap();
        let pulls = bandit.arm_reports().unwrap().iter().map(|arm| arm.pulls).sum::<u64>();
        (bandit.report().unwrap().counts.expired, pulls)
    };
    assert_eq!(counts(false, false), (1, 1));
    assert_eq!(counts(false, true), (0, 2));
    assert_eq!(counts(true, false), (0, 2));
}

/// A handle does not know the tickets of another, even of the same seed and node.
#[test]
fn foreign_tickets_are_unknown() {
    let config = Config { node: 7, test_seed: Some([1; 32]), ..Config::new(5, 1.0) };
    let (ours, theirs) = (Bandit::new(Algorithm::Se, &config).unwrap(), Bandit::new(Algorithm::Se, &config).unwrap());
    for _ in 0..1000 {
        ours.select().unwrap();
        assert_eq!(ours.update(theirs.select().unwrap().ticket, 1.0), Err(Error::UnknownTicket));
    }
    assert_eq!(ours.diagnostics().unwrap().unknown, 1000);
}

/// Many threads on one handle: every decision gets exactly one reward.
#[test]
fn threads_share_a_handle() {
    let config = Config { horizon: 1_000_000, pending_capacity: 1 << 18, ..Config::new(5, 1.0) };
    let bandit = Bandit::new(Algorithm::Se, &config).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    let decision = bandit.select().unwrap();
                    bandit.update(decision.ticket, 0.5).unwrap();
                    assert_eq!(bandit.update(decision.ticket, 0.5), Err(Error::Duplicate));
                }
            });
        }
    });
    let counts = bandit.report().unwrap().counts;
    assert_eq!((counts.decisions, counts.answered, counts.pending()), (200_000, 200_000, 0));
    assert_eq!(bandit.diagnostics().unwrap().duplicates, 200_000);
}
