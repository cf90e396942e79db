//! The state behind a handle's lock: the engine, the policy, and the users' limits.

use super::fleet::Sharing;
use super::health::Health;
use super::moving::{Life, Receiver};
use crate::config::Config;
use crate::engine::{Counts, Engine, Event};
use crate::error::{Error, Result};
use crate::ledger::arms::Arms;
use crate::memory::{self, WipedVec};
use crate::os::Origin;
use crate::policy::{Abilities, Offer, Policy, Pull, ShuffledPolicy, SlotPull, loss_of_request};
use crate::privacy::PrivacyLoss;
use crate::random::Random;
use crate::request::{Request, Values};
use crate::reward::Reward;
use crate::snapshot::ensure;
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
    /// The arm, counted from 0.
    pub arm: u32,
    /// The policy's epoch, phase or interval.
    pub phase: u32,
}

/// The handle's lock. A forked child cannot take it.
pub(super) struct Lock {
    state: Mutex<State>,
    origin: Origin,
}

pub(super) struct State {
    pub engine: Engine,
    pub policy: Box<dyn Policy>,
    /// For each arm, the number of decisions that were neither cancelled nor expired.
    pub pulls: WipedVec<u64>,
    /// The random number by which other handles know this one, and those that continue from its snapshots.
    pub origin: u64,
    /// What a fleet key needs.
    pub sharing: Option<Box<Sharing>>,
    /// Memory for requests of several slots or with values, with a segment or with features.
    pub scratch: Option<Box<Scratch>>,
    /// Whether a test seed was used here, before a restart, or in a merged handle: what was learned then is not
    /// private.
    pub seeded: bool,
    /// Limits of the decisions that each user contributes, if the configuration expects users.
    pub users: Option<Box<Users>>,
    pub periods: Periods,
    pub abilities: Abilities,
    pub health: Health,
    /// Numbers that a state may be addressed to.
    pub receivers: Vec<Receiver>,
    pub life: Life,
}

/// Memory for one request.
pub(super) struct Scratch {
    /// Arms that may still be chosen. Capacity for all arms, as in the next two.
    left: Vec<u32>,
    /// Slots without a decision so far.
    free: Vec<u32>,
    chosen: Vec<SlotPull>,
    /// The values of the current request.
    values: Values,
    /// Whether the smallest reward is 0, so that a reward has a value in proportion to it.
    from_zero: bool,
    /// Coins that shuffle the slots.
    coins: Random,
    /// Maximum number of slots; 0 = as many as arms.
    most: u32,
}

impl Scratch {
    pub fn new(config: &Config, coins: Random) -> Result<Scratch> {
        let arms = config.arms as usize;
        let (left, free, chosen) =
            (memory::try_with_capacity(arms)?, memory::try_with_capacity(arms)?, memory::try_with_capacity(arms)?);
        let (values, from_zero) = (Values::new(config.arms)?, config.reward_min == 0.0);
        Ok(Scratch { left, free, chosen, values, from_zero, coins, most: config.max_slots })
    }

    /// Reserves capacity for `arms` arms, one more than before.
    fn reserve(&mut self, arms: usize) -> Result<()> {
        self.values.reserve()?;
        self.left.clear();
        self.free.clear();
        self.chosen.clear();
        let lists = [self.left.try_reserve(arms), self.free.try_reserve(arms), self.chosen.try_reserve(arms)];
        lists.into_iter().try_for_each(|reserved| reserved.map_err(|_| Error::NoMemory))
    }

    /// Lists the arms that a request may get: these arms, all live, each once and in order; or all live arms.
    fn list(&mut self, eligible: Option<&[u32]>, arms: u32, is_live: impl Fn(u32) -> bool) {
        let left = &mut self.left;
        left.clear();
        let Some(eligible) = eligible else {
            left.extend((0..arms).filter(|&arm| is_live(arm)));
            return;
        };
        let tidy = |left: &mut Vec<u32>| {
            left.sort_unstable();
            left.dedup();
        };
        for &arm in eligible {
            // The capacity is one entry for each arm.
            if left.len() == arms as usize {
                tidy(left);
            }
            if left.len() < arms as usize {
                left.push(arm);
            }
        }
        tidy(left);
    }
}

impl Lock {
    pub fn new(state: State) -> Lock {
        Lock { state: Mutex::new(state), origin: Origin::here() }
    }

    /// Returns the state without locking, for an owner.
    pub fn get_mut(&mut self) -> Result<&mut State> {
        self.state.get_mut().map_err(|_| Error::Poisoned)
    }

    /// The state of a handle that is live.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock_any()?;
        if state.life == Life::Live { Ok(state) } else { Err(state.life.refusal()) }
    }

    /// The state of a handle that is live or held.
    pub fn lock_held(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock_any()?;
        if state.life == Life::Ended { Err(state.life.refusal()) } else { Ok(state) }
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

/// Enters a decision. With `follows` it belongs to the same request as the one before.
#[inline(always)]
fn enter(engine: &mut Engine, pulls: &mut [u64], pull: Pull, arm: u32, follows: bool) -> Decision {
    pulls[arm as usize] += 1;
    let ticket = engine.issue(pull, follows);
    Decision { ticket, propensity: pull.propensity, arm, phase: pull.phase() }
}

/// Every order has the same probability.
fn shuffle<T>(list: &mut [T], coins: &mut Random) {
    for left in (1..=list.len()).rev() {
        list.swap(coins.below(left as u64) as usize, left - 1);
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
    }
}

fn unplay(policy: &mut dyn Policy, pulls: &mut [u64], pull: Pull, learned: bool) {
    pulls[policy.arm_of(pull) as usize] -= 1;
    policy.unplay(pull);
    if learned {
        policy.cancel(pull);
    }
}

impl State {
    /// Decides a default request.
    #[inline(always)] // into its two callers
    pub fn select(&mut self) -> Decision {
        self.make_room(0);
        let pull = match self.engine.may_be_outage() {
            true => self.choose_in_outage(&Request::default(), 0).0,
            false => self.policy.choose(),
        };
        enter(&mut self.engine, &mut self.pulls, pull, pull.arm(), false)
    }

    /// Refuses a default request if the configuration requires a user, a segment or features.
    #[inline]
    pub fn check_plain(&self) -> Result<()> {
        match self.users {
            None if self.abilities.by_request => {
                Err(Error::unconfigured("a default request: config.max_segments or config.features is set"))
            }
            None if self.periods.is_ready() => Ok(()),
            None => Err(Error::NotStored),
            // The rewards of a decision without a user would be learned without a limit.
            Some(_) => Err(Error::unconfigured("a default request: config.expected_users is set")),
        }
    }

    /// Decides a request: passes its decisions to `each`, with their slots.
    #[inline(always)] // into its three callers: a decision that is returned through memory costs more than its choice
    pub fn decide(&mut self, request: &Request, each: &mut impl FnMut(usize, Decision)) -> Result<()> {
        self.check(request)?;
        if request.examined.is_some() {
            self.engine.reserve_lacks()?;
        }
        let learned = self.count(request.user);
        if request.slots > 1 || request.values.is_some() || request.examined.is_some() {
            self.decide_slots(request, learned, each);
            return Ok(());
        }
        self.make_room(0);
        let place = self.engine.next_place(0);
        let (pull, arm) = match self.engine.may_be_outage() {
            true => self.choose_in_outage(request, place),
            false => self.policy.choose_for(request, place),
        };
        each(0, self.issue(pull, arm, false, 0, learned));
        Ok(())
    }

    /// Chooses for a request of one slot if there may be an outage. What is cancelled teaches nothing, so the arm that is to
    /// be explored would be played until the outage ends. The policy plays its best arm instead.
    #[cold]
    #[inline(never)]
    fn choose_in_outage(&mut self, request: &Request, place: usize) -> (Pull, u32) {
        if self.engine.is_outage()
            && let Some(SlotPull { pull, .. }) = self.policy.choose_best(request, request.eligible, None, place)
        {
            return (pull, self.policy.arm_of(pull));
        }
        self.policy.choose_for(request, place)
    }

    #[inline(always)]
    fn issue(&mut self, pull: Pull, arm: u32, follows: bool, lack: u16, learned: bool) -> Decision {
        let decision = enter(&mut self.engine, &mut self.pulls, pull, arm, follows);
        if lack > 0 {
            self.engine.lack(lack);
            self.policy.lack(arm, lack);
        }
        if !learned {
            self.health.count_unlearned();
            let pull = self.engine.idle();
            self.policy.cancel(pull);
        }
        decision
    }

    /// Decides all slots of a checked request of several, or with values or positions.
    #[inline(never)]
    fn decide_slots(&mut self, request: &Request, learned: bool, each: &mut dyn FnMut(usize, Decision)) {
        (0..request.slots.into()).for_each(|ahead| self.make_room(ahead));
        let Some(mut scratch) = self.scratch.take() else { return };
        let Scratch { left, free, chosen, values, coins, .. } = &mut *scratch;
        let values = request.values.map(|_| &*values);
        chosen.clear();
        let is_outage = self.engine.is_outage();
        let mut places = (0..request.slots.into()).map(|ahead| self.engine.next_place(ahead));
        if is_outage {
            for place in places.clone() {
                let Some(slot) = self.policy.choose_best(request, Some(left), values, place) else { break };
                let arm = self.policy.arm_of(slot.pull);
                left.retain(|&other| other != arm);
                chosen.push(slot);
            }
        }
        if chosen.is_empty() {
            let offer = Offer { request, left, values, places: &mut places };
            self.policy.choose_slots(offer, &mut |slot| chosen.push(slot));
        }
        free.clear();
        free.extend(0..request.slots);
        shuffle(free, coins);
        if let Some(examined) = request.examined {
            // Arms without a mean come first, and keep slots at random.
            let worth = |chosen: &SlotPull| if chosen.worth.is_nan() { f64::INFINITY } else { chosen.worth };
            shuffle(chosen, coins); // so that ties are at random
            chosen.sort_unstable_by(|a, b| f64::total_cmp(&worth(b), &worth(a)));
            let known = chosen.iter().filter(|chosen| worth(chosen).is_finite()).count();
            free[..known].sort_unstable_by(|&a, &b| f64::total_cmp(&examined[a as usize], &examined[b as usize]));
        }
        for (number, (&SlotPull { pull, .. }, &slot)) in chosen.iter().zip(free.iter().rev()).enumerate() {
            let arm = self.policy.arm_of(pull);
            each(slot as usize, self.issue(pull, arm, number > 0, request.lack(slot), learned));
        }
        self.scratch = Some(scratch);
    }

    /// Checks that a request may be decided. Changes nothing.
    pub fn check(&mut self, request: &Request) -> Result<()> {
        self.check_user(request.user)?;
        if request.slots == 0 {
            return Err(Error::request("slots", "must be at least 1", 0u32));
        }
        self.check_eligible(request)?;
        if self.abilities.by_request || request.segment != 0 || request.features.is_some() {
            self.policy.check(request)?;
        }
        let is_plain = request.slots == 1 && request.values.is_none() && request.examined.is_none();
        if is_plain { Ok(()) } else { self.check_slots(request) }
    }

    /// Checks the eligible arms of a request.
    pub fn check_eligible(&mut self, request: &Request) -> Result<()> {
        let Some(arms) = request.eligible else { return Ok(()) };
        self.check_live(arms, "eligible", "eligible arms: its arms are fixed")?;
        if arms.is_empty() { Err(Error::request("eligible_len", "must be at least 1", 0u32)) } else { Ok(()) }
    }

    fn check_slots(&mut self, request: &Request) -> Result<()> {
        let slots = u64::from(request.slots);
        let unsupported = || Error::unsupported_number("slots", slots, "it has one slot for each request");
        let can_slots = self.abilities.arms && (slots == 1 || self.abilities.slots);
        if request.values.is_some() && !self.abilities.values {
            return Err(Error::unsupported("values: it maximises rewards"));
        }
        if let Some(examined) = request.examined {
            self.check_examined(request, examined)?;
        }
        let (Some(scratch), true) = (&mut self.scratch, can_slots) else { return Err(unsupported()) };
        let policy = &*self.policy;
        let mut what = "the number of eligible arms";
        if request.values.is_some() {
            if !scratch.from_zero {
                return Err(Error::unconfigured("values: config.reward_min is not 0"));
            }
            scratch.values.list(request, |arm| policy.is_live(arm), &mut scratch.left)?;
            what = "the number of eligible arms of positive value";
        } else {
            scratch.list(request.eligible, self.pulls.len() as u32, |arm| policy.is_live(arm));
        }
        let (arms, most, reach) = (scratch.left.len() as u64, u64::from(scratch.most), self.engine.reach());
        let at_most = |most: u64, what| Err(Error::request("slots", &format!("must be at most {most}, {what}"), slots));
        if slots > arms {
            return at_most(arms, what);
        }
        if most > 0 && slots > most {
            return at_most(most, "which is config.max_slots");
        }
        if most == 0 && slots > 1 && self.users.is_some() {
            return at_most(1, "because config.expected_users is set and config.max_slots is 0");
        }
        if slots > reach {
            return at_most(reach, "the number of decisions that can be open");
        }
        Ok(())
    }

    /// Checks the positions of a request.
    fn check_examined(&mut self, request: &Request, examined: &[f64]) -> Result<()> {
        if !self.abilities.examined {
            return Err(match self.abilities.by_request {
                true if request.features.is_none() => {
                    Error::unconfigured("examined: segments count rewards, not examinations")
                }
                _ => Error::unsupported("examined: it counts rewards, not examinations"),
            });
        }
        if self.scratch.as_ref().is_some_and(|scratch| !scratch.from_zero) {
            return Err(Error::unconfigured("examined: config.reward_min is not 0"));
        }
        request.check_examined(examined)
    }

    /// Checks that these arms can be played, and that the policy supports `what`. `field` has the arms.
    pub fn check_live(&mut self, arms: &[u32], field: &'static str, what: &'static str) -> Result<()> {
        if self.abilities.arms { self.check_arms(arms, field) } else { Err(Error::unsupported(what)) }
    }

    /// Checks that these arms exist and are not retired. `field` has them.
    pub fn check_arms(&mut self, arms: &[u32], field: &'static str) -> Result<()> {
        for &arm in arms {
            if arm as usize >= self.pulls.len() {
                return Err(Error::request(field, &format!("must be below {}", self.pulls.len()), arm));
            }
            if !self.policy.is_live(arm) {
                return Err(Error::request(field, "must not be a retired arm", arm));
            }
        }
        Ok(())
    }

    /// Checks that this user may make a request now. A handle that counts no users accepts only user 0.
    fn check_user(&self, user: u64) -> Result<()> {
        match self.users {
            None if user != 0 => Err(Error::unconfigured_number("user", user, "config.expected_users is 0")),
            _ if self.periods.is_ready() => Ok(()),
            _ => Err(Error::NotStored),
        }
    }

    /// Counts a request of this user. Returns whether to learn from it: see [`crate::users`].
    fn count(&mut self, user: u64) -> bool {
        let Some(users) = &mut self.users else { return true };
        self.periods.may_learn() && users.count(user)
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
        if self.health.is_due(self.engine.counts().decisions) {
            self.health.look(self.engine.counts(), self.users.is_some());
        }
        if let Some(event) = self.engine.make_room(ahead) {
            self.apply(event);
        }
    }

    /// Takes a reward; `None` is an invalid one.
    #[inline(always)] // into its two callers
    pub fn update(&mut self, ticket: u64, reward: Option<Reward>) -> Result<()> {
        let Some(reward) = reward else {
            self.engine.count_rejected();
            return Err(Error::InvalidReward);
        };
        if let Some(event) = self.engine.answer(ticket, reward)? {
            self.apply(event);
        }
        Ok(())
    }

    pub fn cancel(&mut self, ticket: u64) -> Result<()> {
        let event = self.engine.cancel(ticket)?;
        self.apply(event);
        Ok(())
    }

    pub fn cancel_all(&mut self) {
        for sequence in self.engine.in_flight() {
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
        engine.settle(|event| apply(&mut **policy, pulls, health, event));
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
            Some(contributions) => (loss_of_request(self.policy.privacy(), config), contributions),
            None => (PrivacyLoss::Unbounded, m), // more than are ever given
        }
    }

    pub fn shuffled(&mut self) -> Result<&mut dyn ShuffledPolicy> {
        self.policy.shuffled().ok_or_else(|| Error::unsupported("a shuffled batch: it is not of the shuffle model"))
    }

    /// Takes over the origin of an earlier handle, and the arms that were added to it.
    pub fn take_over(&mut self, origin: u64, added: Vec<u64>) -> Result<()> {
        self.origin = origin;
        for id in added {
            ensure(self.arms()?.find(id).is_none())?;
            self.add_arm(id)?;
        }
        Ok(())
    }

    /// The arms of a policy that can add some.
    pub fn arms(&mut self) -> Result<&Arms> {
        Ok(self.policy.learner().ok_or_else(fixed_arms)?.arms())
    }

    /// Adds an arm with this id, which no other arm here has.
    pub fn add_arm(&mut self, id: u64) -> Result<u32> {
        let arm = self.pulls.len() as u32;
        if arm >= Config::MAX_ARMS {
            return Err(Error::config("arms", "must be at most 2^24", u64::from(arm) + 1));
        }
        self.pulls.reserve()?;
        if let Some(scratch) = &mut self.scratch {
            scratch.reserve(self.pulls.len() + 1)?;
        }
        self.policy.learner().ok_or_else(fixed_arms)?.add(id)?;
        self.pulls.push(0);
        self.scratch.iter_mut().for_each(|scratch| scratch.values.push());
        Ok(arm)
    }
}

/// The error of a policy that cannot add arms.
pub(super) fn fixed_arms() -> Error {
    Error::unsupported("new arms: its arms are fixed")
}
