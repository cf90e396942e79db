//! What handles can do besides deciding, for every kind of handle that can: merge, combine, continue from a snapshot, and
//! move. Each test plays random histories, beside which arms come and go, and compares the handles with a model.

mod fleet;

use crate::interference::handle::{Subject, live};
use crate::snapshot::{ABLE, configs};
use crate::support::coins::Coins;
use crate::support::root;
use dpb::{Algorithm, Bandit, Counts, Error, Fault, Report, Result};
use fleet::{Event, Fleet, KEYS, Kind, Known, MARKS, Place, kinds};
use std::collections::BTreeMap;
use std::panic::catch_unwind;

fn is_able<T>(tried: &Result<T>) -> bool {
    !matches!(tried, Err(Error::Unsupported(_)))
}

fn merges(bandit: &Bandit) -> bool {
    bandit.snapshot().is_ok_and(|snapshot| is_able(&bandit.merge(&snapshot)))
}

/// The page lists what each policy can do. So no test below can lose a policy. Whatever merges can contribute.
#[test]
fn policies_can_do_what_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/reference/policies.md")).unwrap();
    let all = kinds(|_| true);
    for &algorithm in Algorithm::ALL {
        let row = |line: &&str| line.starts_with(&format!("| `{}` | `Algorithm", algorithm.name()));
        let row: Vec<_> = page.lines().find(row).unwrap().split('|').collect();
        let listed = |ability| row[6].split(',').any(|can| can.trim() == ability);
        // With a model for each arm dp-linear does all that it can.
        let kind = all.iter().rfind(|kind| kind.subject.with(&kind.config).0 == algorithm && kind.name() != "segments");
        let bandit = kind.unwrap().make(1);
        for (ability, can) in [
            ("among", is_able(&kind.unwrap().ask(&bandit, 0, Some(&[1])))),
            ("change", is_able(&bandit.add_arm())),
            ("prior", is_able(&bandit.set_prior(1, 0.5, 10.0))),
            ("snapshot", bandit.snapshot().is_ok()),
            ("merge", merges(&bandit)),
            ("merge", bandit.lead().is_ok()),
        ] {
            assert_eq!(can, listed(ability), "{}: {ability}", algorithm.name());
        }
    }
    let mut fleets = kinds(merges);
    fleets.dedup_by_key(|kind| kind.subject);
    assert_eq!(fleets.len(), Subject::FLEETS.len() - 1, "all but that with a learned clip");
}

/// Whether both have the same rewards, and means that are the same to the last bit, or near if they are computed anew.
fn is_same(before: &Known, after: &Known, anew: bool) -> bool {
    let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || anew && (a - b).abs() < 0.05;
    let all = |(a, b): (&Vec<f64>, &Vec<f64>)| a[2] == b[2] && a.iter().zip(b).all(same);
    before.keys().eq(after.keys()) && before.values().zip(after.values()).all(all)
}

fn bits(known: &Known) -> BTreeMap<(u64, u64), Vec<u64>> {
    known.iter().map(|(key, known)| (*key, known.iter().map(|x| x.to_bits()).collect())).collect()
}

const PLAY: [(Event, u64); 6] = [
    (Event::Decide, 400),
    (Event::Cancel, 8),
    (Event::AddArm, 1),
    (Event::RetireArm, 1),
    (Event::Advance, 0),
    (Event::Snapshot, 6),
];

/// Four handles play, merge snapshots of any of them, old ones too, and continue from their last ones. At any time each
/// knows the rewards of its own releases and of the newest snapshot of every other. A snapshot has its own handle's
/// releases only. Once all have merged all, in any order, they and one that makes no decision report the same, to the
/// last bit. (With `forget_after` that holds while no clock moves. So these merge at the end only.)
#[test]
fn a_merge_joins_the_newest_releases_of_each_handle() {
    for kind in kinds(merges) {
        let teacher = kind.teacher();
        for number in 0..2 {
            let ages = kind.forgets();
            let taught = !ages && (kind.is_linear() || number == 1);
            let mut fleet = Fleet::new(&kind, 4, number, 0, taught.then_some(&teacher));
            let mut likely = PLAY.to_vec();
            likely.extend([(Event::Merge, if ages { 0 } else { 12 }), (Event::Restore, if ages { 0 } else { 1 })]);
            likely[4].1 = if kind.with == "a clock" { 20 } else { 0 };
            if kind.is_test() {
                (likely[2].1, likely[3].1) = (0, 0); // a new test forgets
            }
            fleet.play(3000, &likely, |fleet, at, event| {
                if ages || !matches!(event, Event::Merge | Event::Restore) {
                    return;
                }
                let known = fleet.knows(&fleet.nodes[at]);
                for (key, should) in fleet.should_know(at) {
                    let rewards = known[&key][2];
                    assert!((rewards - should).abs() <= 1e-6 * should, "{}: {rewards} {should}", kind.name());
                }
            });
            all_agree(&mut fleet);
        }
    }
}

fn all_agree(fleet: &mut Fleet) {
    let kind = fleet.kind;
    let looker = fleet.node(kind.make(9999));
    fleet.nodes.push(looker);
    fleet.nodes.iter_mut().for_each(|node| node.begin_all(kind));
    if kind.is_test() {
        (0..fleet.nodes.len() - 1).for_each(|at| (0..800).for_each(|_| fleet.happen(at, Event::Decide)));
    }
    let (first, handles) = (fleet.shots.len(), fleet.nodes.len());
    (0..handles).for_each(|at| fleet.happen(at, Event::Snapshot));
    for at in 0..handles {
        let before = fleet.nodes[at].bandit.report().unwrap();
        (0..2 * handles).for_each(|other| fleet.merge(at, first + (2 * other + at) % handles));
        let after = fleet.nodes[at].bandit.report().unwrap();
        assert_eq!((before.counts, before.segments), (after.counts, after.segments));
        assert!(after.epsilon_spent > 0.999 * kind.config.epsilon && after.epsilon_spent <= kind.config.epsilon);
    }
    let all = fleet.knows(&fleet.nodes[handles - 1]);
    assert!(all.values().map(|known| known[2]).sum::<f64>() > 200.0, "{}: {all:?}", kind.name());
    for node in &fleet.nodes {
        let known = fleet.knows(node);
        for (key, these) in &known {
            let same = |(place, (a, b)): (usize, (&f64, &f64))| {
                // In dp-linear, what has faded since is an exception, and nothing is predicted for retired arms.
                let near = kind.is_linear() && (kind.forgets() && (a - b).abs() < 1e-9 * a || place > 2 && a.is_nan());
                near || a.to_bits() == b.to_bits()
            };
            let mut both = these.iter().zip(&all[key]).enumerate();
            assert!(both.all(same), "{}: {these:?} {all:?}", kind.name());
        }
        // What is refused changes nothing.
        let bytes = &fleet.shots[first].bytes;
        let mut altered = bytes.clone();
        for place in (0..bytes.len()).step_by(bytes.len() / 9) {
            altered[place] ^= 1;
            assert!(matches!(node.bandit.merge(&altered), Err(Error::Corrupt | Error::NewerVersion)));
            assert!(matches!(node.bandit.merge(&bytes[..place]), Err(Error::Corrupt)));
            altered[place] ^= 1;
        }
        assert!(bits(&fleet.knows(node)) == bits(&known), "{}", kind.name());
    }
}

/// Twins that merge the same snapshots in different orders, repeatedly, with older ones in between, know and decide the
/// same. (A merge draws coins in dp-linear, and verdicts of dp-tt need more evidence after more merges.)
#[test]
fn the_order_of_merges_does_not_matter() {
    for kind in kinds(merges) {
        let others = [1, 2, 3].map(|number| kind.make(number));
        let play = |handle: &Bandit, decisions| kind.play(handle, decisions, &mut Coins(decisions));
        let [old, new] = [300, 2000].map(|decisions| {
            others.each_ref().map(|other| {
                play(other, decisions);
                other.snapshot().unwrap()
            })
        });
        let orders = [
            vec![&new[0], &new[1], &new[2]],
            vec![&new[2], &new[0], &new[1]],
            vec![&old[1], &new[2], &new[1], &old[0], &old[1], &new[1], &new[0], &new[0], &old[0], &old[2]],
        ];
        let found = orders.map(|order| {
            let fleet = Fleet::new(&kind, 1, 7, 0, None);
            let mut node = fleet.node(kind.make(4));
            node.keys.extend(&KEYS[..2]);
            play(&node.bandit, 900);
            order.iter().for_each(|snapshot| node.bandit.merge(snapshot).unwrap());
            let known = bits(&fleet.knows(&node));
            let draws = kind.is_linear() || kind.is_test();
            (known, if draws { Vec::new() } else { play(&node.bandit, 1500) })
        });
        assert!(found[1..].iter().all(|other| *other == found[0]), "{}", kind.name());
    }
}

/// With `forget_after`: releases of others count as they did there, and fade on this handle's clock. To merge the same
/// snapshot again changes nothing, nor its age.
#[test]
fn merged_releases_fade() {
    for kind in kinds(merges).into_iter().filter(|kind| kind.with == "forget_after") {
        let mut fleet = Fleet::new(&kind, 2, 8, 0, None);
        for (at, decisions) in [(0, 2000), (1, 20_000)] {
            kind.play(&fleet.nodes[at].bandit, decisions, &mut Coins(3));
            fleet.nodes[at].keys.extend(&KEYS[..2]);
        }
        let rewards = |fleet: &Fleet, at: usize| fleet.knows(&fleet.nodes[at]).values().map(|k| k[2]).sum::<f64>();
        let all = rewards(&fleet, 0) + rewards(&fleet, 1);
        fleet.happen(1, Event::Snapshot);
        fleet.merge(0, 0);
        let mut before = rewards(&fleet, 0);
        assert!((before / all - 1.0).abs() < 0.1, "{}: {before} {all}", kind.name());
        for _ in 0..4 {
            for _ in 0..1024 {
                let decision = kind.ask(&fleet.nodes[0].bandit, KEYS[0], None).unwrap();
                fleet.nodes[0].bandit.cancel(decision.ticket).unwrap();
            }
            let now = rewards(&fleet, 0);
            assert!(now < 0.9 * before || now == 0.0, "{}: {now} {before}", kind.name());
            fleet.merge(0, 0);
            assert!(rewards(&fleet, 0) == now, "{}", kind.name());
            before = now;
        }
        assert!(before < all / 12.0, "{}: {before} {all}", kind.name());
    }
}

/// The other running handles get their part of the next batch. Those that have stopped do not.
#[test]
fn batches_are_divided_among_running_handles() {
    for subject in [Subject::Policy(Algorithm::Imed), Subject::Segments] {
        let kind = kinds(merges).into_iter().find(|kind| kind.subject == subject).unwrap();
        let play = |bandit: &Bandit, decisions: u32, coins: &mut Coins| {
            for _ in 0..decisions {
                let decision = kind.ask(bandit, KEYS[0], Some(&[0])).unwrap();
                bandit.update(decision.ticket, coins.toss(0.5)).unwrap();
            }
        };
        let growth = |others: &[Bandit], rounds: u32| {
            let mut fleet = Fleet::new(&kind, 1, 1, 0, None);
            play(&fleet.nodes[0].bandit, 1000, &mut Coins(1));
            fleet.nodes[0].keys.insert(KEYS[0]);
            for round in 0..rounds {
                for other in others.iter().skip(if round < 2 { 0 } else { 2 }) {
                    play(other, 400, &mut Coins(5));
                    fleet.nodes[0].bandit.merge(&other.snapshot().unwrap()).unwrap();
                }
            }
            let first = |fleet: &Fleet| fleet.knows(&fleet.nodes[0]).values().next().unwrap()[2];
            // The first release uses a batch that was open when the others appeared.
            let [_, part] = [(); 2].map(|()| {
                let before = first(&fleet);
                while first(&fleet) == before {
                    play(&fleet.nodes[0].bandit, 1, &mut Coins(6));
                }
                (first(&fleet) - before) / before
            });
            part
        };
        let alone = growth(&[], 0);
        let others: Vec<_> = (2..6).map(|number| kind.make(number)).collect();
        let (five, three) = (growth(&others, 2), growth(&others, 14));
        let near = |part: f64, handles: f64| (part * handles / alone - 1.0).abs() < 0.02;
        assert!(near(five, 5.0) && near(three, 3.0), "{}: {alone} {five} {three}", kind.name());
    }
}

/// Handles contribute to any leader, lead, are alone again, are restored, move, merge, and add and retire arms, while
/// messages come late, to anybody, repeatedly, or not at all. Of every marked reward the model knows in which open sum or
/// message it is: it is released once, or lost by the restart of its handle, or in a message that is not combined.
fn follow_rewards(kind: &Kind) {
    let teacher = kind.teacher();
    let (mut released, mut lost, mut combined) = (0, 0, 0);
    for number in 0..12 {
        let mut fleet = Fleet::new(kind, 3, number, MARKS, (number % 3 > 0).then_some(&teacher));
        let likely = [
            (Event::Decide, 600),
            (Event::Cancel, 8),
            (Event::AddArm, 6),
            (Event::RetireArm, 6),
            (Event::Prior, 2),
            (Event::Advance, if kind.with == "a clock" { 100 } else { 0 }),
            (Event::Snapshot, 20),
            (Event::Merge, 20),
            (Event::Restore, 3),
            (Event::Move, 4),
            (Event::Lead, 15),
            (Event::Alone, 3),
            (Event::Contribute, 80),
            (Event::Combine, 150),
        ];
        fleet.happen(0, Event::Lead);
        fleet.play(700, &likely, |_, _, _| ());
        for node in &fleet.nodes {
            let report = node.bandit.report().unwrap();
            assert_eq!(report.contributions, node.combined, "{}", kind.name());
            assert!(report.contributions_lost >= node.missed, "{}", kind.name());
        }
        fleet.release_all();
        let count = |place| fleet.marks.iter().filter(|mark| mark.place == place).count();
        released += count(Place::Released);
        lost += count(Place::Lost);
        combined += fleet.combined;
    }
    println!("{}: released {released}, lost {lost}, combined {combined}", kind.name());
    assert!(released > 20 && lost > 0 && combined > 50, "{}: {released} {lost} {combined}", kind.name());
}

#[test]
fn each_reward_is_in_one_release_or_in_one_open_sum() {
    // (A window's rewards wait in the engine. With a delta, the instruments of dp-linear have other intercepts.)
    let kinds = kinds(merges).into_iter().filter(|kind| kind.with != "a window");
    kinds.filter(|kind| !kind.is_linear() || kind.with != "delta").for_each(|kind| follow_rewards(&kind));
}

/// The faults of fleets and of moves that the test above can see: each is a panic.
#[test]
fn faults_of_fleets_are_seen() {
    use Fault::{
        AloneForgets, CombinedByOthers, CombinedTwice, ContributedKept, EntropyRepeats, HeldActs, ReceiverKept,
        RetiredKept, SenderKept, SendersForgotten, SuspendedLives,
    };
    let subjects = [Subject::Policy(Algorithm::Imed), Subject::Segments, Subject::Models];
    for kind in kinds(merges).iter().filter(|kind| kind.with == "nothing more" && subjects.contains(&kind.subject)) {
        let faults = [AloneForgets, CombinedByOthers, CombinedTwice, ContributedKept, EntropyRepeats, HeldActs];
        for fault in faults.into_iter().chain([ReceiverKept, RetiredKept, SenderKept, SendersForgotten, SuspendedLives])
        {
            let with_fault = Kind { fault: Some(fault), ..kind.clone() };
            Fault::was_done();
            let seen = catch_unwind(|| follow_rewards(&with_fault)).is_err();
            assert!(seen || !Fault::was_done(), "{fault:?} of {}", kind.name());
        }
    }
}

/// Whether means are computed anew, always in the same way: of segments' model, and from what has faded in dp-linear.
fn is_computed_anew(kind: &Kind) -> bool {
    kind.subject == Subject::Segments || kind.is_linear() && kind.forgets()
}

/// All kinds with snapshots, and configurations of all that a snapshot contains.
fn kinds_with_snapshots() -> impl Iterator<Item = Kind> {
    let models = |algorithm| if algorithm == Algorithm::Linear { Subject::Models } else { Subject::Policy(algorithm) };
    let of = move |algorithm| configs(algorithm).into_iter().map(move |config| (models(algorithm), config));
    let more =
        ABLE.into_iter().flat_map(of).map(|(subject, config)| Kind { subject, with: "more", config, fault: None });
    kinds(|bandit| bandit.snapshot().is_ok()).into_iter().chain(more)
}

/// A restored handle has the releases only, and reports what the snapshot said. Open decisions have expired.
#[test]
fn a_restored_handle_has_the_releases_only() {
    for kind in kinds_with_snapshots() {
        let anew = is_computed_anew(&kind);
        let mut fleet = Fleet::new(&kind, 1, 5, 0, None);
        // A handle may have made a release after its first snapshot.
        let spent = |bandit: &Bandit| bandit.report().unwrap().epsilon_spent / kind.config.epsilon;
        let fresh = kind.subject.make(&kind.config).unwrap();
        assert_eq!(spent(&fresh), 0.0, "{}", kind.name());
        assert!(spent(&Bandit::restore(&fresh.snapshot().unwrap()).unwrap()) > 0.999, "{}", kind.name());
        let mut likely = PLAY.to_vec();
        likely.extend([(Event::Prior, 1)]);
        likely[4].1 = if kind.with == "a clock" { 20 } else { 0 };
        likely[5].1 = 0;
        for _ in 0..2 {
            fleet.play(2500, &likely, |_, _, _| ());
            let node = &fleet.nodes[0];
            let bytes = node.bandit.snapshot().unwrap();
            // The size is known in advance, and with too little space no snapshot is built.
            let less = node.bandit.snapshot_within(bytes.len() - 1);
            assert_eq!(less, Err(Error::BufferTooSmall { needed: bytes.len() }), "{}", kind.name());
            assert_eq!(node.bandit.snapshot_within(bytes.len()).as_ref(), Ok(&bytes));
            for place in (0..bytes.len()).step_by(bytes.len() / 40) {
                let mut altered = bytes.clone();
                altered[place] ^= 1;
                assert!(Bandit::restore(&altered).is_err() && Bandit::restore(&bytes[..place]).is_err(), "{place}");
            }
            let [next, twin] = [(); 2].map(|()| Bandit::restore(&bytes).unwrap());
            // Everything that was written is read: a new snapshot differs only in the generation and the checksum.
            let again = next.snapshot().unwrap();
            let differ = bytes.iter().zip(&again).filter(|(a, b)| a != b).count();
            let same = again.len() == bytes.len() && (1..=5).contains(&differ);
            assert!(anew || same, "{}: {differ}", kind.name());
            let (before, after) = (node.bandit.report().unwrap(), next.report().unwrap());
            let counts = Counts { expired: before.counts.expired + before.counts.pending(), ..before.counts };
            assert_eq!(after.counts, counts);
            let pulls: u64 = next.arm_reports().unwrap().iter().map(|arm| arm.pulls).sum();
            assert_eq!(pulls, counts.answered);
            let public = |r: &Report| (r.algorithm, r.arms_active, r.best_arm, r.changes_detected, r.segments);
            assert_eq!((public(&before), after.is_private), (public(&after), false));
            assert!(before.epsilon_spent <= after.epsilon_spent && after.epsilon_spent <= kind.config.epsilon);
            for (ticket, ..) in &node.open {
                assert_eq!(next.update(*ticket, kind.config.reward_max), Err(Error::UnknownTicket));
                assert_eq!(next.cancel(*ticket), Err(Error::UnknownTicket));
            }
            assert!(!node.open.is_empty() && next.report().unwrap().counts == counts);
            let [next, twin] = [next, twin].map(|bandit| fleet.continued(bandit, node));
            let [before, after, same] = [node, &next, &twin].map(|node| fleet.knows(node));
            assert_eq!(bits(&after), bits(&same), "{}", kind.name());
            assert!(is_same(&before, &after, anew), "{}: {before:?} {after:?}", kind.name());
            // It decides, and can be restored again.
            fleet.nodes[0] = next;
        }
    }
}

/// A handle that is suspended and resumed reports the same as before, and then as a twin that lived on with the same
/// rewards, also for decisions from before. (Noise is below every reward here. The model above follows open sums through
/// moves, and `interference` executes the proof for all policies.)
#[test]
fn a_resumed_handle_continues_as_one_that_lived_on() {
    for kind in kinds(|bandit| bandit.receiver().is_ok()) {
        // Without a choice of arms, twins do not decide the same.
        let rounds = if is_able(&kind.ask(&kind.make(1), 0, Some(&[1]))) { 400 } else { 0 };
        let run = |moves: bool| {
            let (mut fleet, mut seen) = (Fleet::new(&kind, 2, 3, MARKS, None), Vec::new());
            fleet.marks.clear();
            fleet.play(2500, &PLAY[..5], |_, _, _| ());
            for number in 0..4 {
                let arms = live(&fleet.nodes[0].bandit);
                let next = |fleet: &mut Fleet, time: usize| {
                    let (arm, key) = (arms[time % arms.len()], KEYS[time % 2]);
                    match kind.ask(&fleet.nodes[0].bandit, key, Some(&[arm])) {
                        Ok(decision) => fleet.nodes[0].open.push((decision.ticket, arm, None)),
                        Err(_) => fleet.decide(0),
                    }
                };
                (0..3).for_each(|time| next(&mut fleet, time));
                if moves {
                    let of = |r: Report| (r.counts, r.phase, r.arms_active, r.best_arm, r.segments, r.warnings);
                    let all =
                        |fleet: &Fleet| (of(fleet.nodes[0].bandit.report().unwrap()), fleet.knows(&fleet.nodes[0]));
                    let (report, known) = all(&fleet);
                    fleet.moved(0, number % 2 == 0);
                    let (same, after) = all(&fleet);
                    let is_same = report == same && is_same(&known, &after, is_computed_anew(&kind));
                    assert!(is_same, "{}: {report:?} {known:?} {same:?} {after:?}", kind.name());
                }
                for time in 0..rounds {
                    next(&mut fleet, time);
                    fleet.reward(0, 0);
                }
                seen.push((fleet.nodes[0].bandit.report().unwrap().counts, fleet.knows(&fleet.nodes[0])));
            }
            seen
        };
        // (The noise differs, which is below 1e-6 of every sum. Models decide sizes and instruments by it.)
        let has_model = kind.is_linear() || kind.subject == Subject::Segments;
        let near = |a: f64, b: f64| has_model || (a - b).abs() <= 1e-6 * a || a.is_nan() && b.is_nan();
        for ((counts, lived), (same, moved)) in run(false).iter().zip(&run(true)).filter(|_| rounds > 0) {
            let mut both = lived.values().flatten().zip(moved.values().flatten());
            assert!(counts == same && both.all(|(a, b)| near(*a, *b)), "{}: {lived:?} {moved:?}", kind.name());
        }
    }
}
