//! Estimates the cost of privacy for a service.
//!
//! Either simulates a service that you describe, and estimates what each policy loses at each epsilon. Or replays the
//! log of your service, and estimates what each policy would have won. The program prints a table, and writes plan.svg
//! and plan.csv; the Python package returns the numbers. docs/cost.md explains them. replay.rs contains the theory.

pub mod log;
pub mod options;
#[cfg(feature = "program")]
#[path = "../figures/plot.rs"]
pub mod plot;
#[cfg(feature = "program")]
mod print;
pub mod replay;
#[path = "../figures/sample.rs"]
pub mod sample;
pub mod schedule;
pub mod simulate;

use dpb::{Algorithm, Config};
use log::Log;
pub use options::{HELP, Options};
#[cfg(feature = "program")]
pub use print::plan;
use replay::{Candidate, Evaluation, Fixed, Survey};
use simulate::{Ended, Loss, Player, World};
use std::error::Error;

pub fn is_baseline(policy: Algorithm) -> bool {
    policy.name().starts_with("nonprivate")
}

/// What a simulation finds.
pub struct Simulated {
    pub world: World,
    /// The policies that were simulated, and their epsilons.
    pub named: Vec<(Algorithm, f64)>,
    /// The loss of each of them.
    pub losses: Vec<Loss>,
    /// Why policies were left out, a line for each.
    pub refusals: String,
}

/// What is simulated, and why the others are left out.
struct Field {
    named: Vec<(Algorithm, f64)>,
    players: Vec<Player>,
    refusals: String,
}

fn field(options: &Options, world: &World) -> Result<Field, Box<dyn Error>> {
    let (mut named, mut players, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
    for (algorithm, epsilon) in options.players(false) {
        let player = Player { algorithm, config: options.config(algorithm, options.arms, epsilon) };
        match player.check(world) {
            Ok(()) => {
                named.push((algorithm, epsilon));
                players.push(player);
            }
            Err(refusal) => refusals.push(format!("{}: {refusal}\n", algorithm.name())),
        }
    }
    refusals.dedup();
    let refusals = refusals.concat();
    if players.is_empty() {
        return Err(format!("--policy: none can be simulated\n{refusals}").into());
    }
    Ok(Field { named, players, refusals })
}

/// Simulates the service of the options. Calls `progress` with the share of the work that is done; ends with an error
/// if that returns false.
pub fn simulated(options: &Options, progress: impl Fn(f64) -> bool + Sync) -> Result<Simulated, Box<dyn Error>> {
    let (world, limits) = (options.world()?, options.limits()?);
    let Field { named, players, refusals } = field(options, &world)?;
    let losses = simulate::simulate(&world, &players, options.seed, limits, progress);
    let losses = losses.map_err(|error| format!("simulating: {error}"))?.ok_or("interrupted")?;
    Ok(Simulated { world, named, losses, refusals })
}

/// What a simulation of tests finds.
pub struct Tested {
    pub world: World,
    /// The policies that were simulated, and their epsilons.
    pub named: Vec<(Algorithm, f64)>,
    /// How each test of each of them ended.
    pub ended: Vec<Vec<Ended>>,
    /// Why policies were left out, a line for each.
    pub refusals: String,
}

impl Tested {
    /// The lengths of a policy's tests in order. One that did not end has the length of the longest.
    pub fn lengths(&self, at: usize) -> Vec<f64> {
        let length = |run: &Ended| run.map_or(self.world.horizon, |(length, _)| length) as f64;
        let mut lengths: Vec<f64> = self.ended[at].iter().map(length).collect();
        lengths.sort_by(f64::total_cmp);
        lengths
    }

    /// The mean length, and its standard error.
    pub fn mean(&self, at: usize) -> (f64, f64) {
        sample::Sample(self.lengths(at).iter().map(|&length| vec![length]).collect()).last_mean()
    }

    /// The length within which nine of ten end.
    pub fn late(&self, at: usize) -> f64 {
        let lengths = self.lengths(at);
        lengths[(lengths.len() * 9).div_ceil(10) - 1]
    }
}

/// Simulates tests that stop. Calls `progress` as [`simulated`] does.
pub fn tested(options: &Options, progress: impl Fn(f64) -> bool + Sync) -> Result<Tested, Box<dyn Error>> {
    let (world, limits) = (options.world()?, options.limits()?);
    let Field { named, players, refusals } = field(options, &world)?;
    let ended = simulate::test(&world, &players, options.seed, limits, progress);
    let ended = ended.map_err(|error| format!("testing: {error}"))?.ok_or("interrupted")?;
    Ok(Tested { world, named, ended, refusals })
}

/// What a replay finds.
pub struct Replayed {
    pub survey: Survey,
    /// The bound for the replay: entries are played with this probability.
    pub least: f64,
    /// The policies that were replayed, and their epsilons.
    pub named: Vec<(Algorithm, f64)>,
    /// The log's own policy, and an even rotation.
    pub fixed: Fixed,
    /// What each of `named` would have won, or why it cannot play the log.
    pub evaluations: Vec<dpb::Result<Evaluation>>,
}

/// Replays a log by the options. The log is read twice: `checking` and `replaying` are called with the share that is
/// read. It ends with an error if one of them returns false.
pub fn replayed(
    options: &Options,
    log: &Log,
    checking: impl Fn(f64) -> bool,
    replaying: impl Fn(f64) -> bool,
) -> Result<Replayed, Box<dyn Error>> {
    let survey = replay::survey(log, options.range, checking)?;
    let least = options.least.unwrap_or(survey.least.0);
    let delay = options.decisions(options.delay);
    // Decisions that are not played occupy entries of the pending table too.
    let open = 1.5 * delay as f64 / least + 4096.0;
    if open > f64::from(Config::MAX_PENDING) {
        return Err(format!("--delay: {delay} played decisions are {open:.0} of the log, of at most 2^24").into());
    }
    let named = options.players(survey.features > 0);
    let candidate = |&(algorithm, epsilon): &(Algorithm, f64)| {
        let mut config = options.config(algorithm, survey.arms as u32, epsilon);
        config.horizon = survey.entries;
        config.pending_capacity = open as u32;
        if algorithm == Algorithm::Linear {
            (config.features, config.model_per_arm) = (survey.features as u32, true);
        }
        Candidate { algorithm, config }
    };
    let candidates: Vec<Candidate> = named.iter().map(candidate).collect();
    let plan = replay::Plan { runs: options.runs.unwrap_or(5), seed: options.seed, least, delay: delay as usize };
    let (fixed, evaluations) =
        replay::evaluate(log, options.range, &survey, &candidates, plan, options.threads, replaying)?;
    Ok(Replayed { survey, least, named, fixed, evaluations })
}

/// A warning if the intervals of all policies have a point in common (doubly robust; without a width an interval has all
/// points). `played` of `decisions` are replayed.
pub fn indistinct(evaluations: &[dpb::Result<Evaluation>], played: f64, decisions: u64) -> Option<String> {
    let known = evaluations.iter().flatten().map(|evaluation| evaluation.estimates[2]);
    // f64::max and f64::min pass over NaN.
    let low = known.clone().map(|one| one.mean - one.width).fold(f64::NEG_INFINITY, f64::max);
    let high = known.clone().map(|one| one.mean + one.width).fold(f64::INFINITY, f64::min);
    (known.count() > 1 && low <= high).then(|| {
        format!(
            "no two policies can be told apart, because all their intervals overlap: {played:.0} of {decisions} decisions \
             can be replayed. Log more decisions, or with larger propensities"
        )
    })
}

/// A warning if the weights or the number of played decisions contradict the propensities.
pub fn doubt(evaluation: &Evaluation, expected: f64) -> Option<String> {
    const DEVIATIONS: f64 = 5.0;
    let (weight, played) = (evaluation.weight, evaluation.played);
    let deviation = if weight.width < 1e-9 { 1e-9 } else { weight.width }; // NaN remains, and says nothing
    if (weight.mean - 1.0).abs() > DEVIATIONS * deviation {
        return Some(format!(
            "the weights have mean {:.3} and not 1: propensities are wrong, or an eligible arm had propensity 0",
            weight.mean
        ));
    }
    ((played - expected).abs() > DEVIATIONS * expected.sqrt() + 1.0)
        .then(|| format!("played {played:.0} decisions instead of {expected:.0}: propensities are wrong"))
}
