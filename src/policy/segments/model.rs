//! The shared model: estimates of each arm's rate, of each segment and of their spread, from all releases.

use super::{DEVIATIONS, Segments};
use crate::moving::persist;
use crate::policy::compare::Totals;
use crate::policy::prior::Prior;

/// The model of a segment, or of all segments together.
pub(super) struct SegmentRow {
    /// b, the segment's factor.
    pub scale: f64,
    /// Its squared deviations beyond those that noise explains.
    moments: Weighted,
}

/// The releases of an arm in a segment, or in all segments together.
#[derive(Default)]
pub(super) struct Cell {
    pub released: WeightedEvidence,
    /// The cell's estimate of its arm's rate, as it last entered [`Rate::evidence`].
    estimate: Weighted,
}

/// Evidence from releases: Z, W, the number of rewards, and the time to which they are discounted.
#[derive(Clone, Copy, Default)]
pub(super) struct WeightedEvidence {
    pub sum: f64,
    pub weight: f64,
    pub count: f64,
    pub time: u64,
}

/// A sum of estimates, each times its weight, which is the inverse of its variance, and the sum of the weights.
#[derive(Clone, Copy, Default)]
pub(super) struct Weighted {
    sum: f64,
    pub weight: f64,
}

/// The model of an arm's rate over all segments.
pub(super) struct Rate {
    /// r, the mean rate.
    pub mean: f64,
    /// Sum of the estimates of the arm's cells and of its active prior.
    pub evidence: Weighted,
    /// The prior, and the time when it was set.
    pub prior: Option<(Prior, u64)>,
    /// The part of the prior in `evidence`.
    active_prior: Weighted,
    /// All releases of the arm's trials, for [`Policy::sums`](crate::policy::Policy::sums).
    pub trials: Totals,
    /// The same of the peers' trials.
    pub others: Totals,
    /// Number of rewards for which the open batch of the arm's trial was opened, and of decisions that it still needs.
    pub opened: u32,
    pub left: u32,
}

/// The a priori 1/variance of ln r and of ln b: arms differ by a half, segments by a quarter.
const ARMS_ALIKE: f64 = 4.0;
const SEGMENTS_ALIKE: f64 = 15.0;
/// The a priori tau^2, its weight in moments, and the minimum of the estimate.
const SPREAD: f64 = 0.05;
const SPREAD_WEIGHT: f64 = 1000.0;
const LEAST_SPREAD: f64 = 0.02;
/// The a priori mean rate of all arms in all segments: clicks are rare.
pub(super) const RATE: f64 = 0.1;
/// Minimum of the arms' mean rate, as a part of the overall rate that determines the minimum batch.
const LEAST_MEAN: f64 = 0.1;
/// Number of half-lives in `forget_after`.
const HALF_LIVES: f64 = 4.0;
/// [`Segments::fit`] repeats over all rows until no rate changes by more than this part of it, because a segment's
/// estimate of its arms depends on the rates of the arms. Each round divides the remaining change by about three.
/// `ROUNDS` is the maximum.
const TOLERANCE: f64 = 1e-3;
const ROUNDS: usize = 64;

impl WeightedEvidence {
    /// Discounts the evidence to `now`.
    pub fn fade(&mut self, now: u64, half_life: f64) {
        if half_life.is_finite() && now > self.time {
            let discount = discount(now - self.time, half_life);
            (self.sum, self.weight, self.count) = (self.sum * discount, self.weight * discount, self.count * discount);
        }
        self.time = now;
    }

    /// Returns the estimate of a rate, and 1/variance of its logarithm, where `spread` is tau^2 and `expected` the
    /// expected rate.
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

    /// Replaces one of the estimates in the sum.
    fn replace(&mut self, before: &mut Weighted, now: Weighted) {
        self.sum += now.sum - before.sum;
        self.weight += now.weight - before.weight;
        *before = now;
    }

    /// Returns the mean, shrunk towards a value that has this weight.
    fn mean(self, towards: f64, weight: f64) -> f64 {
        (self.sum + towards * weight) / (self.weight + weight)
    }
}

/// Returns the time in which evidence loses half of its weight.
pub(super) fn half_life(forget_after: u64) -> f64 {
    if forget_after == 0 { f64::INFINITY } else { forget_after as f64 / HALF_LIVES }
}

/// Returns the weight that evidence of this age has kept: 1 if nothing is forgotten.
pub(super) fn discount(age: u64, half_life: f64) -> f64 {
    (-(age as f64) / half_life).exp2()
}

/// Clamps a rate to the range that the distributions allow.
pub(super) fn rate(x: f64) -> f64 {
    x.clamp(1e-6, 0.999)
}

impl SegmentRow {
    pub fn new() -> SegmentRow {
        SegmentRow { scale: 1.0, moments: Weighted::default() }
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
            others: Totals::NONE,
            opened: 0,
            left: 0,
        }
    }

    /// Returns the information of the releases in clicks without noise, plus one.
    pub fn clicks(&self) -> f64 {
        (self.evidence.weight - self.active_prior.weight).max(0.0) + 1.0
    }

    /// Updates the weight of the arm's prior. `largest` is the largest rate.
    fn weigh_prior(&mut self, largest: f64, decisions: u64, now: u64, half_life: f64) {
        let mut active = Weighted::default();
        if let Some((prior, time)) = self.prior {
            let (mean, weight) = (f64::from(prior.mean), f64::from(prior.strength) * self.mean);
            // The estimate of the cells without the prior, and the squared deviation between the two.
            let before = self.active_prior;
            let cells = Weighted { sum: self.evidence.sum - before.sum, weight: self.evidence.weight - before.weight };
            let distance = cells.sum / cells.weight - mean;
            let unsure = self.mean * self.mean * (1.0 / weight + 1.0 / cells.weight);
            if cells.weight > 0.0 && 0.5 * distance * distance > Prior::CONTRADICTION * unsure {
                self.prior = None;
            } else {
                // The evidence of one unit of weight against a rate as large as the largest, in nats.
                let ratio = (largest / mean.max(0.02 * largest)).max(1.0);
                let nats = ratio - 1.0 - ratio.ln();
                active.add(mean, discount(now - time, half_life) * weight.min(Prior::most(decisions) / nats.max(1e-9)));
            }
        }
        self.evidence.replace(&mut self.active_prior, active);
    }
}

impl Segments {
    /// Returns tau^2.
    pub(super) fn spread(&self) -> f64 {
        self.moments.mean(SPREAD, SPREAD_WEIGHT).max(LEAST_SPREAD)
    }

    /// Returns the mean of an arm's distribution in a segment, and the number of rewards that it is worth.
    pub(super) fn distribution(&self, row: usize, arm: usize) -> (f64, f64) {
        let (rate_of, scale) = (&self.rates[arm], self.rows[row].scale);
        let released = self.released(row, arm);
        let m = rate(scale * rate_of.mean);
        let unsure = self.spread() + 1.0 / (rate_of.evidence.weight + ARMS_ALIKE);
        let prior = ((1.0 - m) / (m * unsure) - 1.0).clamp(1.0, 1e7);
        let evidence = prior + released.weight;
        ((prior * m + released.sum) / evidence, evidence)
    }

    /// Returns the rate of an arm without evidence, which is RATE before the first release. It has a lower bound
    /// because first releases may be negative noise, which says that no arm is ever clicked. If the model believed
    /// that, later releases would have no weight, and it would never recover.
    pub(super) fn mean_rate(&self) -> f64 {
        let mut all = Weighted::default();
        for &arm in &self.order {
            let evidence = self.rates[arm as usize].evidence;
            all.sum += evidence.sum;
            all.weight += evidence.weight;
        }
        all.mean(RATE, 1e-9).max(LEAST_MEAN * DEVIATIONS * self.deviation / self.least_batch)
    }

    /// Computes an arm's rate from its evidence and the mean rate.
    pub(super) fn update_rate(&mut self, arm: usize, mean: f64) {
        let rate_of = &mut self.rates[arm];
        rate_of.mean = rate(rate_of.evidence.mean(mean, ARMS_ALIKE));
    }

    /// Computes the model anew from all releases, segments in the order of their keys and arms in the order of their
    /// ids, so that the result depends on nothing else. The caller has reserved the memory for the order of the
    /// segments.
    pub(super) fn fit(&mut self) {
        let Segments { order, by_key, ledger, .. } = self;
        // A function pointer, so that the library contains the code of one sort.
        let sort = |list: &mut [u32], key: &dyn Fn(u32) -> u64| list.sort_unstable_by_key(|&number| key(number));
        sort(order, &|arm| ledger.roster.id(arm as usize));
        by_key.clear();
        by_key.extend(0..ledger.keys.len() as u32);
        sort(by_key, &|segment| ledger.keys[segment as usize]);
        self.moments = Weighted::default();
        self.rows.iter_mut().for_each(|row| *row = SegmentRow::new());
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
            if moves.all(|part| part <= TOLERANCE) {
                break;
            }
        }
        self.plan();
        self.fitted = true;
    }

    /// Updates the model with the releases of a row, and then the trial.
    pub(super) fn learn(&mut self, row: usize) {
        self.fitted = false;
        self.update(row);
        self.plan();
    }

    /// Updates the model with the releases of a row.
    fn update(&mut self, row: usize) {
        let (spread, now) = (self.spread(), self.now());
        for arm in 0..self.rates.len() {
            self.cells[(row, arm)].released.fade(now, self.half_life);
            if let Some(cell) = self.peers.cells.get_mut(row, arm) {
                cell.fade(now, self.half_life);
            }
        }
        let (spread, segment) = if row == 0 {
            // The differences between segments average out over all segments together.
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
        let largest = self.ledger.roster.live().iter().map(|&arm| self.rates[arm as usize].mean).fold(0.0, f64::max);
        for rate in self.rates.iter_mut() {
            rate.weigh_prior(largest, self.ledger.facts.decisions, now, self.half_life);
        }
        let mean = self.mean_rate();
        (0..self.rates.len()).for_each(|arm| self.update_rate(arm, mean));
        if let Some(segment) = segment {
            self.contrast(row, segment);
        }
    }

    /// Computes the moments of a segment: each cell is compared with what the other cells and its arm predict.
    fn contrast(&mut self, row: usize, segment: Weighted) {
        let mut moments = Weighted::default();
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
            moments.add(deviation * deviation - noise, (0.1 + noise).powi(-2));
        }
        self.moments.replace(&mut self.rows[row].moments, moments);
    }
}

// The rest moves as a snapshot has it.
persist!(Rate { opened, left } made { mean, evidence, prior, active_prior, trials, others });
