//! The three ad servers, built with the commands in their comments and used over real HTTP: their behaviour for
//! visitors and operators, and under hostile clients and failures.
#![cfg(target_os = "linux")] // signals, /proc

#[path = "fleet_cpp.rs"]
mod fleet_cpp;
#[path = "restarts.rs"]
mod restarts;

use crate::browser::Browser;
use crate::support::http::{self, PATIENCE, Server, allow_many_files, answer, ask, check_framing, connect, send, wait};
use crate::support::{Link, build, example, go_with_modules, have, have_header, hiredis_with_tls, run};
use dpb::{Bandit, Counts, Seed};
use restarts::{
    a_long_pause_cancels_what_was_open, a_restart_begins_no_period_of_placements,
    a_state_is_opened_once_wherever_it_is_killed, files_with_other_links_are_refused, its_restart_loses_nothing,
    killed_as_it_ends_or_starts_it_counts_no_click_twice, releases_with_links_continue_in_turn,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WINDOW: usize = 1000;
/// The number of simultaneous connections that each server accepts.
const PLACES: usize = 2000;

/// A server's program, built once, and its options.
struct Program {
    path: PathBuf,
    arguments: &'static [&'static str],
}

static RUST: LazyLock<Option<Program>> =
    LazyLock::new(|| Some(Program { path: example("ad_server"), arguments: &["--serve"] }));

/// Takes half a minute to compile, so all its tests are long ones.
static CPP: LazyLock<Option<Program>> = LazyLock::new(|| {
    if !have("c++")
        || !have_header("boost/beast/version.hpp", "libboost-dev")
        || !have_header("hiredis/hiredis.h", "libhiredis-dev")
    {
        return None;
    }
    // -g0 leaves out Boost's debug information, which is most of the file.
    let hiredis = hiredis_with_tls().unwrap_or(vec!["-lhiredis"]);
    let arguments = [&["-std=c++20", "-pthread", "-g0", "-Wl,--no-as-needed"], &hiredis[..]].concat();
    let path = build("c++", "examples/cpp/ad_server.cpp", &arguments, Link::Static);
    Some(Program { path, arguments: &[] })
});

static GO: LazyLock<Option<Program>> = LazyLock::new(|| {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go_adserver");
    let _ = fs::remove_file(&path); // Go does not rebuild if only the library has changed
    run(&mut go_with_modules("examples/go", &["build", "-o", path.to_str().unwrap(), "./adserver"])?);
    Some(Program { path, arguments: &[] })
});

impl Program {
    /// The command, with a new report for each request.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.arguments).args(["--report-every", "0"]);
        command
    }

    /// Starts on any free port.
    fn start(&self) -> Server {
        Server::start(self.command().args(["--port", "0"]))
    }

    /// As `start`, with at most this many open files.
    fn start_with_files(&self, limit: u32) -> Server {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit} && exec \"$@\""), "sh"]).arg(&self.path).args(self.arguments);
        Server::start(shell.args(["--port", "0"]))
    }

    /// Starts with an operator's address too.
    fn start_with_operator(&self) -> (Server, String) {
        let mut server = Server::start(self.command().args(["--port", "0", "--operator-port", "0"]));
        let operator = server.next_address();
        (server, operator)
    }

    /// Starts with options that it refuses. Returns its exit code and its error output. If that is the usage, its first
    /// line has the fault and names an option.
    fn refuses(&self, options: &[&str]) -> (Option<i32>, String) {
        let mut process = self.command().args(options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let status = wait(&mut process);
        let mut said = String::new();
        process.stderr.unwrap().read_to_string(&mut said).unwrap();
        if status.code() == Some(2) {
            let fault = said.lines().next().unwrap().to_owned();
            let names = options.iter().map(|option| option.trim_start_matches('-')).filter(|name| name.len() > 3);
            assert!(!fault.to_lowercase().contains("usage"), "{options:?}: no fault in {said}");
            assert!(names.into_iter().any(|name| fault.contains(name)), "{options:?}: {fault}");
        }
        (status.code(), said)
    }
}

/// Each function below is a test of every server that can be built here.
macro_rules! promises {
    ($($(#[$attribute:meta])* $promise:ident)*) => {
        $(mod $promise {
            #[test]
            $(#[$attribute])*
            fn rust() {
                super::RUST.as_ref().inspect(|program| super::$promise(program));
            }

            #[test]
            #[ignore = "compiles the C++ ad server"]
            fn cpp() {
                super::CPP.as_ref().inspect(|program| super::$promise(program));
            }

            #[test]
            $(#[$attribute])*
            fn go() {
                super::GO.as_ref().inspect(|program| super::$promise(program));
            }
        })*
    };
}

promises! {
    it_serves_ads_and_reports_what_is_released
    its_report_is_cached
    no_response_reveals_the_status_of_a_click
    it_accepts_valid_requests_only
    it_serves_the_policy_of_its_options
    it_forgets_as_its_options_and_policy_say
    its_ads_earn_by_parts
    a_window_of_time_ends_without_traffic
    a_port_in_use_ends_it
    its_snapshot_belongs_to_one_server
    it_recovers_from_too_many_open_files
    it_continues_from_its_snapshot_or_says_why_not
    killed_twice_it_counts_no_click_twice
    its_restart_loses_nothing
    a_state_is_opened_once_wherever_it_is_killed
    releases_with_links_continue_in_turn
    files_with_other_links_are_refused
    a_long_pause_cancels_what_was_open
}

promises! {
    #[ignore = "some seconds each"]
    the_most_idle_connections_close_for_new_visitors
    #[ignore = "ten seconds each"]
    slow_visitors_are_disconnected_and_delay_nobody
    #[ignore = "some seconds each"]
    bodies_of_any_length_are_refused_unread
    #[ignore = "some seconds each"]
    a_thousand_at_once_are_all_served
    #[ignore = "some seconds each"]
    invalid_options_are_refused
    #[ignore = "some seconds each"]
    both_signals_end_it_cleanly_under_load
    #[ignore = "fifteen seconds each"]
    it_follows_a_change_unless_it_never_forgets
    #[ignore = "a minute or two"]
    killed_200_times_it_counts_no_click_twice
    #[ignore = "some seconds each"]
    killed_as_it_ends_or_starts_it_counts_no_click_twice
}

promises! {
    #[ignore = "needs a browser"]
    its_page_shows_what_is_learned
}

/// A thousand visitors come, and reach each of 40 placements: the page has a row for each placement that has shown an ad,
/// with the released numbers. After every 500 ads the oldest one retires, and a new one comes. A phone shows the columns
/// of all ads.
#[test]
#[ignore = "needs a browser"]
fn the_go_page_shows_its_placements() {
    let (Some(program), Some(browser)) = (GO.as_ref(), Browser::start()) else { return };
    let server = Server::start(program.command().args(["--port", "0", "--placements", "40", "--rotate", "500"]));
    browser.open(&format!("http://{}/", server.host()));
    browser.wait("document.querySelectorAll('#map th').length === 14 && !document.querySelector('#map td')");
    assert_eq!(server.get("/ads?placement=17&slots=3").0, 200);
    browser.wait("document.querySelector('#map tbody')?.textContent.startsWith('17')");
    assert_eq!(browser.run("return document.querySelectorAll('#map tbody tr').length"), 1);
    browser.click("#thousand");
    browser.wait("document.getElementById('playing').textContent === '1,000 have come.'");
    const RETIRED: u64 = 6;
    browser.wait("document.querySelector('#map th[title=\"night train 2\"]')"); // the sixth
    let page: Value = serde_json::from_str(&server.get("/placements").1).unwrap();
    let active: Vec<bool> = page["ads"].as_array().unwrap().iter().map(|ad| ad["active"].as_bool().unwrap()).collect();
    assert_eq!(active, [[false; RETIRED as usize].as_slice(), &[true; 10]].concat());
    let rows = browser.run(
        "return [...document.querySelectorAll('#map tbody tr')].map(row => [[...row.cells].slice(0, 4).map(cell => cell.textContent), \
         row.querySelectorAll('.cell').length, [...row.querySelectorAll('.cell')].findIndex(cell => cell.matches('.leads'))])",
    );
    let (rows, mut pulls) = (rows.as_array().unwrap(), 0);
    assert_eq!(rows.len(), 40, "a visitor misses one of 40 with probability .975, and a thousand do with 1e-11");
    for (shown, row) in rows.iter().zip(page["rows"].as_array().unwrap()) {
        pulls += row["pulls"].as_u64().unwrap();
        let leader = row["leader"].as_u64();
        let name = leader.map_or("–", |leader| page["ads"][leader as usize]["creative"].as_str().unwrap());
        let column = leader.map_or(-1, |leader| (leader - RETIRED) as i64);
        assert_eq!((&shown[0][0], &shown[0][1]), (&json!(row["placement"].to_string()), &json!(name)));
        assert_eq!((&shown[1], &shown[2]), (&json!(10), &json!(column)));
        assert_eq!(shown[0][3].as_str().unwrap().replace(',', ""), row["pulls"].to_string());
    }
    assert_eq!(pulls, 3003);

    browser.run(
        "document.body.insertAdjacentHTML('beforeend',
        '<iframe id=narrow src=/ style=\"width: 360px; height: 700px; border: 0\"></iframe>')",
    );
    let narrow = "document.getElementById('narrow').contentDocument";
    browser.wait(&format!("{narrow}.querySelectorAll('#map tbody tr').length === 40"));
    let widths = browser.run(&format!(
        "const map = {narrow}.getElementById('map'), cells = [...map.querySelectorAll('.cell')].slice(0, 10);
        return [map.parentElement.scrollWidth, map.parentElement.clientWidth, {narrow}.documentElement.scrollWidth,
            Math.min(...cells.map(cell => cell.getBoundingClientRect().width))]"
    ));
    let [all, visible, page, cell] = [0, 1, 2, 3].map(|i| widths[i].as_f64().unwrap());
    assert!(all <= visible && page <= 360.0 && cell > 10.0, "{widths}");
    assert_eq!(browser.errors(), [] as [Value; 0]);
}

/// Tests of the servers that have placements.
macro_rules! promises_of_cpp_and_go {
    ($($(#[$attribute:meta])* $promise:ident)*) => {
        $(mod $promise {
            #[test]
            #[ignore = "compiles the C++ ad server"]
            fn cpp() {
                super::CPP.as_ref().inspect(|program| super::$promise(program));
            }

            #[test]
            $(#[$attribute])*
            fn go() {
                super::GO.as_ref().inspect(|program| super::$promise(program));
            }
        })*
    };
}

promises_of_cpp_and_go! {
    its_placements_limit_the_rewards_of_each_person
    a_restart_begins_no_period_of_placements
    #[ignore = "a few seconds each"]
    each_placement_learns_what_is_liked_there
}

/// The JSON has at most 10 lines, so this test needs no parser.
fn it_serves_ads_and_reports_what_is_released(program: &Program) {
    let server = program.start();

    // An ad.
    let (status, head, ad) = server.request("/ad?slot=top");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json") && head.contains("cache-control: no-store"), "{head}");
    assert!(number_field(&ad, "arm").unwrap() < 10.0 && number_field(&ad, "propensity").unwrap() > 0.0, "{ad}");
    assert!(!text_field(&ad, "creative").is_empty());
    let url = text_field(&ad, "click_url").to_owned();
    assert_eq!(server.get(&url), (204, String::new()));

    // A refused request changes nothing.
    let before = server.get("/report");
    for path in ["/nothing", "/ad/", "/diagnostics"] {
        let (status, body) = server.get(path);
        assert_eq!((status, text_field(&body, "error")), (404, "no_such_page"), "{path}: {body}");
        assert!(!text_field(&body, "message").is_empty());
    }
    for (method, path) in [("POST", "/ad"), ("PUT", "/report"), ("DELETE", "/nothing"), ("HEAD", "/ad"), ("POST", &url)]
    {
        let (status, head, body) = server.send(method, path, if method == "HEAD" { "" } else { "x" });
        assert!(status == 405 && head.contains("allow: get"), "{method} {path}: {head}");
        assert!(method == "HEAD" || text_field(&body, "error") == "method_not_allowed", "{method} {path}: {body}");
    }
    assert_eq!(server.get("/report"), before);

    // The report contains only releases, so a click does not change it.
    let unclicked = program.start();
    click_url(&unclicked);
    assert_eq!(unclicked.get("/report"), before, "one ad clicked, one ad not clicked");
    assert_eq!(unclicked.get("/metrics"), server.get("/metrics"), "where there is such a page");
    for (path, says) in [("/privacy", "\nNot protected: "), ("/privacy.json", "\"is_private\":true")] {
        let (status, stated) = server.get(path);
        assert!(status == 200 && stated.contains(says), "{path}: {stated}");
        assert_eq!(unclicked.get(path).1, stated);
    }
    let report = before.1;
    assert_eq!((number_field(&report, "decisions"), number_field(&report, "epsilon_spent")), (Some(1.0), Some(0.0)));
    assert_eq!((number_field(&report, "mean"), number_field(&report, "width")), (None, None), "nothing is released");
    for field in ["answered", "duplicates", "late", "click"] {
        assert!(!report.contains(field), "{field}: {report}");
    }
    assert_eq!(report.matches("\"active\":true").count(), 10);
    assert!(report.contains("\"is_private\":true") && !text_field(&report, "policy").is_empty());

    // The page loads nothing from other servers.
    let (status, page) = server.get("/");
    assert!(status == 200 && page.contains("/report") && !page.contains("://"), "{page}");

    // A decision without a click counts when its window is over.
    (0..WINDOW).for_each(|_| drop(click_url(&server)));
    let report = server.get("/report").1;
    assert_eq!(number_field(&report, "decisions"), Some(WINDOW as f64 + 1.0));
    assert_eq!(number_field(&report, "pending"), Some(WINDOW as f64));

    let (status, said) = server.interrupt();
    assert_eq!((status.code(), said.as_str()), (Some(0), "stopped\n"), "no operator's address unless asked for");
}

/// The status of a click depends on clicks: no response reveals it, to the last byte. The operator can read it, at an
/// address of this machine.
fn no_response_reveals_the_status_of_a_click(program: &Program) {
    let ((server, operator), other) = (program.start_with_operator(), program.start());
    let (late, foreign) = (click_url(&server), click_url(&other));
    (0..WINDOW).for_each(|_| drop(click_url(&server)));
    let (fresh, silent) = (click_url(&server), click_url(&server));
    let overlong = format!("/click/{}", "f".repeat(2000));
    let tell = |method: &str, path: &str| {
        let (_, head, body) = server.send(method, path, "");
        let head: Vec<&str> = head.lines().filter(|line| !line.starts_with("date: ")).collect();
        format!("{}\n\n{body}", head.join("\n"))
    };

    let answer = tell("GET", &fresh);
    assert!(answer.starts_with("http/1.1 204 ") && answer.contains("cache-control: no-store"), "{answer}");
    let malformed = ["12", "zzzzzzzzzzzzzzzz", "+123456789abcdef", "0x23456789abcdef", "0123456789abcdef0"];
    let more = ["", "0123/456789abcde", "%20123456789abcde"];
    let malformed: Vec<_> = malformed.iter().chain(&more).map(|ticket| format!("/click/{ticket}")).collect();
    for path in [&fresh, &late, &foreign, &overlong].into_iter().chain(&malformed) {
        assert_eq!(tell("GET", path), answer, "{path}");
    }
    for method in ["HEAD", "POST", "DELETE"] {
        let answers = [&fresh, &silent, &late, &foreign].map(|path| tell(method, path));
        assert_eq!(BTreeSet::from(answers).len(), 1, "{method}");
    }
    // Neither those nor an encoded ticket were clicks: this is the first one.
    let encoded: String = silent["/click/".len()..].bytes().map(|digit| format!("%{digit:02x}")).collect();
    for path in [format!("/click/{encoded}"), format!("/click/{}{}", &encoded[..3], &silent[8..]), silent] {
        assert_eq!(tell("GET", &path), answer, "{path}");
    }

    let ask = |path: &str| http::send(&operator, "GET", path, "");
    assert!(operator.starts_with("127.0.0.1:"), "{operator}");
    let (status, head, counts) = ask("/diagnostics");
    assert!(status == 200 && head.contains("cache-control: no-store"), "{head}");
    let counts = ["duplicates", "late", "rejected", "unknown"].map(|name| number_field(&counts, name));
    assert_eq!(counts, [Some(1.0), Some(1.0), Some(0.0), Some(1.0)]);
    // The page for Prometheus, on servers that have one: only the operator's shows refusals.
    if let (200, head, metrics) = ask("/metrics") {
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        let public = server.get("/metrics");
        assert_eq!(public.0, 200);
        let refused = "dpb_duplicates_total{bandit=\"ads\"} 1";
        let lines = |page: &str| page.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let (public, operators) = (lines(&public.1), lines(&metrics));
        assert!(public.is_subset(&operators) && public.contains("dpb_up{bandit=\"ads\"} 1"), "{public:?}");
        assert!(operators.contains(refused) && !public.contains(refused), "{metrics}");
    }
    assert_eq!(server.get("/diagnostics").0, 404, "for the operator alone");
    assert_eq!(ask("/ad").0, 404, "visitors go elsewhere");
    assert_eq!(http::send(&operator, "POST", "/diagnostics", "").0, 405);
    assert_eq!(server.interrupt().0.code(), Some(0));
}

/// With `--sales` an ad that sells is shown, and one whose buyers send all back is not. Sales come on the operator's port.
fn its_ads_earn_by_parts(program: &Program) {
    let options = ["--port", "0", "--operator-port", "0", "--window", "20", "--memory", "0", "--sales"];
    let mut server = Server::start(program.command().args(options));
    let operator = server.next_address();
    let mut visitor = BufReader::new(server.connect());
    let mut shop = BufReader::new(connect(&operator));
    let get = |connection: &mut BufReader<TcpStream>, path: &str| ask(connection, "GET", path, "").unwrap();
    let mut last = String::new();
    for _ in 0..3000 {
        let ad = get(&mut visitor, "/ad").2;
        let url = text_field(&ad, "click_url").to_owned();
        let ticket = url.strip_prefix("/click/").unwrap().to_owned();
        let sales = match number_field(&ad, "arm").unwrap() as u32 {
            3 => [Some(("bought", 60.0)), Some(("returned", 60.0))],
            7 => [Some(("bought", 40.0)), None],
            _ => [None; 2],
        };
        for (what, euros) in sales.into_iter().flatten() {
            assert_eq!(get(&mut shop, &format!("/{what}/{ticket}?euros={euros}")).0, 204);
        }
        assert_eq!(get(&mut visitor, &url).0, 204, "a click comes as late as a purchase, or later");
        last = ticket;
    }
    let report: Value = serde_json::from_str(&server.get("/report").1).unwrap();
    let arm = |arm: usize, field: &str| report["arms"][arm][field].as_f64();
    assert!(arm(7, "pulls").unwrap() > 1500.0 && arm(3, "pulls").unwrap() < 500.0, "{report}");
    // A click earns .05, and 40 euros .4.
    assert!((arm(7, "mean").unwrap() - 0.45).abs() < 0.1 && arm(3, "mean").is_none_or(|mean| mean < 0.45), "{report}");
    drop((visitor, shop));
    let sold = |query: &str| http::send(&operator, "GET", &format!("/bought/{last}{query}"), "");
    let duplicates = || number_field(&http::send(&operator, "GET", "/diagnostics", "").2, "duplicates");
    assert_eq!(duplicates(), Some(0.0));
    for wrong in ["", "?euros=", "?euros=-1", "?euros=NaN", "?euros=inf", "?euros=4x"] {
        let (status, _, body) = sold(wrong);
        assert_eq!((status, text_field(&body, "error")), (400, "bad_euros"), "{wrong}");
    }
    // A repeat has the same response, and only the operator's counts show it.
    (0..2).for_each(|_| assert_eq!(sold("?euros=1").0, 204));
    assert!(duplicates() >= Some(1.0));
    assert_eq!(server.get(&format!("/bought/{last}?euros=1")).0, 404);
    assert_eq!(server.interrupt().0.code(), Some(0));
    let (server, operator) = program.start_with_operator();
    assert_eq!(http::send(&operator, "GET", &format!("/bought/{last}?euros=1"), "").0, 404);
    assert_eq!(server.interrupt().0.code(), Some(0));
    assert_eq!(program.refuses(&["--sales"]).0, Some(2));
}

/// Visitors who send half a request, none, or one byte after the other, or who do not read the response, occupy no
/// thread, delay no other visitors, and are disconnected. There are more of them than connections: new visitors wait
/// until these are disconnected.
fn slow_visitors_are_disconnected_and_delay_nobody(program: &Program) {
    allow_many_files();
    let server = program.start();
    let mut dripping = server.connect();
    dripping.write_all(b"GET /ad HTTP/1.1\r\nHost: drip\r\nX: ").unwrap();
    let mut greedy = server.connect();
    server.signal(libc::SIGSTOP); // so that all requests arrive at once
    let half: Vec<_> = (0..PLACES / 2)
        .map(|_| {
            let mut connection = server.connect();
            connection.write_all(b"GET /ad HTTP/1.1\r\nHost: half\r\n").unwrap();
            connection
        })
        .collect();
    server.signal(libc::SIGCONT);
    for _ in 0..20 {
        assert_eq!(server.get("/ad").0, 200);
    }
    let open = half.iter().filter(|connection| is_open(connection)).count();
    assert!(open > half.len() / 2, "others waited until only {open} of {} were left", half.len());
    assert!(server.status("Threads") < 100, "{} threads", server.status("Threads"));

    let crowd: Vec<_> = (0..PLACES / 2 + 200).map(|_| server.connect()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| push(&mut dripping, b"x", Duration::from_millis(100)));
        scope.spawn(|| push(&mut greedy, b"GET / HTTP/1.1\r\nHost: greedy\r\n\r\n", Duration::from_micros(10)));
        assert_eq!(server.get("/ad").0, 200, "a newcomer");
        assert!(server.files() < PLACES + 100, "{} connections at a time", server.files());
        for mut connection in half {
            match connection.read_to_end(&mut Vec::new()) {
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                    panic!("the server waits for the rest of the request for ever")
                }
                _ => {}
            }
        }
    });
    drop(crowd);
    assert_eq!(server.get("/ad").0, 200);
}

/// Sends this repeatedly, with pauses, until the other side closes.
fn push(connection: &mut TcpStream, what: &[u8], pause: Duration) {
    let (end, mut rest) = (Instant::now() + PATIENCE, what);
    connection.set_nonblocking(true).unwrap();
    while Instant::now() < end {
        match connection.write(rest) {
            Ok(n) => rest = if n < rest.len() { &rest[n..] } else { what },
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        std::thread::sleep(pause);
    }
    panic!("the server does not close the connection: {}", String::from_utf8_lossy(what));
}

/// Whether the other side has sent nothing and has not closed.
fn is_open(connection: &TcpStream) -> bool {
    connection.set_nonblocking(true).unwrap();
    let peeked = connection.peek(&mut [0]);
    connection.set_nonblocking(false).unwrap();
    peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// The server does not trust a declared length, and discards the body.
fn bodies_of_any_length_are_refused_unread(program: &Program) {
    let server = program.start();
    click_url(&server);
    let (before, memory) = (server.get("/report"), server.status("VmHWM"));
    for (method, status) in [("POST", 405), ("GET", 413)] {
        for header in ["Content-Length: 99999999999999", "Content-Length: 1", "Transfer-Encoding: chunked"] {
            // A body is announced and never sent: the response comes anyway.
            let mut connection = server.connect();
            write!(connection, "{method} /ad HTTP/1.1\r\nHost: long\r\n{header}\r\n\r\n").unwrap();
            let mut answer = String::new();
            BufReader::new(connection).read_line(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method}, {header}: {answer}");
        }
    }

    // A gigabyte of body, of chunks, and of headers: the client may not receive the response.
    let piece = "x".repeat(1 << 20);
    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
    for (head, piece) in [
        ("POST /ad HTTP/1.1\r\nHost: long\r\nContent-Length: 1073741824\r\n\r\n", &piece),
        ("POST /ad HTTP/1.1\r\nHost: long\r\nTransfer-Encoding: chunked\r\n\r\n", &chunk),
        ("GET /ad HTTP/1.1\r\nHost: long\r\nX: ", &piece),
        ("GET /", &piece),
        ("\x16\x03\x01 no HTTP at all\r\n\r\n", &piece),
    ] {
        let mut connection = server.connect();
        connection.write_all(head.as_bytes()).unwrap();
        let _ = (0..1024).try_for_each(|_| connection.write_all(piece.as_bytes()));
    }
    let grown = server.status("VmHWM").saturating_sub(memory); // the kernel's counts are approximate
    assert!(grown < 64 << 10, "{grown} kB more memory");
    assert_eq!(server.get("/report"), before, "a refused request changed something");
}

/// The report is cached for a second. A query without values names no placement.
fn its_report_is_cached(program: &Program) {
    let mut command = Command::new(&program.path);
    let server = Server::start(command.args(program.arguments).args(["--port", "0"]));
    let begun = Instant::now();
    let report = server.get("/report");
    click_url(&server);
    let again = [server.get("/report"), server.get("/report?anew")];
    assert!(begun.elapsed() > Duration::from_millis(900) || again == [report.clone(), report.clone()], "{again:?}");
    assert_eq!(number_field(&report.1, "decisions"), Some(0.0));
    std::thread::sleep(Duration::from_millis(1010).saturating_sub(begun.elapsed()));
    std::thread::sleep(Duration::from_millis(20)); // the report was made some time after the request for it
    let end = Instant::now() + Duration::from_secs(1);
    while number_field(&server.get("/report").1, "decisions") != Some(1.0) {
        assert!(Instant::now() < end, "the same for ever");
    }
}

/// Valid and malformed requests get the answers in tests/data/framing.txt, and none that hides in another makes a decision.
fn it_accepts_valid_requests_only(program: &Program) {
    let server = program.start();
    check_framing(server.host(), false);
    assert_eq!(number_field(&server.get("/report").1, "decisions"), Some(0.0));
}

/// Two servers with one file would overwrite each other's snapshots: the second one is refused until the first one
/// ends. A file that is too large for a snapshot is not read.
fn its_snapshot_belongs_to_one_server(program: &Program) {
    let file = place("own");
    let with = |options: &[&str]| {
        let mut command = program.command();
        command.args(["--port", "0", "--snapshot", file.to_str().unwrap()]).args(options);
        command
    };
    let server = Server::start(&mut with(&[]));
    click_url(&server);
    let refused = |says: &str| {
        let mut process = with(&[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let status = wait(&mut process);
        let mut said = String::new();
        process.stderr.unwrap().read_to_string(&mut said).unwrap();
        let says = [file.to_str().unwrap(), says];
        assert!(status.code() == Some(1) && says.iter().all(|part| said.contains(part)), "{status} {said}");
    };
    refused("another server has it");
    assert_eq!(server.get("/ad").0, 200);
    server.signal(libc::SIGKILL);
    drop(server);
    let server = Server::start(&mut with(&["--snapshot-every", "3600000"]));
    // The server saves a snapshot before it serves requests.
    let kept = fs::read(&file).unwrap();
    let report = Bandit::restore(&kept).unwrap().report().unwrap();
    assert_eq!(number_field(&server.get("/report").1, "decisions"), Some(report.counts.decisions as f64));
    assert_eq!(server.end(libc::SIGTERM).0.code(), Some(0));

    fs::File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
    let begun = Instant::now();
    refused("not a snapshot of this server");
    assert!(begun.elapsed() < Duration::from_secs(60), "it was read");
    fs::remove_file(&file).unwrap();
}

/// There are more idle connections than places, and they arrive all at once: a new visitor with a request gets a
/// response at once.
fn the_most_idle_connections_close_for_new_visitors(program: &Program) {
    allow_many_files();
    let server = program.start();
    let mut kept = BufReader::new(server.connect());
    server.signal(libc::SIGSTOP);
    let idle: Vec<_> = (0..PLACES / 2 * 3)
        .map(|i| {
            let mut connection = server.connect();
            connection.write_all(&b"GET /ad HTTP/1.1\r\nHost: half\r\n"[..i % 3]).unwrap();
            connection
        })
        .collect();
    server.signal(libc::SIGCONT);
    let most = std::thread::scope(|scope| {
        let visitor = scope.spawn(|| (0..20).for_each(|_| assert_eq!(server.get("/ad").0, 200)));
        let mut most = server.files();
        while !visitor.is_finished() {
            most = most.max(server.files());
        }
        most
    });
    assert!(most < PLACES + 100, "{most} connections at a time");
    let open = idle.iter().filter(|connection| is_open(connection)).count();
    assert!(open > PLACES / 2, "only {open} of {} were left", idle.len());
    // A connection with requests stays open, and the one that was idle longest was closed first.
    assert!(!is_open(kept.get_mut()), "the idlest of all");
    let mut asks = BufReader::new(server.connect());
    for _ in 0..3 {
        let crowd: Vec<_> = (0..PLACES / 2).map(|_| server.connect()).collect();
        assert_eq!(server.get("/ad").0, 200, "after them");
        assert!(ask(&mut asks, "GET", "/ad", "").is_some(), "sent away");
        drop(crowd);
    }
}

/// Slots of a placement get different creatives, and each click reaches the bandit that decided. The bandit learns from
/// 12 rewards of each person, and of all visitors without a hash together, whatever they do. Any batch has more. No
/// page, snapshot or log contains a person's hash.
fn its_placements_limit_the_rewards_of_each_person(program: &Program) {
    const PERSON: u64 = 0x9f3c_51a2_77d0_e846;
    let file = place("placements");
    let (pool, log) = (file.with_extension("placements"), file.with_extension("log"));
    let start = |placements| {
        let log = fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let mut command = program.command();
        command.args(["--port", "0", "--operator-port", "0", "--placements", placements, "--snapshot"]).arg(&file);
        let mut server = Server::start(command.stderr(log));
        let operator = server.next_address();
        (server, operator)
    };
    let read = |server: &Server, placement: u32| -> Value {
        serde_json::from_str(&server.get(&format!("/report?placement={placement}")).1).unwrap()
    };
    let (server, operator) = start("2");

    // A refused request changes nothing.
    let before = [read(&server, 0), read(&server, 1)];
    for (error, queries) in [
        ("bad_placement", &["", "slots=1", "placement=2&slots=1", "placement=-1&slots=1", "placement=1x&slots=1"][..]),
        ("bad_placement", &["placement=4294967296&slots=1", "placement&slots=1", "xplacement=1&slots=1"]),
        ("bad_slots", &["placement=0", "placement=0&slots=0", "placement=0&slots=11", "slots=-1&placement=0"]),
        ("bad_slots", &["placement=0&slots=", "placement=0&slots=1e1", "placement=0&slots=4294967297"]),
        ("bad_user", &["placement=0&slots=1&user=xyz", "placement=0&slots=1&user=", "placement=0&slots=1&user=9f3c"]),
        ("bad_user", &["placement=0&slots=1&user=9f3c51a277d0e8460", "user=-f3c51a277d0e846&placement=0&slots=1"]),
    ] {
        for path in queries.iter().map(|query| format!("/ads?{query}")) {
            let (status, body) = server.get(&path);
            assert_eq!((status, text_field(&body, "error")), (400, error), "{path}: {body}");
            assert!(!text_field(&body, "message").is_empty());
        }
    }
    let (status, body) = server.get("/report?placement=2");
    assert_eq!((status, text_field(&body, "error")), (400, "bad_placement"));
    assert_eq!([read(&server, 0), read(&server, 1)], before);

    // Slots get different creatives. A click counts once, in time, at its own server.
    let mut connection = BufReader::new(server.connect());
    let mut slots = |query: &str| slots(&mut connection, query).into_iter().map(|(_, url)| url).collect::<Vec<_>>();
    let mine = |placement, slots| format!("placement={placement}&slots={slots}&user={PERSON:016x}");
    let first: Vec<_> = [1, 3, 10].into_iter().flat_map(|many| slots(&mine(1, many))).collect();
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 14);
    for _ in 0..WINDOW / 10 {
        assert_eq!(server.get(&slots(&mine(0, 10))[0]), (204, String::new()));
        slots("slots=10&placement=1");
    }
    let counts = || {
        let counts = send(&operator, "GET", "/diagnostics", "").2;
        ["duplicates", "late", "rejected", "unknown"].map(|name| number_field(&counts, name).unwrap())
    };
    assert_eq!(counts(), [0.0; 4]);
    let other = Server::start(program.command().args(["--port", "0", "--placements", "1"]));
    let foreign = self::slots(&mut BufReader::new(other.connect()), "placement=0&slots=1").remove(0).1;
    let (fresh, bandits) = (slots("placement=0&slots=1").remove(0), click_url(&server));
    for url in [&fresh, &fresh, &first[0], &foreign, &bandits, &bandits] {
        assert_eq!(server.get(url), (204, String::new()));
    }
    assert_eq!(counts(), [2.0, 1.0, 0.0, 1.0]);

    // Decisions for one person, and for all visitors without a hash, release nothing.
    let pulls = |report: &Value| -> u64 {
        report["arms"].as_array().unwrap().iter().map(|arm| arm["pulls"].as_u64().unwrap()).sum()
    };
    let (here, there) = (read(&server, 0), read(&server, 1));
    assert_eq!((pulls(&here), pulls(&there)), (WINDOW as u64 + 1, WINDOW as u64 + 14));
    assert_eq!([&here["decisions"], &here["releases"]], [&json!(2015), &json!(0)]);
    assert_eq!(here["epsilon_spent"].as_f64(), Some(0.0));
    let metrics = server.get("/metrics").1;
    assert!(metrics.contains("\ndpb_decisions_total{bandit=\"ads-placements\"} 2015\n"), "{metrics}");
    assert!(metrics.contains("\ndpb_decisions_total{bandit=\"ads\"} 1\n"), "{metrics}");
    let metrics = send(&operator, "GET", "/metrics", "").2;
    assert!(metrics.contains("\ndpb_duplicates_total{bandit=\"ads-placements\"} 1\n"), "{metrics}");

    // Decisions for many people do.
    for user in 0..WINDOW / 5 {
        slots(&format!("user={user:016x}&slots=10&placement=0"));
    }
    let learned = read(&server, 0);
    assert!(learned["releases"].as_u64() > Some(0) && learned["epsilon_spent"].as_f64() > Some(0.99), "{learned}");
    let report = server.get("/report");
    assert_eq!(["decisions", "epsilon_spent"].map(|name| number_field(&report.1, name)), [Some(1.0), Some(0.0)]);
    assert_eq!(server.get("/report?slots=1"), report);
    assert_eq!(server.end(libc::SIGTERM).0.code(), Some(0));

    // The server continues in a new period, also with more placements. It saves the new period before it serves
    // requests.
    let (server, operator) = start("3");
    let on_disk = Bandit::restore(&fs::read(&pool).unwrap()).unwrap().report().unwrap();
    assert!(on_disk.epsilon_spent > 2.99, "{on_disk:?}");
    let now = read(&server, 0);
    let counted = |report: &Value| -> Vec<Value> {
        report["arms"].as_array().unwrap().iter().map(|arm| arm["effective_pulls"].clone()).collect()
    };
    assert_eq!((counted(&now), &now["releases"]), (counted(&learned), &learned["releases"]));
    assert!(now["epsilon_spent"].as_f64() > Some(1.99) && pulls(&read(&server, 2)) == 0, "{now}");
    assert_eq!(server.get(&fresh), (204, String::new()));
    assert_eq!(number_field(&send(&operator, "GET", "/diagnostics", "").2, "unknown"), Some(1.0), "of another run");
    assert_eq!(server.interrupt().0.code(), Some(0));
    let kept = fs::read(&pool).unwrap();
    let log = fs::read_to_string(&log).unwrap();
    let said = [&kept, metrics.as_bytes(), log.as_bytes()].concat();
    for name in [&PERSON.to_le_bytes()[..], &PERSON.to_be_bytes(), format!("{PERSON:x}").as_bytes()] {
        assert!(!said.windows(name.len()).any(|bytes| bytes == name), "it contains a person's hash");
    }
    assert!(!log.contains("ads?") && !log.contains("click"), "{log}");

    // Invalid options are errors, and nothing else happens.
    let with = |options: &[&str]| program.refuses(&[&["--snapshot", file.to_str().unwrap()], options].concat());
    let (code, said) = with(&["--placements", "2"]);
    let says = "placements must be at least 3, as in the snapshot, got 2";
    assert!(code == Some(1) && said.contains("snapshot.placements: ") && said.contains(says), "{code:?} {said}");
    assert_eq!(fs::read(&pool).unwrap(), kept);
    for (option, value) in [("placements", "-1"), ("placements", "4294967296"), ("users", "0"), ("period", "0")] {
        let (code, said) = program.refuses(&[&format!("--{option}"), value]);
        assert!(code == Some(2) && said.contains(option), "{option} {value}: {code:?} {said}");
    }
    let (code, said) = program.refuses(&["--placements", "1", "--redis", "localhost:1", "--node", "32768"]);
    assert!(code == Some(2) && said.to_lowercase().contains("usage"), "{code:?} {said}");
    let none = program.start();
    assert_eq!(none.get("/ads?placement=0&slots=1").0, 404);
    assert_eq!(none.get("/report?placement=0"), none.get("/report"));
}

/// Visitors of one placement like half of the creatives, those of the other placement like the other half, and five are
/// shown at a time. A policy that is the same in both placements shows what is liked in half of all slots, whatever it
/// learns. In 1500 simulated runs the share in the last quarter was at least 0.77. Periods pass by themselves.
fn each_placement_learns_what_is_liked_there(program: &Program) {
    const REQUESTS: u64 = 4000;
    let options = ["--port", "0", "--placements", "2", "--period", "1"];
    let server = Server::start(program.command().args(options));
    let mut connection = BufReader::new(server.connect());
    let begun = Instant::now();
    let (mut liked, mut shown) = (0, 0);
    for user in 0..REQUESTS {
        let placement = user % 2;
        for (arm, url) in slots(&mut connection, &format!("placement={placement}&slots=5&user={user:016x}")) {
            let likes = (arm < 5) == (placement == 0);
            if likes {
                ask(&mut connection, "GET", &url, "").unwrap();
            }
            if user >= REQUESTS / 4 * 3 {
                (liked, shown) = (liked + u32::from(likes), shown + 1);
            }
        }
    }
    let share = f64::from(liked) / f64::from(shown);
    assert!(share > 0.6, "{share}");
    let lost = || number_field(&server.get("/report?placement=0").1, "epsilon_spent").unwrap();
    let end = Instant::now() + PATIENCE;
    while lost() < 1.99 {
        assert!(Instant::now() < end, "one period for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    let most = 2.0 + begun.elapsed().as_secs_f64();
    assert!(lost() < most, "{} periods in {most} seconds", lost());
}

/// The ads for a request of several slots: arm and click URL of each, all different.
fn slots(connection: &mut BufReader<TcpStream>, query: &str) -> Vec<(usize, String)> {
    let (status, _, page) = ask(connection, "GET", &format!("/ads?{query}"), "").expect("an answer");
    assert_eq!(status, 200, "{query}: {page}");
    let ads = shown(&page);
    let arms: BTreeSet<_> = ads.iter().map(|ad| ad.0).collect();
    assert!(arms.len() == ads.len() && query.contains(&format!("slots={}", ads.len())), "{query}: {page}");
    ads
}

/// Arm and click URL of each ad on a page of slots.
fn shown(page: &str) -> Vec<(usize, String)> {
    let page: Value = serde_json::from_str(page).unwrap();
    let ad = |ad: &Value| (ad["arm"].as_u64().unwrap() as usize, ad["click_url"].as_str().unwrap().to_owned());
    page["ads"].as_array().unwrap().iter().map(ad).collect()
}

fn a_port_in_use_ends_it(program: &Program) {
    let server = program.start();
    let taken = server.host().split(':').nth(1).unwrap();
    for options in [&["--port", taken][..], &["--port", "0", "--operator-port", taken]] {
        let (code, said) = program.refuses(options);
        assert!(code == Some(1) && said.contains(taken), "{options:?}: {code:?} {said}");
    }
    assert_eq!(server.get("/ad").0, 200);
    let (code, said) = program.refuses(&["--port", "65536"]);
    assert!(code == Some(2) && said.to_lowercase().contains("usage"), "{code:?} {said}");
}

fn invalid_options_are_refused(program: &Program) {
    for option in ["--port", "--operator-port"] {
        for port in ["65536", "99999", "4295000000", "-1", "80x", " 80", "http", ""] {
            let (code, said) = program.refuses(&[option, port]);
            assert!(code == Some(2) && said.to_lowercase().contains("usage"), "{option} {port:?}: {code:?} {said}");
        }
    }
    for options in
        [&["--port"][..], &["--nothing", "1"], &["stray"], &["--report-every", "-1"], &["--report-every", "x"]]
    {
        let (code, said) = program.refuses(options);
        assert!(code == Some(2) && said.to_lowercase().contains("usage"), "{options:?}: {code:?} {said}");
    }
}

/// The policy by name, as dpb_policy_at lists them. For another name the server prints the list.
fn it_serves_the_policy_of_its_options(program: &Program) {
    let server = Server::start(program.command().args(["--port", "0", "--policy", "dp-se"]));
    assert_eq!(text_field(&server.get("/report").1, "policy"), "dp-se");
    assert_eq!(text_field(&program.start().get("/report").1, "policy"), dpb::Algorithm::RECOMMENDED.name());
    for name in ["dp-none", "", "DP-IMED"] {
        let (code, said) = program.refuses(&["--policy", name]);
        assert_eq!(code, Some(2), "{name}: {said}");
        assert!(dpb::Algorithm::ALL.iter().all(|policy| said.contains(policy.name())), "{said}");
    }
}

/// Without --memory, the default if the policy supports `forget_after`. The library reports errors.
fn it_forgets_as_its_options_and_policy_say(program: &Program) {
    for (options, memory) in [
        (&[][..], 50_000.0),
        (&["--memory", "0"], 0.0),
        (&["--memory", "1024"], 1024.0),
        (&["--policy", "dp-med"], 50_000.0),
        (&["--policy", "dp-se"], 0.0),
        (&["--policy", "nonprivate-imed", "--memory", "0"], 0.0),
    ] {
        let server = Server::start(program.command().args(["--port", "0"]).args(options));
        assert_eq!(number_field(&server.get("/report").1, "memory"), Some(memory), "{options:?}");
    }
    for (options, error) in [
        (&["--policy", "dp-se", "--memory", "5000"][..], " must be 0: dp-se does not use it, got 5000"),
        (&["--memory", "5"], " must be 0 or in 1024 .. 2^40, got 5"),
    ] {
        // Each language has its own name of the field.
        let named =
            |said: &str| ["forget_after", "ForgetAfter"].iter().any(|name| said.contains(&format!("{name}{error}")));
        let (code, said) = program.refuses(options);
        assert!(code == Some(1) && named(&said), "{options:?}: {code:?} {said}");
    }
    for memory in ["-1", "1e6", "50000x", "18446744073709551616", ""] {
        let (code, said) = program.refuses(&["--memory", memory]);
        assert!(code == Some(2) && said.to_lowercase().contains("usage"), "{memory:?}: {code:?} {said}");
    }
}

/// A click counts within the window and is late afterwards. A decision is pending only until its window ends.
fn a_window_of_time_ends_without_traffic(program: &Program) {
    let options = ["--port", "0", "--operator-port", "0", "--report-every", "1", "--window"];
    let start = |window: &str, more: &[&str]| {
        let mut server = Server::start(program.command().args(options).arg(window).args(more));
        let operator = server.next_address();
        (server, operator)
    };
    let pending = |server: &Server| number_field(&server.get("/report").1, "pending");
    let (server, operator) = start("2s", &["--memory", "2h"]);
    let (clicked, late) = (click_url(&server), click_url(&server));
    server.get(&clicked);
    let report = server.get("/report").1;
    let said = ["window", "memory", "pending"].map(|field| number_field(&report, field));
    assert_eq!((text_field(&report, "clock"), said), ("milliseconds", [2000.0, 7_200_000.0, 2.0].map(Some)));
    let begun = Instant::now();
    while pending(&server) != Some(0.0) {
        assert!(begun.elapsed() < PATIENCE, "{}", server.get("/report").1);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() > Duration::from_millis(900), "too soon");
    server.get(&clicked);
    server.get(&late);
    let refused = send(&operator, "GET", "/diagnostics", "").2;
    assert_eq!(["late", "duplicates"].map(|count| number_field(&refused, count)), [2.0, 0.0].map(Some));
    for (window, milliseconds) in [("500ms", 500.0), ("30m", 1_800_000.0), ("1193h", 4_294_800_000.0)] {
        let (server, _) = start(window, &[]);
        let report = server.get("/report").1;
        let said = ["window", "memory"].map(|field| number_field(&report, field));
        assert_eq!(said, [milliseconds, 43_200_000.0].map(Some));
    }
    let counted = start("77", &[]).0.get("/report").1;
    assert_eq!((text_field(&counted, "clock"), number_field(&counted, "window")), ("decisions", Some(77.0)));
    for wrong in [&["30m", "--memory", "5000"][..], &["5000", "--memory", "2h"], &["0"], &["1194h"], &["5d"], &["m"]] {
        let (code, said) = program.refuses(&[&["--window"], wrong].concat());
        assert!(code == Some(2) && said.to_lowercase().contains("usage"), "{wrong:?}: {code:?} {said}");
    }
}

/// Everybody clicks one ad, and after 4000 visitors another one. In 20,000 simulated runs with `forget_after` 4096, at
/// least 938 of the last 1000 visitors saw the new one. Without it, nobody of 5000 did.
fn it_follows_a_change_unless_it_never_forgets(program: &Program) {
    for memory in [4096.0, 0.0] {
        let server = Server::start(program.command().args(["--port", "0", "--memory", &memory.to_string()]));
        let mut late = 0;
        for visitor in 0..10_000 {
            let (_, ad) = server.get("/ad");
            let arm = number_field(&ad, "arm");
            if arm == Some(if visitor < 4000 { 9.0 } else { 0.0 }) {
                assert_eq!(server.get(text_field(&ad, "click_url")).0, 204);
            }
            late += u32::from(visitor >= 9000 && arm == Some(0.0));
        }
        let report = server.get("/report").1;
        let follows = memory > 0.0;
        assert_eq!(late > 500, follows, "memory {memory}: {late} of 1000; {report}");
        assert_eq!(number_field(&report, "changes_detected") > Some(0.0), follows, "memory {memory}: {report}");
        let counted = report.split("\"effective_pulls\":").skip(1);
        let counted: Vec<f64> = counted.map(|rest| rest.split([',', '}']).next().unwrap().parse().unwrap()).collect();
        assert!(counted.len() == 10 && (!follows || counted.iter().sum::<f64>() <= memory), "{report}");
    }
}

/// A thousand visitors come at once, and each sends the next request as soon as it has the response. All get the right
/// responses.
fn a_thousand_at_once_are_all_served(program: &Program) {
    const ROUNDS: usize = 3;
    allow_many_files();
    let server = program.start();
    let mut crowd: Vec<_> = (0..1000).map(|_| server.connect()).collect();
    let mut tickets = BTreeSet::new();
    for _ in 0..ROUNDS {
        for connection in &mut crowd {
            connection.write_all(b"GET /ad HTTP/1.1\r\nHost: crowd\r\n\r\n").unwrap();
        }
        for connection in &mut crowd {
            let (status, _, ad) = answer(&mut BufReader::new(connection)).expect("not sent away");
            assert_eq!(status, 200, "{ad}");
            tickets.insert(text_field(&ad, "click_url").to_owned());
        }
    }
    assert_eq!(tickets.len(), ROUNDS * crowd.len());
    assert_eq!(number_field(&server.get("/report").1, "decisions"), Some(tickets.len() as f64));
}

/// Each response is complete or absent, the snapshot contains every request with a response, and the end does not wait
/// for idle visitors.
fn both_signals_end_it_cleanly_under_load(program: &Program) {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let file = place("load");
        let server = Server::start(program.command().args(["--port", "0", "--snapshot", file.to_str().unwrap()]));
        let host = server.host().to_owned();
        let _still: Vec<_> = (0..100)
            .map(|i| {
                let mut connection = server.connect();
                let request = b"GET /ad HTTP/1.1\r\nHost: still\r\n\r\n";
                connection.write_all(&request[..request.len() - i % 3]).unwrap(); // a third are incomplete
                connection
            })
            .collect();
        let answers = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let visitors: Vec<_> = (0..8).map(|_| scope.spawn(|| visit(&host, &answers))).collect();
            while answers.load(Ordering::Relaxed) < 2000 {
                std::thread::yield_now();
                assert!(!visitors.iter().any(|visitor| visitor.is_finished()), "a visitor was sent away");
            }
            let (status, said) = server.end(signal);
            assert_eq!((status.code(), said.as_str()), (Some(0), "stopped\n"), "signal {signal}");
        });
        let answers = answers.into_inner() as u64;
        let kept = Known::of(&file).expect("a snapshot").decisions;
        assert!(answers >= 2000 && kept >= answers, "{kept} decisions are kept, {answers} were answered");
    }
}

/// Reads responses from one connection until it is closed.
fn visit(host: &str, answers: &AtomicUsize) {
    let mut connection = BufReader::new(connect(host));
    while let Some((status, _, body)) = ask(&mut connection, "GET", "/ad", "") {
        assert!(status == 200 && body.trim_ascii_end().ends_with('}'), "{status} {body}");
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// When the system gives it no more files, visitors wait; when it does again, they are served.
fn it_recovers_from_too_many_open_files(program: &Program) {
    let server = program.start_with_files(64);
    let crowd: Vec<_> = (0..200).map(|_| server.connect()).collect();
    let end = Instant::now() + PATIENCE;
    while server.files() < 64 {
        assert!(Instant::now() < end, "{} files", server.files());
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(200)); // it has tried to accept one more
    drop(crowd);
    assert_eq!(server.get("/ad").0, 200);
    assert_eq!(server.interrupt().0.code(), Some(0));
}

/// A bandit for each thread. A reward counts once, at the thread that decided, whichever thread it comes to, and each
/// thread merges the releases of the other.
#[test]
#[ignore = "compiles the C++ ad server"]
fn cpp_threads_have_a_bandit_each_and_learn_as_one() {
    const VISITORS: usize = 8;
    let Some(program) = CPP.as_ref() else { return };
    let options = ["--port", "0", "--operator-port", "0", "--memory", "0", "--threads", "2", "--placements", "1"];
    let mut server = Server::start(program.command().args(options));
    let operator = server.next_address();
    let mut visitors: Vec<_> = (0..VISITORS).map(|_| BufReader::new(server.connect())).collect();
    // The responses to visitors who each request these paths.
    let mut visit = |paths: &[Vec<String>]| -> Vec<Vec<String>> {
        std::thread::scope(|scope| {
            let each = visitors.iter_mut().zip(paths).map(|(visitor, paths)| {
                scope.spawn(|| paths.iter().map(|path| ask(visitor, "GET", path, "").expect("an answer").2).collect())
            });
            each.collect::<Vec<_>>().into_iter().map(|visits| visits.join().unwrap()).collect()
        })
    };
    let of = |page: &str, name: &str, number| -> f64 {
        let line = format!("dpb_{name}{{bandit=\"ads-{number}\"");
        page.lines()
            .filter(|each| each.starts_with(&line))
            .map(|each| each.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
            .sum()
    };
    let end = Instant::now() + PATIENCE;
    let mut clicks = 0;
    loop {
        // Fewer than a window has: no click is late.
        let ads = visit(&vec![vec!["/ad".to_owned(); 100]; VISITORS]);
        let mut urls: Vec<Vec<_>> =
            ads.iter().map(|ads| ads.iter().map(|ad| text_field(ad, "click_url").to_owned()).collect()).collect();
        for _ in 0..2 {
            urls.rotate_left(1);
            visit(&urls);
        }
        clicks += 100 * VISITORS;
        let page = server.get("/metrics").1;
        assert_eq!([1, 2].map(|number| of(&page, "decisions_total", number)).iter().sum::<f64>(), clicks as f64);
        if [1, 2].iter().all(|&number| of(&page, "arm_effective_pulls", number) > of(&page, "answered_total", number)) {
            break;
        }
        assert!(Instant::now() < end, "each knows its own alone");
    }
    assert_eq!(number_field(&server.get("/report").1, "decisions"), Some(clicks as f64));
    // All threads share one bandit for placements.
    let pages = visit(&vec![vec!["/ads?placement=0&slots=1".to_owned()]; VISITORS]);
    let mut urls: Vec<Vec<_>> = pages.iter().map(|page| vec![text_field(&page[0], "click_url").to_owned()]).collect();
    for _ in 0..2 {
        urls.rotate_left(1);
        visit(&urls);
        clicks += VISITORS;
    }
    let clicks = clicks - VISITORS;
    let refused = send(&operator, "GET", "/diagnostics", "").2;
    let refused = ["duplicates", "late", "rejected", "unknown"].map(|name| number_field(&refused, name));
    assert_eq!(refused, [Some(clicks as f64), Some(0.0), Some(0.0), Some(0.0)]);
    assert_eq!(server.interrupt().0.code(), Some(0));

    for options in [&["--threads", "0"][..], &["--threads", "65"], &["--threads", "2", "--snapshot", "x"]] {
        assert_eq!(program.refuses(options).0, Some(2), "{options:?}");
    }
    let (code, said) = program.refuses(&["--threads", "2", "--policy", "dp-se", "--memory", "0"]);
    assert!(code == Some(1) && said.contains("does not support"), "{said}");
}

/// A path for a snapshot, where no file exists yet.
fn place(name: &str) -> PathBuf {
    static PLACES: AtomicUsize = AtomicUsize::new(0);
    let (process, number) = (std::process::id(), PLACES.fetch_add(1, Ordering::Relaxed));
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{process}-{number}"));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir(&place).unwrap();
    place.join("snapshot")
}

fn it_continues_from_its_snapshot_or_says_why_not(program: &Program) {
    let file = place("snapshot");
    let with = |options: &[&str]| {
        let mut command = program.command();
        command.args(["--port", "0", "--snapshot", file.to_str().unwrap()]).args(options);
        command
    };
    let server = Server::start(&mut with(&[]));
    for _ in 0..3000 {
        let url = click_url(&server);
        server.get(&url);
    }
    let arms = |report: &str| -> Vec<Value> {
        let report: Value = serde_json::from_str(report).unwrap();
        let arms = report["arms"].as_array().unwrap();
        arms.iter().map(|arm| json!([arm["mean"], arm["width"], arm["effective_pulls"], arm["active"]])).collect()
    };
    let before = server.get("/report").1;
    assert!(before.contains("\"mean\":0.") || before.contains("\"mean\":1"), "{before}");
    assert_eq!(server.end(libc::SIGTERM).0.code(), Some(0));

    // The server continues from its snapshot.
    let server = Server::start(&mut with(&[]));
    let after = server.get("/report").1;
    assert_eq!(arms(&before), arms(&after));
    assert_eq!(number_field(&after, "decisions"), Some(3000.0));
    assert_eq!(server.end(libc::SIGINT).0.code(), Some(0));

    // Invalid files are errors, and nothing else happens.
    let good = fs::read(&file).unwrap();
    let refused = |options: &[&str], says: &str| {
        let bytes = fs::read(&file).ok();
        let mut process = with(options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let status = wait(&mut process);
        let mut said = String::new();
        process.stderr.unwrap().read_to_string(&mut said).unwrap();
        assert!(status.code() == Some(1) && said.contains(says), "{options:?}: {status} {said}");
        assert!(said.contains(file.to_str().unwrap()) || says.starts_with("this policy"), "{said}");
        assert_eq!(fs::read(&file).ok(), bytes, "{options:?}");
    };
    refused(&["--policy", "dp-med"], "policy must be dp-imed, as in the snapshot, got dp-med");
    let mut altered = good.clone();
    altered[good.len() / 2] ^= 1;
    for bad in [&altered, &good[..good.len() - 1], &[]] {
        fs::write(&file, bad).unwrap();
        refused(&[], "the data is truncated or altered");
    }
    fs::remove_file(&file).unwrap();
    refused(&["--policy", "nonprivate-imed"], "this policy does not support a snapshot: ");
    let missing = file.with_file_name("nowhere").join("snapshot");
    let (code, said) = program.refuses(&["--port", "0", "--snapshot", missing.to_str().unwrap()]);
    assert!(code == Some(1) && said.contains(missing.to_str().unwrap()), "{code:?} {said}");
    for every in ["0", "-1", "1x", ""] {
        let (code, said) = program.refuses(&["--snapshot-every", every]);
        assert!(code == Some(2) && said.to_lowercase().contains("usage"), "{every:?}: {code:?} {said}");
    }
}

fn killed_twice_it_counts_no_click_twice(program: &Program) {
    killed(program, 1, 2);
}

fn killed_200_times_it_counts_no_click_twice(program: &Program) {
    killed(program, 20, 10);
}

/// The content of a snapshot: a bandit's, or that of the first placement.
struct Known {
    decisions: u64,
    answered: u64,
    arms: Vec<KnownArm>,
    /// The loss that the restored handle reports.
    epsilon_spent: f64,
}

struct KnownArm {
    mean: f64,
    pulls: u64,
    effective_pulls: f64,
}

impl Known {
    /// None if there is no file yet. From the first snapshot on, the file is complete at any moment.
    fn of(file: &Path) -> Option<Known> {
        let bandit = Bandit::restore(&fs::read(file).ok()?).expect("a whole snapshot");
        let report = bandit.report().unwrap();
        let arms = bandit.arm_reports().unwrap().into_iter();
        let arms = arms.map(|arm| KnownArm { mean: arm.mean, pulls: arm.pulls, effective_pulls: arm.effective_pulls });
        Some(Known::with(report.counts, report.epsilon_spent, arms.collect()))
    }

    fn of_placement(file: &Path) -> Option<Known> {
        let bandit = Bandit::restore(&fs::read(file).ok()?).expect("a whole snapshot");
        let report = bandit.report().unwrap();
        let unasked = || KnownArm { mean: f64::NAN, pulls: 0, effective_pulls: 0.0 };
        let mut arms: Vec<_> = (0..bandit.arms().unwrap()).map(|_| unasked()).collect();
        let each = |number: u32, arm: dpb::ArmReport| {
            arms[number as usize] = KnownArm { mean: arm.mean, pulls: arm.pulls, effective_pulls: arm.effective_pulls };
        };
        let _ = bandit.for_each_arm_in(0, each); // if the segment exists
        Some(Known::with(report.counts, report.epsilon_spent, arms))
    }

    fn with(counts: Counts, epsilon_spent: f64, arms: Vec<KnownArm>) -> Known {
        Known { decisions: counts.decisions, answered: counts.answered, arms, epsilon_spent }
    }

    /// Checks the report of a server that continues from this snapshot.
    fn check_report(&self, report: &Value) {
        assert_eq!(report["decisions"], self.decisions);
        for (arm, reported) in self.arms.iter().zip(report["arms"].as_array().unwrap()) {
            assert_eq!(reported["effective_pulls"], arm.effective_pulls);
            // The parser rounds numbers.
            let mean = reported["mean"].as_f64().unwrap_or(f64::NAN);
            assert!((mean - arm.mean).abs() < 1e-12 || mean.is_nan() && arm.mean.is_nan(), "{reported}");
            assert_eq!(reported["pulls"], arm.pulls);
        }
        assert_eq!(self.arms.iter().map(|arm| arm.pulls).sum::<u64>(), self.answered);
        assert!((report["epsilon_spent"].as_f64().unwrap() - self.epsilon_spent).abs() < 1e-12, "{report}");
    }

    /// For an arm, the number of rewards in all releases, and their sum.
    fn of_arm(&self, arm: usize) -> (f64, f64) {
        let arm = &self.arms[arm];
        (arm.effective_pulls, if arm.effective_pulls > 0.0 { arm.mean * arm.effective_pulls } else { 0.0 })
    }
}

/// The number of rewards of a run that took effect, as the next run has them: the first ones of these decisions' arms,
/// each once. The server may have made some decisions whose responses were lost.
fn answered(known: Option<&Known>, next: &Known, arms: &[usize], lost: usize) -> usize {
    let (began, answered) = known.map_or((0, 0), |known| (known.decisions, known.answered));
    let decisions = (next.decisions - began) as usize;
    assert!(decisions <= arms.len() + lost, "{decisions} of {}", arms.len());
    let answered = (next.answered - answered) as usize;
    assert_eq!(answered, decisions.saturating_sub(WINDOW));
    for arm in 0..next.arms.len() {
        let pulls = next.arms[arm].pulls - known.map_or(0, |known| known.arms[arm].pulls);
        assert_eq!(pulls as usize, arms[..answered].iter().filter(|&&other| other == arm).count(), "arm {arm}");
    }
    answered
}

/// A server that saves its releases every millisecond is killed at any moment, restarted, and so on. Visitors come one
/// after the other, so the order of decisions is known. Each click is sent before the next decision, so the k-th reward
/// of an arm is known too. The releases of an arm in a run must then be those of its first rewards of that run, each
/// once: the evidence of the next run minus that at the start of this one is n rewards, and their sum is that of its
/// first n rewards. The Rust server can be configured with so little noise (1/16384 in a release) that the sum is
/// visible; for the others n is. In every other series, servers that support placements also have one, and fill eight
/// slots of it now and then, each time for another person. Their bandit continues in the same way, and each run is a
/// separate period.
fn killed(program: &Program, series: u64, kills: u64) {
    const EPSILON: &str = "16384";
    const SLOTS: usize = 8;
    let exact = program.arguments.contains(&"--serve"); // has that option, and no placements
    let (mut released, mut lost, mut released_of_slots) = (0, 0, 0.0);
    for number in 0..series {
        let mut random = Seed::new(Some([number as u8 + 1; 32])).unwrap().stream();
        let placements = if !exact && number % 2 == 0 { "1" } else { "0" };
        let file = place("killed");
        let pool_file = file.with_extension("placements");
        let start = || {
            let mut command = program.command();
            command.args(["--port", "0", "--operator-port", "0", "--memory", "0", "--snapshot-every", "1"]);
            command.args(if exact { ["--epsilon", EPSILON] } else { ["--placements", placements] });
            let mut server = Server::start(command.arg("--snapshot").arg(&file));
            let operator = server.next_address();
            (server, operator)
        };
        let (mut known, mut pool, mut old_tickets) = (None::<Known>, None::<Known>, [const { None::<String> }; 2]);
        for _ in 0..kills {
            let (server, operator) = start();
            let unknown = || number_field(&send(&operator, "GET", "/diagnostics", "").2, "unknown").unwrap();
            let reports = || -> [Value; 2] {
                // Without placements both are the same report.
                ["/report", "/report?placement=0"].map(|path| serde_json::from_str(&server.get(path).1).unwrap())
            };
            let first_reports = reports();
            [&known, &pool].into_iter().zip(&first_reports).for_each(|(known, report)| {
                known.as_ref().inspect(|known| known.check_report(report));
            });
            for ticket in old_tickets.iter_mut().filter_map(Option::take) {
                let before = (reports(), unknown());
                assert_eq!(server.get(&ticket), (204, String::new()));
                assert_eq!((reports(), unknown()), (before.0, before.1 + 1.0));
            }

            // One run of the server: at least this many decisions in snapshots, however slow the disk is, and some
            // time.
            let least = if random.below(8) == 0 { 0 } else { 1000 + random.below(4000) };
            let pause = Duration::from_micros(random.below(3000));
            let mut connection = BufReader::new(server.connect());
            let (mut visits, mut slots_of_run) = (Vec::<(usize, bool)>::new(), Vec::<usize>::new());
            let mut latest = known.as_ref().map_or(0, |known| known.decisions);
            let goal = latest + least;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let end = Instant::now() + PATIENCE;
                    while Known::of(&file).map_or(0, |now| now.decisions) < goal && Instant::now() < end {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    std::thread::sleep(pause);
                    server.signal(libc::SIGKILL);
                });
                while let Some((status, _, ad)) = ask(&mut connection, "GET", "/ad", "") {
                    assert_eq!(status, 200, "{ad}");
                    let arm = number_field(&ad, "arm").unwrap() as usize;
                    let clicked = random.below(20) < 6 + arm as u64;
                    visits.push((arm, clicked));
                    if clicked && ask(&mut connection, "GET", text_field(&ad, "click_url"), "").is_none() {
                        break;
                    }
                    old_tickets[0] = Some(text_field(&ad, "click_url").to_owned());
                    if placements == "1" && random.below(2) == 0 {
                        let path = format!("/ads?placement=0&slots={SLOTS}&user={:016x}", random.next_u64());
                        let Some((status, _, page)) = ask(&mut connection, "GET", &path, "") else { break };
                        assert_eq!(status, 200, "{page}");
                        let ads = shown(&page);
                        slots_of_run.extend(ads.iter().map(|ad| ad.0));
                        let url = ads[random.below(SLOTS as u64) as usize].1.clone();
                        if ask(&mut connection, "GET", &url, "").is_none() {
                            break;
                        }
                        old_tickets[1] = Some(url);
                    }
                    if random.below(100) == 0 {
                        let now = Known::of(&file).map_or(0, |now| now.decisions);
                        assert!(now >= latest, "{now} decisions after {latest}");
                        latest = now;
                    }
                }
            });
            drop(server);

            // The snapshot from which the next run continues.
            let Some(next) = Known::of(&file) else {
                assert!(known.is_none() && latest == 0, "the file is gone");
                continue;
            };
            assert!(next.decisions >= latest);
            let answered_by_now =
                answered(known.as_ref(), &next, &visits.iter().map(|visit| visit.0).collect::<Vec<_>>(), 1);
            for arm in 0..next.arms.len() {
                let clicks = visits[..answered_by_now].iter().filter(|visit| visit.0 == arm).map(|visit| visit.1);
                let clicks: Vec<bool> = clicks.collect();
                let (rewards, sum) = known.as_ref().map_or((0.0, 0.0), |known| known.of_arm(arm));
                let (all, sum_of_all) = next.of_arm(arm);
                let more = (all - rewards) as usize;
                assert!(all >= rewards && more <= clicks.len(), "arm {arm}: {more} of {}", clicks.len());
                let first = clicks[..more].iter().filter(|clicked| **clicked).count() as f64;
                let seen = sum_of_all - sum;
                assert!(!exact || (seen - first).abs() < 0.3, "arm {arm}: {seen} of the first {more}, {first}");
                // No batch is larger than three times all earlier releases, and the first has one reward.
                let open = clicks.len() - more;
                assert!(open as f64 <= f64::max(1.0, 3.0 * all), "arm {arm}: {open} rewards lost, {all} kept");
                (released, lost) = (released + more, lost + open);
            }
            known = Some(next);
            let Some(next) = Known::of_placement(&pool_file) else {
                assert!(pool.is_none(), "the pool's file is gone");
                continue;
            };
            let answered_by_now = answered(pool.as_ref(), &next, &slots_of_run, SLOTS);
            for (number, arm) in next.arms.iter().enumerate() {
                let more = arm.effective_pulls - pool.as_ref().map_or(0.0, |known| known.arms[number].effective_pulls);
                let pulls = slots_of_run[..answered_by_now].iter().filter(|&&other| other == number).count();
                assert!(more >= 0.0 && more <= pulls as f64, "arm {number}: {more} of {pulls}");
                released_of_slots += more;
            }
            // The snapshot was saved in this run's period, and restoring it begins another.
            let period_more = next.epsilon_spent > first_reports[1]["epsilon_spent"].as_f64().unwrap() + 0.99;
            assert!(
                period_more || pool.is_some_and(|known| known.decisions == next.decisions),
                "{}",
                next.epsilon_spent
            );
            pool = Some(next);
        }
    }
    println!("{released} rewards released, {lost} in open batches lost; {released_of_slots} of placements released");
    assert!(released as u64 > 500 * series);
    assert!(exact || released_of_slots > 200.0 * series as f64);
}

/// The page in a browser: before any visitors, after 3000 simulated visitors, and for a visitor.
fn its_page_shows_what_is_learned(program: &Program) {
    let Some(browser) = Browser::start() else { return };
    let server = program.start();
    browser.open(&format!("http://{}/", server.host()));
    browser.wait("document.querySelectorAll('#arms tr').length === 10");
    // For each ad: name, released rate, interval, how often shown, and the lengths of its bar and track in pixels.
    const ROWS: &str = "return [...document.querySelectorAll('#arms tr')].map(row => {
        const [ad, , rate, interval, shown] = [...row.cells].map(cell => cell.textContent);
        const length = name => row.querySelector(name)?.getBoundingClientRect().width ?? null;
        return [ad, rate, interval, shown, length('.bar'), length('.track')];
    })";
    for row in browser.run(ROWS).as_array().unwrap() {
        assert_eq!(
            (&row[1], &row[2], &row[3], &row[4]),
            (&json!("nothing yet"), &json!(""), &json!("0"), &json!(null))
        );
    }

    // Each click of the button adds a thousand visitors, also while earlier ones are still coming.
    (0..3).for_each(|_| browser.click("#thousand"));
    browser.wait("document.getElementById('playing').textContent === '3,000 have come.'");
    let report: Value = serde_json::from_str(&server.get("/report").1).unwrap();
    assert_eq!((&report["decisions"], &report["pending"]), (&json!(3000), &json!(WINDOW)));
    let text = |id: &str| {
        let text = browser.run(&format!("return document.getElementById('{id}').firstChild.textContent"));
        text.as_str().unwrap().to_owned()
    };
    assert_eq!(["decisions", "pending", "policy"].map(text), ["3,000", "1,000", report["policy"].as_str().unwrap()]);
    assert_eq!(text("loss"), format!("ε = {}", report["epsilon_spent"].as_f64().unwrap()));
    let clicks: u32 = text("clicks").parse().unwrap();
    assert!((1..1000).contains(&clicks), "{clicks} clicks"); // expected: at least 60, at most 300

    // The numbers are those of the report, and the bars have matching lengths.
    let rows = browser.run(ROWS);
    let rows = rows.as_array().unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let mut bars = Vec::new();
    for (row, arm) in rows.iter().zip(report["arms"].as_array().unwrap()) {
        assert_eq!((&row[0], row[3].as_str().unwrap().replace(",", "")), (&arm["creative"], arm["pulls"].to_string()));
        let Some(mean) = arm["mean"].as_f64() else {
            assert_eq!((&row[1], &row[4]), (&json!("nothing yet"), &json!(null)));
            continue;
        };
        for (text, sign, value) in [(&row[1], "", mean), (&row[2], "± ", number(&arm["width"]))] {
            let percent = text.as_str().unwrap().strip_prefix(sign).and_then(|text| text.strip_suffix(" %"));
            let percent: f64 = percent.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{text}"));
            // Rounded to two digits after the point.
            assert!((percent - 100.0 * value).abs() < 0.005 + 1e-9, "{text} {arm}");
        }
        let (bar, track) = (number(&row[4]), number(&row[5]));
        if mean <= 0.0 {
            assert_eq!(bar, 0.0, "{row} {arm}");
        } else if bar < track - 1.0 {
            bars.push((mean, bar)); // within the track
        }
    }
    let (mean, longest) = bars.iter().copied().fold((0.0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
    assert!(bars.len() >= 5 && longest > 50.0, "{rows:?}");
    assert!(bars.iter().all(|bar| (bar.1 - bar.0 / mean * longest).abs() < 1.0), "{bars:?}");

    // A phone shows the whole page without horizontal scrolling.
    let narrow = "document.getElementById('narrow').contentDocument";
    browser.run(
        "document.body.insertAdjacentHTML('beforeend',
        '<iframe id=narrow src=/ style=\"width: 360px; height: 700px; border: 0\"></iframe>')",
    );
    browser.wait(&format!("{narrow}.querySelectorAll('#arms .bar').length > 0"));
    let widths = format!("const page = {narrow}.documentElement; return [page.scrollWidth, page.clientWidth]");
    let widths = browser.run(&widths);
    assert!((300.0..=360.0).contains(&number(&widths[1])) && number(&widths[0]) <= number(&widths[1]), "{widths}");
    browser.run("document.getElementById('narrow').remove()");

    // Both pictures are drawn.
    let bands =
        browser.run("return [...document.querySelectorAll('#shares polygon')].map(band => band.getBBox().width)");
    assert!(bands.as_array().unwrap().iter().filter(|width| number(width) > 200.0).count() == 10, "{bands}");
    let points = browser.run("return document.querySelector('#won polyline').points.length");
    assert!(number(&points) >= 5.0, "{points}");

    // The person at the browser is one more visitor, and may click once.
    browser.click("#more");
    browser.wait("document.getElementById('ad').checkVisibility()");
    browser.click("#click");
    browser.wait("document.getElementById('click').textContent === 'Thank you'");
    browser.wait("document.getElementById('decisions').firstChild.textContent === '3,001'");

    // Visitors come until the bandit has learned, and other true rates take effect.
    let truth = || browser.run("return document.querySelector('#arms .truth').getBoundingClientRect().left");
    let before = number(&truth());
    browser.click("#reverse");
    assert!(number(&truth()) > before + 50.0);
    browser.click("#nonstop");
    browser.wait("past.at(-1).decisions > 6000");
    browser.click("#nonstop");
    browser.wait("document.getElementById('playing').textContent.endsWith(' have come.')");
    let report: Value = serde_json::from_str(&server.get("/report").1).unwrap();
    assert_eq!(text("decisions").replace(',', ""), report["decisions"].to_string());
    assert_eq!(browser.errors(), [] as [Value; 0]);
    let picture = program.path.with_extension("png").file_name().unwrap().to_owned();
    let picture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(picture);
    fs::write(picture, browser.screenshot()).unwrap();
    assert_eq!(server.interrupt().0.code(), Some(0));
}

fn click_url(server: &Server) -> String {
    let (status, ad) = server.get("/ad");
    assert_eq!(status, 200, "{ad}");
    let url = text_field(&ad, "click_url").to_owned();
    assert_eq!(url.len(), "/click/0123456789abcdef".len(), "{ad}");
    url
}

/// The value after the first `"name":` in flat JSON.
fn field<'a>(json: &'a str, name: &str) -> &'a str {
    let start = json.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {json}"));
    &json[start + name.len() + 3..]
}

fn text_field<'a>(json: &'a str, name: &str) -> &'a str {
    field(json, name).strip_prefix('"').unwrap().split('"').next().unwrap()
}

/// None for null.
fn number_field(json: &str, name: &str) -> Option<f64> {
    let text = field(json, name).split([',', '}', ']']).next().unwrap();
    (text != "null").then(|| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}
