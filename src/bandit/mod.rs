//! A bandit: a policy at a [`desk`](crate::desk), and what it knows of other handles.

mod lives;

use crate::config::{Config, Kept};
use crate::desk::{self, Decision, Desk, Learner, enter};
use crate::engine::{Counts, Diagnostics, Engine};
use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::policy::{Algorithm, Policy, Prior, Pull, ShuffledPolicy, Slates};
use crate::privacy::PrivacyLoss;
use crate::random::{Random, Seed};
use crate::request::Request;
use crate::reward::Reward;
use crate::shuffle::Params;
use crate::table::{self, Table};
use crate::users::{Periods, Users};

/// Everything that may be published about a handle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// The policy.
    pub algorithm: Algorithm,
    /// What became of decisions so far.
    pub counts: Counts,
    /// The policy's epoch, phase or interval.
    pub phase: u32,
    /// Arms still in the race.
    pub arms_active: u32,
    /// Privacy loss of one user so far at `delta_spent`; infinite for baselines. Where [`Config::expected_users`] is set, of one
    /// who came in all periods. With a test seed
    /// it is the loss that real entropy would have had.
    pub epsilon_spent: f64,
    /// The configured delta, where the policy is not pure.
    pub delta_spent: f64,
    /// False for baselines and under a test seed.
    pub is_private: bool,
    /// Releases that contradicted their arm's past, so that it was forgotten.
    pub changes_detected: u64,
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

/// A differentially private multi-armed bandit. Share it between threads by reference. In a forked
/// child every call on it is `Poisoned`: make handles after forking.
pub struct Bandit {
    algorithm: Algorithm,
    config: Kept,
    /// Handles before this one, each from a snapshot of the last.
    lives: u32,
    desk: Desk<Learned>,
}

/// What learns, and from whom.
struct Learned {
    policy: Box<dyn Policy>,
    /// Per arm: decisions that were neither cancelled nor expired.
    pulls: Table<u64>,
    fleet: Fleet,
    /// Where the policy shows slates.
    slate: Option<Box<Slate>>,
}

/// The slate that is shown.
struct Slate {
    /// Arms that it may still show; room for all.
    left: Vec<u32>,
    /// Slots that are still free; room for as many as there may be arms.
    free: Vec<u32>,
    /// They draw the slots.
    coins: Random,
    /// Those that it may show at once; 0 = all.
    most: u32,
}

impl Learner for Learned {
    #[inline]
    fn played(&mut self, pull: Pull) -> &mut u64 {
        &mut self.pulls[pull.arm() as usize]
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.policy.observe(pull, reward);
    }

    fn cancel(&mut self, pull: Pull) {
        self.policy.cancel(pull);
    }

    fn advance(&mut self, ticks: u64) {
        self.policy.advance(ticks);
    }
}

type Inner = desk::Inner<Learned>;

impl Bandit {
    /// A fresh bandit.
    ///
    /// # Errors
    /// `InvalidConfig` naming the field and the value; `Entropy` when the operating system gives
    /// no randomness; `NoMemory`; `OverBudget` where the configuration's budget has too little left.
    pub fn new(algorithm: Algorithm, config: &Config) -> Result<Bandit> {
        let bandit = Self::made(algorithm, config)?;
        config.charge(config.test_seed.is_some(), 1, |config| algorithm.promise(config))?;
        Ok(bandit)
    }

    /// The same, before it is charged.
    fn made(algorithm: Algorithm, config: &Config) -> Result<Bandit> {
        let range = config.check()?;
        let mut seed = Seed::new(config.test_seed)?;
        let mut policy = algorithm.build(config, &mut seed)?;
        let users = Users::of(config, &mut seed)?;
        let range = if policy.takes_bits() { range.of_bits() } else { range };
        // Tickets are keyed by the operating system even under a test seed: see engine::ticket.
        let mut tickets = Seed::new(None)?.stream();
        let mut engine =
            Engine::new(config.pending_capacity, config.reward_window, config.clock, config.node, &mut tickets)?;
        if policy.recalls() {
            engine.recall()?;
        }
        if config.max_clicks > 0 {
            engine.limit_clicks(config.max_clicks, seed.stream())?;
        }
        let mut slate = None;
        if policy.slates().is_some() {
            let room = || table::room(config.arms as usize);
            slate =
                Some(Box::new(Slate { left: room()?, free: room()?, coins: seed.stream(), most: config.max_slots }));
        }
        Ok(Bandit {
            algorithm,
            config: Kept::of(config),
            lives: 0,
            desk: Desk::new(
                range,
                Inner {
                    engine,
                    seeded: config.test_seed.is_some(),
                    learner: Learned {
                        policy,
                        pulls: Table::new(config.arms as usize, |_| 0)?,
                        fleet: Fleet::new(tickets.next_u64()),
                        slate,
                    },
                    users,
                    periods: Periods::first(config),
                },
            ),
        })
    }

    /// Which arm? O(1) for phased policies, O(K) for index policies; never allocates.
    ///
    /// # Errors
    /// `Unsupported` where every decision is somebody's: see [`Config::expected_users`]; `NotReady` where an earlier life counted
    /// users, until it is saved; `Poisoned` after an internal failure.
    #[inline]
    pub fn select(&self) -> Result<Decision> {
        let inner = &mut *self.desk.lock()?;
        inner.check_anonymous()?;
        Ok(inner.select())
    }

    /// Which arm for this user? As [`select`](Self::select), and the first `contributions_per_user` decisions of a
    /// user in a period are as there. Later ones look the same to everybody: they are served and counted, and their
    /// answers are taken once and thrown away. The theorem is in [`crate::privacy`]; what it costs, in
    /// [`Config::expected_users`].
    ///
    /// `user` names a person, the same in all of a period: a number of their account, or a hash of a cookie, keyed, so
    /// that nobody chooses it. A decision that is cancelled or expires has used up its place. O(1) more than a
    /// `select`; never allocates.
    ///
    /// # Errors
    /// `Unsupported` where the configuration expects no [`expected_users`](Config::expected_users); `NotReady` until a
    /// [restored](Self::restore) handle is saved; `Poisoned` after an internal failure.
    pub fn select_for(&self, user: u64) -> Result<Decision> {
        let inner = &mut *self.desk.lock()?;
        let learned = inner.count(user)?;
        inner.make_room();
        let pull = inner.learner.policy.choose();
        Ok(inner.issue_for(pull, learned))
    }

    /// Which of these arms for this user? [`select_among`](Self::select_among) as
    /// [`select_for`](Self::select_for) is [`select`](Self::select).
    ///
    /// # Errors
    /// As both. A call that is refused has counted nothing.
    pub fn select_among_for(&self, user: u64, arms: &[u32]) -> Result<Decision> {
        let inner = &mut *self.desk.lock()?;
        inner.check_some(arms)?;
        let learned = inner.count(user)?;
        let pull = inner.choose_among(arms)?;
        Ok(inner.issue_for(pull, learned))
    }

    /// A new period: everybody may be learned from [`contributions_per_user`](Config::contributions_per_user) times
    /// again, and what is [`spent`](Self::epsilon_spent) is of one more period. Decisions keep the period in which they
    /// were made. Clears the counters, a millisecond for ten megabytes.
    ///
    /// Write a [`snapshot`](Self::snapshot) at once. Where one was taken before, nobody is learned from until then, because
    /// a program that is killed would go back to the one before, which does not count this period.
    ///
    /// # Errors
    /// `Unsupported` where the configuration expects no [`expected_users`](Config::expected_users); `OverBudget` where all
    /// [`budget_periods`](Config::budget_periods) have begun, and the last one goes on; `Poisoned` after an internal
    /// failure.
    pub fn next_period(&self) -> Result<()> {
        self.desk.lock()?.next_period()
    }

    /// Decides a request: hands its decisions to `each`, one for each slot, with the slot.
    ///
    /// # Errors
    /// `InvalidRequest`: an arm that does not exist or is retired, no arm at all, slots; `Unsupported` for what this
    /// handle or its policy cannot do; `Poisoned` after an internal failure. Nothing has changed or been counted.
    pub(crate) fn decide(&self, request: &Request, each: &mut dyn FnMut(usize, Decision)) -> Result<()> {
        self.desk.lock()?.decide(request, each)
    }

    /// The same for many requests under one lock, until one is refused; `done` counts those before it. Slots are numbered
    /// on from request to request.
    ///
    /// # Errors
    /// As [`decide`](Self::decide), of the one that was refused.
    pub(crate) fn decide_many<'a>(
        &self,
        requests: &mut dyn Iterator<Item = Result<Request<'a>>>,
        each: &mut dyn FnMut(usize, Decision),
        done: &mut usize,
    ) -> Result<()> {
        self.desk.decide_many(requests, each, done, Inner::decide)
    }

    /// Hands `n` decisions to `each`, under one lock.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn select_many(&self, n: usize, mut each: impl FnMut(Decision)) -> Result<()> {
        let mut inner = self.desk.lock()?;
        inner.check_anonymous()?;
        (0..n).for_each(|_| each(inner.select()));
        Ok(())
    }

    /// Which of these arms? For requests that may show some only: the set must be public
    /// information (targeting, flights, frequency caps), not chosen by looking at rewards, as a budget is that
    /// clicks use up. O(n) for n arms; duplicates are harmless; never allocates on success.
    ///
    /// # Errors
    /// `InvalidRequest` when the set is empty or names an arm that does not exist or is retired;
    /// `Unsupported` for policies that need every arm, and as [`select`](Self::select); `Poisoned` after an internal
    /// failure.
    pub fn select_among(&self, arms: &[u32]) -> Result<Decision> {
        let inner = &mut *self.desk.lock()?;
        inner.check_anonymous()?;
        inner.check_some(arms)?;
        let pull = inner.choose_among(arms)?;
        Ok(inner.issue(pull))
    }

    /// Which arms for the `slots` places of one request? Different ones, of all live arms or of those that are
    /// `eligible`: a set that is public, as in [`select_among`](Self::select_among), duplicates harmless. Calls `each`
    /// with a slot and its decision, in the order in which the arms are drawn. A propensity is the exact chance of
    /// the arm in its draw, given the draws before it. The slots are shuffled: every order of the arms that are
    /// drawn has the same chance, so a slot says nothing about its arm. Each decision is answered or cancelled
    /// alone. [`Config::max_slots`] says what is protected, an answer or the request: see [`crate::privacy::slates`].
    /// O(slots n) for n arms; never allocates on success.
    ///
    /// # Errors
    /// `InvalidRequest` when there are no slots, more than arms to show, more than [`Config::max_slots`] where that is not
    /// 0, or more than decisions may be in flight, and for an arm that does not exist or is retired; `Unsupported`
    /// by policies that show no slates, and as [`select`](Self::select); `Poisoned` after an internal failure. Nothing
    /// changed.
    pub fn select_slate(
        &self,
        eligible: Option<&[u32]>,
        slots: usize,
        mut each: impl FnMut(usize, Decision),
    ) -> Result<()> {
        self.desk.lock()?.select_slate(eligible, slots, &mut each)
    }

    /// A new arm: its number. Numbers are never used again. May allocate. It is joined with no other handle's:
    /// that takes an id.
    ///
    /// # Errors
    /// `InvalidConfig` beyond 2^24 arms; `Unsupported` for policies whose set of arms is fixed;
    /// `NoMemory`: nothing has changed; `Poisoned` after an internal failure.
    pub fn add_arm(&self) -> Result<u32> {
        let inner = &mut *self.desk.lock()?;
        inner.add_arm(inner.learner.fleet.any_id(), &self.config.config()?)
    }

    /// The arm with this id, which all handles of a fleet call it by: its number here. A new one, unless there is
    /// one. The caller's catalogue says the ids (an ad's own number, or a hash of its name): at least as large
    /// as the arms of the configuration, which have their numbers as ids. Else as [`add_arm`](Self::add_arm).
    ///
    /// # Errors
    /// As [`add_arm`](Self::add_arm); `InvalidConfig` for an id below [`Config::arms`]; `InvalidRequest` for that of
    /// an arm that is retired.
    pub fn add_arm_as(&self, id: u64) -> Result<u32> {
        let (inner, config) = (&mut *self.desk.lock()?, self.config.config()?);
        if id < u64::from(config.arms) {
            return Err(Error::config("id", "must not be one of the configuration's arms", id));
        }
        if let Some(arm) = inner.learner.fleet.find(id) {
            inner.check_live(&[arm], "add_arm")?;
            return Ok(arm);
        }
        inner.add_arm(id, &config)
    }

    /// What public data say of an arm, such as last season's: that so many rewards had this mean. Never of private
    /// sums: it counts as data without noise, and whoever sees decisions sees it. That it is public is why it costs
    /// no privacy.
    ///
    /// It warms the start, and is not believed for long where it is wrong: what it may say against an arm is a
    /// quarter of what the policy asks for, and releases that contradict it undo it. It makes no batch larger, and is in
    /// nothing that is read and in nothing that others merge; it ages by [`Config::forget_after`], and a snapshot keeps it.
    /// Said again, it counts in place of what was said before.
    ///
    /// # Errors
    /// `InvalidRequest` for an arm that there is not, or no longer; `InvalidConfig` for a mean outside the declared range,
    /// and a strength not in 1..=2^24; `Unsupported` by all but DP-IMED, DP-KLUCB and DP-MED; `Poisoned` after an internal failure.
    /// Nothing changed.
    pub fn set_prior(&self, arm: u32, mean: f64, strength: f64) -> Result<()> {
        let prior = Prior::new(self.desk.range, mean, strength)?;
        let inner = &mut *self.desk.lock()?;
        inner.check_live(&[arm], "set_prior")?;
        inner.learner.policy.set_prior(arm, prior)
    }

    /// This arm is never played again. Answers to its open decisions are accepted as before.
    ///
    /// # Errors
    /// `InvalidRequest` when there is no such arm, when it is retired already, or when it is the
    /// last one; `Unsupported` for policies whose set of arms is fixed; `Poisoned` after an
    /// internal failure.
    pub fn retire_arm(&self, arm: u32) -> Result<()> {
        let inner = &mut *self.desk.lock()?;
        inner.check_live(&[arm], "retire_arm")?;
        let last = inner.learner.policy.active() == 1;
        let policy = inner.learner.policy.flexible().ok_or(Error::Unsupported("retire_arm"))?;
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
        self.desk.update(ticket, reward)
    }

    /// Answers many decisions under one lock; `each` is told what became of each.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure: `each` was not called.
    pub fn update_many(&self, answers: impl Iterator<Item = (u64, f64)>, each: impl FnMut(Result<()>)) -> Result<()> {
        self.desk.update_many(answers, each)
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
        self.desk.cancel(ticket)
    }

    /// Cancels every open decision, also those whose answer has come and waits for its window: for an outage in which
    /// answers could not travel, so that silence is no answer. Decisions of users have used up their places.
    ///
    /// The call costs no privacy if *when* it is made does not depend on rewards. What it does depends on none: a
    /// decision whose answer waits ends like one without an answer. Never call it because of what the answers are, or how
    /// many came. O(`reward_window`), or O(`pending_capacity`) without one; never allocates.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn cancel_all(&self) -> Result<()> {
        self.desk.cancel_all()
    }

    /// It is `now` on the caller's clock ([`Config::clock`]), in any unit: a time of day in milliseconds, say. Answers
    /// whose [`reward_window`](Config::reward_window) is over take effect, in ticket order, and what was learned gets
    /// older. A `now` that is not later than the last one changes nothing.
    ///
    /// A decision is stamped with the time of the last call, 0 before the first one. So call this before each decision,
    /// or by a timer, however quiet the night: a stamp is late by as much as the timer is slow. A decision's window
    /// is over in the first call with `now` >= its stamp + `reward_window`.
    ///
    /// **Time is public, and must not depend on rewards.** Which answers take effect in a call depends on the stamps of
    /// their decisions and on `now`, never on what they are or on when they came. The clock goes on over
    /// [snapshots](Self::snapshot): use one that does too, as the time of day does and the time since the machine
    /// began does not, and keep its unit.
    ///
    /// O(1) for each decision that ends and one release for each batch that is full: a leap of years costs no more than
    /// what is in flight. Never allocates.
    ///
    /// # Errors
    /// `Unsupported` where the clock is not the caller's; `Poisoned` after an internal failure.
    pub fn advance(&self, now: u64) -> Result<()> {
        self.desk.advance(now)
    }

    /// What the devices and the shuffler of a phase's batches need to know (shuffle model).
    ///
    /// # Errors
    /// `Unsupported` by policies of other models; `Poisoned` after an internal failure.
    pub fn shuffle_params(&self, phase: u32) -> Result<Params> {
        Ok(self.desk.lock()?.shuffled()?.params(phase))
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
        self.desk.lock()?.shuffled()?.submit(phase, arm, bits)
    }

    /// Everything that may be published.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn report(&self) -> Result<Report> {
        let inner = self.desk.lock()?;
        let config = self.config.config()?;
        let (loss, contributions) = inner.loss(&config);
        let (epsilon_spent, delta_spent) = loss.spent(config.delta, contributions);
        Ok(Report {
            algorithm: self.algorithm,
            counts: inner.engine.counts(),
            phase: inner.learner.policy.phase(),
            arms_active: inner.learner.policy.active(),
            epsilon_spent,
            delta_spent,
            is_private: !inner.seeded && inner.learner.policy.privacy() != PrivacyLoss::Unbounded,
            changes_detected: inner.learner.policy.changes(),
        })
    }

    /// Counts of refused calls: for the operator's own eyes, NOT private (a duplicate click is a
    /// click).
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn diagnostics(&self) -> Result<Diagnostics> {
        self.desk.diagnostics()
    }

    /// What may be published of each arm: calls `each` for arms `0..arms()` in order.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn for_each_arm(&self, mut each: impl FnMut(u32, ArmReport)) -> Result<()> {
        let inner = self.desk.lock()?;
        for arm in 0..inner.learner.pulls.len() as u32 {
            let state = inner.learner.policy.arm(arm);
            each(
                arm,
                ArmReport {
                    mean: self.desk.range.mean_from_unit(state.mean),
                    width: self.desk.range.width_from_unit(state.width),
                    pulls: inner.learner.pulls[arm as usize],
                    effective_pulls: state.effective_pulls,
                    active: state.active,
                },
            );
        }
        Ok(())
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
        self.desk.lock()?.learner.policy.best_arm().ok_or(Error::NotReady)
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
            let inner = &mut *self.desk.lock()?;
            inner.check_arms(&[i, j])?;
            let Learned { policy, fleet, .. } = &inner.learner;
            (policy.sums(i)?, policy.sums(j)?, fleet.news())
        };
        // Two bounds; and what is known after the m-th merge is one of many things that may have been known: nine tenths
        // for m = 0, of the other tenth 1/((g + 1)(g + 2)) for the 2^g merges from m = 2^g on.
        let share = merges.checked_ilog2().map_or(0.9, |g| {
            let g = f64::from(g);
            0.1 / (g.exp2() * (g + 1.0) * (g + 2.0))
        });
        let nats = (2.0 / ((1.0 - confidence) * share)).ln();
        let (low, high) = of_i.less(&of_j, nats);
        let rounding = 2.0 * self.desk.range.rounding();
        let in_units = |difference: f64| self.desk.range.width_from_unit(difference.clamp(-1.0, 1.0));
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
        let (loss, contributions) = self.desk.lock()?.loss(&self.config.config()?);
        Ok(loss.epsilon(delta, contributions))
    }

    /// The number of arms, retired ones included.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn arms(&self) -> Result<u32> {
        Ok(self.desk.lock()?.learner.pulls.len() as u32)
    }

    /// The policy.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Fails half-way through an update, as a bug would.
    #[cfg(feature = "test-hooks")]
    #[doc(hidden)]
    pub fn panic_inside(&self) {
        let _inner = self.desk.lock();
        panic!("provoked by a test");
    }
}

impl Learned {
    /// The policy as one that shows several arms for one request, the slate, and how often each arm was played.
    fn slates(&mut self) -> Result<(&mut dyn Slates, &mut Slate, &mut [u64])> {
        let Learned { policy, slate, pulls, .. } = self;
        let unsupported = Error::Unsupported("select_slate");
        let (Some(policy), Some(slate)) = (policy.slates(), slate) else { return Err(unsupported) };
        Ok((policy, slate, pulls))
    }

    /// What a slate may show: these arms, which are live, each once and in order; or all that are.
    fn list(&mut self, eligible: Option<&[u32]>) {
        let Learned { policy, slate, pulls, .. } = self;
        let Some(Slate { left, .. }) = slate.as_deref_mut() else { return };
        left.clear();
        let Some(eligible) = eligible else {
            if let Some(policy) = policy.flexible() {
                left.extend((0..pulls.len() as u32).filter(|&arm| policy.is_live(arm)));
            }
            return;
        };
        let tidy = |left: &mut Vec<u32>| {
            left.sort_unstable();
            left.dedup();
        };
        for &arm in eligible {
            // There is room for each arm once.
            if left.len() == pulls.len() {
                tidy(left);
            }
            if left.len() < pulls.len() {
                left.push(arm);
            }
        }
        tidy(left);
    }
}

impl Inner {
    /// What one reward, or one request, has lost, and behind how many one user may be by now: m, in each period.
    fn loss(&self, config: &Config) -> (PrivacyLoss, u32) {
        let loss = self.learner.policy.privacy().of_batches(config.batches_changed());
        self.of_one_user(loss, config.contributions_per_user)
    }

    fn shuffled(&mut self) -> Result<&mut dyn ShuffledPolicy> {
        self.learner.policy.shuffled().ok_or(Error::Unsupported("a shuffled batch"))
    }

    /// A new arm with this id, which no other has here.
    fn add_arm(&mut self, id: u64, config: &Config) -> Result<u32> {
        let arm = self.learner.pulls.len() as u32;
        self.learner.fleet.reserve(config)?;
        self.grow()?;
        self.learner.fleet.add(id);
        // What others have released of it before.
        if let Some(policy) = self.learner.policy.shared()
            && self.learner.fleet.has_others()
        {
            policy.join(arm, &mut self.learner.fleet.released(arm));
        }
        Ok(arm)
    }

    /// One arm more.
    fn grow(&mut self) -> Result<()> {
        let arm = self.learner.pulls.len() as u32;
        if arm >= Config::MAX_ARMS {
            return Err(Error::config("arms", "must be at most 2^24", u64::from(arm) + 1));
        }
        let policy = self.learner.policy.flexible().ok_or(Error::Unsupported("add_arm"))?;
        self.learner.pulls.reserve()?;
        if let Some(slate) = &mut self.learner.slate {
            for of_the_last in [&mut slate.left, &mut slate.free] {
                of_the_last.clear();
                of_the_last.try_reserve(self.learner.pulls.len() + 1).map_err(|_| Error::NoMemory)?;
            }
        }
        policy.add_arm()?;
        self.learner.pulls.push(0);
        Ok(())
    }

    #[inline(always)] // into its two callers
    fn select(&mut self) -> Decision {
        self.make_room();
        let pull = self.learner.policy.choose();
        self.issue(pull)
    }

    fn decide(&mut self, request: &Request, each: &mut dyn FnMut(usize, Decision)) -> Result<()> {
        if request.segment != 0 {
            return Err(Error::Unsupported("a segment: config.max_segments is 0"));
        }
        if request.slots != 1 {
            if request.user != 0 {
                return Err(Error::Unsupported("several slots for a user"));
            }
            return self.select_slate(request.eligible, request.slots as usize, each);
        }
        self.check_user(request.user)?;
        if let Some(arms) = request.eligible {
            self.check_some(arms)?;
        }
        let learned = self.admit(request.user)?;
        let pull = match request.eligible {
            Some(arms) => self.choose_among(arms)?,
            None => {
                self.make_room();
                self.learner.policy.choose()
            }
        };
        each(0, self.issue_for(pull, learned));
        Ok(())
    }

    /// Is there any arm among these, and can all be played?
    fn check_some(&mut self, arms: &[u32]) -> Result<()> {
        self.check_live(arms, "select_among")?;
        if arms.is_empty() {
            return Err(Error::request("eligible", "must name one arm at least", 0u32));
        }
        Ok(())
    }

    /// One of these, after [`check_some`](Self::check_some).
    fn choose_among(&mut self, arms: &[u32]) -> Result<Pull> {
        self.make_room();
        let policy = self.learner.policy.flexible().ok_or(Error::Unsupported("select_among"))?;
        Ok(policy.choose_among(arms))
    }

    fn select_slate(
        &mut self,
        eligible: Option<&[u32]>,
        slots: usize,
        each: &mut dyn FnMut(usize, Decision),
    ) -> Result<()> {
        self.check_anonymous()?;
        self.learner.slates()?;
        self.check_live(eligible.unwrap_or_default(), "select_slate")?;
        self.learner.list(eligible);
        let Slate { left, most, .. } = self.learner.slates()?.1;
        let refused = |rule| Err(Error::request("slots", rule, slots));
        if slots == 0 {
            return refused("must be at least 1");
        }
        if slots > left.len() {
            return refused("must be at most the arms that may be shown");
        }
        if *most > 0 && slots > *most as usize {
            return refused("must be at most the configuration's max_slots");
        }
        if slots as u64 > self.engine.longest_request() {
            return refused("must be at most the decisions in flight");
        }
        (0..slots as u64).for_each(|ahead| self.make_room_ahead(ahead));
        let Inner { engine, learner, .. } = self;
        let (policy, Slate { left, free, coins, .. }, pulls) = learner.slates()?;
        free.clear();
        free.extend(0..slots as u32);
        policy.choose_slate(left, slots, &mut |pull| {
            let decision = enter(engine, &mut pulls[pull.arm() as usize], pull, free.len() < slots);
            let slot = free.swap_remove(coins.below(free.len() as u64) as usize);
            each(slot as usize, decision);
        });
        Ok(())
    }

    /// Are these arms that can be played, and can the policy do what is asked?
    fn check_live(&mut self, arms: &[u32], what: &'static str) -> Result<()> {
        match self.learner.policy.flexible() {
            Some(_) => self.check_arms(arms),
            None => Err(Error::Unsupported(what)),
        }
    }

    /// Do these arms exist, and are none of them retired?
    fn check_arms(&mut self, arms: &[u32]) -> Result<()> {
        let policy = self.learner.policy.flexible();
        for &arm in arms {
            if arm as usize >= self.learner.pulls.len() {
                return Err(Error::request("arm", &format!("must be below {}", self.learner.pulls.len()), arm));
            }
            if policy.as_ref().is_some_and(|policy| !policy.is_live(arm)) {
                return Err(Error::request("arm", "must be live", arm));
            }
        }
        Ok(())
    }
}
