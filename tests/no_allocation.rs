//! Nothing allocates after construction: neither select, update and cancel nor the ends of epochs.

#[path = "support/requests.rs"]
mod requests;

use dpb::counter::{Counter, CounterKind};
use dpb::shuffle::{Shuffler, encode};
use dpb::{Algorithm, Bandit, Clock, Config, Decision, Error, Feature, Request, Rows, Seed};
use requests::in_segment;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: as our caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as our caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: as our caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const POSITIONS: Request = Request {
    slots: 2,
    examined: Some(&[0.7, 0.3]),
    eligible: None,
    values: None,
    costs: None,
    abstain: false,
    features: None,
    segment: 0,
    user: 0,
};

/// Makes decisions with several slots, rewards, cancellations, duplicates, invalid rewards and silence; returns the
/// phase.
fn play(bandit: &Bandit, rounds: u64) -> u32 {
    let mut phase = 0;
    for t in 0..rounds {
        let _ = bandit.advance(t / 1000 * 700 + t % 1000); // sometimes the time stands still
        let decision = bandit.select().unwrap();
        phase = decision.phase;
        if t % 8 == 0 {
            let eligible: Option<&[u32]> = if t % 16 == 0 { None } else { Some(&[4, 2, 4, 0]) };
            let mut slate = [0; 3];
            let each = |slot: usize, decision: Decision| slate[slot] = decision.ticket;
            if bandit.select_slots(&Request { slots: 3, eligible, ..Request::default() }, each).is_ok() {
                slate.iter().for_each(|&ticket| bandit.update(ticket, (t / 8 % 2) as f64).unwrap());
            }
        }
        if t % 8 == 4 {
            let values: &[f64] = if t % 16 == 4 { &[1.0, 2.0, 0.0, 1.0, 0.5] } else { &[0.5, 1.0] };
            let costs = (t % 32 >= 16).then_some(&[0.75, 0.125, 0.25, 2.0, 0.5][..values.len()]);
            let request = Request { values: Some(values), costs, abstain: t % 64 > 40, ..Request::default() };
            let eligible: Option<&[u32]> = if values.len() == 5 { None } else { Some(&[4, 2]) };
            if let Ok(decision) = bandit.select_for(&Request { eligible, ..request })
                && decision.arm != dpb::NO_ARM
            {
                bandit.update(decision.ticket, (t / 8 % 2) as f64).unwrap();
            }
        }
        if t % 8 == 6 {
            let mut pair = [0; 2];
            let each = |slot: usize, decision: Decision| pair[slot] = decision.ticket;
            if bandit.select_slots(&POSITIONS, each).is_ok() {
                pair.iter().for_each(|&ticket| bandit.update(ticket, (t / 8 % 2) as f64).unwrap());
            }
        }
        if t % 512 == 5 {
            let _ = bandit.set_prior((t / 512 % 5) as u32, 0.25, 30.0);
        }
        let reward = f64::from(u8::from((t * 7 + u64::from(decision.arm)) % 5 > 1));
        let _ = match t % 16 {
            0 => bandit.cancel(decision.ticket),
            1 if t % 4096 == 1 => bandit.cancel_all().and(bandit.skip(1)),
            1 => Ok(()),
            2 => bandit.update(decision.ticket, 1.5),
            3 => bandit.update(decision.ticket, 1.0).and(bandit.update(decision.ticket, 1.0)),
            _ => bandit.update(decision.ticket, reward),
        };
    }
    phase
}

#[test]
fn nothing_allocates_after_construction() {
    const ROUNDS: u64 = 20_000; // one in 4096 cancels all decisions
    for &algorithm in Algorithm::ALL.iter().filter(|&&algorithm| algorithm != Algorithm::Linear) {
        // The local model supports no window, because the device could not encode a missing reward.
        let local = matches!(algorithm, Algorithm::LdpUcb | Algorithm::LdpKlUcb);
        let windows: &[(Clock, u32)] = match local {
            true => &[(Clock::Decisions, 0)],
            false => &[(Clock::Decisions, 0), (Clock::Decisions, 100), (Clock::Caller, 100)],
        };
        for &(clock, reward_window) in windows {
            let slates = reward_window > 0 && algorithm == Algorithm::Imed;
            // Pure policies accept delta = 0; the others need a delta.
            let made = [0.0, 1e-6].map(|delta| {
                let config = Config {
                    delta,
                    horizon: ROUNDS,
                    reward_window,
                    clock,
                    max_slots: if slates { 3 } else { 0 },
                    max_clicks: u32::from(slates),
                    reward_bits: 0,
                    base: Algorithm::NonprivateUcb1 as u32,
                    pending_capacity: 256,
                    test_seed: Some([3; 32]),
                    ..Config::new(5, 1.0)
                };
                Bandit::new(algorithm, &algorithm.fit(&config))
            });
            assert!(made.iter().any(|bandit| bandit.is_ok()), "{algorithm:?}: {:?}", made[1].as_ref().err());
            for bandit in made.iter().flatten() {
                let _ = bandit.select_slots(&POSITIONS, |_, _| ()); // the first one reserves memory
                let before = ALLOCATIONS.get();
                let phase = play(bandit, ROUNDS);
                let size = bandit.snapshot_within(0);
                assert!(matches!(size, Err(Error::BufferTooSmall { .. } | Error::Unsupported(_))), "{size:?}");
                assert_eq!(ALLOCATIONS.get() - before, 0, "{algorithm:?}, window {reward_window}");
                assert!(algorithm != Algorithm::Se || phase > 1, "no epoch ended");
            }
        }
    }
}

/// Dense and sparse rows, refused requests, several slots, predictions, releases, models that forget.
#[test]
fn nothing_allocates_with_features() {
    const D: usize = 6;
    let plain = Config { features: D as u32, pending_capacity: 256, test_seed: Some([3; 32]), ..Config::new(5, 1.0) };
    let windowed = Config { reward_window: 100, max_slots: 3, max_clicks: 1, ..plain.clone() };
    for config in [
        plain.clone(),
        Config { forget_after: 4096, exploration: 0.1, ..plain.clone() },
        Config { max_slots: 3, ..plain },
        Config { clock: Clock::Caller, forget_after: 4096, ..windowed.clone() },
        windowed,
    ] {
        for model_per_arm in [false, true] {
            let config = Config { model_per_arm, ..config.clone() };
            let bandit = Bandit::new(Algorithm::Linear, &config).unwrap();
            let values: Vec<f32> =
                (0..1000 * D).map(|i| if i % 3 == 0 { (i % 7) as f32 / 4.0 - 0.5 } else { 0.0 }).collect();
            let entries: Vec<_> =
                (0..100).map(|i| Feature { index: i % D as u32, value: 1.0 + (i % 5) as f32 }).collect();
            let before = ALLOCATIONS.get();
            for t in 0..40_000usize {
                let _ = bandit.advance(t as u64);
                let eligible: Option<&[u32]> = if t % 3 == 0 { Some(&[4, 2, 4, 0]) } else { None };
                let rows = match eligible {
                    _ if model_per_arm => 1,
                    Some(arms) => arms.len(),
                    None => 5,
                };
                let ends = [2, 4, 4, 7, 9].map(|end: u32| end);
                let ends = &ends[..rows];
                let dense = Rows::Dense(&values[t % 900 * D..][..rows * D]);
                let sparse = Rows::Sparse(&entries[t % 90..][..ends[rows - 1] as usize], ends);
                let features = Some(if t % 4 == 0 { sparse } else { dense });
                let request = Request { slots: 1 + (t % 8 / 7 * 2) as u32, eligible, features, ..Request::default() };
                let (mut decisions, mut sum) = ([None; 3], 0.0);
                bandit.select_slots(&request, |slot, decision| decisions[slot] = Some(decision)).unwrap();
                if t % 16 == 0 {
                    bandit.predict(&request, |mean, deviation| sum += mean + deviation).unwrap();
                    bandit.feature_weights(0, |mean, deviation| sum += mean + deviation).ok();
                    assert!(sum.is_finite());
                }
                for decision in decisions.into_iter().flatten() {
                    let _ = match t % 16 {
                        0 => bandit.cancel(decision.ticket),
                        1 if t % 4096 == 1 => bandit.cancel_all().and(bandit.skip(1)),
                        1 => Ok(()),
                        _ => {
                            bandit.update(decision.ticket, f64::from(u8::from((t * 7 + decision.arm as usize) % 5 > 1)))
                        }
                    };
                }
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "{config:?}");
            let report = bandit.report().unwrap();
            assert!(report.phase > 10 && report.failures == 0, "{report:?}");
        }
    }
}

/// With private features, including releases of tables and the fading between them.
#[test]
fn nothing_allocates_with_private_features() {
    for (clock, forget_after, model_per_arm) in [(Clock::Decisions, 0, true), (Clock::Caller, 4096, false)] {
        let config = Config {
            clock,
            forget_after,
            model_per_arm,
            features: 2,
            private_features: true,
            codebook: Some(dpb::Codebook::axes(2).unwrap()),
            codebook_len: 4,
            reward_window: 20,
            pending_capacity: 64,
            test_seed: Some([3; 32]),
            ..Config::new(5, 4.0)
        };
        let bandit = Bandit::new(Algorithm::Linear, &config).unwrap();
        let before = ALLOCATIONS.get();
        for t in 0..20_000u64 {
            let _ = bandit.advance(t);
            let row: [f32; 10] = std::array::from_fn(|i| (t + i as u64) as f32 % 3.0 - 1.0);
            let rows = Rows::Dense(&row[..if model_per_arm { 2 } else { 10 }]);
            let decision = bandit.select_for(&Request { features: Some(rows), ..Request::default() }).unwrap();
            let _ = match t % 16 {
                0 => bandit.cancel(decision.ticket),
                1 => Ok(()),
                _ => bandit.update(decision.ticket, f64::from(u8::from((t + u64::from(decision.arm)) % 5 > 1))),
            };
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{config:?}");
        let report = bandit.report().unwrap();
        assert!(report.phase > 10 && report.failures == 0, "{report:?}");
    }
}

/// Including new segments, ends of batches, and forgetting.
#[test]
fn nothing_allocates_in_segments() {
    use Clock::{Caller, Decisions};
    for (clock, reward_window, memory, max_slots, exploration) in [
        (Decisions, 0, 0, 0, 0.0),
        (Decisions, 100, 0, 3, 0.1),
        (Decisions, 0, 4096, 0, 0.1),
        (Caller, 100, 4096, 3, 0.0),
    ] {
        let config = Config {
            clock,
            reward_window,
            forget_after: memory,
            pending_capacity: 256,
            test_seed: Some([3; 32]),
            max_segments: 500,
            max_slots,
            max_clicks: u32::from(max_slots > 0),
            exploration,
            ..Config::new(5, 1.0)
        };
        let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        // Other handles have released some of the segments.
        let config = Config { test_seed: None, max_segments: 100, ..config };
        let other = Bandit::new(Algorithm::Imed, &config).unwrap();
        for t in 0..10_000u64 {
            let decision = other.select_for(&in_segment(t % 100)).unwrap();
            other.update(decision.ticket, f64::from(u8::from(t % 5 == 0))).unwrap();
        }
        bandit.merge(&other.snapshot().unwrap()).unwrap();
        let before = ALLOCATIONS.get();
        for t in 0..60_000u64 {
            let request = in_segment(t * t % 499);
            let _ = bandit.advance(t);
            if t % 512 == 7 {
                bandit.set_prior((t / 512 % 5) as u32, 0.25, 30.0).unwrap();
            }
            let decision = match t % 8 {
                0 => bandit.select_for(&Request { eligible: Some(&[1, 3]), ..request }).unwrap(),
                2 => {
                    let slots = if max_slots == 0 { 4 } else { max_slots };
                    let eligible: Option<&[u32]> = if t % 16 == 2 { Some(&[4, 1, 0, 2, 2]) } else { None };
                    let mut last = None;
                    let request = Request { slots, eligible, ..request };
                    bandit.select_slots(&request, |_, decision| last = Some(decision)).unwrap();
                    last.unwrap()
                }
                1 => {
                    let (mut last, mut done) = (None, 0);
                    let requests = [in_segment(0), request].map(Ok);
                    bandit.select_many(requests, |_, decision| last = Some(decision), &mut done).unwrap();
                    last.unwrap()
                }
                _ => bandit.select_for(&request).unwrap(),
            };
            let reward = f64::from(u8::from((t * 7 + u64::from(decision.arm)) % 5 > 1));
            let _ = match t % 16 {
                2 => bandit.cancel(decision.ticket),
                3 if t % 4096 == 3 => bandit.cancel_all().and(bandit.skip(1)),
                3 => Ok(()),
                4 => bandit.update(decision.ticket, 1.5),
                5 => bandit.update_many([(decision.ticket, 1.0); 2].into_iter(), |_| ()),
                _ => bandit.update(decision.ticket, reward),
            };
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "window {reward_window}, memory {memory}");
        let size = bandit.snapshot_within(0);
        assert!(matches!(size, Err(Error::BufferTooSmall { .. })), "{size:?}");
        assert_eq!(ALLOCATIONS.get() - before, 0, "a size");
        let report = bandit.report().unwrap();
        assert!(report.phase > 100 && report.segments > 200, "{report:?}");
    }
}

/// With one slot and with several, and in segments.
#[test]
fn counting_users_allocates_nothing() {
    let config = Config { expected_users: 100, contributions_per_user: 3, pending_capacity: 64, ..Config::new(3, 1.0) };
    for (reward_window, max_slots, max_segments) in
        [(0, 0, 0), (20, 0, 0), (0, 2, 0), (20, 2, 0), (0, 0, 9), (20, 0, 9)]
    {
        let config = Config { reward_window, max_slots, max_segments, ..config.clone() };
        let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        let mut before = ALLOCATIONS.get();
        for t in 0..20_000 {
            let request = Request {
                slots: if t % 7 < 3 { max_slots.max(1) } else { 1 },
                segment: if max_segments > 0 { t % 9 } else { 0 },
                user: t * t % 1009 * (t % 3),
                eligible: (t % 5 == 0).then_some(&[0, 2]),
                ..Request::default()
            };
            let mut decisions = [None; 2];
            bandit.select_slots(&request, |slot, decision| decisions[slot] = Some(decision)).unwrap();
            for decision in decisions.into_iter().flatten() {
                let _ = match t % 8 {
                    0 => bandit.cancel(decision.ticket),
                    1 => Ok(()),
                    2 => bandit.update(decision.ticket, 1.0).and(bandit.update(decision.ticket, 1.0)),
                    _ => bandit.update(decision.ticket, f64::from(u8::from(decision.arm == 1))),
                };
            }
            if t % 4000 == 3999 {
                bandit.next_period().unwrap();
                let so_far = ALLOCATIONS.get();
                bandit.stored(&bandit.snapshot().unwrap()).unwrap();
                before += ALLOCATIONS.get() - so_far; // a snapshot does allocate
            }
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{config:?}");
        assert!(bandit.report().unwrap().phase > 10);
    }
}

#[test]
fn nothing_allocates_in_the_shuffle_roles() {
    let config = Config { delta: 1e-6, horizon: 60_000, ..Config::new(2, 1.0) };
    let bandit = Bandit::new(Algorithm::VbSdpAe, &config).unwrap();
    let params: Vec<_> = (1..=8).map(|phase| bandit.shuffle_params(phase).unwrap()).collect();
    let mut shufflers: Vec<_> = params.iter().map(|&params| Shuffler::new(params, None).unwrap()).collect();
    let mut random = Seed::new(None).unwrap().stream();
    let mut bits = vec![0; 10_000];
    let before = ALLOCATIONS.get();
    for (phase, (params, shuffler)) in (1..).zip(params.iter().zip(&mut shufflers)) {
        for arm in 0..2 {
            for _ in 0..params.users() {
                let len = encode(params, 0.5, &mut random, &mut bits).unwrap();
                shuffler.push(&bits[..len]).unwrap();
            }
            let len = shuffler.take(&mut bits).unwrap();
            bandit.submit_shuffled(phase, arm, &bits[..len]).unwrap();
        }
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert_eq!(bandit.report().unwrap().phase, 9);
}

#[test]
fn the_counting_allocator_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}

#[test]
fn counters_allocate_nothing() {
    for kind in [CounterKind::Logarithmic, CounterKind::Binary, CounterKind::Hybrid] {
        let mut counter = Counter::new(kind, 1.0, 1 << 20, Some([1; 32])).unwrap();
        let before = ALLOCATIONS.with(Cell::get);
        (0..300_000).for_each(|_| counter.add(1.0).unwrap());
        assert_eq!(ALLOCATIONS.with(Cell::get), before, "{kind:?}");
        assert!((counter.read() - 3e5).abs() < 1e5 || kind == CounterKind::Logarithmic);
    }
}

/// Recorded decisions, their repeats and what finds them, also while old ids are forgotten.
#[test]
fn recorded_decisions_allocate_nothing() {
    for (clock, reward_window) in [(Clock::Decisions, 0), (Clock::Decisions, 100), (Clock::Caller, 100)] {
        let config = Config { clock, reward_window, table_capacity: 300, pending_capacity: 128, ..Config::new(5, 1.0) };
        let bandit = Bandit::new(Algorithm::Med, &config).unwrap();
        let _ = bandit.advance(1000);
        let (before, mut recorded, mut refused) = (ALLOCATIONS.get(), 0, 0);
        let mut version = bandit.table_begin(0).unwrap();
        for id in 0..20_000 {
            let _ = bandit.advance(1000 + id);
            if id % 70 == 0 {
                version = bandit.table_begin(30).unwrap();
            }
            let request = Request { eligible: Some(&[3]), ..Request::default() };
            match bandit.record(version, id, &request) {
                Ok(decision) => {
                    assert_eq!(bandit.record(version, id, &request).unwrap().ticket, decision.ticket);
                    let found = bandit.find(version, id).unwrap().ticket;
                    assert!(id % 3 > 0 || bandit.update(found, 1.0).is_ok());
                    recorded += 1;
                }
                Err(_) => refused += 1,
            }
            let _ = bandit.find(version, id + 1);
        }
        assert_eq!((ALLOCATIONS.get() - before, recorded, refused), (0, 20_000, 0));
    }
}
