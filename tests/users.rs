//! The library learns from at most the stated number of rewards of each user, whatever users do. Statuses and counts do
//! not depend on it.

use crate::audit::engine::{Audit, Seen, pattern, seed};
use crate::audit::sabotage::Sabotage;
use crate::support::requests::{Ask, among, fitted, of_slots, of_user, store};
use dpb::privacy::composition::{approximate_to_zcdp, zcdp_to_approximate};
use dpb::{Algorithm, Bandit, Config, Decision, Error, Fault, Random, Request, Seed};
use proptest::prelude::*;
use std::collections::HashMap;

const M: u32 = 2;

fn random(number: u64) -> Random {
    Seed::new(Some(seed(number))).unwrap().stream()
}

#[derive(Clone, Debug)]
enum Step {
    Select(u64),
    /// Reports a reward for the n-th last decision, in any state.
    Update(usize, u8),
    Cancel(usize),
    BadReward(usize),
    Period,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u64..12).prop_map(|user| Step::Select(user / 3 * (user % 3))), // some make more requests
        8 => (0usize..24, 0u8..=8).prop_map(|(n, reward)| Step::Update(n, reward)),
        2 => (0usize..24).prop_map(Step::Cancel),
        1 => (0usize..24).prop_map(Step::BadReward),
        1 => Just(Step::Period),
    ];
    prop::collection::vec(step, 1..600)
}

/// Plays the steps on a handle that counts users, and on one that does not: all returned values are the same. A
/// baseline shows for each reward whether the library learned from it.
fn check(steps: &[Step], users: u64, window: u32) {
    let config =
        Config { contributions_per_user: M, pending_capacity: 8, reward_window: window, ..Config::new(3, 1.0) };
    let counting = Bandit::new(Algorithm::NonprivateUcb1, &Config { expected_users: users, ..config.clone() }).unwrap();
    let plain = Bandit::new(Algorithm::NonprivateUcb1, &config).unwrap();
    let learned = |bandit: &Bandit| bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum::<f64>();
    let pulls = |bandit: &Bandit| bandit.arm_reports().unwrap().iter().map(|arm| arm.pulls).sum::<u64>();
    let mut log: Vec<(Decision, Decision, (u64, u32), bool)> = Vec::new();
    let (mut asked, mut taken) = (HashMap::new(), HashMap::new());
    let mut period = 0;
    for step in steps {
        let before = learned(&counting);
        // The decision whose reward may take effect in this call.
        let at = match *step {
            Step::Update(n, _) | Step::Cancel(n) | Step::BadReward(n) => log.len().checked_sub(n + 1),
            Step::Select(_) => log.len().checked_sub(window.max(1) as usize),
            Step::Period => None,
        };
        match (step, at) {
            (&Step::Select(user), _) => {
                let asked: &mut u32 = asked.entry((user, period)).or_default();
                *asked += 1;
                let decisions = (counting.select_for(&of_user(user)).unwrap(), plain.select().unwrap());
                log.push((decisions.0, decisions.1, (user, period), *asked <= M));
            }
            (&Step::Update(_, reward), Some(at)) => {
                let reward = f64::from(reward) / 8.0;
                assert_eq!(counting.update(log[at].0.ticket, reward), plain.update(log[at].1.ticket, reward));
            }
            (Step::Cancel(_), Some(at)) => {
                assert_eq!(counting.cancel(log[at].0.ticket), plain.cancel(log[at].1.ticket));
            }
            (Step::BadReward(_), Some(at)) => {
                assert_eq!(counting.update(log[at].0.ticket, 2.0), plain.update(log[at].1.ticket, 2.0));
            }
            (Step::Period, _) => {
                counting.next_period().unwrap();
                period += 1;
            }
            _ => continue,
        }
        let counts = |bandit: &Bandit| (bandit.report().unwrap().counts, bandit.diagnostics().unwrap(), pulls(bandit));
        assert_eq!(counts(&counting), counts(&plain));
        match learned(&counting) - before {
            0.0 => {}
            1.0 => {
                let (_, _, who, may) = log[at.unwrap()];
                assert!(may);
                let taken: &mut u32 = taken.entry(who).or_default();
                *taken += 1;
                assert!(*taken <= M, "{who:?}");
            }
            more => panic!("{more} at once"),
        }
    }
    // With far fewer users than expected, nobody is skipped wrongly: all rewards within the limit are learned from.
    let all = log.iter().all(|&(.., may)| may);
    assert!(!all || users == 1 || learned(&counting) == learned(&plain));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_user_is_learned_from_at_most_m_times(steps in steps(), few in any::<bool>(), window in 0u32..12) {
        check(&steps, if few { 1 } else { 10_000 }, window);
    }
}

/// A configuration that this policy accepts.
fn able(algorithm: Algorithm, config: Config) -> Result<Config, Error> {
    let made = |delta| {
        let config = Config { delta, ..config.clone() };
        let config = fitted(algorithm, config);
        Bandit::new(algorithm, &config).map(|_| config)
    };
    made(0.0).or_else(|_| made(1e-6))
}

fn devices(algorithm: Algorithm) -> bool {
    use Algorithm::{LdpKlUcb, LdpUcb, SdpAe, VbSdpAe};
    matches!(algorithm, SdpAe | VbSdpAe | LdpUcb | LdpKlUcb)
}

/// Every policy, also in segments and with several slots: a decision that the library does not learn from is like one
/// that is cancelled at once. So the same arms are played, to the end, as on a handle whose caller cancels it.
#[test]
fn a_skipped_request_is_like_a_cancelled_one() {
    let plain = Config {
        contributions_per_user: M,
        horizon: 3000,
        beta: 0.9,
        base: Algorithm::NonprivateExp3 as u32,
        pending_capacity: 16,
        test_seed: Some(seed(5)),
        ..Config::new(3, 8.0)
    };
    let windowed = Config { reward_window: 10, ..plain.clone() };
    let configs = [
        plain.clone(),
        windowed.clone(),
        Config { exploration: 0.1, ..plain.clone() },
        Config { max_segments: 4, ..plain.clone() },
        Config { max_segments: 4, ..windowed.clone() },
        Config { max_slots: 3, ..plain },
        Config { max_slots: 3, max_clicks: 1, ..windowed },
    ];
    for &algorithm in Algorithm::ALL.iter().filter(|&&algorithm| !devices(algorithm)) {
        let able = |config: &Config| able(algorithm, config.clone()).ok();
        let configs: Vec<_> = configs.iter().filter_map(able).collect();
        assert!(configs.len() >= 2 && (algorithm != Algorithm::Imed || configs.len() == 7), "{}", algorithm.name());
        for config in configs {
            as_if_cancelled(algorithm, &config);
        }
    }
}

fn as_if_cancelled(algorithm: Algorithm, config: &Config) {
    let (name, segmented) = (algorithm.name(), config.max_segments > 0);
    let counting = Bandit::new(algorithm, &Config { expected_users: 10_000, ..config.clone() }).unwrap();
    let plain = Bandit::new(algorithm, config).unwrap();
    let decide = |bandit: &Bandit, request: &Request| {
        let mut decisions = Vec::new();
        bandit.ask_slots(request, |_, decision| decisions.push(decision)).map(|()| decisions)
    };
    let mut random = random(6);
    let (mut asked, mut idle) = (HashMap::new(), 0);
    let mut log: Vec<(Decision, Decision, bool)> = Vec::new();
    // Segments need more decisions before they release.
    for _ in 0..if segmented { 6000 } else { 1500 } {
        let user = if random.bit() { 1 } else { 2 + random.below(if segmented { 8000 } else { 2000 }) };
        let asked: &mut u32 = asked.entry(user).or_default();
        *asked += 1;
        let set = [random.below(3) as u32, random.below(3) as u32];
        let any = Request {
            slots: 1 + random.below(config.max_slots.max(1).into()) as u32,
            segment: if segmented { random.below(4) } else { 0 },
            ..Request::default()
        };
        let some = Request { eligible: Some(&set), ..any };
        // Some policies refuse eligible arms or several slots; then nothing has changed.
        let ours = if random.bit() { decide(&counting, &Request { user, ..some }).ok() } else { None };
        let request = if ours.is_some() { some } else { any };
        let ours = ours.unwrap_or_else(|| decide(&counting, &Request { user, ..any }).unwrap());
        let theirs = decide(&plain, &request).unwrap();
        assert_eq!(ours.len(), request.slots as usize);
        let learned = *asked <= M;
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let same = |d: Decision| (d.arm, d.phase, d.propensity.to_bits());
            assert_eq!(same(ours), same(theirs), "{name} {config:?}");
            if !learned {
                plain.cancel(theirs.ticket).unwrap();
                idle += 1;
            }
            log.push((ours, theirs, learned));
        }
        for _ in 0..request.slots {
            let (ours, theirs, learned) = log[log.len() - 1 - random.below(log.len().min(8) as u64) as usize];
            let reward = random.below(9) as f64 / 8.0;
            let (done, as_there) = match random.below(12) {
                0 => (counting.cancel(ours.ticket), learned.then(|| plain.cancel(theirs.ticket))),
                1 => continue,
                _ => (counting.update(ours.ticket, reward), learned.then(|| plain.update(theirs.ticket, reward))),
            };
            assert!(as_there.is_none_or(|there| there == done), "{name}: {done:?}");
        }
    }
    let (counts, there) = (counting.report().unwrap().counts, plain.report().unwrap().counts);
    assert!(idle > 600 && counts.cancelled > 20 && there.cancelled > idle && counts.answered > there.answered);
    let seen = |bandit: &Bandit| {
        let mut arms = bandit.arm_reports().unwrap();
        for segment in 0..config.max_segments.into() {
            bandit.for_each_arm_in(segment, |_, arm| arms.push(arm)).unwrap();
        }
        let shown = |arm: dpb::ArmReport| (arm.mean.to_bits(), arm.effective_pulls.to_bits(), arm.active);
        (arms.into_iter().map(shown).collect::<Vec<_>>(), bandit.best_arm(), bandit.report().unwrap().phase)
    };
    assert_eq!(seen(&counting), seen(&plain), "{name}");
    assert!(!segmented || seen(&plain).2 > 20, "{:?}", seen(&plain));
}

/// A request of a user counts once, whatever its number of slots: the library learns from all of them, or from none.
/// (With so little noise every reward is released at once, until an arm's batches grow.)
#[test]
fn all_slots_of_a_request_are_learned_from_or_none() {
    let algorithm = Algorithm::Imed;
    let config = Config { expected_users: 1000, max_slots: 3, ..Config::new(6, 3e4) };
    let bandit = Bandit::new(algorithm, &config).unwrap();
    let heard = |user: u64, eligible: &[u32]| {
        let before = known(&bandit);
        let request = Request { user, slots: eligible.len() as u32, ..among(eligible) };
        let mut decisions = Vec::new();
        bandit.select_slots(&request, |_, decision| decisions.push(decision)).unwrap();
        decisions.iter().for_each(|decision| bandit.update(decision.ticket, 0.5).unwrap());
        known(&bandit) - before
    };
    assert_eq!([heard(1, &[0, 1, 2]), heard(1, &[3, 4, 5]), heard(1, &[3])], [3.0, 0.0, 0.0], "{algorithm:?}");
    assert_eq!([heard(2, &[3]), heard(2, &[4, 5]), heard(3, &[4, 5])], [1.0, 0.0, 2.0], "{algorithm:?}");
    // A refused request does not count.
    for slots in [0, 4] {
        let refused = bandit.select_slots(&Request { user: 4, ..of_slots(slots) }, |_, _| panic!());
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{refused:?}");
    }
    let report = bandit.report().unwrap();
    assert_eq!((report.counts.decisions, report.counts.pending(), report.epsilon_spent <= 3e4), (12, 0, true));
}

/// Many requests of several users under one lock.
#[test]
fn each_of_many_requests_counts_its_user() {
    let config = Config { expected_users: 1000, max_slots: 2, ..Config::new(4, 3e4) };
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    let request = |user, eligible: &'static [u32]| Ok(Request { user, slots: 2, ..among(eligible) });
    let (mut decisions, mut done) = (Vec::new(), 0);
    let requests =
        [request(1, &[0, 1]), request(1, &[0, 1]), request(2, &[2, 3]), request(2, &[2]), request(3, &[0, 1])];
    let refused = bandit.select_many(requests, |slot, decision| decisions.push((slot, decision)), &mut done);
    assert!(matches!(refused, Err(Error::InvalidRequest { .. })) && done == 3, "{refused:?} {done}");
    assert!(decisions.iter().all(|&(slot, decision)| slot / 4 == decision.arm as usize / 2), "{decisions:?}");
    decisions.iter().for_each(|(_, decision)| bandit.update(decision.ticket, 0.5).unwrap());
    assert_eq!((decisions.len(), known(&bandit)), (6, 4.0));
}

#[test]
fn configurations_that_cannot_count_users_are_refused() {
    let users = |users| Config { expected_users: users, horizon: 1000, ..Config::new(3, 1.0) };
    for &algorithm in Algorithm::ALL.iter().filter(|&&algorithm| devices(algorithm)) {
        let refused = able(algorithm, users(10)).unwrap_err().to_string();
        assert!(refused.starts_with("expected_users must be 0: the device must limit"), "{refused}");
    }
    let refused = able(Algorithm::Imed, users(Config::MOST_USERS + 1)).unwrap_err().to_string();
    assert_eq!(refused, "expected_users must be at most 2^28, got 268435457");
    let refused =
        able(Algorithm::Imed, Config { contributions_per_user: 16, ..users(1 << 27) }).unwrap_err().to_string();
    assert_eq!(refused, "expected_users must take at most 2^30 bytes at this contributions_per_user, got 134217728");
    // With the wrong kind of request, the call is refused and changes nothing.
    let plain = Bandit::new(Algorithm::Imed, &users(0)).unwrap();
    let counting = Bandit::new(Algorithm::Imed, &users(10)).unwrap();
    let fixed = Bandit::new(Algorithm::Se, &users(10)).unwrap();
    let unsupported = |error: Option<Error>| matches!(error, Some(Error::Unsupported(_)));
    assert!(unsupported(plain.select_for(&of_user(1)).err()) && unsupported(plain.next_period().err()));
    assert!(unsupported(plain.select_for(&Request { user: 1, ..among(&[1]) }).err()));
    assert!(unsupported(counting.select().err()));
    assert!(unsupported(counting.select_n(3, |_, _| panic!()).err()));
    assert!(unsupported(fixed.select_for(&Request { user: 1, ..among(&[1]) }).err()));
    assert!(matches!(counting.select_for(&Request { user: 1, ..among(&[7]) }), Err(Error::InvalidRequest { .. })));
    assert!(matches!(counting.select_for(&Request { user: 1, ..among(&[]) }), Err(Error::InvalidRequest { .. })));
    // Without max_slots each reward is a contribution, so a request of a user has one slot.
    let several = Request { user: 1, ..of_slots(2) };
    let refused = counting.select_slots(&several, |_, _| panic!()).unwrap_err();
    assert!(matches!(refused, Error::InvalidRequest { .. }), "{refused}");
    let why = "slots must be at most 1, because config.expected_users is set and config.max_slots is 0, got 2";
    assert_eq!(refused.to_string(), why);
    assert!(unsupported(fixed.select_slots(&several, |_, _| panic!()).err()));
    for bandit in [plain, counting, fixed] {
        assert_eq!(bandit.report().unwrap().counts.decisions, 0);
    }
}

/// A refused call does not count its user: m = 1 is still available.
#[test]
fn a_refused_request_does_not_count_its_user() {
    let config = Config { expected_users: 100, ..Config::new(2, 1.0) };
    let bandit = Bandit::new(Algorithm::NonprivateUcb1, &config).unwrap();
    assert!(bandit.select_for(&Request { user: 1, ..among(&[0]) }).is_err());
    for learned in [1.0, 0.0] {
        let before: f64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum();
        bandit.update(bandit.select_for(&of_user(1)).unwrap().ticket, 1.0).unwrap();
        let after: f64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum();
        assert_eq!(after - before, learned);
    }
}

/// If many users share counters, the keys determine who is skipped, and the test seed determines the keys.
#[test]
fn a_test_seed_reproduces_which_users_are_skipped() {
    let away = |number: u64| {
        let config = Config { expected_users: 5, test_seed: Some(seed(number)), ..Config::new(2, 1.0) };
        let bandit = Bandit::new(Algorithm::NonprivateUcb1, &config).unwrap();
        let known = || bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum::<f64>();
        let learned = |user: u64| {
            let before = known();
            bandit.update(bandit.select_for(&of_user(user)).unwrap().ticket, 1.0).unwrap();
            known() > before
        };
        (0..100).map(learned).collect::<Vec<_>>()
    };
    assert_eq!(away(1), away(1));
    assert_ne!(away(1), away(2));
}

/// Makes one request, with a reward, for each of these users.
fn play(bandit: &Bandit, users: std::ops::Range<u64>) {
    for user in users {
        let decision = bandit.select_for(&of_user(user)).unwrap();
        bandit.update(decision.ticket, f64::from(u8::from(user.is_multiple_of(3)))).unwrap();
    }
}

/// p periods lose p epsilon if a policy is pure, and otherwise the loss of m p rewards. The first period of a restored
/// handle counts too.
#[test]
fn the_losses_of_periods_add_up() {
    const DELTA: f64 = 1e-6;
    for (delta, max_segments, max_slots) in
        [(0.0, 0, 0), (DELTA, 0, 0), (0.0, 1, 0), (DELTA, 1, 0), (0.0, 0, 2), (DELTA, 0, 2)]
    {
        let config = Config {
            delta,
            expected_users: 1000,
            contributions_per_user: 3,
            max_segments,
            max_slots,
            ..Config::new(2, 0.7)
        };
        let mut bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        assert_eq!(bandit.epsilon_spent(delta), Ok(0.0));
        for period in 1..=4 {
            (0..3).for_each(|_| play(&bandit, 0..200));
            let rewards = 3.0 * f64::from(period);
            let loss = match delta {
                0.0 => f64::from(period) * 0.7,
                _ => zcdp_to_approximate(rewards * rewards * approximate_to_zcdp(0.7, DELTA, 3), DELTA),
            };
            let spent = bandit.epsilon_spent(delta).unwrap();
            assert!((spent / loss - 1.0).abs() < 1e-6 && (period > 1 || spent <= 0.7), "{period}: {spent} {loss}");
            assert!(period == 1 || spent >= f64::from(period) * 0.7 * (1.0 - 1e-6), "{spent}");
            assert_eq!(bandit.report().unwrap().epsilon_spent, spent);
            if period % 2 == 0 {
                bandit = Bandit::restore(&bandit.snapshot().unwrap()).unwrap();
            } else {
                bandit.next_period().unwrap();
            }
            store(&bandit);
        }
    }
    let plain = Bandit::new(Algorithm::Imed, &Config { max_segments: 1, ..Config::new(2, 0.7) }).unwrap();
    assert!(matches!(plain.next_period(), Err(Error::Unsupported(_))));
    // More rewards than a counter can count.
    let config = Config { expected_users: 1, contributions_per_user: u32::MAX, ..Config::new(2, 1e9) };
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    play(&bandit, 0..500);
    assert!(bandit.epsilon_spent(0.0).unwrap() <= 1e9);
    bandit.next_period().unwrap();
    assert_eq!(bandit.epsilon_spent(0.0), Ok(f64::INFINITY));
}

/// The number of rewards in all releases.
fn known(bandit: &Bandit) -> f64 {
    bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum()
}

/// A service is killed repeatedly right after its first snapshot, and restored from the newest one. One person
/// contributes in every run, and the report includes at least all of them. An earlier version reported 3.
#[test]
fn the_loss_includes_every_generation() {
    const GENERATIONS: u32 = 20;
    for (max_segments, people) in [(0, 200), (1, 4000)] {
        let config = Config { expected_users: 10_000, max_segments, ..Config::new(2, 1.0) };
        let mut bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        play(&bandit, 0..people);
        bandit.next_period().unwrap();
        let mut disk = bandit.snapshot().unwrap();
        for generation in 1..=GENERATIONS {
            bandit = Bandit::restore(&disk).unwrap();
            let before = bandit.report().unwrap();
            for _ in 0..2 {
                assert_eq!(bandit.select_for(&of_user(1)).err(), Some(Error::NotStored));
                assert_eq!(bandit.select_for(&Request { user: 1, ..among(&[0]) }).err(), Some(Error::NotStored));
                bandit.snapshot().unwrap(); // and the write fails
            }
            assert_eq!(bandit.report().unwrap(), before);
            disk = store(&bandit);
            let heard = known(&bandit);
            play(&bandit, 0..2 * people); // more than the open batches can hold
            assert!(known(&bandit) > heard, "{max_segments} {generation}");
        }
        let spent = bandit.epsilon_spent(0.0).unwrap();
        assert!(spent >= f64::from(GENERATIONS) + 1.0 && bandit.report().unwrap().epsilon_spent == spent, "{spent}");
    }
}

/// What a process may do between two kills: its snapshot is stored; or the write fails, and it takes the last snapshot for
/// the one that it wrote. Over all orders of that, restarts, new periods and decisions, anybody is learned from in at most as
/// many periods as the last handle reports. Each fault forgets one.
#[test]
fn a_failed_write_forgets_no_period() {
    assert!(!forgets_a_period(Sabotage::Nothing));
    for fault in [Fault::SnapshotOpens, Fault::AnyStoredOpens] {
        assert!(forgets_a_period(Sabotage::Built(fault)), "{fault:?}");
    }
}

fn forgets_a_period(sabotage: Sabotage) -> bool {
    let _hand = sabotage.hand(2);
    let config = Config { expected_users: 1000, ..Config::new(2, 1e4) };
    let (mut several, mut unlearned) = (0, 0);
    for number in 0..5u32.pow(6) {
        let order = number * 7919 % 5u32.pow(6); // each once, mixed, so that a fault is seen soon
        let mut bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        play(&bandit, 0..10);
        assert!(known(&bandit) > 0.0);
        let (mut disk, mut begun, mut learned) = (store(&bandit), 1, vec![1]);
        for step in 0..6 {
            match order / 5u32.pow(step) % 5 {
                0 => (begun, _) = (begun + 1, bandit.next_period().unwrap()),
                1 => disk = store(&bandit),
                2 => _ = (bandit.snapshot().unwrap(), bandit.stored(&disk)),
                3 => (begun, bandit) = (begun + 1, Bandit::restore(&disk).unwrap()),
                _ => {
                    // More people than the open batches can hold, because a batch is at most as long as all earlier ones.
                    let before = known(&bandit);
                    let ready = bandit.check_request(&of_user(0)).is_ok();
                    play(&bandit, 0..if ready { 3 * before as u64 + 10 } else { 0 });
                    unlearned += u32::from(known(&bandit) == before);
                    if known(&bandit) > before && learned.last() != Some(&begun) {
                        learned.push(begun);
                    }
                }
            }
        }
        let periods = (bandit.epsilon_spent(0.0).unwrap() / 1e4).round() as usize;
        if learned.len() > periods {
            return true;
        }
        several += u32::from(learned.len() > 1);
    }
    assert!(several > 500 && unlearned > 1000, "{several} {unlearned}");
    false
}

/// `stored` accepts snapshots of the very handle. What belongs to another handle, or to another generation, changes
/// nothing; an earlier snapshot opens the periods that it counts.
#[test]
fn only_its_own_snapshot_opens_a_handle() {
    let config = Config { expected_users: 100, fleet_key: Some([7; 32].into()), ..Config::new(2, 1.0) };
    let made = || Bandit::new(Algorithm::Imed, &config).unwrap();
    let restored = |bytes: &[u8]| Bandit::restore_as(Algorithm::Imed, &config, bytes).unwrap();
    let (first, other) = (made(), made());
    other.next_period().unwrap();
    let (before, others) = (first.snapshot().unwrap(), other.snapshot().unwrap());
    let (second, twin) = (restored(&before), restored(&before));
    twin.next_period().unwrap();
    for wrong in [&before, &others, &twin.snapshot().unwrap()] {
        let refused = second.stored(wrong).unwrap_err();
        assert!(matches!(refused, Error::InvalidConfig { field: "snapshot", .. }), "{refused}");
        assert_eq!(second.select_for(&of_user(1)).err(), Some(Error::NotStored));
    }
    assert_eq!(second.stored(&before[1..]).err(), Some(Error::Corrupt));
    let early = second.snapshot().unwrap();
    second.next_period().unwrap();
    second.stored(&early).unwrap();
    let learns = |bandit: &Bandit| {
        let before = known(bandit);
        play(bandit, 0..1000);
        known(bandit) > before
    };
    assert!(!learns(&second));
    // A state takes along what is stored; the snapshot of the suspended handle is not the resumed one's.
    let late = second.snapshot().unwrap();
    let third = Bandit::resume(None, &config, &second.suspend(0).unwrap()).unwrap();
    assert_eq!(third.stored(&late), Err(Error::NotReady));
    third.claimed().unwrap();
    assert!(!learns(&third) && third.stored(&late).is_err() && !learns(&third));
    store(&third);
    let fourth = Bandit::resume(None, &config, &third.suspend(0).unwrap()).unwrap();
    fourth.claimed().unwrap();
    assert!(learns(&fourth));
    let unready = restored(&late);
    let fifth = Bandit::resume(None, &config, &unready.suspend(0).unwrap()).unwrap();
    fifth.claimed().unwrap();
    assert_eq!(fifth.select_for(&of_user(1)).err(), Some(Error::NotStored));
    // Without users nothing waits.
    let plain = Bandit::new(Algorithm::Imed, &Config::new(2, 1.0)).unwrap();
    store(&plain);
    assert!(plain.stored(&before).is_err() && plain.select().is_ok());
}

/// A period that begins after a snapshot is not in it. Until the next one is stored the library serves people and does not
/// learn from them. A new handle learns in its first period, and a policy without snapshots in all.
#[test]
fn nothing_is_learned_in_a_period_that_is_not_stored() {
    for max_segments in [0, 1] {
        let config = Config { expected_users: 10_000, max_segments, ..Config::new(2, 1.0) };
        let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        // A batch is at most as long as all earlier ones, so each call has more users than those before it.
        let heard = |people| {
            let before = known(&bandit);
            play(&bandit, 0..people);
            known(&bandit) > before
        };
        assert!(heard(1000));
        assert!(!heard(1000));
        bandit.next_period().unwrap();
        assert!(!heard(3000));
        let kept = store(&bandit);
        assert!(heard(3000)); // the limit of the users that were skipped is unchanged
        bandit.next_period().unwrap();
        assert!(!heard(3000));
        assert_eq!(bandit.epsilon_spent(0.0), Ok(3.0));
        assert_eq!(Bandit::restore(&kept).unwrap().epsilon_spent(0.0), Ok(3.0));
        bandit.snapshot().unwrap();
        bandit.stored(&kept).unwrap();
        assert!(!heard(9000));
        store(&bandit);
        assert!(heard(9000));
    }
    let ucb = Bandit::new(Algorithm::NonprivateUcb1, &Config { expected_users: 100, ..Config::new(2, 1.0) }).unwrap();
    play(&ucb, 0..10);
    ucb.next_period().unwrap();
    play(&ucb, 0..10);
    assert_eq!(known(&ucb), 20.0);
}

/// A handle counts users before a restart and not after it, or the other way round: the part that does not count them
/// is one period, whatever the number of restarts.
#[test]
fn a_generation_without_user_counts_is_one_period() {
    let counting = Config { expected_users: 1000, ..Config::new(2, 1.0) };
    let plain = Config { expected_users: 0, ..counting.clone() };
    let go_on = |bandit: &Bandit, config: &Config| {
        Bandit::restore_as(Algorithm::Imed, config, &bandit.snapshot().unwrap()).unwrap()
    };
    let mut bandit = Bandit::new(Algorithm::Imed, &plain).unwrap();
    for (config, spent, is_ready) in [
        (&plain, 1.0, true),
        (&counting, 2.0, false),
        (&counting, 3.0, false),
        (&plain, 4.0, false),
        (&plain, 4.0, true),
        (&counting, 5.0, false),
    ] {
        bandit = go_on(&bandit, config);
        let decide = |bandit: &Bandit| {
            if config.expected_users > 0 { bandit.select_for(&of_user(1)) } else { bandit.select() }.err()
        };
        assert_eq!((bandit.epsilon_spent(0.0), decide(&bandit).is_none()), (Ok(spent), is_ready));
        store(&bandit);
        assert_eq!(decide(&bandit), None);
    }
}

/// Snapshots of two handles that received the same rewards from different people differ in the handle's name and the
/// checksum only. A restored handle learns from everybody again.
#[test]
fn a_snapshot_does_not_reveal_users() {
    let config =
        Config { expected_users: 10_000, test_seed: Some(seed(1)), pending_capacity: 64, ..Config::new(2, 1.0) };
    let of = |users: std::ops::Range<u64>| {
        let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        play(&bandit, users);
        bandit.snapshot().unwrap()
    };
    let (ours, theirs) = (of(0..300), of(6000..6300));
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.iter().zip(&theirs).filter(|(a, b)| a != b).count() <= 8 + 4);
    let restored = Bandit::restore(&ours).unwrap();
    store(&restored);
    let before = known(&restored);
    play(&restored, 0..3000);
    let after = known(&restored);
    play(&restored, 0..3000);
    assert!(before > 50.0 && after > before + 500.0 && known(&restored) == after, "{before} {after}");
}

/// Two worlds differ in all rewards of a user who comes sixty times. The library learns from two of them, in one batch:
/// the loss is at most epsilon. If it learned from all, the loss would be larger.
#[test]
fn the_audit_covers_all_rewards_of_a_user() {
    let world = |sabotage: Sabotage| {
        move |_: usize, number: u64, neighbour: bool| {
            let _hand = sabotage.hand(2);
            let config = Config {
                expected_users: 1000,
                contributions_per_user: M,
                test_seed: Some(seed(number)),
                ..Config::new(2, 1.0)
            };
            let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
            let (mut arms, mut first) = (0u64, f64::NAN);
            for at in 0..120 {
                let user = if at < 2 || at % 2 == 0 { 0 } else { at };
                let decision = bandit.select_for(&of_user(user)).unwrap();
                arms = arms << 1 | u64::from(decision.arm);
                let reward = if user == 0 { f64::from(u8::from(neighbour)) } else { 0.0 };
                bandit.update(decision.ticket, reward).unwrap();
                if at == 1 {
                    first = bandit.arm_reports().unwrap()[0].mean;
                }
            }
            let (read, report) = (bandit.arm_reports().unwrap(), bandit.report().unwrap());
            let sums = read.iter().map(|arm| arm.mean * arm.effective_pulls);
            vec![
                Seen::Number(first),
                Seen::Number(sums.sum()),
                Seen::Number(read[0].mean),
                Seen::Number(read[0].mean - read[1].mean),
                Seen::Pattern(arms & 0xff),
                Seen::Pattern(pattern((read[0].pulls, report.phase))),
            ]
        }
    };
    let audit = Audit { pilot: 400, ..Audit::pure(1.0, 2000) };
    let honest = audit.search(1, world(Sabotage::Nothing));
    assert!(!honest.alarm && honest.epsilon > 0.4, "{honest:?}");
    let sabotaged = audit.search(1, world(Sabotage::Built(Fault::UserUnbounded)));
    assert!(sabotaged.alarm, "{sabotaged:?}");
}
