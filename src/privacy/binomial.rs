//! Sums over a binomial distribution, rounded up, with an error below the digits that any bound shows.

use super::search::first;

/// Maximum number of trials that the error analysis of [`Binomial`] covers.
pub(super) const MAX_TRIALS: u64 = 1 << 33;

/// Relative slack that covers every rounding error in [`Binomial::mean`]: 1e6 steps of a recurrence at 3 * 2^-53
/// each; the logarithm of one probability at 1e-12; and the mean `n p`, whose last bit changes a logarithm that is
/// still representable (above -745) by at most sqrt(2 * 745 * n p) * 2^-53 < 4e-10 at `MAX_TRIALS`.
const SLACK: f64 = 2e-9;

/// Share of the sum below which the remaining terms are replaced by a bound of them.
const NEGLIGIBLE: f64 = 1e-12;

/// `n` coins of success probability `p = 1 - q`. Both are given, because one may be tiny.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binomial {
    pub n: u64,
    pub p: f64,
    pub q: f64,
}

impl Binomial {
    /// The mean of a weight, rounded up. The weights are in `[0, 1]`, do not increase with k, and are themselves
    /// rounded up.
    ///
    /// Starts at the largest term that counts and walks outwards with P(k-1)/P(k) = k q / ((n-k+1) p). It stops when
    /// the rest is negligible: O(sqrt(n)) steps.
    pub fn mean(&self, weight: impl Fn(u64) -> f64) -> f64 {
        // Weights are 0 from `end` on, because they do not increase.
        let last = first(0, self.n + 1, |k| weight(k) == 0.0) - 1;
        // The mode or the number before it, but not beyond the last positive weight.
        let top = last.min((self.n as f64 * self.p) as u64);
        // Relative to P(top). Away from the mode the terms only decrease, so n times one of them bounds the rest.
        let n = self.n as f64;
        let mut sum = 0.0;
        let (mut k, mut term) = (top, 1.0);
        loop {
            sum += term * weight(k);
            if k == 0 {
                break;
            }
            term *= self.odds_below(k);
            k -= 1;
            if n * term <= NEGLIGIBLE * sum {
                sum += n * term;
                break;
            }
        }
        let (mut k, mut term) = (top, 1.0);
        while k < last {
            k += 1;
            term /= self.odds_below(k);
            if n * term <= NEGLIGIBLE * sum {
                sum += n * term;
                break;
            }
            sum += term * weight(k);
        }
        // next_up, because a probability that underflows to zero is not zero.
        ((self.ln_pmf(top) + sum.ln()).exp() * (1.0 + SLACK)).next_up()
    }

    /// P(k-1) / P(k), 0 at k = 0.
    #[inline]
    pub fn odds_below(&self, k: u64) -> f64 {
        (k as f64 * self.q) / ((self.n - k + 1) as f64 * self.p)
    }

    /// ln P(k), by Loader (2000), "Fast and accurate computation of binomial probabilities". No large logarithms are
    /// subtracted, so the digits are right for billions of trials.
    fn ln_pmf(&self, k: u64) -> f64 {
        let n = self.n as f64;
        if k == 0 {
            return n * ln_of_complement(self.q, self.p);
        }
        if k == self.n {
            return n * ln_of_complement(self.p, self.q);
        }
        let (k, rest) = (k as f64, (self.n - k) as f64);
        stirling_error(n)
            - stirling_error(k)
            - stirling_error(rest)
            - deviance(k, n * self.p)
            - deviance(rest, n * self.q)
            + 0.5 * (n / (std::f64::consts::TAU * k * rest)).ln()
    }
}

/// ln(x) where x + complement = 1.
fn ln_of_complement(x: f64, complement: f64) -> f64 {
    if complement < 0.5 { (-complement).ln_1p() } else { x.ln() }
}

/// ln(n!) - ln(sqrt(2 pi n) (n/e)^n).
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        let factorial: f64 = (1..=n as u64).map(|i| i as f64).product(); // exact
        return factorial.ln() + n - (n + 0.5) * n.ln() - 0.5 * std::f64::consts::TAU.ln();
    }
    let s = 1.0 / (n * n);
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - s / 1188.0) * s) * s) * s) / n
}

/// x ln(x/mean) + mean - x, for x, mean > 0.
fn deviance(x: f64, mean: f64) -> f64 {
    let v = (x - mean) / (x + mean);
    if v.abs() >= 0.1 {
        return x * (x / mean).ln() + mean - x;
    }
    // ln(x/mean) = 2 artanh(v): a series without the terms that would cancel.
    let mut sum = (x - mean) * v;
    let mut power = 2.0 * x * v;
    for j in 1.. {
        power *= v * v;
        let next = sum + power / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C(n, k) p^k q^(n-k) by multiplication alone.
    fn plain(distribution: Binomial, k: u64) -> f64 {
        let choose: f64 = (0..k).map(|i| (distribution.n - i) as f64 / (i + 1) as f64).product();
        choose * distribution.p.powi(k as i32) * distribution.q.powi((distribution.n - k) as i32)
    }

    #[test]
    fn agrees_with_plain_multiplication() {
        for n in [1, 2, 7, 20, 63, 200] {
            // These powers stay within the normal doubles; otherwise the oracle would lose its digits.
            for p in [0.5, 0.03, 0.3, 0.97] {
                let distribution = Binomial { n, p, q: 1.0 - p };
                let mut cumulative = 0.0;
                for k in 0..=n {
                    let exact = plain(distribution, k);
                    assert!((distribution.ln_pmf(k).exp() / exact - 1.0).abs() < 1e-12, "{n} {p} {k}");
                    cumulative += exact;
                    let bound = distribution.mean(|i| if i <= k { 1.0 } else { 0.0 });
                    assert!(
                        bound >= cumulative * (1.0 - 1e-13) && bound <= cumulative * (1.0 + 2.0 * SLACK),
                        "{n} {p} {k}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_whole_distribution_sums_to_one_at_any_size() {
        let sizes = [(10_000, 0.5), (10_000_000, 4e-6), (MAX_TRIALS, 0.5), (MAX_TRIALS, 1e-9), (MAX_TRIALS, 1e-11)];
        let distributions = sizes.map(|(n, p)| Binomial { n, p, q: 1.0 - p });
        for distribution in
            distributions.into_iter().chain(distributions.map(|Binomial { n, p, q }| Binomial { n, p: q, q: p }))
        {
            let Binomial { n, p, .. } = distribution;
            let all = distribution.mean(|_| 1.0);
            assert!((1.0..1.0 + 2.0 * SLACK).contains(&all), "{n} {p}: {all:e}");
            // A constant weight has the mean of that weight to as many digits, however small it is.
            for share in [1e-9, 1e-100] {
                let part = distribution.mean(|_| share) / share;
                assert!((1.0..1.0 + 2.0 * SLACK).contains(&part), "{n} {p} {share:e}: {part:e}");
            }
        }
    }

    /// The walk covers at most nine deviations on each side of the mode, or of the last positive weight left of it.
    #[test]
    fn the_tails_are_not_walked_to_their_ends() {
        for (n, p) in [(10_000, 0.5), (MAX_TRIALS, 0.5), (1 << 30, 0.9)] {
            let distribution = Binomial { n, p, q: 1.0 - p };
            let deviation = (n as f64 * p * distribution.q).sqrt();
            for (last, most) in [(n, 20.0), ((n as f64 * p - 6.0 * deviation) as u64, 6.0)] {
                let terms = std::cell::Cell::new(0.0);
                distribution.mean(|k| {
                    terms.set(terms.get() + 1.0);
                    if k <= last { 1.0 } else { 0.0 }
                });
                assert!(terms.get() < most * deviation, "{n} {p} {last}: {}", terms.get() / deviation);
            }
        }
        let none = Binomial { n: 1000, p: 0.5, q: 0.5 }.mean(|_| 0.0);
        assert!((0.0..1e-300).contains(&none), "{none:e}");
    }

    /// From n to n + 1, ln n! grows by ln(n + 1). For small n it is computed from the factorial.
    #[test]
    fn stirlings_error_has_all_its_digits() {
        for n in 1..1000 {
            let n = f64::from(n);
            let step = (n + 0.5) * (1.0 / n).ln_1p() - 1.0;
            assert!(
                (stirling_error(n) - stirling_error(n + 1.0) - step).abs() < if n < 16.0 { 2e-14 } else { 1e-15 },
                "{n}"
            );
        }
    }
}
