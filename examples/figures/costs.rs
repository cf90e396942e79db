//! libdpb's experiment with costs: a router over language models, and ads that have a price, with and without the choice
//! of no arm.

use super::Options;
use super::clicks::mean;
use super::plot::table;
use super::runner::{Cell, Curve, Sample, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Decision, NO_ARM, Random, Request, Rows};
use std::error::Error;

const EPSILONS: [f64; 2] = [1.0, 0.25];

/// The arms' means, and what one costs in a usual request.
#[derive(Clone, Copy)]
enum Arms {
    /// Six models: the chance of a good answer, and the price. The tokens of a request multiply all prices.
    Router,
    /// Ten ads of 5% to 1%, whose prices are uniform up to this, and differ in each request.
    Ads(f64),
}

const MODELS: [(f64, f64); 6] = [(0.55, 0.01), (0.68, 0.04), (0.78, 0.09), (0.82, 0.2), (0.9, 0.4), (0.92, 0.7)];

/// The arms, whether a request may get none, and what rewards are worth: `true` is 0.3 exp(0.5 N), and otherwise 1.
const WORLDS: [(&str, Arms, bool, bool); 5] = [
    ("router", Arms::Router, false, false),
    ("router, answers worth 0.3 exp(0.5 N), may abstain", Arms::Router, true, true),
    ("ads, prices up to 0.08", Arms::Ads(0.08), false, false),
    ("ads, prices up to 0.08, may abstain", Arms::Ads(0.08), true, false),
    ("ads, prices up to 0.4, may abstain", Arms::Ads(0.4), true, false),
];

/// How a policy plays for worth.
#[derive(Clone, Copy, PartialEq)]
enum Player {
    Imed,
    Med,
    Segments,
    Linear,
    /// With rewards minus costs as rewards, of which those below -4 are clamped. It never abstains.
    NetRewards,
}

const PLAYERS: [(&str, Player); 5] = [
    ("`dp-imed`", Player::Imed),
    ("`dp-med`", Player::Med),
    ("one segment", Player::Segments),
    ("`dp-linear`, a model for each arm", Player::Linear),
    ("`dp-imed`, reward minus cost as the reward", Player::NetRewards),
];

fn bandit(player: Player, arms: usize, epsilon: f64, trial: Trial) -> Bandit {
    let config = Config { test_seed: Some(trial.policy_seed()), ..Config::new(arms as u32, epsilon) };
    let (algorithm, config) = match player {
        Player::Imed => (Algorithm::Imed, config),
        Player::Med => (Algorithm::Med, config),
        Player::Segments => (Algorithm::Imed, Config { max_segments: 1, ..config }),
        Player::Linear => (Algorithm::Linear, Config { features: 1, model_per_arm: true, ..config }),
        Player::NetRewards => (Algorithm::Imed, Config { reward_min: -4.0, clamp_rewards: true, ..config }),
    };
    Bandit::new(algorithm, &config).expect("a valid configuration")
}

/// exp(N/2).
fn lognormal(coins: &mut Random) -> f64 {
    let (radius, angle) = ((-2.0 * (1.0 - coins.unit()).ln()).sqrt(), std::f64::consts::TAU * coins.unit());
    (0.5 * radius * angle.cos()).exp()
}

/// The loss in percent of that of uniform play.
fn play(world: (Arms, bool, bool), player: Player, epsilon: f64, requests: u64, trial: Trial) -> Curve {
    let ((arms, abstain, valued), mut coins) = (world, trial.coins());
    let (means, prices): (Vec<f64>, Vec<f64>) = match arms {
        Arms::Router => MODELS.into_iter().unzip(),
        Arms::Ads(most) => (0..10).map(|ad| (0.05 - 0.04 * f64::from(ad) / 9.0, most * coins.unit())).unzip(),
    };
    let bandit = bandit(player, means.len(), epsilon, trial);
    let features = (player == Player::Linear).then_some(Rows::Dense(&[0.0]));
    let (mut costs, mut worths) = (prices.clone(), prices.clone());
    let (mut lost, mut uniform) = (0.0, 0.0);
    for _ in 0..requests {
        let tokens = lognormal(&mut coins);
        for (cost, price) in costs.iter_mut().zip(&prices) {
            *cost = price * if matches!(arms, Arms::Router) { tokens } else { lognormal(&mut coins) };
        }
        let value = if valued { 0.3 * lognormal(&mut coins) } else { 1.0 };
        (0..means.len()).for_each(|arm| worths[arm] = value * means[arm] - costs[arm]);
        let best = worths.iter().copied().fold(if abstain { 0.0 } else { f64::NEG_INFINITY }, f64::max);
        let values = vec![value; means.len()];
        let request = match player {
            Player::NetRewards => Request::default(),
            _ => Request { values: Some(&values), costs: Some(&costs), abstain, features, ..Request::default() },
        };
        let Decision { arm, ticket, .. } = bandit.select_for(&request).expect("a decision");
        lost += best - worths.get(arm as usize).copied().unwrap_or(0.0);
        uniform += best - worths.iter().sum::<f64>() / means.len() as f64;
        if arm != NO_ARM {
            let reward = f64::from(u8::from(coins.unit() < means[arm as usize]));
            let net = if player == Player::NetRewards { reward - costs[arm as usize] } else { reward };
            bandit.update(ticket, net).expect("an accepted reward");
        }
    }
    vec![100.0 * lost / uniform]
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, requests) = (options.runs(2, 12), options.pick(5000, 200_000));
    let mut cells = Vec::new();
    for (_, arms, abstain, valued) in WORLDS {
        for epsilon in EPSILONS {
            for (_, player) in PLAYERS {
                // dp-linear takes some ten times as long.
                let requests = if player == Player::Linear { requests / 4 } else { requests };
                let runs = if player == Player::NetRewards && abstain { 0 } else { runs };
                cells.push(Cell::new(runs, move |trial| {
                    play((arms, abstain, valued), player, epsilon, requests, trial)
                }));
            }
        }
    }
    let samples = run_cells("costs", &cells, options);
    let mut header = vec![String::from("world, epsilon")];
    header.extend(PLAYERS.iter().map(|(name, _)| (*name).to_owned()));
    let settings: Vec<_> = WORLDS.iter().flat_map(|(name, ..)| EPSILONS.map(|e| format!("{name}, eps {e}"))).collect();
    let row = |(setting, samples): (String, &[Sample])| {
        let cells = samples.iter().map(|sample| if sample.0.is_empty() { String::new() } else { mean(sample, 2) });
        [setting].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let rows: Vec<_> = settings.into_iter().zip(samples.chunks(PLAYERS.len())).map(row).collect();
    Ok(format!(
        "The loss of worth (value times mean minus cost) in percent of what uniform play loses: {requests} requests, \
         dp-linear {}; {runs} runs.\n\n{}",
        requests / 4,
        table(&header, &rows),
    ))
}
