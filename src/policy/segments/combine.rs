//! Contributing the open sums of all cells to a leader: see [`crate::contribution`].

use super::Segments;
use crate::error::Result;
use crate::ledger::facts::Duty;
use crate::ledger::open::{Batch, BatchPart};
use crate::policy::contract::Combining;
use crate::snapshot::{Reader, Writer};

impl Segments {
    /// The quota of a cell's next batch. A contributor's batch is never full.
    pub(super) fn quota(&self, row: usize, arm: usize) -> u64 {
        if self.facts.duty().contributes() { Batch::MAX_QUOTA } else { self.size(row, arm) }
    }

    /// The rows and arms of the cells with open rewards.
    fn open_cells(&self) -> impl Iterator<Item = (usize, usize)> {
        let arms = self.rates.len();
        let cells = (0..self.rows.len() * arms).map(move |place| (place / arms, place % arms));
        cells.filter(|&cell| !self.plays[cell].batch.is_empty())
    }

    fn add(&mut self, row: usize, arm: usize, part: &BatchPart) {
        self.ensure_open(row, arm);
        if self.plays[(row, arm)].batch.add(part) {
            self.release(row, arm);
        }
    }
}

impl Combining for Segments {
    fn set_duty(&mut self, duty: Duty) {
        self.facts.set_duty(duty);
        for row in 0..self.rows.len() {
            for arm in 0..self.rates.len() {
                if self.plays[(row, arm)].batch.quota() > 0 {
                    let size = self.quota(row, arm);
                    self.plays[(row, arm)].batch.set_quota(size);
                }
            }
            self.turns[row].left = 0;
        }
        self.rates.iter_mut().for_each(|rate| rate.left = 0);
        self.trial = false;
        self.plan();
    }

    fn set_handles(&mut self, handles: u32) {
        self.peers.set_handles(handles);
    }

    fn has_open(&self) -> bool {
        self.open_cells().next().is_some()
    }

    fn save_open(&self, to: &mut Writer, id: &dyn Fn(u32) -> u64) {
        to.u32(self.open_cells().count() as u32);
        for (row, arm) in self.open_cells() {
            to.u8(u8::from(row > 0));
            to.u64(if row > 0 { self.keys[row - 1] } else { 0 });
            to.u64(id(arm as u32));
            self.plays[(row, arm)].batch.save(to);
        }
    }

    fn clear_open(&mut self) {
        let Segments { rows, rates, plays, turns, .. } = self;
        for row in 0..rows.len() {
            (0..rates.len()).for_each(|arm| _ = plays[(row, arm)].batch.clear());
            turns[row].left = 0;
        }
        rates.iter_mut().for_each(|rate| rate.left = 0);
    }

    fn combine(&mut self, from: &mut Reader, arm: &dyn Fn(u64) -> Option<u32>) -> Result<bool> {
        read(&mut from.clone(), |_, _, _| ())?;
        let mut complete = true;
        read(from, |key, id, part| {
            let row = match key {
                None => Some(0),
                Some(key) => self.find_or_add(key).map(|segment| segment as usize + 1),
            };
            match (row, arm(id)) {
                (Some(row), Some(arm)) => self.add(row, arm as usize, part),
                _ => complete = false,
            }
        })?;
        // While it waited for contributions to a trial, a segment has begun with little knowledge. Let it compare again.
        self.turns[1..].iter_mut().for_each(|turn| turn.left = 0);
        Ok(complete)
    }
}

/// Reads what `save_open` wrote. Passes the segment's key (`None`: all segments together), the arm's id and its rewards
/// to `each`.
fn read(from: &mut Reader, mut each: impl FnMut(Option<u64>, u64, &BatchPart)) -> Result<()> {
    for _ in 0..from.length(29)? {
        let (own, key, id) = (from.bool()?, from.u64()?, from.u64()?);
        each(own.then_some(key), id, &BatchPart::read(from)?);
    }
    from.finish()
}
