//! dp-linear as a policy that decides by request, with the releases of other handles.

use super::batch::VectorBatch;
use super::model::FadingPrior;
use super::{Linear, SavedLinear};
use crate::error::{Error, Result, Value};
use crate::ledger::cells::OpenSum;
use crate::ledger::learner::AnyLearner;
use crate::moving::{Moved, Moving};
use crate::policy::contract::{Abilities, ArmState, Offer, Policy, PolicyCounts, Pull, SlotPull};
use crate::policy::prior::Prior;
use crate::privacy::PrivacyLoss;
use crate::request::{Request, Rows, Values};
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure};

/// Returns the rows that a request must have.
fn required<'a>(request: &Request<'a>) -> Result<Rows<'a>> {
    if request.segment != 0 {
        return Err(Error::unconfigured_number("segment", request.segment, "config.max_segments is 0"));
    }
    request.features.ok_or_else(|| Error::request("features", "must be set: config.features is not 0", Value::Null))
}

/// Returns the rows of a checked request.
fn rows<'a>(request: &Request<'a>) -> Rows<'a> {
    request.features.unwrap_or(Rows::Dense(&[]))
}

impl Policy for Linear {
    fn abilities(&self) -> Abilities {
        Abilities { arms: true, slots: true, values: true, by_request: true, features: true, ..Abilities::default() }
    }

    fn choose(&mut self) -> Pull {
        unreachable!("each decision has features")
    }

    fn check(&mut self, request: &Request) -> Result<()> {
        self.check_rows(request.eligible, required(request)?)
    }

    /// An arm that is listed twice counts once, with its first row.
    fn choose_for(&mut self, request: &Request, place: usize) -> (Pull, u32) {
        let rows = rows(request);
        self.begin(request.eligible, rows);
        self.draw(place, rows, None)
    }

    /// Draws one arm after the other, each among those that are left.
    fn choose_slots(&mut self, offer: Offer, each: &mut dyn FnMut(SlotPull)) {
        let Offer { request, values, places, .. } = offer;
        let rows = rows(request);
        self.begin(request.eligible, rows);
        if let Some(values) = values {
            self.keep(|arm| values.of(arm) > 0.0);
        }
        while self.left > 0
            && let Some(place) = places.next()
        {
            let (pull, arm) = self.draw(place, rows, values);
            self.keep(|other| other != arm);
            each(SlotPull { pull, worth: f64::NAN });
        }
    }

    fn choose_best(
        &mut self,
        request: &Request,
        among: Option<&[u32]>,
        values: Option<&Values>,
        place: usize,
    ) -> Option<SlotPull> {
        if self.plays_evenly() {
            return None;
        }
        let rows = rows(request);
        self.begin(request.eligible, rows);
        among.iter().for_each(|arms| self.keep_among(arms));
        let (pull, _) = self.play_best(place, rows, values);
        Some(SlotPull { pull, worth: f64::NAN })
    }

    /// Calls `each` with the estimated mean reward of each of these arms, in the request's order, and its standard
    /// deviation. Both are functions of releases. Without a list, they are NaN for retired arms.
    fn predict(&mut self, request: &Request, each: &mut dyn FnMut(f64, f64)) {
        let (eligible, rows) = (request.eligible, rows(request));
        for place in 0..eligible.map_or(self.ledger.arms.len(), <[u32]>::len) {
            let arm = eligible.map_or(place as u32, |arms| arms[place]);
            if !self.ledger.arms.is_live(arm as usize) {
                each(f64::NAN, f64::NAN);
                continue;
            }
            let model = self.model(arm);
            while self.ready <= model {
                self.refresh(self.ready); // each model once, not at each prediction
            }
            self.spread_row(rows.get(if self.shape.per_arm { 0 } else { place }, &self.scale));
            self.scratch.y.copy_from_slice(&self.x);
            let (m, deviation) = self.models[model].predict(&mut self.scratch.y);
            let p = 1.0 / (1.0 + libm::exp(-m.clamp(-700.0, 700.0)));
            each(p, p * (1.0 - p) * deviation);
        }
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.clear_x();
        self.kept.spread(pull.arm() as usize, &mut self.row);
        self.set_x();
        if let Some(pilot) = &mut self.ledger.whole {
            let entries = self.row.places().iter().map(|&j| self.x[1 + usize::from(j)].abs());
            pilot.size += entries.sum::<f64>();
            pilot.collect(&self.row, &self.x, [0.0, 0.0, 1.0], reward);
            if pilot.is_full() {
                self.release_pilot();
            }
            return;
        }
        let model = self.model(self.row.arm);
        let point = self.linearise(model);
        self.ledger.cells[(0, model)].collect(&self.row, &self.x, point, reward);
        if self.ledger.cells[(0, model)].is_full() {
            self.release_model(model);
        }
    }

    /// A cancelled decision has entered no sum: its place is simply reused.
    fn cancel(&mut self, _pull: Pull) {}

    fn arm_of(&self, pull: Pull) -> u32 {
        self.kept.arm(pull.arm() as usize)
    }

    /// Its mean is NaN, because an arm has a mean only for a row ([`predict`](ByRequest::predict)). Its pulls are the
    /// number of rewards in the releases of its model, which all arms may share, without those of the pilot.
    fn arm(&self, arm: u32) -> ArmState {
        let model = self.model(arm);
        let effective_pulls = self.discount(model) * self.models[model].count();
        ArmState { effective_pulls, ..ArmState::unknown(self.is_live(arm)) }
    }

    /// Its failures are releases and models that were dropped because a matrix was not positive definite to working
    /// precision.
    fn counts(&self) -> PolicyCounts {
        PolicyCounts {
            phase: self.ledger.facts.releases,
            active: self.ledger.arms.live.len() as u32,
            failures: self.failures,
            oversized: self.oversized,
            ..PolicyCounts::default()
        }
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }

    /// Sets the prior of an arm's mean rate over all requests, which is a prior of the intercept of its model. Whatever
    /// its strength, it moves the logit from the common rate with a precision of at most 1.5/max(gap^2, 1/4), against
    /// one of 1, so a wrong prior is overcome. (Ads at epsilon 1, eight worlds, strength 1e6. The loss in % of the loss
    /// of uniform play, after 1e5 decisions: 17.9 without priors, 15.4 with right ones, 18.4 with reversed ones, and
    /// 20.8 with priors a tenth of the rate for the best three. After 5e5: 6.7, 6.4, 7.6 and 7.0.)
    ///
    /// # Errors
    /// `Unsupported` if all arms share a model, because none of its coordinates belongs to one arm. Give the arm a
    /// feature of its own instead.
    fn set_prior(&mut self, arm: u32, prior: Prior) -> Result<()> {
        if !self.shape.per_arm {
            return Err(Error::unconfigured(
                "a prior of one arm: all arms share a model, because config.feature_model is DPB_MODEL_SHARED",
            ));
        }
        self.ledger.facts.time.learn();
        self.fade(arm as usize);
        self.models[arm as usize].public = Some(FadingPrior::new(prior));
        self.refit(arm as usize);
        Ok(())
    }

    fn privacy(&self) -> PrivacyLoss {
        self.ledger.facts.privacy(&self.ledger.noise.distribution())
    }

    fn snapshot(&mut self, with: &mut Moving) -> Result<()> {
        match with {
            Moving::Out(to) => self.save(to),
            Moving::In(from) => self.load(from),
        }
    }

    fn is_live(&self, arm: u32) -> bool {
        self.ledger.arms.is_live(arm as usize)
    }

    /// Retires an arm, which is no longer eligible. Rewards of its pending decisions still count.
    fn retire_arm(&mut self, arm: u32) {
        self.ledger.arms.retire(arm);
    }
}

impl Linear {
    /// Writes the releases and the public state, without open batches.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        self.ledger.facts.saved().moved(&mut Moving::Out(to))?;
        to.u64(self.failures);
        to.u64(self.oversized);
        self.own_pilot.save(to);
        self.pooled.save(to);
        to.u64(self.ledger.facts.duty().led());
        to.u8(self.common.first as u8);
        to.u32(self.ledger.arms.len() as u32);
        (0..self.ledger.arms.len()).for_each(|arm| to.u8(self.ledger.arms.is_live(arm).into()));
        for (number, model) in self.models.iter().enumerate() {
            to.u8(self.ledger.cells[(0, number)].instrument as u8);
            let mut public = model.public.map(|public| public.faded(self.discount(number)));
            Moving::Out(to).option(&mut public, || Err(Error::Corrupt))?;
            model.own.save(self.discount(number), to);
        }
        Ok(())
    }

    /// Reads what [`save`](Self::save) wrote, into a new policy of the same configuration and number of arms. Rewards
    /// that were in open batches, including the pilot's, never enter a release.
    ///
    /// # Errors
    /// `Corrupt`: drop the policy.
    pub(super) fn load(&mut self, from: &mut Reader) -> Result<()> {
        let (facts, saved) = SavedLinear::read(from, &self.shape, self.ledger.arms.len())?;
        self.ledger.facts.continue_from(&facts);
        let now = self.now();
        (self.failures, self.oversized) = (saved.failures, saved.oversized);
        (self.own_pilot, self.pooled) = (saved.pilot, saved.pooled);
        self.common.first = saved.first;
        self.believe();
        self.ledger.arms.live.retain(|&arm| saved.live[arm as usize]);
        if self.pooled.is_known(self.tail) {
            self.ledger.whole = None;
        }
        self.open_pilot();
        for (number, saved) in saved.models.into_iter().enumerate() {
            let model = &mut self.models[number];
            (model.own, model.public, model.faded) = (saved.evidence, saved.public, now);
            model.fit(&self.common.belief, &mut self.scratch);
            self.open(number, saved.instrument);
        }
        self.choose_shrinkage();
        for model in &mut *self.models {
            ensure(model.refresh(&self.common.belief, &mut self.scratch, &mut self.coins))?;
        }
        (self.ready, self.begun) = (self.models.len(), true);
        Ok(())
    }
}

impl Moved for Linear {
    fn moved(&mut self, with: &mut Moving) -> Result<()> {
        self.snapshot(with)?;
        self.kept.moved(with)?;
        self.ledger.cells.moved(with)?;
        let (d, intercept) = (self.d(), self.intercept);
        with.option(&mut self.ledger.whole, || VectorBatch::new(d, intercept))?;
        self.ledger.whole.iter_mut().try_for_each(|pilot| pilot.size.moved(with))
    }
}
