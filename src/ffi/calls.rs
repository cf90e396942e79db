//! The forms of the functions: what each does around its body, so that it is written and argued for once.

use super::config::{dpb_error, explain, text};
use super::guard::{Handle, call, catch, write_list};
use super::sized::{self, Growing};
use super::status::{DPB_NULL, DPB_OK, dpb_status};
use crate::error::Result;

/// Functions that return a status: `fn name(parameters) = form(..);`. The test `header` reads them too.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($parameter:ident: $type:ty),*) = $call:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[must_use]
        pub unsafe extern "C" fn $name($($parameter: $type),*) -> dpb_status {
            // SAFETY: pointers are NULL or valid, by contract, and the form checks those that must not be NULL.
            unsafe { $call }
        }
    )*};
}
pub(super) use functions;

/// Runs a call, unless a pointer `is_null` that must not be. Returns DPB_NULL then.
///
/// # Safety
/// `handle` is NULL or live.
#[inline]
pub unsafe fn call_unless<H: Handle>(
    is_null: bool,
    handle: *const H,
    body: impl FnOnce(&H) -> Result<()>,
) -> dpb_status {
    // SAFETY: passed on.
    if is_null { DPB_NULL } else { unsafe { call(handle, body) } }
}

/// Runs a call with one output, which is written only on success.
///
/// # Safety
/// `handle` is NULL or live, `out` NULL or valid.
#[inline]
pub unsafe fn call_with_output<H: Handle, T>(
    handle: *const H,
    out: *mut T,
    body: impl FnOnce(&H) -> Result<T>,
) -> dpb_status {
    // SAFETY: passed on; not NULL where it is written.
    unsafe { call_unless(out.is_null(), handle, |h| body(h).map(|value| out.write(value))) }
}

/// The same with a struct that can grow.
///
/// # Safety
/// `handle` is NULL or live, `out` NULL or valid for the size that it states.
pub unsafe fn call_with_struct<H: Handle, T: Growing>(
    handle: *const H,
    out: *mut T,
    body: impl FnOnce(&H) -> Result<T>,
) -> dpb_status {
    // SAFETY: passed on; not NULL where it is written.
    unsafe { call_unless(out.is_null(), handle, |h| sized::write(out, body(h)?)) }
}

/// Runs a cold call, and explains in `error` (NULL allowed) why it was refused. `required`: as in [`lacks`].
///
/// # Safety
/// `handle` is NULL or live, `error` NULL or valid.
pub unsafe fn explained<H: Handle>(
    handle: *const H,
    error: *mut dpb_error,
    required: &[(&str, bool)],
    body: impl FnOnce(&H) -> Result<()>,
) -> dpb_status {
    // SAFETY: as above.
    if unsafe { lacks(error, required) } {
        return DPB_NULL;
    }
    let mut message = None;
    // SAFETY: passed on.
    let status = unsafe { call(handle, |h| body(h).inspect_err(|failure| message = Some(text(failure)))) };
    if status != DPB_OK {
        let why = match handle.is_null() {
            true => "the handle is NULL",
            false => message.as_deref().unwrap_or("the handle is closed"),
        };
        // SAFETY: as above.
        unsafe { explain(error, status, || why.to_owned()) };
    }
    status
}

/// [`explained`] with one output, which is written only on success.
///
/// # Safety
/// `handle` is NULL or live, `out` and `error` NULL or valid.
pub unsafe fn explained_with_output<H: Handle, T>(
    handle: *const H,
    error: *mut dpb_error,
    (name, out): (&str, *mut T),
    body: impl FnOnce(&H) -> Result<T>,
) -> dpb_status {
    // SAFETY: as above; not NULL where it is written.
    unsafe { explained(handle, error, &[(name, out.is_null())], |h| body(h).map(|value| out.write(value))) }
}

/// [`explained`] with bytes as output, of which `len` receives the number, also if there are more than `cap`.
///
/// # Safety
/// `handle` is NULL or live, `buf` NULL or valid for `cap` bytes, `len` and `error` NULL or valid.
pub unsafe fn explained_with_bytes<H: Handle, B: AsRef<[u8]>>(
    handle: *const H,
    error: *mut dpb_error,
    required: &[(&str, bool)],
    (buf, cap, len): (*mut u8, usize, *mut usize),
    body: impl FnOnce(&H) -> Result<B>,
) -> dpb_status {
    // SAFETY: as above; not NULL where something is written.
    unsafe {
        if lacks(error, required) {
            return DPB_NULL;
        }
        explained(handle, error, &[("len", len.is_null()), given("buf", buf, cap)], |h| {
            write_list(body(h), (buf, cap, len))
        })
    }
}

/// Makes a handle: see [`produce`].
///
/// # Safety
/// `out` and `error` are NULL or valid.
pub unsafe fn construct<H>(
    out: *mut *mut H,
    error: *mut dpb_error,
    required: &[(&str, bool)],
    build: impl FnOnce() -> Result<H>,
) -> dpb_status {
    // SAFETY: as above.
    unsafe { produce(out, error, required, || Ok(Box::into_raw(Box::new(build()?)))) }
}

/// Runs a cold call without a handle: writes what it gives, or explains as [`attempt`].
///
/// # Safety
/// `out` and `error` are NULL or valid.
pub unsafe fn produce<T>(
    out: *mut T,
    error: *mut dpb_error,
    required: &[(&str, bool)],
    body: impl FnOnce() -> Result<T>,
) -> dpb_status {
    // SAFETY: as above; not NULL where it is written.
    unsafe {
        if lacks(error, required) {
            return DPB_NULL;
        }
        attempt(error, &[("out", out.is_null())], || body().map(|value| out.write(value)))
    }
}

/// Runs a cold call without a handle, and explains in `error` (NULL allowed) why it was refused. `required`: as in
/// [`lacks`].
///
/// # Safety
/// `error` is NULL or valid.
pub unsafe fn attempt(
    error: *mut dpb_error,
    required: &[(&str, bool)],
    body: impl FnOnce() -> Result<()>,
) -> dpb_status {
    // SAFETY: as above.
    if unsafe { lacks(error, required) } {
        return DPB_NULL;
    }
    let Err(failure) = catch(body) else { return DPB_OK };
    // SAFETY: as above.
    unsafe { explain(error, failure.status(), || text(&failure)) };
    failure.status()
}

/// A list that is required unless it is empty, for [`lacks`].
pub fn given<T>(name: &str, first: *const T, n: usize) -> (&str, bool) {
    (name, first.is_null() && n > 0)
}

/// Returns whether a required value is NULL, and explains which. `required` has the name of each, and whether it is
/// NULL.
///
/// # Safety
/// `error` is NULL or valid.
unsafe fn lacks(error: *mut dpb_error, required: &[(&str, bool)]) -> bool {
    let Some((name, _)) = required.iter().find(|(_, is_null)| *is_null) else { return false };
    // SAFETY: as above.
    unsafe { explain(error, DPB_NULL, || format!("{name} is NULL")) };
    true
}
