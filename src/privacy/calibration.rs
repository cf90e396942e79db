//! Computes how much noise the binary sum of the shuffle model needs.
//!
//! # What is compared, and why
//!
//! M_sum (Tenenbaum, Kaplan, Mansour, Stemmer 2021, Algorithm 3): each of m users sends one bit of data and p coins
//! of probability q, and the shuffler forwards all m (p + 1) bits in random order. The number of bits is public, so
//! the server's view depends only on the count of ones and on coins. The count is the users' bits + Binomial(n, q),
//! n = p m, which includes every user's own coins. Neighbours differ in one bit, and the other bits shift both worlds
//! alike. So the mechanism's privacy is exactly that of X ~ Binomial(n, q) against X + 1: with H(A, B) = sum over k
//! of max(0, A(k) - e^eps B(k)), the mechanism is (eps, delta)-DP if and only if delta >= max(H(X, X + 1), H(X + 1,
//! X)). [`delta_of_binomial_shift`] computes that number, rounded up. All m users must send their coins: a batch in
//! which some do not has less noise.
//!
//! # The search
//!
//! At q = 1/2 one more coin is independent noise on top, which is post-processing. So delta never increases with n,
//! and a search finds the smallest number of [`fair_coins`]. With m users each one sends p = ceil(coins/m), which is
//! p m >= coins in all. That is too many unless m divides coins, so q is then lowered to c/2^32 <= 1/2 (a coin from
//! 32 random bits, exactly). In q delta is *not* quite monotone: between H's kinks it increases a little while its
//! envelope decreases. So the search ends at a c that was computed to meet (eps, delta), with a c - 1 that was
//! computed to miss it. The guarantee rests on the value at the c in use, never on monotonicity. Some smaller c may
//! also meet (eps, delta), and would save very little noise.
//!
//! The paper uses 96 ln(2/delta)/eps^2 coins. That is 17 times as many at eps = 1 and delta = 1e-6, 13 times at
//! delta = 1e-15, and more at smaller eps.

use super::binomial::{Binomial, MAX_TRIALS};
use super::search::least_near;
use crate::error::{Error, Result, check_positive, check_share};

/// log2 of the grid of coin probabilities.
const COIN_BITS: u32 = 32;
/// The numerator of a fair coin.
const FAIR: u64 = 1 << (COIN_BITS - 1);
/// Maximum number of fair coins in all, so that p m stays within [`MAX_TRIALS`].
const MAX_COINS: u64 = MAX_TRIALS / 2;
/// Largest epsilon whose exponential is computed: e^700 is still a double. A larger epsilon is calibrated as 700, which
/// is a stronger guarantee.
const MAX_EPSILON: f64 = 700.0;

/// The noise of one batch of M_sum: in addition to its own bit, each user sends `coins_per_user` coins, each one with
/// probability `coin_numerator / 2^32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShuffleNoise {
    /// p, at least 1.
    pub coins_per_user: u32,
    /// P(coin) * 2^32, in `1 ..= 2^31`.
    pub coin_numerator: u64,
}

impl ShuffleNoise {
    /// The least noise that makes a batch of `users` bits (epsilon, delta)-DP. For epsilon from 0.01 to 1 and delta
    /// from 1e-15 to 1e-6 it has 2.7 to 7.3 ln(1/delta)/epsilon^2 fair coins in all. About 20 trials of
    /// O(sqrt(coins)) steps: microseconds to a tenth of a second, for any number of users.
    ///
    /// # Errors
    /// `InvalidConfig` if `epsilon` is not finite and positive, or so small that more than 2^32 coins are needed; if
    /// `delta` is outside (0, 1); if `users` is 0.
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

    /// The paper's noise: tau = 96 ln(2/delta)/epsilon^2. Up to tau users send ceil(tau/m) fair coins each. If there
    /// are more users, each sends one coin of probability tau/(2m).
    ///
    /// # Errors
    /// As [`calibrated`](Self::calibrated); also for `epsilon` above 1, which the paper's proof does not cover.
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

    /// The mean of the noise in a batch of `users`, which the analyzer subtracts.
    pub fn mean(&self, users: u32) -> f64 {
        self.coins(users) as f64 * self.coin()
    }

    /// The variance of the noise in a batch of `users`.
    pub fn variance(&self, users: u32) -> f64 {
        self.mean(users) * (1.0 - self.coin())
    }

    /// The delta of a batch of `users` at this epsilon, computed and rounded up; 1 if there are more than 2^33 coins.
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

/// The numerator at which `coins` coins have the variance of `fair` fair ones: the initial guess.
fn of_the_same_variance(fair: u64, coins: u64) -> u64 {
    ((1.0 - (1.0 - fair as f64 / coins as f64).sqrt()) * FAIR as f64) as u64
}

/// ln(delta/asked), with `asked` reduced by 1e-9, so that a machine whose logarithm has another last digit also
/// accepts a plan made here.
fn excess(delta: f64, asked: f64) -> f64 {
    (delta / (asked * (1.0 - 1e-9))).ln()
}

/// The paper's tau = 96 ln(2/delta)/epsilon^2.
///
/// # Errors
/// As [`ShuffleNoise::printed`].
pub fn printed_tau(epsilon: f64, delta: f64) -> Result<f64> {
    check(epsilon, delta)?;
    Error::unless(epsilon <= 1.0, "epsilon", "must be at most 1 for the printed formula", epsilon)?;
    let tau = 96.0 * (2.0 / delta).ln() / (epsilon * epsilon);
    if tau > MAX_COINS as f64 {
        return Err(Error::config("epsilon", "is too small: more than 2^32 coins are needed", epsilon));
    }
    Ok(tau)
}

/// The smallest delta for which Binomial(coins, q) and the same plus one are (epsilon, delta)-close in both directions,
/// rounded up; 1 for fewer than one coin, for q outside (0, 1) and beyond 2^33 coins.
///
/// H(X, X + 1) = sum over k of P(k) max(0, 1 - e^eps P(k-1)/P(k)). Its terms are positive up to one k because
/// P(k-1)/P(k) = k (1-q)/((n-k+1) q) increases with k. Mirrored, k -> n - k, the other direction is the same sum at
/// 1 - q. O(sqrt(coins)) steps.
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
    down.max(up).min(1.0) // also for a NaN epsilon
}

fn check(epsilon: f64, delta: f64) -> Result<()> {
    check_positive("epsilon", epsilon)?;
    check_share("delta", delta)
}

pub(crate) fn check_users(users: u32) -> Result<()> {
    Error::unless(users > 0, "users", "must be at least 1", users)
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
    fn without_a_distribution_there_is_no_bound() {
        for q in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
            assert_eq!(delta_of_binomial_shift(10, q, 1.0), 1.0, "{q}");
        }
        assert_eq!((delta_of_binomial_shift(0, 0.5, 1.0), delta_of_binomial_shift(10, 0.5, f64::NAN)), (1.0, 1.0));
        assert_eq!(delta_of_binomial_shift(MAX_TRIALS + 1, 0.5, 1.0), 1.0);
        assert!(delta_of_binomial_shift(MAX_TRIALS, 0.5, 1e-4) < 0.1);
    }
}
