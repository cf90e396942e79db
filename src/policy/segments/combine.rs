//! Segments as a policy whose open sums a leader may release: see [`crate::contribution`].

use super::{Play, Segments};
use crate::error::Result;
use crate::ledger::cells::OpenSum;
use crate::moving::Archive;

impl Segments {
    /// Ends what all rows have planned.
    pub(super) fn compare_again(&mut self) {
        self.turns.iter_mut().for_each(|turn| turn.left = 0);
        self.rates.iter_mut().for_each(|rate| rate.left = 0);
    }
}

impl OpenSum for Play {
    fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    fn empty(&self) -> Result<Play> {
        Ok(Play::default())
    }

    fn contribute(&mut self, with: &mut Archive) -> Result<()> {
        self.batch.contribute(with)
    }

    fn add(&mut self, part: &mut Play) -> bool {
        self.batch.add(&part.batch);
        true
    }

    fn is_full(&self) -> bool {
        self.batch.free() == 0
    }

    fn clear(&mut self) -> bool {
        self.batch.clear() > 0
    }

    fn pulls(&mut self) -> Option<&mut u64> {
        Some(&mut self.pulls)
    }
}
