//! Draws binomial noise: many coins of one probability at once.

use crate::random::Random;

/// The number of ones among `coins` coins, each one with probability exactly numerator/2^32. `numerator` in `0 ..=
/// 2^32`.
///
/// Such a coin is a number of 32 random bits that is below the numerator. Compare the two from the first bit on: the
/// first bit that differs decides, and the coin is one if its own bit is 0. Each bit decides a fair half of the
/// undecided coins, Binomial(undecided, 1/2). So 2 random bits for each coin are enough on average: about 0.2 ns a
/// coin.
pub fn binomial(random: &mut Random, coins: u64, numerator: u64) -> u64 {
    if numerator >> 32 > 0 {
        return coins;
    }
    let (mut undecided, mut ones) = (coins, 0);
    for place in (numerator.trailing_zeros().min(32)..32).rev() {
        let differ = fair(random, undecided);
        ones += if numerator >> place & 1 == 1 { differ } else { 0 };
        undecided -= differ;
    }
    ones // coins that are undecided after the last 1 of the numerator are not below it
}

/// Binomial(coins, 1/2): the number of ones among `coins` random bits.
fn fair(random: &mut Random, coins: u64) -> u64 {
    let whole: u64 = (0..coins / 64).map(|_| u64::from(random.next_u64().count_ones())).sum();
    let rest = coins % 64;
    if rest == 0 { whole } else { whole + u64::from((random.next_u64() >> (64 - rest)).count_ones()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    fn random(seed: u8) -> Random {
        Seed::new(Some([seed; 32])).unwrap().stream()
    }

    /// Chi-square of 40,000 draws against the distribution. Cells are joined until 20 draws are expected in each. The
    /// excess over the degrees of freedom is above 8 deviations (and some) with probability at most 1e-9.
    #[test]
    fn has_the_binomial_distribution() {
        const DRAWS: u32 = 40_000;
        let mut random = random(1);
        for coins in [1u64, 2, 10, 63, 64, 65, 700] {
            for numerator in [1 << 31, 1 << 29, 3 << 30, 123_456_789, 4_000_000_000, (1 << 31) - 1] {
                let q = numerator as f64 / 2f64.powi(32);
                let mut seen = vec![0u32; coins as usize + 1];
                (0..DRAWS).for_each(|_| seen[binomial(&mut random, coins, numerator) as usize] += 1);
                let mut log = coins as f64 * (-q).ln_1p(); // ln P(k)
                let (mut chi2, mut cells, mut expected, mut counted) = (0.0, 0.0f64, 0.0, 0.0);
                for k in 0..=coins {
                    expected += log.exp() * f64::from(DRAWS);
                    counted += f64::from(seen[k as usize]);
                    let rest: f64 = seen[k as usize + 1..].iter().copied().map(f64::from).sum();
                    if expected >= 20.0 && rest >= 40.0 || k == coins {
                        chi2 += (counted - expected).powi(2) / f64::max(expected, 1.0);
                        (cells, expected, counted) = (cells + 1.0, 0.0, 0.0);
                    }
                    log += ((coins - k) as f64 / (k + 1) as f64 * q / (1.0 - q)).ln();
                }
                let most = cells + 8.0 * (2.0 * cells).sqrt() + 16.0;
                assert!(chi2 < most, "{coins} {numerator}: {chi2} of {cells} cells");
            }
        }
    }

    #[test]
    fn coins_that_are_certain() {
        let mut random = random(2);
        for coins in [0, 1, 1000] {
            assert_eq!(binomial(&mut random, coins, 0), 0);
            assert_eq!(binomial(&mut random, coins, 1 << 32), coins);
        }
    }

    /// Each coin takes two random bits on average: a million coins take 2^15 words, checked within 2%.
    #[test]
    fn two_bits_a_coin_are_enough() {
        for numerator in [0x5555_5555, 1, (1 << 32) - 1, 123_456_789] {
            let (mut one, mut other) = (random(3), random(3));
            binomial(&mut one, 1 << 20, numerator);
            let next = one.next_u64();
            let words = (0..40_000).find(|_| other.next_u64() == next).unwrap();
            assert!((32_100..33_400).contains(&words), "{numerator}: {words}");
        }
        // A fair coin takes one bit.
        let (mut one, mut other) = (random(4), random(4));
        binomial(&mut one, 1 << 20, 1 << 31);
        assert!((0..1 << 14).all(|_| other.next_u64() != 0) && one.next_u64() == other.next_u64());
    }
}
