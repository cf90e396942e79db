//! UCB1 (Auer, Cesa-Bianchi, Fischer 2002): a baseline WITHOUT privacy.
//!
//! Plays argmax of mean + sqrt(2 ln t/n). Regret O(sum_a ln T/Delta_a).
//! Cost: select O(K) (vector code), update O(1); 48 bytes an arm.

use super::index::{Scores, Tally};
use super::{ArmState, Policy, Pull};
use crate::config::Config;
use crate::error::Result;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;

pub struct Ucb1 {
    tally: Tally,
    scores: Scores,
}

impl Ucb1 {
    pub fn new(config: &Config, _seed: &mut Seed) -> Result<Ucb1> {
        Ok(Ucb1 { tally: Tally::new(config), scores: Scores::new(config.arms) })
    }

    fn rescore(&mut self, arm: u32) {
        let counts = &self.tally.arms[arm as usize];
        match counts.pulls() {
            0 => self.scores.set(arm, f64::INFINITY, 0.0, 0.0),
            pulls => self.scores.set(arm, counts.mean(), 1.0 / (pulls as f64).sqrt(), 0.0),
        }
    }
}

impl Policy for Ucb1 {
    fn choose(&mut self) -> Pull {
        let arm = self.scores.argmax((2.0 * self.tally.ln_t()).sqrt(), 0.0);
        let pull = self.tally.pull(arm);
        self.rescore(arm);
        pull
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.tally.observe(pull, reward);
        self.rescore(pull.arm);
    }

    fn cancel(&mut self, pull: Pull) {
        self.tally.cancel(pull);
        self.rescore(pull.arm);
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
