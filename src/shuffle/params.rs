//! The parameters that encoder, shuffler and server of one batch share, with a checked privacy claim.

use crate::error::{Error, Result, Value, check_share};
use crate::privacy::calibration::{ShuffleNoise, check_users};

/// One batch of M_sum (Tenenbaum et al. 2021, Algorithm 3): its size, its noise, and the (epsilon, delta) that it
/// claims.
///
/// The claim holds: parameters whose noise gives less cannot be created. So a device that encodes with the server's
/// parameters, and a shuffler that closes batches by them, rely on their own computation only. They must read *what* is
/// claimed ([`epsilon`](Self::epsilon), [`delta`](Self::delta)), because parameters may claim little privacy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    users: u32,
    noise: ShuffleNoise,
    epsilon: f64,
    delta: f64,
}

/// Largest epsilon; beyond it nothing is hidden.
const MAX_EPSILON: f64 = 100.0;
/// A message is at most a megabyte. No device sends more, and no server simulates more in time.
const MAX_COINS_PER_USER: u32 = 1 << 20;

impl Params {
    /// Parameters for a batch of `users`: the fewest coins that make it (epsilon, delta)-DP, or, if `printed`, the
    /// paper's (at least 13 times as many).
    ///
    /// # Errors
    /// As [`ShuffleNoise::calibrated`] and [`ShuffleNoise::printed`], and as
    /// [`with_noise`](Self::with_noise).
    pub fn new(epsilon: f64, delta: f64, users: u32, printed: bool) -> Result<Params> {
        let noise = if printed { ShuffleNoise::printed } else { ShuffleNoise::calibrated };
        let noise = noise(epsilon, delta, users)?;
        if noise.coins_per_user > MAX_COINS_PER_USER {
            let rule = format!("must not be so small that {users} users must send more than 2^20 coins each");
            return Err(Error::config("epsilon", &rule, epsilon));
        }
        Params::with_noise(epsilon, delta, users, noise)
    }

    /// Parameters that somebody else created. Their claim is checked: the noise's delta at this epsilon is computed
    /// ([`ShuffleNoise::delta`]), in about 0.2/epsilon microseconds, 4 milliseconds at most.
    ///
    /// # Errors
    /// `InvalidConfig` if the noise does not make the batch (epsilon, delta)-DP; if epsilon is not in (0, 100] or
    /// delta not in (0, 1); if there are no users, no coins, more than 2^20 coins a user, a coin of probability 0 or
    /// above 1/2, or more than 2^40 bits in a batch.
    pub fn with_noise(epsilon: f64, delta: f64, users: u32, noise: ShuffleNoise) -> Result<Params> {
        let rule = "must be in (0, 100] in the shuffle model";
        Error::unless(epsilon > 0.0 && epsilon <= MAX_EPSILON, "epsilon", rule, epsilon)?;
        check_share("delta", delta)?;
        check_users(users)?;
        let (coins, numerator) = (noise.coins_per_user, noise.coin_numerator);
        Error::unless((1..=MAX_COINS_PER_USER).contains(&coins), "coins_per_user", "must be in 1 .. 2^20", coins)?;
        Error::unless((1..=1 << 31).contains(&numerator), "coin_numerator", "must be in 1 .. 2^31", numerator)?;
        let bits = u64::from(users) * (u64::from(coins) + 1);
        let fits = bits <= 1 << 40 && usize::try_from(bits).is_ok();
        Error::unless(fits, "users", "must send at most 2^40 bits in all", users)?;
        let real = noise.delta(epsilon, users);
        if real > delta {
            let rule = format!("must give delta {}, or less, at epsilon {}", Value::from(delta), Value::from(epsilon));
            return Err(Error::config("coins_per_user", &rule, real));
        }
        Ok(Params { users, noise, epsilon, delta })
    }

    /// Parameters whose claim may be false, for the tests that must detect that.
    #[cfg(test)]
    pub fn unchecked(epsilon: f64, delta: f64, users: u32, noise: ShuffleNoise) -> Params {
        Params { users, noise, epsilon, delta }
    }

    /// m, the number of messages in a batch.
    pub fn users(&self) -> u32 {
        self.users
    }

    /// The coins that each user sends in addition to its bit.
    pub fn noise(&self) -> ShuffleNoise {
        self.noise
    }

    /// The claimed epsilon.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The claimed delta.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// Length of one message, in bits and in bytes: the user's own bit and the coins.
    pub fn message_len(&self) -> usize {
        1 + self.noise.coins_per_user as usize
    }

    /// Length of one batch, in bits and in bytes.
    pub fn batch_len(&self) -> usize {
        self.users as usize * self.message_len()
    }

    /// The number that the analyzer subtracts from the count of ones.
    pub fn noise_mean(&self) -> f64 {
        self.noise.mean(self.users)
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
    fn refuses_what_is_no_plan() {
        let noise = |coins_per_user, coin_numerator| ShuffleNoise { coins_per_user, coin_numerator };
        let field = |outcome| match outcome {
            Err(Error::InvalidConfig { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        for bad in [noise(0, 1 << 31), noise((1 << 20) + 1, 1 << 31)] {
            assert_eq!(field(Params::with_noise(1.0, 1e-6, 10, bad)), "coins_per_user");
        }
        for bad in [noise(8, 0), noise(8, (1 << 31) + 1)] {
            assert_eq!(field(Params::with_noise(1.0, 1e-6, 10, bad)), "coin_numerator");
        }
        let fair = noise(100, 1 << 31);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 100.1] {
            assert_eq!(field(Params::with_noise(bad, 1e-6, 10, fair)), "epsilon");
        }
        for bad in [0.0, -1.0, f64::NAN, 1.0] {
            assert_eq!(field(Params::with_noise(1.0, bad, 10, fair)), "delta");
        }
        assert_eq!(field(Params::with_noise(1.0, 1e-6, 0, fair)), "users");
        assert_eq!(field(Params::with_noise(1.0, 1e-6, u32::MAX, noise(1 << 20, 1))), "users");
        assert!(Params::with_noise(1.0, 1e-6, 10, fair).is_ok());
        assert_eq!(field(Params::new(1e-3, 1e-6, 2, false)), "epsilon"); // twelve million coins each
        assert!(Params::new(1e-3, 1e-6, 1000, false).is_ok());
    }

    /// A claim is accepted if and only if it is true, to a part in 10^8 of delta.
    #[test]
    fn a_claim_is_kept_or_refused() {
        for (epsilon, delta, users) in [(1.0, 1e-6, 20), (0.1, 1e-9, 1), (0.02, 1e-3, 100_000), (0.5, 0.01, 3)] {
            let plan = Params::new(epsilon, delta, users, false).unwrap();
            let kept = |epsilon, delta, users, noise| Params::with_noise(epsilon, delta, users, noise).is_ok();
            assert!(kept(epsilon, delta, users, plan.noise()));
            let truth = plan.noise().delta(epsilon, users);
            assert!(kept(epsilon, truth, users, plan.noise()));
            assert!(!kept(epsilon, truth * (1.0 - 1e-8), users, plan.noise()), "{epsilon} {delta} {users}");
            assert!(!kept(epsilon * 0.9, truth, users, plan.noise()), "{epsilon} {delta} {users}");
            if users > 1 {
                assert!(!kept(epsilon, delta, users / 2, plan.noise())); // a batch that closes too early
            }
            let weaker = ShuffleNoise { coin_numerator: plan.noise().coin_numerator / 2, ..plan.noise() };
            assert!(!kept(epsilon, delta, users, weaker));
            let none = ShuffleNoise { coins_per_user: 1, coin_numerator: 1 };
            assert!(!kept(epsilon, delta, users, none));
        }
    }
}
