//! Signs that a handle cannot learn, because of how it is called. They are for reports and diagnostics: no decision
//! depends on them.

use crate::engine::Counts;
use crate::moving::persist;
use crate::reward::Reward;
use zeroize::Zeroizing;

/// Signs that a handle cannot learn. docs/operating/monitoring.md says what each means, and what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warnings(u32);

impl From<Warnings> for u32 {
    fn from(warnings: Warnings) -> u32 {
        warnings.0
    }
}

impl Warnings {
    /// No warning.
    pub const NONE: Warnings = Warnings(0);
    /// The clock is the caller's, and [`advance`](crate::Bandit::advance) has not been called for 1024 decisions, or has not
    /// moved it for as many decisions as may be pending (at least 1024): nothing takes effect, and nothing ages.
    pub const CLOCK_STOPPED: Warnings = Warnings(1);
    /// Of the last 1024 decisions or more, most expired: without a `reward_window` they got no reward and were not
    /// cancelled, and on the caller's clock too few of them can be pending.
    pub const EXPIRING: Warnings = Warnings(2);
    /// Users are counted, and fewer than one in 100 of the last 1024 decisions or more are learned from: all requests
    /// name the same users, or the period is too long, or it is not [`stored`](crate::Bandit::stored).
    pub const UNLEARNED: Warnings = Warnings(4);
    /// The handle contributes, and in its last 65,536 decisions has merged no snapshot of another handle: what it
    /// contributes does not come back.
    pub const UNMERGED: Warnings = Warnings(8);
    /// All of the last 65,535 rewards that took effect, or more, are the smallest one: no reward arrives. Depends on
    /// rewards, so it is in [`Diagnostics`](crate::Diagnostics) only.
    pub const ALL_SMALLEST: Warnings = Warnings(16);
    /// All of the last 1024 rewards that took effect, or more, are the largest one; or all of 32 or more since the handle
    /// was made, if at most one in four decisions has a reward: only clicks are reported, or something else than clicks.
    /// In [`Diagnostics`](crate::Diagnostics) only.
    pub const ALL_LARGEST: Warnings = Warnings(32);
    /// 16,384 rewards took effect, or more, and nothing was released: epsilon is so small that an arm's first batch has
    /// more rewards. Batches close at public times, so this reveals no reward.
    pub const UNRELEASED: Warnings = Warnings(64);

    /// These warnings as bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of these warnings are among those.
    pub const fn contains(self, those: Warnings) -> bool {
        self.0 & those.0 == those.0
    }

    /// Adds a warning if it applies.
    #[must_use]
    fn with(self, warning: Warnings, applies: bool) -> Warnings {
        Warnings(self.0 | if applies { warning.0 } else { 0 })
    }
}

/// What a handle remembers for its warnings. No snapshot contains it. Numbers of decisions are modulo 2^32.
#[derive(Default)]
pub(super) struct Health {
    /// The numbers of decisions and of expired ones when the span began.
    began: u32,
    expired: u32,
    /// The numbers of decisions when the time last moved, and when the handle last merged.
    advanced: u32,
    merged: u32,
    /// Whether the caller's clock was ever set.
    is_set: bool,
    /// The numbers of decisions and of rewards when the handle was made.
    decisions: u32,
    answered: u32,
    /// The reward that took effect last, and how often it did in a row.
    last: Zeroizing<Reward>,
    row: Zeroizing<u16>,
    /// With counters of users, the decisions of the span that the policy does not learn from.
    unlearned: u16,
    /// Whether the span before had the warnings EXPIRING and UNLEARNED.
    was_expiring: bool,
    was_unlearned: bool,
}

/// The decisions since another one.
#[inline(always)]
fn since(then: u32, decisions: u64) -> u64 {
    (decisions as u32).wrapping_sub(then).into()
}

impl Health {
    /// Decisions of a span.
    const SPAN: u64 = 1 << 10;
    /// Decisions without a merge after which a contributor is warned of.
    const LONG: u64 = 1 << 16;
    /// Rewards without a release after which a handle is warned of.
    const MANY: u64 = 1 << 14;
    /// Rewards that are enough if they are all that the handle ever got.
    const FEW: u64 = 1 << 5;

    /// Begins with these counts, for example after a restart.
    pub fn begin(&mut self, counts: Counts) {
        let now = counts.decisions as u32;
        let answered = counts.answered as u32;
        *self = Health { advanced: now, merged: now, decisions: now, answered, ..Health::default() };
        self.begin_span(counts);
    }

    fn begin_span(&mut self, counts: Counts) {
        (self.began, self.expired, self.unlearned) = (counts.decisions as u32, counts.expired as u32, 0);
    }

    /// Whether the span ends before the next decision.
    #[inline(always)]
    pub fn is_due(&self, decisions: u64) -> bool {
        since(self.began, decisions) >= Self::SPAN
    }

    /// Ends the span.
    #[cold]
    #[inline(never)]
    pub fn look(&mut self, counts: Counts) {
        let decisions = since(self.began, counts.decisions);
        self.was_expiring = 2 * since(self.expired, counts.expired) > decisions;
        self.was_unlearned = 100 * decisions.saturating_sub(self.unlearned.into()) < decisions;
        self.begin_span(counts);
    }

    /// Where users are counted, counts a decision that the policy does not learn from.
    pub fn count_unlearned(&mut self) {
        self.unlearned = self.unlearned.saturating_add(1);
    }

    /// Notes a reward that takes effect.
    #[inline(always)]
    pub fn note(&mut self, reward: Reward) {
        let row = if reward == *self.last { *self.row } else { 0 };
        *self.row = row.saturating_add(1);
        *self.last = reward;
    }

    /// The caller's clock was set.
    pub fn set(&mut self) {
        self.is_set = true;
    }

    /// The caller's clock moved.
    pub fn advance(&mut self, decisions: u64) {
        self.advanced = decisions as u32;
    }

    /// The handle merged a snapshot of another handle, or began to contribute.
    pub fn merge(&mut self, decisions: u64) {
        self.merged = decisions as u32;
    }

    /// Warnings that depend on public facts alone. `pending`: as many decisions as may be pending on the caller's clock;
    /// `None` on the other one. `releases`: the number of releases, of a policy that makes them for itself.
    pub fn warnings(&self, counts: Counts, pending: Option<u64>, contributes: bool, releases: Option<u32>) -> Warnings {
        let decisions = counts.decisions;
        let stopped = |pending: u64| {
            let still = if self.is_set { pending.max(Self::SPAN) } else { Self::SPAN };
            since(self.advanced, decisions) >= still
        };
        let unreleased = releases == Some(0) && counts.answered >= Self::MANY;
        Warnings::NONE
            .with(Warnings::EXPIRING, self.was_expiring)
            .with(Warnings::UNLEARNED, self.was_unlearned)
            .with(Warnings::CLOCK_STOPPED, pending.is_some_and(stopped))
            .with(Warnings::UNRELEASED, unreleased)
            .with(Warnings::UNMERGED, contributes && since(self.merged, decisions) >= Self::LONG)
    }

    /// Warnings that depend on rewards. At a rate of 1 in 5000, 65,535 in a row are the smallest with a probability of
    /// 2e-6.
    pub fn of_rewards(&self, counts: Counts) -> Warnings {
        let row = u64::from(*self.row);
        let rare = 4 * row <= since(self.decisions, counts.decisions);
        let enough = row >= Self::SPAN || (row >= Self::FEW && row == since(self.answered, counts.answered) && rare);
        Warnings::NONE
            .with(Warnings::ALL_SMALLEST, *self.last == Reward::MIN && *self.row == u16::MAX)
            .with(Warnings::ALL_LARGEST, self.last.units() == Reward::ONE && enough)
    }
}

persist!(Health {
    began,
    expired,
    advanced,
    merged,
    is_set,
    decisions,
    answered,
    last,
    row,
    unlearned,
    was_expiring,
    was_unlearned
});
