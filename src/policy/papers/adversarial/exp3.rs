//! EXP3 (Auer, Cesa-Bianchi, Freund, Schapire 2003): a baseline for adversarial rewards, WITHOUT privacy.
//!
//! Pulls arm i with probability p_i = (1 - gamma) w_i / sum w + gamma/K, where w_i = exp(gamma G_i / K), and G_i
//! grows by r/p_i for each reward of arm i; gamma = min(1, sqrt(K ln K / ((e-1) T))). Regret against the best fixed
//! arm at most 2 sqrt((e-1) T K ln K) (their Corollary 3.2). Needs the horizon.
//!
//! A pull carries the probability it was drawn with, so late rewards are weighted by the right one (the estimate
//! stays unbiased), and a cancelled pull has no effect. Its own randomness does not make EXP3 private: it loses about
//! a constant in each round (Tossou and Dimitrakakis 2017, Theorem 3.3), and the propensities reveal its weights.
//!
//! Cost: select and update O(log K); 40 bytes an arm (see [`Weights`] for the tree).

use super::weights::Weights;
use crate::config::Config;
use crate::error::Result;
use crate::moving::{Archive, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::privacy::PrivacyLoss;
use crate::random::{Random, Seed};
use crate::reward::Reward;
use std::f64::consts::{E, LOG2_E};

pub struct Exp3 {
    weights: Weights,
    gamma: f64,
    coins: Random,
}

impl Exp3 {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Exp3> {
        Exp3::for_rounds(config.arms, config.horizon, seed.stream())
    }

    /// Equal weights, with gamma for this many draws.
    pub(super) fn for_rounds(arms: u32, rounds: u64, coins: Random) -> Result<Exp3> {
        Ok(Exp3 { weights: Weights::new(arms)?, gamma: exploration(arms, rounds), coins })
    }

    /// p_i.
    pub(super) fn probability(&self, arm: u32) -> f64 {
        (1.0 - self.gamma) * self.weights.share(arm) + self.gamma / self.arms()
    }

    /// Draws an arm, and returns its probability.
    pub(super) fn draw(&mut self) -> (u32, f64) {
        let explore = self.coins.unit() < self.gamma;
        let arm = if explore {
            self.coins.below(self.weights.arms() as u64) as u32
        } else {
            self.weights.draw(&mut self.coins)
        };
        (arm, self.probability(arm))
    }

    /// Credits a gain in [0, 1] to an arm drawn with this probability: w_i *= exp(gamma/K gain/probability). The
    /// factor is at most e, because no probability is below gamma/K.
    pub(super) fn credit(&mut self, arm: u32, probability: f64, gain: f64) {
        self.weights.raise(arm, LOG2_E * (self.gamma / self.arms()) * gain / probability);
    }

    fn arms(&self) -> f64 {
        self.weights.arms() as f64
    }
}

/// gamma for this many draws.
pub(super) fn exploration(arms: u32, rounds: u64) -> f64 {
    let arms = f64::from(arms);
    f64::min(1.0, (arms * arms.ln() / ((E - 1.0) * rounds as f64)).sqrt())
}

impl Policy for Exp3 {
    fn choose(&mut self) -> Pull {
        let (arm, propensity) = self.draw();
        Pull::new(arm, 0, propensity)
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.credit(pull.arm(), pull.propensity, reward.to_f64());
    }

    fn cancel(&mut self, _pull: Pull) {}

    /// EXP3 keeps no means.
    fn arm(&self, _arm: u32) -> ArmState {
        ArmState::unknown(true)
    }

    fn counts(&self) -> PolicyCounts {
        PolicyCounts { active: self.weights.arms() as u32, ..PolicyCounts::of(PrivacyLoss::Unbounded) }
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.weights.snapshot(with)
    }
}

persist!(Exp3 { weights } made { gamma, coins });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Algorithm;

    impl Exp3 {
        /// w_i / sum w.
        pub fn share(&self, arm: u32) -> f64 {
            self.weights.share(arm)
        }
    }

    fn policy(arms: u32, horizon: u64) -> Exp3 {
        let mut config = Config::new(arms, 1.0);
        config.horizon = horizon;
        Exp3::new(&config, &mut Seed::new(Some([8; 32])).unwrap()).unwrap()
    }

    #[test]
    fn probabilities_are_the_formula() {
        let mut exp3 = policy(5, 10_000);
        let gamma = (5.0 * 5f64.ln() / ((E - 1.0) * 1e4)).sqrt();
        let mut gains = [0.0f64; 5];
        for _ in 0..10_000 {
            let sum: f64 = gains.iter().map(|g| (gamma * g / 5.0).exp()).sum();
            let direct = |arm: u32| (1.0 - gamma) * (gamma * gains[arm as usize] / 5.0).exp() / sum + gamma / 5.0;
            let total: f64 = (0..5).map(|arm| exp3.probability(arm)).sum();
            assert!((total - 1.0).abs() < 1e-12);
            let pull = exp3.choose();
            assert!((pull.propensity - direct(pull.arm())).abs() < 1e-9 * pull.propensity);
            let reward = [0.2, 0.9, 1.0, 0.0, 0.5][pull.arm() as usize];
            exp3.credit(pull.arm(), pull.propensity, reward);
            gains[pull.arm() as usize] += reward / pull.propensity;
        }
    }

    #[test]
    fn extreme_gains_overflow_nothing() {
        // e^(T gamma/K) for the settings of T = 1e9: log weights in the thousands and beyond.
        for horizon in [1, 1_000, 1_000_000_000, u64::MAX] {
            let mut exp3 = policy(3, horizon);
            for _ in 0..200_000 {
                exp3.credit(0, exp3.gamma / 3.0, 1.0); // the largest step there is
                exp3.credit(1, 1.0, 0.0);
            }
            assert!(((0..3).map(|arm| exp3.probability(arm)).sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(exp3.probability(1) >= exp3.gamma / 3.0 * (1.0 - 1e-12));
            assert!(exp3.choose().propensity > 0.0);
        }
    }

    #[test]
    fn arms_are_drawn_with_the_reported_probability() {
        // Chi-square over 4 cells with fixed weights: the 99.9999% quantile of chi2(3) is 30.7.
        let mut exp3 = policy(4, 100);
        (0..4).for_each(|arm| exp3.credit(arm, 0.1, 0.3 * f64::from(arm)));
        let mut cells = [0.0f64; 4];
        for _ in 0..400_000 {
            cells[exp3.choose().arm() as usize] += 1.0;
        }
        let expected = |arm| exp3.probability(arm) * 4e5;
        let chi2: f64 = (0..4).map(|arm| (cells[arm as usize] - expected(arm)).powi(2) / expected(arm)).sum();
        assert!(chi2 < 30.7, "{chi2}");
    }

    #[test]
    fn needs_the_horizon() {
        let mut seed = Seed::new(Some([8; 32])).unwrap();
        let error = Algorithm::NonprivateExp3.build(&Config::new(4, 1.0), &mut seed).err().unwrap();
        assert_eq!(error.to_string(), "horizon must not be 0: nonprivate-exp3 needs horizon, got 0");
    }
}
