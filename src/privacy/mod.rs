//! The privacy contract, and its theorems as code.
//!
#![doc = include_str!("../../docs/privacy.md")]
//!
#![doc = include_str!("../../docs/privacy/users.md")]
//!
#![doc = include_str!("../../docs/privacy/proofs.md")]
//!
#![doc = include_str!("../../docs/theory/theorems.md")]

mod binomial;
pub mod calibration;
pub mod composition;
mod responses;
mod search;
pub mod slates;

pub use composition::Heterogeneous;
pub(crate) use responses::Responses;
pub(crate) use search::{first, least_near};

/// The privacy loss of one reward so far, in the terms of the mechanism's theorem.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PrivacyLoss {
    /// Pure eps-DP; 0 before the first release.
    Pure(f64),
    /// rho-zCDP (Bun and Steinke 2016).
    Zcdp(f64),
    /// (epsilon, delta)-DP.
    Approximate {
        /// The epsilon.
        epsilon: f64,
        /// The delta: P\[M(D) in S\] <= e^epsilon P\[M(D') in S\] + delta.
        delta: f64,
    },
    /// A reward is in several releases. Each of them is pure, with a loss of its own.
    Heterogeneous(Heterogeneous),
    /// As `Heterogeneous`, for a schedule. All releases that it can ever make are together (epsilon, delta)-DP.
    Scheduled {
        /// The most releases that the schedule allows so far.
        releases: Heterogeneous,
        /// The epsilon of all releases.
        epsilon: f64,
        /// The delta of all releases.
        delta: f64,
    },
    /// A reward is in k releases. Each of them is pure, with the same loss.
    Equal {
        /// The loss of one release.
        epsilon0: f64,
        /// The number of releases.
        k: u64,
    },
    /// No guarantee (a baseline).
    #[default]
    Unbounded,
}

impl PrivacyLoss {
    /// The smallest known epsilon at this delta for a user who contributes `contributions` rewards (group privacy),
    /// rounded up; infinite if there is none.
    ///
    /// By a chain of m neighbours, a user with m rewards loses m eps where one reward loses eps (if there are many
    /// releases, in each of them); m^2 rho (Bun and Steinke 2016, Proposition 1.9); (m eps, delta (e^(m eps) -
    /// 1)/(e^eps - 1)), see [`composition::group_delta`].
    pub fn epsilon(self, delta: f64, contributions: u32) -> f64 {
        let m = f64::from(contributions);
        let times_m = |loss: f64| composition::mul_up(loss, m);
        match self {
            PrivacyLoss::Pure(epsilon) => times_m(epsilon),
            PrivacyLoss::Zcdp(rho) => composition::zcdp_to_approximate(times_m(times_m(rho)), delta),
            PrivacyLoss::Approximate { epsilon, delta: spent } => {
                let enough = composition::group_delta(epsilon, spent, contributions) <= delta;
                if enough { times_m(epsilon) } else { f64::INFINITY }
            }
            PrivacyLoss::Heterogeneous(releases) => releases.group(contributions).epsilon(delta),
            PrivacyLoss::Scheduled { releases, epsilon, delta: in_all } => {
                let in_all = PrivacyLoss::Approximate { epsilon, delta: in_all };
                PrivacyLoss::Heterogeneous(releases)
                    .epsilon(delta, contributions)
                    .min(in_all.epsilon(delta, contributions))
            }
            PrivacyLoss::Equal { epsilon0, k } => composition::optimal(times_m(epsilon0), k, delta),
            PrivacyLoss::Unbounded => f64::INFINITY,
        }
    }

    /// (epsilon, delta) as a report states it: at delta 0 if that costs no more, otherwise at the configured delta.
    pub fn spent(self, delta: f64, contributions: u32) -> (f64, f64) {
        let (pure, approximate) = (self.epsilon(0.0, contributions), self.epsilon(delta, contributions));
        if pure.is_finite() && pure <= approximate { (pure, 0.0) } else { (approximate, delta) }
    }

    /// (epsilon, delta) of all that a unit may ever lose: an approximate loss as it is, another one as a report states it.
    pub(crate) fn stated(self, delta: f64) -> (f64, f64) {
        match self {
            PrivacyLoss::Approximate { epsilon, delta } => (epsilon, delta),
            other => other.spent(delta, 1),
        }
    }

    /// The part that grows with the number of periods: epsilon or rho. Infinite for what no budget admits.
    pub(crate) fn size(self) -> f64 {
        match self {
            PrivacyLoss::Pure(size) | PrivacyLoss::Zcdp(size) | PrivacyLoss::Approximate { epsilon: size, .. } => size,
            _ => f64::INFINITY,
        }
    }

    /// Whether a loss of the same kind is at most this one.
    pub(crate) fn covers(self, other: PrivacyLoss) -> bool {
        let (delta, other_delta) = match (self, other) {
            (PrivacyLoss::Pure(_), PrivacyLoss::Pure(_)) | (PrivacyLoss::Zcdp(_), PrivacyLoss::Zcdp(_)) => (0.0, 0.0),
            (PrivacyLoss::Approximate { delta, .. }, PrivacyLoss::Approximate { delta: other, .. }) => (delta, other),
            _ => return false,
        };
        other.size() <= self.size() && other_delta <= delta
    }

    /// The loss of one user in `periods` periods, from that in one (Theorem U, by a chain of as many neighbours).
    /// `Unbounded` if no bound is known.
    pub(crate) fn of_periods(self, periods: u64) -> PrivacyLoss {
        let Ok(p) = u32::try_from(periods) else { return PrivacyLoss::Unbounded };
        let times_p = |loss: f64| composition::mul_up(loss, p.into());
        match self {
            PrivacyLoss::Pure(epsilon) => PrivacyLoss::Pure(times_p(epsilon)),
            PrivacyLoss::Zcdp(rho) => PrivacyLoss::Zcdp(times_p(times_p(rho))),
            PrivacyLoss::Approximate { epsilon, delta } => {
                let delta = composition::group_delta(epsilon, delta, p);
                PrivacyLoss::Approximate { epsilon: times_p(epsilon), delta }
            }
            one if p == 1 => one,
            _ => PrivacyLoss::Unbounded,
        }
    }
}
