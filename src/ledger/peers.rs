//! Handles that learn together: the releases of other handles.
//!
#![doc = include_str!("../../docs/theory/merging.md")]

use super::facts::SavedFacts;
use super::roster::{Roster, arm_of};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::key_index::KeyIndex;
use crate::snapshot::Reader;
use std::any::Any;

/// The other handles, each known by its newest snapshot, in the order of their origins.
pub(crate) struct Peers<R> {
    /// Each with the value of `updates` when it was merged.
    others: Vec<(u64, Peer<R>)>,
    /// Number of merged snapshots that were newer than the known one.
    updates: u64,
}

/// Another handle, as of its newest snapshot.
pub(crate) struct Peer<R> {
    pub releases: R,
    /// Time of the merge on this handle's clock.
    pub merged: u64,
    origin: u64,
    /// Generation, decisions, time, releases, checksum.
    version: (u32, u64, u64, u32, u32),
    /// Number of the configuration's arms, and the ids of the added ones.
    configured: u32,
    added: KeyIndex,
}

/// The identity of the handle that made a snapshot.
pub(crate) struct PeerId<'a> {
    pub origin: u64,
    pub generation: u32,
    /// The ids of the arms that were added.
    pub added: &'a [u64],
}

/// A [`Peer`] with the type of releases that a policy learns from.
pub(crate) type AnyPeer = Box<dyn Any>;

/// Reads a snapshot of a policy, with the pulls before it.
///
/// # Errors
/// `Corrupt`; `NoMemory`.
pub(crate) type ReadPeer = fn(&Config, &PeerId, &mut Reader) -> Result<AnyPeer>;

impl<R> Peer<R> {
    /// # Errors
    /// `NoMemory`.
    pub fn new(releases: R, facts: &SavedFacts, id: &PeerId, configured: u32, checksum: u32) -> Result<Peer<R>> {
        let version = (id.generation, facts.decisions, facts.now(), facts.releases, checksum);
        Ok(Peer { releases, merged: 0, origin: id.origin, version, configured, added: KeyIndex::of(id.added, 0)? })
    }

    /// The time of its snapshot, on its own clock.
    pub fn snapshot_time(&self) -> u64 {
        self.version.2
    }

    /// Returns the peer's number of our arm.
    pub fn arm(&self, ours: usize, arms: &Roster) -> Option<usize> {
        arm_of(arms.id(ours), self.configured, |id| self.added.find(id))
    }
}

impl<R> Peers<R> {
    /// Maximum number of other handles.
    pub const MAX_HANDLES: usize = 1024;

    /// The place of a handle if it is known, or else the one where it belongs.
    fn find(&self, origin: u64) -> std::result::Result<usize, usize> {
        self.others.binary_search_by_key(&origin, |(_, known)| known.origin)
    }

    /// Returns whether this snapshot is newer than the known one of its origin. Memory for [`insert`](Self::insert) is
    /// then reserved.
    ///
    /// # Errors
    /// `NoMemory`; `Full` for too many handles. On an error nothing has changed.
    pub fn is_newer(&mut self, peer: &Peer<R>) -> Result<bool> {
        let known = self.find(peer.origin);
        if known.is_err() && self.others.len() == Self::MAX_HANDLES {
            let most = Self::MAX_HANDLES as u64;
            return Err(Error::Full { what: "other handle", number: most + 1, limit: "the maximum", most });
        }
        self.others.try_reserve(1).map_err(|_| Error::NoMemory)?;
        Ok(known.map_or(true, |place| peer.version > self.others[place].1.version))
    }

    /// Inserts a newer snapshot, for which memory is reserved. Returns its place, and what it replaces.
    pub fn insert(&mut self, peer: Peer<R>) -> (usize, Option<Peer<R>>) {
        self.updates += 1;
        match self.find(peer.origin) {
            Ok(place) => (place, Some(std::mem::replace(&mut self.others[place], (self.updates, peer)).1)),
            Err(place) => {
                self.others.insert(place, (self.updates, peer));
                (place, None)
            }
        }
    }

    /// What is known of the others, in the order of their origins.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Peer<R>> {
        self.others.iter().map(|(_, peer)| peer)
    }

    /// Returns the number of merged snapshots that were newer than the known one.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The number of active handles, this one included. The others are those with an update among the last 3n, where n
    /// is the number of others.
    pub fn active(&self) -> u32 {
        let least = self.updates.saturating_sub(3 * self.others.len() as u64);
        1 + self.others.iter().filter(|(updates, _)| *updates > least).count() as u32
    }
}

impl<R> Default for Peers<R> {
    fn default() -> Peers<R> {
        Peers { others: Vec::new(), updates: 0 }
    }
}

impl<R> std::ops::IndexMut<usize> for Peers<R> {
    fn index_mut(&mut self, place: usize) -> &mut Peer<R> {
        &mut self.others[place].1
    }
}

impl<R> std::ops::Index<usize> for Peers<R> {
    type Output = Peer<R>;

    fn index(&self, place: usize) -> &Peer<R> {
        &self.others[place].1
    }
}
