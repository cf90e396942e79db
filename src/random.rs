//! Generates all random bits with ChaCha20. Each handle has keys of its own from the operating system, and used keys
//! are erased.
//!
//! ChaCha with 12 rounds would suffice; 20 is the conservative choice. It costs little, because noise is drawn only
//! when a batch closes. Each purpose has its own stream with its own key.
//!
//! **No past output can be recomputed** (fast key erasure, Bernstein 2017). The first 32 bytes of each block of bits
//! are the key of the next block and overwrite the current key. Words are wiped from the block as they are used. An
//! attacker who reads all of the memory learns none of the noise that was released, and of future noise only what a
//! stream draws before it is [renewed](Random::renew). Keys stay at one place on the heap as long as they exist, because
//! moving a key would leave a copy behind.

use crate::error::{Error, Result};
use chacha20::variants::Legacy;
use chacha20::{ChaChaCore, R20};
use rand_core::SeedableRng;
use rand_core::block::Generator;
use std::hint::black_box;
use zeroize::Zeroizing;

/// The root of a handle's randomness. It creates independent streams.
pub struct Seed {
    root: Random,
}

impl Seed {
    /// A root from the operating system's entropy, or from a test seed (reproducible and NOT private).
    ///
    /// # Errors
    /// `Entropy` if the operating system gives no randomness.
    pub fn new(test_seed: Option<[u8; 32]>) -> Result<Seed> {
        let key = match test_seed {
            Some(seed) => Zeroizing::new(seed),
            None => entropy()?,
        };
        Ok(Seed { root: Random::keyed(words(&key), test_seed.is_none()) })
    }

    /// The next stream, independent of all others.
    pub fn stream(&mut self) -> Random {
        let renews = self.root.block.renews;
        Random::keyed((0..KEY).map(|_| self.root.next_u32()), renews)
    }
}

/// 32 bytes from the operating system.
fn entropy() -> Result<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(|_| Error::Entropy)?;
    Ok(bytes)
}

fn words(bytes: &[u8; 32]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Words of a block: four blocks of ChaCha.
const WORDS: usize = 64;
/// Words of a key.
const KEY: usize = 8;

/// A stream of random bits. It cannot be cloned, and its `Debug` shows nothing.
pub struct Random {
    block: Box<Block>,
}

struct Block {
    /// The next block's key, then the unused words of this block. Wiped when dropped.
    words: Zeroizing<[u32; WORDS]>,
    used: u32,
    /// Whether the stream comes from the operating system, and not from a test seed.
    renews: bool,
}

impl Random {
    fn keyed(key: impl Iterator<Item = u32>, renews: bool) -> Random {
        let mut block = Box::new(Block { words: [0; WORDS].into(), used: WORDS as u32, renews });
        block.words[..KEY].iter_mut().zip(key).for_each(|(place, word)| *place = word);
        Random { block }
    }

    /// Mixes fresh entropy of the operating system into the key, unless the stream is of a test seed. Call it before bits
    /// on which a guarantee depends, if these are drawn rarely.
    ///
    /// **Copies of a virtual machine.** Two machines that resume from one image have the same key. A system that detects
    /// the resumption reseeds its own entropy (Linux from 5.18 on, Windows and others, where the hypervisor provides a
    /// generation id), and then the two streams differ from here on. If the system gives nothing, the stream continues.
    pub fn renew(&mut self) {
        if self.block.renews
            && let Ok(fresh) = entropy()
        {
            let (key, unused) = self.block.words.split_at_mut(KEY);
            key.iter_mut().zip(words(&fresh)).for_each(|(key, word)| *key ^= word);
            unused.fill(0);
            self.block.used = WORDS as u32;
        }
    }

    /// 32 uniform bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.block.used == WORDS as u32 {
            self.block.refill();
        }
        let word = std::mem::take(&mut self.block.words[self.block.used as usize]);
        self.block.used += 1;
        word
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// One fair bit.
    #[inline]
    pub fn bit(&mut self) -> bool {
        self.next_u32() >> 31 == 1
    }

    /// Uniform on `0..n`, exactly (Lemire 2019: multiply, reject the few surplus values). `n > 0`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0);
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let low = product as u64;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 64) as u64;
            }
        }
    }

    /// Uniform on the multiples of 2^-53 in [0, 1). Used for exploration, never for a release.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Block {
    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        self.turn();
        sweep();
    }

    #[inline(never)]
    fn turn(&mut self) {
        let mut key = Zeroizing::new([0; 4 * KEY]);
        let bytes = self.words[..KEY].iter().flat_map(|word| word.to_le_bytes());
        key.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        // The generator wipes itself when it is dropped, as `key` does.
        ChaChaCore::<R20, Legacy>::from_seed(*key).generate(&mut self.words);
        self.used = KEY as u32;
    }
}

/// Overwrites the stack below the caller. A callee got a key by value, and the compiler may have left a copy of it
/// there.
#[inline(never)]
fn sweep() {
    black_box(&mut [0u64; 256]);
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Random")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Random {
        /// Uniform on `0..n`, exactly, for `n` up to 2^127, by rejection. `n > 0`.
        pub(crate) fn below_wide(&mut self, n: u128) -> u128 {
            if let Ok(small) = u64::try_from(n) {
                return u128::from(self.below(small));
            }
            let shift = (n - 1).leading_zeros();
            loop {
                let wide = u128::from(self.next_u64()) << 64 | u128::from(self.next_u64());
                if wide >> shift < n {
                    return wide >> shift;
                }
            }
        }
    }

    #[test]
    fn seeded_streams_repeat_and_differ_from_each_other() {
        let draw = |seed: u8| {
            let mut seed = Seed::new(Some([seed; 32])).unwrap();
            let (mut a, mut b) = (seed.stream(), seed.stream());
            (a.next_u64(), b.next_u64())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!(draw(1).0, draw(1).1);
    }

    #[test]
    fn two_handles_have_two_keys() {
        let draw = || Seed::new(None).unwrap().stream().next_u64();
        assert_ne!(draw(), draw());
    }

    /// Two copies of a stream differ once they are renewed, and nothing of the old key is left. A seeded stream stays as
    /// it is.
    #[test]
    fn copies_differ_once_they_are_renewed() {
        let copy = |random: &Random| Random::keyed(random.block.words[..KEY].iter().copied(), random.block.renews);
        for seed in [None, Some([7; 32])] {
            let mut first = Seed::new(seed).unwrap().stream();
            first.next_u64();
            let mut copies = [(); 2].map(|()| copy(&first));
            let [before, now] = [copies.each_mut().map(Random::next_u64), {
                copies.iter_mut().for_each(Random::renew);
                copies.each_mut().map(Random::next_u64)
            }];
            assert_eq!((before[0] == before[1], now[0] == now[1]), (true, seed.is_some()));
        }
        let mut random = Seed::new(None).unwrap().stream();
        random.next_u64();
        let old = random.block.words.to_vec();
        random.renew();
        assert!(random.block.words[KEY..].iter().all(|&word| word == 0));
        assert!(random.block.words[..KEY].iter().zip(&old).all(|(now, old)| now != old));
    }

    #[test]
    fn used_words_and_old_keys_are_gone() {
        let mut random = Seed::new(Some([7; 32])).unwrap().stream();
        let first_key = random.block.words[..KEY].to_vec();
        for _ in 0..10 {
            random.next_u64();
        }
        assert!(random.block.words[KEY..KEY + 20].iter().all(|&w| w == 0));
        assert!(random.block.words[KEY + 20..].iter().any(|&w| w != 0));
        assert_ne!(random.block.words[..KEY], first_key);
        let second_key = random.block.words[..KEY].to_vec();
        (0..WORDS).for_each(|_| _ = random.next_u32());
        assert_ne!(random.block.words[..KEY], second_key);
    }

    #[test]
    fn below_is_in_range_and_uniform() {
        // Chi-square over 7 cells, 70,000 draws: 99.9999% quantile of chi2(6) is 38.3.
        let mut random = Seed::new(Some([3; 32])).unwrap().stream();
        let mut cells = [0f64; 7];
        for _ in 0..70_000 {
            cells[random.below(7) as usize] += 1.0;
        }
        let chi2: f64 = cells.iter().map(|c| (c - 1e4) * (c - 1e4) / 1e4).sum();
        assert!(chi2 < 38.3, "{chi2}");
        for n in [1u128, 5, (1 << 64) + 1, 1 << 100] {
            assert!((0..100).all(|_| random.below_wide(n) < n));
        }
    }

    #[test]
    fn below_rejects_its_surplus() {
        // At n = 3/4 of 2^64, without rejection, a third of the values (by their remainder mod 3) would be twice as
        // frequent. The 99.9999999% quantile of chi2(2) is 2 ln 1e9 = 41.4.
        let mut random = Seed::new(Some([4; 32])).unwrap().stream();
        let narrow: [u64; 3] = cells(|| random.below(3 << 62) % 3);
        assert!(chi2(&narrow) < 41.4, "{narrow:?}");
        let wide: [u64; 3] = cells(|| (random.below_wide(3 << 100) >> 100) as u64);
        assert!(chi2(&wide) < 41.4, "{wide:?}");
        let biased: [u64; 3] = cells(|| (((u128::from(random.next_u64()) * (3 << 62)) >> 64) % 3) as u64);
        assert!(chi2(&biased) > 1000.0, "{biased:?}");
    }

    #[test]
    fn bits_and_units_are_fair() {
        let mut random = Seed::new(Some([6; 32])).unwrap().stream();
        let bits: [u64; 2] = cells(|| random.bit().into());
        assert!(chi2(&bits) < 37.4, "{bits:?}"); // 99.9999999% quantile of chi2(1)
        let units: [u64; 3] = cells(|| (random.unit() * 3.0) as u64);
        assert!(chi2(&units) < 41.4, "{units:?}");
    }

    fn cells<const N: usize>(mut draw: impl FnMut() -> u64) -> [u64; N] {
        let mut cells = [0; N];
        for _ in 0..90_000 {
            cells[draw() as usize] += 1;
        }
        cells
    }

    fn chi2(cells: &[u64]) -> f64 {
        let expected = cells.iter().sum::<u64>() as f64 / cells.len() as f64;
        cells.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum()
    }
}
