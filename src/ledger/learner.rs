//! Policies that learn from a set of releases: contributing open sums to a leader and adding them up there
//! ([`crate::contribution`]), and merging what other handles have released ([`super::peers`]). One implementation for all
//! kinds of sums and releases.

use super::facts::{Duty, Facts};
use super::peers::{AnyPeer, Peer, PeerId, PeerReleases, Peers, ReadPeer};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::memory::try_with_capacity;
use crate::snapshot::{Reader, Writer};

/// A policy's open sums, each at a place.
pub(crate) trait OpenSums {
    fn facts(&mut self) -> &mut Facts;

    /// Number of open sums, those without rewards included.
    fn places(&self) -> usize;

    fn is_empty(&self, place: usize) -> bool;

    /// Writes a sum, and whose it is.
    fn write(&self, place: usize, to: &mut Writer, id: &dyn Fn(u32) -> u64);

    /// Drops a sum.
    fn clear(&mut self, place: usize);

    /// All sums were dropped.
    fn emptied(&mut self) {}

    /// The duty has changed: sizes of open batches are others now.
    fn duty_changed(&mut self);

    /// Names the arm that was added last: its id is the last of these. From now on, what other handles release of it
    /// counts.
    fn name_arm(&mut self, added: &[u64]);

    /// Takes up a duty. Open sums stay.
    fn set_duty(&mut self, duty: Duty) {
        self.facts().set_duty(duty);
        self.duty_changed();
    }

    /// Whether any open batch has rewards.
    fn has_open(&self) -> bool {
        (0..self.places()).any(|place| !self.is_empty(place))
    }

    /// Writes the sums of all open batches, without noise, for [`Learner::combine`]. `id` names an arm.
    fn save_open(&self, to: &mut Writer, id: &dyn Fn(u32) -> u64) {
        let open = || (0..self.places()).filter(|&place| !self.is_empty(place));
        to.u32(open().count() as u32);
        open().for_each(|place| self.write(place, to, id));
    }

    /// Drops the sums of all open batches, which were contributed.
    fn clear_open(&mut self) {
        self.facts().assume_releases();
        (0..self.places()).for_each(|place| self.clear(place));
        self.emptied();
    }
}

/// A policy that learns from a set of releases, and whose open sums the leader of a fleet can release.
pub(crate) trait Learner: OpenSums {
    /// Sets the number of handles that share each batch, this one included, from the next batch on. 0: it is that of the
    /// handles whose snapshots were merged lately.
    fn set_handles(&mut self, handles: u32);

    /// Adds what another handle's [`save_open`](OpenSums::save_open) wrote, and releases batches that are full. `arm`
    /// finds an arm by its id. Returns whether everything was added.
    ///
    /// # Errors
    /// `Corrupt`, `NoMemory`: nothing has changed.
    fn combine(&mut self, from: &mut Reader, arm: &dyn Fn(u64) -> Option<u32>) -> Result<bool>;

    /// The function that reads what another handle has released, for [`merge`](Self::merge). The handle calls it without
    /// its lock.
    fn peer_reader(&self) -> ReadPeer;

    /// Learns from the releases of another handle. `added` are the ids of this handle's added arms. Returns whether
    /// there were new ones.
    ///
    /// # Errors
    /// `NoMemory`; `Full` for too many handles; `Corrupt` for the releases of another policy. Nothing has
    /// changed.
    fn merge(&mut self, peer: AnyPeer, added: &[u64]) -> Result<bool>;
}

/// What the open sums and releases of a [`Learner`] are.
pub(crate) trait Learning: OpenSums {
    /// What another handle contributes to one sum, and to which.
    type Part;
    /// The fewest bytes of a part.
    const SHORTEST: usize;
    /// What another handle has released.
    type Releases: PeerReleases;

    /// Reads what [`write`](OpenSums::write) wrote.
    ///
    /// # Errors
    /// `Corrupt`, `NoMemory`.
    fn read(&self, from: &mut Reader) -> Result<Self::Part>;

    /// Adds a part to its sum, which is released if that fills its batch. Returns false if this handle has no such sum.
    fn add(&mut self, part: &Self::Part, arm: &dyn Fn(u64) -> Option<u32>) -> bool;

    /// All parts of a contribution were added.
    fn combined(&mut self) {}

    fn peers(&mut self) -> &mut Peers<Self::Releases>;

    /// The caller has said how many handles there are.
    fn handles_changed(&mut self) {}

    /// Reads another handle's snapshot.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    fn read_peer(config: &Config, id: &PeerId, from: &mut Reader) -> Result<AnyPeer> {
        Peer::<Self::Releases>::read(config, id, from)
    }

    /// Reserves memory for a merge.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    fn reserve(&mut self) -> Result<()>;

    /// Learns from the peer at this place, which is new or has replaced `before`.
    fn join(&mut self, place: usize, before: Option<&Peer<Self::Releases>>, added: &[u64]);

    /// A snapshot was merged, whether it was newer or not.
    fn merged(&mut self) {}
}

impl<L: Learning> Learner for L {
    fn set_handles(&mut self, handles: u32) {
        self.peers().set_handles(handles);
        self.handles_changed();
    }

    fn combine(&mut self, from: &mut Reader, arm: &dyn Fn(u64) -> Option<u32>) -> Result<bool> {
        let length = from.length(L::SHORTEST)?;
        let mut parts = try_with_capacity(length)?;
        for _ in 0..length {
            parts.push(self.read(from)?);
        }
        from.finish()?;
        let mut complete = true;
        parts.iter().for_each(|part| complete &= self.add(part, arm));
        self.combined();
        Ok(complete)
    }

    fn peer_reader(&self) -> ReadPeer {
        L::read_peer
    }

    fn merge(&mut self, peer: AnyPeer, added: &[u64]) -> Result<bool> {
        let mut peer = *peer.downcast::<Peer<L::Releases>>().map_err(|_| Error::Corrupt)?;
        self.reserve()?;
        let is_newer = self.peers().is_newer(&peer)?;
        if is_newer {
            let facts = self.facts();
            facts.assume_releases();
            peer.arrive(facts);
            let (place, before) = self.peers().insert(peer);
            self.join(place, before.as_ref(), added);
        }
        self.merged();
        Ok(is_newer)
    }
}
