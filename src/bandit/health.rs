//! Signs that a handle cannot learn, because of how it is called. They are for reports and diagnostics: no decision
//! depends on them.

use crate::engine::Counts;
use crate::reward::Reward;
use zeroize::Zeroizing;

/// Signs that a handle cannot learn. docs/operating.md says what each means, and what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warnings(u32);

impl Warnings {
    /// No warning.
    pub const NONE: Warnings = Warnings(0);
    /// The clock is the caller's, and [`advance`](crate::Bandit::advance) has not moved it for as many decisions as may
    /// be pending (at least 1024): nothing takes effect, and nothing ages.
    pub const CLOCK_STOPPED: Warnings = Warnings(1);
    /// Of the last 1024 decisions or more, most expired: without a `reward_window` they got no reward and were not
    /// cancelled, and on the caller's clock too few of them can be pending.
    pub const EXPIRING: Warnings = Warnings(2);
    /// Users are counted, and fewer than one in 100 of the last 1024 decisions or more are learned from: all requests
    /// name the same users, or the period is too long, or it has no snapshot.
    pub const UNLEARNED: Warnings = Warnings(4);
    /// The handle contributes, and in its last 65,536 decisions has merged no snapshot of another handle: what it
    /// contributes does not come back.
    pub const UNMERGED: Warnings = Warnings(8);
    /// All of the last 65,536 rewards that took effect, or more, are the smallest one: no reward arrives. Depends on
    /// rewards, so it is in [`Diagnostics`](crate::Diagnostics) only.
    pub const ALL_SMALLEST: Warnings = Warnings(16);
    /// All of the last 1024 rewards that took effect, or more, are the largest one: only clicks are reported, or
    /// something else than clicks. In [`Diagnostics`](crate::Diagnostics) only.
    pub const ALL_LARGEST: Warnings = Warnings(32);

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

/// What a handle remembers for its warnings. No snapshot contains it.
#[derive(Default)]
pub(super) struct Health {
    /// The decision at which the span ends, and the numbers of decisions and of expired ones when it began.
    due: u64,
    began: u64,
    expired: u64,
    /// Decisions of the span that the policy does not learn from.
    unlearned: u64,
    /// Warnings of the span before.
    of_span: Warnings,
    /// The numbers of decisions when the time last moved, and when the handle last merged.
    advanced: u64,
    merged: u64,
    /// The numbers of smallest and of largest rewards that took effect last, in a row.
    smallest: Zeroizing<u64>,
    largest: Zeroizing<u64>,
}

impl Health {
    /// Decisions of a span.
    const SPAN: u64 = 1 << 10;
    /// Decisions without a merge after which a contributor is warned of. Also the number of smallest rewards in a row: at
    /// a rate of 1 in 5000, all of so many are with a probability of 2e-6.
    const LONG: u64 = 1 << 16;

    /// Begins with these counts, for example after a restart.
    pub fn begin(&mut self, counts: Counts) {
        let now = counts.decisions;
        *self = Health { advanced: now, merged: now, ..Health::default() };
        self.begin_span(counts);
    }

    fn begin_span(&mut self, counts: Counts) {
        (self.began, self.due) = (counts.decisions, counts.decisions + Self::SPAN);
        (self.expired, self.unlearned) = (counts.expired, 0);
    }

    /// Whether the span ends before the next decision.
    #[inline(always)]
    pub fn is_due(&self, decisions: u64) -> bool {
        decisions >= self.due
    }

    /// Ends the span. `users`: whether users are counted.
    #[cold]
    #[inline(never)]
    pub fn look(&mut self, counts: Counts, users: bool) {
        let decisions = counts.decisions - self.began;
        self.of_span = Warnings::NONE
            .with(Warnings::EXPIRING, 2 * (counts.expired - self.expired) > decisions)
            .with(Warnings::UNLEARNED, users && 100 * (decisions - self.unlearned) < decisions);
        self.begin_span(counts);
    }

    /// Counts a decision that the policy does not learn from.
    pub fn count_unlearned(&mut self) {
        self.unlearned += 1;
    }

    /// Notes a reward that takes effect.
    #[inline(always)]
    pub fn note(&mut self, reward: Reward) {
        let counted = |run: u64, goes_on| if goes_on { run + 1 } else { 0 };
        *self.smallest = counted(*self.smallest, reward == Reward::MIN);
        *self.largest = counted(*self.largest, reward.units() == Reward::ONE);
    }

    /// The caller's clock moved.
    pub fn advance(&mut self, decisions: u64) {
        self.advanced = decisions;
    }

    /// The handle merged a snapshot of another handle, or began to contribute.
    pub fn merge(&mut self, decisions: u64) {
        self.merged = decisions;
    }

    /// Warnings that depend on public facts alone. `pending`: as many decisions as may be pending on the caller's clock;
    /// `None` on the other one.
    pub fn warnings(&self, decisions: u64, pending: Option<u64>, contributes: bool) -> Warnings {
        let stopped = pending.is_some_and(|pending| decisions - self.advanced >= pending.max(Self::SPAN));
        self.of_span
            .with(Warnings::CLOCK_STOPPED, stopped)
            .with(Warnings::UNMERGED, contributes && decisions - self.merged >= Self::LONG)
    }

    /// Warnings that depend on rewards.
    pub fn of_rewards(&self) -> Warnings {
        Warnings::NONE
            .with(Warnings::ALL_SMALLEST, *self.smallest >= Self::LONG)
            .with(Warnings::ALL_LARGEST, *self.largest >= Self::SPAN)
    }
}
