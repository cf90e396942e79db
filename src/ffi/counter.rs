//! dpb_counter: sums under continual observation.

use super::config::{construct, dpb_error, read_seed};
use super::guard::{self, Guard, Handle, call};
use super::status::{DPB_NULL, dpb_status};
use crate::counter::{Counter, CounterKind};
use crate::error::Error;
use std::sync::Mutex;

/// A differentially private running sum of values in [0, 1]. Made by dpb_new_counter, destroyed by
/// dpb_counter_free. May be used from any number of threads at once.
pub struct dpb_counter {
    guard: Guard,
    counter: Mutex<Counter>,
}

impl Handle for dpb_counter {
    fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// A DPB_COUNTER_ number.
pub type dpb_counter_kind = u32;

/// Releases when the number of values is a power of two: the least noise, the rarest news.
pub const DPB_COUNTER_LOGARITHMIC: dpb_counter_kind = 0;
/// Releases at every value, up to a horizon.
pub const DPB_COUNTER_BINARY: dpb_counter_kind = 1;
/// Releases at every value, without a horizon.
pub const DPB_COUNTER_HYBRID: dpb_counter_kind = 2;

const _: () = assert!(DPB_COUNTER_LOGARITHMIC == CounterKind::Logarithmic as u32);
const _: () = assert!(DPB_COUNTER_BINARY == CounterKind::Binary as u32);
const _: () = assert!(DPB_COUNTER_HYBRID == CounterKind::Hybrid as u32);

/// A private running sum: pure epsilon-DP for the whole stream of releases when one value changes
/// (Chan, Shi, Song 2011; the hybrid with the budget shared between its two parts, unlike Tossou
/// and Dimitrakakis 2016, Lemma B.2).
///
/// kind: a DPB_COUNTER_ number. epsilon: > 0. horizon: the most values of a binary counter,
/// 1 .. 2^37; ignored by the others. test_seed: NULL = operating system entropy; 32 bytes =
/// reproducible and NOT private. out: receives the handle, which the caller frees with
/// dpb_counter_free. error: NULL, or filled on failure.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_ENTROPY; DPB_NO_MEMORY. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_counter(
    kind: dpb_counter_kind,
    epsilon: f64,
    horizon: u64,
    test_seed: *const u8,
    out: *mut *mut dpb_counter,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe {
        construct(out, error, || {
            let kind = match kind {
                DPB_COUNTER_LOGARITHMIC => CounterKind::Logarithmic,
                DPB_COUNTER_BINARY => CounterKind::Binary,
                DPB_COUNTER_HYBRID => CounterKind::Hybrid,
                other => return Err(Error::config("kind", "must be a DPB_COUNTER_ number", other)),
            };
            let counter = Counter::new(kind, epsilon, horizon, read_seed(test_seed))?;
            Ok(dpb_counter { guard: Guard::default(), counter: Mutex::new(counter) })
        })
    }
}

/// Adds a value in [0, 1] and brings the release up to date. O(1) amortised, never allocates.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_REWARD (NaN, or outside [0, 1]); DPB_HALTED (a binary
/// counter has its horizon of values, another 2^37); DPB_POISONED. A refused value changes nothing.
/// Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_counter_add(counter: *mut dpb_counter, value: f64) -> dpb_status {
    call(counter, |c: &dpb_counter| c.counter.lock().map_err(|_| Error::Poisoned)?.add(value))
}

/// The released sum, 0 before the first release. Reading costs no privacy and draws no noise: the
/// same number until the next dpb_counter_add. O(1).
/// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_counter_read(counter: *const dpb_counter, sum: *mut f64) -> dpb_status {
    if sum.is_null() {
        return DPB_NULL;
    }
    call(counter, |c: &dpb_counter| {
        let counter = c.counter.lock().map_err(|_| Error::Poisoned)?;
        counter.check()?;
        // SAFETY: not NULL, so valid by contract.
        unsafe { sum.write(counter.read()) };
        Ok(())
    })
}

/// Is this counter private? is_private: receives 1, or 0 under a test_seed.
/// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_counter_is_private(counter: *const dpb_counter, is_private: *mut u32) -> dpb_status {
    if is_private.is_null() {
        return DPB_NULL;
    }
    call(counter, |c: &dpb_counter| {
        let private = c.counter.lock().map_err(|_| Error::Poisoned)?.is_private();
        // SAFETY: not NULL, so valid by contract.
        unsafe { is_private.write(private.into()) };
        Ok(())
    })
}

/// Destroys a counter. NULL is a no-op. No other call on the handle may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_counter_free(counter: *mut dpb_counter) {
    guard::free(counter);
}
