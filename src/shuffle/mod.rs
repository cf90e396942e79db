//! The shuffle model (Tenenbaum, Kaplan, Mansour, Stemmer 2021): no server learns which bit belongs to which user.
//!
//! It has three roles, in practice three processes (`examples/c/shuffle_roles.c`):
//!
//! * the *encoder*, on the user's device, turns a reward into one bit of data and some random coins ([`encode`]);
//! * the [`Shuffler`], which is trusted not to collude with the server, holds the messages of one batch until all have
//!   arrived. Then it releases their bits in uniformly random order, once, and nothing else;
//! * the *analyzer*, on the server, counts ones and subtracts the mean of the coins
//!   ([`Bandit::submit_shuffled`](crate::Bandit::submit_shuffled)).
//!
//! All three share one [`Params`], which is public data. A device creates its own with [`Params::new`], or uses the
//! server's. The library computes the noise of received parameters and compares it with their claim. Device and
//! shuffler refuse parameters that claim more than they give. The device decides whether the claim is enough.
//!
//! **Privacy.** The server sees a random order of a fixed number of bits of each batch, so its view depends only on
//! the number of ones and on coins. That number is the users' bits plus Binomial(m p, q) coins, which is (eps,
//! delta)-DP by the calibration of [`crate::privacy::calibration`]. A batch has too little noise if some of its m
//! users send no honest coins. The shuffler checks the *length* of messages, and can check no more.

use crate::error::{Error, Result};

mod analyzer;
mod encoder;
mod params;
mod shuffler;

pub use analyzer::{count_ones, radius};
pub use encoder::encode;
pub(crate) use encoder::{count_of_encoded, round_at_random};
pub use params::Params;
pub use shuffler::Shuffler;

/// Refuses what is not `length` bytes of 0 or 1.
fn check_bits(bits: &[u8], length: usize) -> Result<()> {
    if bits.len() != length {
        return Err(Error::config("len", &format!("must be {length}"), bits.len()));
    }
    if bits.iter().any(|&bit| bit > 1) {
        return Err(Error::refused("bits", format_args!("must be bytes of 0 or 1")));
    }
    Ok(())
}
