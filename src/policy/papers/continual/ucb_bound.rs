//! DP-UCB-BOUND: UCB on hybrid sums, with the width of the noise in the index.
//!
//! Tossou and Dimitrakakis (2016), Algorithm 1. Pulls argmax of s_a/n_a + sqrt(2 ln t/n_a) + width_a(t^-4)/n_a, s_a
//! the hybrid mechanism's released sum. **Pure eps-DP** (their Theorem 3.1, with the corrected budget of [`Hybrid`];
//! the proof is in `policy/papers/continual/mod.rs`). Regret O(sum_a Delta_a max(B(ln B + 7), ln t/Delta_a^2)) with B of
//! order ln t/(eps Delta_a) (their Theorem 3.2, up to the constant of the correction).
//!
//! Corrections: the printed hybrid loses 2 eps (their Lemma B.2). The printed width (equation 2.2) omits that k + 1
//! block noises add up, and is valid for no gamma; [`crate::counter::Tail`] is a proven bound, and smaller.
//!
//! Cost: select O(K) (vector code, without a logarithm for each arm), update O(1) and one noise; 400 bytes an arm,
//! whatever T, at most 2^18 arms.

use super::{NoiseRule, OnSums, on_sums};
use crate::config::Config;
use crate::counter::{Hybrid, HybridDistributions, MAX_COUNT};
use crate::error::Result;
use crate::random::Seed;

pub fn new(config: &Config, seed: &mut Seed) -> Result<OnSums<Hybrid>> {
    let distributions = HybridDistributions::new(config.epsilon_per_reward()?, |epsilon| config.laplace(epsilon))?;
    on_sums(config, seed, NoiseRule::Widened, MAX_COUNT, || Hybrid::new(distributions.clone()))
}
