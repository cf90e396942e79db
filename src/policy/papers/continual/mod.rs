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

use super::counting::{CountedArm, CountedArms, Counting, Rule};
use super::scores::Scores;
use crate::config::Config;
use crate::counter::{Mechanism, RunningSum};
use crate::error::{Error, Result};
use crate::moving::{Archive, persist};
use crate::policy::contract::{ArmState, PolicyCounts};
use crate::privacy::PrivacyLoss;
use crate::random::{Random, Seed};
use crate::reward::Reward;
use std::f64::consts::LN_2;

pub struct ContinualUcb {
    rule: NoiseRule,
    epsilon: f64,
    /// ln(1/beta): reported widths hold with probability 1 - beta.
    ln_inverse_beta: f64,
    scores: Scores,
    released: bool,
    noise: Random,
}

/// How the index accounts for the noise.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NoiseRule {
    /// Adds the width of the noise at t^-4.
    Widened,
    /// Has no width, but gives all arms noise of one scale: every reward inserts 0 into the other arms' sums.
    EqualNoise,
}

/// A policy on sums under continual observation.
type OnSums<M> = Counting<RunningSum<M>, ContinualUcb>;

/// Each arm's sum is of at most `most` rewards.
fn on_sums<M: Mechanism>(
    config: &Config,
    seed: &mut Seed,
    rule: NoiseRule,
    most: u64,
    mechanism: impl Fn() -> M,
) -> Result<OnSums<M>> {
    config.check_arms(if rule == NoiseRule::EqualNoise { 1 << 15 } else { 1 << 18 })?;
    let ucb = ContinualUcb {
        rule,
        epsilon: config.epsilon_per_reward()?,
        ln_inverse_beta: config.ln_inverse_beta(),
        scores: Scores::new(config.arms)?,
        released: false,
        noise: seed.stream(),
    };
    Counting::by(ucb, config, || RunningSum::new(most, mechanism()))
}

/// ln(2/gamma) for gamma = t^-4.
fn ln_two_over_gamma(ln_t: f64) -> f64 {
    LN_2 + 4.0 * ln_t
}

impl<M: Mechanism> CountedArm<RunningSum<M>> {
    /// The released mean.
    fn mean(&self) -> f64 {
        self.sum.released() as f64 / Reward::ONE as f64 / self.count as f64
    }
}

impl<M: Mechanism> Rule<RunningSum<M>> for ContinualUcb {
    fn best(&mut self, arms: &CountedArms<RunningSum<M>>) -> u32 {
        let ln_t = arms.ln_t();
        self.scores.argmax((2.0 * ln_t).sqrt(), ln_two_over_gamma(ln_t))
    }

    fn learn(&mut self, arms: &mut CountedArms<RunningSum<M>>, arm: u32, reward: Reward) {
        self.released = true;
        // A full sum (if the horizon was too short) takes no more rewards, and keeps its last release.
        let pulled = &mut arms.all[arm as usize];
        pulled.count += u64::from(pulled.sum.add(reward.units(), &mut self.noise));
        if self.rule == NoiseRule::EqualNoise {
            for other in (0..arms.all.len() as u32).filter(|&other| other != arm) {
                arms.all[other as usize].sum.add(0, &mut self.noise);
                self.changed(arms, other);
            }
        }
    }

    /// Sets the arm's score s_a/n_a + sqrt(2 ln t/n_a) + width_a(t^-4)/n_a, as a function of t.
    fn changed(&mut self, arms: &CountedArms<RunningSum<M>>, arm: u32) {
        let state = &arms.all[arm as usize];
        let pulls = state.pulls() as f64;
        if pulls == 0.0 {
            return self.scores.set(arm, f64::INFINITY, 0.0, 0.0);
        }
        let mean = if state.count == 0 { 0.0 } else { state.mean() };
        let unit = Reward::ONE as f64 * pulls;
        let width = match self.rule {
            NoiseRule::Widened => state.sum.tail().line(ln_two_over_gamma(arms.ln_t())),
            NoiseRule::EqualNoise => Default::default(),
        };
        self.scores.set(arm, mean + width.offset / unit, 1.0 / pulls.sqrt(), width.slope / unit);
    }

    fn state(&self, arms: &CountedArms<RunningSum<M>>, arm: u32) -> ArmState {
        let arm = &arms.all[arm as usize];
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

    fn counts(&self, arms: &CountedArms<RunningSum<M>>) -> PolicyCounts {
        let loss = PrivacyLoss::Pure(if self.released { self.epsilon } else { 0.0 });
        PolicyCounts { active: arms.all.len() as u32, ..PolicyCounts::of(loss) }
    }

    fn snapshot(&mut self, _arms: &mut CountedArms<RunningSum<M>>, _with: &mut Archive) -> Result<()> {
        Err(Error::unsupported("a snapshot: its next releases need partial sums that are raw"))
    }
}

persist!(ContinualUcb { scores, released } made { rule, epsilon, ln_inverse_beta, noise });
