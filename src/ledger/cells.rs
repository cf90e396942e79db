//! The ledger of a handle: its open sums, and what is public of them.

use super::facts::{Facts, SavedFacts};
use super::grid::Grid;
use super::keys::Keys;
use super::peers::Peers;
use super::roster::Roster;
use crate::config::Config;
use crate::error::Result;
use crate::moving::{Archive, Persist, persist};
use crate::noise::NoiseSource;
use crate::snapshot::{Reader, Writer};

/// The ledger of a policy that learns from a set of releases. The policy itself keeps the evidence that it learns from
/// releases, and its plan.
pub(crate) struct Ledger<S, R> {
    pub facts: Facts,
    pub roster: Roster,
    /// The keys of all rows of cells but the first.
    pub keys: Keys,
    /// The open sum of each arm in each row. A model of all arms is arm 0.
    pub cells: Grid<S>,
    /// The open sum of all cells together, if there is one.
    pub whole: Option<Box<S>>,
    /// What the sums count, where that changes: sums that count something else are not added to them.
    pub unit: Option<u64>,
    /// What other handles have released.
    pub peers: Peers<R>,
    pub noise: NoiseSource,
}

/// Where an open sum is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Whole,
    Cell(usize, usize),
}

/// An open sum, with what is public of it.
pub(crate) trait OpenSum: Persist + Sized {
    /// Whether there is nothing to contribute.
    fn is_empty(&self) -> bool;

    /// Returns a sum like this one, without rewards.
    ///
    /// # Errors
    /// `NoMemory`.
    fn empty(&self) -> Result<Self>;

    /// Moves the sum, without noise; it is read into an [empty](Self::empty) one. Only a sealed contribution contains it.
    ///
    /// # Errors
    /// `Corrupt`, also for sums that so many rewards cannot have; `NoMemory`. None of a sum that can be collected.
    fn contribute(&mut self, with: &mut Archive) -> Result<()>;

    /// Adds what another handle contributes. Returns false, and adds nothing, if it was collected for another release.
    #[must_use]
    fn add(&mut self, part: &mut Self) -> bool;

    /// Whether the batch is to be released.
    fn is_full(&self) -> bool;

    /// Of the sum of all cells together: whether it collects all rewards, so that no cell has any.
    fn is_of_all(&self) -> bool {
        true
    }

    /// Drops the rewards, which were contributed. Returns whether there were any.
    fn clear(&mut self) -> bool;

    /// The number of pulls of the cell, where the ledger counts them.
    fn pulls(&mut self) -> Option<&mut u64> {
        None
    }
}

/// The bytes of a [`SumId`].
const SUM_ID: usize = 18;

/// What a contribution names a sum by.
#[derive(Default)]
pub(crate) struct SumId {
    pub is_whole: bool,
    /// Whether the row has a key, as all but the first have, and the key.
    pub has_key: bool,
    pub key: u64,
    /// The id of the arm.
    pub arm: u64,
}

persist!(SumId { is_whole, has_key, key, arm });

impl<S: OpenSum, R> Ledger<S, R> {
    /// The ledger of a new handle.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(config: &Config, cells: Grid<S>, noise: NoiseSource) -> Result<Ledger<S, R>> {
        let (facts, roster, keys, peers) =
            (Facts::new(config), Roster::new(config.arms)?, Keys::default(), Peers::default());
        Ok(Ledger { facts, roster, keys, cells, whole: None, unit: None, peers, noise })
    }

    /// Moves what a snapshot has of the facts, and which arms are live. What is read replaces those of a new handle. Returns
    /// the facts as they are moved, and whether the time continues: see [`Facts::continue_from`].
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn persist(&mut self, with: &mut Archive) -> Result<(SavedFacts, bool)> {
        let Facts { decisions, releases, time, .. } = self.facts;
        let mut saved = SavedFacts { decisions, releases, time };
        saved.persist(with)?;
        with.arms(self.roster.arms())?;
        for arm in 0..self.roster.arms() {
            let mut live = self.roster.is_live(arm);
            live.persist(with)?;
            if !live && with.reads() {
                self.roster.retire(arm);
            }
        }
        with.ensure(!self.roster.live().is_empty())?;
        let continues = !with.reads() || self.facts.continue_from(&saved);
        Ok((saved, continues))
    }

    /// All places, those without rewards included: the whole, then each row with its arms.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<S, R> {
        let (rows, arms) = (self.cells.rows(), self.cells.arms());
        let cells = (0..rows * arms).map(move |cell| Place::Cell(cell / arms, cell % arms));
        self.whole.as_ref().map(|_| Place::Whole).into_iter().chain(cells)
    }

    fn sum(&self, place: Place) -> Option<&S> {
        match place {
            Place::Whole => self.whole.as_deref(),
            Place::Cell(row, arm) => self.cells.get(row, arm),
        }
    }

    pub fn sum_mut(&mut self, place: Place) -> Option<&mut S> {
        match place {
            Place::Whole => self.whole.as_deref_mut(),
            Place::Cell(row, arm) => self.cells.get_mut(row, arm),
        }
    }

    /// The places of all sums that have rewards.
    pub fn open(&self) -> impl Iterator<Item = Place> {
        self.places().filter(|&place| self.sum(place).is_some_and(|sum| !sum.is_empty()))
    }

    /// Writes all sums that have rewards, without noise, for [`read`](Self::read).
    ///
    /// # Errors
    /// As [`OpenSum::contribute`].
    pub fn write_open(&mut self, to: &mut Writer) -> Result<()> {
        self.unit.iter().for_each(|&unit| to.u64(unit));
        to.u32(self.open().count() as u32);
        for place in self.places() {
            let (mut id, with) = (self.id(place), &mut Archive::Out(to));
            if let Some(sum) = self.sum_mut(place).filter(|sum| !sum.is_empty()) {
                id.persist(with)?;
                sum.contribute(with)?;
            }
        }
        Ok(())
    }

    /// Reads what another handle's [`write_open`](Self::write_open) wrote, and whether it counts what the sums here count.
    ///
    /// # Errors
    /// `Corrupt`, `NoMemory`.
    pub fn read(&self, from: &mut Reader) -> Result<(Vec<(SumId, S)>, bool)> {
        let fits = self.unit.map_or(Ok(true), |unit| Ok(from.u64()? == unit))?;
        let length = from.length(SUM_ID)?;
        let parts = from.list(length, |from| {
            let (mut id, mut part) = (SumId::default(), self.cells[(0, 0)].empty()?);
            id.persist(&mut Archive::In(from))?;
            part.contribute(&mut Archive::In(from))?;
            Ok((id, part))
        })?;
        Ok((parts, fits))
    }

    fn id(&self, place: Place) -> SumId {
        let Place::Cell(row, arm) = place else { return SumId { is_whole: true, ..SumId::default() } };
        let key = row.checked_sub(1).map_or(0, |number| self.keys[number]);
        SumId { is_whole: false, has_key: row > 0, key, arm: self.roster.id(arm) }
    }
}
