//! Handles with segments that merge each other's releases: the result is that of one handle, in any order of the
//! merges.

use crate::audit::engine::seed;
use crate::segments::World;
use crate::support::coins::Coins;
use crate::support::requests::{among, in_segment};
use dpb::{Algorithm, Bandit, Config, Error, Request};
use std::collections::BTreeMap;

const ARMS: u32 = 3;
/// The keys of segments.
const KEYS: [u64; 5] = [900, 3, 70, 1 << 60, 0];

fn config(number: u64) -> Config {
    Config { test_seed: Some(seed(number)), pending_capacity: 16, max_segments: 8, ..Config::new(ARMS, 1.0) }
}

fn imed(config: &Config) -> Bandit {
    Bandit::new(Algorithm::Imed, config).unwrap()
}

/// Creates a segment by a request.
fn begin(bandit: &Bandit, key: u64) -> Result<(), Error> {
    bandit.cancel(bandit.select_for(&in_segment(key))?.ticket)
}

/// A handle of a fleet, and the state that it should have.
struct Node {
    bandit: Bandit,
    config: Config,
    asked: Vec<u64>,
    generation: u32,
    /// For each handle by its index in the fleet, the newest of its snapshots that was merged.
    merged: BTreeMap<usize, usize>,
}

/// A snapshot, and the state that it contains.
struct Shot {
    of: usize,
    /// Generation, decisions, releases.
    version: (u32, u64, u32),
    bytes: Vec<u8>,
    released: Rewards,
    asked: Vec<u64>,
}

/// The number of rewards for each arm of each segment.
type Rewards = BTreeMap<u64, Vec<f64>>;

/// The reports for these segments: means, or numbers of rewards.
fn says(bandit: &Bandit, keys: &[u64], mean: bool) -> Rewards {
    let mut all = Rewards::new();
    for &key in keys {
        let arms = all.entry(key).or_default();
        bandit.for_each_arm_in(key, |_, arm| arms.push(if mean { arm.mean } else { arm.effective_pulls })).unwrap();
    }
    all
}

impl Node {
    fn new(config: Config) -> Node {
        Node { bandit: imed(&config), config, asked: Vec::new(), generation: 0, merged: BTreeMap::new() }
    }

    /// Requests a decision in a segment. Returns whether the handle has the segment afterwards.
    fn ask(&mut self, key: u64) -> bool {
        let is_new = !self.asked.contains(&key);
        if is_new && begin(&self.bandit, key).is_ok() {
            self.asked.push(key);
        }
        self.asked.contains(&key)
    }

    fn play(&mut self, decisions: u64, coins: &mut Coins) {
        for _ in 0..decisions {
            let key = KEYS[coins.next() as usize % KEYS.len()];
            if !self.ask(key) {
                continue;
            }
            let decision = self.bandit.select_for(&in_segment(key)).unwrap();
            let rate = [0.3, 0.6, 0.4][(decision.arm as usize + key as usize) % 3];
            self.bandit.update(decision.ticket, coins.toss(rate)).unwrap();
        }
    }

    /// A snapshot, with the releases that a handle reports which is restored from it.
    fn shot(&self, of: usize) -> Shot {
        let bytes = self.bandit.snapshot().unwrap();
        let report = self.bandit.report().unwrap();
        let released = says(&Bandit::restore(&bytes).unwrap(), &self.asked, false);
        let version = (self.generation, report.counts.decisions, report.phase);
        Shot { of, version, bytes, released, asked: self.asked.clone() }
    }

    fn merge(&mut self, number: usize, shots: &[Shot]) {
        let shot = &shots[number];
        self.bandit.merge(&shot.bytes).unwrap();
        let newest = self.merged.entry(shot.of).or_insert(number);
        if shot.version > shots[*newest].version {
            *newest = number;
        }
    }

    /// The handle's own releases, and those in the newest merged snapshot of every other handle.
    fn should_say(&self, place: usize, shots: &[Shot]) -> Rewards {
        let mut all = self.shot(place).released;
        for (_, &number) in self.merged.iter().filter(|&(&of, _)| of != place) {
            for (key, arms) in &mut all {
                let theirs = shots[number].released.get(key).into_iter().flatten();
                arms.iter_mut().zip(theirs).for_each(|(sum, theirs)| *sum += theirs);
            }
        }
        all
    }

    fn live_on(&mut self, shot: &Shot) {
        self.bandit = Bandit::restore_as(Algorithm::Imed, &self.config, &shot.bytes).unwrap();
        (self.generation, self.asked, self.merged) = (shot.version.0 + 1, shot.asked.clone(), BTreeMap::new());
    }
}

/// Four handles play, merge snapshots of any of them, their own and old ones too, repeatedly, and restart from their
/// last snapshot; one of them is full. At any time each knows, to the reward, its own releases and the newest snapshot
/// of every other. Once all have merged all, the evidence of all is the same, and those with the same segments read the
/// same to the last bit.
#[test]
fn every_reward_counts_once_in_any_order() {
    for number in 0..4 {
        let coins = &mut Coins(number);
        let mut fleet = [8, 8, 5, 2]
            .map(|max_segments| Node::new(Config { max_segments, ..config(10 * number + u64::from(max_segments)) }));
        let mut shots: Vec<Shot> = Vec::new();
        let pick = |coins: &mut Coins, many: usize| coins.next() as usize % many;
        for _ in 0..250 {
            let place = pick(coins, fleet.len());
            let node = &mut fleet[place];
            match pick(coins, 20) {
                0..=7 => {
                    let decisions = coins.next() % 200;
                    node.play(decisions, coins);
                }
                8..=11 => shots.push(node.shot(place)),
                12 => {
                    // A handle is killed and restored: what it learned after its snapshot is lost.
                    if let Some(own) = shots.iter().rfind(|shot| shot.of == place) {
                        node.live_on(own);
                    }
                }
                _ if shots.is_empty() => (),
                _ => node.merge(pick(coins, shots.len()), &shots),
            }
            let node = &fleet[place];
            assert_eq!(says(&node.bandit, &node.asked, false), node.should_say(place, &shots));
        }
        let last: Vec<_> = fleet.iter().enumerate().map(|(place, node)| node.shot(place)).collect();
        let first = shots.len();
        shots.extend(last);
        for (place, node) in fleet.iter_mut().enumerate() {
            KEYS.iter().for_each(|&key| _ = node.ask(key));
            let before = node.bandit.report().unwrap();
            (0..4).for_each(|other| node.merge(first + (other + place) % 4, &shots));
            let after = node.bandit.report().unwrap();
            assert_eq!((before.counts, before.segments), (after.counts, after.segments));
        }
        let (all, means) = (says(&fleet[0].bandit, &KEYS, false), says(&fleet[0].bandit, &KEYS, true));
        assert!(all.values().flatten().sum::<f64>() > 1_000.0, "{all:?}");
        for node in &fleet[1..] {
            assert!(node.asked.len() == node.config.max_segments.min(5) as usize);
            for (key, arms) in says(&node.bandit, &node.asked, false) {
                assert_eq!(arms, all[&key]);
            }
            // The full handle computes its model from two segments only, so its means differ.
            for (key, arms) in says(&node.bandit, &node.asked, true) {
                assert!(node.config.max_segments == 2 || arms == means[&key], "{arms:?} {:?}", means[&key]);
            }
        }
    }
}

/// With `forget_after`, while no clock moves: handles, and one that makes no decisions, read the same to the last bit.
#[test]
fn handles_that_forget_agree_while_no_clock_moves() {
    let made = |number| Node::new(Config { forget_after: 20_000, ..config(number) });
    let mut fleet = [1, 2, 3].map(made);
    for (node, decisions) in fleet.iter_mut().zip([30_000, 4_000, 11_000]) {
        node.play(decisions, &mut Coins(decisions));
    }
    let last = fleet.each_ref().map(|node| node.bandit.snapshot().unwrap());
    let looker = made(4);
    KEYS.iter().for_each(|&key| begin(&looker.bandit, key).unwrap());
    let told = [&fleet[0], &fleet[1], &fleet[2], &looker].map(|node| {
        let place = fleet.iter().position(|other| std::ptr::eq(other, node)).unwrap_or(0);
        (0..5).for_each(|other| node.bandit.merge(&last[(2 * other + place) % 3]).unwrap());
        (says(&node.bandit, &KEYS, false), says(&node.bandit, &KEYS, true))
    });
    assert!(told.iter().all(|other| *other == told[0]), "{told:?}");
}

/// A handle without a segment that has merged begins the segment with the fleet's releases when a request has its key.
/// So does a full handle that grows. A handle of maximum size can merge too.
#[test]
fn a_new_segment_starts_from_merged_releases() {
    let mut node = Node::new(config(1));
    node.play(40_000, &mut Coins(1));
    let shot = node.shot(0);
    let empty = imed(&Config { max_segments: 1, ..config(2) });
    empty.merge(&shot.bytes).unwrap();
    assert_eq!((empty.report().unwrap().segments, empty.report().unwrap().epsilon_spent), (0, 1.0));
    begin(&empty, 70).unwrap();
    assert_eq!(says(&empty, &[70], false)[&70], shot.released[&70]);
    assert!(matches!(begin(&empty, 900), Err(Error::Full { .. })));
    let alone = Bandit::restore(&empty.snapshot().unwrap()).unwrap();
    let first = alone.select_for(&in_segment(70)).unwrap();
    assert_eq!((first.phase, says(&alone, &[70], false)[&70].clone()), (0, vec![0.0; 3]));
    let (mut best, mut coins) = (0, Coins(2));
    for _ in 0..1_000 {
        let decision = empty.select_for(&in_segment(70)).unwrap();
        best += u32::from(decision.arm == 0);
        empty.update(decision.ticket, coins.toss([0.6, 0.4, 0.3][decision.arm as usize])).unwrap();
    }
    assert!(best > 900, "{best}");
    let more = Config { max_segments: 5, ..config(2) };
    let grown = Bandit::restore_as(Algorithm::Imed, &more, &empty.snapshot().unwrap()).unwrap();
    let own = says(&grown, &[70], false)[&70].clone();
    grown.merge(&shot.bytes).unwrap();
    KEYS.iter().for_each(|&key| begin(&grown, key).unwrap());
    let mut all = shot.released.clone();
    all.get_mut(&70).unwrap().iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    assert_eq!(says(&grown, &KEYS, false), all);
}

/// Merges that are refused with a reason, and change nothing.
#[test]
fn snapshots_of_other_configurations_are_refused() {
    let (mut node, mut other) = (Node::new(config(1)), Node::new(config(2)));
    node.play(2_000, &mut Coins(1));
    other.play(2_000, &mut Coins(2));
    let before = (says(&node.bandit, &KEYS, false), says(&node.bandit, &KEYS, true), node.bandit.report().unwrap());
    let refusal = |snapshot: &[u8]| node.bandit.merge(snapshot).unwrap_err();
    let of = |config: Config| imed(&Config { max_segments: 3, ..config }).snapshot().unwrap();
    for (field, other) in [
        ("arms", Config { arms: 4, ..config(2) }),
        ("epsilon", Config { epsilon: 0.4, ..config(2) }),
        ("forget_after", Config { forget_after: 5000, ..config(2) }),
    ] {
        let error = refusal(&of(other)).to_string();
        assert!(error.starts_with(&format!("{field} must be")), "{error}");
    }
    let whole = other.shot(0).bytes;
    for cut in (0..whole.len()).step_by(7) {
        assert_eq!(refusal(&whole[..cut]), Error::Corrupt);
    }
    // All numbers from the first segment's releases on are altered in many ways: merge and restore agree on which are
    // refused.
    let mut refused = 0;
    for place in (whole.len() - 4 - 32 * 18..whole.len() - 4).step_by(8) {
        for number in [f64::NAN, f64::INFINITY, -1.0, 1e18, 1e-9].map(f64::to_le_bytes).into_iter().chain([[255; 8]]) {
            let mut altered = whole[..whole.len() - 4].to_vec();
            altered[place..place + 8].copy_from_slice(&number);
            altered.extend(crc32fast::hash(&altered).to_le_bytes());
            if Bandit::restore(&altered).is_err() {
                assert_eq!(refusal(&altered), Error::Corrupt);
                refused += 1;
            }
        }
    }
    assert!(refused > 18 * 4 * 4, "{refused}");
    assert!(
        before == (says(&node.bandit, &KEYS, false), says(&node.bandit, &KEYS, true), node.bandit.report().unwrap())
    );
    let traffic =
        Config { node: 9, reward_window: 5, clamp_rewards: true, expected_users: 5, horizon: 99, ..config(2) };
    assert_eq!(node.bandit.merge(&of(traffic)), Ok(()));
}

/// With `forget_after`: releases of others count as they did there, fade on this handle's clock, and are then dropped.
#[test]
fn forgetting_applies_to_merged_releases() {
    let [mut here, mut there] = [1, 2].map(|number| Node::new(Config { forget_after: 4096, ..config(number) }));
    there.play(30_000, &mut Coins(1));
    here.play(3_000, &mut Coins(2));
    let sum = |bandit: &Bandit| says(bandit, &KEYS, false).values().flatten().sum::<f64>();
    let (own, theirs) = (sum(&here.bandit), sum(&there.bandit));
    here.bandit.merge(&there.shot(0).bytes).unwrap();
    assert!((sum(&here.bandit) / (own + theirs) - 1.0).abs() < 0.01);
    for round in 1..4 {
        for _ in 0..1024 {
            begin(&here.bandit, KEYS[0]).unwrap();
        }
        let expected = (own + theirs) * 0.5f64.powi(round);
        assert!((sum(&here.bandit) / expected - 1.0).abs() < 0.01, "{round}");
        // Merging the same snapshot again changes nothing, nor its age.
        here.bandit.merge(&there.shot(0).bytes).unwrap();
    }
    there.play(1, &mut Coins(3));
    here.bandit.merge(&there.shot(0).bytes).unwrap();
    assert!((sum(&here.bandit) / (own / 8.0 + sum(&there.bandit)) - 1.0).abs() < 0.01);
}

/// A batch is half of the rewards of its cell, divided by the number of running handles.
#[test]
fn batches_are_divided_among_running_handles() {
    let play = |bandit: &Bandit, coins: &mut Coins| {
        let decision = bandit.select_for(&Request { segment: 7, ..among(&[0]) }).unwrap();
        bandit.update(decision.ticket, coins.toss(0.5)).unwrap();
    };
    let seen = |bandit: &Bandit| says(bandit, &[7], false)[&7][0];
    let played = |number| {
        let bandit = imed(&Config { max_segments: 1, ..config(number) });
        let mut coins = Coins(number);
        (0..2_000).for_each(|_| play(&bandit, &mut coins));
        bandit
    };
    for others in [0, 1, 4] {
        let bandit = played(1);
        for other in 2..2 + others {
            bandit.merge(&played(other).snapshot().unwrap()).unwrap();
        }
        // The first release used a batch that was open when the others appeared.
        let mut coins = Coins(9);
        let [_, (before, after)] = [(); 2].map(|()| {
            let before = seen(&bandit);
            while seen(&bandit) == before {
                play(&bandit, &mut coins);
            }
            (before, seen(&bandit))
        });
        let part = (after - before) / before;
        assert!((part * (1 + others) as f64 - 0.5).abs() < 0.01, "{others} {part}");
    }
}

/// Regret of eight handles that merge every 1,000 decisions, of eight that do not, and of one with all the traffic:
/// sums over these worlds as fractions of uniform play's.
/// over these worlds in parts of uniform play's.
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
