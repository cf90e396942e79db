//! Many handles, one bandit: what the others have released.
//!
//! A policy of the batch engine learns from a *set* of released pairs. A handle's snapshot holds its own; a handle
//! that merges the snapshots of others learns from all. Only noised sums of complete batches ever leave a handle. Segments
//! and dp-linear do likewise, by the same roster of others: see `policy/segments/peers.rs` and
//! `policy/linear/contextual.rs`.
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
//! lives, decisions, time, releases, and for two that claim to be the same its checksum. What is known of an origin is its
//! newest snapshot. So merging is idempotent, commutative and associative, a replayed or an older snapshot changes
//! nothing.
//!
//! Handles that know the same releases read the same, **to the last bit**: means, widths, counts and indices, in whatever
//! order they have merged, and whichever of the releases are their own. Every origin keeps its own releases by its own
//! history alone, and what several origins keep is joined by sums that are exact
//! (`Joined` in `policy/batched/released.rs`). Three things are no part of that knowledge:
//! - Priors ([`Bandit::set_prior`](crate::Bandit::set_prior)) are a handle's own.
//! - With a memory a release's age counts on the clock of the handle that made it until its snapshot is taken, and from
//!   when that comes on the clock of the handle that merges it: in decisions, or in what each is told by
//!   [`advance`](crate::Bandit::advance). The two clocks need not show the same time. So handles agree while no clock moves between: all have
//!   taken their last snapshot before they merge, and none decides after. A handle also forgets by itself what a
//!   release of its own contradicts.
//! - An interval of [`Bandit::compare`](crate::Bandit::compare) pays for how often its handle has merged. Handles that
//!   have merged as often give the same.
//!
//! Two handles that go on from one snapshot are one origin: nothing is counted twice, but the others learn from one of
//! them at a time.
//!
//! # Memory
//!
//! At most 1024 others. A bandit keeps twelve pairs for each arm of each of them, some 230 bytes. The policy has all of
//! an arm's joined to twelve, 420 bytes more.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::key_index::KeyIndex;
use crate::memory::try_with_capacity;
use crate::policy::{Memory, ReleaseHistory, Saved};

/// Of whom a handle knows something, and how new that is.
pub(crate) struct Roster {
    /// By origin.
    others: Vec<Entry>,
    /// Snapshots that were news.
    news: u64,
}

/// Whose a snapshot is, and which one.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub origin: u64,
    /// Lives, decisions, time, releases, checksum.
    pub version: (u32, u64, u64, u32, u32),
    /// The news that it was.
    news: u64,
}

/// The place of another in the order of origins: of one that is known, or of one to come.
pub(crate) type Place = std::result::Result<usize, usize>;

impl Entry {
    pub fn new(origin: u64, version: (u32, u64, u64, u32, u32)) -> Entry {
        Entry { origin, version, news: 0 }
    }
}

impl Roster {
    /// Other handles, at most.
    pub const MOST: usize = 1024;

    pub const fn new() -> Roster {
        Roster { others: Vec::new(), news: 0 }
    }

    fn find(&self, origin: u64) -> Place {
        self.others.binary_search_by_key(&origin, |known| known.origin)
    }

    /// Is this news? Then there is room for it.
    ///
    /// # Errors
    /// `NoMemory`; `InvalidConfig` for too many handles. Nothing has changed.
    pub fn expects(&mut self, entry: &Entry) -> Result<bool> {
        let known = self.find(entry.origin);
        if known.is_err() && self.others.len() == Self::MOST {
            return Err(Error::config("handles", "must be at most 1024 beside this one", Self::MOST + 1));
        }
        self.others.try_reserve(1).map_err(|_| Error::NoMemory)?;
        Ok(known.map_or(true, |place| entry.version > self.others[place].version))
    }

    /// Takes news, where there is room.
    pub fn take(&mut self, mut entry: Entry) -> Place {
        self.news += 1;
        entry.news = self.news;
        let place = self.find(entry.origin);
        match place {
            Ok(place) => self.others[place] = entry,
            Err(place) => self.others.insert(place, entry),
        }
        place
    }

    /// Other handles at work: those that had news while all together had some three each.
    pub fn at_work(&self) -> u32 {
        let least = self.news.saturating_sub(3 * self.others.len() as u64);
        self.others.iter().filter(|other| other.news > least).count() as u32
    }
}

/// Puts what is known of another in its place: what was known before.
pub(crate) fn put<T>(others: &mut Vec<T>, place: Place, other: T) -> Option<T> {
    match place {
        Ok(place) => Some(std::mem::replace(&mut others[place], other)),
        Err(place) => {
            others.insert(place, other);
            None
        }
    }
}

/// What a handle knows of the others.
pub(crate) struct Fleet {
    /// This handle's own.
    pub origin: u64,
    /// Where arms were added, or others merged: few have that.
    joined: Option<Box<Joined>>,
}

struct Joined {
    /// The arms of the configuration, which have their numbers as ids.
    first: u32,
    memory: Memory,
    /// The ids of the arms that were added.
    added: Vec<u64>,
    places: KeyIndex,
    roster: Roster,
    /// As in the roster.
    others: Vec<PeerReleases>,
}

impl Joined {
    const fn new(first: u32, memory: u64) -> Joined {
        let memory = Memory::new(memory);
        let roster = Roster::new();
        Joined { first, memory, added: Vec::new(), places: KeyIndex::NONE, roster, others: Vec::new() }
    }

    fn of(config: &Config) -> Joined {
        Joined::new(config.arms, config.forget_after)
    }
}

/// Another handle, as its newest snapshot shows it.
pub(crate) struct PeerReleases {
    pub entry: Entry,
    arms: Vec<ReleaseHistory>,
    /// Those of them that were added are the last.
    added: KeyIndex,
}

impl PeerReleases {
    /// A snapshot's, and the ids of the arms that were added there.
    ///
    /// # Errors
    /// `Corrupt` where two arms have one id; `NoMemory`.
    pub fn new(origin: u64, lives: u32, checksum: u32, ids: &[u64], saved: Saved) -> Result<PeerReleases> {
        let entry = Entry::new(origin, (lives, saved.decisions, saved.time(), saved.releases, checksum));
        let added = KeyIndex::of(ids, 0)?;
        let mut arms = try_with_capacity(saved.arms.len())?;
        arms.extend(saved.arms.into_iter().map(|(_, _, released, _)| released));
        Ok(PeerReleases { entry, arms, added })
    }

    /// What it has released of the arm with this id.
    fn arm(&self, id: u64) -> Option<&ReleaseHistory> {
        let first = self.arms.len() - self.added.len();
        let place = if id < first as u64 { id as usize } else { first + self.added.find(id)? };
        self.arms.get(place)
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

    /// The ids of the arms that were added.
    pub fn added(&self) -> &[u64] {
        &self.joined().added
    }

    /// Room for the id of one arm more.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn reserve(&mut self, config: &Config) -> Result<()> {
        let joined = self.join(config);
        joined.added.try_reserve(1).map_err(|_| Error::NoMemory)?;
        joined.places.reserve()
    }

    /// One arm more, after [`reserve`](Self::reserve).
    pub fn add(&mut self, id: u64) {
        if let Some(joined) = &mut self.joined {
            joined.places.insert(id);
            joined.added.push(id);
        }
    }

    /// As a snapshot has it: its origin, and the ids of the arms that were added.
    ///
    /// # Errors
    /// `Corrupt` where two have one id; `NoMemory`.
    pub fn restore(&mut self, origin: u64, added: Vec<u64>, config: &Config) -> Result<()> {
        self.origin = origin;
        if !added.is_empty() {
            let places = KeyIndex::of(&added, 0)?;
            self.joined = Some(Box::new(Joined { added, places, ..Joined::of(config) }));
        }
        Ok(())
    }

    /// An arm's id.
    fn id(&self, arm: u32) -> u64 {
        let Joined { first, added, .. } = self.joined();
        match arm.checked_sub(*first) {
            None => arm.into(),
            Some(place) => added[place as usize],
        }
    }

    /// The added arm with this id.
    pub fn find(&self, id: u64) -> Option<u32> {
        let Joined { first, places, .. } = self.joined();
        Some(first + places.find(id)? as u32)
    }

    /// An id for an arm that has none of its caller's: no other handle has it.
    pub fn any_id(&self) -> u64 {
        let mut id = self.origin.wrapping_add(self.added().len() as u64) | 1 << 63;
        while self.joined().places.find(id).is_some() {
            id = id.wrapping_add(1) | 1 << 63;
        }
        id
    }

    /// Snapshots that were news.
    pub fn news(&self) -> u64 {
        self.joined().roster.news
    }

    /// As [`Roster::at_work`].
    pub fn at_work(&self) -> u32 {
        self.joined().roster.at_work()
    }

    /// Has any other handle been merged?
    pub fn has_others(&self) -> bool {
        !self.joined().others.is_empty()
    }

    /// Is this news? Then there is room for it.
    ///
    /// # Errors
    /// As [`Roster::expects`].
    pub fn expects(&mut self, other: &PeerReleases, config: &Config) -> Result<bool> {
        if other.entry.origin == self.origin {
            return Ok(false);
        }
        let joined = self.join(config);
        joined.others.try_reserve(1).map_err(|_| Error::NoMemory)?;
        joined.roster.expects(&other.entry)
    }

    /// Takes news at this time of ours, and calls `changed` for each of our arms of which it has some.
    pub fn take(&mut self, mut other: PeerReleases, arms: u32, time: u64, mut changed: impl FnMut(&Fleet, u32)) {
        let Some(joined) = &mut self.joined else { return }; // `expects` has made it
        let (then, now) = (joined.memory.ticks(other.entry.version.2), joined.memory.ticks(time));
        other.arms.iter_mut().for_each(|released| released.rebase(then, now));
        let place = joined.roster.take(other.entry);
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
