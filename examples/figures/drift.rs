//! libdpb's experiment with rewards that change over time: the dynamic regret of DP-IMED with and without
//! `forget_after`, in seven worlds.

use super::Options;
use super::environment::{Player, instances};
use super::plot::{Axis, BLACK, Figure, Line, Panel, Strength, mean_curve, table};
use super::runner::{Cell, Curve, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Random};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Beta, Distribution};
use std::error::Error;

/// The mean rewards of the arms as a function of time.
pub struct World {
    pub name: &'static str,
    pub arms: usize,
    /// Writes the means at a time. Returns the time of the next change. Both times are fractions of the horizon.
    pub means: fn(f64, &mut [f64]) -> f64,
}

const A: [f64; 5] = [0.75, 0.625, 0.5, 0.375, 0.25];

fn a(_: f64, means: &mut [f64]) -> f64 {
    means.copy_from_slice(&A);
    1.0
}

fn a_reversed(time: f64, means: &mut [f64]) -> f64 {
    means.copy_from_slice(&A);
    if time >= 0.5 {
        means.reverse();
    }
    if time < 0.5 { 0.5 } else { 1.0 }
}

fn worst_rises(time: f64, means: &mut [f64]) -> f64 {
    means.copy_from_slice(&A);
    if time >= 0.5 {
        means[4] = 0.9;
    }
    if time < 0.5 { 0.5 } else { 1.0 }
}

/// Two sine waves over the horizon. The phase of each arm is a fifth of a wave ahead of the arm before.
fn waves(time: f64, means: &mut [f64]) -> f64 {
    for (arm, mean) in means.iter_mut().enumerate() {
        *mean = 0.5 + 0.25 * (std::f64::consts::TAU * (2.0 * time + arm as f64 / 5.0)).sin();
    }
    (time * 2000.0).floor() / 2000.0 + 1.0 / 2000.0
}

/// Five times, the means move to the next arm.
fn moves(time: f64, means: &mut [f64]) -> f64 {
    let part = (6.0 * time).floor();
    for (arm, mean) in means.iter_mut().enumerate() {
        *mean = A[(arm + 5 - part as usize % 5) % 5];
    }
    (part + 1.0) / 6.0
}

fn ads_reversed(time: f64, means: &mut [f64]) -> f64 {
    means.copy_from_slice(&instances()[1].1);
    if time >= 0.5 {
        means.reverse();
    }
    if time < 0.5 { 0.5 } else { 1.0 }
}

fn new_best_ad(time: f64, means: &mut [f64]) -> f64 {
    means.copy_from_slice(&instances()[1].1);
    if time >= 0.5 {
        means[9] = 0.08;
    }
    if time < 0.5 { 0.5 } else { 1.0 }
}

const WORLDS: [World; 7] = [
    World { name: "A stationary", arms: 5, means: a },
    World { name: "A reversed at T/2", arms: 5, means: a_reversed },
    World { name: "worst arm rises to .9", arms: 5, means: worst_rises },
    World { name: "slow waves", arms: 5, means: waves },
    World { name: "best arm moves 5 times", arms: 5, means: moves },
    World { name: "ads reversed", arms: 10, means: ads_reversed },
    World { name: "new best ad", arms: 10, means: new_best_ad },
];

/// The means of a world at the current time.
struct Now<'a> {
    world: &'a World,
    horizon: u64,
    /// The decision at which the means change next.
    until: u64,
    means: Vec<f64>,
    best: f64,
}

impl<'a> Now<'a> {
    fn new(world: &'a World, horizon: u64) -> Now<'a> {
        Now { world, horizon, until: 0, means: vec![0.0; world.arms], best: 0.0 }
    }

    fn at(&mut self, time: u64) -> &mut Now<'a> {
        if time >= self.until {
            let until = (self.world.means)((time as f64 + 0.5) / self.horizon as f64, &mut self.means);
            self.until = ((until * self.horizon as f64).round() as u64).max(time + 1);
            self.best = self.means.iter().copied().fold(0.0, f64::max);
        }
        self
    }
}

/// The dynamic regret at the given times. The last value is the number of changes that the policy detected.
pub fn play(player: &Player, world: &World, at: &[u64], trial: Trial) -> Curve {
    let config = Config { test_seed: Some(trial.policy_seed()), ..player.config.clone() };
    let bandit = Bandit::new(player.algorithm, &config).expect("a valid configuration");
    let mut coins = trial.coins();
    let mut curve = regret(world, at, &mut coins, |means, coins| {
        let decision = bandit.select().expect("a decision");
        let reward = f64::from(u8::from(coins.unit() < means[decision.arm as usize]));
        bandit.update(decision.ticket, reward).expect("an accepted reward");
        decision.arm as usize
    });
    curve.push(bandit.report().expect("a report").changes_detected as f64);
    curve
}

fn regret(world: &World, at: &[u64], coins: &mut Random, mut arm: impl FnMut(&[f64], &mut Random) -> usize) -> Curve {
    let horizon = at[at.len() - 1];
    let (mut now, mut lost, mut curve) = (Now::new(world, horizon), 0.0, Vec::with_capacity(at.len() + 1));
    for time in 0..horizon {
        let now = now.at(time);
        let played = arm(&now.means, coins);
        lost += now.best - now.means[played];
        if at[curve.len()] == time + 1 {
            curve.push(lost);
        }
    }
    curve
}

/// Discounted Thompson sampling (Raj and Kalyani 2017), WITHOUT privacy. At each decision, all counts shrink by a
/// factor of 1 + 1/`memory`.
pub fn discounted_ts(memory: f64, world: &World, at: &[u64], trial: Trial) -> Curve {
    let mut counts = vec![(0.0f64, 0.0f64); world.arms];
    let mut random = ChaCha8Rng::from_seed(trial.key(5));
    // Instead of shrinking all counts, it adds larger numbers: counts are stored multiplied by `scale`.
    let mut scale = 1.0;
    regret(world, at, &mut trial.coins(), |means, coins| {
        let theta = |&(won, lost): &(f64, f64)| {
            Beta::new(won / scale + 1.0, lost / scale + 1.0).expect("positive").sample(&mut random)
        };
        let drawn: Vec<f64> = counts.iter().map(theta).collect();
        let arm = (1..drawn.len()).fold(0, |best, arm| if drawn[arm] > drawn[best] { arm } else { best });
        scale *= 1.0 + 1.0 / memory;
        if coins.unit() < means[arm] {
            counts[arm].0 += scale
        } else {
            counts[arm].1 += scale
        }
        if scale > 1e100 {
            counts.iter_mut().for_each(|count| *count = (count.0 / scale, count.1 / scale));
            scale = 1.0;
        }
        arm
    })
}

const EPSILONS: [f64; 2] = [1.0, 0.25];

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(40_000, 1_000_000), options.runs(2, 100));
    let at: Vec<u64> = (1..=50).map(|i| i * horizon / 50).collect();
    let memories = [0, horizon / 10, horizon / 5];
    let player = |arms: usize, epsilon: f64, algorithm, memory| {
        let mut player = Player::new("", algorithm, arms, epsilon, 0.0);
        player.config.forget_after = memory;
        player
    };
    let players = |arms: usize| -> Vec<(String, Player)> {
        let imed = memories.iter().flat_map(|&memory| EPSILONS.map(|epsilon| (Algorithm::Imed, memory, epsilon)));
        let med = EPSILONS.map(|epsilon| (Algorithm::Med, horizon / 10, epsilon));
        imed.chain(med)
            .map(|(algorithm, memory, epsilon)| {
                let name = if algorithm == Algorithm::Med { "DP-MED" } else { "DP-IMED" };
                let share = horizon.checked_div(memory);
                let memory_name = share.map_or("no memory".into(), |share| format!("M = T/{share}"));
                (format!("{name}, {memory_name}, eps {epsilon}"), player(arms, epsilon, algorithm, memory))
            })
            .collect()
    };
    let fading = [horizon as f64 / 200.0, horizon as f64 / 50.0, horizon as f64 / 20.0];
    let mut cells = Vec::new();
    for world in &WORLDS {
        for (_, player) in players(world.arms) {
            let at = &at;
            cells.push(Cell::new(runs, move |trial| play(&player, world, at, trial)));
        }
        for memory in fading {
            let at = &at;
            cells.push(Cell::new((runs / 4).max(1), move |trial| discounted_ts(memory, world, at, trial)));
        }
    }
    let samples = run_cells("drift", &cells, options);
    let names: Vec<String> = players(5).into_iter().map(|(name, _)| name).collect();
    let (each, last) = (names.len() + fading.len(), at.len() - 1);
    let mut header = vec![String::from("dynamic regret in thousands (changes detected)")];
    header.extend(WORLDS.iter().map(|world| world.name.to_owned()));
    let mut rows: Vec<Vec<String>> = names.iter().map(|name| vec![name.clone()]).collect();
    rows.push(vec!["best of three discounted TS, not private".into()]);
    let mut panels = Vec::new();
    for (world, samples) in WORLDS.iter().zip(samples.chunks(each)) {
        let mut lines = Vec::new();
        for (number, sample) in samples.iter().enumerate().take(names.len()) {
            let (mean, errors) = (sample.mean(), sample.errors());
            rows[number].push(format!(
                "{:.2} ± {:.2} ({:.2})",
                mean[last] / 1000.0,
                errors[last] / 1000.0,
                mean[last + 1]
            ));
            if number % 2 == 0 {
                lines.push(Line::new(&names[number], number / 2, mean_curve(&at, sample)));
            }
        }
        let baselines = &samples[names.len()..];
        let best = baselines.iter().min_by(|x, y| x.mean()[last].total_cmp(&y.mean()[last])).expect("three");
        rows[names.len()].push(format!("{:.2} ± {:.2}", best.mean()[last] / 1000.0, best.errors()[last] / 1000.0));
        let line = Line::new("discounted TS, not private", BLACK, mean_curve(&at, best));
        lines.push(Line { strength: Strength::Dashed, ..line });
        let (x, y) = (Axis { label: "decisions", log: false }, Axis { label: "dynamic regret", log: false });
        panels.push(Panel { title: world.name.into(), x, y, lines });
    }
    Figure { name: "drift", columns: 2, panels }.write(&options.out)?;
    Ok(format!("T = {horizon}, {runs} runs (a quarter of TS): mean ± standard error.\n\n{}", table(&header, &rows)))
}
