//! Fleets: merging; and a fleet with one noise: contributions to a leader, and sealed messages.

use super::bandit::dpb_bandit;
use super::calls::{explained, explained_with_bytes, explained_with_output, functions, given};
use super::config::dpb_error;
use super::guard::slice;
use super::status::dpb_status;

functions! {
    /// Learns from what another handle has released: from its dpb_snapshot, made here or on another machine. Each
    /// handle of a fleet merges the newest snapshots of all others every few seconds, in any order. A repeated or older
    /// snapshot changes nothing. Every reward is in one batch of one handle, so one guarantee holds for all handles
    /// together. Only noisy sums leave a handle: anybody may read what is sent. Whoever alters it can spoil what is
    /// learned, but not the guarantee.
    ///
    /// The batches of an arm are sized by the whole fleet's releases of it, divided by the number of handles (and are
    /// at least four first batches, because every handle adds its own noise). Handles that know the same releases read
    /// the same, to the last bit, whatever the order of merges: dpb_arms_read, and dpb_compare if they have merged as
    /// often. (With dpb_config.forget_after, while none of them decides.) Each other handle takes some 290 bytes for
    /// each of its arms, and the first one 420 more. A snapshot contains what its own handle has released, not what
    /// that handle has merged: after dpb_restore merge the others' again. Arms are joined by their ids (dpb_add_arm).
    /// Two handles restored from one snapshot count as one.
    ///
    /// **Segments** are joined by their keys. A segment that only others know does not count towards max_segments: its
    /// releases wait for the first request with its key, and the segment starts from them. So a new handle that merges
    /// knows what the fleet knows. A segment is as old as its decisions in all handles together. With forget_after, the
    /// releases of others age by this handle's decisions since the merge. Each other handle takes (12 K + 42) (S + 1)
    /// bytes, K the number of arms and S that of its segments, and the first one (32 K + 40) (M + 1) more, M this
    /// handle's max_segments. A merge takes some 10 ms for 10,000 segments of 20 arms.
    ///
    // begin generated merge
    /// For dpb_new_imed, dpb_new_med, dpb_new_tt and dpb_new_linear.
    // end generated merge
    /// snapshot: len bytes of any origin. error: NULL, or filled on failure. The time is proportional to the arms with
    /// new releases; other threads wait.
    /// Returns DPB_OK; DPB_NULL; DPB_CORRUPT; DPB_NEWER_VERSION; DPB_UNSUPPORTED (other policies);
    /// DPB_INVALID_CONFIG (another policy, or a field that must not differ: what dpb_restore_as refuses, and
    /// forget_after); DPB_FULL (1024 others are known, and this is a further one); DPB_NO_MEMORY; DPB_POISONED. Unless
    /// DPB_OK, nothing has changed. Any thread.
    fn dpb_merge(bandit: *mut dpb_bandit, snapshot: *const u8, len: usize, error: *mut dpb_error)
        = explained(bandit, error, &[given("snapshot", snapshot, len)], |b| b.bandit.merge(slice(snapshot, len)));

    /// Makes this handle the leader of its fleet: the handle that releases what the others contribute. A fleet with one
    /// leader has one noise, and learns nearly as fast as one handle. It needs dpb_config.fleet_key.
    ///
    /// The others call dpb_contribution with the leader's generation, and send the bytes to the leader, which calls
    /// dpb_combine. Releases spread as in every fleet: each handle merges the snapshots of all others (dpb_merge). A
    /// handle that leads already keeps its generation. A restored handle does not lead. If several handles lead, each
    /// releases what is contributed to it, with its own noise; no reward is released twice (Theorem C, in
    /// src/contribution.rs).
    ///
    /// generation: receives a random number that is not 0. It is public. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (no fleet_key); DPB_POISONED. Any thread.
    fn dpb_lead(bandit: *mut dpb_bandit, generation: *mut u64, error: *mut dpb_error)
        = explained_with_output(bandit, error, ("generation", generation), |b| b.bandit.lead());

    /// Ends contributing and leading: the handle releases its own full batches again, as before its first
    /// dpb_contribution or dpb_lead. Its open sums stay, and what was contributed to it with them, so no reward is lost
    /// or counted twice. What is addressed to the generation that it led is DPB_EXPIRED from now on: combine first what
    /// has arrived. If the handle is alone already (dpb_report.duty), nothing changes. A restored handle is alone.
    ///
    /// When you call it must not depend on rewards. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (no fleet_key); DPB_POISONED. Any thread.
    fn dpb_alone(bandit: *mut dpb_bandit, error: *mut dpb_error)
        = explained(bandit, error, &[], |b| b.bandit.alone());

    /// Sets how many handles share the work of a fleet with one noise, this one included, from the next batch on. Each
    /// handle takes its part of a batch. With this number a handle need not merge the snapshots of handles that release
    /// nothing: those of leaders, of now and of before, suffice. Set it to the number of handles that are running, as
    /// you know it, when that changes. 0, as at first and after a restore: the handle counts those whose snapshots it
    /// merged lately. The number must not depend on rewards. A wrong one costs learning only.
    ///
    /// error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (no fleet_key); DPB_POISONED. Any thread.
    fn dpb_set_handles(bandit: *mut dpb_bandit, handles: u32, error: *mut dpb_error)
        = explained(bandit, error, &[], |b| b.bandit.set_handles(handles));

    /// Takes the sums of all open batches out of this handle for good, and writes them sealed, for the leader of this
    /// generation. From the first call on this handle releases nothing itself, whether that generation exists or not,
    /// until it leads (dpb_lead) or is alone again (dpb_alone); dpb_report.duty shows it. Call it every few seconds,
    /// send the bytes to that leader only and in their order, and merge the leader's snapshots. What is lost on the way
    /// is lost: its rewards are in no release. Nobody without the key can read or alter the bytes. Their length depends
    /// on public counts alone. When they are taken and sent must not depend on rewards.
    ///
    /// generation: from dpb_lead of another handle. buf: receives up to cap bytes (NULL with cap = 0). len: receives
    /// the length, also if cap is too small; 0: there is nothing to contribute. A call that fails takes nothing out.
    /// The
    /// length: some 280 bytes, and 20 for each arm with open rewards; with segments 32 for each arm in each; with
    /// features 4 d (3 d + 13) + 60 for each model, d the number of features and 1. It may grow between two calls.
    /// error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (generation is 0 or this handle's own); DPB_BUFFER_TOO_SMALL (only
    /// len written); DPB_UNSUPPORTED (no fleet_key); DPB_NO_MEMORY; DPB_POISONED. Any thread.
    fn dpb_contribution(bandit: *mut dpb_bandit, generation: u64, buf: *mut u8, cap: usize, len: *mut usize,
        error: *mut dpb_error)
        = explained_with_bytes(bandit, error, &[], (buf, cap, len), |b| b.bandit.contribution_within(generation, cap));

    /// Adds a contribution to the open batches of this handle, which leads. Batches that are full are released, each
    /// with one noise. A contribution is added once, whatever is repeated, reordered or replayed. Segments that this
    /// handle does not have begin here, up to max_segments. What is beyond that, of arms that this handle does not
    /// have, and of another learned clip, is lost, and counted in dpb_report.contributions_lost.
    ///
    /// contribution: len bytes of any origin. error: NULL, or filled on failure. Other threads wait, as in dpb_merge.
    /// Returns DPB_OK; DPB_NULL; DPB_CORRUPT (not sealed by the fleet_key as a contribution); DPB_EXPIRED (addressed to
    /// another generation: drop it); DPB_DUPLICATE (it, or a later one of its sender, was added: drop it);
    /// DPB_INVALID_CONFIG (a field differs that must not: see dpb_merge); DPB_FULL (2^20 contributors);
    /// DPB_NEWER_VERSION; DPB_UNSUPPORTED (no fleet_key); DPB_NO_MEMORY; DPB_POISONED. Unless DPB_OK,
    /// nothing has changed. Any thread.
    fn dpb_combine(bandit: *mut dpb_bandit, contribution: *const u8, len: usize, error: *mut dpb_error)
        = explained(bandit, error, &[given("contribution", contribution, len)], |b| {
            b.bandit.combine(slice(contribution, len))
        });

    /// Seals a message for the handles of the fleet, for example a click that came to another node than its decision.
    /// Whoever carries it sees that it is sent and its length, and cannot alter it, but can repeat it. (A reward that
    /// is reported twice counts once.) So give all messages one length: as text, a reward of 0.5 is longer than one of
    /// 1.
    ///
    /// message: message_len bytes (NULL with 0). buf: receives up to cap bytes (NULL with cap = 0). len: receives the
    /// length, message_len + DPB_SEAL_BYTES, also if cap is too small. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only len written); DPB_UNSUPPORTED (no fleet_key);
    /// DPB_NO_MEMORY;
    /// DPB_POISONED. Any thread.
    fn dpb_seal(bandit: *const dpb_bandit, message: *const u8, message_len: usize, buf: *mut u8, cap: usize,
        len: *mut usize, error: *mut dpb_error)
        = explained_with_bytes(bandit, error, &[given("message", message, message_len)], (buf, cap, len),
            |b| b.bandit.seal(slice(message, message_len)));

    /// Opens a message that dpb_seal made at a handle with the same fleet_key.
    ///
    /// sealed: sealed_len bytes of any origin (NULL with 0). buf: receives up to cap bytes (NULL with cap = 0). len:
    /// receives the length, sealed_len - DPB_SEAL_BYTES, also if cap is too small. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_CORRUPT (not sealed by the fleet_key as a message); DPB_NEWER_VERSION;
    /// DPB_BUFFER_TOO_SMALL (only len written); DPB_UNSUPPORTED (no fleet_key); DPB_NO_MEMORY; DPB_POISONED. Any
    /// thread.
    fn dpb_open(bandit: *const dpb_bandit, sealed: *const u8, sealed_len: usize, buf: *mut u8, cap: usize,
        len: *mut usize, error: *mut dpb_error)
        = explained_with_bytes(bandit, error, &[given("sealed", sealed, sealed_len)], (buf, cap, len),
            |b| b.bandit.open(slice(sealed, sealed_len)));
}

/// The number of bytes by which dpb_seal makes a message longer.
pub const DPB_SEAL_BYTES: usize = 53;

const _: () = assert!(DPB_SEAL_BYTES == crate::contribution::SEAL);
