//! Bounds the deviation of a sum of independent noises, with O(1) work for each noise added.

use crate::moving::persist;
use std::f64::consts::LN_2;

/// The tail of a sum of independent (discrete) Laplace noises. Two numbers of their scales b_1, b_2, .. determine it:
/// V, the sum of b_i^2 (half the variance), and B, the largest b_i.
///
/// **Bound.** The log-moment-generating function of a discrete Laplace of scale b is at most that of the continuous
/// one, -ln(1 - s^2 b^2) (because sinh(x)/x increases). x -> -ln(1 - x) is convex, and 0 at 0. So with u = s^2 B^2,
/// that of the whole sum is at most nu * -ln(1 - u), nu = V/B^2. Chernoff's bound gives, for every u in (0, 1) and
/// both sides together,
///
/// P(|noise| > B (L - nu ln(1 - u))/sqrt(u)) <= gamma, L = ln(2/gamma).
///
/// It is narrower than Chan, Shi, Song (2011), Cor. 2.9, which is the same inequality relaxed: by a quarter and more at
/// gamma = 1e-20. It needs no list of the noises, so a running sum keeps it up to date in O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tail {
    squares: f64,
    largest: f64,
}

/// An upper bound of the width that is linear in ln(2/gamma). With it an index policy can follow a gamma that shrinks
/// with time, for one multiplication an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WidthLine {
    /// Increase of the width for each unit of ln(2/gamma).
    pub slope: f64,
    /// Width at ln(2/gamma) = 0.
    pub offset: f64,
}

impl Tail {
    /// The tail with another independent noise of this scale.
    pub fn and(self, scale: f64) -> Tail {
        self.and_many(1, scale)
    }

    /// The tail with n more independent noises of this scale.
    pub fn and_many(self, n: u64, scale: f64) -> Tail {
        if n == 0 {
            return self;
        }
        Tail { squares: self.squares + n as f64 * scale * scale, largest: self.largest.max(scale) }
    }

    /// P(|noise| > width) <= gamma, for gamma in (0, 1].
    pub fn width(self, gamma: f64) -> f64 {
        self.width_at(LN_2 - gamma.ln())
    }

    /// The same at this ln(2/gamma).
    pub(crate) fn width_at(self, log: f64) -> f64 {
        let line = self.line(log);
        line.slope * log + line.offset
    }

    /// The line that is tight at this ln(2/gamma), and valid at every other.
    pub fn line(self, log: f64) -> WidthLine {
        if self.largest == 0.0 {
            return WidthLine::default();
        }
        let nu = self.squares / (self.largest * self.largest);
        // The best u solves 2u/(1-u) + ln(1-u) = L/nu; with w = u/(1-u): 2w - ln(1+w) = L/nu.
        // The left side is convex in w, and L/nu is to the right of the root, so Newton descends to it. Any w is valid.
        let ratio = log / nu;
        let mut w = ratio;
        for _ in 0..3 {
            w -= (2.0 * w - w.ln_1p() - ratio) * (1.0 + w) / (1.0 + 2.0 * w);
        }
        let slope = self.largest * ((1.0 + w) / w).sqrt();
        WidthLine { slope, offset: slope * nu * w.ln_1p() }
    }
}

persist!(Tail { squares, largest });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_best_chernoff_bound_and_beats_the_classical_one() {
        for (n, gamma) in [(1, 0.5), (1, 1e-20), (12, 0.01), (12, 1e-20), (300, 0.1), (300, 1e-9)] {
            let tail = Tail::default().and_many(n, 7.0).and(3.0);
            let log = f64::ln(2.0 / gamma);
            let (v, b) = (tail.squares, 7.0);
            let at = |u: f64| b * (log - v / (b * b) * (-u).ln_1p()) / u.sqrt();
            let best = (1..10_000).map(|i| at(f64::from(i) / 10_000.0)).fold(f64::INFINITY, f64::min);
            let width = tail.width(gamma);
            assert!(width < best * 1.0001, "{n} {gamma}: {width} against {best}");
            assert!(width > best * 0.9999);
            let classical = (8.0 * log).sqrt() * f64::max(v.sqrt(), b * log.sqrt());
            assert!(width < classical, "{n} {gamma}: {width} against {classical}");
        }
        assert_eq!(Tail::default().width(0.1), 0.0);
    }

    #[test]
    fn noises_add_up_however_they_come() {
        let three = Tail::default().and(5.0).and(5.0).and(5.0);
        assert_eq!(Tail::default().and_many(3, 5.0), three);
        assert_eq!(three.and_many(0, 9.0), three);
        assert_eq!(three, Tail { squares: 75.0, largest: 5.0 });
        assert_eq!(three.and(7.0), Tail { squares: 124.0, largest: 7.0 });
    }

    #[test]
    fn a_line_holds_everywhere() {
        let tail = Tail::default().and_many(9, 5.0).and_many(4, 2.0);
        let line = tail.line(20.0);
        for log in [1.0, 10.0, 20.0, 30.0, 80.0] {
            let exact = tail.width(2.0 * f64::exp(-log));
            let linear = line.slope * log + line.offset;
            assert!(linear >= exact * (1.0 - 1e-12), "{log}: {linear} against {exact}");
            assert!((linear - exact).abs() < 0.05 * exact || (log - 20.0).abs() > 10.0, "{log}");
        }
    }
}
