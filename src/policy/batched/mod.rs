//! Batches of every arm, each released once: the policies that we recommend.

pub mod imed;
pub mod klucb;
mod room;
pub mod ts;
