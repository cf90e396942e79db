//! Stopping rules: sample until the mean is known to a factor of 1 +- alpha, then release it once.
//!
#![doc = include_str!("../../docs/theory/stopping.md")]

use crate::error::{Error, Result, check_share};
use crate::noise::Laplace;
use crate::os::Origin;
use crate::random::{Random, Seed};
use crate::reward::{Reward, RewardRange};
use zeroize::Zeroizing;

/// The configuration of a stopping rule.
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
    /// `None` = entropy of the operating system; `Some` = reproducible and NOT private.
    pub test_seed: Option<[u8; 32]>,
}

impl StoppingConfig {
    /// A configuration with entropy of the operating system.
    pub fn new(range: f64, alpha: f64, beta: f64, epsilon: f64) -> StoppingConfig {
        StoppingConfig { range, alpha, beta, epsilon, test_seed: None }
    }
}

/// One run of a stopping rule.
pub struct StoppingRule {
    range: RewardRange,
    alpha: f64,
    beta: f64,
    schedule: CheckSchedule,
    noise: Option<RuleNoise>,
    /// Sum of the samples in grid steps, where 0 is the middle of the range. Wiped at the halt.
    sum: Zeroizing<i128>,
    count: u64,
    mean: Option<f64>,
    seeded: bool,
    origin: Origin,
}

/// The times at which the mean is compared with the threshold.
#[derive(Clone, Copy)]
enum CheckSchedule {
    Always,
    PowersOfTwo,
}

/// The three noises of the private rules.
struct RuleNoise {
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
    /// `InvalidConfig` if the range is not in (0, 1e290], or alpha or beta is outside (0, 1).
    pub fn nas(config: &StoppingConfig) -> Result<StoppingRule> {
        Self::new(config, CheckSchedule::Always, None)
    }

    /// DP-NAS.
    ///
    /// # Errors
    /// As [`nas`](Self::nas), and for an epsilon for which there is no noise; `Entropy`.
    pub fn dp_nas(config: &StoppingConfig) -> Result<StoppingRule> {
        Self::new(config, CheckSchedule::Always, Some(RuleNoise::new(config)?))
    }

    /// DP-exponential-NAS.
    ///
    /// # Errors
    /// As [`dp_nas`](Self::dp_nas).
    pub fn dp_exp_nas(config: &StoppingConfig) -> Result<StoppingRule> {
        Self::new(config, CheckSchedule::PowersOfTwo, Some(RuleNoise::new(config)?))
    }

    fn new(config: &StoppingConfig, schedule: CheckSchedule, noise: Option<RuleNoise>) -> Result<StoppingRule> {
        check_share("alpha", config.alpha)?;
        check_share("beta", config.beta)?;
        let r = config.range;
        Error::unless(r > 0.0 && r <= RewardRange::FARTHEST, "range", "must be > 0 and at most 1e290", r)?;
        let range = RewardRange::new(-r, r, Reward::BITS, false)?;
        Ok(StoppingRule {
            range,
            alpha: config.alpha,
            beta: config.beta,
            schedule,
            noise,
            sum: 0.into(),
            count: 0,
            mean: None,
            seeded: config.test_seed.is_some(),
            origin: Origin::here(),
        })
    }

    /// Adds a sample. Returns true if the rule halts with it.
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
            CheckSchedule::Always => self.count as f64,
            CheckSchedule::PowersOfTwo if self.count > 1 && self.count.is_power_of_two() => {
                f64::from(self.count.ilog2())
            }
            CheckSchedule::PowersOfTwo => return Ok(false),
        };
        let threshold = self.threshold(asked);
        let noise = self.noise.as_mut().map_or(0, RuleNoise::for_question);
        if !self.reaches(threshold, noise) {
            return Ok(false);
        }
        let noise = self.noise.as_mut().map_or(0, |noise| noise.release.sample(&mut noise.random));
        let released = std::mem::take(&mut *self.sum) + i128::from(noise);
        // From grid steps to the caller's unit: 2R is Reward::ONE steps, and 0 is the middle.
        self.mean = Some(self.range.width_from_unit(released as f64 / Reward::ONE as f64 / self.count as f64));
        Ok(true)
    }

    /// t h_t (1 + 1/alpha) + c_t in grid steps, rounded up; public.
    fn threshold(&self, asked: f64) -> i128 {
        let t = self.count as f64;
        // A difference of logarithms, because c/beta could overflow.
        let log = |c: f64| c.ln() - self.beta.ln();
        let hoeffding =
            |c: f64| HALF as f64 * (2.0 * t * (log(c) + 2.0 * asked.ln())).sqrt() * (1.0 + 1.0 / self.alpha);
        let threshold = match &self.noise {
            None => hoeffding(4.0),
            Some(noise) => {
                let (question, release) = (noise.question.scale() as f64, noise.release.scale() as f64);
                hoeffding(16.0) + question * (log(4.0) + log(8.0) + 2.0 * asked.ln()) + release / self.alpha * log(4.0)
            }
        };
        threshold.ceil() as i128
    }

    /// Whether |sum| >= threshold + noise, in integers.
    fn reaches(&self, threshold: i128, noise: i128) -> bool {
        self.sum.abs() - noise >= threshold
    }

    /// Checks that this still is the process that created the rule.
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

    /// Number of samples taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// False for NAS, and under a test seed.
    pub fn is_private(&self) -> bool {
        self.noise.is_some() && !self.seeded
    }
}

impl RuleNoise {
    fn new(config: &StoppingConfig) -> Result<RuleNoise> {
        let mut random = Seed::new(config.test_seed)?.stream();
        // s1 = s2 = 12 R/eps = 6 * 2R/eps and s3 = 4 R/eps, each rounded up once.
        let question = Laplace::new(config.epsilon, 6 * Reward::ONE as u64)?;
        let release = Laplace::new(config.epsilon, 2 * Reward::ONE as u64)?;
        Ok(RuleNoise { question, release, threshold: question.sample(&mut random).into(), random })
    }

    /// B + A_t.
    fn for_question(&mut self) -> i128 {
        i128::from(*self.threshold) + i128::from(self.question.sample(&mut self.random))
    }
}

impl std::fmt::Debug for StoppingRule {
    /// Shows released state only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoppingRule").field("count", &self.count).field("mean", &self.mean).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shifting sum and noise together does not change the result of a comparison, at any size.
    #[test]
    fn the_comparison_is_exact() {
        let mut random = Seed::new(Some([3; 32])).unwrap().stream();
        // The largest possible noise: its numbers are beyond those that doubles hold exactly.
        let config = StoppingConfig::new(1.0, 0.5, 0.05, 1e-7);
        let mut rule = StoppingRule::dp_nas(&config).unwrap();
        let mut beyond = 0;
        for count in 1..2000 {
            rule.count = count;
            let threshold = rule.threshold(count as f64);
            let noise = i128::from(random.next_u64() >> random.below(16));
            let edge = threshold + noise;
            for (sum, answer) in [(edge - 1, false), (edge, true), (edge + 1, true), (1 - edge, false), (-edge, true)] {
                *rule.sum = sum;
                assert_eq!(rule.reaches(threshold, noise), answer, "{edge} {sum}");
            }
            beyond += u32::from(edge > 1 << 53);
        }
        assert!(beyond > 500, "{beyond}");
    }

    #[test]
    fn extreme_settings_have_thresholds() {
        for (alpha, beta) in [(5e-324, 0.5), (0.5, 5e-324), (5e-324, 5e-324)] {
            let config = StoppingConfig { test_seed: Some([1; 32]), ..StoppingConfig::new(1.0, alpha, beta, 1.0) };
            for make in [StoppingRule::nas, StoppingRule::dp_nas, StoppingRule::dp_exp_nas] {
                let mut rule = make(&config).unwrap();
                assert!((0..100).all(|_| rule.push(1.0) == Ok(false)), "{alpha} {beta}");
            }
        }
        // ln(16 t^2/beta) at the smallest beta is finite.
        let config = StoppingConfig::new(1.0, 0.5, 5e-324, 1.0);
        let mut rule = StoppingRule::nas(&config).unwrap();
        rule.count = 1;
        let exact = HALF as f64 * (2.0 * (4f64.ln() + 1074.0 * 2f64.ln())).sqrt() * 3.0;
        assert!((rule.threshold(1.0) as f64 / exact - 1.0).abs() < 1e-9);
    }
}
