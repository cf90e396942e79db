//! Decisions made elsewhere, by a published table of probabilities, and recorded here.
//!
#![doc = include_str!("../../docs/theory/versions.md")]

use super::Bandit;
use super::state::{Decision, State};
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory::{WipedVec, try_with_capacity};
use crate::moving::{Archive, Persist, persist};
use crate::random::Random;
use crate::request::Request;
use crate::snapshot::ensure;
use crate::users::sip_hash;

/// The versions of one life of a handle, and the ids that have a decision: the last records, each with the number of the
/// one before it whose id has the same hash.
pub(super) struct Versions {
    /// The number of this life's version 0, which never begins.
    base: u64,
    /// The number of versions so far. The last one is open.
    begun: u64,
    /// The tick at which the version before it closes.
    closes: u64,
    /// Secret, so that nobody can choose ids that make the search slow.
    key: [u64; 2],
    /// The number of records so far. Record n is in place n modulo their length, until another one takes it.
    count: u64,
    records: WipedVec<IdRecord>,
    /// For each record the one before it with the same hash, and for each hash the last one: lower halves of their numbers.
    before: WipedVec<u32>,
    last: WipedVec<u32>,
}

/// An id, and the number of its decision.
#[derive(Clone, Copy)]
struct IdRecord {
    version: u64,
    id: u64,
    sequence: u64,
}

persist!(IdRecord { version, id, sequence });

/// Bits of a version below the name of its node.
const BITS: u32 = 48;

impl IdRecord {
    const NONE: IdRecord = IdRecord { version: 0, id: 0, sequence: 0 };
}

impl Versions {
    /// Of a configuration; `None` if it has no tables.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn of(config: &Config, random: &mut Random) -> Result<Option<Box<Versions>>> {
        let most = config.table_capacity as usize;
        if most == 0 {
            return Ok(None);
        }
        let [base, left, right] = [(); 3].map(|()| random.next_u64());
        Ok(Some(Box::new(Versions {
            base,
            begun: 0,
            closes: 0,
            key: [left, right],
            count: 0,
            records: WipedVec::new(most, |_| IdRecord::NONE)?,
            before: WipedVec::new(most, |_| 0)?,
            last: WipedVec::new(most.next_power_of_two(), |_| 0)?,
        })))
    }

    /// Begins a version. The one before it closes after this many ticks, and all earlier ones are closed.
    fn begin(&mut self, now: u64, grace: u64) {
        self.begun += 1;
        self.closes = now.saturating_add(grace);
    }

    /// The number of this life's n-th version, without the name of its node.
    fn number(&self, n: u64) -> u64 {
        self.base.wrapping_add(n) & ((1 << BITS) - 1)
    }

    /// Whether a version opens decisions.
    fn is_open(&self, version: u64, engine: &Engine) -> bool {
        let is = |n: u64| version == u64::from(engine.node()) << BITS | self.number(n);
        match self.begun {
            0 => false,
            last if is(last) => true,
            last => last > 1 && is(last - 1) && engine.ticks() < self.closes,
        }
    }

    /// The place of a record.
    fn place(&self, number: u64) -> usize {
        (number % self.records.len() as u64) as usize
    }

    fn hash(&self, version: u64, id: u64) -> usize {
        sip_hash(&self.key, version ^ id) as usize & (self.last.len() - 1)
    }

    /// The decision of an id, if it has a record. The search goes from newer records to older ones, and ends where one is
    /// not kept any more. (The lower half of a number from 2^32 records ago may be that of a kept record, of another hash.
    /// The search then goes on from there, and finds nothing.)
    fn find(&self, version: u64, id: u64) -> Option<u64> {
        let (mut age, mut number) = (0, self.last[self.hash(version, id)]);
        loop {
            let older = u64::from((self.count as u32).wrapping_sub(number));
            if older <= age || older > self.kept() {
                return None;
            }
            age = older;
            let place = self.place(self.count - age);
            let record = &self.records[place];
            if record.id == id && record.version == version {
                return Some(record.sequence);
            }
            number = self.before[place];
        }
    }

    /// The number of records that are kept.
    fn kept(&self) -> u64 {
        self.count.min(self.records.len() as u64)
    }

    /// Whether there is room for one more record, perhaps in place of the oldest one: its version is closed and its decision
    /// has ended.
    fn has_room(&self, engine: &Engine) -> bool {
        let is_full = self.count >= self.records.len() as u64;
        let IdRecord { version, sequence, .. } = self.records[self.place(self.count)];
        !is_full || !self.is_open(version, engine) && engine.pending_at(sequence).is_none()
    }

    /// Adds a record that [has room](Self::has_room).
    fn insert(&mut self, record: IdRecord) {
        let (place, hash) = (self.place(self.count), self.hash(record.version, record.id));
        self.records[place] = record;
        self.before[place] = std::mem::replace(&mut self.last[hash], self.count as u32);
        self.count += 1;
    }
}

impl Persist for Versions {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.same(self.records.len())?;
        [&mut self.base, &mut self.begun, &mut self.closes].into_iter().try_for_each(|number| number.persist(with))?;
        self.key.persist(with)?;
        let mut kept = self.kept() as usize;
        let oldest = self.count - self.kept();
        kept.persist(with)?;
        with.ensure(kept <= self.records.len())?;
        with.alike(0..kept, |with, n| {
            let mut record = self.records[self.place(oldest + n as u64)];
            record.persist(with)?;
            if with.reads() {
                ensure(self.find(record.version, record.id).is_none())?;
                self.insert(record);
            }
            Ok(())
        })
    }
}

impl State {
    /// The versions, and the engine with their decisions.
    fn tables(&mut self) -> Result<(&mut Versions, &mut Engine)> {
        let none = || Error::unconfigured("tables: config.table_capacity is 0");
        Ok((self.tables.as_deref_mut().ok_or_else(none)?, &mut self.engine))
    }

    /// The decision of an id, as its record returned it.
    ///
    /// # Errors
    /// `Duplicate` if it has ended.
    fn recorded(&mut self, sequence: u64) -> Result<Decision> {
        let Some((ticket, pull)) = self.engine.pending_at(sequence) else {
            return Err(self.engine.refused(Error::Duplicate));
        };
        let arm = self.policy.learner().map_or(pull.arm(), |learner| learner.arm_of(pull));
        Ok(Decision { ticket, propensity: f64::NAN, arm, phase: 0 })
    }

    fn record(&mut self, version: u64, id: u64, request: &Request) -> Result<Decision> {
        let (tables, engine) = self.tables()?;
        if !tables.is_open(version, engine) {
            return Err(engine.refused(Error::Expired));
        }
        let known = tables.find(version, id);
        if let Some(sequence) = known {
            return self.recorded(sequence);
        }
        if !tables.has_room(engine) {
            let most = tables.records.len() as u64;
            return Err(Error::Full { what: "id", number: id, limit: "all of config.table_capacity", most });
        }
        let arms = request.eligible.map_or(0, <[u32]>::len);
        if arms != 1 || request.slots != 1 {
            return Err(Error::request("eligible_len", "must be 1, the arm that was shown, and slots 1", arms));
        }
        let sequence = engine.counts().decisions;
        let chosen = Request { values: None, costs: None, abstain: false, ..*request };
        let decision = self.decide_one(&chosen)?;
        self.tables()?.0.insert(IdRecord { version, id, sequence });
        Ok(Decision { propensity: f64::NAN, phase: 0, ..decision })
    }

    fn find(&mut self, version: u64, id: u64) -> Result<Decision> {
        let (tables, engine) = self.tables()?;
        match tables.find(version, id) {
            Some(sequence) => self.recorded(sequence),
            None if tables.is_open(version, engine) => Err(engine.refused(Error::UnknownTicket)),
            None => Err(engine.refused(Error::Expired)),
        }
    }
}

impl Bandit {
    /// Returns the probability of each arm, by its number, in the next decision of a request, as integers that sum to 2^32:
    /// what programs elsewhere need to decide. They are functions of releases, so they cost no privacy. An arm that the
    /// decision cannot have, such as a retired one, has 0. Changes and counts nothing. `user` is not used.
    ///
    /// # Errors
    /// As [`select_for`](Self::select_for), but for `NotStored` and for what the user says; `InvalidRequest` with `abstain`;
    /// `Unsupported` by other policies than DP-MED and dp-linear; `NoMemory`.
    pub fn weights(&self, request: &Request) -> Result<Vec<u64>> {
        let state = &mut *self.lock.lock()?;
        let mut shares = try_with_capacity(state.pulls.len())?;
        shares.resize(state.pulls.len(), 0.0);
        state.weigh(request, &mut shares)?;
        // Rounded sums, so that the differences sum to 2^32, and what is 0 stays 0.
        let (all, mut sum, mut before) = (shares.iter().sum::<f64>(), 0.0, 0);
        let mut weights = try_with_capacity(shares.len())?;
        for share in shares {
            sum += share;
            let up_to = (sum / all * (1u64 << 32) as f64).round() as u64;
            weights.push(up_to - before);
            before = up_to;
        }
        Ok(weights)
    }

    /// Begins a new version of this handle's table, and returns its number: 16 bits of the
    /// [`node`](Config::node) and 48 bits that no other version of it has. Publish it with the [`weights`](Self::weights) of
    /// each request that edges decide. The version before it closes after `grace` more ticks, and all earlier ones at once:
    /// then they open no more decisions.
    ///
    /// When a version begins must not depend on rewards but by releases. No snapshot has the versions: after a restart all
    /// of them are unknown, and the table must be published anew. A state that [moves](Self::suspend) has them.
    ///
    /// # Errors
    /// `Unsupported` without [`table_capacity`](Config::table_capacity), and by policies that take no eligible arms;
    /// `Poisoned` after an internal failure.
    pub fn table_begin(&self, grace: u64) -> Result<u64> {
        let state = &mut *self.lock.lock()?;
        state.arms()?;
        let (tables, engine) = state.tables()?;
        tables.begin(engine.ticks(), grace);
        Ok(u64::from(engine.node()) << BITS | tables.number(tables.begun))
    }

    /// Records a decision that was made elsewhere, by a version of this handle's table: it becomes an open decision like any
    /// other, with a ticket and a window of its own. The request says what was decided for, and its one eligible arm is the
    /// arm that was shown; `values`, `costs` and `abstain` are not used. A repeat of an id returns the same decision, and changes
    /// nothing, until that decision ends. The propensity is NaN: the table has it. Never allocates on success.
    ///
    /// Record every decision that was shown, and no other, soon after it was shown, whether a reward comes or not: which
    /// ones are recorded must not depend on rewards.
    ///
    /// # Errors
    /// `Expired` for a version that is closed, or not of this life of this handle; `Duplicate` for an id whose decision has
    /// ended, was cancelled, or expired; `Full` if the ids of [`table_capacity`](Config::table_capacity) decisions must be
    /// kept; `Unsupported` without it; as [`select_for`](Self::select_for). Nothing has changed.
    pub fn record(&self, version: u64, id: u64, request: &Request) -> Result<Decision> {
        self.lock.lock()?.record(version, id, request)
    }

    /// Returns the decision of a [recorded](Self::record) id, for a reward that names it. Opens nothing. It finds the decision
    /// until that ends, also when its version is closed.
    ///
    /// # Errors
    /// `UnknownTicket` for an id that is not recorded; `Duplicate` for one whose decision has ended; `Expired` for an unknown
    /// id of a version that is closed, or not of this life of this handle; `Unsupported` without
    /// [`table_capacity`](Config::table_capacity); `Poisoned` after an internal failure.
    pub fn find(&self, version: u64, id: u64) -> Result<Decision> {
        self.lock.lock()?.find(version, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    /// An id is found exactly while it is among the last records, also where their numbers leave 32 bits.
    #[test]
    fn ids_are_found_while_they_are_kept() {
        let config = Config { table_capacity: 7, ..Config::new(2, 1.0) };
        let mut random = Seed::new(Some([1; 32])).unwrap().stream();
        for begin in [0, 1, (1 << 32) - 50, (3 << 32) - 7] {
            let mut versions = Versions::of(&config, &mut random).unwrap().unwrap();
            versions.count = begin;
            let mut kept = Vec::new();
            for sequence in 0..500 {
                let id = 1 + random.below(20);
                if versions.find(9, id).is_none() {
                    versions.insert(IdRecord { version: 9, id, sequence });
                    kept.push((id, sequence));
                }
                let last = &kept[kept.len().saturating_sub(7)..];
                for id in 1..=20 {
                    let known = last.iter().find(|(kept, _)| *kept == id).map(|&(_, sequence)| sequence);
                    assert_eq!(versions.find(9, id), known, "{begin} {sequence}");
                }
            }
        }
    }
}
