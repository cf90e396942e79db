//! Contributing to a leader, and leading: see [`crate::contribution`].

use super::Bandit;
use super::fleet::Sharing;
use super::persist::check_policy;
use super::state::State;
use crate::config::{Config, Scope};
use crate::contribution::{Address, FleetKey, Nonce, Purpose};
use crate::error::{Error, Result};
use crate::ledger::facts::Duty;
use crate::policy::{Algorithm, AnyLearner};
use crate::snapshot::{self, Reader};
use zeroize::Zeroizing;

const SHARING: &str = "fleets with one noise: it does not learn from a set of releases";

impl State {
    pub(super) fn sharing(&mut self) -> Result<&mut Sharing> {
        self.sharing
            .as_deref_mut()
            .ok_or_else(|| Error::unconfigured("fleets with one noise: config.fleet_key is not set"))
    }

    /// The policy as one that learns from a set of releases, or this error.
    pub(super) fn learner(&mut self, unsupported: &'static str) -> Result<&mut dyn AnyLearner> {
        self.policy.learner().ok_or_else(|| Error::unsupported(unsupported))
    }

    pub(super) fn duty(&mut self) -> Duty {
        self.policy.learner().map_or(Duty::Alone, |learner| learner.facts().duty())
    }

    pub(super) fn set_duty(&mut self, duty: Duty) -> Result<()> {
        self.learner(SHARING)?.set_duty(duty);
        self.health.merge(self.engine.counts().decisions);
        Ok(())
    }
}

impl Bandit {
    /// Makes this handle the leader of its fleet, which releases what the others contribute. Returns its generation, a
    /// random number that is not 0, which the others pass to [`contribution`](Self::contribution). A handle that leads
    /// already keeps its generation; a restored handle is none yet. Any number of handles may lead at once: each
    /// releases what is contributed to it, and no reward is released twice. But each adds its own noise.
    ///
    /// # Errors
    /// `Unsupported` without [`fleet_key`](Config::fleet_key); `Poisoned` after an internal failure.
    pub fn lead(&self) -> Result<u64> {
        let state = &mut *self.lock.lock()?;
        if state.duty().led() == 0 {
            let generation = state.sharing()?.new_generation();
            state.set_duty(Duty::Leads(generation))?;
        }
        Ok(state.duty().led())
    }

    /// Ends contributing and leading: the handle releases its own full batches again, as before its first
    /// [`contribution`](Self::contribution) or [`lead`](Self::lead). Its open sums stay, and what was contributed to it
    /// with them. What is addressed to the generation that it led is from now on refused (`Expired`), so combine what has
    /// arrived first. A handle that is alone already does not change.
    ///
    /// # Errors
    /// `Unsupported` without [`fleet_key`](Config::fleet_key); `Poisoned` after an internal failure.
    pub fn alone(&self) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        state.sharing()?;
        if state.duty() == Duty::Alone { Ok(()) } else { state.set_duty(Duty::Alone) }
    }

    /// Sets how many handles share the work of this fleet, this one included, from the next batch on. Each takes its part
    /// of a batch, so with this number a handle need not merge the snapshots of handles that release nothing. It must not
    /// depend on rewards. 0, as at first and after a restore: the handle counts those whose snapshots it merged lately.
    ///
    /// # Errors
    /// `Unsupported` without [`fleet_key`](Config::fleet_key); `Poisoned` after an internal failure.
    pub fn set_handles(&self, handles: u32) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        state.sharing()?;
        state.learner(SHARING)?.facts().stated = handles;
        Ok(())
    }

    /// Takes the sums of all open batches out of this handle for good, and returns them sealed, for the leader of this
    /// generation to [`combine`](Self::combine). Empty if there are none. From the first call on this handle releases
    /// nothing itself, until it [leads](Self::lead). Send each contribution once, to that leader alone. What is lost on
    /// the way is lost. Call this and [`merge`](Self::merge) every few seconds: a handle learns what it contributed from
    /// the leader's snapshots.
    ///
    /// When a contribution is taken and sent must not depend on rewards. Its length depends on public counts alone.
    ///
    /// # Errors
    /// `Unsupported` without [`fleet_key`](Config::fleet_key); `InvalidConfig` for generation 0 and this handle's own;
    /// `NoMemory`; `Poisoned` after an internal failure. Nothing was taken out.
    pub fn contribution(&self, generation: u64) -> Result<Vec<u8>> {
        self.contribution_within(generation, usize::MAX)
    }

    /// Like [`contribution`](Self::contribution), if it takes at most `limit` bytes. Otherwise nothing is taken out, and
    /// the error states the size.
    ///
    /// # Errors
    /// `BufferTooSmall`; as [`contribution`](Self::contribution).
    pub fn contribution_within(&self, generation: u64, limit: usize) -> Result<Vec<u8>> {
        let (key, nonce, content) = {
            let state = &mut *self.lock.lock()?;
            state.sharing()?;
            let duty = state.duty();
            let is_another = generation != 0 && generation != duty.led();
            Error::unless(is_another, "generation", "must be that of another handle", generation)?;
            if duty != Duty::Contributes(generation) {
                state.sharing()?.renew_sender();
                state.set_duty(Duty::Contributes(generation))?;
            }
            let address = state.sharing()?.next_address(generation);
            let seeded = state.seeded;
            let policy = state.learner(SHARING)?;
            if !policy.has_open() {
                return Ok(Vec::new());
            }
            let content = snapshot::fields(
                |length| FleetKey::unsealed(length, limit),
                |to| {
                    address.save(to);
                    to.u32(self.algorithm as u32);
                    self.config.save(to);
                    to.u8(seeded.into());
                    policy.write_open(to)
                },
            );
            // Nothing fails from here on: what is taken out is sealed.
            let content = Zeroizing::new(content?);
            policy.clear_open();
            let sharing = state.sharing()?;
            sharing.sequence = address.sequence;
            (sharing.key.clone(), Nonce::new(&mut sharing.random), content)
        };
        key.seal(Purpose::Contribution, generation, nonce, content)
    }

    /// Adds a [`contribution`](Self::contribution) to the open batches of this handle, which must lead the generation
    /// that it is addressed to. Batches that are full are released. Sums of arms that this handle does not have, of
    /// segments beyond `max_segments`, and of features that were collected for another release are lost, and counted in
    /// [`Report::contributions_lost`](crate::Report). So are sums of another [clip](crate::Config::learn_clip).
    ///
    /// # Errors
    /// `Corrupt` for anything that was not sealed by the fleet's key; `NewerVersion`; `Expired` if it is addressed to
    /// another generation; `Duplicate` if this contribution of its sender, or a later one, was combined; `InvalidConfig`
    /// naming the first field in which the two handles differ that must not, as in [`merge`](Self::merge); `Full`
    /// beyond 2^20 contributors; `Unsupported` without [`fleet_key`](Config::fleet_key); `NoMemory`; `Poisoned` after an
    /// internal failure. Nothing has changed.
    pub fn combine(&self, contribution: &[u8]) -> Result<()> {
        let key = self.lock.lock()?.sharing()?.key.clone();
        let (generation, version, content) = key.open(Purpose::Contribution, contribution)?;
        let from = &mut Reader::of_fields(&content).of_version(version);
        let address = Address::read(generation, from)?;
        let algorithm = Algorithm::from_number(from.u32()?).map_err(|_| Error::Corrupt)?;
        let (theirs, seeded) = (Config::load(from)?, from.bool()?);
        let ours = self.config.config()?;
        check_policy(self.algorithm, algorithm)?;
        ours.check_same(Scope::Fleet, &theirs)?;
        let state = &mut *self.lock.lock()?;
        let led = state.duty().led();
        state.sharing()?.check(&address, led)?;
        let complete = state.learner(SHARING)?.combine(from)?;
        state.seeded |= seeded;
        state.sharing()?.accept(&address, complete);
        Ok(())
    }

    /// Seals a message for the other handles of the fleet, such as a click that came to the wrong node. Whoever carries
    /// it learns that it is sent and its length, so give all messages one length. Nobody without the key can alter it. A
    /// message can be repeated: use it for what may come twice, as a reward may.
    ///
    /// # Errors
    /// `Unsupported` without [`fleet_key`](Config::fleet_key); `NoMemory`; `Poisoned` after an internal failure.
    pub fn seal(&self, message: &[u8]) -> Result<Vec<u8>> {
        let state = &mut *self.lock.lock()?;
        let sharing = state.sharing()?;
        sharing.key.message(message, &mut sharing.random)
    }

    /// Opens a [sealed](Self::seal) message.
    ///
    /// # Errors
    /// `Corrupt` for anything that was not sealed by the fleet's key as a message; otherwise as [`seal`](Self::seal).
    pub fn open(&self, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let key = self.lock.lock()?.sharing()?.key.clone();
        key.open_message(sealed)
    }
}
