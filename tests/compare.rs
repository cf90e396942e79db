//! Confidence intervals for the difference of two arms' means: they hold over whole runs, and they are short enough to
//! be useful.

use crate::audit::engine::seed;
use crate::support::coins::Coins;
use dpb::{Algorithm, Bandit, Config, Error};

/// Two handles or one, with coins for the rewards a and b; `each` is called at every release of the first handle.
struct Run {
    bandits: Vec<Bandit>,
    rates: [f64; 2],
    coins: Coins,
}

impl Run {
    /// This many handles, which merge each other's snapshots from time to time.
    fn new(handles: u64, algorithm: Algorithm, config: &Config, rates: [f64; 2], number: u64) -> Run {
        let bandit = |handle| {
            let config = Config { test_seed: Some(seed(number << 8 | handle)), ..config.clone() };
            Bandit::new(algorithm, &config).unwrap()
        };
        Run { bandits: (0..handles).map(bandit).collect(), rates, coins: Coins(number.wrapping_mul(991) + 1) }
    }

    fn play(&mut self, decisions: usize, mut each: impl FnMut(usize, &Bandit)) {
        let mut phase = u32::MAX;
        for n in 0..decisions {
            for bandit in &self.bandits {
                let decision = bandit.select().unwrap();
                bandit.update(decision.ticket, self.coins.toss(self.rates[decision.arm as usize])).unwrap();
            }
            if n % 512 == 511 {
                for (i, j) in [(0, 1), (1, 0)].into_iter().take(2 * (self.bandits.len() - 1)) {
                    self.bandits[i].merge(&self.bandits[j].snapshot().unwrap()).unwrap();
                }
            }
            let now = self.bandits[0].report().unwrap().phase;
            if now != phase || n % 512 == 511 {
                phase = now;
                each(n, &self.bandits[0]);
            }
        }
    }
}

/// Policies and worlds: pure and zCDP noise, small epsilon, rates near 0 and near 1/2, the last release only, two
/// handles. In each, 100 runs read all intervals at confidence 90%: if a run failed with probability 10%, more than 32
/// would fail with probability below 1e-8. At 99.9%: if each of 600 runs failed with probability 0.1%, more than 9
/// would fail with probability below 1e-8.
#[test]
#[ignore = "a minute"]
fn all_intervals_of_a_run_cover_the_difference() {
    let world = |epsilon, delta| Config { delta, horizon: 1 << 20, ..Config::new(2, epsilon) };
    let mut failed_once_in_1000 = 0;
    for (algorithm, config, rates, handles) in [
        (Algorithm::Imed, world(1.0, 0.0), [0.5, 0.45], 1),
        (Algorithm::Imed, world(0.1, 0.0), [0.02, 0.02], 1),
        (Algorithm::Med, world(1.0, 1e-6), [0.5, 0.48], 1),
        (Algorithm::Imed, world(0.5, 0.0), [0.03, 0.01], 1),
        (Algorithm::Se, world(1.0, 0.0), [0.5, 0.5], 1),
        (Algorithm::Imed, world(0.3, 0.0), [0.1, 0.1], 2),
    ] {
        let (mut failed, mut asked) = (0, 0);
        for number in 0..100 {
            let mut fails = [false; 2];
            Run::new(handles, algorithm, &config, rates, number).play(6_000, |_, bandit| {
                for (fails, confidence) in fails.iter_mut().zip([0.9, 0.999]) {
                    let Ok((low, high)) = bandit.compare(0, 1, confidence) else { continue };
                    *fails |= !(low..=high).contains(&(rates[0] - rates[1]));
                    asked += 1;
                }
            });
            failed += u32::from(fails[0]);
            failed_once_in_1000 += u32::from(fails[1]);
        }
        eprintln!("{} at {}, {handles}: {failed} of 100, {asked} asked", algorithm.name(), config.epsilon);
        assert!(failed <= 32 && asked > 300, "{}: {failed} of {asked}", algorithm.name());
    }
    assert!(failed_once_in_1000 <= 9, "{failed_once_in_1000}");
}

/// The number of decisions until it is known at 95% which arm is better, on average over 20 runs. A policy of least
/// regret plays the worse arm only some ln T nats, and would not know for a hundred thousand decisions. Exploration
/// supplies the evidence.
#[test]
#[ignore = "ten seconds"]
fn exploration_shows_the_better_arm_soon() {
    for (algorithm, epsilon, exploration, rates, most) in [
        (Algorithm::Imed, 1.0, 1.0, [0.05, 0.045], 140_000),
        (Algorithm::Imed, 1.0, 0.2, [0.5, 0.25], 2_500),
        (Algorithm::Imed, 0.1, 0.2, [0.5, 0.25], 12_000),
        (Algorithm::Med, 1.0, 0.2, [0.05, 0.02], 15_000),
        (Algorithm::Se, 1.0, 0.0, [0.5, 0.25], 5_000),
    ] {
        let config = Config { horizon: 1 << 20, exploration, ..Config::new(2, epsilon) };
        let mut sum = 0;
        for number in 0..20 {
            let mut known = None;
            let decisions = if rates[1] < 0.045 || rates[0] > 0.1 { 100_000 } else { 500_000 };
            Run::new(1, algorithm, &config, rates, number).play(decisions, |n, bandit| {
                let better = known.is_none() && bandit.compare(0, 1, 0.95).is_ok_and(|(low, _)| low > 0.0);
                known = known.or(better.then_some(n));
            });
            sum += known.expect("never known");
        }
        eprintln!("{} at {epsilon}, {rates:?}: {}", algorithm.name(), sum / 20);
        assert!(sum / 20 <= most, "{} at {epsilon}, {rates:?}: {}", algorithm.name(), sum / 20);
    }
}

/// All rewards are rounded in the same way, 0.3 and 0.7 to 0.5, but the difference is 0.4.
#[test]
fn the_interval_includes_rounding() {
    let config = Config { reward_bits: 1, reward_min: -10.0, reward_max: 10.0, ..Config::new(2, 50.0) };
    let bandit = Bandit::new(Algorithm::Med, &Config { test_seed: Some(seed(3)), ..config }).unwrap();
    for _ in 0..4000 {
        let decision = bandit.select().unwrap();
        bandit.update(decision.ticket, [-4.0, 4.0][decision.arm as usize]).unwrap();
    }
    let (low, high) = bandit.compare(1, 0, 0.9).unwrap();
    assert!(low < 8.0 && 8.0 < high && high < 15.0, "{low} {high}");
    let (back, forth) = bandit.compare(0, 1, 0.9).unwrap();
    assert!((back + high).abs() < 1e-6 && (forth + low).abs() < 1e-6, "{back} {forth}");
}

/// Releases of other handles count. Merging makes the interval a little wider.
#[test]
fn merged_releases_count_in_the_interval() {
    let config = Config { test_seed: Some(seed(5)), exploration: 0.5, ..Config::new(2, 2.0) };
    let made = || Bandit::new(Algorithm::Imed, &config).unwrap();
    let (learned, fresh) = (made(), made());
    assert_eq!(fresh.compare(0, 1, 0.9), Err(Error::NotReady));
    for _ in 0..2000 {
        let decision = learned.select().unwrap();
        learned.update(decision.ticket, f64::from(decision.arm)).unwrap();
    }
    fresh.merge(&learned.snapshot().unwrap()).unwrap();
    let ((low, high), (own_low, own_high)) = (fresh.compare(1, 0, 0.9).unwrap(), learned.compare(1, 0, 0.9).unwrap());
    assert!(own_low > 0.7 && low > 0.5 && low < own_low && high >= own_high, "{low} {own_low}");
}
