//! Policies of the local model: they learn from bits that were privatised on the user's device.

pub mod ldp_klucb;
pub mod ldp_ucb;

use super::baselines::{Baseline, BaselineIndex};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::local::RandomizedResponse;

/// A baseline on bits that are already private. Its choices do not change if an increasing linear function is applied to
/// all rewards.
fn on_bits<I: BaselineIndex>(config: &Config) -> Result<Baseline<I>> {
    let rule = "must be 0 in the local model: every device sends its bit";
    Error::unless(config.reward_window == 0, "reward_window", rule, config.reward_window)?;
    Baseline::with(config, Some(RandomizedResponse::new(config.epsilon_per_reward()?)?))
}
