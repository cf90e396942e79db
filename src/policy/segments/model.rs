//! The model that segments share: what all releases say of each arm's rate, of each segment and of their spread.

use super::{DEVIATIONS, Segments};
#[cfg(dpb_faults)]
use crate::noise::probe;
use crate::policy::batched::Totals;
use crate::policy::prior::Prior;

/// What is known of a segment, or of all together.
pub(super) struct Row {
    /// b.
    pub scale: f64,
    moments: Moments,
}

/// What is known of an arm in a segment, or in all.
#[derive(Default)]
pub(super) struct Cell {
    pub released: WeightedEvidence,
    /// What it says of its arm's rate, as it last entered [`Rate::evidence`].
    estimate: Weighted,
}

/// Releases: Z, W, the number of rewards, and the time at which these hold.
#[derive(Clone, Copy, Default)]
pub(super) struct WeightedEvidence {
    pub sum: f64,
    pub weight: f64,
    pub count: f64,
    pub time: u64,
}

/// A sum of estimates, each times the inverse of its variance, and the sum of these inverses.
#[derive(Clone, Copy, Default)]
pub(super) struct Weighted {
    sum: f64,
    pub weight: f64,
}

/// What is known of an arm in all segments.
pub(super) struct Rate {
    /// r.
    pub mean: f64,
    /// The estimates of its cells and its active prior.
    pub evidence: Weighted,
    /// What public data say, and since when.
    pub prior: Option<(Prior, u64)>,
    /// The prior as it last entered the evidence.
    active_prior: Weighted,
    /// All releases of the arm's trials, for [`Segments::sums`].
    pub trials: Totals,
    /// Rewards that the open batch of its trials was opened for.
    pub opened: u32,
    /// False once the arm is retired.
    pub live: bool,
}

/// Squared deviations beyond what noise explains, and how many they count for.
#[derive(Clone, Copy, Default)]
pub(super) struct Moments {
    excess: f64,
    weight: f64,
}

/// 1/variance of ln r and of ln b before anything is known: arms differ by a half, segments by a quarter.
const ARMS_ALIKE: f64 = 4.0;
const SEGMENTS_ALIKE: f64 = 15.0;
/// tau^2 before anything is known, for as much as so many moments say, and the least that it is taken for.
const SPREAD: f64 = 0.05;
const SPREAD_WEIGHT: f64 = 1000.0;
const LEAST_SPREAD: f64 = 0.02;
/// Of all arms in all segments, before anything is known: clicks are rare.
pub(super) const RATE: f64 = 0.1;
/// What arms have on average, at least, in parts of the overall rate as batches are measured with it.
const LEAST_MEAN: f64 = 0.1;
/// `forget_after` has four half-lives.
const HALF_LIVES: f64 = 4.0;
/// [`Segments::fit`] goes through all rows until no rate moves by more than this part of it: what a segment says of its arms
/// depends on what the arms are like. Each time divides what is left by about three; so often at most.
const SETTLED: f64 = 1e-3;
const ROUNDS: usize = 64;

impl WeightedEvidence {
    /// What it counts at this time.
    pub fn fade(&mut self, now: u64, half_life: f64) {
        if half_life.is_finite() && now > self.time {
            let discount = (-((now - self.time) as f64) / half_life).exp2();
            (self.sum, self.weight, self.count) = (self.sum * discount, self.weight * discount, self.count * discount);
        }
        self.time = now;
    }

    /// Its estimate of a rate, and 1/variance of the logarithm of that, given tau^2 and what is expected.
    fn estimate(&self, expected: f64, spread: f64) -> Option<(f64, f64)> {
        let successes = self.weight * expected;
        (successes > 0.0).then(|| (self.sum / self.weight, 1.0 / (spread + 1.0 / successes)))
    }
}

impl Weighted {
    fn add(&mut self, estimate: f64, weight: f64) {
        self.sum += estimate * weight;
        self.weight += weight;
    }

    /// One of the estimates in it is now another one.
    fn replace(&mut self, before: &mut Weighted, now: Weighted) {
        self.sum += now.sum - before.sum;
        self.weight += now.weight - before.weight;
        *before = now;
    }

    /// Shrunk towards a mean that weighs as much.
    fn mean(self, towards: f64, weight: f64) -> f64 {
        (self.sum + towards * weight) / (self.weight + weight)
    }
}

/// The time after which evidence counts half.
pub(super) fn half_life(forget_after: u64) -> f64 {
    if forget_after == 0 { f64::INFINITY } else { forget_after as f64 / HALF_LIVES }
}

/// A rate that distributions can have.
pub(super) fn rate(x: f64) -> f64 {
    x.clamp(1e-6, 0.999)
}

impl Row {
    pub fn new() -> Row {
        Row { scale: 1.0, moments: Moments::default() }
    }
}

impl Rate {
    pub fn new() -> Rate {
        let nothing = Weighted::default();
        Rate {
            mean: RATE,
            evidence: nothing,
            prior: None,
            active_prior: nothing,
            trials: Totals::NONE,
            opened: 0,
            live: true,
        }
    }

    /// What releases say of it, in clicks without noise, and one.
    pub fn clicks(&self) -> f64 {
        (self.evidence.weight - self.active_prior.weight).max(0.0) + 1.0
    }

    /// Brings the weight of its prior up to date. `largest` is the largest rate.
    fn weigh_prior(&mut self, largest: f64, decisions: u64, now: u64, half_life: f64) {
        let mut active = Weighted::default();
        if let Some((prior, time)) = self.prior {
            let (mean, strength) = (f64::from(prior.mean), f64::from(prior.strength));
            let mut evidence = WeightedEvidence { sum: mean * strength, weight: strength, count: strength, time };
            evidence.fade(now, half_life);
            let weight = evidence.weight * self.mean;
            // What cells say without it, and how far the two are from each other, in squared deviations.
            let before = self.active_prior;
            let cells = Weighted { sum: self.evidence.sum - before.sum, weight: self.evidence.weight - before.weight };
            let distance = cells.sum / cells.weight - mean;
            let unsure = self.mean * self.mean * (1.0 / weight + 1.0 / cells.weight);
            if cells.weight > 0.0 && 0.5 * distance * distance > Prior::CONTRADICTION * unsure {
                self.prior = None;
            } else {
                // The nats that one unit of weight has against theta being as large.
                let ratio = (largest / mean.max(0.02 * largest)).max(1.0);
                let nats = ratio - 1.0 - ratio.ln();
                active.add(mean, weight.min(Prior::most(decisions) / nats.max(1e-9)));
            }
        }
        self.evidence.replace(&mut self.active_prior, active);
    }
}

impl Segments {
    /// tau^2.
    pub(super) fn spread(&self) -> f64 {
        let excess = self.moments.excess + SPREAD * SPREAD_WEIGHT;
        (excess / (self.moments.weight + SPREAD_WEIGHT)).max(LEAST_SPREAD)
    }

    /// The distribution of an arm's rate in a segment: its mean, and the rewards that it is worth.
    pub(super) fn distribution(&self, row: usize, arm: usize) -> (f64, f64) {
        let (rate_of, scale) = (&self.rates[arm], self.rows[row].scale);
        let released = self.released(row, arm);
        let m = rate(scale * rate_of.mean);
        let unsure = self.spread() + 1.0 / (rate_of.evidence.weight + ARMS_ALIKE);
        let prior = ((1.0 - m) / (m * unsure) - 1.0).clamp(1.0, 1e7);
        let evidence = prior + released.weight;
        ((prior * m + released.sum) / evidence, evidence)
    }

    /// The rate of an arm of which nothing is known. RATE until anything is known. First releases that are noise below 0
    /// say that no arm is ever clicked; where that is believed, those that follow weigh nothing, and it stays.
    pub(super) fn mean_rate(&self) -> f64 {
        let mut all = Weighted::default();
        for &arm in &self.order {
            let evidence = self.rates[arm as usize].evidence;
            all.sum += evidence.sum;
            all.weight += evidence.weight;
        }
        let mean = (all.sum + RATE * 1e-9) / (all.weight + 1e-9);
        mean.max(LEAST_MEAN * DEVIATIONS * self.deviation / self.least_batch)
    }

    /// An arm's rate, from its evidence and the mean rate.
    pub(super) fn update_rate(&mut self, arm: usize, mean: f64) {
        let rate_of = &mut self.rates[arm];
        rate_of.mean = rate(rate_of.evidence.mean(mean, ARMS_ALIKE));
    }

    /// Computes the model anew from all that is known, segments in the order of their keys and arms in that of their ids:
    /// what it says then depends on nothing else. There is capacity for the order of the segments.
    pub(super) fn fit_in_order(&mut self) {
        self.moments = Moments::default();
        self.rows.iter_mut().for_each(|row| *row = Row::new());
        for row in 0..self.rows.len() {
            (0..self.rates.len()).for_each(|arm| self.cells[(row, arm)].estimate = Weighted::default());
        }
        for rate in &mut *self.rates {
            (rate.mean, rate.evidence, rate.active_prior) = (RATE, Weighted::default(), Weighted::default());
        }
        for _ in 0..ROUNDS {
            self.ranks.clear();
            self.ranks.extend(self.rates.iter().map(|rate| (rate.mean, 0)));
            self.update(0);
            (0..self.by_key.len()).for_each(|place| self.update(self.by_key[place] as usize + 1));
            let mut moves = self.rates.iter().zip(&self.ranks).map(|(rate, before)| (rate.mean / before.0 - 1.0).abs());
            if moves.all(|part| part <= SETTLED) {
                break;
            }
        }
        self.plan();
        self.fitted = true;
    }

    /// Brings the model up to date with what a row has released, and the trial with the model.
    pub(super) fn learn(&mut self, row: usize) {
        self.fitted = false;
        self.update(row);
        self.plan();
    }

    /// Brings the model up to date with what a row has released.
    fn update(&mut self, row: usize) {
        let (spread, now) = (self.spread(), self.now());
        for arm in 0..self.rates.len() {
            self.cells[(row, arm)].released.fade(now, self.half_life);
        }
        self.peers.fade(row, now, self.half_life);
        let (spread, segment) = if row == 0 {
            // All together: the segments' differences cancel as far as they are many.
            (spread / self.together(), None)
        } else {
            let mut segment = Weighted::default();
            for &arm in &self.order {
                let (rate, released) = (&self.rates[arm as usize], self.released(row, arm as usize));
                if let Some((estimate, weight)) = released.estimate(self.rows[row].scale * rate.mean, spread) {
                    segment.add(estimate / rate.mean, weight);
                }
            }
            self.rows[row].scale = segment.mean(1.0, SEGMENTS_ALIKE).clamp(0.05, 20.0);
            (spread, Some(segment))
        };
        let scale = self.rows[row].scale;
        for arm in 0..self.rates.len() {
            let released = self.released(row, arm);
            let (cell, rate) = (&mut self.cells[(row, arm)], &mut self.rates[arm]);
            let mut now = Weighted::default();
            if let Some((estimate, weight)) = released.estimate(scale * rate.mean, spread) {
                now.add(estimate / scale, weight);
            }
            rate.evidence.replace(&mut cell.estimate, now);
        }
        let live = self.rates.iter().filter(|rate| rate.live);
        let largest = live.map(|rate| rate.mean).fold(0.0, f64::max);
        #[cfg_attr(not(dpb_faults), allow(clippy::unused_enumerate_index))]
        for (_arm, rate) in self.rates.iter_mut().enumerate() {
            #[cfg(dpb_faults)]
            let largest = largest
                + probe::glimpse(|| (0..self.rows.len()).map(|row| self.plays[(row, _arm)].batch.bare_sum()).sum());
            rate.weigh_prior(largest, self.decisions, now, self.half_life);
        }
        let mean = self.mean_rate();
        (0..self.rates.len()).for_each(|arm| self.update_rate(arm, mean));
        if let Some(segment) = segment {
            self.contrast(row, segment);
        }
    }

    /// Each cell of a segment with what its others and its arm say: its part in the moments.
    fn contrast(&mut self, row: usize, segment: Weighted) {
        let mut moments = Moments::default();
        for &arm in &self.order {
            let (arm, rate_of) = (arm as usize, &self.rates[arm as usize]);
            let own = self.cells[(row, arm)].estimate.weight;
            if own == 0.0 {
                continue;
            }
            let released = self.released(row, arm);
            let estimate = released.sum / released.weight / rate_of.mean;
            let weight = (segment.weight - own).max(0.0);
            let others = Weighted { sum: segment.sum - own * estimate, weight };
            let expected = rate(others.mean(1.0, SEGMENTS_ALIKE).clamp(0.05, 20.0) * rate_of.mean);
            let noise = (1.0 - expected) / (released.weight * expected)
                + 1.0 / (weight + SEGMENTS_ALIKE)
                + 1.0 / (rate_of.evidence.weight + ARMS_ALIKE);
            let deviation = released.sum / (released.weight * expected) - 1.0;
            let weight = (0.1 + noise).powi(-2);
            moments.excess += weight * (deviation * deviation - noise);
            moments.weight += weight;
        }
        let before = std::mem::replace(&mut self.rows[row].moments, moments);
        self.moments.excess += moments.excess - before.excess;
        self.moments.weight += moments.weight - before.weight;
    }
}
