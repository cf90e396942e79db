//! The figures about fleets on the pages, measured in worlds: run one with
//! `cargo test --release -p dpb-tests --test simulation -- --ignored --nocapture figures`.

use dpb_simulation::plan::{Failure, Plan};
use dpb_simulation::world::World;

/// Nothing fails by itself, and the store has a replica.
const CALM: Plan = Plan { leaves: false, script: &[(u64::MAX / 2, Failure::Empty)], ..Plan::QUIET };

/// What share of decisions teaches, where one of a hundred processes is killed every 14 minutes, and the window is half
/// an hour: by the time before a kill of which the others cancel what was made.
#[test]
#[ignore = "minutes"]
fn kills_cost_little() {
    const CYCLE: u64 = 14 * 60_000;
    const WINDOW: u64 = 1_800_000;
    let share = |click_delay: u64| {
        let plan = Plan { nodes: 100, window: WINDOW, click_delay, pause: 40_000, ..CALM };
        let mut world = World::new(1, plan, false);
        world.run(60_000).unwrap();
        let began = world.now;
        // Two cycles are measured; the kills after them have an effect on what was made up to `click_delay` before.
        for kill in 0..2 + click_delay.div_ceil(CYCLE) as usize {
            world.run(CYCLE - 60_000).unwrap();
            world.fail(Failure::Kill(7 * kill + 3, 5000));
            world.run(60_000).unwrap();
        }
        let truth = world.truth.borrow();
        let made = truth.facts.values().filter(|fact| (began..began + 2 * CYCLE).contains(&fact.made));
        let (lost, kept): (Vec<_>, Vec<_>) = made.partition(|fact| fact.lost.is_some());
        let share = kept.len() as f64 / (lost.len() + kept.len()) as f64;
        println!("click_delay {click_delay}: {:.1}% of {} decisions teach", 100.0 * share, lost.len() + kept.len());
        share
    };
    std::thread::scope(|scope| {
        let whole = scope.spawn(|| share(WINDOW));
        assert!(share(60_000) > 0.85 && share(10_000) > 0.9);
        assert!(whole.join().unwrap() < 0.05);
    });
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

/// What a node of a fleet of 1,000 sends and reads, and what that costs a real redis-server: with 100 ads and one noise,
/// by the node's own scripts. Each node decides in each round, and one click in twenty comes, to any node.
#[cfg(unix)]
#[test]
#[ignore = "a minute"]
fn a_large_fleet_costs_its_store_little() {
    use super::commands::Redis;
    use super::support::coins::Coins;
    use dpb::node::command::CommandKind;
    use dpb::node::{Bandits, Lane, Node, NodeOptions, Task};
    use dpb::{Algorithm, Config, FleetKey};
    use std::cmp::Reverse;
    use std::collections::{BTreeMap, BinaryHeap};

    const NODES: usize = 1000;
    const WARM: u64 = 36_000;
    const END: u64 = WARM + 20_000;
    const DELAY: u64 = 8000; // so that no lease ends on a busy machine
    let Some(mut redis) = Redis::start("large") else { return };
    let scripts = CommandKind::ALL.map(|kind| redis.load(kind.script().to_str().unwrap()));
    let key = FleetKey::from([7; 32]);
    let config = Config { reward_window: 8, fleet_key: Some(key), ..Config::new(100, 1.0) };
    let mut coins = Coins(1);
    let (mut nodes, mut events) = (Vec::new(), BinaryHeap::new());
    // The last one begins later: the others then read its number.
    for node in 0..=NODES {
        let bandits: Bandits = Bandits::new(Algorithm::RECOMMENDED, config.clone()).unwrap();
        let options = NodeOptions { delay: DELAY, ..bandits.options("ads").unwrap() };
        nodes.push(Node::new(options, bandits, 0).unwrap());
        let begins = if node == NODES { WARM + 1000 } else { coins.below(DELAY / 8) };
        events.extend([0, 1].map(|lane| Reverse((begins, node, lane))));
    }
    let spent = |redis: &mut Redis| {
        let text = String::from_utf8(redis.ask(&[b"INFO", b"commandstats"]).unwrap()).unwrap();
        let row = text.split("cmdstat_evalsha:").nth(1).and_then(|row| row.split("usec=").nth(1)).unwrap();
        row.split(',').next().unwrap().parse::<usize>().unwrap()
    };
    // By what a node does: how often, bytes that it sends and reads, microseconds of the server.
    let mut costs = BTreeMap::<(CommandKind, &str), [usize; 4]>::new();
    while let Some(Reverse((now, at, lane))) = events.pop().filter(|event| event.0.0 < END) {
        let node = &nodes[at];
        let next = match node.next(Lane::ALL[lane], now).unwrap() {
            Task::Wait(time) => now + time,
            Task::Log(_) => now,
            Task::Run { id, command, .. } => {
                let before = (now >= WARM).then(|| (spent(&mut redis), redis.bytes));
                let bytes = redis.run(&scripts[command.kind as usize], &command, None).unwrap();
                if let Some((time, [sent, read])) = before {
                    let one = [1, redis.bytes[0] - sent, redis.bytes[1] - read, spent(&mut redis) - time];
                    let who = match bytes.len() {
                        1000.. if command.kind == CommandKind::Round => "with all numbers",
                        _ if node.report(now).unwrap().leads => "of the leader",
                        _ => "",
                    };
                    let sums = costs.entry((command.kind, who)).or_default();
                    sums.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
                }
                node.reply(id, now + 1, &bytes).unwrap();
                let decides = command.kind == CommandKind::Round && now > WARM / 2;
                if let Some(bandit) = node.bandit().filter(|_| decides) {
                    let ad = bandit.select().unwrap();
                    if coins.one_in(20) {
                        nodes[coins.below(NODES as u64) as usize].update(ad.ticket, 1.0).unwrap();
                    }
                }
                now + 1
            }
            Task::Ended => panic!("{:?}", node.report(now)),
        };
        events.push(Reverse((next, at, lane)));
    }
    let reports: Vec<_> = nodes.iter().map(|node| node.report(END).unwrap()).collect();
    assert_eq!(reports.iter().filter(|report| report.leads).count(), 1);
    for report in reports {
        assert!(report.ready && report.nodes as usize == NODES + 1 && report.outages == 0, "{report:?}");
    }
    for ((kind, who), [count, sent, read, time]) in costs {
        let [sent, read, time] = [sent, read, time].map(|sum| sum as f64 / count as f64);
        println!("{count} {kind:?} {who}: sends {sent:.0} bytes, reads {read:.0}, {time:.0} us");
    }
}
