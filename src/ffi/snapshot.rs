//! Snapshots of handles.

use super::bandit::dpb_bandit;
use super::config::{dpb_error, explain, produce};
use super::guard::call;
use super::status::{DPB_NULL, dpb_status};
use crate::bandit::Bandit;
use crate::error::Error;

/// Writes what the handle has released and what is public of it: safe to log and to publish. It holds no
/// raw sum and no answer: what is open is lost to who goes on from it.
///
/// buf: room for cap bytes (NULL with cap = 0). len: receives how many there are, also when cap is too small:
/// some 100 bytes, and for each arm 9 to 210 (dpb_new_imed, dpb_new_klucb, dpb_new_med), 17 (dpb_new_ts), 25
/// (dpb_new_se), which may grow between two calls. May allocate.
/// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only len written); DPB_UNSUPPORTED (policies whose state
/// is not all released); DPB_NO_MEMORY; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_snapshot(
    bandit: *const dpb_bandit,
    buf: *mut u8,
    cap: usize,
    len: *mut usize,
) -> dpb_status {
    if len.is_null() || (buf.is_null() && cap > 0) {
        return DPB_NULL;
    }
    call(bandit, |b: &dpb_bandit| {
        let bytes = b.bandit.snapshot()?;
        // SAFETY: not NULL, so valid by contract.
        unsafe { len.write(bytes.len()) };
        if cap < bytes.len() {
            return Err(Error::BufferTooSmall { needed: bytes.len() });
        }
        // SAFETY: there is room for cap bytes, by contract.
        unsafe { buf.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    })
}

/// A handle that goes on from a snapshot, with the configuration that is in it and fresh entropy. Decisions
/// that were in flight have expired, and their tickets are unknown to it (DPB_UNKNOWN_TICKET).
///
/// The guarantee is one for all lives together, however old the snapshot is: no reward of an earlier life
/// enters a release of a later one. dpb_privacy says at least what one release costs, because there may have
/// been one since the snapshot. A handle that once had a test_seed is not private.
///
/// buf: len bytes of any origin. out: receives the handle, which the caller frees with dpb_free. error: NULL, or
/// filled on failure.
/// Returns DPB_OK; DPB_NULL; DPB_CORRUPT; DPB_NEWER_VERSION; DPB_INVALID_CONFIG; DPB_UNSUPPORTED; DPB_ENTROPY;
/// DPB_NO_MEMORY. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_restore(
    buf: *const u8,
    len: usize,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    if buf.is_null() {
        // SAFETY: NULL or valid, by contract.
        unsafe { explain(error, DPB_NULL, "buf is NULL") };
        return DPB_NULL;
    }
    // SAFETY: NULL or valid, by contract; buf is not NULL, and len bytes long.
    unsafe {
        produce(out, error, || {
            let bytes = std::slice::from_raw_parts(buf, len);
            Ok(Box::into_raw(Box::new(dpb_bandit::of(Bandit::restore(bytes)?))))
        })
    }
}
