//! DP-UCB-INT: UCB on means that are released at intervals, with decreasing noise.
//!
#![doc = include_str!("../../../../docs/theory/ucb-int.md")]

use crate::config::Config;
use crate::error::{Error, Result};
use crate::moving::{Archive, persist};
use crate::policy::contract::{ArmState, PolicyCounts};
use crate::policy::papers::counting::{CountedArms, Counting, Rule};
use crate::policy::papers::scores::Scores;
use crate::privacy::composition::zcdp_to_approximate;
use crate::privacy::{Heterogeneous, PrivacyLoss, Responses, first, least_near};
use crate::random::{Random, Seed};
use crate::reward::Reward;
use std::f64::consts::LN_2;
use zeroize::Zeroizing;

pub struct DpUcbInt {
    schedule: ReleaseSchedule,
    rigorous: bool,
    config: Config,
    /// ln(1/beta): reported widths hold with probability 1 - beta.
    ln_inverse_beta: f64,
    scores: Scores,
    /// Number of releases of the arm with the most.
    releases: u64,
    account: Account,
    noise: Random,
}

/// The sum of an arm, and its last release.
#[derive(Default)]
pub struct IntervalSum {
    sum: Zeroizing<i64>,
    /// The next release point.
    next: u64,
    releases: u64,
    /// The last release: its mean, the scale of the mean's noise, and its number of rewards.
    mean: f64,
    scale: f64,
    released_at: u64,
}

/// The numbers of rewards at which an arm's mean is released: public, and the same for all arms.
#[derive(Clone, Copy)]
struct ReleaseSchedule {
    /// v, the exponent of the losses.
    exponent: f64,
    /// l, the interval of the series.
    interval: f64,
    /// Fixed number of rewards between releases, instead of the series.
    fixed: Option<u64>,
    /// c, the factor by which the noise is smaller than the paper's.
    c: f64,
}

/// The loss so far, as if all rewards were of one arm: the loss of its releases so far.
struct Account {
    rewards: u64,
    next: u64,
    spent: Heterogeneous,
    /// Loss of all releases of the schedule.
    epsilon: f64,
    delta: f64,
}

impl ReleaseSchedule {
    /// Maximum of c, which is tried in `STEPS` steps for each factor e.
    const MOST: f64 = 1024.0;
    const STEPS: f64 = 256.0;

    /// The paper's release points, with the least noise at which all releases together are (epsilon, delta)-DP.
    fn within(epsilon: f64, delta: f64, exponent: f64, batch: u32) -> Result<ReleaseSchedule> {
        let interval = interval(epsilon, delta, exponent)?;
        let fixed = (batch > 0).then(|| (interval.ceil() as u64).max(batch.into()));
        let interval = fixed.map_or(interval, |fixed| fixed as f64);
        let papers = ReleaseSchedule { exponent, interval, fixed, c: 1.0 };
        let releases = papers.releases();
        let c = |step: u64| Self::MOST * (-((step - 1) as f64) / Self::STEPS).exp();
        let excess = |step: u64| match step {
            0 => f64::INFINITY,
            step => excess(&releases.times(c(step)), epsilon, delta),
        };
        // Near the Gaussian release of the same squares, mu^2/2 + mu z = epsilon, where delta is about
        // e^(-z^2/2) mu/(sqrt(2 pi) z^2).
        let (log, mut z, mut mu) = (-delta.ln(), (-2.0 * delta.ln()).sqrt(), 0.0);
        for _ in 0..3 {
            mu = 2.0 * epsilon / (z + (z * z + 2.0 * epsilon).sqrt());
            z = (2.0 * (log - 0.92 + mu.ln() - 2.0 * z.ln())).max(1.0).sqrt();
        }
        let guess = Self::MOST / (1.07 * mu / releases.all_squares().sqrt());
        let most = 20.0 * Self::STEPS;
        let step = least_near(1 + (guess.ln().max(0.0) * Self::STEPS) as u64, most as u64, excess);
        if excess(step) > 0.0 {
            return Err(Error::config("epsilon", "is too small for this delta", epsilon));
        }
        Ok(ReleaseSchedule { c: c(step), ..papers })
    }

    /// c n^(-v/2), the loss of the release at the n-th reward.
    fn loss(&self, n: u64) -> f64 {
        self.c * (n as f64).powf(-self.exponent / 2.0)
    }

    /// The release point after the last, 0 before the first.
    fn next(&self, last: u64) -> u64 {
        if let Some(fixed) = self.fixed {
            return last + fixed;
        }
        let (v, from) = (self.exponent, last as f64 + 0.5);
        let due = |n: u64| {
            let sum = -((1.0 - v) * ((n - last) as f64 / from).ln_1p()).exp_m1() * from.powf(1.0 - v) / (v - 1.0);
            sum * (n as f64).powf(v) >= self.interval
        };
        // i^-v is at least n^-v and at most the integral around i. So the next point is at most l rewards away.
        first(last, last + self.interval.ceil() as u64, due)
    }

    /// Maximum number of rewards of an arm at a release.
    fn end(&self) -> f64 {
        f64::min(38.0, 52.0 / self.exponent).exp2()
    }

    /// An upper bound of the sum of the losses' squares after this release point. For the series, n^-v is at most the
    /// integral over its interval, divided by l. For fixed intervals, it is at most the integral around n.
    fn squares_after(&self, last: u64) -> f64 {
        let round = 0.5 * self.fixed.unwrap_or(1) as f64;
        let (from, to) = (last as f64 + round, self.end() + round);
        let power = 1.0 - self.exponent;
        let integral = from.powf(power) * (power * (to / from).ln()).exp_m1() / power;
        self.c * self.c * (integral / self.interval).max(0.0) * (1.0 + 1e-9)
    }

    /// All releases of the schedule, the small ones by a bound.
    fn releases(&self) -> Responses {
        let mut last = self.next(0);
        let mut large = vec![self.loss(last)];
        let small = Responses::SMALL * (large[0] * large[0] + self.squares_after(last)).sqrt();
        while self.loss(last) > small && (last as f64) < self.end() {
            last = self.next(last);
            large.push(self.loss(last));
        }
        Responses { large, cap: self.loss(last), squares: self.squares_after(last) }
    }
}

/// The excess of the releases' loss over (epsilon, delta), as the logarithm of the ratio of deltas.
fn excess(releases: &Responses, epsilon: f64, delta: f64) -> f64 {
    // zCDP may already prove that there is none; at a delta of 1e-100 this is faster.
    if zcdp_to_approximate(releases.all_squares() / 2.0, delta) <= epsilon {
        return -1.0;
    }
    (releases.delta(epsilon) / delta).ln()
}

/// l = 1/eps, where eps follows from (eps', delta') by Corollary 3.2; at least 1.
fn interval(epsilon: f64, delta: f64, exponent: f64) -> Result<f64> {
    let log = -delta.ln();
    // (sqrt(log + 4 eps') - sqrt(log))^2/(8 zeta), computed without cancellation.
    let rate = (4.0 * epsilon / ((log + 4.0 * epsilon).sqrt() + log.sqrt())).powi(2) / (8.0 * zeta(exponent));
    if rate < 1.0 / f64::from(u32::MAX) {
        return Err(Error::config("epsilon", "must not be so small that no mean is released for years", epsilon));
    }
    Ok((1.0 / rate).max(1.0))
}

/// Riemann's zeta for real v > 1, to double precision, by the Euler-Maclaurin sum from n = 20.
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

impl Account {
    /// Counts one more reward, of any arm.
    fn add_reward(&mut self, schedule: &ReleaseSchedule) {
        self.rewards += 1;
        if self.rewards == self.next {
            if self.rewards as f64 <= schedule.end() {
                self.spent.add(schedule.loss(self.rewards));
            }
            self.next = schedule.next(self.rewards);
        }
    }
}

pub fn new(config: &Config, seed: &mut Seed) -> Result<Counting<IntervalSum, DpUcbInt>> {
    config.check_arms(1 << 20)?;
    let exponent = config.interval_exponent;
    Error::unless(exponent > 1.0 && exponent <= 1.5, "interval_exponent", "must be in (1, 1.5]", exponent)?;
    let (epsilon, delta) = (config.epsilon_per_reward()?, config.delta_per_reward()?);
    let schedule = ReleaseSchedule::within(epsilon, delta, exponent, config.batch)?;
    let first = schedule.next(0);
    config.laplace(schedule.loss(first))?;
    let rule = DpUcbInt {
        schedule,
        rigorous: config.rigorous_index,
        config: config.clone(),
        ln_inverse_beta: config.ln_inverse_beta(),
        scores: Scores::new(config.arms)?,
        releases: 0,
        account: Account { rewards: 0, next: first, spent: Heterogeneous::default(), epsilon, delta },
        noise: seed.stream(),
    };
    Counting::by(rule, config, || IntervalSum { next: first, ..IntervalSum::default() })
}

impl DpUcbInt {
    /// Releases an arm's mean of its first n rewards.
    fn release(&mut self, arm: &mut IntervalSum, n: u64) {
        arm.next = self.schedule.next(n);
        if n as f64 > self.schedule.end() {
            return; // the last mean remains
        }
        let Ok(distribution) = self.config.laplace(self.schedule.loss(n)) else { return };
        self.noise.renew();
        let noise = distribution.sample(&mut self.noise);
        let unit = Reward::ONE as f64 * n as f64;
        let mean = (*arm.sum + noise) as f64 / unit;
        (arm.mean, arm.scale, arm.released_at) = (mean, distribution.scale() as f64 / unit, n);
        arm.releases += 1;
        self.releases = self.releases.max(arm.releases);
    }
}

impl Rule<IntervalSum> for DpUcbInt {
    fn best(&mut self, arms: &CountedArms<IntervalSum>) -> u32 {
        // Laplace noise of scale b exceeds b ln(1/gamma) with probability gamma.
        self.scores.argmax((2.0 * arms.ln_t()).sqrt(), 3.5 * arms.ln_t())
    }

    fn learn(&mut self, arms: &mut CountedArms<IntervalSum>, arm: u32, reward: Reward) {
        let arm = &mut arms.all[arm as usize];
        arm.count += 1;
        *arm.sum.sum += reward.units();
        if arm.count == arm.sum.next {
            self.release(&mut arm.sum, arm.count);
        }
        self.account.add_reward(&self.schedule);
    }

    /// Sets the index as a function of t: the frozen mean, plus the bonus, which depends on t (and with `rigorous`
    /// the width of the noise at t^-3.5).
    fn changed(&mut self, arms: &CountedArms<IntervalSum>, arm: u32) {
        /// Above every index. The pulls are subtracted, so that the arms are pulled in turn.
        const FIRST: f64 = 1e15;
        let (pulls, sum) = (arms.all[arm as usize].pulls(), &arms.all[arm as usize].sum);
        if sum.releases == 0 && pulls < sum.next {
            return self.scores.set(arm, FIRST - pulls as f64, 0.0, 0.0);
        }
        let n = if pulls < sum.next { sum.released_at } else { pulls };
        let slope = if self.rigorous { sum.scale } else { 0.0 };
        self.scores.set(arm, sum.mean, 1.0 / (n as f64).sqrt(), slope);
    }

    /// The number of releases of the arm with the most.
    fn phase(&self) -> u32 {
        u32::try_from(self.releases).unwrap_or(u32::MAX)
    }

    fn state(&self, arms: &CountedArms<IntervalSum>, arm: u32) -> ArmState {
        let arm = &arms.all[arm as usize].sum;
        if arm.releases == 0 {
            return ArmState::unknown(true);
        }
        // Hoeffding for the rewards and Laplace for the noise, beta/2 each.
        let log = LN_2 + self.ln_inverse_beta; // ln(2/beta)
        let rewards = ((LN_2 + log) / (2.0 * arm.released_at as f64)).sqrt();
        ArmState {
            mean: arm.mean,
            width: rewards + arm.scale * log,
            effective_pulls: arm.released_at as f64,
            active: true,
        }
    }

    fn counts(&self, arms: &CountedArms<IntervalSum>) -> PolicyCounts {
        let Account { spent: releases, epsilon, delta, .. } = self.account;
        let loss = PrivacyLoss::Scheduled { releases, epsilon, delta };
        PolicyCounts { active: arms.all.len() as u32, ..PolicyCounts::of(loss) }
    }

    fn snapshot(&mut self, _arms: &mut CountedArms<IntervalSum>, _with: &mut Archive) -> Result<()> {
        Err(Error::unsupported("a snapshot: its next release is of all of an arm's rewards, and their sum is raw"))
    }
}

persist!(DpUcbInt { scores, releases, account } made { schedule, rigorous, config, ln_inverse_beta, noise });
persist!(IntervalSum { sum, next, releases, mean, scale, released_at });
persist!(Account { rewards, next, spent, epsilon, delta });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::contract::Policy;

    const DELTA: f64 = 4.539_992_976_248_485e-5; // e^-10

    fn within(epsilon: f64, batch: u32) -> ReleaseSchedule {
        ReleaseSchedule::within(epsilon, DELTA, 1.1, batch).unwrap()
    }

    /// Release points up to this many rewards.
    fn points(schedule: &ReleaseSchedule, most: u64) -> Vec<u64> {
        let next = |&last: &u64| Some(schedule.next(last)).filter(|&n| n <= most);
        std::iter::successors(next(&0), next).collect()
    }

    #[test]
    fn the_series_is_the_lemmas() {
        for epsilon in [0.1, 1.0, 3.0] {
            let series = within(epsilon, 0);
            let (mut last, mut gap) = (0, 0);
            for n in points(&series, 20_000) {
                // Lemma B.1 literally. The integral around i is slightly more than i^-v, by a ninth at i = 1.
                let sum = |to: u64| (last + 1..=to).map(|i| (i as f64).powf(-1.1)).sum::<f64>() * (to as f64).powf(1.1);
                assert!(n == last + 1 || sum(n - 1) < series.interval, "{epsilon}: {n}");
                assert!(sum(n + n / 40 + 1) >= series.interval, "{epsilon}: {n}");
                assert!(n - last <= series.interval.ceil() as u64 && n - last >= gap, "{epsilon}: {n}");
                (gap, last) = (n - last, n);
            }
        }
        // For large n the gap is the interval.
        let series = within(1.0, 0);
        assert_eq!(series.next(1 << 44) - (1 << 44), series.interval.ceil() as u64);
    }

    #[test]
    fn the_squares_left_are_bounded_tightly() {
        for schedule in [within(1.0, 0), within(0.1, 0), within(1.0, 1), within(3.0, 1)] {
            let points = points(&schedule, 10_000_000);
            let (first, last) = (points[0], points[points.len() - 1]);
            let squares: f64 = points[1..].iter().map(|&n| schedule.loss(n).powi(2)).sum();
            let (bound, rest) = (schedule.squares_after(first), schedule.squares_after(last));
            assert!(squares + rest <= bound && squares + rest > 0.97 * bound, "{squares} {rest} {bound}");
        }
    }

    /// The exact delta of Laplace noises, on a grid: each loss is split between its two neighbours so that the mean
    /// is kept.
    fn on_a_grid(losses: &[f64], epsilon: f64) -> f64 {
        const STEP: f64 = 1e-3;
        const HALF: usize = 4000;
        let mut distribution = vec![0.0; 2 * HALF];
        distribution[HALF] = 1.0;
        for &loss in losses {
            // noise below 0, above 1, and between
            let mut atoms = vec![(loss, 0.5), (-loss, 0.5 * (-loss).exp())];
            let cell = |i: u32| 0.5 * ((-loss * f64::from(i) / 8.0).exp() - (-loss * f64::from(i + 1) / 8.0).exp());
            atoms.extend((0..8).map(|i| (loss * (1.0 - (2.0 * f64::from(i) + 1.0) / 8.0), cell(i))));
            let mut next = vec![0.0; 2 * HALF];
            for (atom, chance) in atoms {
                let (down, up) = ((atom / STEP).floor(), (atom / STEP).rem_euclid(1.0));
                for (shift, chance) in [(down, chance * (1.0 - up)), (down + 1.0, chance * up)] {
                    let shift = shift as isize;
                    let reached = distribution.iter().enumerate().filter(|(_, x)| **x > 1e-25);
                    reached.for_each(|(i, x)| next[i.checked_add_signed(shift).unwrap()] += x * chance);
                }
            }
            distribution = next;
        }
        let above = distribution.iter().enumerate().map(|(i, x)| (x, (i as f64 - HALF as f64) * STEP));
        above.filter(|(_, l)| *l > epsilon).map(|(x, l)| x * (1.0 - (epsilon - l).exp())).sum()
    }

    #[test]
    fn the_loss_is_the_truth_but_for_a_percent() {
        let series = within(1.0, 0);
        let losses: Vec<f64> = points(&series, 50_000).into_iter().map(|n| series.loss(n)).collect();
        assert!(losses.len() > 150);
        for epsilon in [0.5, 0.7, 0.9] {
            let truth = on_a_grid(&losses, epsilon);
            let ours = |epsilon| Responses { large: losses.clone(), cap: 0.0, squares: 0.0 }.delta(epsilon);
            assert!(ours(epsilon) > 0.99 * truth && ours(1.03 * epsilon) < truth, "{truth:e} {:e}", ours(epsilon));
        }
    }

    #[test]
    fn the_noise_is_the_least_that_keeps_the_promise() {
        for (epsilon, first, less) in [(0.1, 1718, 2.0), (1.0, 45, 1.6), (5.0, 6, 1.6)] {
            for batch in [0, 1, 1000] {
                let schedule = within(epsilon, batch);
                let at = |c: f64| excess(&ReleaseSchedule { c, ..schedule }.releases(), epsilon, DELTA);
                assert!(at(schedule.c) <= 0.0 && at(1.005 * schedule.c) > 0.0, "{epsilon} {batch}");
                println!("{epsilon} {batch}: {} {} {}", schedule.interval, schedule.next(0), schedule.c);
                assert!(
                    batch != 0 || schedule.next(0) == first && schedule.c >= less,
                    "{epsilon}: {}",
                    schedule.next(0)
                );
            }
        }
        assert_eq!(points(&within(1.0, 0), 400), [45, 175, 351]);
        assert_eq!((within(1.0, 1).fixed, within(1.0, 1000).fixed), (Some(253), Some(1000)));
        // The loss with the paper's noise.
        let papers = ReleaseSchedule { c: 1.0, ..within(1.0, 0) };
        assert!(excess(&papers.releases(), 0.59, DELTA) < 0.0 && excess(&papers.releases(), 0.57, DELTA) > 0.0);
    }

    #[test]
    fn the_interval_is_the_corollarys() {
        for epsilon in [0.1, 1.0, 3.0] {
            let spent = 2.0 * zeta(1.1) / within(epsilon, 0).interval;
            let target = spent + (spent * 10.0).sqrt(); // Corollary 3.1
            assert!((target / epsilon - 1.0).abs() < 1e-9, "{target}");
        }
        // Known values: zeta(3/2), zeta(1.1) and zeta(2) = pi^2/6.
        for (v, known) in [
            (1.5, 2.612_375_348_685_488),
            (1.1, 10.584_448_464_950_81),
            (2.0, std::f64::consts::PI * std::f64::consts::PI / 6.0),
        ] {
            assert!((zeta(v) / known - 1.0).abs() < 1e-14, "zeta({v}) = {}", zeta(v));
        }
    }

    #[test]
    fn every_legal_promise_has_its_noise() {
        for exponent in [1.0 + 1e-9, 1.001, 1.1, 1.3, 1.5] {
            for epsilon in [1e-5, 1e-3, 0.7, 10.0, 1e3, 1e300] {
                for delta in [1e-300, 1e-12, 1e-3, 0.5, 0.999] {
                    for batch in [0, 1, 1 << 20, u32::MAX] {
                        let Ok(schedule) = ReleaseSchedule::within(epsilon, delta, exponent, batch) else {
                            assert!(epsilon < 1e-2 || exponent < 1.01, "{epsilon} {delta} {exponent} {batch}");
                            continue;
                        };
                        assert!(
                            excess(&schedule.releases(), epsilon, delta) <= 0.0,
                            "{epsilon} {delta} {exponent} {batch}"
                        );
                        assert!(schedule.c >= 0.9, "{epsilon} {delta} {exponent} {batch}: {}", schedule.c);
                    }
                }
            }
        }
    }

    /// The report is a function of the number of rewards, whichever arms were pulled and whatever the rewards were.
    #[test]
    fn the_account_is_of_answers_alone() {
        let config = Config { delta: DELTA, test_seed: Some([1; 32]), ..Config::new(2, 1.0) };
        let policy = || new(&config, &mut Seed::new(config.test_seed).unwrap()).unwrap();
        let (mut good, mut bad, mut one) = (policy(), policy(), policy());
        for _ in 0..20_000 {
            for (policy, best) in [(&mut good, 0), (&mut bad, 1)] {
                let pull = policy.choose();
                let reward = if pull.arm() == best { Reward::ONE as u32 } else { 0 };
                policy.observe(pull, Reward::from_units(reward));
            }
            // All rewards are of one arm.
            one.rule.learn(&mut one.arms, 0, Reward::MIN);
            assert_eq!(good.counts().loss, bad.counts().loss);
            assert_eq!(good.counts().loss, one.counts().loss);
        }
        assert_eq!(one.rule.releases, points(&one.rule.schedule, 20_000).len() as u64);
        let PrivacyLoss::Scheduled { releases, epsilon, delta } = one.counts().loss else { panic!() };
        assert_eq!((epsilon, delta), (1.0, DELTA));
        let sum: f64 = points(&one.rule.schedule, 20_000).into_iter().map(|n| one.rule.schedule.loss(n)).sum();
        assert!((releases.basic() / sum - 1.0).abs() < 1e-12);
        assert!(one.counts().loss.epsilon(DELTA, 1) == 1.0 && releases.epsilon(DELTA) > 1.0);
    }
}
