//! Policies whose arms collect batches of rewards, each released once. The recommended policies are among them.
//!
//! [`arms`] collects and releases; [`released`] holds the releases of an arm; [`divergence`] computes their evidence
//! against a mean, and [`curve`] interpolates it; [`min_index`] pulls the arm with the smallest index; [`top_two`] finds
//! the best arm and stops; [`peers`] holds the releases of other handles; [`explore`] guarantees minimum probabilities.

use crate::error::Result;
use crate::ledger::combine::OpenSums;
use crate::ledger::facts::Facts;
use crate::snapshot::{Reader, Writer};

/// Methods of [`Policy`](super::contract::Policy) that are the same for all policies with batched arms.
macro_rules! batched_arms_methods {
    () => {
        fn advance(&mut self, ticks: u64) {
            self.batched.facts.advance(ticks);
        }

        fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
            self.batched.sums(arm as usize)
        }

        fn privacy(&self) -> PrivacyLoss {
            self.batched.privacy()
        }

        fn choose_for(&mut self, request: &Request, _place: usize) -> (Pull, u32) {
            let pull = match request.eligible {
                Some(arms) => self.choose_among(arms),
                None => self.choose(),
            };
            (pull, pull.arm())
        }

        fn is_live(&self, arm: u32) -> bool {
            self.batched.is_live(arm as usize)
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

        fn counts(&self) -> PolicyCounts {
            self.batched.counts()
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

/// A policy over [`BatchedArms`].
trait BatchedPolicy {
    fn batched(&self) -> &BatchedArms;
    fn batched_mut(&mut self) -> &mut BatchedArms;

    /// Opens an arm's batch under a new duty, or changes its size.
    fn reopen(&mut self, arm: usize);

    /// An arm's open sum was contributed.
    fn emptied(&mut self, _arm: usize) {}

    /// Opens an arm's next batch after a release.
    fn released(&mut self, arm: usize);

    /// Something has changed that an arm's evidence or mean depends on.
    fn unsettle(&mut self, arm: usize);

    /// Refreshes some arms in turn.
    fn refresh_some(&mut self) {
        for _ in 0..BatchedArms::LOOKS {
            if let Some(faded) = self.batched_mut().refresh_next() {
                self.unsettle(faded);
            }
        }
    }
}

impl<P: BatchedPolicy> OpenSums for P {
    type Part = ArmPart;
    const SHORTEST: usize = 28;

    fn facts(&mut self) -> &mut Facts {
        &mut self.batched_mut().facts
    }

    fn set_handles(&mut self, handles: u32) {
        self.batched_mut().set_handles(handles);
    }

    fn places(&self) -> usize {
        self.batched().arms()
    }

    fn is_empty(&self, arm: usize) -> bool {
        self.batched().is_empty(arm)
    }

    fn write(&self, arm: usize, to: &mut Writer, id: &dyn Fn(u32) -> u64) {
        to.u64(id(arm as u32));
        self.batched().save_open(arm, to);
    }

    fn read(&self, from: &mut Reader) -> Result<ArmPart> {
        ArmPart::read(from)
    }

    fn add(&mut self, part: &ArmPart, arm: &dyn Fn(u64) -> Option<u32>) -> bool {
        let Some(arm) = arm(part.id).map(|arm| arm as usize) else { return false };
        let batched = self.batched_mut();
        if !batched.is_open(arm) {
            batched.open(arm, batched.doubling(arm));
        }
        if batched.add(arm, part) {
            self.released(arm);
        }
        true
    }

    fn clear(&mut self, arm: usize) {
        if self.batched_mut().clear_open(arm) {
            BatchedPolicy::emptied(self, arm);
        }
    }

    /// A contributor releases nothing, but its evidence fades.
    fn emptied(&mut self) {
        self.refresh_some();
    }

    fn duty_changed(&mut self) {
        self.batched_mut().duty_changed();
        (0..self.places()).for_each(|arm| self.reopen(arm));
    }
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

use arms::{ArmPart, BatchedArms};
pub use explore::{Explore, Live, even_chance};
