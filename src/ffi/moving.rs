//! States that move: a handle ends, and another one continues with all that it knew.

use super::bandit::dpb_bandit;
use super::calls::{explained_with_bytes, explained_with_output, functions};
use super::config::dpb_error;
use super::generated::config::dpb_config;
use super::guard::call;
use super::snapshot::restored_as;
use super::status::dpb_status;
use crate::bandit::Bandit;
use std::ffi::c_char;

/// How old a state at rest may be, in seconds: see dpb_resume.
pub const DPB_STATE_LIFETIME: u64 = 3600;

const _: () = assert!(DPB_STATE_LIFETIME == Bandit::STATE_LIFETIME);

functions! {
    /// Ends a handle, and writes its whole state, sealed by dpb_config.fleet_key, for one other handle to continue from
    /// (dpb_resume): open batches, open decisions with the rewards that wait, counters of users. So a restart loses
    /// nothing, and the tickets of the old process are valid in the new one. Every later call on this handle is
    /// DPB_HALTED;
    /// free it, which wipes what it knew. If the call fails, the handle has not ended.
    ///
    /// **One handle at most may continue from a state.** If two do, a reward that was open in it loses its epsilon
    /// twice. A snapshot has no such limit, because it has no open sums (Theorem M, in src/moving.rs). So a state has
    /// an address, or is at rest:
    /// * receiver: a number from dpb_receiver of a handle in the process that resumes. That process accepts one state
    /// for
    ///   it. Prefer this form.
    /// * receiver 0: at rest, for example in a file. See dpb_claimed for what you must do then.
    ///
    /// When a handle is suspended must not depend on rewards. The length depends on public counts alone: some 400
    /// bytes, 20 for each place of the ring (8 without a reward_window), and for each arm 90 to 300; with segments 56
    /// for each arm in each; with features also 2 d + 8 for each place of the ring, and 4 d (3 d + 13) + 60 for each
    /// model.
    ///
    /// buf: receives up to cap bytes (NULL with cap = 0). len: receives the length, also if cap is too small; call it
    /// with cap = 0 first, and leave some room, because it may grow between two calls. error: NULL, or filled on
    /// failure. Other threads wait.
    /// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only len written); DPB_UNSUPPORTED (no fleet_key);
    /// DPB_NO_MEMORY;
    /// DPB_NOT_READY (the handle is held itself); DPB_HALTED; DPB_POISONED. Any thread.
    fn dpb_suspend(bandit: *mut dpb_bandit, receiver: u64, buf: *mut u8, cap: usize, len: *mut usize,
        error: *mut dpb_error)
        = explained_with_bytes(bandit, error, &[], (buf, cap, len), |b| b.bandit.suspend_within(receiver, cap));

    /// Continues from what another handle's dpb_suspend wrote, as if that handle had never ended. A state at rest is
    /// held: until dpb_claimed every call but dpb_report_read and dpb_free is DPB_NOT_READY.
    ///
    /// The policy is that of the state. config needs the fleet_key. With policies that merge (dpb_merge) these fields
    /// may differ from the suspended handle's: beta (but dpb_new_tt), horizon, forget_after, exploration,
    /// DPB_CLAMP_REWARDS, budget_periods, budget; with the others none but budget. (To change more, use a snapshot.) A
    /// test_seed is not used. The budget is charged as for a new handle; if it was charged for the suspended one
    /// already, only the difference, for more budget_periods. What was merged is not in the state: merge the others'
    /// newest snapshots again. A contributor goes on contributing to the same leader. A leader is alone until it leads
    /// anew, and what was contributed to it stays.
    ///
    /// name: NULL, or the policy's name, which must be the state's. buf: len bytes of any origin. out: receives the
    /// handle, which the caller frees with dpb_free. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_CORRUPT (not sealed by the fleet_key as a state); DPB_NEWER_VERSION; DPB_EXPIRED
    /// (the receiver is not of this process, or has had its state; or a state at rest is older than DPB_STATE_LIFETIME
    /// or from more than a minute in the future, by the clock of the system: restore the newest snapshot then);
    /// DPB_INVALID_CONFIG (a field differs that must not); DPB_UNSUPPORTED (no fleet_key); DPB_OVER_BUDGET;
    /// DPB_ENTROPY; DPB_NO_MEMORY; DPB_POISONED. Any thread.
    fn dpb_resume(name: *const c_char, config: *const dpb_config, buf: *const u8, len: usize,
        out: *mut *mut dpb_bandit, error: *mut dpb_error)
        = restored_as(name, config, buf, len, out, error, Bandit::resume);

    /// Ends the hold of a handle that dpb_resume made from a state at rest. Call it when it is certain that no other
    /// handle continues from that state, now or later. With a file: rename it to a name that no other process uses,
    /// sync the directory, read it, resume, claim, delete it. Never resume from a file that you did not rename
    /// yourself, and keep states out of backups. If the handle is not held, nothing changes.
    ///
    /// Returns DPB_OK; DPB_NULL; DPB_HALTED (suspended); DPB_POISONED. Any thread.
    fn dpb_claimed(bandit: *mut dpb_bandit) = call(bandit, |b| b.bandit.claimed());

    /// Draws a number that one state may be addressed to (dpb_suspend), and be resumed in this process, while this
    /// handle exists. It is kept in memory only, so that no state is accepted twice, whoever replays it. It is no
    /// secret.
    ///
    /// receiver: receives the number, which is not 0. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_FULL (1024 numbers of this handle have had no state); DPB_ENTROPY; DPB_NO_MEMORY;
    /// DPB_POISONED. Any thread.
    fn dpb_receiver(bandit: *mut dpb_bandit, receiver: *mut u64, error: *mut dpb_error)
        = explained_with_output(bandit, error, ("receiver", receiver), |b| b.bandit.receiver());
}
