//! IMED (Honda and Takemura 2015): a baseline WITHOUT privacy.
//!
//! Plays argmin of n kl(mean, largest mean) + ln n. Regret sum_a Delta_a ln T/kl(mu_a, mu*) to first
//! order, which is optimal for coins; no confidence level, no bisection.
//! Cost: select O(K) divergences, update O(1); 24 bytes an arm.

use super::index::Tally;
use super::kl::kl;
use super::{ArmState, Policy, Pull};
use crate::config::Config;
use crate::error::Result;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;

pub struct Imed {
    tally: Tally,
}

impl Imed {
    pub fn new(config: &Config, _seed: &mut Seed) -> Result<Imed> {
        Ok(Imed { tally: Tally::new(config) })
    }

    fn best(&self) -> usize {
        let top = self.tally.arms.iter().map(|counts| counts.mean()).fold(0.0, f64::max);
        let (mut best, mut least) = (0, f64::INFINITY);
        for (arm, counts) in self.tally.arms.iter().enumerate() {
            let pulls = counts.pulls() as f64;
            if pulls == 0.0 {
                return arm;
            }
            let index = pulls * kl(counts.mean(), top) + pulls.ln();
            if index < least {
                (best, least) = (arm, index);
            }
        }
        best
    }
}

impl Policy for Imed {
    fn choose(&mut self) -> Pull {
        self.tally.pull(self.best() as u32)
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.tally.observe(pull, reward);
    }

    fn cancel(&mut self, pull: Pull) {
        self.tally.cancel(pull);
    }

    fn arm(&self, arm: u32) -> ArmState {
        self.tally.state(arm)
    }

    fn phase(&self) -> u32 {
        0
    }

    fn active(&self) -> u32 {
        self.tally.arms.len() as u32
    }

    fn privacy(&self) -> PrivacyLoss {
        PrivacyLoss::Unbounded
    }
}
