//! Contributing the open vectors of all models to a leader: see [`crate::contribution`].
//!
//! A released vector is linear in its rewards and in the public sums beside it, each taken at the model of the handle
//! that decided. So vectors of several handles add up if they have the same instrument. A contributor uses the
//! instruments in the leader's snapshots; what it has collected with another one is dropped.

use super::batch::VectorBatch;
use super::model::Model;
use super::{Linear, LinearLedger, SavedLinear, Shape};
use crate::config::Config;
use crate::error::Result;
use crate::ledger::cells::Place;
use crate::ledger::facts::{Duty, SavedFacts};
use crate::ledger::learner::{Change, Learner};
use crate::ledger::peers::{Peer, PeerReleases};
use crate::snapshot::Reader;

impl Linear {
    /// Takes over the instruments of the leader's open batches.
    fn follow(&mut self, peer: usize) {
        for model in 0..self.models.len() {
            let peer = &self.ledger.peers[peer];
            let Some(theirs) = peer.arm(model, &self.ledger.roster) else { continue };
            let (leader, instrument) = (peer.releases.led, peer.releases.models[theirs].instrument);
            let contributes = self.ledger.facts.duty() == Duty::Contributes(leader);
            if contributes && self.ledger.cells[(0, model)].instrument != instrument {
                self.open(model, instrument);
            }
        }
    }
}

impl PeerReleases for SavedLinear {
    fn read(config: &Config, arms: usize, from: &mut Reader) -> Result<(SavedFacts, SavedLinear)> {
        SavedLinear::read(from, &Shape::of(config), arms)
    }
}

impl Learner for Linear {
    type Sum = VectorBatch;
    type Releases = SavedLinear;

    fn ledger(&mut self) -> &mut LinearLedger {
        &mut self.ledger
    }

    fn release(&mut self, place: Place) {
        match place {
            Place::Whole => self.release_pilot(),
            Place::Cell(_, model) => self.release_model(model),
        }
    }

    fn changed(&mut self, change: Change) {
        if let Change::Duty = change {
            let of_pilot = self.ledger.facts.quota(self.own_pilot.quota(self.pilot_variance, self.tail));
            self.ledger.whole.iter_mut().for_each(|pilot| pilot.quota = of_pilot);
            for model in 0..self.models.len() {
                let quota = self.quota(model, self.ledger.cells[(0, model)].instrument);
                self.ledger.cells[(0, model)].quota = quota;
            }
        }
    }

    fn reserve(&mut self) -> Result<()> {
        self.models.iter_mut().try_for_each(Model::reserve_others)
    }

    fn join(&mut self, peer: usize, _before: Option<&Peer<SavedLinear>>) {
        self.join_pilots();
        (0..self.models.len()).for_each(|model| self.join_model(model));
        self.follow(peer);
    }
}
