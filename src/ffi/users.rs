//! dpb_bandit where decisions are somebody's: no more rewards of a user than were promised.

use super::bandit::{dpb_bandit, dpb_decision};
use super::guard::{call, tell, tell_among};
use super::status::dpb_status;

/// Which arm for this user? dpb_select on a handle with dpb_config.users, where that and its siblings are
/// DPB_UNSUPPORTED, so that no decision is nobody's by mistake.
///
/// The first m = contributions_per_user decisions of a user in a period (dpb_next_period) are as any. Later ones
/// look the same: they are served, and dpb_update, dpb_cancel and all counts are as for the others, but nobody learns
/// from the answer, which is thrown away. To the policy such a decision is one that was cancelled at once.
///
/// Theorem (group privacy, on Theorem P): a user is behind m learned rewards in each period, so whatever else the
/// user does, two worlds that differ in all of a user's rewards of one period are told apart by a loss of epsilon at
/// most, and two that differ in all of them in p periods by p epsilon where the policy is pure; what dpb_privacy says
/// of m p rewards else. The bound is certain. The counters (a count-min sketch of decisions, never of rewards, fixed
/// at construction) err to the other side: where n users come in a period, a user with fewer than m is not learned
/// from with a chance of at most about (1 - e^(-n/(3 users)))^4, which is 0.65% at n = dpb_config.users.
///
/// user_hash: names a person, alike in all of a period: an account's number, or a keyed hash of a cookie. Visitors
/// who have none: a random number for each, if each is to count as a person; one number for all, if they are not to
/// be learned from. Whoever has A accounts is learned from A m times: that costs this person A times the loss, and
/// nobody else more. It moves what is learned by as many rewards, and accounts beyond dpb_config.users raise the
/// chance above, in the end to nobody's being learned from until the next period. Whose, they cannot choose: the hash
/// is keyed by the handle's secret randomness. A decision that is cancelled or expires has used up its place. A handle
/// counts for itself: in a fleet, route a user to one of them; who comes to several loses what they say together.
///
/// out: receives one decision. Never allocates; O(1) more than dpb_select.
/// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (dpb_config.users is 0); DPB_NOT_READY (a restored handle of which no
/// snapshot has been written: see dpb_restore); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_select_for(bandit: *mut dpb_bandit, user_hash: u64, out: *mut dpb_decision) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { tell(bandit, out, |b: &dpb_bandit| b.bandit.select_for(user_hash).map(Into::into)) }
}

/// Which of these arms for this user? dpb_select_among as dpb_select_for is dpb_select. What is refused has counted
/// nothing.
/// Returns as dpb_select_among; DPB_UNSUPPORTED also where dpb_config.users is 0; DPB_NOT_READY as dpb_select_for. Any
/// thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_select_among_for(
    bandit: *mut dpb_bandit,
    user_hash: u64,
    arms: *const u32,
    n: usize,
    out: *mut dpb_decision,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe {
        tell_among(bandit, arms, n, out, |b: &dpb_bandit, arms| {
            b.bandit.select_among_for(user_hash, arms).map(Into::into)
        })
    }
}

/// A new period, a day or a month: every user may be learned from contributions_per_user times again, and what one user
/// may have lost (epsilon_spent, dpb_privacy) is of one period more. Answers still count for the period of their
/// decision. Who came before is forgotten, and the hash has a new key. A restored handle begins a new period by
/// itself, for no snapshot tells who came. Clears the counters under the handle's lock: a millisecond for ten megabytes.
///
/// Write a dpb_snapshot right after this call, to where the next life begins. Where one was written before, nobody is
/// learned from until then: decisions are served as those of a user who has had enough. Else a program that is killed
/// would go back to the snapshot before, and forget the period, though people were heard in it. A handle that was never
/// saved needs none.
/// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (dpb_config.users is 0); DPB_OVER_BUDGET (all of dpb_config.budget_periods
/// have begun: nothing has changed, and the last one goes on); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_next_period(bandit: *mut dpb_bandit) -> dpb_status {
    call(bandit, |b: &dpb_bandit| b.bandit.next_period())
}
