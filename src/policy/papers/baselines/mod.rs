//! Baselines WITHOUT privacy, on exact sums. They show what privacy costs.

pub mod imed;
pub mod klucb;
pub mod se;
pub mod ucb1;

use crate::config::Config;
use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;
use std::f64::consts::LN_2;

/// Exact sums of rewards, for baselines WITHOUT privacy.
pub struct Tally {
    pub arms: WipedVec<BaselineArm>,
    /// Decisions that were not cancelled.
    pulls: u64,
    /// ln(1/beta): reported widths hold with probability 1 - beta.
    ln_inverse_beta: f64,
}

#[derive(Clone, Default)]
pub struct BaselineArm {
    sum: i64,
    pub count: u64,
    /// Number of pending decisions. They count as pulls, so that a burst of decisions spreads over the arms.
    in_flight: u64,
}

impl BaselineArm {
    pub fn pulls(&self) -> u64 {
        self.count + self.in_flight
    }

    /// The mean; 0 if there is no reward.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / Reward::ONE as f64 / self.count.max(1) as f64
    }
}

impl Tally {
    pub fn new(config: &Config) -> Result<Tally> {
        let arms = WipedVec::new(config.arms as usize, |_| BaselineArm::default())?;
        Ok(Tally { arms, pulls: 0, ln_inverse_beta: config.ln_inverse_beta() })
    }

    /// ln t, where t is the number of the next decision.
    pub fn ln_t(&self) -> f64 {
        ((self.pulls + 1) as f64).ln()
    }

    pub fn pull(&mut self, arm: u32) -> Pull {
        self.arms[arm as usize].in_flight += 1;
        self.pulls += 1;
        Pull::new(arm, 0, 1.0)
    }

    pub fn observe(&mut self, pull: Pull, reward: Reward) {
        let arm = &mut self.arms[pull.arm() as usize];
        arm.in_flight -= 1;
        arm.count += 1;
        arm.sum += reward.units();
    }

    pub fn cancel(&mut self, pull: Pull) {
        self.arms[pull.arm() as usize].in_flight -= 1;
        self.pulls -= 1;
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        with.arms(self.arms.len())?;
        with.alike(self.arms.iter_mut(), |with, arm| {
            arm.count.persist(with)?;
            arm.sum.persist(with)?;
            with.ensure(arm.count <= 1 << 38 && arm.sum as u64 <= arm.count * Reward::ONE as u64)
        })?;
        if with.reads() {
            self.pulls = self.arms.iter().map(|arm| arm.count).sum();
        }
        Ok(())
    }

    /// The mean and its Hoeffding interval.
    pub fn state(&self, arm: u32) -> ArmState {
        let counts = &self.arms[arm as usize];
        if counts.count == 0 {
            return ArmState::unknown(true);
        }
        let width = ((LN_2 + self.ln_inverse_beta) / (2.0 * counts.count as f64)).sqrt();
        ArmState { mean: counts.mean(), width, effective_pulls: counts.count as f64, active: true }
    }
}

/// The rule by which a baseline chooses an arm.
pub trait BaselineRule: Persist + Send + Sized {
    /// Maximum number of arms.
    const MOST_ARMS: u32;

    /// The rule before the first reward.
    fn new(config: &Config) -> Result<Self>;

    /// The arm to pull.
    fn best(&self, tally: &Tally) -> u32;

    /// Updates the rule after a change of an arm's counts.
    fn changed(&mut self, _tally: &Tally, _arm: u32) {}
}

/// A policy on exact sums, WITHOUT privacy.
pub struct Baseline<R> {
    tally: Tally,
    rule: R,
}

impl<R: BaselineRule> Baseline<R> {
    pub fn new(config: &Config, _seed: &mut Seed) -> Result<Self> {
        config.check_arms(R::MOST_ARMS)?;
        Ok(Baseline { tally: Tally::new(config)?, rule: R::new(config)? })
    }
}

impl<R: BaselineRule> Policy for Baseline<R> {
    fn choose(&mut self) -> Pull {
        let pull = self.tally.pull(self.rule.best(&self.tally));
        self.rule.changed(&self.tally, pull.arm());
        pull
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.tally.observe(pull, reward);
        self.rule.changed(&self.tally, pull.arm());
    }

    fn cancel(&mut self, pull: Pull) {
        self.tally.cancel(pull);
        self.rule.changed(&self.tally, pull.arm());
    }

    fn arm(&self, arm: u32) -> ArmState {
        self.tally.state(arm)
    }

    fn counts(&self) -> PolicyCounts {
        PolicyCounts { active: self.tally.arms.len() as u32, ..PolicyCounts::of(PrivacyLoss::Unbounded) }
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.tally.snapshot(with)?;
        if with.reads() {
            (0..self.tally.arms.len() as u32).for_each(|arm| self.rule.changed(&self.tally, arm));
        }
        Ok(())
    }
}

persist!(Tally { arms, pulls } made { ln_inverse_beta });
persist!(BaselineArm { sum, count, in_flight });
persist!(generic [R: Persist] Baseline<R> { tally, rule });
