//! Batches of every arm, each released once: the policies that we recommend, and their room.
//!
//! [`arms`] collects and releases; [`released`] is what it has released of an arm; [`divergence`] is what
//! that says against a mean; [`min_index`] plays the least index; [`explore`] is the floor under chances; [`compare`] is what
//! releases say of the difference of two means at all times at once.

mod arms;
mod chances;
mod compare;
mod cumulant;
mod divergence;
#[cfg(test)]
pub mod draw;
mod explore;
pub mod imed;
pub mod klucb;
pub mod med;
mod min_index;
mod released;
pub mod ts;

pub use arms::{Saved, loss};
pub use compare::{ReleaseTotals, Totals};
pub use cumulant::Cumulant;
pub use explore::{Explore, Live, even_chance};
pub use released::{Memory, ReleaseHistory};
