//! What a handle with a fleet key knows of its fleet.

use crate::contribution::{Address, FleetKey};
use crate::error::{Error, Result};
use crate::random::Random;

/// What a handle with a fleet key keeps for contributing and leading.
pub(super) struct Sharing {
    pub key: FleetKey,
    /// The key's [id](FleetKey::id).
    pub id: u64,
    /// Generations, senders and nonces. From the operating system, even with a test seed.
    pub random: Random,
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
        let (id, senders) = (key.id()?, Vec::new());
        Ok(Sharing { key, id, random, sender: 0, sequence: 0, senders, accepted: 0, lost: 0 })
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

    /// Checks that a contribution with this address is to be combined here, and has not been. `led` is the generation
    /// that this handle leads, or 0. Reserves memory for [`accept`](Self::accept).
    ///
    /// # Errors
    /// `Expired`, `Duplicate`, `Full`, `NoMemory`.
    pub fn check(&mut self, address: &Address, led: u64) -> Result<()> {
        if led == 0 || address.generation != led {
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
