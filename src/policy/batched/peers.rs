//! The releases of other handles, for policies whose arms collect batches.

use super::arms::Saved;
use super::released::{Memory, ReleaseHistory};
use crate::config::Config;
use crate::error::Result;
use crate::ledger::peers::{ArmIds, Entry, PeerSnapshot, Peers};
use crate::memory::try_with_capacity;
use crate::policy::contract::PeerId;
use crate::snapshot::{Reader, ensure};

/// Another handle, as of its newest snapshot.
pub struct PeerReleases {
    entry: Entry,
    arms: Vec<ReleaseHistory>,
    ids: ArmIds,
}

impl PeerSnapshot for PeerReleases {
    fn entry(&self) -> &Entry {
        &self.entry
    }
}

impl PeerReleases {
    /// Reads a snapshot. `config` may be this handle's: all handles of a fleet have the same arms in it.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    pub fn read(config: &Config, id: &PeerId, from: &mut Reader) -> Result<PeerReleases> {
        let saved = Saved::read(from)?;
        ensure(saved.arms.len() == config.arms as usize + id.added.len())?;
        let version = (id.generation, saved.decisions, saved.time(), saved.releases, from.checksum());
        let mut arms = try_with_capacity(saved.arms.len())?;
        arms.extend(saved.arms.into_iter().map(|(_, _, released, _)| released));
        Ok(PeerReleases { entry: Entry { origin: id.origin, version }, arms, ids: ArmIds::of(config.arms, id.added)? })
    }

    /// Returns the releases of our arm; `added` are the ids of our added arms.
    fn arm(&self, arm: usize, added: &[u64]) -> Option<&ReleaseHistory> {
        self.arms.get(self.ids.same(arm, added)? as usize)
    }
}

impl Peers<PeerReleases> {
    /// Inserts a newer snapshot at `time` on this handle's clock. Returns its place, and what it replaces.
    pub fn insert_at(&mut self, mut peer: PeerReleases, memory: Memory, time: u64) -> (usize, Option<PeerReleases>) {
        let (then, now) = (memory.ticks(peer.entry.version.2), memory.ticks(time));
        peer.arms.iter_mut().for_each(|released| released.rebase(then, now));
        self.insert(peer)
    }

    /// Returns whether the handle at this place has new releases of our arm.
    pub fn is_changed(&self, place: usize, before: Option<&PeerReleases>, arm: usize, added: &[u64]) -> bool {
        let [now, then] = [Some(&self[place]), before].map(|peer| peer?.arm(arm, added));
        now.is_some_and(|now| !now.pairs().is_empty()) && now != then
    }

    /// What each other handle has released of one of our arms.
    pub fn released(&self, arm: usize, added: &[u64]) -> impl Iterator<Item = &ReleaseHistory> {
        self.iter().filter_map(move |peer| peer.arm(arm, added))
    }
}
