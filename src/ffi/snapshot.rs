//! Snapshots of handles.

use super::bandit::dpb_bandit;
use super::calls::{construct, explained, explained_with_bytes, functions, given};
use super::config::dpb_error;
use super::generated::config::dpb_config;
use super::guard::slice;
use super::status::dpb_status;
use crate::bandit::Bandit;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::policy::Algorithm;
use std::ffi::{CStr, c_char};

functions! {
    /// Writes a snapshot: what the handle has released, and what is public. You may publish it if all of that may be
    /// public: the configuration, segments' keys and the second moments of features are in it. It contains no
    /// raw sum and no reward; a restored handle starts without the open decisions and batches.
    ///
    // begin generated snapshot
    /// With a snapshot: dpb_new_imed, dpb_new_med, dpb_new_tt, dpb_new_linear, dpb_new_se, dpb_new_lap,
    /// dpb_new_exp3_lap, dpb_new_tsallis, dpb_new_sdp_ae, dpb_new_vb_sdp_ae, dpb_new_ldp_ucb and dpb_new_ldp_klucb.
    // end generated snapshot
    /// A snapshot of dpb_new_sdp_ae and dpb_new_vb_sdp_ae has complete batches; the others are requested again. One of
    /// dpb_new_lap needs a base that has one, or a baseline: the base learns noisy gains. The others have none:
    /// dpb_new_ucb, dpb_new_ucb_bound and dpb_new_private_ucb, because their next releases need raw partial sums;
    /// dpb_new_ucb_int, because its next release is of all of an arm's rewards, whose sum is raw; dpb_new_exp3_tau,
    /// because its weights are functions of raw rewards; baselines, because their sums are raw.
    ///
    /// With dpb_config.max_segments a snapshot has about 390 + 66 K + (40 K + 16) S bytes, K the number of arms and S
    /// that of segments so far. Other threads wait while it is written: some 10 ms for 10,000 segments of 20 arms.
    ///
    /// buf: receives up to cap bytes (NULL with cap = 0). len: receives the length, also if cap is too small: some 400
    /// bytes, and for each arm 43 to 235 (dpb_new_imed, dpb_new_med; dpb_new_tt 3 more; 20 more with a prior,
    /// 8 more for an added one, up to 56 more with dpb_request.examined), or up to 50 (the others). dpb_new_linear: 4
    /// D^2 + 12 D more for each model, D = features + 1, and up to 420 for cells. It may grow between two calls. A
    /// call whose cap is too small takes no memory. May allocate. error: NULL, or filled on failure; for
    /// DPB_UNSUPPORTED it names the state that is not released.
    /// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only len written); DPB_UNSUPPORTED (policies whose state is not
    /// all released); DPB_NO_MEMORY; DPB_POISONED. Any thread.
    fn dpb_snapshot(bandit: *const dpb_bandit, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error)
        = explained_with_bytes(bandit, error, &[], (buf, cap, len), |b| b.bandit.snapshot_within(cap));

    /// Says that a dpb_snapshot of this handle is stored: from now on, whatever happens, a restart finds it or a later
    /// one. With a file that is so after fsync of the file, rename, and fsync of the directory; with a database after
    /// its durable confirmation. Call it after each such write; if the write failed, do not.
    ///
    /// With dpb_config.expected_users the library learns only in periods that a stored snapshot counts. A restored
    /// handle decides nothing before (DPB_NOT_READY), and after dpb_next_period a handle decides and learns from
    /// nobody. A new handle needs no snapshot in its first period. A resumed handle (dpb_resume) learns where the
    /// suspended one did. Without expected_users the call changes nothing. If your program stores nothing, so that a
    /// restart makes another handle with a guarantee of its own, pass a snapshot that you drop.
    ///
    /// snapshot: len bytes that dpb_snapshot wrote for this very handle. An earlier one counts for the periods in it.
    /// error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (a snapshot of another handle, also of the one that this handle was
    /// restored from or resumed after); DPB_CORRUPT; DPB_NEWER_VERSION; DPB_NO_MEMORY; DPB_UNSUPPORTED (the bandit
    /// of a dpb_node); DPB_NOT_READY (the handle is held: dpb_claimed); DPB_HALTED (suspended); DPB_POISONED. Any thread.
    fn dpb_stored(bandit: *mut dpb_bandit, snapshot: *const u8, len: usize, error: *mut dpb_error)
        = explained(bandit, error, &[given("snapshot", snapshot, len)], |b| match b.is_nodes {
            true => Err(Error::unconfigured("dpb_stored: a node knows itself what its store has")),
            false => b.bandit.stored(slice(snapshot, len)),
        });

    /// Makes a handle from a snapshot, with the configuration in it and fresh entropy. The decisions that were open
    /// have expired, and their tickets are DPB_UNKNOWN_TICKET.
    ///
    /// The guarantee holds for all restarts together, however old the snapshot is: no reward of an earlier process
    /// enters a release of a later one. dpb_epsilon_spent is at least the cost of one release, because there may have
    /// been one after the snapshot. A handle that ever had a test_seed is not private.
    ///
    /// With dpb_config.expected_users a new period begins (dpb_next_period), because a snapshot does not contain the
    /// users. The handle refuses decisions with DPB_NOT_READY until dpb_stored. Restore the newest snapshot, write the
    /// new handle's snapshot to the file that a restart reads, call dpb_stored, and then serve. So a program that is
    /// killed, at any time and any number of times, counts every period, and dpb_epsilon_spent is at least the loss.
    ///
    /// buf: len bytes of any origin (NULL with len = 0, which is no snapshot). out: receives the handle, which the
    /// caller frees with dpb_free. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_CORRUPT; DPB_NEWER_VERSION; DPB_INVALID_CONFIG; DPB_UNSUPPORTED (bytes that claim
    /// to be of a policy without snapshots); DPB_OVER_BUDGET (all dpb_config.budget_periods have begun); DPB_ENTROPY;
    /// DPB_NO_MEMORY. Any thread.
    fn dpb_restore(buf: *const u8, len: usize, out: *mut *mut dpb_bandit, error: *mut dpb_error)
        = construct(out, error, &[given("buf", buf, len)], || Bandit::restore(slice(buf, len)).map(dpb_bandit::of));

    /// dpb_restore with another configuration: you can change parameters by a restart, and keep what was learned.
    ///
    // begin generated restart
    /// These must be as in the snapshot, because they say how released numbers are read: the policy (name), arms,
    /// epsilon, delta, reward_min, reward_max, reward_bits, parts, part_weights, DPB_LEARN_CLIP,
    /// contributions_per_user, winners, max_slots, max_clicks, features, feature_model, DPB_PRIVATE_FEATURES,
    /// codebook_len, control_share, sticky, batch, base and DPB_SHUFFLE_PRINTED; with dpb_new_vb_sdp_ae horizon,
    /// which plans its batches; and with policies that decide for an arm (dpb_best_arm) beta, because the decision
    /// has it. Otherwise the call is DPB_INVALID_CONFIG, and error names the field. These are taken from config:
    /// beta, horizon, DPB_CLAMP_REWARDS, pending_capacity, table_capacity, reward_window, node, forget_after,
    /// exploration, expected_users, budget_periods, a max_segments that the snapshot's segments fit into, tolerance,
    /// planned_end, clock, fleet_key, codebook, budget, interval_exponent and DPB_RIGOROUS_INDEX. A test_seed is not
    /// used. If there was no forget_after before, releases begin to age now.
    // end generated restart
    /// If only one of the two configurations has
    /// expected_users, the time without counts as one period, and the rule of dpb_restore for users applies.
    ///
    /// config.budget is charged as for a new handle, with the loss of all restarts together (dpb_restore charges none).
    /// It is DPB_OVER_BUDGET also if an earlier process had a test_seed. name, config: as in dpb_new_policy; name is
    /// NULL for the policy that dpb_new takes. Others as in dpb_restore.
    /// Returns as dpb_restore; DPB_POISONED (a budget from before a fork). Any thread.
    fn dpb_restore_as(name: *const c_char, config: *const dpb_config, buf: *const u8, len: usize,
        out: *mut *mut dpb_bandit, error: *mut dpb_error)
        = restored_as(name, config, buf, len, out, error, |policy, config, bytes| {
            Bandit::restore_as(policy.unwrap_or_else(|| Algorithm::recommended(config)), config, bytes)
        });
}

/// Makes a handle from bytes with a configuration, and with a name or NULL.
///
/// # Safety
/// Pointers are NULL or valid, `buf` for `len` bytes.
pub(super) unsafe fn restored_as(
    name: *const c_char,
    config: *const dpb_config,
    buf: *const u8,
    len: usize,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
    restore: impl FnOnce(Option<Algorithm>, &Config, &[u8]) -> Result<Bandit>,
) -> dpb_status {
    let required = [("config", config.is_null()), given("buf", buf, len)];
    // SAFETY: as above; config is not NULL, nor is name where it is read, nor buf if there are bytes.
    unsafe {
        construct(out, error, &required, || {
            let config = dpb_config::read(config)?;
            let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy());
            let policy = name.map(|name| name.parse()).transpose()?;
            restore(policy, &config, slice(buf, len)).map(dpb_bandit::of)
        })
    }
}
