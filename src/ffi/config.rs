//! dpb_config and dpb_error, and dpb_budget, to which dpb_config refers.

use super::guard::{self, Guard, Handle};
use super::sized::{self, Growing};
use super::status::{DPB_NULL, DPB_OK, dpb_status};
use crate::budget::Budget;
use crate::config::{Clock, Config};
use crate::contribution::FleetKey;
use crate::error::{Error, Result};
use std::ffi::c_char;

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

impl Handle for dpb_budget {
    fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// The configuration of a bandit. Fill it with dpb_config_init, then change what you need.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_config {
    /// sizeof(dpb_config). dpb_config_init sets it, so that the struct can grow.
    pub struct_size: u32,
    /// K, the number of arms: 2 .. 2^24, or fewer as the policy's constructor says.
    pub arms: u32,
    /// The privacy loss of one reward, above 0. With contributions_per_user, max_slots or expected_users: of one
    /// user or one request. Baselines ignore it.
    pub epsilon: f64,
    /// In [0, 1); 0 for a pure policy.
    pub delta: f64,
    /// Failure probability of the policy's confidence intervals, in [0, 1); 0 = 1/horizon.
    pub beta: f64,
    /// T, the number of decisions; 0 = unknown. Policies that need it refuse 0 with DPB_INVALID_CONFIG.
    pub horizon: u64,
    /// Lower end of the declared range of rewards, default 0; at least -1e290.
    pub reward_min: f64,
    /// Upper end of the declared range of rewards, default 1; at most 1e290.
    pub reward_max: f64,
    /// Rewards are rounded to multiples of 2^-reward_bits of the range: 0 .. 24, default 20. 0 = each reward is
    /// exactly reward_min or reward_max.
    pub reward_bits: u32,
    /// m >= 1, default 1: the maximum number of rewards (with max_slots, of requests) of one user. Epsilon is
    /// divided by it. Your program keeps to it: it cancels each further decision of the user at once (decisions, because
    /// silence is a reward too). Or set expected_users, and the library does for each period.
    pub contributions_per_user: u32,
    /// The maximum number of open decisions: 1 .. 2^24, default 4096. It is rounded up to a power of two, and to a
    /// reward_window in decisions. Without a window, the oldest open decision expires when a new one needs its
    /// place. With a window on the caller's clock the oldest decision expires too, whether it has a reward or not:
    /// choose the most decisions in one window.
    pub pending_capacity: u32,
    /// 0 = report or cancel every decision, at a time that does not depend on its reward. W > 0 = silence means
    /// reward_min (no click). Every reward then takes effect exactly W ticks after its decision, in ticket order,
    /// whenever it arrives, so the timing of a click reveals nothing. Later rewards are DPB_EXPIRED. A tick is a
    /// decision, and W at most 2^24; or with DPB_CLOCK_CALLER your unit of time: 1800000 milliseconds are half an
    /// hour.
    pub reward_window: u32,
    /// 0, or any of DPB_CLAMP_REWARDS, DPB_RIGOROUS_INDEX and DPB_SHUFFLE_PRINTED, joined by |.
    pub flags: u32,
    /// NULL = entropy of the operating system. 32 bytes = reproducible (but for the tickets) and NOT private;
    /// reports say so. Read during construction only.
    pub test_seed: *const u8,
    /// DP-UCB-INT: v in (1, 1.5], default 1.1.
    pub interval_exponent: f64,
    /// SDP-AE: m. DP-Lap, Tsallis: tau. DP-UCB-INT: least interval. 0 = the policy chooses.
    pub batch: u32,
    /// dpb_new_lap: the number of the base policy, DPB_POLICY_...
    pub base: u32,
    /// The number of this handle in a fleet. 1 .. 65535 = the node of its tickets (dpb_ticket_node), for a router.
    /// A larger number is hashed to 16 bits. 0 = random.
    pub node: u64,
    /// M, in ticks of the clock: 1024 .. 2^40. Releases older than M ticks no longer count, half of them earlier,
    /// and a release that contradicts an arm's past ends that past at once. Choose about half the time between
    /// changes. 0, the default = never forget: then one change of the best arm can cost for ever. For dpb_new_imed,
    /// dpb_new_med and dpb_new_linear.
    pub forget_after: u64,
    /// f in [0, 1], default 0: each of K eligible arms has a probability of at least f/K in every decision, for
    /// off-policy evaluation. It costs f times the mean gap in each decision. For dpb_new_imed, dpb_new_klucb,
    /// dpb_new_med and dpb_new_linear.
    pub exploration: f64,
    /// The unit of epsilon for requests with several slots. 0, the default = one reward; a request of m slots loses
    /// up to m epsilon. S > 0, up to 2^24 = one request of at most S slots, with all its rewards; the noise is that
    /// of epsilon/S.
    pub max_slots: u32,
    /// 0, the default = all rewards of a request count. c, 1 .. max_slots = at most c rewards that are not
    /// reward_min count. If a request has more, c of them are drawn evenly when the reward_window of its first
    /// decision is over; so it needs a window. The noise is that of epsilon/min(2c, max_slots): with c = 1 that of
    /// epsilon/2, for any number of slots.
    pub max_clicks: u32,
    /// The number of users that you expect in a period (dpb_next_period), up to 2^28. The library then learns from
    /// at most contributions_per_user decisions of a user in a period. The counters are made at construction: 1.5
    /// bytes a user at contributions_per_user = 1, 3 up to 3, 6 up to 15, 12 up to 255; 2^30 bytes at most. 0, the
    /// default = your program limits the rewards of a user. A restored handle decides nothing until a snapshot of
    /// it was written: see dpb_restore. With a budget it needs budget_periods. Not for dpb_new_sdp_ae,
    /// dpb_new_vb_sdp_ae, dpb_new_ldp_ucb and dpb_new_ldp_klucb, where the users' devices must count.
    pub expected_users: u64,
    /// NULL, the default; or the budget that is charged when the handle is made: see dpb_new_budget.
    /// DPB_OVER_BUDGET if too little is left, and with a test_seed. With expected_users it needs budget_periods.
    /// Read during construction only, and no part of a snapshot.
    pub budget: *const dpb_budget,
    /// NULL, the default; or 32 secret random bytes, the same for all handles of a fleet. Then one handle can release
    /// what all collect, with one noise: see dpb_lead. Read during construction only, and no part of a snapshot. For
    /// dpb_new, dpb_new_imed, dpb_new_klucb, dpb_new_med and dpb_new_linear.
    pub fleet_key: *const u8,
    /// P, with expected_users: the most periods of this handle, all restarts included. After P periods
    /// dpb_next_period is DPB_OVER_BUDGET, and so is a restore, which begins a period. The budget is charged when
    /// the handle is made, with the loss of a person with requests in all P periods (P epsilon for a pure policy). A
    /// restart may change P: dpb_restore_as charges its config.budget for all of the new P. 0, the default = any
    /// number. P is needed if expected_users and budget are both set, and must be 0 without expected_users.
    pub budget_periods: u32,
    /// What reward_window and forget_after count. DPB_CLOCK_DECISIONS (0, the default): a tick is a decision.
    /// DPB_CLOCK_CALLER: dpb_advance sets the time, in a unit of your own, so that a window of half an hour is
    /// half an hour at any traffic. Time must not depend on rewards.
    pub clock: u32,
    /// 0, the default = no segments. S > 0 = one handle learns for each of at most S segments (placements,
    /// countries, hours), and segments learn from each other (dpb_request.segment). arms times (S + 1) is at most
    /// 2^27. Epsilon is for all segments together, however many: each reward is in one batch, of its segment's arm
    /// or of that arm in all segments (Theorem P). pending_capacity counts the decisions of all segments, and so do
    /// reward_window and forget_after with DPB_CLOCK_DECISIONS. horizon, beta, batch, base and interval_exponent
    /// are not used. For dpb_new and dpb_new_imed, with everything that these support.
    pub max_segments: u32,
    /// d, 1 .. 256: decisions depend on d features of each request (dpb_request.features, .sparse). For
    /// dpb_new and dpb_new_linear. The library adds the intercept, which is no feature. 0, the default = no
    /// features. Not with max_segments.
    pub features: u32,
    /// With features: DPB_MODEL_SHARED, the default, or DPB_MODEL_PER_ARM.
    pub feature_model: u32,
    /// 0.
    pub reserved: u32,
    /// With features: C in 1e-30 .. 1e30, default 1, the largest |x|_1 of a row x (with delta > 0 the largest
    /// |x|_2) that counts in full. Larger rows are scaled down to it, and counted in dpb_diagnostics.oversized. For
    /// three one-hot fields it is 3. Choose it from the features alone.
    pub feature_norm: f64,
}

/// dpb_config.feature_model: one model for all arms, whose rows of features differ. A request has a row for each
/// eligible arm. A new arm starts with what is known of its features.
pub const DPB_MODEL_SHARED: u32 = 0;
/// dpb_config.feature_model: a model for each arm. A request has one row, for example of the visitor or the page.
pub const DPB_MODEL_PER_ARM: u32 = 1;

/// dpb_config.clock: a tick is a decision.
pub const DPB_CLOCK_DECISIONS: u32 = 0;
/// dpb_config.clock: dpb_advance sets the time.
pub const DPB_CLOCK_CALLER: u32 = 1;

const _: () = assert!(DPB_CLOCK_DECISIONS == Clock::Decisions as u32 && DPB_CLOCK_CALLER == Clock::Caller as u32);

/// dpb_config.flags: a reward outside the declared range is moved to the nearer end, and not refused. NaN and
/// infinities are refused.
pub const DPB_CLAMP_REWARDS: u32 = 1;
/// dpb_config.flags, DP-UCB-INT: adds the width of the noise to the index, as a proof requires. The paper's index
/// omits it.
pub const DPB_RIGOROUS_INDEX: u32 = 2;

/// dpb_shuffle_plan and dpb_config.flags: the noise of the paper's formula. The default is the exact calibration,
/// which needs 13 times less noise or better. For reproducing the paper; epsilon at most 1.
pub const DPB_SHUFFLE_PRINTED: u32 = 4;

/// Why a call failed. The message always ends with NUL, and names the field and the value: "epsilon must be finite
/// and > 0, got -1".
#[repr(C)]
pub struct dpb_error {
    /// The status that the function returned.
    pub status: dpb_status,
    /// A text for people.
    pub message: [c_char; 252],
}

const _: () = assert!(size_of::<*const u8>() != 8 || size_of::<dpb_config>() == 192);
const _: () = assert!(size_of::<dpb_error>() == 256);

// SAFETY: repr(C), begins with its size, ends in no padding; all its fields are numbers and addresses.
unsafe impl Growing for dpb_config {}

/// Fills a configuration with the defaults for this number of arms and this privacy loss. Checks nothing:
/// constructors check. NULL is a no-op. Any thread.
///
/// struct_size: the size of the struct in the program's header, which may be older than the library. In C and C++
/// dpb_config_init(&config, arms, epsilon) passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_config_init_sized(config: *mut dpb_config, struct_size: u32, arms: u32, epsilon: f64) {
    // SAFETY: NULL or valid for that many bytes, by contract.
    unsafe { sized::init(config, struct_size, || dpb_config::defaults(arms, epsilon)) };
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
    /// `config` is valid for the size that it states, and its pointers are NULL or valid.
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
            fleet_key: read_seed(given.fleet_key).map(FleetKey::from),
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
            unsafe { explain(error, failure.status(), &text(&failure)) };
            failure.status()
        }
    }
}

/// The text of a refusal in the words of C. Some fields of dpb_config have another name or type in Rust.
pub(super) fn text(failure: &Error) -> String {
    let text = failure.to_string();
    match failure {
        Error::InvalidConfig { field: "model_per_arm", .. } => text
            .replace("model_per_arm", "feature_model")
            .replace("true", "DPB_MODEL_PER_ARM")
            .replace("false", "DPB_MODEL_SHARED"),
        Error::InvalidConfig { field: "shuffle_printed", .. } => text
            .replace("shuffle_printed", "flags")
            .replace("be true", "have DPB_SHUFFLE_PRINTED")
            .replace("be false", "not have DPB_SHUFFLE_PRINTED")
            .replace("true", "DPB_SHUFFLE_PRINTED")
            .replace("false", "no DPB_SHUFFLE_PRINTED"),
        _ => text,
    }
}

/// Fills a dpb_error, and truncates the message to its size.
///
/// # Safety
/// `error` is NULL or valid.
pub(super) unsafe fn explain(error: *mut dpb_error, status: dpb_status, text: &str) {
    if error.is_null() {
        return;
    }
    let mut filled = dpb_error { status, message: [0; 252] };
    let capacity = filled.message.len() - 1; // the last byte stays NUL
    for (to, from) in filled.message[..capacity].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    // SAFETY: not NULL, so valid by contract.
    unsafe { error.write(filled) };
}
