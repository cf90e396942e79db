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
use std::ops::Range;

/// A policy that collects and releases by these arms, and decides by this plan.
pub struct Batched<P> {
    batched: BatchedArms,
    plan: P,
}

/// What a policy over [`BatchedArms`] writes: which arm is pulled, and how large its next batch is. A state that moves has
/// all of its variables; what a snapshot has of them comes first.
trait Plan: Send + Sized + Persist {
    /// Maximum number of arms.
    const MOST_ARMS: u32 = Config::MAX_ARMS;
    /// Bytes that a snapshot has of the plan for each arm, and then of the whole plan.
    const PLANNED: [usize; 2] = [0, 0];

    /// As [`Policy::choose`].
    fn choose(policy: &mut Batched<Self>) -> Pull;

    /// As [`Policy::decide`].
    fn decide(policy: &mut Batched<Self>, offer: &mut Offer);

    /// As [`Policy::weights`].
    fn weights(_policy: &mut Batched<Self>, _offer: &Offer, _weights: &mut [f64]) -> Result<()> {
        Err(Error::unsupported(NO_WEIGHTS))
    }

    /// As [`Policy::cancel`].
    fn cancel(policy: &mut Batched<Self>, pull: Pull);

    /// As [`Policy::arm`].
    fn arm(policy: &Batched<Self>, arm: u32) -> ArmState {
        policy.batched.arm(arm as usize)
    }

    /// As [`Policy::counts`].
    fn counts(policy: &Batched<Self>) -> PolicyCounts {
        policy.batched.counts()
    }

    /// Reserves memory for the plan of one more arm.
    ///
    /// # Errors
    /// `NoMemory`.
    fn grow(&mut self) -> Result<()>;

    /// Follows a change of an arm.
    fn changed(policy: &mut Batched<Self>, arm: usize, change: ArmChange);

    /// Moves what a snapshot has of the plan. After a restore no batch is requested, and no decision is pending.
    fn snapshot(policy: &mut Batched<Self>, with: &mut Archive) -> Result<()>;
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
    /// Its open sum and its plan are those of a handle whose state moved here.
    Moved,
    /// Its batch was released, and the next is to be opened.
    Released,
    /// Something else that its evidence or mean depends on.
    Evidence,
}

#[allow(private_bounds)]
impl<P: Plan> Batched<P> {
    /// As [`Policy::observe`], for a slot that visitors do not always examine. By itself, so that other rewards take fewer
    /// instructions.
    #[inline(never)]
    fn observe_unexamined(&mut self, pull: Pull, reward: Reward) {
        let arm = pull.arm() as usize;
        self.batched.note_unexamined(arm, pull.unexamined());
        if self.batched.collect(arm, reward) {
            self.release(arm);
        }
    }

    /// Releases an arm's full batch.
    #[inline(never)]
    fn release(&mut self, arm: usize) {
        self.batched.release(arm);
        P::changed(self, arm, ArmChange::Released);
    }

    /// Refreshes some arms in turn.
    fn refresh_some(&mut self) {
        for _ in 0..BatchedArms::LOOKS {
            if let Some(faded) = self.batched.refresh_next() {
                P::changed(self, faded, ArmChange::Evidence);
            }
        }
    }

    /// Chooses the best arms while nothing is learned; `play` pulls such an arm, or explores another of these, and `play_sure`
    /// plays what is sure. Returns whether anything is known, so that there is a choice.
    #[cold]
    fn choose_best(
        &mut self,
        offer: &mut Offer,
        play: fn(&mut Self, usize, Option<&[u32]>) -> Pull,
        play_sure: fn(&mut Self, &mut Offer),
    ) -> bool {
        let leader = self.batched.leader();
        if self.batched.mean(leader).is_nan() {
            return false;
        }
        while offer.has_slots_left() {
            let (best, worth) = offer.among().map_or((leader, 0.0), |_| self.batched.leader_in(offer, 1));
            if offer.sure_above(worth).is_some() {
                play_sure(self, offer);
                continue;
            }
            let pull = play(self, best, offer.among());
            let score = offer.worth(pull.arm(), self.batched.mean(pull.arm() as usize));
            offer.choose(pull, pull.arm(), score);
        }
        true
    }

    /// Chooses the arm of an offer of one slot, without values and positions.
    fn choose_plain(&mut self, offer: &mut Offer, among: fn(&mut Self, &[u32]) -> Pull) {
        let pull = match offer.among() {
            Some(arms) => among(self, arms),
            None => P::choose(self),
        };
        offer.choose(pull, pull.arm(), f64::NAN);
    }

    /// Joins what all peers have released of these arms.
    fn join_again(&mut self, arms: Range<usize>) {
        arms.clone().for_each(|arm| self.batched.join(arm));
        // A plan may depend on all arms.
        arms.for_each(|arm| P::changed(self, arm, ArmChange::Evidence));
    }

    /// Learns from the peer at this place, which is new or has replaced `before`.
    fn join(&mut self, peer: usize, before: Option<&Peer<HandleReleases>>) {
        let Ledger { facts, peers, .. } = &mut self.batched.ledger;
        let then = peers[peer].snapshot_time();
        peers[peer].releases.rebase(then, facts);
        // A plan may depend on all arms.
        for is_joined in [false, true] {
            for arm in 0..self.batched.ledger.cells.arms() {
                let Ledger { peers, roster, .. } = &self.batched.ledger;
                match (peers[peer].is_changed(before, arm, roster), is_joined) {
                    (false, _) => (),
                    (true, false) => self.batched.join(arm),
                    (true, true) => P::changed(self, arm, ArmChange::Evidence),
                }
            }
        }
    }
}

#[allow(private_bounds)]
impl<P: Plan> Policy for Batched<P> {
    #[inline]
    fn choose(&mut self) -> Pull {
        P::choose(self)
    }

    fn decide(&mut self, offer: &mut Offer) {
        P::decide(self, offer);
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        if pull.unexamined() > 0 {
            return self.observe_unexamined(pull, reward);
        }
        let arm = pull.arm() as usize;
        if self.batched.collect(arm, reward) {
            self.release(arm);
        }
    }

    fn weights(&mut self, offer: &Offer, weights: &mut [f64]) -> Result<()> {
        P::weights(self, offer, weights)
    }

    fn cancel(&mut self, pull: Pull) {
        P::cancel(self, pull);
    }

    fn arm(&self, arm: u32) -> ArmState {
        P::arm(self, arm)
    }

    fn counts(&self) -> PolicyCounts {
        P::counts(self)
    }

    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        self.batched.sums(arm as usize)
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.batched.snapshot(with)?;
        P::snapshot(self, with)
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }
}

impl<P: Plan> Learner for Batched<P> {
    type Sum = ArmSum;
    type Releases = HandleReleases;

    fn ledger(&mut self) -> &mut BatchedLedger {
        &mut self.batched.ledger
    }

    fn changed(&mut self, change: Change<HandleReleases>) {
        let arms = self.batched.ledger.cells.arms();
        match change {
            Change::Added => {
                P::changed(self, arms - 1, ArmChange::Added);
                if self.batched.ledger.peers.updates() > 0 {
                    self.join_again(arms - 1..arms);
                }
            }
            Change::Retired(arm) => {
                self.batched.retire(arm);
                P::changed(self, arm, ArmChange::Retired);
            }
            Change::Joined { peer, before } => self.join(peer, before),
            Change::Prior(arm, prior) => {
                self.batched.set_prior(arm, prior);
                P::changed(self, arm, ArmChange::Evidence);
            }
            Change::Duty => (0..arms).for_each(|arm| P::changed(self, arm, ArmChange::Duty)),
            Change::Wanted(Place::Cell(_, arm)) => self.batched.ensure_open(arm),
            Change::Full(Place::Cell(_, arm)) => self.release(arm),
            Change::Contributed(Place::Cell(_, arm)) => P::changed(self, arm, ArmChange::Contributed),
            // A contributor releases nothing, but its evidence fades.
            Change::Emptied => self.refresh_some(),
            _ => (),
        }
    }

    fn grow(&mut self, by: Growth) -> Result<()> {
        match by {
            Growth::Peers => self.batched.reserve_others(),
            Growth::Arm => {
                check_arms(self.batched.ledger.cells.arms() + 1, P::MOST_ARMS)?;
                self.plan.grow()?;
                self.batched.grow()
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
        self.plan.persist(with)?;
        if with.reads() {
            (0..self.batched.ledger.cells.arms()).for_each(|arm| P::changed(self, arm, ArmChange::Moved));
        }
        Ok(())
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
