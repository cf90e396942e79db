//! Ending a handle for another one that continues with all of its state: see [`crate::moving`].

use super::Bandit;
use super::persist::{SnapshotHead, check_policy};
use super::state::State;
use crate::config::{Config, Scope};
use crate::contribution::{FleetKey, Nonce, Purpose};
use crate::error::{Error, Result};
use crate::ledger::facts::Duty;
use crate::moving::{Archive, Persist};
use crate::os::OfProcess;
use crate::policy::Algorithm;
use crate::random::Seed;
use crate::snapshot::{self, Reader};
use std::time::{SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// What a handle may do.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Lifecycle {
    /// Everything.
    Active,
    /// Nothing, until it is known that no other handle continues from its state.
    Held,
    /// Nothing: another handle continues with its state.
    Ended,
}

impl Lifecycle {
    #[cold]
    pub fn refusal(self) -> Error {
        if self == Lifecycle::Held { Error::NotReady } else { Error::Halted }
    }
}

/// A number that one state may be addressed to, while the handle lives that drew it.
pub(super) struct Receiver(u64);

/// Calls this with the numbers that no state has been addressed to so far.
fn with_open<T>(body: impl FnOnce(&mut Vec<u64>) -> T) -> T {
    static OPEN: OfProcess<Vec<u64>> = OfProcess::new(Vec::new());
    OPEN.with(body)
}

impl Receiver {
    /// Maximum number of a handle.
    const MOST: usize = 1 << 10;

    fn draw() -> Result<Receiver> {
        let number = Seed::new(None)?.stream().next_u64().max(1);
        with_open(|open| {
            open.try_reserve(1).map_err(|_| Error::NoMemory)?;
            open.push(number);
            Ok(Receiver(number))
        })
    }

    /// Whether a state may be addressed to this number.
    fn is_open(number: u64) -> bool {
        with_open(|open| open.contains(&number))
    }

    /// The same. From now on none may.
    fn forget(number: u64) -> bool {
        with_open(|open| {
            let place = open.iter().position(|&other| other == number);
            let was_open = place.map(|place| open.swap_remove(place)).is_some();
            if open.is_empty() {
                *open = Vec::new(); // a library that is unloaded leaves no memory
            }
            was_open
        })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        Receiver::forget(self.0);
    }
}

/// Unix time, in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// How far ahead of this machine's clock that of the machine which suspended may be, in seconds.
const STATE_AHEAD: u64 = 60;

/// Checks the age of a state at rest. A state from the future would last longer than others, and with the clock set
/// back it would have many.
fn check_age(suspended: u64, now: u64) -> Result<()> {
    let refused = |age, what, most| {
        let why =
            format!("the state was suspended {age} seconds {what}, by the clock of the system: the most is {most}");
        Err(Error::ExpiredState(why.into()))
    };
    match (now.saturating_sub(suspended), suspended.saturating_sub(now)) {
        (age, _) if age > Bandit::STATE_LIFETIME => refused(age, "ago", Bandit::STATE_LIFETIME),
        (_, ahead) if ahead > STATE_AHEAD => refused(ahead, "in the future", STATE_AHEAD),
        _ => Ok(()),
    }
}

#[cold]
fn no_receiver() -> Error {
    Error::ExpiredState("the state's receiver is not of this process, or has had its state".into())
}

impl Bandit {
    /// For how long a state at rest can be resumed, in seconds.
    pub const STATE_LIFETIME: u64 = 3600;

    /// Ends this handle, and returns its whole state, sealed by [`fleet_key`](Config::fleet_key), for one other handle to
    /// [`resume`](Self::resume): open batches, pending decisions with their rewards, counters of users. Nothing is lost,
    /// and tickets stay valid. Every later call on this handle is `Halted`. Free it, which wipes what it knew.
    ///
    /// `receiver` is the number of a [`receiver`](Self::receiver) in the process that is to resume: that process accepts
    /// the state once. Or it is 0 for a state *at rest*, for example in a file. Then it is up to you that one handle at
    /// most continues from it: see [`claimed`](Self::claimed). **If two handles continue from one state, what was open in
    /// it loses its epsilon twice.** A snapshot has no such limit.
    ///
    /// When a handle is suspended must not depend on rewards. The length of the state depends on public counts alone.
    ///
    /// # Errors
    /// `Unsupported` without [`fleet_key`](Config::fleet_key); `NoMemory`; `Poisoned` after an internal failure. The
    /// handle has not ended.
    pub fn suspend(&self, receiver: u64) -> Result<Vec<u8>> {
        self.suspend_within(receiver, usize::MAX)
    }

    /// Like [`suspend`](Self::suspend), if the state takes at most `limit` bytes. Otherwise the handle does not end, and
    /// the error states the size.
    ///
    /// # Errors
    /// `BufferTooSmall`; as [`suspend`](Self::suspend).
    pub fn suspend_within(&self, receiver: u64, limit: usize) -> Result<Vec<u8>> {
        let (key, nonce, content) = {
            let state = &mut *self.lock.lock()?;
            state.sharing()?;
            let duty = state.duty();
            let content = snapshot::fields(
                |length| FleetKey::unsealed(length, limit),
                |to| {
                    self.save_head(state, to);
                    to.u64(now());
                    to.u8((duty.led() > 0).into());
                    to.u64(if duty.contributes() { duty.generation() } else { 0 });
                    state.persist(&mut Archive::Out(to))?;
                    Ok(())
                },
            );
            let content = Zeroizing::new(content?);
            state.lifecycle = Lifecycle::Ended;
            let sharing = state.sharing()?;
            (sharing.key.clone(), Nonce::new(&mut sharing.random), content)
        };
        key.seal(Purpose::State, receiver, nonce, content)
    }

    /// Continues from what another handle [suspended](Self::suspend), as if that handle had never ended. A state at rest
    /// is [held](Self::claimed) at first; one that was addressed to a [`receiver`](Self::receiver) is not.
    ///
    /// `config` needs the key, and may differ from the suspended handle's in what a snapshot allows
    /// ([`restore_as`](Self::restore_as)), except for what tickets and windows depend on: `node`, `pending_capacity`,
    /// `reward_window`, `clock`, `expected_users`, `max_segments`. With a policy that does not learn from a set of
    /// releases it must not differ. The handle has real entropy, whatever `test_seed` is. What was merged before is merged
    /// again from the others' newest snapshots. A contributor goes on contributing, and a leader is alone until it leads.
    ///
    /// # Errors
    /// `Corrupt` for anything that was not sealed by the key as a state; `NewerVersion`; `ExpiredState` for a receiver that
    /// is not of this process or has had its state, and for a state at rest that is older than
    /// [`STATE_LIFETIME`](Self::STATE_LIFETIME) or from more than a minute in the future; `InvalidConfig`; `Unsupported`
    /// without a key; `OverBudget`: the budget is charged what exceeds its charge for the suspended handle; `Entropy`;
    /// `NoMemory`.
    pub fn resume(algorithm: Option<Algorithm>, config: &Config, state: &[u8]) -> Result<Bandit> {
        let no_key = || Error::unconfigured("a state: config.fleet_key is not set");
        let key = config.fleet_key.as_ref().ok_or_else(no_key)?;
        let (receiver, version, content) = key.open(Purpose::State, state)?;
        let from = &mut Reader::of_fields(&content).of_version(version);
        let head = SnapshotHead::read(from)?;
        check_policy(algorithm.unwrap_or(head.algorithm), head.algorithm)?;
        let suspended = from.u64()?;
        if receiver == 0 {
            check_age(suspended, now())?;
        } else if !Receiver::is_open(receiver) {
            return Err(no_receiver());
        }
        let (led, contributes) = (from.bool()?, from.u64()?);
        let config = Config { test_seed: None, ..config.clone() };
        let mut bandit = Bandit::made(head.algorithm, &config)?;
        let may_differ = bandit.lock.get_mut()?.policy.learner().is_some();
        config.check_same(if may_differ { Scope::Moved } else { Scope::Handle }, &head.config)?;
        head.algorithm.check_plan(&config, &head.config)?;
        let state = bandit.take_over(&head)?;
        state.persist(&mut Archive::In(from))?;
        from.finish()?;
        state.periods.check()?;
        if led || contributes > 0 {
            // It contributes as a new sender. A leader is alone.
            state.sharing()?.renew_sender();
            state.set_duty(if contributes > 0 { Duty::Contributes(contributes) } else { Duty::Alone })?;
        }
        bandit.charge(&config, true)?;
        if receiver == 0 {
            bandit.lock.get_mut()?.lifecycle = Lifecycle::Held;
        } else if !Receiver::forget(receiver) {
            return Err(no_receiver());
        }
        Ok(bandit)
    }

    /// Ends the hold of a handle that was resumed from a state at rest. Call it when it is certain that no other handle
    /// continues from that state, now or later: rename the file to a name of your own, sync the directory, read the file,
    /// resume, claim, delete the file. Never resume from a file that you did not rename yourself, and keep states out of
    /// backups. Until then every call but [`report`](Self::report) is `NotReady`. Does nothing for a handle that is not
    /// held.
    ///
    /// # Errors
    /// `Halted` for a suspended handle; `Poisoned` after an internal failure.
    pub fn claimed(&self) -> Result<()> {
        let state = &mut *self.lock.lock_held()?;
        state.lifecycle = Lifecycle::Active;
        Ok(())
    }

    /// Returns a new number that one state may be addressed to ([`suspend`](Self::suspend)), and be
    /// [resumed](Self::resume) in this process, while this handle lives. It is kept in memory only. So a state that was
    /// accepted is never accepted again.
    ///
    /// # Errors
    /// `Full` beyond 1024; `Entropy`; `NoMemory`; `Poisoned` after an internal failure.
    pub fn receiver(&self) -> Result<u64> {
        let state = &mut *self.lock.lock()?;
        let open = &mut state.receivers;
        open.retain(|receiver| Receiver::is_open(receiver.0));
        if open.len() == Receiver::MOST {
            let most = Receiver::MOST as u64;
            return Err(Error::Full { what: "receiver", number: most + 1, limit: "the maximum", most });
        }
        open.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let receiver = Receiver::draw()?;
        let number = receiver.0;
        open.push(receiver);
        Ok(number)
    }
}

impl Persist for State {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        // The head has the fleet's origin and added arms. Receivers, and memory for requests, are this handle's own.
        let State {
            engine,
            policy,
            pulls,
            seeded,
            users,
            tables,
            periods,
            health,
            origin: _,
            sharing: _,
            receivers: _,
            offers: _,
            is_plain: _,
            is_private: _,
            lifecycle: _,
        } = self;
        engine.persist(with)?;
        match policy.learner() {
            Some(learner) => learner.persist_all(with)?,
            None => policy.persist(with)?,
        }
        pulls.persist(with)?;
        seeded.persist(with)?;
        users.persist(with)?;
        tables.persist(with)?;
        periods.persist(with)?;
        health.persist(with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Clock;
    use crate::request::{Request, Rows};
    use crate::snapshot::Writer;

    fn config() -> Config {
        Config { fleet_key: Some([7; 32].into()), ..Config::new(4, 1.0) }
    }

    /// The variables of a handle, as a state has them.
    fn variables(bandit: &Bandit) -> Vec<u8> {
        let state = &mut *bandit.lock.lock().unwrap();
        let all = |to: &mut Writer| state.persist(&mut Archive::Out(to));
        snapshot::fields(|length| Ok(Vec::with_capacity(length)), all).unwrap()
    }

    /// Decides `n` requests. Every third has a reward at once, every fifth later, every seventh is cancelled.
    fn play(bandit: &Bandit, n: u64, rows: usize, open: &mut Vec<u64>) {
        for number in 0..n {
            let row: Vec<f32> = (0..rows).map(|place| ((number as usize + place) % 3) as f32 / 8.0).collect();
            let features = (rows > 0).then_some(Rows::Dense(&row));
            let segment = if rows == 0 && bandit.report().unwrap().max_segments > 0 { number % 5 } else { 0 };
            let user = if bandit.config.config().unwrap().expected_users > 0 { number % 50 } else { 0 };
            let decision = bandit.select_for(&Request { features, segment, user, ..Request::default() }).unwrap();
            let reward = f64::from(u8::from(number % 6 == u64::from(decision.arm)));
            match number {
                _ if number % 7 == 0 => bandit.cancel(decision.ticket).unwrap(),
                _ if number % 3 == 0 => bandit.update(decision.ticket, reward).unwrap(),
                _ => open.push(decision.ticket),
            }
            if number % 5 == 0
                && let Some(ticket) = open.pop()
            {
                _ = bandit.update(ticket, reward);
            }
        }
    }

    /// Every kind of handle, its configuration, and the length of its features.
    fn kinds() -> Vec<(Algorithm, Config, usize)> {
        let mut kinds = Vec::new();
        for &algorithm in Algorithm::ALL {
            let features = if algorithm == Algorithm::Linear { 3 } else { 0 };
            for (reward_window, delta) in [(0, 1e-6), (40, 1e-6), (40, 0.0)] {
                let (horizon, base) = (1 << 14, Algorithm::NonprivateExp3 as u32);
                let all = Config { horizon, base, features, reward_window, delta, ..config() };
                kinds.push((algorithm, algorithm.fit(&all), (features * all.arms) as usize));
            }
        }
        let more = |change: &dyn Fn(&mut Config)| {
            let mut config = Config { reward_window: 40, ..config() };
            change(&mut config);
            config
        };
        kinds.push((Algorithm::Imed, more(&|config| config.max_segments = 8), 0));
        kinds.push((Algorithm::Imed, more(&|config| config.expected_users = 60), 0));
        kinds.push((Algorithm::Imed, more(&|config| config.forget_after = 2000), 0));
        kinds.push((Algorithm::Imed, more(&|config| (config.max_slots, config.max_clicks) = (2, 1)), 0));
        kinds.push((Algorithm::Med, more(&|config| config.clock = Clock::Caller), 0));
        let models = |config: &mut Config| (config.features, config.model_per_arm) = (3, true);
        kinds.push((Algorithm::Linear, more(&models), 3));
        kinds
    }

    /// (1) of Theorem M: what continues has all variables of what ended. Then it goes on, and ends again.
    #[test]
    fn every_variable_moves() {
        for (algorithm, config, rows) in kinds() {
            let what = format!("{algorithm:?}, window {}", config.reward_window);
            let mut bandit = match Bandit::new(algorithm, &config) {
                Err(Error::InvalidConfig { field: "delta", .. }) => continue, // it needs another delta
                bandit => bandit.unwrap_or_else(|error| panic!("{what}: {error}")),
            };
            let mut open = Vec::new();
            for n in [0, 1, 300, 2500] {
                play(&bandit, n, rows, &mut open);
                let before = variables(&bandit);
                let state = bandit.suspend(0).unwrap();
                assert_eq!(bandit.select().unwrap_err(), Error::Halted, "{what}");
                assert_eq!(bandit.report().unwrap_err(), Error::Halted, "{what}");
                bandit = Bandit::resume(None, &config, &state).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(bandit.select().unwrap_err(), Error::NotReady, "{what}");
                bandit.report().unwrap();
                bandit.claimed().unwrap();
                let after = variables(&bandit);
                let differ = before.iter().zip(&after).filter(|(before, after)| before != after).count();
                // With segments the model is fitted anew, which brings the stamps of the cells to now.
                let stamps = 8 * 9 * config.arms as usize * usize::from(config.max_segments > 0);
                assert!(before.len() == after.len() && differ <= stamps, "{what}, {n}: {differ}");
            }
        }
    }

    /// Which fields may be another one in the handle that continues: those of `restore_as` except for what tickets and
    /// windows depend on. With another `forget_after` it knows what a handle that was restored with it knows.
    #[test]
    fn forget_after_may_change() {
        let config = Config { reward_window: 40, forget_after: 4000, ..config() };
        for (algorithm, max_segments) in [(Algorithm::Imed, 0), (Algorithm::Med, 0), (Algorithm::Imed, 8)] {
            let config = Config { max_segments, ..config.clone() };
            for forget_after in [2000, 4000, 16_000, 0] {
                let (bandit, mut open) = (Bandit::new(algorithm, &config).unwrap(), Vec::new());
                play(&bandit, 5000, 0, &mut open);
                let snapshot = bandit.snapshot().unwrap();
                let state = bandit.suspend(0).unwrap();
                for fixed in [
                    Config { reward_window: 41, ..config.clone() },
                    Config { pending_capacity: 64, ..config.clone() },
                    Config { node: 7, ..config.clone() },
                    Config { expected_users: 9, ..config.clone() },
                    Config { clock: Clock::Caller, ..config.clone() },
                    Config { epsilon: 2.0, ..config.clone() },
                ] {
                    assert!(matches!(Bandit::resume(None, &fixed, &state), Err(Error::InvalidConfig { .. })));
                }
                let (beta, horizon, exploration, clamp_rewards) = (0.0, 99, 0.1, true);
                let free = Config { forget_after, beta, horizon, exploration, clamp_rewards, ..config.clone() };
                let next = Bandit::resume(None, &free, &state).unwrap();
                next.claimed().unwrap();
                let restored = Bandit::restore_as(algorithm, &free, &snapshot).unwrap();
                let known = |bandit: &Bandit| {
                    let arms = bandit.arm_reports().unwrap();
                    arms.iter().map(|arm| (arm.mean.to_bits(), arm.effective_pulls.to_bits())).collect::<Vec<_>>()
                };
                assert_eq!(known(&next), known(&restored), "{algorithm:?}, {max_segments}, {forget_after}");
                let pending = next.report().unwrap().counts.pending();
                assert!(pending > 0 && open.iter().any(|&ticket| next.update(ticket, 1.0).is_ok()));
                play(&next, 5000, 0, &mut open);
            }
        }
    }

    /// The clock of the system may have been set since a state was suspended. Only its time differs here.
    #[test]
    fn a_state_is_neither_old_nor_from_the_future() {
        let key = FleetKey::from([7; 32]);
        let at = |ahead: i64| {
            let bandit = Bandit::new(Algorithm::Imed, &config()).unwrap();
            play(&bandit, 300, 0, &mut Vec::new());
            let head = |to: &mut Writer| {
                bandit.save_head(&mut bandit.lock.lock().unwrap(), to);
                Ok(())
            };
            let time = snapshot::fields(|length| Ok(Vec::with_capacity(length)), head).unwrap().len();
            let (receiver, _, mut content) = key.open(Purpose::State, &bandit.suspend(0).unwrap()).unwrap();
            let bytes = &mut content[time..time + 8];
            let suspended = u64::from_le_bytes((&*bytes).try_into().unwrap());
            assert!(suspended.abs_diff(now()) < 600);
            bytes.copy_from_slice(&suspended.strict_add_signed(ahead).to_le_bytes());
            let nonce = Nonce::new(&mut Seed::new(None).unwrap().stream());
            let mut sealed = FleetKey::unsealed(content.len(), usize::MAX).unwrap();
            sealed.extend_from_slice(&content);
            key.seal(Purpose::State, receiver, nonce, Zeroizing::new(sealed)).unwrap()
        };
        let resume = |ahead| Bandit::resume(None, &config(), &at(ahead)).map(drop);
        let hour = Bandit::STATE_LIFETIME as i64;
        assert_eq!([resume(0), resume(600 - hour)], [Ok(()), Ok(())]);
        for (ahead, what) in
            [(-hour - 10, "ago"), (-90_000, "ago"), (600 + 60, "in the future"), (1 << 40, "in the future")]
        {
            let Err(Error::ExpiredState(why)) = resume(ahead) else { panic!("{ahead}: accepted") };
            assert!(why.starts_with("the state was suspended ") && why.contains(what), "{ahead}: {why}");
        }
        let now = 1 << 40;
        for (suspended, holds) in [
            (now - 3601, false),
            (now - 3600, true),
            (now, true),
            (now + 60, true),
            (now + 61, false),
            (u64::MAX, false),
            (0, false),
        ] {
            assert_eq!(check_age(suspended, now).is_ok(), holds, "{suspended}");
        }
    }

    /// A process forks while one of its threads draws a receiver. The child draws receivers of its own, and has none of its
    /// parent's.
    #[cfg(unix)]
    #[test]
    fn a_child_has_receivers_of_its_own() {
        use std::sync::mpsc::channel;
        let bandit = Bandit::new(Algorithm::Imed, &config()).unwrap();
        let parents = bandit.receiver().unwrap();
        let state = bandit.suspend(parents).unwrap();
        let ((is_held, held), (go_on, waits)) = (channel(), channel::<()>());
        let thread = std::thread::spawn(move || {
            with_open(|_| {
                is_held.send(()).unwrap();
                waits.recv().unwrap();
            });
        });
        held.recv().unwrap();
        let seen = crate::os::in_child(false, || {
            let refused = matches!(Bandit::resume(None, &config(), &state), Err(Error::ExpiredState(_)));
            let bandit = Bandit::new(Algorithm::Imed, &config()).unwrap();
            let [first, second] = [(); 2].map(|()| bandit.receiver().unwrap());
            let state = bandit.suspend(second).unwrap();
            let resumed = [(); 2].map(|()| Bandit::resume(None, &config(), &state).is_ok());
            refused && Receiver::is_open(first) && !Receiver::is_open(parents) && resumed == [true, false]
        });
        go_on.send(()).unwrap();
        thread.join().unwrap();
        assert!(seen && Receiver::is_open(parents));
        Bandit::resume(None, &config(), &state).unwrap();
    }

    /// What must not move: a contributor goes on as another sender, whose contributions are numbered from 1; a leader does
    /// not lead; and the generation is the next one, so that others take its snapshots as newer.
    #[test]
    fn senders_and_generations_do_not_move() {
        let sharing = |bandit: &Bandit| {
            let state = &mut *bandit.lock.lock().unwrap();
            let duty = state.duty();
            let sharing = state.sharing().unwrap();
            (duty, sharing.sender, sharing.sequence, sharing.senders.len())
        };
        let next = |bandit: &Bandit| {
            let next = Bandit::resume(None, &config(), &bandit.suspend(0).unwrap()).unwrap();
            next.claimed().unwrap();
            assert_eq!(next.generation, bandit.generation + 1);
            next
        };
        let [leader, contributor] = [(); 2].map(|()| Bandit::new(Algorithm::Imed, &config()).unwrap());
        let led = leader.lead().unwrap();
        for number in 1..4 {
            play(&contributor, 30, 0, &mut Vec::new());
            let contribution = contributor.contribution(led).unwrap();
            leader.combine(&contribution).unwrap();
            assert_eq!(sharing(&contributor).2, number);
        }
        play(&contributor, 30, 0, &mut Vec::new());
        let (before, moved) = (sharing(&contributor), next(&contributor));
        let after = sharing(&moved);
        assert!(after.0 == Duty::Contributes(led) && after.1 != before.1 && after.2 == 0);
        let contribution = moved.contribution(led).unwrap();
        leader.combine(&contribution).unwrap();
        assert_eq!(leader.combine(&contribution).unwrap_err(), Error::Duplicate);
        assert_eq!((sharing(&leader).3, leader.report().unwrap().contributions), (2, 4));
        let moved = next(&leader);
        assert!(sharing(&moved).0 == Duty::Alone && sharing(&moved).3 == 0);
        assert_eq!(moved.combine(&contribution).unwrap_err(), Error::Expired);
    }
}
