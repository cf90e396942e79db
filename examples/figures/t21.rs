//! Tenenbaum, Kaplan, Mansour, Stemmer (2021) have no figure. libdpb's experiment compares the regret of the shuffle
//! model with that of the central and the local model, with the printed noise and with the exactly calibrated noise.

use super::Options;
use super::environment::{Player, Setting, instances, play};
use super::plot::{Axis, Figure, Line, Panel, Point, table};
use super::runner::{Cell, Sample, run as run_cells};
use dpb::Algorithm;
use std::error::Error;

/// At delta = 1e-6.
const EPSILONS: [f64; 4] = [0.1, 0.25, 0.5, 1.0];
/// At eps = 0.5.
const DELTAS: [f64; 4] = [1e-3, 1e-6, 1e-9, 1e-12];

fn players(arms: usize, epsilon: f64, delta: f64) -> Vec<Player> {
    let player = |label, algorithm| Player::new(label, algorithm, arms, epsilon, delta);
    let printed = |label, algorithm| {
        let mut player = player(label, algorithm);
        player.config.shuffle_printed = true;
        player
    };
    vec![
        player("DP-SE (central)", Algorithm::Se),
        player("VB-SDP-AE", Algorithm::VbSdpAe),
        printed("VB-SDP-AE, printed noise", Algorithm::VbSdpAe),
        player("SDP-AE", Algorithm::SdpAe),
        printed("SDP-AE, printed noise", Algorithm::SdpAe),
        player("LDP KL-UCB (local)", Algorithm::LdpKlUcb),
        player("LDP-UCB (local)", Algorithm::LdpUcb),
    ]
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(200_000, 1_000_000), options.runs(8, 30));
    let at = [horizon];
    let setting = Setting::new(&instances()[0].1, horizon);
    let by_epsilon = EPSILONS.map(|epsilon| (epsilon, 1e-6));
    let by_delta = DELTAS.map(|delta| (0.5, delta));
    let places = [by_epsilon, by_delta].concat();
    let games: Vec<Vec<Player>> =
        places.iter().map(|&(epsilon, delta)| players(setting.means.len(), epsilon, delta)).collect();
    let mut cells = Vec::new();
    for player in games.iter().flatten() {
        let (at, setting) = (&at, &setting);
        cells.push(Cell::new(runs, move |trial| play(player, setting, at, trial)));
    }
    let samples = run_cells("t21", &cells, options);
    let many = games[0].len();
    let sample = |place: usize, player: usize| -> &Sample { &samples[place * many + player] };
    let panel = |title: &str, label, first: usize, x_of: fn((f64, f64)) -> f64| {
        let point = |place: usize, player: usize| {
            let (mean, error) = sample(place, player).last_mean();
            Point { x: x_of(places[place]), y: mean, low: mean - error, high: mean + error }
        };
        let line = |(colour, player): (usize, &Player)| {
            Line::new(&player.label, colour, (first..first + 4).map(|place| point(place, colour)).collect())
        };
        Panel {
            title: title.into(),
            x: Axis { label, log: true },
            y: Axis { label: "pseudo-regret", log: true },
            lines: games[first].iter().enumerate().map(line).collect(),
        }
    };
    let panels =
        vec![panel("delta = 1e-6", "eps", 0, |place| place.0), panel("eps = 0.5", "1/delta", 4, |place| 1.0 / place.1)];
    Figure { name: "t21", columns: 2, panels }.write(&options.out)?;
    let mut header = vec![String::from("eps, delta")];
    header.extend(games[0].iter().map(|player| player.label.clone()));
    let row = |(place, (epsilon, delta)): (usize, &(f64, f64))| {
        let mut row = vec![format!("{epsilon}, {delta:e}")];
        row.extend((0..many).map(|player| {
            let (mean, error) = sample(place, player).last_mean();
            format!("{mean:.0} ± {error:.0}")
        }));
        row
    };
    let rows: Vec<_> = places.iter().enumerate().map(row).collect();
    Ok(format!(
        "Instance A, T = {horizon}, {runs} runs: mean pseudo-regret at T ± standard error.\n\n{}",
        table(&header, &rows)
    ))
}
