//! Runs: many trials of many cells on all cores, with a progress bar. The results do not depend on
//! the number of threads: a trial's random bits come from its own number alone.

use super::Options;
use dpb::{Random, Seed};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one run measures, at the times it was asked for.
pub type Curve = Vec<f64>;

/// One run of one cell: where all its random bits come from.
#[derive(Clone, Copy)]
pub struct Trial {
    /// The program's `--seed`.
    pub seed: u64,
    /// The run's number. Cells with the same number meet the same coins, where they can.
    pub run: u64,
}

impl Trial {
    /// A test seed for the policy.
    pub fn policy_seed(self) -> [u8; 32] {
        self.key(1)
    }

    /// The environment's own randomness, apart from the library's.
    pub fn coins(self) -> Random {
        Seed::new(Some(self.key(2))).expect("a test seed needs no entropy").stream()
    }

    /// Some 32 bytes of this trial's own.
    pub fn key(self, purpose: u64) -> [u8; 32] {
        let mut key = [0; 32];
        for (place, word) in key.chunks_exact_mut(8).zip([self.seed, self.run, purpose, 0x6470_6266_6967_7572]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        key
    }
}

/// One line of a plot: many runs of one player in one setting.
pub struct Cell<'a> {
    pub runs: u64,
    pub play: Box<dyn Fn(Trial) -> Curve + Sync + 'a>,
}

impl<'a> Cell<'a> {
    pub fn new(runs: u64, play: impl Fn(Trial) -> Curve + Sync + 'a) -> Cell<'a> {
        Cell { runs, play: Box::new(play) }
    }
}

/// All runs of one cell, in order.
#[derive(Clone)]
pub struct Sample(pub Vec<Curve>);

/// Plays every run of every cell.
pub fn run(name: &str, cells: &[Cell], options: &Options) -> Vec<Sample> {
    let seed = options.seed;
    let jobs: Vec<(usize, u64)> =
        cells.iter().enumerate().flat_map(|(number, cell)| (0..cell.runs).map(move |run| (number, run))).collect();
    let style = ProgressStyle::with_template("{msg:<12} [{bar:30}] {percent}%  {elapsed} gone, {eta} left");
    let bar = ProgressBar::new(jobs.len() as u64).with_style(style.expect("a valid template").progress_chars("##."));
    bar.set_message(name.to_owned());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some(&(cell, run)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((cell, run, (cells[cell].play)(Trial { seed, run })));
            bar.inc(1);
        }
        done
    };
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no run panics")).collect()
    });
    bar.finish_and_clear();
    results.sort_by_key(|&(cell, run, _)| (cell, run));
    let mut samples = vec![Sample(Vec::new()); cells.len()];
    results.into_iter().for_each(|(cell, _, curve)| samples[cell].0.push(curve));
    samples
}

impl Sample {
    /// The mean curve.
    pub fn mean(&self) -> Curve {
        self.pointwise(|values| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The standard error of the mean curve.
    pub fn errors(&self) -> Curve {
        self.pointwise(standard_error)
    }

    /// The curve of a statistic of the runs' sorted values at each time.
    pub fn pointwise(&self, statistic: impl Fn(&[f64]) -> f64) -> Curve {
        let at = |time: usize| {
            let mut values: Vec<f64> = self.0.iter().map(|curve| curve[time]).collect();
            values.sort_by(f64::total_cmp);
            statistic(&values)
        };
        (0..self.0[0].len()).map(at).collect()
    }

    /// What the runs end with, sorted.
    pub fn last(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.0.iter().map(|curve| curve[curve.len() - 1]).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The mean of what the runs end with, and its standard error.
    pub fn last_mean(&self) -> (f64, f64) {
        let values = self.last();
        (values.iter().sum::<f64>() / values.len() as f64, standard_error(&values))
    }
}

fn standard_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0).max(1.0) / n).sqrt()
}
