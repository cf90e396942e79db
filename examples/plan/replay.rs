//! Estimates what policies would have won on the decisions of a log.
//!
//! Entry t of the log has a request x_t (eligible arms, their values and costs, features, how likely a visitor examined the
//! slot), the chosen arm a_t, its propensity p_t, and its reward r_t. With values and costs, what is estimated is the worth
//! of rewards: v(b) r - c(b) in place of r. The method is that of Dudik, Erhan, Langford and Li (2012). At each entry, the policy chooses an
//! arm b_t. If b_t = a_t, the policy plays the entry with probability c/p_t and learns its reward, where c is the smallest
//! propensity of the log. Otherwise the decision is cancelled, which leaves the policy unchanged. Given the past, each
//! entry is then played with probability c, for any request and arm. So the state of the policy after t entries has the
//! distribution of its state in a service after Binomial(t, c) decisions.
//!
//! Each entry, played or not, contributes to three estimators of the expected reward of b_t, given the past:
//!
//! - Inverse propensity: w_t r_t, where w_t = [b_t = a_t]/p_t.
//! - Self-normalised: the mean of the w_t r_t divided by the mean of the w_t. Its bias decreases as 1/n.
//! - Doubly robust: v(b_t) e_t m(b_t) - c(b_t) + w_t v(a_t) (r_t - e_t m(a_t)), where m is the arm's rewards by examination in the
//!   entries before, and e_t how likely a visitor examined the slot, 1 without `examined`.
//!
//! The errors are martingale differences, so the central limit theorem gives an interval. This interval does not
//! contain the effect of the policy's random choices and noise, so the variance between runs is added.
//!
//! The method has three assumptions. The requests and their rewards are independent and identically distributed, and
//! earlier decisions do not change them. All propensities are exact. Each eligible arm has a propensity of at least c.
//!
//! The examination e_t is a part of the request: a propensity is that of the arm in this slot. So a log whose policy puts
//! better arms into better slots needs the probability of the arm and the slot together, given the page, divided by that
//! of a slot. The propensities of a `dpb_request` of several slots are not these: replay decisions of one slot.

use super::log::{Batch, Log, Logged};
use dpb::{Algorithm, Bandit, Config, Random, Request, Rows, Seed};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// The two-sided 95% quantile of the normal distribution.
const Z95: f64 = 1.96;

/// What the first pass over a log finds. The second pass must find the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    pub arms: usize,
    pub features: usize,
    pub entries: u64,
    /// The smallest propensity, and the number of its line.
    pub least: (f64, u64),
}

impl Survey {
    fn new() -> Survey {
        Survey { arms: 0, features: 0, entries: 0, least: (f64::INFINITY, 0) }
    }

    fn add(&mut self, batch: &Batch, arms: usize) {
        self.arms = arms;
        for entry in batch.iter() {
            self.entries += 1;
            self.features = entry.features.len();
            if entry.propensity < self.least.0 {
                self.least = (entry.propensity, entry.line);
            }
        }
    }
}

/// A mean for each decision, and the half-width of its 95% interval. Both are NaN where nothing is known of them.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub mean: f64,
    pub width: f64,
}

impl Estimate {
    pub fn new(mean: f64, variance: f64) -> Estimate {
        Estimate { mean, width: Z95 * variance.sqrt() }
    }
}

/// The estimates for one policy.
pub struct Evaluation {
    /// Inverse propensity, self-normalised, doubly robust.
    pub estimates: [Estimate; 3],
    /// Entries that a run has played, on average.
    pub played: f64,
    /// The mean of the weights w_t and its standard error. The expectation is 1 if the propensities are correct.
    pub weight: Estimate,
}

/// A policy to be evaluated.
#[derive(Clone)]
pub struct Candidate {
    pub algorithm: Algorithm,
    pub config: Config,
}

/// How candidates are replayed.
#[derive(Clone, Copy)]
pub struct Plan {
    pub runs: u64,
    pub seed: u64,
    /// c: entries are played with probability c/p.
    pub least: f64,
    /// The delay of each reward, in played entries.
    pub delay: usize,
}

/// The number of entries that are read at a time.
const BATCH: usize = 1024;

/// Reads a whole log, and checks each entry. Calls `progress` with the share that it has read, and ends with an error if
/// that returns false.
pub fn survey<'a>(
    log: impl Into<Log<'a>>,
    range: (f64, f64),
    progress: impl Fn(f64) -> bool,
) -> Result<Survey, String> {
    let log = log.into();
    let (mut reader, mut survey) = (log.open(range)?, Survey::new());
    loop {
        let batch = reader.read(BATCH)?;
        if batch.is_empty() {
            break;
        }
        survey.add(&batch, reader.arms());
        if !progress(reader.progress()) {
            return Err("interrupted".into());
        }
    }
    match survey {
        Survey { entries: 0, .. } => Err(format!("{log}: no decision in {} lines", reader.lines())),
        Survey { arms: 1, entries, .. } => Err(format!("{log}: only one arm in {entries} decisions")),
        survey => Ok(survey),
    }
}

/// Sums of a sequence of terms.
#[derive(Clone, Copy, Default)]
struct Moments {
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.squares += value * value;
    }

    /// The mean of n terms, and the variance of the mean, which one term does not have.
    fn mean(&self, n: f64) -> (f64, f64) {
        let mean = self.sum / n;
        (mean, if n < 2.0 { f64::NAN } else { variance(self.squares / n - mean * mean) / n })
    }
}

/// A variance that rounding made negative is 0. (f64::max would turn NaN into 0 too.)
fn variance(computed: f64) -> f64 {
    if computed < 0.0 { 0.0 } else { computed }
}

/// The rewards of each arm so far by examination. For an arm without rewards, those of all arms.
struct Means {
    arms: Vec<(f64, f64)>,
    all: (f64, f64),
}

impl Means {
    fn new(arms: usize) -> Means {
        Means { arms: vec![(0.0, 0.0); arms], all: (0.0, 0.0) }
    }

    fn of(&self, arm: u32) -> f64 {
        let (sum, count) = self.arms[arm as usize];
        if count > 0.0 { sum / count } else { self.of_all() }
    }

    fn of_all(&self) -> f64 {
        let (sum, count) = self.all;
        if count > 0.0 { sum / count } else { 0.0 }
    }

    fn add(&mut self, entry: Logged) {
        for (sum, count) in [&mut self.arms[entry.arm as usize], &mut self.all] {
            *sum += entry.reward;
            *count += entry.examined;
        }
    }
}

/// The sums from which the three estimates are computed.
#[derive(Default)]
pub struct Evidence {
    entries: f64,
    /// Those with a weight above 0: nothing else is known of the policy's rewards.
    weighing: u64,
    weighted: Moments,
    weights: Moments,
    /// The sum of the products of `weighted` and `weights`.
    products: f64,
    robust: Moments,
}

impl Evidence {
    pub fn add(&mut self, weighted: f64, weight: f64, robust: f64) {
        self.entries += 1.0;
        self.weighing += u64::from(weight > 0.0);
        self.weighted.add(weighted);
        self.weights.add(weight);
        self.products += weighted * weight;
        self.robust.add(robust);
    }

    /// The mean of each estimator, and its variance. Fewer than two entries with a weight have no variance.
    pub fn estimates(&self) -> [(f64, f64); 3] {
        let n = self.entries;
        let share = self.weights.sum;
        let mean = self.weighted.sum / share;
        // The variance of the sum of (w r - mean w), by the delta method.
        let spread = self.weighted.squares - 2.0 * mean * self.products + mean * mean * self.weights.squares;
        let found = [self.weighted.mean(n), (mean, variance(spread) / (share * share)), self.robust.mean(n)];
        if self.weighing < 2 { found.map(|(mean, _)| (mean, f64::NAN)) } else { found }
    }
}

/// One run of a candidate.
struct Run {
    bandit: Bandit,
    coins: Random,
    /// The tickets and rewards of played entries that the policy has not learned yet.
    waiting: VecDeque<(u64, f64)>,
    played: u64,
    evidence: Evidence,
}

/// The replay of a log for one candidate.
pub struct Replay {
    runs: Vec<Run>,
    plan: Plan,
    by_features: bool,
    means: Means,
    /// The terms of each entry, averaged over the runs, because all runs have the same entries.
    evidence: Evidence,
}

impl Replay {
    pub fn new(candidate: &Candidate, plan: Plan) -> dpb::Result<Replay> {
        let run = |number: u64| {
            let key = |purpose: u8| {
                let mut key = [purpose; 32];
                key[..8].copy_from_slice(&plan.seed.to_le_bytes());
                key[8..16].copy_from_slice(&number.to_le_bytes());
                key
            };
            let config = Config { test_seed: Some(key(1)), ..candidate.config.clone() };
            Ok(Run {
                bandit: Bandit::new(candidate.algorithm, &config)?,
                coins: Seed::new(Some(key(2)))?.stream(),
                waiting: VecDeque::new(),
                played: 0,
                evidence: Evidence::default(),
            })
        };
        let runs = (0..plan.runs).map(run).collect::<dpb::Result<_>>()?;
        let means = Means::new(candidate.config.arms as usize);
        Ok(Replay { runs, plan, by_features: candidate.config.features > 0, means, evidence: Evidence::default() })
    }

    pub fn add(&mut self, entry: Logged) -> dpb::Result<()> {
        let examined = [entry.examined];
        let request = Request {
            eligible: (!entry.eligible.is_empty()).then_some(entry.eligible),
            values: (!entry.values.is_empty()).then_some(entry.values),
            costs: (!entry.costs.is_empty()).then_some(entry.costs),
            examined: (entry.examined < 1.0).then_some(&examined),
            features: self.by_features.then_some(Rows::Dense(entry.features)),
            ..Request::default()
        };
        let (mut weighted, mut weights, mut robust) = (0.0, 0.0, 0.0);
        for run in &mut self.runs {
            let decision = run.bandit.select_for(&request)?;
            let same = decision.arm == entry.arm;
            let weight = if same { 1.0 / entry.propensity } else { 0.0 };
            let (value, cost) = (entry.value(decision.arm), entry.cost(decision.arm));
            let expected = |arm| entry.examined * self.means.of(arm);
            let robust_one = expected(decision.arm) + weight * (entry.reward - expected(entry.arm));
            let terms = (weight * (value * entry.reward - cost), weight, value * robust_one - cost);
            run.evidence.add(terms.0, terms.1, terms.2);
            (weighted, weights, robust) = (weighted + terms.0, weights + terms.1, robust + terms.2);
            if same && run.coins.unit() * entry.propensity < self.plan.least {
                run.played += 1;
                run.waiting.push_back((decision.ticket, entry.reward));
                if run.waiting.len() > self.plan.delay {
                    let learned = run.waiting.pop_front().map(|(ticket, reward)| run.bandit.update(ticket, reward));
                    learned.transpose()?;
                }
            } else {
                run.bandit.cancel(decision.ticket)?;
            }
        }
        let runs = self.runs.len() as f64;
        self.evidence.add(weighted / runs, weights / runs, robust / runs);
        self.means.add(entry);
        Ok(())
    }

    pub fn evaluation(&self) -> Evaluation {
        let runs = self.runs.len() as f64;
        let of_runs: Vec<[(f64, f64); 3]> = self.runs.iter().map(|run| run.evidence.estimates()).collect();
        let whole = self.evidence.estimates();
        let estimate = |which: usize| {
            let values = of_runs.iter().map(|run| run[which].0);
            let centre = values.clone().sum::<f64>() / runs;
            let spread = values.map(|value| (value - centre).powi(2)).sum::<f64>() / (runs - 1.0).max(1.0);
            let (mean, variance) = whole[which];
            Estimate::new(mean, variance + spread)
        };
        let (weight, variance) = self.evidence.weights.mean(self.evidence.entries);
        Evaluation {
            estimates: [0, 1, 2].map(estimate),
            played: self.runs.iter().map(|run| run.played as f64).sum::<f64>() / runs,
            weight: Estimate { mean: weight, width: variance.sqrt() },
        }
    }
}

/// The rewards of the log's own policy, and the estimates for an even rotation.
pub struct Fixed {
    logged: Moments,
    entries: f64,
    means: Means,
    rotation: Evidence,
}

impl Fixed {
    pub fn new(arms: usize) -> Fixed {
        Fixed { logged: Moments::default(), entries: 0.0, means: Means::new(arms), rotation: Evidence::default() }
    }

    pub fn add(&mut self, entry: Logged) {
        let (value, cost) = (entry.value(entry.arm), entry.cost(entry.arm));
        self.logged.add(value * entry.reward - cost);
        self.entries += 1.0;
        let all = self.means.arms.len();
        let arms = if entry.eligible.is_empty() { all } else { entry.eligible.len() } as f64;
        let weight = 1.0 / arms / entry.propensity;
        // Uses one mean for all arms, because the mean of each arm would take O(arms) for each entry.
        let mean = entry.examined * self.means.of_all();
        let all_values = if entry.values.is_empty() { 1.0 } else { entry.values.iter().sum::<f64>() / arms };
        let all_costs = entry.costs.iter().sum::<f64>() / arms;
        let robust = all_values * mean - all_costs + weight * value * (entry.reward - mean);
        self.rotation.add(weight * (value * entry.reward - cost), weight, robust);
        self.means.add(entry);
    }

    /// The mean reward of the log, and the three estimates for the rotation.
    pub fn estimates(&self) -> (Estimate, [Estimate; 3]) {
        let estimate = |(mean, variance): (f64, f64)| Estimate::new(mean, variance);
        (estimate(self.logged.mean(self.entries)), self.rotation.estimates().map(estimate))
    }
}

/// Replays a log for all candidates in one pass. A candidate that cannot play the log gets an error. Calls `progress`
/// with the share that it has read, and ends with an error if that returns false.
pub fn evaluate<'a>(
    log: impl Into<Log<'a>>,
    range: (f64, f64),
    survey: &Survey,
    candidates: &[Candidate],
    plan: Plan,
    threads: usize,
    progress: impl Fn(f64) -> bool,
) -> Result<(Fixed, Vec<dpb::Result<Evaluation>>), String> {
    let log = log.into();
    let mut reader = log.open(range)?;
    let mut fixed = Fixed::new(survey.arms);
    let threads = threads.clamp(1, candidates.len().max(1));
    std::thread::scope(|scope| {
        let start = |first: usize| {
            let (to, batches) = sync_channel::<Arc<Batch>>(4);
            let work = move || {
                let own = candidates.iter().enumerate().skip(first).step_by(threads);
                let mut replays: Vec<_> = own.map(|(at, one)| (at, Replay::new(one, plan))).collect();
                for batch in batches {
                    for (_, replay) in &mut replays {
                        if let Ok(running) = replay
                            && let Err(error) = batch.iter().try_for_each(|entry| running.add(entry))
                        {
                            *replay = Err(error);
                        }
                    }
                }
                replays
                    .into_iter()
                    .map(|(at, replay)| (at, replay.map(|replay| replay.evaluation())))
                    .collect::<Vec<_>>()
            };
            (to, scope.spawn(work))
        };
        let (senders, workers): (Vec<_>, Vec<_>) = (0..threads).map(start).unzip();
        let mut read = || {
            let mut again = Survey::new();
            while again.entries < survey.entries {
                let left = survey.entries - again.entries; // lines may have been added since
                let batch = reader.read(left.min(BATCH as u64) as usize)?;
                again.add(&batch, reader.arms());
                // More arms than before would have no place.
                if batch.is_empty() || again.arms > survey.arms {
                    break;
                }
                batch.iter().for_each(|entry| fixed.add(entry));
                let batch = Arc::new(batch);
                for sender in &senders {
                    // Sending fails only if the worker has panicked, which `join` reports.
                    let _ = sender.send(Arc::clone(&batch));
                }
                if !progress(reader.progress()) {
                    return Err("interrupted".into());
                }
            }
            if again == *survey { Ok(()) } else { Err(format!("{log}: changed while it was read")) }
        };
        let read = read();
        drop(senders);
        let mut found: Vec<_> =
            workers.into_iter().flat_map(|worker| worker.join().expect("no replay panics")).collect();
        found.sort_by_key(|&(at, _)| at);
        read.map(|()| (fixed, found.into_iter().map(|(_, evaluation)| evaluation).collect()))
    })
}
