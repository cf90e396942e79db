//! libdpb's experiment with private features: the regret of dp-linear when each request is counted in one cell of a public
//! codebook, in the world of arXiv 2602.00417 and with ads.

use super::Options;
use super::linear::{Kind, World};
use dpb::{Algorithm, Bandit, Codebook, Config, Request, Rows};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use std::error::Error;

const BALL_ARMS: usize = 20;
const BALL_D: usize = 3;
const BALL_CODEWORDS: u32 = 32;
/// Rows from which a codebook of the ball is made. They are other rows than those of the requests.
const PUBLIC_ROWS: usize = 1000;

fn unit(coins: &mut ChaCha8Rng) -> f64 {
    (coins.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A row that is uniform in the unit ball.
fn ball(coins: &mut ChaCha8Rng) -> [f32; BALL_D] {
    let x: [f64; BALL_D] = std::array::from_fn(|_| StandardNormal.sample(coins));
    let size = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let radius = unit(coins).powf(1.0 / BALL_D as f64);
    x.map(|x| (radius * x / size) as f32)
}

fn seed(coins: &mut ChaCha8Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    seed.iter_mut().for_each(|byte| *byte = coins.next_u64() as u8);
    seed
}

/// The regret of a run in the ball world, and that of even play.
fn play_ball(norm: f64, epsilon: f64, number: u64) -> Result<[f64; 2], dpb::Error> {
    let coins = &mut ChaCha8Rng::seed_from_u64(number);
    let mut theta: [f64; BALL_D] = std::array::from_fn(|_| 2.0 * unit(coins) - 1.0);
    let size = theta.iter().map(|x| x * x).sum::<f64>().sqrt();
    theta.iter_mut().for_each(|x| *x *= norm / size);
    let public: Vec<f32> = (0..PUBLIC_ROWS).flat_map(|_| ball(coins)).collect();
    let config = Config {
        features: BALL_D as u32,
        private_features: true,
        codebook: Some(Codebook::of_rows(&public, BALL_D as u32, BALL_CODEWORDS)?),
        codebook_len: BALL_CODEWORDS,
        reward_window: 1,
        test_seed: Some(seed(coins)),
        ..Config::new(BALL_ARMS as u32, epsilon)
    };
    let bandit = Bandit::new(Algorithm::Linear, &config)?;
    let mut lost = [0.0; 2];
    for _ in 0..10_000 {
        let rows: Vec<f32> = (0..BALL_ARMS).flat_map(|_| ball(coins)).collect();
        let rate = |row: &[f32]| {
            1.0 / (1.0 + (-row.iter().zip(theta).map(|(&x, theta)| f64::from(x) * theta).sum::<f64>()).exp())
        };
        let rates: Vec<f64> = rows.chunks(BALL_D).map(rate).collect();
        let decision = bandit.select_for(&Request { features: Some(Rows::Dense(&rows)), ..Request::default() })?;
        let rate = rates[decision.arm as usize];
        bandit.update(decision.ticket, f64::from(u8::from(unit(coins) < rate)))?;
        let best = rates.iter().copied().fold(0.0, f64::max);
        lost[0] += best - rate;
        lost[1] += best - rates.iter().sum::<f64>() / BALL_ARMS as f64;
    }
    Ok(lost)
}

/// All combinations of the ads' one-hot fields.
fn ads_codebook() -> Result<Codebook, dpb::Error> {
    let mut rows = Vec::new();
    for cell in 0..72 {
        let mut row = [0.0f32; 13];
        [cell % 6, 6 + cell / 6 % 4, 10 + cell / 24].into_iter().for_each(|place| row[place] = 1.0);
        rows.extend(row);
    }
    Codebook::new(&rows, 13)
}

/// The loss of a run with ads, and that of even play.
fn play_ads(decisions: usize, epsilon: f64, number: u64) -> Result<[f64; 2], dpb::Error> {
    let coins = &mut ChaCha8Rng::seed_from_u64(number);
    let mut world = World::new(Kind::Ads { cells: 0.0 }, coins);
    let config = Config {
        features: 13,
        model_per_arm: true,
        private_features: true,
        codebook: Some(ads_codebook()?),
        codebook_len: 72,
        reward_window: 1,
        test_seed: Some(seed(coins)),
        ..Config::new(10, epsilon)
    };
    let bandit = Bandit::new(Algorithm::Linear, &config)?;
    let mut lost = [0.0; 2];
    for _ in 0..decisions {
        world.step(coins);
        let decision = bandit.select_for(&Request { features: Some(world.rows()), ..Request::default() })?;
        let rate = world.means[decision.arm as usize];
        bandit.update(decision.ticket, f64::from(u8::from(unit(coins) < rate)))?;
        let best = world.means.iter().copied().fold(0.0, f64::max);
        lost[0] += best - rate;
        lost[1] += best - world.means.iter().sum::<f64>() / world.means.len() as f64;
    }
    Ok(lost)
}

/// A mean and its standard error.
fn cell(values: &[f64], digits: usize) -> String {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let error = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0) / n).sqrt();
    format!("{mean:.digits$} ± {error:.digits$}")
}

/// Runs so many plays, in as many threads as the options say.
fn plays(
    options: &Options,
    runs: u64,
    play: impl Fn(u64) -> Result<[f64; 2], dpb::Error> + Sync,
) -> Result<Vec<[f64; 2]>, dpb::Error> {
    let threads = options.threads as u64;
    let found = std::thread::scope(|scope| {
        let mine = |first: u64| (first..runs).step_by(threads as usize).map(|run| play(options.seed + run)).collect();
        let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || mine(first))).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| dpb::Error::Poisoned)?).collect::<Vec<_>>()
    });
    let found: Result<Vec<Vec<_>>, _> = found.into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let runs = options.pick(2, 20).min(options.most_runs);
    let epsilons = options.pick(vec![4.0], vec![8.0, 4.0, 2.0, 1.0, 0.5]);
    let mut out = format!("Regret in the ball, 10,000 decisions, {runs} runs.\n\n| norm of theta |");
    epsilons.iter().for_each(|epsilon| out += &format!(" epsilon {epsilon} |"));
    out += &format!(" even play |\n|---|{}---:|\n", "---:|".repeat(epsilons.len()));
    for norm in options.pick(vec![3.0], vec![3.0, 3.5, 4.0]) {
        out += &format!("| {norm} |");
        let mut even = 0.0;
        for &epsilon in &epsilons {
            let found = plays(options, runs, |number| play_ball(norm, epsilon, number))?;
            even = found.iter().map(|[_, even]| even).sum::<f64>() / runs as f64;
            out += &format!(" {} |", cell(&found.iter().map(|[lost, _]| *lost).collect::<Vec<_>>(), 0));
        }
        out += &format!(" {even:.0} |\n");
    }
    let (decisions, epsilons) = options.pick((2_000, vec![4.0]), (100_000, vec![4.0, 1.0, 0.25]));
    out += &format!("\nAds, {decisions} decisions, {runs} runs: % of the loss of even play.\n\n|");
    epsilons.iter().for_each(|epsilon| out += &format!(" epsilon {epsilon} |"));
    out += &format!("\n|{}\n|", "---:|".repeat(epsilons.len()));
    for &epsilon in &epsilons {
        let found = plays(options, runs, |number| play_ads(decisions, epsilon, number))?;
        let shares: Vec<f64> = found.iter().map(|[lost, even]| 100.0 * lost / even).collect();
        out += &format!(" {} |", cell(&shares, 1));
    }
    Ok(out + "\n")
}
