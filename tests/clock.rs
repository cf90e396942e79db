//! The caller's clock: windows of time, forgetting by time, and time over restarts and in fleets.

use crate::audit::sabotage::with_fault;
use crate::interference::handle::Subject;
use crate::support::coins::Coins;
use crate::support::requests::in_segment;
use dpb::{Algorithm, Bandit, Clock, Config, Error, Fault};

/// A day of milliseconds.
const DAY: u64 = 86_400_000;
/// A time of day.
const EPOCH: u64 = 1_790_000_000_000;

fn of_time(reward_window: u32, forget_after: u64) -> Config {
    let test_seed = Some([7; 32]);
    Config { clock: Clock::Caller, reward_window, forget_after, node: 7, test_seed, ..Config::new(3, 1.0) }
}

/// (answered, expired, pending)
fn counts(bandit: &Bandit) -> (u64, u64, u64) {
    let counts = bandit.report().unwrap().counts;
    (counts.answered, counts.expired, counts.pending())
}

/// A reward takes effect half an hour after its decision, even without traffic, and no later reward is accepted.
#[test]
fn a_window_ends_at_its_time() {
    let window = 1_800_000;
    let bandit = Bandit::new(Algorithm::Imed, &of_time(window, 0)).unwrap();
    let early = bandit.select().unwrap(); // before the first advance the time is 0
    bandit.advance(EPOCH).unwrap();
    assert_eq!(counts(&bandit), (1, 0, 0));
    assert_eq!(bandit.update(early.ticket, 1.0), Err(Error::Expired));
    let [clicked, silent] = [bandit.select(), bandit.select()].map(|decision| decision.unwrap().ticket);
    bandit.advance(EPOCH + 1).unwrap();
    let later = bandit.select().unwrap().ticket;
    bandit.update(clicked, 1.0).unwrap();
    assert_eq!(bandit.update(clicked, 1.0), Err(Error::Duplicate));
    bandit.advance(EPOCH + u64::from(window) - 1).unwrap();
    assert_eq!(counts(&bandit), (1, 0, 3));
    // A slightly earlier time changes nothing.
    bandit.advance(EPOCH - 1).unwrap();
    assert_eq!(counts(&bandit), (1, 0, 3));
    bandit.advance(EPOCH + u64::from(window)).unwrap();
    assert_eq!(counts(&bandit), (3, 0, 1));
    for ticket in [clicked, silent] {
        assert_eq!(bandit.update(ticket, 1.0), Err(Error::Expired));
        assert_eq!(bandit.cancel(ticket), Err(Error::Expired));
    }
    bandit.update(later, 1.0).unwrap();
    bandit.advance(u64::MAX).unwrap();
    assert_eq!(counts(&bandit), (4, 0, 0));
    // The end of time: a decision made now waits for ever, or until the ring needs its place.
    let last = bandit.select().unwrap().ticket;
    bandit.advance(u64::MAX).unwrap();
    assert_eq!(counts(&bandit), (4, 0, 1));
    bandit.cancel(last).unwrap();
}

/// The longest possible window takes no more memory. If `pending_capacity` is full, the oldest decision expires, with
/// or without a reward.
#[test]
fn a_window_of_time_does_not_size_the_ring() {
    let config = Config { pending_capacity: 4, ..of_time(u32::MAX, 0) };
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    bandit.advance(EPOCH).unwrap();
    let tickets: Vec<_> = (0..4).map(|_| bandit.select().unwrap().ticket).collect();
    bandit.update(tickets[0], 1.0).unwrap();
    assert_eq!(counts(&bandit), (0, 0, 4));
    bandit.select().unwrap();
    bandit.select().unwrap();
    assert_eq!(counts(&bandit), (0, 2, 4));
    assert_eq!(bandit.update(tickets[0], 1.0), Err(Error::Expired));
    assert_eq!(bandit.update(tickets[1], 1.0), Err(Error::Expired));
    let pulls = bandit.arm_reports().unwrap().iter().map(|arm| arm.pulls).sum::<u64>();
    assert_eq!(pulls, 4, "what expired was not played");
    bandit.advance(EPOCH + u64::from(u32::MAX)).unwrap();
    assert_eq!(counts(&bandit), (4, 2, 0));
}

/// With decisions as ticks, `advance` is refused, and the ring bounds the window.
#[test]
fn a_handle_without_a_clock_refuses_advance() {
    let bandit = Bandit::new(Algorithm::Imed, &Config { reward_window: 10, ..Config::new(3, 1.0) }).unwrap();
    let says = bandit.advance(5).unwrap_err().to_string();
    assert!(says.contains("config.clock counts decisions"), "{says}");
    let bandit = Bandit::new(Algorithm::Imed, &Config { max_segments: 2, ..Config::new(3, 1.0) }).unwrap();
    assert!(matches!(bandit.advance(5), Err(Error::Unsupported(_))));
    let long = Config { clock: Clock::Decisions, ..of_time((1 << 24) + 1, 0) };
    let says = Bandit::new(Algorithm::Imed, &long).err().unwrap().to_string();
    assert!(says.starts_with("reward_window must be at most 2^24 where clock counts decisions"), "{says}");
}

/// Makes this many decisions for one arm, one each tick, with rewards.
fn learn(bandit: &Bandit, now: &mut u64, decisions: u64) {
    let mut coins = Coins(decisions);
    for _ in 0..decisions {
        *now += 1;
        bandit.advance(*now).unwrap();
        let decision = bandit.select().unwrap();
        let reward = coins.toss(0.5);
        bandit.update(decision.ticket, reward).unwrap();
    }
}

fn known(bandit: &Bandit) -> f64 {
    bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum()
}

fn known_in(bandit: &Bandit) -> f64 {
    let mut known = 0.0;
    bandit.for_each_arm_in(5, |_, cell| known += cell.effective_pulls).unwrap();
    known
}

/// Releases age by the clock, with or without decisions. They begin to fade after half of `forget_after`, and are gone
/// after all of it. This holds for years without decisions, and for exactly as many ticks as an age can count.
#[test]
fn evidence_ages_by_the_clock() {
    for algorithm in [Algorithm::Imed, Algorithm::Med] {
        let bandit = Bandit::new(algorithm, &of_time(0, 100 * DAY)).unwrap();
        let mut now = EPOCH;
        learn(&bandit, &mut now, 5000);
        let fresh = known(&bandit);
        assert!(fresh > 2000.0, "{fresh}");
        for (days, part) in [(50, 1.0), (75, 0.5), (90, 0.2), (101, 0.0)] {
            bandit.advance(now + days * DAY).unwrap();
            assert!((known(&bandit) - part * fresh).abs() <= 0.01 * fresh, "{algorithm:?} {days}");
        }
        // What is learned after everything was forgotten counts in full.
        now += 101 * DAY;
        learn(&bandit, &mut now, 20_000); // batches that were open before take some of these
        assert!(known(&bandit) > 2000.0);
    }
    for ticks in [1 << 22, 1 << 31, 1 << 32] {
        let bandit = Bandit::new(Algorithm::Imed, &of_time(0, 1024)).unwrap();
        let mut now = 3;
        learn(&bandit, &mut now, 200);
        assert!(known(&bandit) > 0.0);
        (0..ticks >> 14).for_each(|step| bandit.advance(now + ((step + 1) << 14)).unwrap());
        assert_eq!((known(&bandit), bandit.report().unwrap().clock_leaps), (0.0, 0), "{ticks}");
    }
}

/// A clock that is a year ahead for a while, or that was so when the handle that a restored one continues from was
/// saved: nothing is forgotten, and learning continues. The report counts the leaps.
#[test]
fn a_wrong_time_does_not_stop_learning() {
    const YEAR: u64 = 365 * DAY;
    for (window, memory) in [(1000, 7 * DAY), (0, 7 * DAY), (1000, 0)] {
        let config = Config { max_segments: 0, ..of_time(window, memory) };
        let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        let mut now = EPOCH;
        learn(&bandit, &mut now, 5000);
        let before = known(&bandit);
        bandit.advance(now + YEAR).unwrap();
        let saved = bandit.snapshot().unwrap();
        let as_before = Bandit::restore_as(Algorithm::Imed, &config, &saved).unwrap();
        for (bandit, leaps) in [(bandit, 1 + u64::from(memory > 0)), (as_before, 1)] {
            assert!(known(&bandit) >= before, "{} {before}", known(&bandit));
            let (mut now, answered) = (now, counts(&bandit).0);
            learn(&bandit, &mut now, 20_000);
            assert!(counts(&bandit).0 >= answered + 18_000, "{:?}", counts(&bandit));
            assert!(known(&bandit) > before + 5000.0);
            assert_eq!(bandit.report().unwrap().clock_leaps, leaps);
        }
    }
}

/// What has ended and is known by its last snapshot fades, also if other handles' snapshots are merged after it.
#[test]
fn a_merge_revives_nothing() {
    let mut tried = 0;
    for kind in Subject::FLEETS {
        let handle = |node| {
            let test_seed = Some([node as u8; 32]);
            kind.make(&Config { node, test_seed, arms: 5, features: 2, ..of_time(0, 100_000) })
        };
        // (Two policies cannot forget.)
        let [Ok(ended), Ok(live), Ok(bandit)] = [1, 2, 3].map(handle) else { continue };
        tried += 1;
        let (mut coins, mut now) = (Coins(6), EPOCH);
        for _ in 0..6000 {
            now += 1;
            for handle in [&ended, &live] {
                handle.advance(now).unwrap();
                kind.decide(handle, &mut coins, |_, coins| coins.toss(0.3));
            }
        }
        // dp-linear's effective pulls are those of its model, which arms may share.
        let known = |bandit: &Bandit| match kind {
            Subject::Policy(Algorithm::Linear) => bandit.arm_reports().unwrap()[0].effective_pulls,
            _ => known(bandit),
        };
        bandit.advance(now).unwrap();
        bandit.merge(&ended.snapshot().unwrap()).unwrap();
        assert!(known(&bandit) > 1000.0, "{kind:?}: {}", known(&bandit));
        for step in 1..9 {
            let time = now + 100_000 * step;
            [&bandit, &live].into_iter().for_each(|handle| handle.advance(time).unwrap());
            kind.decide(&live, &mut coins, |_, coins| coins.toss(0.3));
            bandit.merge(&live.snapshot().unwrap()).unwrap();
            // A 16th is left after all of forget_after with features and in segments.
            let most = known(&live) + 6000.0 * 16f64.powi(-(step as i32)) + 1.0;
            assert!(known(&bandit) <= most, "{kind:?}, {step}: {} beside {}", known(&bandit), known(&live));
        }
    }
    assert_eq!(tried, 6);
}

/// In segments, evidence halves four times in `forget_after`.
#[test]
fn segments_forget_by_the_clock() {
    let bandit = Bandit::new(Algorithm::Imed, &Config { max_segments: 2, ..of_time(0, 100 * DAY) }).unwrap();
    let mut now = EPOCH;
    for t in 0..20_000u64 {
        now += 1;
        bandit.advance(now).unwrap();
        let decision = bandit.select_for(&in_segment(5)).unwrap();
        bandit.update(decision.ticket, f64::from(u8::from(t % 3 == 0))).unwrap();
    }
    let fresh = known_in(&bandit);
    assert!(fresh > 1000.0);
    bandit.advance(now + 25 * DAY).unwrap();
    assert!((known_in(&bandit) - fresh / 2.0).abs() < 0.01 * fresh);
    let restored = Bandit::restore(&bandit.snapshot().unwrap()).unwrap();
    assert!((known_in(&restored) - fresh / 2.0).abs() < 0.01 * fresh);
    restored.advance(now + 50 * DAY).unwrap();
    assert!((known_in(&restored) - fresh / 4.0).abs() < 0.01 * fresh);
    // With the other clock, ages keep their fraction of forget_after.
    let counted = Config { clock: Clock::Decisions, forget_after: 50_000, max_segments: 2, ..of_time(0, 0) };
    let next = Bandit::restore_as(Algorithm::Imed, &counted, &restored.snapshot().unwrap()).unwrap();
    assert!((known_in(&next) - fresh / 4.0).abs() < 0.01 * fresh);
    let back = Bandit::restore_as(
        Algorithm::Imed,
        &Config { max_segments: 2, ..of_time(0, 10 * DAY) },
        &next.snapshot().unwrap(),
    )
    .unwrap();
    [1, 1 + 5 * DAY / 2].into_iter().for_each(|time| back.advance(time).unwrap());
    assert!((known_in(&back) - fresh / 8.0).abs() < 0.01 * fresh);
}

/// A restored handle continues at the time and with the ages of its snapshot.
#[test]
fn a_restored_handle_keeps_its_time() {
    let config = of_time(1000, 100 * DAY);
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    let mut now = EPOCH;
    learn(&bandit, &mut now, 5000);
    now += 1000;
    bandit.advance(now).unwrap(); // so that no reward takes effect after the leap
    bandit.advance(now + 60 * DAY).unwrap();
    let fresh = known(&bandit) / 0.8;
    let restored = Bandit::restore(&bandit.snapshot().unwrap()).unwrap();
    assert_eq!(known(&restored), known(&bandit));
    // The time is a little earlier than the snapshot's: decisions keep the snapshot's time.
    restored.advance(now + 60 * DAY - 3).unwrap();
    assert_eq!(known(&restored), known(&bandit));
    restored.select().unwrap();
    let before = counts(&restored).0;
    restored.advance(now + 60 * DAY + 999).unwrap();
    assert_eq!(counts(&restored).0, before);
    restored.advance(now + 60 * DAY + 1000).unwrap();
    assert_eq!(counts(&restored).0, before + 1);
    restored.advance(now + 80 * DAY).unwrap();
    assert!((known(&restored) - 0.4 * fresh).abs() < 0.01 * fresh);
    // With the clock of decisions the same fraction of forget_after remains, and again after the way back.
    let counted = Config { clock: Clock::Decisions, forget_after: 100_000, ..config.clone() };
    let next = Bandit::restore_as(Algorithm::Imed, &counted, &restored.snapshot().unwrap()).unwrap();
    assert_eq!(known(&next), known(&restored));
    let weeks = of_time(0, 700_000_000);
    let back = Bandit::restore_as(Algorithm::Imed, &weeks, &next.snapshot().unwrap()).unwrap();
    assert_eq!(known(&back), known(&restored));
    back.advance(5).unwrap();
    back.advance(5 + 70_000_000).unwrap(); // a tenth of forget_after
    assert!((known(&back) - 0.2 * fresh).abs() < 0.01 * fresh);
}

/// A clock that was never set shows no time: what it shows first after a restart is no leap.
#[test]
fn a_clock_that_was_never_set_continues_at_any_time() {
    let leaps = || {
        let bandit = Bandit::new(Algorithm::Imed, &of_time(1000, 100 * DAY)).unwrap();
        bandit.select().unwrap();
        let restored = Bandit::restore(&bandit.snapshot().unwrap()).unwrap();
        restored.advance(EPOCH).unwrap();
        restored.report().unwrap().clock_leaps
    };
    assert_eq!((leaps(), with_fault(Fault::TimeZeroCounts, leaps)), (0, 1));
}

/// A release of another handle has the age that it had when its snapshot was taken, whatever the two clocks show.
#[test]
fn merged_releases_keep_their_age() {
    let config = of_time(0, 100 * DAY);
    let theirs = Bandit::new(Algorithm::Imed, &config).unwrap();
    let mut now = EPOCH;
    learn(&theirs, &mut now, 5000);
    theirs.advance(now + 60 * DAY).unwrap();
    let fresh = known(&theirs) / 0.8;
    let ours = Bandit::new(Algorithm::Imed, &Config { node: 8, ..config }).unwrap();
    ours.advance(12).unwrap();
    ours.merge(&theirs.snapshot().unwrap()).unwrap();
    assert!((known(&ours) - 0.8 * fresh).abs() < 0.01 * fresh);
    ours.advance(12 + 20 * DAY).unwrap();
    assert!((known(&ours) - 0.4 * fresh).abs() < 0.01 * fresh);
    // A later snapshot is newer even if only time has passed; an earlier one changes nothing.
    let earlier = theirs.snapshot().unwrap();
    theirs.advance(now + 90 * DAY).unwrap();
    ours.merge(&theirs.snapshot().unwrap()).unwrap();
    assert!((known(&ours) - 0.2 * fresh).abs() < 0.01 * fresh);
    ours.merge(&earlier).unwrap();
    assert!((known(&ours) - 0.2 * fresh).abs() < 0.01 * fresh);
}

/// The best arm becomes the worst. A handle that forgets adapts, at ten decisions a tick and at one in a hundred ticks.
#[test]
fn forgetting_by_the_clock_follows_a_change() {
    for (per_tick, ticks_each) in [(10, 1), (1, 100)] {
        let memory = 100_000 * ticks_each / per_tick;
        let bandit = Bandit::new(Algorithm::Imed, &of_time(0, memory)).unwrap();
        let (mut coins, mut now, mut lost) = (Coins(4), EPOCH, 0.0);
        for t in 0..400_000u64 {
            if t % per_tick == 0 {
                now += ticks_each;
                bandit.advance(now).unwrap();
            }
            let means = if t < 200_000 { [0.7, 0.5, 0.3] } else { [0.3, 0.5, 0.7] };
            let decision = bandit.select().unwrap();
            let mean = means[decision.arm as usize];
            lost += if t < 200_000 { 0.0 } else { 0.7 - mean };
            bandit.update(decision.ticket, coins.toss(mean)).unwrap();
        }
        assert!(lost < 8000.0, "{per_tick}: {lost}");
    }
}
