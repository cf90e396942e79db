//! UCB1 (Auer, Cesa-Bianchi, Fischer 2002): a baseline WITHOUT privacy.
//!
//! Pulls argmax of mean + sqrt(2 ln t/n). Regret O(sum_a ln T/Delta_a).
//! Cost: select O(K) (vector code), update O(1); 48 bytes an arm, at most 2^20 arms.

use super::{Baseline, BaselineRule, Tally};
use crate::config::Config;
use crate::error::Result;
use crate::moving::persist;
use crate::policy::papers::scores::Scores;

/// UCB1.
pub type Ucb1 = Baseline<UpperBound>;

/// argmax of mean + sqrt(2 ln t/n).
pub struct UpperBound {
    scores: Scores,
}

impl BaselineRule for UpperBound {
    const MOST_ARMS: u32 = 1 << 20;

    fn new(config: &Config) -> Result<Self> {
        Ok(UpperBound { scores: Scores::new(config.arms)? })
    }

    fn best(&self, tally: &Tally) -> u32 {
        self.scores.argmax((2.0 * tally.ln_t()).sqrt(), 0.0)
    }

    fn changed(&mut self, tally: &Tally, arm: u32) {
        let counts = &tally.arms[arm as usize];
        match counts.pulls() {
            0 => self.scores.set(arm, f64::INFINITY, 0.0, 0.0),
            pulls => self.scores.set(arm, counts.mean(), 1.0 / (pulls as f64).sqrt(), 0.0),
        }
    }
}

persist!(UpperBound { scores });
