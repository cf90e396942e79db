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
use crate::random::{Random, Seed};
use crate::request::{Offer, Row};
use crate::reward::Reward;
use algebra::sigma;
use batch::{BOUND, Instrument, Setting, VectorBatch};
use model::{Common, Model, ModelEvidence, ModelScratch, likeliest_shrinkage};
use partition::{Partition, Splitter};
use pilot::Pilots;
use rows::{PendingRows, Scale, UnpackedRow};
use sample::Samples;
use std::f64::consts::LN_2;

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
    scale: Scale,
    splitter: Splitter,
    exploration: f64,
    /// The probability of each sample after the pilot, and their releases.
    sampled: f64,
    samples: Samples,
    /// `forget_after`, in ticks of the configuration's clock; infinite if it is 0.
    memory: f64,
    /// The open vectors of all models, and the whole: of the pilot until the rate is known, and then of the samples.
    ledger: LinearLedger,
    coins: Random,
    pilots: Pilots,
    common: Common,
    models: WipedVec<Model>,
    /// Number of models whose draws follow their releases and priors. After the pilot, and after the shrinkage has
    /// changed, each decision adds one.
    ready: usize,
    /// Whether all models have been ready since the pilot. Until then arms are played evenly.
    begun: bool,
    scratch: ModelScratch,
    /// The current row, |x|_1 of it, whether that was too large, and x.
    row: UnpackedRow,
    size: f64,
    is_large: bool,
    x: WipedVec<f64>,
    kept: PendingRows,
    /// Draw that is redrawn next.
    cursor: usize,
    failures: u64,
    oversized: u64,
}

type LinearLedger = Ledger<VectorBatch, LinearReleases>;

/// Largest distance, in logits, from the rate to the point at which a mean is linearised; and to the point whose slope is
/// used there. (With 3 for both, Shuttle has 5.5, 6.7, 8.0 and 13.3% wrong without noise and at epsilon
/// 4, 1 and .25, instead of 4.3, 4.7, 6.7 and 11.0. With 8 for both, 3.6, 6.1, 7.8 and 10.6, and one run in three has
/// twice as much.)
const FARTHEST_POINT: f64 = 8.0;
const FARTHEST_SLOPE: f64 = 3.0;

/// Returns the noise for vectors of sensitivity BOUND.
fn noise(config: &Config) -> Result<Laplace> {
    Laplace::new(config.epsilon_per_reward()?, (BOUND as u64) << Reward::BITS)
}

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
        let noise = Noise::Laplace(noise(config)?);
        let variance = noise.variance() / (f64::from(BOUND) * Reward::ONE as f64).powi(2);
        let (features, d) = (shape.features as usize, shape.features as usize + 1);
        let models = shape.models(config.arms as usize);
        let cells = Grid::of_row(WipedVec::try_with_capacity(models)?);
        let mut policy = Linear {
            shape,
            scale: Scale::default(),
            splitter: Splitter::new(features)?,
            exploration: config.exploration,
            sampled: Samples::share(config),
            samples: Samples::default(),
            memory: if config.forget_after > 0 { config.forget_after as f64 } else { f64::INFINITY },
            ledger: Ledger::new(config, cells, NoiseSource::new(noise, seed.stream()))?,
            coins: seed.stream(),
            pilots: Pilots::default(),
            common: Common::new(variance),
            models: WipedVec::try_with_capacity(models)?,
            ready: 0,
            begun: false,
            scratch: ModelScratch::new(d)?,
            row: UnpackedRow::new(features)?,
            size: 0.0,
            is_large: false,
            x: algebra::zeros(d)?,
            kept: PendingRows::new(Engine::places(config), features)?,
            cursor: 0,
            failures: 0,
            oversized: 0,
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
        let (mut model, batch) = (Model::new(self.d())?, VectorBatch::new(self.d())?);
        if self.ledger.peers.updates() > 0 {
            model.reserve_others()?;
        }
        self.models.reserve()?;
        self.ledger.cells.reserve()?;
        self.models.push(model);
        self.ledger.cells.push(batch);
        self.open(self.models.len() - 1, self.common.first);
        self.refresh(self.models.len() - 1);
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
        let size = if is_pilot { self.pilots.own.quota(variance) } else { self.samples.quota(variance, limit) };
        let Ledger { whole, facts, .. } = &mut self.ledger;
        whole.iter_mut().for_each(|whole| whole.quota = facts.quota(size));
    }

    fn release_pilot(&mut self) {
        let Ledger { whole, facts, noise, .. } = &mut self.ledger;
        let Some(pilot) = whole else { return };
        facts.release(0);
        let mut sum = [0.0];
        pilot.release(noise, &mut sum);
        self.pilots.own.learn(pilot, sum[0], self.common.variance);
        self.splitter.split();
        if self.pilots.own.is_known() {
            self.believe();
            self.end_pilot();
        } else {
            self.open_whole(Instrument::Cells(1));
        }
    }

    /// Sets the common prior from the releases of all pilots together. Returns whether they determine the rate.
    fn believe(&mut self) -> bool {
        let Some(pooled) = self.pilots.pool() else { return false };
        let rate = pooled.rate();
        self.common.belief = pooled.belief(self.common.belief.shrinkage);
        self.common.reward_variance = rate * (1.0 - rate);
        (self.common.size, self.common.square) = (pooled.mean_size(), pooled.mean_square());
        true
    }

    /// Returns m = x theta, p = sigma(m) and v, the point and the slope at which the current row's mean is linearised:
    /// p + v (x theta' - m) for other theta'. Far from the rate the true slope is almost 0, so that a step towards a
    /// reward that was not expected would go much too far. Then v is larger, and steps are too short. Any v is valid.
    fn linearise(&self, model: usize) -> [f64; 3] {
        linearise(self.x_dot(&self.models[model].mean), self.common.belief.intercept)
    }

    /// Chooses the shrinkage of the prior with the largest marginal likelihood of all evidence. Returns whether it has
    /// changed. Then each model follows at its next release or refresh, one at each decision. (The sum is exact, so it
    /// does not depend on the order of the arms.)
    fn choose_shrinkage(&mut self) -> bool {
        let best = likeliest_shrinkage(&self.models);
        let changed = std::mem::replace(&mut self.common.belief.shrinkage, best) != best;
        if changed {
            self.ready = 0;
        }
        changed
    }

    /// Ends the pilot once the rate is known. The rewards in its open batch are dropped; the moments of the rows are
    /// used. To draw from all models takes long if there are many, so the next decisions do that, one model each.
    fn end_pilot(&mut self) {
        let Some(pilot) = self.ledger.whole.take_if(|whole| whole.is_of_all()) else { return };
        self.scale.settle();
        (self.ready, self.begun) = (0, false);
        self.models.iter_mut().for_each(|model| model.expect(&self.common.belief));
        self.refresh(0);
        // All models are alike now, so the best first instrument of one is the best of all.
        let share = self.ledger.facts.share();
        if pilot.count > 0 {
            let (model, reward_variance) = (&self.models[0], self.common.reward_variance);
            self.common.first = model.next(&pilot, reward_variance, &self.common, share, &mut self.scratch);
        }
        (0..self.models.len()).for_each(|model| self.open(model, self.common.first));
        self.ledger.whole = Some(pilot).filter(|_| self.sampled > 0.0);
        self.open_whole(Instrument::Samples);
    }

    /// Opens a model's next batch, with this instrument.
    fn open(&mut self, model: usize, instrument: Instrument) {
        let (setting, quota) = (self.setting(instrument), self.quota(model, instrument));
        self.ledger.cells[(0, model)].open(setting, quota);
    }

    fn setting(&self, instrument: Instrument) -> Setting {
        Setting { instrument, partition: self.splitter.partition, unit: self.scale.unit }
    }

    /// Changes C, and with it what was learned. Open batches of the models begin anew.
    fn rescale(&mut self, unit: f64) {
        let factor = self.scale.unit / unit;
        self.scale.unit = unit;
        self.pilots.own = self.pilots.own.rescaled(factor);
        self.pilots.pooled = self.pilots.pooled.rescaled(factor);
        self.ledger.whole.iter_mut().for_each(|pilot| pilot.rescale(unit));
        self.believe();
        for model in 0..self.models.len() {
            self.models[model].own.rescale(factor);
            self.open(model, self.ledger.cells[(0, model)].setting.instrument);
        }
    }

    fn quota(&self, model: usize, instrument: Instrument) -> u64 {
        let facts = &self.ledger.facts;
        facts.quota(VectorBatch::quota_of(self.models[model].quota(instrument, &self.common, facts.share())))
    }

    /// Releases a full batch, its only release. Then updates the model and opens the next batch.
    fn release_model(&mut self, model: usize) {
        self.ledger.facts.time.learn();
        self.fade(model);
        let Ledger { facts, cells, noise, .. } = &mut self.ledger;
        let batch = &mut cells[(0, model)];
        facts.release(batch.count);
        batch.release(noise, &mut self.scratch.information.y);
        batch.residuals(&mut self.scratch.information.y);
        let learned = self.models[model].learn(batch, &self.common, &mut self.scratch, &mut self.coins);
        self.failures += u64::from(!learned);
        if self.choose_shrinkage() {
            self.refresh(model);
        }
        self.splitter.split();
        let (batch, share) = (&self.ledger.cells[(0, model)], self.ledger.facts.share());
        let next = self.models[model].next(batch, 1.0, &self.common, share, &mut self.scratch);
        self.open(model, next);
    }

    fn fade(&mut self, model: usize) {
        let (discount, now) = (self.discount(model), self.now());
        let model = &mut self.models[model];
        if self.memory.is_finite() {
            model.fade(discount);
        }
        model.faded = now;
    }

    /// Returns the current time on the configuration's clock.
    fn now(&self) -> u64 {
        self.ledger.facts.now()
    }

    /// Returns the discount of a model's evidence since it last faded.
    fn discount(&self, model: usize) -> f64 {
        discount(self.now() - self.models[model].faded, self.memory)
    }

    fn refresh(&mut self, model: usize) {
        let sound = self.models[model].refresh(&self.common.belief, &mut self.scratch, &mut self.coins);
        self.failures += u64::from(!sound);
        self.ready += usize::from(model == self.ready);
        self.begun |= self.ready == self.models.len();
    }

    /// Makes the shrinkage and this model follow the model's evidence.
    fn refit(&mut self, model: usize) {
        self.models[model].fit(&self.common.belief, &mut self.scratch);
        self.choose_shrinkage();
        self.refresh(model);
    }

    /// Replaces the releases of the other pilots. Afterwards [`join`](Self::join_model) each model. If this handle's
    /// own pilot is still running and another one knows the rate, the handle continues with that rate, and the rewards
    /// in the open batch of its pilot are dropped.
    fn join_pilots(&mut self) {
        self.pilots.join(self.ledger.peers.iter().map(|peer| {
            let SavedLinear { pilots, scale, .. } = peer.releases.saved;
            pilots.own.rescaled(scale.unit / self.scale.unit)
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
        self.ledger.facts.time.learn();
        self.fade(model);
        let (now, unit, Ledger { peers, roster, .. }) = (self.now(), self.scale.unit, &self.ledger);
        let others = peers.iter().filter_map(|peer| {
            let theirs = peer.arm(model, roster)?;
            let factor = peer.releases.saved.scale.unit / unit;
            Some((&peer.releases.models[theirs].1, discount(now - peer.merged, self.memory), factor))
        });
        self.models[model].join(others, &mut self.scratch);
        self.refit(model);
    }
}

/// Returns m, sigma(m) and v for m = x theta, where `rate` is the logit of the rate: see [`Linear::linearise`].
fn linearise(m: f64, rate: f64) -> [f64; 3] {
    let near = |m: f64, distance| m.clamp(rate - distance, rate + distance);
    let m = near(m, FARTHEST_POINT);
    let p = sigma(near(m, FARTHEST_SLOPE));
    [m, sigma(m), p * (1.0 - p)]
}

/// Returns the discount of evidence of this age: a half for each quarter of `memory`.
fn discount(age: u64, memory: f64) -> f64 {
    libm::exp(-4.0 * LN_2 * age as f64 / memory)
}

/// What a snapshot has of a handle, before its models.
#[derive(Default)]
struct SavedLinear {
    failures: u64,
    oversized: u64,
    pilots: Pilots,
    /// The generation that the handle leads, or 0.
    led: u64,
    first: Instrument,
    scale: Scale,
    partition: Partition,
    samples: Samples,
}

impl Persist for SavedLinear {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.count(&mut self.failures)?;
        with.count(&mut self.oversized)?;
        self.pilots.persist(with)?;
        self.led.persist(with)?;
        self.first.persist(with)?;
        self.scale.persist(with)?;
        self.partition.persist(with)?;
        self.samples.persist(with)
    }
}

/// What another handle has released.
pub(crate) struct LinearReleases {
    saved: SavedLinear,
    /// The instrument of each model's open batch, and its evidence.
    models: Vec<(Instrument, ModelEvidence)>,
}
