//! Successive elimination (Even-Dar, Mannor, Mansour 2006): a baseline WITHOUT privacy.
//!
//! Pulls the viable arms round-robin. After each round it eliminates every arm whose upper bound is below another's
//! lower bound, with radius sqrt(ln(4 K n^2/beta)/(2 n)). With probability 1 - beta the best arm stays. beta is
//! configured, or is 1/horizon; one of the two is required. With delays a round lasts until every viable arm has its
//! reward, and an arm's radius is that of its own n. Cost: select O(1) if rewards are prompt (at worst O(|S|)), the
//! end of a round O(|S|), so update O(1) amortised; 24 bytes an arm, at most 2^20 arms.

use super::Tally;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::moving::{Archive, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull, all_arms};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;

pub struct Se {
    tally: Tally,
    /// ln(4 K/beta).
    log: f64,
    /// The viable arms, in round-robin order.
    viable: Vec<u32>,
    cursor: usize,
    /// Number of rewards that every viable arm has at the end of this round.
    round: u64,
    /// Number of viable arms that have fewer rewards.
    missing: usize,
}

impl Se {
    pub fn new(config: &Config, _seed: &mut Seed) -> Result<Se> {
        config.check_arms(1 << 20)?;
        Ok(Se {
            tally: Tally::new(config)?,
            log: (4.0 * f64::from(config.arms)).ln() + config.ln_inverse_beta(),
            viable: all_arms(config)?,
            cursor: 0,
            round: 1,
            missing: config.arms as usize,
        })
    }

    /// One end of an arm's interval.
    fn bound(&self, arm: u32, side: f64) -> f64 {
        let counts = &self.tally.arms[arm as usize];
        let n = counts.count as f64;
        counts.mean() + side * ((self.log + 2.0 * n.ln()) / (2.0 * n)).sqrt()
    }

    fn end_round(&mut self) {
        let floor = self.viable.iter().map(|&arm| self.bound(arm, -1.0)).fold(f64::NEG_INFINITY, f64::max);
        let mut viable = std::mem::take(&mut self.viable);
        viable.retain(|&arm| self.bound(arm, 1.0) >= floor);
        self.viable = viable;
        self.cursor = 0;
        self.round += 1;
        let behind = |arm: &&u32| self.tally.arms[**arm as usize].count < self.round;
        self.missing = self.viable.iter().filter(behind).count();
    }

    fn decided(&self) -> bool {
        self.viable.len() == 1
    }

    fn phase(&self) -> u32 {
        u32::try_from(self.round).unwrap_or(u32::MAX)
    }
}

impl Policy for Se {
    fn choose(&mut self) -> Pull {
        // The next arm that this round needs, or the next in turn if it needs none.
        let next = |offset: usize| (self.cursor + offset) % self.viable.len();
        let wanted = |&at: &usize| self.tally.arms[self.viable[at] as usize].pulls() < self.round;
        let at = (0..self.viable.len()).map(next).find(wanted).unwrap_or(next(0));
        self.cursor = (at + 1) % self.viable.len();
        self.tally.pull(self.viable[at]).in_phase(self.phase())
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.tally.observe(pull, reward);
        if self.tally.arms[pull.arm() as usize].count == self.round && self.viable.binary_search(&pull.arm()).is_ok() {
            self.missing -= 1;
        }
        while self.missing == 0 && !self.decided() {
            self.end_round();
        }
    }

    fn cancel(&mut self, pull: Pull) {
        self.tally.cancel(pull);
    }

    fn arm(&self, arm: u32) -> ArmState {
        ArmState { active: self.viable.binary_search(&arm).is_ok(), ..self.tally.state(arm) }
    }

    fn counts(&self) -> PolicyCounts {
        let loss = PrivacyLoss::Unbounded;
        PolicyCounts {
            phase: self.phase(),
            active: self.viable.len() as u32,
            best: self.decided().then(|| self.viable[0]),
            ..PolicyCounts::of(loss)
        }
    }

    fn snapshot(&mut self, _with: &mut Archive) -> Result<()> {
        Err(Error::unsupported("a snapshot: a round of this baseline is not kept"))
    }
}

persist!(Se { tally, viable, cursor, round, missing } made { log });
