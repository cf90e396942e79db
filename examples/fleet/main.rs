//! A node of a fleet in Rust: processes that learn as one bandit through Redis or Valkey, with the client redis-rs. Start it in
//! two terminals, with the same KEY-FILE or both without one:
//!
//! ```sh
//! cargo run --release -p dpb-fleet --example fleet -- redis://127.0.0.1/ ads [KEY-FILE]
//! ```
//!
//! It reads lines: `ad` shows an ad and prints its ticket, `click TICKET` reports a click on an ad of any process, `report`
//! prints what the node knows. At the end of the input, or on Ctrl-C, it leaves, and the other continues with its decisions.
//! `yes ad | head -1000 |` in front shows a thousand ads and leaves.
//!
//! The ad servers in C++ and Go (`--redis`) have the same configuration, so they can be in the same fleet. KEY-FILE has 32 secret
//! random bytes: `head -c 32 /dev/urandom > key; chmod 600 key`. docs/operating/fleets.md says what an
//! operator must know.

use dpb::node::command::Command;
use dpb::node::{Bandits, Lane, Node, NodeState, Task};
use dpb::{Algorithm, Bandit, Config};
use redis::{Client, Connection, ErrorKind, RedisResult, ServerErrorKind};
use std::error::Error;
use std::io::{BufRead, stdin};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// What the threads share.
struct Fleet {
    node: Node<Bandits<Bandit>>,
    client: Client,
    start: Instant,
}

impl Fleet {
    /// The time of the node's clock.
    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Runs the commands of one lane until the node has ended.
    fn run(&self, lane: Lane) -> dpb::Result<()> {
        let mut connection = None;
        loop {
            match self.node.next(lane, self.now())? {
                Task::Wait(time) => thread::sleep(Duration::from_millis(time)),
                Task::Log(text) => eprintln!("fleet: {text}"),
                Task::Run { id, command, timeout } => {
                    match ask(&self.client, &mut connection, &command, Duration::from_millis(timeout)) {
                        Ok(reply) => self.node.reply(id, self.now(), &reply)?,
                        Err(error) => {
                            connection = None; // a reply to this command may still arrive
                            self.node.failed(id, self.now(), &error.to_string())?; // the node repeats it
                        }
                    }
                }
                Task::Ended => return Ok(()),
            }
        }
    }

    /// Obeys a line of input.
    fn obey(&self, line: &str) -> Result<String, Box<dyn Error>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ad"] => {
                let ad = self.node.bandit().ok_or("it has not joined")?.select()?;
                Ok(format!("ad {} ticket {:016x}", ad.arm, ad.ticket))
            }
            ["click", ticket] => {
                self.node.update(u64::from_str_radix(ticket, 16)?, 1.0)?;
                Ok("thanks".into())
            }
            // For the operator: the counts of clicks are not private.
            ["report"] => {
                let (report, clicks) = (self.node.report(self.now())?, self.node.diagnostics()?);
                let (number, nodes, leader) = (report.member.number, report.nodes, report.leader.0);
                let (strangers, outages, received) = (report.incompatible, report.outages, clicks.received);
                let (refused, failures) = (clicks.refused, clicks.failures);
                Ok(format!(
                    "node {number} of {nodes} leader {leader} incompatible {strangers} outages {outages} \
                     received {received} refused {refused} failures {failures}"
                ))
            }
            _ => Err("ad, click TICKET or report".into()),
        }
    }
}

/// Runs a command with a connection that is made when it is needed. The timeout is for each read and write: if a reply comes
/// slower, the node has given it up by then, and ignores it.
fn ask(client: &Client, open: &mut Option<Connection>, command: &Command, timeout: Duration) -> RedisResult<Vec<u8>> {
    let connection = match open {
        Some(connection) => connection,
        None => {
            let mut made = client.get_connection_with_timeout(timeout)?;
            // Without its password Redis calls a script a protocol error, and this NOAUTH.
            redis::cmd("PING").exec(&mut made)?;
            open.insert(made)
        }
    };
    connection.set_read_timeout(Some(timeout))?;
    connection.set_write_timeout(Some(timeout))?;
    let mut send = |verb, script| {
        let mut words = redis::cmd(verb);
        words.arg(script).arg(command.keys.len()).arg(&command.keys).arg(&command.args).query(connection)
    };
    match send("EVALSHA", command.kind.sha1().to_bytes()) {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            send("EVAL", command.kind.script().to_bytes())
        }
        done => done,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, key @ ..] = &arguments[..] else { return Err("usage: fleet URL NAME [KEY-FILE]".into()) };
    // reward_bits 0: a click or none.
    let mut config = Config { reward_bits: 0, reward_window: 1000, forget_after: 50_000, ..Config::new(10, 1.0) };
    if let Some(file) = key.first() {
        let key: [u8; 32] = std::fs::read(file)?.try_into().map_err(|_| format!("{file}: not 32 bytes"))?;
        config.fleet_key = Some(key.into());
    }
    let bandits = Bandits::new(Algorithm::RECOMMENDED, config)?;
    let node = Node::new(bandits.options(name)?, bandits, 0)?;
    let fleet = Arc::new(Fleet { node, client: Client::open(url.as_str())?, start: Instant::now() });

    let of = Arc::clone(&fleet);
    ctrlc::set_handler(move || _ = of.node.leave(of.now()))?;
    let lanes = Lane::ALL.map(|lane| {
        let of = Arc::clone(&fleet);
        thread::spawn(move || of.run(lane))
    });
    let of = Arc::clone(&fleet);
    thread::spawn(move || {
        while of.node.bandit().is_none() {
            thread::sleep(Duration::from_millis(10));
        }
        println!("joined");
        for line in stdin().lock().lines().map_while(Result::ok) {
            println!("{}", of.obey(&line).unwrap_or_else(|why| format!("error: {why}")));
        }
        of.node.leave(of.now())
    });
    for lane in lanes {
        lane.join().map_err(|_| "a lane has failed")??;
    }
    let report = fleet.node.report(fleet.now())?;
    if report.state == NodeState::Left { Ok(()) } else { Err(report.last_error.into()) }
}
