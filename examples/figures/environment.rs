//! The instances and policies of the experiments, and a simulation that makes every decision through the public
//! interface.

use super::runner::{Curve, Trial};
use dpb::local::RandomizedResponse;
use dpb::{Algorithm, Bandit, Config};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Beta, Distribution};
use std::collections::VecDeque;

/// Arms with Bernoulli rewards.
pub struct Setting {
    pub means: Vec<f64>,
    pub horizon: u64,
    /// The delay of each reward, in decisions.
    pub in_flight: usize,
}

impl Setting {
    pub fn new(means: &[f64], horizon: u64) -> Setting {
        Setting { means: means.into(), horizon, in_flight: 0 }
    }

    /// The difference between the best mean and the mean of each arm.
    pub fn gaps(&self) -> Vec<f64> {
        let best = self.means.iter().copied().fold(0.0, f64::max);
        self.means.iter().map(|mean| best - mean).collect()
    }
}

/// The means of the arms, from the number of arms.
pub type Instance = fn(usize) -> Vec<f64>;

/// The instances of Sajed and Sheffet (2019), Section 5: means with equal gaps, linear, convex and concave.
pub const SS19: [(&str, Instance); 4] = [
    ("C1", |arms| instance(arms, |x| if x == 0.0 { 0.75 } else { 0.25 })),
    ("C2", |arms| instance(arms, |x| 0.75 - 0.5 * x)),
    ("C3", |arms| instance(arms, |x| 0.25 + 0.5 * (1.0 - x).powi(2))),
    ("C4", |arms| instance(arms, |x| 0.75 - 0.5 * x.powi(2))),
];

fn instance(arms: usize, mean: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..arms).map(|arm| mean(arm as f64 / (arms - 1) as f64)).collect()
}

/// The instances of libdpb's experiments: A is SS19's default, B has ten ads with click rates from 5% down to 1%, and C
/// is a near tie.
pub fn instances() -> [(&'static str, Vec<f64>); 3] {
    [
        ("A", instance(5, |x| 0.75 - 0.5 * x)),
        ("B", instance(10, |x| 0.05 - 0.04 * x)),
        ("C", vec![0.75, 0.70, 0.70, 0.70, 0.70]),
    ]
}

/// A policy and its configuration: one row of an experiment.
#[derive(Clone)]
pub struct Player {
    pub label: String,
    pub algorithm: Algorithm,
    pub config: Config,
}

impl Player {
    pub fn new(label: &str, algorithm: Algorithm, arms: usize, epsilon: f64, delta: f64) -> Player {
        let config = algorithm.fit(&Config { delta, ..Config::new(arms as u32, epsilon) });
        Player { label: label.into(), algorithm, config }
    }

    /// For a policy of the local model, the encoder of the device.
    fn response(&self) -> Option<RandomizedResponse> {
        let local = matches!(self.algorithm, Algorithm::LdpUcb | Algorithm::LdpKlUcb);
        local.then(|| RandomizedResponse::new(self.config.epsilon).expect("a valid epsilon"))
    }
}

/// At most `many` times from `first` to `horizon`, evenly spaced on a logarithmic scale.
pub fn log_times(first: u64, horizon: u64, many: usize) -> Vec<u64> {
    let ratio = horizon as f64 / first as f64;
    let mut times: Vec<u64> =
        (0..many).map(|i| (first as f64 * ratio.powf(i as f64 / (many - 1) as f64)).round() as u64).collect();
    times.dedup();
    times
}

/// Records the cumulative regret at given times.
pub struct Recorder<'a> {
    at: &'a [u64],
    curve: Curve,
    time: u64,
    regret: f64,
}

impl<'a> Recorder<'a> {
    /// Records at these times, which are ascending.
    pub fn new(at: &'a [u64]) -> Recorder<'a> {
        Recorder { at, curve: Vec::with_capacity(at.len()), time: 0, regret: 0.0 }
    }

    /// Adds one decision for an arm with this gap.
    #[inline]
    pub fn step(&mut self, gap: f64) {
        self.time += 1;
        self.regret += gap;
        if self.at.get(self.curve.len()) == Some(&self.time) {
            self.curve.push(self.regret);
        }
    }

    /// Adds this number of rounds, each with one decision for each of these arms.
    pub fn round_robin(&mut self, gaps: &[f64], rounds: u64) {
        let (each, a_round) = (gaps.len() as u64, gaps.iter().sum::<f64>());
        let (start, end) = (self.time, self.time.saturating_add(rounds.saturating_mul(each)));
        while let Some(&time) = self.at.get(self.curve.len()).filter(|&&time| time <= end) {
            let (whole, rest) = ((time - start) / each, ((time - start) % each) as usize);
            self.curve.push(self.regret + whole as f64 * a_round + gaps[..rest].iter().sum::<f64>());
        }
        self.regret += rounds as f64 * a_round;
        self.time = end;
    }

    /// Whether the curve has a value for every time.
    pub fn done(&self) -> bool {
        self.curve.len() == self.at.len()
    }

    pub fn time(&self) -> u64 {
        self.time
    }

    /// Returns the curve if the rest of the decisions all choose an arm with this gap.
    pub fn finish(mut self, gap: f64) -> Curve {
        self.round_robin(&[gap], u64::MAX);
        self.curve
    }
}

/// The pseudo-regret at the given times, the last of which is the horizon. Makes each decision through the public
/// interface, until the policy has identified the best arm, which it then plays for ever.
pub fn play(player: &Player, setting: &Setting, at: &[u64], trial: Trial) -> Curve {
    let (gaps, mut recorder) = (setting.gaps(), Recorder::new(at));
    let mut decided = None;
    decide(player, setting, trial, |bandit, arm| {
        recorder.step(gaps[arm]);
        if recorder.time() % DECIDED_EVERY == 0 {
            decided = bandit.best_arm().ok();
        }
        decided.is_none()
    });
    recorder.finish(decided.map_or(0.0, |arm| gaps[arm as usize]))
}

/// The number of decisions between two checks whether the policy has identified the best arm.
const DECIDED_EVERY: u64 = 1024;

/// Makes decisions until the horizon, or until `each` returns false. Calls `each` with the arm after each decision.
pub fn decide(player: &Player, setting: &Setting, trial: Trial, mut each: impl FnMut(&Bandit, usize) -> bool) {
    let config = Config {
        horizon: setting.horizon,
        test_seed: Some(trial.policy_seed()),
        pending_capacity: setting.in_flight as u32 + 1,
        ..player.config.clone()
    };
    let bandit = Bandit::new(player.algorithm, &config).expect("a valid configuration");
    let (mut coins, response) = (trial.coins(), player.response());
    let mut waiting = VecDeque::with_capacity(setting.in_flight + 1);
    for _ in 0..setting.horizon {
        let decision = bandit.select().expect("a decision");
        let arm = decision.arm as usize;
        let mut reward = f64::from(u8::from(coins.unit() < setting.means[arm]));
        if let Some(response) = &response {
            reward = f64::from(u8::from(response.encode(reward, &mut coins).expect("a bit")));
        }
        waiting.push_back((decision.ticket, reward));
        if waiting.len() > setting.in_flight {
            let (ticket, reward) = waiting.pop_front().expect("one at least");
            bandit.update(ticket, reward).expect("an accepted reward");
        }
        if !each(&bandit, arm) {
            return;
        }
    }
}

/// Thompson sampling from Beta(1, 1), without privacy.
pub struct Thompson {
    coins: ChaCha8Rng,
    /// For each arm its clicks, its other decisions, and their posterior.
    arms: Vec<(f64, f64, Beta<f64>)>,
}

impl Thompson {
    pub fn new(arms: usize, trial: Trial) -> Thompson {
        let arms = (0..arms).map(|_| (0.0, 0.0, Self::posterior(0.0, 0.0))).collect();
        Thompson { coins: ChaCha8Rng::from_seed(trial.key(7)), arms }
    }

    fn posterior(clicks: f64, misses: f64) -> Beta<f64> {
        Beta::new(1.0 + clicks, 1.0 + misses).expect("positive")
    }

    pub fn choose(&mut self) -> usize {
        let mut best = (0, -1.0);
        for (arm, (.., posterior)) in self.arms.iter().enumerate() {
            let theta = posterior.sample(&mut self.coins);
            if theta > best.1 {
                best = (arm, theta);
            }
        }
        best.0
    }

    pub fn observe(&mut self, arm: usize, click: f64) {
        let (clicks, misses, posterior) = &mut self.arms[arm];
        (*clicks, *misses) = (*clicks + click, *misses + 1.0 - click);
        *posterior = Self::posterior(*clicks, *misses);
    }

    /// The pseudo-regret at the given times.
    pub fn play(setting: &Setting, at: &[u64], trial: Trial) -> Curve {
        let (mut policy, mut coins) = (Thompson::new(setting.means.len(), trial), trial.coins());
        let (gaps, mut recorder) = (setting.gaps(), Recorder::new(at));
        for _ in 0..setting.horizon {
            let arm = policy.choose();
            policy.observe(arm, f64::from(u8::from(coins.unit() < setting.means[arm])));
            recorder.step(gaps[arm]);
        }
        recorder.finish(0.0)
    }
}
