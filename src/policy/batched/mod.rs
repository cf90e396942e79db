//! Batches of every arm, each released once: the policies that we recommend, and their room.
//!
//! [`arms`] collects and releases; [`released`] is what it has released of an arm; [`divergence`] is what
//! that says against a mean; [`min_index`] plays the least index; [`explore`] is the floor under chances; [`compare`] is what
//! releases say of the difference of two means at all times at once.

/// What [`Policy`](super::contract::Policy) asks of a policy that `batched` arms answer by themselves.
macro_rules! answered_by_batched_arms {
    () => {
        fn advance(&mut self, ticks: u64) {
            self.batched.advance(ticks);
        }

        fn arm(&self, arm: u32) -> ArmState {
            self.batched.arm(arm as usize)
        }

        fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
            self.batched.sums(arm as usize)
        }

        fn phase(&self) -> u32 {
            self.batched.releases
        }

        fn active(&self) -> u32 {
            self.batched.live.count()
        }

        fn changes(&self) -> u64 {
            self.batched.changes()
        }

        fn privacy(&self) -> PrivacyLoss {
            self.batched.privacy()
        }

        fn dynamic_arms(&mut self) -> Option<&mut dyn DynamicArms> {
            Some(self)
        }

        fn mergeable(&mut self) -> Option<&mut dyn Mergeable> {
            Some(self)
        }

        fn save(&self, to: &mut Writer) -> Result<()> {
            self.batched.save(to);
            Ok(())
        }
    };
}

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
