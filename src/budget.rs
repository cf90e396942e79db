//! A privacy budget that handles share: it adds up their losses, and refuses a handle that would exceed it.

use crate::error::{Error, Result, check_positive};
use crate::os::Origin;
use crate::privacy::composition::{add_up, zcdp_to_approximate};
use crate::privacy::{Heterogeneous, PrivacyLoss};
use std::sync::{Arc, Mutex};

/// The maximum privacy loss of one user over all handles that share this budget.
///
/// Pass it in [`Config::budget`](crate::Config::budget). Clones are the same budget.
///
/// **Charges.** A handle is charged when it is created, with everything that it can lose in all its generations (from
/// its creation through all restarts):
/// - its epsilon and delta, for the policies that are (epsilon, delta)-DP;
/// - its epsilon, for the policies that are pure whatever delta is;
/// - its rho, where the noise is Gaussian.
///
/// The charge is the loss of one user, with all `contributions_per_user` rewards. A charge is final, because what the
/// handle has published remains published. [`Bandit::restore_as`](crate::Bandit::restore_as) charges the same amount to
/// the budget of a new process. What the handle published in earlier generations, and what it merges from others, costs
/// nothing more: there is one guarantee for all generations together.
///
/// **A handle without privacy never fits**: a baseline, or a handle that has a test seed or had one in an earlier
/// generation.
///
/// **Periods.** A handle that counts [`expected_users`](crate::Config::expected_users) is charged with what a person
/// may lose in P = [`budget_periods`](crate::Config::budget_periods) periods: P epsilon, P^2 rho, and of an (epsilon,
/// delta) P epsilon and delta (e^(P epsilon) - 1)/(e^epsilon - 1), by a chain of P neighbours (Theorem U of
/// [`crate::privacy`]). Each generation begins a period, and a snapshot counts those that began in all generations.
/// The handle refuses to begin a period beyond P, in [`next_period`](crate::Bandit::next_period) and in a restore.
/// A handle learns only in the first period of a new handle, and in periods that a stored snapshot counts. So all generations
/// together never lose more than the first one was charged, however often the program is killed; `users.rs` in the
/// source has the proof. A restore with another P charges its own budget for all of the new P, because the periods so
/// far are among them.
///
/// **Moves.** [`Bandit::resume`](crate::Bandit::resume) continues a handle that a budget may have charged already. Then
/// the budget charges only the difference: nothing, unless the new P is larger.
///
/// **Composition.** The loss is the minimum of three bounds. Let E and D be the sums over the handles that are
/// (epsilon, delta)-DP. Each bound is E plus one of:
/// - the sum of the epsilons of the pure handles, plus the loss of the Gaussian handles at delta - D;
/// - the loss of all pure and Gaussian handles by zCDP at delta - D, a pure one being epsilon^2/2-zCDP;
/// - if there are no Gaussian handles, the loss of the pure ones by advanced composition at delta - D.
///
/// If all handles are pure and the first bound admits them, you may choose each handle after seeing what the earlier
/// ones published. At delta > 0 you must choose them without (see [`composition`](crate::privacy::composition)).
///
/// Sums may exceed epsilon and delta by a factor of 1 + 2^-40. So ten times 0.1 fits into 1, although the sum of ten
/// such doubles is larger.
///
/// A budget does not survive a fork: in the child every call returns `Poisoned`.
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
    /// The charges, and the origins of the handles that they are for. An origin has one for each restore; what another
    /// system has released has none.
    charges: Mutex<Vec<(Option<u64>, PrivacyLoss)>>,
}

/// Sums of the losses of one user.
#[derive(Clone, Copy, Debug, Default)]
struct Charges {
    pure: Heterogeneous,
    rho: f64,
    epsilon: f64,
    delta: f64,
}

/// The factor by which a sum may exceed the budget.
const ROUNDING: f64 = 1.0 + 1.0 / (1u64 << 40) as f64;

impl Budget {
    /// An unspent budget.
    ///
    /// # Errors
    /// `InvalidConfig` if epsilon is not finite and > 0, or delta is outside `[0, 1)`.
    pub fn new(epsilon: f64, delta: f64) -> Result<Budget> {
        check_positive("epsilon", epsilon)?;
        check_delta(delta)?;
        let charges = Mutex::default();
        Ok(Budget(Arc::new(Shared { epsilon, delta, origin: Origin::here(), charges })))
    }

    /// The epsilon that all handles charged so far may cost one user together, at this delta. Infinite if delta is too
    /// small for them.
    ///
    /// # Errors
    /// `InvalidConfig` if delta is outside `[0, 1)`; `Poisoned` after a fork.
    pub fn spent(&self, delta: f64) -> Result<f64> {
        check_delta(delta)?;
        self.with(|charged| Ok(Charges::of(&*charged).epsilon(delta)))
    }

    /// The largest epsilon of a pure handle that still fits; 0 if none fits.
    ///
    /// # Errors
    /// `Poisoned` after a fork.
    pub fn remaining(&self) -> Result<f64> {
        let Shared { epsilon, delta, .. } = *self.0;
        self.with(|charged| {
            let charges = Charges::of(&*charged);
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

    /// Charges what another system releases about the same people: (epsilon, delta)-DP, for one user with all that they
    /// contribute to it. A charge is final, and a refused one changes nothing. Charge before the release.
    ///
    /// ```
    /// # use dpb::{Budget, Error};
    /// # fn main() -> Result<(), dpb::Error> {
    /// let budget = Budget::new(1.0, 1e-6)?;
    /// budget.charge(0.4, 1e-7)?; // a weekly report of another library
    /// assert_eq!(budget.spent(1e-6)?, 0.4);
    /// assert!(matches!(budget.charge(0.7, 0.0), Err(Error::OverBudget(_))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidConfig` if epsilon is not finite and > 0, or delta is outside `[0, 1)`; `OverBudget`; `Poisoned` after a
    /// fork.
    pub fn charge(&self, epsilon: f64, delta: f64) -> Result<()> {
        check_positive("epsilon", epsilon)?;
        check_delta(delta)?;
        let loss = if delta == 0.0 { PrivacyLoss::Pure(epsilon) } else { PrivacyLoss::Approximate { epsilon, delta } };
        self.add(None, false, loss)
    }

    /// Charges what a handle of this origin may cost one user. If it `continues` a handle from its state, the budget
    /// charges what exceeds that handle's charge; of several handles of the origin, the smallest charge, because nothing
    /// says which one it continues. A refused charge changes nothing.
    ///
    /// # Errors
    /// `OverBudget`; `Poisoned` after a fork.
    pub(crate) fn charge_handle(&self, origin: u64, continues: bool, loss: PrivacyLoss) -> Result<()> {
        if loss == PrivacyLoss::Unbounded {
            return Err(Error::OverBudget(
                "a handle that is not private (a baseline, a test_seed) fits no budget".into(),
            ));
        }
        self.add(Some(origin), continues, loss)
    }

    fn add(&self, origin: Option<u64>, continues: bool, loss: PrivacyLoss) -> Result<()> {
        let Shared { epsilon, delta, .. } = *self.0;
        self.with(|charged| {
            let of_origin = (0..charged.len()).filter(|&at| continues && charged[at].0 == origin);
            let before = of_origin.min_by(|&a, &b| charged[a].1.size().total_cmp(&charged[b].1.size()));
            if before.is_some_and(|at| charged[at].1.covers(loss)) {
                return Ok(());
            }
            charged.try_reserve(1).map_err(|_| Error::NoMemory)?;
            let others = charged.iter().enumerate().filter(|&(at, _)| Some(at) != before);
            let spent = Charges::of(others.map(|(_, charge)| charge)).and(loss).epsilon(delta);
            if spent > epsilon * ROUNDING {
                return Err(Error::over_budget(spent, epsilon, delta));
            }
            match before {
                Some(at) => charged[at].1 = loss,
                None => charged.push((origin, loss)),
            }
            Ok(())
        })
    }

    fn with<T>(&self, body: impl FnOnce(&mut Vec<(Option<u64>, PrivacyLoss)>) -> Result<T>) -> Result<T> {
        self.0.origin.check()?;
        body(&mut *self.0.charges.lock().map_err(|_| Error::Poisoned)?)
    }
}

pub(crate) fn check_delta(delta: f64) -> Result<()> {
    Error::unless((0.0..1.0).contains(&delta), "delta", "must be in [0, 1)", delta)
}

impl Charges {
    fn of<'a>(charged: impl IntoIterator<Item = &'a (Option<u64>, PrivacyLoss)>) -> Charges {
        charged.into_iter().fold(Charges::default(), |sum, &(_, loss)| sum.and(loss))
    }

    /// The charges with one loss added.
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
        // A delta that is spent up to rounding leaves nothing; a delta that is overspent has no finite epsilon.
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
