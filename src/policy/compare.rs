//! Bounds the difference of two arms' means, at all times together: [`Bandit::compare`](crate::Bandit::compare).
//!
#![doc = include_str!("../../docs/theory/compare.md")]

use super::cumulant::Cumulant;
use crate::error::{Error, Result};
use crate::moving::{Archive, Persist};
use crate::snapshot::is_plausible;

/// The weighted totals of an arm's releases: N, Y and K.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// N, or E of slots that are not always examined.
    count: f64,
    /// N - E: what these slots lack of an examination each.
    pub unexamined: f64,
    sum: f64,
    noises: f64,
}

impl Totals {
    pub const NONE: Totals = Totals { count: 0.0, unexamined: 0.0, sum: 0.0, noises: 0.0 };
    /// Inverse of the unit that summands are rounded to: sums of fewer than 2^33 rewards are exact, whatever the order.
    const GRID: f64 = (1 << 20) as f64;
    /// Minimum that one release adds to K, so that the rounding changes at most K/1024 rewards.
    const LEAST: f64 = 1.0 / 1024.0;

    /// Adds a release of a batch that kept its size.
    pub fn release(&mut self, count: f64, sum: f64, distribution: Cumulant) {
        self.release_as(count, count, 0.0, sum, distribution);
    }

    /// Adds a release of a batch that was opened for `opened` rewards, and whose size may have changed since. Its slots
    /// leave `unexamined` of count + unexamined examinations.
    pub fn release_as(&mut self, opened: f64, count: f64, unexamined: f64, sum: f64, distribution: Cumulant) {
        let weight = (opened / (16.0 * distribution.variance().sqrt())).min(1.0);
        let grid = |x: f64| (x * Self::GRID).round() / Self::GRID;
        let noises = grid((weight * weight).max(Self::LEAST));
        self.add(&Totals {
            count: grid(weight * count),
            unexamined: grid(weight * unexamined),
            sum: grid(weight * sum),
            noises,
        });
    }

    /// N.
    pub fn rewards(&self) -> f64 {
        self.count
    }

    /// Adds the totals of another handle.
    pub fn add(&mut self, other: &Totals) {
        self.count += other.count;
        self.unexamined += other.unexamined;
        self.sum += other.sum;
        self.noises += other.noises;
    }

    /// Replaces another handle's earlier totals by its newest ones. Exact.
    pub fn replace(&mut self, before: &Totals, now: &Totals) {
        self.count += now.count - before.count;
        self.unexamined += now.unexamined - before.unexamined;
        self.sum += now.sum - before.sum;
        self.noises += now.noises - before.noises;
    }

    /// K, the sum of the squared weights.
    #[cfg(test)]
    pub fn noises(&self) -> f64 {
        self.noises
    }
}

/// Moves N, Y and K.
impl Persist for Totals {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        for number in [&mut self.count, &mut self.sum, &mut self.noises] {
            number.persist(with)?;
            with.ensure(is_plausible(*number))?;
        }
        with.ensure(self.count >= 0.0 && self.noises >= 0.0)
    }
}

/// The totals of one arm, with the nats that their choice costs.
pub struct ReleaseTotals {
    distribution: Cumulant,
    totals: Totals,
    /// Nats lost because these releases were chosen among several.
    price: f64,
}

/// Number of values of l, and the factor from one to the next.
const POINTS: usize = 20;
const RATIO: f64 = 0.6;

/// Share of the pairs of equal l.
const EQUAL: f64 = 0.6;

/// Nats that cover the rounding of H.
const SLACK: f64 = 1e-6;

/// The values of l, and the shares of their pairs.
pub struct Mixture {
    points: [f64; POINTS],
    shares: [[f64; POINTS]; POINTS],
}

impl Mixture {
    pub fn new(distribution: Cumulant) -> Mixture {
        let top = (0.85 * distribution.limit()).min(4.0 / distribution.variance().sqrt()).min(1.0);
        let points: [f64; POINTS] = std::array::from_fn(|j| top * RATIO.powi(j as i32));
        let mut places = points.map(|l| (1.0 + (-l.log2() - 5.0).max(0.0)).powi(-2));
        places[..2].iter_mut().for_each(|place| *place += 0.5 * top.ln() / RATIO.ln());
        let kernel = |j: usize, k: usize| if j == k { 0.0 } else { (1.0 + j.abs_diff(k) as f64).powi(-2) };
        let near: [f64; POINTS] = std::array::from_fn(|j| (0..POINTS).map(|k| kernel(j, k)).sum());
        let all: f64 = places.iter().sum();
        let shares = std::array::from_fn(|j| {
            std::array::from_fn(|k| {
                let unequal = 0.5 * (places[j] / near[j] + places[k] / near[k]) * kernel(j, k);
                let equal = if j == k { places[j] } else { 0.0 };
                (EQUAL * equal + (1.0 - EQUAL) * unequal) / all * (1.0 - 1e-9) // the sum is at most 1
            })
        });
        Mixture { points, shares }
    }

    /// Whether this arm's mean is above that one's by more than `gap`. It is ever wrong with probability at most e^-nats.
    pub fn is_above(&self, this: &ReleaseTotals, that: &ReleaseTotals, gap: f64, nats: f64) -> bool {
        Joint::new(self, that, this, nats).refutes(-gap, &mut 0.5)
    }
}

/// Nats that the choice among merges costs. m = 0 gets nine tenths of the error probability, and the 2^g merges from
/// m = 2^g on share 1/((g + 1)(g + 2)) of the other tenth.
pub fn price_of_merges(merges: u64) -> f64 {
    let share = merges.checked_ilog2().map_or(0.9, |g| {
        let g = f64::from(g);
        0.1 / (g.exp2() * (g + 1.0) * (g + 2.0))
    });
    -share.ln()
}

impl ReleaseTotals {
    /// All releases of an arm, of this handle and of others.
    ///
    /// # Errors
    /// `NotReady` if there is none; `Unsupported` if releases are forgotten.
    pub fn of_all(
        distribution: Cumulant,
        forgets: bool,
        own: Totals,
        others: Option<&Totals>,
    ) -> Result<ReleaseTotals> {
        if forgets {
            return Err(Error::unsupported(
                "comparing with forget_after: a changing mean has no interval for all times",
            ));
        }
        let mut totals = own;
        others.into_iter().for_each(|others| totals.add(others));
        if totals == Totals::NONE { Err(Error::NotReady) } else { Ok(ReleaseTotals::of(distribution, totals)) }
    }

    /// Releases of an arm.
    pub fn of(distribution: Cumulant, totals: Totals) -> ReleaseTotals {
        ReleaseTotals { distribution, totals, price: 0.0 }
    }

    /// The last of an arm's releases, whose number is at most m, where another choice among many costs `nats`.
    pub fn last(distribution: Cumulant, count: u64, mean: f64, m: u32, nats: f64) -> ReleaseTotals {
        let (count, m) = (count as f64, f64::from(m));
        let price = ((m + 8.0) * (m + 9.0) / 8.0).ln() + nats;
        ReleaseTotals { distribution, totals: Totals { count, unexamined: 0.0, sum: mean * count, noises: 1.0 }, price }
    }

    /// The mixture for releases with this noise.
    pub fn mixture(&self) -> Mixture {
        Mixture::new(self.distribution)
    }

    /// These releases, and one more of so many rewards, of the same mean.
    pub fn and(&self, rewards: f64) -> ReleaseTotals {
        let mut totals = self.totals;
        totals.release(rewards, totals.sum / totals.count * rewards, self.distribution);
        ReleaseTotals { totals, ..*self }
    }

    /// A lower and an upper bound of this mean minus that one. Each holds at all times with probability 1 - e^-nats.
    pub fn less(&self, that: &ReleaseTotals, nats: f64) -> (f64, f64) {
        let mixture = self.mixture();
        (-Joint::new(&mixture, that, self, nats).bound(), Joint::new(&mixture, self, that, nats).bound())
    }

    /// The evidence against means that are too high (sign -1), or too low (sign 1).
    fn side(&self, points: &[f64; POINTS], sign: f64) -> Side {
        let Totals { count, unexamined, sum, noises } = self.totals;
        let examined = if unexamined > 0.0 { count / (count + unexamined) } else { 1.0 };
        let constant = |l: f64| sign * l * sum - noises * (self.distribution.at(l) + l * Totals::LEAST);
        let terms = points.map(|l| (constant(l), examined * (sign * l).exp_m1()));
        Side { count: count + unexamined, terms }
    }
}

/// One arm's h(q, l_j), as pairs of a constant and a growth g: h is the constant minus N ln(1 + q g).
struct Side {
    count: f64,
    terms: [(f64, f64); POINTS],
}

/// For one arm: e^(h - largest) and its slope at each l, and the largest h.
struct Point {
    powers: [f64; POINTS],
    slopes: [f64; POINTS],
    largest: f64,
}

impl Side {
    fn at(&self, q: f64) -> Point {
        let h = self.terms.map(|(constant, growth)| constant - self.count * (q * growth).ln_1p());
        let largest = h.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let powers = h.map(|h| (h - largest).exp());
        let slope = |j: usize| -powers[j] * self.count * self.terms[j].1 / (1.0 + q * self.terms[j].1);
        Point { powers, slopes: std::array::from_fn(slope), largest }
    }
}

/// The evidence against a mean of one arm, too high or too low: g(m), a convex function.
pub struct MeanEvidence(Option<([Side; 2], [f64; POINTS], f64)>);

impl MeanEvidence {
    /// Of these releases; without them no mean has any.
    pub fn of(sums: Option<&ReleaseTotals>) -> MeanEvidence {
        MeanEvidence(sums.map(|sums| {
            let mixture = sums.mixture();
            let shares = mixture.shares.map(|row| row.iter().sum());
            ([-1.0, 1.0].map(|sign| sums.side(&mixture.points, sign)), shares, sums.price + SLACK)
        }))
    }

    /// g(m), and its slope.
    pub fn at(&self, mean: f64) -> (f64, f64) {
        let Some((sides, shares, price)) = &self.0 else { return (0.0, 0.0) };
        let points = [sides[0].at(mean), sides[1].at(mean)];
        let largest = points[0].largest.max(points[1].largest);
        let (mut sum, mut slope) = (0.0, 0.0);
        for point in &points {
            let scale = 0.5 * (point.largest - largest).exp();
            let dot = |with: &[f64; POINTS]| scale * shares.iter().zip(with).map(|(share, x)| share * x).sum::<f64>();
            sum += dot(&point.powers);
            slope += dot(&point.slopes);
        }
        (f64::ln(sum) + largest - price, slope / sum)
    }
}

/// The evidence of both arms against differences that are too large.
struct Joint<'a> {
    mixture: &'a Mixture,
    high: Side,
    low: Side,
    enough: f64,
}

impl Joint<'_> {
    fn new<'a>(mixture: &'a Mixture, high: &ReleaseTotals, low: &ReleaseTotals, nats: f64) -> Joint<'a> {
        let enough = nats + high.price + low.price + SLACK;
        Joint { mixture, high: high.side(&mixture.points, -1.0), low: low.side(&mixture.points, 1.0), enough }
    }

    /// H(q + d, q) and its slope along q.
    fn at(&self, d: f64, q: f64) -> (f64, f64) {
        let (high, low) = (self.high.at(q + d), self.low.at(q));
        let (mut sum, mut slope) = (0.0, 0.0);
        for j in 0..POINTS {
            for k in 0..POINTS {
                let share = self.mixture.shares[j][k];
                sum += share * high.powers[j] * low.powers[k];
                slope += share * (high.slopes[j] * low.powers[k] + high.powers[j] * low.slopes[k]);
            }
        }
        (sum.ln() + high.largest + low.largest, slope / sum)
    }

    /// Whether H is at least `enough` for all means that differ by d. H is convex, so nowhere below its tangents. The
    /// search starts at `q`, and stores there where it ended.
    fn refutes(&self, d: f64, q: &mut f64) -> bool {
        let (mut low, mut high) = ((-d).max(0.0), (1.0 - d).min(1.0));
        let (mut falling, mut rising) = (None, None);
        *q = q.clamp(low, high);
        for turn in 0..60 {
            let (value, slope) = self.at(d, *q);
            if value < self.enough {
                return false;
            }
            if slope > 0.0 {
                (high, rising) = (*q, Some((value, slope)));
            } else {
                (low, falling) = (*q, Some((value, slope)));
            }
            // The next q is where the tangents meet, or the end of the range if there is only one.
            let (meet, least) = match (falling, rising) {
                (Some((f, s)), Some((g, t))) => {
                    let step = ((f - g + t * (high - low)) / (t - s)).clamp(0.0, high - low);
                    (low + step, f + s * step)
                }
                (Some((f, s)), None) => (high, f + s * (high - low)),
                (None, Some((g, t))) => (low, g - t * (high - low)),
                (None, None) => return false, // H is NaN
            };
            if least >= self.enough {
                return true;
            }
            *q = if turn % 3 == 2 { 0.5 * (low + high) } else { meet };
        }
        false
    }

    /// The smallest difference from which on all are refuted, rounded up; 1 if there is none.
    fn bound(&self) -> f64 {
        let (mut low, mut high, mut q) = (-1.0, 1.0, 0.5);
        for _ in 0..32 {
            let middle = 0.5 * (low + high);
            if self.refutes(middle, &mut q) { high = middle } else { low = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::noise::Noise;
    use crate::random::{Random, Seed};
    use crate::reward::Reward;

    /// The number of ones among n coins, each with probability 2^-rarity.
    fn heads(n: u64, rarity: u32, random: &mut Random) -> u32 {
        let mut word = || (0..rarity).fold(u64::MAX, |word, _| word & random.next_u64());
        let whole = (0..n / 64).map(|_| word().count_ones()).sum::<u32>();
        whole + (word() & ((1 << (n % 64)) - 1)).count_ones()
    }

    /// e^H at the true mean of two equal arms, when it first reaches 16 or at the end, and at most 16. Five results:
    /// correct; computed with half the noise; with the l that is the best so far; and, correct and with half the noise, the
    /// product of both arms' evidence.
    fn stopped(noise: Noise, rarity: u32, random: &mut Random) -> [f64; 5] {
        let (distribution, mean, most) = (Cumulant::of(&noise), 0.5f64.powi(rarity as i32), 16f64.ln());
        let half = match distribution {
            Cumulant::Laplace { epsilon } => Cumulant::Laplace { epsilon: 2.0 * epsilon },
            Cumulant::Gaussian { variance } => Cumulant::Gaussian { variance: 0.25 * variance },
        };
        let (mut arms, mut luck, mut ends) = ([Totals::NONE; 2], [0.0; 2], [f64::NEG_INFINITY; 5]);
        for _ in 0..30 {
            // The arm that does better is pulled twice as often, and a lucky release is followed by a small one that
            // weighs less.
            let arm = usize::from((luck[1] > luck[0]) == (random.below(3) > 0));
            let (scale, weight) = if luck[arm] > 0.0 { (1.0, 0.75) } else { (3.0, 1.0) };
            let count = (scale * distribution.variance().sqrt()).ceil();
            let clicks = f64::from(heads(count as u64, rarity, random));
            let sum = clicks + noise.sample(random) as f64 / Reward::ONE as f64;
            arms[arm].add(&Totals {
                count: weight * count,
                unexamined: 0.0,
                sum: weight * sum,
                noises: weight * weight,
            });
            luck[arm] += sum - mean * count;
            let h = |distribution: Cumulant| {
                let [one, other] = arms.map(|totals| ReleaseTotals::of(distribution, totals));
                Joint::new(&Mixture::new(distribution), &one, &other, 0.0).at(0.0, mean).0
            };
            let one = |arm: usize, l: f64| {
                let Totals { count, sum, noises, .. } = arms[arm];
                l * sum - count * (mean * l.exp_m1()).ln_1p() - noises * distribution.at(l.abs())
            };
            let top = 0.9 * distribution.limit().min(4.0);
            let best = (0..20).map(|i| top * 0.7f64.powi(i)).map(|l| one(0, -l) + one(1, l)).fold(0.0, f64::max);
            let g = |distribution: Cumulant| {
                let of = |totals| MeanEvidence::of(Some(&ReleaseTotals::of(distribution, totals))).at(mean).0;
                arms.map(of).into_iter().sum()
            };
            for (end, now) in ends.iter_mut().zip([h(distribution), h(half), best, g(distribution), g(half)]) {
                *end = if *end < most { now } else { most };
            }
        }
        ends.map(|end| end.min(most).exp())
    }

    /// The average is at most 1. A run is at most 16, so if the average were 1, the mean over 1000 runs would be
    /// above 1.9 with probability below 1e-8 (Bennett). With half the noise, or a choice in hindsight, it is above
    /// 1.9.
    #[test]
    fn what_speaks_against_the_truth_has_a_mean_of_1() {
        let mut random = Seed::new(Some([8; 32])).unwrap().stream();
        for (epsilon, delta, rarity) in [(1.0, 0.0, 1), (0.05, 0.0, 1), (0.1, 0.0, 6), (0.1, 1e-6, 1), (1.0, 1e-6, 6)] {
            let noise = Config { delta, ..Config::new(2, epsilon) }.noise().unwrap();
            let mut means = [0.0; 5];
            for _ in 0..1000 {
                let ends = stopped(noise, rarity, &mut random);
                means.iter_mut().zip(ends).for_each(|(mean, end)| *mean += end / 1000.0);
            }
            println!("{epsilon} {delta} {rarity}: {means:?}");
            let [honest, half, hindsight, product, half_product] = means;
            assert!(honest <= 1.9 && product <= 1.9, "{epsilon} {delta} {rarity}: {honest} {product}");
            assert!(half_product > 1.9, "no teeth: {epsilon} {delta} {rarity}: {half_product}");
            assert!(half > 1.9 && hindsight > 1.9, "no teeth: {epsilon} {delta} {rarity}: {half} {hindsight}");
        }
    }

    #[test]
    fn the_shares_are_shares() {
        for epsilon in [1e-4, 0.1, 1.0, 30.0] {
            let all = Mixture::new(Cumulant::Laplace { epsilon }).shares;
            let (least, sum) = all
                .iter()
                .flatten()
                .fold((1.0, 0.0), |(least, sum): (f64, f64), &share| (least.min(share), sum + share));
            assert!(least > 0.0 && (0.999..=1.0).contains(&sum), "{epsilon}: {sum}");
        }
    }

    /// The ends are where H is just enough: no means that differ by the upper end are below it, and some that differ
    /// by less are.
    #[test]
    fn the_ends_are_where_it_is_enough() {
        for (epsilon, one, other) in [
            (1.0, (1000.0, 300.0, 5.0), (1000.0, 280.0, 5.0)),
            (0.1, (1e6, 45_000.0, 12.0), (1e4, 700.0, 3.0)),
            (1.0, (10.0, -2.0, 1.0), (1e9, 1e8, 40.0)),
            (1e-3, (1e3, 9e3, 1e-3), (5e2, -1e4, 1e-3)),
        ] {
            let distribution = Cumulant::Laplace { epsilon };
            let sums =
                |(count, sum, noises)| ReleaseTotals::of(distribution, Totals { count, unexamined: 0.0, sum, noises });
            let (one, other) = (sums(one), sums(other));
            let (low, high) = one.less(&other, 4.0);
            assert!((-1.0..=1.0).contains(&low) && low <= high && high <= 1.0);
            assert_eq!(other.less(&one, 4.0), (-high, -low));
            let mixture = Mixture::new(distribution);
            let joint = Joint::new(&mixture, &one, &other, 4.0);
            let least = |d: f64| {
                let (from, to) = ((-d).max(0.0), (1.0 - d).min(1.0));
                (0..=20_000)
                    .map(|i| joint.at(d, from + (to - from) * f64::from(i) / 20_000.0).0)
                    .fold(f64::MAX, f64::min)
            };
            if high < 1.0 {
                assert!(least(high) >= 4.0, "{epsilon}: {}", least(high));
            }
            let grid = if high - low > 0.01 { 0.01 } else { 0.1 };
            assert!(high < -0.98 || least(high - grid * (high - low)) < 4.0, "{epsilon}: {low} {high}");
            // The slope is one.
            let (d, q, step) = (0.01, 0.3, 1e-7);
            let difference = (joint.at(d, q + step).0 - joint.at(d, q - step).0) / (2.0 * step);
            let slope = joint.at(d, q).1;
            assert!((slope - difference).abs() <= 1e-3 * slope.abs() + 1e-2, "{slope} {difference}");
        }
    }

    /// A large release has the weight 1, a release dominated by noise a weight near 0. Sums do not depend on the order.
    #[test]
    fn weights_are_what_a_release_tells() {
        let distribution = Cumulant::Gaussian { variance: 100.0 };
        let one = |count, sum| {
            let mut totals = Totals::NONE;
            totals.release(count, sum, distribution);
            totals
        };
        assert_eq!(one(160.0, 70.0), Totals { count: 160.0, unexamined: 0.0, sum: 70.0, noises: 1.0 });
        assert_eq!(one(1e5, 4e4), Totals { count: 1e5, unexamined: 0.0, sum: 4e4, noises: 1.0 });
        assert_eq!(one(80.0, -30.0), Totals { count: 40.0, unexamined: 0.0, sum: -15.0, noises: 0.25 });
        assert_eq!(one(1.0, -30.0).noises, Totals::LEAST);
        let all: Vec<_> = (1..50).map(|i| one(f64::from(i) * 7.3, f64::from(i) * 0.37)).collect();
        let sum = |parts: &mut dyn Iterator<Item = &Totals>| {
            let mut sum = Totals::NONE;
            parts.for_each(|part| sum.add(part));
            sum
        };
        assert_eq!(sum(&mut all.iter()), sum(&mut all.iter().rev()));
    }
}
