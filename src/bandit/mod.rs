//! The handle: a configuration, one short lock, and behind it the engine and a policy.

mod combine;
mod fleet;
mod health;
mod moving;
mod persist;
mod report;
mod state;
mod statement;
mod tables;

use crate::budget::check_delta;
use crate::config::{Config, PackedConfig};
use crate::engine::Engine;
use crate::error::{Error, Result, Value, check_share, within};
use crate::ledger::roster::Roster;
use crate::memory::WipedVec;
use crate::policy::{Algorithm, PolicyCounts, Prior, lift, price_of_merges};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::request::{Offers, Request};
use crate::reward::RewardRange;
use crate::shuffle::Params;
use crate::users::{Periods, Users};
use fleet::Sharing;
use health::Health;
use moving::Lifecycle;
use state::{Lock, State, catalog};
use tables::Versions;

pub use health::Warnings;
pub use report::{ArmReport, Diagnostics, Report, Verdict};
pub use state::Decision;
pub use statement::Statement;

/// A differentially private multi-armed bandit: plain, with segments, or with features, as its configuration says.
/// Share it between threads by reference. In a forked child every call on it is `Poisoned`: make handles after forking.
///
/// ```
/// # use dpb::{Algorithm, Bandit, Config};
/// # fn main() -> Result<(), dpb::Error> {
/// let bandit = Bandit::new(Algorithm::RECOMMENDED, &Config::new(10, 1.0))?;
/// let ad = bandit.select()?;
/// bandit.update(ad.ticket, 1.0)?; // a click
/// assert_eq!(bandit.report()?.counts.answered, 1);
/// # Ok(())
/// # }
/// ```
///
/// With segments one handle learns for each placement, and a new placement starts with what the others know:
///
/// ```
/// # use dpb::{Algorithm, Bandit, Config, Request};
/// # fn main() -> Result<(), dpb::Error> {
/// let config = Config { max_segments: 2000, reward_window: 1000, ..Config::new(20, 1.0) };
/// let bandit = Bandit::new(Algorithm::RECOMMENDED, &config)?;
/// let ad = bandit.select_for(&Request { segment: 17, ..Request::default() })?; // placement 17
/// bandit.update(ad.ticket, 1.0)?;
/// bandit.for_each_arm_in(17, |arm, released| println!("ad {arm}: {}", released.mean))?;
/// # Ok(())
/// # }
/// ```
pub struct Bandit {
    algorithm: Algorithm,
    config: PackedConfig,
    /// Number of restores before this handle, each from a snapshot of the handle before.
    generation: u32,
    range: RewardRange,
    lock: Lock,
}

impl AsRef<Bandit> for Bandit {
    fn as_ref(&self) -> &Bandit {
        self
    }
}

impl Bandit {
    /// Creates a bandit.
    ///
    /// # Errors
    /// `InvalidConfig` naming the field and the value; `Entropy` if the operating system gives no randomness;
    /// `NoMemory`; `OverBudget` if the configuration's budget is too small.
    pub fn new(algorithm: Algorithm, config: &Config) -> Result<Bandit> {
        let has_rows = !config.private_features || config.codebook.is_some();
        Error::unless(has_rows, "codebook", "must be set with private_features", Value::Null)?;
        let mut bandit = Self::made(algorithm, config)?;
        bandit.charge(config, false)?;
        Ok(bandit)
    }

    /// Charges the budget, if there is one, with what a handle may cost one user over all restarts. This is the last
    /// step of making a handle. `continues`: from the state of a handle that was charged.
    fn charge(&mut self, config: &Config, continues: bool) -> Result<()> {
        let Some(budget) = &config.budget else { return Ok(()) };
        let state = self.lock.get_mut()?;
        let loss = match state.seeded {
            true => PrivacyLoss::Unbounded,
            false => state.loss_of_unit(self.algorithm.lifetime_loss(config)?, config),
        };
        budget.charge_handle(state.origin, continues, loss)
    }

    /// Creates a bandit without charging the budget.
    fn made(algorithm: Algorithm, config: &Config) -> Result<Bandit> {
        let range = config.check()?;
        let mut seed = Seed::new(config.test_seed)?;
        let mut policy = algorithm.build(config, &mut seed)?;
        let abilities = algorithm.abilities(config);
        let range = if algorithm.takes_bits() { range.of_bits() } else { range };
        // The key of the tickets comes from the operating system even with a test seed: see engine::ticket.
        let mut tickets = Seed::new(None)?.stream();
        let mut engine = Engine::new(config, &mut tickets)?;
        if algorithm.needs_full_pulls() {
            engine.recall()?;
        }
        if config.max_clicks > 0 {
            engine.limit_clicks(config.max_clicks, seed.stream())?;
        }
        let coins = (abilities.slots || abilities.values).then(|| seed.stream());
        let arms = catalog(&mut *policy).arms.map_or(0, Roster::arms);
        let offers = Offers::new(config, abilities, arms, coins)?;
        // Created last, so that a test seed gives everything else the same coins with users and without.
        let users = Users::of(config, &mut seed)?;
        let (origin, mut sharing) = (tickets.next_u64(), None);
        let tables = Versions::of(config, &mut tickets)?;
        if let Some(key) = &config.fleet_key {
            sharing = Some(Box::new(Sharing::new(key.clone(), Seed::new(None)?.stream())?));
        }
        Ok(Bandit {
            algorithm,
            config: PackedConfig::of(config),
            generation: 0,
            range,
            lock: Lock::new(State {
                engine,
                policy,
                pulls: WipedVec::new(config.arms as usize, |_| 0)?,
                is_private: config.private_features,
                origin,
                sharing,
                offers,
                seeded: config.test_seed.is_some(),
                is_plain: users.is_none()
                    && config.max_segments == 0
                    && config.features == 0
                    && config.control_share == 0.0,
                users,
                tables,
                periods: Periods::first(config),
                health: Health::default(),
                receivers: Vec::new(),
                lifecycle: Lifecycle::Active,
            }),
        })
    }

    /// As [`Algorithm::sets_rounding`].
    pub(crate) fn sets_rounding(&self) -> bool {
        self.config.config().is_ok_and(|config| self.algorithm.sets_rounding(&config))
    }

    /// Chooses an arm for a default request. O(1) for phased policies, O(K) for index policies; never allocates.
    ///
    /// # Errors
    /// `Unsupported` if the configuration needs a user, a segment or features; `NotStored` for a restored handle
    /// that counts users, until a snapshot of it is [`stored`](Self::stored); `Poisoned` after an internal failure.
    #[inline]
    pub fn select(&self) -> Result<Decision> {
        let state = &mut *self.lock.lock()?;
        if state.is_plain() {
            return Ok(state.select());
        }
        state.check_default()?;
        state.decide_one(&Request::default())
    }

    /// Passes `n` such decisions to `each`, with their numbers, under one lock.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn select_n(&self, n: usize, mut each: impl FnMut(usize, Decision)) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        if state.is_plain() {
            (0..n).for_each(|number| each(number, state.select()));
            return Ok(());
        }
        state.check_default()?;
        (0..n).try_for_each(|number| state.decide_one(&Request::default()).map(|decision| each(number, decision)))
    }

    /// Decides a request of one slot. O(1), or O(n) for n eligible arms; never allocates on success.
    ///
    /// With [`expected_users`](Config::expected_users) the handle learns from the first `contributions_per_user`
    /// requests of a user in a period. Later ones look the same to everybody: they are served and counted, and
    /// their rewards are accepted once and discarded. A decision that is cancelled or expires counts towards the
    /// limit. The theorem is in [`crate::privacy`].
    ///
    /// # Errors
    /// `InvalidRequest`: an arm that does not exist or is retired, no arm at all, slots other than 1, features;
    /// `Unsupported` for what this handle or its policy does not support; `Full` for a new segment beyond
    /// `max_segments`; `NotStored` for a restored handle that counts users, until a snapshot of it is
    /// [`stored`](Self::stored); `Poisoned` after an internal failure. Nothing has changed or been counted.
    ///
    /// ```
    /// # use dpb::{Algorithm, Bandit, Config, Request};
    /// # fn main() -> Result<(), dpb::Error> {
    /// let bandit = Bandit::new(Algorithm::RECOMMENDED, &Config::new(10, 1.0))?;
    /// let decision = bandit.select_for(&Request { eligible: Some(&[3, 4, 7]), ..Request::default() })?;
    /// assert!([3, 4, 7].contains(&decision.arm));
    /// # Ok(())
    /// # }
    /// ```
    pub fn select_for(&self, request: &Request) -> Result<Decision> {
        if request.slots != 1 {
            return Err(Error::request("slots", "must be 1 here: see Bandit::select_slots", request.slots));
        }
        self.lock.lock()?.decide_one(request)
    }

    /// Decides a request of any number of slots: passes one decision for each slot to `each`, with the slot. The
    /// arms are different. The slots are shuffled: every order of the drawn arms has the same probability, so a
    /// slot reveals nothing about its arm. With [`Request::examined`] the slots that most visitors examine get the best
    /// arms, as releases know them. A propensity is the exact probability of the arm in its draw, given the
    /// draws before it. Each decision gets its reward, or is cancelled, by itself. [`Config::max_slots`] chooses
    /// the unit of privacy, a reward or the request: see [`crate::privacy::slates`]. O(slots n) for n eligible
    /// arms; never allocates on success.
    ///
    /// # Errors
    /// As [`select_for`](Self::select_for); `InvalidRequest` if there are more slots than eligible arms, than
    /// [`Config::max_slots`] unless that is 0, or than pending decisions.
    pub fn select_slots(&self, request: &Request, mut each: impl FnMut(usize, Decision)) -> Result<()> {
        self.lock.lock()?.decide(request, &mut each)
    }

    /// Decides many requests under one lock, until one is refused; `done` counts those before it. Slots are
    /// numbered on from request to request.
    ///
    /// # Errors
    /// As [`select_slots`](Self::select_slots), for the refused request.
    pub fn select_many<'a>(
        &self,
        requests: impl IntoIterator<Item = Result<Request<'a>>>,
        mut each: impl FnMut(usize, Decision),
        done: &mut usize,
    ) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        let mut first = 0;
        for request in requests {
            let request = request?;
            state.decide(&request, &mut |slot, decision| each(first + slot, decision))?;
            first += request.slots as usize;
            *done += 1;
        }
        Ok(())
    }

    /// Returns why [`select_slots`](Self::select_slots) would refuse a request now. Changes and counts nothing.
    ///
    /// # Errors
    /// As [`select_slots`](Self::select_slots).
    pub fn check_request(&self, request: &Request) -> Result<()> {
        self.lock.lock()?.check(request)
    }

    /// Begins a new period: the handle may again learn from
    /// [`contributions_per_user`](Config::contributions_per_user) decisions of every user, and
    /// [`epsilon_spent`](Self::epsilon_spent) grows by one period. A decision counts for the period in which it was
    /// made. Clears the counters, a millisecond for ten megabytes.
    ///
    /// Take a [`snapshot`](Self::snapshot) at once, write it, and call [`stored`](Self::stored). Until then the handle
    /// learns from nobody, because a program that is killed would restore an earlier snapshot, which does not count this
    /// period. (A policy without snapshots learns at once.)
    ///
    /// # Errors
    /// `Unsupported` without [`expected_users`](Config::expected_users), and while a [`sticky`](Config::sticky) test goes
    /// on, because it learns from first visits; `OverBudget` if all [`budget_periods`](Config::budget_periods) have
    /// begun, and the last one continues; `Poisoned` after an internal failure.
    pub fn next_period(&self) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        let goes_on = || state.policy.counts().test.is_some_and(|(test, _)| !test.has_ended());
        if self.config.config()?.sticky > 0 && goes_on() {
            return Err(Error::unconfigured("a new period: config.sticky is set, and the test goes on"));
        }
        state.next_period()?;
        if !state.has_snapshots() {
            state.periods.store(state.periods.begun); // no restart goes back
        }
        Ok(())
    }

    /// Adds an arm, and returns its number. Numbers are never used again. May allocate. No other handle has this
    /// arm; an arm that handles share needs an id.
    ///
    /// # Errors
    /// `InvalidConfig` beyond 2^24 arms; `Unsupported` for policies whose set of arms is fixed; `NoMemory`: nothing
    /// has changed; `Poisoned` after an internal failure.
    pub fn add_arm(&self) -> Result<u32> {
        let state = &mut *self.lock.lock()?;
        let origin = state.origin;
        let id = state.arms()?.any_id(origin);
        state.add_arm(id)
    }

    /// Returns the number of the arm with this id, which names it in all handles of a fleet, and adds the arm if
    /// there is none. Take ids from your catalogue (an ad's own number, or a hash of its name), at least
    /// [`Config::arms`]: the first arms have their numbers as ids. Otherwise as [`add_arm`](Self::add_arm).
    ///
    /// # Errors
    /// As [`add_arm`](Self::add_arm); `InvalidConfig` for an id below [`Config::arms`]; `InvalidRequest` for the id
    /// of a retired arm.
    pub fn add_arm_as(&self, id: u64) -> Result<u32> {
        let (state, config) = (&mut *self.lock.lock()?, self.config.config()?);
        if id < u64::from(config.arms) {
            let rule = format!("must not be below config.arms = {}, whose arms have these ids", config.arms);
            return Err(Error::config("id", &rule, id));
        }
        match state.arms()?.find(id).map(|arm| arm as u32) {
            Some(arm) if state.check_arm(arm, "id").is_err() => {
                Err(Error::request("id", "must not be that of a retired arm", id))
            }
            Some(arm) => Ok(arm),
            None => state.add_arm(id),
        }
    }

    /// States what public data say of an arm, such as last season's rates: `strength` rewards with this mean.
    /// Learning starts from it. A prior made from public data costs no privacy; one made from private sums would
    /// reveal them without noise.
    ///
    /// A wrong prior costs little: it counts against an arm for at most a quarter of the evidence that the policy
    /// requires, and releases that contradict it end it. It makes no batch larger, is in no report and in nothing
    /// that others merge, ages by [`Config::forget_after`], and is kept by snapshots. A second call for the same
    /// arm replaces the first.
    ///
    /// # Errors
    /// `InvalidRequest` for an arm that does not exist or is retired; `InvalidConfig` for a mean outside the
    /// declared range, and a strength not in 1..=2^24; `Unsupported` by other policies than DP-IMED,
    /// DP-MED and, with a model for each arm, dp-linear; `Poisoned` after an internal failure. Nothing has changed.
    pub fn set_prior(&self, arm: u32, mean: f64, strength: f64) -> Result<()> {
        let prior = Prior::new(self.range, mean, strength)?;
        let (state, config) = (&mut *self.lock.lock()?, self.config.config()?);
        let learner = state.check_live(arm, "a prior")?;
        self.algorithm.check_prior(&config)?;
        learner.set_prior(arm, prior);
        Ok(())
    }

    /// Retires an arm: it is never played again. Rewards of its open decisions are accepted as before.
    ///
    /// # Errors
    /// `InvalidRequest` if there is no such arm, if it is retired already, or if it is the last one or the control
    /// ([`control_share`](Config::control_share)); `Unsupported` for policies whose set of arms is fixed; `Poisoned`
    /// after an internal failure.
    pub fn retire_arm(&self, arm: u32) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        let learner = state.check_live(arm, "retiring an arm: its arms are fixed")?;
        if arm == 0 && self.config.config()?.control_share > 0.0 {
            return Err(Error::request("arm", "must not be the control", arm));
        }
        // (Not all live arms are active: a test that has stopped has one active arm.)
        if learner.catalog().arms.is_some_and(|roster| roster.live().len() == 1) {
            return Err(Error::request("arm", "must not be the last one", arm));
        }
        learner.retire_arm(arm);
        Ok(())
    }

    /// Reports the reward of a decision. A ticket takes one reward.
    ///
    /// A refused reward leaves its decision open, so report a valid one; [`Config::clamp_rewards`] makes that
    /// unnecessary for a reward out of range. Without a `reward_window` an open decision expires one day, and public
    /// counts (expired, an arm's pulls) then reveal that its reward was refused.
    ///
    /// The result is for the caller alone: it reveals whether a ticket had a reward already. Give a visitor who reports
    /// a click the same response for every result.
    ///
    /// # Errors
    /// `InvalidReward`, `UnknownTicket`, `Duplicate`, `Expired`: nothing changed but a counter of
    /// [`diagnostics`](Self::diagnostics). `Poisoned` after an internal failure.
    #[inline]
    pub fn update(&self, ticket: u64, reward: f64) -> Result<()> {
        self.update_part(ticket, 0, reward)
    }

    /// Reports a part of the reward of a decision: with [`Config::parts`] a ticket takes each part once, in any order, until
    /// its `reward_window` is over. `value` is in the part's own unit, of any sign; its weight is in
    /// [`Config::part_weights`]. Otherwise part 0 is the reward. Never allocates if it is accepted.
    ///
    /// A part counts up to 15 times the length of the declared range. Beyond that it is refused, or with
    /// [`Config::clamp_rewards`] counts as so much. The sum is moved into the range at the end of the window, never before:
    /// so a return undoes a purchase in either order.
    ///
    /// # Errors
    /// As [`update`](Self::update), where `Duplicate` says that the ticket has this part; `InvalidConfig` for a part that
    /// does not exist.
    ///
    /// ```
    /// # use dpb::{Algorithm, Bandit, Config};
    /// # fn main() -> Result<(), dpb::Error> {
    /// let mut config = Config { parts: 3, reward_window: 1000, ..Config::new(10, 1.0) };
    /// config.part_weights[..3].copy_from_slice(&[0.1, 0.01, -0.01]); // a click, a euro bought, a euro returned
    /// let shop = Bandit::new(Algorithm::RECOMMENDED, &config)?;
    /// let ad = shop.select()?;
    /// shop.update_part(ad.ticket, 0, 1.0)?; // a click
    /// shop.update_part(ad.ticket, 1, 39.90)?;
    /// assert_eq!(shop.update_part(ad.ticket, 1, 39.90), Err(dpb::Error::Duplicate));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn update_part(&self, ticket: u64, part: u32, value: f64) -> Result<()> {
        let whole = self.range.quantize(value); // before the lock, so that others wait for less
        self.lock.lock()?.report_part(ticket, part, value, whole)
    }

    /// Reports many rewards under one lock; `each` gets the result of each.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure: `each` was not called.
    pub fn update_many(
        &self,
        answers: impl Iterator<Item = (u64, f64)>,
        mut each: impl FnMut(Result<()>),
    ) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        for (ticket, reward) in answers {
            each(state.report_part(ticket, 0, reward, self.range.quantize(reward)));
        }
        Ok(())
    }

    /// Cancels a decision whose arm was not played: the decision counts as not made. With a `reward_window` a reward
    /// that has arrived is dropped with it, and the result does not reveal whether it had arrived.
    ///
    /// # Errors
    /// `UnknownTicket`, `Duplicate` (cancelled already; without a window also: has a reward), `Expired`: nothing
    /// changed but a counter of [`diagnostics`](Self::diagnostics). `Poisoned` after an internal failure.
    #[inline]
    pub fn cancel(&self, ticket: u64) -> Result<()> {
        self.lock.lock()?.cancel(ticket)
    }

    /// Cancels every open decision, also those whose reward has arrived and waits for its window. Use it in an
    /// outage in which rewards could not arrive, so that silence does not count. From the 256th decision in a row that is
    /// cancelled until the next reward takes effect, recommended policies play the arm with the largest released mean. A
    /// cancelled decision still counts towards its user's limit.
    ///
    /// The call costs no privacy if *when* it is made does not depend on rewards. Its effect depends on none: a
    /// decision with a waiting reward ends like one without. Never call it because of the values or the number of
    /// rewards. O(`reward_window`), or O(`pending_capacity`) without one; never allocates.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn cancel_all(&self) -> Result<()> {
        self.cancel_since(0)
    }

    /// Cancels every open decision that was made at tick `from` or later, as [`cancel_all`](Self::cancel_all) does. For an
    /// outage of which it is known when it began: what is missing of older decisions is few rewards, of all arms alike.
    /// [`ticks`](Self::ticks) shows the time.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn cancel_since(&self, from: u64) -> Result<()> {
        self.lock.lock()?.cancel_since(from);
        Ok(())
    }

    /// The time on this handle's clock, in which `reward_window` is: the number of decisions, or the caller's time, from
    /// which leaps are taken out. It never goes back.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn ticks(&self) -> Result<u64> {
        Ok(self.lock.lock()?.engine.ticks())
    }

    /// Sets the time on the caller's clock ([`Config::clock`]), in any unit, such as milliseconds since 1970.
    /// Rewards whose [`reward_window`](Config::reward_window) is over take effect, in ticket order, and releases
    /// age. The first call begins the time, and ends the windows of all decisions before it.
    ///
    /// A decision is stamped with the time of the last call. So call this before each decision, and by a timer. A
    /// decision's window is over in the first call with `now` >= its stamp + `reward_window`.
    ///
    /// A `now` that is slightly earlier than the last one changes nothing, because calls of several threads may
    /// overtake each other. After a leap, time continues from the new `now`, so a clock that was wrong for a while
    /// costs little. A leap is a step back by more than the `reward_window` and 1/1024 of
    /// [`forget_after`](Config::forget_after), in which no time passes; or, with `forget_after`, a step ahead by more
    /// than 16 times the larger of the two, in which one `reward_window` passes. [`Report`] counts them.
    ///
    /// **Time is public, and must not depend on rewards.** Which rewards take effect in a call depends on the
    /// stamps of their decisions and on the calls so far, never on rewards or their times. The clock continues over
    /// [snapshots](Self::snapshot): use one that does too, and keep its unit. The time since the machine started
    /// does not.
    ///
    /// O(1) for each decision that ends and one release for each full batch: a jump of years costs no more than the
    /// open decisions. Never allocates.
    ///
    /// # Errors
    /// `Unsupported` if the clock is not the caller's; `Poisoned` after an internal failure.
    pub fn advance(&self, now: u64) -> Result<()> {
        self.lock.lock()?.advance(now)
    }

    /// Lets so many ticks of the handle's clock pass without decisions. Rewards whose
    /// [`reward_window`](Config::reward_window) is over take effect, in ticket order. For a handle that decides nothing
    /// more, such as one that a process keeps for another one that has ended: its windows would never end otherwise.
    ///
    /// Where a tick is a decision, a skipped tick counts as a decision that was cancelled at once, in
    /// [`Counts`](crate::Counts) too. More ticks than the window has have no further effect, and releases do not age. With
    /// the caller's clock it is [`advance`](Self::advance) to a time that is as much later.
    ///
    /// **Time is public, and must not depend on rewards**, as for [`advance`](Self::advance). O(`reward_window`) where
    /// ticks are decisions; never allocates.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn skip(&self, ticks: u64) -> Result<()> {
        self.lock.lock()?.skip(ticks);
        Ok(())
    }

    /// Returns the parameters of the devices and the shuffler for the batches of a phase (shuffle model).
    ///
    /// # Errors
    /// `Unsupported` by policies of other models; `Poisoned` after an internal failure.
    pub fn shuffle_params(&self, phase: u32) -> Result<Params> {
        self.lock.lock()?.policy.shuffled(phase, None)
    }

    /// Submits the shuffled bits of one arm's batch in the open phase, one byte of 0 or 1 each. The tickets of those
    /// decisions then get no reward by [`update`](Self::update): they expire.
    ///
    /// # Errors
    /// `Expired` for a phase that is over and for an eliminated arm; `NotReady` for a phase that has not begun;
    /// `Duplicate` if that arm's batch of the phase was submitted already; `InvalidConfig` for an arm that does not
    /// exist, a wrong length or a byte other than 0 or 1; `Unsupported` by policies of other models, and once an
    /// [`update`](Self::update) took effect; `Poisoned` after an internal failure. On an error nothing has changed.
    pub fn submit_shuffled(&self, phase: u32, arm: u32, bits: &[u8]) -> Result<()> {
        self.lock.lock()?.policy.shuffled(phase, Some((arm, bits))).map(drop)
    }

    /// Calls `each` with the estimated mean reward of each row of a request with features, and its standard deviation,
    /// in the caller's units. Both are functions of releases. With a model for each arm: of each eligible arm.
    ///
    /// # Errors
    /// As [`select_for`](Self::select_for); `Unsupported` without features.
    pub fn predict(&self, request: &Request, each: impl FnMut(f64, f64)) -> Result<()> {
        self.predict_within(request, usize::MAX, each).map(drop)
    }

    /// Like [`predict`](Self::predict), if there are at most `limit` predictions. Otherwise `each` is not called, and the
    /// error states the number. Returns it.
    ///
    /// # Errors
    /// `BufferTooSmall`; as [`predict`](Self::predict).
    pub fn predict_within(&self, request: &Request, limit: usize, mut each: impl FnMut(f64, f64)) -> Result<usize> {
        let state = &mut *self.lock.lock()?;
        if state.offers.features() == 0 {
            return Err(Error::unconfigured("features: config.features is 0"));
        }
        let needed = request.eligible.map_or(state.pulls.len(), <[u32]>::len);
        if request.features.is_some() {
            within(limit, needed)?;
        }
        state.predict(request, &mut |mean, deviation| {
            each(self.range.mean_from_unit(mean), self.range.width_from_unit(deviation));
        })?;
        Ok(needed)
    }

    /// Calls `each` with the weight of each feature in the model of this arm, and its standard deviation; then with the
    /// intercept. A weight is the change of the logit of the mean reward for one unit of the feature. Weights are functions
    /// of releases and rows. With one model for all arms, every arm has its weights. Takes O(features^3), with the lock held.
    ///
    /// # Errors
    /// `InvalidRequest` for an arm that does not exist or is retired; `Unsupported` without features; `Poisoned` after an
    /// internal failure.
    pub fn feature_weights(&self, arm: u32, each: impl FnMut(f64, f64)) -> Result<()> {
        self.feature_weights_within(arm, usize::MAX, each).map(drop)
    }

    /// Like [`feature_weights`](Self::feature_weights), if there are at most `limit` weights. Otherwise `each` is not called,
    /// and the error states the number. Returns it.
    ///
    /// # Errors
    /// `BufferTooSmall`; as [`feature_weights`](Self::feature_weights).
    pub fn feature_weights_within(&self, arm: u32, limit: usize, mut each: impl FnMut(f64, f64)) -> Result<usize> {
        let state = &mut *self.lock.lock()?;
        if state.offers.features() == 0 {
            return Err(Error::unconfigured("features: config.features is 0"));
        }
        state.check_arm(arm, "arm")?;
        let needed = within(limit, state.offers.features() + 1)?;
        state.policy.feature_weights(arm, &mut each);
        Ok(needed)
    }

    /// Returns the reports of [`for_each_arm`](Self::for_each_arm) in a vector.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn arm_reports(&self) -> Result<Vec<ArmReport>> {
        let mut reports = Vec::new();
        self.for_each_arm(|_, report| reports.push(report))?;
        Ok(reports)
    }

    /// Returns the arm that the policy has decided for.
    ///
    /// # Errors
    /// `NotReady` before that; `Unsupported` by policies that never decide; `Poisoned` after an internal failure.
    pub fn best_arm(&self) -> Result<u32> {
        let best = self.lock.lock()?.policy.counts().best;
        match best {
            Some(arm) => Ok(arm),
            None if self.algorithm.decides(&self.config.config()?) => Err(Error::NotReady),
            None => Err(Error::unsupported("a best arm: it never decides for one")),
        }
    }

    /// Returns an interval for the mean of arm i less that of arm j, in the caller's units, from releases alone. It is
    /// valid however often and whenever you ask: with probability at least `confidence`, all intervals that this handle
    /// ever returns for these two arms contain the true difference. It lies within -(max - min) and max - min.
    ///
    /// An arm's mean is the average expected reward over the rewards in its releases. If the arm's rate changes, it is
    /// the average over these rewards, in which batches with much noise count for less. DP-IMED,
    /// DP-MED and DP-TT learn from all releases, including merged ones; DP-SE keeps the last one of each arm. The theorem
    /// is in the source of the policies, in `compare`. A restored handle gives the guarantee for its own generation.
    /// When you merge, save or restore a handle must not depend on what was released.
    ///
    /// # Errors
    /// `NotReady` until both arms have a release; `InvalidRequest` for an arm that does not exist or is retired;
    /// `InvalidConfig` for i = j and a `confidence` outside (0, 1); `Unsupported` by other policies, and with
    /// `forget_after`; `Poisoned` after an internal failure.
    pub fn compare(&self, i: u32, j: u32, confidence: f64) -> Result<(f64, f64)> {
        check_share("confidence", confidence)?;
        Error::unless(i != j, "j", "must be another arm than i", j)?;
        let (of_i, of_j, counts) = {
            let state = &mut *self.lock.lock()?;
            state.check_arm(i, "i")?;
            state.check_arm(j, "j")?;
            (state.policy.sums(i)?, state.policy.sums(j)?, state.policy.counts())
        };
        // A union bound over both sides, and over what may be known after the m-th merge.
        let nats = (2.0 / (1.0 - confidence)).ln() + price_of_merges(counts.merges);
        let (low, high) = of_i.less(&of_j, nats);
        let (unit, of_mean) = self.unit_and_rounding(&counts);
        let rounding = 2.0 * of_mean;
        let in_units = |difference: f64| self.range.width_from_unit(unit * difference.clamp(-1.0, 1.0));
        Ok((in_units(low - rounding), in_units(high + rounding)))
    }

    /// The unit of released means, as a share of the range, and the most that rounding changes such a mean.
    fn unit_and_rounding(&self, counts: &PolicyCounts) -> (f64, f64) {
        // A clipped reward is rounded twice, and the second time by up to two units of the grid.
        let (unit, roundings) = counts.clip.map_or((1.0, 1.0), |clip| (clip, 3.0 / clip));
        (unit, roundings * self.range.rounding())
    }

    /// Returns an interval for what the policy has gained, from releases alone: the mean reward of the decisions so far,
    /// divided by that of a control, minus 1. (0.12, 0.19) says 12% to 19% better. The control is an arm, or an even draw of all
    /// arms that are not retired (`None`). Valid however often and whenever you ask: with probability at least `confidence`,
    /// all intervals that this handle ever returns contain the truth, for all controls together.
    ///
    /// It takes the mean of each arm for constant, and counts this handle's decisions ([`pulls`](ArmReport::pulls)). Values and
    /// costs of requests do not count. The theorem is in `docs/theory/lift.md`. Takes about a millisecond for each arm,
    /// outside the handle's lock. The upper end is infinite if the control's mean may be 0.
    ///
    /// With [`features`](Config::features) arms have no means. There it needs [`exploration`](Config::exploration), and
    /// compares samples: of the policy's own decisions, and of even draws, for the same requests, over all releases that
    /// the handle knows. Requests with values or several slots are in neither. It needs no constant means, and works with `forget_after`.
    ///
    /// # Errors
    /// `NotReady` before the first decision, and until each of the control's arms has a release; `InvalidRequest` for a
    /// control that does not exist or is retired; `InvalidConfig` for a `confidence` outside (0, 1); `Unsupported` by
    /// policies that [`compare`](Self::compare) does not support, with segments, with `forget_after`, and if `reward_min`
    /// is below 0; with features, if `exploration` is 0 or 1, and for an arm as control; `Poisoned` after an internal
    /// failure.
    pub fn lift(&self, control: Option<u32>, confidence: f64) -> Result<(f64, f64)> {
        check_share("confidence", confidence)?;
        let (arms, counts) = {
            let state = &mut *self.lock.lock()?;
            control.map_or(Ok(()), |arm| state.check_arm(arm, "control"))?;
            if self.range.mean_from_unit(0.0) < 0.0 {
                return Err(Error::unsupported("a lift: config.reward_min is below 0"));
            }
            if state.is_private {
                return Err(Error::unconfigured("a lift: with private_features nobody counts which arms were chosen"));
            }
            if catalog(&mut *state.policy).segments.is_some() {
                return Err(Error::unsupported("a lift: an arm has a mean of its own in each segment"));
            }
            (state.shown(control)?, state.policy.counts())
        };
        let (unit, rounding) = self.unit_and_rounding(&counts);
        let offset = self.range.mean_from_unit(0.0) / self.range.width_from_unit(unit);
        let nats = -(1.0 - confidence).ln() + price_of_merges(counts.merges);
        let (low, high) = lift::ratio(&arms, offset, rounding, nats);
        Ok((low - 1.0, high - 1.0))
    }

    /// Returns an upper bound of the privacy loss of one user so far at this delta. With
    /// [`expected_users`](Config::expected_users), of a user with requests in all periods so far.
    ///
    /// # Errors
    /// `InvalidConfig` if delta is not in `[0, 1)`; `Poisoned` after an internal failure.
    pub fn epsilon_spent(&self, delta: f64) -> Result<f64> {
        check_delta(delta)?;
        let (loss, contributions) = self.lock.lock()?.loss(&self.config.config()?);
        Ok(loss.epsilon(delta, contributions))
    }

    /// Returns the number of arms, including retired ones.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn arms(&self) -> Result<u32> {
        Ok(self.lock.lock()?.pulls.len() as u32)
    }

    /// Returns the policy.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
