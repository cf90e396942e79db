//! An ad server that learns which ad is clicked without giving away who clicked.
//!
//! ```text
//! cargo run --release --example ad_server                 # a simulated day, then the accounts
//! cargo run --release --example ad_server -- --serve --port 8080
//! ```
//!
//! `GET /ad` picks a creative, `GET /click/<ticket>` reports the click, `GET /report` shows what
//! is released and nothing else, `/` is a live page. A real server would also check who asks.

use dpb::{Algorithm, Bandit, Config, Error};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tiny_http::{Header, Method, Response, Server};

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
const WORKERS: usize = 4;
const BROWSERS: usize = 4;

static STOP: AtomicBool = AtomicBool::new(false);

fn main() {
    let options = Options::parse(std::env::args().skip(1)).unwrap_or_else(|message| {
        eprintln!("{message}\n\n{USAGE}");
        std::process::exit(2)
    });
    if let Err(error) = run(&options) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

const USAGE: &str = "usage: ad_server [--serve] [--port N] [--policy NAME] [--epsilon X] [--delta X]
  --serve         serve until Ctrl-C; without it, serve one simulated day and print the accounts
  --port N        default 0: any free one
  --policy NAME   default: the recommended one
  --epsilon X     privacy loss of one click, default 1
  --delta X       default 0; some policies need one, such as 1e-6";

struct Options {
    serve: bool,
    port: u16,
    policy: Algorithm,
    epsilon: f64,
    delta: f64,
}

impl Options {
    // Inlined into main, LLVM works on it for minutes.
    #[inline(never)]
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options { serve: false, port: 0, policy: Algorithm::RECOMMENDED, epsilon: 1.0, delta: 0.0 };
        while let Some(word) = words.next() {
            if word == "--serve" {
                options.serve = true;
                continue;
            }
            if !["--port", "--policy", "--epsilon", "--delta"].contains(&word.as_str()) {
                return Err(format!("unknown option {word}"));
            }
            let value = words.next().ok_or(format!("{word} needs a value"))?;
            let bad = || format!("{word}: cannot use {value:?}");
            match word.as_str() {
                "--port" => options.port = value.parse().map_err(|_| bad())?,
                "--epsilon" => options.epsilon = value.parse().map_err(|_| bad())?,
                "--delta" => options.delta = value.parse().map_err(|_| bad())?,
                _ => {
                    let known: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
                    options.policy = *Algorithm::ALL
                        .iter()
                        .find(|a| a.name() == value)
                        .ok_or_else(|| format!("{}; policies: {}", bad(), known.join(", ")))?;
                }
            }
        }
        Ok(options)
    }

    fn bandit(&self, policy: Algorithm) -> Result<Bandit, Error> {
        let mut config = Config::new(ARMS as u32, self.epsilon);
        config.delta = self.delta;
        config.horizon = DAY;
        config.reward_bits = 0; // a click or none
        config.answer_window = ANSWER_WINDOW;
        Bandit::new(policy, &config)
    }
}

fn run(options: &Options) -> Anything<()> {
    let bandit = options.bandit(options.policy)?;
    let server = Arc::new(Server::http(("127.0.0.1", options.port))?);
    let address = format!("http://{}", server.server_addr());
    let (waker, serve) = (Arc::clone(&server), options.serve);
    ctrlc::set_handler(move || {
        STOP.store(true, Ordering::Relaxed); // the browsers go home, then the server
        if serve {
            waker.unblock();
        }
    })?;
    println!("{} serves ads at {address} (Ctrl-C to stop)", options.policy.name());

    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| work(&server, &bandit));
        }
        if options.serve {
            return Ok(());
        }
        let day = Day { seed: 2026 };
        let outcome = day.over_http(&address);
        server.unblock();
        print_accounts(options, &day, &outcome?, &bandit)
    })?;
    println!("stopped");
    Ok(())
}

// The server: several workers share one bandit by reference.

fn work(server: &Server, bandit: &Bandit) {
    for request in server.incoming_requests() {
        let page = answer(bandit, request.method(), request.url());
        let response = Response::from_string(page.body)
            .with_status_code(page.status)
            .with_header(header("Content-Type", page.content_type))
            .with_header(header("Cache-Control", "no-store")); // a cached ad would repeat its ticket
        let _ = request.respond(response); // a visitor who left does not stop the shop
    }
    server.unblock(); // the next worker goes home too
}

struct Page {
    status: u16,
    content_type: &'static str,
    body: String,
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("plain ASCII")
}

fn answer(bandit: &Bandit, method: &Method, url: &str) -> Page {
    let path = url.split('?').next().unwrap_or_default();
    if *method != Method::Get {
        return failure(405, "method_not_allowed", "only GET is served");
    }
    match path {
        "/" => Page { status: 200, content_type: "text/html; charset=utf-8", body: LIVE_PAGE.to_owned() },
        "/ad" => show(bandit).unwrap_or_else(|error| refusal(&error)),
        "/report" => report(bandit).unwrap_or_else(|error| refusal(&error)),
        _ => match path.strip_prefix("/click/").map(parse_ticket) {
            None => failure(404, "no_such_page", "try /, /ad, /report"),
            Some(None) => failure(400, "malformed_ticket", "a ticket is 16 hexadecimal digits"),
            Some(Some(ticket)) => click(bandit, ticket).unwrap_or_else(|error| refusal(&error)),
        },
    }
}

fn parse_ticket(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok())?
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

fn click(bandit: &Bandit, ticket: u64) -> Result<Page, Error> {
    bandit.update(ticket, 1.0)?;
    Ok(success(&json!({ "clicked": true })))
}

/// Only what is released. `Bandit::diagnostics` is not: a duplicate click is a click.
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

fn success(body: &Value) -> Page {
    Page { status: 200, content_type: "application/json", body: body.to_string() }
}

fn failure(status: u16, error: &str, message: &str) -> Page {
    let body = json!({ "error": error, "message": message }).to_string();
    Page { status, content_type: "application/json", body }
}

fn refusal(error: &Error) -> Page {
    let (status, name) = match error {
        Error::UnknownTicket => (404, "unknown_ticket"),
        Error::Duplicate => (409, "duplicate_click"),
        Error::Expired => (410, "expired_ticket"),
        _ => (500, "internal"),
    };
    failure(status, name, &error.to_string())
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
  const answer = await fetch(by("ad").href), body = await answer.json();
  by("ad").textContent = answer.ok ? "thank you" : body.message;
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
    /// Clicks that the server refused: repeated, or after the answer window.
    duplicates: u64,
    late: u64,
}

impl Outcome {
    /// The clicks that these ads win on average over days: less luck than in `clicks`.
    fn expected(&self) -> f64 {
        self.shown.iter().zip(CREATIVES).map(|(&n, (_, rate))| n as f64 * rate).sum()
    }

    fn add(&mut self, other: &Outcome) {
        self.shown.iter_mut().zip(other.shown).for_each(|(a, b)| *a += b);
        self.clicks += other.clicks;
        self.duplicates += other.duplicates;
        self.late += other.late;
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
    fn over_http(&self, address: &str) -> Anything<Outcome> {
        let bar = ProgressBar::new(DAY)
            .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} visitors, {per_sec}, {eta} to go")?);
        let clock = AtomicU64::new(0);
        let mut total = Outcome::default();
        std::thread::scope(|scope| -> Anything<()> {
            let browsers: Vec<_> = (0..BROWSERS).map(|_| scope.spawn(|| self.browse(address, &clock, &bar))).collect();
            for browser in browsers {
                total.add(&browser.join().map_err(|_| "a browser crashed")??);
            }
            Ok(())
        })?;
        bar.finish_and_clear();
        Ok(total)
    }

    /// One browser: looks at ads for one visitor after the other, and clicks when the time comes.
    fn browse(&self, address: &str, clock: &AtomicU64, bar: &ProgressBar) -> Anything<Outcome> {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .new_agent();
        let mut outcome = Outcome::default();
        let mut clicks = BinaryHeap::new();
        loop {
            let visitor = clock.fetch_add(1, Ordering::Relaxed);
            let over = visitor >= DAY || STOP.load(Ordering::Relaxed);
            while clicks.peek().is_some_and(|Reverse((due, _))| *due <= visitor || over) {
                let Some(Reverse((_, url))) = clicks.pop() else { break };
                match agent.get(format!("{address}{url}")).call()?.status().as_u16() {
                    200 => {}
                    409 => outcome.duplicates += 1,
                    410 => outcome.late += 1,
                    status => return Err(format!("{url} answered {status}").into()),
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
                    Ok(()) => {}
                    Err(Error::Duplicate) => outcome.duplicates += 1,
                    Err(Error::Expired) => outcome.late += 1,
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
    println!("clicks refused: {} repeated, {} after the answer window", ours.duplicates, ours.late);

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
