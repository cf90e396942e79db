//! A bandit's lives, and what it learns from others': snapshots, written, read and merged.

use super::{Bandit, Inner, Learned};
use crate::config::Config;
use crate::engine::Counts;
use crate::error::{Error, Result};
use crate::fleet::Other;
use crate::policy::{Algorithm, Policy, Saved, Shared};
use crate::privacy::PrivacyLoss;
use crate::snapshot::{Kind, Reader, Writer, ensure};
use crate::table;

impl Bandit {
    /// What was released and what is public, as bytes: safe to log and to publish. A copy that goes on
    /// from it by [`restore`](Self::restore) loses the open batches, and every decision in flight expires.
    ///
    /// # Errors
    /// `Unsupported` by policies whose state is not all released; `NoMemory`; `Poisoned` after an internal
    /// failure.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let inner = self.desk.lock()?;
        let mut to = Writer::new(Kind::Bandit);
        to.u32(self.algorithm as u32);
        self.config.save(&mut to);
        to.u8(inner.seeded.into());
        to.u32(self.lives);
        to.u64(inner.learner.fleet.origin);
        to.u64(inner.periods());
        inner.engine.counts().save(&mut to);
        let mut pulls = table::room(inner.learner.pulls.len())?;
        pulls.extend_from_slice(&inner.learner.pulls);
        inner.engine.pending().for_each(|arm| pulls[arm as usize] -= 1);
        to.u32(pulls.len() as u32);
        pulls.into_iter().for_each(|count| to.u64(count));
        inner.learner.fleet.added().iter().for_each(|&id| to.u64(id));
        inner.check_private()?;
        inner.learner.policy.save(&mut to)?;
        to.finish()
    }

    /// Goes on from a [`snapshot`](Self::snapshot), with the configuration that is in it and fresh entropy:
    /// tickets of earlier lives are unknown to it, and where it counts [`users`](Config::users) a new period begins.
    /// The guarantee is one for all lives together, however old the snapshot is; [`report`](Self::report) says at
    /// least what one release costs, because there may have been one since.
    ///
    /// # Errors
    /// `Corrupt`; `NewerVersion`; `Entropy`; `NoMemory`; `InvalidConfig` for what no handle could have.
    pub fn restore(snapshot: &[u8]) -> Result<Bandit> {
        let from = &mut Reader::new(snapshot, Kind::Bandit)?;
        let head = Head::read(from)?;
        let mut bandit = Bandit::new(head.algorithm, &head.config)?;
        bandit.lives = head.lives.checked_add(1).ok_or(Error::Corrupt)?;
        let inner = bandit.desk.get_mut()?;
        head.added.iter().try_for_each(|_| inner.grow())?;
        inner.learner.fleet.restore(head.origin, head.added, &head.config)?;
        inner.learner.pulls.copy_from_slice(&head.pulls);
        inner.check_private()?;
        inner.live_on(head.seeded, head.counts, head.periods);
        inner.learner.policy.load(from)?;
        from.finish()?;
        Ok(bandit)
    }

    /// Learns from what another handle has released: from its [`snapshot`](Self::snapshot), made here or on another
    /// machine. Each handle of a fleet merges the others' newest snapshots every so often; in any order, again and
    /// again, and an older one changes nothing. See [`crate::fleet`] for what is promised.
    ///
    /// Arms are joined by their ids: see [`add_arm_as`](Self::add_arm_as). A snapshot holds what its own handle has
    /// released, not what that has merged; after [`restore`](Self::restore) merge the others' again.
    ///
    /// # Errors
    /// `Unsupported` by policies that do not learn from a set of releases; `Corrupt`;
    /// `NewerVersion`; `InvalidConfig` naming the first field in which the two differ that must not (the policy, and
    /// all but node, capacity, window, clamping, horizon, beta and min_propensity), and for more than 1024 handles;
    /// `NoMemory`; `Poisoned` after an internal failure. Nothing changed.
    pub fn merge(&self, snapshot: &[u8]) -> Result<()> {
        let from = &mut Reader::new(snapshot, Kind::Bandit)?;
        let head = Head::read(from)?;
        if head.algorithm != self.algorithm {
            let rule = format!("must be {}, as in the snapshot", head.algorithm.name());
            return Err(Error::config("policy", &rule, self.algorithm.name()));
        }
        shared(&mut *self.desk.lock()?.learner.policy)?; // others have other fields from here on
        let config = self.config.config()?;
        config.check_shared(&head.config)?;
        let saved = Saved::read(from)?;
        from.finish()?;
        ensure(saved.arms.len() == head.pulls.len())?;
        let other = Other::new(head.origin, head.lives, from.checksum(), &head.added, saved)?;
        let Inner { engine, seeded, learner: Learned { policy, fleet, pulls, .. }, .. } = &mut *self.desk.lock()?;
        if !fleet.expects(&other, &config)? {
            return Ok(());
        }
        let policy = shared(&mut **policy)?;
        policy.expect(fleet.at_work())?; // makes room: nothing is refused from here on
        *seeded |= head.seeded;
        let decisions = engine.counts().decisions;
        let arms = pulls.len() as u32;
        fleet.take(other, arms, decisions, |fleet, arm| policy.join(arm, fleet.released(arm, decisions)));
        policy.expect(fleet.at_work())
    }

    /// The same, where a snapshot of another policy or configuration is not what the caller means. The test
    /// seed is no part of it, and not used. The budget is none either: it is charged as for a fresh handle, with what
    /// all lives together may lose; [`restore`](Self::restore) charges none.
    ///
    /// # Errors
    /// As [`restore`](Self::restore); `InvalidConfig` naming the first field that is not as in the snapshot;
    /// `OverBudget`.
    pub fn restore_as(algorithm: Algorithm, config: &Config, snapshot: &[u8]) -> Result<Bandit> {
        let bandit = Bandit::restore(snapshot)?;
        if bandit.algorithm != algorithm {
            let rule = format!("must be {}, as in the snapshot", bandit.algorithm.name());
            return Err(Error::config("policy", &rule, algorithm.name()));
        }
        config.check_same(&bandit.config.config()?)?;
        config.charge(|config| algorithm.promise(config))?;
        Ok(bandit)
    }
}

/// What a snapshot begins with, whatever the policy.
struct Head {
    algorithm: Algorithm,
    config: Config,
    seeded: bool,
    lives: u32,
    origin: u64,
    /// Of users, the open one too.
    periods: u64,
    counts: Counts,
    /// Of every arm, and the ids of those that were added.
    pulls: Vec<u64>,
    added: Vec<u64>,
}

impl Head {
    fn read(from: &mut Reader) -> Result<Head> {
        let algorithm = Algorithm::from_number(from.u32()?)?;
        let config = Config::load(from)?;
        let (seeded, lives) = (from.bool()?, from.u32()?);
        let (origin, periods) = (from.u64()?, from.u64()?);
        let counts = Counts::load(from)?;
        let arms = from.length(size_of::<u64>())?;
        let added = arms.checked_sub(config.arms as usize).ok_or(Error::Corrupt)?;
        let mut pulls = table::room(arms)?;
        for _ in 0..arms {
            pulls.push(from.count()?);
        }
        let mut ids = table::room(added)?;
        for _ in 0..added {
            ids.push(from.u64()?);
        }
        ensure(ids.iter().all(|&id| id >= config.arms.into()))?;
        Ok(Head { algorithm, config, seeded, lives, origin, periods, counts, pulls, added: ids })
    }
}

/// A policy as one that learns from what others have released.
fn shared(policy: &mut dyn Policy) -> Result<&mut dyn Shared> {
    policy.shared().ok_or(Error::Unsupported("merging: it does not learn from a set of releases"))
}

impl Inner {
    /// A snapshot is made to be published.
    fn check_private(&self) -> Result<()> {
        match self.learner.policy.privacy() {
            PrivacyLoss::Unbounded => Err(Error::Unsupported("a snapshot: it has no privacy, its sums are raw")),
            _ => Ok(()),
        }
    }
}
