//! A bandit or a pool, under one set of calls.

use dpb::{Algorithm, Bandit, Config, Decision, Error, Pool, Result};

/// What handles are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subject {
    Policy(Algorithm),
    Pool,
}

impl Subject {
    pub fn make(self, config: &Config) -> Result<Handle> {
        Ok(match self {
            Subject::Policy(algorithm) => Handle::Bandit(Bandit::new(algorithm, config)?.into()),
            Subject::Pool => Handle::Pool(Pool::new(config, Handle::SEGMENTS)?.into()),
        })
    }

    pub fn restore(self, snapshot: &[u8]) -> Result<Handle> {
        Ok(match self {
            Subject::Policy(_) => Handle::Bandit(Bandit::restore(snapshot)?.into()),
            Subject::Pool => Handle::Pool(Pool::restore(snapshot)?.into()),
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Subject::Policy(algorithm) => algorithm.name(),
            Subject::Pool => "pool",
        }
    }
}

pub enum Handle {
    Bandit(Box<Bandit>),
    Pool(Box<Pool>),
}

/// Where one asks for a decision: the key of a segment, who asks, and which arms there may be.
pub struct Request<'a> {
    pub key: u64,
    pub user: Option<u64>,
    pub among: Option<&'a [u32]>,
}

/// What can be read of an arm: its mean and what else is in real numbers, and counts.
pub struct Arm {
    pub estimates: [u64; 3],
    pub counts: (u64, bool),
}

const NOT_HERE: Error = Error::Unsupported("by pools");

macro_rules! both {
    ($handle:expr, $it:ident => $call:expr) => {
        match $handle {
            Handle::Bandit($it) => $call,
            Handle::Pool($it) => $call,
        }
    };
}

impl Handle {
    /// Of a pool.
    pub const SEGMENTS: u32 = 3;

    pub fn choose(&self, request: &Request) -> Result<Decision> {
        let Request { key, user, among } = *request;
        match self {
            Handle::Bandit(bandit) => match (user, among) {
                (None, None) => bandit.select(),
                (None, Some(arms)) => bandit.select_among(arms),
                (Some(user), None) => bandit.select_for(user),
                (Some(user), Some(arms)) => bandit.select_among_for(user, arms),
            },
            Handle::Pool(pool) => {
                let segment = pool.segment(key)?;
                match (user, among) {
                    (None, None) => pool.select(segment),
                    (None, Some(arms)) => pool.select_among(segment, arms),
                    (Some(user), None) => pool.select_for(segment, user),
                    (Some(user), Some(arms)) => pool.select_among_for(segment, user, arms),
                }
            }
        }
    }

    pub fn choose_slate(&self, among: Option<&[u32]>, slots: usize) -> Result<Vec<Decision>> {
        let Handle::Bandit(bandit) = self else { return Err(NOT_HERE) };
        let mut slate = Vec::new();
        bandit.select_slate(among, slots, |slot, decision| slate.push((slot, decision)))?;
        slate.sort_unstable_by_key(|&(slot, _)| slot);
        Ok(slate.into_iter().map(|(_, decision)| decision).collect())
    }

    pub fn update(&self, ticket: u64, reward: f64) -> Result<()> {
        both!(self, it => it.update(ticket, reward))
    }

    pub fn cancel(&self, ticket: u64) -> Result<()> {
        both!(self, it => it.cancel(ticket))
    }

    pub fn advance(&self, now: u64) -> Result<()> {
        both!(self, it => it.advance(now))
    }

    pub fn set_prior(&self, arm: u32, mean: f64, strength: f64) -> Result<()> {
        both!(self, it => it.set_prior(arm, mean, strength))
    }

    pub fn next_period(&self) -> Result<()> {
        both!(self, it => it.next_period())
    }

    pub fn snapshot(&self) -> Result<Vec<u8>> {
        both!(self, it => it.snapshot())
    }

    pub fn merge(&self, snapshot: &[u8]) -> Result<()> {
        both!(self, it => it.merge(snapshot))
    }

    pub fn add_arm(&self, id: Option<u64>) -> Result<u32> {
        let Handle::Bandit(bandit) = self else { return Err(NOT_HERE) };
        id.map_or_else(|| bandit.add_arm(), |id| bandit.add_arm_as(id))
    }

    pub fn retire_arm(&self, arm: u32) -> Result<()> {
        let Handle::Bandit(bandit) = self else { return Err(NOT_HERE) };
        bandit.retire_arm(arm)
    }

    /// Arms that can be asked for, where any can.
    pub fn live(&self) -> Vec<u32> {
        match self {
            Handle::Bandit(bandit) => {
                let arms = bandit.arm_reports().unwrap();
                (0..).zip(arms).filter(|(_, arm)| arm.active).map(|(number, _)| number).collect()
            }
            Handle::Pool(pool) => (0..pool.arms()).collect(),
        }
    }

    /// Of every arm, in every segment.
    pub fn arms(&self) -> Vec<Arm> {
        let mut arms = Vec::new();
        match self {
            Handle::Bandit(bandit) => {
                let each = |_, arm: dpb::ArmReport| {
                    let estimates = [arm.mean, arm.width, arm.effective_pulls].map(f64::to_bits);
                    arms.push(Arm { estimates, counts: (arm.pulls, arm.active) });
                };
                bandit.for_each_arm(each).unwrap();
            }
            Handle::Pool(pool) => {
                for segment in 0..pool.report().unwrap().segments {
                    let each = |_, cell: dpb::CellReport| {
                        let estimates = [cell.mean, cell.effective_pulls, 0.0].map(f64::to_bits);
                        arms.push(Arm { estimates, counts: (cell.pulls, true) });
                    };
                    pool.for_each_arm(segment, each).unwrap();
                }
            }
        }
        arms
    }

    /// All else that can be read, but for a snapshot.
    pub fn rest(&self) -> String {
        match self {
            Handle::Bandit(bandit) => {
                let compared = bandit.compare(0, 1, 0.9);
                format!("{:?} {compared:?} {:?}", bandit.report(), bandit.best_arm())
            }
            Handle::Pool(pool) => format!("{:?}", pool.report()),
        }
    }

    /// The loss that it reports at delta = 0, and at this one.
    pub fn epsilon_spent(&self, delta: f64) -> [f64; 2] {
        match self {
            Handle::Bandit(bandit) => [0.0, delta].map(|delta| bandit.epsilon_spent(delta).unwrap()),
            Handle::Pool(pool) => {
                let report = pool.report().unwrap();
                let pure = if report.delta_spent == 0.0 { report.epsilon_spent } else { f64::INFINITY };
                [pure, report.epsilon_spent]
            }
        }
    }
}
