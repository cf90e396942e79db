//! The pilot: plain sums of rewards, until the rate is known.

use super::algebra::logit;
use super::batch::{BOUND, VectorBatch};
use super::model::Belief;
use crate::error::Result;
use crate::moving::{Archive, Persist, persist};
use crate::reward::Reward;

/// The pilot ends when the square of the released sum is at least the sum of two squares: of this many standard
/// deviations of its noise, its tail, and of [`COUNT`] standard deviations of a count of rare rewards.
const TAIL: f64 = 6.0;
/// At the end of the pilot the rate is known to a quarter of itself. (The condition on noise is not enough: without
/// noise, the first click would determine the rate. Four deviations of noise are enough for that quarter. But then one
/// run in 500 at epsilon = .1 would accept a burst of noise, a rate ten times too large, and lose a fifth or more for
/// good. With six it is one run in 10^4.)
const COUNT: f64 = 4.0;

/// Rate assumed for the weights of the pilot's batches, because the first releases are mostly noise. (With equal
/// weights, the pilot is twice as long at small epsilon.)
const GUESS: f64 = 0.1;

/// The releases of a pilot, and public sums beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PilotTotals {
    /// Sum of w y, where y is the release of a batch of n rewards, w = n/(n + N/[`GUESS`]), and N is the variance of
    /// its noise.
    sum: f64,
    /// Sums of w^2 N, of w n and of w^2 n.
    noise: f64,
    weight: f64,
    spread: f64,
    /// Number of rewards.
    pub count: f64,
    /// Sums of |x|_1 and of |x|_2^2 over the rows, features only, in units of C.
    pub size: f64,
    pub squares: f64,
}

impl PilotTotals {
    /// The size of the next batch: as many rewards as all before it together. `variance` is that of the noise of a sum, in
    /// rewards.
    pub fn quota(&self, variance: f64) -> u64 {
        let first = (TAIL * TAIL * variance + COUNT * COUNT).sqrt();
        VectorBatch::quota_of(first.max(self.count))
    }

    /// Adds the release of a batch of all models together. Its moments are those of rewards of variance 1.
    pub fn learn(&mut self, batch: &VectorBatch, y: f64, variance: f64) {
        let squares: f64 = (1..batch.d()).map(|i| batch.moments[super::algebra::packed(i) + i]).sum();
        self.add(batch.count as f64, y / (f64::from(BOUND) * Reward::ONE as f64), variance);
        self.size += batch.size;
        self.squares += squares;
    }

    /// Adds the released sum of n rewards, with noise of this variance.
    pub fn add(&mut self, n: f64, sum: f64, variance: f64) {
        let weight = n / (n + variance / GUESS);
        self.sum += weight * sum;
        self.noise += weight * weight * variance;
        self.weight += weight * n;
        self.spread += weight * weight * n;
        self.count += n;
    }

    /// Returns whether the rate is known to a quarter of itself.
    pub fn is_known(&self) -> bool {
        let needed = TAIL * TAIL * self.noise + COUNT * COUNT * self.counting();
        self.sum > 0.0 && self.sum * self.sum >= needed
    }

    /// Returns the variance of the sum of w y that comes from rare rewards rather than noise.
    fn counting(&self) -> f64 {
        self.sum.max(0.0) * self.spread / self.weight
    }

    /// Returns the rate, two standard deviations above the measured one. A Newton step from a rate that is too small
    /// overshoots: from a third of the rate, a run in four never recovers. A rate that is three times too large costs a
    /// tenth more.
    pub fn rate(&self) -> f64 {
        let above = self.sum + 2.0 * (self.noise + self.counting()).sqrt();
        (above / self.weight).clamp(1e-6, 0.9)
    }

    /// Returns the prior of all models: logits of standard deviation 1 of the intercept, and of all features together if
    /// `shrinkage` is 1.
    pub fn belief(&self, shrinkage: f64) -> Belief {
        Belief { intercept: logit(self.rate()), precision: self.mean_square(), shrinkage }
    }

    /// Brings the totals to a unit that is larger by 1/`factor`, a power of two.
    #[must_use]
    pub fn rescaled(self, factor: f64) -> PilotTotals {
        PilotTotals { size: factor * self.size, squares: factor * factor * self.squares, ..self }
    }

    /// Returns E|x|_2^2/C^2.
    pub fn mean_square(&self) -> f64 {
        (self.squares / self.count).max(1e-4)
    }

    /// Returns E|x|_1/C.
    pub fn mean_size(&self) -> f64 {
        (self.size / self.count).max(1e-3)
    }
}

impl Persist for PilotTotals {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let PilotTotals { sum, noise, weight, spread, count, size, squares } = self;
        sum.persist(with)?;
        with.ensure(sum.abs() <= 1e15)?;
        [noise, weight, spread, count, size, squares].into_iter().try_for_each(|x| {
            x.persist(with)?;
            with.ensure((0.0..=1e15).contains(x))
        })
    }
}

/// All pilots that a handle knows.
#[derive(Clone, Copy, Default)]
pub struct Pilots {
    /// Releases of this handle's pilot, and of the pilots of others.
    pub own: PilotTotals,
    others: Pool,
    /// The pooled releases that are in use. They come from the snapshot until a merge determines them.
    pub pooled: PilotTotals,
}

impl Pilots {
    /// Replaces the releases of others.
    pub fn join(&mut self, others: impl Iterator<Item = PilotTotals>) {
        self.others = others.fold(Pool::default(), |pool, totals| pool.and(&totals));
    }

    /// Pools all releases. Returns them if the rate is known.
    pub fn pool(&mut self) -> Option<PilotTotals> {
        let pooled = self.others.and(&self.own).totals();
        if pooled.is_known() {
            self.pooled = pooled;
        }
        Some(self.pooled).filter(PilotTotals::is_known)
    }
}

persist!(Pilots { own, pooled } made { others });

/// The sum of several handles' totals, on a grid of 2^-40, on which sums are exact.
#[derive(Clone, Copy, Default)]
struct Pool([i128; 7]);

impl Pool {
    const ONE: f64 = (1u64 << 40) as f64;

    /// Adds the totals of a handle, if they determine the rate by themselves.
    #[must_use]
    fn and(mut self, totals: &PilotTotals) -> Pool {
        if totals.is_known() {
            let PilotTotals { sum, noise, weight, spread, count, size, squares } = *totals;
            self.0
                .iter_mut()
                .zip([sum, noise, weight, spread, count, size, squares])
                .for_each(|(to, x)| *to += (x * Self::ONE) as i128);
        }
        self
    }

    fn totals(self) -> PilotTotals {
        let [sum, noise, weight, spread, count, size, squares] = self.0.map(|x| x as f64 / Self::ONE);
        PilotTotals { sum, noise, weight, spread, count, size, squares }
    }
}
