//! dpb_config and dpb_error, and dpb_budget, which the former names.

use super::guard::{self, Guard, Handle};
use super::sized::{self, Growing};
use super::status::{DPB_NULL, DPB_OK, dpb_status};
use crate::budget::Budget;
use crate::config::{Clock, Config};
use crate::error::{Error, Result};
use std::ffi::c_char;
use std::mem::offset_of;

/// A privacy budget that handles share: what they may cost one user together. Made by dpb_new_budget, destroyed by
/// dpb_budget_free. May be used from any number of threads at once: two constructors never spend what is there
/// for one. After fork() the child's copy is DPB_POISONED.
pub struct dpb_budget {
    guard: Guard,
    pub(super) budget: Budget,
}

impl dpb_budget {
    pub(super) fn of(budget: Budget) -> dpb_budget {
        dpb_budget { guard: Guard::default(), budget }
    }
}

impl Handle for dpb_budget {
    fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// The configuration of a bandit. Fill it with dpb_config_init, then change what you need.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_config {
    /// sizeof(dpb_config), set by dpb_config_init; lets the struct grow.
    pub struct_size: u32,
    /// K, 2 .. 2^24; less where a policy's calls would not be fast: see its constructor.
    pub arms: u32,
    /// Privacy loss of one reward (of one user, with contributions_per_user), > 0; ignored by
    /// non-private baselines.
    pub epsilon: f64,
    /// In [0, 1); 0 where the policy is pure.
    pub delta: f64,
    /// Failure probability in [0, 1); 0 = 1/horizon.
    pub beta: f64,
    /// T in decisions; 0 = unknown (DPB_INVALID_CONFIG where a policy cannot do without).
    pub horizon: u64,
    /// Lower end of the declared range of rewards, default 0; at least -1e290.
    pub reward_min: f64,
    /// Upper end of the declared range of rewards, default 1; at most 1e290.
    pub reward_max: f64,
    /// Rewards are rounded to 2^-reward_bits of the range, 0 .. 24, default 20; 0 = rewards are
    /// exactly reward_min or reward_max.
    pub reward_bits: u32,
    /// m >= 1, default 1: how many rewards one user may be behind (with a slate: how many requests); epsilon is
    /// divided by it. The caller sees to it, or the library does, for a period: see expected_users.
    pub contributions_per_user: u32,
    /// Decisions in flight, 1 .. 2^24, rounded up to a power of two and to a reward_window in decisions, default 4096.
    /// Without a window the oldest unanswered decision expires when a new one needs its place. So does the oldest one
    /// with a window on the caller's clock, whether its reward has come or not: take the most decisions that there are
    /// in a window.
    pub pending_capacity: u32,
    /// 0 = every decision is answered or cancelled explicitly, at a time that does not depend on
    /// the reward. W > 0 = silence means reward_min (no click): every answer takes effect exactly W ticks of the clock
    /// after its decision, in ticket order, whenever it arrives, so that the timing of a click tells nothing; later
    /// answers are DPB_EXPIRED. A tick is a decision, and W at most 2^24, or with DPB_CLOCK_CALLER the caller's unit of
    /// time, and W any number: 1800000 milliseconds are half an hour.
    pub reward_window: u32,
    /// 0, or any of DPB_CLAMP_REWARDS, DPB_RIGOROUS_INDEX and DPB_SHUFFLE_PRINTED, joined by |.
    pub flags: u32,
    /// NULL = operating system entropy; 32 bytes = reproducible (all but the tickets) and NOT
    /// private (reported as such). Read during construction only.
    pub test_seed: *const u8,
    /// DP-UCB-INT: v in (1, 1.5], default 1.1.
    pub interval_exponent: f64,
    /// SDP-AE: m; DP-Lap, Tsallis: tau; DP-UCB-INT: least interval; 0 = the policy's own choice.
    pub batch: u32,
    /// dpb_new_lap: which base policy, a DPB_POLICY_ number.
    pub base: u32,
    /// This process's name in a fleet. 1 .. 65535 = the node of its tickets itself (dpb_ticket_node),
    /// which a router can compute; a larger one is mixed to 16 bits; 0 = random.
    pub node: u64,
    /// M in ticks of the clock, 1024 .. 2^40: dpb_new_imed and dpb_new_med forget what they learned more than M
    /// ticks ago, half of it earlier, and at once what a change contradicts. Take about half the time
    /// between changes. 0, the default = never forget: then one change of the best arm can cost for ever.
    pub forget_after: u64,
    /// f in [0, 1], default 0: dpb_new_imed, dpb_new_klucb, dpb_new_med and dpb_new_ts play each of the K
    /// arms that may be played with a chance of f/K at least, for off-policy evaluation. It costs f
    /// times the mean gap a decision.
    pub exploration: f64,
    /// Which unit epsilon is for, where requests have several slots. 0, the default = one answer, whatever the size of its slate: a
    /// request of m slots loses up to m epsilon. S > 0, up to 2^24 = one request with all its answers, S slots
    /// at most: the noise is that of epsilon/S. Not with expected_users.
    pub max_slots: u32,
    /// 0, the default = any answers of a request may count. c, 1 .. max_slots = at most c that are not reward_min: where
    /// there are more, c of them are drawn evenly when the first one's reward_window is over, which there must be. Then
    /// the noise is that of epsilon/min(2c, max_slots): with c = 1 of epsilon/2 for slates of any size.
    pub max_clicks: u32,
    /// Users expected in a period, up to 2^28: the library then learns from no more than contributions_per_user
    /// decisions of a user in a period (dpb_next_period). Its counters are fixed at construction: 1.5 bytes a user
    /// at contributions_per_user = 1, 3 up to 3, 6 up to 15, 12 up to 255; 2^30 bytes at most. 0, the default = the
    /// caller sees to it. A restored handle decides nothing until a snapshot of it has been written: see dpb_restore. With a
    /// budget it needs budget_periods. Not with max_slots, and not for dpb_new_sdp_ae, dpb_new_vb_sdp_ae, dpb_new_ldp_ucb and dpb_new_ldp_klucb, where
    /// the users' devices must count.
    pub expected_users: u64,
    /// NULL, the default, or what the handle is charged to when it is made (DPB_OVER_BUDGET where there is too little
    /// left, and with a test_seed): see dpb_new_budget. With expected_users it needs budget_periods. Read during construction only; as
    /// test_seed no part of a snapshot.
    pub budget: *const dpb_budget,
    /// P, with expected_users: the periods that there may be, in all lives of the handle together. dpb_next_period is
    /// DPB_OVER_BUDGET once P periods have begun, and so is a restore, which begins one. The budget is charged with what a
    /// person may lose who comes in all of them (P epsilon where the policy is pure), when the handle is made. A restart
    /// may change P: dpb_restore_as charges its config.budget for all of the new P. 0, the default = any number; needed
    /// where expected_users and budget are both set, and 0 without expected_users.
    pub budget_periods: u32,
    /// What reward_window and forget_after count. DPB_CLOCK_DECISIONS (0, the default): a tick is a decision.
    /// DPB_CLOCK_CALLER: a tick is what dpb_advance says, in a unit of your own, so that a window of half an hour is
    /// that whatever the traffic. Time must not depend on rewards.
    pub clock: u32,
    /// 0, the default = a plain bandit. S > 0 = a bandit for each of at most S segments (placements, countries, hours) in
    /// one handle, that lend each other what they know (dpb_request.segment): arms times (S + 1) at most 2^27. Epsilon is
    /// for all segments together, however many there are: every reward is in one batch, of its segment's arm or of that
    /// arm in all segments (Theorem P). pending_capacity counts the decisions of all segments, and so do reward_window and forget_after with DPB_CLOCK_DECISIONS;
    /// horizon, beta, batch, base and interval_exponent are not used. For dpb_new and dpb_new_imed. Everything
    /// that dpb_new_imed does goes with it, also exploration, max_slots, arms that come and go, and dpb_compare.
    pub max_segments: u32,
    /// d, 1 .. 256: decisions by so many features of each request (dpb_request.features, .sparse), for dpb_new and
    /// dpb_new_linear. The intercept is the library's own, and no feature. 0, the default = no features. Not with
    /// max_segments.
    pub features: u32,
    /// With features: DPB_MODEL_SHARED, the default, or DPB_MODEL_PER_ARM.
    pub feature_model: u32,
    /// 0.
    pub reserved: u32,
    /// With features: C in 1e-30 .. 1e30, default 1: the largest |x|_1 of a row x (|x|_2 with delta > 0) that counts in
    /// full. Larger rows are scaled down to it, count for as much less, and are counted (dpb_diagnostics.oversized). For
    /// three one-hot fields it is 3. Choose it from the features alone.
    pub feature_norm: f64,
}

/// dpb_config.feature_model: one model for all arms, which their rows tell apart. A request has a row for each eligible
/// arm. An arm that is new is known as well as its features are.
pub const DPB_MODEL_SHARED: u32 = 0;
/// dpb_config.feature_model: a model for each arm. A request has one row, of the visitor or the page.
pub const DPB_MODEL_PER_ARM: u32 = 1;

/// dpb_config.clock: a tick is a decision.
pub const DPB_CLOCK_DECISIONS: u32 = 0;
/// dpb_config.clock: dpb_advance says what time it is.
pub const DPB_CLOCK_CALLER: u32 = 1;

const _: () = assert!(DPB_CLOCK_DECISIONS == Clock::Decisions as u32 && DPB_CLOCK_CALLER == Clock::Caller as u32);

/// dpb_config.flags: rewards outside the declared range are moved to its nearer end instead of
/// being refused. NaN and infinities are refused all the same.
pub const DPB_CLAMP_REWARDS: u32 = 1;
/// dpb_config.flags, DP-UCB-INT: the index is widened by the noise, as a proof needs, which the paper's
/// printed index is not.
pub const DPB_RIGOROUS_INDEX: u32 = 2;

/// dpb_shuffle_plan and dpb_config.flags: the noise of the paper's formula instead of the exactly
/// calibrated, which is 13 times less or better. For reproducing the paper; epsilon at most 1.
pub const DPB_SHUFFLE_PRINTED: u32 = 4;

/// Why a constructor failed. The message is always NUL-terminated; it names the field and the
/// value: "epsilon must be finite and > 0, got -1".
#[repr(C)]
pub struct dpb_error {
    /// The status that the function returned.
    pub status: dpb_status,
    /// For people.
    pub message: [c_char; 252],
}

const _: () = assert!(size_of::<*const u8>() != 8 || size_of::<dpb_config>() == 184);
const _: () = assert!(size_of::<dpb_error>() == 256);

// SAFETY: repr(C), begins with its size, ends in no padding; all its fields are numbers and addresses.
unsafe impl Growing for dpb_config {
    const SHORTEST: usize = offset_of!(dpb_config, node);
}

/// Fills a configuration with the defaults for this many arms and this privacy loss. Nothing is
/// checked here: constructors check. NULL is a no-op. Any thread.
///
/// In C and C++ this is dpb_config_init_sized, with the size that the header knows. The function of this
/// name fills what dpb_config had in version 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_config_init(config: *mut dpb_config, arms: u32, epsilon: f64) {
    const SIZE: usize = size_of::<dpb_config>(); // until a later version adds a field
    // SAFETY: passed on.
    unsafe { dpb_config_init_sized(config, SIZE as u32, arms, epsilon) };
}

/// dpb_config_init for a dpb_config of struct_size bytes, and no more: that of the caller's header, which
/// may be older than the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_config_init_sized(config: *mut dpb_config, struct_size: u32, arms: u32, epsilon: f64) {
    // SAFETY: NULL or valid for so many bytes, by contract.
    unsafe { sized::init(config, struct_size, dpb_config::defaults(arms, epsilon)) };
}

/// 32 bytes behind a pointer that may be NULL.
pub(super) fn read_seed(seed: *const u8) -> Option<[u8; 32]> {
    // SAFETY: NULL or 32 readable bytes, by contract; bytes have no alignment.
    (!seed.is_null()).then(|| unsafe { seed.cast::<[u8; 32]>().read() })
}

/// Copies what is called and typed alike in a [`dpb_config`] and in a [`Config`], either way.
macro_rules! copy {
    ($from:ident => $to:ident) => {
        copy!($from => $to: delta beta horizon reward_min reward_max reward_bits contributions_per_user pending_capacity
            reward_window interval_exponent batch base node forget_after exploration max_slots max_clicks expected_users budget_periods max_segments features feature_norm)
    };
    ($from:ident => $to:ident: $($field:ident)*) => { $($to.$field = $from.$field;)* };
}

impl dpb_config {
    /// What dpb_config_init fills in, for those who call the interface from Rust.
    pub fn defaults(arms: u32, epsilon: f64) -> dpb_config {
        let defaults = Config::new(arms, epsilon);
        // SAFETY: numbers and addresses all.
        let mut config: dpb_config = unsafe { std::mem::zeroed() };
        (config.struct_size, config.arms, config.epsilon) = (size_of::<dpb_config>() as u32, arms, epsilon);
        copy!(defaults => config);
        config
    }

    /// The configuration.
    ///
    /// # Safety
    /// `config` is valid for as many bytes as it says, and what it points to is NULL or valid.
    pub(super) unsafe fn read(config: *const dpb_config) -> Result<Config> {
        // SAFETY: passed on.
        let given = unsafe { sized::read(config, dpb_config::defaults(0, 0.0)) }?;
        if given.flags & !(DPB_CLAMP_REWARDS | DPB_RIGOROUS_INDEX | DPB_SHUFFLE_PRINTED) != 0 {
            return Err(Error::config("flags", "must be 0 or DPB_ flags of dpb_config", given.flags));
        }
        if given.feature_model > DPB_MODEL_PER_ARM {
            let rule = "must be DPB_MODEL_SHARED or DPB_MODEL_PER_ARM";
            return Err(Error::config("feature_model", rule, given.feature_model));
        }
        let mut config = Config {
            model_per_arm: given.feature_model == DPB_MODEL_PER_ARM,
            clamp_rewards: given.flags & DPB_CLAMP_REWARDS != 0,
            rigorous_index: given.flags & DPB_RIGOROUS_INDEX != 0,
            shuffle_printed: given.flags & DPB_SHUFFLE_PRINTED != 0,
            test_seed: read_seed(given.test_seed),
            clock: Clock::try_from(given.clock)?,
            // SAFETY: NULL or live, by contract.
            budget: unsafe { given.budget.as_ref() }.map(|b| b.budget.clone()),
            ..Config::new(given.arms, given.epsilon)
        };
        copy!(given => config);
        Ok(config)
    }
}

/// Runs a constructor: hands out a boxed handle, or fills `error` (NULL allowed). `config` is what it will
/// read: not NULL.
///
/// # Safety
/// `out` and `error` are NULL or valid.
pub(super) unsafe fn construct<C, H>(
    config: *const C,
    out: *mut *mut H,
    error: *mut dpb_error,
    build: impl FnOnce() -> Result<H>,
) -> dpb_status {
    if config.is_null() {
        // SAFETY: as above.
        unsafe { explain(error, DPB_NULL, "config is NULL") };
        return DPB_NULL;
    }
    // SAFETY: as above.
    unsafe { produce(out, error, || Ok(Box::into_raw(Box::new(build()?)))) }
}

/// Runs a cold call that has no handle yet: writes what it gives, or fills `error` (NULL allowed).
///
/// # Safety
/// `out` and `error` are NULL or valid.
pub(super) unsafe fn produce<T>(out: *mut T, error: *mut dpb_error, body: impl FnOnce() -> Result<T>) -> dpb_status {
    if out.is_null() {
        // SAFETY: as above.
        unsafe { explain(error, DPB_NULL, "out is NULL") };
        return DPB_NULL;
    }
    match guard::catch(body) {
        Ok(value) => {
            // SAFETY: not NULL, so valid by contract.
            unsafe { out.write(value) };
            DPB_OK
        }
        Err(failure) => {
            // SAFETY: as above.
            unsafe { explain(error, failure.status(), &failure.to_string()) };
            failure.status()
        }
    }
}

/// Fills a dpb_error, cutting the message to its room.
///
/// # Safety
/// `error` is NULL or valid.
pub(super) unsafe fn explain(error: *mut dpb_error, status: dpb_status, text: &str) {
    if error.is_null() {
        return;
    }
    let mut filled = dpb_error { status, message: [0; 252] };
    let room = filled.message.len() - 1; // the last byte stays NUL
    for (to, from) in filled.message[..room].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    // SAFETY: not NULL, so valid by contract.
    unsafe { error.write(filled) };
}
