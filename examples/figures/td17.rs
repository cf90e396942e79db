//! Tossou and Dimitrakakis (2017), Section 4, Figure 1: EXP3, DP-EXP3-Lap and EXP3_tau against five
//! adversaries, K = 4, T = 2^18.

use super::Options;
use super::adversaries::{ADVERSARIES, Adversary, median_of_means, papers_level};
use super::environment::Player;
use super::plot::{Axis, Figure, Line, Panel, Point, table};
use super::runner::{Cell, Curve, Sample, Trial, run as run_cells};
use dpb::{Algorithm, Config};
use std::error::Error;

const ARMS: u32 = 4;
const ROUNDS: u64 = 1 << 18;
const GROUPS: usize = 24;

/// The suffix of the panel titles, the name of the figure, and the policies.
type Level = (&'static str, &'static str, Vec<Player>);

/// The epsilon that the paper's Corollary 3.2 states for its tau.
fn printed_level(rounds: f64, arms: f64) -> f64 {
    28.0 * arms * arms.ln() + (112.0 * arms * arms.ln() * rounds.ln()).sqrt()
}

fn levels() -> [Level; 2] {
    let (t, k) = (ROUNDS as f64, f64::from(ARMS));
    let config = |epsilon| Config { horizon: ROUNDS, delta: t.powi(-2), ..Config::new(ARMS, epsilon) };
    let player = |label: &str, algorithm, epsilon| Player { label: label.into(), algorithm, config: config(epsilon) };
    let at = |label, algorithm, epsilon| player(&format!("{label}, eps {epsilon:.1}"), algorithm, epsilon);
    let (printed, sharp) = (printed_level(t, k), papers_level(ROUNDS as usize, ARMS));
    let mut batched = player("DP-EXP3-Lap in batches", Algorithm::Exp3Lap, 1.0);
    batched.config.batch = (2.0 * t.ln()).ceil() as u32;
    [
        (
            "",
            "td17",
            vec![
                player("EXP3 (not private)", Algorithm::NonprivateExp3, 1.0),
                at("DP-EXP3-Lap", Algorithm::Exp3Lap, printed),
                at("DP-EXP3-Lap", Algorithm::Exp3Lap, sharp),
                at("EXP3_tau", Algorithm::Exp3Tau, sharp),
                at("Tsallis", Algorithm::Tsallis, sharp),
            ],
        ),
        (
            ", eps = 1",
            "td17_eps1",
            vec![
                player("EXP3 (not private)", Algorithm::NonprivateExp3, 1.0),
                player("DP-EXP3-Lap", Algorithm::Exp3Lap, 1.0),
                batched,
                player("EXP3_tau", Algorithm::Exp3Tau, 1.0),
                player("Tsallis", Algorithm::Tsallis, 1.0),
            ],
        ),
    ]
}

/// The regret against the best fixed arm of the rounds until each of these times. All policies of one run play the same
/// game.
fn play(player: &Player, adversary: Adversary, at: &[u64], trial: Trial) -> Curve {
    let game = adversary(ROUNDS as usize, ARMS as usize, &mut trial.coins());
    game.regrets(player.algorithm, &Config { test_seed: Some(trial.policy_seed()), ..player.config.clone() }, at)
}

/// Gini's mean difference of sorted values: the sum of (2j - N - 1) x_(j), divided by the number of pairs.
pub fn gini(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let weighted: f64 = (1..).zip(values).map(|(j, x)| (2.0 * f64::from(j) - n - 1.0) * x).sum();
    if values.len() < 2 { 0.0 } else { weighted * 2.0 / (n * (n - 1.0)) }
}

/// The median of means at each time. The bars are Gini's mean differences of the values below and above it.
fn summary(at: &[u64], sample: &Sample) -> Vec<Point> {
    let mut points = Vec::new();
    for (time, &t) in at.iter().enumerate() {
        // Not sorted: the groups are consecutive runs.
        let values: Vec<f64> = sample.0.iter().map(|curve| curve[time]).collect();
        let y = median_of_means(&values, GROUPS);
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let (below, above) = sorted.split_at(sorted.partition_point(|&value| value < y));
        let bar = (time + 1) % 8 == 0;
        let (low, high) = if bar { (y - gini(below), y + gini(above)) } else { (y, y) };
        points.push(Point { x: t as f64, y, low, high });
    }
    points
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    // The paper's figure has the paper's number of runs. The figure at eps = 1 has fewer.
    let runs = [options.runs(24, 720), options.runs(24, 120)];
    let at: Vec<u64> = (1..=48).map(|i| ROUNDS / 48 * i + if i == 48 { ROUNDS % 48 } else { 0 }).collect();
    let levels = levels();
    let mut cells = Vec::new();
    for ((_, _, players), runs) in levels.iter().zip(runs) {
        for (_, adversary) in ADVERSARIES {
            let at = &at;
            cells.extend(players.iter().map(|player| Cell::new(runs, move |trial| play(player, adversary, at, trial))));
        }
    }
    let samples = run_cells("td17", &cells, options);
    let mut samples = samples.iter();
    let mut text = format!(
        "T = 2^18, K = 4, {} runs (second table: {}): median of means over {GROUPS} groups of the regret at T (Gini's \
         mean differences below, above).\n",
        runs[0], runs[1]
    );
    for (title, name, players) in &levels {
        let (mut panels, mut rows) = (Vec::new(), Vec::new());
        for (adversary, _) in ADVERSARIES {
            let (mut lines, mut row) = (Vec::new(), vec![adversary.to_owned()]);
            for (colour, player) in players.iter().enumerate() {
                let points = summary(&at, samples.next().expect("a sample each"));
                let end = points[points.len() - 1];
                row.push(format!("{:.0} (-{:.0}, +{:.0})", end.y, end.y - end.low, end.high - end.y));
                lines.push(Line::new(&player.label, colour, points));
            }
            rows.push(row);
            let (x, y) = (Axis { label: "rounds", log: false }, Axis { label: "regret", log: false });
            panels.push(Panel { title: format!("{adversary}{title}"), x, y, lines });
        }
        Figure { name, columns: 3, panels }.write(&options.out)?;
        let mut header = vec![String::new()];
        header.extend(players.iter().map(|player| player.label.clone()));
        text += &format!("\n{}", table(&header, &rows));
    }
    Ok(text)
}
