//! DP-IMED with the Chernoff index: the policy we recommend.
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`] (rho-zCDP with delta > 0), no horizon, nothing
//! to tune. Play argmin of c D'(mu*) + ln N, where N counts the arm's rewards, mu* is the leading mean,
//! and D'(q) says with how many nats the arm's releases (n_b, y_b) speak against a mean of q:
//!
//! D(q) = sup over 0 <= l < eps/max w of -l Z - sum_b \[n_b ln(1 - q + q e^(-l w_b)) + Phi(l w_b)\],
//! and 0 where Z >= q W,
//! D'(q) = D + clamp(L - D, 0, 3), L = sum_b \[ln f(y_b | mu) - ln f(y_b | q)\],
//!
//! with Z = sum w_b y_b, W = sum w_b n_b, Phi the log-MGF of one noise, and f the saddlepoint density
//! of Binomial(n_b, .) + noise. A release below 0 counts as 0, which can only lower D.
//!
//! *D is a bound that holds.* For rewards in `[0, 1]` of mean q, E e^(-l w r) <= 1 - q + q e^(-l w) by
//! convexity; for batches of fixed sizes D decreases in Z, so D >= x says that Z is at most some z, and
//! Chernoff's bound at z's own l is e^(-x): **P(D(q) >= x) <= e^(-x)**. Chernoff wastes about
//! ln(eps x/2) + 1 nats for each Laplace noise; the likelihood gives them back, three at most, so
//! **P(D'(q) >= x) <= e^(3-x)**. Among more than 1024 arms the index is c D + ln N: its tangents are lines below
//! it that touch it, so that the least of a hundred thousand costs few of them; some 8% more regret at K = 3000.
//!
//! *Sizes that depend on releases.* For a fixed l, exp of the expression h(l) under the supremum is a
//! supermartingale in the number of releases, because w_b and n_b are known before y_b; by Ville's
//! inequality it ever reaches e^x with chance at most e^(-x). h is concave and h(0) = 0, so
//! h(l/r) >= h(l)/r for r >= 1: where the supremum is x + 1 or more, h is at least x at the next point
//! below of a grid of ratio 1 + 1/x. Sums are not negative, so h(l) <= l W and only l from (x + 1)/W on
//! matter; with L the largest l, 1 + (x + 1) ln(L W/(x + 1)) points do. So over *all times* until the
//! weight W, with x + 1 renamed x: **P(some D(q) >= x) <= (1 + x ln(L W/x)) e^(1-x)**. (An arm of more
//! than twelve releases joins some, and so does a fleet, which changes their weight after the fact: there the first
//! bound, for fixed sizes, holds and this one is not proved.)
//!
//! **Batches in nats.** The leader's total quadruples. Another arm is played for as long as its
//! evidence needs to reach the leader's index at its present rate: c D' + ln N lacks
//! need = ln N_leader + 1/4 + s/2 - (c D' + ln N) nats, so n = clamp(need N/(c D'), N/8, N) rewards.
//! With rare rewards no batch is so small that it is nothing but noise: at least 2 sigma (1/r - 2) rewards, sigma the
//! noise's deviation and r the rate of all that was released so far, so that the batch's sum is about two deviations.
//! At rates below 1% that saves an eighth to a quarter of the regret (`examples/figures`, `clicks`).
//!
//! **Tails.** Every policy of logarithmic regret loses the best arm for good in some runs, of order N/T
//! (Fan and Glynn 2021). c = 1 - s/3, s = 4V/(4V + N) the noise's part in what is known: early, when
//! one noise can mislead, evidence counts less. The price is in `examples/figures` (`tails`).
//!
//! **Drift.** With `forget_after` = M decisions a release of age a has the power g = clamp(2 - 2a/M, 0, 1): its
//! term in D and L is multiplied by g, and N = sum g_b n_b. E e^(g X) <= (E e^X)^g <= 1 (Jensen), so for
//! a fixed l the bound stands. Then c = 1, because a lost arm comes back; no batch is above M/64; and a
//! release that contradicts its arm's past (likelihood ratio of two means against one above 10 nats)
//! drops it.
//!
//! **Priors.** What public data say of an arm is in its D, as [`prior`](crate::policy::prior) has it, and not in N.
//!
//! After Honda and Takemura (2015, IMED) and Azize, Wu, Honda, Orabona, Ito, Basu (2025), whose
//! lower bound sum_a Delta_a ln T/d_eps(mu_a, mu*) is the yardstick. Their published index, d_eps,
//! has room for one noise while the estimate carries several, and then rare runs abandon the best
//! arm for good; D counts them all.
//!
//! Cost: select and update O(1); a batch's end a few D's, each some Newton steps over at most 12 terms (24 in a fleet),
//! and O(log K); about 450 bytes an arm. See [`min_index`](super::least) for delays, slates and many arms.

use super::min_index::{Index, MinIndexPolicy};
use super::released::Evidence;
use crate::config::Config;
use crate::error::Result;
use crate::random::Seed;
use crate::tournament::Line;

/// DP-IMED.
pub type DpImed = MinIndexPolicy<Chernoff>;

/// c D'(mu*) + ln N.
pub struct Chernoff {
    /// 1 - c at all noise.
    caution: f64,
    /// D' and not D.
    banded: bool,
}

impl DpImed {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<DpImed> {
        MinIndexPolicy::with_index(Chernoff::new(config), config, seed)
    }
}

impl Chernoff {
    /// Where there are more arms the index is c D + ln N.
    const MANY_ARMS: u32 = 1024;

    pub fn new(config: &Config) -> Chernoff {
        // With a memory a lost arm comes back.
        let caution = if config.forget_after == 0 { 1.0 / 3.0 } else { 0.0 };
        Chernoff { caution, banded: config.arms <= Self::MANY_ARMS }
    }

    /// c, and what decisions in flight add: evidence at the present rate.
    fn rate(&self, arm: &Evidence) -> f64 {
        let growth = if arm.count > 0.0 { arm.covered / arm.count } else { 1.0 };
        (1.0 - self.caution * arm.share_of_noise()) * growth
    }
}

/// N, 1 where there is nothing but a prior.
fn rewards(arm: &Evidence) -> f64 {
    if arm.covered > 0.0 { arm.covered } else { 1.0 }
}

impl Index for Chernoff {
    fn point(&self, leader: f64, _decisions: u64) -> f64 {
        leader
    }

    fn at(&self, arm: &Evidence, q: f64) -> (f64, Line) {
        let (exponent, slope) = arm.exponent(q);
        let (rate, log) = (self.rate(arm), rewards(arm).ln());
        let evidence = if self.banded { arm.banded(q, exponent) } else { exponent };
        (rate * evidence + log, Line::through(q, rate * exponent + log, rate * slope))
    }

    fn batch(&self, arm: &Evidence, leader: &Evidence, index: f64) -> f64 {
        let n = rewards(arm);
        let evidence = index - n.ln();
        let need = rewards(leader).ln() + 0.25 + 0.5 * arm.share_of_noise() - index;
        if evidence > 0.0 { (need * n / evidence).clamp(n / 8.0, n) } else { n }
    }

    fn leaders_batch(&self, leader: &Evidence) -> f64 {
        3.0 * leader.covered
    }
}
