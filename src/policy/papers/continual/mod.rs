//! UCB on sums under continual observation: the common part of DP-UCB-BOUND, DP-UCB and Private-UCB.
//!
//! **Privacy.** Each arm's rewards are added, in the (public) order in which they take effect, to that arm's
//! [`RunningSum`], which is eps-DP for its whole stream of releases. Everything else is post-processing of releases.
//! A reward is in one arm's sum, so the transcript is eps-DP with no factor for arms: fix the coins and a transcript.
//! Then memberships of all p-sums are the same in both worlds, the density is a product over p-sums, and those with
//! the changed reward cost eps in all (the argument of Theorem P in [`crate::privacy`] with several p-sums a reward).

pub mod private_ucb;
pub mod ucb;
pub mod ucb_bound;
pub mod ucb_int;

use crate::config::Config;
use crate::counter::RunningSum;
use crate::error::{Error, Result};
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::papers::scores::Scores;
use crate::privacy::PrivacyLoss;
use crate::random::{Random, Seed};
use crate::reward::Reward;
use std::f64::consts::LN_2;

pub struct ContinualUcb<S> {
    rule: NoiseRule,
    epsilon: f64,
    /// ln(1/beta): reported widths hold with probability 1 - beta.
    ln_inverse_beta: f64,
    arms: WipedVec<ContinualArm<S>>,
    scores: Scores,
    /// Number of decisions that were not cancelled.
    pulls: u64,
    released: bool,
    noise: Random,
}

struct ContinualArm<S> {
    sum: S,
    /// n_a, the number of rewards in the sum.
    count: u64,
    /// Number of pending decisions. They count as pulls, so that a burst spreads over the arms.
    in_flight: u64,
}

/// How the index accounts for the noise.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NoiseRule {
    /// Adds the width of the noise at t^-4.
    Widened,
    /// Has no width, but gives all arms noise of one scale: every reward inserts 0 into the other arms' sums.
    EqualNoise,
}

impl<S: RunningSum> ContinualUcb<S> {
    /// `sum` creates an arm's empty sum.
    pub fn new(config: &Config, seed: &mut Seed, rule: NoiseRule, sum: impl Fn() -> S) -> Result<ContinualUcb<S>> {
        config.check_arms(if rule == NoiseRule::EqualNoise { 1 << 15 } else { 1 << 18 })?;
        Ok(ContinualUcb {
            rule,
            epsilon: config.epsilon_per_reward()?,
            ln_inverse_beta: config.ln_inverse_beta(),
            arms: WipedVec::new(config.arms as usize, |_| ContinualArm { sum: sum(), count: 0, in_flight: 0 })?,
            scores: Scores::new(config.arms)?,
            pulls: 0,
            released: false,
            noise: seed.stream(),
        })
    }

    /// ln t, where t is the number of the next decision.
    fn ln_t(&self) -> f64 {
        ((self.pulls + 1) as f64).ln()
    }

    /// ln(2/gamma) for gamma = t^-4.
    fn ln_two_over_gamma(&self) -> f64 {
        LN_2 + 4.0 * self.ln_t()
    }

    /// Sets the arm's score s_a/n_a + sqrt(2 ln t/n_a) + width_a(t^-4)/n_a, as a function of t.
    fn rescore(&mut self, arm: u32) {
        let state = &self.arms[arm as usize];
        let pulls = (state.count + state.in_flight) as f64;
        if pulls == 0.0 {
            return self.scores.set(arm, f64::INFINITY, 0.0, 0.0);
        }
        let mean = if state.count == 0 { 0.0 } else { state.mean() };
        let unit = Reward::ONE as f64 * pulls;
        let width = match self.rule {
            NoiseRule::Widened => state.sum.tail().line(self.ln_two_over_gamma()),
            NoiseRule::EqualNoise => Default::default(),
        };
        self.scores.set(arm, mean + width.offset / unit, 1.0 / pulls.sqrt(), width.slope / unit);
    }
}

impl<S: RunningSum> ContinualArm<S> {
    /// The released mean.
    fn mean(&self) -> f64 {
        self.sum.released() as f64 / Reward::ONE as f64 / self.count as f64
    }
}

impl<S: RunningSum> Policy for ContinualUcb<S> {
    fn choose(&mut self) -> Pull {
        let arm = self.scores.argmax((2.0 * self.ln_t()).sqrt(), self.ln_two_over_gamma());
        self.arms[arm as usize].in_flight += 1;
        self.pulls += 1;
        self.rescore(arm);
        Pull::new(arm, 0, 1.0)
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.released = true;
        let arm = &mut self.arms[pull.arm() as usize];
        arm.in_flight -= 1;
        // A full sum (if the horizon was too short) takes no more rewards, and keeps its last release.
        arm.count += u64::from(arm.sum.add(reward.units(), &mut self.noise));
        if self.rule == NoiseRule::EqualNoise {
            for arm in 0..self.arms.len() as u32 {
                if arm != pull.arm() {
                    self.arms[arm as usize].sum.add(0, &mut self.noise);
                }
                self.rescore(arm);
            }
        } else {
            self.rescore(pull.arm());
        }
    }

    fn cancel(&mut self, pull: Pull) {
        self.arms[pull.arm() as usize].in_flight -= 1;
        self.pulls -= 1;
        self.rescore(pull.arm());
    }

    fn arm(&self, arm: u32) -> ArmState {
        let arm = &self.arms[arm as usize];
        if arm.count == 0 {
            return ArmState::unknown(true);
        }
        // Hoeffding for the rewards and the tail for the noise, beta/2 each.
        let n = arm.count as f64;
        let log = 2.0 * LN_2 + self.ln_inverse_beta; // ln(4/beta)
        let noise = arm.sum.tail().width_at(log) / Reward::ONE as f64 / n;
        let width = (log / (2.0 * n)).sqrt() + noise;
        ArmState { mean: arm.mean(), width, effective_pulls: n, active: true }
    }

    fn counts(&self) -> PolicyCounts {
        let loss = PrivacyLoss::Pure(if self.released { self.epsilon } else { 0.0 });
        PolicyCounts { active: self.arms.len() as u32, ..PolicyCounts::of(loss) }
    }

    fn snapshot(&mut self, _with: &mut Archive) -> Result<()> {
        Err(Error::unsupported("a snapshot: its next releases need partial sums that are raw"))
    }
}

persist!(generic [S: Persist] ContinualUcb<S> { arms, scores, pulls, released } made { rule, epsilon, ln_inverse_beta, noise });
persist!(generic [S: Persist] ContinualArm<S> { sum, count, in_flight });
