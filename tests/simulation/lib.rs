//! Worlds of nodes on one store. This is a package of its own, because it is optimised and tests are not.

#[path = "../support/coins.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod coins;
pub mod losses;
pub mod model;
pub mod plan;
pub mod rows;
pub mod sabotage;
pub mod world;
