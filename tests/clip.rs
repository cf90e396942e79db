//! A learned clip: what it refuses, what it finds, that restarts and moves keep it, and that handles agree on one.

use crate::audit::sabotage::with_fault;
use crate::support::coins::Coins;
use crate::support::requests::among;
use dpb::{Algorithm, Bandit, Config, Error, Fault, Request};

fn config(epsilon: f64) -> Config {
    Config {
        reward_max: 10_000.0,
        reward_bits: 24,
        clamp_rewards: true,
        learn_clip: true,
        test_seed: Some([3; 32]),
        ..Config::new(4, epsilon)
    }
}

fn make(config: &Config) -> Bandit {
    Bandit::new(Algorithm::Imed, config).unwrap()
}

const RATES: [f64; 4] = [0.05, 0.2, 0.1, 0.05];

/// 0, or an amount from 2 to 50, with the median 10.
fn amount(arm: u32, coins: &mut Coins) -> f64 {
    let some = coins.toss(RATES[arm as usize]);
    some * 10.0 * 5f64.powf(2.0 * (coins.below(1 << 20) as f64 / f64::from(1 << 20)) - 1.0)
}

fn play(bandit: &Bandit, decisions: u32, coins: &mut Coins) -> [u32; 4] {
    play_scaled(bandit, decisions, 1.0, coins)
}

/// Plays with amounts that are larger by this factor.
fn play_scaled(bandit: &Bandit, decisions: u32, scale: f64, coins: &mut Coins) -> [u32; 4] {
    let mut played = [0; 4];
    for _ in 0..decisions {
        let decision = bandit.select().unwrap();
        played[decision.arm as usize] += 1;
        bandit.update(decision.ticket, scale * amount(decision.arm, coins)).unwrap();
    }
    played
}

fn clip(bandit: &Bandit) -> Option<f64> {
    bandit.report().unwrap().clip
}

#[test]
fn what_a_clip_cannot_have_is_refused() {
    let refused = |config: Config| Bandit::new(Algorithm::Imed, &config).err().map(|error| error.to_string());
    assert_eq!(refused(config(1.0)), None);
    for (config, why) in [
        (
            Config {
                parts: 1,
                part_weights: [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
                reward_window: 9,
                ..config(1.0)
            },
            "parts must be 0 with a learned clip, got 1",
        ),
        (Config { max_segments: 3, ..config(1.0) }, "max_segments must be 0 with a learned clip, got 3"),
        (Config { reward_min: -1.0, ..config(1.0) }, "reward_min must be 0 with a learned clip, got -1"),
        (Config { reward_bits: 23, ..config(1.0) }, "reward_bits must be 24 with a learned clip, got 23"),
        (
            Config { delta: 1e-6, max_slots: 2, ..config(1.0) },
            "delta must be 0 with a learned clip and max_slots, got 1e-6",
        ),
    ] {
        assert_eq!(refused(config).as_deref(), Some(why));
    }
    for algorithm in [Algorithm::Med, Algorithm::TopTwo, Algorithm::Se, Algorithm::NonprivateUcb1] {
        let refused = Bandit::new(algorithm, &config(1.0)).err();
        assert!(matches!(refused, Some(Error::InvalidConfig { field: "learn_clip", .. })), "{refused:?}");
    }
    let linear = Config { features: 2, ..config(1.0) };
    assert!(Bandit::new(Algorithm::recommended(&linear), &linear).is_err());
}

#[test]
fn what_needs_the_unit_of_rewards_is_refused_and_changes_nothing() {
    let keyed = make(&Config { fleet_key: Some([1; 32].into()), ..config(1.0) });
    let before = keyed.report().unwrap();
    let costs = [0.1; 4];
    for refused in [
        keyed.set_prior(1, 3.0, 10.0).err(),
        keyed.select_for(&Request { costs: Some(&costs), ..Request::default() }).err(),
        keyed.select_for(&Request { abstain: true, ..Request::default() }).err(),
    ] {
        let refused = refused.unwrap();
        assert!(matches!(refused, Error::Unsupported(_)), "{refused:?}");
        assert!(refused.to_string().contains("config.flags has DPB_LEARN_CLIP"), "{refused}");
    }
    assert_eq!(keyed.report().unwrap(), before);
    // Messages and values do not depend on it.
    assert_eq!(*keyed.open(&keyed.seal(b"x").unwrap()).unwrap(), b"x");
    let values = [1.0, 2.0, 0.0, 1.0];
    assert_ne!(keyed.select_for(&Request { values: Some(&values), ..Request::default() }).unwrap().arm, 2);
}

/// The clip is 3.5 to 7 medians, or one octave further; the best arm is played most; means are those of clipped amounts,
/// in the caller's units.
#[test]
fn finds_a_clip_and_then_the_best_arm() {
    for epsilon in [1.0, 4.0] {
        let (bandit, coins) = (make(&config(epsilon)), &mut Coins(5));
        assert_eq!(clip(&bandit), None);
        assert!(bandit.arm_reports().unwrap().iter().all(|arm| arm.mean.is_nan()));
        let played = play(&bandit, 60_000, coins);
        let clip = clip(&bandit).unwrap();
        assert!((17.0..140.0).contains(&clip), "{clip}");
        assert!(played[1] > 40_000, "{played:?}");
        // E min(x, c), where x = 10 5^u and u is uniform in [-1, 1].
        let most = f64::min(clip, 50.0);
        let share = 0.5 * ((most / 10.0).ln() / 5f64.ln() + 1.0);
        let mean = RATES[1] * ((most - 2.0) / (2.0 * 5f64.ln()) + (1.0 - share) * clip.min(50.0));
        let arm = bandit.arm_reports().unwrap()[1];
        assert!((arm.mean / mean - 1.0).abs() < 0.1 && arm.width < mean, "{arm:?} {mean} at {clip}");
        let (low, high) = bandit.compare(1, 2, 0.9).unwrap();
        assert!(low <= 0.5 * mean && 0.5 * mean <= high && low > -clip && high < clip, "{low} {high} {mean}");
    }
}

/// The pilot draws evenly among eligible arms, also for several slots, and says so. Arms come and go meanwhile.
#[test]
fn a_pilot_plays_evenly() {
    let bandit = make(&Config { max_slots: 0, ..config(1.0) });
    let mut played = [0; 4];
    for _ in 0..4000 {
        let decision = bandit.select_for(&among(&[0, 2, 3])).unwrap();
        assert_eq!(decision.propensity, 1.0 / 3.0);
        played[decision.arm as usize] += 1;
        bandit.cancel(decision.ticket).unwrap();
    }
    assert!(played[1] == 0 && [0, 2, 3].iter().all(|&arm: &usize| played[arm] > 1200), "{played:?}");
    let mut arms = Vec::new();
    bandit.select_slots(&Request { slots: 3, ..Request::default() }, |_, decision| arms.push(decision.arm)).unwrap();
    arms.sort_unstable();
    arms.dedup();
    assert_eq!(arms.len(), 3);
    bandit.retire_arm(1).unwrap();
    assert_eq!(bandit.add_arm().unwrap(), 4);
    let after: Vec<_> = (0..200).map(|_| bandit.select().unwrap().arm).collect();
    assert!(!after.contains(&1) && after.contains(&4));
    assert_eq!(clip(&bandit), None);
}

/// Without rewards the pilot ends after a third of the horizon, and then the clip is `reward_max`.
#[test]
fn a_pilot_has_an_end() {
    let bandit = make(&Config { horizon: 3000, ..config(1.0) });
    for t in 0..1200 {
        assert_eq!(clip(&bandit).is_some(), t > 1000, "{t}");
        bandit.update(bandit.select().unwrap().ticket, 0.0).unwrap();
    }
    assert_eq!(clip(&bandit), Some(10_000.0));
}

/// Restored in its pilot, a handle continues the search, and the pilot is hardly longer; restored later, it keeps the clip.
/// A state moves with the open batch.
#[test]
fn restarts_and_moves_keep_what_was_found() {
    let config = Config { fleet_key: Some([1; 32].into()), test_seed: None, ..config(1.0) };
    for moves in [false, true] {
        let (mut bandit, coins) = (make(&config), &mut Coins(6));
        let mut decisions = 0;
        while clip(&bandit).is_none() {
            play(&bandit, 50, coins);
            decisions += 50;
            assert!(decisions < 40_000);
            // Often enough to meet each stage; not so often that no batch is ever full.
            if moves {
                let state = bandit.suspend(0).unwrap();
                bandit = Bandit::resume(Some(Algorithm::Imed), &config, &state).unwrap();
                bandit.claimed().unwrap();
            } else if decisions % 1500 == 0 {
                bandit = Bandit::restore(&bandit.snapshot().unwrap()).unwrap();
            }
        }
        let before = clip(&bandit);
        bandit = Bandit::restore_as(Algorithm::Imed, &config, &bandit.snapshot().unwrap()).unwrap();
        assert_eq!(clip(&bandit), before);
        let played = play(&bandit, 30_000, coins);
        assert!(played[1] > 15_000, "{played:?}");
        let other = Config { learn_clip: false, ..config.clone() };
        let refused = Bandit::restore_as(Algorithm::Imed, &other, &bandit.snapshot().unwrap()).err();
        assert!(matches!(refused, Some(Error::InvalidConfig { field: "learn_clip", .. })), "{refused:?}");
    }
}

/// Rewards of the pilot's decisions come when it has ended: they count, or do not, and the arms are played on.
#[test]
fn late_rewards_of_the_pilot_stop_nothing() {
    for window in [300, 5000] {
        let config = Config { reward_window: window, pending_capacity: 8192, ..config(1.0) };
        let (bandit, coins) = (make(&config), &mut Coins(8));
        let mut played = [0; 4];
        for _ in 0..80_000 {
            let decision = bandit.select().unwrap();
            played[decision.arm as usize] += 1;
            let amount = amount(decision.arm, coins);
            if amount > 0.0 {
                bandit.update(decision.ticket, amount).unwrap();
            }
        }
        assert!(clip(&bandit).is_some() && played[1] > 45_000, "{window}: {played:?}");
        let answered: f64 = bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum();
        assert!(answered <= 80_000.0, "{answered}");
    }
}

/// A handle of a fleet.
fn member(seed: u8) -> Bandit {
    make(&Config { fleet_key: Some([1; 32].into()), test_seed: Some([seed; 32]), ..config(1.0) })
}

fn merge(into: &Bandit, from: &Bandit) {
    into.merge(&from.snapshot().unwrap()).unwrap();
}

/// One exchange of a fleet that the first handle leads.
fn exchange(handles: &[Bandit]) {
    let leader = handles[0].lead().unwrap();
    for handle in &handles[1..] {
        let contribution = handle.contribution(leader).unwrap();
        if !contribution.is_empty() {
            handles[0].combine(&contribution).unwrap();
        }
        merge(handle, &handles[0]);
    }
}

/// The rewards in the releases that count at a handle.
fn learned(bandit: &Bandit) -> f64 {
    bandit.arm_reports().unwrap().iter().map(|arm| arm.effective_pulls).sum()
}

/// A leader finds a clip from the rewards of all, about as fast as one handle that makes all decisions. The others count
/// what the leader counts, and all play the best arm. A new leader continues with what the old one has found.
#[test]
fn a_fleet_finds_one_clip() {
    let (mut handles, coins) = ((0..6).map(member).collect::<Vec<_>>(), &mut Coins(5));
    let mut decisions = 0;
    while clip(&handles[5]).is_none() {
        exchange(&handles);
        handles.iter().for_each(|handle| _ = play(handle, 5, coins));
        decisions += 6 * 5;
        assert!(decisions < 5_000);
        if decisions == 6 * 100 {
            handles.swap(0, 1);
        }
    }
    let found = clip(&handles[0]).unwrap();
    assert!((17.0..140.0).contains(&found), "{found}");
    let report = handles[0].report().unwrap();
    let (all, lost) = (report.contributions, report.contributions_lost);
    assert!(all > 50 && (1..all / 4).contains(&lost), "{lost} of {all} after {decisions}");
    let before = handles.iter().map(|handle| handle.arm_reports().unwrap()[1].pulls).sum::<u64>();
    for round in 0..300 {
        exchange(&handles);
        handles.iter().for_each(|handle| _ = play(handle, 40, coins));
        if round == 100 {
            handles[1] = Bandit::restore_as(
                Algorithm::Imed,
                &Config { test_seed: None, fleet_key: Some([1; 32].into()), ..config(1.0) },
                &handles[1].snapshot().unwrap(),
            )
            .unwrap();
            merge(&handles[1], &handles[0]);
            handles.swap(0, 1);
            exchange(&handles);
        }
    }
    exchange(&handles);
    assert!(handles.iter().all(|handle| clip(handle) == Some(found)));
    let after = handles.iter().map(|handle| handle.arm_reports().unwrap()[1].pulls).sum::<u64>();
    assert!(after - before > 60_000, "{} of 72,000", after - before);
    let lost = handles[0].report().unwrap().contributions_lost;
    assert_eq!(lost, 0, "all count the same");
}

/// Two handles that have found two clips agree on the one with more evidence. What the other one has released in units of
/// its own is dropped, whatever the order of the merges.
#[test]
fn handles_agree_on_the_clip_with_more_evidence() {
    for scale in [64.0, 1.0 / 64.0] {
        let (old, young, coins) = (member(1), member(2), &mut Coins(5));
        play(&old, 30_000, coins);
        while clip(&young).is_none() {
            play_scaled(&young, 50, scale, coins);
        }
        play_scaled(&young, 200, scale, coins);
        let (known, others) = (learned(&old), clip(&young));
        assert!(known > 10_000.0 && learned(&young) > 0.0 && clip(&old) != others);
        let before = (old.arm_reports().unwrap(), young.snapshot().unwrap());
        old.merge(&before.1).unwrap();
        assert!(clip(&old) != others && learned(&old) == known);
        assert!(old.arm_reports().unwrap() == before.0, "the other clip's releases do not count");
        merge(&young, &old);
        assert_eq!((clip(&young), learned(&young)), (clip(&old), known));
        assert_eq!(young.arm_reports().unwrap()[1].mean, old.arm_reports().unwrap()[1].mean);
        // From now on they add up.
        play(&young, 20_000, coins);
        merge(&old, &young);
        assert!(learned(&old) > known);
        merge(&young, &old);
        assert_eq!(learned(&old), learned(&young));
        // A third one, which knows nothing, begins with the clip.
        let third = member(3);
        merge(&third, &young);
        assert_eq!((clip(&third), clip(&old)), (clip(&old), clip(&young)));
    }
}

/// A pilot that is further comes first; a batch in which something else was counted is dropped, and none of its rewards
/// is counted later.
#[test]
fn a_pilot_goes_on_from_the_furthest() {
    let releases = |bandit: &Bandit| bandit.report().unwrap().phase;
    let until = |bandit: &Bandit| {
        let before = releases(bandit);
        let next = (0..).find(|_| {
            bandit.update(bandit.select().unwrap().ticket, 0.0).unwrap();
            releases(bandit) != before
        });
        next.unwrap()
    };
    // The first releases are of the rate, of which both handles count the same.
    for (released, kept) in [(2, 5), (7, 0)] {
        let (first, second, coins) = (member(1), member(2), &mut Coins(5));
        while releases(&first) < released {
            play(&first, 1, coins);
        }
        let snapshot = first.snapshot().unwrap();
        play(&second, 5, coins);
        second.merge(&snapshot).unwrap();
        assert_eq!(until(&second) + kept, until(&Bandit::restore(&snapshot).unwrap()));
    }
}

/// How many contributions a leader loses that has another clip than the handle that contributes to it, and by how many
/// rewards it learns from that handle's sums and releases.
fn contributes_before_it_merges() -> [f64; 3] {
    let (leader, other, coins) = (member(1), member(2), &mut Coins(5));
    play(&leader, 30_000, coins);
    play_scaled(&other, 10_000, 1.0 / 64.0, coins);
    assert!(clip(&leader).unwrap() > 8.0 * clip(&other).unwrap());
    let generation = leader.lead().unwrap();
    other.contribution(generation).unwrap();
    // Each of these is more than its clip.
    for _ in 0..5_000 {
        other.update(other.select().unwrap().ticket, 5.0).unwrap();
    }
    let before = learned(&leader);
    leader.combine(&other.contribution(generation).unwrap()).unwrap();
    let lost = leader.report().unwrap().contributions_lost;
    let combined = learned(&leader) - before;
    merge(&leader, &other);
    [lost as f64, combined, learned(&leader) - before - combined]
}

/// A reward is a share of one clip. So sums of another one are lost, and counted as lost; and so is what a handle has
/// collected when it takes the clip of its leader.
#[test]
fn clips_are_not_mixed() {
    // (One more is missing: the first contribution, which was not combined.)
    assert_eq!(contributes_before_it_merges(), [2.0, 0.0, 0.0]);
    let mixed = with_fault(Fault::MixedClips, contributes_before_it_merges);
    assert!(mixed[0] == 1.0 && mixed[1] > 0.0, "{mixed:?}");
    let mixed = with_fault(Fault::ReleasesMixed, contributes_before_it_merges);
    assert!(mixed[2] != 0.0, "{mixed:?}");
}

/// What a handle had collected before it took its leader's clip is not in its next contribution.
#[test]
fn what_was_collected_by_another_clip_is_dropped() {
    let collects = || {
        let (leader, other, coins) = (member(1), member(2), &mut Coins(5));
        play(&leader, 30_000, coins);
        play_scaled(&other, 30_000, 1.0 / 64.0, coins);
        let generation = leader.lead().unwrap();
        other.contribution(generation).unwrap();
        play(&other, 1_000, coins);
        merge(&other, &leader);
        assert_eq!(clip(&other), clip(&leader));
        other.contribution(generation).unwrap().is_empty()
    };
    assert!(collects());
    assert!(!with_fault(Fault::ClipKept, collects));
}

/// Handles with amounts of different sizes play, merge old and new snapshots, lead, contribute, are alone, and are restored,
/// in any order. Then three rounds of merges are enough to agree, on the clip and on what is known by it.
#[test]
fn whatever_happens_handles_agree() {
    let key = || Some([1; 32].into());
    let (mut apart, mut kept) = (0, 0.0);
    for number in 0..60u64 {
        let coins = &mut Coins(1000 + number);
        let config = |seed| Config { test_seed: Some([seed; 32]), fleet_key: key(), epsilon: 4.0, ..config(1.0) };
        let mut handles: Vec<_> = (0..4).map(|seed| make(&config(10 + seed))).collect();
        let (mut shots, mut leaders, mut sent): (Vec<Vec<u8>>, Vec<u64>, Vec<Vec<u8>>) = Default::default();
        let mut decisions = 0;
        for _ in 0..400 {
            let at = coins.below(4) as usize;
            // Mostly the last of so many, or one before it.
            let late = |all: usize, coins: &mut Coins| all.saturating_sub(1 + coins.below(6) as usize);
            let handle = &handles[at];
            // Some histories merge seldom, and some have no leaders.
            match coins.below([400, 60][number as usize % 2]) {
                0..5 => shots.push(handle.snapshot().unwrap()),
                5..12 if !shots.is_empty() => handle.merge(&shots[late(shots.len(), coins)]).unwrap(),
                12 if number % 3 > 0 => leaders.push(handle.lead().unwrap()),
                13 => handle.alone().unwrap(),
                14..18 if !leaders.is_empty() => {
                    let contribution = handle.contribution(leaders[late(leaders.len(), coins)]);
                    sent.extend(contribution.ok().filter(|contribution| !contribution.is_empty()));
                }
                18..24 if !sent.is_empty() => _ = handle.combine(&sent[late(sent.len(), coins)]),
                24 => {
                    let (config, snapshot) = (Config { test_seed: None, ..config(0) }, handle.snapshot().unwrap());
                    handles[at] = Bandit::restore_as(Algorithm::Imed, &config, &snapshot).unwrap();
                }
                _ => {
                    let many = coins.below(60) as u32;
                    play_scaled(handle, many, [1.0, 16.0][at % 2], coins);
                    decisions += many;
                }
            }
            assert!(learned(&handles[at]) <= f64::from(decisions), "{number}: more than was given");
        }
        let most = handles.iter().map(learned).fold(0.0, f64::max);
        let clips: std::collections::BTreeSet<_> =
            handles.iter().map(|handle| clip(handle).map(f64::to_bits)).collect();
        apart += usize::from(clips.len() > 1);
        handles.iter().for_each(|handle| handle.alone().unwrap());
        for _ in 0..3 {
            // (Snapshots are ordered by the number of decisions.)
            handles.iter().for_each(|handle| handle.cancel(handle.select().unwrap().ticket).unwrap());
            let shots: Vec<_> = handles.iter().map(|handle| handle.snapshot().unwrap()).collect();
            for handle in &handles {
                (0..4).for_each(|_| handle.merge(&shots[coins.below(4) as usize]).unwrap());
                shots.iter().for_each(|shot| handle.merge(shot).unwrap());
            }
        }
        let known = |handle: &Bandit| {
            let arms = handle.arm_reports().unwrap().into_iter();
            let bits = arms.flat_map(|arm| [arm.mean, arm.width, arm.effective_pulls].map(f64::to_bits));
            (clip(handle), bits.collect::<Vec<_>>())
        };
        assert!(handles.iter().all(|handle| known(handle) == known(&handles[0])), "{number}");
        kept += learned(&handles[0]) / most.max(1.0);
    }
    println!("{apart} apart, {kept}");
    assert!(apart > 20 && kept > 60.0, "{apart} {kept}");
}
