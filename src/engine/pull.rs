//! What the engine keeps of a decision until its reward takes effect.

use crate::moving::moves;

/// A policy's decision: the arm, the phase, and the probability given all releases.
///
/// Arm and phase share a word, so that a pull is passed in two registers, and is stored as the same two words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pull {
    place: u64,
    /// The arm's probability given everything released so far; NaN if it would reveal raw rewards, or is not computed.
    pub propensity: f64,
}

impl Pull {
    /// A pull without phase and propensity, for policies that need only the arm back: see [`Policy::needs_full_pull`](crate::policy::Policy::needs_full_pull).
    #[inline]
    pub(crate) const fn of(arm: u32) -> Pull {
        Pull::new(arm, 0, f64::NAN)
    }

    /// A pull of this arm, in this phase, with this probability.
    #[inline]
    pub const fn new(arm: u32, phase: u32, propensity: f64) -> Pull {
        Pull { place: (phase as u64) << 32 | arm as u64, propensity }
    }

    /// The arm, 0-based.
    #[inline]
    pub fn arm(self) -> u32 {
        self.place as u32
    }

    /// The policy's current epoch, phase or interval.
    #[inline]
    pub fn phase(self) -> u32 {
        (self.place >> 32) as u32
    }

    /// The same pull in another phase.
    pub fn in_phase(self, phase: u32) -> Pull {
        Pull::new(self.arm(), phase, self.propensity)
    }
}

moves!(Pull { place, propensity });
