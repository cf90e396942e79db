//! What may be read of a handle: its report, its arms, and diagnostics for the operator. The table is `tables/report.rs`.

use super::Bandit;
use super::fleet::Sharing;
use super::health::Warnings;
use super::state::{State, catalog};
use crate::config::{Clock, Config};
use crate::engine::{Counts, Refusals};
use crate::error::{Error, Result, within};
use crate::ledger::facts::Duty;
use crate::policy::verdict::{Running, Test, TestState};
use crate::policy::{Algorithm, ArmState, PolicyCounts};
use crate::privacy::PrivacyLoss;
use crate::reward::RewardRange;
use std::fmt;

/// What a [`Report`] is made of.
struct Reading<'a> {
    algorithm: Algorithm,
    config: &'a Config,
    state: &'a State,
    policy: PolicyCounts,
    sharing: Option<&'a Sharing>,
    duty: Duty,
    spent: (f64, f64),
    /// The largest epsilon that the handle may ever spend.
    limit: f64,
    warnings: Warnings,
}

/// What an [`ArmReport`] is made of.
struct ArmReading<'a> {
    range: &'a RewardRange,
    arm: ArmState,
    pulls: u64,
}

/// What a [`Verdict`] is made of.
struct Judged<'a> {
    range: &'a RewardRange,
    test: Test,
    more: f64,
    arms: u32,
    winners: u32,
    beta: f64,
}

/// What [`Diagnostics`] are made of.
struct Refused {
    refusals: Refusals,
    policy: PolicyCounts,
    warnings: Warnings,
}

/// Declares the structs of the file `tables/report.rs`, which is the table, and fills them.
macro_rules! reports {
    ($(
        $(#[$about:meta])*
        $report:ident as $c:ident from $reading:ident {$(
            $(#[$doc:meta])*
            $name:ident: $type:ty = $source:expr, $since:literal
                $(, [$in_c:ident])? $(, $kind:ident $metric:literal $help:literal)?
            $({ $($parts:tt)* })?;
        )*}
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $report {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl $report {
            fn of(reading: &$reading) -> $report {
                $(let $name: fn(&$reading) -> $type = $source;)*
                $report { $($name: $name(reading),)* }
            }
        }
    )*};
}

/// What is left of a limit.
fn left(limit: f64, spent: f64) -> f64 {
    if spent < limit { limit - spent } else { 0.0 }
}

include!("../tables/report.rs");

impl Bandit {
    /// Returns everything that may be published.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn report(&self) -> Result<Report> {
        let config = &self.config.config()?;
        let lifetime = self.algorithm.lifetime_loss(config)?;
        let state = &mut *self.lock.lock_held()?;
        let duty = state.duty();
        let releases = state.policy.learner().filter(|_| !duty.contributes()).map(|learner| learner.facts().releases);
        let pending = (config.clock == Clock::Caller).then(|| state.engine.reach());
        let warnings = state.health.warnings(state.engine.counts(), pending, duty.contributes(), releases);
        let (loss, contributions) = state.loss(config);
        let is_limited = config.expected_users == 0 || config.budget_periods > 0;
        let limit = if is_limited { state.loss_of_unit(lifetime, config) } else { PrivacyLoss::Unbounded };
        Ok(Report::of(&Reading {
            algorithm: self.algorithm,
            config,
            state,
            policy: state.policy.counts(),
            sharing: state.sharing.as_deref(),
            duty,
            spent: loss.spent(config.delta, contributions),
            limit: limit.stated(config.delta).0,
            warnings,
        }))
    }

    /// Returns counts of refused calls. They are for the operator only and NOT private: a duplicate reveals a click.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn diagnostics(&self) -> Result<Diagnostics> {
        let state = &*self.lock.lock()?;
        Ok(Diagnostics::of(&Refused {
            refusals: state.engine.refusals(),
            policy: state.policy.counts(),
            warnings: state.health.of_rewards(state.engine.counts()),
        }))
    }

    /// Reads what the test of the arms says, in released values. Takes some milliseconds while it goes on, outside the
    /// handle's lock.
    ///
    /// # Errors
    /// `Unsupported` by policies that do not test arms; `Poisoned` after an internal failure.
    pub fn verdict(&self) -> Result<Verdict> {
        let config = &self.config.config()?;
        let (mut test, arms, running) = {
            let state = &mut *self.lock.lock()?;
            let counts = state.policy.counts();
            let (test, claims) = counts.test.ok_or_else(|| Error::unsupported("a verdict: it tests no arms"))?;
            let read = || Running::of(&*state.policy, state.pulls.len() as u32, &test, claims);
            let running = (!test.has_ended()).then(read);
            let live = catalog(&mut *state.policy).arms.map_or(0, |roster| roster.live().len());
            (test, live as u32, running)
        };
        let mut more = 0.0;
        if let Some(running) = running {
            (test.low, test.high) = running.interval();
            let most = match config.planned_end {
                0 => f64::INFINITY,
                end => end.saturating_sub(test.rewards) as f64,
            };
            more = running.more();
            more = if more > most { most } else { more }; // NaN stays
        }
        let beta = if config.beta > 0.0 { config.beta } else { 0.05 };
        let winners = config.winners.max(1).min(arms);
        Ok(Verdict::of(&Judged { range: &self.range, test, more, arms, winners, beta }))
    }

    /// Calls `each` with what may be published of each arm, for arms `0..arms()` in order.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn for_each_arm(&self, each: impl FnMut(u32, ArmReport)) -> Result<()> {
        self.read_arms(None, usize::MAX, each).map(drop)
    }

    /// Like [`for_each_arm`](Self::for_each_arm), for one segment. Its mean is the model's, from the releases of all
    /// segments.
    ///
    /// # Errors
    /// `InvalidRequest` if no request had this key; `Unsupported` without segments; `Poisoned` after an internal
    /// failure.
    pub fn for_each_arm_in(&self, segment: u64, each: impl FnMut(u32, ArmReport)) -> Result<()> {
        self.read_arms(Some(segment), usize::MAX, each).map(drop)
    }

    /// Like [`for_each_arm`](Self::for_each_arm) or [`for_each_arm_in`](Self::for_each_arm_in), if there are at most `limit`
    /// arms. Otherwise `each` is not called, and the error states the number. Returns it.
    ///
    /// # Errors
    /// `BufferTooSmall`; as these.
    pub fn read_arms(&self, segment: Option<u64>, limit: usize, mut each: impl FnMut(u32, ArmReport)) -> Result<usize> {
        let state = &mut *self.lock.lock()?;
        if segment.is_some() && catalog(&mut *state.policy).segments.is_none() {
            return Err(Error::unconfigured("segments: config.max_segments is 0"));
        }
        let mut read = |arm: u32| match (segment, state.policy.learner()) {
            (Some(segment), Some(learner)) => learner.arm_in_segment(segment, arm),
            _ => Ok((state.policy.arm(arm), state.pulls[arm as usize])),
        };
        read(0)?; // whether there is such a segment
        let arms = within(limit, state.pulls.len())?;
        for index in 0..arms as u32 {
            let (arm, pulls) = read(index)?;
            each(index, ArmReport::of(&ArmReading { range: &self.range, arm, pulls }));
        }
        Ok(arms)
    }
}

/// The verdict in words.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.mismatch {
            f.write_str(
                "The arms do not have their shares of the decisions that the test learns from: find out why. ",
            )?;
        }
        let Verdict { leader, other, arms, winners, rewards, low, high, .. } = self;
        let leads = if *winners == 1 { "leads".to_owned() } else { format!("is the last of the {winners} leaders") };
        match self.state {
            TestState::Running => write!(f, "The test goes on after {rewards} rewards. Arm {leader} {leads}")?,
            TestState::Won if *winners == 1 => {
                write!(f, "Arm {leader} is the best of {arms}, after {rewards} rewards")?
            }
            TestState::Won => write!(
                f,
                "The {winners} active arms are the best of {arms}, after {rewards} rewards. Arm {leader} is the last of them"
            )?,
            TestState::Tied if *winners == 1 => {
                write!(f, "Arm {leader} is good enough, after {rewards} rewards: no arm is better by the tolerance")?;
            }
            TestState::Tied => write!(
                f,
                "The {winners} active arms are good enough, after {rewards} rewards: no other arm is better than one of \
                 them by the tolerance. Arm {leader} is the last of them"
            )?,
            TestState::Undecided => write!(f, "Nothing is decided after {rewards} rewards. Arm {leader} {leads}")?,
        }
        let percent = (1e8 * self.confidence).round() / 1e6;
        if low.is_nan() {
            return f.write_str(".");
        }
        let digits = (2.0 - (high - low).log10().floor()).clamp(0.0, 12.0) as usize;
        write!(f, ". Its mean minus that of arm {other} is {low:.digits$} to {high:.digits$} ({percent}%).")?;
        match self.more {
            more if more > 0.0 && more.is_finite() => write!(f, " About {more:.0} more rewards end it."),
            more if more.is_infinite() => f.write_str(" At these means it would not end."),
            _ => Ok(()),
        }
    }
}
