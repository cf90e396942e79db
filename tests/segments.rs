//! Segments: what they learn from each other, and that only releases are shared.

use crate::audit::engine::{Audit, Seen, pattern, seed};
use crate::audit::sabotage::Sabotage;
use crate::support::coins::Coins;
use crate::support::requests::{among, in_segment};
use dpb::{Algorithm, Bandit, Config, Decision, Error, Request, Rows};

fn imed(config: &Config) -> Bandit {
    Bandit::new(Algorithm::Imed, config).unwrap()
}

fn bandit(arms: u32, epsilon: f64, max_segments: u32) -> Bandit {
    imed(&Config { test_seed: Some(seed(7)), max_segments, ..Config::new(arms, epsilon) })
}

fn select(bandit: &Bandit, segment: usize) -> Decision {
    bandit.select_for(&in_segment(segment as u64)).unwrap()
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

    /// Regret as a fraction of uniform play's.
    pub fn regret(
        &mut self,
        segments: usize,
        decisions: usize,
        mut play: impl FnMut(usize, &mut dyn FnMut(u32) -> f64),
    ) -> f64 {
        let (mut lost, mut uniform) = (0.0, 0.0);
        for t in 0..decisions * segments {
            // All segments get equally many decisions, in an irregular order.
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

/// An arm that no request offers costs nothing. Ten ads, 100 segments, 300,000 decisions, four worlds: with one more ad
/// that is never offered, the loss is 8% of the loss of uniform play, as without it. (It was 18% when all waited for that
/// ad's trial.)
#[test]
fn no_arm_waits_for_one_that_is_not_offered() {
    let offered: Vec<u32> = (0..10).collect();
    let mut lost = 0.0;
    for number in 0..4 {
        let bandit = imed(&Config { test_seed: Some(seed(number)), max_segments: 100, ..Config::new(11, 1.0) });
        lost += World::new(100, 10, 0.2, number + 1).regret(100, 3000, |segment, click| {
            let decision = bandit.select_for(&Request { segment: segment as u64, ..among(&offered) }).unwrap();
            bandit.update(decision.ticket, click(decision.arm)).unwrap();
        });
    }
    assert!(lost / 4.0 < 0.11, "{}", lost / 4.0);
}

/// Segments of one handle, compared with a bandit for each segment and with one for all: sums over six worlds of the
/// regret, relative to uniform play. The figure `segments` has 24 worlds. Groups of six scatter about its ratios by a
/// fifth.
#[test]
#[ignore = "ten seconds"]
fn segments_learn_from_each_other() {
    let (segments, arms) = (100, 10);
    for (decisions, spread, most) in [(2_000, 0.2, [0.3, 1.5]), (10_000, 0.5, [0.6, 0.5])] {
        let mut sums = [0.0; 3];
        for number in 0..6 {
            let config = Config { test_seed: Some(seed(number)), ..Config::new(arms as u32, 1.0) };
            let world = || World::new(segments, arms, spread, number + 1);
            let segmented = imed(&Config { max_segments: segments as u32, ..config.clone() });
            sums[0] += world().regret(segments, decisions, |segment, click| {
                let decision = select(&segmented, segment + 100);
                segmented.update(decision.ticket, click(decision.arm)).unwrap();
            });
            for (sum, bandits) in [segments, 1].into_iter().enumerate() {
                let bandits: Vec<_> = (0..bandits).map(|_| imed(&config)).collect();
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

/// The public outputs of a handle that plays two segments, where one reward of the first differs: the arms in order,
/// and from time to time the report of each arm in each segment. With `merging` there is another handle, which plays
/// the second segment alone, and they merge each other's snapshots.
fn seen(number: u64, neighbour: bool, sabotage: Sabotage, merging: bool) -> Vec<Seen> {
    let _hand = sabotage.hand(2);
    const KEYS: [u64; 2] = [5, 9];
    let make = |number| imed(&Config { test_seed: Some(seed(number)), max_segments: 2, ..Config::new(2, 1.0) });
    let (bandit, other) = (make(number), merging.then(|| make(number ^ 1 << 63)));
    let (mut plays, mut sights, mut pulls) = (Vec::new(), Vec::new(), [0; 2]);
    for t in 0..96 {
        // Two in three requests have only one eligible arm, so that it learns much.
        let segment = in_segment(KEYS[t % 2]);
        let one: &[u32] = &[0];
        let decision = bandit.select_for(&Request { eligible: (t % 3 < 2).then_some(one), ..segment }).unwrap();
        let pull = &mut pulls[decision.arm as usize];
        let changed = decision.arm == 0 && *pull == 3;
        bandit.update(decision.ticket, f64::from(u8::from(if changed { neighbour } else { *pull % 2 == 0 }))).unwrap();
        *pull += 1;
        plays.push(decision.arm);
        if let Some(other) = &other {
            let decision = other.select_for(&in_segment(KEYS[1])).unwrap();
            other.update(decision.ticket, f64::from(u8::from(t % 3 == 0))).unwrap();
            plays.push(decision.arm);
            if t % 24 == 23 {
                other.merge(&bandit.snapshot().unwrap()).unwrap();
                bandit.merge(&other.snapshot().unwrap()).unwrap();
            }
        }
        if t % 8 == 7 {
            let mut look = |bandit: &Bandit, keys: &[u64]| {
                for &key in keys {
                    bandit.for_each_arm_in(key, |_, arm| sights.push(Seen::Number(arm.mean))).unwrap();
                }
            };
            look(&bandit, &KEYS);
            if let Some(other) = &other {
                look(other, &KEYS[1..]);
            }
        }
    }
    sights.push(Seen::Pattern(pattern(&plays)));
    sights
}

/// A correct build fails with probability 1e-6; half of the noise exceeds the threshold by five standard errors.
fn costs_epsilon(merging: bool) {
    let world = |sabotage| move |_: usize, number, neighbour| seen(number, neighbour, sabotage, merging);
    let audit = |sabotage| Audit::pure(1.0, 20_000).search(1, world(sabotage));
    let (honest, weak) = (audit(Sabotage::Nothing), audit(Sabotage::HalfNoise));
    println!("{honest:?} {weak:?}");
    assert!(!honest.alarm && weak.alarm, "{honest:?} {weak:?}");
}

#[test]
#[ignore = "ten seconds"]
fn one_reward_in_one_segment_costs_epsilon() {
    costs_epsilon(false);
}

#[test]
#[ignore = "ten seconds"]
fn one_reward_costs_epsilon_when_handles_merge() {
    costs_epsilon(true);
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let refused = |algorithm, config: Config| Bandit::new(algorithm, &config).err().unwrap();
    let config = |max_segments| Config { max_segments, ..Config::new(3, 1.0) };
    for (error, why) in [
        (
            refused(Algorithm::Imed, Config { arms: 1 << 20, ..config(1 << 20) }),
            "max_segments must be 2^27 arms in all segments at most, got 1048576",
        ),
        (refused(Algorithm::Med, config(2)), "max_segments must be 0: dp-med does not use it, got 2"),
        (
            refused(Algorithm::Imed, Config { features: 2, ..config(2) }),
            "features must be 0: dp-imed does not use it, got 2",
        ),
    ] {
        assert_eq!(error.to_string(), why);
    }
    // A handle without segments accepts key 0 only.
    let plain = imed(&config(0));
    assert!(matches!(plain.select_for(&in_segment(1)), Err(Error::Unsupported(_))));
    assert!(matches!(plain.for_each_arm_in(0, |_, _| ()), Err(Error::Unsupported(_))));
    assert_eq!((plain.report().unwrap().segments, plain.report().unwrap().max_segments), (0, 0));

    let bandit = bandit(3, 1.0, 2);
    let invalid = |result: Result<(), Error>| matches!(result, Err(Error::InvalidRequest { .. }));
    let unsupported = |result: Result<(), Error>| matches!(result, Err(Error::Unsupported(_)));
    let before = bandit.report().unwrap();
    let decide = |request: Request| bandit.select_for(&request).map(drop);
    let decide_slots = |request: Request| bandit.select_slots(&request, |_, _| panic!());
    assert!(unsupported(bandit.select().map(drop)) && unsupported(bandit.select_n(1, |_, _| panic!())));
    for set in [&[][..], &[2, 3]] {
        assert!(invalid(decide(Request { segment: 70, ..among(set) })));
    }
    assert!(invalid(decide_slots(Request { slots: 0, ..in_segment(70) })));
    assert!(invalid(decide_slots(Request { slots: 4, ..in_segment(70) })));
    assert!(unsupported(decide(Request { user: 1, ..in_segment(70) })));
    assert!(invalid(bandit.for_each_arm_in(70, |_, _| panic!())));
    assert!(invalid(bandit.retire_arm(3)) && invalid(bandit.compare(0, 3, 0.9).map(drop)));
    assert_eq!(bandit.compare(0, 1, 0.9), Err(Error::NotReady));
    assert!(matches!(bandit.best_arm(), Err(Error::Unsupported(_))));
    assert_eq!(bandit.report().unwrap(), before);
    assert_eq!((before.counts.decisions, before.segments, before.max_segments), (0, 0, 2));

    // Each key creates a segment, up to max_segments.
    for key in [70, u64::MAX, 70] {
        bandit.cancel(bandit.select_for(&in_segment(key)).unwrap().ticket).unwrap();
    }
    let full = "segment 71 is new, and all of config.max_segments = 2 are in use";
    assert_eq!(bandit.select_for(&in_segment(71)).unwrap_err().to_string(), full);
    assert!(invalid(bandit.for_each_arm_in(71, |_, _| panic!())));
    assert_eq!((bandit.report().unwrap().counts.decisions, bandit.report().unwrap().segments), (3, 2));
    let decision = bandit.select_for(&Request { segment: u64::MAX, ..among(&[2, 2]) }).unwrap();
    assert_eq!(decision.arm, 2);
    assert_eq!(bandit.update(decision.ticket, 2.0), Err(Error::InvalidReward));
    assert_eq!(bandit.update(decision.ticket, 1.0), Ok(()));
    assert_eq!(bandit.update(decision.ticket, 1.0), Err(Error::Duplicate));
    assert_eq!(bandit.update(decision.ticket ^ 1, 1.0), Err(Error::UnknownTicket));
    // Many requests, one of which is refused.
    let (mut slots, mut tickets, mut done) = (Vec::new(), Vec::new(), 0);
    let requests = [u64::MAX, 70, u64::MAX, 71, 70].map(|key| Ok(in_segment(key)));
    let each = |slot, decision: Decision| {
        slots.push(slot);
        tickets.push(decision.ticket);
    };
    assert!(matches!(bandit.select_many(requests, each, &mut done), Err(Error::Full { .. })));
    assert_eq!((done, slots), (3, vec![0, 1, 2]));
    assert_eq!(bandit.cancel(tickets[1]), Ok(()));
    let mut pulls = [0; 2];
    for (key, pulls) in [70, u64::MAX].into_iter().zip(&mut pulls) {
        bandit.for_each_arm_in(key, |_, arm| *pulls += arm.pulls).unwrap();
    }
    assert_eq!(pulls, [0, 3]);
    // Reports of all segments together.
    assert_eq!(bandit.arm_reports().unwrap().iter().map(|arm| arm.pulls).sum::<u64>(), 3);
}

/// A handle with segments is restored with segments, and one without is restored without. max_segments cannot be less
/// than the number of segments.
#[test]
fn segments_are_restored_and_merged_as_segments() {
    let config = |max_segments| Config { max_segments, ..Config::new(4, 1.0) };
    let (segmented, plain) = (imed(&config(3)), imed(&config(0)));
    (0..3).for_each(|key| _ = select(&segmented, key));
    let (of_segments, of_none) = (segmented.snapshot().unwrap(), plain.snapshot().unwrap());
    let restored = |max_segments, bytes| Bandit::restore_as(Algorithm::Imed, &config(max_segments), bytes).map(drop);
    assert_eq!((restored(3, &of_segments), restored(9, &of_segments), restored(0, &of_none)), (Ok(()), Ok(()), Ok(())));
    for (refused, why) in [
        (restored(0, &of_segments), "max_segments must be at least 1: the snapshot has segments, got 0"),
        (restored(2, &of_segments), "max_segments must be at least 3, as in the snapshot, got 2"),
        (restored(3, &of_none), "max_segments must be 0: the snapshot has no segments, got 3"),
        (plain.merge(&of_segments), "max_segments must be at least 1: the snapshot has segments, got 0"),
        (segmented.merge(&of_none), "max_segments must be 0: the snapshot has no segments, got 3"),
    ] {
        assert_eq!(refused.unwrap_err().to_string(), why);
    }
}

/// With too small a limit nothing is read, and no feature is looked at: the price of a length.
#[test]
fn a_limit_that_is_too_small_reads_nothing() {
    let bandit = imed(&Config { max_segments: 2, ..Config::new(4, 1.0) });
    _ = select(&bandit, 7);
    let nothing = |_, _: dpb::ArmReport| panic!("an arm was read");
    let short = Err(Error::BufferTooSmall { needed: 4 });
    assert_eq!(bandit.read_arms(None, 3, nothing), short);
    assert_eq!(bandit.read_arms(Some(7), 3, nothing), short);
    assert!(matches!(bandit.read_arms(Some(8), 3, nothing), Err(Error::InvalidRequest { .. })));
    let mut read = 0;
    assert_eq!(bandit.read_arms(None, 4, |_, _| read += 1), Ok(4));
    assert_eq!(bandit.read_arms(Some(7), 9, |_, _| read += 1), Ok(4));
    assert_eq!(read, 8);
    let linear = Bandit::new(Algorithm::Linear, &Config { features: 1, ..Config::new(4, 1.0) }).unwrap();
    let bad = Request { features: Some(Rows::Dense(&[f32::NAN; 4])), ..Request::default() };
    assert_eq!(linear.predict_within(&bad, 3, |_, _| panic!("a row was predicted")), short);
    assert!(matches!(linear.predict_within(&bad, 4, |_, _| panic!()), Err(Error::InvalidRequest { .. })));
}

/// With `forget_after` a handle adapts to a change of the best arm in all segments.
#[test]
fn forgetting_follows_a_change() {
    let config = Config { forget_after: 40_000, test_seed: Some(seed(3)), max_segments: 20, ..Config::new(5, 1.0) };
    let bandit = imed(&config);
    let mut coins = Coins(2);
    let mut play = |best: u32, decisions: u32| {
        let mut right = 0;
        for t in 0..decisions {
            let decision = select(&bandit, t as usize % 20);
            bandit.update(decision.ticket, coins.toss(if decision.arm == best { 0.2 } else { 0.1 })).unwrap();
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

/// Regret, as a fraction of uniform play's, if priors of this many rewards give the arms their rates in reverse order.
fn told_in_reverse(mut world: World, segments: usize, decisions: usize, config: &Config, strength: f64) -> f64 {
    let bandit = imed(&Config { max_segments: segments as u32, ..config.clone() });
    if strength > 0.0 {
        let arms = world.arms;
        let mean = |arm: usize| (0..segments).map(|s| world.of(s)[arm]).sum::<f64>() / segments as f64;
        let mut order: Vec<usize> = (0..arms).collect();
        order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)));
        (0..arms).for_each(|i| bandit.set_prior(order[i] as u32, mean(order[arms - 1 - i]), strength).unwrap());
    }
    world.regret(segments, decisions, |segment, answer| {
        let decision = select(&bandit, segment);
        bandit.update(decision.ticket, answer(decision.arm)).unwrap();
    })
}

/// Rare clicks, so that much is unknown after 20,000 decisions. Of 12 runs the worst loses 34%. Without trials from
/// then on each loses at least 65%, and with Thompson sampling for young segments six lose 45 to 69%. The runs'
/// standard deviation is 3.5, so other seeds would fail with probability 1e-5.
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

fn mean_log<'a>(rates: impl Iterator<Item = &'a f64>) -> f64 {
    let logs: Vec<f64> = rates.map(|rate| rate.ln()).collect();
    logs.iter().sum::<f64>() / logs.len() as f64
}

/// Regret, as a fraction of uniform play's, of a policy that knows all of a world but the effects of single cells. Its
/// rule and noise are those of the library's segments, and its batches nearly. It needs no trials.
fn told_all_but_cells(mut world: World, decisions: usize, epsilon: f64, spread: f64) -> f64 {
    let (arms, variance) = (world.arms, 2.0 / (epsilon * epsilon));
    let segments = world.rates.len() / arms;
    let overall = mean_log(world.rates.iter());
    let of_arms: Vec<f64> = (0..arms).map(|arm| mean_log(world.rates.iter().skip(arm).step_by(arms))).collect();
    let least = (4.0 * variance.sqrt() / overall.exp()).ceil();
    let kl = |p: f64, q: f64| p * (p / q).ln() + (1.0 - p) * ((1.0 - p) / (1.0 - q)).ln();
    let (mut lost, mut uniform) = (0.0, 0.0);
    for segment in 0..segments {
        let best = world.best(segment);
        let own = mean_log(world.of(segment).iter()) - overall;
        let expected: Vec<f64> = of_arms.iter().map(|arm| (arm + own).exp()).collect();
        let mut cells = vec![(0.0, 0.0, 0.0f64); arms]; // weighted clicks, weight, count
        let mut left = decisions;
        uniform += decisions as f64 * (best - world.of(segment).iter().sum::<f64>() / arms as f64);
        while left > 0 {
            let posteriors: Vec<(f64, f64)> = std::iter::zip(&expected, &cells)
                .map(|(m, (clicks, weight, _))| {
                    let prior = (1.0 - m) / (m * spread * spread) - 1.0;
                    ((prior * m + clicks) / (prior + weight), prior + weight)
                })
                .collect();
            let largest = posteriors.iter().map(|posterior| posterior.0).fold(0.0, f64::max);
            let caution = 1.0 + 5.0 / (1.0 + (decisions - left) as f64 / (100.0 * arms as f64 * least));
            let index = |arm: &usize| {
                let (p, n) = posteriors[*arm];
                caution * n * kl(p.clamp(1e-6, largest), largest) + n.ln()
            };
            let arm = (0..arms).min_by(|a, b| index(a).total_cmp(&index(b))).unwrap();
            let count = ((0.5 * cells[arm].2).max(least) as usize).min(left);
            let clicks: f64 = (0..count).map(|_| world.click(segment, arm as u32)).sum();
            let u = unit(&mut world.coins) - 0.5;
            let noised = clicks - u.signum() * (1.0 - 2.0 * u.abs()).ln() / epsilon;
            let weight = 1.0 / (1.0 + variance / (count as f64 * expected[arm] * (1.0 - expected[arm])));
            cells[arm].0 += weight * noised.clamp(0.0, count as f64);
            cells[arm].1 += weight * count as f64;
            cells[arm].2 += count as f64;
            lost += count as f64 * (best - world.of(segment)[arm]);
            left -= count;
        }
    }
    lost / uniform
}

/// Worlds 1000 to 1099, each with 100 segments and ten ads of 3%, tau .2, 10,000 decisions a segment. Three settings:
/// without a prior, with a reversed prior of 300 rewards, and with one of 2^24. At eps 1 more than a quarter of uniform
/// play's loss is lost in 1, 1 and 0 worlds, and the means are 6.8, 6.8 and 6.9%; at eps .25 in 3, 2 and 3 worlds, with
/// means of 9.6, 9.0 and 9.6%. None loses more than 37%. These worlds are hard for every policy, because segments differ
/// in which ad is best: segments without noise lose 18 to 22% there, and a policy with the same noise that knows all but
/// the effects of single cells 14 to 23%. Other seeds would exceed these bounds with probability 1% each.
#[test]
#[ignore = "two minutes"]
fn no_reversed_prior_locks_an_ad_out() {
    let world = |number| World::new(100, 10, 0.2, number + 1);
    let config = |number, epsilon| Config { test_seed: Some(seed(number)), ..Config::new(10, epsilon) };
    for (epsilon, most) in [(1.0, 4), (0.25, 10)] {
        for strength in [0.0, 300.0, 16_777_216.0] {
            let lost = |number| told_in_reverse(world(number), 100, 10_000, &config(number, epsilon), strength);
            let lost: Vec<f64> = (1000..1100).map(lost).collect();
            let (sum, worst) = (lost.iter().sum::<f64>(), lost.iter().copied().fold(0.0, f64::max));
            let bad: Vec<u64> =
                (1000..1100).zip(&lost).filter(|&(_, &lost)| lost > 0.25).map(|(world, _)| world).collect();
            println!("eps {epsilon}, strength {strength}: mean {sum:.1}%, worst {worst:.3}, above a quarter {bad:?}");
            assert!(bad.len() <= most && worst < 0.5, "{lost:?}");
            for number in bad {
                let without_noise = told_in_reverse(world(number), 100, 10_000, &config(number, 100.0), 0.0);
                let rates = world(number);
                let mean = |arm: &u32| rates.rates.iter().skip(*arm as usize).step_by(10).sum::<f64>();
                let best = (0..10).max_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap();
                let fixed = world(number).regret(100, 1, |_, show| _ = show(best));
                let told = told_all_but_cells(world(number), 10_000, epsilon, 0.2);
                println!("  {number}: without noise {without_noise:.3}, the ad that is best on average {fixed:.3}");
                println!("  told all but the effects of cells {told:.3}");
                assert!(without_noise > 0.15 && fixed > 0.2 && told > 0.12, "{without_noise} {fixed} {told}");
            }
        }
    }
}

/// Segments with different best arms each soon play their own best arm. One bandit for all could be right in half of
/// them only.
#[test]
fn segments_learn_their_own_best_arms() {
    let bandit = bandit(2, 1.0, 20);
    let (mut coins, mut right, mut alone) = (Coins(5), 0, 0);
    for t in 0..60_000 {
        let segment = t % 20;
        let decision = select(&bandit, segment);
        let is_best = decision.arm as usize == segment % 2;
        bandit.update(decision.ticket, coins.toss(if is_best { 0.2 } else { 0.05 })).unwrap();
        if t >= 40_000 {
            right += u32::from(is_best);
            alone += decision.phase;
        }
    }
    println!("{right} {alone}");
    assert!(right > 18_000 && alone > 18_000, "{right} {alone}");
}

/// First releases may suggest that no arm is ever clicked, if the noise is below 0: the policy still learns the rates
/// soon. Of 30 runs ten lose more than a quarter of the loss of uniform play if the policy trusts such releases, and
/// one if it does not.
#[test]
#[ignore = "five seconds"]
fn negative_noise_does_not_hide_an_arm_for_long() {
    let lost = (0..30).filter(|&number| {
        let config = Config { test_seed: Some(seed(number)), ..Config::new(10, 0.25) };
        let mut world = World::graded(100, 10, number + 1);
        world.rates.iter_mut().for_each(|rate| *rate *= 6.0);
        told_in_reverse(world, 100, 2_000, &config, 0.0) > 0.25
    });
    let lost = lost.count();
    assert!(lost <= 4, "{lost}");
}

/// The rewards of the arms in a segment.
fn rewards(bandit: &Bandit, key: u64) -> Vec<f64> {
    let mut rewards = Vec::new();
    bandit.for_each_arm_in(key, |_, arm| rewards.push(arm.effective_pulls)).unwrap();
    rewards
}

/// A handle without a segment that has merged begins the segment with the fleet's releases when a request has its key.
/// So does a full handle that grows. A handle of maximum size can merge too.
#[test]
fn a_new_segment_starts_from_merged_releases() {
    let config = |number, max_segments| Config { test_seed: Some(seed(number)), max_segments, ..Config::new(3, 1.0) };
    let (node, mut coins) = (imed(&config(1, 8)), Coins(1));
    let mut play = |bandit: &Bandit, key: u64| {
        let decision = bandit.select_for(&in_segment(key)).unwrap();
        bandit.update(decision.ticket, coins.toss([0.6, 0.4, 0.3][decision.arm as usize])).unwrap();
        decision.arm
    };
    (0..40_000).for_each(|t| _ = play(&node, [70, 900, 3][t % 3]));
    let theirs = node.snapshot().unwrap();
    let released = [70, 900, 3].map(|key| rewards(&Bandit::restore(&theirs).unwrap(), key));
    let empty = imed(&config(2, 1));
    empty.merge(&theirs).unwrap();
    assert_eq!((empty.report().unwrap().segments, empty.report().unwrap().epsilon_spent), (0, 1.0));
    _ = select(&empty, 70);
    assert_eq!(rewards(&empty, 70), released[0]);
    assert!(matches!(empty.select_for(&in_segment(900)), Err(Error::Full { .. })));
    let alone = Bandit::restore(&empty.snapshot().unwrap()).unwrap();
    assert_eq!((select(&alone, 70).phase, rewards(&alone, 70)), (0, vec![0.0; 3]));
    let best = (0..1_000).filter(|_| play(&empty, 70) == 0).count();
    assert!(best > 900, "{best}");
    let grown = Bandit::restore_as(Algorithm::Imed, &config(2, 5), &empty.snapshot().unwrap()).unwrap();
    let own = rewards(&grown, 70);
    grown.merge(&theirs).unwrap();
    [900, 3].into_iter().for_each(|key| _ = select(&grown, key));
    let all: Vec<f64> = own.iter().zip(&released[0]).map(|(own, theirs)| own + theirs).collect();
    assert_eq!([70, 900, 3].map(|key| rewards(&grown, key)), [all, released[1].clone(), released[2].clone()]);
}

/// Regret of eight handles that merge every 1,000 decisions, of eight that do not, and of one with all the traffic:
/// means over these worlds, as fractions of uniform play's.
fn regrets(epsilon: f64, decisions: usize, spread: f64, worlds: u64) -> [f64; 3] {
    const SEGMENTS: u32 = 100;
    const ADS: u32 = 10;
    [(8, true), (8, false), (1, false)].map(|(handles, merge)| {
        let play = |number: u64| {
            let config = |own| Config {
                test_seed: Some(seed(100 * number + own)),
                max_segments: SEGMENTS,
                ..Config::new(ADS, epsilon)
            };
            let fleet: Vec<_> = (0..handles).map(|own| imed(&config(own))).collect();
            let (mut coins, mut t) = (Coins(number), 0);
            let mut world = World::new(SEGMENTS as usize, ADS as usize, spread, number + 1);
            world.regret(SEGMENTS as usize, decisions, |segment, click| {
                let bandit = &fleet[coins.next() as usize % fleet.len()];
                let decision = bandit.select_for(&in_segment(segment as u64)).unwrap();
                bandit.update(decision.ticket, click(decision.arm)).unwrap();
                t += 1;
                if merge && t % (1_000 * fleet.len()) == 0 {
                    let snapshots: Vec<_> = fleet.iter().map(|bandit| bandit.snapshot().unwrap()).collect();
                    fleet.iter().for_each(|bandit| snapshots.iter().for_each(|other| bandit.merge(other).unwrap()));
                }
            })
        };
        (0..worlds).map(play).sum::<f64>() / worlds as f64
    })
}

/// Deterministic except for the handles' origins, which do not affect decisions.
#[test]
#[ignore = "five seconds"]
fn merging_reduces_regret() {
    let [together, isolated, one] = regrets(1.0, 2_000, 0.2, 2);
    println!("{together} {isolated} {one}");
    assert!(together < 0.75 * isolated && together < 1.5 * one, "{together} {isolated} {one}");
}

/// A batch has eight draws of noise where one handle has one: at worst the cost was a factor of 1.9, where segments
/// differ most.
#[test]
#[ignore = "five seconds"]
fn merging_reduces_regret_in_long_runs() {
    for (epsilon, decisions, spread) in [(1.0, 10_000, 0.2), (0.25, 40_000, 0.5)] {
        let [together, isolated, one] = regrets(epsilon, decisions, spread, 2);
        println!("{epsilon} {decisions} {spread}: {together:.3} {isolated:.3} {one:.3}");
        assert!(together < 0.75 * isolated && together < 2.5 * one, "{together} {isolated} {one}");
    }
}
