//! Discrete Laplace noise: P(X = x) proportional to exp(-|x|/scale).

use super::bernoulli::bernoulli_exp_fraction;
use crate::error::{Error, Result};
use crate::random::Random;

/// The discrete Laplace distribution on the integers, at an integer scale.
///
/// Added to an integer sum of sensitivity `s` it is exactly `s/scale`-DP (Ghosh, Roughgarden,
/// Sundararajan 2009), and the scale is rounded up, so the loss is never above the one asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Laplace {
    scale: u64,
    epsilon: f64,
}

impl Laplace {
    /// Smaller scales would make the rounding of epsilon felt.
    const MIN_SCALE: u64 = 1 << 10;
    /// Larger ones would let a tail overflow a 64-bit sum.
    const MAX_SCALE: u64 = 1 << 50;

    /// Noise that makes a sum of the given sensitivity (grid units) `epsilon`-DP:
    /// scale = ceil(sensitivity/epsilon), from epsilon's own bits.
    ///
    /// # Errors
    /// `InvalidConfig` when epsilon is not finite and positive, or so large or small that the
    /// scale leaves 2^10 ..= 2^50.
    pub fn new(epsilon: f64, sensitivity: u64) -> Result<Laplace> {
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return Err(Error::config("epsilon", "must be finite and > 0", epsilon));
        }
        let scale = ceil_div(sensitivity.into(), epsilon).and_then(|scale| scale.try_into().ok()).unwrap_or(u64::MAX);
        if scale < Self::MIN_SCALE {
            let most = sensitivity / Self::MIN_SCALE;
            return Err(Error::config("epsilon", &format!("must be at most {most} a release"), epsilon));
        }
        if scale > Self::MAX_SCALE {
            let least = sensitivity as f64 / Self::MAX_SCALE as f64;
            return Err(Error::config("epsilon", &format!("must be at least {least:e} a release"), epsilon));
        }
        // Rounded up, unless that is more than was asked for.
        let effective = (sensitivity as f64 / scale as f64).next_up();
        Ok(Laplace { scale, epsilon: effective.min(epsilon) })
    }

    /// The distribution itself, at this scale, for sensitivity 1. `scale > 0`.
    pub fn with_scale(scale: u64) -> Laplace {
        assert!(scale > 0 && scale <= Self::MAX_SCALE, "scale must be in 1..=2^50");
        Laplace { scale, epsilon: 1.0 / scale as f64 }
    }

    /// Less noise than claimed, for the tests that must notice.
    #[cfg(feature = "test-hooks")]
    pub(crate) fn weakened(self, scale: u64) -> Laplace {
        Laplace { scale, ..self }
    }

    /// The effective privacy loss of one release, at most the one asked for.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The scale, in grid units.
    pub fn scale(&self) -> u64 {
        self.scale
    }

    /// One exact sample. Canonne, Kamath, Steinke (2020), Algorithm 2.
    pub fn sample(&self, random: &mut Random) -> i64 {
        loop {
            let fraction = random.below(self.scale);
            if !bernoulli_exp_fraction(random, fraction.into(), self.scale.into()) {
                continue;
            }
            let mut whole = 0;
            while bernoulli_exp_fraction(random, 1, 1) {
                whole += 1;
            }
            let magnitude = (fraction + self.scale * whole) as i64;
            let negative = random.bit();
            if negative && magnitude == 0 {
                continue; // or zero would come twice as often
            }
            return if negative { -magnitude } else { magnitude };
        }
    }

    /// The standard deviation's square, in grid units squared: 2p/(1-p)^2 with p = e^(-1/scale).
    pub fn variance(&self) -> f64 {
        let p = (-1.0 / self.scale as f64).exp();
        let q = -(-1.0 / self.scale as f64).exp_m1();
        2.0 * p / (q * q)
    }

    /// P(|X| > width) <= gamma, in grid units, for gamma in (0, 1]: with p = e^(-1/scale) the tail
    /// P(|X| >= x) is 2p^x/(1+p) <= p^(x-1).
    pub fn width(&self, gamma: f64) -> f64 {
        (self.scale as f64 * (1.0 / gamma).ln()).ceil()
    }
}

/// ceil(n / x) exactly, for finite x > 0; `None` when it does not fit.
pub(super) fn ceil_div(n: u128, x: f64) -> Option<u128> {
    let bits = x.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let (mantissa, power) = if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    // n / (mantissa * 2^power)
    if power > 0 {
        let divisor = if power > 75 { u128::MAX } else { u128::from(mantissa) << power };
        return Some(n.div_ceil(divisor));
    }
    // Long division, one bit of 2^-power at a time.
    let mantissa = u128::from(mantissa);
    let (mut quotient, mut rest) = (n / mantissa, n % mantissa);
    for _ in power..0 {
        (quotient, rest) = (quotient.checked_mul(2)? + 2 * rest / mantissa, 2 * rest % mantissa);
    }
    quotient.checked_add(u128::from(rest > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_rounded_up_exactly() {
        assert_eq!(ceil_div(1 << 20, 0.25), Some(1 << 22));
        assert_eq!(ceil_div(1 << 24, 0.1), Some(167_772_160)); // 0.1 lies above 1/10: 167772159.99..
        assert_eq!(ceil_div(10, 3.0), Some(4));
        assert_eq!(ceil_div(1, 1e300), Some(1));
        assert_eq!(ceil_div(1, 1e-300), None);
        assert_eq!(ceil_div(u128::MAX, f64::MAX), Some(1));
        assert_eq!(ceil_div(u128::MAX, 1.0), Some(u128::MAX));
        assert_eq!(ceil_div(u128::MAX, 0.5), None);
        assert_eq!(ceil_div(1 << 24, 5e-324), None);
        assert_eq!(ceil_div(u64::MAX.into(), 1.0), Some(u64::MAX.into()));
        for epsilon in [0.1, 0.3, 1.0, 2.7, 1e-3] {
            let laplace = Laplace::new(epsilon, 1 << 24).unwrap();
            assert!(laplace.epsilon() <= epsilon && laplace.epsilon() > epsilon * 0.999);
        }
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300] {
            assert!(Laplace::new(epsilon, 1 << 24).is_err(), "{epsilon}");
        }
    }
}
