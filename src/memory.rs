//! The tables of a handle: memory that is asked for, not taken, and that leaves nothing behind.

use crate::error::{Error, Result};
use crate::os;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use zeroize::Zeroize;

/// A vector that is made or refused, never aborts, and wipes the place that it leaves when it grows;
/// a large one is kept out of core dumps where the system can.
pub struct WipedVec<T>(Vec<T>);

impl<T> Default for WipedVec<T> {
    fn default() -> WipedVec<T> {
        WipedVec(Vec::new())
    }
}

impl<T> WipedVec<T> {
    /// `each(0)`, `each(1)`, ...
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(length: usize, each: impl FnMut(usize) -> T) -> Result<WipedVec<T>> {
        let mut table = WipedVec::try_with_capacity(length)?;
        table.0.extend((0..length).map(each));
        Ok(table)
    }

    /// Room for one more at least, so that the next [`push`](Self::push) cannot fail.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        if self.0.len() == self.0.capacity() {
            let mut larger = WipedVec::try_with_capacity(2 * self.0.len().max(2))?;
            larger.0.append(&mut self.0);
            self.0.spare_capacity_mut().zeroize();
            std::mem::swap(self, &mut larger);
        }
        Ok(())
    }

    /// One more at the end, after [`reserve`](Self::reserve).
    pub fn push(&mut self, value: T) {
        debug_assert!(self.0.len() < self.0.capacity());
        self.0.push(value);
    }

    /// Empty, with room for so many, which the system gives as they come.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn try_with_capacity(length: usize) -> Result<WipedVec<T>> {
        let table = WipedVec(try_with_capacity(length)?);
        table.in_dumps(false);
        Ok(table)
    }

    fn in_dumps(&self, shown: bool) {
        os::in_dumps(self.0.as_ptr().cast(), self.0.capacity() * size_of::<T>(), shown);
    }
}

impl<T> Deref for WipedVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for WipedVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> Drop for WipedVec<T> {
    fn drop(&mut self) {
        self.0.clear(); // what is secret in it wipes itself
        self.in_dumps(true);
    }
}

/// An empty vector with room for so many, for lists of public things.
///
/// # Errors
/// `NoMemory`.
pub fn try_with_capacity<T>(length: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(length).map_err(|_| Error::NoMemory)?;
    Ok(vec)
}

/// More room in a queue, for so many in all.
///
/// # Errors
/// `NoMemory`: nothing has changed.
pub fn queue_room<T>(queue: &mut VecDeque<T>, length: usize) -> Result<()> {
    queue.try_reserve(length - queue.len()).map_err(|_| Error::NoMemory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    #[test]
    fn grows_keeping_its_own_and_leaving_nothing() {
        let mut table = WipedVec::new(3, |i| Zeroizing::new(i as u64 + 7)).unwrap();
        table.reserve().unwrap();
        assert_eq!(table.0.capacity(), 6);
        table.push(10.into());
        assert!((7..11).eq(table.iter().map(|value| **value)));
    }

    #[test]
    fn too_much_is_a_refusal() {
        let part = if usize::BITS == 64 { 16 } else { 8 }; // half of 4 GiB can be had
        assert_eq!(WipedVec::<u64>::new(usize::MAX / part, |_| 0).err(), Some(Error::NoMemory));
        assert_eq!(try_with_capacity::<u64>(usize::MAX).err(), Some(Error::NoMemory));
        let mut queue = VecDeque::from([1u64]);
        assert_eq!(queue_room(&mut queue, usize::MAX), Err(Error::NoMemory));
        assert_eq!(queue, [1]);
    }
}
