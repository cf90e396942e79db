//! DP-Lambda-Lap: makes any bandit for gains in [0, 1] private by adding noise to its gains.
//!
//! Tossou and Dimitrakakis (2017), Section 3.1 and Algorithm 1. **Pure eps-DP** (their Theorem 3.2; here Theorem P of
//! [`crate::privacy`]): the base policy sees only noisy gains, so whatever it does is post-processing. A noisy gain
//! in [-b, b+1] is rescaled to [0, 1], rounded to the grid (after the noise, so at no cost) and passed to the base.
//! For a gain outside, the base's pull is cancelled.
//!
//! `config.batch` = tau pulls of one arm make one gain: their mean plus Lap(1/(eps tau)), released as their sum plus
//! Lap(1/eps) (see [`Intervals`], also for delays). tau = 1 is the paper's algorithm, b = ln(T)/eps, and with EXP3
//! its regret is O(sqrt(K T ln K) ln T/eps). **tau = ceil(1/eps) is a better choice:** the base makes T/tau draws
//! that weigh tau each, with gains in a range of 2b+1 where b = ln(T/tau)/(eps tau), so the regret is (2b+1)
//! sqrt(tau) times EXP3's: O(sqrt(K T ln K/eps) ln T). **The best is tau = 2 ln(T)/eps,** where 2b+1 is about 2:
//! O(sqrt(K T ln K ln T/eps)).
//!
//! The base is any other policy, configured with a horizon of T/tau draws. A private base is allowed but useless: it
//! adds its own noise to gains that are already private, and has its own requirements of the configuration. The
//! privacy claim is that of the noise here, never the base's.
//!
//! Cost: the base's, once in tau decisions, and its memory in addition to the intervals'.

use super::intervals::Intervals;
use crate::config::Config;
use crate::counter::Tail;
use crate::error::{Error, Result};
use crate::moving::{Archive, persist};
use crate::policy::Algorithm;
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::privacy::PrivacyLoss;
use crate::random::Seed;
use crate::reward::Reward;
use std::f64::consts::LN_2;

pub struct Lap {
    base: Box<dyn Policy>,
    intervals: Intervals,
    /// b, the distance beyond [0, 1] within which noisy gains count.
    reach: f64,
    /// ln(1/beta): reported widths hold with probability 1 - beta.
    ln_inverse_beta: f64,
}

impl Lap {
    /// DP-Lambda-Lap over the policy with the number `config.base`.
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Lap> {
        match Algorithm::from_number(config.base)? {
            Algorithm::Lap | Algorithm::Exp3Lap => {
                Err(Error::config("base", "must be a policy other than dp-lap itself", config.base))
            }
            Algorithm::Linear => {
                Err(Error::config("base", "must be a policy that decides without features", config.base))
            }
            base => Lap::over(base, config, seed),
        }
    }

    pub(super) fn over(base: Algorithm, config: &Config, seed: &mut Seed) -> Result<Lap> {
        let distribution = config.laplace(config.epsilon_per_reward()?)?;
        let plays = u64::from(config.batch.max(1)); // tau
        let draws = config.horizon.div_ceil(plays);
        let noise = seed.stream();
        let beta = if base.uses("beta") { config.beta } else { 0.0 };
        let base_config =
            Config { horizon: draws, beta, batch: 0, base: 0, expected_users: 0, budget_periods: 0, ..config.clone() };
        let built = base.build(&base_config, seed)?;
        let rule = "must be a policy that takes gains, not privatised bits";
        Error::unless(!base.takes_bits(), "base", rule, config.base)?;
        Ok(Lap {
            base: built,
            intervals: Intervals::new(config, plays, distribution, noise)?,
            reach: (draws as f64).ln() / (distribution.epsilon() * plays as f64),
            ln_inverse_beta: config.ln_inverse_beta(),
        })
    }

    /// The gain that the base receives; `None` if the noisy gain is out of range.
    fn rescaled(&self, noisy: f64) -> Option<Reward> {
        let (low, high) = (-self.reach, self.reach + 1.0);
        let unit = (noisy - low) / (high - low);
        (low..=high).contains(&noisy).then(|| Reward::from_units((unit * Reward::ONE as f64).round() as u32))
    }
}

impl Policy for Lap {
    fn choose(&mut self) -> Pull {
        if self.intervals.needs_arm() {
            let drawn = self.base.choose();
            if let Some(given_up) = self.intervals.open(drawn) {
                self.base.cancel(given_up);
            }
        }
        self.intervals.play()
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let Some((drawn, release)) = self.intervals.observe(pull, reward) else { return };
        match self.rescaled(release.mean()) {
            Some(gain) => self.base.observe(drawn, gain),
            None => self.base.cancel(drawn),
        }
    }

    fn cancel(&mut self, pull: Pull) {
        self.intervals.cancel(pull);
    }

    /// The mean of all releases. The width is for stochastic rewards (adversarial ones have no mean to estimate):
    /// half of beta for the rewards, by Hoeffding, and half for the noises.
    fn arm(&self, arm: u32) -> ArmState {
        let active = self.base.arm(arm).active;
        let totals = self.intervals.totals(arm);
        if totals.releases == 0 {
            return ArmState::unknown(active);
        }
        let rewards = totals.rewards as f64;
        let log = 2.0 * LN_2 + self.ln_inverse_beta; // ln(4/beta)
        let noise = Tail::default().and_many(totals.releases, 1.0 / self.intervals.epsilon()).width_at(log);
        totals.state((log / (2.0 * rewards)).sqrt() + noise / rewards, active)
    }

    /// Its phase is the number of draws.
    fn counts(&self) -> PolicyCounts {
        let loss = PrivacyLoss::Pure(self.intervals.epsilon());
        let PolicyCounts { active, best, .. } = self.base.counts();
        PolicyCounts { phase: self.intervals.last(), active, best, ..PolicyCounts::of(loss) }
    }

    /// The base's state is a function of releases.
    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.intervals.snapshot(with)?;
        self.base.snapshot(with)
    }
}

persist!(Lap { base, intervals } made { reach, ln_inverse_beta });

#[cfg(test)]
mod tests {
    use super::*;

    fn config(batch: u32) -> Config {
        let mut config = Config::new(3, 0.5);
        (config.horizon, config.batch, config.base) = (10_000, batch, Algorithm::NonprivateExp3 as u32);
        config
    }

    fn lap(config: &Config) -> Lap {
        Lap::new(config, &mut Seed::new(Some([9; 32])).unwrap()).unwrap()
    }

    #[test]
    fn the_window_is_the_papers() {
        let one = lap(&config(0));
        assert!((one.reach - 1e4f64.ln() / 0.5).abs() < 1e-9);
        let (low, high) = (-one.reach, one.reach + 1.0);
        assert_eq!(one.rescaled(low).unwrap().units(), 0);
        assert_eq!(one.rescaled(high).unwrap().units(), Reward::ONE);
        assert_eq!(one.rescaled(0.5).unwrap().units(), Reward::ONE / 2);
        assert!(one.rescaled(low - 1e-9).is_none() && one.rescaled(high + 1e-9).is_none());
        assert!((lap(&config(2)).reach - 5e3f64.ln()).abs() < 1e-9); // eps tau = 1
    }

    #[test]
    fn one_draw_is_played_tau_times_and_released_once() {
        let mut lap = lap(&config(3));
        for interval in 1..=5 {
            let pulls: Vec<_> = (0..3).map(|_| lap.choose()).collect();
            assert!(pulls.iter().all(|&pull| pull == pulls[0] && pull.phase() == interval));
            assert_eq!(lap.counts().loss, PrivacyLoss::Pure(if interval == 1 { 0.0 } else { 0.5 }));
            pulls.iter().for_each(|&pull| lap.observe(pull, Reward::MIN));
        }
        assert_eq!((0..3).map(|arm| lap.intervals.totals(arm).releases).sum::<u64>(), 5);
    }

    #[test]
    fn takes_any_base_but_itself_and_only_with_a_horizon() {
        let mut config = config(1);
        for &base in Algorithm::ALL {
            config.base = base as u32;
            let made = [0.0, 1e-6].map(|delta| {
                config.delta = delta; // some bases need one, some must have none
                Lap::new(&config, &mut Seed::new(Some([9; 32])).unwrap())
            });
            use Algorithm::{Exp3Lap, Lap as Itself, LdpKlUcb, LdpUcb, Linear};
            let refused = matches!(base, Itself | Exp3Lap | LdpUcb | LdpKlUcb | Linear);
            assert_eq!(made.iter().all(|made| made.is_err()), refused, "{}", base.name());
        }
        let refuse = |config: &Config| Lap::new(config, &mut Seed::new(None).unwrap()).err().unwrap().to_string();
        config.base = 0;
        assert_eq!(refuse(&config), "base must be the number of a policy, got 0");
        (config.base, config.horizon, config.delta) = (10, 0, 0.0);
        let error = Algorithm::Lap.build(&config, &mut Seed::new(None).unwrap()).err().unwrap();
        assert_eq!(error.to_string(), "horizon must not be 0: dp-lap needs horizon, got 0");
        (config.horizon, config.epsilon) = (100, f64::NAN);
        assert_eq!(refuse(&config), "epsilon must be finite and > 0, got NaN");
    }
}
