//! The figures about fleets on the pages, measured in worlds: run one with
//! `cargo test --release -p dpb-tests --test simulation -- --ignored --nocapture figures`.

use dpb_simulation::plan::{Failure, Plan};
use dpb_simulation::world::World;

/// Nothing fails by itself, and the store has a replica.
const CALM: Plan = Plan { leaves: false, script: &[(u64::MAX / 2, Failure::Empty)], ..Plan::QUIET };

/// What share of decisions teaches, where one of a hundred processes is killed every 14 minutes, the window is half an hour,
/// and the others cancel what was made since a minute before.
#[test]
#[ignore = "minutes"]
fn kills_cost_little() {
    const CYCLE: u64 = 14 * 60_000;
    let plan = Plan { nodes: 100, window: 1_800_000, click_delay: 60_000, pause: 40_000, ..CALM };
    let mut world = World::new(1, plan, false);
    world.run(60_000).unwrap();
    let began = world.now;
    for kill in 0..5 {
        world.run(CYCLE - 60_000).unwrap();
        world.fail(Failure::Kill(7 * kill + 3, 5000));
        world.run(60_000).unwrap();
    }
    // Of two whole cycles, after whose windows no kill matters any more.
    let truth = world.truth.borrow();
    let made = truth.facts.values().filter(|fact| (began..began + 2 * CYCLE).contains(&fact.made));
    let (lost, kept): (Vec<_>, Vec<_>) = made.partition(|fact| fact.lost.is_some());
    let share = 100.0 * kept.len() as f64 / (lost.len() + kept.len()) as f64;
    println!("{share:.1}% of {} decisions teach", lost.len() + kept.len());
    assert!(share > 85.0);
}

/// How long the others need to see that a process is killed.
#[test]
#[ignore = "seconds"]
fn a_killed_node_is_detected() {
    let (mut late, mut gone) = (Vec::new(), Vec::new());
    for seed in 0..50 {
        let mut world = World::new(seed, Plan { nodes: 10, ..CALM }, true);
        world.run(60_000).unwrap();
        let killed = world.now;
        world.fail(Failure::Kill(3, 100_000));
        world.run(60_000).unwrap();
        let log = world.log.unwrap();
        let first = |text: &str| {
            let told = |row: &&(u64, bool, String)| row.0 > killed && row.2.contains(text);
            log.iter().find(told).map(|row| (row.0 - killed) as f64 / 1000.0)
        };
        late.extend(first("do not arrive"));
        gone.extend(first("is gone"));
    }
    for (name, times) in [("late", late), ("gone", gone)] {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let least = times.iter().copied().fold(f64::MAX, f64::min);
        let most = times.iter().copied().fold(0.0, f64::max);
        println!("{name}: after {mean:.2} s, {least:.2} to {most:.2} s, in {} worlds", times.len());
        assert_eq!(times.len(), 50);
    }
}

/// What each failure costs a fleet of ten nodes, as a time of all its decisions.
#[test]
#[ignore = "a minute"]
fn failures_cost() {
    type Fails = fn(&World) -> Failure;
    let cases: [(&str, Fails); 9] = [
        ("a node is killed", |world| Failure::Kill((world.leader().unwrap() + 1) % 10, 40_000)),
        ("the leader is killed", |world| Failure::Kill(world.leader().unwrap(), 40_000)),
        ("a node ends", |world| Failure::Leave((world.leader().unwrap() + 1) % 10)),
        ("the leader ends", |world| Failure::Leave(world.leader().unwrap())),
        ("a node hangs for 20 s", |world| Failure::Pause((world.leader().unwrap() + 1) % 10, 20_000)),
        ("a node's network is cut for 60 s", |world| Failure::Cut((world.leader().unwrap() + 1) % 10, 60_000)),
        ("the store is away for 10 s", |_| Failure::Failover(0, 10_000)),
        ("a replica that lags by 5 s takes over", |_| Failure::Failover(5000, 0)),
        ("the store is empty", |_| Failure::Empty),
    ];
    for (name, fails) in cases {
        let costs = [6000, 24_000].map(|click_delay| {
            let (mut lost, mut made) = (0, 0);
            for seed in 0..20 {
                let mut world = World::new(seed, Plan { nodes: 10, click_delay, ..CALM }, false);
                world.run(60_000).unwrap();
                world.fail(fails(&world));
                world.run(140_000).unwrap();
                lost += world.lost();
                made += world.truth.borrow().facts.len();
            }
            lost as f64 / (made as f64 / 200.0)
        });
        println!("{name}: {:.1} s of all decisions with click_delay 6 s, {:.1} s with 24 s", costs[0], costs[1]);
    }
}
