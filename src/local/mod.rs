//! The local model: each reward is privatised on the user's device, and the server sees one bit.
//!
//! The device sends the bit of a [`RandomizedResponse`], and the server passes it to
//! [`Bandit::update`](crate::Bandit::update) of an `ldp-` policy. The server need not be trusted. The price is
//! 1/eps^2 times the samples (Ren, Zhou, Liu, Shroff 2020; Tenenbaum et al. 2021, Table 1), where the shuffle and
//! central models pay a constant once.

use crate::error::{Error, Result, check_positive};
use crate::random::Random;
use crate::reward::{Reward, RewardRange};
use crate::shuffle::round_at_random;

/// Randomised response (Warner 1965): sends the bit with probability e^eps/(1+e^eps), else its opposite.
///
/// **Pure eps-DP for one user, whoever sees the bit**: the probability of each bit under any two rewards is between lie
/// and 1 - lie. lie/2^64 is 1/(1+e^eps) rounded up, and is compared with 64 random bits, so the probability is exact.
///
/// A real reward is first rounded to a bit at random, without bias. Together that is the mechanism of Duchi, Jordan and
/// Wainwright (2018, section 4.1) for one number in an interval, which is optimal. Its output is one bit, where Laplace
/// noise would be an unbounded number. [`debias`](Self::debias) makes it unbiased.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomizedResponse {
    /// P(opposite) * 2^64, below 2^63.
    lie: u64,
    /// The requested epsilon.
    epsilon: f64,
}

impl RandomizedResponse {
    /// The randomised response for this epsilon.
    ///
    /// # Errors
    /// `InvalidConfig` if epsilon is not finite and positive; below 1e-6, where a bit contains almost no information
    /// (10^12 bits determine a mean to one half); or above 40, where it hides nothing.
    pub fn new(epsilon: f64) -> Result<RandomizedResponse> {
        check_positive("epsilon", epsilon)?;
        let rule = "must be in 1e-6 .. 40 in the local model";
        Error::unless((1e-6..=40.0).contains(&epsilon), "epsilon", rule, epsilon)?;
        // Four units in the last place exceed the rounding errors of exp and the division.
        let lie = 1.0 / (1.0 + epsilon.exp()) * (1.0 + 4.0 * f64::EPSILON);
        Ok(RandomizedResponse { lie: (lie * 2f64.powi(64)).ceil() as u64 + 1, epsilon })
    }

    /// The privacy loss of one bit, rounded up, at most the requested one.
    pub fn epsilon(&self) -> f64 {
        let excess = ((1u128 << 64) - 2 * u128::from(self.lie)) as f64 / self.lie as f64;
        f64::min(excess.ln_1p() * (1.0 + 4.0 * f64::EPSILON), self.epsilon)
    }

    /// The bit that the device sends for a reward in `[0, 1]`.
    ///
    /// # Errors
    /// `InvalidReward` unless the reward is finite and in `[0, 1]`.
    pub fn encode(&self, reward: f64, random: &mut Random) -> Result<bool> {
        let reward = RewardRange::new(0.0, 1.0, Reward::BITS, false)?.quantize(reward)?;
        let lies = random.next_u64() < self.lie;
        Ok(round_at_random(reward, random) ^ lies)
    }

    /// P(opposite).
    pub fn lie(&self) -> f64 {
        self.lie as f64 / 2f64.powi(64)
    }

    /// Estimates the mean of rewards from a mean of bits. Increasing and unbiased, so it may leave `[0, 1]`.
    pub fn debias(&self, mean: f64) -> f64 {
        (mean - self.lie()) * self.stretch()
    }

    /// The factor by which debiasing widens: 1/(P(truth) - P(opposite)) = 1/tanh(eps/2).
    pub fn stretch(&self) -> f64 {
        1.0 / (1.0 - 2.0 * self.lie())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn rounds_towards_privacy() {
        for epsilon in [1e-6, 1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 40.0] {
            let response = RandomizedResponse::new(epsilon).unwrap();
            assert!(response.epsilon() <= epsilon, "{epsilon}");
            if epsilon <= 20.0 {
                assert!(response.epsilon() >= epsilon * (1.0 - 1e-6), "{epsilon}");
                let stretch = (epsilon / 2.0).tanh().recip();
                assert!((response.stretch() / stretch - 1.0).abs() < 1e-6, "{epsilon}");
            }
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-7, 5e-324, 40.1, 1e300] {
            assert!(RandomizedResponse::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bits_have_their_distribution() {
        // 200,000 bits, each frequency within 5 standard deviations: fails with probability 6e-7 each.
        let response = RandomizedResponse::new(1.0).unwrap();
        let mut random = Seed::new(Some([4; 32])).unwrap().stream();
        let truth = 1.0f64.exp() / (1.0 + 1.0f64.exp());
        for reward in [0.0, 0.25, 1.0] {
            let n = 200_000;
            let ones = (0..n).filter(|_| response.encode(reward, &mut random).unwrap()).count() as f64;
            let p = reward * truth + (1.0 - reward) * (1.0 - truth);
            assert!((ones - f64::from(n) * p).abs() <= 5.0 * (f64::from(n) * p * (1.0 - p)).sqrt(), "{reward}: {ones}");
            assert!((response.debias(p) - reward).abs() < 1e-12);
        }
        for bad in [f64::NAN, -0.1, 1.5] {
            assert_eq!(response.encode(bad, &mut random), Err(Error::InvalidReward));
        }
    }
}
