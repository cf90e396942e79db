//! The simulated day of the ad servers: its visitors, and the click rates, which are reversed in the afternoon. Include
//! this file with `#[path = "common/day.rs"] mod day;`.
#![allow(dead_code, reason = "each program that includes this file uses a part of it")]

use dpb::{Bandit, Config, Decision, Error, Feature, Request, Rows};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The ads, with their click rates in the morning, which only the simulation knows.
pub const CREATIVES: [(&str, f64); 10] = [
    ("mountain bike", 0.020),
    ("espresso machine", 0.028),
    ("rain jacket", 0.036),
    ("chess lessons", 0.044),
    ("garden hose", 0.052),
    ("night train", 0.060),
    ("reading lamp", 0.068),
    ("bread knife", 0.076),
    ("wool socks", 0.084),
    ("folding kayak", 0.100),
];
pub const ARMS: usize = CREATIVES.len();
/// Visitors of the day. From noon on the click rates are reversed: the best ad becomes the worst.
pub const VISITORS: u64 = 200_000;
pub const NOON: u64 = VISITORS / 2;
/// `forget_after`: half the time between changes.
pub const FORGET_AFTER: u64 = NOON / 2;
/// `reward_window`: an ad without a click after this many later decisions has reward 0.
pub const REWARD_WINDOW: u32 = 1000;

/// The servers' configuration.
pub fn config(epsilon: f64, forget_after: u64) -> Config {
    let mut config = Config::new(ARMS as u32, epsilon);
    config.horizon = VISITORS;
    config.reward_bits = 0; // a click or none
    config.clamp_rewards = true; // otherwise a refused reward would leave its ticket open, which public counts show
    config.reward_window = REWARD_WINDOW;
    config.forget_after = forget_after;
    config
}

/// The fraction of visitors with each device, in the simulation of visitors with tastes.
pub const DEVICES: [f64; 3] = [0.6, 0.3, 0.1];
/// The quarters of a day, in the same simulation.
pub const QUARTERS: usize = 4;
/// The number of days in which these visitors come.
pub const DAYS: u64 = 20;

/// The features of such a visitor: the index of the device, and the index of the quarter, which follows all devices.
pub type Context = [u32; 2];

/// The probability that such a visitor clicks an ad. Each ad has one device and one quarter that suit it.
pub fn taste(context: Context, arm: usize) -> f64 {
    let [device, quarter] = context.map(|kind| kind as usize);
    let suits = [device == arm % DEVICES.len(), quarter - DEVICES.len() == arm % QUARTERS];
    0.05 * suits.map(|suits| if suits { 1.6 } else { 0.7 }).iter().product::<f64>()
}

/// The configuration for these visitors, with or without features.
pub fn config_of_tastes(epsilon: f64, by_context: bool) -> Config {
    let mut config = config(epsilon, 0);
    if by_context {
        config.features = (DEVICES.len() + QUARTERS) as u32;
        config.model_per_arm = true;
    }
    config
}

/// 0 in the morning, 1 in the afternoon.
pub fn half(visitor: u64) -> usize {
    usize::from(visitor >= NOON)
}

/// The probability of a click on an ad that is shown in this half of the day.
pub fn rate(half: usize, arm: usize) -> f64 {
    CREATIVES[if half == 0 { arm } else { ARMS - 1 - arm }].1
}

/// The ad with the largest click rate in this half of the day.
pub fn best(half: usize) -> usize {
    if half == 0 { ARMS - 1 } else { 0 }
}

/// The results of one way to choose ads in each half of the day. Only a simulation can know them.
#[derive(Default)]
pub struct Outcome {
    pub shown: [[u64; ARMS]; 2],
    pub clicks: [u64; 2],
}

impl Outcome {
    pub fn add(&mut self, other: &Outcome) {
        for half in 0..2 {
            self.shown[half].iter_mut().zip(other.shown[half]).for_each(|(a, b)| *a += b);
            self.clicks[half] += other.clicks[half];
        }
    }

    pub fn show(&mut self, visitor: u64, arm: usize, clicked: bool) {
        self.shown[half(visitor)][arm] += 1;
        self.clicks[half(visitor)] += u64::from(clicked);
    }
}

/// A simulated day. A visitor's behaviour is a function of the day and the visitor, so it is the same for every server
/// and policy.
pub struct Day {
    pub seed: u64,
}

impl Day {
    /// A uniform number in [0, 1) for this visitor and this purpose (SplitMix64).
    fn chance(&self, visitor: u64, purpose: u64) -> f64 {
        let mut z = self.seed.wrapping_add((visitor * 64 + purpose).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn clicks(&self, visitor: u64, arm: usize) -> bool {
        self.chance(visitor, arm as u64) < rate(half(visitor), arm)
    }

    /// The time of the click, on the clock that counts visitors. Clicks come late and out of order, one in a hundred
    /// comes too late, and one in twenty comes twice.
    pub fn click_times(&self, visitor: u64) -> impl Iterator<Item = u64> {
        let window = f64::from(REWARD_WINDOW);
        let too_late = self.chance(visitor, 60) < 0.01;
        let delay = if too_late { 2.0 * window } else { 0.8 * window * self.chance(visitor, 61) };
        let first = visitor + delay as u64;
        std::iter::once(first).chain((self.chance(visitor, 62) < 0.05).then_some(first + 10))
    }

    /// Simulates the day in this process, without HTTP.
    pub fn in_process(&self, bandit: &Bandit) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        self.serve(
            bandit,
            |_| bandit.select(),
            |visitor, arm| {
                let clicked = self.clicks(visitor, arm);
                outcome.show(visitor, arm, clicked);
                clicked
            },
        )?;
        Ok(outcome)
    }

    fn context(&self, visitor: u64) -> Context {
        let mut u = self.chance(visitor, 59);
        let device = DEVICES.iter().position(|share| (u < *share, u -= share).0).unwrap_or(DEVICES.len() - 1);
        let quarter = visitor * DAYS * QUARTERS as u64 / VISITORS % QUARTERS as u64;
        [device as u32, DEVICES.len() as u32 + quarter as u32]
    }

    /// Simulates visitors with tastes. Returns the number of clicks.
    pub fn with_tastes(&self, bandit: &Bandit, by_context: bool) -> Result<u64, Error> {
        let mut clicks = 0;
        let decide = |visitor| {
            let features = self.context(visitor).map(|index| Feature { index, value: 1.0 });
            let rows = Rows::Sparse(&features, &[2]);
            bandit.select_for(&Request { features: by_context.then_some(rows), ..Request::default() })
        };
        self.serve(bandit, decide, |visitor, arm| {
            let clicked = self.chance(visitor, arm as u64) < taste(self.context(visitor), arm);
            clicks += u64::from(clicked);
            clicked
        })?;
        Ok(clicks)
    }

    /// The expected clicks if each visitor sees the best ad for that visitor, and if all see the ad that is best on
    /// average.
    pub fn best_of_tastes(&self) -> [f64; 2] {
        let (mut each, mut all) = (0.0, [0.0; ARMS]);
        for visitor in 0..VISITORS {
            let chances: [f64; ARMS] = std::array::from_fn(|arm| taste(self.context(visitor), arm));
            each += chances.into_iter().fold(0.0, f64::max);
            all.iter_mut().zip(chances).for_each(|(sum, chance)| *sum += chance);
        }
        [each, all.into_iter().fold(0.0, f64::max)]
    }

    /// For each visitor, makes a decision and shows the ad. Reports each click at its time.
    fn serve(
        &self,
        bandit: &Bandit,
        decide: impl Fn(u64) -> Result<Decision, Error>,
        mut show: impl FnMut(u64, usize) -> bool,
    ) -> Result<(), Error> {
        let mut clicks = BinaryHeap::new();
        for visitor in 0..VISITORS {
            while clicks.peek().is_some_and(|Reverse((due, _))| *due <= visitor) {
                let Some(Reverse((_, ticket))) = clicks.pop() else { break };
                match bandit.update(ticket, 1.0) {
                    Ok(()) | Err(Error::Duplicate | Error::Expired) => {}
                    Err(error) => return Err(error),
                }
            }
            let decision = decide(visitor)?;
            if show(visitor, decision.arm as usize) {
                clicks.extend(self.click_times(visitor).map(|due| Reverse((due, decision.ticket))));
            }
        }
        Ok(())
    }

    /// The day if the arm depends on the visitor only.
    pub fn planned(&self, arm_for: impl Fn(u64) -> usize) -> Outcome {
        let mut outcome = Outcome::default();
        for visitor in 0..VISITORS {
            let arm = arm_for(visitor);
            outcome.show(visitor, arm, self.clicks(visitor, arm));
        }
        outcome
    }
}
