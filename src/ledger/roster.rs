//! The arms of a policy whose arms come and go.

use crate::error::{Error, Result};
use crate::memory::{WipedVec, try_with_capacity};

/// Which arms are live.
pub(crate) struct Roster {
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
        Ok(Roster { is_live: WipedVec::new(arms as usize, |_| true)?, live })
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
        self.live.try_reserve(1).map_err(|_| Error::NoMemory)
    }

    /// Adds an arm, after [`reserve`](Self::reserve).
    pub fn add(&mut self) {
        self.live.push(self.arms() as u32);
        self.is_live.push(true);
    }

    /// Retires an arm.
    pub fn retire(&mut self, arm: usize) {
        self.is_live[arm] = false;
        self.live.retain(|&other| other as usize != arm);
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
