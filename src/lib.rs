//! libdpb: differentially private multi-armed bandits that a production service can link.
//!
//! ```
//! use dpb::{Algorithm, Bandit, Config};
//!
//! fn main() -> Result<(), dpb::Error> {
//!     let mut config = Config::new(10, 1.0);
//!     config.horizon = 1_000_000;
//!     config.reward_window = 1000;
//!     let bandit = Bandit::new(Algorithm::RECOMMENDED, &config)?; // threads share it by reference
//!     let ad = bandit.select()?;
//!     println!("show ad {}", ad.arm);
//!     bandit.update(ad.ticket, 1.0)?;
//!     assert_eq!(bandit.update(ad.ticket, 1.0), Err(dpb::Error::Duplicate));
//!     Ok(())
//! }
//! ```
//!
//! A handle may be shared by any number of threads, and does not survive a fork: in the child every call on it is
//! [`Error::Poisoned`].
//!
//! The guarantee is stated and proved in [`privacy`]; each policy's page names its theorem. Handles outlive their
//! process by [`Bandit::snapshot`], and learn from each other by [`Bandit::merge`]: see [`fleet`]. [`Config::max_segments`] makes it a bandit for
//! each of thousands of segments. [`Bandit::select_for`] learns from no more of a user's rewards than was promised. Beside the bandits
//! there are private running sums ([`counter`]), stopping rules ([`stopping`]), and the devices and servers of the
//! [`shuffle`] and [`local`] models.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod bandit;
mod batch;
mod budget;
mod config;
pub mod counter;
mod engine;
mod error;
pub mod ffi;
pub mod fleet;
mod key_index;
pub mod local;
mod memory;
pub mod noise;
mod os;
pub mod policy;
pub mod privacy;
mod random;
mod request;
mod reward;
pub mod shuffle;
mod snapshot;
pub mod stopping;
mod tournament;
mod users;

pub use bandit::{ArmReport, Bandit, Decision, Diagnostics, Report};
pub use budget::Budget;
pub use config::{Clock, Config};
pub use engine::Counts;
pub use error::{Error, Result};
#[cfg(dpb_faults)]
#[doc(hidden)]
pub use noise::probe::Fault;
pub use policy::Algorithm;
pub use policy::linear::{Feature, Rows, feature_cross, feature_hash};
pub use random::{Random, Seed};
pub use request::Request;
