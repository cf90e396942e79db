//! Threads on one handle, and threads with a handle each: their decisions a second together, and the longest call.

use crate::cases::Handle;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Compares one thread with two, in alternating runs, and prints the slowest rounds of each.
pub fn table() {
    println!("\n{:<32} {:>10} {:>24} {:>24}", "threads on one handle", "2 : 1", "1: p99.9, max us", "2: p99.9, max us");
    for policy in ["dp-se", "dp-imed"] {
        for arms in [10, 100_000] {
            let handle = Handle::new(policy, arms);
            // Past the first batches, when most decisions end one.
            together(&handle, 1, Duration::from_millis(1500));
            let turn = |threads| together(&handle, threads, Duration::from_millis(100));
            let mut ratios = Vec::new();
            let mut slowest = [Vec::new(), Vec::new()];
            for _ in 0..21 {
                let [(one, tail), (two, tails)] = [1, 2].map(turn);
                ratios.push(two / one);
                slowest[0].push(tail);
                slowest[1].push(tails);
            }
            ratios.sort_by(f64::total_cmp);
            let tail = |turns: &[(f64, f64)]| {
                let mut p: Vec<f64> = turns.iter().map(|turn| turn.0).collect();
                p.sort_by(f64::total_cmp);
                let most = turns.iter().map(|turn| turn.1).fold(0.0, f64::max);
                format!("{:.1}, {most:.0}", p[p.len() / 2])
            };
            let name = format!("{policy}, {arms} arms");
            println!("{name:<32} {:>10.2} {:>24} {:>24}", ratios[10], tail(&slowest[0]), tail(&slowest[1]));
        }
    }
}

/// Compares one thread with two that have a handle each, which merge each other's releases regularly.
pub fn fleet() {
    const EVERY: u32 = 10_000;
    println!("\n{:<44} {:>8}", "a handle for each thread, merged every 10,000", "2 : 1");
    for arms in [10, 1000] {
        let fleet = [Handle::new("dp-imed", arms), Handle::new("dp-imed", arms)];
        let work = |own: usize, time: Duration| {
            let (mut world, start) = (fleet[own].alias(own as u64 + 1), Instant::now());
            let mut rounds = 0u64;
            while start.elapsed() < time {
                (0..EVERY).for_each(|_| world.round());
                fleet[own].merge(&fleet[1 - own]);
                rounds += u64::from(EVERY);
            }
            rounds as f64 / start.elapsed().as_secs_f64()
        };
        let turn = Duration::from_millis(100);
        let mut ratios: Vec<f64> = (0..21)
            .map(|_| {
                let one = work(0, turn);
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| work(1, turn));
                    (work(0, turn) + other.join().expect("no panic")) / one
                })
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!("{:<44} {:>8.2}", format!("dp-imed, {arms} arms"), ratios[10]);
    }
}

/// Rounds a second of all threads together, and the 99.9% quantile and maximum of 16 rounds' time in
/// microseconds.
fn together(handle: &Handle, threads: u64, time: Duration) -> (f64, (f64, f64)) {
    const ROUNDS: u64 = 16;
    let barrier = Barrier::new(threads as usize);
    let work = |seed: u64| {
        let mut world = handle.alias(seed);
        let mut times = Vec::with_capacity(1 << 20);
        barrier.wait();
        let start = Instant::now();
        let mut last = start;
        while last - start < time {
            (0..ROUNDS).for_each(|_| world.round());
            let now = Instant::now();
            times.push((now - last).as_nanos() as u32);
            last = now;
        }
        (times, last - start)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (1..=threads)
            .map(|seed| {
                let work = &work;
                scope.spawn(move || work(seed))
            })
            .collect();
        let (mut rate, mut all) = (0.0, Vec::new());
        for thread in running {
            let (times, elapsed) = thread.join().expect("no panic");
            rate += (times.len() as u64 * ROUNDS) as f64 / elapsed.as_secs_f64();
            all.extend(times);
        }
        all.sort_unstable();
        let at = |share: f64| f64::from(all[((all.len() - 1) as f64 * share) as usize]) / 1e3;
        (rate, (at(0.999), at(1.0)))
    })
}
