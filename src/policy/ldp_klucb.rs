//! LDP KL-UCB: [LDP-UCB](super::ldp_ucb) with the Kullback-Leibler index.
//!
//! The bits that the server sees are Bernoulli whatever the rewards were, so KL-UCB (Garivier and
//! Cappe 2011) fits them exactly: play the largest max{ p : n kl(z, p) <= ln t }. Debiasing is
//! rising, so the order of indices is that of debiased ones. **Pure eps-DP in the local model**, with
//! the same contract: `update` takes the privatised bit. Regret
//! sum_a Delta_a ln T/kl(z_a, z*) in the limit, z the bits' means, which is optimal for these bits.
//!
//! Cost: select O(K), with 50 more steps each time the best index so far is beaten (ln K times
//! where the arms' order is random), update O(1); 24 bytes an arm.

use super::ldp_ucb::{BitIndex, BitUcb};

/// The Kullback-Leibler index.
pub type LdpKlUcb = BitUcb<KullbackLeibler>;

/// max{ p : n kl(z, p) <= ln t }.
pub enum KullbackLeibler {}

impl BitIndex for KullbackLeibler {
    fn above(best: f64, mean: f64, pulls: f64, ln_t: f64) -> Option<f64> {
        let reaches = |p: f64| p <= mean || pulls * kl(mean, p) <= ln_t;
        if best >= 1.0 || !reaches(best) {
            return None;
        }
        let (mut low, mut high) = (mean, 1.0); // the same steps for the same arm: equal ones tie
        for _ in 0..50 {
            let middle = low + (high - low) / 2.0;
            *(if reaches(middle) { &mut low } else { &mut high }) = middle;
        }
        (low > best).then_some(low)
    }
}

/// The relative entropy of two coins; p in (0, 1) or p = x.
fn kl(x: f64, p: f64) -> f64 {
    let term = |x: f64, p: f64| if x == 0.0 { 0.0 } else { x * (x / p).ln() };
    term(x, p) + term(1.0 - x, 1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_the_largest_mean_within_the_budget() {
        for (mean, pulls, ln_t) in [(0.0, 10.0, 3.0), (0.3, 50.0, 5.0), (0.9, 1000.0, 2.0), (0.5, 1.0, 20.0)] {
            let index = KullbackLeibler::above(f64::NEG_INFINITY, mean, pulls, ln_t).unwrap();
            assert!(index > mean && pulls * kl(mean, index) <= ln_t);
            assert!(index > 1.0 - 1e-9 || pulls * kl(mean, index + 1e-9) > ln_t);
            assert_eq!(KullbackLeibler::above(index, mean, pulls, ln_t), None);
            assert_eq!(KullbackLeibler::above(index - 1e-6, mean, pulls, ln_t), Some(index));
        }
        assert_eq!(KullbackLeibler::above(f64::INFINITY, 0.5, 1.0, 1.0), None);
        assert_eq!(KullbackLeibler::above(f64::NEG_INFINITY, 1.0, 5.0, 1.0), Some(1.0));
    }
}
