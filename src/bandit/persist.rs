//! Snapshots of a handle: writing, restoring and merging.

use super::Bandit;
use super::state::{State, catalog};
use crate::config::{Config, Scope};
use crate::engine::Counts;
use crate::error::{Error, Result};
use crate::ledger::peers::PeerId;
use crate::moving::Archive;
use crate::policy::{Algorithm, Pull};
use crate::privacy::PrivacyLoss;
use crate::snapshot::{self, Reader, Writer, ensure};

impl Bandit {
    /// Returns the releases and the public state as bytes, which are safe to log and to publish. A handle that
    /// continues from them by [`restore`](Self::restore) loses the open batches, and every pending decision expires.
    ///
    /// # Errors
    /// `Unsupported` by policies whose state is not all released; `NoMemory`; `Poisoned` after an internal
    /// failure.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        self.snapshot_within(usize::MAX)
    }

    /// Like [`snapshot`](Self::snapshot), if it takes at most `limit` bytes. Otherwise no snapshot is taken, and the
    /// error states its size.
    ///
    /// # Errors
    /// `BufferTooSmall`; as [`snapshot`](Self::snapshot).
    pub fn snapshot_within(&self, limit: usize) -> Result<Vec<u8>> {
        let unsealed = {
            let state = &mut *self.lock.lock()?;
            snapshot::write(limit, |to| self.save(state, to))?
        };
        Ok(unsealed.seal())
    }

    /// Says that this [`snapshot`](Self::snapshot) of this handle is stored: from now on, whatever happens, a restart finds
    /// it or a later one. With a file that is so after `fsync`, `rename`, and `fsync` of the directory; with a database
    /// after its durable confirmation.
    ///
    /// With [`expected_users`](Config::expected_users) a handle learns only in periods that a stored snapshot counts, and a
    /// restored one decides nothing before. A new handle needs no snapshot in its first period. Without `expected_users`
    /// this changes nothing. If nothing is stored at all, so that a restart begins another handle with a guarantee of its
    /// own, call it with a snapshot that you drop.
    ///
    /// An earlier snapshot of this handle is accepted too, and counts for the periods that it contains.
    ///
    /// # Errors
    /// `InvalidConfig` for a snapshot of another handle, also of the one that this handle was restored from or resumed
    /// after; `Corrupt`; `NewerVersion`; `NoMemory`; `Poisoned` after an internal failure. Nothing changed.
    pub fn stored(&self, snapshot: &[u8]) -> Result<()> {
        let head = SnapshotHead::read(&mut Reader::new(snapshot)?)?;
        let state = &mut *self.lock.lock()?;
        let begun = state.periods.begun;
        let is_ours = (head.origin, head.generation) == (state.origin, self.generation) && head.periods <= begun;
        if !is_ours {
            let rule = "must be of this very handle: take it after the handle was made, restored or resumed";
            return Err(Error::refused("snapshot", format_args!("{rule}")));
        }
        state.periods.store(head.periods);
        Ok(())
    }

    /// As a node's bandit, which decides only once its first snapshot is in the store: it learns from people only in
    /// periods that a [`stored`](Self::stored) snapshot counts, also in its first one.
    pub(crate) fn awaits_store(mut self) -> Result<Bandit> {
        self.lock.get_mut()?.periods.await_store();
        Ok(self)
    }

    /// The origin of a snapshot of this node; and how many periods, decisions and generations it counts.
    pub(crate) fn counts_of(snapshot: &[u8], node: u64) -> Result<(u64, [u64; 3])> {
        let head = SnapshotHead::read(&mut Reader::new(snapshot)?)?;
        if head.config.node != node {
            let found = head.config.node;
            return Err(Error::refused("snapshot", format_args!("must be of node {node}, got one of node {found}")));
        }
        Ok((head.origin, [head.periods.into(), head.counts.decisions, head.generation.into()]))
    }

    fn save(&self, state: &mut State, to: &mut Writer) -> Result<()> {
        state.check_private()?;
        self.save_head(state, to);
        let State { policy, engine, .. } = state;
        let with = &mut Archive::Out(to);
        match policy.learner() {
            Some(learner) => learner.persist_public(with, &mut engine.pending().map(Pull::of)),
            None => policy.snapshot(with),
        }
    }

    /// Writes what [`SnapshotHead::read`] reads.
    pub(super) fn save_head(&self, state: &mut State, to: &mut Writer) {
        to.u32(self.algorithm as u32);
        self.config.save(to);
        to.u8(state.seeded.into());
        to.u32(self.generation);
        to.u64(state.origin);
        to.u64(state.periods.begun.into());
        state.engine.counts().save(to);
        to.u64(state.engine.caller_time().0);
        let State { engine, policy, pulls, is_private, .. } = state;
        to.u32(pulls.len() as u32);
        let counts = to.counts(pulls.iter().copied());
        let learner = policy.learner();
        for pull in engine.pending().map(Pull::of).filter(|_| !*is_private) {
            to.uncount(counts, learner.as_ref().map_or(pull.arm(), |learner| learner.arm_of(pull)) as usize);
        }
        let added = catalog(&mut **policy).arms.map_or(&[][..], |roster| &roster.added);
        to.u64s(added.iter().copied());
    }

    /// Creates a handle that continues from a [`snapshot`](Self::snapshot), with the configuration in it and fresh
    /// entropy. Tickets of earlier generations are unknown to it. One guarantee covers all generations together,
    /// however old the snapshot is. [`report`](Self::report) states at least the loss of one release, because there may
    /// have been one since the snapshot.
    ///
    /// With [`expected_users`](Config::expected_users) a new period begins, and the handle decides nothing (`NotStored`)
    /// until a snapshot of it is [`stored`](Self::stored) where the next generation reads it: so no period is lost, however
    /// often the program is killed. Always restore the newest snapshot; an older one does not count all periods.
    ///
    /// # Errors
    /// `Corrupt`; `NewerVersion`; `Entropy`; `NoMemory`; `InvalidConfig` for an impossible configuration; `OverBudget`
    /// if all [`budget_periods`](Config::budget_periods) have begun.
    pub fn restore(snapshot: &[u8]) -> Result<Bandit> {
        Self::restored(snapshot, None)
    }

    /// Like [`restore`](Self::restore), with another configuration for the fields on the right.
    ///
    // begin generated restart
    /// | the same as in the snapshot | taken from `config` |
    /// |---|---|
    /// | policy, `arms`, `epsilon`, `delta`, `reward_min`, `reward_max`, `reward_bits`, `parts`, `part_weights`, `learn_clip`, `contributions_per_user`, `winners`, `max_slots`, `max_clicks`, `features`, `model_per_arm`, `private_features`, `codebook_len`, `control_share`, `sticky`, `batch`, `base`, `shuffle_printed`, whether there are segments; of VB-SDP-AE `horizon`, which plans its batches; of policies that decide for an arm `beta` | `beta`, `horizon`, `clamp_rewards`, `pending_capacity`, `table_capacity`, `reward_window`, `node`, `forget_after`, `exploration`, `expected_users`, `budget_periods`, `max_segments` if its segments fit, `tolerance`, `planned_end`, `clock`, `interval_exponent`, `rigorous_index` |
    // end generated restart
    ///
    /// Releases made without `forget_after` have age 0 when it is set. If the `clock` changes, all releases keep their
    /// age as a part of `forget_after`, and the time begins at 0. If the clock is the caller's in both generations, the
    /// time continues, in the same unit. If only one of two generations counts `expected_users`, the other one counts
    /// as a period.
    ///
    /// The test seed is not used. The budget is charged as for a new handle, with the loss of all generations together.
    /// [`restore`](Self::restore) charges nothing: it is for a new process, whose budget does not contain what the last
    /// one charged.
    ///
    /// # Errors
    /// As [`restore`](Self::restore); `InvalidConfig` naming the first field that must be as in the snapshot and is
    /// not; `OverBudget`, also if an earlier generation had a test seed.
    pub fn restore_as(algorithm: Algorithm, config: &Config, snapshot: &[u8]) -> Result<Bandit> {
        Self::restored(snapshot, Some((algorithm, config)))
    }

    fn restored(snapshot: &[u8], meant: Option<(Algorithm, &Config)>) -> Result<Bandit> {
        let from = &mut Reader::new(snapshot)?;
        let head = SnapshotHead::read(from)?;
        let mut config = head.config.clone();
        if let Some((algorithm, meant)) = meant {
            check_policy(algorithm, head.algorithm)?;
            meant.check_same(Scope::Releases, &head.config)?;
            algorithm.check_plan(meant, &head.config)?;
            config = Config { test_seed: None, ..meant.clone() };
        }
        let mut bandit = Bandit::made(head.algorithm, &config)?;
        let state = bandit.take_over(&head)?;
        state.pulls.copy_from_slice(&head.pulls);
        state.check_private()?;
        state.continue_from(head.seeded, head.counts, head.now, head.periods, head.config.expected_users > 0)?;
        let with = &mut Archive::In(from);
        let read = match state.policy.learner() {
            Some(learner) => learner.persist_public(with, &mut std::iter::empty()),
            None => state.policy.snapshot(with),
        };
        read.map_err(|error| match (error, meant) {
            // A new configuration can be invalid for the policy; the one in the snapshot was valid.
            (Error::InvalidConfig { .. }, None) => Error::Corrupt,
            (error, _) => error,
        })?;
        from.finish()?;
        bandit.charge(&config, false)?;
        Ok(bandit)
    }

    /// Becomes the next generation of an earlier handle, with the arms that were added to it.
    pub(super) fn take_over(&mut self, earlier: &SnapshotHead) -> Result<&mut State> {
        self.generation = earlier.generation.checked_add(1).ok_or(Error::Corrupt)?;
        let state = self.lock.get_mut()?;
        state.origin = earlier.origin;
        for &id in &earlier.added {
            ensure(state.arms()?.find(id).is_none())?;
            state.add_arm(id)?;
        }
        Ok(state)
    }

    /// Merges the releases of another handle from its [`snapshot`](Self::snapshot), made here or on another machine.
    /// Each handle of a fleet merges the newest snapshots of all others every few seconds, in any order. A repeated or
    /// older snapshot changes nothing. [`crate::ledger::peers`] states the guarantee.
    ///
    /// Arms are joined by their ids: see [`add_arm_as`](Self::add_arm_as). A snapshot contains what its own handle has
    /// released, not what that handle has merged. After [`restore`](Self::restore), merge the others' snapshots again.
    ///
    /// ```
    /// # use dpb::{Algorithm, Bandit, Config};
    /// # fn main() -> Result<(), dpb::Error> {
    /// // In reality in two processes, which exchange the bytes by file or network.
    /// let [first, second] = [1, 2].map(|node| {
    ///     Bandit::new(Algorithm::RECOMMENDED, &Config { node, ..Config::new(10, 1.0) })
    /// });
    /// let (first, second) = (first?, second?);
    /// let ad = first.select()?;
    /// first.update(ad.ticket, 1.0)?; // to the handle that decided
    /// second.merge(&first.snapshot()?)?;
    /// first.merge(&second.snapshot()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Unsupported` by policies that do not learn from a set of releases; `Corrupt`;
    /// `NewerVersion`; `InvalidConfig` naming the first field in which the two differ that must not (what
    /// [`restore_as`](Self::restore_as) refuses, and `forget_after`); `Full` beyond 1024 other handles;
    /// `NoMemory`; `Poisoned` after an internal failure. Nothing changed.
    pub fn merge(&self, snapshot: &[u8]) -> Result<()> {
        let from = &mut Reader::new(snapshot)?;
        let head = SnapshotHead::read(from)?;
        check_policy(self.algorithm, head.algorithm)?;
        let read = self.lock.lock()?.learner(MERGING)?.peer_reader();
        let config = self.config.config()?;
        config.check_same(Scope::Fleet, &head.config)?;
        let peer = read(&config, &head.id(), from)?;
        from.finish()?;
        let state = &mut *self.lock.lock()?;
        if head.origin == state.origin {
            return Ok(());
        }
        if state.learner(MERGING)?.merge(peer)? {
            state.seeded |= head.seeded;
        }
        state.health.merge(state.engine.counts().decisions);
        Ok(())
    }
}

/// The start of a snapshot, which is the same for all policies.
pub(super) struct SnapshotHead {
    pub algorithm: Algorithm,
    pub config: Config,
    pub seeded: bool,
    pub generation: u32,
    pub origin: u64,
    /// Number of periods, including the open one: see [`Periods`](crate::users::Periods).
    periods: u32,
    counts: Counts,
    /// Time on the caller's clock.
    now: u64,
    /// Pulls of every arm, and the ids of the added arms.
    pulls: Vec<u64>,
    pub added: Vec<u64>,
}

impl SnapshotHead {
    pub fn read(from: &mut Reader) -> Result<SnapshotHead> {
        let algorithm = Algorithm::from_number(from.u32()?).map_err(|_| Error::Corrupt)?;
        let config = Config::load(from)?;
        let (seeded, generation) = (from.bool()?, from.u32()?);
        let (origin, periods) = (from.u64()?, u32::try_from(from.u64()?).map_err(|_| Error::Corrupt)?);
        let (counts, now) = (Counts::load(from)?, from.u64()?);
        let arms = from.length(size_of::<u64>())?;
        let added = arms.checked_sub(config.arms as usize).ok_or(Error::Corrupt)?;
        let (pulls, added) = (from.list(arms, Reader::count)?, from.list(added, Reader::u64)?);
        ensure(added.iter().all(|&id| id >= config.arms.into()))?;
        Ok(SnapshotHead { algorithm, config, seeded, generation, origin, periods, counts, now, pulls, added })
    }

    fn id(&self) -> PeerId<'_> {
        PeerId { origin: self.origin, generation: self.generation, added: &self.added }
    }
}

pub(super) fn check_policy(ours: Algorithm, theirs: Algorithm) -> Result<()> {
    if ours == theirs {
        return Ok(());
    }
    Err(Error::refused("policy", format_args!("must be {}, as in the snapshot, got {}", theirs.name(), ours.name())))
}

const MERGING: &str = "merging: it does not learn from a set of releases";

impl State {
    /// Refuses a snapshot of a policy that is not private, because snapshots may be published.
    fn check_private(&self) -> Result<()> {
        match self.policy.counts().loss {
            PrivacyLoss::Unbounded => Err(Error::unsupported("a snapshot: it is not private, and its sums are raw")),
            _ => Ok(()),
        }
    }

    /// Whether its policy has snapshots.
    pub fn has_snapshots(&mut self) -> bool {
        let written = |state: &mut State| state.policy.snapshot(&mut Archive::Out(&mut Writer::Counting(0)));
        self.check_private().and_then(|()| written(self)).is_ok()
    }
}
