//! A noise distribution with its own stream of random bits.

use super::{Gaussian, Laplace};
use crate::random::Random;

/// A distribution of exact noise on the integers: [`Laplace`], [`Gaussian`], or [`Noise`], which is either of them.
pub trait Distribution: Copy {
    /// One exact sample, in grid units.
    fn sample(&self, random: &mut Random) -> i64;
}

impl Distribution for Laplace {
    fn sample(&self, random: &mut Random) -> i64 {
        Laplace::sample(self, random)
    }
}

impl Distribution for Gaussian {
    fn sample(&self, random: &mut Random) -> i64 {
        Gaussian::sample(self, random)
    }
}

/// Either distribution, for policies whose caller chooses between pure DP and zCDP.
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
            Noise::Laplace(distribution) => distribution.variance(),
            Noise::Gaussian(distribution) => distribution.variance(),
        }
    }
}

impl Distribution for Noise {
    fn sample(&self, random: &mut Random) -> i64 {
        match self {
            Noise::Laplace(distribution) => distribution.sample(random),
            Noise::Gaussian(distribution) => distribution.sample(random),
        }
    }
}

/// The noise of one policy. Nothing else draws from its stream.
#[derive(Debug)]
pub struct NoiseSource<L = Noise> {
    distribution: L,
    random: Random,
}

/// Laplace noise, for policies that are always pure.
pub type LaplaceSource = NoiseSource<Laplace>;

impl<L: Distribution> NoiseSource<L> {
    /// Noise of this distribution, drawn from this stream.
    pub fn new(distribution: L, random: Random) -> NoiseSource<L> {
        NoiseSource { distribution, random }
    }

    /// The distribution.
    pub fn distribution(&self) -> L {
        self.distribution
    }

    /// Prepares for the samples of one release: see [`Random::renew`].
    pub fn renew(&mut self) {
        self.random.renew();
    }

    /// A fresh, independent sample in grid units.
    pub fn draw(&mut self) -> i64 {
        self.distribution.sample(&mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn noise_has_the_distribution_that_it_wraps() {
        let (laplace, gaussian) = (Laplace::with_scale(1000), Gaussian::with_sigma(1000));
        let stream = || Seed::new(Some([7; 32])).unwrap().stream();
        let draws = |distribution: &dyn Fn(&mut Random) -> i64| {
            let mut random = stream();
            [(); 8].map(|()| distribution(&mut random))
        };
        let (either, other) = (Noise::Laplace(laplace), Noise::Gaussian(gaussian));
        assert_eq!((either.variance(), other.variance()), (laplace.variance(), gaussian.variance()));
        assert_eq!(draws(&|random| either.sample(random)), draws(&|random| laplace.sample(random)));
        assert_eq!(draws(&|random| other.sample(random)), draws(&|random| gaussian.sample(random)));
        assert_ne!(draws(&|random| either.sample(random)), draws(&|random| other.sample(random)));
        fn from_source<L: Distribution + PartialEq + std::fmt::Debug>(distribution: L, random: Random) -> [i64; 8] {
            let mut source = NoiseSource::new(distribution, random);
            assert_eq!(source.distribution(), distribution);
            [(); 8].map(|()| source.draw())
        }
        assert_eq!(from_source(laplace, stream()), draws(&|random| laplace.sample(random)));
        assert_eq!(from_source(gaussian, stream()), draws(&|random| gaussian.sample(random)));
        assert_eq!(from_source(other, stream()), draws(&|random| gaussian.sample(random)));
    }
}
