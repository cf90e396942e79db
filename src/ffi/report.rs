//! Reading: dpb_report, dpb_arm, dpb_diagnostics.

use super::bandit::dpb_bandit;
use super::guard::{call, call_with_output};
use super::sized::{self, Growing};
use super::status::{DPB_NULL, dpb_status};
use crate::bandit::ArmReport;
use crate::bandit::Bandit;
use crate::error::{Error, Result};
use std::ffi::{CStr, c_char};
use std::mem::offset_of;

/// What may be published of a handle: released values and public counts.
///
/// With a reward_window an answer is a click, so a count of answers would be a raw sum: there
/// `answered` counts decisions whose window is over and `pending` those whose window is not,
/// answered or not.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_report {
    /// sizeof(dpb_report), set by the caller; lets the struct grow.
    pub struct_size: u32,
    /// The policy's epoch, phase or interval; the number of releases where it has batches.
    pub phase: u32,
    /// Arms still in the race.
    pub arms_active: u32,
    /// Decisions whose end is open.
    pub pending: u32,
    /// Decisions handed out.
    pub decisions: u64,
    /// Decisions whose answer took effect.
    pub answered: u64,
    /// Decisions taken back by dpb_cancel.
    pub cancelled: u64,
    /// Decisions pushed out of the pending table unanswered.
    pub expired: u64,
    /// Privacy loss of one user so far, an upper bound at delta_spent; infinite for baselines. With
    /// dpb_config.expected_users: of one who came in all periods so far, p epsilon after p of them where it is pure; in
    /// each of them epsilon.
    /// With a test_seed: what real entropy would have spent.
    pub epsilon_spent: f64,
    /// 0 where the policy is pure.
    pub delta_spent: f64,
    /// 1, or 0 for baselines and under a test_seed.
    pub is_private: u32,
    /// A DPB_POLICY_ number.
    pub policy: u32,
    /// With dpb_config.forget_after: releases that contradicted their arm's past, which was forgotten then.
    pub changes_detected: u64,
    /// With dpb_config.max_segments: segments in use.
    pub segments: u32,
    /// dpb_config.max_segments.
    pub max_segments: u32,
    /// With dpb_config.features: how often a model could not be updated, because a matrix was not positive definite to
    /// working precision. The model before stayed.
    pub failures: u64,
    /// dpb_config.features.
    pub features: u32,
    /// dpb_config.feature_model.
    pub feature_model: u32,
}

/// Counts of refused calls, for the operator's own eyes. NOT private: a duplicate click is a click.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_diagnostics {
    /// sizeof(dpb_diagnostics), set by the caller; lets the struct grow.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Answers or cancellations to a ticket that had one (DPB_DUPLICATE).
    pub duplicates: u64,
    /// Answers or cancellations to a ticket whose time was over (DPB_EXPIRED).
    pub late: u64,
    /// Rewards refused (DPB_INVALID_REWARD).
    pub rejected: u64,
    /// Tickets never issued by this handle (DPB_UNKNOWN_TICKET).
    pub unknown: u64,
    /// Decisions whose row of features was larger than dpb_config.feature_norm, and so scaled down.
    pub oversized: u64,
}

/// What may be published of one arm. 64 bytes, for good: an array of them has no size of its own, so
/// there is room instead.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct dpb_arm {
    /// The released mean in the caller's units, NaN before the first release.
    pub mean: f64,
    /// Half-width of its confidence interval at 1 - beta, in the caller's units; NaN before the
    /// first release.
    pub width: f64,
    /// Decisions for this arm that were not cancelled and did not expire. With dpb_config.expected_users also those that
    /// nobody learned from; effective_pulls is of the others.
    pub pulls: u64,
    /// 1 while the arm is in the race.
    pub active: u32,
    /// 0.
    pub reserved: u32,
    /// Rewards behind the mean, 0 before the first release; with dpb_config.forget_after each one counts by its
    /// power, 1 when it is new and 0 when it is forgotten.
    pub effective_pulls: f64,
    /// 0: room for what is to come.
    pub spare: [f64; 3],
}

const _: () = assert!(size_of::<dpb_report>() == 104);
const _: () = assert!(size_of::<dpb_diagnostics>() == 48);
const _: () = assert!(size_of::<dpb_arm>() == 64);

// SAFETY: repr(C), begins with its size, ends in no padding; all its fields are numbers.
unsafe impl Growing for dpb_report {
    const SHORTEST: usize = offset_of!(dpb_report, changes_detected);
}

// SAFETY: repr(C), begins with its size, ends with a u64; all its fields are numbers.
unsafe impl Growing for dpb_diagnostics {
    const SHORTEST: usize = 40;
}

/// Reads the report. All of it is released already, so reading costs no privacy.
/// out: with struct_size set to sizeof(dpb_report).
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG or DPB_NEWER_VERSION (struct_size); DPB_POISONED.
/// Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_report_read(bandit: *const dpb_bandit, out: *mut dpb_report) -> dpb_status {
    if out.is_null() {
        return DPB_NULL;
    }
    call(bandit, |b: &dpb_bandit| {
        let r = b.bandit.report()?;
        let report = dpb_report {
            struct_size: size_of::<dpb_report>() as u32,
            phase: r.phase,
            arms_active: r.arms_active,
            pending: r.counts.pending() as u32, // at most pending_capacity
            decisions: r.counts.decisions,
            answered: r.counts.answered,
            cancelled: r.counts.cancelled,
            expired: r.counts.expired,
            epsilon_spent: r.epsilon_spent,
            delta_spent: r.delta_spent,
            is_private: r.is_private.into(),
            policy: r.algorithm as u32,
            changes_detected: r.changes_detected,
            segments: r.segments,
            max_segments: r.max_segments,
            failures: r.failures,
            features: r.features,
            feature_model: r.model_per_arm.into(),
        };
        // SAFETY: not NULL, so valid for as many bytes as it says, by contract.
        unsafe { sized::write(out, report) }
    })
}

/// Reads counts of refused calls: the only read that is NOT private. For the operator's own eyes.
/// out: with struct_size set to sizeof(dpb_diagnostics).
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG or DPB_NEWER_VERSION (struct_size); DPB_POISONED.
/// Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_diagnostics_read(bandit: *const dpb_bandit, out: *mut dpb_diagnostics) -> dpb_status {
    if out.is_null() {
        return DPB_NULL;
    }
    call(bandit, |b: &dpb_bandit| {
        let d = b.bandit.diagnostics()?;
        let diagnostics = dpb_diagnostics {
            struct_size: size_of::<dpb_diagnostics>() as u32,
            reserved: 0,
            duplicates: d.duplicates,
            late: d.late,
            rejected: d.rejected,
            unknown: d.unknown,
            oversized: d.oversized,
        };
        // SAFETY: not NULL, so valid for as many bytes as it says, by contract.
        unsafe { sized::write(out, diagnostics) }
    })
}

/// Reads all arms, arm i in place i of out. Released values only.
///
/// With dpb_config.max_segments the arms of all segments together: mean is what the handle believes of the arm in an
/// average segment, a number from the start; width is NaN; O(arms segments). See dpb_segment_read.
///
/// out: room for cap arms (NULL with cap = 0). n: receives the number of arms, also when cap is
/// too small.
/// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only n written); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_arms_read(
    bandit: *const dpb_bandit,
    out: *mut dpb_arm,
    cap: usize,
    n: *mut usize,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { read_arms(bandit, out, cap, n, |b, each| b.for_each_arm(each)) }
}

/// dpb_arms_read for one segment.
///
/// mean is what the handle believes of the arm in this segment, from the releases of all segments: a number from the
/// start, and no estimate from this segment alone. It has no confidence interval, so width is NaN. effective_pulls
/// counts the rewards behind the releases that are this segment's own, here and in handles that were merged,
/// discounted with dpb_config.forget_after: 0 means that all of it comes from other segments.
///
/// segment: the key of an earlier request. out, cap, n: as dpb_arms_read.
/// Returns as dpb_arms_read; DPB_INVALID_REQUEST (no request had this key); DPB_UNSUPPORTED (dpb_config.max_segments is
/// 0). Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_segment_read(
    bandit: *const dpb_bandit,
    segment: u64,
    out: *mut dpb_arm,
    cap: usize,
    n: *mut usize,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { read_arms(bandit, out, cap, n, |b, each| b.for_each_arm_in(segment, each)) }
}

/// # Safety
/// `out` is NULL or has room for `cap` arms, `n` is NULL or valid.
unsafe fn read_arms(
    bandit: *const dpb_bandit,
    out: *mut dpb_arm,
    cap: usize,
    n: *mut usize,
    read: impl FnOnce(&Bandit, &mut dyn FnMut(u32, ArmReport)) -> Result<()>,
) -> dpb_status {
    if n.is_null() || (out.is_null() && cap > 0) {
        return DPB_NULL;
    }
    call(bandit, |b: &dpb_bandit| {
        let needed = b.bandit.arms()? as usize;
        let fits = cap >= needed;
        read(&b.bandit, &mut |arm, a| {
            let read = dpb_arm {
                mean: a.mean,
                width: a.width,
                pulls: a.pulls,
                active: a.active.into(),
                reserved: 0,
                effective_pulls: a.effective_pulls,
                spare: [0.0; 3],
            };
            // Another thread may have added arms since.
            if fits && (arm as usize) < needed {
                // SAFETY: arm < needed <= cap, and there is room for cap, by contract.
                unsafe { out.add(arm as usize).write(read) };
            }
        })?;
        // SAFETY: not NULL, so valid by contract.
        unsafe { n.write(needed) };
        if fits { Ok(()) } else { Err(Error::BufferTooSmall { needed }) }
    })
}

/// The arm that the policy decided for, where it decides for one (dpb_new_se: when one is left).
/// Returns DPB_OK; DPB_NULL; DPB_NOT_READY (until decided); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_best_arm(bandit: *const dpb_bandit, arm: *mut u32) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { call_with_output(bandit, arm, |b: &dpb_bandit| b.bandit.best_arm()) }
}

/// An interval for arm i's mean less arm j's, in the caller's units and within -(reward_max - reward_min) and
/// reward_max - reward_min. From releases alone, so it costs no privacy. However often it is read and whenever one stops
/// reading: with a chance of at least confidence all intervals that this handle ever gives for these two arms hold the
/// true difference. (Where many pairs are read, the chances that one fails add up.) Where low is above 0, arm i is better.
///
/// An arm's mean is what the rewards behind its releases were expected to be on average, as clamped. Where its rate moves,
/// it is the average over them, in which rewards of batches that the noise drowns count for less. dpb_new_imed (dpb_new),
/// dpb_new_klucb and dpb_new_med learn from all releases, merged ones too; each merge that is news makes the interval a
/// little wider. dpb_new_ts and dpb_new_se keep an arm's last release only. A policy of least regret plays a worse arm
/// only as long as it must, some ln T nats, and does not know for 10^5 decisions: set dpb_config.exploration to know
/// sooner. With two arms of 5% and 4.5%, confidence 0.95 and epsilon 1, dpb_new_imed knows after 130,000 decisions on average
/// at exploration 1, and after 350,000 at 0.2; with epsilon 0.1 after 250,000 and 650,000. A restored handle promises it for
/// its own life. When a handle is saved, merged or restored must not depend on what was released. One supermartingale for
/// both arms, mixed over its parameters, and Ville's inequality: proved in src/policy/batched/compare.rs.
///
/// With dpb_config.max_segments the mean is over the requests of all segments, from the releases of trials alone: these
/// take decisions by their number, whatever their segment. It assumes that the mix of segments does not depend on time, nor
/// on the handle where handles merge. No narrower once both arms are known and no longer tried.
///
/// confidence: in (0, 1). low, high: receive the ends. Some milliseconds, outside the handle's lock.
/// Returns DPB_OK; DPB_NULL; DPB_NOT_READY (until both arms have a release); DPB_INVALID_REQUEST (an arm that does not exist
/// or is retired); DPB_INVALID_CONFIG (i = j, confidence); DPB_UNSUPPORTED (other policies;
/// dpb_config.forget_after, because what it forgets has no bound at all times); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_compare(
    bandit: *const dpb_bandit,
    i: u32,
    j: u32,
    confidence: f64,
    low: *mut f64,
    high: *mut f64,
) -> dpb_status {
    if low.is_null() || high.is_null() {
        return DPB_NULL;
    }
    call(bandit, |b: &dpb_bandit| {
        let ends = b.bandit.compare(i, j, confidence)?;
        // SAFETY: not NULL, so valid by contract.
        unsafe {
            low.write(ends.0);
            high.write(ends.1);
        }
        Ok(())
    })
}

/// Privacy loss of one user so far at this delta in [0, 1): an upper bound; infinite for baselines,
/// and at a delta for which the policy has no guarantee. With dpb_config.expected_users: of m = contributions_per_user rewards
/// in each period so far, a restored handle's first one included; a release may hold rewards of several periods,
/// so p periods are m p rewards.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (delta); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_epsilon_spent(bandit: *const dpb_bandit, delta: f64, epsilon: *mut f64) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { call_with_output(bandit, epsilon, |b: &dpb_bandit| b.bandit.epsilon_spent(delta)) }
}

/// The policy's name, such as "dp-se"; "" for NULL. A static string, never freed. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_policy_name(bandit: *const dpb_bandit) -> *const c_char {
    // SAFETY: NULL or live, by contract.
    let name: &CStr = unsafe { bandit.as_ref() }.map_or(c"", |b| b.bandit.algorithm().c_name());
    name.as_ptr()
}

/// The node that issued a ticket: its top 16 bits, and config.node where that is below 65536. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dpb_ticket_node(ticket: u64) -> u16 {
    (ticket >> 48) as u16
}
