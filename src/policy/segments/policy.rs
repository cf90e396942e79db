//! Segments as a policy that decides by request. A request names its segment by a key.

use super::model::Rate;
use super::{Segments, is_trial};
use crate::engine::Engine;
use crate::error::Result;
use crate::moving::Archive;
use crate::policy::compare::ReleaseTotals;
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::cumulant::Cumulant;
use crate::policy::learner::{AnyLearner, Learner};
use crate::request::{Offer, Segment};
use crate::reward::Reward;

/// Every pull's number fits into the engine's ring.
const _: () = assert!(2 * Segments::MOST_CELLS <= Engine::MOST_ARM as u64);

impl Policy for Segments {
    fn choose(&mut self) -> Pull {
        unreachable!("each decision names its segment")
    }

    fn decide(&mut self, offer: &mut Offer) {
        let segment = match offer.segment {
            Segment::Known(segment) => segment,
            Segment::New(key) => self.add_segment(key),
            Segment::None => unreachable!("each request has a segment"),
        };
        if offer.is_outage && self.has_released() {
            self.choose_best(segment, offer);
        } else if offer.is_plain {
            let pull = match offer.among() {
                Some(arms) => self.choose_among_in(segment, arms),
                None => self.choose_in(segment),
            };
            offer.choose(pull, self.arm_of(pull), f64::NAN);
        } else {
            self.choose_slate(segment, offer);
        }
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        let number = pull.arm() / 2;
        let play = if is_trial(pull) {
            let (_, arm) = self.cell_of(number);
            &mut self.ledger.cells[(0, arm)]
        } else {
            self.own_play(number)
        };
        if play.batch.collect(reward) && play.batch.free() == 0 {
            let (segment, arm) = self.cell_of(number);
            let row = if is_trial(pull) { 0 } else { segment + 1 };
            self.release_cell(row, arm);
        }
    }

    /// A cancelled decision does not count towards the decisions of its segment.
    fn cancel(&mut self, pull: Pull) {
        let (row, _) = self.cell(pull);
        let decisions = &mut self.turns[row].decisions;
        *decisions = decisions.saturating_sub(1); // a snapshot counts pending decisions, but does not restore them
    }

    /// The mean of an arm's rate in an average segment, and the rewards in all of its releases, here and at peers.
    fn arm(&self, arm: u32) -> ArmState {
        let effective_pulls = (0..self.rows.len()).map(|row| self.released(row, arm as usize).count).sum();
        let mean = self.rates[arm as usize].mean;
        ArmState { mean, width: f64::NAN, effective_pulls, active: self.ledger.roster.is_live(arm as usize) }
    }

    fn counts(&self) -> PolicyCounts {
        PolicyCounts::of_ledger(&self.ledger)
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }

    /// The releases of an arm's trials, here and at peers, for an interval that holds at all times. The module's page
    /// says what mean they estimate. Merging widens the interval, by the number of merges.
    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        let Rate { trials, others, .. } = &self.rates[arm as usize];
        let distribution = Cumulant::of(&self.ledger.noise.distribution());
        ReleaseTotals::of_all(distribution, self.half_life.is_finite(), *trials, Some(others))
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.move_releases(with)
    }
}
