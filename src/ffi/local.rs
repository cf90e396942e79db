//! The local model: the device's privatiser, and the policies on its bits.

use super::calls::{functions, produce};
use super::status::dpb_status;
use crate::local::RandomizedResponse;
use crate::random::Seed;
use std::ptr::null_mut;

functions! {
    /// Encodes a reward into one bit on the user's device, in the local model: the bit is epsilon-DP for whoever reads
    /// it. Randomised response (Warner 1965): the reward's bit with probability e^epsilon/(1 + e^epsilon), rounded
    /// towards privacy, else the opposite. A reward between 0 and 1 is first rounded to a bit at random, without bias
    /// (on a grid of 2^-24). Needs no handle and no allocation. Exact integer sampling, with a new key from the
    /// operating system in each call: about a microsecond.
    ///
    /// The server passes the bit to dpb_update of a dpb_new_ldp_ policy with the same epsilon: 1 as reward_max, 0 as
    /// reward_min. Encode a reward once: a second bit of it is a second loss of epsilon.
    ///
    /// epsilon: 1e-6 .. 40; the policy's epsilon / contributions_per_user. reward: in [0, 1]. bit: receives 0 or 1.
    /// Returns DPB_OK; DPB_NULL; DPB_INVALID_CONFIG (epsilon); DPB_INVALID_REWARD; DPB_ENTROPY. Any thread.
    fn dpb_ldp_encode(epsilon: f64, reward: f64, bit: *mut u8)
        = produce(bit, null_mut(), &[], || {
            let response = RandomizedResponse::new(epsilon)?;
            response.encode(reward, &mut Seed::new(None)?.stream()).map(u8::from)
        });
}
