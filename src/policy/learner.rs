//! Policies that learn from a set of releases: contributing open sums to a leader and adding them up there
//! ([`crate::contribution`]), merging what other handles have released ([`crate::ledger::peers`]), and arms that come and
//! go. One implementation for all kinds of sums and releases.

use super::contract::{ArmState, Policy, Pull};
use super::prior::Prior;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::cells::{Ledger, OpenSum, Place, SumId};
use crate::ledger::facts::{Duty, Facts, SavedFacts};
use crate::ledger::keys;
use crate::ledger::peers::{AnyPeer, Peer, PeerId, ReadPeer};
use crate::moving::{Archive, Persist};
use crate::request::Catalog;
use crate::snapshot::{Reader, Writer, ensure};

/// What a policy writes to learn from a set of releases. All of them get [`AnyLearner`].
pub(crate) trait Learner: Policy {
    /// The open sum of a cell.
    type Sum: OpenSum;
    /// What another handle has released.
    type Releases: 'static;

    fn ledger(&mut self) -> &mut Ledger<Self::Sum, Self::Releases>;

    /// The row and the arm of a pull.
    fn cell(&self, pull: Pull) -> (usize, usize) {
        (0, pull.arm() as usize)
    }

    /// The public state of an arm in a row.
    fn arm_in(&self, _row: usize, arm: u32) -> ArmState {
        self.arm(arm)
    }

    /// Follows a change that has happened.
    fn changed(&mut self, change: Change<Self::Releases>);

    /// Makes what the policy has of one more arm, or of other handles.
    ///
    /// # Errors
    /// `InvalidConfig`, `NoMemory`: nothing has changed.
    fn grow(&mut self, by: Growth) -> Result<()>;

    /// Reads the part of another handle's snapshot that [`Policy::snapshot`] writes after [`Ledger::persist`].
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    fn read_peer(head: &PeerHead, from: &mut Reader) -> Result<Self::Releases>;
}

/// The first part of another handle's snapshot, which is the same for all policies.
pub(crate) struct PeerHead<'a> {
    /// It may be this handle's: all handles of a fleet have the same arms in it.
    pub config: &'a Config,
    /// Number of arms, with those that were added.
    pub arms: usize,
    pub facts: SavedFacts,
    /// The keys of its segments.
    pub keys: &'a [u64],
}

/// What a policy is to have memory for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Growth {
    Arm,
    Peers,
}

/// What has changed, in which a plan may have to follow.
pub(crate) enum Change<'a, R> {
    /// The last arm is new, and so is what the policy has [made](Learner::grow) of it. What other handles have released of
    /// it counts from now on.
    Added,
    /// This arm is retired. Rewards of its pending decisions still arrive.
    Retired(usize),
    /// Public data give this arm a prior, which replaces an earlier one.
    Prior(usize, Prior),
    /// There is a new key: a row of cells is to be added.
    Row,
    /// This batch is full: it is to be released, and the next one to be opened.
    Full(Place),
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
    /// The peer at this place is new, or has replaced `before`.
    Joined { peer: usize, before: Option<&'a Peer<R>> },
    /// A snapshot was merged, whether it was newer or not.
    Merged,
}

/// A [`Learner`] of any kind.
pub(crate) trait AnyLearner {
    fn facts(&mut self) -> &mut Facts;

    /// What requests may name.
    fn catalog(&mut self) -> Catalog<'_>;

    /// The arm of a pull.
    fn arm_of(&self, pull: Pull) -> u32;

    /// Takes back an earlier pull, learned from or not, which then counts as not made in its row. Returns its arm.
    fn unplay(&mut self, pull: Pull) -> u32;

    /// The row of this segment, which is added if it is new; `None` if there is no memory for it.
    fn row(&mut self, key: u64) -> Option<usize>;

    /// The public state of an arm in a segment, and the number of its pulls there.
    ///
    /// # Errors
    /// `InvalidRequest` if there is no such segment.
    fn arm_in_segment(&mut self, segment: u64, arm: u32) -> Result<(ArmState, u64)>;

    /// Adds an arm, with the next number and this id, which no other arm has. May allocate.
    ///
    /// # Errors
    /// `InvalidConfig`, `NoMemory`: nothing has changed.
    fn add_arm(&mut self, id: u64) -> Result<()>;

    /// Retires this arm, which is live and not the last live one. It is not pulled again.
    fn retire_arm(&mut self, arm: u32);

    /// Sets the prior of an arm, where the policy [has](crate::Algorithm) priors.
    fn set_prior(&mut self, arm: u32, prior: Prior);

    /// Moves what a snapshot has: the segments and how often each arm was pulled in each, without these pending pulls; then
    /// what [`Policy::snapshot`] moves. It is read into a new policy.
    ///
    /// # Errors
    /// `InvalidConfig` if there are more segments than there may be; `Corrupt`; `NoMemory`.
    fn persist_public(&mut self, with: &mut Archive, pending: &mut dyn Iterator<Item = Pull>) -> Result<()>;

    /// Moves the same, with all pulls, then the open sums and the policy's own variables.
    ///
    /// # Errors
    /// As [`persist_public`](Self::persist_public).
    fn persist_all(&mut self, with: &mut Archive) -> Result<()>;

    /// Takes up a duty. Open sums stay.
    fn set_duty(&mut self, duty: Duty);

    /// Whether any open batch has rewards.
    fn has_open(&mut self) -> bool;

    /// As [`Ledger::write_open`], for [`combine`](Self::combine).
    ///
    /// # Errors
    /// As there.
    fn write_open(&mut self, to: &mut Writer) -> Result<()>;

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

    fn catalog(&mut self) -> Catalog<'_> {
        let Ledger { roster, keys, cells, .. } = self.ledger();
        let segments = cells.capacity() as u32 - 1;
        Catalog { arms: Some(roster), segments: (segments > 0).then_some((keys, segments)) }
    }

    fn arm_of(&self, pull: Pull) -> u32 {
        self.cell(pull).1 as u32
    }

    fn unplay(&mut self, pull: Pull) -> u32 {
        let (row, arm) = self.cell(pull);
        let pulls = self.ledger().cells.get_mut(row, arm).and_then(OpenSum::pulls);
        pulls.into_iter().for_each(|pulls| *pulls -= 1);
        arm as u32
    }

    fn row(&mut self, key: u64) -> Option<usize> {
        let Ledger { keys, cells, .. } = self.ledger();
        if let Some(place) = keys.find(key) {
            return Some(place + 1);
        }
        let row = cells.rows();
        if row == cells.capacity() {
            return None;
        }
        keys.push(key);
        self.changed(Change::Row);
        Some(row)
    }

    fn arm_in_segment(&mut self, segment: u64, arm: u32) -> Result<(ArmState, u64)> {
        let Ledger { keys, cells, .. } = self.ledger();
        let known = || Error::request("segment", "must be the key of an earlier request", segment);
        let row = keys.find(segment).ok_or_else(known)? + 1;
        let pulls = cells[(row, arm as usize)].pulls().map_or(0, |pulls| *pulls);
        Ok((self.arm_in(row, arm), pulls))
    }

    fn add_arm(&mut self, id: u64) -> Result<()> {
        self.ledger().roster.reserve()?;
        self.grow(Growth::Arm)?;
        self.ledger().roster.add(id);
        self.changed(Change::Added);
        Ok(())
    }

    fn retire_arm(&mut self, arm: u32) {
        self.ledger().roster.retire(arm as usize);
        self.changed(Change::Retired(arm as usize));
    }

    fn set_prior(&mut self, arm: u32, prior: Prior) {
        self.facts().time.learn();
        self.changed(Change::Prior(arm as usize, prior));
    }

    fn persist_public(&mut self, with: &mut Archive, pending: &mut dyn Iterator<Item = Pull>) -> Result<()> {
        match with {
            Archive::Out(to) => save_pulls(self, to, pending),
            Archive::In(from) => load_pulls(self, from)?,
        }
        self.snapshot(with)
    }

    fn persist_all(&mut self, with: &mut Archive) -> Result<()> {
        self.persist_public(with, &mut std::iter::empty())?;
        self.ledger().cells.persist(with)?;
        self.persist(with)
    }

    fn set_duty(&mut self, duty: Duty) {
        self.facts().set_duty(duty);
        self.changed(Change::Duty);
    }

    fn has_open(&mut self) -> bool {
        self.ledger().open().next().is_some()
    }

    fn write_open(&mut self, to: &mut Writer) -> Result<()> {
        self.ledger().write_open(to)
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
        let (mut parts, fits) = self.ledger().read(from)?;
        from.finish()?;
        let mut complete = fits;
        // They stay where they are: the memory of a sum that is moved is not wiped.
        for (id, part) in parts.iter_mut().filter(|_| fits) {
            let Some(place) = find(self, id) else {
                complete = false;
                continue;
            };
            self.changed(Change::Wanted(place));
            let sum = self.ledger().sum_mut(place);
            let (added, full) = sum.map_or((false, false), |sum| (sum.add(part), sum.is_full()));
            complete &= added;
            if full {
                self.changed(Change::Full(place));
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
        self.grow(Growth::Peers)?;
        let Ledger { facts, peers, .. } = self.ledger();
        let is_newer = peers.is_newer(&peer)?;
        if is_newer {
            facts.assume_releases();
            peer.merged = facts.now();
            let (place, before) = peers.insert(peer);
            facts.active = peers.active();
            self.changed(Change::Joined { peer: place, before: before.as_ref() });
        }
        self.changed(Change::Merged);
        Ok(is_newer)
    }
}

/// The place of another handle's sum, if there is one here. While one sum collects all rewards there is no other place.
fn find<L: Learner>(learner: &mut L, id: &SumId) -> Option<Place> {
    let whole = learner.ledger().whole.as_ref().map(|sum| sum.is_of_all());
    match (id.is_whole, whole) {
        (true, Some(_)) => return Some(Place::Whole),
        (true, None) | (false, Some(true)) => return None,
        (false, _) => (),
    }
    let row = if id.has_key { learner.row(id.key)? } else { 0 };
    Some(Place::Cell(row, learner.ledger().roster.find(id.arm)?))
}

/// Reads another handle's snapshot.
fn read_peer<L: Learner>(config: &Config, id: &PeerId, from: &mut Reader) -> Result<AnyPeer> {
    let (keys, arms) = (&keys::read(from)?[..], config.arms as usize + id.added.len());
    (0..keys.len() * arms).try_for_each(|_| from.count().map(drop))?; // pulls
    let (mut facts, with) = (SavedFacts::NOTHING, &mut Archive::In(from));
    facts.persist(with)?;
    with.arms(arms)?;
    (0..arms).try_for_each(|_| true.persist(with))?; // each handle retires its own arms
    let head = PeerHead { config, arms, facts, keys };
    let releases = L::read_peer(&head, from)?;
    Ok(Box::new(Peer::new(releases, &facts, id, config.arms, from.checksum())?))
}

fn save_pulls<L: Learner>(learner: &mut L, to: &mut Writer, pending: &mut dyn Iterator<Item = Pull>) {
    let Ledger { keys, cells, .. } = learner.ledger();
    to.u32(keys.len() as u32);
    to.u64s(keys.iter().copied());
    let (rows, arms) = (cells.rows(), cells.arms());
    let pulls = |place| cells[(place / arms, place % arms)].pulls().map_or(0, |pulls| *pulls);
    let counts = to.counts((arms..rows * arms).map(pulls));
    let cells = pending.map(|pull| learner.cell(pull)).filter(|&(row, _)| row > 0);
    cells.for_each(|(row, arm)| to.uncount(counts, (row - 1) * arms + arm));
}

fn load_pulls<L: Learner>(learner: &mut L, from: &mut Reader) -> Result<()> {
    let (keys, most) = (keys::read(from)?, learner.ledger().cells.capacity() - 1);
    if keys.len() > most {
        let rule = format!("must be at least {}, as in the snapshot", keys.len());
        return Err(Error::config("max_segments", &rule, most));
    }
    for (place, key) in keys.into_iter().enumerate() {
        ensure(learner.row(key) == Some(place + 1))?;
    }
    let cells = &mut learner.ledger().cells;
    for place in cells.arms()..cells.rows() * cells.arms() {
        let read = from.count()?;
        let cell = (place / cells.arms(), place % cells.arms());
        cells[cell].pulls().into_iter().for_each(|pulls| *pulls = read);
    }
    Ok(())
}
