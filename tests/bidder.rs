//! The C++ bidder over real HTTP. Exchanges and visitors retry, reorder, delay and forge notices. A model that counts
//! each notice once gives the expected results.
#![cfg(target_os = "linux")] // signals, /proc

use crate::support::http::{PATIENCE, Server, allow_many_files, answer, ask, check_framing, connect, send, wait};
use crate::support::{Link, build, empty_directory, have, have_header, root};
use dpb::{Random, Seed};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

static BIDDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let found = have("c++")
        && have_header("boost/beast/version.hpp", "libboost-dev")
        && have_header("nlohmann/json.hpp", "nlohmann-json3-dev")
        && have_header("sodium.h", "libsodium-dev");
    let arguments = ["-std=c++20", "-pthread", "-g0", "-Wl,--no-as-needed", "-lsodium"];
    found.then(|| build("c++", "examples/cpp/bidder.cpp", &arguments, Link::Static))
});

/// The bidder's command. None if it cannot be built.
fn command(options: &[&str]) -> Option<Command> {
    let mut command = Command::new(BIDDER.as_ref()?);
    command.args(["--port", "0", "--operator-port", "0"]).args(options);
    Some(command)
}

/// The server, and the operator's address.
fn start(options: &[&str]) -> Option<(Server, String)> {
    let mut server = Server::start(&mut command(options)?);
    let operator = server.next_address();
    Some((server, operator))
}

/// Starts it with options that it refuses. Returns its exit code and its output.
fn refused(options: &[&str]) -> Option<(Option<i32>, String)> {
    let mut process = command(options)?.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = wait(&mut process);
    let mut said = String::new();
    process.stderr.unwrap().read_to_string(&mut said).unwrap();
    Some((status.code(), said))
}

/// The values on a page of metrics, by `name{labels}`.
fn metrics(host: &str) -> HashMap<String, f64> {
    let (status, _, page) = send(host, "GET", "/metrics", "");
    assert_eq!(status, 200, "{page}");
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, x)| (name.to_owned(), x.parse().unwrap())).collect()
}

/// The creatives: width, height, category, advertiser, price, name.
const CREATIVES: [(u32, u32, &str, &str, f64, &str); 10] = [
    (300, 250, "IAB17", "bikes.example", 1.2, "mountain bike"),
    (300, 250, "IAB8", "coffee.example", 0.9, "espresso machine"),
    (300, 250, "IAB18", "outdoors.example", 0.8, "rain jacket"),
    (300, 250, "IAB9", "chess.example", 0.4, "chess lessons"),
    (728, 90, "IAB10", "garden.example", 0.7, "garden hose"),
    (728, 90, "IAB20", "trains.example", 1.1, "night train"),
    (728, 90, "IAB10", "lamps.example", 0.6, "reading lamp"),
    (320, 50, "IAB8", "kitchen.example", 0.3, "bread knife"),
    (320, 50, "IAB18", "outdoors.example", 0.5, "wool socks"),
    (320, 50, "IAB17", "outdoors.example", 0.75, "folding kayak"),
];

/// A request for one banner of this size.
fn request(width: u32, height: u32) -> Value {
    json!({"id": "r", "imp": [{"id": "1", "banner": {"w": width, "h": height}}]})
}

fn bid(host: &str, request: &Value) -> (u16, String) {
    let (status, _, answer) = send(host, "POST", "/bid", &request.to_string());
    (status, answer)
}

/// The notices of a bid, as paths.
const NOTICES: [&str; 3] = ["win", "impression", "click"];
const WIN: usize = 0;
const IMPRESSION: usize = 1;
const CLICK: usize = 2;
const PATHS: [&str; 3] = ["/win/", "/imp/", "/click/"];

/// The arm of each bid in a response, and its notices.
fn bids(answer: &str) -> Vec<(usize, [String; 3])> {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let path = |url: &str| format!("/{}", url.splitn(4, '/').nth(3).unwrap());
    let bids = answer["seatbid"][0]["bid"].as_array().unwrap().iter().map(|bid| {
        let markup = bid["adm"].as_str().unwrap();
        let click = markup.split('"').nth(1).unwrap();
        let notices = [bid["nurl"].as_str().unwrap(), bid["burl"].as_str().unwrap(), click].map(path);
        (bid["crid"].as_str().unwrap().parse().unwrap(), notices)
    });
    bids.collect()
}

#[test]
#[ignore = "half a minute, to compile the bidder"]
fn it_bids_with_creatives_that_fit() {
    let Some((server, _)) = start(&["--url", "https://bidder.example/b"]) else { return };
    let imp = |more: Value| {
        let mut imp = json!({"id": "slot \"1\" \u{e9}", "banner": {"w": 300, "h": 250}});
        imp.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"id": "r \\ \u{1f6b2}", "imp": [imp]})
    };
    let with = |mut request: Value, name: &str, value: Value| {
        request[name] = value;
        request
    };
    let any = imp(json!({}));
    let formats = json!([{"w": 1, "h": 1}, {"w": 320, "h": 50}, {"w": 728, "h": 90}]);
    for (request, eligible) in [
        (any.clone(), &[0, 1, 2, 3][..]),
        (imp(json!({"banner": {"format": formats, "w": 970, "h": 250}})), &[4, 5, 6, 7, 8, 9]),
        (imp(json!({"bidfloor": 0.9})), &[0, 1]),
        (imp(json!({"bidfloor": 0.9001, "bidfloorcur": "USD"})), &[0]),
        (imp(json!({"banner": {"w": 728, "h": 90}, "bidfloor": 1})), &[5]),
        (with(any.clone(), "bcat", json!(["IAB8", "IAB17", "IAB9"])), &[2]),
        (with(any.clone(), "badv", json!(["bikes.example", "coffee.example", "outdoors.example"])), &[3]),
        (with(imp(json!({"bidfloor": 0.5})), "bcat", json!(["IAB17", "IAB18"])), &[1]),
        (with(any.clone(), "cur", json!(["EUR", "USD"])), &[0, 1, 2, 3]),
        (with(any.clone(), "badv", json!(["Bikes.EXAMPLE.", "coffee.example", "OUTDOORS.example"])), &[3]),
        (with(any.clone(), "acat", json!(["IAB8", "IAB10", "iab9"])), &[1, 3]),
        (with(any.clone(), "tmax", json!(60_000)), &[0, 1, 2, 3]),
        (imp(json!({"secure": 1})), &[0, 1, 2, 3]), // the URL is https
        (imp(json!({"pmp": {"private_auction": 0, "deals": [{"id": "d", "bidfloor": 9}]}})), &[0, 1, 2, 3]),
        (with(any.clone(), "ext", json!({"unknown": [[[]]]})), &[0, 1, 2, 3]),
        // No creative fits.
        (imp(json!({"banner": {"w": 250, "h": 300}})), &[]),
        (imp(json!({"bidfloor": 1.21})), &[]),
        (imp(json!({"bidfloorcur": "EUR"})), &[]),
        (with(any.clone(), "cur", json!(["EUR"])), &[]),
        (with(any.clone(), "bcat", json!(["IAB8", "IAB17", "IAB9", "IAB18"])), &[]),
        (json!({"id": "r", "imp": [{"id": "1", "video": {"w": 300, "h": 250}}]}), &[]),
    ] {
        let (status, answer) = bid(server.host(), &request);
        if eligible.is_empty() {
            assert_eq!((status, answer.as_str()), (204, ""), "{request}");
            continue;
        }
        assert_eq!(status, 200, "{request}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let bid = &answer["seatbid"][0]["bid"][0];
        assert_eq!(answer["seatbid"], json!([{"bid": [bid]}]));
        assert_eq!(
            [&answer["id"], &answer["cur"], &bid["impid"]],
            [&request["id"], &json!("USD"), &request["imp"][0]["id"]]
        );
        let arm: usize = bid["crid"].as_str().unwrap().parse().unwrap();
        assert!(eligible.contains(&arm), "{request}: {arm}");
        let (width, height, category, advertiser, price, name) = CREATIVES[arm];
        let offer =
            json!({"w": width, "h": height, "cat": [category], "adomain": [advertiser], "price": price, "mtype": 1});
        offer.as_object().unwrap().iter().for_each(|(name, value)| assert_eq!(&bid[name], value, "{name}"));
        for (url, path) in [(&bid["nurl"], "/win/"), (&bid["burl"], "/imp/")] {
            assert!(url.as_str().unwrap().starts_with(&format!("https://bidder.example/b{path}")), "{url}");
        }
        let markup = bid["adm"].as_str().unwrap();
        assert!(markup.starts_with("<a href=\"https://bidder.example/b/click/"), "{markup}");
        assert!(markup.ends_with(&format!("\">{name}</a>")), "{markup}");
    }

    // Several slots: bids for those that a creative fits, and for at most 16.
    let banners = [json!({"w": 728, "h": 90}), json!({})];
    let slot = |i: usize| json!({"id": i.to_string(), "banner": banners[i % 2]});
    let many: Vec<Value> = (0..40).map(slot).collect();
    let (_, answer) = bid(server.host(), &json!({"id": "r", "imp": many}));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let slots = answer["seatbid"][0]["bid"].as_array().unwrap().iter().map(|bid| bid["impid"].as_str().unwrap());
    assert_eq!(slots.collect::<Vec<_>>(), (0..16).map(|i| (2 * i).to_string()).collect::<Vec<_>>());
}

#[test]
#[ignore = "half a minute, to compile the bidder"]
fn an_invalid_bid_request_is_refused_and_changes_nothing() {
    let Some((server, operator)) = start(&[]) else { return };
    let deep = format!("{{\"id\":{}", "[".repeat(60_000));
    let good = request(300, 250).to_string();
    let malformed = [
        "",
        "{",
        "null",
        "7",
        "[]",
        "{}",
        r#"{"id":"r"}"#,
        r#"{"imp":[]}"#,
        r#"{"id":7,"imp":[]}"#,
        r#"{"id":"r","imp":7}"#,
        r#"{"id":"r","imp":[7]}"#,
        r#"{"id":"r","imp":[{"banner":{}}]}"#,
        r#"{"id":"r","imp":[{"id":"1","banner":7}]}"#,
        r#"{"id":"r","imp":[{"id":"1","banner":{"w":"300"}}]}"#,
        r#"{"id":"r","imp":[],"tmax":"soon"}"#,
        r#"{"id":"r","id":"r","imp":[{"id":"1","banner":{"w":300,"h":250}}]}"#,
        r#"{"id":"r","bcat":["IAB8"],"imp":[{"id":"1","banner":{"w":300,"h":250}}],"bcat":[]}"#,
        r#"{"id":"r","imp":[{"id":"1","banner":{"w":300,"h":250,"w":320}}]}"#,
        r#"{"id":"r","imp":[{"id":"1","banner":{"w":300,"h":250}}],"ext":[{"a":{"b":1,"c":2,"b":1}}]}"#,
        r#"{"id":"r","imp":[{"id":"1","banner":{"w":1e999}}]}"#,
        "{\"id\":\"\u{1}\",\"imp\":[]}",
        &deep,
        &good[1..],
    ];
    for body in malformed {
        let (status, _, answer) = send(server.host(), "POST", "/bid", body);
        assert_eq!(status, 400, "{}: {answer}", &body[..body.len().min(100)]);
        assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["error"], "bad_request");
    }
    let mut connection = server.connect(); // not UTF-8
    connection.write_all(b"POST /bid HTTP/1.0\r\nContent-Length: 18\r\n\r\n{\"id\":\"\xff\",\"imp\":[]").unwrap();
    assert!(answer_to(connection).starts_with("HTTP/1.0 400 "));

    for (method, path, status, allow) in [
        ("GET", "/bid", 405, "allow: post"),
        ("PUT", "/bid", 405, "allow: post"),
        ("POST", "/click/x", 405, "allow: get"),
        ("HEAD", "/imp/x", 405, "allow: get"),
        ("POST", "/metrics", 405, "allow: get"),
        ("GET", "/", 404, ""),
        ("GET", "/bid/", 404, ""),
        ("GET", "/click", 404, ""),
        ("GET", "/imp/x", 413, ""),
        ("GET", "/metrics", 413, ""),
    ] {
        let (got, head, body) = send(server.host(), method, path, if status == 413 { "x" } else { "" });
        assert!(got == status && head.contains(allow), "{method} {path}: {head}{body}");
    }
    assert_eq!(send(&operator, "POST", "/bid", &good).0, 405, "exchanges go elsewhere");
    let counts = metrics(&operator);
    assert_eq!(counts["dpb_decisions_total{bandit=\"creatives\"}"], 0.0);
    assert_eq!(counts["bidder_responses_total{response=\"refused\"}"], malformed.len() as f64 + 1.0);
    assert_eq!(bid(server.host(), &request(300, 250)).0, 200);

    for (options, code, says) in [
        (&["--shown-within", "8", "--clicked-within", "8"][..], 2, "must be longer than --shown-within"),
        (&["--shown-within", "0"], 2, "--shown-within must be at least 1"),
        (&["--clicked-within", "-1"], 2, "--clicked-within must be a number of decisions, or a time"),
        (&["--epsilon", "one"], 2, "--epsilon must be a number, got \"one\""),
        (&["--nothing", "1"], 2, "there is no option --nothing"),
        (&["--epsilon", "0"], 1, "epsilon must be"),
        (&["--clicked-within", "99999999"], 1, "reward_window must be at most 2^24"),
        (&["--shown-within", "10s"], 2, "and of the same kind"),
        (&["--shown-within", "10m", "--clicked-within", "600s"], 2, "must be longer than"),
        (&["--policy", "dp-se"], 1, "dp-se cannot choose among the creatives that fit"),
        (&["--port", server.host().split(':').nth(1).unwrap()], 1, server.host()),
    ] {
        let (got, said) = refused(options).unwrap();
        assert!(got == Some(code) && said.contains(says), "{options:?}: {got:?} {said}");
        assert!(code == 1 || said.contains("usage: bidder"), "{options:?}: {said}");
    }
}

/// The table of OpenRTB's fields on the bidder's page: each field absent, null and with each value of its row, in a
/// request that is otherwise bid on.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn it_answers_each_field_as_its_table_says() {
    let page = fs::read_to_string(root().join("examples/cpp/bidder.md")).unwrap();
    let table = page.split_once("| field of OpenRTB 2.6 |").unwrap().1.split("\n\n").next().unwrap();
    let usual = json!({"id": "r", "imp": [{"id": "1", "banner": {"w": 300, "h": 250}}], "bcat": ["IAB1"]});
    let code = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut cases = vec![("nothing else".to_owned(), usual.clone(), "bid".to_owned())];
    for row in table.lines().skip(2) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [fields, _, absent, values] = cells[..] else { panic!("{row}") };
        for path in code(fields) {
            let with = |value: Option<Value>| {
                let (mut request, (above, name)) = (usual.clone(), path.rsplit_once('.').unwrap_or(("", &path)));
                let object = above.split('.').filter(|name| !name.is_empty()).fold(&mut request, |object, name| {
                    let inner = &mut object[name];
                    if inner.is_array() { &mut inner[0] } else { inner }
                });
                match value {
                    Some(value) => object[name] = value,
                    None => drop(object.as_object_mut().map(|object| object.remove(name))),
                }
                request
            };
            cases.push((format!("no {path}"), with(None), absent.to_owned()));
            cases.push((format!("{path} null"), with(Some(Value::Null)), absent.to_owned()));
            for item in values.split("; ") {
                let (listed, answer) = item.rsplit_once("`: ").unwrap_or_else(|| panic!("{item}"));
                for value in code(&format!("{listed}`")) {
                    let parsed = serde_json::from_str(&value).unwrap_or_else(|_| panic!("{value}"));
                    cases.push((format!("{path} {value}"), with(Some(parsed)), answer.to_owned()));
                }
            }
        }
    }
    assert!(cases.len() > 200, "{} cases", cases.len());
    for options in [&[][..], &["--context"]] {
        let Some((server, operator)) = start(options) else { return };
        let wrong = cases.iter().filter_map(|(name, request, expected)| {
            let (status, body) = bid(server.host(), request);
            let got = match status {
                200 => "bid".to_owned(),
                204 => "no bid".to_owned(),
                _ => status.to_string(),
            };
            (got != *expected).then(|| format!("{name}: {got}, not {expected} {body}"))
        });
        let wrong = wrong.collect::<Vec<_>>();
        assert!(wrong.is_empty(), "{options:?}\n{}", wrong.join("\n"));
        let bids = cases.iter().filter(|(_, _, expected)| expected == "bid").count();
        let late = 1; // tmax
        let decisions = metrics(&operator)["dpb_decisions_total{bandit=\"creatives\"}"];
        assert_eq!(decisions, (bids + late) as f64, "a refused request changed something");
    }
}

#[test]
#[ignore = "half a minute, to compile the bidder"]
fn it_accepts_valid_requests_only() {
    let Some((server, operator)) = start(&[]) else { return };
    check_framing(server.host(), true);
    assert_eq!(metrics(&operator)["dpb_decisions_total{bandit=\"creatives\"}"], 0.0);
}

/// At SIGTERM, requests whose bodies are under way get their responses, and an idle connection closes. The server's
/// clock stands still, so that its time for them does not end.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn requests_under_way_are_finished_at_the_end() {
    let Some(mut command) = command(&[]) else { return };
    let still = build("cc", "tests/support/still.c", &["-shared", "-fPIC"], Link::Static);
    let server = Server::start(command.env("LD_PRELOAD", still));
    let body = request(300, 250).to_string();
    let (begun, rest) = body.split_at(10);
    let mut idle = BufReader::new(server.connect());
    assert_eq!(ask(&mut idle, "GET", "/healthz", "").unwrap().0, 200);
    let under_way = (0..64).map(|_| {
        let mut connection = BufReader::new(server.connect());
        let head = format!("Host: x\r\nExpect: 100-continue\r\nContent-Length: {}", body.len());
        write!(connection.get_mut(), "POST /bid HTTP/1.1\r\n{head}\r\n\r\n{begun}").unwrap();
        assert_eq!(answer(&mut connection).unwrap().0, 100, "it reads the body");
        connection
    });
    let mut under_way: Vec<_> = under_way.collect();
    server.signal(libc::SIGSTOP); // the signal and the bodies come at once
    server.signal(libc::SIGTERM);
    under_way.iter_mut().for_each(|connection| connection.get_mut().write_all(rest.as_bytes()).unwrap());
    server.signal(libc::SIGCONT);
    for connection in &mut under_way {
        let (status, head, body) = answer(connection).expect("a response");
        assert!(status == 200 && body.contains("seatbid"), "{head}{body}");
        assert!(answer(connection).is_none(), "it closes");
    }
    assert!(answer(&mut idle).is_none());
    let (status, said) = server.wait();
    assert!(status.code() == Some(0) && said.ends_with("stopped\n"), "{status} {said}");
}

/// With windows of time, the bidder cancels a bid that was not shown, and a missing click becomes reward 0, without
/// further bids.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn windows_of_time_end_without_traffic() {
    let options = ["--shown-within", "1s", "--clicked-within", "3s"];
    let Some((server, operator)) = start(&options) else { return };
    let (_, shown) = bids(&bid(server.host(), &request(300, 250)).1).remove(0);
    bid(server.host(), &request(300, 250));
    assert_eq!(send(server.host(), "GET", &shown[IMPRESSION], "").0, 204);
    let begun = Instant::now();
    let count = |name: &str| metrics(&operator)[&format!("dpb_{name}_total{{bandit=\"creatives\"}}")];
    while count("answered") != 1.0 {
        assert!(begun.elapsed().as_secs() < 30, "{:?}", metrics(&operator));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed().as_secs() >= 2 && count("cancelled") == 1.0, "{:?}", metrics(&operator));
    assert_eq!(send(server.host(), "GET", &shown[CLICK], "").0, 204);
    assert_eq!(metrics(&operator)["dpb_late_total{bandit=\"creatives\"}"], 1.0);
}

/// For a while the machine's clock is a year ahead. Afterwards a bid that is not shown is cancelled in time again.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn a_clock_that_was_wrong_stops_nothing() {
    let Some(mut command) = command(&["--shown-within", "1s", "--clicked-within", "1h"]) else { return };
    let place = empty_directory("bidder", "clock");
    let [ahead, later] = ["ahead", "later"].map(|name| place.join(name));
    let set = |seconds: &str| {
        fs::write(&later, seconds).unwrap();
        fs::rename(&later, &ahead).unwrap();
    };
    set("0");
    let clock = build("cc", "tests/support/clock.c", &["-shared", "-fPIC"], Link::Static);
    let mut server = Server::start(command.env("LD_PRELOAD", clock).env("DPB_CLOCK", &ahead));
    let operator = server.next_address();
    let cancelled = || metrics(&operator)["dpb_cancelled_total{bandit=\"creatives\"}"];
    for (bids, seconds) in ["0", "31536000", "0", "-31536000", "0"].into_iter().enumerate() {
        set(seconds);
        assert_eq!(bid(server.host(), &request(300, 250)).0, 200);
        let end = Instant::now() + PATIENCE;
        while cancelled() <= bids as f64 {
            assert!(Instant::now() < end, "the clock is {seconds} s ahead: {} of {} cancelled", cancelled(), bids + 1);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert_eq!(metrics(&operator)["dpb_clock_leaps_total{bandit=\"creatives\"}"], 2.0); // two steps back
}

/// Reads until the other side closes.
fn answer_to(mut connection: TcpStream) -> String {
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// One decision in the model.
struct Bid {
    arm: usize,
    paths: [String; 3],
    heard: [bool; 3],
}

/// The decisions so far; None for those whose response came too late.
#[derive(Default)]
struct Model {
    bids: Vec<Option<Bid>>,
    /// For each notice, how often it was valid, duplicate, late, forged.
    fates: [[u64; 4]; 3],
    impressions: [u64; 10],
}

const FATES: [&str; 4] = ["believed", "duplicate", "late", "forged"];
const SHOWN_WITHIN: usize = 200;
const CLICKED_WITHIN: usize = 600;

impl Model {
    /// The number of decisions after this one.
    fn later(&self, bid: usize) -> usize {
        self.bids.len() - bid - 1
    }

    fn hear(&mut self, number: usize, notice: usize) {
        let later = self.later(number);
        let bid = self.bids[number].as_mut().unwrap();
        let taken_back = later >= SHOWN_WITHIN && !bid.heard[IMPRESSION];
        let fate = match notice {
            CLICK if later >= CLICKED_WITHIN => 2,
            CLICK => usize::from(taken_back || bid.heard[CLICK]),
            _ if later >= SHOWN_WITHIN => 2,
            _ => usize::from(bid.heard[notice]),
        };
        bid.heard[notice] |= fate == 0;
        self.fates[notice][fate] += 1;
        self.impressions[bid.arm] += u64::from(notice == IMPRESSION && fate == 0);
    }

    /// Compares all values on both pages with the model. Returns how many rewards were released.
    fn check(&self, server: &Server, operator: &str) -> usize {
        let (mut answered, mut cancelled, mut pulls) = (0, 0, [0; 10]);
        let mut answers: [Vec<bool>; 10] = Default::default();
        for (number, bid) in self.bids.iter().enumerate() {
            match bid {
                Some(bid) if bid.heard[IMPRESSION] || self.later(number) < SHOWN_WITHIN => {
                    pulls[bid.arm] += 1;
                    if self.later(number) >= CLICKED_WITHIN {
                        answered += 1;
                        answers[bid.arm].push(bid.heard[CLICK]);
                    }
                }
                _ => cancelled += 1,
            }
        }
        let of_arms = |name: &str, arm: usize| format!("dpb_arm_{name}{{bandit=\"creatives\",arm=\"{arm}\"}}");
        let decisions = self.bids.len();
        let mut expected: BTreeMap<String, u64> = [
            ("decisions_total", decisions as u64),
            ("answered_total", answered),
            ("cancelled_total", cancelled),
            ("pending", decisions as u64 - answered - cancelled),
            ("expired_total", 0),
            ("duplicates_total", self.fates[CLICK][1]),
            ("late_total", self.fates[CLICK][2]),
            ("unknown_total", 0),
        ]
        .map(|(name, count)| (format!("dpb_{name}{{bandit=\"creatives\"}}"), count))
        .into();
        for (notice, counts) in NOTICES.iter().zip(self.fates) {
            for (fate, count) in FATES.iter().zip(counts).filter(|(fate, _)| *notice != "click" || **fate == "forged") {
                expected.insert(format!("bidder_notices_total{{notice=\"{notice}\",fate=\"{fate}\"}}"), count);
            }
        }
        for (arm, creative) in CREATIVES.iter().enumerate() {
            expected.insert(of_arms("pulls", arm), pulls[arm]);
            let name = format!("bidder_impressions_total{{creative=\"{}\"}}", creative.5);
            expected.insert(name, self.impressions[arm]);
        }
        let (public, page) = (server.get("/metrics").1, metrics(operator));
        for (name, count) in expected {
            assert_eq!(page[&name], count as f64, "{name} after {decisions} decisions");
        }
        assert!(!public.contains("duplicates") && !public.contains("bidder"), "{public}");

        // The releases of an arm contain its first rewards, each once, and at least a quarter of them, because no batch
        // is larger than three times all earlier releases. At epsilon 16384 the noise is small enough to read the sum.
        let mut released = 0;
        for (arm, answers) in answers.iter().enumerate() {
            let (n, mean) = (page[&of_arms("effective_pulls", arm)] as usize, page[&of_arms("mean", arm)]);
            assert!(n <= answers.len() && answers.len() - n <= usize::max(1, 3 * n), "arm {arm}: {n} of {answers:?}");
            let clicks = answers[..n].iter().filter(|clicked| **clicked).count() as f64;
            let sum = mean * n as f64;
            assert!(n == 0 || (sum - clicks).abs() < 0.3, "arm {arm}: {sum}, not {clicks} clicks");
            released += n;
        }
        released
    }
}

/// A token that this bidder did not issue.
fn forged(model: &Model, stranger: &[String; 3], random: &mut Random) -> (usize, String) {
    let mut below = |n: usize| random.below(n as u64) as usize;
    let (notice, way, long) = (below(3), below(10), below(300));
    let (bid, path) = (below(model.bids.len()), PATHS[notice]);
    let genuine = model.bids[bid].as_ref().map_or(stranger, |bid| &bid.paths);
    let token = &genuine[notice][path.len()..];
    // Alters the ticket, creative, notice or proof: 6 bits a letter.
    let mut altered = |from: usize, to: usize| {
        let at = from + below(to - from);
        let other = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
        format!("{}{other}{}", &token[..at], &token[at + 1..])
    };
    let forged = match way {
        0 => altered(0, 10),
        1 => altered(11, 16),
        2 => altered(16, 17),
        3 => altered(18, token.len()),
        4 => stranger[notice][path.len()..].to_owned(),
        5 => genuine[(notice + 1) % 3].rsplit('/').next().unwrap().to_owned(),
        6 => token[..token.len() - 1].to_owned(),
        7 => format!("{token}A"),
        8 => "%00/../".repeat(long),
        _ => String::new(),
    };
    (notice, format!("{path}{forged}"))
}

/// Days of an exchange, in rounds. The bids of a round come one after the other, so their order is known. Then the due
/// notices come on several connections at once, in any order, because none depends on another.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn each_notice_counts_once() {
    const ROUND: usize = 50;
    const ROUNDS: usize = 120;
    let options = ["--epsilon", "16384", "--shown-within", "200", "--clicked-within", "600"];
    let (Some((server, operator)), Some((other, _))) = (start(&options), start(&options)) else { return };
    let stranger = bids(&bid(other.host(), &request(300, 250)).1).remove(0).1;
    let mut random = Seed::new(Some([7; 32])).unwrap().stream();
    let mut exchange = BufReader::new(server.connect());
    let mut crowd: Vec<_> = (0..4).map(|_| BufReader::new(server.connect())).collect();
    let mut model = Model::default();
    let mut due: Vec<Vec<(usize, usize)>> = vec![Vec::new(); ROUNDS + 20];
    let mut first = None;
    let mut check = |told: (u16, String, String)| {
        assert_eq!(first.get_or_insert_with(|| told.clone()), &told, "one and the same answer for all");
    };
    for round in 0..ROUNDS {
        for _ in 0..ROUND {
            let mut below = |n: usize| random.below(n as u64) as usize;
            let (width, height) = [(300, 250), (728, 90), (320, 50)][below(3)];
            let mut asked = request(width, height);
            // In the last rounds nothing is shown, so that all earlier windows end.
            let fate = if round < ROUNDS - CLICKED_WITHIN / ROUND { below(100) } else { 99 };
            asked["tmax"] = json!(if fate == 0 { 1 } else { 60_000 });
            let (status, _, answer) = ask(&mut exchange, "POST", "/bid", &asked.to_string()).unwrap();
            let number = model.bids.len();
            if fate == 0 {
                assert_eq!((status, answer.as_str()), (204, ""));
                model.bids.push(None);
                continue;
            }
            assert_eq!(status, 200);
            let (arm, paths) = bids(&answer).remove(0);
            assert_eq!((CREATIVES[arm].0, CREATIVES[arm].1), (width, height));
            model.bids.push(Some(Bid { arm, paths, heard: [false; 3] }));

            let clicked = below(20) < 2 + arm;
            let mut send = |notice: usize, after: usize, copies: usize| {
                (0..copies).for_each(|_| due[round + below(after)].push((number, notice)));
            };
            match fate {
                // Clicked but never shown.
                1..=5 => send(CLICK, 15, 2),
                // Shown to a visitor with a slow network, which repeats all notices.
                6..=20 => [WIN, IMPRESSION, CLICK].into_iter().for_each(|notice| send(notice, 15, 3)),
                21..=58 => {
                    send(WIN, 2, 1);
                    send(IMPRESSION, 3, 1);
                    send(CLICK, 11, usize::from(clicked));
                }
                _ => {} // lost
            }
        }

        // Each notice comes once or twice, and one in a hundred is followed by a forged one.
        let mut notices = Vec::new();
        for (number, notice) in std::mem::take(&mut due[round]) {
            let copies = if random.below(10) == 0 { 2 } else { 1 };
            for _ in 0..copies {
                notices.push(model.bids[number].as_ref().unwrap().paths[notice].clone());
                model.hear(number, notice);
                if random.below(100) == 0 {
                    let (notice, path) = forged(&model, &stranger, &mut random);
                    notices.push(path);
                    model.fates[notice][3] += 1;
                }
            }
        }
        for i in (1..notices.len()).rev() {
            notices.swap(i, random.below(i as u64 + 1) as usize);
        }
        let share = notices.len().div_ceil(crowd.len()).max(1);
        let told: Vec<_> = std::thread::scope(|scope| {
            let shares = crowd.iter_mut().zip(notices.chunks(share));
            let visitors: Vec<_> = shares
                .map(|(connection, paths)| {
                    scope.spawn(|| {
                        paths.iter().map(|path| ask(connection, "GET", path, "").unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            visitors.into_iter().flat_map(|visitor| visitor.join().unwrap()).collect()
        });
        told.into_iter().for_each(&mut check);
        if round % 20 == 19 {
            model.check(&server, &operator);
        }
    }
    let released = model.check(&server, &operator);
    println!("{:?}; {released} answers released", model.fates);
    assert!(model.fates.as_flattened().iter().all(|count| *count > 0), "this tells too little: {:?}", model.fates);
}

/// Until the times for a bid's impression and click are over, and after it, all public pages are the same whether it
/// was clicked or shown, or not.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn no_page_reveals_a_click_before_its_release() {
    let options = ["--shown-within", "5", "--clicked-within", "1000"];
    let (Some((clicked, _)), Some((silent, _))) = (start(&options), start(&options)) else { return };
    let mut asked = request(300, 250);
    asked["bcat"] = json!(["IAB8", "IAB9", "IAB18"]); // one creative remains
    for number in 0..20 {
        for (server, is_clicked) in [(&clicked, true), (&silent, false)] {
            let (_, paths) = bids(&bid(server.host(), &asked).1).remove(0);
            let is_shown = number % 2 == 0;
            for (notice, is_sent) in [(CLICK, is_clicked), (IMPRESSION, is_shown), (CLICK, is_clicked)] {
                assert!(!is_sent || server.get(&paths[notice]) == (204, String::new()));
            }
        }
        for path in ["/metrics", "/privacy", "/privacy.json"] {
            assert_eq!(clicked.get(path), silent.get(path), "{path} after {number} more");
        }
    }
    let page = metrics(clicked.host());
    assert_eq!(page["dpb_cancelled_total{bandit=\"creatives\"}"], 7.0, "not shown, and five bids ago or more");
    assert!(clicked.get("/privacy").1.contains("\nNot protected: "));
    let stated: Value = serde_json::from_str(&clicked.get("/privacy.json").1).unwrap();
    assert_eq!(stated[0]["libdpb"]["is_private"], true);
}

/// Visitors with each device click one creative. Countries, sites and placements vary without effect.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn context_wins_clicks_where_devices_differ() {
    const BIDS: usize = 12_000;
    const DEVICES: [u32; 4] = [1, 2, 4, 5];
    let clicks = |options: &[&str]| -> Option<[u32; 2]> {
        let windows = ["--epsilon", "4", "--shown-within", "20", "--clicked-within", "50"];
        let (server, operator) = start(&[&windows[..], options].concat())?;
        let mut random = Seed::new(Some([11; 32])).unwrap().stream();
        let mut connection = BufReader::new(server.connect());
        let mut clicks = [0, 0];
        for number in 0..BIDS {
            let device = random.below(4) as usize;
            let country = ["DEU", "FRA", "POL"][random.below(3) as usize];
            let category = ["IAB1", "IAB12"][random.below(2) as usize];
            let mut asked = request(300, 250);
            let geo = json!({"country": country, "utcoffset": 60});
            asked["device"] = json!({"devicetype": DEVICES[device], "geo": geo});
            asked["site"] = json!({"cat": [category]});
            asked["imp"][0]["tagid"] = json!(random.below(5).to_string());
            let (status, _, answer) = ask(&mut connection, "POST", "/bid", &asked.to_string()).unwrap();
            assert_eq!(status, 200, "{answer}");
            let (creative, paths) = bids(&answer).remove(0);
            let is_clicked = random.unit() < if creative == device { 0.4 } else { 0.05 };
            assert_eq!(ask(&mut connection, "GET", &paths[IMPRESSION], "").unwrap().0, 204);
            if is_clicked {
                assert_eq!(ask(&mut connection, "GET", &paths[CLICK], "").unwrap().0, 204);
                clicks[2 * number / BIDS] += 1;
            }
        }
        let page = metrics(&operator);
        assert_eq!(page["dpb_decisions_total{bandit=\"creatives\"}"], BIDS as f64);
        assert_eq!(page["dpb_epsilon_spent{bandit=\"creatives\"}"], 4.0);
        Some(clicks)
    };
    let (Some(with), Some(without)) = (clicks(&["--context"]), clicks(&[])) else { return };
    println!("clicks in the first half and the second: {with:?} with context, {without:?} without");
    // Showing what the device's visitors like wins 2400 in each half, and the best creative for all devices 825.
    assert!(with[1] > 1500 && without[1] < 1100 && with[0] + with[1] > without[0] + without[1]);
}

/// The creative that is clicked most is worth the least. With `--values` clicks are fewer, and worth more.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn values_win_what_clicks_are_worth() {
    const BIDS: usize = 4000;
    let worth = |options: &[&str]| -> Option<f64> {
        let windows = ["--epsilon", "4", "--shown-within", "20", "--clicked-within", "50"];
        let (server, _) = start(&[&windows[..], options].concat())?;
        let mut random = Seed::new(Some([12; 32])).unwrap().stream();
        let mut connection = BufReader::new(server.connect());
        let mut worth = 0.0;
        for _ in 0..BIDS {
            let (_, _, answer) = ask(&mut connection, "POST", "/bid", &request(300, 250).to_string()).unwrap();
            let (creative, paths) = bids(&answer).remove(0);
            assert_eq!(ask(&mut connection, "GET", &paths[IMPRESSION], "").unwrap().0, 204);
            if random.unit() < [0.4, 0.1, 0.1, 0.1][creative] {
                assert_eq!(ask(&mut connection, "GET", &paths[CLICK], "").unwrap().0, 204);
                worth += [0.2, 0.6, 0.3, 2.0][creative];
            }
        }
        Some(worth)
    };
    let (Some(with), Some(without)) = (worth(&["--values"]), worth(&[])) else { return };
    println!("{with:.0} with values, {without:.0} without");
    // The dearest creative is worth 0.2 a bid, the one with the most clicks 0.08.
    assert!(with > 500.0 && without < 450.0, "{with} {without}");
    let Some((code, said)) = refused(&["--values", "--policy", "dp-tt"]) else { return };
    assert!(code == Some(1) && said.contains("dp-tt cannot play for what clicks are worth"), "{code:?} {said}");
}

/// Features come from the request. A field of a wrong type is refused. A missing field is a value like any other.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn a_context_that_is_malformed_is_refused() {
    let Some((server, operator)) = start(&["--context"]) else { return };
    let with = |name: &str, value: Value| {
        let mut asked = request(300, 250);
        asked[name] = value;
        asked
    };
    for asked in [
        request(300, 250),
        with("device", json!({})),
        with("device", json!({"devicetype": 4, "geo": {"country": "\u{0}", "utcoffset": -720}})),
        with("app", json!({"cat": ["IAB1", "IAB2"]})),
        with("site", json!({"cat": []})),
    ] {
        assert_eq!(bid(server.host(), &asked).0, 200, "{asked}");
    }
    let malformed = [
        with("device", json!(7)),
        with("device", json!({"devicetype": "phone"})),
        with("device", json!({"geo": {"country": 7}})),
        with("device", json!({"geo": []})),
        with("site", json!({"cat": [7]})),
        with("app", json!({"cat": ["IAB1", 7]})),
        with("site", json!({"cat": 7})),
        with("imp", json!([{"id": "1", "tagid": 7, "banner": {"w": 300, "h": 250}}])),
    ];
    for asked in malformed {
        assert_eq!(bid(server.host(), &asked).0, 400, "{asked}");
    }
    assert_eq!(metrics(&operator)["dpb_decisions_total{bandit=\"creatives\"}"], 5.0);
    let (code, said) = refused(&["--context", "--policy", "dp-imed"]).unwrap();
    assert_eq!(code, Some(1), "{said}");
}

/// A late bid is not sent, and the bandit learns nothing from it.
#[test]
#[ignore = "ten seconds"]
fn no_bid_is_sent_too_late() {
    let Some((server, operator)) = start(&[]) else { return };
    let mut asked = request(300, 250);
    // The network's delay takes up the whole limit.
    asked["tmax"] = json!(5);
    assert_eq!(bid(server.host(), &asked), (204, String::new()));
    assert_eq!(metrics(&operator)["dpb_cancelled_total{bandit=\"creatives\"}"], 1.0);

    // A body that arrives more slowly than the limit. The test does not know when the server read the header, so it
    // repeats with longer delays.
    asked["tmax"] = json!(1000);
    let (body, mut pause) = (asked.to_string(), Duration::from_millis(1500));
    loop {
        let mut connection = server.connect();
        let head = format!("POST /bid HTTP/1.1\r\nHost: slow\r\nConnection: close\r\nContent-Length: {}", body.len());
        write!(connection, "{head}\r\n\r\n").unwrap();
        std::thread::sleep(pause);
        connection.write_all(body.as_bytes()).unwrap();
        let answer = answer_to(connection);
        if answer.starts_with("HTTP/1.1 204 ") {
            break;
        }
        assert!(answer.starts_with("HTTP/1.1 200 ") && pause < Duration::from_secs(8), "{pause:?}: {answer}");
        pause *= 2;
    }
    let page = metrics(&operator);
    assert_eq!(page["bidder_responses_total{response=\"too_late\"}"], 2.0);
    assert_eq!(page["dpb_cancelled_total{bandit=\"creatives\"}"], 2.0);
    let pulls: f64 = (0..10).map(|arm| page[&format!("dpb_arm_pulls{{bandit=\"creatives\",arm=\"{arm}\"}}")]).sum();
    assert_eq!(pulls, page["bidder_responses_total{response=\"bid\"}"]);
}

/// The server does not trust a declared length, and keeps no more than a request may have. A client that sends half a
/// body blocks nobody else, and is disconnected.
#[test]
#[ignore = "a visitor's ten seconds"]
fn bodies_of_any_length_and_slowness_are_withstood() {
    const MAX: usize = 64 << 10;
    allow_many_files();
    let Some((server, operator)) = start(&[]) else { return };
    let good = request(300, 250).to_string();
    let padded = |length: usize| format!("{good}{}", " ".repeat(length - good.len()));
    assert_eq!(send(server.host(), "POST", "/bid", &padded(MAX)).0, 200);
    let answers = |head: &str, body: &str| {
        let mut connection = server.connect();
        let request = format!("POST /bid HTTP/1.1\r\nHost: long\r\nConnection: close\r\n{head}\r\n\r\n{body}");
        connection.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(connection).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let chunks = |body: &str, end: &str| format!("{:x}\r\n{body}\r\n{end}", body.len());
    assert_eq!(answers("Transfer-Encoding: chunked", &chunks(&good, "0\r\n\r\n")), "200");
    assert_eq!(answers("Transfer-Encoding: chunked", &chunks(&padded(MAX), "0\r\n\r\n")), "200");
    // A body that is announced and never sent.
    assert_eq!(answers(&format!("Content-Length: {}", MAX + 1), ""), "413");
    assert_eq!(answers("Content-Length: 18446744073709551615", ""), "413");
    assert_eq!(answers("Transfer-Encoding: chunked", "10001\r\n"), "413");
    assert_eq!(answers("Transfer-Encoding: chunked", "ffffffffffffffff\r\n"), "413");
    assert_eq!(answers("Transfer-Encoding: chunked", &chunks(&padded(MAX), "1\r\n")), "413");

    let memory = server.status("VmHWM");
    let mut connection = server.connect();
    connection.write_all(b"POST /bid HTTP/1.1\r\nHost: long\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let piece = chunks(&"x".repeat(1000), "");
    let _ = (0..1 << 20).try_for_each(|_| connection.write_all(piece.as_bytes())); // a gigabyte
    let grown = server.status("VmHWM").saturating_sub(memory); // the kernel's counts are approximate
    assert!(grown < 16 << 10, "{grown} kB more memory");

    let mut half: Vec<_> = (0..1000).map(|_| server.connect()).collect();
    let begun = format!("POST /bid HTTP/1.1\r\nHost: half\r\nContent-Length: {MAX}\r\n\r\n{{");
    for connection in &mut half {
        let _ = connection.write_all(begun.as_bytes()); // the server may have disconnected the first by now
    }
    for _ in 0..20 {
        assert_eq!(bid(server.host(), &request(300, 250)).0, 200);
    }
    assert!(server.status("Threads") < 100, "{} threads", server.status("Threads"));
    for mut connection in half {
        let mut rest = Vec::new();
        let told = connection.read_to_end(&mut rest).map_err(|error| error.kind());
        assert!(rest.is_empty() && !told.is_err_and(|error| error == ErrorKind::WouldBlock), "waited for, for ever");
    }
    assert_eq!(metrics(&operator)["bidder_responses_total{response=\"bid\"}"], 23.0);
}

/// The bidder ends under load, without partial responses. After a restart it has the earlier releases, and refuses the
/// earlier tickets.
#[test]
#[ignore = "ten seconds"]
fn it_ends_cleanly_under_load_and_continues_from_its_snapshot() {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bidder-{}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir(&place).unwrap();
    let file = place.join("snapshot");
    let options = ["--shown-within", "100", "--clicked-within", "200", "--snapshot", file.to_str().unwrap()];
    let Some((server, _)) = start(&options) else { return };
    let (host, asked) = (server.host().to_owned(), request(300, 250).to_string());
    let old = bids(&bid(&host, &request(300, 250)).1).remove(0).1;
    let answers = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let exchange = || {
            let mut connection = BufReader::new(connect(&host));
            while let Some((status, _, answer)) = ask(&mut connection, "POST", "/bid", &asked) {
                assert_eq!(status, 200, "{answer}");
                answers.fetch_add(1, Ordering::Relaxed);
                let (_, paths) = bids(&answer).remove(0);
                for path in &paths {
                    if ask(&mut connection, "GET", path, "").is_none() {
                        return;
                    }
                }
            }
        };
        let exchanges: Vec<_> = (0..8).map(|_| scope.spawn(exchange)).collect();
        while answers.load(Ordering::Relaxed) < 2000 {
            std::thread::yield_now();
            assert!(!exchanges.iter().any(|exchange| exchange.is_finished()), "an exchange was sent away");
        }
        let (status, said) = server.end(libc::SIGTERM);
        assert!(status.code() == Some(0) && said.ends_with("stopped\n"), "{status} {said}");
    });

    let known = dpb::Bandit::restore(&fs::read(&file).unwrap()).unwrap();
    let (server, operator) = start(&options).unwrap();
    let (before, page) = (server.get("/metrics"), metrics(server.host()));
    assert_eq!(page["dpb_decisions_total{bandit=\"creatives\"}"], known.report().unwrap().counts.decisions as f64);
    for (arm, known) in known.arm_reports().unwrap().iter().enumerate() {
        let told = |name: &str| page[&format!("dpb_arm_{name}{{bandit=\"creatives\",arm=\"{arm}\"}}")];
        assert_eq!(told("effective_pulls"), known.effective_pulls);
        assert!(told("mean") == known.mean || told("mean").is_nan() && known.mean.is_nan());
        assert!((arm < 4) == (known.effective_pulls > 0.0), "arm {arm}: {known:?}");
    }
    for path in &old {
        assert_eq!(server.get(path), (204, String::new()));
    }
    assert_eq!(server.get("/metrics"), before);
    let counts = metrics(&operator);
    for notice in NOTICES {
        assert_eq!(counts[&format!("bidder_notices_total{{notice=\"{notice}\",fate=\"forged\"}}")], 1.0);
    }
    fs::remove_dir_all(&place).unwrap();
}

/// With a key, a bid that was shown before a restart may be clicked after it, once. Bids that were not shown are
/// cancelled. After `kill -9` the notices are known, and count nothing.
#[test]
#[ignore = "half a minute, to compile the bidder"]
fn clicks_on_bids_that_were_shown_count_after_a_restart() {
    let place = empty_directory("bidder", "restart");
    let (file, key) = (place.join("snapshot"), place.join("key"));
    fs::write(&key, "0f".repeat(32)).unwrap();
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let key = ["--fleet-key-file", key.to_str().unwrap()];
    let Some((code, said)) = refused(&key) else { return };
    assert!(code == Some(2) && said.starts_with("--fleet-key-file needs --snapshot"), "{code:?} {said}");
    let options = [key[0], key[1], "--snapshot", file.to_str().unwrap()];
    let begin = || start(&options).unwrap();
    let (server, operator) = begin();
    let made: Vec<_> = (0..4).map(|_| bids(&bid(server.host(), &request(300, 250)).1).remove(0).1).collect();
    let [shown, hidden, clicked, early] = made.try_into().unwrap();
    let early_click = early[CLICK].clone();
    for path in [&shown[IMPRESSION], &clicked[IMPRESSION], &clicked[CLICK], &early_click] {
        assert_eq!(server.get(path), (204, String::new()));
    }
    let count = |page: &str, name: &str| metrics(page)[&format!("dpb_{name}{{bandit=\"creatives\"}}")];
    assert_eq!((count(&operator, "pending"), count(&operator, "cancelled_total")), (4.0, 0.0));
    assert_eq!(server.end(libc::SIGTERM).0.code(), Some(0));

    // The next release of a deploy has a link to the file.
    let link = place.join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let (server, operator) = start(&[key[0], key[1], "--snapshot", link.to_str().unwrap()]).unwrap();
    assert_eq!((count(&operator, "pending"), count(&operator, "cancelled_total")), (2.0, 2.0));
    for (path, duplicates) in
        [(&shown[CLICK], 0.0), (&shown[CLICK], 1.0), (&hidden[CLICK], 2.0), (&clicked[CLICK], 3.0), (&early_click, 4.0)]
    {
        assert_eq!(server.get(path), (204, String::new()));
        assert_eq!(count(&operator, "duplicates_total"), duplicates);
    }
    assert_eq!(server.get(&hidden[IMPRESSION]), (204, String::new()));
    let counts = metrics(&operator);
    assert_eq!(counts["bidder_notices_total{notice=\"impression\",fate=\"late\"}"], 1.0);
    assert_eq!(counts["bidder_notices_total{notice=\"click\",fate=\"forged\"}"], 0.0);
    server.signal(libc::SIGKILL);
    drop(server);

    let (server, operator) = begin();
    server.get(&shown[CLICK]);
    assert_eq!((count(&operator, "pending"), count(&operator, "unknown_total")), (0.0, 1.0));
}
