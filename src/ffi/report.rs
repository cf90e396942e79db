//! Reading: dpb_report, dpb_arm, dpb_diagnostics, dpb_verdict.

use super::bandit::dpb_bandit;
use super::calls::{attempt, call_unless, call_with_output, call_with_struct, explained_with_bytes, functions, given};
use super::config::dpb_error;
use super::generated::report::{dpb_arm, dpb_diagnostics, dpb_report, dpb_verdict};
use super::guard::{pairs, write_length, write_list};
use super::sized;
use super::status::dpb_status;
use crate::bandit::{Verdict, Warnings};
use crate::error::{Error, Result};
use crate::ledger::facts::Duty;
use crate::policy::verdict::TestState;
use crate::request::NO_ARM;
use std::ffi::{CStr, c_char};

/// dpb_report.duty: the handle releases its own full batches.
pub const DPB_DUTY_ALONE: u32 = 0;
/// dpb_report.duty: the handle contributes to a leader since its last dpb_contribution, and releases nothing itself.
pub const DPB_DUTY_CONTRIBUTES: u32 = 1;
/// dpb_report.duty: the handle releases its own full batches, with what others contribute.
pub const DPB_DUTY_LEADS: u32 = 2;

const _: () = assert!(
    DPB_DUTY_ALONE == Duty::Alone.number()
        && DPB_DUTY_CONTRIBUTES == Duty::Contributes(0).number()
        && DPB_DUTY_LEADS == Duty::Leads(0).number()
);

/// dpb_report.warnings: with DPB_CLOCK_CALLER dpb_advance has not been called for 1024 decisions, or has not moved the
/// time for as many decisions as may be open, at least 1024. Nothing takes effect, and nothing ages.
pub const DPB_WARN_CLOCK_STOPPED: u32 = 1;
/// dpb_report.warnings: most of the last 1024 decisions expired. Without a reward_window they got no reward and were
/// not cancelled (if only clicks are reported, every mean tends to reward_max); on the caller's clock pending_capacity
/// is too small.
pub const DPB_WARN_EXPIRING: u32 = 2;
/// dpb_report.warnings: with expected_users fewer than one in 100 of the last 1024 decisions are learned from. The
/// requests name no user or the same few, dpb_next_period is not called, or no dpb_stored follows it.
pub const DPB_WARN_UNLEARNED: u32 = 4;
/// dpb_report.warnings: the handle contributes, and has merged no snapshot of another handle in its last 65,536
/// decisions. What it contributes does not come back. See dpb_alone.
pub const DPB_WARN_UNMERGED: u32 = 8;
/// dpb_diagnostics.warnings: all of the last 65,535 rewards that took effect are reward_min. No reward arrives.
pub const DPB_WARN_ALL_SMALLEST: u32 = 16;
/// dpb_diagnostics.warnings: all of the last 1024 rewards that took effect are reward_max; or all of 32 or more since
/// the handle was made, if at most one in four decisions has a reward. Only clicks are reported, or something else than
/// clicks.
pub const DPB_WARN_ALL_LARGEST: u32 = 32;
/// dpb_report.warnings: 16,384 rewards or more took effect, and nothing was released. The first batch of an arm has at
/// least 1/epsilon rewards, so a tiny epsilon plays one arm for long. Set a larger epsilon, or fewer arms.
pub const DPB_WARN_UNRELEASED: u32 = 64;

const _: () = assert!(
    DPB_WARN_CLOCK_STOPPED == Warnings::CLOCK_STOPPED.bits()
        && DPB_WARN_EXPIRING == Warnings::EXPIRING.bits()
        && DPB_WARN_UNLEARNED == Warnings::UNLEARNED.bits()
        && DPB_WARN_UNMERGED == Warnings::UNMERGED.bits()
        && DPB_WARN_ALL_SMALLEST == Warnings::ALL_SMALLEST.bits()
        && DPB_WARN_ALL_LARGEST == Warnings::ALL_LARGEST.bits()
        && DPB_WARN_UNRELEASED == Warnings::UNRELEASED.bits()
);

/// dpb_verdict.state: the test goes on.
pub const DPB_TEST_RUNNING: u32 = 0;
/// dpb_verdict.state: the leader is the best arm, with probability 1 - beta.
pub const DPB_TEST_WON: u32 = 1;
/// dpb_verdict.state: no arm is better than the leader by dpb_config.tolerance or more, with probability 1 - beta.
pub const DPB_TEST_TIED: u32 = 2;
/// dpb_verdict.state: dpb_config.planned_end rewards have come, and nothing is claimed.
pub const DPB_TEST_UNDECIDED: u32 = 3;

/// dpb_statement: JSON in the fields of the public registry of deployments of differential privacy.
pub const DPB_STATEMENT_JSON: u32 = 0;
/// dpb_statement: a page of English prose for a privacy officer.
pub const DPB_STATEMENT_PROSE: u32 = 1;

const _: () = assert!(
    DPB_TEST_RUNNING == TestState::Running as u32
        && DPB_TEST_WON == TestState::Won as u32
        && DPB_TEST_TIED == TestState::Tied as u32
        && DPB_TEST_UNDECIDED == TestState::Undecided as u32
);

functions! {
    /// Reads the report. All of it is released already, so reading costs no privacy.
    /// out: with struct_size set to sizeof(dpb_report).
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG or DPB_NEWER_VERSION (struct_size); DPB_POISONED. Any thread.
    fn dpb_report_read(bandit: *const dpb_bandit, out: *mut dpb_report)
        = call_with_struct(bandit, out, |b| Ok(b.bandit.report()?.into()));

    /// Reads the counts of refused calls, for the operator only. This is the only read that is NOT private.
    /// out: with struct_size set to sizeof(dpb_diagnostics).
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG or DPB_NEWER_VERSION (struct_size); DPB_POISONED. Any thread.
    fn dpb_diagnostics_read(bandit: *const dpb_bandit, out: *mut dpb_diagnostics)
        = call_with_struct(bandit, out, |b| Ok(b.bandit.diagnostics()?.into()));

    /// Reads all arms: arm i is element i of out. Released values only.
    ///
    /// With dpb_config.max_segments an arm's mean is the prediction for an average segment, a number from the start;
    /// width is NaN; O(arms segments). See dpb_segment_read.
    ///
    /// out: receives up to cap arms (NULL with cap = 0). n: receives the number of arms, also if cap is too small. Then
    /// the call takes no longer than the count.
    /// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only n written); DPB_POISONED. Any thread.
    fn dpb_arms_read(bandit: *const dpb_bandit, out: *mut dpb_arm, cap: usize, n: *mut usize)
        = read_arms(bandit, None, out, cap, n);

    /// dpb_arms_read for one segment.
    ///
    /// mean is the prediction for the arm in this segment, from the releases of all segments: a number from the start,
    /// and no estimate from this segment alone. It has no confidence interval, so width is NaN. effective_pulls counts
    /// the rewards behind the releases that are this segment's own, here and in merged handles, discounted with
    /// dpb_config.forget_after. 0 means that the prediction comes from other segments alone.
    ///
    /// segment: the key of an earlier request. out, cap, n: as dpb_arms_read.
    /// Returns as dpb_arms_read; DPB_INVALID_REQUEST (no request had this key); DPB_UNSUPPORTED
    /// (dpb_config.max_segments is 0). Any thread.
    fn dpb_segment_read(bandit: *const dpb_bandit, segment: u64, out: *mut dpb_arm, cap: usize, n: *mut usize)
        = read_arms(bandit, Some(segment), out, cap, n);

    /// Reads the arm that the policy decided for, because it is the only one left.
    // begin generated decide
    /// For dpb_new_lap if its base decides, and for dpb_new_tt, dpb_new_se, dpb_new_nonprivate_se, dpb_new_sdp_ae and
    /// dpb_new_vb_sdp_ae.
    // end generated decide
    /// Returns DPB_OK; DPB_NULL; DPB_NOT_READY (until decided); DPB_UNSUPPORTED (a policy that never decides);
    /// DPB_POISONED. Any thread.
    fn dpb_best_arm(bandit: *const dpb_bandit, arm: *mut u32)
        = call_with_output(bandit, arm, |b| b.bandit.best_arm());

    /// Reads what the test of dpb_new_tt says, from releases and public counts alone: it costs no privacy.
    /// docs/theory/top-two.md has the theorem. Takes some milliseconds while the test goes on, outside the handle's lock.
    /// out: with struct_size set to sizeof(dpb_verdict).
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG or DPB_NEWER_VERSION (struct_size); DPB_UNSUPPORTED (other
    /// policies); DPB_POISONED. Any thread.
    fn dpb_verdict_read(bandit: *const dpb_bandit, out: *mut dpb_verdict)
        = call_with_struct(bandit, out, |b| Ok(b.bandit.verdict()?.into()));

    /// Says a verdict in words, in English, such as "Arm 1 is the best of 3, after 35210 rewards. Its mean minus that of
    /// arm 0 is 0.0042 to 0.0160 (95%)."
    /// verdict: of dpb_verdict_read, with struct_size set. buf: receives up to cap bytes of UTF-8 without a NUL (NULL with
    /// cap = 0). len: receives the length, also if cap is too small.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG or DPB_NEWER_VERSION (struct_size, state); DPB_BUFFER_TOO_SMALL (only
    /// len written). Any thread.
    fn dpb_verdict_text(verdict: *const dpb_verdict, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error)
        = attempt(error, &[("verdict", verdict.is_null()), ("len", len.is_null()), given("buf", buf, cap)], || {
            let verdict = Verdict::try_from(sized::read(verdict, std::mem::zeroed())?)?;
            write_list(Ok(verdict.to_string()), (buf, cap, len))
        });

    /// States what the handle guarantees: its unit, epsilon, delta, composition, mechanism, what is released and what is not
    /// protected, versions, how to audit it, and what is spent. All of it is public. In the JSON "deployment" has the
    /// fields of the registry, null where only the operator knows them; a bound that does not exist is null.
    /// form: DPB_STATEMENT_JSON or DPB_STATEMENT_PROSE. buf: receives up to cap bytes of UTF-8 without a NUL (NULL with
    /// cap = 0). len: receives the length, also if cap is too small; some 3 kB, and it may change between two calls.
    /// error: NULL, or filled on failure. Allocates.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (form); DPB_BUFFER_TOO_SMALL (only len written); DPB_POISONED. Any
    /// thread.
    fn dpb_statement(
        bandit: *const dpb_bandit, form: u32, buf: *mut u8, cap: usize, len: *mut usize, error: *mut dpb_error
    ) = explained_with_bytes(bandit, error, &[], (buf, cap, len), |b| match form {
            DPB_STATEMENT_JSON => Ok(b.bandit.statement()?.json()),
            DPB_STATEMENT_PROSE => Ok(b.bandit.statement()?.to_string()),
            _ => Err(Error::config("form", "must be DPB_STATEMENT_JSON or DPB_STATEMENT_PROSE", form)),
        });

    /// Reads a confidence interval for arm i's mean minus arm j's, in the caller's units. If low is above 0, arm i is
    /// better. The interval is computed from releases alone, so it costs no privacy. It is valid at all times together:
    /// with a probability of at least confidence, all intervals that this handle ever gives for these two arms contain
    /// the true difference, however often you read and whenever you stop. If you read many pairs, their failure
    /// probabilities add up.
    ///
    /// An arm's mean is the expected average of the rewards behind its releases, as clamped. If its rate changes, it is
    /// the average over them, in which rewards of batches with much noise count for less. dpb_new_imed (dpb_new),
    /// dpb_new_med and dpb_new_tt use all releases, merged ones too; each merge with new releases makes the interval a
    /// little wider. dpb_new_se uses an arm's last release only.
    ///
    /// A policy of least regret plays a worse arm only about ln T times, and cannot tell two arms apart for 10^5
    /// decisions: set dpb_config.exploration for sooner results. With two arms of 5% and 4.5%, confidence 0.95 and
    /// epsilon 1, dpb_new_imed needs 130,000 decisions on average at exploration 1, and 350,000 at 0.2; at epsilon 0.1
    /// 250,000 and 650,000. The probability is for one restart of a handle. When you save, merge or restore must not
    /// depend on releases. Proof, by a supermartingale and Ville's inequality: docs/theory/compare.md.
    ///
    /// With dpb_config.max_segments the mean is over the requests of all segments, from the releases of trial decisions
    /// alone, which are chosen by their number whatever their segment. It assumes that the mix of segments depends
    /// neither on time nor, if handles merge, on the handle. The interval stops narrowing when both arms are known and
    /// no longer tried.
    ///
    /// confidence: in (0, 1). low, high: receive the ends, within -(reward_max - reward_min) and reward_max -
    /// reward_min. Takes some milliseconds, outside the handle's lock.
    /// Returns DPB_OK; DPB_NULL; DPB_NOT_READY (until both arms have a release); DPB_INVALID_REQUEST (an arm that does
    /// not exist or is retired); DPB_INVALID_CONFIG (i = j, confidence); DPB_UNSUPPORTED (other policies;
    /// dpb_config.forget_after, because what it forgets has no bound at all times); DPB_POISONED. Any thread.
    fn dpb_compare(bandit: *const dpb_bandit, i: u32, j: u32, confidence: f64, low: *mut f64, high: *mut f64)
        = call_unless(low.is_null() || high.is_null(), bandit, |b| {
            (*low, *high) = b.bandit.compare(i, j, confidence)?;
            Ok(())
        });

    /// Reads what the policy has gained, as a confidence interval: the mean reward of the decisions so far, divided by
    /// that of a control, minus 1. low 0.12 and high 0.19 say that it is 12% to 19% better. It is computed from
    /// releases alone, so it costs no privacy. It is valid at all times together: with a probability of at least
    /// confidence, all intervals that this handle ever gives contain the truth, for all controls, however often you
    /// read.
    ///
    /// It takes the mean of each arm for constant, and counts this handle's decisions (dpb_arm.pulls). Values and costs
    /// of requests do not count. An arm that was shown seldom makes it wide, so it narrows sooner with
    /// dpb_config.exploration. Proof: docs/theory/lift.md.
    ///
    /// With dpb_config.features arms have no means. There it needs dpb_config.exploration, and compares samples: of the
    /// policy's own decisions, and of even draws, for the same requests, over all releases that the handle knows. Requests
    /// with values or several slots are in neither. It needs no constant means, and works with dpb_config.forget_after.
    ///
    /// control: an arm; or DPB_NO_ARM, an even draw of all arms that are not retired. confidence: in (0, 1). low, high:
    /// receive the ends, at least -1; high is infinite if the control's mean may be 0. Takes about a millisecond for
    /// each arm, outside the handle's lock. May allocate.
    /// Returns DPB_OK; DPB_NULL; DPB_NOT_READY (before the first decision, and until each arm of the control has a
    /// release); DPB_INVALID_REQUEST (a control that does not exist or is retired); DPB_INVALID_CONFIG (confidence);
    /// DPB_UNSUPPORTED (where dpb_compare is; dpb_config.max_segments; reward_min below 0; with dpb_config.features: an
    /// exploration of 0 or 1, an arm as control); DPB_POISONED. Any thread.
    fn dpb_lift(bandit: *const dpb_bandit, control: u32, confidence: f64, low: *mut f64, high: *mut f64)
        = call_unless(low.is_null() || high.is_null(), bandit, |b| {
            (*low, *high) = b.bandit.lift((control != NO_ARM).then_some(control), confidence)?;
            Ok(())
        });

    /// Reads the weights of the features in the model of an arm, each with its standard deviation: by how much one unit of
    /// the feature changes the logit of the mean reward, ln(p/(1 - p)) of a mean p of the range. The intercept is the last
    /// one. A weight within two deviations of 0 is not known to matter. They are functions of releases and features, so they
    /// cost no privacy. Before the first release of the model they are its prior.
    ///
    /// arm: with DPB_MODEL_SHARED any arm, as all have one model. mean, deviation: each NULL, or receives up to cap
    /// numbers, by the index of the feature. n: receives their number, dpb_config.features + 1, also if cap is too small.
    /// Takes O(features^3), with the handle's lock held: some milliseconds for 256 features.
    /// Returns DPB_OK; DPB_NULL; DPB_BUFFER_TOO_SMALL (only n written); DPB_INVALID_REQUEST (an arm that does not exist
    /// or is retired); DPB_UNSUPPORTED (dpb_config.features is 0); DPB_POISONED. Any thread.
    fn dpb_feature_weights(bandit: *const dpb_bandit, arm: u32, mean: *mut f64, deviation: *mut f64, cap: usize,
        n: *mut usize)
        = call_unless(n.is_null(), bandit, |b| {
            write_length(b.bandit.feature_weights_within(arm, cap, pairs(mean, deviation)), n)
        });

    /// Reads the privacy loss of one user so far at this delta in [0, 1): an upper bound, infinite for baselines and
    /// for a delta at which the policy has no guarantee. With dpb_config.expected_users it is the loss of m =
    /// contributions_per_user rewards in each period so far, including that of a restored handle. One release may
    /// contain rewards of several periods, so p periods are m p rewards.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (delta); DPB_POISONED. Any thread.
    fn dpb_epsilon_spent(bandit: *const dpb_bandit, delta: f64, epsilon: *mut f64)
        = call_with_output(bandit, epsilon, |b| b.bandit.epsilon_spent(delta));
}

/// # Safety
/// `out` is NULL or has capacity for `cap` arms, `n` is NULL or valid.
unsafe fn read_arms(
    bandit: *const dpb_bandit,
    segment: Option<u64>,
    out: *mut dpb_arm,
    cap: usize,
    n: *mut usize,
) -> dpb_status {
    // SAFETY: as above; arm < cap.
    unsafe {
        call_unless(n.is_null() || (out.is_null() && cap > 0), bandit, |b| {
            let each = |arm, read| out.add(arm as usize).write(dpb_arm::from(read));
            write_length(b.bandit.read_arms(segment, cap, each), n)
        })
    }
}

/// The policy's name, such as "dp-se"; "" for NULL. A static string, never freed. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_policy_name(bandit: *const dpb_bandit) -> *const c_char {
    // SAFETY: NULL or live, by contract.
    let name: &CStr = unsafe { bandit.as_ref() }.map_or(c"", |b| b.bandit.algorithm().c_name());
    name.as_ptr()
}

/// Returns the node that issued a ticket: its top 16 bits, equal to config.node if that is below 65536. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dpb_ticket_node(ticket: u64) -> u16 {
    (ticket >> 48) as u16
}

impl TryFrom<dpb_verdict> for Verdict {
    type Error = Error;

    /// # Errors
    /// `InvalidConfig` for a state that does not exist.
    fn try_from(given: dpb_verdict) -> Result<Verdict> {
        let rule = "must be one of DPB_TEST_RUNNING, DPB_TEST_WON, DPB_TEST_TIED and DPB_TEST_UNDECIDED";
        let state = TestState::try_from(given.state).map_err(|_| Error::config("state", rule, given.state))?;
        Ok(Verdict {
            state,
            leader: given.leader,
            other: given.other,
            rewards: given.rewards,
            low: given.low,
            high: given.high,
            more: given.more,
            mismatch: given.mismatch != 0,
            arms: given.arms,
            winners: given.winners,
            confidence: given.confidence,
        })
    }
}
