//! LDP KL-UCB: [LDP-UCB](super::ldp_ucb) with the Kullback-Leibler index.
//!
//! The server's bits are Bernoulli whatever the rewards were, so KL-UCB (Garivier and Cappe 2011) is optimal for
//! them: it pulls argmax of max{ p : n kl(z, p) <= ln t }. Debiasing is increasing, so it does not change the order
//! of indices. **Pure eps-DP in the local model**, with the same contract: `update` takes the privatised bit. Regret
//! sum_a Delta_a ln T/kl(z_a, z*) in the limit, where z is the mean of the bits. That is optimal for these bits.
//!
//! Cost: that of KL-UCB.

use super::on_bits;
use crate::config::Config;
use crate::error::Result;
use crate::policy::papers::baselines::klucb::KlUcb;
use crate::random::Seed;

/// KL-UCB on privatised bits.
pub fn new(config: &Config, _seed: &mut Seed) -> Result<KlUcb> {
    on_bits(config)
}
