//! Segments as a policy whose open sums a leader may release: see [`crate::contribution`].

use super::{Play, Segments};
use crate::error::Result;
use crate::ledger::cells::OpenSum;
use crate::ledger::open::Batch;
use crate::snapshot::{Reader, Writer};

impl Segments {
    /// Ends what all rows have planned.
    pub(super) fn compare_again(&mut self) {
        self.turns.iter_mut().for_each(|turn| turn.left = 0);
        self.rates.iter_mut().for_each(|rate| rate.left = 0);
    }
}

impl OpenSum for Play {
    const SHORTEST: usize = 12;

    fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    fn write(&mut self, to: &mut Writer) -> Result<()> {
        self.batch.save(to);
        Ok(())
    }

    fn read(&self, from: &mut Reader) -> Result<Play> {
        Ok(Play { batch: Batch::read(from)?, pulls: 0 })
    }

    fn add(&mut self, part: &Play) -> bool {
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
