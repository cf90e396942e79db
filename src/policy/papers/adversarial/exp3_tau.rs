//! EXP3_tau: EXP3 in intervals, private by its own randomness, without added noise.
//!
#![doc = include_str!("../../../../docs/theory/exp3-tau.md")]

use super::exp3::{Exp3, exploration};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::memory::WipedVec;
use crate::moving::{Archive, persist};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::privacy::composition::bounded_range_to_zcdp;
use crate::privacy::{PrivacyLoss, first};
use crate::random::Seed;
use crate::reward::Reward;
use zeroize::Zeroizing;

pub struct Exp3Tau {
    exp3: Exp3,
    /// tau.
    plays: u64,
    /// n, the maximum number of draws that the loss covers.
    draws_most: u64,
    draws: u64,
    /// How often each arm was drawn (public).
    drawn: WipedVec<u64>,
    interval: TauInterval,
}

/// The current interval. Its sum and probability never leave this policy.
struct TauInterval {
    arm: u32,
    probability: f64,
    /// Rewards that it still waits for.
    missing: u64,
    sum: Zeroizing<i64>,
}

impl Exp3Tau {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<Exp3Tau> {
        let horizon = config.horizon;
        config.epsilon_per_reward()?;
        let plays = smallest_tau(config, horizon);
        let draws_most = horizon.div_ceil(plays);
        Ok(Exp3Tau {
            exp3: Exp3::for_rounds(config.arms, draws_most, seed.stream())?,
            plays,
            draws_most,
            draws: 0,
            drawn: WipedVec::new(config.arms as usize, |_| 0)?,
            interval: TauInterval { arm: 0, probability: 1.0, missing: 0, sum: 0.into() },
        })
    }

    fn open_interval(&mut self) {
        let (arm, probability) = self.exp3.draw();
        self.draws += 1;
        self.drawn[arm as usize] += 1;
        self.interval = TauInterval { arm, probability, missing: self.plays, sum: 0.into() };
    }
}

/// The smallest tau whose loss over the horizon is within (epsilon, delta). The loss decreases with tau, and tau = T,
/// one draw, costs nothing.
fn smallest_tau(config: &Config, horizon: u64) -> u64 {
    let fits = |plays: u64| {
        let loss = loss(config.arms, horizon.div_ceil(plays), horizon.div_ceil(plays), plays);
        loss.epsilon(config.delta, config.contributions_per_user) <= config.epsilon
    };
    first(0, horizon, fits)
}

/// The loss of the first `draws` of at most `draws_most`: rho = (draws - 1) range^2/8.
fn loss(arms: u32, draws: u64, draws_most: u64, plays: u64) -> PrivacyLoss {
    let each = bounded_range_to_zcdp(range(arms, draws_most, plays));
    PrivacyLoss::Zcdp(draws.saturating_sub(1) as f64 * each * (1.0 + f64::EPSILON))
}

/// The range of the log-ratios of a draw's probabilities: 1/tau, plus what rounding may add. An update differs from
/// the proof's by the rounding of a double, at most 2^-46 in both worlds together (24 levels of the tree included). A
/// walk down the tree takes each arm with a probability within 2^-46 of its share, compared to a probability of at
/// least gamma/K.
fn range(arms: u32, draws_most: u64, plays: u64) -> f64 {
    let rounding = draws_most as f64 * 2f64.powi(-45);
    let walks = f64::from(arms) / exploration(arms, draws_most) * 2f64.powi(-44);
    1.0 / plays as f64 + rounding + walks
}

impl Policy for Exp3Tau {
    fn choose(&mut self) -> Pull {
        if self.interval.missing == 0 && self.draws < self.draws_most {
            self.open_interval();
        }
        Pull::new(self.interval.arm, self.draws as u32, f64::NAN)
    }

    fn observe(&mut self, pull: Pull, reward: Reward) {
        let interval = &mut self.interval;
        if pull.phase() != self.draws as u32 || interval.missing == 0 {
            return;
        }
        interval.missing -= 1;
        *interval.sum += reward.units();
        if interval.missing > 0 {
            return;
        }
        if self.draws < self.draws_most {
            let average = *interval.sum as f64 / (self.plays as f64 * Reward::ONE as f64);
            self.exp3.credit(interval.arm, interval.probability, average);
        } else {
            let most = (0..).zip(&*self.drawn).max_by_key(|&(_, drawn)| drawn);
            interval.arm = most.map_or(interval.arm, |(arm, _)| arm);
        }
    }

    fn cancel(&mut self, _pull: Pull) {}

    /// Only the arms themselves are released.
    fn arm(&self, _arm: u32) -> ArmState {
        ArmState::unknown(true)
    }

    /// Its phase is the number of draws (it wraps).
    fn counts(&self) -> PolicyCounts {
        let loss = loss(self.drawn.len() as u32, self.draws, self.draws_most, self.plays);
        PolicyCounts { phase: self.draws as u32, active: self.drawn.len() as u32, ..PolicyCounts::of(loss) }
    }

    fn snapshot(&mut self, _with: &mut Archive) -> Result<()> {
        Err(Error::unsupported("a snapshot: its weights are functions of raw rewards"))
    }
}

persist!(Exp3Tau { exp3, draws, drawn, interval } made { plays, draws_most });
persist!(TauInterval { arm, probability, missing, sum });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Algorithm;
    use crate::random::Random;

    fn random(seed: u8) -> Random {
        Seed::new(Some([seed; 32])).unwrap().stream()
    }

    fn config(horizon: u64, epsilon: f64, delta: f64) -> Config {
        let mut config = Config::new(4, epsilon);
        (config.horizon, config.delta) = (horizon, delta);
        config
    }

    fn policy(config: &Config) -> Exp3Tau {
        Exp3Tau::new(config, &mut Seed::new(Some([3; 32])).unwrap()).unwrap()
    }

    /// The widest window of log-weight differences of two worlds on one transcript, if averages are credited `late`
    /// draws late.
    fn widest(random: &mut Random, arms: u32, draws: u64, tau: f64, late: usize) -> f64 {
        let mut worlds = [0, 1].map(|_| Exp3::for_rounds(arms, draws, self::random(0)).unwrap());
        let (change, mut queue, mut widest) = (draws / 2 + random.below(4), Vec::new(), 0.0f64);
        for draw in 0..draws {
            let ratios = (0..arms).map(|arm| (worlds[1].share(arm) / worlds[0].share(arm)).ln());
            let (low, high) = ratios.fold((0.0, 0.0), |(l, h), r| (f64::min(l, r), f64::max(h, r)));
            widest = widest.max(high - low);
            // Any transcript, not only a likely one. Gains at the ends of their range have the largest effect.
            let arm = if draw < draws / 2 { 0 } else { random.below(arms.into()) as u32 };
            let gain = if random.bit() { 1.0 } else { random.unit() };
            let changed = if draw == change { (gain - 1.0 / tau).max(0.0) } else { gain };
            queue.push((arm, [gain, changed], [0, 1].map(|w: usize| worlds[w].probability(arm))));
            if queue.len() > late {
                let (arm, gains, probabilities) = queue.remove(0);
                for (world, exp3) in worlds.iter_mut().enumerate() {
                    exp3.credit(arm, probabilities[world], gains[world]);
                }
            }
        }
        widest
    }

    #[test]
    fn the_window_never_widens() {
        let mut random = random(5);
        let (mut most, mut most_late) = (0.0f64, 0.0f64);
        for run in 0..200 {
            let (arms, draws, tau) = (2 + run % 4, 40 + 20 * (u64::from(run) % 100), 1.0 + f64::from(run % 7));
            most = most.max(widest(&mut random, arms, draws, tau, 0) * tau);
            most_late = most_late.max(widest(&mut random, arms, draws, tau, 100) * tau);
        }
        assert!(most <= 1.0 + 1e-9, "{most}");
        assert!(most > 0.7, "no run comes near: {most}");
        // Averages that are credited late do widen it, which is why an interval waits for its rewards.
        assert!(most_late > 1.05, "{most_late}");
    }

    /// delta(eps) of one world against the other, from the exact distributions of all transcripts.
    fn hockey_stick(arms: u32, tables: [&[f64]; 2], epsilon: f64) -> f64 {
        let draws = tables[0].len() as u32 / arms;
        let violation = |mut transcript: u32| {
            let mut chances = [1.0; 2];
            let mut worlds = [0, 1].map(|_| Exp3::for_rounds(arms, draws.into(), random(0)).unwrap());
            for draw in 0..draws {
                let arm = transcript % arms;
                transcript /= arms;
                for (world, exp3) in worlds.iter_mut().enumerate() {
                    let p = exp3.probability(arm);
                    chances[world] *= p;
                    exp3.credit(arm, p, tables[world][(draw * arms + arm) as usize]);
                }
            }
            f64::max(0.0, chances[0] - epsilon.exp() * chances[1])
        };
        (0..arms.pow(draws)).map(violation).sum()
    }

    /// Whether any of many random tables of gains 0 and `top` refutes the claim for tau = 1.
    fn refuted(top: f64) -> bool {
        let mut random = random(6);
        (0..40).any(|run| {
            let arms = 2 + run % 2;
            let draws = if arms == 2 { 8 } else { 5 };
            let table: Vec<f64> = (0..arms * draws).map(|_| if random.bit() { top } else { 0.0 }).collect();
            let mut changed = table.clone();
            let at = random.below(u64::from(arms)) as usize;
            changed[at] = top - table[at];
            [1e-1, 1e-2, 1e-3].iter().any(|&delta| {
                let claim = loss(arms, draws.into(), draws.into(), 1).epsilon(delta, 1);
                f64::max(hockey_stick(arms, [&table, &changed], claim), hockey_stick(arms, [&changed, &table], claim))
                    > delta
            })
        })
    }

    #[test]
    fn the_claim_holds_exactly_at_small_sizes() {
        assert!(!refuted(1.0));
        assert!(refuted(16.0)); // gains beyond [0, 1], as if eta were too large: noticed
    }

    #[test]
    fn tau_is_the_smallest_that_fits() {
        for (horizon, epsilon, delta) in
            [(1 << 18, 1.0, 1e-6), (1_000_000, 0.1, 1e-8), (1000, 5.0, 1e-3), (1, 1.0, 0.1)]
        {
            let config = config(horizon, epsilon, delta);
            let policy = policy(&config);
            let at = |tau: u64| {
                let draws = horizon.div_ceil(tau);
                loss(4, draws, draws, tau).epsilon(delta, 1)
            };
            assert!(at(policy.plays) <= epsilon);
            assert!(policy.plays == 1 || at(policy.plays - 1) > epsilon);
        }
        // By hand: rho + 2 sqrt(rho ln 1e6) = 1 at rho = 0.017475, and 2^18/(8 tau^3) is that at
        // 123.3; the tighter conversion gives a smaller tau; the paper's Theorem 3.5 needs 312.
        let tau = policy(&config(1 << 18, 1.0, 1e-6)).plays;
        assert!((100..=124).contains(&tau), "{tau}");
    }

    #[test]
    fn an_interval_lasts_until_its_answers_are_in() {
        let config = config(1000, 1.0, 1e-6);
        let mut policy = policy(&config);
        let tau = policy.plays as usize;
        let pulls: Vec<_> = (0..3 * tau).map(|_| policy.choose()).collect();
        assert!(pulls.iter().all(|pull| pull.arm() == pulls[0].arm() && pull.phase() == 1 && pull.propensity.is_nan()));
        assert_eq!(policy.counts().loss.epsilon(1e-6, 1), 0.0);
        pulls[tau..].iter().take(tau).for_each(|&pull| policy.observe(pull, Reward::MIN));
        assert_eq!(policy.choose().phase(), 2);
        assert!(policy.counts().loss.epsilon(1e-6, 1) > 0.0);
        pulls[..tau].iter().for_each(|&pull| policy.observe(pull, Reward::MIN)); // uncounted
        assert_eq!(policy.choose().phase(), 2);
    }

    #[test]
    fn spends_no_more_than_was_paid_for() {
        let config = config(2000, 1.0, 1e-6);
        let mut policy = policy(&config);
        for _ in 0..10_000 {
            let pull = policy.choose();
            policy.observe(pull, Reward::MIN);
        }
        assert_eq!(policy.draws, policy.draws_most);
        let spent = policy.counts().loss.epsilon(1e-6, 1);
        assert!(spent <= 1.0 && spent > 0.5);
        let last = policy.choose().arm() as usize;
        assert_eq!(policy.drawn.iter().max(), Some(&policy.drawn[last]));
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        let refuse = |config: &Config| {
            let built = Algorithm::Exp3Tau.build(config, &mut Seed::new(None).unwrap());
            built.err().unwrap().to_string()
        };
        assert!(refuse(&config(0, 1.0, 1e-6)).starts_with("horizon"));
        assert!(refuse(&config(1000, 1.0, 0.0)).starts_with("delta"));
        assert!(refuse(&config(1000, -1.0, 1e-6)).starts_with("epsilon"));
    }
}
