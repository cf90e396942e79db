//! What a test of arms says, from released values: whether it has ended, and how much better the leader is.

use super::compare::{Mixture, ReleaseTotals};
use super::contract::Policy;
use crate::error::{Error, Result};
use crate::moving::{Archive, Persist, persist};

/// Whether a test has ended, and with which claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum TestState {
    /// It goes on.
    #[default]
    Running = 0,
    /// The leaders are the best arms, as many as [`winners`](crate::Config::winners), with probability 1 - `beta`.
    Won = 1,
    /// No other arm is better than a leader by [`tolerance`](crate::Config::tolerance) or more, with probability
    /// 1 - `beta`.
    Tied = 2,
    /// [`planned_end`](crate::Config::planned_end) rewards have come, and nothing is claimed. The leaders have the best
    /// released means.
    Undecided = 3,
}

impl TryFrom<u32> for TestState {
    type Error = Error;

    fn try_from(number: u32) -> Result<TestState> {
        use TestState::{Running, Tied, Undecided, Won};
        [Running, Won, Tied, Undecided].into_iter().find(|&state| state as u32 == number).ok_or(Error::Corrupt)
    }
}

impl Persist for TestState {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.numbered(*self as u32, self, |number| TestState::try_from(number).ok())
    }
}

/// What is known of a test, in the unit interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    pub state: TestState,
    /// The leader with the smallest released mean.
    pub leader: u32,
    /// The arm that it is compared with.
    pub other: u32,
    /// The number of rewards in the releases since the test began.
    pub rewards: u64,
    /// An interval of the leader's mean less the other's, of when the test ended; NaN before.
    pub low: f64,
    pub high: f64,
    /// Whether arms do not have their shares of what is learned from.
    pub mismatch: bool,
}

// The mismatch follows from counts, which a snapshot does not have.
persist!(Test { state, leader, other, rewards, low, high } made { mismatch });

impl Test {
    /// Bytes in a snapshot.
    pub const BYTES: usize = 36;
    pub const NEW: Test = Test {
        state: TestState::Running,
        leader: 0,
        other: 0,
        rewards: 0,
        low: f64::NAN,
        high: f64::NAN,
        mismatch: false,
    };

    /// Whether it can have come from a test.
    pub fn is_plausible(&self) -> bool {
        let is_known = |end: f64| (-1.0..=1.0).contains(&end);
        let is_interval = is_known(self.low) && is_known(self.high) && self.low <= self.high;
        is_interval || (self.low.is_nan() && self.high.is_nan())
    }

    /// Whether it has made a claim, or given up.
    pub fn has_ended(&self) -> bool {
        self.state != TestState::Running
    }

    /// The last arm that the test has decided for.
    pub fn best(&self) -> Option<u32> {
        matches!(self.state, TestState::Won | TestState::Tied).then_some(self.leader)
    }
}

/// The claims of a test, in the unit interval, and the evidence that they need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claims {
    /// The most that rounding adds to the difference of two means.
    pub rounding: f64,
    pub tolerance: f64,
    /// Nats that refute that an arm is as good as a leader.
    pub enough: f64,
    /// Nats that refute a difference of any two arms, on either side.
    pub of_any: f64,
    /// The number of leaders.
    pub winners: usize,
}

impl Claims {
    /// Whether the leader is better than another arm.
    pub fn is_better(&self, mixture: &Mixture, leader: &ReleaseTotals, other: &ReleaseTotals) -> bool {
        mixture.is_above(leader, other, self.rounding, self.enough)
    }

    /// Whether the other arm is not better than the leader by the tolerance or more.
    pub fn is_good_enough(&self, mixture: &Mixture, leader: &ReleaseTotals, other: &ReleaseTotals) -> bool {
        mixture.is_above(leader, other, self.rounding - self.tolerance, self.enough)
    }

    /// An interval of the difference of two arms that takes so many nats, and that is not below `least`.
    pub fn interval(&self, nats: f64, least: f64, this: &ReleaseTotals, that: &ReleaseTotals) -> (f64, f64) {
        let (low, high) = this.less(that, nats);
        ((low - self.rounding).max(least), (high + self.rounding).min(1.0))
    }
}

/// What is read of a test that goes on.
pub struct Running {
    claims: Claims,
    /// The arms that are left, with the number of rewards in their releases, the best first; `None` if one has no release.
    left: Option<Vec<(ReleaseTotals, f64)>>,
    /// The last leader, and the arm that it is compared with.
    pair: Option<[ReleaseTotals; 2]>,
}

impl Running {
    pub fn of(policy: &dyn Policy, arms: u32, test: &Test, claims: Claims) -> Running {
        let states = (0..arms).map(|arm| (arm, policy.arm(arm)));
        let mut left: Vec<_> = states.filter(|(_, state)| state.active).collect();
        left.sort_by(|(_, a), (_, b)| b.mean.total_cmp(&a.mean));
        let sums = |arm: u32| policy.sums(arm).ok();
        let pair = sums(test.leader).zip(sums(test.other)).map(|(leader, other)| [leader, other]);
        let left = left.into_iter().map(|(arm, state)| Some((sums(arm)?, state.effective_pulls))).collect();
        Running { claims, left, pair }
    }

    /// An interval of the last leader's mean less the other's; NaN if one has no release.
    pub fn interval(&self) -> (f64, f64) {
        match &self.pair {
            Some([leader, other]) => self.claims.interval(self.claims.of_any, -1.0, leader, other),
            None => (f64::NAN, f64::NAN),
        }
    }

    /// The number of rewards until the end, if the released means are the true ones.
    pub fn more(&self) -> f64 {
        let Some((leaders, others)) = self.left.as_ref().and_then(|left| left.split_at_checked(self.claims.winners))
        else {
            return f64::NAN;
        };
        let Some((leader, _)) = leaders.last() else { return f64::NAN };
        let mixture = leader.mixture();
        let grown = |(sums, count): &(ReleaseTotals, f64), growth: f64| sums.and((growth - 1.0) * count);
        let suffices = |growth: f64| {
            let leaders: Vec<_> = leaders.iter().rev().map(|leader| grown(leader, growth)).collect();
            others.iter().all(|other| {
                let other = grown(other, growth);
                leaders.iter().all(|leader| self.claims.is_good_enough(&mixture, leader, &other))
            })
        };
        const MOST: f64 = (1 << 20) as f64;
        let (mut low, mut high) = (1.0, MOST);
        if !suffices(high) {
            return f64::INFINITY;
        }
        for _ in 0..12 {
            let middle = f64::sqrt(low * high);
            if suffices(middle) { high = middle } else { low = middle }
        }
        (high - 1.0) * leaders.iter().chain(others).map(|(_, count)| count).sum::<f64>()
    }
}
