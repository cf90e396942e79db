//! The log-MGF of the noise in a release. With it every index is a valid bound.

use crate::noise::Noise;
use crate::reward::Reward;

/// An upper bound of the log-MGF Phi of one noise, in rewards. On a grid as fine as ours it is within 1e-7 of exact.
///
/// *Laplace:* let u = 1/scale. Discrete Laplace noise has the log-MGF
/// 2 f(1) - f(1 - s/eps) - f(1 + s/eps), f(a) = ln(1 - e^(-ua)), eps the privacy loss of one release. Here (1 -
/// e^(-ua))/(ua) is the mean of e^(-uav) over v uniform on `[0, 1]`, a log-convex function of a. So replacing f(a) by
/// ln(ua) does not decrease the expression: Phi(s) <= -ln(1 - s^2/eps^2), that of the continuous distribution.
/// *Gaussian:* s^2 sigma^2/2 (Canonne, Kamath, Steinke 2020, Corollary 17).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cumulant {
    /// Laplace noise with this privacy loss of one release.
    Laplace { epsilon: f64 },
    /// Gaussian noise with this variance, in rewards squared.
    Gaussian { variance: f64 },
}

impl Cumulant {
    /// The log-MGF of a distribution on the reward grid.
    pub fn of(noise: &Noise) -> Cumulant {
        match noise {
            Noise::Laplace(distribution) => Cumulant::Laplace { epsilon: distribution.epsilon() },
            Noise::Gaussian(distribution) => {
                Cumulant::Gaussian { variance: (distribution.sigma() as f64 / Reward::ONE as f64).powi(2) }
            }
        }
    }

    /// The variance of the continuous distribution, in rewards squared: an upper bound.
    pub fn variance(self) -> f64 {
        match self {
            Cumulant::Laplace { epsilon } => 2.0 / (epsilon * epsilon),
            Cumulant::Gaussian { variance } => variance,
        }
    }

    /// The s at which Phi becomes infinite.
    pub fn limit(self) -> f64 {
        match self {
            Cumulant::Laplace { epsilon } => epsilon,
            Cumulant::Gaussian { .. } => f64::INFINITY,
        }
    }

    /// Phi(s), for 0 <= s below the limit.
    pub fn at(self, s: f64) -> f64 {
        match self {
            Cumulant::Laplace { epsilon } => -(-(s / epsilon) * (s / epsilon)).ln_1p(),
            Cumulant::Gaussian { variance } => 0.5 * s * s * variance,
        }
    }

    /// The log-MGF of max(X, 0), X the noise, for 0 <= s below the limit. Because X is symmetric, E e^(s max(X, 0))
    /// is E e^(sX) + (1 - E e^(-s|X|))/2. *Laplace:* that of the continuous distribution, (1 - t/2)/(1 - t) with t =
    /// s/eps. The discrete one has 1 + sinh(us/2)/(2 cosh(ue/2) sinh(u(e-s)/2)), e = eps. This is less because
    /// sinh(x)/x is at least 1, increases, and is at most cosh(x). *Gaussian:* E e^(-s|X|) >= e^(-s E|X|) >= e^(-s
    /// sigma).
    pub fn at_positive(self, s: f64) -> f64 {
        match self {
            Cumulant::Laplace { epsilon } => (0.5 * s / (epsilon - s)).ln_1p(),
            Cumulant::Gaussian { variance } => (self.at(s).exp_m1() - 0.5 * (-s * variance.sqrt()).exp_m1()).ln_1p(),
        }
    }

    /// The first two derivatives of Phi.
    pub fn slopes(self, s: f64) -> (f64, f64) {
        match self {
            Cumulant::Laplace { epsilon } => {
                let gap = (epsilon - s) * (epsilon + s);
                let first = 2.0 * s / gap;
                (first, 2.0 / gap + first * first)
            }
            Cumulant::Gaussian { variance } => (s * variance, variance),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound on the log-MGF is above the exact one of discrete noise, and tight on our grid.
    #[test]
    fn the_cumulant_is_an_upper_bound() {
        for scale in [3.0f64, 1024.0] {
            let u = 1.0 / scale;
            let distribution = Cumulant::Laplace { epsilon: u };
            for share in [0.01, 0.3, 0.9, 0.999] {
                let f = |a: f64| (-(-u * a).exp_m1()).ln();
                let exact = 2.0 * f(1.0) - f(1.0 - share) - f(1.0 + share);
                let slack = distribution.at(share * u) - exact;
                assert!(slack >= -1e-12 && slack < u * u, "{scale} {share}: {slack}");
            }
        }
    }

    /// The same for noise that is cut off at 0, by summing the distribution. That log-MGF exceeds that of the noise
    /// itself.
    #[test]
    fn the_cumulant_above_zero_is_an_upper_bound() {
        let scale = 64.0f64;
        let (laplace, gaussian) =
            (Cumulant::Laplace { epsilon: 1.0 / scale }, Cumulant::Gaussian { variance: scale * scale });
        for (distribution, most, tail) in [(laplace, 0.9, 1e-3), (gaussian, 4.0, 0.15)] {
            let log = |x: i32| match distribution {
                Cumulant::Laplace { epsilon } => -f64::from(x.abs()) * epsilon,
                Cumulant::Gaussian { variance } => -0.5 * f64::from(x).powi(2) / variance,
            };
            let mean = |s: f64| (-20_000..20_000).map(|x| (log(x) + s * f64::from(x.max(0))).exp()).sum::<f64>();
            for share in [0.01, 0.1, 0.5, 0.9, 1.0] {
                let s = share * most / scale;
                let exact = (mean(s) / mean(0.0)).ln();
                let slack = distribution.at_positive(s) - exact;
                assert!(slack >= -1e-9 && slack < tail, "{distribution:?} {share}: {slack}");
                assert!(distribution.at_positive(s) > distribution.at(s), "{distribution:?} {share}");
            }
        }
    }
}
