//! The noise of the shuffle model: golden numbers, and the exact distribution of M_sum by enumeration.

use dpb::Error;
use dpb::privacy::calibration::{ShuffleNoise, delta_of_binomial_shift, fair_coins, printed_tau};
use std::ops::RangeInclusive;

/// The distribution of the number of ones that the server sees, added one bit at a time.
fn count_of_ones(bits: &[bool], noise: ShuffleNoise) -> Vec<f64> {
    let coins = noise.coins(bits.len() as u32) as usize;
    let chances = bits.iter().map(|&bit| f64::from(u8::from(bit))).chain(std::iter::repeat_n(noise.coin(), coins));
    let mut distribution = vec![1.0];
    for p in chances {
        distribution.push(0.0);
        for k in (1..distribution.len()).rev() {
            distribution[k] = distribution[k] * (1.0 - p) + distribution[k - 1] * p;
        }
        distribution[0] *= 1.0 - p;
    }
    distribution
}

/// sum over k of max(0, a(k) - e^epsilon b(k)).
fn hockey_stick(a: &[f64], b: &[f64], epsilon: f64) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - epsilon.exp() * b).max(0.0)).sum()
}

/// The largest delta over all inputs and their neighbours.
fn true_delta(users: u32, noise: ShuffleNoise, epsilon: f64) -> f64 {
    let mut worst = 0.0f64;
    for input in 0u32..1 << users {
        let bits: Vec<bool> = (0..users).map(|user| input >> user & 1 == 1).collect();
        let here = count_of_ones(&bits, noise);
        for user in 0..users as usize {
            let mut changed = bits.clone();
            changed[user] = !changed[user];
            worst = worst.max(hockey_stick(&here, &count_of_ones(&changed, noise), epsilon));
        }
    }
    worst
}

#[test]
fn the_golden_numbers() {
    for (epsilon, exact, printed) in [(1.0, 80, 1393.0), (0.5, 268, 5572.0)] {
        assert_eq!(fair_coins(epsilon, 1e-6).unwrap(), exact);
        assert_eq!(printed_tau(epsilon, 1e-6).unwrap().ceil(), printed);
    }
    for users in [1, 8, 80] {
        let noise = ShuffleNoise::calibrated(1.0, 1e-6, users).unwrap();
        // 80 coins in all, slightly unfair: 79 fair ones are just too few.
        assert_eq!(noise.coins(users), 80);
        assert!(
            (39.0..=40.0).contains(&noise.mean(users)) && (19.9..=20.0).contains(&noise.variance(users)),
            "{noise:?}"
        );
    }
    let few = ShuffleNoise::printed(1.0, 1e-6, 100).unwrap();
    assert_eq!(few, ShuffleNoise { coins_per_user: 14, coin_numerator: 1 << 31 });
    let many = ShuffleNoise::printed(1.0, 1e-6, 10_000_000).unwrap();
    let excess = many.mean(10_000_000) - printed_tau(1.0, 1e-6).unwrap() / 2.0;
    assert!(many.coins_per_user == 1 && (0.0..=1e7 / 2f64.powi(32)).contains(&excess), "{excess}");
}

/// The figures on the page: the number of coins, and how many more the paper's formula needs.
#[test]
fn the_page_quotes_the_number_of_coins() {
    let ln_inverse = |delta: f64| -delta.ln();
    let coins = |epsilon, delta| fair_coins(epsilon, delta).unwrap() as f64;
    let times = |epsilon, delta| printed_tau(epsilon, delta).unwrap() / coins(epsilon, delta);
    assert_eq!((times(1.0, 1e-6).round(), times(1.0, 1e-15).round()), (17.0, 13.0));
    for (epsilon, smaller) in [(1.0, 0.5), (0.5, 0.1), (0.1, 0.01)] {
        for delta in [1e-15, 1e-12, 1e-9, 1e-6] {
            assert!(times(smaller, delta) > times(epsilon, delta) && times(epsilon, delta) > 13.0);
            for epsilon in [epsilon, smaller] {
                let constant = coins(epsilon, delta) * epsilon * epsilon / ln_inverse(delta);
                assert!((2.7..7.31).contains(&constant), "{epsilon} {delta}: {constant}");
            }
        }
    }
}

#[test]
fn the_true_distribution_at_small_sizes_meets_the_claim_and_hardly_more() {
    noise_of_these_meets_the_claim_and_hardly_more(1..=4);
}

#[test]
#[ignore = "six seconds"]
fn the_true_distribution_at_more_sizes_meets_the_claim_and_hardly_more() {
    noise_of_these_meets_the_claim_and_hardly_more(5..=6);
}

fn noise_of_these_meets_the_claim_and_hardly_more(users: RangeInclusive<u32>) {
    for users in users {
        for epsilon in [0.7, 1.0, 2.0, 5.0] {
            for delta in [0.3, 0.03, 1e-3] {
                let noise = ShuffleNoise::calibrated(epsilon, delta, users).unwrap();
                let truth = true_delta(users, noise, epsilon);
                assert!(truth <= delta, "{users} {epsilon} {delta}: {truth}");
                let computed = noise.delta(epsilon, users);
                assert!(
                    computed >= truth * (1.0 - 1e-12) && computed <= truth * (1.0 + 1e-7),
                    "{computed:e} {truth:e}"
                );
                // The next smaller noise is too little, apart from the slack that rounding up costs.
                let less = if noise.coin_numerator > 1 {
                    ShuffleNoise { coin_numerator: noise.coin_numerator - 1, ..noise }
                } else {
                    ShuffleNoise { coins_per_user: noise.coins_per_user - 1, ..noise }
                };
                assert!(
                    true_delta(users, less, epsilon) > delta * (1.0 - 1e-7),
                    "{users} {epsilon} {delta}: too much noise"
                );
            }
        }
        for delta in [0.3, 1e-3] {
            let printed = ShuffleNoise::printed(1.0, delta, users).unwrap();
            assert!(true_delta(1, printed, 1.0) >= true_delta(users, printed, 1.0));
            assert!(printed.delta(1.0, users) <= delta);
        }
    }
}

#[test]
fn the_shift_agrees_with_brute_force_both_ways() {
    for coins in [1u32, 2, 5, 17, 80, 300] {
        for numerator in [1u64 << 31, 1 << 30, 123_456_789, 1 << 22] {
            let noise = ShuffleNoise { coins_per_user: coins, coin_numerator: numerator };
            let (zero, one) = (count_of_ones(&[false], noise), count_of_ones(&[true], noise));
            for epsilon in [0.0, 0.01, 0.3, 1.0, 3.0] {
                let truth = hockey_stick(&zero, &one, epsilon).max(hockey_stick(&one, &zero, epsilon));
                let computed = delta_of_binomial_shift(coins.into(), noise.coin(), epsilon);
                assert!(computed >= truth * (1.0 - 1e-11), "{coins} {numerator} {epsilon}: {computed:e} {truth:e}");
                assert!(
                    computed <= (truth * (1.0 + 1e-8)).min(1.0),
                    "{coins} {numerator} {epsilon}: {computed:e} {truth:e}"
                );
                let mirrored = delta_of_binomial_shift(coins.into(), 1.0 - noise.coin(), epsilon);
                assert!((mirrored / computed - 1.0).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn more_privacy_takes_more_noise() {
    let coins = |epsilon, delta| fair_coins(epsilon, delta).unwrap();
    for pair in [4.0, 2.0, 1.0, 0.3, 0.1, 0.01].windows(2) {
        assert!(coins(pair[0], 1e-6) < coins(pair[1], 1e-6));
        assert!(coins(1.0, 10f64.powf(-2.0 / pair[0])) < coins(1.0, 10f64.powf(-2.0 / pair[1])));
    }
    // Another coin never increases delta. The bisection relies on this to find the smallest number.
    for epsilon in [0.05, 0.5, 1.0, 3.0] {
        for n in 1..400 {
            let (here, next) = (delta_of_binomial_shift(n, 0.5, epsilon), delta_of_binomial_shift(n + 1, 0.5, epsilon));
            assert!(next <= here * (1.0 + 5e-9), "{epsilon} {n}");
        }
    }
    // The limits of the sizes.
    let [last, beyond] = [1 << 33, (1 << 33) + 1].map(|coins| delta_of_binomial_shift(coins, 0.5, 1e-5));
    assert!(last < 0.5 && beyond == 1.0, "{last}");
}

#[test]
fn any_number_of_users_meets_the_claim_with_less_noise_than_the_paper() {
    for users in [1, 79, 80, 81, 1000, 65_537, 10_000_000, u32::MAX] {
        for (epsilon, delta) in [(1.0, 1e-6), (0.1, 1e-9), (0.01, 1e-6), (1e-3, 1e-5)] {
            let noise = ShuffleNoise::calibrated(epsilon, delta, users).unwrap();
            let printed = ShuffleNoise::printed(epsilon, delta, users).unwrap();
            assert!(noise.delta(epsilon, users) <= delta && printed.delta(epsilon, users) <= delta);
            assert!((1..=1 << 31).contains(&noise.coin_numerator));
            let ratio = printed.variance(users) / noise.variance(users);
            assert!(ratio > 8.0, "{users} {epsilon} {delta}: {noise:?} {printed:?}");
        }
    }
}

#[test]
fn unreachable_claims_are_refused() {
    let field = |result: dpb::Result<ShuffleNoise>| match result {
        Err(Error::InvalidConfig { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-6, 5e-324] {
        assert_eq!(field(ShuffleNoise::calibrated(bad, 1e-6, 100)), "epsilon");
        assert_eq!(field(ShuffleNoise::printed(bad, 1e-6, 100)), "epsilon");
    }
    for bad in [0.0, -1.0, f64::NAN, 1.0] {
        assert_eq!(field(ShuffleNoise::calibrated(1.0, bad, 100)), "delta");
        assert_eq!(field(ShuffleNoise::printed(1.0, bad, 100)), "delta");
    }
    assert_eq!(field(ShuffleNoise::calibrated(1.0, 1e-6, 0)), "users");
    assert_eq!(field(ShuffleNoise::printed(1.0, 1e-6, 0)), "users");
    assert_eq!(field(ShuffleNoise::printed(1.5, 1e-6, 10)), "epsilon");
    for extreme in [1e300, 800.0] {
        assert!(ShuffleNoise::calibrated(extreme, 5e-324, 3).is_ok());
    }
}
