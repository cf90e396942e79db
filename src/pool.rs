//! A pool: thousands of bandits in one handle, one for each segment, that lend each other what they know.

use crate::bandit::ArmReport;
use crate::config::{Config, Kept, Scope};
use crate::desk::{Decision, Desk, Inner, Learner};
use crate::engine::{Counts, Diagnostics, Engine};
use crate::error::{Error, Result};
use crate::key_index::KeyIndex;
use crate::policy::{Other, Prior, Pull, Segments};
use crate::random::Seed;
use crate::request::Request;
use crate::reward::Reward;
use crate::snapshot::{Kind, Reader, Writer};
use crate::table;
use crate::users::{Periods, Users};

/// Everything that may be published about a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolReport {
    /// What became of decisions so far.
    pub counts: Counts,
    /// Segments in use.
    pub segments: u32,
    /// Segments that there may be.
    pub max_segments: u32,
    /// Batches released.
    pub releases: u32,
    /// Privacy loss of one user so far at `delta_spent`; where [`Config::expected_users`] is set, of one who came in all periods.
    /// With a test seed it is the loss that real entropy would have had.
    pub epsilon_spent: f64,
    /// The configured delta.
    pub delta_spent: f64,
    /// False under a test seed.
    pub is_private: bool,
}

/// What may be published about an arm in a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellReport {
    /// What the pool believes of the arm's mean here, in the caller's units: from all segments' releases.
    pub mean: f64,
    /// Decisions for this arm here that were not cancelled and did not expire.
    pub pulls: u64,
    /// Rewards behind this cell's own releases, here and in pools that were merged; those of trials that all segments
    /// made together are not among them.
    pub effective_pulls: f64,
}

impl From<CellReport> for ArmReport {
    fn from(cell: CellReport) -> ArmReport {
        let CellReport { mean, pulls, effective_pulls } = cell;
        ArmReport { mean, width: f64::NAN, pulls, effective_pulls, active: true }
    }
}

/// Differentially private bandits, one for each segment. Share it between threads by reference. In a forked child
/// every call on it is `Poisoned`: make handles after forking.
pub struct Pool {
    /// Without its seed and its budget, which stay with the caller.
    config: Config,
    most: u32,
    /// Handles before this one, each from a snapshot of the last.
    lives: u32,
    desk: Desk<Known>,
}

/// The segments, and what they are called.
struct Known {
    segments: Segments,
    keys: Vec<u64>,
    places: KeyIndex,
}

impl Learner for Known {
    #[inline]
    fn played(&mut self, pull: Pull) -> &mut u64 {
        self.segments.played(pull)
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.segments.observe(pull, reward);
    }

    fn cancel(&mut self, pull: Pull) {
        self.segments.cancel(pull);
    }

    fn advance(&mut self, ticks: u64) {
        self.segments.advance(ticks);
    }
}

impl Pool {
    /// Arms times segments, at most.
    pub const MOST_CELLS: u64 = 1 << 27;

    /// A fresh pool for at most so many segments of `config.arms` arms each. Its address space is taken here; on
    /// most systems a segment takes memory when it comes, 80 bytes an arm and 64.
    ///
    /// # Errors
    /// `InvalidConfig` naming the field and the value, `max_segments` where there are none or more than 2^27 cells;
    /// `Unsupported` with a `exploration`; `Entropy`; `NoMemory`; `OverBudget`.
    pub fn new(config: &Config, max_segments: u32) -> Result<Pool> {
        let pool = Self::made(config, max_segments)?;
        config.charge(config.test_seed.is_some(), 1, Config::loss)?;
        Ok(pool)
    }

    /// The same, before it is charged.
    fn made(config: &Config, max_segments: u32) -> Result<Pool> {
        let range = config.check()?;
        if config.exploration > 0.0 {
            return Err(Error::Unsupported("exploration"));
        }
        if config.max_slots > 0 {
            return Err(Error::config("max_slots", "must be 0: a pool shows no slates", config.max_slots));
        }
        let cells = (u64::from(max_segments) + 1) * u64::from(config.arms);
        if max_segments == 0 || cells > Self::MOST_CELLS {
            return Err(Error::config("max_segments", "must be at least 1, and 2^27 cells at most", max_segments));
        }
        // Tickets are keyed by the operating system even under a test seed: see engine::ticket.
        let mut tickets = Seed::new(None)?.stream();
        let mut seed = Seed::new(config.test_seed)?;
        let segments = Segments::new(config, max_segments, tickets.next_u64(), &mut seed)?;
        let users = Users::of(config, &mut seed)?;
        let engine =
            Engine::new(config.pending_capacity, config.reward_window, config.clock, config.node, &mut tickets)?;
        let places = KeyIndex::try_with_capacity(max_segments as usize)?;
        let learner = Known { segments, keys: table::room(max_segments as usize)?, places };
        let (seeded, periods) = (config.test_seed.is_some(), Periods::first(config));
        Ok(Pool {
            config: Config { test_seed: None, budget: None, ..config.clone() },
            most: max_segments,
            lives: 0,
            desk: Desk::new(range, Inner { engine, seeded, learner, users, periods }),
        })
    }

    /// The segment that is called so: its number, the next one for a new key. Keys are public. O(log segments), for a
    /// new one O(segments) moves; never allocates.
    ///
    /// # Errors
    /// `Full` for a new one where there are as many as there may be; `Poisoned` after an internal failure.
    pub fn segment(&self, key: u64) -> Result<u32> {
        let inner = &mut *self.desk.lock()?;
        match inner.learner.places.find(key) {
            Some(segment) => Ok(segment as u32),
            None => inner.add(key, self.most),
        }
    }

    /// Decides a request in the segment that it names, which is begun if it is new. As
    /// [`Bandit::decide`](crate::Bandit::decide).
    ///
    /// # Errors
    /// As there; `Full` for a new segment where there are as many as there may be.
    pub(crate) fn decide(&self, request: &Request, each: &mut dyn FnMut(usize, Decision)) -> Result<()> {
        self.desk.lock()?.decide(request, self.config.arms, self.most, each)
    }

    /// The same for many requests under one lock. As [`Bandit::decide_many`](crate::Bandit::decide_many).
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    pub(crate) fn decide_many<'a>(
        &self,
        requests: &mut dyn Iterator<Item = Result<Request<'a>>>,
        each: &mut dyn FnMut(usize, Decision),
        done: &mut usize,
    ) -> Result<()> {
        self.desk.decide_many(requests, each, done, |inner, request, each| {
            inner.decide(request, self.config.arms, self.most, each)
        })
    }

    /// Which arm in this segment? O(1) amortised; never allocates.
    ///
    /// # Errors
    /// `InvalidRequest` for a segment that there is not; `Unsupported` where every decision is somebody's: see
    /// [`Config::expected_users`]; `Poisoned` after an internal failure.
    #[inline]
    pub fn select(&self, segment: u32) -> Result<Decision> {
        let inner = &mut *self.desk.lock()?;
        inner.check_anonymous()?;
        inner.select(segment, self.config.arms)
    }

    /// Which arm in this segment for this user? As [`Bandit::select_for`](crate::Bandit::select_for): whichever its
    /// segments, no more than `contributions_per_user` decisions of a user in a period are learned from.
    ///
    /// # Errors
    /// `InvalidRequest` for a segment that there is not, and no decision was counted; `Unsupported` where the configuration
    /// expects no [`expected_users`](Config::expected_users); `NotReady` until a restored pool is saved; `Poisoned` after an internal failure.
    pub fn select_for(&self, segment: u32, user: u64) -> Result<Decision> {
        let inner = &mut *self.desk.lock()?;
        inner.check(segment)?;
        let learned = inner.count(user)?;
        inner.make_room();
        let pull = inner.learner.segments.choose(segment);
        Ok(here(inner.issue_for(pull, learned), segment, self.config.arms))
    }

    /// Which of these arms in this segment for this user? [`select_among`](Self::select_among) as
    /// [`select_for`](Self::select_for) is [`select`](Self::select).
    ///
    /// # Errors
    /// As both. A call that is refused has counted nothing.
    pub fn select_among_for(&self, segment: u32, user: u64, arms: &[u32]) -> Result<Decision> {
        check_some(arms, self.config.arms)?;
        let inner = &mut *self.desk.lock()?;
        inner.check(segment)?;
        let learned = inner.count(user)?;
        inner.make_room();
        let pull = inner.learner.segments.choose_among(segment, arms);
        Ok(here(inner.issue_for(pull, learned), segment, self.config.arms))
    }

    /// A new period. As [`Bandit::next_period`](crate::Bandit::next_period).
    ///
    /// # Errors
    /// As there.
    pub fn next_period(&self) -> Result<()> {
        self.desk.lock()?.next_period()
    }

    /// Which arm in each of these? Hands the decisions to `each`, under one lock.
    ///
    /// # Errors
    /// `InvalidRequest` where a segment does not exist: no decision was made; as [`select`](Self::select).
    pub fn select_many(&self, segments: &[u32], mut each: impl FnMut(Decision)) -> Result<()> {
        let inner = &mut *self.desk.lock()?;
        inner.check_anonymous()?;
        segments.iter().try_for_each(|&segment| inner.check(segment))?;
        segments.iter().try_for_each(|&segment| inner.select(segment, self.config.arms).map(&mut each))
    }

    /// Which of these arms in this segment? For requests that may show some only: the set must be public
    /// information, not chosen by looking at rewards. O(n) for n arms; duplicates are harmless; never allocates
    /// on success.
    ///
    /// # Errors
    /// `InvalidRequest` for a segment that there is not, and where the set is empty or names an arm that there is not; as
    /// [`select`](Self::select).
    pub fn select_among(&self, segment: u32, arms: &[u32]) -> Result<Decision> {
        check_some(arms, self.config.arms)?;
        let inner = &mut *self.desk.lock()?;
        inner.check_anonymous()?;
        inner.check(segment)?;
        inner.make_room();
        let pull = inner.learner.segments.choose_among(segment, arms);
        Ok(here(inner.issue(pull), segment, self.config.arms))
    }

    /// What public data say of an arm, whatever the segment: that so many rewards had this mean. As
    /// [`Bandit::set_prior`](crate::Bandit::set_prior), but that it is in what is read: in what the pool believes.
    ///
    /// # Errors
    /// As there; never `Unsupported`.
    pub fn set_prior(&self, arm: u32, mean: f64, strength: f64) -> Result<()> {
        let prior = Prior::new(self.desk.range, mean, strength)?;
        below("arm", arm, self.config.arms)?;
        self.desk.lock()?.learner.segments.set_prior(arm, prior);
        Ok(())
    }

    /// What came of a decision: at most once a ticket. As [`Bandit::update`](crate::Bandit::update).
    ///
    /// # Errors
    /// As there.
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

    /// The arm was never played. As [`Bandit::cancel`](crate::Bandit::cancel).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn cancel(&self, ticket: u64) -> Result<()> {
        self.desk.cancel(ticket)
    }

    /// Cancels every open decision. As [`Bandit::cancel_all`](crate::Bandit::cancel_all).
    ///
    /// # Errors
    /// As there.
    pub fn cancel_all(&self) -> Result<()> {
        self.desk.cancel_all()
    }

    /// It is `now` on the caller's clock. As [`Bandit::advance`](crate::Bandit::advance).
    ///
    /// # Errors
    /// As there.
    pub fn advance(&self, now: u64) -> Result<()> {
        self.desk.advance(now)
    }

    /// Everything that may be published of the whole.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn report(&self) -> Result<PoolReport> {
        let inner = self.desk.lock()?;
        let segments = &inner.learner.segments;
        let (loss, contributions) = inner.of_one_user(segments.privacy(), self.config.contributions_per_user);
        let (epsilon_spent, delta_spent) = loss.spent(self.config.delta, contributions);
        Ok(PoolReport {
            counts: inner.engine.counts(),
            segments: segments.count(),
            max_segments: self.most,
            releases: segments.releases(),
            epsilon_spent,
            delta_spent,
            is_private: !inner.seeded,
        })
    }

    /// Counts of refused calls: for the operator's own eyes, NOT private (a duplicate click is a click).
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub fn diagnostics(&self) -> Result<Diagnostics> {
        self.desk.diagnostics()
    }

    /// What may be published of each arm in a segment: calls `each` for arms `0..arms()` in order.
    ///
    /// # Errors
    /// `InvalidRequest` for a segment that there is not; `Poisoned` after an internal failure.
    pub fn for_each_arm(&self, segment: u32, mut each: impl FnMut(u32, CellReport)) -> Result<()> {
        let inner = self.desk.lock()?;
        inner.check(segment)?;
        for arm in 0..self.config.arms {
            let (mean, effective_pulls) = inner.learner.segments.estimate(segment, arm);
            let pulls = inner.learner.segments.pulls(segment, arm);
            each(arm, CellReport { mean: self.desk.range.mean_from_unit(mean), pulls, effective_pulls });
        }
        Ok(())
    }

    /// The same of each arm in all segments together. O(arms segments).
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub(crate) fn for_each_arm_overall(&self, mut each: impl FnMut(u32, CellReport)) -> Result<()> {
        let inner = self.desk.lock()?;
        for arm in 0..self.config.arms {
            let (mean, pulls, effective_pulls) = inner.learner.segments.overall(arm);
            each(arm, CellReport { mean: self.desk.range.mean_from_unit(mean), pulls, effective_pulls });
        }
        Ok(())
    }

    /// The number of the segment with this key, if there is one.
    ///
    /// # Errors
    /// `Poisoned` after an internal failure.
    pub(crate) fn find(&self, key: u64) -> Result<Option<u32>> {
        Ok(self.desk.lock()?.learner.places.find(key).map(|segment| segment as u32))
    }

    /// Privacy loss of one user so far at this delta. As [`Bandit::epsilon_spent`](crate::Bandit::epsilon_spent).
    ///
    /// # Errors
    /// As there.
    pub fn epsilon_spent(&self, delta: f64) -> Result<f64> {
        if !(0.0..1.0).contains(&delta) {
            return Err(Error::config("delta", "must be in [0, 1)", delta));
        }
        let inner = self.desk.lock()?;
        let loss = inner.learner.segments.privacy();
        let (loss, contributions) = inner.of_one_user(loss, self.config.contributions_per_user);
        Ok(loss.epsilon(delta, contributions))
    }

    /// Arms of each segment.
    pub fn arms(&self) -> u32 {
        self.config.arms
    }

    /// What was released and what is public, as bytes: safe to log and to publish. As
    /// [`Bandit::snapshot`](crate::Bandit::snapshot).
    ///
    /// # Errors
    /// `NoMemory`; `Poisoned` after an internal failure.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        self.snapshot_within(usize::MAX)
    }

    /// The same within so many bytes. As [`Bandit::snapshot_within`](crate::Bandit::snapshot_within).
    ///
    /// # Errors
    /// As there.
    pub fn snapshot_within(&self, room: usize) -> Result<Vec<u8>> {
        self.desk.save(Kind::Pool, room, |inner, to| {
            self.save(inner, to);
            Ok(())
        })
    }

    fn save(&self, inner: &mut Inner<Known>, to: &mut Writer) {
        Kept::of(&self.config).save(to);
        to.u32(self.most);
        to.u8(inner.seeded.into());
        to.u32(self.lives);
        to.u64(inner.learner.segments.others.origin);
        to.u64(inner.periods.begun.into());
        inner.engine.counts().save(to);
        to.u64(inner.engine.now());
        to.u32(inner.learner.keys.len() as u32);
        to.alike(inner.learner.keys.iter().copied(), Writer::u64);
        let pulls = inner.learner.segments.all_pulls().map(|count| *count);
        to.counts(pulls, inner.engine.pending().map(|number| number as usize / 2));
        inner.learner.segments.save(to);
    }

    /// Goes on from a [`snapshot`](Self::snapshot). As [`Bandit::restore`](crate::Bandit::restore).
    ///
    /// # Errors
    /// As there.
    pub fn restore(snapshot: &[u8]) -> Result<Pool> {
        Self::restored(snapshot, None)
    }

    /// The same with another configuration, in the same fields as [`Bandit::restore_as`](crate::Bandit::restore_as), and
    /// any `max_segments` that its segments fit into: so a full pool grows. A budget is charged as for a fresh pool.
    ///
    /// # Errors
    /// As there; `InvalidConfig` for fewer `max_segments` than it has.
    pub fn restore_as(config: &Config, max_segments: u32, snapshot: &[u8]) -> Result<Pool> {
        Self::restored(snapshot, Some((config, max_segments)))
    }

    /// Learns from what another pool has released: from its [`snapshot`](Self::snapshot), made here or on another
    /// machine. Each pool of a fleet merges the others' newest snapshots every so often; in any order, again and again,
    /// and an older one changes nothing. See [`crate::fleet`] for what is promised.
    ///
    /// Segments are joined by their keys: one that others know and this pool does not takes no room here, and what they
    /// have released of it is there once its key is asked for. A snapshot holds what its own pool has released, not what
    /// that has merged; after [`restore`](Self::restore) merge the others' again.
    ///
    /// # Errors
    /// As [`Bandit::merge`](crate::Bandit::merge). `max_segments` may differ too.
    pub fn merge(&self, snapshot: &[u8]) -> Result<()> {
        let from = &mut Reader::new(snapshot, Kind::Pool)?;
        let head = Head::read(from)?;
        self.config.check_same(Scope::Fleet, &head.config)?;
        for _ in &head.keys {
            (0..self.config.arms).try_for_each(|_| from.count().map(drop))?; // decisions for each arm
        }
        let other = Other::read(from, head.origin, head.lives, &self.config, &head.keys)?;
        from.finish()?;
        let Inner { seeded, learner: Known { segments, keys, .. }, .. } = &mut *self.desk.lock()?;
        let mut order = table::room(keys.len())?;
        if segments.expects(&other, self.most)? {
            *seeded |= head.seeded;
            segments.take(other, keys);
        }
        if !segments.is_fitted() {
            order.extend(keys.iter().copied().zip(0..));
            order.sort_unstable();
            segments.fit(order.iter().map(|&(_, segment)| segment));
        }
        Ok(())
    }

    fn restored(snapshot: &[u8], meant: Option<(&Config, u32)>) -> Result<Pool> {
        let from = &mut Reader::new(snapshot, Kind::Pool)?;
        let head = Head::read(from)?;
        let (mut config, mut most) = (head.config.clone(), head.most);
        if let Some((meant, max_segments)) = meant {
            meant.check_same(Scope::Releases, &head.config)?;
            config = Config { test_seed: None, ..meant.clone() };
            most = max_segments;
        }
        let mut pool = Pool::made(&config, most)?;
        pool.lives = head.lives.checked_add(1).ok_or(Error::Corrupt)?;
        let inner = pool.desk.get_mut()?;
        inner.learner.segments.others.origin = head.origin;
        inner.live_on(head.seeded, head.counts, head.now, head.periods, head.config.expected_users > 0)?;
        let length = head.keys.len();
        if length > most as usize {
            let fewer =
                || Error::config("max_segments", &format!("must be at least {length}, as in the snapshot"), most);
            return Err(meant.map_or(Error::Corrupt, |_| fewer()));
        }
        for &key in &head.keys {
            inner.learner.keys.push(key);
            inner.learner.segments.add();
        }
        inner.learner.places = KeyIndex::of(&head.keys, most as usize)?;
        for pulls in inner.learner.segments.all_pulls() {
            *pulls = from.count()?;
        }
        inner.learner.segments.load(from)?;
        from.finish()?;
        config.charge(inner.seeded, inner.periods.begun, Config::loss)?;
        Ok(pool)
    }
}

/// What a snapshot begins with.
struct Head {
    config: Config,
    most: u32,
    seeded: bool,
    lives: u32,
    origin: u64,
    /// Of users, the open one too: see [`Periods`].
    periods: u32,
    counts: Counts,
    /// The caller's time.
    now: u64,
    keys: Vec<u64>,
}

impl Head {
    fn read(from: &mut Reader) -> Result<Head> {
        let (config, most) = (Config::load(from)?, from.u32()?);
        let (seeded, lives) = (from.bool()?, from.u32()?);
        let (origin, periods) = (from.u64()?, u32::try_from(from.u64()?).map_err(|_| Error::Corrupt)?);
        let (counts, now) = (Counts::load(from)?, from.u64()?);
        let length = from.length(size_of::<u64>())?;
        let mut keys = table::room(length)?;
        for _ in 0..length {
            keys.push(from.u64()?);
        }
        Ok(Head { config, most, seeded, lives, origin, periods, counts, now, keys })
    }
}

/// The numbers of a pool's decisions fit into the ring.
const _: () = assert!(2 * Pool::MOST_CELLS <= Engine::MOST_ARM as u64);

/// Is this the number of one of so many?
#[inline]
fn below(field: &'static str, number: u32, many: u32) -> Result<()> {
    if number < many { Ok(()) } else { Err(Error::request(field, &format!("must be below {many}"), number)) }
}

/// Is there one arm at least, and does each exist?
fn check_some(eligible: &[u32], arms: u32) -> Result<()> {
    if eligible.is_empty() {
        return Err(Error::request("eligible", "must name one arm at least", 0u32));
    }
    eligible.iter().try_for_each(|&arm| below("arm", arm, arms))
}

/// A decision for one of all cells, as one for an arm of its segment.
#[inline]
fn here(decision: Decision, segment: u32, arms: u32) -> Decision {
    Decision { arm: decision.arm / 2 - segment * arms, ..decision }
}

impl Inner<Known> {
    fn decide(&mut self, request: &Request, arms: u32, most: u32, each: &mut dyn FnMut(usize, Decision)) -> Result<()> {
        if request.slots != 1 {
            return Err(match request.slots {
                0 => Error::request("slots", "must be at least 1", 0u32),
                _ => Error::Unsupported("several slots in a segment"),
            });
        }
        if let Some(eligible) = request.eligible {
            check_some(eligible, arms)?;
        }
        self.check_user(request.user)?;
        let segment = match self.learner.places.find(request.segment) {
            Some(segment) => segment as u32,
            None => self.add(request.segment, most)?,
        };
        let learned = self.admit(request.user)?;
        self.make_room();
        let pull = match request.eligible {
            Some(eligible) => self.learner.segments.choose_among(segment, eligible),
            None => self.learner.segments.choose(segment),
        };
        each(0, here(self.issue_for(pull, learned), segment, arms));
        Ok(())
    }

    #[cold]
    fn add(&mut self, key: u64, most: u32) -> Result<u32> {
        if self.learner.keys.len() == most as usize {
            return Err(Error::Full);
        }
        self.learner.places.insert(key);
        self.learner.keys.push(key);
        let segment = self.learner.segments.add();
        self.learner.segments.meet(key);
        Ok(segment)
    }

    #[inline]
    fn check(&self, segment: u32) -> Result<()> {
        below("segment", segment, self.learner.segments.count())
    }

    #[inline]
    fn select(&mut self, segment: u32, arms: u32) -> Result<Decision> {
        self.check(segment)?;
        self.make_room();
        let pull = self.learner.segments.choose(segment);
        Ok(here(self.issue(pull), segment, arms))
    }
}
