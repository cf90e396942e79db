//! Stopping rules: take samples until their mean is known to a factor of 1 +- alpha, then say it.
//!
//! Sajed and Sheffet (2019), section 3. Samples are independent, in [-R, R], of mean mu not 0; with
//! probability at least 1 - beta the released mean is within alpha |mu| of mu.
//!
//! * [`nas`](StoppingRule::nas) (Domingo, Gavalda, Watanabe 2002): NOT private. Halts at the first t
//!   with |mean_t| >= h_t (1 + 1/alpha), h_t = R sqrt((2/t) ln(16 t^2/beta)).
//! * [`dp_nas`](StoppingRule::dp_nas) (their Algorithm 1): **pure eps-DP** (Theorem 3.1). Halts at the
//!   first t with |mean_t| >= h_t (1 + 1/alpha) + (c_t + B + A_t)/t and releases mean_t + L/t, where
//!   B ~ Lap(s1) once, A_t ~ Lap(s2) at each t, L ~ Lap(s3), s1 = s2 = 12 R/eps, s3 = 4 R/eps and
//!   c_t = s1 ln(4/beta) + s2 ln(8 t^2/beta) + (s3/alpha) ln(4/beta).
//! * [`dp_exp_nas`](StoppingRule::dp_exp_nas) (their Algorithm 2): **pure eps-DP** (Corollary 3.2). The
//!   same, asked only at t = 2^k, k = 1, 2, .., with k^2 in place of t^2 in both logarithms. Halts by
//!   2000 (t0 + t1 + t2) with probability 1 - beta (Theorem 3.3, which defines the three).
//!
//! **Privacy, exactly.** On the grid samples are integers and one changed sample moves the sum, and
//! its absolute value, by at most D grid steps, D the length of the range 2R. The rule is the sparse
//! vector technique: shift B by D and the A of the halting time by 2D, and every answer is the same
//! in both worlds. Scales are rounded up to integers, so the shifts cost at most
//! D/s1 + 2D/s2 = eps/6 + eps/3 with exact discrete Laplace noise, the released sum D/s3 = eps/2, in
//! all eps. The thresholds h and c are public, so their rounding is harmless. Halting time and
//! mean are all that is ever read; refused samples change nothing.
//!
//! Cost: a sample O(1) (one noise a question); memory O(1).

use crate::error::{Error, Result};
use crate::noise::Laplace;
use crate::os::Origin;
use crate::random::{Random, Seed};
use crate::reward::{Reward, RewardRange};
use zeroize::Zeroizing;

/// What a stopping rule is told.
#[derive(Clone, Debug)]
pub struct StoppingConfig {
    /// R > 0: samples are in [-R, R].
    pub range: f64,
    /// The relative error, in (0, 1).
    pub alpha: f64,
    /// The failure probability, in (0, 1).
    pub beta: f64,
    /// The privacy loss of one sample, > 0; ignored by NAS.
    pub epsilon: f64,
    /// `None` = operating system entropy; `Some` = reproducible and NOT private.
    pub test_seed: Option<[u8; 32]>,
}

impl StoppingConfig {
    /// With operating system entropy.
    pub fn new(range: f64, alpha: f64, beta: f64, epsilon: f64) -> StoppingConfig {
        StoppingConfig { range, alpha, beta, epsilon, test_seed: None }
    }
}

/// One run of a stopping rule.
pub struct StoppingRule {
    range: RewardRange,
    alpha: f64,
    beta: f64,
    schedule: Schedule,
    noise: Option<Noise>,
    /// The sum in grid steps, 0 for the middle of the range. Wiped at the halt.
    sum: Zeroizing<i128>,
    count: u64,
    mean: Option<f64>,
    origin: Origin,
}

/// When the question is asked.
#[derive(Clone, Copy)]
enum Schedule {
    Always,
    PowersOfTwo,
}

/// The three noises of the private rules.
struct Noise {
    question: Laplace,
    release: Laplace,
    /// B, drawn once.
    threshold: Zeroizing<i64>,
    random: Random,
}

/// R in grid steps: the grid has 2^24 of them in [-R, R].
const HALF: i64 = Reward::ONE / 2;

impl StoppingRule {
    /// NAS, NOT private.
    ///
    /// # Errors
    /// `InvalidConfig` for a range that is not finite and > 0, or alpha or beta outside (0, 1).
    pub fn nas(config: &StoppingConfig) -> Result<StoppingRule> {
        Self::new(config, Schedule::Always, None)
    }

    /// DP-NAS.
    ///
    /// # Errors
    /// As [`nas`](Self::nas), and for an epsilon that the noise cannot do; `Entropy`.
    pub fn dp_nas(config: &StoppingConfig) -> Result<StoppingRule> {
        Self::new(config, Schedule::Always, Some(Noise::new(config)?))
    }

    /// DP-exponential-NAS.
    ///
    /// # Errors
    /// As [`dp_nas`](Self::dp_nas).
    pub fn dp_exp_nas(config: &StoppingConfig) -> Result<StoppingRule> {
        Self::new(config, Schedule::PowersOfTwo, Some(Noise::new(config)?))
    }

    /// DP-NAS with half of each of its noises.
    #[cfg(feature = "test-hooks")]
    #[doc(hidden)]
    pub fn dp_nas_half_noise(config: &StoppingConfig) -> Result<StoppingRule> {
        let twice = StoppingConfig { epsilon: 2.0 * config.epsilon, ..config.clone() };
        Self::dp_nas(&twice)
    }

    fn new(config: &StoppingConfig, schedule: Schedule, noise: Option<Noise>) -> Result<StoppingRule> {
        let open = |field, value: f64| {
            if value > 0.0 && value < 1.0 { Ok(value) } else { Err(Error::config(field, "must be in (0, 1)", value)) }
        };
        let (alpha, beta, r) = (open("alpha", config.alpha)?, open("beta", config.beta)?, config.range);
        if !(r.is_finite() && r > 0.0 && (2.0 * r).is_finite()) {
            return Err(Error::config("range", "must be finite and > 0", r));
        }
        let range = RewardRange::new(-r, r, Reward::BITS, false)?;
        Ok(StoppingRule {
            range,
            alpha,
            beta,
            schedule,
            noise,
            sum: 0.into(),
            count: 0,
            mean: None,
            origin: Origin::here(),
        })
    }

    /// Takes a sample; true when the rule halts with it.
    ///
    /// # Errors
    /// `Halted` after the halt; `InvalidReward` for NaN, infinities and samples outside [-R, R].
    /// Nothing has changed.
    pub fn push(&mut self, sample: f64) -> Result<bool> {
        self.check()?;
        if self.mean.is_some() {
            return Err(Error::Halted);
        }
        *self.sum += i128::from(self.range.quantize(sample)?.units() - HALF);
        self.count += 1;
        let asked = match self.schedule {
            Schedule::Always => self.count as f64,
            Schedule::PowersOfTwo if self.count > 1 && self.count.is_power_of_two() => f64::from(self.count.ilog2()),
            Schedule::PowersOfTwo => return Ok(false),
        };
        let t = self.count as f64;
        // All in grid steps, times t: |sum| against t h_t (1 + 1/alpha) + c_t + B + A_t.
        let hoeffding = HALF as f64 * (2.0 * t * (16.0 * asked * asked / self.beta).ln()).sqrt();
        let mut threshold = hoeffding * (1.0 + 1.0 / self.alpha);
        if let Some(noise) = &mut self.noise {
            let once = (4.0 / self.beta).ln();
            threshold += noise.question.scale() as f64 * (once + (8.0 * asked * asked / self.beta).ln())
                + noise.release.scale() as f64 / self.alpha * once
                + (*noise.threshold + noise.question.sample(&mut noise.random)) as f64;
        }
        if (self.sum.unsigned_abs() as f64) < threshold {
            return Ok(false);
        }
        let noise = self.noise.as_mut().map_or(0, |noise| noise.release.sample(&mut noise.random));
        let released = std::mem::take(&mut *self.sum) + i128::from(noise);
        // From grid steps to the caller's unit: 2R is ONE of them, and 0 is the middle.
        self.mean = Some(self.range.width_from_unit(released as f64 / Reward::ONE as f64 / t));
        Ok(true)
    }

    /// Is this still the process that made the rule?
    ///
    /// # Errors
    /// `Poisoned` in a forked child, which would repeat its parent's noise.
    pub(crate) fn check(&self) -> Result<()> {
        self.origin.check()
    }

    /// The released mean.
    ///
    /// # Errors
    /// `NotReady` before the halt.
    pub fn mean(&self) -> Result<f64> {
        self.mean.ok_or(Error::NotReady)
    }

    /// Samples taken.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl Noise {
    fn new(config: &StoppingConfig) -> Result<Noise> {
        let mut random = Seed::new(config.test_seed)?.stream();
        // s1 = s2 = 12 R/eps = 6 * 2R/eps and s3 = 4 R/eps, each rounded up once.
        let question = Laplace::new(config.epsilon, 6 * Reward::ONE as u64)?;
        let release = Laplace::new(config.epsilon, 2 * Reward::ONE as u64)?;
        Ok(Noise { question, release, threshold: question.sample(&mut random).into(), random })
    }
}

impl std::fmt::Debug for StoppingRule {
    /// Released state only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoppingRule").field("count", &self.count).field("mean", &self.mean).finish_non_exhaustive()
    }
}
