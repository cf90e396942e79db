//! examples/nginx in a real nginx with four workers, built with the commands of its page. The module learns, and each
//! reward counts once in whichever worker it arrives. Reloads and killed workers do not change this.
#![cfg(target_os = "linux")]

use crate::support::{defined, have, make, root, run, skip, snippets, sorted, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const PAGE: &str = "examples/nginx/README.md";
const WORKERS: usize = 4;
/// The timeout of every wait. Nothing takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(300);
/// Longer than workers take to publish what they have learned.
const TICKS: Duration = Duration::from_millis(400);

/// The module, or None without the tools to build it.
static MODULE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let tools = ["make", "cc", "ld.bfd", "objcopy", "nm", "pkg-config", "bash", "nginx"];
    if !tools.into_iter().all(have) {
        return None;
    }
    if !Path::new("/usr/share/nginx/src/configure").exists() {
        skip("nginx's headers not found (apt-get install nginx-dev)");
        return None;
    }
    run(&mut make("package")); // so that the page's `make install` works in a home directory without Rust
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nginx/home");
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", &snippets(PAGE, "bash")[0]]).current_dir(root()).env("HOME", &home);
    bash.env("MAKEFLAGS", make("package").get_args().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "));
    run(&mut bash);
    Some(home.join("dpb/nginx/ngx_http_dpb_module.so"))
});

/// A running nginx; killed when dropped.
struct Nginx {
    master: Child,
    place: PathBuf,
}

/// An nginx in a directory of its own, with these directives in its http block.
fn command(place: &Path, split: &str) -> Option<Command> {
    let module = MODULE.as_ref()?;
    fs::create_dir_all(place).unwrap();
    configure(place, module.to_str(), split);
    let mut nginx = Command::new("nginx");
    nginx.arg("-p").arg(place).arg("-c").arg(place.join("nginx.conf")).arg("-e").arg(place.join("error.log"));
    Some(nginx)
}

fn configure(place: &Path, module: Option<&str>, split: &str) {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|kind| format!("{kind}_temp_path {}/{kind};\n", place.display())).concat();
    let load = module.map(|module| format!("load_module {module};\n")).unwrap_or_default();
    let locations = match module {
        None => "",
        Some(_) => {
            "location = /choose { return 200 \"$page $page_ticket\"; }\n\
             location = /reward { dpb_reward $page $arg_ticket; }\n\
             location = /worth { dpb_reward $page $arg_ticket $arg_reward; }\n\
             location = /status { dpb_status; }\n\
             location = /privacy { dpb_statement; }\n\
             location = /privacy.json { dpb_statement json; }\n"
        }
    };
    let path = place.display();
    let text = format!(
        "{load}worker_processes {WORKERS};\npid {path}/pid;\nerror_log {path}/error.log info;\ndaemon off;\n\
         events {{ worker_connections 512; accept_mutex off; }}\nhttp {{\naccess_log off;\n{temporary}{split}\n\
         server {{\nlisten unix:{path}/socket;\nkeepalive_requests 1000000;\nadd_header X-Worker $pid always;\n\
         {locations}location = /plain {{ return 200 plain; }}\n}}\n}}\n"
    );
    fs::write(place.join("nginx.conf"), text).unwrap();
}

/// A directory with a name short enough for a socket.
fn directory(name: &str) -> PathBuf {
    let place = std::env::temp_dir().join(format!("dpb-nginx-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    place
}

impl Nginx {
    fn start(name: &str, split: &str) -> Option<Nginx> {
        let place = directory(name);
        let nginx = command(&place, split)?;
        Some(Nginx::launch(nginx, place))
    }

    fn launch(mut nginx: Command, place: PathBuf) -> Nginx {
        let nginx = Nginx { master: nginx.spawn().unwrap(), place };
        nginx.wait_for("its workers", || nginx.workers().len() == WORKERS);
        nginx.wait_for("an answer", || nginx.visitor().is_ok_and(|mut visitor| visitor.get("/plain").is_ok()));
        nginx
    }

    /// A new connection, accepted by any worker.
    fn visitor(&self) -> Result<Visitor> {
        let stream = UnixStream::connect(self.place.join("socket"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Visitor(BufReader::new(stream)))
    }

    fn visitors(&self) -> Vec<Visitor> {
        self.visitors_of(&self.workers())
    }

    /// A connection to each of these workers. The test opens many at once, so that no worker accepts all of them.
    fn visitors_of(&self, workers: &BTreeSet<u32>) -> Vec<Visitor> {
        let mut found = BTreeMap::new();
        self.wait_for("each worker to answer", || {
            let crowd: Vec<Visitor> = (0..64).map(|_| self.visitor().unwrap()).collect();
            for mut visitor in crowd {
                if let Ok((_, worker, _)) = visitor.get("/plain") {
                    found.entry(worker).or_insert(visitor);
                }
            }
            workers.iter().all(|worker| found.contains_key(worker))
        });
        found.retain(|worker, _| workers.contains(worker));
        found.into_values().collect()
    }

    fn workers(&self) -> BTreeSet<u32> {
        let master = self.master.id();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.join("error.log")).unwrap()
    }

    /// How often a worker has continued from the state of its predecessor.
    fn continued(&self) -> usize {
        let log = self.log();
        (0..WORKERS).map(|worker| log.matches(&format!("worker {worker} continues")).count()).sum()
    }

    fn wait_for(&self, what: &str, mut done: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !done() {
            assert!(Instant::now() < end, "still waiting for {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Reloads nginx and waits until the old workers are gone.
    fn reload(&self) {
        let before = self.workers();
        signal(self.master.id(), libc::SIGHUP);
        self.wait_for("a reload", || {
            let now = self.workers();
            now.len() == WORKERS && now.is_disjoint(&before)
        });
    }

    /// Kills a worker, and waits for its successor.
    fn kill(&self, worker: u32) {
        signal(worker, libc::SIGKILL);
        self.wait_for("a successor", || {
            let now = self.workers();
            now.len() == WORKERS && !now.contains(&worker)
        });
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.visitor().unwrap().get("/status").unwrap().2).unwrap()
    }

    /// The status as soon as it includes this many decisions.
    fn status_after(&self, decisions: f64) -> Value {
        let mut status = Value::Null;
        self.wait_for("the workers to publish", || {
            status = self.status();
            sum(&status, |worker| worker["decisions"].as_f64().unwrap()) >= decisions
        });
        status
    }

    /// Ends nginx gracefully. Checks that no worker died except those that the test killed.
    fn quit(mut self) -> String {
        signal(self.master.id(), libc::SIGQUIT);
        assert!(self.master.wait().unwrap().success());
        let log = self.log();
        // A killed worker may have held the lock: nginx then releases it, with a message.
        let ours = ["exited on signal 9", "was locked by"];
        let bad = |line: &&str| {
            ["[emerg]", "[crit]", "[alert]"].iter().any(|level| line.contains(level))
                && !ours.iter().any(|known| line.contains(known))
        };
        assert_eq!(log.lines().find(bad), None, "{log}");
        log
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.master.try_wait().unwrap().is_none() {
            signal(self.master.id(), libc::SIGTERM);
            let _ = self.master.wait();
        }
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a plain system call; the process is our child, or one of its.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// Sums a value over all workers of a status.
fn sum(status: &Value, of: impl Fn(&Value) -> f64) -> f64 {
    status["page"].as_array().unwrap().iter().map(of).sum()
}

/// The sum of the rewards in a worker's means, for a policy without noise.
fn rewards(worker: &Value) -> f64 {
    let arms = worker["arms"].as_array().unwrap().iter();
    arms.map(|arm| arm["mean"].as_f64().unwrap_or(0.0) * arm["effective_pulls"].as_f64().unwrap()).sum()
}

/// A connection that stays open.
struct Visitor(BufReader<UnixStream>);

impl Visitor {
    /// Returns the status, the worker and the body.
    fn get(&mut self, path: &str) -> Result<(u16, u32, String)> {
        let (head, body) = self.exchange(path)?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let worker = head.lines().find_map(|line| line.strip_prefix("X-Worker: ")).unwrap().parse().unwrap();
        Ok((status, worker, body))
    }

    fn exchange(&mut self, path: &str) -> Result<(String, String)> {
        self.send("GET", path)
    }

    fn send(&mut self, method: &str, path: &str) -> Result<(String, String)> {
        write!(self.0.get_mut(), "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")?;
        if method == "HEAD" { Ok((self.head()?, String::new())) } else { self.reply() }
    }

    fn head(&mut self) -> Result<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(head)
    }

    /// Returns the headers and the body.
    fn reply(&mut self) -> Result<(String, String)> {
        let head = self.head()?;
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body)?;
        Ok((head, String::from_utf8(body).unwrap()))
    }

    /// Makes a decision. Returns the variant and the ticket.
    fn choose(&mut self) -> (String, String) {
        let (status, _, body) = self.get("/choose").unwrap();
        assert_eq!(status, 200);
        let (variant, ticket) = body.split_once(' ').unwrap();
        (variant.to_owned(), ticket.to_owned())
    }

    fn reward(&mut self, ticket: &str) {
        assert_eq!(self.get(&format!("/reward?ticket={ticket}")).unwrap().0, 204);
    }
}

/// Half of the visitors of green click, and one in twenty of the others. Each worker sees 2500 visitors. In 20,000 runs
/// of such a handle alone, 992 of the last 1000 saw green on average, and at least 801.
#[test]
#[ignore = "builds the library with all optimisations"]
fn visitors_see_what_was_learned() {
    let Some(nginx) = Nginx::start("learns", "dpb_split $page epsilon=1 window=100 { blue; green; red; }") else {
        return;
    };
    let mut visitors = nginx.visitors();
    let mut turn = 0u64;
    for (worker, visitor) in visitors.iter_mut().enumerate() {
        let mut green = 0;
        for decision in 0..2500 {
            let (variant, ticket) = visitor.choose();
            turn = turn.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let rate = if variant == "green" { 50 } else { 5 };
            if (turn >> 33) % 100 < rate {
                visitor.reward(&ticket);
            }
            green += usize::from(decision >= 1500 && variant == "green");
        }
        println!("worker {worker}: {green} of the last 1000");
        assert!(green > 600, "worker {worker}: {green} of the last 1000");
    }
    nginx.quit();
}

/// A policy without noise: its means are exact, so the test can count the rewards.
const EXACT: &str = "dpb_split $page epsilon=1 policy=nonprivate-ucb1 window=50 { blue; green; red; }";
const WINDOW: usize = 50;

/// Lets every window end, with visitors who send no reward.
fn let_windows_end(visitors: &mut [Visitor]) {
    visitors.iter_mut().for_each(|visitor| (0..WINDOW).for_each(|_| drop(visitor.choose())));
}

/// Sends each reward to every worker, last to the one that decided; then to all again; too late; with changed digits;
/// with a value. Each reward counts once.
#[test]
#[ignore = "builds the library with all optimisations"]
fn a_reward_counts_once_at_any_worker() {
    let Some(nginx) = Nginx::start("once", EXACT) else { return };
    let mut visitors = nginx.visitors();
    let (mut counted, mut decisions) = (0.0, 0);
    for round in 0..200 {
        for owner in 0..WORKERS {
            let (_, ticket) = visitors[owner].choose();
            decisions += 1;
            let digit = if ticket.ends_with('0') { "1" } else { "0" };
            visitors[round % WORKERS].reward(&format!("{}{digit}", &ticket[..15]));
            match round % 5 {
                0 => continue, // no reward
                1 => {
                    // The first valid value is a quarter; invalid ones change nothing.
                    for worth in ["1.5", "-1", "nan", "", "0x1", "0.25", "1"] {
                        let path = format!("/worth?ticket={ticket}&reward={worth}");
                        assert_eq!(visitors[(owner + round) % WORKERS].get(&path).unwrap().0, 204);
                    }
                    counted += 0.25;
                }
                _ => {
                    for worker in (1..=WORKERS).chain(1..=round % 3) {
                        visitors[(owner + worker) % WORKERS].reward(&ticket);
                    }
                    counted += 1.0;
                }
            }
        }
    }
    // One reward is sent many times.
    let (_, ticket) = visitors[0].choose();
    (0..20 * WINDOW).for_each(|_| visitors[1].reward(&ticket));
    (counted, decisions) = (counted + 1.0, decisions + 1);
    // As late as possible, and one decision later.
    for owner in 0..WORKERS {
        for late in 0..2 {
            let (_, ticket) = visitors[owner].choose();
            (1..WINDOW + late).for_each(|_| drop(visitors[owner].choose()));
            visitors[(owner + 1) % WORKERS].reward(&ticket);
            decisions += WINDOW + late;
        }
        counted += 1.0;
    }
    let_windows_end(&mut visitors);
    decisions += WORKERS * WINDOW;
    let status = nginx.status_after(decisions as f64);
    assert!((sum(&status, rewards) - counted).abs() < 1e-3, "{status}");
    nginx.quit();
}

/// A window of time ends without traffic, and a later reward is refused.
#[test]
#[ignore = "builds the library with all optimisations"]
fn a_window_of_time_ends_without_traffic() {
    let Some(nginx) = Nginx::start("night", &EXACT.replace("window=50", "window=5s pending=64")) else { return };
    let mut visitors = nginx.visitors();
    let late: Vec<_> = visitors
        .iter_mut()
        .map(|visitor| {
            (0..10).for_each(|_| {
                let (_, ticket) = visitor.choose();
                visitor.reward(&ticket);
            });
            visitor.choose().1
        })
        .collect();
    let come = |status: &Value| sum(status, rewards);
    nginx.wait_for("windows to end", || (come(&nginx.status()) - 10.0 * WORKERS as f64).abs() < 1e-3);
    late.iter().for_each(|ticket| visitors[0].reward(ticket));
    std::thread::sleep(TICKS);
    let status = nginx.status_after(11.0 * WORKERS as f64);
    assert!((come(&status) - 10.0 * WORKERS as f64).abs() < 1e-3, "{status}");
    nginx.quit();
}

/// A reload loses nothing: rewards of decisions from before it count after it, once, at any worker, and the open ones of
/// a policy without snapshots too. Then again, several times in a row.
#[test]
#[ignore = "builds the library with all optimisations"]
fn a_reload_loses_nothing() {
    let Some(nginx) = Nginx::start("moves", EXACT) else { return };
    let (mut visitors, mut open, mut counted, mut decisions) = (nginx.visitors(), Vec::new(), 0, 0);
    for round in 1..=5 {
        for owner in 0..WORKERS {
            for number in 0..8 {
                let (_, ticket) = visitors[owner].choose();
                decisions += 1;
                if number % 4 == 0 {
                    visitors[(owner + round) % WORKERS].reward(&ticket);
                    counted += 1;
                }
                open.push((ticket, number % 4));
            }
        }
        drop(visitors);
        nginx.reload();
        nginx.wait_for("the states", || nginx.continued() == round * WORKERS);
        visitors = nginx.visitors();
        for (ticket, kind) in open.drain(..) {
            if kind < 2 {
                (0..WORKERS).for_each(|worker| visitors[worker].reward(&ticket));
            }
            counted += usize::from(kind == 1);
        }
        std::thread::sleep(TICKS);
    }
    let_windows_end(&mut visitors);
    let status = nginx.status_after((decisions + WORKERS * WINDOW) as f64);
    assert!((sum(&status, rewards) - counted as f64).abs() < 1e-3, "{counted}: {status}");
    let log = nginx.quit();
    assert!(!log.contains("lost"), "{log}");
}

/// Old workers that are killed before they hand over: their successors learn without their states, whose tickets do not
/// count.
#[test]
#[ignore = "builds the library with all optimisations"]
fn a_successor_of_a_killed_worker_waits_for_nothing() {
    let Some(nginx) = Nginx::start("hang", EXACT) else { return };
    let open: Vec<_> = nginx.visitors().iter_mut().map(|visitor| visitor.choose().1).collect();
    let old = nginx.workers();
    old.iter().for_each(|&worker| signal(worker, libc::SIGSTOP));
    signal(nginx.master.id(), libc::SIGHUP);
    nginx.wait_for("a reload", || nginx.workers().len() == 2 * WORKERS);
    old.iter().for_each(|&worker| signal(worker, libc::SIGKILL));
    nginx.wait_for("the old workers to end", || nginx.workers().is_disjoint(&old));
    let mut visitors = nginx.visitors();
    open.iter().for_each(|ticket| visitors[0].reward(ticket));
    nginx.wait_for("each place to have an owner that learns", || {
        visitors.iter_mut().for_each(|visitor| drop(visitor.choose()));
        let status = nginx.status();
        status["page"].as_array().unwrap().iter().all(|worker| worker["decisions"].as_u64() > Some(2 * WINDOW as u64))
    });
    let status = nginx.status();
    assert_eq!(sum(&status, rewards), 0.0, "{status}");
    assert_eq!(nginx.continued(), 0);
    nginx.quit();
}

/// All means and their counts, worker by worker.
fn learned(status: &Value) -> Vec<Value> {
    let workers = status["page"].as_array().unwrap().iter();
    let arms = workers.flat_map(|worker| worker["arms"].as_array().unwrap().clone());
    arms.map(|arm| serde_json::json!([arm["mean"], arm["effective_pulls"]])).collect()
}

const PRIVATE: &str = "dpb_split $page epsilon=1 window=50 { blue; green; red; }";

/// The number of rewards in a worker's means.
fn behind(worker: &Value) -> Vec<Value> {
    worker["arms"].as_array().unwrap().iter().map(|arm| arm["effective_pulls"].clone()).collect()
}

/// Whether each worker has merged all releases of the others: then their means contain equally many rewards.
fn agree(status: &Value) -> bool {
    let workers = status["page"].as_array().unwrap();
    workers.iter().all(|worker| worker["joined"] == WORKERS - 1 && behind(worker) == behind(&workers[0]))
}

/// Visitors of one worker click, and the other workers have none. All workers merge its releases, and their first
/// visitors see the best variant. In 20,000 runs 16 of the first 20 saw green, except in two runs, and 7 of 20 with a
/// handle alone. This remains when the one worker ends.
#[test]
#[ignore = "builds the library with all optimisations"]
fn workers_merge_each_others_releases() {
    let Some(nginx) = Nginx::start("joined", PRIVATE) else { return };
    let mut visitors = nginx.visitors();
    let mut clicks = visitors.pop().unwrap(); // at the last worker, because pids are nearly always in order
    for _ in 0..2000 {
        let (variant, ticket) = clicks.choose();
        if variant == "green" {
            visitors[0].reward(&ticket);
        }
    }
    let mut status = Value::Null;
    nginx.wait_for("the workers to join", || {
        status = nginx.status_after(2000.0);
        agree(&status)
    });
    let (teachers, learners): (Vec<_>, Vec<_>) =
        status["page"].as_array().unwrap().iter().partition(|worker| worker["decisions"] == 2000);
    assert_eq!((teachers.len(), learners.len()), (1, WORKERS - 1), "{status}");
    for learner in learners {
        assert_eq!((&learner["decisions"], &learner["epsilon_spent"]), (&0.into(), &1.into()), "{status}");
        let mean = |variant: usize| learner["arms"][variant]["mean"].as_f64().unwrap();
        assert!(mean(1) > mean(0).max(mean(2)), "{status}");
    }
    for visitor in &mut visitors {
        let green = (0..20).filter(|_| visitor.choose().0 == "green").count();
        assert!(green >= 16, "{green} of the first 20");
    }
    drop((visitors, clicks));

    let configuration = fs::read_to_string(nginx.place.join("nginx.conf")).unwrap();
    fs::write(nginx.place.join("nginx.conf"), configuration.replace("worker_processes 4", "worker_processes 3"))
        .unwrap();
    let old = nginx.workers();
    signal(nginx.master.id(), libc::SIGHUP);
    nginx.wait_for("a reload", || nginx.workers().is_disjoint(&old));
    let before = behind(&status["page"][0]);
    nginx.wait_for("three workers to join", || {
        status = nginx.status();
        status["page"].as_array().unwrap().iter().all(|worker| worker["joined"] == 3)
    });
    let workers = status["page"].as_array().unwrap();
    assert!(workers.len() == 3 && workers.iter().all(|worker| behind(worker) == before), "{status}");
    nginx.quit();
}

/// With a policy that cannot merge, each worker learns alone, as its status shows, also over restarts.
#[test]
#[ignore = "builds the library with all optimisations"]
fn workers_with_a_policy_that_cannot_merge_learn_alone() {
    let Some(nginx) = Nginx::start("alone", &PRIVATE.replace("window", "policy=tsallis window")) else {
        return;
    };
    let mut visitors = nginx.visitors();
    for _ in 0..2000 {
        let (variant, ticket) = visitors[0].choose();
        if variant == "green" {
            visitors[1].reward(&ticket);
        }
    }
    drop(visitors);
    let before = nginx.status_after(2000.0);
    std::thread::sleep(TICKS);
    let after = nginx.status_after(2000.0);
    assert_eq!(after, before);
    for worker in after["page"].as_array().unwrap() {
        assert_eq!(worker["joined"], 0, "{after}");
        let knows = worker["arms"].as_array().unwrap().iter().all(|arm| arm["mean"].is_number());
        assert_eq!(knows, worker["decisions"] == 2000, "{after}");
    }
    nginx.reload();
    assert_eq!(learned(&nginx.status_after(2000.0)), learned(&before));
    nginx.quit();
}

/// A reload and the death of a worker: releases stay and count once together with those of the others, also while an
/// old worker still runs. No ticket of an earlier process counts.
#[test]
#[ignore = "builds the library with all optimisations"]
fn a_new_worker_continues_from_the_releases() {
    let Some(nginx) = Nginx::start("lives", PRIVATE) else { return };
    let play = |decisions: usize, in_all: usize| {
        for visitor in &mut nginx.visitors() {
            for _ in 0..decisions {
                let (variant, ticket) = visitor.choose();
                if variant == "green" {
                    visitor.reward(&ticket);
                }
            }
        }
        let mut status = Value::Null;
        nginx.wait_for("the workers to join", || {
            status = nginx.status_after((in_all * WORKERS) as f64);
            agree(&status)
        });
        for arm in 0..3 {
            let pulls = sum(&status, |worker| worker["arms"][arm]["pulls"].as_f64().unwrap());
            assert!(status["page"][0]["arms"][arm]["effective_pulls"].as_f64().unwrap() <= pulls, "{status}");
        }
        status
    };
    let before = play(400, 400);
    let decisions = |status: &Value| sum(status, |worker| worker["decisions"].as_f64().unwrap());
    assert_eq!(decisions(&before), (400 * WORKERS) as f64);
    assert!(before["page"].as_array().unwrap().iter().all(|worker| worker["epsilon_spent"] == 1.0), "{before}");
    let (mut slow, mut slower, mut quick) = (nginx.visitors(), nginx.visitors(), nginx.visitors());
    let (old, started) = (nginx.workers(), slow.iter_mut().chain(&mut slower));
    started.for_each(|visitor| visitor.0.get_mut().write_all(b"GET /choose HTTP/1.1\r\n").unwrap());
    quick.iter_mut().for_each(|visitor| drop(visitor.get("/plain").unwrap())); // so workers have read the others
    signal(nginx.master.id(), libc::SIGHUP);
    nginx.wait_for("a reload", || nginx.workers().len() == 2 * WORKERS);
    nginx.wait_for("the states", || nginx.continued() == WORKERS);
    assert_eq!(learned(&nginx.status_after(decisions(&before))), learned(&before));
    for visitors in [slow, slower] {
        for mut visitor in visitors {
            visitor.0.get_mut().write_all(b"Host: localhost\r\n\r\n").unwrap();
            visitor.reply().unwrap();
        }
        for _ in 0..20 {
            std::thread::sleep(TICKS / 20);
            assert_eq!(decisions(&nginx.status()), decisions(&before), "nobody learns from an old worker's");
        }
    }
    nginx.wait_for("the old workers to end", || nginx.workers().is_disjoint(&old));
    for worker in nginx.workers() {
        assert_eq!(learned(&nginx.status_after(decisions(&before))), learned(&before));
        nginx.kill(worker);
    }
    assert_eq!(learned(&nginx.status_after(decisions(&before))), learned(&before));
    // Decisions continue. With another epsilon or other variants the bandit starts anew.
    assert_eq!(decisions(&play(100, 500)), (500 * WORKERS) as f64);
    let module = MODULE.as_ref().unwrap().to_str();
    for (split, says) in [(PRIVATE.replace("=1", "=2"), true), (PRIVATE.replace("red", "pink"), false)] {
        configure(&nginx.place, module, &split);
        nginx.reload();
        assert_eq!(decisions(&play(10, 10)), (10 * WORKERS) as f64, "{split}");
        assert_eq!(nginx.log().contains("starts afresh: epsilon must be"), says, "{split}");
        fs::write(nginx.place.join("error.log"), "").unwrap();
    }
    nginx.quit();
}

#[test]
#[ignore = "builds the library with all optimisations"]
fn no_ticket_of_a_killed_worker_counts() {
    let Some(nginx) = Nginx::start("tickets", EXACT) else { return };
    let mut visitors = nginx.visitors();
    let mut tickets = Vec::new();
    let mut choose = |visitors: &mut [Visitor]| {
        for visitor in visitors {
            tickets.extend((0..10).map(|_| visitor.choose().1));
        }
    };
    choose(&mut visitors);
    drop(visitors);
    nginx.reload();
    nginx.wait_for("the states", || nginx.continued() == WORKERS);
    choose(&mut nginx.visitors());
    nginx.workers().into_iter().for_each(|worker| nginx.kill(worker));

    let mut visitors = nginx.visitors();
    tickets.iter().for_each(|ticket| visitors.iter_mut().for_each(|visitor| visitor.reward(ticket)));
    let ours: Vec<String> = visitors.iter_mut().map(|visitor| visitor.choose().1).collect();
    tickets.iter().chain(&ours).for_each(|ticket| visitors[0].reward(ticket));
    let_windows_end(&mut visitors);
    let status = nginx.status_after((WORKERS * (WINDOW + 1)) as f64);
    assert!((sum(&status, rewards) - WORKERS as f64).abs() < 1e-6, "{status}");
    nginx.quit();
}

/// After a reload an old worker may have visitors for long. It serves them, takes no rewards of its successor, and its
/// tickets are not taken for the successor's.
#[test]
#[ignore = "builds the library with all optimisations"]
fn an_old_worker_takes_no_rewards_of_its_successor() {
    let Some(nginx) = Nginx::start("lingers", EXACT) else { return };
    let (mut slow, mut quick) = (nginx.visitors(), nginx.visitors());
    slow.iter_mut().for_each(|visitor| visitor.0.get_mut().write_all(b"GET /choose HTTP/1.1\r\n").unwrap());
    quick.iter_mut().for_each(|visitor| drop(visitor.get("/plain").unwrap())); // so workers have read the others
    let before = nginx.workers();
    signal(nginx.master.id(), libc::SIGHUP);
    nginx.wait_for("a reload", || nginx.workers().len() == 2 * WORKERS);
    nginx.wait_for("the states", || nginx.continued() == WORKERS);

    let mut visitors = nginx.visitors_of(&nginx.workers().difference(&before).copied().collect());
    for round in 0..10 {
        for owner in 0..WORKERS {
            let (_, ticket) = visitors[owner].choose();
            visitors[(owner + round) % WORKERS].reward(&ticket);
        }
        std::thread::sleep(TICKS / 4); // a tick collects some of them
    }
    for visitor in &mut slow {
        visitor.0.get_mut().write_all(b"Host: localhost\r\n\r\n").unwrap();
        let (head, body) = visitor.reply().unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let (_, ticket) = body.split_once(' ').unwrap();
        visitors[0].reward(ticket);
    }
    nginx.wait_for("the old workers to end", || nginx.workers().is_disjoint(&before));
    let_windows_end(&mut visitors);
    let status = nginx.status_after((WORKERS * (10 + WINDOW)) as f64);
    assert!((sum(&status, rewards) - (WORKERS * 10) as f64).abs() < 1e-6, "{status}");
    nginx.quit();
}

/// Reloads, the module removed and added again, and workers killed one after the other, under load. Only visitors whose
/// worker was killed get no response.
#[test]
#[ignore = "builds the library with all optimisations"]
fn it_survives_reloads_and_killed_workers_under_load() {
    const SPLIT: &str = "dpb_split $page epsilon=1 { blue; green; red; }";
    const CROWD: usize = 4;
    let Some(nginx) = Nginx::start("load", SPLIT) else { return };
    let (over, failed, served) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let visit = || -> Result<()> {
        // Two connections, so that the reward may come to another worker.
        let (status, _, body) = nginx.visitor()?.get("/choose")?;
        assert_eq!(status, 200);
        let (variant, ticket) = body.split_once(' ').unwrap();
        assert!(["blue", "green", "red"].contains(&variant) && ticket.len() == 16, "{body}");
        let status = nginx.visitor()?.get(&format!("/reward?ticket={ticket}"))?.0;
        assert_eq!(status, 204);
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if visit().is_err() {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more = |visits: usize| {
            let before = served.load(Ordering::Relaxed);
            nginx.wait_for("visits", || served.load(Ordering::Relaxed) >= before + visits);
        };
        for _ in 0..5 {
            more(500);
            nginx.reload();
        }
        more(500);
        assert_eq!(failed.load(Ordering::Relaxed), 0, "a reload costs nobody's request");
        for kills in 1..=20 {
            let workers = nginx.workers();
            nginx.kill(*workers.iter().nth(kills % WORKERS).unwrap());
            more(100);
            assert!(failed.load(Ordering::Relaxed) <= kills * CROWD);
        }
        over.store(true, Ordering::Relaxed);
    });
    println!("{} visits, {} failed", served.into_inner(), failed.into_inner());

    // A reload without the module unloads it; the next one loads it again.
    configure(&nginx.place, None, "");
    nginx.reload();
    assert_eq!(nginx.visitor().unwrap().get("/choose").unwrap().0, 404);
    configure(&nginx.place, MODULE.as_ref().unwrap().to_str(), SPLIT);
    nginx.reload();
    visit().unwrap();
    let log = nginx.quit();
    assert_eq!(log.matches("exited on signal 9").count(), 20);
}

/// The status of a reward depends on rewards: no response reveals it, and the published status does not before its
/// window is over.
#[test]
#[ignore = "builds the library with all optimisations"]
fn no_response_reveals_the_status_of_a_reward() {
    let Some(nginx) = Nginx::start("told", EXACT) else { return };
    let mut visitors = nginx.visitors();
    let (_, ticket) = visitors[0].choose();
    let before = nginx.status_after(1.0);
    let mut replies = BTreeSet::new();
    for ticket in [&ticket, &ticket, &ticket.replace('1', "2"), "0000000000000000", "ffffffffffffffff", "", "%00", "x"]
    {
        let (head, body) = visitors[1].exchange(&format!("/reward?ticket={ticket}")).unwrap();
        assert_eq!(body, "");
        assert_eq!(nginx.status(), before, "before it is collected"); // a tick has nearly never passed yet
        replies.insert(head.lines().filter(|line| !line.starts_with("Date: ")).collect::<String>());
    }
    assert_eq!(replies.len(), 1, "{replies:?}");
    std::thread::sleep(TICKS);
    assert_eq!(nginx.status(), before, "and after");
    nginx.quit();
}

/// The statements of two blocks, from every worker: what is guaranteed, and what is spent. A worker that has merged counts
/// what others may have spent. One that learns alone has spent nothing before its first release, whatever rewards wait.
#[test]
#[ignore = "builds the library with all optimisations"]
fn anybody_may_read_what_is_guaranteed() {
    let alone = PRIVATE.replace("window", "policy=tsallis window");
    let Some(nginx) = Nginx::start("stated", &format!("{alone}\ndpb_split $more epsilon=0.25 {{ a; b; }}")) else {
        return;
    };
    nginx.wait_for("the workers to join", || {
        nginx.status()["more"].as_array().unwrap().iter().all(|worker| worker["joined"] == WORKERS - 1)
    });
    let mut visitors = nginx.visitors();
    let read = |visitor: &mut Visitor| {
        [("/privacy", "text/plain; charset=utf-8"), ("/privacy.json", "application/json")].map(|(path, kind)| {
            let (head, body) = visitor.exchange(path).unwrap();
            let says_kind = head.contains(&format!("\r\nContent-Type: {kind}\r\n"));
            assert!(head.starts_with("HTTP/1.1 200 ") && says_kind, "{head}");
            body
        })
    };
    let before = read(&mut visitors[0]);
    let [prose, list] = &before;
    assert!(prose.matches("\nNot protected: ").count() == 2 && prose.ends_with(".\n"), "{prose}");
    assert!(
        prose.contains("So far at most 0 of epsilon") && prose.contains("So far at most 0.25 of epsilon"),
        "{prose}"
    );
    let stated: Value = serde_json::from_str(list).unwrap();
    let facts = |of: &Value| {
        let epsilon = &of["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"];
        [epsilon, &of["libdpb"]["epsilon_spent"]].map(|number| number.as_f64().unwrap())
    };
    assert_eq!(stated.as_array().unwrap().iter().map(facts).collect::<Vec<_>>(), [[1.0, 0.0], [0.25, 0.25]], "{list}");

    let tickets: Vec<_> = visitors.iter_mut().map(|visitor| visitor.choose().1).collect();
    tickets.iter().for_each(|ticket| visitors[0].reward(ticket));
    std::thread::sleep(TICKS);
    visitors.iter_mut().for_each(|visitor| assert_eq!(read(visitor), before, "rewards wait"));
    (0..2000).for_each(|_| drop(visitors[0].choose()));
    assert!(read(&mut visitors[0])[0].contains("So far at most 1 of epsilon"), "after a release");
    visitors[1..].iter_mut().for_each(|visitor| assert_eq!(read(visitor), before, "they learn alone"));
    let (head, body) = visitors[0].send("HEAD", "/privacy").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head}");
    nginx.quit();
}

/// Only GET and POST make decisions and report rewards. A reward by any other method gets the same response, and does
/// not count, and neither does a ticket that is not 16 plain digits.
#[test]
#[ignore = "builds the library with all optimisations"]
fn only_visits_decide_and_only_their_rewards_count() {
    let Some(nginx) = Nginx::start("methods", EXACT) else { return };
    let mut visitors = nginx.visitors();
    const NONE: [&str; 7] = ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "PROPFIND", "PURGE"];
    let without_date = |head: String| head.lines().filter(|line| !line.starts_with("Date: ")).collect::<String>();
    let mut decisions = 0;
    for owner in 0..WORKERS {
        for method in NONE {
            let (head, body) = visitors[owner].send(method, "/choose").unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{method}: {head}");
            assert!(method == "HEAD" || body == "blue ", "{method}: the first variant without a ticket, got {body:?}");
        }
        let (_, body) = visitors[owner].send("POST", "/choose").unwrap();
        let tickets =
            [visitors[owner].choose().1, body.split_once(' ').unwrap().1.to_owned(), visitors[owner].choose().1];
        decisions += tickets.len();
        let visitor = &mut visitors[(owner + 1) % WORKERS];
        let mut replies = BTreeSet::new();
        for (method, ticket) in NONE.iter().flat_map(|method| tickets.iter().map(move |ticket| (method, ticket))) {
            replies.insert(without_date(visitor.send(method, &format!("/reward?ticket={ticket}")).unwrap().0));
        }
        let encoded: String = tickets[0].bytes().map(|digit| format!("%{digit:02x}")).collect();
        for ticket in [&encoded, &format!("%{:02x}{}", tickets[0].as_bytes()[0], &tickets[0][1..])] {
            replies.insert(without_date(visitor.send("GET", &format!("/reward?ticket={ticket}")).unwrap().0));
        }
        replies.insert(without_date(visitor.send("GET", &format!("/reward?ticket={}", tickets[1])).unwrap().0));
        replies.insert(without_date(visitor.send("POST", &format!("/reward?ticket={}", tickets[2])).unwrap().0));
        assert!(replies.len() == 1 && replies.first().unwrap().starts_with("HTTP/1.1 204"), "{replies:?}");
    }
    let_windows_end(&mut visitors);
    decisions += WORKERS * WINDOW;
    let status = nginx.status_after(decisions as f64);
    assert_eq!(sum(&status, |worker| worker["decisions"].as_f64().unwrap()), decisions as f64);
    assert!((sum(&status, rewards) - 2.0 * WORKERS as f64).abs() < 1e-6, "{status}");
    nginx.quit();
}

/// A request that reads the variables makes one decision, however often it reads them. Other requests make none.
#[test]
#[ignore = "builds the library with all optimisations"]
fn a_request_has_one_decision() {
    let place = directory("decision");
    let split = "dpb_split $page epsilon=1 { blue; green; }\nmap $page $shown { default \"<$page $page_ticket>\"; }\n\
                 log_format both \"$page $page_ticket $shown\";";
    let Some(nginx) = command(&place, split) else { return };
    let configuration = fs::read_to_string(place.join("nginx.conf")).unwrap();
    let logged = format!("location = /choose {{ access_log {}/both.log both;", place.display());
    fs::write(place.join("nginx.conf"), configuration.replace("location = /choose {", &logged)).unwrap();
    let nginx = Nginx::launch(nginx, place);
    let mut visitors = nginx.visitors();
    let chosen: Vec<_> = (0..100).map(|i| visitors[i % WORKERS].choose()).collect();
    let status = nginx.status_after(100.0);
    assert_eq!(sum(&status, |worker| worker["decisions"].as_f64().unwrap()), 100.0);
    let written = fs::read_to_string(nginx.place.join("both.log")).unwrap();
    for (variant, ticket) in chosen {
        assert!(written.contains(&format!("{variant} {ticket} <{variant} {ticket}>\n")), "{written}");
    }
    nginx.quit();
}

#[test]
#[ignore = "builds the library with all optimisations"]
fn invalid_directives_are_refused_with_their_line() {
    let place = directory("refused");
    let split = |options: &str| format!("dpb_split $page {options} {{ blue; green; }}");
    let cases = [
        (split(""), "epsilon must be"),
        (split("epsilon=0"), "epsilon must be"),
        (split("epsilon=one"), "invalid option \"epsilon=one\""),
        (split("epsilon="), "invalid option \"epsilon=\""),
        (split("epsilon=1 colour=2"), "invalid option \"colour=2\""),
        (split("epsilon=1 window=0"), "window must be 1 .. 65536"),
        (split("epsilon=1 window=65537"), "window must be 1 .. 65536"),
        (split("epsilon=1 window=1.5"), "invalid option \"window=1.5\""),
        (split("epsilon=1 window=5d"), "invalid option \"window=5d\""),
        (split("epsilon=1 window=1194h"), "or a time up to 1193h"),
        (split("epsilon=1 window=30m memory=5000"), "window and memory must both be times"),
        (split("epsilon=1 window=30m pending=65537"), "pending must be 1 .. 65536"),
        (split("epsilon=1 window=-1"), "invalid option \"window=-1\""),
        (split("epsilon=1 memory=5"), "forget_after must be"),
        (split("epsilon=1 floor=2"), "exploration must be"),
        (split("epsilon=1 policy=dp-best"), "policy"),
        (split("epsilon=1 policy=dp-ucb-int"), "delta"),
        ("dpb_split $page epsilon=1 { blue; }".into(), "arms must be"),
        ("dpb_split $page epsilon=1 { blue sky; }".into(), "more than one word"),
        ("dpb_split $page epsilon=1 { blue; green; blue; }".into(), "duplicate variant \"blue\""),
        ("dpb_split page epsilon=1 { blue; green; }".into(), "invalid variable name \"page\""),
        ("dpb_split $uri epsilon=1 { blue; green; }".into(), "duplicate"),
        (format!("{0}\n{0}", split("epsilon=1")), "duplicate"),
        ("dpb_split $other epsilon=1 { blue; green; }".into(), "no dpb_split above has the variable \"$page\""),
        (String::new(), "no dpb_split above"),
        (format!("{}\nworker_processes", split("epsilon=1")), "worker_processes"),
    ];
    for (split, says) in cases {
        let Some(mut nginx) = command(&place, &split) else { return };
        let output = nginx.arg("-t").output().unwrap();
        assert!(!output.status.success() && text(&output).contains(says), "{split}: {}", text(&output));
    }
    let Some(mut nginx) = command(&place, &split("epsilon=1 floor=0.5 memory=100000 window=65536 contributions=2"))
    else {
        return;
    };
    run(nginx.arg("-t"));
    let Some(mut nginx) = command(&place, &split("epsilon=1 window=30m memory=12h pending=1000")) else { return };
    run(nginx.arg("-t"));
    let Some(mut nginx) = command(&place, &split("epsilon=1")) else { return };
    let configuration = fs::read_to_string(place.join("nginx.conf")).unwrap();
    for directive in ["dpb_status", "dpb_reward", "dpb_statement"] {
        let line = configuration.lines().find(|line| line.contains(directive)).unwrap().trim();
        let line = &line[line.find(directive).unwrap()..=line.rfind(';').unwrap()];
        fs::write(place.join("nginx.conf"), configuration.replace(line, &format!("{line} {line}"))).unwrap();
        let output = nginx.output().unwrap();
        let says = format!("\"{directive}\" directive is duplicate");
        assert!(!output.status.success() && text(&output).contains(&says), "{}", text(&output));
    }
    fs::write(place.join("nginx.conf"), configuration.replace("dpb_statement json", "dpb_statement xml1")).unwrap();
    let output = nginx.output().unwrap();
    assert!(!output.status.success() && text(&output).contains("invalid form \"xml1\""), "{}", text(&output));
    let (none, _) = configuration.split_once("dpb_split").unwrap();
    fs::write(place.join("nginx.conf"), format!("{none}server {{\nlocation / {{ dpb_statement; }}\n}}\n}}\n")).unwrap();
    let output = nginx.output().unwrap();
    assert!(!output.status.success() && text(&output).contains("no dpb_split above"), "{}", text(&output));
    fs::write(place.join("nginx.conf"), configuration.replace("worker_processes 4", "worker_processes 257")).unwrap();
    let output = nginx.output().unwrap();
    assert!(!output.status.success() && text(&output).contains("at most 256 workers"), "{}", text(&output));
    let _ = fs::remove_dir_all(place);
}

#[test]
#[ignore = "builds the library with all optimisations"]
fn the_module_exports_nothing_of_the_library() {
    let Some(module) = MODULE.as_ref() else { return };
    assert_eq!(
        defined(module, true),
        sorted(
            ["ngx_http_dpb_module D", "ngx_module_names D", "ngx_module_order B", "ngx_modules D"]
                .map(String::from)
                .into()
        )
    );
}

/// The configuration on the page, with other paths.
#[test]
#[ignore = "builds the library with all optimisations"]
fn the_configuration_on_the_page_works() {
    let place = directory("page");
    let Some(mut nginx) = command(&place, "") else { return };
    let page = &snippets(PAGE, "nginx")[0];
    let (http, module) = (format!("http {{\n    access_log {}/access.log;", place.display()), MODULE.as_ref().unwrap());
    let page = page.replace("modules/ngx_http_dpb_module.so", module.to_str().unwrap()).replace("http {", &http);
    let page = page.replace("8080", &format!("unix:{}/socket", place.display()));
    let daemon = format!("daemon off;\nworker_processes {WORKERS};\npid {}/pid;\n", place.display());
    fs::write(place.join("nginx.conf"), format!("{daemon}{page}")).unwrap();
    run(nginx.arg("-t"));
    let _ = fs::remove_dir_all(place);
}

/// Whole runs of workers without invalid memory accesses or leaks.
#[test]
#[ignore = "builds the library with all optimisations"]
fn valgrind_finds_nothing() {
    let place = directory("valgrind");
    let Some(nginx) = command(&place, PRIVATE) else { return };
    if !have("valgrind") {
        return;
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("-q").arg(format!("--log-file={}/valgrind.%p", place.display())).arg("--leak-check=full");
    valgrind
        .args(["--show-leak-kinds=definite,indirect", "--keep-debuginfo=yes"])
        .arg(nginx.get_program())
        .args(nginx.get_args());
    let nginx = Nginx::launch(valgrind, place);
    for reload in [true, true, false] {
        let mut visitors = nginx.visitors();
        for round in 0..100 {
            let (_, ticket) = visitors[round % WORKERS].choose();
            visitors[round % 3].reward(&ticket);
        }
        for path in ["/privacy", "/privacy.json"] {
            assert_eq!(visitors[0].get(path).unwrap().0, 200);
        }
        drop(visitors);
        std::thread::sleep(TICKS);
        nginx.status();
        if reload {
            nginx.reload();
        }
    }
    let mut reports = BTreeMap::new();
    signal(nginx.master.id(), libc::SIGQUIT);
    nginx.wait_for("the end", || nginx.workers().is_empty());
    for entry in fs::read_dir(&nginx.place).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("valgrind.") {
            reports.insert(path.clone(), fs::read_to_string(path).unwrap());
        }
    }
    assert!(reports.len() > 3 * WORKERS, "the master and its workers");
    // nginx itself does not free all of its memory.
    let ours = |report: &&String| ["Invalid", "uninitialised", "dpb"].iter().any(|word| report.contains(word));
    assert_eq!(reports.values().find(ours), None);
}
