//! Handles that learn together: the releases of other handles.
//!
//! A policy of the batch engine learns from a *set* of releases. A handle's snapshot contains the handle's own
//! releases, and a handle that merges the snapshots of others learns from all. Only noised sums of complete batches
//! ever leave a handle. `Peers` keeps what is known of the others; what that is, and how it is joined, belongs to a
//! policy's evidence.
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
//! A handle merges at most 1024 others. A bandit keeps twelve pairs for each arm of each of them, some 290 bytes. The
//! policy has all pairs of an arm joined to twelve, 420 bytes more.

use crate::error::{Error, Result};
use crate::key_index::KeyIndex;

/// The other handles, each known by its newest snapshot, in the order of their origins.
pub(crate) struct Peers<P> {
    /// Each with the value of `updates` when it was merged.
    others: Vec<(u64, P)>,
    /// Number of merged snapshots that were newer than the known one.
    updates: u64,
    /// The number of handles that share each batch, as the caller says; 0: it is counted.
    handles: u32,
}

/// The origin and version of a snapshot.
pub(crate) struct Entry {
    pub origin: u64,
    /// Generation, decisions, time, releases, checksum.
    pub version: (u32, u64, u64, u32, u32),
}

/// What a snapshot of another handle says.
pub(crate) trait PeerSnapshot {
    fn entry(&self) -> &Entry;
}

impl<P> Peers<P> {
    /// No others.
    pub const NONE: Peers<P> = Peers { others: Vec::new(), updates: 0, handles: 0 };
}

impl<P: PeerSnapshot> Peers<P> {
    /// Maximum number of other handles.
    pub const MAX_HANDLES: usize = 1024;

    /// The place of a handle if it is known, or else the one where it belongs.
    fn find(&self, origin: u64) -> std::result::Result<usize, usize> {
        self.others.binary_search_by_key(&origin, |(_, known)| known.entry().origin)
    }

    /// Returns whether this snapshot is newer than the known one of its origin. Memory for [`insert`](Self::insert) is
    /// then reserved.
    ///
    /// # Errors
    /// `NoMemory`; `Full` for too many handles. On an error nothing has changed.
    pub fn is_newer(&mut self, peer: &P) -> Result<bool> {
        let known = self.find(peer.entry().origin);
        if known.is_err() && self.others.len() == Self::MAX_HANDLES {
            let most = Self::MAX_HANDLES as u64;
            return Err(Error::Full { what: "other handle", number: most + 1, limit: "the maximum", most });
        }
        self.others.try_reserve(1).map_err(|_| Error::NoMemory)?;
        Ok(known.map_or(true, |place| peer.entry().version > self.others[place].1.entry().version))
    }

    /// Inserts a newer snapshot, for which memory is reserved. Returns its place, and what it replaces.
    pub fn insert(&mut self, peer: P) -> (usize, Option<P>) {
        self.updates += 1;
        match self.find(peer.entry().origin) {
            Ok(place) => (place, Some(std::mem::replace(&mut self.others[place], (self.updates, peer)).1)),
            Err(place) => {
                self.others.insert(place, (self.updates, peer));
                (place, None)
            }
        }
    }

    /// What is known of the others, in the order of their origins.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &P> {
        self.others.iter().map(|(_, peer)| peer)
    }

    /// Returns the number of merged snapshots that were newer than the known one.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Sets the number of handles, this one included. 0: it is counted.
    pub fn set_handles(&mut self, handles: u32) {
        self.handles = handles;
    }

    /// Returns the number of active other handles: as the caller says, or those with an update among the last 3n, where
    /// n is the number of others.
    pub fn active(&self) -> u32 {
        if self.handles > 0 {
            return self.handles - 1;
        }
        let least = self.updates.saturating_sub(3 * self.others.len() as u64);
        self.others.iter().filter(|(updates, _)| *updates > least).count() as u32
    }
}

impl<P> std::ops::Index<usize> for Peers<P> {
    type Output = P;

    fn index(&self, place: usize) -> &P {
        &self.others[place].1
    }
}

/// The arms of a handle, by their ids: the configuration's arms have their numbers as ids.
pub(crate) struct ArmIds {
    /// Number of the configuration's arms.
    first: u32,
    added: KeyIndex,
}

impl ArmIds {
    /// The arms of a new handle.
    pub fn configured(first: u32) -> ArmIds {
        ArmIds { first, added: KeyIndex::NONE }
    }

    /// The arms of a handle with these added ones.
    ///
    /// # Errors
    /// `Corrupt` if two arms have one id; `NoMemory`.
    pub fn of(first: u32, added: &[u64]) -> Result<ArmIds> {
        Ok(ArmIds { first, added: KeyIndex::of(added, 0)? })
    }

    /// Adds an arm, for which memory is [reserved](Self::reserve).
    pub fn add(&mut self, id: u64) {
        self.added.insert(id);
    }

    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        self.added.reserve()
    }

    /// Returns the id of an arm of a handle that has as many configured arms, and these added ones.
    pub fn id(&self, arm: u32, added: &[u64]) -> u64 {
        arm.checked_sub(self.first).map_or(arm.into(), |place| added[place as usize])
    }

    /// Returns the arm with this id.
    pub fn find(&self, id: u64) -> Option<u32> {
        if id < self.first.into() { Some(id as u32) } else { Some(self.first + self.added.find(id)? as u32) }
    }

    /// Returns the arm with the id of an arm of another handle, which has these added ones.
    pub fn same(&self, arm: usize, added: &[u64]) -> Option<u32> {
        self.find(self.id(arm as u32, added))
    }
}
