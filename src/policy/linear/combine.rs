//! Contributing the open vectors of all models to a leader: see [`crate::contribution`].
//!
//! A released vector is linear in its rewards and in the public sums beside it, each taken at the model of the handle
//! that decided. So vectors of several handles add up if they have the same instrument. A contributor uses the
//! instruments in the leader's snapshots; what it has collected with another one is dropped.

use super::batch::VectorBatch;
use super::{Linear, SavedLinear};
use crate::error::Result;
use crate::ledger::facts::Duty;
use crate::policy::contract::Combining;
use crate::snapshot::{Reader, Writer, ensure, is_plausible};

/// A vector that another handle contributes: of a model, or of the pilot.
pub(super) struct VectorPart {
    /// The id of the model's arm, 0 for a model of all arms.
    pub model: Option<u64>,
    /// For the pilot, the sum of |x|_1.
    size: f64,
    batch: VectorBatch,
}

impl Linear {
    /// Updates what limits the size of batches.
    pub(super) fn limit(&mut self) {
        self.common.handles = self.handles / self.duty.sharers(self.handles);
        self.common.most = self.duty.limit(self.led);
    }

    /// The generation that this handle leads, or 0.
    pub(super) fn led(&self) -> u64 {
        if let Duty::Leads(generation) = self.duty { generation } else { 0 }
    }

    /// Takes over the instrument of the leader's open batch of a model.
    pub(super) fn follow(&mut self, model: usize, leader: &SavedLinear, theirs: usize) {
        let (batch, instrument) = (&mut self.batches[model], leader.models[theirs].instrument);
        if self.duty == Duty::Contributes(leader.led) && batch.instrument != instrument {
            batch.open(instrument, self.models[model].quota(instrument, &self.common));
        }
    }

    /// Reads what [`save_open`](Combining::save_open) wrote.
    ///
    /// # Errors
    /// `Corrupt`, `NoMemory`.
    pub(super) fn read_open(&self, from: &mut Reader) -> Result<Vec<VectorPart>> {
        let length = from.length(17)?;
        let mut parts = crate::memory::try_with_capacity(length)?;
        for _ in 0..length {
            let (pilot, id, size) = (from.bool()?, from.u64()?, from.f64()?);
            ensure(is_plausible(size))?;
            let mut batch = VectorBatch::new(self.d(), self.intercept)?;
            batch.load(from)?;
            parts.push(VectorPart { model: (!pilot).then_some(id), size, batch });
        }
        from.finish()?;
        Ok(parts)
    }

    /// Adds a vector to the open batch of a model, or of the pilot. Returns whether that was possible: not if the pilot
    /// has ended, or the instrument has changed.
    #[must_use]
    pub(super) fn add(&mut self, model: Option<usize>, part: &VectorPart) -> bool {
        match (&mut self.pilot, model) {
            (Some(pilot), None) => {
                let added = pilot.batch.add(&part.batch);
                pilot.size += if added { part.size } else { 0.0 };
                if pilot.batch.is_full() {
                    self.release_pilot();
                }
                added
            }
            (None, Some(model)) => {
                let added = self.batches[model].add(&part.batch);
                if self.batches[model].is_full() {
                    self.release(model);
                }
                added
            }
            _ => false,
        }
    }
}

impl Combining for Linear {
    fn set_duty(&mut self, duty: Duty) {
        (self.duty, self.led, self.may_have_released) = (duty, 0.0, true);
        self.limit();
        for (model, batch) in self.models.iter().zip(&mut *self.batches) {
            batch.set_quota(model.quota(batch.instrument, &self.common));
        }
    }

    fn set_handles(&mut self, handles: u32) {
        self.peers.set_handles(handles);
        self.handles = 1.0 + f64::from(self.peers.active());
        self.limit();
    }

    fn has_open(&self) -> bool {
        match &self.pilot {
            Some(pilot) => !pilot.batch.is_empty(),
            None => !self.batches.iter().all(VectorBatch::is_empty),
        }
    }

    fn save_open(&self, to: &mut Writer, id: &dyn Fn(u32) -> u64) {
        if let Some(pilot) = &self.pilot {
            to.u32(1);
            to.u8(1);
            to.u64(0);
            to.f64(pilot.size);
            pilot.batch.save(to);
            return;
        }
        let open = || self.batches.iter().enumerate().filter(|(_, batch)| !batch.is_empty());
        to.u32(open().count() as u32);
        for (model, batch) in open() {
            to.u8(0);
            to.u64(if self.shape.per_arm { id(model as u32) } else { 0 });
            to.f64(0.0);
            batch.save(to);
        }
    }

    fn clear_open(&mut self) {
        self.may_have_released = true;
        if let Some(pilot) = &mut self.pilot {
            pilot.open(&self.own_pilot, self.pilot_variance, self.tail);
        }
        for batch in &mut *self.batches {
            batch.open(batch.instrument, batch.quota as f64);
        }
    }

    fn combine(&mut self, from: &mut Reader, arm: &dyn Fn(u64) -> Option<u32>) -> Result<bool> {
        let mut complete = true;
        for part in self.read_open(from)? {
            let model = match part.model {
                Some(id) if self.shape.per_arm => arm(id).map(|arm| Some(arm as usize)),
                Some(_) => Some(Some(0)),
                None => Some(None),
            };
            complete &= model.is_some_and(|model| self.add(model, &part));
        }
        Ok(complete)
    }
}
