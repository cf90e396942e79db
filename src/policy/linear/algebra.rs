//! Cholesky factors of small symmetric matrices, in place, without allocation.
//!
//! A symmetric or lower triangular matrix is *packed*: its lower half, row after row. Sums run in one fixed order, so
//! the results are the same on every machine. The functions refuse a matrix that is not positive definite; they do not
//! repair it.
//!
//! **Alternatives.** faer and OpenBLAS choose their kernels by the processor at run time, so two handles that merged
//! the same releases on two machines would not agree to the last bit. faer also depends on some 30 crates. nalgebra
//! sums in a fixed order, but its dynamic matrices allocate (in `cholesky`, which consumes its matrix, in products and
//! in transposed views), and they abort if there is no memory. It does not have packed matrices, which a model for each
//! of 1000 arms needs. This module needs only these five loops.

use crate::error::Result;
use crate::memory::WipedVec;

/// Returns a vector of zeros. (Not inlined, so that the library contains this code once.)
///
/// # Errors
/// `NoMemory`.
#[inline(never)]
pub fn zeros(length: usize) -> Result<WipedVec<f64>> {
    WipedVec::new(length, |_| 0.0)
}

/// Returns where row `i` of a packed matrix begins, which is also the length of a packed matrix of `i` rows.
pub const fn packed(i: usize) -> usize {
    i * (i + 1) / 2
}

/// Returns a row of a packed matrix up to its diagonal.
fn row(a: &[f64], i: usize) -> &[f64] {
    &a[packed(i)..][..=i]
}

/// The mean of a logit.
pub fn sigma(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// The logit of a mean.
pub fn logit(p: f64) -> f64 {
    libm::log(p / (1.0 - p))
}

/// y += c x.
pub fn add(y: &mut [f64], c: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += c * x);
}

/// Returns the dot product, summed in four parts, so that a processor does not wait for each addition.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<4>(), y.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for (x, y) in x.iter().zip(y) {
        (0..4).for_each(|i| sums[i] += x[i] * y[i]);
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Replaces packed `a` by its lower triangular factor R: A = R R'. Returns false if A is not positive definite to
/// working precision: a pivot is less than `2^-48` of its diagonal element, or is not a number.
#[must_use]
pub fn factorise(a: &mut [f64], d: usize) -> bool {
    for i in 0..d {
        let (above, current) = a.split_at_mut(packed(i));
        for j in 0..i {
            let factor = row(above, j);
            current[j] = (current[j] - dot(&current[..j], &factor[..j])) / factor[j];
        }
        let pivot = current[i] - dot(&current[..i], &current[..i]);
        let sound = pivot > current[i] * f64::EPSILON * 16.0 && pivot.is_finite();
        if !sound {
            return false;
        }
        current[i] = pivot.sqrt();
    }
    true
}

/// x = R^-1 x.
pub fn solve(r: &[f64], x: &mut [f64]) {
    for i in 0..x.len() {
        let factor = row(r, i);
        x[i] = (x[i] - dot(&factor[..i], &x[..i])) / factor[i];
    }
}

/// x = R'^-1 x.
pub fn solve_transposed(r: &[f64], x: &mut [f64]) {
    for i in (0..x.len()).rev() {
        let factor = row(r, i);
        let (rest, last) = x.split_at_mut(i);
        last[0] /= factor[i];
        add(rest, -last[0], &factor[..i]);
    }
}

/// W = R^-1 W, where W is full and has rows of length `d`.
pub fn solve_rows(r: &[f64], w: &mut [f64], d: usize) {
    for i in 0..w.len() / d {
        let factor = row(r, i);
        let (above, current) = w.split_at_mut(i * d);
        for (above, c) in above.chunks_exact(d).zip(factor) {
            add(&mut current[..d], -c, above);
        }
        current[..d].iter_mut().for_each(|x| *x /= factor[i]);
    }
}

/// Packed `a` += W' W.
pub fn add_square(a: &mut [f64], w: &[f64], d: usize) {
    for w in w.chunks_exact(d) {
        for i in 0..d {
            add(&mut a[packed(i)..][..=i], w[i], w);
        }
    }
}

/// ln det(R R').
pub fn log_determinant(r: &[f64], d: usize) -> f64 {
    (0..d).map(|i| 2.0 * libm::log(r[packed(i) + i])).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, Seed};

    fn random(n: usize, coins: &mut Random) -> Vec<f64> {
        (0..n).map(|_| 2.0 * coins.unit() - 1.0).collect()
    }

    fn full(a: &[f64], i: usize, j: usize) -> f64 {
        a[packed(i.max(j)) + i.min(j)]
    }

    #[test]
    fn factors_solve_what_they_are_of() {
        let mut coins = Seed::new(Some([1; 32])).unwrap().stream();
        for d in [1, 2, 5, 16, 129] {
            let w = random(d * d, &mut coins);
            let mut a = vec![0.0; packed(d)];
            (0..d).for_each(|i| a[packed(i) + i] = 0.1);
            add_square(&mut a, &w, d);
            for (i, j) in (0..d).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                let exact: f64 =
                    (0..d).map(|k| w[k * d + i] * w[k * d + j]).sum::<f64>() + if i == j { 0.1 } else { 0.0 };
                assert!((full(&a, i, j) - exact).abs() < 1e-12 * d as f64);
            }
            let mut r = a.clone();
            assert!(factorise(&mut r, d));
            let x = random(d, &mut coins);
            let mut y: Vec<f64> = (0..d).map(|i| (0..d).map(|j| full(&a, i, j) * x[j]).sum()).collect();
            solve(&r, &mut y);
            solve_transposed(&r, &mut y);
            assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-7), "{d}");
            let (mut rows, mut column) = (w.clone(), (0..d).map(|i| w[i * d]).collect::<Vec<_>>());
            solve_rows(&r, &mut rows, d);
            solve(&r, &mut column);
            assert!((0..d).all(|i| (rows[i * d] - column[i]).abs() < 1e-9));
        }
        let mut two = [2.0, 1.0, 3.0];
        assert!(factorise(&mut two, 2) && (log_determinant(&two, 2) - 5f64.ln()).abs() < 1e-14);
    }

    #[test]
    fn what_is_not_positive_definite_is_refused() {
        assert!(!factorise(&mut [1.0, 1.0, 1.0], 2));
        assert!(!factorise(&mut [0.0], 1));
        assert!(!factorise(&mut [-1.0], 1));
        assert!(!factorise(&mut [1.0, f64::NAN, 1.0], 2));
        assert!(!factorise(&mut [f64::INFINITY], 1));
        assert!(!factorise(&mut [1e300, 1e300, 1e300], 2));
        assert!(factorise(&mut [1e-30, 0.0, 1e30], 2));
    }
}
