//! libdpb's experiment with the tails of the regret. Every policy of logarithmic regret loses the best arm for good in
//! some runs. 20,000 runs of each cell show in how many, and how much caution against it adds to the mean.
//!
//! A simulation plays DP-IMED a batch at a time, with binomial sums, because single decisions would take days.
//! tests/figures.rs compares the simulation with the library by a statistical test.

use super::Options;
use super::clicks::normal;
use super::environment::{Recorder, Setting, instances};
use super::plot::{Axis, Figure, Line, Panel, Point, Strength, table};
use super::runner::{Cell, Curve, Sample, Trial, run as run_cells};
use dpb::Random;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Binomial, Distribution};
use std::error::Error;

/// A variant of DP-IMED.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Each batch of an arm has as many rewards as all its batches before. If false, the evidence in nats determines
    /// the size.
    pub doubling: bool,
    /// The maximum that the likelihood adds to the exponent, in nats.
    pub band: f64,
    /// The index has the factor c = 1 - caution * s, where s = 4V/(4V + N) is the noise's part of the uncertainty.
    pub caution: f64,
    /// The leader's index counts its rewards divided by this. `None`: by the library's kappa of the number of arms.
    pub kappa: Option<f64>,
}

impl Variant {
    fn margin(self, arms: usize) -> f64 {
        self.kappa.unwrap_or(1.0 + arms.saturating_sub(10) as f64 / 8.0).ln()
    }
}

/// The variant that the library implements.
pub const DEFAULT: Variant = Variant { doubling: false, band: 3.0, caution: 1.0 / 3.0, kappa: None };

const VARIANTS: [(&str, Variant); 5] = [
    ("doubling, D, c = 1", Variant { doubling: true, band: 0.0, caution: 0.0, ..DEFAULT }),
    ("nats, D, c = 1", Variant { band: 0.0, caution: 0.0, ..DEFAULT }),
    ("nats, D', c = 1", Variant { caution: 0.0, ..DEFAULT }),
    ("nats, D', c = 1 - s/3 (the default)", DEFAULT),
    ("nats, D', c = 1 - s/2", Variant { caution: 0.5, ..DEFAULT }),
];

/// A release, or several that were joined: the number of rewards, their noisy sum, and the number of noises in it.
struct Pair {
    count: f64,
    sum: f64,
    noises: f64,
}

struct Arm {
    pairs: Vec<Pair>,
    /// The leader's mean for which `divergence` was computed.
    at: f64,
    divergence: f64,
}

impl Arm {
    fn count(&self) -> f64 {
        self.pairs.iter().map(|pair| pair.count).sum()
    }

    fn mean(&self, epsilon: f64) -> f64 {
        let weight = |pair: &Pair| 1.0 / (1.0 + 8.0 * pair.noises / (epsilon * epsilon * pair.count));
        let sum: f64 = self.pairs.iter().map(|pair| weight(pair) * pair.sum).sum();
        (sum / self.pairs.iter().map(|pair| weight(pair) * pair.count).sum::<f64>()).clamp(0.0, 1.0)
    }

    fn push(&mut self, pair: Pair) {
        if self.pairs.len() == 12 {
            let rewards = |i: usize| self.pairs[i].count + self.pairs[i + 1].count;
            let fewest = (1..11).fold(0, |best, i| if rewards(i) < rewards(best) { i } else { best });
            let joined = self.pairs.remove(fewest);
            let into = &mut self.pairs[fewest];
            (into.count, into.sum) = (into.count + joined.count, into.sum + joined.sum);
            into.noises += joined.noises;
        }
        self.pairs.push(pair);
        self.at = f64::NAN;
    }

    /// D' from the arm's releases to the mean q. Uses bisection instead of the library's Newton's method.
    fn divergence(&self, q: f64, epsilon: f64, band: f64) -> f64 {
        let terms: Vec<[f64; 4]> = self
            .pairs
            .iter()
            .map(|p| [p.count, p.sum, p.noises, 1.0 / (1.0 + 8.0 * p.noises / (epsilon * epsilon * p.count))])
            .collect();
        let slope = |l: f64| -> f64 {
            let each = |&[n, y, k, w]: &[f64; 4]| {
                let (s, tilted) = (l * w, q * (-l * w).exp());
                w * (n * tilted / (1.0 - q + tilted) - y - k * 2.0 * s / (epsilon * epsilon - s * s))
            };
            terms.iter().map(each).sum()
        };
        if slope(0.0) <= 0.0 {
            return 0.0;
        }
        let heaviest = terms.iter().map(|t| t[3]).fold(0.0, f64::max);
        let l = root(0.0, epsilon / heaviest, 40, |l| slope(l) > 0.0);
        let noise = |s: f64| -(-(s / epsilon).powi(2)).ln_1p();
        let value = |&[n, y, k, w]: &[f64; 4]| -l * w * y - n * (q * (-l * w).exp_m1()).ln_1p() - k * noise(l * w);
        let exponent = terms.iter().map(value).sum::<f64>().max(0.0);
        if band == 0.0 || exponent == 0.0 {
            return exponent;
        }
        let own = self.mean(epsilon).max(0.02 * q);
        let gain = |&[n, y, k, _]: &[f64; 4]| log_density(n, y, k, own, epsilon) - log_density(n, y, k, q, epsilon);
        exponent + (terms.iter().map(gain).sum::<f64>() - exponent).clamp(0.0, band)
    }
}

/// The point between `low` and `high` at which `before` changes from true to false, by bisection.
fn root(mut low: f64, mut high: f64, steps: u32, before: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..steps {
        let middle = 0.5 * (low + high);
        if before(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The logarithm of the saddlepoint density at y of the sum of n Bernoulli rewards and k Laplace noises.
fn log_density(n: f64, y: f64, k: f64, mean: f64, epsilon: f64) -> f64 {
    let q = mean.clamp(1e-6, 1.0 - 1e-6);
    let tilted = |s: f64| q * s.exp() / (1.0 - q + q * s.exp());
    let margin = |s: f64| epsilon * epsilon - s * s;
    let s = root(-epsilon, epsilon, 40, |s| n * tilted(s) + k * 2.0 * s / margin(s) < y);
    let first = 2.0 * s / margin(s);
    let bend = n * tilted(s) * (1.0 - tilted(s)) + k * (2.0 / margin(s) + first * first);
    let noise = -k * (-(s / epsilon).powi(2)).ln_1p();
    n * (q * s.exp_m1()).ln_1p() + noise - s * y - 0.5 * (std::f64::consts::TAU * bend).ln()
}

/// DP-IMED with delta = 0 and rewards without delay.
pub fn imed(variant: Variant, epsilon: f64, setting: &Setting, at: &[u64], trial: Trial) -> Curve {
    let mut coins = ChaCha8Rng::from_seed(trial.key(6));
    let (gaps, mut recorder) = (setting.gaps(), Recorder::new(at));
    let first = (1.0 / epsilon).ceil();
    let mut arms: Vec<Arm> = gaps.iter().map(|_| Arm { pairs: Vec::new(), at: f64::NAN, divergence: 0.0 }).collect();
    let (mut sum, mut rewards, mut releases) = (0.0, 0.0, 0.0f64);
    while !recorder.done() {
        let (arm, size) = match arms.iter().position(|arm| arm.pairs.is_empty()) {
            Some(arm) => (arm, first),
            None => next(variant, epsilon, &mut arms),
        };
        let deviation = 2f64.sqrt() / epsilon;
        let rate = f64::max(sum, deviation * (2.0 * releases).sqrt()) / rewards;
        // Before the first release the minimum is NaN, which max ignores.
        let size = f64::max(size, (2.0 * deviation * (1.0 / rate - 2.0)).ceil());
        recorder.round_robin(&gaps[arm..=arm], size as u64);
        let ones = Binomial::new(size as u64, setting.means[arm]).expect("a mean in [0, 1]").sample(&mut coins);
        let uniform = (coins.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let noise = -uniform.signum() * (1.0 - 2.0 * uniform.abs()).max(1e-300).ln() / epsilon;
        (sum, rewards, releases) = (sum + ones as f64 + noise, rewards + size, releases + 1.0);
        arms[arm].push(Pair { count: size, sum: (ones as f64 + noise).max(0.0), noises: 1.0 });
    }
    recorder.finish(0.0)
}

/// The arm of the next batch, and the batch's size.
fn next(variant: Variant, epsilon: f64, arms: &mut [Arm]) -> (usize, f64) {
    let means: Vec<f64> = arms.iter().map(|arm| arm.mean(epsilon)).collect();
    let leader = (1..means.len()).fold(0, |best, arm| if means[arm] > means[best] { arm } else { best });
    let q = means[leader];
    let share = |n: f64| 8.0 / (8.0 + n * epsilon * epsilon);
    let margin = variant.margin(arms.len());
    let index = |arm: &Arm, divergence: f64| {
        let n = arm.count();
        (1.0 - variant.caution * share(n)) * divergence + n.ln() + if divergence > 0.0 { margin } else { 0.0 }
    };
    let mut best = (leader, index(&arms[leader], 0.0));
    for (number, arm) in arms.iter_mut().enumerate() {
        // Divergences grow with q, so one to a smaller q is a lower bound.
        let known = if arm.at <= q { arm.divergence } else { 0.0 };
        if number == leader || index(arm, known) >= best.1 {
            continue;
        }
        if arm.at != q {
            (arm.divergence, arm.at) = (arm.divergence(q, epsilon, variant.band), q);
        }
        let index = index(arm, arm.divergence);
        if index < best.1 {
            best = (number, index);
        }
    }
    let n = arms[best.0].count();
    let evidence = (1.0 - variant.caution * share(n)) * arms[best.0].divergence;
    let size = if variant.doubling || (evidence == 0.0 && best.0 != leader) {
        n
    } else if best.0 == leader {
        3.0 * n
    } else {
        let need = arms[leader].count().ln() + 0.25 + 0.5 * share(n) - best.1;
        (need * n / evidence).clamp(n / 8.0, n)
    };
    (best.0, size.ceil())
}

const EPSILONS: [f64; 3] = [0.1, 0.25, 1.0];

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(20_000, 1_000_000), options.runs(40, 20_000));
    let at = [horizon];
    let settings = instances().map(|(name, means)| (name, Setting::new(&means, horizon)));
    let mut cells = Vec::new();
    for (_, variant) in VARIANTS {
        for (_, setting) in &settings {
            for epsilon in EPSILONS {
                let at = &at;
                cells.push(Cell::new(runs, move |trial| imed(variant, epsilon, setting, at, trial)));
            }
        }
    }
    let samples = run_cells("tails", &cells, options);
    let many = settings.len() * EPSILONS.len();
    let mut header = vec![String::from("mean / median / runs above 20 medians")];
    for (name, _) in &settings {
        header.extend(EPSILONS.map(|epsilon| format!("{name}, eps {epsilon}")));
    }
    let mut rows = Vec::new();
    let mut panels: Vec<Panel> = Vec::new();
    for (number, ((label, _), samples)) in VARIANTS.iter().zip(samples.chunks(many)).enumerate() {
        let mut row = vec![(*label).to_owned()];
        for (place, sample) in samples.iter().enumerate() {
            let (values, (mean, error)) = (sample.last(), sample.last_mean());
            let median = values[values.len() / 2];
            let lost = values.iter().filter(|&&value| value > 20.0 * median).count();
            row.push(format!("{mean:.0} ± {error:.0} / {median:.0} / {lost}"));
            if place % EPSILONS.len() == 0 {
                // The fraction of runs above each value.
                let above = |i: usize| Point::new(values[i], (values.len() - i) as f64 / values.len() as f64);
                let steps = (0..200).map(|i| (values.len() as f64 * (1.0 - (-0.06 * f64::from(i)).exp())) as usize);
                let mut steps: Vec<usize> = steps.chain([values.len() - 1]).collect();
                steps.dedup();
                let points: Vec<Point> = steps.into_iter().map(above).collect();
                if number == 0 {
                    let (x, y) = (Axis { label: "pseudo-regret", log: true }, Axis { label: "share above", log: true });
                    let title = format!("instance {}, eps = {}", settings[place / EPSILONS.len()].0, EPSILONS[0]);
                    panels.push(Panel { title, x, y, lines: Vec::new() });
                }
                let strength = if number == 3 { Strength::Bold } else { Strength::Thin };
                let line = Line { strength, ..Line::new(label, number, points) };
                panels[place / EPSILONS.len()].lines.push(line);
            }
        }
        rows.push(row);
    }
    Figure { name: "tails", columns: 2, panels }.write(&options.out)?;
    Ok(format!("T = {horizon}, {runs} runs: pseudo-regret at T.\n\n{}", table(&header, &rows)))
}

/// Draws the mean rewards of many arms for one run.
type World = fn(&mut Random) -> Vec<f64>;

const WORLDS: [(&str, World); 4] = [
    ("100 ads, lognormal around .3%", |coins| lognormal(100, 0.003, coins)),
    ("100 ads, .1% to 1%, log-uniform", |_| (0..100).map(|ad| 0.001 * 10f64.powf(f64::from(ad) / 99.0)).collect()),
    ("40 ads, lognormal around 2%", |coins| lognormal(40, 0.02, coins)),
    ("40 ads, one of 4%, the others of 3%", |_| (0..40).map(|ad| if ad == 0 { 0.04 } else { 0.03 }).collect()),
];

fn lognormal(ads: usize, median: f64, coins: &mut Random) -> Vec<f64> {
    (0..ads).map(|_| median * (0.5 * normal(coins)).exp()).collect()
}

const KAPPAS: [(&str, Option<f64>); 6] = [
    ("kappa = 1", Some(1.0)),
    ("3", Some(3.0)),
    ("1 + (K - 10)/8 (the default): 12.25 and 4.75", None),
    ("8", Some(8.0)),
    ("30", Some(30.0)),
    ("100", Some(100.0)),
];

/// Regret against tails for many arms, by kappa.
pub fn run_many(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(20_000, 1_000_000), options.runs(4, 400));
    let mut cells = Vec::new();
    for (_, kappa) in KAPPAS {
        for (_, world) in WORLDS {
            for epsilon in [1.0, 0.25] {
                cells.push(Cell::new(runs, move |trial| {
                    let setting = Setting::new(&world(&mut trial.coins()), horizon);
                    imed(Variant { kappa, ..DEFAULT }, epsilon, &setting, &[horizon], trial)
                }));
            }
        }
    }
    let samples = run_cells("many", &cells, options);
    let mut header = vec![String::from("mean / p90 / p99 / runs above 2 and 5 medians")];
    header.extend(WORLDS.iter().flat_map(|(name, _)| [1.0, 0.25].map(|epsilon| format!("{name}, eps {epsilon}"))));
    let row = |((label, _), samples): (&(&str, Option<f64>), &[Sample])| {
        let cells = samples.iter().map(|sample| {
            let (values, (mean, error)) = (sample.last(), sample.last_mean());
            let [median, p90, p99] = [50, 90, 99].map(|part| values[values.len() * part / 100]);
            let above = |times: f64| values.iter().filter(|&&value| value > times * median).count();
            format!("{mean:.0} ± {error:.0} / {p90:.0} / {p99:.0} / {}, {}", above(2.0), above(5.0))
        });
        [(*label).to_owned()].into_iter().chain(cells).collect()
    };
    let rows: Vec<_> = KAPPAS.iter().zip(samples.chunks(2 * WORLDS.len())).map(row).collect();
    Ok(format!("T = {horizon}, {runs} runs: pseudo-regret at T.\n\n{}", table(&header, &rows)))
}
