//! Keys that the caller chose, in the order in which they came.

use crate::error::{Error, Result};
use crate::key_index::KeyIndex;
use crate::memory::try_with_capacity;
use crate::snapshot::Reader;
use std::ops::Deref;

/// A list of different keys, each with its place in it.
#[derive(Default)]
pub(crate) struct Keys {
    list: Vec<u64>,
    index: KeyIndex,
}

impl Keys {
    /// An empty list with capacity for `keys` keys.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn try_with_capacity(keys: usize) -> Result<Keys> {
        Ok(Keys { list: try_with_capacity(keys)?, index: KeyIndex::try_with_capacity(keys)? })
    }

    /// Reserves memory for one more key.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        self.list.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.index.reserve()
    }

    /// Adds a key that is not in the list, within the capacity.
    pub fn push(&mut self, key: u64) {
        self.index.insert(key);
        self.list.push(key);
    }

    /// The place of a key.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        self.index.find(key)
    }
}

/// Reads a list of keys.
///
/// # Errors
/// `Corrupt`; `NoMemory`.
pub(crate) fn read(from: &mut Reader) -> Result<Vec<u64>> {
    let length = from.length(size_of::<u64>())?;
    from.list(length, Reader::u64)
}

impl Deref for Keys {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.list
    }
}
