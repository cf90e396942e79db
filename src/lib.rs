//! libdpb: differentially private multi-armed bandits that a production service can link.
//!
//! ```
//! # use dpb::{Algorithm, Bandit, Config, Error};
//! let mut config = Config::new(10, 1.0); // ten ads, epsilon 1 for each reward
//! config.reward_window = 1000; // no click within 1000 decisions: reward 0
//! let bandit = Bandit::new(Algorithm::RECOMMENDED, &config)?; // threads share it by reference
//! let ad = bandit.select()?; // show ad.arm
//! bandit.update(ad.ticket, 1.0)?;
//! # Ok::<(), Error>(())
//! ```
//!
//! A handle does not survive a fork: in the child every call on it is [`Error::Poisoned`]. [`privacy`] states and proves the
//! guarantee, and each policy's page names its theorem. `docs/` of the source has the guide.
//!
//! | task | see |
//! |---|---|
//! | eligible arms, several slots, users, segments, features | [`Bandit::select_for`], [`Request`] |
//! | learning for each of thousands of segments | [`Config::max_segments`] |
//! | restarts | [`Bandit::snapshot`], [`Bandit::restore_as`] |
//! | several processes that learn together | [`Bandit::merge`], [`ledger::peers`] |
//! | the same with one noise for all of them | [`Bandit::lead`], [`contribution`] |
//! | several handles that see the same person | [`Budget`] |
//! | private running sums, stopping rules | [`counter`], [`stopping`] |
//! | devices that make rewards private | [`shuffle`], [`local`] |

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod bandit;
mod budget;
mod codebook;
mod config;
pub mod contribution;
pub mod counter;
mod engine;
mod error;
pub mod ffi;
mod key_index;
pub mod ledger;
pub mod local;
mod memory;
mod moving;
pub mod node;
pub mod noise;
mod os;
mod parts;
pub mod policy;
pub mod privacy;
mod random;
mod request;
mod reward;
pub mod shuffle;
mod snapshot;
pub mod stopping;
mod table;
mod tournament;
mod users;

pub use bandit::{ArmReport, Bandit, Decision, Diagnostics, Report, Statement, Verdict, Warnings};
pub use budget::Budget;
pub use codebook::Codebook;
pub use config::{Clock, Config};
pub use contribution::FleetKey;
pub use engine::Counts;
pub use error::{Error, Result, Unsupported};
pub use ledger::facts::Duty;
pub use policy::Algorithm;
pub use policy::verdict::TestState;
pub use random::{Random, Seed};
pub use request::{Feature, NO_ARM, Request, Rows, feature_cross, feature_hash};
pub use table::{Elsewhere, decide};
