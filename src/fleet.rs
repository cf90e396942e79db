//! Many handles, one bandit: what the others have released.
//!
//! A policy of the batch engine learns from a *set* of released pairs. A handle's snapshot holds its own; a handle
//! that merges the snapshots of others learns from all. Only noised sums of complete batches ever leave a handle.
//!
//! # Privacy
//!
//! Each reward is answered at one handle, and so in one batch of one handle. A batch's size, and every action, is a
//! function of releases, of this handle's and of those that it has merged, coins and public data. So Theorem P of
//! [`crate::privacy`], with the releases of all handles in the order in which they were made, holds for the transcript
//! of the whole fleet, with the same epsilon. Whoever writes false snapshots writes false releases: learning suffers,
//! the proof does not.
//!
//! # A join
//!
//! A handle has an *origin*, a random number that its snapshots carry over its lives, and each snapshot a version:
//! lives, decisions, releases, and for two that claim to be the same its checksum. What is known of an origin is its
//! newest snapshot. So merging is idempotent, commutative and associative, a replayed or an older snapshot changes
//! nothing, and all handles that have seen the same snapshots know the same. (Only with a memory the age of a release
//! counts from when its snapshot came.) Two handles that go on from one snapshot are one origin: nothing is counted
//! twice, but the others learn from one of them at a time.
//!
//! # Memory
//!
//! Twelve pairs for each arm of each other handle, 200 bytes, and at most 1024 of these. The policy gets all of an
//! arm's joined to twelve, and has so 24 with its own.

use crate::error::{Error, Result};
use crate::policy::{Memory, Released, Saved};
use crate::table::room;

/// What a handle knows of the others.
pub(crate) struct Fleet {
    /// This handle's own.
    pub origin: u64,
    /// The arms of the configuration, which have their numbers as ids.
    first: u32,
    /// The ids of those that were added.
    pub added: Vec<u64>,
    /// By origin.
    others: Vec<Other>,
    /// Snapshots that were news.
    news: u64,
}

/// Another handle, as its newest snapshot shows it.
pub(crate) struct Other {
    origin: u64,
    version: Version,
    /// Of the arms that were added: id and place, by id.
    added: Vec<(u64, u32)>,
    arms: Vec<Released>,
    /// The news that it brought last.
    news: u64,
}

/// Lives, decisions, releases, checksum.
type Version = (u32, u64, u32, u32);

impl Other {
    /// A snapshot's, with its times on our clock.
    pub fn new(
        origin: u64,
        lives: u32,
        checksum: u32,
        ids: &[u64],
        saved: Saved,
        memory: Memory,
        now: u32,
    ) -> Result<Other> {
        let version = (lives, saved.decisions, saved.releases, checksum);
        let first = saved.arms.len() - ids.len();
        let mut added = room(ids.len())?;
        added.extend(ids.iter().zip(first as u32..).map(|(&id, place)| (id, place)));
        added.sort_unstable();
        let mut arms = room(saved.arms.len())?;
        let then = memory.ticks(saved.decisions);
        arms.extend(saved.arms.into_iter().map(|(_, _, mut released)| {
            released.rebase(then, now);
            released
        }));
        Ok(Other { origin, version, added, arms, news: 0 })
    }

    /// What it has released of the arm with this id.
    fn arm(&self, id: u64) -> Option<&Released> {
        let first = self.arms.len() - self.added.len();
        let place = if id < first as u64 {
            id as usize
        } else {
            self.added[self.added.binary_search_by_key(&id, |&(id, _)| id).ok()?].1 as usize
        };
        self.arms.get(place)
    }
}

impl Fleet {
    /// Other handles, at most.
    const MOST: usize = 1024;

    pub fn new(origin: u64, first: u32) -> Fleet {
        Fleet { origin, first, added: Vec::new(), others: Vec::new(), news: 0 }
    }

    /// An arm's id.
    fn id(&self, arm: u32) -> u64 {
        match arm.checked_sub(self.first) {
            None => arm.into(),
            Some(place) => self.added[place as usize],
        }
    }

    /// The arm with this id.
    pub fn find(&self, id: u64) -> Option<u32> {
        let place = || self.added.iter().position(|&added| added == id);
        if id < self.first.into() { Some(id as u32) } else { place().map(|place| self.first + place as u32) }
    }

    /// An id for an arm that has none of its caller's: no other handle has it.
    pub fn any_id(&self) -> u64 {
        self.origin.wrapping_add(self.added.len() as u64) | 1 << 63
    }

    /// Has any other handle been merged?
    pub fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Is this news? Then there is room for it.
    ///
    /// # Errors
    /// `NoMemory`; `InvalidConfig` for too many handles. Nothing has changed.
    pub fn expects(&mut self, other: &Other) -> Result<bool> {
        if other.origin == self.origin {
            return Ok(false);
        }
        let known = self.others.binary_search_by_key(&other.origin, |known| known.origin);
        if known.is_err() && self.others.len() == Self::MOST {
            return Err(Error::config("handles", "must be at most 1024 beside this one", Self::MOST + 1));
        }
        self.others.try_reserve(1).map_err(|_| Error::NoMemory)?;
        Ok(known.map_or(true, |place| other.version > self.others[place].version))
    }

    /// Takes news, and calls `changed` for each of our arms of which it has some.
    pub fn take(&mut self, mut other: Other, arms: u32, mut changed: impl FnMut(&Fleet, u32)) {
        self.news += 1;
        other.news = self.news;
        let origin = other.origin;
        let place = self.others.binary_search_by_key(&origin, |known| known.origin);
        let before = match place {
            Ok(place) => Some(std::mem::replace(&mut self.others[place], other)),
            Err(place) => {
                self.others.insert(place, other);
                None
            }
        };
        let (Ok(place) | Err(place)) = place;
        for arm in 0..arms {
            let id = self.id(arm);
            let (now, then) = (self.others[place].arm(id), before.as_ref().and_then(|before| before.arm(id)));
            if now.is_some_and(|now| !now.pairs().is_empty()) && now != then {
                changed(self, arm);
            }
        }
    }

    /// All that others have released of one of our arms.
    pub fn released(&self, arm: u32, memory: Memory, now: u32) -> Released {
        let id = self.id(arm);
        let pairs = self.others.iter().filter_map(|other| other.arm(id)).flat_map(|released| released.pairs());
        Released::gather(pairs.copied(), memory, now)
    }

    /// Other handles at work: those that had news while all together had some three each.
    pub fn at_work(&self) -> u32 {
        let least = self.news.saturating_sub(3 * self.others.len() as u64);
        self.others.iter().filter(|other| other.news > least).count() as u32
    }
}
