//! Requests with several answers: what one request may cost.
//!
//! A slate shows m arms for one request, no two the same, and each has an answer of its own. What is protected is the
//! configuration's to say:
//!
//! | `max_slots` | `max_clicks` | the unit | batches that it may change |
//! |---|---|---|---|
//! | 0 | 0 | one answer, in slates of any size | 1 |
//! | S | 0 | one request with all its answers, at most S | S |
//! | S | c | the same; at most c answers that are not `reward_min` are kept | min(2c, S) |
//!
//! # Theorem S (slates)
//!
//! Let everything be as in Theorem P of [`crate::privacy`], each batch be of one arm, and let one release be eps-DP
//! (rho-zCDP) where its sum moves by one, k eps-DP (k^2 rho-zCDP) where it moves by k. Two worlds that differ in
//! d answers of one request are told apart by d eps at most (d rho), and not by d^2 rho. For a user behind u requests
//! it is u d eps (u^2 d rho).
//!
//! *Proof.* Fix all coins but the noise. Along a transcript of releases all slates, memberships and sizes are the same in
//! both worlds, by the induction of Theorem P: which batches close between two answers of the request, and how
//! late these come, is told by the transcript and by public facts. An answer enters no batch but one of its own arm, and
//! the request's arms are distinct: so its answers are in batches that are distinct, none in two, and those that are
//! cancelled or come too late in none. Let k_b be by how much the sum of batch b moves, a function of the
//! releases before it. For one request k_b is at most 1 and sum k_b at most d; for u requests k_b is at most u, because
//! each has the arm once at most, and sum k_b at most u d.
//!
//! Pure: the density of the transcript is a product over batches, and the ratio of both worlds' is at most
//! e^(eps sum k_b). zCDP: with p_b and q_b the distributions of release b given those before it, in both worlds, and alpha > 1,
//! M_b = prod over j <= b of (p_j/q_j)^alpha e^(-alpha (alpha - 1) rho k_j^2) is a supermartingale under q, because
//! E_q (p_b/q_b)^alpha <= e^(alpha (alpha - 1) rho k_b^2) given the past. It starts at 1, and sum k_b^2 is at most
//! max k_b times sum k_b, which is d (u^2 d) on every path. So the divergence of order alpha is at most alpha d rho
//! (alpha u^2 d rho), although the policy chooses what comes next by what was released (Feldman and Zrnic 2021).
//! Coins that have one distribution in both worlds change nothing: both bounds are quasi-convex. ∎
//!
//! # At most c clicks
//!
//! When the first decision of a request is due, all its answers are there or are silence. Of those that are not
//! `reward_min` c are drawn evenly, if there are more, and the others become `reward_min`. (To keep the first ones, or
//! the first to come, would say that some slots are better than they are.) For fixed coins of the draw a request
//! has at most c such answers in each of two worlds, so that it differs in d = min(2c, m) slots. With c = 1 that is
//! 2 for slates of any size: a click that moves from one slot to another. Everything else is as without:
//! each answer takes effect when its decision's window is over, kept or not, and neither a count, nor a status,
//! nor the time says which one was.
//!
//! *Where later coins are in the stream.* The draw takes one uniform number below the number of clicks that are left.
//! Such a number is drawn by rejection, so how many words of the stream it uses depends on the clicks: later draws, of
//! other requests too, read other words in the two worlds. "For fixed coins" therefore means fixed numbers, not fixed
//! words. The words are independent and uniform, and whether one more is used depends only on words that were used
//! already. So whatever was used, the words that follow are again independent and uniform: the numbers that a later
//! request draws have the same distribution in both worlds, and are independent of the clicks and of all numbers before them.
//! The theorem fixes these numbers. They come from a stream of their own: noise and choices of arms take no word of
//! it, and their words do not shift. Nobody outside sees how many words were used. (A rejection at all has a chance
//! below n/2^64 for n clicks.)

use super::PrivacyLoss;
use super::composition::mul_up;

/// d: the batches that one answer (`max_slots` = 0), or one request, may change.
pub fn batches_changed(slate: u32, max_clicks: u32) -> u32 {
    match (slate, max_clicks) {
        (0, _) => 1,
        (slots, 0) => slots,
        (slots, clicks) => slots.min(clicks.saturating_mul(2)),
    }
}

/// One of so many parts of a loss, rounded down: together they are never more than it.
pub(crate) fn share(whole: f64, parts: u32) -> f64 {
    if parts == 1 { whole } else { (whole / f64::from(parts)).next_down() }
}

impl PrivacyLoss {
    /// The loss of what changes so many batches, from that of one: Theorem S. No guarantee where that has none.
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

    /// Noise is for d batches and u requests, u d eps and u^2 d rho, and what is reported is never more than was given,
    /// nor much less.
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
                        // By hand, once more.
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
