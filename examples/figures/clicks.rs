//! libdpb's experiment with the click rates of real ads, which are far below 1%, and with slots that visitors examine
//! with different probabilities.

use super::Options;
use super::environment::Thompson;
use super::plot::table;
use super::runner::{Cell, Curve, Sample, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Random};
use std::error::Error;

const ADS: usize = 100;
/// The longest horizon that Thompson sampling plays.
const LONGEST: u64 = 1_000_000;
const EPSILONS: [f64; 3] = [1.0, 0.25, 0.1];
const PLAYERS: [(&str, Algorithm); 2] = [("DP-IMED", Algorithm::Imed), ("DP-MED", Algorithm::Med)];

/// Draws the click rates of the ads for one run.
type World = fn(&mut Random) -> Vec<f64>;

const WORLDS: [(&str, World); 2] = [
    (".1% to 1%, evenly", |_| (0..ADS).map(|ad| 0.001 + 0.009 * ad as f64 / (ADS - 1) as f64).collect()),
    ("lognormal around .3%", |coins| (0..ADS).map(|_| 0.003 * (0.5 * normal(coins)).exp()).collect()),
];

pub fn normal(coins: &mut Random) -> f64 {
    (-2.0 * (1.0 - coins.unit()).ln()).sqrt() * (std::f64::consts::TAU * coins.unit()).cos()
}

/// The regret at T, in % of the regret of uniform play. For each decision, `arm` calls its argument with the number of
/// the ad that it shows. The argument returns the reward.
fn percent(world: World, horizon: u64, trial: Trial, mut arm: impl FnMut(&mut dyn FnMut(usize) -> f64)) -> Curve {
    let mut coins = trial.coins();
    let rates = world(&mut coins);
    let best = rates.iter().copied().fold(0.0, f64::max);
    let mut lost = 0.0;
    for _ in 0..horizon {
        arm(&mut |ad| {
            lost += best - rates[ad];
            f64::from(u8::from(coins.unit() < rates[ad]))
        });
    }
    let uniform = rates.iter().map(|rate| best - rate).sum::<f64>() / ADS as f64 * horizon as f64;
    vec![100.0 * lost / uniform]
}

fn private(algorithm: Algorithm, world: World, epsilon: f64, horizon: u64, trial: Trial) -> Curve {
    let seed = Some(trial.policy_seed());
    let config = Config { test_seed: seed, pending_capacity: 1, ..Config::new(ADS as u32, epsilon) };
    let bandit = Bandit::new(algorithm, &config).expect("a valid configuration");
    percent(world, horizon, trial, |play| {
        let decision = bandit.select().expect("a decision");
        bandit.update(decision.ticket, play(decision.arm as usize)).expect("an accepted reward");
    })
}

/// Thompson sampling, without privacy.
fn thompson(world: World, horizon: u64, trial: Trial) -> Curve {
    let mut policy = Thompson::new(ADS, trial);
    percent(world, horizon, trial, |play| {
        let ad = policy.choose();
        let click = play(ad);
        policy.observe(ad, click);
    })
}

pub fn mean(sample: &Sample, digits: usize) -> String {
    let (mean, error) = sample.last_mean();
    format!("{mean:.digits$} ± {error:.digits$}")
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    Ok([rates(options), slates(options)].join("\n"))
}

fn rates(options: &Options) -> String {
    let horizons: &[u64] = options.pick(&[20_000], &[1_000_000, 10_000_000]);
    let runs = options.runs(2, 12);
    let settings: Vec<_> = WORLDS.iter().flat_map(|&world| horizons.iter().map(move |&time| (world, time))).collect();
    let mut cells = Vec::new();
    for &((_, world), horizon) in &settings {
        for (_, algorithm) in PLAYERS {
            for epsilon in EPSILONS {
                cells.push(Cell::new(runs, move |trial| private(algorithm, world, epsilon, horizon, trial)));
            }
        }
        // Thompson sampling draws a hundred samples for each decision, so a longer horizon would take minutes for each
        // run.
        let times = if horizon <= LONGEST { horizon } else { 0 };
        cells.push(Cell::new(runs.min(2), move |trial| thompson(world, times, trial)));
    }
    let samples = run_cells("clicks", &cells, options);
    let mut header = vec![String::from("click rates, T")];
    header.extend(PLAYERS.iter().flat_map(|(label, _)| EPSILONS.map(|epsilon| format!("{label}, eps {epsilon}"))));
    header.push("Thompson sampling, not private".into());
    let row = |(&((name, _), horizon), samples): (&((&str, World), u64), &[Sample])| {
        let cells = samples.iter().map(|sample| match sample.last()[0] {
            percent if percent.is_nan() => "-".into(),
            _ => mean(sample, 1),
        });
        [format!("{name}, {horizon}")].into_iter().chain(cells).collect()
    };
    let rows: Vec<_> = settings.iter().zip(samples.chunks(cells.len() / settings.len())).map(row).collect();
    format!(
        "{ADS} ads, {runs} runs (two of Thompson sampling): regret at T in % of what uniform play loses.\n\n{}",
        table(&header, &rows)
    )
}

/// The probability that a visitor examines each slot of a request.
const EXAMINED: [f64; 3] = [1.0, 0.6, 0.4];

/// Whether requests say how often slots are examined.
const TOLD: [(&str, bool); 2] = [("shuffled", false), ("with `examined`", true)];

/// The expected clicks that are lost compared with the three best ads in their best order. The 20 ads have click rates
/// from 6% down to 1%.
fn show(told: bool, epsilon: f64, requests: u64, trial: Trial) -> Curve {
    let rates: Vec<f64> = (0..20).map(|ad| 0.06 - 0.05 * f64::from(ad) / 19.0).collect();
    let config = Config { test_seed: Some(trial.policy_seed()), ..Config::new(20, epsilon) };
    let bandit = Bandit::new(Algorithm::Imed, &config).expect("a valid configuration");
    let best: f64 = EXAMINED.iter().zip(&rates).map(|(examined, rate)| examined * rate).sum();
    let (mut coins, mut lost) = (trial.coins(), 0.0);
    let request = dpb::Request { slots: 3, examined: told.then_some(&EXAMINED), ..dpb::Request::default() };
    for _ in 0..requests {
        let mut slate = [(0, 0); 3];
        let each = |slot: usize, decision: dpb::Decision| slate[slot] = (decision.ticket, decision.arm as usize);
        bandit.select_slots(&request, each).expect("three decisions");
        lost += best;
        for ((ticket, ad), examined) in slate.into_iter().zip(EXAMINED) {
            lost -= examined * rates[ad];
            let click = f64::from(u8::from(coins.unit() < examined * rates[ad]));
            bandit.update(ticket, click).expect("an accepted reward");
        }
    }
    vec![lost]
}

fn slates(options: &Options) -> String {
    let (requests, runs) = (options.pick(10_000, 1_000_000), options.runs(2, 12));
    let cells: Vec<_> = TOLD
        .iter()
        .flat_map(|&(_, told)| {
            EPSILONS[..2].iter().map(move |&eps| Cell::new(runs, move |trial| show(told, eps, requests, trial)))
        })
        .collect();
    let samples = run_cells("slates", &cells, options);
    let header = ["slots", "eps 1", "eps 0.25"].map(String::from);
    let row = |((label, _), samples): (&(&str, bool), &[Sample])| {
        vec![(*label).to_owned(), mean(&samples[0], 0), mean(&samples[1], 0)]
    };
    let rows: Vec<_> = TOLD.iter().zip(samples.chunks(2)).map(row).collect();
    format!(
        "Slates. 20 ads of 6% down to 1%, three slots that are examined with chances 1, .6 and .4, \
         {requests} requests, {runs} runs of DP-IMED: clicks lost against the three best ads in their order.\n\n{}",
        table(&header, &rows)
    )
}
