//! Batched Tsallis-INF for heavy tails: adversarial rewards, pure eps-DP, our recommendation there.
//!
//! After Asi, Raman, Talwar (2025): one arm is drawn, played tau = ceil(1/eps) times (or
//! `config.batch`), and the mean loss plus Lap(1/(eps tau)), released as the interval's sum plus
//! Lap(1/eps), goes to 1/2-Tsallis follow-the-regularised-leader for losses with heavy tails
//! (Huang, Da, Huang 2022): in draw j arm i has probability
//!
//!   x_i = (sigma sqrt(j)/2)^2 / (L_i - nu)^2,  nu < min L such that the x_i add up to one,
//!
//! and L_i grows by loss/x_i if |loss| <= 0.2063 sigma sqrt(j x_i), or the draw is skipped:
//! sigma^2 = 1 + 2/(eps tau)^2, at most 3, bounds the noisy loss's second moment. Nothing is clipped
//! or rescaled, so the regret has no ln T: O(sqrt(K T/eps)) for eps <= 1, and no horizon is needed.
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`]: see [`Intervals`], also for delays; a late
//! loss is weighed and judged by the x_i and the j of its draw.
//!
//! Cost: O(K) at an interval's start (some five Newton steps), O(1) else; 40 bytes an arm.

use super::intervals::Intervals;
use super::{ArmState, Policy, Pull};
use crate::config::Config;
use crate::error::Result;
use crate::noise::LaplaceSource;
use crate::privacy::PrivacyLoss;
use crate::random::{Random, Seed};
use crate::reward::Reward;
use crate::table::Table;

/// 1 - 2^(-1/3): losses above this share of sigma sqrt(j x_i) are skipped (Huang, Da, Huang 2022).
const THRESHOLD: f64 = 0.206_299_474_015_900_26;

pub struct Tsallis {
    intervals: Intervals,
    coins: Random,
    arms: Table<Arm>,
    sigma: f64,
    draws: u64,
}

#[derive(Clone, Default)]
struct Arm {
    /// L_i.
    loss: f64,
    /// x_i at the last draw.
    share: f64,
    /// What was released.
    released: f64,
    rewards: u64,
}

impl Tsallis {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Tsallis> {
        let law = config.laplace(config.epsilon_per_reward()?)?;
        let plays = match config.batch {
            0 => (1.0 / law.epsilon()).ceil() as u64,
            plays => plays.into(),
        };
        let scale = 1.0 / (law.epsilon() * plays as f64);
        Ok(Tsallis {
            intervals: Intervals::new(config, plays, LaplaceSource::new(law, seed.stream()))?,
            coins: seed.stream(),
            arms: Table::new(config.arms as usize, |_| Arm::default())?,
            sigma: (1.0 + 2.0 * scale * scale).sqrt(),
            draws: 0,
        })
    }

    /// Computes the x_i of the next draw.
    fn solve(&mut self) {
        let half = self.sigma * (self.draws as f64).sqrt() / 2.0;
        let nu = normaliser(self.arms.iter().map(|arm| arm.loss), half);
        self.arms.iter_mut().for_each(|arm| arm.share = (half / (arm.loss - nu)).powi(2));
        let sum: f64 = self.arms.iter().map(|arm| arm.share).sum();
        self.arms.iter_mut().for_each(|arm| arm.share /= sum);
    }

    fn draw(&mut self) -> Pull {
        self.draws += 1;
        self.solve();
        let mut target = self.coins.unit();
        let mut last = 0;
        for (number, arm) in self.arms.iter().enumerate() {
            last = number;
            target -= arm.share;
            if target < 0.0 {
                break;
            }
        }
        Pull { arm: last as u32, phase: u32::try_from(self.draws).unwrap_or(u32::MAX), propensity: self.arms[last].share }
    }
}

/// nu < min L such that sum (half/(L_i - nu))^2 = 1.
///
/// Newton on h(nu) = (sum (half/(L_i - nu))^2)^(-1/2), which is concave and falls: from min L - half,
/// where h <= 1, the steps go left and never past the root. When all L are equal h is linear.
fn normaliser(losses: impl Iterator<Item = f64> + Clone, half: f64) -> f64 {
    let mut nu = losses.clone().fold(f64::INFINITY, f64::min) - half;
    for _ in 0..64 {
        let (mut squares, mut cubes) = (0.0, 0.0);
        for loss in losses.clone() {
            let inverse = 1.0 / (loss - nu);
            let square = (half * inverse).powi(2);
            squares += square;
            cubes += square * inverse;
        }
        if squares <= 1.0 + 1e-9 {
            break;
        }
        nu -= squares * (squares.sqrt() - 1.0) / cubes;
    }
    nu
}

impl Policy for Tsallis {
    fn choose(&mut self) -> Pull {
        if self.intervals.needs_arm() {
            let drawn = self.draw();
            self.intervals.open(drawn); // one given up is a skipped draw
        }
        self.intervals.play()
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let Some((drawn, release)) = self.intervals.observe(pull, reward) else { return };
        let loss = 1.0 - release.mean();
        let arm = &mut self.arms[drawn.arm as usize];
        arm.released += release.sum;
        arm.rewards += release.count;
        if loss.abs() <= THRESHOLD * self.sigma * (f64::from(drawn.phase) * drawn.propensity).sqrt() {
            arm.loss += loss / drawn.propensity;
        }
    }

    fn cancel(&mut self, pull: Pull) {
        self.intervals.cancel(pull);
    }

    /// The mean of all releases. Adversarial rewards have no mean to estimate, hence no width.
    fn arm(&self, arm: u32) -> ArmState {
        let arm = &self.arms[arm as usize];
        ArmState { mean: arm.released / arm.rewards as f64, width: f64::NAN, active: true }
    }

    /// The number of draws.
    fn phase(&self) -> u32 {
        self.intervals.last()
    }

    fn active(&self) -> u32 {
        self.arms.len() as u32
    }

    fn privacy(&self) -> PrivacyLoss {
        PrivacyLoss::Pure(self.intervals.epsilon())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(arms: u32, epsilon: f64) -> Tsallis {
        Tsallis::new(&Config::new(arms, epsilon), &mut Seed::new(Some([2; 32])).unwrap()).unwrap()
    }

    #[test]
    fn shares_are_the_formula_and_add_up() {
        let mut random = Seed::new(Some([5; 32])).unwrap().stream();
        for (arms, spread) in [(2, 0.0), (2, 1e-9), (3, 10.0), (5, 1e6), (1000, 100.0), (100_000, 1e4)] {
            let mut tsallis = policy(arms, 1.0);
            tsallis.arms.iter_mut().for_each(|arm| arm.loss = random.unit() * spread - spread / 3.0);
            for draws in [1u64, 100, 1_000_000_000] {
                tsallis.draws = draws;
                tsallis.solve();
                let sum: f64 = tsallis.arms.iter().map(|arm| arm.share).sum();
                assert!((sum - 1.0).abs() < 1e-9, "{sum}");
                // The optimum of <L, x> - sigma sqrt(j) sum sqrt(x_i): equal slopes, L_i - c/sqrt(x_i).
                let half = 3f64.sqrt() * (draws as f64).sqrt() / 2.0;
                let slope = |arm: &Arm| arm.loss - half / arm.share.sqrt();
                let (first, scale) = (slope(&tsallis.arms[0]), half + spread);
                assert!(tsallis.arms.iter().all(|arm| (slope(arm) - first).abs() < 1e-6 * scale * f64::from(arms).sqrt()));
            }
        }
    }

    #[test]
    fn newton_is_done_in_a_few_steps() {
        // Worst start: one leader far ahead of very many equals, and all between.
        for followers in [1usize, 1000, 1_000_000] {
            for gap in [0.0, 0.1, 10.0, 1e3, 1e6] {
                let losses = std::iter::once(0.0).chain(std::iter::repeat_n(gap, followers));
                let steps = std::cell::Cell::new(0);
                let counted = losses.clone().inspect(|_| steps.set(steps.get() + 1));
                let nu = normaliser(counted, 1.0);
                let sum: f64 = losses.map(|loss| (1.0 / (loss - nu)).powi(2)).sum();
                assert!((sum - 1.0).abs() < 2e-9, "{sum}");
                assert!(steps.get() <= 14 * (followers + 1), "{}", steps.get() / (followers + 1));
            }
        }
    }

    #[test]
    fn arms_are_drawn_with_their_shares() {
        // Chi-square over 4 cells, the x_i of one j: the 99.9999% quantile of chi2(3) is 30.7.
        let mut tsallis = policy(4, 1.0);
        (0..4).for_each(|arm| tsallis.arms[arm].loss = arm as f64);
        let mut cells = [0.0f64; 4];
        for _ in 0..200_000 {
            tsallis.draws = 9;
            cells[tsallis.draw().arm as usize] += 1.0;
        }
        let expected = |arm: usize| tsallis.arms[arm].share * 2e5;
        let chi2: f64 = (0..4).map(|arm| (cells[arm] - expected(arm)).powi(2) / expected(arm)).sum();
        assert!(chi2 < 30.7, "{chi2}");
    }

    #[test]
    fn a_draw_is_played_ceil_one_over_epsilon_times() {
        let mut tsallis = policy(3, 0.3);
        for interval in 1..=5 {
            let pulls: Vec<_> = (0..4).map(|_| tsallis.choose()).collect();
            assert!(pulls.iter().all(|&pull| pull == pulls[0] && pull.phase == interval));
            pulls.iter().for_each(|&pull| tsallis.observe(pull, Reward::MIN));
        }
        assert_eq!(tsallis.arms.iter().map(|arm| arm.rewards).sum::<u64>(), 20);
        assert!((tsallis.sigma - (1.0 + 2.0 / 1.44f64).sqrt()).abs() < 1e-6);
        let PrivacyLoss::Pure(spent) = tsallis.privacy() else { panic!("not pure") };
        assert!(spent <= 0.3 && spent > 0.2999);
    }
}
