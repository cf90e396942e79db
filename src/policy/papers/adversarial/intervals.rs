//! Intervals: an arm is drawn once, pulled a fixed number of times, and the sum of its rewards is released once.
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`]: a decision belongs to one interval from the moment it is made
//! (its pull carries the interval's number). An interval closes when the last of its pulls has its reward, and its
//! sum is released then, once, with noise for sensitivity one.
//!
//! When all pulls of an interval are pending the next one opens, so that delayed rewards cost no decisions. Intervals
//! then close out of order. A cancelled pull is issued again before any new interval opens. If an interval is still
//! open when its place in the ring is needed, it is abandoned without a release. That takes about twice the pending
//! capacity in decisions, so it happens only by repeated cancellations.
//!
//! Cost: O(1) a call; 24 bytes an arm, and 96 bytes for each interval that can be open at a time, about
//! `pending_capacity / plays` of them.

use crate::config::Config;
use crate::engine::Engine;
use crate::error::Result;
use crate::ledger::open::{Batch, Release};
use crate::memory::{WipedVec, try_with_capacity};
use crate::moving::{Archive, Persist, persist};
use crate::noise::{Laplace, Noise, NoiseSource};
use crate::policy::contract::{ArmState, Pull};
use crate::random::Random;
use crate::reward::Reward;
use crate::snapshot::is_plausible;
use std::collections::VecDeque;

pub struct Intervals {
    plays: u64,
    /// The loss of one release.
    epsilon: f64,
    noise: NoiseSource,
    /// The interval with number n is at n modulo the length.
    ring: WipedVec<PlayInterval>,
    /// Intervals with pulls to issue, oldest first. There are at most as many as places in the ring.
    waiting: VecDeque<u32>,
    totals: WipedVec<IntervalTotals>,
    /// The last interval's number (it wraps).
    last: u32,
    released: bool,
}

struct PlayInterval {
    number: u32,
    /// The draw that opened the interval, with its propensity.
    drawn: Pull,
    unissued: u64,
    batch: Batch,
    open: bool,
}

/// The releases of an arm.
#[derive(Default)]
pub struct IntervalTotals {
    sum: f64,
    pub rewards: u64,
    pub releases: u64,
}

impl IntervalTotals {
    /// The mean of all releases.
    pub fn state(&self, width: f64, active: bool) -> ArmState {
        let rewards = self.rewards as f64;
        ArmState { mean: self.sum / rewards, width, effective_pulls: rewards, active }
    }
}

impl Intervals {
    pub fn new(config: &Config, plays: u64, distribution: Laplace, random: Random) -> Result<Intervals> {
        let in_flight = Engine::places(config) as u64;
        let length = (in_flight / plays + 2).next_power_of_two() as usize;
        let closed =
            || PlayInterval { number: 0, drawn: Pull::of(0), unissued: 0, batch: Batch::default(), open: false };
        Ok(Intervals {
            plays,
            epsilon: distribution.epsilon(),
            noise: NoiseSource::new(Noise::Laplace(distribution), random),
            ring: WipedVec::new(length, |_| closed())?,
            waiting: try_with_capacity(length)?.into(),
            totals: WipedVec::new(config.arms as usize, |_| IntervalTotals::default())?,
            last: 0,
            released: false,
        })
    }

    /// Whether an interval must be opened before the next pull.
    #[inline]
    pub fn needs_arm(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Opens the next interval. Returns the draw of the interval that is abandoned for it, if any.
    pub fn open(&mut self, drawn: Pull) -> Option<Pull> {
        self.last = self.last.wrapping_add(1);
        self.waiting.push_back(self.last);
        let (number, unissued) = (self.last, self.plays);
        let interval = self.at(number);
        let given_up = interval.open.then_some(interval.drawn);
        *interval = PlayInterval { number, drawn, unissued, batch: Batch::open(unissued), open: true };
        given_up
    }

    /// Issues the next pull.
    #[inline]
    pub fn play(&mut self) -> Pull {
        let number = *self.waiting.front().expect("an interval was opened");
        let interval = self.at(number);
        interval.unissued -= 1;
        let pull = interval.drawn.in_phase(number);
        if interval.unissued == 0 {
            self.waiting.pop_front();
        }
        pull
    }

    /// Credits a reward. If it is the last of its interval, returns the interval's draw and its release.
    #[inline]
    pub fn observe(&mut self, pull: Pull, reward: Reward) -> Option<(Pull, Release)> {
        let interval = self.find(pull)?;
        interval.batch.collect(reward);
        if interval.batch.free() > 0 {
            return None;
        }
        interval.open = false;
        let (drawn, mut batch) = (interval.drawn, std::mem::take(&mut interval.batch));
        self.released = true;
        let release = batch.release(&mut self.noise);
        let totals = &mut self.totals[drawn.arm() as usize];
        totals.sum += release.sum;
        totals.rewards += release.count;
        totals.releases += 1;
        Some((drawn, release))
    }

    pub fn totals(&self, arm: u32) -> &IntervalTotals {
        &self.totals[arm as usize]
    }

    /// Cancels a pull, which will be issued again.
    pub fn cancel(&mut self, pull: Pull) {
        let Some(interval) = self.find(pull) else { return };
        interval.unissued += 1;
        if interval.unissued == 1 {
            self.waiting.push_back(pull.phase());
        }
    }

    /// The number of the last interval.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// The loss of one release; 0 before the first.
    pub fn epsilon(&self) -> f64 {
        if self.released { self.epsilon } else { 0.0 }
    }

    /// Moves what a snapshot has: no open intervals.
    pub fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.released |= with.reads(); // there may have been releases since the snapshot
        self.last.persist(with)?;
        with.arms(self.totals.len())?;
        with.alike(self.totals.iter_mut(), |with, IntervalTotals { sum, rewards, releases }| {
            sum.persist(with)?;
            with.count(rewards)?;
            with.count(releases)?;
            let alike = (*rewards > 0) == (*releases > 0) && (*rewards > 0 || *sum == 0.0);
            with.ensure(is_plausible(*sum) && *rewards >= *releases && alike)
        })
    }

    fn at(&mut self, number: u32) -> &mut PlayInterval {
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    /// The pull's interval, if it is still open.
    fn find(&mut self, pull: Pull) -> Option<&mut PlayInterval> {
        Some(self.at(pull.phase())).filter(|interval| interval.open && interval.number == pull.phase())
    }
}

persist!(Intervals { ring, waiting, totals, last, released } made { plays, epsilon, noise });
persist!(IntervalTotals { sum, rewards, releases });
persist!(PlayInterval { number, drawn, unissued, batch, open });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    impl Intervals {
        /// Number of pulls for each draw.
        pub fn plays(&self) -> u64 {
            self.plays
        }
    }

    fn intervals(plays: u64, capacity: u32) -> Intervals {
        let mut config = Config::new(3, 1.0);
        config.pending_capacity = capacity;
        // At scale 1 the noise is far below half a reward.
        let noise = Seed::new(Some([1; 32])).unwrap().stream();
        Intervals::new(&config, plays, Laplace::with_scale(1), noise).unwrap()
    }

    fn drawn(arm: u32) -> Pull {
        Pull::new(arm, 70 + arm, 0.5)
    }

    fn one() -> Reward {
        Reward::from_units(Reward::ONE as u32)
    }

    #[test]
    fn answers_belong_to_their_own_interval_in_any_order() {
        let mut intervals = intervals(2, 8);
        let mut pulls = Vec::new();
        for arm in 0..3 {
            assert!(intervals.needs_arm());
            assert!(intervals.open(drawn(arm)).is_none());
            pulls.extend([intervals.play(), intervals.play()]);
        }
        assert!(intervals.observe(pulls[5], one()).is_none());
        assert!(intervals.observe(pulls[0], Reward::MIN).is_none());
        let (pull, release) = intervals.observe(pulls[4], one()).unwrap();
        assert_eq!((pull, release.sum.round()), (drawn(2), 2.0));
        let (pull, release) = intervals.observe(pulls[1], one()).unwrap();
        assert_eq!((pull, release.sum.round(), release.count), (drawn(0), 1.0, 2));
        assert!(intervals.observe(pulls[1], one()).is_none()); // closed: takes nothing more
    }

    #[test]
    fn cancelled_plays_are_issued_again_first() {
        let mut intervals = intervals(2, 8);
        intervals.open(drawn(1));
        let first = [intervals.play(), intervals.play()];
        intervals.open(drawn(0));
        intervals.play();
        first.iter().for_each(|&pull| intervals.cancel(pull));
        assert_eq!((intervals.play().arm(), intervals.play(), intervals.play()), (0, first[0], first[1]));
        assert!(intervals.needs_arm());
    }

    #[test]
    fn an_interval_that_never_ends_is_given_up() {
        let mut intervals = intervals(1, 2);
        let length = intervals.ring.len() as u32;
        intervals.open(drawn(1));
        let lost = intervals.play();
        for _ in 1..length {
            assert!(intervals.open(drawn(0)).is_none());
            let pull = intervals.play();
            intervals.observe(pull, one()).unwrap();
        }
        assert_eq!(intervals.open(drawn(0)), Some(drawn(1)));
        assert!(intervals.observe(lost, one()).is_none());
        intervals.cancel(lost); // of no effect
        assert_eq!(intervals.play().arm(), 0);
        assert!(intervals.needs_arm());
    }
}
