//! Contributing the open vectors of all models to a leader: see [`crate::contribution`].
//!
//! A released vector is linear in its rewards and in the public sums beside it, each taken at the model of the handle
//! that decided. So vectors of several handles add up if they have the same instrument. A contributor uses the
//! instruments in the leader's snapshots; what it has collected with another one is dropped.

use super::batch::VectorBatch;
use super::{Linear, SavedLinear, Shape, discount};
use crate::config::Config;
use crate::error::Result;
use crate::ledger::facts::{Duty, Facts, SavedFacts};
use crate::ledger::learner::{Learning, OpenSums};
use crate::ledger::peers::{Peer, PeerReleases, Peers};
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
        self.common.handles = if self.facts.duty() == Duty::Alone { self.handles } else { 1.0 };
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

    /// Joins the peers' releases for a model.
    fn join_peers(&mut self, model: usize, peers: &Peers<SavedLinear>, added: &[u64]) {
        let (per_arm, now, memory) = (self.shape.per_arm, self.now(), self.memory);
        self.join(
            model,
            &mut peers.iter().filter_map(|peer| {
                let theirs = peer.model(model, per_arm, added)?;
                Some((peer.releases.evidence(theirs), discount(now - peer.merged, memory)))
            }),
        );
    }
}

impl PeerReleases for SavedLinear {
    fn read(config: &Config, arms: usize, from: &mut Reader) -> Result<(SavedFacts, SavedLinear)> {
        SavedLinear::read(from, &Shape::of(config), arms)
    }
}

impl Peer<SavedLinear> {
    /// Returns the peer's model for our model `ours`. `added` are the ids of our added arms.
    fn model(&self, ours: usize, per_arm: bool, added: &[u64]) -> Option<usize> {
        if per_arm { self.arm(ours, added) } else { Some(0) }
    }
}

impl OpenSums for Linear {
    fn facts(&mut self) -> &mut Facts {
        &mut self.facts
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

    fn name_arm(&mut self, added: &[u64]) {
        if self.shape.per_arm && self.peers.updates() > 0 {
            let peers = std::mem::take(&mut self.peers);
            self.join_peers(self.models.len() - 1, &peers, added);
            self.peers = peers;
        }
    }
}

impl Learning for Linear {
    type Part = VectorPart;
    const SHORTEST: usize = 17;
    type Releases = SavedLinear;

    fn read(&self, from: &mut Reader) -> Result<VectorPart> {
        let (pilot, id, size) = (from.bool()?, from.u64()?, from.f64()?);
        ensure(is_plausible(size))?;
        let mut batch = VectorBatch::new(self.d(), self.intercept)?;
        batch.load(from)?;
        Ok(VectorPart { model: (!pilot).then_some(id), size, batch })
    }

    /// It cannot be added if the pilot has ended, or the instrument has changed.
    fn add(&mut self, part: &VectorPart, arm: &dyn Fn(u64) -> Option<u32>) -> bool {
        let model = match part.model {
            Some(id) if self.shape.per_arm => arm(id).map(|arm| arm as usize),
            model => model.map(|_| 0),
        };
        match (&mut self.pilot, model) {
            (Some(pilot), None) if part.model.is_none() => {
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

    fn peers(&mut self) -> &mut Peers<SavedLinear> {
        &mut self.peers
    }

    fn handles_changed(&mut self) {
        self.handles = self.peers.handles().into();
        self.limit();
    }

    fn reserve(&mut self) -> Result<()> {
        self.reserve_others()
    }

    fn join(&mut self, place: usize, _before: Option<&Peer<SavedLinear>>, added: &[u64]) {
        let peers = std::mem::take(&mut self.peers);
        self.join_pilots(&mut peers.iter().map(|peer| &peer.releases.pilot), peers.handles() - 1);
        for model in 0..self.models.len() {
            self.join_peers(model, &peers, added);
            if let Some(theirs) = peers[place].model(model, self.shape.per_arm, added) {
                self.follow(model, &peers[place].releases, theirs);
            }
        }
        self.peers = peers;
    }
}
