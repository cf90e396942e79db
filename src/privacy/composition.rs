//! What many releases lose together. Every figure is an upper bound, rounded up.
//!
//! The parameters of the releases must be public: fixed by the schedule, or functions of earlier
//! releases. The sum of epsilons then holds pointwise, however they were chosen and whenever it is
//! read. The figures at delta > 0 hold for sums that were fixed, or bounded, before the first
//! release (Feldman and Zrnic 2021 for zCDP): where the number of releases depends on the
//! transcript, give [`Heterogeneous`] the most that the schedule allows by now.

use super::PrivacyLoss;
use super::binomial::{Binomial, MAX_TRIALS};

/// Covers a handful of roundings of relative size 2^-53 each.
const UP: f64 = 1.0 + 16.0 * f64::EPSILON;

/// a + b rounded up (TwoSum gives the rounding error exactly). Sums of one term stay exact.
fn add_up(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    if error > 0.0 { sum.next_up() } else { sum }
}

/// a * b rounded up: m shares of budget/m, each rounded down, never add up to more than the budget.
pub(super) fn mul_up(a: f64, b: f64) -> f64 {
    let product = a * b;
    if a.mul_add(b, -product) > 0.0 { product.next_up() } else { product }
}

/// A composition of pure mechanisms with losses of their own: three running sums, so that a release
/// costs O(1) and no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heterogeneous {
    /// sum of eps.
    sum: f64,
    /// sum of eps tanh(eps/2): no eps-DP pair of laws has a larger relative entropy.
    drift: f64,
    /// sum of eps^2.
    squares: f64,
}

impl Heterogeneous {
    /// One more release, eps-DP.
    pub fn add(&mut self, epsilon: f64) {
        self.sum = add_up(self.sum, epsilon);
        self.drift = add_up(self.drift, drift(epsilon));
        self.squares = add_up(self.squares, epsilon * epsilon * UP);
    }

    /// The same releases for a user behind m rewards: each loses m eps. The drift grows by at most
    /// m^2, because tanh is concave (tanh(m x) <= m tanh(x)), and never beyond the sum.
    pub fn group(self, contributions: u32) -> Heterogeneous {
        if contributions == 1 {
            return self;
        }
        let m = f64::from(contributions);
        let sum = self.sum * m * UP;
        Heterogeneous { sum, drift: (self.drift * m * m * UP).min(sum), squares: self.squares * m * m * UP }
    }

    /// Basic composition: pure, at delta = 0.
    pub fn basic(&self) -> f64 {
        self.sum
    }

    /// Advanced composition (Dwork, Rothblum, Vadhan 2010, in Kairouz, Oh, Viswanath's
    /// heterogeneous form, 2015, Theorem 3.5): drift + sqrt(2 ln(1/delta) sum eps^2). The
    /// loss is a sum of terms in [-eps, eps] with total mean at most `drift`: Hoeffding.
    pub fn advanced(&self, delta: f64) -> f64 {
        if delta.is_nan() || delta <= 0.0 {
            return if self.sum > 0.0 { f64::INFINITY } else { 0.0 };
        }
        (self.drift + (2.0 * ln_inverse(delta) * self.squares).sqrt()) * UP
    }

    /// The smallest of basic, advanced, and the way through zCDP (eps-DP is eps^2/2-zCDP).
    pub fn epsilon(&self, delta: f64) -> f64 {
        self.basic().min(self.advanced(delta)).min(zcdp_to_approximate(self.squares / 2.0, delta))
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

/// The smallest epsilon at this delta of k mechanisms, each epsilon0-DP: Kairouz, Oh, Viswanath
/// (2015), Theorem 3.3: k randomised responses are the worst case. Their loss is
/// (k - 2i) epsilon0 with i ~ Binomial(k, 1/(1 + e^epsilon0)), so
/// delta(eps) = sum over i of P(i) max(0, 1 - e^(eps - (k - 2i) epsilon0)); bisection keeps an
/// epsilon that was computed to meet delta. O(sqrt(k)) terms a step, some 50 steps; beyond
/// 2^33 mechanisms the best of the other bounds.
pub fn optimal(epsilon0: f64, k: u64, delta: f64) -> f64 {
    let basic = if k == 1 { epsilon0 } else { k as f64 * epsilon0 * UP };
    if k == 0 || delta.is_nan() || delta <= 0.0 || !basic.is_finite() || basic <= 0.0 {
        return if k == 0 { 0.0 } else { basic };
    }
    if k > MAX_TRIALS {
        let k = k as f64;
        let sums = Heterogeneous { sum: basic, drift: k * drift(epsilon0) * UP, squares: k * epsilon0 * epsilon0 * UP };
        return sums.epsilon(delta);
    }
    let law = Binomial { n: k, p: 1.0 / (1.0 + epsilon0.exp()), q: 1.0 / (1.0 + (-epsilon0).exp()) };
    let meets = |epsilon: f64| {
        // The last i whose loss is above epsilon, and one more in case of rounding.
        let last = ((k as f64 - epsilon / epsilon0) / 2.0).max(0.0) as u64 + 1;
        let spent = law.below(last, |i| {
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
    // (k - 2i) epsilon0 was rounded too.
    (high * (1.0 + 1e-12)).min(basic)
}

/// An eta-bounded-range mechanism (its loss stays in a window of width eta) is eta^2/8-zCDP:
/// Cesar and Rogers (2021), Lemma 3.4, from Hoeffding's lemma. An eps-DP mechanism is 2 eps-bounded-range.
pub fn bounded_range_to_zcdp(eta: f64) -> f64 {
    eta * eta / 8.0 * UP
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
    // Around the x of the plain bound, golden-section search on ln x.
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let centre = ((log + 1.0) / rho).sqrt().ln();
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

/// The other direction: the largest rho for each of m rewards that leaves the user behind them within
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
    // The search inside `meets` is not monotone to the last digits.
    low * (1.0 - 1e-9)
}

/// The delta of a user behind m rewards when one reward is (epsilon, delta)-DP; the epsilon is m
/// epsilon.
///
/// Along a chain of m neighbours P0 <= e^eps P1 + delta <= e^(2 eps) P2 + (1 + e^eps) delta <= ..:
/// delta (1 + e^eps + .. + e^((m-1) eps)) = delta (e^(m eps) - 1)/(e^eps - 1), which is at most
/// m e^((m-1) eps) delta.
pub fn group_delta(epsilon: f64, delta: f64, contributions: u32) -> f64 {
    if contributions <= 1 || delta == 0.0 {
        return delta;
    }
    let m = f64::from(contributions);
    let chain = if epsilon > 0.0 { (m * epsilon).exp_m1() / epsilon.exp_m1() } else { m };
    // e^(m eps) multiplies the rounding of m eps. An overflow, even infinity over infinity, is no bound.
    let rounded_up = delta * chain * (1.0 + (m * epsilon + 16.0) * f64::EPSILON);
    if rounded_up.is_nan() { f64::INFINITY } else { rounded_up.next_up() }
}

/// The other direction: the delta for each of m rewards, at epsilon/m each, that leaves the user behind
/// them within (epsilon, delta). Rounded down; at least delta/(m e^epsilon).
pub fn delta_share(epsilon: f64, delta: f64, contributions: u32) -> f64 {
    if contributions <= 1 {
        return delta;
    }
    let share = epsilon / f64::from(contributions);
    // delta (e^share - 1)/(e^eps - 1), without overflow.
    let chain = (share - epsilon).exp() * (-share).exp_m1() / (-epsilon).exp_m1();
    (delta * chain * (1.0 - (4.0 * epsilon + 64.0) * f64::EPSILON)).max(0.0).next_down().max(0.0)
}
