//! Contributing the open vectors of all models to a leader: see [`crate::contribution`].
//!
//! A released vector is linear in its rewards and in the public sums beside it, each taken at the model of the handle
//! that decided. So vectors of several handles add up if they have the same instrument. A contributor uses the
//! instruments in the leader's snapshots; what it has collected with another one is dropped.

use super::batch::VectorBatch;
use super::{Linear, SavedLinear};
use crate::error::Result;
use crate::ledger::combine::OpenSums;
use crate::ledger::facts::{Duty, Facts};
use crate::snapshot::{Reader, Writer, ensure, is_plausible};

/// A vector that another handle contributes: of a model, or of the pilot.
pub(crate) struct VectorPart {
    /// The id of the model's arm, 0 for a model of all arms.
    model: Option<u64>,
    /// For the pilot, the sum of |x|_1.
    size: f64,
    batch: VectorBatch,
}

impl Linear {
    /// Updates what limits the size of batches.
    pub(super) fn limit(&mut self) {
        self.common.handles = self.handles / self.facts.duty().sharers(self.handles);
        self.common.most = self.facts.limit();
    }

    /// The generation that this handle leads, or 0.
    pub(super) fn led(&self) -> u64 {
        if let Duty::Leads(generation) = self.facts.duty() { generation } else { 0 }
    }

    /// Takes over the instrument of the leader's open batch of a model.
    pub(super) fn follow(&mut self, model: usize, leader: &SavedLinear, theirs: usize) {
        let (batch, instrument) = (&mut self.batches[model], leader.models[theirs].instrument);
        if self.facts.duty() == Duty::Contributes(leader.led) && batch.instrument != instrument {
            batch.open(instrument, self.models[model].quota(instrument, &self.common));
        }
    }

    /// Adds a vector to the open batch of a model, or of the pilot. Returns whether that was possible: not if the pilot
    /// has ended, or the instrument has changed.
    #[must_use]
    fn add_to(&mut self, model: Option<usize>, part: &VectorPart) -> bool {
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

impl OpenSums for Linear {
    type Part = VectorPart;
    const SHORTEST: usize = 17;

    fn facts(&mut self) -> &mut Facts {
        &mut self.facts
    }

    fn set_handles(&mut self, handles: u32) {
        self.peers.set_handles(handles);
        self.handles = 1.0 + f64::from(self.peers.active());
        self.limit();
    }

    fn places(&self) -> usize {
        if self.pilot.is_some() { 1 } else { self.batches.len() }
    }

    fn is_empty(&self, place: usize) -> bool {
        self.pilot.as_ref().map_or(&self.batches[place], |pilot| &pilot.batch).is_empty()
    }

    fn write(&self, place: usize, to: &mut Writer, id: &dyn Fn(u32) -> u64) {
        let (batch, size) = self.pilot.as_ref().map_or((&self.batches[place], 0.0), |pilot| (&pilot.batch, pilot.size));
        to.u8(self.pilot.is_some().into());
        to.u64(if self.shape.per_arm && self.pilot.is_none() { id(place as u32) } else { 0 });
        to.f64(size);
        batch.save(to);
    }

    fn read(&self, from: &mut Reader) -> Result<VectorPart> {
        let (pilot, id, size) = (from.bool()?, from.u64()?, from.f64()?);
        ensure(is_plausible(size))?;
        let mut batch = VectorBatch::new(self.d(), self.intercept)?;
        batch.load(from)?;
        Ok(VectorPart { model: (!pilot).then_some(id), size, batch })
    }

    fn add(&mut self, part: &VectorPart, arm: &dyn Fn(u64) -> Option<u32>) -> bool {
        match part.model {
            Some(id) if self.shape.per_arm => arm(id).is_some_and(|arm| self.add_to(Some(arm as usize), part)),
            Some(_) => self.add_to(Some(0), part),
            None => self.add_to(None, part),
        }
    }

    fn clear(&mut self, place: usize) {
        match &mut self.pilot {
            Some(pilot) => pilot.open(&self.own_pilot, self.pilot_variance, self.tail),
            None => {
                let batch = &mut self.batches[place];
                batch.open(batch.instrument, batch.quota as f64);
            }
        }
    }

    fn duty_changed(&mut self) {
        self.limit();
        for (model, batch) in self.models.iter().zip(&mut *self.batches) {
            batch.set_quota(model.quota(batch.instrument, &self.common));
        }
    }
}
