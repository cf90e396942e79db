//! What is proved: a policy, with or without segments; and how a history asks it.

use dpb::{Algorithm, Bandit, Config, Request, Result};

/// What handles are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subject {
    Policy(Algorithm),
    Segments,
}

impl Subject {
    /// Keys of segments that there may be.
    pub const KEYS: [u64; 3] = [100, 101, 102];

    pub fn make(self, config: &Config) -> Result<Bandit> {
        Ok(match self {
            Subject::Policy(algorithm) => Bandit::new(algorithm, config)?,
            Subject::Segments => {
                Bandit::new(Algorithm::Imed, &Config { max_segments: Self::KEYS.len() as u32, ..config.clone() })?
            }
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Subject::Policy(algorithm) => algorithm.name(),
            Subject::Segments => "segments",
        }
    }

    /// In one of its segments, where it has any.
    pub fn request(self, key: u64) -> Request<'static> {
        Request { segment: if self == Subject::Segments { key } else { 0 }, ..Request::default() }
    }
}

/// What can be read of an arm: its mean and what else is in real numbers, and counts.
pub struct Arm {
    pub estimates: [u64; 3],
    pub counts: (u64, bool),
}

/// Arms that can be asked for, where any can.
pub fn live(bandit: &Bandit) -> Vec<u32> {
    let arms = bandit.arm_reports().unwrap();
    (0..).zip(arms).filter(|(_, arm)| arm.active).map(|(number, _)| number).collect()
}

/// Of every arm, and of every arm in every segment.
pub fn arms(bandit: &Bandit) -> Vec<Arm> {
    let mut arms = Vec::new();
    let mut each = |_, arm: dpb::ArmReport| {
        let estimates = [arm.mean, arm.width, arm.effective_pulls].map(f64::to_bits);
        arms.push(Arm { estimates, counts: (arm.pulls, arm.active) });
    };
    bandit.for_each_arm(&mut each).unwrap();
    for key in Subject::KEYS {
        let _ = bandit.for_each_arm_in(key, &mut each); // where it has begun
    }
    arms
}

/// All else that can be read, but for a snapshot.
pub fn rest(bandit: &Bandit) -> String {
    let compared = bandit.compare(0, 1, 0.9);
    format!("{:?} {compared:?} {:?}", bandit.report(), bandit.best_arm())
}
