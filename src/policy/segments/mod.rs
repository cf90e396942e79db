//! Segments: a bandit for each segment, and one model that all segments share.
//!
#![doc = include_str!("../../../docs/theory/segments.md")]

mod choose;
mod combine;
mod model;
pub mod peers;
mod persist;
pub mod policy;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::cells::Ledger;
use crate::ledger::facts::Share;
use crate::ledger::grid::Grid;
use crate::ledger::keys::Keys;
use crate::ledger::open::Batch;
use crate::memory::{WipedVec, try_with_capacity};
use crate::moving::persist;
use crate::noise::NoiseSource;
use crate::policy::batched::Explore;
use crate::policy::contract::Pull;
use crate::policy::cumulant::Cumulant;
use crate::policy::kl::kl;
use crate::policy::learner::AnyLearner;
use crate::random::Seed;
use crate::reward::Reward;
use model::{Cell, RATE, Rate, SegmentRow, Weighted, WeightedEvidence, half_life, rate};
use peers::{SegmentPeers, SegmentReleases, rounded};

type SegmentLedger = Ledger<Play, SegmentReleases>;

pub(crate) struct Segments {
    ledger: SegmentLedger,
    /// Arms of the configuration.
    configured: u32,
    /// Maximum number of segments.
    max_segments: u32,
    /// Number of cells of the configuration's arms. These cells have the numbers below it.
    configured_cells: u32,
    /// The current play of all segments together, then of each segment. A decision touches two cache lines: its
    /// segment's turn and its arm's play.
    turns: WipedVec<Turn>,
    rows: WipedVec<SegmentRow>,
    cells: Grid<Cell>,
    rates: WipedVec<Rate>,
    explore: Explore,
    /// An index or a mean, and its arm, for the current request. Capacity for all arms.
    ranks: Vec<(f64, u32)>,
    /// Arms in the order in which the model adds them up: sorted by id when it was last fitted, then newer ones.
    order: Vec<u32>,
    /// Segments, sorted by key when the model was last fitted.
    by_key: Vec<u32>,
    /// Sum of the rows' moments, from which tau^2 is estimated.
    moments: Weighted,
    /// Evidence from all releases, discounted to `time`.
    all: WeightedEvidence,
    pub peers: SegmentPeers,
    /// Standard deviation of the noise, in rewards.
    deviation: f64,
    /// Time in which evidence loses half of its weight.
    half_life: f64,
    /// Minimum number of rewards in a batch, from the current releases.
    least_batch: f64,
    /// Row that was last updated without a release of its own.
    cursor: usize,
    /// Whether the model is what [`fit`](Self::fit) computes from the current releases.
    fitted: bool,
    /// Whether all segments together try an arm, which is `turns[0].best`; and the rule by which it was chosen.
    trial: bool,
    rule: TrialRule,
}

/// Which arms are to be tried, by the releases and the time of the last plan.
#[derive(Default)]
struct TrialRule {
    /// R, the largest rate.
    largest: f64,
    /// Maximum index of an arm that is tried.
    most: f64,
    /// Number of clicks from which on an arm is known.
    enough: f64,
}

impl TrialRule {
    /// Returns an arm's index if it is to be tried. `ratio` is the largest rate as a multiple of this one; with values, the
    /// same for values times rates.
    fn index(&self, rate: &Rate, ratio: f64) -> Option<f64> {
        let against = TRIAL_CAUTION * (rate.evidence.weight.max(0.0) + 1.0) * (ratio - 1.0 - ratio.ln());
        let index = against + rate.clicks().ln();
        (rate.clicks() < self.enough && index <= self.most).then_some(index)
    }
}

/// What a segment, or all segments together, plays now.
#[derive(Default)]
struct Turn {
    /// Decisions of this handle.
    decisions: u64,
    /// Decisions until arms are compared again, and the arm to play until then.
    left: u32,
    best: u32,
}

/// The part of a cell that a decision changes. It is half a cache line long and aligned, so it lies in one.
#[derive(Default)]
#[repr(align(32))]
pub(crate) struct Play {
    batch: Batch,
    /// Decisions that were neither cancelled nor expired, including those that learned in a trial.
    pulls: u64,
}

/// The first c is this plus 1. A segment has half of it left after [`PATIENCE`] times the minimum batch for each arm.
/// With c = 1 from the start, segments with few decisions lost a quarter more than with 4, when batches were smaller
/// (40 worlds, 2,000 decisions a segment: 17.6 instead of 14.3% of uniform play at eps 1, tau .2; 44.3 instead of 35.7
/// at eps .25, tau .5). From 4 to 6 little changes. With a patience of 30, the loss after 40,000 decisions is 5.1
/// instead of 5.4% at eps 1, tau .2, but five of 100 worlds instead of three lose more than a quarter at eps .25.
const CAUTION: f64 = 5.0;
const PATIENCE: f64 = 100.0;
/// Minimum expected sum of a batch, in standard deviations of the noise. With 1, and 2 in a trial, a release is mostly
/// noise if epsilon is small, and the loss is a tenth larger (100 worlds, eps .25, tau .2: 10.8 instead of 9.7% of
/// uniform play).
const DEVIATIONS: f64 = 4.0;
/// c in the comparison of arms over all segments together. With 4, and twice the minimum batch, the loss is 1 to 9%
/// smaller (60 worlds), but first releases with negative noise and wrong priors hide arms for long: with priors in
/// reverse of strength 2^24 a world loses 72% of uniform play at eps 1, instead of 24%.
const TRIAL_CAUTION: f64 = 2.0;
/// An arm is known once all segments together know its rate as well as this many cells with unlimited evidence would.
const KNOWN: f64 = 4.0;
/// 2^64 over the golden ratio. Its multiples are evenly spread, also along any arithmetic progression, so a segment
/// whose requests are periodic neither escapes trials nor bears all of them.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Whether a decision is part of a trial of all segments together.
#[inline]
fn is_trial(pull: Pull) -> bool {
    pull.arm() & 1 == 0
}

/// With one order for all, the library contains the code of one selection.
fn by_index(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// Returns the arm with the smallest index.
fn smallest(indices: impl Iterator<Item = (f64, u32)>) -> Option<u32> {
    indices.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, arm)| arm)
}

impl Segments {
    /// Maximum number of arms times segments.
    pub const MOST_CELLS: u64 = 1 << 27;

    /// Returns a policy without segments. It reserves address space for all of them. On most systems a segment takes
    /// memory only when it is added: 80 bytes for each arm, and 64.
    ///
    /// # Errors
    /// `InvalidConfig`, also for `max_segments` with more than 2^27 cells; `NoMemory`.
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Segments> {
        let max_segments = config.max_segments;
        let fits = (u64::from(max_segments) + 1) * u64::from(config.arms) <= Self::MOST_CELLS;
        Error::unless(fits, "max_segments", "must be 2^27 arms in all segments at most", max_segments)?;
        let noise = config.noise()?;
        let (arms, rows) = (config.arms as usize, max_segments as usize + 1);
        let (ranks, mut order) = (try_with_capacity(arms)?, try_with_capacity(arms)?);
        order.extend(0..config.arms);
        let mut segments = Segments {
            configured: config.arms,
            max_segments,
            configured_cells: config.arms * max_segments,
            turns: WipedVec::try_with_capacity(rows)?,
            rows: WipedVec::try_with_capacity(rows)?,
            cells: Grid::try_new(arms, rows)?,
            rates: WipedVec::new(arms, |_| Rate::new())?,
            ranks,
            order,
            by_key: Vec::new(),
            moments: Weighted::default(),
            all: WeightedEvidence::default(),
            peers: SegmentPeers::default(),
            deviation: noise.variance().sqrt() / Reward::ONE as f64,
            ledger: Ledger::new(config, Grid::try_new(arms, rows)?, NoiseSource::new(noise, seed.stream()))?,
            explore: Explore::new(config, seed),
            half_life: half_life(config.forget_after),
            least_batch: 0.0,
            cursor: 0,
            fitted: false,
            trial: false,
            rule: TrialRule::default(),
        };
        segments.ledger.keys = Keys::try_with_capacity(max_segments as usize)?;
        segments.least_batch = segments.size_of_least_batch();
        segments.push_row();
        segments.plan();
        Ok(segments)
    }

    /// The current time on the configuration's clock.
    fn now(&self) -> u64 {
        self.ledger.facts.now()
    }

    /// Whether anything is known but the model's first guess.
    fn has_released(&self) -> bool {
        self.all.count + self.peers.all.count != 0.0
    }

    fn push_row(&mut self) {
        self.turns.push(Turn::default());
        self.rows.push(SegmentRow::new());
        self.ledger.cells.push_row();
        self.cells.push_row();
    }

    /// Adds a segment, within the capacity, and returns its number. The segment begins with what peers have released of
    /// `key`.
    #[cold]
    fn add_segment(&mut self, key: u64) -> u32 {
        self.row(key).map_or(0, |row| row as u32 - 1)
    }

    /// Number of arms, including retired ones.
    pub fn arms(&self) -> u32 {
        self.rates.len() as u32
    }

    /// Counts decisions in a segment.
    #[inline]
    fn count(&mut self, own: usize, decisions: u64) {
        self.ledger.facts.decisions += decisions;
        self.turns[own].decisions += decisions;
    }

    /// Plays an arm in a segment. A decision in a trial has phase 0 and twice its cell's number; any other has phase 1
    /// and that number plus one.
    #[inline]
    fn pull(&mut self, segment: u32, row: usize, arm: u32, propensity: f64) -> Pull {
        let (own, number) = (u32::from(row > 0), self.number(segment, arm));
        self.own_play(number).pulls += 1;
        Pull::new(2 * number + own, own, propensity)
    }

    /// Returns the number of a cell, which does not change when arms are added: first the cells of the configuration's
    /// arms, segment by segment, then those of each added arm.
    #[inline]
    fn number(&self, segment: u32, arm: u32) -> u32 {
        if arm < self.configured { segment * self.configured + arm } else { arm * self.max_segments + segment }
    }

    /// Returns the segment and the arm of the cell with this number.
    #[inline]
    fn cell_of(&self, number: u32) -> (usize, usize) {
        let by = if number < self.configured_cells { self.configured } else { self.max_segments };
        let (quotient, rest) = ((number / by) as usize, (number % by) as usize);
        if number < self.configured_cells { (quotient, rest) } else { (rest, quotient) }
    }

    /// Returns the play of the cell with this number.
    #[inline]
    fn own_play(&mut self, number: u32) -> &mut Play {
        if number < self.configured_cells {
            return self.ledger.cells.base_mut((number + self.configured) as usize);
        }
        let (segment, arm) = self.cell_of(number);
        &mut self.ledger.cells[(segment + 1, arm)]
    }

    /// Returns the number of rewards whose expected sum is [`DEVIATIONS`] standard deviations of the noise.
    fn size_of_least_batch(&self) -> f64 {
        let floor = std::f64::consts::SQRT_2 * self.deviation;
        let (sum, count) = (self.all.sum + self.peers.all.sum, self.all.count + self.peers.all.count);
        let rate = (sum + 0.5).max(floor) / (count + 0.5 / RATE);
        (DEVIATIONS * self.deviation / rate.min(1.0)).ceil()
    }

    fn open(&mut self, row: usize, arm: usize) {
        let size = self.ledger.facts.quota(self.size(row, arm));
        if row == 0 {
            self.rates[arm].opened = size as u32;
            self.rates[arm].left = self.part(self.size(row, arm));
        }
        self.ledger.cells[(row, arm)].batch = Batch::open(size);
    }

    fn ensure_open(&mut self, row: usize, arm: usize) {
        if self.ledger.cells[(row, arm)].batch.quota() == 0 {
            self.open(row, arm);
        }
    }

    /// Opens a batch, or lowers the quota of the open one if the size is smaller now: it was opened with more evidence
    /// and would take too long. Returns the number of rewards that the batch still needs.
    fn open_as_now(&mut self, row: usize, arm: usize) -> u64 {
        self.ensure_open(row, arm);
        let size = self.size(row, arm);
        if self.ledger.facts.duty().contributes() {
            return size;
        }
        let batch = &mut self.ledger.cells[(row, arm)].batch;
        batch.lower(size);
        batch.free()
    }

    /// Returns the size of a cell's next batch, from the current releases.
    fn size(&self, row: usize, arm: usize) -> u64 {
        let half = 0.5 * self.released(row, arm).count;
        // Each active handle takes its part of the half. Its part of the minimum batch is such that the batches of all
        // handles together expect as many deviations of their total noise. The size does not depend on the arm's own
        // mean, so an arm whose first release is negative noise does not wait for the next one indefinitely.
        // Handles that share each batch compute the size of the whole.
        let Share { divides, limit, .. } = self.ledger.facts.share();
        let part = (half / divides).min(limit);
        (part.max(self.least_batch / divides.sqrt()).ceil() as u64).clamp(1, Batch::MAX_QUOTA)
    }

    /// Returns this handle's part of the decisions that a batch needs.
    fn part(&self, size: u64) -> u32 {
        (size as f64 / f64::from(self.ledger.facts.share().sharers)).ceil().max(1.0) as u32
    }

    /// Makes `best` the arm that a row plays.
    fn turn(&mut self, row: usize, best: u32) {
        let size = self.open_as_now(row, best as usize);
        self.turns[row].best = best;
        *self.left(row, best) = self.part(size);
    }

    /// Decides whether all segments together try an arm, and which.
    fn plan(&mut self) {
        let rates = || self.ledger.roster.live().iter().map(|&arm| (arm, &self.rates[arm as usize]));
        let (_, leader) = rates().max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean)).expect("an arm");
        let largest = leader.mean;
        let clicks =
            largest * self.ledger.facts.time.decisions_in(self.half_life).min(self.ledger.facts.decisions as f64);
        let most = leader.clicks().max(clicks).ln();
        let enough = 1.0 / (self.spread() * (1.0 / KNOWN + 1.0 / self.together()));
        let rule = TrialRule { largest, most, enough };
        let tried = smallest(rates().filter_map(|(arm, rate)| Some((rule.index(rate, largest / rate.mean)?, arm))));
        self.rule = rule;
        let was_tried = self.trial.then_some(self.turns[0].best);
        self.trial = tried.is_some();
        if let Some(arm) = tried.filter(|_| tried != was_tried) {
            self.turn(0, arm);
        }
    }

    /// Returns the number of segments, here or at the peer that has the most.
    fn together(&self) -> f64 {
        (self.rows.len() - 1).max(self.peers.segments).max(1) as f64
    }

    /// Returns c in a segment.
    fn caution(&self, row: usize) -> f64 {
        let arms = self.ledger.roster.live().len() as f64;
        1.0 + CAUTION / (1.0 + self.decisions(row) / (PATIENCE * arms * self.least_batch))
    }

    /// Returns an arm's index in a segment, with `leading` as the largest mean.
    fn index(&self, row: usize, arm: u32, leading: f64, caution: f64) -> f64 {
        let (mean, evidence) = self.distribution(row, arm as usize);
        let against = if mean < leading { kl(mean, leading) } else { 0.0 };
        caution * evidence * against + evidence.ln()
    }

    /// Returns the arm with the smallest index among these, in the segment's own row.
    fn least(&self, row: usize, arms: &[u32]) -> u32 {
        let caution = self.caution(row);
        let largest = arms.iter().map(|&arm| self.distribution(row, arm as usize).0).fold(0.0, f64::max);
        smallest(arms.iter().map(|&arm| (self.index(row, arm, largest, caution), arm))).unwrap_or(0)
    }

    /// Returns the releases of a cell, here and at peers, discounted to now.
    fn released(&self, row: usize, arm: usize) -> WeightedEvidence {
        let [mut here, mut all] = [self.cells[(row, arm)].released, self.peers.released(row, arm)];
        here.fade(self.now(), self.half_life);
        all.fade(self.now(), self.half_life);
        all.add(rounded(here), 1.0); // as at a peer that merges it
        all
    }

    /// Releases a full batch. This is the only place where rewards become public.
    fn release_cell(&mut self, row: usize, arm: usize) {
        self.ledger.facts.time.learn();
        let now = self.now();
        let expected = rate(self.rows[row].scale * self.rates[arm].mean);
        let released = self.ledger.cells[(row, arm)].batch.release(&mut self.ledger.noise);
        let count = released.count as f64;
        let weight = 1.0 / (1.0 + self.deviation * self.deviation / (count * expected * (1.0 - expected)));
        let cell = &mut self.cells[(row, arm)];
        cell.released.fade(now, self.half_life);
        cell.released.sum += weight * released.sum.clamp(0.0, count);
        cell.released.weight += weight * count;
        cell.released.count += count;
        if row == 0 {
            let (rate, distribution) = (&mut self.rates[arm], Cumulant::of(&self.ledger.noise.distribution()));
            rate.trials.release_as(f64::from(rate.opened), count, 0.0, released.sum, distribution);
        }
        self.all.fade(now, self.half_life);
        self.all.sum += released.sum;
        self.all.count += count;
        self.peers.all.fade(now, self.half_life);
        self.least_batch = self.size_of_least_batch();
        self.ledger.facts.release(released.count);
        self.open(row, arm);
        self.turns[row].left = 0;
        self.trial &= row > 0 || self.turns[0].best != arm as u32;
        self.learn(row);
        // A row's part of the model depends on later releases of other rows, and fades. So each release also updates
        // one row in turn.
        self.cursor = (self.cursor + 1) % self.rows.len();
        self.learn(self.cursor);
    }
}

persist!(Play { batch, pulls });
// The rest moves as a snapshot has it.
persist!(Turn { left, best } made { decisions });
