//! libdpb: differentially private multi-armed bandits that a production service can link.
//!
//! ```
//! use dpb::{Algorithm, Bandit, Config};
//!
//! let mut config = Config::new(10, 0.5); // ten ads, epsilon 0.5 for each click
//! config.horizon = 1_000_000;
//! let bandit = Bandit::new(Algorithm::Se, &config)?;
//! let decision = bandit.select()?; // which ad?
//! bandit.update(decision.ticket, 1.0)?; // it was clicked
//! # Ok::<(), dpb::Error>(())
//! ```
//!
//! The guarantee is stated and proved in [`privacy`]; each policy's page names its theorem.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod bandit;
mod batch;
mod config;
pub mod counter;
mod engine;
mod error;
pub mod ffi;
pub mod fleet;
pub mod local;
pub mod noise;
mod os;
pub mod policy;
pub mod privacy;
mod random;
mod reward;
pub mod shuffle;
mod snapshot;
pub mod stopping;
mod table;
mod tournament;

pub use bandit::{ArmReport, Bandit, Decision, Report};
pub use config::Config;
#[cfg(feature = "test-hooks")]
#[doc(hidden)]
pub use config::Fault;
pub use engine::{Counts, Diagnostics};
pub use error::{Error, Result};
pub use policy::Algorithm;
pub use random::{Random, Seed};

/// The README's program, compiled and run as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
