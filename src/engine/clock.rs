//! The caller's clock, and what happens if it shows a wrong time.

use crate::config::Config;
use crate::error::Result;
use crate::moving::{Archive, Persist};

/// The time that the caller's calls have let pass, and how far the caller's clock had come.
///
/// The first call begins the time: one reward window passes, so that earlier decisions end. A wrong time costs little:
/// neither a handle that was told a time a year ahead, nor one that continues from its snapshot, waits for a year. After
/// a *leap* the clock continues from the time that it shows:
/// * back by more than the reward window and 1/1024 of `forget_after`: no time passes;
/// * with `forget_after`, ahead by more than 16 reward windows and 16 times `forget_after`: one reward window passes.
///   So open decisions end, and nothing is forgotten.
///
/// A smaller step back changes nothing, because calls of several threads may overtake each other.
///
/// **Privacy.** The time that passes is a function of the times that the caller passes, which are public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallerClock {
    /// Ticks that have passed since this handle was made.
    pub now: u64,
    /// The caller's time at the last step; `None` before the first one.
    pub last: Option<u64>,
    /// Number of leaps.
    pub leaps: u64,
    window: u64,
    /// Steps beyond these are leaps.
    most_back: u64,
    most_ahead: u64,
}

impl CallerClock {
    pub fn new(config: &Config) -> CallerClock {
        let (window, memory) = (u64::from(config.reward_window), config.forget_after);
        CallerClock {
            now: 0,
            last: None,
            leaps: 0,
            window,
            most_back: if window.max(memory) > 0 { window.max(memory / 1024) } else { u64::MAX },
            most_ahead: if memory > 0 { 16 * window.max(memory) } else { u64::MAX },
        }
    }

    /// Lets ticks pass. Then the caller's clock shows a time that is as much later.
    pub fn skip(&mut self, ticks: u64) {
        self.last = self.last.map(|last| last.saturating_add(ticks));
        self.now = self.now.saturating_add(ticks);
    }

    /// Returns the ticks that pass because the caller's clock shows `time`.
    pub fn advance(&mut self, time: u64) -> u64 {
        let passed = match self.last {
            None => self.window,
            Some(last) if time < last && last - time <= self.most_back => return 0,
            Some(last) if time < last => {
                self.leaps += 1;
                0
            }
            Some(last) if time - last > self.most_ahead => {
                self.leaps += 1;
                self.window
            }
            Some(last) => time - last,
        };
        self.last = Some(time);
        self.now = self.now.saturating_add(passed);
        passed
    }
}

impl Persist for CallerClock {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let CallerClock { now, last, leaps, window: _, most_back: _, most_ahead: _ } = self;
        now.persist(with)?;
        with.option(last, || Ok(0))?;
        leaps.persist(with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(reward_window: u32, forget_after: u64) -> CallerClock {
        CallerClock::new(&Config { reward_window, forget_after, ..Config::new(2, 1.0) })
    }

    /// The first call may show any time. Then a year ahead and back costs one reward window.
    #[test]
    fn a_leap_costs_one_window() {
        let (epoch, year) = (1_790_000_000_000, 31_536_000_000);
        let mut clock = clock(1000, 604_800_000);
        assert_eq!(clock.advance(epoch), 1000);
        assert_eq!((clock.advance(epoch + 5), clock.leaps), (5, 0));
        assert_eq!((clock.advance(epoch + year), clock.leaps), (1000, 1));
        assert_eq!((clock.advance(epoch + year + 7), clock.leaps), (7, 1));
        assert_eq!((clock.advance(epoch + 20), clock.leaps), (0, 2));
        assert_eq!((clock.advance(epoch + 30), clock.leaps, clock.now), (10, 2, 2022));
    }

    /// Steps at the limits.
    #[test]
    fn the_limits_are_as_documented() {
        // window, forget_after, the largest step back, the largest step ahead
        for (window, memory, back, ahead) in [
            (1000, 0, 1000, u64::MAX - 6000), // no limit ahead
            (0, 2048, 2, 32_768),
            (1000, 2048, 1000, 32_768),
            (1000, 1 << 20, 1024, 1 << 24),
            (4000, 2048, 4000, 64_000),
        ] {
            let start = || {
                let mut clock = clock(window, memory);
                clock.advance(5000);
                clock
            };
            for (step, passed, leaps) in [(ahead, ahead, 0), (ahead + 1, u64::from(window), 1)] {
                let (mut clock, leaps) = (start(), if memory > 0 { leaps } else { 0 });
                let passed = if leaps > 0 { passed } else { step };
                assert_eq!((clock.advance(5000 + step), clock.leaps, clock.last), (passed, leaps, Some(5000 + step)));
            }
            for (step, leaps, last) in [(back, 0, 5000), (back + 1, 1, 5000 - back - 1)] {
                let mut clock = start();
                assert_eq!((clock.advance(5000 - step), clock.leaps, clock.last), (0, leaps, Some(last)));
            }
        }
        // Without a window and without forgetting, time has no effect.
        let mut idle = clock(0, 0);
        idle.advance(u64::MAX);
        assert_eq!((idle.advance(0), idle.advance(u64::MAX), idle.leaps), (0, 0, 0));
    }
}
