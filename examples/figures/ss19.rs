//! Sajed and Sheffet (2019), Section 5, Figures 1 to 12: DP-SE against the paper's "DP-UCB" (Mishra and Thakurta 2015),
//! which is libdpb's Private-UCB. Each of its trees has eps, as the paper describes it, or eps/K.

use super::Options;
use super::environment::{SS19, Setting, log_times};
use super::fast;
use super::plot::{Axis, BLACK, Figure, Line, Panel, Strength, mean_curve, table};
use super::runner::{Cell, Curve, Sample, Trial, run as run_cells};
use std::error::Error;

const EPSILONS: [f64; 4] = [0.1, 0.25, 0.5, 1.0];
const ARMS: [usize; 4] = [3, 5, 10, 20];

type Simulation = fn(f64, &Setting, &[u64], Trial) -> Curve;
const PLAYERS: [(&str, Simulation); 3] =
    [("DP-SE", fast::dp_se), ("DP-UCB", fast::private_ucb), ("DP-UCB, eps/K", fast::shared_private_ucb)];

fn names() -> impl Iterator<Item = &'static str> {
    PLAYERS.into_iter().map(|(name, _)| name)
}

/// One setting of the paper: the instance's place in `SS19`, K, and eps.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    instance: usize,
    arms: usize,
    epsilon: f64,
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(1_000_000, 50_000_000), [30, options.runs(5, 30), options.runs(5, 10)]);
    let at = log_times(1_000, horizon, 80);
    let mut places = Vec::new();
    for instance in 0..SS19.len() {
        places.extend(EPSILONS.map(|epsilon| Place { instance, arms: 5, epsilon }));
        for arms in ARMS.into_iter().filter(|&arms| arms != 5) {
            places.extend([0.1, 1.0].map(|epsilon| Place { instance, arms, epsilon }));
        }
    }
    let settings: Vec<Setting> =
        places.iter().map(|place| Setting::new(&SS19[place.instance].1(place.arms), horizon)).collect();
    let mut cells = Vec::new();
    for (place, setting) in places.iter().zip(&settings) {
        for ((_, simulation), runs) in PLAYERS.into_iter().zip(runs) {
            let (at, epsilon) = (&at, place.epsilon);
            cells.push(Cell::new(runs, move |trial| simulation(epsilon, setting, at, trial)));
        }
    }
    let samples = run_cells("ss19", &cells, options);
    let samples_of = |place: Place| {
        let number = places.iter().position(|&p| p == place).expect("played");
        [&samples[3 * number], &samples[3 * number + 1], &samples[3 * number + 2]]
    };
    let panel = |title: String, shown: &[(String, Place)]| {
        let mut lines = Vec::new();
        let strengths = [Strength::Bold, Strength::Thin, Strength::Faint];
        for (colour, (label, place)) in shown.iter().enumerate() {
            // The legend shows the colour of each setting, and below in black the line style of each policy.
            lines.push(Line::new(label, colour, Vec::new()));
            for ((name, strength), sample) in names().zip(strengths).zip(samples_of(*place)) {
                let (label, points) = (format!("{name}, {label}"), mean_curve(&at, sample));
                lines.push(Line { strength, named: false, ..Line::new(&label, colour, points) });
            }
        }
        for (name, strength) in names().zip(strengths) {
            lines.push(Line { strength, ..Line::new(name, BLACK, Vec::new()) });
        }
        let (x, y) = (Axis { label: "decisions", log: true }, Axis { label: "pseudo-regret", log: true });
        Panel { title, x, y, lines }
    };
    let mut by_epsilon = Vec::new();
    for (instance, (name, _)) in SS19.iter().enumerate() {
        let shown = EPSILONS.map(|epsilon| (format!("eps {epsilon}"), Place { instance, arms: 5, epsilon }));
        by_epsilon.push(panel(format!("Figure {}: {name}, K = 5", instance + 1), &shown));
    }
    let mut by_arms = Vec::new();
    for (instance, (name, _)) in SS19.iter().enumerate() {
        for (low, epsilon) in [0.1, 1.0].into_iter().enumerate() {
            let shown = ARMS.map(|arms| (format!("K = {arms}"), Place { instance, arms, epsilon }));
            let figure = 5 + 2 * instance + low;
            by_arms.push(panel(format!("Figure {figure}: {name}, eps = {epsilon}"), &shown));
        }
    }
    Figure { name: "ss19_epsilon", columns: 2, panels: by_epsilon }.write(&options.out)?;
    Figure { name: "ss19_arms", columns: 2, panels: by_arms }.write(&options.out)?;
    let rows: Vec<Ratio> = places.iter().map(|&place| Ratio::of(place, samples_of(place))).collect();
    Ok(report(horizon, runs, &rows))
}

struct Ratio {
    place: Place,
    /// The mean and the standard error of the regret at T, for each policy.
    ends: [(f64, f64); 3],
}

impl Ratio {
    fn of(place: Place, samples: [&Sample; 3]) -> Ratio {
        Ratio { place, ends: samples.map(Sample::last_mean) }
    }

    fn to_dp_se(&self, player: usize) -> f64 {
        self.ends[player].0 / self.ends[0].0
    }
}

fn report(horizon: u64, runs: [u64; 3], rows: &[Ratio]) -> String {
    let header = ["instance", "K", "eps", "DP-SE", "DP-UCB", "ratio", "DP-UCB, eps/K", "ratio"].map(String::from);
    let line = |row: &Ratio| {
        let Place { instance, arms, epsilon } = row.place;
        let mut cells = vec![SS19[instance].0.into(), arms.to_string(), epsilon.to_string()];
        for (player, (mean, error)) in row.ends.into_iter().enumerate() {
            cells.push(format!("{mean:.0} ± {error:.0}"));
            if player > 0 {
                cells.push(format!("{:.1}", row.to_dp_se(player)));
            }
        }
        cells
    };
    let lines: Vec<_> = rows.iter().map(line).collect();
    let mut text = format!(
        "T = {horizon}; {} runs of DP-SE, {} of DP-UCB, {} of DP-UCB with eps/K a tree; mean pseudo-regret at T ± \
         standard error.\n\n{}",
        runs[0],
        runs[1],
        runs[2],
        table(&header, &lines)
    );
    for player in [1, 2] {
        let ratio = |row: &Ratio| row.to_dp_se(player);
        let least = rows.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b))).expect("some rows");
        let count = |bound: f64| rows.iter().filter(|row| ratio(row) >= bound).count();
        text += &format!(
            "\nAgainst {}: DP-SE wins in {} of {} settings, by 5 times or more in {}. Least ratio {:.2}: {}, K = {}, \
             eps = {}.\n",
            PLAYERS[player].0,
            count(1.0),
            rows.len(),
            count(5.0),
            ratio(least),
            SS19[least.place.instance].0,
            least.place.arms,
            least.place.epsilon,
        );
    }
    text
}
