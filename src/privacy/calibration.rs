//! How much noise the shuffle model's binary sum needs.
//!
//! # What is compared, and why
//!
//! M_sum (Tenenbaum, Kaplan, Mansour, Stemmer 2021, Algorithm 3): each of m users sends its own
//! bit and p coins of probability q, and the shuffler hands on all m (p + 1) bits in random order.
//! Their number is public, so what the server sees is a coin-only function of one number, the
//! count of ones: the users' bits + Binomial(n, q), n = p m, every user's own coins among them.
//! Between neighbours one bit differs and the other bits shift both worlds alike, so the
//! mechanism's privacy is exactly that of X ~ Binomial(n, q) against X + 1: with
//! H(A, B) = sum over k of max(0, A(k) - e^eps B(k)), the mechanism is (eps, delta)-DP if and only
//! if delta >= max(H(X, X + 1), H(X + 1, X)). [`delta_of_binomial_shift`] computes that number,
//! rounded up. All m users must send their coins: a batch in which some do not has less noise.
//!
//! # The search
//!
//! At q = 1/2 one more coin is independent noise on top, which is post-processing: delta never
//! rises with n, and a search finds the smallest number of [`fair_coins`]. With m users every one
//! sends p = ceil(coins/m), which is p m >= coins in all: too many unless m divides, so q is then
//! lowered to c/2^32 <= 1/2 (a coin from 32 random bits, exactly). In q delta is *not* quite
//! monotone: between H's kinks it rises by a little while its envelope falls. So the search keeps
//! a c that was computed to meet (eps, delta) and a c - 1 that was computed to miss it: the guarantee
//! rests on the value at the c in use, never on monotony, and some smaller c below the step
//! may at most save a sliver of noise.
//!
//! The paper's 96 ln(2/delta)/eps^2 coins are 17 times as many at eps = 1 and delta = 1e-6, 13 times at
//! delta = 1e-15, and more where eps is smaller.

use super::binomial::{Binomial, MAX_TRIALS};
use super::search::least_near;
use crate::error::{Error, Result};

/// log2 of the grid of coin probabilities.
const COIN_BITS: u32 = 32;
/// The numerator of a fair coin.
const FAIR: u64 = 1 << (COIN_BITS - 1);
/// The most fair coins in all, so that p m stays within [`MAX_TRIALS`].
const MAX_COINS: u64 = MAX_TRIALS / 2;
/// e^700 is still a double; a larger epsilon is calibrated as 700, which promises more.
const MAX_EPSILON: f64 = 700.0;

/// The noise of one batch of M_sum: beside its own bit each user sends `coins_per_user` coins, each one
/// with probability `coin_numerator / 2^32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShuffleNoise {
    /// p, at least 1.
    pub coins_per_user: u32,
    /// P(coin) * 2^32, in `1 ..= 2^31`.
    pub coin_numerator: u64,
}

impl ShuffleNoise {
    /// The least noise that makes a batch of `expected_users` bits (epsilon, delta)-DP: from epsilon 0.01 to 1
    /// and delta 1e-15 to 1e-6 2.7 to 7.3 ln(1/delta)/epsilon^2 fair coins in all. O(sqrt(coins)) steps a
    /// trial, some 20 trials: microseconds to a tenth of a second, for any number of users.
    ///
    /// # Errors
    /// `InvalidConfig` for `epsilon` not finite and positive, or so small that more than 2^32
    /// coins are needed; `delta` outside (0, 1); no `expected_users`.
    pub fn calibrated(epsilon: f64, delta: f64, users: u32) -> Result<ShuffleNoise> {
        check_users(users)?;
        let coins = fair_coins(epsilon, delta)?;
        let per_user = coins.div_ceil(users.into());
        let Ok(coins_per_user) = u32::try_from(per_user) else {
            return Err(Error::config("epsilon", "needs more than 2^32 coins a user", epsilon));
        };
        let noise = |coin_numerator| ShuffleNoise { coins_per_user, coin_numerator };
        let excess = |numerator| excess(noise(numerator).delta(epsilon, users), delta);
        // p m >= coins, so a fair coin meets delta; numerator 0, no noise, has delta 1.
        let guess = of_the_same_variance(coins, noise(FAIR).coins(users));
        Ok(noise(least_near(guess, FAIR, excess)))
    }

    /// The paper's noise: tau = 96 ln(2/delta)/epsilon^2; up to tau users send ceil(tau/m) fair
    /// coins each, more send one of probability tau/(2m).
    ///
    /// # Errors
    /// As [`calibrated`](Self::calibrated); also for `epsilon` above 1, where the paper's proof
    /// ends.
    pub fn printed(epsilon: f64, delta: f64, users: u32) -> Result<ShuffleNoise> {
        check_users(users)?;
        let tau = printed_tau(epsilon, delta)?;
        let users = f64::from(users);
        Ok(if users <= tau {
            ShuffleNoise { coins_per_user: (tau / users).ceil() as u32, coin_numerator: FAIR }
        } else {
            let numerator = (tau / users * FAIR as f64).ceil() as u64;
            ShuffleNoise { coins_per_user: 1, coin_numerator: numerator.clamp(1, FAIR) }
        })
    }

    /// P(coin), exactly.
    pub fn coin(&self) -> f64 {
        self.coin_numerator as f64 / (1u64 << COIN_BITS) as f64
    }

    /// n, the number of coins in a batch.
    pub fn coins(&self, users: u32) -> u64 {
        u64::from(self.coins_per_user) * u64::from(users)
    }

    /// The noise's mean in a batch of `expected_users`: what the analyzer subtracts.
    pub fn mean(&self, users: u32) -> f64 {
        self.coins(users) as f64 * self.coin()
    }

    /// The noise's variance in a batch of `expected_users`.
    pub fn variance(&self, users: u32) -> f64 {
        self.mean(users) * (1.0 - self.coin())
    }

    /// The delta that a batch of `expected_users` really has at this epsilon, rounded up; 1 where there are
    /// more than 2^33 coins to add up.
    pub fn delta(&self, epsilon: f64, users: u32) -> f64 {
        delta_of_binomial_shift(self.coins(users), self.coin(), epsilon)
    }
}

/// The smallest number of fair coins in all that makes a count (epsilon, delta)-DP.
///
/// # Errors
/// As [`ShuffleNoise::calibrated`].
pub fn fair_coins(epsilon: f64, delta: f64) -> Result<u64> {
    check(epsilon, delta)?;
    let excess = |coins| excess(delta_of_binomial_shift(coins, 0.5, epsilon), delta);
    if excess(MAX_COINS) > 0.0 {
        return Err(Error::config("epsilon", "is too small: more than 2^32 coins are needed", epsilon));
    }
    Ok(least_near(1, MAX_COINS, excess))
}

/// The numerator at which so many coins have the variance of the fewer fair ones: where to look first.
fn of_the_same_variance(fair: u64, coins: u64) -> u64 {
    ((1.0 - (1.0 - fair as f64 / coins as f64).sqrt()) * FAIR as f64) as u64
}

/// How far a delta is above the one that is asked for, less a hair: so that a machine whose logarithm has
/// another last digit, too, finds that a plan made here keeps its claim.
fn excess(delta: f64, asked: f64) -> f64 {
    (delta / (asked * (1.0 - 1e-9))).ln()
}

/// The paper's tau = 96 ln(2/delta)/epsilon^2.
///
/// # Errors
/// As [`ShuffleNoise::printed`].
pub fn printed_tau(epsilon: f64, delta: f64) -> Result<f64> {
    check(epsilon, delta)?;
    if epsilon > 1.0 {
        return Err(Error::config("epsilon", "must be at most 1 for the printed formula", epsilon));
    }
    let tau = 96.0 * (2.0 / delta).ln() / (epsilon * epsilon);
    if tau > MAX_COINS as f64 {
        return Err(Error::config("epsilon", "is too small: more than 2^32 coins are needed", epsilon));
    }
    Ok(tau)
}

/// The delta at which Binomial(coins, q) and the same plus one are (epsilon, delta)-close, both
/// ways, rounded up; 1 for fewer than one coin, for q outside (0, 1) and beyond 2^33 coins.
///
/// H(X, X + 1) = sum over k of P(k) max(0, 1 - e^eps P(k-1)/P(k)), positive up to one k because
/// P(k-1)/P(k) = k (1-q)/((n-k+1) q) rises with k. Mirrored, k -> n - k, the other direction is
/// the same sum at 1 - q. O(sqrt(coins)) steps.
pub fn delta_of_binomial_shift(coins: u64, q: f64, epsilon: f64) -> f64 {
    if coins == 0 || coins > MAX_TRIALS || !(q > 0.0 && q < 1.0) {
        return 1.0;
    }
    let factor = epsilon.clamp(0.0, MAX_EPSILON).exp();
    let one_way = |distribution: Binomial| {
        distribution.mean(|k| (1.0 - factor * distribution.odds_below(k) + 4.0 * f64::EPSILON).clamp(0.0, 1.0))
    };
    let down = one_way(Binomial { n: coins, p: q, q: 1.0 - q });
    let up = if q == 0.5 { down } else { one_way(Binomial { n: coins, p: 1.0 - q, q }) };
    down.max(up).min(1.0) // for an epsilon that is no number, too
}

fn check(epsilon: f64, delta: f64) -> Result<()> {
    if !(epsilon.is_finite() && epsilon > 0.0) {
        return Err(Error::config("epsilon", "must be finite and > 0", epsilon));
    }
    if !(delta > 0.0 && delta < 1.0) {
        return Err(Error::config("delta", "must be in (0, 1)", delta));
    }
    Ok(())
}

fn check_users(users: u32) -> Result<()> {
    if users == 0 { Err(Error::config("users", "must be at least 1", users)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_looks_in_the_right_place_first() {
        for users in [1, 79, 1000, 65_537, 10_000_000, u32::MAX] {
            for (epsilon, delta) in [(1.0, 1e-6), (0.1, 1e-9), (0.01, 1e-6)] {
                let noise = ShuffleNoise::calibrated(epsilon, delta, users).unwrap();
                let guess = of_the_same_variance(fair_coins(epsilon, delta).unwrap(), noise.coins(users));
                let ratio = guess as f64 / noise.coin_numerator as f64;
                assert!((0.5..1.5).contains(&ratio), "{users} {epsilon} {delta}: {ratio}");
            }
        }
    }

    #[test]
    fn what_is_no_law_or_too_large_has_no_bound() {
        for q in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
            assert_eq!(delta_of_binomial_shift(10, q, 1.0), 1.0, "{q}");
        }
        assert_eq!((delta_of_binomial_shift(0, 0.5, 1.0), delta_of_binomial_shift(10, 0.5, f64::NAN)), (1.0, 1.0));
        assert_eq!(delta_of_binomial_shift(MAX_TRIALS + 1, 0.5, 1.0), 1.0);
        assert!(delta_of_binomial_shift(MAX_TRIALS, 0.5, 1e-4) < 0.1);
    }
}
