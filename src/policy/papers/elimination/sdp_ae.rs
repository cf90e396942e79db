//! SDP-AE: arm elimination on shuffled batches.
//!
#![doc = include_str!("../../../../docs/theory/sdp-ae.md")]

use super::Estimate;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::memory::{self, WipedVec};
use crate::moving::{Archive, Persist, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull, all_arms};
use crate::privacy::PrivacyLoss;
use crate::privacy::calibration::ShuffleNoise;
use crate::random::{Random, Seed};
use crate::reward::Reward;
use crate::shuffle::{Params, count_of_encoded, count_ones, radius};
use crate::snapshot::ensure;
use std::cmp::Ordering;
use zeroize::Zeroizing;

/// m users in every phase.
pub fn new(config: &Config, seed: &mut Seed) -> Result<ShuffledElimination> {
    let users = if config.batch > 0 { config.batch } else { four_times_the_noise(config)? };
    ShuffledElimination::new(config, seed, [users])
}

/// Arm elimination on shuffled batches.
pub struct ShuffledElimination {
    /// Parameters of the batches of phases 1, 2, ...; the last are repeated for ever.
    plans: Box<[Params]>,
    ln_inverse_beta: f64,
    arms: WipedVec<SdpAeArm>,
    /// V, the viable arms, in ascending order.
    viable: Vec<u32>,
    /// The viable arms whose batch of the open phase is missing.
    waiting: Vec<u32>,
    cursor: usize,
    phase: u32,
    /// Rewards that each viable arm has released; `noise_mean` is the mean of the noise in them.
    pulls: u64,
    noise_mean: f64,
    random: Random,
    source: RewardSource,
    released: bool,
}

/// m = 4 ceil(sigma^2): the noise adds as much to a batch's variance as the rewards' own, which is at most m/4. At
/// m = sigma^2 it would add four times as much.
fn four_times_the_noise(config: &Config) -> Result<u32> {
    let noise = if config.shuffle_printed { ShuffleNoise::printed } else { ShuffleNoise::calibrated };
    let variance = noise(config.epsilon_per_reward()?, config.delta_per_reward()?, 1)?.variance(1);
    // The variance is at most that of 2^32 coins, 1/4 each.
    Ok((4.0 * variance.ceil()).min(f64::from(u32::MAX)) as u32)
}

/// The way in which rewards arrive.
#[derive(Clone, Copy, PartialEq)]
enum RewardSource {
    Unknown = 0,
    Simulation = 1,
    Shuffler = 2,
}

#[derive(Default)]
struct SdpAeArm {
    /// Batch of the open phase. `early` holds rewards that arrived early, for the next phase.
    batch: Encoded,
    early: Encoded,
    /// Sum of the ones released so far.
    ones: u64,
    estimate: Estimate,
}

/// Messages of one batch. Only their number of ones is kept.
#[derive(Default)]
struct Encoded {
    messages: u32,
    ones: Zeroizing<u64>,
}

impl Encoded {
    /// Encodes one more reward. Returns false if the batch is complete.
    fn push(&mut self, plan: &Params, reward: Reward, random: &mut Random) -> bool {
        let free = self.messages < plan.users();
        if free {
            self.messages += 1;
            *self.ones += count_of_encoded(plan, reward, random);
        }
        free
    }

    fn is_complete(&self, plan: &Params) -> bool {
        self.messages == plan.users()
    }
}

impl ShuffledElimination {
    /// A policy whose batches of phases 1, 2, ... have this number of users; the last is repeated.
    pub fn new(config: &Config, seed: &mut Seed, users: impl IntoIterator<Item = u32>) -> Result<Self> {
        config.check_arms(1 << 20)?;
        let (epsilon, delta) = (config.epsilon_per_reward()?, config.delta_per_reward()?);
        // A plan's own fields are not in the configuration.
        let plan = |users| {
            Params::new(epsilon, delta, users, config.shuffle_printed).map_err(|error| match error {
                Error::InvalidConfig { field: field @ ("users" | "coins_per_user"), problem } => {
                    Error::refused("batch", format_args!("gives a plan whose {field} {problem}"))
                }
                error => error,
            })
        };
        let mut policy = Self {
            plans: users.into_iter().map(plan).collect::<Result<_>>()?,
            ln_inverse_beta: config.ln_inverse_beta(),
            arms: WipedVec::new(config.arms as usize, |_| SdpAeArm::default())?,
            viable: all_arms(config)?,
            waiting: memory::try_with_capacity(config.arms as usize)?,
            cursor: 0,
            phase: 0,
            pulls: 0,
            noise_mean: 0.0,
            random: seed.stream(),
            source: RewardSource::Unknown,
            released: false,
        };
        policy.open_phase();
        Ok(policy)
    }

    /// Lines 5 and 6: opens a phase. Early rewards are the beginning of the new batches.
    fn open_phase(&mut self) {
        self.phase += 1;
        let plan = plan_of(&self.plans, self.phase);
        self.waiting.clear();
        for &arm in &self.viable {
            let state = &mut self.arms[arm as usize];
            state.batch = std::mem::take(&mut state.early);
            if state.batch.is_complete(plan) {
                state.ones += *state.batch.ones;
            } else {
                self.waiting.push(arm);
            }
        }
        self.cursor = 0;
    }

    /// Line 12: releases a batch.
    fn release(&mut self, arm: u32, ones: u64) {
        self.released = true;
        self.arms[arm as usize].ones += ones;
        if let Ok(place) = self.waiting.binary_search(&arm) {
            self.waiting.remove(place);
            self.cursor -= usize::from(place < self.cursor);
        }
        while self.waiting.is_empty() && !self.decided() {
            self.close_phase();
            if !self.decided() {
                self.open_phase();
            }
        }
    }

    /// Lines 14 and 15: estimates every viable arm, then eliminates those that are worse than the best.
    fn close_phase(&mut self) {
        let plan = plan_of(&self.plans, self.phase);
        self.pulls += u64::from(plan.users());
        self.noise_mean += plan.noise_mean();
        let width = self.width();
        let mut best = f64::NEG_INFINITY;
        for &arm in &self.viable {
            let arm = &mut self.arms[arm as usize];
            let mean = (arm.ones as f64 - self.noise_mean) / self.pulls as f64;
            arm.estimate = Estimate { mean, width, count: self.pulls };
            best = best.max(mean);
        }
        let arms = &self.arms;
        self.viable.retain(|&arm| best - arms[arm as usize].estimate.mean <= 2.0 * width);
        self.cursor = 0;
    }

    /// The half-width of all intervals at the end of the open phase.
    fn width(&self) -> f64 {
        let (phase, last) = (u64::from(self.phase), self.plans.len() as u64);
        let times = |t: u64| if t == last { phase + 1 - last } else { 1 };
        let batches = (1..=phase.min(last)).zip(&self.plans).map(|(t, &plan)| (plan, times(t)));
        let intervals = 2.0 * self.arms.len() as f64 * phase as f64 * (phase as f64 + 1.0);
        radius(batches, intervals.ln() + self.ln_inverse_beta)
    }

    /// Checks what was read of a snapshot, and continues from it.
    fn check_saved(&mut self) -> Result<()> {
        ensure(self.waiting.iter().all(|&arm| self.is_viable(arm)))?;
        ensure(!self.viable.is_empty() && self.waiting.is_empty() == self.decided())?;
        // The released batches must have had this configuration's sizes and noise, because the intervals depend on
        // that.
        let closed = self.phase - u32::from(!self.decided());
        let last = self.plans.len() as u32;
        let beyond = f64::from(closed.saturating_sub(last));
        let all = |of: fn(&Params) -> f64| {
            let each = (1..=closed.min(last)).map(|phase| of(plan_of(&self.plans, phase)));
            each.sum::<f64>() + beyond * of(plan_of(&self.plans, last))
        };
        let same = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-9 * ours;
        ensure(same(all(|plan| plan.users().into()), self.pulls as f64))?;
        ensure(same(all(Params::noise_mean), self.noise_mean))?;
        self.released = true; // there may have been releases since the snapshot
        Ok(())
    }

    fn decided(&self) -> bool {
        self.viable.len() == 1
    }

    fn is_viable(&self, arm: u32) -> bool {
        self.viable.binary_search(&arm).is_ok()
    }

    /// Adds the shuffled batch of an arm in the open phase.
    fn submit(&mut self, phase: u32, arm: u32, bits: &[u8]) -> Result<()> {
        if arm as usize >= self.arms.len() {
            return Err(Error::config("arm", &format!("must be below {}", self.arms.len()), arm));
        }
        if self.source == RewardSource::Simulation {
            return Err(Error::unsupported("a shuffled batch: the handle took plain rewards"));
        }
        match phase.cmp(&self.phase) {
            Ordering::Less => return Err(Error::Expired),
            Ordering::Greater => return Err(Error::NotReady),
            Ordering::Equal if !self.is_viable(arm) => return Err(Error::Expired),
            Ordering::Equal if self.waiting.binary_search(&arm).is_err() => return Err(Error::Duplicate),
            Ordering::Equal => {}
        }
        let ones = count_ones(plan_of(&self.plans, phase), bits)?;
        self.source = RewardSource::Shuffler;
        self.release(arm, ones);
        Ok(())
    }
}

impl Policy for ShuffledElimination {
    fn choose(&mut self) -> Pull {
        let open = if self.decided() { &self.viable } else { &self.waiting };
        let arm = open[self.cursor % open.len()];
        self.cursor = (self.cursor + 1) % open.len();
        Pull::new(arm, self.phase, 1.0)
    }

    /// Simulation: encoder, shuffler and server in one process.
    fn observe(&mut self, pull: Pull, reward: Reward) {
        if self.source == RewardSource::Shuffler || self.decided() || !self.is_viable(pull.arm()) {
            return; // rewards arrive through a shuffler, or this one is of no use: it enters no batch
        }
        self.source = RewardSource::Simulation;
        let (plan, next) = (plan_of(&self.plans, self.phase), plan_of(&self.plans, self.phase + 1));
        let arm = &mut self.arms[pull.arm() as usize];
        if !arm.batch.push(plan, reward, &mut self.random) {
            arm.early.push(next, reward, &mut self.random);
        } else if arm.batch.is_complete(plan) {
            let ones = *arm.batch.ones;
            self.release(pull.arm(), ones);
        }
    }

    fn cancel(&mut self, _pull: Pull) {}

    fn arm(&self, arm: u32) -> ArmState {
        self.arms[arm as usize].estimate.state(self.is_viable(arm))
    }

    fn counts(&self) -> PolicyCounts {
        let plan = self.plans[0];
        let loss = match self.released {
            true => PrivacyLoss::Approximate { epsilon: plan.epsilon(), delta: plan.delta() },
            false => PrivacyLoss::Pure(0.0),
        };
        PolicyCounts {
            phase: self.phase,
            active: self.viable.len() as u32,
            best: self.decided().then(|| self.viable[0]),
            ..PolicyCounts::of(loss)
        }
    }

    fn shuffled(&mut self, phase: u32, batch: Option<(u32, &[u8])>) -> Result<Params> {
        if let Some((arm, bits)) = batch {
            self.submit(phase, arm, bits)?;
        }
        Ok(*plan_of(&self.plans, phase))
    }

    /// Moves complete batches. Incomplete ones are dropped, because half a batch has half of its noise. The way in
    /// which rewards arrive is saved too: a reward that arrived here must not arrive in the other way after a
    /// restore.
    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.phase.persist(with)?;
        with.ensure((1..=1 << 31).contains(&self.phase))?;
        self.source.persist(with)?;
        with.count(&mut self.pulls)?;
        self.noise_mean.persist(with)?;
        with.arms(self.arms.len())?;
        let Self { arms, viable, waiting, .. } = self;
        if with.reads() {
            viable.clear();
            waiting.clear();
        }
        with.alike(arms.iter_mut().enumerate(), |with, (number, arm)| {
            with.member(viable, number as u32)?;
            with.member(waiting, number as u32)?;
            with.count(&mut arm.ones)?;
            arm.estimate.persist(with)
        })?;
        if with.reads() { self.check_saved() } else { Ok(()) }
    }
}

/// The parameters of the batches of a phase. (Phase 0, which never occurs, has those of the first.)
fn plan_of(plans: &[Params], phase: u32) -> &Params {
    &plans[(phase.max(1) as usize).min(plans.len()) - 1]
}

persist!(ShuffledElimination {
    arms, viable, waiting, cursor, phase, pulls, noise_mean, source, released,
} made { plans, ln_inverse_beta, random });
persist!(SdpAeArm { batch, early, ones, estimate });
persist!(Encoded { messages, ones });

impl Persist for RewardSource {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let all = [RewardSource::Unknown, RewardSource::Simulation, RewardSource::Shuffler];
        with.numbered(*self as u8, self, |number| all.get(usize::from(number)).copied())
    }
}
