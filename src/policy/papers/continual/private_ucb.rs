//! Private-UCB: UCB on binary-tree sums; the baseline that Sajed and Sheffet (2019) call DP-UCB.
//!
//! Mishra and Thakurta (2015). It needs T: each arm has a binary tree over T whose nodes have noise Laplace(L/eps),
//! L = floor(log2 T) + 1 levels. Pulls argmax of s_a/n_a + sqrt(2 ln t/n_a) + width_a(t^-4)/n_a. **Pure eps-DP** (the
//! proof is in `policy/papers/continual/mod.rs`). Regret O(sum_a ln T/Delta_a + K ln^2.5 T/eps), as Sajed and Sheffet (2019)
//! remark.
//!
//! Correction: the original gives each of the K trees eps/K, but a reward is in one tree only, so each may have the
//! whole eps. After the horizon an arm's full tree takes no more rewards, and its last mean remains.
//!
//! Cost: select O(K) (vector code), update O(1) and one noise; 400 bytes an arm, at most 2^18 arms.

use super::{NoiseRule, OnSums, on_sums};
use crate::config::Config;
use crate::counter::Binary;
use crate::error::Result;
use crate::random::Seed;

pub fn new(config: &Config, seed: &mut Seed) -> Result<OnSums<Binary>> {
    let node = Binary::node(config.epsilon_per_reward()?, config.horizon, |epsilon| config.laplace(epsilon))?;
    on_sums(config, seed, NoiseRule::Widened, config.horizon, || Binary::new(node))
}
