//! Segments: a bandit for each, that lend each other what they know.
//!
//! A *segment* (placement, country, hour) is public, and a *cell* is an arm in a segment.
//!
//! **Pure eps-DP**, or rho-zCDP with delta > 0, by Theorem P of [`crate::privacy`], however many segments there are: an
//! answered reward enters one open batch, that of its cell or of its arm in all segments together; which of the two,
//! and how large batches are, are functions of releases, coins and public counts of decisions; a batch is released
//! once, when full; all else is computed from releases.
//!
//! **The model.** The rate of arm a in segment s is b_s r_a e^x, x of variance tau^2. A release of n rewards with the
//! noised sum y enters the cell's Z and W with the weight w = 1/(1 + V/(n m (1 - m))), V the noise's variance
//! and m = b_s r_a: the share of the reward's own variance in all. So Z/W estimates the rate about as well as W rewards
//! without noise. What a cell says of its segment or arm has the variance tau^2 + 1/(W m), so b and r are means with these
//! variances' inverses as weights, shrunk: arms differ by a half of their rate a priori, segments by a quarter. tau^2 is
//! fitted by moments: cells against what the others of their segment say. All of it is brought up to date where
//! there was a release, O(arms).
//!
//! **The policy in a segment.** IMED (Honda and Takemura 2015) with what the model says as evidence: an arm's law in a
//! segment is Beta(n0 m + Z, n0 (1 - m) + W - Z) with n0 = (1 - m)/(m (tau^2 + v)) - 1, v the variance of ln r_a. With p
//! its mean, n the sum of its two numbers and q the largest mean, the segment plays the arm with the least
//! c n kl(p, q) + ln n until its batch is full. In IMED c = 1. Few segments live long enough for all that this would try
//! in each of them, so here c is 4 at first and falls to 1 as a segment lives. A batch has half as many rewards as its
//! cell has seen (a part of that, where [others] share the work) and n0/4 more, four first batches at most: a smaller one
//! changes little of what the model says. Its expected sum is at least one deviation of the noise, and two in a trial.
//!
//! **Trials.** One segment gains little from trying an arm, all segments together gain much. So all segments make a
//! trial together, and IMED over the arms' rates decides on it. With k = 1 + 1/v and R the largest rate, arm a has the
//! index 2 k (R/r_a - 1 - ln(R/r_a)) + ln k: the nats that a Gamma law has against a rate of R, and the logarithm of the
//! clicks behind it. The arm with the least index is tried if this is at most ln(R t), t the decisions so far, or ln k of
//! the leader. An arm is known, and not tried, once 1/v >= 1/(tau^2 (1/4 + 1/S)) with S segments: then the segments
//! themselves can judge what is left. A trial takes all decisions until as many were made as its batch wants; while their
//! rewards are outstanding it takes every eighth. So a pool begins as one bandit for all, a new segment begins with what
//! the pool knows, and a segment plays for itself as soon as there is nothing to learn together.
//!
//! A *prior* of an arm's rate counts there as a release without noise, as far as [`prior`](crate::policy::prior) lets it
//! speak: against the largest rate with a quarter of ln t nats, and no more once the cells' estimates contradict it.
//! Twice that is less than ln(R t) soon, so an arm is tried whatever its prior and that prior's strength.
//!
//! **Measured** (tests/segments.rs, `no_reversed_prior_locks_an_ad_out`: 100 segments, 10 ads of 3%, 10,000 decisions a
//! segment, tau .2, 100 worlds; lost, in % of uniform play). Without a prior, and with the rates in reverse as 300 rewards
//! and as 2^24: at eps 1 7.1, 6.8 and 7.6, and 1, 1 and 0 worlds lose more than 25; at eps .25 10.5, 10.0 and 11.3, and
//! 6, 6 and 6 worlds do. Without a prior at eps 20 it is 6.5, and 1 of 200. No run loses more than 39. 50 ads of .5 to
//! 3% at eps .25, 40 worlds: 37.5 with tau .2 and 43.7 with .35, where one bandit for all loses 38.0 and 53.6.
//!
//! With a memory M all of a cell's evidence halves every M/4 decisions, and falls back to what the model says of it.
//!
//! Cost: select and update O(1), a batch's end O(arms).

pub mod keyed;
pub mod others;

use crate::batch::Batch;
use crate::config::Config;
use crate::error::Result;
use crate::noise::NoiseSource;
#[cfg(feature = "test-hooks")]
use crate::noise::hand::{self, Fault};
use crate::policy::batched::loss;
use crate::policy::contract::Pull;
use crate::policy::kl::kl;
use crate::policy::prior::Prior;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure, is_plausible};
use crate::table::Table;
use others::{Others, kept};

pub(crate) struct Segments {
    arms: usize,
    /// All segments together, then each: rows of `arms` cells. Of a pool's many lines of memory a decision needs two,
    /// its segment's turn and its arm's play.
    turns: Table<Turn>,
    plays: Table<Play>,
    rows: Table<Row>,
    cells: Table<Cell>,
    rates: Table<Rate>,
    /// What tau^2 is fitted to: the sum over rows.
    moments: Moments,
    /// Of all releases, with the time at which they count.
    all: Evidence,
    pub others: Others,
    noise: NoiseSource,
    /// Of the noise, in rewards.
    deviation: f64,
    /// Decisions after which evidence counts half.
    half_life: f64,
    /// Rewards in a cell's first batch, as things are.
    first: f64,
    /// The row that was last looked at for want of news.
    cursor: usize,
    /// The model is what [`fit`](Self::fit) makes of what is known.
    fitted: bool,
    decisions: u64,
    releases: u32,
    has_lived: bool,
    /// All segments together try an arm: the first turn's best.
    trial: bool,
}

/// Whose turn it is in a segment, or in all together.
#[derive(Default)]
struct Turn {
    /// Here and elsewhere.
    decisions: u64,
    /// Decisions until arms are compared again, and the one that was found.
    left: u32,
    best: u32,
}

/// What a decision changes of an arm in a segment, or in all: half a line of memory, so that it is in one.
#[derive(Default)]
#[repr(align(32))]
struct Play {
    batch: Batch,
    /// Decisions that were neither cancelled nor expired, in whose batch ever they are.
    pulls: u64,
}

/// What is known of a segment, or of all together.
struct Row {
    /// b.
    scale: f64,
    moments: Moments,
}

/// What is known of an arm in a segment, or in all.
#[derive(Default)]
struct Cell {
    released: Evidence,
    /// What it says of its arm's rate, as it was last told.
    said: Weighted,
}

/// Releases: Z, W, the number of rewards, and the time at which these hold.
#[derive(Clone, Copy, Default)]
struct Evidence {
    sum: f64,
    weight: f64,
    count: f64,
    time: u64,
}

/// A sum of estimates, each times the inverse of its variance, and of these.
#[derive(Clone, Copy, Default)]
struct Weighted {
    sum: f64,
    weight: f64,
}

/// Of an arm, in all segments.
struct Rate {
    /// r.
    mean: f64,
    /// What public data say, and since when; and with what weight, as cells were last told.
    prior: Option<(Prior, u64)>,
    given: Weighted,
    /// What cells say, and they.
    said: Weighted,
}

/// Squared deviations beyond what noise explains, and how many they count for.
#[derive(Clone, Copy, Default)]
struct Moments {
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
const RATE: f64 = 0.1;
/// What arms have on average, at least, in parts of the overall rate as batches are measured with it.
const LEAST_MEAN: f64 = 0.1;
/// c at first, but for 1; and after so many first batches of each arm a segment has half of it. With 1 from the start a
/// pool of segments that live briefly loses a quarter more (40 worlds, 2,000 decisions a segment: 17.6 for 14.3% of uniform
/// play at eps 1, tau .2; 44.3 for 35.7 at eps .25, tau .5), and a third more after 10,000 (9.5 for 7.1).
const CAUTION: f64 = 3.0;
const PATIENCE: f64 = 400.0;
/// c among arms of all segments together.
const TRIAL_CAUTION: f64 = 2.0;
/// An arm is known once all segments together know it as well as so many cells with endless evidence would.
const KNOWN: f64 = 4.0;
/// 2^64 over the golden ratio: multiples of it are evenly spread, along any arithmetic progression too, so no segment
/// that is asked periodically escapes, or bears it all.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// A memory has four half-lives.
const HALF_LIVES: f64 = 4.0;

impl Evidence {
    /// What it counts at this time.
    fn fade(&mut self, now: u64, half_life: f64) {
        if half_life.is_finite() && now > self.time {
            let power = (-((now - self.time) as f64) / half_life).exp2();
            (self.sum, self.weight, self.count) = (self.sum * power, self.weight * power, self.count * power);
        }
        self.time = now;
    }

    /// Its estimate of a rate, and 1/variance of the logarithm of that, given tau^2 and what is expected.
    fn says(&self, expected: f64, spread: f64) -> Option<(f64, f64)> {
        let successes = self.weight * expected;
        (successes > 0.0).then(|| (self.sum / self.weight, 1.0 / (spread + 1.0 / successes)))
    }
}

impl Weighted {
    fn add(&mut self, estimate: f64, weight: f64) {
        self.sum += estimate * weight;
        self.weight += weight;
    }

    /// One of those in it says this now, in place of what it said before.
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

/// Decisions after which evidence counts half.
fn half_life(config: &Config) -> f64 {
    if config.forget_after == 0 { f64::INFINITY } else { config.forget_after as f64 / HALF_LIVES }
}

impl Rate {
    fn new() -> Rate {
        let nothing = Weighted::default();
        Rate { mean: RATE, prior: None, given: nothing, said: nothing }
    }

    /// Brings up to date what its prior says, when this is the largest rate.
    fn weigh(&mut self, largest: f64, now: u64, half_life: f64) {
        let mut given = Weighted::default();
        if let Some((prior, time)) = self.prior {
            let (mean, strength) = (f64::from(prior.mean), f64::from(prior.strength));
            let mut evidence = Evidence { sum: mean * strength, weight: strength, count: strength, time };
            evidence.fade(now, half_life);
            let weight = evidence.weight * self.mean;
            // What cells say without it, and how far the two are from each other, in squared deviations.
            let cells = Weighted { sum: self.said.sum - self.given.sum, weight: self.said.weight - self.given.weight };
            let distance = cells.sum / cells.weight - mean;
            let unsure = self.mean * self.mean * (1.0 / weight + 1.0 / cells.weight);
            if cells.weight > 0.0 && 0.5 * distance * distance > Prior::CONTRADICTION * unsure {
                self.prior = None;
            } else {
                // The nats that one unit of weight has against theta being as large.
                let ratio = (largest / mean.max(0.02 * largest)).max(1.0);
                let nats = ratio - 1.0 - ratio.ln();
                given.add(mean, weight.min(Prior::most(now) / nats.max(1e-9)));
            }
        }
        self.said.replace(&mut self.given, given);
    }
}

/// A rate that laws can have.
fn rate(x: f64) -> f64 {
    x.clamp(1e-6, 0.999)
}

impl Segments {
    pub fn new(config: &Config, most: u32, seed: &mut Seed) -> Result<Segments> {
        let noise = config.noise()?;
        let arms = config.arms as usize;
        let mut segments = Segments {
            arms,
            turns: Table::with_room(most as usize + 1)?,
            rows: Table::with_room(most as usize + 1)?,
            plays: Table::with_room((most as usize + 1) * arms)?,
            cells: Table::with_room((most as usize + 1) * arms)?,
            rates: Table::new(arms, |_| Rate::new())?,
            moments: Moments::default(),
            all: Evidence::default(),
            others: Others::new(),
            deviation: noise.variance().sqrt() / Reward::ONE as f64,
            noise: NoiseSource::new(noise, seed.stream()),
            half_life: half_life(config),
            first: 0.0,
            cursor: 0,
            fitted: false,
            decisions: 0,
            releases: 0,
            has_lived: false,
            trial: false,
        };
        segments.first = segments.first_batch();
        segments.add();
        segments.plan();
        Ok(segments)
    }

    /// One segment more, where there is room: its number.
    pub fn add(&mut self) -> u32 {
        self.turns.push(Turn::default());
        self.rows.push(Row { scale: 1.0, moments: Moments::default() });
        for _ in 0..self.arms {
            self.plays.push(Play::default());
            self.cells.push(Cell::default());
        }
        self.count().wrapping_sub(1)
    }

    /// Segments.
    pub fn count(&self) -> u32 {
        self.rows.len() as u32 - 1
    }

    /// The next arm to play in a segment.
    #[inline]
    pub fn choose(&mut self, segment: u32) -> Pull {
        let row = self.next(segment);
        let best = self.best(row);
        self.pull(segment, row, best)
    }

    /// The next one among some.
    pub fn choose_among(&mut self, segment: u32, arms: &[u32]) -> Pull {
        let mut row = self.next(segment);
        let best = if row == 0 && arms.contains(&self.turns[0].best) {
            self.best(0)
        } else {
            row = segment as usize + 1;
            self.least(row, arms.iter().copied())
        };
        self.ensure_open(row * self.arms + best as usize);
        self.pull(segment, row, best)
    }

    /// The row whose batches a decision in this segment fills.
    #[inline]
    fn next(&mut self, segment: u32) -> usize {
        let own = segment as usize + 1;
        self.decisions += 1;
        self.turns[own].decisions += 1;
        let together = self.trial && (self.turns[0].left > 0 || self.decisions.wrapping_mul(GOLDEN) >> 61 == 0);
        if together { 0 } else { own }
    }

    /// The arm that a row plays now.
    #[inline]
    fn best(&mut self, row: usize) -> u32 {
        if self.turns[row].left == 0 && row > 0 {
            self.compare(row);
        }
        let turn = &mut self.turns[row];
        turn.left = turn.left.saturating_sub(1);
        turn.best
    }

    /// A decision's number is twice its cell's among those of segments, and its phase 0 where it learns with all
    /// others; else that is 1, and the number one more.
    #[inline]
    fn pull(&self, segment: u32, row: usize, arm: u32) -> Pull {
        let own = u32::from(row > 0);
        Pull::new(2 * (segment * self.arms as u32 + arm) + own, own, f64::NAN)
    }

    /// How often an arm was played in a segment: decisions that were neither cancelled nor expired.
    pub fn pulls(&self, segment: u32, arm: u32) -> u64 {
        self.plays[(segment as usize + 1) * self.arms + arm as usize].pulls
    }

    /// Of all arms in all segments.
    pub fn all_pulls(&self) -> impl ExactSizeIterator<Item = u64> {
        self.plays[self.arms..].iter().map(|play| play.pulls)
    }

    /// The same, to be set.
    pub fn all_pulls_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.plays[self.arms..].iter_mut().map(|play| &mut play.pulls)
    }

    /// Its place among [all](Self::all_pulls).
    pub fn cell_of(&self, pull: Pull) -> usize {
        pull.arm() as usize / 2
    }

    pub fn arm_of(&self, pull: Pull) -> u32 {
        pull.arm() / 2 % self.arms as u32
    }

    pub fn is_live(&self, arm: u32) -> bool {
        (arm as usize) < self.arms
    }

    pub fn active(&self) -> u32 {
        self.arms as u32
    }

    pub fn add_arm(&mut self) -> Result<()> {
        Err(crate::error::Error::Unsupported("add_arm: the arms of a handle with segments are fixed"))
    }

    pub fn retire_arm(&mut self, _arm: u32) {}

    /// So many that their expected sum is one deviation of the noise.
    fn first_batch(&self) -> f64 {
        let floor = std::f64::consts::SQRT_2 * self.deviation;
        let (sum, count) = (self.all.sum + self.others.all.sum, self.all.count + self.others.all.count);
        let rate = (sum + 0.5).max(floor) / (count + 0.5 / RATE);
        (self.deviation / rate.min(1.0)).ceil()
    }

    fn open(&mut self, cell: usize) {
        #[cfg(feature = "test-hooks")]
        let kept = self.plays[cell].batch.bare_sum();
        self.plays[cell].batch = Batch::open(self.size(cell));
        #[cfg(feature = "test-hooks")]
        self.plays[cell].batch.keep(kept);
    }

    fn ensure_open(&mut self, cell: usize) {
        if self.plays[cell].batch.quota() == 0 {
            self.open(cell);
        }
    }

    /// Rewards in a cell's next batch, as things are.
    fn size(&self, cell: usize) -> u64 {
        let (row, released) = (cell / self.arms, self.released(cell));
        // In a segment what the model says is evidence too.
        let model = if row == 0 { 0.0 } else { self.law(row, cell % self.arms).1 - released.weight };
        // Bounded, or an arm whose first release is noise below 0 would wait for its next for ever.
        let half = 0.5 * released.count + (0.25 * model).min(4.0 * self.first);
        // Each pool at work takes its part, but no less than two first batches: every part has its own noise.
        let part = (half / self.others.pools).max(half.min(2.0 * self.first));
        // A trial should tell more than noise, and the work is shared.
        let least = if row == 0 { 2.0 * self.first } else { self.first };
        (part.ceil().max(least) as u64).clamp(1, Batch::MAX_QUOTA)
    }

    /// tau^2.
    fn spread(&self) -> f64 {
        let excess = self.moments.excess + SPREAD * SPREAD_WEIGHT;
        (excess / (self.moments.weight + SPREAD_WEIGHT)).max(LEAST_SPREAD)
    }

    /// Which arm is to be played until its batch is full?
    fn compare(&mut self, row: usize) {
        let best = self.least(row, 0..self.arms as u32);
        self.turn(row, best);
    }

    /// It is this arm's turn.
    fn turn(&mut self, row: usize, best: u32) {
        let cell = row * self.arms + best as usize;
        self.ensure_open(cell);
        // What was opened when more was known of it would take too long.
        let size = self.size(cell);
        let batch = &mut self.plays[cell].batch;
        #[cfg(feature = "test-hooks")]
        let size = if Fault::RawSize.is_built_in() { size - (batch.bare_sum() as u64).min(size - 1) } else { size };
        batch.lower(size);
        (self.turns[row].best, self.turns[row].left) = (best, batch.free().max(1) as u32);
    }

    /// Is there an arm to try in all segments together?
    fn plan(&mut self) {
        let leader = self.rates.iter().max_by(|a, b| a.mean.total_cmp(&b.mean)).expect("an arm");
        let largest = leader.mean;
        let known = |rate: &Rate| rate.said.weight.max(0.0) + 1.0;
        let index = |rate: &Rate| {
            let ratio = largest / rate.mean;
            TRIAL_CAUTION * known(rate) * (ratio - 1.0 - ratio.ln()) + known(rate).ln()
        };
        let clicks = largest * self.half_life.min(self.decisions as f64);
        let most = known(leader).max(clicks).ln();
        let enough = 1.0 / (self.spread() * (1.0 / KNOWN + 1.0 / self.together()));
        let arms = self.rates.iter().enumerate().filter(|(_, rate)| rate.said.weight < enough);
        let least = arms.map(|(arm, rate)| (index(rate), arm as u32)).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, arm)) = least.filter(|&(index, _)| index <= most) else {
            self.trial = false;
            return;
        };
        if !self.trial || self.turns[0].best != arm {
            self.trial = true;
            self.turn(0, arm);
        }
    }

    /// Segments, here or elsewhere.
    fn together(&self) -> f64 {
        (self.rows.len() - 1).max(self.others.segments).max(1) as f64
    }

    /// The arm with the least index among these, in a segment of its own.
    fn least(&mut self, row: usize, arms: impl Iterator<Item = u32> + Clone) -> u32 {
        let c = 1.0 + CAUTION / (1.0 + self.turns[row].decisions as f64 / (PATIENCE * self.arms as f64 * self.first));
        let law = |arm: u32| self.law(row, arm as usize);
        let largest = arms.clone().map(|arm| law(arm).0).fold(0.0, f64::max);
        let index = |arm: u32| {
            let (mean, evidence) = law(arm);
            c * evidence * kl(mean, largest) + evidence.ln()
        };
        arms.map(|arm| (index(arm), arm)).min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, arm)| arm)
    }

    /// The law of an arm's rate in a segment: its mean, and the rewards that it is worth.
    fn law(&self, row: usize, arm: usize) -> (f64, f64) {
        let (rate_of, scale) = (&self.rates[arm], self.rows[row].scale);
        let released = self.released(row * self.arms + arm);
        let m = rate(scale * rate_of.mean);
        let unsure = self.spread() + 1.0 / (rate_of.said.weight + ARMS_ALIKE);
        let prior = ((1.0 - m) / (m * unsure) - 1.0).clamp(1.0, 1e7);
        let evidence = prior + released.weight;
        ((prior * m + released.sum) / evidence, evidence)
    }

    /// What was released of a cell, here and elsewhere, as much as it counts now.
    fn released(&self, cell: usize) -> Evidence {
        let [mut here, mut all] = [self.cells[cell].released, self.others.released(cell)];
        here.fade(self.decisions, self.half_life);
        all.fade(self.decisions, self.half_life);
        all.add(kept(here), 1.0); // as others do that merge it
        all
    }

    /// The one place where rewards become public.
    fn release(&mut self, number: usize) {
        let (row, arm, now) = (number / self.arms, number % self.arms, self.decisions);
        let expected = rate(self.rows[row].scale * self.rates[arm].mean);
        let released = self.plays[number].batch.release(&mut self.noise);
        let count = released.count as f64;
        let weight = 1.0 / (1.0 + self.deviation * self.deviation / (count * expected * (1.0 - expected)));
        let cell = &mut self.cells[number];
        cell.released.fade(now, self.half_life);
        cell.released.sum += weight * released.sum.clamp(0.0, count);
        cell.released.weight += weight * count;
        cell.released.count += count;
        self.all.fade(now, self.half_life);
        self.all.sum += released.sum;
        self.all.count += count;
        self.others.all.fade(now, self.half_life);
        self.first = self.first_batch();
        self.releases = self.releases.saturating_add(1);
        self.open(number);
        self.turns[row].left = 0;
        self.trial &= row > 0;
        self.learn(row);
        if self.half_life.is_finite() {
            // What silent segments said fades too: one in turn.
            self.cursor = (self.cursor + 1) % self.rows.len();
            self.learn(self.cursor);
        }
    }

    /// Nothing was released or merged since [`fit`](Self::fit), so that it would change nothing.
    pub fn is_fitted(&self) -> bool {
        self.fitted
    }

    /// The model anew, from all that is known, the segments in this order: what it says then depends on nothing else.
    pub fn fit(&mut self, order: impl Iterator<Item = usize> + Clone) {
        self.moments = Moments::default();
        self.rows.iter_mut().for_each(|row| *row = Row { scale: 1.0, moments: Moments::default() });
        self.cells.iter_mut().for_each(|cell| cell.said = Weighted::default());
        for rate in &mut *self.rates {
            (rate.mean, rate.said, rate.given) = (RATE, Weighted::default(), Weighted::default());
        }
        // What a segment says of its arms depends on what the arms are like.
        for _ in 0..2 {
            std::iter::once(0).chain(order.clone().map(|segment| segment + 1)).for_each(|row| self.learn(row));
        }
        self.fitted = true;
    }

    /// Brings the model up to date with what a row has released.
    fn learn(&mut self, row: usize) {
        self.fitted = false;
        let spread = self.spread();
        let first = row * self.arms;
        let cells = &mut self.cells[first..][..self.arms];
        cells.iter_mut().for_each(|cell| cell.released.fade(self.decisions, self.half_life));
        self.others.fade(row, self.arms, self.decisions, self.half_life);
        let own = if row == 0 {
            // All together: the segments' differences cancel as far as they are many.
            (spread / self.together(), None)
        } else {
            let mut said = Weighted::default();
            for (arm, rate) in self.rates.iter().enumerate() {
                let released = self.released(first + arm);
                if let Some((estimate, weight)) = released.says(self.rows[row].scale * rate.mean, spread) {
                    said.add(estimate / rate.mean, weight);
                }
            }
            self.rows[row].scale = said.mean(1.0, SEGMENTS_ALIKE).clamp(0.05, 20.0);
            (spread, Some(said))
        };
        let (spread, segment) = own;
        let scale = self.rows[row].scale;
        for arm in 0..self.arms {
            let released = self.released(first + arm);
            let (cell, rate) = (&mut self.cells[first + arm], &mut self.rates[arm]);
            let mut said = Weighted::default();
            if let Some((estimate, weight)) = released.says(scale * rate.mean, spread) {
                said.add(estimate / scale, weight);
            }
            rate.said.replace(&mut cell.said, said);
        }
        let largest = self.rates.iter().map(|rate| rate.mean).fold(0.0, f64::max);
        #[cfg_attr(not(feature = "test-hooks"), allow(clippy::unused_enumerate_index))]
        for (_arm, rate) in self.rates.iter_mut().enumerate() {
            #[cfg(feature = "test-hooks")]
            let largest = largest
                + hand::glimpse(|| {
                    self.plays.iter().skip(_arm).step_by(self.arms).map(|play| play.batch.bare_sum()).sum()
                });
            rate.weigh(largest, self.decisions, self.half_life);
        }
        let mut all = Weighted::default();
        for rate in &*self.rates {
            all.sum += rate.said.sum;
            all.weight += rate.said.weight;
        }
        // RATE until anything is known. First releases that are noise below 0 say that no arm is ever clicked; where that
        // is believed, those that follow weigh nothing, and it stays.
        let mean = (all.sum + RATE * 1e-9) / (all.weight + 1e-9);
        let mean = mean.max(LEAST_MEAN * self.deviation / self.first);
        for rate_of in &mut *self.rates {
            rate_of.mean = rate(rate_of.said.mean(mean, ARMS_ALIKE));
        }
        if let Some(segment) = segment {
            self.contrast(row, segment);
        }
        self.plan();
    }

    /// Each cell of a segment with what its others and its arm say: its part in the moments.
    fn contrast(&mut self, row: usize, segment: Weighted) {
        let mut moments = Moments::default();
        for (arm, rate_of) in self.rates.iter().enumerate() {
            let said = self.cells[row * self.arms + arm].said.weight;
            if said == 0.0 {
                continue;
            }
            let released = self.released(row * self.arms + arm);
            let estimate = released.sum / released.weight / rate_of.mean;
            let weight = (segment.weight - said).max(0.0);
            let others = Weighted { sum: segment.sum - said * estimate, weight };
            let expected = rate(others.mean(1.0, SEGMENTS_ALIKE).clamp(0.05, 20.0) * rate_of.mean);
            let noise = (1.0 - expected) / (released.weight * expected)
                + 1.0 / (weight + SEGMENTS_ALIKE)
                + 1.0 / (rate_of.said.weight + ARMS_ALIKE);
            let deviation = released.sum / (released.weight * expected) - 1.0;
            let weight = (0.1 + noise).powi(-2);
            moments.excess += weight * (deviation * deviation - noise);
            moments.weight += weight;
        }
        let before = std::mem::replace(&mut self.rows[row].moments, moments);
        self.moments.excess += moments.excess - before.excess;
        self.moments.weight += moments.weight - before.weight;
    }

    /// What public data say of an arm in all segments, from now on.
    pub fn set_prior(&mut self, arm: u32, prior: Prior) {
        self.rates[arm as usize].prior = Some((prior, self.decisions));
        self.learn(0);
    }

    /// What the pool believes of an arm's rate in a segment, and the rewards behind it that are the cell's own, here and
    /// elsewhere.
    pub fn estimate(&self, segment: u32, arm: u32) -> (f64, f64) {
        let (row, arm) = (segment as usize + 1, arm as usize);
        (self.law(row, arm).0, self.released(row * self.arms + arm).count)
    }

    /// What the handle believes of an arm's rate in an average segment, and the rewards behind all of its releases, here
    /// and elsewhere.
    pub fn overall(&self, arm: u32) -> (f64, f64) {
        let cells = (arm as usize..self.cells.len()).step_by(self.arms);
        (self.rates[arm as usize].mean, cells.map(|cell| self.released(cell).count).sum())
    }

    /// Batches released.
    pub fn releases(&self) -> u32 {
        self.releases
    }

    pub fn privacy(&self) -> PrivacyLoss {
        loss(&self.noise.law(), self.releases > 0 || self.has_lived)
    }

    /// Our own releases, and public counts.
    pub fn save(&self, to: &mut Writer) {
        to.u64(self.decisions);
        to.u32(self.releases);
        self.all.save(to);
        for rate in &*self.rates {
            to.u8(rate.prior.is_some().into());
            if let Some((prior, time)) = rate.prior {
                prior.save(to);
                to.u64(time);
            }
        }
        to.alike(self.turns.iter().enumerate(), |to, (row, turn)| {
            to.u64(turn.decisions.saturating_sub(self.others.lived(row)));
        });
        #[cfg(feature = "test-hooks")]
        {
            hand::keep_open(self.plays.iter().map(|play| play.batch.bare_sum()));
            if Fault::RawSnapshot.is_built_in() {
                for (cell, play) in self.cells.iter().zip(&*self.plays) {
                    let sum = (cell.released.sum + play.batch.bare_sum()).min(cell.released.weight);
                    Evidence { sum, ..cell.released }.save(to);
                }
                return;
            }
        }
        to.alike(self.cells.iter(), |to, cell| cell.released.save(to));
    }

    /// Takes them, where there are as many segments. No batch is open.
    pub fn load(&mut self, from: &mut Reader) -> Result<()> {
        self.decisions = from.count()?;
        self.releases = from.u32()?;
        self.has_lived = true;
        self.all = Evidence::load(from, self.decisions)?;
        for arm in 0..self.arms {
            self.rates[arm].prior = load_prior(from, self.decisions)?;
        }
        for row in 0..self.rows.len() {
            self.turns[row].decisions = from.count()?;
        }
        for cell in 0..self.cells.len() {
            self.cells[cell].released = Evidence::load_cell(from, self.decisions)?;
            #[cfg(feature = "test-hooks")]
            self.plays[cell].batch.keep(hand::kept_open(cell));
        }
        self.first = self.first_batch();
        // What a segment says of its arms depends on what the arms are like.
        for _ in 0..10 {
            (0..self.rows.len()).for_each(|row| self.learn(row));
        }
        Ok(())
    }
}

/// An arm's prior and since when.
fn load_prior(from: &mut Reader, now: u64) -> Result<Option<(Prior, u64)>> {
    if !from.bool()? {
        return Ok(None);
    }
    let (prior, time) = (Prior::load(from)?, from.count()?);
    ensure(time <= now)?;
    Ok(Some((prior, time)))
}

impl Evidence {
    fn save(&self, to: &mut Writer) {
        [self.sum, self.weight, self.count].into_iter().for_each(|number| to.f64(number));
        to.u64(self.time);
    }

    fn load(from: &mut Reader, now: u64) -> Result<Evidence> {
        let evidence = Evidence { sum: from.f64()?, weight: from.f64()?, count: from.f64()?, time: from.count()? };
        let Evidence { sum, weight, count, time } = evidence;
        ensure([sum, weight, count].into_iter().all(is_plausible) && time <= now)?;
        Ok(evidence)
    }

    fn load_cell(from: &mut Reader, now: u64) -> Result<Evidence> {
        let cell = Evidence::load(from, now)?;
        ensure((0.0..=cell.weight).contains(&cell.sum) && cell.weight <= cell.count)?;
        Ok(cell)
    }
}

impl Segments {
    #[inline]
    pub fn played(&mut self, pull: Pull) -> &mut u64 {
        &mut self.plays[pull.arm() as usize / 2 + self.arms].pulls
    }

    #[inline]
    pub fn observe(&mut self, pull: Pull, reward: Reward) {
        let own = pull.arm() as usize / 2;
        let cell = if pull.arm() & 1 == 0 { own % self.arms } else { own + self.arms };
        #[cfg(feature = "test-hooks")]
        if Fault::CollectedTwice.is_built_in() {
            let batch = &mut self.plays[if cell < self.arms { own + self.arms } else { own % self.arms }].batch;
            let _ = batch.free() > 1 && batch.collect(reward);
        }
        let batch = &mut self.plays[cell].batch;
        if batch.collect(reward) && batch.free() == 0 {
            self.release(cell);
        }
    }

    /// Who is not learned from does not make a segment older.
    pub fn cancel(&mut self, pull: Pull) {
        let decisions = &mut self.turns[pull.arm() as usize / 2 / self.arms + 1].decisions;
        *decisions = decisions.saturating_sub(1); // a snapshot counts those in flight, and forgets them
    }
}
