//! Prints a table of the mean, p99 and largest pseudo-regret of the policies on three instances.
//!
//! `cargo run --release -p dpb-figures --example field -- [--runs 200] [--horizon 1000000] [--in-flight 0]
//! [--threads 2] [--policies dp-imed,dp-med,dp-se,nonprivate-klucb]`
//!
//! The seeds are fixed, so the same command prints the same table. With `--in-flight n`, each reward comes n decisions
//! later. The first two rows are lower bounds: for any eps-DP policy (the sum of Delta ln T/d_eps), and for any policy
//! without privacy (the sum of Delta ln T/kl).

use dpb::{Algorithm, ffi, policy::private_divergence};
use std::collections::VecDeque;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

const INSTANCES: [(&str, &[f64]); 3] = [
    ("A", &[0.75, 0.625, 0.5, 0.375, 0.25]),
    (
        "B",
        &[
            0.05,
            0.05 - 0.04 / 9.0,
            0.05 - 0.08 / 9.0,
            0.05 - 0.12 / 9.0,
            0.05 - 0.16 / 9.0,
            0.05 - 0.2 / 9.0,
            0.05 - 0.24 / 9.0,
            0.05 - 0.28 / 9.0,
            0.05 - 0.32 / 9.0,
            0.01,
        ],
    ),
    ("C", &[0.75, 0.7, 0.7, 0.7, 0.7]),
];
const EPSILONS: [f64; 3] = [0.1, 0.25, 1.0];

struct Options {
    runs: u64,
    horizon: u64,
    in_flight: usize,
    threads: usize,
    policies: Vec<Algorithm>,
}

impl Options {
    fn read() -> Options {
        let mut options = Options { runs: 200, horizon: 1_000_000, in_flight: 0, threads: 2, policies: Vec::new() };
        let mut policies = String::from("dp-imed,dp-med,dp-se,nonprivate-klucb");
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
            let number = || value.parse().unwrap_or_else(|_| panic!("{name} {value}: not a number"));
            match name.as_str() {
                "--runs" => options.runs = number(),
                "--horizon" => options.horizon = number(),
                "--in-flight" => options.in_flight = number() as usize,
                "--threads" => options.threads = number() as usize,
                "--policies" => policies = value,
                _ => panic!("{name}: unknown option"),
            }
        }
        options.policies =
            Algorithm::ALL.iter().copied().filter(|a| policies.split(',').any(|p| p == a.name())).collect();
        options
    }
}

/// The environment's random numbers (SplitMix64), independent of the library's.
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

/// The pseudo-regret of one run. Makes each decision through the C interface, as a service does.
fn play(algorithm: Algorithm, means: &[f64], epsilon: f64, run: u64, options: &Options) -> f64 {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&run.to_le_bytes());
    seed[8] = 1;
    let bandit = Handle::new(algorithm, means.len() as u32, epsilon, &seed, options);
    let mut coins = Coins(run.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5555);
    let best = means.iter().copied().fold(0.0, f64::max);
    let mut waiting = VecDeque::with_capacity(options.in_flight + 1);
    let mut regret = 0.0;
    for _ in 0..options.horizon {
        let decision = bandit.select();
        let mean = means[decision.arm as usize];
        regret += best - mean;
        waiting.push_back((decision.ticket, f64::from(coins.unit() < mean)));
        if waiting.len() > options.in_flight {
            let (ticket, reward) = waiting.pop_front().expect("one at least");
            bandit.update(ticket, reward);
        }
    }
    regret
}

/// A handle of the C interface.
struct Handle(*mut ffi::dpb_bandit);

impl Handle {
    fn new(algorithm: Algorithm, arms: u32, epsilon: f64, seed: &[u8; 32], options: &Options) -> Handle {
        let name = CString::new(algorithm.name()).expect("a name without NUL");
        let config = ffi::dpb_config {
            horizon: options.horizon,
            pending_capacity: options.in_flight as u32 + 1,
            test_seed: seed.as_ptr(),
            ..ffi::dpb_config::defaults(arms, epsilon)
        };
        let mut bandit = std::ptr::null_mut();
        // SAFETY: the pointers are valid, and only the constructor reads the seed.
        let status = unsafe { ffi::dpb_new_policy(name.as_ptr(), &config, &mut bandit, std::ptr::null_mut()) };
        assert_eq!(status, ffi::DPB_OK, "{}", algorithm.name());
        Handle(bandit)
    }

    fn select(&self) -> ffi::dpb_decision {
        let mut decision = MaybeUninit::uninit();
        // SAFETY: the handle is live, and the pointer is valid. The call writes the decision on success.
        unsafe {
            assert_eq!(ffi::dpb_select(self.0, decision.as_mut_ptr()), ffi::DPB_OK);
            decision.assume_init()
        }
    }

    fn update(&self, ticket: u64, reward: f64) {
        // SAFETY: the handle is live.
        assert_eq!(unsafe { ffi::dpb_update(self.0, ticket, reward) }, ffi::DPB_OK);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle comes from a constructor and is freed once.
        unsafe { ffi::dpb_free(self.0) }
    }
}

/// The mean, p99 and largest pseudo-regret.
fn cell(algorithm: Algorithm, means: &[f64], epsilon: f64, options: &Options) -> (f64, f64, f64) {
    let next = AtomicU64::new(0);
    let mut regrets: Vec<f64> = std::thread::scope(|scope| {
        let worker = || {
            let mut own = Vec::new();
            loop {
                let run = next.fetch_add(1, Ordering::Relaxed);
                if run >= options.runs {
                    return own;
                }
                own.push(play(algorithm, means, epsilon, run, options));
            }
        };
        let workers: Vec<_> = (0..options.threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    regrets.sort_by(f64::total_cmp);
    let rank = (regrets.len() as f64 * 0.99).ceil() as usize - 1;
    (regrets.iter().sum::<f64>() / regrets.len() as f64, regrets[rank], regrets[regrets.len() - 1])
}

/// The sum of Delta ln T / divergence over the arms that are not best.
fn least(means: &[f64], horizon: u64, divergence: impl Fn(f64, f64) -> f64) -> f64 {
    let best = means.iter().copied().fold(0.0, f64::max);
    let others = means.iter().filter(|&&mean| mean < best);
    others.map(|&mean| (best - mean) * (horizon as f64).ln() / divergence(mean, best)).sum()
}

fn main() {
    let options = Options::read();
    println!(
        "pseudo-regret, Bernoulli, T = {}, {} runs, {} in flight: mean / p99 / max",
        options.horizon, options.runs, options.in_flight
    );
    print!("{:<18}", "");
    for (name, _) in INSTANCES {
        EPSILONS.iter().for_each(|epsilon| print!("{:>22}", format!("{name} eps {epsilon}")));
    }
    println!();
    let row = |name: &str, cell: &dyn Fn(&[f64], f64) -> String| {
        print!("{name:<18}");
        for (_, means) in INSTANCES {
            for epsilon in EPSILONS {
                print!("{:>22}", cell(means, epsilon));
                std::io::Write::flush(&mut std::io::stdout()).expect("stdout");
            }
        }
        println!();
    };
    row("d_eps bound", &|means, epsilon| {
        format!("{:.0}", least(means, options.horizon, |x, y| private_divergence(x, y, epsilon)))
    });
    // For a large epsilon, d_eps equals kl.
    row("kl bound", &|means, _| {
        format!("{:.0}", least(means, options.horizon, |x, y| private_divergence(x, y, 700.0)))
    });
    for &algorithm in &options.policies {
        row(algorithm.name(), &|means, epsilon| {
            let (mean, p99, max) = cell(algorithm, means, epsilon, &options);
            format!("{mean:.0} / {p99:.0} / {max:.0}")
        });
    }
}
