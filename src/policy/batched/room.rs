//! Geometric batches of every arm, and the least index plays: the room that DP-IMED and DP-KLUCB
//! share. Such a policy is an [`Index`]; all else is here.
//!
//! **Privacy** (pure eps-DP; rho-zCDP with Gaussian noise): Theorem P of [`crate::privacy`]. An
//! answered reward enters its arm's one open batch; a batch's size follows a fixed schedule; it is
//! released once, when full; indices are functions of releases and of public counts: pulls, which
//! are decisions less cancellations, and for [`choose_among`](Flexible::choose_among) the sets of
//! eligible arms, which are public.
//!
//! **Batches.** The first holds `first` answers, and each one multiplies the arm's total by the
//! ratio, 2. A release of n rewards has weight w = 1/(1 + 4V/n), V the noise's variance: about the
//! inverse of its variance in the worst case. All releases of an arm enter its index: because the
//! schedule is the same for all, the sum Z of w times release and the number m of releases say
//! everything, and an arm takes 168 bytes whatever it has seen.
//!
//! **Which arm.** The least index over all arms, without computing all of them: an index is a
//! function of one public number x (the leading mean; the time), and it is convex in x, or its
//! negative concave, so the tangent at any point lies below it everywhere. Arms are kept by their
//! tangents in a [`Tournament`]; the lowest one is computed afresh until the lowest is fresh. So a
//! batch's end costs a few indices and O(log K), and every other decision O(1).
//!
//! **Delays.** Decisions in flight may cover an arm's open batch. It then stands in the race as if
//! it had them: with the pulls that it will have at the end of the batches that are covered, and
//! evidence growing at its present rate. So a burst of decisions goes where the answers would send
//! it if they were like those before, and arms without a release are covered in turn. With answers
//! at once nothing is ever covered, and the policy is the published one.

use crate::batch::Batch;
use crate::config::Config;
#[cfg(feature = "test-hooks")]
use crate::config::Fault;
use crate::error::{Error, Result};
use crate::noise::{Noise, NoiseSource};
use crate::policy::{ArmState, Flexible, Policy, Pull};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;
use crate::table::Table;
use crate::tournament::{Line, Tournament};
use std::f64::consts::LN_2;

/// What makes a policy of the room.
pub trait Index: Send {
    /// The public number that all indices are functions of: from the leading released mean, or
    /// from the number of decisions so far.
    fn point(&self, leader: f64, decisions: u64) -> f64;

    /// A line that touches the arm's index at `point` and is nowhere above it. Least plays.
    fn tangent(&self, arm: &Evidence, point: f64) -> Line;
}

/// What was released of one arm, and how far its decisions go beyond.
pub struct Evidence<'a> {
    /// A row for each release.
    pub batches: &'a [Row],
    /// Z, the weighted sum of releases.
    pub sum: f64,
    /// W, the weighted number of rewards in them.
    pub weight: f64,
    /// N, the number of rewards in them.
    pub pulls: f64,
    /// The pulls at the end of the batches that decisions in flight cover; N without delays.
    pub covered: f64,
}

impl Evidence<'_> {
    /// The released mean, in the unit interval.
    pub fn mean(&self) -> f64 {
        (self.sum / self.weight).clamp(0.0, 1.0)
    }
}

/// One batch of the schedule, and the totals before it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// n, rewards in this batch.
    pub count: u64,
    /// w, the weight of its release.
    pub weight: f64,
    /// Rewards in all batches before.
    before: u64,
    /// The same, weighted.
    weight_before: f64,
    /// Half-width of the interval round the mean of all batches before: computed when the first arm
    /// gets there.
    width_before: f64,
}

/// The sizes of an arm's batches: the same for every arm, so nothing of them is kept per arm.
pub struct Schedule(Box<[Row]>);

impl Schedule {
    /// Rows enough for more decisions than a handle can issue at any plausible rate; an arm that
    /// should outlive them stays as it is.
    const BATCHES: usize = 64;

    /// Totals `first`, `first * ratio`, `first * ratio^2`, ...
    ///
    /// # Errors
    /// `InvalidConfig` for ratios below 1.5: with many releases of nearly one size the noises add
    /// up, and rare runs lose the best arm for good.
    pub fn new(first: u64, ratio: f64, noise: &Noise) -> Result<Schedule> {
        if !(1.5..=1024.0).contains(&ratio) {
            return Err(Error::config("ratio", "must be in 1.5..=1024", ratio));
        }
        let law = Cumulant::of(noise);
        let (mut rows, mut before, mut weight_before) = (Vec::with_capacity(Self::BATCHES), 0, 0.0);
        for _ in 0..Self::BATCHES {
            let count = if before == 0 { first } else { (before as f64 * (ratio - 1.0)).ceil() as u64 };
            let count = count.clamp(1, Batch::MAX_QUOTA);
            let weight = 1.0 / (1.0 + 4.0 * law.variance() / count as f64);
            rows.push(Row { count, weight, before, weight_before, width_before: f64::NAN });
            before += count;
            weight_before += weight * count as f64;
        }
        Ok(Schedule(rows.into()))
    }

    /// Computes the width of an interval that holds with chance 1 - beta, if nobody did.
    fn widen(&mut self, released: usize, noise: &Noise, ln_inverse_beta: f64) {
        if self.0[released].width_before.is_nan() {
            self.0[released].width_before = Cumulant::of(noise).width(&self.0[..released], ln_inverse_beta);
        }
    }

    /// What `released` batches of this weighted sum say.
    pub fn evidence(&self, sum: f64, released: usize, covered: usize) -> Evidence<'_> {
        let rows = &self.0;
        Evidence {
            batches: &rows[..released],
            sum,
            weight: rows[released].weight_before,
            pulls: rows[released].before as f64,
            covered: rows[covered].before as f64,
        }
    }
}

/// The log-MGF Phi of one noise, in rewards: an upper bound that is within 1e-7 of exact on a grid
/// as fine as ours, and with it every index is a true bound.
///
/// *Laplace:* let u = 1/scale. Discrete Laplace noise has the log-MGF
/// 2 f(1) - f(1 - s/eps) - f(1 + s/eps), f(a) = ln(1 - e^(-ua)), eps the effective loss. Now
/// (1 - e^(-ua))/(ua) is the mean of e^(-uav) over v uniform on `[0, 1]`, a log-convex function of
/// a, so replacing f(a) by ln(ua) makes it no smaller: Phi(s) <= -ln(1 - s^2/eps^2), the continuous
/// law's. *Gaussian:* s^2 sigma^2/2 (Canonne, Kamath, Steinke 2020, Corollary 17).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cumulant {
    /// At this effective loss.
    Laplace { epsilon: f64 },
    /// With this variance, in rewards squared.
    Gaussian { variance: f64 },
}

impl Cumulant {
    /// Of a law on the reward grid.
    pub fn of(noise: &Noise) -> Cumulant {
        match noise {
            Noise::Laplace(law) => Cumulant::Laplace { epsilon: law.epsilon() },
            Noise::Gaussian(law) => Cumulant::Gaussian { variance: (law.sigma() as f64 / Reward::ONE as f64).powi(2) },
        }
    }

    /// The variance, in rewards squared (of the continuous law, an upper bound).
    pub fn variance(self) -> f64 {
        match self {
            Cumulant::Laplace { epsilon } => 2.0 / (epsilon * epsilon),
            Cumulant::Gaussian { variance } => variance,
        }
    }

    /// Where it becomes infinite.
    pub fn limit(self) -> f64 {
        match self {
            Cumulant::Laplace { epsilon } => epsilon,
            Cumulant::Gaussian { .. } => f64::INFINITY,
        }
    }

    /// Phi(s), for 0 <= s below the limit.
    pub fn at(self, s: f64) -> f64 {
        match self {
            Cumulant::Laplace { epsilon } => -(-(s / epsilon) * (s / epsilon)).ln_1p(),
            Cumulant::Gaussian { variance } => 0.5 * s * s * variance,
        }
    }

    /// Its first two derivatives.
    pub fn slopes(self, s: f64) -> (f64, f64) {
        match self {
            Cumulant::Laplace { epsilon } => {
                let room = (epsilon - s) * (epsilon + s);
                let first = 2.0 * s / room;
                (first, 2.0 / room + first * first)
            }
            Cumulant::Gaussian { variance } => (s * variance, variance),
        }
    }

    /// P(|Z/W - mu| > width) <= beta for a schedule's rows. Chernoff: rewards in `[0, 1]` have
    /// log-MGF at most s^2/8, and every s gives a bound.
    fn width(self, rows: &[Row], ln_inverse_beta: f64) -> f64 {
        let weight: f64 = rows.iter().map(|row| row.weight * row.count as f64).sum();
        let bound = |s: f64| {
            let exponents = rows.iter().map(|row| {
                let s = s * row.weight;
                row.count as f64 * s * s / 8.0 + self.at(s)
            });
            (LN_2 + ln_inverse_beta + exponents.sum::<f64>()) / (s * weight)
        };
        // Unimodal in s: golden sections on a logarithmic scale.
        let largest = rows.iter().map(|row| row.weight).fold(0.0, f64::max);
        let (mut low, mut high) = (-60.0f64, (self.limit() / largest).min(1e9).ln());
        for _ in 0..60 {
            let (a, b) = (low + 0.382 * (high - low), low + 0.618 * (high - low));
            if bound(a.exp()) < bound(b.exp()) { high = b } else { low = a }
        }
        bound((0.5 * (low + high)).exp())
    }
}

/// The first batch: so many rewards that the noise's deviation in their mean is about sqrt 2.
pub fn first_batch(noise: &Noise, config: &Config) -> u64 {
    match noise {
        Noise::Laplace(_) => config.ceil_inverse_epsilon(),
        Noise::Gaussian(law) => (0.5 / law.rho().sqrt()).ceil() as u64,
    }
    .max(1)
}

/// What was lost by one release of each reward, if there was one.
pub fn loss(noise: &Noise, released: bool) -> PrivacyLoss {
    match noise {
        Noise::Laplace(law) => PrivacyLoss::Pure(if released { law.epsilon() } else { 0.0 }),
        Noise::Gaussian(law) => PrivacyLoss::Zcdp(if released { law.rho() } else { 0.0 }),
    }
}

/// A policy of the room.
pub struct Batched<I> {
    index: I,
    schedule: Schedule,
    noise: NoiseSource,
    /// Reported intervals hold with chance 1 - beta: ln(1/beta).
    ln_inverse_beta: f64,
    arms: Table<Arm>,
    live: u32,
    decisions: u64,
    releases: u32,
    /// Tangents of indices, lowest first.
    order: Tournament,
    /// Released means, negated: the leader first.
    leader: Tournament,
    /// The lowest tangent is a fresh index.
    settled: bool,
    #[cfg(feature = "test-hooks")]
    fault: Fault,
}

struct Arm {
    /// The open batch.
    batch: Batch,
    /// Z, the weighted sum of releases.
    sum: f64,
    /// Decisions, less the cancelled ones.
    pulls: u64,
    /// Where the tangent in `order` touches the index; NaN when it does not.
    fresh_at: f64,
    /// m, batches released.
    released: u8,
    /// Batches released or covered by decisions in flight.
    covered: u8,
    live: bool,
}

/// Arms without a release come before all others, and when decisions in flight cover their first
/// batch they come after all others, in turn.
const FIRST: Line = Line::level(-1e15);
fn last(covered: u8) -> Line {
    Line::level(1e15 + f64::from(covered))
}

impl<I: Index> Batched<I> {
    /// Batches of this ratio under this index.
    pub fn with_index(index: I, ratio: f64, noise: Noise, config: &Config, seed: &mut Seed) -> Result<Batched<I>> {
        let schedule = Schedule::new(first_batch(&noise, config), ratio, &noise)?;
        let arms = config.arms as usize;
        Ok(Batched {
            arms: Table::new(arms, |_| Arm::new(&schedule))?,
            index,
            schedule,
            noise: NoiseSource::new(noise, seed.stream()),
            ln_inverse_beta: config.ln_inverse_beta(),
            live: config.arms,
            decisions: 0,
            releases: 0,
            order: Tournament::new(arms, FIRST)?,
            leader: Tournament::new(arms, Line::NEVER)?,
            settled: false,
            #[cfg(feature = "test-hooks")]
            fault: config.fault,
        })
    }

    /// The arm with the least index, exactly.
    fn least(&mut self) -> usize {
        if !self.settled {
            let first = self.leader.winner();
            let point = self.index.point(self.mean(first).unwrap_or(0.0), self.decisions);
            self.order.move_to(point);
            while self.arms[self.order.winner()].fresh_at != point {
                self.refresh(self.order.winner(), point);
            }
            self.settled = true;
        }
        self.order.winner()
    }

    /// Computes an arm's index at this point.
    fn refresh(&mut self, arm: usize, point: f64) {
        let state = &mut self.arms[arm];
        state.fresh_at = point;
        let line = match (state.released, state.covered) {
            (0, 0) => FIRST,
            (0, covered) => last(covered),
            _ => self.index.tangent(&self.evidence(arm), point),
        };
        self.order.set(arm, line);
    }

    fn evidence(&self, arm: usize) -> Evidence<'_> {
        let state = &self.arms[arm];
        self.schedule.evidence(state.sum, state.released.into(), state.covered.into())
    }

    fn mean(&self, arm: usize) -> Option<f64> {
        (self.arms[arm].released > 0).then(|| self.evidence(arm).mean())
    }

    /// An arm's index changed: until it is computed it stands in front.
    fn unsettle(&mut self, arm: usize) {
        self.arms[arm].fresh_at = f64::NAN;
        if self.arms[arm].live {
            self.order.set(arm, FIRST);
        }
        self.settled = false;
    }

    /// Do the decisions in flight cover the batch that this arm was to be played for?
    #[inline]
    fn covers(&mut self, arm: usize) -> bool {
        let state = &mut self.arms[arm];
        let next = state.covered as usize + 1;
        let covers = next < Schedule::BATCHES && state.pulls >= self.schedule.0[next].before;
        if covers {
            state.covered += 1;
            self.unsettle(arm);
        }
        covers
    }

    fn play(&mut self, arm: usize) -> Pull {
        self.arms[arm].pulls += 1;
        self.decisions += 1;
        Pull { arm: arm as u32, phase: self.releases, propensity: 1.0 }
    }

    /// The leading mean, open sums included, for the test that must notice.
    #[cfg(feature = "test-hooks")]
    fn bare_leader(&self, arms: &[u32]) -> f64 {
        let means = arms.iter().filter(|&&arm| self.arms[arm as usize].released > 0).map(|&arm| {
            let state = &self.arms[arm as usize];
            (state.sum + state.batch.bare_sum()) / state.pulls.max(1) as f64
        });
        means.fold(0.0, f64::max).min(1.0)
    }

    /// The one place where rewards become public.
    fn release(&mut self, arm: usize) {
        let state = &mut self.arms[arm];
        let rows = &self.schedule.0;
        let released = state.batch.release(&mut self.noise);
        state.sum += rows[state.released as usize].weight * released.sum;
        state.released += 1;
        state.covered = state.covered.max(state.released);
        if let Some(next) = rows.get(state.released as usize + 1) {
            debug_assert!(next.before > 0);
            state.batch.open(rows[state.released as usize].count, 0);
        }
        self.schedule.widen(state.released.into(), &self.noise.law(), self.ln_inverse_beta);
        self.releases = self.releases.saturating_add(1);
        if self.arms[arm].live {
            let mean = self.mean(arm).unwrap_or(0.0);
            self.leader.set(arm, Line::level(-mean));
        }
        self.unsettle(arm);
    }
}

impl Arm {
    fn new(schedule: &Schedule) -> Arm {
        let mut batch = Batch::default();
        batch.open(schedule.0[0].count, 0);
        Arm { batch, sum: 0.0, pulls: 0, fresh_at: f64::NAN, released: 0, covered: 0, live: true }
    }
}

impl<I: Index> Policy for Batched<I> {
    #[inline]
    fn choose(&mut self) -> Pull {
        let mut arm = self.least();
        while self.covers(arm) {
            arm = self.least();
        }
        self.play(arm)
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        let batch = &mut self.arms[pull.arm as usize].batch;
        if batch.collect(reward) && batch.free() == 0 {
            self.release(pull.arm as usize);
        }
    }

    fn cancel(&mut self, pull: Pull) {
        let state = &mut self.arms[pull.arm as usize];
        state.pulls -= 1;
        if state.pulls < self.schedule.0[state.covered as usize].before {
            state.covered -= 1;
            self.unsettle(pull.arm as usize);
        }
    }

    fn arm(&self, arm: u32) -> ArmState {
        let state = &self.arms[arm as usize];
        let width = self.schedule.0[state.released as usize].width_before;
        ArmState { mean: self.mean(arm as usize).unwrap_or(f64::NAN), width, active: state.live }
    }

    fn phase(&self) -> u32 {
        self.releases
    }

    fn active(&self) -> u32 {
        self.live
    }

    fn privacy(&self) -> PrivacyLoss {
        loss(&self.noise.law(), self.releases > 0)
    }

    fn flexible(&mut self) -> Option<&mut dyn Flexible> {
        Some(self)
    }
}

impl<I: Index> Flexible for Batched<I> {
    fn choose_among(&mut self, arms: &[u32]) -> Pull {
        let leader = arms.iter().filter_map(|&arm| self.mean(arm as usize)).fold(0.0, f64::max);
        #[cfg(feature = "test-hooks")]
        let leader = if self.fault.is(Fault::RawLeader) { self.bare_leader(arms) } else { leader };
        let point = self.index.point(leader, self.decisions);
        loop {
            // The lowest tangent first: few others then need their index computed.
            let bound = |policy: &Self, arm: u32| policy.order.line(arm as usize).at(point);
            let mut best = arms[0];
            for &arm in arms {
                if bound(self, arm) < bound(self, best) {
                    best = arm;
                }
            }
            for arm in std::iter::once(best).chain(arms.iter().copied()) {
                if bound(self, arm) <= bound(self, best) && self.arms[arm as usize].fresh_at != point {
                    self.refresh(arm as usize, point);
                    self.settled = false;
                }
                if bound(self, arm) < bound(self, best) {
                    best = arm;
                }
            }
            if !self.covers(best as usize) {
                return self.play(best as usize);
            }
        }
    }

    fn add_arm(&mut self) -> Result<()> {
        self.arms.reserve()?;
        self.order.reserve()?;
        self.leader.reserve()?;
        self.arms.push(Arm::new(&self.schedule));
        self.order.push(FIRST);
        self.leader.push(Line::NEVER);
        self.live += 1;
        self.settled = false;
        Ok(())
    }

    fn retire_arm(&mut self, arm: u32) {
        let arm = arm as usize;
        #[cfg(feature = "test-hooks")]
        if self.fault.is(Fault::RawRetired) {
            self.arms[arm].sum += self.arms[arm].batch.bare_sum();
        }
        self.arms[arm].live = false;
        self.order.set(arm, Line::NEVER);
        self.leader.set(arm, Line::NEVER);
        self.live -= 1;
        self.settled = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{imed::Chernoff, klucb::Optimist};
    use super::*;
    use crate::random::Random;

    /// Plays at random for a while; at every batch's end the arm that plays has the least index of
    /// all, computed afresh for every arm.
    fn plays_the_least<I: Index>(mut policy: Batched<I>, random: &mut Random) {
        let mut waiting: Vec<Pull> = Vec::new();
        let mut checks = 0;
        for step in 0..20_000u32 {
            let in_flight = [0, 0, 300][step as usize / 1000 % 3];
            let settled = policy.settled;
            let pull = policy.choose();
            let (arm, point) = (pull.arm as usize, policy.order_point());
            if !settled && policy.arms[arm].released > 0 {
                checks += 1;
                let index = |arm: usize| policy.index.tangent(&policy.evidence(arm), point).at(point);
                let least = index(arm);
                for other in (0..policy.arms.len()).filter(|&a| policy.arms[a].live && policy.arms[a].released > 0) {
                    assert!(index(other) >= least - 1e-9 * least.abs(), "{step}: {other} before {arm}");
                }
            }
            waiting.push(pull);
            while waiting.len() > in_flight {
                let pull = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
                if random.below(20) == 0 {
                    policy.cancel(pull);
                } else {
                    let mean = f64::from(pull.arm % 7) / 10.0 + 0.2;
                    policy.observe(pull, Reward::from_units((random.unit() < mean) as u32 * Reward::ONE as u32));
                }
            }
            match step % 4000 {
                1 => policy.flexible().unwrap().add_arm().unwrap(),
                2 => policy.flexible().unwrap().retire_arm(step / 4000),
                _ => {}
            }
        }
        assert!(checks > 100, "{checks}");
    }

    impl<I: Index> Batched<I> {
        fn order_point(&self) -> f64 {
            self.arms[self.order.winner()].fresh_at
        }
    }

    #[test]
    fn the_lazy_order_is_the_exact_one() {
        for epsilon in [0.1, 1.0] {
            let mut seed = Seed::new(Some([9; 32])).unwrap();
            let config = Config::new(40, epsilon);
            let noise = config.noise().unwrap();
            let mut random = seed.stream();
            let chernoff = Chernoff::new(Cumulant::of(&noise));
            plays_the_least(Batched::with_index(chernoff, 2.0, noise, &config, &mut seed).unwrap(), &mut random);
            let optimist = Optimist::new(epsilon);
            plays_the_least(Batched::with_index(optimist, 2.0, noise, &config, &mut seed).unwrap(), &mut random);
        }
    }

    #[test]
    fn the_first_batch_brings_the_noise_of_a_mean_down_to_a_deviation_of_root_two() {
        for (epsilon, delta) in [(0.01, 0.0), (0.1, 0.0), (1.0, 0.0), (0.01, 1e-6), (0.1, 1e-6)] {
            let config = Config { delta, ..Config::new(2, epsilon) };
            let noise = config.noise().unwrap();
            let deviation = Cumulant::of(&noise).variance().sqrt() / first_batch(&noise, &config) as f64;
            assert!((1.2..1.4143).contains(&deviation), "{epsilon} {delta}: {deviation}");
        }
    }

    #[test]
    fn totals_multiply_by_the_ratio() {
        let noise = Config::new(2, 0.1).noise().unwrap();
        let schedule = Schedule::new(10, 2.0, &noise).unwrap();
        let totals: Vec<_> = schedule.0[..6].iter().map(|row| (row.count, row.before)).collect();
        assert_eq!(totals, [(10, 0), (10, 10), (20, 20), (40, 40), (80, 80), (160, 160)]);
        assert!(schedule.0[63].before > 1 << 42);
        // V = 2/eps^2 = 200: the weights 1/(1 + 4 V/n), and what they add up to.
        let weights: Vec<_> = schedule.0[..4].iter().map(|row| (row.weight, row.weight_before)).collect();
        let expected = [(10.0 / 810.0, 0.0), (10.0 / 810.0, 100.0 / 810.0), (20.0 / 820.0, 200.0 / 810.0)];
        assert!(std::iter::zip(&weights, expected).all(|(a, b)| (a.0 - b.0).abs() + (a.1 - b.1).abs() < 1e-7));
        for ratio in [1.49, 1.0, 0.0, f64::NAN, f64::INFINITY] {
            let refused = Schedule::new(10, ratio, &noise).err().unwrap();
            assert!(refused.to_string().starts_with("ratio must be in 1.5..=1024, got "), "{refused}");
        }
    }

    /// The bound on the log-MGF is above the exact one of discrete noise, and tight on our grid.
    #[test]
    fn the_cumulant_is_an_upper_bound() {
        for scale in [3.0f64, 1024.0] {
            let u = 1.0 / scale;
            let law = Cumulant::Laplace { epsilon: u };
            for share in [0.01, 0.3, 0.9, 0.999] {
                let f = |a: f64| (-(-u * a).exp_m1()).ln();
                let exact = 2.0 * f(1.0) - f(1.0 - share) - f(1.0 + share);
                let slack = law.at(share * u) - exact;
                assert!(slack >= -1e-12 && slack < u * u, "{scale} {share}: {slack}");
            }
        }
    }

    /// Released means stray beyond the width in at most beta of the cases, and in some: 4000 runs of
    /// three batches, whose count at beta = 0.05 is above 300 with chance below 1e-10.
    #[test]
    fn the_width_holds() {
        let mut random = Seed::new(Some([4; 32])).unwrap().stream();
        let noise = Config::new(2, 0.5).noise().unwrap();
        let mut schedule = Schedule::new(2, 2.0, &noise).unwrap();
        schedule.widen(3, &noise, -0.05f64.ln());
        let Noise::Laplace(law) = noise else { unreachable!() };
        let mut outside = 0;
        for _ in 0..4000 {
            let mut sum = 0.0;
            for row in &schedule.0[..3] {
                let ones = (0..row.count).filter(|_| random.bit()).count();
                sum += row.weight * (ones as f64 + law.sample(&mut random) as f64 / Reward::ONE as f64);
            }
            let row = schedule.0[3];
            outside += u32::from((sum / row.weight_before - 0.5).abs() > row.width_before);
        }
        assert!((1..=300).contains(&outside), "{outside}");
    }
}
