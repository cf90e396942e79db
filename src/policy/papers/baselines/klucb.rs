//! KL-UCB (Garivier and Cappe 2011): a baseline WITHOUT privacy.
//!
//! Pulls argmax of max{ q : n kl(mean, q) <= ln t } (their c = 0). Regret at most sum_a Delta_a ln T/kl(mu_a, mu*) to
//! first order, which is optimal for Bernoulli rewards. Cost: select O(K) divergences, and a bisection (40 more) for
//! each arm whose index exceeds those before it: O(ln K) of them on average, at worst all K (1.5 us each). Update
//! O(1); 24 bytes an arm, at most 2^15 arms.

use super::{Baseline, BaselineIndex};
use crate::config::Config;
use crate::error::Result;
use crate::moving::persist;
use crate::policy::kl::{kl, kl_upper};
use crate::policy::papers::counting::CountedArms;

/// KL-UCB.
pub type KlUcb = Baseline<KlIndex>;

/// argmax of max{ q : n kl(mean, q) <= ln t }.
pub struct KlIndex;

impl BaselineIndex for KlIndex {
    const MOST_ARMS: u32 = 1 << 15;

    fn new(_config: &Config) -> Result<Self> {
        Ok(KlIndex)
    }

    fn best(&self, arms: &CountedArms<i64>) -> u32 {
        let ln_t = arms.ln_t();
        let (mut best, mut most) = (0, -1.0);
        for (arm, counts) in (0..).zip(&*arms.all) {
            let (mean, pulls) = (counts.mean(), counts.pulls() as f64);
            if pulls == 0.0 {
                return arm;
            }
            // The index is computed only if it exceeds the largest one so far.
            if mean > most || pulls * kl(mean, most) < ln_t {
                let index = kl_upper(mean, ln_t / pulls);
                if index > most {
                    (best, most) = (arm, index);
                }
            }
        }
        best
    }
}

persist!(KlIndex {});
