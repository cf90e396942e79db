//! Policies whose arms collect batches of rewards, each released once. The recommended policies are among them.
//!
//! [`arms`] collects and releases; [`released`] holds the releases of an arm; [`divergence`] computes their evidence
//! against a mean, and [`curve`] interpolates it; [`min_index`] pulls the arm with the smallest index; [`top_two`] finds
//! the best arm and stops; [`peers`] holds the releases of other handles; [`explore`] guarantees minimum probabilities.

/// Methods of [`Policy`](super::contract::Policy) that are the same for all policies with batched arms.
macro_rules! batched_arms_methods {
    () => {
        fn advance(&mut self, ticks: u64) {
            self.batched.facts.advance(ticks);
        }

        fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
            self.batched.sums(arm as usize)
        }

        fn phase(&self) -> u32 {
            self.batched.facts.releases
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

        fn merge(&mut self, peer: Peer, added: &[u64]) -> Result<bool> {
            let Some(changed) = self.batched.merge(peer, added)? else { return Ok(false) };
            changed.into_iter().for_each(|arm| self.unsettle(arm));
            Ok(true)
        }

        fn name_arm(&mut self, added: &[u64]) {
            if let Some(arm) = self.batched.name_arm(added) {
                self.unsettle(arm);
            }
        }

        fn merges(&self) -> u64 {
            self.batched.merges()
        }

        fn combining(&mut self) -> Option<&mut dyn Combining> {
            Some(self)
        }
    };
}

/// The same for policies that eliminate no arm.
macro_rules! undecided_methods {
    () => {
        fn arm(&self, arm: u32) -> ArmState {
            self.batched.arm(arm as usize)
        }

        fn active(&self) -> u32 {
            self.batched.live.count()
        }

        fn peer_reader(&self) -> Option<ReadPeer> {
            Some(|config, id, from| Ok(Box::new(super::peers::PeerReleases::read(config, id, from)?)))
        }

        fn save(&self, to: &mut Writer) -> Result<()> {
            self.batched.save(to);
            Ok(())
        }
    };
}

mod arms;
mod curve;
mod divergence;
mod explore;
pub mod imed;
pub mod klucb;
pub mod med;
mod min_index;
mod peers;
mod released;
pub mod top_two;

pub use explore::{Explore, Live, even_chance};
