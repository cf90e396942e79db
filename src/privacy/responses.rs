//! Computes the loss of very many unequal pure releases, almost exactly and rounded up.
//!
#![doc = include_str!("../../docs/theory/responses.md")]

use std::f64::consts::PI;

/// Releases: the largest individually, the others by bounds.
pub struct Responses {
    /// eps_j of the largest.
    pub large: Vec<f64>,
    /// c, the maximum of the others.
    pub cap: f64,
    /// S, the maximum sum of squares of the others.
    pub squares: f64,
}

impl Responses {
    /// The variance of the Gaussian release, as a share of the sum of all squares.
    const SMOOTH: f64 = 1.0 / 256.0;
    /// The bound is tight if c is below this share of the root of the sum of all squares.
    pub const SMALL: f64 = 0.03;
    /// -ln of the relative error that is accepted. The error only makes the bound larger.
    const DIGITS: f64 = 12.0;

    /// The same releases, each with c times its loss.
    pub fn times(&self, c: f64) -> Responses {
        let large = self.large.iter().map(|e| c * e).collect();
        Responses { large, cap: c * self.cap, squares: c * c * self.squares }
    }

    /// An upper bound of the sum of all squares.
    pub fn all_squares(&self) -> f64 {
        self.large.iter().map(|e| e * e).sum::<f64>() + self.squares
    }

    /// delta at this epsilon, rounded up. About 50 nanoseconds for each large release and term.
    pub fn delta(&self, epsilon: f64) -> f64 {
        let large = || self.large.iter().copied();
        let gaussian = Self::SMOOTH * self.all_squares();
        let small = self.squares + gaussian;
        let Some(l) = self.saddle(epsilon, small) else { return 1.0 };
        let a = l + 0.5;
        // Real and imaginary part of ln M(s) - s epsilon, at t.
        let exponent = |t: f64| {
            let mut re = (a * a - t * t - 0.25) * small / 2.0 - l * epsilon;
            let mut im = a * t * small - t * epsilon;
            for e in large() {
                let ((sin, cos), sinh) = ((t * e).sin_cos(), (a * e).sinh());
                re += 0.5 * (sinh * sinh - sin * sin).ln_1p() - 0.5 * (e / 2.0).sinh().powi(2).ln_1p();
                im += f64::atan2((a * e).tanh() * sin, cos);
            }
            (re, im)
        };
        let height = exponent(0.0).0;
        let step = 2.0 * PI * l / (Self::DIGITS + 4.0 - height.clamp(-1e3, 0.0));
        let terms = self.terms(a, gaussian, step);
        if !(1.0..1e4).contains(&terms) {
            return 1.0;
        }
        let mut sum = 0.0;
        for k in 0..=terms as u32 {
            let t = f64::from(k) * step;
            let (re, im) = exponent(t);
            // 1/(s (s + 1)) = 1/(p + i r)
            let (p, r) = (l * (l + 1.0) - t * t, t * (2.0 * l + 1.0));
            let size = re.exp() / modulus(p, r);
            let term = size * ((im - f64::atan2(r, p)).cos() + self.error(a, t));
            sum += if k == 0 { term } else { 2.0 * term };
        }
        let delta = step / (2.0 * PI) * sum + height.exp() * self.beyond(a, gaussian, (terms + 1.0) * step, step);
        // After an overflow there is no bound.
        if (0.0..1.0).contains(&delta) { delta } else { 1.0 }
    }

    /// e^q - 1 at s + 1/2 = a + it, plus a slack for roundings.
    fn error(&self, a: f64, t: f64) -> f64 {
        let q = self.cap.powi(2) * self.squares * ((a * a + t * t).powi(2) + 0.0625) / 8.0;
        q.exp_m1() + 1e-9
    }

    /// g at s = a - 1/2.
    fn decay(&self, a: f64, gaussian: f64) -> f64 {
        2.0 * self.squares / (PI * (a * self.cap).cosh()).powi(2) + gaussian / 2.0
    }

    /// The number of terms of the sum after the first, within the range where the small releases' series is valid.
    fn terms(&self, a: f64, gaussian: f64, step: f64) -> f64 {
        let series = ((self.cap.powi(-2) - a * a).sqrt() / step).floor();
        ((Self::DIGITS / self.decay(a, gaussian)).sqrt() / step).ceil().min(series)
    }

    /// A bound of the terms from t = first on, by two integrals, as a share of M(l).
    fn beyond(&self, a: f64, gaussian: f64, first: f64, step: f64) -> f64 {
        rest(self.decay(a, gaussian), first, step) + rest(gaussian / 2.0, PI / (2.0 * self.cap), step)
    }

    /// An l near the saddle point of M(l) e^(-l epsilon). It is bounded so that numbers do not overflow and the small
    /// releases' series is valid at least at t = 0; `None` if there is no such l. Any l > 0 is valid for the bound.
    fn saddle(&self, epsilon: f64, small: f64) -> Option<f64> {
        let squares = small - self.squares + self.all_squares();
        let largest = self.large.iter().copied().fold(self.cap, f64::max);
        let most = f64::min(15.0 / largest, 0.9 / self.cap) - 0.5;
        // Solves sum eps tanh(a eps) + a S = epsilon. The left side is concave: from the left Newton moves to the
        // right.
        let mut a = 0.0;
        for _ in 0..20 {
            let (mut value, mut slope) = (a * small - epsilon, small);
            for e in &self.large {
                let tanh = (a * e).tanh();
                value += e * tanh;
                slope += e * e * (1.0 - tanh * tanh);
            }
            a -= value / slope;
            if value.abs() <= 1e-3 * epsilon {
                break;
            }
        }
        let least = squares.sqrt().recip();
        (least <= most).then(|| (a - 0.5).clamp(least, most))
    }
}

/// An upper bound of the sum of step * e^(-g t^2)/(pi t^2) over `t = first, first + step, ..`: the integral from one
/// step before, with the largest e^(-g t^2).
fn rest(g: f64, first: f64, step: f64) -> f64 {
    let from = first - step;
    (-g * from * from).exp() / (PI * from.max(0.0))
}

/// |p + ir|, or NaN if that is 0 or infinite. It replaces `hypot`, which would make the library require glibc 2.35
/// (2022).
fn modulus(p: f64, r: f64) -> f64 {
    let (least, most) = if p.abs() < r.abs() { (p, r.abs()) } else { (r, p.abs()) };
    most * (1.0 + (least / most).powi(2)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::composition::optimal;

    /// D(epsilon), over all outcomes of the responses.
    fn truth(epsilons: &[f64], epsilon: f64) -> f64 {
        let outcome = |lies: u32| {
            let (mut chance, mut loss) = (1.0, 0.0);
            for (i, e) in epsilons.iter().enumerate() {
                let lied = lies >> i & 1 == 1;
                chance /= 1.0 + if lied { *e } else { -e }.exp();
                loss += if lied { -e } else { *e };
            }
            chance * (1.0 - (epsilon - loss).exp()).max(0.0)
        };
        (0..1 << epsilons.len()).map(outcome).sum()
    }

    #[test]
    fn is_never_below_the_truth_and_hardly_above() {
        let cases: [Vec<f64>; 4] = [
            (1..=18).map(|n| 0.5 * f64::from(n).powf(-0.55)).collect(),
            vec![0.1; 18],
            (1..=16).map(|n| 0.9f64.powi(n)).collect(),
            vec![2.0, 1.0, 0.5, 0.25, 0.125],
        ];
        for epsilons in &cases {
            let sum: f64 = epsilons.iter().sum();
            let all = Responses { large: epsilons.clone(), cap: 0.0, squares: 0.0 };
            for share in [0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7] {
                let (exact, ours) = (truth(epsilons, share * sum), all.delta(share * sum));
                assert!(ours >= exact, "{epsilons:?} {share}: {ours:e} {exact:e}");
                assert!(ours <= 1.3 * exact + 1e-3 || share > 0.4, "{epsilons:?} {share}: {ours:e} {exact:e}");
            }
        }
    }

    /// Thousands of equal releases, of which only a bound is given. Their optimum is computed by another function.
    #[test]
    fn many_small_ones_need_only_be_bounded() {
        for (each, many) in [(2e-3f64, 10_000u64), (1e-3, 100_000), (0.01, 4_000), (1e-4, 1_000_000)] {
            for delta in [1e-2, 1e-5, 1e-9] {
                let epsilon = optimal(each, many, delta);
                let squares = many as f64 * each * each * (1.0 + 1e-12);
                let ours = Responses { large: vec![], cap: each, squares }.delta(epsilon);
                let some =
                    Responses { large: vec![each; 50], cap: each, squares: squares * (1.0 - 50.0 / many as f64) };
                for ours in [ours, some.delta(epsilon)] {
                    assert!(ours >= delta * (1.0 - 1e-6), "{each} {many} {delta:e}: {ours:e}");
                    // 1% in epsilon squared
                    assert!(ours <= delta * (1.0 + 0.02 * (1.0 / delta).ln()), "{each} {many} {delta:e}: {ours:e}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_bounded_is_one() {
        for (large, cap, squares, epsilon) in [
            (vec![], 0.5, 10.0, 1.0),
            (vec![], 0.0, 0.0, 1.0),
            (vec![f64::NAN], 0.0, 0.0, 1.0),
            (vec![0.1], 0.01, f64::INFINITY, 1.0),
            (vec![0.1], 0.01, 0.1, f64::NAN),
        ] {
            assert_eq!(Responses { large, cap, squares }.delta(epsilon), 1.0);
        }
        assert!(Responses { large: vec![0.1; 10], cap: 0.0, squares: 0.0 }.delta(800.0) < 1e-12);
    }

    /// ln cosh z of z = x + iy: real and imaginary part.
    fn ln_cosh(x: f64, y: f64) -> (f64, f64) {
        (0.5 * (x.sinh().powi(2) - y.sin().powi(2)).ln_1p(), f64::atan2(x.tanh() * y.sin(), y.cos()))
    }

    /// Agrees with hypot, and no overflow makes a delta small.
    #[test]
    fn a_modulus_is_exact_to_a_few_roundings() {
        for (p, r) in [(3.0, 4.0), (-1.0, 1e-9), (1e-200, -1e-200), (1e200, 1e180), (-0.7, 1.3), (5.0, 0.0), (0.0, 7.0)]
        {
            assert!((modulus(p, r) / p.hypot(r) - 1.0).abs() < 1e-15, "{p} {r}");
        }
        for (p, r) in [(0.0, 0.0), (f64::INFINITY, f64::INFINITY), (f64::NAN, 1.0)] {
            assert!(!(0.0..1.0).contains(&(1.0 / modulus(p, r))), "{p} {r}");
        }
    }

    /// For a hundred equal releases, whose transform is known: the series differs from it by at most the stated
    /// error, and at the edge, where z = i, by nearly as much.
    #[test]
    fn the_series_of_small_ones_has_its_error() {
        let (many, each) = (100.0, 0.1);
        let small = Responses { large: vec![], cap: each, squares: many * each * each };
        let mut nearest = 0.0f64;
        for (i, j) in (0..30).flat_map(|i| (0..100).map(move |j| (i, j))) {
            let (a, t) = (0.5 + f64::from(i) * 0.3, f64::from(j) * 0.1);
            if (a * a + t * t) * each * each > 1.0 {
                continue;
            }
            // |s + 1/2|^4 by squaring (a + it)^2 = u + iv
            let (u, v) = (a * a - t * t, 2.0 * a * t);
            let q = each * each * small.squares * (u * u + v * v + 1.0 / 16.0) / 8.0;
            let error = small.error(a, t);
            assert!((error - 1e-9 - q.exp_m1()).abs() < 1e-12 * (1.0 + error), "{a} {t}: {error}");
            let (re, im) = ln_cosh(a * each, t * each);
            let re = many * (re - ln_cosh(each / 2.0, 0.0).0) - (u - 0.25) * small.squares / 2.0;
            let im = many * im - v * small.squares / 2.0;
            assert!(re.hypot(im) <= q, "{a} {t}");
            nearest = nearest.max(re.hypot(im) / q);
        }
        assert!(nearest > 0.85, "{nearest}");
        let none = Responses { large: vec![0.1], cap: 0.0, squares: 0.0 };
        assert!((0.5e-9..2e-9).contains(&none.error(1.0, 1.0)));
    }

    /// |cosh(x + iy)/cosh x| <= e^(-g t^2/many) up to y = pi/2. At the largest x it is nearly equal.
    #[test]
    fn the_transform_falls_as_fast_as_is_said() {
        for x in [0.05, 0.5, 0.9] {
            let (many, each) = (100.0, 0.1);
            let small = Responses { large: vec![], cap: each, squares: many * each * each };
            let g = small.decay(x / each, 0.5);
            assert!((g - small.decay(x / each, 0.0) - 0.25).abs() < 1e-12);
            let ours = small.decay(x / each, 0.0);
            let fastest = (1..=1000)
                .map(|i| PI / 2.0 * f64::from(i) / 1000.0)
                .map(|y| many * (ln_cosh(x, 0.0).0 - ln_cosh(x, y).0) / (y / each).powi(2))
                .fold(f64::INFINITY, f64::min);
            assert!(ours <= fastest && (x < 0.9 || ours > 0.7 * fastest), "{x}: {ours} {fastest}");
        }
    }

    #[test]
    fn terms_end_with_the_series_or_the_digits() {
        let small = Responses { large: vec![], cap: 0.1, squares: 1.0 };
        for (a, gaussian, step) in
            [(1.0, 20.0, 0.1), (1.0, 0.05, 0.1), (6.0, 0.05, 0.11), (6.0, 0.05, 0.3), (8.0, 2.0, 0.01)]
        {
            let (terms, decay) = (small.terms(a, gaussian, step), small.decay(a, gaussian));
            let in_series = |terms: f64| (a * a + (terms * step).powi(2)) * small.cap * small.cap <= 1.0;
            let is_enough = |terms: f64| decay * (terms * step).powi(2) >= Responses::DIGITS;
            assert!(in_series(terms) && !is_enough(terms - 1.0), "{a} {gaussian} {step}: {terms}");
            assert!(is_enough(terms) || !in_series(terms + 1.0), "{a} {gaussian} {step}: {terms}");
        }
    }

    /// Equal releases have a transform that returns to its full height at every t = n pi/each.
    #[test]
    fn the_terms_that_are_left_out_are_bounded() {
        let (many, each, a, step) = (1000.0, 0.1, 1.0, 0.01);
        let small = Responses { large: vec![], cap: each, squares: many * each * each };
        for (gaussian, first, most) in [(0.0, 2.5, 0.05), (0.5, 0.5, 1.0), (0.5, 2.5, 1e-3)] {
            let left_out = (0..100_000).map(|k| first + step * f64::from(k)).map(|t| {
                let fall = many * (ln_cosh(a * each, t * each).0 - ln_cosh(a * each, 0.0).0) - gaussian * t * t / 2.0;
                step * fall.exp() / (PI * t * t)
            });
            let (left_out, ours) = (left_out.sum::<f64>(), small.beyond(a, gaussian, first, step));
            assert!(left_out > 0.0 && ours >= left_out && ours < most, "{gaussian} {first}: {ours} {left_out}");
        }
    }

    #[test]
    fn the_rest_of_a_sum_is_bounded() {
        for (g, first, step) in
            [(0.0, 1.0, 0.5), (0.1, 1.0, 0.1), (1.0, 0.3, 0.2), (2.0, 2.0, 0.01), (1e-3, 0.02, 0.01)]
        {
            let term = |k: u32| first + step * f64::from(k);
            let sum: f64 = (0..1_000_000).map(term).map(|t| step * (-g * t * t).exp() / (PI * t * t)).sum();
            let (ours, from) = (rest(g, first, step), first - step);
            // e^(-g t^2) decreases by a factor of e within 1/(2 g t), and 1/t^2 within t. One step is not counted.
            let loose = (3.0 + 2.0 * g * from * from) * (1.0 + step / from) * (2.0 * g * first * step).exp();
            assert!(ours >= sum && ours <= loose * sum, "{g} {first} {step}: {ours} {sum}");
        }
        assert_eq!((rest(1.0, 0.5, 0.5), rest(1.0, 0.5, 0.7)), (f64::INFINITY, f64::INFINITY));
        assert_eq!(rest(1.0, f64::INFINITY, 0.5), 0.0);
    }

    #[test]
    fn the_saddle_is_found_as_far_as_it_may_be() {
        let cases = [
            (vec![3.0, 1.0, 0.1, 0.1], 0.0, 0.0),
            (vec![0.5; 30], 0.05, 0.5),
            (vec![], 0.01, 1.0),
            (vec![8.0, 0.3], 0.01, 0.1),
        ];
        for (large, cap, squares) in cases {
            let releases = Responses { large, cap, squares };
            let gaussian = releases.all_squares() / 256.0;
            let small = squares + gaussian;
            let (sum, all): (f64, f64) = (releases.large.iter().sum(), releases.all_squares() + gaussian);
            let largest = releases.large.iter().copied().fold(cap, f64::max);
            let mut inside = 0;
            for epsilon in (1..60).map(|i| f64::from(i) / 40.0 * (sum + 5.0 * squares)) {
                let l = releases.saddle(epsilon, small).unwrap();
                let a = l + 0.5;
                let slope = a * small + releases.large.iter().map(|e| e * (a * e).tanh()).sum::<f64>() - epsilon;
                let (least, most) = (1.0 / all.sqrt(), f64::min(15.0 / largest, 0.9 / cap) - 0.5);
                assert!((least * (1.0 - 1e-12)..=most * (1.0 + 1e-12)).contains(&l), "{epsilon}: {l}");
                let (at_least, at_most) = (l < least * (1.0 + 1e-12), l > most * (1.0 - 1e-12));
                assert!(
                    slope.abs() < 1e-3 * epsilon || at_least && slope > 0.0 || at_most && slope < 0.0,
                    "{epsilon}: {l}"
                );
                inside += u32::from(!at_least && !at_most);
            }
            assert!(inside >= 3, "{inside}");
        }
    }

    #[test]
    fn all_releases_are_multiplied_and_counted() {
        let releases = Responses { large: vec![0.5, 0.25], cap: 0.125, squares: 3.0 };
        assert_eq!(releases.all_squares(), 3.3125);
        let Responses { large, cap, squares } = releases.times(4.0);
        assert_eq!((large, cap, squares), (vec![2.0, 1.0], 0.5, 48.0));
    }
}
