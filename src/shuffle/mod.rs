//! The shuffle model (Tenenbaum, Kaplan, Mansour, Stemmer 2021): no server ever sees whose bit is
//! whose.
//!
//! Three roles, in real life three processes (`examples/c/shuffle_roles.c`):
//!
//! * the *encoder*, on the user's device: a reward in, one honest bit and some coins out
//!   ([`encode`]);
//! * the [`Shuffler`], trusted not to collude with the server: it holds the messages of one batch
//!   until all have come, then releases their bits in uniformly random order, once, and nothing
//!   else;
//! * the *analyzer*, on the server: counts ones and subtracts the coins' mean
//!   ([`Bandit::submit_shuffled`](crate::Bandit::submit_shuffled)).
//!
//! All three share one [`Params`], plain public data. A device makes its own with [`Params::new`], or
//! takes the server's: its noise is computed against its claim, and a plan that promises more than it
//! gives is refused, by the device and by the shuffler. The device decides whether the claim is enough.
//!
//! **Privacy.** What the server sees of a batch is a random order of a fixed number of bits, so a
//! coin-only function of the number of ones: the users' bits plus Binomial(m p, q) coins, which is
//! (eps, delta)-DP by the calibration of [`crate::privacy::calibration`]. A batch is short of noise
//! when some of its m users send no honest coins: the shuffler checks the *length* of messages and
//! can check no more.

mod analyzer;
mod encoder;
mod params;
mod shuffler;

pub use analyzer::{count_ones, radius};
pub use encoder::encode;
pub(crate) use encoder::{count_of_encoded, round_at_random};
pub use params::Params;
pub use shuffler::Shuffler;
