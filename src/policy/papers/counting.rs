//! Policies that choose by each arm's number of pulls and by a sum of its rewards: what they have in common.

use crate::config::Config;
use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::reward::Reward;

/// An arm, with the sum that its policy keeps.
pub struct CountedArm<S> {
    pub sum: S,
    /// n_a, the number of rewards in the sum.
    pub count: u64,
    /// Number of pending decisions.
    in_flight: u64,
}

impl<S> CountedArm<S> {
    /// Pending decisions count as pulls, so that a burst of decisions spreads over the arms.
    pub fn pulls(&self) -> u64 {
        self.count + self.in_flight
    }
}

/// The arms of a policy.
pub struct CountedArms<S> {
    pub all: WipedVec<CountedArm<S>>,
    /// Number of decisions that were not cancelled.
    pulls: u64,
}

impl<S> CountedArms<S> {
    /// ln t, where t is the number of the next decision.
    pub fn ln_t(&self) -> f64 {
        ((self.pulls + 1) as f64).ln()
    }
}

/// How a policy adds up rewards, and chooses by the sums.
pub trait Rule<S>: Persist + Send {
    /// The arm to pull.
    fn best(&mut self, arms: &CountedArms<S>) -> u32;

    /// Adds a reward to the sum of its arm.
    fn learn(&mut self, arms: &mut CountedArms<S>, arm: u32, reward: Reward);

    /// Computes an arm's index anew, after a change of its pulls or its sum.
    fn changed(&mut self, _arms: &CountedArms<S>, _arm: u32) {}

    /// The current phase.
    fn phase(&self) -> u32 {
        0
    }

    /// As [`Policy::arm`].
    fn state(&self, arms: &CountedArms<S>, arm: u32) -> ArmState;

    /// As [`Policy::counts`], but for the phase.
    fn counts(&self, arms: &CountedArms<S>) -> PolicyCounts;

    /// As [`Policy::snapshot`].
    fn snapshot(&mut self, arms: &mut CountedArms<S>, with: &mut Archive) -> Result<()>;
}

/// A policy with this rule.
pub struct Counting<S, R> {
    pub arms: CountedArms<S>,
    pub rule: R,
}

impl<S, R: Rule<S>> Counting<S, R> {
    /// `sum` creates an arm's empty sum.
    pub fn by(rule: R, config: &Config, sum: impl Fn() -> S) -> Result<Counting<S, R>> {
        let all = WipedVec::new(config.arms as usize, |_| CountedArm { sum: sum(), count: 0, in_flight: 0 })?;
        let mut policy = Counting { arms: CountedArms { all, pulls: 0 }, rule };
        policy.all_changed();
        Ok(policy)
    }

    fn all_changed(&mut self) {
        (0..self.arms.all.len() as u32).for_each(|arm| self.rule.changed(&self.arms, arm));
    }
}

impl<S: Persist + Send, R: Rule<S>> Policy for Counting<S, R> {
    fn choose(&mut self) -> Pull {
        let arm = self.rule.best(&self.arms);
        self.arms.all[arm as usize].in_flight += 1;
        self.arms.pulls += 1;
        self.rule.changed(&self.arms, arm);
        Pull::new(arm, self.rule.phase(), 1.0)
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.arms.all[pull.arm() as usize].in_flight -= 1;
        self.rule.learn(&mut self.arms, pull.arm(), reward);
        self.rule.changed(&self.arms, pull.arm());
    }

    fn cancel(&mut self, pull: Pull) {
        self.arms.all[pull.arm() as usize].in_flight -= 1;
        self.arms.pulls -= 1;
        self.rule.changed(&self.arms, pull.arm());
    }

    fn arm(&self, arm: u32) -> ArmState {
        self.rule.state(&self.arms, arm)
    }

    fn counts(&self) -> PolicyCounts {
        PolicyCounts { phase: self.rule.phase(), ..self.rule.counts(&self.arms) }
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.rule.snapshot(&mut self.arms, with)?;
        if with.reads() {
            self.arms.pulls = self.arms.all.iter().map(|arm| arm.count).sum();
            self.all_changed();
        }
        Ok(())
    }
}

persist!(generic [S: Persist, R: Persist] Counting<S, R> { arms, rule });
persist!(generic [S: Persist] CountedArms<S> { all, pulls });
persist!(generic [S: Persist] CountedArm<S> { sum, count, in_flight });
