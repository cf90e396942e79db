//! Bounds the loss of many releases together. Every figure is an upper bound, rounded up.
//!
//! The parameters of the releases must be public: fixed by the schedule, or functions of earlier releases. Then the
//! sum of epsilons holds pointwise, however they were chosen and whenever it is read. The figures at delta > 0 hold
//! for sums that were fixed, or bounded, before the first release (Feldman and Zrnic 2021 for zCDP). So if the number
//! of releases depends on the transcript, give [`Heterogeneous`] the most that the schedule allows so far.

use super::PrivacyLoss;
use super::binomial::{Binomial, MAX_TRIALS};
use crate::moving::persist;

/// A factor that covers a handful of roundings of relative size 2^-53 each.
const UP: f64 = 1.0 + 16.0 * f64::EPSILON;

/// a + b rounded up (TwoSum gives the rounding error exactly). Sums of one term stay exact.
pub(crate) fn add_up(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    if error > 0.0 { sum.next_up() } else { sum }
}

/// a * b rounded up. So m shares of budget/m, each rounded down, never add up to more than the budget.
pub(crate) fn mul_up(a: f64, b: f64) -> f64 {
    let product = a * b;
    if a.mul_add(b, -product) > 0.0 { product.next_up() } else { product }
}

/// A composition of pure mechanisms with different losses. It consists of three running sums, so a release costs O(1)
/// and no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heterogeneous {
    /// sum of eps.
    sum: f64,
    /// sum of eps tanh(eps/2). The relative entropy of an eps-DP pair of distributions is at most eps tanh(eps/2).
    drift: f64,
    /// sum of eps^2.
    squares: f64,
}

impl Heterogeneous {
    /// Adds a release that is eps-DP.
    pub fn add(&mut self, epsilon: f64) {
        self.sum = add_up(self.sum, epsilon);
        self.drift = add_up(self.drift, drift(epsilon));
        self.squares = add_up(self.squares, mul_up(epsilon, epsilon));
    }

    /// The same releases for a user with m rewards: each release loses m eps. The drift grows by a factor of at most
    /// m^2, because tanh is concave (tanh(m x) <= m tanh(x)), and never exceeds the sum.
    pub fn group(self, contributions: u32) -> Heterogeneous {
        let times_m = |x: f64| mul_up(x, contributions.into());
        let sum = times_m(self.sum);
        Heterogeneous { sum, drift: times_m(times_m(self.drift)).min(sum), squares: times_m(times_m(self.squares)) }
    }

    /// Basic composition: pure, at delta = 0.
    pub fn basic(&self) -> f64 {
        self.sum
    }

    /// The rho of these releases as zCDP: eps-DP is eps^2/2-zCDP (Bun and Steinke 2016, Proposition 1.4).
    pub fn rho(&self) -> f64 {
        self.squares / 2.0
    }

    /// Advanced composition (Dwork, Rothblum, Vadhan 2010, in the heterogeneous form of Kairouz, Oh, Viswanath 2015,
    /// Theorem 3.5): drift + sqrt(2 ln(1/delta) sum eps^2). The loss is a sum of terms in [-eps, eps] with total mean
    /// at most `drift`, so Hoeffding's inequality applies.
    pub fn advanced(&self, delta: f64) -> f64 {
        if delta.is_nan() || delta <= 0.0 {
            return if self.sum > 0.0 { f64::INFINITY } else { 0.0 };
        }
        (self.drift + (2.0 * ln_inverse(delta) * self.squares).sqrt()) * UP
    }

    /// The minimum of basic composition, advanced composition, and composition as zCDP.
    pub fn epsilon(&self, delta: f64) -> f64 {
        self.basic().min(self.advanced(delta)).min(zcdp_to_approximate(self.rho(), delta))
    }
}

/// eps (e^eps - 1)/(e^eps + 1).
fn drift(epsilon: f64) -> f64 {
    epsilon * (epsilon / 2.0).tanh() * UP
}

/// ln(1/delta), at least 0.
fn ln_inverse(delta: f64) -> f64 {
    (-delta.ln()).max(0.0)
}

/// The smallest epsilon at this delta of k mechanisms, each epsilon0-DP (Kairouz, Oh, Viswanath 2015, Theorem 3.3).
/// The worst case is k randomised responses. Their loss is (k - 2i) epsilon0 with i ~ Binomial(k, 1/(1 +
/// e^epsilon0)), so delta(eps) = sum over i of P(i) max(0, 1 - e^(eps - (k - 2i) epsilon0)). Bisection keeps an
/// epsilon that was computed to meet delta: about 50 steps of O(sqrt(k)) terms. Beyond 2^33 mechanisms it returns the
/// best of the other bounds.
pub fn optimal(epsilon0: f64, k: u64, delta: f64) -> f64 {
    let basic = match k {
        0 => 0.0,
        1 => epsilon0,
        _ => k as f64 * epsilon0 * UP,
    };
    if delta.is_nan() || delta <= 0.0 || !basic.is_finite() || basic <= 0.0 {
        return basic;
    }
    if k > MAX_TRIALS {
        let k = k as f64;
        let sums = Heterogeneous { sum: basic, drift: k * drift(epsilon0) * UP, squares: k * epsilon0 * epsilon0 * UP };
        return sums.epsilon(delta);
    }
    let distribution = Binomial { n: k, p: 1.0 / (1.0 + epsilon0.exp()), q: 1.0 / (1.0 + (-epsilon0).exp()) };
    let meets = |epsilon: f64| {
        let spent = distribution.mean(|i| {
            let loss = (k as f64 - 2.0 * i as f64) * epsilon0;
            (4.0 * f64::EPSILON - (epsilon - loss).exp_m1()).clamp(0.0, 1.0)
        });
        spent <= delta
    };
    if meets(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, basic);
    while high - low > 1e-12 * high {
        let middle = low + (high - low) / 2.0;
        if meets(middle) { high = middle } else { low = middle }
    }
    // Covers the rounding of (k - 2i) epsilon0.
    (high * (1.0 + 1e-12)).min(basic)
}

/// An eta-bounded-range mechanism (its loss stays in an interval of width eta) is eta^2/8-zCDP: Cesar and Rogers
/// (2021), Lemma 3.4, from Hoeffding's lemma. An eps-DP mechanism is 2 eps-bounded-range.
pub fn bounded_range_to_zcdp(eta: f64) -> f64 {
    mul_up(eta, eta) / 8.0
}

/// The smallest known epsilon at which rho-zCDP is (epsilon, delta)-DP; infinite at delta = 0.
///
/// The smaller of rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016, Proposition 1.3) and
/// the minimum over alpha > 1 of alpha rho + ln(1 - 1/alpha) - ln(alpha delta)/(alpha - 1)
/// (Canonne, Kamath, Steinke 2020, Proposition 12 and Corollary 13). Any alpha gives a bound, so an
/// inexact minimum is still one.
pub fn zcdp_to_approximate(rho: f64, delta: f64) -> f64 {
    if rho == 0.0 {
        return 0.0;
    }
    if !(rho.is_finite() && rho > 0.0 && delta > 0.0) {
        return f64::INFINITY;
    }
    let log = ln_inverse(delta);
    let plain = (rho + 2.0 * (rho * log).sqrt()) * UP;
    // With alpha = 1 + x; the slack covers the rounding of each term.
    let bound = |x: f64| {
        let terms = [(1.0 + x) * rho, -(1.0 / x).ln_1p(), log / x, -x.ln_1p() / x];
        terms.iter().sum::<f64>() + 8.0 * f64::EPSILON * terms.iter().map(|term| term.abs()).sum::<f64>()
    };
    // Golden-section search on ln x, around the x of the plain bound.
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let centre = (log / rho).sqrt().ln();
    let (mut low, mut high) = (centre - 5.0, centre + 5.0);
    let mut best = plain;
    for _ in 0..60 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        let (at_left, at_right) = (bound(left.exp()), bound(right.exp()));
        best = best.min(at_left).min(at_right);
        if at_left < at_right { high = right } else { low = left }
    }
    best.max(0.0)
}

/// The inverse: the largest rho for each of m rewards at which the loss of a user with m rewards is within
/// (epsilon, delta). Rounded down; delta in (0, 1).
pub fn approximate_to_zcdp(epsilon: f64, delta: f64, contributions: u32) -> f64 {
    let meets = |rho: f64| PrivacyLoss::Zcdp(rho).epsilon(delta, contributions) <= epsilon;
    let (mut low, mut high) = (0.0, epsilon);
    while meets(high) && high < 1e300 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..100 {
        let middle = low + (high - low) / 2.0;
        if meets(middle) { low = middle } else { high = middle }
    }
    // `meets` is not monotone in the last digits, because it searches.
    low * (1.0 - 1e-9)
}

/// The delta of a user with m rewards if one reward is (epsilon, delta)-DP. The user's epsilon is m epsilon.
///
/// Along a chain of m neighbours P0 <= e^eps P1 + delta <= e^(2 eps) P2 + (1 + e^eps) delta <= .. The result is
/// delta (1 + e^eps + .. + e^((m-1) eps)) = delta (e^(m eps) - 1)/(e^eps - 1), at most m e^((m-1) eps) delta.
pub fn group_delta(epsilon: f64, delta: f64, contributions: u32) -> f64 {
    if contributions <= 1 || delta == 0.0 {
        return delta;
    }
    let m = f64::from(contributions);
    let chain = if epsilon > 0.0 { (m * epsilon).exp_m1() / epsilon.exp_m1() } else { m };
    // e^(m eps) multiplies the rounding error of m eps. NaN (infinity over infinity) is an overflow, so there is no
    // bound.
    let rounded_up = delta * chain * (1.0 + (m * epsilon + 16.0) * f64::EPSILON);
    if rounded_up.is_nan() { f64::INFINITY } else { rounded_up.next_up() }
}

/// The inverse: the delta for each of m rewards, at epsilon/m each, at which the loss of a user with m rewards is
/// within (epsilon, delta). Rounded down; at least delta/(m e^epsilon).
pub fn delta_share(epsilon: f64, delta: f64, contributions: u32) -> f64 {
    if contributions <= 1 {
        return delta;
    }
    let share = epsilon / f64::from(contributions);
    // delta (e^share - 1)/(e^eps - 1), without overflow.
    let chain = (share - epsilon).exp() * (-share).exp_m1() / (-epsilon).exp_m1();
    (delta * chain * (1.0 - (4.0 * epsilon + 64.0) * f64::EPSILON)).max(0.0).next_down().max(0.0)
}

persist!(Heterogeneous { sum, drift, squares });

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with exact arithmetic on integers of up to 118 bits.
    #[test]
    fn sums_and_products_are_the_least_doubles_that_are_not_below() {
        let mut random = crate::random::Seed::new(Some([6; 32])).unwrap().stream();
        let mut number = || random.next_u64() >> (11 + random.below(52));
        let is_least = |above: f64, exact: u128| above as u128 >= exact && (above.next_down() as u128) < exact;
        for _ in 0..100_000 {
            let (a, b, shift) = (number(), number() + 1, number() % 64);
            let (sum, product) = ((u128::from(a) << shift) + u128::from(b), u128::from(a + 1) * u128::from(b));
            let large = a as f64 * 2f64.powi(shift as i32);
            assert!(is_least(add_up(large, b as f64), sum), "{a} 2^{shift} + {b}");
            assert!(is_least(add_up(b as f64, large), sum), "{b} + {a} 2^{shift}");
            assert!(is_least(mul_up((a + 1) as f64, b as f64), product), "{} * {b}", a + 1);
        }
    }

    /// A function without a known rounding error has an explicit slack.
    #[test]
    fn what_is_no_sum_or_product_has_its_slack() {
        for epsilon in [1e-9f64, 0.01, 0.3, 1.0, 50.0] {
            let plain = epsilon * (epsilon / 2.0).tanh();
            assert!(drift(epsilon) > plain && drift(epsilon) < plain * (1.0 + 1e-14), "{epsilon}");
            let mut sums = Heterogeneous::default();
            (0..10).for_each(|_| sums.add(epsilon));
            for delta in [1e-9f64, 0.1] {
                let plain = sums.drift + (-2.0 * delta.ln() * sums.squares).sqrt();
                let ours = sums.advanced(delta);
                assert!(ours > plain && ours < plain * (1.0 + 1e-14), "{epsilon} {delta}");
            }
        }
        // The double nearest to 0.1 is above it: ten of them sum to more than 1, and would be rounded to 1.
        assert!(optimal(0.1, 10, 0.0) > 1.0);
        let third = 2f64.powi(-30) / 3.0;
        assert!(
            group_delta(0.0, third, 3) > 2f64.powi(-30) && group_delta(0.0, third, 3) < 3.0 * third * (1.0 + 1e-14)
        );
    }

    /// With more releases than there are terms to add up, the bounds from the sums are used.
    #[test]
    fn beyond_the_exact_sums_the_best_bound_is_left() {
        let more = MAX_TRIALS + 1;
        for (epsilon0, delta) in [(1e-6, 1e-6), (1e-5, 1e-6), (3.0, 1e-6)] {
            let k = more as f64;
            let drift = k * epsilon0 * (epsilon0 / 2.0f64).tanh();
            let advanced = drift + epsilon0 * (-2.0 * k * f64::ln(delta)).sqrt();
            let best = advanced.min(zcdp_to_approximate(k * epsilon0 * epsilon0 / 2.0, delta)).min(k * epsilon0);
            let ours = optimal(epsilon0, more, delta);
            assert!(ours >= best && ours < best * (1.0 + 1e-12), "{epsilon0}: {ours} {best}");
            // They are hardly larger than those of one release less.
            let exact = optimal(epsilon0, MAX_TRIALS, delta);
            assert!(exact < ours && (ours < 1.1 * exact), "{epsilon0}: {ours} {exact}");
        }
    }

    #[test]
    fn a_loss_of_any_size_is_found_to_as_many_digits() {
        // Two responses of loss e: delta(y) = p^2 (1 - e^(y - 2e)) from y = 0 on, p = 1/(1 + e^-e).
        for epsilon0 in [1e-8f64, 1e-3, 1.0] {
            let p = 1.0 / (1.0 + (-epsilon0).exp());
            let delta = p * p * -(-epsilon0).exp_m1(); // that of y = e
            let ours = optimal(epsilon0, 2, delta);
            assert!(ours >= epsilon0 * (1.0 - 1e-7) && ours < epsilon0 * (1.0 + 1e-7), "{epsilon0}: {ours}");
        }
        // A large epsilon is never below the exact one, 2e + ln(1 - delta/p^2), not even by the last digit of a double.
        for epsilon0 in (10..60).map(f64::from) {
            let p = 1.0 / (1.0 + (-epsilon0).exp());
            let truth = 2.0 * epsilon0 + (-1e-3 / (p * p)).ln_1p();
            let ours = optimal(epsilon0, 2, 1e-3);
            assert!(ours >= truth && ours < truth * (1.0 + 3e-12), "{epsilon0}: {ours} {truth}");
        }
    }

    #[test]
    fn the_way_back_to_zcdp_is_rounded_down_and_no_farther() {
        for epsilon in [1e-3, 0.1, 1.0, 30.0, 1e4] {
            for (delta, m) in [(1e-9, 1), (1e-6, 1), (0.1, 1), (1e-6, 3), (1e-6, 1000)] {
                let rho = approximate_to_zcdp(epsilon, delta, m);
                let spent = PrivacyLoss::Zcdp(rho).epsilon(delta, m);
                let more = PrivacyLoss::Zcdp(rho * (1.0 + 1e-8)).epsilon(delta, m);
                assert!(spent <= epsilon && more > epsilon, "{epsilon} {delta} {m}: {rho}, {spent} {more}");
            }
        }
        assert!(approximate_to_zcdp(1e300, 1e-6, 1) > 0.9e300);
    }
}
