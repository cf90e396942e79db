//! The handle of the C interface: one type, whatever its configuration.

use crate::bandit::{ArmReport, Bandit, Report};
use crate::config::Config;
use crate::desk::Decision;
use crate::engine::Diagnostics;
use crate::error::{Error, Result};
use crate::policy::Algorithm;
use crate::pool::Pool;
use crate::request::Request;
use crate::shuffle::Params;
use crate::snapshot::Kind;

/// A bandit, plain or with segments. It is made once and boxed by the interface, so its size is no matter.
#[allow(clippy::large_enum_variant)]
pub(crate) enum AnyBandit {
    Plain(Bandit),
    Segmented(Pool),
}

use AnyBandit::{Plain, Segmented};

/// A method that both kinds have.
macro_rules! either {
    ($handle:expr, $bandit:ident => $call:expr) => {
        match $handle {
            Plain($bandit) => $call,
            Segmented($bandit) => $call,
        }
    };
}

impl AnyBandit {
    /// # Errors
    /// As [`Bandit::new`] and [`Pool::new`]; `InvalidConfig` for `max_segments` with another policy than DP-IMED.
    pub fn new(algorithm: Algorithm, config: &Config, max_segments: u32) -> Result<AnyBandit> {
        match max_segments {
            0 => Bandit::new(algorithm, config).map(Plain),
            _ => {
                check_segments(algorithm, max_segments)?;
                Pool::new(config, max_segments).map(Segmented)
            }
        }
    }

    /// # Errors
    /// As [`Bandit::restore`] and [`Pool::restore`].
    pub fn restore(snapshot: &[u8]) -> Result<AnyBandit> {
        match Kind::of(snapshot) {
            Some(Kind::Pool) => Pool::restore(snapshot).map(Segmented),
            _ => Bandit::restore(snapshot).map(Plain),
        }
    }

    /// # Errors
    /// As [`Bandit::restore_as`] and [`Pool::restore_as`]; `InvalidConfig` for `max_segments` where the snapshot has
    /// segments and the configuration has none, or the other way round.
    pub fn restore_as(algorithm: Algorithm, config: &Config, max_segments: u32, snapshot: &[u8]) -> Result<AnyBandit> {
        match (Kind::of(snapshot), max_segments) {
            (Some(Kind::Pool), 0) => {
                Err(Error::config("max_segments", "must be at least 1: the snapshot has segments", max_segments))
            }
            (Some(Kind::Pool), _) => {
                check_segments(algorithm, max_segments)?;
                Pool::restore_as(config, max_segments, snapshot).map(Segmented)
            }
            (_, 0) => Bandit::restore_as(algorithm, config, snapshot).map(Plain),
            (Some(Kind::Bandit), _) => {
                Err(Error::config("max_segments", "must be 0: the snapshot has no segments", max_segments))
            }
            (None, _) => Err(Error::Corrupt),
        }
    }

    pub fn merge(&self, snapshot: &[u8]) -> Result<()> {
        match (self, Kind::of(snapshot)) {
            (Plain(_), Some(Kind::Pool)) | (Segmented(_), Some(Kind::Bandit)) => {
                let segmented = matches!(self, Segmented(_));
                let rule = if segmented { "must be 0, as in the snapshot" } else { "must be set, as in the snapshot" };
                Err(Error::config("max_segments", rule, u32::from(segmented)))
            }
            _ => either!(self, bandit => bandit.merge(snapshot)),
        }
    }

    pub fn snapshot_within(&self, room: usize) -> Result<Vec<u8>> {
        either!(self, bandit => bandit.snapshot_within(room))
    }

    /// The decision of a request that says nothing.
    #[inline]
    pub fn select(&self) -> Result<Decision> {
        match self {
            Plain(bandit) => bandit.select(),
            Segmented(_) => Err(Error::Unsupported("a decision without a segment: config.max_segments is set")),
        }
    }

    /// So many of these under one lock.
    pub fn select_many(&self, n: usize, each: impl FnMut(Decision)) -> Result<()> {
        match self {
            Plain(bandit) => bandit.select_many(n, each),
            Segmented(_) => self.select().map(drop),
        }
    }

    #[inline]
    pub fn decide(&self, request: &Request, each: &mut dyn FnMut(usize, Decision)) -> Result<()> {
        either!(self, bandit => bandit.decide(request, each))
    }

    pub fn decide_many<'a>(
        &self,
        requests: &mut dyn Iterator<Item = Result<Request<'a>>>,
        each: &mut dyn FnMut(usize, Decision),
        done: &mut usize,
    ) -> Result<()> {
        either!(self, bandit => bandit.decide_many(requests, each, done))
    }

    #[inline]
    pub fn update(&self, ticket: u64, reward: f64) -> Result<()> {
        either!(self, bandit => bandit.update(ticket, reward))
    }

    pub fn update_many(&self, rewards: impl Iterator<Item = (u64, f64)>, each: impl FnMut(Result<()>)) -> Result<()> {
        either!(self, bandit => bandit.update_many(rewards, each))
    }

    #[inline]
    pub fn cancel(&self, ticket: u64) -> Result<()> {
        either!(self, bandit => bandit.cancel(ticket))
    }

    pub fn cancel_all(&self) -> Result<()> {
        either!(self, bandit => bandit.cancel_all())
    }

    pub fn advance(&self, now: u64) -> Result<()> {
        either!(self, bandit => bandit.advance(now))
    }

    pub fn next_period(&self) -> Result<()> {
        either!(self, bandit => bandit.next_period())
    }

    pub fn set_prior(&self, arm: u32, mean: f64, strength: f64) -> Result<()> {
        either!(self, bandit => bandit.set_prior(arm, mean, strength))
    }

    /// A new arm: with an id of this handle's own for id 0, else with this id.
    pub fn add_arm(&self, id: u64) -> Result<u32> {
        match id {
            0 => self.plain("add_arm: the arms of a handle with segments are fixed")?.add_arm(),
            _ => self.plain("add_arm: the arms of a handle with segments are fixed")?.add_arm_as(id),
        }
    }

    pub fn retire_arm(&self, arm: u32) -> Result<()> {
        self.plain("retire_arm: the arms of a handle with segments are fixed")?.retire_arm(arm)
    }

    /// The report, with the segments in use and the most that there may be.
    pub fn report(&self) -> Result<(Report, u32, u32)> {
        Ok(match self {
            Plain(bandit) => (bandit.report()?, 0, 0),
            Segmented(pool) => {
                let r = pool.report()?;
                let report = Report {
                    algorithm: Algorithm::Imed,
                    counts: r.counts,
                    phase: r.releases,
                    arms_active: pool.arms(),
                    epsilon_spent: r.epsilon_spent,
                    delta_spent: r.delta_spent,
                    is_private: r.is_private,
                    changes_detected: 0,
                };
                (report, r.segments, r.max_segments)
            }
        })
    }

    pub fn diagnostics(&self) -> Result<Diagnostics> {
        either!(self, bandit => bandit.diagnostics())
    }

    pub fn arms(&self) -> Result<u32> {
        match self {
            Plain(bandit) => bandit.arms(),
            Segmented(pool) => Ok(pool.arms()),
        }
    }

    /// Each arm; over all segments together, where there are segments.
    pub fn for_each_arm(&self, mut each: impl FnMut(u32, ArmReport)) -> Result<()> {
        match self {
            Plain(bandit) => bandit.for_each_arm(each),
            Segmented(pool) => pool.for_each_arm_overall(|arm, cell| each(arm, cell.into())),
        }
    }

    /// Each arm of a segment.
    pub fn for_each_arm_in(&self, segment: u64, mut each: impl FnMut(u32, ArmReport)) -> Result<()> {
        match self {
            Plain(_) => Err(Error::Unsupported("segments: config.max_segments is 0")),
            Segmented(pool) => {
                let known = || Error::request("segment", "must be the key of an earlier request", segment);
                let number = pool.find(segment)?.ok_or_else(known)?;
                pool.for_each_arm(number, |arm, cell| each(arm, cell.into()))
            }
        }
    }

    pub fn compare(&self, i: u32, j: u32, confidence: f64) -> Result<(f64, f64)> {
        self.plain("comparing arms across segments")?.compare(i, j, confidence)
    }

    pub fn best_arm(&self) -> Result<u32> {
        match self {
            Plain(bandit) => bandit.best_arm(),
            Segmented(_) => Err(Error::NotReady),
        }
    }

    pub fn epsilon_spent(&self, delta: f64) -> Result<f64> {
        either!(self, bandit => bandit.epsilon_spent(delta))
    }

    pub fn algorithm(&self) -> Algorithm {
        match self {
            Plain(bandit) => bandit.algorithm(),
            Segmented(_) => Algorithm::Imed,
        }
    }

    pub fn shuffle_params(&self, phase: u32) -> Result<Params> {
        self.plain("a shuffled batch")?.shuffle_params(phase)
    }

    pub fn submit_shuffled(&self, phase: u32, arm: u32, bits: &[u8]) -> Result<()> {
        self.plain("a shuffled batch")?.submit_shuffled(phase, arm, bits)
    }

    /// Fails half-way through an update, as a bug would.
    #[cfg(feature = "test-hooks")]
    pub fn panic_inside(&self) {
        match self {
            Plain(bandit) => bandit.panic_inside(),
            Segmented(_) => panic!("provoked by a test"),
        }
    }

    fn plain(&self, what: &'static str) -> Result<&Bandit> {
        match self {
            Plain(bandit) => Ok(bandit),
            Segmented(_) => Err(Error::Unsupported(what)),
        }
    }
}

fn check_segments(algorithm: Algorithm, max_segments: u32) -> Result<()> {
    match algorithm {
        Algorithm::Imed => Ok(()),
        _ => Err(Error::config("max_segments", "must be 0: only dp-imed has segments", max_segments)),
    }
}
