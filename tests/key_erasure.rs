//! What an attacker who reads all memory of the process learns about rewards whose noised sums are published.
//!
//! The attacker reads every readable byte, takes every eight words as a key, and draws noise as the library does: from
//! any position in the key's block, or from the streams of which it would be the root. Two consecutive draws that equal
//! those of the releases are no coincidence (2^-50 for each try). Each later reward is then the release minus its
//! noise. The attacker must find the keys of future noise, because they are in memory: this shows that the search
//! works. The attacker must not find the keys of earlier releases.
#![cfg(target_os = "linux")]

#[path = "support/requests.rs"]
mod requests;

use dpb::noise::Laplace;
use dpb::noise::probe::NoiseProbe;
use dpb::{Algorithm, Bandit, Clock, Config, Fault, Feature, Random, Request, Rows, Seed};
use requests::{Ask, fitted};
use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs one test at a time, because each one's buffer is memory that another would search.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle that releases each reward by itself (Tsallis at tau = 1), and the noise that it drew.
struct Victim {
    bandit: Bandit,
    sums: [f64; 2],
    noises: Vec<i64>,
}

const ONE: f64 = (1 << 24) as f64;

impl Victim {
    fn new(test_seed: Option<[u8; 32]>) -> Victim {
        let config = Config { batch: 1, test_seed, ..Config::new(2, 0.001) };
        Victim { bandit: Bandit::new(Algorithm::Tsallis, &config).unwrap(), sums: [0.0; 2], noises: Vec::new() }
    }

    fn release(&mut self, rewards: usize) {
        for _ in 0..rewards {
            let decision = self.bandit.select().unwrap();
            self.bandit.update(decision.ticket, 1.0).unwrap();
            let arm = self.bandit.arm_reports().unwrap()[decision.arm as usize];
            let sum = (arm.mean * arm.pulls as f64 * ONE).round();
            let before = std::mem::replace(&mut self.sums[decision.arm as usize], sum);
            self.noises.push((sum - before - ONE) as i64);
        }
    }

    fn distribution() -> Laplace {
        Laplace::new(0.001, ONE as u64).unwrap()
    }
}

/// Calls `each` with every block of readable memory; those of one mapping overlap.
fn each_block(each: impl FnMut(&[u8])) -> usize {
    each_block_outside(0..0, each)
}

/// The same without these addresses, in which `each` keeps what it finds.
fn each_block_outside(kept: Range<u64>, mut each: impl FnMut(&[u8])) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let memory = File::open("/proc/self/mem").unwrap();
    // Read into a mapping of its own, which is not read in turn.
    let (mut bytes, zeros) = (vec![0; 1 << 16], [0; 1 << 16]);
    let own = addresses(&bytes);
    let mut seen = 0;
    for line in maps.lines().filter(|line| line.contains(" rw") && !line.contains("[v")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let (mut from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        while from < to {
            if let Some(left_out) = [&own, &kept].into_iter().find(|range| range.contains(&from)) {
                from = left_out.end;
                continue;
            }
            let next = [&own, &kept].into_iter().map(|range| range.start).filter(|&start| from < start).min();
            let end = next.map_or(to, |start| to.min(start));
            let length = (end - from).min(bytes.len() as u64) as usize;
            let Ok(()) = memory.read_exact_at(&mut bytes[..length], from) else { break };
            if bytes[..length] != zeros[..length] {
                each(&bytes[..length]);
            }
            seen += length;
            // Blocks overlap, so that no value is split.
            from += if from + length as u64 == end { length as u64 } else { length as u64 - 32 };
        }
    }
    seen
}

/// The addresses of all that a vector has reserved.
fn addresses<T>(vector: &Vec<T>) -> Range<u64> {
    let start = vector.as_ptr() as u64;
    start..start + (vector.capacity() * size_of::<T>()) as u64
}

/// Every aligned block in readable memory that could be a key. One random key in 8000 has a word so small or large that
/// this leaves it out; nearly all other data is left out, and among it numbers of a usual size in floating point.
fn possible_keys() -> Vec<[u32; 8]> {
    let mut keys: Vec<[u32; 8]> = Vec::with_capacity(1 << 22);
    let capacity = keys.capacity();
    // What was found would be found again, eight times.
    let seen = each_block_outside(addresses(&keys), |bytes| {
        let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
        let random = |&word: &u32| word > 1 << 16 && word < u32::MAX - (1 << 16);
        let usual = |&word: &u32| matches!(word << 1 >> 25, 0x3d..=0x41);
        let floats = |key: &[u32]| (0..2).any(|from| key.iter().skip(from).step_by(2).all(usual));
        let possible = words.windows(8).filter(|key| key.iter().all(random) && !floats(key));
        keys.extend(possible.map(|key| <[u32; 8]>::try_from(key).unwrap()));
    });
    assert_eq!(keys.capacity(), capacity, "grown vectors leave copies");
    println!("{seen} bytes, {} possible keys", keys.len());
    keys
}

/// How many of these draws can be generated again from these keys.
fn recovered(keys: &[[u32; 8]], noises: &[i64]) -> usize {
    let pairs: HashSet<(i64, i64)> = noises.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let distribution = Victim::distribution();
    let mut first = noises.len();
    for &key in keys {
        let from = |skipped: usize| {
            let mut random = Random::from_key(key);
            (0..skipped).for_each(|_| _ = random.next_u32());
            random
        };
        let mut root = Seed::new(Some(std::array::from_fn(|i| (key[i / 4] >> (8 * (i % 4))) as u8))).unwrap();
        let streams = (0..4).map(|_| root.stream());
        for mut random in (0..56).map(from).chain(streams) {
            let drawn = (distribution.sample(&mut random), distribution.sample(&mut random));
            if pairs.contains(&drawn) {
                // The position in the row: the adversary continues from there.
                let place = noises.windows(2).position(|pair| (pair[0], pair[1]) == drawn);
                first = first.min(place.unwrap_or(0));
            }
        }
    }
    println!("{} of {} noises", noises.len() - first, noises.len());
    noises.len() - first
}

/// What is in memory generates neither noise that was released, nor noise that will be: each release mixes fresh entropy
/// into its key. The test below shows that the search works.
#[test]
fn memory_tells_no_released_noise() {
    let _alone = alone();
    let mut victim = Victim::new(None);
    victim.release(2000);
    let mut keys = possible_keys();
    victim.release(200);
    let (past, to_come) = victim.noises.split_at(2000);
    assert_eq!(recovered(&keys, past), 0, "alive");
    assert_eq!(recovered(&keys, to_come), 0, "to come");
    keys.fill([0; 8]); // the next search would find them
    drop((std::hint::black_box(keys), victim.bandit));
    assert_eq!(recovered(&possible_keys(), &victim.noises), 0, "freed");
}

/// If the root key stays in memory, the search finds everything.
#[test]
fn the_search_finds_a_key_that_stays_in_memory() {
    let _alone = alone();
    let seed: [u8; 32] = std::array::from_fn(|i| (i as u8 + 1).wrapping_mul(173));
    let mut victim = Victim::new(Some(seed));
    victim.release(2000);
    assert!(recovered(&possible_keys(), &victim.noises) > 1990);
    assert_ne!(seed[0], 0); // keeps the seed alive up to here
}

/// Hashes of the pairs of consecutive words that come next. Nothing else keeps the words.
fn pairs(random: &mut Random, words: usize) -> HashSet<u64> {
    let mut last = random.next_u32();
    let mut next = || {
        let word = random.next_u32();
        hash(std::mem::replace(&mut last, word), word)
    };
    (1..words).map(|_| next()).collect()
}

fn hash(first: u32, second: u32) -> u64 {
    (u64::from(first) << 32 | u64::from(second)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x5bd1_e995
}

/// How many of these pairs are in memory.
fn in_memory(pairs: &HashSet<u64>) -> usize {
    let mut found = 0;
    each_block(|bytes| {
        let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
        found += words.windows(2).filter(|pair| pairs.contains(&hash(pair[0], pair[1]))).count();
    });
    found
}

const DRAWN: usize = 40; // of one block

/// The words of noise that was drawn are not in memory, although their stream is alive.
#[test]
fn used_words_are_erased() {
    let _alone = alone();
    let kept = |probe: NoiseProbe| {
        let mut random = Random::from_key([0x1234_5678, 3, 4, 5, 6, 7, 8, 9]);
        let kept = in_memory(&pairs(&mut random, DRAWN));
        drop((std::hint::black_box(random), probe));
        kept
    };
    let found = (kept(NoiseProbe::new()), kept(NoiseProbe::new().breaking(Fault::WordsKept)));
    println!("{found:?}");
    assert!(found.0 < 5 && found.1 > DRAWN - 5, "{found:?}");
}

/// The words that a stream does not use any more, because it was renewed, are not in memory.
#[test]
fn unused_words_are_erased() {
    let _alone = alone();
    let kept = |breaks: Option<Fault>| {
        let stream = || Seed::new(None).unwrap().stream();
        let probe = NoiseProbe::new().seeding([3; 32]);
        let unused = pairs(&mut stream(), DRAWN);
        drop(probe);
        let probe = NoiseProbe::new().seeding([3; 32]); // another stream with the same words
        let probe = if let Some(fault) = breaks { probe.breaking(fault) } else { probe };
        let mut random = stream();
        random.next_u32();
        let before = in_memory(&unused);
        random.renew();
        let after = in_memory(&unused);
        drop((std::hint::black_box(random), probe));
        (before, after)
    };
    let found = (kept(None), kept(Some(Fault::UnusedWordsKept)));
    println!("{found:?}");
    assert!(found.0.0 > DRAWN - 5 && found.0.1 < 5 && found.1.1 > DRAWN - 5, "{found:?}");
}

/// A reward, in grid units, of which other numbers are unlikely to be multiples.
const MARK: u64 = 0xc0_ffee;

/// Aligned words of memory that are a sum of 1 to 64 marked rewards, and halves that are one reward.
fn marks() -> usize {
    let mut marks = 0;
    each_block(|bytes| {
        let words = bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
        // A held reward has 32 bits.
        let sum = |word: u64| word.is_multiple_of(MARK) && (1..=64).contains(&(word / MARK));
        let halves = |word: u64| usize::from(word as u32 == MARK as u32) + usize::from(word >> 32 == MARK);
        marks += words.map(|word| halves(word).max(sum(word).into())).sum::<usize>();
    });
    marks
}

/// Sums of marked rewards at any place in memory: as numbers, in bytes that were written for others, and multiplied by a
/// row's integers. (A word that begins with a zero byte counts where it begins without it.)
fn sums() -> usize {
    let mut sums = 0;
    each_block(|bytes| {
        let words = bytes.windows(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
        sums += words.filter(|&word| word >> 46 == 0 && word as u8 != 0 && word.is_multiple_of(MARK)).count();
    });
    sums
}

const FEW: usize = 30; // copies that may be on the stack

const MARKED: f64 = MARK as f64 / (1 << 24) as f64;
/// Arms, or features: there are so many sums.
const MANY: u32 = 100;

/// What can contribute, with [`MANY`] sums. `epsilon`: without features, and with them.
fn contributors(epsilon: [f64; 2]) -> [(&'static str, Algorithm, Config); 5] {
    let config = |features: usize| Config {
        fleet_key: Some([7; 32].into()),
        reward_bits: 24,
        test_seed: Some([9; 32]),
        ..Config::new(MANY, epsilon[features])
    };
    [
        ("dp-imed", Algorithm::Imed, config(0)),
        ("dp-med", Algorithm::Med, config(0)),
        ("segments", Algorithm::Imed, Config { max_segments: 1, ..config(0) }),
        ("one model", Algorithm::Linear, Config { arms: 2, features: MANY, ..config(1) }),
        ("a model for each arm", Algorithm::Linear, Config { features: 1, model_per_arm: true, ..config(1) }),
    ]
}

/// Reports this reward for a decision whose reward enters the sum with this number.
fn decide(bandit: &Bandit, config: &Config, sum: u32, reward: f64) {
    let entry = [Feature { index: sum % config.features.max(1), value: 1.0 }];
    let request = Request {
        eligible: Some(&[sum % config.arms]),
        features: (config.features > 0).then_some(Rows::Sparse(&entry, &[1])),
        ..Request::default()
    };
    bandit.update(bandit.select_for(&request).unwrap().ticket, reward).unwrap();
}

/// A handle that has merged the releases of another one, so that features are past the pilot, which has one sum.
fn merged(algorithm: Algorithm, config: &Config) -> Bandit {
    let [bandit, other] = [(); 2].map(|()| Bandit::new(algorithm, config).unwrap());
    if config.features > 0 {
        (0..20 * MANY).for_each(|at| decide(&other, config, at % MANY, f64::from(at / MANY % 2)));
        bandit.merge(&other.snapshot().unwrap()).unwrap();
    }
    bandit
}

/// A contribution takes its sums out of the memory of its sender. At the leader they are open sums, and nowhere else.
#[test]
fn contributed_sums_are_erased() {
    let _alone = alone();
    for (name, algorithm, config) in contributors([0.1, 1.0]) {
        let _pin = vec![1u8; 4096]; // so that freed memory stays mapped below it
        let [leader, other] = [(); 2].map(|()| merged(algorithm, &config));
        let before = sums();
        let generation = leader.lead().unwrap();
        assert!(other.contribution(generation).unwrap().is_empty());
        (0..MANY).for_each(|sum| decide(&other, &config, sum, MARKED));
        let open = sums();
        let sealed = other.contribution(generation).unwrap();
        let contributed = sums();
        leader.combine(&sealed).unwrap();
        let combined = sums();
        drop(leader);
        let left = sums();
        println!("{name}: {before}, {open} open, {contributed} contributed, {combined} combined, {left} left");
        assert!(open > before + 80 && contributed < before + FEW, "{name}");
        assert!((before + 60..open + FEW).contains(&combined) && left < before + FEW, "{name}");
    }
}

/// A sum that was released is in memory no more: the difference to the release is its noise.
#[test]
fn released_sums_are_erased() {
    let _alone = alone();
    for (name, algorithm, config) in contributors([1.0, 1.0]) {
        let _pin = vec![1u8; 4096];
        // With segments some batches stay open, so there are few. One vector has all sums, any other batch has one.
        let config = if name == "segments" { Config { arms: 20, ..config } } else { config };
        let batches = if name == "one model" { 1 } else { MANY };
        let bandit = merged(algorithm, &config);
        let before = sums();
        let rewards = (0..40 * MANY).find(|&at| {
            decide(&bandit, &config, at % MANY, MARKED);
            bandit.report().unwrap().phase >= batches
        });
        let left = sums();
        println!("{name}: {before}, {left} after {rewards:?}");
        assert!(rewards.is_some() && left < before + 2 * FEW, "{name}");
    }
}

/// With a limit for each user, the rewards of further requests enter no state: Theorem U of the contract.
#[test]
fn rewards_beyond_a_users_limit_are_not_kept() {
    let _alone = alone();
    for (clock, max_slots) in [(Clock::Decisions, 0), (Clock::Decisions, 2), (Clock::Caller, 0), (Clock::Caller, 2)] {
        let config = Config {
            expected_users: 1000,
            reward_window: 1024,
            reward_bits: 24,
            clock,
            max_slots,
            max_clicks: max_slots / 2,
            ..Config::new(4, 1.0)
        };
        let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
        let before = marks();
        let come = |users: u64| {
            for user in 0..400 {
                let ticket = bandit.select_for(&Request { user: user % users, ..Request::default() }).unwrap().ticket;
                // The first request of each of the few users is learned from.
                if users > 1 || user > 0 {
                    bandit.update(ticket, MARKED).unwrap();
                }
            }
            marks()
        };
        let (few, many) = (come(1), come(1000));
        println!("{clock:?} {max_slots}: {before}, {few} beyond the limit, {many} within it");
        assert!(few < before + FEW && many > before + 300, "{clock:?} {max_slots}");
    }
}

/// Open sums and waiting rewards are in memory while they are needed, and are erased with their handle, and with the
/// tables that an added arm made too small.
#[test]
fn open_rewards_are_erased() {
    let _alone = alone();
    const ARMS: u32 = 500;
    let mut seen = 0;
    for &algorithm in Algorithm::ALL {
        for window in [0, 1024] {
            let mut config =
                Config { horizon: 1 << 20, reward_window: window, pending_capacity: 1024, ..Config::new(ARMS, 0.1) };
            (config.reward_bits, config.base) = (24, Algorithm::NonprivateExp3 as u32);
            let made = [0.0, 1e-6].into_iter().find_map(|delta| {
                config.delta = delta;
                Bandit::new(algorithm, &fitted(algorithm, config.clone())).ok()
            });
            let Some(bandit) = made.filter(|b| b.report().unwrap().is_private && !algorithm.name().starts_with("ldp"))
            else {
                continue;
            };
            let _pin = vec![1u8; 4096]; // so that freed memory stays mapped below it
            let before = marks();
            for arm in 0..ARMS {
                let decision = bandit
                    .ask_for(&Request { eligible: Some(&[arm]), ..Request::default() })
                    .or_else(|_| bandit.select())
                    .unwrap();
                bandit.update(decision.ticket, MARK as f64 / (1 << 24) as f64).unwrap();
            }
            let open = marks();
            println!("{} {window}: {before}, {open} open", algorithm.name());
            seen += usize::from(open > before + 300);
            if bandit.add_arm().is_ok() {
                assert!(marks() < open + FEW, "{} leaves them behind when it grows", algorithm.name());
            }
            drop(bandit);
            let left = marks();
            assert!(left < before + FEW, "{} leaves {left} of {open}", algorithm.name());
        }
    }
    assert!(seen >= 20, "{seen}");
}

/// Full counters of users, four of 16 bits in a word.
const FULL: u64 = 0x012d;

fn full() -> usize {
    let mut words = 0;
    let word = FULL.wrapping_mul(0x0001_0001_0001_0001);
    each_block(|bytes| words += bytes.chunks_exact(8).filter(|b| b == &word.to_ne_bytes()).count());
    words
}

/// The counters of users are in memory for their period only.
#[test]
fn counters_of_users_are_erased() {
    let _alone = alone();
    let config = Config { expected_users: 8, contributions_per_user: FULL as u32, ..Config::new(2, 1000.0) };
    let bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    let _pin = vec![1u8; 4096]; // so that freed memory stays mapped below it
    let come = || {
        (0..200 * FULL).for_each(|at| _ = bandit.select_for(&Request { user: at % 200, ..Request::default() }).unwrap())
    };
    let before = full();
    come();
    assert!(full() >= before + 20, "{before} {}", full());
    bandit.next_period().unwrap();
    assert!(full() <= before + 2);
    bandit.stored(&bandit.snapshot().unwrap()).unwrap();
    come();
    assert!(full() >= before + 20);
    drop(bandit);
    assert!(full() <= before + 2);
}
