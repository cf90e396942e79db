//! Contributing the open sums of all cells to a leader: see [`crate::contribution`].

use super::Segments;
use crate::error::Result;
use crate::ledger::combine::OpenSums;
use crate::ledger::facts::Facts;
use crate::ledger::open::{Batch, BatchPart};
use crate::snapshot::{Reader, Writer};

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
    key: Option<u64>,
    /// The arm's id.
    id: u64,
    rewards: BatchPart,
}

impl OpenSums for Segments {
    type Part = CellPart;
    const SHORTEST: usize = 29;

    fn facts(&mut self) -> &mut Facts {
        &mut self.facts
    }

    fn set_handles(&mut self, handles: u32) {
        self.peers.set_handles(handles);
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

    fn read(&self, from: &mut Reader) -> Result<CellPart> {
        let (own, key, id) = (from.bool()?, from.u64()?, from.u64()?);
        Ok(CellPart { key: own.then_some(key), id, rewards: BatchPart::read(from)? })
    }

    fn add(&mut self, part: &CellPart, arm: &dyn Fn(u64) -> Option<u32>) -> bool {
        let row = match part.key {
            None => Some(0),
            Some(key) => self.find_or_add(key).map(|segment| segment as usize + 1),
        };
        let (Some(row), Some(arm)) = (row, arm(part.id)) else { return false };
        let cell = (row, arm as usize);
        self.ensure_open(cell.0, cell.1);
        if self.plays[cell].batch.add(&part.rewards) {
            self.release(cell.0, cell.1);
        }
        true
    }

    fn clear(&mut self, place: usize) {
        let cell = self.cell_at(place);
        self.plays[cell].batch.clear();
    }

    fn emptied(&mut self) {
        self.compare_again();
    }

    /// While it waited for contributions to a trial, a segment has begun with little knowledge. It compares again.
    fn combined(&mut self) {
        self.turns[1..].iter_mut().for_each(|turn| turn.left = 0);
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
}
