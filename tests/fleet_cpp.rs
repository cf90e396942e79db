//! C++ ad servers that learn together through a real redis-server, also with nodes in Go. The faults are: `kill -9` of
//! servers and of Redis, a Redis that hangs or loses its data, two servers with one number, invalid data in Redis,
//! rewards at another node, broken connections, and clocks that jump. The test reads the data in Redis with its own
//! client.

#[path = "fleet_cpp/combining.rs"]
mod combining;

use super::{CPP, GO, Program, WINDOW, number_field, place, slots, text_field};
use crate::support::coins::Coins;
use crate::support::http::{PATIENCE, Server, ask, send, wait};
use crate::support::{Link, build, go, go_with_modules, have, root, run, skip, text};
use dpb::Bandit;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const KEY: &str = "dpb:{ads}";
/// Milliseconds between two exchanges of a node.
const OFTEN: &str = "100";
const NEVER: &str = "3600000";

/// The environment of a program: a command that starts it, and its network namespace.
#[derive(Clone, Default, PartialEq)]
struct World {
    before: Vec<String>,
    namespace: Option<String>,
}

impl World {
    /// Wall clocks jump by ten days, four times a second.
    fn of_jumping_clocks() -> World {
        static CLOCK: LazyLock<PathBuf> =
            LazyLock::new(|| build("cc", "tests/support/clock.c", &["-shared", "-fPIC"], Link::Static));
        World { before: vec!["env".to_owned(), format!("LD_PRELOAD={}", CLOCK.display())], namespace: None }
    }

    /// A network namespace of its own, empty. Returns an error message if the machine does not allow one.
    fn of_its_own_network() -> Result<World, String> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("dpb-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).output().unwrap();
        if !made.status.success() {
            return Err(text(&made));
        }
        let before = ["ip", "netns", "exec", &name].map(str::to_owned).to_vec();
        Ok(World { before, namespace: Some(name) })
    }

    /// Runs `ip` in this network namespace.
    fn ip(&self, arguments: &str) {
        let namespace = self.namespace.as_ref().unwrap();
        run(Command::new("ip").args(["-n", namespace]).args(arguments.split(' ')));
    }

    /// Runs code in the network namespace. Connections that it makes stay there.
    fn within<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        let Some(namespace) = &self.namespace else { return what() };
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let network = fs::File::open(format!("/run/netns/{namespace}")).unwrap();
                // SAFETY: a plain system call on a file of ours; only this thread goes there.
                assert_eq!(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
                what()
            });
            there.join().unwrap()
        })
    }

    fn command(&self, program: &Path) -> Command {
        let mut words = self.before.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        command
    }
}

/// A router and two machines, each with a cable to it: 10.0.0.1 to 10.0.0.2, 10.0.1.1 to 10.0.1.2.
struct Network {
    middle: World,
    ends: [World; 2],
}

impl Network {
    /// None if the machine does not allow it, even where other tools are required, because no package provides this.
    fn new() -> Option<Network> {
        if !have("ip") {
            return None;
        }
        let middle = World::of_its_own_network();
        let middle = middle.inspect_err(|why| eprintln!("skipped: no network of our own: {}", why.trim())).ok()?;
        let network = Network { middle, ends: [(); 2].map(|()| World::of_its_own_network().unwrap()) };
        for (i, end) in network.ends.iter().enumerate() {
            let there = end.namespace.as_ref().unwrap();
            network.middle.ip(&format!("link add cable{i} type veth peer name cable netns {there}"));
            network.middle.ip(&format!("addr add 10.0.{i}.1/24 dev cable{i}"));
            network.middle.ip(&format!("link set cable{i} up"));
            end.ip(&format!("addr add 10.0.{i}.2/24 dev cable"));
            end.ip("link set cable up");
            end.ip("link set lo up");
        }
        Some(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for world in [&self.middle, &self.ends[0], &self.ends[1]] {
            let _ = Command::new("ip").args(["netns", "del", world.namespace.as_ref().unwrap()]).status();
        }
    }
}

/// A Redis server of the test's own, at a socket. It saves nothing when it ends.
struct Redis {
    world: World,
    place: PathBuf,
    options: Vec<String>,
    process: Option<Child>,
}

impl Redis {
    /// None without redis-server, or without a C++ server that joins it.
    fn start(options: &[&str]) -> Option<(Redis, &'static Program)> {
        Redis::start_in(&World::default(), options)
    }

    fn start_in(world: &World, options: &[&str]) -> Option<(Redis, &'static Program)> {
        let program = CPP.as_ref()?;
        Some((Redis::alone(world, options)?, program))
    }

    fn alone(world: &World, options: &[&str]) -> Option<Redis> {
        if !have("redis-server") {
            return None;
        }
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // A socket's path must be short.
        let place = std::env::temp_dir().join(format!("dpb-{}-{number}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let options = options.iter().map(|option| option.to_string()).collect();
        let mut redis = Redis { world: world.clone(), place, options, process: None };
        redis.begin();
        Some(redis)
    }

    fn begin(&mut self) {
        let mut command = self.world.command(Path::new("redis-server"));
        command.args(["--save", "", "--appendonly", "no", "--unixsocket", self.socket().to_str().unwrap()]);
        command.args(["--dir", self.place.to_str().unwrap()]).args(&self.options).stdout(Stdio::null());
        if !self.options.iter().any(|option| option == "--port") {
            command.args(["--port", "0"]);
        }
        self.process = Some(command.spawn().unwrap());
        // While it loads its append-only file, Redis accepts connections and refuses commands.
        let ready = || {
            let Ok(mut connection) = UnixStream::connect(self.socket()) else { return false };
            let (sent, mut line) = (connection.write_all(b"PING\r\n"), String::new());
            sent.and_then(|()| BufReader::new(connection).read_line(&mut line)).is_ok() && !line.starts_with("-LOADING")
        };
        eventually("Redis listens", ready);
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a plain system call on a child that was not yet waited for.
        assert_eq!(unsafe { libc::kill(self.process.as_ref().unwrap().id() as i32, signal) }, 0);
    }

    fn socket(&self) -> PathBuf {
        self.place.join("redis")
    }

    /// Sends a command. Returns the texts in the response.
    fn ask(&self, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut connection = BufReader::new(UnixStream::connect(self.socket()).unwrap());
        connection.get_mut().write_all(&request(words)).unwrap();
        let (mut texts, mut more) = (Vec::new(), 1);
        while more > 0 {
            more -= 1;
            let mut line = String::new();
            connection.read_line(&mut line).unwrap();
            let (kind, rest) = line.trim_end().split_at(1);
            match kind {
                "*" => more += rest.parse::<usize>().unwrap(),
                "$" => {
                    let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                    connection.read_exact(&mut text).unwrap();
                    text.truncate(text.len() - 2);
                    texts.push(text);
                }
                "+" | ":" => texts.push(rest.into()),
                _ => panic!("{line}"),
            }
        }
        texts
    }

    /// For each node, its version and its releases.
    fn fields(&self) -> BTreeMap<String, (u64, Bandit)> {
        self.fields_of(KEY)
    }

    fn fields_of(&self, key: &str) -> BTreeMap<String, (u64, Bandit)> {
        let texts = self.ask(&[b"HGETALL", key.as_bytes()]);
        let fields = texts.chunks(2).filter_map(|field| {
            let (version, snapshot) = field[1].split_at_checked(20)?;
            let half = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
            let version = half(&version[..10])? << 32 | half(&version[10..])?;
            Some((String::from_utf8(field[0].clone()).unwrap(), (version, Bandit::restore(snapshot).ok()?)))
        });
        fields.collect()
    }

    fn decisions(&self, node: u16) -> Option<u64> {
        let (_, bandit) = self.fields().remove(&node.to_string())?;
        Some(bandit.report().unwrap().counts.decisions)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// A command as Redis reads it.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let words = words.iter().map(|word| [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
    [format!("*{}\r\n", words.len()).into_bytes(), words.collect::<Vec<_>>().concat()].concat()
}

/// A server of a fleet, with its operator's address.
struct Node {
    world: World,
    server: Server,
    operator: String,
}

impl Node {
    fn start(program: &Program, redis: &Redis, number: u16, every: &str, more: &[&str]) -> Node {
        Node::start_in(&World::default(), program, redis.socket().to_str().unwrap(), number, every, more)
    }

    /// By default no outage cancels decisions: rewards for decisions that were open when Redis went away still count.
    fn start_in(world: &World, program: &Program, redis: &str, number: u16, every: &str, more: &[&str]) -> Node {
        Node::start_as(world, program, redis, number, every, more, Stdio::inherit())
    }

    /// As `start`, with the server's messages in a file.
    fn start_and_log(program: &Program, redis: &Redis, number: u16, more: &[&str]) -> (Node, PathBuf) {
        let log = redis.place.join(format!("log{number}"));
        let (file, at) = (fs::File::create(&log).unwrap(), redis.socket());
        (Node::start_as(&World::default(), program, at.to_str().unwrap(), number, OFTEN, more, file.into()), log)
    }

    fn start_as(
        world: &World,
        program: &Program,
        redis: &str,
        number: u16,
        every: &str,
        more: &[&str],
        log: Stdio,
    ) -> Node {
        let mut command = world.command(&program.path);
        command.args(["--port", "0", "--operator-port", "0", "--memory", "0", "--delay", "0", "--merge-every", every]);
        command.args(["--redis", redis, "--node", &number.to_string()]).args(more).stderr(log);
        let mut server = Server::start(&mut command);
        let operator = server.next_address();
        Node { world: world.clone(), server, operator }
    }

    fn metric(&self, name: &str) -> f64 {
        self.metric_of("ads", name)
    }

    fn metric_of(&self, bandit: &str, name: &str) -> f64 {
        let (status, _, page) = self.world.within(|| send(&self.operator, "GET", "/metrics", ""));
        assert_eq!(status, 200);
        let line =
            page.lines().find_map(|line| line.strip_prefix(&format!("dpb_fleet_{name}{{bandit=\"{bandit}\"}} ")));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
    }

    /// The numbers of forwarded rewards that counted and that did not.
    fn forwarded(&self) -> [f64; 2] {
        ["received", "refused"].map(|what| self.metric(&format!("rewards_{what}_total")))
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.world.within(|| self.server.get(path))
    }

    /// Makes a decision and returns its ticket.
    fn decide(&self) -> String {
        text_field(&self.get("/ad").1, "click_url").rsplit('/').next().unwrap().to_owned()
    }

    /// Sends a click for a ticket of any node.
    fn click(&self, ticket: &str) {
        assert_eq!(self.get(&format!("/click/{ticket}")).0, 204);
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.get("/report").1).unwrap()
    }

    fn decisions(&self) -> u64 {
        self.report()["decisions"].as_u64().unwrap()
    }

    /// The number of rewards in all releases that the node knows, for each arm.
    fn known(&self) -> Vec<f64> {
        self.report()["arms"].as_array().unwrap().iter().map(|arm| arm["effective_pulls"].as_f64().unwrap()).collect()
    }

    fn kill(self) {
        self.server.end(libc::SIGKILL);
    }
}

/// The stream in which a node's forwarded rewards wait.
fn stream(node: u16) -> Vec<u8> {
    format!("{KEY}:rewards:{node}").into_bytes()
}

/// This many visitors come to each node, and all get responses. Returns the number of decisions for each arm.
fn play(nodes: &[&Node], visitors: usize) -> [f64; 10] {
    let mut decisions = [0.0; 10];
    let mut connections: Vec<_> =
        nodes.iter().map(|node| BufReader::new(node.world.within(|| node.server.connect()))).collect();
    for visitor in 0..visitors {
        for connection in &mut connections {
            let (status, _, ad) = ask(connection, "GET", "/ad", "").expect("an ad");
            assert_eq!(status, 200, "{ad}");
            let arm = number_field(&ad, "arm").unwrap() as usize;
            decisions[arm] += 1.0;
            if visitor % 20 < 4 + arm {
                assert_eq!(ask(connection, "GET", text_field(&ad, "click_url"), "").expect("a response").0, 204);
            }
        }
    }
    decisions
}

/// Returns whether all nodes have all releases of every node, each reward once. Without decisions this does not change.
fn agree(redis: &Redis, nodes: &[&Node]) -> bool {
    let fields = redis.fields();
    let answered: u64 = fields.values().map(|(_, bandit)| bandit.report().unwrap().counts.answered).sum();
    let released = released(fields.values().map(|(_, bandit)| bandit));
    assert!(released.iter().sum::<f64>() <= answered as f64, "{released:?} of {answered}");
    all_know(nodes, &released)
}

/// The number of rewards in these handles' own releases, for each arm.
fn released<'a>(bandits: impl Iterator<Item = &'a Bandit>) -> Vec<f64> {
    let mut released = vec![0.0; 10];
    for bandit in bandits {
        for (sum, arm) in released.iter_mut().zip(bandit.arm_reports().unwrap()) {
            *sum += arm.effective_pulls;
        }
    }
    released
}

/// Returns whether all nodes know exactly these releases, and there is one of each arm.
fn all_know(nodes: &[&Node], released: &[f64]) -> bool {
    let knows = |node: &&Node| node.known().iter().zip(released).all(|(x, y)| (x - y).abs() <= 1e-9 * y);
    released.iter().all(|&rewards| rewards > 0.0) && nodes.iter().all(knows)
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn nodes_agree_after_kills_and_outages() {
    let Some((mut redis, program)) = Redis::start(&[]) else { return };
    let start = |number| Node::start(program, &redis, number, OFTEN, &[]);
    let (one, two) = (start(1), start(2));
    play(&[&one, &two], 2500);
    eventually("both know the same", || agree(&redis, &[&one, &two]));
    assert_eq!((one.metric("nodes"), one.metric("incompatible_nodes")), (1.0, 0.0));
    assert!(one.metric("exchanges_total") > 0.0 && one.metric("age_seconds") >= 0.0);

    // A node is killed under load: it continues in a new generation from its snapshot in Redis, and counts nothing
    // twice.
    play(&[&one, &two], 500);
    two.kill();
    let two = start(2);
    // The snapshot that was in Redis at the restart: the last one may not have arrived before the kill.
    let kept = two.decisions();
    assert!(kept >= 2500, "{kept}");
    assert_eq!(redis.decisions(2), Some(kept));
    assert_eq!(redis.fields()["2"].0 >> 32, 2, "its second incarnation");
    play(&[&one, &two], 500);
    let put = || redis.decisions(2) == Some(kept + 500);
    eventually("both know the same again", || put() && agree(&redis, &[&one, &two]));

    // Redis loses its data: the running nodes write their releases again, so that a new node gets them.
    let alone = || {
        for node in [&one, &two] {
            let errors = node.metric("errors_total");
            play(&[node], 500);
            eventually("it has tried", || node.metric("errors_total") >= errors + 3.0);
        }
        // A batch is at most as long as all earlier ones.
        let learn = || (0..20).any(|_| (play(&[&one], 500), one.known() != two.known()).1);
        assert!(learn(), "they learn by themselves");
    };
    redis.kill();
    alone();
    redis.begin();
    let three = Node::start(program, &redis, 3, OFTEN, &[]);
    play(&[&three], 10);
    eventually("all know the same", || agree(&redis, &[&one, &two, &three]) && redis.fields().len() == 3);
    assert!(three.known().iter().sum::<f64>() > 1000.0, "also the node that joined last");

    // Redis stops responding for a while.
    redis.signal(libc::SIGSTOP);
    alone();
    redis.signal(libc::SIGCONT);
    eventually("all know the same again", || agree(&redis, &[&one, &two, &three]));
    for node in [one, two, three] {
        assert_eq!(node.server.interrupt().0.code(), Some(0));
    }
}

/// The first server exchanges at its start, and then not for a minute: its beats tell it of news, also after Redis was
/// away.
#[test]
#[ignore = "compiles the C++ ad server"]
fn beats_tell_of_news() {
    let Some((mut redis, program)) = Redis::start(&[]) else { return };
    let seldom = Node::start(program, &redis, 1, "120000", &[]);
    let often = Node::start(program, &redis, 2, OFTEN, &[]);
    let merges_at_once = |redis: &Redis, all| {
        let exchanges = seldom.metric("exchanges_total");
        play(&[&often], 2000);
        let put = || redis.decisions(2) == Some(all);
        eventually("it knows what the other released", || put() && agree(redis, &[&seldom, &often]));
        assert_eq!(seldom.metric("exchanges_total"), exchanges);
    };
    merges_at_once(&redis, 2000);
    redis.kill();
    redis.begin();
    merges_at_once(&redis, 4000);
}

/// The server writes at the start and at the end only.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_node_saves_when_it_ends_even_if_redis_hangs() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let start = |number| Node::start(program, &redis, number, NEVER, &[]);
    let one = start(1);
    play(&[&one], 100);
    assert_eq!(redis.decisions(1), Some(0));
    assert_eq!(one.server.interrupt().0.code(), Some(0));
    assert_eq!(redis.decisions(1), Some(100));
    let one = start(1);
    assert_eq!(one.decisions(), 100);
    redis.signal(libc::SIGSTOP);
    assert_eq!(one.server.interrupt().0.code(), Some(0));
}

/// The file of a node may be older or newer than its snapshot in Redis.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_node_restores_the_newer_of_its_file_and_redis() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let file = place("fleet");
    let start = || Node::start(program, &redis, 1, OFTEN, &["--snapshot", file.to_str().unwrap()]);
    let node = start();
    let old_field = redis.ask(&[b"HGET", KEY.as_bytes(), b"1"]).remove(0);
    play(&[&node], 1500);
    assert_eq!(node.server.interrupt().0.code(), Some(0));
    let old_file = fs::read(&file).unwrap();
    redis.ask(&[b"HSET", KEY.as_bytes(), b"1", &old_field]);
    let beside = |more: &str| PathBuf::from(format!("{}{more}", file.display()));
    let states = [".state", ".state.new", ".state.opened"].map(beside);
    let others = [".state.backup", ".statement-2026.pdf", ".states"].map(beside);
    states.iter().chain(&others).for_each(|name| fs::write(name, "").unwrap());
    let node = start();
    assert_eq!(node.decisions(), 1500, "from its disk");
    assert!(!states.iter().any(|name| name.exists()), "a state of before the fleet");
    assert!(others.iter().all(|name| name.exists()), "a file that is no state");
    play(&[&node], 1500);
    assert_eq!(node.server.interrupt().0.code(), Some(0));
    fs::write(&file, old_file).unwrap();
    assert_eq!(start().decisions(), 3000, "from Redis");
}

/// The second server replaces the first, whose snapshots are then too old. The first still decides, and its rewards do
/// not count twice.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_second_node_with_the_same_number_replaces_the_first() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let start = |number| Node::start(program, &redis, number, OFTEN, &[]);
    let (watcher, first) = (start(1), start(2));
    play(&[&watcher, &first], 2000);
    eventually("it has put", || redis.decisions(2) == Some(2000));
    let second = start(2);
    let errors = first.metric("errors_total");
    eventually("the first gets an error", || first.metric("errors_total") >= errors + 3.0);
    play(&[&second], 100);
    play(&[&first], 300);
    let errors = first.metric("errors_total");
    eventually("the first has tried", || first.metric("errors_total") >= errors + 3.0);
    eventually("the others know the same", || agree(&redis, &[&watcher, &second]) && redis.decisions(2) == Some(2100));
    assert_eq!(redis.fields()["2"].0 >> 32, 2);
}

/// Servers take the lowest number that nobody holds, and continue what was released under it.
fn servers_take_the_lowest_number(programs: [&LazyLock<Option<Program>>; 2]) {
    let [Some(first), Some(second)] = programs.map(|program| program.as_ref()) else { return };
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let start = |program, more: &[&str]| Node::start(program, &redis, 9, OFTEN, &[&["--node", "auto"], more].concat());
    let (one, two) = (start(first, &[]), start(second, &[]));
    assert!(one.decide().starts_with("0001") && two.decide().starts_with("0002"));
    play(&[&one], 99);
    assert_eq!(one.server.interrupt().0.code(), Some(0));
    let again = start(second, &["--placements", "2"]);
    assert!(again.decide().starts_with("0001") && again.decisions() == 101, "{}", again.decisions());
    assert!(two.decide().starts_with("0002"));
    let url =
        slots(&mut BufReader::new(again.server.connect()), "placement=1&slots=1&user=0000000000000001").remove(0).1;
    assert!(url.contains("/8001"), "{url}");
}

#[test]
fn go_servers_take_the_lowest_number() {
    servers_take_the_lowest_number([&GO, &GO]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn go_and_cpp_servers_take_the_lowest_number() {
    servers_take_the_lowest_number([&GO, &CPP]);
}

/// A server that cannot reach Redis is not ready, and can decide. One whose number another process has must end.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_server_says_whether_it_is_ready() {
    let Some((mut redis, program)) = Redis::start(&[]) else { return };
    let one = Node::start(program, &redis, 1, OFTEN, &["--delay", "100"]);
    let is = |path: &str, status| eventually(path, || one.get(path).0 == status);
    is("/readyz", 200);
    redis.kill();
    is("/readyz", 503);
    assert_eq!(one.get("/healthz").0, 200);
    assert_eq!(one.get("/ad").0, 200);
    redis.begin();
    is("/readyz", 200);
    let _second = Node::start(program, &redis, 1, OFTEN, &["--delay", "100"]);
    is("/healthz", 503);
    is("/readyz", 503);
}

/// Invalid data in Redis affects only its own field. An older version does not replace a newer one.
#[test]
#[ignore = "compiles the C++ ad server"]
fn invalid_and_newer_fields_affect_one_node_only() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let ((one, log), two) = (Node::start_and_log(program, &redis, 1, &[]), Node::start(program, &redis, 2, OFTEN, &[]));
    let nonsense = [b"00000000000000000007".as_slice(), &[0xff; 100]].concat();
    for (field, value) in
        [("9", nonsense.as_slice()), ("10", b"1"), ("11", b""), ("65536", b"x"), ("a", b"x"), ("", b"x")]
    {
        redis.ask(&[b"HSET", KEY.as_bytes(), field.as_bytes(), value]);
        redis.ask(&[b"HSET", format!("{KEY}:versions").as_bytes(), field.as_bytes(), b"00000000010000000001"]);
    }
    redis.ask(&[b"HSET", format!("{KEY}:versions").as_bytes(), b"12", b"nonsense"]);
    play(&[&one, &two], 2000);
    eventually("both know the same", || agree(&redis, &[&one, &two]));
    eventually("three are incompatible", || {
        (one.metric("released_nodes"), one.metric("incompatible_nodes")) == (4.0, 3.0)
    });
    let exchanges = one.metric("exchanges_total");
    eventually("it has seen them again", || one.metric("exchanges_total") >= exchanges + 3.0);
    let logged = fs::read_to_string(&log).unwrap();
    assert_eq!(logged.matches("is incompatible").count(), 3, "{logged}");
    assert!(logged.contains("node 10 of ads is incompatible"), "{logged}");

    let field = redis.ask(&[b"HGET", KEY.as_bytes(), b"2"]).remove(0);
    let newer = [b"00999999999999999999".as_slice(), &field[20..]].concat();
    redis.ask(&[b"HSET", KEY.as_bytes(), b"2", &newer]);
    let (errors, exchanges) = (two.metric("errors_total"), one.metric("exchanges_total"));
    eventually("it is refused", || two.metric("errors_total") >= errors + 3.0);
    assert_eq!(redis.ask(&[b"HGET", KEY.as_bytes(), b"2"]), [newer]);
    eventually("the other goes on", || one.metric("exchanges_total") >= exchanges + 3.0);
    // A field without a valid version is overwritten.
    redis.ask(&[b"HSET", KEY.as_bytes(), b"2", b"none of ours, and as long as a version"]);
    eventually("it has put again", || redis.decisions(2) == Some(2000));
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn a_node_that_cannot_join_says_why() {
    // A port that is free now may be taken later.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (address, port) = (|port: u16| format!("127.0.0.1:{port}"), free().to_string());
    let Some((redis, program)) = Redis::start(&["--port", &port, "--requirepass", "open sesame"]) else { return };
    let at = address(port.parse().unwrap());
    let (right, wrong, empty) = (place("right"), place("wrong"), place("empty"));
    fs::write(&right, "open sesame\r\n").unwrap();
    fs::write(&wrong, "abracadabra\n").unwrap();
    fs::write(&empty, "\r\n").unwrap();
    let refused = |address: &str, more: &[&str], password: Option<&Path>| {
        let mut options = vec!["--port", "0", "--redis", address, "--node", "7"];
        options.extend(more);
        options.extend(password.iter().flat_map(|file| ["--redis-password-file", file.to_str().unwrap()]));
        let (code, error) = program.refuses(&options);
        assert_eq!(code, Some(1), "{error}");
        assert!(!error.contains("sesame") && !error.contains("abracadabra"), "{error}");
        error
    };
    assert!(refused(&at, &[], None).contains("redis: NOAUTH"));
    assert!(refused(&at, &[], Some(&wrong)).contains("redis: WRONGPASS"));
    // Redis calls a script, such as the one that takes a number, a protocol error then.
    assert!(refused(&at, &["--node", "auto"], None).contains("redis: NOAUTH"));
    // A user of the access control list, who has the keys of one bandit only.
    let user =
        b"ACL SETUSER ads on >letmein resetchannels ~dpb:{b.2}* -@all +@connection +@scripting +@hash +@sortedset \
                 +@stream +@list +time +hkeys +expire";
    let login = |words: &[&[u8]]| {
        let mut connection = BufReader::new(UnixStream::connect(redis.socket()).unwrap());
        for words in [&[b"AUTH".as_slice(), b"open sesame"] as &[&[u8]], words] {
            let mut line = String::new();
            connection.get_mut().write_all(&request(words)).unwrap();
            connection.read_line(&mut line).unwrap();
            assert_eq!(line, "+OK\r\n");
        }
    };
    login(&user.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
    let theirs = place("theirs");
    fs::write(&theirs, "letmein\n").unwrap();
    let as_user = ["--redis-user", "ads", "--redis-password-file", theirs.to_str().unwrap()];
    assert!(refused(&at, &as_user[..2], Some(&wrong)).contains("redis: WRONGPASS"));
    assert!(refused(&at, &as_user, None).contains("redis: NOPERM"), "another bandit's keys");
    drop(Server::start(
        program.command().args(["--redis", &at, "--node", "auto", "--bandit", "b.2", "--port", "0"]).args(as_user),
    ));
    assert!(refused(&at, &[], Some(&empty)).contains("no password"));
    assert!(refused(&at, &["--policy", "dp-se", "--memory", "0"], Some(&right)).contains("does not support"));
    assert!(refused(&address(free()), &[], Some(&right)).contains("Connection refused"));
    drop(Server::start(
        program
            .command()
            .args(["--redis", &at, "--node", "7", "--bandit", "b.2", "--port", "0"])
            .args(["--redis-password-file", right.to_str().unwrap()]),
    ));
    let other = refused(&at, &["--policy", "dp-med", "--bandit", "b.2"], Some(&right));
    assert!(other.contains("node 7: policy must be dp-imed, as in the snapshot, got dp-med"), "{other}");
    drop(redis);

    let usage = |options: &[&str]| {
        let (code, error) = program.refuses(options);
        assert!(code == Some(2) && error.contains("--redis ADDRESS"), "{options:?}: {code:?} {error}");
    };
    usage(&["--redis", &at]);
    usage(&["--node", "7"]);
    usage(&["--redis-password-file", "x"]);
    usage(&["--redis", &at, "--node", "7", "--redis-user", "ads"]);
    usage(&["--redis", &at, "--node", "7", "--send-rate", "1"]);
    usage(&["--redis", &at, "--node", "auto", "--snapshot", "x"]);
    usage(&["--redis", &at, "--node", "7", "--send-rate", "524289", "--fleet-key-file", "x"]);
    for (option, values) in [
        ("--redis", &["", "host", ":6379", "host:", "host:65536"] as &[_]),
        ("--node", &["0", "32768", "65536", "-1", "x"]),
        ("--bandit", &["", "a b", "a}", "a\""]),
        ("--merge-every", &["0", "x"]),
        ("--send-rate", &["0", "x"]),
    ] {
        for value in values {
            usage(&["--redis", &at, "--node", "7", option, value]);
        }
    }
}

/// Servers in Go and in C++ can share one bandit only if they write and compare the same data.
#[test]
fn cpp_and_go_use_the_same_script() {
    let Some(go) = go_package() else { return };
    let script = |source: &str, begin: &str, end: &str| {
        source.split_once(begin).and_then(|(_, rest)| Some(rest.split_once(end)?.0.to_owned())).expect(begin)
    };
    let cpp = fs::read_to_string(root().join("examples/cpp/fleet.hpp")).unwrap();
    assert_eq!(script(&cpp, "MINE = R\"(", ")\";"), script(&go, "mine = `", "`"));
    assert_eq!(script(&cpp, "RENEW = R\"(", ")\";"), script(&go, "renew = redis.NewScript(`", "`)"));
    assert_eq!(script(&cpp, "HOST = R\"(", ")\";"), script(&go, "host = redis.NewScript(`", "`)"));
    let scripts = ["take", "put", "beat", "leave", "receive", "contribute", "offer", "entrust", "adopt", "keep"];
    for name in scripts {
        let in_cpp = script(&cpp, &format!("{} = MINE + R\"(", name.to_uppercase()), ")\";");
        assert_eq!(in_cpp, script(&go, &format!("var {name} = redis.NewScript(mine + `"), "`)"), "{name}");
    }
    assert_eq!(go.matches("redis.NewScript(").count(), scripts.len() + 2);
    for key in ["versions", "numbers", "alive", "counts", "offers"] {
        assert!(go.contains(&format!("r.name + \":{key}\"")) && cpp.contains(&format!("key_ + \":{key}\"")), "{key}");
    }
    assert!(go.contains(r#""dpb:{" + name + "}""#) && go.contains("versionDigits = 10"));
}

/// A node in Go with the same bandit, which executes commands.
struct GoNode {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl GoNode {
    /// None without the package or its requirements.
    fn start(redis: &Redis) -> Option<GoNode> {
        GoNode::start_in(&World::default(), redis.socket().to_str().unwrap())
    }

    fn start_in(world: &World, redis: &str) -> Option<GoNode> {
        static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| GoNode::build(&[]));
        GoNode::begin(world.command(PROGRAM.as_ref()?), redis)
    }

    /// Its wall clock jumps too. Go reads the clock without libc, so a preloaded library cannot change it. Instead a
    /// line of Go's own library is replaced.
    fn start_with_jumping_clock(redis: &Redis) -> Option<GoNode> {
        go("tests/fleet_cpp", &["build"])?; // None without Go
        let place = place("go_clock").parent().unwrap().to_owned();
        let root = run(Command::new("go").args(["env", "GOROOT"]).env("GOTOOLCHAIN", "local"));
        let time = Path::new(root.trim_end()).join("src/time/time.go");
        let (source, line) = (fs::read_to_string(&time).unwrap(), "sec += unixToInternal - minWall\n");
        assert_eq!(source.matches(line).count(), 1, "another Go: where does time.Now have its seconds?");
        let jumps = format!("{} + (mono/250e6%3-1)*864000\n", line.trim_end());
        fs::write(place.join("time.go"), source.replace(line, &jumps)).unwrap();
        fs::write(place.join("overlay"), json!({"Replace": {(time.to_str()?): place.join("time.go")}}).to_string())
            .unwrap();
        let program = GoNode::build(&[&format!("-overlay={}", place.join("overlay").display())])?;
        GoNode::begin(Command::new(program), redis.socket().to_str().unwrap())
    }

    fn build(arguments: &[&str]) -> Option<PathBuf> {
        go_package()?;
        let path = place("go_node");
        let arguments = [&["build", "-o", path.to_str().unwrap()], arguments].concat();
        run(&mut go_with_modules("tests/fleet_cpp", &arguments)?);
        Some(path)
    }

    fn begin(mut command: Command, redis: &str) -> Option<GoNode> {
        let mut process = command.arg(redis).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Some(GoNode { process, input, output })
    }

    fn execute(&mut self, what: &str) -> String {
        writeln!(self.input, "{what}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn known(&mut self) -> Vec<f64> {
        self.execute("known").split_whitespace().map(|word| word.parse().unwrap()).collect()
    }

    fn end(mut self) {
        drop(self.input);
        assert!(wait(&mut self.process).success());
    }
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn nodes_in_go_and_cpp_agree() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let Some(mut go) = GoNode::start(&redis) else { return };
    let cpp = Node::start(program, &redis, 1, OFTEN, &[]);
    go.execute("play 2000");
    play(&[&cpp], 2000);
    eventually("both know the same", || {
        go.known() == cpp.known() && redis.fields().len() == 2 && agree(&redis, &[&cpp])
    });
    assert_eq!((cpp.metric("nodes"), cpp.metric("incompatible_nodes")), (1.0, 0.0));
    go.end();
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn cpp_nodes_share_placements() {
    nodes_share_placements([&CPP, &CPP], &[]);
}

#[test]
fn go_nodes_share_placements() {
    nodes_share_placements([&GO, &GO], &[]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn go_and_cpp_nodes_share_placements() {
    nodes_share_placements([&GO, &CPP], &[]);
}

/// Two servers with three placements, each with visitors in two of them. All clicks come to the other server, and count
/// once, at the server that showed the ad. Both have the same evidence for all placements. One server is killed, and
/// continues in another period.
fn nodes_share_placements(programs: [&LazyLock<Option<Program>>; 2], more: &[&str]) {
    const NAME: &str = "ads-placements";
    const PLACEMENTS: u64 = 3;
    let [Some(first), Some(second)] = programs.map(|program| program.as_ref()) else { return };
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let options = [&["--placements", "3"], more].concat();
    let start = |program, number| Node::start(program, &redis, number, OFTEN, &options);
    let (one, two) = (start(first, 1), start(second, 2));
    let have_met = |nodes: [&Node; 2]| {
        let met = |node: &&Node| [NAME, "ads"].iter().all(|name| node.metric_of(name, "nodes") == 1.0);
        eventually("they have met", || nodes.iter().all(met));
    };
    have_met([&one, &two]);
    let clicks =
        |node: &Node| ["received", "refused"].map(|what| node.metric_of(NAME, &format!("rewards_{what}_total")));
    let sees = |node: &Node, other: &Node, places: [u64; 2], people: std::ops::Range<u64>| {
        let mut here = BufReader::new(node.server.connect());
        let mut there = BufReader::new(other.server.connect());
        let [before, _] = clicks(node);
        let mut clicked = 0.0;
        // A window is 1000 slots, so clicks arrive before it ends.
        for user in people {
            let place = places[user as usize % 2];
            for (arm, url) in slots(&mut here, &format!("placement={place}&slots=5&user={:016x}", user + 1)) {
                if arm as u64 % PLACEMENTS == place {
                    clicked += 1.0;
                    assert_eq!(ask(&mut there, "GET", &url, "").expect("a response").0, 204);
                }
            }
            if user % 50 == 49 {
                eventually("the clicks are there", || clicks(node) == [before + clicked, 0.0]);
            }
        }
        eventually("the clicks are there", || clicks(node) == [before + clicked, 0.0]);
    };
    sees(&one, &two, [0, 1], 0..2500);
    sees(&two, &one, [1, 2], 3000..5500);

    let read = |node: &Node, place: u64| -> Value {
        serde_json::from_str(&node.get(&format!("/report?placement={place}")).1).unwrap()
    };
    let pulls = |node: &Node, place| -> Vec<f64> {
        let arms = &read(node, place)["arms"];
        arms.as_array().unwrap().iter().map(|arm| arm["effective_pulls"].as_f64().unwrap()).collect()
    };
    // The first request for a placement on a node creates it there.
    for (node, place) in [(&one, 2), (&two, 0)] {
        assert_eq!(node.get(&format!("/ads?placement={place}&slots=1&user=00000000000000ff")).0, 200);
    }
    let agree = |one: &Node, two: &Node| {
        let fields = redis.fields_of(&format!("dpb:{{{NAME}}}"));
        assert!(fields.keys().all(|number| number == "32769" || number == "32770"));
        fields.len() == 2
            && (0..PLACEMENTS).all(|place| {
                let mut released = vec![0.0; 10];
                for (_, bandit) in fields.values() {
                    // A node that has never seen this placement has released nothing for it.
                    let _ = bandit.for_each_arm_in(place, |i, arm| released[i as usize] += arm.effective_pulls);
                }
                let knows =
                    |node: &Node| pulls(node, place).iter().zip(&released).all(|(x, y)| (x - y).abs() <= 1e-9 * y);
                released.iter().sum::<f64>() > 100.0 && knows(one) && knows(two)
            })
    };
    eventually("both know the same of all placements", || agree(&one, &two));
    assert_eq!([&one, &two].map(|node| node.metric_of(NAME, "incompatible_nodes")), [0.0, 0.0]);

    // The node with the other half of the users is killed. It continues from Redis, in a new period.
    two.kill();
    let spent = |place: &Value| place["epsilon_spent"].as_f64().unwrap();
    let before = spent(&read(&one, 0));
    let redis_at = redis.socket();
    let at =
        ["--port", "0", "--memory", "0", "--redis", redis_at.to_str().unwrap(), "--node", "2", "--placements", "2"];
    let (code, error) = second.refuses(&at);
    assert!(code == Some(1) && error.contains("placements must be at least 3"), "{code:?} {error}");
    let two = start(second, 2);
    have_met([&one, &two]);
    assert!(before < 1.01 && spent(&read(&two, 0)) > 1.99, "{before} {}", read(&two, 0));
    assert_eq!(two.get("/ads?placement=0&slots=1&user=00000000000000ff").0, 200);
    eventually("it knows again", || agree(&one, &two));
    for node in [one, two] {
        assert_eq!(node.server.interrupt().0.code(), Some(0));
    }
}

/// A reward that comes to any node, in C++ or in Go, once, twice or three times, counts once, at the node that decided.
#[test]
#[ignore = "compiles the C++ ad server"]
fn forwarded_rewards_reach_their_node_and_count_once() {
    let Some((mut redis, program)) = Redis::start(&[]) else { return };
    let Some(mut go) = GoNode::start(&redis) else { return };
    let start = |number| Node::start(program, &redis, number, OFTEN, &[]);
    let (one, two) = (start(1), start(2));
    eventually("all have met", || [&one, &two].iter().all(|node| node.metric("nodes") == 2.0));

    // Rewards come to the wrong nodes, three times each.
    for _ in 0..100 {
        let (to_go, to_one) = (go.execute("decide"), one.decide());
        for _ in 0..2 {
            one.click(&to_go);
            go.execute(&format!("update {to_one}"));
        }
        two.click(&to_go);
        two.click(&to_one);
    }
    // Invalid rewards, and rewards for unknown decisions.
    for (ticket, reward) in [("x", "1"), ("281474976710657", "nan"), ("281474976710657", "1"), ("", "")] {
        redis.ask(&[b"XADD", &stream(1), b"*", b"ticket", ticket.as_bytes(), b"reward", reward.as_bytes()]);
    }
    redis.ask(&[b"XADD", &stream(1), b"*", b"something", b"else"]);
    // More are refused if one was late and is sent again.
    let counted = |[received, refused]: [f64; 2], again| received == 100.0 && refused >= again;
    let mut by_go = || -> Vec<f64> { go.execute("rewards").split(' ').map(|number| number.parse().unwrap()).collect() };
    eventually("all is counted", || {
        let (by_one, by_go) = (one.forwarded(), by_go());
        counted(by_one, 202.0) && by_go[0] == 100.0 && counted([by_go[1], by_go[2]], 200.0)
    });
    eventually("and deleted", || [1, 2, 9].iter().all(|&node| redis.ask(&[b"XLEN", &stream(node)]) == [b"0"]));
    assert_eq!([&one, &two].map(|node| node.metric("rewards_sent_total")), [200.0, 200.0]);
    assert_eq!(two.forwarded(), [0.0, 0.0]);

    // A node counts rewards for its own decisions immediately. A reward for an unknown node creates no stream.
    let count = |name| number_field(&send(&one.operator, "GET", "/diagnostics", "").2, name).unwrap();
    let (own, before) = (one.decide(), count("duplicates"));
    (0..2).for_each(|_| one.click(&own));
    assert!(before >= 200.0 && count("duplicates") == before + 1.0);
    let before = count("unknown");
    one.click("0309000000000001");
    assert_eq!(count("unknown"), before + 1.0);
    assert_eq!(redis.ask(&[b"EXISTS", &stream(777)]), [b"0"]);
    let left: u32 = String::from_utf8(redis.ask(&[b"TTL", &stream(1)]).remove(0)).unwrap().parse().unwrap();
    assert!(0 < left && left <= 3600, "{left}");

    // Clicks do not wait for Redis. Redis forwards them when it is back.
    let tickets: Vec<_> = (0..10).map(|_| two.decide()).collect();
    redis.kill();
    tickets.iter().for_each(|ticket| one.click(ticket));
    redis.begin();
    eventually("they have come", || two.forwarded()[0] == 10.0);

    // A node that exchanges releases only at its start and every two minutes still receives rewards immediately.
    let seldom = Node::start(program, &redis, 3, "120000", &[]);
    eventually("the newcomer is known", || one.metric("nodes") == 3.0);
    for received in [1.0, 2.0] {
        one.click(&seldom.decide());
        eventually("it has come", || seldom.forwarded()[0] == received);
    }
    assert_eq!(seldom.metric("exchanges_total"), 0.0);
    go.end();
}

/// What becomes of a reward that travels does not depend on other rewards.
#[test]
#[ignore = "compiles fleet.hpp"]
fn one_reward_does_not_decide_about_others() {
    if CPP.is_none() {
        return;
    }
    let arguments = ["-std=c++20", "-pthread", "-g0", "-Wl,--no-as-needed", "-lhiredis"];
    run(&mut Command::new(build("c++", "tests/cpp/fleet_twins.cpp", &arguments, Link::Static)));
}

/// The stream of a node is broken. A server that has a reward for it still beats, and other rewards travel.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_broken_stream_stops_no_beat() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let nodes = [1, 2, 3].map(|number| Node::start(program, &redis, number, NEVER, &["--delay", "1000"]));
    let [one, two, three] = &nodes;
    eventually("they have met", || nodes.iter().all(|node| node.metric("nodes") == 2.0));
    redis.ask(&[b"SET", &stream(2), b"broken"]);
    let tickets = [0; 5].map(|_| two.decide());
    tickets.iter().for_each(|ticket| one.click(ticket));
    eventually("they cannot be sent", || one.metric("errors_total") >= 3.0);
    let beat = || {
        let score = redis.ask(&[b"ZSCORE", format!("{KEY}:alive").as_bytes(), b"1"]).remove(0);
        String::from_utf8(score).unwrap().parse::<f64>().unwrap()
    };
    for _ in 0..10 {
        let (last, errors) = (beat(), one.metric("errors_total"));
        eventually("it beats", || beat() > last);
        eventually("and tries again", || one.metric("errors_total") > errors);
    }
    one.click(&three.decide());
    eventually("another reward has come", || three.forwarded()[0] == 1.0);
    assert_eq!([one.metric("rewards_waiting"), one.metric("rewards_sent_total")], [5.0, 1.0]);
    redis.ask(&[b"DEL", &stream(2)]);
    eventually("all have come", || two.forwarded()[0] == 5.0);
}

/// The kinds of outage.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Outage {
    Hangs,
    Dies,
    /// Runs for five milliseconds in every half second.
    IsSlow,
}

/// Visitors come to all nodes, to each at most 2500 in a second, until `enough`: a window is longer than three delays.
/// Every other visitor clicks, at the next node.
fn visit(nodes: &[&Node], coins: &mut Coins, mut enough: impl FnMut() -> bool) {
    let mut connections: Vec<_> = nodes.iter().map(|node| BufReader::new(node.server.connect())).collect();
    while !enough() {
        for _ in 0..20 {
            let tick = Instant::now();
            for node in 0..nodes.len() {
                let (_, _, ad) = ask(&mut connections[node], "GET", "/ad", "").expect("an ad");
                if coins.toss(0.5) > 0.0 {
                    let next = (node + 1) % nodes.len();
                    ask(&mut connections[next], "GET", text_field(&ad, "click_url"), "").expect("a response");
                }
            }
            std::thread::sleep(Duration::from_micros(400).saturating_sub(tick.elapsed()));
        }
    }
}

/// The mean of all released rewards, and their number.
fn rate(node: &Node) -> (f64, f64) {
    let report = node.report();
    let field = |arm: &Value, name: &str| arm[name].as_f64().unwrap_or(0.0);
    let arms = report["arms"].as_array().unwrap();
    let rewards: f64 = arms.iter().map(|arm| field(arm, "effective_pulls")).sum();
    (arms.iter().map(|arm| field(arm, "effective_pulls") * field(arm, "mean")).sum::<f64>() / rewards, rewards)
}

/// For some windows rewards are not forwarded: the bandit learns nothing from decisions of that time, the logs and the
/// metrics report the outage, and afterwards all learn again. Half of a thousand rewards and more are clicks: .09 are
/// five deviations, noise included, which one run in a million exceeds. Without the cancellations the difference is .3.
fn nothing_is_learned_in(outage: Outage, count: u16, windows: f64, window: Option<Duration>) {
    let Some((mut redis, program)) = Redis::start(&[]) else { return };
    let milliseconds = window.map_or(WINDOW.to_string(), |window| format!("{}ms", window.as_millis()));
    let start = |number| Node::start_and_log(program, &redis, number, &["--delay", "100", "--window", &milliseconds]);
    let (nodes, logs): (Vec<_>, Vec<_>) = (1..=count).map(start).unzip();
    let (nodes, mut coins) = (nodes.iter().collect::<Vec<_>>(), Coins(7));
    let logged =
        |what: &str| logs.iter().map(|log| fs::read_to_string(log).unwrap().matches(what).count()).sum::<usize>();
    let end = Instant::now() + 2 * PATIENCE;
    let within = |is: bool| is || Instant::now() > end;
    visit(&nodes, &mut coins, || within(rate(nodes[0]).1 > 500.0));
    println!("{outage:?}: before {:?}", nodes.iter().map(|node| rate(node)).collect::<Vec<_>>());
    let decided = || nodes.iter().map(|node| node.decisions()).min().unwrap() as f64;
    let all = decided() + windows * WINDOW as f64;
    let over = Instant::now() + window.unwrap_or_default().mul_f64(windows);
    let lasts = || decided() < all || Instant::now() < over;
    match outage {
        Outage::Hangs => redis.signal(libc::SIGSTOP),
        Outage::Dies => redis.kill(),
        Outage::IsSlow => (),
    }
    std::thread::scope(|scope| {
        if outage == Outage::IsSlow {
            scope.spawn(|| {
                while lasts() {
                    redis.signal(libc::SIGSTOP);
                    std::thread::sleep(Duration::from_millis(500));
                    redis.signal(libc::SIGCONT);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        visit(&nodes, &mut coins, || !lasts());
    });
    assert!(nodes.iter().all(|node| node.metric("outages_total") >= 1.0), "a node has not noticed the outage");
    assert!(logged("do not travel") >= nodes.len());
    match outage {
        Outage::Hangs => redis.signal(libc::SIGCONT),
        Outage::Dies => redis.begin(),
        Outage::IsSlow => (),
    }
    visit(&nodes, &mut coins, || within(nodes.iter().all(|node| node.metric("outage") == 0.0)));
    let (_, before) = rate(nodes[0]);
    visit(&nodes, &mut coins, || within(nodes.iter().all(|node| rate(node).1 > before + 500.0)));
    for node in &nodes {
        let (rate, rewards) = rate(node);
        println!("{outage:?}: {rate:.3} of {rewards}, {before} before");
        assert!(
            (rate - 0.5).abs() < 0.09 && rewards > before + 250.0,
            "{outage:?}: {rate} of {rewards}, {before} before"
        );
    }
    assert!(logged("travel again") >= nodes.len());
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn nothing_is_learned_while_redis_hangs() {
    nothing_is_learned_in(Outage::Hangs, 2, 2.0, None);
}

#[test]
#[ignore = "a minute"]
fn nothing_is_learned_in_any_outage() {
    for outage in [Outage::Hangs, Outage::Dies, Outage::IsSlow] {
        nothing_is_learned_in(outage, 8, 5.0, None);
        nothing_is_learned_in(outage, 4, 5.0, Some(Duration::from_millis(800)));
    }
}

/// A node in C++ waits for rewards from a node in Go, until that node is back or has been gone for long. It does not
/// wait for a node that has ended.
#[test]
#[ignore = "ten seconds"]
fn a_missing_node_is_waited_for_and_then_dropped() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let Some(go) = GoNode::start(&redis) else { return };
    let (node, log) = Node::start_and_log(program, &redis, 1, &["--delay", "100"]);
    let (mut coins, logged) = (Coins(7), |what: &str| fs::read_to_string(&log).unwrap().contains(what));
    let mut until = |what: &str, outage: f64| {
        let end = Instant::now() + PATIENCE;
        visit(&[&node], &mut coins, || node.metric("outage") == outage || Instant::now() > end);
        assert_eq!(node.metric("outage"), outage, "{what}");
    };
    eventually("they have met", || node.metric("nodes") == 1.0);
    std::thread::sleep(Duration::from_millis(300)); // Redis received it
    let signal = |signal| {
        // SAFETY: a plain system call on a child that was not yet waited for.
        assert_eq!(unsafe { libc::kill(go.process.id() as i32, signal) }, 0);
    };
    signal(libc::SIGSTOP);
    until("its heartbeats are missing", 1.0);
    assert!(logged("rewards from node 9 do not travel"));
    signal(libc::SIGCONT);
    until("it is back", 0.0);
    signal(libc::SIGKILL);
    until("its heartbeats are missing again", 1.0);
    until("it is gone", 0.0);
    assert!(logged("node 9 is gone"));

    let other = Node::start(program, &redis, 2, OFTEN, &["--delay", "100"]);
    eventually("they have met", || node.metric("nodes") == 1.0);
    std::thread::sleep(Duration::from_millis(300));
    let outages = node.metric("outages_total");
    assert_eq!(other.server.interrupt().0.code(), Some(0));
    let end = Instant::now() + Duration::from_secs(1);
    visit(&[&node], &mut coins, || Instant::now() > end);
    assert_eq!(node.metric("outages_total"), outages, "it has notified that it leaves");
}

/// Redis is reached over two connections: one of a node in C++ and one in Go, and one of another node in C++. The first
/// connection is cut, at either end. All nodes continue to decide, the node that is not cut off continues to exchange
/// releases, and afterwards all agree.
#[test]
#[ignore = "ten seconds"]
fn nodes_agree_after_a_cable_was_cut() {
    for cuts_the_router in [false, true] {
        let Some(network) = Network::new() else { return };
        let options = ["--port", "6379", "--bind", "10.0.0.1", "10.0.1.1", "--protected-mode", "no"];
        let Some((redis, program)) = Redis::start_in(&network.middle, &options) else { return };
        let [here, there] = &network.ends;
        let (machine, cable) = if cuts_the_router { (&network.middle, "cable0") } else { (here, "cable") };
        let Some(mut go) = GoNode::start_in(here, "10.0.0.1:6379") else { return };
        let one = Node::start_in(here, program, "10.0.0.1:6379", 1, OFTEN, &[]);
        let two = Node::start_in(there, program, "10.0.1.1:6379", 2, OFTEN, &[]);
        let all_agree = |go: &mut GoNode| {
            eventually("all know the same", || go.known() == one.known() && agree(&redis, &[&one, &two]));
        };
        let go_errors = |go: &mut GoNode| go.execute("errors").parse::<u64>().unwrap();
        play(&[&one, &two], 1000);
        go.execute("play 1000");
        all_agree(&mut go);
        let before = (one.metric("errors_total"), go_errors(&mut go));
        machine.ip(&format!("link set {cable} down"));
        eventually("it is noticed", || {
            one.metric("errors_total") >= before.0 + 3.0 && go_errors(&mut go) >= before.1 + 3
        });
        // A batch is at most three times as long as all earlier ones of all nodes, here thirty times 300 decisions. So
        // decisions limit the wait, and not time.
        let mut they_differ = || {
            play(&[&one, &two], 300);
            go.execute("play 300");
            one.known() != two.known() && go.known() != one.known()
        };
        let needed = (1..=60).find(|_| they_differ()).expect("they learn by themselves");
        println!("different after {needed} times 300 decisions");
        let (exchanges, put) = (two.metric("exchanges_total"), redis.decisions(1));
        eventually("the other goes on", || two.metric("exchanges_total") >= exchanges + 3.0);
        assert_eq!(redis.decisions(1), put, "nothing was cut");
        let ticket = one.decide();
        two.click(&ticket);
        machine.ip(&format!("link set {cable} up"));
        all_agree(&mut go);
        eventually("the reward has arrived", || one.forwarded()[0] == 1.0);
        go.end();
    }
}

/// Nodes use clocks to measure durations only. The clocks of nodes in C++ and Go, and then that of Redis, jump by ten
/// days repeatedly: nodes decide, count nothing twice, and agree.
#[test]
#[ignore = "half a minute"]
fn jumping_wall_clocks_do_no_harm() {
    if !have("cc") {
        return;
    }
    let jumping = World::of_jumping_clocks();
    let jumps = |clock: &mut dyn FnMut() -> String| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let mut ahead = || clock().trim_end().parse::<i64>().unwrap() - now;
        eventually("it goes back", || ahead() < -400_000);
        eventually("it goes on", || ahead() > 400_000);
    };
    for (nodes, server) in [(&jumping, &World::default()), (&World::default(), &jumping)] {
        let Some((redis, program)) = Redis::start_in(server, &[]) else { return };
        let go = if nodes == &jumping { GoNode::start_with_jumping_clock(&redis) } else { GoNode::start(&redis) };
        let Some(mut go) = go else { return };
        if nodes == &jumping {
            jumps(&mut || run(nodes.command(Path::new("date")).arg("+%s")));
            jumps(&mut || go.execute("clock"));
        } else {
            jumps(&mut || String::from_utf8(redis.ask(&[b"TIME"]).remove(0)).unwrap());
        }
        let start = |number| Node::start_in(nodes, program, redis.socket().to_str().unwrap(), number, OFTEN, &[]);
        let (one, two) = (start(1), start(2));
        for _ in 0..8 {
            play(&[&one, &two], 250);
            go.execute("play 250");
        }
        eventually("all know the same", || go.known() == one.known() && agree(&redis, &[&one, &two]));
        for _ in 0..50 {
            let (to_go, to_one, to_two) = (go.execute("decide"), one.decide(), two.decide());
            go.execute(&format!("update {to_one}"));
            for (node, ticket) in [(&one, &to_go), (&two, &to_go), (&one, &to_two), (&two, &to_one)] {
                node.click(ticket);
            }
        }
        eventually("all is sent", || [&one, &two].iter().all(|node| node.metric("rewards_sent_total") == 100.0));
        eventually("nothing waits", || [1, 2, 9].iter().all(|&node| redis.ask(&[b"XLEN", &stream(node)]) == [b"0"]));
        let received =
            [one.forwarded()[0], two.forwarded()[0], go.execute("rewards").split(' ').nth(1).unwrap().parse().unwrap()];
        if nodes == &jumping {
            assert_eq!(received, [50.0; 3]);
        } else {
            assert!(received.iter().all(|&n| n <= 50.0), "{received:?}"); // an hour of Redis' clock has passed
        }
        for node in [one, two] {
            assert!((0.0..60.0).contains(&node.metric("age_seconds")));
            assert_eq!(node.server.interrupt().0.code(), Some(0));
        }
        go.end();
    }
}

/// Its source file with the format of the data in Redis.
fn go_package() -> Option<String> {
    let source = fs::read_to_string(root().join("bindings/go/fleet/redis.go"));
    if source.is_err() {
        skip("no bindings/go/fleet");
    }
    source.ok()
}
