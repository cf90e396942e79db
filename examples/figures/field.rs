//! libdpb's comparison of all policies for stochastic rewards: the regret by epsilon and by delay, and the privacy loss
//! by time.

use super::Options;
use super::environment::{Player, Setting, decide, instances, log_times, play};
use super::plot::{Axis, BLACK, Figure, Line, Panel, Point, Strength, points, table};
use super::runner::{Cell, Curve, Sample, Trial, run as run_cells};
use dpb::policy::private_divergence;
use dpb::{Algorithm, Bandit};
use std::error::Error;

const EPSILONS: [f64; 7] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0];
/// The delta of the policies that are not pure, whose labels end with *.
const DELTA: f64 = 1e-6;

/// The label, the policy, and the factor by which a slow policy has fewer runs than the others.
const PLAYERS: [(&str, Algorithm, u64); 12] = [
    ("DP-IMED", Algorithm::Imed, 1),
    ("DP-MED", Algorithm::Med, 1),
    ("DP-SE", Algorithm::Se, 1),
    ("DP-UCB-BOUND", Algorithm::UcbBound, 2),
    ("DP-UCB", Algorithm::Ucb, 4),
    ("DP-UCB-INT*", Algorithm::UcbInt, 1),
    ("Private-UCB", Algorithm::PrivateUcb, 2),
    ("VB-SDP-AE*", Algorithm::VbSdpAe, 1),
    ("LDP-UCB", Algorithm::LdpUcb, 1),
    ("Tsallis", Algorithm::Tsallis, 1),
    ("UCB1 (not private)", Algorithm::NonprivateUcb1, 1),
    ("KL-UCB (not private)", Algorithm::NonprivateKlUcb, 4),
];

/// Whether the policy is not private, so that epsilon has no effect.
fn is_baseline(algorithm: Algorithm) -> bool {
    algorithm.name().starts_with("nonprivate")
}

/// The policy of this row, or `None` if it does not accept this configuration.
fn player(row: usize, arms: usize, epsilon: f64, horizon: u64) -> Option<Player> {
    let (label, algorithm, _) = PLAYERS[row];
    // The other policies would draw Gaussian noise if delta were not 0.
    let delta = if label.ends_with('*') { DELTA } else { 0.0 };
    let mut player = Player::new(label, algorithm, arms, epsilon, delta);
    player.config.horizon = horizon;
    Bandit::new(algorithm, &player.config).is_ok().then_some(player)
}

/// The policies that accept eps = 1 for this number of arms, with their rows in `PLAYERS`.
fn players(arms: usize, horizon: u64) -> Vec<(usize, Player)> {
    (0..PLAYERS.len()).filter_map(|row| Some((row, player(row, arms, 1.0, horizon)?))).collect()
}

/// The lower bound on the regret of any eps-DP policy, to first order: the sum of Delta ln T / d_eps.
fn least(means: &[f64], horizon: u64, epsilon: f64) -> f64 {
    let best = means.iter().copied().fold(0.0, f64::max);
    let cost = |&mean: &f64| (best - mean) * (horizon as f64).ln() / private_divergence(mean, best, epsilon);
    means.iter().filter(|&&mean| mean < best).map(cost).sum()
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    Ok([by_epsilon(options)?, by_delay(options)?, by_time(options)?].join("\n"))
}

/// The line of the policy in this row.
fn line(row: usize, points: Vec<Point>) -> Line {
    Line::new(PLAYERS[row].0, row, points)
}

/// The mean ± standard error of a cell's final values, as a point at `x` and as text.
fn end(sample: &Sample, x: f64) -> (Point, String) {
    let (mean, error) = sample.last_mean();
    (Point { x, y: mean, low: mean - error, high: mean + error }, format!("{mean:.0} ± {error:.0}"))
}

fn by_epsilon(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(100_000, 1_000_000), options.runs(8, 24));
    let at = [horizon];
    let settings = instances().map(|(name, means)| (name, Setting::new(&means, horizon)));
    let mut places = Vec::new();
    for instance in 0..settings.len() {
        for (row, (_, algorithm, _)) in PLAYERS.iter().enumerate() {
            // A baseline has one cell for all epsilons.
            let epsilons = if is_baseline(*algorithm) { &EPSILONS[..1] } else { &EPSILONS };
            places.extend(epsilons.iter().map(|&epsilon| (instance, row, epsilon)));
        }
    }
    let arms = |instance: usize| settings[instance].1.means.len();
    let mut players = Vec::new();
    places.retain(|&(instance, row, epsilon)| {
        let player = player(row, arms(instance), epsilon, horizon);
        let can = player.is_some();
        players.extend(player);
        can
    });
    let mut cells = Vec::new();
    for (player, &(instance, row, _)) in players.iter().zip(&places) {
        let (setting, at) = (&settings[instance].1, &at);
        cells.push(Cell::new((runs / PLAYERS[row].2).max(1), move |trial| play(player, setting, at, trial)));
    }
    let samples = run_cells("field, eps", &cells, options);
    let (mut panels, mut text) = (Vec::new(), String::new());
    let mut header = vec![String::from("eps")];
    header.extend(EPSILONS.map(|epsilon| epsilon.to_string()));
    for (instance, (name, setting)) in settings.iter().enumerate() {
        let bounds = EPSILONS.map(|epsilon| least(&setting.means, horizon, epsilon));
        let mut row = vec![String::from("d_eps bound")];
        row.extend(bounds.map(|bound| format!("{bound:.0}")));
        let (mut rows, mut lines) = (vec![row], Vec::new());
        let bound = EPSILONS.iter().zip(bounds).map(|(&x, y)| Point::new(x, y)).collect();
        lines.push(Line { strength: Strength::Dashed, ..Line::new("d_eps bound", BLACK, bound) });
        for (number, (label, algorithm, _)) in PLAYERS.iter().enumerate() {
            let (mut points, mut cells) = (Vec::new(), vec![(*label).to_owned()]);
            for epsilon in EPSILONS {
                let wanted = (instance, number, if is_baseline(*algorithm) { EPSILONS[0] } else { epsilon });
                let Some(place) = places.iter().position(|&place| place == wanted) else {
                    cells.push("-".into());
                    continue;
                };
                let (point, cell) = end(&samples[place], epsilon);
                points.push(point);
                cells.push(cell);
            }
            rows.push(cells);
            lines.push(line(number, points));
        }
        let (x, y) = (Axis { label: "eps", log: true }, Axis { label: "pseudo-regret", log: true });
        panels.push(Panel { title: format!("instance {name}, T = {horizon}"), x, y, lines });
        text += &format!("\nInstance {name}:\n\n{}", table(&header, &rows));
    }
    Figure { name: "field_epsilon", columns: 2, panels }.write(&options.out)?;
    Ok(format!(
        "By epsilon. T = {horizon}, {runs} runs (half as many of DP-UCB-BOUND and Private-UCB, a quarter of DP-UCB and \
         KL-UCB): mean pseudo-regret at T ± standard error. * at delta = {DELTA:e}.\n{text}"
    ))
}

fn by_delay(options: &Options) -> Result<String, Box<dyn Error>> {
    const DELAYS: [usize; 5] = [0, 10, 100, 1_000, 10_000];
    let (horizon, runs) = (options.pick(100_000, 1_000_000), options.runs(4, 24));
    let at = [horizon];
    let (_, means) = &instances()[0];
    let settings = DELAYS.map(|in_flight| Setting { in_flight, ..Setting::new(means, horizon) });
    let players = players(means.len(), horizon);
    let mut cells = Vec::new();
    for (_, player) in &players {
        for setting in &settings {
            let at = &at;
            cells.push(Cell::new(runs, move |trial| play(player, setting, at, trial)));
        }
    }
    let samples = run_cells("field, delay", &cells, options);
    let mut header = vec![String::from("delay")];
    header.extend(DELAYS.map(|delay| delay.to_string()));
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for ((row, player), samples) in players.iter().zip(samples.chunks(DELAYS.len())) {
        let ends: Vec<_> = samples.iter().zip(DELAYS).map(|(sample, delay)| end(sample, delay.max(1) as f64)).collect();
        lines.push(line(*row, ends.iter().map(|end| end.0).collect()));
        rows.push([vec![player.label.clone()], ends.into_iter().map(|end| end.1).collect()].concat());
    }
    let (x, y) = (Axis { label: "delay (1: none)", log: true }, Axis { label: "pseudo-regret", log: true });
    let panels = vec![Panel { title: format!("instance A, eps = 1, T = {horizon}"), x, y, lines }];
    Figure { name: "field_delay", columns: 1, panels }.write(&options.out)?;
    Ok(format!(
        "By delay. Instance A, eps = 1, T = {horizon}, {runs} runs: each reward comes that many decisions later.\n\n{}",
        table(&header, &rows)
    ))
}

fn by_time(options: &Options) -> Result<String, Box<dyn Error>> {
    let horizon = options.pick(100_000, 1_000_000);
    let at = log_times(1, horizon, 60);
    let setting = Setting::new(&instances()[0].1, horizon);
    let mut players = players(setting.means.len(), horizon);
    players.retain(|(_, player)| !is_baseline(player.algorithm));
    let mut cells = Vec::new();
    for (_, player) in &players {
        let (setting, at) = (&setting, &at);
        cells.push(Cell::new(1, move |trial| spent(player, setting, at, trial)));
    }
    let samples = run_cells("field, loss", &cells, options);
    // Policies with the same curve have the same colour, because the last line hides the others.
    let mut lines: Vec<Line> = Vec::new();
    for ((row, player), sample) in players.iter().zip(&samples) {
        let curve = points(&at, &sample.0[0]);
        let near = |(a, b): (&Point, &Point)| (a.y - b.y).abs() < 1e-3;
        let alike = lines.iter().find(|line| line.points.iter().zip(&curve).all(near));
        let colour = alike.map_or(*row, |line| line.colour);
        lines.push(Line::new(&player.label, colour, curve));
    }
    let (x, y) = (Axis { label: "decisions", log: true }, Axis { label: "eps spent", log: false });
    let panels = vec![Panel { title: "loss of one reward, eps = 1 given".into(), x, y, lines }];
    Figure { name: "field_loss", columns: 1, panels }.write(&options.out)?;
    let header = ["", "first decision after which eps > 0", "eps spent at T"].map(String::from);
    let row = |((_, player), sample): (&(usize, Player), &Sample)| {
        let first = at.iter().zip(&sample.0[0]).find(|(_, loss)| **loss > 0.0);
        let first = first.map_or("never".into(), |(time, _)| format!("{time} or before"));
        vec![player.label.clone(), first, format!("{:.4}", sample.last()[0])]
    };
    let rows: Vec<_> = players.iter().zip(&samples).map(row).collect();
    Ok(format!(
        "By time. Instance A, eps = 1, T = {horizon}, one run: the loss that the policy reports (* at delta = \
         {DELTA:e}).\n\n{}",
        table(&header, &rows)
    ))
}

/// The privacy loss that the policy reports at these times.
fn spent(player: &Player, setting: &Setting, at: &[u64], trial: Trial) -> Curve {
    let (mut time, mut curve) = (0, Vec::with_capacity(at.len()));
    decide(player, setting, trial, |bandit, _| {
        time += 1;
        if at.get(curve.len()) == Some(&time) {
            curve.push(bandit.report().expect("a report").epsilon_spent);
        }
        true
    });
    curve
}
