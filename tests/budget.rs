//! Budgets: the privacy loss of several handles together is computed, and no constructor exceeds the budget.

use crate::audit::engine::seed;
use crate::support::requests::{Ask, fitted, of_user, store};
use dpb::privacy::composition::{approximate_to_zcdp, zcdp_to_approximate};
use dpb::{Algorithm, Bandit, Budget, Config, Error, Request};
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

/// Every policy, with and without delta, for one and for three rewards of a user: the charge is at least what its
/// report says after a while, and at most what it was configured for.
#[test]
fn the_charge_covers_the_loss() {
    for &algorithm in Algorithm::ALL {
        let mut made = 0;
        for (delta, contributions_per_user) in [(0.0, 1), (1e-6, 1), (0.0, 3), (1e-6, 3)] {
            let budget = budget(2.0, 1e-6);
            let config = Config {
                contributions_per_user,
                base: Algorithm::NonprivateUcb1 as u32,
                ..config(0.9, delta, &budget)
            };
            let config = fitted(algorithm, config);
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
                let decision = bandit.ask().unwrap();
                bandit.update(decision.ticket, 1.0).unwrap();
            }
            for at in [0.0, 1e-7, 1e-6, 1e-3] {
                let (charged, lost) = (budget.spent(at).unwrap(), bandit.epsilon_spent(at).unwrap());
                // At a delta below the configured one, the reported loss may be infinite.
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

/// Sums of epsilons, of rhos, and of both with deltas; and the sum of many small losses.
#[test]
fn losses_add_up() {
    let full = |error: Result<Bandit, Error>| matches!(error, Err(Error::OverBudget(_)));
    let (imed, tau) = (Algorithm::Imed, Algorithm::Exp3Tau);

    let all = budget(1.0, 1e-6);
    Bandit::new(imed, &config(0.5, 0.0, &all)).unwrap();
    Bandit::new(imed, &config(0.5, 1e-6, &all)).unwrap(); // at the budget's delta both fit
    assert!(near(all.spent(1e-6).unwrap(), 1.0) && all.spent(0.0) == Ok(f64::INFINITY));
    assert!(full(Bandit::new(imed, &config(1e-3, 0.0, &all))) && all.remaining().unwrap() < 1e-6);

    // Two handles with Gaussian noise: twice rho costs less than twice epsilon.
    let rho = approximate_to_zcdp(1.0, 1e-6, 1);
    let both = zcdp_to_approximate(2.0 * rho, 1e-6);
    let two = budget(both * 1.001, 1e-6);
    Bandit::new(Algorithm::Med, &config(1.0, 1e-6, &two)).unwrap();
    Bandit::new(Algorithm::Imed, &config(1.0, 1e-6, &two)).unwrap();
    assert!(near(two.spent(1e-6).unwrap(), both) && both < 1.5);
    assert!(full(Bandit::new(imed, &config(0.1, 1e-6, &two))));

    // Deltas of the configurations are subtracted from the budget's; the rest is available to Gaussian noise.
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

    // With a delta, a thousand small losses cost far less than their sum. A budget without a delta refuses them.
    let (many, pure) = (budget(1.0, 1e-6), budget(1.0, 0.0));
    let admitted = |budget| (0..1000).filter(|_| Bandit::new(imed, &config(0.005, 0.0, budget)).is_ok()).count();
    assert_eq!((admitted(&many), admitted(&pure)), (1000, 200));
    let together = zcdp_to_approximate(1000.0 * 0.005f64.powi(2) / 2.0, 1e-6);
    assert!(near(many.spent(1e-6).unwrap(), together) && near(many.spent(0.0).unwrap(), 5.0));
    // A handle that costs exactly the remainder is accepted, and a more expensive one is refused.
    let left = many.remaining().unwrap();
    assert!(left > 0.05 && full(Bandit::new(imed, &config(left * 1.001, 0.0, &many))));
    Bandit::new(imed, &config(left, 0.0, &many)).unwrap();
}

/// Other errors charge nothing. All segments are charged as one handle. A clone is the same budget.
#[test]
fn failed_constructors_charge_nothing() {
    let budget = budget(1.0, 0.0);
    let with = |change: fn(&mut Config)| {
        let mut config = Config { max_segments: 5, ..config(0.6, 0.0, &budget) };
        change(&mut config);
        config
    };
    let made = |config: Config| Bandit::new(Algorithm::Imed, &config);
    for wrong in [with(|c| c.arms = 1), with(|c| c.max_segments = 1 << 30), with(|c| c.epsilon = 1e300)] {
        assert!(matches!(made(wrong), Err(Error::InvalidConfig { .. })));
    }
    assert!(made(with(|c| c.delta = 1e-6)).is_err_and(|error| matches!(error, Error::OverBudget(_))));
    assert_eq!(budget.clone().spent(0.0), Ok(0.0));
    let bandit = made(with(|_| ())).unwrap();
    assert_eq!((budget.spent(0.0), budget.remaining()), (Ok(0.6), Ok(0.4)));
    assert!(made(with(|_| ())).is_err());
    let snapshot = bandit.snapshot().unwrap();
    Bandit::restore(&snapshot).unwrap();
    assert_eq!(budget.spent(0.0), Ok(0.6));
    // Restoring a handle with a budget charges it.
    let over = Bandit::restore_as(Algorithm::Imed, &with(|_| ()), &snapshot);
    assert!(over.is_err_and(|error| matches!(error, Error::OverBudget(_))));
    let another = self::budget(1.0, 0.0);
    let config = Config { budget: Some(another.clone()), ..with(|_| ()) };
    Bandit::restore_as(Algorithm::Imed, &config, &snapshot).unwrap();
    assert_eq!((budget.spent(0.0), another.spent(0.0)), (Ok(0.6), Ok(0.6)));
}

/// A handle with a test seed is not private, before or after a restart.
#[test]
fn a_budget_refuses_a_test_seed() {
    for max_segments in [0, 1] {
        let budget = budget(9.0, 0.0);
        let plain = Config { max_segments, ..Config::new(2, 1.0) };
        let seeded = Config { test_seed: Some(seed(1)), ..plain.clone() };
        let charged = |config: &Config| Config { budget: Some(budget.clone()), ..config.clone() };
        let of = |config: &Config| Bandit::new(Algorithm::Imed, config).and_then(|bandit| bandit.snapshot());
        let (private, not) = (of(&plain).unwrap(), of(&seeded).unwrap());
        for refused in [of(&charged(&seeded)).err(), Bandit::restore_as(Algorithm::Imed, &charged(&plain), &not).err()]
        {
            let says = refused.unwrap();
            assert!(matches!(says, Error::OverBudget(_)) && says.to_string().contains("test_seed"), "{says}");
        }
        assert_eq!(budget.spent(0.0), Ok(0.0));
        // Restoring ignores the test seed of the configuration.
        let restored = Bandit::restore_as(Algorithm::Imed, &charged(&seeded), &private).unwrap();
        assert!(restored.report().unwrap().is_private);
        assert_eq!(budget.spent(0.0), Ok(1.0));
    }
}

/// Each period costs another epsilon, before and after a restart, so a budget needs the number of periods.
#[test]
fn a_budget_is_charged_for_all_periods() {
    for (max_segments, max_slots) in [(0, 0), (1, 0), (0, 2)] {
        let budget = budget(9.0, 0.0);
        let counted = Config { expected_users: 10, max_segments, max_slots, ..config(1.0, 0.0, &budget) };
        let unbudgeted = Config { budget: None, ..counted.clone() };
        let bytes = Bandit::new(Algorithm::Imed, &unbudgeted).unwrap().snapshot().unwrap();
        for refused in [
            Bandit::new(Algorithm::Imed, &counted).err(),
            Bandit::new(Algorithm::Imed, &Config { expected_users: 0, budget_periods: 1, ..counted.clone() }).err(),
            Bandit::new(Algorithm::Imed, &Config { expected_users: 0, budget_periods: 1, ..unbudgeted }).err(),
            Bandit::restore_as(Algorithm::Imed, &counted, &bytes).err(),
        ] {
            assert!(matches!(refused, Some(Error::InvalidConfig { field: "budget_periods", .. })), "{refused:?}");
        }
        let over = Config { budget_periods: 10, ..counted.clone() };
        assert!(matches!(Bandit::new(Algorithm::Imed, &over), Err(Error::OverBudget(_))));
        assert_eq!(budget.spent(0.0), Ok(0.0));
        Bandit::new(Algorithm::Imed, &Config { budget_periods: 4, ..counted }).unwrap();
        assert_eq!((budget.spent(0.0), budget.remaining()), (Ok(4.0), Ok(5.0)));
    }
}

/// Every policy that supports users, with and without delta, with several slots and in segments. The charge for a
/// number of periods is at least what the report says after them, and little more. Then no further period begins,
/// before or after a restart.
#[test]
fn no_handle_exceeds_its_periods() {
    const P: u32 = 3;
    const DELTA: f64 = 1e-6;
    for &algorithm in Algorithm::ALL {
        let kinds = [(0.0, 1), (DELTA, 1), (0.0, 2), (DELTA, 2)];
        let kinds = kinds.into_iter().flat_map(|kind| [(kind, 0, 0), (kind, 2, 0), (kind, 0, 1)]);
        for ((delta, contributions_per_user), max_slots, max_segments) in kinds {
            let budget = budget(20.0, 1e-3);
            let config = Config {
                contributions_per_user,
                expected_users: 1000,
                budget_periods: P,
                max_slots,
                max_segments,
                base: Algorithm::NonprivateUcb1 as u32,
                ..config(0.9, delta, &budget)
            };
            let config = fitted(algorithm, config);
            let Ok(mut bandit) = Bandit::new(algorithm, &config) else { continue };
            let charged = budget.spent(1e-3).unwrap();
            let saves = bandit.snapshot().is_ok();
            for period in 1..=P {
                for user in 0..200 {
                    let request = Request { slots: max_slots.max(1), ..of_user(user) };
                    let mut tickets = Vec::new();
                    bandit.ask_slots(&request, |_, decision| tickets.push(decision.ticket)).unwrap();
                    tickets.into_iter().for_each(|ticket| bandit.update(ticket, 1.0).unwrap());
                }
                let lost = bandit.epsilon_spent(1e-3).unwrap();
                assert!(lost <= charged * (1.0 + 1e-9), "{} {delta} {period}: {lost} {charged}", algorithm.name());
                let another = if saves && period == P - 1 {
                    // A restored handle is one of the periods, and is not charged again.
                    Bandit::restore(&bandit.snapshot().unwrap()).map(|next| bandit = next)
                } else {
                    bandit.next_period()
                };
                assert_eq!(matches!(another, Err(Error::OverBudget(_))), period == P, "{another:?}");
                assert!(!saves || bandit.snapshot().is_ok_and(|snapshot| bandit.stored(&snapshot).is_ok()));
            }
            let pure = budget.spent(0.0).unwrap();
            assert!(
                charged > 0.9 && (delta > 0.0 || (charged <= 2.7 * (1.0 + 1e-9) && pure >= 2.7)),
                "{charged} {pure}"
            );
            if !saves {
                continue;
            }
            let last = bandit.snapshot().unwrap();
            assert!(matches!(Bandit::restore(&last), Err(Error::OverBudget(_))));
            // Another process charges all periods again, and may allow more of them.
            let anew = |budget_periods| {
                let budget = self::budget(20.0, 1e-3);
                let config = Config { budget_periods, budget: Some(budget.clone()), ..config.clone() };
                Bandit::restore_as(algorithm, &config, &last).map(|_| budget.spent(1e-3).unwrap())
            };
            assert!(matches!(anew(P), Err(Error::OverBudget(_))));
            assert!(anew(P + 1).unwrap() >= charged, "{}", algorithm.name());
        }
    }
}

/// A budget of three periods, and a service that is killed twenty times: it serves in three runs, whatever it tries.
#[test]
fn a_handle_that_is_restored_many_times_stays_within_its_budget() {
    let budget = budget(3.0, 0.0);
    let config = Config { expected_users: 1000, budget_periods: 3, max_segments: 1, ..config(1.0, 0.0, &budget) };
    let mut bandit = Bandit::new(Algorithm::Imed, &config).unwrap();
    let (mut disk, mut heard) = (None::<Vec<u8>>, 0);
    for generation in 0..20 {
        if let Some(bytes) = &disk {
            match Bandit::restore(bytes) {
                Ok(next) => bandit = next,
                Err(error) => {
                    assert!(matches!(error, Error::OverBudget(_)) && heard == 3, "{generation}: {error}");
                    continue;
                }
            }
        }
        disk = Some(store(&bandit));
        let before = bandit.report().unwrap().phase;
        (0..200).for_each(|user| bandit.update(bandit.select_for(&of_user(user)).unwrap().ticket, 1.0).unwrap());
        heard += u32::from(bandit.report().unwrap().phase > before);
        assert!(bandit.report().unwrap().epsilon_spent <= 3.0);
    }
    assert_eq!((heard, budget.spent(0.0)), (3, Ok(3.0)));
}

/// A resumed handle goes on with the charge of the suspended one, however that was made, and pays for more periods.
#[test]
fn a_resumed_handle_is_charged_the_difference() {
    let moved = |bandit: &Bandit, config: &Config| Bandit::resume(None, config, &bandit.suspend(0).unwrap());
    for (delta, window) in [(0.0, 0), (1e-6, 0), (0.0, 20)] {
        let config = |periods, budget: &Budget| Config {
            expected_users: 100,
            budget_periods: periods,
            reward_window: window,
            fleet_key: Some([7; 32].into()),
            ..config(1.0, delta, budget)
        };
        let cost = |periods| {
            let alone = budget(1e9, 1e-3);
            Bandit::new(Algorithm::Imed, &config(periods, &alone)).unwrap();
            alone.spent(1e-3).unwrap()
        };
        // No budget admits fifty periods after one.
        let most = budget(cost(3), 1e-3);
        let first = Bandit::new(Algorithm::Imed, &config(1, &most)).unwrap();
        let state = first.suspend(0).unwrap();
        for periods in [4, 50] {
            let refused = Bandit::resume(None, &config(periods, &most), &state).err();
            assert!(matches!(refused, Some(Error::OverBudget(_))), "{periods}: {refused:?}");
            assert_eq!(most.spent(1e-3).unwrap(), cost(1));
        }
        let mut bandit = Bandit::resume(None, &config(3, &most), &state).unwrap();
        assert_eq!(most.spent(1e-3).unwrap(), cost(3));
        for periods in [1, 3, 2] {
            bandit.claimed().unwrap();
            bandit = moved(&bandit, &config(periods, &most)).unwrap();
            assert_eq!(most.spent(1e-3).unwrap(), cost(3), "what may have been spent stays charged");
        }
        bandit.claimed().unwrap();
        assert!(moved(&bandit, &config(4, &most)).is_err());

        // After a restore in another process, whose budget has the charge from there.
        let snapshot = Bandit::new(Algorithm::Imed, &config(1, &budget(1e9, 1e-3))).unwrap().snapshot().unwrap();
        let next = budget(1.5 * cost(2), 1e-3);
        let mut bandit = Bandit::restore_as(Algorithm::Imed, &config(2, &next), &snapshot).unwrap();
        for _ in 0..3 {
            assert_eq!(next.spent(1e-3).unwrap(), cost(2));
            bandit = moved(&bandit, &config(2, &next)).unwrap();
            bandit.claimed().unwrap();
        }
        // Another handle that is restored is a charge of its own, and no handle that is resumed hides behind it.
        let both = budget(cost(2) + cost(3) * 1.001, 0.0);
        if delta > 0.0 {
            continue; // two Gaussian handles cost less than their sum
        }
        let [small, large] =
            [2, 3].map(|periods| Bandit::restore_as(Algorithm::Imed, &config(periods, &both), &snapshot));
        assert_eq!(both.spent(0.0).unwrap(), 5.0);
        large.unwrap().snapshot().unwrap();
        let small = small.unwrap().suspend(0).unwrap();
        assert!(Bandit::resume(None, &config(4, &both), &small).is_err());
        assert_eq!(Bandit::resume(None, &config(2, &both), &small).map(drop), Ok(()));
        assert_eq!(both.spent(0.0).unwrap(), 5.0);
    }
}

/// Several threads request a tenth at once: ten requests succeed, every time.
#[test]
fn concurrent_constructors_never_overspend() {
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

/// Releases of other systems are charged like handles, before or after them, and a refused charge changes nothing.
#[test]
fn other_systems_are_charged() {
    let shared = budget(1.0, 1e-6);
    shared.charge(0.3, 0.0).unwrap();
    let _ads = Bandit::new(Algorithm::Imed, &config(0.4, 0.0, &shared)).unwrap();
    shared.charge(0.2, 5e-7).unwrap();
    assert!(near(shared.spent(1e-6).unwrap(), 0.9) && shared.spent(0.0).unwrap().is_infinite());
    for (epsilon, delta) in [(0.2, 0.0), (0.05, 6e-7)] {
        assert!(matches!(shared.charge(epsilon, delta), Err(Error::OverBudget(_))), "{epsilon} {delta}");
    }
    for (epsilon, delta) in [(0.0, 0.0), (-1.0, 0.0), (f64::NAN, 0.0), (f64::INFINITY, 0.0), (0.1, 1.0), (0.1, -0.1)] {
        assert!(matches!(shared.charge(epsilon, delta), Err(Error::InvalidConfig { .. })), "{epsilon} {delta}");
    }
    assert!(near(shared.spent(1e-6).unwrap(), 0.9));
    shared.charge(0.1, 0.0).unwrap();
    assert!(shared.remaining().unwrap() < 1e-9);

    // A pure budget admits no delta.
    let pure = budget(1.0, 0.0);
    assert!(matches!(pure.charge(0.1, 1e-9), Err(Error::OverBudget(_))));
    assert_eq!(pure.spent(0.0), Ok(0.0));
}
