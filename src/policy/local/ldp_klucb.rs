//! LDP KL-UCB: [LDP-UCB](super::ldp_ucb) with the Kullback-Leibler index.
//!
//! The bits that the server sees are Bernoulli whatever the rewards were, so KL-UCB (Garivier and
//! Cappe 2011) fits them exactly: play the largest max{ p : n kl(z, p) <= ln t }. Debiasing is
//! rising, so the order of indices is that of debiased ones. **Pure eps-DP in the local model**, with
//! the same contract: `update` takes the privatised bit. Regret
//! sum_a Delta_a ln T/kl(z_a, z*) in the limit, z the bits' means, which is optimal for these bits.
//!
//! Cost: KL-UCB's.

use super::ldp_ucb::{IndexPolicy, OnBits};
use crate::config::Config;
use crate::error::Result;
use crate::policy::baselines::klucb::KlUcb;
use crate::random::Seed;

/// KL-UCB on bits.
pub type LdpKlUcb = OnBits<KlUcb>;

impl IndexPolicy for KlUcb {
    fn fresh(config: &Config, seed: &mut Seed) -> Result<Self> {
        KlUcb::new(config, seed)
    }
}
