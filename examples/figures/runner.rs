//! Runs many trials of many cells on all cores, with a progress bar. The results do not depend on the number of
//! threads, because all random bits of a trial come from the seed and the number of its run.

use super::Options;
pub use super::sample::{Curve, Sample, Trial};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicUsize, Ordering};

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
