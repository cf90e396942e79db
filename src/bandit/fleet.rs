//! What a handle knows of its fleet: the ids of added arms, and what a fleet key needs.

use crate::config::Config;
use crate::contribution::FleetKey;
use crate::error::{Error, Result};
use crate::fleet::ArmIds;
use crate::policy::Duty;
use crate::random::Random;

/// A handle's place in its fleet.
pub(super) struct Fleet {
    /// Origin of this handle.
    pub origin: u64,
    /// Number of the configuration's arms.
    first: u32,
    /// Arms that were added; `None` without any, as in most handles.
    added: Option<Box<Added>>,
    /// What a fleet key needs, if there is one.
    pub sharing: Option<Box<Sharing>>,
}

struct Added {
    list: Vec<u64>,
    ids: ArmIds,
}

/// What a handle with a fleet key keeps for contributing and leading.
pub(super) struct Sharing {
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

impl Fleet {
    pub fn new(origin: u64, config: &Config) -> Fleet {
        Fleet { origin, first: config.arms, added: None, sharing: None }
    }

    /// The ids of the arms that were added.
    pub fn added(&self) -> &[u64] {
        self.added.as_ref().map_or(&[], |added| &added.list)
    }

    /// Reserves memory for the id of another arm.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn reserve(&mut self) -> Result<()> {
        let none = || Box::new(Added { list: Vec::new(), ids: ArmIds::configured(self.first) });
        let added = self.added.get_or_insert_with(none);
        added.list.try_reserve(1).map_err(|_| Error::NoMemory)?;
        added.ids.reserve()
    }

    /// Adds the id of a new arm, after [`reserve`](Self::reserve).
    pub fn add(&mut self, id: u64) {
        if let Some(added) = &mut self.added {
            added.ids.add(id);
            added.list.push(id);
        }
    }

    /// Takes over the origin of a snapshot, and the ids of the arms that were added.
    ///
    /// # Errors
    /// `Corrupt` if two arms have one id; `NoMemory`.
    pub fn restore(&mut self, origin: u64, list: Vec<u64>) -> Result<()> {
        self.origin = origin;
        if !list.is_empty() {
            self.added = Some(Box::new(Added { ids: ArmIds::of(self.first, &list)?, list }));
        }
        Ok(())
    }

    /// Returns the arm with this id.
    pub fn arm(&self, id: u64) -> Option<u32> {
        if id < self.first.into() { Some(id as u32) } else { self.added.as_ref()?.ids.find(id) }
    }

    /// Returns an arm's id.
    pub fn id(&self, arm: u32) -> u64 {
        self.added.as_ref().map_or(arm.into(), |added| added.ids.id(arm, &added.list))
    }

    /// Returns an id for an arm without one from the caller. No other handle has it.
    pub fn any_id(&self) -> u64 {
        let mut id = self.origin.wrapping_add(self.added().len() as u64) | 1 << 63;
        while self.arm(id).is_some() {
            id = id.wrapping_add(1) | 1 << 63;
        }
        id
    }
}
