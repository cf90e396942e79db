//! An ad server that learns which ad is clicked without giving away who clicked.
//!
//! ```text
//! cargo run --release --example ad_server                 # a simulated day, then the accounts
//! cargo run --release --example ad_server -- --serve --port 8080
//! ```
//!
//! `GET /ad` picks a creative, `GET /click/<ticket>` reports the click, `GET /report` shows what
//! is released and nothing else, `/` is a live page. A real server would also check who asks.
//!
//! What became of a click is for the operator alone: whoever reports one, in time, twice, late or
//! made up, gets the same empty answer. With `--operator-port` the operator, and nobody from
//! another machine, reads the counts of refused clicks at `GET /diagnostics`.

use dpb::{Algorithm, Bandit, Config, Error};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutWriter;

type Anything<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What we advertise, with the click rates that only the simulation knows.
const CREATIVES: [(&str, f64); 10] = [
    ("mountain bike", 0.010),
    ("espresso machine", 0.014),
    ("rain jacket", 0.018),
    ("chess lessons", 0.022),
    ("garden hose", 0.026),
    ("night train", 0.030),
    ("reading lamp", 0.034),
    ("bread knife", 0.038),
    ("wool socks", 0.042),
    ("folding kayak", 0.050),
];
const ARMS: usize = CREATIVES.len();
/// Visitors of the simulated day.
const DAY: u64 = 200_000;
/// An ad not clicked while this many later ones were shown counts as not clicked.
const ANSWER_WINDOW: u32 = 1000;
/// What the accounts compare with, without privacy: the usual one and a strong one.
const BASELINES: [Algorithm; 2] = [Algorithm::NonprivateUcb1, Algorithm::NonprivateImed];
const BROWSERS: usize = 4;

/// How long a visitor may take to send a request, to begin the next one, or to take an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long those who are being answered may take when the server ends.
const GRACE: Duration = Duration::from_secs(1);
/// Connections at a time; more wait until some are closed.
const MAX_CONNECTIONS: usize = 2000;
/// Those who may wait for a place; tokio's own 128 would turn a rush away.
const BACKLOG: u32 = 4096;
/// Bytes of a request. None has a body.
const MAX_REQUEST: usize = 16 << 10;

fn main() {
    let options = Options::parse().unwrap_or_else(|message| {
        eprintln!("{message}\n\n{USAGE}");
        std::process::exit(2)
    });
    if let Err(error) = run(&options) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

const USAGE: &str =
    "usage: ad_server [--serve] [--port N] [--operator-port N] [--policy NAME] [--epsilon X] [--delta X]
  --serve            serve until Ctrl-C; without it, serve one simulated day and print the accounts
  --port N           default 0: any free one
  --operator-port N  serve the counts of refused clicks there, to this machine; default: nowhere
  --policy NAME      default: the recommended one
  --epsilon X        privacy loss of one click, default 1
  --delta X          default 0; some policies need one, such as 1e-6";

struct Options {
    serve: bool,
    port: u16,
    operator_port: Option<u16>,
    policy: Algorithm,
    epsilon: f64,
    delta: f64,
}

impl Options {
    fn parse() -> Result<Options, lexopt::Error> {
        use lexopt::prelude::*;
        let policy = Algorithm::RECOMMENDED;
        let mut options = Options { serve: false, port: 0, operator_port: None, policy, epsilon: 1.0, delta: 0.0 };
        let mut words = lexopt::Parser::from_env();
        while let Some(word) = words.next()? {
            match word {
                Long("serve") => options.serve = true,
                Long("port") => options.port = words.value()?.parse()?,
                Long("operator-port") => options.operator_port = Some(words.value()?.parse()?),
                Long("policy") => options.policy = words.value()?.parse_with(policy_named)?,
                Long("epsilon") => options.epsilon = words.value()?.parse()?,
                Long("delta") => options.delta = words.value()?.parse()?,
                _ => return Err(word.unexpected()),
            }
        }
        Ok(options)
    }

    fn bandit(&self, policy: Algorithm) -> Result<Bandit, Error> {
        let mut config = Config::new(ARMS as u32, self.epsilon);
        config.delta = self.delta;
        config.horizon = DAY;
        config.reward_bits = 0; // a click or none
        config.clamp_rewards = true; // a refused reward would leave its ticket open, for all to see
        config.answer_window = ANSWER_WINDOW;
        Bandit::new(policy, &config)
    }
}

fn policy_named(name: &str) -> Result<Algorithm, String> {
    // Not by `join`: over a constant list of names it costs LLVM's constraint elimination minutes.
    let all = |_| Algorithm::ALL.iter().fold("policies:".to_owned(), |all, policy| all + " " + policy.name());
    name.parse().map_err(all)
}

fn run(options: &Options) -> Anything<()> {
    let bandit = Arc::new(options.bandit(options.policy)?);
    let runtime = tokio::runtime::Runtime::new()?;
    let _inside = runtime.enter();
    let (interrupt, mut interrupted) = watch::channel(false);
    ctrlc::set_handler(move || {
        interrupt.send_replace(true);
    })?;

    let (stop, stopped) = watch::channel(false);
    let mut servers = Vec::new();
    let mut open = |port, routes: Routes| -> Anything<SocketAddr> {
        let listener = listen(port).map_err(|error| format!("127.0.0.1:{port}: {error}"))?;
        let address = listener.local_addr()?;
        servers.push(runtime.spawn(serve(listener, routes, bandit.clone(), stopped.clone())));
        Ok(address)
    };
    let address = format!("http://{}", open(options.port, visitors)?);
    println!("{} serves ads at {address} (Ctrl-C to stop)", options.policy.name());
    if let Some(port) = options.operator_port {
        println!("the operator's counts, not private: http://{}/diagnostics", open(port, operator)?);
    }

    let day = Day { seed: 2026 };
    let outcome = if options.serve {
        runtime.block_on(interrupted.wait_for(|interrupted| *interrupted))?;
        None
    } else {
        Some(day.over_http(&address, &interrupted)) // interrupted, the browsers go home before the server ends
    };
    stop.send_replace(true);
    for server in servers {
        runtime.block_on(server)?;
    }
    if let Some(outcome) = outcome {
        print_accounts(options, &day, &outcome?, &bandit)?;
    }
    println!("stopped");
    Ok(())
}

// The server. All connections share one bandit by reference.

type Routes = fn(&Bandit, &str) -> Page;
type Page = Response<Full<Bytes>>;

fn listen(port: u16) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?; // a port whose last server has just ended is free
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(BACKLOG)
}

/// Serves until `stop`, then lets those finish who are being answered.
async fn serve(listener: TcpListener, routes: Routes, bandit: Arc<Bandit>, mut stop: watch::Receiver<bool>) {
    let mut http = http1::Builder::new();
    // That clock also runs between requests.
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MAX_REQUEST);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let open = GracefulShutdown::new();
    loop {
        let (stream, place) = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(PATIENCE));
        let bandit = bandit.clone();
        let service = service_fn(move |request| {
            let page = answer(&bandit, routes, &request);
            async { Ok::<_, Infallible>(page) }
        });
        let connection = open.watch(http.serve_connection(TokioIo::new(Box::pin(stream)), service));
        tokio::spawn(async move {
            let _ = connection.await; // a visitor who left does not stop the shop
            drop(place);
        });
    }
    let _ = tokio::time::timeout(GRACE, open.shutdown()).await;
}

/// The next connection, and its place among those that are open.
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    let place = room.clone().acquire_owned().await.expect("nobody closes it");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // Most likely too many files are open: until some are closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn answer(bandit: &Bandit, routes: Routes, request: &Request<Incoming>) -> Page {
    let has_body = !request.body().is_end_stream();
    let mut page = match *request.method() {
        Method::GET if has_body => failure(StatusCode::PAYLOAD_TOO_LARGE, "body_refused", "no request has a body here"),
        Method::GET => routes(bandit, request.uri().path()),
        _ => failure(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "only GET is served"),
    };
    let headers = page.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store")); // a cached ad would repeat its ticket
    if request.method() != Method::GET {
        headers.insert(ALLOW, HeaderValue::from_static("GET"));
    }
    if has_body {
        headers.insert(CONNECTION, HeaderValue::from_static("close")); // nobody reads it
    }
    page
}

fn visitors(bandit: &Bandit, path: &str) -> Page {
    match path {
        "/" => page("text/html; charset=utf-8", LIVE_PAGE.to_owned()),
        "/ad" => show(bandit).unwrap_or_else(|error| internal(&error)),
        "/report" => report(bandit).unwrap_or_else(|error| internal(&error)),
        _ => match path.strip_prefix("/click/") {
            Some(ticket) => click(bandit, ticket),
            None => failure(StatusCode::NOT_FOUND, "no_such_page", "try /, /ad, /report"),
        },
    }
}

fn show(bandit: &Bandit) -> Result<Page, Error> {
    let decision = bandit.select()?;
    Ok(success(&json!({
        "arm": decision.arm,
        "creative": CREATIVES[decision.arm as usize].0,
        "click_url": format!("/click/{:016x}", decision.ticket),
        "propensity": decision.propensity,
    })))
}

/// Always the same answer: whether a ticket was clicked already is nobody's business.
fn click(bandit: &Bandit, ticket: &str) -> Page {
    if let Some(ticket) = parse_ticket(ticket) {
        let _ = bandit.update(ticket, 1.0); // refused, it is in the operator's counts
    }
    let mut nothing = Page::default();
    *nothing.status_mut() = StatusCode::NO_CONTENT;
    nothing
}

fn parse_ticket(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok())?
}

/// Only what is released.
fn report(bandit: &Bandit) -> Result<Page, Error> {
    let report = bandit.report()?;
    let arms: Vec<Value> = bandit
        .arm_reports()?
        .iter()
        .zip(CREATIVES)
        .map(|(arm, (creative, _))| {
            // NaN (nothing released yet) becomes null
            json!({ "creative": creative, "mean": arm.mean, "width": arm.width, "pulls": arm.pulls, "active": arm.active })
        })
        .collect();
    Ok(success(&json!({
        "policy": report.algorithm.name(),
        "is_private": report.is_private,
        "epsilon_spent": report.epsilon_spent, // null: without bound
        "delta_spent": report.delta_spent,
        "phase": report.phase,
        "decisions": report.counts.decisions,
        "pending": report.counts.pending(),
        "arms": arms,
    })))
}

fn operator(bandit: &Bandit, path: &str) -> Page {
    match path {
        "/diagnostics" => diagnostics(bandit).unwrap_or_else(|error| internal(&error)),
        _ => failure(StatusCode::NOT_FOUND, "no_such_page", "try /diagnostics"),
    }
}

/// NOT private: a repeated click is a click.
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

/// The bandit itself is broken.
fn internal(error: &Error) -> Page {
    failure(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error.to_string())
}

fn page(content_type: &'static str, body: String) -> Page {
    let mut page = Page::new(body.into());
    page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    page
}

const LIVE_PAGE: &str = r#"<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Private ads</title>
<style>body{font:16px sans-serif;max-width:46rem;margin:2rem auto}td,th{padding:.2rem .8rem;text-align:right}
td:first-child,th:first-child{text-align:left}.out{color:#999}</style>
<h1>Private ads</h1>
<p><button id="more">Show me an ad</button> <a id="ad" hidden></a></p>
<p id="state"></p>
<table><thead><tr><th>creative<th>shown<th>released click rate<th>&plusmn;</tr></thead><tbody id="arms"></tbody></table>
<p>Everything on this page is released: it may be published, and tells almost nothing about any one click.</p>
<script>
const by = id => document.getElementById(id), percent = x => x === null ? "–" : (100 * x).toFixed(2) + " %";
by("more").onclick = async () => {
  const ad = await (await fetch("/ad")).json();
  by("ad").textContent = ad.creative; by("ad").href = ad.click_url; by("ad").hidden = false;
};
by("ad").onclick = async event => {
  event.preventDefault();
  await fetch(by("ad").href);
  by("ad").textContent = "thank you";
};
async function refresh() {
  try {
    const r = await (await fetch("/report")).json();
    by("state").textContent = `${r.policy}: ${r.decisions} ads shown, privacy loss of one click so far: ` +
      (r.epsilon_spent === null ? "without bound" : r.epsilon_spent);
    by("arms").replaceChildren(...r.arms.map(a => {
      const row = document.createElement("tr");
      row.className = a.active ? "" : "out";
      for (const text of [a.creative, a.pulls, percent(a.mean), percent(a.width)])
        row.insertCell().textContent = text;
      return row;
    }));
  } catch { by("state").textContent = "the server does not answer"; }
  setTimeout(refresh, 1000);
}
refresh();
</script></html>
"#;

// The simulated day. Its randomness is its own, and the same for everybody who sells on that day.

/// Each visitor's whims are a function of the day and the visitor, so that several ways to choose
/// ads can be compared on the very same visitors.
struct Day {
    seed: u64,
}

/// How one way to choose ads fared. Only a simulation can know this.
#[derive(Default)]
struct Outcome {
    shown: [u64; ARMS],
    clicks: u64,
}

impl Outcome {
    /// The clicks that these ads win on average over days: less luck than in `clicks`.
    fn expected(&self) -> f64 {
        self.shown.iter().zip(CREATIVES).map(|(&n, (_, rate))| n as f64 * rate).sum()
    }

    fn add(&mut self, other: &Outcome) {
        self.shown.iter_mut().zip(other.shown).for_each(|(a, b)| *a += b);
        self.clicks += other.clicks;
    }

    fn show(&mut self, arm: usize, clicked: bool) {
        self.shown[arm] += 1;
        self.clicks += u64::from(clicked);
    }
}

impl Day {
    /// A uniform number for this visitor and this purpose (SplitMix64).
    fn chance(&self, visitor: u64, purpose: u64) -> f64 {
        let mut z = self.seed.wrapping_add((visitor * 64 + purpose).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn clicks(&self, visitor: u64, arm: usize) -> bool {
        self.chance(visitor, arm as u64) < CREATIVES[arm].1
    }

    /// When the click comes, on the clock that counts visitors: late, out of order, one in a
    /// hundred too late, and one in twenty twice.
    fn click_times(&self, visitor: u64) -> impl Iterator<Item = u64> {
        let window = f64::from(ANSWER_WINDOW);
        let too_late = self.chance(visitor, 60) < 0.01;
        let delay = if too_late { 2.0 * window } else { 0.8 * window * self.chance(visitor, 61) };
        let first = visitor + delay as u64;
        std::iter::once(first).chain((self.chance(visitor, 62) < 0.05).then_some(first + 10))
    }

    /// The day against a running server, over HTTP.
    fn over_http(&self, address: &str, interrupted: &watch::Receiver<bool>) -> Anything<Outcome> {
        let bar = ProgressBar::new(DAY)
            .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} visitors, {per_sec}, {eta} to go")?);
        let clock = AtomicU64::new(0);
        let mut total = Outcome::default();
        std::thread::scope(|scope| -> Anything<()> {
            let browse = || self.browse(address, &clock, &bar, interrupted);
            let browsers: Vec<_> = (0..BROWSERS).map(|_| scope.spawn(browse)).collect();
            for browser in browsers {
                total.add(&browser.join().map_err(|_| "a browser crashed")??);
            }
            Ok(())
        })?;
        bar.finish_and_clear();
        Ok(total)
    }

    /// One browser: looks at ads for one visitor after the other, and clicks when the time comes.
    fn browse(
        &self,
        address: &str,
        clock: &AtomicU64,
        bar: &ProgressBar,
        interrupted: &watch::Receiver<bool>,
    ) -> Anything<Outcome> {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .new_agent();
        let mut outcome = Outcome::default();
        let mut clicks = BinaryHeap::new();
        loop {
            let visitor = clock.fetch_add(1, Ordering::Relaxed);
            let over = visitor >= DAY || *interrupted.borrow();
            while clicks.peek().is_some_and(|Reverse((due, _))| *due <= visitor || over) {
                let Some(Reverse((_, url))) = clicks.pop() else { break };
                let status = agent.get(format!("{address}{url}")).call()?.status();
                if status != StatusCode::NO_CONTENT {
                    return Err(format!("{url} answered {status}").into());
                }
            }
            if over {
                return Ok(outcome);
            }
            let ad = agent.get(format!("{address}/ad")).call()?.body_mut().read_to_string()?;
            let ad: Value = serde_json::from_str(&ad)?;
            let arm = ad["arm"].as_u64().ok_or("no arm")? as usize;
            let url = ad["click_url"].as_str().ok_or("no click URL")?;
            let clicked = self.clicks(visitor, arm);
            outcome.show(arm, clicked);
            if clicked {
                clicks.extend(self.click_times(visitor).map(|due| Reverse((due, url.to_owned()))));
            }
            bar.inc(1);
        }
    }

    /// The same day in this process, without HTTP, for a policy to compare with.
    fn in_process(&self, bandit: &Bandit) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        let mut clicks = BinaryHeap::new();
        for visitor in 0..DAY {
            while clicks.peek().is_some_and(|Reverse((due, _))| *due <= visitor) {
                let Some(Reverse((_, ticket))) = clicks.pop() else { break };
                match bandit.update(ticket, 1.0) {
                    Ok(()) | Err(Error::Duplicate | Error::Expired) => {}
                    Err(error) => return Err(error),
                }
            }
            let decision = bandit.select()?;
            let clicked = self.clicks(visitor, decision.arm as usize);
            outcome.show(decision.arm as usize, clicked);
            if clicked {
                clicks.extend(self.click_times(visitor).map(|due| Reverse((due, decision.ticket))));
            }
        }
        Ok(outcome)
    }

    /// The same day with a fixed plan.
    fn planned(&self, arm_for: impl Fn(u64) -> usize) -> Outcome {
        let mut outcome = Outcome::default();
        for visitor in 0..DAY {
            let arm = arm_for(visitor);
            outcome.show(arm, self.clicks(visitor, arm));
        }
        outcome
    }
}

fn print_accounts(options: &Options, day: &Day, ours: &Outcome, bandit: &Bandit) -> Anything<()> {
    let shown: u64 = ours.shown.iter().sum();
    if shown < DAY {
        println!("the day was cut short after {shown} of {DAY} visitors: no accounts");
        return Ok(());
    }
    println!("\nas published             shown   click rate        true rate");
    for ((name, rate), arm) in CREATIVES.iter().zip(bandit.arm_reports()?) {
        let released =
            if arm.mean.is_nan() { "none yet".into() } else { format!("{:.4} ± {:.4}", arm.mean, arm.width) };
        println!("  {name:<20} {:>7}   {released:<16}  {rate:.4}", arm.pulls);
    }
    let report = bandit.report()?;
    let loss = report.epsilon_spent;
    println!(
        "privacy loss of one click: {}",
        if loss.is_finite() { format!("{loss}") } else { "without bound".into() }
    );
    let refused = bandit.diagnostics()?; // for the operator, who reads this, and for nobody else
    println!("clicks refused: {} repeated, {} after the answer window", refused.duplicates, refused.late);

    let rotation = day.planned(|visitor| (visitor % ARMS as u64) as usize);
    let best = day.planned(|_| ARMS - 1);
    println!("\nclicks won by            on this day   on average, for the same ads");
    let line = |who: &str, won: &Outcome| println!("  {who:<20} {:>12} {:>12.0}", won.clicks, won.expected());
    line(options.policy.name(), ours);
    let mut without_privacy = (0.0, "");
    for policy in BASELINES {
        let won = day.in_process(&options.bandit(policy)?)?;
        line(policy.name(), &won);
        if won.expected() > without_privacy.0 {
            without_privacy = (won.expected(), policy.name());
        }
    }
    line("uniform rotation", &rotation);
    line("the best ad alone", &best);

    let gain = (ours.expected() - rotation.expected()).round() as i64;
    let cost = (without_privacy.0 - ours.expected()).round() as i64;
    println!("\nOn average {} wins {gain} clicks more than uniform rotation.", options.policy.name());
    if (gain as f64) < 0.05 * rotation.expected() {
        println!("That is little: clicks are so rare that it can hardly tell these ads apart in one day.");
    }
    println!("Without privacy {} wins {cost} more than that: the price of privacy here.", without_privacy.1);
    Ok(())
}
