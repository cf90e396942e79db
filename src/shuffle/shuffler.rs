//! The shuffler of the shuffle model: holds a batch until it is complete, then releases it without its senders.

use super::{Params, check_bits};
use crate::error::{Error, Result};
use crate::memory;
use crate::os::Origin;
use crate::random::{Random, Seed};
use zeroize::{Zeroize, Zeroizing};

/// Shuffles one batch after another, each of one arm and phase.
///
/// Nothing is released before the batch is complete. Then all bits are released in uniformly random order (drawn from
/// unbiased integers), once. The server learns only their count, but it gets the bits: it can check them, and need
/// not trust the shuffler's arithmetic.
///
/// ```
/// # use dpb::shuffle::{Shuffler, encode};
/// # use dpb::{Algorithm, Bandit, Config, Seed};
/// # fn main() -> Result<(), dpb::Error> {
/// let config = Config { delta: 1e-6, horizon: 1_000_000, ..Config::new(2, 1.0) };
/// let server = Bandit::new(Algorithm::VbSdpAe, &config)?;
/// let decision = server.select()?;
/// let plan = server.shuffle_params(decision.phase)?;
/// let mut shuffler = Shuffler::new(plan, None)?; // one for each arm
/// while !shuffler.is_complete() {
///     // On a device, for each user who was shown this arm:
///     let (mut coins, mut message) = (Seed::new(None)?.stream(), vec![0; plan.message_len()]);
///     encode(&plan, 1.0, &mut coins, &mut message)?;
///     shuffler.push(&message)?;
/// }
/// let mut batch = vec![0; plan.batch_len()];
/// shuffler.take(&mut batch)?;
/// server.submit_shuffled(decision.phase, decision.arm, &batch)?;
/// # Ok(())
/// # }
/// ```
///
/// Memory: [`Params::batch_len`] bytes, allocated at construction. Push: O(message); take: O(batch).
pub struct Shuffler {
    params: Params,
    bits: Zeroizing<Vec<u8>>,
    random: Random,
    origin: Origin,
}

impl Shuffler {
    /// An empty shuffler. Its orders are drawn from the operating system's entropy; with a test seed they are
    /// reproducible and NOT private.
    ///
    /// # Errors
    /// `Entropy` if the operating system gives no randomness; `NoMemory` if the batch cannot be allocated.
    pub fn new(params: Params, test_seed: Option<[u8; 32]>) -> Result<Shuffler> {
        let bits = Zeroizing::new(memory::try_with_capacity(params.batch_len())?);
        Ok(Shuffler { params, bits, random: Seed::new(test_seed)?.stream(), origin: Origin::here() })
    }

    /// The parameters that users, shuffler and server agreed on.
    pub fn params(&self) -> Params {
        self.params
    }

    /// Adds one user's message. The transport must ensure that each user sends one message: a shuffler that could
    /// tell users apart would know too much.
    ///
    /// # Errors
    /// `InvalidConfig` unless the message has [`Params::message_len`] bytes, each 0 or 1; `Expired` if the batch is
    /// complete and not yet taken.
    pub fn push(&mut self, message: &[u8]) -> Result<()> {
        self.origin.check()?;
        check_bits(message, self.params.message_len())?;
        if self.is_complete() {
            return Err(Error::Expired);
        }
        self.bits.extend_from_slice(message);
        Ok(())
    }

    /// Releases the complete batch into the first [`Params::batch_len`] bytes of `out`, and starts an empty one.
    ///
    /// # Errors
    /// `NotReady` until the batch is complete; `BufferTooSmall`. Then nothing was released.
    pub fn take(&mut self, out: &mut [u8]) -> Result<usize> {
        self.origin.check()?;
        if !self.is_complete() {
            return Err(Error::NotReady);
        }
        let needed = self.bits.len();
        let out = out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?;
        permute(&mut self.bits, &mut self.random);
        out.copy_from_slice(&self.bits);
        self.bits.zeroize();
        Ok(needed)
    }

    /// Whether all messages of the batch have arrived.
    pub fn is_complete(&self) -> bool {
        self.bits.len() == self.params.batch_len()
    }
}

/// Puts the bits in uniformly random order (Fisher and Yates).
fn permute(bits: &mut [u8], random: &mut Random) {
    for last in (1..bits.len()).rev() {
        bits.swap(last, random.below(last as u64 + 1) as usize);
    }
}

impl std::fmt::Debug for Shuffler {
    /// Shows public facts only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shuffler").field("params", &self.params).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::calibration::ShuffleNoise;

    fn shuffler(users: u32, seed: u8) -> Shuffler {
        let noise = ShuffleNoise { coins_per_user: 1, coin_numerator: 1 << 31 };
        Shuffler::new(Params::unchecked(1.0, 0.1, users, noise), Some([seed; 32])).unwrap()
    }

    #[test]
    fn nothing_leaves_early_and_everything_once() {
        let mut shuffler = shuffler(3, 1);
        let mut out = [9; 7];
        for message in [[1, 0], [0, 0], [1, 1]] {
            assert_eq!(shuffler.take(&mut out), Err(Error::NotReady));
            shuffler.push(&message).unwrap();
        }
        assert_eq!(shuffler.push(&[0, 0]), Err(Error::Expired));
        assert_eq!(shuffler.take(&mut out[..5]), Err(Error::BufferTooSmall { needed: 6 }));
        assert_eq!(out, [9; 7]);
        assert_eq!(shuffler.take(&mut out), Ok(6));
        assert_eq!((out[..6].iter().filter(|&&bit| bit == 1).count(), out[6]), (3, 9));
        assert_eq!(shuffler.take(&mut out), Err(Error::NotReady));
        assert!(shuffler.bits.is_empty() && shuffler.push(&[1, 1]).is_ok());
    }

    #[test]
    fn refuses_what_is_no_message() {
        let mut shuffler = shuffler(1, 1);
        for bad in [&[][..], &[1], &[1, 0, 0], &[0, 2], &[255, 1]] {
            assert!(matches!(shuffler.push(bad), Err(Error::InvalidConfig { .. })), "{bad:?}");
        }
        assert!(shuffler.bits.is_empty());
    }

    #[test]
    fn every_order_is_equally_likely() {
        // Chi-square over the 24 orders of four things, 240,000 times: chi2(23) exceeds 71.0 with probability below
        // 1e-6. (Swapping with any of the four, the classic error, gives 1e4.)
        let mut random = Seed::new(Some([2; 32])).unwrap().stream();
        let mut orders = std::collections::BTreeMap::new();
        for _ in 0..240_000 {
            let mut things = [0, 1, 2, 3];
            permute(&mut things, &mut random);
            *orders.entry(things).or_insert(0) += 1;
        }
        let chi2: f64 = orders.values().map(|&times| (f64::from(times) - 1e4).powi(2) / 1e4).sum();
        assert!(orders.len() == 24 && chi2 < 71.0, "{chi2}");
    }

    #[test]
    fn a_batch_leaves_in_random_order() {
        // One 1 among 19 zeros keeps its position with probability 1/20: 100 times in 2000 batches on average, and
        // more than 170 times with probability below 1e-9.
        let mut shuffler = shuffler(10, 3);
        let mut stayed = 0;
        for _ in 0..2000 {
            shuffler.push(&[1, 0]).unwrap();
            (0..9).for_each(|_| shuffler.push(&[0, 0]).unwrap());
            let mut out = [0; 20];
            shuffler.take(&mut out).unwrap();
            stayed += u32::from(out[0]);
        }
        assert!((40..170).contains(&stayed), "{stayed}");
    }
}
