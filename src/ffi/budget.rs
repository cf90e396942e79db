//! dpb_budget: creating, reading, freeing.

use super::calls::{call_with_output, construct, explained, functions};
use super::config::dpb_error;
use super::guard::{self, Guard, handle};
use super::status::dpb_status;
use crate::budget::Budget;

/// A privacy budget that handles share: the most that they may together cost one user. Made by dpb_new_budget,
/// destroyed by dpb_budget_free. Any number of threads may use it at once: two constructors never spend the same
/// part of it. After fork() the child's copy is DPB_POISONED.
pub struct dpb_budget {
    guard: Guard,
    pub(super) budget: Budget,
}

impl dpb_budget {
    pub(super) fn of(budget: Budget) -> dpb_budget {
        dpb_budget { guard: Guard::default(), budget }
    }
}

handle!(dpb_budget);

functions! {
    /// Makes a budget of epsilon at delta, for dpb_config.budget of any number of handles.
    ///
    /// A handle is charged when it is made, with all that it can cost one user, whatever it does later: a pure policy
    /// its epsilon, whatever its delta; a policy with zCDP and delta > 0 the rho of its Gaussian noise; a policy with
    /// (epsilon, delta) both of them. docs/reference/policies.md lists which is which. Epsilon is the loss of one user,
    /// so contributions_per_user is included. Epsilons add up, and rhos add up.
    /// Rhos are turned into an epsilon at the part of the budget's delta that the handles' deltas leave; so are pure
    /// handles, by advanced composition or zCDP, if that is less. With dpb_config.expected_users a handle is charged
    /// for dpb_config.budget_periods periods, P epsilon or P^2 rho, and begins no more, over all restarts. A baseline
    /// never fits, nor does a handle with a test_seed, or one restored from such a handle. A sum may exceed the budget
    /// by a factor of 1 + 2^-40, so that ten times 0.1 fit into 1.
    ///
    /// With delta = 0 you may choose handles by what earlier ones have published. With delta > 0 you must not, because
    /// no such theorem exists for a mixture.
    ///
    /// Charges are final: dpb_free returns nothing, because what was published stays. dpb_budget_free may come before
    /// or after it. dpb_restore charges nothing; dpb_restore_as charges the budget of its configuration, as much as for
    /// a new handle, because one guarantee holds for all restarts of a handle. That is right in a new process. In the
    /// same process a restored handle is charged twice, which is safe. Handles of a fleet that dpb_merge need no common
    /// budget, because no reward is in two of them.
    ///
    /// epsilon: above 0. delta: in [0, 1); 0 = pure handles only. out: receives the budget, which the caller frees with
    /// dpb_budget_free. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG. Any thread.
    fn dpb_new_budget(epsilon: f64, delta: f64, out: *mut *mut dpb_budget, error: *mut dpb_error)
        = construct(out, error, &[], || Ok(dpb_budget::of(Budget::new(epsilon, delta)?)));

    /// Charges what another system releases about the same people, with (epsilon, delta)-DP for one user. Charge before
    /// the release. A refused charge changes nothing.
    /// epsilon: above 0. delta: in [0, 1); 0 = pure. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_OVER_BUDGET; DPB_NO_MEMORY; DPB_POISONED. Any thread.
    fn dpb_budget_charge(budget: *const dpb_budget, epsilon: f64, delta: f64, error: *mut dpb_error)
        = explained(budget, error, &[], |b| b.budget.charge(epsilon, delta));

    /// Reads what the handles charged so far may cost one user together, at this delta in [0, 1): an upper bound,
    /// infinite if delta is too small for them.
    /// epsilon: receives it.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (delta); DPB_POISONED. Any thread.
    fn dpb_budget_spent(budget: *const dpb_budget, delta: f64, epsilon: *mut f64)
        = call_with_output(budget, epsilon, |b| b.budget.spent(delta));

    /// Reads the largest epsilon of a pure handle that still fits, 0 if none does.
    /// epsilon: receives it.
    /// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
    fn dpb_budget_remaining(budget: *const dpb_budget, epsilon: *mut f64)
        = call_with_output(budget, epsilon, |b| b.budget.remaining());
}

/// Destroys a budget. NULL is a no-op. Handles that were charged to it stay valid. No other call on it, nor a
/// constructor whose configuration names it, may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_budget_free(budget: *mut dpb_budget) {
    guard::free(budget);
}
