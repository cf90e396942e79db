//! A noise law with its own stream of random bits.

use super::{Gaussian, Laplace};
use crate::random::Random;

/// A law of exact noise on the integers: one of the two, or [`Noise`], either of them.
pub trait Law: Copy {
    /// One exact sample, in grid units.
    fn sample(&self, random: &mut Random) -> i64;
}

impl Law for Laplace {
    fn sample(&self, random: &mut Random) -> i64 {
        Laplace::sample(self, random)
    }
}

impl Law for Gaussian {
    fn sample(&self, random: &mut Random) -> i64 {
        Gaussian::sample(self, random)
    }
}

/// Either law, for policies that leave the choice between pure DP and zCDP to their caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Pure DP.
    Laplace(Laplace),
    /// Zero-concentrated DP.
    Gaussian(Gaussian),
}

impl Noise {
    /// The variance (for Gaussian noise an upper bound), in grid units squared.
    pub fn variance(&self) -> f64 {
        match self {
            Noise::Laplace(law) => law.variance(),
            Noise::Gaussian(law) => law.variance(),
        }
    }

    /// P(|X| > width) <= gamma, in grid units, for gamma in (0, 1].
    pub fn width(&self, gamma: f64) -> f64 {
        self.width_at(-gamma.ln())
    }

    /// The same at gamma = e^-exponent.
    pub(crate) fn width_at(&self, exponent: f64) -> f64 {
        match self {
            Noise::Laplace(law) => law.width_at(exponent),
            Noise::Gaussian(law) => law.width_at(exponent),
        }
    }
}

impl Law for Noise {
    fn sample(&self, random: &mut Random) -> i64 {
        match self {
            Noise::Laplace(law) => law.sample(random),
            Noise::Gaussian(law) => law.sample(random),
        }
    }
}

/// Where one policy's noise comes from: nothing else draws from its stream.
#[derive(Debug)]
pub struct NoiseSource<L = Noise> {
    law: L,
    random: Random,
}

/// Laplace noise, for the policies that are pure.
pub type LaplaceSource = NoiseSource<Laplace>;

impl<L: Law> NoiseSource<L> {
    /// This law on this stream.
    pub fn new(law: L, random: Random) -> NoiseSource<L> {
        NoiseSource { law, random }
    }

    /// The law.
    pub fn law(&self) -> L {
        self.law
    }

    /// A fresh, independent sample in grid units.
    pub fn draw(&mut self) -> i64 {
        self.law.sample(&mut self.random)
    }
}
