//! The three mechanisms of continual counters. Sums are exact integers in grid units. The released sum is the exact
//! sum plus the noises of the p-sums that it consists of, so the p-sums themselves need not be kept.

use super::tail::Tail;
use crate::error::{Error, Result};
use crate::moving::{Persist, persist};
use crate::noise::Laplace;
use crate::random::Random;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Levels that suffice for [`MAX_COUNT`] values.
const LEVELS: usize = 38;

/// Maximum number of values of a counter: their sum and noises fit 64 bits.
pub const MAX_COUNT: u64 = 1 << (LEVELS - 1);

/// A sum under continual observation: the exact sum of at most `most` values, and the noise of its mechanism.
///
/// The exact sum is private. Everything readable is released.
pub struct RunningSum<M: ?Sized> {
    most: u64,
    count: u64,
    sum: Zeroizing<i64>,
    mechanism: M,
}

/// What a mechanism adds to a sum, and when it releases it.
#[allow(private_bounds)] // states that move are private to the crate
pub trait Mechanism: Persist + Send {
    /// Releases the sum after so many values, if a release is due.
    fn advance(&mut self, count: u64, sum: i64, random: &mut Random);

    /// The last release, given the sum.
    fn released(&self, sum: i64) -> i64;

    /// The tail of the noise in the release after so many values (grid units).
    fn tail(&self, count: u64) -> Tail;
}

impl<M: Mechanism> RunningSum<M> {
    /// An empty sum. `most` is at most [`MAX_COUNT`].
    pub fn new(most: u64, mechanism: M) -> RunningSum<M> {
        RunningSum { most, count: 0, sum: 0.into(), mechanism }
    }
}

impl<M: Mechanism + ?Sized> RunningSum<M> {
    /// Adds a value (grid units, `0..=Reward::ONE`) and updates the release. Returns false if the mechanism is full;
    /// then nothing changed.
    pub fn add(&mut self, units: i64, random: &mut Random) -> bool {
        let free = self.count < self.most;
        if free {
            self.count += 1;
            *self.sum += units;
            self.mechanism.advance(self.count, *self.sum, random);
        }
        free
    }

    /// The released sum in grid units, the same until the next addition.
    pub fn released(&self) -> i64 {
        self.mechanism.released(*self.sum)
    }

    /// The tail of the noise in the released sum (grid units).
    pub fn tail(&self) -> Tail {
        self.mechanism.tail(self.count)
    }

    /// Number of values added (public).
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// The noises of the p-sums that make up the current prefix of a binary tree: one noise for each set bit of the
/// number of leaves.
///
/// The noise is as secret as the sums that it hides, and is wiped like them.
struct Frontier {
    noise: Zeroizing<[i64; LEVELS]>,
    sum: Zeroizing<i64>,
}

impl Frontier {
    fn empty() -> Frontier {
        Frontier { noise: [0; LEVELS].into(), sum: 0.into() }
    }

    /// Adds a leaf. It completes one p-sum, at the level of the lowest set bit of the new number of leaves. That
    /// p-sum replaces those of all lower levels, and its noise is drawn here, once.
    fn advance(&mut self, leaves: u64, distribution: &Laplace, random: &mut Random) {
        let level = leaves.trailing_zeros() as usize;
        let replaced: i64 = self.noise[..level].iter().sum();
        self.noise[..level].fill(0);
        self.noise[level] = distribution.sample(random);
        *self.sum += self.noise[level] - replaced;
    }
}

/// Binary mechanism (Chan, Shi, Song 2011, section 3.2), bounded: at most T values. **Pure eps-DP.**
///
/// A value is in at most one p-sum of each of the L = floor(log2 T) + 1 levels. The noise of each p-sum is
/// Laplace(L/eps), drawn once. The released prefix has one noise for each set bit of t. Cost: one noise for each
/// addition, reading O(1), 300 bytes.
pub struct Binary {
    node: Laplace,
    tree: Frontier,
}

impl Binary {
    /// The noise of a node in the tree of a counter of at most `most` values. `distribution(epsilon)` is the noise of one
    /// release.
    ///
    /// # Errors
    /// `InvalidConfig` if the horizon is 0 or above 2^37, or there is no noise for an epsilon that the levels share.
    pub fn node(epsilon: f64, most: u64, distribution: impl Fn(f64) -> Result<Laplace>) -> Result<Laplace> {
        Error::unless((1..=MAX_COUNT).contains(&most), "horizon", "must be in 1 .. 2^37", most)?;
        distribution(share(epsilon, 1.0, most.ilog2() + 1))
    }

    /// An empty tree, whose nodes have this noise.
    pub fn new(node: Laplace) -> Binary {
        Binary { node, tree: Frontier::empty() }
    }
}

impl Mechanism for Binary {
    fn advance(&mut self, count: u64, _sum: i64, random: &mut Random) {
        self.tree.advance(count, &self.node, random);
    }

    fn released(&self, sum: i64) -> i64 {
        sum + *self.tree.sum
    }

    fn tail(&self, count: u64) -> Tail {
        Tail::default().and_many(count.count_ones().into(), self.node.scale() as f64)
    }
}

/// Logarithmic mechanism (Chan, Shi, Song 2011, section 3.3): releases at t = 2^k only.
/// **Pure eps-DP:** each value is in one block between powers of two, each block's sum is released once with
/// Laplace(1/eps), and the prefix is the sum of the blocks.
/// Cost: one noise at each power of two, reading O(1), 60 bytes.
pub struct Logarithmic {
    block: Laplace,
    noise: Zeroizing<i64>,
    released: i64,
}

impl Logarithmic {
    /// No blocks yet. Each will have this noise.
    pub fn new(block: Laplace) -> Logarithmic {
        Logarithmic { block, noise: 0.into(), released: 0 }
    }
}

impl Mechanism for Logarithmic {
    fn advance(&mut self, count: u64, sum: i64, random: &mut Random) {
        if count.is_power_of_two() {
            *self.noise += self.block.sample(random);
            self.released = sum + *self.noise;
        }
    }

    fn released(&self, _sum: i64) -> i64 {
        self.released
    }

    /// The tail of the release at the last power of two.
    fn tail(&self, count: u64) -> Tail {
        Tail::default().and_many((u64::BITS - count.leading_zeros()).into(), self.block.scale() as f64)
    }
}

/// Hybrid mechanism (Chan, Shi, Song 2011, section 3.4), unbounded. **Pure eps-DP.**
///
/// Blocks end at the powers of two. The sum of a block of length 2^k (k = 0 also for the first value alone) is
/// released once, at its end. Until then a binary tree of k levels releases the sums inside it.
///
/// **Correction.** Tossou and Dimitrakakis (2016), Lemma B.2, run both parts at the full eps ("no need to apply a
/// composition theorem"). But a value is in its block's sum *and* in up to k nodes of its tree, so that loses 2 eps.
/// Here the block's sum gets lambda_k eps and each level of its tree (1 - lambda_k) eps/k. These add up to eps, every
/// value is in one block, and the p-sums' memberships are public, so the whole stream of releases is eps-DP.
///
/// **The split.** The noises of the finished blocks, 1/(lambda_j eps) each, stay in every later prefix. Of the k
/// levels of the open tree, k/((1-lambda_k) eps) each, a prefix has half on average. So the mean variance inside a
/// block is (2/eps^2) [1 + sum_(j<k) 1/lambda_j^2 + k^3/(2 (1-lambda_k)^2)]. If all lambda were equal, the best would
/// be (1-lambda)/lambda = (k^3/(2k+2))^(1/3), of order k^(2/3). lambda_k = 1/(1 + k^(2/3)) follows that order in each
/// block separately, so that small blocks, whose trees have little noise, leave little noise behind. Mean standard
/// deviation, in 1/eps (`the_split_is_the_best_of_its_kind` computes these figures):
///
/// | lambda_k | n = 2^10 | n = 2^20 | n = 2^30 |
/// |---|---|---|---|
/// | 1/(1 + k^(2/3)) | 42 | 108 | 190 |
/// | 0.15 | 47 | 113 | 200 |
/// | 1/(k+1), the tree's root as the block sum | 45 | 121 | 219 |
/// | 1/2, Chan's choice | 64 | 179 | 329 |
///
/// Cost: one noise for each addition, reading O(1), 350 bytes. Counters share the distributions.
pub struct Hybrid {
    distributions: Arc<HybridDistributions>,
    /// The sum of the noises of the finished blocks. `blocks_tail` is its tail.
    blocks: Zeroizing<i64>,
    blocks_tail: Tail,
    tree: Frontier,
}

/// The noise of a block, and that of a node of its tree, by the block's log2 length.
pub struct HybridDistributions([(Laplace, Laplace); LEVELS]);

impl HybridDistributions {
    /// `distribution(epsilon)` is the noise of one release.
    ///
    /// # Errors
    /// `InvalidConfig` if there is no noise for an epsilon that 38 levels share.
    pub fn new(epsilon: f64, distribution: impl Fn(f64) -> Result<Laplace>) -> Result<Arc<HybridDistributions>> {
        let whole = distribution(epsilon)?;
        let mut distributions = [(whole, whole); LEVELS]; // a block of one value has no tree
        for (k, distributions) in distributions.iter_mut().enumerate().skip(1) {
            let (block, tree) = (block_share(k), 1.0 - block_share(k));
            *distributions = (distribution(share(epsilon, block, 1))?, distribution(share(epsilon, tree, k as u32))?);
        }
        Ok(Arc::new(HybridDistributions(distributions)))
    }
}

/// lambda_k, the part of eps for the sum of a block of length 2^k.
fn block_share(k: usize) -> f64 {
    1.0 / (1.0 + ((k * k) as f64).cbrt())
}

/// `part * epsilon / ways`, rounded down far enough that the shares never add up to more than epsilon.
fn share(epsilon: f64, part: f64, ways: u32) -> f64 {
    if ways == 1 && part == 1.0 { epsilon } else { epsilon * part / f64::from(ways) * (1.0 - 1e-15) }
}

impl Hybrid {
    /// No blocks yet.
    pub fn new(distributions: Arc<HybridDistributions>) -> Hybrid {
        Hybrid { distributions, blocks: 0.into(), blocks_tail: Tail::default(), tree: Frontier::empty() }
    }

    /// The open block's log2 length, and the number of values in it.
    fn open_block(count: u64) -> (usize, u64) {
        match count.checked_ilog2() {
            None => (0, 0),
            Some(k) => (k as usize, count - (1 << k)),
        }
    }
}

impl Mechanism for Hybrid {
    fn advance(&mut self, count: u64, _sum: i64, random: &mut Random) {
        let (k, inside) = Self::open_block(count - 1);
        let (block, node) = &self.distributions.0[k];
        if count.is_power_of_two() {
            self.tree = Frontier::empty();
            *self.blocks += block.sample(random);
            self.blocks_tail = self.blocks_tail.and(block.scale() as f64);
        } else {
            self.tree.advance(inside + 1, node, random);
        }
    }

    fn released(&self, sum: i64) -> i64 {
        sum + *self.blocks + *self.tree.sum
    }

    fn tail(&self, count: u64) -> Tail {
        let (k, inside) = Self::open_block(count);
        self.blocks_tail.and_many(inside.count_ones().into(), self.distributions.0[k].1.scale() as f64)
    }
}

persist!(Frontier { noise, sum });
persist!(generic [M: Persist + ?Sized] RunningSum<M> { count, sum, mechanism } made { most });
persist!(Logarithmic { noise, released } made { block });
persist!(Binary { tree } made { node });
persist!(Hybrid { blocks, blocks_tail, tree } made { distributions });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reward::Reward;

    /// Standard deviation, in 1/eps, averaged over the positions inside the block that ends at 2^(k+1).
    fn deviation(k: usize, block: impl Fn(usize) -> f64, node: impl Fn(usize) -> f64) -> f64 {
        let blocks: f64 = 1.0 + (0..k).map(|j| 1.0 / block(j).powi(2)).sum::<f64>(); // the first value, then 2^0 ..
        (2.0 * (blocks + k as f64 / 2.0 / node(k).powi(2))).sqrt()
    }

    #[test]
    fn the_split_is_the_best_of_its_kind() {
        for k in [5, 8, 10, 20, 30, 37] {
            let halves = deviation(k, |j| if j == 0 { 1.0 } else { 0.5 }, |k| 0.5 / k as f64);
            let root = deviation(k, |j| 1.0 / (j + 1) as f64, |k| 1.0 / (k + 1) as f64);
            let fixed = deviation(k, |j| if j == 0 { 1.0 } else { 0.15 }, |k| 0.85 / k as f64);
            let chosen = deviation(k, block_share, |k| (1.0 - block_share(k)) / k as f64);
            println!("k = {k}: halves {halves:.1}, root {root:.1}, 0.15/0.85 {fixed:.1}, chosen {chosen:.1}");
            let least = halves.min(root).min(fixed);
            assert!(chosen < if k < 8 { 1.01 * least } else { least });
        }
    }

    #[test]
    fn shares_add_up_to_epsilon_at_most() {
        for epsilon in [0.1, 0.3, 1.0, 7.7] {
            let distributions = HybridDistributions::new(epsilon, |e| Laplace::new(e, Reward::ONE as u64)).unwrap();
            for (k, (block, node)) in distributions.0.iter().enumerate() {
                let total = block.epsilon() + if k == 0 { 0.0 } else { k as f64 * node.epsilon() };
                assert!(total <= epsilon * (1.0 + 1e-15) && total > epsilon * 0.999, "{k}: {total}");
            }
        }
        // The shares themselves, before the scales are rounded, to the last bit.
        for epsilon in (1..1000).map(|i| f64::from(i) * 0.0137) {
            for k in 1..LEVELS as u32 {
                let lambda = block_share(k as usize);
                let tree = f64::from(k) * share(epsilon, 1.0 - lambda, k);
                assert!(share(epsilon, lambda, 1) + tree <= epsilon && share(epsilon, lambda, 1) > 0.0, "{k}");
                assert!(f64::from(k) * share(epsilon, 1.0, k) <= epsilon, "{k}");
            }
        }
        assert_eq!(MAX_COUNT, 1 << 37); // a number of 38 bits, and no more levels than noises
    }

    /// The noises of a hybrid are those of the finished blocks, and one for each set bit of the number of values in
    /// the open block.
    #[test]
    fn the_tail_is_that_of_the_noises_there_are() {
        let distributions = HybridDistributions::new(0.5, |e| Laplace::new(e, Reward::ONE as u64)).unwrap();
        let mut random = crate::random::Seed::new(Some([2; 32])).unwrap().stream();
        let mut hybrid = RunningSum::new(MAX_COUNT, Hybrid::new(distributions.clone()));
        assert_eq!(hybrid.tail(), Tail::default());
        let mut blocks = Tail::default();
        for count in 1..300u64 {
            assert!(hybrid.add(0, &mut random));
            let k = count.ilog2() as usize;
            if count.is_power_of_two() {
                blocks = blocks.and(distributions.0[k.max(1) - 1].0.scale() as f64);
            }
            let nodes = (count - (1 << k)).count_ones();
            assert_eq!(hybrid.tail(), blocks.and_many(nodes.into(), distributions.0[k].1.scale() as f64), "{count}");
        }
    }

    #[test]
    fn each_node_of_the_tree_is_drawn_once_and_leaves_once() {
        // A frontier of t leaves holds one noise for each set bit of t. A noise stays the same as long as its bit is
        // set.
        let distribution = Laplace::with_scale(1 << 20);
        let mut random = crate::random::Seed::new(Some([1; 32])).unwrap().stream();
        let mut frontier = Frontier::empty();
        for t in 1..5000u64 {
            let before = *frontier.noise;
            frontier.advance(t, &distribution, &mut random);
            for (level, noise) in frontier.noise.iter().enumerate() {
                assert_eq!(*noise != 0, t >> level & 1 == 1, "t = {t}, level {level}"); // P(0) = 2^-21
                if level > t.trailing_zeros() as usize {
                    assert_eq!(*noise, before[level]);
                }
            }
            assert_eq!(*frontier.sum, frontier.noise.iter().sum::<i64>());
        }
    }
}
