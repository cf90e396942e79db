//! No more of a user is learned from than was promised, whatever users do; and who answers sees no difference.

use crate::audit::engine::{Audit, Seen, pattern, seed};
use crate::audit::sabotage::Sabotage;
use dpb::privacy::composition::{approximate_to_zcdp, zcdp_to_approximate};
use dpb::{Algorithm, Bandit, Config, Decision, Error, Fault, Pool, Random, Seed};
use proptest::prelude::*;
use std::collections::HashMap;

const M: u32 = 2;

fn random(number: u64) -> Random {
    Seed::new(Some(seed(number))).unwrap().stream()
}

#[derive(Clone, Debug)]
enum Step {
    Select(u64),
    /// Of the n-th last decision, whatever became of it.
    Update(usize, u8),
    Cancel(usize),
    BadReward(usize),
    Period,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u64..12).prop_map(|user| Step::Select(user / 3 * (user % 3))), // some come more often
        8 => (0usize..24, 0u8..=8).prop_map(|(n, reward)| Step::Update(n, reward)),
        2 => (0usize..24).prop_map(Step::Cancel),
        1 => (0usize..24).prop_map(Step::BadReward),
        1 => Just(Step::Period),
    ];
    prop::collection::vec(step, 1..600)
}

/// Plays the steps on a handle that counts users, and on one that does not: whoever calls sees the same. A baseline
/// tells of each answer whether it was learned from.
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
        // Whose answer may take effect in this call.
        let at = match *step {
            Step::Update(n, _) | Step::Cancel(n) | Step::BadReward(n) => log.len().checked_sub(n + 1),
            Step::Select(_) => log.len().checked_sub(window.max(1) as usize),
            Step::Period => None,
        };
        match (step, at) {
            (&Step::Select(user), _) => {
                let asked: &mut u32 = asked.entry((user, period)).or_default();
                *asked += 1;
                let decisions = (counting.select_for(user).unwrap(), plain.select().unwrap());
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
    // Among so few, of so many that were expected, nobody is turned away wrongly: all answers of those that may be are.
    let all = log.iter().all(|&(.., may)| may);
    assert!(!all || users == 1 || learned(&counting) == learned(&plain));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_learned_from_more_than_m_times(steps in steps(), few in any::<bool>(), window in 0u32..12) {
        check(&steps, if few { 1 } else { 10_000 }, window);
    }
}

/// A configuration that this policy takes.
fn able(algorithm: Algorithm, config: Config) -> Result<Config, Error> {
    let made = |delta| {
        let config = Config { delta, ..config.clone() };
        Bandit::new(algorithm, &config).map(|_| config)
    };
    made(0.0).or_else(|_| made(1e-6))
}

fn devices(algorithm: Algorithm) -> bool {
    use Algorithm::{LdpKlUcb, LdpUcb, SdpAe, VbSdpAe};
    matches!(algorithm, SdpAe | VbSdpAe | LdpUcb | LdpKlUcb)
}

/// Every policy: what is not learned from is served as one that is cancelled at once. So the same arms play, to the
/// end, as on a handle whose caller does that.
#[test]
fn what_is_not_learned_from_is_a_decision_that_was_cancelled() {
    for &algorithm in Algorithm::ALL.iter().filter(|&&algorithm| !devices(algorithm)) {
        for (reward_window, exploration) in [(0, 0.0), (10, 0.0), (0, 0.1)] {
            let config = Config {
                contributions_per_user: M,
                horizon: 3000,
                beta: 0.9,
                base: Algorithm::NonprivateExp3 as u32,
                pending_capacity: 16,
                reward_window,
                exploration,
                test_seed: Some(seed(5)),
                ..Config::new(3, 8.0)
            };
            let Ok(config) = able(algorithm, config) else {
                assert!(exploration > 0.0, "{}", algorithm.name());
                continue;
            };
            let counting = Bandit::new(algorithm, &Config { expected_users: 10_000, ..config.clone() }).unwrap();
            let plain = Bandit::new(algorithm, &config).unwrap();
            let mut random = random(6);
            let (mut asked, mut idle, mut cancelled) = (HashMap::new(), 0, 0);
            let mut log: Vec<(Decision, Decision, bool)> = Vec::new();
            for _ in 0..1500 {
                let user = if random.bit() { 1 } else { 2 + random.below(2000) };
                let asked: &mut u32 = asked.entry(user).or_default();
                *asked += 1;
                let set = [random.below(3) as u32, random.below(3) as u32];
                let among = if random.bit() { counting.select_among_for(user, &set).ok() } else { None };
                let (ours, theirs) = match among {
                    Some(ours) => (ours, plain.select_among(&set).unwrap()),
                    None => (counting.select_for(user).unwrap(), plain.select().unwrap()),
                };
                let same = |d: Decision| (d.arm, d.phase, d.propensity.to_bits());
                assert_eq!(same(ours), same(theirs), "{} {reward_window}", algorithm.name());
                let learned = *asked <= M;
                if !learned {
                    plain.cancel(theirs.ticket).unwrap();
                    idle += 1;
                }
                log.push((ours, theirs, learned));
                let (ours, theirs, learned) = log[log.len() - 1 - random.below(log.len().min(8) as u64) as usize];
                let reward = random.below(9) as f64 / 8.0;
                let (done, as_there) = match random.below(12) {
                    0 => (counting.cancel(ours.ticket), learned.then(|| plain.cancel(theirs.ticket))),
                    1 => continue,
                    _ => (counting.update(ours.ticket, reward), learned.then(|| plain.update(theirs.ticket, reward))),
                };
                assert!(as_there.is_none_or(|there| there == done), "{}: {done:?}", algorithm.name());
                cancelled = counting.report().unwrap().counts.cancelled;
            }
            let (counts, there) = (counting.report().unwrap().counts, plain.report().unwrap().counts);
            assert!(idle > 600 && cancelled > 20 && there.cancelled > idle && counts.answered > there.answered);
            let seen = |bandit: &Bandit| {
                let arms = bandit.arm_reports().unwrap();
                let shown = |arm: dpb::ArmReport| (arm.mean.to_bits(), arm.effective_pulls.to_bits(), arm.active);
                (arms.into_iter().map(shown).collect::<Vec<_>>(), bandit.best_arm())
            };
            assert_eq!(seen(&counting), seen(&plain), "{}", algorithm.name());
        }
    }
}

/// The same in a pool, where users come to several segments: all that can be read of it is the same in the end.
#[test]
fn in_a_pool_too() {
    for reward_window in [0, 10] {
        let config = Config {
            contributions_per_user: M,
            pending_capacity: 16,
            reward_window,
            test_seed: Some(seed(5)),
            ..Config::new(3, 8.0)
        };
        let counting = Pool::new(&Config { expected_users: 10_000, ..config.clone() }, 4).unwrap();
        let plain = Pool::new(&config, 4).unwrap();
        (0..4).for_each(|key| assert_eq!(counting.segment(key), plain.segment(key)));
        let mut random = random(6);
        let (mut asked, mut idle) = (HashMap::new(), 0);
        let mut log: Vec<(Decision, Decision, bool)> = Vec::new();
        for _ in 0..6000 {
            let user = if random.bit() { 1 } else { 2 + random.below(8000) };
            let asked: &mut u32 = asked.entry(user).or_default();
            *asked += 1;
            let (segment, set) = (random.below(4) as u32, [random.below(3) as u32, random.below(3) as u32]);
            let (ours, theirs) = match random.bit() {
                true => (counting.select_among_for(segment, user, &set), plain.select_among(segment, &set)),
                false => (counting.select_for(segment, user), plain.select(segment)),
            };
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            assert_eq!((ours.arm, ours.phase), (theirs.arm, theirs.phase));
            let learned = *asked <= M;
            if !learned {
                plain.cancel(theirs.ticket).unwrap();
                idle += 1;
            }
            log.push((ours, theirs, learned));
            let (ours, theirs, learned) = log[log.len() - 1 - random.below(log.len().min(8) as u64) as usize];
            let reward = random.below(9) as f64 / 8.0;
            let done = counting.update(ours.ticket, reward);
            assert!(!learned || done == plain.update(theirs.ticket, reward));
        }
        let cells = |pool: &Pool| {
            let mut cells = Vec::new();
            let mut keep = |_, cell: dpb::CellReport| cells.push((cell.mean.to_bits(), cell.effective_pulls.to_bits()));
            (0..4).for_each(|segment| pool.for_each_arm(segment, &mut keep).unwrap());
            (cells, pool.report().unwrap().releases)
        };
        assert_eq!(cells(&counting), cells(&plain));
        assert!(idle > 2500 && cells(&plain).1 > 20, "{idle} {}", cells(&plain).1);
    }
}

/// Periods add up, over lives too; and a pool that goes on begins one.
#[test]
fn periods_of_a_pool_add_up() {
    let config =
        Config { expected_users: 1000, contributions_per_user: M, test_seed: Some(seed(1)), ..Config::new(2, 0.7) };
    let mut pool = Pool::new(&config, 1).unwrap();
    let spent = |pool: &Pool| pool.report().unwrap().epsilon_spent;
    assert_eq!(spent(&pool), 0.0);
    for period in 1..=4 {
        let segment = pool.segment(9).unwrap();
        for user in (0..200).chain(0..200) {
            pool.update(pool.select_for(segment, user).unwrap().ticket, 1.0).unwrap();
        }
        let now = spent(&pool);
        assert!((now / (0.7 * f64::from(period)) - 1.0).abs() < 1e-6 && (period > 1 || now <= 0.7), "{period}: {now}");
        if period % 2 == 0 {
            pool = Pool::restore(&pool.snapshot().unwrap()).unwrap();
            pool.snapshot().unwrap();
        } else {
            pool.next_period().unwrap();
            pool.snapshot().unwrap();
        }
    }
    let plain = Pool::new(&Config { expected_users: 0, ..config }, 1).unwrap();
    assert!(matches!(plain.next_period(), Err(Error::Unsupported(_))));
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let users = |users| Config { expected_users: users, horizon: 1000, ..Config::new(3, 1.0) };
    for &algorithm in Algorithm::ALL.iter().filter(|&&algorithm| devices(algorithm)) {
        let refused = able(algorithm, users(10)).unwrap_err().to_string();
        assert!(refused.starts_with("expected_users must be 0: what a user's device has sent"), "{refused}");
    }
    let refused = able(Algorithm::Imed, users(Config::MOST_USERS + 1)).unwrap_err().to_string();
    assert_eq!(refused, "expected_users must be at most 2^28, got 268435457");
    let refused =
        able(Algorithm::Imed, Config { contributions_per_user: 16, ..users(1 << 27) }).unwrap_err().to_string();
    assert_eq!(refused, "expected_users must take at most 2^30 bytes at this contributions_per_user, got 134217728");
    // One way or the other, and a refused call changes nothing.
    let plain = Bandit::new(Algorithm::Imed, &users(0)).unwrap();
    let counting = Bandit::new(Algorithm::Imed, &users(10)).unwrap();
    let fixed = Bandit::new(Algorithm::Se, &users(10)).unwrap();
    let unsupported = |error: Option<Error>| matches!(error, Some(Error::Unsupported(_)));
    assert!(unsupported(plain.select_for(1).err()) && unsupported(plain.next_period().err()));
    assert!(unsupported(plain.select_among_for(1, &[1]).err()));
    assert!(unsupported(counting.select().err()) && unsupported(counting.select_among(&[1]).err()));
    assert!(unsupported(counting.select_many(3, |_| panic!()).err()));
    assert!(unsupported(fixed.select_among_for(1, &[1]).err()));
    assert!(matches!(counting.select_among_for(1, &[7]), Err(Error::InvalidRequest { .. })));
    assert!(matches!(counting.select_among_for(1, &[]), Err(Error::InvalidRequest { .. })));
    for bandit in [plain, counting, fixed] {
        assert_eq!(bandit.report().unwrap().counts.decisions, 0);
    }
}

/// A refused call has not counted its user: m = 1 is still there.
#[test]
fn what_is_refused_is_not_counted() {
    let config = Config { expected_users: 100, ..Config::new(2, 1.0) };
    let bandit = Bandit::new(Algorithm::NonprivateUcb1, &config).unwrap();
    assert!(bandit.select_among_for(1, &[0]).is_err());
    for learned in [1.0, 0.0] {
        let before: f64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum();
        bandit.update(bandit.select_for(1).unwrap().ticket, 1.0).unwrap();
        let after: f64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum();
        assert_eq!(after - before, learned);
    }
}

/// Where many share counters, who is turned away is the keys' doing: those are of the test seed.
#[test]
fn a_test_seed_reproduces_who_is_turned_away() {
    let away = |number: u64| {
        let config = Config { expected_users: 5, test_seed: Some(seed(number)), ..Config::new(2, 1.0) };
        let bandit = Bandit::new(Algorithm::NonprivateUcb1, &config).unwrap();
        let known = || bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum::<f64>();
        let learned = |user: u64| {
            let before = known();
            bandit.update(bandit.select_for(user).unwrap().ticket, 1.0).unwrap();
            known() > before
        };
        (0..100).map(learned).collect::<Vec<_>>()
    };
    assert_eq!(away(1), away(1));
    assert_ne!(away(1), away(2));
}

/// Plays so many decisions of new users, all answered.
fn play(bandit: &Bandit, users: std::ops::Range<u64>) {
    for user in users {
        let decision = bandit.select_for(user).unwrap();
        bandit.update(decision.ticket, f64::from(u8::from(user.is_multiple_of(3)))).unwrap();
    }
}

/// p periods lose p epsilon where a policy is pure, and what m p rewards do where it is not; and a restored handle's
/// first period is one more.
#[test]
fn periods_add_up() {
    const DELTA: f64 = 1e-6;
    for delta in [0.0, DELTA] {
        let config = Config { delta, expected_users: 1000, contributions_per_user: 3, ..Config::new(2, 0.7) };
        let mut bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        assert_eq!(bandit.epsilon_spent(delta), Ok(0.0));
        for period in 1..=4 {
            play(&bandit, 0..200);
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
                bandit.snapshot().unwrap();
            } else {
                bandit.next_period().unwrap();
            }
        }
    }
    // More rewards than anybody can count.
    let config = Config { expected_users: 1, contributions_per_user: u32::MAX, ..Config::new(2, 1e9) };
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    play(&bandit, 0..500);
    assert!(bandit.epsilon_spent(0.0).unwrap() <= 1e9);
    bandit.next_period().unwrap();
    assert_eq!(bandit.epsilon_spent(0.0), Ok(f64::INFINITY));
}

/// Rewards behind all that was released.
fn known(bandit: &Bandit) -> f64 {
    bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum()
}

/// Killed again and again right after its first snapshot, and restored from the newest one that was written: one person
/// is heard in every life, and the report says so often or more. It did say 3.
#[test]
fn no_life_is_forgotten_however_many_there_are() {
    const LIVES: u32 = 20;
    let config = Config { expected_users: 1000, ..Config::new(2, 1.0) };
    let mut bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    play(&bandit, 0..200);
    bandit.next_period().unwrap();
    let mut disk = bandit.snapshot().unwrap();
    for life in 1..=LIVES {
        bandit = Bandit::restore(&disk).unwrap();
        let before = bandit.report().unwrap();
        for _ in 0..2 {
            assert_eq!(bandit.select_for(1).err(), Some(Error::NotReady));
            assert_eq!(bandit.select_among_for(1, &[0]).err(), Some(Error::NotReady));
        }
        assert_eq!(bandit.report().unwrap(), before);
        disk = bandit.snapshot().unwrap();
        let heard = known(&bandit);
        play(&bandit, 0..200);
        assert!(known(&bandit) > heard, "{life}");
    }
    let spent = bandit.epsilon_spent(0.0).unwrap();
    assert!(spent >= f64::from(LIVES) + 1.0, "{spent}");

    let mut pool = Pool::new(&Config { expected_users: 10_000, ..config }, 1).unwrap();
    pool.segment(9).unwrap();
    pool.next_period().unwrap();
    let mut disk = pool.snapshot().unwrap();
    for life in 1..=LIVES {
        pool = Pool::restore(&disk).unwrap();
        let before = pool.report().unwrap();
        assert_eq!(pool.select_for(0, 1).err(), Some(Error::NotReady));
        assert_eq!(pool.select_among_for(0, 1, &[0]).err(), Some(Error::NotReady));
        assert_eq!(pool.report().unwrap(), before);
        disk = pool.snapshot().unwrap();
        (0..4000).for_each(|user| pool.update(pool.select_for(0, user).unwrap().ticket, 1.0).unwrap());
        assert!(pool.report().unwrap().releases > before.releases, "{life}");
    }
    assert!(pool.report().unwrap().epsilon_spent >= f64::from(LIVES) + 1.0);
}

/// A period that begins after a snapshot is not in it: until there is one that has it, people are served and not
/// heard. A handle that was never saved has nothing to go back to.
#[test]
fn nobody_is_heard_in_a_period_that_no_snapshot_has() {
    let config = Config { expected_users: 10_000, ..Config::new(2, 1.0) };
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    let pool = Pool::new(&config, 1).unwrap();
    pool.segment(9).unwrap();
    // A batch is at most as long as all before: the last ones are heard for longer than all before them.
    let heard = |people| {
        let before = (known(&bandit), pool.report().unwrap().releases);
        play(&bandit, 0..people);
        (0..people).for_each(|user| pool.update(pool.select_for(0, user).unwrap().ticket, 1.0).unwrap());
        (known(&bandit) > before.0, pool.report().unwrap().releases > before.1)
    };
    let next = || {
        bandit.next_period().unwrap();
        pool.next_period().unwrap();
    };
    assert_eq!(heard(1000), (true, true));
    assert_eq!(heard(1000), (false, false));
    next();
    assert_eq!(heard(3000), (true, true));
    let kept = (bandit.snapshot().unwrap(), pool.snapshot().unwrap());
    next();
    assert_eq!(heard(3000), (false, false));
    assert!(bandit.epsilon_spent(0.0) == Ok(3.0) && Bandit::restore(&kept.0).unwrap().epsilon_spent(0.0) == Ok(3.0));
    assert_eq!(Pool::restore(&kept.1).unwrap().report().unwrap().epsilon_spent, 3.0);
    bandit.snapshot().unwrap();
    pool.snapshot().unwrap();
    assert_eq!(heard(9000), (true, true)); // who came while nobody was heard has lost no place
}

/// Of two lives one counts users and the other does not: the other is one period, however often it was restored.
#[test]
fn a_life_that_counts_nobody_is_a_period() {
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
        let decide =
            |bandit: &Bandit| if config.expected_users > 0 { bandit.select_for(1) } else { bandit.select() }.err();
        assert_eq!((bandit.epsilon_spent(0.0), decide(&bandit).is_none()), (Ok(spent), is_ready));
        bandit.snapshot().unwrap();
        assert_eq!(decide(&bandit), None);
    }
}

/// Snapshots of two handles that heard the same of different people are the same but for the handle's name and the
/// checksum; and one that is restored learns from everybody anew.
#[test]
fn a_snapshot_does_not_tell_who_came() {
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
    restored.snapshot().unwrap();
    let before = known(&restored);
    play(&restored, 0..3000);
    let after = known(&restored);
    play(&restored, 0..3000);
    assert!(before > 50.0 && after > before + 500.0 && known(&restored) == after, "{before} {after}");
}

/// Two worlds differ in all rewards of a user who comes sixty times and is learned from twice, in one batch: the loss
/// is epsilon at most. Where all are learned from it is more.
#[test]
fn all_that_one_user_answers_is_audited() {
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
                let decision = bandit.select_for(user).unwrap();
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
