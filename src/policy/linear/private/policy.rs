//! How dp-linear with private features decides, and what becomes of a request.

use super::{NO_CELL, PrivateLinear, algebra, fleet};
use crate::error::Result;
use crate::ledger::cells::{OpenSum, Place};
use crate::moving::{Archive, Persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::learner::{AnyLearner, Change, Learner};
use crate::policy::linear::choose::{RENEW, best};
use crate::policy::linear::model::DRAWS;
use crate::request::{Offer, Row};
use crate::reward::Reward;
use crate::snapshot::ensure;

impl PrivateLinear {
    /// Sets x to a row, with the intercept.
    fn set_x(&mut self, row: Row) {
        let (intercept, features) = self.x.split_at_mut(1);
        intercept[0] = 1.0;
        features.fill(0.0);
        row.each(|j, value| features[j] += value);
    }

    /// The row of the codebook that is nearest to x.
    fn nearest(&self) -> usize {
        let (mut best, mut largest) = (0, f64::NEG_INFINITY);
        for (place, row) in self.book.rows().chunks_exact(self.book.features()).enumerate() {
            let product: f64 = self.x[1..].iter().zip(row).map(|(&x, &value)| x * f64::from(value)).sum();
            if product - self.halves[place] > largest {
                (best, largest) = (place, product - self.halves[place]);
            }
        }
        best
    }

    /// The arm that is worth most in this draw. `None`: what is sure is worth as much.
    fn best(&mut self, draw: usize, offer: &Offer) -> Option<u32> {
        best(offer, |arm| {
            if !self.shape.per_arm {
                self.set_x(self.shape.row(offer, offer.position(arm)));
            }
            let logit = algebra::dot(&self.x, self.models.all[self.shape.model(arm)].draw(draw));
            (logit, logit)
        })
    }

    /// Redraws one draw at each fourth decision. With `forget_after`, lets the evidence fade between tables.
    fn refresh_next(&mut self) {
        if self.plays_evenly() {
            return;
        }
        if self.ledger.facts.decisions.is_multiple_of(RENEW) {
            self.models.redraw_next();
        }
        if self.models.fading(&self.ledger.facts, 1).is_some() {
            self.fade();
            self.models.refit();
        }
    }

    /// Enters a request in the open table: its cell and reward, or nothing.
    fn enter(&mut self, entry: Option<(usize, Reward)>) {
        let (place, table) = (if self.plays_evenly() { Place::Whole } else { Place::Cell(0, 0) }, self.table());
        table.enter(entry);
        if table.is_full() {
            self.changed(Change::Full(place));
        }
    }
}

impl Policy for PrivateLinear {
    fn choose(&mut self) -> Pull {
        unreachable!("each decision has features")
    }

    /// Takes two words of the coins, whatever the request says, so that the coins of other decisions do not depend on it.
    fn decide(&mut self, offer: &mut Offer) {
        let (first, second) = (self.models.coins.unit(), self.models.coins.unit());
        if self.shape.per_arm {
            self.set_x(self.shape.row(offer, 0));
        }
        let (arms, explores) = (offer.arms(), self.plays_evenly() || first < self.exploration);
        let arm = match explores && !arms.is_empty() {
            true => Some(arms[(second * arms.len() as f64) as usize]),
            false => self.best((second * DRAWS as f64) as usize, offer),
        };
        let arm = arm.or(offer.sure.and_then(|sure| sure.arm));
        match arm {
            None => offer.abstain(f64::NAN),
            Some(arm) => {
                self.set_x(self.shape.row(offer, offer.position(arm)));
                let place = offer.ring_position();
                self.kept[place] = (self.shape.model(arm) * self.book.len() + self.nearest()) as u32;
                offer.choose(Pull::new(place as u32, self.ledger.facts.releases, f64::NAN), arm, f64::NAN);
            }
        }
        self.ledger.facts.decisions += 1;
        self.refresh_next();
    }

    fn predict(&mut self, offer: &Offer, each: &mut dyn FnMut(f64, f64)) {
        for (arm, row) in self.shape.listed(offer, self.ledger.roster.arms()) {
            let (mut mean, mut deviation) = (f64::NAN, f64::NAN);
            if self.ledger.roster.is_live(arm as usize) {
                self.set_x(row);
                (mean, deviation) = self.models.predict_reward(self.shape.model(arm), &self.x);
            }
            each(mean, deviation);
        }
    }

    fn feature_weights(&mut self, arm: u32, each: &mut dyn FnMut(f64, f64)) {
        for coordinate in (1..self.x.len()).chain([0]) {
            let (mean, deviation) = self.models.weight(self.shape.model(arm), coordinate);
            each(mean, deviation);
        }
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let cell = std::mem::replace(&mut self.kept[pull.arm() as usize], NO_CELL);
        self.enter((cell != NO_CELL).then_some((cell as usize, reward)));
    }

    /// A cancelled decision enters its table too, as zeros.
    fn cancel(&mut self, _pull: Pull) {
        self.enter(None);
    }

    /// Its mean is NaN. Its pulls are a released count: that of the requests in the tables of its model.
    fn arm(&self, arm: u32) -> ArmState {
        let effective_pulls = self.models.count(self.shape.model(arm), self.ledger.facts.now());
        ArmState { effective_pulls, ..ArmState::unknown(self.ledger.roster.is_live(arm as usize)) }
    }

    fn counts(&self) -> PolicyCounts {
        PolicyCounts { failures: self.models.failures, ..PolicyCounts::of_ledger(&self.ledger) }
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.ledger.persist(with)?;
        fleet::persist_book(self, with)?;
        let mut saved =
            fleet::SavedPrivate { failures: self.models.failures, pilots: self.pilots, requests: self.own_requests() };
        saved.persist(with)?;
        let now = self.ledger.facts.now();
        (0..self.models.all.len()).try_for_each(|model| self.models.persist(model, now, with))?;
        if with.reads() {
            // What was in an open table never enters a release.
            (self.models.failures, self.requests, self.pilots) = (saved.failures, saved.requests, saved.pilots);
            if self.believe() {
                self.ledger.whole = None;
            }
            ensure(self.models.refit())?;
            self.open();
        }
        Ok(())
    }
}
