//! What may be read of a handle: its report, its arms, and diagnostics for the operator. The table is `tables/report.rs`.

use super::fleet::Sharing;
use super::health::Warnings;
use super::state::{State, catalog};
use super::{Bandit, within};
use crate::config::{Clock, Config};
use crate::engine::{Counts, Refusals};
use crate::error::{Error, Result};
use crate::ledger::facts::Duty;
use crate::policy::{Algorithm, ArmState, PolicyCounts};
use crate::privacy::PrivacyLoss;
use crate::reward::RewardRange;

/// What a [`Report`] is made of.
struct Reading<'a> {
    algorithm: Algorithm,
    config: &'a Config,
    state: &'a State,
    policy: PolicyCounts,
    sharing: Option<&'a Sharing>,
    duty: Duty,
    spent: (f64, f64),
    warnings: Warnings,
}

/// What an [`ArmReport`] is made of.
struct ArmReading<'a> {
    range: &'a RewardRange,
    arm: ArmState,
    pulls: u64,
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
        $report:ident from $reading:ident {$(
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

include!("../tables/report.rs");

impl Bandit {
    /// Returns everything that may be published.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn report(&self) -> Result<Report> {
        let state = &mut *self.lock.lock_held()?;
        let config = &self.config.config()?;
        let duty = state.duty();
        let releases = state.policy.learner().filter(|_| !duty.contributes()).map(|learner| learner.facts().releases);
        let pending = (config.clock == Clock::Caller).then(|| state.engine.reach());
        let warnings = state.health.warnings(state.engine.counts(), pending, duty.contributes(), releases);
        let (loss, contributions) = state.loss(config);
        Ok(Report::of(&Reading {
            algorithm: self.algorithm,
            config,
            state,
            policy: state.policy.counts(),
            sharing: state.sharing.as_deref(),
            duty,
            spent: loss.spent(config.delta, contributions),
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
