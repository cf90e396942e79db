//! Budgets: what handles may cost together is a number, and no construction goes beyond it.

use crate::audit::engine::seed;
use dpb::privacy::composition::{approximate_to_zcdp, zcdp_to_approximate};
use dpb::{Algorithm, Bandit, Budget, Config, Error, Pool};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

fn budget(epsilon: f64, delta: f64) -> Budget {
    Budget::new(epsilon, delta).unwrap()
}

fn config(epsilon: f64, delta: f64, budget: &Budget) -> Config {
    Config { delta, horizon: 1000, budget: Some(budget.clone()), ..Config::new(2, epsilon) }
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-6
}

/// Every policy, with and without delta, for one reward a user and for three: what is charged is no less than what its
/// own report says after a while, and no more than what it was configured for.
#[test]
fn what_is_charged_is_what_can_be_lost() {
    for &algorithm in Algorithm::ALL {
        let mut made = 0;
        for (delta, contributions_per_user) in [(0.0, 1), (1e-6, 1), (0.0, 3), (1e-6, 3)] {
            let budget = budget(2.0, 1e-6);
            let config = Config {
                contributions_per_user,
                test_seed: Some(seed(2)),
                base: Algorithm::NonprivateUcb1 as u32,
                ..config(0.9, delta, &budget)
            };
            let bandit = match Bandit::new(algorithm, &config) {
                Ok(bandit) => bandit,
                Err(error) => {
                    let baseline = algorithm.name().starts_with("nonprivate");
                    assert_eq!(baseline, matches!(error, Error::OverBudget(_)), "{}: {error}", algorithm.name());
                    assert_eq!(budget.spent(0.0), Ok(0.0));
                    continue;
                }
            };
            made += 1;
            for _ in 0..1000 {
                let decision = bandit.select().unwrap();
                bandit.update(decision.ticket, 1.0).unwrap();
            }
            for at in [0.0, 1e-7, 1e-6, 1e-3] {
                let (charged, lost) = (budget.spent(at).unwrap(), bandit.epsilon_spent(at).unwrap());
                // What is infinite at a delta that is too small, is more than it may have lost by luck.
                assert!(
                    lost <= charged * (1.0 + 1e-9) || at < delta,
                    "{} {delta} at {at}: {lost} {charged}",
                    algorithm.name()
                );
            }
            let charged = budget.spent(1e-6).unwrap();
            assert!(charged > 0.8 && charged <= 0.9, "{} {delta}: {charged}", algorithm.name());
            assert_eq!(budget.spent(0.0) == Ok(0.9), budget.spent(0.0).unwrap().is_finite());
        }
        assert_eq!(made > 0, !algorithm.name().starts_with("nonprivate"), "{}", algorithm.name());
    }
}

/// Epsilons, rhos, and both; deltas; and what many small ones cost.
#[test]
fn losses_add_up() {
    let full = |error: Result<Bandit, Error>| matches!(error, Err(Error::OverBudget(_)));
    let (imed, tau) = (Algorithm::Imed, Algorithm::Exp3Tau);

    let all = budget(1.0, 1e-6);
    Bandit::new(imed, &config(0.5, 0.0, &all)).unwrap();
    Bandit::new(imed, &config(0.5, 1e-6, &all)).unwrap(); // at the budget's delta they fit both
    assert!(near(all.spent(1e-6).unwrap(), 1.0) && all.spent(0.0) == Ok(f64::INFINITY));
    assert!(full(Bandit::new(imed, &config(1e-3, 0.0, &all))) && all.remaining().unwrap() < 1e-6);

    // Two that are private by Gaussian noise: rho twice, which is less than epsilon twice.
    let rho = approximate_to_zcdp(1.0, 1e-6, 1);
    let both = zcdp_to_approximate(2.0 * rho, 1e-6);
    let two = budget(both * 1.001, 1e-6);
    Bandit::new(Algorithm::Med, &config(1.0, 1e-6, &two)).unwrap();
    Bandit::new(Algorithm::Ts, &config(1.0, 1e-6, &two)).unwrap();
    assert!(near(two.spent(1e-6).unwrap(), both) && both < 1.5);
    assert!(full(Bandit::new(imed, &config(0.1, 1e-6, &two))));

    // Deltas add up beside epsilons; what they leave is the Gaussian ones'.
    let mixed = budget(3.0, 2e-6);
    Bandit::new(tau, &config(1.0, 1e-6, &mixed)).unwrap();
    Bandit::new(imed, &config(0.5, 1e-6, &mixed)).unwrap();
    let left = zcdp_to_approximate(approximate_to_zcdp(0.5, 1e-6, 1), 1e-6);
    assert!(near(mixed.spent(2e-6).unwrap(), 1.0 + left) && mixed.spent(0.9e-6) == Ok(f64::INFINITY));
    assert!(full(Bandit::new(tau, &config(0.1, 1e-6, &mixed)))); // it would leave no delta for the noise
    assert!(full(Bandit::new(tau, &config(0.1, 2e-6, &mixed))));
    let deltas = budget(1.0, 1e-6);
    (0..10).for_each(|_| drop(Bandit::new(tau, &config(0.1, 1e-7, &deltas)).unwrap()));
    assert!(near(deltas.spent(1e-6).unwrap(), 1.0));

    // A thousand small ones cost far less at some delta than their sum, and no budget without one has room for them.
    let (many, pure) = (budget(1.0, 1e-6), budget(1.0, 0.0));
    let admitted = |budget| (0..1000).filter(|_| Bandit::new(imed, &config(0.005, 0.0, budget)).is_ok()).count();
    assert_eq!((admitted(&many), admitted(&pure)), (1000, 200));
    let together = zcdp_to_approximate(1000.0 * 0.005f64.powi(2) / 2.0, 1e-6);
    assert!(near(many.spent(1e-6).unwrap(), together) && near(many.spent(0.0).unwrap(), 5.0));
    // Exactly what is left fits, and no more.
    let left = many.remaining().unwrap();
    assert!(left > 0.05 && full(Bandit::new(imed, &config(left * 1.001, 0.0, &many))));
    Bandit::new(imed, &config(left, 0.0, &many)).unwrap();
}

/// Whatever else is wrong costs nothing; a pool is charged as one handle; a clone is the same budget.
#[test]
fn only_what_is_made_is_charged() {
    let budget = budget(1.0, 0.0);
    let with = |change: fn(&mut Config)| {
        let mut config = config(0.6, 0.0, &budget);
        change(&mut config);
        config
    };
    assert!(Pool::new(&with(|c| c.arms = 1), 5).is_err() && Pool::new(&with(|_| ()), 0).is_err());
    assert!(Pool::new(&with(|c| c.delta = 1e-6), 5).is_err_and(|error| matches!(error, Error::OverBudget(_))));
    assert!(Bandit::new(Algorithm::Imed, &with(|c| c.epsilon = 1e300)).is_err());
    assert_eq!(budget.clone().spent(0.0), Ok(0.0));
    let pool = Pool::new(&with(|_| ()), 5).unwrap();
    assert_eq!((budget.spent(0.0), budget.remaining()), (Ok(0.6), Ok(0.4)));
    assert!(Pool::new(&with(|_| ()), 5).is_err());
    let snapshot = pool.snapshot().unwrap();
    Pool::restore(&snapshot).unwrap();
    assert_eq!(budget.spent(0.0), Ok(0.6));
    // A life that a budget is named for is charged to it.
    let over = Pool::restore_as(&with(|_| ()), 5, &snapshot);
    assert!(over.is_err_and(|error| matches!(error, Error::OverBudget(_))));
    let another = self::budget(1.0, 0.0);
    Pool::restore_as(&Config { budget: Some(another.clone()), ..with(|_| ()) }, 5, &snapshot).unwrap();
    assert_eq!((budget.spent(0.0), another.spent(0.0)), (Ok(0.6), Ok(0.6)));
    // Each period costs epsilon anew, in this life and in the next.
    let budget = self::budget(9.0, 0.0);
    let counted = Config { users: 10, ..config(1.0, 0.0, &budget) };
    let bytes = Bandit::new(Algorithm::Imed, &Config { budget: None, ..counted.clone() }).unwrap().snapshot().unwrap();
    for counted in [Bandit::new(Algorithm::Imed, &counted), Bandit::restore_as(Algorithm::Imed, &counted, &bytes)] {
        assert!(matches!(counted, Err(Error::InvalidConfig { field: "users", .. })));
    }
    assert_eq!(budget.spent(0.0), Ok(0.0));
}

/// Threads that all want a tenth at once: ten get it, every time.
#[test]
fn two_at_once_never_overspend() {
    for _ in 0..30 {
        let (budget, start, made) = (budget(1.0, 0.0), Barrier::new(16), AtomicU32::new(0));
        let config = config(0.1, 0.0, &budget);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    start.wait();
                    match Bandit::new(Algorithm::Imed, &config) {
                        Ok(_) => _ = made.fetch_add(1, Ordering::Relaxed),
                        Err(error) => assert!(matches!(error, Error::OverBudget(_)), "{error}"),
                    }
                });
            }
        });
        assert!(made.into_inner() == 10 && (budget.spent(0.0).unwrap() - 1.0).abs() < 1e-9);
    }
}
