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

/// The versions of one life of a handle, and the ids that have a decision: a queue in the order of the records, and an
/// index of it.
pub(super) struct Versions {
    /// The number of this life's version 0, which never begins.
    base: u64,
    /// The number of versions so far. The last one is open.
    begun: u64,
    /// The tick at which the version before it closes.
    closes: u64,
    /// Secret, so that nobody can choose ids that make the index slow.
    key: [u64; 2],
    records: WipedVec<IdRecord>,
    oldest: usize,
    len: usize,
    /// For each entry, 1 more than the place of a record, or 0. At most half full; with linear probing.
    index: WipedVec<u32>,
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
            records: WipedVec::new(most, |_| IdRecord::NONE)?,
            oldest: 0,
            len: 0,
            index: WipedVec::new((2 * most).next_power_of_two(), |_| 0)?,
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

    /// The first entry of the index where a record may be.
    #[inline]
    fn home(&self, version: u64, id: u64) -> usize {
        sip_hash(&self.key, version ^ id) as usize & (self.index.len() - 1)
    }

    /// The entry of a record, or the empty one where it belongs.
    #[inline]
    fn entry(&self, version: u64, id: u64) -> usize {
        let mut entry = self.home(version, id);
        while let Some(place) = (self.index[entry] as usize).checked_sub(1) {
            let record = &self.records[place];
            if record.id == id && record.version == version {
                break;
            }
            entry = (entry + 1) & (self.index.len() - 1);
        }
        entry
    }

    /// The decision of the record at an entry.
    fn at(&self, entry: usize) -> Option<u64> {
        let place = (self.index[entry] as usize).checked_sub(1)?;
        Some(self.records[place].sequence)
    }

    /// Whether there is room for one more record, perhaps in place of the oldest one: its version is closed and its decision
    /// has ended.
    fn has_room(&self, engine: &Engine) -> bool {
        let IdRecord { version, sequence, .. } = self.records[self.oldest];
        !self.is_full() || !self.is_open(version, engine) && engine.pending_at(sequence).is_none()
    }

    fn is_full(&self) -> bool {
        self.len == self.records.len()
    }

    /// Adds a record that [has room](Self::has_room). Its entry was empty.
    fn insert(&mut self, record: IdRecord, mut entry: usize) {
        let most = self.records.len();
        if self.is_full() {
            self.forget_oldest();
            entry = self.entry(record.version, record.id);
        }
        let place = (self.oldest + self.len) % most;
        self.records[place] = record;
        self.index[entry] = place as u32 + 1;
        self.len += 1;
    }

    fn forget_oldest(&mut self) {
        let (IdRecord { version, id, .. }, last) = (self.records[self.oldest], self.index.len() - 1);
        let mut hole = self.entry(version, id);
        let mut entry = hole;
        loop {
            entry = (entry + 1) & last;
            let Some(place) = (self.index[entry] as usize).checked_sub(1) else { break };
            let IdRecord { version, id, .. } = self.records[place];
            // It moves into the hole unless its search begins after that.
            if entry.wrapping_sub(self.home(version, id)) & last >= entry.wrapping_sub(hole) & last {
                self.index[hole] = self.index[entry];
                hole = entry;
            }
        }
        self.index[hole] = 0;
        self.oldest = (self.oldest + 1) % self.records.len();
        self.len -= 1;
    }
}

impl Persist for Versions {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.same(self.records.len())?;
        [&mut self.base, &mut self.begun, &mut self.closes].into_iter().try_for_each(|number| number.persist(with))?;
        self.key.persist(with)?;
        let (mut len, oldest, most) = (self.len, self.oldest, self.records.len());
        len.persist(with)?;
        with.ensure(len <= most)?;
        with.alike(0..len, |with, n| {
            let mut record = self.records[(oldest + n) % most];
            record.persist(with)?;
            if with.reads() {
                let entry = self.entry(record.version, record.id);
                ensure(self.at(entry).is_none())?;
                self.insert(record, entry);
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
        let entry = tables.entry(version, id);
        let known = tables.at(entry);
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
        self.tables()?.0.insert(IdRecord { version, id, sequence }, entry);
        Ok(Decision { propensity: f64::NAN, phase: 0, ..decision })
    }

    fn find(&mut self, version: u64, id: u64) -> Result<Decision> {
        let (tables, engine) = self.tables()?;
        match tables.at(tables.entry(version, id)) {
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
    /// IdRecord every decision that was shown, and no other, soon after it was shown, whether a reward comes or not: which
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
