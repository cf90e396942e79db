//! What a policy chooses, and what the engine keeps of it until the reward takes effect.

use crate::moving::persist;

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
    /// A pull without phase and propensity, for policies that need only the arm back.
    #[inline]
    pub(crate) const fn of(arm: u32) -> Pull {
        Pull::new(arm, 0, f64::NAN)
    }

    /// Units of one examination: see [`unexamined`](Self::unexamined).
    pub(crate) const EXAMINATION: u64 = super::EXAMINATION;

    /// The same for a decision whose slot visitors do not always examine.
    #[inline]
    pub(crate) const fn with_unexamined(arm: u32, unexamined: u16) -> Pull {
        Pull::new(arm, unexamined as u32, f64::NAN)
    }

    /// The units that the slot of a decision lacks of an [examination](Self::EXAMINATION). Only a pull without phase has
    /// them: one that the engine returns for a policy that needs the arm alone.
    #[inline]
    pub(crate) fn unexamined(self) -> u16 {
        self.phase() as u16
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

persist!(Pull { place, propensity });

/// A policy's choice for one slot of a request.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    pub pull: Pull,
    /// What orders the choices: see [`Offer::choose`](super::Offer::choose).
    pub score: f64,
    pub arm: u32,
    /// The units that its slot lacks of an [examination](Pull::EXAMINATION).
    pub unexamined: u16,
    /// Whether the policy may learn from it.
    pub is_learned: bool,
}

impl Choice {
    pub fn new(pull: Pull, arm: u32, score: f64) -> Choice {
        Choice { pull, score, arm, unexamined: 0, is_learned: true }
    }
}
