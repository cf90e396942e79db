//! The shuffle model (Tenenbaum, Kaplan, Mansour, Stemmer 2021): the server does not learn whose bit is whose.
//!
//! There are three roles, in a service three processes (`examples/c/shuffle_roles.c`):
//!
//! * the *encoder*, on the user's device, turns a reward into one honest bit and some coins ([`encode`]);
//! * the [`Shuffler`], trusted not to collude with the server, keeps the messages of one batch until all have arrived,
//!   then releases their bits in uniformly random order, once, and nothing else;
//! * the *analyzer*, on the server, counts ones and subtracts the coins' mean
//!   ([`Bandit::submit_shuffled`](crate::Bandit::submit_shuffled)).
//!
//! All three share one [`Params`], which is public. A device makes its own with [`Params::new`], or takes the server's.
//! Device and shuffler compute what the noise of a plan gives, and refuse a plan that claims more. The device decides
//! whether the claim is enough.
//!
//! ```
//! # use dpb::shuffle::{Shuffler, encode};
//! # use dpb::{Algorithm, Bandit, Config, Seed};
//! # fn main() -> Result<(), dpb::Error> {
//! let config = Config { delta: 1e-6, horizon: 1_000_000, ..Config::new(2, 1.0) };
//! let server = Bandit::new(Algorithm::VbSdpAe, &config)?;
//! let decision = server.select()?;
//! let plan = server.shuffle_params(decision.phase)?;
//! let mut shuffler = Shuffler::new(plan, None)?; // one for each arm
//! while !shuffler.is_complete() {
//!     // On a device, for each user who was shown this arm:
//!     let (mut coins, mut message) = (Seed::new(None)?.stream(), vec![0; plan.message_len()]);
//!     encode(&plan, 1.0, &mut coins, &mut message)?;
//!     shuffler.push(&message)?;
//! }
//! let mut batch = vec![0; plan.batch_len()];
//! shuffler.take(&mut batch)?;
//! server.submit_shuffled(decision.phase, decision.arm, &batch)?;
//! # Ok(())
//! # }
//! ```
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
