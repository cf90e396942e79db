//! The pilot: the plain sum of rewards, until the rate is known.

use super::batch::{Batch, Instrument};
use super::model::Belief;
use crate::error::Result;
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure};

/// It ends when the released sum is so many deviations of its noise, beside
const NOISE: f64 = 6.0;
/// so many of a count of rare rewards: then the rate is known to a quarter of itself. (Noise alone must not decide:
/// without any, the first click would be a rate. Four deviations of noise would do for that quarter, but one run in
/// 500 at epsilon = .1 would believe a burst of it, a rate ten times too large, and lose a fifth or more for good; of
/// six it is one in 10^4.)
const COUNT: f64 = 4.0;

/// Batches of the pilot are weighted as if this were the rate: the first ones are little but noise. (All alike, the pilot
/// is twice as long at small epsilon.)
const GUESS: f64 = 0.1;

/// What a pilot has released, and public sums beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// The sum of w y, y what a batch of n rewards released and w = n/(n + N/[`GUESS`]), N the variance of its noise.
    sum: f64,
    /// Of w^2 N, of w n and of w^2 n.
    noise: f64,
    weight: f64,
    spread: f64,
    /// Rewards.
    pub count: f64,
    /// Of |x|_1 and of |x|_2^2 over them, features alone, in units of C.
    pub size: f64,
    pub squares: f64,
}

impl Totals {
    /// The rate is known to a quarter of itself.
    pub fn is_known(&self) -> bool {
        let needed = NOISE * NOISE * self.noise + COUNT * COUNT * self.counting();
        self.sum > 0.0 && self.sum * self.sum >= needed
    }

    /// The variance of the sum of w y that rare rewards have by themselves.
    fn counting(&self) -> f64 {
        self.sum.max(0.0) * self.spread / self.weight
    }

    /// The rate, two deviations above what was measured. A Newton step from a rate that is too small goes too far: at a
    /// third of it a run in four never recovers. One from a rate that is three times too large costs a tenth more.
    pub fn rate(&self) -> f64 {
        let above = self.sum + 2.0 * (self.noise + self.counting()).sqrt();
        (above / self.weight).clamp(1e-6, 0.9)
    }

    /// What is believed from now on: logits of deviation 1, of the intercept and of all features together. (With .8 of
    /// features ads lose 4% less at epsilon .1 and a third more at 4.)
    pub fn belief(&self, constant: f64) -> Belief {
        let rate = self.rate();
        Belief {
            intercept: libm::log(rate / (1.0 - rate)) / constant,
            constant,
            precision: (self.squares / self.count).max(1e-4),
        }
    }

    /// E|x|_1/C.
    pub fn mean_size(&self) -> f64 {
        (self.size / self.count).max(1e-3)
    }

    pub fn save(&self, to: &mut Writer) {
        [self.sum, self.noise, self.weight, self.spread, self.count, self.size, self.squares]
            .into_iter()
            .for_each(|x| to.f64(x));
    }

    pub fn load(from: &mut Reader) -> Result<Totals> {
        let mut real = |least: f64| -> Result<f64> {
            let x = from.f64()?;
            ensure((least..=1e15).contains(&x))?;
            Ok(x)
        };
        Ok(Totals {
            sum: real(-1e15)?,
            noise: real(0.0)?,
            weight: real(0.0)?,
            spread: real(0.0)?,
            count: real(0.0)?,
            size: real(0.0)?,
            squares: real(0.0)?,
        })
    }
}

/// The totals of several handles, on a grid of 2^-40, on which sums are exact.
#[derive(Clone, Copy, Default)]
pub struct Pool([i128; 7]);

impl Pool {
    const ONE: f64 = (1u64 << 40) as f64;

    /// With those of one more, if they tell the rate by themselves.
    #[must_use]
    pub fn and(mut self, totals: &Totals) -> Pool {
        if totals.is_known() {
            let Totals { sum, noise, weight, spread, count, size, squares } = *totals;
            self.0
                .iter_mut()
                .zip([sum, noise, weight, spread, count, size, squares])
                .for_each(|(to, x)| *to += (x * Self::ONE) as i128);
        }
        self
    }

    pub fn totals(self) -> Totals {
        let [sum, noise, weight, spread, count, size, squares] = self.0.map(|x| x as f64 / Self::ONE);
        Totals { sum, noise, weight, spread, count, size, squares }
    }
}

pub struct Pilot {
    /// Of all models together, of variance 1 in its moments.
    pub batch: Batch,
    /// Of |x|_1 over the open batch.
    pub size: f64,
}

impl Pilot {
    /// `variance` is that of the noise of a sum, in rewards.
    pub fn new(d: usize, intercept: i32, variance: f64) -> Result<Pilot> {
        let mut pilot = Pilot { batch: Batch::new(d, intercept)?, size: 0.0 };
        pilot.open(&Totals::default(), variance);
        Ok(pilot)
    }

    /// Opens a batch that is as large as all before.
    pub fn open(&mut self, totals: &Totals, variance: f64) {
        let first = (NOISE * NOISE * variance + COUNT * COUNT).sqrt();
        self.batch.open(Instrument::Rate, first.max(totals.count));
        self.size = 0.0;
    }

    /// Takes what the batch released.
    pub fn learn(&mut self, y: &[f64], variance: f64, totals: &mut Totals) {
        let d = self.batch.d();
        let squares: f64 = (1..d).map(|i| self.batch.moments[super::algebra::packed(i) + i]).sum();
        let n = self.batch.count as f64;
        let weight = n / (n + variance / GUESS);
        totals.sum += weight * y[0] * self.batch.unit() / Reward::ONE as f64;
        totals.noise += weight * weight * variance;
        totals.weight += weight * n;
        totals.spread += weight * weight * n;
        totals.count += n;
        totals.size += self.size;
        totals.squares += squares;
    }
}
