//! Draws discrete Laplace noise: P(X = x) proportional to exp(-|x|/scale).

use super::exponential::Exponential;
use crate::error::{Error, Result, Value, check_positive};
use crate::random::Random;

/// The discrete Laplace distribution on the integers, at an integer scale.
///
/// Added to an integer sum of sensitivity `s` it is exactly `s/scale`-DP (Ghosh, Roughgarden, Sundararajan 2009). The
/// scale is rounded up, so the loss never exceeds the requested one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Laplace {
    scale: u64,
    epsilon: f64,
}

impl Laplace {
    /// Noise that makes a sum of the given sensitivity (grid units) `epsilon`-DP:
    /// scale = ceil(sensitivity/epsilon), from epsilon's own bits.
    ///
    /// # Errors
    /// `InvalidConfig` if epsilon is not finite and positive, or the scale would be outside 2^10 ..= 2^50.
    pub fn new(epsilon: f64, sensitivity: u64) -> Result<Laplace> {
        check_positive("epsilon", epsilon)?;
        let scale = ceil_div(sensitivity.into(), epsilon).and_then(|scale| scale.try_into().ok()).unwrap_or(u64::MAX);
        let epsilon_at = |scale: u64| sensitivity as f64 / scale as f64;
        check_scale(scale, "epsilon", epsilon, epsilon_at)?;
        // Rounded up, but never above the requested epsilon.
        Ok(Laplace { scale, epsilon: epsilon_at(scale).next_up().min(epsilon) })
    }

    /// The distribution with this scale, for sensitivity 1. `scale` in `1..=2^50`.
    pub fn with_scale(scale: u64) -> Laplace {
        assert!((1..=MAX_SCALE).contains(&scale), "scale must be in 1..=2^50");
        Laplace { scale, epsilon: 1.0 / scale as f64 }
    }

    /// The privacy loss of one release, at most the requested one.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The scale, in grid units.
    pub fn scale(&self) -> u64 {
        self.scale
    }

    /// One exact sample.
    pub fn sample(&self, random: &mut Random) -> i64 {
        self.draw_and_bits(random).0
    }

    /// Exact inversion: floor(scale * Exp(1)) is geometric with ratio e^(-1/scale). It gets a random sign. The second
    /// value's lowest 31 bits are random and independent of the sample.
    #[inline]
    pub(super) fn draw_and_bits(&self, random: &mut Random) -> (i64, u32) {
        loop {
            let bits = random.next_u64();
            let fraction = random.next_u64();
            let magnitude = Exponential::new((bits >> 32) as u32, fraction, random).times(self.scale, random);
            let negative = bits & 1;
            if magnitude | (negative ^ 1) == 0 {
                continue; // -0 is rejected, because zero would be twice as frequent
            }
            let sign = (negative as i64).wrapping_neg();
            return ((magnitude as i64 ^ sign) - sign, bits as u32 >> 1);
        }
    }

    /// The variance, in grid units squared: 2p/(1-p)^2 with p = e^(-1/scale).
    pub fn variance(&self) -> f64 {
        let p = (-1.0 / self.scale as f64).exp();
        let q = -(-1.0 / self.scale as f64).exp_m1();
        2.0 * p / (q * q)
    }
}

/// Smallest scale; a smaller one would make the rounding of epsilon or rho noticeable.
const MIN_SCALE: u64 = 1 << 10;
/// Largest scale; with a larger one a tail could overflow a 64-bit sum, and the Gaussian sampler's products 128 bits.
pub(super) const MAX_SCALE: u64 = 1 << 50;

/// Refuses the loss of a release if its noise has a scale out of range. `loss_at` is the loss at a scale.
pub(super) fn check_scale(scale: u64, field: &'static str, loss: f64, loss_at: impl Fn(u64) -> f64) -> Result<()> {
    let rule = match scale {
        0..MIN_SCALE => format!("must be at most {} a release", Value::from(loss_at(MIN_SCALE))),
        MIN_SCALE..=MAX_SCALE => return Ok(()),
        _ => format!("must be at least {} a release", Value::from(loss_at(MAX_SCALE))),
    };
    Err(Error::config(field, &rule, loss))
}

/// ceil(n / x) exactly, for finite x > 0; `None` if it does not fit.
pub(super) fn ceil_div(n: u128, x: f64) -> Option<u128> {
    let bits = x.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let (mantissa, power) = if exponent == 0 { (fraction, -1074) } else { (fraction + (1 << 52), exponent - 1075) };
    // n / (mantissa * 2^power)
    if power >= 0 {
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

    /// a * b * 2^shift, in words of 64 bits, least significant first, without leading zeros.
    fn product(a: u128, b: u64, shift: u32) -> Vec<u64> {
        let mut words = vec![0u64; (shift / 64) as usize];
        let mut carry = 0;
        for half in [a as u64, (a >> 64) as u64] {
            let part = u128::from(half) * u128::from(b) + carry;
            words.push(part as u64);
            carry = part >> 64;
        }
        words.push(carry as u64);
        words.push(0);
        if !shift.is_multiple_of(64) {
            for i in (0..words.len()).rev() {
                let below = if i == 0 { 0 } else { words[i - 1] >> (64 - shift % 64) };
                words[i] = words[i] << (shift % 64) | below;
            }
        }
        while words.last() == Some(&0) {
            words.pop();
        }
        words
    }

    /// Whether a <= b, for two products.
    fn at_most(a: &[u64], b: &[u64]) -> bool {
        a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev())).is_le()
    }

    #[test]
    fn the_division_agrees_with_big_integers() {
        let mut random = crate::random::Seed::new(Some([5; 32])).unwrap().stream();
        let (mut fitting, mut exact) = (0, 0);
        for round in 0..200_000 {
            // Even rounds: arbitrary numbers. Odd rounds: n is a multiple of the mantissa, or next to one.
            let mantissa = (random.next_u64() >> 12 | 1 << 52) >> random.below(50);
            let power = random.below(180) as i32 - 130;
            let wide = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            let n = if round % 2 == 0 {
                wide >> random.below(127)
            } else {
                u128::from(mantissa) * u128::from(random.next_u64() >> random.below(64)) + 1
                    - u128::from(random.below(3)).min(1)
            };
            let x = mantissa as f64 * 2f64.powi(power);
            // n <= c x and not n <= (c - 1) x, both sides times 2^-power where it is negative.
            let (up, down) = (power.max(0) as u32, (-power).max(0) as u32);
            let covers = |c: u128| at_most(&product(n, 1, down), &product(c, mantissa, up));
            match ceil_div(n, x) {
                Some(c) => {
                    assert!(covers(c) && (c == 0 || !covers(c - 1)), "{n} / {x}: {c}");
                    fitting += 1;
                    exact += u32::from(product(n, 1, down) == product(c, mantissa, up));
                }
                None => assert!(!covers(u128::MAX), "{n} / {x}"),
            }
        }
        assert!(fitting > 50_000 && exact > 1_000, "{fitting} {exact}");
    }

    #[test]
    fn the_variance_is_that_of_the_distribution() {
        for scale in [1u64, 2, 10, 1000] {
            let weight = |x: u64| (-(x as f64) / scale as f64).exp();
            let (mut total, mut squares) = (1.0, 0.0);
            for x in 1..=60 * scale {
                total += 2.0 * weight(x);
                squares += 2.0 * (x as f64).powi(2) * weight(x);
            }
            let distribution = Laplace::with_scale(scale);
            assert!((distribution.variance() / (squares / total) - 1.0).abs() < 1e-9, "{scale}");
            assert_eq!((distribution.scale(), distribution.epsilon()), (scale, 1.0 / scale as f64));
        }
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300] {
            assert!(Laplace::new(epsilon, 1 << 24).is_err(), "{epsilon}");
        }
        // Scales range from 2^10 to 2^50, and the message names the last valid epsilon.
        let refusal = |epsilon| Laplace::new(epsilon, 1 << 24).unwrap_err().to_string();
        for epsilon in [2f64.powi(14), 2f64.powi(-26)] {
            assert_eq!(Laplace::new(epsilon, 1 << 24).unwrap().epsilon(), epsilon);
        }
        assert!(refusal(2f64.powi(14) + 17.0).contains("at most 16384 a release"), "{}", refusal(2f64.powi(14) + 17.0));
        let least = format!("at least {:e} a release", 2f64.powi(-26));
        assert!(refusal(2f64.powi(-26).next_down()).contains(&least), "{}", refusal(2f64.powi(-26).next_down()));
    }
}
