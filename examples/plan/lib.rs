//! Estimates the cost of privacy for a service.
//!
//! Either simulates a service that you describe, and estimates what each policy loses at each epsilon. Or replays the
//! log of your service, and estimates what each policy would have won. Prints a table, and writes plan.svg and
//! plan.csv. docs/choosing.md explains the numbers. replay.rs contains the theory.

pub mod log;
#[path = "../figures/plot.rs"]
pub mod plot;
pub mod replay;
#[path = "../figures/runner.rs"]
pub mod runner;
pub mod simulate;

use dpb::{Algorithm, Config};
use indicatif::{ProgressBar, ProgressStyle};
use lexopt::{Arg, ValueExt};
use plot::{Axis, BLACK, Figure, Line, Panel, Point, table};
use replay::{Candidate, Estimate, Evaluation};
use simulate::{Player, World};
use std::error::Error;
use std::path::PathBuf;

pub const HELP: &str = "\
Estimates the cost of privacy: simulates your service, or replays its log. Defaults are in parentheses.

plan [options]            simulates a service, and estimates what each policy and epsilon loses
  --arms N                number of arms (10)
  --rate R                mean reward of the best arm (0.05)
  --worst R               mean reward of the worst arm; the others are evenly spaced (a fifth of --rate)
  --decisions N           decisions in a day (1000000)
  --days N                number of days (1)
  --delay T               time from a decision to its reward: 30s, 30m, 2h (0s)
  --processes N           processes that share the decisions and merge every minute (1)
  --seconds N             time for the simulation (40)

plan --log FILE [options] replays a log, and estimates what each policy and epsilon would have won
  FILE is CSV with a header, or JSON lines. The fields are arm, propensity, reward and, if they vary, eligible (the arms
  that the policy could choose) and features (numbers). In CSV, spaces separate the items of a list.
  --reward-min R, --reward-max R   range of the rewards (0 and 1)
  --feature-norm C        bound for dp-linear (the largest sum of a decision's absolute features)
  --least-propensity P    bound for the replay (the smallest in the log); decisions with smaller propensities are then
                          replayed less often than they should be
  --delay N               decisions from a decision to its reward (0)

both
  --epsilon E,E,...       epsilons to compare (0.1,0.25,0.5,1,2)
  --policy NAME,NAME,...  policies to compare (dp-imed,dp-klucb,dp-med,dp-ts; with features also dp-linear; and
                          nonprivate-imed)
  --users-limit M         epsilon holds for M rewards of a person (1)
  --runs N                runs of each policy (as many as the time allows; for a log 5)
  --seed N                seed (1)
  --threads N             threads (all cores)
  --out DIR               directory for plan.svg and plan.csv (target/plan)";

/// The options of the command line.
pub struct Options {
    pub arms: u32,
    pub rate: f64,
    pub worst: Option<f64>,
    /// Decisions in a day.
    pub daily: u64,
    pub days: f64,
    pub delay: String,
    pub processes: u32,
    pub seconds: f64,
    pub log: Option<PathBuf>,
    pub range: (f64, f64),
    pub feature_norm: Option<f64>,
    pub least: Option<f64>,
    pub epsilons: Vec<f64>,
    pub policies: Vec<Algorithm>,
    pub users_limit: u32,
    pub runs: Option<u64>,
    pub seed: u64,
    pub threads: usize,
    pub out: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            arms: 10,
            rate: 0.05,
            worst: None,
            daily: 1_000_000,
            days: 1.0,
            delay: "0".into(),
            processes: 1,
            seconds: 40.0,
            log: None,
            range: (0.0, 1.0),
            feature_norm: None,
            least: None,
            epsilons: vec![0.1, 0.25, 0.5, 1.0, 2.0],
            policies: Vec::new(),
            users_limit: 1,
            runs: None,
            seed: 1,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            out: "target/plan".into(),
        }
    }
}

impl Options {
    /// Parses the options. Returns `None` for `--help`.
    pub fn parse(mut parser: lexopt::Parser) -> Result<Option<Options>, Box<dyn Error>> {
        let mut options = Options::default();
        while let Some(argument) = parser.next()? {
            let Arg::Long(name) = argument else { return Err(argument.unexpected().into()) };
            let name = name.to_owned();
            let mut value = || -> Result<String, Box<dyn Error>> { Ok(parser.value()?.string()?) };
            match &name[..] {
                "help" => return Ok(None),
                "arms" => options.arms = between(&name, &value()?, 2, 1 << 20)?,
                "rate" => options.rate = between(&name, &value()?, 1e-9, 1.0)?,
                "worst" => options.worst = Some(between(&name, &value()?, 0.0, 1.0)?),
                "decisions" => options.daily = between(&name, &value()?, 1, 1 << 40)?,
                "days" => options.days = between(&name, &value()?, 1e-3, 1e5)?,
                "delay" => options.delay = value()?,
                "processes" => options.processes = between(&name, &value()?, 1, 64)?,
                "seconds" => options.seconds = between(&name, &value()?, 0.1, 1e6)?,
                "log" => options.log = Some(value()?.into()),
                "reward-min" => options.range.0 = between(&name, &value()?, -1e30, 1e30)?,
                "reward-max" => options.range.1 = between(&name, &value()?, -1e30, 1e30)?,
                "feature-norm" => options.feature_norm = Some(between(&name, &value()?, 1e-30, 1e30)?),
                "least-propensity" => options.least = Some(between(&name, &value()?, 1e-9, 1.0)?),
                "epsilon" => {
                    options.epsilons =
                        value()?.split(',').map(|text| between(&name, text, 1e-6, 64.0)).collect::<Result<_, _>>()?;
                }
                "policy" => {
                    options.policies =
                        value()?.split(',').map(str::parse).collect::<Result<_, _>>().map_err(refused("--policy"))?;
                }
                "users-limit" => options.users_limit = between(&name, &value()?, 1, 255)?,
                "runs" => options.runs = Some(between(&name, &value()?, 2, 1 << 20)?),
                "seed" => options.seed = between(&name, &value()?, 0, u64::MAX)?,
                "threads" => options.threads = between(&name, &value()?, 1, 1024)?,
                "out" => options.out = value()?.into(),
                _ => return Err(Arg::Long(&name).unexpected().into()),
            }
        }
        Ok(Some(options))
    }

    fn policies(&self, features: bool) -> Vec<Algorithm> {
        if !self.policies.is_empty() {
            return self.policies.clone();
        }
        let mut policies = vec![Algorithm::Imed, Algorithm::KlUcb, Algorithm::Med, Algorithm::Ts];
        policies.extend(features.then_some(Algorithm::Linear));
        policies.push(Algorithm::NonprivateImed);
        policies
    }

    /// Each policy at each epsilon. A baseline has the first epsilon only.
    fn players(&self, features: bool) -> Vec<(Algorithm, f64)> {
        let epsilons = |policy| if is_baseline(policy) { &self.epsilons[..1] } else { &self.epsilons };
        let policies = self.policies(features).into_iter();
        policies.flat_map(|policy| epsilons(policy).iter().map(move |&epsilon| (policy, epsilon))).collect()
    }

    fn config(&self, arms: u32, epsilon: f64) -> Config {
        Config { contributions_per_user: self.users_limit, ..Config::new(arms, epsilon) }
    }

    /// The delay in decisions. The option is a number of decisions with `--log`, and a time otherwise.
    fn delay(&self) -> Result<u64, Box<dyn Error>> {
        let (number, unit) =
            self.delay.split_at(self.delay.find(|c: char| c.is_alphabetic()).unwrap_or(self.delay.len()));
        let number: f64 = between("delay", number, 0.0, 1e9)?;
        let seconds = match (unit, self.log.is_some()) {
            ("", true) => return Ok(number as u64),
            ("" | "s", false) => number,
            ("m", false) => 60.0 * number,
            ("h", false) => 3600.0 * number,
            (_, true) => return Err("--delay: must be a number of decisions with --log".into()),
            _ => return Err(format!("--delay: {} is not a time, such as 30s, 30m or 2h", self.delay).into()),
        };
        let decisions = seconds / 86_400.0 * self.daily as f64;
        if decisions > f64::from(Config::MAX_PENDING) {
            return Err(format!("--delay: {decisions:.0} decisions are open at a time, of at most 2^24").into());
        }
        Ok(decisions.ceil() as u64)
    }
}

pub fn is_baseline(policy: Algorithm) -> bool {
    policy.name().starts_with("nonprivate")
}

/// Parses a number in a range.
fn between<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
    name: &str,
    text: &str,
    low: T,
    high: T,
) -> Result<T, Box<dyn Error>> {
    let range = format!("--{name}: {:?} is not a number in {low}..={high}", text.chars().take(40).collect::<String>());
    text.trim().parse().ok().filter(|number| (&low..=&high).contains(&number)).ok_or(range.into())
}

/// Adds the name of the option or the action to an error of the library.
fn refused(what: &str) -> impl Fn(dpb::Error) -> Box<dyn Error> {
    move |error| format!("{what}: {error}").into()
}

/// Returns the text to print, with the table. Writes plan.svg and plan.csv.
pub fn plan(options: &Options) -> Result<String, Box<dyn Error>> {
    std::fs::create_dir_all(&options.out)?;
    match &options.log {
        None => simulated(options),
        Some(log) => replayed(options, log),
    }
}

/// A rounded number with commas between thousands.
fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::from(if number <= -0.5 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn simulated(options: &Options) -> Result<String, Box<dyn Error>> {
    let worst = options.worst.unwrap_or(options.rate / 5.0);
    if worst >= options.rate {
        return Err(format!("--worst: {worst} is not below --rate, {}", options.rate).into());
    }
    let arms = f64::from(options.arms);
    let world = World {
        means: (0..options.arms)
            .map(|arm| options.rate - (options.rate - worst) * f64::from(arm) / (arms - 1.0))
            .collect(),
        daily: options.daily,
        horizon: ((options.daily as f64 * options.days) as u64).max(1),
        delay: options.delay()?,
        processes: options.processes,
    };
    let player =
        |&(algorithm, epsilon): &(Algorithm, f64)| Player { algorithm, config: options.config(options.arms, epsilon) };
    let named = options.players(false);
    let (mut able, mut unable) = (Vec::new(), Vec::new());
    for (at, player) in named.iter().map(player).enumerate() {
        match player.check(&world) {
            Ok(()) => able.push((at, player)),
            Err(error) => unable.push((at, error)),
        }
    }
    let (at, players): (Vec<_>, Vec<_>) = able.into_iter().unzip();
    let losses = simulate::simulate(&world, &players, options).map_err(refused("simulating"))?;
    let mut of_player = vec![None; named.len()];
    at.iter().zip(&losses.losses).for_each(|(&at, &loss)| of_player[at] = Some(loss));

    let horizon = world.horizon as f64;
    let (most, rotation) = (world.best() * horizon, world.rotation() * horizon);
    let mut text = format!(
        "{} options with mean rewards from {} down to {worst}; {} decisions a day for {} days; \
         rewards after {} decisions; {}; epsilon is for {} of a person.\n\
         The best option wins {}; an even rotation of all loses {} of these. \
         The policies lose:\n\n",
        options.arms,
        options.rate,
        grouped(options.daily as f64),
        options.days,
        world.delay,
        plural(u64::from(options.processes), "process", "processes"),
        plural(u64::from(options.users_limit), "reward", "rewards"),
        grouped(most),
        grouped(rotation),
    );
    let cell = |loss: &Option<(f64, f64)>| match loss {
        Some((mean, error)) => format!("{} ± {} ({:.1}%)", grouped(*mean), grouped(*error), 100.0 * mean / rotation),
        None => "-".into(),
    };
    text += &by_policy(&named, &options.policies(false), &options.epsilons, |at| cell(&of_player[at]));
    text += &format!(
        "\nMean and standard error of {} simulated runs. In brackets: percent of the rotation's loss.\n",
        losses.runs
    );
    if losses.decisions < world.horizon {
        text += &format!(
            "Simulated were the first {} decisions. For the others, the loss of the last quarter is an upper estimate. \
             Increase --seconds to simulate more.\n",
            grouped(losses.decisions as f64)
        );
    }
    for (at, error) in unable {
        text += &format!("{} at epsilon {}: {error}\n", named[at].0.name(), named[at].1);
    }
    let point = |at: usize| of_player[at].map(|(mean, error)| (mean, mean - error, mean + error));
    let title = "What is lost, by epsilon".to_owned();
    draw(options, &named, title, "lost rewards", true, point, None)?;
    Ok(text + &written(options))
}

fn plural(many: u64, one: &str, more: &str) -> String {
    if many == 1 { format!("1 {one}") } else { format!("{many} {more}") }
}

fn written(options: &Options) -> String {
    format!("\nWritten: {0}/plan.svg, {0}/plan.csv\n", options.out.display())
}

/// A table with a row for each epsilon, and a column for each policy. Each baseline has a row at the end.
fn by_policy(
    named: &[(Algorithm, f64)],
    policies: &[Algorithm],
    epsilons: &[f64],
    cell: impl Fn(usize) -> String,
) -> String {
    let (baselines, private): (Vec<_>, Vec<_>) = policies.iter().copied().partition(|&policy| is_baseline(policy));
    let place = |policy, epsilon| named.iter().position(|&(p, e)| p == policy && e == epsilon);
    let header: Vec<String> =
        std::iter::once("epsilon").chain(private.iter().map(|p| p.name())).map(String::from).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    if !private.is_empty() {
        for &epsilon in epsilons {
            let cells = private.iter().map(|&policy| place(policy, epsilon).map_or("-".into(), &cell));
            rows.push(std::iter::once(epsilon.to_string()).chain(cells).collect());
        }
    }
    for policy in baselines {
        let mut row = vec![format!("none ({})", policy.name())];
        row.push(place(policy, epsilons[0]).map_or("-".into(), &cell));
        row.resize(header.len().max(2), String::new());
        rows.push(row);
    }
    let mut header = header;
    header.resize(header.len().max(2), String::new());
    table(&header, &rows)
}

/// Draws a line over epsilon for each policy, and a horizontal line for each baseline and for the log.
fn draw(
    options: &Options,
    named: &[(Algorithm, f64)],
    title: String,
    what: &'static str,
    log: bool,
    value: impl Fn(usize) -> Option<(f64, f64, f64)>,
    level: Option<(&str, f64)>,
) -> Result<(), Box<dyn Error>> {
    let ends = options.epsilons.iter().fold((f64::MAX, f64::MIN), |(low, high), &e| (low.min(e), high.max(e)));
    let ends = if ends.0 < ends.1 { [ends.0, ends.1] } else { [ends.0, 2.0 * ends.0] };
    let mut policies: Vec<Algorithm> = named.iter().map(|&(policy, _)| policy).collect();
    policies.dedup();
    let mut lines = Vec::new();
    for (colour, policy) in policies.into_iter().enumerate() {
        let places = named.iter().enumerate().filter(|(_, (p, _))| *p == policy);
        let mut points: Vec<Point> =
            places.filter_map(|(at, &(_, x))| value(at).map(|(y, low, high)| Point { x, y, low, high })).collect();
        if let (true, Some(&point)) = (is_baseline(policy), points.first()) {
            points = ends.map(|x| Point::new(x, point.y)).to_vec();
        }
        lines.push(Line::new(policy.name(), colour, points));
    }
    if let Some((name, y)) = level {
        lines.push(Line::new(name, BLACK, ends.map(|x| Point::new(x, y)).to_vec()));
    }
    lines.retain(|line| !line.points.is_empty());
    let (x, y) = (Axis { label: "epsilon", log: true }, Axis { label: what, log });
    Figure { name: "plan", columns: 1, panels: vec![Panel { title, x, y, lines }] }.write(&options.out)
}

fn replayed(options: &Options, path: &std::path::Path) -> Result<String, Box<dyn Error>> {
    if options.range.0 >= options.range.1 {
        return Err(format!("--reward-min: {} is not below --reward-max, {}", options.range.0, options.range.1).into());
    }
    let style = ProgressStyle::with_template("{msg:<12} [{bar:30}] {percent}%  {elapsed} gone, {eta} left");
    let bar = ProgressBar::new(0).with_style(style?.progress_chars("##."));
    bar.set_message("checking");
    let mut survey = replay::survey(path, options.range, &bar)?;
    bar.reset();
    bar.set_message("replaying");
    let least = options.least.unwrap_or(survey.least.0);
    let delay = options.delay()?;
    // Decisions that are not played occupy entries of the pending table too.
    let open = 1.5 * delay as f64 / least + 4096.0;
    if open > f64::from(Config::MAX_PENDING) {
        return Err(format!("--delay: {delay} played decisions are {open:.0} of the log, of at most 2^24").into());
    }
    let named = options.players(survey.features > 0);
    let candidate = |&(algorithm, epsilon): &(Algorithm, f64)| {
        let mut config = options.config(survey.arms as u32, epsilon);
        config.horizon = survey.entries;
        config.pending_capacity = open as u32;
        (config.reward_min, config.reward_max) = options.range;
        if algorithm == Algorithm::Linear {
            (config.features, config.model_per_arm) = (survey.features as u32, true);
            config.feature_norm = options.feature_norm.unwrap_or(survey.norm).max(1e-30);
        }
        Candidate { algorithm, config }
    };
    let candidates: Vec<Candidate> = named.iter().map(candidate).collect();
    let plan = replay::Plan { runs: options.runs.unwrap_or(5), seed: options.seed, least, delay: delay as usize };
    let evaluated = replay::evaluate(path, options.range, &mut survey, &candidates, plan, options.threads, &bar);
    bar.finish_and_clear();
    let (fixed, evaluations) = evaluated?;

    let played = survey.entries as f64 * least;
    let mut text = format!(
        "{}: {} decisions, {} arms, propensities from {} (line {}) on; epsilon is for {} of a person.\n\
         Mean reward of a decision, with 95% intervals, in about the first {} decisions of a policy \
         (the log's times {least}):\n\n",
        path.display(),
        grouped(survey.entries as f64),
        survey.arms,
        survey.least.0,
        survey.least.1,
        plural(u64::from(options.users_limit), "reward", "rewards"),
        grouped(played),
    );
    let shown = |estimate: &Estimate| format!("{:.5} ± {:.5}", estimate.mean, estimate.width);
    let (logged, rotation) = fixed.estimates();
    let header = ["policy", "epsilon", "inverse propensity", "self-normalised", "doubly robust"].map(String::from);
    let mut rows = vec![vec!["the log's own".into(), "-".into(), shown(&logged), "-".into(), "-".into()]];
    let mut row = vec!["even rotation".into(), "-".into()];
    row.extend(rotation.iter().map(shown));
    rows.push(row);
    let mut notes = Vec::new();
    for ((policy, epsilon), evaluation) in named.iter().zip(&evaluations) {
        let epsilon = if is_baseline(*policy) { "none".into() } else { epsilon.to_string() };
        match evaluation {
            Ok(evaluation) => {
                let mut row = vec![policy.name().to_owned(), epsilon];
                row.extend(evaluation.estimates.iter().map(shown));
                rows.push(row);
                notes.extend(doubt(evaluation, played).map(|doubt| format!("{}: {doubt}\n", policy.name())));
            }
            Err(error) => notes.push(format!("{}: {error}\n", policy.name())),
        }
    }
    notes.dedup();
    text += &table(&header, &rows);
    if played < 10.0 * survey.arms as f64 {
        notes.push(format!(
            "Too few decisions can be replayed: log with exploration, or see line {}.\n",
            survey.least.1
        ));
    }
    if !notes.is_empty() {
        text += &format!("\n{}", notes.concat());
    }
    let point = |at: usize| {
        let estimate = evaluations[at].as_ref().ok()?.estimates[2];
        Some((estimate.mean, estimate.mean - estimate.width, estimate.mean + estimate.width))
    };
    let title = "What would have been won (doubly robust), by epsilon".to_owned();
    draw(options, &named, title, "mean reward", false, point, Some(("the log's own policy", logged.mean)))?;
    Ok(text + &written(options))
}

/// A warning if the weights or the number of played decisions contradict the propensities.
fn doubt(evaluation: &Evaluation, expected: f64) -> Option<String> {
    const DEVIATIONS: f64 = 5.0;
    let (weight, played) = (evaluation.weight, evaluation.played);
    if (weight.mean - 1.0).abs() > DEVIATIONS * weight.width.max(1e-9) {
        return Some(format!(
            "the weights have mean {:.3} and not 1: propensities are wrong, or an eligible arm had propensity 0",
            weight.mean
        ));
    }
    ((played - expected).abs() > DEVIATIONS * expected.sqrt() + 1.0)
        .then(|| format!("played {played:.0} decisions instead of {expected:.0}: propensities are wrong"))
}
