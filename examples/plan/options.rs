//! The options of the command line.

use super::schedule::Limits;
use super::simulate::World;
use dpb::{Algorithm, Config};
use lexopt::{Arg, ValueExt};
use std::error::Error;
use std::path::PathBuf;

pub const HELP: &str = "\
Estimates the cost of privacy: simulates your service, or replays its log. Defaults are in parentheses. A time T is 30s,
30m, 2h or 7d, or a number of decisions.

plan [options]            simulates a service, and estimates what each policy and epsilon loses
  --arms N                number of arms (10)
  --rate R                probability of a reward for the best arm (0.05)
  --worst R               probability of a reward for the worst arm; the others are evenly spaced (a fifth of --rate). With
                          --tolerance it may be --rate: all arms are alike
  --amount A              mean of a reward, before --reward-max limits it; rewards are exponentially distributed (every
                          reward is --reward-max)
  --spread S              with --amount: rewards are A exp(S N - S^2/2), N normal, in place of exponential (0)
  --payouts S             a reward of an arm is worth exp(S N) times exp(S N') in a request, at most 12; N and N' are
                          normal, for each arm and for each arm in each request. Policies that do not play for values are
                          left out (0: all rewards are worth the same)
  --costs C               to play an arm costs C U exp(N/2): U is uniform in 0..1, for each arm, and N is normal, for each arm
                          in each request. What is lost is value minus cost (0: nothing costs anything)
  --abstain               with --costs: a decision may choose no arm
  --slots N               different arms that each decision chooses (1)
  --max-clicks C          epsilon is for a decision with all its slots, and at most C of its rewards count (epsilon is for
                          one reward)
  --decisions N           decisions in a day (1000000)
  --days N                number of days (1)
  --change-every T        after each T the arms exchange their probabilities at random (never)
  --forget-after T        the policies forget what is older; those that cannot are left out (never)
  --delay T               from a decision to its reward (0)
  --processes N           processes that share the decisions and merge every minute (1)
  --people N              people who make the decisions; policies learn from at most --users-limit decisions of a person
                          in a period. For one process (there is no such limit)
  --period T              with --people, the length of a period (for ever)
  --lose L                says for each policy which epsilon loses at most this share of what the best arms win, such as 3%
  --seconds N             time for the simulation (40)

plan --winner [options]   simulates an A/B test that stops, and estimates how long it runs
  The options are those above, without --slots, --max-clicks, --change-every, --forget-after, --people, --period and
  --learn-clip.
  --days is the longest test (365).
  --confidence C          probability that the winner is the best arm (0.95)
  --tolerance D           a difference of two means that does not matter: the test may also end with an arm that no
                          other is better than by D or more (0)
  --winners K             how many of the best arms the test looks for (1)

plan --log FILE [options] replays a log, and estimates what each policy and epsilon would have won
  FILE is CSV with a header, or JSON lines. The fields are arm, propensity, reward and, if they vary, eligible (the arms
  that the policy could choose), values (what a reward of each of these was worth), costs (what it cost to play each of
  these), examined (how likely a visitor examined the slot; propensities are then those of the arm in this slot) and
  features (numbers). In CSV, spaces separate the items of a list. The log is read twice, so it cannot be a pipe.
  --reward-min R          smallest reward (0)
  --least-propensity P    bound for the replay (the smallest in the log); decisions with smaller propensities are then
                          replayed less often than they should be
  --delay N               decisions from a decision to its reward (0)

both
  --reward-max R          largest reward (1)
  --learn-clip            dp-imed learns at which amount it clips rewards, so --reward-max need not be close
  --epsilon E,E,...       epsilons to compare (0.1,0.25,0.5,1,2; with --lose 0.02,0.05,0.1,0.2,0.5,1,2,5)
  --policy NAME,NAME,...  policies to compare (dp-imed,dp-med; with features also dp-linear; and
                          nonprivate-imed; with --winner dp-tt)
  --users-limit M         epsilon holds for M rewards of a person (1)
  --runs N                complete runs of each policy (what the time allows; for a log 5; with --winner up to 100)
  --seed N                seed (1)
  --threads N             threads (all cores)
  --out DIR               directory for plan.svg and plan.csv (target/plan)";

/// The options that a replay does not have, and those that only a replay has.
const SIMULATION: &[&str] = &[
    "arms",
    "rate",
    "worst",
    "amount",
    "spread",
    "payouts",
    "costs",
    "abstain",
    "slots",
    "max-clicks",
    "decisions",
    "days",
    "change-every",
    "forget-after",
    "processes",
    "people",
    "period",
    "lose",
    "seconds",
];
/// Those that a test does not have, and those that only a test has.
const NO_TEST: &[&str] =
    &["slots", "max-clicks", "change-every", "forget-after", "people", "period", "lose", "learn-clip"];
const TEST: &[&str] = &["confidence", "tolerance", "winners"];
const REPLAY: &[&str] = &["reward-min", "least-propensity"];

/// A part of the decisions.
#[derive(Clone, Copy)]
pub enum Span {
    Decisions(u64),
    Seconds(f64),
}

pub struct Options {
    pub arms: u32,
    pub rate: f64,
    pub worst: Option<f64>,
    pub amount: Option<f64>,
    pub spread: f64,
    pub payouts: f64,
    pub costs: f64,
    pub abstain: bool,
    pub slots: u32,
    pub max_clicks: u32,
    /// Decisions in a day.
    pub daily: u64,
    /// `None`: as many as usual.
    pub days: Option<f64>,
    pub change_every: Span,
    pub forget_after: Span,
    pub delay: Span,
    pub processes: u32,
    /// 0 = no limit for each person.
    pub people: u64,
    pub period: Span,
    /// The share of what the best arms win that may be lost.
    pub lose: Option<f64>,
    pub seconds: f64,
    /// Whether the service is a test that stops, at this confidence.
    pub winner: bool,
    pub confidence: f64,
    pub tolerance: f64,
    pub winners: u32,
    pub log: Option<PathBuf>,
    pub range: (f64, f64),
    pub learn_clip: bool,
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
            amount: None,
            spread: 0.0,
            payouts: 0.0,
            costs: 0.0,
            abstain: false,
            slots: 1,
            max_clicks: 0,
            daily: 1_000_000,
            days: None,
            change_every: Span::Decisions(0),
            forget_after: Span::Decisions(0),
            delay: Span::Decisions(0),
            processes: 1,
            people: 0,
            period: Span::Decisions(0),
            lose: None,
            seconds: 40.0,
            winner: false,
            confidence: 0.95,
            tolerance: 0.0,
            winners: 1,
            log: None,
            range: (0.0, 1.0),
            learn_clip: false,
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
        let (mut options, mut given) = (Options::default(), Vec::new());
        while let Some(argument) = parser.next()? {
            let Arg::Long(name) = argument else { return Err(argument.unexpected().into()) };
            let name = name.to_owned();
            let mut value = || -> Result<String, Box<dyn Error>> { Ok(parser.value()?.string()?) };
            match &name[..] {
                "help" => return Ok(None),
                "arms" => options.arms = between(&name, &value()?, 2, 1 << 20)?,
                "rate" => options.rate = between(&name, &value()?, 1e-9, 1.0)?,
                "worst" => options.worst = Some(between(&name, &value()?, 0.0, 1.0)?),
                "amount" => options.amount = Some(between(&name, &value()?, 1e-30, 1e30)?),
                "spread" => options.spread = between(&name, &value()?, 0.0, 3.0)?,
                "payouts" => options.payouts = between(&name, &value()?, 0.0, 3.0)?,
                "costs" => options.costs = between(&name, &value()?, 0.0, 1e30)?,
                "abstain" => options.abstain = true,
                "slots" => options.slots = between(&name, &value()?, 1, 1 << 10)?,
                "max-clicks" => options.max_clicks = between(&name, &value()?, 1, 1 << 10)?,
                "decisions" => options.daily = between(&name, &value()?, 1, 1 << 40)?,
                "days" => options.days = Some(between(&name, &value()?, 1e-3, 1e5)?),
                "change-every" => options.change_every = span(&name, &value()?)?,
                "forget-after" => options.forget_after = span(&name, &value()?)?,
                "delay" => options.delay = span(&name, &value()?)?,
                "processes" => options.processes = between(&name, &value()?, 1, 64)?,
                "people" => options.people = between(&name, &value()?, 1, 1 << 28)?,
                "period" => options.period = span(&name, &value()?)?,
                "lose" => {
                    let text = value()?;
                    let share = match text.strip_suffix('%') {
                        Some(percent) => between(&name, percent, 1e-4, 100.0)? / 100.0,
                        None => between(&name, &text, 1e-6, 1.0)?,
                    };
                    options.lose = Some(share);
                }
                "seconds" => options.seconds = between(&name, &value()?, 0.1, 1e6)?,
                "winner" => options.winner = true,
                "tolerance" => options.tolerance = between(&name, &value()?, 0.0, 1e290)?,
                "winners" => options.winners = between(&name, &value()?, 1, 255)?,
                "confidence" => options.confidence = between(&name, &value()?, 0.5, 0.999_999_999)?,
                "log" => options.log = Some(value()?.into()),
                "reward-min" => options.range.0 = between(&name, &value()?, -1e30, 1e30)?,
                "reward-max" => options.range.1 = between(&name, &value()?, -1e30, 1e30)?,
                "learn-clip" => options.learn_clip = true,
                "least-propensity" => options.least = Some(between(&name, &value()?, 1e-9, 1.0)?),
                "epsilon" => {
                    options.epsilons =
                        value()?.split(',').map(|text| between(&name, text, 1e-6, 64.0)).collect::<Result<_, _>>()?;
                }
                "policy" => {
                    let policies = value()?.split(',').map(str::parse).collect::<Result<_, _>>();
                    options.policies = policies.map_err(|error: dpb::Error| format!("--policy: {error}"))?;
                }
                "users-limit" => options.users_limit = between(&name, &value()?, 1, 255)?,
                "runs" => options.runs = Some(between(&name, &value()?, 2, 1 << 20)?),
                "seed" => options.seed = between(&name, &value()?, 0, u64::MAX)?,
                "threads" => options.threads = between(&name, &value()?, 1, 1024)?,
                "out" => options.out = value()?.into(),
                _ => return Err(Arg::Long(&name).unexpected().into()),
            }
            given.push(name);
        }
        if options.lose.is_some() && !given.iter().any(|name| name == "epsilon") {
            options.epsilons = vec![0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
        }
        let (with_log, winner) = (options.log.is_some(), options.winner);
        let meaningless = [
            (SIMULATION, with_log, "with --log"),
            (&["winner"], with_log, "with --log"),
            (REPLAY, !with_log, "without --log"),
            (NO_TEST, winner, "with --winner"),
            (TEST, !winner, "without --winner"),
        ];
        for (others, applies, when) in meaningless {
            if let Some(name) = given.iter().find(|name| applies && others.contains(&&name[..])) {
                return Err(format!("--{name}: has no meaning {when}").into());
            }
        }
        options.check().map(Some)
    }

    fn check(self) -> Result<Options, Box<dyn Error>> {
        let (low, high) = self.range;
        let problem = if low >= high {
            format!("--reward-max: {high} is not above the smallest reward, {low}")
        } else if self.worst() > self.rate || (self.worst() == self.rate && self.tolerance == 0.0) {
            // Arms that are alike end a test with a tolerance only.
            format!("--worst: {} is not below --rate, {}", self.worst(), self.rate)
        } else if self.slots >= self.arms {
            format!("--slots: {} is not below --arms, {}", self.slots, self.arms)
        } else if self.max_clicks > self.slots {
            format!("--max-clicks: {} is above --slots, {}", self.max_clicks, self.slots)
        } else if self.amount.is_some_and(|amount| amount > high) {
            format!("--amount: is above --reward-max, {high}")
        } else if self.spread > 0.0 && self.amount.is_none() {
            "--spread: has no meaning without --amount".into()
        } else if self.abstain && (self.costs == 0.0 || self.slots > 1) {
            "--abstain: has no meaning without --costs, or with --slots".into()
        } else if self.people > 0 && self.processes > 1 {
            format!(
                "--people: has no meaning with --processes {}, because a fleet sends each person to one",
                self.processes
            )
        } else if self.people == 0 && self.decisions(self.period) > 0 {
            "--period: has no meaning without --people".into()
        } else if let (Some(_), Span::Seconds(_)) = (&self.log, self.delay) {
            "--delay: must be a number of decisions with --log".into()
        } else {
            return Ok(self);
        };
        Err(problem.into())
    }

    pub fn worst(&self) -> f64 {
        self.worst.unwrap_or(self.rate / 5.0)
    }

    /// The number of days; with `winner` the most that a test takes.
    pub fn days(&self) -> f64 {
        self.days.unwrap_or(if self.winner { 365.0 } else { 1.0 })
    }

    /// The number of decisions in this span, rounded up.
    pub fn decisions(&self, span: Span) -> u64 {
        match span {
            Span::Decisions(number) => number,
            Span::Seconds(seconds) => (seconds / 86_400.0 * self.daily as f64).ceil() as u64,
        }
    }

    pub fn policies(&self, features: bool) -> Vec<Algorithm> {
        if !self.policies.is_empty() {
            return self.policies.clone();
        }
        if self.winner {
            return vec![Algorithm::TopTwo];
        }
        let mut policies = vec![Algorithm::Imed, Algorithm::Med];
        policies.extend(features.then_some(Algorithm::Linear));
        policies.push(Algorithm::NonprivateImed);
        policies
    }

    /// Each policy at each epsilon. A baseline has the first epsilon only.
    pub fn players(&self, features: bool) -> Vec<(Algorithm, f64)> {
        let epsilons = |policy| if super::is_baseline(policy) { &self.epsilons[..1] } else { &self.epsilons };
        let policies = self.policies(features).into_iter();
        policies.flat_map(|policy| epsilons(policy).iter().map(move |&epsilon| (policy, epsilon))).collect()
    }

    /// The simulated service.
    pub fn world(&self) -> Result<World, Box<dyn Error>> {
        let step = (self.rate - self.worst()) / f64::from(self.arms - 1);
        let world = World {
            rates: (0..self.arms).map(|arm| self.rate - step * f64::from(arm)).collect(),
            amount: self.amount,
            spread: self.spread,
            most: self.range.1,
            payouts: self.payouts,
            costs: self.costs,
            abstain: self.abstain,
            tolerance: self.tolerance,
            winners: self.winners,
            slots: self.slots,
            change_every: self.decisions(self.change_every),
            daily: self.daily,
            horizon: ((self.daily as f64 * self.days()) as u64).max(1),
            // The library draws the rewards that count when a decision's window ends.
            delay: self.decisions(self.delay).max(u64::from(self.max_clicks > 0)),
            processes: self.processes,
            people: self.people,
            period: self.decisions(self.period),
        };
        let open = (world.delay + 1).saturating_mul(self.slots.into());
        if open > u64::from(Config::MAX_PENDING) {
            return Err(format!("--delay: {open} rewards are open at a time, of at most 2^24").into());
        }
        Ok(world)
    }

    /// How much of it is simulated.
    pub fn limits(&self) -> Result<Limits, Box<dyn Error>> {
        /// The runs of each policy without `--runs`: the first ones, for a useful standard error, and the most. More
        /// would reduce it too little for their time.
        const RUNS: [u64; 2] = [4, 24];
        /// The most tests.
        const TESTS: u64 = 100;
        /// The most memory of all handles at a time, in bytes.
        const MEMORY: u64 = 8 << 30;
        let (players, threads) = (self.players(false).len(), self.threads);
        let limits = match self.runs {
            Some(runs) => Limits { first_runs: runs, most_runs: runs, seconds: f64::INFINITY, threads },
            None => {
                let first_runs = RUNS[0].max((threads / players) as u64); // otherwise threads have nothing to do
                let most = if self.winner { TESTS } else { RUNS[1] };
                Limits { first_runs, most_runs: most.max(first_runs), seconds: self.seconds, threads }
            }
        };
        // With limited time, the first runs of all players are in memory. dp-imed takes most for each arm.
        let runs = self.runs.map_or(limits.first_runs * players as u64, |_| threads as u64);
        let memory = runs * u64::from(self.processes) * (2000 + 648 * u64::from(self.arms) + 12 * self.people);
        if memory > MEMORY {
            let gigabytes = memory >> 30;
            let fewer = "fewer arms, processes, policies or epsilons, or set --runs";
            return Err(format!("--arms: {runs} runs at a time take up to {gigabytes} GB: {fewer}").into());
        }
        Ok(limits)
    }

    pub fn config(&self, policy: Algorithm, arms: u32, epsilon: f64) -> Config {
        let config = Config::new(arms, epsilon);
        let learn_clip = self.learn_clip && policy == Algorithm::Imed;
        Config {
            learn_clip,
            reward_bits: if learn_clip { 24 } else { config.reward_bits },
            beta: if self.winner { 1.0 - self.confidence } else { 0.0 },
            tolerance: self.tolerance,
            winners: if policy == Algorithm::TopTwo { self.winners } else { 0 },
            contributions_per_user: self.users_limit,
            expected_users: self.people,
            reward_min: self.range.0,
            reward_max: self.range.1,
            forget_after: self.decisions(self.forget_after),
            max_slots: if self.max_clicks > 0 { self.slots } else { 0 },
            max_clicks: if self.max_clicks < self.slots { self.max_clicks } else { 0 },
            ..config
        }
    }
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

/// Parses a time with its unit, or a number of decisions.
fn span(name: &str, text: &str) -> Result<Span, Box<dyn Error>> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    for (unit, seconds) in units {
        if let Some(number) = text.strip_suffix(unit) {
            return Ok(Span::Seconds(seconds * between(name, number, 0.0, 1e9)?));
        }
    }
    let number = between(name, text, 0, 1 << 40);
    number.map(Span::Decisions).map_err(|_| {
        format!("--{name}: {text:?} is neither a time, such as 30s, 30m, 2h or 7d, nor a number of decisions").into()
    })
}
