//! The arms of a handle: their ids, and which of them are live.

use super::keys::Keys;
use crate::error::{Error, Result};
use crate::memory::try_with_capacity;

/// The arms of a handle. The configuration's arms have their numbers as ids. In all handles of a fleet, equal ids denote
/// the same arm.
pub(crate) struct Arms {
    /// Number of the configuration's arms.
    configured: u32,
    /// The ids of the arms that were added.
    pub added: Keys,
    /// The arms that are not retired, in ascending order.
    pub live: Vec<u32>,
}

impl Arms {
    /// The arms of a new handle.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(configured: u32) -> Result<Arms> {
        let mut live = try_with_capacity(configured as usize)?;
        live.extend(0..configured);
        Ok(Arms { configured, added: Keys::default(), live })
    }

    /// Reserves memory for one more arm.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        self.live.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.added.reserve()
    }

    /// Adds an arm with this id, which no other arm has, after [`reserve`](Self::reserve).
    pub fn add(&mut self, id: u64) {
        self.live.push(self.configured + self.added.len() as u32);
        self.added.push(id);
    }

    /// Retires an arm.
    pub fn retire(&mut self, arm: u32) {
        self.live.retain(|&other| other != arm);
    }

    pub fn is_live(&self, arm: usize) -> bool {
        self.live.binary_search(&(arm as u32)).is_ok()
    }

    /// Number of arms, including retired ones.
    pub fn len(&self) -> usize {
        self.configured as usize + self.added.len()
    }

    /// Returns an arm's id.
    pub fn id(&self, arm: usize) -> u64 {
        arm.checked_sub(self.configured as usize).map_or(arm as u64, |place| self.added[place])
    }

    /// Returns the arm with this id.
    pub fn find(&self, id: u64) -> Option<usize> {
        arm_of(id, self.configured, |id| self.added.find(id))
    }

    /// Returns an id for an arm without one from the caller. No other handle has it; `origin` is this handle's.
    pub fn any_id(&self, origin: u64) -> u64 {
        let mut id = origin.wrapping_add(self.added.len() as u64) | 1 << 63;
        while self.find(id).is_some() {
            id = id.wrapping_add(1) | 1 << 63;
        }
        id
    }
}

/// Returns the arm with this id, in a handle of so many configured arms; `added` finds an added one.
pub(super) fn arm_of(id: u64, configured: u32, added: impl Fn(u64) -> Option<usize>) -> Option<usize> {
    if id < configured.into() { Some(id as usize) } else { Some(configured as usize + added(id)?) }
}
