//! LDP-UCB: UCB on rewards that were privatised on the user's device.
//!
//! Ren, Zhou, Liu, Shroff (2020), LDP-UCB-B. **Pure eps-DP in the local model**: the server sees one
//! randomised-response bit of each reward ([`RandomizedResponse`]; in C `dpb_ldp_encode`), and all
//! else is post-processing. Regret O(sum_a ln T/(eps^2 Delta_a)), the best order there is without
//! trust.
//!
//! **`update` takes the privatised bit**, `reward_max` for one and `reward_min` for zero, and refuses
//! everything else: this policy never privatises, so that a raw reward has no road to the
//! server. An answer window is refused as well: silence would be a bit nobody privatised. The
//! guarantee is the devices' work, the report says what it is if they do it with
//! `config.epsilon / config.contributions_per_user`.
//!
//! With the bits' mean z and their lie probability q, the arm's mean is (z - q)/(1 - 2q) and the
//! index (z - q)/(1 - 2q) + sqrt(2 ln t/n)/(1 - 2q): a rising function of UCB1's on bits, which is
//! what we compare.
//!
//! Cost: select O(K), update O(1); 24 bytes an arm.

use super::{ArmState, Policy, Pull};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::local::RandomizedResponse;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;
use std::marker::PhantomData;

/// Hoeffding's widths.
pub type LdpUcb = BitUcb<Hoeffding>;

/// An index policy on privatised bits.
pub struct BitUcb<I> {
    response: RandomizedResponse,
    arms: Box<[Arm]>,
    decisions: u64,
    answered: u64,
    beta: f64,
    index: PhantomData<I>,
}

/// An index on bits, rising in the mean.
pub trait BitIndex: Send {
    /// The index of a mean of bits at this ln t, if it is above `best`; `pulls` counts those in
    /// flight, too.
    fn above(best: f64, mean: f64, pulls: f64, ln_t: f64) -> Option<f64>;
}

/// z + sqrt(2 ln t/n).
pub enum Hoeffding {}

impl BitIndex for Hoeffding {
    fn above(best: f64, mean: f64, pulls: f64, ln_t: f64) -> Option<f64> {
        Some(mean + (2.0 * ln_t / pulls).sqrt()).filter(|&index| index > best)
    }
}

#[derive(Clone, Default)]
struct Arm {
    ones: u64,
    count: u64,
    /// Decisions not yet answered: they count as pulls, so that a burst of decisions without
    /// answers spreads over the arms.
    in_flight: u64,
}

impl Arm {
    fn mean(&self) -> f64 {
        self.ones as f64 / self.count as f64
    }

    fn index_above<I: BitIndex>(&self, best: f64, ln_t: f64) -> Option<f64> {
        match (self.count, self.count + self.in_flight) {
            (_, 0) => Some(f64::INFINITY).filter(|&index| index > best),
            (0, pulls) => I::above(best, 0.0, pulls as f64, ln_t),
            (_, pulls) => I::above(best, self.mean(), pulls as f64, ln_t),
        }
    }
}

impl<I: BitIndex> BitUcb<I> {
    pub fn new(config: &Config, _seed: &mut Seed) -> Result<Self> {
        if config.answer_window > 0 {
            let rule = "must be 0 in the local model: every device sends its bit";
            return Err(Error::config("answer_window", rule, config.answer_window));
        }
        let beta = match (config.beta, config.horizon) {
            (0.0, 0) => 0.05,
            (0.0, horizon) => 1.0 / horizon as f64,
            (beta, _) => beta,
        };
        Ok(Self {
            response: RandomizedResponse::new(config.epsilon_per_reward()?)?,
            arms: vec![Arm::default(); config.arms as usize].into(),
            decisions: 0,
            answered: 0,
            beta,
            index: PhantomData,
        })
    }
}

impl<I: BitIndex> Policy for BitUcb<I> {
    fn choose(&mut self) -> Pull {
        self.decisions += 1;
        let ln_t = (self.decisions as f64).ln();
        let (mut best, mut most) = (0, f64::NEG_INFINITY);
        for (arm, state) in self.arms.iter().enumerate() {
            if let Some(index) = state.index_above::<I>(most, ln_t) {
                (best, most) = (arm, index);
            }
        }
        self.arms[best].in_flight += 1;
        Pull { arm: best as u32, phase: 0, propensity: 1.0 }
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let arm = &mut self.arms[pull.arm as usize];
        arm.in_flight -= 1;
        arm.count += 1;
        arm.ones += u64::from(reward.units() == Reward::ONE);
        self.answered += 1;
    }

    fn cancel(&mut self, pull: Pull) {
        self.arms[pull.arm as usize].in_flight -= 1;
    }

    fn arm(&self, arm: u32) -> ArmState {
        let state = &self.arms[arm as usize];
        if state.count == 0 {
            return ArmState { mean: f64::NAN, width: f64::NAN, active: true };
        }
        // Hoeffding on bits, both sides
        let width = ((2.0 / self.beta).ln() / (2.0 * state.count as f64)).sqrt();
        ArmState { mean: self.response.debias(state.mean()), width: width * self.response.stretch(), active: true }
    }

    fn phase(&self) -> u32 {
        0
    }

    fn active(&self) -> u32 {
        self.arms.len() as u32
    }

    fn privacy(&self) -> PrivacyLoss {
        PrivacyLoss::Pure(if self.answered > 0 { self.response.epsilon() } else { 0.0 })
    }

    fn takes_bits(&self) -> bool {
        true
    }
}
