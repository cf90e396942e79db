//! dp-linear: decisions by features, learned from private rewards.
//!
//! **A feature must not be made of rewards.** The visitor's clicks so far, an ad's click rate from the log, a score
//! that a model learned from clicks: each is a release of rewards without noise, and no theorem below covers it.
//!
//! Features are known to the server and are not protected; the reward in `[0, 1]` is. A logistic model is learned from
//! one released integer vector a batch: with the logit, the canonical link, the sum of x r is all that it needs of the
//! rewards. Everything else (second moments, predictions, the noise's covariance) is public, and so has no noise.
//!
//! # Theorem L (instruments)
//!
//! Let every decision have a row of features, fixed when it is taken. Let its reward, if it has one, take effect at a
//! time that does not depend on it, and enter one batch, the one that is then open. Let batch b multiply it by an
//! integer vector u, a function of the row and of b's *instrument*, with |u|_1 <= `BOUND`, and be released once, as y
//! = G + Z, G = sum of u q over its rewards, q in 0..=g the reward on its grid, Z discrete Laplace noise of scale
//! BOUND g/epsilon in each coordinate. Let instruments, sizes, decisions and all that can be read be functions of
//! releases, features, coins and those times. Then the whole is epsilon-DP for each reward, for all time, also if
//! somebody who sees every decision and every release chooses what is asked next: features, eligible arms, which
//! decisions are cancelled.
//!
//! *Proof.* Take two tables of rewards that differ in one, and fix a transcript (all decisions and releases) and all
//! coins but the noise. Go through the events in order. Whoever asks answers to the same transcript so far in both
//! worlds, so these factors cancel. Given it, requests, times, the open batches, their instruments and sizes, and so
//! each decision's row, batch and u are equal in both worlds: by induction, because each is a function of what came
//! before it in the transcript, and none of an open G. So the density of the transcript is a product over released
//! coordinates. The changed reward is in one batch at most. There G moves by u (q - q'), of L1 norm <= BOUND g, so
//! that the product over the coordinates of this one vector changes by a factor of e^epsilon at most; all others are
//! equal. ∎
//!
//! With Gaussian noise |u|_2 <= BOUND and sigma = BOUND g/sqrt(2 rho): the divergence of order alpha of one vector is
//! at most alpha rho, that of all others 0, and the chain rule adds them: rho-zCDP.
//!
//! What the proof rests on, and where it is:
//! * *u does not depend on rewards.* A row becomes integers when the decision is taken (`rows`), and integers decide
//!   whether it is small enough. The instrument is the batch's, chosen when it opens.
//! * *Adaptive features.* Nothing is asked of who chooses them but that they do not see rewards: see the first
//!   sentence.
//! * *Cancelled decisions.* A row enters the public sums H, e beside its reward, when that takes effect. So a
//!   cancelled decision, or one that is never answered, has never been in any sum, and there is nothing to take out.
//!   That a decision is cancelled is public, and must not depend on its reward, as for every policy.
//! * *The close of a batch* is by the count of rewards that took effect, silent ones too: public with a reward window,
//!   whose rewards take effect on time whether they came or not, and by contract without one.
//! * *Larger rows.* A row w times too large has u = x/w; w is public, and H has it too (sum of v u x'), so that the
//!   estimate stays unbiased. Rows beyond `LARGEST` times C are shrunk to that.
//! * *The intercept* is a coordinate of the row with a value of its own, and inside the bound as any other: with
//!   `Instrument::Sum` an eighth of the norm (of L2 three eighths) is kept for it. It is no secret that it is 1.
//! * *The pilot* and *the bins* are instruments as the others are. A switch is a function of public moments.
//! * *Scale*: g BOUND of one constant BOUND for all batches and instruments, so none is fixed too late.
//!
//! **Several slots.** A request may show m arms, each with a reward of its own. With a shared model all of them may be
//! in one batch, so theorem S of [`slates`](crate::privacy::slates), in which batches are of one arm, does not apply
//! as it stands. Two worlds that differ in d rewards of one request move all vectors together by d BOUND g in L1 at
//! most, wherever they lie: d epsilon, as there (d = m, or 2 c with at most c clicks). In L2 one vector may move by d
//! BOUND: d^2 rho, where theorem S has d rho. With a model for each arm, and different arms in a request, it is d rho.
//! (`noise` does so.)
//!
//! # The algorithm
//!
//! A model, one for all arms or one for each, has a precision L and a mean theta over rows x = (c, features/C): c, the
//! intercept's coordinate, is 1/7 (3/7 with Gaussian noise).
//!
//! ```text
//! pilot      uniform play; the plain sum Y of rewards in batches that double, until Y^2 is 36 times its noise's variance
//!            and 16 Y more.
//!            Prior: theta_0 = logit(rate)/c, the rate two deviations above Y's; logits of deviation 1, of the intercept
//!            and of all features together
//! choose     one of 32 kept draws of theta + L^-1/2 z/2; the arm with the largest x theta
//!            at each decision one draw is drawn anew, at a release all of them
//! reward     p = sigma(m), v = p (1 - p), m = x theta, within 3 of theta_0 c
//!            H += v x x'/w, e += (p - v m) u, G += q u
//! batch full at n = max(B1, half of all rewards released before): y = G + Z,
//!            L += A' S^-1 A, h += A' S^-1 (y/(g scale) - e), theta = L^-1 h:  A = sum v u x', S = sum v u u' + N
//! next batch the instrument of the largest ln det L that is to be expected, from the moments of this one
//! ```
//!
//! B1: a coordinate's expected sum is half the noise's scale. One Newton step a batch: no row is stored. A noisy batch
//! weighs little by itself. Where a matrix is not positive definite to working precision the release is left out, the
//! last model stays and [`Linear::failures`] counts it.
//!
//! Each draw is of all models, so a decision's propensity, given all releases and draws, is an exact share of 32,
//! beside what is explored.

mod algebra;
mod batch;
mod model;
mod pilot;
mod rows;
#[cfg(test)]
mod tests;

use super::batched::loss;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::noise::{Gaussian, Laplace, Noise, NoiseSource};
use crate::privacy::PrivacyLoss;
use crate::privacy::composition::approximate_to_zcdp;
use crate::privacy::slates;
use crate::random::{Random, Seed};
use crate::reward::{Reward, RewardRange};
use crate::snapshot::{Reader, Writer, ensure};
use crate::table::Table;
use batch::{BOUND, Batch, Instrument};
pub use model::{Common, Evidence};
use model::{DRAWS, Model, Prior, Scratch};
use pilot::Pilot;
pub use rows::{Feature, Rows};
use rows::{Kept, Row, Scale, Spread, UNIT};
use std::f64::consts::LN_2;

/// What dp-linear needs beside [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// d, features of a row: `1 ..= 256`. The intercept is the library's own.
    pub features: u32,
    /// A model for each arm, and one row a request; else one model, and a row for each eligible arm.
    pub per_arm: bool,
    /// C > 0: the largest |x|_1 (|x|_2 with delta > 0) that counts in full.
    pub norm: f64,
    /// Entries of a sparse row, at most: pending decisions keep no more. 0 = any number.
    pub nonzeros: u32,
    /// Compute propensities without exploration too.
    pub propensities: bool,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The arm.
    pub arm: u32,
    /// Its place among the eligible ones.
    pub place: usize,
    /// Its probability given all releases and draws; NaN where nobody asked for it.
    pub propensity: f64,
}

/// The policy.
pub struct Linear {
    shape: Shape,
    scale: Scale,
    exploration: f64,
    /// M, in decisions; infinite = it never forgets.
    memory: f64,
    /// The intercept in an instrument, and in a row: c.
    intercept: i32,
    constant: f64,
    noise: NoiseSource,
    coins: Random,
    /// None once the rate is known.
    pilot: Option<Pilot>,
    common: Common,
    models: Table<Model>,
    batches: Table<Batch>,
    live: Table<bool>,
    scratch: Scratch,
    row: Spread,
    x: Table<f64>,
    kept: Kept,
    range: RewardRange,
    /// Of the next draw that is drawn anew.
    cursor: usize,
    decisions: u64,
    releases: u32,
    failures: u64,
    oversized: u64,
    #[cfg(test)]
    tape: tests::Tape,
}

const MOST_FEATURES: u32 = 256;
/// A draw is drawn anew every so many decisions. (At 8 one of two worlds
/// of items lost 10% at epsilon 1; at 1 six lost 2.6%, 3.7 at most.)
const RENEW: u64 = 1;

/// In logits: e^3 times the rate, or a part of it.
const FARTHEST: f64 = 3.0;

/// Noise for vectors of sensitivity BOUND.
fn noise(config: &Config, per_arm: bool) -> Result<Noise> {
    let sensitivity = (BOUND as u64) << Reward::BITS;
    let epsilon = config.epsilon_per_reward()?;
    if config.delta == 0.0 {
        return Ok(Noise::Laplace(Laplace::new(epsilon, sensitivity)?));
    }
    let parts = config.batches_changed();
    let mut rho = approximate_to_zcdp(config.epsilon, config.delta, config.contributions_per_user);
    rho = slates::share(rho, parts);
    if !per_arm {
        rho = slates::share(rho, parts); // one vector may hold all of a request's slots
    }
    Ok(Noise::Gaussian(Gaussian::new(rho, sensitivity)?))
}

impl Linear {
    /// A policy for `config.arms` arms and `config.pending_capacity` pending decisions.
    ///
    /// # Errors
    /// `InvalidConfig`, `NoMemory`.
    pub fn new(config: &Config, shape: Shape, seed: &mut Seed) -> Result<Linear> {
        if !(1..=MOST_FEATURES).contains(&shape.features) {
            return Err(Error::config("features", "must be in 1..=256", shape.features));
        }
        if !(shape.norm >= 1e-30 && shape.norm <= 1e30) {
            return Err(Error::config("feature_norm", "must be in 1e-30..=1e30", shape.norm));
        }
        let range = config.check()?;
        let noise = noise(config, shape.per_arm)?;
        let euclidean = matches!(noise, Noise::Gaussian(_));
        let intercept = if euclidean { 3 * UNIT } else { UNIT };
        let (features, d) = (shape.features as usize, shape.features as usize + 1);
        let scale = Scale { features, norm: shape.norm, euclidean, nonzeros: shape.nonzeros as usize };
        let variance = noise.variance() / (f64::from(BOUND) * Reward::ONE as f64).powi(2);
        let models = if shape.per_arm { config.arms as usize } else { 1 };
        let mut policy = Linear {
            shape,
            scale,
            exploration: config.exploration,
            memory: if config.forget_after > 0 { config.forget_after as f64 } else { f64::INFINITY },
            intercept,
            constant: f64::from(intercept) / f64::from(7 * UNIT),
            noise: NoiseSource::new(noise, seed.stream()),
            coins: seed.stream(),
            pilot: Some(Pilot::new(d, intercept, variance.sqrt())?),
            common: Common {
                prior: Prior { intercept: 0.0, intercept_precision: 1.0, precision: 1.0 },
                first: Instrument::Sum,
                variance,
                spread: 0.25,
                size: 1.0,
                handles: 1.0,
            },
            models: Table::with_room(models)?,
            batches: Table::with_room(models)?,
            live: Table::new(config.arms as usize, |_| true)?,
            scratch: Scratch::new(d)?,
            row: Spread::new(&scale)?,
            x: algebra::zeros(d)?,
            kept: Kept::new(config.pending_capacity as usize, scale)?,
            range,
            cursor: 0,
            decisions: 0,
            releases: 0,
            failures: 0,
            oversized: 0,
            #[cfg(test)]
            tape: tests::Tape::default(),
        };
        for _ in 0..models {
            policy.add_model()?;
        }
        Ok(policy)
    }

    fn d(&self) -> usize {
        self.x.len()
    }

    fn add_model(&mut self) -> Result<()> {
        let (model, mut batch) = (Model::new(self.d())?, Batch::new(self.d(), self.intercept)?);
        batch.open(self.common.first, model.quota(self.common.first, &self.common));
        self.models.reserve()?;
        self.batches.reserve()?;
        self.models.push(model);
        self.batches.push(batch);
        self.refresh(self.models.len() - 1);
        Ok(())
    }

    fn model(&self, arm: u32) -> usize {
        if self.shape.per_arm { arm as usize } else { 0 }
    }

    /// The next decision, among these arms, kept in this slot until its reward takes effect or it is cancelled.
    ///
    /// # Errors
    /// `InvalidConfig` for rows and arms that cannot be: nothing has changed.
    pub fn choose(&mut self, slot: usize, eligible: &[u32], rows: Rows) -> Result<Choice> {
        self.check(eligible, rows)?;
        let n = eligible.len() as u64;
        let mut is_large = self.shape.per_arm && self.spread_row(rows.get(0, &self.scale));
        let explores = self.pilot.is_some() || (self.exploration > 0.0 && self.coins.unit() < self.exploration);
        let place = match explores {
            true => self.coins.below(n) as usize,
            false => {
                let draw = self.coins.below(DRAWS as u64) as usize;
                self.best(draw, eligible, rows)
            }
        };
        let propensity = self.propensity(place, eligible, rows);
        if !self.shape.per_arm {
            is_large = self.spread_row(rows.get(place, &self.scale));
        }
        self.oversized += u64::from(is_large);
        self.row.arm = eligible[place];
        self.kept.keep(slot, &self.row);
        self.decisions += 1;
        self.look_further();
        Ok(Choice { arm: eligible[place], place, propensity })
    }

    fn check(&self, eligible: &[u32], rows: Rows) -> Result<()> {
        let is_live = |&arm: &u32| self.live.get(arm as usize) == Some(&true);
        if eligible.is_empty() || !eligible.iter().all(is_live) {
            return Err(Error::config("eligible", "must be live arms, one at least", eligible.len()));
        }
        rows.check(if self.shape.per_arm { 1 } else { eligible.len() }, &self.scale)
    }

    /// A request's row as it is kept, and as x in units of C. True where it is larger than C.
    fn spread_row(&mut self, row: Row) -> bool {
        self.clear_x();
        let is_large = self.row.quantise(row, &self.scale);
        self.set_x();
        is_large
    }

    fn clear_x(&mut self) {
        self.row.places().iter().for_each(|&j| self.x[1 + usize::from(j)] = 0.0);
    }

    fn set_x(&mut self) {
        self.x[0] = self.constant;
        for &j in self.row.places() {
            self.x[1 + usize::from(j)] = self.row.weight * f64::from(self.row.u[usize::from(j)]) / f64::from(UNIT);
        }
    }

    /// The place of the largest x theta for this draw.
    fn best(&self, draw: usize, eligible: &[u32], rows: Rows) -> usize {
        let (mut best, mut largest) = (0, f64::NEG_INFINITY);
        for (place, &arm) in eligible.iter().enumerate() {
            let theta = self.models[self.model(arm)].draw(draw);
            let score = match self.shape.per_arm {
                true => self.x_dot(theta),
                false => rows.get(place, &self.scale).score(&theta[1..], &self.scale),
            };
            if score > largest {
                (best, largest) = (place, score);
            }
        }
        best
    }

    /// x theta, by its entries where these are few.
    #[inline]
    fn x_dot(&self, theta: &[f64]) -> f64 {
        if 2 * self.row.places().len() > self.d() {
            return algebra::dot(&self.x, theta);
        }
        let each = |&j: &u16| self.x[1 + usize::from(j)] * theta[1 + usize::from(j)];
        self.x[0] * theta[0] + self.row.places().iter().map(each).sum::<f64>()
    }

    fn propensity(&self, place: usize, eligible: &[u32], rows: Rows) -> f64 {
        let even = 1.0 / eligible.len() as f64;
        if self.pilot.is_some() {
            return even;
        }
        if self.exploration == 0.0 && !self.shape.propensities {
            return f64::NAN;
        }
        let share = (0..DRAWS).filter(|&draw| self.best(draw, eligible, rows) == place).count() as f64 / DRAWS as f64;
        (1.0 - self.exploration) * share + self.exploration * even
    }

    /// Between releases: one draw anew, and where there is a memory one model as it now counts.
    fn look_further(&mut self) {
        if self.pilot.is_some() {
            return;
        }
        let models = self.models.len();
        if self.decisions.is_multiple_of(RENEW) {
            self.cursor = (self.cursor + 1) % (DRAWS * models);
            self.models[self.cursor % models].redraw(self.cursor / models, &mut self.coins);
        }
        let patience = (self.memory / 16.0 / models as f64).max(64.0) as u64;
        if self.memory.is_finite() && self.decisions.is_multiple_of(patience) {
            let model = (self.decisions / patience % models as u64) as usize;
            self.fade(model);
            self.refresh(model);
        }
    }

    /// The reward of the decision in this slot takes effect. (A cancelled one has entered nothing: its slot is free.)
    ///
    /// # Errors
    /// `InvalidReward`.
    pub fn observe(&mut self, slot: usize, reward: f64) -> Result<()> {
        let reward = self.range.quantize(reward)?;
        self.clear_x();
        self.kept.spread(slot, &mut self.row);
        self.set_x();
        if let Some(pilot) = &mut self.pilot {
            let entries = self.row.places().iter().map(|&j| self.x[1 + usize::from(j)].abs());
            pilot.size += entries.sum::<f64>();
            pilot.batch.collect(&self.row, &self.x, [0.0, 0.0, 1.0], reward);
            if pilot.batch.is_full() {
                self.end_pilot();
            }
            return Ok(());
        }
        let model = self.model(self.row.arm);
        // Any point will do to linearise at. Far from the rate v vanishes, and nothing would be learned.
        let centre = self.common.prior.intercept * self.constant;
        let m = self.x_dot(&self.models[model].mean).clamp(centre - FARTHEST, centre + FARTHEST);
        let p = 1.0 / (1.0 + libm::exp(-m));
        self.batches[model].collect(&self.row, &self.x, [m, p, p * (1.0 - p)], reward);
        if self.batches[model].is_full() {
            self.release(model);
            #[cfg(test)]
            if tests::Fault::RewardTwice.is_on() {
                self.batches[model].collect(&self.row, &self.x, [m, p, p * (1.0 - p)], reward);
            }
        }
        Ok(())
    }

    fn end_pilot(&mut self) {
        let Some(mut pilot) = self.pilot.take() else { return };
        self.releases = self.releases.saturating_add(1);
        pilot.batch.release(&mut self.noise, &mut self.scratch.y);
        #[cfg(test)]
        self.tape.pass(&mut self.scratch.y);
        if !pilot.learn(&self.scratch.y, self.common.variance.sqrt()) {
            self.pilot = Some(pilot);
            return;
        }
        let rate = pilot.rate(self.common.variance.sqrt());
        (self.common.prior, self.common.spread) = (pilot.prior(rate, self.constant), rate * (1.0 - rate));
        self.common.size = (pilot.size / pilot.count).max(1e-3);
        (0..self.models.len()).for_each(|model| self.refresh(model));
        // All models are alike: what is best for the first one's first batch is for the others'.
        self.common.first = self.models[0].next(&pilot.batch, self.common.spread, &self.common, &mut self.scratch).0;
        self.open_all();
    }

    /// The one release of a full batch, what is learned from it, and the next batch.
    fn release(&mut self, model: usize) {
        self.fade(model);
        let (model, batch) = (&mut self.models[model], &mut self.batches[model]);
        batch.release(&mut self.noise, &mut self.scratch.y);
        #[cfg(test)]
        self.tape.pass(&mut self.scratch.y);
        self.releases = self.releases.saturating_add(1);
        batch.residuals(&mut self.scratch.y);
        let learned = model.learn(batch, &self.common, &mut self.scratch, &mut self.coins);
        self.failures += u64::from(!learned);
        let next = model.next(batch, 1.0, &self.common, &mut self.scratch);
        batch.open(next.0, next.1);
    }

    fn fade(&mut self, model: usize) {
        let model = &mut self.models[model];
        if self.memory.is_finite() {
            let power = libm::exp(-4.0 * LN_2 * (self.decisions - model.faded) as f64 / self.memory);
            model.own.fade(power);
            model.others.iter_mut().for_each(|others| others.fade(power));
        }
        model.faded = self.decisions;
    }

    fn refresh(&mut self, model: usize) {
        let sound = self.models[model].refresh(&self.common.prior, &mut self.scratch, &mut self.coins);
        self.failures += u64::from(!sound);
    }

    /// What is believed of the mean reward of each of these, and its deviation: functions of releases.
    ///
    /// # Errors
    /// As [`choose`](Self::choose).
    pub fn estimate(&mut self, eligible: &[u32], rows: Rows, mut each: impl FnMut(f64, f64)) -> Result<()> {
        self.check(eligible, rows)?;
        for (place, &arm) in eligible.iter().enumerate() {
            self.spread_row(rows.get(if self.shape.per_arm { 0 } else { place }, &self.scale));
            self.scratch.y.copy_from_slice(&self.x);
            let (m, deviation) = self.models[self.model(arm)].predict(&mut self.scratch.y);
            let p = 1.0 / (1.0 + libm::exp(-m.clamp(-700.0, 700.0)));
            #[cfg(test)]
            let p = p + self.batches[self.model(arm)].leak();
            each(p, p * (1.0 - p) * deviation);
        }
        Ok(())
    }

    /// What this handle has released for a model, for others to [`join`](Self::join).
    pub fn evidence(&self, model: usize) -> &Evidence {
        &self.models[model].own
    }

    /// All that others, so many handles, have released for a model, in place of what was joined before. A handle whose
    /// pilot is not over goes on from `prior`, which is theirs; what its pilot holds is dropped.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn join(&mut self, model: usize, others: &Evidence, handles: u32, prior: Common) -> Result<()> {
        if self.models[model].others.is_none() {
            self.models[model].others = Some(Evidence::new(self.d())?);
        }
        self.common.handles = 1.0 + f64::from(handles);
        if let Some(joined) = &mut self.models[model].others {
            joined.copy_from(others);
        }
        if self.pilot.take().is_some() {
            self.common = Common { variance: self.common.variance, handles: self.common.handles, ..prior };
            self.open_all();
        }
        self.refresh(model);
        Ok(())
    }

    /// What the pilot said, once it is over.
    pub fn common(&self) -> Option<Common> {
        self.pilot.is_none().then_some(self.common)
    }

    /// First batches.
    fn open_all(&mut self) {
        let Common { first, .. } = self.common;
        for (model, batch) in self.models.iter().zip(&mut *self.batches) {
            batch.open(first, model.quota(first, &self.common));
        }
    }

    /// One arm more, with the next number. With one model it is a new row, with a model for each a new prior.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn add_arm(&mut self) -> Result<()> {
        self.live.reserve()?;
        if self.shape.per_arm {
            self.add_model()?;
        }
        self.live.push(true);
        Ok(())
    }

    /// No longer eligible. Rewards of its pending decisions still count.
    pub fn retire_arm(&mut self, arm: u32) {
        self.live[arm as usize] = false;
    }

    /// Decisions so far.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Releases so far.
    pub fn releases(&self) -> u32 {
        self.releases
    }

    /// Releases or models that were left out, because a matrix was not positive definite to working precision.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Decisions whose row was larger than C.
    pub fn oversized(&self) -> u64 {
        self.oversized
    }

    /// The loss of one reward through the releases made so far.
    pub fn privacy(&self) -> PrivacyLoss {
        loss(&self.noise.law(), self.releases > 0)
    }

    /// Writes what was released and what is public: no open batch.
    pub fn save(&self, to: &mut Writer) {
        to.u64(self.decisions);
        to.u32(self.releases);
        to.u64(self.failures);
        to.u64(self.oversized);
        to.u8(self.pilot.is_none().into());
        let Common { prior, first, spread, size, .. } = self.common;
        to.u8(first as u8);
        [prior.intercept, prior.intercept_precision, prior.precision, spread, size].into_iter().for_each(|x| to.f64(x));
        to.u32(self.live.len() as u32);
        self.live.iter().for_each(|&live| to.u8(live.into()));
        for (model, batch) in self.models.iter().zip(&*self.batches) {
            to.u8(batch.instrument as u8);
            to.u64(model.faded);
            model.own.save(to);
        }
    }

    /// Goes on, in a fresh policy of the same configuration, from what was saved. Rewards that were in open batches, the
    /// pilot's too, never enter a release.
    ///
    /// # Errors
    /// `Corrupt`: the policy is to be thrown away.
    pub fn load(&mut self, from: &mut Reader) -> Result<()> {
        (self.decisions, self.releases) = (from.count()?, from.u32()?);
        (self.failures, self.oversized) = (from.count()?, from.count()?);
        if from.bool()? {
            self.pilot = None;
        }
        self.common.first = Instrument::from_number(from.u8()?)?;
        let mut real = |least: f64, most: f64| -> Result<f64> {
            let x = from.f64()?;
            ensure((least..=most).contains(&x))?;
            Ok(x)
        };
        self.common.prior =
            Prior { intercept: real(-1e3, 1e3)?, intercept_precision: real(1e-6, 1e6)?, precision: real(1e-6, 1e6)? };
        (self.common.spread, self.common.size) = (real(1e-9, 1.0)?, real(1e-9, 1e3)?);
        ensure(from.u32()? as usize == self.live.len())?;
        for live in &mut *self.live {
            *live = from.bool()?;
        }
        for number in 0..self.models.len() {
            let (model, batch) = (&mut self.models[number], &mut self.batches[number]);
            let instrument = Instrument::from_number(from.u8()?)?;
            model.faded = from.count()?;
            ensure(model.faded <= self.decisions)?;
            model.own.load(from)?;
            batch.open(instrument, model.quota(instrument, &self.common));
            ensure(model.refresh(&self.common.prior, &mut self.scratch, &mut self.coins))?;
        }
        Ok(())
    }
}
