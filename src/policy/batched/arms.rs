//! Collects the rewards of every arm in batches, and releases each batch once. The policies decide which arm is
//! pulled, and how large its next batch is.
//!
//! **Privacy** (pure eps-DP; rho-zCDP with Gaussian noise): Theorem P of [`crate::privacy`]. A reward enters only the
//! one open batch of its arm. A batch's size is fixed when it opens, by releases (of all arms: their overall rate)
//! and public counts. A batch is released once, when it is full. Indices, probabilities and discounts are functions
//! of releases, of priors, and of public counts: decisions, cancelled decisions, and for `choose_among` the sets of
//! eligible arms. Priors and eligible arms are public.
//!
//! **Priors.** A prior affects only what the policy decides by. It is not in the reported state of the arm, it makes
//! no batch larger, so that it is tested soon, and no other handle merges it. [`prior`](crate::policy::prior) defines
//! how much of it counts. This share is computed at the arm's releases, and for 16 arms in turn at any release.
//! Between these times the earlier share counts, which may be too small when the time has advanced.

mod persist;

use super::arm_sum::ArmSum;
use super::peers::HandleReleases;
use super::released::{Evidence, JoinedReleases, Memory, NoisySum, ReleaseHistory};
use crate::config::Config;
use crate::error::Result;
use crate::ledger::cells::{Ledger, OpenSum};
use crate::ledger::facts::Duty;
use crate::ledger::grid::Grid;
use crate::ledger::open::Batch;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::noise::{Noise, NoiseSource};
use crate::os::DefaultRounding;
use crate::policy::compare::{ReleaseTotals, Totals};
use crate::policy::contract::{ArmState, PolicyCounts, Pull};
use crate::policy::cumulant::Cumulant;
use crate::policy::prior::Prior;
use crate::random::Seed;
use crate::request::Offer;
use crate::reward::Reward;
use crate::snapshot::is_plausible;
use crate::tournament::{Line, Tournament};
use std::f64::consts::LN_2;

/// The batches of all arms, and their releases.
pub struct BatchedArms {
    pub ledger: BatchedLedger,
    arms: WipedVec<BatchedArm>,
    /// Releases of other handles for each arm; empty if there are none.
    others: WipedVec<JoinedReleases>,
    distribution: Cumulant,
    memory: Memory,
    /// Rewards in an arm's first batch, before anything is released.
    pub first: u64,
    /// Maximum size of a batch, as a multiple of the arm's rewards. With exploration batches are smaller, so that
    /// results come sooner.
    most: f64,
    /// Sum of all releases of this handle; `rewards` is the number of rewards in them.
    sum: f64,
    rewards: u64,
    /// The rewards in the releases of all other handles, their sum, and the number of noises in it.
    others_overall: [f64; 3],
    /// ln(1/beta): reported intervals hold with probability 1 - beta.
    ln_inverse_beta: f64,
    /// Number of releases that contradicted their arm's past.
    changes: u64,
    /// Number of arms with a prior.
    priors: u32,
    /// Negated means of the arms, so that the arm with the largest mean wins.
    leader: Tournament,
    /// The arm that [`refresh_next`](Self::refresh_next) checked last.
    cursor: usize,
}

pub type BatchedLedger = Ledger<ArmSum, HandleReleases>;

/// The releases of an arm.
struct BatchedArm {
    saved: SavedArm,
    /// The mean at the last refresh; NaN if there was none.
    mean: f64,
    /// Time of the last refresh.
    tick: u32,
}

/// What a snapshot has of an arm.
#[derive(Clone, Copy)]
pub struct SavedArm {
    /// Rewards in all releases, including forgotten ones.
    total: u64,
    pub released: ReleaseHistory,
    prior: Option<ActivePrior>,
}

/// What a snapshot has of a handle, before its arms.
#[derive(Default)]
pub struct Overall {
    changes: u64,
    sum: f64,
}

/// A prior, the time at which it was set, and the share of it that counts.
#[derive(Clone, Copy)]
pub struct ActivePrior {
    prior: Prior,
    tick: u32,
    share: f32,
}

impl BatchedArm {
    const NEW: BatchedArm = BatchedArm { saved: SavedArm::NEW, mean: f64::NAN, tick: 0 };
}

/// Nats beyond which a release contradicts its arm's past. In 20 runs of a million decisions without a change fewer
/// than one release does.
const CONTRADICTION: f64 = 10.0;

impl BatchedArms {
    pub const LOOKS: usize = 16;

    pub fn new(config: &Config, seed: &mut Seed) -> Result<BatchedArms> {
        let noise = config.noise()?;
        let arms = config.arms as usize;
        let cells = Grid::of_row(WipedVec::new(arms, |_| ArmSum::default())?);
        Ok(BatchedArms {
            arms: WipedVec::new(arms, |_| BatchedArm::NEW)?,
            others: WipedVec::default(),
            distribution: Cumulant::of(&noise),
            memory: Memory::new(config.forget_after),
            first: first_batch(&noise, config),
            most: 3.0 - 2.5 * config.exploration,
            sum: 0.0,
            rewards: 0,
            others_overall: [0.0; 3],
            ln_inverse_beta: config.ln_inverse_beta(),
            changes: 0,
            priors: 0,
            leader: Tournament::new(arms, Line::NEVER)?,
            cursor: 0,
            ledger: Ledger::new(config, cells, NoiseSource::new(noise, seed.stream()))?,
        })
    }

    fn now(&self) -> u32 {
        self.memory.ticks(self.ledger.facts.now())
    }

    /// The open batch of an arm.
    #[inline]
    pub fn open_sum(&self, arm: usize) -> &ArmSum {
        &self.ledger.cells[(0, arm)]
    }

    #[inline]
    pub fn open_sum_mut(&mut self, arm: usize) -> &mut ArmSum {
        self.ledger.cells.base_mut(arm)
    }

    /// The releases of an arm, of all handles, discounted to now.
    fn released(&self, arm: usize) -> Evidence {
        self.arms[arm].saved.released.and(self.others.get(arm), self.distribution, self.memory, self.now())
    }

    /// The releases of an arm and its prior, discounted to now.
    pub fn evidence(&self, arm: usize) -> Evidence {
        let mut evidence = self.released(arm);
        if let Some(active) = &self.arms[arm].saved.prior {
            evidence.add_prior(active.prior, active.share.into());
        }
        evidence
    }

    /// Sets the prior of an arm.
    pub fn set_prior(&mut self, arm: usize, prior: Prior) {
        self.replace_prior(arm, Some(ActivePrior { prior, tick: self.now(), share: 1.0 }));
        self.refresh(arm);
    }

    fn replace_prior(&mut self, arm: usize, active: Option<ActivePrior>) {
        let before = std::mem::replace(&mut self.arms[arm].saved.prior, active);
        self.priors = self.priors + u32::from(active.is_some()) - u32::from(before.is_some());
    }

    /// The share of an arm's prior that counts now; 0 if the arm's releases contradict it.
    fn share(&self, arm: usize, active: &ActivePrior) -> f64 {
        let mut prior = Evidence::nothing(self.distribution);
        prior.add_prior(active.prior, 1.0);
        if prior.contradiction(&self.released(arm)) > Prior::CONTRADICTION {
            return 0.0;
        }
        let leading = self.mean(self.leader()).max(0.0);
        self.memory.discount(self.now(), active.tick) * active.prior.share(leading, self.ledger.facts.decisions)
    }

    /// Reserves memory for the releases of other handles.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn reserve_others(&mut self) -> Result<()> {
        if self.others.is_empty() {
            let now = self.now();
            self.others = WipedVec::new(self.arms.len(), |_| JoinedReleases::nothing(now))?;
        }
        Ok(())
    }

    /// Joins what other handles have released of an arm.
    pub fn join(&mut self, arm: usize) {
        self.ledger.facts.time.learn();
        let (distribution, memory, now) = (self.distribution, self.memory, self.now());
        let joined = &mut self.others[arm];
        let before = std::mem::replace(joined, JoinedReleases::nothing(now)).overall();
        for released in self.ledger.peers.iter().filter_map(|peer| peer.released(arm, &self.ledger.roster)) {
            joined.add(released, distribution, memory, now);
        }
        let after = joined.overall();
        (0..3).for_each(|i| self.others_overall[i] += after[i] - before[i]);
        self.refresh(arm);
    }

    /// Rewards of this handle's own decisions for an arm, since it was made, that are in no open batch. In units of an
    /// [examination](Pull::EXAMINATION).
    pub fn closed(&self, arm: usize) -> u64 {
        self.open_sum(arm).closed
    }

    /// N of all releases that count.
    pub fn known(&self) -> u64 {
        let own = self.arms.iter().map(|arm| &arm.saved.released.totals);
        own.chain(self.others.iter().map(|others| &others.totals)).map(Totals::rewards).sum::<f64>() as u64
    }

    /// Forgets all that this handle has released. Arms are to be [joined](Self::join) again.
    pub fn forget(&mut self) {
        (self.sum, self.rewards) = (0.0, 0);
        for arm in &mut *self.arms {
            (arm.saved.total, arm.saved.released) = (0, ReleaseHistory::NOTHING);
        }
    }

    /// This handle's part of a batch of this size.
    pub fn part(&self, size: u64) -> u64 {
        size.div_ceil(self.ledger.facts.share().sharers.into())
    }

    /// The size of a batch of which this is the handle's part.
    pub fn whole(&self, part: u64) -> u64 {
        part.saturating_mul(self.ledger.facts.share().sharers.into())
    }

    /// The arm with the largest released mean; an arbitrary arm before the first release.
    pub fn leader(&self) -> usize {
        self.leader.winner()
    }

    /// The arm with the largest released mean of these, and that mean; 0 if there is none.
    pub fn leader_of(&self, arms: &[u32]) -> (usize, f64) {
        let mut best = (arms[0] as usize, 0.0);
        for &arm in arms {
            let mean = self.mean(arm as usize);
            if mean > best.1 {
                best = (arm as usize, mean);
            }
        }
        best
    }

    /// The arm of the m-th largest worth of an offer's, which are all different, and that worth.
    pub fn leader_in(&self, offer: &Offer, m: usize) -> (usize, f64) {
        self.leader_at(offer.among().unwrap_or(&[]), m, offer.least_worth(), |arm, mean| offer.worth(arm, mean))
    }

    /// The same of these arms, by their released means; an arbitrary arm and `least` if no more than m - 1 arms are worth
    /// more than that.
    pub fn leader_at(&self, arms: &[u32], m: usize, least: f64, worth: impl Fn(u32, f64) -> f64) -> (usize, f64) {
        let mut last = (f64::INFINITY, 0);
        for _ in 0..m {
            let mut best = (least, u32::MAX);
            for &arm in arms {
                let worth = worth(arm, self.mean(arm as usize));
                let comes_later = worth < last.0 || (worth == last.0 && arm > last.1);
                if comes_later && (worth > best.0 || (worth == best.0 && arm < best.1)) {
                    best = (worth, arm);
                }
            }
            if best.0 == least {
                return (arms.first().map_or(0, |&arm| arm as usize), least);
            }
            last = best;
        }
        (last.1 as usize, last.0)
    }

    /// An arm's released mean; NaN if there is none.
    pub fn mean(&self, arm: usize) -> f64 {
        self.arms[arm].mean
    }

    /// The number of decisions that the releases are of, here and at others, as `forget_after` discounts them.
    pub fn decisions(&self) -> f64 {
        let (own, facts) = (self.ledger.facts.decisions as f64, &self.ledger.facts);
        let remembered = match self.memory.is_finite() {
            true => 0.75 * facts.time.decisions_in(facts.time.memory() as f64), // the integral of the discount
            false => f64::INFINITY,
        };
        (own.min(remembered) * f64::from(facts.handles())).max(1.0)
    }

    /// Counts a decision that gets no arm, which has this probability.
    pub fn abstain(&mut self, offer: &mut Offer, propensity: f64) {
        self.ledger.facts.decisions += 1;
        offer.abstain(propensity);
    }

    /// The permitted size nearest to `rewards`, for the next batch of an arm. Handles that share a batch compute the
    /// size of the whole.
    pub fn size(&self, arm: &Evidence, rewards: f64) -> u64 {
        let rewards = rewards.min(self.most * arm.awaited);
        // With noise of its own each handle takes its part, but no less than four first batches.
        let (first, share) = (self.first as f64, self.ledger.facts.share());
        let part = match self.ledger.facts.duty() {
            Duty::Alone => (rewards / share.divides).max(rewards.min(4.0 * first)),
            _ => rewards.min(share.limit.max(first)),
        };
        let least = if arm.count == 0.0 || self.memory.is_finite() { self.first } else { 1 };
        let most = self.ledger.facts.time.decisions_in(self.memory.longest_batch()).ceil() as u64;
        (part.ceil() as u64)
            .max(self.least_batch().saturating_sub(arm.prior_count as u64))
            .min(most)
            .max(least)
            .min(Batch::MAX_QUOTA)
    }

    /// The minimum size of a batch, by what was released so far: 2 sigma (1/r - 2) rewards, where sigma is the
    /// noise's deviation and r is the mean of all rewards that this handle (in a fleet with a leader: any handle)
    /// released; 0 if r is at least a half. A batch of 1/epsilon rewards with a mean of .003 is nothing but noise, and
    /// many such batches add up much noise. A batch of this size has a sum of about two deviations.
    ///
    /// r is the noised sum divided by the number of rewards, with the sum at least the deviation that the noise of so
    /// many releases has. So the first batches of many arms grow gradually, until the rate is known.
    ///
    /// The rewards that a prior counts for are subtracted, so that a prior is tested soon.
    fn least_batch(&self) -> u64 {
        let deviation = self.distribution.variance().sqrt();
        let mut overall = [self.rewards as f64, self.sum, self.ledger.facts.releases.into()];
        if self.ledger.facts.duty() != Duty::Alone {
            // Few handles release, so each learns the rate from all.
            (0..3).for_each(|i| overall[i] += self.others_overall[i]);
        }
        let [rewards, sum, noises] = overall;
        let misses = rewards / sum.max(deviation * (2.0 * noises).sqrt()) - 2.0;
        (2.0 * deviation * misses).ceil() as u64 // 0 if it is negative or NaN
    }

    /// The size of a batch that doubles the arm's evidence.
    pub fn doubling(&self, arm: usize) -> u64 {
        let evidence = self.evidence(arm);
        self.size(&evidence, evidence.count)
    }

    /// Notes what the next reward of an arm lacks of an examination, if its batch accepts it.
    pub fn note_unexamined(&mut self, arm: usize, unexamined: u16) {
        let sum = self.open_sum_mut(arm);
        if sum.batch.free() > 0 {
            sum.add_unexamined(unexamined.into());
        }
    }

    /// Credits a reward to its arm's batch. Returns true if that filled the batch, which is then to be released.
    #[inline]
    pub fn collect(&mut self, arm: usize, reward: Reward) -> bool {
        self.open_sum_mut(arm).collect(reward)
    }

    /// Opens the batch of an arm whose sum is wanted, if it is not open.
    pub fn ensure_open(&mut self, arm: usize) {
        if !self.is_open(arm) {
            self.open(arm, self.doubling(arm));
        }
    }

    /// Opens an arm's batch, or changes its size. What it has collected stays.
    pub fn open(&mut self, arm: usize, size: u64) {
        let size = self.ledger.facts.quota(size);
        self.open_sum_mut(arm).open(size);
    }

    /// Lowers the size of an arm's open batch, but not below what it has collected and one. Returns the size.
    pub fn lower(&mut self, arm: usize, size: u64) -> u64 {
        let contributes = self.ledger.facts.duty().contributes();
        let sum = self.open_sum_mut(arm);
        if !contributes && sum.batch.free() > 0 {
            sum.lower(size);
        }
        sum.size()
    }

    /// The rewards in all open batches and in all releases of this handle.
    #[cfg(test)]
    pub fn collected(&self) -> u64 {
        self.ledger.cells.iter().map(|sum| u64::from(sum.batch.count())).sum::<u64>() + self.rewards
    }

    /// Whether an arm's batch accepts rewards.
    pub fn is_open(&self, arm: usize) -> bool {
        self.open_sum(arm).batch.free() > 0
    }

    /// Whether this handle's own decisions for an arm, with so many units of an examination, fill its batch. A
    /// contributor's batch ends with its next contribution.
    pub fn is_filled_by(&self, arm: usize, pending: u64) -> bool {
        let sum = self.open_sum(arm);
        self.ledger.facts.duty().contributes() || pending + sum.units() >= sum.size() * Pull::EXAMINATION
    }

    /// Releases an arm's batch. Rewards become public only here.
    pub fn release(&mut self, arm: usize) {
        let _rounding = DefaultRounding::set();
        self.ledger.facts.time.learn();
        let now = self.now();
        let past = self.memory.is_finite().then(|| self.released(arm));
        let (sum, noise) = (&mut self.ledger.cells[(0, arm)], &mut self.ledger.noise);
        let examined = sum.units();
        let units = |units: u64| units as f64 / Pull::EXAMINATION as f64;
        let (count, unexamined, opened) = (units(examined), units(sum.unexamined), f64::from(sum.opened));
        sum.close();
        let release = sum.batch.release(noise);
        sum.batch = Batch::default();
        let state = &mut self.arms[arm];
        let pair = NoisySum::new(count, release.sum, now).unexamined(unexamined);
        let whole = examined / Pull::EXAMINATION;
        (self.sum, self.rewards) = (self.sum + release.sum, self.rewards + whole);
        state.saved.total += whole;
        if let Some(past) = past {
            state.saved.released.expire(self.memory, now);
            if past.contradiction(&pair.evidence(self.distribution)) > CONTRADICTION {
                state.saved.released = ReleaseHistory::NOTHING;
                if let Some(others) = self.others.get_mut(arm) {
                    *others = JoinedReleases::nothing(now); // until other handles release more
                }
                self.changes += 1;
            }
        }
        let released = &mut state.saved.released;
        released.push(pair);
        released.totals.release_as(opened, count, unexamined, release.sum, self.distribution);
        self.ledger.facts.release(whole);
        self.refresh(arm);
    }

    /// Updates the arm's mean and prior to now.
    fn refresh(&mut self, arm: usize) {
        let now = self.now();
        if let Some(active) = self.arms[arm].saved.prior {
            let share = self.share(arm, &active) as f32;
            self.replace_prior(arm, (share > 0.0).then_some(ActivePrior { share, ..active }));
        }
        let evidence = self.evidence(arm);
        let state = &mut self.arms[arm];
        state.tick = now;
        state.mean = if evidence.is_empty() { f64::NAN } else { evidence.mean() };
        if self.ledger.roster.is_live(arm) {
            let line = if evidence.is_empty() { Line::NEVER } else { Line::level(-state.mean) };
            self.leader.set(arm, line);
        }
    }

    /// Refreshes the next arm in turn, if the discount of its releases or the share of its prior has changed. Returns
    /// it if so. A policy calls this [`LOOKS`](Self::LOOKS) times at the end of a batch, so that every arm is
    /// refreshed in time.
    pub fn refresh_next(&mut self) -> Option<usize> {
        if !self.memory.is_finite() && self.priors == 0 {
            return None;
        }
        self.cursor = (self.cursor + 1) % self.arms.len();
        let now = self.now();
        let moved = self.arms[self.cursor].saved.prior.is_some_and(|active| {
            let change = self.share(self.cursor, &active) / f64::from(active.share);
            !(0.95..1.05).contains(&change)
        });
        let state = &mut self.arms[self.cursor];
        let stale = moved || self.memory.is_stale(now, state.tick);
        if stale {
            state.saved.released.expire(self.memory, now);
            self.refresh(self.cursor);
        }
        stale.then_some(self.cursor)
    }

    /// The public state of an arm.
    pub fn arm(&self, arm: usize) -> ArmState {
        let evidence = self.released(arm);
        let (mean, width) = match evidence.is_empty() {
            true => (f64::NAN, f64::NAN),
            false => (evidence.mean(), evidence.width(self.ln_inverse_beta)),
        };
        ArmState { mean, width, effective_pulls: evidence.count, active: self.ledger.roster.is_live(arm) }
    }

    /// As [`ReleaseTotals::of_all`].
    pub fn sums(&self, arm: usize) -> Result<ReleaseTotals> {
        let (own, others) = (self.arms[arm].saved.released.totals, self.others.get(arm).map(|others| &others.totals));
        ReleaseTotals::of_all(self.distribution, self.memory.is_finite(), own, others)
    }

    pub fn counts(&self) -> PolicyCounts {
        PolicyCounts { changes: self.changes, ..PolicyCounts::of_ledger(&self.ledger) }
    }

    /// Makes what one more arm has. May allocate.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn grow(&mut self) -> Result<()> {
        self.arms.reserve()?;
        self.leader.reserve()?;
        self.ledger.cells.reserve()?;
        if !self.others.is_empty() {
            self.others.reserve()?;
            self.others.push(JoinedReleases::nothing(self.now()));
        }
        self.ledger.cells.push(ArmSum::default());
        self.arms.push(BatchedArm::NEW);
        self.leader.push(Line::NEVER);
        Ok(())
    }

    /// Forgets all that is known of an arm, and drops the rewards in its open batch.
    pub fn begin_anew(&mut self, arm: usize) {
        self.open_sum_mut(arm).clear();
        self.arms[arm].saved.released = ReleaseHistory::NOTHING;
        self.refresh(arm);
    }

    /// Drops what a retired arm does not need.
    pub fn retire(&mut self, arm: usize) {
        self.replace_prior(arm, None);
        self.leader.set(arm, Line::NEVER);
    }
}

impl SavedArm {
    pub const NEW: SavedArm = SavedArm { total: 0, released: ReleaseHistory::NOTHING, prior: None };
}

impl Persist for SavedArm {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.count(&mut self.total)?;
        self.released.persist(with)?;
        with.option(&mut self.prior, || Ok(ActivePrior { prior: Prior::WEAKEST, tick: 0, share: 1.0 }))
    }
}

persist!(ActivePrior { prior, tick } made { share });

impl Persist for Overall {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.count(&mut self.changes)?;
        self.sum.persist(with)?;
        with.ensure(is_plausible(self.sum))
    }
}

impl Evidence {
    /// P(|mean - mu| > width) <= beta for sizes that are fixed, where mu is the weighted mean over what counts.
    /// Chernoff: rewards in `[0, 1]` have log-MGF at most s^2/8, and every s gives a bound. At the best s, s times
    /// the slope of the exponents equals the exponents plus ln(2/beta).
    fn width(&self, ln_inverse_beta: f64) -> f64 {
        let terms = || self.terms().iter().map(|t| (t, t.discount * t.weight));
        let rewards: f64 = terms().map(|(t, w)| t.rewards() * w * w / 4.0).sum();
        let noise: f64 = terms().map(|(t, w)| t.noises * w * w * self.distribution.variance()).sum();
        let heaviest = terms().map(|(_, w)| w).fold(0.0, f64::max);
        let log = LN_2 + ln_inverse_beta;
        let most = (self.distribution.limit() / heaviest).min(1e9) * (1.0 - 1e-6);
        // Exact for Gaussian noise. Laplace's log-MGF is steeper, so there s is smaller.
        let (mut low, mut high) = (0.0, (2.0 * log / (rewards + noise)).sqrt().min(most));
        let exponents = |s: f64| {
            let noises: f64 = terms().map(|(t, w)| t.noises * self.distribution.at(s * w)).sum();
            log + rewards * s * s / 2.0 + noises
        };
        let slope =
            |s: f64| rewards * s + terms().map(|(t, w)| t.noises * w * self.distribution.slopes(s * w).0).sum::<f64>();
        let mut s = high;
        for _ in 0..12 {
            if s * slope(s) > exponents(s) {
                high = s
            } else {
                low = s
            }
            s = 0.5 * (low + high);
        }
        exponents(s) / (s * self.weight)
    }
}

/// The size of a first batch: the deviation of the noise in its mean is about sqrt 2.
fn first_batch(noise: &Noise, config: &Config) -> u64 {
    match noise {
        Noise::Laplace(_) => config.ceil_inverse_epsilon(),
        Noise::Gaussian(distribution) => (0.5 / distribution.rho().sqrt()).ceil() as u64,
    }
    .clamp(1, Batch::MAX_QUOTA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::cells::OpenSum;
    use crate::policy::kl::kl;
    use crate::snapshot::{Reader, Writer};

    const STRONG: Prior = Prior { mean: 0.5, strength: 1000.0 };

    fn with_memory(memory: u64) -> BatchedArms {
        BatchedArms::new(
            &Config { forget_after: memory, ..Config::new(3, 1.0) },
            &mut Seed::new(Some([7; 32])).unwrap(),
        )
        .unwrap()
    }

    fn add_arm(arms: &mut BatchedArms, id: u64) {
        arms.ledger.roster.reserve().unwrap();
        arms.grow().unwrap();
        arms.ledger.roster.add(id);
    }

    /// Reports a reward as a policy does. Returns whether its batch was released.
    fn collect(arms: &mut BatchedArms, arm: usize, reward: Reward, unexamined: u16) -> bool {
        arms.note_unexamined(arm, unexamined);
        let full = arms.collect(arm, reward);
        if full {
            arms.release(arm);
        }
        full
    }

    /// Releases a batch of `count` rewards, of which `ones` are 1.
    fn release(arms: &mut BatchedArms, arm: usize, count: u32, ones: u32) {
        arms.open(arm, count.into());
        (0..count).for_each(|i| {
            arms.ledger.facts.decisions += 1;
            collect(arms, arm, Reward::from_units(if i < ones { Reward::ONE as u32 } else { 0 }), 0);
        });
    }

    /// A batch is at least 2 sigma (1/r - 2) rewards, r the overall released rate. There is no minimum before
    /// anything is released and if r is at least a half. It never exceeds what `forget_after` allows, and is the same
    /// after a restore.
    #[test]
    fn batches_are_more_than_noise() {
        let config = |memory| Config { forget_after: memory, ..Config::new(3, 1.0) };
        let fresh = |memory| BatchedArms::new(&config(memory), &mut Seed::new(Some([7; 32])).unwrap()).unwrap();
        let (mut arms, deviation) = (fresh(0), 2f64.sqrt());
        assert_eq!(arms.size(&arms.evidence(0), 0.0), 1);
        release(&mut arms, 0, 100, 60);
        assert_eq!((arms.doubling(0), arms.size(&arms.evidence(1), 0.0)), (100, 1));
        // Now there are 300 in 100,100 rewards: the noise is a hundredth of that.
        release(&mut arms, 0, 100_000, 240);
        let expected = 2.0 * deviation * (100_100.0 / 300.0 - 2.0);
        let size = arms.size(&arms.evidence(1), 0.0) as f64;
        assert!((size / expected - 1.0).abs() < 0.05, "{size} {expected}");
        // A new arm begins with as many, and no batch is smaller, except for an arm with a prior.
        add_arm(&mut arms, 3);
        assert_eq!([3, 0].map(|arm| arms.size(&arms.evidence(arm), 1.0) as f64), [size; 2]);
        arms.set_prior(3, Prior { strength: 300.0, ..STRONG });
        assert_eq!(arms.size(&arms.evidence(3), 0.0) as f64, size - 300.0);
        arms.set_prior(3, STRONG);
        assert_eq!(arms.size(&arms.evidence(3), 0.0), 1);
        let mut saved = Writer::Writing(Vec::new());
        arms.snapshot(&mut Archive::Out(&mut saved)).unwrap();
        let mut next = fresh(0);
        add_arm(&mut next, 3);
        next.snapshot(&mut Archive::In(&mut Reader::of_fields(&saved.into_bytes()))).unwrap();
        assert_eq!(next.size(&next.evidence(1), 0.0) as f64, size);
        let mut short = fresh(6400);
        release(&mut short, 0, 100_000, 300);
        assert_eq!(short.size(&short.evidence(1), 0.0), 100);
    }

    /// A batch closes as soon as it has as many examinations as its size, whatever its slots are, also if it was lowered. What
    /// others contribute counts alike, and is not this handle's own. A restored handle knows the same.
    #[test]
    fn batches_count_examinations() {
        let mut arms = with_memory(0);
        for (size, lacks) in [(10, [0, 40_000, 65_535]), (1, [65_000; 3]), (7, [0; 3])] {
            arms.open(0, size);
            let (before, mut units) = (arms.closed(0), 0);
            for unexamined in lacks.into_iter().cycle() {
                units += Pull::EXAMINATION - u64::from(unexamined);
                let full = collect(&mut arms, 0, Reward::MIN, unexamined);
                assert_eq!(full, units >= size * Pull::EXAMINATION, "{size} {units}");
                if full {
                    break;
                }
                assert_eq!((arms.open_sum(0).own(), arms.is_filled_by(0, 0)), (units, false));
                assert!(arms.is_filled_by(0, size * Pull::EXAMINATION - units));
            }
            assert_eq!(arms.closed(0) - before, units);
        }
        arms.open(1, 50);
        (0..5).for_each(|_| assert!(!collect(&mut arms, 1, Reward::MIN, 30_000))); // 2.7 examinations
        assert_eq!([arms.lower(1, 9), arms.lower(1, 4), arms.lower(1, 1)], [9, 4, 3]);
        assert!(collect(&mut arms, 1, Reward::MIN, 30_000));
        arms.open(2, 3);
        assert!(!collect(&mut arms, 2, Reward::MIN, 60_000));
        let mut open = Writer::Writing(Vec::new());
        arms.open_sum_mut(2).contribute(&mut Archive::Out(&mut open)).unwrap();
        let bytes = open.into_bytes();
        for _ in 0..2 {
            let mut part = arms.open_sum(2).empty().unwrap();
            part.contribute(&mut Archive::In(&mut Reader::of_fields(&bytes))).unwrap();
            assert!(arms.open_sum_mut(2).add(&mut part) && !arms.open_sum(2).is_full());
        }
        assert_eq!(arms.open_sum(2).own(), Pull::EXAMINATION - 60_000);
        (0..3).for_each(|i| assert_eq!(collect(&mut arms, 2, Reward::MIN, 0), i == 2));
        assert_eq!(arms.closed(2), 4 * Pull::EXAMINATION - 60_000);
        let mut saved = Writer::Writing(Vec::new());
        arms.snapshot(&mut Archive::Out(&mut saved)).unwrap();
        let mut next = with_memory(0);
        next.snapshot(&mut Archive::In(&mut Reader::of_fields(&saved.into_bytes()))).unwrap();
        for arm in 0..3 {
            let [now, then] = [&next, &arms].map(|arms| arms.evidence(arm));
            let terms =
                |evidence: &Evidence| evidence.terms().iter().map(|t| (t.count, t.unexamined)).collect::<Vec<_>>();
            assert_eq!(terms(&now), terms(&then));
            assert!(terms(&now).iter().any(|&(_, unexamined)| unexamined > 0.0));
            assert_eq!(now.exponent(0.5), then.exponent(0.5));
        }
    }

    /// What a release weighs in a comparison is known when its batch opens.
    #[test]
    fn a_lowered_batch_weighs_as_it_was_opened() {
        let mut weights = [false, true].map(|is_lowered| {
            let mut arms = with_memory(0);
            arms.open(0, 100);
            assert!(!collect(&mut arms, 0, Reward::MIN, 0));
            let size = if is_lowered { arms.lower(0, 2) } else { 100 };
            (1..size).for_each(|i| assert_eq!(collect(&mut arms, 0, Reward::MIN, 0), i + 1 == size));
            arms.arms[0].saved.released.totals.noises()
        });
        assert_eq!(weights[0], weights[1]);
        let mut arms = with_memory(0);
        arms.open(0, 2);
        (0..2).for_each(|i| assert_eq!(collect(&mut arms, 0, Reward::MIN, 0), i == 1));
        weights[1] = arms.arms[0].saved.released.totals.noises();
        assert!(weights[1] < weights[0], "{weights:?}");
    }

    /// As long as only noise was released, the rate is taken as the noise's deviation: batches grow gradually.
    #[test]
    fn noise_makes_no_batch_huge() {
        let mut arms = with_memory(0);
        let mut rewards = 0;
        for _ in 0..60 {
            let size = arms.size(&arms.evidence(1), 0.0);
            assert!(size <= 1 + 2 * rewards, "{size} after {rewards}");
            release(&mut arms, 0, size as u32, 0);
            rewards += size;
        }
        assert!(rewards > 1000, "{rewards}");
    }

    /// A prior speaks with at most a quarter of ln t nats, and with less if its arm leads.
    #[test]
    fn what_a_prior_says_is_bounded() {
        let mut arms = with_memory(0);
        arms.set_prior(0, STRONG);
        assert_eq!((arms.leader(), arms.mean(0), arms.evidence(0).prior_count), (0, 0.5, 1000.0));
        arms.set_prior(1, Prior { mean: 0.1, ..STRONG });
        for decisions in [0, 1000, 1_000_000] {
            arms.ledger.facts.decisions = decisions;
            let faded = (0..3).filter_map(|_| arms.refresh_next()).collect::<Vec<_>>();
            assert!(decisions == 0 || faded == [1], "{faded:?}");
            let nats = arms.evidence(1).prior_count * kl(0.1f32.into(), 0.5);
            assert!((nats - 0.25 * ((decisions + 2) as f64).ln()).abs() < 1e-6, "{nats}");
            assert!((arms.evidence(1).exponent(0.5).0 - nats).abs() < 1e-6);
        }
    }

    /// With a leading mean of 1, which noise can cause, every prior still counts for something.
    #[test]
    fn noise_undoes_no_prior() {
        let mut arms = with_memory(0);
        arms.set_prior(0, STRONG);
        arms.set_prior(1, Prior { mean: 1.0, ..STRONG });
        assert_eq!(arms.refresh_next(), None);
        assert_eq!((arms.refresh_next(), arms.refresh_next()), (None, Some(0)));
        assert!(arms.priors == 2 && arms.evidence(0).prior_count > 0.0 && arms.mean(0) == 0.5);
    }

    /// A prior that releases contradict is forgotten as if it had never been set. So is a prior older than
    /// `forget_after`, or of a retired arm. A prior that releases agree with is kept.
    #[test]
    fn a_prior_is_forgotten() {
        let mut arms = with_memory(0);
        (0..3).for_each(|arm| arms.set_prior(arm, STRONG));
        release(&mut arms, 0, 100, 50);
        assert_eq!((arms.priors, arms.evidence(0).terms().len()), (3, 2));
        release(&mut arms, 1, 100, 10);
        let (now, own) = (arms.evidence(1), arms.released(1));
        assert_eq!((arms.priors, now.prior_count, now.terms().len()), (2, 0.0, 1));
        assert_eq!((now.mean(), now.count, now.exponent(0.5)), (own.mean(), own.count, own.exponent(0.5)));
        arms.ledger.roster.retire(2);
        arms.retire(2);
        assert_eq!(arms.priors, 1);
        let mut arms = with_memory(1024);
        arms.set_prior(0, STRONG);
        for (decisions, discount) in [(512, 1.0), (768, 0.5), (1023, 1.0 / 512.0), (1024, 0.0)] {
            arms.ledger.facts.decisions = decisions;
            (0..3).for_each(|_| _ = arms.refresh_next());
            assert!((arms.evidence(0).prior_count - 1000.0 * discount).abs() < 1e-3);
        }
        assert_eq!((arms.priors, arms.mean(0).is_nan()), (0, true));
    }
}
