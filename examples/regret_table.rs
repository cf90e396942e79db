//! Mean pseudo-regret of every central policy on the papers' instances, as a table:
//! `cargo run --release --example regret_table [runs]`.

use dpb::{Algorithm, Bandit, Config};

/// Name, policy.
const POLICIES: &[(&str, Algorithm)] = &[
    ("DP-SE", Algorithm::Se),
    ("DP-UCB-BOUND", Algorithm::UcbBound),
    ("DP-UCB", Algorithm::Ucb),
    ("DP-UCB-INT", Algorithm::UcbInt),
    ("Private-UCB", Algorithm::PrivateUcb),
    ("UCB1 (not private)", Algorithm::NonprivateUcb1),
    ("SE (not private)", Algorithm::NonprivateSe),
    ("KL-UCB (not private)", Algorithm::NonprivateKlUcb),
    ("IMED (not private)", Algorithm::NonprivateImed),
];

/// Name, means of the arms (coins), horizon.
const INSTANCES: &[(&str, &[f64], u64)] = &[
    ("TD16, 2 arms", &[0.9, 0.6], 100_000),
    ("TD16, 10 arms", &[0.1, 0.1, 0.1, 0.1, 0.55, 0.2, 0.1, 0.1, 0.1, 0.1], 100_000),
    ("SS19, 5 arms", &[0.75, 0.625, 0.5, 0.375, 0.25], 1_000_000),
];

const EPSILONS: [f64; 2] = [0.1, 1.0];

/// The answer to "why is the order not the papers'?".
const NOTES: &str = "
Pseudo-regret: the sum of gaps of the arms played. delta = e^-10 for DP-UCB-INT (v = 1.1), 0 for the others.
";

/// Splitmix: the environment's coins need no privacy.
struct Coins(u64);

impl Coins {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn regret(algorithm: Algorithm, means: &[f64], horizon: u64, epsilon: f64, run: u64) -> f64 {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&run.to_le_bytes());
    let config = Config {
        horizon,
        delta: (-10f64).exp(),
        reward_bits: 0,
        test_seed: Some(seed),
        ..Config::new(means.len() as u32, epsilon)
    };
    let bandit = Bandit::new(algorithm, &config).expect("a valid configuration");
    let best = means.iter().copied().fold(0.0, f64::max);
    let mut coins = Coins(run);
    (0..horizon)
        .map(|_| {
            let decision = bandit.select().expect("a decision");
            let mean = means[decision.arm as usize];
            let reward = f64::from(u8::from(coins.unit() < mean));
            bandit.update(decision.ticket, reward).expect("an answer");
            best - mean
        })
        .sum()
}

fn main() {
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(20);
    for (instance, means, horizon) in INSTANCES {
        println!("\n{instance}, T = {horizon}, {runs} runs: mean (standard error)\n");
        println!("{:<22}{:>18}{:>18}", "", "eps = 0.1", "eps = 1");
        for (name, algorithm) in POLICIES {
            print!("{name:<22}");
            for epsilon in EPSILONS {
                let regrets: Vec<f64> =
                    (0..runs).map(|run| regret(*algorithm, means, *horizon, epsilon, run)).collect();
                let mean = regrets.iter().sum::<f64>() / regrets.len() as f64;
                let squares: f64 = regrets.iter().map(|r| (r - mean).powi(2)).sum();
                let error = (squares / (regrets.len().max(2) - 1) as f64 / regrets.len() as f64).sqrt();
                print!("{:>18}", format!("{mean:.0} ({error:.0})"));
            }
            println!();
        }
    }
    println!("{NOTES}");
}
