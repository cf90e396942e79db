//! dp-linear as a policy that decides by request, with the releases of other handles.

use super::Linear;
use super::batch::{Instrument, VectorBatch};
use super::sample::RewardPurpose;
use crate::error::Result;
use crate::ledger::cells::{OpenSum, Place};
use crate::moving::{Archive, Persist};
use crate::policy::compare::ReleaseTotals;
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::learner::{AnyLearner, Change, Learner};
use crate::request::Offer;
use crate::reward::Reward;
use crate::snapshot::ensure;

impl Policy for Linear {
    fn choose(&mut self) -> Pull {
        unreachable!("each decision has features")
    }

    /// Draws one arm after the other, each among those that are left. An arm that is listed twice counts once, with its
    /// first row.
    fn decide(&mut self, offer: &mut Offer) {
        if self.shape.per_arm {
            self.take_row(self.shape.row(offer, 0));
        }
        while offer.has_slots_left() {
            self.draw(offer);
        }
    }

    fn weights(&mut self, offer: &Offer, weights: &mut [f64]) -> Result<()> {
        if self.shape.per_arm {
            self.take_row(self.shape.row(offer, 0));
        }
        self.weigh(offer, weights);
        Ok(())
    }

    /// Calls `each` with the estimated mean reward of each of these arms, in the request's order, and its standard
    /// deviation. Both are functions of releases. Without a list, they are NaN for retired arms.
    fn predict(&mut self, offer: &Offer, each: &mut dyn FnMut(f64, f64)) {
        for (arm, row) in self.shape.listed(offer, self.ledger.roster.arms()) {
            let (mut mean, mut deviation, model) = (f64::NAN, f64::NAN, self.shape.model(arm));
            if self.ledger.roster.is_live(arm as usize) {
                self.prepare(model);
                self.take_row(row);
                (mean, deviation) = self.models.predict_reward(model, &self.x);
            }
            each(mean, deviation);
        }
    }

    /// Calls `each` with the weight of each feature in the arm's model, in logits for one unit of the feature, and its standard
    /// deviation; then with the intercept. Functions of releases and rows.
    fn feature_weights(&mut self, arm: u32, each: &mut dyn FnMut(f64, f64)) {
        let model = self.shape.model(arm);
        self.prepare(model);
        for coordinate in (1..self.d()).chain([0]) {
            let (mean, deviation) = self.models.weight(model, coordinate);
            let unit = if coordinate == 0 { 1.0 } else { self.saved.scale.unit };
            each(mean / unit, deviation / unit);
        }
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.clear_x();
        self.kept.unpack(pull.arm() as usize, &mut self.row);
        self.set_x();
        let (is_pilot, is_sampled) = (self.is_pilot(), self.row.head.purpose != RewardPurpose::Model);
        if let Some(whole) = self.ledger.whole.as_mut().filter(|_| is_pilot || is_sampled) {
            let point = if is_pilot { [0.0, 0.0, 1.0] } else { [0.0, 1.0, 0.0] };
            whole.collect(&self.row, &self.x, point, reward);
            if whole.is_full() {
                self.changed(Change::Full(Place::Whole));
            }
            return;
        }
        let model = self.shape.model(self.row.head.arm);
        let point = self.models.belief.linearise(self.x_dot(&self.models.all[model].mean));
        self.ledger.cells[(0, model)].collect(&self.row, &self.x, point, reward);
        if self.ledger.cells[(0, model)].is_full() {
            self.release_model(model);
        }
    }

    /// A cancelled decision has entered no sum: its place is simply reused.
    fn cancel(&mut self, _pull: Pull) {}

    /// Its mean is NaN, because an arm has a mean only for a row ([`predict`](Policy::predict)). Its pulls are the
    /// number of rewards in the releases of its model, which all arms may share, without those of the pilot.
    fn arm(&self, arm: u32) -> ArmState {
        let model = self.shape.model(arm);
        let effective_pulls = self.models.count(model, self.ledger.facts.now());
        ArmState { effective_pulls, ..ArmState::unknown(self.ledger.roster.is_live(arm as usize)) }
    }

    /// Its failures are releases and models that were dropped because a matrix was not positive definite to working
    /// precision.
    fn counts(&self) -> PolicyCounts {
        PolicyCounts {
            failures: self.models.failures,
            oversized: self.saved.oversized,
            ..PolicyCounts::of_ledger(&self.ledger)
        }
    }

    fn samples(&self) -> Result<Option<[ReleaseTotals; 2]>> {
        self.sampled_totals().map(Some)
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.ledger.persist(with)?;
        let (mut led, mut partition) = (self.ledger.facts.duty().led(), self.splitter.partition);
        self.saved.persist(&mut self.models.failures, &mut led, &mut partition, with)?;
        if with.reads() {
            self.splitter.follow(&partition);
            self.continue_pilot();
        }
        let now = self.ledger.facts.now();
        for model in 0..self.models.all.len() {
            let mut instrument = self.ledger.cells[(0, model)].setting.instrument;
            instrument.persist(with)?;
            self.models.persist(model, now, with)?;
            if with.reads() {
                self.open(model, instrument);
            }
        }
        if with.reads() {
            ensure(self.models.refit())?;
            (self.ready, self.begun) = (self.models.all.len(), true);
        }
        Ok(())
    }
}

impl Linear {
    /// Makes the draws of the models up to this one follow their releases, each once.
    fn prepare(&mut self, model: usize) {
        while self.ready <= model {
            self.refresh(self.ready);
        }
    }

    /// Continues the pilot or the samples of a snapshot. Rewards that were in open batches never enter a release.
    fn continue_pilot(&mut self) {
        let is_known = self.believe();
        if is_known && self.sampled == 0.0 {
            self.ledger.whole = None;
        }
        self.open_whole(if is_known { Instrument::Samples } else { Instrument::Cells(1) });
    }
}

impl Persist for Linear {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.kept.persist(with)?;
        self.splitter.persist(with)?;
        let d = self.d();
        with.option(&mut self.ledger.whole, || Ok(Box::new(VectorBatch::new(d)?)))
    }
}
