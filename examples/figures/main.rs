//! Repeats the experiments of the papers, and runs libdpb's own experiments:
//! `cargo run --release -p dpb-figures --example figures -- <name|all> [--quick] [--out DIR] [--runs N]
//! [--seed N] [--threads N]`.
//!
//! The program writes NAME.svg, NAME.csv and NAME.md (tables) to the directory DIR, by default target/figures. `--runs`
//! limits the number of runs of slow experiments, to play the full horizon in less time. The same command writes the
//! same files for any number of threads. README.md shows the results beside the statements of the papers.

#[path = "../common/adversaries.rs"]
pub mod adversaries;
pub mod clicks;
pub mod clip;
pub mod costs;
pub mod drift;
pub mod environment;
pub mod fast;
pub mod field;
pub mod fleet;
pub mod learning;
pub mod linear;
pub mod plot;
mod private;
pub mod runner;
pub mod sample;
pub mod segments;
pub mod ss19;
pub mod t21;
pub mod tables;
pub mod tails;
pub mod td16;
pub mod td17;
pub mod trace;
pub mod verdicts;
pub mod winner;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// The options of the command line.
pub struct Options {
    /// Fewer runs and shorter horizons. All experiments together take less than two minutes on two cores.
    pub quick: bool,
    pub out: PathBuf,
    pub seed: u64,
    pub threads: usize,
    /// The maximum number of runs of a cell (`--runs`). Fast cells ignore it.
    pub most_runs: u64,
}

impl Default for Options {
    fn default() -> Options {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Options { quick: false, out: PathBuf::from("target/figures"), seed: 1, threads, most_runs: u64::MAX }
    }
}

impl Options {
    /// The number of runs of a cell: `quick` in quick mode, otherwise `full`; at most `most_runs`.
    pub fn runs(&self, quick: u64, full: u64) -> u64 {
        self.pick(quick, full).min(self.most_runs)
    }

    /// `quick` in quick mode, otherwise `full`.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Runs an experiment and writes its plots. Returns its tables in Markdown.
pub type Experiment = fn(&Options) -> Result<String, Box<dyn Error>>;

/// The name of each experiment, its description for the usage message, and its function.
pub const EXPERIMENTS: &[(&str, &str, Experiment)] = &[
    ("ss19", "Sajed and Sheffet (2019), Figures 1 to 12: DP-SE and the tree-based DP-UCB", ss19::run),
    ("td16", "Tossou and Dimitrakakis (2016), Figure 2: UCB on private sums", td16::run),
    ("td17", "Tossou and Dimitrakakis (2017), Figure 1: five adversaries", td17::run),
    ("t21", "libdpb: the shuffle model of Tenenbaum et al. (2021), and the central and local models", t21::run),
    ("learning", "libdpb: how fast DP-IMED learns ten ads, by epsilon", learning::run),
    ("field", "libdpb: every policy on three instances, by epsilon, by delay, by time", field::run),
    (
        "clicks",
        "libdpb: click rates below 1%, and slots that visitors examine with different probabilities",
        clicks::run,
    ),
    ("clip", "libdpb: amounts with a learned clip, and with clips that somebody knew", clip::run),
    ("clip-fleet", "clip over several handles", clip::run_fleet),
    ("costs", "libdpb: arms that cost something, and requests that may get no arm", costs::run),
    ("tables", "libdpb: programs elsewhere decide by a published table", tables::run),
    ("drift", "libdpb: rewards that change over time, with and without forget_after", drift::run),
    ("tails", "libdpb: the cost of losing the best arm in fewer runs", tails::run),
    ("many", "libdpb: many arms: how far the leader is preferred", tails::run_many),
    ("winner", "libdpb: how long a test runs until its winner is known", winner::run),
    ("winner-cost", "what privacy costs such a test, beside a test of a fixed size", winner::run_costs),
    ("verdicts", "libdpb: how many claims of tests that stop are wrong", verdicts::run),
    ("fleet", "libdpb: one bandit over many handles that merge their releases", fleet::run),
    ("segments", "libdpb: a bandit for each of a hundred segments, one for all, and one with segments", segments::run),
    ("segments-fleet", "segments over several handles with one noise", segments::run_fleet),
    ("linear", "libdpb: decisions by features, with and without privacy", linear::run),
    ("linear-more", "linear: late rewards, change, fleets, tails, a longer run", linear::run_more),
    ("linear-fleet", "linear over several handles with one noise", linear::run_fleet),
    ("linear-stream", "linear on streams that it writes to files for vw.py", linear::run_stream),
    ("private", "libdpb: private features, in the world of arXiv 2602.00417 and with ads", private::run),
    ("trace", "libdpb: 550 days of real page views, in their order", trace::run),
];

fn read_options() -> Result<(String, Options), String> {
    let mut options = Options::default();
    let (mut name, mut arguments) = (None, std::env::args().skip(1));
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        let number = |value: String| value.parse().map_err(|_| format!("{value} is not a number"));
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--out" => options.out = value()?.into(),
            "--seed" => options.seed = number(value()?)?,
            "--runs" => options.most_runs = number(value()?)?.max(1),
            "--threads" => options.threads = number(value()?)?.max(1) as usize,
            known if known == "all" || EXPERIMENTS.iter().any(|e| e.0 == known) => name = Some(argument),
            unknown => return Err(format!("{unknown}: unknown experiment or option")),
        }
    }
    name.map(|name| (name, options)).ok_or("missing experiment name".into())
}

/// Runs one experiment and writes its tables to NAME.md. Returns the tables.
pub fn perform(name: &str, run: Experiment, options: &Options) -> Result<String, Box<dyn Error>> {
    std::fs::create_dir_all(&options.out)?;
    let tables = run(options)?;
    std::fs::write(options.out.join(name).with_extension("md"), &tables)?;
    Ok(tables)
}

#[allow(dead_code, reason = "the tests include this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    let (name, options) = match read_options() {
        Ok(read) => read,
        Err(error) => {
            eprintln!("{error}\nusage: figures <name|all> [--quick] [--out DIR] [--runs N] [--seed N] [--threads N]");
            EXPERIMENTS.iter().for_each(|(name, what, _)| eprintln!("  {name:<8} {what}"));
            std::process::exit(2);
        }
    };
    let start = Instant::now();
    for &(known, _, run) in EXPERIMENTS {
        if name == "all" || name == known {
            println!("\n{}", perform(known, run, &options)?);
        }
    }
    eprintln!("written to {} in {:.0} s", options.out.display(), start.elapsed().as_secs_f64());
    Ok(())
}
