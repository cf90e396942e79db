//! Randomness for simulated rewards, separate from the library's.

/// Bernoulli rewards from a generator of its own.
#[derive(Default)]
pub struct Coins(pub u64);

impl Coins {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform on `0..n`, nearly.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    pub fn toss(&mut self, p: f64) -> f64 {
        f64::from(u8::from(((self.next() >> 11) as f64) < p * (1u64 << 53) as f64))
    }
}
