//! Bounds the privacy loss of a request with several slots.
//!
//! A request may have several slots. Each slot shows a different arm, and has a reward of its own. The configuration sets
//! the unit that is protected:
//!
//! | `max_slots` | `max_clicks` | the unit | batches that it may change |
//! |---|---|---|---|
//! | 0 | 0 | one reward, in requests of any size | 1 |
//! | S | 0 | one request with all its rewards, at most S | S |
//! | S | c | the same; at most c rewards other than `reward_min` are kept | min(2c, S) |
//!
//! # Theorem S (requests)
//!
//! Let everything be as in Theorem P of [`crate::privacy`], and let each batch be of one arm. Let one release be
//! eps-DP (rho-zCDP) if its sum changes by one, and k eps-DP (k^2 rho-zCDP) if it changes by k. Then two worlds that
//! differ in d rewards of one request are d eps-close (d rho-zCDP, and not d^2 rho). For a user with u requests the
//! loss is u d eps (u^2 d rho).
//!
//! *Idea.* Let k_b be the change of the sum of batch b, a function of the releases before it. Each reward is in at most
//! one batch, so sum k_b is at most u d. The density of the transcript is a product over batches, so the ratio of the
//! two worlds' densities is at most e^(eps sum k_b). Coq checks this for eps, with the draw of at most c clicks
//! (`tests/proofs/TheoremS.v`).
//!
//! *Proof for zCDP.* A reward enters only a batch of its own arm, and the request's arms are distinct. So k_b is at
//! most 1 for one request, and at most u for u. Let p_b and q_b be the distributions of release b given those before
//! it, in both worlds, and alpha > 1. Then M_b = prod over j <= b of (p_j/q_j)^alpha e^(-alpha (alpha - 1) rho k_j^2)
//! is a supermartingale under q, because E_q (p_b/q_b)^alpha <= e^(alpha (alpha - 1) rho k_b^2) given the past. It
//! starts at 1, and sum k_b^2 is at most max k_b times sum k_b, which is d (u^2 d) on every path. So the divergence of
//! order alpha is at most alpha d rho (alpha u^2 d rho), although the policy chooses its actions by what was released
//! (Feldman and Zrnic 2021). Coins with the same distribution in both worlds change nothing: both bounds are
//! quasi-convex. ∎
//!
//! # At most c clicks
//!
//! When the first decision of a request is due, all its rewards have arrived or count as `reward_min`. If more than c
//! are not `reward_min`, c of them are drawn uniformly, and the others become `reward_min`. (To keep the first slots,
//! or the first to arrive, would bias the estimates in favour of some slots.) For fixed coins of the draw, a request
//! has at most c such rewards in each of two worlds, so the worlds differ in d = min(2c, m) of its m slots. With c =
//! 1 this is 2 for requests of any size: a click that moves from one slot to another. No count, status or time reveals
//! which rewards were kept: each takes effect when its decision's window ends, kept or not.
//!
//! *The positions of later coins in the stream.* The draw takes one uniform number below the number of clicks that
//! are left. Such a number is drawn by rejection, so the number of words that it uses depends on the clicks. Later
//! draws, of other requests too, read other words in the two worlds. "For fixed coins" therefore means fixed numbers,
//! not fixed words. The words are independent and uniform, and whether one more is used depends only on words that
//! were used already. So the words that follow are again independent and uniform, whatever was used before. Therefore
//! the numbers that a later request draws have the same distribution in both worlds, and are independent of the
//! clicks and of all numbers before them. The theorem fixes these numbers. They come from a stream of their own:
//! noise and choices of arms take no word of it, and their words do not shift. Nobody outside sees how many words
//! were used. (For n clicks, a rejection has a probability below n/2^64.)

use super::PrivacyLoss;
use super::composition::mul_up;

/// d: the number of batches that one reward (`max_slots` = 0), or one request, may change.
pub fn batches_changed(slate: u32, max_clicks: u32) -> u32 {
    match (slate, max_clicks) {
        (0, _) => 1,
        (slots, 0) => slots,
        (slots, clicks) => slots.min(clicks.saturating_mul(2)),
    }
}

/// One of `parts` equal parts of a loss, rounded down, so that together they never exceed it.
pub(crate) fn share(whole: f64, parts: u32) -> f64 {
    if parts == 1 { whole } else { (whole / f64::from(parts)).next_down() }
}

impl PrivacyLoss {
    /// The loss of a change in `changed` batches, from that in one: Theorem S. `Unbounded` if the theorem does not
    /// apply.
    pub fn of_batches(self, changed: u32) -> PrivacyLoss {
        let times = |loss: f64| mul_up(loss, changed.into());
        match self {
            PrivacyLoss::Pure(epsilon) => PrivacyLoss::Pure(times(epsilon)),
            PrivacyLoss::Zcdp(rho) => PrivacyLoss::Zcdp(times(rho)),
            other if changed == 1 => other,
            _ => PrivacyLoss::Unbounded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::noise::Noise;

    #[test]
    fn the_table() {
        let changed = [(0, 0), (3, 0), (3, 1), (3, 2), (3, 3), (1, 1), (1000, 1), (u32::MAX, u32::MAX)]
            .map(|(slate, clicks)| batches_changed(slate, clicks));
        assert_eq!(changed, [1, 3, 2, 3, 3, 1, 2, u32::MAX]);
    }

    /// Noise is for d batches and u requests, u d eps and u^2 d rho. The reported loss is never more than the
    /// configured one, nor much less.
    #[test]
    fn the_noise_is_for_the_unit() {
        for (slate, max_clicks, d) in [(0, 0, 1), (3, 0, 3), (7, 2, 4)] {
            for u in [1, 5] {
                for epsilon in [0.1, 1.0 / 3.0, 1.0] {
                    for delta in [0.0, 1e-6] {
                        let config = Config {
                            delta,
                            max_slots: slate,
                            max_clicks,
                            reward_window: 10,
                            contributions_per_user: u,
                            ..Config::new(9, epsilon)
                        };
                        let of_one = match config.noise().unwrap() {
                            Noise::Laplace(distribution) => PrivacyLoss::Pure(distribution.epsilon()),
                            Noise::Gaussian(distribution) => PrivacyLoss::Zcdp(distribution.rho()),
                        };
                        let spent = of_one.of_batches(d).epsilon(delta, u);
                        assert!(spent <= epsilon && spent > epsilon * (1.0 - 1e-4), "{config:?}: {spent}");
                        // Computed a second time, independently.
                        let by_hand = match of_one {
                            PrivacyLoss::Zcdp(rho) => {
                                PrivacyLoss::Zcdp(rho * f64::from(d) * f64::from(u * u)).epsilon(delta, 1)
                            }
                            _ => of_one.epsilon(0.0, 1) * f64::from(d * u),
                        };
                        assert!((spent / by_hand - 1.0).abs() < 1e-9, "{config:?}: {spent} {by_hand}");
                    }
                }
            }
        }
    }
}
