//! dpb_bandit: constructors, decisions, rewards.

use super::config::{construct, dpb_config, dpb_error, explain, text};
use super::guard::{self, Guard, Handle, call, call_directly};
use super::status::{DPB_NULL, DPB_OK, dpb_status};
use crate::bandit::{Bandit, Decision};
use crate::config::Config;
use crate::error::Result;
use crate::os::{DefaultRounding, is_default_rounding};
use crate::policy::Algorithm;
use std::ffi::{CStr, c_char};

/// A bandit. Made by dpb_new or another constructor dpb_new_..., destroyed by dpb_free. Any number of threads may
/// use it at once. After fork() the child's copy is DPB_POISONED.
pub struct dpb_bandit {
    guard: Guard,
    /// Whether the policy sets the rounding of numbers by itself in the most frequent calls.
    sets_rounding: bool,
    pub(super) bandit: Bandit,
}

impl Handle for dpb_bandit {
    fn guard(&self) -> &Guard {
        &self.guard
    }
}

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
    /// The arm, 0-based.
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

/// dpb_report.policy and dpb_config.base: dpb_new_se.
pub const DPB_POLICY_SE: u32 = 1;
/// dpb_new_nonprivate_ucb1.
pub const DPB_POLICY_NONPRIVATE_UCB1: u32 = 2;
/// dpb_new_nonprivate_klucb.
pub const DPB_POLICY_NONPRIVATE_KLUCB: u32 = 3;
/// dpb_new_nonprivate_imed.
pub const DPB_POLICY_NONPRIVATE_IMED: u32 = 4;
/// dpb_new_nonprivate_se.
pub const DPB_POLICY_NONPRIVATE_SE: u32 = 5;
/// dpb_new_ucb_bound.
pub const DPB_POLICY_UCB_BOUND: u32 = 6;
/// dpb_new_ucb.
pub const DPB_POLICY_UCB: u32 = 7;
/// dpb_new_ucb_int.
pub const DPB_POLICY_UCB_INT: u32 = 8;
/// dpb_new_private_ucb.
pub const DPB_POLICY_PRIVATE_UCB: u32 = 9;
/// dpb_new_nonprivate_exp3.
pub const DPB_POLICY_NONPRIVATE_EXP3: u32 = 10;
/// dpb_new_lap.
pub const DPB_POLICY_LAP: u32 = 11;
/// dpb_new_exp3_lap.
pub const DPB_POLICY_EXP3_LAP: u32 = 12;
/// dpb_new_exp3_tau.
pub const DPB_POLICY_EXP3_TAU: u32 = 13;
/// dpb_new_tsallis.
pub const DPB_POLICY_TSALLIS: u32 = 14;
/// dpb_new_imed.
pub const DPB_POLICY_IMED: u32 = 20;
/// dpb_new_klucb.
pub const DPB_POLICY_KLUCB: u32 = 21;
/// dpb_new_med.
pub const DPB_POLICY_MED: u32 = 23;
/// dpb_new_linear.
pub const DPB_POLICY_LINEAR: u32 = 24;

const _: () = assert!(DPB_POLICY_SE == Algorithm::Se as u32);
const _: () = assert!(DPB_POLICY_NONPRIVATE_UCB1 == Algorithm::NonprivateUcb1 as u32);
const _: () = assert!(DPB_POLICY_NONPRIVATE_KLUCB == Algorithm::NonprivateKlUcb as u32);
const _: () = assert!(DPB_POLICY_NONPRIVATE_IMED == Algorithm::NonprivateImed as u32);
const _: () = assert!(DPB_POLICY_NONPRIVATE_SE == Algorithm::NonprivateSe as u32);
const _: () = assert!(DPB_POLICY_UCB_BOUND == Algorithm::UcbBound as u32);
const _: () = assert!(DPB_POLICY_UCB == Algorithm::Ucb as u32);
const _: () = assert!(DPB_POLICY_UCB_INT == Algorithm::UcbInt as u32);
const _: () = assert!(DPB_POLICY_PRIVATE_UCB == Algorithm::PrivateUcb as u32);
const _: () = assert!(DPB_POLICY_NONPRIVATE_EXP3 == Algorithm::NonprivateExp3 as u32);
const _: () = assert!(DPB_POLICY_LAP == Algorithm::Lap as u32);
const _: () = assert!(DPB_POLICY_EXP3_LAP == Algorithm::Exp3Lap as u32);
const _: () = assert!(DPB_POLICY_EXP3_TAU == Algorithm::Exp3Tau as u32);
const _: () = assert!(DPB_POLICY_TSALLIS == Algorithm::Tsallis as u32);
const _: () = assert!(DPB_POLICY_IMED == Algorithm::Imed as u32);
const _: () = assert!(DPB_POLICY_KLUCB == Algorithm::KlUcb as u32);
const _: () = assert!(DPB_POLICY_MED == Algorithm::Med as u32);
const _: () = assert!(DPB_POLICY_LINEAR == Algorithm::Linear as u32);

impl dpb_bandit {
    pub(super) fn of(bandit: Bandit) -> dpb_bandit {
        dpb_bandit { guard: Guard::default(), sets_rounding: bandit.sets_rounding(), bandit }
    }

    fn new(algorithm: Algorithm, config: Config) -> Result<dpb_bandit> {
        Bandit::new(algorithm, &config).map(dpb_bandit::of)
    }
}

pub(super) unsafe fn new(
    algorithm: Algorithm,
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract; config is not NULL where it is read.
    unsafe { construct(config, out, error, || dpb_bandit::new(algorithm, dpb_config::read(config)?)) }
}

/// Makes a bandit with the recommended policy: dpb_new_imed, or dpb_new_linear if config.features > 0.
///
/// Memory is fixed here, but for dpb_add_arm. The handle takes about 1800 + 576 K + 8 P bytes, 4 P more with a
/// reward_window, and 8 P more with one on the caller's clock; and the counters of expected_users. K is the number
/// of arms, and P the larger of pending_capacity and a reward_window in decisions, rounded up to a power of two.
/// With max_segments = S it takes about 1400 + 740 K + (80 K + 74) S + 8 P bytes; on most systems a segment takes
/// its memory when it begins. docs/reference/policies.md has the other policies.
///
/// config: filled by dpb_config_init; read here, not kept. out: receives the handle, which the caller frees with
/// dpb_free. error: NULL, or filled on failure.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_NEWER_VERSION (struct_size of a newer library); DPB_ENTROPY;
/// DPB_NO_MEMORY; DPB_OVER_BUDGET (config.budget); DPB_POISONED (a budget from before a fork). Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe {
        construct(config, out, error, || {
            let config = dpb_config::read(config)?;
            dpb_bandit::new(Algorithm::recommended(&config), config)
        })
    }
}

/// Makes a bandit with the policy of this name, such as "dp-imed", for services that read the name from their
/// configuration. dpb_policy_at lists the names.
///
/// name: ends with NUL. Other parameters, statuses and threads as dpb_new; DPB_INVALID_CONFIG also if no policy has
/// this name.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_policy(
    name: *const c_char,
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    if name.is_null() {
        // SAFETY: NULL or valid, by contract.
        unsafe { explain(error, DPB_NULL, "name is NULL") };
        return DPB_NULL;
    }
    // SAFETY: NULL or valid, by contract; name and config are not NULL where they are read.
    unsafe {
        construct(config, out, error, || {
            let name = CStr::from_ptr(name).to_string_lossy();
            dpb_bandit::new(name.parse()?, dpb_config::read(config)?)
        })
    }
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

/// DP-SE, differentially private successive elimination: pure epsilon-DP (Sajed and Sheffet 2019, Algorithm 3,
/// Theorem 4.1). With a horizon, beta is 1/horizon. Without horizon and beta, the policy guesses a horizon and
/// squares the guess. With beta it identifies the best arm at that confidence (dpb_best_arm).
/// At most 2^18 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_se(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Se, config, out, error) }
}

/// UCB1 (Auer, Cesa-Bianchi, Fischer 2002): a baseline WITHOUT privacy.
/// At most 2^20 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_nonprivate_ucb1(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::NonprivateUcb1, config, out, error) }
}

/// KL-UCB (Garivier and Cappe 2011): a baseline WITHOUT privacy.
/// At most 2^15 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_nonprivate_klucb(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::NonprivateKlUcb, config, out, error) }
}

/// IMED (Honda and Takemura 2015): a baseline WITHOUT privacy.
/// At most 2^20 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_nonprivate_imed(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::NonprivateImed, config, out, error) }
}

/// Successive elimination (Even-Dar, Mannor, Mansour 2006): a baseline WITHOUT privacy. Needs horizon or
/// beta; with one arm left it is the best arm at that confidence (dpb_best_arm).
/// At most 2^20 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_nonprivate_se(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::NonprivateSe, config, out, error) }
}

/// DP-UCB-BOUND, UCB on hybrid sums with an index widened by the noise: pure epsilon-DP (Tossou and
/// Dimitrakakis 2016, Algorithm 1, Theorem 3.1, with the hybrid's budget corrected). Needs no horizon.
/// At most 2^18 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_ucb_bound(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::UcbBound, config, out, error) }
}

/// DP-UCB, UCB on hybrid sums of equal noise: pure epsilon-DP (Tossou and Dimitrakakis 2016, Algorithm 2,
/// Theorem 3.1, with the hybrid's budget corrected). An update draws one noise an arm. Needs no horizon.
/// The regret of its Theorem 3.3 is not proved: a worse arm gets of the order of ln^3 t/epsilon^2 pulls.
/// At most 2^15 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_ucb(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Ucb, config, out, error) }
}

/// DP-UCB-INT, UCB on means released at intervals: (epsilon, delta)-DP, delta > 0 (Tossou and Dimitrakakis 2016,
/// Algorithm 3, corrected). The library computes the loss of all releases together, and takes the least noise that
/// keeps it. interval_exponent: v. batch: 0 = the series of their Lemma B.1; b > 0 = every max(b, f) rewards, as
/// printed with b = 1. Needs no horizon. Their Theorem 3.5, a regret of that of UCB plus a constant, does not hold:
/// with the printed index rare runs play a worse arm for a very long time; with DPB_RIGOROUS_INDEX none do, but
/// worse arms get of the order of ln^(2/(2-v)) t decisions.
/// At most 2^20 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_ucb_int(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::UcbInt, config, out, error) }
}

/// Private-UCB, UCB on binary-tree sums: pure epsilon-DP (Mishra and Thakurta 2015; the baseline that Sajed
/// and Sheffet 2019 call DP-UCB). Needs horizon.
/// At most 2^18 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_private_ucb(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::PrivateUcb, config, out, error) }
}

/// EXP3 (Auer, Cesa-Bianchi, Freund, Schapire 2003): a baseline for adversarial rewards, WITHOUT
/// privacy. Needs the horizon.
/// Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_nonprivate_exp3(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::NonprivateExp3, config, out, error) }
}

/// DP-Lambda-Lap (Tossou and Dimitrakakis 2017, Theorem 3.2): the policy with the number config.base
/// (not this one), made private by noise on its gains. Pure epsilon-DP. Needs the horizon.
/// config.batch = tau plays of one arm make one gain: 0 = the paper's 1; ceil(1/epsilon) is
/// better, 2 ln(horizon)/epsilon best. Propensities are the base's: over EXP3_tau NaN.
/// Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_lap(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Lap, config, out, error) }
}

/// DP-EXP3-Lap (Tossou and Dimitrakakis 2017, Algorithm 1), for adversarial rewards: DP-Lambda-Lap
/// over EXP3. Pure epsilon-DP. Needs the horizon.
/// config.batch = tau plays of one arm make one gain: 0 = the paper's 1; ceil(1/epsilon) is
/// better, 2 ln(horizon)/epsilon best.
/// Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_exp3_lap(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Exp3Lap, config, out, error) }
}

/// EXP3_tau (Tossou and Dimitrakakis 2017, Section 3.2), for adversarial rewards and switching costs: EXP3 in
/// intervals of tau decisions, (epsilon, delta)-DP by its own randomness. tau is the smallest that suffices. Needs
/// the horizon and delta > 0. Propensities are NaN, because they would reveal raw rewards.
/// Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_exp3_tau(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Exp3Tau, config, out, error) }
}

/// Batched Tsallis-INF for heavy tails (Asi, Raman, Talwar 2025): the recommended policy for adversarial rewards.
/// Pure epsilon-DP, regret O(sqrt(K T/epsilon)), no horizon.
/// config.batch = decisions for one arm in one release: 0 = ceil(1/epsilon).
/// At most 2^20 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_tsallis(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Tsallis, config, out, error) }
}

/// DP-IMED with the exact Chernoff index: pure epsilon-DP (Theorem P: every reward is in one batch, released once);
/// with delta > 0 (epsilon, delta)-DP by zCDP and Gaussian noise. It needs no horizon and no tuning. Select and
/// update are O(1). Supports eligible arms, dpb_add_arm and dpb_retire_arm, dpb_config.forget_after and
/// dpb_config.exploration.
/// Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_imed(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Imed, config, out, error) }
}

/// DP-KLUCB, the optimistic index of d_eps (Azize et al. 2025): pure epsilon-DP (Theorem P); delta must be 0.
/// Select and update are O(1). Supports eligible arms, dpb_add_arm and dpb_retire_arm.
/// Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_klucb(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::KlUcb, config, out, error) }
}

/// DP-MED: learns as dpb_new_imed does, and draws each arm with an exact propensity. Pure epsilon-DP (Theorem P);
/// with delta > 0 (epsilon, delta)-DP by zCDP. It needs no horizon and no tuning. Supports eligible arms,
/// dpb_add_arm and dpb_retire_arm, dpb_config.forget_after and dpb_config.exploration.
/// At most 2^12 arms. Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_med(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Med, config, out, error) }
}

/// dp-linear, the contextual bandit: decisions depend on the features of a request (dpb_config.features,
/// dpb_request.features).
///
/// **A feature must not be made of rewards.** The visitor's clicks so far, an ad's click rate from the log, a score
/// learned from clicks: each releases rewards without noise, and no theorem covers it. Features are known to the
/// server and not protected; rewards are.
///
/// Pure epsilon-DP for each reward, for all time, even if an adversary who sees every decision and release chooses
/// the features (Theorem L, src/policy/linear); with delta > 0 (epsilon, delta)-DP by zCDP. A logistic model is
/// learned from one released integer vector for each batch: the noisy sum of features times rewards. Everything
/// else is public and has no noise. First a pilot plays all arms evenly, until it knows the rate of rewards (about
/// 9/epsilon clicks). As many more decisions as there are models are even too. Then Thompson sampling over 32 draws of
/// the model; with exploration > 0 propensities are exact, otherwise NaN from then on. Supports eligible arms, several
/// slots, dpb_add_arm and dpb_retire_arm, forget_after, expected_users, dpb_merge, dpb_snapshot; dpb_set_prior with a
/// model for each arm (a rate for its intercept).
///
/// The handle takes about 2700 + 60 K + (20 M + 32) D^2 + 340 M (D + 1) + (2 D + 14) P bytes: K the number of arms,
/// M that of models (1, or K with DPB_MODEL_PER_ARM), D = features + 1, P as at dpb_new. Select takes O(arms d),
/// update O(d), or O(d^2) for dense rows, and the end of a batch O(d^3). At most 2^21/D arms, with
/// DPB_MODEL_PER_ARM at most 2^23/(D (D + 8)).
/// Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_linear(
    config: *const dpb_config,
    out: *mut *mut dpb_bandit,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: passed on.
    unsafe { new(Algorithm::Linear, config, out, error) }
}

/// Destroys a handle. NULL is a no-op. No other call on the handle may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_free(bandit: *mut dpb_bandit) {
    guard::free(bandit);
}

/// Chooses an arm. Writes one decision. Never allocates; O(1) or O(arms), depending on the policy.
/// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (with dpb_config.expected_users, max_segments or features, which need
/// dpb_select_for); DPB_NOT_READY (a handle restored from a snapshot with expected_users, of which no snapshot was
/// taken yet); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_select(bandit: *mut dpb_bandit, out: *mut dpb_decision) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe {
        if is_to_round(bandit) {
            return rounded(&|| dpb_select(bandit, out));
        }
        if out.is_null() {
            return DPB_NULL;
        }
        call_directly(bandit, |b: &dpb_bandit| {
            out.write(b.bandit.select()?.into());
            Ok(())
        })
    }
}

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
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_update(bandit: *mut dpb_bandit, ticket: u64, reward: f64) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    if unsafe { is_to_round(bandit) } {
        // SAFETY: passed on.
        return rounded(&|| unsafe { dpb_update(bandit, ticket, reward) });
    }
    call_directly(bandit, |b: &dpb_bandit| b.bandit.update(ticket, reward))
}

/// Cancels a decision: it counts as not played, for example because the ad was never shown. The reason and the time
/// must not depend on the reward. With a reward_window, a reward that has arrived is dropped with the decision, and
/// status and future are the same as if it had not arrived. Never allocates.
/// Returns DPB_OK; DPB_NULL; DPB_UNKNOWN_TICKET; DPB_DUPLICATE (cancelled before; without a reward_window also: has
/// a reward); DPB_EXPIRED; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_cancel(bandit: *mut dpb_bandit, ticket: u64) -> dpb_status {
    call(bandit, |b: &dpb_bandit| b.bandit.cancel(ticket))
}

/// Sets the time on the caller's clock (dpb_config.clock = DPB_CLOCK_CALLER). Rewards whose reward_window is over
/// take effect, in ticket order, and releases age (forget_after).
/// now: in any unit, the same in all restarts of the handle. Use a clock that continues over restarts, such as
/// milliseconds since 1970, not the time since the machine started.
///
/// A decision is stamped with the time of the last call. So call it before the first decision (the first call ends the
/// windows of earlier ones), and then by a timer, so that rewards take effect in a quiet night. Call it before each
/// decision too if stamps must be finer than the timer. The window of a decision is over in the first call with now >=
/// stamp + reward_window; later rewards are DPB_EXPIRED.
///
/// A value that is slightly earlier than the last one changes nothing, because calls of several threads may overtake
/// each other. After a leap, time continues from now, so a clock that was wrong for a while costs little. A leap is a
/// step back by more than reward_window and 1/1024 of forget_after, in which no time passes; or, with forget_after, a
/// step ahead by more than 16 times the larger of the two, in which one reward_window passes. Both return DPB_OK, and
/// dpb_report.clock_leaps counts them.
///
/// Time is public, and must not depend on rewards. Which rewards take effect in a call, and which decisions expire
/// for lack of pending_capacity, depends on these calls and on the order of decisions and cancellations alone.
/// It does not depend on rewards, on their times, or on whether they arrived, so the guarantee is the same as with
/// decisions as ticks. Never call it because of a reward, and derive no time from rewards.
///
/// O(1) for each decision that ends, and one release for each full batch; a jump of years costs no more than the
/// open decisions. Never allocates.
/// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (DPB_CLOCK_DECISIONS); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_advance(bandit: *mut dpb_bandit, now: u64) -> dpb_status {
    call(bandit, |b: &dpb_bandit| b.bandit.advance(now))
}

/// Cancels every open decision, with a reward_window also those whose reward has arrived and waits. Use it in an
/// outage in which rewards could not arrive, so that silence does not count as no click: at least once in each
/// reward_window during the outage, and once after it. A cancelled decision still counts towards its user's limit.
/// The call costs no privacy if its reason and its time do not depend on rewards: a decision with a waiting reward
/// ends like one without. Never call it because of the values or the number of rewards: that would select which
/// rewards count.
/// O(reward_window); O(pending_capacity) without a window and on the caller's clock; under the lock. Never
/// allocates.
/// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_cancel_all(bandit: *mut dpb_bandit) -> dpb_status {
    call(bandit, |b: &dpb_bandit| b.bandit.cancel_all())
}

/// dpb_update for n tickets under one lock. Every reward is tried, even if earlier ones are refused. tickets,
/// rewards: n each (NULL with n = 0). each: NULL, or receives n statuses. done: receives the number of accepted
/// rewards.
/// Returns DPB_OK if all were accepted, else the status of dpb_update for the first refused one, with each and done
/// written; DPB_NULL and DPB_POISONED write nothing. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_update_many(
    bandit: *mut dpb_bandit,
    tickets: *const u64,
    rewards: *const f64,
    n: usize,
    each: *mut dpb_status,
    done: *mut usize,
) -> dpb_status {
    if done.is_null() || (n > 0 && (tickets.is_null() || rewards.is_null())) {
        return DPB_NULL;
    }
    call(bandit, |b: &dpb_bandit| {
        // SAFETY: n tickets and n rewards, by contract.
        let answers = (0..n).map(|i| unsafe { (tickets.add(i).read(), rewards.add(i).read()) });
        let (mut i, mut accepted, mut refusal) = (0, 0, Ok(()));
        b.bandit.update_many(answers, |outcome| {
            let status = outcome.as_ref().map_or_else(|error| error.status(), |()| DPB_OK);
            if !each.is_null() {
                // SAFETY: capacity for n statuses, by contract.
                unsafe { each.add(i).write(status) };
            }
            i += 1;
            accepted += usize::from(outcome.is_ok());
            if refusal.is_ok() {
                refusal = outcome;
            }
        })?;
        // SAFETY: not NULL, so valid by contract.
        unsafe { done.write(accepted) };
        refusal
    })
}

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
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_add_arm(
    bandit: *mut dpb_bandit,
    id: u64,
    arm: *mut u32,
    error: *mut dpb_error,
) -> dpb_status {
    if arm.is_null() {
        // SAFETY: NULL or valid, by contract.
        unsafe { explain(error, DPB_NULL, "arm is NULL") };
        return DPB_NULL;
    }
    let write = |b: &dpb_bandit| {
        let added = if id == 0 { b.bandit.add_arm() } else { b.bandit.add_arm_as(id) }?;
        // SAFETY: not NULL, so valid by contract.
        unsafe { arm.write(added) };
        Ok(())
    };
    // SAFETY: NULL or valid, by contract.
    unsafe { explained(bandit, error, write) }
}

/// [`call`], and why it was refused.
///
/// # Safety
/// `error` is NULL or valid.
pub(super) unsafe fn explained<H: Handle>(
    handle: *const H,
    error: *mut dpb_error,
    body: impl FnOnce(&H) -> Result<()>,
) -> dpb_status {
    let mut message = None;
    let status = call(handle, |h| body(h).inspect_err(|failure| message = Some(text(failure))));
    if status != DPB_OK {
        let why = match handle.is_null() {
            true => "the handle is NULL",
            false => message.as_deref().unwrap_or("the handle is closed"),
        };
        // SAFETY: as above.
        unsafe { explain(error, status, why) };
    }
    status
}

/// States what public data say of an arm, such as last season's rates: strength rewards with this mean. Learning
/// starts from it. A prior made from public data costs no privacy; one made from private sums would reveal them
/// without noise.
///
/// A wrong prior costs little, whatever its strength: it counts against an arm for at most a quarter of the
/// evidence that the policy requires, and it ends when the arm's releases contradict it. It makes no batch larger,
/// ages by dpb_config.forget_after, and is kept by snapshots. dpb_arms_read, dpb_compare and dpb_merge use releases
/// only, so they do not contain it. A second call for the same arm replaces the first, before decisions or after.
///
/// For dpb_new_imed, dpb_new_klucb, dpb_new_med, and dpb_new_linear with DPB_MODEL_PER_ARM, where it states the
/// arm's rate over all requests. With max_segments the prior is of the arm in all segments; dpb_arms_read and
/// dpb_segment_read then return predictions, which it influences.
///
/// mean: in [reward_min, reward_max]. strength: 1 .. 2^24, the number of real rewards that you consider equally
/// informative. error: NULL, or filled on failure.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (mean, strength); DPB_INVALID_REQUEST (no such arm, or retired);
/// DPB_UNSUPPORTED (other policies; DPB_MODEL_SHARED); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_set_prior(
    bandit: *mut dpb_bandit,
    arm: u32,
    mean: f64,
    strength: f64,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract.
    unsafe { explained(bandit, error, |b: &dpb_bandit| b.bandit.set_prior(arm, mean, strength)) }
}

/// Retires an arm: it is never played again. Rewards of its open decisions are accepted as before, and
/// dpb_arms_read shows it as not active.
/// Returns DPB_OK; DPB_NULL; DPB_INVALID_REQUEST (no such arm, retired already, or the last one); DPB_UNSUPPORTED
/// (this policy's set of arms is fixed); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_retire_arm(bandit: *mut dpb_bandit, arm: u32) -> dpb_status {
    call(bandit, |b: &dpb_bandit| b.bandit.retire_arm(arm))
}

/// Begins a new period, such as a day. The library may again learn from contributions_per_user decisions of every
/// user, and epsilon_spent and dpb_epsilon_spent grow by one period. A reward counts for the period of its
/// decision. The counters are cleared, under the lock (a millisecond for ten megabytes), and their hash has a new
/// key. A restored handle begins a new period by itself, because no snapshot contains the users.
///
/// Write a dpb_snapshot right after this call, to the file that a restart reads. If a snapshot was taken before,
/// the library learns from nobody until then, because a program that is killed would restore the earlier snapshot
/// and lose count of this period. A handle of which no snapshot was ever taken needs none.
/// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (dpb_config.expected_users is 0); DPB_OVER_BUDGET (all
/// dpb_config.budget_periods have begun; the last one continues); DPB_POISONED. Any thread.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_next_period(bandit: *mut dpb_bandit) -> dpb_status {
    call(bandit, |b: &dpb_bandit| b.bandit.next_period())
}

/// Panics inside a call, as a bug would. Only in builds for tests.
#[cfg(dpb_faults)]
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_test_panic(bandit: *mut dpb_bandit) -> dpb_status {
    call(bandit, |b: &dpb_bandit| {
        b.bandit.panic_inside();
        Ok(())
    })
}
