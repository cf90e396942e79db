//! One fleet of servers in Go and C++ and of programs in Python, Rust and Java, through a real redis-server or valkey-server.

use super::*;
use crate::java::{java, program};
use crate::python::long_environment;
use crate::support::http::wait;
use crate::support::{library_dir, root};
use std::process::{ChildStdin, ChildStdout};

/// The same program as examples/fleet, in Python. Its address is a socket, a server or, with commas, those of a cluster.
const PYTHON: &str = r#"
import sys, dpb, redis, redis.cluster
from dpb import fleet
address, key, *tls = sys.argv[1:]
servers = [server.rsplit(":", 1) for server in address.split(",")]
once = dict(socket_timeout=1, retry=None)
if "/" in address:
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
            said += f" incompatible {report.incompatible} received {clicks.received} failures {clicks.failures}"
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
            return new Redis(
                    client.connect(ByteArrayCodec.INSTANCE).async(), client.connect(ByteArrayCodec.INSTANCE).async());
        }
        RedisClient client = RedisClient.create();
        RedisURI at = arguments[0].contains("/") ? RedisURI.Builder.socket(arguments[0]).build() : server(arguments[0]);
        if (arguments.length > 2) {
            at.setSsl(true);
            SslOptions tls = SslOptions.builder().trustManager(new File(arguments[2]))
                    .keyManager(new File(arguments[3]), new File(arguments[3]), null).build();
            client.setOptions(ClientOptions.builder().sslOptions(tls).build());
        }
        return new Redis(
                client.connect(ByteArrayCodec.INSTANCE, at).async(), client.connect(ByteArrayCodec.INSTANCE, at).async());
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
                        System.out.printf(
                                "node %d of %d leader %d incompatible %d received %d failures %d%n", report.number(),
                                report.nodes(), report.leader(), report.incompatible(), node.diagnostics().received(),
                                node.diagnostics().failures());
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

/// A node of the fleet.
pub(super) enum Member {
    Server(Box<Node>),
    Program(Lines),
}

impl Member {
    fn decide(&mut self) -> String {
        match self {
            Member::Server(server) => server.decide(),
            Member::Program(program) => program.ask("ad").rsplit(' ').next().unwrap().to_owned(),
        }
    }

    fn click(&mut self, ticket: &str) {
        match self {
            Member::Server(server) => server.click(ticket),
            Member::Program(program) => assert_eq!(program.ask(&format!("click {ticket}")), "thanks"),
        }
    }

    /// The nodes that are alive, this one included.
    fn nodes(&mut self) -> f64 {
        match self {
            Member::Server(server) => server.metric("nodes") + 1.0,
            Member::Program(program) => program.number("of"),
        }
    }

    fn leads(&mut self) -> bool {
        match self {
            Member::Server(server) => server.metric("leads") == 1.0,
            Member::Program(program) => program.number("node") == program.number("leader"),
        }
    }

    fn incompatible(&mut self) -> f64 {
        match self {
            Member::Server(server) => server.metric("incompatible_nodes"),
            Member::Program(program) => program.number("incompatible"),
        }
    }

    fn received(&mut self) -> f64 {
        match self {
            Member::Server(server) => server.forwarded()[0],
            Member::Program(program) => program.number("received"),
        }
    }

    fn failures(&mut self) -> f64 {
        match self {
            Member::Server(server) => server.metric("failures_total"),
            Member::Program(program) => program.number("failures"),
        }
    }

    /// Ends it as planned.
    fn end(self) {
        match self {
            Member::Server(server) => assert_eq!(server.server.interrupt().0.code(), Some(0)),
            Member::Program(mut program) => {
                program.input = None;
                assert!(wait(&mut program.process).success());
            }
        }
    }
}

/// Makes members of a fleet, of the programs of these languages that can be built here, and returns them when they have met.
/// `tls`: none, or a file with the authorities and one with the member's own certificate and its key.
pub(super) fn meet_in(languages: &[&str], at: &str, tls: &[&str]) -> Vec<Member> {
    let key = key_file("mixed", &[7; 32]);
    let servers = ["--fleet-key-file", &key, "--delay", "1000", "--memory", "50000"];
    let servers = [&servers[..], &tls_options(tls)].concat();
    let start = |program: &mut Command| Member::Program(Lines::start(program.args([at, &key]).args(tls)));
    let mut members = Vec::new();
    // Numbers are given first, and then the lowest that is free.
    for (language, number) in languages.iter().zip(1..) {
        let server = |program: &Program| {
            Member::Server(Node::start_in(&World::default(), program, at, number, "5000", &servers).into())
        };
        let member = match *language {
            "Go" => GO.as_ref().map(server),
            "C++" => CPP.as_ref().map(server),
            "hiredis" => if tls.is_empty() { &stores::PROGRAM } else { &stores::SECURE }
                .as_ref()
                .map(|path| start(&mut Command::new(path))),
            "Python" => long_environment()
                .map(|environment| start(Command::new(environment.join("bin/python")).args(["-c", PYTHON]))),
            "Java" => JAVA_PROGRAM.as_ref().map(|jar| start(&mut java(jar, &[]))),
            _ => {
                let mut program = Command::new(RUST.as_path());
                Some(Member::Program(Lines::start(program.args([&format!("unix://{at}"), "ads", &key]))))
            }
        };
        members.extend(member);
    }
    let count = members.len() as f64;
    eventually("they have met", || members.iter_mut().all(|member| member.nodes() == count));
    members
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
const PASSES: usize = 7;

/// Clicks on each member's ads come to each other member. They count, this pass, once the second function has ended what the
/// first one has begun.
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
    eventually("all clicks count", || members.iter_mut().all(|member| member.received() == all));
}

/// The one that leads ends, and then another one leads, until one is left.
pub(super) fn leave_in_turn(mut members: Vec<Member>) {
    let incompatible: Vec<_> = members.iter_mut().map(Member::incompatible).collect();
    assert!(incompatible.iter().all(|count| *count == 0.0), "another configuration: {incompatible:?}");
    while members.len() > 1 {
        eventually("one leads", || members.iter_mut().map(Member::leads).filter(|leads| *leads).count() == 1);
        let leader = members.iter_mut().position(Member::leads).unwrap();
        members.remove(leader).end();
    }
}

const STOP: &str = "it stands still";
const CONTINUE: &str = "it goes on";

/// Clicks count whatever the store does: when it has forgotten the scripts or cut all connections, and after it was a replica,
/// had no memory, gave no rights or stood still.
fn learn_together(languages: &[&str], store: &'static str) {
    let Some(redis) = Redis::of(store, &World::default(), &[]) else { return };
    let mut members = meet_in(languages, redis.socket().to_str().unwrap(), &[]);
    let ask = |words: &str| match words {
        STOP => redis.signal(libc::SIGSTOP),
        CONTINUE => redis.signal(libc::SIGCONT),
        _ => drop(redis.ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>())),
    };
    let faults: [(&str, Option<&str>); PASSES] = [
        ("PING", None),
        ("SCRIPT FLUSH", None),
        ("CLIENT KILL TYPE normal", None),
        ("REPLICAOF 127.0.0.1 1", Some("REPLICAOF NO ONE")),
        ("CONFIG SET maxmemory 1", Some("CONFIG SET maxmemory 0")),
        ("ACL SETUSER default -evalsha -eval", Some("ACL SETUSER default +evalsha +eval")),
        (STOP, Some(CONTINUE)),
    ];
    for (pass, (fault, end)) in (1..).zip(faults) {
        let begin = |members: &mut [Member]| {
            let before: Vec<_> = members.iter_mut().map(Member::failures).collect();
            ask(fault);
            let times = if fault == STOP { 1.0 } else { 3.0 }; // each takes as long as a timeout
            let mut fail =
                || members.iter_mut().zip(&before).all(|(member, before)| member.failures() >= before + times);
            eventually(fault, || end.is_none() || fail());
        };
        click(&mut members, pass, begin, || end.into_iter().for_each(ask));
    }
    leave_in_turn(members);
}

#[test]
#[ignore = "builds the Java package with Maven"]
fn two_programs_in_java_learn_together() {
    learn_together(&["Java", "Java"], "redis-server");
}

#[test]
#[ignore = "compiles the client of the example"]
fn two_programs_in_rust_learn_together() {
    learn_together(&["Rust", "Rust"], "redis-server");
}

#[test]
#[ignore = "compiles the C++ ad server, and installs the Python package"]
fn five_languages_learn_together() {
    learn_together(&["Go", "C++", "Python", "Rust", "Java"], "redis-server");
}

#[test]
#[ignore = "compiles the C++ ad server, and installs the Python package"]
fn five_languages_learn_together_on_valkey() {
    learn_together(&["Go", "C++", "Python", "Rust", "Java"], "valkey-server");
}
