//! The five adversaries of Tossou and Dimitrakakis (2017), Section 4, as functions that determine all gains before the
//! game starts. Include this file with `#[path = "common/adversaries.rs"] mod adversaries;`.
#![allow(dead_code, reason = "each program that includes this file uses a part of it")]

use dpb::{Algorithm, Bandit, Config, Random, Seed};

/// A game whose gains are fixed in advance.
pub struct Game {
    arms: usize,
    /// The gain of each arm in each round, in [0, 1]. The arms of a round are consecutive.
    gains: Vec<f32>,
    /// Whether a round has gain 0 if its arm differs from that of the round before.
    switching_costs: bool,
}

/// Makes a game with a number of rounds and arms.
pub type Adversary = fn(usize, usize, &mut Random) -> Game;

/// The adversaries in the paper's order.
pub const ADVERSARIES: [(&str, Adversary); 5] = [
    ("deterministic", deterministic),
    ("stochastic", stochastic),
    ("fully oblivious", fully_oblivious),
    ("oblivious", oblivious),
    ("switching costs", switching_costs),
];

/// The second arm gives 1 in every second round and is the best. The first arm always gives 0.38, the third gives 1 in
/// every third round, and the others give 0. At least 3 arms.
pub fn deterministic(rounds: usize, arms: usize, _: &mut Random) -> Game {
    Game::fixed(rounds, arms, |round, arm| match arm {
        0 => 0.38,
        1 if round % 2 == 0 => 1.0,
        2 if round % 3 == 0 => 1.0,
        _ => 0.0,
    })
}

/// Bernoulli(0.55) for the first arm, Bernoulli(0.5) for the others.
pub fn stochastic(rounds: usize, arms: usize, random: &mut Random) -> Game {
    Game::fixed(rounds, arms, |_, arm| bernoulli(random, if arm == 0 { 0.55 } else { 0.5 }))
}

/// Bernoulli(p) with a new p in every round: in [0.5, 0.6] for the first arm, in [0.45, 0.55] for the others.
pub fn fully_oblivious(rounds: usize, arms: usize, random: &mut Random) -> Game {
    Game::fixed(rounds, arms, |_, arm| wavering(random, arm))
}

/// The gains of `fully_oblivious` with new values in every 200th round. The rounds between repeat the last gain.
pub fn oblivious(rounds: usize, arms: usize, random: &mut Random) -> Game {
    let mut last = vec![0.0; arms];
    Game::fixed(rounds, arms, |round, arm| {
        if round % 200 == 0 || round == 1 {
            last[arm] = wavering(random, arm);
        }
        last[arm]
    })
}

/// Dekel, Ding, Koren, Peres (2014), Figure 1: the losses follow a multi-scale random walk, and one arm is slightly
/// better. A round in which the arm changes has gain 0.
pub fn switching_costs(rounds: usize, arms: usize, random: &mut Random) -> Game {
    let spread = 1.0 / (9.0 * (rounds as f64).log2());
    let gap = (arms as f64 / rounds as f64).cbrt() * spread;
    let best = random.below(arms as u64) as usize;
    let mut walk = vec![0.0; rounds + 1];
    for round in 1..=rounds {
        let parent = round & (round - 1); // the round with its last set bit cleared
        walk[round] = walk[parent] + spread * gaussian(random);
    }
    let gain = |round: usize, arm| 0.5 - walk[round] + if arm == best { gap } else { 0.0 };
    Game { switching_costs: true, ..Game::fixed(rounds, arms, |round, arm| gain(round, arm).clamp(0.0, 1.0)) }
}

/// Bernoulli(p) with a random p: in [0.5, 0.6] for the first arm, in [0.45, 0.55] for the others.
fn wavering(random: &mut Random, arm: usize) -> f64 {
    let p = if arm == 0 { 0.5 } else { 0.45 } + 0.1 * random.unit();
    bernoulli(random, p)
}

fn bernoulli(random: &mut Random, p: f64) -> f64 {
    f64::from(u8::from(random.unit() < p))
}

/// A standard normal sample by the method of Box and Muller.
fn gaussian(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

impl Game {
    /// Makes a game from a function of the round (from 1) and the arm (from 0).
    fn fixed(rounds: usize, arms: usize, mut gain: impl FnMut(usize, usize) -> f64) -> Game {
        let mut gains = Vec::with_capacity(rounds * arms);
        for round in 1..=rounds {
            gains.extend((0..arms).map(|arm| gain(round, arm) as f32));
        }
        Game { arms, gains, switching_costs: false }
    }

    /// The number of rounds.
    pub fn rounds(&self) -> usize {
        self.gains.len() / self.arms
    }

    /// Plays the game. Returns the regret against the best fixed arm in hindsight, which never switches.
    pub fn regret(&self, algorithm: Algorithm, config: &Config) -> f64 {
        self.regrets(algorithm, config, &[self.rounds() as u64])[0]
    }

    /// The regret after each of these numbers of rounds, which are ascending.
    pub fn regrets(&self, algorithm: Algorithm, config: &Config, at: &[u64]) -> Vec<f64> {
        let bandit = Bandit::new(algorithm, &algorithm.fit(config)).expect("a valid configuration");
        let mut fixed = vec![0.0; self.arms];
        let (mut earned, mut last, mut regrets) = (0.0, None, Vec::with_capacity(at.len()));
        for (round, gains) in (1u64..).zip(self.gains.chunks(self.arms)) {
            let decision = bandit.select().expect("a decision");
            let arm = decision.arm as usize;
            let switched = last.replace(arm).is_some_and(|last| last != arm);
            let gain = if switched && self.switching_costs { 0.0 } else { f64::from(gains[arm]) };
            bandit.update(decision.ticket, gain).expect("an accepted reward");
            earned += gain;
            fixed.iter_mut().zip(gains).for_each(|(sum, &gain)| *sum += f64::from(gain));
            if at.get(regrets.len()) == Some(&round) {
                regrets.push(fixed.iter().copied().fold(f64::MIN, f64::max) - earned);
            }
        }
        regrets
    }
}

/// The median of the means of groups of equal size.
pub fn median_of_means(values: &[f64], groups: usize) -> f64 {
    let size = values.len() / groups.min(values.len());
    let mut means: Vec<f64> = values.chunks_exact(size).map(|group| group.iter().sum::<f64>() / size as f64).collect();
    means.sort_by(f64::total_cmp);
    (means[(means.len() - 1) / 2] + means[means.len() / 2]) / 2.0
}

/// The random stream of a numbered experiment.
pub fn stream(number: u64) -> Random {
    Seed::new(Some(seed(number))).expect("a test seed needs no entropy").stream()
}

/// A test seed from a number.
pub fn seed(number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The epsilon at which EXP3_tau uses the tau of the paper's Corollary 3.2, (T/(7 K ln K))^(1/3), if delta = T^-2.
pub fn papers_level(rounds: usize, arms: u32) -> f64 {
    let (t, k) = (rounds as f64, f64::from(arms));
    let tau = (t / (7.0 * k * k.ln())).cbrt().round();
    let (rho, log) = (t / (8.0 * tau.powi(3)), 2.0 * t.ln());
    (rho + 2.0 * (rho * log).sqrt()) * 1.001
}

/// The policies of the paper's Figure 1 at one epsilon and delta = T^-2, and libdpb's batched variants.
pub fn players(rounds: usize, arms: u32, epsilon: f64) -> Vec<(&'static str, Algorithm, Config)> {
    let mut config = Config::new(arms, epsilon);
    (config.horizon, config.delta) = (rounds as u64, (rounds as f64).powi(-2));
    let batch = (2.0 * (rounds as f64).ln() / epsilon).ceil() as u32; // see policy::lap
    let batched = Config { batch, ..config.clone() };
    vec![
        ("EXP3", Algorithm::NonprivateExp3, config.clone()),
        ("DP-EXP3-Lap", Algorithm::Exp3Lap, config.clone()),
        ("the same, tau", Algorithm::Exp3Lap, batched),
        ("EXP3_tau", Algorithm::Exp3Tau, config.clone()),
        ("Tsallis", Algorithm::Tsallis, config),
    ]
}

/// The regrets of each policy in each run. In a run, all policies play the same game.
pub fn tournament(
    adversary: Adversary,
    players: &[(&str, Algorithm, Config)],
    rounds: usize,
    runs: u64,
) -> Vec<Vec<f64>> {
    let mut regrets = vec![Vec::new(); players.len()];
    for run in 0..runs {
        let game = adversary(rounds, players[0].2.arms as usize, &mut stream(run));
        for (player, (_, algorithm, config)) in players.iter().enumerate() {
            let config = Config { test_seed: Some(seed(1 << 32 | run << 8 | player as u64)), ..config.clone() };
            regrets[player].push(game.regret(*algorithm, &config));
        }
    }
    regrets
}
