//! libdpb's experiment with a trace: 550 days of views of nine Wikipedia pages, in their order, so the drift is real. A
//! box on a portal shows one of the pages. A visitor who came for that page clicks.

use super::Options;
use super::drift::{World, discounted_ts, play};
use super::environment::Player;
use super::plot::{Axis, BLACK, Figure, Line, Panel, Strength, mean_curve, table};
use super::runner::{Cell, Curve, Sample, run as run_cells};
use dpb::Algorithm;
use std::error::Error;
use std::sync::LazyLock;

/// The views, with a column for each page and a row for each day. data/wikipedia.py describes their source.
const VIEWS: &str = include_str!("data/wikipedia.csv");
const PAGES: usize = 9;

/// A day of the trace.
struct Day {
    /// The fraction of all views of the trace that are over at the end of the day.
    until: f64,
    /// The fraction of the day's views for each page.
    shares: [f64; PAGES],
}

static DAYS: LazyLock<Vec<Day>> = LazyLock::new(|| {
    let number = |cell: &str| cell.parse::<f64>().expect("a count");
    let row = |line: &str| -> Vec<f64> { line.split(',').skip(1).map(number).collect() };
    let days: Vec<Vec<f64>> = VIEWS.lines().skip(1).map(row).collect();
    let all: f64 = days.iter().flatten().sum();
    let mut seen = 0.0;
    let day = |views: &Vec<f64>| {
        let today: f64 = views.iter().sum();
        seen += today;
        Day { until: seen / all, shares: std::array::from_fn(|page| views[page] / today) }
    };
    days.iter().map(day).collect()
});

/// The trace as Bernoulli rewards: the mean of an arm is its page's share of the day's views.
pub const WORLD: World = World { name: "Wikipedia", arms: PAGES, means: today };

fn today(time: f64, means: &mut [f64]) -> f64 {
    let day = &DAYS[DAYS.partition_point(|day| day.until <= time).min(DAYS.len() - 1)];
    means.copy_from_slice(&day.shares);
    day.until
}

/// The expected clicks up to each of these times. `rule` computes the fraction of a day's visitors who click from the
/// pages' shares of the day.
pub fn clicks(at: &[u64], rule: fn(&[f64]) -> f64) -> Curve {
    let (mut means, mut sum, mut time, horizon) = ([0.0; PAGES], 0.0, 0.0, at[at.len() - 1] as f64);
    let mut until = |end: f64| {
        while time < end {
            let day = (today((time + 0.5) / horizon, &mut means) * horizon).round().clamp(time + 1.0, end);
            sum += rule(&means) * (day - time);
            time = day;
        }
        sum
    };
    at.iter().map(|&end| until(end as f64)).collect()
}

/// The number of the page with the most views in total: Hoshino Gen.
pub const MOST_READ: usize = 5;

const EPSILONS: [f64; 2] = [1.0, 0.25];
/// The label, the policy, `forget_after` in half months, and the colour of the line if it is in the plot.
const PLAYERS: [(&str, Algorithm, u64, Option<usize>); 7] = [
    ("IMED, not private", Algorithm::NonprivateImed, 0, Some(6)),
    ("DP-IMED, no memory", Algorithm::Imed, 0, Some(1)),
    ("DP-IMED, M three months", Algorithm::Imed, 6, None),
    ("DP-IMED, M a month", Algorithm::Imed, 2, Some(0)),
    ("DP-IMED, M half a month", Algorithm::Imed, 1, None),
    ("DP-MED, no memory", Algorithm::Med, 0, None),
    ("DP-MED, M a month", Algorithm::Med, 2, Some(2)),
];
/// The number of days between two points of the plot.
const PERIOD: usize = 25;

/// A row of the table: the clicks up to each point of the plot, at each epsilon, and the line's colour and strength.
struct Row {
    label: &'static str,
    clicks: [Sample; 2],
    line: Option<(usize, Strength)>,
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    // One visitor in ten plays: 3345 a day on average, 50,000 in half a month.
    let (horizon, half_month) = options.pick((46_000, 1_250), (1_840_000, 50_000));
    let runs = options.runs(2, 24);
    let periods = DAYS.chunks(PERIOD).map(|days| days[days.len() - 1].until * horizon as f64);
    let at: &Vec<u64> = &periods.map(|time| time.round() as u64).collect();
    let mut cells = Vec::new();
    for (label, algorithm, memory, _) in PLAYERS {
        for epsilon in EPSILONS {
            let mut player = Player::new(label, algorithm, PAGES, epsilon, 0.0);
            player.config.forget_after = memory * half_month;
            cells.push(Cell::new(runs, move |trial| play(&player, &WORLD, at, trial)));
        }
    }
    for months in [0.025, 0.1, 0.4] {
        let memory = months * 2.0 * half_month as f64;
        cells.push(Cell::new((runs / 4).max(1), move |trial| discounted_ts(memory, &WORLD, at, trial)));
    }
    let samples = run_cells("trace", &cells, options);

    // The regret is relative to the best page of each day, so clicks are the best page's clicks minus the regret.
    let best = clicks(at, |shares| shares.iter().copied().fold(0.0, f64::max));
    let in_clicks = |lost: &Curve| best.iter().zip(lost).map(|(best, lost)| best - lost).collect();
    let samples: Vec<Sample> = samples.iter().map(|s| Sample(s.0.iter().map(in_clicks).collect())).collect();
    let (played, fading) = samples.split_at(PLAYERS.len() * EPSILONS.len());
    let fading = fading.iter().max_by(|x, y| x.last_mean().0.total_cmp(&y.last_mean().0)).expect("three");
    let same = |label, clicks: Sample, line| Row { label, clicks: [clicks.clone(), clicks], line: Some(line) };
    let known = |rule| Sample(vec![clicks(at, rule)]);
    let mut rows = vec![
        same("uniform", known(|_| 1.0 / PAGES as f64), (BLACK, Strength::Faint)),
        same("page most read in all", known(|shares| shares[MOST_READ]), (BLACK, Strength::Thin)),
        same("best page of each day", Sample(vec![best]), (BLACK, Strength::Dashed)),
        same("discounted TS, not private", fading.clone(), (3, Strength::Bold)),
    ];
    for ((label, _, _, colour), clicks) in PLAYERS.into_iter().zip(played.chunks(EPSILONS.len())) {
        let clicks = [clicks[0].clone(), clicks[1].clone()];
        rows.push(Row { label, clicks, line: colour.map(|colour| (colour, Strength::Bold)) });
    }

    let days: Vec<u64> = (1..=at.len()).map(|period| (period * PERIOD) as u64).collect();
    let panel = |(number, epsilon): (usize, f64)| {
        let line = |row: &Row| {
            let (colour, strength) = row.line?;
            let points = mean_curve(&days, &per_hundred(&row.clicks[number], at));
            Some(Line { strength, ..Line::new(row.label, colour, points) })
        };
        let (x, y) = (Axis { label: "day", log: false }, Axis { label: "clicks of 100 visitors", log: false });
        Panel { title: format!("eps = {epsilon}"), x, y, lines: rows.iter().filter_map(line).collect() }
    };
    let panels = EPSILONS.into_iter().enumerate().map(panel).collect();
    Figure { name: "trace", columns: 2, panels }.write(&options.out)?;
    let cell = |sample: &Sample| {
        let (clicks, error) = sample.last_mean();
        let (clicks, error) = (100.0 * clicks / horizon as f64, 100.0 * error / horizon as f64);
        // The rules have no random part, and so no error.
        if sample.0.len() == 1 { format!("{clicks:.2}") } else { format!("{clicks:.2} ± {error:.2}") }
    };
    let header = ["clicks of 100 visitors", "eps 1", "eps 0.25"].map(String::from);
    let row = |row: &Row| vec![row.label.into(), cell(&row.clicks[0]), cell(&row.clicks[1])];
    let rows: Vec<_> = rows.iter().map(row).collect();
    Ok(format!("T = {horizon}, {runs} runs (a quarter of TS): mean ± standard error.\n\n{}", table(&header, &rows)))
}

/// The clicks of 100 visitors between each two of these times, from cumulative clicks.
fn per_hundred(sums: &Sample, at: &[u64]) -> Sample {
    let steps = |values: &[f64]| -> Curve {
        values.iter().scan(0.0, |before, &value| Some(value - std::mem::replace(before, value))).collect()
    };
    let times = steps(&at.iter().map(|&time| time as f64).collect::<Curve>());
    let rates = |sums: &Curve| steps(sums).iter().zip(&times).map(|(clicks, time)| 100.0 * clicks / time).collect();
    Sample(sums.0.iter().map(rates).collect())
}
