//! IMED (Honda and Takemura 2015): a baseline WITHOUT privacy.
//!
//! Pulls argmin of n kl(mean, largest mean) + ln n. Regret sum_a Delta_a ln T/kl(mu_a, mu*) to first order, which is
//! optimal for Bernoulli rewards. It needs no confidence level and no bisection. Cost: select O(K) divergences,
//! update O(1); 24 bytes an arm, at most 2^20 arms.

use super::{Baseline, BaselineIndex};
use crate::config::Config;
use crate::error::Result;
use crate::moving::persist;
use crate::policy::kl::kl;
use crate::policy::papers::counting::CountedArms;

/// IMED.
pub type Imed = Baseline<LeastIndex>;

/// argmin of n kl(mean, largest mean) + ln n.
pub struct LeastIndex;

impl BaselineIndex for LeastIndex {
    const MOST_ARMS: u32 = 1 << 20;

    fn new(_config: &Config) -> Result<Self> {
        Ok(LeastIndex)
    }

    fn best(&self, arms: &CountedArms<i64>) -> u32 {
        let top = arms.all.iter().map(|counts| counts.mean()).fold(0.0, f64::max);
        let (mut best, mut least) = (0, f64::INFINITY);
        for (arm, counts) in (0..).zip(&*arms.all) {
            let pulls = counts.pulls() as f64;
            if pulls == 0.0 {
                return arm;
            }
            let index = pulls * kl(counts.mean(), top) + pulls.ln();
            if index < least {
                (best, least) = (arm, index);
            }
        }
        best
    }
}

persist!(LeastIndex {});
