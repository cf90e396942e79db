//! DP-UCB-INT: UCB on means that are released at intervals, with noise that fades.
//!
//! Tossou and Dimitrakakis (2016), Algorithm 3. **(eps', delta')-DP**, eps' = `epsilon` and
//! delta' = `delta` > 0 of the configuration, by their Corollary 3.2: v = `interval_exponent` in
//! (1, 1.5] and the rate eps give the release points, and the release at the n-th answer of an arm is
//! its whole sum plus Laplace(n^(v/2)), so it costs n^(-v/2) (their Lemma 3.1); a reward pays for
//! every later release of its arm, which advanced composition adds up. The corollary, with
//! e^x - 1 <= 2x: eps' <= 2 eps zeta(v) + sqrt(2 eps zeta(v) ln(1/delta')) as long as the sum of n^-v
//! over release points is at most eps zeta(v); the rate is its inverse, and the reported loss is the
//! composition of the releases really made (the arm with most). Regret as UCB's plus an additive
//! term (their Theorem 3.5, see below).
//!
//! **Release points.** `batch = 0`: the series of their Lemma B.1 (second form): the next one is the
//! first n with sum_(W < i <= n) i^-v >= n^-v/eps, W the last, which bounds the sum of n^-v over
//! release points by eps zeta(v), term by term. At eps' = 1, delta' = e^-10, v = 1.1 it first
//! releases at 46 answers, where f = ceil(1/eps) is 253. `batch = b > 0`: every
//! max(b, f) answers, as printed with b = 1.
//!
//! **Corrected.** As printed, (a) an idle arm whose count is a multiple of f is noised again at every
//! step, so that averaging removes the noise: here a release is made once, when its count is reached;
//! (b) the bonus is frozen with the mean, so a neglected arm's index never grows and with constant
//! probability the regret is linear: here the bonus follows t and only the noisy mean is frozen;
//! (c) Theorem 3.5's proof turns an inequality round: for v > 1 the noise of the mean never falls
//! below the width of n^(v/2-1), so no confidence bound is proved for the printed index. The printed
//! one is the default; `rigorous_index` adds the noise's width at t^-3.5 and restores the proof.
//!
//! Cost: select O(K) (vector code), update O(1), one power an answer (series) or a release (fixed);
//! 120 bytes an arm, whatever T.

use super::index::{self, Scores};
use super::{ArmState, Policy, Pull};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::privacy::{Heterogeneous, PrivacyLoss};
use crate::random::{Random, Seed};
use crate::reward::Reward;
use crate::table::Table;
use zeroize::Zeroizing;

pub struct DpUcbInt {
    /// v.
    exponent: f64,
    /// eps, what the corollary makes of (eps', delta').
    rate: f64,
    /// The fixed interval, or the series.
    interval: Option<u64>,
    /// Decisions that each arm gets first: the first release point.
    first: u64,
    rigorous: bool,
    config: Config,
    beta: f64,
    arms: Table<Arm>,
    scores: Scores,
    /// Decisions that were not cancelled.
    pulls: u64,
    /// What the arm with most releases has spent: all arms go through the same series.
    spent: Heterogeneous,
    /// How many that is.
    releases: u64,
    noise: Random,
}

#[derive(Clone, Default)]
struct Arm {
    sum: Zeroizing<i64>,
    count: u64,
    /// Decisions not yet answered: they count as pulls, so that a burst spreads over the arms.
    in_flight: u64,
    /// Sum of i^-v over the answers since the last release.
    since: f64,
    releases: u64,
    /// The last release: its mean, the scale of the mean's noise, and its count.
    mean: f64,
    scale: f64,
    released_at: u64,
}

impl DpUcbInt {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<DpUcbInt> {
        let exponent = config.interval_exponent;
        if !(exponent > 1.0 && exponent <= 1.5) {
            return Err(Error::config("interval_exponent", "must be in (1, 1.5]", exponent));
        }
        let rate = rate(config.epsilon_per_reward()?, config.delta_per_reward()?, exponent)?;
        let interval = (config.batch > 0).then(|| ((1.0 / rate).ceil() as u64).max(config.batch.into()));
        let mut policy = DpUcbInt {
            exponent,
            rate,
            interval,
            first: 0,
            rigorous: config.rigorous_index,
            config: config.clone(),
            beta: index::beta(config),
            arms: Table::new(config.arms as usize, |_| Arm::default())?,
            scores: Scores::new(config.arms)?,
            pulls: 0,
            spent: Heterogeneous::default(),
            releases: 0,
            noise: seed.stream(),
        };
        policy.first = interval.unwrap_or_else(|| policy.first_of_series());
        config.laplace(policy.loss(policy.first))?;
        Ok(policy)
    }

    /// n^(-v/2), the loss of the release at the n-th answer.
    fn loss(&self, n: u64) -> f64 {
        (n as f64).powf(-self.exponent / 2.0)
    }

    /// Is the answer that makes n, with `since` including it, a release point?
    fn due(&self, n: u64, since: f64) -> bool {
        match self.interval {
            Some(interval) => n.is_multiple_of(interval),
            None => since * self.rate * (n as f64).powf(self.exponent) >= 1.0,
        }
    }

    fn first_of_series(&self) -> u64 {
        let (mut n, mut since) = (1, 1.0);
        while !self.due(n, since) {
            n += 1;
            since += (n as f64).powf(-self.exponent);
        }
        n
    }

    fn release(&mut self, arm: u32) {
        let n = self.arms[arm as usize].count;
        // Past 2^34 answers and more the noise would leave its range: the last mean stands.
        let Ok(law) = self.config.laplace(self.loss(n)) else { return };
        let noise = law.sample(&mut self.noise);
        let arm = &mut self.arms[arm as usize];
        let unit = Reward::ONE as f64 * n as f64;
        (arm.mean, arm.scale, arm.released_at) = ((*arm.sum + noise) as f64 / unit, law.scale() as f64 / unit, n);
        arm.since = 0.0;
        arm.releases += 1;
        if arm.releases > self.releases {
            self.releases = arm.releases;
            self.spent.add(law.epsilon());
        }
    }

    /// The index as a function of t: the frozen mean, the bonus (and, if asked for, the width of the
    /// noise at t^-3.5) that follow it.
    fn rescore(&mut self, arm: u32) {
        let state = &self.arms[arm as usize];
        let pulls = state.count + state.in_flight;
        if state.releases == 0 && pulls < self.first {
            return self.scores.set(arm, f64::INFINITY, 0.0, 0.0);
        }
        let slope = if self.rigorous { state.scale } else { 0.0 };
        self.scores.set(arm, state.mean, 1.0 / (pulls as f64).sqrt(), slope);
    }
}

/// eps from (eps', delta') by Corollary 3.2, rounded down; at most 1.
fn rate(epsilon: f64, delta: f64, exponent: f64) -> Result<f64> {
    let log = (1.0 / delta).ln();
    let eight_zeta = 8.0 * zeta(exponent);
    // (sqrt(log + 4 eps') - sqrt(log))^2/(8 zeta), without the cancellation
    let rate = (4.0 * epsilon / ((log + 4.0 * epsilon).sqrt() + log.sqrt())).powi(2) / eight_zeta * (1.0 - 1e-12);
    if rate < 1.0 / f64::from(u32::MAX) {
        return Err(Error::config("epsilon", "must not be so small that no mean is released for years", epsilon));
    }
    Ok(rate.min(1.0))
}

/// Riemann's zeta for real v > 1, to double precision: Euler and Maclaurin's sum from n = 20.
fn zeta(v: f64) -> f64 {
    const N: f64 = 20.0;
    // B_2k/(2k)!
    const TERMS: [f64; 6] =
        [1.0 / 12.0, -1.0 / 720.0, 1.0 / 30240.0, -1.0 / 1_209_600.0, 1.0 / 47_900_160.0, -691.0 / 1_307_674_368_000.0];
    let head: f64 = (1..20).rev().map(|n| f64::from(n).powf(-v)).sum();
    let mut factor = v * N.powf(-v - 1.0);
    let mut tail = N.powf(1.0 - v) / (v - 1.0) + 0.5 * N.powf(-v);
    for (k, term) in TERMS.iter().enumerate() {
        tail += term * factor;
        let k = 2.0 * k as f64;
        factor *= (v + k + 1.0) * (v + k + 2.0) / (N * N);
    }
    head + tail
}

impl Policy for DpUcbInt {
    fn choose(&mut self) -> Pull {
        let ln_t = ((self.pulls + 1) as f64).ln();
        // A Laplace noise of scale b is beyond b ln(1/gamma) with probability gamma.
        let arm = self.scores.argmax((2.0 * ln_t).sqrt(), 3.5 * ln_t);
        self.arms[arm as usize].in_flight += 1;
        self.pulls += 1;
        self.rescore(arm);
        Pull { arm, phase: self.phase(), propensity: 1.0 }
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let exponent = self.exponent;
        let arm = &mut self.arms[pull.arm as usize];
        arm.in_flight -= 1;
        arm.count += 1;
        *arm.sum += reward.units();
        if self.interval.is_none() {
            arm.since += (arm.count as f64).powf(-exponent);
        }
        let (count, since) = (arm.count, arm.since);
        if self.due(count, since) {
            self.release(pull.arm);
        }
        self.rescore(pull.arm);
    }

    fn cancel(&mut self, pull: Pull) {
        self.arms[pull.arm as usize].in_flight -= 1;
        self.pulls -= 1;
        self.rescore(pull.arm);
    }

    fn arm(&self, arm: u32) -> ArmState {
        let arm = &self.arms[arm as usize];
        if arm.releases == 0 {
            return ArmState { mean: f64::NAN, width: f64::NAN, active: true };
        }
        // Hoeffding for the rewards and Laplace for the noise, beta/2 each
        let rewards = ((4.0 / self.beta).ln() / (2.0 * arm.released_at as f64)).sqrt();
        ArmState { mean: arm.mean, width: rewards + arm.scale * (2.0 / self.beta).ln(), active: true }
    }

    /// The most releases of an arm.
    fn phase(&self) -> u32 {
        u32::try_from(self.releases).unwrap_or(u32::MAX)
    }

    fn active(&self) -> u32 {
        self.arms.len() as u32
    }

    fn privacy(&self) -> PrivacyLoss {
        PrivacyLoss::Heterogeneous(self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_to_double_precision() {
        // Known values: zeta(3/2), zeta(1.1) and zeta(2) = pi^2/6.
        for (v, known) in [
            (1.5, 2.612_375_348_685_488),
            (1.1, 10.584_448_464_950_81),
            (2.0, std::f64::consts::PI * std::f64::consts::PI / 6.0),
        ] {
            assert!((zeta(v) / known - 1.0).abs() < 1e-14, "zeta({v}) = {}", zeta(v));
        }
    }

    fn policy(epsilon: f64, batch: u32) -> DpUcbInt {
        let config = Config { delta: (-10f64).exp(), batch, test_seed: Some([1; 32]), ..Config::new(2, epsilon) };
        DpUcbInt::new(&config, &mut Seed::new(config.test_seed).unwrap()).unwrap()
    }

    #[test]
    fn the_rate_is_the_corollarys() {
        for epsilon in [0.1, 1.0, 5.0] {
            let policy = policy(epsilon, 1);
            let spent = policy.rate * 2.0 * zeta(1.1);
            let target = spent + (spent * 10.0).sqrt(); // Corollary 3.1
            assert!(target <= epsilon && target > epsilon * (1.0 - 1e-9), "{target}");
            assert_eq!(policy.first, (1.0 / policy.rate).ceil() as u64);
            println!("eps' = {epsilon}: rate {}, f {}, series {}", policy.rate, policy.first, super::tests::policy(epsilon, 0).first);
        }
    }

    #[test]
    fn the_series_is_never_longer_and_meets_the_target() {
        for epsilon in [0.1, 1.0] {
            let (series, fixed) = (policy(epsilon, 0), policy(epsilon, 1));
            assert!(series.first < fixed.first);
            let (mut spent, mut since, mut last, mut power_sum) = (Heterogeneous::default(), 0.0, 0, 0.0);
            for n in 1..3_000_000u64 {
                since += (n as f64).powf(-1.1);
                if series.due(n, since) {
                    assert!(n - last <= fixed.first);
                    (since, last) = (0.0, n);
                    power_sum += (n as f64).powf(-1.1);
                    spent.add(series.loss(n));
                }
            }
            assert!(power_sum <= series.rate * zeta(1.1));
            let loss = spent.epsilon((-10f64).exp());
            assert!(loss <= epsilon && loss > 0.3 * epsilon, "{loss}");
            println!("eps' = {epsilon}: first {}, loss after 3e6 answers {loss}", series.first);
        }
    }
}
