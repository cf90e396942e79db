//! Divergences between Bernoulli distributions.

/// kl(x, y) between Bernoulli(x) and Bernoulli(y), x and y in [0, 1]; infinite if y excludes an outcome that x allows.
pub fn kl(x: f64, y: f64) -> f64 {
    // 0 ln 0 = 0
    let term = |x: f64, y: f64| if x == 0.0 { 0.0 } else { x * (x / y).ln() };
    (term(x, y) + term(1.0 - x, 1.0 - y)).max(0.0)
}

/// The largest q in [x, 1] with kl(x, q) <= bound (to 2^-40). On [x, 1] kl increases with q.
pub fn kl_upper(x: f64, bound: f64) -> f64 {
    let (mut low, mut high) = (x, 1.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if kl(x, middle) <= bound { low = middle } else { high = middle }
    }
    low
}

/// d_eps(x, y) for x <= y: the least evidence for each pull that an eps-DP policy can have of an arm's mean being x
/// and not y (Azize et al. 2025). Lower bounds of regret use it: see the crate's table.
pub fn private_divergence(x: f64, y: f64, epsilon: f64) -> f64 {
    let shrink = (-epsilon).exp();
    let left = 1.0 - y + y * shrink;
    // the minimising z; if it is below x, the infimum is at z = x, the plain kl
    if y * shrink / left <= x { kl(x, y) } else { -epsilon * x - left.ln() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kl_at_its_corners_and_within() {
        assert_eq!((kl(0.0, 0.0), kl(1.0, 1.0), kl(0.3, 0.3)), (0.0, 0.0, 0.0));
        assert_eq!((kl(0.5, 0.0), kl(0.5, 1.0)), (f64::INFINITY, f64::INFINITY));
        assert!((kl(0.0, 0.5) - std::f64::consts::LN_2).abs() < 1e-15);
        // 0.25 ln(1/2) + 0.75 ln(3/2)
        assert!((kl(0.25, 0.5) - (0.25 * 0.5f64.ln() + 0.75 * 1.5f64.ln())).abs() < 1e-15);
        for (x, bound) in [(0.0, 0.1), (0.3, 0.01), (0.9, 0.2), (0.5, 1e-6)] {
            let q = kl_upper(x, bound);
            assert!(q > x && kl(x, q) <= bound && kl(x, q + 1e-11) > bound);
        }
        assert_eq!(kl_upper(1.0, 0.5), 1.0);
    }

    /// inf_z { eps |z - x| + kl(z, y) } over a fine grid.
    #[test]
    fn the_divergence_is_the_infimum() {
        for epsilon in [0.05, 0.5, 3.0] {
            for x in [0.0, 0.01, 0.3, 0.8] {
                for y in [0.02, 0.31, 0.5, 0.95] {
                    if x > y {
                        continue;
                    }
                    let at = |i: u32| f64::from(i) / 100_000.0;
                    let price = |z: f64| epsilon * (z - x).abs() + kl(z, y);
                    let brute = (0..=100_000).map(|i| price(at(i))).fold(f64::INFINITY, f64::min);
                    let value = private_divergence(x, y, epsilon);
                    assert!((value - brute).abs() < 1e-7, "{epsilon} {x} {y}: {value} {brute}");
                }
            }
        }
    }
}
