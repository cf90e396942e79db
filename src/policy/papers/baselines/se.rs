//! Successive elimination (Even-Dar, Mannor, Mansour 2006): a baseline WITHOUT privacy.
//!
//! Pulls the viable arms round-robin. After each round it eliminates every arm whose upper bound is below another's
//! lower bound, with radius sqrt(ln(4 K n^2/beta)/(2 n)). With probability 1 - beta the best arm stays. beta is
//! configured, or is 1/horizon; one of the two is required. With delays a round lasts until every viable arm has its
//! reward, and an arm's radius is that of its own n. Cost: select O(1) if rewards are prompt (at worst O(|S|)), the
//! end of a round O(|S|), so update O(1) amortised; 24 bytes an arm, at most 2^20 arms.

use super::ExactArm;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::moving::{Archive, persist};
use crate::policy::contract::{ArmState, PolicyCounts, all_arms};
use crate::policy::papers::counting::{CountedArms, Counting, Rule};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;

pub struct Se {
    /// ln(1/beta).
    ln_inverse_beta: f64,
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

pub fn new(config: &Config, _seed: &mut Seed) -> Result<Counting<i64, Se>> {
    config.check_arms(1 << 20)?;
    let ln_inverse_beta = config.ln_inverse_beta();
    let log = (4.0 * f64::from(config.arms)).ln() + ln_inverse_beta;
    let viable = all_arms(config)?;
    let missing = viable.len();
    Counting::by(Se { ln_inverse_beta, log, viable, cursor: 0, round: 1, missing }, config, || 0)
}

impl Se {
    /// One end of an arm's interval.
    fn bound(&self, arm: &ExactArm, side: f64) -> f64 {
        let n = arm.count as f64;
        arm.mean() + side * ((self.log + 2.0 * n.ln()) / (2.0 * n)).sqrt()
    }

    fn end_round(&mut self, arms: &CountedArms<i64>) {
        let low = |&arm: &u32| self.bound(&arms.all[arm as usize], -1.0);
        let floor = self.viable.iter().map(low).fold(f64::NEG_INFINITY, f64::max);
        let mut viable = std::mem::take(&mut self.viable);
        viable.retain(|&arm| self.bound(&arms.all[arm as usize], 1.0) >= floor);
        self.viable = viable;
        self.cursor = 0;
        self.round += 1;
        self.missing = self.viable.iter().filter(|&&arm| arms.all[arm as usize].count < self.round).count();
    }

    fn decided(&self) -> bool {
        self.viable.len() == 1
    }

    fn is_viable(&self, arm: u32) -> bool {
        self.viable.binary_search(&arm).is_ok()
    }
}

impl Rule<i64> for Se {
    fn best(&mut self, arms: &CountedArms<i64>) -> u32 {
        // The next arm that this round needs, or the next in turn if it needs none.
        let next = |offset: usize| (self.cursor + offset) % self.viable.len();
        let wanted = |&at: &usize| arms.all[self.viable[at] as usize].pulls() < self.round;
        let at = (0..self.viable.len()).map(next).find(wanted).unwrap_or(next(0));
        self.cursor = (at + 1) % self.viable.len();
        self.viable[at]
    }

    fn learn(&mut self, arms: &mut CountedArms<i64>, arm: u32, reward: Reward) {
        arms.all[arm as usize].add(reward);
        self.missing -= usize::from(arms.all[arm as usize].count == self.round && self.is_viable(arm));
        while self.missing == 0 && !self.decided() {
            self.end_round(arms);
        }
    }

    fn phase(&self) -> u32 {
        u32::try_from(self.round).unwrap_or(u32::MAX)
    }

    fn state(&self, arms: &CountedArms<i64>, arm: u32) -> ArmState {
        ArmState { active: self.is_viable(arm), ..arms.all[arm as usize].state(self.ln_inverse_beta) }
    }

    fn counts(&self, _arms: &CountedArms<i64>) -> PolicyCounts {
        let best = self.decided().then(|| self.viable[0]);
        PolicyCounts { active: self.viable.len() as u32, best, ..PolicyCounts::of(PrivacyLoss::Unbounded) }
    }

    fn snapshot(&mut self, _arms: &mut CountedArms<i64>, _with: &mut Archive) -> Result<()> {
        Err(Error::unsupported("a snapshot: a round of this baseline is not kept"))
    }
}

persist!(Se { viable, cursor, round, missing } made { ln_inverse_beta, log });
