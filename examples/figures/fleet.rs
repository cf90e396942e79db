//! libdpb's experiment with one bandit over many handles. 1 to 16 handles make a fixed number of decisions in turn.
//! They merge the releases of the others at a fixed interval, or never. Either each handle adds its own noise, or one
//! leader adds one noise for all.

use super::Options;
use super::environment::instances;
use super::plot::{Axis, Figure, Line, Panel, Point, table};
use super::runner::{Cell, Curve, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config};
use std::error::Error;

const HANDLES: [usize; 3] = [1, 4, 16];
const EPSILONS: [f64; 3] = [1.0, 0.25, 0.1];

/// How handles learn together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sharing {
    /// Each handle releases its own rewards, with its own noise.
    Own,
    /// The first handle leads: it releases the rewards of all, with one noise.
    One,
}

use Sharing::{One, Own};

/// The label, the sharing, and the interval between exchanges in decisions of the fleet. 0: after each release; `None`:
/// never.
const INTERVALS: [(&str, Sharing, Option<u64>); 5] = [
    ("one noise, every 1,000", One, Some(1_000)),
    ("own noise, merged at once", Own, Some(0)),
    ("own noise, merged every 1,000", Own, Some(1_000)),
    ("own noise, merged every 10,000", Own, Some(10_000)),
    ("isolated", Own, None),
];

/// Handles that learn together.
pub struct Fleet {
    pub handles: Vec<Bandit>,
    /// The number of releases of each handle that the others have merged.
    seen: Vec<u32>,
    /// The generation of the first handle's lead, with `Sharing::One` and more than one handle.
    leader: Option<u64>,
}

impl Fleet {
    /// Makes a handle for each configuration. The configurations differ in their seeds only.
    pub fn new(configs: impl Iterator<Item = Config>, sharing: Sharing) -> Fleet {
        let make = |config: Config| {
            let config = Config { fleet_key: (sharing == One).then(|| [7; 32].into()), ..config };
            Bandit::new(Algorithm::recommended(&config), &config).expect("a valid configuration")
        };
        let handles: Vec<Bandit> = configs.map(make).collect();
        let leader = (sharing == One && handles.len() > 1).then(|| handles[0].lead().expect("a leader"));
        Fleet { seen: vec![0; handles.len()], handles, leader }
    }

    /// All handles contribute to the leader, if there is one, and merge the releases of the others.
    pub fn exchange(&mut self) {
        if let Some(generation) = self.leader {
            for handle in &self.handles[1..] {
                let contribution = handle.contribution(generation).expect("a contribution");
                if !contribution.is_empty() {
                    self.handles[0].combine(&contribution).expect("a new contribution");
                }
            }
        }
        for number in 0..self.handles.len() {
            self.share(number, self.handles[number].report().expect("a report").phase);
        }
    }

    /// All handles merge the snapshot of this one if it has new releases, and always in a fleet with a leader, which
    /// counts its running handles by these snapshots.
    pub fn share(&mut self, number: usize, releases: u32) {
        if std::mem::replace(&mut self.seen[number], releases) != releases || self.leader.is_some() {
            let snapshot = self.handles[number].snapshot().expect("a snapshot");
            self.handles.iter().for_each(|other| other.merge(&snapshot).expect("a merge"));
        }
    }
}

/// The pseudo-regret of the whole fleet.
fn play(
    handles: usize,
    (sharing, interval): (Sharing, Option<u64>),
    means: &[f64],
    epsilon: f64,
    horizon: u64,
    trial: Trial,
) -> Curve {
    let best = means.iter().copied().fold(0.0, f64::max);
    let handle = |number: usize| {
        let seed = Trial { run: trial.run << 8 | number as u64, ..trial }.policy_seed();
        Config { test_seed: Some(seed), pending_capacity: 1, ..Config::new(means.len() as u32, epsilon) }
    };
    let mut fleet = Fleet::new((0..handles).map(handle), sharing);
    let (mut coins, mut regret) = (trial.coins(), 0.0);
    for time in 0..horizon {
        let number = (time % handles as u64) as usize;
        let decision = fleet.handles[number].select().expect("a decision");
        let mean = means[decision.arm as usize];
        regret += best - mean;
        let reward = f64::from(u8::from(coins.unit() < mean));
        fleet.handles[number].update(decision.ticket, reward).expect("an accepted reward");
        match interval {
            Some(0) => fleet.share(number, decision.phase),
            Some(interval) if time % interval == interval - 1 => fleet.exchange(),
            _ => {}
        }
    }
    vec![regret]
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(20_000, 1_000_000), options.runs(2, 20));
    let worlds: Vec<_> = instances().into_iter().take(2).collect();
    let mut cells = Vec::new();
    for (_, means) in &worlds {
        for epsilon in EPSILONS {
            for (_, sharing, interval) in INTERVALS {
                let row = move |handles| {
                    Cell::new(runs, move |trial| play(handles, (sharing, interval), means, epsilon, horizon, trial))
                };
                cells.extend(HANDLES.map(row));
            }
        }
    }
    let samples = run_cells("fleet", &cells, options);
    let mut header = vec![String::from("instance, eps, handles")];
    header.extend(INTERVALS.map(|(label, ..)| label.to_owned()));
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
        let lines = INTERVALS.iter().enumerate().map(|(interval, (label, ..))| {
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
