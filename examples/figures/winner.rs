//! libdpb's experiments with tests that stop: how many decisions it takes to know the best arm at a confidence, and how
//! many of them privacy costs.

use super::Options;
use super::clicks::mean;
use super::environment::instances;
use super::plot::table;
use super::runner::{Cell, Sample, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Random};
use std::error::Error;

/// A test's error probability.
const BETA: f64 = 0.01;
/// Where a test ends that has no winner.
const MOST: u64 = 10_000_000;
const EPSILONS: [f64; 2] = [1.0, 0.1];

/// A, B, C, and ten ads of .5% to 1%.
fn worlds() -> Vec<(&'static str, Vec<f64>)> {
    let ads = (0..10).map(|ad| 0.01 - 0.005 * f64::from(ad) / 9.0).collect();
    instances().into_iter().chain([("ten ads of .5% to 1%", ads)]).collect()
}

/// The winner of a test, if it has one by now.
type Winner = fn(&Bandit) -> Option<u32>;

/// Each way to find a winner: its name, the policy, and whether all arms are shown equally often.
const WAYS: [(&str, Algorithm, f64, Winner); 3] = [
    ("DP-TT", Algorithm::TopTwo, 0.0, |bandit| bandit.best_arm().ok()),
    ("DP-SE", Algorithm::Se, 0.0, |bandit| bandit.best_arm().ok()),
    ("`dpb_compare`, even shares", Algorithm::Imed, 1.0, compared),
];

/// The arm that is above every other one, each at its share of the confidence.
fn compared(bandit: &Bandit) -> Option<u32> {
    let arms = bandit.arm_reports().ok()?;
    let best = (0..arms.len()).max_by(|&a, &b| arms[a].mean.total_cmp(&arms[b].mean))?;
    let confidence = 1.0 - BETA / (arms.len() - 1) as f64;
    let is_above = |other: usize| {
        other == best || bandit.compare(best as u32, other as u32, confidence).is_ok_and(|(least, _)| least > 0.0)
    };
    (0..arms.len()).all(is_above).then_some(best as u32)
}

/// 1 if a test ends, 1 if it ends with another arm than the best, and its length.
fn length(way: (Algorithm, f64, Winner), rates: &[f64], epsilon: f64, trial: Trial) -> Vec<f64> {
    let (algorithm, exploration, winner) = way;
    let mut config = Config {
        beta: BETA,
        exploration,
        pending_capacity: 1,
        test_seed: Some(trial.policy_seed()),
        ..Config::new(rates.len() as u32, epsilon)
    };
    if algorithm == Algorithm::Se {
        config.horizon = MOST;
    }
    let bandit = Bandit::new(algorithm, &config).expect("a valid configuration");
    let (mut coins, mut next): (Random, _) = (trial.coins(), 1);
    for decisions in 1..=MOST {
        let decision = bandit.select().expect("a decision");
        let reward = f64::from(u8::from(coins.unit() < rates[decision.arm as usize]));
        bandit.update(decision.ticket, reward).expect("an accepted reward");
        // A comparison takes time, so they are rare, and cost the test at most a hundredth.
        if decisions >= next {
            if let Some(arm) = winner(&bandit) {
                let is_best = rates.iter().all(|&rate| rate <= rates[arm as usize]);
                return vec![1.0, f64::from(u8::from(!is_best)), decisions as f64];
            }
            next = if exploration > 0.0 { decisions + decisions / 100 + 1 } else { decisions + 1 };
        }
    }
    vec![0.0, 0.0, MOST as f64]
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, mut worlds) = (options.runs(2, 40), worlds());
    worlds.truncate(options.pick(1, worlds.len()));
    let mut cells = Vec::new();
    for (_, rates) in &worlds {
        for epsilon in EPSILONS {
            for (_, algorithm, exploration, winner) in WAYS {
                cells.push(Cell::new(runs, move |trial| {
                    length((algorithm, exploration, winner), rates, epsilon, trial)
                }));
            }
        }
    }
    let samples = run_cells("winner", &cells, options);
    let mut header = vec![String::from("arms, epsilon")];
    header.extend(WAYS.iter().map(|(name, ..)| (*name).to_owned()));
    let settings = worlds.iter().flat_map(|(name, _)| EPSILONS.map(|epsilon| format!("{name}, eps {epsilon}")));
    let row = |(setting, samples): (String, &[Sample])| {
        let cells = samples.iter().map(|sample| {
            let count = |place: usize| sample.0.iter().filter(|test| test[place] == 1.0).count();
            match (count(0), count(1)) {
                (ended, _) if ended < sample.0.len() => format!("{ended} of {runs} ended by {MOST}"),
                (_, 0) => mean(sample, 0),
                (_, wrong) => format!("{} ({wrong} wrong)", mean(sample, 0)),
            }
        });
        [setting].into_iter().chain(cells).collect()
    };
    let rows: Vec<_> = settings.zip(samples.chunks(WAYS.len())).map(row).collect();
    Ok(format!("Decisions until the best arm is known at beta = {BETA}, {runs} runs.\n\n{}", table(&header, &rows)))
}

/// The error probability of a test in the table of what privacy costs.
const LEVEL: f64 = 0.05;
/// No noise to speak of, and then the epsilons.
const PRICES: [f64; 3] = [64.0, 1.0, 0.25];
/// The quantiles of the normal distribution for the level, and for the power of 80%.
const POWER: f64 = 0.841_621;

/// A best variant among others that are alike.
struct Variants {
    name: &'static str,
    arms: u32,
    /// The probability that a visitor buys: at the best variant, and at each other.
    rates: [f64; 2],
    /// What a purchase pays. `None`: 1.
    euros: Option<Euros>,
    /// The quantile of the normal distribution at which a z-test of all pairs with the best variant has the level, by
    /// Bonferroni.
    critical: f64,
}

/// Amounts of 40 exp(N - 1/2), and the probability that they are returned.
#[derive(Clone, Copy)]
struct Euros {
    returned: f64,
}

/// No amount counts as more.
const MOST_EUROS: f64 = 200.0;

const VARIANTS: [Variants; 7] = [
    Variants { name: ".2% and .1%", arms: 2, rates: [0.002, 0.001], euros: None, critical: 1.959_964 },
    Variants { name: ".6% and .5%", arms: 2, rates: [0.006, 0.005], euros: None, critical: 1.959_964 },
    Variants { name: "6% and 5%", arms: 2, rates: [0.06, 0.05], euros: None, critical: 1.959_964 },
    Variants { name: "6% and nine of 5%", arms: 10, rates: [0.06, 0.05], euros: None, critical: 2.772_9 },
    Variants {
        name: "revenue, 3.6% and 3%",
        arms: 2,
        rates: [0.036, 0.03],
        euros: Some(Euros { returned: 0.0 }),
        critical: 1.959_964,
    },
    Variants {
        name: "the same in parts, a fifth is returned",
        arms: 2,
        rates: [0.036, 0.03],
        euros: Some(Euros { returned: 0.2 }),
        critical: 1.959_964,
    },
    Variants {
        name: "revenue, 4.5% and nine of 3%",
        arms: 10,
        rates: [0.045, 0.03],
        euros: Some(Euros { returned: 0.0 }),
        critical: 2.772_9,
    },
];

impl Variants {
    fn rate(&self, arm: u32) -> f64 {
        self.rates[usize::from(arm > 0)]
    }

    /// What a visitor pays for this variant, and what of it is returned.
    fn paid(&self, arm: u32, coins: &mut Random) -> [f64; 2] {
        if coins.unit() >= self.rate(arm) {
            return [0.0, 0.0];
        }
        let Some(Euros { returned }) = self.euros else { return [1.0, 0.0] };
        let (radius, angle) = ((-2.0 * (1.0 - coins.unit()).ln()).sqrt(), std::f64::consts::TAU * coins.unit());
        let euros = amount(radius * angle.cos());
        [euros, if coins.unit() < returned { euros } else { 0.0 }]
    }

    /// The mean and the variance of what is paid and not returned.
    fn moments(&self, arm: u32) -> (f64, f64) {
        let (mut first, mut second) = (1.0, 1.0);
        if let Some(Euros { returned }) = self.euros {
            let (step, mut sums) = (0.001, [0.0, 0.0]);
            for place in -8000..8000 {
                let normal = step * (f64::from(place) + 0.5);
                let part = step * (-0.5 * normal * normal).exp() / std::f64::consts::TAU.sqrt();
                sums[0] += part * amount(normal);
                sums[1] += part * amount(normal) * amount(normal);
            }
            (first, second) = ((1.0 - returned) * sums[0], (1.0 - returned) * sums[1]);
        }
        let mean = self.rate(arm) * first;
        (mean, self.rate(arm) * second - mean * mean)
    }

    fn gap(&self) -> f64 {
        self.moments(0).0 - self.moments(1).0
    }

    /// The visitors of each variant with which a z-test of two of them has a power of 80%.
    fn fixed(&self) -> u64 {
        let variance = self.moments(0).1 + self.moments(1).1;
        (variance * ((self.critical + POWER) / self.gap()).powi(2)).ceil() as u64
    }

    /// 1 if a z-test of that size finds that the best variant is better than each other one, 1 if it finds another.
    fn z_test(&self, trial: Trial) -> Vec<f64> {
        let (size, mut coins) = (self.fixed(), trial.coins());
        let found: Vec<(f64, f64)> = (0..self.arms)
            .map(|arm| {
                let (mut sum, mut squares) = (0.0, 0.0);
                for _ in 0..size {
                    let [paid, returned] = self.paid(arm, &mut coins);
                    sum += paid - returned;
                    squares += (paid - returned).powi(2);
                }
                let (size, mean) = (size as f64, sum / size as f64);
                (mean, (squares / size - mean * mean) / size)
            })
            .collect();
        let leads = |arm: usize| {
            let is_better =
                |other: &(f64, f64)| found[arm].0 - other.0 > self.critical * (found[arm].1 + other.1).sqrt();
            found.iter().enumerate().all(|(other, of)| other == arm || is_better(of))
        };
        let winner = (0..found.len()).find(|&arm| leads(arm));
        vec![f64::from(u8::from(winner == Some(0))), f64::from(u8::from(winner.is_some_and(|arm| arm > 0)))]
    }

    /// 1 if DP-TT ends with a worse variant, and the length of its test.
    fn dp_tt(&self, epsilon: f64, tolerance: f64, trial: Trial) -> Vec<f64> {
        let mut config = Config {
            beta: LEVEL,
            tolerance,
            pending_capacity: 2,
            test_seed: Some(trial.policy_seed()),
            ..Config::new(self.arms, epsilon)
        };
        let in_parts = self.euros.is_some_and(|euros| euros.returned > 0.0);
        if self.euros.is_some() {
            (config.reward_max, config.clamp_rewards) = (MOST_EUROS, true);
        }
        if in_parts {
            (config.parts, config.reward_window) = (2, 1);
            config.part_weights[..2].copy_from_slice(&[1.0, -1.0]);
        }
        let (bandit, mut coins) =
            (Bandit::new(Algorithm::TopTwo, &config).expect("a valid configuration"), trial.coins());
        for decisions in 1..=MOST {
            let decision = bandit.select().expect("a decision");
            let [paid, returned] = self.paid(decision.arm, &mut coins);
            if !in_parts {
                bandit.update(decision.ticket, paid).expect("an accepted reward");
            } else if paid > 0.0 {
                bandit.update_part(decision.ticket, 0, paid).expect("an accepted part");
                if returned > 0.0 {
                    bandit.update_part(decision.ticket, 1, returned).expect("an accepted part");
                }
            }
            if let Ok(arm) = bandit.best_arm() {
                return vec![f64::from(u8::from(arm > 0)), decisions as f64];
            }
        }
        vec![0.0, f64::NAN]
    }
}

/// An amount by a normal number.
fn amount(normal: f64) -> f64 {
    (40.0 * (normal - 0.5).exp()).min(MOST_EUROS)
}

/// What a private test costs, beside one of a fixed size and one without privacy.
pub fn run_costs(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, z_runs) = (options.runs(2, 60), options.runs(2, 1000));
    let variants = &VARIANTS[..options.pick(2, VARIANTS.len())];
    let mut cells = Vec::new();
    for world in variants {
        cells.push(Cell::new(z_runs, move |trial| world.z_test(trial)));
        for tolerance in [0.0, world.gap() / 2.0] {
            for epsilon in PRICES {
                cells.push(Cell::new(runs, move |trial| world.dp_tt(epsilon, tolerance, trial)));
            }
        }
    }
    let samples = run_cells("winner-cost", &cells, options);
    let names = ["no privacy", "eps 1", "eps 0.25"];
    let of = |what: &str| names.map(|name| format!("{what}{name}"));
    let first = ["variants", "z-test", "finds the best, another"].map(String::from);
    let header: Vec<String> = first.into_iter().chain(of("")).chain(of("tolerance, ")).collect();
    let row = |(world, samples): (&Variants, &[Sample])| -> Vec<String> {
        let share = |place: usize| {
            let curves = &samples[0].0;
            100.0 * curves.iter().map(|curve| curve[place]).sum::<f64>() / curves.len() as f64
        };
        let size = u64::from(world.arms) * world.fixed();
        let z_test = [world.name.to_owned(), size.to_string(), format!("{:.1}%, {:.1}%", share(0), share(1))];
        let lengths = samples[1..].iter().map(|sample| match sample.0.iter().filter(|test| test[0] == 1.0).count() {
            0 => mean(sample, 0),
            wrong => format!("{} ({wrong} wrong)", mean(sample, 0)),
        });
        z_test.into_iter().chain(lengths).collect()
    };
    let rows: Vec<_> = variants.iter().zip(samples.chunks(1 + 2 * PRICES.len())).map(row).collect();
    Ok(format!(
        "Rewards until a test ends, at level {LEVEL}: a z-test of a power of 80% ({z_runs} runs), and DP-TT ({runs} \
         runs).\n\n{}",
        table(&header, &rows)
    ))
}
