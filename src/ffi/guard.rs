//! What stands between C and Rust: NULLs, panics, forks.

use super::status::{DPB_NULL, DPB_OK, DPB_POISONED, dpb_status};
use crate::error::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Part of every handle: closes it for ever after a panic, and in a forked child.
///
/// A child that went on would draw its parent's noise and release its parent's open batches a
/// second time, so it fails closed. The fork counter is the library's only global: it is bumped
/// in the child by `pthread_atfork` and costs a load a call.
pub struct Guard {
    poisoned: AtomicBool,
    born: u32,
}

static FORKS: AtomicU32 = AtomicU32::new(0);

impl Guard {
    pub fn new() -> Guard {
        #[cfg(unix)]
        {
            static WATCH: std::sync::Once = std::sync::Once::new();
            extern "C" fn in_child() {
                FORKS.fetch_add(1, Ordering::Relaxed);
            }
            // SAFETY: the handler only bumps an atomic, which is safe after fork.
            WATCH.call_once(|| unsafe {
                libc::pthread_atfork(None, None, Some(in_child));
            });
        }
        Guard { poisoned: AtomicBool::new(false), born: FORKS.load(Ordering::Relaxed) }
    }

    #[inline]
    fn is_open(&self) -> bool {
        !self.poisoned.load(Ordering::Relaxed) && self.born == FORKS.load(Ordering::Relaxed)
    }
}

/// A handle type of the interface.
pub trait Handle {
    fn guard(&self) -> &Guard;
}

/// Runs a call on a handle: DPB_NULL without one, DPB_POISONED after a panic or in a forked child.
#[inline]
pub fn call<H: Handle>(handle: *const H, body: impl FnOnce(&H) -> Result<()>) -> dpb_status {
    // SAFETY: the caller of the C function vouches that the handle is NULL or live.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return DPB_NULL };
    if !handle.guard().is_open() {
        return DPB_POISONED;
    }
    match catch_unwind(AssertUnwindSafe(|| body(handle))) {
        Ok(Ok(())) => DPB_OK,
        Ok(Err(error)) => error.status(),
        Err(_) => {
            handle.guard().poisoned.store(true, Ordering::Relaxed);
            DPB_POISONED
        }
    }
}

/// Runs a call that has no handle yet, such as a constructor.
pub fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
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
