//! Memory is as documented, within a tenth. It is fixed when a handle is made. If there is too little, the call returns
//! a status.

#[path = "support/requests.rs"]
mod requests;

use dpb::counter::{Counter, CounterKind};
use dpb::shuffle::{Params, Shuffler};
use dpb::{Algorithm, Bandit, Clock, Config, Error, Request, Rows};
use requests::{Ask, fitted, in_segment};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// The system's allocator, extended: it counts the bytes that this thread holds, and can refuse an allocation.
struct Ledger;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    /// How many large allocations succeed before one is refused; negative for no limit.
    static PASS: Cell<i64> = const { Cell::new(-1) };
}

/// Allocations of at least this size grow with a handle's configuration.
const LARGE: usize = 1 << 14;

impl Ledger {
    fn grants(&self, size: usize) -> bool {
        size < LARGE || PASS.replace(PASS.get() - i64::from(PASS.get() >= 0)) != 0
    }
}

// SAFETY: passes everything on to the system's allocator, or refuses it.
unsafe impl GlobalAlloc for Ledger {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !self.grants(layout.size()) {
            return std::ptr::null_mut();
        }
        HELD.set(HELD.get() + layout.size() as i64);
        // SAFETY: as our caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as i64);
        // SAFETY: as our caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Ledger = Ledger;

/// Runs this with each of its large allocations refused in turn, which must give `NoMemory`. Returns the final result,
/// and how often it was refused.
fn starved<T>(run: impl Fn() -> Result<T, Error>) -> (T, u32) {
    for refused in 0.. {
        PASS.set(refused.into());
        let result = run();
        let spared = PASS.replace(-1) >= 0;
        match result {
            Ok(value) if spared => return (value, refused),
            Ok(_) => panic!("it went on without its memory"),
            Err(error) => assert_eq!(error, Error::NoMemory),
        }
    }
    unreachable!()
}

/// A configuration that this policy accepts.
fn config(algorithm: Algorithm, arms: u32, pending_capacity: u32) -> Config {
    let base = Algorithm::NonprivateExp3 as u32;
    let arms = if algorithm == Algorithm::TopTwo { arms.min(256) } else { arms };
    let config =
        |delta| fitted(algorithm, Config { delta, horizon: 1 << 20, pending_capacity, base, ..Config::new(arms, 1.0) });
    let takes = |delta| Bandit::new(algorithm, &config(delta)).is_ok();
    config(if takes(0.0) { 0.0 } else { 1e-6 })
}

/// The first request with positions takes 2 bytes for each open decision, or returns a status and changes nothing.
#[test]
fn positions_take_memory_once() {
    let bandit = Bandit::new(Algorithm::Imed, &config(Algorithm::Imed, 4, 1 << 13)).unwrap();
    let request = Request { examined: Some(&[0.5]), ..Request::default() };
    let held = HELD.get();
    assert_eq!(starved(|| bandit.select_for(&request)).1, 1);
    assert!((16_384..17_000).contains(&(HELD.get() - held)), "{}", HELD.get() - held);
    assert_eq!((starved(|| bandit.select_for(&request)).1, bandit.report().unwrap().counts.decisions), (0, 2));
}

#[test]
fn every_refused_allocation_is_a_status() {
    for &algorithm in Algorithm::ALL {
        let (config, held) = (config(algorithm, 4000, 4096), HELD.get());
        let arms = config.arms;
        let (bandit, refused) = starved(|| Bandit::new(algorithm, &config));
        assert!(refused >= 2, "{algorithm:?}: {refused}");
        let grows = bandit.ask_for(&Request { eligible: Some(&[0]), ..Request::default() }).is_ok();
        if grows && algorithm != Algorithm::TopTwo {
            assert!(starved(|| bandit.add_arm()).1 >= 2);
            assert_eq!(bandit.arms(), Ok(arms + 1));
        }
        if bandit.snapshot().is_ok() {
            let (bytes, refused) = starved(|| bandit.snapshot());
            let large = bytes.len() >= LARGE; // dp-tt has at most 256 arms
            assert_eq!(refused, u32::from(large), "{algorithm:?}: its size is known before");
            let (restored, refused) = starved(|| Bandit::restore(&bytes));
            assert!(refused >= 2 && restored.arms() == bandit.arms(), "{algorithm:?}: {refused}");
        }
        drop(bandit);
        assert_eq!(HELD.get(), held, "{algorithm:?}: a refusal has left something");
        // A contribution that was refused is still there. (With features, that of the pilot is small.)
        let shared = Config { fleet_key: Some([7; 32].into()), ..config };
        if let (Ok(leader), Ok(other)) = (Bandit::new(algorithm, &shared), Bandit::new(algorithm, &shared))
            && algorithm != Algorithm::Linear
            && let Ok(generation) = leader.lead()
        {
            other.contribution(generation).unwrap();
            for arm in 0..arms {
                let request = Request { eligible: Some(&[arm]), ..Request::default() };
                other.update(other.select_for(&request).unwrap().ticket, 1.0).unwrap();
            }
            let (sealed, refused) = starved(|| other.contribution(generation));
            let large = u32::from(sealed.len() >= LARGE);
            assert!(
                refused == large && sealed.len() > 20 * arms as usize,
                "{algorithm:?}: {refused}, {}",
                sealed.len()
            );
            assert!(starved(|| leader.combine(&sealed)).1 >= large, "{algorithm:?}");
            assert!(leader.arm_reports().unwrap().iter().all(|arm| arm.effective_pulls == 1.0), "{algorithm:?}");
        }
    }
    let (config, held) = (Config { max_segments: 3000, ..Config::new(20, 1.0) }, HELD.get());
    let (bandit, refused) = starved(|| Bandit::new(Algorithm::Imed, &config));
    assert!(refused >= 6, "{refused}");
    (0..3000).for_each(|key| _ = bandit.select_for(&in_segment(key * key)).unwrap());
    let (bytes, refused) = starved(|| bandit.snapshot());
    assert_eq!(refused, 1, "its size is known before");
    let (restored, refused) = starved(|| Bandit::restore(&bytes));
    assert!(refused >= 6 && restored.report().unwrap().segments == 3000, "{refused}");
    let other = Bandit::new(Algorithm::Imed, &config).unwrap();
    let ((), refused) = starved(|| other.merge(&bytes));
    assert!(refused >= 6, "{refused}");
    drop((bandit, bytes, restored, other));
    assert_eq!(HELD.get(), held, "a refusal has left something");
    let plan = Params::new(1.0, 1e-6, 100_000, false).unwrap();
    assert_eq!(starved(|| Shuffler::new(plan, None)).1, 1);
    for kind in [CounterKind::Logarithmic, CounterKind::Binary, CounterKind::Hybrid] {
        let before = HELD.get();
        let (_counter, refused) = starved(|| Counter::new(kind, 1.0, 1 << 37, None));
        assert!(refused == 0 && HELD.get() - before < 4096, "small whatever the horizon");
    }
}

/// The documented bytes: a + b K + c P for K arms, where P is the larger of pending_capacity and a window in decisions,
/// rounded up to a power of two. A window adds d P, and a window on the caller's clock e P.
struct Formula {
    fixed: f64,
    arm: f64,
    slot: f64,
    held: f64,
    stamp: f64,
}

impl Formula {
    fn of(algorithm: Algorithm, base: Algorithm) -> Formula {
        let page = include_str!("../docs/reference/policies.md");
        let number = |after| page.split(after).nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let (slot, held) = (number("| always | "), number("| with a `reward_window` | "));
        let stamp = number("| ... on the caller's clock | ");
        let costs = page.split("## What a call costs").nth(1).unwrap();
        let row =
            costs.lines().find(|row| row.starts_with('|') && row.contains(&format!("`{}`", algorithm.name()))).unwrap();
        let told = row.split('|').nth(4).unwrap();
        let mut formula = Formula { fixed: 0.0, arm: 0.0, slot, held, stamp };
        for term in told.split(',').next().unwrap().split('+') {
            let (number, of) = term.trim().split_once(' ').unwrap_or((term.trim(), ""));
            *match of {
                "K" => &mut formula.arm,
                "P" => &mut formula.slot,
                _ => &mut formula.fixed,
            } += number.parse::<f64>().unwrap();
        }
        if told.contains("the base's") {
            let beside = Formula::of(base, base);
            formula.fixed += beside.fixed;
            formula.arm += beside.arm;
        }
        formula
    }

    fn bytes(&self, config: &Config) -> f64 {
        let counted = if config.clock == Clock::Decisions { config.reward_window } else { 0 };
        let slots = f64::from(config.pending_capacity.max(counted).next_power_of_two());
        let held = if config.reward_window > 0 { self.held } else { 0.0 };
        let slot = self.slot + held + if config.reward_window > counted { self.stamp } else { 0.0 };
        self.fixed + self.arm * f64::from(config.arms) + slot * slots
    }
}

#[test]
fn memory_is_what_is_documented() {
    let Formula { fixed, arm, slot, held, stamp } = Formula::of(Algorithm::RECOMMENDED, Algorithm::RECOMMENDED);
    let header = header();
    assert!(header.contains(&format!("about {fixed} + {arm} K + {slot} P bytes")));
    assert!(header.contains(&format!("{held} P more with a reward_window, and")));
    assert!(header.contains(&format!("{stamp} P more with one on the caller's clock")));
    for &algorithm in Algorithm::ALL.iter().filter(|&&algorithm| algorithm != Algorithm::Linear) {
        let formula = Formula::of(algorithm, Algorithm::NonprivateExp3);
        for (arms, capacity, window, clock) in [
            (2, 1, 0, Clock::Decisions),
            (10, 64, 0, Clock::Decisions),
            (10, 5000, 0, Clock::Decisions),
            (100, 64, 300, Clock::Decisions),
            (1000, 4096, 0, Clock::Decisions),
            (1000, 1, 1, Clock::Decisions),
            (900, 100_000, 0, Clock::Decisions),
            (100, 4096, 1 << 30, Clock::Caller),
            (100, 4096, 0, Clock::Caller),
        ] {
            let config = Config { reward_window: window, clock, ..config(algorithm, arms, capacity) };
            let before = HELD.get();
            let Ok(bandit) = Bandit::new(algorithm, &config).map(Box::new) else {
                assert!(window > 0, "{config:?}"); // the local model supports no window
                continue;
            };
            let (took, told) = ((HELD.get() - before) as f64, formula.bytes(&config));
            assert!((took - told).abs() <= 0.1 * told + 512.0, "{algorithm:?}: {took} bytes, {told} told");
            // The handle's memory does not grow afterwards, except by added arms, with up to twice as much for each.
            for _ in 0..500 {
                bandit.update(bandit.ask().unwrap().ticket, 1.0).unwrap();
            }
            assert_eq!((HELD.get() - before) as f64, took);
            let mut added = 0;
            while added < 200 && bandit.add_arm().is_ok() {
                added += 1;
            }
            let (took, told) = ((HELD.get() - before) as f64, told + formula.arm * f64::from(arms + 2 * added));
            assert!(
                added == 0 || took <= 1.1 * told + 512.0,
                "{algorithm:?}: {took} bytes with {added} arms more, {told} told"
            );
        }
    }
}

/// The header's comments as one line.
fn header() -> String {
    let header = include_str!("../include/dpb.h").split([' ', '*', '\n']).filter(|word| !word.is_empty());
    header.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_memory_of_models_is_what_is_documented() {
    let header = header();
    assert!(header.contains("about 66 K + (20 M + 32) D^2 + (810 M + 2150) (D + 3) + (2 D + 14) P bytes"));
    for (arms, d, per_arm, capacity, window) in [
        (2, 1, false, 1, 0),
        (10, 16, true, 64, 0),
        (100, 16, false, 4096, 0),
        (20, 64, false, 64, 300),
        (5, 128, true, 64, 0),
        (1000, 2, true, 64, 0),
        (10_000, 10, false, 64, 0),
    ] {
        let config = Config {
            features: d,
            model_per_arm: per_arm,
            reward_window: window,
            pending_capacity: capacity,
            ..Config::new(arms, 1.0)
        };
        let before = HELD.get();
        let bandit = Box::new(Bandit::new(Algorithm::Linear, &config).unwrap());
        let took = (HELD.get() - before) as f64;
        let [k, m, d] = [arms, if per_arm { arms } else { 1 }, d + 1].map(f64::from);
        let p = f64::from(capacity.max(window).next_power_of_two());
        let slot = 2.0 * (d - 1.0) + if window > 0 { 20.0 } else { 16.0 };
        let told = 66.0 * k + (20.0 * m + 32.0) * d * d + (810.0 * m + 2150.0) * (d + 3.0) + slot * p;
        assert!((took - told).abs() <= 0.1 * told + 512.0, "{config:?}: {took} bytes, {told} told");
        // The handle's memory does not grow afterwards.
        let row = vec![0.5; config.features as usize * if per_arm { 1 } else { arms as usize }];
        let request = Request { features: Some(Rows::Dense(&row)), ..Request::default() };
        // (The pilot's own memory is freed with its last release.)
        let held = HELD.get();
        for _ in 0..300 {
            bandit.update(bandit.select_for(&request).unwrap().ticket, 1.0).unwrap();
        }
        assert!(HELD.get() <= held);
        drop(bandit);
    }
}

/// Fixed at construction, whatever number of segments begins: 17 MB for 10,000 segments of 20 arms.
#[test]
fn the_memory_of_segments_is_what_is_documented() {
    let header = header();
    assert!(header.contains("about 1470 + 740 K + (80 K + 74) S + 8 P bytes"));
    for (arms, segments, capacity, window) in
        [(2, 1, 1, 0), (5, 100, 64, 0), (10, 1000, 64, 300), (20, 10_000, 4096, 0)]
    {
        let config = |max_segments| Config {
            reward_window: window,
            pending_capacity: capacity,
            max_segments,
            ..Config::new(arms, 1.0)
        };
        let made = |max_segments| Bandit::new(Algorithm::Imed, &config(max_segments)).unwrap();
        let before = HELD.get();
        let bandit = Box::new(made(segments));
        let took = (HELD.get() - before) as f64;
        let [k, s, p] = [arms, segments, capacity.max(window).next_power_of_two()].map(f64::from);
        let slot = if window > 0 { 12.0 } else { 8.0 };
        let told = 1470.0 + 740.0 * k + (80.0 * k + 74.0) * s + slot * p;
        assert!((took - told).abs() <= 0.1 * told + 512.0, "{took} bytes, {told} told");
        assert!(segments < 10_000 || took < 1e8, "{took}");
        for key in (0..u64::from(segments)).rev() {
            bandit.update(bandit.select_for(&in_segment(key)).unwrap().ticket, 1.0).unwrap();
        }
        assert_eq!((HELD.get() - before) as f64, took);
        // Releases of other handles.
        let told = "(12 K + 42) (S + 1) bytes, K the number of arms and S that of its segments, and the first one (32 K + 40) (M + 1) more";
        assert!(header.contains(told));
        let here = made(50);
        let bytes = bandit.snapshot().unwrap();
        for first in [true, false] {
            let other = if first { bytes.clone() } else { made(segments).snapshot().unwrap() };
            let before = HELD.get();
            here.merge(&other).unwrap();
            let told = if first { (12.0 * k + 42.0) * (s + 1.0) + (32.0 * k + 40.0) * 51.0 } else { 12.0 * k + 42.0 };
            let took = (HELD.get() - before) as f64;
            assert!((took - told).abs() <= 0.1 * told + 1024.0, "{took} bytes, {told} told");
        }
    }
}

/// Locked by tests that read [`resident`].
static ALONE: Mutex<()> = Mutex::new(());

/// The resident memory of the process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> f64 {
    // Return memory that other tests freed.
    // SAFETY: always allowed.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    // SAFETY: always succeeds.
    pages.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64
}

/// Many handles, as in a service for many advertisers, take no more than the formula plus a tenth for the allocator,
/// and a million take 2.4 GiB with DP-SE and 10 GiB with DP-IMED, rounded as on the page.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "seconds, a gigabyte"]
fn small_handles_are_small() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut handles, many) = (Vec::new(), 100_000);
    for (algorithm, most) in [(Algorithm::Se, 2.45 * 1073.741824), (Algorithm::Imed, 10.5 * 1073.741824)] {
        let config = config(algorithm, 10, 64);
        let told = Formula::of(algorithm, algorithm).bytes(&config);
        let before = resident();
        for _ in 0..many {
            let bandit = Box::new(Bandit::new(algorithm, &config).unwrap());
            bandit.update(bandit.select().unwrap().ticket, 1.0).unwrap();
            handles.push(bandit);
        }
        let each = (resident() - before) / f64::from(many);
        println!(
            "{}: {each:.0} bytes a handle, {told} told; a million: {:.2} GiB",
            algorithm.name(),
            each / 1073.741824
        );
        assert!(each < 1.15 * told && each <= most, "{algorithm:?}: {each}");
    }
}

/// A long run: memory does not grow, and counts are right. DPB_DECISIONS is the number of decisions, default 10^8.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "half a minute"]
fn a_soak() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let decisions: u64 = std::env::var("DPB_DECISIONS").map_or(100_000_000, |text| text.parse().unwrap());
    let kinds =
        [(Algorithm::Imed, 0, 0), (Algorithm::Imed, 1000, 100_000), (Algorithm::Se, 1000, 0), (Algorithm::Med, 0, 0)];
    for (algorithm, reward_window, memory) in kinds {
        let bandit =
            Bandit::new(algorithm, &Config { reward_window, forget_after: memory, ..config(algorithm, 10, 1024) })
                .unwrap();
        let (share, started, mut early) = (decisions / kinds.len() as u64, std::time::Instant::now(), 0.0);
        let [mut cancelled, mut duplicates, mut silent] = [0; 3];
        for t in 0..share {
            if t == share / 100 {
                early = resident();
            }
            let decision = bandit.select().unwrap();
            match t % 64 {
                0 => cancelled += u64::from(bandit.cancel(decision.ticket).is_ok()),
                1 => silent += 1,
                ask => {
                    bandit
                        .update(decision.ticket, f64::from(u8::from(t.wrapping_mul(7) % 11 > decision.arm.into())))
                        .unwrap();
                    if ask == 2 {
                        duplicates += u64::from(bandit.update(decision.ticket, 1.0) == Err(Error::Duplicate));
                    }
                }
            }
        }
        let (counts, grown) = (bandit.report().unwrap().counts, resident() - early);
        println!("{}: {share} decisions in {:.1?}, {grown} bytes more", algorithm.name(), started.elapsed());
        assert!(grown <= 65536.0, "{algorithm:?}: {grown} bytes");
        assert_eq!((counts.decisions, counts.cancelled, cancelled), (share, cancelled, share.div_ceil(64)));
        assert_eq!((bandit.diagnostics().unwrap().duplicates, silent), (duplicates, (share - 1).div_ceil(64)));
        let ended = counts.answered + counts.expired + cancelled;
        assert!((share - 1024..=share).contains(&ended), "{counts:?}");
        assert_eq!(counts.expired > 0, reward_window == 0, "{counts:?}");
        let pulls: u64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.pulls).sum();
        assert_eq!(pulls, share - cancelled - counts.expired);
    }
}
