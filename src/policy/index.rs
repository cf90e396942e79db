//! What index policies share: scores and their argmax, and the tally of the baselines.

use super::{ArmState, Policy, Pull};
use crate::config::Config;
use crate::error::Result;
use crate::privacy::PrivacyLoss;
use crate::reward::Reward;
use crate::table::Table;
use std::f64::consts::LN_2;

/// One score an arm, each linear in two functions of time, so that time moves on for all of them at
/// the cost of two multiplications an arm: mean + offset + radius * x(t) + slope * l(t).
///
/// Three arrays, so that the argmax is straight vector code: about 1 ns an arm; 24 bytes an arm.
pub struct Scores {
    base: Table<f64>,
    radius: Table<f64>,
    slope: Table<f64>,
}

/// Arms compared side by side: the arrays are padded to a multiple.
const LANES: usize = 8;

impl Scores {
    /// All arms unplayed: they come first, in order.
    pub fn new(arms: u32) -> Result<Scores> {
        let (arms, padded) = (arms as usize, (arms as usize).next_multiple_of(LANES));
        let base = Table::new(padded, |arm| if arm < arms { f64::INFINITY } else { f64::NEG_INFINITY })?;
        Ok(Scores { base, radius: Table::new(padded, |_| 0.0)?, slope: Table::new(padded, |_| 0.0)? })
    }

    /// Sets an arm's score: none of the three is NaN.
    #[inline]
    pub fn set(&mut self, arm: u32, base: f64, radius: f64, slope: f64) {
        let arm = arm as usize;
        (self.base[arm], self.radius[arm], self.slope[arm]) = (base, radius, slope);
    }

    /// The first arm with the largest score at this x and l.
    #[inline]
    pub fn argmax(&self, x: f64, l: f64) -> u32 {
        let mut most = [f64::NEG_INFINITY; LANES];
        let mut rows = [0u64; LANES];
        let columns = self.base.chunks_exact(LANES).zip(self.radius.chunks_exact(LANES));
        for (row, ((base, radius), slope)) in columns.zip(self.slope.chunks_exact(LANES)).enumerate() {
            for lane in 0..LANES {
                let score = base[lane] + x * radius[lane] + l * slope[lane];
                let more = score > most[lane];
                most[lane] = if more { score } else { most[lane] };
                rows[lane] = if more { row as u64 } else { rows[lane] };
            }
        }
        let arm = |lane: usize| rows[lane] * LANES as u64 + lane as u64;
        let better = |a: usize, b: usize| most[b] > most[a] || (most[b] == most[a] && arm(b) < arm(a));
        arm((1..LANES).fold(0, |best, lane| if better(best, lane) { lane } else { best })) as u32
    }
}

/// Exact sums of what was answered: for baselines WITHOUT privacy.
pub struct Tally {
    pub arms: Table<Counts>,
    /// Decisions that were not cancelled.
    pulls: u64,
    /// Readable widths hold with chance 1 - beta: ln(1/beta).
    ln_inverse_beta: f64,
}

#[derive(Clone, Default)]
pub struct Counts {
    sum: i64,
    pub count: u64,
    /// Decisions not yet answered: they count as pulls, so that a burst of decisions without
    /// answers spreads over the arms.
    in_flight: u64,
}

impl Counts {
    pub fn pulls(&self) -> u64 {
        self.count + self.in_flight
    }

    /// The mean, 0 while there is none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / Reward::ONE as f64 / self.count.max(1) as f64
    }
}

impl Tally {
    pub fn new(config: &Config) -> Result<Tally> {
        let arms = Table::new(config.arms as usize, |_| Counts::default())?;
        Ok(Tally { arms, pulls: 0, ln_inverse_beta: config.ln_inverse_beta() })
    }

    /// ln t, t the number of the next decision.
    pub fn ln_t(&self) -> f64 {
        ((self.pulls + 1) as f64).ln()
    }

    pub fn pull(&mut self, arm: u32) -> Pull {
        self.arms[arm as usize].in_flight += 1;
        self.pulls += 1;
        Pull { arm, phase: 0, propensity: 1.0 }
    }

    pub fn observe(&mut self, pull: Pull, reward: Reward) {
        let arm = &mut self.arms[pull.arm as usize];
        arm.in_flight -= 1;
        arm.count += 1;
        arm.sum += reward.units();
    }

    pub fn cancel(&mut self, pull: Pull) {
        self.arms[pull.arm as usize].in_flight -= 1;
        self.pulls -= 1;
    }

    /// Mean and Hoeffding interval.
    pub fn state(&self, arm: u32) -> ArmState {
        let counts = &self.arms[arm as usize];
        if counts.count == 0 {
            return ArmState { mean: f64::NAN, width: f64::NAN, active: true };
        }
        let width = ((LN_2 + self.ln_inverse_beta) / (2.0 * counts.count as f64)).sqrt();
        ArmState { mean: counts.mean(), width, active: true }
    }
}

/// What a baseline adds to its tally: who is best.
pub trait Rule: Send {
    /// The arm to play.
    fn best(&self, tally: &Tally) -> u32;

    /// An arm's counts have changed.
    fn changed(&mut self, _tally: &Tally, _arm: u32) {}
}

/// A policy on exact sums, WITHOUT privacy.
pub struct Baseline<R> {
    pub tally: Tally,
    pub rule: R,
}

impl<R: Rule> Policy for Baseline<R> {
    fn choose(&mut self) -> Pull {
        let pull = self.tally.pull(self.rule.best(&self.tally));
        self.rule.changed(&self.tally, pull.arm);
        pull
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.tally.observe(pull, reward);
        self.rule.changed(&self.tally, pull.arm);
    }

    fn cancel(&mut self, pull: Pull) {
        self.tally.cancel(pull);
        self.rule.changed(&self.tally, pull.arm);
    }

    fn arm(&self, arm: u32) -> ArmState {
        self.tally.state(arm)
    }

    fn phase(&self) -> u32 {
        0
    }

    fn active(&self) -> u32 {
        self.tally.arms.len() as u32
    }

    fn privacy(&self) -> PrivacyLoss {
        PrivacyLoss::Unbounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn argmax_is_the_plain_one() {
        let mut random = Seed::new(Some([1; 32])).unwrap().stream();
        for arms in [2, 7, 8, 9, 31, 64, 1000] {
            let mut scores = Scores::new(arms).unwrap();
            for played in 0..arms {
                assert_eq!(scores.argmax(1.0, 1.0), played); // the unplayed come first, in order
                // few different values, so that there are ties
                let mut draw = || random.below(5) as f64;
                scores.set(played, draw(), draw(), draw());
            }
            for (x, l) in [(0.0, 0.0), (1.0, 0.5), (0.1, 7.0)] {
                let score = |arm: usize| scores.base[arm] + x * scores.radius[arm] + l * scores.slope[arm];
                let plain = (1..arms as usize).fold(0, |best, arm| if score(arm) > score(best) { arm } else { best });
                assert_eq!(scores.argmax(x, l), plain as u32, "{arms} arms");
            }
        }
    }
}
