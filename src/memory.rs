//! Allocates a handle's tables: a failed allocation is an error instead of an abort, and freed memory is wiped.

use crate::error::{Error, Result};
use crate::os;
use std::ops::{Deref, DerefMut};
use zeroize::Zeroize;

/// A vector whose allocation can fail with an error, and that wipes its old memory when it grows. Where the system
/// supports it, a large one is excluded from core dumps.
pub struct WipedVec<T>(Vec<T>);

impl<T> Default for WipedVec<T> {
    fn default() -> WipedVec<T> {
        WipedVec(Vec::new())
    }
}

impl<T> WipedVec<T> {
    /// The vector of `each(0)`, `each(1)`, ..., `each(length - 1)`.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(length: usize, each: impl FnMut(usize) -> T) -> Result<WipedVec<T>> {
        let mut table = WipedVec::try_with_capacity(length)?;
        table.0.extend((0..length).map(each));
        Ok(table)
    }

    /// Reserves memory for at least one more element, so that the next [`push`](Self::push) cannot fail.
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

    /// Appends an element, after [`reserve`](Self::reserve).
    pub fn push(&mut self, value: T) {
        debug_assert!(self.0.len() < self.0.capacity());
        self.0.push(value);
    }

    /// An empty vector with capacity for `length` elements.
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
        self.0.clear(); // secret elements wipe themselves when they are dropped
        self.in_dumps(true);
    }
}

/// An empty vector with capacity for `length` elements, for public data.
///
/// # Errors
/// `NoMemory`.
pub fn try_with_capacity<T>(length: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(length).map_err(|_| Error::NoMemory)?;
    Ok(vec)
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
    }
}
