//! Nodes in C++ on a store that is reached over TLS, and on a cluster. (Go and Python test theirs in their own packages.)

use super::*;
use crate::support::{Link, build, empty_directory, finds_header, have_header};

/// hiredis before 1.0, as in Debian 12, has no TLS.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let tls: &[&str] = if has_tls() { &["-lhiredis_ssl", "-lhiredis", "-lssl", "-lcrypto"] } else { &["-lhiredis"] };
    let options = [&["-std=c++17", "-pthread", "-Wl,--no-as-needed"], tls].concat();
    build("c++", "tests/cpp/redis.cpp", &options, Link::Static)
});

fn two_nodes(arguments: &[&str]) -> Command {
    let mut program = Command::new(PROGRAM.as_path());
    program.args(arguments);
    program
}

fn has_tls() -> bool {
    finds_header("hiredis/hiredis_ssl.h")
}

/// Addresses of this computer that no other process uses. The port is not among those that programs get by chance.
fn address() -> (String, String) {
    static NUMBER: AtomicUsize = AtomicUsize::new(100);
    let [.., high, low] = std::process::id().to_be_bytes();
    (format!("127.{}.{high}.{low}", NUMBER.fetch_add(1, Ordering::Relaxed)), "7379".into())
}

#[test]
#[ignore = "compiles a program with exceptions and threads"]
fn cpp_nodes_find_their_server_in_a_cluster() {
    if !have("c++") || !have_header("hiredis/hiredis.h", "libhiredis-dev") {
        return;
    }
    let addresses = [address(), address()];
    let mut servers = Vec::new();
    for (host, port) in &addresses {
        let options = ["--cluster-enabled", "yes", "--cluster-announce-ip", host, "--bind", host, "--port", port];
        let Some(server) = Redis::alone(&World::default(), &options) else { return };
        servers.push(server);
    }
    let ask =
        |server: usize, words: &str| servers[server].ask(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    for (server, slots) in ["0 8191", "8192 16383"].into_iter().enumerate() {
        ask(server, &format!("CLUSTER ADDSLOTSRANGE {slots}"));
        ask(server, &format!("CLUSTER SET-CONFIG-EPOCH {}", server + 1));
    }
    ask(0, &format!("CLUSTER MEET {} {}", addresses[1].0, addresses[1].1));
    for server in 0..2 {
        eventually("the cluster works", || {
            let info = String::from_utf8(ask(server, "CLUSTER INFO").concat()).unwrap();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
        });
    }
    for (host, port) in &addresses {
        run(&mut two_nodes(&[&format!("{host}:{port}")]));
    }
    let mut keys = [0, 1].map(|server| ask(server, "DBSIZE").concat());
    keys.sort();
    assert!(keys[0] == b"0" && keys[1] != b"0", "{keys:?}");
}

#[test]
#[ignore = "compiles a program with exceptions and threads"]
fn cpp_nodes_learn_over_tls() {
    if !have("c++") || !have("openssl") {
        return;
    }
    if !has_tls() {
        return eprintln!("skipped: hiredis/hiredis_ssl.h not found (libhiredis-dev of Debian 13 has it)");
    }
    let ((host, port), place) = (address(), empty_directory("fleet_stores", "tls"));
    let [key, certificate] = ["key.pem", "certificate.pem"].map(|name| place.join(name).to_str().unwrap().to_owned());
    let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=redis", "-keyout", &key];
    run(Command::new("openssl").args(request).args(["-out", &certificate]));
    let options = ["--bind", &host, "--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let options = [&options[..], &["--tls-ca-cert-file", &certificate, "--tls-auth-clients", "no"]].concat();
    let Some(_redis) = Redis::alone(&World::default(), &options) else { return };
    let at = format!("{host}:{port}");
    run(&mut two_nodes(&[&at, &certificate]));
    // Without TLS it does not get in, and neither does a server with another certificate.
    let refused = |more: &[&str]| {
        let output = two_nodes(&[&[at.as_str()], more].concat()).output().unwrap();
        assert!(!output.status.success(), "{}", text(&output));
    };
    refused(&[]);
    run(Command::new("openssl").args(request).args(["-out", &certificate]));
    refused(&[&certificate]);
}
