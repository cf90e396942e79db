//! Exponential weights that cannot overflow, and draws from them in O(log K).
//!
//! The weights are the leaves of a complete binary tree, and every inner node holds the sum of its two children.
//! Raising one weight recomputes its ancestors from their children, so that rounding errors do not accumulate (a
//! Fenwick tree, which adds differences, would drift). A draw walks down once: O(log K) each, 40 bytes an arm. Every
//! number has a binary exponent of its own, so weights may be arbitrarily large and arbitrarily far apart.

use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::random::Random;
use zeroize::{DefaultIsZeroes, Zeroize};

pub struct Weights {
    /// Fraction of log2 of each weight, in [0, 1). The whole part is the leaf's exponent.
    fractions: WipedVec<f64>,
    /// The tree: the root is 1, the children of n are 2n and 2n + 1, the leaves are the last K.
    nodes: WipedVec<Wide>,
}

/// `mantissa * 2^exponent`, the mantissa at least 1.
#[derive(Clone, Copy, Default)]
struct Wide {
    mantissa: f64,
    exponent: i64,
}

impl DefaultIsZeroes for Wide {}

/// Wipes the weights, because in EXP3_tau they are functions of raw rewards.
impl Drop for Weights {
    fn drop(&mut self) {
        self.fractions.zeroize();
        self.nodes.zeroize();
    }
}

impl Wide {
    /// The number in units of 2^exponent, for an exponent not below its own; 0 if it is below 2^-1022 of them.
    #[inline]
    fn at(self, exponent: i64) -> f64 {
        self.mantissa * power_of_two(self.exponent - exponent)
    }

    #[inline]
    fn plus(self, other: Wide) -> Wide {
        let exponent = self.exponent.max(other.exponent);
        Wide { mantissa: self.at(exponent) + other.at(exponent), exponent }
    }
}

/// 2^power, and 0 below 2^-1022. `power <= 1023`.
#[inline]
fn power_of_two(power: i64) -> f64 {
    if power < -1022 { 0.0 } else { f64::from_bits(((1023 + power) as u64) << 52) }
}

impl Weights {
    /// Equal weights.
    pub fn new(arms: u32) -> Result<Weights> {
        let arms = arms as usize;
        let (fractions, nodes) = (WipedVec::new(arms, |_| 0.0)?, WipedVec::new(2 * arms, |_| Wide::default())?);
        let mut weights = Weights { fractions, nodes };
        weights.set_all(|_| 1.0);
        Ok(weights)
    }

    /// The number of weights.
    pub fn arms(&self) -> usize {
        self.fractions.len()
    }

    /// Multiplies a weight by 2^by, `by >= 0`.
    pub fn raise(&mut self, arm: u32, by: f64) {
        let leaf = self.nodes[self.arms() + arm as usize];
        self.put(arm as usize, leaf.exponent, self.fractions[arm as usize] + by);
        self.recompute_above(arm);
    }

    /// Sets a weight, which must be above 0.
    pub fn set(&mut self, arm: u32, weight: f64) {
        self.put(arm as usize, 0, weight.log2());
        self.recompute_above(arm);
    }

    /// Sets all weights.
    pub fn set_all(&mut self, weight: impl Fn(usize) -> f64) {
        (0..self.arms()).for_each(|arm| self.put(arm, 0, weight(arm).log2()));
        (1..self.arms()).rev().for_each(|node| self.recompute(node));
    }

    /// Sets a leaf to 2^(exponent + log2).
    fn put(&mut self, arm: usize, exponent: i64, log2: f64) {
        let fraction = log2 - log2.floor();
        self.fractions[arm] = fraction;
        let leaf = self.arms() + arm;
        self.nodes[leaf] = Wide { mantissa: fraction.exp2(), exponent: exponent + log2.floor() as i64 };
    }

    fn recompute_above(&mut self, arm: u32) {
        let mut node = self.arms() + arm as usize;
        while node > 1 {
            node /= 2;
            self.recompute(node);
        }
    }

    /// The sum of all weights; infinity above 2^1023.
    pub fn sum(&self) -> f64 {
        let root = self.nodes[1];
        if root.exponent > 1000 { f64::INFINITY } else { root.mantissa * power_of_two(root.exponent) }
    }

    /// A weight as a share of their sum.
    #[inline]
    pub fn share(&self, arm: u32) -> f64 {
        let (root, leaf) = (self.nodes[1], self.nodes[self.arms() + arm as usize]);
        leaf.at(root.exponent) / root.mantissa
    }

    /// Draws an arm, with its share as probability.
    pub fn draw(&self, random: &mut Random) -> u32 {
        let mut node = 1;
        let mut target = random.unit() * self.nodes[1].mantissa;
        while node < self.arms() {
            let exponent = self.nodes[node].exponent;
            let (left, right) = (self.nodes[2 * node].at(exponent), self.nodes[2 * node + 1].at(exponent));
            let goes_right = target >= left && right > 0.0;
            if goes_right {
                target -= left;
            }
            node = 2 * node + usize::from(goes_right);
            target *= power_of_two(exponent - self.nodes[node].exponent);
        }
        (node - self.arms()) as u32
    }

    /// Moves the weights of a snapshot.
    pub fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        let arms = self.arms();
        with.arms(arms)?;
        with.alike(self.fractions.iter_mut().zip(&mut self.nodes[arms..]), |with, (fraction, leaf)| {
            fraction.persist(with)?;
            let mut exponent = leaf.exponent as u64;
            with.count(&mut exponent)?;
            with.ensure((0.0..1.0).contains(fraction))?;
            if with.reads() {
                *leaf = Wide { mantissa: fraction.exp2(), exponent: exponent as i64 };
            }
            Ok(())
        })?;
        if with.reads() {
            (1..arms).rev().for_each(|node| self.recompute(node));
        }
        Ok(())
    }

    #[inline]
    fn recompute(&mut self, node: usize) {
        self.nodes[node] = self.nodes[2 * node].plus(self.nodes[2 * node + 1]);
    }
}

persist!(Weights { fractions, nodes });
persist!(Wide { mantissa, exponent });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn shares_are_the_softmax_at_any_size() {
        for arms in [2u32, 3, 5, 64, 1000] {
            let mut random = Seed::new(Some([4; 32])).unwrap().stream();
            let mut weights = Weights::new(arms).unwrap();
            let mut log2 = vec![0.0f64; arms as usize];
            for step in 0..20_000 {
                let (arm, by) = (random.below(arms.into()) as u32, random.unit() * 1.5);
                let by = if step % 100 == 0 { by * 40.0 } else { by };
                weights.raise(arm, by);
                log2[arm as usize] += by;
            }
            let most = log2.iter().copied().fold(f64::MIN, f64::max);
            let sum: f64 = log2.iter().map(|w| (w - most).exp2()).sum();
            for arm in 0..arms {
                let direct = (log2[arm as usize] - most).exp2() / sum;
                assert!((weights.share(arm) - direct).abs() <= 1e-9 * direct, "{arms} {arm}");
            }
            let total: f64 = (0..arms).map(|arm| weights.share(arm)).sum();
            assert!((total - 1.0).abs() < 1e-12);
        }
    }

    /// Weights that are set, one or all, have their new values whatever was there before.
    #[test]
    fn what_is_set_is_set() {
        let mut weights = Weights::new(5).unwrap();
        weights.raise(2, 1e9);
        weights.set_all(|arm| [1e-30, 2.0, 0.5, 3.0, 1e9][arm]);
        weights.set(4, 0.25);
        weights.set(0, 1.25);
        assert!((weights.sum() - 7.0).abs() < 1e-12);
        for (arm, weight) in [1.25, 2.0, 0.5, 3.0, 0.25].into_iter().enumerate() {
            assert!((weights.share(arm as u32) - weight / 7.0).abs() < 1e-12);
        }
        weights.raise(3, 1e9);
        assert_eq!(weights.sum(), f64::INFINITY);
    }

    #[test]
    fn no_height_is_too_great() {
        let mut random = Seed::new(Some([5; 32])).unwrap().stream();
        let mut weights = Weights::new(7).unwrap();
        for lead in [1e6, 1e3, 1e12, 1e15] {
            weights.raise(3, lead);
            assert_eq!((weights.share(3), weights.share(0)), (1.0, 0.0));
            assert!((0..1000).all(|_| weights.draw(&mut random) == 3));
        }
        weights.raise(6, 1e15 + 1e12 + 1e6 + 1e3); // as large as the other: equal shares again
        assert_eq!((weights.share(3), weights.share(6)), (0.5, 0.5));
        let threes = (0..1000).filter(|_| weights.draw(&mut random) == 3).count();
        assert!((400..600).contains(&threes)); // fails with probability 2e-10
    }

    #[test]
    fn draws_follow_the_shares() {
        // Chi-square over 11 cells with unequal weights: the 99.9999% quantile of chi2(10) is 46.9.
        let mut random = Seed::new(Some([6; 32])).unwrap().stream();
        let mut weights = Weights::new(11).unwrap();
        (0..11).for_each(|arm| weights.raise(arm, f64::from(arm) * 0.4));
        let mut cells = [0.0f64; 11];
        let draws = 1_000_000;
        for _ in 0..draws {
            cells[weights.draw(&mut random) as usize] += 1.0;
        }
        let chi2: f64 = (0..11)
            .map(|arm| (cells[arm], weights.share(arm as u32) * f64::from(draws)))
            .map(|(seen, expected)| (seen - expected).powi(2) / expected)
            .sum();
        assert!(chi2 < 46.9, "{chi2}");
    }
}
