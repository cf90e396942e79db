//! Names: 64 bits that the caller chose, and which of the things so called it is.

use crate::error::{Error, Result};
use crate::snapshot::ensure;
use crate::table::room;

/// By name, sorted: a name's place in the order in which they came.
#[derive(Default)]
pub(crate) struct Places(Vec<(u64, u32)>);

impl Places {
    pub const NONE: Places = Places(Vec::new());

    /// None, with room for so many.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn with_room(length: usize) -> Result<Places> {
        Ok(Places(room(length)?))
    }

    /// These, with room for as many as there may be.
    ///
    /// # Errors
    /// `Corrupt` where two are the same; `NoMemory`.
    pub fn of(names: &[u64], most: usize) -> Result<Places> {
        let mut places = room(most.max(names.len()))?;
        places.extend(names.iter().copied().zip(0..));
        places.sort_unstable();
        ensure(places.is_sorted_by(|a, b| a.0 < b.0))?;
        Ok(Places(places))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn find(&self, name: u64) -> Option<usize> {
        let place = self.0.binary_search_by_key(&name, |&(name, _)| name).ok()?;
        Some(self.0[place].1 as usize)
    }

    /// By name: the places.
    pub fn iter(&self) -> impl Iterator<Item = usize> + Clone {
        self.0.iter().map(|&(_, place)| place as usize)
    }

    /// Room for one more.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn reserve(&mut self) -> Result<()> {
        self.0.try_reserve(1).map_err(|_| Error::NoMemory)
    }

    /// The next one's, which none has yet, where there is room.
    pub fn insert(&mut self, name: u64) {
        let before = self.0.partition_point(|&(known, _)| known < name);
        self.0.insert(before, (name, self.0.len() as u32));
    }
}
