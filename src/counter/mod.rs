//! Continual counters: a running sum that may be read after every addition, for ever, at the privacy cost of one
//! release (Chan, Shi, Song 2011; Tossou and Dimitrakakis 2016, section 2.3).

mod sums;
mod tail;

pub use sums::{Binary, Hybrid, HybridDistributions, Logarithmic, MAX_COUNT, Mechanism, RunningSum};
pub use tail::{Tail, WidthLine};

use crate::error::{Error, Result};
use crate::noise::Laplace;
use crate::os::Origin;
use crate::random::{Random, Seed};
use crate::reward::{Reward, RewardRange};

/// The mechanism of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CounterKind {
    /// Releases at powers of two: the least noise, and the fewest releases.
    Logarithmic = 0,
    /// Releases at every value, up to a horizon.
    Binary = 1,
    /// Releases at every value, without a horizon.
    Hybrid = 2,
}

/// A differentially private running sum of values in `[0, 1]`.
///
/// **Pure eps-DP** for the whole stream of releases when one value changes; each mechanism has its proof. Values are
/// rounded once to a grid of 2^-24 and summed exactly; the noise is exact. Reading costs no privacy and draws no noise:
/// two reads at the same count return the same number.
pub struct Counter {
    sum: Box<RunningSum<dyn Mechanism>>,
    random: Random,
    range: RewardRange,
    seeded: bool,
    origin: Origin,
}

impl Counter {
    /// An empty counter. `horizon`: the maximum number of values of a binary counter (1 ..= 2^37), ignored by the
    /// others. `test_seed`: `None` = entropy of the operating system; `Some` = reproducible and NOT private.
    ///
    /// # Errors
    /// `InvalidConfig` for an epsilon or a horizon that the mechanism does not support; `Entropy`.
    pub fn new(kind: CounterKind, epsilon: f64, horizon: u64, test_seed: Option<[u8; 32]>) -> Result<Counter> {
        let distribution = |epsilon| Laplace::new(epsilon, Reward::ONE as u64);
        let whole = distribution(epsilon)?; // so that errors name the caller's epsilon, not a share of it
        let shared = |error| match error {
            Error::InvalidConfig { field: "epsilon", .. } => {
                Error::config("epsilon", "must be large enough to be shared by the levels of a tree", epsilon)
            }
            other => other,
        };
        let sum: Box<RunningSum<dyn Mechanism>> = match kind {
            CounterKind::Logarithmic => Box::new(RunningSum::new(MAX_COUNT, Logarithmic::new(whole))),
            CounterKind::Binary => {
                let node = Binary::node(epsilon, horizon, distribution).map_err(shared)?;
                Box::new(RunningSum::new(horizon, Binary::new(node)))
            }
            CounterKind::Hybrid => {
                let distributions = HybridDistributions::new(epsilon, distribution).map_err(shared)?;
                Box::new(RunningSum::new(MAX_COUNT, Hybrid::new(distributions)))
            }
        };
        let range = RewardRange::new(0.0, 1.0, Reward::BITS, false)?;
        let random = Seed::new(test_seed)?.stream();
        Ok(Counter { sum, random, range, seeded: test_seed.is_some(), origin: Origin::here() })
    }

    /// Adds a value in `[0, 1]` and updates the release. O(1) amortised.
    ///
    /// # Errors
    /// `InvalidReward` for a value outside `[0, 1]`; `Halted` if a binary counter has `horizon` values (the others:
    /// 2^37). Nothing has changed.
    pub fn add(&mut self, value: f64) -> Result<()> {
        self.check()?;
        let value = self.range.quantize(value)?;
        if self.sum.add(value.units(), &mut self.random) { Ok(()) } else { Err(Error::Halted) }
    }

    /// Checks that this still is the process that created the counter.
    ///
    /// # Errors
    /// `Poisoned` in a forked child, which would repeat its parent's noise.
    pub(crate) fn check(&self) -> Result<()> {
        self.origin.check()
    }

    /// The released sum; 0 before the first release. O(1).
    pub fn read(&self) -> f64 {
        self.sum.released() as f64 / Reward::ONE as f64
    }

    /// P(|released - exact| > width) <= gamma for this release, gamma in (0, 1].
    pub fn width(&self, gamma: f64) -> f64 {
        self.sum.tail().width(gamma) / Reward::ONE as f64
    }

    /// Number of values added so far.
    pub fn count(&self) -> u64 {
        self.sum.count()
    }

    /// False under a test seed.
    pub fn is_private(&self) -> bool {
        !self.seeded
    }
}

impl std::fmt::Debug for Counter {
    /// Shows released state only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter").field("count", &self.count()).field("sum", &self.read()).finish_non_exhaustive()
    }
}
