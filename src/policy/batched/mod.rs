//! Policies whose arms collect batches of rewards, each released once. The recommended policies are among them.
//!
//! [`arms`] collects and releases; [`released`] holds the releases of an arm; [`divergence`] computes their evidence
//! against a mean, and [`curve`] interpolates it; [`imed`] pulls the arm with the smallest [`index`]; [`top_two`] finds
//! the best arm and stops; [`clipped`] clips rewards where a [`pilot`] has learned to; [`peers`] holds the releases of
//! other handles; [`explore`] guarantees minimum probabilities.

use super::compare::ReleaseTotals;
use super::contract::{ArmState, NO_WEIGHTS, Policy, PolicyCounts, Pull};
use super::learner::{AnyLearner, Change, Growth, Learner, PeerHead};
use crate::config::{Config, check_arms};
use crate::error::{Error, Result};
use crate::ledger::cells::{Ledger, Place};
use crate::ledger::peers::Peer;
use crate::moving::{Archive, Persist};
use crate::request::Offer;
use crate::reward::Reward;
use crate::snapshot::Reader;

/// What a policy over [`BatchedArms`] writes: which arm is pulled, and how large its next batch is. A state that moves has
/// all of its variables; what a snapshot has of them comes first.
trait Plan: Send + Persist {
    /// Maximum number of arms.
    const MOST_ARMS: u32 = Config::MAX_ARMS;
    /// Bytes that a snapshot has of the plan for each arm, and then of the whole plan.
    const PLANNED: [usize; 2] = [0, 0];

    fn batched(&self) -> &BatchedArms;
    fn batched_mut(&mut self) -> &mut BatchedArms;

    /// As [`Policy::choose`].
    fn choose(&mut self) -> Pull;

    /// As [`Policy::decide`].
    fn decide(&mut self, offer: &mut Offer);

    /// As [`Policy::weights`].
    fn weights(&mut self, _offer: &Offer, _weights: &mut [f64]) -> Result<()> {
        Err(Error::unsupported(NO_WEIGHTS))
    }

    /// As [`Policy::cancel`].
    fn cancel(&mut self, pull: Pull);

    /// As [`Policy::arm`].
    fn arm(&self, arm: u32) -> ArmState {
        self.batched().arm(arm as usize)
    }

    /// As [`Policy::counts`].
    fn counts(&self) -> PolicyCounts {
        self.batched().counts()
    }

    /// Reserves memory for the plan of one more arm.
    ///
    /// # Errors
    /// `NoMemory`.
    fn grow(&mut self) -> Result<()>;

    /// Follows a change of an arm.
    fn changed(&mut self, arm: usize, change: ArmChange);

    /// Moves what a snapshot has of the plan. After a restore no batch is requested, and no decision is pending.
    fn snapshot(&mut self, with: &mut Archive) -> Result<()>;
}

/// A policy with this plan.
pub struct Batched<P>(P);

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
fn observe_unexamined(plan: &mut impl Plan, pull: Pull, reward: Reward) {
    let arm = pull.arm() as usize;
    plan.batched_mut().note_unexamined(arm, pull.unexamined());
    if plan.batched_mut().collect(arm, reward) {
        release(plan, arm);
    }
}

/// Releases an arm's full batch.
#[inline(never)]
fn release(plan: &mut impl Plan, arm: usize) {
    plan.batched_mut().release(arm);
    plan.changed(arm, ArmChange::Released);
}

/// Refreshes some arms in turn.
fn refresh_some(plan: &mut impl Plan) {
    for _ in 0..BatchedArms::LOOKS {
        if let Some(faded) = plan.batched_mut().refresh_next() {
            plan.changed(faded, ArmChange::Evidence);
        }
    }
}

/// Chooses the best arms while nothing is learned; `play` pulls such an arm, or explores another of these, and `play_sure`
/// plays what is sure. Returns whether anything is known, so that there is a choice.
#[cold]
fn choose_best<P: Plan>(
    plan: &mut P,
    offer: &mut Offer,
    play: fn(&mut P, usize, Option<&[u32]>) -> Pull,
    play_sure: fn(&mut P, &mut Offer),
) -> bool {
    let leader = plan.batched().leader();
    if plan.batched().mean(leader).is_nan() {
        return false;
    }
    while offer.has_slots_left() {
        let (best, worth) = offer.among().map_or((leader, 0.0), |_| plan.batched().leader_in(offer, 1));
        if offer.sure_above(worth).is_some() {
            play_sure(plan, offer);
            continue;
        }
        let pull = play(plan, best, offer.among());
        let score = offer.worth(pull.arm(), plan.batched().mean(pull.arm() as usize));
        offer.choose(pull, pull.arm(), score);
    }
    true
}

/// Chooses the arm of an offer of one slot, without values and positions.
fn choose_plain<P: Plan>(plan: &mut P, offer: &mut Offer, among: fn(&mut P, &[u32]) -> Pull) {
    let pull = match offer.among() {
        Some(arms) => among(plan, arms),
        None => plan.choose(),
    };
    offer.choose(pull, pull.arm(), f64::NAN);
}

#[allow(private_bounds)]
impl<P: Plan> Policy for Batched<P> {
    #[inline]
    fn choose(&mut self) -> Pull {
        self.0.choose()
    }

    fn decide(&mut self, offer: &mut Offer) {
        self.0.decide(offer);
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        if pull.unexamined() > 0 {
            return observe_unexamined(&mut self.0, pull, reward);
        }
        let arm = pull.arm() as usize;
        if self.0.batched_mut().collect(arm, reward) {
            release(&mut self.0, arm);
        }
    }

    fn weights(&mut self, offer: &Offer, weights: &mut [f64]) -> Result<()> {
        self.0.weights(offer, weights)
    }

    fn cancel(&mut self, pull: Pull) {
        self.0.cancel(pull);
    }

    fn arm(&self, arm: u32) -> ArmState {
        self.0.arm(arm)
    }

    fn counts(&self) -> PolicyCounts {
        self.0.counts()
    }

    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        self.0.batched().sums(arm as usize)
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.0.batched_mut().snapshot(with)?;
        self.0.snapshot(with)
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }
}

impl<P: Plan> Learner for Batched<P> {
    type Sum = ArmSum;
    type Releases = HandleReleases;

    fn ledger(&mut self) -> &mut BatchedLedger {
        &mut self.0.batched_mut().ledger
    }

    fn changed(&mut self, change: Change) {
        let (arms, plan) = (self.ledger().cells.arms(), &mut self.0);
        match change {
            Change::Added => {
                plan.changed(arms - 1, ArmChange::Added);
                if plan.batched().ledger.peers.updates() > 0 {
                    plan.batched_mut().join(arms - 1);
                    plan.changed(arms - 1, ArmChange::Evidence);
                }
            }
            Change::Retired(arm) => {
                plan.batched_mut().retire(arm);
                plan.changed(arm, ArmChange::Retired);
            }
            Change::Prior(arm, prior) => {
                plan.batched_mut().set_prior(arm, prior);
                plan.changed(arm, ArmChange::Evidence);
            }
            Change::Duty => {
                plan.batched_mut().duty_changed();
                (0..arms).for_each(|arm| plan.changed(arm, ArmChange::Duty));
            }
            Change::Wanted(Place::Cell(_, arm)) => plan.batched_mut().ensure_open(arm),
            Change::Full(Place::Cell(_, arm)) => release(plan, arm),
            Change::Contributed(Place::Cell(_, arm)) => plan.changed(arm, ArmChange::Contributed),
            // A contributor releases nothing, but its evidence fades.
            Change::Emptied => refresh_some(plan),
            _ => (),
        }
    }

    fn grow(&mut self, by: Growth) -> Result<()> {
        match by {
            Growth::Peers => self.0.batched_mut().reserve_others(),
            Growth::Arm => {
                check_arms(self.ledger().cells.arms() + 1, P::MOST_ARMS)?;
                self.0.grow()?;
                self.0.batched_mut().grow()
            }
        }
    }

    fn join(&mut self, peer: usize, before: Option<&Peer<HandleReleases>>) {
        let Ledger { facts, peers, .. } = self.ledger();
        let then = peers[peer].snapshot_time();
        peers[peer].releases.rebase(then, facts);
        // A plan may depend on all arms.
        for is_joined in [false, true] {
            for arm in 0..self.ledger().cells.arms() {
                let Ledger { peers, roster, .. } = self.ledger();
                match (peers[peer].is_changed(before, arm, roster), is_joined) {
                    (false, _) => (),
                    (true, false) => self.0.batched_mut().join(arm),
                    (true, true) => self.0.changed(arm, ArmChange::Evidence),
                }
            }
        }
    }

    fn read_peer(head: &PeerHead, from: &mut Reader) -> Result<HandleReleases> {
        let read = HandleReleases::read(head.arms, from)?;
        (0..P::PLANNED[0] * head.arms + P::PLANNED[1]).try_for_each(|_| from.u8().map(drop))?;
        Ok(read)
    }
}

impl<P: Plan> Persist for Batched<P> {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.0.persist(with)
    }
}

mod arm_sum;
mod arms;
mod assignment;
pub mod clipped;
mod curve;
mod divergence;
mod explore;
pub mod imed;
mod index;
pub mod med;
mod peers;
mod pilot;
mod released;
pub mod top_two;

use arm_sum::ArmSum;
use arms::{BatchedArms, BatchedLedger};
pub use explore::Explore;
use peers::HandleReleases;

#[cfg(test)]
mod tests {
    use super::Batched;
    use std::ops::{Deref, DerefMut};

    /// Tests look at plans.
    impl<P> Deref for Batched<P> {
        type Target = P;

        fn deref(&self) -> &P {
            &self.0
        }
    }

    impl<P> DerefMut for Batched<P> {
        fn deref_mut(&mut self) -> &mut P {
            &mut self.0
        }
    }
}
