//! DP-IMED with the exact Chernoff index: the policy we recommend.
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`] (rho-zCDP with delta > 0), no horizon, nothing
//! to tune. Play argmin of D(mu*) + ln N, where N counts the arm's rewards, mu* is the leading mean,
//! and D(q) is the exponent with which an arm of true mean q would look as bad as this one does:
//!
//! D(q) = sup over 0 <= l < eps/max w of -l Z - sum_b \[n_b ln(1 - q + q e^(-l w_b)) + Phi(l w_b)\],
//! and 0 where Z >= q W,
//!
//! over the arm's releases (n_b, y_b), with Z = sum w_b y_b, W = sum w_b n_b and Phi the log-MGF of
//! one noise. *D is a bound that holds:* for rewards in `[0, 1]` of mean q, E e^(-l w r) <=
//! 1 - q + q e^(-l w) by convexity; D decreases in Z, so D >= x says that Z is at most some z, and
//! Chernoff's bound at z's own l is e^(-x): **P(D(q) >= x) <= e^(-x)**.
//!
//! After Honda and Takemura (2015, IMED) and Azize, Wu, Honda, Orabona, Ito, Basu (2025), whose
//! lower bound sum_a Delta_a ln T/d_eps(mu_a, mu*) is the yardstick. Their published index, d_eps,
//! has room for one noise while the estimate carries m of them, and then rare runs abandon the best
//! arm for good; D counts them all.
//!
//! Cost: select and update O(1); a batch's end a few D's of m terms (some microseconds) and
//! O(log K); 168 bytes an arm. See [`batched`](super::batched) for batches, delays, many arms.

use super::batched::{Batched, Cumulant, Evidence, Index};
use crate::config::Config;
use crate::error::Result;
use crate::random::Seed;
use crate::tournament::Line;

/// DP-IMED.
pub type DpImed = Batched<Chernoff>;

/// D, with this noise in every release.
pub struct Chernoff {
    noise: Cumulant,
}

impl DpImed {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<DpImed> {
        let noise = config.noise()?;
        Batched::with_index(Chernoff { noise: Cumulant::of(&noise) }, 2.0, noise, config, seed)
    }
}

impl Index for Chernoff {
    fn point(&self, leader: f64, _decisions: u64) -> f64 {
        leader
    }

    /// At a fixed l the expression under the supremum is convex in q, so D is, and the tangent at
    /// any l lies below it. Covered batches bring evidence at the present rate.
    fn tangent(&self, arm: &Evidence, q: f64) -> Line {
        let (exponent, slope) = self.exponent(arm, q);
        let rate = arm.covered / arm.pulls;
        Line::through(q, rate * exponent + arm.covered.ln(), rate * slope)
    }
}

impl Chernoff {
    /// D(q) and its derivative. The expression is concave in l: Newton's method on its derivative,
    /// kept between two bounds; whatever l it ends at, the value is a bound that holds.
    pub fn exponent(&self, arm: &Evidence, q: f64) -> (f64, f64) {
        let lack = q * arm.weight - arm.sum;
        if lack <= 0.0 {
            return (0.0, 0.0);
        }
        // The derivative is at most lack - l V sum w^2, and falls to minus infinity at the limit.
        let squares: f64 = arm.batches.iter().map(|batch| batch.weight * batch.weight).sum();
        let heaviest = arm.batches.iter().map(|batch| batch.weight).fold(0.0, f64::max);
        let (mut low, mut high) = (0.0, lack / (self.noise.variance() * squares));
        high = high.min(self.noise.limit() / heaviest * (1.0 - 1e-12));
        let mut l = 0.5 * high;
        for _ in 0..40 {
            let (mut first, mut second) = (-arm.sum, 0.0);
            for batch in arm.batches {
                let (n, w) = (batch.count as f64, batch.weight);
                // The mean of a Bernoulli(q) reward tilted by e^(-l w r).
                let v = q * (-l * w).exp() / remaining(q, l * w);
                let (phi, bend) = self.noise.slopes(l * w);
                first += w * (n * v - phi);
                second -= w * w * (n * v * (1.0 - v) + bend);
            }
            if first > 0.0 { low = l } else { high = l }
            let newton = l - first / second;
            let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
            if (next - l).abs() <= 1e-9 * l {
                break;
            }
            l = next;
        }
        let (mut value, mut slope) = (-l * arm.sum, 0.0);
        for batch in arm.batches {
            let (n, s) = (batch.count as f64, l * batch.weight);
            let left = remaining(q, s);
            value -= n * log_remaining(q, s, left) + self.noise.at(s);
            slope += n * -(-s).exp_m1() / left;
        }
        if value > 0.0 { (value, slope) } else { (0.0, 0.0) }
    }
}

/// 1 - q + q e^(-s).
fn remaining(q: f64, s: f64) -> f64 {
    (1.0 - q) + q * (-s).exp()
}

/// Its logarithm: without cancellation near 1, without underflow at q = 1.
fn log_remaining(q: f64, s: f64, remaining: f64) -> f64 {
    if q == 1.0 {
        -s
    } else if remaining > 0.5 {
        (q * (-s).exp_m1()).ln_1p()
    } else {
        remaining.ln()
    }
}
