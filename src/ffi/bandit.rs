//! dpb_bandit: constructors, decisions, rewards.

use super::calls::{call_unless, construct, functions};
use super::config::dpb_error;
use super::generated::config::dpb_config;
use super::guard::{self, Guard, call, call_directly, handle};
use super::status::{DPB_NULL, DPB_OK, dpb_status};
use crate::bandit::{Bandit, Decision};
use crate::config::Config;
use crate::error::Result;
use crate::os::{DefaultRounding, is_default_rounding};
use crate::policy::Algorithm;
use crate::request::NO_ARM;

/// A bandit. Made by dpb_new or another constructor dpb_new_..., destroyed by dpb_free. Any number of threads may
/// use it at once. After fork() the child's copy is DPB_POISONED.
pub struct dpb_bandit {
    guard: Guard,
    /// Whether the policy sets the rounding of numbers by itself in the most frequent calls.
    sets_rounding: bool,
    /// Whether it is a node's, which frees it and says what is stored.
    pub(super) is_nodes: bool,
    pub(super) bandit: Bandit,
}

handle!(dpb_bandit);

/// Whether a frequent call must be repeated in the default rounding of numbers. (A second copy of its code for that
/// would make both slower.)
///
/// # Safety
/// `bandit` is NULL or live.
#[inline]
unsafe fn is_to_round(bandit: *const dpb_bandit) -> bool {
    // SAFETY: as above.
    !bandit.is_null() && !unsafe { (*bandit).sets_rounding } && !is_default_rounding()
}

#[cold]
#[inline(never)]
fn rounded(call: &dyn Fn() -> dpb_status) -> dpb_status {
    let _rounding = DefaultRounding::set();
    call()
}

/// In place of the arm of a decision: dpb_request.abstain is set, and no arm is to be played.
pub const DPB_NO_ARM: u32 = 0xFFFF_FFFF;

const _: () = assert!(DPB_NO_ARM == NO_ARM);

/// A decision: which arm to play. 24 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_decision {
    /// The name of this decision in dpb_update and dpb_cancel. It uses all 64 bits: JSON needs a string, because
    /// JavaScript rounds numbers above 2^53.
    pub ticket: u64,
    /// The arm's probability given everything released so far, for off-policy evaluation. NaN for dpb_new_exp3_tau,
    /// and for dpb_new_lap with that base, because it would reveal raw rewards; and, after its pilot, for
    /// dpb_new_linear without exploration, which does not compute it.
    pub propensity: f64,
    /// The arm, 0-based; or DPB_NO_ARM, and then the ticket is 0.
    pub arm: u32,
    /// The policy's number of its epoch, phase or interval.
    pub phase: u32,
}

impl From<Decision> for dpb_decision {
    fn from(d: Decision) -> dpb_decision {
        dpb_decision { ticket: d.ticket, propensity: d.propensity, arm: d.arm, phase: d.phase }
    }
}

const _: () = assert!(size_of::<dpb_decision>() == 24);

impl dpb_bandit {
    pub(super) fn of(bandit: Bandit) -> dpb_bandit {
        dpb_bandit { guard: Guard::default(), sets_rounding: bandit.sets_rounding(), is_nodes: false, bandit }
    }

    pub(super) fn new(algorithm: Algorithm, config: Config) -> Result<dpb_bandit> {
        Bandit::new(algorithm, &config).map(dpb_bandit::of)
    }
}

/// The bandit of a node.
impl From<Bandit> for dpb_bandit {
    fn from(bandit: Bandit) -> dpb_bandit {
        dpb_bandit { is_nodes: true, ..dpb_bandit::of(bandit) }
    }
}

impl AsRef<Bandit> for dpb_bandit {
    fn as_ref(&self) -> &Bandit {
        &self.bandit
    }
}

pub(super) unsafe fn new(
    algorithm: Algorithm,
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract; config is not NULL where it is read.
    unsafe {
        construct(out, error, &[("config", config.is_null())], || dpb_bandit::new(algorithm, dpb_config::read(config)?))
    }
}

functions! {
    /// Makes a bandit with the recommended policy: dpb_new_imed, or dpb_new_linear if config.features > 0.
    ///
    /// Memory is fixed here, but for dpb_add_arm. The handle takes about 2420 + 712 K + 8 P bytes, 4 P more with a
    /// reward_window, and 8 P more with one on the caller's clock; P more with parts; and the counters of expected_users.
    /// K is the number of arms, and P the larger of pending_capacity and a reward_window in decisions, rounded up to a
    /// power of two.
    /// With max_segments = S it takes about 1470 + 740 K + (80 K + 74) S + 8 P bytes; on most systems a segment takes
    /// its memory when it begins. docs/reference/policies.md has the other policies.
    ///
    /// config: filled by dpb_config_init; read here, not kept. out: receives the handle, which the caller frees with
    /// dpb_free. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_NEWER_VERSION (struct_size of a newer library); DPB_ENTROPY;
    /// DPB_NO_MEMORY; DPB_OVER_BUDGET (config.budget); DPB_POISONED (a budget from before a fork). Any thread.
    fn dpb_new(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error)
        = construct(out, error, &[("config", config.is_null())], || {
            let config = dpb_config::read(config)?;
            dpb_bandit::new(Algorithm::recommended(&config), config)
        });
}

/// Destroys a handle. NULL is a no-op, and so is dpb_node_bandit. No other call on the handle may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_free(bandit: *mut dpb_bandit) {
    // SAFETY: NULL or live, by contract.
    if unsafe { bandit.as_ref() }.is_none_or(|bandit| !bandit.is_nodes) {
        guard::free(bandit);
    }
}

functions! {
    /// Chooses an arm. Writes one decision. Never allocates; O(1) or O(arms), depending on the policy.
    /// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (with dpb_config.expected_users, max_segments or features, which need
    /// dpb_select_for); DPB_NOT_READY (a handle restored from a snapshot with expected_users, before dpb_stored);
    /// DPB_POISONED. Any thread.
    fn dpb_select(bandit: *mut dpb_bandit, out: *mut dpb_decision)
        = if is_to_round(bandit) {
            rounded(&|| dpb_select(bandit, out))
        } else if out.is_null() {
            DPB_NULL
        } else {
            call_directly(bandit, |b| {
                out.write(b.bandit.select()?.into());
                Ok(())
            })
        };

    /// Reports the reward of a decision, once for each ticket. Never allocates.
    /// reward: in [reward_min, reward_max].
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_REWARD (the decision stays open); DPB_UNKNOWN_TICKET; DPB_DUPLICATE;
    /// DPB_EXPIRED; DPB_POISONED. A refused reward changes only a count of dpb_diagnostics. Any thread.
    ///
    /// After DPB_INVALID_REWARD report a valid reward; with DPB_CLAMP_REWARDS a reward out of range is not refused.
    /// Without a reward_window an open decision expires in the end, and public counts (expired, an arm's pulls) then
    /// show that its reward was refused.
    ///
    /// The status reveals whether the ticket had a reward before. Give a visitor the same reply whatever the status is.
    fn dpb_update(bandit: *mut dpb_bandit, ticket: u64, reward: f64)
        = if is_to_round(bandit) {
            rounded(&|| dpb_update(bandit, ticket, reward))
        } else {
            call_directly(bandit, |b| b.bandit.update(ticket, reward))
        };

    /// Reports a part of the reward of a decision: with dpb_config.parts each part once for each ticket, in any order,
    /// until the reward_window is over. dpb_update reports part 0. Never allocates if the part exists.
    /// part: below dpb_config.parts, or 0 without parts. value: in the part's own unit, of any sign; times its weight it
    /// is at most 15 times the length of the declared range from 0. Beyond that it is refused, or with DPB_CLAMP_REWARDS
    /// counts as so much. The sum is moved into the declared range at the end of the window, and never before: a return
    /// undoes a purchase in either order.
    /// Returns as dpb_update, where DPB_DUPLICATE says that the ticket has this part; DPB_INVALID_CONFIG (part). Any
    /// thread.
    fn dpb_update_part(bandit: *mut dpb_bandit, ticket: u64, part: u32, value: f64)
        = call(bandit, |b| b.bandit.update_part(ticket, part, value));

    /// Cancels a decision: it counts as not played, for example because the ad was never shown. The reason and the time
    /// must not depend on the reward. With a reward_window, a reward that has arrived is dropped with the decision, and
    /// status and future are the same as if it had not arrived. Never allocates.
    /// Returns DPB_OK; DPB_NULL; DPB_UNKNOWN_TICKET; DPB_DUPLICATE (cancelled before; without a reward_window also: has
    /// a reward); DPB_EXPIRED; DPB_POISONED. Any thread.
    fn dpb_cancel(bandit: *mut dpb_bandit, ticket: u64) = call(bandit, |b| b.bandit.cancel(ticket));

    /// Sets the time on the caller's clock (dpb_config.clock = DPB_CLOCK_CALLER). Rewards whose reward_window is over
    /// take effect, in ticket order, and releases age (forget_after).
    /// now: in any unit, the same in all restarts of the handle. Use a clock that continues over restarts, such as
    /// milliseconds since 1970, not the time since the machine started.
    ///
    /// A decision is stamped with the time of the last call. So call it before the first decision (the first call ends
    /// the windows of earlier ones), and then by a timer, so that rewards take effect in a quiet night. Call it before
    /// each decision too if stamps must be finer than the timer. The window of a decision is over in the first call
    /// with now >= stamp + reward_window; later rewards are DPB_EXPIRED.
    ///
    /// A value that is slightly earlier than the last one changes nothing, because calls of several threads may
    /// overtake each other. After a leap, time continues from now, so a clock that was wrong for a while costs little.
    /// A leap is a step back by more than reward_window and 1/1024 of forget_after, in which no time passes; or, with
    /// forget_after, a step ahead by more than 16 times the larger of the two, in which one reward_window passes. Both
    /// return DPB_OK, and dpb_report counts them.
    ///
    /// Time is public, and must not depend on rewards. Which rewards take effect in a call, and which decisions expire
    /// for lack of pending_capacity, depends on these calls and on the order of decisions and cancellations alone.
    /// It does not depend on rewards, on their times, or on whether they arrived, so the guarantee is the same as with
    /// decisions as ticks. Never call it because of a reward, and derive no time from rewards.
    ///
    /// O(1) for each decision that ends, and one release for each full batch; a jump of years costs no more than the
    /// open decisions. Never allocates.
    /// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (DPB_CLOCK_DECISIONS); DPB_POISONED. Any thread.
    fn dpb_advance(bandit: *mut dpb_bandit, now: u64) = call(bandit, |b| b.bandit.advance(now));

    /// Lets ticks of the handle's clock pass without decisions: rewards whose reward_window is over take effect, in
    /// ticket order. For a handle that decides nothing more, such as one that a process keeps for another one that has
    /// ended (dpb_suspend): its windows would never end otherwise.
    ///
    /// With DPB_CLOCK_DECISIONS a skipped tick counts as a decision that was cancelled at once, also in dpb_report;
    /// more ticks than reward_window have no further effect, and releases do not age. With DPB_CLOCK_CALLER it is
    /// dpb_advance to a time that is as much later. Time is public, and must not depend on rewards: see dpb_advance.
    ///
    /// O(reward_window) with DPB_CLOCK_DECISIONS, otherwise as dpb_advance; under the lock. Never allocates.
    /// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
    fn dpb_skip(bandit: *mut dpb_bandit, ticks: u64) = call(bandit, |b| b.bandit.skip(ticks));

    /// Cancels every open decision, with a reward_window also those whose reward has arrived and waits. Use it in an
    /// outage in which rewards could not arrive, so that silence does not count as no click: at least once in each
    /// reward_window during the outage, and once after it. A cancelled decision still counts towards its user's limit.
    /// The call costs no privacy if its reason and its time do not depend on rewards: a decision with a waiting reward
    /// ends like one without. Never call it because of the values or the number of rewards: that would select which
    /// rewards count.
    ///
    /// What is cancelled teaches nothing. So from the 256th decision in a row that is cancelled, by this call or by
    /// dpb_cancel, until the next reward takes effect, dpb_new_imed, dpb_new_med and dpb_new_linear play the
    /// arm with the largest released mean instead of one to be explored. config.exploration goes on, and propensities
    /// are exact.
    /// O(reward_window); O(pending_capacity) without a window and on the caller's clock; under the lock. Never
    /// allocates.
    /// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
    fn dpb_cancel_all(bandit: *mut dpb_bandit) = call(bandit, |b| b.bandit.cancel_all());

    /// dpb_update for n tickets under one lock. Every reward is tried, even if earlier ones are refused. tickets,
    /// rewards: n each (NULL with n = 0). each: NULL, or receives n statuses. done: receives the number of accepted
    /// rewards.
    /// Returns DPB_OK if all were accepted, else the status of dpb_update for the first refused one, with each and done
    /// written; DPB_NULL and DPB_POISONED write nothing. Any thread.
    fn dpb_update_many(bandit: *mut dpb_bandit, tickets: *const u64, rewards: *const f64, n: usize,
        each: *mut dpb_status, done: *mut usize)
        = call_unless(done.is_null() || (n > 0 && (tickets.is_null() || rewards.is_null())), bandit, |b| {
            let answers = (0..n).map(|i| (tickets.add(i).read(), rewards.add(i).read()));
            let (mut i, mut accepted, mut refusal) = (0, 0, Ok(()));
            b.bandit.update_many(answers, |outcome| {
                let status = outcome.as_ref().map_or_else(|error| error.status(), |()| DPB_OK);
                if !each.is_null() {
                    each.add(i).write(status);
                }
                i += 1;
                accepted += usize::from(outcome.is_ok());
                if refusal.is_ok() {
                    refusal = outcome;
                }
            })?;
            done.write(accepted);
            refusal
        });
}
