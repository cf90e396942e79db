//! The pilot: the plain sum of rewards, until the rate is known.

use super::batch::{Batch, Instrument};
use super::model::Prior;
use crate::error::Result;
use crate::reward::Reward;

/// It ends when the released sum is so many deviations of its noise, beside
const NOISE: f64 = 6.0;
/// so many of a count of rare rewards: then the rate is known to a quarter of itself. (Noise alone must not decide:
/// without any, the first click would be a rate. Four deviations of noise would do for that quarter, but one run in
/// 500 at epsilon = .1 would believe a burst of it, a rate ten times too large, and lose a fifth or more for good; of
/// six it is one in 10^4.)
const COUNT: f64 = 4.0;

pub struct Pilot {
    /// Of all models together, of variance 1 in its moments.
    pub batch: Batch,
    /// Released, in rewards.
    pub sum: f64,
    pub count: f64,
    pub releases: f64,
    /// Of |x|_1 over rewards, in units of C.
    pub size: f64,
}

impl Pilot {
    /// `deviation` is that of the noise of a sum, in rewards.
    pub fn new(d: usize, intercept: i32, deviation: f64) -> Result<Pilot> {
        let mut batch = Batch::new(d, intercept)?;
        batch.open(Instrument::Rate, (NOISE * NOISE * deviation * deviation + COUNT * COUNT).sqrt());
        Ok(Pilot { batch, sum: 0.0, count: 0.0, releases: 0.0, size: 0.0 })
    }

    /// Takes what the batch released. True when the rate is known; else a batch as large as all before is open.
    pub fn learn(&mut self, y: &[f64], deviation: f64) -> bool {
        self.sum += y[0] * self.batch.unit() / Reward::ONE as f64;
        self.count += self.batch.count as f64;
        self.releases += 1.0;
        let noise = NOISE * NOISE * deviation * deviation * self.releases;
        let enough = self.sum > 0.0 && self.sum * self.sum >= noise + COUNT * COUNT * self.sum;
        if !enough {
            self.batch.open(Instrument::Rate, self.count);
        }
        enough
    }

    /// The rate, two deviations above what was measured. A Newton step from a rate that is too small goes too far: at a
    /// third of it a run in four never recovers. One from a rate that is three times too large costs a tenth more.
    pub fn rate(&self, deviation: f64) -> f64 {
        let variance = deviation * deviation * self.releases + self.sum;
        let above = self.sum + 2.0 * variance.sqrt();
        (above / self.count).clamp(1e-6, 0.9)
    }

    /// What is believed from now on: logits of deviation 1, of the intercept and of all features together.
    pub fn prior(&self, rate: f64, intercept: f64) -> Prior {
        let d = self.batch.d();
        let squares: f64 = (1..d).map(|i| self.batch.moments[super::algebra::packed(i) + i]).sum();
        let precision = (squares / self.batch.count as f64).max(1e-4);
        Prior {
            intercept: libm::log(rate / (1.0 - rate)) / intercept,
            intercept_precision: intercept * intercept,
            precision,
        }
    }
}
