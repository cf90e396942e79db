//! Nodes with real bandits, on rows in memory.

use super::support::coins::Coins;
use dpb::node::command::CommandKind;
use dpb::node::{Bandits, Lane, Node, NodeOptions, NodeState, Task, store};
use dpb::{Algorithm, Bandit, Clock, Config, Error, FleetKey, Request};
use dpb_simulation::rows::Memory;
use std::cell::Cell;

const WINDOW: u32 = 20_000;

fn config() -> Config {
    let key = FleetKey::from([7; 32]);
    Config { reward_window: WINDOW, clock: Clock::Caller, fleet_key: Some(key), ..Config::new(3, 1.0) }
}

struct Fleet {
    now: u64,
    rows: Memory,
    nodes: Vec<Node<Bandits>>,
}

impl Fleet {
    /// Nodes with these numbers, when this time has passed.
    fn of(numbers: &[u16], config: &Config, time: u64) -> Fleet {
        let mut fleet = Fleet { now: 1000, rows: Memory::default(), nodes: Vec::new() };
        numbers.iter().for_each(|number| fleet.join_with(*number, None, config.clone()));
        fleet.run(time);
        fleet
    }

    fn join(&mut self, number: u16) {
        self.join_with(number, None, config());
    }

    fn join_with(&mut self, number: u16, snapshot: Option<Vec<u8>>, config: Config) {
        let bandits = Bandits::new(Algorithm::RECOMMENDED, config).unwrap();
        let options = NodeOptions { number, snapshot, ..bandits.options("ads").unwrap() };
        self.nodes.push(Node::new(options, bandits, self.now).unwrap());
    }

    /// Lets 25 ms pass.
    fn step(&mut self) {
        self.step_without(|_, _| false);
    }

    /// The same, and commands of these nodes and kinds fail.
    fn step_without(&mut self, fails: impl Fn(usize, CommandKind) -> bool) {
        self.now += 25;
        for (at, node) in self.nodes.iter().enumerate() {
            for lane in Lane::ALL {
                while let Task::Run { id, command, .. } = node.next(lane, self.now).unwrap() {
                    if fails(at, command.kind) {
                        node.failed(id, self.now, "it fails").unwrap();
                        continue;
                    }
                    let bytes = store::run(&mut self.rows, &command, 1_700_000_000_000 + self.now).unwrap();
                    node.reply(id, self.now, &bytes).unwrap();
                }
            }
            if let Some(bandit) = node.bandit() {
                _ = bandit.advance(self.now); // refused once its state has moved
            }
        }
    }

    fn run(&mut self, time: u64) {
        (0..time / 25).for_each(|_| self.step());
    }
}

/// Clicks come to any node. One node leads and releases for all; one that leaves loses nothing.
#[test]
fn real_bandits_learn_as_one_and_move() {
    let mut fleet = Fleet::of(&[0; 3], &config(), 20_000);
    let mut coins = Coins(5);
    let mut decide = |fleet: &mut Fleet, among: usize, count: u64| {
        for _ in 0..count {
            let by = coins.below(among as u64) as usize;
            let ad = fleet.nodes[by].bandit().unwrap().select().unwrap();
            if coins.one_in(3) {
                let at = coins.below(among as u64) as usize;
                fleet.nodes[at].update(ad.ticket, 1.0).unwrap();
            }
            fleet.step();
        }
    };
    decide(&mut fleet, 3, 1500);
    let reports: Vec<_> = fleet.nodes.iter().map(|node| node.report(fleet.now).unwrap()).collect();
    assert!(reports.iter().all(|report| report.state == NodeState::Serving && report.ready && report.nodes == 3));
    assert!(reports.iter().all(|report| report.leader == reports[0].leader && report.leader.1 != 0), "{reports:?}");
    let reads = reports.iter().map(|report| (report.leads, report.released)).collect::<Vec<_>>();
    assert!(reads.iter().all(|(leads, released)| *released == u32::from(!leads)), "the leader's alone: {reads:?}");
    let leader =
        fleet.nodes.iter().position(|node| node.report(fleet.now).unwrap().member.number == reports[0].leader.0);
    let of = |fleet: &Fleet, node: usize| fleet.nodes[node].bandit().unwrap().report().unwrap();
    assert!(of(&fleet, leader.unwrap()).phase > 5 && of(&fleet, (leader.unwrap() + 1) % 3).phase == 0);

    // A node that does not lead leaves, while its decisions are open; the others go on.
    let leaves = (leader.unwrap() + 1) % 3;
    let ended = fleet.nodes.remove(leaves);
    let before = ended.bandit().unwrap().report().unwrap().counts;
    assert!(before.pending() > 100);
    ended.leave(fleet.now).unwrap();
    fleet.nodes.push(ended);
    fleet.run(10_000);
    assert_eq!(fleet.nodes[2].report(fleet.now).unwrap().state, NodeState::Left);
    assert_eq!((0..2).map(|node| fleet.nodes[node].report(fleet.now).unwrap().draining).sum::<u32>(), 1);
    decide(&mut fleet, 2, 1500);
    fleet.run(40_000);
    let left = (0..2).map(|node| fleet.nodes[node].report(fleet.now).unwrap().draining).sum::<u32>();
    assert_eq!(left, 0, "the draining bandit ends with its last decision");
    let of = |node: usize| fleet.nodes[node].bandit().unwrap().report().unwrap();
    assert!((0..2).all(|node| of(node).contributions_lost == 0 && of(node).counts.cancelled == 0));
    fleet.join(0);
    fleet.run(10_000);
    let last = fleet.nodes[3].report(fleet.now).unwrap();
    assert_eq!((last.state, last.member.incarnation > 1), (NodeState::Serving, true), "the number is free again");
}

/// Nodes find one clip: the leader's, from the rewards of all. A node that joins later counts the same.
#[test]
fn real_bandits_find_one_clip() {
    let learns = Config { reward_max: 10_000.0, reward_bits: 24, learn_clip: true, ..config() };
    let mut fleet = Fleet::of(&[0; 3], &learns, 20_000);
    let mut coins = Coins(5);
    let clip = |node: &Node<Bandits>| node.bandit().unwrap().report().unwrap().clip;
    let mut decisions = 0;
    while fleet.nodes.iter().any(|node| clip(node).is_none()) {
        let by = coins.below(3) as usize;
        let ad = fleet.nodes[by].bandit().unwrap().select().unwrap();
        if coins.one_in(3) {
            let at = coins.below(3) as usize;
            fleet.nodes[at].update(ad.ticket, 5.0 + 10.0 * coins.toss(0.5)).unwrap();
        }
        fleet.step();
        decisions += 1;
        assert!(decisions < 10_000);
    }
    println!("a clip after {decisions} decisions");
    let reports: Vec<_> = fleet.nodes.iter().map(|node| node.bandit().unwrap().report().unwrap()).collect();
    assert!(reports.iter().all(|report| report.clip == reports[0].clip), "{reports:?}");
    assert!((15.0..120.0).contains(&reports[0].clip.unwrap()), "{:?}", reports[0].clip);
    let releasing = reports.iter().filter(|report| report.phase > 0).count();
    assert_eq!(releasing, 1, "only the leader releases");
    fleet.join_with(0, None, learns);
    fleet.run(20_000);
    assert_eq!(clip(&fleet.nodes[3]), reports[0].clip);
}

/// A node whose state could not move in time says so at the start, and takes no given number.
#[test]
fn a_state_that_is_too_large_is_refused_at_the_start() {
    let fleet = Fleet::of(&[7], &Config { pending_capacity: 1 << 23, ..config() }, 1000);
    let report = fleet.nodes[0].report(fleet.now).unwrap();
    assert_eq!((report.state, report.member.incarnation), (NodeState::Failed, 0));
    assert!(report.last_error.contains("too large to move: lower pending_capacity"), "{}", report.last_error);
}

/// A process with a given number waits while another one has it, and continues from its snapshot.
#[test]
fn a_given_number_has_one_process() {
    let mut fleet = Fleet::of(&[7], &config(), 10_000);
    fleet.join(7);
    fleet.run(20_000);
    let state = |fleet: &Fleet, node: usize| fleet.nodes[node].report(fleet.now).unwrap().state;
    assert_eq!((state(&fleet, 0), state(&fleet, 1)), (NodeState::Serving, NodeState::Taking));
    fleet.nodes.remove(0); // killed
    fleet.run(35_000);
    assert_eq!(state(&fleet, 0), NodeState::Serving);
    assert_eq!(fleet.nodes[0].report(fleet.now).unwrap().member.incarnation, 2);
    // A foreign snapshot is refused, and its number left alone.
    let snapshot = fleet.rows.0.get_mut(&b"dpb:{ads}:snapshots\x007"[..]).unwrap();
    *snapshot = b"foreign".to_vec();
    fleet.nodes.clear();
    fleet.run(35_000);
    let before = fleet.rows.clone();
    fleet.join(7);
    fleet.run(5000);
    assert_eq!(state(&fleet, 0), NodeState::Failed);
    assert!(fleet.rows.0 == before.0);
}

/// Of the snapshots in a file and in the store, a process continues from the one that counts more.
#[test]
fn a_file_and_the_store_have_a_snapshot() {
    let mut fleet = Fleet::of(&[7], &config(), 5000);
    // Ends the process, and begins one with the file. Returns how many decisions its bandit continues with.
    let restarted = |fleet: &mut Fleet, file: Option<&Vec<u8>>| {
        fleet.nodes.clear();
        fleet.run(35_000);
        fleet.join_with(7, file.cloned(), config());
        fleet.run(5000);
        fleet.nodes[0].bandit().map(|bandit| bandit.report().unwrap().counts.decisions)
    };
    let decide = |fleet: &Fleet| {
        let bandit = fleet.nodes[0].bandit().unwrap();
        (0..10).for_each(|_| _ = bandit.select().unwrap());
        bandit.snapshot().unwrap()
    };
    let old = decide(&fleet);
    fleet.run(70_000); // the node puts the ten decisions
    let new = decide(&fleet);
    let stored = fleet.rows.clone();
    assert_eq!(restarted(&mut fleet, Some(&old)), Some(10));
    assert_eq!(restarted(&mut fleet, Some(&new)), Some(20));
    assert_eq!(restarted(&mut fleet, None), Some(20), "the store has it");
    fleet.rows = stored;
    assert_eq!(restarted(&mut fleet, None), Some(10));
    fleet.rows = Memory::default();
    assert_eq!(restarted(&mut fleet, Some(&new)), Some(20));

    // A file of another handle, of another number, and of none.
    let failed = |fleet: &mut Fleet, file: Option<&Vec<u8>>| {
        let before = fleet.rows.clone();
        assert_eq!(restarted(fleet, file), None);
        let report = fleet.nodes[0].report(fleet.now).unwrap();
        assert!(report.state == NodeState::Failed && fleet.rows.0 == before.0);
        report.last_error
    };
    let other = |node| Bandit::new(Algorithm::RECOMMENDED, &Config { node, ..config() }).unwrap().snapshot().unwrap();
    assert!(failed(&mut fleet, Some(&other(7))).contains("snapshot must be of the handle"));
    assert!(failed(&mut fleet, Some(&other(8))).contains("snapshot must be of node 7, got one of node 8"));
    assert!(failed(&mut fleet, Some(&b"foreign".to_vec())).contains("number 7"));
    let options = NodeOptions { snapshot: Some(new), ..NodeOptions::new("ads", 0) };
    let made = Node::new(options, Bandits::<Bandit>::new(Algorithm::RECOMMENDED, config()).unwrap(), 0);
    assert!(matches!(made.err(), Some(Error::InvalidConfig { field: "node", .. })));
}

/// A node decides when its first snapshot is in the store, and learns from people when that has settled: in the first
/// period, in the next one, after a restart, and after the store went back.
#[test]
fn a_node_learns_once_a_snapshot_has_settled() {
    let config = Config { expected_users: 1000, ..Config::new(3, 1.0) };
    let mut fleet = Fleet::of(&[7], &config, 0);
    assert_eq!(fleet.nodes[0].next_period(), Err(Error::NotReady));
    // Whether the releases of the bandit follow from 600 decisions for as many people.
    let learns = |fleet: &Fleet| {
        let (node, bandit) = (&fleet.nodes[0], fleet.nodes[0].bandit().unwrap());
        let before = bandit.report().unwrap().phase;
        for user in 1..=600 {
            let ad = bandit.select_for(&Request { user, ..Request::default() }).unwrap();
            node.update(ad.ticket, 1.0).unwrap();
        }
        let learns = bandit.report().unwrap().phase > before;
        assert_eq!(node.report(fleet.now).unwrap().learns, learns);
        learns
    };
    // It has begun to wait within the last second.
    let waits = |fleet: &mut Fleet| {
        assert!(!learns(fleet));
        fleet.run(14_000);
        assert!(!learns(fleet));
        fleet.run(4000);
        assert!(learns(fleet));
    };
    let join = |fleet: &mut Fleet| {
        while fleet.nodes[0].bandit().is_none() {
            fleet.step();
        }
    };
    join(&mut fleet);
    waits(&mut fleet);
    let before = fleet.rows.clone();
    fleet.nodes[0].next_period().unwrap();
    assert!(!learns(&fleet));
    fleet.run(10_000);
    fleet.rows = before.clone(); // the store goes back behind the period
    fleet.run(1000);
    waits(&mut fleet);

    // A process that is killed before the snapshot has settled; and one that is killed before it is put.
    for put in [1000, 0] {
        fleet.nodes[0].next_period().unwrap();
        fleet.run(put);
        assert!(!learns(&fleet));
        fleet.nodes.clear();
        fleet.run(35_000);
        fleet.join_with(7, None, config.clone());
        join(&mut fleet);
        waits(&mut fleet);
    }
}

/// Nodes that cannot merge each other's releases ignore each other, and go on.
#[test]
fn nodes_of_another_configuration_are_incompatible() {
    let alone = Config { fleet_key: None, ..config() };
    let mut fleet = Fleet::of(&[1, 2], &alone, 0);
    fleet.join_with(3, None, Config { reward_max: 2.0, ..alone });
    fleet.run(20_000);
    let reports: Vec<_> = fleet.nodes.iter().map(|node| node.report(fleet.now).unwrap()).collect();
    let read = reports.iter().map(|report| (report.ready, report.released, report.incompatible)).collect::<Vec<_>>();
    assert_eq!(read, [(true, 2, 1), (true, 2, 1), (true, 2, 2)]);
}

/// A process whose second TAKE fails for long has no rounds yet, so it misses none.
#[test]
fn a_node_without_a_number_has_no_outage() {
    let mut fleet = Fleet::of(&[7], &config(), 0);
    let takes = Cell::new(0);
    for _ in 0..400 {
        // The first one reads the snapshot of the number.
        fleet.step_without(|_, kind| kind == CommandKind::Take && takes.replace(takes.get() + 1) > 0);
    }
    fleet.run(5000);
    let report = fleet.nodes[0].report(fleet.now).unwrap();
    assert_eq!((report.state, report.outages), (NodeState::Serving, 0));
}

/// A process ends while decisions of the last one with its number are open in it. When it has left those to another node,
/// it finds no receiver for its own ones at once. Its number remains its own meanwhile.
#[test]
fn a_node_that_leaves_two_states_keeps_its_number() {
    let mut fleet = Fleet::of(&[2], &config(), 10_000);
    for draining in [false, true] {
        fleet.nodes.truncate(1);
        fleet.join(1);
        fleet.run(15_000);
        let bandit = fleet.nodes[1].bandit().unwrap();
        (0..100).for_each(|_| _ = bandit.select().unwrap());
        fleet.nodes[1].leave(fleet.now).unwrap();
        let hosts = Cell::new(0);
        let fails = |at, kind| {
            let asks = at == 1 && kind == CommandKind::Host;
            hosts.set(hosts.get() + u32::from(asks));
            asks && (2..5).contains(&hosts.get())
        };
        for _ in 0..200 {
            fleet.step_without(fails);
        }
        let ends = fleet.nodes[1].report(fleet.now).unwrap();
        assert_eq!((ends.state, hosts.get()), (NodeState::Left, if draining { 5 } else { 1 }), "{ends:?}");
    }
}
