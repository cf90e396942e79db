//! What policies that learn from a set of releases have in common.

pub(crate) mod facts;
pub(crate) mod learner;
pub(crate) mod open;
pub mod peers;
pub(crate) mod roster;
