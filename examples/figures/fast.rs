//! Fast simulations of two policies that do not make single decisions. Their regret curves have the same distribution
//! as those of the library.
//!
//! The simulation of DP-SE draws each epoch as a whole, with binomial sums. SS19 play Private-UCB for 5e7 decisions.
//! Its simulation draws noise from floating-point logarithms instead of exactly, which is good enough for a plot but
//! not for a release. It plays the leader without comparing the arms while no other arm can overtake it.
//! tests/figures.rs compares both simulations with the library by a statistical test.

use super::environment::{Recorder, Setting};
use super::runner::{Curve, Trial};
use dpb::counter::{Tail, WidthLine};
use dpb::noise::Laplace;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Binomial, Distribution};

/// The number of grid units in a reward of 1.
const ONE: f64 = (1 << 24) as f64;

/// The levels of a tree over 2^31 decisions.
const LEVELS: usize = 32;

/// DP-SE (SS19, Algorithm 3) with beta = 1/T.
pub fn dp_se(epsilon: f64, setting: &Setting, at: &[u64], trial: Trial) -> Curve {
    dp_se_with(epsilon, 1.0 / setting.horizon as f64, setting, at, trial)
}

/// DP-SE with any beta.
pub fn dp_se_with(epsilon: f64, beta: f64, setting: &Setting, at: &[u64], trial: Trial) -> Curve {
    let laplace = Laplace::new(epsilon, ONE as u64).expect("a valid epsilon");
    let (mut noise, mut coins) = (trial.coins(), ChaCha8Rng::from_seed(trial.key(3)));
    let gaps = setting.gaps();
    let mut viable: Vec<usize> = (0..gaps.len()).collect();
    let mut recorder = Recorder::new(at);
    for epoch in 1.. {
        if viable.len() == 1 || recorder.done() {
            break;
        }
        let half = 0.5f64.powi(epoch);
        let ratio = viable.len() as f64 * f64::from(epoch).powi(2) / beta;
        let (wide, narrow) = ((8.0 * ratio).ln(), (4.0 * ratio).ln());
        let pulls = (f64::max(32.0 * wide / (half * half), 8.0 * narrow / (epsilon * half)) + 1.0).ceil();
        recorder.round_robin(&viable.iter().map(|&arm| gaps[arm]).collect::<Vec<_>>(), pulls as u64);
        let mean = |&arm: &usize| {
            let sum = Binomial::new(pulls as u64, setting.means[arm]).expect("a mean in [0, 1]").sample(&mut coins);
            (sum as f64 + laplace.sample(&mut noise) as f64 / ONE) / pulls
        };
        let means: Vec<f64> = viable.iter().map(mean).collect();
        let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let width = (wide / (2.0 * pulls)).sqrt() + narrow / (epsilon * pulls);
        let mut means = means.into_iter();
        viable.retain(|_| best - means.next().expect("one each") <= 2.0 * width);
    }
    recorder.finish(gaps[viable[0]])
}

/// Private-UCB (Mishra and Thakurta 2015): UCB on binary-tree sums.
pub fn private_ucb(epsilon: f64, setting: &Setting, at: &[u64], trial: Trial) -> Curve {
    let mut coins = ChaCha8Rng::from_seed(trial.key(4));
    let levels = setting.horizon.ilog2() + 1;
    let scale = f64::from(levels) / epsilon;
    let (gaps, mut recorder) = (setting.gaps(), Recorder::new(at));
    let mut lines = Lines { scale, at: [(f64::NEG_INFINITY, WidthLine::default()); LEVELS] };
    let mut arms: Vec<Arm> = gaps.iter().map(|_| Arm::default()).collect();
    for arm in 0..arms.len() {
        arms[arm].pull(setting.means[arm], scale, &mut coins);
        recorder.step(gaps[arm]);
        let log = ((recorder.time() + 1) as f64).ln();
        arms[arm].rescore(&mut lines, log);
    }
    while !recorder.done() {
        // The scores of arms that are not played only rise with time. So if the leader is above the scores that the
        // other arms have `patience` decisions from now, it is above them until then.
        let now = Time::of(recorder.time() + 1);
        let leader = argmax(&arms, &now);
        let patience = (recorder.time() / 4096).clamp(1, 4096);
        let later = Time::of(recorder.time() + 1 + patience);
        let rival = |time: &Time| {
            let others = arms.iter().enumerate().filter(|&(arm, _)| arm != leader);
            others.map(|(_, arm)| arm.score(time)).fold(f64::NEG_INFINITY, f64::max)
        };
        let ceiling = rival(&later);
        let mut time = now;
        for _ in 0..patience {
            arms[leader].pull(setting.means[leader], scale, &mut coins);
            recorder.step(gaps[leader]);
            time = time.next();
            arms[leader].rescore(&mut lines, time.log);
            if recorder.done() || arms[leader].score(&time) <= ceiling {
                break;
            }
        }
    }
    recorder.finish(0.0)
}

/// Private-UCB with eps/K for each of the K trees, as in Mishra and Thakurta. A reward is in one tree only, so this
/// split is not necessary for privacy.
pub fn shared_private_ucb(epsilon: f64, setting: &Setting, at: &[u64], trial: Trial) -> Curve {
    private_ucb(epsilon / setting.means.len() as f64, setting, at, trial)
}

/// The first arm with the largest score.
fn argmax(arms: &[Arm], time: &Time) -> usize {
    let scores = arms.iter().map(|arm| arm.score(time));
    scores.enumerate().fold((0, f64::NEG_INFINITY), |best, next| if next.1 > best.1 { next } else { best }).0
}

/// The time t and what scores need of it: ln t and sqrt(2 ln t).
struct Time {
    t: f64,
    log: f64,
    root: f64,
}

impl Time {
    fn of(t: u64) -> Time {
        let log = (t as f64).ln();
        Time { t: t as f64, log, root: (2.0 * log).sqrt() }
    }

    /// The time one decision later. If t >= 2^17, uses the series of the logarithm, whose error there is below 1e-16.
    fn next(&self) -> Time {
        if self.t < 131_072.0 {
            return Time::of(self.t as u64 + 1);
        }
        let x = 1.0 / self.t;
        let log = self.log + x * (1.0 - x * (0.5 - x / 3.0));
        Time { t: self.t + 1.0, log, root: (2.0 * log).sqrt() }
    }
}

#[derive(Default)]
struct Arm {
    count: u64,
    ones: u64,
    /// The noise of each p-sum of the current prefix, by level.
    nodes: [f64; LEVELS],
    /// The sum of `nodes`.
    noise: f64,
    /// score = base + radius sqrt(2 ln t) + slope (ln 2 + 4 ln t)
    base: f64,
    radius: f64,
    slope: f64,
}

impl Arm {
    #[inline]
    fn pull(&mut self, mean: f64, scale: f64, coins: &mut ChaCha8Rng) {
        self.ones += u64::from(unit(coins.next_u64()) < mean);
        self.count += 1;
        let level = self.count.trailing_zeros() as usize;
        let replaced: f64 = self.nodes[..level].iter().sum();
        self.nodes[..level].fill(0.0);
        // The lowest bit is the sign. The 53 highest bits determine the size.
        let bits = coins.next_u64();
        let size = -scale * (1.0 - unit(bits)).ln();
        self.nodes[level] = if bits & 1 == 0 { size } else { -size };
        self.noise += self.nodes[level] - replaced;
    }

    #[inline]
    fn rescore(&mut self, lines: &mut Lines, log: f64) {
        let width = lines.get(self.count, log);
        let inverse = 1.0 / self.count as f64;
        self.base = (self.ones as f64 + self.noise + width.offset) * inverse;
        self.radius = inverse.sqrt();
        self.slope = width.slope * inverse;
    }

    #[inline]
    fn score(&self, time: &Time) -> f64 {
        self.base + time.root * self.radius + (std::f64::consts::LN_2 + 4.0 * time.log) * self.slope
    }
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// The widths by number of noises, as lines in ln(2/gamma), where gamma = t^-4. A line is exact at the t for which it
/// was computed. Its relative error is 1e-7 if ln t is 1e-3 larger, so a line is computed again only then.
struct Lines {
    scale: f64,
    at: [(f64, WidthLine); LEVELS],
}

impl Lines {
    #[inline]
    fn get(&mut self, count: u64, log_t: f64) -> WidthLine {
        let noises = count.count_ones();
        let (at, line) = &mut self.at[noises as usize];
        if log_t > *at + 1e-3 {
            let tail = Tail::default().and_many(noises.into(), self.scale);
            (*at, *line) = (log_t, tail.line(std::f64::consts::LN_2 + 4.0 * log_t));
        }
        *line
    }
}
