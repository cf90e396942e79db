//! dpb_rows: the commands of a dpb_node over rows of a host's database.

use super::calls::{functions, given};
use super::guard::{run, slice, write_list};
use super::node::{FIRST_KIND, dpb_bytes, dpb_command};
use super::sized;
use super::status::{DPB_NULL, dpb_status};
use crate::error::Error;
use crate::node::command::{Command, CommandKind};
use crate::node::store::{self, Done, RowStore, RowsFailed};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

/// The rows of a host's database, in a transaction of dpb_store_run. A key has up to 400 bytes, a value up to some MB.
/// Each callback returns 0, or another number if the database failed. Keys and values are bytes, not text.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_rows {
    /// Passed to each callback.
    pub host: *mut c_void,
    /// Sets value and len to the value with this key, which stays valid until the next callback; value to NULL if there
    /// is none.
    pub get: Option<
        unsafe extern "C" fn(
            host: *mut c_void,
            key: *const u8,
            key_len: usize,
            value: *mut *const u8,
            len: *mut usize,
        ) -> i32,
    >,
    /// Writes a value, in place of that with this key if there is one.
    pub put: Option<
        unsafe extern "C" fn(host: *mut c_void, key: *const u8, key_len: usize, value: *const u8, len: usize) -> i32,
    >,
    /// Removes the value with this key, if there is one.
    pub remove: Option<unsafe extern "C" fn(host: *mut c_void, key: *const u8, key_len: usize) -> i32>,
    /// Calls each(rows, ...) for every key that begins with these bytes, in any order. It must not call back from
    /// another thread.
    pub list: Option<
        unsafe extern "C" fn(
            host: *mut c_void,
            prefix: *const u8,
            prefix_len: usize,
            each: dpb_each_row,
            rows: *mut c_void,
        ) -> i32,
    >,
}

/// What dpb_rows.list calls for each row.
pub type dpb_each_row =
    Option<unsafe extern "C" fn(rows: *mut c_void, key: *const u8, key_len: usize, value: *const u8, len: usize)>;

fn done(failed: i32) -> Done {
    if failed == 0 { Ok(()) } else { Err(RowsFailed) }
}

// In all of it, SAFETY: the host's functions take such arguments, by contract. `store_run` has refused a NULL.
impl RowStore for dpb_rows {
    fn get(&mut self, key: &[u8]) -> Done<Option<Vec<u8>>> {
        let (mut value, mut len) = (null(), 0);
        // SAFETY: as above; a value is valid for its length until the next call.
        unsafe {
            done((self.get.ok_or(RowsFailed)?)(self.host, key.as_ptr(), key.len(), &raw mut value, &raw mut len))?;
            Ok((!value.is_null()).then(|| slice(value, len).to_vec()))
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Done {
        // SAFETY: as above.
        done(unsafe { (self.put.ok_or(RowsFailed)?)(self.host, key.as_ptr(), key.len(), value.as_ptr(), value.len()) })
    }

    fn delete(&mut self, key: &[u8]) -> Done {
        // SAFETY: as above.
        done(unsafe { (self.remove.ok_or(RowsFailed)?)(self.host, key.as_ptr(), key.len()) })
    }

    fn list(&mut self, prefix: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Done {
        let (mut visit, list) = (RowVisit { each, has_failed: false }, self.list.ok_or(RowsFailed)?);
        // SAFETY: as above; `visit` outlives the call.
        done(unsafe { list(self.host, prefix.as_ptr(), prefix.len(), Some(visited), (&raw mut visit).cast()) })?;
        done(i32::from(visit.has_failed))
    }
}

struct RowVisit<'a> {
    each: &'a mut dyn FnMut(&[u8], &[u8]),
    has_failed: bool,
}

/// Passes a row to a `RowVisit`. No panic reaches the host.
unsafe extern "C" fn visited(rows: *mut c_void, key: *const u8, key_len: usize, value: *const u8, len: usize) {
    // SAFETY: `list` passed it, and the host calls this before it returns.
    let visit = unsafe { &mut *rows.cast::<RowVisit>() };
    // SAFETY: valid for their lengths, by contract.
    let row = unsafe { (slice(key, key_len), slice(value, len)) };
    visit.has_failed |= catch_unwind(AssertUnwindSafe(|| (visit.each)(row.0, row.1))).is_err();
}

functions! {
    /// Runs a command on rows of the host's database, in place of a script: for databases that are not Redis. Run it in
    /// a transaction that overlaps with no other of the same fleet: lock a row of the fleet's name first.
    /// dpb.fleet.File of the Python package does it with SQLite.
    ///
    /// rows: callbacks of the host. command: from dpb_node_next or dpb_node_gone. now_ms: the database's time, in
    /// milliseconds since 1970. buf: receives up to cap bytes of the reply. len: receives its length.
    /// Returns DPB_OK: commit, then dpb_node_reply; DPB_BUFFER_TOO_SMALL (len written): roll back, call it again;
    /// DPB_NOT_READY (a callback failed), DPB_INVALID_CONFIG (no command for a store), DPB_NEWER_VERSION, DPB_NO_MEMORY:
    /// roll back, then dpb_node_failed; DPB_NULL. Any thread.
    fn dpb_store_run(rows: *const dpb_rows, command: *const dpb_command, now_ms: u64, buf: *mut u8, cap: usize,
        len: *mut usize)
        = store_run(rows, command, now_ms, (buf, cap, len));
}

/// # Safety
/// Pointers are NULL or valid, `buf` for as many bytes as it says.
unsafe fn store_run(
    rows: *const dpb_rows,
    command: *const dpb_command,
    now_ms: u64,
    (buf, cap, len): (*mut u8, usize, *mut usize),
) -> dpb_status {
    // SAFETY: as above.
    let rows = unsafe { rows.as_ref() }.copied();
    let is_whole = |of: &dpb_rows| of.get.is_some() && of.put.is_some() && of.remove.is_some() && of.list.is_some();
    let rows = rows.filter(is_whole).filter(|_| !command.is_null() && !len.is_null() && !given("", buf, cap).1);
    let Some(mut rows) = rows else { return DPB_NULL };
    // SAFETY: not NULL, so valid by contract.
    run(|| unsafe {
        sized::known::<dpb_command>(command.cast::<u32>().read())?;
        let command = &*command;
        let kind = command.kind.checked_sub(FIRST_KIND).and_then(|kind| CommandKind::ALL.get(kind as usize));
        let wrong = || Error::config("kind", "must be a command for the store", command.kind);
        let list = |first, len| slice::<dpb_bytes>(first, len).iter().map(|of| slice(of.bytes, of.len).to_vec());
        let command = Command {
            kind: *kind.ok_or_else(wrong)?,
            keys: list(command.keys, command.keys_len).collect(),
            args: list(command.args, command.args_len).collect(),
        };
        write_list(store::run(&mut rows, &command, now_ms).map_err(|RowsFailed| Error::NotReady), (buf, cap, len))
    })
}
