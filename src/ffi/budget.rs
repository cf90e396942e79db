//! dpb_budget: making, reading, freeing. (The type is in `config`, whose struct names it.)

use super::config::{dpb_budget, dpb_error, produce};
use super::guard::{self, call_with_output};
use super::status::dpb_status;
use crate::budget::Budget;

/// A budget of epsilon at delta, nothing of it spent: for dpb_config.budget of any number of handles.
///
/// A handle is charged when it is made, with all that it can cost one user in its life, whatever it does then: a pure
/// policy its epsilon, whatever its delta is; dpb_new_imed (dpb_new), dpb_new_med and dpb_new_ts, with delta > 0,
/// the rho of their Gaussian noise; dpb_new_ucb_int, dpb_new_exp3_tau, dpb_new_sdp_ae and dpb_new_vb_sdp_ae their epsilon
/// and delta. (contributions_per_user is in that: epsilon is what one user loses.) Epsilons add up, rhos add up, and are
/// turned into an epsilon at what the deltas leave of the budget's; pure handles also by advanced composition and by
/// zCDP, where that is less. With dpb_config.expected_users it is charged for dpb_config.budget_periods periods, P epsilon or P^2
/// rho, and begins no more, in all its lives. A baseline never fits, nor does a handle with a test_seed, or whose snapshot
/// comes from one. Sums may be above by a 2^40th, so that ten times 0.1 fit into 1.
///
/// With delta = 0 handles may be chosen by looking at what earlier ones have published; at delta > 0 all that share a
/// budget must be chosen without, because then there is no such theorem for a mixture.
///
/// Charges are final: dpb_free gives nothing back, because what was published stays, and dpb_budget_free may come before
/// or after it. dpb_restore charges nothing, dpb_restore_as the budget of its configuration, as much as for a fresh handle:
/// all lives of a handle are one guarantee. That is right in a new process; a life that goes on from one which the same
/// budget was charged for is charged twice, which is safe. Handles of a fleet that dpb_merge need no common budget: no
/// reward is in two of them.
///
/// epsilon: > 0. delta: in [0, 1); 0 = pure handles only. out: receives the budget, which the caller frees with
/// dpb_budget_free. error: NULL, or filled on failure.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_budget(
    epsilon: f64,
    delta: f64,
    out: *mut *mut dpb_budget,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { produce(out, error, || Ok(Box::into_raw(Box::new(dpb_budget::of(Budget::new(epsilon, delta)?))))) }
}

/// What the handles that were charged so far may cost one user together, at this delta in [0, 1): an upper bound, infinite
/// where delta is too small for them.
/// epsilon: receives it.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (delta); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_budget_spent(budget: *const dpb_budget, delta: f64, epsilon: *mut f64) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { call_with_output(budget, epsilon, |b: &dpb_budget| b.budget.spent(delta)) }
}

/// The largest epsilon of a pure handle that the budget still has room for, 0 = of none.
/// epsilon: receives it.
/// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_budget_remaining(budget: *const dpb_budget, epsilon: *mut f64) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { call_with_output(budget, epsilon, |b: &dpb_budget| b.budget.remaining()) }
}

/// Destroys a budget. NULL is a no-op. Handles that were charged to it live on. No other call on it, nor a constructor whose
/// configuration names it, may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_budget_free(budget: *mut dpb_budget) {
    guard::free(budget);
}
