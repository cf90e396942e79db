//! Lazy-DP-TS: Thompson sampling from released means (Hu and Hegde 2022).
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`] (rho-zCDP with delta > 0): an arm's answers
//! fill batches of 1, 2, 4, ... and each is released once. With O rewards in the last release and
//! noisy mean y, mu = clip(y + 3 ln t/(eps O)) (for Gaussian noise sigma sqrt(6 ln t)/O: both are
//! passed with chance at most t^-3), theta ~ Beta(mu O + 1, (1 - mu) O + 1), and the arm of the
//! largest theta is played. Arms without a release are played once, then stand at Beta(1, 1); with a
//! `min_propensity` they stand there from the start. The paper's algorithm, and a baseline:
//! [`med`](super::med) has propensities too, at a quarter of the regret.
//!
//! Two choices beyond the paper, both for propensities that can be trusted: t stands still between
//! releases, so the chances of the arms do too; and they are computed, by quadrature, once after a
//! release, and the arm is drawn from exactly these. So an error of the quadrature (tails
//! beyond 20 deviations count as none) is an error of the policy, never of the propensity.
//!
//! Cost: select O(log K), update O(1); the first select after a release takes K times
//! min(32 K, 512) nodes, and so does every `select_among` (with n for K): this
//! is a policy for hundreds of arms, at most 2^10. 308 bytes an arm.

use super::explore::Explore;
use super::room::loss;
use crate::batch::Batch;
use crate::config::Config;
#[cfg(feature = "test-hooks")]
use crate::config::Fault;
use crate::error::{Error, Result};
use crate::noise::{Noise, NoiseSource};
use crate::policy::contract::{ArmState, Flexible, Policy, Pull};
use crate::privacy::PrivacyLoss;
use crate::random::{Random, Seed};
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure, is_plausible};
use crate::table::{Table, queue_room};
use std::collections::VecDeque;
use std::f64::consts::LN_2;

pub struct LazyTs {
    arms: Table<Arm>,
    noise: NoiseSource,
    coins: Random,
    explore: Explore,
    /// Readable widths hold with chance 1 - beta: ln(1/beta).
    ln_inverse_beta: f64,
    decisions: u64,
    releases: u32,
    /// It goes on from a snapshot: there may have been releases since.
    has_lived: bool,
    live: u32,
    /// Arms not played yet.
    unplayed: VecDeque<u32>,
    /// The chances of all arms are as the last releases say.
    settled: bool,
    all: Chances,
    some: Chances,
    /// Tells the arms of one `choose_among` from those of another.
    mark: u64,
    #[cfg(feature = "test-hooks")]
    fault: Fault,
}

struct Arm {
    /// The open batch.
    batch: Batch,
    /// As last released.
    mean: f64,
    /// O, rewards in the last release.
    count: u64,
    /// Decisions, less the cancelled ones.
    pulls: u64,
    mark: u64,
    live: bool,
}

impl Arm {
    fn new() -> Arm {
        let mut batch = Batch::default();
        batch.open(1, 0);
        Arm { batch, mean: f64::NAN, count: 0, pulls: 0, mark: 0, live: true }
    }
}

impl LazyTs {
    /// With more, the quadrature after a release would take longer than 30 ms.
    const MOST_ARMS: u32 = 1 << 10;

    pub fn new(config: &Config, seed: &mut Seed) -> Result<LazyTs> {
        config.check_arms(Self::MOST_ARMS)?;
        let noise = config.noise()?;
        let arms = config.arms as usize;
        let mut policy = LazyTs {
            arms: Table::new(arms, |_| Arm::new())?,
            noise: NoiseSource::new(noise, seed.stream()),
            coins: seed.stream(),
            explore: Explore::new(config.min_propensity),
            ln_inverse_beta: config.ln_inverse_beta(),
            decisions: 0,
            releases: 0,
            has_lived: false,
            live: config.arms,
            unplayed: VecDeque::new(),
            settled: false,
            all: Chances::default(),
            some: Chances::default(),
            mark: 0,
            #[cfg(feature = "test-hooks")]
            fault: config.fault,
        };
        policy.make_room(arms)?;
        policy.unplayed.extend(0..config.arms);
        Ok(policy)
    }

    /// Room for so many arms, so that nothing allocates later.
    fn make_room(&mut self, arms: usize) -> Result<()> {
        queue_room(&mut self.unplayed, arms)?;
        self.all.make_room(arms)?;
        self.some.make_room(arms)
    }

    /// mu's share of the noise: t^-3 is the chance that the noise of a sum exceeds it.
    fn margin(&self) -> f64 {
        let log = (self.decisions.max(1) as f64).ln();
        match self.noise.law() {
            Noise::Laplace(law) => 3.0 * log / law.epsilon(),
            Noise::Gaussian(law) => law.sigma() as f64 / Reward::ONE as f64 * (6.0 * log).sqrt(),
        }
    }

    fn play(&mut self, arm: u32, propensity: f64) -> Pull {
        self.arms[arm as usize].pulls += 1;
        self.decisions += 1;
        Pull::new(arm, self.releases, propensity)
    }

    /// The one place where rewards become public.
    fn release(&mut self, arm: u32) {
        let state = &mut self.arms[arm as usize];
        let released = state.batch.release(&mut self.noise);
        (state.mean, state.count) = (released.mean(), released.count);
        state.batch.open((2 * released.count).min(Batch::MAX_QUOTA), 0);
        self.releases = self.releases.saturating_add(1);
        self.settled = false;
    }
}

impl Policy for LazyTs {
    fn choose(&mut self) -> Pull {
        while self.explore.share == 0.0
            && let Some(arm) = self.unplayed.pop_front()
        {
            if self.arms[arm as usize].live {
                return self.play(arm, 1.0);
            }
        }
        if !self.settled {
            let margin = self.margin();
            self.all.clear();
            for (number, arm) in self.arms.iter().enumerate().filter(|(_, arm)| arm.live) {
                self.all.enter(number as u32, Beta::of(arm, margin));
            }
            self.all.compute();
            self.settled = true;
        }
        let (arm, chance) = self.all.draw(&mut self.coins, &self.explore);
        self.play(arm, chance)
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        let batch = &mut self.arms[pull.arm() as usize].batch;
        if batch.collect(reward) && batch.free() == 0 {
            self.release(pull.arm());
        }
    }

    fn cancel(&mut self, pull: Pull) {
        let state = &mut self.arms[pull.arm() as usize];
        state.pulls -= 1;
        // With a floor under the chances the queue is never asked.
        if state.pulls == 0 && state.live && self.explore.share == 0.0 {
            self.unplayed.push_back(pull.arm());
        }
    }

    fn arm(&self, arm: u32) -> ArmState {
        let state = &self.arms[arm as usize];
        let count = state.count as f64;
        // Half of beta for the noise, half for Hoeffding's bound.
        let log = LN_2 + self.ln_inverse_beta; // ln(2/beta)
        let noise = self.noise.law().width_at(log) / Reward::ONE as f64 / count;
        let width = if state.count == 0 { f64::NAN } else { noise + ((LN_2 + log) / (2.0 * count)).sqrt() };
        #[cfg(feature = "test-hooks")]
        let width = if self.fault.is(Fault::RawWidth) { width + 1e-6 * state.batch.bare_sum() } else { width };
        ArmState { mean: state.mean.clamp(0.0, 1.0), width, effective_pulls: count, active: state.live }
    }

    fn phase(&self) -> u32 {
        self.releases
    }

    fn active(&self) -> u32 {
        self.live
    }

    fn privacy(&self) -> PrivacyLoss {
        loss(&self.noise.law(), self.releases > 0 || self.has_lived)
    }

    fn flexible(&mut self) -> Option<&mut dyn Flexible> {
        Some(self)
    }

    fn save(&self, to: &mut Writer) -> Result<()> {
        to.u64(self.decisions);
        to.u32(self.releases);
        to.u32(self.arms.len() as u32);
        for arm in &*self.arms {
            to.u8(arm.live.into());
            to.u64(arm.count);
            to.f64(arm.mean);
        }
        Ok(())
    }

    /// Every arm's open batch starts afresh.
    fn load(&mut self, from: &mut Reader) -> Result<()> {
        self.decisions = from.count()?;
        self.releases = from.u32()?;
        self.has_lived = true;
        ensure(from.u32()? as usize == self.arms.len())?;
        self.unplayed.clear();
        for number in 0..self.arms.len() as u32 {
            let live = from.bool()?;
            let arm = &mut self.arms[number as usize];
            (arm.count, arm.mean) = (from.count()?.min(Batch::MAX_QUOTA), from.f64()?);
            ensure(if arm.count == 0 { arm.mean.is_nan() } else { is_plausible(arm.mean) })?;
            arm.pulls = arm.count;
            arm.batch.open((2 * arm.count).clamp(1, Batch::MAX_QUOTA), 0);
            if !live {
                self.retire_arm(number);
            } else if self.arms[number as usize].count == 0 {
                self.unplayed.push_back(number);
            }
        }
        ensure(self.live >= 1)
    }
}

impl Flexible for LazyTs {
    fn choose_among(&mut self, arms: &[u32]) -> Pull {
        let unplayed = |&&arm: &&u32| self.explore.share == 0.0 && self.arms[arm as usize].pulls == 0;
        if let Some(&arm) = arms.iter().find(unplayed) {
            self.unplayed.retain(|&other| other != arm);
            return self.play(arm, 1.0);
        }
        let margin = self.margin();
        self.mark += 1;
        self.some.clear();
        for &number in arms {
            let arm = &mut self.arms[number as usize];
            if std::mem::replace(&mut arm.mark, self.mark) != self.mark {
                self.some.enter(number, Beta::of(arm, margin));
            }
        }
        self.some.compute();
        let (arm, chance) = self.some.draw(&mut self.coins, &self.explore);
        self.play(arm, chance)
    }

    fn is_live(&self, arm: u32) -> bool {
        self.arms[arm as usize].live
    }

    fn add_arm(&mut self) -> Result<()> {
        if self.arms.len() >= Self::MOST_ARMS as usize {
            let rule = format!("must be at most {} for this policy", Self::MOST_ARMS);
            return Err(Error::config("arms", &rule, self.arms.len() + 1));
        }
        self.make_room(self.arms.len() + 1)?;
        self.arms.reserve()?;
        self.unplayed.push_back(self.arms.len() as u32);
        self.arms.push(Arm::new());
        self.live += 1;
        self.settled = false;
        Ok(())
    }

    fn retire_arm(&mut self, arm: u32) {
        self.arms[arm as usize].live = false;
        self.live -= 1;
        self.settled = false;
    }
}

/// An arm's law of theta.
#[derive(Clone, Copy)]
struct Beta {
    a: f64,
    b: f64,
}

impl Beta {
    fn of(arm: &Arm, margin: f64) -> Beta {
        if arm.count == 0 {
            return Beta { a: 1.0, b: 1.0 };
        }
        let count = arm.count as f64;
        let mean = (arm.mean + margin / count).clamp(0.0, 1.0);
        Beta { a: mean * count + 1.0, b: (1.0 - mean) * count + 1.0 }
    }

    /// Mean plus this many deviations.
    fn point(self, deviations: f64) -> f64 {
        let (a, b, n) = (self.a, self.b, self.a + self.b);
        a / n + deviations * (a * b / (n + 1.0)).sqrt() / n
    }

    fn log_scale(self) -> f64 {
        ln_gamma(self.a + self.b) - ln_gamma(self.a) - ln_gamma(self.b)
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

/// P(theta_j is the largest) for some arms, and a draw from exactly that.
#[derive(Default)]
struct Chances {
    entries: Vec<Entry>,
    /// Nodes of the quadrature, largest first.
    nodes: Vec<f64>,
}

struct Entry {
    arm: u32,
    law: Beta,
    log_scale: f64,
    /// The density at the last node, and times the others' distribution functions.
    density: f64,
    term: f64,
    /// P(theta > last node).
    above: f64,
    /// The densities at the cell's middle and end, and the distribution function there.
    middle: (f64, f64),
    end: (f64, f64),
    /// P(theta is the largest).
    chance: f64,
    /// Of the arms up to this one.
    cumulated: f64,
}

impl Chances {
    const NODES: usize = 512;
    /// No arm's theta strays farther, in deviations; nodes are dense where most of the mass is.
    const FAR: f64 = 20.0;
    const OFFSETS: [f64; 29] = [
        -20.0, -14.5, -11.0, -8.5, -6.5, -5.0, -4.0, -3.5, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0,
        2.5, 3.0, 3.5, 4.0, 5.0, 6.5, 8.5, 11.0, 14.5, 20.0,
    ];

    fn make_room(&mut self, arms: usize) -> Result<()> {
        let (entries, nodes) = (&mut self.entries, &mut self.nodes);
        entries
            .try_reserve(arms.saturating_sub(entries.len()))
            .and_then(|()| nodes.try_reserve((Self::NODES + Self::OFFSETS.len() + 2).saturating_sub(nodes.len())))
            .map_err(|_| Error::NoMemory)
    }

    fn clear(&mut self) {
        self.entries.clear();
    }

    fn enter(&mut self, arm: u32, law: Beta) {
        self.entries.push(Entry {
            arm,
            law,
            log_scale: 0.0,
            density: 0.0,
            term: 0.0,
            above: 0.0,
            middle: (0.0, 0.0),
            end: (0.0, 0.0),
            chance: 0.0,
            cumulated: 0.0,
        });
    }

    /// Simpson's rule for P(j is largest) = integral of f_j(x) prod_{i != j} F_i(x), from the top
    /// down, with F_i cumulated on the way.
    fn compute(&mut self) {
        let inside = |x: f64| x.clamp(1e-15, 1.0 - 1e-15);
        let floor = inside(self.entries.iter().map(|e| e.law.point(-Self::FAR)).fold(0.0, f64::max));
        let top = inside(self.entries.iter().map(|e| e.law.point(Self::FAR)).fold(0.0, f64::max));
        // Arms that reach the floor: to the front, only they have a chance.
        let mut reach = 0;
        for i in 0..self.entries.len() {
            if self.entries[i].law.point(Self::FAR) > floor {
                self.entries.swap(reach, i);
                reach += 1;
            }
        }
        self.nodes.clear();
        self.nodes.extend([floor, top]);
        if reach * Self::OFFSETS.len() <= Self::NODES {
            for entry in &self.entries[..reach] {
                let points = Self::OFFSETS.iter().map(|&offset| entry.law.point(offset));
                self.nodes.extend(points.filter(|&x| x > floor && x < top));
            }
        } else {
            let step = (top - floor) / Self::NODES as f64;
            self.nodes.extend((1..Self::NODES).map(|i| floor + i as f64 * step));
        }
        self.nodes.sort_unstable_by(|x, y| y.total_cmp(x));

        for entry in &mut self.entries[..reach] {
            entry.log_scale = entry.law.log_scale();
            entry.density = density(entry, top);
            entry.term = entry.density;
        }
        for i in 1..self.nodes.len() {
            let (from, to) = (self.nodes[i - 1], self.nodes[i]);
            if to < from {
                self.add_cell(reach, from, to);
            }
        }
        let mut total = 0.0;
        for entry in &mut self.entries {
            total += entry.chance;
            entry.cumulated = total;
        }
        self.entries.iter_mut().for_each(|entry| entry.chance /= total);
    }

    fn add_cell(&mut self, reach: usize, from: f64, to: f64) {
        let (width, centre) = (from - to, 0.5 * (from + to));
        let contenders = &mut self.entries[..reach];
        let (mut log_middle, mut log_end) = (0.0, 0.0);
        for entry in &mut *contenders {
            let (start, middle, end) = (entry.density, density(entry, centre), density(entry, to));
            // the parabola through the three, over its first half and over the whole
            let half = width * (5.0 * start + 8.0 * middle - end) / 24.0;
            let whole = width * (start + 4.0 * middle + end) / 6.0;
            let below = |above: f64| (1.0 - above).max(1e-300);
            entry.middle = (middle, below(entry.above + half));
            entry.end = (end, below(entry.above + whole));
            log_middle += entry.middle.1.ln();
            log_end += entry.end.1.ln();
        }
        let (all_middle, all_end) = (log_middle.exp(), log_end.exp());
        for entry in contenders {
            // prod_{i != j} F_i = prod F_i / F_j
            let middle = entry.middle.0 * all_middle / entry.middle.1;
            let end = entry.end.0 * all_end / entry.end.1;
            entry.chance += width * (entry.term + 4.0 * middle + end) / 6.0;
            entry.above = 1.0 - entry.end.1;
            (entry.density, entry.term) = (entry.end.0, end);
        }
    }

    fn draw(&self, coins: &mut Random, explore: &Explore) -> (u32, f64) {
        let arms = self.entries.len();
        let drawn = match explore.tosses(coins) {
            true => coins.below(arms as u64) as usize,
            false => {
                let mark = coins.unit() * self.entries[arms - 1].cumulated;
                self.entries.partition_point(|entry| entry.cumulated <= mark).min(arms - 1)
            }
        };
        let entry = &self.entries[drawn];
        (entry.arm, explore.mix(1.0 / arms as f64, entry.chance))
    }
}

fn density(entry: &Entry, x: f64) -> f64 {
    let Beta { a, b } = entry.law;
    (entry.log_scale + (a - 1.0) * x.ln() + (b - 1.0) * (-x).ln_1p()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaussian(random: &mut Random) -> f64 {
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * random.unit()).cos()
    }

    /// Marsaglia and Tsang (2000), for shapes of at least 1.
    fn gamma(shape: f64, random: &mut Random) -> f64 {
        let d = shape - 1.0 / 3.0;
        loop {
            let x = gaussian(random);
            let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
            if v > 0.0 && (1.0 - random.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
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
        for laws in fields {
            let laws: Vec<_> = laws.iter().map(|&(a, b)| Beta { a, b }).collect();
            let mut chances = Chances::default();
            laws.iter().enumerate().for_each(|(i, &law)| chances.enter(i as u32, law));
            chances.compute();
            let mut wins = vec![0u32; laws.len()];
            for _ in 0..DRAWS {
                let (mut best, mut most) = (0, -1.0);
                for (i, law) in laws.iter().enumerate() {
                    let (a, b) = (gamma(law.a, &mut random), gamma(law.b, &mut random));
                    if a / (a + b) > most {
                        (best, most) = (i, a / (a + b));
                    }
                }
                wins[best] += 1;
            }
            for entry in &chances.entries {
                let seen = f64::from(wins[entry.arm as usize]) / f64::from(DRAWS);
                let error = (entry.chance * (1.0 - entry.chance) / f64::from(DRAWS)).sqrt();
                assert!((seen - entry.chance).abs() < 5.0 * error + 1e-4, "{}: {seen} {}", entry.arm, entry.chance);
            }
        }
    }

    /// mu = clip(y + 3 ln t/(eps O)), and sigma sqrt(6 ln t)/O for Gaussian noise; theta ~ Beta(mu O + 1,
    /// (1 - mu) O + 1).
    #[test]
    fn means_are_raised_by_the_noises_margin() {
        for (delta, widest) in [(0.0, 3.0 / 0.5), (1e-3, f64::NAN)] {
            let mut config = Config::new(3, 0.5);
            config.delta = delta;
            let mut policy = LazyTs::new(&config, &mut Seed::new(Some([1; 32])).unwrap()).unwrap();
            for _ in 0..500 {
                let pull = policy.choose();
                policy.observe(pull, Reward::from_units(if pull.arm() == 0 { Reward::ONE as u32 } else { 0 }));
            }
            let log = 500f64.ln();
            let margin = match policy.noise.law() {
                Noise::Laplace(_) => widest * log,
                Noise::Gaussian(law) => law.sigma() as f64 / Reward::ONE as f64 * (6.0 * log).sqrt(),
            };
            assert!((policy.margin() / margin - 1.0).abs() < 1e-6, "{} {margin}", policy.margin());
            policy.settled = false;
            policy.choose();
            assert_eq!(policy.all.entries.len(), 3);
            for entry in &policy.all.entries {
                let arm = &policy.arms[entry.arm as usize];
                let count = arm.count as f64;
                let mean = (arm.mean + margin / count).clamp(0.0, 1.0);
                let error = (entry.law.a - mean * count - 1.0).abs() + (entry.law.b - (1.0 - mean) * count - 1.0).abs();
                assert!(count > 1.0 && error < 1e-3 * count, "{} {}", entry.law.a, entry.law.b);
            }
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
