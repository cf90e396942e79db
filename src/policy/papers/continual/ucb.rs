//! DP-UCB: UCB on hybrid sums that all have the same amount of noise.
//!
//! Tossou and Dimitrakakis (2016), Algorithm 2. Pulls argmax of s_a/n_a + sqrt(2 ln t/n_a). Every reward is inserted
//! into the pulled arm's hybrid sum, and 0 into every other one (n_a counts real pulls only). So all sums have noise
//! of one scale, and the index has no width. **Pure eps-DP** (their Theorem 3.1, with the corrected budget of
//! [`Hybrid`]; the proof is in `policy/papers/continual/mod.rs`: inserted zeros are the same in both worlds).
//!
//! **Erratum, Theorem 3.3.** It claims a regret of O(sum_a Delta_a max(C^2 (ln C + 7)^2, ln t/Delta_a^2)), C of order
//! sqrt(ln t)/eps, from a noise that grows with ln n_a. But zeros are inserted at every step, so the noise grows with
//! ln t: its deviation is of order ln^1.5 t/eps, and an index without a width is wrong until sqrt(2 n_a ln t) exceeds
//! it by sqrt(ln t), that is until n_a is of order ln^3 t/eps^2. A worse arm gets that many pulls. In simulations at
//! eps = 1 and a gap of 0.3 it gets 0.67, 0.83, 0.81 and 0.74 times ln^3 t at t = 10^3 to 10^6. And no width covers
//! an unlucky noise on the best arm. DP-UCB-BOUND has neither problem.
//!
//! Cost: select O(K) (vector code), update O(K) with *K noises* (about 0.1 us each), which the algorithm requires.
//! For many arms use DP-UCB-BOUND. 400 bytes an arm, whatever T, at most 2^15 arms.

use super::{NoiseRule, OnSums, on_sums};
use crate::config::Config;
use crate::counter::{Hybrid, HybridDistributions, MAX_COUNT};
use crate::error::Result;
use crate::random::Seed;

pub fn new(config: &Config, seed: &mut Seed) -> Result<OnSums<Hybrid>> {
    let distributions = HybridDistributions::new(config.epsilon_per_reward()?, |epsilon| config.laplace(epsilon))?;
    on_sums(config, seed, NoiseRule::EqualNoise, MAX_COUNT, || Hybrid::new(distributions.clone()))
}
