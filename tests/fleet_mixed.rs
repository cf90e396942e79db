//! One fleet of servers in Go and C++ and of programs in Python, Rust and Java, through a real redis-server or valkey-server.

use super::*;
use crate::java::{java, program};
use crate::python::long_environment;
use crate::support::http::wait;
use crate::support::{library_dir, root};
use std::process::{ChildStdin, ChildStdout};

/// The same program as examples/fleet, in Python. Its address is a socket, a server or, with commas, those of a cluster.
const PYTHON: &str = r#"
import os, sys, dpb, redis, redis.cluster, redis.sentinel
from dpb import fleet
from urllib.parse import urlsplit
address, key, *tls = sys.argv[1:]
servers = [server.rsplit(":", 1) for server in address.split(",")]
user = dict(username=os.environ.get("REDIS_USER"), password=os.environ.get("REDIS_PASSWORD"))
once = dict(socket_timeout=1, retry=None, **user)
if "sentinel" in address:
    at = urlsplit(address)
    client = redis.sentinel.Sentinel([(at.hostname, at.port)], **once).master_for(at.fragment, **once)
elif "/" in address:
    client = redis.Redis(unix_socket_path=address, **once)
elif len(servers) == 1:
    secure = dict(zip(["ssl_ca_certs", "ssl_certfile"], tls), ssl=bool(tls))
    client = redis.Redis(*servers[0], **once, **secure)
else:
    client = redis.RedisCluster(startup_nodes=[redis.cluster.ClusterNode(*server) for server in servers], socket_timeout=5)
key = open(key, "rb").read()
config = dpb.Config(10, 1.0, reward_bits=0, reward_window=1000, forget_after=50_000, fleet_key=key)
with fleet.Node(client, "ads", config) as node:
    print("joined", flush=True)
    for line in sys.stdin:
        word, *ticket = line.split()
        said = "thanks"
        if word == "ad":
            ad = node.select()
            said = f"ad {ad.arm} ticket {ad.ticket:016x}"
        elif word == "click":
            node.update(int(ticket[0], 16), 1.0)
        else:
            report, clicks = node.report(), node.diagnostics()
            said = f"node {report.number} of {report.nodes} leader {report.leader}"
            said += f" incompatible {report.incompatible} outages {report.outages} received {clicks.received}"
            said += f" refused {clicks.refused} failures {clicks.failures}"
        print(said, flush=True)
"#;

/// The same in Java.
const JAVA: &str = r#"
import io.github.libdpb.*;
import io.github.libdpb.fleet.*;
import io.lettuce.core.*;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.ByteArrayCodec;
import java.io.*;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;

class Member {
    static RedisURI server(String address) {
        int colon = address.lastIndexOf(':');
        return RedisURI.create(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
    }

    static Store store(String[] arguments) {
        String[] servers = arguments[0].split(",");
        if (servers.length > 1) {
            RedisClusterClient client = RedisClusterClient.create(Arrays.stream(servers).map(Member::server).toList());
            return new Redis(() ->
                    client.refreshPartitionsAsync().thenCompose(known -> client.connectAsync(ByteArrayCodec.INSTANCE)));
        }
        RedisClient client = RedisClient.create();
        RedisURI at = arguments[0].contains("sentinel") ? RedisURI.create(arguments[0])
                : arguments[0].contains("/") ? RedisURI.Builder.socket(arguments[0]).build() : server(arguments[0]);
        if (System.getenv("REDIS_USER") instanceof String user) {
            at.setCredentialsProvider(new StaticCredentialsProvider(user, System.getenv("REDIS_PASSWORD").toCharArray()));
        }
        if (arguments.length > 2) {
            at.setSsl(true);
            SslOptions tls = SslOptions.builder().trustManager(new File(arguments[2]))
                    .keyManager(new File(arguments[3]), new File(arguments[3]), null).build();
            client.setOptions(ClientOptions.builder().sslOptions(tls).build());
        }
        return new Redis(() -> client.connectAsync(ByteArrayCodec.INSTANCE, at));
    }

    public static void main(String[] arguments) throws Exception {
        Store store = store(arguments);
        Config config = new Config(10, 1.0).rewardBits(0).rewardWindow(1000).forgetAfter(50_000)
                .fleetKey(FleetKey.read(Path.of(arguments[1])));
        try (Node node = Node.join(store, null, config, new NodeOptions("ads"), Duration.ofMinutes(5))) {
            System.out.println("joined");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "ad" -> {
                        Decision ad = node.bandit().select(new Decision());
                        System.out.printf("ad %d ticket %016x%n", ad.arm(), ad.ticket());
                    }
                    case "click" -> {
                        node.update(Long.parseUnsignedLong(words[1], 16), 1.0);
                        System.out.println("thanks");
                    }
                    default -> {
                        NodeReport report = node.report();
                        NodeDiagnostics clicks = node.diagnostics();
                        System.out.printf(
                                "node %d of %d leader %d incompatible %d outages %d received %d refused %d failures %d%n",
                                report.number(), report.nodes(), report.leader(), report.incompatible(), report.outages(),
                                clicks.received(), clicks.refused(), clicks.failures());
                    }
                }
            }
        }
        System.exit(0); // the client has threads
    }
}
"#;

/// Lettuce needs its own library for a socket of Unix.
static JAVA_PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let system = if cfg!(target_arch = "x86_64") { "linux-x86_64" } else { "linux-aarch_64" };
    let epoll = format!("io.netty:netty-transport-native-epoll:4.2.13.Final:{system}");
    program("member", &["dpb-fleet", &epoll], "Member", &[("java/Member.java", JAVA)], "")
});

/// The example in Rust.
static RUST: LazyLock<PathBuf> = LazyLock::new(|| {
    let profile = library_dir().parent().unwrap().to_path_buf();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["build", "-q", "--locked", "-p", "dpb-fleet", "--example", "fleet", "--profile"]);
    cargo.arg(if profile.ends_with("debug") { "dev" } else { "release" });
    run(cargo.arg("--target-dir").arg(profile.parent().unwrap()));
    profile.join("examples/fleet")
});

/// A program that obeys lines, until its input ends.
pub(super) struct Lines {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Lines {
    fn start(command: &mut Command) -> Lines {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let mut program = Lines { process, input, output };
        assert_eq!(program.line(), "joined");
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        self.line()
    }

    /// A number in its report.
    fn number(&mut self, name: &str) -> f64 {
        let report = self.ask("report");
        let words: Vec<_> = report.split(' ').collect();
        let at = words.iter().position(|word| *word == name).unwrap_or_else(|| panic!("{report}"));
        words[at + 1].parse().unwrap()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A node of the fleet, and what it has logged.
pub(super) struct Member {
    program: Kind,
    log: PathBuf,
}

enum Kind {
    Server(Box<Node>),
    Lines(Lines),
}

impl Member {
    fn decide(&mut self) -> String {
        match &mut self.program {
            Kind::Server(server) => server.decide(),
            Kind::Lines(program) => program.ask("ad").rsplit(' ').next().unwrap().to_owned(),
        }
    }

    fn click(&mut self, ticket: &str) {
        match &mut self.program {
            Kind::Server(server) => server.click(ticket),
            Kind::Lines(program) => assert_eq!(program.ask(&format!("click {ticket}")), "thanks"),
        }
    }

    /// A number in its report, by its name there and among the metrics of a server.
    fn number(&mut self, (name, metric): (&str, &str)) -> f64 {
        match &mut self.program {
            Kind::Server(server) => server.metric(metric),
            Kind::Lines(program) => program.number(name),
        }
    }

    fn leads(&mut self) -> bool {
        match &mut self.program {
            Kind::Server(server) => server.metric("leads") == 1.0,
            Kind::Lines(program) => program.number("node") == program.number("leader"),
        }
    }

    /// The errors of the store that it has logged.
    fn errors(&self) -> String {
        let said = String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned();
        said.lines()
            .filter_map(|line| line.split_once("this node tries again: "))
            .map(|(_, why)| why.to_owned() + "\n")
            .collect()
    }

    /// Ends it as planned.
    fn end(self) {
        match self.program {
            Kind::Server(server) => assert_eq!(server.server.interrupt().0.code(), Some(0)),
            Kind::Lines(mut program) => {
                program.input = None;
                assert!(wait(&mut program.process).success());
            }
        }
    }
}

const NODES: (&str, &str) = ("of", "nodes");
const INCOMPATIBLE: (&str, &str) = ("incompatible", "incompatible_nodes");
const OUTAGES: (&str, &str) = ("outages", "outages_total");
const RECEIVED: (&str, &str) = ("received", "rewards_received_total");
const REFUSED: (&str, &str) = ("refused", "rewards_refused_total");
const FAILURES: (&str, &str) = ("failures", "failures_total");

/// Makes members of a fleet, of the programs of these languages that can be built here, and returns them when they have met.
/// `tls`: none, or a file with the authorities and one with the member's own certificate and its key. Each second one has no
/// password where `users` is true, and the others are Redis' user ads with the password "right".
pub(super) fn meet_in(languages: &[&str], at: &str, tls: &[&str], users: bool) -> Vec<Member> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let (key, password) = (key_file("mixed", &[7; 32]), key_file("mixed-password", b"right\n"));
    let servers = ["--fleet-key-file", &key, "--delay", "1000", "--memory", "50000"];
    let named = ["--redis-user", "ads", "--redis-password-file", &password];
    let mut members = Vec::new();
    // Numbers are given first, and then the lowest that is free.
    for (language, number) in languages.iter().zip(1..) {
        let is_user = users && number % 2 == 1;
        let log = place(&format!("mixed-log{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let file = || fs::File::create(&log).unwrap();
        let server = |program: &Program| {
            let more = [&servers[..], &tls_options(tls), if is_user { &named } else { &[] }].concat();
            let world = World::default();
            Kind::Server(Node::start_as(&world, program, at, number, "5000", &more, file().into()).into())
        };
        let lines = |program: &mut Command| {
            let user = [("REDIS_USER", "ads"), ("REDIS_PASSWORD", "right")].into_iter().filter(|_| is_user);
            Kind::Lines(Lines::start(program.envs(user).stderr(file())))
        };
        let start = |program: &mut Command| lines(program.args([at, &key]).args(tls));
        let hiredis = if tls.is_empty() { &stores::PROGRAM } else { &stores::SECURE };
        let program = match *language {
            "Go" => GO.as_ref().map(server),
            "C++" => CPP.as_ref().map(server),
            "hiredis" => hiredis.as_ref().map(|path| start(&mut Command::new(path))),
            "Python" => long_environment()
                .map(|environment| start(Command::new(environment.join("bin/python")).args(["-c", PYTHON]))),
            "Java" => JAVA_PROGRAM.as_ref().map(|jar| start(&mut java(jar, &[]))),
            _ => {
                let at = format!("unix://{at}{}", if is_user { "?user=ads&pass=right" } else { "" });
                Some(lines(Command::new(RUST.as_path()).args([&at, "ads", &key])))
            }
        };
        members.extend(program.map(|program| Member { program, log }));
    }
    all_know_all(&mut members);
    members
}

fn all_know_all(members: &mut [Member]) {
    let count = members.len() as f64;
    eventually("they have met", || members.iter_mut().all(|member| member.number(NODES) == count));
}

/// The options of a server for these files.
pub(super) fn tls_options<'a>(tls: &[&'a str]) -> Vec<&'a str> {
    ["--redis-ca-file", "--redis-certificate-file"]
        .into_iter()
        .zip(tls)
        .flat_map(|(name, file)| [name, *file])
        .collect()
}

/// How often `click` can be called: no member makes more decisions than an eighth of a window in all, so no delay on a busy
/// machine cancels any.
const PASSES: usize = 11;

/// Clicks on each member's ads come to each other member. They count, each once, after the second function has ended what
/// the first one has begun; in the last pass some may be of decisions that an outage has cancelled.
pub(super) fn click(members: &mut [Member], pass: usize, begin: impl FnOnce(&mut [Member]), end: impl FnOnce()) {
    let each = WINDOW / 8 / PASSES / members.len().max(1);
    begin(members);
    for from in 0..members.len() {
        for to in (0..members.len()).filter(|to| *to != from) {
            for _ in 0..each {
                let ticket = members[from].decide();
                members[to].click(&ticket);
            }
        }
    }
    end();
    let all = (pass * each * (members.len() - 1)) as f64;
    let mut come = |what: &[_]| -> Vec<f64> {
        members.iter_mut().map(|member| what.iter().map(|what| member.number(*what)).sum()).collect()
    };
    eventually("all clicks come", || come(&[RECEIVED, REFUSED]).iter().all(|clicks| *clicks == all));
    assert!(pass == PASSES || come(&[REFUSED]).iter().all(|clicks| *clicks == 0.0), "{:?}", come(&[REFUSED]));
}

/// The one that leads ends, and then all others at once but one, which continues.
pub(super) fn leave(mut members: Vec<Member>) {
    let incompatible: Vec<_> = members.iter_mut().map(|member| member.number(INCOMPATIBLE)).collect();
    assert!(incompatible.iter().all(|count| *count == 0.0), "another configuration: {incompatible:?}");
    if members.len() > 1 {
        eventually("one leads", || members.iter_mut().map(Member::leads).filter(|leads| *leads).count() == 1);
        let leader = members.iter_mut().position(Member::leads).unwrap();
        members.remove(leader).end();
    }
    let _last = members.pop();
    std::thread::scope(|scope| members.into_iter().for_each(|member| drop(scope.spawn(|| member.end()))));
}

const STOP: &str = "it stands still";
const CONTINUE: &str = "it goes on";
const LOSE: &str = "each fourth reply is lost, with its connection";
const KEEP: &str = "no reply is lost";

/// What happens to the store, until what; and what each member then logs, whatever its client calls the error.
const FAULTS: [(&str, Option<&str>, &str); PASSES] = [
    ("PING", None, ""),
    ("SCRIPT FLUSH", None, ""),
    ("CLIENT KILL TYPE normal", None, ""),
    (LOSE, Some(KEEP), ""),
    ("REPLICAOF 127.0.0.1 1", Some("REPLICAOF NO ONE"), "a read only replica"),
    ("CONFIG SET maxmemory 1", Some("CONFIG SET maxmemory 0"), "used memory > 'maxmemory'"),
    (
        "ACL SETUSER default -evalsha -eval;ACL SETUSER ads -evalsha -eval",
        Some("ACL SETUSER default +evalsha +eval;ACL SETUSER ads +evalsha +eval"),
        "no permissions to run the 'evalsha' command",
    ),
    (
        "ACL SETUSER default -hset;ACL SETUSER ads -hset",
        Some("ACL SETUSER default +hset;ACL SETUSER ads +hset"),
        "can't run this command",
    ),
    (
        "ACL SETUSER default resetpass;ACL SETUSER ads resetpass >other;CLIENT KILL TYPE normal",
        Some("ACL SETUSER default nopass;ACL SETUSER ads resetpass >right"),
        "NOAUTH or WRONGPASS or already authenticated or username-password pair or authentication failed",
    ),
    (STOP, Some(CONTINUE), ""),
    ("FLUSHALL", None, ""),
];

/// Clicks count whatever the store does, and the members say why they cannot use it. They have the rights that the page
/// says, and no others.
fn learn_together(languages: &[&str], store: &'static str) {
    let Some(redis) = Redis::of(store, &World::default(), &[]) else { return };
    let network = Proxy::start(&redis);
    let ask = |words: &str| match words {
        STOP => redis.signal(libc::SIGSTOP),
        CONTINUE => redis.signal(libc::SIGCONT),
        LOSE | KEEP => network.loses.store(words == LOSE, Ordering::Relaxed),
        _ => words.split(';').for_each(|one| drop(redis.ask(&one.split(' ').map(str::as_bytes).collect::<Vec<_>>()))),
    };
    ask(&format!("ACL SETUSER default resetkeys {0};ACL SETUSER ads on >right {0}", rights()));
    let mut members = meet_in(languages, network.path.to_str().unwrap(), &[], true);
    for (pass, (fault, end, says)) in (1..).zip(FAULTS) {
        let begin = |members: &mut [Member]| {
            let counts = |members: &mut [Member], what| -> Vec<f64> {
                members.iter_mut().map(|member| member.number(what)).collect()
            };
            let before = [FAILURES, OUTAGES].map(|what| counts(members, what));
            ask(fault);
            if fault == "FLUSHALL" {
                let has = |members: &mut [Member]| {
                    counts(members, OUTAGES).iter().zip(&before[1]).all(|(now, was)| now > was)
                };
                eventually("it is noticed", || has(members));
                all_know_all(members);
            }
            if fault == LOSE {
                let enough = 4 * members.len(); // of some the client itself asks again
                eventually(fault, || network.lost.load(Ordering::Relaxed) >= enough);
            } else if end.is_some() {
                let times = if fault == STOP { 1.0 } else { 3.0 }; // each takes as long as a timeout
                let fail = |members: &mut [Member]| {
                    counts(members, FAILURES).iter().zip(&before[0]).all(|(now, was)| *now >= was + times)
                };
                eventually(fault, || fail(members));
            }
            for (member, language) in members.iter().zip(languages) {
                let said = member.errors();
                let why = says.split(" or ").find(|why| said.contains(why));
                assert!(end.is_none() || why.is_some(), "{language}: no {says} in {said}");
            }
        };
        click(&mut members, pass, begin, || end.into_iter().for_each(ask));
    }
    leave(members);
}

/// A member without a password, and one with, of each.
const TWICE: [&str; 10] = ["Go", "Go", "C++", "hiredis", "Python", "Python", "Rust", "Rust", "Java", "Java"];

#[test]
#[ignore = "compiles the C++ ad server, and installs the Python package"]
fn five_languages_learn_together() {
    learn_together(&TWICE, "redis-server");
}

#[test]
#[ignore = "compiles the C++ ad server, and installs the Python package"]
fn five_languages_learn_together_on_valkey() {
    learn_together(&TWICE, "valkey-server");
}
