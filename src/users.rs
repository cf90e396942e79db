//! Limits how many decisions of one user a policy learns from: m = `contributions_per_user` in a period.
//!
#![doc = include_str!("../docs/theory/users.md")]

use crate::config::Config;
use crate::error::{Error, Result};
use crate::memory::WipedVec;
use crate::moving::persist;
use crate::random::{Random, Seed};
use zeroize::Zeroize;

const ROWS: usize = 4;

pub(crate) struct Users {
    /// Four rows of counters, packed into words.
    words: WipedVec<u64>,
    /// Counters in a row.
    columns: u64,
    /// log2 of the bits of a counter.
    bits: u32,
    /// m, the maximum that a counter reaches.
    most: u64,
    /// Hash keys. Each hash gives the columns of two rows, by its two halves.
    keys: [[u64; 2]; ROWS / 2],
    coins: Random,
}

/// The number of user periods begun in all generations of a handle, and the last one in which it may learn.
pub(crate) struct Periods {
    /// Periods begun in all generations, including the open one; 1 if users were never counted.
    pub begun: u32,
    /// The most periods that a stored snapshot of this generation counts; 1 for a handle that was created, and 0 for one
    /// that was restored.
    stored: u32,
    /// Maximum of `begun`.
    most: u32,
    /// It makes decisions before a snapshot is stored, as a node's bandit.
    decides: bool,
}

impl Periods {
    /// The first period, of a handle that is created.
    pub fn first(config: &Config) -> Periods {
        let most = if config.budget_periods > 0 { config.budget_periods } else { u32::MAX - 1 };
        Periods { begun: 1, stored: 1, most, decides: false }
    }

    /// Continues from a snapshot that counts `before` periods. Begins a new period if users are counted, now or in the
    /// snapshot.
    ///
    /// # Errors
    /// `OverBudget`.
    pub fn continue_from(&mut self, before: u32, counted: bool) -> Result<()> {
        self.begun = before.max(1);
        self.stored = self.begun;
        if counted {
            self.next()?;
            self.stored = 0;
        }
        Ok(())
    }

    /// Begins a period.
    ///
    /// # Errors
    /// `OverBudget` if all permitted periods have begun; nothing has changed.
    pub fn next(&mut self) -> Result<()> {
        if self.begun >= self.most {
            return Err(Error::OverBudget(format!("budget_periods is {}, and all have begun", self.most).into()));
        }
        self.begun = self.begun.saturating_add(1);
        Ok(())
    }

    /// Checks that no more periods have begun than are permitted.
    ///
    /// # Errors
    /// `OverBudget`.
    pub fn check(&self) -> Result<()> {
        if self.begun <= self.most {
            return Ok(());
        }
        Err(Error::OverBudget(format!("budget_periods is {}, and {} have begun", self.most, self.begun).into()))
    }

    /// Records that a snapshot of this generation that counts `counted` periods is stored.
    pub fn store(&mut self, counted: u32) {
        self.stored = self.stored.max(counted);
    }

    /// From now on it makes decisions, and learns only in periods that a stored snapshot counts, also in the first.
    pub fn await_store(&mut self) {
        (self.stored, self.decides) = (0, true);
    }

    /// Whether the handle may make decisions.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.stored > 0 || self.decides
    }

    /// Whether the handle may learn from decisions.
    pub fn may_learn(&self) -> bool {
        self.stored >= self.begun
    }
}

/// The position of a counter in the packed words.
#[derive(Clone, Copy)]
struct CounterPosition {
    word: usize,
    shift: u32,
}

/// Wipes the counters, because they tell which users came.
impl Drop for Users {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

impl Users {
    /// Counters for a configuration; `None` if it expects no users.
    ///
    /// # Errors
    /// `InvalidConfig` if they would take more than 2^30 bytes; `NoMemory`.
    pub fn of(config: &Config, seed: &mut Seed) -> Result<Option<Box<Users>>> {
        if config.expected_users == 0 {
            return Ok(None);
        }
        let most = config.contributions_per_user;
        let bits = (u32::BITS - most.leading_zeros()).next_power_of_two().trailing_zeros();
        let columns = 3 * config.expected_users;
        let words = ((ROWS as u64 * columns) << bits).div_ceil(64);
        let rule = "must take at most 2^30 bytes at this contributions_per_user";
        Error::unless(words <= 1 << 27, "expected_users", rule, config.expected_users)?;
        let words = WipedVec::new(words as usize, |_| 0)?;
        let (keys, coins) = (Default::default(), seed.stream());
        let mut users = Box::new(Users { words, columns, bits, most: most.into(), keys, coins });
        users.forget();
        Ok(Some(users))
    }

    /// Counts a decision of this user. Returns whether it is one of the m to learn from.
    pub fn count(&mut self, user: u64) -> bool {
        let positions = self.positions(user);
        let least = positions.iter().map(|&position| self.counter(position)).fold(self.most, u64::min);
        let learned = least < self.most;
        for &position in &positions {
            let rises = learned && self.counter(position) == least;
            self.words[position.word] += u64::from(rises) << position.shift;
        }
        learned
    }

    fn counter(&self, CounterPosition { word, shift }: CounterPosition) -> u64 {
        self.words[word] >> shift & (u64::MAX >> (64 - (1 << self.bits)))
    }

    /// Begins a period: clears all counters and draws new keys.
    pub fn forget(&mut self) {
        self.words.fill(0);
        self.keys = std::array::from_fn(|_| [self.coins.next_u64(), self.coins.next_u64()]);
    }

    fn positions(&self, user: u64) -> [CounterPosition; ROWS] {
        let [first, second] = &self.keys;
        let hashes = [sip_hash(first, user), sip_hash(second, user)]; // at the same time: neither waits for the other
        std::array::from_fn(|row| {
            let hash = hashes[row / 2] >> (32 * (row % 2)) & 0xffff_ffff;
            let counter = row as u64 * self.columns + ((hash * self.columns) >> 32);
            let bit = counter << self.bits;
            CounterPosition { word: (bit / 64) as usize, shift: (bit % 64) as u32 }
        })
    }
}

/// SipHash-1-3 of one word (Aumasson and Bernstein 2012).
///
/// The authors propose SipHash-2-4 for message authentication, where an attacker sees outputs, and SipHash-1-3 has no
/// known attack on hash tables, where none is visible. Here nobody sees an output: keys and counters are secret, keys
/// change each period, and a call reveals nothing about its counters, because an ignored decision looks like any other.
/// The bound of m needs no property of the hash at all; only the error does.
#[inline]
pub(crate) fn sip_hash(key: &[u64; 2], word: u64) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    for block in [word, 8 << 56] {
        v[3] ^= block;
        sip_round(&mut v);
        v[0] ^= block;
    }
    v[2] ^= 0xff;
    (0..3).for_each(|_| sip_round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

persist!(Users { words, keys } made { columns, bits, most, coins });
persist!(Periods { begun, stored } made { most, decides });

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn users(users: u64, contributions_per_user: u32) -> Box<Users> {
        let config = Config { expected_users: users, contributions_per_user, ..Config::new(2, 1.0) };
        Users::of(&config, &mut Seed::new(Some([4; 32])).unwrap()).unwrap().unwrap()
    }

    /// The key and the eight-byte input of the authors' test vectors. The low half is the Linux kernel's vector too.
    #[test]
    fn the_hash_is_sip_hash() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(sip_hash(&key, key[0]), 0x3690_9511_8d29_9a8e);
    }

    /// No user exceeds m, and a user who shares no counter reaches m. Checked for every size of counter, and with far
    /// more users than expected.
    #[test]
    fn nobody_has_more_than_m_a_period() {
        let mut random = Seed::new(Some([5; 32])).unwrap().stream();
        for m in [1, 2, 3, 4, 15, 16, 255, 256, 300, 65_535, 65_536] {
            for expected in [1, 1000] {
                let mut users = users(expected, m);
                for _ in 1..3 {
                    let alone = (0..m).filter(|_| users.count(7)).count();
                    assert!(alone as u32 == m && !users.count(7), "{m}: {alone}");
                    let mut learned = HashMap::new();
                    for _ in 0..200 * expected.min(50) {
                        let user = 8 + random.below(20 * expected);
                        *learned.entry(user).or_insert(0) += u32::from(users.count(user));
                    }
                    assert!(learned.values().all(|&learned| learned <= m) && !users.count(7), "{m}");
                    users.forget();
                }
            }
        }
    }

    /// n users each come m times. Then the number of 100,000 other users who would be ignored is the formula's. The
    /// formula is exact except for the users who were ignored before. Tolerance 6 deviations: probability 2e-9 at
    /// each load.
    #[test]
    fn the_error_is_the_formulas() {
        const PROBES: u64 = 100_000;
        let m = 3;
        for load in [0.5, 1.0, 2.0] {
            let mut users = users(5000, m);
            let others = (5000.0 * load) as u64;
            (0..u64::from(m)).for_each(|_| (0..others).for_each(|user| _ = users.count(user)));
            // The probes are not counted: they would add to the load.
            let full = |position: CounterPosition| users.words[position.word] >> position.shift & 3 == 3;
            let away =
                (1 << 40..(1 << 40) + PROBES).filter(|&user| users.positions(user).into_iter().all(full)).count();
            let chance = (1.0 - (1.0 - 1.0 / 15_000f64).powf(others as f64)).powi(4);
            let (most, slack) = (chance * PROBES as f64, 6.0 * (chance * PROBES as f64).sqrt());
            println!("{load}: {away} of {PROBES}, {most:.0} at most");
            assert!((away as f64) < most + slack && away as f64 > 0.8 * most - slack, "{load}: {away}, not {most}");
        }
    }

    /// Checks the claim for all orders of three steps a generation, over three generations. A snapshot that is written is
    /// mostly there for the next generation, and the caller says so; or it is there and the caller was killed before it
    /// could say so. Without a snapshot there is nothing to continue from.
    #[test]
    fn no_period_that_was_learned_from_is_forgotten() {
        let config = Config { expected_users: 1, ..Config::new(2, 1.0) };
        let (mut lives_that_decided, mut refused, mut idle) = (0, 0, 0);
        for order in 0..4u32.pow(3 * 3) {
            let (mut periods, mut learned, mut newest) = (Periods::first(&config), 0, None);
            for generation in 0..3 {
                let mut last = 0;
                for step in 0..3 {
                    match order / 4u32.pow(3 * generation + step) % 4 {
                        0 => periods.next().unwrap(),
                        1 => {
                            periods.store(periods.begun);
                            newest = Some(periods.begun);
                        }
                        2 => newest = Some(periods.begun),
                        _ if !periods.is_ready() => refused += 1,
                        _ if !periods.may_learn() => idle += 1,
                        _ => {
                            learned += u32::from(last != periods.begun);
                            last = periods.begun;
                        }
                    }
                    assert!(learned <= periods.begun, "{order}");
                }
                lives_that_decided += u32::from(last > 0);
                let Some(before) = newest else { break };
                periods = Periods::first(&config);
                periods.continue_from(before, true).unwrap();
            }
        }
        assert!(lives_that_decided > 10_000 && refused > 10_000 && idle > 10_000);
    }

    /// The limit is for all generations together. A late snapshot, or one that counts fewer periods, forgets nothing.
    #[test]
    fn there_are_no_more_periods_than_the_budget_is_charged_for() {
        let mut periods = Periods::first(&Config { expected_users: 1, budget_periods: 3, ..Config::new(2, 1.0) });
        assert!(periods.may_learn());
        periods.next().unwrap();
        assert!(periods.is_ready() && !periods.may_learn());
        periods.store(2);
        periods.store(1);
        assert!(periods.may_learn());
        periods.continue_from(2, true).unwrap();
        assert!(!periods.is_ready() && periods.begun == 3);
        assert!(matches!(periods.next(), Err(Error::OverBudget(_))));
        assert!(matches!(periods.continue_from(3, true), Err(Error::OverBudget(_))));
        assert!(matches!(periods.continue_from(u32::MAX, true), Err(Error::OverBudget(_))));
        periods.continue_from(0, false).unwrap();
        assert!(periods.begun == 1 && periods.may_learn());
    }

    #[test]
    fn a_period_has_its_own_keys() {
        let mut users = users(1000, 1);
        let positions = |users: &Users| users.positions(1).map(|position| (position.word, position.shift));
        let before = positions(&users);
        users.forget();
        assert_ne!(before, positions(&users));
    }

    /// Bytes for 100,000 users.
    #[test]
    fn memory_is_the_formula() {
        for (m, bytes) in
            [(1, 150_000), (3, 300_000), (15, 600_000), (255, 1_200_000), (256, 2_400_000), (65_536, 4_800_000)]
        {
            assert_eq!(8 * users(100_000, m).words.len(), bytes, "{m}");
        }
    }
}
