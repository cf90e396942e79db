//! Nodes on a store that is reached over TLS, on a cluster, and on servers with a sentinel. (Go tests the last two in its
//! package.)

use super::mixed::{click, leave, meet_in, tls_options};
use super::*;
use crate::support::{Link, build, empty_directory, finds_header, have_header, hiredis_with_tls, own_address, skip};
use std::net::TcpStream;

/// The program in C++, with the system's hiredis. That of Debian 12 has no TLS.
pub(super) static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let is_there = have("c++") && have_header("hiredis/hiredis.h", "libhiredis-dev");
    let has_tls = || finds_header("hiredis/hiredis_ssl.h");
    is_there.then(|| if has_tls() { SECURE.clone() } else { Some(program(&["-lhiredis"])) })?
});

/// The same with TLS.
pub(super) static SECURE: LazyLock<Option<PathBuf>> = LazyLock::new(|| hiredis_with_tls().map(|with| program(&with)));

fn program(hiredis: &[&str]) -> PathBuf {
    let options = [&["-std=c++17", "-pthread", "-Wl,--no-as-needed"], hiredis].concat();
    build("c++", "tests/cpp/redis.cpp", &options, Link::Static)
}

/// The replica has all that the server wrote until now. Its link is up for up to a second before it gets anything.
fn catches_up(replica: &Redis, server: &Redis) {
    let offset = |redis: &Redis| -> u64 {
        let info = String::from_utf8(redis.ask(&[b"INFO", b"replication"]).remove(0)).unwrap();
        let (_, rest) = info.split_once("master_repl_offset:").unwrap();
        rest.lines().next().unwrap().parse().unwrap()
    };
    let written = offset(server);
    eventually("the replica catches up", || offset(replica) >= written);
}

/// Three servers of a cluster and, as the last one, a replica of the one that has the fleet's keys, which is the first.
struct Cluster {
    servers: Vec<Redis>,
    addresses: Vec<String>,
    slot: u32,
}

impl Cluster {
    fn start() -> Option<Cluster> {
        let mut cluster = Cluster { servers: Vec::new(), addresses: Vec::new(), slot: 0 };
        for (host, port) in [(); 4].map(|()| own_address()) {
            let mut options = vec!["--cluster-enabled", "yes", "--cluster-announce-ip", &host, "--bind", &host];
            options.extend(["--port", &port, "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"]);
            cluster.servers.push(Redis::alone(&World::default(), &options)?);
            cluster.addresses.push(format!("{host}:{port}"));
        }
        cluster.slot = cluster.ask(0, "CLUSTER KEYSLOT dpb:{ads}").parse().unwrap();
        for server in 0..3 {
            let third = (cluster.slot * 3 / 16384 + server as u32) % 3;
            let [from, to] = [third * 16384 / 3, (third + 1) * 16384 / 3 - 1];
            cluster.ask(server, &format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
            cluster.ask(server, &format!("CLUSTER SET-CONFIG-EPOCH {}", server + 1));
        }
        for address in &cluster.addresses[1..] {
            cluster.ask(0, &format!("CLUSTER MEET {}", address.replace(':', " ")));
        }
        let works = |cluster: &Cluster, server| {
            let info = cluster.ask(server, "CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:4")
        };
        eventually("the cluster works", || (0..4).all(|server| works(&cluster, server)));
        cluster.ask(3, &format!("CLUSTER REPLICATE {}", cluster.id(0)));
        eventually("the replica follows", || cluster.ask(3, "INFO replication").contains("master_link_status:up"));
        let is_known = |server| cluster.ask(server, &format!("CLUSTER REPLICAS {}", cluster.id(0))).contains("slave");
        eventually("all know the replica", || (0..4).all(is_known));
        Some(cluster)
    }

    fn ask(&self, server: usize, words: &str) -> String {
        let reply = self.servers[server].ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        String::from_utf8_lossy(&reply.join(&b' ')).into_owned()
    }

    fn id(&self, server: usize) -> String {
        self.ask(server, "CLUSTER MYID")
    }

    /// Begins to move the fleet's keys from one server to another. Returns when the keys are there.
    fn begin_to_move(&self, from: usize, to: usize) {
        let slot = self.slot;
        self.ask(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.id(from)));
        self.ask(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.id(to)));
        let at = self.addresses[to].replace(':', " ");
        loop {
            let keys = self.ask(from, &format!("CLUSTER GETKEYSINSLOT {slot} 100"));
            if keys.is_empty() {
                return;
            }
            self.ask(from, &format!("MIGRATE {at}  0 5000 KEYS {keys}"));
        }
    }

    fn end_move(&self, from: usize, to: usize) {
        for server in [to, from] {
            self.ask(server, &format!("CLUSTER SETSLOT {} NODE {}", self.slot, self.id(to)));
        }
    }

    /// Whether a client has come to a server by an ASK redirection. (Its script runs only if all its keys exist.)
    fn is_asked(&self, server: usize) -> bool {
        self.ask(server, "INFO commandstats").contains("cmdstat_asking:")
    }
}

/// The server that has the fleet's keys dies, and its replica takes over. Then the cluster moves the keys to another server.
fn learn_in_a_cluster(languages: &[&str]) {
    let Some(mut cluster) = Cluster::start() else { return };
    // The first one is that which dies.
    let mut members = meet_in(languages, &cluster.addresses[..3].join(","), &[], false);
    if members.is_empty() {
        return;
    }
    click(&mut members, 1, |_| (), || ());
    catches_up(&cluster.servers[3], &cluster.servers[0]);
    let sizes = [0, 1, 2, 3].map(|server| cluster.ask(server, "DBSIZE"));
    assert!(sizes[0] != "0" && sizes[1] == "0" && sizes[2] == "0" && sizes[3] != "0", "{sizes:?}");
    cluster.servers[0].kill();
    click(&mut members, 2, |_| (), || ());
    assert!(cluster.ask(3, "INFO replication").contains("role:master"));
    assert!(!cluster.is_asked(1));
    click(
        &mut members,
        3,
        |_| cluster.begin_to_move(3, 1),
        || {
            eventually("a client follows to where the keys are", || cluster.is_asked(1));
            cluster.end_move(3, 1);
        },
    );
    assert_eq!(cluster.ask(3, &format!("CLUSTER COUNTKEYSINSLOT {}", cluster.slot)), "0");
    leave(members);
}

#[test]
#[ignore = "compiles a program with exceptions and threads"]
fn cpp_nodes_learn_in_a_cluster() {
    learn_in_a_cluster(&["hiredis", "hiredis"]);
}

#[test]
#[ignore = "builds the Java package, and installs the Python package"]
fn python_and_java_nodes_learn_in_a_cluster() {
    learn_in_a_cluster(&["Python", "Python"]);
    learn_in_a_cluster(&["Java", "Java"]);
}

/// A server dies, and its sentinel promotes the replica. Members that ask the sentinel follow; so do those in C++, which
/// have the addresses of both servers.
fn learn_through_a_sentinel(languages: &[&str], asks: bool) {
    let [(host, port), (second, _), (guard, _)] = [(); 3].map(|()| own_address());
    let start = |host: &str, more: &[&str]| {
        let options = ["--bind", host, "--port", &port, "--repl-diskless-sync-delay", "0"];
        Redis::alone(&World::default(), &[&options, more].concat())
    };
    let Some(mut redis) = start(&host, &[]) else { return };
    let Some(replica) = start(&second, &["--replicaof", &host, &port, "--replica-announce-ip", &second]) else {
        return;
    };
    let replicates = |what: &str| String::from_utf8_lossy(&replica.ask(&[b"INFO", b"replication"])[0]).contains(what);
    eventually("the replica follows", || replicates("master_link_status:up"));
    let place = redis.place.join("sentinel");
    fs::create_dir(&place).unwrap();
    // On a busy machine it may believe that the replica is down too. Then it tries again after twice the second time.
    let times = "sentinel down-after-milliseconds ads 500\nsentinel failover-timeout ads 2000\n";
    let watch = format!("sentinel monitor ads {host} {port} 1\n{times}");
    fs::write(place.join("file"), format!("bind {guard}\nport {port}\n{watch}")).unwrap();
    let mut sentinel = Command::new("redis-server");
    let process = sentinel.arg(place.join("file")).arg("--sentinel").stdout(Stdio::null()).spawn().unwrap();
    let (program, world, options) = ("redis-server", World::default(), Vec::new());
    let _ends = Redis { program, world, place, options, process: Some(process) };
    // What it says to SENTINEL REPLICAS is about the one replica, once it knows it.
    let knows = || {
        let Ok(mut connection) = TcpStream::connect((guard.as_str(), port.parse().unwrap())) else { return false };
        connection.write_all(&request(&[b"SENTINEL", b"REPLICAS", b"ads"])).unwrap();
        let mut line = String::new();
        BufReader::new(connection).read_line(&mut line).is_ok() && line == "*1\r\n"
    };
    eventually("the sentinel knows both", knows);
    let at =
        if asks { format!("redis-sentinel://{guard}:{port}#ads") } else { format!("{host}:{port},{second}:{port}") };
    let mut members = meet_in(languages, &at, &[], false);
    click(&mut members, 1, |_| (), || ());
    catches_up(&replica, &redis);
    redis.kill();
    click(&mut members, 2, |_| (), || eventually("the replica takes over", || replicates("role:master")));
    leave(members);
}

#[test]
#[ignore = "compiles a program with exceptions and threads"]
fn cpp_nodes_follow_a_promoted_replica() {
    learn_through_a_sentinel(&["hiredis", "hiredis"], false);
}

#[test]
#[ignore = "builds the Java package, and installs the Python package"]
fn python_and_java_nodes_follow_a_sentinel() {
    learn_through_a_sentinel(&["Python", "Java"], true);
}

/// Makes a file with a certificate of a server at this address and its key.
fn certify(host: &str, file: &str) {
    let key = format!("{file}.key");
    let request =
        ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=redis", "-keyout", &key, "-out", file];
    run(Command::new("openssl").args(request).args(["-addext", &format!("subjectAltName=IP:{host}")]));
    let both = [file, &key].map(|part| fs::read_to_string(part).unwrap());
    fs::write(file, both.concat()).unwrap();
}

/// Redis and each node ask for the other's certificate.
fn learn_over_tls(languages: &[&str]) {
    if !have("openssl") {
        return;
    }
    let ((host, port), place) = (own_address(), empty_directory("fleet_stores", &languages.concat()));
    let [right, others, empty] = ["right", "others", "empty"].map(|name| place.join(name).to_str().unwrap().to_owned());
    [&right, &others].into_iter().for_each(|file| certify(&host, file));
    fs::write(&empty, "").unwrap();
    let options = ["--bind", &host, "--tls-port", &port, "--tls-cert-file", &right, "--tls-key-file", &right];
    let options = [&options[..], &["--tls-ca-cert-file", &right]].concat();
    let Some(_redis) = Redis::alone(&World::default(), &options) else { return };
    let at = format!("{host}:{port}");
    let mut members = meet_in(languages, &at, &[&right, &right], false);
    click(&mut members, 1, |_| (), || ());
    leave(members);
    let key = key_file("tls", &[7; 32]);
    for (tls, says) in [
        (&[] as &[&str], &["redis: "] as &[&str]), // Redis closes the connection
        (&[&others, &right], &["certificate verify failed", "signed by unknown authority"]),
        (&[&right], &["redis: "]),
        (&["/nowhere"], &["Failed to load CA", "/nowhere: no such file"]),
        (&[&empty], &["Failed to load CA", "empty: no certificates"]),
        (&[&right, "/nowhere"], &["Failed to load client certificate", "/nowhere: no such file"]),
    ] {
        for language in languages {
            let said = match (*language, GO.as_ref(), CPP.as_ref(), SECURE.as_ref()) {
                ("Go", Some(server), ..) | ("C++", _, Some(server), _) => {
                    server.refuses(&[&["--port", "0", "--redis", &at, "--node", "7"], &tls_options(tls)[..]].concat()).1
                }
                ("hiredis", .., Some(path)) => {
                    let output = Command::new(path).args([&at, &key]).args(tls).output().unwrap();
                    assert!(!output.status.success());
                    text(&output)
                }
                _ => continue,
            };
            assert!(says.iter().any(|why| said.contains(why)), "{language} {says:?}: {said}");
        }
    }
}

#[test]
#[ignore = "compiles a program with exceptions and threads, and the C++ ad server"]
fn cpp_nodes_and_servers_learn_over_tls() {
    if hiredis_with_tls().is_none() {
        return skip("hiredis/hiredis_ssl.h not found (Debian 13 has it; for Debian 12 .ci/run builds it)");
    }
    learn_over_tls(&["hiredis", "C++"]);
}

#[test]
#[ignore = "builds the Java package, and installs the Python package"]
fn go_java_and_python_learn_over_tls() {
    learn_over_tls(&["Go", "Java", "Python"]);
}
