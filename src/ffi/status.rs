//! Status codes, names and versions.

use crate::error::Error;
use std::ffi::{CStr, c_char};

/// The result of a call: DPB_OK (0), or the reason why the call was refused. A refused call changes nothing, unless
/// its comment says otherwise.
pub type dpb_status = i32;

/// The call succeeded.
pub const DPB_OK: dpb_status = 0;
/// A required pointer is NULL.
pub const DPB_NULL: dpb_status = 1;
/// A configuration or an argument is out of its range. A dpb_error names the field and the value.
pub const DPB_INVALID_CONFIG: dpb_status = 2;
/// The reward is not finite, or outside the declared range; with reward_bits 0 also: it is neither reward_min nor
/// reward_max.
pub const DPB_INVALID_REWARD: dpb_status = 3;
/// This handle never issued this ticket, or has no record of this id.
pub const DPB_UNKNOWN_TICKET: dpb_status = 4;
/// The ticket already has a reward, or is cancelled; or the decision of this id has ended; or the contribution was
/// added before.
pub const DPB_DUPLICATE: dpb_status = 5;
/// The reward window of the ticket is over, or a later decision took its place in the pending table; or the version of
/// the table is closed or unknown; or the contribution is for another generation.
pub const DPB_EXPIRED: dpb_status = 6;
/// There is no result yet; or a restored handle that counts users waits for dpb_stored, or a resumed one for
/// dpb_claimed.
pub const DPB_NOT_READY: dpb_status = 7;
/// It has ended and takes no more: a stopping rule that has halted, a counter of bounded length that is
/// full, a handle that was suspended, or a node that has left.
pub const DPB_HALTED: dpb_status = 8;
/// The buffer is too small. The needed size was written.
pub const DPB_BUFFER_TOO_SMALL: dpb_status = 9;
/// The bytes are truncated or altered.
pub const DPB_CORRUPT: dpb_status = 10;
/// The structure or snapshot comes from a newer library.
pub const DPB_NEWER_VERSION: dpb_status = 11;
/// The operating system gave no randomness, without which nothing is private.
pub const DPB_ENTROPY: dpb_status = 12;
/// This policy or this configuration does not support the call.
pub const DPB_UNSUPPORTED: dpb_status = 13;
/// The handle is closed: an earlier call failed half-way, or the process was forked after the handle was made.
/// Continuing could break the privacy accounting.
pub const DPB_POISONED: dpb_status = 14;
/// There is not enough memory. Nothing has changed.
pub const DPB_NO_MEMORY: dpb_status = 15;
/// The request names a new segment, and the handle has max_segments segments; or a record is new, and the ids of
/// table_capacity decisions must be kept.
pub const DPB_FULL: dpb_status = 16;
/// The budget of the configuration is too small for this handle. Nothing was charged.
pub const DPB_OVER_BUDGET: dpb_status = 17;
/// The request cannot be met: an arm does not exist or is retired, no arm is eligible, or slots is out of range.
pub const DPB_INVALID_REQUEST: dpb_status = 18;

impl Error {
    pub(super) fn status(&self) -> dpb_status {
        match self {
            Error::InvalidConfig { .. } => DPB_INVALID_CONFIG,
            Error::InvalidRequest { .. } => DPB_INVALID_REQUEST,
            Error::InvalidReward => DPB_INVALID_REWARD,
            Error::UnknownTicket => DPB_UNKNOWN_TICKET,
            Error::Duplicate => DPB_DUPLICATE,
            Error::Expired | Error::ExpiredState(_) => DPB_EXPIRED,
            Error::NotReady | Error::NotStored => DPB_NOT_READY,
            Error::Halted => DPB_HALTED,
            Error::BufferTooSmall { .. } => DPB_BUFFER_TOO_SMALL,
            Error::Corrupt => DPB_CORRUPT,
            Error::NewerVersion => DPB_NEWER_VERSION,
            Error::Entropy => DPB_ENTROPY,
            Error::Unsupported(_) => DPB_UNSUPPORTED,
            Error::Poisoned => DPB_POISONED,
            Error::NoMemory => DPB_NO_MEMORY,
            Error::Full { .. } => DPB_FULL,
            Error::OverBudget(_) => DPB_OVER_BUDGET,
        }
    }
}

fn name(status: dpb_status) -> &'static CStr {
    match status {
        DPB_OK => c"DPB_OK",
        DPB_NULL => c"DPB_NULL",
        DPB_INVALID_CONFIG => c"DPB_INVALID_CONFIG",
        DPB_INVALID_REWARD => c"DPB_INVALID_REWARD",
        DPB_UNKNOWN_TICKET => c"DPB_UNKNOWN_TICKET",
        DPB_DUPLICATE => c"DPB_DUPLICATE",
        DPB_EXPIRED => c"DPB_EXPIRED",
        DPB_NOT_READY => c"DPB_NOT_READY",
        DPB_HALTED => c"DPB_HALTED",
        DPB_BUFFER_TOO_SMALL => c"DPB_BUFFER_TOO_SMALL",
        DPB_CORRUPT => c"DPB_CORRUPT",
        DPB_NEWER_VERSION => c"DPB_NEWER_VERSION",
        DPB_ENTROPY => c"DPB_ENTROPY",
        DPB_UNSUPPORTED => c"DPB_UNSUPPORTED",
        DPB_POISONED => c"DPB_POISONED",
        DPB_NO_MEMORY => c"DPB_NO_MEMORY",
        DPB_FULL => c"DPB_FULL",
        DPB_OVER_BUDGET => c"DPB_OVER_BUDGET",
        DPB_INVALID_REQUEST => c"DPB_INVALID_REQUEST",
        _ => c"unknown status",
    }
}

/// The name of a status, for logs: "DPB_OK"; "unknown status" for a number that is none. A static
/// string, never freed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dpb_status_name(status: dpb_status) -> *const c_char {
    name(status).as_ptr()
}

/// The version of the linked library's interface: major << 16 | minor. A program keeps working with a
/// library of the same major version that is not older than DPB_ABI_VERSION, its header's. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dpb_abi_version() -> u32 {
    const fn number(text: &str) -> u32 {
        let (mut value, mut i) = (0, 0);
        while i < text.len() {
            value = value * 10 + (text.as_bytes()[i] - b'0') as u32;
            i += 1;
        }
        value
    }
    const { number(env!("CARGO_PKG_VERSION_MAJOR")) << 16 | number(env!("CARGO_PKG_VERSION_MINOR")) }
}

/// The version of the linked library, "0.1.0"; DPB_VERSION_STRING is the header's. A static string, never
/// freed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dpb_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    };
    VERSION.as_ptr()
}
