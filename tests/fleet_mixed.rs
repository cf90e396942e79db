//! One fleet of servers in Go and C++ and of programs in Python, Rust and Java, through a real redis-server or valkey-server.

use super::*;
use crate::java::{java, program};
use crate::python::long_environment;
use crate::support::http::wait;
use crate::support::{library_dir, root};
use std::process::{ChildStdin, ChildStdout};

/// The same program as examples/fleet, in Python.
const PYTHON: &str = r#"
import sys, dpb, redis
from dpb import fleet
client = redis.Redis(unix_socket_path=sys.argv[1], socket_timeout=5)
key = open(sys.argv[2], "rb").read()
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
            said += f" incompatible {report.incompatible} received {clicks.received}"
        print(said, flush=True)
"#;

/// The same in Java.
const JAVA: &str = r#"
import io.github.libdpb.*;
import io.github.libdpb.fleet.*;
import io.lettuce.core.*;
import io.lettuce.core.codec.ByteArrayCodec;
import java.io.*;
import java.nio.file.Path;
import java.time.Duration;

class Member {
    public static void main(String[] arguments) throws Exception {
        RedisClient client = RedisClient.create(RedisURI.Builder.socket(arguments[0]).build());
        Store store = new Redis(
                client.connect(ByteArrayCodec.INSTANCE).async(), client.connect(ByteArrayCodec.INSTANCE).async());
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
                                "node %d of %d leader %d incompatible %d received %d%n", report.number(), report.nodes(),
                                report.leader(), report.incompatible(), node.diagnostics().received());
                    }
                }
            }
        }
        client.shutdown();
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
struct Lines {
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
enum Member {
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
fn meet_in(languages: &[&str], redis: &Redis) -> Vec<Member> {
    let at = redis.socket();
    let (key, at) = (key_file("mixed", &[7; 32]), at.to_str().unwrap());
    let servers = ["--fleet-key-file", &key, "--delay", "1000", "--memory", "50000"];
    let mut members = Vec::new();
    // Numbers are given first, and then the lowest that is free.
    for (language, number) in languages.iter().zip(1..) {
        let server = |program: &Program| Node::start(program, redis, number, "5000", &servers);
        let member = match *language {
            "Go" => GO.as_ref().map(|program| Member::Server(server(program).into())),
            "C++" => CPP.as_ref().map(|program| Member::Server(server(program).into())),
            "Python" => long_environment().map(|environment| {
                let mut python = Command::new(environment.join("bin/python"));
                Member::Program(Lines::start(python.args(["-c", PYTHON, at, &key])))
            }),
            "Java" => JAVA_PROGRAM.as_ref().map(|jar| Member::Program(Lines::start(java(jar, &[]).args([at, &key])))),
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

/// Clicks on each member's ads come to each other member, and all count, also when the store has forgotten the scripts or cut
/// all connections. One member leads, and when it ends another does.
fn learn_together(languages: &[&str], store: &'static str) {
    let Some(redis) = Redis::of(store, &World::default(), &[]) else { return };
    let mut members = meet_in(languages, &redis);
    // No member makes more decisions than an eighth of a window in all, so no delay on a busy machine cancels any.
    let each = WINDOW / 8 / 3 / languages.len();
    for (pass, fault) in (1..).zip(["PING", "SCRIPT FLUSH", "CLIENT KILL TYPE normal"]) {
        redis.ask(&fault.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        for from in 0..members.len() {
            for to in (0..members.len()).filter(|to| *to != from) {
                for _ in 0..each {
                    let ticket = members[from].decide();
                    members[to].click(&ticket);
                }
            }
        }
        let all = (pass * each * (members.len() - 1)) as f64;
        eventually("all clicks count", || members.iter_mut().all(|member| member.received() == all));
    }
    let incompatible: Vec<_> = members.iter_mut().map(Member::incompatible).collect();
    assert!(incompatible.iter().all(|count| *count == 0.0), "another configuration: {incompatible:?}");
    while members.len() > 1 {
        eventually("one leads", || members.iter_mut().map(Member::leads).filter(|leads| *leads).count() == 1);
        let leader = members.iter_mut().position(Member::leads).unwrap();
        members.remove(leader).end();
    }
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
