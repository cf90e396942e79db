//! Rounds each reward to an integer once, when it is reported, so that all sums of rewards are exact.

use crate::error::{Error, Result};
use crate::moving::{Archive, Persist};
use crate::snapshot::ensure;

/// A reward in the unit interval, as a whole number of grid units.
///
/// The grid is 2^-24 for every handle, so that sums (`i64`, enough for 2^39 rewards) and noise share one scale.
/// [`RewardRange`] may round rewards to a coarser grid that this one contains.
/// It has no `Debug` on purpose: a raw reward must not reach a log.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Reward(u32);

impl zeroize::DefaultIsZeroes for Reward {}

impl Reward {
    /// log2 of the grid units in a reward of one.
    pub const BITS: u32 = 24;
    /// Grid units in a reward of one: the sensitivity of every sum.
    pub const ONE: i64 = 1 << Self::BITS;
    /// The smallest reward.
    pub const MIN: Reward = Reward(0);

    /// The reward of so many grid units, in `0..=ONE`.
    pub(crate) fn from_units(units: u32) -> Reward {
        debug_assert!(i64::from(units) <= Self::ONE);
        Reward(units)
    }

    /// The reward in grid units, in `0..=ONE`.
    #[inline]
    pub fn units(self) -> i64 {
        i64::from(self.0)
    }

    /// The reward in the unit interval.
    #[inline]
    pub fn to_f64(self) -> f64 {
        f64::from(self.0) / Self::ONE as f64
    }
}

/// The declared range of rewards, and how rewards outside it are treated.
#[derive(Clone, Copy, Debug)]
pub struct RewardRange {
    /// What [`quantize`](Self::quantize) takes at least: `min`, or NaN where rewards come in parts.
    least: f64,
    min: f64,
    max: f64,
    bits: u32,
    /// Half steps of the grid in the range, and log2 of the units in a step.
    halves: f64,
    shift: u32,
    clamp: bool,
    /// Whether the range is `[0, 1]`, so that no division is needed.
    is_unit: bool,
}

impl RewardRange {
    /// The largest magnitude of an end of the range. Noise may be 2^39 times as wide as the range, and means stay
    /// finite.
    pub const FARTHEST: f64 = 1e290;

    /// The range `[min, max]` on a grid of `2^-bits` of its length, `bits` in `0..=24`.
    ///
    /// # Errors
    /// `InvalidConfig` if the range is empty, an end of it exceeds 1e290, or `bits` exceeds 24.
    pub fn new(min: f64, max: f64, bits: u32, clamp: bool) -> Result<RewardRange> {
        Error::unless(min.abs() <= Self::FARTHEST, "reward_min", "must be in -1e290 .. 1e290", min)?;
        let rule = "must be above reward_min and at most 1e290";
        Error::unless(max > min && max <= Self::FARTHEST, "reward_max", rule, max)?;
        Error::unless(bits <= Reward::BITS, "reward_bits", "must be in 0 .. 24", bits)?;
        let is_unit = min == 0.0 && max == 1.0;
        Ok(RewardRange { least: min, min, max, bits: 0, halves: 0.0, shift: 0, clamp, is_unit }.on_grid(bits))
    }

    fn on_grid(self, bits: u32) -> RewardRange {
        RewardRange { bits, halves: f64::from(2u32 << bits), shift: Reward::BITS - bits, ..self }
    }

    /// The same range, restricted to its two ends.
    pub fn of_bits(self) -> RewardRange {
        RewardRange { clamp: false, ..self.on_grid(0) }
    }

    /// The same range, for rewards that come in [parts](crate::parts): no reward comes whole.
    pub fn of_parts(self) -> RewardRange {
        RewardRange { least: f64::NAN, clamp: false, ..self }
    }

    /// Rounds a reward to the grid, once.
    ///
    /// # Errors
    /// `InvalidReward` for NaN and infinities, for values outside the range unless clamping is on, and with `bits = 0`
    /// for everything but the two ends; for every reward that should come in parts.
    #[inline]
    pub fn quantize(&self, reward: f64) -> Result<Reward> {
        let mut inside = reward;
        if !(self.least..=self.max).contains(&reward) {
            if !self.clamp || !reward.is_finite() {
                return Err(Error::InvalidReward);
            }
            inside = reward.clamp(self.min, self.max);
        }
        if self.bits == 0 && inside != self.min && inside != self.max {
            return Err(Error::InvalidReward);
        }
        let unit = if self.is_unit { inside } else { (inside - self.min) / (self.max - self.min) };
        // Rounds to nearest: half a step is added before truncation. Doubling the steps is exact, and no branch
        // depends on the reward. `unit` is at most 1, because rounding keeps the order of quotients.
        let steps = ((unit * self.halves) as u32 + 1) >> 1;
        Ok(Reward(steps << self.shift))
    }

    /// Whether rewards outside the range are moved into it.
    pub fn clamps(&self) -> bool {
        self.clamp
    }

    /// log2 of the grid units in a step of the range's grid.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// The most that rounding to the grid moves a reward, in the unit interval.
    pub fn rounding(&self) -> f64 {
        if self.bits == 0 { 0.0 } else { 0.5 / f64::from(1u32 << self.bits) }
    }

    /// Converts a mean from the unit interval to the caller's units.
    pub fn mean_from_unit(&self, mean: f64) -> f64 {
        self.min + mean * (self.max - self.min)
    }

    /// Converts a mean from the caller's units to the unit interval; `None` if it is outside the range.
    pub fn unit_from_mean(&self, mean: f64) -> Option<f64> {
        (self.min..=self.max).contains(&mean).then(|| (mean - self.min) / (self.max - self.min))
    }

    /// Converts a width from the unit interval to the caller's units.
    pub fn width_from_unit(&self, width: f64) -> f64 {
        width * (self.max - self.min)
    }
}

impl Persist for Reward {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.0.persist(with)?;
        ensure(self.units() <= Self::ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_once_to_the_declared_grid() {
        let fine = RewardRange::new(0.0, 1.0, 20, false).unwrap();
        assert_eq!(fine.quantize(1.0).unwrap().units(), Reward::ONE);
        assert_eq!(fine.quantize(0.3).unwrap().units(), 314573 << 4); // round(0.3 * 2^20)
        let money = RewardRange::new(-2.0, 6.0, 2, false).unwrap();
        assert_eq!(money.quantize(-2.0).unwrap().units(), 0);
        assert_eq!(money.quantize(1.1).unwrap().units(), Reward::ONE / 2);
        assert_eq!(money.mean_from_unit(0.5), 2.0);
        assert_eq!(money.unit_from_mean(2.0), Some(0.5));
        assert_eq!([-2.1, 6.1, f64::NAN].map(|mean| money.unit_from_mean(mean)), [None; 3]);
        assert_eq!(money.width_from_unit(0.5), 4.0);
    }

    #[test]
    fn bits_are_the_two_ends_and_nothing_else() {
        let bits = RewardRange::new(-1.0, 3.0, 20, true).unwrap().of_bits();
        assert_eq!([-1.0, 3.0].map(|end| bits.quantize(end).unwrap().units()), [0, Reward::ONE]);
        for other in [0.0, 1.0, 2.999, 3.001, 7.0, -2.0] {
            assert_eq!(bits.quantize(other).err(), Some(Error::InvalidReward), "{other}");
        }
    }

    /// Rounds to the nearest step, ties up, as `round` does: at ties, next to them, and elsewhere.
    #[test]
    fn rounding_is_that_of_round() {
        let mut random = crate::random::Seed::new(Some([1; 32])).unwrap().stream();
        for bits in [1, 2, 20, 23, 24] {
            for (min, max) in [(0.0, 1.0), (-3.0, 5.0), (1.0, 1e9)] {
                let range = RewardRange::new(min, max, bits, false).unwrap();
                let steps = f64::from(1u32 << bits);
                for _ in 0..20_000 {
                    let tie = min + (max - min) * (random.below(1 << bits) as f64 + 0.5) / steps;
                    for reward in [tie, tie.next_up(), tie.next_down(), min + (max - min) * random.unit()] {
                        let exact = ((reward - min) / (max - min) * steps).round() * f64::from(1u32 << (24 - bits));
                        assert_eq!(range.quantize(reward).unwrap().units() as f64, exact, "{reward} {bits}");
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_or_clamps_what_is_outside() {
        let strict = RewardRange::new(0.0, 1.0, 20, false).unwrap();
        let clamped = RewardRange::new(0.0, 1.0, 20, true).unwrap();
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(strict.quantize(bad).is_err());
            assert!(clamped.quantize(bad).is_err());
        }
        for (outside, unit) in [(-0.1, 0), (1.1, Reward::ONE), (-1e300, 0)] {
            assert!(strict.quantize(outside).is_err());
            assert_eq!(clamped.quantize(outside).unwrap().units(), unit);
        }
    }

    #[test]
    fn a_binary_grid_takes_its_two_ends_only() {
        let bits = RewardRange::new(0.0, 1.0, 0, false).unwrap();
        assert_eq!(bits.quantize(1.0).unwrap().units(), Reward::ONE);
        assert_eq!(bits.quantize(0.0).unwrap().units(), 0);
        assert!(bits.quantize(0.5).is_err());
    }

    #[test]
    fn refuses_bad_ranges() {
        for (min, max) in [(1.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (-1e308, 0.0), (0.0, 1.1e290)]
        {
            assert!(RewardRange::new(min, max, 20, false).is_err());
        }
        assert!(RewardRange::new(0.0, 1.0, 25, false).is_err());
        // The widest range and the largest noise: finite means.
        let widest = RewardRange::new(-1e290, 1e290, 24, false).unwrap();
        let most = i64::MAX as f64 / Reward::ONE as f64;
        assert!(widest.mean_from_unit(most).is_finite() && widest.mean_from_unit(-most).is_finite());
    }
}
