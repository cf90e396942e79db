//! KL-UCB (Garivier and Cappe 2011): a baseline WITHOUT privacy.
//!
//! Plays argmax of max{ q : n kl(mean, q) <= ln t } (their c = 0). Regret at most
//! sum_a Delta_a ln T/kl(mu_a, mu*) to first order, which is optimal for coins.
//! Cost: select O(K) divergences and a bisection (40 more) for each arm that takes the lead on the
//! way, O(ln K) of them on average; update O(1); 24 bytes an arm.

use super::index::Tally;
use super::kl::{kl, kl_upper};
use super::{ArmState, Policy, Pull};
use crate::config::Config;
use crate::error::Result;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;

pub struct KlUcb {
    tally: Tally,
}

impl KlUcb {
    pub fn new(config: &Config, _seed: &mut Seed) -> Result<KlUcb> {
        Ok(KlUcb { tally: Tally::new(config) })
    }

    fn best(&self) -> usize {
        let ln_t = self.tally.ln_t();
        let (mut best, mut most) = (0, -1.0);
        for (arm, counts) in self.tally.arms.iter().enumerate() {
            let (mean, pulls) = (counts.mean(), counts.pulls() as f64);
            if pulls == 0.0 {
                return arm;
            }
            // Its index is above the best so far: only then is it worth computing.
            if mean > most || pulls * kl(mean, most) < ln_t {
                let index = kl_upper(mean, ln_t / pulls);
                if index > most {
                    (best, most) = (arm, index);
                }
            }
        }
        best
    }
}

impl Policy for KlUcb {
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
