//! DP-KLUCB: pulls the arm with the largest optimistic index, by the divergence d_eps (Azize, Wu, Honda, Orabona,
//! Ito, Basu 2025).
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`]. At the end of each batch it pulls
//! argmax of max{ q : d_eps(mu, q) <= ln t/N }, where mu is the arm's released mean of N rewards.
//! d_eps(x, y) = inf_z { eps |z - x| + kl(z, y) } is the least evidence for each pull, under eps-DP, of an arm's mean
//! being x and not y. Regret sum_a Delta_a ln T/d_eps(mu_a, mu*) is the least possible. Here ln t is rounded up to the
//! next 64th, which adds at most 1/64 to ln T.
//!
//! An arm's total doubles with each batch. The index accounts for one noise while the mean contains one for each
//! batch. Therefore [`imed`](super::imed) is the default. d_eps is defined for pure DP, so delta > 0 is refused. The
//! policy does not forget; `imed` supports both.
//!
//! A prior is in mu, and in N as far as it counts ([`prior`](crate::policy::prior)).
//!
//! Cost: select and update O(1). The end of a batch costs a few indices (at most 50 bisections each) and O(log K).
//! About 710 bytes an arm. See [`min_index`](super::min_index) for delays, several slots and many arms.

use super::min_index::{Index, MinIndexPolicy};
use super::released::Evidence;
use crate::config::Config;
use crate::error::Result;
use crate::policy::kl::kl;
use crate::tournament::Line;

/// Number of steps in a unit of ln t.
const STEPS: f64 = 64.0;

/// DP-KLUCB.
pub type DpKlUcb = MinIndexPolicy<KlUcbIndex>;

/// The negated optimistic mean, for this privacy loss of one release.
pub struct KlUcbIndex {
    epsilon: f64,
}

impl Index for KlUcbIndex {
    fn new(config: &Config) -> Result<KlUcbIndex> {
        Ok(KlUcbIndex { epsilon: config.epsilon_per_reward()? })
    }

    /// ln t, rounded up to steps, so that requests with eligible arms find the indices that earlier ones computed.
    fn point(&self, _leader: f64, decisions: u64) -> f64 {
        ((decisions.max(1) as f64).ln() * STEPS).ceil() / STEPS
    }

    /// d_eps is convex in q, so its inverse is concave in ln t, and the tangent is above it.
    fn at(&self, arm: &Evidence, log_time: f64) -> (f64, Line) {
        let count = arm.covered + arm.prior_count;
        let (reach, rise) = reach(arm.mean(), log_time / count, self.epsilon);
        (-reach, Line::through(log_time, -reach, -rise / count))
    }

    fn batch(&self, arm: &Evidence, _leader: &Evidence, _index: f64, _margin: f64) -> f64 {
        arm.covered
    }

    fn leaders_batch(&self, leader: &Evidence) -> f64 {
        leader.covered
    }

    fn margin(&self, _arms: usize) -> f64 {
        0.0
    }
}

/// max{ q : d_eps(x, q) <= budget }, and its derivative in the budget.
fn reach(x: f64, budget: f64, epsilon: f64) -> (f64, f64) {
    if x >= 1.0 {
        return (1.0, 0.0);
    }
    let shrink = (-epsilon).exp();
    let turn = x / (x + (1.0 - x) * shrink);
    if budget >= kl(x, turn) {
        // From the turn on d_eps is -eps x - ln(1 - q + q e^-eps).
        let q = -(-budget - epsilon * x).exp_m1() / (1.0 - shrink);
        if q >= 1.0 {
            return (1.0, 0.0);
        }
        return (q, (1.0 - q + q * shrink) / (1.0 - shrink));
    }
    let (mut low, mut high) = (x, turn);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if kl(x, middle) <= budget { low = middle } else { high = middle }
    }
    let q = low;
    // A derivative that is too large only loosens the bound.
    (q, (1.0 - q) / (1.0 - x / q).max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::kl::private_divergence;

    #[test]
    fn the_reach_inverts_the_divergence() {
        for epsilon in [0.05, 0.5, 3.0] {
            for x in [0.0, 1e-12, 0.3, 0.99] {
                for budget in [0.0, 1e-9, 0.01, 0.3, 5.0] {
                    let (q, rise) = reach(x, budget, epsilon);
                    assert!((x..=1.0).contains(&q) && rise >= 0.0);
                    if q < 1.0 && budget > 0.0 {
                        assert!((private_divergence(x, q, epsilon) - budget).abs() < 1e-6 * (1.0 + budget));
                    }
                    // The reach is concave: the tangent is above it on both sides (budgets only grow).
                    for other in [budget + 1e-6, 2.0 * budget, 10.0] {
                        if other >= budget {
                            assert!(reach(x, other, epsilon).0 <= q + rise * (other - budget) + 1e-9);
                        }
                    }
                }
            }
        }
    }
}
