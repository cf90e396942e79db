//! An index of 64-bit keys that the caller chose: it numbers the keys in the order in which they were inserted.

use crate::error::Result;
use crate::memory::try_with_capacity;
use crate::snapshot::ensure;

/// A hash table with linear probing. A key and its number share an entry, so that a search usually reads one cache
/// line. Keys are public. The table is never more than two thirds full.
#[derive(Default)]
pub(crate) struct KeyIndex {
    /// Keys with their numbers. The length is 0 or a power of two. An empty entry has the number
    /// [`EMPTY`](Self::EMPTY).
    entries: Vec<(u64, u32)>,
    keys: u32,
}

impl KeyIndex {
    const EMPTY: u32 = u32::MAX;

    /// An empty index with capacity for `keys` keys.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn try_with_capacity(keys: usize) -> Result<KeyIndex> {
        if keys == 0 {
            return Ok(KeyIndex::default());
        }
        let length = (keys + keys.div_ceil(2) + 1).next_power_of_two();
        let mut entries = try_with_capacity(length)?;
        entries.resize(length, (0, KeyIndex::EMPTY));
        Ok(KeyIndex { entries, keys: 0 })
    }

    /// An index of these keys, with capacity for at least `capacity` keys.
    ///
    /// # Errors
    /// `Corrupt` if two keys are equal; `NoMemory`.
    pub fn of(keys: &[u64], capacity: usize) -> Result<KeyIndex> {
        let mut index = KeyIndex::try_with_capacity(capacity.max(keys.len()))?;
        for &key in keys {
            ensure(index.find(key).is_none())?;
            index.insert(key);
        }
        Ok(index)
    }

    pub fn len(&self) -> usize {
        self.keys as usize
    }

    /// The number of a key.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let (found, number) = self.entries[self.entry(key)];
        (found == key && number != KeyIndex::EMPTY).then_some(number as usize)
    }

    /// Reserves capacity for the next [`insert`](Self::insert).
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        if self.entries.len() < self.len() + 1 + (self.len() + 1).div_ceil(2) + 1 {
            let mut larger = KeyIndex::try_with_capacity(2 * (self.len() + 1))?;
            for &(key, number) in self.entries.iter().filter(|entry| entry.1 != KeyIndex::EMPTY) {
                let entry = larger.entry(key);
                larger.entries[entry] = (key, number);
            }
            larger.keys = self.keys;
            *self = larger;
        }
        Ok(())
    }

    /// Inserts a key that is not in the index, within the capacity. Its number is the number of keys before it.
    pub fn insert(&mut self, key: u64) {
        let entry = self.entry(key);
        self.entries[entry] = (key, self.keys);
        self.keys += 1;
    }

    /// The entry where a key is, or would be inserted. At least one entry is empty, so the search ends.
    #[inline]
    fn entry(&self, key: u64) -> usize {
        // The finalizer of SplitMix64 (Steele, Lea, Flood 2014): keys that differ in any bit spread over the table.
        let mut hash = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let last = self.entries.len() - 1;
        let mut entry = (hash ^ hash >> 31) as usize & last;
        while self.entries[entry].1 != KeyIndex::EMPTY && self.entries[entry].0 != key {
            entry = (entry + 1) & last;
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Compares with a map of the standard library, for similar keys, repeated keys, and zero.
    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        for stride in [1, 1 << 20, 1 << 52, 0x9e37_79b9_7f4a_7c15] {
            let (mut grown, mut map) = (KeyIndex::default(), HashMap::new());
            let mut fixed = KeyIndex::try_with_capacity(1000).unwrap();
            for i in 0..1000u64 {
                let key = (i * i % 1501).wrapping_mul(stride);
                assert_eq!(grown.find(key), map.get(&key).copied());
                assert_eq!(fixed.find(key), map.get(&key).copied());
                if !map.contains_key(&key) {
                    map.insert(key, map.len());
                    grown.reserve().unwrap();
                    grown.insert(key);
                    fixed.insert(key);
                }
            }
            assert_eq!((grown.len(), fixed.len()), (map.len(), map.len()));
            assert!((0..3000u64).all(|i| {
                let key = i.wrapping_mul(stride);
                grown.find(key) == map.get(&key).copied()
            }));
        }
    }

    #[test]
    fn a_key_that_comes_twice_is_corrupt() {
        assert!(KeyIndex::of(&[7, 8, 7], 3).is_err());
        assert_eq!(KeyIndex::of(&[7, 8], 0).unwrap().find(8), Some(1));
    }
}
