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
    /// The leader is the best arm, with probability 1 - `beta`.
    Won = 1,
    /// No arm is better than the leader by [`tolerance`](crate::Config::tolerance) or more, with probability 1 - `beta`.
    Tied = 2,
    /// [`planned_end`](crate::Config::planned_end) rewards have come, and nothing is claimed. The leader has the best
    /// released mean.
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
        let mut number = *self as u32;
        number.persist(with)?;
        *self = TestState::try_from(number)?;
        Ok(())
    }
}

/// What is known of a test, in the unit interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    pub state: TestState,
    /// The arm with the best released mean.
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

    /// The arm that the test has decided for.
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
    /// Nats that refute that an arm is as good as the leader.
    pub enough: f64,
    /// Nats that refute a difference of any two arms, on either side.
    pub of_any: f64,
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
    leader: Option<(ReleaseTotals, f64)>,
    /// The arm that the leader is compared with.
    other: Option<ReleaseTotals>,
    /// The releases of all other arms that are left, and the number of rewards in them.
    others: Option<Vec<(ReleaseTotals, f64)>>,
}

impl Running {
    pub fn of(policy: &dyn Policy, arms: u32, test: &Test, claims: Claims) -> Running {
        let of = |arm: u32| policy.sums(arm).ok().map(|sums| (sums, policy.arm(arm).effective_pulls));
        let others = (0..arms).filter(|&arm| arm != test.leader && policy.arm(arm).active).map(of);
        let other = of(test.other).map(|(sums, _)| sums);
        Running { claims, leader: of(test.leader), other, others: others.collect() }
    }

    /// An interval of the leader's mean less the other's; NaN if one has no release.
    pub fn interval(&self) -> (f64, f64) {
        match (&self.leader, &self.other) {
            (Some((leader, _)), Some(other)) => self.claims.interval(self.claims.of_any, -1.0, leader, other),
            _ => (f64::NAN, f64::NAN),
        }
    }

    /// The number of rewards until the end, if the released means are the true ones.
    pub fn more(&self) -> f64 {
        let (Some((leader, count)), Some(others)) = (&self.leader, &self.others) else { return f64::NAN };
        let mixture = leader.mixture();
        let suffices = |growth: f64| {
            let best = leader.and((growth - 1.0) * count);
            let is_refuted = |(other, count): &(ReleaseTotals, f64)| {
                self.claims.is_good_enough(&mixture, &best, &other.and((growth - 1.0) * count))
            };
            others.iter().all(is_refuted)
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
        (high - 1.0) * (count + others.iter().map(|(_, count)| count).sum::<f64>())
    }
}
