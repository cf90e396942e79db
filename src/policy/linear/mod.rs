//! dp-linear: decisions by features, learned from private rewards.
//!
//! **Do not compute a feature from rewards.** Examples are the visitor's clicks so far, an ad's click rate from the
//! log, and a score that a model learned from clicks. Each of these is a release of rewards without noise, and no
//! theorem below covers it.
//!
//! The server knows the features, and they are not protected. The reward in `[0, 1]` is. A logistic model is learned
//! from one released integer vector for each batch: with the logit, the canonical link, the sum of x r is the only
//! function of the rewards that it needs. Everything else (second moments, predictions, the covariance of the noise) is
//! public, and so has no noise.
//!
//! **From a row to a release.** A decision makes the request's row the current one (`rows`: integers r and an exponent,
//! and x, which is r in units of C), chooses an arm by one of the draws that its model keeps (`choose`, `model`), and
//! keeps the row at the decision's position in the engine's ring. When the reward takes effect, `observe` unpacks the
//! row and adds both to the open vector of the model (`batch`), or to that of all models, which the ledger calls
//! `whole`: first the `pilot`, then the samples (`sample`). The instrument of the vector says by which integers of the
//! row the reward is multiplied; some count the rows in cells (`partition`). A full vector is released with noise. The
//! model learns from it, and says which instrument and size the next vector gets. `combine` has what others release.
//!
#![doc = include_str!("../../../docs/theory/linear.md")]

mod algebra;
mod batch;
mod choose;
mod combine;
mod model;
mod models;
mod partition;
mod pilot;
pub(crate) mod policy;
pub(crate) mod private;
mod rows;
mod sample;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::engine::Engine;
use crate::error::Result;
use crate::ledger::cells::{Ledger, OpenSum};
use crate::ledger::grid::Grid;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist};
use crate::noise::{Laplace, Noise, NoiseSource};
use crate::random::Seed;
use crate::request::{Offer, Row};
use crate::reward::Reward;
use batch::{BOUND, Instrument, Setting, VectorBatch};
use model::{Common, ModelEvidence};
use models::Models;
use partition::{Partition, Splitter};
use pilot::Pilots;
use rows::{PendingRows, Scale, UnpackedRow};
use sample::Samples;

/// The shape of rows and models.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// d, the number of features in a row: `1 ..= Config::MOST_FEATURES`. The library adds the intercept.
    features: u32,
    /// Whether each arm has a model, with one row for a request. Else there is one model, and a row for each eligible
    /// arm.
    per_arm: bool,
}

/// The dp-linear policy. The number of a pull is its position in the engine's ring, where its row is kept.
pub(crate) struct Linear {
    shape: Shape,
    saved: SavedLinear,
    splitter: Splitter,
    exploration: f64,
    /// The probability of each sample after the pilot.
    sampled: f64,
    /// The open vectors of all models, and the whole: of the pilot until the rate is known, and then of the samples.
    ledger: LinearLedger,
    common: Common,
    models: Models,
    /// Number of models whose draws follow their releases and priors. After the pilot, and after the shrinkage has
    /// changed, each decision adds one.
    ready: usize,
    /// Whether all models have been ready since the pilot. Until then arms are played evenly.
    begun: bool,
    /// The current row, |x|_1 of it, whether that was too large, and x.
    row: UnpackedRow,
    size: f64,
    is_large: bool,
    x: WipedVec<f64>,
    kept: PendingRows,
}

type LinearLedger = Ledger<VectorBatch, LinearReleases>;

impl Shape {
    fn of(config: &Config) -> Shape {
        Shape { features: config.features, per_arm: config.model_per_arm }
    }

    /// Returns the maximum number of arms. More would take too long: with one model for all arms, a decision with
    /// propensities takes some 50 ms; with a model for each arm, a merge takes half a second.
    fn most_arms(&self) -> u32 {
        let d = self.features + 1;
        if self.per_arm { (1 << 23) / (d * (d + 8)) } else { (1 << 21) / d }
    }

    /// Returns the number of models of so many arms.
    fn models(&self, arms: usize) -> usize {
        if self.per_arm { arms } else { 1 }
    }

    /// Returns the number of an arm's model.
    fn model(&self, arm: u32) -> usize {
        if self.per_arm { arm as usize } else { 0 }
    }

    /// Returns a request's row for the arm at this position in its list, or with this number if it has none. With a
    /// model for each arm all of them have the same.
    #[inline]
    fn row<'a>(&self, offer: &Offer<'a>, position: usize) -> Row<'a> {
        let number = if self.per_arm { 0 } else { position };
        offer.rows.map_or(Row::Dense(&[]), |rows| rows.get(number, self.features as usize))
    }

    /// Returns the arms that a request lists, or all of so many, in its order, each with its row.
    fn listed<'a>(self, offer: &Offer<'a>, arms: usize) -> impl Iterator<Item = (u32, Row<'a>)> {
        let listed = offer.eligible;
        let arm = move |position| listed.map_or(position as u32, |arms| arms[position]);
        (0..listed.map_or(arms, <[u32]>::len)).map(move |position| (arm(position), self.row(offer, position)))
    }
}

impl Linear {
    /// Returns a policy for `config.arms` arms.
    ///
    /// # Errors
    /// `InvalidConfig`, `NoMemory`.
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Linear> {
        let shape = Shape::of(config);
        config.check_arms(shape.most_arms())?;
        let noise = Noise::Laplace(Laplace::new(config.epsilon_per_reward()?, (BOUND as u64) << Reward::BITS)?);
        let variance = noise.variance() / (f64::from(BOUND) * Reward::ONE as f64).powi(2);
        let (features, d) = (shape.features as usize, shape.features as usize + 1);
        let models = shape.models(config.arms as usize);
        let cells = Grid::of_row(WipedVec::try_with_capacity(models)?);
        let mut policy = Linear {
            shape,
            saved: SavedLinear::default(),
            splitter: Splitter::new(features)?,
            exploration: config.exploration,
            sampled: Samples::share(config),
            ledger: Ledger::new(config, cells, NoiseSource::new(noise, seed.stream()))?,
            common: Common { variance, reward_variance: 0.25, size: 1.0, square: 1.0 },
            models: Models::new(config, d, models, seed.stream())?,
            ready: 0,
            begun: false,
            row: UnpackedRow::new(features)?,
            size: 0.0,
            is_large: false,
            x: algebra::zeros(d)?,
            kept: PendingRows::new(Engine::places(config), features)?,
        };
        policy.ledger.whole = Some(Box::new(VectorBatch::new(d)?));
        policy.open_whole(Instrument::Cells(1));
        for _ in 0..models {
            policy.add_model()?;
        }
        Ok(policy)
    }

    fn d(&self) -> usize {
        self.x.len()
    }

    fn add_model(&mut self) -> Result<()> {
        let (model, batch) = (self.models.make()?, VectorBatch::new(self.d())?);
        self.ledger.cells.reserve()?;
        self.models.all.push(model);
        self.ledger.cells.push(batch);
        self.open(self.models.all.len() - 1, self.saved.first);
        self.refresh(self.models.all.len() - 1);
        Ok(())
    }

    fn plays_evenly(&self) -> bool {
        self.is_pilot() || !self.begun
    }

    fn is_pilot(&self) -> bool {
        self.ledger.whole.as_ref().is_some_and(|whole| whole.is_of_all())
    }

    /// Opens a batch of the pilot, or of the samples, that is as large as all before it together.
    fn open_whole(&mut self, instrument: Instrument) {
        let setting = self.setting(instrument);
        self.ledger.whole.iter_mut().for_each(|whole| whole.open(setting, 0));
        self.plan_whole();
    }

    fn plan_whole(&mut self) {
        let (variance, is_pilot, limit) = (self.common.variance, self.is_pilot(), self.ledger.facts.share().limit);
        let size =
            if is_pilot { self.saved.pilots.own.quota(variance) } else { self.saved.samples.quota(variance, limit) };
        let Ledger { whole, facts, .. } = &mut self.ledger;
        whole.iter_mut().for_each(|whole| whole.quota = facts.quota(size));
    }

    fn release_pilot(&mut self) {
        let Ledger { whole, facts, noise, .. } = &mut self.ledger;
        let Some(pilot) = whole else { return };
        facts.release(0);
        let mut sum = [0.0];
        pilot.release(noise, &mut sum);
        self.saved.pilots.own.learn(pilot, sum[0], self.common.variance);
        self.splitter.split();
        if self.saved.pilots.own.is_known() {
            self.believe();
            self.end_pilot();
        } else {
            self.open_whole(Instrument::Cells(1));
        }
    }

    /// Sets the common prior from the releases of all pilots together. Returns whether they determine the rate.
    fn believe(&mut self) -> bool {
        let Some(pooled) = self.saved.pilots.pool() else { return false };
        let rate = pooled.rate();
        self.models.belief = pooled.belief(self.models.belief.shrinkage);
        self.common.reward_variance = rate * (1.0 - rate);
        (self.common.size, self.common.square) = (pooled.mean_size(), pooled.mean_square());
        true
    }

    /// Makes the shrinkage follow the evidence. Returns whether it has changed. Then each model follows at its next release
    /// or refresh, one at each decision.
    fn choose_shrinkage(&mut self) -> bool {
        let changed = self.models.choose_shrinkage();
        if changed {
            self.ready = 0;
        }
        changed
    }

    /// Ends the pilot once the rate is known. The rewards in its open batch are dropped; the moments of the rows are
    /// used. To draw from all models takes long if there are many, so the next decisions do that, one model each.
    fn end_pilot(&mut self) {
        let Some(pilot) = self.ledger.whole.take_if(|whole| whole.is_of_all()) else { return };
        self.saved.scale.settle();
        (self.ready, self.begun) = (0, false);
        self.models.expect();
        self.refresh(0);
        // All models are alike now, so the best first instrument of one is the best of all.
        let share = self.ledger.facts.share();
        if pilot.count > 0 {
            self.saved.first = self.models.next(0, &pilot, self.common.reward_variance, &self.common, share);
        }
        (0..self.models.all.len()).for_each(|model| self.open(model, self.saved.first));
        self.ledger.whole = Some(pilot).filter(|_| self.sampled > 0.0);
        self.open_whole(Instrument::Samples);
    }

    /// Opens a model's next batch, with this instrument.
    fn open(&mut self, model: usize, instrument: Instrument) {
        let (setting, quota) = (self.setting(instrument), self.quota(model, instrument));
        self.ledger.cells[(0, model)].open(setting, quota);
    }

    fn setting(&self, instrument: Instrument) -> Setting {
        Setting { instrument, partition: self.splitter.partition, unit: self.saved.scale.unit }
    }

    /// Changes C, and with it what was learned. Open batches of the models begin anew.
    fn rescale(&mut self, unit: f64) {
        let factor = self.saved.scale.unit / unit;
        self.saved.scale.unit = unit;
        self.saved.pilots.own = self.saved.pilots.own.rescaled(factor);
        self.saved.pilots.pooled = self.saved.pilots.pooled.rescaled(factor);
        self.ledger.whole.iter_mut().for_each(|pilot| pilot.rescale(unit));
        self.believe();
        for model in 0..self.models.all.len() {
            self.models.all[model].own.rescale(factor);
            self.open(model, self.ledger.cells[(0, model)].setting.instrument);
        }
    }

    fn quota(&self, model: usize, instrument: Instrument) -> u64 {
        let facts = &self.ledger.facts;
        facts.quota(VectorBatch::quota_of(self.models.all[model].quota(instrument, &self.common, facts.share())))
    }

    /// Releases a full batch, its only release. Then updates the model and opens the next batch.
    fn release_model(&mut self, model: usize) {
        self.ledger.facts.time.learn();
        self.models.fade(model, self.ledger.facts.now());
        let Ledger { facts, cells, noise, .. } = &mut self.ledger;
        let batch = &mut cells[(0, model)];
        facts.release(batch.count);
        let y = &mut self.models.scratch.information.y;
        batch.release(noise, y);
        batch.residuals(y);
        let variance = self.common.variance;
        if self.models.learn(model, |model, information| model.add(batch, variance, information)) {
            self.models.fit(model);
        }
        if self.choose_shrinkage() {
            self.refresh(model);
        }
        self.splitter.split();
        let (batch, share) = (&self.ledger.cells[(0, model)], self.ledger.facts.share());
        let next = self.models.next(model, batch, 1.0, &self.common, share);
        self.open(model, next);
    }

    fn refresh(&mut self, model: usize) {
        self.models.refresh(model);
        self.ready += usize::from(model == self.ready);
        self.begun |= self.ready == self.models.all.len();
    }

    /// Makes the shrinkage and this model follow the model's evidence.
    fn refit(&mut self, model: usize) {
        self.models.fit(model);
        self.choose_shrinkage();
        self.refresh(model);
    }

    /// Replaces the releases of the other pilots. Afterwards [`join`](Self::join_model) each model. If this handle's
    /// own pilot is still running and another one knows the rate, the handle continues with that rate, and the rewards
    /// in the open batch of its pilot are dropped.
    fn join_pilots(&mut self) {
        self.saved.pilots.join(self.ledger.peers.iter().map(|peer| {
            let SavedLinear { pilots, scale, .. } = &peer.releases.saved;
            pilots.own.rescaled(scale.unit / self.saved.scale.unit)
        }));
        if self.believe() {
            self.end_pilot();
        }
    }

    /// Replaces the evidence of all others for a model. Memory for it is reserved.
    ///
    /// Sums over handles are exact. Models that know the same releases are equal to the last bit, whatever the order of
    /// the merges and whichever releases are their own, except for priors and for what has faded since.
    fn join_model(&mut self, model: usize) {
        let unit = self.saved.scale.unit;
        self.models.join(model, &mut self.ledger, |LinearReleases { saved, models, .. }, theirs| {
            (&models[theirs].1, saved.scale.unit / unit)
        });
        self.refit(model);
    }
}

/// What a snapshot has of a handle, before its models.
#[derive(Default)]
struct SavedLinear {
    oversized: u64,
    pilots: Pilots,
    /// Instrument of a model's first batch.
    first: Instrument,
    scale: Scale,
    /// The releases of the samples.
    samples: Samples,
}

impl SavedLinear {
    /// Moves it, with what the handle has elsewhere: its failures, the generation that it leads, or 0, and its partition.
    fn persist(
        &mut self,
        failures: &mut u64,
        led: &mut u64,
        partition: &mut Partition,
        with: &mut Archive,
    ) -> Result<()> {
        with.count(failures)?;
        with.count(&mut self.oversized)?;
        self.pilots.persist(with)?;
        led.persist(with)?;
        self.first.persist(with)?;
        self.scale.persist(with)?;
        partition.persist(with)?;
        self.samples.persist(with)
    }
}

/// What another handle has released.
pub(crate) struct LinearReleases {
    saved: SavedLinear,
    /// The generation that it leads, or 0.
    led: u64,
    partition: Partition,
    /// The instrument of each model's open batch, and its evidence.
    models: Vec<(Instrument, ModelEvidence)>,
}
