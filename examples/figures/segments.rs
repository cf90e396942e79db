//! libdpb's experiment with a hundred segments that have the same ads: a bandit for each segment, one for all, and one
//! with segments. Regret is in % of the regret of uniform play.

use super::Options;
use super::fleet::{Fleet, Sharing};
use super::plot::{Axis, Figure, Line, Panel, Point, table};
use super::runner::{Cell, Curve, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Random, Request};
use std::error::Error;

const SEGMENTS: usize = 100;
const ADS: usize = 10;
/// The numbers of decisions for each segment.
const TIMES: [usize; 4] = [2_000, 5_000, 10_000, 40_000];
/// tau: the standard deviation of the logit of each ad in each segment.
const SPREADS: [f64; 2] = [0.2, 0.5];
const EPSILONS: [f64; 2] = [1.0, 0.25];
/// An epsilon so large that the noise is negligible.
const NO_NOISE: f64 = 100.0;

#[derive(Clone, Copy)]
enum Player {
    Isolated,
    Together,
    Segmented,
    WithoutNoise,
}

use Player::{Isolated, Segmented, Together, WithoutNoise};

const PLAYERS: [(&str, Player); 4] =
    [("isolated", Isolated), ("one for all", Together), ("segments", Segmented), ("segments, no noise", WithoutNoise)];

/// Draws the click rates of each ad in each segment, about 3%. The standard deviation of the logits is 0.5 between ads,
/// 0.3 between segments, and tau (`spread`) for each ad in each segment.
fn world(spread: f64, coins: &mut Random) -> Vec<[f64; ADS]> {
    let mut normal = || (-2.0 * (1.0 - coins.unit()).ln()).sqrt() * (std::f64::consts::TAU * coins.unit()).cos();
    let ads: [f64; ADS] = std::array::from_fn(|_| 0.5 * normal());
    let segment = |_| {
        let own = 0.3 * normal() - 3.476;
        ads.map(|ad| 1.0 / (1.0 + (-own - ad - spread * normal()).exp()))
    };
    (0..SEGMENTS).map(segment).collect()
}

/// The regret at these times, in % of the regret of uniform play.
fn play(player: Player, spread: f64, epsilon: f64, times: &[usize], trial: Trial) -> Curve {
    let mut coins = trial.coins();
    let world = world(spread, &mut coins);
    let epsilon = if let WithoutNoise = player { NO_NOISE } else { epsilon };
    let (handles, max_segments) = match player {
        Isolated => (SEGMENTS, 0),
        Together => (1, 0),
        Segmented | WithoutNoise => (1, SEGMENTS as u32),
    };
    let config = |number: usize| Config {
        max_segments,
        test_seed: Some(Trial { run: trial.run << 8 | number as u64, ..trial }.policy_seed()),
        pending_capacity: 1,
        ..Config::new(ADS as u32, epsilon)
    };
    let bandits: Vec<Bandit> =
        (0..handles).map(|number| Bandit::new(Algorithm::Imed, &config(number)).expect("a bandit")).collect();
    let mut in_segment = |segment: usize| -> (f64, f64) {
        let bandit = &bandits[segment % handles];
        let key = if max_segments > 0 { segment as u64 } else { 0 };
        let decision = bandit.select_for(&Request { segment: key, ..Request::default() }).expect("a decision");
        let rates = &world[segment];
        let mean = rates[decision.arm as usize];
        let reward = f64::from(u8::from(coins.unit() < mean));
        bandit.update(decision.ticket, reward).expect("an accepted reward");
        let best = rates.iter().copied().fold(0.0, f64::max);
        (best - mean, best - rates.iter().sum::<f64>() / ADS as f64)
    };
    let (mut lost, mut uniform, mut curve) = (0.0, 0.0, Vec::new());
    let mut order = trial_order(trial);
    for time in 1..=times[times.len() - 1] {
        for segment in order() {
            let (regret, uniform_regret) = in_segment(segment);
            lost += regret;
            uniform += uniform_regret;
        }
        if times.contains(&time) {
            curve.push(100.0 * lost / uniform);
        }
    }
    curve
}

/// Returns all segments in a new random order at each call.
fn trial_order(trial: Trial) -> impl FnMut() -> Vec<usize> {
    let mut coins = Trial { run: trial.run << 8 | 255, ..trial }.coins();
    move || {
        let mut order: Vec<usize> = (0..SEGMENTS).collect();
        (1..SEGMENTS).for_each(|place| order.swap(place, coins.below(place as u64 + 1) as usize));
        order
    }
}

/// The same for one bandit with segments over this number of handles with one noise. They exchange every 1000 decisions
/// of the fleet. Each request goes to a random handle.
fn play_fleet(handles: usize, epsilon: f64, times: &[usize], trial: Trial) -> Curve {
    let mut coins = trial.coins();
    let world = world(SPREADS[0], &mut coins);
    let config = |number: usize| Config {
        max_segments: SEGMENTS as u32,
        test_seed: Some(Trial { run: trial.run << 8 | number as u64, ..trial }.policy_seed()),
        pending_capacity: 1,
        ..Config::new(ADS as u32, epsilon)
    };
    let mut fleet = Fleet::new((0..handles).map(config), Sharing::One);
    let (mut lost, mut uniform, mut curve) = (0.0, 0.0, Vec::new());
    let (mut order, mut made) = (trial_order(trial), 0);
    for time in 1..=times[times.len() - 1] {
        for segment in order() {
            let bandit = &fleet.handles[coins.below(handles as u64) as usize];
            let request = Request { segment: segment as u64, ..Request::default() };
            let decision = bandit.select_for(&request).expect("a decision");
            let (rates, mean) = (&world[segment], world[segment][decision.arm as usize]);
            bandit.update(decision.ticket, f64::from(u8::from(coins.unit() < mean))).expect("an accepted reward");
            let best = rates.iter().copied().fold(0.0, f64::max);
            lost += best - mean;
            uniform += best - rates.iter().sum::<f64>() / ADS as f64;
            made += 1;
            if made % 1_000 == 0 {
                fleet.exchange();
            }
        }
        if times.contains(&time) {
            curve.push(100.0 * lost / uniform);
        }
    }
    curve
}

pub fn run_fleet(options: &Options) -> Result<String, Box<dyn Error>> {
    let (times, runs) = (options.pick(&TIMES[..1], &TIMES[..1]), options.runs(1, 6));
    let settings: Vec<(f64, usize)> =
        EPSILONS.into_iter().flat_map(|epsilon| [1, 4, 16].map(|handles| (epsilon, handles))).collect();
    let cells: Vec<Cell> = settings
        .iter()
        .map(|&(epsilon, handles)| Cell::new(runs, move |trial| play_fleet(handles, epsilon, times, trial)))
        .collect();
    let samples = run_cells("segments-fleet", &cells, options);
    let header: Vec<String> = [String::from("eps, handles")]
        .into_iter()
        .chain(times.iter().map(|time| format!("{time} a segment")))
        .collect();
    let rows: Vec<Vec<String>> = settings
        .iter()
        .zip(&samples)
        .map(|((epsilon, handles), sample)| {
            let figures = sample.mean().into_iter().zip(sample.errors());
            let figures = figures.map(|(mean, error)| format!("{mean:.1} ± {error:.1}"));
            [format!("{epsilon}, {handles}")].into_iter().chain(figures).collect()
        })
        .collect();
    Ok(format!(
        "tau {}, {runs} worlds: regret in % of what uniform play loses.\n\n{}",
        SPREADS[0],
        table(&header, &rows)
    ))
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (times, runs) = (options.pick(&TIMES[..1], &TIMES[..]), options.runs(2, 24));
    let settings: Vec<(f64, f64)> = SPREADS.iter().flat_map(|&tau| EPSILONS.map(|epsilon| (tau, epsilon))).collect();
    let cells: Vec<Cell> = settings
        .iter()
        .flat_map(|&(tau, epsilon)| {
            PLAYERS.map(|(_, player)| Cell::new(runs, move |trial| play(player, tau, epsilon, times, trial)))
        })
        .collect();
    let samples = run_cells("segments", &cells, options);
    let mut header = vec![String::from("tau, eps, decisions a segment")];
    header.extend(PLAYERS.map(|(label, _)| label.to_owned()));
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for ((tau, epsilon), block) in settings.into_iter().zip(samples.chunks(PLAYERS.len())) {
        let found: Vec<(Curve, Curve)> = block.iter().map(|sample| (sample.mean(), sample.errors())).collect();
        for (place, time) in times.iter().enumerate() {
            let mut row = vec![format!("{tau}, {epsilon}, {time}")];
            row.extend(found.iter().map(|(mean, error)| format!("{:.1} ± {:.1}", mean[place], error[place])));
            rows.push(row);
        }
        let lines = found.iter().enumerate().map(|(player, (mean, error))| {
            let points = times.iter().zip(mean.iter().zip(error)).map(|(&time, (&mean, &error))| Point {
                low: mean - 2.0 * error,
                high: mean + 2.0 * error,
                ..Point::new(time as f64, mean)
            });
            Line::new(PLAYERS[player].0, player, points.collect())
        });
        panels.push(Panel {
            title: format!("tau = {tau}, eps = {epsilon}"),
            x: Axis { label: "decisions a segment", log: true },
            y: Axis { label: "regret, % of uniform play's", log: false },
            lines: lines.collect(),
        });
    }
    Figure { name: "segments", columns: 2, panels }.write(&options.out)?;
    Ok(format!(
        "{SEGMENTS} segments, {ADS} ads, {runs} worlds: regret in % of what uniform play loses.\n\n{}",
        table(&header, &rows)
    ))
}
