//! Nothing allocates after construction: select, update, cancel, the ends of epochs included.

use dpb::counter::{Counter, CounterKind};
use dpb::shuffle::{Shuffler, encode};
use dpb::{Algorithm, Bandit, Clock, Config, Decision, Error, Pool, Seed};
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

/// Plays with slates, answers, cancellations, duplicates, bad rewards and silence; returns the phase.
fn play(bandit: &Bandit, rounds: u64) -> u32 {
    let mut phase = 0;
    for t in 0..rounds {
        let _ = bandit.advance(t / 1000 * 700 + t % 1000); // at times, nothing for 700, and then more at once
        let decision = bandit.select().unwrap();
        phase = decision.phase;
        if t % 8 == 0 {
            let eligible: Option<&[u32]> = if t % 16 == 0 { None } else { Some(&[4, 2, 4, 0]) };
            let mut slate = [0; 3];
            let each = |slot: usize, decision: Decision| slate[slot] = decision.ticket;
            if bandit.select_slate(eligible, 3, each).is_ok() {
                slate.iter().for_each(|&ticket| bandit.update(ticket, (t / 8 % 2) as f64).unwrap());
            }
        }
        if t % 512 == 5 {
            let _ = bandit.set_prior((t / 512 % 5) as u32, 0.25, 30.0);
        }
        let reward = f64::from(u8::from((t * 7 + u64::from(decision.arm)) % 5 > 1));
        let _ = match t % 16 {
            0 => bandit.cancel(decision.ticket),
            1 if t % 4096 == 1 => bandit.cancel_all(),
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
    for &algorithm in Algorithm::ALL {
        // In the local model silence would be a bit that nobody privatised: no window.
        let local = matches!(algorithm, Algorithm::LdpUcb | Algorithm::LdpKlUcb);
        let windows: &[(Clock, u32)] = match local {
            true => &[(Clock::Decisions, 0)],
            false => &[(Clock::Decisions, 0), (Clock::Decisions, 100), (Clock::Caller, 100)],
        };
        for &(clock, reward_window) in windows {
            let slates = reward_window > 0 && matches!(algorithm, Algorithm::Imed | Algorithm::KlUcb | Algorithm::Ts);
            // Policies that are pure take delta = 0, the others need one.
            let made = [0.0, 1e-6].map(|delta| {
                let config = Config {
                    delta,
                    horizon: 60_000,
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
                Bandit::new(algorithm, &config)
            });
            assert!(made.iter().any(|bandit| bandit.is_ok()), "{algorithm:?}: {:?}", made[1].as_ref().err());
            for bandit in made.iter().flatten() {
                let before = ALLOCATIONS.get();
                let phase = play(bandit, 60_000);
                let size = bandit.snapshot_within(0);
                assert!(matches!(size, Err(Error::BufferTooSmall { .. } | Error::Unsupported(_))), "{size:?}");
                assert_eq!(ALLOCATIONS.get() - before, 0, "{algorithm:?}, window {reward_window}");
                assert!(algorithm != Algorithm::Se || phase > 1, "no epoch ended");
            }
        }
    }
}

/// Segments that come included, batches that end, and what is forgotten.
#[test]
fn nothing_allocates_in_a_pool() {
    use Clock::{Caller, Decisions};
    for (clock, reward_window, memory) in
        [(Decisions, 0, 0), (Decisions, 100, 0), (Decisions, 0, 4096), (Caller, 100, 4096)]
    {
        let base = Config { clock, reward_window, forget_after: memory, pending_capacity: 256, ..Config::new(5, 1.0) };
        let pool = Pool::new(&Config { test_seed: Some([3; 32]), ..base.clone() }, 500).unwrap();
        // Some segments are known to others.
        let other = Pool::new(&base, 100).unwrap();
        for t in 0..10_000u64 {
            let decision = other.select(other.segment(t % 100).unwrap()).unwrap();
            other.update(decision.ticket, f64::from(u8::from(t % 5 == 0))).unwrap();
        }
        pool.merge(&other.snapshot().unwrap()).unwrap();
        let before = ALLOCATIONS.get();
        for t in 0..60_000u64 {
            let segment = pool.segment(t * t % 499).unwrap();
            let _ = pool.advance(t);
            if t % 512 == 7 {
                pool.set_prior((t / 512 % 5) as u32, 0.25, 30.0).unwrap();
            }
            let decision = match t % 8 {
                0 => pool.select_among(segment, &[1, 3]).unwrap(),
                1 => {
                    let mut last = None;
                    pool.select_many(&[0, segment], |decision| last = Some(decision)).unwrap();
                    last.unwrap()
                }
                _ => pool.select(segment).unwrap(),
            };
            let reward = f64::from(u8::from((t * 7 + u64::from(decision.arm)) % 5 > 1));
            let _ = match t % 16 {
                2 => pool.cancel(decision.ticket),
                3 if t % 4096 == 3 => pool.cancel_all(),
                3 => Ok(()),
                4 => pool.update(decision.ticket, 1.5),
                5 => pool.update_many([(decision.ticket, 1.0); 2].into_iter(), |_| ()),
                _ => pool.update(decision.ticket, reward),
            };
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "window {reward_window}, memory {memory}");
        let size = pool.snapshot_within(0);
        assert!(matches!(size, Err(Error::BufferTooSmall { .. })), "{size:?}");
        assert_eq!(ALLOCATIONS.get() - before, 0, "a size");
        let report = pool.report().unwrap();
        assert!(report.releases > 100 && report.segments > 200, "{report:?}");
    }
}

#[test]
fn counting_users_allocates_nothing_in_a_pool() {
    let config = Config { expected_users: 100, contributions_per_user: 3, ..Config::new(3, 1.0) };
    let pool = Pool::new(&config, 9).unwrap();
    let before = ALLOCATIONS.get();
    for t in 0..20_000 {
        let (user, segment) = (t * t % 1009, pool.segment(t % 9).unwrap());
        let decision = match t % 5 {
            0 => pool.select_among_for(segment, user, &[0, 2]),
            _ => pool.select_for(segment, user),
        };
        pool.update(decision.unwrap().ticket, f64::from(u8::from(t % 3 == 0))).unwrap();
        if t % 2000 == 1999 {
            pool.next_period().unwrap();
        }
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(pool.report().unwrap().releases > 10);
}

#[test]
fn counting_users_allocates_nothing() {
    let config = Config { expected_users: 100, contributions_per_user: 3, pending_capacity: 64, ..Config::new(3, 1.0) };
    for reward_window in [0, 20] {
        let bandit = Bandit::new(Algorithm::Imed, &Config { reward_window, ..config.clone() }).unwrap();
        let before = ALLOCATIONS.get();
        for t in 0..20_000 {
            let user = t * t % 1009 * (t % 3);
            let among = t % 5 == 0;
            let decision =
                if among { bandit.select_among_for(user, &[0, 2]) } else { bandit.select_for(user) }.unwrap();
            let _ = match t % 8 {
                0 => bandit.cancel(decision.ticket),
                1 => Ok(()),
                2 => bandit.update(decision.ticket, 1.0).and(bandit.update(decision.ticket, 1.0)),
                _ => bandit.update(decision.ticket, f64::from(u8::from(decision.arm == 1))),
            };
            if t % 4000 == 3999 {
                bandit.next_period().unwrap();
            }
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "window {reward_window}");
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
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}

#[test]
fn counters_allocate_nothing_either() {
    for kind in [CounterKind::Logarithmic, CounterKind::Binary, CounterKind::Hybrid] {
        let mut counter = Counter::new(kind, 1.0, 1 << 20, Some([1; 32])).unwrap();
        let before = ALLOCATIONS.with(Cell::get);
        (0..300_000).for_each(|_| counter.add(1.0).unwrap());
        assert_eq!(ALLOCATIONS.with(Cell::get), before, "{kind:?}");
        assert!((counter.read() - 3e5).abs() < 1e5 || kind == CounterKind::Logarithmic);
    }
}
