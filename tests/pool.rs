//! Pools: what one segment teaches the others, and that nothing is told but what was released.

use crate::audit::engine::{Audit, Seen, pattern, seed};
use crate::audit::sabotage::Sabotage;
use crate::support::coins::Coins;
use dpb::{Algorithm, Bandit, Config, Error, Pool};

fn pool(arms: u32, epsilon: f64, most: u32) -> Pool {
    Pool::new(&Config { test_seed: Some(seed(7)), ..Config::new(arms, epsilon) }, most).unwrap()
}

fn unit(coins: &mut Coins) -> f64 {
    (coins.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Click rates of cells: b_s r_a e^x.
pub struct World {
    coins: Coins,
    arms: usize,
    rates: Vec<f64>,
}

impl World {
    pub fn new(segments: usize, arms: usize, spread: f64, number: u64) -> World {
        let mut coins = Coins(number.wrapping_mul(77));
        let mut normal = || (0..12).map(|_| unit(&mut coins)).sum::<f64>() - 6.0;
        let ads: Vec<f64> = (0..arms).map(|_| 0.5 * normal()).collect();
        let rates = (0..segments).flat_map(|_| {
            let segment = 0.3 * normal();
            let logits: Vec<f64> = ads.iter().map(|ad| -3.476 + segment + ad + spread * normal()).collect();
            logits.into_iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect::<Vec<_>>()
        });
        let rates = rates.collect();
        World { coins, arms, rates }
    }

    /// Each arm has two thirds of the rate of the one before it, the first .5%.
    fn graded(segments: usize, arms: usize, number: u64) -> World {
        let mut coins = Coins(number.wrapping_mul(77));
        let mut normal = || (0..12).map(|_| unit(&mut coins)).sum::<f64>() - 6.0;
        let rates = (0..segments).flat_map(|_| {
            let segment = 0.3 * normal();
            let cell = |arm: usize| 0.005 * 1.5f64.powi(-(arm as i32)) * (segment + 0.2 * normal()).exp();
            (0..arms).map(cell).collect::<Vec<_>>()
        });
        let rates = rates.collect();
        World { coins, arms, rates }
    }

    fn best(&self, segment: usize) -> f64 {
        self.of(segment).iter().copied().fold(0.0, f64::max)
    }

    fn of(&self, segment: usize) -> &[f64] {
        &self.rates[segment * self.arms..][..self.arms]
    }

    fn click(&mut self, segment: usize, arm: u32) -> f64 {
        let rate = self.of(segment)[arm as usize];
        self.coins.toss(rate)
    }

    /// Regret in parts of what uniform play loses.
    pub fn regret(
        &mut self,
        segments: usize,
        decisions: usize,
        mut play: impl FnMut(usize, &mut dyn FnMut(u32) -> f64),
    ) -> f64 {
        let (mut lost, mut uniform) = (0.0, 0.0);
        for t in 0..decisions * segments {
            // Each segment is asked as often as any other, in an order that is no order.
            let segment = (t.wrapping_mul(7919) + t / segments) % segments;
            let best = self.best(segment);
            uniform += best - self.of(segment).iter().sum::<f64>() / self.arms as f64;
            play(segment, &mut |arm| {
                lost += best - self.of(segment)[arm as usize];
                self.click(segment, arm)
            });
        }
        lost / uniform
    }
}

/// The pool against a bandit for each segment and one for all: sums over six worlds of regret in parts of uniform
/// play's. The figure `segments` has 24 worlds; groups of six scatter about its ratios by a fifth.
#[test]
#[ignore = "ten seconds"]
fn segments_learn_from_each_other() {
    let (segments, arms) = (100, 10);
    for (decisions, spread, most) in [(2_000, 0.2, [0.3, 1.5]), (10_000, 0.5, [0.6, 0.5])] {
        let mut sums = [0.0; 3];
        for number in 0..6 {
            let config = Config { test_seed: Some(seed(number)), ..Config::new(arms as u32, 1.0) };
            let imed = |_| Bandit::new(Algorithm::Imed, &config).unwrap();
            let world = || World::new(segments, arms, spread, number + 1);
            let pool = Pool::new(&config, segments as u32).unwrap();
            let names: Vec<_> = (0..segments).map(|key| pool.segment(key as u64 + 100).unwrap()).collect();
            sums[0] += world().regret(segments, decisions, |segment, click| {
                let decision = pool.select(names[segment]).unwrap();
                pool.update(decision.ticket, click(decision.arm)).unwrap();
            });
            for (sum, bandits) in [segments, 1].into_iter().enumerate() {
                let bandits: Vec<_> = (0..bandits).map(imed).collect();
                sums[sum + 1] += world().regret(segments, decisions, |segment, click| {
                    let bandit = &bandits[segment % bandits.len()];
                    let decision = bandit.select().unwrap();
                    bandit.update(decision.ticket, click(decision.arm)).unwrap();
                });
            }
        }
        println!("{decisions}: {sums:?}");
        assert!(sums[0] < most[0] * sums[1] && sums[0] < most[1] * sums[2], "{sums:?}");
    }
}

/// What an outsider sees of a pool that plays two segments, where one reward of the first differs: arms in order, and
/// what is said of each cell from time to time. Where pools merge there is another, which plays the second segment alone,
/// and they tell each other what they have released.
fn seen(number: u64, neighbour: bool, sabotage: Sabotage, merging: bool) -> Vec<Seen> {
    let _hand = sabotage.hand(2);
    let make = |number| {
        let pool = Pool::new(&Config { test_seed: Some(seed(number)), ..Config::new(2, 1.0) }, 2).unwrap();
        let names = [pool.segment(5).unwrap(), pool.segment(9).unwrap()];
        (pool, names)
    };
    let ((pool, names), other) = (make(number), merging.then(|| make(number ^ 1 << 63)));
    let (mut plays, mut sights, mut pulls) = (Vec::new(), Vec::new(), [0; 2]);
    for t in 0..96 {
        // Two in three requests may show one arm only, so that it learns much and alone.
        let segment = names[t % 2];
        let decision = if t % 3 < 2 { pool.select_among(segment, &[0]) } else { pool.select(segment) }.unwrap();
        let pull = &mut pulls[decision.arm as usize];
        let changed = decision.arm == 0 && *pull == 3;
        pool.update(decision.ticket, f64::from(u8::from(if changed { neighbour } else { *pull % 2 == 0 }))).unwrap();
        *pull += 1;
        plays.push(decision.arm);
        if let Some((other, names)) = &other {
            let decision = other.select(names[1]).unwrap();
            other.update(decision.ticket, f64::from(u8::from(t % 3 == 0))).unwrap();
            plays.push(decision.arm);
            if t % 24 == 23 {
                other.merge(&pool.snapshot().unwrap()).unwrap();
                pool.merge(&other.snapshot().unwrap()).unwrap();
            }
        }
        if t % 8 == 7 {
            let mut look = |pool: &Pool, names: [u32; 2]| {
                for name in names {
                    pool.for_each_arm(name, |_, arm| sights.push(Seen::Number(arm.mean))).unwrap();
                }
            };
            look(&pool, names);
            if let Some((other, names)) = &other {
                look(other, *names);
            }
        }
    }
    sights.push(Seen::Pattern(pattern(&plays)));
    sights
}

/// An honest build fails with chance 1e-6; half the noise exceeds the alarm by five standard errors.
fn costs_epsilon(merging: bool) {
    let world = |sabotage| move |_: usize, number, neighbour| seen(number, neighbour, sabotage, merging);
    let audit = |sabotage| Audit::pure(1.0, 20_000).search(1, world(sabotage));
    let (honest, weak) = (audit(Sabotage::Nothing), audit(Sabotage::HalfNoise));
    println!("{honest:?} {weak:?}");
    assert!(!honest.alarm && weak.alarm, "{honest:?} {weak:?}");
}

#[test]
fn one_reward_in_one_segment_costs_epsilon() {
    costs_epsilon(false);
}

#[test]
#[ignore = "ten seconds"]
fn nor_more_where_pools_merge() {
    costs_epsilon(true);
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    assert!(matches!(Pool::new(&Config::new(3, 1.0), 0), Err(Error::InvalidConfig { .. })));
    assert!(matches!(Pool::new(&Config::new(1 << 20, 1.0), 1 << 20), Err(Error::InvalidConfig { .. })));
    let pool = pool(3, 1.0, 2);
    assert!(matches!(pool.select(0), Err(Error::InvalidRequest { .. })));
    assert_eq!((pool.segment(70), pool.segment(u64::MAX), pool.segment(70)), (Ok(0), Ok(1), Ok(0)));
    assert_eq!(pool.segment(71), Err(Error::Full));
    assert!(matches!(pool.select(2), Err(Error::InvalidRequest { .. })));
    assert!(matches!(pool.select_among(2, &[1]), Err(Error::InvalidRequest { .. })));
    assert!(matches!(pool.select_among(1, &[]), Err(Error::InvalidRequest { .. })));
    assert!(matches!(pool.select_among(1, &[2, 3]), Err(Error::InvalidRequest { .. })));
    assert!(matches!(pool.select_many(&[0, 1, 2], |_| ()), Err(Error::InvalidRequest { .. })));
    assert!(matches!(pool.for_each_arm(2, |_, _| ()), Err(Error::InvalidRequest { .. })));
    assert_eq!((pool.report().unwrap().counts.decisions, pool.report().unwrap().segments), (0, 2));
    let decision = pool.select_among(1, &[2, 2]).unwrap();
    assert_eq!(decision.arm, 2);
    assert_eq!(pool.update(decision.ticket, 2.0), Err(Error::InvalidReward));
    assert_eq!(pool.update(decision.ticket, 1.0), Ok(()));
    assert_eq!(pool.update(decision.ticket, 1.0), Err(Error::Duplicate));
    assert_eq!(pool.update(decision.ticket ^ 1, 1.0), Err(Error::UnknownTicket));
    let mut arms = Vec::new();
    pool.select_many(&[1, 0, 1], |decision| arms.push(decision.ticket)).unwrap();
    assert_eq!(pool.cancel(arms[1]), Ok(()));
    let mut pulls = [0; 2];
    for segment in [0, 1] {
        pool.for_each_arm(segment, |_, arm| pulls[segment as usize] += arm.pulls).unwrap();
    }
    assert_eq!(pulls, [0, 3]);
}

/// A snapshot goes on with what was released, and an altered one is refused.
#[test]
fn it_goes_on_from_its_snapshot() {
    let pool = pool(4, 1.0, 8);
    let mut coins = Coins(1);
    let names: Vec<_> = (0..5).map(|key| pool.segment(1000 - key).unwrap()).collect();
    for t in 0..20_000 {
        let decision = pool.select(names[t % 5]).unwrap();
        pool.update(decision.ticket, coins.toss(0.1 * f64::from(decision.arm + 1))).unwrap();
    }
    let says = |pool: &Pool| {
        let mut says = Vec::new();
        for &name in &names {
            pool.for_each_arm(name, |_, arm| says.push((arm.pulls, arm.effective_pulls, arm.mean))).unwrap();
        }
        says
    };
    pool.set_prior(2, 0.3, 5.0).unwrap();
    let bytes = pool.snapshot().unwrap();
    let less = pool.snapshot_within(bytes.len() - 1);
    assert_eq!(less, Err(Error::BufferTooSmall { needed: bytes.len() }));
    assert_eq!(pool.snapshot_within(bytes.len()).as_ref(), Ok(&bytes));
    let restored = Pool::restore(&bytes).unwrap();
    assert_eq!(restored.segment(998), Ok(2));
    for (before, after) in says(&pool).into_iter().zip(says(&restored)) {
        assert_eq!((before.0, before.1), (after.0, after.1));
        assert!((before.2 - after.2).abs() < 0.05 * before.2, "{before:?} {after:?}");
    }
    let report = restored.report().unwrap();
    assert_eq!((report.epsilon_spent, report.is_private, report.counts.decisions), (1.0, false, 20_000));
    let old = pool.select(0).unwrap();
    assert_eq!(restored.update(old.ticket, 1.0), Err(Error::UnknownTicket));
    let mut altered = bytes.clone();
    for place in 0..bytes.len() {
        altered[place] ^= 1;
        assert!(Pool::restore(&altered).is_err(), "{place}");
        altered[place] ^= 1;
    }
    assert!(Bandit::restore(&bytes).is_err());
}

/// With a memory the pool follows a change of the best arm in all segments.
#[test]
fn it_follows_a_change() {
    let pool =
        Pool::new(&Config { forget_after: 40_000, test_seed: Some(seed(3)), ..Config::new(5, 1.0) }, 20).unwrap();
    (0..20).for_each(|key| assert_eq!(pool.segment(key), Ok(key as u32)));
    let mut coins = Coins(2);
    let mut play = |best: u32, decisions: u32| {
        let mut right = 0;
        for t in 0..decisions {
            let decision = pool.select(t % 20).unwrap();
            pool.update(decision.ticket, coins.toss(if decision.arm == best { 0.2 } else { 0.1 })).unwrap();
            right += u32::from(decision.arm == best);
        }
        f64::from(right) / f64::from(decisions)
    };
    play(1, 100_000);
    assert!(play(1, 20_000) > 0.8);
    play(4, 80_000);
    let after = play(4, 20_000);
    assert!(after > 0.8, "{after}");
}

/// What a pool loses whose arms are told their rates in reverse, as so many rewards, in parts of what uniform play does.
fn told_in_reverse(mut world: World, segments: usize, decisions: usize, config: &Config, strength: f64) -> f64 {
    let pool = Pool::new(config, segments as u32).unwrap();
    let names: Vec<_> = (0..segments).map(|key| pool.segment(key as u64).unwrap()).collect();
    if strength > 0.0 {
        let arms = world.arms;
        let mean = |arm: usize| (0..segments).map(|s| world.of(s)[arm]).sum::<f64>() / segments as f64;
        let mut order: Vec<usize> = (0..arms).collect();
        order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)));
        (0..arms).for_each(|i| pool.set_prior(order[i] as u32, mean(order[arms - 1 - i]), strength).unwrap());
    }
    world.regret(segments, decisions, |segment, answer| {
        let decision = pool.select(names[segment]).unwrap();
        pool.update(decision.ticket, answer(decision.arm)).unwrap();
    })
}

/// Rare clicks, so that much is still unknown after 20,000 decisions. Of 12 runs the worst loses 34%; without trials from
/// then on each loses 65% or more, and with segments that are young by Thompson sampling six lose 45 to 69%. The runs'
/// standard deviation is 3.5, so others than these fixed seeds would fail with chance 1e-5.
#[test]
fn a_reversed_prior_locks_no_ad_out() {
    let lost: Vec<f64> = (0..12)
        .map(|number| {
            let config = Config { test_seed: Some(seed(number)), ..Config::new(5, 0.25) };
            told_in_reverse(World::graded(100, 5, number + 1), 100, 3_000, &config, 300.0)
        })
        .collect();
    println!("{lost:?}");
    assert!(lost.iter().all(|&lost| lost < 0.45), "{lost:?}");
}

/// Worlds 1000 to 1099, each of 100 segments and ten ads of 3%, tau .2, 10,000 decisions a segment. More than a quarter of
/// what uniform play does lose, at eps 1, without a prior, told in reverse as 300 rewards and as 2^24: 1, 1 and 0 worlds
/// (before trials: 2, 14, 7); at eps .25: 6, 6 and 6 (5, 30, 13); means 7.1, 6.8, 7.6 and 10.5, 10.0, 11.3% (7.7, 14.7,
/// 10.5 and 11.8, 22.6, 15.8). None loses more than 36% (104). Other seeds would exceed these bounds with chance 1% each.
#[test]
#[ignore = "two minutes"]
fn no_reversed_prior_locks_an_ad_out() {
    for (epsilon, most) in [(1.0, 4), (0.25, 12)] {
        for strength in [0.0, 300.0, 16_777_216.0] {
            let lost: Vec<f64> = (1000..1100)
                .map(|number| {
                    let config = Config { test_seed: Some(seed(number)), ..Config::new(10, epsilon) };
                    told_in_reverse(World::new(100, 10, 0.2, number + 1), 100, 10_000, &config, strength)
                })
                .collect();
            let (sum, worst) = (lost.iter().sum::<f64>(), lost.iter().copied().fold(0.0, f64::max));
            let many = lost.iter().filter(|&&lost| lost > 0.25).count();
            println!("eps {epsilon}, strength {strength}: mean {sum:.1}%, worst {worst:.3}, above a quarter {many}");
            assert!(many <= most && worst < 0.5, "{lost:?}");
        }
    }
}

/// Where segments differ each soon plays the arm that is best there. All together could be right in half of them only.
#[test]
fn a_segment_plays_for_itself() {
    let pool = pool(2, 1.0, 20);
    (0..20).for_each(|key| assert_eq!(pool.segment(key), Ok(key as u32)));
    let (mut coins, mut right, mut alone) = (Coins(5), 0, 0);
    for t in 0..60_000 {
        let segment = t % 20;
        let decision = pool.select(segment).unwrap();
        let is_best = decision.arm == segment % 2;
        pool.update(decision.ticket, coins.toss(if is_best { 0.2 } else { 0.05 })).unwrap();
        if t >= 40_000 {
            right += u32::from(is_best);
            alone += decision.phase;
        }
    }
    println!("{right} {alone}");
    assert!(right > 18_000 && alone > 18_000, "{right} {alone}");
}

/// No arm is ever clicked, as first releases may say where noise is below 0: the rates are found all the same, and soon.
/// Of 30 runs ten lose more than a quarter of what uniform play does where that is believed, one where it is not.
#[test]
fn noise_below_0_is_not_believed_for_long() {
    let lost = (0..30).filter(|&number| {
        let config = Config { test_seed: Some(seed(number)), ..Config::new(10, 0.25) };
        let mut world = World::graded(100, 10, number + 1);
        world.rates.iter_mut().for_each(|rate| *rate *= 6.0);
        told_in_reverse(world, 100, 2_000, &config, 0.0) > 0.25
    });
    let lost = lost.count();
    assert!(lost <= 4, "{lost}");
}
