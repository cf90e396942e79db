//! A table of rows in memory.

use dpb::node::store::{RowStore, RowsFailed};
use std::collections::BTreeMap;

#[derive(Clone, Default)]
pub struct Memory(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl RowStore for Memory {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, RowsFailed> {
        Ok(self.0.get(key).cloned())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), RowsFailed> {
        self.0.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), RowsFailed> {
        self.0.remove(key);
        Ok(())
    }

    fn list(&mut self, prefix: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), RowsFailed> {
        let all = self.0.range(prefix.to_vec()..).take_while(|row| row.0.starts_with(prefix));
        all.for_each(|(key, value)| each(key, value));
        Ok(())
    }
}
