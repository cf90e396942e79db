//! What policies that learn from a set of releases have in common.

pub(crate) mod cells;
pub(crate) mod facts;
pub(crate) mod grid;
pub(crate) mod keys;
pub(crate) mod open;
pub mod peers;
pub(crate) mod roster;
