//! LDP-UCB: UCB on rewards that were privatised on the user's device.
//!
//! Ren, Zhou, Liu, Shroff (2020), LDP-UCB-B. **Pure eps-DP in the local model**: the server sees one
//! randomised-response bit of each reward ([`RandomizedResponse`]; in C `dpb_ldp_encode`), and everything else is
//! post-processing. Regret O(sum_a ln T/(eps^2 Delta_a)), the best possible order without trust in the server.
//!
//! **`update` takes the privatised bit**, `reward_max` for one and `reward_min` for zero, and refuses everything
//! else. This policy never privatises, so that a raw reward need not reach the server. A reward window is refused as
//! well: a decision without a reward would count as a bit that nobody privatised. The devices provide the guarantee.
//! The report states it under the assumption that they use `config.epsilon / config.contributions_per_user`.
//!
//! With z the mean of the bits and q their lie probability, the arm's mean is (z - q)/(1 - 2q), and its index is (z -
//! q)/(1 - 2q) + sqrt(2 ln t/n)/(1 - 2q). That increases with the UCB1 index of the bits, z + sqrt(2 ln t/n), so the
//! policy is UCB1 on bits. Only the reported state of an arm is debiased.
//!
//! Cost: that of UCB1.

use super::on_bits;
use crate::config::Config;
use crate::error::Result;
use crate::policy::papers::baselines::ucb1::Ucb1;
use crate::random::Seed;

/// UCB1 on privatised bits.
pub fn new(config: &Config, _seed: &mut Seed) -> Result<Ucb1> {
    on_bits(config)
}
