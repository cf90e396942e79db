//! The C interface: one file per C type, and no algorithm.
//!
//! Every function checks its pointers, runs inside `guard::call`, and writes its outputs only on
//! success. Pointers must be NULL or valid for their type, as in any C interface; the header's
//! comments are generated from the comments here.

#![allow(unsafe_code, non_camel_case_types)]
// All functions have the same safety contract: pointers are NULL or valid. The header states it once, at its top.
#![allow(clippy::missing_safety_doc)]

mod arms;
mod bandit;
mod budget;
mod calls;
mod codebook;
mod config;
mod counter;
mod fill;
mod fleet;
/// Structs of the tables.
mod generated {
    pub mod config;
    pub mod node;
    pub mod report;
    pub mod request;
}
mod guard;
mod local;
mod moving;
mod node;
mod policies;
mod report;
mod request;
mod rows;
mod shuffle;
mod sized;
mod snapshot;
mod status;
mod stopping;
mod tables;

pub use arms::*;
pub use bandit::*;
pub use budget::*;
pub use codebook::*;
pub use config::*;
pub use counter::*;
pub use fleet::*;
pub use generated::{config::*, node::*, report::*, request::*};
pub use local::*;
pub use moving::*;
pub use node::*;
pub use policies::*;
pub use report::*;
pub use request::*;
pub use rows::*;
pub use shuffle::*;
pub use snapshot::*;
pub use status::*;
pub use stopping::*;
pub use tables::*;
