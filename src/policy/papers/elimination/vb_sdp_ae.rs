//! VB-SDP-AE: SDP-AE with batches that double.
//!
//! Tenenbaum, Kaplan, Mansour, Stemmer (2021), Algorithm 2: a batch of phase t has m = 2^t users. **(eps, delta)-DP
//! in the shuffle model**. It is corrected as [SDP-AE](super::sdp_ae), and shares its states and costs. Regret
//! O(sum_a ln T/Delta_a + K sqrt(ln(1/delta)) ln T/eps), the central model's up to the root. Small batches eliminate
//! bad arms early. Large ones spread the noise, which has the same size for every batch, over many users.
//!
//! Batches stop growing at 2^22 users, where noise is negligible, and at the horizon. Each size is calibrated at
//! construction (0.2 ms in all at eps = 1, 25 ms at eps = 0.004). The two users of phase 1 share all coins, at most
//! 2^20 each, so eps below 0.004 (at delta = 1e-6) is refused: [SDP-AE](super::sdp_ae) supports it.

use super::sdp_ae::ShuffledElimination;
use crate::config::Config;
use crate::error::Result;
use crate::random::Seed;

/// 2^t users in phase t.
pub fn new(config: &Config, seed: &mut Seed) -> Result<ShuffledElimination> {
    let last = config.horizon.ilog2().clamp(1, 22);
    ShuffledElimination::new(config, seed, (1..=last).map(|phase| 1 << phase))
}
