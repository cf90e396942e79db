//! A table of rows in memory.

use dpb::node::store::{RowStore, RowsFailed};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Default)]
pub struct Memory(pub BTreeMap<Vec<u8>, Vec<u8>>, Option<Changes>);

/// What the rows were before: the time, the key and the value. So a replica that lags is the table with the last changes
/// undone.
#[derive(Clone, Default)]
struct Changes {
    now: u64,
    all: VecDeque<(u64, Vec<u8>, Option<Vec<u8>>)>,
}

/// No replica lags by more.
pub const LONGEST_LAG: u64 = 12_000;

impl Memory {
    /// A table that can go back. It is empty.
    pub fn with_replica() -> Memory {
        Memory(BTreeMap::new(), Some(Changes::default()))
    }

    /// It is this time.
    pub fn pass(&mut self, now: u64) {
        let Some(changes) = &mut self.1 else { return };
        changes.now = now;
        while changes.all.front().is_some_and(|change| change.0 + LONGEST_LAG < now) {
            changes.all.pop_front();
        }
    }

    /// Undoes what was changed after this time.
    pub fn go_back(&mut self, time: u64) {
        let Some(changes) = &mut self.1 else { return };
        while changes.all.back().is_some_and(|change| change.0 > time) {
            let Some((_, key, before)) = changes.all.pop_back() else { break };
            match before {
                Some(value) => self.0.insert(key, value),
                None => self.0.remove(&key),
            };
        }
    }

    fn change(&mut self, key: &[u8], before: Option<Vec<u8>>) {
        if let Some(changes) = &mut self.1 {
            changes.all.push_back((changes.now, key.to_vec(), before));
        }
    }
}

impl RowStore for Memory {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, RowsFailed> {
        Ok(self.0.get(key).cloned())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), RowsFailed> {
        let before = match self.0.get_mut(key) {
            Some(row) => Some(std::mem::replace(row, value.to_vec())),
            None => self.0.insert(key.to_vec(), value.to_vec()),
        };
        self.change(key, before);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), RowsFailed> {
        if let Some(before) = self.0.remove(key) {
            self.change(key, Some(before));
        }
        Ok(())
    }

    fn list(&mut self, prefix: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), RowsFailed> {
        let all = self.0.range(prefix.to_vec()..).take_while(|row| row.0.starts_with(prefix));
        all.for_each(|(key, value)| each(key, value));
        Ok(())
    }
}
