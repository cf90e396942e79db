//! libdpb's experiment with amounts: a learned clip, and clips that somebody knew.

use super::Options;
use super::clicks::mean;
use super::plot::{Axis, Figure, Line, Panel, Point, table};
use super::runner::{Cell, Curve, Sample, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Random};
use std::error::Error;

const ARMS: usize = 10;
/// The median amount of an arm without scatter.
const MEDIAN: f64 = 10.0;

/// How amounts are distributed, with the median 1.
#[derive(Clone, Copy)]
enum Shape {
    /// exp(s N).
    Lognormal(f64),
    /// P(x > y) = (y/m)^-a.
    Pareto(f64),
}

impl Shape {
    fn draw(self, coins: &mut Random) -> f64 {
        match self {
            Shape::Lognormal(s) => (s * normal(coins)).exp(),
            Shape::Pareto(a) => (2.0 * (1.0 - coins.unit())).powf(-1.0 / a),
        }
    }

    fn mean(self) -> f64 {
        match self {
            Shape::Lognormal(s) => (s * s / 2.0).exp(),
            Shape::Pareto(a) => a / (a - 1.0) * 2f64.powf(-1.0 / a),
        }
    }
}

fn normal(coins: &mut Random) -> f64 {
    let (radius, angle) = ((-2.0 * (1.0 - coins.unit()).ln()).sqrt(), std::f64::consts::TAU * coins.unit());
    radius * angle.cos()
}

/// Which decisions have amounts, and what tells the arms apart.
#[derive(Clone, Copy)]
enum Arms {
    /// Rates from 5% to 1%, and amounts alike.
    Alike,
    /// Rates up to this, at least a third of it, and medians that scatter by exp(0.45 N).
    Scattered(f64),
    /// Rates of 2% and amounts of 10, but one arm has a rate of .2% and amounts of 1000: by rare large amounts it is best.
    Rare,
}

struct World {
    name: &'static str,
    arms: Arms,
    shape: Shape,
    epsilon: f64,
}

const fn world(name: &'static str, arms: Arms, shape: Shape, epsilon: f64) -> World {
    World { name, arms, shape, epsilon }
}

const WORLDS: [World; 11] = [
    world("the recipe, lognormal 1.2", Arms::Alike, Shape::Lognormal(1.2), 1.0),
    world("lognormal 1.2", Arms::Scattered(0.03), Shape::Lognormal(1.2), 1.0),
    world("lognormal 0.6", Arms::Scattered(0.03), Shape::Lognormal(0.6), 1.0),
    world("Pareto 2", Arms::Scattered(0.03), Shape::Pareto(2.0), 1.0),
    world("Pareto 1.5", Arms::Scattered(0.03), Shape::Pareto(1.5), 1.0),
    world("the recipe, lognormal 1.2", Arms::Alike, Shape::Lognormal(1.2), 0.25),
    world("lognormal 1.2", Arms::Scattered(0.03), Shape::Lognormal(1.2), 0.25),
    world("Pareto 2", Arms::Scattered(0.03), Shape::Pareto(2.0), 0.25),
    world("lognormal 1.2, rates up to .3%", Arms::Scattered(0.003), Shape::Lognormal(1.2), 1.0),
    world("lognormal 1.2, rates up to .1%", Arms::Scattered(0.001), Shape::Lognormal(1.2), 1.0),
    world("rare large amounts are best", Arms::Rare, Shape::Lognormal(0.6), 1.0),
];

/// Where rewards end: at a clip that is learned below this `reward_max`, or at this one.
#[derive(Clone, Copy, PartialEq)]
enum Clip {
    Learned(f64),
    At(f64),
}

/// Columns of their own; the others are candidates for the best clip in hindsight.
const SHOWN: [Clip; 5] =
    [Clip::Learned(10_000.0), Clip::Learned(160_000.0), Clip::At(320.0), Clip::At(1000.0), Clip::At(10_000.0)];
const CANDIDATES: [f64; 6] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0];

/// How many handles decide in turn, how many decisions they make between two exchanges, and whether one adds noise for
/// all.
#[derive(Clone, Copy)]
struct Fleet {
    handles: u64,
    every: u64,
    has_one_noise: bool,
}

const ALONE: Fleet = Fleet { handles: 1, every: u64::MAX, has_one_noise: false };
const FLEETS: [Fleet; 4] = [
    ALONE,
    Fleet { handles: 8, every: 80, has_one_noise: true },
    Fleet { handles: 8, every: 1000, has_one_noise: true },
    Fleet { handles: 8, every: 1000, has_one_noise: false },
];

impl Fleet {
    fn exchange(self, handles: &[Bandit]) -> dpb::Result<()> {
        let mut shown = handles;
        if self.has_one_noise {
            let (leader, generation) = (&handles[0], handles[0].lead()?);
            for handle in &handles[1..] {
                let contribution = handle.contribution(generation)?;
                if !contribution.is_empty() {
                    leader.combine(&contribution)?;
                }
            }
            shown = &handles[..1];
            handles.iter().try_for_each(|handle| handle.set_handles(self.handles as u32))?;
        }
        let snapshots = shown.iter().map(Bandit::snapshot).collect::<dpb::Result<Vec<_>>>()?;
        handles.iter().try_for_each(|handle| snapshots.iter().try_for_each(|snapshot| handle.merge(snapshot)))
    }
}

/// The clip, the decisions of the pilots, and the loss in percent of that of uniform play.
fn play(world: &World, clip: Clip, fleet: Fleet, decisions: u64, trial: Trial) -> Curve {
    let mut coins = trial.coins();
    let arms: Vec<(f64, f64)> = (0..ARMS)
        .map(|arm| match world.arms {
            Arms::Alike => (0.05 - 0.04 * arm as f64 / 9.0, MEDIAN),
            Arms::Scattered(most) => {
                (most * (1.0 + 2.0 * coins.unit()) / 3.0, MEDIAN * (0.45 * normal(&mut coins)).exp())
            }
            Arms::Rare => {
                if arm == 3 {
                    (0.002, 1000.0)
                } else {
                    (0.02, MEDIAN)
                }
            }
        })
        .collect();
    let (reward_max, learn_clip) = match clip {
        Clip::Learned(most) => (most, true),
        Clip::At(most) => (most, false),
    };
    let config = Config {
        reward_max,
        reward_bits: 24,
        clamp_rewards: true,
        learn_clip,
        fleet_key: fleet.has_one_noise.then(|| [1; 32].into()),
        ..Config::new(ARMS as u32, world.epsilon)
    };
    let handle = |node: u64| {
        let mut seed = trial.policy_seed();
        seed[31] ^= node as u8;
        let config = Config { node, test_seed: Some(seed), ..config.clone() };
        Bandit::new(Algorithm::Imed, &config).expect("a valid configuration")
    };
    let handles: Vec<_> = (0..fleet.handles).map(handle).collect();
    let worths: Vec<f64> = arms.iter().map(|&(rate, median)| rate * median * world.shape.mean()).collect();
    let best = worths.iter().copied().fold(0.0, f64::max);
    let uniform = best - worths.iter().sum::<f64>() / ARMS as f64;
    let clips = || handles.iter().map(|handle| handle.report().expect("a report").clip);
    let (mut lost, mut piloted, mut pilots) = (0.0, if learn_clip { decisions } else { 0 }, learn_clip);
    for number in 0..decisions {
        if pilots && number % 64 == 0 && clips().all(|clip| clip.is_some()) {
            (piloted, pilots) = (number, false);
        }
        if number % fleet.every == fleet.every - 1 {
            fleet.exchange(&handles).expect("an exchange");
        }
        let bandit = &handles[(number % fleet.handles) as usize];
        let decision = bandit.select().expect("a decision");
        let (rate, median) = arms[decision.arm as usize];
        lost += best - worths[decision.arm as usize];
        let amount = if coins.unit() < rate { median * world.shape.draw(&mut coins) } else { 0.0 };
        bandit.update(decision.ticket, amount).expect("an accepted reward");
    }
    vec![clips().next().flatten().unwrap_or(0.0), piloted as f64, 100.0 * lost / (uniform * decisions as f64)]
}

/// The world of the figure.
const DRAWN: &str = "lognormal 1.2";

/// The loss by `reward_max`, with a learned clip and without.
fn panel(world: &World, clips: &[Clip], samples: &[Sample]) -> Panel {
    let points = |learned: bool| {
        let of = |(clip, sample): (&Clip, &Sample)| {
            let (most, is_learned) = match *clip {
                Clip::Learned(most) => (most, true),
                Clip::At(most) => (most, false),
            };
            let (mean, error) = sample.last_mean();
            (is_learned == learned).then_some(Point { x: most, y: mean, low: mean - error, high: mean + error })
        };
        let mut points: Vec<Point> = clips.iter().zip(samples).filter_map(of).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    };
    Panel {
        title: format!("{}, epsilon {}", world.name, world.epsilon),
        x: Axis { label: "reward_max, 10 is about the median amount", log: true },
        y: Axis { label: "loss, % of uniform play's", log: false },
        lines: vec![Line::new("no clip", 0, points(false)), Line::new("learned clip", 1, points(true))],
    }
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, decisions) = (options.runs(2, 100), options.pick(20_000, 300_000));
    let clips: Vec<_> = SHOWN.into_iter().chain(CANDIDATES.map(Clip::At)).collect();
    let mut cells = Vec::new();
    for world in &WORLDS {
        for &clip in &clips {
            cells.push(Cell::new(runs, move |trial| play(world, clip, ALONE, decisions, trial)));
        }
    }
    let samples = run_cells("clip", &cells, options);
    let mut header: Vec<String> = ["world, epsilon", "best clip in hindsight", "loss there"].map(String::from).into();
    header.extend(SHOWN.iter().map(|clip| match clip {
        Clip::Learned(most) => format!("learned, `reward_max` {most}"),
        Clip::At(most) => format!("`reward_max` {most}"),
    }));
    header.extend(["learned clips, 10% and 90%", "decisions of the pilot"].map(String::from));
    let row = |(world, samples): (&World, &[Sample])| {
        let (shown, candidates) = samples.split_at(SHOWN.len());
        let loss = |sample: &Sample| sample.last_mean().0;
        let best = (0..CANDIDATES.len()).min_by(|&i, &j| f64::total_cmp(&loss(&candidates[i]), &loss(&candidates[j])));
        let best = best.expect("there are candidates");
        let mut learned: Vec<f64> = shown[0].0.iter().map(|curve| curve[0]).filter(|&clip| clip > 0.0).collect();
        learned.sort_by(f64::total_cmp);
        let quantile = |q: f64| {
            let place = (q * learned.len().saturating_sub(1) as f64).round() as usize;
            learned.get(place).map_or("none".into(), |clip| format!("{clip:.0}"))
        };
        let piloted = shown[0].0.iter().map(|curve| curve[1]).sum::<f64>() / shown[0].0.len() as f64;
        let mut row = vec![format!("{}, eps {}", world.name, world.epsilon), format!("{}", CANDIDATES[best])];
        row.push(mean(&candidates[best], 1));
        row.extend(shown.iter().map(|sample| mean(sample, 1)));
        row.extend([format!("{}, {}", quantile(0.1), quantile(0.9)), format!("{piloted:.0}")]);
        row
    };
    let drawn = WORLDS.iter().zip(samples.chunks(clips.len())).filter(|(world, _)| world.name == DRAWN);
    let panels = drawn.map(|(world, samples)| panel(world, &clips, samples)).collect();
    Figure { name: "clip", columns: 2, panels }.write(&options.out)?;
    let rows: Vec<_> = WORLDS.iter().zip(samples.chunks(clips.len())).map(row).collect();
    Ok(format!(
        "The loss in percent of that of uniform play, by the means of unclipped amounts: {decisions} decisions, {ARMS} \
         arms, {runs} runs.\n\n{}",
        table(&header, &rows),
    ))
}

/// The world of the figure, in fleets.
pub fn run_fleet(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, decisions) = (options.runs(2, 100), options.pick(20_000, 300_000));
    let worlds: Vec<_> = WORLDS.iter().filter(|world| world.name == DRAWN).collect();
    let mut cells = Vec::new();
    for &world in &worlds {
        for fleet in FLEETS {
            cells.push(Cell::new(runs, move |trial| play(world, SHOWN[0], fleet, decisions, trial)));
        }
    }
    let samples = run_cells("clip-fleet", &cells, options);
    let mut rows = Vec::new();
    for (world, samples) in worlds.iter().zip(samples.chunks(FLEETS.len())) {
        for (fleet, sample) in FLEETS.iter().zip(samples) {
            let handles = match fleet.handles {
                1 => "one".to_owned(),
                many => format!("{many}, exchange every {} decisions", fleet.every),
            };
            let noise = if fleet.has_one_noise { "one" } else { "its own" };
            let piloted = sample.0.iter().map(|curve| curve[1]).sum::<f64>() / sample.0.len() as f64;
            let loss = mean(sample, 1);
            rows.push(vec![format!("{}", world.epsilon), handles, noise.to_owned(), loss, format!("{piloted:.0}")]);
        }
    }
    let header = ["epsilon", "handles", "noise of each", "loss", "decisions of the pilots"].map(String::from);
    Ok(format!(
        "The same with `reward_max` 10,000 in {DRAWN} amounts, over several handles: {decisions} decisions together, \
         {runs} runs.\n\n{}",
        table(&header, &rows),
    ))
}
