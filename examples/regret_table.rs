//! Prints a table of the mean pseudo-regret of each central policy on the papers' instances.
//!
//! `cargo run --release -p dpb-figures --example regret_table [RUNS] [part of a policy's name]`
//!
//! By default RUNS is 20, and the table has all policies.

use dpb::{Algorithm, Bandit, Config};

/// The label, the policy, and a function that sets the configuration that the policy needs.
type Row = (&'static str, Algorithm, fn(&mut Config));

const POLICIES: &[Row] = &[
    ("DP-SE", Algorithm::Se, |_| ()),
    ("DP-UCB-BOUND", Algorithm::UcbBound, |_| ()),
    ("DP-UCB", Algorithm::Ucb, |_| ()),
    ("DP-UCB-INT", Algorithm::UcbInt, |_| ()),
    ("DP-UCB-INT, f printed", Algorithm::UcbInt, |config| config.batch = 1),
    ("DP-UCB-INT, rigorous", Algorithm::UcbInt, |config| config.rigorous_index = true),
    ("Private-UCB", Algorithm::PrivateUcb, |_| ()),
    ("DP-IMED", Algorithm::Imed, |config| config.delta = 0.0),
    ("UCB1 (not private)", Algorithm::NonprivateUcb1, |_| ()),
    ("SE (not private)", Algorithm::NonprivateSe, |_| ()),
    ("KL-UCB (not private)", Algorithm::NonprivateKlUcb, |_| ()),
    ("IMED (not private)", Algorithm::NonprivateImed, |_| ()),
];

/// The name, the means of the arms (Bernoulli rewards), and the horizon.
const INSTANCES: &[(&str, &[f64], u64)] = &[
    ("TD16, 2 arms", &[0.9, 0.6], 100_000),
    ("TD16, 10 arms", &[0.1, 0.1, 0.1, 0.1, 0.55, 0.2, 0.1, 0.1, 0.1, 0.1], 100_000),
    ("SS19, 5 arms", &[0.75, 0.625, 0.5, 0.375, 0.25], 1_000_000),
];

const EPSILONS: [f64; 2] = [0.1, 1.0];

const NOTES: &str = "
Pseudo-regret is the sum of the gaps of the arms played. DP-UCB-INT has delta = e^-10 (v = 1.1). The others are pure.

These results agree with the papers: DP-UCB-INT has the least regret of TD16's policies and Private-UCB the most. DP-UCB
is ahead of DP-UCB-BOUND at first. DP-SE is far ahead of Private-UCB (DP-UCB in SS19) at small epsilon.

These results differ from the papers:
* DP-UCB-BOUND does not overtake DP-UCB within these horizons, as it does in TD16. Its width here is a proven bound on a
  mechanism whose two parts share epsilon. The printed mechanism leaks 2 epsilon, and its width does not add up all
  noises. The losing arms stop at powers of two, where the noise of the tree drops out and the width is smaller.
  Therefore some standard errors are 0 (0.3 * 2^14 = 4915).
* DP-UCB-INT is ahead because of the interval series of Lemma B.1. With the printed f = ceil(1/eps) (21,591 rewards at
  eps' = 0.1), the first round of each arm takes up to the whole horizon.
* DP-UCB-INT's printed index does not cover its noise, because the proof of TD16's Theorem 3.5 fails. Rare runs lose the
  best arm. The mean is then far above that of the others, with a large standard error (SS19, eps = 1: one run of 20).
  The rigorous index prevents this, but has more regret than any other policy here, because the noise decreases only as
  n^-0.45.
* DP-SE is ahead of Private-UCB by less than SS19's factor of 5 at eps = 1. Private-UCB has the whole epsilon for each
  arm here (in the original a K-th of it) and a tighter width, and T is 1e6 instead of 5e7.
* DP-SE is behind the UCB family at eps = 1 on TD16's instances, because its first epoch has 128 ln(8 K T) pulls of each
  arm for any gaps. It is ahead if epsilon is small.
";

/// The environment's random numbers (SplitMix64). They need not be secret.
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

fn regret(algorithm: Algorithm, adapt: fn(&mut Config), means: &[f64], horizon: u64, epsilon: f64, run: u64) -> f64 {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&run.to_le_bytes());
    let mut config = Config {
        horizon,
        delta: (-10f64).exp(),
        reward_bits: 0,
        test_seed: Some(seed),
        ..Config::new(means.len() as u32, epsilon)
    };
    adapt(&mut config);
    let bandit = Bandit::new(algorithm, &config).expect("a valid configuration");
    let best = means.iter().copied().fold(0.0, f64::max);
    let mut coins = Coins(run);
    (0..horizon)
        .map(|_| {
            let decision = bandit.select().expect("a decision");
            let mean = means[decision.arm as usize];
            let reward = f64::from(u8::from(coins.unit() < mean));
            bandit.update(decision.ticket, reward).expect("an accepted reward");
            best - mean
        })
        .sum()
}

fn main() {
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(20);
    let part = std::env::args().nth(2).unwrap_or_default();
    for (instance, means, horizon) in INSTANCES {
        println!("\n{instance}, T = {horizon}, {runs} runs: mean (standard error)\n");
        println!("{:<22}{:>18}{:>18}", "", "eps = 0.1", "eps = 1");
        for (name, algorithm, adapt) in POLICIES.iter().filter(|policy| policy.0.contains(&part)) {
            print!("{name:<22}");
            for epsilon in EPSILONS {
                let regrets: Vec<f64> =
                    (0..runs).map(|run| regret(*algorithm, *adapt, means, *horizon, epsilon, run)).collect();
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
