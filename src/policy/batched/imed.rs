//! DP-IMED with the Chernoff index: the recommended policy.
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`] (rho-zCDP with delta > 0). It needs no horizon and no tuning.
//! It pulls argmin of c D'(mu*) + ln N, where N counts the arm's rewards, mu* is the leading mean, and D'(q) is the
//! evidence in nats of the arm's releases (n_b, y_b) against a mean of q:
//!
//! D(q) = sup over 0 <= l < eps/max w of -l Z - sum_b \[n_b ln(1 - q + q e^(-l w_b)) + Phi(l w_b)\],
//! and 0 where Z >= q W,
//! D'(q) = D + clamp(L - D, 0, 3), L = sum_b \[ln f(y_b | mu) - ln f(y_b | q)\],
//!
//! with Z = sum w_b y_b, W = sum w_b n_b, Phi the log-MGF of one noise, and f the saddlepoint density
//! of Binomial(n_b, .) + noise. A release below 0 counts as 0, which can only lower D.
//!
//! *D is a valid bound.* For rewards in `[0, 1]` of mean q, E e^(-l w r) <= 1 - q + q e^(-l w) by convexity. For
//! batches of fixed sizes D decreases in Z, so D >= x means that Z is at most some z, and Chernoff's bound at z's own
//! l is e^(-x): **P(D(q) >= x) <= e^(-x)**. Chernoff loses about ln(eps x/2) + 1 nats for each Laplace noise. The
//! likelihood restores at most three of them, so **P(D'(q) >= x) <= e^(3-x)**. With more than 1024 arms the index is
//! c D + ln N: its tangents are lines below it that touch it, so finding the smallest of a hundred thousand indices
//! needs few of them. That costs about 8% more regret at K = 3000.
//!
//! *Sizes that depend on releases.* For a fixed l, exp of the expression h(l) under the supremum is a supermartingale
//! in the number of releases, because w_b and n_b are known before y_b. By Ville's inequality it ever reaches e^x
//! with probability at most e^(-x). h is concave and h(0) = 0, so h(l/r) >= h(l)/r for r >= 1: if the supremum is x +
//! 1 or more, h is at least x at the next lower point of a grid of ratio 1 + 1/x. Sums are not negative, so h(l) <= l
//! W, and only l from (x + 1)/W on matter. With L the largest l, 1 + (x + 1) ln(L W/(x + 1)) points suffice. So over
//! *all times* until the weight W, with x + 1 renamed x: **P(some D(q) >= x) <= (1 + x ln(L W/x)) e^(1-x)**. (An arm
//! of more than twelve releases joins some, and so does a fleet, which changes their weight afterwards. Then the
//! first bound, for fixed sizes, holds, and this one is not proved.)
//!
//! **Many arms.** The index of a leading arm, which has no evidence against it, is ln(N/kappa) with kappa = 1 +
//! max(K - 10, 0)/8 for K live arms. IMED explores until the evidence against every arm reaches ln N of the leader. With
//! a hundred ads and thirty clicks of each this takes more than a million decisions, and half of the regret is
//! exploration that cannot pay. Minimax variants of UCB compare with ln(T/(K N)) for the same reason (MOSS, Audibert
//! and Bubeck 2009; KL-UCB++, Menard and Garivier 2017). kappa multiplies the chance of losing the best arm, so it is 1
//! for few arms, where it does not pay. `examples/figures` (`many`) shows the regret and the tails by kappa.
//!
//! **Batches.** The leader's total quadruples. Another arm is pulled for as long as its evidence needs to reach the
//! leader's index at its present rate: c D' + ln N lacks need = ln(N_leader/kappa) + 1/4 + s/2 - (c D' + ln N) nats, so n =
//! clamp(need N/(c D'), N/8, N) rewards. With rare rewards no batch is so small that it is nothing but noise: it has
//! at least 2 sigma (1/r - 2) rewards, sigma the noise's deviation and r the rate of all that was released so far.
//! Then its sum is about two deviations. At rates below 1% that saves an eighth to a quarter of the regret
//! (`examples/figures`, `clicks`).
//!
//! **Values.** With values v_a the leader is the arm of the largest v_a mu_a, V, and arm a is compared at q_a = V/v_a
//! ([`min_index`](super::min_index)). An arm of a high value is pulled until D(q_a) is about ln N, so about (ln N +
//! 1.4/eps)/q_a times if it has no rewards.
//!
//! **Positions.** A request may say with which probability e_i a visitor examines slot i
//! ([`Request::examined`](crate::Request::examined)). A click in it has mean q e_i, and q, the click rate where the slot
//! is examined, is what the policy learns. Two counts of a batch differ then:
//!
//! | n, the number of rewards | E = sum e_i, the examinations |
//! |---|---|
//! | how many rewards a sum is of: its likelihood, the width of an interval | what is known: the mean y/E, the weight w, Z and W, N of the index, the sizes of batches and when they close, decisions that are pending |
//!
//! A reward stays 0 or 1 and is not divided by e_i, so the noise is that of one reward. D then has
//! n_b ln(1 - q_b + q_b e^(-l w_b)) with q_b = q E_b/n_b, and W = sum w_b E_b.
//!
//! *Theorem. D is a valid bound: P(D(q) >= x) <= e^(-x)* for sizes E_b that are fixed, rewards in `[0, 1]`, and slots i
//! that are chosen by what was known before, where the mean of a reward, given everything before it, is at least q e_i.
//! Over all times the bound above holds for E_b that releases decide.
//!
//! *Proof.* Let s = 1 - e^(-l w_b). By convexity E e^(-l w_b r) <= 1 - m s for a reward of mean m, and 1 - m s <= 1 - q e_i s.
//! The slot is known before its reward. So the product over the rewards of the batch of e^(-l w_b r_i)/(1 - q e_i s) is a
//! supermartingale, and times the noise's e^(-l w_b X - Phi(l w_b)) it has mean at most 1. The logarithm is concave, so
//! for every sequence of slots sum ln(1 - q e_i s) <= n_b ln(1 - q (E_b/n_b) s). With the right side in place of the left one
//! exp h(l) is smaller still. It remains that w_b is known before the batch: it is computed from the size with which
//! the batch was opened, or lowered to by public facts. A batch closes as soon as E reaches its size, and e_i <= 1, so that
//! size is E rounded down. The rest of the proof is that without positions. Rounding is safe: n ln(1 - q (E/n) s) increases
//! in n and decreases in E, and e_i is rounded down to a multiple of 2^-16. It also increases if E and n lose the same. ∎
//!
//! (For a claim that the mean is at most q, sums bound the other way: h with -l in place of l, by the same inequality.)
//!
//! y/E is unbiased for each batch if slots do not depend on its rewards. They do not: the order is computed from
//! releases. Privacy is Theorem P: slots, e_i and E are functions of releases, coins and public facts.
//!
//! **Tails.** Every policy of logarithmic regret loses the best arm permanently in some runs, of order N/T (Fan and
//! Glynn 2021). c = 1 - s/3, where s = 4V/(4V + N) is the share of the noise in what is known: early, when one noise
//! can mislead, evidence counts less. `examples/figures` (`tails`) shows what this costs.
//!
//! **Drift.** With `forget_after` = M a release of age a has the discount g = clamp(2 - 2a/M, 0, 1): its term in D
//! and L is multiplied by g, and N = sum g_b n_b. E e^(g X) <= (E e^X)^g <= 1 (Jensen), so the bound holds for a
//! fixed l. Then c = 1, because a lost arm is tried again. No batch is above M/64. A release that contradicts its
//! arm's past (likelihood ratio of two means against one above 10 nats) replaces it.
//!
//! **Priors.** An arm's prior is in its D, weighted as in [`prior`](crate::policy::prior), and not in N.
//!
//! The policy follows Honda and Takemura (2015, IMED) and Azize, Wu, Honda, Orabona, Ito, Basu (2025), whose lower
//! bound of regret is sum_a Delta_a ln T/d_eps(mu_a, mu*). Their published index, d_eps, accounts for one noise while
//! the estimate contains several. Then rare runs abandon the best arm permanently. D accounts for all noises.
//!
//! Cost: select and update O(1). The end of a batch costs a few evaluations of D, each some Newton steps over at most
//! 12 terms (24 in a fleet), and O(log K). About 710 bytes an arm. See [`min_index`](super::min_index) for delays,
//! several slots and many arms.

use super::explore::kappa;
use super::released::Evidence;
use crate::config::Config;
use crate::tournament::Line;

pub use super::min_index::DpImed;

/// The index c D'(mu*) + ln N.
pub struct Chernoff {
    /// 1 - c if all is noise.
    caution: f64,
    /// Whether the index uses D' instead of D.
    banded: bool,
    /// How many indices were computed.
    #[cfg(test)]
    pub computed: std::cell::Cell<u64>,
}

impl Chernoff {
    /// Number of arms above which the index is c D + ln N.
    const MANY_ARMS: u32 = 1024;

    pub fn new(config: &Config) -> Chernoff {
        // With forgetting, a lost arm is tried again.
        let caution = if config.forget_after == 0 { 1.0 / 3.0 } else { 0.0 };
        let banded = config.arms <= Self::MANY_ARMS;
        Chernoff {
            caution,
            banded,
            #[cfg(test)]
            computed: Default::default(),
        }
    }

    /// c, multiplied by the growth of the evidence that pending decisions cover.
    fn rate(&self, arm: &Evidence) -> f64 {
        let growth = if arm.count > 0.0 { arm.covered / arm.count } else { 1.0 };
        (1.0 - self.caution * arm.share_of_noise()) * growth
    }

    /// The arm's index where the leading mean is q, and a line that is nowhere above it. The arm with the smallest index is
    /// pulled.
    pub fn at(&self, arm: &Evidence, q: f64) -> (f64, Line) {
        #[cfg(test)]
        self.computed.set(self.computed.get() + 1);
        let (exponent, slope) = arm.exponent(q);
        let (rate, log) = (self.rate(arm), rewards(arm).ln());
        let evidence = if self.banded { arm.banded(q, exponent) } else { exponent };
        (rate * evidence + log, Line::through(q, rate * exponent + log, rate * slope))
    }

    /// Rewards in the next batch of an arm with this index.
    pub fn batch(&self, arm: &Evidence, leader: &Evidence, index: f64, margin: f64) -> f64 {
        let n = rewards(arm);
        let evidence = index - n.ln();
        let need = rewards(leader).ln() - margin + 0.25 + 0.5 * arm.share_of_noise() - index;
        if evidence > 0.0 { (need * n / evidence).clamp(n / 8.0, n) } else { n }
    }

    /// Rewards in the next batch of the arm with the leading mean.
    pub fn leaders_batch(&self, leader: &Evidence) -> f64 {
        3.0 * leader.covered
    }

    /// How far an index must be below that of a leading arm for its arm to be pulled instead.
    pub fn margin(&self, arms: usize) -> f64 {
        kappa(arms).ln()
    }
}

/// N; 1 if there is only a prior.
fn rewards(arm: &Evidence) -> f64 {
    if arm.covered > 0.0 { arm.covered } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::super::released::{Memory, NoisySum, ReleaseHistory};
    use super::*;
    use crate::policy::cumulant::Cumulant;

    /// The size of an arm's batch is that for a leader with 1/kappa of the rewards.
    #[test]
    fn a_batch_reaches_the_leaders_smaller_index() {
        let config = Config::new(40, 1.0);
        let (policy, distribution) = (Chernoff::new(&config), Cumulant::of(&config.noise().unwrap()));
        let evidence = |rewards, mean| {
            let mut released = ReleaseHistory::NOTHING;
            released.push(NoisySum::new(rewards, mean * rewards, 0));
            released.evidence(distribution, Memory::new(0), 0)
        };
        let (arm, leader, fewer) = (evidence(1000.0, 0.05), evidence(64_000.0, 0.07), evidence(16_000.0, 0.07));
        let index = policy.at(&arm, 0.07).0;
        let sizes = [(&leader, 4f64.ln()), (&fewer, 0.0), (&leader, 0.0)]
            .map(|(leader, margin)| policy.batch(&arm, leader, index, margin));
        assert!((sizes[0] / sizes[1] - 1.0).abs() < 1e-9 && sizes[0] < 0.9 * sizes[2], "{sizes:?}");
    }
}
