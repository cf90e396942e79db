//! Arms that come and go, public data on them, periods of users, and policies by their names.

use super::bandit::dpb_bandit;
use super::calls::{construct, explained, explained_with_output, functions};
use super::config::dpb_error;
use super::generated::config::dpb_config;
use super::guard::call;
use super::status::dpb_status;
use crate::policy::Algorithm;
use std::ffi::{CStr, c_char};

functions! {
    /// Adds an arm, which gets the next number. Numbers are never used again. May allocate.
    ///
    /// id: 0 = no other handle of a fleet has this arm. Otherwise the id that names the arm in all handles of a fleet
    /// (dpb_merge), such as the ad's number in a catalogue or a hash of its name; at least dpb_config.arms, because the
    /// first arms have their numbers as ids. If this handle has a live arm with this id, nothing changes, and arm
    /// receives its number.
    ///
    /// arm: receives the number. error: NULL, or filled on failure. With max_segments the arm is new in every segment,
    /// and the call is O(segments). With features it is a new row, or a new model.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (more than 2^24 arms, or than the policy takes; with max_segments,
    /// arms times (max_segments + 1) above 2^27; an id below dpb_config.arms); DPB_INVALID_REQUEST (the id of a retired
    /// arm); DPB_UNSUPPORTED (this policy's set of arms is fixed); DPB_NO_MEMORY; DPB_POISONED. Any thread.
    fn dpb_add_arm(bandit: *mut dpb_bandit, id: u64, arm: *mut u32, error: *mut dpb_error)
        = explained_with_output(bandit, error, ("arm", arm), |b| match id {
            0 => b.bandit.add_arm(),
            _ => b.bandit.add_arm_as(id),
        });

    /// Retires an arm: it is never played again. Rewards of its open decisions are accepted as before, and
    /// dpb_arms_read shows it as not active.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_REQUEST (no such arm, retired already, the last one, or that of
    /// dpb_config.control_share); DPB_UNSUPPORTED (this policy's set of arms is fixed); DPB_POISONED. Any thread.
    fn dpb_retire_arm(bandit: *mut dpb_bandit, arm: u32) = call(bandit, |b| b.bandit.retire_arm(arm));

    /// States what public data say of an arm, such as last season's rates: strength rewards with this mean. Learning
    /// starts from it. A prior made from public data costs no privacy; one made from private sums would reveal them
    /// without noise.
    ///
    /// A wrong prior costs little, whatever its strength: it counts against an arm for at most a quarter of the
    /// evidence that the policy requires, and it ends when the arm's releases contradict it. It makes no batch larger,
    /// ages by dpb_config.forget_after, and is kept by snapshots. dpb_arms_read, dpb_compare and dpb_merge use releases
    /// only, so they do not contain it. A second call for the same arm replaces the first, before decisions or after.
    ///
    // begin generated prior
    /// For dpb_new_imed, dpb_new_med and dpb_new_linear.
    // end generated prior
    /// dpb_new_linear needs DPB_MODEL_PER_ARM, and the prior states the arm's rate over all requests. With max_segments
    /// the prior is of the arm in all segments; dpb_arms_read and dpb_segment_read then return predictions, which it
    /// influences.
    ///
    /// mean: in [reward_min, reward_max]. strength: 1 .. 2^24, the number of real rewards that you consider equally
    /// informative. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (mean, strength); DPB_INVALID_REQUEST (no such arm, or retired);
    /// DPB_UNSUPPORTED (other policies; DPB_MODEL_SHARED; DPB_LEARN_CLIP); DPB_POISONED. Any thread.
    fn dpb_set_prior(bandit: *mut dpb_bandit, arm: u32, mean: f64, strength: f64, error: *mut dpb_error)
        = explained(bandit, error, &[], |b| b.bandit.set_prior(arm, mean, strength));

    /// Begins a new period, such as a day. The library may again learn from contributions_per_user decisions of every
    /// user, and epsilon_spent and dpb_epsilon_spent grow by one period. A reward counts for the period of its
    /// decision. The counters are cleared, under the lock (a millisecond for ten megabytes), and their hash has a new
    /// key. A restored handle begins a new period by itself, because no snapshot contains the users.
    ///
    /// Write a dpb_snapshot right after this call, to the file that a restart reads, and call dpb_stored. Until then
    /// the library learns from nobody, because a program that is killed would restore an earlier snapshot and lose
    /// count of this period. (A policy without snapshots learns at once.)
    /// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (dpb_config.expected_users is 0; a dpb_config.sticky test goes on);
    /// DPB_OVER_BUDGET (all dpb_config.budget_periods have begun; the last one continues); DPB_POISONED. Any thread.
    fn dpb_next_period(bandit: *mut dpb_bandit) = call(bandit, |b| b.bandit.next_period());

    /// Makes a bandit with the policy of this name, such as "dp-imed", for services that read the name from their
    /// configuration. dpb_policy_at lists the names.
    ///
    /// name: ends with NUL. Other parameters, statuses and threads as dpb_new; DPB_INVALID_CONFIG also if no policy has
    /// this name.
    fn dpb_new_policy(name: *const c_char, config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error)
        = construct(out, error, &[("name", name.is_null()), ("config", config.is_null())], || {
            let name = CStr::from_ptr(name).to_string_lossy();
            dpb_bandit::new(name.parse()?, dpb_config::read(config)?)
        });
}

/// The name of this library's i-th policy, from 0; NULL past the last. A static string, never freed. Any
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn dpb_policy_at(i: usize) -> *const c_char {
    Algorithm::ALL.get(i).map_or(std::ptr::null(), |policy| policy.c_name().as_ptr())
}

/// The number of the policy of this name, as dpb_config.base and dpb_report.policy contain it; 0 if there is
/// none, and for NULL. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_policy_number(name: *const c_char) -> u32 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: not NULL, so valid and NUL-terminated by contract.
    let name = unsafe { CStr::from_ptr(name) };
    Algorithm::ALL.iter().find(|policy| policy.c_name() == name).map_or(0, |policy| *policy as u32)
}
