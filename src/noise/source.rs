//! A noise law with its own stream of random bits.

use super::Laplace;
use crate::random::Random;

/// Where one policy's noise comes from: nothing else draws from its stream.
#[derive(Debug)]
pub struct LaplaceSource {
    law: Laplace,
    random: Random,
}

impl LaplaceSource {
    /// This law on this stream.
    pub fn new(law: Laplace, random: Random) -> LaplaceSource {
        LaplaceSource { law, random }
    }

    /// The law.
    pub fn law(&self) -> Laplace {
        self.law
    }

    /// A fresh, independent sample in grid units.
    pub fn draw(&mut self) -> i64 {
        self.law.sample(&mut self.random)
    }
}
