//! Draws samples of Gamma and Beta distributions, for tests to compare with.

use crate::random::Random;

/// A standard normal sample (Marsaglia and Bray 1964).
fn normal(coins: &mut Random) -> f64 {
    loop {
        let (x, y) = (2.0 * coins.unit() - 1.0, 2.0 * coins.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Gamma with this shape, > 0, and scale 1 (Marsaglia and Tsang 2000).
fn gamma(shape: f64, coins: &mut Random) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, coins) * (1.0 - coins.unit()).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(coins);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - coins.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Beta(a, b), both > 0.
pub fn beta(a: f64, b: f64, coins: &mut Random) -> f64 {
    let (x, y) = (gamma(a, coins), gamma(b, coins));
    if x > 0.0 { x / (x + y) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    /// Means and variances of 200,000 samples, each within 5 of its deviations (the fourth moments of these
    /// distributions are below 10 variances squared): all 16 hold with probability 1 - 1e-5.
    #[test]
    fn samples_have_their_moments() {
        let mut coins = Seed::new(Some([5; 32])).unwrap().stream();
        let n = 200_000;
        let mut check = |mean: f64, variance: f64, sample: &mut dyn FnMut(&mut Random) -> f64| {
            let samples: Vec<f64> = (0..n).map(|_| sample(&mut coins)).collect();
            let average = samples.iter().sum::<f64>() / f64::from(n);
            let spread = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
            assert!((average - mean).abs() < 5.0 * (variance / f64::from(n)).sqrt(), "{average} for {mean}");
            assert!((spread / variance - 1.0).abs() < 5.0 * (10.0 / f64::from(n)).sqrt(), "{spread} for {variance}");
        };
        for shape in [0.5, 1.0, 3.0, 80.0] {
            check(shape, shape, &mut |coins| gamma(shape, coins));
        }
        for (a, b) in [(0.5, 4.0), (1.0, 1.0), (3.0, 97.0), (200.0, 100.0f64)] {
            let (mean, all) = (a / (a + b), a + b);
            check(mean, mean * (1.0 - mean) / (all + 1.0), &mut |coins| beta(a, b, coins));
        }
    }
}
