//! The analyzer of the shuffle model, on the server: turns counts of ones into an estimate and its width.

use super::{Params, check_bits};
use crate::error::Result;

/// The number of ones in one shuffled batch.
///
/// # Errors
/// `InvalidConfig` unless `bits` are [`Params::batch_len`] bytes, each 0 or 1.
pub fn count_ones(params: &Params, bits: &[u8]) -> Result<u64> {
    check_bits(bits, params.batch_len())?;
    Ok(bits.iter().map(|&bit| u64::from(bit)).sum())
}

/// The radius of the debiased mean of these batches (each with its number of repetitions) around the arm's mean. Each
/// side is exceeded with probability at most e^-exponent, for any rewards in `[0, 1]`.
///
/// Chernoff's bound on all randomness together: with N rewards in all, for both signs of s, radius = inf over l > 0
/// of (N l^2/8 + sum over coins of ln(1-q+q e^(sl)) - sql + exponent)/(l N). The first term is Hoeffding's lemma for
/// the rewards and their rounding. The second is the exact log-MGF of the coins, so nothing is assumed about coins of
/// small q. (The paper takes all noise for sub-Gaussian of variance O(tau), which the upper tail of Binomial(m,
/// tau/2m) is not.)
///
/// It is never wider than the paper's I = (2 sqrt(t) sigma/N + 1/sqrt(N)) sqrt(2 ln T), for any sub-Gaussian variance
/// sigma^2 that the noise really has, as long as exponent <= 4 ln T. Then the log-MGF of the coins is at most t
/// sigma^2 l^2/2, the infimum at most sqrt(2 exponent (N/4 + t sigma^2))/N, and sqrt(a + b) <= sqrt a + sqrt b.
///
/// Cost: about 50 passes over the batches.
pub fn radius(batches: impl Iterator<Item = (Params, u64)> + Clone, exponent: f64) -> f64 {
    let rewards: f64 = batches.clone().map(|(params, times)| times as f64 * f64::from(params.users())).sum();
    let coins: f64 =
        batches.clone().map(|(params, times)| times as f64 * params.noise().coins(params.users()) as f64).sum();
    let side = |sign: f64| {
        let bound = |l: f64| {
            let noise: f64 = batches
                .clone()
                .map(|(params, times)| {
                    let q = params.noise().coin();
                    let log_mgf = (q * (sign * l).exp_m1()).ln_1p() - sign * l * q;
                    times as f64 * params.noise().coins(params.users()) as f64 * log_mgf
                })
                .sum();
            (rewards * l * l / 8.0 + noise + exponent) / (l * rewards)
        };
        // The optimum is at a variance between N/4 and (N + coins)/4.
        smallest(bound, (8.0 * exponent / (rewards + coins)).sqrt(), (8.0 * exponent / rewards).sqrt())
    };
    f64::max(side(1.0), side(-1.0))
}

/// The minimum of a function that decreases and then increases between two positive points, by golden section of their
/// ratio. Any point gives a valid bound, so its precision is not critical.
fn smallest(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let (mut low, mut high) = (low.ln(), high.ln());
    let at = |x: f64| f(x.exp());
    let (mut left, mut right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut f_left, mut f_right) = (at(left), at(right));
    for _ in 0..40 {
        if f_left <= f_right {
            (high, right, f_right) = (right, left, f_left);
            left = high - GOLDEN * (high - low);
            f_left = at(left);
        } else {
            (low, left, f_left) = (left, right, f_right);
            right = low + GOLDEN * (high - low);
            f_right = at(right);
        }
    }
    f_left.min(f_right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::calibration::ShuffleNoise;
    use crate::random::Seed;
    use crate::reward::Reward;
    use crate::shuffle::count_of_encoded;

    fn params(users: u32, coins_per_user: u32, coin_numerator: u64) -> Params {
        Params::unchecked(1.0, 1e-6, users, ShuffleNoise { coins_per_user, coin_numerator })
    }

    #[test]
    fn counts_what_is_a_batch_and_nothing_else() {
        let params = params(2, 1, 1 << 31);
        assert_eq!(count_ones(&params, &[1, 0, 1, 1]), Ok(3));
        for bad in [&[][..], &[1, 0, 1], &[1, 0, 1, 0, 0], &[1, 0, 2, 0]] {
            assert!(count_ones(&params, bad).is_err());
        }
    }

    /// The smallest sub-Gaussian variance of one coin (Kearns and Saul 1998).
    fn sub_gaussian_variance(q: f64) -> f64 {
        if q == 0.5 { 0.25 } else { (1.0 - 2.0 * q) / (2.0 * ((1.0 - q) / q).ln()) }
    }

    #[test]
    fn is_never_wider_than_the_printed_radius() {
        for (plan, t) in [(params(20, 4, 1 << 31), 7), (params(1000, 1, 1 << 27), 3), (params(1 << 20, 1, 1 << 15), 1)]
        {
            let noise = plan.noise();
            let sigma2 = noise.coins(plan.users()) as f64 * sub_gaussian_variance(noise.coin());
            for log_horizon in [5.0f64, 14.0, 30.0] {
                let n = t as f64 * f64::from(plan.users());
                let printed = (2.0 * (t as f64 * sigma2).sqrt() / n + n.sqrt().recip()) * (2.0 * log_horizon).sqrt();
                let ours = radius([(plan, t)].into_iter(), 4.0 * log_horizon);
                assert!(ours <= printed && ours > 0.3 * printed, "{ours} {printed}");
            }
        }
    }

    #[test]
    fn holds_at_its_stated_rate() {
        // 20,000 draws. Each side may be exceeded with probability e^-3: 996 times on average, and more than 1170
        // times (5.7 standard deviations) with probability below 2e-8. Each side is exceeded at least 20 times, so
        // the test also detects a radius that is twice too wide.
        let mut random = Seed::new(Some([11; 32])).unwrap().stream();
        let batches = [(params(4, 5, 1 << 31), 2u64), (params(64, 1, 1 << 28), 1)];
        let radius = radius(batches.into_iter(), 3.0);
        let rewards = 72.0;
        let reward = Reward::from_units(Reward::ONE as u32 / 2);
        let (mut above, mut below) = (0, 0);
        for _ in 0..20_000 {
            let mut sum = 0.0;
            for (params, times) in batches {
                for _ in 0..times {
                    sum -= params.noise_mean();
                    sum +=
                        (0..params.users()).map(|_| count_of_encoded(&params, reward, &mut random) as f64).sum::<f64>();
                }
            }
            above += u32::from(sum / rewards > 0.5 + radius);
            below += u32::from(sum / rewards < 0.5 - radius);
        }
        assert!((20..1170).contains(&above) && (20..1170).contains(&below), "{above} {below}");
    }
}
