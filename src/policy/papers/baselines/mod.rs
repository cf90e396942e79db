//! Baselines WITHOUT privacy, on exact sums. They show what privacy costs.

pub mod imed;
pub mod klucb;
pub mod se;
pub mod ucb1;

use super::counting::{CountedArm, CountedArms, Counting, Rule};
use crate::config::Config;
use crate::error::Result;
use crate::local::RandomizedResponse;
use crate::moving::{Archive, Persist, persist};
use crate::policy::contract::{ArmState, PolicyCounts};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;
use std::f64::consts::LN_2;

/// An arm with the exact sum of its rewards.
pub type ExactArm = CountedArm<i64>;

impl ExactArm {
    pub fn add(&mut self, reward: Reward) {
        self.count += 1;
        self.sum += reward.units();
    }

    /// The mean; 0 if there is no reward.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / Reward::ONE as f64 / self.count.max(1) as f64
    }

    /// The mean and its Hoeffding interval.
    pub fn state(&self, ln_inverse_beta: f64) -> ArmState {
        if self.count == 0 {
            return ArmState::unknown(true);
        }
        let width = ((LN_2 + ln_inverse_beta) / (2.0 * self.count as f64)).sqrt();
        ArmState { mean: self.mean(), width, effective_pulls: self.count as f64, active: true }
    }
}

/// The index by which a baseline chooses an arm.
pub trait BaselineIndex: Persist + Send + Sized {
    /// Maximum number of arms.
    const MOST_ARMS: u32;

    /// The index before the first reward.
    fn new(config: &Config) -> Result<Self>;

    /// The arm to pull.
    fn best(&self, arms: &CountedArms<i64>) -> u32;

    /// Computes the index anew, after a change of an arm's counts.
    fn changed(&mut self, _arm: u32, _counts: &ExactArm) {}
}

/// Exact sums, WITHOUT privacy, unless rewards are bits that users' devices made private.
pub struct Exact<I> {
    index: I,
    /// ln(1/beta): reported widths hold with probability 1 - beta.
    ln_inverse_beta: f64,
    /// How bits were made private.
    response: Option<RandomizedResponse>,
    has_rewards: bool,
}

/// A policy on exact sums, WITHOUT privacy.
pub type Baseline<I> = Counting<i64, Exact<I>>;

impl<I: BaselineIndex> Baseline<I> {
    pub fn new(config: &Config, _seed: &mut Seed) -> Result<Self> {
        Self::with(config, None)
    }

    pub fn with(config: &Config, response: Option<RandomizedResponse>) -> Result<Self> {
        config.check_arms(I::MOST_ARMS)?;
        let (index, ln_inverse_beta) = (I::new(config)?, config.ln_inverse_beta());
        Counting::by(Exact { index, ln_inverse_beta, response, has_rewards: false }, config, || 0)
    }
}

impl<I: BaselineIndex> Rule<i64> for Exact<I> {
    fn best(&mut self, arms: &CountedArms<i64>) -> u32 {
        self.index.best(arms)
    }

    fn learn(&mut self, arms: &mut CountedArms<i64>, arm: u32, reward: Reward) {
        self.has_rewards = true;
        arms.all[arm as usize].add(reward);
    }

    fn changed(&mut self, arms: &CountedArms<i64>, arm: u32) {
        self.index.changed(arm, &arms.all[arm as usize]);
    }

    fn state(&self, arms: &CountedArms<i64>, arm: u32) -> ArmState {
        let state = arms.all[arm as usize].state(self.ln_inverse_beta);
        let Some(response) = self.response else { return state };
        ArmState { mean: response.debias(state.mean), width: state.width * response.stretch(), ..state }
    }

    fn counts(&self, arms: &CountedArms<i64>) -> PolicyCounts {
        let loss = match self.response {
            None => PrivacyLoss::Unbounded,
            Some(response) => PrivacyLoss::Pure(if self.has_rewards { response.epsilon() } else { 0.0 }),
        };
        PolicyCounts { active: arms.all.len() as u32, ..PolicyCounts::of(loss) }
    }

    /// Moves exact sums: they are public if they are of bits, or if this policy is the base of DP-Lap.
    fn snapshot(&mut self, arms: &mut CountedArms<i64>, with: &mut Archive) -> Result<()> {
        self.has_rewards |= with.reads(); // there may have been rewards since the snapshot
        with.arms(arms.all.len())?;
        with.alike(arms.all.iter_mut(), |with, arm| {
            arm.count.persist(with)?;
            arm.sum.persist(with)?;
            with.ensure(arm.count <= 1 << 38 && arm.sum as u64 <= arm.count * Reward::ONE as u64)
        })
    }
}

persist!(generic [I: Persist] Exact<I> { index, has_rewards } made { ln_inverse_beta, response });
