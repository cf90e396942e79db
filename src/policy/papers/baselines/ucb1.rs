//! UCB1 (Auer, Cesa-Bianchi, Fischer 2002): a baseline WITHOUT privacy.
//!
//! Pulls argmax of mean + sqrt(2 ln t/n). Regret O(sum_a ln T/Delta_a).
//! Cost: select O(K) (vector code), update O(1); 48 bytes an arm, at most 2^20 arms.

use super::{Baseline, BaselineIndex, ExactArm};
use crate::config::Config;
use crate::error::Result;
use crate::moving::persist;
use crate::policy::papers::counting::CountedArms;
use crate::policy::papers::scores::Scores;

/// UCB1.
pub type Ucb1 = Baseline<UpperBound>;

/// argmax of mean + sqrt(2 ln t/n).
pub struct UpperBound {
    scores: Scores,
}

impl BaselineIndex for UpperBound {
    const MOST_ARMS: u32 = 1 << 20;

    fn new(config: &Config) -> Result<Self> {
        Ok(UpperBound { scores: Scores::new(config.arms)? })
    }

    fn best(&self, arms: &CountedArms<i64>) -> u32 {
        self.scores.argmax((2.0 * arms.ln_t()).sqrt(), 0.0)
    }

    fn changed(&mut self, arm: u32, counts: &ExactArm) {
        match counts.pulls() {
            0 => self.scores.set(arm, f64::INFINITY, 0.0, 0.0),
            pulls => self.scores.set(arm, counts.mean(), 1.0 / (pulls as f64).sqrt(), 0.0),
        }
    }
}

persist!(UpperBound { scores });
