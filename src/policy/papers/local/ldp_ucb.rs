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

use crate::config::Config;
use crate::error::{Error, Result};
use crate::local::RandomizedResponse;
use crate::moving::{Archive, Persist, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::papers::baselines::ucb1::UpperBound;
use crate::policy::papers::baselines::{Baseline, BaselineRule};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;

/// UCB1 on privatised bits.
pub type LdpUcb = OnBits<UpperBound>;

/// A baseline on bits that are already private. Its choices do not change if an increasing linear function is applied to
/// all rewards.
pub struct OnBits<R> {
    policy: Baseline<R>,
    response: RandomizedResponse,
    has_rewards: bool,
}

impl<R: BaselineRule> OnBits<R> {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Self> {
        if config.reward_window > 0 {
            let rule = "must be 0 in the local model: every device sends its bit";
            return Err(Error::config("reward_window", rule, config.reward_window));
        }
        let response = RandomizedResponse::new(config.epsilon_per_reward()?)?;
        Ok(OnBits { policy: Baseline::new(config, seed)?, response, has_rewards: false })
    }
}

impl<R: BaselineRule> Policy for OnBits<R> {
    fn choose(&mut self) -> Pull {
        self.policy.choose()
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        self.has_rewards = true;
        self.policy.observe(pull, reward);
    }

    fn cancel(&mut self, pull: Pull) {
        self.policy.cancel(pull);
    }

    fn arm(&self, arm: u32) -> ArmState {
        let bits = self.policy.arm(arm);
        ArmState { mean: self.response.debias(bits.mean), width: bits.width * self.response.stretch(), ..bits }
    }

    fn counts(&self) -> PolicyCounts {
        let loss = PrivacyLoss::Pure(if self.has_rewards { self.response.epsilon() } else { 0.0 });
        PolicyCounts { loss, ..self.policy.counts() }
    }

    /// Moves sums of bits that were private before they arrived.
    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.has_rewards |= with.reads(); // there may have been rewards since the snapshot
        self.policy.snapshot(with)
    }
}

persist!(generic [R: Persist] OnBits<R> { policy, has_rewards } made { response });
