//! Valid configurations at their extremes: no call hangs, and no result is infinite.

use crate::support::requests::{Ask, among, fitted, numbers, of_slots};
use dpb::{Algorithm, Bandit, Config, Error, Random, Seed};
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

fn random(number: u64) -> Random {
    let mut seed = [9; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    Seed::new(Some(seed)).unwrap().stream()
}

fn pick<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}

/// A configuration with each field anywhere in its legal range, most often at an end of it.
fn extreme(random: &mut Random, algorithm: Algorithm, most_arms: u32) -> Config {
    let log_uniform = |random: &mut Random, low: f64, high: f64| (low.ln() + random.unit() * (high / low).ln()).exp();
    let epsilon = match random.below(3) {
        0 => pick(random, &[1.5e-8, 5e-8, 1e-6, 4e-3, 1.0 / 3.0, 1.0, 100.0, 16384.0, 1e300, 5e-324]),
        1 => log_uniform(random, 1e-8, 1e5),
        _ => log_uniform(random, 1e-2, 10.0),
    };
    let arms = match random.below(4) {
        0 => pick(random, &[2, 3, most_arms]),
        1 => log_uniform(random, 2.0, most_arms.into()) as u32,
        _ => 2 + random.below(20) as u32,
    };
    let (reward_min, reward_max) = pick(
        random,
        &[(0.0, 1.0), (-1e290, 1e290), (0.0, 5e-324), (1e16, 1e16 + 2.0), (-1e290, -9e289), (0.0, 1e-300)],
    );
    let linear = algorithm == Algorithm::Linear;
    Config {
        delta: pick(random, &[0.0, 5e-324, 1e-300, 1e-12, 1e-6, 0.5, 1.0f64.next_down()]),
        beta: pick(random, &[0.0, 5e-324, 1e-300, 1e-6, 0.5, 1.0f64.next_down()]),
        horizon: pick(random, &[0, 1, 2, 3, 1000, 1_000_000, 1 << 37, u64::MAX]),
        reward_min,
        reward_max,
        reward_bits: pick(random, &[0, 1, 20, 24]),
        contributions_per_user: pick(random, &[1, 1, 1, 2, 4096, u32::MAX]),
        pending_capacity: pick(random, &[1, 2, 64, 4096, 1 << 16]),
        reward_window: pick(random, &[0, 0, 0, 1, 10, 1000]),
        interval_exponent: pick(random, &[1.0f64.next_up(), 1.001, 1.1, 1.5]),
        rigorous_index: random.bit(),
        learn_clip: random.below(4) == 0,
        batch: pick(random, &[0, 0, 1, 2, 1000, u32::MAX]),
        base: pick(random, Algorithm::ALL) as u32,
        shuffle_printed: random.bit(),
        forget_after: pick(random, &[0, 0, 0, 0, 1 << 10, 100_000, 1 << 40]),
        exploration: pick(random, &[0.0, 0.0, 0.0, 0.0, 5e-324, 0.1, 1.0]),
        max_slots: pick(random, &[0, 0, 0, 0, 0, 0, 3, 1 << 24]),
        max_clicks: pick(random, &[0, 0, 0, 0, 0, 1]),
        features: if linear { pick(random, &[1, 2, 2, 5, 20]) } else { 0 },
        model_per_arm: linear && random.bit(),
        test_seed: Some([random.below(256) as u8; 32]),
        ..Config::new(if algorithm == Algorithm::Lap { arms.min(1 << 10) } else { arms }, epsilon)
    }
}

/// Plays with delays, duplicates, silence, cancellations and changing arms. `timed` runs every call.
fn play(
    bandit: &Bandit,
    config: &Config,
    decisions: impl Iterator<Item = u64>,
    random: &mut Random,
    mut timed: impl FnMut(&'static str, &mut dyn FnMut()),
) {
    let (mut open, mut arms) = (Vec::new(), bandit.arms().unwrap());
    for _ in decisions {
        let mut decision = None;
        if random.below(8) == 0 {
            let slots = of_slots(1 + random.below(5) as u32);
            timed("select_slots", &mut || _ = bandit.ask_slots(&slots, |_, d| open.push(d.ticket)));
            let some = [random.below(arms.into()) as u32, random.below(arms.into()) as u32];
            timed("select_for", &mut || decision = bandit.ask_for(&among(&some)).ok());
        } else {
            timed("select", &mut || decision = bandit.ask().ok());
        }
        open.extend(decision.map(|decision| decision.ticket));
        if open.is_empty() || random.below(4) == 0 {
            continue;
        }
        let ticket = open.swap_remove(random.below(open.len() as u64) as usize);
        let reward =
            pick(random, &[config.reward_min, config.reward_max, config.reward_min / 2.0 + config.reward_max / 2.0]);
        match random.below(20) {
            0 => timed("cancel", &mut || _ = bandit.cancel(ticket)),
            1 if arms < 30 => timed("add_arm", &mut || arms += u32::from(bandit.add_arm().is_ok())),
            2 if arms > 8 && arms < 40 => {
                timed("retire_arm", &mut || _ = bandit.retire_arm(random.below(arms.into()) as u32))
            }
            _ => timed("update", &mut || _ = bandit.update(ticket, reward)),
        }
    }
    timed("report", &mut || _ = bandit.report().unwrap());
    timed("epsilon_spent", &mut || _ = bandit.epsilon_spent(config.delta).unwrap());
    timed("best_arm", &mut || _ = bandit.best_arm());
    timed("compare", &mut || {
        if let Ok((low, high)) = bandit.compare(0, 1, 0.9) {
            let range = config.reward_max - config.reward_min;
            assert!(-range <= low && low <= high && high <= range, "{low} {high} {range}");
        }
    });
    timed("arms_read", &mut || {
        bandit
            .for_each_arm(|arm, read| {
                assert!(!read.mean.is_infinite() && !read.width.is_infinite(), "{arm}: {read:?}");
                assert!(read.mean.is_nan() || read.width.is_nan() || read.width >= 0.0, "{arm}: {read:?}");
            })
            .unwrap()
    });
    let report = bandit.report().unwrap();
    assert!(report.epsilon_spent >= 0.0 && report.delta_spent >= 0.0, "{report:?}");
}

/// Runs code that reports its progress. Fails if it reports nothing for five minutes.
fn watched(run: impl FnOnce(Sender<String>) + Send + 'static) {
    let (beat, heard) = channel();
    let running = std::thread::spawn(|| run(beat));
    let mut last = String::new();
    loop {
        match heard.recv_timeout(Duration::from_secs(300)) {
            Ok(now) => last = now,
            Err(RecvTimeoutError::Disconnected) => break running.join().unwrap(),
            Err(RecvTimeoutError::Timeout) => panic!("it hangs: {last}"),
        }
    }
}

#[test]
fn nothing_infinite_is_read() {
    watched(|beat| {
        for &algorithm in Algorithm::ALL {
            let (mut random, mut made) = (random(algorithm as u64), 0);
            for _ in 0..300 {
                let config = numbers(algorithm, extreme(&mut random, algorithm, 20));
                beat.send(format!("{}: {config:?}", algorithm.name())).unwrap();
                match Bandit::new(algorithm, &config) {
                    Ok(bandit) => {
                        made += 1;
                        play(&bandit, &config, 0..200, &mut random, |_, call| call());
                    }
                    Err(Error::InvalidConfig { .. }) => {}
                    Err(other) => panic!("{other}: {config:?}"),
                }
            }
            assert!(made >= 5, "{}: {made}", algorithm.name());
        }
    });
}

#[test]
fn more_arms_than_a_policy_can_serve_in_time_are_refused() {
    for &algorithm in Algorithm::ALL {
        let most = most_arms(algorithm);
        let with = |arms, delta| {
            let base = Algorithm::NonprivateExp3 as u32;
            fitted(algorithm, Config { horizon: 9, delta, base, ..Config::new(arms, 1.0) })
        };
        let config = |arms| {
            let delta = if Bandit::new(algorithm, &with(2, 0.0)).is_ok() { 0.0 } else { 1e-6 };
            with(arms, delta)
        };
        assert!(Bandit::new(algorithm, &config(most.min(1 << 16))).is_ok(), "{}", algorithm.name());
        let refused = Bandit::new(algorithm, &config(most + 1)).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|error| error.starts_with("arms must be")), "{}", algorithm.name());
    }
    // Adding arms one by one is refused too.
    let bandit = Bandit::new(Algorithm::Med, &Config::new(most_arms(Algorithm::Med), 1.0)).unwrap();
    assert!(bandit.add_arm().is_err_and(|error| error.to_string().starts_with("arms must be at most 4096")));
    assert_eq!(bandit.arms(), Ok(4096));
}

fn most_arms(algorithm: Algorithm) -> u32 {
    match algorithm {
        Algorithm::Linear => (1 << 23) / (3 * 11), // with two features and a model for each arm
        Algorithm::Med => 1 << 12,
        Algorithm::TopTwo => 1 << 8,
        Algorithm::NonprivateKlUcb | Algorithm::LdpKlUcb | Algorithm::Ucb => 1 << 15,
        Algorithm::Se | Algorithm::UcbBound | Algorithm::PrivateUcb => 1 << 18,
        Algorithm::Imed | Algorithm::NonprivateExp3 => 1 << 24,
        Algorithm::Lap | Algorithm::Exp3Lap | Algorithm::Exp3Tau => 1 << 24,
        _ => 1 << 20,
    }
}

/// The processor time of this thread, so that other load on the machine does not matter.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer, and a clock that is there.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Random valid configurations: prints the slowest call of each kind. A call of two seconds fails the test (here none
/// takes more than a twentieth of that, except making a million arms). A call that does not return ends it.
#[test]
#[ignore = "half a minute"]
fn no_call_takes_long() {
    const LIMIT: Duration = Duration::from_secs(2);
    watched(|beat| {
        let (mut random, start) = (random(77), Instant::now());
        let mut worst: BTreeMap<(&str, &str), (Duration, String)> = BTreeMap::new();
        let (mut made, mut calls) = (0u64, 0u64);
        while start.elapsed() < Duration::from_secs(30) {
            let algorithm = pick(&mut random, Algorithm::ALL);
            // Reading and making are O(K): 2^24 arms would not be fast, and would be too many for the memory.
            let config = extreme(&mut random, algorithm, most_arms(algorithm).min(1 << 20));
            let name = algorithm.name();
            beat.send(format!("{name}: {config:?}")).unwrap();
            let mut timed = |call: &'static str, run: &mut dyn FnMut()| {
                let from = used();
                run();
                let took = used() - from;
                let most = worst.entry((call, name)).or_default();
                if took > most.0 {
                    *most = (took, format!("{config:?}"));
                }
                calls += 1;
            };
            let mut bandit = None;
            timed("new", &mut || bandit = Bandit::new(algorithm, &config).ok());
            if let Some(bandit) = bandit {
                made += 1;
                let (from, most) = (Instant::now(), (20_000_000 / u64::from(config.arms)).min(5_000));
                let decisions = (0..most).take_while(|_| from.elapsed() < Duration::from_secs(3));
                play(&bandit, &config, decisions, &mut random, timed);
            }
        }
        println!("{made} handles, {calls} calls; the worst:");
        let mut worst: Vec<_> = worst.into_iter().collect();
        worst.sort_by_key(|call| std::cmp::Reverse(call.1.0));
        for ((call, name), (took, config)) in &worst[..20] {
            println!("{took:>10.1?} {call} {name}: {}", config.split(", delta").next().unwrap());
        }
        let ((call, name), (took, config)) = &worst[0];
        assert!(*took < LIMIT, "{took:?} {call} {name}: {config}");
    });
}
