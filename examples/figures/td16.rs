//! Tossou and Dimitrakakis (2016), Section 4, Figure 2: UCB on private sums, T = 1e5.

use super::Options;
use super::environment::{Player, Setting, log_times, play};
use super::plot::{Axis, Figure, Line, Panel, mean_curve, table};
use super::runner::{Cell, Sample, run as run_cells};
use dpb::Algorithm;
use std::error::Error;

const HORIZON: u64 = 100_000;
const TWO: [f64; 2] = [0.9, 0.6];
const TEN: [f64; 10] = [0.1, 0.1, 0.1, 0.1, 0.55, 0.2, 0.1, 0.1, 0.1, 0.1];

/// The panels in the paper's order: title, eps, means.
const PANELS: [(&str, f64, &[f64]); 4] =
    [("(a)", 1.0, &TWO), ("(b)", 0.1, &TWO), ("(c)", 1.0, &TEN), ("(d)", 0.1, &TEN)];

fn players(arms: usize, epsilon: f64) -> Vec<Player> {
    let delta = (-10f64).exp();
    let player = |label, algorithm| Player::new(label, algorithm, arms, epsilon, delta);
    let shared = Player::new("Private-UCB, eps/K", Algorithm::PrivateUcb, arms, epsilon / arms as f64, 0.0);
    let mut rigorous = player("DP-UCB-INT, rigorous", Algorithm::UcbInt);
    rigorous.config.rigorous_index = true;
    vec![
        player("UCB (not private)", Algorithm::NonprivateUcb1),
        player("DP-UCB-BOUND", Algorithm::UcbBound),
        player("DP-UCB", Algorithm::Ucb),
        player("DP-UCB-INT", Algorithm::UcbInt),
        rigorous,
        player("Private-UCB", Algorithm::PrivateUcb),
        shared,
    ]
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let runs = options.runs(12, 100);
    let at = log_times(10, HORIZON, 80);
    let games: Vec<(Setting, Vec<Player>)> = PANELS
        .iter()
        .map(|(_, epsilon, means)| (Setting::new(means, HORIZON), players(means.len(), *epsilon)))
        .collect();
    let mut cells = Vec::new();
    for (setting, players) in &games {
        let at = &at;
        cells.extend(players.iter().map(|player| Cell::new(runs, move |trial| play(player, setting, at, trial))));
    }
    let samples = run_cells("td16", &cells, options);
    let by_panel: Vec<&[Sample]> = samples.chunks(games[0].1.len()).collect();
    let mut panels = Vec::new();
    for (((name, epsilon, means), (_, players)), samples) in PANELS.iter().zip(&games).zip(&by_panel) {
        let line = |(colour, (player, sample)): (usize, (&Player, &Sample))| {
            Line::new(&player.label, colour, mean_curve(&at, sample))
        };
        panels.push(Panel {
            title: format!("{name} eps = {epsilon}, {} arms", means.len()),
            x: Axis { label: "decisions", log: true },
            y: Axis { label: "pseudo-regret", log: true },
            lines: players.iter().zip(*samples).enumerate().map(line).collect(),
        });
    }
    Figure { name: "td16", columns: 2, panels }.write(&options.out)?;
    let mut header = vec![String::new()];
    header.extend(PANELS.map(|(name, epsilon, means)| format!("{name} eps {epsilon}, K {}", means.len())));
    let row = |(number, player): (usize, &Player)| {
        let mut row = vec![player.label.clone()];
        row.extend(by_panel.iter().map(|samples| {
            let (ends, (mean, error)) = (samples[number].last(), samples[number].last_mean());
            format!("{mean:.0} ± {error:.0} ({:.0})", ends[ends.len() - 1] - ends[0])
        }));
        row
    };
    let rows: Vec<_> = games[0].1.iter().enumerate().map(row).collect();
    Ok(format!(
        "T = {HORIZON}, {runs} runs: mean pseudo-regret at T ± standard error (worst minus best run). Bars in \
         the plot are one standard error to each side.\n\n{}",
        table(&header, &rows)
    ))
}
