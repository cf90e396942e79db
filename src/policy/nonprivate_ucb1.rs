//! UCB1 (Auer, Cesa-Bianchi, Fischer 2002): a baseline WITHOUT privacy.
//!
//! Plays argmax of mean + sqrt(2 ln t/n). Regret O(sum_a ln T/Delta_a).
//! Cost: select O(K), update O(1); 24 bytes an arm.

use super::{ArmState, Policy, Pull};
use crate::config::Config;
use crate::error::Result;
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;

pub struct Ucb1 {
    arms: Box<[Arm]>,
    answered: u64,
    beta: f64,
}

#[derive(Clone, Default)]
struct Arm {
    sum: i64,
    count: u64,
    /// Decisions not yet answered: they count as pulls, so that a burst of decisions without
    /// answers spreads over the arms.
    in_flight: u64,
}

impl Arm {
    fn mean(&self) -> f64 {
        self.sum as f64 / Reward::ONE as f64 / self.count as f64
    }

    fn index(&self, ln_t: f64) -> f64 {
        let pulls = self.count + self.in_flight;
        if pulls == 0 {
            return f64::INFINITY;
        }
        let mean = if self.count == 0 { 0.0 } else { self.mean() };
        mean + (2.0 * ln_t / pulls as f64).sqrt()
    }
}

impl Ucb1 {
    pub fn new(config: &Config, _seed: &mut Seed) -> Result<Ucb1> {
        let beta = match (config.beta, config.horizon) {
            (0.0, 0) => 0.05,
            (0.0, horizon) => 1.0 / horizon as f64,
            (beta, _) => beta,
        };
        Ok(Ucb1 { arms: vec![Arm::default(); config.arms as usize].into(), answered: 0, beta })
    }
}

impl Policy for Ucb1 {
    fn choose(&mut self) -> Pull {
        let ln_t = ((self.answered + 1) as f64).ln();
        let index = |arm: &Arm| arm.index(ln_t);
        let (mut best, mut most) = (0, f64::NEG_INFINITY);
        for (arm, state) in self.arms.iter().enumerate() {
            let value = index(state);
            if value > most {
                (best, most) = (arm, value);
            }
        }
        self.arms[best].in_flight += 1;
        Pull { arm: best as u32, phase: 0, propensity: 1.0 }
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let arm = &mut self.arms[pull.arm as usize];
        arm.in_flight -= 1;
        arm.count += 1;
        arm.sum += reward.units();
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
        // Hoeffding, both sides
        let width = ((2.0 / self.beta).ln() / (2.0 * state.count as f64)).sqrt();
        ArmState { mean: state.mean(), width, active: true }
    }

    fn phase(&self) -> u32 {
        0
    }

    fn active(&self) -> u32 {
        self.arms.len() as u32
    }

    fn privacy(&self) -> PrivacyLoss {
        PrivacyLoss::Unbounded
    }
}
