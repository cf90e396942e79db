//! Computes, for many independent random numbers, the probability of each to be the largest. Keeps these
//! probabilities up to date as the distributions change.
//!
//! Let theta_j have the distribution function F_j, let M be the largest of them all and P = prod F_j its
//! distribution function. Then, by parts,
//!
//!   P(theta_j = M) = integral of P d ln F_j = E[-ln F_j(M)],
//!
//! an integral over the distribution of M alone. So the integral uses nodes x_0 < x_1 < ... where M is, at quantiles
//! of P. Each theta_j has a row, -ln F_j at the nodes, and the sum of all rows is -ln P. Between two nodes the
//! probabilities share the growth of P as they share that of ln P, which is exact if these shares are constant
//! between the nodes:
//!
//!   P(theta_j = M) = sum_g C_g (ln F_j(x_(g+1)) - ln F_j(x_g)) = sum_g (C_g - C_(g-1)) (-ln F_j(x_g)),
//!
//! C_g = (P_(g+1) - P_g)/(ln P_(g+1) - ln P_g), where P and F_j are 1 after the last node. Below the first node the
//! probabilities share P as they share ln P there. A change of one distribution replaces one row and updates the
//! sums. The nodes stay until P grows too much between two of them.
//!
//! Accuracy: an arm is drawn with exactly the probability that is reported. Its distance from the integral, half the
//! sum of the errors of all probabilities, is below 1/1000 after a full computation, and 1/200 after changes: see the
//! tests.

use crate::error::{Error, Result};
use crate::random::Random;
use std::array;

/// Number of nodes of the integral.
const NODES: usize = 32;
/// Maximum of the growth of P from one node to the next times that of ln P.
const MOST: f64 = 1.0 / 40.0;
/// Number of rows that are interleaved in memory, for vector code.
const LANES: usize = 8;

/// P at a node. Nodes are denser at both ends.
fn quantile(node: usize) -> f64 {
    let share = (node + 1) as f64 / (NODES + 1) as f64;
    share * share * (3.0 - 2.0 * share)
}

/// P(theta_j is the largest) for every theta_j, and draws with exactly these probabilities.
pub struct Chances {
    /// Panels from each node to the next, and from the last node to 1.
    cells: [Panel; NODES],
    /// -ln F_j at the nodes.
    rows: Vec<[[f32; LANES]; NODES]>,
    /// -ln P at the nodes.
    sums: [f64; NODES],
    /// For each theta, the sum of the probabilities up to it.
    cumulated: Vec<f64>,
}

impl Chances {
    pub fn new() -> Chances {
        let node = |g: usize| (g + 1) as f64 / (NODES + 1) as f64;
        let cells = array::from_fn(|g| Panel::new(node(g), node(g + 1)));
        Chances { cells, rows: Vec::new(), sums: [0.0; NODES], cumulated: Vec::new() }
    }

    /// Reserves capacity for `many` thetas, so that later calls do not allocate.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn make_room(&mut self, many: usize) -> Result<()> {
        let rows = many.div_ceil(LANES).saturating_sub(self.rows.len());
        let sums = many.saturating_sub(self.cumulated.len());
        let reserved = self.rows.try_reserve_exact(rows).and_then(|()| self.cumulated.try_reserve_exact(sums));
        reserved.map_err(|_| Error::NoMemory)
    }

    /// Computes all probabilities from these distributions. A theta without a distribution is never the largest.
    pub fn compute(&mut self, distributions: impl ExactSizeIterator<Item = Option<Beta>> + Clone) {
        self.rows.resize(distributions.len().div_ceil(LANES), [[0.0; LANES]; NODES]);
        self.cumulated.resize(distributions.len(), 0.0);
        // About two rounds, in practice at most four. If P is steep on one side only, one of the two guesses is good.
        let mut floor = (0.0, 0.0);
        for round in 0..24 {
            self.rows.fill([[0.0; LANES]; NODES]);
            self.sums = [0.0; NODES];
            distributions.clone().enumerate().for_each(|(place, distribution)| self.change(place, distribution));
            if self.weigh() {
                break;
            }
            floor = self.place_nodes(floor, if round % 2 == 0 { -40.0 } else { -8.0 });
        }
        if self.cumulated.last() == Some(&0.0) {
            // No node was found where the largest may be: all get the same probability. (Not observed so far.)
            let mut alike = 0.0;
            for (sum, distribution) in self.cumulated.iter_mut().zip(distributions) {
                alike += f64::from(u8::from(distribution.is_some()));
                *sum = alike;
            }
        }
    }

    /// Changes one distribution. [`weigh`](Self::weigh) then updates the probabilities.
    pub fn change(&mut self, place: usize, distribution: Option<Beta>) {
        let row = distribution.map_or([0.0; NODES], |distribution| self.row(distribution));
        for ((at, sum), new) in self.rows[place / LANES].iter_mut().zip(&mut self.sums).zip(row) {
            let old = std::mem::replace(&mut at[place % LANES], new);
            *sum += f64::from(new) - f64::from(old);
        }
    }

    fn row(&self, distribution: Beta) -> [f32; NODES] {
        let mut row = [0.0; NODES];
        let density = Density::of(distribution);
        if density.is_below(self.cells[0].low) {
            return row;
        }
        let mut above = 0.0f64;
        for (at, cell) in row.iter_mut().zip(&self.cells).rev() {
            above += density.mass(cell);
            *at = -(-above.min(1.0 - 1e-12)).ln_1p() as f32;
        }
        row
    }

    /// P at a node.
    fn below(&self, node: usize) -> f64 {
        self.sums.get(node).map_or(1.0, |sum| (-sum).exp())
    }

    /// Sums up the probabilities. Returns false if the nodes are too far apart for them to be accurate.
    pub fn weigh(&mut self) -> bool {
        let mut weights = [0.0f32; NODES];
        let mut p = self.below(0);
        let mut last = if p > 0.0 { -p / self.sums[0].max(1e-9) } else { 0.0 };
        let mut resolved = p * 2.0 <= MOST;
        for (g, weight) in weights.iter_mut().enumerate() {
            let next = self.below(g + 1);
            let growth = self.sums[g] - self.sums.get(g + 1).unwrap_or(&0.0);
            resolved &= (next - p) * growth.clamp(0.4, 2.0) <= MOST;
            let mean = if growth > 1e-9 { (next - p) / growth } else { next };
            *weight = (mean - last).max(0.0) as f32;
            (p, last) = (next, mean);
        }
        let mut sum = 0.0;
        for (rows, sums) in self.rows.iter().zip(self.cumulated.chunks_mut(LANES)) {
            let mut chances = [0.0; LANES];
            for (row, weight) in rows.iter().zip(weights) {
                (0..LANES).for_each(|lane| chances[lane] += weight * row[lane]);
            }
            for (upto, chance) in sums.iter_mut().zip(chances) {
                sum += f64::from(chance);
                *upto = sum;
            }
        }
        resolved
    }

    /// Moves the nodes to the quantiles of P. ln P/(1 - P) is about linear between the points where P is known,
    /// except at the ends. `floor` is the highest known point below all nodes, and P there. Returns the next such
    /// point.
    fn place_nodes(&mut self, floor: (f64, f64), least: f64) -> (f64, f64) {
        let level = |p: f64| (p / (1.0 - p)).ln().clamp(least, 8.0);
        let (mut low, mut next, mut g) = (floor, floor, 0);
        let nodes: [f64; NODES] = array::from_fn(|node| {
            while self.below(g) < quantile(node) {
                low = (self.cells[g].low, self.below(g));
                g += 1;
            }
            if node == 0 {
                next = low;
            }
            let to = self.cells.get(g).map_or(1.0, |cell| cell.low);
            let [start, end, target] = [low.1, self.below(g), quantile(node)].map(level);
            low.0 + (to - low.0) * (target - start) / (end - start)
        });
        self.cells = array::from_fn(|g| Panel::new(nodes[g], *nodes.get(g + 1).unwrap_or(&1.0)));
        next
    }

    /// Draws one of them with its probability.
    #[inline]
    pub fn draw(&self, coins: &mut Random) -> usize {
        let all = self.cumulated[self.cumulated.len() - 1];
        let mark = (coins.unit() * all).min(all.next_down());
        self.cumulated.partition_point(|&sum| sum <= mark)
    }

    /// The probability of one of them.
    #[inline]
    pub fn chance(&self, place: usize) -> f64 {
        let below = if place > 0 { self.cumulated[place - 1] } else { 0.0 };
        (self.cumulated[place] - below) / self.cumulated[self.cumulated.len() - 1]
    }
}

/// A Beta distribution, a >= 1 and b >= 1.
#[derive(Clone, Copy, Debug)]
pub struct Beta {
    pub a: f64,
    pub b: f64,
}

/// The density of a distribution, prepared for integration.
struct Density {
    distribution: Beta,
    mean: f64,
    deviation: f64,
    log_scale: f64,
}

impl Density {
    /// Deviations from the mean beyond which the density is negligible.
    const FAR: f64 = 20.0;

    fn of(distribution: Beta) -> Density {
        let Beta { a, b } = distribution;
        let n = a + b;
        let deviation = (a * b / (n + 1.0)).sqrt() / n;
        Density { distribution, mean: a / n, deviation, log_scale: ln_gamma(n) - ln_gamma(a) - ln_gamma(b) }
    }

    /// Whether P(theta > x) is below 1e-13. Beyond the mode it is at most the density at x divided by that at the
    /// mode, because the logarithm of the density is concave.
    fn is_below(&self, x: f64) -> bool {
        let (a, b) = (self.distribution.a - 1.0, self.distribution.b - 1.0);
        let mode = a / (a + b);
        let part = |share: f64, log: f64| if share > 0.0 { share * log } else { 0.0 };
        x > mode && part(a, (mode / x).ln()) + part(b, ((1.0 - mode) / (1.0 - x)).ln()) > 30.0
    }

    /// P(theta in the panel), by Gauss's rule for two points.
    fn over(&self, panel: &Panel) -> f64 {
        let at = |&(log, rest): &(f64, f64)| {
            (self.log_scale + (self.distribution.a - 1.0) * log + (self.distribution.b - 1.0) * rest).exp()
        };
        0.5 * (panel.high - panel.low) * (at(&panel.points[0]) + at(&panel.points[1]))
    }

    /// P(theta in the cell), in panels of at most half a deviation, and longer ones far from the mean.
    fn mass(&self, cell: &Panel) -> f64 {
        let low = cell.low.max(self.mean - Self::FAR * self.deviation);
        let mut from = cell.high.min(self.mean + Self::FAR * self.deviation);
        let mut mass = 0.0;
        while from > low {
            let length = (0.5 * self.deviation).max(0.25 * (from - self.mean).abs());
            let to = low.max(from - length);
            mass +=
                if (to, from) == (cell.low, cell.high) { self.over(cell) } else { self.over(&Panel::new(to, from)) };
            from = to;
        }
        mass
    }
}

/// An interval, with the two points where densities are evaluated: ln x and ln(1 - x) of each.
#[derive(Clone, Copy)]
struct Panel {
    low: f64,
    high: f64,
    points: [(f64, f64); 2],
}

impl Panel {
    fn new(low: f64, high: f64) -> Panel {
        let (centre, offset) = (0.5 * (low + high), 0.5 * (high - low) * 3f64.sqrt().recip());
        let points = [centre - offset, centre + offset].map(|x| (x.ln(), (-x).ln_1p()));
        Panel { low, high, points }
    }
}

/// ln Gamma(x), x >= 1: Stirling's series from 8 on, where its error is below 1e-10.
fn ln_gamma(mut x: f64) -> f64 {
    let mut product = 1.0;
    while x < 8.0 {
        product *= x;
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::super::draw::beta;
    use super::*;
    use crate::random::Seed;

    impl Density {
        fn at(&self, x: f64) -> f64 {
            (self.log_scale + (self.distribution.a - 1.0) * x.ln() + (self.distribution.b - 1.0) * (-x).ln_1p()).exp()
        }
    }

    /// The quadrature against 200,000 draws of the thetas themselves: 5 standard errors and 1e-4.
    #[test]
    fn chances_are_those_of_thompson_sampling() {
        let mut random = Seed::new(Some([8; 32])).unwrap().stream();
        let crowd: Vec<_> = (0..30).map(|i| (3.0 + f64::from(i % 4), 9.0)).collect();
        let fields: [&[(f64, f64)]; 6] = [
            &[(1.0, 1.0), (1.0, 1.0), (1.0, 1.0)],
            &[(301.0, 101.0), (11.0, 7.0), (1.0, 1.0)],
            &[(5.0, 1.0), (1.0, 5.0), (3.0, 3.0), (400_000.0, 100_000.0)],
            &[(750_000.0, 250_000.0), (749_000.0, 251_000.0), (30.0, 12.0), (2.0, 1.0)],
            &[(1.0, 1001.0), (1.0, 1001.0), (1.0, 801.0)],
            &crowd,
        ];
        const DRAWS: u32 = 200_000;
        for distributions in fields {
            let distributions: Vec<_> = distributions.iter().map(|&(a, b)| Beta { a, b }).collect();
            let mut chances = Chances::new();
            chances.compute(distributions.iter().copied().map(Some));
            let mut wins = vec![0u32; distributions.len()];
            for _ in 0..DRAWS {
                let (mut best, mut most) = (0, -1.0);
                for (i, distribution) in distributions.iter().enumerate() {
                    let theta = beta(distribution.a, distribution.b, &mut random);
                    if theta > most {
                        (best, most) = (i, theta);
                    }
                }
                wins[best] += 1;
            }
            for (arm, &won) in wins.iter().enumerate() {
                let (seen, chance) = (f64::from(won) / f64::from(DRAWS), chances.chance(arm));
                let error = (chance * (1.0 - chance) / f64::from(DRAWS)).sqrt();
                assert!((seen - chance).abs() < 5.0 * error + 1e-4, "{arm}: {seen} {chance}");
            }
        }
    }

    /// Distributions, and the number of thetas with each.
    type Posteriors = Vec<(Beta, usize)>;

    /// The integral of P d ln F_j, with P and F_j at about ten thousand points for each distribution.
    fn reference(field: &Posteriors) -> Vec<f64> {
        let mut points: Vec<f64> = (0..1200).map(|i| 1.0 - (-f64::from(i) / 40.0).exp()).collect();
        for &(distribution, _) in field {
            let Density { mean, deviation, .. } = Density::of(distribution);
            points.extend((-8000..=8000).map(|i| mean + f64::from(i) / 400.0 * deviation));
        }
        points.retain(|x| (0.0..1.0).contains(x));
        points.push(1.0);
        points.sort_by(f64::total_cmp);
        let logs: Vec<Vec<f64>> = field
            .iter()
            .map(|&(distribution, _)| {
                let density = Density::of(distribution);
                let mass = |pair: &[f64]| {
                    let (x, y) = (pair[0].max(1e-300), pair[1].min(1.0 - 1e-16));
                    (y - x).max(0.0) / 6.0 * (density.at(x) + 4.0 * density.at(0.5 * (x + y)) + density.at(y))
                };
                let masses: Vec<f64> = points.windows(2).map(mass).collect();
                let all: f64 = masses.iter().sum();
                assert!((all - 1.0).abs() < 1e-6, "{distribution:?}: {all}");
                let (mut above, mut below) = (all, 0.0);
                let log =
                    |above: f64, below: f64| if below < 0.5 { f64::max(below, 1e-300).ln() } else { (-above).ln_1p() };
                let inner = masses
                    .iter()
                    .map(|mass| {
                        below += mass;
                        above -= mass;
                        below
                    })
                    .collect::<Vec<_>>();
                above = 0.0;
                let mut aboves: Vec<f64> = masses
                    .iter()
                    .rev()
                    .map(|mass| {
                        above += mass;
                        above
                    })
                    .collect();
                aboves.reverse();
                aboves.push(0.0);
                std::iter::once(0.0).chain(inner).zip(aboves).map(|(below, above)| log(above, below)).collect()
            })
            .collect();
        let p = |k: usize| field.iter().zip(&logs).map(|((_, n), log)| *n as f64 * log[k]).sum::<f64>().exp();
        let all: Vec<f64> = (0..points.len()).map(p).collect();
        let chance = |log: &Vec<f64>| (1..all.len()).map(|k| 0.5 * (all[k] + all[k - 1]) * (log[k] - log[k - 1])).sum();
        logs.iter().map(chance).collect()
    }

    fn fields() -> Vec<Posteriors> {
        let distribution = |a: f64, b: f64| Beta { a, b };
        vec![
            vec![(distribution(1.0, 1.0), 3)],
            vec![(distribution(2.0, 1.0), 999), (distribution(3.0, 1.0), 1)],
            vec![(distribution(17.0, 1.0), 500), (distribution(9.0, 1.0), 300), (distribution(33.0, 1.0), 200)],
            vec![
                (distribution(129.0, 1.0), 300),
                (distribution(120.0, 10.0), 100),
                (distribution(80.0, 50.0), 500),
                (distribution(257.0, 1.0), 100),
            ],
            vec![(distribution(301.0, 101.0), 1), (distribution(11.0, 7.0), 1), (distribution(1.0, 1.0), 1)],
            vec![
                (distribution(750e3, 250e3), 1),
                (distribution(749e3, 251e3), 1),
                (distribution(30.0, 12.0), 300),
                (distribution(2.0, 1.0), 1),
                (distribution(90.0, 60.0), 400),
            ],
            vec![(distribution(750e3, 250e3), 1), (distribution(90.0, 60.0), 400), (distribution(180.0, 90.0), 400)],
            vec![(distribution(1.0, 1001.0), 2), (distribution(1.0, 801.0), 1)],
            vec![
                (distribution(3.0, 9.0), 8),
                (distribution(4.0, 9.0), 8),
                (distribution(5.0, 9.0), 7),
                (distribution(6.0, 9.0), 7),
            ],
            vec![(distribution(400.0, 600.0), 1), (distribution(399.0, 601.0), 1)],
            vec![(distribution(7.5e6, 2.5e6), 1), (distribution(5.0, 5.0), 999)],
        ]
    }

    /// Half the sum of the errors, and the ratio farthest from 1 among all probabilities above a millionth.
    fn errors(chances: &Chances, distributions: &[Option<Beta>]) -> (f64, f64) {
        let mut field = Posteriors::new();
        let mut kind = vec![usize::MAX; distributions.len()];
        for (place, distribution) in distributions.iter().enumerate() {
            let Some(distribution) = distribution else { continue };
            let same = field.iter().position(|(other, _)| (other.a, other.b) == (distribution.a, distribution.b));
            kind[place] = same.unwrap_or(field.len());
            match same {
                Some(same) => field[same].1 += 1,
                None => field.push((*distribution, 1)),
            }
        }
        let slow = reference(&field);
        let total: f64 = slow.iter().zip(&field).map(|(p, (_, n))| p * *n as f64).sum();
        assert!((total - 1.0).abs() < 1e-3, "{total}");
        let (mut distance, mut worst) = (0.0, 0.0f64);
        for (place, kind) in kind.into_iter().enumerate() {
            let (seen, p) = (chances.chance(place), slow.get(kind).map_or(0.0, |p| p / total));
            distance += 0.5 * (seen - p).abs();
            if p > 1e-6 {
                worst = worst.max((seen / p).ln().abs());
            }
        }
        (distance, worst)
    }

    #[test]
    fn chances_are_the_integrals() {
        for field in fields() {
            let distributions: Vec<_> =
                field.iter().flat_map(|&(distribution, n)| std::iter::repeat_n(Some(distribution), n)).collect();
            let mut chances = Chances::new();
            chances.compute(distributions.iter().copied());
            let (distance, worst) = errors(&chances, &distributions);
            assert!(distance < 1e-3 && worst < 5e-3, "{field:?}: {distance} {worst}");
        }
    }

    /// One distribution after another, among many and among few, until the nodes must move.
    #[test]
    fn chances_follow_their_distributions() {
        let mut random = Seed::new(Some([3; 32])).unwrap().stream();
        for (many, kinds) in [(3usize, 3), (40, 6), (300, 4)] {
            let kind = |random: &mut Random, stage: i32| {
                let count = f64::from(1 << (stage + random.below(3) as i32));
                let mean = (0.5 + random.below(kinds) as f64 / kinds as f64).min(1.0);
                Beta { a: 1.0 + mean * count, b: 1.0 + (1.0 - mean) * count }
            };
            let mut distributions: Vec<_> = (0..many).map(|_| Some(kind(&mut random, 1))).collect();
            let mut chances = Chances::new();
            chances.compute(distributions.iter().copied());
            let (mut farthest, mut moved) = (0.0f64, 0);
            for step in 0..12 * many {
                let place = random.below(many as u64) as usize;
                distributions[place] = (random.below(10) > 0).then(|| kind(&mut random, (step / many) as i32));
                if distributions.iter().all(Option::is_none) {
                    continue;
                }
                chances.change(place, distributions[place]);
                if !chances.weigh() {
                    chances.compute(distributions.iter().copied());
                    moved += 1;
                }
                if step % many.div_ceil(2) == 0 {
                    farthest = farthest.max(errors(&chances, &distributions).0);
                }
            }
            assert!(farthest < 5e-3, "{many}: {farthest}");
            assert!(moved * 2 < 12 * many, "{many}: {moved}");
        }
    }

    #[test]
    fn the_logarithm_of_gamma() {
        let mut factorial = 0.0;
        for n in 1..30 {
            assert!((ln_gamma(f64::from(n)) - factorial).abs() < 1e-9 * (1.0 + factorial), "{n}");
            factorial += f64::from(n).ln();
        }
        assert!((ln_gamma(1.5) - (std::f64::consts::PI.sqrt() / 2.0).ln()).abs() < 1e-9);
    }
}
