//! Lazy-DP-TS: Thompson sampling from released means (Hu and Hegde 2022).
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`] (rho-zCDP with delta > 0): an arm's rewards fill batches of 1,
//! 2, 4, ... and each batch is released once. With O rewards in the last release and noisy mean y, let mu = clip(y +
//! 3 ln t/(eps O)). (For Gaussian noise the margin is sigma sqrt(6 ln t)/O. The noise exceeds either margin with
//! probability at most t^-3.) Then theta ~ Beta(mu O + 1, (1 - mu) O + 1), and the arm with the largest theta is
//! pulled. Arms without a release are pulled once, and then have Beta(1, 1); with `exploration` they have it from the
//! start. This is the paper's algorithm, and serves as a baseline: [`med`](super::med) has propensities too, at a
//! quarter of the regret.
//!
//! Two choices go beyond the paper, so that propensities are exact. First, t is constant between releases, and so are
//! the probabilities of the arms. Second, the probabilities are computed ([`chances`](super::chances)), and the arm
//! is drawn with exactly the computed ones. An error of the integrals, some thousandths in all, is an error of the
//! policy, never of the propensity.
//!
//! A release changes the distribution of its own arm's theta. The t in all others' changes too. All distributions are
//! computed anew if t has grown by K/1024 of itself (with few arms at every release, with many at every doubling),
//! and if the largest theta has moved.
//!
//! For a request of several slots, one arm after the other is drawn among those that are left.
//!
//! Cost: select O(log K). After a release O(K), about 7 ns an arm. A full computation, which is rare, takes a
//! microsecond or two an arm, and `select_among` takes the same for each of its arms. Update O(1), at the end of a
//! batch 2 microseconds. This policy is for hundreds of arms, at most 2^10. 350 bytes an arm.

use super::arms::loss;
use super::chances::{Beta, Chances};
use super::explore::{Explore, Live};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::open::Batch;
use crate::memory::{WipedVec, queue_room};
use crate::noise::{Noise, NoiseSource};
use crate::policy::compare::ReleaseTotals;
use crate::policy::contract::{ArmState, DynamicArms, Policy, Pull, Slates};
use crate::policy::cumulant::Cumulant;
use crate::privacy::PrivacyLoss;
use crate::random::{Random, Seed};
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure, is_plausible};
use std::collections::VecDeque;
use std::f64::consts::LN_2;

pub struct LazyTs {
    arms: WipedVec<TsArm>,
    noise: NoiseSource,
    coins: Random,
    explore: Explore,
    /// ln(1/beta): reported widths hold with probability 1 - beta.
    ln_inverse_beta: f64,
    decisions: u64,
    releases: u32,
    /// Whether the handle was restored, so that there may have been releases since the snapshot.
    may_have_released: bool,
    live: Live,
    /// Arms not pulled yet.
    unplayed: VecDeque<u32>,
    /// Probabilities of all arms.
    all: Chances,
    /// Whether `all` is up to date with the last releases.
    settled: bool,
    /// Number of decisions at the last full computation; 0 if one is due.
    computed: u64,
    /// Probabilities of the arms of the last `choose_among`, each once.
    some: Chances,
    among: Vec<u32>,
    /// Distinguishes the arms of one `choose_among` from those of another.
    mark: u64,
}

struct TsArm {
    /// The open batch.
    batch: Batch,
    /// Mean of the last release.
    mean: f64,
    /// O, the number of rewards in the last release.
    count: u64,
    /// Decisions without the cancelled ones.
    pulls: u64,
    mark: u64,
    live: bool,
}

impl TsArm {
    fn new() -> TsArm {
        TsArm { batch: Batch::open(1), mean: f64::NAN, count: 0, pulls: 0, mark: 0, live: true }
    }

    /// The distribution of its theta, if the arm is live.
    fn distribution(&self, margin: f64) -> Option<Beta> {
        let count = self.count as f64;
        let mean = if self.count == 0 { 0.5 } else { (self.mean + margin / count).clamp(0.0, 1.0) };
        self.live.then_some(Beta { a: mean * count + 1.0, b: (1.0 - mean) * count + 1.0 })
    }
}

impl LazyTs {
    /// Maximum number of arms; with more, a full computation could take longer than 20 ms.
    const MOST_ARMS: u32 = 1 << 10;

    pub fn new(config: &Config, seed: &mut Seed) -> Result<LazyTs> {
        config.check_arms(Self::MOST_ARMS)?;
        let noise = config.noise()?;
        let arms = config.arms as usize;
        let mut policy = LazyTs {
            arms: WipedVec::new(arms, |_| TsArm::new())?,
            noise: NoiseSource::new(noise, seed.stream()),
            coins: seed.stream(),
            explore: Explore::new(config.exploration),
            ln_inverse_beta: config.ln_inverse_beta(),
            decisions: 0,
            releases: 0,
            may_have_released: false,
            live: Live::new(config.arms)?,
            unplayed: VecDeque::new(),
            all: Chances::new(),
            settled: false,
            computed: 0,
            some: Chances::new(),
            among: Vec::new(),
            mark: 0,
        };
        policy.make_room(arms)?;
        policy.unplayed.extend(0..config.arms);
        Ok(policy)
    }

    /// Reserves capacity for `arms` arms, so that later calls do not allocate.
    fn make_room(&mut self, arms: usize) -> Result<()> {
        queue_room(&mut self.unplayed, arms)?;
        self.all.make_room(arms)?;
        self.some.make_room(arms)?;
        self.among.try_reserve(arms.saturating_sub(self.among.len())).map_err(|_| Error::NoMemory)
    }

    /// O times the margin in mu after t decisions. The noise of a sum exceeds it with probability at most t^-3.
    fn margin(&self, decisions: u64) -> f64 {
        let log = (decisions.max(1) as f64).ln();
        match self.noise.distribution() {
            Noise::Laplace(distribution) => 3.0 * log / distribution.epsilon(),
            Noise::Gaussian(distribution) => distribution.sigma() as f64 / Reward::ONE as f64 * (6.0 * log).sqrt(),
        }
    }

    fn play(&mut self, arm: u32, propensity: f64) -> Pull {
        self.arms[arm as usize].pulls += 1;
        self.decisions += 1;
        Pull::new(arm, self.releases, propensity)
    }

    /// Releases an arm's full batch. Rewards become public only here.
    fn release(&mut self, arm: u32) {
        let state = &mut self.arms[arm as usize];
        let released = state.batch.release(&mut self.noise);
        (state.mean, state.count) = (released.mean(), released.count);
        state.batch = Batch::open((2 * released.count).min(Batch::MAX_QUOTA));
        self.releases = self.releases.saturating_add(1);
        if self.computed > 0 {
            let margin = self.margin(self.computed);
            self.all.change(arm as usize, self.arms[arm as usize].distribution(margin));
        }
        self.settled = false;
    }

    /// Updates the probabilities of all arms. Changed distributions are enough, unless t has grown by K/1024 of
    /// itself, or the nodes are not where the largest theta is; then everything is computed anew.
    fn settle(&mut self) {
        let stands = self.computed + self.computed * self.arms.len() as u64 / u64::from(Self::MOST_ARMS);
        if self.computed == 0 || self.decisions > stands || !self.all.weigh() {
            let margin = self.margin(self.decisions);
            self.all.compute(self.arms.iter().map(|arm| arm.distribution(margin)));
            self.computed = self.decisions.max(1);
        }
        self.settled = true;
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
            self.settle();
        }
        let arms = self.live.arms();
        let arm = match self.explore.tosses(&mut self.coins) {
            true => arms[self.coins.below(arms.len() as u64) as usize],
            false => self.all.draw(&mut self.coins) as u32,
        };
        self.play(arm, self.explore.mix(1.0 / arms.len() as f64, self.all.chance(arm as usize)))
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
        // With exploration the queue is not used.
        if state.pulls == 0 && state.live && self.explore.share == 0.0 {
            self.unplayed.push_back(pull.arm());
        }
    }

    fn arm(&self, arm: u32) -> ArmState {
        let state = &self.arms[arm as usize];
        let count = state.count as f64;
        // Half of beta for the noise, half for Hoeffding's bound.
        let log = LN_2 + self.ln_inverse_beta; // ln(2/beta)
        let noise = self.noise.distribution().width_at(log) / Reward::ONE as f64 / count;
        let width = if state.count == 0 { f64::NAN } else { noise + ((LN_2 + log) / (2.0 * count)).sqrt() };
        #[cfg(dpb_faults)]
        let width = if crate::Fault::RawWidth.is_built_in() { width + 1e-6 * state.batch.bare_sum() } else { width };
        ArmState { mean: state.mean.clamp(0.0, 1.0), width, effective_pulls: count, active: state.live }
    }

    /// The totals of the last release, which has 2^m rewards.
    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        let state = &self.arms[arm as usize];
        let m = state.count.checked_ilog2().ok_or(Error::NotReady)?;
        Ok(ReleaseTotals::last(Cumulant::of(&self.noise.distribution()), state.count, state.mean, m))
    }

    fn phase(&self) -> u32 {
        self.releases
    }

    fn active(&self) -> u32 {
        self.live.count()
    }

    fn privacy(&self) -> PrivacyLoss {
        loss(&self.noise.distribution(), self.releases > 0 || self.may_have_released)
    }

    fn dynamic_arms(&mut self) -> Option<&mut dyn DynamicArms> {
        Some(self)
    }

    fn slates(&mut self) -> Option<&mut dyn Slates> {
        Some(self)
    }

    fn save(&self, to: &mut Writer) -> Result<()> {
        to.u64(self.decisions);
        to.u32(self.releases);
        to.u32(self.arms.len() as u32);
        to.alike(self.arms.iter(), |to, arm| {
            to.u8(arm.live.into());
            to.u64(arm.count);
            #[cfg(dpb_faults)]
            if crate::Fault::RawSnapshot.is_built_in() {
                to.f64(arm.mean + arm.batch.bare_sum());
                return;
            }
            to.f64(arm.mean);
        });
        Ok(())
    }

    /// Every arm's open batch starts empty.
    fn load(&mut self, from: &mut Reader) -> Result<()> {
        self.decisions = from.count()?;
        self.releases = from.u32()?;
        self.may_have_released = true;
        ensure(from.u32()? as usize == self.arms.len())?;
        self.unplayed.clear();
        for number in 0..self.arms.len() as u32 {
            let live = from.bool()?;
            let arm = &mut self.arms[number as usize];
            (arm.count, arm.mean) = (from.count()?.min(Batch::MAX_QUOTA), from.f64()?);
            ensure(if arm.count == 0 { arm.mean.is_nan() } else { is_plausible(arm.mean) })?;
            arm.pulls = arm.count;
            arm.batch = Batch::open((2 * arm.count).clamp(1, Batch::MAX_QUOTA));
            if !live {
                self.retire_arm(number);
            } else if self.arms[number as usize].count == 0 {
                self.unplayed.push_back(number);
            }
        }
        ensure(self.live.count() >= 1)
    }
}

impl DynamicArms for LazyTs {
    fn choose_among(&mut self, arms: &[u32]) -> Pull {
        let unplayed = |&&arm: &&u32| self.explore.share == 0.0 && self.arms[arm as usize].pulls == 0;
        if let Some(&arm) = arms.iter().find(unplayed) {
            self.unplayed.retain(|&other| other != arm);
            return self.play(arm, 1.0);
        }
        self.mark += 1;
        self.among.clear();
        for &arm in arms {
            if std::mem::replace(&mut self.arms[arm as usize].mark, self.mark) != self.mark {
                self.among.push(arm);
            }
        }
        let margin = self.margin(self.decisions);
        self.some.compute(self.among.iter().map(|&arm| self.arms[arm as usize].distribution(margin)));
        let place = match self.explore.tosses(&mut self.coins) {
            true => self.coins.below(self.among.len() as u64) as usize,
            false => self.some.draw(&mut self.coins),
        };
        self.play(self.among[place], self.explore.mix(1.0 / self.among.len() as f64, self.some.chance(place)))
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
        self.live.reserve(1)?;
        self.live.push(self.arms.len() as u32);
        self.unplayed.push_back(self.arms.len() as u32);
        self.arms.push(TsArm::new());
        (self.settled, self.computed) = (false, 0);
        Ok(())
    }

    fn retire_arm(&mut self, arm: u32) {
        self.arms[arm as usize].live = false;
        self.live.remove(arm);
        (self.settled, self.computed) = (false, 0);
    }
}

impl Slates for LazyTs {
    /// For each slot draws the largest theta anew among the arms that are left, so that the propensities are exact.
    fn choose_slate(&mut self, left: &mut Vec<u32>, slots: usize, each: &mut dyn FnMut(Pull)) {
        for _ in 0..slots {
            let pull = self.choose_among(left);
            left.retain(|&arm| arm != pull.arm());
            each(pull);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let margin = match policy.noise.distribution() {
                Noise::Laplace(_) => widest * log,
                Noise::Gaussian(distribution) => distribution.sigma() as f64 / Reward::ONE as f64 * (6.0 * log).sqrt(),
            };
            let given = policy.margin(500);
            assert!((given / margin - 1.0).abs() < 1e-6, "{given} {margin}");
            for arm in &*policy.arms {
                let (distribution, count) = (arm.distribution(given).unwrap(), arm.count as f64);
                let mean = (arm.mean + margin / count).clamp(0.0, 1.0);
                let error =
                    (distribution.a - mean * count - 1.0).abs() + (distribution.b - (1.0 - mean) * count - 1.0).abs();
                assert!(count > 1.0 && error < 1e-3 * count, "{} {}", distribution.a, distribution.b);
            }
        }
    }

    /// Releases, one at a time and with pending decisions, and arms that are added and retired: the probabilities are
    /// those of the last releases' distributions, up to the error that is allowed after changes.
    #[test]
    fn chances_are_those_of_the_last_releases() {
        for (arms, exploration) in [(3, 0.0), (60, 0.2), (400, 0.0)] {
            let config = Config { exploration, ..Config::new(arms, 0.5) };
            let mut policy = LazyTs::new(&config, &mut Seed::new(Some([4; 32])).unwrap()).unwrap();
            let mut random = Seed::new(Some([5; 32])).unwrap().stream();
            let (mut waiting, mut kept) = (Vec::new(), 0);
            for step in 0..40_000 {
                let pull = policy.choose();
                waiting.push(pull);
                while waiting.len() > 20 {
                    let pull = waiting.swap_remove(random.below(21) as usize);
                    let good = random.unit() < 0.2 + 0.5 * f64::from(pull.arm() % 10) / 10.0;
                    policy.observe(pull, Reward::from_units(u32::from(good) * Reward::ONE as u32));
                }
                match step % 10_000 {
                    3_000 => policy.add_arm().unwrap(),
                    5_000 => policy.retire_arm((step / 10_000) as u32 % (arms - 1)),
                    _ => (),
                }
                if step % 200 == 0 && policy.settled {
                    kept += u32::from(policy.computed + 50 < policy.decisions);
                    let margin = policy.margin(policy.computed);
                    let mut fresh = Chances::new();
                    fresh.compute(policy.arms.iter().map(|arm| arm.distribution(margin)));
                    let error = |arm| 0.5 * (fresh.chance(arm) - policy.all.chance(arm)).abs();
                    let distance: f64 = (0..policy.arms.len()).map(error).sum();
                    assert!(distance < 5e-3, "{arms} {step}: {distance}");
                }
            }
            assert!(kept > 25, "{arms}: {kept}");
        }
    }
}
