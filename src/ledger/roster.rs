//! The arms of a policy whose arms come and go.

use super::keys::Keys;
use crate::error::{Error, Result};
use crate::memory::{WipedVec, try_with_capacity};

/// The arms of a handle. The configuration's arms have their numbers as ids. In all handles of a fleet, equal ids
/// denote the same arm.
pub(crate) struct Roster {
    /// Number of the configuration's arms.
    configured: u32,
    /// The ids of the arms that were added.
    pub added: Keys,
    /// For each arm, whether it is live.
    is_live: WipedVec<bool>,
    /// The live arms, in the order of their numbers.
    live: Vec<u32>,
}

impl Roster {
    /// The arms of a new handle, which are all live.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(arms: u32) -> Result<Roster> {
        let mut live = try_with_capacity(arms as usize)?;
        live.extend(0..arms);
        Ok(Roster { configured: arms, added: Keys::default(), is_live: WipedVec::new(arms as usize, |_| true)?, live })
    }

    /// The number of arms, including retired ones.
    pub fn arms(&self) -> usize {
        self.is_live.len()
    }

    #[inline]
    pub fn live(&self) -> &[u32] {
        &self.live
    }

    #[inline]
    pub fn is_live(&self, arm: usize) -> bool {
        self.is_live[arm]
    }

    /// Reserves memory for one more arm.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        self.is_live.reserve()?;
        self.added.reserve()?;
        self.live.try_reserve(1).map_err(|_| Error::NoMemory)
    }

    /// Adds an arm with this id, which no other arm has, after [`reserve`](Self::reserve).
    pub fn add(&mut self, id: u64) {
        self.added.push(id);
        self.live.push(self.arms() as u32);
        self.is_live.push(true);
    }

    /// Retires an arm.
    pub fn retire(&mut self, arm: usize) {
        self.is_live[arm] = false;
        self.live.retain(|&other| other as usize != arm);
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

    /// Checks that these arms exist and are not retired. `field` has them.
    ///
    /// # Errors
    /// `InvalidRequest`.
    pub fn check(&self, arms: &[u32], field: &'static str) -> Result<()> {
        for &arm in arms {
            match self.is_live.get(arm as usize) {
                Some(true) => (),
                Some(false) => return Err(Error::request(field, "must not be a retired arm", arm)),
                None => return Err(Error::request(field, &format!("must be below {}", self.arms()), arm)),
            }
        }
        Ok(())
    }
}

/// Returns the arm with this id, in a handle of so many configured arms; `added` finds an added one.
pub(super) fn arm_of(id: u64, configured: u32, added: impl Fn(u64) -> Option<usize>) -> Option<usize> {
    if id < configured.into() { Some(id as usize) } else { Some(configured as usize + added(id)?) }
}
