//! The handle: a configuration, one short lock, and behind it the engine and a policy.

mod persist;
mod state;

use crate::config::{Config, PackedConfig};
use crate::engine::{Engine, Refusals};
use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::memory::WipedVec;
use crate::policy::{Algorithm, ArmState, Prior};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::request::Request;
use crate::reward::RewardRange;
use crate::shuffle::Params;
use crate::users::{Periods, Users};
use state::{Lock, Scratch, State};
use std::sync::atomic::{AtomicU32, Ordering};

pub use crate::engine::Counts;
pub use state::Decision;

/// What may be published about a handle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// The policy.
    pub algorithm: Algorithm,
    /// Counts of decisions.
    pub counts: Counts,
    /// The policy's epoch, phase or interval.
    pub phase: u32,
    /// Arms that are not eliminated.
    pub arms_active: u32,
    /// Privacy loss of one user so far at `delta_spent`; infinite for baselines. With [`Config::expected_users`]
    /// that of a user who came in all periods. With a test seed the loss that real entropy would have had.
    pub epsilon_spent: f64,
    /// The configured delta; 0 for a pure policy.
    pub delta_spent: f64,
    /// False for baselines and with a test seed.
    pub is_private: bool,
    /// Releases that contradicted their arm's past, and ended it.
    pub changes_detected: u64,
    /// With features: how often a model was not updated, and the last one stayed.
    pub failures: u64,
    /// Features of a row; 0 without features.
    pub features: u32,
    /// Each arm has a model, so that a request has one row.
    pub model_per_arm: bool,
    /// Segments in use; 0 without segments.
    pub segments: u32,
    /// The most segments.
    pub max_segments: u32,
}

/// What may be published about one arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArmReport {
    /// The released mean in the caller's units, NaN before the first release.
    pub mean: f64,
    /// Half-width of its confidence interval at 1 - beta.
    pub width: f64,
    /// Decisions for this arm that were not cancelled and did not expire, those that nobody learned from too.
    pub pulls: u64,
    /// Rewards behind the mean, 0 before the first release; each with its power where there is a memory.
    pub effective_pulls: f64,
    /// False once the arm is out of the race.
    pub active: bool,
}

/// Counts of refused calls. NOT private: a duplicate click is a click.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Answers or cancellations to a ticket that had one.
    pub duplicates: u64,
    /// Answers or cancellations to a ticket whose time was over.
    pub late: u64,
    /// Rewards that were not finite or out of range.
    pub rejected: u64,
    /// Tickets that this handle never issued.
    pub unknown: u64,
    /// Rows of features that were larger than `feature_norm`. (Features are public.)
    pub oversized: u64,
}

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
    /// Handles before this one, each from a snapshot of the last.
    lives: u32,
    /// d, and whether each arm has a model, so that a request has one row.
    features: u32,
    model_per_arm: bool,
    /// As many as in the state, for a request that is read while another holds the lock.
    arms: AtomicU32,
    range: RewardRange,
    lock: Lock,
}

impl Bandit {
    /// Makes a bandit.
    ///
    /// # Errors
    /// `InvalidConfig` naming the field and the value; `Entropy` if the operating system gives no randomness;
    /// `NoMemory`; `OverBudget` if the configuration's budget is too small.
    pub fn new(algorithm: Algorithm, config: &Config) -> Result<Bandit> {
        let bandit = Self::made(algorithm, config)?;
        config.charge(config.test_seed.is_some(), 1, |config| algorithm.lifetime_loss(config))?;
        Ok(bandit)
    }

    /// Makes a bandit that is not charged to its budget yet.
    fn made(algorithm: Algorithm, config: &Config) -> Result<Bandit> {
        let range = config.check()?;
        let mut seed = Seed::new(config.test_seed)?;
        let mut policy = algorithm.build(config, &mut seed)?;
        let range = if policy.takes_bits() { range.of_bits() } else { range };
        // Tickets are keyed by the operating system even under a test seed: see engine::ticket.
        let mut tickets = Seed::new(None)?.stream();
        let mut engine = Engine::new(config, &mut tickets)?;
        if policy.needs_full_pull() {
            engine.recall()?;
        }
        if config.max_clicks > 0 {
            engine.limit_clicks(config.max_clicks, seed.stream())?;
        }
        let by_request = policy.by_request().is_some();
        let mut scratch = None;
        if by_request || policy.slates().is_some() {
            scratch = Some(Box::new(Scratch::new(config, seed.stream())?));
        }
        // Last, so that a test seed gives all else the same coins with users and without.
        let users = Users::of(config, &mut seed)?;
        Ok(Bandit {
            algorithm,
            config: PackedConfig::of(config),
            lives: 0,
            features: config.features,
            model_per_arm: config.model_per_arm,
            arms: AtomicU32::new(config.arms),
            range,
            lock: Lock::new(State {
                engine,
                policy,
                pulls: WipedVec::new(config.arms as usize, |_| 0)?,
                fleet: Fleet::new(tickets.next_u64()),
                scratch,
                seeded: config.test_seed.is_some(),
                users,
                periods: Periods::first(config),
                by_request,
            }),
        })
    }

    /// Chooses an arm for a default request. O(1) for phased policies, O(K) for index policies; never allocates.
    ///
    /// # Errors
    /// `Unsupported` if the configuration needs a user, a segment or features; `NotReady` for a restored handle
    /// that counts users, until a snapshot of it is taken; `Poisoned` after an internal failure.
    #[inline]
    pub fn select(&self) -> Result<Decision> {
        let state = &mut *self.lock.lock()?;
        state.check_plain()?;
        Ok(state.select())
    }

    /// Passes `n` such decisions to `each`, under one lock.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn select_n(&self, n: usize, mut each: impl FnMut(Decision)) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        state.check_plain()?;
        (0..n).for_each(|_| each(state.select()));
        Ok(())
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
    /// `max_segments`; `NotReady` for a restored handle that counts users, until a snapshot of it is taken;
    /// `Poisoned` after an internal failure. Nothing has changed or been counted.
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
        let mut decided = None;
        self.lock.lock()?.decide(request, &mut |_, decision| decided = Some(decision))?;
        decided.ok_or(Error::Poisoned)
    }

    /// Decides a request of any number of slots: passes one decision for each slot to `each`, with the slot. The
    /// arms are different. The slots are shuffled: every order of the drawn arms has the same probability, so a
    /// slot reveals nothing about its arm. A propensity is the exact probability of the arm in its draw, given the
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

    /// Begins a new period: the handle may again learn from
    /// [`contributions_per_user`](Config::contributions_per_user) decisions of every user, and
    /// [`epsilon_spent`](Self::epsilon_spent) grows by one period. A decision counts for the period in which it was
    /// made. Clears the counters, a millisecond for ten megabytes.
    ///
    /// Take a [`snapshot`](Self::snapshot) at once, and write it. If one was taken before, the handle learns from
    /// nobody until then, because a program that is killed would restore the earlier snapshot, which does not count
    /// this period.
    ///
    /// # Errors
    /// `Unsupported` without [`expected_users`](Config::expected_users); `OverBudget` if all
    /// [`budget_periods`](Config::budget_periods) have begun, and the last one continues; `Poisoned` after an
    /// internal failure.
    pub fn next_period(&self) -> Result<()> {
        self.lock.lock()?.next_period()
    }

    /// Adds an arm, and returns its number. Numbers are never used again. May allocate. No other handle has this
    /// arm; an arm that handles share needs an id.
    ///
    /// # Errors
    /// `InvalidConfig` beyond 2^24 arms; `Unsupported` for policies whose set of arms is fixed; `NoMemory`: nothing
    /// has changed; `Poisoned` after an internal failure.
    pub fn add_arm(&self) -> Result<u32> {
        let state = &mut *self.lock.lock()?;
        self.add(state, state.fleet.any_id(), &self.config.config()?)
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
            return Err(Error::config("id", "must not be one of the configuration's arms", id));
        }
        if let Some(arm) = state.fleet.find(id) {
            state.check_live(&[arm], "add_arm")?;
            return Ok(arm);
        }
        self.add(state, id, &config)
    }

    fn add(&self, state: &mut State, id: u64, config: &Config) -> Result<u32> {
        let arm = state.add_arm(id, config)?;
        self.arms.store(arm + 1, Ordering::Relaxed);
        Ok(arm)
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
    /// declared range, and a strength not in 1..=2^24; `Unsupported` by other policies than DP-IMED, DP-KLUCB,
    /// DP-MED and, with a model for each arm, dp-linear; `Poisoned` after an internal failure. Nothing has changed.
    pub fn set_prior(&self, arm: u32, mean: f64, strength: f64) -> Result<()> {
        let prior = Prior::new(self.range, mean, strength)?;
        let state = &mut *self.lock.lock()?;
        state.check_live(&[arm], "set_prior")?;
        state.policy.set_prior(arm, prior)
    }

    /// Retires an arm: it is never played again. Rewards of its open decisions are accepted as before.
    ///
    /// # Errors
    /// `InvalidRequest` if there is no such arm, if it is retired already, or if it is the last one; `Unsupported`
    /// for policies whose set of arms is fixed; `Poisoned` after an internal failure.
    pub fn retire_arm(&self, arm: u32) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        state.check_live(&[arm], "retire_arm")?;
        let last = state.policy.active() == 1;
        let policy = state.policy.dynamic_arms().ok_or(Error::Unsupported("retire_arm"))?;
        if last {
            return Err(Error::request("arm", "must not be the last one", arm));
        }
        policy.retire_arm(arm);
        Ok(())
    }

    /// What came of a decision: at most once a ticket.
    ///
    /// A reward that is refused leaves its decision open: answer again; [`Config::clamp_rewards`]
    /// spares that for a reward out of range. Without a `reward_window` an open decision expires one
    /// day, and public counts (expired, an arm's pulls) then show that its reward was refused.
    ///
    /// The outcome is for the caller alone: it tells whether a ticket was answered already. A stranger
    /// who reports a click must get one and the same reply whatever it is.
    ///
    /// # Errors
    /// `InvalidReward`, `UnknownTicket`, `Duplicate`, `Expired`: nothing changed but a counter of
    /// [`diagnostics`](Self::diagnostics). `Poisoned` after an internal failure.
    #[inline]
    pub fn update(&self, ticket: u64, reward: f64) -> Result<()> {
        let reward = self.range.quantize(reward);
        self.lock.lock()?.update(ticket, reward)
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
            each(state.update(ticket, self.range.quantize(reward)));
        }
        Ok(())
    }

    /// The arm was never played: the decision counts as not made. With a `reward_window` an answer
    /// that has come is taken back with it, as if it had not: whether it had is not told.
    ///
    /// # Errors
    /// `UnknownTicket`, `Duplicate` (cancelled already; without a window also: answered already),
    /// `Expired`: nothing changed but a counter of [`diagnostics`](Self::diagnostics). `Poisoned`
    /// after an internal failure.
    #[inline]
    pub fn cancel(&self, ticket: u64) -> Result<()> {
        self.lock.lock()?.cancel(ticket)
    }

    /// Cancels every open decision, also those whose reward has arrived and waits for its window. Use it in an
    /// outage in which rewards could not arrive, so that silence does not count. A cancelled decision still counts
    /// towards its user's limit.
    ///
    /// The call costs no privacy if *when* it is made does not depend on rewards. Its effect depends on none: a
    /// decision with a waiting reward ends like one without. Never call it because of the values or the number of
    /// rewards. O(`reward_window`), or O(`pending_capacity`) without one; never allocates.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn cancel_all(&self) -> Result<()> {
        self.lock.lock()?.cancel_all();
        Ok(())
    }

    /// Tells the time on the caller's clock ([`Config::clock`]), in any unit, such as milliseconds since 1970.
    /// Rewards whose [`reward_window`](Config::reward_window) is over take effect, in ticket order, and releases
    /// age. A `now` that is not later than the last one changes nothing.
    ///
    /// A decision is stamped with the time of the last call, 0 before the first one. So call this before each
    /// decision, and by a timer. A decision's window is over in the first call with `now` >= its stamp +
    /// `reward_window`.
    ///
    /// **Time is public, and must not depend on rewards.** Which rewards take effect in a call depends on the
    /// stamps of their decisions and on `now`, never on rewards or their times. The clock continues over
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

    /// What the devices and the shuffler of a phase's batches need to know (shuffle model).
    ///
    /// # Errors
    /// `Unsupported` by policies of other models; `Poisoned` after an internal failure.
    pub fn shuffle_params(&self, phase: u32) -> Result<Params> {
        Ok(self.lock.lock()?.shuffled()?.params(phase))
    }

    /// The shuffled bits of one arm's batch in the open phase, one byte of 0 or 1 each. The tickets of
    /// those decisions are then never answered: they expire.
    ///
    /// # Errors
    /// `Expired` for a phase that is over and for an arm out of the race, `NotReady` for a phase
    /// that is to come, `Duplicate` when that arm's batch of the phase has come already;
    /// `InvalidConfig` for a foreign arm, a wrong length or a byte that is no bit;
    /// `Unsupported` by policies of other models, and once a plain [`update`](Self::update) took
    /// effect; `Poisoned` after an internal failure. Nothing changed.
    pub fn submit_shuffled(&self, phase: u32, arm: u32, bits: &[u8]) -> Result<()> {
        self.lock.lock()?.shuffled()?.submit(phase, arm, bits)
    }

    /// Everything that may be published.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn report(&self) -> Result<Report> {
        let state = &mut *self.lock.lock()?;
        let config = self.config.config()?;
        let (loss, contributions) = state.loss(&config);
        let (epsilon_spent, delta_spent) = loss.spent(config.delta, contributions);
        Ok(Report {
            algorithm: self.algorithm,
            counts: state.engine.counts(),
            phase: state.policy.phase(),
            arms_active: state.policy.active(),
            epsilon_spent,
            delta_spent,
            is_private: !state.seeded && state.policy.privacy() != PrivacyLoss::Unbounded,
            changes_detected: state.policy.changes(),
            failures: state.policy.failures(),
            features: self.features,
            model_per_arm: self.model_per_arm,
            segments: state.policy.by_request().map_or(0, |policy| policy.segments()),
            max_segments: config.max_segments,
        })
    }

    /// Counts of refused calls: for the operator's own eyes, NOT private (a duplicate click is a
    /// click).
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn diagnostics(&self) -> Result<Diagnostics> {
        let state = &mut *self.lock.lock()?;
        let oversized = state.policy.by_request().map_or(0, |policy| policy.oversized());
        let Refusals { duplicates, late, rejected, unknown } = state.engine.refusals();
        Ok(Diagnostics { duplicates, late, rejected, unknown, oversized })
    }

    /// What may be published of each arm: calls `each` for arms `0..arms()` in order.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn for_each_arm(&self, mut each: impl FnMut(u32, ArmReport)) -> Result<()> {
        let state = self.lock.lock()?;
        for arm in 0..state.pulls.len() as u32 {
            each(arm, self.arm_report(state.policy.arm(arm), state.pulls[arm as usize]));
        }
        Ok(())
    }

    /// The same for one segment: its mean is what the handle believes of the arm there, from the releases of all segments.
    ///
    /// # Errors
    /// `InvalidRequest` where no request had this key; `Unsupported` where there are no segments; `Poisoned` after an
    /// internal failure.
    pub fn for_each_arm_in(&self, segment: u64, mut each: impl FnMut(u32, ArmReport)) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        let unsupported = Error::Unsupported("segments: config.max_segments is 0");
        let policy = state.policy.by_request().ok_or(unsupported)?;
        for arm in 0..state.pulls.len() as u32 {
            let (read, pulls) = policy.arm_in(segment, arm)?;
            each(arm, self.arm_report(read, pulls));
        }
        Ok(())
    }

    fn arm_report(&self, state: ArmState, pulls: u64) -> ArmReport {
        ArmReport {
            mean: self.range.mean_from_unit(state.mean),
            width: self.range.width_from_unit(state.width),
            pulls,
            effective_pulls: state.effective_pulls,
            active: state.active,
        }
    }

    /// What is believed of the mean reward of each row of a request with features, and its standard deviation, in the
    /// caller's units: functions of releases. With a model for each arm: of each eligible arm.
    ///
    /// # Errors
    /// As [`select_for`](Self::select_for); `Unsupported` where there are no features.
    pub fn predict(&self, request: &Request, mut each: impl FnMut(f64, f64)) -> Result<()> {
        let state = &mut *self.lock.lock()?;
        let policy = state.policy.by_request().ok_or(Error::Unsupported("features: config.features is 0"))?;
        policy.predict(request, &mut |mean, deviation| {
            each(self.range.mean_from_unit(mean), self.range.width_from_unit(deviation));
        })
    }

    /// The same, collected.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn arm_reports(&self) -> Result<Vec<ArmReport>> {
        let mut reports = Vec::new();
        self.for_each_arm(|_, report| reports.push(report))?;
        Ok(reports)
    }

    /// The arm that the policy decided for.
    ///
    /// # Errors
    /// `NotReady` until it has; `Poisoned` after an internal failure.
    pub fn best_arm(&self) -> Result<u32> {
        self.lock.lock()?.policy.best_arm().ok_or(Error::NotReady)
    }

    /// An interval for arm i's mean less arm j's, in the caller's units, from releases alone. However often it is asked
    /// and whenever one stops: with a chance of at least `confidence` all intervals that this handle ever gives for
    /// these two arms hold the true difference. Within -(max - min) and max - min.
    ///
    /// A mean is what the rewards behind the releases were expected to be on average: where an arm's rate moves, its
    /// average over them, in which rewards of batches that the noise drowns count for less. DP-IMED, DP-KLUCB and DP-MED
    /// learn from all releases, merged ones too; Lazy-DP-TS and DP-SE keep the last one of each arm. The theorem is in the source beside the policies, in `compare`. A restored handle
    /// promises it for its own life. When a handle is merged, saved or restored must not depend on what was released.
    ///
    /// # Errors
    /// `NotReady` until both arms have a release; `InvalidRequest` for an arm that does not exist or is retired;
    /// `InvalidConfig` for i = j and a `confidence` outside (0, 1); `Unsupported` by other policies, and with a `forget_after`; `Poisoned` after an
    /// internal failure.
    pub fn compare(&self, i: u32, j: u32, confidence: f64) -> Result<(f64, f64)> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(Error::config("confidence", "must be in (0, 1)", confidence));
        }
        if i == j {
            return Err(Error::config("j", "must be another arm than i", j));
        }
        let (of_i, of_j, merges) = {
            let state = &mut *self.lock.lock()?;
            state.check_arms(&[i, j])?;
            (state.policy.sums(i)?, state.policy.sums(j)?, state.fleet.news() + state.policy.merges())
        };
        // Two bounds; and what is known after the m-th merge is one of many things that may have been known: nine tenths
        // for m = 0, of the other tenth 1/((g + 1)(g + 2)) for the 2^g merges from m = 2^g on.
        let share = merges.checked_ilog2().map_or(0.9, |g| {
            let g = f64::from(g);
            0.1 / (g.exp2() * (g + 1.0) * (g + 2.0))
        });
        let nats = (2.0 / ((1.0 - confidence) * share)).ln();
        let (low, high) = of_i.less(&of_j, nats);
        let rounding = 2.0 * self.range.rounding();
        let in_units = |difference: f64| self.range.width_from_unit(difference.clamp(-1.0, 1.0));
        Ok((in_units(low - rounding), in_units(high + rounding)))
    }

    /// Privacy loss of one user so far at this delta: an upper bound. Where it counts [`expected_users`](Config::expected_users), of one
    /// who came in all periods so far.
    ///
    /// # Errors
    /// `InvalidConfig` when delta is not in `[0, 1)`; `Poisoned` after an internal failure.
    pub fn epsilon_spent(&self, delta: f64) -> Result<f64> {
        if !(0.0..1.0).contains(&delta) {
            return Err(Error::config("delta", "must be in [0, 1)", delta));
        }
        let (loss, contributions) = self.lock.lock()?.loss(&self.config.config()?);
        Ok(loss.epsilon(delta, contributions))
    }

    /// The number of arms, retired ones included.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn arms(&self) -> Result<u32> {
        Ok(self.lock.lock()?.pulls.len() as u32)
    }

    /// d, the features of a row, and how many rows a request has that names so many arms, or all. Takes no lock.
    pub(crate) fn rows(&self, eligible: Option<&[u32]>) -> (usize, usize) {
        let rows = match eligible {
            _ if self.model_per_arm => 1,
            Some(arms) => arms.len(),
            None => self.arms.load(Ordering::Relaxed) as usize,
        };
        (self.features as usize, rows)
    }

    /// The policy.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Fails half-way through an update, as a bug would.
    #[cfg(dpb_faults)]
    #[doc(hidden)]
    pub fn panic_inside(&self) {
        let _state = self.lock.lock();
        panic!("provoked by a test");
    }
}
