//! libdpb's experiment with decisions by features: the regret of dp-linear, dp-linear without noise, logistic Thompson
//! sampling without privacy, and DP-IMED, which ignores features, in % of the regret of uniform play. More tables show
//! late rewards, a world that changes, a segment for each cell instead of features, and the worst of a hundred runs.

use super::Options;
use super::fleet::{Fleet, Sharing};
use super::plot::{Axis, BLACK, Figure, Line, Panel, Strength, mean_curve, table};
use super::runner::{Cell, Curve, Sample, Trial, run as run_cells};
use dpb::{Config, Feature, Request, Rows};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};

/// An epsilon so large that the noise is negligible.
pub const NO_NOISE: f64 = 1e4;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Ten ads with a model each, and three one-hot fields of the visitor. `cells` is the standard deviation of the
    /// effects of single cells.
    Ads { cells: f64 },
    /// `Ads` without such effects. At half of the horizon, the ads' rates are reversed.
    Turning,
    /// A hundred items with vectors, a context of three dimensions, and one model. The logits also contain products of
    /// an item's vector and the absolute values of the context's coordinates. `curved` is the standard deviation of
    /// their effects.
    Items { curved: f64 },
    /// Twenty new unit vectors of this dimension for each decision, and one model.
    Unit(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Player {
    Linear {
        epsilon: f64,
        /// The delay of each reward, in decisions.
        delay: usize,
        forget_after: u64,
    },
    /// Logistic Thompson sampling with an update after each decision. Its prior contains the mean rate.
    Thompson,
    /// Handles of dp-linear that decide in turn and merge after every `interval` decisions of the fleet; `u64::MAX`:
    /// never.
    Fleet { epsilon: f64, handles: usize, interval: u64, sharing: Sharing },
    /// DP-IMED at this epsilon, without features.
    Imed(f64),
    /// A bandit at this epsilon with a segment for each cell of `Ads`.
    Segments(f64),
    /// The arm with the largest mean over all requests.
    BestFixed,
}

/// dp-linear with the default configuration, at this epsilon.
pub const fn linear(epsilon: f64) -> Player {
    Player::Linear { epsilon, delay: 0, forget_after: 0 }
}

const fn fleet(epsilon: f64, handles: usize, interval: u64, sharing: Sharing) -> Player {
    Player::Fleet { epsilon, handles, interval, sharing }
}

fn normal(coins: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(coins)
}

fn unit(coins: &mut ChaCha8Rng) -> f64 {
    (coins.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

const FIELDS: [usize; 3] = [6, 4, 3];
const LEVELS: usize = 13;
const CELLS: usize = 72;
const ITEMS: usize = 100;
/// The standard deviations of theta in `Items`: of the main effects, and of the products with the context.
const MAIN: f64 = 1.0;
const INTERACTION: f64 = 1.5;
const VECTOR: usize = 4;
const CONTEXT: usize = 3;

/// A world, with the rows and the means of the current request.
pub struct World {
    kind: Kind,
    /// The features, d for each row. There is one row for each arm, or a single row if each arm has its own model.
    pub rows: Vec<f32>,
    pub means: Vec<f64>,
    /// Ads: the features of `rows` that are not 0, and the end of each row in them.
    sparse: Vec<Feature>,
    ends: Vec<u32>,
    /// Ads: for each field the cumulated probabilities of its levels, and the ads' rates in each cell.
    chances: Vec<Vec<f64>>,
    rates: Vec<[f64; 10]>,
    /// Ads: the cell of the current request.
    cell: usize,
    /// Items and unit: theta. Items: the vectors, the offsets, and the effects of products with absolute coordinates.
    theta: Vec<f64>,
    vectors: Vec<[f64; VECTOR]>,
    offsets: Vec<f64>,
    curves: Vec<f64>,
}

/// A random vector with |x|_1 = 1.
fn simplex<const N: usize>(coins: &mut ChaCha8Rng) -> [f64; N] {
    let x: [f64; N] = std::array::from_fn(|_| normal(coins));
    let size: f64 = x.iter().map(|x| x.abs()).sum();
    x.map(|x| x / size)
}

impl World {
    pub fn new(kind: Kind, coins: &mut ChaCha8Rng) -> World {
        let mut world = World {
            kind,
            rows: Vec::new(),
            means: Vec::new(),
            sparse: Vec::new(),
            ends: Vec::new(),
            chances: Vec::new(),
            rates: Vec::new(),
            cell: 0,
            theta: Vec::new(),
            vectors: Vec::new(),
            offsets: Vec::new(),
            curves: Vec::new(),
        };
        match kind {
            Kind::Ads { cells } => world.ads(cells, coins),
            Kind::Turning => world.ads(0.0, coins),
            Kind::Items { curved } => {
                // With these deviations, the best fixed arm loses some 40% of the loss of uniform play.
                world.theta = (0..VECTOR).map(|_| MAIN * normal(coins)).collect();
                world.theta.extend((0..VECTOR * CONTEXT).map(|_| INTERACTION * normal(coins)));
                world.curves = (0..VECTOR * CONTEXT).map(|_| curved * normal(coins)).collect();
                world.vectors = (0..ITEMS).map(|_| simplex::<VECTOR>(coins).map(|x| 2.0 * x)).collect();
                world.offsets = (0..ITEMS).map(|_| 0.15 * normal(coins)).collect();
            }
            Kind::Unit(d) => {
                world.theta = (0..d).map(|_| normal(coins)).collect();
                let size = world.theta.iter().map(|x| x * x).sum::<f64>().sqrt();
                world.theta.iter_mut().for_each(|x| *x /= size);
            }
        }
        world
    }

    fn ads(&mut self, cells: f64, coins: &mut ChaCha8Rng) {
        // Gamma(2) is the sum of two exponentials.
        let mut gamma = || -(1.0 - unit(coins)).ln() - (1.0 - unit(coins)).ln();
        for levels in FIELDS {
            let weights: Vec<f64> = (0..levels).map(|_| gamma()).collect();
            let total: f64 = weights.iter().sum();
            let mut sum = 0.0;
            self.chances.push(weights.iter().map(|weight| (sum += weight / total, sum).1).collect());
        }
        let arms: [f64; 10] = std::array::from_fn(|_| -3.6 + 0.4 * normal(coins));
        let levels: Vec<[f64; 10]> = (0..LEVELS)
            .map(|_| {
                let all = 0.3 * normal(coins);
                std::array::from_fn(|_| all + 0.4 * normal(coins))
            })
            .collect();
        for cell in 0..CELLS {
            let places = [cell % 6, 6 + cell / 6 % 4, 10 + cell / 24];
            self.rates.push(std::array::from_fn(|arm| {
                let effects: f64 = places.iter().map(|&place| levels[place][arm]).sum();
                sigmoid(arms[arm] + effects + cells * normal(coins))
            }));
        }
    }

    pub fn arms(&self) -> usize {
        match self.kind {
            Kind::Ads { .. } | Kind::Turning => 10,
            Kind::Items { .. } => ITEMS,
            Kind::Unit(_) => 20,
        }
    }

    fn per_arm(&self) -> bool {
        matches!(self.kind, Kind::Ads { .. } | Kind::Turning)
    }

    /// d.
    fn features(&self) -> usize {
        match self.kind {
            Kind::Ads { .. } | Kind::Turning => LEVELS,
            Kind::Items { .. } => VECTOR * (1 + CONTEXT),
            Kind::Unit(d) => d,
        }
    }

    /// Draws the next request.
    pub fn step(&mut self, coins: &mut ChaCha8Rng) {
        self.rows.clear();
        self.means.clear();
        match self.kind {
            Kind::Ads { .. } | Kind::Turning => {
                let mut level = |field: usize| {
                    let u = unit(coins);
                    let chances = &self.chances[field];
                    chances.iter().position(|&chance| u < chance).unwrap_or(chances.len() - 1)
                };
                let places = [level(0), level(1), level(2)];
                self.sparse.clear();
                self.rows.resize(LEVELS, 0.0);
                for (place, start) in places.into_iter().zip([0, 6, 10]) {
                    self.rows[start + place] = 1.0;
                    self.sparse.push(Feature { index: (start + place) as u32, value: 1.0 });
                }
                self.ends = vec![3];
                self.cell = places[0] + 6 * places[1] + 24 * places[2];
                self.means.extend(self.rates[self.cell]);
            }
            Kind::Items { .. } => {
                let context: [f64; CONTEXT] = simplex(coins);
                // The logit x theta equals v t for an item with vector v. The context determines t.
                let mut t: [f64; VECTOR] = std::array::from_fn(|j| self.theta[j]);
                for (i, c) in context.into_iter().enumerate() {
                    let (linear, curve) = (&self.theta[VECTOR * (1 + i)..], &self.curves[VECTOR * i..]);
                    (0..VECTOR).for_each(|j| t[j] += c * linear[j] + c.abs() * curve[j]);
                }
                for (vector, offset) in self.vectors.iter().zip(&self.offsets) {
                    self.rows.extend(vector.map(|v| v as f32));
                    context.iter().for_each(|c| self.rows.extend(vector.map(|v| (c * v) as f32)));
                    let logit: f64 = vector.iter().zip(t).map(|(v, t)| v * t).sum();
                    self.means.push(sigmoid(-3.5 + logit + offset));
                }
            }
            Kind::Unit(d) => {
                for _ in 0..20 {
                    let start = self.rows.len();
                    let (mut square, mut product) = (0.0, 0.0);
                    for theta in &self.theta[..d] {
                        let x = normal(coins);
                        square += x * x;
                        product += x * theta;
                        self.rows.push(x as f32);
                    }
                    let size = f64::sqrt(square);
                    self.rows[start..].iter_mut().for_each(|x| *x /= size as f32);
                    self.means.push(0.5 + 0.5 * product / size);
                }
            }
        }
    }

    pub fn rows(&self) -> Rows<'_> {
        match self.kind {
            Kind::Ads { .. } | Kind::Turning => Rows::Sparse(&self.sparse, &self.ends),
            _ => Rows::Dense(&self.rows),
        }
    }

    /// Reverses the ads' rates.
    fn turn(&mut self) {
        self.rates.iter_mut().for_each(|rates| rates.reverse());
    }

    /// The arm with the largest mean over 20,000 requests.
    fn best_fixed(&mut self, coins: &mut ChaCha8Rng) -> usize {
        let mut sums = vec![0.0; self.arms()];
        for _ in 0..20_000 {
            self.step(coins);
            sums.iter_mut().zip(&self.means).for_each(|(sum, mean)| *sum += mean);
        }
        (0..sums.len()).max_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0)
    }
}

/// Logistic Thompson sampling without privacy. The posterior is Gaussian: an extended Kalman filter in Potter's
/// square-root form, which linearises the model at each reward.
struct Thompson {
    d: usize,
    /// For each model the mean theta, and a square root S of the covariance, row by row.
    models: Vec<(Vec<f64>, Vec<f64>)>,
}

impl Thompson {
    fn new(models: usize, d: usize, logit: f64, deviation: f64) -> Thompson {
        let mut mean = vec![0.0; d];
        mean[0] = logit;
        let root =
            (0..d * d).map(|i| if i % (d + 1) == 0 { if i == 0 { 1.0 } else { deviation } } else { 0.0 }).collect();
        Thompson { d, models: vec![(mean, root); models] }
    }

    /// Draws theta + S z/2, where z is standard normal.
    fn draw(&self, model: usize, coins: &mut ChaCha8Rng) -> Vec<f64> {
        let (mean, root) = &self.models[model];
        let z: Vec<f64> = (0..self.d).map(|_| 0.5 * normal(coins)).collect();
        root.chunks_exact(self.d)
            .zip(mean)
            .map(|(row, mean)| mean + row.iter().zip(&z).map(|(s, z)| s * z).sum::<f64>())
            .collect()
    }

    /// Returns S'x.
    fn spread(&self, root: &[f64], x: &[f64]) -> Vec<f64> {
        let mut f = vec![0.0; self.d];
        for (row, &x) in root.chunks_exact(self.d).zip(x).filter(|(_, x)| **x != 0.0) {
            f.iter_mut().zip(row).for_each(|(f, s)| *f += s * x);
        }
        f
    }

    /// Draws from the distribution of x (theta + S z/2).
    fn score(&self, model: usize, x: &[f64], coins: &mut ChaCha8Rng) -> f64 {
        let (mean, root) = &self.models[model];
        let size = self.spread(root, x).iter().map(|f| f * f).sum::<f64>().sqrt();
        mean.iter().zip(x).map(|(mean, x)| mean * x).sum::<f64>() + 0.5 * size * normal(coins)
    }

    fn learn(&mut self, model: usize, x: &[f64], reward: f64) {
        let f = self.spread(&self.models[model].1, x);
        let (mean, root) = &mut self.models[model];
        let p = sigmoid(mean.iter().zip(x).map(|(mean, x)| mean * x).sum());
        let v = (p * (1.0 - p)).max(1e-6);
        let alpha = 1.0 / (1.0 / v + f.iter().map(|f| f * f).sum::<f64>());
        let gamma = alpha / (1.0 + (alpha / v).sqrt());
        for (row, mean) in root.chunks_exact_mut(self.d).zip(mean) {
            let gain: f64 = row.iter().zip(&f).map(|(s, f)| s * f).sum();
            *mean += alpha * gain * (reward - p) / v;
            row.iter_mut().zip(&f).for_each(|(s, f)| *s -= gamma * gain * f);
        }
    }
}

/// The regret at each of these times, in % of the regret of uniform play.
pub fn play(kind: Kind, player: Player, times: &[u64], trial: Trial) -> Curve {
    let coins_for = |purpose: u64| ChaCha8Rng::from_seed(trial.key(purpose));
    let mut coins = coins_for(2);
    let mut world = World::new(kind, &mut coins);
    let (arms, features) = (world.arms(), world.features());
    let per_arm = world.per_arm();
    let config = |epsilon: f64| Config { pending_capacity: 1, ..Config::new(arms as u32, epsilon) };
    let by_features = |config: Config| Config { features: features as u32, model_per_arm: per_arm, ..config };
    let make_fleet = |handles: usize, sharing: Sharing, config: Config| {
        let seed = |handle: usize| Trial { run: trial.run + 1000 * handle as u64, ..trial }.policy_seed();
        Fleet::new((0..handles).map(|handle| Config { test_seed: Some(seed(handle)), ..config.clone() }), sharing)
    };
    let make = |handles: usize, config: Config| make_fleet(handles, Sharing::Own, config);
    let (mut fleet, mut thompson) = (make(0, config(1.0)), None);
    let (mut fixed, mut delay, mut waiting, mut merges) = (0, 0, VecDeque::new(), u64::MAX);
    match player {
        Player::Linear { epsilon, delay: late, forget_after } => {
            delay = late;
            let pending_capacity = 1 + late as u32;
            fleet = make(1, by_features(Config { forget_after, pending_capacity, ..config(epsilon) }));
        }
        Player::Fleet { epsilon, handles, interval, sharing } => {
            merges = interval;
            fleet = make_fleet(handles, sharing, by_features(config(epsilon)));
        }
        Player::Segments(epsilon) => fleet = make(1, Config { max_segments: CELLS as u32, ..config(epsilon) }),
        Player::Imed(epsilon) => fleet = make(1, config(epsilon)),
        Player::Thompson => {
            let (logit, deviation) = match kind {
                Kind::Ads { .. } | Kind::Turning => (-3.6, 0.58),
                Kind::Items { .. } => (-3.5, 1.0),
                Kind::Unit(_) => (0.0, 1.0),
            };
            thompson = Some(Thompson::new(if per_arm { arms } else { 1 }, 1 + features, logit, deviation));
        }
        Player::BestFixed => fixed = world.best_fixed(&mut coins_for(9)),
    }
    let mut own = coins_for(8);
    let (mut lost, mut uniform, mut curve) = (0.0, 0.0, Vec::new());
    for time in 1..=times[times.len() - 1] {
        if kind == Kind::Turning && time == 1 + times[times.len() - 1] / 2 {
            world.turn();
        }
        world.step(&mut coins);
        let row = |arm: usize| -> Vec<f64> {
            let start = if per_arm { 0 } else { features * arm };
            std::iter::once(1.0).chain(world.rows[start..][..features].iter().map(|&x| f64::from(x))).collect()
        };
        let handle = (time % fleet.handles.len().max(1) as u64) as usize;
        let mut ticket = 0;
        let arm = if let Some(bandit) = fleet.handles.get(handle) {
            let request = match player {
                Player::Linear { .. } | Player::Fleet { .. } => {
                    Request { features: Some(world.rows()), ..Request::default() }
                }
                Player::Segments(_) => Request { segment: world.cell as u64, ..Request::default() },
                _ => Request::default(),
            };
            let decision = bandit.select_for(&request).expect("a decision");
            ticket = decision.ticket;
            decision.arm as usize
        } else if let Some(thompson) = &thompson {
            let scores: Vec<f64> = if per_arm {
                let x = row(0);
                (0..arms).map(|arm| thompson.score(arm, &x, &mut own)).collect()
            } else {
                let theta = thompson.draw(0, &mut own);
                let score = |row: &[f32]| row.iter().zip(&theta[1..]).map(|(&x, theta)| f64::from(x) * theta).sum();
                world.rows.chunks_exact(features).map(score).collect()
            };
            (0..arms).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
        } else {
            fixed
        };
        let mean = world.means[arm];
        let reward = f64::from(u8::from(unit(&mut coins) < mean));
        if let Some(bandit) = fleet.handles.get(handle) {
            waiting.push_back((ticket, reward));
            if waiting.len() > delay
                && let Some((ticket, reward)) = waiting.pop_front()
            {
                bandit.update(ticket, reward).expect("a reward");
            }
        } else if let Some(thompson) = &mut thompson {
            thompson.learn(if per_arm { arm } else { 0 }, &row(arm), reward);
        }
        if time.is_multiple_of(merges) {
            fleet.exchange();
        }
        let best = world.means.iter().copied().fold(0.0, f64::max);
        lost += best - mean;
        uniform += best - world.means.iter().sum::<f64>() / arms as f64;
        if times.contains(&time) {
            curve.push(100.0 * lost / uniform);
        }
    }
    curve
}

/// The label of each world, its kind, and the times in its rows of the table.
const WORLDS: [(&str, Kind, &[u64]); 6] = [
    ("ads", Kind::Ads { cells: 0.0 }, &[100_000, 1_000_000]),
    ("ads, cells' own effects", Kind::Ads { cells: 0.3 }, &[1_000_000]),
    ("items", Kind::Items { curved: 0.0 }, &[100_000]),
    ("items, curved", Kind::Items { curved: 0.75 }, &[100_000]),
    ("unit, d = 8", Kind::Unit(8), &[100_000]),
    ("unit, d = 16", Kind::Unit(16), &[100_000]),
];

/// The times in the figure, up to the last time in the table.
const GRID: [u64; 10] = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];

/// A column of the table: its label, the policy, and the colour and strength of its line if it is in the figure.
type Column = (&'static str, Player, Option<(usize, Strength)>);

fn players() -> [Column; 9] {
    [
        ("eps 0.1", linear(0.1), None),
        ("eps 0.25", linear(0.25), Some((0, Strength::Thin))),
        ("eps 1", linear(1.0), Some((0, Strength::Bold))),
        ("eps 4", linear(4.0), None),
        ("no noise", linear(NO_NOISE), None),
        ("logistic TS, not private", Player::Thompson, Some((BLACK, Strength::Bold))),
        ("DP-IMED, eps 0.25", Player::Imed(0.25), Some((1, Strength::Thin))),
        ("DP-IMED, eps 1", Player::Imed(1.0), Some((1, Strength::Bold))),
        ("best fixed arm", Player::BestFixed, Some((2, Strength::Bold))),
    ]
}

/// Draws the regret by time in *ads* and *items*.
fn draw(grids: &[Vec<u64>], samples: &[Sample], options: &Options) -> Result<(), Box<dyn Error>> {
    let players = players();
    let mut panels = Vec::new();
    for (&(name, ..), (grid, block)) in WORLDS.iter().zip(grids.iter().zip(samples.chunks(players.len()))) {
        if name.contains(',') {
            continue;
        }
        let line = |(player, sample): (&Column, &Sample)| {
            let (colour, strength) = player.2?;
            let label = if player.0.starts_with("eps") { format!("dp-linear, {}", player.0) } else { player.0.into() };
            Some(Line { strength, ..Line::new(&label, colour, mean_curve(grid, sample)) })
        };
        panels.push(Panel {
            title: name.to_owned(),
            x: Axis { label: "decisions", log: true },
            y: Axis { label: "regret, % of uniform play's", log: false },
            lines: players.iter().zip(block).filter_map(line).collect(),
        });
    }
    Figure { name: "linear", columns: 2, panels }.write(&options.out)
}

/// dp-linear at epsilon 1 with late rewards, with a world that changes and in a fleet; and a segment for each cell.
const VARIANTS: [(&str, Kind, Player); 9] = [
    ("dp-linear", Kind::Ads { cells: 0.0 }, linear(1.0)),
    ("rewards 10,000 late", Kind::Ads { cells: 0.0 }, Player::Linear { epsilon: 1.0, delay: 10_000, forget_after: 0 }),
    ("a fleet of 4, merged every 10,000", Kind::Ads { cells: 0.0 }, fleet(1.0, 4, 10_000, Sharing::Own)),
    ("4 that never merge", Kind::Ads { cells: 0.0 }, fleet(1.0, 4, u64::MAX, Sharing::Own)),
    ("a segment for each cell", Kind::Ads { cells: 0.0 }, Player::Segments(1.0)),
    ("cells' own effects", Kind::Ads { cells: 0.3 }, linear(1.0)),
    ("cells' own effects, a segment for each", Kind::Ads { cells: 0.3 }, Player::Segments(1.0)),
    ("half-way all changes", Kind::Turning, linear(1.0)),
    (
        "half-way all changes, forget_after 4e5",
        Kind::Turning,
        Player::Linear { epsilon: 1.0, delay: 0, forget_after: 400_000 },
    ),
];

/// The policies that play *items* for ten times as long.
const LONG: [(&str, Player); 5] = [
    ("eps 0.25", linear(0.25)),
    ("eps 1", linear(1.0)),
    ("no noise", linear(NO_NOISE)),
    ("logistic TS, not private", Player::Thompson),
    ("best fixed arm", Player::BestFixed),
];

/// The epsilons of the table of worst runs of *ads*.
const TAILS: [f64; 2] = [1.0, 0.25];

/// A table with a row for each of these policies and worlds, and a column for each time: mean ± standard error.
fn means(title: &str, runs: u64, players: &[(&str, Kind, Player)], options: &Options) -> String {
    let times = options.pick(&[20_000][..], &[100_000, 1_000_000]);
    let cell =
        |&(_, kind, player): &(&str, Kind, Player)| Cell::new(runs, move |trial| play(kind, player, times, trial));
    let cells: Vec<Cell> = players.iter().map(cell).collect();
    let header: Vec<String> = [title.to_owned()].into_iter().chain(times.iter().map(u64::to_string)).collect();
    let rows: Vec<Vec<String>> = players
        .iter()
        .zip(run_cells("linear-more", &cells, options))
        .map(|((name, ..), sample)| {
            let (mean, errors) = (sample.mean(), sample.errors());
            let figures = mean.iter().zip(errors).map(|(mean, error)| format!("{mean:.1} ± {error:.1}"));
            [String::from(*name)].into_iter().chain(figures).collect()
        })
        .collect();
    format!("{runs} worlds.\n\n{}", table(&header, &rows))
}

/// The table of worst runs.
fn tails(options: &Options) -> String {
    let (runs, times) = (options.runs(5, 100), options.pick(&[20_000][..], &[100_000, 1_000_000]));
    let ads = Kind::Ads { cells: 0.0 };
    let cells = TAILS.map(|epsilon| Cell::new(runs, move |trial| play(ads, linear(epsilon), times, trial)));
    let mut header = vec![String::from("ads")];
    header.extend(times.iter().map(|time| format!("mean at {time}")));
    header.extend(["median", "95%", "worst", "above 20", "above 50"].map(String::from));
    let rows: Vec<Vec<String>> = TAILS
        .iter()
        .zip(run_cells("linear-more", &cells, options))
        .map(|(epsilon, sample)| {
            let last = sample.last();
            let at = |part: usize| format!("{:.1}", last[(part * last.len() / 100).min(last.len() - 1)]);
            let above = |limit: f64| last.iter().filter(|&&lost| lost > limit).count().to_string();
            let mut row = vec![format!("eps {epsilon}")];
            row.extend(
                sample.mean().iter().zip(sample.errors()).map(|(mean, error)| format!("{mean:.1} ± {error:.1}")),
            );
            row.extend([at(50), at(95), at(100), above(20.0), above(50.0)]);
            row
        })
        .collect();
    format!("{runs} runs each, {} decisions.\n\n{}", times[times.len() - 1], table(&header, &rows))
}

/// The tables besides the table of worlds: variants, worst runs, and longer runs.
pub fn run_more(options: &Options) -> Result<String, Box<dyn Error>> {
    let long = LONG.map(|(name, player)| (name, Kind::Items { curved: 0.0 }, player));
    Ok([
        means("ads, eps 1", options.runs(1, 20), &VARIANTS, options),
        tails(options),
        means("items", options.runs(1, 8), &long, options),
    ]
    .join("\n"))
}

/// *ads* by the number of handles. The handles have one noise and exchange every 1000 decisions of the fleet.
pub fn run_fleet(options: &Options) -> Result<String, Box<dyn Error>> {
    let mut players = Vec::new();
    for (epsilon, name) in [(1.0, "eps 1"), (0.25, "eps 0.25"), (0.1, "eps 0.1")] {
        for (handles, label) in [(1, "1 handle"), (4, "4 handles"), (16, "16 handles")] {
            let title = format!("{name}, {label}");
            players.push((title, Kind::Ads { cells: 0.0 }, fleet(epsilon, handles, 1_000, Sharing::One)));
        }
    }
    let players: Vec<_> = players.iter().map(|(title, kind, player)| (&title[..], *kind, *player)).collect();
    Ok(means("ads, one noise", options.runs(1, 2), &players, options))
}

/// The policies that are compared with vw.py.
const STREAMED: [(&str, Player); 4] = [
    ("dp-linear, eps 0.25", linear(0.25)),
    ("dp-linear, eps 1", linear(1.0)),
    ("dp-linear, no noise", linear(NO_NOISE)),
    ("logistic TS, not private", Player::Thompson),
];

/// Writes the streams of some worlds of *ads* for vw.py. A line is a decision: the three levels, a uniform random
/// number u, and the rates. The reward is 1 if the rate of the shown ad is above u. Returns the regret of libdpb's
/// policies on these streams.
pub fn run_stream(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, time, kind) = (options.runs(1, 3), options.pick(2_000, 100_000), Kind::Ads { cells: 0.0 });
    for run in 0..runs {
        let mut coins = ChaCha8Rng::from_seed(Trial { seed: options.seed, run }.key(2));
        let mut world = World::new(kind, &mut coins);
        let mut stream = BufWriter::new(File::create(options.out.join(format!("stream-{run}.csv")))?);
        for _ in 0..time {
            world.step(&mut coins);
            let levels = world.sparse.iter().map(|feature| feature.index.to_string());
            let numbers = [unit(&mut coins)].into_iter().chain(world.means.iter().copied());
            let line: Vec<String> = levels.chain(numbers.map(|x| format!("{x:.7}"))).collect();
            writeln!(stream, "{}", line.join(","))?;
        }
        stream.flush()?;
    }
    let times = [time];
    let cells = STREAMED.map(|(_, player)| Cell::new(runs, move |trial| play(kind, player, &times, trial)));
    let mut rows = Vec::new();
    for ((name, _), sample) in STREAMED.iter().zip(run_cells("linear-stream", &cells, options)) {
        let (mean, error) = sample.last_mean();
        rows.push(vec![String::from(*name), format!("{mean:.1} ± {error:.1}")]);
    }
    let header = ["ads".to_owned(), time.to_string()];
    Ok(format!("{runs} worlds: regret in % of what uniform play loses.\n\n{}", table(&header, &rows)))
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, players) = (options.runs(1, 20), players());
    let times = |full: &'static [u64]| options.pick(&[20_000][..], full);
    let grid = |full| {
        let times = times(full);
        GRID.into_iter().filter(|&time| time <= times[times.len() - 1]).collect::<Vec<u64>>()
    };
    let grids: Vec<Vec<u64>> = WORLDS.iter().map(|&(_, _, full)| grid(full)).collect();
    let cells: Vec<Cell> = WORLDS
        .iter()
        .zip(&grids)
        .flat_map(|(&(_, kind, _), grid)| {
            players.iter().map(move |&(_, player, _)| Cell::new(runs, move |trial| play(kind, player, grid, trial)))
        })
        .collect();
    let samples = run_cells("linear", &cells, options);
    draw(&grids, &samples, options)?;
    let mut header = vec![String::from("world, decisions")];
    header.extend(players.iter().map(|(label, ..)| String::from(*label)));
    let mut rows = Vec::new();
    for ((&(name, _, full), grid), block) in WORLDS.iter().zip(&grids).zip(samples.chunks(players.len())) {
        for time in times(full) {
            let place = grid.iter().position(|at| at == time).expect("the grid has all times of the table");
            let mut row = vec![format!("{name}, {time}")];
            row.extend(
                block.iter().map(|sample| format!("{:.1} ± {:.1}", sample.mean()[place], sample.errors()[place])),
            );
            rows.push(row);
        }
    }
    Ok(format!("{runs} worlds: regret in % of what uniform play loses.\n\n{}", table(&header, &rows)))
}
