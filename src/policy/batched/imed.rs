//! DP-IMED with the exact Chernoff index: the policy we recommend.
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`] (rho-zCDP with delta > 0), no horizon, nothing
//! to tune. Play argmin of D(mu*) + ln N, where N counts the arm's rewards, mu* is the leading mean,
//! and D(q) is the exponent with which an arm of true mean q would look as bad as this one does:
//!
//! D(q) = sup over 0 <= l < eps/max w of -l Z - sum_b \[n_b ln(1 - q + q e^(-l w_b)) + Phi(l w_b)\],
//! and 0 where Z >= q W,
//!
//! over the arm's releases (n_b, y_b), with Z = sum w_b y_b, W = sum w_b n_b and Phi the log-MGF of
//! one noise. *D is a bound that holds:* for rewards in `[0, 1]` of mean q, E e^(-l w r) <=
//! 1 - q + q e^(-l w) by convexity; D decreases in Z, so D >= x says that Z is at most some z, and
//! Chernoff's bound at z's own l is e^(-x): **P(D(q) >= x) <= e^(-x)**.
//!
//! After Honda and Takemura (2015, IMED) and Azize, Wu, Honda, Orabona, Ito, Basu (2025), whose
//! lower bound sum_a Delta_a ln T/d_eps(mu_a, mu*) is the yardstick. Their published index, d_eps,
//! has room for one noise while the estimate carries m of them, and then rare runs abandon the best
//! arm for good; D counts them all.
//!
//! Cost: select and update O(1); a batch's end a few D's, each some Newton steps over m terms, and
//! O(log K); 168 bytes an arm. See [`batched`](super::batched) for batches, delays, many arms.

use super::room::{Batched, Cumulant, Evidence, Index};
use crate::config::Config;
use crate::error::Result;
use crate::random::Seed;
use crate::tournament::Line;

/// DP-IMED.
pub type DpImed = Batched<Chernoff>;

/// D, with this noise in every release.
pub struct Chernoff {
    noise: Cumulant,
}

impl DpImed {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<DpImed> {
        let noise = config.noise()?;
        Batched::with_index(Chernoff::new(Cumulant::of(&noise)), 2.0, noise, config, seed)
    }
}

impl Index for Chernoff {
    fn point(&self, leader: f64, _decisions: u64) -> f64 {
        leader
    }

    /// At a fixed l the expression under the supremum is convex in q, so D is, and the tangent at
    /// any l lies below it. Covered batches bring evidence at the present rate.
    fn tangent(&self, arm: &Evidence, q: f64) -> Line {
        let (exponent, slope) = self.exponent(arm, q);
        let rate = arm.covered / arm.pulls;
        Line::through(q, rate * exponent + arm.covered.ln(), rate * slope)
    }
}

impl Chernoff {
    pub fn new(noise: Cumulant) -> Chernoff {
        Chernoff { noise }
    }

    /// D(q) and its derivative. The expression is concave in l: Newton's method on its derivative,
    /// kept between two bounds; whatever l it ends at, the value is a bound that holds.
    pub fn exponent(&self, arm: &Evidence, q: f64) -> (f64, f64) {
        let lack = q * arm.weight - arm.sum;
        if lack <= 0.0 {
            return (0.0, 0.0);
        }
        // The derivative is at most lack - l V sum w^2, and falls to minus infinity at the limit.
        let squares: f64 = arm.batches.iter().map(|batch| batch.weight * batch.weight).sum();
        let spread: f64 = arm.batches.iter().map(|batch| batch.weight * batch.weight * batch.count as f64).sum();
        let heaviest = arm.batches.iter().map(|batch| batch.weight).fold(0.0, f64::max);
        let (mut low, mut high) = (0.0, lack / (self.noise.variance() * squares));
        // Beyond 600 e^(-l w) and the slope at q = 1 would leave the doubles; any l will do.
        high = high.min(self.noise.limit().min(600.0) / heaviest * (1.0 - 1e-12));
        // Newton's first step from 0, where rewards have variance q (1 - q).
        let mut l = f64::min(0.5 * high, lack / (q * (1.0 - q) * spread + self.noise.variance() * squares));
        for _ in 0..60 {
            let (mut first, mut second) = (-arm.sum, 0.0);
            for batch in arm.batches {
                let (n, w) = (batch.count as f64, batch.weight);
                // The mean of a Bernoulli(q) reward tilted by e^(-l w r).
                let v = q * (-l * w).exp() / remaining(q, l * w);
                let (phi, bend) = self.noise.slopes(l * w);
                first += w * (n * v - phi);
                second -= w * w * (n * v * (1.0 - v) + bend);
            }
            if first > 0.0 {
                low = l
            } else {
                high = l
            }
            let newton = l - first / second;
            let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
            if (next - l).abs() <= 1e-9 * l {
                break;
            }
            l = next;
        }
        let (mut value, mut slope) = (-l * arm.sum, 0.0);
        for batch in arm.batches {
            let (n, s) = (batch.count as f64, l * batch.weight);
            let left = remaining(q, s);
            value -= n * log_remaining(q, s, left) + self.noise.at(s);
            slope += n * -(-s).exp_m1() / left;
        }
        if value > 0.0 { (value, slope) } else { (0.0, 0.0) }
    }
}

/// 1 - q + q e^(-s).
fn remaining(q: f64, s: f64) -> f64 {
    (1.0 - q) + q * (-s).exp()
}

/// Its logarithm: without cancellation near 1, without underflow at q = 1.
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
    use super::super::room::Schedule;
    use super::*;
    use crate::noise::Noise;
    use crate::policy::kl::{kl, private_divergence};
    use crate::random::Random;
    use crate::reward::Reward;

    fn schedule(epsilon: f64, first: u64) -> (Schedule, Noise) {
        let noise = Config::new(2, epsilon).noise().unwrap();
        (Schedule::new(first, 2.0, &noise).unwrap(), noise)
    }

    /// The expression under the supremum, as the docs print it.
    fn expression(arm: &Evidence, noise: Cumulant, q: f64, l: f64) -> f64 {
        let terms = arm.batches.iter().map(|batch| {
            batch.count as f64 * (1.0 - q + q * (-l * batch.weight).exp()).ln() + noise.at(l * batch.weight)
        });
        -l * arm.sum - terms.sum::<f64>()
    }

    #[test]
    fn the_exponent_is_the_supremum() {
        for epsilon in [0.05, 1.0, 4.0] {
            let (schedule, noise) = schedule(epsilon, 7);
            let noise = Cumulant::of(&noise);
            let chernoff = Chernoff::new(noise);
            for released in [1, 2, 5, 15] {
                for share in [-0.4, 0.0, 0.1, 0.45] {
                    let arm = schedule.evidence(0.0, released, released);
                    let arm = schedule.evidence(share * arm.weight, released, released);
                    for q in [0.1, 0.5, 0.99, 1.0] {
                        let heaviest = arm.batches[released - 1].weight;
                        let l = |i: u32| epsilon / heaviest * f64::from(i) / 20_000.0;
                        let brute = (0..20_000).map(|i| expression(&arm, noise, q, l(i))).fold(0.0, f64::max);
                        let (value, slope) = chernoff.exponent(&arm, q);
                        assert!(
                            value >= brute * (1.0 - 1e-9) && value <= brute * (1.0 + 1e-3) + 1e-3,
                            "{value} {brute}"
                        );
                        let step = 1e-6;
                        let difference = (value - chernoff.exponent(&arm, q - step).0) / step;
                        assert!((slope - difference).abs() <= 1e-3 * slope + 1e-3, "{slope} {difference}");
                    }
                }
            }
        }
    }

    /// Next to no noise, an arm that paid nothing, a leader that always paid.
    #[test]
    fn the_exponent_is_finite_where_kl_is_not() {
        for epsilon in [100.0, 1000.0, 16384.0] {
            let (schedule, noise) = schedule(epsilon, 1);
            let chernoff = Chernoff::new(Cumulant::of(&noise));
            for released in [1, 5, 38] {
                for q in [0.5, 1.0f64.next_down(), 1.0] {
                    let (value, slope) = chernoff.exponent(&schedule.evidence(0.0, released, released), q);
                    assert!(value > 0.0 && value.is_finite() && slope.is_finite(), "{epsilon} {q}: {value} {slope}");
                }
            }
        }
    }

    /// With next to no noise D is n kl, and between one noise and none it is d_eps: one big batch.
    #[test]
    fn the_exponents_closed_forms() {
        let (schedule, noise) = schedule(0.2, 1 << 30);
        let n = (1u64 << 30) as f64;
        let weight = schedule.evidence(0.0, 1, 1).weight / n;
        for (mean, q) in [(0.2, 0.25), (0.0, 0.3), (0.2, 0.9), (0.6, 1.0 - 1e-9)] {
            let arm = schedule.evidence(weight * mean * n, 1, 1);
            let noiseless = Chernoff::new(Cumulant::Gaussian { variance: 1.0 }).exponent(&arm, q).0;
            assert!((noiseless / (n * kl(mean, q)) - 1.0).abs() < 1e-4, "{mean} {q}: {noiseless}");
            let private = Chernoff::new(Cumulant::of(&noise)).exponent(&arm, q).0;
            assert!((private / (n * private_divergence(mean, q, 0.2)) - 1.0).abs() < 1e-4, "{mean} {q}: {private}");
        }
    }

    /// How often D(mu) >= x in 100,000 experiments of three small batches, for x = ln 10 and ln 100.
    fn exceedances(mean: f64, counted: Cumulant, random: &mut Random) -> [u32; 2] {
        let (schedule, noise) = schedule(0.5, 2);
        let Noise::Laplace(law) = noise else { unreachable!() };
        let chernoff = Chernoff::new(counted);
        let mut counts = [0; 2];
        for _ in 0..100_000 {
            let mut sum = 0.0;
            for batch in schedule.evidence(0.0, 3, 3).batches {
                let ones = (0..batch.count).filter(|_| random.unit() < mean).count();
                sum += batch.weight * (ones as f64 + law.sample(random) as f64 / Reward::ONE as f64);
            }
            let value = chernoff.exponent(&schedule.evidence(sum, 3, 3), mean).0;
            counts[0] += u32::from(value >= 10f64.ln());
            counts[1] += u32::from(value >= 100f64.ln());
        }
        counts
    }

    /// P(D(mu) >= x) <= e^-x. Were it equal, counts above 10,600 and 1,200 would have chance below
    /// 1e-9. An index that is blind to the noise must fail.
    #[test]
    fn the_exponent_is_a_bound() {
        let mut random = crate::random::Seed::new(Some([6; 32])).unwrap().stream();
        for mean in [0.1, 0.5, 0.9] {
            let law = Cumulant::Laplace { epsilon: 0.5 };
            let [tenth, hundredth] = exceedances(mean, law, &mut random);
            assert!(tenth <= 10_600 && hundredth <= 1_200, "{mean}: {tenth} {hundredth}");
            assert!(tenth > 500 && hundredth > 20, "the bound says nothing: {mean}: {tenth} {hundredth}");
            let blind = Cumulant::Gaussian { variance: 1e-9 };
            let [tenth, hundredth] = exceedances(mean, blind, &mut random);
            assert!(tenth > 10_600 || hundredth > 1_200, "no teeth: {mean}: {tenth} {hundredth}");
        }
    }
}
