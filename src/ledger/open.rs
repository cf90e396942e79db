//! The open sums, and their only release. A [`Batch`] collects a fixed number of rewards of one arm: epochs, phases,
//! intervals and geometric batches all use it.

use crate::error::Result;
use crate::moving::{Archive, Persist, persist};
use crate::noise::NoiseSource;
use crate::reward::Reward;
use zeroize::Zeroizing;

/// A raw sum of rewards, in units of the grid. It leaves only through [`release`](Self::release), with noise, or sealed to
/// the leader of the fleet ([`contribute`](Self::contribute)), and is wiped.
#[derive(Default)]
pub struct RawSum {
    units: Zeroizing<i64>,
}

impl RawSum {
    #[inline]
    pub fn add(&mut self, units: i64) {
        *self.units += units;
    }

    /// Adds another handle's sum.
    pub fn join(&mut self, other: &RawSum) {
        *self.units += *other.units;
    }

    pub fn clear(&mut self) {
        *self.units = 0;
    }

    /// Releases the sum with fresh noise, and erases it, so that it cannot be released again.
    pub fn release(&mut self, noise: &mut NoiseSource) -> i64 {
        let exact = std::mem::take(&mut *self.units);
        exact + noise.draw()
    }

    /// Moves the sum, without noise, of which each of `count` rewards is at least `least` and at most `most`. Only a sealed
    /// contribution contains it.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn contribute(&mut self, count: u64, least: i64, most: i64, with: &mut Archive) -> Result<()> {
        self.persist(with)?;
        let within = |end: i64| i128::from(end) * i128::from(count);
        with.ensure((within(least)..=within(most)).contains(&i128::from(*self.units)))
    }

    #[cfg(test)]
    pub fn units(&self) -> f64 {
        *self.units as f64
    }
}

persist!(RawSum { units });

/// The rewards of one arm for one release.
///
/// Rewards are credited until the batch is full, in the order in which they take effect, which is public. 16 bytes.
#[derive(Default)]
pub struct Batch {
    quota: u32,
    count: u32,
    sum: RawSum,
}

/// A released sum. Everything computed from it is post-processing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Release {
    /// Number of rewards in the batch (public).
    pub count: u64,
    /// Sum of these rewards plus noise, on the scale of rewards in the unit interval.
    pub sum: f64,
}

impl Release {
    /// The released mean.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

impl Batch {
    /// Largest quota. An arm that needs more rewards uses more batches of this size. It is 64 times 1/epsilon at the
    /// smallest epsilon for which noise exists.
    pub const MAX_QUOTA: u64 = u32::MAX as u64;

    /// An empty batch of `quota` rewards.
    pub fn open(quota: u64) -> Batch {
        let mut batch = Batch::default();
        batch.raise(quota);
        batch
    }

    /// Raises the quota, which must not be below the current one.
    pub fn raise(&mut self, quota: u64) {
        debug_assert!((self.quota().max(1)..=Self::MAX_QUOTA).contains(&quota));
        self.quota = quota as u32;
    }

    /// Lowers the quota, but not below the collected rewards plus one.
    pub fn lower(&mut self, quota: u64) {
        self.quota = quota.max(u64::from(self.count) + 1).min(self.quota()) as u32;
    }

    /// The number of rewards so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Credits a reward. Returns false if the batch is full; then nothing changes.
    #[inline]
    pub fn collect(&mut self, reward: Reward) -> bool {
        let free = self.count < self.quota;
        if free {
            self.count += 1;
            self.sum.add(reward.units());
        }
        free
    }

    /// Sets a quota of which at least one reward is missing, whatever is collected.
    pub fn set_quota(&mut self, quota: u64) {
        self.quota = quota.max(u64::from(self.count) + 1).min(Self::MAX_QUOTA) as u32;
    }

    /// Whether there is nothing to contribute.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Moves the rewards so far, without noise, to the leader of the fleet, for [`add`](Self::add). Only a sealed
    /// contribution contains them.
    ///
    /// # Errors
    /// `Corrupt` for sums that so many rewards cannot have.
    pub fn contribute(&mut self, with: &mut Archive) -> Result<()> {
        self.count.persist(with)?;
        with.ensure(self.count >= 1)?;
        self.sum.contribute(self.count.into(), 0, Reward::ONE, with)
    }

    /// Drops the rewards so far, which were contributed. Returns their number.
    pub fn clear(&mut self) -> u32 {
        self.sum.clear();
        std::mem::take(&mut self.count)
    }

    /// Adds rewards that another handle contributes, also beyond the quota.
    pub fn add(&mut self, part: &Batch) {
        self.count = self.count.saturating_add(part.count);
        self.quota = self.quota.max(self.count);
        self.sum.join(&part.sum);
    }

    /// Rewards missing to the quota.
    #[inline]
    pub fn free(&self) -> u64 {
        u64::from(self.quota - self.count)
    }

    /// Rewards that the batch releases when full.
    pub fn quota(&self) -> u64 {
        self.quota.into()
    }

    /// Releases the sum of a full batch.
    pub fn release(&mut self, noise: &mut NoiseSource) -> Release {
        debug_assert!(self.free() == 0 && self.count > 0);
        noise.renew();
        let sum = self.sum.release(noise);
        Release { count: self.count.into(), sum: sum as f64 / Reward::ONE as f64 }
    }
}

impl std::fmt::Debug for Batch {
    /// Shows public facts only: a raw sum must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("quota", &self.quota).field("count", &self.count).finish_non_exhaustive()
    }
}

persist!(Batch { quota, count, sum });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Laplace, Noise};
    use crate::random::Seed;

    fn quiet() -> NoiseSource {
        // At scale 1 a sample above 60 has probability e^-60, and 60 is far below half a reward.
        NoiseSource::new(Noise::Laplace(Laplace::with_scale(1)), Seed::new(Some([1; 32])).unwrap().stream())
    }

    #[test]
    fn each_reward_is_in_one_release() {
        let one = Reward::from_units(Reward::ONE as u32);
        let mut batch = Batch::open(2);
        assert!(batch.collect(one) && batch.collect(one));
        assert!((0..5).all(|_| !batch.collect(one)));
        let mut noise = quiet();
        let release = batch.release(&mut noise);
        assert_eq!((release.count, release.sum.round()), (2, 2.0));
        batch.raise(3);
        assert!(batch.collect(Reward::MIN) && !batch.collect(one));
        let release = batch.release(&mut noise);
        assert_eq!((release.count, release.sum.round()), (3, 0.0)); // what was released is forgotten
        assert!(!Batch::default().collect(one));
    }

    #[test]
    fn a_lowered_batch_waits_for_one_at_least() {
        let mut batch = Batch::open(9);
        (0..3).for_each(|_| assert!(batch.collect(Reward::MIN)));
        batch.lower(20);
        assert_eq!(batch.free(), 6);
        batch.lower(5);
        assert_eq!(batch.free(), 2);
        batch.lower(1);
        assert_eq!(batch.free(), 1);
        assert!(batch.collect(Reward::MIN) && !batch.collect(Reward::MIN));
        assert_eq!(batch.release(&mut quiet()).count, 4);
        // A full batch stays full.
        batch.lower(1);
        assert_eq!((batch.quota(), batch.free()), (4, 0));
    }

    #[test]
    fn debug_shows_no_sum() {
        let mut batch = Batch::open(2);
        batch.collect(Reward::from_units(12345));
        assert!(!format!("{batch:?}").contains("12345"));
    }
}
