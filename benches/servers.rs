//! The three ad servers of examples/ under the same load: `cargo bench -p dpb-benches --bench servers`.
//!
//! One thread simulates the visitors. Each visitor has a connection, requests an ad, clicks one ad in ten, and sends
//! the next request as soon as it has the response. The thread shares the machine with the server, so requests a second
//! are those of both together. Processor time and memory are those of the server alone. The program prints the best of
//! six runs.
//!
//! Arguments are names of servers. Without arguments it runs all. `--test` only checks that each server runs.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use support::http::{Server, allow_many_files};
use support::{Link, build, example, go_with_modules, have, hiredis_with_tls, root, run};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const VISITORS: [usize; 2] = [64, 1000];

fn main() {
    allow_many_files();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let trial = arguments.iter().any(|argument| argument == "--test");
    let names: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let servers: [(&str, Build); 3] = [("Rust", rust), ("C++", cpp), ("Go", go_server)];
    let wanted = servers.into_iter().filter(|(name, _)| names.is_empty() || names.iter().any(|wanted| wanted == name));
    let mut programs: Vec<_> = wanted.filter_map(|(name, program)| Some((name, program()?))).collect();
    println!("{} processors, which server and visitors share\n", std::thread::available_parallelism().unwrap());
    println!("| server | visitors | requests/s | median, ms | p99, ms | processor, µs a request | memory, MB |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for visitors in VISITORS {
        for (name, command) in &mut programs {
            let server = Server::start(command);
            let (turns, seconds) = if trial { (1, 0.2) } else { (6, 2.0) };
            let turn = || {
                let busy = server.processor_time();
                let mut times = load(server.host(), visitors, seconds);
                times.sort_unstable();
                (times, server.processor_time() - busy)
            };
            // The first run is warm-up. The best of the others counts, because other programs may run on the machine.
            turn();
            let (times, busy) = (0..turns).map(|_| turn()).max_by_key(|(times, _)| times.len()).expect("a turn");
            let (count, memory) = (times.len() as f64, server.status("VmHWM") as f64 / 1024.0);
            let at = |part: f64| times[(part * count) as usize].as_secs_f64() * 1e3;
            println!(
                "| {name} | {visitors} | {:.0} | {:.1} | {:.1} | {:.1} | {memory:.0} |",
                count / seconds,
                at(0.5),
                at(0.99),
                busy.as_secs_f64() * 1e6 / count
            );
            assert_eq!(server.interrupt().0.code(), Some(0));
        }
    }
}

// Builds a server with the commands in its documentation. Returns `None` if there is no compiler for it.
type Build = fn() -> Option<Command>;

fn rust() -> Option<Command> {
    run(Command::new(env!("CARGO")).args(["build", "--release", "--example", "ad_server"]).current_dir(root()));
    let mut command = Command::new(example("ad_server"));
    command.arg("--serve");
    Some(command)
}

fn cpp() -> Option<Command> {
    let hiredis = hiredis_with_tls().unwrap_or(vec!["-lhiredis"]);
    let flags = [&["-std=c++20", "-O2", "-pthread", "-g0", "-Wl,--no-as-needed"], &hiredis[..]].concat();
    have("c++").then(|| Command::new(build("c++", "examples/cpp/ad_server.cpp", &flags, Link::Static)))
}

fn go_server() -> Option<Command> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go_adserver");
    let _ = std::fs::remove_file(&path); // Go does not notice that the library has changed
    run(&mut go_with_modules("examples/go", &["build", "-o", path.to_str().unwrap(), "./adserver"])?);
    let mut command = Command::new(path);
    command.stderr(std::process::Stdio::null()); // hides its log
    Some(command)
}

/// Simulates visitors for some seconds. Returns the time of each response.
fn load(host: &str, visitors: usize, seconds: f64) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let mut crowd = JoinSet::new();
        for _ in 0..visitors {
            let stream = TcpStream::connect(host).await.unwrap();
            stream.set_nodelay(true).unwrap();
            crowd.spawn(visit(BufReader::new(stream), Instant::now() + Duration::from_secs_f64(seconds)));
        }
        crowd.join_all().await.concat()
    })
}

async fn visit(mut connection: BufReader<TcpStream>, end: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut response = String::new();
    while Instant::now() < end {
        times.push(get(&mut connection, "/ad", &mut response).await);
        if times.len() % 11 == 0 {
            let url = response.split('"').find(|word| word.starts_with("/click/")).expect("a click URL").to_owned();
            times.push(get(&mut connection, &url, &mut response).await);
        }
    }
    times
}

async fn get(connection: &mut BufReader<TcpStream>, path: &str, response: &mut String) -> Duration {
    let start = Instant::now();
    let request = format!("GET {path} HTTP/1.1\r\nHost: load\r\n\r\n");
    connection.get_mut().write_all(request.as_bytes()).await.unwrap();
    response.clear();
    while !response.ends_with("\r\n\r\n") {
        assert!(connection.read_line(response).await.unwrap() > 0, "the server closed the connection");
    }
    assert!(response.starts_with("HTTP/1.1 20"), "{response}");
    response.make_ascii_lowercase();
    let length =
        response.split_once("content-length: ").map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.unwrap();
    *response = String::from_utf8(body).unwrap();
    start.elapsed()
}
