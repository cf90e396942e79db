//! Bernoulli(exp(-x)) for rational x, the building block of the exact samplers.

use crate::random::Random;

/// True with probability exactly exp(-numerator/denominator).
///
/// Canonne, Kamath, Steinke (2020), Algorithm 1. `denominator > 0`, and
/// `denominator * (numerator / denominator + 64)` must fit 128 bits.
pub fn bernoulli_exp(random: &mut Random, numerator: u128, denominator: u128) -> bool {
    let whole = numerator / denominator;
    for _ in 0..whole {
        if !bernoulli_exp_fraction(random, 1, 1) {
            return false;
        }
    }
    bernoulli_exp_fraction(random, numerator % denominator, denominator)
}

/// The same for a fraction in [0, 1]: von Neumann's alternating series. The number of successes
/// of Bernoulli(x/1), Bernoulli(x/2), ... before the first failure is even with probability e^-x.
pub(crate) fn bernoulli_exp_fraction(random: &mut Random, numerator: u128, denominator: u128) -> bool {
    let mut successes = 0;
    while random.below_wide(denominator * (successes + 1)) < numerator {
        successes += 1;
    }
    successes % 2 == 0
}
