//! Priors: what public data say about the mean of an arm, such as last season's catalogue or another site's report.
//!
//! **No privacy cost**: a prior is a function of public data, like a configuration, so Theorem P of
//! [`crate::privacy`] holds unchanged. A prior made from private sums would be a release without noise.
//!
//! **Weight.** A prior adds `strength` rewards of its mean, without noise, to the arm's evidence. If it counted in
//! full, a wrong prior could not be overcome: an arm that it calls bad would be pulled again only after e^(s kl)
//! decisions. So a prior speaks against an arm with at most a quarter of ln t nats, where t is the number of
//! decisions so far. And it is forgotten if the arm's releases contradict it (likelihood ratio of two means against
//! one above 4 nats). A policy of logarithmic regret needs ln t nats: a right prior saves up to a quarter of that
//! permanently, however old it is. A wrong prior is tested after about e^(4 D/3) decisions, where D is the arm's own
//! evidence against it in nats, whatever its strength. (An alternative is a prior that fades as s/(1 + t/(K s)). It
//! was tried, and does better only in the first K s decisions, then loses the gain, and costs of the order of K s^2
//! if it is wrong.)

use super::kl::kl;
use crate::error::{Error, Result};
use crate::moving::{Archive, Persist};
use crate::reward::RewardRange;

/// A prior that counts as `strength` rewards of this mean, in the unit interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    pub mean: f32,
    pub strength: f32,
}

impl Prior {
    /// A prior that says nothing.
    pub const WEAKEST: Prior = Prior { mean: 0.0, strength: 1.0 };
    /// Maximum strength; a larger one would be a certainty.
    const STRONGEST: f32 = (1u32 << 24) as f32;
    /// Maximum evidence of a prior against an arm, as a share of ln t.
    const LIMIT: f64 = 0.25;
    /// Nats beyond which releases contradict a prior.
    pub const CONTRADICTION: f64 = 4.0;

    /// A prior in the caller's units.
    ///
    /// # Errors
    /// `InvalidConfig`.
    pub fn new(range: RewardRange, mean: f64, strength: f64) -> Result<Prior> {
        let Some(unit) = range.unit_from_mean(mean) else {
            return Err(Error::config("mean", "must be in reward_min .. reward_max", mean));
        };
        let is_possible = (1.0..=f64::from(Self::STRONGEST)).contains(&strength);
        Error::unless(is_possible, "strength", "must be in 1 .. 2^24", strength)?;
        Ok(Prior { mean: unit as f32, strength: strength as f32 })
    }

    /// The maximum evidence against an arm after `decisions` decisions, in nats.
    pub fn most(decisions: u64) -> f64 {
        Self::LIMIT * ((decisions + 2) as f64).ln()
    }

    /// The share of its rewards that counts, given the leading mean.
    pub fn share(self, leading: f64, decisions: u64) -> f64 {
        let (mean, leading) = (f64::from(self.mean), leading.min(1.0 - 1e-6)); // noise makes a mean of 1
        let nats = if mean < leading { f64::from(self.strength) * kl(mean, leading) } else { 0.0 };
        Self::most(decisions) / nats.max(Self::most(decisions))
    }

    /// The prior with this share of its strength; `None` if that is less than one reward.
    pub fn weakened(self, share: f64) -> Option<Prior> {
        let strength = self.strength * share as f32;
        (strength >= 1.0).then_some(Prior { strength, ..self })
    }
}

impl Persist for Prior {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.mean.persist(with)?;
        self.strength.persist(with)?;
        with.ensure((0.0..=1.0).contains(&self.mean) && (1.0..=Self::STRONGEST).contains(&self.strength))
    }
}
