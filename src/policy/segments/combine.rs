//! Contributing the open sums of all cells to a leader: see [`crate::contribution`].

use super::Segments;
use crate::ledger::facts::Facts;
use crate::ledger::learner::OpenSums;
use crate::ledger::open::Batch;
use crate::snapshot::Writer;

impl Segments {
    /// The quota of a cell's next batch. A contributor's batch is never full.
    pub(super) fn quota(&self, row: usize, arm: usize) -> u64 {
        if self.facts.duty().contributes() { Batch::MAX_QUOTA } else { self.size(row, arm) }
    }

    /// The row and the arm of a place.
    fn cell_at(&self, place: usize) -> (usize, usize) {
        (place / self.rates.len(), place % self.rates.len())
    }

    /// Ends what all rows have planned.
    fn compare_again(&mut self) {
        self.turns.iter_mut().for_each(|turn| turn.left = 0);
        self.rates.iter_mut().for_each(|rate| rate.left = 0);
    }
}

/// What another handle contributes to a cell.
pub(crate) struct CellPart {
    /// The segment's key; `None` for all segments together.
    pub key: Option<u64>,
    /// The arm's id.
    pub id: u64,
    pub rewards: Batch,
}

impl OpenSums for Segments {
    fn facts(&mut self) -> &mut Facts {
        &mut self.facts
    }

    fn places(&self) -> usize {
        self.rows.len() * self.rates.len()
    }

    fn is_empty(&self, place: usize) -> bool {
        self.plays[self.cell_at(place)].batch.is_empty()
    }

    fn write(&self, place: usize, to: &mut Writer, id: &dyn Fn(u32) -> u64) {
        let (row, arm) = self.cell_at(place);
        to.u8(u8::from(row > 0));
        to.u64(if row > 0 { self.keys[row - 1] } else { 0 });
        to.u64(id(arm as u32));
        self.plays[(row, arm)].batch.save(to);
    }

    fn clear(&mut self, place: usize) {
        let cell = self.cell_at(place);
        self.plays[cell].batch.clear();
    }

    fn emptied(&mut self) {
        self.compare_again();
    }

    fn duty_changed(&mut self) {
        for place in 0..self.places() {
            let cell = self.cell_at(place);
            if self.plays[cell].batch.quota() > 0 {
                let size = self.quota(cell.0, cell.1);
                self.plays[cell].batch.set_quota(size);
            }
        }
        self.compare_again();
        self.trial = false;
        self.plan();
    }
    fn name_arm(&mut self, added: &[u64]) {
        self.added.extend(added.last());
        self.seed_arm_from_peers();
    }
}
