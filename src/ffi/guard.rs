//! Guards every call from C against NULL, panics and another rounding of numbers. (The lock detects forks: see
//! [`crate::os`].)

use super::status::{DPB_NULL, DPB_OK, DPB_POISONED, dpb_status};
use crate::error::{Error, Result, within};
use crate::os::DefaultRounding;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Part of every handle. After a panic it closes the handle permanently.
#[derive(Default)]
pub struct Guard {
    poisoned: AtomicBool,
}

/// A handle type of the interface.
pub trait Handle {
    fn guard(&self) -> &Guard;
}

/// Makes a struct with a `guard` a handle.
macro_rules! handle {
    ($name:ident) => {
        impl super::guard::Handle for $name {
            fn guard(&self) -> &super::guard::Guard {
                &self.guard
            }
        }
    };
}
pub(super) use handle;

/// Runs a call on a handle, in the default rounding of numbers. Returns DPB_NULL without a handle, DPB_POISONED after a
/// panic.
///
/// # Safety
/// `handle` is NULL or live.
#[inline]
pub unsafe fn call<H: Handle>(handle: *const H, body: impl FnOnce(&H) -> Result<()>) -> dpb_status {
    let _rounding = DefaultRounding::set();
    // SAFETY: as above.
    unsafe { call_directly(handle, body) }
}

/// The same in whatever rounding is set.
///
/// # Safety
/// `handle` is NULL or live.
#[inline]
pub unsafe fn call_directly<H: Handle>(handle: *const H, body: impl FnOnce(&H) -> Result<()>) -> dpb_status {
    // SAFETY: as above.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return DPB_NULL };
    if handle.guard().poisoned.load(Ordering::Relaxed) {
        return DPB_POISONED;
    }
    let caught = catch_unwind(AssertUnwindSafe(|| body(handle).map_or_else(refuse, |()| DPB_OK)));
    caught.unwrap_or_else(|_| {
        handle.guard().poisoned.store(true, Ordering::Relaxed);
        DPB_POISONED
    })
}

/// Returns the status of a refusal. It is out of line, so that a successful call moves no error through memory.
#[cold]
#[inline(never)]
fn refuse(error: Error) -> dpb_status {
    error.status()
}

/// Stores a length: how many were written, or how many are needed.
///
/// # Safety
/// `n` is valid.
pub unsafe fn write_length(written: Result<usize>, n: *mut usize) -> Result<()> {
    if let Ok(length) | Err(Error::BufferTooSmall { needed: length }) = written {
        // SAFETY: as above.
        unsafe { n.write(length) };
    }
    written.map(drop)
}

/// Copies a list to where there is room for `cap`, and stores its length, also if there is too little room.
///
/// # Safety
/// `out` is valid for `cap` elements, or NULL with `cap` 0; `n` is valid.
pub unsafe fn write_list<T>(made: Result<impl AsRef<[T]>>, (out, cap, n): (*mut T, usize, *mut usize)) -> Result<()> {
    let written = made.and_then(|list| {
        let list = list.as_ref();
        within(cap, list.len())?;
        // SAFETY: as above.
        unsafe { out.copy_from_nonoverlapping(list.as_ptr(), list.len()) };
        Ok(list.len())
    });
    // SAFETY: as above.
    unsafe { write_length(written, n) }
}

/// Writes pairs of numbers, one after the other, into two lists.
///
/// # Safety
/// Each list is NULL, or long enough for all pairs.
pub unsafe fn pairs(first: *mut f64, second: *mut f64) -> impl FnMut(f64, f64) {
    let mut number = 0;
    move |x, y| {
        for (out, value) in [(first, x), (second, y)] {
            if !out.is_null() {
                // SAFETY: as above.
                unsafe { out.add(number).write(value) };
            }
        }
        number += 1;
    }
}

/// Returns the slice of a pointer and a length. NULL with length 0 is an empty slice.
///
/// # Safety
/// `first` is valid for `n` elements while the slice is used, or `n` is 0.
#[inline]
pub unsafe fn slice<'a, T>(first: *const T, n: usize) -> &'a [T] {
    // SAFETY: as above.
    if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(first, n) } }
}

/// Locks what a handle keeps.
pub fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().map_err(|_| Error::Poisoned)
}

/// Runs a call that needs no handle.
pub fn run(body: impl FnOnce() -> Result<()>) -> dpb_status {
    catch(body).map_or_else(refuse, |()| DPB_OK)
}

/// Runs a call that has no handle yet, such as a constructor.
pub fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    let _rounding = DefaultRounding::set();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Error::Poisoned))
}

/// Frees a handle; NULL is a no-op.
pub fn free<H>(handle: *mut H) {
    if !handle.is_null() {
        // SAFETY: made by Box::into_raw in a constructor, and freed once, by contract.
        let handle = unsafe { Box::from_raw(handle) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    }
}
