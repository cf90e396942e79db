//! Rewards in parts: a decision's reward is a weighted sum of what is reported until its window is over.
#![doc = include_str!("../docs/theory/parts.md")]

use crate::error::{Error, Result};
use crate::moving::persist;
use crate::reward::{Reward, RewardRange};

/// Maximum number of parts.
pub const MOST_PARTS: usize = 8;

/// The weight of each part.
pub type PartWeights = [f64; MOST_PARTS];

/// What a pending decision has earned so far, in grid units of the range. With parts it is what the parts add to a reward
/// of 0, and may lie outside the range; otherwise it is the reward. It has no `Debug`, like [`Reward`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Earned {
    units: i32,
}

impl zeroize::DefaultIsZeroes for Earned {}

impl Earned {
    /// Nothing so far.
    pub const NOTHING: Earned = Earned { units: 0 };

    /// A whole reward.
    #[inline]
    pub fn of(reward: Reward) -> Earned {
        Earned { units: reward.units() as i32 }
    }

    /// The reward, where there are no parts or they are [summed up](PartScales::reward).
    #[inline]
    pub fn reward(self) -> Reward {
        Reward::from_units(self.units as u32)
    }

    /// Adds a part. The sum of all parts cannot overflow: see [`PartScales::FARTHEST`].
    pub fn add(&mut self, part: Earned) {
        self.units += part.units;
    }

    /// Whether there can be such a reward, or such a sum of parts.
    pub fn is_valid(self, in_parts: bool) -> bool {
        let most = if in_parts { MOST_PARTS as i64 * PartScales::FARTHEST as i64 } else { 1 } * Reward::ONE;
        (if in_parts { -most } else { 0 }..=most).contains(&self.units.into())
    }
}

persist!(Earned { units });

/// How parts become grid units, and their sum a reward.
pub struct PartScales {
    /// Grid units of one unit of each part. 0 where there is none.
    scales: PartWeights,
    parts: u32,
    clamp: bool,
    /// A reward of 0, in grid units above the smallest one.
    zero: i32,
    /// log2 of the grid units in a step of `reward_bits`.
    shift: u32,
}

impl PartScales {
    /// A part is at most this far from 0, in ranges, so that eight of them fit into 32 bits: 8 (15 + 1) 2^24 <= 2^31.
    pub const FARTHEST: f64 = 15.0;

    /// For parts of these weights in this range, which contains 0. `None` if a weight is 0 or not finite, also as a part
    /// of the range.
    pub fn new(range: &RewardRange, weights: &[f64]) -> Option<PartScales> {
        let unit = range.width_from_unit(1.0) / Reward::ONE as f64;
        let mut scales = [0.0; MOST_PARTS];
        for (scale, weight) in scales.iter_mut().zip(weights) {
            *scale = Some(weight / unit).filter(|scale| scale.is_normal())?;
        }
        let zero = rounded(-range.mean_from_unit(0.0) / unit);
        Some(PartScales { scales, parts: weights.len() as u32, clamp: range.clamps(), zero, shift: range.shift() })
    }

    /// What a part adds, rounded once.
    ///
    /// # Errors
    /// `InvalidConfig` for a part that does not exist. `InvalidReward` for NaN and infinities, and, unless clamping is on,
    /// beyond [`FARTHEST`](Self::FARTHEST).
    pub fn quantize(&self, part: u32, value: f64) -> Result<Earned> {
        if part >= self.parts {
            return Err(Error::config("part", &format!("must be below config.parts = {}", self.parts), part));
        }
        let most = Self::FARTHEST * Reward::ONE as f64;
        let units = value * self.scales[part as usize];
        if !(value.is_finite() && (self.clamp || units.abs() <= most)) {
            return Err(Error::InvalidReward);
        }
        Ok(Earned { units: rounded(units.clamp(-most, most)) })
    }

    /// The reward at the end: the sum, moved into the range and rounded to the grid.
    pub fn reward(&self, earned: Earned) -> Reward {
        // No branch depends on the reward.
        let units = (earned.units + self.zero).clamp(0, Reward::ONE as i32);
        let half = (1 << self.shift) >> 1;
        Reward::from_units(((units + half) >> self.shift << self.shift) as u32)
    }
}

/// Rounds to the nearest integer, ties to even, without a branch: doubles of this size have no bits behind the point.
fn rounded(units: f64) -> i32 {
    const LARGE: f64 = 1.5 * (1u64 << 52) as f64;
    (units + LARGE - LARGE) as i32
}
