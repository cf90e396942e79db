//! Policies that learn from a set of releases: contributing open sums to a leader and adding them up there
//! ([`crate::contribution`]), and merging what other handles have released ([`super::peers`]). One implementation for all
//! kinds of sums and releases.

use super::cells::{Ledger, OpenSum, Place, SumId};
use super::facts::{Duty, Facts};
use super::peers::{AnyPeer, Peer, PeerId, PeerReleases, ReadPeer};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::snapshot::{Reader, Writer};

/// What a policy writes to learn from a set of releases. All of them get [`AnyLearner`].
pub(crate) trait Learner {
    /// The open sum of a cell.
    type Sum: OpenSum;
    /// What another handle has released.
    type Releases: PeerReleases;
    /// Bytes of each arm at the end of a snapshot that are of its own handle alone.
    const PLANNED: usize = 0;

    fn ledger(&mut self) -> &mut Ledger<Self::Sum, Self::Releases>;

    /// The row with this key, which is added if it is new; `None` if there is no memory for it.
    fn row(&mut self, _key: u64) -> Option<usize> {
        None
    }

    /// Releases a full batch, and opens the next.
    fn release(&mut self, place: Place);

    /// Follows a change that has happened.
    fn changed(&mut self, change: Change);

    /// Reserves memory for a merge.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    fn reserve(&mut self) -> Result<()>;

    /// Learns from the peer at this place, which is new or has replaced `before`.
    fn join(&mut self, peer: usize, before: Option<&Peer<Self::Releases>>);
}

/// What has changed, in which a plan may have to follow.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// The duty: sizes of open batches are others now. What they have collected stays.
    Duty,
    /// This sum is to get what another handle contributes.
    Wanted(Place),
    /// The rewards of this sum were contributed.
    Contributed(Place),
    /// All sums were contributed.
    Emptied,
    /// All of a contribution was added.
    Combined,
    /// A snapshot was merged, whether it was newer or not.
    Merged,
}

/// A [`Learner`] of any kind.
pub(crate) trait AnyLearner {
    fn facts(&mut self) -> &mut Facts;

    /// Takes up a duty. Open sums stay.
    fn set_duty(&mut self, duty: Duty);

    /// Sets the number of handles that share each batch, this one included, from the next batch on. 0: it is that of the
    /// handles whose snapshots were merged lately.
    fn set_handles(&mut self, handles: u32);

    /// Whether any open batch has rewards.
    fn has_open(&mut self) -> bool;

    /// Writes the sums of all open batches, without noise, for [`combine`](Self::combine).
    fn write_open(&mut self, to: &mut Writer);

    /// Drops the sums of all open batches, which were contributed.
    fn clear_open(&mut self);

    /// Adds what another handle's [`write_open`](Self::write_open) wrote, and releases batches that are full. Returns
    /// whether everything was added.
    ///
    /// # Errors
    /// `Corrupt`, `NoMemory`: nothing has changed.
    fn combine(&mut self, from: &mut Reader) -> Result<bool>;

    /// The function that reads what another handle has released, for [`merge`](Self::merge). The handle calls it without
    /// its lock.
    fn peer_reader(&self) -> ReadPeer;

    /// Learns from the releases of another handle. Returns whether there were new ones.
    ///
    /// # Errors
    /// `NoMemory`; `Full` for too many handles; `Corrupt` for the releases of another policy. Nothing has
    /// changed.
    fn merge(&mut self, peer: AnyPeer) -> Result<bool>;
}

impl<L: Learner> AnyLearner for L {
    fn facts(&mut self) -> &mut Facts {
        &mut self.ledger().facts
    }

    fn set_duty(&mut self, duty: Duty) {
        self.facts().set_duty(duty);
        self.changed(Change::Duty);
    }

    fn set_handles(&mut self, handles: u32) {
        let Ledger { facts, peers, .. } = self.ledger();
        (facts.stated, facts.active) = (handles, peers.active());
    }

    fn has_open(&mut self) -> bool {
        self.ledger().open().next().is_some()
    }

    fn write_open(&mut self, to: &mut Writer) {
        self.ledger().write_open(to);
    }

    fn clear_open(&mut self) {
        self.facts().assume_releases();
        for place in self.ledger().places() {
            let ledger = self.ledger();
            if ledger.sum_mut(place).is_some_and(OpenSum::clear) {
                self.changed(Change::Contributed(place));
            }
        }
        self.changed(Change::Emptied);
    }

    fn combine(&mut self, from: &mut Reader) -> Result<bool> {
        let parts = self.ledger().read(from)?;
        from.finish()?;
        let mut complete = true;
        for (id, part) in &parts {
            let Some(place) = find(self, id) else {
                complete = false;
                continue;
            };
            self.changed(Change::Wanted(place));
            let sum = self.ledger().sum_mut(place);
            let (added, full) = sum.map_or((false, false), |sum| (sum.add(part), sum.is_full()));
            complete &= added;
            if full {
                self.release(place);
            }
        }
        self.changed(Change::Combined);
        Ok(complete)
    }

    fn peer_reader(&self) -> ReadPeer {
        read_peer::<L>
    }

    fn merge(&mut self, peer: AnyPeer) -> Result<bool> {
        let mut peer = *peer.downcast::<Peer<L::Releases>>().map_err(|_| Error::Corrupt)?;
        self.reserve()?;
        let Ledger { facts, peers, .. } = self.ledger();
        let is_newer = peers.is_newer(&peer)?;
        if is_newer {
            facts.assume_releases();
            peer.arrive(facts);
            let (place, before) = peers.insert(peer);
            facts.active = peers.active();
            self.join(place, before.as_ref());
        }
        self.changed(Change::Merged);
        Ok(is_newer)
    }
}

/// The place of another handle's sum, if there is one here. While one sum collects all rewards there is no other.
fn find<L: Learner>(learner: &mut L, id: &SumId) -> Option<Place> {
    if learner.ledger().whole.is_some() != id.is_whole {
        return None;
    }
    if id.is_whole {
        return Some(Place::Whole);
    }
    let row = id.row.map_or(Some(0), |key| learner.row(key))?;
    Some(Place::Cell(row, learner.ledger().roster.find(id.arm)?))
}

/// Reads another handle's snapshot.
fn read_peer<L: Learner>(config: &Config, id: &PeerId, from: &mut Reader) -> Result<AnyPeer> {
    let peer = Peer::<L::Releases>::read(config, id, from)?;
    let bytes = L::PLANNED * (config.arms as usize + id.added.len());
    (0..bytes).try_for_each(|_| from.u8().map(drop))?;
    Ok(peer)
}
