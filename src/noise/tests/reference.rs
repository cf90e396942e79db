//! The samplers of Canonne, Kamath and Steinke (2020), built from comparisons of uniform integers. They are slow and
//! simple, and the fast samplers are tested against them.

use crate::random::Random;

/// True with probability exactly exp(-numerator/denominator): their Algorithm 1.
///
/// `denominator > 0`, and `64 * denominator` must fit 127 bits.
fn bernoulli_exp(random: &mut Random, numerator: u128, denominator: u128) -> bool {
    exp_with(&mut |n, d| random.below_wide(d) < n, numerator, denominator)
}

/// Their Algorithm 2.
pub fn laplace(random: &mut Random, scale: u64) -> i64 {
    loop {
        let fraction = random.below(scale);
        if !bernoulli_exp(random, fraction.into(), scale.into()) {
            continue;
        }
        let mut whole = 0;
        while bernoulli_exp(random, 1, 1) {
            whole += 1;
        }
        let (magnitude, negative) = ((fraction + scale * whole) as i64, random.bit());
        if !(negative && magnitude == 0) {
            return if negative { -magnitude } else { magnitude };
        }
    }
}

/// Their Algorithm 3, with the proposal's scale at sigma.
pub fn gaussian(random: &mut Random, sigma: u64) -> i64 {
    loop {
        let proposed = laplace(random, sigma);
        let distance = u128::from(proposed.unsigned_abs().abs_diff(sigma));
        if bernoulli_exp(random, distance * distance, 2 * u128::from(sigma) * u128::from(sigma)) {
            return proposed;
        }
    }
}

/// exp(-x) as a product of exp(-1) and the exponential of a fraction, from flips of
/// Bernoulli(n/d) coins.
#[inline]
fn exp_with(flip: &mut impl FnMut(u128, u128) -> bool, numerator: u128, denominator: u128) -> bool {
    for _ in 0..numerator / denominator {
        if !fraction_with(flip, 1, 1) {
            return false;
        }
    }
    fraction_with(flip, numerator % denominator, denominator)
}

/// Von Neumann's alternating series: the number of successes of Bernoulli(x/1), Bernoulli(x/2), ...
/// before the first failure is even with probability e^-x.
#[inline]
fn fraction_with(flip: &mut impl FnMut(u128, u128) -> bool, numerator: u128, denominator: u128) -> bool {
    let mut successes = 0;
    while flip(numerator, denominator * (successes + 1)) {
        successes += 1;
    }
    successes % 2 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::tests::width::binomial_width;
    use crate::noise::{Gaussian, Laplace};
    use crate::random::Seed;

    /// Walks the tree of all coin flips down to branches of mass `least`. Returns the mass of the leaves that are
    /// true, and of the branches left out.
    fn distribution(numerator: u128, denominator: u128, least: f64) -> (f64, f64) {
        let (mut yes, mut left_out) = (0.0, 0.0);
        let mut path: Vec<bool> = Vec::new();
        loop {
            // Replay the path, then always take the success branch until the mass is too small.
            let (mut mass, mut depth) = (1.0, 0);
            let answer = exp_with(
                &mut |n, d| {
                    assert!(n <= d);
                    if mass < least {
                        return false; // all further flips belong to the branch left out
                    }
                    if depth == path.len() {
                        path.push(true);
                    }
                    let success = path[depth];
                    depth += 1;
                    mass *= if success { n as f64 } else { (d - n) as f64 } / d as f64;
                    success
                },
                numerator,
                denominator,
            );
            if mass < least {
                left_out += mass;
            } else if answer {
                yes += mass;
            }
            // The next path in order: the last success becomes a failure.
            while path.last() == Some(&false) {
                path.pop();
            }
            match path.last_mut() {
                Some(last) => *last = false,
                None => return (yes, left_out),
            }
        }
    }

    #[test]
    fn the_whole_tree_of_flips_has_the_exact_distribution() {
        for denominator in 1..=8 {
            for numerator in 0..=3 * denominator {
                let exact = (-(numerator as f64) / denominator as f64).exp();
                let (yes, left_out) = distribution(numerator, denominator, 1e-9);
                assert!(left_out < 1e-5, "{numerator}/{denominator}: {left_out}");
                assert!(
                    yes < exact + 1e-12 && exact < yes + left_out + 1e-12,
                    "{numerator}/{denominator}: {yes} {exact}"
                );
            }
        }
    }

    #[test]
    fn frequencies_agree() {
        // 192 counts of 20,000 flips, each within its Chernoff width. For a fresh seed the test fails with probability
        // at most 192 * 1e-11 < 2e-9.
        let mut random = Seed::new(Some([11; 32])).unwrap().stream();
        for denominator in 1..=8 {
            for numerator in 1..=24 {
                let exact = (-(numerator as f64) / denominator as f64).exp();
                let hits = (0..20_000).filter(|_| bernoulli_exp(&mut random, numerator, denominator)).count();
                let width = binomial_width(20_000, exact, 1, 1e-11);
                assert!((hits as f64 - 20_000.0 * exact).abs() <= width, "{numerator}/{denominator}: {hits}");
            }
        }
        // Numbers above 64 bits, as in the Gaussian sampler.
        let third = (0..20_000).filter(|_| bernoulli_exp(&mut random, 1 << 101, 3 << 101)).count();
        let exact = (-1.0f64 / 3.0).exp();
        assert!((third as f64 - 20_000.0 * exact).abs() <= binomial_width(20_000, exact, 1, 1e-11), "{third}");
    }

    /// Chi-square of two samples, in cells that hold at least 100 of both, divided by its 1 - 1e-9 quantile.
    fn two_samples(mut a: impl FnMut() -> i64, mut b: impl FnMut() -> i64, cell: i64) -> f64 {
        const DRAWS: usize = 200_000;
        let mut cells = std::collections::BTreeMap::<i64, [f64; 2]>::new();
        for _ in 0..DRAWS {
            cells.entry(a().div_euclid(cell)).or_default()[0] += 1.0;
            cells.entry(b().div_euclid(cell)).or_default()[1] += 1.0;
        }
        let (mut chi2, mut freedom, mut rest) = (0.0, 0.0, [0.0; 2]);
        for [x, y] in cells.into_values() {
            rest = [rest[0] + x, rest[1] + y];
            if rest[0] + rest[1] >= 100.0 {
                chi2 += (rest[0] - rest[1]).powi(2) / (rest[0] + rest[1]);
                (freedom, rest) = (freedom + 1.0, [0.0; 2]);
            }
        }
        let x = 1e9f64.ln();
        chi2 / (freedom + 2.0 * f64::sqrt(freedom * x) + 2.0 * x)
    }

    /// Fails with probability at most 1e-9 for each comparison, for fresh seeds (Laurent and Massart 2000), and
    /// detects a scale that is 6% off.
    #[test]
    fn the_fast_samplers_have_the_same_distribution() {
        let mut seed = Seed::new(Some([12; 32])).unwrap();
        let (mut fast, mut slow) = (seed.stream(), seed.stream());
        for scale in [1u64, 2, 10, 1000, 4_194_305, 1 << 35, 1 << 50] {
            let cell = (scale / 16).max(1) as i64;
            let (distribution, near) = (Laplace::with_scale(scale), Laplace::with_scale(scale - 6 * scale / 100));
            let ratio = two_samples(|| distribution.sample(&mut fast), || laplace(&mut slow, scale), cell);
            assert!(ratio < 1.0, "{scale}: {ratio}");
            let ratio = two_samples(|| near.sample(&mut fast), || laplace(&mut slow, scale), cell);
            assert!(ratio > 1.0 || scale < 100, "{scale}: {ratio}");
            let distribution = Gaussian::with_sigma(scale);
            let ratio = two_samples(|| distribution.sample(&mut fast), || gaussian(&mut slow, scale), cell);
            assert!(ratio < 1.0, "sigma {scale}: {ratio}");
        }
    }
}
