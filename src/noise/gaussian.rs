//! Draws discrete Gaussian noise: P(X = x) proportional to exp(-x^2/(2 sigma^2)).

use super::Laplace;
use super::exponential::Exponential;
use super::laplace::{MAX_SCALE, ceil_div, check_scale};
use crate::error::{Result, check_positive};
use crate::random::Random;

/// The discrete Gaussian distribution on the integers, at an integer sigma.
///
/// Added to an integer sum of sensitivity `s` it is exactly `s^2/(2 sigma^2)`-zCDP (Canonne, Kamath, Steinke 2020,
/// Theorem 4). Sigma is rounded up to a whole number of grid units, so the loss never exceeds the requested one. An
/// integer sigma also keeps the sampler's numbers within 128 bits; with an arbitrary rational variance on so fine a
/// grid they would not be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaussian {
    sigma: u64,
    /// With 2^bits the smallest power of two above sigma: 54 - bits, and 2^(62 + bits)/sigma, rounded down.
    shift: u32,
    reciprocal: u64,
    rho: f64,
    proposal: Laplace,
}

impl Gaussian {
    /// Noise that makes a sum of the given sensitivity (grid units) `rho`-zCDP:
    /// sigma = ceil(sensitivity/sqrt(2 rho)), from rho's own bits.
    ///
    /// # Errors
    /// `InvalidConfig` if rho is not finite and positive, or sigma would be outside 2^10 ..= 2^50.
    pub fn new(rho: f64, sensitivity: u64) -> Result<Gaussian> {
        check_positive("rho", rho)?;
        let square = u128::from(sensitivity) * u128::from(sensitivity);
        let variance = ceil_div(square, (2.0 * rho).min(f64::MAX)).unwrap_or(u128::MAX);
        let sigma = ceil_sqrt(variance);
        let rho_at = |sigma: u64| square as f64 / (2.0 * (sigma as f64).powi(2));
        check_scale(sigma, "rho", rho, rho_at)?;
        // Covers three roundings, of half a unit in the last place each.
        let effective = rho_at(sigma) * (1.0 + 2.0 * f64::EPSILON);
        Ok(Gaussian { rho: effective.min(rho), ..Self::with_sigma(sigma) })
    }

    /// The distribution with this sigma, for sensitivity 1. `sigma` in `1..=2^50`.
    pub fn with_sigma(sigma: u64) -> Gaussian {
        assert!((1..=MAX_SCALE).contains(&sigma), "sigma must be in 1..=2^50");
        let rho = 0.5 / (sigma as f64).powi(2);
        let bits = sigma.ilog2() + 1;
        let reciprocal = ((1u128 << (62 + bits)) / u128::from(sigma)) as u64;
        Gaussian { sigma, shift: 54 - bits, reciprocal, rho, proposal: Laplace::with_scale(sigma) }
    }

    /// The zCDP loss of one release, at most the requested one.
    pub fn rho(&self) -> f64 {
        self.rho
    }

    /// The parameter sigma, in grid units.
    pub fn sigma(&self) -> u64 {
        self.sigma
    }

    /// One exact sample.
    ///
    /// Canonne, Kamath, Steinke (2020), Algorithm 3. Any scale of the proposal gives the same distribution; here it
    /// is sigma. exp(-|y|/sigma) * exp(-(|y| - sigma)^2/(2 sigma^2)) is proportional to exp(-y^2/(2 sigma^2)). Three
    /// proposals in four are accepted.
    pub fn sample(&self, random: &mut Random) -> i64 {
        loop {
            let (proposed, bits) = self.proposal.draw_and_bits(random);
            let distance = proposed.unsigned_abs().abs_diff(self.sigma);
            let exact = || [u128::from(distance).pow(2), 2 * u128::from(self.sigma).pow(2)];
            // An Exp(1) is at least x with probability e^-x.
            if Exponential::draw_is_at_least(bits, self.exponent(distance), exact, random) {
                return proposed;
            }
        }
    }

    /// Bounds of distance^2/(2 sigma^2), in units of 2^-64. A distance of 2^9 sigma or more has a probability below
    /// 2^-700.
    #[inline]
    fn exponent(&self, distance: u64) -> [u128; 2] {
        // In units of 2^-52, up to 1.5 too small: the error of the reciprocal counts as distance 2^shift/2^64 < 0.5.
        let ratio = (u128::from(distance << self.shift) * u128::from(self.reciprocal)) >> 64;
        let low = (ratio * ratio) >> 41;
        [low, low + (ratio >> 39) + 2]
    }

    /// Sigma squared, in grid units squared: an upper bound of the variance. It exceeds the variance by less than a
    /// part in 10^6, for every sigma.
    pub fn variance(&self) -> f64 {
        (self.sigma as f64).powi(2)
    }
}

/// ceil(sqrt(n)), or `u64::MAX` when it does not fit.
fn ceil_sqrt(n: u128) -> u64 {
    let root = n.isqrt();
    u64::try_from(root + u128::from(root * root < n)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigma_is_rounded_up_exactly() {
        for (n, root) in [(0, 0), (1, 1), (2, 2), (4, 2), (5, 3), (1 << 100, 1 << 50), ((1 << 100) + 1, (1 << 50) + 1)]
        {
            assert_eq!(ceil_sqrt(n), root);
        }
        assert_eq!(ceil_sqrt(u128::MAX), u64::MAX);
        assert_eq!(Gaussian::new(0.5, 1 << 24).unwrap().sigma(), 1 << 24);
        assert_eq!(Gaussian::new(0.5, 1 << 24).unwrap().rho(), 0.5);
        assert_eq!(Gaussian::new(0.5f64.next_down(), 1 << 24).unwrap().sigma(), (1 << 24) + 1);
        assert_eq!(Gaussian::new(2.0, 1 << 24).unwrap().sigma(), 1 << 23);
        for rho in [1e-9, 1e-3, 0.1, 0.3, 1.0, 7.0] {
            let gaussian = Gaussian::new(rho, 1 << 24).unwrap();
            assert!(gaussian.rho() <= rho && gaussian.rho() > rho * 0.999_999);
        }
    }

    #[test]
    fn the_exponent_is_within_its_bounds() {
        for sigma in [1u64, 2, 3, 5, 7, 1000, 1 << 10, (1 << 20) - 1, (1 << 20) + 1, 12_345_678] {
            let distribution = Gaussian::with_sigma(sigma);
            for distance in (0..60 * sigma).step_by(1 + sigma as usize / 50).chain([1, sigma - 1, sigma, 60 * sigma]) {
                let [low, high] = distribution.exponent(distance);
                let (square, variance) = (u128::from(distance).pow(2) << 63, u128::from(sigma).pow(2));
                assert!(low <= square / variance && square.div_ceil(variance) <= high, "{sigma} {distance}");
                assert!(high - low < 1 << 20);
            }
        }
        let largest = Gaussian::with_sigma(1 << 50);
        assert_eq!(largest.exponent(3 << 50)[0], 9 << 63);
    }

    #[test]
    fn sigma_squared_bounds_the_variance_tightly() {
        for sigma in [1u64, 2, 10, 100] {
            let distribution = Gaussian::with_sigma(sigma);
            let weight = |x: u64| (-0.5 * (x as f64 / sigma as f64).powi(2)).exp();
            let most = 40 * sigma;
            let total = 1.0 + 2.0 * (1..=most).map(weight).sum::<f64>();
            let variance = 2.0 * (1..=most).map(|x| (x as f64).powi(2) * weight(x)).sum::<f64>() / total;
            assert!(
                variance <= distribution.variance() * (1.0 + 1e-12)
                    && variance > distribution.variance() * (1.0 - 1e-6)
            );
        }
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        for rho in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300, f64::MAX, 5e-324] {
            assert!(Gaussian::new(rho, 1 << 24).is_err(), "{rho}");
        }
        // Sigma ranges from 2^10 to 2^50, and the message names the last valid rho.
        let refusal = |rho| Gaussian::new(rho, 1 << 24).unwrap_err().to_string();
        for (rho, sigma) in [(2f64.powi(27), 1 << 10), (2f64.powi(-53), 1 << 50)] {
            let distribution = Gaussian::new(rho, 1 << 24).unwrap();
            assert_eq!((distribution.sigma(), distribution.rho()), (sigma, rho));
        }
        let (large, small) = (2f64.powi(27) * 1.01, 2f64.powi(-53) / 1.01);
        assert!(refusal(large).contains("at most 134217728 a release"), "{}", refusal(large));
        assert!(refusal(small).contains(&format!("at least {:e} a release", 2f64.powi(-53))), "{}", refusal(small));
        assert_eq!(Gaussian::with_sigma(4).rho(), 1.0 / 32.0);
    }
}
