//! The accountant is never below the true loss, and little above it.

use dpb::privacy::PrivacyLoss;
use dpb::privacy::composition::{
    Heterogeneous, bounded_range_to_zcdp, delta_share, group_delta, optimal, zcdp_to_approximate,
};

fn composed(epsilons: impl IntoIterator<Item = f64>) -> Heterogeneous {
    let mut releases = Heterogeneous::default();
    epsilons.into_iter().for_each(|epsilon| releases.add(epsilon));
    releases
}

/// delta(epsilon) of k randomised responses, over all 2^k outcomes of the pair of worlds.
fn true_delta(epsilons: &[f64], epsilon: f64) -> f64 {
    (0u32..1 << epsilons.len())
        .map(|lies| {
            let (mut here, mut there) = (1.0, 1.0);
            for (i, e) in epsilons.iter().enumerate() {
                let (truth, lie) = (1.0 / (1.0 + (-e).exp()), 1.0 / (1.0 + e.exp()));
                let lied = lies >> i & 1 == 1;
                here *= if lied { lie } else { truth };
                there *= if lied { truth } else { lie };
            }
            (here - epsilon.exp() * there).max(0.0)
        })
        .sum()
}

#[test]
fn optimal_composition_agrees_with_the_reference() {
    let mut rows = 0;
    for line in include_str!("data/composition.csv").lines().filter(|line| !line.starts_with(['#', 'e'])) {
        let row: Vec<f64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        let &[epsilon0, k, delta, reference] = row.as_slice() else { panic!("{line}") };
        let ours = optimal(epsilon0, k as u64, delta);
        assert!(ours >= reference * (1.0 - 1e-7) && ours <= reference * (1.0 + 1e-6), "{line}: {ours}");
        // No other bound is below the optimum.
        let other = composed((0..k as u64).map(|_| epsilon0));
        assert!(other.epsilon(delta) >= reference * (1.0 - 1e-7), "{line}");
        rows += 1;
    }
    assert_eq!(rows, 23);
}

#[test]
fn optimal_composition_is_the_truth_at_small_sizes() {
    for k in 1..=12 {
        for epsilon0 in [0.01, 0.3, 1.0, 4.0] {
            for delta in [1e-9, 1e-4, 0.05, 0.5] {
                let epsilon = optimal(epsilon0, k, delta);
                let all = vec![epsilon0; k as usize];
                assert!(true_delta(&all, epsilon) <= delta, "{k} {epsilon0} {delta}");
                assert!(
                    epsilon == 0.0 || true_delta(&all, epsilon * (1.0 - 1e-7)) >= delta * (1.0 - 1e-8),
                    "{k} {epsilon0} {delta}"
                );
            }
        }
    }
}

#[test]
fn heterogeneous_bounds_hold_for_unequal_randomised_responses() {
    let releases: Vec<f64> = (1..=16).map(|n| f64::from(n).powf(-0.55)).collect();
    let sums = composed(releases.iter().copied());
    for delta in [1e-12, 1e-6, 1e-3, 0.1, 0.5] {
        for epsilon in [sums.advanced(delta), sums.epsilon(delta)] {
            assert!(true_delta(&releases, epsilon) <= delta, "{delta}");
        }
    }
    // The bounds are not idle: the drift without the deviation would be a false claim.
    assert!(true_delta(&releases, sums.advanced(1.0)) > 0.1);
    assert!(sums.epsilon(0.1) < 0.9 * sums.basic());
    assert_eq!(sums.epsilon(0.0), sums.basic());
    // A group of three loses at most what releases of three times the losses do.
    let triple = composed(releases.iter().map(|e| 3.0 * e));
    for delta in [0.0, 1e-6, 0.1] {
        let (group, direct) = (sums.group(3).epsilon(delta), triple.epsilon(delta));
        assert!(group >= direct * (1.0 - 1e-14) && group <= direct * 2.0, "{group} {direct}");
    }
}

#[test]
fn advanced_composition_by_hand() {
    let sums = composed((0..10_000).map(|_| 0.01));
    // 10000 * 0.01 tanh(0.005) + sqrt(2 ln(1e6))
    assert!((sums.advanced(1e-6) / 5.7565176031 - 1.0).abs() < 1e-7, "{}", sums.advanced(1e-6));
    assert!((sums.basic() / 100.0 - 1.0).abs() < 1e-12 && sums.basic() >= 100.0);
    // At delta 0 there is no bound, except for no loss at all.
    for delta in [0.0, -1.0, f64::NAN] {
        assert_eq!((sums.advanced(delta), composed([]).advanced(delta)), (f64::INFINITY, 0.0));
    }
}

#[test]
fn sums_are_rounded_up_and_one_release_is_exact() {
    assert_eq!(composed([0.3]).basic(), 0.3);
    assert_eq!(composed([]).epsilon(1e-6), 0.0);
    // In units of 2^-60 the losses are integers: the exact sum to compare with.
    let unit = 2f64.powi(-60);
    let mut exact = 0u128;
    let mut sums = Heterogeneous::default();
    for n in 1..=100_000u32 {
        let epsilon = (1.0 / f64::from(n).sqrt() / unit).floor() * unit;
        exact += (epsilon / unit) as u128;
        sums.add(epsilon);
        let ours = (sums.basic() / unit) as u128;
        assert!(ours >= exact && ours - exact <= exact >> 35);
    }
}

/// P(X > x) for a normal X, by Simpson's rule on [x, 40 + x].
fn upper_tail(x: f64) -> f64 {
    let steps = 200_000;
    let width = 40.0 / f64::from(steps);
    let density = |y: f64| (-y * y / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let weight = |i: i32| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * f64::from(i % 2) };
    (0..=steps).map(|i| weight(i) * density(x + f64::from(i) * width)).sum::<f64>() * width / 3.0
}

#[test]
fn zcdp_bounds_the_gaussian_mechanism() {
    for rho in [1e-4, 0.01, 0.1, 1.0, 10.0] {
        // Sensitivity 1, variance 1/(2 rho): delta = Q(eps s - 1/2s) - e^eps Q(eps s + 1/2s).
        let s = (0.5f64 / rho).sqrt();
        for delta in [1e-10, 1e-6, 1e-3] {
            let epsilon = zcdp_to_approximate(rho, delta);
            let truth = upper_tail(epsilon * s - 0.5 / s) - epsilon.exp() * upper_tail(epsilon * s + 0.5 / s);
            assert!(truth <= delta, "{rho} {delta}: {epsilon} {truth:e}");
            assert!(truth >= delta / 100.0, "{rho} {delta}: {epsilon} {truth:e}");
        }
        assert_eq!(zcdp_to_approximate(rho, 0.0), f64::INFINITY);
    }
    assert_eq!(zcdp_to_approximate(0.0, 0.0), 0.0);
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        assert_eq!(zcdp_to_approximate(bad, 1e-6), f64::INFINITY);
    }
    for tiny in [5e-324, 1e-300, 1e300] {
        let epsilon = zcdp_to_approximate(tiny, 1e-6);
        assert!(epsilon >= 0.0 && epsilon <= tiny * 2.0 + 10.0 * tiny.sqrt(), "{tiny:e}: {epsilon:e}");
    }
    assert!(bounded_range_to_zcdp(0.2) >= 0.005 && bounded_range_to_zcdp(0.2) < 0.005 * (1.0 + 1e-14));
}

#[test]
fn zcdp_is_as_good_as_its_best_alpha() {
    for rho in [1e-12, 1e-4, 0.01, 1.0, 10.0, 1e3, 1e6] {
        for delta in [1e-200, 1e-10, 1e-6, 1e-3, 0.5] {
            let ln_delta = f64::ln(delta);
            let plain = rho + 2.0 * (rho * -ln_delta).sqrt();
            // alpha = 1 + x, x from a thousandth to a thousand times that of the plain bound
            let centre = (-ln_delta / rho).sqrt();
            let at = |x: f64| (1.0 + x) * rho - (1.0 / x).ln_1p() - (x.ln_1p() + ln_delta) / x;
            let best = (-6900..6900).map(|i| at(centre * (f64::from(i) / 1000.0).exp())).fold(plain, f64::min).max(0.0);
            let ours = zcdp_to_approximate(rho, delta);
            // The grid's least value exceeds the true one by at most one part in 10^6.
            assert!(
                ours <= best * (1.0 + 1e-12) && ours >= best - 1e-6 * plain,
                "{rho} {delta}: {ours} {best} {plain}"
            );
        }
    }
}

#[test]
fn groups_of_an_approximate_mechanism() {
    assert_eq!(group_delta(0.5, 1e-6, 1), 1e-6);
    let chain = 1e-6 * (1.0 + 0.5f64.exp() + 1f64.exp());
    assert!((group_delta(0.5, 1e-6, 3) / chain - 1.0).abs() < 1e-12);
    assert!((group_delta(0.0, 1e-6, 3) / 3e-6 - 1.0).abs() < 1e-12);
    assert_eq!(group_delta(500.0, 1e-6, 3), f64::INFINITY);
    assert_eq!(group_delta(800.0, 1e-6, 3), f64::INFINITY);
    // The parts of a split budget add up to at most the budget.
    for m in [1u32, 2, 3, 10, 1000, u32::MAX] {
        for epsilon in [1e-9, 0.1, 1.0, 20.0, 300.0] {
            for delta in [1e-12, 1e-6, 0.1] {
                let share = if m == 1 { epsilon } else { (epsilon / f64::from(m)).next_down() };
                let each = delta_share(epsilon, delta, m);
                let loss = PrivacyLoss::Approximate { epsilon: share, delta: each };
                assert!(loss.epsilon(delta, m) <= epsilon, "{m} {epsilon} {delta} {each:e}");
                assert!(each >= delta / (f64::from(m) * epsilon.exp()) * (1.0 - 1e-9), "{m} {epsilon} {delta}");
            }
        }
    }
    assert_eq!(delta_share(1e300, 0.1, 2), 0.0);
}

#[test]
fn every_loss_reports_a_bound_or_infinity() {
    let releases = composed([0.1; 50]);
    assert_eq!(PrivacyLoss::Pure(0.25).spent(1e-6, 4), (1.0, 0.0));
    assert_eq!(PrivacyLoss::Unbounded.spent(1e-6, 1), (f64::INFINITY, 1e-6));
    assert_eq!(PrivacyLoss::Zcdp(0.1).epsilon(0.0, 1), f64::INFINITY);
    assert_eq!(PrivacyLoss::Zcdp(0.125).epsilon(1e-6, 3), zcdp_to_approximate(1.125, 1e-6));
    let approximate = PrivacyLoss::Approximate { epsilon: 0.5, delta: 1e-6 };
    assert_eq!(approximate.epsilon(1e-6, 1), 0.5);
    assert_eq!(approximate.epsilon(1e-6, 2), f64::INFINITY);
    assert_eq!(approximate.epsilon(1e-5, 2), 1.0);
    let equal = PrivacyLoss::Equal { epsilon0: 0.1, k: 50 };
    let (optimal, delta) = equal.spent(1e-6, 1);
    assert!(delta == 1e-6 && optimal < 3.2 && optimal < PrivacyLoss::Heterogeneous(releases).epsilon(1e-6, 1));
    assert_eq!(PrivacyLoss::Heterogeneous(releases).spent(0.0, 1), (releases.basic(), 0.0));
    // A schedule costs what it allows so far, and never more than the total if that is known.
    let scheduled = PrivacyLoss::Scheduled { releases, epsilon: 1.0, delta: 1e-6 };
    assert!(releases.epsilon(1e-5) > 3.0);
    assert_eq!((scheduled.epsilon(1e-6, 1), scheduled.epsilon(1e-5, 1)), (1.0, 1.0));
    assert_eq!(scheduled.epsilon(0.9e-6, 1), releases.epsilon(0.9e-6));
    assert_eq!(scheduled.epsilon(0.0, 1), releases.basic());
    assert_eq!((scheduled.epsilon(1e-5, 2), scheduled.epsilon(3e-6, 2)), (2.0, releases.group(2).epsilon(3e-6)));
    let early = PrivacyLoss::Scheduled { releases: composed([0.1]), epsilon: 1.0, delta: 1e-6 };
    assert_eq!(early.spent(1e-6, 1), (0.1, 0.0));
    // Two releases: advanced composition costs more than the sum, so the report is pure.
    assert_eq!(PrivacyLoss::Heterogeneous(composed([0.1, 0.1])).spent(1e-6, 1), (0.2, 0.0));
    for loss in [equal, PrivacyLoss::Heterogeneous(releases), PrivacyLoss::Zcdp(0.1), PrivacyLoss::Pure(0.1)] {
        for m in [1, 2, 5] {
            assert!(loss.epsilon(1e-6, m + 1) > loss.epsilon(1e-6, m));
            assert!(loss.epsilon(1e-9, m) >= loss.epsilon(1e-6, m));
        }
    }
}

#[test]
fn extreme_compositions_stay_bounds() {
    assert_eq!(optimal(0.1, 0, 1e-6), 0.0);
    assert_eq!(optimal(0.0, 10, 1e-6), 0.0);
    assert_eq!(optimal(0.3, 1, 0.0), 0.3);
    assert!(optimal(f64::INFINITY, 3, 1e-6).is_infinite());
    for (epsilon0, k, delta) in
        [(800.0, 5, 1e-6), (5.0, 1_000_000, 1e-9), (1e-9, 1_000_000, 1e-6), (1e-6, 1 << 40, 1e-6), (0.01, 1000, 1e-300)]
    {
        let epsilon = optimal(epsilon0, k, delta);
        assert!((0.0..=k as f64 * epsilon0 * (1.0 + 1e-12)).contains(&epsilon), "{epsilon0} {k} {delta}: {epsilon}");
    }
}
