//! A noise distribution with its own stream of random bits.

use super::{Gaussian, Laplace};
use crate::random::Random;

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

    /// One exact sample, in grid units.
    pub fn sample(&self, random: &mut Random) -> i64 {
        match self {
            Noise::Laplace(distribution) => distribution.sample(random),
            Noise::Gaussian(distribution) => distribution.sample(random),
        }
    }
}

/// The noise of one policy. Nothing else draws from its stream.
#[derive(Debug)]
pub struct NoiseSource {
    distribution: Noise,
    random: Random,
}

impl NoiseSource {
    /// Noise of this distribution, drawn from this stream.
    pub fn new(distribution: Noise, random: Random) -> NoiseSource {
        NoiseSource { distribution, random }
    }

    /// The distribution.
    pub fn distribution(&self) -> Noise {
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
        for distribution in [either, other] {
            let mut source = NoiseSource::new(distribution, stream());
            assert_eq!(source.distribution(), distribution);
            assert_eq!([(); 8].map(|()| source.draw()), draws(&|random| distribution.sample(random)));
        }
    }
}
