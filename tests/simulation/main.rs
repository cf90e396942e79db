//! Fleets of nodes: the commands of their store, and worlds of nodes in which everything fails.
//!
//! `DPB_SEEDS=100000 cargo test -p dpb-tests --test simulation worlds` runs more worlds, and `DPB_SEED=17` one of them. The
//! story of a world that violates an invariant has only the random faults that it needs; the bits of `DPB_WITHOUT` are those
//! that it leaves out.

#[path = "../support/mod.rs"]
mod support;

#[cfg(unix)]
mod commands;
mod figures;
mod real;

use dpb::Fault;
use dpb::node::command::CommandKind;
use dpb::noise::probe::NoiseProbe;
use dpb_simulation::model::Fact;
use dpb_simulation::plan::{Failure, Plan, SEND_RATE};
use dpb_simulation::sabotage::Sabotage;
use dpb_simulation::world::{DELAY, World};
use std::collections::BTreeMap;
use std::ops::Range;

/// Runs a world until it has healed. Returns what is violated.
fn lives(world: &mut World) -> Result<(), String> {
    world.run(180_000)?;
    world.heal()
}

/// A world of this seed that has lived until it has healed, and violated nothing.
fn healed(seed: u64, plan: Plan) -> World {
    let mut world = World::new(seed, plan, false);
    lives(&mut world).unwrap_or_else(|violated| panic!("{}", story(seed, plan, &violated)));
    world
}

/// Leaves out each random fault without which the same invariant is violated.
fn reduced(seed: u64, mut plan: Plan, violated: &str) -> Plan {
    let (mut number, mut most) = (0, 63);
    while number <= most {
        let less = Plan { without: plan.without | 1 << number, ..plan };
        let mut world = World::new(seed, less, false);
        let is_same = lives(&mut world).is_err_and(|other| other[..2] == violated[..2]);
        // Not by what happens later.
        if is_same && world.chance.min(63) <= most {
            (plan, most) = (less, world.chance.min(63));
        }
        number += 1;
    }
    plan
}

/// The story of a seed with the faults that it needs: what failed, and around the time that the violation names everything.
fn story(seed: u64, plan: Plan, violated: &str) -> String {
    let plan = reduced(seed, plan, violated);
    let mut world = World::new(seed, plan, true);
    let violated = lives(&mut world).expect_err("a seed decides everything");
    let (step, end) = (world.steps, world.now);
    let about = ["lost at ", "reported at "]
        .into_iter()
        .find_map(|at| violated.split(at).nth(1))
        .and_then(|rest| rest.split(' ').next()?.parse().ok());
    let times = about.unwrap_or(end.saturating_sub(3000))..about.map_or(end, |time: u64| time + 3000);
    let log = world.log.unwrap().into_iter();
    let told = log.filter(|(at, fails, _)| *fails || times.contains(at) || *at + 1000 > end);
    let lines: Vec<_> = told.map(|(at, _, text)| format!("{at} {text}")).collect();
    format!(
        "seed {seed}, step {step}: {violated}\n{plan:?}\n{}\nRepeat: DPB_SEED={seed} DPB_WITHOUT={} cargo test -p dpb-tests --test \
         simulation worlds",
        lines.join("\n"),
        plan.without
    )
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

#[test]
fn worlds_keep_the_invariants() {
    let seeds = match variable("DPB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("DPB_SEEDS").unwrap_or(12),
    };
    keep_the_invariants(seeds, u64::MAX);
}

/// With the twelve above, two hundred of some 50,000 steps.
#[test]
#[ignore = "half a minute"]
fn more_worlds_keep_the_invariants() {
    keep_the_invariants(12..200, u64::MAX);
}

/// 10^8 steps, in two threads.
#[test]
#[ignore = "minutes"]
fn many_worlds_keep_the_invariants() {
    std::thread::scope(|scope| {
        for first in 200..202 {
            scope.spawn(move || keep_the_invariants((first..).step_by(2), 50_000_000));
        }
    });
}

/// In the worlds of these seeds, until they have taken so many steps.
fn keep_the_invariants(seeds: impl Iterator<Item = u64>, most: u64) {
    let (mut worlds, mut steps, mut faults, mut learned, mut made, mut resumed) = (0, 0, BTreeMap::new(), 0, 0, 0);
    let began = std::time::Instant::now();
    for seed in seeds {
        if steps >= most {
            break;
        }
        worlds += 1;
        let plan = Plan { without: variable("DPB_WITHOUT").unwrap_or(0), ..Plan::random(seed) };
        let world = healed(seed, plan);
        steps += world.steps;
        world.faults.iter().for_each(|(name, count)| *faults.entry(*name).or_insert(0) += count);
        let truth = world.truth.borrow();
        made += truth.facts.len();
        resumed += truth.resumed;
        learned += truth.facts.values().filter(|fact| fact.learned.is_some()).count();
    }
    let rate = steps as f64 / began.elapsed().as_secs_f64();
    println!(
        "{steps} steps of {worlds} worlds, {rate:.0} a second; {learned} of {made} decisions learned from; \
         {resumed} states; {faults:?}"
    );
    let kinds = ["killed", "paused", "cut", "leaves", "failover", "empty", "jump", "lost", "repeated"];
    let all = resumed > 0 && kinds.iter().all(|kind| faults.contains_key(kind));
    assert!(worlds < 12 || all, "{resumed} states, {faults:?}");
}

/// Where nodes come and leave and nothing fails, everything that took effect is released, or is still collected.
#[test]
fn nothing_is_lost_where_nothing_fails() {
    for seed in 0..10 {
        assert!(healed(seed, Plan::QUIET).truth.borrow().released.len() > 500);
    }
}

/// A process begins while the rounds of others are lost. It decides nothing before they know its number: clicks come within
/// 0.3 s, also to them.
#[test]
fn a_node_that_begins_waits_until_the_others_know_it() {
    let script = &[(40_000, Failure::Kill(0, 10_000)), (49_950, Failure::Cut(1, 200)), (49_950, Failure::Cut(2, 200))];
    let plan = Plan { nodes: 3, click_delay: 300, script, prompt: true, ..Plan::QUIET };
    for seed in 0..20 {
        let mut world = World::new(seed, plan, false);
        world.run(70_000).unwrap_or_else(|violated| panic!("{}", story(seed, plan, &violated)));
        assert_eq!(world.refused, 0, "seed {seed}");
    }
}

/// So many processes end at this time, and as many others begin at 70 s. What is open moves to them.
fn restarts_lose_no_click(seed: u64, half: usize, time: u64) {
    let begin = (half..2 * half).map(|slot| (4000, Failure::Kill(slot, 66_000)));
    let script = begin.chain((0..half).map(|slot| (time, Failure::Leave(slot)))).collect::<Vec<_>>().leak();
    let plan = Plan { nodes: 2 * half, script, prompt: seed % 2 == 1, ..Plan::QUIET };
    let mut world = World::new(seed, plan, false);
    let begun = world.now;
    world.run(160_000).unwrap_or_else(|violated| panic!("{}", story(seed, plan, &violated)));
    let truth = world.truth.borrow();
    // Made before the restart; a delay and a round before the end of the window.
    let in_time = |fact: &&Fact| {
        let (made, click) = (fact.made, fact.click.as_ref());
        let is_made = (begun + 48_000..begun + 66_000).contains(&made);
        is_made && click.is_some_and(|(at, _)| at + 2 * DELAY < made + truth.window)
    };
    let of: Vec<_> = truth.facts.values().filter(in_time).collect();
    let counted = of.iter().filter(|fact| fact.learned.is_some_and(|learned| learned.1)).count();
    assert!(of.len() > 10 && truth.resumed > 0, "seed {seed}: {} clicks, {} states", of.len(), truth.resumed);
    assert_eq!(counted, of.len(), "seed {seed}");
}

/// Two processes end while two begin: what is open moves to the new ones, at whatever moment they come, also to one that
/// has only just begun and whose clock was never set.
#[test]
fn a_rolling_restart_loses_no_click() {
    for seed in 0..variable("DPB_SEEDS").unwrap_or(16) {
        restarts_lose_no_click(seed, 2, 66_000 + 300 * (seed % 16));
    }
}

/// The only process ends up to four seconds before the next one begins.
#[test]
fn a_process_that_ends_alone_waits_for_the_next_one() {
    for seed in 0..8 {
        restarts_lose_no_click(seed, 1, 66_000 + 500 * seed);
    }
}

/// Processes with one given number end soon after each other, and their states go to several nodes: rewards of the first
/// come to one that does not know them. What may be lost so is cancelled, so invariant 2 does not hold.
#[test]
fn processes_with_one_number_learn_no_silence() {
    let leaves = |at| (at, Failure::Leave(0));
    let script = (0..12).map(|number| leaves(40_000 + 5000 * number)).collect::<Vec<_>>().leak();
    let plan = Plan { nodes: 3, disks: true, script, leaves: false, ..Plan::QUIET };
    for seed in 0..variable("DPB_SEEDS").unwrap_or(20) {
        let learned = World::new(seed, plan, false).run(180_000);
        learned.unwrap_or_else(|violated| panic!("seed {seed}: {violated}"));
    }
}

/// A node is cut off while the store's clock jumps, and a process that begins takes its number: nobody has seen it late for
/// an eighth of the window, and the rewards that wait there are lost.
const TAKEN: &[(u64, Failure)] =
    &[(20_000, Failure::Kill(1, 43_000)), (60_000, Failure::Cut(0, 90_000)), (61_000, Failure::Jump(40_000, false))];

/// What waits at a node that is cut off for so long comes after the end of the window.
const CUTS: &[(u64, Failure)] = &[(40_000, Failure::Cut(0, 29_000)), (100_000, Failure::Cut(1, 29_000))];

/// A failover goes back behind the first snapshots. Then two processes are killed, and others take their numbers.
const GOES_BACK: &[(u64, Failure)] =
    &[(9000, Failure::Failover(8500, 0)), (9300, Failure::Kill(0, 40_000)), (9300, Failure::Kill(1, 40_000))];

/// Failovers without a pause lose rewards for a node that stands still.
const LAGS: &[(u64, Failure)] = &[
    (40_000, Failure::Pause(1, 900)),
    (40_800, Failure::Failover(700, 0)),
    (80_000, Failure::Pause(2, 900)),
    (80_800, Failure::Failover(700, 0)),
    (120_000, Failure::Pause(3, 900)),
    (120_800, Failure::Failover(700, 0)),
];

/// A process leaves its state to another one. A failover then brings back the offer of that receiver, which accepts no
/// other state; and the next process ends.
const REOFFERS: &[(u64, Failure)] =
    &[(40_000, Failure::Leave(0)), (43_000, Failure::Failover(5000, 0)), (90_000, Failure::Leave(0))];

/// The first violation of this invariant at these seeds, which keep the invariants without the sabotage and the fault.
fn found(plan: Plan, fault: Option<Fault>, invariant: &str, seeds: Range<u64>) -> Option<(u64, String)> {
    let probe = fault.map(|fault| NoiseProbe::new().breaking(fault));
    let violated = |seed| lives(&mut World::new(seed, plan, false)).err().filter(|what| what.starts_with(invariant));
    let (seed, violated) = seeds.into_iter().find_map(|seed| Some((seed, violated(seed)?)))?;
    drop(probe);
    healed(seed, Plan { sabotage: Sabotage::None, ..plan });
    Some((seed, violated))
}

#[test]
fn each_sabotage_is_found() {
    let quiet = Plan { leaves: false, ..Plan::QUIET };
    let cases = [
        (Sabotage::Repeats, "1: ", Plan::ALL),
        (Sabotage::LosesSums, "2: ", Plan::QUIET),
        (Sabotage::LosesStates, "2: ", Plan::QUIET),
        (Sabotage::DropsLateRewards, "2: ", Plan { kills: true, ..quiet }),
        (Sabotage::CancelsForNothing, "2: ", Plan { pauses: true, ..Plan::QUIET }),
        (Sabotage::CancelsAll, "2: ", Plan { click_delay: 6000, kills: true, ..Plan::QUIET }),
        (Sabotage::CancelsNothing, "3: ", Plan::ALL),
        (Sabotage::CancelsLate, "3: ", Plan { click_delay: 4000, script: CUTS, ..quiet }),
        (Sabotage::AcceptsStatesTwice, "6: ", Plan::ALL),
        (Sabotage::ForgetsLeaders, "8: ", Plan::ALL),
        (Sabotage::TakesInSilence, "3: ", Plan { window: 320_000, click_delay: 20_000, script: TAKEN, ..quiet }),
        (Sabotage::IgnoresBeats, "3: ", Plan { script: LAGS, ..quiet }),
        (Sabotage::IgnoresSequences, "1: ", Plan { losses: true, ..quiet }),
        (Sabotage::IgnoresDue, "3: ", Plan { losses: true, pauses: true, repeats: 5, ..quiet }),
        (Sabotage::LearnsUnstored, "4: ", Plan { script: GOES_BACK, ..quiet }),
        (Sabotage::SettlesAtOnce, "5: ", Plan { script: GOES_BACK, ..quiet }),
    ];
    for (sabotage, invariant, plan) in cases {
        let found = found(Plan { sabotage, ..plan }, None, invariant, 0..20);
        println!("{sabotage:?}: {found:?}");
        assert!(found.is_some(), "{sabotage:?}");
    }
}

/// Faults of the node itself.
#[test]
fn each_fault_of_a_node_is_found() {
    let quiet = Plan { leaves: false, ..Plan::QUIET };
    let cases = [
        (Fault::CancelsTooLate, "3: ", Plan { click_delay: 4000, script: CUTS, ..quiet }),
        (Fault::LateIgnored, "3: ", Plan::ALL),
        (Fault::UnknownDropped, "3: ", Plan { disks: true, ..Plan::QUIET }),
        (Fault::SilenceBeforeRewards, "2: ", Plan::QUIET),
        (Fault::UsedOffered, "2: ", Plan { nodes: 2, script: REOFFERS, ..quiet }),
        (Fault::SettledUnshown, "5: ", Plan { script: GOES_BACK, ..quiet }),
        (Fault::ReplacedGoesOn, "8: ", Plan { window: 320_000, click_delay: 20_000, script: TAKEN, ..quiet }),
    ];
    for (fault, invariant, plan) in cases {
        let found = found(plan, Some(fault), invariant, 0..20);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?}");
    }
}

/// The story of a failure has the faults that it needs, and no others.
#[test]
fn a_story_has_no_needless_faults() {
    let plan = Plan { sabotage: Sabotage::CancelsNothing, nodes: 3, ..Plan::ALL };
    let (seed, violated) = found(plan, None, "3: ", 0..20).expect("a violation");
    let random = |plan: Plan| {
        let mut world = World::new(seed, plan, true);
        assert!(lives(&mut world).is_err_and(|other| other[..2] == violated[..2]));
        world.log.unwrap().iter().filter(|(_, fails, _)| *fails).count()
    };
    let less = reduced(seed, plan, &violated);
    assert!((1..=2).contains(&random(less)) && random(plan) > random(less), "{} and {}", random(less), random(plan));
    let told = story(seed, plan, &violated);
    assert!(told.contains(&format!("DPB_SEED={seed} DPB_WITHOUT={} cargo", less.without)), "{told}");
}

/// The store forgets a node that is cut off, so nobody can see it late; but clicks come to it until it is unready.
#[test]
fn a_node_that_the_store_forgets_loses_no_click() {
    let script = &[(60_000, Failure::Cut(0, 40_000)), (62_000, Failure::Empty)];
    for click_delay in [6000, 24_000] {
        let plan = Plan { script, click_delay, leaves: false, ..Plan::QUIET };
        healed(0, plan);
    }
}

/// A node stands still. Its last good round has no click that waited at another node then, because a command was lost. At
/// these seeds a click is lost if the node cancels from that round on, in place of a time whose rewards had all been sent.
#[test]
fn a_node_that_stood_still_loses_no_click() {
    let script = &[(40_000, Failure::Pause(0, 59_000)), (110_000, Failure::Pause(1, 59_000))];
    let plan = Plan { script, click_delay: 6000, losses: true, leaves: false, ..Plan::QUIET };
    for seed in [41, 82, 128, 175] {
        healed(seed, plan);
    }
}

/// Where two worlds that differ in rewards alone send different commands first: in their values, or in whether there are
/// any. Without a send rate ROUND has those that there are, so then only its time counts.
fn twins_differ(seed: u64, plan: Plan, reward: Option<f64>) -> Option<String> {
    let only_time = reward.is_none() && plan.send_rate == 0;
    let sent = |reward| {
        let mut world = World::new(seed, Plan { reward, ..plan }, false);
        world.sent = Some(Vec::new());
        world.run(120_000).unwrap();
        let mut sent = world.sent.unwrap();
        assert!(sent.len() > 1000);
        if only_time {
            sent.iter_mut().filter(|sent| sent.kind == CommandKind::Round).for_each(|round| round.lengths.clear());
        }
        sent
    };
    let (one, other) = (sent(Some(1.0)), sent(reward));
    let differs = one.iter().zip(&other).find(|pair| pair.0 != pair.1);
    let lengths = || (one.len() != other.len()).then(|| format!("{} and {} commands", one.len(), other.len()));
    differs.map(|pair| format!("{pair:?}")).or_else(lengths)
}

/// Invariant 7. Without a send rate, nodes that leave send the rewards that wait first, so whether there are any has an
/// effect there.
#[test]
fn twins_send_the_same() {
    send_the_same(0..2);
    let tells = Plan { sabotage: Sabotage::TellsRewards, ..Plan::ALL };
    assert!(twins_differ(0, tells, Some(0.0)).is_some_and(|differ| differ.contains("Round")));
    let paced = Plan { send_rate: SEND_RATE, ..Plan::ALL };
    for sabotage in [Sabotage::TellsRewards, Sabotage::SendsNoZeros] {
        let differ = twins_differ(0, Plan { sabotage, ..paced }, None);
        assert!(differ.is_some_and(|differ| differ.contains("Round")), "{sabotage:?}");
    }
    let puts = Plan { sabotage: Sabotage::PutsRewards, leaves: false, ..Plan::ALL };
    assert!(twins_differ(0, puts, None).is_some_and(|differ| differ.contains("Put")));
}

#[test]
#[ignore = "ten seconds"]
fn more_twins_send_the_same() {
    send_the_same(2..20);
}

fn send_the_same(seeds: Range<u64>) {
    for seed in seeds {
        let plan = Plan { nodes: 3, send_rate: 0, ..Plan::random(seed) };
        assert_eq!(twins_differ(seed, plan, Some(0.0)), None, "seed {seed}");
        assert_eq!(twins_differ(seed, Plan { leaves: false, ..plan }, None), None, "seed {seed}");
        let paced = Plan { send_rate: SEND_RATE, ..plan };
        for reward in [Some(0.0), None] {
            assert_eq!(twins_differ(seed, paced, reward), None, "seed {seed}");
        }
    }
}
