//! What a handle counts of its decisions, and of calls that it refused.

use crate::error::Result;
use crate::moving::persist;
use crate::snapshot::{Reader, Writer, ensure};

/// Counts of decisions. With a window, `answered` counts the decisions whose window is over and `pending` those
/// whose window is not: a count of rewards would be a count of clicks. With private requests it is the same, and nothing
/// counts as cancelled: whether a decision was cancelled or has an arm is a part of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Decisions made.
    pub decisions: u64,
    /// Decisions whose reward took effect.
    pub answered: u64,
    /// Decisions cancelled by the caller.
    pub cancelled: u64,
    /// Decisions that expired without effect.
    pub expired: u64,
}

impl Counts {
    /// Open decisions.
    pub fn pending(&self) -> u64 {
        self.decisions - self.answered - self.cancelled - self.expired
    }

    pub(crate) fn save(&self, to: &mut Writer) {
        [self.decisions, self.answered, self.cancelled].into_iter().for_each(|count| to.u64(count));
    }

    /// Reads counts for [`Engine::count_on`](super::Engine::count_on).
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn load(from: &mut Reader) -> Result<Counts> {
        let [decisions, answered, cancelled] = [from.count()?, from.count()?, from.count()?];
        // A ticket contains 48 bits of the decision's number, enough for years of any service.
        ensure(decisions >> 48 == 0 && decisions.checked_sub(answered).is_some_and(|rest| rest >= cancelled))?;
        Ok(Counts { decisions, answered, cancelled, expired: 0 })
    }
}

/// Counts of refused calls: see [`Diagnostics`](crate::Diagnostics).
#[derive(Clone, Copy, Default)]
pub struct Refusals {
    pub duplicates: u64,
    pub late: u64,
    pub rejected: u64,
    pub unknown: u64,
}

persist!(Counts { decisions, answered, cancelled, expired });
persist!(Refusals { duplicates, late, rejected, unknown });
