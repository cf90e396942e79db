//! Runs many trials of many cells on all cores, with a progress bar. The results do not depend on the number of
//! threads, because all random bits of a trial come from the seed and the number of its run.

use super::Options;
use dpb::{Random, Seed};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The values that one run measures, one for each time of the experiment.
pub type Curve = Vec<f64>;

/// One run of one cell. It determines all random bits of the run.
#[derive(Clone, Copy)]
pub struct Trial {
    /// The program's `--seed`.
    pub seed: u64,
    /// The number of the run. Cells use the same random bits of the environment for the same number where possible.
    pub run: u64,
}

impl Trial {
    /// The test seed of the policy.
    pub fn policy_seed(self) -> [u8; 32] {
        self.key(1)
    }

    /// The random bits of the environment, independent of the policy's.
    pub fn coins(self) -> Random {
        Seed::new(Some(self.key(2))).expect("a test seed needs no entropy").stream()
    }

    /// A key of 32 bytes for this purpose, unique to the seed and the run.
    pub fn key(self, purpose: u64) -> [u8; 32] {
        let mut key = [0; 32];
        for (place, word) in key.chunks_exact_mut(8).zip([self.seed, self.run, purpose, 0x6470_6266_6967_7572]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        key
    }
}

/// Many runs of one policy in one setting: a line of a plot, or a cell of a table.
pub struct Cell<'a> {
    pub runs: u64,
    pub play: Box<dyn Fn(Trial) -> Curve + Sync + 'a>,
}

impl<'a> Cell<'a> {
    pub fn new(runs: u64, play: impl Fn(Trial) -> Curve + Sync + 'a) -> Cell<'a> {
        Cell { runs, play: Box::new(play) }
    }
}

/// The curves of all runs of one cell, in the order of the runs.
#[derive(Clone)]
pub struct Sample(pub Vec<Curve>);

/// Runs all trials of all cells. Returns a sample for each cell.
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

    /// A curve of a statistic. The argument of `statistic` is the sorted values of all runs at one time.
    pub fn pointwise(&self, statistic: impl Fn(&[f64]) -> f64) -> Curve {
        let at = |time: usize| {
            let mut values: Vec<f64> = self.0.iter().map(|curve| curve[time]).collect();
            values.sort_by(f64::total_cmp);
            statistic(&values)
        };
        (0..self.0[0].len()).map(at).collect()
    }

    /// The final values of all runs, sorted.
    pub fn last(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.0.iter().map(|curve| curve[curve.len() - 1]).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The mean of the final values, and its standard error.
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
