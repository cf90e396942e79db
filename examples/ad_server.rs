//! An ad server that learns which ads are clicked, with differential privacy for the clicks.
//!
//! ```text
//! cargo run --release --example ad_server                 # a simulated day, and its results
//! cargo run --release --example ad_server -- --serve --port 8080
//! cargo run --release --example ad_server -- --visit http://127.0.0.1:8080   # the day, at that server
//! ```
//!
//! At noon of the day the best ad becomes the worst. The policy adapts, because it has `forget_after`.
//!
//! `GET /ad` chooses a creative, `GET /click/<ticket>` reports a click, `GET /report` returns released values only,
//! `GET /healthz` reports whether the server can decide, and `/` is a live page. A production server would also
//! authenticate its callers.
//!
//! A click always gets the same empty response, whether it is in time, duplicate, late or forged, because the status
//! reveals rewards. With `--operator-port`, `GET /diagnostics` returns the counts of refused clicks, to the same
//! machine only.
//!
//! With `--window 30m` a click counts if it comes within half an hour after its ad. The server sets the bandit's clock
//! at each `/ad` and once a second, but never at a click, because time must not depend on rewards.
//!
//! With `--sales` an ad earns by parts: a click, what the visitor buys, and what comes back. The shop's own program reports
//! purchases and returns, in euros, on the operator's port: `GET /bought/<ticket>?euros=39.90`, and `/returned/...`. What
//! comes after the window does not count.
//!
//! With `--snapshot FILE` the server continues after a restart with what it has learned, also after `kill -9`: see
//! `save`. With `--fleet-key-file FILE` too a restart loses nothing, and tickets stay valid: see `common/files.rs`.

#[path = "common/day.rs"]
mod day;
#[path = "common/files.rs"]
mod files;

use day::{
    ARMS, CREATIVES, DAYS, Day, FORGET_AFTER, NOON, Outcome, REWARD_WINDOW, VISITORS, best, config, config_of_tastes,
    rate,
};
use dpb::{Algorithm, Bandit, Clock, Config, Error, Report};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_io_timeout::TimeoutWriter;

type Anything<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The number of simulated browsers. Each requests ads for one visitor after the other.
const BROWSERS: usize = 4;

/// The time that a visitor may take to send a request, to begin the next one, or to receive a response.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that running responses may take when the server ends.
const GRACE: Duration = Duration::from_secs(1);
/// The maximum number of connections. For a new one, the server closes those that have been idle for longest.
const MAX_CONNECTIONS: usize = 2000;
/// The number of connections that it closes at once.
const CLOSED_AT_ONCE: usize = 16;
/// The maximum number of connections that wait to be accepted. With tokio's 128, many simultaneous ones would be
/// refused.
const BACKLOG: u32 = 4096;
/// `pending_capacity` for a window of time: 580 decisions a second for half an hour.
const PENDING: u32 = 1 << 20;
/// `forget_after` in milliseconds, for windows of time: half a day.
const HALF_A_DAY: u64 = 12 * 3_600_000;
/// The interval at which the server sets the bandit's clock, also without traffic.
const TICK: Duration = Duration::from_secs(1);
/// With `--sales`, the earnings of a click, of a euro bought, and of a euro returned. A visitor who spends 95 euros or more
/// earns an ad as much as an ad can earn.
const EARNINGS: [f64; 3] = [0.05, 0.01, -0.01];
/// The maximum size of a request in bytes. No request has a body.
const MAX_REQUEST: usize = 16 << 10;

fn main() {
    let options = Options::parse().unwrap_or_else(|message| {
        eprintln!("{message}\n\n{USAGE}");
        std::process::exit(2)
    });
    if let Err(error) = run(options) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

const USAGE: &str = "usage: ad_server [--serve | --visit URL] [--port N] [--operator-port N]
                 [--policy NAME] [--epsilon X] [--delta X] [--window SPAN] [--memory SPAN] [--sales]
                 [--snapshot FILE] [--snapshot-every MS] [--fleet-key-file FILE] [--report-every MS]
  --serve            serve until Ctrl-C; without it, simulate one day and print its results
  --visit URL        simulate the day at a running server, in any language
  --port N           port for visitors; default 0: any free port
  --operator-port N  port for the counts of refused clicks, for this machine only; default: none
  --policy NAME      default: the recommended one
  --epsilon X        privacy parameter for one click; default 1
  --delta X          default 0; some policies need one, such as 1e-6
  --window SPAN      a click counts within this time after its ad; default 1000. A SPAN is a number of decisions, or a
                     time: 500ms, 30s, 30m, 2h. A time needs --serve, because the day's clock counts visitors
  --memory SPAN      forget releases of this age; 0: never. Default 50000, or 12h if --window is a time, if the policy
                     supports it. Both must be of the same kind
  --sales            ads earn by clicks, purchases and returns, which the operator's port takes
  --snapshot FILE    continue from this file if it exists, and write snapshots to it
  --snapshot-every MS  interval of snapshots in milliseconds; default 10000
  --fleet-key-file FILE  with --snapshot: a restart loses nothing, because the server leaves its open decisions and
                     batches, sealed, to the next one. The file has 32 secret random bytes or 64 hexadecimal digits,
                     and no other user may be able to read it
  --report-every MS  least time between two reports in milliseconds; default 1000";

struct Options {
    serve: bool,
    visit: Option<String>,
    port: u16,
    operator_port: Option<u16>,
    policy: Algorithm,
    epsilon: f64,
    delta: f64,
    window: Span,
    memory: Option<Span>,
    sales: bool,
    snapshot: Option<PathBuf>,
    snapshot_every: NonZeroU32,
    key_file: Option<PathBuf>,
    report_every: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            serve: false,
            visit: None,
            port: 0,
            operator_port: None,
            policy: Algorithm::RECOMMENDED,
            epsilon: 1.0,
            delta: 0.0,
            window: Span { ticks: REWARD_WINDOW.into(), is_time: false },
            memory: None,
            sales: false,
            snapshot: None,
            snapshot_every: NonZeroU32::new(10_000).expect("not 0"),
            key_file: None,
            report_every: 1000,
        }
    }
}

impl Options {
    /// An error names the option.
    fn parse() -> Result<Options, String> {
        let mut name = String::new();
        Options::read(&mut name).map_err(|error| name + &error.to_string())
    }

    /// `name` becomes the option that is being read.
    fn read(name: &mut String) -> Result<Options, lexopt::Error> {
        use lexopt::prelude::*;
        let mut options = Options::default();
        let mut words = lexopt::Parser::from_env();
        while let Some(word) = words.next()? {
            if let Long(option) = word {
                *name = format!("--{option}: ");
            }
            match word {
                Long("serve") => options.serve = true,
                Long("visit") => options.visit = Some(words.value()?.string()?),
                Long("port") => options.port = words.value()?.parse()?,
                Long("operator-port") => options.operator_port = Some(words.value()?.parse()?),
                Long("policy") => options.policy = words.value()?.parse_with(policy_named)?,
                Long("epsilon") => options.epsilon = words.value()?.parse()?,
                Long("delta") => options.delta = words.value()?.parse()?,
                Long("window") => options.window = words.value()?.parse_with(span)?,
                Long("memory") => options.memory = Some(words.value()?.parse_with(span)?),
                Long("sales") => options.sales = true,
                Long("snapshot") => options.snapshot = Some(words.value()?.into()),
                Long("fleet-key-file") => options.key_file = Some(words.value()?.into()),
                Long("snapshot-every") => options.snapshot_every = words.value()?.parse()?,
                Long("report-every") => options.report_every = words.value()?.parse()?,
                _ => return Err(word.unexpected()),
            }
        }
        name.clear();
        if options.window.ticks == 0 || options.window.ticks > u32::MAX.into() {
            return Err("--window must be at least 1, and 1193h at most".into());
        }
        if options.memory.is_some_and(|memory| memory.ticks > 0 && memory.is_time != options.window.is_time) {
            return Err("--window and --memory must both be times, or both be decisions".into());
        }
        if options.window.is_time && !options.serve {
            return Err("--window must be a number of decisions without --serve".into());
        }
        if options.sales && (!options.serve || options.operator_port.is_none()) {
            return Err("--sales needs --serve, and --operator-port, which takes purchases and returns".into());
        }
        if options.key_file.is_some() && options.snapshot.is_none() {
            return Err("--fleet-key-file needs --snapshot".into());
        }
        Ok(options)
    }

    fn config(&self, memory: u64) -> Config {
        let mut config = Config { delta: self.delta, ..config(self.epsilon, memory) };
        config.reward_window = self.window.ticks as u32;
        if self.window.is_time {
            (config.clock, config.pending_capacity) = (Clock::Caller, PENDING);
        }
        if self.sales {
            (config.parts, config.reward_bits) = (EARNINGS.len() as u32, 20);
            config.part_weights[..EARNINGS.len()].copy_from_slice(&EARNINGS);
        }
        config
    }

    fn bandit(&self, policy: Algorithm, memory: u64) -> Result<Bandit, Error> {
        Bandit::new(policy, &self.config(memory))
    }

    /// Makes the bandit with the `forget_after` of the options; without one, with the default, or with none if the
    /// policy does not support it. If there are files, the bandit continues from them. A snapshot that is not valid is
    /// an error.
    fn shop(&self) -> Anything<Shop> {
        let report_every = Duration::from_millis(self.report_every.into());
        let key = self.key_file.as_deref().map(files::read_key).transpose()?;
        let config = |memory| Config { fleet_key: key.clone(), ..self.config(memory) };
        let fresh = |memory| {
            let bandit = Bandit::new(self.policy, &config(memory))?;
            let (refused, leaps, reported) = Default::default();
            Ok(Shop { bandit, window: self.window, memory, sales: self.sales, refused, leaps, report_every, reported })
        };
        let mut shop = match self.memory {
            Some(memory) => fresh(memory.ticks),
            None => fresh(if self.window.is_time { HALF_A_DAY } else { FORGET_AFTER }).or_else(|_: Error| fresh(0)),
        }?;
        if let Some(file) = &self.snapshot
            && let Some(next) = files::resume(self.policy, &config(shop.memory), file)?
        {
            shop.bandit = next;
        }
        shop.tick();
        Ok(shop)
    }
}

/// A length, in decisions or in milliseconds.
#[derive(Clone, Copy)]
struct Span {
    ticks: u64,
    is_time: bool,
}

/// Parses `1000` (decisions), or `500ms`, `30s`, `30m`, `2h` (a time). All servers have the same syntax.
fn span(text: &str) -> Result<Span, String> {
    let wrong = || format!("{text:?} must be a number of decisions, or a time such as 500ms, 30s, 30m or 2h");
    let digits = text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let ticks = number.parse::<u64>().ok().and_then(|number| number.checked_mul(milliseconds));
    Ok(Span { ticks: ticks.ok_or_else(wrong)?, is_time: !unit.is_empty() })
}

/// Saves now, regularly until `done` closes, and then once more. Returns an error of the first or the last time. Logs
/// others and tries again.
fn keep(shop: Arc<Shop>, file: PathBuf, every: Duration, done: Receiver<()>) -> Anything<JoinHandle<Anything<()>>> {
    let save = move || save(&shop.bandit, &file).map_err(|error| format!("{}: {error}", file.display()));
    save()?;
    Ok(thread::spawn(move || {
        while done.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            save().unwrap_or_else(|error| eprintln!("{error}"));
        }
        Ok(save()?)
    }))
}

fn save(bandit: &Bandit, file: &Path) -> Anything<()> {
    let snapshot = bandit.snapshot()?;
    files::write(file, &snapshot)?;
    Ok(bandit.stored(&snapshot)?)
}

fn policy_named(name: &str) -> Result<Algorithm, String> {
    // Not `join`, which takes LLVM minutes to compile for a constant list of names.
    let all = |_| Algorithm::ALL.iter().fold("policies:".to_owned(), |all, policy| all + " " + policy.name());
    name.parse().map_err(all)
}

fn run(mut options: Options) -> Anything<()> {
    let (interrupt, mut interrupted) = watch::channel(false);
    ctrlc::set_handler(move || {
        interrupt.send_replace(true);
    })?;
    if let Some(address) = &options.visit {
        return spend_day(&options, address.trim_end_matches('/'), &interrupted);
    }

    options.snapshot = options.snapshot.as_deref().map(files::own).transpose()?;
    let _lock = options.snapshot.as_deref().map(files::lock).transpose()?;
    let shop = Arc::new(options.shop()?);
    let runtime = tokio::runtime::Runtime::new()?;
    let inside = runtime.enter();
    let (stop, stopped) = watch::channel(false);
    let mut servers = Vec::new();
    let mut open = |port, routes: Routes| -> Anything<SocketAddr> {
        let listener = listen(port).map_err(|error| format!("127.0.0.1:{port}: {error}"))?;
        let address = listener.local_addr()?;
        servers.push(serve(listener, routes, shop.clone(), stopped.clone()));
        Ok(address)
    };
    let address = format!("http://{}", open(options.port, visitors)?);
    let operators = options.operator_port.map(|port| open(port, operator)).transpose()?;
    // Save before serving, because the snapshot records this restart for the next one.
    let (done, is_done) = mpsc::channel();
    let every = Duration::from_millis(options.snapshot_every.get().into());
    let keeper = options.snapshot.clone().map(|file| keep(shop.clone(), file, every, is_done)).transpose()?;
    let servers: Vec<_> = servers.into_iter().map(|server| runtime.spawn(server)).collect();
    runtime.spawn(set_clock(shop.clone()));
    println!("{} serves ads at {address} (Ctrl-C to stop)", options.policy.name());
    if let Some(address) = operators {
        println!("the operator's counts, not private: http://{address}/diagnostics");
    }

    let ended = if options.serve {
        runtime.block_on(interrupted.wait_for(|interrupted| *interrupted)).map(drop).map_err(Into::into)
    } else {
        spend_day(&options, &address, &interrupted) // after an interrupt, the browsers stop before the server ends
    };
    stop.send_replace(true);
    for server in servers {
        runtime.block_on(server)?;
    }
    drop(done);
    keeper.map_or(Ok(()), |keeper| keeper.join().expect("it does not panic"))?;
    drop(inside);
    drop(runtime); // nothing uses the bandit any more
    if let (Some(file), Some(_)) = (&options.snapshot, &options.key_file) {
        files::suspend(&shop.bandit, file)?;
    }
    ended?;
    println!("stopped");
    Ok(())
}

// The server. All connections share one bandit by reference.

struct Shop {
    bandit: Bandit,
    window: Span,
    /// Its `forget_after`.
    memory: u64,
    sales: bool,
    /// Why the bandit refused the last time; None if it did not.
    refused: Mutex<Option<String>>,
    /// Leaps of the clock that stderr has.
    leaps: AtomicU64,
    /// The last report and its time. `/report` is public and takes longer than `/ad`, so it is cached.
    report_every: Duration,
    reported: Mutex<Option<(Instant, Bytes)>>,
}

impl Shop {
    /// Sets the bandit's clock if the window is a time. If the bandit refuses the time, it goes on with the last one, and
    /// stderr has each change of the reason.
    fn tick(&self) {
        if !self.window.is_time {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.advance(now.as_millis() as u64);
    }

    fn advance(&self, now: u64) {
        let reason = self.bandit.advance(now).err().map(|error| error.to_string());
        let mut refused = self.refused.lock().expect("it does not panic");
        if *refused != reason {
            match &reason {
                Some(reason) => eprintln!("the clock stands still: {reason}"),
                None => eprintln!("the clock goes on"),
            }
            *refused = reason;
        }
    }
}

impl Shop {
    /// Writes it to stderr if the clock has leapt: the machine's clock may be wrong.
    fn log_leaps(&self) {
        let Ok(Report { clock_leaps, .. }) = self.bandit.report() else { return };
        if self.leaps.swap(clock_leaps, Ordering::Relaxed) < clock_leaps {
            eprintln!("the clock leapt: the time continues from what it shows");
        }
    }
}

/// Sets the clock regularly, so that windows also end without traffic.
async fn set_clock(shop: Arc<Shop>) {
    loop {
        shop.tick();
        shop.log_leaps();
        tokio::time::sleep(TICK).await;
    }
}

/// The connections of a port, in the order of their last requests.
#[derive(Default)]
struct Crowd {
    turns: AtomicU64,
    last: Mutex<BTreeMap<u64, Arc<Notify>>>,
}

/// One of these connections, until it is dropped.
struct Place {
    crowd: Arc<Crowd>,
    turn: AtomicU64,
    closes: Arc<Notify>,
}

impl Crowd {
    fn enter(self: Arc<Crowd>) -> Place {
        let place = Place { crowd: self, turn: AtomicU64::new(u64::MAX), closes: Arc::default() };
        place.mark_active();
        place
    }

    /// Returns whether another connection is possible. If not, closes idle ones.
    fn can_accept(&self) -> bool {
        let last = self.last.lock().expect("it does not panic");
        let full = last.len() >= MAX_CONNECTIONS;
        if full {
            last.values().take(CLOSED_AT_ONCE).for_each(|idle| idle.notify_one());
        }
        !full
    }
}

impl Place {
    /// Moves the connection to the end of the order, because it has just sent a request.
    fn mark_active(&self) {
        let mut last = self.crowd.last.lock().expect("it does not panic");
        let turn = self.crowd.turns.fetch_add(1, Ordering::Relaxed);
        last.remove(&self.turn.swap(turn, Ordering::Relaxed));
        last.insert(turn, self.closes.clone());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.last.lock().expect("it does not panic").remove(self.turn.get_mut());
    }
}

type Routes = fn(&Shop, &Uri) -> Page;
type Page = Response<Full<Bytes>>;

fn listen(port: u16) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?; // the port of a server that has just ended is free
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(BACKLOG)
}

/// Serves until `stop`, and then waits for running responses.
async fn serve(listener: TcpListener, routes: Routes, shop: Arc<Shop>, mut stop: watch::Receiver<bool>) {
    let mut http = http1::Builder::new();
    // The timeout of the header also covers the time between requests.
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MAX_REQUEST);
    let crowd = Arc::<Crowd>::default();
    let open = GracefulShutdown::new();
    loop {
        let stream = tokio::select! {
            stream = accept(&listener, &crowd) => stream,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(PATIENCE));
        let (shop, place) = (shop.clone(), Arc::new(crowd.clone().enter()));
        let connection_place = place.clone();
        let service = service_fn(move |request| {
            connection_place.mark_active();
            let page = respond(&shop, routes, &request);
            async { Ok::<_, Infallible>(page) }
        });
        let connection = open.watch(http.serve_connection(TokioIo::new(Box::pin(stream)), service));
        tokio::spawn(async move {
            tokio::select! {
                _ = connection => {} // ignore visitors who left
                _ = place.closes.notified() => {}
            }
        });
    }
    let _ = tokio::time::timeout(GRACE, open.shutdown()).await;
}

/// Accepts the next connection when one is possible.
async fn accept(listener: &TcpListener, crowd: &Crowd) -> TcpStream {
    let stream = loop {
        match listener.accept().await {
            Ok((stream, _)) => break stream,
            // Probably too many files are open: wait until some are closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    while !crowd.can_accept() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stream
}

fn respond(shop: &Shop, routes: Routes, request: &Request<Incoming>) -> Page {
    let has_body = !request.body().is_end_stream();
    let hosts = request.headers().get_all(HOST).iter().count();
    let mut page = match *request.method() {
        // RFC 9112, 3.2
        _ if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) => {
            failure(StatusCode::BAD_REQUEST, "bad_request", "not a request of HTTP/1.1")
        }
        Method::GET if has_body => failure(StatusCode::PAYLOAD_TOO_LARGE, "body_refused", "no request has a body here"),
        Method::GET => routes(shop, request.uri()),
        _ => failure(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "only GET is served"),
    };
    let is_malformed = page.status() == StatusCode::BAD_REQUEST;
    let headers = page.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store")); // a cached ad would repeat its ticket
    if request.method() != Method::GET {
        headers.insert(ALLOW, HeaderValue::from_static("GET"));
    }
    // The server does not read a body. A connection of HTTP/1.0 ends, because its proxies may pass on a Connection that
    // they do not understand.
    if is_malformed || has_body || request.version() == Version::HTTP_10 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    page
}

fn visitors(shop: &Shop, uri: &Uri) -> Page {
    match uri.path() {
        "/" => page("text/html; charset=utf-8", PAGE),
        "/ad" => show(shop).unwrap_or_else(|error| internal(&error)),
        "/report" => report(shop).unwrap_or_else(|error| internal(&error)),
        "/privacy" => privacy(shop, false).unwrap_or_else(|error| internal(&error)),
        "/privacy.json" => privacy(shop, true).unwrap_or_else(|error| internal(&error)),
        "/healthz" => health(&shop.bandit).unwrap_or_else(|error| internal(&error)),
        path => match path.strip_prefix("/click/") {
            Some(ticket) => earn(&shop.bandit, ticket, 0, 1.0),
            None => failure(StatusCode::NOT_FOUND, "no_such_page", "try /, /ad, /report"),
        },
    }
}

fn show(shop: &Shop) -> Result<Page, Error> {
    shop.tick();
    let decision = shop.bandit.select()?;
    Ok(success(&json!({
        "arm": decision.arm,
        "creative": CREATIVES[decision.arm as usize].0,
        "click_url": format!("/click/{:016x}", decision.ticket),
        "propensity": decision.propensity,
    })))
}

/// Always the same response, because the status reveals whether the ticket was clicked already. Without parts, part 0 is
/// the reward.
fn earn(bandit: &Bandit, ticket: &str, part: u32, value: f64) -> Page {
    if let Some(ticket) = parse_ticket(ticket) {
        let _ = bandit.update_part(ticket, part, value); // the operator's counts have refused reports
    }
    let mut nothing = Page::default();
    *nothing.status_mut() = StatusCode::NO_CONTENT;
    nothing
}

fn parse_ticket(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok())?
}

/// Reports whether the server can decide. A handle that is poisoned after an internal failure cannot.
fn health(bandit: &Bandit) -> Result<Page, Error> {
    bandit.diagnostics().map(|_| page("text/plain", "ok\n"))
}

/// What the server guarantees. JSON is a list, as in the servers that have several bandits.
fn privacy(shop: &Shop, as_json: bool) -> Result<Page, Error> {
    let stated = shop.bandit.statement()?;
    Ok(match as_json {
        true => page("application/json", format!("[{}]", stated.json())),
        false => page("text/plain; charset=utf-8", stated.to_string()),
    })
}

/// Released values only, renewed at most once in `report_every`. Other requests wait while the report is made.
fn report(shop: &Shop) -> Result<Page, Error> {
    let mut reported = shop.reported.lock().expect("it does not panic");
    let body = match &*reported {
        Some((made, body)) if made.elapsed() < shop.report_every => body.clone(),
        _ => {
            let body = Bytes::from(make_report(shop)?.to_string());
            *reported = Some((Instant::now(), body.clone()));
            body
        }
    };
    Ok(page("application/json", body))
}

fn make_report(Shop { bandit, window, memory, .. }: &Shop) -> Result<Value, Error> {
    let report = bandit.report()?;
    let arms: Vec<Value> = bandit
        .arm_reports()?
        .iter()
        .zip(CREATIVES)
        .map(|(arm, (creative, _))| {
            // NaN (nothing released yet) becomes null
            json!({
                "creative": creative,
                "mean": arm.mean,
                "width": arm.width,
                "effective_pulls": arm.effective_pulls, // rewards in the mean, without those that are forgotten
                "pulls": arm.pulls,
                "active": arm.active,
            })
        })
        .collect();
    let verdict = bandit.verdict().ok().map(|verdict| verdict.to_string());
    let lift = bandit.lift(None, 0.95).ok().map(|(low, high)| [low, high]);
    Ok(json!({
        "policy": report.algorithm.name(),
        "is_private": report.is_private,
        "epsilon_spent": report.epsilon_spent, // null: infinite
        "delta_spent": report.delta_spent,
        "clock": if window.is_time { "milliseconds" } else { "decisions" }, // the unit of the next two
        "window": window.ticks,
        "memory": memory, // 0: never forget
        "changes_detected": report.changes_detected,
        "phase": report.phase,
        "winner": report.best_arm, // null: the policy has not decided, or never does
        "verdict": verdict,        // null: it tests no arms
        "lift": lift,              // over even play, at 95%; null: not yet, or the policy has none
        "decisions": report.counts.decisions,
        "pending": report.counts.pending(),
        "arms": arms,
    }))
}

fn operator(shop: &Shop, uri: &Uri) -> Page {
    let path = uri.path();
    let mut sales = [(1, "/bought/"), (2, "/returned/")].into_iter().filter(|_| shop.sales);
    let sold = |(part, page)| path.strip_prefix(page).map(|ticket| (part, ticket));
    match (path, sales.find_map(sold)) {
        ("/diagnostics", _) => diagnostics(&shop.bandit).unwrap_or_else(|error| internal(&error)),
        (_, Some((part, ticket))) => match euros(uri) {
            Some(euros) => earn(&shop.bandit, ticket, part, euros),
            None => failure(StatusCode::BAD_REQUEST, "bad_euros", "euros must be a number of euros"),
        },
        _ => failure(StatusCode::NOT_FOUND, "no_such_page", "try /diagnostics"),
    }
}

fn euros(uri: &Uri) -> Option<f64> {
    let euros = uri.query()?.split('&').find_map(|pair| pair.strip_prefix("euros="))?;
    euros.parse().ok().filter(|euros: &f64| euros.is_finite() && *euros >= 0.0)
}

/// NOT private: a duplicate reveals a click.
fn diagnostics(bandit: &Bandit) -> Result<Page, Error> {
    let counts = bandit.diagnostics()?;
    Ok(success(&json!({
        "duplicates": counts.duplicates,
        "late": counts.late,
        "rejected": counts.rejected,
        "unknown": counts.unknown,
    })))
}

fn success(body: &Value) -> Page {
    page("application/json", body.to_string())
}

fn failure(status: StatusCode, error: &str, message: &str) -> Page {
    let mut page = success(&json!({ "error": error, "message": message }));
    *page.status_mut() = status;
    page
}

/// The response if the bandit is poisoned.
fn internal(error: &Error) -> Page {
    failure(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error.to_string())
}

fn page(content_type: &'static str, body: impl Into<Bytes>) -> Page {
    let mut page = Page::new(Full::new(body.into()));
    page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    page
}

/// The page of all three servers. Go can embed files only from its source's directory, so the page is there.
const PAGE: &str = include_str!("go/adserver/page.html");

// The day: browsers that visit the server, and the results.

fn spend_day(options: &Options, address: &str, interrupted: &watch::Receiver<bool>) -> Anything<()> {
    let day = Day { seed: 2026 };
    let bar = ProgressBar::new(VISITORS)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} visitors, {per_sec}, {eta} to go")?);
    let visit = Visit { day: &day, address, clock: AtomicU64::new(0), noon: OnceLock::new(), bar: &bar, interrupted };
    let mut outcome = Outcome::default();
    std::thread::scope(|scope| -> Anything<()> {
        let browsers: Vec<_> = (0..BROWSERS).map(|_| scope.spawn(|| visit.browse())).collect();
        for browser in browsers {
            outcome.add(&browser.join().map_err(|_| "a browser crashed")??);
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let shown: u64 = outcome.shown.iter().flatten().sum();
    if shown < VISITORS {
        println!("the day was cut short after {shown} of {VISITORS} visitors: no results");
        return Ok(());
    }
    let evening = fetch(&agent(), &format!("{address}/report"))?;
    print_released(visit.noon.get().ok_or("no noon")?, &evening)?;
    print_results(options, &day, &outcome, &evening)
}

struct Visit<'a> {
    day: &'a Day,
    address: &'a str,
    /// Counts visitors.
    clock: AtomicU64,
    /// The report at noon.
    noon: OnceLock<Value>,
    bar: &'a ProgressBar,
    interrupted: &'a watch::Receiver<bool>,
}

impl Visit<'_> {
    /// One browser: it requests ads for one visitor after the other, and clicks at the time that the day determines.
    fn browse(&self) -> Anything<Outcome> {
        let (agent, address) = (agent(), self.address);
        let mut outcome = Outcome::default();
        let mut clicks = BinaryHeap::new();
        loop {
            let visitor = self.clock.fetch_add(1, Ordering::Relaxed);
            let over = visitor >= VISITORS || *self.interrupted.borrow();
            while clicks.peek().is_some_and(|Reverse((due, _))| *due <= visitor || over) {
                let Some(Reverse((_, url))) = clicks.pop() else { break };
                let status = agent.get(format!("{address}{url}")).call()?.status();
                if status != StatusCode::NO_CONTENT {
                    return Err(format!("{url} returned {status}").into());
                }
            }
            if over {
                return Ok(outcome);
            }
            if visitor == NOON {
                let _ = self.noon.set(fetch(&agent, &format!("{address}/report"))?);
            }
            let ad = fetch(&agent, &format!("{address}/ad"))?;
            let arm = ad["arm"].as_u64().filter(|&arm| arm < ARMS as u64).ok_or("no arm")? as usize;
            let url = ad["click_url"].as_str().ok_or("no click URL")?;
            let clicked = self.day.clicks(visitor, arm);
            outcome.show(visitor, arm, clicked);
            if clicked {
                clicks.extend(self.day.click_times(visitor).map(|due| Reverse((due, url.to_owned()))));
            }
            self.bar.inc(1);
        }
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(Duration::from_secs(10))).build().new_agent()
}

fn fetch(agent: &ureq::Agent, url: &str) -> Anything<Value> {
    Ok(serde_json::from_str(&agent.get(url).call()?.body_mut().read_to_string()?)?)
}

/// Prints two reports side by side.
fn print_released(noon: &Value, evening: &Value) -> Anything<()> {
    println!("\nas published                        at noon                    in the evening");
    println!("                      counted   click rate         counted   click rate           shown");
    for (arm, (name, _)) in CREATIVES.iter().enumerate() {
        print!("  {name:<18}");
        for report in [noon, evening] {
            let arm = &report["arms"][arm];
            let released = match (arm["mean"].as_f64(), arm["width"].as_f64()) {
                (Some(mean), Some(width)) => format!("{mean:.4} ± {width:.4}"),
                _ => "none".into(),
            };
            print!(" {:>8.0}   {released:<16}", arm["effective_pulls"].as_f64().ok_or("no effective pulls")?);
        }
        println!(" {:>8}", evening["arms"][arm]["pulls"].as_u64().ok_or("no pulls")?);
    }
    let [before, after] = [noon, evening].map(|report| report["changes_detected"].as_u64().unwrap_or(0));
    println!("changes detected: {before} until noon, {} after", after - before);
    match evening["epsilon_spent"].as_f64() {
        Some(loss) => println!("privacy loss of one click: {loss}"),
        None => println!("privacy loss of one click: without bound"),
    }
    Ok(())
}

/// Prints the results that only a simulation can know: the clicks of this policy, and of others on the same day.
fn print_results(options: &Options, day: &Day, outcome: &Outcome, report: &Value) -> Anything<()> {
    let policy: Algorithm = report["policy"].as_str().ok_or("no policy")?.parse()?;
    let memory = report["memory"].as_u64().ok_or("no memory")?;
    let favourite = CREATIVES[best(1)].0;
    println!("\nclicks won                               morning   afternoon   {favourite} after noon");
    let line = |who: &str, won: &Outcome| {
        let share = 100.0 * won.shown[1][best(1)] as f64 / NOON as f64;
        println!("  {who:<36} {:>10} {:>11} {share:>12.0} %", won.clicks[0], won.clicks[1]);
    };
    line(policy.name(), outcome);
    let steadfast = (memory > 0).then(|| day.in_process(&options.bandit(policy, 0)?)).transpose()?;
    steadfast.iter().for_each(|other| line("the same, never forgetting", other));
    let index = Algorithm::NonprivateImed;
    line(index.name(), &day.in_process(&options.bandit(index, 0)?)?);
    let rotation = day.planned(|visitor| (visitor % ARMS as u64) as usize);
    line("uniform rotation", &rotation);
    for half in [0, 1] {
        let (name, rate) = (CREATIVES[best(half)].0, rate(half, best(half)));
        line(&format!("{name}, best {} at {rate}", ["until noon", "after noon"][half]), &day.planned(|_| best(half)));
    }

    let [more, all] = [outcome, &rotation].map(|outcome| outcome.clicks.iter().sum::<u64>() as i64);
    let more = more - all;
    println!("\n{} wins {more} clicks more than uniform rotation.", policy.name());
    if (more as f64) < 0.05 * all as f64 {
        println!("The difference is small: with so few clicks, half a day is hardly enough to distinguish these ads.");
    }
    if let Some(other) = steadfast {
        let [morning, afternoon] = [0, 1].map(|half| outcome.clicks[half] as i64 - other.clicks[half] as i64);
        println!("To forget cost it {} clicks in the morning and won it {afternoon} in the afternoon.", -morning);
    }
    print_tastes(options, day)
}

/// Prints the clicks with and without features, for visitors whose click rates depend on the device and the time of
/// day.
fn print_tastes(options: &Options, day: &Day) -> Anything<()> {
    println!(
        "\n{VISITORS} visitors in {DAYS} days. Their click rates depend on the device and the quarter of the day:"
    );
    let line = |who: &str, clicks: f64| println!("  {who:<36} {clicks:>10.0} clicks");
    for by_context in [true, false] {
        let config = config_of_tastes(options.epsilon, by_context);
        let bandit = Bandit::new(Algorithm::recommended(&config), &config)?;
        let name = format!("{}, {} context", bandit.algorithm().name(), if by_context { "by" } else { "without" });
        line(&name, day.with_tastes(&bandit, by_context)? as f64);
    }
    let [each, all] = day.best_of_tastes();
    line("the ad that is best for all", all);
    line("the best ad for each", each);
    Ok(())
}
