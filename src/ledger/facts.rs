//! Public facts of a handle that learns from a set of releases: counts, its duty, and the time that ages are measured in,
//! ticks of the configuration's clock.

use super::open::Batch;
use crate::config::{Clock, Config};
use crate::error::Result;
use crate::moving::{Archive, Persist, persist};
use crate::noise::Noise;
use crate::privacy::PrivacyLoss;
use crate::snapshot::is_plausible;
use std::f64::consts::LN_2;

/// What a handle does with the rewards that it collects: see [`crate::contribution`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It releases its own full batches.
    Alone,
    /// It contributes open sums to the leader with this generation, and releases nothing.
    Contributes(u64),
    /// It releases full batches of its own and of contributed rewards, as the leader with this generation.
    Leads(u64),
}

impl Duty {
    pub(crate) fn contributes(self) -> bool {
        matches!(self, Duty::Contributes(_))
    }

    pub(crate) fn leads(self) -> bool {
        self.led() > 0
    }

    /// The number of this duty in other languages.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Duty::Alone => 0,
            Duty::Contributes(_) => 1,
            Duty::Leads(_) => 2,
        }
    }

    /// The generation that it contributes to or leads; 0 alone.
    pub(crate) fn generation(self) -> u64 {
        match self {
            Duty::Alone => 0,
            Duty::Contributes(generation) | Duty::Leads(generation) => generation,
        }
    }

    /// The generation that the handle leads, or 0.
    pub(crate) fn led(self) -> u64 {
        if let Duty::Leads(generation) = self { generation } else { 0 }
    }
}

/// How the handles of a fleet share the work.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    /// By how many handles the rewards for one release are divided, each of which releases its own.
    pub divides: f64,
    /// How many handles share each batch.
    pub sharers: u32,
    /// The maximum size of a batch. What is in open batches when a leader ends is lost. So the batches of a new leader
    /// grow from small ones, by the rewards that it released since it leads: whenever it ends, it has released a part of
    /// what was contributed to it.
    pub limit: f64,
}

/// What is public of a handle, whatever it learns.
pub(crate) struct Facts {
    /// Number of decisions so far, including cancelled ones.
    pub decisions: u64,
    pub releases: u32,
    pub time: Time,
    duty: Duty,
    /// Number of rewards that this handle released since it has its duty.
    led: u64,
    /// The number of handles that share each batch, this one included, from the next batch on, as the caller says; 0: it is
    /// that of the active ones.
    pub stated: u32,
    /// This handle and the active others.
    pub active: u32,
    /// Whether the handle was restored or is in a fleet, so that there may have been other releases.
    may_have_released: bool,
}

impl Facts {
    pub fn new(config: &Config) -> Facts {
        let time = Time::of(config.clock, config.forget_after);
        let (duty, may_have_released) = (Duty::Alone, false);
        let (decisions, releases, led, stated, active) = (0, 0, 0, 0, 1);
        Facts { decisions, releases, time, duty, led, stated, active, may_have_released }
    }

    /// The time on the configuration's clock.
    pub fn now(&self) -> u64 {
        self.time.at(self.decisions)
    }

    /// Advances the caller's clock by so many ticks.
    pub fn advance(&mut self, ticks: u64) {
        self.time.advance(ticks, self.decisions);
    }

    /// From now on there may have been releases that this handle does not count.
    pub fn assume_releases(&mut self) {
        self.may_have_released = true;
    }

    /// Counts a release of so many rewards.
    pub fn release(&mut self, rewards: u64) {
        self.releases = self.releases.saturating_add(1);
        self.led += rewards;
    }

    pub fn duty(&self) -> Duty {
        self.duty
    }

    pub fn set_duty(&mut self, duty: Duty) {
        (self.duty, self.led) = (duty, 0);
        self.assume_releases();
    }

    /// How the handles share the work now.
    pub fn share(&self) -> Share {
        const GROWTH: f64 = 4.0;
        let limit = if self.duty.leads() { GROWTH * self.led as f64 } else { f64::INFINITY };
        let (divides, sharers) = if self.duty == Duty::Alone { (self.handles(), 1) } else { (1, self.handles()) };
        Share { divides: divides.into(), sharers, limit }
    }

    /// The quota of a batch of this size. A contributor's batch is never full.
    pub fn quota(&self, size: u64) -> u64 {
        if self.duty.contributes() { Batch::MAX_QUOTA } else { size }
    }

    /// The number of handles that share the work, this one included.
    pub fn handles(&self) -> u32 {
        if self.stated > 0 { self.stated } else { self.active }
    }

    /// The loss by one release of each reward; 0 before the first release.
    pub fn privacy(&self, noise: &Noise) -> PrivacyLoss {
        let released = self.releases > 0 || self.may_have_released;
        match noise {
            Noise::Laplace(distribution) => PrivacyLoss::Pure(if released { distribution.epsilon() } else { 0.0 }),
            Noise::Gaussian(distribution) => PrivacyLoss::Zcdp(if released { distribution.rho() } else { 0.0 }),
        }
    }

    /// Continues from what was saved. Returns whether the time continues: see [`Time::continue_from`].
    pub fn continue_from(&mut self, saved: &SavedFacts) -> bool {
        (self.decisions, self.releases) = (saved.decisions, saved.releases);
        self.assume_releases();
        self.time.continue_from(&saved.time)
    }

    #[cfg(test)]
    pub fn led(&self) -> u64 {
        self.led
    }
}

/// What a snapshot has of the [`Facts`] of a handle.
#[derive(Clone, Copy)]
pub(crate) struct SavedFacts {
    pub decisions: u64,
    pub releases: u32,
    pub time: Time,
}

impl SavedFacts {
    /// What a snapshot replaces.
    pub const NOTHING: SavedFacts = SavedFacts { decisions: 0, releases: 0, time: Time::of(Clock::Decisions, 0) };

    /// The time of the snapshot on its configuration's clock.
    pub fn now(&self) -> u64 {
        self.time.at(self.decisions)
    }
}

impl Persist for SavedFacts {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.count(&mut self.decisions)?;
        self.releases.persist(with)?;
        let time = &mut self.time;
        time.persist(with)?;
        (time.learned, time.counted) = (time.ticks, self.decisions);
        with.ensure(time.memory <= Config::MOST_MEMORY && time.ticks <= Time::END)?;
        with.ensure([time.decisions, time.elapsed].iter().all(|&number| is_plausible(number) && number >= 0.0))
    }
}

persist!(Time { clock, memory, ticks, decisions, elapsed } made { learned, counted });

impl Persist for Clock {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        with.numbered(*self as u32, self, |number| Clock::try_from(number).ok())
    }
}

/// The time of a policy that forgets: the number of its decisions, or the time of the caller's clock.
///
/// The caller's clock may advance by any number of ticks. Releases older than `forget_after` do not count, so the
/// time need not advance much further while nothing is learned: it stops [`IDLE`](Self::IDLE) times `forget_after`
/// after the last release that was learned. So ages fit 32 bits in units of `forget_after`/1024.
///
/// **Privacy.** The time is a function of decisions and advances, which are public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    clock: Clock,
    /// `forget_after`, in ticks; 0 = nothing is ever forgotten, and the time does not matter.
    memory: u64,
    /// Time of the caller's clock, starting at 0.
    ticks: u64,
    /// Time at which something was learned last.
    learned: u64,
    /// Number of decisions up to the last advance. `decisions` and `elapsed` are discounted decisions and ticks,
    /// which halve with every `forget_after`; their ratio is the pace.
    counted: u64,
    decisions: f64,
    elapsed: f64,
}

impl Time {
    /// Maximum time without learning, in units of `forget_after`.
    const IDLE: u64 = 1 << 16;
    /// Maximum time: more ticks than any clock has, and the most that a snapshot may contain.
    const END: u64 = 1 << 62;

    const fn of(clock: Clock, memory: u64) -> Time {
        Time { clock, memory, ticks: 0, learned: 0, counted: 0, decisions: 0.0, elapsed: 0.0 }
    }

    fn is_the_callers(&self) -> bool {
        self.clock == Clock::Caller && self.memory > 0
    }

    /// The time after `decisions` decisions.
    pub fn at(&self, decisions: u64) -> u64 {
        if self.is_the_callers() { self.ticks } else { decisions }
    }

    /// Advances the caller's clock by `ticks`, after `decisions` decisions.
    pub fn advance(&mut self, ticks: u64, decisions: u64) {
        if !self.is_the_callers() {
            return;
        }
        let last = self.learned.saturating_add(self.memory.saturating_mul(Self::IDLE));
        self.ticks = self.ticks.saturating_add(ticks).min(last).min(Self::END);
        let made = (decisions - self.counted) as f64;
        self.counted = decisions;
        // Before the first decision there is no pace.
        if made > 0.0 || self.elapsed > 0.0 {
            let memories = ticks as f64 / self.memory as f64;
            let discount = (-memories).exp2();
            // The integral of the discount over these ticks.
            let weight = -(-memories * LN_2).exp_m1() / LN_2 * self.memory as f64;
            (self.decisions, self.elapsed) = (discount * self.decisions + made, discount * self.elapsed + weight);
        }
    }

    /// Records that something is learned now.
    pub fn learn(&mut self) {
        self.learned = self.ticks;
    }

    /// The estimated number of decisions in `ticks` ticks; infinite while the pace is unknown.
    pub fn decisions_in(&self, ticks: f64) -> f64 {
        match (self.is_the_callers(), self.elapsed > 0.0) {
            (false, _) => ticks,
            (true, false) => f64::INFINITY,
            (true, true) => ticks * self.decisions / self.elapsed,
        }
    }

    /// Continues the time of a snapshot. Returns false if the snapshot had another clock: then the time starts anew,
    /// and the caller must keep ages as fractions of `forget_after`.
    pub fn continue_from(&mut self, saved: &Time) -> bool {
        let same = self.is_the_callers() == saved.is_the_callers();
        match same && self.is_the_callers() {
            true => *self = Time { memory: self.memory, ..*saved },
            false => self.counted = saved.counted,
        }
        same
    }

    /// `forget_after`, in ticks.
    pub fn memory(&self) -> u64 {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_decisions_is_never_advanced() {
        let mut time = Time::of(Clock::Decisions, 2000);
        time.advance(7, 3);
        assert_eq!((time.at(5), time.decisions_in(12.0)), (5, 12.0));
    }

    /// The pace is that of about the last `forget_after`: 3 decisions a tick, and then one in 10 ticks.
    #[test]
    fn knows_how_many_decisions_there_are() {
        let mut time = Time::of(Clock::Caller, 10_000);
        time.advance(1 << 40, 0);
        assert_eq!(time.decisions_in(10.0), f64::INFINITY);
        let mut decisions = 0;
        for _ in 0..100_000 {
            decisions += 3;
            time.advance(1, decisions);
        }
        assert!((time.decisions_in(10.0) - 30.0).abs() < 0.1);
        for _ in 0..20_000 {
            decisions += 1;
            time.advance(10, decisions);
        }
        assert!((time.decisions_in(10.0) - 1.0).abs() < 0.1);
        time.advance(1 << 60, decisions);
        assert!(time.decisions_in(10.0) < 1e-3);
    }

    /// The clock advances by years, again and again: the time stops, and continues once something is learned.
    #[test]
    fn nothing_is_learned_and_no_time_passes() {
        let mut time = Time::of(Clock::Caller, 1024);
        time.advance(5, 1);
        time.learn();
        for _ in 0..3 {
            time.advance(u64::MAX / 2, 1);
            assert_eq!(time.at(1), 5 + (1024 << 16));
        }
        time.learn();
        time.advance(3, 1);
        assert_eq!(time.at(1), 8 + (1024 << 16));
    }
}
