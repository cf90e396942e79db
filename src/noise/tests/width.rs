//! Bounds the deviation of binomial numbers, by Chernoff's bound: P(X > w) <= exp(Psi(s) - s w) for the log-MGF Psi and any
//! s > 0, so it is a true bound however early the optimisation stops. Bernstein's inequality is this bound at a
//! particular s.

use std::f64::consts::LN_2;

/// P(|X - E X| > width) <= gamma for the sum X of `batches` independent Binomial(n, q), gamma in
/// (0, 1].
///
/// With N = n batches, Chernoff's bound on the exact MGF is P(X - Nq >= Nx) <= exp(-N kl(q+x, q)), and the tail towards
/// 1/2 is the heavier one. Bernstein's x (sub-gamma form) is to the right of the root. Bisection keeps its right end
/// to the right of the root.
pub fn binomial_width(n: u64, q: f64, batches: u64, gamma: f64) -> f64 {
    let trials = n as f64 * batches as f64;
    let q = q.min(1.0 - q);
    if trials == 0.0 || q <= 0.0 {
        return 0.0;
    }
    let log = (LN_2 - gamma.ln()) / trials;
    let (mut left, mut right) = (0.0, bernstein(q, log));
    for _ in 0..40 {
        let middle = 0.5 * (left + right);
        if divergence(q, middle) >= log {
            right = middle;
        } else {
            left = middle;
        }
    }
    trials * right
}

/// kl(q + x, q).
fn divergence(q: f64, x: f64) -> f64 {
    (q + x) * (x / q).ln_1p() + (1.0 - q - x) * (-x / (1.0 - q)).ln_1p()
}

/// An x where this divergence is at least `log`, or 1 - q, the largest possible x.
fn bernstein(q: f64, log: f64) -> f64 {
    f64::min((2.0 * q * (1.0 - q) * log).sqrt() + log / 3.0, 1.0 - q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bernsteins_point_is_right_of_the_root_and_near() {
        for (q, log) in [(0.5, 1e-9), (0.5, 1e-3), (0.5, 0.1), (0.1, 1e-3), (0.1, 0.1), (1e-3, 1e-5), (1e-3, 1e-3)] {
            let there = divergence(q, bernstein(q, log));
            assert!(there >= log && there < 1.5 * log, "{q} {log}: {there}");
        }
        assert_eq!(bernstein(0.1, 5.0), 0.9);
    }

    /// P(|X - nq| > w) of one binomial by summing its distribution.
    fn binomial_tail(n: u64, q: f64, width: f64) -> f64 {
        let (mut log, mut tail) = (n as f64 * (-q).ln_1p(), 0.0);
        for k in 0..=n {
            if (k as f64 - n as f64 * q).abs() > width {
                tail += log.exp();
            }
            log += ((n - k) as f64 / (k + 1) as f64 * q / (1.0 - q)).ln();
        }
        tail
    }

    #[test]
    fn binomial_widths_hold_and_are_tight() {
        for (n, q) in [(1, 0.5), (10, 0.1), (100, 0.5), (1000, 0.003), (1000, 0.997), (5000, 0.2)] {
            for gamma in [0.5, 1e-2, 1e-6, 1e-12] {
                let width = binomial_width(n, q, 1, gamma);
                assert!(binomial_tail(n, q, width) <= gamma, "{n} {q} {gamma}");
                // The bound is tight: three quarters of the width would be too small, up to the steps of the
                // distribution.
                let least = 0.75 * width - 1.0;
                assert!(least < 0.0 || gamma > 0.1 || binomial_tail(n, q, least) > gamma, "{n} {q} {gamma}");
                assert_eq!(width, binomial_width(1, q, n, gamma));
            }
        }
        assert_eq!(binomial_width(0, 0.5, 3, 0.1), 0.0);
        assert_eq!(binomial_width(10, 0.0, 3, 0.1), 0.0);
        assert_eq!(binomial_width(10, 1.0, 3, 0.1), 0.0);
        // With very many noises the width approaches the normal limit, sqrt(2 v ln(2/gamma)).
        let ratio = binomial_width(1 << 30, 0.5, 1 << 10, 1e-6) / ((1u64 << 40) as f64 * 0.5 * 2e6f64.ln()).sqrt();
        assert!((ratio - 1.0).abs() < 1e-4, "{ratio}");
    }
}
