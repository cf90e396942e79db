//! The handle that a test examines, a policy with or without segments, and how a history calls it.

use crate::support::coins::Coins;
use crate::support::requests::numbers;
use dpb::{Algorithm, Bandit, Config, Decision, Feature, Request, Result, Rows};

/// The kinds of handles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subject {
    /// A policy; for dp-linear, with one model for all arms.
    Policy(Algorithm),
    Segments,
    /// dp-linear with a model for each arm.
    Models,
    /// dp-imed with a learned clip.
    Clipped,
}

impl Subject {
    /// The keys of the segments.
    pub const KEYS: [u64; 3] = [100, 101, 102];

    /// The handles that learn from a set of releases.
    pub const FLEETS: [Subject; 7] = [
        Subject::Policy(Algorithm::Imed),
        Subject::Policy(Algorithm::Med),
        Subject::Policy(Algorithm::TopTwo),
        Subject::Segments,
        Subject::Policy(Algorithm::Linear),
        Subject::Models,
        Subject::Clipped,
    ];

    /// All policies, also with segments and with a model for each arm. Rewards that are clipped are not those of a model.
    pub fn all() -> impl Iterator<Item = Subject> {
        Algorithm::ALL.iter().copied().map(Subject::Policy).chain([Subject::Segments, Subject::Models])
    }

    /// The policy, and the configuration of this subject. If it has features, there are as many as `config` says.
    pub fn with(self, config: &Config) -> (Algorithm, Config) {
        let features = if config.features > 0 { config.features } else { FEATURES as u32 };
        let config = Config { features: 0, ..config.clone() };
        let (algorithm, config) = match self {
            Subject::Policy(Algorithm::Linear) => (Algorithm::Linear, Config { features, ..config }),
            Subject::Models => (Algorithm::Linear, Config { features, model_per_arm: true, ..config }),
            Subject::Policy(algorithm) => (algorithm, config),
            Subject::Clipped => (Algorithm::Imed, Config { learn_clip: true, reward_bits: 24, ..config }),
            Subject::Segments => (Algorithm::Imed, Config { max_segments: Self::KEYS.len() as u32, ..config }),
        };
        (algorithm, numbers(algorithm, config))
    }

    pub fn make(self, config: &Config) -> Result<Bandit> {
        let (algorithm, config) = self.with(config);
        Bandit::new(algorithm, &config)
    }

    /// A handle that continues from a snapshot, with the fleet key if there is one.
    pub fn restore(self, config: &Config, snapshot: &[u8]) -> Result<Bandit> {
        let (algorithm, config) = self.with(config);
        match config.fleet_key {
            Some(_) => Bandit::restore_as(algorithm, &config, snapshot),
            None => Bandit::restore(snapshot),
        }
    }

    /// A handle that continues from a state.
    pub fn resume(self, config: &Config, state: &[u8]) -> Result<Bandit> {
        let (algorithm, config) = self.with(config);
        Bandit::resume(Some(algorithm), &config, state)
    }

    pub fn name(self) -> &'static str {
        match self {
            Subject::Policy(algorithm) => algorithm.name(),
            Subject::Segments => "segments",
            Subject::Clipped => "dp-imed with a learned clip",
            Subject::Models => "dp-linear, a model for each arm",
        }
    }

    /// Whether requests have features.
    pub fn has_features(self) -> bool {
        matches!(self, Subject::Models | Subject::Policy(Algorithm::Linear))
    }

    /// Whether a release may have something else of a reward than the reward.
    pub fn transforms_rewards(self) -> bool {
        self.has_features() || self == Subject::Clipped
    }

    /// Whether requests may have values.
    pub fn has_values(self) -> bool {
        !matches!(self, Subject::Policy(algorithm) if ![Algorithm::Imed, Algorithm::Med, Algorithm::Linear].contains(&algorithm))
    }

    /// Whether requests may say how often slots are examined.
    pub fn has_positions(self) -> bool {
        [Subject::Policy(Algorithm::Imed), Subject::Clipped].contains(&self)
    }

    /// A request, in this segment if the handle has segments.
    pub fn request(self, key: u64) -> Request<'static> {
        Request { segment: if self == Subject::Segments { key } else { 0 }, ..Request::default() }
    }

    /// The number of rows in a request among these arms.
    pub fn rows(self, bandit: &Bandit, eligible: Option<&[u32]>) -> usize {
        match self {
            Subject::Models => 1,
            Subject::Policy(Algorithm::Linear) => {
                eligible.map_or_else(|| bandit.arms().unwrap() as usize, <[u32]>::len)
            }
            _ => 0,
        }
    }

    /// Requests a decision whose rows are all this one.
    pub fn ask(self, bandit: &Bandit, key: u64, eligible: Option<&[u32]>, row: &[f32]) -> Result<Decision> {
        let rows = row.repeat(self.rows(bandit, eligible));
        let features = (!rows.is_empty()).then_some(Rows::Dense(&rows));
        bandit.select_for(&Request { eligible, features, ..self.request(key) })
    }

    /// Makes a decision with two features, if there are any, and reports the reward that `pays` gives for its arm.
    pub fn decide(self, bandit: &Bandit, coins: &mut Coins, pays: impl FnOnce(usize, &mut Coins) -> f64) -> u32 {
        let rows: Vec<f32> = match self {
            Subject::Policy(Algorithm::Linear) => {
                (0..self.rows(bandit, None)).flat_map(|arm| [(arm % 2) as f32, (arm / 2 % 2) as f32]).collect()
            }
            Subject::Models => vec![coins.toss(0.5) as f32, 0.5],
            _ => Vec::new(),
        };
        let features = (!rows.is_empty()).then_some(Rows::Dense(&rows));
        let key = if self == Subject::Segments { coins.below(2) } else { 0 };
        let decision = bandit.select_for(&Request { features, ..self.request(key) }).unwrap();
        let reward = pays(decision.arm as usize, coins);
        bandit.update(decision.ticket, reward).unwrap();
        decision.arm
    }

    /// Makes decisions, whose arms have these rates.
    pub fn play(self, bandit: &Bandit, decisions: u32, coins: &mut Coins) {
        const RATES: [f64; 5] = [0.75, 0.625, 0.5, 0.375, 0.25];
        for _ in 0..decisions {
            self.decide(bandit, coins, |arm, coins| coins.toss(RATES[arm % 5]));
        }
    }
}

/// The number of features in a row.
const FEATURES: usize = 3;

/// The rows of a request, chosen by an adversary who knows this number.
pub struct Features {
    dense: Vec<f32>,
    sparse: Option<(Vec<Feature>, Vec<u32>)>,
}

impl Features {
    pub fn new(rows: usize, known: u64) -> Features {
        let mut state = known;
        let mut value = || {
            state = (state ^ state >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
            [0.0, 0.0, 1.0, 1.0, -0.5, 0.25, 3.0, 1e6][(state >> 61) as usize]
        };
        let dense: Vec<f32> = (0..rows * FEATURES).map(|_| value()).collect();
        let sparse = (known >> 7 & 1 == 1).then(|| {
            let (mut entries, mut ends) = (Vec::new(), Vec::new());
            for row in dense.chunks(FEATURES) {
                let some = (0..).zip(row).filter(|(_, value)| **value != 0.0);
                entries.extend(some.map(|(index, &value)| Feature { index, value }));
                ends.push(entries.len() as u32);
            }
            (entries, ends)
        });
        Features { dense, sparse }
    }

    pub fn rows(&self) -> Rows<'_> {
        self.sparse.as_ref().map_or(Rows::Dense(&self.dense), |(entries, ends)| Rows::Sparse(entries, ends))
    }
}

/// What an adversary who knows this number says that a reward of each of so many arms is worth.
pub fn values(arms: usize, known: u64) -> Vec<f64> {
    let value = |arm: usize| [1.0, 1.0, 0.5, 3.0, 0.9, 0.0, 1e-4, 30.0][(known >> (3 * (arm % 20))) as usize & 7];
    let mut values: Vec<f64> = (0..arms).map(value).collect();
    values[known as usize % arms] = 1.0;
    values
}

/// What the same adversary says that it costs to play each of so many arms, and whether a request may get no arm.
pub fn costs(arms: usize, known: u64) -> (Vec<f64>, bool) {
    let cost = |arm: usize| [0.0, 0.1, -0.05, 0.3, 0.5, 0.75, 1e-3, 1.0][(known >> (3 * (arm % 20) + 1)) as usize & 7];
    ((0..arms).map(cost).collect(), known >> 62 & 1 == 0)
}

/// How often visitors examine each of so many slots, as an adversary says who knows this number.
pub fn chances(slots: usize, known: u64) -> Vec<f64> {
    (0..slots)
        .map(|slot| [1.0, 0.5, 0.3, 1.0, 0.7, 0.125, 1e-3, 0.9][(known >> (3 * (slot % 20))) as usize & 7])
        .collect()
}

/// All readable state of an arm: its real numbers, among them the mean, and its counts.
pub struct Arm {
    pub estimates: [u64; 3],
    pub counts: (u64, bool),
}

/// The active arms.
pub fn live(bandit: &Bandit) -> Vec<u32> {
    let arms = bandit.arm_reports().unwrap();
    (0..).zip(arms).filter(|(_, arm)| arm.active).map(|(number, _)| number).collect()
}

/// All arms, and all arms of every segment.
pub fn arms(subject: Subject, bandit: &Bandit) -> Vec<Arm> {
    let mut arms = Vec::new();
    let mut each = |_, arm: dpb::ArmReport| {
        let estimates = [arm.mean, arm.width, arm.effective_pulls].map(f64::to_bits);
        arms.push(Arm { estimates, counts: (arm.pulls, arm.active) });
    };
    bandit.for_each_arm(&mut each).unwrap();
    for key in Subject::KEYS {
        let _ = bandit.for_each_arm_in(key, &mut each); // if the segment exists
    }
    // Predictions for rows.
    if subject.has_features() {
        let features = Features::new(subject.rows(bandit, None), 5);
        let each = |mean: f64, deviation: f64| {
            arms.push(Arm { estimates: [mean.to_bits(), deviation.to_bits(), 0], counts: (0, false) });
        };
        bandit.predict(&Request { features: Some(features.rows()), ..Request::default() }, each).unwrap();
        for arm in 0..bandit.arms().unwrap() {
            let each = |mean: f64, deviation: f64| {
                arms.push(Arm { estimates: [mean.to_bits(), deviation.to_bits(), 0], counts: (0, false) });
            };
            let _ = bandit.feature_weights(arm, each); // of arms that are not retired
        }
    }
    arms
}

/// All other readable state except snapshots.
pub fn rest(bandit: &Bandit) -> String {
    let compared = bandit.compare(0, 1, 0.9);
    let verdict = bandit.verdict().map_or(String::new(), |verdict| format!(" {verdict:?}"));
    format!("{:?} {compared:?} {:?}{verdict}", bandit.report(), bandit.best_arm())
}
