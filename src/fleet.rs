//! Handles that learn together: the releases of other handles.
//!
//! A policy of the batch engine learns from a *set* of releases. A handle's snapshot contains the handle's own
//! releases, and a handle that merges the snapshots of others learns from all. Only noised sums of complete batches
//! ever leave a handle. Segments and dp-linear work likewise, with the same roster of other handles: see
//! `policy/segments/peers.rs` and `policy/linear/policy.rs`.
//!
//! # Privacy
//!
//! Each reward belongs to a decision of one handle, and so enters one batch of one handle. The size of a batch, and
//! every action, are functions of releases, of this handle's and of those that it has merged, coins and public data. So
//! Theorem P of [`crate::privacy`], with the releases of all handles in the order in which they were made, holds for
//! the transcript of the whole fleet, with the same epsilon. False snapshots are false releases: they harm learning,
//! but not the proof.
//!
//! # Merging
//!
//! A handle has an *origin*, a random number that its snapshots contain and that a restored handle keeps. Each snapshot
//! has a version: its generation (the number of restores before it), decisions, time and releases, and its checksum in
//! case all of these are equal. A handle is known by the newest snapshot of its origin. So merging is idempotent,
//! commutative and associative, and a replayed or older snapshot changes nothing.
//!
//! Handles that know the same releases report the same values, **to the last bit**: means, widths, counts and indices,
//! whatever the order of the merges, and whichever of the releases are their own. The releases of each origin are
//! stored by that origin's history alone, and the releases of several origins are joined by exact sums (`Joined` in
//! `policy/batched/released.rs`). Three things are not part of these releases:
//! - Priors ([`Bandit::set_prior`](crate::Bandit::set_prior)) are a handle's own.
//! - With `forget_after`, the age of a release counts on the clock of the handle that made it until the snapshot is
//!   taken, and on the clock of the merging handle from the merge on. The clocks count decisions, or the time that each
//!   handle gets by [`advance`](crate::Bandit::advance), and need not show the same time. So handles agree while no
//!   clock moves in between: all have taken their last snapshot before they merge, and none decides after. A handle
//!   also forgets by itself what one of its own releases contradicts.
//! - An interval of [`Bandit::compare`](crate::Bandit::compare) is wider the more often its handle has merged. Handles
//!   that have merged equally often give the same interval.
//!
//! Two handles that continue from one snapshot have one origin. Nothing is counted twice, but the others learn from
//! only one of them at a time.
//!
//! # Memory
//!
//! A handle merges at most 1024 others. A bandit keeps twelve pairs for each arm of each of them, some 230 bytes. The
//! policy has all pairs of an arm joined to twelve, 420 bytes more.

use crate::config::Config;
use crate::contribution::FleetKey;
use crate::error::{Error, Result};
use crate::key_index::KeyIndex;
use crate::memory::try_with_capacity;
use crate::policy::{Duty, Memory, ReleaseHistory, Saved};
use crate::random::Random;

/// The other handles, with the versions of their newest snapshots.
pub(crate) struct Roster {
    /// Entries, sorted by origin.
    others: Vec<Entry>,
    /// Number of merged snapshots that were newer than the known one.
    updates: u64,
}

/// The origin and version of a snapshot.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub origin: u64,
    /// Generation, decisions, time, releases, checksum.
    pub version: (u32, u64, u64, u32, u32),
    /// Value of the roster's `updates` when this entry was merged.
    updates: u64,
}

/// The position of a handle in the order of origins: `Ok` if it is known, `Err` if it is new.
pub(crate) type Place = std::result::Result<usize, usize>;

impl Entry {
    pub fn new(origin: u64, version: (u32, u64, u64, u32, u32)) -> Entry {
        Entry { origin, version, updates: 0 }
    }
}

impl Roster {
    /// Maximum number of other handles.
    pub const MAX_HANDLES: usize = 1024;

    pub const fn new() -> Roster {
        Roster { others: Vec::new(), updates: 0 }
    }

    fn find(&self, origin: u64) -> Place {
        self.others.binary_search_by_key(&origin, |known| known.origin)
    }

    /// Returns whether this snapshot is newer than the known one of its origin. Memory for [`insert`](Self::insert) is
    /// then reserved.
    ///
    /// # Errors
    /// `NoMemory`; `InvalidConfig` for too many handles. On an error nothing has changed.
    pub fn is_newer(&mut self, entry: &Entry) -> Result<bool> {
        let known = self.find(entry.origin);
        if known.is_err() && self.others.len() == Self::MAX_HANDLES {
            return Err(Error::config("handles", "must be at most 1024 beside this one", Self::MAX_HANDLES + 1));
        }
        self.others.try_reserve(1).map_err(|_| Error::NoMemory)?;
        Ok(known.map_or(true, |place| entry.version > self.others[place].version))
    }

    /// Inserts a newer snapshot, for which memory is reserved.
    pub fn insert(&mut self, mut entry: Entry) -> Place {
        self.updates += 1;
        entry.updates = self.updates;
        let place = self.find(entry.origin);
        match place {
            Ok(place) => self.others[place] = entry,
            Err(place) => self.others.insert(place, entry),
        }
        place
    }

    /// Returns the number of active other handles: those with an update among the last 3n, where n is the number of
    /// others.
    pub fn active(&self) -> u32 {
        let least = self.updates.saturating_sub(3 * self.others.len() as u64);
        self.others.iter().filter(|other| other.updates > least).count() as u32
    }
}

/// Stores what is known of another handle at its position, and returns what was stored there before.
pub(crate) fn put<T>(others: &mut Vec<T>, place: Place, other: T) -> Option<T> {
    match place {
        Ok(place) => Some(std::mem::replace(&mut others[place], other)),
        Err(place) => {
            others.insert(place, other);
            None
        }
    }
}

/// The arms of a handle, by their ids: the configuration's arms have their numbers as ids.
pub(crate) struct ArmIds {
    /// Number of the configuration's arms.
    first: u32,
    added: KeyIndex,
}

impl ArmIds {
    /// The arms of a handle with these added ones.
    ///
    /// # Errors
    /// `Corrupt` if two arms have one id; `NoMemory`.
    pub fn of(first: u32, added: &[u64]) -> Result<ArmIds> {
        Ok(ArmIds { first, added: KeyIndex::of(added, 0)? })
    }

    /// Returns the id of an arm. `first` arms are the configuration's, and these were added.
    pub fn id(first: u32, added: &[u64], arm: u32) -> u64 {
        arm.checked_sub(first).map_or(arm.into(), |place| added[place as usize])
    }

    /// Returns the arm with this id.
    pub fn find(&self, id: u64) -> Option<u32> {
        if id < self.first.into() { Some(id as u32) } else { self.find_added(id) }
    }

    /// Returns the arm with the id of an arm of another handle, which has as many configured arms and these added ones.
    pub fn same(&self, arm: usize, added: &[u64]) -> Option<u32> {
        self.find(ArmIds::id(self.first, added, arm as u32))
    }

    /// Returns the added arm with this id.
    fn find_added(&self, id: u64) -> Option<u32> {
        Some(self.first + self.added.find(id)? as u32)
    }
}

/// The releases of the other handles that this handle has merged.
pub(crate) struct Fleet {
    /// Origin of this handle.
    pub origin: u64,
    /// Added arms, merged handles and what a fleet key needs. `None` without any, as in most handles.
    joined: Option<Box<Joined>>,
}

struct Joined {
    memory: Memory,
    /// The ids of the arms that were added.
    added: Vec<u64>,
    ids: ArmIds,
    roster: Roster,
    /// Newest snapshot of each other handle, in the order of `roster`.
    others: Vec<PeerReleases>,
    sharing: Option<Sharing>,
}

impl Joined {
    const fn new(first: u32, memory: u64) -> Joined {
        let memory = Memory::new(memory);
        let ids = ArmIds { first, added: KeyIndex::NONE };
        Joined { memory, added: Vec::new(), ids, roster: Roster::new(), others: Vec::new(), sharing: None }
    }

    fn of(config: &Config) -> Joined {
        Joined::new(config.arms, config.forget_after)
    }
}

/// What a handle with a fleet key keeps for contributing and leading.
pub(crate) struct Sharing {
    pub key: FleetKey,
    /// The key's [id](FleetKey::id).
    pub id: u64,
    /// Generations, senders and nonces. From the operating system, even with a test seed.
    pub random: Random,
    pub duty: Duty,
    /// A random number of this handle as a contributor to the current leader, and the number of its last contribution.
    pub sender: u128,
    pub sequence: u64,
    /// The contributors to this generation, sorted, each with the number of its last accepted contribution.
    pub senders: Vec<(u128, u64)>,
    /// Contributions that this handle accepted as a leader, and those that it missed or could not use in full.
    pub accepted: u64,
    pub lost: u64,
}

impl Sharing {
    /// Maximum number of contributors to one generation. A restarted handle is a new one.
    pub const MOST_SENDERS: usize = 1 << 20;

    /// # Errors
    /// `NoMemory`.
    pub fn new(key: FleetKey, random: Random) -> Result<Sharing> {
        let (id, duty, senders) = (key.id()?, Duty::Alone, Vec::new());
        Ok(Sharing { key, id, random, duty, sender: 0, sequence: 0, senders, accepted: 0, lost: 0 })
    }

    /// The generation that this handle leads, or 0.
    pub fn led(&self) -> u64 {
        if let Duty::Leads(generation) = self.duty { generation } else { 0 }
    }
}

/// Another handle, as of its newest snapshot.
pub(crate) struct PeerReleases {
    pub entry: Entry,
    arms: Vec<ReleaseHistory>,
    ids: ArmIds,
}

impl PeerReleases {
    /// Returns the releases of a snapshot. `ids` are those of the arms that were added there.
    ///
    /// # Errors
    /// `Corrupt` if two arms have one id; `NoMemory`.
    pub fn new(origin: u64, generation: u32, checksum: u32, ids: &[u64], saved: Saved) -> Result<PeerReleases> {
        let entry = Entry::new(origin, (generation, saved.decisions, saved.time(), saved.releases, checksum));
        let ids = ArmIds::of((saved.arms.len() - ids.len()) as u32, ids)?;
        let mut arms = try_with_capacity(saved.arms.len())?;
        arms.extend(saved.arms.into_iter().map(|(_, _, released, _)| released));
        Ok(PeerReleases { entry, arms, ids })
    }

    /// Returns the releases of the arm with this id.
    fn arm(&self, id: u64) -> Option<&ReleaseHistory> {
        self.arms.get(self.ids.find(id)? as usize)
    }
}

impl Fleet {
    pub fn new(origin: u64) -> Fleet {
        Fleet { origin, joined: None }
    }

    fn joined(&self) -> &Joined {
        static NOTHING: Joined = Joined::new(u32::MAX, 0);
        self.joined.as_deref().unwrap_or(&NOTHING)
    }

    fn join(&mut self, config: &Config) -> &mut Joined {
        self.joined.get_or_insert_with(|| Box::new(Joined::of(config)))
    }

    /// What a handle with a fleet key keeps.
    pub fn sharing(&self) -> Option<&Sharing> {
        self.joined().sharing.as_ref()
    }

    pub fn sharing_mut(&mut self) -> Option<&mut Sharing> {
        self.joined.as_mut()?.sharing.as_mut()
    }

    /// Gives the handle what a fleet key needs.
    pub fn share(&mut self, sharing: Sharing, config: &Config) {
        self.join(config).sharing = Some(sharing);
    }

    /// The ids of the arms that were added.
    pub fn added(&self) -> &[u64] {
        &self.joined().added
    }

    /// Reserves memory for the id of another arm.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn reserve(&mut self, config: &Config) -> Result<()> {
        let joined = self.join(config);
        joined.added.try_reserve(1).map_err(|_| Error::NoMemory)?;
        joined.ids.added.reserve()
    }

    /// Adds the id of a new arm, after [`reserve`](Self::reserve).
    pub fn add(&mut self, id: u64) {
        if let Some(joined) = &mut self.joined {
            joined.ids.added.insert(id);
            joined.added.push(id);
        }
    }

    /// Takes over the origin of a snapshot, and the ids of the arms that were added.
    ///
    /// # Errors
    /// `Corrupt` if two arms have one id; `NoMemory`.
    pub fn restore(&mut self, origin: u64, added: Vec<u64>, config: &Config) -> Result<()> {
        self.origin = origin;
        if !added.is_empty() {
            let ids = ArmIds::of(config.arms, &added)?;
            let joined = self.join(config);
            (joined.added, joined.ids) = (added, ids);
        }
        Ok(())
    }

    /// Returns the arm with this id.
    pub fn arm(&self, id: u64, config: &Config) -> Option<u32> {
        if id < config.arms.into() { Some(id as u32) } else { self.find(id) }
    }

    /// Returns an arm's id.
    pub fn id(&self, arm: u32) -> u64 {
        let Joined { ids, added, .. } = self.joined();
        ArmIds::id(ids.first, added, arm)
    }

    /// Returns the added arm with this id.
    pub fn find(&self, id: u64) -> Option<u32> {
        self.joined().ids.find_added(id)
    }

    /// Returns an id for an arm without one from the caller. No other handle has it.
    pub fn any_id(&self) -> u64 {
        let mut id = self.origin.wrapping_add(self.added().len() as u64) | 1 << 63;
        while self.find(id).is_some() {
            id = id.wrapping_add(1) | 1 << 63;
        }
        id
    }

    /// Returns the number of merged snapshots that were newer than the known one.
    pub fn updates(&self) -> u64 {
        self.joined().roster.updates
    }

    /// As [`Roster::active`].
    pub fn active(&self) -> u32 {
        self.joined().roster.active()
    }

    /// Returns whether any other handle has been merged.
    pub fn has_others(&self) -> bool {
        !self.joined().others.is_empty()
    }

    /// Returns whether this snapshot is newer than the known one of its origin. Memory for [`insert`](Self::insert) is
    /// then reserved.
    ///
    /// # Errors
    /// As [`Roster::is_newer`].
    pub fn is_newer(&mut self, other: &PeerReleases, config: &Config) -> Result<bool> {
        if other.entry.origin == self.origin {
            return Ok(false);
        }
        let joined = self.join(config);
        joined.others.try_reserve(1).map_err(|_| Error::NoMemory)?;
        joined.roster.is_newer(&other.entry)
    }

    /// Inserts a newer snapshot at `time` on this handle's clock, and calls `changed` for each of its arms that has new
    /// releases.
    pub fn insert(&mut self, mut other: PeerReleases, arms: u32, time: u64, mut changed: impl FnMut(&Fleet, u32)) {
        let Some(joined) = &mut self.joined else { return }; // created by `is_newer`
        let (then, now) = (joined.memory.ticks(other.entry.version.2), joined.memory.ticks(time));
        other.arms.iter_mut().for_each(|released| released.rebase(then, now));
        let place = joined.roster.insert(other.entry);
        let before = put(&mut joined.others, place, other);
        let (Ok(place) | Err(place)) = place;
        for arm in 0..arms {
            let id = self.id(arm);
            let (now, then) = (self.joined().others[place].arm(id), before.as_ref().and_then(|before| before.arm(id)));
            if now.is_some_and(|now| !now.pairs().is_empty()) && now != then {
                changed(self, arm);
            }
        }
    }

    /// What each other has released of one of our arms.
    pub fn released(&self, arm: u32) -> impl Iterator<Item = &ReleaseHistory> {
        let id = self.id(arm);
        self.joined().others.iter().filter_map(move |other| other.arm(id))
    }
}
