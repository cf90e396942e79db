//! dpb_request: the inputs of one decision.

use super::bandit::{dpb_bandit, dpb_decision};
use super::calls::{call_unless, explained, functions};
use super::config::dpb_error;
use super::generated::request::dpb_request;
use super::guard::{pairs, slice, write_length};
use super::sized;
use super::status::dpb_status;
use crate::bandit::Decision;
use crate::error::{Error, Result, Value};
use crate::request::{self, Feature, Request, Rows};
use std::ffi::{CStr, c_char};

/// One entry of a sparse row.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_feature {
    /// The number of the feature, below dpb_config.features.
    pub index: u32,
    /// Its value, finite.
    pub value: f32,
}

const _: () = assert!(size_of::<dpb_feature>() == size_of::<Feature>() && size_of::<Feature>() == 8);

impl dpb_request {
    /// # Safety
    /// `request` is valid for the size that it states, and its arms and rows for the lengths beside them while the
    /// result is used.
    #[inline(always)] // so that the result needs no memory
    pub(super) unsafe fn read<'a>(request: *const dpb_request) -> Result<Request<'a>> {
        // SAFETY: as above.
        match unsafe { sized::whole(request) } {
            // SAFETY: as above.
            Some(whole) => unsafe { whole.request() },
            // SAFETY: as above.
            None => unsafe { Self::read_other(request) },
        }
    }

    /// Reads the request of another version.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    #[cold]
    #[inline(never)]
    unsafe fn read_other<'a>(request: *const dpb_request) -> Result<Request<'a>> {
        // SAFETY: as above.
        let whole = unsafe { sized::read(request, dpb_request::defaults()) }.map_err(|error| match error {
            Error::InvalidConfig { field, problem } => Error::InvalidRequest { field, problem },
            other => other,
        })?;
        // SAFETY: as above.
        unsafe { whole.request() }
    }

    /// Returns the rows of features, if there are any. The handle checks their number.
    ///
    /// # Safety
    /// They are valid for the lengths beside them while the result is used.
    #[inline(always)]
    pub(super) unsafe fn rows<'a>(&self) -> Result<Option<Rows<'a>>> {
        let refused = |field, rule: &str, given: usize| Err(Error::request(field, rule, given));
        match (!self.features.is_null(), !self.sparse_ends.is_null(), !self.sparse.is_null()) {
            (true, true, _) => {
                let rule = "must be 0, and sparse_ends NULL, where features is set";
                refused("sparse_ends_len", rule, self.sparse_ends_len)
            }
            (_, false, true) => Err(Error::request("sparse_ends", "must be set where sparse is", Value::Null)),
            (_, false, _) if self.sparse_ends_len > 0 => {
                refused("sparse_ends_len", "must be 0 where sparse_ends is NULL", self.sparse_ends_len)
            }
            (false, _, false) if self.features_len > 0 => {
                refused("features_len", "must be 0 where features and sparse are NULL", self.features_len)
            }
            (false, false, false) => Ok(None),
            // SAFETY: as above.
            (true, ..) => Ok(Some(Rows::Dense(unsafe { slice(self.features, self.features_len) }))),
            (_, true, _) => {
                // SAFETY: as above. A Feature is laid out as a dpb_feature.
                let entries = unsafe { slice(self.sparse.cast::<Feature>(), self.features_len) };
                // SAFETY: as above.
                Ok(Some(Rows::Sparse(entries, unsafe { slice(self.sparse_ends, self.sparse_ends_len) })))
            }
        }
    }
}

/// Returns a list that may be absent. Then its length must be 0. `names`: of the length and of the list.
///
/// # Safety
/// It is NULL, or valid for `n` elements while the result is used.
#[inline(always)]
pub(super) unsafe fn list<'a, T>(first: *const T, n: usize, names: [&'static str; 2]) -> Result<Option<&'a [T]>> {
    if first.is_null() && n > 0 {
        return Err(Error::request(names[0], &format!("must be 0 where {} is NULL", names[1]), n));
    }
    // SAFETY: as above.
    Ok((!first.is_null()).then(|| unsafe { slice(first, n) }))
}

/// Returns a number that is 0 or 1 as a flag.
#[inline(always)]
pub(super) fn flag(number: u32, name: &'static str) -> Result<bool> {
    if number > 1 { Err(Error::request(name, "must be 0 or 1", number)) } else { Ok(number == 1) }
}

/// Fills a request with the defaults: one slot, all live arms. NULL is a no-op. Any thread.
///
/// struct_size: the size of the struct in the program's header, which may be older than the library. In C and C++
/// dpb_request_init(&request) passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_request_init_sized(request: *mut dpb_request, struct_size: u32) {
    // SAFETY: NULL or valid for that many bytes, by contract.
    unsafe { sized::init(request, struct_size, dpb_request::defaults) };
}

functions! {
    /// Decides a request. Writes one decision for each slot.
    ///
    /// **Several slots** get different arms: the best ones, and those that must still be explored, in random order if
    /// the request does not say otherwise. Each decision gets its own reward, or is cancelled. slots is at most the
    /// number of eligible arms, max_slots if that is set, and reward_window (without one pending_capacity rounded up).
    /// A propensity is the probability of that arm in its draw, given the draws before it.
    // begin generated slate
    /// For dpb_new_imed and dpb_new_linear.
    // end generated slate
    /// Epsilon is the loss of (Theorem S, docs/theory/slots.md):
    ///   dpb_config.max_slots = 0                    one reward
    ///   dpb_config.max_slots = S                    one request with all its rewards; the noise is for epsilon/S
    ///   dpb_config.max_slots = S, max_clicks = c    the same, at most c clicks of a request count; epsilon/min(2c, S)
    /// With max_clicks, all tickets of a request are DPB_EXPIRED for dpb_update as soon as the window of its first
    /// ends.
    ///
    /// **Segments** (dpb_config.max_segments) learn for themselves, and start with what all others know of their arms.
    /// The phase is 1 for a decision that learns for its segment, and 0 for one that learns with all segments together.
    ///
    /// **Features** (dpb_config.features): the decision depends on the rows of the request. See dpb_new_linear.
    ///
    /// **Users** (dpb_config.expected_users): the library learns from the first contributions_per_user decisions of a
    /// user in a period (dpb_next_period), cancelled and expired ones included. It serves and counts later decisions
    /// like all others, and discards their rewards. A request of several slots counts once, and needs max_slots. Each
    /// handle counts by itself: in a fleet, send each user to one handle. docs/privacy/users.md has the guarantee,
    /// and what to pass for visitors without an account.
    ///
    /// request: filled by dpb_request_init; read here, not kept. out: receives request.slots decisions, on success
    /// only. Never allocates on success, but where a field of the request says so. O(slots eligible_len). Returns
    /// DPB_OK; DPB_NULL; DPB_INVALID_REQUEST (an arm that does not exist or is retired, no arm at all, slots, a number
    /// that is missing or out of the range of its field, fewer positive values than slots, a wrong length,
    /// struct_size); DPB_UNSUPPORTED (a field that this policy or configuration does not support); DPB_FULL (a new
    /// segment, and there are max_segments); DPB_NOT_READY (a restored handle with expected_users, before dpb_stored);
    /// DPB_NO_MEMORY (where a field says so); DPB_NEWER_VERSION (struct_size of a newer library); DPB_POISONED. Unless
    /// DPB_OK, nothing has changed or been counted, and dpb_request_check says why. Any thread.
    fn dpb_select_for(bandit: *mut dpb_bandit, request: *const dpb_request, out: *mut dpb_decision)
        = call_unless(request.is_null() || out.is_null(), bandit, |b| {
            let request = dpb_request::read(request)?;
            b.bandit.select_slots(&request, |slot, decision| out.add(slot).write(decision.into()))
        });

    /// dpb_select_for for n requests in turn, under one lock, until one is refused.
    ///
    /// requests: an array of n, all of one struct_size; or NULL for n default requests. out: receives the decisions of
    /// all slots, request by request. done: receives the number of decided requests, also after a refusal: it is then
    /// the index of the refused one.
    /// Returns DPB_OK (all n); DPB_NULL; or the status of dpb_select_for for the refused request. Any thread.
    fn dpb_select_many(bandit: *mut dpb_bandit, requests: *const dpb_request, n: usize, out: *mut dpb_decision,
        done: *mut usize)
        = call_unless(done.is_null() || (out.is_null() && n > 0), bandit, |b| {
            let mut decided = 0;
            let mut each = |slot: usize, decision: Decision| out.add(slot).write(decision.into());
            let size = if requests.is_null() || n == 0 { 0 } else { requests.cast::<u32>().read() };
            let request = |i: usize| {
                let request = requests.byte_add(i * size as usize);
                match request.cast::<u32>().read() == size {
                    true => dpb_request::read(request),
                    false => Err(Error::request("struct_size", "must be the same in all requests", size)),
                }
            };
            let outcome = match requests.is_null() {
                true => b.bandit.select_n(n, &mut each).inspect(|()| decided = n),
                false => b.bandit.select_many((0..n).map(request), &mut each, &mut decided),
            };
            done.write(decided);
            outcome
        });

    /// Explains why dpb_select_for would refuse a request now: the message names the field and the value. Changes and
    /// counts nothing. Not for each request: a refusal allocates.
    ///
    /// request: as for dpb_select_for. error: NULL, or filled on failure.
    /// Returns DPB_OK: dpb_select_for would decide; otherwise the status of dpb_select_for. Any thread.
    fn dpb_request_check(bandit: *const dpb_bandit, request: *const dpb_request, error: *mut dpb_error)
        = explained(bandit, error, &[("request", request.is_null())], |b| {
            b.bandit.check_request(&dpb_request::read(request)?)
        });

    /// Reads the predicted mean reward of each row of a request, and its standard deviation, in the caller's units.
    /// Both are functions of releases, so they cost no privacy. With DPB_MODEL_PER_ARM the one row gives a mean for
    /// each eligible arm.
    ///
    /// request: as for dpb_select_for; slots and user are not used. mean, deviation: each NULL, or receives up to cap
    /// numbers, one for each eligible arm; if eligible is NULL, for every arm by its number (NaN for retired ones). n:
    /// receives their number, also if cap is too small. A call whose cap is too small does not look at the features.
    /// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only n written); DPB_INVALID_REQUEST; DPB_UNSUPPORTED
    /// (dpb_config.features is 0; a segment); DPB_NEWER_VERSION; DPB_POISONED. Any thread.
    fn dpb_predict(bandit: *const dpb_bandit, request: *const dpb_request, mean: *mut f64, deviation: *mut f64,
        cap: usize, n: *mut usize)
        = call_unless(request.is_null() || n.is_null(), bandit, |b| {
            let request = dpb_request::read(request)?;
            write_length(b.bandit.predict_within(&request, cap, pairs(mean, deviation)), n)
        });
}

/// The index of a category, for one-hot features: the CRC-32 (as in zlib and PNG) of "field=value", modulo d. So a log
/// can be read elsewhere, for example in Python: zlib.crc32(b"device=phone") % d. Two categories share an index with a
/// chance of 1/d. field, value: NUL-terminated; NULL is empty. Refuse a value that contains a NUL, because it would end
/// there and have the index of another value. d: dpb_config.features. Returns 0 for d = 0. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_feature_hash(field: *const c_char, value: *const c_char, d: u32) -> u32 {
    // SAFETY: NULL or NUL-terminated, by contract.
    let text = |text: *const c_char| if text.is_null() { &[][..] } else { unsafe { CStr::from_ptr(text) }.to_bytes() };
    request::feature_hash(text(field), text(value), d)
}

/// The index of two categories that come together, for example of device and country: the CRC-32 of both indices, as
/// little-endian 32-bit numbers one after the other, modulo d. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dpb_feature_cross(a: u32, b: u32, d: u32) -> u32 {
    request::feature_cross(a, b, d)
}
