//! Engine and learner behind one lock: what a bandit and a pool have in common.

use crate::engine::{Counts, Diagnostics, Engine, Event};
use crate::error::{Error, Result};
use crate::os::Origin;
use crate::policy::Pull;
use crate::privacy::PrivacyLoss;
use crate::request::Request;
use crate::reward::{Reward, RewardRange};
use crate::snapshot::{self, Kind, Writer};
use crate::users::{Periods, Users};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// One answer to "which arm?".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Names this decision in [`Bandit::update`](crate::Bandit::update) and [`Bandit::cancel`](crate::Bandit::cancel).
    pub ticket: u64,
    /// The arm's probability given everything released so far; NaN where it would tell raw rewards.
    pub propensity: f64,
    /// The arm, 0-based.
    pub arm: u32,
    /// The policy's epoch, phase or interval.
    pub phase: u32,
}

/// Who is told how decisions end. What the engine promises it: see [`Policy`](crate::policy::Policy).
pub(crate) trait Learner {
    /// How often what this pull plays was played: decisions that were neither cancelled nor expired.
    fn played(&mut self, pull: Pull) -> &mut u64;

    /// The reward of an earlier pull.
    fn observe(&mut self, pull: Pull, reward: Reward);

    /// An earlier pull that will never be answered counts as not played.
    fn cancel(&mut self, pull: Pull);

    /// So many ticks of the caller's clock have passed.
    fn advance(&mut self, ticks: u64);
}

/// The one short lock, and what it guards.
pub(crate) struct Desk<L> {
    pub range: RewardRange,
    inner: Mutex<Inner<L>>,
    origin: Origin,
}

pub(crate) struct Inner<L> {
    pub engine: Engine,
    /// Now, in an earlier life, or another handle that was merged: what was learned then is not private.
    pub seeded: bool,
    pub learner: L,
    /// Who has had enough learned from, where the configuration expects users.
    pub users: Option<Box<Users>>,
    pub periods: Periods,
}

impl<L: Learner> Desk<L> {
    pub fn new(range: RewardRange, inner: Inner<L>) -> Desk<L> {
        Desk { range, inner: Mutex::new(inner), origin: Origin::here() }
    }

    /// Without the lock, for who has it alone.
    pub fn get_mut(&mut self) -> Result<&mut Inner<L>> {
        self.inner.get_mut().map_err(|_| Error::Poisoned)
    }

    #[inline]
    pub fn update(&self, ticket: u64, reward: f64) -> Result<()> {
        let quantized = self.range.quantize(reward);
        self.lock()?.update(ticket, quantized)
    }

    pub fn update_many(
        &self,
        answers: impl Iterator<Item = (u64, f64)>,
        mut each: impl FnMut(Result<()>),
    ) -> Result<()> {
        let mut inner = self.lock()?;
        for (ticket, reward) in answers {
            each(inner.update(ticket, self.range.quantize(reward)));
        }
        Ok(())
    }

    #[inline]
    pub fn cancel(&self, ticket: u64) -> Result<()> {
        let inner = &mut *self.lock()?;
        let event = inner.engine.cancel(ticket)?;
        inner.apply(event);
        Ok(())
    }

    pub fn cancel_all(&self) -> Result<()> {
        let inner = &mut *self.lock()?;
        for sequence in inner.engine.in_flight() {
            if let Some(event) = inner.engine.cancel_at(sequence) {
                inner.apply(event);
            }
        }
        Ok(())
    }

    pub fn advance(&self, now: u64) -> Result<()> {
        let Inner { engine, learner, .. } = &mut *self.lock()?;
        let ticks = engine.advance(now)?;
        learner.advance(ticks);
        engine.settle(|event| apply(learner, event));
        Ok(())
    }

    /// Decides many requests under one lock, until one is refused; `done` counts those before it. Slots are numbered on
    /// from request to request.
    pub fn decide_many<'a>(
        &self,
        requests: &mut dyn Iterator<Item = Result<Request<'a>>>,
        each: &mut dyn FnMut(usize, Decision),
        done: &mut usize,
        decide: impl Fn(&mut Inner<L>, &Request, &mut dyn FnMut(usize, Decision)) -> Result<()>,
    ) -> Result<()> {
        let inner = &mut *self.lock()?;
        let mut first = 0;
        for request in requests {
            let request = request?;
            decide(inner, &request, &mut |slot, decision| each(first + slot, decision))?;
            first += request.slots as usize;
            *done += 1;
        }
        Ok(())
    }

    pub fn diagnostics(&self) -> Result<Diagnostics> {
        Ok(self.lock()?.engine.diagnostics())
    }

    /// A snapshot within `room` bytes. The handle knows from then on that there is one; a size that is refused is none.
    pub fn save(
        &self,
        kind: Kind,
        room: usize,
        mut write: impl FnMut(&mut Inner<L>, &mut Writer) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let unsealed = {
            let inner = &mut *self.lock()?;
            let unsealed = snapshot::write(kind, room, |to| write(inner, to))?;
            inner.periods.save(inner.periods.begun);
            unsealed
        };
        Ok(unsealed.seal())
    }

    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, Inner<L>>> {
        self.origin.check()?;
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(refusal) => self.wait(refusal),
        }
    }

    /// Somebody else is in, mostly for less than the first wait. Each look at the lock takes its cache line, and then
    /// all that it guards, away from the thread that is at work: where many want to be in all the time, one
    /// that looks seldom lets that thread do hundreds of calls in a row, and all of them do more.
    #[cold]
    fn wait<'a>(&'a self, mut refusal: TryLockError<MutexGuard<'a, Inner<L>>>) -> Result<MutexGuard<'a, Inner<L>>> {
        for pauses in std::iter::once(16).chain([1024; 24]) {
            // A panic inside left a half-applied update: fail closed.
            let TryLockError::WouldBlock = refusal else { return Err(Error::Poisoned) };
            (0..pauses).for_each(|_| std::hint::spin_loop());
            match self.inner.try_lock() {
                Ok(inner) => return Ok(inner),
                Err(next) => refusal = next,
            }
        }
        self.inner.lock().map_err(|_| Error::Poisoned)
    }
}

/// Enters a decision; with `follows` it is of the same request as the one before.
#[inline(always)]
pub(crate) fn enter(engine: &mut Engine, pulls: &mut u64, pull: Pull, follows: bool) -> Decision {
    *pulls += 1;
    let ticket = engine.issue(pull, follows);
    Decision { ticket, propensity: pull.propensity, arm: pull.arm(), phase: pull.phase() }
}

/// A decision has ended.
#[inline]
fn apply<L: Learner>(learner: &mut L, event: Event) {
    match event {
        Event::Answered(pull, reward) => learner.observe(pull, reward),
        Event::Unplayed { pull, learned } => unplay(learner, pull, learned),
    }
}

fn unplay<L: Learner>(learner: &mut L, pull: Pull, learned: bool) {
    *learner.played(pull) -= 1;
    if learned {
        learner.cancel(pull);
    }
}

impl<L: Learner> Inner<L> {
    /// Before the next decision: what it pushes out of the ring takes effect.
    #[inline(always)]
    pub fn make_room(&mut self) {
        self.make_room_ahead(0);
    }

    /// The same for the decision that so many are ahead of.
    #[inline(always)]
    pub fn make_room_ahead(&mut self, ahead: u64) {
        if let Some(event) = self.engine.make_room(ahead) {
            self.apply(event);
        }
    }

    #[inline(always)]
    pub fn issue(&mut self, pull: Pull) -> Decision {
        enter(&mut self.engine, self.learner.played(pull), pull, false)
    }

    /// Issues it for somebody. Where nobody learns from it, to the learner it was not played.
    pub fn issue_for(&mut self, pull: Pull, learned: bool) -> Decision {
        let decision = self.issue(pull);
        if !learned {
            self.engine.idle();
            self.learner.cancel(pull);
        }
        decision
    }

    /// Where users are counted, each decision is somebody's: one that is not would be learned from uncounted.
    #[inline]
    pub fn check_anonymous(&self) -> Result<()> {
        match self.users {
            None if self.periods.is_ready() => Ok(()),
            None => Err(Error::NotReady),
            Some(_) => Err(Error::Unsupported("a decision that is nobody's: config.expected_users is set")),
        }
    }

    fn users(&mut self) -> Result<&mut Users> {
        self.users.as_deref_mut().ok_or(Error::Unsupported("a decision for a user: config.expected_users is 0"))
    }

    /// Counts a decision of this user. Is it to be learned from? See [`crate::users`].
    ///
    /// # Errors
    /// `Unsupported` where users are not counted; `NotReady` until a restored handle is saved. Nothing was counted.
    pub fn count(&mut self, user: u64) -> Result<bool> {
        let (is_ready, may_learn) = (self.periods.is_ready(), self.periods.may_learn());
        let users = self.users()?;
        if !is_ready {
            return Err(Error::NotReady);
        }
        let learned = may_learn && users.count(user);
        #[cfg(feature = "test-hooks")]
        let learned = learned || crate::Fault::UserUnbounded.is_built_in();
        Ok(learned)
    }

    /// May this user make a request now? A handle that counts no users takes user 0 alone.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    #[inline]
    pub fn check_user(&self, user: u64) -> Result<()> {
        match self.users {
            None if user != 0 => Err(Error::Unsupported("a user: config.expected_users is 0")),
            _ if self.periods.is_ready() => Ok(()),
            _ => Err(Error::NotReady),
        }
    }

    /// Counts a request after [`check_user`](Self::check_user). Is it to be learned from?
    #[inline]
    pub fn admit(&mut self, user: u64) -> Result<bool> {
        if self.users.is_some() { self.count(user) } else { Ok(true) }
    }

    pub fn next_period(&mut self) -> Result<()> {
        self.users()?;
        self.periods.next()?;
        self.users()?.forget();
        Ok(())
    }

    /// Goes on from another life, which counted so many periods, and `counted` users if this one does not: who came in
    /// its last period is not known, so another begins.
    pub fn live_on(&mut self, seeded: bool, counts: Counts, now: u64, periods: u32, counted: bool) -> Result<()> {
        self.seeded = seeded;
        self.engine.count_on(counts, now);
        self.periods.live_on(periods, counted || self.users.is_some())
    }

    /// What one reward, or one request, has lost, and behind how many one user may be by now: m, in each period.
    pub fn of_one_user(&self, loss: PrivacyLoss, m: u32) -> (PrivacyLoss, u32) {
        match self.periods.begun.checked_mul(m) {
            Some(contributions) => (loss, contributions),
            None => (PrivacyLoss::Unbounded, m), // more than are ever given
        }
    }

    #[inline(always)] // into its two callers
    fn update(&mut self, ticket: u64, reward: Result<Reward>) -> Result<()> {
        let reward = reward.inspect_err(|_| self.engine.count_rejected())?;
        if let Some(event) = self.engine.answer(ticket, reward)? {
            self.apply(event);
        }
        Ok(())
    }

    #[inline]
    fn apply(&mut self, event: Event) {
        apply(&mut self.learner, event);
    }
}
