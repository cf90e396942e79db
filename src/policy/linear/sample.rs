//! Samples of even draws and of the policy's own, whose rewards are released by themselves: what the policy gains.
//!
//! With `exploration`, one toss says whether a decision is an even draw and whether its reward is for a sample. It is
//! independent of everything else, so both samples are of the same requests. A sampled reward enters this vector in place
//! of its model's.

use super::Linear;
use super::batch::{BOUND, Instrument, VectorBatch};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::moving::{Archive, Persist, persist};
use crate::policy::compare::{ReleaseTotals, Totals};
use crate::policy::cumulant::Cumulant;
use crate::request::Offer;
use crate::reward::Reward;

/// The largest share of the rewards for a sample. (Ads at epsilon 1 with exploration .05, 100 worlds: 24.2% of the loss of
/// uniform play after 1e5 decisions, 23.4% without samples; the difference is 0.8 with an error of 0.5.)
const MOST: f64 = 0.05;
/// The first batch has this many rewards for each standard deviation of the noise.
const FIRST: f64 = 32.0;

/// What the reward of a decision is for: its model, or a coordinate of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewardPurpose {
    Even,
    Own,
    #[default]
    Model,
}

/// The releases of both samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples {
    even: Totals,
    own: Totals,
}

impl Samples {
    /// The probability of each sample after the pilot.
    pub fn share(config: &Config) -> f64 {
        let even = config.exploration;
        even.min(1.0 - even).min(MOST)
    }

    /// The size of the next batch: as many rewards as all before it together. `variance` is that of the noise of a sum.
    pub fn quota(&self, variance: f64, limit: f64) -> u64 {
        VectorBatch::quota_of(self.rewards().min(limit).max(FIRST * variance.sqrt()))
    }

    /// Adds the release of a batch. Its predictions are the numbers of rewards.
    pub fn learn(&mut self, batch: &VectorBatch, y: &[f64], distribution: Cumulant) {
        let opened = batch.quota as f64 / 2.0;
        for ((totals, y), count) in [&mut self.even, &mut self.own].into_iter().zip(y).zip(batch.expectations()) {
            let sum = y / (f64::from(BOUND) * Reward::ONE as f64);
            totals.release_as(opened, count / f64::from(BOUND), 0.0, sum, distribution);
        }
    }

    /// The number of rewards in them, as they count.
    pub fn rewards(&self) -> f64 {
        self.even.rewards() + self.own.rewards()
    }

    fn add(&mut self, others: &Samples) {
        self.even.add(&others.even);
        self.own.add(&others.own);
    }
}

persist!(Samples { even, own });

impl Persist for RewardPurpose {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let all = [RewardPurpose::Even, RewardPurpose::Own, RewardPurpose::Model];
        with.numbered(*self as u8, self, |number| all.get(usize::from(number)).copied())
    }
}

impl Linear {
    /// Tosses whether a decision is an even draw, and what its reward is for. With values a decision is not sampled: an even
    /// draw might cost more than it is worth, where the policy shows nothing. Nor is one of several slots, whose rewards
    /// depend on each other.
    pub(super) fn toss(&mut self, offer: &Offer) -> (bool, RewardPurpose) {
        if self.exploration == 0.0 {
            return (false, RewardPurpose::Model);
        }
        let is_sampled = offer.worths.is_none() && offer.slots <= 1;
        let (toss, share) = (self.models.coins.unit(), if is_sampled { self.sampled } else { 0.0 });
        let purpose = match toss {
            _ if toss < share => RewardPurpose::Even,
            _ if toss >= 1.0 - share => RewardPurpose::Own,
            _ => RewardPurpose::Model,
        };
        (toss < self.exploration, purpose)
    }

    /// Releases the sampled rewards, their only release.
    pub(super) fn release_samples(&mut self) {
        let distribution = Cumulant::of(&self.ledger.noise.distribution());
        let Some(batch) = &mut self.ledger.whole else { return };
        self.ledger.facts.release(batch.count);
        let mut sums = [0.0; 2];
        batch.release(&mut self.ledger.noise, &mut sums);
        self.saved.samples.learn(batch, &sums, distribution);
        self.open_whole(Instrument::Samples);
    }

    /// The releases of all handles, of own draws and of even ones.
    pub(super) fn sampled_totals(&self) -> Result<[ReleaseTotals; 2]> {
        if self.sampled == 0.0 {
            return Err(Error::unsupported("a lift: config.exploration must be above 0 and below 1"));
        }
        let mut all = self.saved.samples;
        self.ledger.peers.iter().for_each(|peer| all.add(&peer.releases.saved.samples));
        if all.even == Totals::NONE {
            return Err(Error::NotReady);
        }
        let distribution = Cumulant::of(&self.ledger.noise.distribution());
        Ok([all.own, all.even].map(|totals| ReleaseTotals::of(distribution, totals)))
    }
}
