//! What encoder, shuffler and server of one batch agree on.

use crate::error::{Error, Result};
use crate::privacy::calibration::ShuffleNoise;

/// One batch of M_sum (Tenenbaum et al. 2021, Algorithm 3): its size, its noise, its claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    users: u32,
    noise: ShuffleNoise,
    epsilon: f64,
    delta: f64,
}

const MAX_EPSILON: f64 = 100.0;

impl Params {
    /// The plan for a batch of `users`: the least coins that make it (epsilon, delta)-DP, or, when
    /// `printed`, the paper's (some 17 times as many).
    ///
    /// # Errors
    /// As [`ShuffleNoise::calibrated`] and [`ShuffleNoise::printed`]; also for an epsilon above 100,
    /// which hides nothing, and for a batch of more than 2^40 bits.
    pub fn new(epsilon: f64, delta: f64, users: u32, printed: bool) -> Result<Params> {
        if epsilon > MAX_EPSILON {
            return Err(Error::config("epsilon", "must be at most 100 in the shuffle model", epsilon));
        }
        let noise = if printed { ShuffleNoise::printed } else { ShuffleNoise::calibrated };
        Params::with_noise(epsilon, delta, users, noise(epsilon, delta, users)?)
    }

    /// A plan that somebody else made, its claim believed.
    ///
    /// # Errors
    /// `InvalidConfig` for no users, no coins, a coin that is certain or never falls, or more
    /// than 2^40 bits in a batch.
    pub fn with_noise(epsilon: f64, delta: f64, users: u32, noise: ShuffleNoise) -> Result<Params> {
        if users == 0 {
            return Err(Error::config("users", "must be at least 1", users));
        }
        if noise.coins_per_user == 0 {
            return Err(Error::config("coins_per_user", "must be at least 1", 0));
        }
        if !(1..=1 << 31).contains(&noise.coin_numerator) {
            return Err(Error::config("coin_numerator", "must be in 1..=2^31", noise.coin_numerator));
        }
        let bits = u64::from(users) * (u64::from(noise.coins_per_user) + 1);
        if bits > 1 << 40 || usize::try_from(bits).is_err() {
            return Err(Error::config("users", "must send at most 2^40 bits in all", users));
        }
        Ok(Params { users, noise, epsilon, delta })
    }

    /// m, messages in a batch.
    pub fn users(&self) -> u32 {
        self.users
    }

    /// The coins beside each user's bit.
    pub fn noise(&self) -> ShuffleNoise {
        self.noise
    }

    /// The epsilon of the claim.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The delta of the claim.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// Bits, and bytes, of one message: the user's own and the coins.
    pub fn message_len(&self) -> usize {
        1 + self.noise.coins_per_user as usize
    }

    /// Bits, and bytes, of one batch.
    pub fn batch_len(&self) -> usize {
        self.users as usize * self.message_len()
    }

    /// What the analyzer subtracts from the count of ones.
    pub fn noise_mean(&self) -> f64 {
        self.noise.mean(self.users)
    }

    /// The noise's variance.
    pub fn noise_variance(&self) -> f64 {
        self.noise.variance(self.users)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calibrated_plan_needs_far_fewer_coins() {
        let (ours, printed) = (Params::new(1.0, 1e-6, 1, false).unwrap(), Params::new(1.0, 1e-6, 1, true).unwrap());
        assert!(ours.noise().coins_per_user * 10 < printed.noise().coins_per_user);
        assert_eq!(ours.message_len(), 1 + ours.noise().coins_per_user as usize);
    }

    #[test]
    fn refuses_plans_without_noise() {
        let noise = |coins_per_user, coin_numerator| ShuffleNoise { coins_per_user, coin_numerator };
        for bad in [noise(0, 1 << 31), noise(1, 0), noise(1, (1 << 31) + 1)] {
            assert!(Params::with_noise(1.0, 1e-6, 10, bad).is_err());
        }
        assert!(Params::with_noise(1.0, 1e-6, 0, noise(1, 1)).is_err());
        assert!(Params::with_noise(1.0, 1e-6, u32::MAX, noise(u32::MAX, 1)).is_err());
        assert!(Params::with_noise(1.0, 1e-6, 10, noise(1, 1)).is_ok());
    }
}
