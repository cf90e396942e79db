//! Private running sums, compared with plain prefix sums: errors within their widths, constant memory, privacy.

use crate::audit::engine::{Audit, clopper_pearson, pattern, seed};
use dpb::Error;
use dpb::counter::{Counter, CounterKind, MAX_COUNT};
use proptest::prelude::*;

const KINDS: [CounterKind; 3] = [CounterKind::Logarithmic, CounterKind::Binary, CounterKind::Hybrid];

fn counter(kind: CounterKind, epsilon: f64, number: u64) -> Counter {
    Counter::new(kind, epsilon, 1 << 20, Some(seed(number))).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// With the least possible noise (epsilon 2^14, shared by at most 11 levels), every release is the plain prefix
    /// sum, at every count and for all values: sums are exact.
    #[test]
    fn releases_are_prefix_sums(values in prop::collection::vec(0.0..=1.0f64, 1..300), number: u64) {
        for kind in KINDS {
            let mut counter = Counter::new(kind, 400.0, 300, Some(seed(number))).unwrap();
            let (mut prefix, mut at_power) = (0.0, 0.0);
            for (i, value) in values.iter().enumerate() {
                counter.add(*value).unwrap();
                prefix += value;
                if (i + 1).is_power_of_two() {
                    at_power = prefix;
                }
                let exact = if kind == CounterKind::Logarithmic { at_power } else { prefix };
                // A union bound over 300 values, 3 kinds and 256 cases: 1e-12 * 2.3e5.
                let error = (counter.read() - exact).abs();
                prop_assert!(error <= counter.width(1e-12) + 1e-4, "{kind:?} at {}: {error}", i + 1);
                prop_assert!(counter.width(1e-12) < 20.0);
                prop_assert_eq!(counter.count(), i as u64 + 1);
                // A read draws no noise.
                prop_assert_eq!(counter.read().to_bits(), counter.read().to_bits());
            }
        }
    }

    /// A refused value changes nothing: the same seed gives the same later releases.
    #[test]
    fn refusals_change_nothing(values in prop::collection::vec(prop_oneof![0.0..=1.0f64, -9.0..9.0f64, Just(f64::NAN), Just(f64::INFINITY)], 1..60)) {
        for kind in KINDS {
            let (mut all, mut good) = (counter(kind, 1.0, 1), counter(kind, 1.0, 1));
            for value in &values {
                if (0.0..=1.0).contains(value) {
                    all.add(*value).unwrap();
                    good.add(*value).unwrap();
                } else {
                    prop_assert_eq!(all.add(*value), Err(Error::InvalidReward));
                }
                prop_assert_eq!(all.read().to_bits(), good.read().to_bits());
            }
        }
    }
}

#[test]
fn errors_stay_within_the_width_at_the_stated_rate() {
    // 4000 independent counters each. The bound must hold at rate gamma (false alarm 1e-6 for each case), and must not
    // be idle: at a third of the width, errors are outside far more often.
    for (kind, values) in [(CounterKind::Logarithmic, 64), (CounterKind::Binary, 63), (CounterKind::Hybrid, 63)] {
        for gamma in [0.3, 0.05] {
            let outside = |factor: f64| {
                let outside = |number: &u64| {
                    let mut counter = Counter::new(kind, 0.5, 63, Some(seed(*number))).unwrap();
                    (0..values).for_each(|_| counter.add(0.5).unwrap());
                    (counter.read() - f64::from(values) * 0.5).abs() > factor * counter.width(gamma)
                };
                (0..4000).filter(outside).count() as u64
            };
            let (within, tight) = (outside(1.0), outside(0.35));
            assert!(clopper_pearson(within, 4000, 1e-6).0 <= gamma, "{kind:?} {gamma}: {within}");
            assert!(clopper_pearson(tight, 4000, 1e-6).0 > gamma, "{kind:?} {gamma}: {tight}");
        }
    }
}

#[test]
fn a_binary_counter_is_full_at_its_horizon() {
    let mut counter = Counter::new(CounterKind::Binary, 1.0, 5, Some(seed(1))).unwrap();
    (0..5).for_each(|_| counter.add(1.0).unwrap());
    let last = counter.read();
    assert_eq!(counter.add(1.0), Err(Error::Halted));
    assert_eq!((counter.read().to_bits(), counter.count()), (last.to_bits(), 5));
}

#[test]
fn refuses_what_it_cannot_do() {
    for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300] {
        for kind in KINDS {
            let error = Counter::new(kind, epsilon, 10, None).unwrap_err();
            assert!(matches!(error, Error::InvalidConfig { field: "epsilon", .. }), "{error}");
            let got = error.to_string().rsplit("got ").next().unwrap().parse::<f64>().unwrap();
            assert!(got == epsilon || (got.is_nan() && epsilon.is_nan()), "{error}");
        }
    }
    for horizon in [0, MAX_COUNT + 1] {
        let error = Counter::new(CounterKind::Binary, 1.0, horizon, None).unwrap_err();
        assert!(matches!(error, Error::InvalidConfig { field: "horizon", .. }), "{error}");
    }
    assert_eq!(counter(CounterKind::Hybrid, 1.0, 1).read(), 0.0);
}

#[test]
fn debug_shows_releases_only() {
    let mut counter = counter(CounterKind::Logarithmic, 1.0, 1);
    (0..3).for_each(|_| counter.add(1.0).unwrap());
    assert_eq!(format!("{counter:?}"), format!("Counter {{ count: 3, sum: {:?}, .. }}", counter.read()));
}

/// The public outputs for four values of which only the `changed`-th (from 0) differs: the later releases, each
/// classified by where its step lies between the two worlds.
fn one_value(changed: usize, times: &[usize], make: impl Fn(u64) -> Counter) -> impl Fn(u64, bool) -> u64 {
    move |number, neighbour| {
        let mut counter = make(number);
        let mut releases = [0.0; 5];
        for t in 0..4 {
            counter.add(if t == changed { f64::from(u8::from(neighbour)) } else { 0.5 }).unwrap();
            releases[t + 1] = counter.read();
        }
        let step = |&t: &usize| releases[t] - releases[changed] - 0.5 * (t - changed - 1) as f64;
        pattern(times.iter().map(|t| step(t).clamp(-0.5, 1.5).floor() as i64).collect::<Vec<_>>())
    }
}

#[test]
fn auditor_passes_the_hybrid_and_catches_the_uncorrected_budget() {
    // The third value is alone in its leaf (released at three) and in the block that ends at four.
    let audit = Audit::pure(1.0, 4000);
    let verdict = audit.run(one_value(2, &[3, 4], |n| counter(CounterKind::Hybrid, 1.0, n)));
    let printed = audit.run(one_value(2, &[3, 4], |n| Counter::uncorrected_hybrid(1.0, Some(seed(n))).unwrap()));
    println!("hybrid {verdict:?}, as printed {printed:?}");
    assert!(!verdict.alarm && printed.alarm);
}

#[test]
fn auditor_passes_the_others_and_catches_half_the_noise() {
    // The first value is in the releases at 1, 2 and 4, each with its own noise. In the logarithmic mechanism only the
    // first release matters.
    for (kind, times, runs) in [(CounterKind::Logarithmic, &[1][..], 4000), (CounterKind::Binary, &[1, 2, 4], 20_000)] {
        let make = |epsilon: f64| move |n| Counter::new(kind, epsilon, 4, Some(seed(n))).unwrap();
        let audit = Audit::pure(1.0, runs);
        let verdict = audit.run(one_value(0, times, make(1.0)));
        let weak = audit.run(one_value(0, times, make(2.0)));
        println!("{kind:?} {verdict:?}, half the noise {weak:?}");
        assert!(!verdict.alarm && weak.alarm);
    }
}

#[test]
fn a_counter_says_whether_it_is_private() {
    for kind in [CounterKind::Logarithmic, CounterKind::Binary, CounterKind::Hybrid] {
        assert!(Counter::new(kind, 1.0, 10, None).unwrap().is_private());
        assert!(!Counter::new(kind, 1.0, 10, Some([1; 32])).unwrap().is_private());
    }
}
