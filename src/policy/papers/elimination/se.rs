//! DP-SE: differentially private successive elimination.
//!
//! Sajed and Sheffet (2019), Algorithm 3. **Pure eps-DP** (their Theorem 4.1): every reward is in one epoch of one
//! arm, and each epoch releases each arm's sum once, so Theorem P of [`crate::privacy`] applies. Regret O(sum_a ln
//! T/Delta_a + K ln T/eps) (their Theorem 4.3).
//!
//! Beyond the paper:
//! - Epochs count pulls *with a reward*, so a cancelled pull is issued again. While an epoch waits for its last
//!   rewards, decisions go round-robin over the arms' next epoch.
//! - Without a horizon, T is guessed, and the guess is squared each time it is reached. Then every arm starts afresh,
//!   because an elimination at the old, larger beta must not be final.
//! - With `beta` given the same policy is best-arm identification at fixed confidence.
//!
//! Cost: select O(1) amortised, update O(1), the end of an epoch O(K) and |S| noises. 64 bytes an arm, at most 2^18
//! arms, and 2^32 rewards of an arm in an epoch.

use super::Estimate;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::open::Batch;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::noise::{Noise, NoiseSource};
use crate::policy::compare::ReleaseTotals;
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::cumulant::Cumulant;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;
use crate::snapshot::ensure;

pub struct DpSe {
    /// ln(1/beta).
    ln_inverse_beta: f64,
    /// Guess of T without horizon and beta, squared when the decisions reach it; else [`NEVER`](Self::NEVER).
    guess: u64,
    decisions: u64,
    epsilon: f64,
    noise: NoiseSource,
    arms: WipedVec<SeArm>,
    /// |S|, the number of viable arms. `cursor` is the place of the next one in turn.
    viable: u32,
    cursor: u32,
    epoch: u32,
    /// Rewards that the open epoch still waits for.
    missing: u64,
    /// Pulls of the open epoch that are not yet issued.
    unissued: u64,
    released: bool,
}

#[derive(Default)]
struct SeArm {
    batch: Batch,
    /// Rewards that arrive while a full batch waits for the other arms' batches: the arm's next batch. So no decision
    /// is wasted, and none counts twice.
    next_batch: Batch,
    estimate: Estimate,
    /// Number of pending decisions.
    in_flight: u32,
    /// In the first |S| arms: the list of viable arms, in ascending order. (A list of its own would make a handle 3%
    /// larger.)
    turn: u32,
}

impl SeArm {
    /// Whether the open epoch still needs a pull of this arm, in addition to the pending ones.
    fn wants_pull(&self) -> bool {
        u64::from(self.in_flight) < self.batch.free()
    }
}

impl DpSe {
    /// A guess that is never reached, because there are fewer tickets.
    const NEVER: u64 = 1 << 63;

    pub fn new(config: &Config, seed: &mut Seed) -> Result<DpSe> {
        config.check_arms(1 << 18)?;
        let distribution = config.laplace(config.epsilon_per_reward()?)?;
        let guesses = config.beta == 0.0 && config.horizon == 0;
        let guess = if guesses { first_guess(config.arms) } else { Self::NEVER };
        let ln_inverse_beta = if guesses { (guess as f64).ln() } else { config.ln_inverse_beta() };
        let mut policy = DpSe {
            ln_inverse_beta,
            guess,
            decisions: 0,
            epsilon: distribution.epsilon(),
            noise: NoiseSource::new(Noise::Laplace(distribution), seed.stream()),
            arms: WipedVec::new(config.arms as usize, |_| SeArm::default())?,
            viable: 0,
            cursor: 0,
            epoch: 0,
            missing: 0,
            unissued: 0,
            released: false,
        };
        policy.restart();
        Ok(policy)
    }

    /// Lines 1 and 2: makes all arms viable, and forgets their rewards.
    fn restart(&mut self) {
        for arm in &mut *self.arms {
            (arm.batch, arm.next_batch) = (Batch::default(), Batch::default());
        }
        self.viable = 0;
        (0..self.arms.len() as u32).for_each(|arm| self.keep(arm));
        self.epoch = 0;
        self.open_epoch();
    }

    /// Adds an arm to the viable ones: one that is greater than all of them.
    fn keep(&mut self, arm: u32) {
        self.arms[self.viable as usize].turn = arm;
        self.viable += 1;
    }

    /// The viable arm at this place of their list.
    fn turn(&self, place: u32) -> usize {
        self.arms[place as usize].turn as usize
    }

    /// Lines 4 to 8: opens the next epoch.
    fn open_epoch(&mut self) {
        self.epoch += 1;
        let quota = self.quota(self.epoch, self.viable);
        let next_at_least = self.quota(self.epoch + 1, 2);
        (self.missing, self.unissued) = (0, 0);
        for place in 0..self.viable {
            let number = self.turn(place);
            let arm = &mut self.arms[number];
            arm.batch = std::mem::replace(&mut arm.next_batch, Batch::open(next_at_least));
            arm.batch.raise(quota);
            self.missing += arm.batch.free();
            self.unissued += arm.batch.free().saturating_sub(arm.in_flight.into());
        }
        self.cursor = 0;
    }

    /// Lines 15 to 20: releases every viable arm's sum, then eliminates arms that are worse than the best.
    fn close_epoch(&mut self) {
        let quota = self.arms[self.first() as usize].batch.quota();
        let width = self.width(self.epoch, self.viable, quota);
        let mut best = f64::NEG_INFINITY;
        for place in 0..self.viable {
            let number = self.turn(place);
            let arm = &mut self.arms[number];
            let release = arm.batch.release(&mut self.noise);
            arm.estimate = Estimate { mean: release.mean(), width, count: release.count };
            best = best.max(arm.estimate.mean);
        }
        self.released = true;
        for place in 0..std::mem::take(&mut self.viable) {
            let number = self.turn(place);
            let arm = &mut self.arms[number];
            if best - arm.estimate.mean <= 2.0 * width {
                self.keep(number as u32);
            } else {
                (arm.batch, arm.next_batch) = (Batch::default(), Batch::default()); // they collect no more rewards
            }
        }
        self.cursor = 0;
    }

    /// Continues from a snapshot's arms and this guess, 0 for none.
    fn continue_from(&mut self, guess: u64) -> Result<()> {
        if self.guess != Self::NEVER {
            self.guess = guess.max(self.guess).min(Self::NEVER - 1);
            while self.guess < self.decisions {
                self.guess = self.guess.saturating_mul(self.guess); // the snapshot's handle had a horizon
            }
            self.ln_inverse_beta = (self.guess as f64).ln();
        }
        ensure(self.viable > 0)?;
        self.released = true; // there may have been releases since the snapshot
        if self.decided() {
            (self.missing, self.unissued) = (0, 0);
        } else {
            self.epoch -= 1;
            self.open_epoch();
        }
        Ok(())
    }

    /// R_e, pulls of each viable arm in epoch e (line 8).
    fn quota(&self, epoch: u32, viable: u32) -> u64 {
        let gap = 0.5f64.powi(epoch.min(500) as i32);
        let (wide, narrow) = self.logs(epoch, viable);
        let pulls = f64::max(32.0 * wide / (gap * gap), 8.0 * narrow / (self.epsilon * gap)) + 1.0;
        (pulls.ceil() as u64).min(Batch::MAX_QUOTA)
    }

    /// h_e + c_e, the half-width of an interval after `pulls` pulls (lines 15 and 16).
    fn width(&self, epoch: u32, viable: u32, pulls: u64) -> f64 {
        let (wide, narrow) = self.logs(epoch, viable);
        (wide / (2.0 * pulls as f64)).sqrt() + narrow / (self.epsilon * pulls as f64)
    }

    /// ln(8|S|e^2/beta) and ln(4|S|e^2/beta).
    fn logs(&self, epoch: u32, viable: u32) -> (f64, f64) {
        let log = (f64::from(viable) * f64::from(epoch).powi(2)).ln() + self.ln_inverse_beta;
        (8f64.ln() + log, 4f64.ln() + log)
    }

    /// The first viable arm.
    fn first(&self) -> u32 {
        self.turn(0) as u32
    }

    fn is_viable(&self, arm: u32) -> bool {
        self.arms[..self.viable as usize].binary_search_by_key(&arm, |place| place.turn).is_ok()
    }

    fn decided(&self) -> bool {
        self.viable == 1
    }

    /// How often a guess at T was reached.
    fn restarts(&self) -> u32 {
        let (mut guess, mut restarts) = (first_guess(self.arms.len() as u32), 0);
        while self.guess != Self::NEVER && guess < self.guess {
            guess = guess.saturating_mul(guess);
            restarts += 1;
        }
        restarts
    }
}

/// The first guess of T.
fn first_guess(arms: u32) -> u64 {
    4096 * u64::from(arms)
}

impl Policy for DpSe {
    fn choose(&mut self) -> Pull {
        if self.guess == self.decisions {
            self.guess = self.guess.saturating_mul(self.guess).min(Self::NEVER - 1);
            self.ln_inverse_beta = (self.guess as f64).ln();
            self.restart();
        }
        self.decisions += 1;
        let viable = self.viable;
        let next = |cursor: u32| if cursor + 1 < viable { cursor + 1 } else { 0 };
        if self.unissued > 0 {
            while !self.arms[self.turn(self.cursor)].wants_pull() {
                self.cursor = next(self.cursor);
            }
            self.unissued -= 1;
        }
        let number = self.turn(self.cursor);
        self.arms[number].in_flight += 1;
        self.cursor = next(self.cursor);
        Pull::new(number as u32, self.epoch, 1.0)
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let arm = &mut self.arms[pull.arm() as usize];
        arm.in_flight -= 1;
        if arm.batch.collect(reward) {
            self.missing -= 1;
        } else {
            arm.next_batch.collect(reward);
        }
        while self.missing == 0 && !self.decided() {
            self.close_epoch();
            if !self.decided() {
                self.open_epoch();
            }
        }
    }

    fn cancel(&mut self, pull: Pull) {
        let arm = &mut self.arms[pull.arm() as usize];
        arm.in_flight -= 1;
        self.unissued += u64::from(arm.wants_pull());
    }

    fn arm(&self, arm: u32) -> ArmState {
        self.arms[arm as usize].estimate.state(self.is_viable(arm))
    }

    /// The totals of the arm's last epoch: the e-th has more than 64 4^e pulls. Each guess of T starts anew.
    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        let Estimate { mean, count, .. } = self.arms[arm as usize].estimate;
        if count == 0 {
            return Err(Error::NotReady);
        }
        let epoch = (count / 64).max(4).ilog2() / 2;
        let distribution = Cumulant::of(&self.noise.distribution());
        let restarts = f64::from(self.restarts());
        let price = ((restarts + 1.0) * (restarts + 2.0)).ln();
        Ok(ReleaseTotals::last(distribution, count, mean, epoch - 1, price))
    }

    fn counts(&self) -> PolicyCounts {
        let loss = PrivacyLoss::Pure(if self.released { self.epsilon } else { 0.0 });
        PolicyCounts {
            phase: self.epoch,
            active: self.viable,
            best: self.decided().then(|| self.first()),
            ..PolicyCounts::of(loss)
        }
    }

    /// A restored handle plays the open epoch again, with other rewards.
    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        with.count(&mut self.decisions)?;
        let mut guess = if self.guess == Self::NEVER { 0 } else { self.guess };
        guess.persist(with)?;
        with.ensure(guess == 0 || guess >= self.decisions)?;
        self.epoch.persist(with)?;
        with.ensure((1..u32::MAX).contains(&self.epoch))?;
        with.arms(self.arms.len())?;
        if with.reads() {
            self.viable = 0;
        }
        with.alike(0..self.arms.len() as u32, |with, number| {
            let mut is_viable = self.is_viable(number);
            is_viable.persist(with)?;
            if with.reads() && is_viable {
                self.keep(number);
            }
            let arm = &mut self.arms[number as usize];
            if with.reads() {
                (arm.batch, arm.next_batch) = (Batch::default(), Batch::default());
            }
            arm.estimate.persist(with)
        })?;
        if with.reads() { self.continue_from(guess) } else { Ok(()) }
    }
}

persist!(DpSe { guess, decisions, arms, viable, cursor, epoch, missing, unissued, released } made { ln_inverse_beta, epsilon, noise });
persist!(SeArm { batch, next_batch, estimate, in_flight, turn });
