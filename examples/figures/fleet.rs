//! Ours: one bandit over many handles. A fixed number of decisions, in turn to 1 to 64 handles that merge what the
//! others have released, every so many decisions of the fleet; beside as many that never do.

use super::Options;
use super::environment::ours;
use super::plot::{Axis, Figure, Line, Panel, Point, table};
use super::runner::{Cell, Curve, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config};
use std::error::Error;

const HANDLES: [usize; 4] = [1, 4, 16, 64];
const EPSILONS: [f64; 2] = [1.0, 0.25];

/// After so many decisions of the fleet; 0: as soon as there is news.
const INTERVALS: [(&str, Option<u64>); 4] = [
    ("merged at once", Some(0)),
    ("merged every 1,000", Some(1_000)),
    ("merged every 10,000", Some(10_000)),
    ("isolated", None),
];

/// Pseudo-regret of the whole fleet.
fn play(handles: usize, interval: Option<u64>, means: &[f64], epsilon: f64, horizon: u64, trial: Trial) -> Curve {
    let best = means.iter().copied().fold(0.0, f64::max);
    let handle = |number: usize| {
        let seed = Trial { run: trial.run << 8 | number as u64, ..trial }.policy_seed();
        let config = Config { test_seed: Some(seed), pending_capacity: 1, ..Config::new(means.len() as u32, epsilon) };
        Bandit::new(Algorithm::Imed, &config).expect("a valid configuration")
    };
    let fleet: Vec<Bandit> = (0..handles).map(handle).collect();
    // Releases of each that the others have seen.
    let mut seen = vec![0; handles];
    let mut tell = |number: usize, releases: u32| {
        if std::mem::replace(&mut seen[number], releases) != releases {
            let snapshot = fleet[number].snapshot().expect("a snapshot");
            fleet.iter().for_each(|other| other.merge(&snapshot).expect("a merge"));
        }
    };
    let (mut coins, mut regret) = (trial.coins(), 0.0);
    for time in 0..horizon {
        let number = (time % handles as u64) as usize;
        let decision = fleet[number].select().expect("a decision");
        let mean = means[decision.arm as usize];
        regret += best - mean;
        let reward = f64::from(u8::from(coins.unit() < mean));
        fleet[number].update(decision.ticket, reward).expect("an answer");
        match interval {
            Some(0) => tell(number, decision.phase),
            Some(interval) if time % interval == interval - 1 => {
                (0..handles).for_each(|number| tell(number, fleet[number].report().expect("a report").phase));
            }
            _ => {}
        }
    }
    vec![regret]
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(20_000, 1_000_000), options.runs(2, 20));
    let worlds: Vec<_> = ours().into_iter().take(2).collect();
    let mut cells = Vec::new();
    for (_, means) in &worlds {
        for epsilon in EPSILONS {
            for (_, interval) in INTERVALS {
                let row = move |handles| {
                    Cell::new(runs, move |trial| play(handles, interval, means, epsilon, horizon, trial))
                };
                cells.extend(HANDLES.map(row));
            }
        }
    }
    let samples = run_cells("fleet", &cells, options);
    let mut header = vec![String::from("instance, eps, handles")];
    header.extend(INTERVALS.map(|(label, _)| label.to_owned()));
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for (place, block) in samples.chunks(INTERVALS.len() * HANDLES.len()).enumerate() {
        let (name, epsilon) = (worlds[place / EPSILONS.len()].0, EPSILONS[place % EPSILONS.len()]);
        let mean = |interval: usize, handles: usize| block[interval * HANDLES.len() + handles].last_mean();
        for (number, handles) in HANDLES.iter().enumerate() {
            let mut row = vec![format!("{name}, {epsilon}, {handles}")];
            row.extend((0..INTERVALS.len()).map(|interval| {
                let (mean, error) = mean(interval, number);
                format!("{mean:.0} ± {error:.0}")
            }));
            rows.push(row);
        }
        let lines = INTERVALS.iter().enumerate().map(|(interval, (label, _))| {
            let points = HANDLES.iter().enumerate().map(|(number, &handles)| {
                let (mean, error) = mean(interval, number);
                Point { low: mean - 2.0 * error, high: mean + 2.0 * error, ..Point::new(handles as f64, mean) }
            });
            Line::new(label, interval, points.collect())
        });
        panels.push(Panel {
            title: format!("instance {name}, eps = {epsilon}"),
            x: Axis { label: "handles", log: true },
            y: Axis { label: "pseudo-regret of all", log: true },
            lines: lines.collect(),
        });
    }
    Figure { name: "fleet", columns: 2, panels }.write(&options.out)?;
    Ok(format!("{horizon} decisions in all, {runs} runs: pseudo-regret of the fleet.\n\n{}", table(&header, &rows)))
}
