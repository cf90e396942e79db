//! A fleet with one noise: nodes that share a key contribute to the one that leads.

use super::*;
use std::os::unix::fs::PermissionsExt;

/// A file with this text that no other user can read. Its path.
fn key_file(name: &str, text: &[u8]) -> String {
    let path = place(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn start(program: &Program, redis: &Redis, number: u16, key: &str) -> Node {
    Node::start(program, redis, number, OFTEN, &["--fleet-key-file", key])
}

/// The leases of all keys: for each, the node that leads and its generation.
fn leases(redis: &Redis) -> Vec<String> {
    let names = redis.ask(&[b"KEYS", format!("{KEY}:leader:*").as_bytes()]);
    let script = b"return redis.call('GET', KEYS[1]) or ''";
    let leases =
        names.iter().map(|name| String::from_utf8(redis.ask(&[b"EVAL", script, b"1", name]).remove(0)).unwrap());
    leases.filter(|lease| !lease.is_empty()).collect()
}

/// The lease of a fleet with one key; empty if no node leads.
fn lease(redis: &Redis) -> String {
    let mut leases = leases(redis);
    assert!(leases.len() <= 1, "{leases:?}");
    leases.pop().unwrap_or_default()
}

fn leader(redis: &Redis) -> Option<u16> {
    lease(redis).split(' ').next()?.parse().ok()
}

/// The nodes that have released something themselves.
fn releasing(redis: &Redis) -> Vec<String> {
    let fields = redis.fields().into_iter();
    fields
        .filter(|(_, (_, bandit))| released([bandit].into_iter()).iter().sum::<f64>() > 0.0)
        .map(|(node, _)| node)
        .collect()
}

/// Returns whether all nodes know all releases, which have no more than this many rewards.
fn agree_on(redis: &Redis, nodes: &[&Node], given: usize) -> bool {
    let released = released(redis.fields().values().map(|(_, bandit)| bandit));
    assert!(released.iter().sum::<f64>() <= given as f64, "{released:?} of {given}");
    all_know(nodes, &released)
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn one_node_releases_what_four_collect() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let key = key_file("one", &[7; 32]);
    let first = start(program, &redis, 1, &key);
    let others: Vec<_> = (2..=4).map(|number| start(program, &redis, number, &key)).collect();
    let nodes: Vec<_> = std::iter::once(&first).chain(&others).collect();
    let each = WINDOW + 2000;
    play(&nodes, each);
    let mut given = 4 * (each - WINDOW);
    eventually("all know the same", || agree_on(&redis, &nodes, given));
    // More than the leader has collected. (An open batch may have three times as many rewards as were released.)
    eventually("what others have collected is released", || {
        play(&nodes, 200);
        given += 4 * 200;
        nodes[0].known().iter().sum::<f64>() > given as f64 / 4.0 + 500.0
    });
    assert_eq!((leader(&redis), releasing(&redis)), (Some(1), vec!["1".to_owned()]));
    for (i, node) in nodes.iter().enumerate() {
        assert_eq!(node.metric("leads"), f64::from(u8::from(i == 0)));
        assert_eq!(node.metric("contributions_total") > 0.0, i > 0);
        assert_eq!(node.metric("contributions_lost_total") + node.metric("errors_total"), 0.0);
    }

    // The leader ends, and its lease with it. What was released before is not released again.
    let (known, before) = (nodes[1].known().iter().sum::<f64>(), lease(&redis));
    let nodes: Vec<_> = others.iter().collect();
    assert_eq!(first.server.interrupt().0.code(), Some(0));
    assert_ne!(lease(&redis), before);
    eventually("another one leads", || leader(&redis).is_some());
    play(&nodes, 2000);
    eventually("all know the same", || agree_on(&redis, &nodes, given + 3 * 2000));
    eventually("they learn again", || {
        play(&nodes, 200);
        nodes[0].known().iter().sum::<f64>() > known + 2000.0
    });
    assert_eq!(releasing(&redis).len(), 2);
}

/// A leader that ends contributes what it has collected to its heir.
fn a_leader_hands_over(programs: [&LazyLock<Option<Program>>; 2]) {
    let [Some(first), Some(second)] = programs.map(|program| program.as_ref()) else { return };
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let key = key_file("heir", &[7; 32]);
    let (one, two) = (start(first, &redis, 1, &key), start(second, &redis, 2, &key));
    let combined = || {
        let (_, _, page) = send(&two.operator, "GET", "/metrics", "");
        let line = page.lines().find_map(|line| line.strip_prefix("dpb_contributions_total{bandit=\"ads\"} "));
        line.expect("the metric").parse::<f64>().unwrap()
    };
    eventually("the first leads", || one.metric("leads") == 1.0 && two.metric("leads") == 0.0);
    play(&[&one], WINDOW + 53);
    assert_eq!(combined(), 0.0);
    assert_eq!(one.server.interrupt().0.code(), Some(0));
    eventually("the heir has it", || two.metric("leads") == 1.0 && combined() >= 1.0);
}

#[test]
fn a_go_leader_hands_over() {
    a_leader_hands_over([&GO, &GO]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn cpp_and_go_leaders_hand_over() {
    a_leader_hands_over([&CPP, &GO]);
    a_leader_hands_over([&GO, &CPP]);
}

/// A server that ends leaves its open decisions to another one, and that one to a third. Clicks for them count once,
/// wherever they arrive and whoever keeps the decisions, and are learned.
fn another_server_continues(programs: [&LazyLock<Option<Program>>; 3]) {
    let [Some(first), Some(second), Some(third)] = programs.map(|program| program.as_ref()) else { return };
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let key = key_file("wards", &[7; 32]);
    // No outage, and no timeout of a move, on a busy machine.
    let options = ["--fleet-key-file", &key, "--delay", "10000", "--merge-every", "2000"];
    let start = |program, number| Node::start(program, &redis, number, OFTEN, &options);
    let (one, two) = (start(first, 1), start(second, 2));
    eventually("the first leads", || one.metric("leads") == 1.0 && one.metric("nodes") == 1.0);
    let tickets: Vec<_> = (0..WINDOW).map(|_| two.decide()).collect();
    let click =
        |node: &Node, clicks: std::ops::Range<usize>| tickets[clicks].iter().for_each(|ticket| node.click(ticket));
    // After a timeout on a busy machine, a server sends clicks again. They are refused.
    click(&one, 0..100);
    eventually("they count", || two.forwarded()[0] == 100.0);
    assert_eq!(two.server.interrupt().0.code(), Some(0));
    eventually("the first continues", || one.metric("wards") == 1.0);
    click(&one, 0..300);
    eventually("each counts once", || one.forwarded()[1] >= 100.0 && one.forwarded().iter().sum::<f64>() >= 300.0);
    assert_eq!(one.forwarded()[0], 200.0);
    let three = start(third, 3);
    eventually("they have met", || one.metric("nodes") == 1.0 && three.metric("nodes") == 1.0);
    click(&one, 300..400);
    assert_eq!(one.server.interrupt().0.code(), Some(0));
    eventually("the third continues", || three.metric("wards") == 1.0 && three.metric("leads") == 1.0);
    click(&three, 0..500);
    eventually("they are read", || three.forwarded()[1] >= 400.0 && three.forwarded().iter().sum::<f64>() >= 500.0);
    let received = three.forwarded()[0]; // up to a hundred had counted at the first one
    assert!((100.0..=200.0).contains(&received), "{received}");
    play(&[&three], WINDOW + 100);
    eventually("nothing is open any more", || three.metric("wards") == 0.0);
    let known = || three.known().iter().sum::<f64>();
    eventually("they are learned", || known() > 250.0); // a third of what is collected is released
    assert!(known() <= (WINDOW + 100) as f64, "{}", known());
}

#[test]
fn another_go_server_continues() {
    another_server_continues([&GO, &GO, &GO]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn another_cpp_server_continues() {
    another_server_continues([&CPP, &CPP, &CPP]);
    another_server_continues([&GO, &CPP, &GO]);
    another_server_continues([&CPP, &GO, &CPP]);
}

/// One of the two leads for placements, and each learns what came to the other.
#[test]
#[ignore = "compiles the C++ ad server"]
fn go_and_cpp_nodes_have_one_noise() {
    let key = key_file("both", b"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    nodes_share_placements([&GO, &CPP], &["--fleet-key-file", &key]);
}

/// While Redis is away nothing is taken out, so nothing is lost. While it hangs, a contribution may be.
#[test]
#[ignore = "compiles the C++ ad server"]
fn what_is_collected_without_redis_is_released_later() {
    let Some((mut redis, program)) = Redis::start(&[]) else { return };
    let key = key_file("away", &[7; 32]);
    let (one, two) = (start(program, &redis, 1, &key), start(program, &redis, 2, &key));
    play(&[&two], WINDOW);
    redis.kill();
    let errors = two.metric("errors_total");
    play(&[&two], 3000);
    eventually("it has tried", || two.metric("errors_total") >= errors + 3.0);
    redis.begin();
    // If the second node leads now, it releases a batch that is full at the next reward of that arm.
    let mut given = 3000;
    eventually("it is released", || {
        play(&[&two], 5);
        given += 5;
        one.known().iter().sum::<f64>() > 2000.0
    });
    assert!(given < 5000, "{given}");
    eventually("both know the same", || agree_on(&redis, &[&one, &two], given));
    assert_eq!(releasing(&redis).len(), 1);
    assert_eq!(one.metric("contributions_lost_total") + two.metric("contributions_lost_total"), 0.0);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn clicks_travel_sealed() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let waiting = |node: u16| redis.ask(&[b"XRANGE", &stream(node), b"-", b"+"]).concat();
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    // A stopped node leaves its clicks in Redis.
    let forwards = |from: &Node, to: &Node, number| {
        eventually("they have met", || from.metric("nodes") >= 1.0);
        let ticket = to.decide();
        to.server.signal(libc::SIGSTOP);
        from.click(&ticket);
        let mut there = Vec::new();
        eventually("it is there", || {
            there = waiting(number);
            !there.is_empty()
        });
        let texts = redis.ask(&[b"XRANGE", &stream(number), b"-", b"+"]);
        assert!(texts[1] != b"sealed" || texts[2].len() == 53 + 16, "the length tells the ticket or the reward");
        to.server.signal(libc::SIGCONT);
        let decimal = u64::from_str_radix(&ticket, 16).unwrap().to_string();
        let shown = has(&there, &decimal) || has(&there, &ticket) || has(&there, "reward");
        (ticket, decimal, shown, has(&there, "sealed"))
    };
    let plain = |number| Node::start(program, &redis, number, OFTEN, &["--bandit", "ads"]);
    let (one, two) = (plain(1), plain(2));
    let (.., shown, sealed) = forwards(&one, &two, 2);
    assert!(shown && !sealed, "this is how a click looks without a key");
    eventually("it counts", || two.forwarded() == [1.0, 0.0]);
    drop((one, two));

    // One key, in the two forms of a file.
    let one = start(program, &redis, 1, &key_file("bytes", &[0xab; 32]));
    let log = redis.place.join("log");
    let digits = key_file("digits", format!("{}\r\n", "aB".repeat(32)).as_bytes()); // as on Windows
    let (file, at) = (fs::File::create(&log).unwrap(), redis.socket());
    let more = ["--fleet-key-file", &digits];
    let two = Node::start_as(&World::default(), program, at.to_str().unwrap(), 2, OFTEN, &more, file.into());
    let (_, _, shown, sealed) = forwards(&one, &two, 2);
    assert!(!shown && sealed);
    eventually("it counts", || two.forwarded() == [1.0, 0.0]);

    // Rewards that are not sealed are ignored.
    let ticket = u64::from_str_radix(&two.decide(), 16).unwrap().to_string();
    for _ in 0..2 {
        redis.ask(&[b"XADD", &stream(2), b"*", b"ticket", ticket.as_bytes(), b"reward", b"1"]);
        redis.ask(&[b"XADD", &stream(2), b"*", b"sealed", b"nonsense"]);
    }
    eventually("they are refused", || two.forwarded() == [1.0, 4.0]);
    let logged = fs::read_to_string(&log).unwrap();
    assert_eq!(logged.matches("are ignored").count(), 1, "{logged}");
}

#[test]
fn go_clicks_travel_at_a_fixed_rate() {
    clicks_travel_at_a_fixed_rate([&GO, &GO]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn cpp_clicks_travel_at_a_fixed_rate() {
    clicks_travel_at_a_fixed_rate([&CPP, &CPP]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn go_and_cpp_clicks_travel_at_a_fixed_rate() {
    clicks_travel_at_a_fixed_rate([&GO, &CPP]);
}

/// With a send rate, sealed messages of one length go to the other server, whether there are clicks or not. All clicks
/// that have space in a message count, at the server that decided, and the others are lost.
fn clicks_travel_at_a_fixed_rate(programs: [&LazyLock<Option<Program>>; 2]) {
    const CLICKS: usize = 30;
    const LENGTH: usize = 53 + 32 * 16; // 128 a second, in eight messages in two seconds
    let [Some(first), Some(second)] = programs.map(|program| program.as_ref()) else { return };
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let key = key_file("rate", &[7; 32]);
    let options = ["--fleet-key-file", &key, "--send-rate", "128", "--delay", "2000"];
    let start = |program, number| Node::start(program, &redis, number, OFTEN, &options);
    let nodes = [start(first, 1), start(second, 2)];
    eventually("they have met", || nodes.iter().all(|node| node.metric("nodes") == 1.0));
    // The lengths of the sealed messages that wait for a node, and the number of others, except its own heartbeats.
    let waiting = |node: usize| {
        let texts = redis.ask(&[b"XRANGE", &stream(node as u16 + 1), b"-", b"+"]);
        let messages = texts.chunks(3).filter(|message| message[1] != b"heartbeat");
        let (sealed, others): (Vec<_>, Vec<_>) = messages.partition(|message| message[1] == b"sealed");
        (sealed.into_iter().map(|message| message[2].len()).collect::<Vec<_>>(), others.len())
    };
    for (from, to) in [(0, 1), (1, 0)] {
        let tickets: Vec<_> = (0..CLICKS).map(|_| nodes[to].decide()).collect();
        // A stopped node leaves its messages in Redis. They come after its first heartbeat.
        eventually("messages come without clicks", || {
            let come = || (std::thread::sleep(Duration::from_secs(1)), waiting(to).0.len() >= 3).1;
            nodes[to].server.signal(libc::SIGSTOP);
            let has_come = come();
            if !has_come {
                nodes[to].server.signal(libc::SIGCONT);
                come();
            }
            has_come
        });
        tickets.iter().for_each(|ticket| nodes[from].click(ticket));
        eventually("all are sent", || nodes[from].metric("rewards_sent_total") == CLICKS as f64);
        let (sealed, others) = waiting(to);
        assert!(sealed.iter().all(|&length| length == LENGTH) && others == 0, "{sealed:?}, {others} others");
        assert!(sealed.len() > 3, "{}", sealed.len());
        eventually("messages come after the clicks", || waiting(to).0.len() >= sealed.len() + 3);
        nodes[to].server.signal(libc::SIGCONT);
        eventually("all count", || nodes[to].forwarded()[0] == CLICKS as f64);
        assert_eq!(nodes[from].metric("rewards_waiting"), 0.0);
    }
    for node in nodes {
        assert_eq!(node.metric("rewards_unsent_total"), 0.0);
        assert_eq!(node.server.interrupt().0.code(), Some(0));
    }
}

/// Each key has a leader, and all learn from what both release. What is sealed with another key is refused.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_node_with_another_key_harms_nobody() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let (key, other) = (key_file("key", &[7; 32]), key_file("other", &[8; 32]));
    let log = redis.place.join("log");
    let (file, at) = (fs::File::create(&log).unwrap(), redis.socket());
    let more = ["--fleet-key-file", key.as_str()];
    let one = Node::start_as(&World::default(), program, at.to_str().unwrap(), 1, OFTEN, &more, file.into());
    let two = start(program, &redis, 2, &key);
    let odd = start(program, &redis, 3, &other);
    eventually("they have met", || [&one, &two, &odd].iter().all(|node| node.metric("nodes") == 2.0));
    let mut given = WINDOW + 2000;
    play(&[&one, &two, &odd], given);
    eventually("all know the same", || agree_on(&redis, &[&one, &two, &odd], 3 * (given - WINDOW)));
    eventually("what two of three have collected is released", || {
        play(&[&one, &two, &odd], 50);
        given += 50;
        one.known().iter().sum::<f64>() > 2.2 * (given - WINDOW) as f64
    });
    assert_eq!(releasing(&redis), ["1", "3"]);
    assert_eq!([&one, &two, &odd].map(|node| node.metric("leads")), [1.0, 0.0, 1.0]);
    let ticket = one.decide();
    odd.click(&ticket);
    eventually("its click is refused", || one.forwarded() == [0.0, 1.0]);
    two.click(&ticket);
    eventually("another one is not", || one.forwarded() == [1.0, 1.0]);
    let logged = || fs::read_to_string(&log).unwrap();
    assert!(logged().matches("is lost").count() == 0 && logged().matches("are ignored").count() == 1, "{}", logged());
    let generation = leases(&redis).into_iter().find_map(|lease| Some(lease.strip_prefix("1 ")?.to_owned())).unwrap();
    let stream = format!("{KEY}:contributions:{generation}");
    for _ in 0..3 {
        redis.ask(&[b"XADD", stream.as_bytes(), b"*", b"contribution", b"nonsense"]);
    }
    eventually("a forged contribution is refused, once in the log", || logged().matches("is lost").count() == 1);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn cpp_nodes_with_a_key_share_placements() {
    nodes_share_placements([&CPP, &CPP], &["--fleet-key-file", &key_file("placements", &[7; 32])]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn a_file_that_is_no_secret_key_is_refused() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let at = redis.socket();
    let refused = |key: &str, more: &[&str]| {
        let options = ["--redis", at.to_str().unwrap(), "--node", "7", "--fleet-key-file", key];
        let (code, error) = program.refuses(&[&options, more].concat());
        assert_eq!(code, Some(1), "{error}");
        error
    };
    for (i, text) in [&[7u8; 31] as &[u8], &[7; 33], &[b'a'; 63], &[b'a'; 66], &[b'g'; 64], b""].into_iter().enumerate()
    {
        let key = key_file(&format!("wrong{i}"), text);
        assert!(refused(&key, &[]).contains("not a fleet key"), "{text:?}");
    }
    assert!(refused("/nowhere/at/all", &[]).contains("cannot be read"));
    let key = key_file("open", &[7; 32]);
    for mode in [0o640, 0o604] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        assert!(refused(&key, &[]).contains("other users can read it"), "{mode:o}");
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
    let error = refused(&key, &["--policy", "dp-se", "--memory", "0"]);
    assert!(error.contains("does not support merging"), "{error}");
    let (code, error) = program.refuses(&["--fleet-key-file", &key]);
    assert!(code == Some(2) && error.contains("--fleet-key-file"), "only with --redis: {error}");
}

/// What visitors were given, and what is released of it.
#[derive(Default)]
struct Ledger {
    decided: [f64; 10],
    released: f64,
}

impl Ledger {
    fn play(&mut self, nodes: &[(u16, Node)]) {
        let nodes: Vec<_> = nodes.iter().map(|(_, node)| node).collect();
        for (sum, decisions) in self.decided.iter_mut().zip(play(&nodes, 50)) {
            *sum += decisions;
        }
    }

    /// Returns whether more is released than ever before. No arm has more releases than decisions.
    fn grows(&mut self, redis: &Redis) -> bool {
        let released = released(redis.fields().values().map(|(_, bandit)| bandit));
        for (released, decided) in released.iter().zip(self.decided) {
            assert!(*released <= decided, "{released} of {decided}");
        }
        let (before, now) = (self.released, released.iter().sum::<f64>());
        self.released = now.max(before);
        now > before
    }
}

/// Visitors come all the time. Every five seconds the leader is killed, and begins again; nodes join and leave; Redis
/// hangs, or is killed and begins again with its append-only file; the clocks of every other node jump.
#[test]
#[ignore = "four minutes"]
fn a_fleet_learns_through_two_minutes_of_faults() {
    const KILLS: u16 = 24;
    let Some((mut redis, program)) = Redis::start(&["--appendonly", "yes"]) else { return };
    let key = key_file("killed", &[7; 32]);
    let begin = |redis: &Redis, number| {
        let world = if number % 2 == 0 { World::of_jumping_clocks() } else { World::default() };
        let at = redis.socket();
        (number, Node::start_in(&world, program, at.to_str().unwrap(), number, OFTEN, &["--fleet-key-file", &key]))
    };
    let mut nodes: Vec<_> = (1..=4).map(|number| begin(&redis, number)).collect();
    let mut ledger = Ledger::default();
    for kill in 0..KILLS {
        let end = Instant::now() + Duration::from_secs(5);
        match kill % 6 {
            1 => nodes.push(begin(&redis, 10 + kill)),
            2 => {
                let place = nodes.iter().position(|(number, _)| *number >= 10).unwrap();
                let (_, node) = nodes.remove(place);
                if kill % 12 == 2 { node.kill() } else { assert_eq!(node.server.interrupt().0.code(), Some(0)) }
            }
            fault @ (3 | 4) => {
                if fault == 3 {
                    redis.signal(libc::SIGSTOP)
                } else {
                    redis.kill()
                }
                while Instant::now() + Duration::from_secs(1) < end {
                    ledger.play(&nodes);
                }
                if fault == 3 { redis.signal(libc::SIGCONT) } else { redis.begin() }
            }
            _ => (),
        }
        while Instant::now() < end {
            ledger.play(&nodes);
            ledger.grows(&redis);
        }
        // Late batches are long.
        let end = Instant::now() + PATIENCE;
        while kill % 6 < 3 && !ledger.grows(&redis) {
            assert!(Instant::now() < end, "nothing is learned: {}", ledger.released);
            ledger.play(&nodes);
        }
        // After a fault the lease may be gone for a moment.
        let end = Instant::now() + Duration::from_secs(8);
        while leader(&redis).is_none_or(|number| nodes.iter().all(|(node, _)| *node != number)) {
            assert!(Instant::now() < end, "no node leads");
            ledger.play(&nodes);
        }
        let (before, number) = (lease(&redis), leader(&redis).expect("a leader"));
        let place = nodes.iter().position(|(node, _)| *node == number).unwrap();
        nodes.remove(place).1.kill();
        let killed = Instant::now();
        while [String::new(), before.clone()].contains(&lease(&redis)) {
            assert!(killed.elapsed() < PATIENCE, "no node takes over");
            ledger.play(&nodes);
        }
        let (rewards, next, after) = (ledger.released, lease(&redis), killed.elapsed());
        println!("{kill}: {rewards} rewards in releases; {next} takes over from {number} after {after:?}");
        nodes.push(begin(&redis, number));
    }
    let nodes: Vec<_> = nodes.iter().map(|(_, node)| node).collect();
    eventually("all know the same", || agree_on(&redis, &nodes, ledger.decided.iter().sum::<f64>() as usize));
    eventually("one leads", || nodes.iter().map(|node| node.metric("leads")).sum::<f64>() == 1.0);
    let shares = (ledger.released, ledger.decided.iter().sum::<f64>());
    println!("{} of {} decisions are released", shares.0, shares.1);
    assert!(shares.0 > 0.2 * shares.1, "most is lost: {shares:?}");
}
