//! Bounds the deviation of sums of independent noises: Chernoff's bound, optimised numerically.
//!
//! Every value returned is a true bound, however early the optimisation stops. For a symmetric X with log-MGF Psi,
//! and any s > 0 where Psi is finite, P(|X| > w) <= 2 exp(Psi(s) - s w). The classical closed forms (Chan, Shi, Song
//! 2011, Corollary 2.9 for Laplace noises; Bernstein for binomials) are this bound at a particular s, so the best s
//! is at least as good.

use std::f64::consts::LN_2;

/// The width of a sum of independent Laplace noises, as a function of gamma.
///
/// The bound `(ln(2/gamma) + Psi(s))/s` holds for every gamma; the s is the best for the gamma given to
/// [`new`](Self::new). The bound is flat there: a gamma whose logarithm differs by 1/10 costs less than 1% in width.
/// So an index policy with gamma = t^-4 can create one of these at each release, and evaluate it at each decision for
/// the cost of one logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumWidth {
    /// 1/s, in the unit of the scales.
    slope: f64,
    /// Psi(s).
    exponent: f64,
}

impl SumWidth {
    /// The width of the sum of independent Laplace noises, given as pairs (scale, number of noises), in any unit. It
    /// is tuned for gamma in (0, 1]. It is also valid for discrete noise on a grid.
    ///
    /// Psi(s) = -sum ln(1 - s^2 b^2) is that of the continuous distribution. The discrete one of scale b has -ln(1 -
    /// sinh(s/2)^2/sinh(1/2b)^2), which is smaller for s < 1/b because sinh(x)/x increases. With u = (s max b)^2 the
    /// best s is the root of a convex increasing function. Newton's method descends to it from any point on its
    /// right.
    pub fn new(noises: &[(f64, u64)], gamma: f64) -> SumWidth {
        let largest = noises.iter().filter(|noise| noise.1 > 0).fold(0.0, |b: f64, noise| b.max(noise.0));
        if largest == 0.0 {
            return SumWidth { slope: 0.0, exponent: 0.0 };
        }
        // (c, n): n noises whose scale is sqrt(c) times the largest.
        let noises = noises.iter().filter(|noise| noise.1 > 0);
        let noises = noises.map(|&(scale, many)| ((scale / largest).powi(2), many as f64));
        let sum = |of: &dyn Fn(f64, f64) -> f64| noises.clone().map(|(c, n)| of(c, n)).sum::<f64>();
        let log = LN_2 - gamma.ln();
        // Each term of the function is at least n c u/(1 - c u), which gives two points to the right of the root.
        let most = sum(&|c, n| if c == 1.0 { n } else { 0.0 });
        let mut u = f64::min(log / (log + most), log / sum(&|c, n| n * c));
        for _ in 0..4 {
            let value = sum(&|c, n| n * (2.0 * c * u / (1.0 - c * u) + (-c * u).ln_1p())) - log;
            let derivative = sum(&|c, n| n * c * (1.0 + c * u) / (1.0 - c * u).powi(2));
            u -= value / derivative;
        }
        SumWidth { slope: largest / u.sqrt(), exponent: -sum(&|c, n| n * (-c * u).ln_1p()) }
    }

    /// P(|X| > width) <= gamma, in the unit of the scales, for gamma in (0, 1].
    #[inline]
    pub fn at(&self, gamma: f64) -> f64 {
        self.slope * (LN_2 - gamma.ln() + self.exponent)
    }
}

/// P(|X| > width) <= gamma for the sum X of independent Laplace noises, given as pairs (scale, number of noises).
pub fn laplace_sum_width(noises: &[(f64, u64)], gamma: f64) -> f64 {
    SumWidth::new(noises, gamma).at(gamma)
}

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

    /// Chan, Shi, Song (2011), Corollary 2.9.
    fn classical(noises: &[(f64, u64)], gamma: f64) -> f64 {
        let largest = noises.iter().map(|noise| noise.0).fold(0.0, f64::max);
        let squares: f64 = noises.iter().map(|&(b, n)| b * b * n as f64).sum();
        let log = (2.0 / gamma).ln();
        (8.0 * log).sqrt() * f64::max(squares.sqrt(), largest * log.sqrt())
    }

    const SUMS: [&[(f64, u64)]; 6] = [
        &[(1.0, 1)],
        &[(4.0, 20)],
        &[(1e6, 1_000_000)],
        &[(100.0, 1), (7.0, 12)],
        &[(13.3, 20), (2.35, 19)],
        &[(1e9, 3), (1.0, 1_000_000_000)],
    ];

    #[test]
    fn never_above_the_classical_bound_and_the_best_of_all_s() {
        for noises in SUMS {
            for gamma in [1.0, 0.1, 1e-3, 1e-12, 1e-36, 1e-300] {
                let width = laplace_sum_width(noises, gamma);
                assert!(width > 0.0 && width <= classical(noises, gamma), "{noises:?} {gamma}");
                let largest = noises[0].0;
                let best = (1..10_000)
                    .map(|i| 1.0 / (1.0 + (12.0 - f64::from(i) / 500.0).exp())) // dense at both ends of (0, 1)
                    .map(|x| {
                        let exponent: f64 =
                            noises.iter().map(|&(b, n)| -(n as f64) * (-(x * b / largest).powi(2)).ln_1p()).sum();
                        ((2.0 / gamma).ln() + exponent) * largest / x
                    })
                    .fold(f64::INFINITY, f64::min);
                assert!((width / best - 1.0).abs() < 1e-5, "{noises:?} {gamma}: {width} {best}");
            }
        }
    }

    #[test]
    fn a_width_made_for_one_gamma_serves_its_neighbours() {
        for noises in SUMS {
            for gamma in [1e-3f64, 1e-12, 1e-36] {
                let tuned = SumWidth::new(noises, gamma);
                for other in [gamma.powf(0.9), gamma.powf(1.1)] {
                    let ratio = tuned.at(other) / laplace_sum_width(noises, other);
                    assert!((1.0 - 1e-9..1.01).contains(&ratio), "{noises:?} {gamma} {other}: {ratio}");
                }
            }
        }
        assert_eq!(laplace_sum_width(&[], 0.5), 0.0);
        assert_eq!(laplace_sum_width(&[(0.0, 3), (1.0, 0)], 0.5), 0.0);
        assert_eq!(laplace_sum_width(&[(9.0, 0), (1.0, 4)], 0.5), laplace_sum_width(&[(1.0, 4)], 0.5));
    }

    #[test]
    fn the_width_of_a_sum_holds_and_is_tight() {
        // The exact distribution of the sum of 3 discrete noises of scale 4 and 6 of scale 2, by convolution.
        const HALF: usize = 600;
        let mut distribution = vec![0.0; 2 * HALF + 1];
        distribution[HALF] = 1.0;
        for (scale, many) in [(4.0f64, 3), (2.0, 6)] {
            // Discrete Laplace noise is the difference of two geometric ones, so each noise takes two recursions.
            let p = (-1.0 / scale).exp();
            for _ in 0..many {
                let mut memory = 0.0;
                distribution.iter_mut().for_each(|x| {
                    memory = p * memory + (1.0 - p) * *x;
                    *x = memory;
                });
                memory = 0.0;
                distribution.iter_mut().rev().for_each(|x| {
                    memory = p * memory + (1.0 - p) * *x;
                    *x = memory;
                });
            }
        }
        assert!((distribution.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let tail = |width: f64| {
            let far = |&(i, _): &(usize, &f64)| (i as f64 - HALF as f64).abs() > width;
            distribution.iter().enumerate().filter(far).map(|(_, x)| x).sum::<f64>()
        };
        for gamma in [0.5, 1e-2, 1e-6, 1e-12, 1e-30] {
            let width = laplace_sum_width(&[(4.0, 3), (2.0, 6)], gamma);
            assert!(tail(width) <= gamma, "{gamma}");
            // The bound exceeds the truth by at most a factor of the order of its own exponent (Bahadur and Rao 1960).
            // A worse s would be off exponentially.
            assert!(tail(width) * 4.0 * (1.0 + (2.0 / gamma).ln()) > gamma, "{gamma}");
        }
    }

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
