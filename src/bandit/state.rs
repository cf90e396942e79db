//! The state behind a handle's lock: the engine, the policy, and the users' limits.

use super::fleet::Sharing;
use super::health::Health;
use super::moving::{Lifecycle, Receiver};
use super::tables::Versions;
use crate::config::Config;
use crate::engine::{Counts, Engine, Event};
use crate::error::{Error, Result};
use crate::ledger::roster::Roster;
use crate::memory::WipedVec;
use crate::os::Origin;
use crate::policy::lift::ShownArm;
use crate::policy::{AnyLearner, Policy, Pull, loss_of_request};
use crate::privacy::PrivacyLoss;
use crate::request::{Catalog, Limits, NO_ARM, Offers, Request};
use crate::reward::Reward;
use crate::users::{Periods, Users};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// A decision: which arm to play.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Identifies this decision in [`Bandit::update`](crate::Bandit::update) and
    /// [`Bandit::cancel`](crate::Bandit::cancel).
    pub ticket: u64,
    /// Probability of the arm given all releases so far; NaN if it would reveal raw rewards, or is not computed.
    pub propensity: f64,
    /// The arm, counted from 0; or [`NO_ARM`], and then the ticket is 0.
    pub arm: u32,
    /// The policy's epoch, phase or interval.
    pub phase: u32,
}

const FIXED_ARMS: &str = "new arms: its arms are fixed";

/// The handle's lock. A forked child cannot take it.
pub(super) struct Lock {
    state: Mutex<State>,
    origin: Origin,
}

pub(super) struct State {
    pub engine: Engine,
    pub policy: Box<dyn Policy>,
    /// For each arm, the number of decisions that were neither cancelled nor expired; 0 if
    /// [they are private](Self::is_private).
    pub pulls: WipedVec<u64>,
    /// Whether requests are private, and with them which arms were chosen.
    pub is_private: bool,
    /// The random number by which other handles know this one, and those that continue from its snapshots.
    pub origin: u64,
    /// What a fleet key needs.
    pub sharing: Option<Box<Sharing>>,
    pub offers: Offers,
    /// Whether a test seed was used here, before a restart, or in a merged handle: what was learned then is not
    /// private.
    pub seeded: bool,
    /// Limits of the decisions that each user contributes, if the configuration expects users.
    pub users: Option<Box<Users>>,
    /// Decisions made elsewhere, if the configuration expects some.
    pub tables: Option<Box<Versions>>,
    pub periods: Periods,
    /// Whether the configuration permits default requests.
    pub is_plain: bool,
    pub health: Health,
    /// Numbers that a state may be addressed to.
    pub receivers: Vec<Receiver>,
    pub lifecycle: Lifecycle,
}

impl Lock {
    pub fn new(state: State) -> Lock {
        Lock { state: Mutex::new(state), origin: Origin::here() }
    }

    /// Returns the state without locking, for an owner.
    pub fn get_mut(&mut self) -> Result<&mut State> {
        self.state.get_mut().map_err(|_| Error::Poisoned)
    }

    /// The state of an active handle.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock_any()?;
        if state.lifecycle == Lifecycle::Active { Ok(state) } else { Err(state.lifecycle.refusal()) }
    }

    /// The state of a handle that is active or held.
    pub fn lock_held(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock_any()?;
        if state.lifecycle == Lifecycle::Ended { Err(state.lifecycle.refusal()) } else { Ok(state) }
    }

    #[inline]
    fn lock_any(&self) -> Result<MutexGuard<'_, State>> {
        self.origin.check()?;
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(refusal) => self.wait(refusal),
        }
    }

    /// Waits for the lock while another thread holds it, which mostly takes less than the first wait. Each test of the
    /// lock takes its cache line, and then everything that it guards, away from that thread. So a thread that tests
    /// rarely lets the other one make hundreds of calls in a row, and all threads together make more.
    #[cold]
    fn wait<'a>(&'a self, mut refusal: TryLockError<MutexGuard<'a, State>>) -> Result<MutexGuard<'a, State>> {
        for pauses in std::iter::once(16).chain([1024; 24]) {
            // After a panic inside, an update is half applied: refuse every call.
            let TryLockError::WouldBlock = refusal else { return Err(Error::Poisoned) };
            (0..pauses).for_each(|_| std::hint::spin_loop());
            match self.state.try_lock() {
                Ok(state) => return Ok(state),
                Err(next) => refusal = next,
            }
        }
        self.state.lock().map_err(|_| Error::Poisoned)
    }
}

/// Applies the end of a decision.
#[inline]
fn apply(policy: &mut dyn Policy, pulls: &mut [u64], health: &mut Health, event: Event) {
    match event {
        Event::Answered(pull, reward) => {
            health.note(reward);
            policy.observe(pull, reward);
        }
        Event::Unplayed { pull, learned } => unplay(policy, pulls, pull, learned),
        Event::Passed(pull) => policy.cancel(pull),
    }
}

/// Processes the decision that must leave the ring for the decision that follows `ahead` others.
#[inline(always)]
fn make_room(engine: &mut Engine, policy: &mut dyn Policy, pulls: &mut [u64], health: &mut Health, ahead: u64) {
    if health.is_due(engine.counts().decisions) {
        health.look(engine.counts());
    }
    if let Some(event) = engine.make_room(ahead) {
        apply(policy, pulls, health, event);
    }
}

/// What requests may name.
pub(super) fn catalog(policy: &mut dyn Policy) -> Catalog<'_> {
    policy.learner().map_or(Catalog::FIXED, |learner| learner.catalog())
}

fn unplay(policy: &mut dyn Policy, pulls: &mut [u64], pull: Pull, learned: bool) {
    let arm = policy.learner().map_or(pull.arm(), |learner| learner.unplay(pull));
    pulls[arm as usize] -= 1;
    if learned {
        policy.cancel(pull);
    }
}

impl State {
    /// Decides a default request, where [that can be](Self::is_plain).
    #[inline(always)] // into its two callers
    pub fn select(&mut self) -> Decision {
        if self.engine.may_be_outage()
            && let Some(decision) = self.select_as_request()
        {
            return decision;
        }
        self.make_room(0);
        let pull = self.policy.choose();
        self.pulls[pull.arm() as usize] += 1;
        let ticket = self.engine.issue(pull, false);
        Decision { ticket, propensity: pull.propensity, arm: pull.arm(), phase: pull.phase() }
    }

    /// Whether a default request can be decided by [`select`](Self::select).
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain && self.periods.is_ready()
    }

    /// Checks that a default request can be decided, though not by [`select`](Self::select).
    ///
    /// # Errors
    /// `Unsupported` if the configuration requires a user, a segment or features; `NotStored`.
    #[cold]
    #[inline(never)]
    pub fn check_default(&self) -> Result<()> {
        match self.users {
            // The rewards of a decision without a user would be learned without a limit.
            Some(_) => Err(Error::unconfigured("a default request: config.expected_users is set")),
            None if self.is_plain => Err(Error::NotStored),
            None if self.offers.is_split() => Ok(()),
            None => Err(Error::unconfigured("a default request: config.max_segments or config.features is set")),
        }
    }

    /// Decides a default request like any other. None is refused.
    #[cold]
    #[inline(never)]
    fn select_as_request(&mut self) -> Option<Decision> {
        self.decide_one(&Request::default()).ok()
    }

    /// Decides a request of one slot.
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    #[inline(never)]
    pub fn decide_one(&mut self, request: &Request) -> Result<Decision> {
        let mut decided = None;
        self.decide(request, &mut |_, decision| decided = Some(decision))?;
        decided.ok_or(Error::Poisoned)
    }

    /// Decides a request: passes its decisions to `each`, with their slots.
    ///
    /// # Errors
    /// As [`check`](Self::check); `NoMemory`.
    #[inline(always)] // into its callers: a decision that is returned through memory costs more than its choice
    pub fn decide(&mut self, request: &Request, each: &mut impl FnMut(usize, Decision)) -> Result<()> {
        let learned = self.choose_for(request)?;
        let State { engine, policy, pulls, offers, users, health, is_private, .. } = self;
        for (number, (slot, choice)) in offers.choices().enumerate() {
            let (propensity, phase) = (choice.pull.propensity, choice.pull.phase());
            if choice.arm == NO_ARM {
                engine.skip_decision();
                each(0, Decision { ticket: 0, propensity, arm: NO_ARM, phase });
                continue;
            }
            pulls[choice.arm as usize] += u64::from(!*is_private);
            let learned = learned && choice.is_learned;
            let ticket = engine.issue_choice(choice, number > 0, learned);
            if !learned {
                if users.is_some() {
                    health.count_unlearned();
                }
                policy.cancel(engine.last_pull());
            }
            each(slot as usize, Decision { ticket, propensity, arm: choice.arm, phase });
        }
        Ok(())
    }

    /// Checks a request, and makes the choices of its slots. Returns whether they are learned from.
    #[inline(never)]
    fn choose_for(&mut self, request: &Request) -> Result<bool> {
        let limits = self.limits();
        let State { engine, policy, pulls, offers, users, periods, health, .. } = self;
        let mut offer = offers.check(request, catalog(&mut **policy), &limits)?;
        if offer.has_positions() {
            engine.reserve_unexamined()?;
        }
        // Nothing has changed before this line.
        for ahead in 0..offer.slots.into() {
            // A decision that must leave the ring may release a batch. It changes no arm and no segment.
            make_room(engine, &mut **policy, pulls, health, ahead);
        }
        offer.is_outage = engine.may_be_outage() && engine.is_outage();
        policy.decide(&mut offer);
        // A decision without an arm counts for nobody.
        let plays = offers.choices().any(|(_, choice)| choice.arm != NO_ARM);
        Ok(plays && users.as_mut().is_none_or(|users| periods.may_learn() && users.count(request.user)))
    }

    /// What the handle permits now.
    fn limits(&self) -> Limits {
        Limits {
            is_ready: self.periods.is_ready(),
            counts_users: self.users.is_some(),
            next: self.engine.counts().decisions,
            ring: self.engine.ring(),
            reach: self.engine.reach(),
        }
    }

    /// Checks that a request may be decided. Changes nothing.
    ///
    /// # Errors
    /// `InvalidRequest`; `Unsupported`; `Full`; `NotStored`.
    pub fn check(&mut self, request: &Request) -> Result<()> {
        let limits = self.limits();
        self.offers.check(request, catalog(&mut *self.policy), &limits).map(drop)
    }

    /// Passes the predictions for a request to `each`.
    ///
    /// # Errors
    /// `InvalidRequest`; `Unsupported`.
    pub fn predict(&mut self, request: &Request, each: &mut dyn FnMut(f64, f64)) -> Result<()> {
        // A prediction is no decision: it has no slots and no user.
        let request = Request {
            segment: request.segment,
            eligible: request.eligible,
            features: request.features,
            ..Request::default()
        };
        let limits = Limits { is_ready: true, ..self.limits() };
        let offer = self.offers.check(&request, catalog(&mut *self.policy), &limits)?;
        self.policy.predict(&offer, each);
        Ok(())
    }

    /// Writes the probability of each arm, by its number, in the next decision of a request.
    ///
    /// # Errors
    /// As [`check`](Self::check); `Unsupported`.
    pub fn weigh(&mut self, request: &Request, shares: &mut [f64]) -> Result<()> {
        let request = Request { user: 0, ..*request };
        if request.slots != 1 {
            return Err(Error::request("slots", "must be 1 for weights", request.slots));
        }
        if request.abstain {
            return Err(Error::request("abstain", "must be 0 for weights", 1u32));
        }
        let limits = Limits { is_ready: true, ..self.limits() };
        let mut offer = self.offers.check(&request, catalog(&mut *self.policy), &limits)?;
        offer.is_outage = self.engine.is_outage();
        self.policy.weights(&offer, shares)
    }

    /// Checks that the policy supports `what`, and that this arm can be played.
    pub fn check_live(&mut self, arm: u32, what: &'static str) -> Result<&mut dyn AnyLearner> {
        let learner = self.learner(what)?;
        learner.catalog().arms.map_or(Ok(()), |roster| roster.check(&[arm], "arm"))?;
        Ok(learner)
    }

    /// Checks that this arm exists and is not retired. `field` has it.
    pub fn check_arm(&mut self, arm: u32, field: &'static str) -> Result<()> {
        match catalog(&mut *self.policy).arms {
            Some(roster) => roster.check(&[arm], field),
            None if (arm as usize) < self.pulls.len() => Ok(()),
            None => Err(Error::request(field, &format!("must be below {}", self.pulls.len()), arm)),
        }
    }

    /// All arms, with their shares of this handle's decisions and of a control: an arm, or an even draw of the live ones.
    ///
    /// # Errors
    /// `NotReady` without decisions, and if an arm of the control has no release; as [`Policy::sums`].
    pub fn shown(&mut self, control: Option<u32>) -> Result<Vec<ShownArm>> {
        if let Some([own, even]) = self.policy.samples()? {
            let of = |sums, share, of_control| ShownArm { sums: Some(sums), share, of_control };
            return match control {
                None => Ok(vec![of(own, 1.0, 0.0), of(even, 0.0, 1.0)]),
                Some(_) => Err(Error::unsupported("a lift over an arm: its mean depends on features")),
            };
        }
        let arms = self.pulls.len();
        let is_live: Vec<bool> = match catalog(&mut *self.policy).arms {
            Some(roster) => (0..arms).map(|arm| roster.is_live(arm)).collect(),
            None => vec![true; arms],
        };
        let (all, live) = (self.pulls.iter().sum::<u64>(), is_live.iter().filter(|&&is_live| is_live).count());
        let of_control = |arm: usize| match control {
            Some(control) => f64::from(control as usize == arm),
            None => f64::from(is_live[arm]) / live as f64,
        };
        let shown = |arm: usize| {
            let of_control = of_control(arm);
            let sums = match self.policy.sums(arm as u32) {
                Err(Error::NotReady) if of_control == 0.0 => None,
                sums => Some(sums?),
            };
            Ok(ShownArm { sums, share: self.pulls[arm] as f64 / all as f64, of_control })
        };
        if all == 0 { Err(Error::NotReady) } else { (0..arms).map(shown).collect() }
    }

    pub fn next_period(&mut self) -> Result<()> {
        let users =
            self.users.as_deref_mut().ok_or_else(|| Error::unconfigured("periods: config.expected_users is 0"))?;
        self.periods.next()?;
        users.forget();
        Ok(())
    }

    /// Processes the decision that must leave the ring for the decision that follows `ahead` others.
    #[inline(always)]
    fn make_room(&mut self, ahead: u64) {
        let State { engine, policy, pulls, health, .. } = self;
        make_room(engine, &mut **policy, pulls, health, ahead);
    }

    /// Takes a part of a reward. `whole` is the reward that it is where rewards have no parts.
    #[inline(always)] // into its two callers
    pub fn report_part(&mut self, ticket: u64, part: u32, value: f64, whole: Result<Reward>) -> Result<()> {
        match whole {
            Ok(reward) if part == 0 => self.update(ticket, reward),
            _ => self.engine.add_part(ticket, part, value),
        }
    }

    /// Takes a reward.
    #[inline(always)] // into its caller
    fn update(&mut self, ticket: u64, reward: Reward) -> Result<()> {
        if let Some(event) = self.engine.answer(ticket, reward)? {
            self.apply(event);
        }
        Ok(())
    }

    pub fn cancel(&mut self, ticket: u64) -> Result<()> {
        if let Some(event) = self.engine.cancel(ticket)? {
            self.apply(event);
        }
        Ok(())
    }

    pub fn cancel_since(&mut self, from: u64) {
        for sequence in self.engine.in_flight() {
            if self.engine.stamp(sequence) < from {
                continue;
            }
            if let Some(event) = self.engine.cancel_at(sequence) {
                self.apply(event);
            }
        }
    }

    /// Sets the caller's clock.
    pub fn advance(&mut self, now: u64) -> Result<()> {
        let ticks = self.engine.advance(now)?;
        self.health.set();
        self.pass(ticks);
        Ok(())
    }

    /// Lets ticks pass in which nothing is decided.
    pub fn skip(&mut self, ticks: u64) {
        let Some(decisions) = self.engine.skip(ticks) else { return self.pass(ticks) };
        for _ in 0..decisions {
            self.make_room(0);
            self.engine.skip_decision();
        }
    }

    /// Applies the effects of ticks of the caller's clock.
    fn pass(&mut self, ticks: u64) {
        let State { engine, policy, pulls, health, .. } = self;
        if ticks > 0 {
            health.advance(engine.counts().decisions);
        }
        if let Some(learner) = policy.learner() {
            learner.facts().advance(ticks);
        }
        engine.expire_windows(|event| apply(&mut **policy, pulls, health, event));
    }

    #[inline]
    fn apply(&mut self, event: Event) {
        apply(&mut *self.policy, &mut self.pulls, &mut self.health, event);
    }

    /// Continues from a snapshot that counts `periods` periods; `counted` states whether it counted users. The users of
    /// its last period are not known, so another period begins.
    pub fn continue_from(&mut self, seeded: bool, counts: Counts, now: u64, periods: u32, counted: bool) -> Result<()> {
        self.seeded = seeded;
        self.engine.count_on(counts, now);
        self.health.begin(self.engine.counts());
        self.periods.continue_from(periods, counted || self.users.is_some())
    }

    /// Returns the loss of one reward or request so far, and the maximum number that one user has contributed by now: m
    /// in each period.
    pub fn loss(&self, config: &Config) -> (PrivacyLoss, u32) {
        let m = config.contributions_per_user;
        match self.periods.begun.checked_mul(m) {
            Some(contributions) => (loss_of_request(self.policy.counts().loss, config), contributions),
            None => (PrivacyLoss::Unbounded, m), // more than are ever given
        }
    }

    /// What the unit of the guarantee may lose for ever, from what one user loses in a period: one user in one period if
    /// periods have no limit, otherwise in all of them.
    pub fn loss_of_unit(&self, lifetime: PrivacyLoss, config: &Config) -> PrivacyLoss {
        let periods = if config.expected_users == 0 { self.periods.begun } else { config.budget_periods };
        lifetime.of_periods(periods.max(1).into())
    }

    /// The arms of a policy that can add some.
    pub fn arms(&mut self) -> Result<&Roster> {
        catalog(&mut *self.policy).arms.ok_or_else(|| Error::unsupported(FIXED_ARMS))
    }

    /// Adds an arm with this id, which no other arm here has.
    pub fn add_arm(&mut self, id: u64) -> Result<u32> {
        let arm = self.pulls.len() as u32;
        Error::unless(arm < Config::MAX_ARMS, "arms", "must be at most 2^24", u64::from(arm) + 1)?;
        self.pulls.reserve()?;
        self.offers.reserve()?;
        self.learner(FIXED_ARMS)?.add_arm(id)?;
        self.pulls.push(0);
        self.offers.add_arm();
        Ok(arm)
    }
}
