//! Batched Tsallis-INF for heavy tails: pure eps-DP, recommended for adversarial rewards.
//!
#![doc = include_str!("../../../../docs/theory/tsallis.md")]

use super::intervals::Intervals;
use super::weights::Weights;
use crate::config::Config;
use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::privacy::PrivacyLoss;
use crate::random::{Random, Seed};
use crate::reward::Reward;

/// theta = 1 - 2^(-1/3).
const THRESHOLD: f64 = 0.206_299_474_015_900_26;

/// Maximum of the scale, as a multiple of c_j.
const SLACK: f64 = 1.0 + 1.0 / 64.0;

pub struct Tsallis {
    intervals: Intervals,
    coins: Random,
    /// L_i, the estimated total losses.
    losses: WipedVec<f64>,
    /// The weights (L_i - nu)^-2.
    weights: Weights,
    nu: f64,
    /// Whether some L_i is not above nu, so that nu must be computed anew.
    behind: bool,
    sigma: f64,
    draws: u64,
}

impl Tsallis {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Tsallis> {
        config.check_arms(1 << 20)?;
        let distribution = config.laplace(config.epsilon_per_reward()?)?;
        let plays = match config.batch {
            0 => config.ceil_inverse_epsilon(),
            plays => plays.into(),
        };
        let scale = 1.0 / (distribution.epsilon() * plays as f64);
        Ok(Tsallis {
            intervals: Intervals::new(config, plays, distribution, seed.stream())?,
            coins: seed.stream(),
            losses: WipedVec::new(config.arms as usize, |_| 0.0)?,
            weights: Weights::new(config.arms)?,
            nu: f64::INFINITY,
            behind: true,
            sigma: (1.0 + 2.0 * scale * scale).sqrt(),
            draws: 0,
        })
    }

    /// c_j.
    fn scale(&self, draw: f64) -> f64 {
        self.sigma * draw.sqrt()
    }

    /// Computes nu for this scale, and all weights.
    fn solve(&mut self, scale: f64) {
        let losses = &self.losses;
        self.nu = normaliser(|nu| Sums::at(losses, scale, nu), scale, self.nu);
        self.weights.set_all(|arm| (losses[arm] - self.nu).powi(-2));
        self.behind = false;
    }

    fn draw(&mut self) -> Pull {
        self.draws += 1;
        let least = self.scale(self.draws as f64);
        if self.behind || !(least..least * SLACK).contains(&self.weights.sum().powf(-0.5)) {
            self.solve(least * SLACK.sqrt());
        }
        let drawn = self.weights.draw(&mut self.coins);
        let phase = u32::try_from(self.draws).unwrap_or(u32::MAX);
        Pull::new(drawn, phase, self.weights.share(drawn))
    }

    /// Adds a loss to an arm.
    fn suffer(&mut self, arm: u32, loss: f64) {
        let total = &mut self.losses[arm as usize];
        *total += loss;
        let gap = *total - self.nu;
        if gap > 0.0 { self.weights.set(arm, gap.powi(-2)) } else { self.behind = true }
    }
}

/// The sums that a Newton step needs, at some nu.
struct Sums {
    /// min L.
    least: f64,
    /// sum x_i.
    squares: f64,
    /// sum x_i/(L_i - nu).
    cubes: f64,
}

impl Sums {
    /// Computed in lanes, so that the compiler generates vector code.
    fn at(losses: &[f64], scale: f64, nu: f64) -> Sums {
        const LANES: usize = 8;
        let mut lanes = [const { Sums { least: f64::INFINITY, squares: 0.0, cubes: 0.0 } }; LANES];
        let mut add = |lane: usize, loss: f64| {
            let inverse = 1.0 / (loss - nu);
            let square = (scale * inverse) * (scale * inverse);
            let sums = &mut lanes[lane];
            sums.least = if loss < sums.least { loss } else { sums.least };
            sums.squares += square;
            sums.cubes += square * inverse;
        };
        let rows = losses.chunks_exact(LANES);
        rows.remainder().iter().for_each(|&loss| add(0, loss));
        rows.for_each(|row| (0..LANES).for_each(|lane| add(lane, row[lane])));
        lanes.into_iter().fold(Sums { least: f64::INFINITY, squares: 0.0, cubes: 0.0 }, |a, b| Sums {
            least: a.least.min(b.least),
            squares: a.squares + b.squares,
            cubes: a.cubes + b.cubes,
        })
    }
}

/// nu < min L such that sum (c/(L_i - nu))^2 = 1.
///
/// Newton on h(nu) = (sum (c/(L_i - nu))^2)^(-1/2), which is concave and decreasing. From the right of the root, such
/// as from min L - c, where h <= 1, the steps go left and never beyond it. From the left, where the last nu often is,
/// the first step goes beyond it. If it also goes beyond min L, it is set back to min L - c. If all L are equal, h is
/// linear.
fn normaliser(sums: impl Fn(f64) -> Sums, scale: f64, guess: f64) -> f64 {
    let mut nu = guess;
    for _ in 0..64 {
        let Sums { least, squares, cubes } = sums(nu);
        if nu >= least {
            nu = least - scale;
        } else if (squares - 1.0).abs() <= 1e-9 {
            break;
        } else {
            nu -= squares * (squares.sqrt() - 1.0) / cubes;
        }
    }
    nu
}

impl Policy for Tsallis {
    fn choose(&mut self) -> Pull {
        if self.intervals.needs_arm() {
            let drawn = self.draw();
            self.intervals.open(drawn); // an interval abandoned for it is a skipped draw
        }
        self.intervals.play()
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let Some((drawn, release)) = self.intervals.observe(pull, reward) else { return };
        let loss = 1.0 - release.mean();
        if loss.abs() <= THRESHOLD * self.scale(drawn.phase().into()) * drawn.propensity.sqrt() {
            self.suffer(drawn.arm(), loss / drawn.propensity);
        }
    }

    fn cancel(&mut self, pull: Pull) {
        self.intervals.cancel(pull);
    }

    /// The mean of all releases. Adversarial rewards have no mean to estimate, so there is no width.
    fn arm(&self, arm: u32) -> ArmState {
        self.intervals.totals(arm).state(f64::NAN, true)
    }

    /// Its phase is the number of draws.
    fn counts(&self) -> PolicyCounts {
        let loss = PrivacyLoss::Pure(self.intervals.epsilon());
        PolicyCounts { phase: self.intervals.last(), active: self.losses.len() as u32, ..PolicyCounts::of(loss) }
    }

    /// The losses are functions of releases.
    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.intervals.snapshot(with)?;
        with.count(&mut self.draws)?;
        with.alike(self.losses.iter_mut(), |with, loss| {
            loss.persist(with)?;
            with.ensure(loss.abs() <= 1e15) // beyond that, doubles could not distinguish neighbouring shares
        })?;
        self.behind |= with.reads();
        Ok(())
    }
}

persist!(Tsallis { intervals, losses, weights, nu, behind, draws } made { coins, sigma });

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
            tsallis.losses.iter_mut().for_each(|loss| *loss = random.unit() * spread - spread / 3.0);
            for draws in [1u64, 100, 1_000_000_000] {
                let scale = 3f64.sqrt() * (draws as f64).sqrt();
                tsallis.solve(scale);
                assert!((tsallis.weights.sum().powf(-0.5) / scale - 1.0).abs() < 1e-8);
                // The optimum of <L, x> - 2 c sum sqrt(x_i) has equal slopes, L_i - c/sqrt(x_i).
                let slope = |arm: u32| tsallis.losses[arm as usize] - scale / tsallis.weights.share(arm).sqrt();
                let tolerance = 1e-6 * (scale + spread) * f64::from(arms).sqrt();
                assert!((0..arms).all(|arm| (slope(arm) - slope(0)).abs() < tolerance));
            }
        }
    }

    /// In simulations, the weights are always those of the losses, for a scale that is hardly above c_j. And nu is
    /// not computed at every draw.
    #[test]
    fn the_scale_is_what_it_should_be() {
        for (arms, in_flight) in [(2, 1), (10, 40), (300, 1)] {
            let mut tsallis = policy(arms, 1.0);
            let mut random = Seed::new(Some([8; 32])).unwrap().stream();
            let (mut waiting, mut solved, mut draws) = (Vec::new(), 0, 0);
            for _ in 0..20_000 {
                let (before, drawn) = (tsallis.nu, tsallis.draws);
                let pull = tsallis.choose();
                solved += u32::from(tsallis.nu != before);
                if tsallis.draws > drawn {
                    draws += 1;
                    let least = tsallis.scale(tsallis.draws as f64);
                    let sum: f64 = tsallis.losses.iter().map(|loss| (loss - tsallis.nu).powi(-2)).sum();
                    assert!((least * (1.0 - 1e-9)..least * SLACK * (1.0 + 1e-9)).contains(&sum.powf(-0.5)));
                    let gap = tsallis.losses[pull.arm() as usize] - tsallis.nu;
                    assert!((pull.propensity * sum * gap * gap - 1.0).abs() < 1e-9 && gap > 0.0);
                }
                waiting.push(pull);
                while waiting.len() >= in_flight {
                    let pull = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
                    let good = random.unit() < 0.2 + 0.6 * f64::from(pull.arm() % 2);
                    tsallis.observe(pull, Reward::from_units(u32::from(good) * Reward::ONE as u32));
                }
            }
            assert!(draws > 400 && solved * 2 < draws, "{arms}: {solved} of {draws}");
        }
    }

    /// The stability lemma: no loss that passes the threshold makes an x_i more than 2^(2/3) times as large, all else
    /// equal. Some losses come near that factor.
    #[test]
    fn a_loss_that_counts_moves_its_arm_by_two_to_the_two_thirds_at_most() {
        let mut most = 0.0f64;
        for seed in 0..200 {
            let mut tsallis = policy(3, 0.9);
            tsallis.coins = Seed::new(Some([seed; 32])).unwrap().stream();
            for _ in 0..30 {
                let pull = tsallis.choose();
                let plays = (1..tsallis.intervals.plays()).map(|_| tsallis.choose()).count();
                let (arm, before) = (pull.arm() as usize, tsallis.losses.to_vec());
                (0..=plays).for_each(|_| tsallis.observe(pull, Reward::from_units(Reward::ONE as u32)));
                let (old, new) = (before[arm] - tsallis.nu, tsallis.losses[arm] - tsallis.nu);
                most = most.max((old / new).powi(2));
            }
        }
        assert!(most <= 2f64.powf(2.0 / 3.0) * (1.0 + 1e-7) && most > 1.5, "{most}");
    }

    #[test]
    fn newton_is_done_in_a_few_steps() {
        let steps = std::cell::Cell::new(0);
        let count = |losses: &[f64], scale: f64, guess: f64| {
            steps.set(0);
            let counted = |nu| {
                steps.set(steps.get() + 1);
                Sums::at(losses, scale, nu)
            };
            let nu = normaliser(counted, scale, guess);
            let sum: f64 = losses.iter().map(|loss| (scale / (loss - nu)).powi(2)).sum();
            assert!((sum - 1.0).abs() < 2e-9 && losses.iter().all(|&loss| loss > nu), "{sum}");
            (nu, steps.get())
        };
        // The worst start is one leader far ahead of very many equal arms. Cases in between are tested too.
        for followers in [1usize, 1000, 1_000_000] {
            for gap in [0.0, 0.1, 10.0, 1e3, 1e6] {
                let losses: Vec<_> = std::iter::once(0.0).chain(std::iter::repeat_n(gap, followers)).collect();
                let (nu, steps) = count(&losses, 1.0, f64::INFINITY);
                assert!(steps <= 15, "{followers} {gap}: {steps}");
                // From the last nu, with another draw's scale, and losses that increased or decreased.
                for (moved, scale) in [(0.0, 1.01), (1.5, 1.01), (-0.2, 1.01), (1.5, 1.0), (-0.2, 1.0)] {
                    let mut losses = losses.clone();
                    losses[0] += moved * (losses[0] - nu);
                    let steps = count(&losses, scale, nu).1;
                    assert!(steps <= 12, "{followers} {gap} {moved} {scale}: {steps}");
                }
            }
        }
        // In simulations: two or three.
        let mut tsallis = policy(1000, 1.0);
        let mut all = 0;
        for _ in 0..1000 {
            let (losses, scale) = (tsallis.losses.to_vec(), SLACK * tsallis.scale((tsallis.draws + 1) as f64));
            all += count(&losses, scale, tsallis.nu).1;
            let pull = tsallis.choose();
            tsallis.observe(pull, Reward::MIN);
        }
        assert!(all <= 4000, "{all}");
    }

    #[test]
    fn arms_are_drawn_with_their_shares() {
        // Chi-square over 4 cells, the x_i of one j: the 99.9999% quantile of chi2(3) is 30.7.
        let mut tsallis = policy(4, 1.0);
        (0..4).for_each(|arm| tsallis.suffer(arm, f64::from(arm)));
        let mut cells = [0.0f64; 4];
        for _ in 0..200_000 {
            tsallis.draws = 9;
            cells[tsallis.draw().arm() as usize] += 1.0;
        }
        let expected = |arm: usize| tsallis.weights.share(arm as u32) * 2e5;
        let chi2: f64 = (0..4).map(|arm| (cells[arm] - expected(arm)).powi(2) / expected(arm)).sum();
        assert!(chi2 < 30.7, "{chi2}");
    }

    #[test]
    fn a_draw_is_played_ceil_one_over_epsilon_times() {
        let mut tsallis = policy(3, 0.3);
        for interval in 1..=5 {
            let pulls: Vec<_> = (0..4).map(|_| tsallis.choose()).collect();
            assert!(pulls.iter().all(|&pull| pull == pulls[0] && pull.phase() == interval));
            pulls.iter().for_each(|&pull| tsallis.observe(pull, Reward::MIN));
        }
        assert_eq!((0..3).map(|arm| tsallis.intervals.totals(arm).rewards).sum::<u64>(), 20);
        assert!((tsallis.sigma - (1.0 + 2.0 / 1.44f64).sqrt()).abs() < 1e-6);
        let PrivacyLoss::Pure(spent) = tsallis.counts().loss else { panic!("not pure") };
        assert!(spent <= 0.3 && spent > 0.2999);
        // From the caller's epsilon, not from the effective one, which is slightly smaller.
        for (epsilon, plays) in [(1.0 / 3.0, 3), (0.1, 10), (0.01, 100), (1.0, 1), (0.999, 2)] {
            assert_eq!(policy(2, epsilon).intervals.plays(), plays, "{epsilon}");
        }
    }

    #[test]
    fn refuses_more_arms_than_it_can_draw_from_in_time() {
        let refused = |arms| Tsallis::new(&Config::new(arms, 1.0), &mut Seed::new(None).unwrap()).is_err();
        assert!(refused((1 << 20) + 1) && !refused(1 << 20));
    }
}
