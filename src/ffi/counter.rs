//! dpb_counter: sums under continual observation.

use super::calls::{call_with_output, construct, functions};
use super::config::{dpb_error, read_seed};
use super::guard::{self, Guard, call, handle, lock};
use super::sized::{self, Growing};
use super::status::dpb_status;
use crate::counter::{Counter, CounterKind};
use crate::error::Error;
use std::sync::Mutex;

/// A differentially private running sum of values in [0, 1]. Made by dpb_new_counter, destroyed by
/// dpb_counter_free. Any number of threads may use it at once.
///
/// It has no snapshot and needs none: after a restart, add the last sum that you read, which is released, to the
/// sums of a new counter. Each value is then in one counter, so the loss does not grow; the widths add up.
pub struct dpb_counter {
    guard: Guard,
    counter: Mutex<Counter>,
}

handle!(dpb_counter);

/// A DPB_COUNTER_ number.
pub type dpb_counter_kind = u32;

/// Releases when the number of values is a power of two: the least noise, the fewest releases.
pub const DPB_COUNTER_LOGARITHMIC: dpb_counter_kind = 0;
/// Releases at every value, up to a horizon.
pub const DPB_COUNTER_BINARY: dpb_counter_kind = 1;
/// Releases at every value, without a horizon.
pub const DPB_COUNTER_HYBRID: dpb_counter_kind = 2;

const _: () = assert!(DPB_COUNTER_LOGARITHMIC == CounterKind::Logarithmic as u32);
const _: () = assert!(DPB_COUNTER_BINARY == CounterKind::Binary as u32);
const _: () = assert!(DPB_COUNTER_HYBRID == CounterKind::Hybrid as u32);

/// The configuration of a counter. Fill it with dpb_counter_config_init, then change what you need.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_counter_config {
    /// sizeof(dpb_counter_config). dpb_counter_config_init sets it, so that the struct can grow.
    pub struct_size: u32,
    /// The kind of counter, DPB_COUNTER_...
    pub kind: dpb_counter_kind,
    /// The privacy loss of one value, above 0.
    pub epsilon: f64,
    /// The most values of a binary counter, 1 .. 2^37. The other kinds ignore it.
    pub horizon: u64,
    /// NULL = entropy of the operating system. 32 bytes = reproducible and NOT private. Read during construction
    /// only.
    pub test_seed: *const u8,
}

const _: () = assert!(size_of::<*const u8>() != 8 || size_of::<dpb_counter_config>() == 32);

// SAFETY: repr(C), begins with its size, ends with an address; all its fields are numbers and addresses.
unsafe impl Growing for dpb_counter_config {}

impl dpb_counter_config {
    pub(super) fn defaults(kind: dpb_counter_kind, epsilon: f64) -> dpb_counter_config {
        let struct_size = size_of::<dpb_counter_config>() as u32;
        dpb_counter_config { struct_size, kind, epsilon, horizon: 0, test_seed: std::ptr::null() }
    }
}

/// Fills a configuration for a counter of this kind with this privacy loss of one value. Checks nothing:
/// dpb_new_counter checks. NULL is a no-op. Any thread.
///
/// struct_size: the size of the struct in the program's header, which may be older than the library. In C and C++
/// dpb_counter_config_init(&config, kind, epsilon) passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_counter_config_init_sized(
    config: *mut dpb_counter_config,
    struct_size: u32,
    kind: dpb_counter_kind,
    epsilon: f64,
) {
    // SAFETY: NULL or valid for that many bytes, by contract.
    unsafe { sized::init(config, struct_size, || dpb_counter_config::defaults(kind, epsilon)) };
}

functions! {
    /// Makes a private running sum: pure epsilon-DP for the whole stream of releases if one value changes (Chan, Shi,
    /// Song 2011). The hybrid kind shares the budget between its two parts, unlike Tossou and Dimitrakakis 2016, Lemma
    /// B.2.
    ///
    /// config: read here, not kept. out: receives the handle, which the caller frees with dpb_counter_free. error:
    /// NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_NEWER_VERSION (struct_size of a newer library); DPB_ENTROPY;
    /// DPB_NO_MEMORY. Any thread.
    fn dpb_new_counter(config: *const dpb_counter_config, out: *mut *mut dpb_counter, error: *mut dpb_error)
        = construct(out, error, &[("config", config.is_null())], || {
            let c = sized::read(config, dpb_counter_config::defaults(DPB_COUNTER_LOGARITHMIC, 0.0))?;
            let kind = match c.kind {
                DPB_COUNTER_LOGARITHMIC => CounterKind::Logarithmic,
                DPB_COUNTER_BINARY => CounterKind::Binary,
                DPB_COUNTER_HYBRID => CounterKind::Hybrid,
                other => return Err(Error::config("kind", "must be a DPB_COUNTER_ number", other)),
            };
            let counter = Counter::new(kind, c.epsilon, c.horizon, read_seed(c.test_seed))?;
            Ok(dpb_counter { guard: Guard::default(), counter: Mutex::new(counter) })
        });

    /// Adds a value in [0, 1], and updates the release. O(1) amortised, never allocates.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_REWARD (NaN, or outside [0, 1]); DPB_HALTED (a binary counter has its
    /// horizon of values, another kind 2^37); DPB_POISONED. A refused value changes nothing. Any thread.
    fn dpb_counter_add(counter: *mut dpb_counter, value: f64)
        = call(counter, |c| lock(&c.counter)?.add(value));

    /// Reads the released sum, 0 before the first release. It has noise, so it can be negative, not whole, and smaller
    /// than
    /// before: do not clamp it before you add or subtract sums, because that biases them. Reading costs no privacy and
    /// draws no noise: it gives the same number until the next dpb_counter_add. O(1).
    /// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
    fn dpb_counter_read(counter: *const dpb_counter, sum: *mut f64)
        = call_with_output(counter, sum, |c| {
            let counter = lock(&c.counter)?;
            counter.check()?;
            Ok(counter.read())
        });

    /// Reads whether the counter is private. is_private: receives 1, or 0 with a test_seed.
    /// Returns DPB_OK; DPB_NULL; DPB_POISONED. Any thread.
    fn dpb_counter_is_private(counter: *const dpb_counter, is_private: *mut u32)
        = call_with_output(counter, is_private, |c| Ok(lock(&c.counter)?.is_private().into()));
}

/// Destroys a counter. NULL is a no-op. No other call on the handle may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_counter_free(counter: *mut dpb_counter) {
    guard::free(counter);
}
