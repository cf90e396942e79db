//! dpb_stopping: stopping rules.

use super::calls::{call_with_output, construct, functions};
use super::config::{dpb_error, read_seed};
use super::guard::{self, Guard, handle, lock};
use super::sized::{self, Growing};
use super::status::dpb_status;
use crate::error::Result;
use crate::stopping::{StoppingConfig, StoppingRule};
use std::sync::Mutex;

/// A stopping rule: takes samples until their mean is known to a factor of 1 +- alpha. Made by dpb_new_nas,
/// dpb_new_dp_nas or dpb_new_dp_exp_nas, destroyed by dpb_stopping_free. Any number of threads may use it at once.
///
/// It has no snapshot: before the halt nothing is released, and sum and threshold are secret; after it the mean is
/// all that is left. After a crash start a new rule with new samples; the loss does not grow.
pub struct dpb_stopping {
    guard: Guard,
    rule: Mutex<StoppingRule>,
}

handle!(dpb_stopping);

/// The configuration of a stopping rule. Fill it with dpb_stopping_config_init, then set alpha and beta.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_stopping_config {
    /// sizeof(dpb_stopping_config). dpb_stopping_config_init sets it, so that the struct can grow.
    pub struct_size: u32,
    /// R > 0, at most 1e290: samples are in [-R, R].
    pub range: f64,
    /// The relative error, in (0, 1).
    pub alpha: f64,
    /// The failure probability, in (0, 1).
    pub beta: f64,
    /// The privacy loss of one sample, above 0. dpb_new_nas ignores it.
    pub epsilon: f64,
    /// NULL = entropy of the operating system. 32 bytes = reproducible and NOT private. Read during construction
    /// only.
    pub test_seed: *const u8,
}

const _: () = assert!(size_of::<*const u8>() != 8 || size_of::<dpb_stopping_config>() == 48);

// SAFETY: repr(C), begins with its size, ends with an address; all its fields are numbers and addresses.
unsafe impl Growing for dpb_stopping_config {}

/// Fills a configuration for samples in [-range, range] and this privacy loss of one sample. alpha and beta are 0,
/// which constructors refuse: set them. Checks nothing. NULL is a no-op. Any thread.
///
/// struct_size: the size of the struct in the program's header, which may be older than the library. In C and C++
/// dpb_stopping_config_init(&config, range, epsilon) passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_stopping_config_init_sized(
    config: *mut dpb_stopping_config,
    struct_size: u32,
    range: f64,
    epsilon: f64,
) {
    // SAFETY: NULL or valid for that many bytes, by contract.
    unsafe { sized::init(config, struct_size, || dpb_stopping_config::defaults(range, epsilon)) };
}

impl dpb_stopping_config {
    pub(super) fn defaults(range: f64, epsilon: f64) -> dpb_stopping_config {
        dpb_stopping_config {
            struct_size: size_of::<dpb_stopping_config>() as u32,
            range,
            alpha: 0.0,
            beta: 0.0,
            epsilon,
            test_seed: std::ptr::null(),
        }
    }
}

unsafe fn new(
    rule: fn(&StoppingConfig) -> Result<StoppingRule>,
    config: *const dpb_stopping_config,
    out: *mut *mut dpb_stopping,
    error: *mut dpb_error,
) -> dpb_status {
    // SAFETY: NULL or valid, by contract; config is not NULL where it is read.
    unsafe {
        construct(out, error, &[("config", config.is_null())], || {
            let c = sized::read(config, dpb_stopping_config::defaults(0.0, 0.0))?;
            let test_seed = read_seed(c.test_seed);
            let config = StoppingConfig { range: c.range, alpha: c.alpha, beta: c.beta, epsilon: c.epsilon, test_seed };
            Ok(dpb_stopping { guard: Guard::default(), rule: Mutex::new(rule(&config)?) })
        })
    }
}

functions! {
    /// NAS (Domingo, Gavalda, Watanabe 2002; Sajed and Sheffet 2019, section 3): WITHOUT privacy.
    ///
    /// config: read here, not kept. out: receives the handle, which the caller frees with
    /// dpb_stopping_free. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_NEWER_VERSION (struct_size of a newer library);
    /// DPB_ENTROPY. Any thread.
    fn dpb_new_nas(config: *const dpb_stopping_config, out: *mut *mut dpb_stopping, error: *mut dpb_error)
        = new(StoppingRule::nas, config, out, error);

    /// DP-NAS: pure epsilon-DP (Sajed and Sheffet 2019, Algorithm 1, Theorem 3.1).
    /// Parameters, statuses and threads as dpb_new_nas.
    fn dpb_new_dp_nas(config: *const dpb_stopping_config, out: *mut *mut dpb_stopping, error: *mut dpb_error)
        = new(StoppingRule::dp_nas, config, out, error);

    /// DP-exponential-NAS: tests at powers of two only; pure epsilon-DP (Sajed and Sheffet 2019, Algorithm 2, Corollary
    /// 3.2, Theorem 3.3).
    /// Parameters, statuses and threads as dpb_new_nas.
    fn dpb_new_dp_exp_nas(config: *const dpb_stopping_config, out: *mut *mut dpb_stopping, error: *mut dpb_error)
        = new(StoppingRule::dp_exp_nas, config, out, error);

    /// Adds a sample. halted: receives 1 if the rule halts with it, else 0. O(1), never allocates.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_REWARD (NaN, or outside [-range, range]; nothing has changed); DPB_HALTED
    /// (it halted before, and takes no more samples); DPB_POISONED. Any thread.
    fn dpb_stopping_push(stopping: *mut dpb_stopping, sample: f64, halted: *mut u32)
        = call_with_output(stopping, halted, |s| lock(&s.rule)?.push(sample).map(Into::into));

    /// Reads the released mean, in the samples' unit. Reading it costs no privacy.
    /// Returns DPB_OK; DPB_NULL; DPB_NOT_READY (it has not halted); DPB_POISONED. Any thread.
    fn dpb_stopping_mean(stopping: *const dpb_stopping, mean: *mut f64)
        = call_with_output(stopping, mean, |s| {
            let rule = lock(&s.rule)?;
            rule.check()?;
            rule.mean()
        });

    /// Reads whether the rule is private. is_private: receives 1, or 0 for dpb_new_nas and with a test_seed.
    /// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
    fn dpb_stopping_is_private(stopping: *const dpb_stopping, is_private: *mut u32)
        = call_with_output(stopping, is_private, |s| Ok(lock(&s.rule)?.is_private().into()));
}

/// Destroys a stopping rule. NULL is a no-op. No other call on the handle may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_stopping_free(stopping: *mut dpb_stopping) {
    guard::free(stopping);
}
