//! A model: the posterior of theta from releases and a prior, and draws from it.

use super::algebra::{add, add_square, factorise, logit, packed, sigma, solve, solve_transposed, zeros};
use super::batch::{Information, Instrument, TINY, VectorBatch, rescale};
use crate::error::Result;
use crate::ledger::facts::Share;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist};
use crate::policy::prior::Prior;
use crate::random::Random;

/// Number of draws of theta that are kept. A decision uses one of them.
pub const DRAWS: usize = 32;
/// Thompson sampling draws with this part of the posterior's standard deviation. At .35 some runs lock in; at 1 the
/// loss is half as large again.
const SPREAD: f64 = 0.5;

/// Part of the noise's scale that a coordinate's expected sum has in a first batch. (From .2 to 1.2, ads lose as much;
/// with 1, unit vectors lose a tenth more.)
pub const FIRST: f64 = 0.35;
/// The same for a first plain sum: 2.5 deviations of the noise. So each arm's rate is known, roughly, before its
/// features are. (Ads in 1e5 decisions, 200 worlds, epsilon .1/.25/1/4: 50.7/35.0/20.1/13.3% of the loss of uniform
/// play; with 1.4, 53.9 at .1; with 2.1, 51.2/36.4/21.0/13.2; with 5.6, 52.0/36.1/20.2/13.7; without plain sums,
/// 56.1/36.5/20.2/13.3. Items and unit vectors lose as much as without, within the error.)
const FIRST_RATE: f64 = 3.5;

/// Least and largest part of all rewards before that a batch has, unless it is a first one. (Halves, whatever the noise:
/// without noise, Shuttle has 7.6% wrong instead of 5.4%, and LetterRecognition 51% instead of 45%.)
pub const LEAST: f64 = 0.1;
pub const MOST: f64 = 0.5;

/// Largest distance, in logits, from the rate to the point at which a mean is linearised; and to the point whose slope is
/// used there. (With 3 for both, Shuttle has 5.5, 6.7, 8.0 and 13.3% wrong without noise and at epsilon
/// 4, 1 and .25, instead of 4.3, 4.7, 6.7 and 11.0. With 8 for both, 3.6, 6.1, 7.8 and 10.6, and one run in three has
/// twice as much.)
const FARTHEST_POINT: f64 = 8.0;
const FARTHEST_SLOPE: f64 = 3.0;

/// Limits the precision of a prior of an intercept: with a gap of g logits from the rate, it is at most this over
/// max(g^2, 1/4). However strong a wrong prior claims to be, Thompson sampling overcomes it.
const PRIOR_LIMIT: f64 = 1.5;

/// The prior of a model without releases: a logit of the intercept, and precisions, all public or released.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// theta of the intercept: the logit of the rate.
    pub intercept: f64,
    /// Precision of each feature's theta with which the logits of all features together have standard deviation 1.
    pub precision: f64,
    /// The multiple of this precision that the prior has: one of [`SHRINKAGES`].
    pub shrinkage: f64,
}

/// The multiples of the features' precision to choose from, each with the logarithm of its prior probability. A handle
/// begins with the most probable one, and little evidence suffices to leave it. (From 1, LetterRecognition has 89% wrong
/// instead of 86% at epsilon 1, Shuttle 7.1% instead of 6.1%, adult 17.2% instead of 16.9%; ads lose as much. From .1,
/// LetterRecognition has 82%, but arms of different rates and 12 dense features lose 66% instead of 55% at .25 in 1e5
/// decisions. With .01, one release with much noise chose it and was then believed: unit vectors of 16 dimensions lost
/// 40% in one of 16 runs. With .03 no set has less wrong than with .1. With 3, ads lose more at epsilon 1 and above: too
/// narrow a prior holds exploration back.)
pub const SHRINKAGES: [(f64, f64); 3] = [(0.1, -1.0), (0.3, 1.5), (1.0, 0.0)];

impl Belief {
    /// That of a handle before its pilot, with the most probable shrinkage.
    pub const FIRST: Belief = Belief { intercept: 0.0, precision: 1.0, shrinkage: SHRINKAGES[1].0 };

    /// Returns m, sigma(m) and v for m = x theta: the point and the slope at which a row's mean is linearised, sigma(m) +
    /// v (x theta' - m) for other theta'. Far from the rate the true slope is almost 0, so that a step towards a reward
    /// that was not expected would go much too far. Then v is larger, and steps are too short. Any v is valid.
    pub fn linearise(&self, m: f64) -> [f64; 3] {
        let near = |m: f64, distance| m.clamp(self.intercept - distance, self.intercept + distance);
        let m = near(m, FARTHEST_POINT);
        let p = sigma(near(m, FARTHEST_SLOPE));
        [m, sigma(m), p * (1.0 - p)]
    }

    /// Returns theta and precision of the intercept: a logit of standard deviation 1 about the rate, combined with the
    /// arm's prior of `strength` rewards.
    fn intercept(&self, public: Option<FadingPrior>) -> (f64, f64) {
        let (mut mean, mut precision) = (self.intercept, 1.0);
        if let Some(FadingPrior { prior: Prior { mean: rate, strength }, discount }) = public {
            let rate = f64::from(rate).clamp(1e-6, 1.0 - 1e-6);
            let gap = logit(rate) - mean;
            let most = (f64::from(strength) * rate * (1.0 - rate)).min(PRIOR_LIMIT / (gap * gap).max(0.25));
            let weight = discount * most;
            mean += gap * weight / (1.0 + weight);
            precision += weight;
        }
        (mean, precision)
    }
}

/// A prior of an arm's rate, and what `forget_after` has left of its weight.
#[derive(Clone, Copy)]
pub struct FadingPrior {
    prior: Prior,
    discount: f64,
}

impl FadingPrior {
    /// Returns a prior that is set now.
    pub fn new(prior: Prior) -> FadingPrior {
        FadingPrior { prior, discount: 1.0 }
    }

    /// Multiplies its weight by `discount`.
    pub fn fade(&mut self, discount: f64) {
        self.discount *= discount;
    }
}

impl Persist for FadingPrior {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.prior.persist(with)?;
        self.discount.persist(with)?;
        with.ensure((0.0..=1.0).contains(&self.discount))
    }
}

/// The parameters that all models share, which are functions of the pilots' releases.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Variance of the noise at sensitivity 1.
    pub variance: f64,
    /// Variance of a reward, E|x|_1/C and E|x|_2^2/C^2, in the pilot.
    pub reward_variance: f64,
    pub size: f64,
    pub square: f64,
}

/// One handle's evidence for a model: the sums of A' S^-1 A (packed) and of A' S^-1 (y - e), and the number of rewards
/// in them.
pub struct ModelEvidence {
    pub precision: WipedVec<f64>,
    pub shift: WipedVec<f64>,
    pub count: f64,
}

impl ModelEvidence {
    /// Maximum of an entry, so that the sum over 1025 handles is exact.
    const LARGEST: f64 = 1e18;

    /// # Errors
    /// `NoMemory`.
    pub(super) fn new(d: usize) -> Result<ModelEvidence> {
        Ok(ModelEvidence { precision: zeros(packed(d))?, shift: zeros(d)?, count: 0.0 })
    }

    pub(super) fn copy_from(&mut self, other: &ModelEvidence) {
        self.precision.copy_from_slice(&other.precision);
        self.shift.copy_from_slice(&other.shift);
        self.count = other.count;
    }

    /// Brings the evidence to a unit that is larger by 1/`factor`, a power of two.
    pub(super) fn rescale(&mut self, factor: f64) {
        rescale(&mut self.precision, self.shift.len(), factor);
        self.shift[1..].iter_mut().for_each(|x| *x *= factor);
    }

    pub(super) fn fade(&mut self, discount: f64) {
        self.precision.iter_mut().chain(&mut *self.shift).for_each(|x| *x *= discount);
        self.count *= discount;
    }

    /// Moves what a snapshot has of a model: its prior, and the evidence. What is written is multiplied by `discount`.
    pub fn persist(&mut self, public: &mut Option<FadingPrior>, discount: f64, with: &mut Archive) -> Result<()> {
        with.option(public, || Ok(FadingPrior::new(Prior::WEAKEST)))?;
        let ModelEvidence { precision, shift, count } = self;
        for x in [&mut *count].into_iter().chain(&mut **precision).chain(&mut **shift) {
            let mut number = discount * *x;
            number.persist(with)?;
            with.ensure(number.abs() <= Self::LARGEST)?; // false for NaN
            if with.reads() {
                *x = number;
            }
        }
        with.ensure(self.count >= 0.0)
    }
}

/// Rounds to a grid of 2^-50, on which sums are exact. So they are the same whatever the order of the merges and
/// whichever handle is one's own.
pub fn fixed(x: f64) -> i128 {
    (x * (1u64 << 50) as f64) as i128
}

fn real(x: i128) -> f64 {
    x as f64 / (1u64 << 50) as f64
}

/// Temporary matrices that all models share.
pub struct ModelScratch {
    pub y: WipedVec<f64>,
    pub total: WipedVec<f64>,
    pub information: Information,
    pub before: ModelEvidence,
}

impl ModelScratch {
    pub fn new(d: usize) -> Result<ModelScratch> {
        Ok(ModelScratch {
            y: zeros(d)?,
            total: zeros(packed(d))?,
            information: Information::new(d)?,
            before: ModelEvidence::new(d)?,
        })
    }
}

pub struct Model {
    /// Evidence of this handle's releases.
    pub own: ModelEvidence,
    /// The sums of other handles' evidence: precision, then shift, then count. Empty until they are reserved.
    pub others: WipedVec<i128>,
    /// Prior of the arm's rate.
    pub public: Option<FadingPrior>,
    /// Factor of the posterior precision L.
    pub root: WipedVec<f64>,
    /// theta, the posterior mean.
    pub mean: WipedVec<f64>,
    draws: WipedVec<f64>,
    /// Time when the evidence last faded.
    pub faded: u64,
    /// For each of [`SHRINKAGES`], the logarithm of the marginal likelihood of the evidence, without the part that is
    /// equal for all.
    pub likelihoods: [f64; SHRINKAGES.len()],
}

impl Model {
    pub fn new(d: usize) -> Result<Model> {
        Ok(Model {
            own: ModelEvidence::new(d)?,
            others: WipedVec::default(),
            public: None,
            root: zeros(packed(d))?,
            mean: zeros(d)?,
            draws: zeros(DRAWS * d)?,
            faded: 0,
            likelihoods: [0.0; SHRINKAGES.len()],
        })
    }

    pub fn d(&self) -> usize {
        self.mean.len()
    }

    /// Returns the number of rewards in all known releases.
    pub fn count(&self) -> f64 {
        self.own.count + self.others.last().map_or(0.0, |&count| real(count))
    }

    /// Reserves memory for the releases of others.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve_others(&mut self) -> Result<()> {
        let d = self.d();
        if self.others.is_empty() {
            self.others = WipedVec::new(packed(d) + d + 1, |_| 0)?;
        }
        Ok(())
    }

    /// Replaces the releases of others, each with its discount and the factor to the unit of this handle, after
    /// [`reserve_others`](Self::reserve_others).
    pub fn join<'a>(
        &mut self,
        others: impl Iterator<Item = (&'a ModelEvidence, f64, f64)>,
        scratch: &mut ModelScratch,
    ) {
        self.others.fill(0);
        for (evidence, discount, factor) in others {
            scratch.before.copy_from(evidence);
            scratch.before.rescale(factor);
            let ModelEvidence { precision, shift, count } = &scratch.before;
            let numbers = precision.iter().chain(&**shift).chain([count]);
            self.others.iter_mut().zip(numbers).for_each(|(sum, &x)| *sum += fixed(discount * x));
        }
    }

    /// Multiplies all evidence, and the weight of the prior, by `discount`.
    pub fn fade(&mut self, discount: f64) {
        if discount == 1.0 {
            return; // avoids rounding
        }
        self.own.fade(discount);
        self.public.iter_mut().for_each(|public| public.fade(discount));
        self.others.iter_mut().for_each(|x| *x = (*x as f64 * discount) as i128);
    }

    /// Adds this handle's numbers and those of others from `first` on, exactly.
    fn add_up(&self, own: &[f64], first: usize, to: &mut [f64]) {
        let others = self.others.iter().skip(first).chain(std::iter::repeat(&0));
        to.iter_mut().zip(own).zip(others).for_each(|((to, own), others)| *to = real(fixed(*own) + others));
    }

    /// L = prior + own + others.
    pub fn total(&self, belief: &Belief, total: &mut [f64]) {
        self.add_up(&self.own.precision, 0, total);
        total[0] += belief.intercept(self.public).1;
        (1..self.d()).for_each(|i| total[packed(i) + i] += belief.shrinkage * belief.precision);
        (0..self.d()).for_each(|i| total[packed(i) + i] *= 1.0 + TINY);
    }

    /// Sets theta to the prior's. The draws are as before, until [`refresh`](Self::refresh).
    pub fn expect(&mut self, belief: &Belief) {
        self.mean.fill(0.0);
        self.mean[0] = belief.intercept(self.public).0;
    }

    /// Computes R, the factor of L, and R^-1 h, in `scratch.total` and `scratch.y`. Returns false if L is not positive
    /// definite to working precision.
    #[must_use]
    pub fn posterior(&self, belief: &Belief, scratch: &mut ModelScratch) -> bool {
        let (d, ModelScratch { y, total, .. }) = (self.d(), scratch);
        self.total(belief, total);
        self.add_up(&self.own.shift, packed(d), y);
        let (intercept, precision) = belief.intercept(self.public);
        y[0] += precision * intercept;
        let sound = factorise(total, d);
        if sound {
            solve(total, y);
        }
        sound
    }

    /// L += A' S^-1 A, h += A' S^-1 (y - e), from the released y - e in `information`; `variance` is that of the noise at
    /// sensitivity 1. Returns `None`, and changes nothing, if S is not positive definite to working precision.
    #[must_use]
    pub fn add(&mut self, batch: &VectorBatch, variance: f64, information: &mut Information) -> Option<()> {
        let d = self.d();
        let coordinates = batch.inform(batch.setting.instrument, 1.0, variance, information)?;
        let design = &information.design[..coordinates * d];
        add_square(&mut self.own.precision, design, d);
        for (design, y) in design.chunks_exact(d).zip(&*information.y) {
            add(&mut self.own.shift, *y, design);
        }
        self.own.count += batch.count as f64;
        Some(())
    }

    /// n = max(B1, sqrt(2 count n_0)), between a tenth and a half of `count`, the number of rewards before.
    ///
    /// B1 makes a coordinate's expected sum [`FIRST`] of the noise's scale, and a plain sum [`FIRST_RATE`] of it. n_0 is
    /// the number of rewards whose information about a coordinate is that of the noise. A batch keeps n/(n + n_0) of
    /// its information, and delays it: on average n/2 rewards are not known yet. So a model knows about
    /// count/(1 + n/(2 count)) n/(n + n_0), which is largest at this n.
    pub fn quota(&self, instrument: Instrument, common: &Common, share: Share) -> f64 {
        let (count, d, noise) = (self.count() / share.divides, self.d() as f64, common.variance);
        let rewards = 1.0 / common.reward_variance;
        let (scales, even) = match instrument {
            Instrument::Cells(cells) => ((FIRST * cells as f64).max(FIRST_RATE), cells as f64),
            Instrument::Samples => return 0.0,
            Instrument::Bin => (FIRST * d, d),
            Instrument::Sum => (FIRST * d / common.size, d / common.square),
        };
        let first = scales * (noise / 2.0).sqrt() * rewards;
        let best = (2.0 * count * even * noise * rewards).sqrt();
        first.max(best.clamp(LEAST * count, MOST * count).min(share.limit))
    }

    /// Redraws one of the draws: theta + L^-1/2 z/2.
    pub fn redraw(&mut self, draw: usize, coins: &mut Random) {
        let d = self.d();
        let theta = &mut self.draws[draw * d..][..d];
        normals(theta, coins);
        solve_transposed(&self.root, theta);
        theta.iter_mut().zip(&*self.mean).for_each(|(theta, mean)| *theta = mean + SPREAD * *theta);
    }

    pub fn draw(&self, draw: usize) -> &[f64] {
        &self.draws[draw * self.d()..][..self.d()]
    }
}

/// Fills `to` with standard normal variables, by Marsaglia's polar method. They are post-processing of releases, so
/// floating point is safe. Only libm and IEEE arithmetic are used, so they are the same on every machine.
fn normals(to: &mut [f64], coins: &mut Random) {
    for pair in to.chunks_mut(2) {
        let (x, square) = loop {
            let x = [2.0 * coins.unit() - 1.0, 2.0 * coins.unit() - 1.0];
            let square = x[0] * x[0] + x[1] * x[1];
            if square > 0.0 && square < 1.0 {
                break (x, square);
            }
        };
        let radius = (-2.0 * libm::log(square) / square).sqrt();
        pair.iter_mut().zip(x).for_each(|(to, x)| *to = radius * x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    /// Mean, variance and fourth moment of 200,000 variables. Their standard deviations are .0022, .0032 and .022. The
    /// test allows 6 of them each; one of the three exceeds that with probability 1e-8.
    #[test]
    fn normals_are_normal() {
        let mut x = vec![0.0; 200_001];
        normals(&mut x, &mut Seed::new(Some([5; 32])).unwrap().stream());
        let moment = |power: i32| x.iter().map(|x| x.powi(power)).sum::<f64>() / x.len() as f64;
        assert!(moment(1).abs() < 0.0135 && (moment(2) - 1.0).abs() < 0.019 && (moment(4) - 3.0).abs() < 0.132);
        let pairs = x.windows(2).map(|x| x[0] * x[1]).sum::<f64>() / x.len() as f64;
        assert!(pairs.abs() < 0.0135, "{pairs}");
    }
}
