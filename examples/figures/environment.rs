//! Instances, players, and the road through the public interface: decision by decision.

use super::runner::{Curve, Trial};
use dpb::local::RandomizedResponse;
use dpb::{Algorithm, Bandit, Config};
use std::collections::VecDeque;

/// Arms that toss coins.
pub struct Setting {
    pub means: Vec<f64>,
    pub horizon: u64,
    /// Each answer comes so many decisions after its decision.
    pub in_flight: usize,
}

impl Setting {
    pub fn new(means: &[f64], horizon: u64) -> Setting {
        Setting { means: means.into(), horizon, in_flight: 0 }
    }

    /// Of each arm, to the best one's mean.
    pub fn gaps(&self) -> Vec<f64> {
        let best = self.means.iter().copied().fold(0.0, f64::max);
        self.means.iter().map(|mean| best - mean).collect()
    }
}

/// The means of so many arms.
pub type Instance = fn(usize) -> Vec<f64>;

/// Sajed and Sheffet (2019), Section 5: all gaps the same, linear, convex, concave.
pub const SS19: [(&str, Instance); 4] = [
    ("C1", |arms| instance(arms, |x| if x == 0.0 { 0.75 } else { 0.25 })),
    ("C2", |arms| instance(arms, |x| 0.75 - 0.5 * x)),
    ("C3", |arms| instance(arms, |x| 0.25 + 0.5 * (1.0 - x).powi(2))),
    ("C4", |arms| instance(arms, |x| 0.75 - 0.5 * x.powi(2))),
];

fn instance(arms: usize, mean: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..arms).map(|arm| mean(arm as f64 / (arms - 1) as f64)).collect()
}

/// Ours: A (SS19's default), B (ten advertisements, clicked by 5% down to 1%), C (a near tie).
pub fn ours() -> [(&'static str, Vec<f64>); 3] {
    [
        ("A", instance(5, |x| 0.75 - 0.5 * x)),
        ("B", instance(10, |x| 0.05 - 0.04 * x)),
        ("C", vec![0.75, 0.70, 0.70, 0.70, 0.70]),
    ]
}

/// A policy and how it is set up: one row of an experiment.
#[derive(Clone)]
pub struct Player {
    pub label: String,
    pub algorithm: Algorithm,
    pub config: Config,
}

impl Player {
    pub fn new(label: &str, algorithm: Algorithm, arms: usize, epsilon: f64, delta: f64) -> Player {
        Player { label: label.into(), algorithm, config: Config { delta, ..Config::new(arms as u32, epsilon) } }
    }

    /// The device's part in the local model.
    fn response(&self) -> Option<RandomizedResponse> {
        let local = matches!(self.algorithm, Algorithm::LdpUcb | Algorithm::LdpKlUcb);
        local.then(|| RandomizedResponse::new(self.config.epsilon).expect("a valid epsilon"))
    }
}

/// `many` times, evenly on a logarithmic scale, from `first` to `horizon`.
pub fn log_times(first: u64, horizon: u64, many: usize) -> Vec<u64> {
    let ratio = horizon as f64 / first as f64;
    let mut times: Vec<u64> =
        (0..many).map(|i| (first as f64 * ratio.powf(i as f64 / (many - 1) as f64)).round() as u64).collect();
    times.dedup();
    times
}

/// A regret curve in the making.
pub struct Recorder<'a> {
    at: &'a [u64],
    curve: Curve,
    time: u64,
    regret: f64,
}

impl<'a> Recorder<'a> {
    /// To be read at these times, ascending.
    pub fn new(at: &'a [u64]) -> Recorder<'a> {
        Recorder { at, curve: Vec::with_capacity(at.len()), time: 0, regret: 0.0 }
    }

    /// One decision.
    #[inline]
    pub fn step(&mut self, gap: f64) {
        self.time += 1;
        self.regret += gap;
        if self.at.get(self.curve.len()) == Some(&self.time) {
            self.curve.push(self.regret);
        }
    }

    /// So many rounds of these arms, one after the other.
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

    /// Has every time been read?
    pub fn done(&self) -> bool {
        self.curve.len() == self.at.len()
    }

    pub fn time(&self) -> u64 {
        self.time
    }

    /// The curve, after the same arm to the end.
    pub fn finish(mut self, gap: f64) -> Curve {
        self.round_robin(&[gap], u64::MAX);
        self.curve
    }
}

/// Pseudo-regret at the given times, the last of which is the horizon: through the public interface,
/// decision by decision, until the policy has decided for one arm, which it then plays for ever.
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

/// A policy need not be asked oftener whether it has decided.
const DECIDED_EVERY: u64 = 1024;

/// Decision by decision, until the horizon or until `each`, which is told the arm, has seen enough.
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
            bandit.update(ticket, reward).expect("an answer");
        }
        if !each(&bandit, arm) {
            return;
        }
    }
}
