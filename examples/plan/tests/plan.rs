//! The plan's intervals cover a planted truth, estimators that are broken do not, and bad input is named.

use dpb::{Algorithm, Bandit, Config, Random, Request, Seed};
use indicatif::ProgressBar;
use plan::log::{Logged, MOST_LINE};
use plan::replay::{Candidate, Estimate, Evaluation, Fixed, Plan, Replay, survey};
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
const LOGS: u64 = 400;

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
            let logged = Logged { arm: arms[which], propensity, reward, eligible: arms, features: &[] };
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

/// Are the intervals what they claim? With coverage 0.95 more than 45 of 400 intervals miss with probability 1e-7; the
/// mean of all estimates is more than 5 standard errors off with 6e-7. Useless widths are refused too.
fn check(truth: f64, estimates: impl Iterator<Item = Estimate> + Clone) -> Result<(), String> {
    let n = estimates.clone().count() as f64;
    let misses = estimates.clone().filter(|estimate| (estimate.mean - truth).abs() > estimate.width).count();
    let mean = estimates.clone().map(|estimate| estimate.mean).sum::<f64>() / n;
    let deviation = (estimates.clone().map(|estimate| (estimate.mean - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let width = estimates.map(|estimate| estimate.width).sum::<f64>() / n;
    let bias = (mean - truth) / (deviation / n.sqrt());
    let said = format!("truth {truth:.4}, mean {mean:.4}, bias {bias:.1} s.e., {misses} misses, width {width:.4}");
    if misses <= 45 && bias.abs() <= 5.0 && width < 4.0 * deviation { Ok(()) } else { Err(said) }
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

#[test]
fn what_is_wrong_with_a_log_is_named() {
    let long = "x".repeat(2 * MOST_LINE);
    let row = |text: &str| format!("arm,propensity,reward,eligible,features\n{text}\n");
    let json = |text: &str| format!("{{\"arm\":1,\"propensity\":0.5,\"reward\":0}}\n{text}\n");
    let wrong: Vec<(String, &str)> = vec![
        (String::new(), "no decision in 0 lines"),
        ("\n\n \n".into(), "no decision in 3 lines"),
        ("arm,propensity,reward\n".into(), "no decision in 1 lines"),
        (row("a,0.5,1,,\na,0.5,0,,"), "only one arm in 2 decisions"),
        ("arm,reward\na,1\n".into(), "line 1, propensity: the header has no such column"),
        ("arm,arm,propensity,reward\n".into(), "line 1, arm: two columns of this name"),
        ("arm,propensity,reward\na,0.5\n".into(), "line 2, reward: is missing"),
        (row("a,half,1,,"), "line 2, propensity: \"half\" is not a number"),
        (row("a,0.5,1,,\n\nb,0.5,,,"), "line 4, reward: \"\" is not a number"),
        (row("a,0,1,,"), "line 2, propensity: 0 is not a probability above 0"),
        (row("a,1.5,1,,"), "line 2, propensity: 1.5 is not a probability above 0"),
        (row("a,NaN,1,,"), "line 2, propensity: NaN is not a probability above 0"),
        (row("a,0.5,2,,"), "line 2, reward: 2 is not in 0..=1 (--reward-min, --reward-max)"),
        (row("a,0.5,nan,,"), "line 2, reward: NaN is not in 0..=1"),
        (row(",0.5,1,,"), "line 2, arm: is empty"),
        (row(&format!("{},0.5,1,,", "y".repeat(300))), "line 2, arm: is longer than 256 bytes"),
        (row("a,0.5,1,b c,"), "line 2, eligible: lacks the arm that was chosen"),
        (row("a,0.5,1,,1 2\nb,0.5,1,,1"), "line 3, features: 1 numbers, where the lines before have 2"),
        (row("a,0.5,1,,1 inf"), "line 2, features: inf is not a finite number"),
        (row("a,0.5,1,,1 x"), "line 2, features: \"x\" is not a number"),
        (row(&format!("a,0.5,1,,{}", "1 ".repeat(257))), "line 2, features: 257 numbers are more than 256"),
        (row("\"a,0.5,1,,\nb,0.5,1,,"), "line 2: a quote is not closed"),
        (row(&format!("a,0.5,1,,\nb,{long}")), "line 3: is longer than 1048576 bytes"),
        (long, "line 1: is longer than 1048576 bytes"),
        (json("{\"arm\":1,"), "line 2, JSON: "),
        (json("[1, 0.5, 0]"), "line 2, arm: is missing"),
        (json("{\"arm\":[1],\"propensity\":0.5,\"reward\":0}"), "line 2, arm: \"[1]\" is neither text nor a number"),
        (
            json("{\"arm\":1,\"propensity\":\"0.5\",\"reward\":0}"),
            "line 2, propensity: \"\\\"0.5\\\"\" is not a number",
        ),
        (json("{\"arm\":1,\"propensity\":0.5,\"reward\":0,\"eligible\":2}"), "line 2, eligible: \"2\" is not a list"),
        (
            json("{\"arm\":1,\"propensity\":0.5,\"reward\":0,\"features\":[true]}"),
            "line 2, features: \"true\" is not a number",
        ),
    ];
    for (at, (text, says)) in wrong.iter().enumerate() {
        let path = file(&format!("wrong-{at}"), text.as_bytes());
        let said =
            survey(&path, (0.0, 1.0), &ProgressBar::hidden()).err().unwrap_or_else(|| panic!("not refused: {says}"));
        assert!(said.contains(says) && said.len() < 600, "{said}, in place of {says}");
    }
    let said =
        survey(&file("not-text", b"arm,propensity,reward\n\xff\xfe,0.5,1\n"), (0.0, 1.0), &ProgressBar::hidden());
    assert!(said.err().unwrap().contains("line 2: is not UTF-8"));
    let said = survey(Path::new("no/such/log"), (0.0, 1.0), &ProgressBar::hidden()).err().unwrap();
    assert!(said.starts_with("no/such/log: "), "{said}");
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
    let said = simulated(&[]);
    assert_eq!(said, simulated(&["--threads", "1"]), "not reproducible");
    assert!(said.contains("The best option wins 10,000; an even rotation of all loses 4,000 of these."), "{said}");
    // A tenth of the rotation's loss is far above what it takes at epsilon 2, and 0.01 costs many times more.
    let (strict, loose) = (lost(&simulated(&["--epsilon", "0.01,2"]), "0.01"), lost(&said, "2"));
    assert!(loose > 0.0 && loose < 400.0 && strict > 3.0 * loose, "{strict} {loose}");
    let (delayed, limited) = (simulated(&["--delay", "6h"]), simulated(&["--users-limit", "20"]));
    assert!(delayed.contains("rewards after 5000 decisions") && lost(&delayed, "2") > loose + 300.0, "{delayed}");
    assert!(lost(&limited, "0.5") > 3.0 * lost(&said, "0.5"), "{limited}");
    let fleet = simulated(&["--processes", "3"]);
    assert!(fleet.contains("dp-ts at epsilon 1: this policy does not support") && lost(&fleet, "1") > 0.0, "{fleet}");
    let svg = std::fs::read_to_string(out.join("plan.svg")).unwrap();
    assert!(svg.contains("dp-imed") && svg.contains("nonprivate-imed") && svg.ends_with("</svg>\n"), "{svg}");
    // Half a second is enough for a part, and the rest is estimated.
    let part = run(&options(&[
        "--days",
        "1000",
        "--seconds",
        "0.1",
        "--epsilon",
        "1",
        "--policy",
        "dp-imed",
        "--out",
        out.to_str().unwrap(),
    ]));
    assert!(part.unwrap().contains("Simulated were the first"));
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
    ];
    for (arguments, says) in wrong {
        let said = Options::parse(lexopt::Parser::from_args(*arguments)).err().unwrap().to_string();
        assert!(said.contains(says), "{said}, in place of {says}");
    }
    let late: &[(&[&str], &str)] = &[
        (&["--worst", "0.1", "--rate", "0.1"], "--worst: 0.1 is not below --rate"),
        (&["--delay", "5d"], "--delay: 5d is not a time"),
        (&["--delay", "9999h"], "--delay: "),
        (&["--log", "x", "--reward-min", "2"], "--reward-min: 2 is not below"),
        (&["--log", "no/such/log"], "no/such/log: "),
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
