//! What a handle knows of its fleet: the ids of added arms, and what a fleet key needs.

use crate::config::Config;
use crate::contribution::{Address, FleetKey};
use crate::error::{Error, Result};
use crate::ledger::facts::Duty;
use crate::ledger::peers::ArmIds;
use crate::random::Random;

/// A handle's place in its fleet.
pub(super) struct Fleet {
    /// Origin of this handle.
    pub origin: u64,
    /// Added arms and what a fleet key needs; `None` without both, as in most handles.
    extras: Option<Box<FleetExtras>>,
}

struct FleetExtras {
    /// The ids of the arms that were added.
    added: Vec<u64>,
    ids: ArmIds,
    sharing: Option<Sharing>,
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

    /// A new generation to lead, to which nothing has been addressed.
    pub fn new_generation(&mut self) -> u64 {
        self.senders = Vec::new();
        self.random.next_u64().max(1)
    }

    /// Becomes a new sender, whose contributions are numbered from 1.
    pub fn renew_sender(&mut self) {
        let [high, low] = [(); 2].map(|()| u128::from(self.random.next_u64()));
        self.sender = high << 64 | low;
        self.sequence = 0;
    }

    /// The address of the next contribution.
    pub fn next_address(&self, generation: u64) -> Address {
        Address { generation, sender: self.sender, sequence: self.sequence + 1 }
    }

    /// Checks that a contribution with this address is to be combined here, and has not been. Memory for
    /// [`accept`](Self::accept) is then reserved.
    ///
    /// # Errors
    /// `Expired`, `Duplicate`, `Full`, `NoMemory`.
    pub fn check(&mut self, address: &Address) -> Result<()> {
        if self.led() == 0 || address.generation != self.led() {
            return Err(Error::Expired);
        }
        match self.find(address.sender) {
            Ok(place) if address.sequence <= self.senders[place].1 => Err(Error::Duplicate),
            Ok(_) => Ok(()),
            Err(_) if self.senders.len() == Self::MOST_SENDERS => {
                let most = Self::MOST_SENDERS as u64;
                Err(Error::Full { what: "contributor", number: most + 1, limit: "the maximum", most })
            }
            Err(_) => self.senders.try_reserve(1).map_err(|_| Error::NoMemory),
        }
    }

    /// Counts a contribution that was combined, `complete` or in part, and refuses it from now on.
    pub fn accept(&mut self, address: &Address, complete: bool) {
        let mut last = 0;
        match self.find(address.sender) {
            Ok(place) => last = std::mem::replace(&mut self.senders[place].1, address.sequence),
            Err(place) => self.senders.insert(place, (address.sender, address.sequence)),
        }
        self.accepted += 1;
        self.lost += address.sequence.saturating_sub(last + 1) + u64::from(!complete);
    }

    /// The place of a contributor in the list, or the place where it belongs.
    fn find(&self, sender: u128) -> std::result::Result<usize, usize> {
        self.senders.binary_search_by_key(&sender, |&(sender, _)| sender)
    }
}

impl Fleet {
    pub fn new(origin: u64) -> Fleet {
        Fleet { origin, extras: None }
    }

    fn extras_mut(&mut self, config: &Config) -> &mut FleetExtras {
        let none = || FleetExtras { added: Vec::new(), ids: ArmIds::configured(config.arms), sharing: None };
        self.extras.get_or_insert_with(|| Box::new(none()))
    }

    /// What a handle with a fleet key keeps.
    pub fn sharing(&self) -> Option<&Sharing> {
        self.extras.as_ref()?.sharing.as_ref()
    }

    pub fn sharing_mut(&mut self) -> Option<&mut Sharing> {
        self.extras.as_mut()?.sharing.as_mut()
    }

    /// Gives the handle what a fleet key needs.
    pub fn share(&mut self, sharing: Sharing, config: &Config) {
        self.extras_mut(config).sharing = Some(sharing);
    }

    /// The ids of the arms that were added.
    pub fn added(&self) -> &[u64] {
        self.extras.as_ref().map_or(&[], |extras| &extras.added)
    }

    /// Reserves memory for the id of another arm.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn reserve(&mut self, config: &Config) -> Result<()> {
        let extras = self.extras_mut(config);
        extras.added.try_reserve(1).map_err(|_| Error::NoMemory)?;
        extras.ids.reserve()
    }

    /// Adds the id of a new arm, after [`reserve`](Self::reserve).
    pub fn add(&mut self, id: u64) {
        if let Some(extras) = &mut self.extras {
            extras.ids.add(id);
            extras.added.push(id);
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
            let extras = self.extras_mut(config);
            (extras.added, extras.ids) = (added, ids);
        }
        Ok(())
    }

    /// Returns the arm with this id.
    pub fn arm(&self, id: u64, config: &Config) -> Option<u32> {
        self.extras.as_ref().map_or_else(|| ArmIds::configured(config.arms).find(id), |extras| extras.ids.find(id))
    }

    /// Returns an arm's id.
    pub fn id(&self, arm: u32) -> u64 {
        self.extras.as_ref().map_or(arm.into(), |extras| extras.ids.id(arm, &extras.added))
    }

    /// Returns an id for an arm without one from the caller. No other handle has it.
    pub fn any_id(&self) -> u64 {
        let mut id = self.origin.wrapping_add(self.added().len() as u64) | 1 << 63;
        while self.extras.as_ref().is_some_and(|extras| extras.ids.find(id).is_some()) {
            id = id.wrapping_add(1) | 1 << 63;
        }
        id
    }
}
