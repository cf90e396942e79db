//! What policies that learn from a set of releases have in common.

pub(crate) mod combine;
pub(crate) mod facts;
pub(crate) mod open;
pub mod peers;
