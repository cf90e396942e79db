//! Computes the evidence of an arm's releases against a mean of q, in nats.

use super::released::{Evidence, Term};
use crate::policy::cumulant::Cumulant;

/// Maximum number of nats that the likelihood adds to the exponent.
pub const BAND: f64 = 3.0;

/// Maximum of l w, so that e^(-l w) stays within the doubles.
const STEEPEST: f64 = 600.0;

impl Evidence {
    /// D(q) and its derivative:
    ///
    /// D(q) = sup over 0 <= l < limit/max w of -l Z - sum_b g_b \[n_b ln(1 - q_b + q_b e^(-l w_b)) + k_b Phi(l w_b)\],
    /// and 0 where Z >= q W, with q_b = q E_b/n_b.
    ///
    /// The expression is concave in l. Newton's method on its derivative, kept between two bounds, finds the maximum;
    /// any l gives a valid bound. At a fixed l the expression is convex in q. So D is convex, and its tangent at any
    /// q is nowhere above it.
    pub fn exponent(&self, q: f64) -> (f64, f64) {
        let lack = q * self.weight - self.sum;
        if lack <= 0.0 || self.is_empty() {
            return (0.0, 0.0);
        }
        // The derivative is at most lack - l V sum g k w^2, and decreases to minus infinity at the limit.
        let (noise, spread) = self.variances();
        // A prior has no noise, and therefore no limit.
        let limit = |t: &Term| if t.noises > 0.0 { self.distribution.limit().min(STEEPEST) } else { STEEPEST };
        let limits = self.terms().iter().map(|t| limit(t) / t.weight);
        let steepest = limits.fold(f64::INFINITY, f64::min) * (1.0 - 1e-12);
        let high = (lack / noise).min(steepest);
        // Newton's first step from 0, where rewards have variance q (1 - q).
        let start = f64::min(0.5 * high, lack / (q * (1.0 - q) * spread + noise));
        let derivative = |l: f64| {
            let (mut first, mut second) = (-self.sum, 0.0);
            for t in self.terms() {
                // The mean of a Bernoulli reward of mean q_b tilted by e^(-l w r).
                let (rewards, q) = (t.rewards(), t.seen(q));
                let v = q * (-l * t.weight).exp() / remaining(q, l * t.weight);
                let (phi, bend) = if t.noises > 0.0 { self.distribution.slopes(l * t.weight) } else { (0.0, 0.0) };
                first += t.discount * t.weight * (rewards * v - t.noises * phi);
                second -= t.discount * t.weight * t.weight * (rewards * v * (1.0 - v) + t.noises * bend);
            }
            (first, second)
        };
        let l = zero(start, (0.0, high), |l| 1e-9 * l, derivative);
        let (mut value, mut slope) = (-l * self.sum, 0.0);
        for t in self.terms() {
            let (s, q) = (l * t.weight, t.seen(q));
            let left = remaining(q, s);
            let noise = if t.noises > 0.0 { t.noises * self.distribution.at(s) } else { 0.0 };
            value -= t.discount * (t.rewards() * log_remaining(q, s, left) + noise);
            slope += t.discount * t.count * -(-s).exp_m1() / left;
        }
        if value > 0.0 { (value, slope) } else { (0.0, 0.0) }
    }

    /// The variance of the noise in Z, and what that of the rewards is a multiple of.
    fn variances(&self) -> (f64, f64) {
        let total = |each: fn(&Term) -> f64| self.terms().iter().map(each).sum::<f64>();
        let noise = self.distribution.variance() * total(|t| t.discount * t.noises * t.weight * t.weight);
        (noise, total(|t| t.discount * t.count * t.weight * t.weight))
    }

    /// A distance from the mean at which D is about this many nats, within a factor of 2; that of a mean of 1 if D is less
    /// there.
    pub fn reach(&self, nats: f64) -> f64 {
        let (mean, (noise, spread)) = (self.mean(), self.variances());
        let most = 1.0 - mean;
        let mut reach = f64::min((2.0 * nats * (mean * most * spread + noise)).sqrt() / self.weight, most);
        for _ in 0..8 {
            let ratio = nats / self.exponent(mean + reach).0;
            if (0.5..2.0).contains(&ratio) || (ratio > 1.0 && reach == most) {
                break;
            }
            reach = f64::min(reach * ratio.sqrt().clamp(0.25, 4.0), most);
        }
        reach
    }

    /// D'(q) = D + clamp(L - D, 0, [`BAND`]), L the log-likelihood of the arm's own mean against q.
    pub fn banded(&self, q: f64, exponent: f64) -> f64 {
        if exponent <= 0.0 {
            return exponent;
        }
        let own = f64::max(0.02 * q, self.mean());
        let likelihood = self.log_likelihood(own) - self.log_likelihood(q);
        let more = likelihood - exponent;
        if more > 0.0 { exponent + more.min(BAND) } else { exponent } // NaN is no evidence
    }

    fn log_likelihood(&self, mean: f64) -> f64 {
        let density = |t: &Term| log_density(self.distribution, t.rewards(), t.noises, t.sum, t.seen(mean));
        self.terms().iter().map(|t| t.discount * density(t)).sum()
    }

    /// The log-likelihood ratio of two means, one for each evidence, against one common mean.
    pub fn contradiction(&self, that: &Evidence) -> f64 {
        if self.is_empty() || that.is_empty() {
            return 0.0;
        }
        let joint = (self.sum + that.sum) / (self.weight + that.weight);
        let gain = |evidence: &Evidence| evidence.log_likelihood(evidence.mean()) - evidence.log_likelihood(joint);
        gain(self) + gain(that)
    }
}

/// The log of the saddlepoint density at y of a sum of n coins of this mean and k noises. With
/// K(s) = n ln(1 - q + q e^s) + k Phi(s) and K'(s) = y: K(s) - s y - ln(2 pi K''(s))/2.
fn log_density(distribution: Cumulant, n: f64, noises: f64, y: f64, mean: f64) -> f64 {
    let q = mean.clamp(1e-6, 1.0 - 1e-6);
    if noises == 0.0 {
        return y * q.ln() + (n - y) * (-q).ln_1p(); // up to a term that is the same for all means
    }
    let gap = y - n * q;
    // |K'(s) - n q| >= k V |s|
    let furthest =
        (gap.abs() / (noises * distribution.variance())).min(distribution.limit().min(STEEPEST) * (1.0 - 1e-12));
    let start = gap / (n * q * (1.0 - q) + noises * distribution.variance());
    let mut bend = f64::NAN;
    let lack = |s: f64| {
        let tilted = q * s.exp() / (1.0 - q + q * s.exp());
        let (slope, curve) = distribution.slopes(s);
        bend = n * tilted * (1.0 - tilted) + noises * curve;
        (y - (n * tilted + noises * slope), -bend)
    };
    let bounds = (-furthest, furthest);
    let s = zero(start.clamp(-0.9 * furthest, 0.9 * furthest), bounds, |_| 1e-9 * furthest, lack);
    n * (q * s.exp_m1()).ln_1p() + noises * distribution.at(s) - s * y - 0.5 * (std::f64::consts::TAU * bend).ln()
}

/// The zero of a decreasing function between two bounds, by Newton's method. `at` computes its value and its derivative.
fn zero(
    start: f64,
    (mut low, mut high): (f64, f64),
    precision: impl Fn(f64) -> f64,
    mut at: impl FnMut(f64) -> (f64, f64),
) -> f64 {
    let mut x = start;
    for _ in 0..60 {
        let (value, slope) = at(x);
        if value > 0.0 {
            low = x
        } else {
            high = x
        }
        let newton = x - value / slope;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - x).abs() <= precision(x) {
            break;
        }
        x = next;
    }
    x
}

/// 1 - q + q e^(-s).
fn remaining(q: f64, s: f64) -> f64 {
    (1.0 - q) + q * (-s).exp()
}

/// The logarithm of `remaining`, without cancellation near 1 and without underflow at q = 1.
fn log_remaining(q: f64, s: f64, remaining: f64) -> f64 {
    if q == 1.0 {
        -s
    } else if remaining > 0.5 {
        (q * (-s).exp_m1()).ln_1p()
    } else {
        remaining.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::super::released::{Memory, NoisySum, ReleaseHistory};
    use super::*;
    use crate::config::Config;
    use crate::noise::Noise;
    use crate::policy::kl::{kl, private_divergence};
    use crate::random::{Random, Seed};
    use crate::reward::Reward;

    fn distribution(epsilon: f64) -> Cumulant {
        Cumulant::of(&Config::new(2, epsilon).noise().unwrap())
    }

    /// Releases of these sizes, each with this mean.
    fn evidence(distribution: Cumulant, sizes: &[f64], mean: f64) -> Evidence {
        let mut released = ReleaseHistory::NOTHING;
        sizes.iter().for_each(|&n| released.push(NoisySum::new(n, mean * n, 0)));
        released.and(None, distribution, Memory::new(0), 0)
    }

    /// The expression under the supremum, as in the documentation.
    fn expression(arm: &Evidence, q: f64, l: f64) -> f64 {
        let terms = arm.terms().iter().map(|t| {
            let each = t.rewards() * (1.0 - t.seen(q) * -(-l * t.weight).exp_m1()).ln()
                + t.noises * arm.distribution.at(l * t.weight);
            t.discount * each
        });
        -l * arm.sum - terms.sum::<f64>()
    }

    #[test]
    fn the_exponent_is_the_supremum() {
        for epsilon in [0.05, 1.0, 4.0] {
            for sizes in [&[7.0][..], &[7.0, 7.0, 3.0], &[20.0, 7.0, 100.0, 31.0], &[9.0; 20]] {
                for mean in [0.0, 0.1, 0.45] {
                    let arm = evidence(distribution(epsilon), sizes, mean);
                    for q in [0.1, 0.5, 0.99, 1.0] {
                        let heaviest = arm.terms().iter().map(|t| t.weight).fold(0.0, f64::max);
                        let l = |i: u32| epsilon / heaviest * f64::from(i) / 20_000.0;
                        let brute = (0..20_000).map(|i| expression(&arm, q, l(i))).fold(0.0, f64::max);
                        let (value, slope) = arm.exponent(q);
                        assert!(
                            value >= brute * (1.0 - 1e-9) && value <= brute * (1.0 + 1e-3) + 1e-3,
                            "{value} {brute}"
                        );
                        let step = 1e-6;
                        let difference = (value - arm.exponent(q - step).0) / step;
                        assert!((slope - difference).abs() <= 1e-3 * slope + 1e-3, "{slope} {difference}");
                    }
                }
            }
        }
    }

    /// A discount multiplies its term.
    #[test]
    fn half_the_power_is_half_the_exponent() {
        let memory = Memory::new(1 << 20);
        let mut released = ReleaseHistory::NOTHING;
        released.push(NoisySum::new(1000.0, 300.0, 0));
        let at = |age: u64| {
            let evidence = released.and(None, distribution(0.5), memory, memory.ticks(age));
            (evidence.exponent(0.6).0, evidence.log_likelihood(0.3) - evidence.log_likelihood(0.6))
        };
        let (fresh, faded) = (at(0), at(3 << 18));
        assert!((faded.0 - 0.5 * fresh.0).abs() < 1e-9 * fresh.0 && fresh.0 > 10.0);
        assert!((faded.1 - 0.5 * fresh.1).abs() < 1e-9 * fresh.1 && fresh.1 > 10.0);
    }

    /// Almost no noise, an arm without any reward above 0, and a leader whose rewards are all 1.
    #[test]
    fn the_exponent_is_finite_where_kl_is_not() {
        for epsilon in [100.0, 1000.0, 16384.0] {
            for sizes in [&[1.0][..], &[1.0, 2.0, 4.0, 8.0], &[1e6; 16], &[1e11; 30]] {
                for mean in [0.0, 0.5, 1.0] {
                    for q in [0.5, 1.0f64.next_down(), 1.0] {
                        let arm = evidence(distribution(epsilon), sizes, mean);
                        let (value, slope) = arm.exponent(q);
                        let banded = arm.banded(q, value);
                        assert!((value > 0.0) == (mean < q) && value.is_finite() && slope.is_finite());
                        assert!((value..=value + BAND).contains(&banded), "{epsilon} {mean} {q}: {value} {banded}");
                    }
                }
            }
        }
    }

    /// With almost no noise D is n kl, and with little noise it is d_eps, for one big batch.
    #[test]
    fn the_exponents_closed_forms() {
        let n = (1u64 << 30) as f64;
        for (mean, q) in [(0.2, 0.25), (0.0, 0.3), (0.2, 0.9), (0.6, 1.0 - 1e-9)] {
            let noiseless = evidence(Cumulant::Gaussian { variance: 1.0 }, &[n], mean).exponent(q).0;
            assert!((noiseless / (n * kl(mean, q)) - 1.0).abs() < 1e-4, "{mean} {q}: {noiseless}");
            let private = evidence(distribution(0.2), &[n], mean).exponent(q).0;
            assert!((private / (n * private_divergence(mean, q, 0.2)) - 1.0).abs() < 1e-4, "{mean} {q}: {private}");
        }
    }

    /// One small release: the frequency of its sum in each unit interval, against the saddlepoint density in the
    /// middle of it. 400,000 draws; tolerance 5 standard errors, and 12% for the approximation.
    #[test]
    fn the_density_is_that_of_a_release() {
        let mut random = Seed::new(Some([3; 32])).unwrap().stream();
        let Noise::Laplace(laplace) = Config::new(2, 0.5).noise().unwrap() else { unreachable!() };
        let mut counts = [0u32; 60];
        for _ in 0..400_000 {
            let ones = (0..30).filter(|_| random.unit() < 0.4).count();
            let sum = ones as f64 + laplace.sample(&mut random) as f64 / Reward::ONE as f64;
            if let Some(count) = counts.get_mut((sum + 20.0).floor().max(0.0) as usize) {
                *count += 1;
            }
        }
        for (i, &count) in counts.iter().enumerate().skip(5).take(50) {
            let y = i as f64 - 19.5;
            let expected = 400_000.0 * log_density(distribution(0.5), 30.0, 1.0, y, 0.4).exp();
            let error = (f64::from(count) - expected).abs();
            assert!(error < 5.0 * expected.sqrt() + 0.12 * expected, "{y}: {count} {expected}");
        }
    }

    /// Three releases whose sizes depend on the earlier ones: how often D(mu) exceeds ln 3 and ln 30, and D'(mu)
    /// exceeds ln 30 + 3, in 100,000 experiments.
    fn exceedances(mean: f64, counted: Cumulant, random: &mut Random) -> [u32; 3] {
        let Noise::Laplace(laplace) = Config::new(2, 0.5).noise().unwrap() else { unreachable!() };
        let mut counts = [0; 3];
        for _ in 0..100_000 {
            let mut released = ReleaseHistory::NOTHING;
            let mut size = 12;
            for _ in 0..3 {
                let ones = (0..size).filter(|_| random.unit() < mean).count();
                let sum = ones as f64 + laplace.sample(random) as f64 / Reward::ONE as f64;
                released.push(NoisySum::new(size.into(), sum, 0));
                size = if sum < 0.5 * f64::from(size) { 12 } else { 20 };
            }
            let evidence = released.and(None, counted, Memory::new(0), 0);
            let value = evidence.exponent(mean).0;
            counts[0] += u32::from(value >= 3f64.ln());
            counts[1] += u32::from(value >= 30f64.ln());
            counts[2] += u32::from(evidence.banded(mean, value) >= 30f64.ln() + BAND);
        }
        counts
    }

    /// P(D(mu) >= x) <= e^-x and P(D'(mu) >= x) <= e^(3-x), here at one time. If they were equal, counts above 34,500
    /// and 3,750 would have probability below 1e-9. An index that ignores the noise must fail.
    #[test]
    fn the_divergence_is_a_bound() {
        let mut random = Seed::new(Some([6; 32])).unwrap().stream();
        for mean in [0.5, 0.7, 0.9] {
            let [third, thirtieth, banded] = exceedances(mean, distribution(0.5), &mut random);
            assert!(third <= 34_500 && thirtieth <= 3_750 && banded <= 3_750, "{mean}: {third} {thirtieth} {banded}");
            assert!(third > 1_000, "the bound says nothing: {mean}: {third}");
            let [_, thirtieth, _] = exceedances(mean, Cumulant::Gaussian { variance: 1e-9 }, &mut random);
            assert!(thirtieth > 3_750, "no teeth: {mean}: {thirtieth}");
        }
    }

    /// P(D(mu) >= x) <= e^-x where slots are not always examined, and releases choose the slots and the sizes. Counts as
    /// above, in 100,000 experiments of three releases. If examinations are counted as rewards, or the other way round, the
    /// bound does not hold.
    #[test]
    fn the_divergence_is_a_bound_in_all_slots() {
        let Noise::Laplace(laplace) = Config::new(2, 0.5).noise().unwrap() else { unreachable!() };
        let (mut random, mean) = (Seed::new(Some([9; 32])).unwrap().stream(), 0.7);
        let mut counts = [[0; 3]; 3];
        for _ in 0..100_000 {
            let mut released = [ReleaseHistory::NOTHING; 3];
            let (mut size, mut slots) = (12.0, [1.0, 0.1]);
            for _ in 0..3 {
                let (mut examined, mut rewards, mut sum) = (0.0, 0.0, 0.0);
                while examined < size {
                    let e = slots[usize::from(random.below(8) > 0)];
                    sum += f64::from(u8::from(random.unit() < e * mean));
                    (examined, rewards) = (examined + e, rewards + 1.0);
                }
                let noisy = sum + laplace.sample(&mut random) as f64 / Reward::ONE as f64;
                released[0].push(NoisySum::new(examined, noisy, 0).unexamined(rewards - examined));
                released[1].push(NoisySum::new(rewards, noisy, 0));
                released[2].push(NoisySum::new(examined, noisy, 0));
                (size, slots) = if noisy < 0.5 * size { (12.0, [0.9, 0.3]) } else { (20.0, [1.0, 0.05]) };
            }
            for (counts, released) in counts.iter_mut().zip(&released) {
                let evidence = released.and(None, distribution(0.5), Memory::new(0), 0);
                let value = evidence.exponent(mean).0;
                counts[0] += u32::from(value >= 3f64.ln());
                counts[1] += u32::from(value >= 30f64.ln());
                counts[2] += u32::from(evidence.banded(mean, value) >= 30f64.ln() + BAND);
            }
        }
        println!("{counts:?}");
        let [third, thirtieth, banded] = counts[0];
        assert!(third <= 34_500 && thirtieth <= 3_750 && banded <= 3_750, "{counts:?}");
        assert!(third > 1_000, "the bound says nothing: {counts:?}");
        assert!(counts[1][1] > 3_750, "no teeth: {counts:?}");
    }

    /// With positions the supremum is that of the documented expression, and D increases with E and decreases with n.
    #[test]
    fn the_exponent_in_all_slots() {
        let arm = |count: f64, lack: f64| {
            let mut released = ReleaseHistory::NOTHING;
            for n in [7.0, 31.0] {
                released.push(NoisySum::new(n * count, 0.1 * n, 0).unexamined(n * lack));
            }
            released.and(None, distribution(1.0), Memory::new(0), 0)
        };
        for q in [0.3, 0.9, 1.0] {
            let seen = arm(1.0, 2.0);
            let heaviest = seen.terms().iter().map(|t| t.weight).fold(0.0, f64::max);
            let l = |i: u32| 1.0 / heaviest * f64::from(i) / 20_000.0;
            let brute = (0..20_000).map(|i| expression(&seen, q, l(i))).fold(0.0, f64::max);
            let (value, slope) = seen.exponent(q);
            assert!(value >= brute * (1.0 - 1e-9) && value <= brute * (1.0 + 1e-3) + 1e-3, "{value} {brute}");
            let difference = (value - seen.exponent(q - 1e-6).0) / 1e-6;
            assert!((slope - difference).abs() <= 1e-3 * slope + 1e-3, "{slope} {difference}");
            let [fewer, always] = [arm(1.0, 0.5), arm(1.0, 0.0)].map(|arm| arm.exponent(q).0);
            assert!(value < fewer && fewer < always && arm(0.9, 2.1).exponent(q).0 < value, "{value} {fewer} {always}");
        }
    }

    /// The likelihood ratio of a change: 0 if nothing changed, many nats if the mean did.
    #[test]
    fn a_change_contradicts_the_past() {
        let past = evidence(distribution(1.0), &[100.0, 200.0, 400.0], 0.3);
        let release = |sum| NoisySum::new(200.0, sum, 0).evidence(distribution(1.0));
        assert!(past.contradiction(&release(60.0)) < 0.1);
        assert!(past.contradiction(&release(120.0)) > 10.0);
        assert_eq!(Evidence::nothing(distribution(1.0)).contradiction(&release(9.0)), 0.0);
    }
}
