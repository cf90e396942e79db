//! Snapshots of handles.

use super::bandit::{dpb_bandit, explained};
use super::config::{dpb_config, dpb_error, explain, produce};
use super::guard::slice;
use super::status::{DPB_NULL, dpb_status};
use crate::bandit::Bandit;
use crate::error::{Error, Result};
use std::ffi::{CStr, c_char};

/// Writes what the handle has released and what is public of it: safe to log and to publish. It holds no
/// raw sum and no answer: what is open is lost to who goes on from it.
///
/// These have one: dpb_new_imed, dpb_new_klucb, dpb_new_med, dpb_new_ts, dpb_new_se, dpb_new_sdp_ae,
/// dpb_new_vb_sdp_ae (complete batches; the others are asked for again), dpb_new_tsallis, dpb_new_exp3_lap,
/// dpb_new_lap (where its base can, be it a baseline: what it learns is noised), dpb_new_ldp_ucb,
/// dpb_new_ldp_klucb. These do not: dpb_new_ucb, dpb_new_ucb_bound, dpb_new_private_ucb (their next releases need
/// partial sums that are raw), dpb_new_ucb_int (its next release is of all of an arm's rewards, and their sum is
/// raw), dpb_new_exp3_tau (its weights are functions of raw rewards), baselines (their sums are raw).
///
/// With dpb_config.max_segments it has about 320 + 66 K + (40 K + 16) S bytes, K the arms and S the segments so far, and
/// the handle is closed to other threads while they are written, some 10 ms for 10,000 segments of 20 arms.
///
/// buf: room for cap bytes (NULL with cap = 0). len: receives how many there are, also when cap is too small:
/// some 200 bytes, and for each arm 18 to 210 (dpb_new_imed, dpb_new_klucb, dpb_new_med; 8 more for an added one),
/// or 24 to 50 (the others), which may grow between two calls. A cap that is too small builds nothing and takes no memory:
/// to ask for the size is cheap, and is no snapshot (dpb_config.expected_users). May allocate.
/// error: NULL, or filled on failure: with what a policy has that is not released, where it is that.
/// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only len written); DPB_UNSUPPORTED (policies whose state
/// is not all released); DPB_NO_MEMORY; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_snapshot(
    bandit: *const dpb_bandit,
    buf: *mut u8,
    cap: usize,
    len: *mut usize,
    error: *mut dpb_error,
) -> dpb_status {
    if len.is_null() || (buf.is_null() && cap > 0) {
        // SAFETY: NULL or valid, by contract.
        unsafe { explain(error, DPB_NULL, if len.is_null() { "len is NULL" } else { "buf is NULL" }) };
        return DPB_NULL;
    }
    // SAFETY: NULL or valid, by contract; not NULL, and room for cap bytes.
    unsafe { explained(bandit, error, |b: &dpb_bandit| fill(b.bandit.snapshot_within(cap), buf, len)) }
}

/// Writes a snapshot that fits, and how long it is in any case.
///
/// # Safety
/// The buffer has room for the snapshot, and `len` for its length.
pub(super) unsafe fn fill(snapshot: Result<Vec<u8>>, buf: *mut u8, len: *mut usize) -> Result<()> {
    let (length, done) = match snapshot {
        Ok(bytes) => {
            // SAFETY: as above.
            unsafe { buf.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            (bytes.len(), Ok(()))
        }
        Err(Error::BufferTooSmall { needed }) => (needed, Err(Error::BufferTooSmall { needed })),
        Err(error) => return Err(error),
    };
    // SAFETY: as above.
    unsafe { len.write(length) };
    done
}

/// A handle that goes on from a snapshot, with the configuration that is in it and fresh entropy. Decisions
/// that were in flight have expired, and their tickets are unknown to it (DPB_UNKNOWN_TICKET).
///
/// The guarantee is one for all lives together, however old the snapshot is: no reward of an earlier life
/// enters a release of a later one. dpb_epsilon_spent says at least what one release costs, because there may have
/// been one since the snapshot. A handle that once had a test_seed is not private.
///
/// With dpb_config.expected_users a new period begins (dpb_next_period), because a snapshot does not tell who came; and no
/// decision is made, DPB_NOT_READY, until a dpb_snapshot of this handle has been written. Go on from the newest snapshot,
/// write this handle's to where the next life begins, and only then serve: so a program that is killed at any
/// time, and any number of times, forgets no period, and dpb_epsilon_spent says at least what was lost. A snapshot that
/// is kept in memory only, or sent elsewhere, does not do that.
///
/// buf: len bytes of any origin (NULL with len = 0, which is no snapshot). out: receives the handle, which the
/// caller frees with dpb_free. error: NULL, or filled on failure.
/// Returns DPB_OK; DPB_NULL; DPB_CORRUPT; DPB_NEWER_VERSION; DPB_INVALID_CONFIG; DPB_UNSUPPORTED (bytes that claim
/// to be of a policy without snapshots); DPB_OVER_BUDGET (all of dpb_config.budget_periods have begun); DPB_ENTROPY;
/// DPB_NO_MEMORY. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_restore(
    buf: *const u8,
    len: usize,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { restored(buf, len, out, error, |bytes| Bandit::restore(bytes).map(dpb_bandit::of)) }
}

/// dpb_restore with another configuration: a service is retuned by a restart, and loses nothing that was learned.
///
/// As in the snapshot must be what says how released numbers are read: the policy (name), arms, epsilon, delta, reward_min,
/// reward_max, reward_bits, contributions_per_user, max_slots, max_clicks, batch, base, DPB_SHUFFLE_PRINTED, and with
/// dpb_new_vb_sdp_ae horizon, which plans its batches. Else DPB_INVALID_CONFIG, and an error that names the field.
/// Taken from config is all else: reward_window, pending_capacity, node, horizon, beta, exploration, forget_after (where
/// there was none before, what was learned begins to age now), users, budget_periods, a max_segments that the
/// snapshot's segments fit into (so a full handle grows), DPB_CLAMP_REWARDS,
/// interval_exponent, DPB_RIGOROUS_INDEX. A test_seed is not used. Where only one of both lives counts users, the other is
/// one period, and what dpb_restore says of users holds.
///
/// config.budget is charged as for a fresh handle, with what all lives together may lose (dpb_restore charges none); it is
/// DPB_OVER_BUDGET too where an earlier life had a test_seed. name, config: as in dpb_new_policy. Parameters, statuses and
/// threads else as dpb_restore.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_restore_as(
    name: *const c_char,
    config: *const dpb_config,
    buf: *const u8,
    len: usize,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    if name.is_null() || config.is_null() {
        // SAFETY: NULL or valid, by contract.
        unsafe { explain(error, DPB_NULL, "name or config is NULL") };
        return DPB_NULL;
    }
    // SAFETY: NULL or valid, by contract; name and config are not NULL.
    unsafe {
        restored(buf, len, out, error, |bytes| {
            let name = CStr::from_ptr(name).to_string_lossy();
            Bandit::restore_as(name.parse()?, &dpb_config::read(config)?, bytes).map(dpb_bandit::of)
        })
    }
}

/// Learns from what another handle has released: from its dpb_snapshot, made here or on another machine. Each handle of
/// a fleet merges the newest snapshots of all others every so often: in any order, again and again, and an older
/// one changes nothing. Every reward is in one batch of one handle, so the guarantee is one for all handles together;
/// only noised sums leave a handle. What crosses the wire may be read by anybody; who alters it can spoil what is
/// learned, not what is promised to anybody.
///
/// A handle's batches of an arm are sized by the whole fleet's releases of it, divided by the handles at work (and at
/// least four first batches, since every handle adds its own noise). Handles that know the same releases read the same,
/// to the last bit, in whatever order they have merged: dpb_arms_read, and dpb_compare where they have merged as often.
/// (With dpb_config.forget_after, while none of them decides.) Each other handle takes some 230 bytes for each of its arms, and
/// the first one 420 more. A snapshot holds what its own handle has released, not what that has
/// merged: after dpb_restore merge the others' again. Arms are joined by their ids (dpb_add_arm). Two handles that
/// go on from one snapshot count as one.
///
/// **Segments** are joined by their keys. A segment that others know and this handle does not takes none of its
/// max_segments: what they have released of it waits for the first request with its key, and the segment begins with
/// that. So a handle that starts empty and merges knows what the fleet knows, and a full one merges as well as any. A
/// segment is as old as its decisions in all handles together. With forget_after, what others have released fades by this
/// handle's decisions from when it came. Each other handle takes (12 K + 42) (S + 1) bytes, K the arms and S its
/// segments, and the first one (32 K + 40) (M + 1) more, M this handle's max_segments; a merge takes some 10 ms for 10,000
/// segments of 20 arms.
///
/// These can: dpb_new_imed, dpb_new_klucb, dpb_new_med, dpb_new_linear. snapshot: len bytes of any origin. error: NULL, or filled on
/// failure. Takes time in proportion to the arms that have news, with the handle closed to other threads.
/// Returns DPB_OK; DPB_NULL; DPB_CORRUPT; DPB_NEWER_VERSION; DPB_UNSUPPORTED (other policies); DPB_INVALID_CONFIG (another
/// policy, or a field that must not differ: what dpb_restore_as refuses, and memory; or more than 1024 others);
/// DPB_NO_MEMORY; DPB_POISONED. Unless DPB_OK, nothing has changed. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_merge(
    bandit: *mut dpb_bandit,
    snapshot: *const u8,
    len: usize,
    error: *mut dpb_error,
) -> dpb_status {
    if snapshot.is_null() && len > 0 {
        // SAFETY: NULL or valid, by contract.
        unsafe { explain(error, DPB_NULL, "snapshot is NULL") };
        return DPB_NULL;
    }
    // SAFETY: NULL or valid, by contract; not NULL where there are bytes.
    unsafe { explained(bandit, error, |b: &dpb_bandit| b.bandit.merge(slice(snapshot, len))) }
}

/// # Safety
/// `buf` is NULL or valid for `len` bytes, `out` and `error` NULL or valid.
pub(super) unsafe fn restored<H>(
    buf: *const u8,
    len: usize,
    out: *mut *mut H,
    error: *mut dpb_error,
    restore: impl FnOnce(&[u8]) -> Result<H>,
) -> dpb_status {
    if buf.is_null() && len > 0 {
        // SAFETY: as above.
        unsafe { explain(error, DPB_NULL, "buf is NULL") };
        return DPB_NULL;
    }
    // SAFETY: as above; buf is not NULL where there are bytes.
    unsafe { produce(out, error, || Ok(Box::into_raw(Box::new(restore(slice(buf, len))?)))) }
}
