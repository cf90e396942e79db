//! Contributing the open vectors of all models to a leader: see [`crate::contribution`].
//!
//! A released vector is linear in its rewards and in the public sums beside it, each taken at the model of the handle
//! that decided. So vectors of several handles add up if they have the same instrument. A contributor uses the
//! instruments in the leader's snapshots; what it has collected with another one is dropped.

use super::batch::{Instrument, VectorBatch};
use super::model::ModelEvidence;
use super::partition::Partition;
use super::{Linear, LinearLedger, LinearReleases, SavedLinear, Shape};
use crate::error::Result;
use crate::ledger::cells::Place;
use crate::ledger::facts::Duty;
use crate::memory::try_with_capacity;
use crate::moving::{Archive, Persist};
use crate::policy::contract::Pull;
use crate::policy::learner::{Change, Growth, Learner, PeerHead};
use crate::snapshot::Reader;

impl Linear {
    /// Takes over C of the leader, or of a handle with a larger one; of the leader also the partition, and the instruments
    /// of its open batches.
    fn follow(&mut self, peer: usize) {
        let LinearReleases { saved: SavedLinear { scale, .. }, led, partition, .. } = &self.ledger.peers[peer].releases;
        let (unit, contributes) = (scale.unit, self.ledger.facts.duty() == Duty::Contributes(*led));
        if contributes {
            self.splitter.follow(partition);
        }
        if scale.is_final() && (contributes || !self.saved.scale.is_final() || unit > self.saved.scale.unit) {
            self.saved.scale.settle();
            if unit != self.saved.scale.unit {
                self.rescale(unit);
            }
        }
        for model in 0..self.models.all.len() {
            let peer = &self.ledger.peers[peer];
            let Some(theirs) = peer.arm(model, &self.ledger.roster) else { continue };
            let instrument = peer.releases.models[theirs].0;
            if contributes && self.ledger.cells[(0, model)].setting.instrument != instrument {
                self.open(model, instrument);
            }
        }
    }
}

impl Learner for Linear {
    type Sum = VectorBatch;
    type Releases = LinearReleases;

    fn ledger(&mut self) -> &mut LinearLedger {
        &mut self.ledger
    }

    fn cell(&self, pull: Pull) -> (usize, usize) {
        (0, self.kept.arm(pull.arm() as usize) as usize)
    }

    fn changed(&mut self, change: Change<LinearReleases>) {
        match change {
            Change::Full(Place::Whole) if self.is_pilot() => self.release_pilot(),
            Change::Full(Place::Whole) => self.release_samples(),
            Change::Full(Place::Cell(_, model)) => self.release_model(model),
            Change::Added if self.shape.per_arm && self.ledger.peers.updates() > 0 => {
                self.join_model(self.models.all.len() - 1);
            }
            Change::Prior(arm, prior) => {
                self.models.set_prior(arm, prior, self.ledger.facts.now());
                self.refit(arm);
            }
            Change::Joined { peer, .. } => {
                self.follow(peer);
                self.join_pilots();
                (0..self.models.all.len()).for_each(|model| self.join_model(model));
            }
            Change::Duty => {
                self.plan_whole();
                for model in 0..self.models.all.len() {
                    let quota = self.quota(model, self.ledger.cells[(0, model)].setting.instrument);
                    self.ledger.cells[(0, model)].quota = quota;
                }
            }
            _ => (),
        }
    }

    /// With one model a new arm is a new row; with a model for each arm, it has a new model at its prior.
    ///
    /// # Errors
    /// `InvalidConfig` for more arms than can be served in time; `NoMemory`.
    fn grow(&mut self, by: Growth) -> Result<()> {
        let adds = self.models.grow(by, &self.shape, &self.ledger.roster)?;
        if adds { self.add_model() } else { Ok(()) }
    }

    fn read_peer(head: &PeerHead, from: &mut Reader) -> Result<LinearReleases> {
        let (with, count) = (&mut Archive::In(from), Shape::of(head.config).models(head.arms));
        let (mut saved, mut led, mut partition) = (SavedLinear::default(), 0, Partition::default());
        saved.persist(&mut 0, &mut led, &mut partition, with)?;
        let mut models = try_with_capacity(count)?;
        for _ in 0..count {
            let (mut instrument, mut evidence) =
                (Instrument::Sum, ModelEvidence::new(1 + head.config.features as usize)?);
            instrument.persist(with)?;
            evidence.persist(&mut None, 1.0, with)?; // each handle has its own priors
            models.push((instrument, evidence));
        }
        Ok(LinearReleases { saved, led, partition, models })
    }
}
