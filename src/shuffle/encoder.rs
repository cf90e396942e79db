//! The encoder of the shuffle model, on the user's device: turns a reward into bits.

use super::Params;
use crate::error::{Error, Result};
use crate::noise::binomial;
use crate::random::Random;
use crate::reward::{Reward, RewardRange};

/// Encodes one reward in `[0, 1]`. Writes one byte of 0 or 1 for each bit, the user's own first and then its coins,
/// and returns their number. Every bit is drawn by comparing random integers, so its distribution is exact. A reward
/// between 0 and 1 is rounded to the 2^-24 grid and then up or down at random, without bias.
///
/// # Errors
/// `InvalidReward` unless the reward is finite and in `[0, 1]`; `BufferTooSmall` if `bits` is shorter than
/// [`Params::message_len`]. Then nothing is written.
pub fn encode(params: &Params, reward: f64, random: &mut Random, bits: &mut [u8]) -> Result<usize> {
    let reward = RewardRange::new(0.0, 1.0, Reward::BITS, false)?.quantize(reward)?;
    let needed = params.message_len();
    let Some((own, coins)) = bits.get_mut(..needed).and_then(<[u8]>::split_first_mut) else {
        return Err(Error::BufferTooSmall { needed });
    };
    *own = round_at_random(reward, random).into();
    coins.fill_with(|| coin(params, random).into());
    Ok(needed)
}

/// The number of ones in a reward's message, drawn without the message.
pub(crate) fn count_of_encoded(params: &Params, reward: Reward, random: &mut Random) -> u64 {
    let own = u64::from(round_at_random(reward, random));
    let noise = params.noise();
    own + binomial(random, noise.coins_per_user.into(), noise.coin_numerator)
}

/// True with probability exactly the reward.
pub(crate) fn round_at_random(reward: Reward, random: &mut Random) -> bool {
    i64::from(random.next_u32() >> (32 - Reward::BITS)) < reward.units()
}

fn coin(params: &Params, random: &mut Random) -> bool {
    u64::from(random.next_u32()) < params.noise().coin_numerator
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::calibration::ShuffleNoise;
    use crate::random::Seed;

    #[test]
    fn bits_have_their_distribution() {
        // 100,000 messages: each frequency is within 5 standard deviations (5e-7 each) of its expectation.
        let n = 100_000;
        let noise = ShuffleNoise { coins_per_user: 3, coin_numerator: 1 << 29 }; // 1/8
        let params = Params::unchecked(1.0, 1e-6, n, noise);
        let mut random = Seed::new(Some([5; 32])).unwrap().stream();
        for reward in [0.0, 1.0, 0.3] {
            let (mut ones, mut drawn) = ([0u32; 4], 0);
            let grid = Reward::from_units((reward * Reward::ONE as f64).round() as u32);
            for _ in 0..n {
                let mut bits = [9; 5];
                assert_eq!(encode(&params, reward, &mut random, &mut bits), Ok(4));
                assert_eq!(bits[4], 9);
                ones.iter_mut().zip(bits).for_each(|(ones, bit)| *ones += u32::from(bit));
                drawn += count_of_encoded(&params, grid, &mut random);
            }
            let near = |ones: f64, p: f64, n: f64| (ones - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt();
            assert!(near(ones[0].into(), reward, n.into()), "{ones:?}");
            assert!(ones[1..].iter().all(|&coins| near(coins.into(), 0.125, n.into())), "{ones:?}");
            let (mean, variance) = (reward + 0.375, reward * (1.0 - reward) + 3.0 * 0.125 * 0.875);
            let n = f64::from(n);
            assert!((drawn as f64 - n * mean).abs() <= 5.0 * (n * variance).sqrt());
        }
    }

    #[test]
    fn a_refused_call_writes_nothing() {
        let params = Params::unchecked(1.0, 1e-6, 2, ShuffleNoise { coins_per_user: 3, coin_numerator: 7 });
        let mut random = Seed::new(Some([5; 32])).unwrap().stream();
        let mut bits = [9; 8];
        for bad in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
            assert_eq!(encode(&params, bad, &mut random, &mut bits), Err(Error::InvalidReward));
        }
        assert_eq!(encode(&params, 1.0, &mut random, &mut bits[..3]), Err(Error::BufferTooSmall { needed: 4 }));
        assert_eq!(bits, [9; 8]);
    }
}
