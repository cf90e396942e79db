//! The three roles of the shuffle model, and the policies on shuffled batches.

use super::bandit::dpb_bandit;
use super::calls::{attempt, call_unless, call_with_output, construct, functions, given, produce};
use super::config::dpb_error;
use super::generated::config::DPB_SHUFFLE_PRINTED;
use super::guard::{self, Guard, handle, lock, slice, write_length};
use super::sized::{self, Growing};
use super::status::dpb_status;
use crate::error::{Error, Result};
use crate::privacy::calibration::ShuffleNoise;
use crate::random::Seed;
use crate::shuffle::{Params, Shuffler, encode};
use std::ptr::null_mut;
use std::sync::Mutex;

/// The plan of a batch, on which its encoders, shuffler and server agree. It is public: make it by dpb_shuffle_plan
/// wherever you need it, or send it. A message has 1 + coins_per_user bytes, a batch users times as many.
///
/// Every function that takes a plan computes what its noise gives, and refuses a plan that does not keep its claim
/// (DPB_INVALID_CONFIG). That takes about 0.2/epsilon microseconds, at most 4 milliseconds. You decide whether the
/// claim is enough: compare epsilon and delta with what was promised. 32 bytes in every version, because
/// dpb_shuffle_plan cannot know the size in the caller's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_shuffle_params {
    /// sizeof(dpb_shuffle_params), set by dpb_shuffle_plan.
    pub struct_size: u32,
    /// m: messages in a batch, at least 1.
    pub users: u32,
    /// p: the coins that each user sends in addition to its own bit, 1 .. 2^20.
    pub coins_per_user: u32,
    /// Each coin is 1 with probability coin_numerator / 2^32; 1 .. 2^31.
    pub coin_numerator: u32,
    /// The claim: a batch of users messages is (epsilon, delta)-DP. In (0, 100].
    pub epsilon: f64,
    /// The delta of the claim, in (0, 1).
    pub delta: f64,
}

const _: () = assert!(size_of::<dpb_shuffle_params>() == 32);

// SAFETY: repr(C), begins with its size, ends with a f64; all its fields are numbers.
unsafe impl Growing for dpb_shuffle_params {}

/// Keeps the messages of one batch until all have arrived, then hands out their bits in uniformly random order,
/// once, and nothing else. Made by dpb_new_shuffler, destroyed by dpb_shuffler_free. Any number of threads may use
/// it at once. After fork() the child's copy is DPB_POISONED.
pub struct dpb_shuffler {
    guard: Guard,
    shuffler: Mutex<Shuffler>,
}

handle!(dpb_shuffler);

impl From<Params> for dpb_shuffle_params {
    fn from(p: Params) -> dpb_shuffle_params {
        dpb_shuffle_params {
            struct_size: size_of::<dpb_shuffle_params>() as u32,
            users: p.users(),
            coins_per_user: p.noise().coins_per_user,
            coin_numerator: p.noise().coin_numerator as u32, // at most 2^31
            epsilon: p.epsilon(),
            delta: p.delta(),
        }
    }
}

impl dpb_shuffle_params {
    /// # Safety
    /// `params` is valid for the size that it states.
    unsafe fn read(params: *const dpb_shuffle_params) -> Result<Params> {
        // SAFETY: as above; numbers all.
        let p = unsafe { sized::read(params, std::mem::zeroed()) }?;
        let noise = ShuffleNoise { coins_per_user: p.coins_per_user, coin_numerator: p.coin_numerator.into() };
        Params::with_noise(p.epsilon, p.delta, p.users, noise)
    }
}

/// Calls a function that writes bytes. Stores in `len` how many it wrote, or needs.
///
/// # Safety
/// `len` is valid; `bytes` is valid for `cap` bytes, or NULL with `cap` 0.
unsafe fn fill(
    bytes: *mut u8,
    cap: usize,
    len: *mut usize,
    write: impl FnOnce(&mut [u8]) -> Result<usize>,
) -> Result<()> {
    // SAFETY: as above.
    let out = if cap == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(bytes, cap) } };
    unsafe { write_length(write(out), len) }
}

functions! {
    /// Plans a batch of M_sum (Tenenbaum, Kaplan, Mansour, Stemmer 2021, Algorithm 3): the number of coins that its
    /// users must add to their bits, so that the count of ones is (epsilon, delta)-DP. It is the least such number, by
    /// the exact divergence between the binomial distribution and the same shifted by one. Takes microseconds to
    /// milliseconds.
    ///
    /// epsilon: in (0, 100]. delta: in (0, 1). users: m, at least 1. flags: 0 or DPB_SHUFFLE_PRINTED. out: receives the
    /// plan; may be uninitialised. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (also if a user would send more than 2^20 coins: a larger batch, or
    /// a larger epsilon, needs fewer). Any thread.
    fn dpb_shuffle_plan(epsilon: f64, delta: f64, users: u32, flags: u32, out: *mut dpb_shuffle_params,
        error: *mut dpb_error)
        = produce(out, error, &[], || match flags {
            0 | DPB_SHUFFLE_PRINTED => Ok(Params::new(epsilon, delta, users, flags != 0)?.into()),
            _ => Err(Error::config("flags", "must be 0 or DPB_SHUFFLE_PRINTED", flags)),
        });

    /// Encodes a reward into one message, on the user's device. Needs no handle and no allocation. Writes 1 +
    /// coins_per_user bytes, each 0 or 1: the user's own bit, then its coins. A reward between 0 and 1 becomes 1 with
    /// that probability (on a grid of 2^-24), so sums stay unbiased. Exact integer sampling, with a new key from the
    /// operating system in each call: about a microsecond, a nanosecond or two for each coin, and the check of the
    /// plan.
    ///
    /// The message reveals the reward: send it, encrypted, to the shuffler only. Send it once: a second message of one
    /// reward is a second loss of epsilon.
    ///
    /// params: from dpb_shuffle_plan, the device's own or one that the server sent. A plan whose noise does not make a
    /// batch of its users (epsilon, delta)-DP is refused. reward: in [0, 1]. bits: receives up to cap bytes. len:
    /// receives the message's length, also if cap is too small.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG or DPB_NEWER_VERSION (params); DPB_INVALID_REWARD;
    /// DPB_BUFFER_TOO_SMALL (only len written); DPB_ENTROPY. Any thread.
    fn dpb_shuffle_encode(params: *const dpb_shuffle_params, reward: f64, bits: *mut u8, cap: usize, len: *mut usize)
        = attempt(null_mut(), &[("params", params.is_null()), ("len", len.is_null()), given("bits", bits, cap)], || {
            let (params, mut random) = (dpb_shuffle_params::read(params)?, Seed::new(None)?.stream());
            fill(bits, cap, len, |bits| encode(&params, reward, &mut random, bits))
        });

    /// Makes a shuffler for batches of this plan, one after another. Use one handle for each arm with an open batch. It
    /// allocates the bytes of a batch here, and nothing later. The order is drawn from the operating system's entropy.
    /// params: read here, not kept. A plan that does not keep its claim is refused, as by dpb_shuffle_encode: a plan
    /// for too few users would close batches before they have their noise. out: receives the handle, which the caller
    /// frees with dpb_shuffler_free. error: NULL, or filled on failure.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG; DPB_NEWER_VERSION; DPB_ENTROPY; DPB_NO_MEMORY. Any thread.
    fn dpb_new_shuffler(params: *const dpb_shuffle_params, out: *mut *mut dpb_shuffler, error: *mut dpb_error)
        = construct(out, error, &[("params", params.is_null())], || {
            let shuffler = Shuffler::new(dpb_shuffle_params::read(params)?, None)?;
            Ok(dpb_shuffler { guard: Guard::default(), shuffler: Mutex::new(shuffler) })
        });

    /// Adds one user's message. O(len), no allocation. The transport must ensure that each user sends one.
    /// bits: 1 + coins_per_user bytes, each 0 or 1.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (length, or a byte that is no bit); DPB_EXPIRED (the batch is
    /// complete: take it first; this message was not added); DPB_POISONED. Any thread.
    fn dpb_shuffler_push(shuffler: *mut dpb_shuffler, bits: *const u8, len: usize)
        = call_unless(bits.is_null() && len > 0, shuffler, |s| {
            lock(&s.shuffler)?.push(slice(bits, len))
        });

    /// Releases the complete batch, its bits in uniformly random order, and starts the next one. O(batch), no
    /// allocation.
    /// out: receives up to cap bytes. len: receives the batch's length, also if cap is too small.
    /// Returns DPB_OK; DPB_NULL; DPB_NOT_READY (until the batch is complete); DPB_BUFFER_TOO_SMALL (only len written,
    /// nothing released); DPB_POISONED. Any thread.
    fn dpb_shuffler_take(shuffler: *mut dpb_shuffler, out: *mut u8, cap: usize, len: *mut usize)
        = call_unless(len.is_null() || (out.is_null() && cap > 0), shuffler, |s| {
            fill(out, cap, len, |out| lock(&s.shuffler)?.take(out))
        });
}

/// Destroys a shuffler and its messages. NULL is a no-op. No other call on the handle may be running or follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpb_shuffler_free(shuffler: *mut dpb_shuffler) {
    guard::free(shuffler);
}

functions! {
    /// Reads the plan of a phase's batches, for the users' devices and the shufflers. It is public, and the same at any
    /// time. Phases count from 1; a decision has its phase.
    /// out: receives the plan; may be uninitialised.
    /// Returns DPB_OK; DPB_NULL; DPB_UNSUPPORTED (not a policy of the shuffle model); DPB_POISONED. Any thread.
    fn dpb_shuffle_params_read(bandit: *const dpb_bandit, phase: u32, out: *mut dpb_shuffle_params)
        = call_with_output(bandit, out, |b| b.bandit.shuffle_params(phase).map(Into::into));

    /// Gives the server one arm's shuffled batch of the open phase, once. Until then dpb_select continues to choose
    /// that arm, so that lost users are replaced; the tickets of these decisions get no reward and expire. O(len), and
    /// O(arms) when a phase closes; no allocation.
    /// bits: users * (1 + coins_per_user) bytes of that phase's plan, each 0 or 1.
    /// Returns DPB_OK; DPB_NULL; DPB_EXPIRED (a phase that is over, or an eliminated arm); DPB_NOT_READY (a later
    /// phase); DPB_DUPLICATE (that arm's batch of the phase was submitted); DPB_INVALID_CONFIG (an arm that does not
    /// exist, a wrong length, a byte that is no bit); DPB_UNSUPPORTED (not a policy of the shuffle model, or this
    /// handle took plain rewards, by dpb_update or by the end of a reward_window); DPB_POISONED. A refused batch
    /// changes nothing. Any thread.
    ///
    /// After the first accepted batch, dpb_update on this handle is accepted and ignored: rewards arrive by the
    /// shuffler.
    fn dpb_submit_shuffled(bandit: *mut dpb_bandit, phase: u32, arm: u32, bits: *const u8, len: usize)
        = call_unless(bits.is_null() && len > 0, bandit, |b| {
            b.bandit.submit_shuffled(phase, arm, slice(bits, len))
        });
}
