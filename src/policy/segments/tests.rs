//! Tests of segments: new and retired arms, eligible arms, slots, exploration, merging and snapshots.

use super::*;
use crate::ledger::peers::PeerId;
use crate::moving::Archive;
use crate::policy::compare::Totals;
use crate::policy::contract::Policy;
use crate::policy::learner::{AnyLearner, Learner};
use crate::policy::prior::Prior;
use crate::random::Random;
use crate::request::{Limits, Offers, Request};
use crate::snapshot::{Reader, write};
use std::collections::BTreeSet;

/// Segments, what a handle knows of them, and the coins of simulated rewards.
struct Site {
    origin: u64,
    config: Config,
    segments: Segments,
    coins: Random,
}

/// The rate of the arm with an id in the segment with a key.
type World = fn(u64, u64) -> f64;

impl Segments {
    /// The mean of an arm in a segment, and the number of rewards in the cell's own releases, here and at peers.
    fn estimate(&self, segment: u32, arm: u32) -> (f64, f64) {
        let state = self.arm_in(segment as usize + 1, arm);
        (state.mean, state.effective_pulls)
    }
}

impl Site {
    fn new(config: Config, number: u8, keys: &[u64]) -> Site {
        let config = Config { max_segments: 20, ..config };
        let segments = Segments::new(&config, &mut Seed::new(Some([number; 32])).unwrap()).unwrap();
        let coins = Seed::new(Some([number ^ 0x80; 32])).unwrap().stream();
        let mut site = Site { config, origin: number.into(), segments, coins };
        keys.iter().for_each(|&key| site.add_segment(key));
        site
    }

    fn add_segment(&mut self, key: u64) {
        assert_eq!(self.segments.add_segment(key) as usize + 1, self.segments.ledger.keys.len());
    }

    fn add_arm(&mut self, id: u64) -> u32 {
        self.segments.add_arm(id).unwrap();
        self.segments.arms() - 1
    }

    fn id(&self, arm: u32) -> u64 {
        self.segments.ledger.roster.id(arm as usize)
    }

    fn pulls(&self, segment: u32, arm: u32) -> u64 {
        self.segments.ledger.cells[(segment as usize + 1, arm as usize)].pulls
    }

    /// The rewards in all open batches and in all releases.
    fn collected(&self) -> u64 {
        let open = self.segments.ledger.cells.iter().map(|play| play.batch.quota() - play.batch.free());
        open.sum::<u64>() + self.segments.ledger.facts.led()
    }

    /// Chooses arms for the slots of a request for these arms.
    fn slate(&mut self, segment: u32, eligible: &[u32], slots: usize) -> Vec<Pull> {
        let key = self.segments.ledger.keys[segment as usize];
        let request = Request { slots: slots as u32, segment: key, eligible: Some(eligible), ..Request::default() };
        let mut offers = Offers::for_tests(&self.config, self.segments.ledger.roster.arms());
        let mut offer = offers.check(&request, self.segments.catalog(), &Limits::for_tests(0)).unwrap();
        self.segments.choose_slate(segment, &mut offer);
        offer.choices().iter().map(|choice| choice.pull).collect()
    }

    fn any_segment(&mut self) -> u32 {
        self.coins.below(self.segments.ledger.keys.len() as u64) as u32
    }

    /// Draws the reward of a pull in this segment and observes it. Returns the pull's arm.
    fn answer(&mut self, segment: u32, pull: Pull, world: World) -> u32 {
        let arm = self.segments.arm_of(pull);
        let rate = world(self.id(arm), self.segments.ledger.keys[segment as usize]);
        let one = u32::from(self.coins.unit() < rate);
        self.segments.observe(pull, Reward::from_units(one * Reward::ONE as u32));
        arm
    }

    /// Simulates decisions, and returns how often each arm is played in each segment.
    fn play(&mut self, decisions: u32, world: World) -> Vec<Vec<u32>> {
        let mut played = vec![vec![0; self.segments.arms() as usize]; self.segments.ledger.keys.len()];
        for _ in 0..decisions {
            let segment = self.any_segment();
            let pull = self.segments.choose_in(segment);
            played[segment as usize][self.answer(segment, pull, world) as usize] += 1;
        }
        played
    }

    fn live(&self) -> Vec<u32> {
        self.segments.ledger.roster.live().to_vec()
    }

    fn saved(&mut self) -> Vec<u8> {
        self.saved_without(&[])
    }

    /// A snapshot that does not count the pending pulls.
    fn saved_without(&mut self, pending: &[Pull]) -> Vec<u8> {
        let saved =
            write(usize::MAX, |to| self.segments.persist_public(&mut Archive::Out(to), &mut pending.iter().copied()));
        saved.unwrap().seal()
    }

    fn restored(&self, bytes: &[u8]) -> Result<Site> {
        let mut site = Site::new(self.config.clone(), 99, &[]);
        for &id in self.segments.ledger.roster.added.iter() {
            site.add_arm(id);
        }
        let from = &mut Reader::new(bytes).unwrap();
        site.segments.persist_public(&mut Archive::In(from), &mut std::iter::empty())?;
        from.finish()?;
        Ok(site)
    }

    fn merge(&mut self, other: &mut Site) {
        if self.origin == other.origin {
            return;
        }
        let bytes = other.saved();
        let from = &mut Reader::new(&bytes).unwrap();
        let id = PeerId { origin: other.origin, generation: 0, added: &other.segments.ledger.roster.added };
        let peer = self.segments.peer_reader()(&self.config, &id, from).unwrap();
        from.finish().unwrap();
        self.segments.merge(peer).unwrap();
    }

    /// Everything that can be read, by key and id.
    fn releases(&self) -> Vec<(u64, u64, u64, u64)> {
        let mut releases = Vec::new();
        for (segment, &key) in self.segments.ledger.keys.iter().enumerate() {
            for arm in 0..self.segments.arms() {
                let (mean, count) = self.segments.estimate(segment as u32, arm);
                releases.push((key, self.id(arm), mean.to_bits(), count.to_bits()));
            }
        }
        releases.sort_unstable();
        releases
    }

    /// The releases of the trials of each arm, by id.
    fn trials(&self) -> Vec<(u64, Totals)> {
        let all = (0..self.segments.arms()).map(|arm| {
            let mut trials = self.segments.rates[arm as usize].trials;
            trials.add(&self.segments.rates[arm as usize].others);
            (self.id(arm), trials)
        });
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|&(id, _)| id);
        all
    }

    /// The arm of these whose trial the next request takes part in, if it makes this many decisions.
    fn trial(&self, arms: &[u32], decisions: u64) -> Option<u32> {
        let (state, best) = (&self.segments, self.segments.turns[0].best);
        let mut tried: Vec<_> = arms
            .iter()
            .filter_map(|&arm| {
                let rate = &state.rates[arm as usize];
                Some((state.rule.index(rate, state.rule.largest / rate.mean)?, arm))
            })
            .filter(|&(_, arm)| !arms.contains(&best) || arm == best)
            .collect();
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        let arm = if arms.contains(&best) { best } else { tried.first()?.1 };
        let is_new = state.ledger.cells[(0, arm as usize)].batch.quota() == 0;
        let takes_part = is_new
            || state.rates[arm as usize].left > 0
            || (state.ledger.facts.decisions + decisions).wrapping_mul(GOLDEN) >> 61 == 0;
        (state.trial && takes_part).then_some(arm)
    }

    /// The arm of the next decision of a segment.
    fn next(&mut self, segment: u32) -> u32 {
        let live = self.live();
        match self.trial(&live, 1) {
            Some(arm) => arm,
            None => self.segments.current(segment as usize + 1),
        }
    }
}

/// The rates of rare clicks. Arm 1000 is the best arm in every segment.
fn ads(id: u64, key: u64) -> f64 {
    let rate = if id == 1000 { 0.12 } else { 0.03 + 0.01 * (id % 4) as f64 };
    rate * (1.0 + (key % 3) as f64 / 5.0)
}

const KEYS: [u64; 6] = [70, 3, 1 << 60, 12, 500, 0];

/// Pending decisions keep their segment and arm while arms and segments are added, and so do all counts.
#[test]
fn pending_pulls_survive_new_arms() {
    let mut site = Site::new(Config { exploration: 0.5, ..Config::new(3, 1.0) }, 1, &KEYS[..1]);
    let mut pending: Vec<(u32, u32, usize, Pull)> = Vec::new();
    let mut counts = std::collections::HashMap::new();
    for t in 0..6000u64 {
        if t % 500 == 250 && t < 5000 {
            site.add_arm(1000 + t);
        }
        if t % 700 == 300 && site.segments.ledger.keys.len() < 20 {
            site.add_segment(9000 + t);
        }
        let segment = site.any_segment();
        let pull = match t % 3 {
            0 => site.segments.choose_among_in(segment, &[site.segments.arms() - 1, 1]),
            _ => site.segments.choose_in(segment),
        };
        let arm = site.segments.arm_of(pull);
        *counts.entry((segment, arm)).or_insert(0) += 1;
        let row = if pull.phase() == 0 { 0 } else { segment as usize + 1 };
        pending.push((segment, arm, row, pull));
        while pending.len() > 400 {
            let (segment, arm, row, pull) = pending.swap_remove(site.coins.below(400) as usize);
            assert_eq!(site.segments.arm_of(pull), arm);
            assert_eq!(site.segments.cell_of(pull.arm() / 2), (segment as usize, arm as usize));
            if site.coins.below(10) == 0 {
                let before = site.segments.turns[segment as usize + 1].decisions;
                site.segments.unplay(pull);
                site.segments.cancel(pull);
                assert_eq!(site.segments.turns[segment as usize + 1].decisions, before - 1);
                *counts.get_mut(&(segment, arm)).unwrap() -= 1;
            } else {
                let (free, releases) =
                    (site.segments.ledger.cells[(row, arm as usize)].batch.free(), site.segments.ledger.facts.releases);
                site.segments.observe(pull, Reward::MIN);
                let now = site.segments.ledger.cells[(row, arm as usize)].batch.free();
                assert!(now + 1 == free || (free == 1 && site.segments.ledger.facts.releases == releases + 1));
            }
        }
    }
    assert_eq!(site.segments.arms(), 13);
    for segment in 0..site.segments.ledger.keys.len() as u32 {
        for arm in 0..13 {
            let counted = counts.get(&(segment, arm)).copied().unwrap_or_default();
            assert_eq!(site.pulls(segment, arm), counted);
        }
    }
    // A snapshot counts all pulls but the pending ones.
    let saved = site.saved_without(&pending.iter().map(|&(.., pull)| pull).collect::<Vec<_>>());
    let next = site.restored(&saved).unwrap();
    pending.iter().for_each(|&(segment, arm, ..)| *counts.get_mut(&(segment, arm)).unwrap() -= 1);
    for ((segment, arm), count) in counts {
        assert_eq!(next.pulls(segment, arm), count);
    }
}

/// Adding an arm beyond the maximum number of cells is refused, and nothing changes.
#[test]
#[cfg_attr(target_pointer_width = "32", ignore = "so many take more memory than there are addresses")]
fn too_many_arms_are_refused() {
    let config = Config { max_segments: (1 << 17) - 1, ..Config::new(1022, 1.0) };
    let mut segments = Segments::new(&config, &mut Seed::new(Some([1; 32])).unwrap()).unwrap();
    assert_eq!((segments.add_arm(8), segments.add_arm(9)), (Ok(()), Ok(())));
    assert!(matches!(segments.add_arm(10), Err(Error::InvalidConfig { .. })));
    assert_eq!((segments.arms(), segments.counts().active, segments.ledger.cells.arms()), (1024, 1024, 1024));
    let last = segments.number((1 << 17) - 2, 1023);
    assert!(u64::from(last) < Segments::MOST_CELLS && segments.cell_of(last) == ((1 << 17) - 2, 1023));
}

/// In every segment the best arm is found, wherever it was added. Once it is retired, the best of the other arms is
/// found. There are four runs, each with about 400 decisions for each segment and step beyond those of trials.
#[test]
fn a_new_arm_is_found_in_every_segment() {
    for (number, forget_after, exploration) in [(1, 0, 0.0), (2, 0, 0.1), (3, 60_000, 0.0), (4, 0, 0.0)] {
        let config = Config { forget_after, exploration, ..Config::new(3, 1.0) };
        let mut site = Site::new(config, number, &KEYS);
        site.play(30_000, ads);
        let best = site.add_arm(1000);
        if number == 4 {
            site.segments.set_prior(best, Prior { mean: 0.02, strength: 300.0 }); // wrong
            let (mean, _) = site.segments.estimate(0, best);
            assert!(mean < site.segments.estimate(0, 2).0, "{mean}");
        }
        site.add_arm(1001);
        site.play(40_000, ads);
        let mut played = site.play(10_000, ads);
        for segment in &played {
            let all: u32 = segment.iter().sum();
            assert!(f64::from(segment[best as usize]) > 0.75 * f64::from(all), "{number} {played:?}");
        }
        site.segments.retire_arm(best);
        played = site.play(40_000, ads);
        assert!(played.iter().all(|segment| segment[best as usize] == 0));
        // Of the other arms, the arm with the id 1001 has the rate .04 and arm 2 has .05, so a mistake costs little.
        let (mut right, mut all) = (0, 0);
        played.iter().for_each(|segment| {
            right += segment[2];
            all += segment.iter().sum::<u32>();
        });
        assert!(2 * right > all, "{number} {played:?}");
    }
}

/// Arms are added and retired all the time. A retired arm is never played, on trial, or the current arm of a segment.
/// Slots show different arms, each in a batch of its own, and leave the others in the list. The buffers do not grow.
/// Each reward is in one open batch or in one release, also if its arm was retired before.
#[test]
fn a_retired_arm_is_never_played() {
    for exploration in [0.0, 0.3] {
        let mut site = Site::new(Config { exploration, ..Config::new(4, 1.0) }, 7, &KEYS);
        let (mut pending, mut after, mut trials, mut answered) = (Vec::new(), 0, 0, 0);
        for t in 0..30_000u64 {
            if t % 300 == 100 {
                site.add_arm(1000 + t);
            }
            if t % 300 == 200 && site.segments.counts().active > 3 {
                let live = site.live();
                // The arm on trial, or the arm that a segment plays.
                let arm = match t % 900 {
                    200 => site.segments.turns[0].best,
                    500 => site.segments.turns[3].best,
                    _ => live[site.coins.below(live.len() as u64) as usize],
                };
                if site.segments.ledger.roster.is_live(arm as usize) {
                    site.segments.retire_arm(arm);
                }
            }
            let (live, segment) = (site.live(), site.any_segment());
            assert_eq!(site.segments.counts().active as usize, live.len());
            assert!(!site.segments.trial || live.contains(&site.segments.turns[0].best));
            trials += u32::from(site.segments.trial);
            let mut pulls = Vec::new();
            match t % 4 {
                0 => pulls.push(site.segments.choose_among_in(segment, &[live[0], live[live.len() - 1]])),
                1 => {
                    let (capacity, slots) = (site.segments.ranks.capacity(), 1 + t as usize % live.len());
                    pulls = site.slate(segment, &live, slots);
                    let arms: BTreeSet<_> = pulls.iter().map(|&pull| site.segments.arm_of(pull)).collect();
                    assert_eq!((pulls.len(), arms.len()), (slots, slots));
                    assert!(pulls.iter().filter(|pull| pull.phase() == 0).count() <= 1);
                    assert_eq!(site.segments.ranks.capacity(), capacity);
                }
                _ => pulls.push(site.segments.choose_in(segment)),
            }
            for pull in pulls {
                let arm = site.segments.arm_of(pull);
                assert!(live.contains(&arm), "{arm} of {live:?}");
                assert!(pull.propensity > 0.0 && pull.propensity <= 1.0);
                pending.push((segment, pull));
            }
            while pending.len() > 60 {
                let (segment, pull) = pending.swap_remove(site.coins.below(60) as usize);
                let releases = site.segments.ledger.facts.releases;
                let arm = site.answer(segment, pull, ads);
                after += u32::from(
                    !site.segments.ledger.roster.is_live(arm as usize)
                        && site.segments.ledger.facts.releases > releases,
                );
                answered += 1;
            }
            assert!(t % 20 > 0 || site.collected() == answered);
        }
        assert!(after > 0 && trials > 1000 && site.segments.arms() == 104, "{after} {trials}");
    }
}

/// Without exploration, the slots show the arms with the smallest indices, the trial's arm first.
#[test]
fn slots_show_the_least_indices() {
    let mut site = Site::new(Config::new(9, 1.0), 5, &KEYS);
    let (mut together, mut alone) = (0, 0);
    for t in 0..20_000u64 {
        let (segment, slots) = (site.any_segment(), 1 + t as usize % 5);
        let left = if t % 4 > 0 { vec![8, 7, 1, 4, 2, 6, 3, 0, 5] } else { vec![8, 1, 2, 6, 3, 5] };
        let trial = site.trial(&left, slots as u64);
        let own = segment as usize + 1;
        // The indices already count the decisions of this request.
        site.segments.turns[own].decisions += slots as u64;
        let mut means: Vec<f64> = left.iter().map(|&arm| site.segments.distribution(own, arm as usize).0).collect();
        means.sort_by(|a, b| b.total_cmp(a));
        let caution = site.segments.caution(own);
        let index = |arm: &u32| match Some(*arm) == trial {
            true => -1.0,
            false => site.segments.index(own, *arm, means[slots - 1], caution),
        };
        let mut expected = left.clone();
        expected.sort_by(|a, b| index(a).total_cmp(&index(b)).then(a.cmp(b)));
        if slots == 1 && trial.is_none() {
            let mut sorted = left.clone();
            sorted.sort_unstable();
            assert_eq!(site.segments.least(own, &sorted), expected[0]);
        }
        site.segments.turns[own].decisions -= slots as u64;
        let pulls = site.slate(segment, &left, slots);
        assert!(pulls.iter().all(|pull| pull.propensity == 1.0));
        let arms: Vec<u32> = pulls.iter().map(|&pull| site.segments.arm_of(pull)).collect();
        assert_eq!(arms, expected[..slots], "{t}");
        together += pulls.iter().filter(|pull| pull.phase() == 0).count();
        alone += pulls.iter().filter(|pull| pull.phase() == 1).count();
        for pull in pulls {
            site.answer(segment, pull, ads);
        }
    }
    assert!(together > 100 && alone > 10_000, "{together} {alone}");
}

/// Pearson's statistic.
fn chi2(observed: &[f64], expected: &[f64]) -> f64 {
    observed.iter().zip(expected).map(|(o, e)| (o - e).powi(2) / e).sum()
}

/// The policy's arm, and each other arm by its number or rank, is drawn with the probability that its propensity
/// states. The test compares the propensity exactly, and the frequencies by a chi-square test. There are at most 5
/// degrees of freedom, so one of the four statistics of a correct build exceeds 42 with probability below 1e-6 for
/// other seeds.
#[test]
fn frequencies_are_the_propensities() {
    const F: f64 = 0.3;
    let mut site = Site::new(Config { exploration: F, ..Config::new(5, 1.0) }, 3, &KEYS);
    site.add_arm(1000);
    site.add_arm(77);
    site.segments.retire_arm(2);
    let live = site.live();
    // All arms; some; and the first and the second of three slots.
    let (mut observed, mut expected) = ([[0.0; 6]; 4], [[0.0; 6]; 4]);
    let mut add = |test: usize, chances: &[f64], place: usize, propensity: f64| {
        assert!((propensity - chances[place]).abs() < 1e-12, "{test}: {propensity} {chances:?} {place}");
        observed[test][place] += 1.0;
        (0..chances.len()).for_each(|i| expected[test][i] += chances[i]);
    };
    for t in 0..60_000u64 {
        let segment = site.any_segment();
        let own = segment as usize + 1;
        if t % 3 == 0 {
            let best = site.next(segment);
            let mut order = vec![best];
            order.extend(live.iter().filter(|&&arm| arm != best));
            let pull = site.segments.choose_in(segment);
            let arm = site.answer(segment, pull, ads);
            let place = order.iter().position(|&other| other == arm).unwrap();
            let even = F / 6.0;
            add(0, &[even + 1.0 - F, even, even, even, even, even], place, pull.propensity);
        } else if t % 3 == 1 {
            let eligible = [1, 6, 4, 0];
            let best = site.trial(&eligible, 1).unwrap_or_else(|| {
                site.segments.turns[own].decisions += 1;
                let best = site.segments.least(own, &eligible);
                site.segments.turns[own].decisions -= 1;
                best
            });
            let pull = site.segments.choose_among_in(segment, &eligible);
            let arm = site.answer(segment, pull, ads);
            let arms = [0, 1, 4, 6];
            let chances = arms.map(|arm| F / 4.0 + if arm == best { 1.0 - F } else { 0.0 });
            add(1, &chances, arms.iter().position(|&other| other == arm).unwrap(), pull.propensity);
        } else {
            let left = vec![6, 1, 5, 4, 0, 3];
            let trial = site.trial(&left, 3);
            site.segments.turns[own].decisions += 3;
            let mut order: Vec<u32> = left.clone();
            let mut means: Vec<f64> = left.iter().map(|&arm| site.segments.distribution(own, arm as usize).0).collect();
            means.sort_by(|a, b| b.total_cmp(a));
            let caution = site.segments.caution(own);
            let index = |arm: &u32| match Some(*arm) == trial {
                true => -1.0,
                false => site.segments.index(own, *arm, means[2], caution),
            };
            order.sort_by(|a, b| index(a).total_cmp(&index(b)).then(a.cmp(b)));
            site.segments.turns[own].decisions -= 3;
            for (slot, pull) in site.slate(segment, &left, 3).into_iter().enumerate() {
                let arm = site.answer(segment, pull, ads);
                let place = order.iter().position(|&other| other == arm).unwrap();
                order.remove(place);
                let n = 6 - slot;
                let mut chances = vec![F / n as f64; n];
                chances[0] += 1.0 - F;
                if slot < 2 {
                    add(2 + slot, &chances, place, pull.propensity);
                } else {
                    assert!((pull.propensity - chances[place]).abs() < 1e-12);
                }
            }
        }
    }
    let statistics: Vec<f64> = (0..4)
        .map(|test| {
            let places = expected[test].iter().filter(|&&expected| expected > 0.0).count();
            chi2(&observed[test][..places], &expected[test][..places])
        })
        .collect();
    println!("{statistics:?}");
    assert!(statistics.iter().all(|&statistic| statistic < 42.0), "{statistics:?}");
}

/// Handles add the same arms in different orders, before and after they merge the releases of other handles for them.
/// Each handle retires a different arm. Once they have merged the same snapshots, they report the same values to the
/// last bit, by keys and ids.
#[test]
fn handles_read_the_same_whatever_the_order_of_arms() {
    let mut coins = Seed::new(Some([5; 32])).unwrap().stream();
    for number in 0..4u8 {
        let made = |own: u8, keys: &[u64]| Site::new(Config::new(3, 1.0), 10 * number + own + 1, keys);
        let mut fleet = [made(0, &KEYS[..4]), made(1, &KEYS[2..]), made(2, &KEYS)];
        let ids = [[1000, 44, 1 << 63], [1 << 63, 1000, 7], [7, 44, 1000]];
        for (site, ids) in fleet.iter_mut().zip(ids) {
            site.play(4000, ads);
            ids[..2].iter().for_each(|&id| _ = site.add_arm(id));
            site.play(6000, ads);
        }
        // Some handles merge releases of arms that they do not have yet.
        let [first, second, third] = &mut fleet;
        first.merge(second);
        second.merge(third);
        second.merge(first);
        first.merge(third);
        for (site, ids) in fleet.iter_mut().zip(ids) {
            site.add_arm(ids[2]);
            site.play(5000, ads);
        }
        for site in &mut fleet {
            for key in KEYS {
                if !site.segments.ledger.keys.contains(&key) {
                    site.add_segment(key);
                }
            }
        }
        let (mut late, mut last) = (made(3, &KEYS), fleet);
        let mut copies: Vec<Site> = last
            .iter_mut()
            .map(|site| {
                let saved = site.saved();
                let mut copy = site.restored(&saved).unwrap();
                copy.origin = site.origin;
                copy
            })
            .collect();
        let mut fleet = last;
        for (place, site) in fleet.iter_mut().enumerate() {
            site.segments.retire_arm(place as u32);
            for turn in 0..5 {
                // Repeated merges, also of a handle's own snapshot.
                site.merge(&mut copies[(place + turn * (1 + place % 2)) % 3]);
            }
            for id in [44, 7, 1000, 1 << 63] {
                if !site.segments.ledger.roster.added.contains(&id) && coins.below(2) == 0 {
                    site.add_arm(id);
                }
            }
        }
        for copy in &mut copies {
            late.merge(copy);
        }
        for site in fleet.iter_mut().chain([&mut late]) {
            for id in [1 << 63, 7, 44, 1000] {
                if !site.segments.ledger.roster.added.contains(&id) {
                    site.add_arm(id);
                }
            }
            assert!(site.segments.fitted);
        }
        let (releases, trials) = (late.releases(), late.trials());
        assert!(releases.iter().filter(|cell| f64::from_bits(cell.3) > 0.0).count() > 12, "{releases:?}");
        for site in &fleet {
            assert_eq!(site.releases(), releases, "{number}");
            assert_eq!(site.trials(), trials, "{number}");
        }
        assert!(trials.iter().filter(|(_, totals)| *totals != Totals::NONE).count() > 3);
        // A snapshot contains none of the merged releases.
        let saved = late.saved();
        assert!(late.restored(&saved).unwrap().trials().iter().all(|(_, totals)| *totals == Totals::NONE));
    }
}

/// A snapshot restores releases, added arms, live or retired, and priors, to the last bit.
#[test]
fn a_snapshot_goes_on() {
    for forget_after in [0, 30_000] {
        let mut site = Site::new(Config { forget_after, ..Config::new(3, 1.0) }, 4, &KEYS);
        site.play(10_000, ads);
        let [one, other] = [1000, 60].map(|id| site.add_arm(id));
        site.segments.set_prior(other, Prior { mean: 0.05, strength: 40.0 });
        site.play(10_000, ads);
        site.segments.retire_arm(1);
        site.segments.retire_arm(one);
        site.play(2_000, ads);
        site.segments.fit();
        let bytes = site.saved();
        let mut next = site.restored(&bytes).unwrap();
        assert_eq!((next.saved(), next.releases(), next.trials()), (bytes.clone(), site.releases(), site.trials()));
        assert_eq!((next.live(), next.segments.counts().active), (vec![0, 2, 4], 3));
        assert_eq!(next.segments.rates[4].prior, site.segments.rates[4].prior);
        let played = next.play(5_000, ads);
        assert!(played.iter().all(|segment| segment[1] == 0 && segment[3] == 0));
        assert!(next.segments.ledger.facts.releases > site.segments.ledger.facts.releases);
        // A snapshot with another number of arms is refused.
        site.add_arm(u64::MAX);
        assert!(site.restored(&bytes).is_err());
    }
}

/// Segments differ, also in their best arm. An interval from trials contains the difference of the means over all
/// segments, at all times: each of 60 runs ever misses it with probability at most .05, so 13 or more runs do with
/// probability below 1e-6. In most runs the interval separates arms that differ much.
#[test]
fn trials_compare_arms_over_all_segments() {
    // Over both segments the rates are .26, .2 and .02. Arm 1 is better in the second segment, and is played mostly
    // there.
    fn paradox(id: u64, key: u64) -> f64 {
        [[0.5, 0.02], [0.3, 0.1], [0.02, 0.02]][id as usize][key as usize]
    }
    let nats = (2.0f64 / 0.05).ln();
    let (mut wrong, mut apart) = (0, 0);
    for number in 0..60 {
        let mut site = Site::new(Config::new(3, 1.0), number, &[0, 1]);
        assert_eq!(site.segments.sums(0).err(), Some(Error::NotReady));
        let (mut holds, mut last) = (true, 0.0);
        for _ in 0..10 {
            site.play(400, paradox);
            let sums = |arm: u32| site.segments.sums(arm);
            let (Ok(one), Ok(other), Ok(bad)) = (sums(0), sums(1), sums(2)) else { continue };
            let (low, high) = one.less(&other, nats);
            holds &= low <= 0.06 && 0.06 <= high;
            last = one.less(&bad, nats).0;
        }
        wrong += u32::from(!holds);
        apart += u32::from(last > 0.0);
    }
    println!("{wrong} {apart}");
    assert!(wrong < 13 && apart > 25, "{wrong} {apart}");
    let memory = Site::new(Config { forget_after: 9000, ..Config::new(3, 1.0) }, 1, &[0]);
    assert!(matches!(memory.segments.sums(0), Err(Error::Unsupported(_))));
}
