//! The plan's intervals cover a planted truth, estimators that are broken do not, and bad input is named.

use dpb::{Algorithm, Bandit, Config, Random, Request, Seed};
use plan::log::{Logged, MOST_LINE, Reader, Source};
use plan::replay::{Candidate, Estimate, Evaluation, Evidence, Fixed, Plan, Replay, evaluate, survey};
use plan::schedule::{self, Limits, Step};
use plan::simulate::{Curve, Loss, Player, World, simulate};
use plan::{Options, plan as run};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Two kinds of requests, each for half of the time: eligible arms, how likely the log's policy chose each, and how
/// likely it is rewarded. What is likely to be rewarded is rarely chosen, so propensities matter.
const REQUESTS: [(&[u32], &[f64], &[f64]); 2] =
    [(&[0, 1, 2], &[0.2, 0.3, 0.5], &[0.6, 0.4, 0.2]), (&[1, 2], &[0.25, 0.75], &[0.5, 0.3])];
/// The smallest propensity whose entries are replayed as often as they should be.
const LEAST: f64 = 0.2;
const ENTRIES: usize = 4000;
const LOGS: u64 = 200;

fn stream(number: u64, purpose: u8) -> Random {
    let mut key = [purpose; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    Seed::new(Some(key)).unwrap().stream()
}

/// An entry: the request's number, which of its arms, and the reward.
fn entry(random: &mut Random) -> (usize, usize, f64) {
    let kind = random.below(2) as usize;
    let (_, propensities, rates) = REQUESTS[kind];
    let (mut left, mut which) = (random.unit(), 0);
    while which + 1 < propensities.len() && left >= propensities[which] {
        left -= propensities[which];
        which += 1;
    }
    (kind, which, f64::from(u8::from(random.unit() < rates[which])))
}

fn candidate() -> Candidate {
    Candidate { algorithm: Algorithm::Imed, config: Config::new(3, 2.0) }
}

/// The mean reward of the service itself, learning as it decides: its state at entry t of a log is that after
/// Binomial(t, c) decisions. The mean of many services.
fn truth() -> f64 {
    const SERVICES: u64 = 2000;
    let Candidate { algorithm, config } = candidate();
    let mut won = 0.0;
    for service in 0..SERVICES {
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&service.to_le_bytes());
        let bandit = Bandit::new(algorithm, &Config { test_seed: Some(seed), ..config.clone() }).unwrap();
        let mut random = stream(service, 8);
        for _ in 0..ENTRIES {
            let (arms, _, rates) = REQUESTS[random.below(2) as usize];
            let decision = bandit.select_for(&Request { eligible: Some(arms), ..Request::default() }).unwrap();
            let rate = rates[arms.iter().position(|&arm| arm == decision.arm).unwrap()];
            won += rate;
            if random.unit() < LEAST {
                bandit.update(decision.ticket, f64::from(u8::from(random.unit() < rate))).unwrap();
            } else {
                bandit.cancel(decision.ticket).unwrap();
            }
        }
    }
    won / (SERVICES * ENTRIES as u64) as f64
}

/// What is made of a log before it is replayed, and of its estimates afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Every eligible arm was equally likely, says the log.
    EvenPropensities,
    /// Half as wide.
    NarrowIntervals,
    /// Every entry whose arm is chosen is played.
    AllPlayed,
    /// A tenth of the rewards is lost.
    RewardsLost,
}

/// The estimates of many logs: of the candidate, and of the even rotation.
fn estimates(fault: Fault) -> Vec<[[Estimate; 3]; 2]> {
    let of_log = |number: u64| {
        let mut random = stream(number, 9);
        let least = if fault == Fault::AllPlayed { 1.0 } else { LEAST };
        let mut replay = Replay::new(&candidate(), Plan { runs: 2, seed: number, least, delay: 0 }).unwrap();
        let mut fixed = Fixed::new(3);
        for _ in 0..ENTRIES {
            let (kind, which, mut reward) = entry(&mut random);
            let (arms, propensities, _) = REQUESTS[kind];
            let mut propensity = propensities[which];
            match fault {
                Fault::EvenPropensities => propensity = 1.0 / arms.len() as f64,
                Fault::RewardsLost if random.below(10) == 0 => reward = 0.0,
                _ => {}
            }
            let (arm, nothing) = (arms[which], (&[], &[]));
            let logged = Logged {
                line: 0,
                arm,
                propensity,
                reward,
                eligible: arms,
                values: nothing.0,
                costs: nothing.0,
                examined: 1.0,
                features: nothing.1,
            };
            replay.add(logged).unwrap();
            fixed.add(logged);
        }
        let Evaluation { estimates, .. } = replay.evaluation();
        let mut both = [estimates, fixed.estimates().1];
        if fault == Fault::NarrowIntervals {
            both.iter_mut().flatten().for_each(|estimate| estimate.width /= 2.0);
        }
        both
    };
    (0..LOGS).map(of_log).collect()
}

/// Are the intervals what they claim? With coverage 0.95 more than 29 of 200 intervals miss with probability 1e-7; the
/// mean of all estimates is more than 5 standard errors off with 6e-7. Useless widths are refused too.
fn check(truth: f64, estimates: impl Iterator<Item = Estimate> + Clone) -> Result<(), String> {
    let n = estimates.clone().count() as f64;
    let misses = estimates.clone().filter(|estimate| (estimate.mean - truth).abs() > estimate.width).count();
    let mean = estimates.clone().map(|estimate| estimate.mean).sum::<f64>() / n;
    let deviation = (estimates.clone().map(|estimate| (estimate.mean - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let width = estimates.map(|estimate| estimate.width).sum::<f64>() / n;
    let bias = (mean - truth) / (deviation / n.sqrt());
    let said = format!("truth {truth:.4}, mean {mean:.4}, bias {bias:.1} s.e., {misses} misses, width {width:.4}");
    if misses <= 29 && bias.abs() <= 5.0 && width < 4.0 * deviation { Ok(()) } else { Err(said) }
}

#[test]
fn intervals_cover_the_planted_truth_and_broken_estimators_do_not() {
    const NAMES: [&str; 3] = ["inverse propensity", "self-normalised", "doubly robust"];
    let rotation = 0.5 * (1.2 / 3.0) + 0.5 * (0.8 / 2.0);
    let truths = [truth(), rotation];
    let checks = move |fault| {
        let estimates = estimates(fault);
        [0, 1].map(|who| [0, 1, 2].map(|which| check(truths[who], estimates.iter().map(move |log| log[who][which]))))
    };
    let faults = [Fault::None, Fault::EvenPropensities, Fault::RewardsLost, Fault::NarrowIntervals, Fault::AllPlayed];
    let [none, propensities, rewards, narrow, all] = std::thread::scope(|scope| {
        faults.map(|fault| scope.spawn(move || checks(fault))).map(|checks| checks.join().unwrap())
    });
    for (who, of_whom) in ["the policy", "the rotation"].iter().zip(none) {
        for (name, checked) in NAMES.iter().zip(of_whom) {
            assert_eq!(checked, Ok(()), "{who}, {name}");
        }
    }
    for (of_fault, name) in [(propensities, "propensities"), (rewards, "rewards")] {
        for (which, checked) in of_fault.into_iter().flatten().enumerate() {
            assert!(checked.is_err(), "even {name} pass by {}", NAMES[which % 3]);
        }
    }
    for ([of_policy, _], fault) in [(narrow, Fault::NarrowIntervals), (all, Fault::AllPlayed)] {
        for (which, checked) in of_policy.iter().enumerate() {
            assert!(checked.is_err(), "{fault:?}, {}: a broken estimator passes", NAMES[which]);
        }
    }
}

fn file(name: &str, text: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// The error of the first pass over a log of rewards from 0 to 1.
fn refusal(path: &Path) -> String {
    survey(path, (0.0, 1.0), |_| true).err().unwrap_or_else(|| panic!("{} is not refused", path.display()))
}

#[test]
fn what_is_wrong_with_a_log_is_named() {
    let long = "x".repeat(2 * MOST_LINE);
    let row = |text: &str| format!("arm,propensity,reward,eligible,features\n{text}\n");
    let valued = |text: &str| format!("arm,propensity,reward,eligible,values\n{text}\n");
    let costed = |text: &str| format!("arm,propensity,reward,eligible,costs\n{text}\n");
    let examined = |text: &str| format!("arm,propensity,reward,examined\n{text}\n");
    let json = |text: &str| format!("{{\"arm\":1,\"propensity\":0.5,\"reward\":0}}\n{text}\n");
    let wrong: Vec<(String, &str)> = vec![
        (String::new(), "no decision in 0 lines"),
        ("\n\n \n".into(), "no decision in 3 lines"),
        ("arm,propensity,reward\n".into(), "no decision in 1 lines"),
        (row("a,0.5,1,,\na,0.5,0,,"), "only one arm in 2 decisions"),
        ("arm,reward\na,1\n".into(), "line 1: propensity: the header has no such column"),
        ("arm;propensity;reward\na;0,5;1\n".into(), "line 1: arm: the header has no such column"),
        ("arm,arm,propensity,reward\n".into(), "line 1: arm: two columns of this name"),
        ("arm,propensity,reward, Reward\n".into(), "line 1: reward: two columns of this name"),
        ("arm,propensity,reward\na,0.5\n".into(), "line 2: has 2 fields, where the header has 3"),
        ("arm,propensity,reward\na,0.5,0,75\n".into(), "line 2: has 4 fields, where the header has 3"),
        ("arm,propensity,reward\na,0.5,1,\n".into(), "line 2: has 4 fields, where the header has 3"),
        ("arm,propensity,reward\na,0.5,1\rb,0.5,0\n".into(), "line 2: a carriage return within the line"),
        ("arm,propensity,reward\ra,0.5,1\rb,0.5,0\r".into(), "line 1: a carriage return within the line"),
        (row("half,half,1,,"), "line 2: propensity: \"half\" is not a number"),
        (row("a,0.5,1,,\n\nb,0.5,,,"), "line 4: reward: \"\" is not a number"),
        (row("a,0.5,true,,"), "line 2: reward: \"true\" is not a number"),
        (row("a,0.5,1 # a click,,"), "line 2: reward: \"1 # a click\" is not a number"),
        (row("a,0,1,,"), "line 2: propensity: 0 is not a probability above 0"),
        (row("a,1e-400,1,,"), "line 2: propensity: 0 is not a probability above 0"),
        (row("a,1.5,1,,"), "line 2: propensity: 1.5 is not a probability above 0"),
        (row("a,NaN,1,,"), "line 2: propensity: NaN is not a probability above 0"),
        (row("a,0.5,2,,"), "line 2: reward: 2 is not in 0..=1 (--reward-min, --reward-max)"),
        (row("a,0.5,nan,,"), "line 2: reward: NaN is not in 0..=1"),
        (row("a,0.5,1e400,,"), "line 2: reward: inf is not in 0..=1"),
        (row(",0.5,1,,"), "line 2: arm: is empty"),
        (row(&format!("{},0.5,1,,", "y".repeat(300))), "line 2: arm: is longer than 256 bytes"),
        (row("3,0.5,1,,\n3.0,0.5,0,,"), "line 3: arm: \"3.0\" and \"3\" are the same number"),
        (row("7,0.5,1,,\n-1.50,0.5,1,,\n07,0.5,1,,"), "line 4: arm: \"07\" and \"7\" are the same number"),
        (row("0,0.5,1,0 00,"), "line 2: eligible: \"00\" and \"0\" are the same number"),
        (row("a,0.5,1,,\na\0,0.5,1,,"), "line 3: contains the control character 0x00"),
        (row("a,0.5,1,,\n\x1a"), "line 3: contains the control character 0x1a"),
        (row("a\u{7f},0.5,1,,"), "line 2: arm: \"a\\u{7f}\" contains a control character"),
        (
            row("a,0.5,1,,\n\u{feff}a,0.5,1,,"),
            "line 3: arm: \"\\u{feff}a\" contains a control character or a byte order",
        ),
        (row("a,0.5,1,b c,"), "line 2: eligible: lacks the arm that was chosen, \"a\""),
        (valued("a,0.5,1,a b,1"), "line 2: values: 1 numbers for 2 eligible arms"),
        (valued("a,0.5,1,a b,1 -1"), "line 2: values: -1 is not a finite number of at least 0"),
        (valued("a,0.5,1,a b,1 nan"), "line 2: values: NaN is not a finite number of at least 0"),
        (valued("a,0.5,1,a a,1 2"), "line 2: eligible: names an arm twice, and values would be two"),
        (valued("a,0.5,1,,1"), "line 2: values: need the eligible arms that they are of"),
        (costed("a,0.5,1,a b,1"), "line 2: costs: 1 numbers for 2 eligible arms"),
        (costed("a,0.5,1,a b,1 inf"), "line 2: costs: inf is not a finite number"),
        (costed("a,0.5,1,a a,1 2"), "line 2: eligible: names an arm twice, and costs would be two"),
        (costed("a,0.5,1,,1"), "line 2: costs: need the eligible arms that they are of"),
        (examined("a,0.5,1,0"), "line 2: examined: 0 is not a probability of at least 2^-16"),
        (examined("a,0.5,1,1\na,0.5,1,1.5"), "line 3: examined: 1.5 is not a probability"),
        (examined("a,0.5,1,nan"), "line 2: examined: NaN is not a probability"),
        (examined("a,0.5,1,x"), "line 2: examined: \"x\" is not a number"),
        (row("a,0.5,1,,1 2\nb,0.5,1,,1"), "line 3: features: 1 numbers, where the lines before have 2"),
        (row("a,0.5,1,,1 2\nb,0.5,1,,"), "line 3: features: 0 numbers, where the lines before have 2"),
        (row("a,0.5,1,,1 inf"), "line 2: features: inf is not a finite number"),
        (row("a,0.5,1,,1e39"), "line 2: features: inf is not a finite number"),
        (row("a,0.5,1,,1 x"), "line 2: features: \"x\" is not a number"),
        (row(&format!("a,0.5,1,,{}", "1 ".repeat(257))), "line 2: features: 257 numbers are more than 256"),
        (row("\"a,0.5,1,,\nb,0.5,1,,"), "line 2: a quote is not closed in its line"),
        (row("\"a\"\"\"b,0.5,1,,"), "line 2: text after a closing quote"),
        (row("a\"b\",0.5,1,,"), "line 2: a quote within a field that does not begin with one"),
        (row("a, \"0.5\",1,,"), "line 2: a quote within a field that does not begin with one"),
        (row(&format!("a,0.5,1,,\nb,{long}")), "line 3: is longer than 1048576 bytes"),
        (long, "line 1: is longer than 1048576 bytes"),
        ("[{\"arm\":1,\"propensity\":0.5,\"reward\":0},\n".into(), "line 1: is not an object: write one in each line"),
        ("{\n\"arm\":1,\n".into(), "line 1: column 1: EOF while parsing an object"),
        (json("{\"arm\":1,"), "line 2: column 9: EOF while parsing a value"),
        (json("[1, 0.5, 0]"), "line 2: is not an object"),
        (json("{\"propensity\":0.5,\"reward\":0}"), "missing field `arm`"),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":0,\"arm\":2}"), "duplicate field `arm`"),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":0}, {}"), "trailing characters"),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":NaN}"), "expected value"),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":1e400}"), "number out of range"),
        (json("{\"arm\":[1],\"propensity\":0.5,\"reward\":0}"), "expected the name of an arm: text or a whole number"),
        (json("{\"arm\":1.5,\"propensity\":0.5,\"reward\":0}"), "invalid type: floating point `1.5`"),
        (json("{\"arm\":1e17,\"propensity\":0.5,\"reward\":0}"), "invalid type: floating point `1e+17`"),
        (
            json("{\"arm\":\"1.0\",\"propensity\":0.5,\"reward\":0}"),
            "line 2: arm: \"1.0\" and \"1\" are the same number",
        ),
        (
            json("{\"arm\":\"a\\u0000\",\"propensity\":0.5,\"reward\":0}"),
            "line 2: arm: \"a\\0\" contains a control character",
        ),
        (json("{\"arm\":1,\"propensity\":\"0.5\",\"reward\":0}"), "invalid type: string \"0.5\""),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":null}"), "invalid type: null"),
        (
            json("{\"arm\":1,\"propensity\":0.5,\"reward\":0,\"eligible\":2}"),
            "invalid type: integer `2`, expected a sequence",
        ),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":0,\"eligible\":[]}"), "line 2: eligible: lacks the arm"),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":0,\"features\":[true]}"), "invalid type: boolean `true`"),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":0,\"features\":[1]}"), "line 2: features: 1 numbers, where"),
    ];
    for (at, (text, says)) in wrong.iter().enumerate() {
        let said = refusal(&file(&format!("wrong-{at}"), text.as_bytes()));
        assert!(said.contains(says) && said.len() < 600, "{said}, in place of {says}");
    }
    let others: [(&[u8], &str); 5] = [
        (b"arm,propensity,reward\n\xff\xfe,0.5,1\n", "line 2: is not UTF-8"),
        (b"\xff\xfea\0r\0m\0", "line 1: is UTF-16, not text in UTF-8"),
        (b"a\0r\0m\0", "line 1: contains the control character 0x00"),
        (b"\x1f\x8b\x08\0\0\0", "line 1: is a gzip archive, not text"),
        (b"PK\x03\x04\x14\0", "line 1: is a zip archive or a spreadsheet, not text"),
    ];
    for (text, says) in others {
        let said = refusal(&file("not-text", text));
        assert!(said.contains(says), "{said}, in place of {says}");
    }
    let said = refusal(Path::new("no/such/log"));
    assert!(said.starts_with("no/such/log: "), "{said}");
    // A directory, as a pipe, cannot be read twice.
    let said = refusal(Path::new(env!("CARGO_TARGET_TMPDIR")));
    assert!(said.contains("is not a regular file. A log is read twice"), "{said}");
}

/// A pipe would wait for its writer, who has gone when the log is read again.
#[test]
#[cfg(unix)]
fn a_pipe_is_refused() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pipe");
    let _ = std::fs::remove_file(&path);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(refusal(&path).contains("is not a regular file"));
}

/// What looks unusual and has one meaning.
#[test]
fn what_has_one_meaning_is_read() {
    let text = "note,ARM,\"propensity\",Reward\n\"a \"\"note\"\", long\", bike ,+.5,1e0\n,\"bike\",5e-1 , 1.\n,3,1,0\n";
    let found = survey(&file("unusual", text.as_bytes()), (0.0, 1.0), |_| true).unwrap();
    assert_eq!((found.arms, found.entries, found.least), (2, 3, (0.5, 2)));
    let text = "{\"reward\":1,\"arm\":3,\"propensity\":1,\"x\":[{}]}\n{\"arm\":3.0,\"propensity\":1,\"reward\":0,\"eligible\":null}
                {\"arm\":\"3\",\"propensity\":0.25,\"reward\":0,\"eligible\":[18446744073709551615,3]}";
    let found = survey(&file("unusual.jsonl", text.as_bytes()), (0.0, 1.0), |_| true).unwrap();
    assert_eq!((found.arms, found.entries, found.least), (2, 3, (0.25, 3)));
}

/// Long lists are read in short batches.
#[test]
fn a_batch_has_bounded_memory() {
    let all: String = (0..60_000).map(|arm| format!("{arm} ")).collect();
    let text = format!("arm,propensity,reward,eligible\n{}", format!("1,0.5,1,{all}\n").repeat(12));
    let mut reader = Reader::open(&file("lists", text.as_bytes()), (0.0, 1.0)).unwrap();
    let lengths = [(); 4].map(|()| reader.read(1000).unwrap().len());
    assert_eq!(lengths, [5, 5, 2, 0]);
}

/// A log that others write meanwhile: lines may be added, but what was there must stay.
#[test]
fn a_log_that_changes_is_noticed() {
    let row = |arm: &str, propensity: f64| format!("{arm},{propensity},1\n");
    let text = format!("arm,propensity,reward\n{}{}", row("a", 0.5), row("b", 0.5).repeat(1999));
    let path = file("changes", text.as_bytes());
    let replayed = |text: String| {
        let plan = Plan { runs: 2, seed: 1, least: 0.5, delay: 0 };
        let found = survey(&path, (0.0, 1.0), |_| true).unwrap();
        std::fs::write(&path, text).unwrap();
        let candidates = [Candidate { algorithm: Algorithm::Imed, config: Config::new(2, 1.0) }];
        evaluate(&path, (0.0, 1.0), &found, &candidates, plan, 1, |_| true).map(|(_, found)| found.len())
    };
    assert_eq!(replayed(text.clone() + &row("c", 0.1).repeat(3)), Ok(1));
    for change in [text.replacen("a,0.5", "a,0.3", 1), text.replacen("b", "c", 1), text[..text.len() - 8].to_owned()] {
        std::fs::write(&path, &text).unwrap();
        assert_eq!(replayed(change), Err(format!("{}: changed while it was read", path.display())));
    }
}

fn options(arguments: &[&str]) -> Options {
    Options::parse(lexopt::Parser::from_args(arguments)).unwrap().expect("no help")
}

/// The same decisions as CSV, as JSON lines, with Windows' line ends: the same table.
#[test]
fn formats_say_the_same() {
    let (mut csv, mut json, mut random) =
        (String::from("\u{feff}when,Reward,features,arm,eligible,propensity\n"), String::new(), stream(1, 3));
    for time in 0..2000 {
        let (kind, which, reward) = entry(&mut random);
        let (arms, propensities, _) = REQUESTS[kind];
        let (arm, propensity) = (arms[which], propensities[which]);
        let names: Vec<String> = arms.iter().map(|arm| format!("ad {arm}").replace(' ', "-")).collect();
        csv += &format!("{time},{reward},{kind};{},ad-{arm},\"{}\",{propensity}\n", 1 - kind, names.join(" "));
        let names = names.join("\",\"");
        json += &format!("{{\"arm\":\"ad-{arm}\",\"eligible\":[\"{names}\"],\"reward\":{reward},");
        json += &format!("\"features\":[{kind},{}],\"propensity\":{propensity},\"when\":{time}}}\n", 1 - kind);
    }
    let logs = [("same.csv", csv.clone()), ("same.jsonl", json), ("same.crlf.csv", csv.replace('\n', "\r\n"))];
    let tables = logs.map(|(name, text)| {
        let (path, out) =
            (file(name, text.as_bytes()), Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.out")));
        let said =
            run(&options(&["--log", path.to_str().unwrap(), "--out", out.to_str().unwrap(), "--epsilon", "1,2"]))
                .unwrap();
        assert!(std::fs::read_to_string(out.join("plan.svg")).unwrap().contains("dp-linear"));
        said.split_once("line ").unwrap().1.split_once('|').unwrap().1.split_once("Written").unwrap().0.to_owned()
    });
    assert!(
        tables[0].contains("| dp-linear | 2 | 0.") && tables[0].contains("| the log's own | - | 0.3"),
        "{}",
        tables[0]
    );
    // A baseline cannot choose among eligible arms.
    assert!(tables[0].contains("\nnonprivate-imed: this policy does not support"), "{}", tables[0]);
    assert_eq!(tables[0], tables[1]);
    assert_eq!(tables[0], tables[2]);
}

/// What the program says of a log, at epsilon 2, and the first mean of a row.
fn replayed(name: &str, log: &str, policies: &str) -> (String, impl Fn(&str) -> f64) {
    let path = file(&format!("{name}.csv"), log.as_bytes());
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let [path, out] = [&path, &out].map(|path| path.to_str().unwrap());
    let said = run(&options(&["--log", path, "--epsilon", "2", "--policy", policies, "--out", out])).unwrap();
    let text = said.clone();
    (said, move |row| text.split_once(row).unwrap().1.split_once(" ±").unwrap().0.parse().unwrap())
}

/// One arm has half the rewards, the other one a fifth, worth five times as much: the estimates are of value.
#[test]
fn a_log_with_values_is_replayed_for_value() {
    let mut random = stream(5, 9);
    let mut log = String::from("arm,propensity,reward,eligible,values\n");
    for _ in 0..20_000 {
        let cheap = random.below(2) == 0;
        let reward = u8::from(random.unit() < if cheap { 0.5 } else { 0.2 });
        log += &format!("{},0.5,{reward},dear cheap,5 1\n", if cheap { "cheap" } else { "dear" });
    }
    let (said, mean) = replayed("values", &log, "dp-imed,dp-tt");
    assert!(
        (mean("| the log's own | - | ") - 0.75).abs() < 0.06 && (mean("| even rotation | - | ") - 0.75).abs() < 0.06,
        "{said}"
    );
    assert!((mean("| dp-imed | 2 | ") - 1.0).abs() < 0.09, "{said}");
    assert!(said.contains("dp-tt: this policy does not support values"), "{said}");
}

/// One arm has half the rewards, the other one a fifth, at a tenth of the price: the estimates are of rewards minus costs.
#[test]
fn a_log_with_costs_is_replayed_for_worth() {
    let mut random = stream(5, 9);
    let mut log = String::from("arm,propensity,reward,eligible,costs\n");
    for _ in 0..20_000 {
        let cheap = random.below(2) == 0;
        let reward = u8::from(random.unit() < if cheap { 0.2 } else { 0.5 });
        log += &format!("{},0.5,{reward},dear cheap,0.4 0.04\n", if cheap { "cheap" } else { "dear" });
    }
    let (said, mean) = replayed("costs", &log, "dp-imed");
    for (row, expected) in
        [("| the log's own | - | ", 0.13), ("| even rotation | - | ", 0.13), ("| dp-imed | 2 | ", 0.16)]
    {
        assert!((mean(row) - expected).abs() < 0.02, "{said}");
    }
}

/// Half of the slots are examined by a fifth of the visitors, and the log's policy shows the better arm there most often.
/// The estimates are of clicks, and the policy learns the rates of examined slots.
#[test]
fn a_log_with_positions_is_replayed_by_examination() {
    let mut random = stream(6, 9);
    let mut log = String::from("arm,propensity,reward,examined\n");
    for _ in 0..20_000 {
        let low = random.below(2) == 0;
        let better = random.unit() < if low { 0.8 } else { 0.2 };
        let (examined, propensity) = (if low { "0.2" } else { "" }, if low == better { 0.8 } else { 0.2 });
        let rate = if better { 0.6 } else { 0.3 } * if low { 0.2 } else { 1.0 };
        log += &format!("{},{propensity},{},{examined}\n", u8::from(better), u8::from(random.unit() < rate));
    }
    let path = file("positions.csv", log.as_bytes());
    let without = file("positions-without.csv", log.replace(",examined", ",other").as_bytes());
    let replayed = |path: &Path| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("positions");
        let arguments = ["--log", path.to_str().unwrap(), "--epsilon", "2", "--policy", "dp-imed,dp-med"];
        run(&options(&[&arguments[..], &["--out", place.to_str().unwrap()]].concat())).unwrap()
    };
    let (said, blind) = (replayed(&path), replayed(&without));
    // The last estimate of a row, the doubly robust one where there are three: its mean and its width.
    let row = |said: &str, row: &str| -> (f64, f64) {
        let cells = said.split_once(row).unwrap().1.split_once(" |\n").unwrap().0;
        let (mean, width) = cells.split(" | ").filter(|cell| *cell != "-").last().unwrap().split_once(" ± ").unwrap();
        (mean.parse().unwrap(), width.parse().unwrap())
    };
    // (0.8 x 0.6 + 0.2 x 0.3) 0.2 / 2 + (0.2 x 0.6 + 0.8 x 0.3) / 2
    for (name, truth) in [("the log's own", 0.234), ("even rotation", 0.27)] {
        let (mean, width) = row(&said, &format!("| {name} | - | "));
        assert!((mean - truth).abs() < 2.5 * width, "{name}: {said}"); // 5 deviations
    }
    // Always the better arm would have 0.36. The model of rewards by examination fits, so intervals are shorter.
    let (mean, width) = row(&said, "| dp-imed | 2 | ");
    assert!(mean + width > 0.34 && mean - width < 0.36, "{said}");
    let shorter = width / row(&blind, "| dp-imed | 2 | ").1;
    assert!(shorter < 0.9, "{shorter}: {said}\n{blind}");
    assert!(said.contains("dp-med: this policy does not support examined"), "{said}");
    assert!(!blind.contains("does not support"), "{blind}");
}

/// Where propensities are wrong, the weights say so.
#[test]
fn wrong_propensities_are_doubted() {
    let mut random = stream(2, 3);
    let text: String =
        (0..5000).map(|_| format!("{},0.5,{}\n", u8::from(random.below(5) == 0), random.below(2))).collect();
    let path = file("doubtful.csv", format!("arm,propensity,reward\n{text}").as_bytes());
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doubtful");
    let said = run(&options(&["--log", path.to_str().unwrap(), "--out", out.to_str().unwrap()])).unwrap();
    assert!(said.contains("propensities are wrong"), "{said}");
}

/// Where nothing is known of a policy's rewards, an estimate has no width, and 0 is none.
#[test]
fn unknown_widths_are_not_zero() {
    let estimates = |entries: &[(f64, f64)]| {
        let mut evidence = Evidence::default();
        entries.iter().for_each(|&(reward, weight)| evidence.add(weight * reward, weight, weight * reward));
        evidence.estimates().map(|(mean, variance)| Estimate::new(mean, variance))
    };
    let one: &[(f64, f64)] = &[(1.0, 2.0)];
    for entries in [one, &[(1.0, 2.0), (0.0, 0.0)], &[(1.0, 0.0), (0.0, 0.0)], &[(1.0, 1e200), (0.0, 1e200)]] {
        let found = estimates(entries);
        assert!(found[0].width.is_nan() && found[2].width.is_nan(), "{entries:?}: {found:?}");
        assert!(found[1].width.is_nan() || found[1].width > 0.0, "{entries:?}: {found:?}");
    }
    let found = estimates(&[(1.0, 2.0), (0.0, 2.0), (1.0, 0.0)]);
    assert!(found.iter().all(|one| one.width > 0.0), "{found:?}");
}

/// A log whose policies cannot be told apart says so, and one whose policies can does not.
#[test]
fn equal_policies_are_named() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("indistinct");
    let said = |name: &str, arms: u64, entries: u64, rate: &dyn Fn(u64) -> f64, more: &[&str]| {
        let mut random = stream(4, 9);
        let line = |_| {
            let arm = random.below(arms);
            format!("{arm},{},{}\n", 1.0 / arms as f64, u8::from(random.unit() < rate(arm)))
        };
        let text: String = (0..entries).map(line).collect();
        let path = file(name, format!("arm,propensity,reward\n{text}").as_bytes());
        run(&options(
            &[&["--log", path.to_str().unwrap(), "--out", out.to_str().unwrap(), "--runs", "2"], more].concat(),
        ))
        .unwrap()
    };
    let note = "no two policies can be told apart";
    let even = said("even.csv", 40, 40_000, &|_| 0.05, &[]);
    assert!(even.contains(note) && even.contains("1000 of 40000 decisions"), "{even}");
    let apart: &[&str] = &["--policy", "dp-imed,nonprivate-imed", "--epsilon", "0.001"];
    let apart = said("apart.csv", 2, 20_000, &|arm| arm as f64, apart);
    assert!(!apart.contains(note), "{apart}");
}

/// What is learned of each person is limited for ever or in each period, and a baseline is not limited.
#[test]
fn people_are_limited() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("people");
    let common = ["--decisions", "20000", "--rate", "0.5", "--arms", "4", "--runs", "4", "--epsilon", "4"];
    let common = [&common[..], &["--policy", "dp-imed,nonprivate-imed", "--out", out.to_str().unwrap()]].concat();
    let lost = |more: &[&str], row: &str| -> f64 {
        let said = run(&options(&[&common, more].concat())).unwrap();
        let row = said.split_once(&format!("\n| {row} | ")).unwrap().1;
        row.split_once(" ±").unwrap().0.replace(',', "").parse().unwrap()
    };
    let (ever, often): (&[&str], &[&str]) = (&["--people", "100"], &["--people", "100", "--period", "2000"]);
    assert!(lost(&[], "4") < lost(often, "4") / 2.0 && lost(often, "4") < lost(ever, "4"));
    let baseline = "none (nonprivate-imed)";
    assert_eq!(lost(ever, baseline), lost(&[], baseline));
    let refused = |more: &[&str]| Options::parse(lexopt::Parser::from_args(more)).err().unwrap().to_string();
    assert!(refused(&["--period", "5"]).starts_with("--period: has no meaning without --people"));
    assert!(refused(&["--people", "5", "--processes", "2"]).starts_with("--people: has no meaning with --processes 2"));
}

#[test]
fn a_service_is_simulated() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulated");
    let simulated = |more: &[&str]| {
        let common =
            ["--decisions", "20000", "--rate", "0.5", "--arms", "4", "--runs", "4", "--out", out.to_str().unwrap()];
        run(&options(&[&common, more].concat())).unwrap()
    };
    let lost = |said: &str, epsilon: &str| -> f64 {
        let row = said.split_once(&format!("\n| {epsilon} | ")).unwrap().1;
        row.split_once(" ±").unwrap().0.replace(',', "").parse().unwrap()
    };
    let only = |epsilon: &'static str, more: &[&'static str]| {
        simulated(&[&["--policy", "dp-imed", "--epsilon", epsilon], more].concat())
    };
    let said = simulated(&[]);
    assert_eq!(only("1", &["--threads", "2"]), only("1", &["--threads", "1"]), "not reproducible");
    assert!(said.contains("The best arms win 10,000; an even rotation of all loses 4,000 of these."), "{said}");
    // A tenth of the rotation's loss is far above what it takes at epsilon 2, and 0.01 costs many times more.
    let (strict, loose) = (lost(&only("0.01", &[]), "0.01"), lost(&said, "2"));
    assert!(loose > 0.0 && loose < 400.0 && strict > 3.0 * loose, "{strict} {loose}");
    let (delayed, limited) = (only("2", &["--delay", "6h"]), only("0.5", &["--users-limit", "20"]));
    assert!(delayed.contains("rewards after 5000 decisions") && lost(&delayed, "2") > loose + 300.0, "{delayed}");
    assert!(lost(&limited, "0.5") > 3.0 * lost(&said, "0.5"), "{limited}");
    let fleet = simulated(&["--processes", "3", "--policy", "dp-imed,tsallis,nonprivate-imed", "--epsilon", "1"]);
    assert!(fleet.contains("\ntsallis: this policy does not support") && lost(&fleet, "1") > 0.0, "{fleet}");
    let svg = std::fs::read_to_string(out.join("plan.svg")).unwrap();
    assert!(svg.contains("dp-imed") && svg.contains("nonprivate-imed") && svg.ends_with("</svg>\n"), "{svg}");
    // The epsilon that is named loses no more, and the next one of the table loses more.
    let named = simulated(&["--policy", "dp-imed", "--lose", "4%", "--epsilon", "0.01,0.02,0.05,0.1,0.5,2"]);
    assert!(named.contains("To lose at most 4% of what the best arms win (400):\n"), "{named}");
    let enough = named.split_once("dp-imed: epsilon ").unwrap().1.split(' ').next().unwrap();
    let smaller =
        ["0.01", "0.02", "0.05", "0.1", "0.5", "2"].into_iter().take_while(|&epsilon| epsilon != enough).last();
    assert!(lost(&named, enough) <= 400.0 && lost(&named, smaller.unwrap()) > 250.0, "{named}");
    let none = simulated(&["--policy", "dp-imed", "--lose", "0.0001", "--epsilon", "0.1,0.5"]);
    assert!(none.contains("dp-imed: no epsilon of the table is enough"), "{none}");
    // Four arms of 0.5 to 0.1 whose payouts differ: the best one of a request is worth more than 0.5.
    let valued = only("2", &["--payouts", "0.5"]);
    let most = |said: &str| -> f64 {
        said.split_once("The best arms win ").unwrap().1.split_once(';').unwrap().0.replace(',', "").parse().unwrap()
    };
    assert!(
        most(&valued) > 11_000.0 && most(&valued) < 20_000.0 && lost(&valued, "2") < 0.15 * most(&valued),
        "{valued}"
    );
    // Costs leave less, and a little more if a decision may choose no arm.
    let (costly, free) = (only("2", &["--costs", "0.8"]), only("2", &["--costs", "0.8", "--abstain"]));
    assert!(most(&costly) < 0.8 * most(&said) && most(&free) > 1.01 * most(&costly), "{costly} {free}");
    assert!(lost(&costly, "2") < 0.15 * most(&said) && lost(&free, "2") < 0.15 * most(&said), "{costly} {free}");
    // A tenth of a second is enough for a part.
    let common = ["--epsilon", "1", "--policy", "dp-imed", "--seconds", "0.1", "--out", out.to_str().unwrap()];
    let simulated = |more: &[&str]| run(&options(&[&common, more].concat())).unwrap();
    let part = simulated(&["--days", "100000"]);
    assert!(part.contains(" to ") && part.contains("Simulated decisions, of 100,000,000,000:"), "{part}");
    // Rates that have not changed yet say nothing of those that have.
    let part = simulated(&["--days", "100000", "--change-every", "50000d"]);
    assert!(part.contains("| 1 | at least ") && !part.contains("| 1 | 0 to "), "{part}");
    // After two decisions a policy has tried few arms, and in half of the runs these are worse than their mean.
    let short = |seed: u64| {
        let more = ["--arms", "9", "--decisions", "2", "--runs", "2", "--seed", &seed.to_string()];
        simulated(&more).contains("More than 100%: worse than an even rotation")
    };
    assert!((0..20).any(short) && !(0..20).all(short));
}

/// With times that are counted and not measured: a slow player does not take the time of a fast one, and gets the time
/// that the fast one does not need.
#[test]
fn time_is_divided_between_players() {
    /// Plays these runs of each player, which have so many steps of a second. Returns how far each run is.
    fn play(steps: &[u64], limits: Limits) -> Vec<Vec<u64>> {
        let start = |at: usize, _| Ok((0, steps[at]));
        let step = |(done, all): &mut (u64, u64)| -> Result<Step, ()> {
            *done += 1;
            Ok(Step { seconds: 1.0, complete: done == all })
        };
        let runs = schedule::play(steps.len(), limits, start, step, |share| share >= 0.0).unwrap().unwrap();
        runs.into_iter().map(|runs| runs.into_iter().map(|(done, _)| done).collect()).collect()
    }
    let limits = Limits { first_runs: 2, most_runs: 5, seconds: 1000.0, threads: 1 };
    let [fast, slow, slower] = &play(&[10, 1 << 40, 1 << 50], limits)[..] else { panic!() };
    assert_eq!(*fast, [10, 10]);
    for run in [slow, slower].into_iter().flatten() {
        assert!((230..=260).contains(run), "{slow:?} {slower:?}");
    }
    // The time that is left after the first runs is for more of them, but not for one that it would not suffice for.
    assert_eq!(play(&[10, 30], limits), [vec![10; 5], vec![30; 5]]);
    let limits = Limits { most_runs: 12, seconds: 500.0, ..limits };
    assert_eq!(play(&[100, 30], limits), [vec![100; 2], vec![30; 10]]);
    // Without a limit, all runs are complete.
    let limits = Limits { first_runs: 6, most_runs: 6, seconds: f64::INFINITY, threads: 3 };
    assert_eq!(play(&[1, 100], limits), [vec![1; 6], vec![100; 6]]);
    // However short the time is, each of the first runs makes a step.
    let limits = Limits { first_runs: 2, most_runs: 2, seconds: 1e-9, threads: 1 };
    assert_eq!(play(&[5, 5], limits), [vec![1; 2], vec![1; 2]]);
    let fails = schedule::play(1, limits, |_, _| Err::<(), _>("no memory"), |_| unreachable!(), |_| true);
    assert_eq!(fails.err(), Some("no memory"));
}

/// A service with fixed rates, evenly spaced.
fn world(arms: u32, best: f64, worst: f64, horizon: u64) -> World {
    World {
        rates: (0..arms).map(|arm| best - (best - worst) * f64::from(arm) / f64::from(arms - 1)).collect(),
        amount: None,
        spread: 0.0,
        most: 1.0,
        payouts: 0.0,
        costs: 0.0,
        abstain: false,
        tolerance: 0.0,
        winners: 1,
        slots: 1,
        change_every: 0,
        daily: horizon,
        horizon,
        delay: 0,
        processes: 1,
        people: 0,
        period: 0,
    }
}

/// The mean of these numbers, and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let (n, mean) = (values.len() as f64, values.iter().sum::<f64>() / values.len() as f64);
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt())
}

/// What the policy loses in this service, in loops through the library: the mean of these runs, and its standard error.
fn direct(world: &World, player: &Player, runs: u64) -> (f64, f64) {
    let slots = world.slots as usize;
    // The largest lognormal reward has no part in the mean.
    let amount = match world.amount {
        Some(mean) if world.spread > 0.0 => mean,
        amount => amount.map_or(world.most, |mean| mean * (1.0 - (-world.most / mean).exp())),
    };
    let lost = |run: u64| {
        let mut seed = [11; 32];
        seed[..8].copy_from_slice(&run.to_le_bytes());
        let bandit = Bandit::new(player.algorithm, &Config { test_seed: Some(seed), ..player.config.clone() }).unwrap();
        let (mut random, mut rates, mut lost) = (stream(run, 12), world.rates.clone(), 0.0);
        let best: f64 = rates[..slots].iter().sum();
        for now in 0..world.horizon {
            if now == 0 || world.change_every > 0 && now % world.change_every == 0 {
                let mut left = std::mem::take(&mut rates);
                while !left.is_empty() {
                    rates.push(left.swap_remove(random.below(left.len() as u64) as usize));
                }
            }
            lost += best * amount;
            let (request, mut chosen) = (Request { slots: world.slots, ..Request::default() }, Vec::new());
            bandit.select_slots(&request, |_, decision| chosen.push(decision)).unwrap();
            for decision in chosen {
                let rate = rates[decision.arm as usize];
                lost -= rate * amount;
                let mut exponential = || -(1.0 - random.unit()).ln();
                let amount = match (world.amount, world.spread) {
                    (None, _) => world.most,
                    (Some(mean), 0.0) => mean * exponential(),
                    (Some(mean), spread) => {
                        let normal = (2.0 * exponential()).sqrt() * (std::f64::consts::TAU * random.unit()).sin();
                        mean * (spread * normal - 0.5 * spread * spread).exp()
                    }
                };
                let reward = if random.unit() < rate { amount.min(world.most) } else { 0.0 };
                bandit.update(decision.ticket, reward).unwrap();
            }
        }
        lost
    };
    mean(&(0..runs).map(lost).collect::<Vec<_>>())
}

/// Whether an estimate from 16 runs agrees with loops. With other seeds an unbiased one is more than six standard errors
/// off with probability 2e-6.
fn agrees(loss: &Loss, direct: (f64, f64)) -> bool {
    let (low, high) = (loss.part, loss.whole.expect("an estimate"));
    direct.0 > low.0 - 6.0 * low.1.hypot(direct.1) && direct.0 < high.0 + 6.0 * high.1.hypot(direct.1)
}

/// A policy with long batches tries bad arms at a few times. Wherever the simulation ends, it says enough of the rest.
#[test]
fn a_loss_in_steps_is_estimated_from_above() {
    let curve = |until: u64| {
        let steps = (1..=until).map(|at| (at * 1000, f64::from((at as u32).ilog2())));
        steps.collect::<Curve>()
    };
    let world = world(2, 0.5, 0.1, 1_000_000);
    let loss = |until: u64, change_every| {
        Loss::new(&World { change_every, rates: world.rates.clone(), ..world }, &[&curve(until), &curve(until + 1)])
    };
    for until in 5..1000 {
        let Loss { simulated, part, whole, .. } = loss(until, 0);
        assert!(simulated == until * 1000 && part.0 <= 9.0 && whole.unwrap().0 >= 9.0, "{until} {part:?} {whole:?}");
    }
    assert_eq!(loss(1000, 0).whole, Some((9.0, 0.0)));
    // A world that changes loses on and on.
    assert_eq!(loss(500, 250_000).whole, Some((16.0, 0.0)));
    assert_eq!((loss(499, 250_000).whole, loss(1000, 600_000).whole), (None, Some((9.0, 0.0))));
}

const RUNS: u64 = 16;

#[test]
fn a_simulation_agrees_with_loops_through_the_library() {
    let small = || world(6, 0.5, 0.1, 20_000);
    let config = || Config::new(6, 1.0);
    let revenue = || World { amount: Some(20.0), spread: 1.2, most: 10_000.0, ..small() };
    let of_revenue = |learn_clip| Config { reward_max: 10_000.0, reward_bits: 24, learn_clip, ..config() };
    let worlds = [
        (small(), config()),
        (World { amount: Some(20.0), most: 50.0, ..small() }, Config { reward_max: 50.0, ..config() }),
        (World { slots: 3, ..small() }, Config { max_slots: 3, ..config() }),
        (World { change_every: 7000, ..small() }, config()),
        (World { change_every: 7000, ..small() }, Config { forget_after: 3000, ..config() }),
        // A policy tries arms by number, so the first of them must not be better than others.
        (world(200, 0.5, 0.1, 50), Config::new(200, 1.0)),
        (revenue(), of_revenue(true)),
        (revenue(), of_revenue(false)),
    ];
    let limits = Limits { first_runs: RUNS, most_runs: RUNS, seconds: f64::INFINITY, threads: 2 };
    let mut losses = Vec::new();
    for (world, config) in &worlds {
        let player = Player { algorithm: Algorithm::Imed, config: config.clone() };
        let loss = simulate(world, std::slice::from_ref(&player), 1, limits, |_| true).unwrap().unwrap()[0];
        let direct = direct(world, &player, RUNS);
        assert_eq!(loss.simulated, world.horizon);
        assert!(agrees(&loss, direct) && loss.part == loss.whole.unwrap(), "{loss:?} {direct:?}");
        losses.push(loss.part.0 / world.rotation() / world.horizon as f64);
    }
    let [clicks, amounts, _, drift, forgetting, _, clipped, unclipped] = losses[..] else { panic!() };
    println!("{losses:?}");
    assert!(amounts > 1.5 * clicks && drift > 5.0 * clicks && forgetting < 0.8 * drift, "{losses:?}");
    assert!(clipped < 0.5 * unclipped, "{losses:?}");
}

/// Whatever time there is, and however slow other policies are: what is simulated in it agrees with loops.
fn policies_do_not_limit_each_other(world: &World, seconds: f64) {
    let player = |algorithm, epsilon| Player { algorithm, config: Config::new(200, epsilon) };
    let mut players: Vec<_> = [0.25, 1.0].map(|epsilon| player(Algorithm::Imed, epsilon)).to_vec();
    players.extend([Algorithm::Med, Algorithm::NonprivateImed].map(|slow| player(slow, 1.0)));
    let limits = Limits { first_runs: RUNS, most_runs: RUNS, seconds, threads: 2 };
    let losses = simulate(world, &players, 1, limits, |_| true).unwrap().unwrap();
    for (player, loss) in players.iter().zip(&losses).take(2) {
        let direct = direct(world, player, RUNS);
        println!("epsilon {}: {loss:?}, in loops {direct:?}", player.config.epsilon);
        assert!(agrees(loss, direct), "{loss:?} {direct:?}");
    }
}

#[test]
fn two_hundred_ads_agree_with_loops() {
    policies_do_not_limit_each_other(&world(200, 0.5, 0.1, 200_000), 0.5);
}

#[test]
#[ignore = "a billion decisions"]
fn two_hundred_ads_agree_with_loops_at_click_rates() {
    policies_do_not_limit_each_other(&world(200, 0.01, 0.002, 35_000_000), 60.0);
}

/// How long an A/B test runs: longer at a smaller epsilon, with a delay, and at a higher confidence. One that cannot end
/// in its days is counted.
#[test]
fn a_test_that_stops_is_simulated() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("winner");
    let tested = |more: &[&str]| {
        let common = ["--winner", "--decisions", "1000", "--rate", "0.6", "--worst", "0.4", "--arms", "2"];
        run(&options(&[&common[..], &["--runs", "20", "--out", out.to_str().unwrap()], more].concat())).unwrap()
    };
    let length = |said: &str, epsilon: &str| -> f64 {
        let row = said.split_once(&format!("\n| {epsilon} | ")).unwrap().1;
        row.split_once(" ±").unwrap().0.replace(',', "").parse().unwrap()
    };
    let said = tested(&[]);
    assert_eq!(said, tested(&["--threads", "1"]), "not reproducible");
    assert!(said.contains("at confidence 0.95") && said.contains("(days: "), "{said}");
    let (strict, loose) = (length(&said, "0.1"), length(&said, "1"));
    assert!(loose > 150.0 && loose < 1200.0 && strict > 1.5 * loose, "{said}");
    let delayed = tested(&["--delay", "1d"]);
    assert!(length(&delayed, "1") > loose + 500.0, "{delayed}");
    let sure = tested(&["--confidence", "0.9999"]);
    assert!(length(&sure, "1") > loose, "{sure}");
    let tolerant = tested(&["--tolerance", "0.3"]);
    assert!(length(&tolerant, "1") < loose && tolerant.contains("a worse arm by the tolerance or more"), "{tolerant}");
    let alike = tested(&["--tolerance", "0.2", "--worst", "0.6"]);
    assert!(length(&alike, "1") > 100.0 && alike.contains("0 of all 100 ended with a worse arm"), "{alike}");
    let short = tested(&["--days", "0.1"]);
    assert!(short.contains("| 0.1 | 0 of 20 ended |"), "{short}");
}

#[test]
fn options_are_checked() {
    let wrong: &[(&[&str], &str)] = &[
        (&["--arms", "1"], "--arms: \"1\" is not a number in 2..=1048576"),
        (&["--epsilon", "1,x"], "--epsilon: \"x\" is not a number"),
        (&["--epsilon", "-1"], "--epsilon: \"-1\" is not a number"),
        (&["--policy", "dp-imed,best"], "--policy: name must be the name of a policy"),
        (&["--rate", "nan"], "--rate: \"nan\" is not a number"),
        (&["--speed", "1"], "--speed"),
        (&["log.csv"], "log.csv"),
        (&["--log"], "--log"),
        (&["--worst", "0.1", "--rate", "0.1"], "--worst: 0.1 is not below --rate"),
        (&["--slots", "3", "--arms", "3"], "--slots: 3 is not below --arms, 3"),
        (&["--slots", "3", "--max-clicks", "4"], "--max-clicks: 4 is above --slots, 3"),
        (&["--amount", "20"], "--amount: is above --reward-max, 1"),
        (&["--spread", "1"], "--spread: has no meaning without --amount"),
        (&["--winner", "--learn-clip"], "--learn-clip: has no meaning with --winner"),
        (&["--delay", "5w"], "--delay: \"5w\" is neither a time"),
        (&["--delay", "1.5"], "--delay: \"1.5\" is neither a time"),
        (&["--log", "x", "--reward-min", "2"], "--reward-max: 1 is not above the smallest reward, 2"),
        (&["--log", "x", "--delay", "30m"], "--delay: must be a number of decisions with --log"),
        (&["--log", "x", "--arms", "5"], "--arms: has no meaning with --log"),
        (&["--reward-min", "-1"], "--reward-min: has no meaning without --log"),
        (&["--log", "x", "--winner"], "--winner: has no meaning with --log"),
        (&["--winner", "--slots", "2"], "--slots: has no meaning with --winner"),
        (&["--confidence", "0.9"], "--confidence: has no meaning without --winner"),
        (&["--tolerance", "0.1"], "--tolerance: has no meaning without --winner"),
        (&["--winner", "--confidence", "1"], "--confidence: \"1\" is not a number"),
    ];
    for (arguments, says) in wrong {
        let said = Options::parse(lexopt::Parser::from_args(*arguments)).err().unwrap().to_string();
        assert!(said.contains(says), "{said}, in place of {says}");
    }
    let late: &[(&[&str], &str)] = &[
        (&["--delay", "9999h"], "--delay: "),
        (&["--arms", "1000000", "--threads", "2"], "--arms: 44 runs at a time take up to 26 GB"),
        (&["--policy", "tsallis", "--processes", "2"], "--policy: none can be simulated\ntsallis: "),
        (
            &["--learn-clip", "--costs", "0.1", "--policy", "dp-imed"],
            "--policy: none can be simulated\ndp-imed: this configuration does not support costs and abstain",
        ),
        (&["--log", "no/such/log"], "no/such/log: "),
        (&["--winner", "--policy", "dp-imed"], "testing: this policy does not support a best arm"),
    ];
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused");
    for (arguments, says) in late {
        let said = run(&options(&[arguments, &["--out", out.to_str().unwrap()][..]].concat())).unwrap_err().to_string();
        assert!(said.contains(says), "{said}, in place of {says}");
    }
}

/// A long log takes no more memory than a short one. Measures the process, so run it alone.
#[test]
#[ignore = "ten million lines"]
#[cfg(target_os = "linux")]
fn ten_million_lines_stream() {
    const LINES: u64 = 10_000_000;
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = place.join("long.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    writeln!(file, "arm,propensity,reward").unwrap();
    for line in 0..LINES {
        writeln!(file, "{},0.25,{}", line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62, line % 7 / 6).unwrap();
    }
    file.into_inner().unwrap();
    let arguments =
        ["--log", path.to_str().unwrap(), "--out", place.to_str().unwrap(), "--epsilon", "1", "--policy", "dp-imed"];
    let options = Options::parse(lexopt::Parser::from_args(arguments)).unwrap().unwrap();
    let said = run(&options).unwrap();
    assert!(said.contains("10,000,000 decisions, 4 arms"), "{said}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // The file has 140 MB.
    assert!(kilobytes < 50_000, "{peak}");
    std::fs::remove_file(path).unwrap();
}
