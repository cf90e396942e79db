//! C++ ad servers that learn together through a real redis-server, also with servers in Go: what an adapter or a server
//! can get wrong. The simulator (tests/simulation) has the protocol. The test reads the data in Redis with its own client.

#[path = "fleet_mixed.rs"]
mod mixed;
#[path = "fleet_stores.rs"]
mod stores;

use super::{CPP, GO, Program, WINDOW, number_field, place, slots, text_field};
use crate::support::http::{PATIENCE, Server, ask, send};
use crate::support::{have, own_address, run, text};
use dpb::Bandit;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

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
    program: &'static str,
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
        Redis::of("redis-server", world, options)
    }

    /// Of this program. Debian 12 has no valkey-server, so nothing requires it.
    fn of(program: &'static str, world: &World, options: &[&str]) -> Option<Redis> {
        if program == "valkey-server" && Command::new(program).arg("--version").output().is_err() {
            eprintln!("skipped: valkey-server not found");
            return None;
        }
        if !have(program) {
            return None;
        }
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // A socket's path must be short.
        let place = std::env::temp_dir().join(format!("dpb-{}-{number}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let options = options.iter().map(|option| option.to_string()).collect();
        let mut redis = Redis { program, world: world.clone(), place, options, process: None };
        redis.begin();
        Some(redis)
    }

    fn begin(&mut self) {
        let mut command = self.world.command(Path::new(self.program));
        command.args(["--save", "", "--appendonly", "no", "--unixsocket", self.socket().to_str().unwrap()]);
        command.args(["--dir", self.place.to_str().unwrap()]).args(&self.options).stdout(Stdio::null());
        command.args(["--user", "tester", "on", "nopass", "~*", "&*", "+@all"]);
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

    /// Sends a command, as a user of its own who may do everything. Returns the texts in the response.
    fn ask(&self, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut connection = BufReader::new(UnixStream::connect(self.socket()).unwrap());
        connection.get_mut().write_all(&[request(&[b"AUTH", b"tester", b""]), request(words)].concat()).unwrap();
        let (mut texts, mut more) = (Vec::new(), 2);
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
        texts.split_off(1)
    }

    /// The snapshot of each node.
    fn snapshots(&self, name: &str) -> BTreeMap<String, Bandit> {
        let texts = self.ask(&[b"HGETALL", format!("dpb:{{{name}}}:snapshots").as_bytes()]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        texts.chunks(2).map(|row| (text(&row[0]), Bandit::restore(&row[1]).unwrap())).collect()
    }

    fn decisions(&self, number: &str) -> Option<u64> {
        Some(self.snapshots("ads").get(number)?.report().unwrap().counts.decisions)
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

/// A network between members and Redis.
struct Proxy {
    path: PathBuf,
    loses: Arc<AtomicBool>, // each fourth reply, and closes its connection
    lost: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(redis: &Redis) -> Proxy {
        let (path, to) = (redis.place.join("proxy"), redis.socket());
        let proxy = Proxy { path, loses: Arc::default(), lost: Arc::default() };
        let (listener, loses, lost) =
            (UnixListener::bind(&proxy.path).unwrap(), proxy.loses.clone(), proxy.lost.clone());
        std::thread::spawn(move || {
            static REPLIES: AtomicUsize = AtomicUsize::new(0);
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = UnixStream::connect(&to) else { continue };
                for (mut from, mut to, is_reply) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap(), false), (server, client, true)]
                {
                    let (loses, lost) = (loses.clone(), lost.clone());
                    std::thread::spawn(move || {
                        let mut bytes = [0; 1 << 16];
                        while let Ok(n @ 1..) = from.read(&mut bytes) {
                            let is_fourth = || REPLIES.fetch_add(1, Ordering::Relaxed) % 4 == 3;
                            let is_lost = is_reply && loses.load(Ordering::Relaxed) && is_fourth();
                            lost.fetch_add(usize::from(is_lost), Ordering::Relaxed);
                            if is_lost || to.write_all(&bytes[..n]).is_err() {
                                break;
                            }
                        }
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        proxy
    }
}

/// What a user of Redis' access control list may do, as docs/operating/fleets.md says.
fn rights() -> String {
    let page = fs::read_to_string(crate::support::root().join("docs/operating/fleets.md")).unwrap();
    page.lines().find_map(|line| line.strip_prefix("user ads on >PASSWORD ")).expect("a line for users.acl").to_owned()
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

    /// By default no outage cancels decisions: a balancer is said to bring each click to its server.
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
        command.args(["--report-every", "0"]);
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
    let snapshots = redis.snapshots("ads");
    let answered: u64 = snapshots.values().map(|bandit| bandit.report().unwrap().counts.answered).sum();
    let released = released(snapshots.values());
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

/// A file with this text that no other user can read. Its path.
fn key_file(name: &str, text: &[u8]) -> String {
    let path = place(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Starts servers of these programs, with numbers from 1 on, when all have met. None if one cannot be built here.
fn meet<const N: usize>(
    programs: [&'static LazyLock<Option<Program>>; N],
    redis: &Redis,
    more: &[&str],
) -> Option<[Node; N]> {
    let mut nodes = Vec::new();
    for (program, number) in programs.into_iter().zip(1..) {
        nodes.push(Node::start(program.as_ref()?, redis, number, OFTEN, more));
    }
    eventually("they have met", || nodes.iter().all(|node| node.metric("nodes") == N as f64));
    nodes.try_into().ok()
}

/// Two servers agree. One is killed, and continues from Redis when its number is free. Redis loses its data, and hangs.
fn servers_agree_after_kills_and_outages(programs: [&'static LazyLock<Option<Program>>; 2]) {
    let Some(mut redis) = Redis::alone(&World::default(), &[]) else { return };
    let Some([one, two]) = meet(programs, &redis, &["--delay", "1000"]) else { return };
    play(&[&one, &two], 2500);
    eventually("both know the same", || agree(&redis, &[&one, &two]));
    assert_eq!(one.metric("incompatible_nodes"), 0.0);
    assert!(one.metric("exchanges_total") > 0.0 && one.metric("age_seconds") >= 0.0);
    play(&[&one, &two], 500);
    let kept = redis.decisions("2").unwrap();
    two.kill();
    let two = Node::start(programs[1].as_ref().unwrap(), &redis, 2, OFTEN, &[]);
    let continued = two.decisions();
    assert!((kept..=3000).contains(&continued) && kept >= 2500, "{kept} {continued}");
    play(&[&one, &two], 500);
    eventually("both know the same again", || {
        redis.decisions("2") == Some(continued + 500) && agree(&redis, &[&one, &two])
    });

    let alone = |nodes: &[&Node]| {
        for node in nodes {
            let errors = node.metric("failures_total");
            play(&[node], 300);
            eventually("it has tried", || node.metric("failures_total") >= errors + 3.0);
        }
    };
    redis.kill();
    alone(&[&one, &two]);
    redis.begin();
    let three = Node::start(programs[0].as_ref().unwrap(), &redis, 3, OFTEN, &[]);
    play(&[&three], 10);
    eventually("all know the same", || agree(&redis, &[&one, &two, &three]) && redis.snapshots("ads").len() == 3);
    assert!(three.known().iter().sum::<f64>() > 1000.0, "also the node that joined last");
    redis.signal(libc::SIGSTOP);
    alone(&[&one, &two, &three]);
    redis.signal(libc::SIGCONT);
    eventually("all know the same again", || agree(&redis, &[&one, &two, &three]));
    for node in [one, two, three] {
        assert_eq!(node.server.interrupt().0.code(), Some(0));
    }
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn nodes_in_go_and_cpp_agree() {
    servers_agree_after_kills_and_outages([&GO, &CPP]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn a_node_saves_when_it_ends_even_if_redis_hangs() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let start = || Node::start(program, &redis, 1, NEVER, &[]);
    let one = start();
    play(&[&one], 100);
    assert_eq!(redis.decisions("1"), Some(0));
    assert_eq!(one.server.interrupt().0.code(), Some(0));
    assert_eq!(redis.decisions("1"), Some(100));
    let one = start();
    assert_eq!(one.decisions(), 100);
    redis.signal(libc::SIGSTOP);
    assert_eq!(one.server.interrupt().0.code(), Some(0));
}

/// The file of a server may count more than its snapshot in Redis, or less.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_node_continues_from_its_file_or_from_redis() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let file = place("fleet");
    let start = || Node::start(program, &redis, 1, OFTEN, &["--snapshot", file.to_str().unwrap()]);
    let node = start();
    play(&[&node], 1500);
    assert_eq!(node.server.interrupt().0.code(), Some(0));
    redis.ask(&[b"FLUSHALL"]);
    let beside = |more: &str| PathBuf::from(format!("{}{more}", file.display()));
    let states = [".state", ".state.new", ".state.opened"].map(beside);
    let others = [".state.backup", ".states"].map(beside);
    states.iter().chain(&others).for_each(|name| fs::write(name, "").unwrap());
    let node = start();
    assert_eq!(node.decisions(), 1500, "from its file");
    assert!(!states.iter().any(|name| name.exists()), "a state of before the fleet");
    assert!(others.iter().all(|name| name.exists()), "a file that is no state");
    let old = fs::read(&file).unwrap();
    play(&[&node], 1500);
    assert_eq!(node.server.interrupt().0.code(), Some(0));
    fs::write(&file, old).unwrap();
    assert_eq!(start().decisions(), 3000, "from Redis");
}

/// A given number belongs to the process that has it. While Redis is away, that is not ready, and decides. When another
/// process has its number, it must end.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_number_has_one_process() {
    let Some((mut redis, program)) = Redis::start(&[]) else { return };
    let one = Node::start(program, &redis, 1, OFTEN, &["--delay", "100"]);
    let at = redis.socket();
    let options = ["--port", "0", "--redis", at.to_str().unwrap(), "--node", "1", "--delay", "100"];
    let (code, said) = program.refuses(&options);
    assert!(code == Some(1) && said.contains("the number is another process's"), "{code:?} {said}");
    assert_eq!(one.get("/healthz").0, 200);
    redis.kill();
    eventually("it is not ready", || one.get("/readyz").0 == 503);
    assert_eq!((one.get("/healthz").0, one.get("/ad").0), (200, 200));
    redis.begin();
    eventually("it is ready again", || one.get("/readyz").0 == 200);
    redis.ask(&[b"HSET", b"dpb:{ads}:records", b"1", b"9 7 0 0 0"]);
    eventually("it must end", || one.get("/healthz").0 == 503 && one.get("/readyz").0 == 503);
}

/// Servers take the lowest number that nobody has, and continue what was released under it.
fn servers_take_the_lowest_number(programs: [&'static LazyLock<Option<Program>>; 2]) {
    let [Some(first), Some(second)] = programs.map(|program| program.as_ref()) else { return };
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let start = |program, more: &[&str]| Node::start(program, &redis, 9, OFTEN, &[&["--node", "auto"], more].concat());
    let (one, two) = (start(first, &[]), start(second, &[]));
    assert!(one.decide().starts_with("0001") && two.decide().starts_with("0002"));
    play(&[&one], 99);
    assert_eq!(one.server.interrupt().0.code(), Some(0));
    let again = start(second, &["--placements", "2"]);
    assert!(again.decide().starts_with("0001") && again.decisions() == 101, "{}", again.decisions());
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

#[test]
#[ignore = "compiles the C++ ad server"]
fn a_node_that_cannot_join_says_why() {
    let ((host, port), (nobody, _)) = (own_address(), own_address());
    let options = ["--bind", &host, "--port", &port, "--requirepass", "open sesame"];
    let Some((redis, program)) = Redis::start(&options) else { return };
    let [at, nobody] = [host, nobody].map(|host| format!("{host}:{port}"));
    let file = |name: &str, text: &str| {
        let path = place(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [right, wrong] = [file("right", "open sesame\r\n"), file("wrong", "abracadabra\n")];
    let [empty, theirs] = [file("empty", "\r\n"), file("theirs", "letmein\n")];
    // A user who has the keys of one bandit only.
    let user = format!("ACL SETUSER ads on >letmein {}", rights().replace("dpb:{ads}", "dpb:{b.2}"));
    redis.ask(&user.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    let start = |more: &[&str]| {
        drop(Server::start(
            program.command().args(["--redis", &at, "--port", "0", "--bandit", "b.2", "--delay", "80"]).args(more),
        ));
    };
    start(&["--node", "auto", "--redis-user", "ads", "--redis-password-file", &theirs]);
    start(&["--node", "7", "--redis-password-file", &right]);
    std::thread::scope(|scope| {
        for (address, more, says) in [
            (&at, &[] as &[&str], "redis: NOAUTH"),
            (&at, &["--redis-password-file", &wrong], "redis: WRONGPASS"),
            (&at, &["--redis-user", "ads", "--redis-password-file", &wrong], "redis: WRONGPASS"),
            (&at, &["--redis-user", "ads", "--redis-password-file", &theirs], "redis: NOPERM"), // another bandit's keys
            (&at, &["--redis-password-file", &empty], "no password"),
            (&at, &["--redis-password-file", &right, "--policy", "dp-se", "--memory", "0"], "does not support"),
            (
                &at,
                &["--redis-password-file", &right, "--policy", "dp-med", "--bandit", "b.2"],
                "7: policy must be dp-imed, as in the snapshot, got dp-med",
            ),
            (&nobody, &["--redis-password-file", &right], "Connection refused"),
        ] {
            let options = [&["--port", "0", "--redis", address, "--node", "7", "--delay", "80"], more].concat();
            scope.spawn(move || {
                let (code, said) = program.refuses(&options);
                assert!(code == Some(1) && said.contains(says), "{options:?} {code:?} {said}");
                assert!(!said.contains("sesame") && !said.contains("abracadabra"), "{said}");
            });
        }
    });

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
    for (option, values) in [
        ("--redis", &["", "host", ":6379", "host:", "host:65536"] as &[_]),
        ("--node", &["0", "32768", "65536", "-1", "x"]),
        ("--bandit", &["", "a b", "a}", "a\""]),
        ("--merge-every", &["0", "x"]),
        ("--delay", &["79", "x"]),
        ("--send-rate", &["0", "x"]),
    ] {
        values.iter().for_each(|value| usage(&["--redis", &at, "--node", "7", option, value]));
    }
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn a_file_that_is_no_secret_key_is_refused() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let at = redis.socket();
    let refused = |key: &str| {
        let options = ["--redis", at.to_str().unwrap(), "--node", "7", "--fleet-key-file", key];
        let (code, error) = program.refuses(&options);
        assert_eq!(code, Some(1), "{error}");
        error
    };
    for (i, text) in [&[7u8; 31] as &[u8], &[7; 33], &[b'a'; 63], &[b'a'; 66], &[b'g'; 64], b""].into_iter().enumerate()
    {
        let key = key_file(&format!("wrong{i}"), text);
        assert!(refused(&key).contains("not a fleet key"), "{text:?}");
    }
    assert!(refused("/nowhere/at/all").contains("cannot be read"));
    let key = key_file("open", &[7; 32]);
    for mode in [0o640, 0o604] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        assert!(refused(&key).contains("other users can read it"), "{mode:o}");
    }
    let (code, error) = program.refuses(&["--fleet-key-file", &key]);
    assert!(code == Some(2) && error.contains("--fleet-key-file"), "only with --redis: {error}");
}

/// One server releases what all collect. When it ends, it hands over what it has collected, and another one leads.
fn one_releases_what_all_collect(programs: [&'static LazyLock<Option<Program>>; 3]) {
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let key = key_file("one", b"00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\r\n"); // as on Windows
    let Some([one, two, three]) = meet(programs, &redis, &["--fleet-key-file", &key, "--delay", "1000"]) else {
        return;
    };
    let leads = |nodes: &[&Node]| nodes.iter().map(|node| node.metric("leads")).sum::<f64>();
    eventually("the first leads", || one.metric("leads") == 1.0 && leads(&[&two, &three]) == 0.0);
    let releasing = || -> Vec<String> {
        let has_released = |bandit: &Bandit| released([bandit].into_iter()).iter().sum::<f64>() > 0.0;
        redis
            .snapshots("ads")
            .iter()
            .filter(|(_, bandit)| has_released(bandit))
            .map(|(number, _)| number.clone())
            .collect()
    };
    let mut visitors = WINDOW as f64;
    // More than the leader has collected. (An open batch may have three times as many rewards as were released.)
    eventually("what others have collected is released", || {
        play(&[&one, &two, &three], 200);
        visitors += 200.0;
        three.known().iter().sum::<f64>() > visitors / 2.0 + 1500.0 && two.metric("contributions_total") > 0.0
    });
    assert_eq!((releasing(), one.metric("contributions_total")), (vec!["1".to_owned()], 0.0));

    let known = three.known().iter().sum::<f64>();
    let combined = || {
        let count = |node: &Node| {
            let (_, _, page) = send(&node.operator, "GET", "/metrics", "");
            let line = page.lines().find_map(|line| line.strip_prefix("dpb_contributions_total{bandit=\"ads\"} "));
            line.expect("the metric").parse::<f64>().unwrap()
        };
        count(&two) + count(&three)
    };
    assert_eq!(combined(), 0.0);
    play(&[&one], WINDOW + 53);
    assert_eq!(one.server.interrupt().0.code(), Some(0));
    eventually("the heir has it", || leads(&[&two, &three]) == 1.0 && combined() >= 1.0);
    eventually("they learn again", || {
        play(&[&two, &three], 200);
        two.known().iter().sum::<f64>() > known + 1000.0
    });
    assert_eq!(releasing().len(), 2);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn one_server_releases_what_go_and_cpp_collect() {
    one_releases_what_all_collect([&GO, &CPP, &GO]);
    one_releases_what_all_collect([&CPP, &GO, &CPP]);
}

/// A server that ends leaves its open decisions to another one, and that one to a third. Clicks for them count once,
/// wherever they arrive and whoever has the decisions, and are learned.
fn another_server_continues(programs: [&'static LazyLock<Option<Program>>; 3]) {
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let key = key_file("wards", &[7; 32]);
    let more = ["--fleet-key-file", &key, "--delay", "10000", "--merge-every", "500"]; // no outage on a busy machine
    let Some([one, two]) = meet([programs[0], programs[1]], &redis, &more) else { return };
    eventually("the first leads", || one.metric("leads") == 1.0);
    let tickets: Vec<_> = (0..WINDOW).map(|_| two.decide()).collect();
    let click =
        |node: &Node, clicks: std::ops::Range<usize>| tickets[clicks].iter().for_each(|ticket| node.click(ticket));
    // After a timeout on a busy machine, a server sends clicks again. They are refused.
    click(&one, 0..100);
    eventually("they count", || two.forwarded()[0] == 100.0);
    assert_eq!(two.server.interrupt().0.code(), Some(0));
    eventually("the first continues", || one.metric("draining") == 1.0);
    click(&one, 0..300);
    eventually("each counts once", || one.forwarded()[1] >= 100.0 && one.forwarded().iter().sum::<f64>() >= 300.0);
    assert_eq!(one.forwarded()[0], 200.0);
    let Some(third) = programs[2].as_ref() else { return };
    let three = Node::start(third, &redis, 3, OFTEN, &more);
    eventually("they have met", || one.metric("nodes") == 2.0 && three.metric("nodes") == 2.0);
    assert_eq!(one.server.interrupt().0.code(), Some(0));
    eventually("the third continues", || three.metric("draining") >= 1.0 && three.metric("leads") == 1.0);
    click(&three, 0..500);
    eventually("they are read", || three.forwarded()[1] >= 300.0 && three.forwarded().iter().sum::<f64>() >= 500.0);
    assert_eq!(three.forwarded()[0], 200.0);
    play(&[&three], WINDOW + 100);
    eventually("nothing is open any more", || three.metric("draining") == 0.0);
    let known = || three.known().iter().sum::<f64>();
    eventually("they are learned", || known() > 250.0); // a third of what is collected is released
    assert!(known() <= (WINDOW + 100) as f64, "{}", known());
}

#[test]
#[ignore = "seven seconds"]
fn another_go_server_continues() {
    another_server_continues([&GO, &GO, &GO]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn servers_in_go_and_cpp_continue_each_other() {
    another_server_continues([&GO, &CPP, &GO]);
    another_server_continues([&CPP, &GO, &CPP]);
}

/// Two servers with three placements, each with visitors in two of them. All clicks come to the other server, and count
/// once, at the server that showed the ad. Both have the same evidence for all placements. One server ends, and continues
/// in another period.
fn nodes_share_placements(programs: [&'static LazyLock<Option<Program>>; 2], more: &[&str]) {
    const NAME: &str = "ads-placements";
    const PLACEMENTS: u64 = 3;
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let options = [&["--placements", "3"], more].concat();
    let Some([one, two]) = meet(programs, &redis, &options) else { return };
    let learn = |nodes: [&Node; 2]| {
        let is = |node: &&Node| node.metric_of(NAME, "nodes") == 2.0 && node.metric_of(NAME, "learns") == 1.0;
        eventually("they have met, and Redis has kept a snapshot", || nodes.iter().all(is));
    };
    learn([&one, &two]);
    let clicks =
        |node: &Node| ["received", "refused"].map(|what| node.metric_of(NAME, &format!("rewards_{what}_total")));
    let sees = |node: &Node, other: &Node, places: [u64; 2], people: std::ops::Range<u64>| {
        let mut here = BufReader::new(node.server.connect());
        let mut there = BufReader::new(other.server.connect());
        let mut clicked = clicks(node)[0];
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
                eventually("the clicks are there", || clicks(node)[0] == clicked);
            }
        }
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
        let snapshots = redis.snapshots(NAME);
        assert!(snapshots.keys().all(|number| number == "32769" || number == "32770"));
        snapshots.len() == 2
            && (0..PLACEMENTS).all(|place| {
                let mut released = vec![0.0; 10];
                for bandit in snapshots.values() {
                    // A node that has never seen this placement has released nothing for it.
                    let _ = bandit.for_each_arm_in(place, |i, arm| released[i as usize] += arm.effective_pulls);
                }
                let knows =
                    |node: &Node| pulls(node, place).iter().zip(&released).all(|(x, y)| (x - y).abs() <= 1e-9 * y);
                released.iter().sum::<f64>() > 100.0 && knows(one) && knows(two)
            })
    };
    eventually("both know the same of all placements", || agree(&one, &two));
    let spent = |place: &Value| place["epsilon_spent"].as_f64().unwrap();
    let before = spent(&read(&one, 0));
    assert_eq!(two.server.interrupt().0.code(), Some(0));
    let at = redis.socket();
    let second = programs[1].as_ref().unwrap();
    let fewer = ["--port", "0", "--memory", "0", "--redis", at.to_str().unwrap(), "--node", "2", "--placements", "2"];
    let (code, error) = second.refuses(&fewer);
    assert!(code == Some(1) && error.contains("max_segments must be at least 3"), "{code:?} {error}");
    let two = Node::start(second, &redis, 2, OFTEN, &options);
    learn([&one, &two]);
    assert!(before < 1.01 && spent(&read(&two, 0)) > 1.99, "{before} {}", read(&two, 0));
    assert_eq!(two.get("/ads?placement=0&slots=1&user=00000000000000ff").0, 200);
    eventually("it knows again", || agree(&one, &two));
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn cpp_nodes_share_placements() {
    nodes_share_placements([&CPP, &CPP], &[]);
}

#[test]
#[ignore = "twenty seconds"]
fn go_nodes_share_placements() {
    nodes_share_placements([&GO, &GO], &[]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn go_and_cpp_nodes_share_placements() {
    let key = key_file("placements", &[7; 32]);
    nodes_share_placements([&GO, &CPP], &["--fleet-key-file", &key]);
}

/// A server stands still, and is back: it and the other one notice. It is killed, and is gone after 30 delays. A server
/// that ends is no outage.
#[test]
#[ignore = "compiles the C++ ad server"]
fn a_missing_node_is_waited_for_and_then_dropped() {
    let Some((redis, program)) = Redis::start(&[]) else { return };
    let options = ["--delay", "200", "--window", "400ms"];
    let (one, log) = Node::start_and_log(program, &redis, 1, &options);
    let logged = |what: &str| fs::read_to_string(&log).unwrap().contains(what);
    let start = || {
        let two = Node::start(program, &redis, 2, OFTEN, &options);
        eventually("they have met", || one.metric("nodes") == 2.0 && one.metric("outage") == 0.0);
        two
    };
    let two = start();
    two.server.signal(libc::SIGSTOP);
    let ticket = one.decide();
    eventually("its beats are missing", || one.metric("outage") == 1.0);
    assert!(logged("cancels decisions"));
    two.server.signal(libc::SIGCONT);
    eventually("it is back", || one.metric("outage") == 0.0 && two.metric("outage") == 0.0);
    let late = || number_field(&send(&one.operator, "GET", "/diagnostics", "").2, "duplicates").unwrap();
    let before = late();
    one.click(&ticket);
    assert_eq!(late(), before + 1.0, "its silence did not count: it was cancelled");
    two.kill();
    eventually("its beats are missing again", || one.metric("outage") == 1.0);
    eventually("it is gone", || one.metric("outage") == 0.0 && logged("node 2 is gone"));
    let two = start();
    let outages = one.metric("outages_total");
    assert_eq!(two.server.interrupt().0.code(), Some(0));
    eventually("it has left", || one.metric("nodes") == 1.0);
    assert_eq!(one.metric("outages_total"), outages);
}

/// With --click-delay an outage cancels only what was made so long before the last beat of the other server, or later.
fn an_outage_cancels_what_is_newer_than_the_click_delay(programs: [&'static LazyLock<Option<Program>>; 2]) {
    let Some(redis) = Redis::alone(&World::default(), &[]) else { return };
    let delay = Duration::from_millis(1000);
    let Some([one, two]) = meet(programs, &redis, &["--delay", "1000", "--click-delay", "5"]) else { return };
    for wrong in [["--click-delay", "x"], ["--click-delay", "30s"]] {
        let (code, said) = programs[0].as_ref().unwrap().refuses(&wrong); // the window is in decisions
        assert_eq!(code, Some(2), "{said}");
    }
    let late = || number_field(&send(&one.operator, "GET", "/diagnostics", "").2, "duplicates").unwrap();
    let travel = || {
        for (from, to) in [(&one, &two), (&two, &one)] {
            let received = to.forwarded()[0];
            from.click(&to.decide());
            eventually("a click has arrived", || to.forwarded()[0] > received);
        }
    };
    let early = one.decide();
    play(&[&one], 20);
    // Both have beaten since, and a delay later again: whatever is late from now on, it was not when `early` was made.
    travel();
    std::thread::sleep(delay);
    travel();
    let (theirs, sent, outages) = (two.decide(), one.metric("rewards_sent_total"), one.metric("outages_total"));
    two.server.signal(libc::SIGSTOP);
    one.click(&theirs);
    eventually("a round that began later", || one.metric("rewards_sent_total") > sent);
    let recent = one.decide();
    play(&[&one], WINDOW / 8 + 50);
    eventually("its beats are missing", || one.metric("outages_total") > outages);
    let before = late();
    one.click(&early);
    assert_eq!(late(), before, "not cancelled");
    one.click(&recent);
    assert_eq!(late(), before + 1.0, "cancelled");
}

#[test]
fn an_outage_cancels_what_is_newer_than_the_click_delay_of_a_go_server() {
    an_outage_cancels_what_is_newer_than_the_click_delay([&GO, &GO]);
}

#[test]
#[ignore = "compiles the C++ ad server"]
fn an_outage_cancels_what_is_newer_than_the_click_delay_of_a_cpp_server() {
    an_outage_cancels_what_is_newer_than_the_click_delay([&CPP, &CPP]);
}

/// Redis is reached over two connections. The first one is cut, at either end. Both servers continue to decide, the one
/// that is not cut off continues to exchange releases, and afterwards they agree.
#[test]
#[ignore = "compiles the C++ ad server"]
fn nodes_agree_after_a_cable_was_cut() {
    for cuts_the_router in [false, true] {
        let Some(network) = Network::new() else { return };
        let options = ["--port", "6379", "--bind", "10.0.0.1", "10.0.1.1", "--protected-mode", "no"];
        let Some((redis, program)) = Redis::start_in(&network.middle, &options) else { return };
        let [here, there] = &network.ends;
        let (machine, cable) = if cuts_the_router { (&network.middle, "cable0") } else { (here, "cable") };
        let one = Node::start_in(here, program, "10.0.0.1:6379", 1, OFTEN, &[]);
        let two = Node::start_in(there, program, "10.0.1.1:6379", 2, OFTEN, &[]);
        play(&[&one, &two], 2000);
        eventually("both know the same", || agree(&redis, &[&one, &two]));
        let errors = one.metric("failures_total");
        machine.ip(&format!("link set {cable} down"));
        eventually("it is noticed", || one.metric("failures_total") >= errors + 3.0);
        play(&[&one, &two], 300);
        let (exchanges, put) = (two.metric("exchanges_total"), redis.decisions("1"));
        eventually("the other goes on", || two.metric("exchanges_total") >= exchanges + 3.0);
        assert_eq!(redis.decisions("1"), put, "nothing was cut");
        let ticket = one.decide();
        two.click(&ticket);
        machine.ip(&format!("link set {cable} up"));
        eventually("both know the same again", || agree(&redis, &[&one, &two]));
        eventually("the reward has arrived", || one.forwarded()[0] == 1.0);
    }
}
