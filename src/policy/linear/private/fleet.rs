//! Snapshots, the releases of other handles, contributions, and arms that come and go.

use super::{CellTable, PrivateLinear};
use crate::codebook::Codebook;
use crate::error::{Error, Result};
use crate::ledger::cells::{Ledger, Place};
use crate::memory::try_with_capacity;
use crate::moving::{Archive, Persist};
use crate::policy::contract::Pull;
use crate::policy::learner::{Change, Growth, Learner, PeerHead};
use crate::policy::linear::Shape;
use crate::policy::linear::model::ModelEvidence;
use crate::policy::linear::pilot::Pilots;
use crate::snapshot::Reader;

/// What a snapshot has of a handle before its models.
#[derive(Default)]
pub(super) struct SavedPrivate {
    pub failures: u64,
    pub pilots: Pilots,
    pub requests: f64,
}

impl Persist for SavedPrivate {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.count(&mut self.failures)?;
        self.pilots.persist(with)?;
        self.requests.persist(with)?;
        with.ensure((0.0..=1e18).contains(&self.requests))
    }
}

/// What another handle has released.
pub(crate) struct PrivateReleases {
    pub(super) saved: SavedPrivate,
    models: Vec<ModelEvidence>,
}

/// A codebook in whose place another one is to be read.
pub(super) fn blank(rows: usize, features: usize) -> Result<Codebook> {
    let mut ones = try_with_capacity(rows * features)?;
    ones.resize(rows * features, 1.0);
    Codebook::new(&ones, features as u32)
}

fn read_book(rows: usize, features: usize, from: &mut Reader) -> Result<Codebook> {
    let values = from.list(rows * features, Reader::f32)?;
    Codebook::new(&values, features as u32).map_err(|_| Error::Corrupt)
}

/// Moves the codebook, which is public.
pub(super) fn persist_book(policy: &mut PrivateLinear, with: &mut Archive) -> Result<()> {
    match with {
        Archive::Out(to) => policy.book.rows().iter().for_each(|&number| to.f32(number)),
        Archive::In(from) => {
            let book = read_book(policy.book.len(), policy.book.features(), from)?;
            if policy.is_given && policy.book != book {
                return Err(Error::refused("codebook", format_args!("must be as in the snapshot, or NULL")));
            }
            policy.use_book(book);
        }
    }
    Ok(())
}

impl PrivateLinear {
    /// Learns from the releases of all peers.
    fn join(&mut self) {
        self.pilots.join(self.ledger.peers.iter().map(|peer| peer.releases.saved.pilots.own));
        self.join_models();
        if self.believe() {
            self.end_pilot();
        }
        self.models.refit();
        self.open();
    }

    fn join_models(&mut self) {
        self.fade();
        for model in 0..self.models.all.len() {
            self.models.join(model, &mut self.ledger, |peer, theirs| (&peer.models[theirs], 1.0));
        }
    }
}

impl Learner for PrivateLinear {
    type Sum = CellTable;
    type Releases = PrivateReleases;

    fn ledger(&mut self) -> &mut Ledger<CellTable, PrivateReleases> {
        &mut self.ledger
    }

    /// All requests are in one table.
    fn cell(&self, _pull: Pull) -> (usize, usize) {
        (0, 0)
    }

    fn changed(&mut self, change: Change<PrivateReleases>) {
        match change {
            Change::Full(Place::Whole) => self.release_pilot(),
            Change::Full(Place::Cell(..)) => self.release_table(),
            Change::Added if self.shape.per_arm => {
                let last = self.models.all.len() - 1;
                self.ledger.cells[(0, 0)].ids[last] = self.ledger.roster.id(last);
                if self.ledger.peers.updates() > 0 {
                    self.join_models();
                }
                self.models.refit();
                self.open();
            }
            Change::Prior(arm, prior) => {
                self.fade();
                self.models.set_prior(arm, prior, self.ledger.facts.now());
                self.models.refit();
            }
            Change::Joined { .. } => self.join(),
            Change::Duty => self.open(),
            _ => (),
        }
    }

    /// # Errors
    /// `InvalidConfig` for more arms than can be served in time, or more cells than there may be; `NoMemory`.
    fn grow(&mut self, by: Growth) -> Result<()> {
        let adds = self.models.grow(by, &self.shape, &self.ledger.roster)?;
        if adds { self.add_model(0) } else { Ok(()) }
    }

    fn read_peer(head: &PeerHead, from: &mut Reader) -> Result<PrivateReleases> {
        let config = head.config;
        let features = config.features as usize;
        read_book(config.codebook_len as usize, features, from)?;
        let with = &mut Archive::In(from);
        let mut saved = SavedPrivate::default();
        saved.persist(with)?;
        let count = Shape::of(config).models(head.arms);
        let mut models = try_with_capacity(count)?;
        for _ in 0..count {
            let mut evidence = ModelEvidence::new(1 + features)?;
            evidence.persist(&mut None, 1.0, with)?; // each handle has its own priors
            models.push(evidence);
        }
        Ok(PrivateReleases { saved, models })
    }
}

impl Persist for PrivateLinear {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.kept.persist(with)?;
        let most = (self.models.all.len() * self.book.len()) as u32;
        with.ensure(self.kept.iter().all(|&cell| cell < most || cell == super::NO_CELL))?;
        with.option(&mut self.ledger.whole, || Ok(Box::new(CellTable::pilot()?)))
    }
}
