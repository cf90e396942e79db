//! The models of a handle: what they share, and all that needs more than one model's own numbers.

use super::Shape;
use super::algebra::{add_square, dot, factorise, log_determinant, sigma, solve, solve_transposed};
use super::batch::{Information, Instrument, VectorBatch};
use super::model::{Belief, Common, DRAWS, FadingPrior, Model, ModelEvidence, ModelScratch, SHRINKAGES, fixed};
use crate::config::{Config, check_arms};
use crate::error::Result;
use crate::ledger::cells::Ledger;
use crate::ledger::facts::{Facts, Share};
use crate::ledger::roster::Roster;
use crate::memory::WipedVec;
use crate::moving::Archive;
use crate::policy::learner::Growth;
use crate::policy::prior::Prior;
use crate::random::Random;
use std::f64::consts::LN_2;

/// Counts in cells must promise a quarter more information than another instrument. (Without
/// that, Shuttle has 7.8% wrong instead of 6.7% at epsilon 1, and Satellite 41.5% instead of 43.2% at .25.)
const CAUTION: f64 = 0.8;

/// All models of a handle, with what they share.
pub struct Models {
    pub all: WipedVec<Model>,
    pub belief: Belief,
    /// `forget_after`, in ticks of the configuration's clock; infinite if it is 0.
    pub memory: f64,
    pub scratch: ModelScratch,
    /// For draws, and for the decisions that use them.
    pub coins: Random,
    /// Draw that is redrawn next.
    cursor: usize,
    /// Number of models and releases that were dropped because a matrix was not positive definite to working precision.
    pub failures: u64,
}

/// Returns the discount of evidence of this age: a half for each quarter of `memory`.
pub fn discount(age: u64, memory: f64) -> f64 {
    libm::exp(-4.0 * LN_2 * age as f64 / memory)
}

impl Models {
    /// Returns an empty list for so many models of `d` coordinates.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(config: &Config, d: usize, models: usize, coins: Random) -> Result<Models> {
        Ok(Models {
            all: WipedVec::try_with_capacity(models)?,
            belief: Belief::FIRST,
            memory: if config.forget_after > 0 { config.forget_after as f64 } else { f64::INFINITY },
            scratch: ModelScratch::new(d)?,
            coins,
            cursor: 0,
            failures: 0,
        })
    }

    /// Makes memory for other handles' evidence, or checks that there may be one more arm. Returns whether that is to get a
    /// model of its own.
    ///
    /// # Errors
    /// `InvalidConfig` for more arms than can be served in time; `NoMemory`.
    pub fn grow(&mut self, by: Growth, shape: &Shape, arms: &Roster) -> Result<bool> {
        match by {
            Growth::Peers => self.all.iter_mut().try_for_each(Model::reserve_others)?,
            Growth::Arm => check_arms(arms.arms() + 1, shape.most_arms())?,
        }
        Ok(by == Growth::Arm && shape.per_arm)
    }

    /// Returns a new model, for which there is a place in the list.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn make(&mut self) -> Result<Model> {
        let mut model = Model::new(self.scratch.y.len())?;
        if self.all.first().is_some_and(|model| !model.others.is_empty()) {
            model.reserve_others()?;
        }
        self.all.reserve()?;
        Ok(model)
    }

    /// Returns the discount of a model's evidence since it last faded.
    pub fn discount_of(&self, model: usize, now: u64) -> f64 {
        discount(now - self.all[model].faded, self.memory)
    }

    /// Returns the number of rewards in all known releases of a model, as they count now.
    pub fn count(&self, model: usize, now: u64) -> f64 {
        self.discount_of(model, now) * self.all[model].count()
    }

    /// Lets a model's evidence fade until now.
    pub fn fade(&mut self, model: usize, now: u64) {
        let discount = self.discount_of(model, now);
        self.all[model].fade(discount);
        self.all[model].faded = now;
    }

    /// With `forget_after`: returns which of so many parts of the models is due to fade between releases.
    pub fn fading(&self, facts: &Facts, parts: usize) -> Option<usize> {
        let decisions = facts.time.decisions_in(self.memory).min(1e18);
        let patience = (decisions / 16.0 / parts as f64).max(64.0) as u64;
        let is_due = self.memory.is_finite() && facts.decisions.is_multiple_of(patience);
        is_due.then_some((facts.decisions / patience % parts as u64) as usize)
    }

    /// Sets the prior of an arm's mean rate over all requests, which is a prior of the intercept of its model. Whatever
    /// its strength, it moves the logit from the common rate with a precision of at most 1.5/max(gap^2, 1/4), against
    /// one of 1, so a wrong prior is overcome. (Ads at epsilon 1, eight worlds, strength 1e6. The loss in % of the loss
    /// of uniform play, after 1e5 decisions: 17.9 without priors, 15.4 with right ones, 18.4 with reversed ones, and
    /// 20.8 with priors a tenth of the rate for the best three. After 5e5: 6.7, 6.4, 7.6 and 7.0.)
    ///
    /// The model follows when it is fitted and refreshed.
    pub fn set_prior(&mut self, model: usize, prior: Prior, now: u64) {
        self.fade(model, now);
        self.all[model].public = Some(FadingPrior::new(prior));
    }

    /// Replaces the evidence of all others for a model. `of` returns a peer's evidence for its model of this number, and the
    /// factor to the unit of this handle. The model follows when it is fitted and refreshed.
    pub fn join<S, R>(
        &mut self,
        model: usize,
        ledger: &mut Ledger<S, R>,
        of: impl Fn(&R, usize) -> (&ModelEvidence, f64),
    ) {
        ledger.facts.time.learn();
        let now = ledger.facts.now();
        self.fade(model, now);
        let others = ledger.peers.iter().filter_map(|peer| {
            let (evidence, factor) = of(&peer.releases, peer.arm(model, &ledger.roster)?);
            Some((evidence, discount(now - peer.merged, self.memory), factor))
        });
        self.all[model].join(others, &mut self.scratch);
    }

    /// Sets theta of all models to the prior's. Draws are as before, until [`refresh`](Self::refresh).
    pub fn expect(&mut self) {
        self.all.iter_mut().for_each(|model| model.expect(&self.belief));
    }

    /// Computes theta = L^-1 h, and draws. Returns false, and only counts the failure, if L is not positive definite to
    /// working precision.
    pub fn refresh(&mut self, model: usize) -> bool {
        let Models { all, belief, scratch, coins, failures, .. } = self;
        let model = &mut all[model];
        let mut sound = model.posterior(belief, scratch);
        let ModelScratch { y: mean, total, .. } = scratch;
        if sound {
            solve_transposed(total, mean);
            sound = mean.iter().all(|x| x.abs() <= 1e12);
        }
        if sound {
            std::mem::swap(&mut model.root, total);
            std::mem::swap(&mut model.mean, mean);
            (0..DRAWS).for_each(|draw| model.redraw(draw, coins));
        }
        *failures += u64::from(!sound);
        sound
    }

    /// Computes a model's marginal likelihoods: (d ln shrinkage - ln det L + h L^-1 h)/2, with d features. Those for which L
    /// is not positive definite stay.
    pub fn fit(&mut self, model: usize) {
        let Models { all, belief, scratch, .. } = self;
        let model = &mut all[model];
        for (place, (shrinkage, _)) in SHRINKAGES.into_iter().enumerate() {
            if model.posterior(&Belief { shrinkage, ..*belief }, scratch) {
                let ModelScratch { y, total: root, .. } = &*scratch;
                let prior = (y.len() - 1) as f64 * libm::log(shrinkage);
                model.likelihoods[place] = (prior - log_determinant(root, y.len()) + dot(y, y)) / 2.0;
            }
        }
    }

    /// Chooses the shrinkage of the prior with the largest marginal likelihood of all evidence. Returns whether it has
    /// changed. (The sum is exact, so it does not depend on the order of the arms.)
    pub fn choose_shrinkage(&mut self) -> bool {
        let likelihood = |place: &usize| {
            let of_models = self.all.iter().map(|model| fixed(model.likelihoods[*place]));
            of_models.fold(fixed(SHRINKAGES[*place].1), i128::saturating_add)
        };
        let best = (0..SHRINKAGES.len()).max_by_key(likelihood).map_or(1.0, |place| SHRINKAGES[place].0);
        std::mem::replace(&mut self.belief.shrinkage, best) != best
    }

    /// Makes the shrinkage and all models follow the evidence. Returns whether all could.
    pub fn refit(&mut self) -> bool {
        (0..self.all.len()).for_each(|model| self.fit(model));
        self.choose_shrinkage();
        let before = self.failures;
        (0..self.all.len()).for_each(|model| _ = self.refresh(model));
        self.failures == before
    }

    /// Adds to a model's evidence, and makes the model follow. Returns false, and only counts the failure, if `add` returns
    /// `None` or a matrix is not positive definite to working precision then.
    pub fn learn(&mut self, model: usize, add: impl FnOnce(&mut Model, &mut Information) -> Option<()>) -> bool {
        let Models { all, scratch, failures, .. } = self;
        scratch.before.copy_from(&all[model].own);
        let learned = match add(&mut all[model], &mut scratch.information) {
            Some(()) => self.refresh(model),
            None => {
                *failures += 1;
                false
            }
        };
        if !learned {
            std::mem::swap(&mut self.all[model].own, &mut self.scratch.before);
        }
        learned
    }

    /// Returns ln det of L after `times` the rows of `batch`, with this instrument.
    fn prospect(
        &mut self,
        model: usize,
        batch: &VectorBatch,
        instrument: Instrument,
        times: f64,
        variance: f64,
    ) -> f64 {
        let (d, ModelScratch { total, information, .. }) = (batch.d(), &mut self.scratch);
        let Some(coordinates) = batch.inform(instrument, times, variance, information) else {
            return f64::NEG_INFINITY;
        };
        self.all[model].total(&self.belief, total);
        add_square(total, &information.design[..coordinates * d], d);
        if factorise(total, d) { log_determinant(total, d) } else { f64::NEG_INFINITY }
    }

    /// Returns the instrument of a model's next batch: the one of the largest gain of ln det L for each reward, if its
    /// rows are like those of the closing one. `reward_variance` is that of rewards that have variance 1 in the moments
    /// of `closing`.
    pub fn next(
        &mut self,
        model: usize,
        closing: &VectorBatch,
        reward_variance: f64,
        common: &Common,
        share: Share,
    ) -> Instrument {
        let known = log_determinant(&self.all[model].root, closing.d());
        let mut best = (Instrument::Sum, f64::NEG_INFINITY);
        for instrument in Instrument::all(&closing.setting.partition) {
            let quota = self.all[model].quota(instrument, common, share);
            let times = reward_variance * quota / closing.count as f64;
            let gain = (self.prospect(model, closing, instrument, times, common.variance) - known) / quota;
            // Counts in cells promise more than they keep.
            let gain = if matches!(instrument, Instrument::Cells(2..)) { CAUTION * gain } else { gain };
            if gain > best.1 {
                best = (instrument, gain);
            }
        }
        best.0
    }

    /// Redraws the next draw of all.
    pub fn redraw_next(&mut self) {
        let models = self.all.len();
        self.cursor = (self.cursor + 1) % (DRAWS * models);
        self.all[self.cursor % models].redraw(self.cursor / models, &mut self.coins);
    }

    /// Returns a coordinate of a model's theta and its standard deviation.
    pub fn weight(&mut self, model: usize, coordinate: usize) -> (f64, f64) {
        self.scratch.y.fill(0.0);
        self.scratch.y[coordinate] = 1.0;
        self.predict(model)
    }

    /// Returns a model's estimate of the mean reward of a row, and its standard deviation.
    pub fn predict_reward(&mut self, model: usize, x: &[f64]) -> (f64, f64) {
        self.scratch.y.copy_from_slice(x);
        let (m, deviation) = self.predict(model);
        let p = sigma(m.clamp(-700.0, 700.0));
        (p, p * (1.0 - p) * deviation)
    }

    /// Returns x theta and its standard deviation for the row in `scratch.y`, and overwrites it.
    fn predict(&mut self, model: usize) -> (f64, f64) {
        let (x, model) = (&mut *self.scratch.y, &self.all[model]);
        let mean = dot(x, &model.mean);
        solve(&model.root, x);
        (mean, dot(x, x).sqrt())
    }

    /// Moves what a snapshot taken now has of a model.
    pub fn persist(&mut self, model: usize, now: u64, with: &mut Archive) -> Result<()> {
        let (discount, model) = (self.discount_of(model, now), &mut self.all[model]);
        let mut public = model.public;
        public.iter_mut().for_each(|public| public.fade(discount));
        model.own.persist(&mut public, discount, with)?;
        if with.reads() {
            (model.public, model.faded) = (public, now);
        }
        Ok(())
    }
}
