//! Policies whose arms collect batches of rewards, each released once. The recommended policies are among them.
//!
//! [`arms`] collects and releases; [`released`] holds the releases of an arm; [`divergence`] computes their evidence
//! against a mean, and [`curve`] interpolates it; [`imed`] pulls the arm with the smallest [`index`]; [`top_two`] finds
//! the best arm and stops; [`peers`] holds the releases of other handles; [`explore`] guarantees minimum probabilities.

use super::compare::ReleaseTotals;
use super::contract::{ArmState, Policy, PolicyCounts, Pull, has_no_priors};
use super::prior::Prior;
use crate::error::{Error, Result};
use crate::ledger::cells::{Ledger, Place};
use crate::ledger::learner::{AnyLearner, Change, Learner};
use crate::ledger::peers::Peer;
use crate::moving::{Archive, Persist};
use crate::request::{Catalog, Offer};
use crate::reward::Reward;

/// A policy over [`BatchedArms`], with a plan for each arm. What all of them do is in the implementations of [`Policy`]
/// and [`Learner`] below.
trait BatchedPolicy: Send + Persist {
    /// Maximum number of arms.
    const MOST_ARMS: usize = usize::MAX;
    const HAS_PRIORS: bool = true;
    /// Bytes that a snapshot has of each arm's plan.
    const PLANNED: usize = 0;

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
    fn leave_unexamined(&mut self, _arm: u32, _unexamined: u16) {}

    /// A pull was cancelled.
    fn cancelled(&mut self, _pull: Pull) {}

    /// The arms that are left, if the policy decides for one.
    fn left(&self) -> Option<&[u32]> {
        None
    }

    /// Reserves memory for the plan of one more arm.
    fn reserve_plan(&mut self) -> Result<()>;

    /// Follows a change of an arm.
    fn follow(&mut self, arm: usize, change: ArmChange);

    /// Moves what a snapshot has of the plan. After a restore no batch is requested, and no decision is pending.
    fn snapshot_plan(&mut self, with: &mut Archive) -> Result<()>;
}

/// What has changed of an arm.
#[derive(Clone, Copy)]
enum ArmChange {
    /// It was added. Memory for its plan is reserved.
    Added,
    Retired,
    /// The handle has another duty: its batch is to be opened, or has another size.
    Duty,
    /// Its open sum was contributed.
    Contributed,
    /// Its batch was released, and the next is to be opened.
    Released,
    /// Something else that its evidence or mean depends on.
    Evidence,
}

/// As [`Policy::observe`], for a slot that visitors do not always examine.
#[inline(never)]
fn observe_unexamined(policy: &mut impl BatchedPolicy, pull: Pull, reward: Reward) {
    let arm = pull.arm() as usize;
    policy.batched_mut().note_unexamined(arm, pull.unexamined());
    if policy.batched_mut().collect(arm, reward) {
        release(policy, arm);
    }
}

/// Releases an arm's full batch.
#[inline(never)]
fn release(policy: &mut impl BatchedPolicy, arm: usize) {
    policy.batched_mut().release(arm);
    policy.follow(arm, ArmChange::Released);
}

/// Refreshes some arms in turn.
fn refresh_some(policy: &mut impl BatchedPolicy) {
    for _ in 0..BatchedArms::LOOKS {
        if let Some(faded) = policy.batched_mut().refresh_next() {
            policy.follow(faded, ArmChange::Evidence);
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
            self.leave_unexamined(choice.arm, choice.unexamined);
        }
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        if pull.unexamined() > 0 {
            return observe_unexamined(self, pull, reward);
        }
        let arm = pull.arm() as usize;
        if self.batched_mut().collect(arm, reward) {
            release(self, arm);
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
        Catalog { arms: Some(&self.batched().ledger.roster), segments: None }
    }

    fn add_arm(&mut self, id: u64) -> Result<()> {
        let arm = self.batched().ledger.cells.arms();
        if arm >= P::MOST_ARMS {
            return Err(Error::config("arms", &format!("must be at most {} for this policy", P::MOST_ARMS), arm + 1));
        }
        self.reserve_plan()?;
        self.batched_mut().add_arm(id)?;
        self.follow(arm, ArmChange::Added);
        if self.ledger().peers.updates() > 0 {
            self.batched_mut().join(arm);
            self.follow(arm, ArmChange::Evidence);
        }
        Ok(())
    }

    fn retire_arm(&mut self, arm: u32) {
        self.batched_mut().retire_arm(arm as usize);
        self.follow(arm as usize, ArmChange::Retired);
    }

    fn set_prior(&mut self, arm: u32, prior: Prior) -> Result<()> {
        if !P::HAS_PRIORS {
            return Err(has_no_priors());
        }
        self.batched_mut().set_prior(arm as usize, prior);
        self.follow(arm as usize, ArmChange::Evidence);
        Ok(())
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.batched_mut().snapshot(with)?;
        self.snapshot_plan(with)
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }
}

impl<P: BatchedPolicy> Learner for P {
    type Sum = ArmSum;
    type Releases = HandleReleases;
    const PLANNED: usize = <P as BatchedPolicy>::PLANNED;

    fn ledger(&mut self) -> &mut BatchedLedger {
        &mut self.batched_mut().ledger
    }

    fn release(&mut self, place: Place) {
        if let Place::Cell(_, arm) = place {
            release(self, arm);
        }
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::Duty => {
                self.batched_mut().duty_changed();
                (0..self.ledger().cells.arms()).for_each(|arm| self.follow(arm, ArmChange::Duty));
            }
            Change::Wanted(Place::Cell(_, arm)) if !self.batched().is_open(arm) => {
                let size = self.batched().doubling(arm);
                self.batched_mut().open(arm, size);
            }
            Change::Contributed(Place::Cell(_, arm)) => self.follow(arm, ArmChange::Contributed),
            // A contributor releases nothing, but its evidence fades.
            Change::Emptied => refresh_some(self),
            _ => (),
        }
    }

    fn reserve(&mut self) -> Result<()> {
        self.batched_mut().reserve_others()
    }

    fn join(&mut self, peer: usize, before: Option<&Peer<HandleReleases>>) {
        // A plan may depend on all arms.
        for is_joined in [false, true] {
            for arm in 0..self.ledger().cells.arms() {
                let Ledger { peers, roster, .. } = self.ledger();
                match (peers[peer].is_changed(before, arm, roster), is_joined) {
                    (false, _) => (),
                    (true, false) => self.batched_mut().join(arm),
                    (true, true) => self.follow(arm, ArmChange::Evidence),
                }
            }
        }
    }
}

mod arm_sum;
mod arms;
mod curve;
mod divergence;
mod explore;
pub mod imed;
mod index;
pub mod med;
mod peers;
mod released;
pub mod top_two;

use arm_sum::ArmSum;
use arms::{BatchedArms, BatchedLedger};
pub use explore::Explore;
use peers::HandleReleases;
