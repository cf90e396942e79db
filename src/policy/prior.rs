//! What public data say of an arm: last season's catalogue, another site's report.
//!
//! **No privacy cost**: a prior is a function of public data, like a configuration, so Theorem P of [`crate::privacy`]
//! holds as it is. One that was made from private sums would be a release without noise.
//!
//! **What it counts for.** A prior is so many rewards of its mean, without noise, in the arm's evidence. Believed as it
//! is, a wrong one is not overcome: an arm that it calls bad is played again after e^(s kl) decisions. So it speaks
//! against an arm with at most a quarter of ln t nats, t the decisions so far, and is forgotten where the arm's
//! releases contradict it (likelihood ratio of two means against one above 4 nats). A policy of logarithmic regret asks
//! for ln t nats: a right prior saves up to a quarter of that for good, however old it is, and a wrong one is put to
//! the test after about e^(4 D/3) decisions, D the nats of the arm's own evidence against it, whatever its strength.
//! (Of the distributions tried one that fades as s/(1 + t/(K s)) does better in the first K s decisions only, gives the rest
//! back, and where it is wrong costs of the order of K s^2.)

use super::kl::kl;
use crate::error::{Error, Result};
use crate::reward::RewardRange;
use crate::snapshot::{Reader, Writer, ensure};

/// So many rewards of this mean, in the unit interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    pub mean: f32,
    pub strength: f32,
}

impl Prior {
    /// More is a certainty, and not one that was learned.
    const STRONGEST: f32 = (1u32 << 24) as f32;
    /// The part of ln t that it may speak with.
    const SAY: f64 = 0.25;
    /// It is contradicted beyond so many nats.
    pub const CONTRADICTION: f64 = 4.0;

    /// From the caller's units.
    ///
    /// # Errors
    /// `InvalidConfig`.
    pub fn new(range: RewardRange, mean: f64, strength: f64) -> Result<Prior> {
        let Some(unit) = range.unit_from_mean(mean) else {
            return Err(Error::config("mean", "must be in reward_min..=reward_max", mean));
        };
        if !(1.0..=f64::from(Self::STRONGEST)).contains(&strength) {
            return Err(Error::config("strength", "must be in 1..=2^24", strength));
        }
        Ok(Prior { mean: unit as f32, strength: strength as f32 })
    }

    /// What it may say against an arm after so many decisions, in nats.
    pub fn most(decisions: u64) -> f64 {
        Self::SAY * ((decisions + 2) as f64).ln()
    }

    /// The part of its rewards that count, when this is the leading mean.
    pub fn power(self, leading: f64, decisions: u64) -> f64 {
        let (mean, leading) = (f64::from(self.mean), leading.min(1.0 - 1e-6)); // noise makes a mean of 1
        let nats = if mean < leading { f64::from(self.strength) * kl(mean, leading) } else { 0.0 };
        Self::most(decisions) / nats.max(Self::most(decisions))
    }

    /// This part of it, where that is one reward at least.
    pub fn weakened(self, power: f64) -> Option<Prior> {
        let strength = self.strength * power as f32;
        (strength >= 1.0).then_some(Prior { strength, ..self })
    }

    pub fn save(self, to: &mut Writer) {
        to.f32(self.mean);
        to.f32(self.strength);
    }

    pub fn load(from: &mut Reader) -> Result<Prior> {
        let prior = Prior { mean: from.f32()?, strength: from.f32()? };
        ensure((0.0..=1.0).contains(&prior.mean) && (1.0..=Self::STRONGEST).contains(&prior.strength))?;
        Ok(prior)
    }
}
