//! A privacy budget that handles share: "losses add up" as a number, and as a refusal.

use crate::error::{Error, Result};
use crate::os::Origin;
use crate::privacy::composition::{add_up, zcdp_to_approximate};
use crate::privacy::{Heterogeneous, PrivacyLoss};
use std::sync::{Arc, Mutex};

/// What the handles that are made with it in [`Config::budget`](crate::Config::budget) may cost one user together. Clones
/// are one budget.
///
/// A handle is charged when it is made, with all that it can lose in its life: its epsilon and delta for the policies that
/// are (epsilon, delta)-DP, its epsilon for those that are pure whatever delta is, and its rho where the noise is Gaussian.
/// `contributions_per_user` is in that: it is what one user loses, with all rewards that the configuration grants. A
/// charge is final, whatever becomes of the handle, because what it has published stays. What a handle has published in
/// earlier lives, and others have that it merges, costs no more: [`Bandit::restore_as`](crate::Bandit::restore_as) charges
/// the same, for a process that is new; it is one guarantee for all lives together.
///
/// **What has no privacy never fits**: a baseline, and a handle that has a test seed, or had one in an earlier life.
///
/// **Periods.** A handle that counts [`expected_users`](crate::Config::expected_users) is charged with what a person may lose in
/// P = [`budget_periods`](crate::Config::budget_periods) periods: P epsilon, P^2 rho, and of an (epsilon, delta)
/// P epsilon and delta (e^(P epsilon) - 1)/(e^epsilon - 1), by a chain of P neighbours (Theorem U of
/// [`crate::privacy`]). Each life begins a period, and a snapshot counts those that began in all lives. The handle
/// refuses to begin one beyond P, in [`next_period`](crate::Bandit::next_period) and in a restore; nobody is learned from
/// in a period that is not in the newest snapshot, where there is one. So all its lives together never lose more than what
/// the first one was charged, however often the program is killed: the proof is in the source, in `users.rs`. A
/// restore that says another P charges its own budget for all of the new P, because the periods so far are among them.
///
/// **Composition.** The least of three bounds, with E and D the sums over handles that are (epsilon, delta)-DP: E plus
/// - what pure handles lose together, and what the Gaussian ones do at delta - D;
/// - what all these do by zCDP at delta - D, a pure one being epsilon^2/2-zCDP;
/// - where there are no Gaussian ones, what the pure ones do by advanced composition at delta - D.
///
/// Where all handles are pure and the first bound is what admits them, each may be chosen by looking at what those
/// before have published. At delta > 0 they must be chosen without (see [`composition`](crate::privacy::composition)).
///
/// Sums may be above epsilon and delta by their 2^-40th part: ten times 0.1 fits into 1, though that many doubles are more.
///
/// It does not survive a fork: in the child every call is `Poisoned`.
///
/// ```
/// # use dpb::{Algorithm, Bandit, Budget, Config, Error};
/// # fn main() -> Result<(), dpb::Error> {
/// let budget = Budget::new(1.0, 0.0)?;
/// let config = Config { budget: Some(budget.clone()), ..Config::new(10, 0.6) };
/// let ads = Bandit::new(Algorithm::RECOMMENDED, &config)?;
/// assert_eq!(budget.spent(0.0)?, 0.6);
/// // A second handle that sees the same people would exceed it.
/// assert!(matches!(Bandit::new(Algorithm::RECOMMENDED, &config), Err(Error::OverBudget(_))));
/// # drop(ads);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    epsilon: f64,
    delta: f64,
    origin: Origin,
    charges: Mutex<Charges>,
}

/// Of one user.
#[derive(Clone, Copy, Debug, Default)]
struct Charges {
    pure: Heterogeneous,
    rho: f64,
    epsilon: f64,
    delta: f64,
}

/// What sums may be off by, as a factor.
const ROUNDING: f64 = 1.0 + 1.0 / (1u64 << 40) as f64;

impl Budget {
    /// A budget of this epsilon and delta.
    ///
    /// # Errors
    /// `InvalidConfig` for an epsilon that is not finite and > 0, a delta outside `[0, 1)`.
    pub fn new(epsilon: f64, delta: f64) -> Result<Budget> {
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return Err(Error::config("epsilon", "must be finite and > 0", epsilon));
        }
        check_delta(delta)?;
        let charges = Mutex::new(Charges::default());
        Ok(Budget(Arc::new(Shared { epsilon, delta, origin: Origin::here(), charges })))
    }

    /// What the handles charged so far may cost one user together, at this delta: infinite if it is too small for them.
    ///
    /// # Errors
    /// `InvalidConfig` for a delta outside `[0, 1)`; `Poisoned` after a fork.
    pub fn spent(&self, delta: f64) -> Result<f64> {
        check_delta(delta)?;
        self.with(|charges| Ok(charges.epsilon(delta)))
    }

    /// The largest epsilon of a pure handle that still fits, 0 if none does.
    ///
    /// # Errors
    /// `Poisoned` after a fork.
    pub fn remaining(&self) -> Result<f64> {
        let Shared { epsilon, delta, .. } = *self.0;
        self.with(|charges| {
            let fits = |more: f64| charges.and(PrivacyLoss::Pure(more)).epsilon(delta) <= epsilon;
            if fits(epsilon) {
                return Ok(epsilon);
            }
            let (mut low, mut high) = (0.0, epsilon);
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                if fits(middle) { low = middle } else { high = middle }
            }
            Ok(low)
        })
    }

    /// Takes what a handle may cost one user, or nothing.
    ///
    /// # Errors
    /// `OverBudget`; `Poisoned` after a fork.
    pub(crate) fn charge(&self, loss: PrivacyLoss) -> Result<()> {
        if loss == PrivacyLoss::Unbounded {
            return Err(Error::OverBudget(
                "a handle that is not private (a baseline, a test_seed) fits no budget".into(),
            ));
        }
        let Shared { epsilon, delta, .. } = *self.0;
        self.with(|charges| {
            let after = charges.and(loss);
            let spent = after.epsilon(delta);
            if spent > epsilon * ROUNDING {
                return Err(Error::over_budget(spent, epsilon, delta));
            }
            *charges = after;
            Ok(())
        })
    }

    fn with<T>(&self, body: impl FnOnce(&mut Charges) -> Result<T>) -> Result<T> {
        self.0.origin.check()?;
        body(&mut *self.0.charges.lock().map_err(|_| Error::Poisoned)?)
    }
}

fn check_delta(delta: f64) -> Result<()> {
    if (0.0..1.0).contains(&delta) { Ok(()) } else { Err(Error::config("delta", "must be in [0, 1)", delta)) }
}

impl Charges {
    /// With this loss of one user more.
    fn and(mut self, loss: PrivacyLoss) -> Charges {
        match loss {
            PrivacyLoss::Pure(epsilon) => self.pure.add(epsilon),
            PrivacyLoss::Zcdp(rho) => self.rho = add_up(self.rho, rho),
            PrivacyLoss::Approximate { epsilon, delta } => {
                (self.epsilon, self.delta) = (add_up(self.epsilon, epsilon), add_up(self.delta, delta));
            }
            _ => self.epsilon = f64::INFINITY,
        }
        self
    }

    fn epsilon(&self, delta: f64) -> f64 {
        // All of it is spent, but for rounding, or more.
        let left = match self.delta {
            0.0 => delta,
            spent if spent > delta * ROUNDING => return f64::INFINITY,
            spent if spent * ROUNDING > delta => 0.0,
            spent => (delta - spent).next_down(),
        };
        let apart = add_up(self.pure.basic(), zcdp_to_approximate(self.rho, left));
        let together = zcdp_to_approximate(add_up(self.rho, self.pure.rho()), left);
        let pure = if self.rho == 0.0 { self.pure.epsilon(left) } else { f64::INFINITY };
        add_up(self.epsilon, apart.min(together).min(pure))
    }
}
