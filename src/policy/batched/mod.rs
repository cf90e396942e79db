//! Policies whose arms collect batches of rewards, each released once. The recommended policies are among them.
//!
//! [`arms`] collects and releases; [`released`] holds the releases of an arm; [`divergence`] computes their evidence
//! against a mean, and [`curve`] interpolates it; [`min_index`] pulls the arm with the smallest index; [`top_two`] finds
//! the best arm and stops; [`peers`] holds the releases of other handles; [`explore`] guarantees minimum probabilities.

use super::compare::ReleaseTotals;
use super::contract::{ArmState, Policy, PolicyCounts, Pull, has_no_priors};
use super::prior::Prior;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::facts::Facts;
use crate::ledger::learner::{Learner, Learning, OpenSums};
use crate::ledger::peers::{AnyPeer, Peer, PeerId, Peers};
use crate::moving::{Moved, Moving};
use crate::request::{Catalog, Offer};
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer};

/// A policy over [`BatchedArms`], with a plan for each arm. What all of them do is in the implementations of [`Policy`],
/// [`OpenSums`] and [`Learning`] below.
trait BatchedPolicy: Send + Moved {
    /// Maximum number of arms.
    const MOST_ARMS: usize = usize::MAX;
    const HAS_PRIORS: bool = true;
    /// Bytes that a snapshot has of each arm's plan.
    const SAVED: usize = 0;

    fn batched(&self) -> &BatchedArms;
    fn batched_mut(&mut self) -> &mut BatchedArms;

    /// The next arm to pull, of all.
    fn choose_any(&mut self) -> Pull;

    /// The next arm to pull, of these.
    fn choose_among(&mut self, arms: &[u32]) -> Pull;

    /// Chooses the arms of an offer of several slots, or with values or positions, if the policy can.
    fn choose_offered(&mut self, _offer: &mut Offer) {}

    /// Pulls the best of these arms while nothing is learned, or explores; `None` if the policy goes on as always.
    fn play_best(&mut self, _best: usize, _among: Option<&[u32]>) -> Option<Pull> {
        None
    }

    /// Says what the slot of this arm's last pull lacks of an examination.
    fn lacks(&mut self, _arm: u32, _lack: u16) {}

    /// A pull was cancelled.
    fn cancelled(&mut self, _pull: Pull) {}

    /// The arms that are left, if the policy decides for one.
    fn left(&self) -> Option<&[u32]> {
        None
    }

    /// Reserves memory for the plan of one more arm.
    fn reserve_plan(&mut self) -> Result<()>;

    /// An arm was added, for whose plan memory is reserved.
    fn added(&mut self);

    /// An arm was retired.
    fn retired(&mut self, arm: usize);

    /// Moves what a snapshot has of the plan. After a restore no batch is requested, and no decision is pending.
    fn snapshot_plan(&mut self, with: &mut Moving) -> Result<()>;

    /// Opens an arm's batch under a new duty, or changes its size.
    fn reopen(&mut self, arm: usize);

    /// An arm's open sum was contributed.
    fn contributed(&mut self, _arm: usize) {}

    /// Opens an arm's next batch after a release.
    fn released(&mut self, arm: usize);

    /// Something has changed that an arm's evidence or mean depends on.
    fn unsettle(&mut self, arm: usize);

    /// As [`Policy::observe`], for a slot that visitors do not always examine.
    #[inline(never)]
    fn observe_lacking(&mut self, pull: Pull, reward: Reward) {
        let arm = pull.arm() as usize;
        self.batched_mut().note_lack(arm, pull.lack());
        if self.batched_mut().collect(arm, reward) {
            self.filled(arm);
        }
    }

    /// Releases an arm's full batch.
    #[inline(never)]
    fn filled(&mut self, arm: usize) {
        self.batched_mut().release(arm);
        self.released(arm);
    }

    /// Refreshes some arms in turn.
    fn refresh_some(&mut self) {
        for _ in 0..BatchedArms::LOOKS {
            if let Some(faded) = self.batched_mut().refresh_next() {
                self.unsettle(faded);
            }
        }
    }
}

/// Chooses the best arms while nothing is learned. Returns whether the policy has chosen.
#[cold]
fn choose_best<P: BatchedPolicy>(policy: &mut P, offer: &mut Offer) -> bool {
    let leader = policy.batched().leader();
    if policy.batched().mean(leader).is_nan() {
        return false;
    }
    while offer.has_slots_left() {
        let best = offer.among().map_or(leader, |arms| policy.batched().leader_at(arms, 1, |arm| offer.value(arm)).0);
        let Some(pull) = policy.play_best(best, offer.among()) else { return false };
        let score = offer.value(pull.arm()) * policy.batched().mean(pull.arm() as usize);
        offer.choose(pull, pull.arm(), score);
    }
    true
}

#[allow(private_interfaces)] // as in the trait
impl<P: BatchedPolicy> Policy for P {
    #[inline]
    fn choose(&mut self) -> Pull {
        self.choose_any()
    }

    fn decide(&mut self, offer: &mut Offer) {
        let has_chosen = offer.is_outage && choose_best(self, offer);
        if !has_chosen && !offer.is_plain {
            self.choose_offered(offer);
        } else if !has_chosen {
            let pull = match offer.among() {
                Some(arms) => self.choose_among(arms),
                None => self.choose_any(),
            };
            offer.choose(pull, pull.arm(), f64::NAN);
        }
        for choice in offer.choices().iter().filter(|choice| choice.unexamined > 0) {
            self.lacks(choice.arm, choice.unexamined);
        }
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        if pull.lack() > 0 {
            return self.observe_lacking(pull, reward);
        }
        let arm = pull.arm() as usize;
        if self.batched_mut().collect(arm, reward) {
            self.filled(arm);
        }
    }

    fn cancel(&mut self, pull: Pull) {
        self.cancelled(pull);
    }

    fn arm(&self, arm: u32) -> ArmState {
        let state = self.batched().arm(arm as usize);
        ArmState { active: self.left().map_or(state.active, |left| left.contains(&arm)), ..state }
    }

    fn counts(&self) -> PolicyCounts {
        let counts = self.batched().counts();
        let Some(left) = self.left() else { return counts };
        let best = if let &[winner] = left { Some(winner) } else { None };
        PolicyCounts { best, active: left.len() as u32, ..counts }
    }

    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        self.batched().sums(arm as usize)
    }

    fn catalog(&self) -> Catalog<'_> {
        Catalog { arms: Some(&self.batched().roster), segments: None }
    }

    fn add_arm(&mut self) -> Result<()> {
        let arms = self.batched().arms.len();
        if arms >= P::MOST_ARMS {
            return Err(Error::config("arms", &format!("must be at most {} for this policy", P::MOST_ARMS), arms + 1));
        }
        self.reserve_plan()?;
        self.batched_mut().add_arm()?;
        self.added();
        Ok(())
    }

    fn retire_arm(&mut self, arm: u32) {
        self.batched_mut().retire_arm(arm as usize);
        self.retired(arm as usize);
    }

    fn set_prior(&mut self, arm: u32, prior: Prior) -> Result<()> {
        if !P::HAS_PRIORS {
            return Err(has_no_priors());
        }
        self.batched_mut().set_prior(arm as usize, prior);
        self.unsettle(arm as usize);
        Ok(())
    }

    fn snapshot(&mut self, with: &mut Moving) -> Result<()> {
        self.batched_mut().snapshot(with)?;
        self.snapshot_plan(with)
    }

    fn learner(&mut self) -> Option<&mut dyn Learner> {
        Some(self)
    }
}

impl<P: BatchedPolicy> OpenSums for P {
    fn facts(&mut self) -> &mut Facts {
        &mut self.batched_mut().facts
    }

    fn places(&self) -> usize {
        self.batched().arms.len()
    }

    fn is_empty(&self, arm: usize) -> bool {
        self.batched().arms[arm].batch.is_empty()
    }

    fn write(&self, arm: usize, to: &mut Writer, id: &dyn Fn(u32) -> u64) {
        to.u64(id(arm as u32));
        self.batched().save_open(arm, to);
    }

    fn clear(&mut self, arm: usize) {
        if self.batched_mut().clear_open(arm) {
            self.contributed(arm);
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

    fn name_arm(&mut self, added: &[u64]) {
        let arm = self.places() - 1;
        if self.batched().peers.updates() > 0 {
            self.batched_mut().join(arm, added);
            self.unsettle(arm);
        }
    }
}

impl<P: BatchedPolicy> Learning for P {
    type Part = ArmPart;
    const SHORTEST: usize = 28;
    type Releases = HandleReleases;

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

    fn peers(&mut self) -> &mut Peers<HandleReleases> {
        &mut self.batched_mut().peers
    }

    /// What another handle has planned is its own.
    fn read_peer(config: &Config, id: &PeerId, from: &mut Reader) -> Result<AnyPeer> {
        let peer = Peer::<HandleReleases>::read(config, id, from)?;
        let bytes = P::SAVED * (config.arms as usize + id.added.len());
        (0..bytes).try_for_each(|_| from.u8().map(drop))?;
        Ok(peer)
    }

    fn reserve(&mut self) -> Result<()> {
        self.batched_mut().reserve_others()
    }

    fn join(&mut self, place: usize, before: Option<&Peer<HandleReleases>>, added: &[u64]) {
        let is_changed = |policy: &P, arm: usize| policy.batched().peers[place].is_changed(before, arm, added);
        for arm in 0..self.places() {
            if is_changed(self, arm) {
                self.batched_mut().join(arm, added);
            }
        }
        for arm in 0..self.places() {
            if is_changed(self, arm) {
                self.unsettle(arm);
            }
        }
    }
}

mod arms;
mod curve;
mod divergence;
mod explore;
pub mod imed;
pub mod med;
mod min_index;
mod peers;
mod released;
pub mod top_two;

use arms::{ArmPart, BatchedArms};
pub use explore::Explore;
use peers::HandleReleases;
