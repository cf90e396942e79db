//! Audits the privacy loss of a policy through the C interface.
//!
//! `cargo run --release --example audit -- <policy> --epsilon E`; `--help` prints all options.
//!
//! `cargo run --release --example audit -- --power` prints how many runs detect how little noise.
//!
//! `cargo run --release --example audit -- --library libdpb.so` audits all policies of a released library: docs/audit.md.
//!
//! The first command prints the measured loss and PASS (exit code 0) or FAIL (1). Wrong arguments are exit code 2, and
//! so is a sabotage that changes nothing. With `--sabotage` the library is broken on purpose, and the result should be
//! FAIL.

mod auditor;
mod engine;
mod library;
mod sabotage;

use auditor::{Case, Delivery, FAILURE, Outcome, SIGHTS};
use dpb::Algorithm;
use library::Library;
use sabotage::Sabotage;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--power"] {
        return power();
    }
    if let [flag, file] = &arguments[..]
        && flag == "--library"
    {
        return match Library::open(file.as_ref()) {
            Ok(library) => released(library),
            Err(problem) => {
                eprintln!("audit: {problem}");
                ExitCode::from(2)
            }
        };
    }
    let (case, outcome) = match parse(&arguments).and_then(|case| case.run().map(|outcome| (case, outcome))) {
        Ok(audited) => audited,
        Err(problem) => {
            eprintln!("audit: {problem}\n\n{}", usage());
            return ExitCode::from(2);
        }
    };
    let Outcome { verdict, claim, delta, changed } = outcome;
    println!(
        "{}, sabotage: {}, arms: {}, changed rewards: {changed}",
        case.policy.name(),
        case.sabotage.name(),
        case.arms
    );
    println!("  claimed loss   {claim} at delta {delta}");
    println!("  measured loss  at least {:.4}, wrong with chance {FAILURE:e}", verdict.epsilon.max(0.0));
    println!(
        "  told most by   {}, on table {}: {} of {} runs against {}",
        SIGHTS[verdict.sight], verdict.candidate, verdict.hits.0, case.runs, verdict.hits.1
    );
    println!("{}", if verdict.alarm { "FAIL" } else { "PASS" });
    ExitCode::from(u8::from(verdict.alarm))
}

/// Audits all policies of a library. Half of each claim must be refuted: what misses a false claim would prove nothing. As
/// many runs as that takes must not refute the claim. In the local model the users' devices draw the noise.
fn released(library: Library) -> ExitCode {
    const MOST: u64 = 16_000;
    let audits = |policy: &Algorithm| !["nonprivate", "ldp"].iter().any(|kind| policy.name().starts_with(kind));
    let policies: Vec<Algorithm> = Algorithm::ALL.iter().copied().filter(audits).collect();
    let audit = |policy: Algorithm| -> Result<(Case, Outcome, bool), String> {
        let honest = Case::of(library, policy, 1.0)?;
        // With more arms, the released rewards of arm 0 are often among the pilot's, whose noise is drawn apart.
        let arms = if policy == Algorithm::Linear { 2 } else { honest.arms };
        let mut half = Case { runs: 1000, arms, claimed: 0.5, ..honest };
        let mut refuted = half.run()?.verdict.alarm;
        while !refuted && half.runs < MOST {
            half.runs *= 4;
            refuted = half.run()?.verdict.alarm;
        }
        let honest = Case { claimed: 1.0, ..half };
        honest.run().map(|outcome| (honest, outcome, refuted))
    };
    println!("Each policy of five arms at epsilon 1. A true claim is refuted with a chance of {FAILURE:e}.\n");
    println!("{:14} {:>7} {:>5} {:>7} {:>9}  the claim  half of it", "policy", "claim", "delta", "runs", "measured");
    let (mut failed, mut weak) = (0, 0);
    for some in policies.chunks(std::thread::available_parallelism().map_or(1, usize::from)) {
        let audited: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = some.iter().map(|&policy| scope.spawn(move || audit(policy))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no audit panics")).collect()
        });
        for (policy, audited) in some.iter().zip(audited) {
            let (case, Outcome { verdict, claim, delta, .. }, refuted) = match audited {
                Ok(audited) => audited,
                Err(problem) => {
                    eprintln!("audit: {}: {problem}", policy.name());
                    return ExitCode::from(2);
                }
            };
            let held = if verdict.alarm { "REFUTED" } else { "holds" };
            let half = if refuted { "refuted" } else { "not seen" };
            let least = verdict.epsilon.max(0.0);
            println!("{:14} {claim:7.3} {delta:5} {:7} {least:9.3}  {held:9}  {half}", policy.name(), case.runs);
            failed += u32::from(verdict.alarm);
            weak += u32::from(!refuted);
        }
    }
    println!("\n{}: {failed} claims are refuted.", if failed == 0 { "PASS" } else { "FAIL" });
    println!("In {weak} rows half of the claim was not seen to be false: they say little.");
    ExitCode::from(u8::from(failed > 0))
}

/// Prints, for each policy with noise, how many runs detect noise at half its scale, and at a quarter of it from the
/// second release on. It doubles the runs until the alarm, and fails if even the most runs raise none.
fn power() -> ExitCode {
    const MOST: u64 = 12_800;
    println!("Runs of each world until the alarm, which is false with a chance of {FAILURE:e} each time.\n");
    println!(
        "{:14} {:>7} {:>5} {:>4} {:>10} {:>13}",
        "policy", "epsilon", "delta", "arms", "half-noise", "quarter-later"
    );
    let cases: Vec<Case> = Algorithm::ALL.iter().copied().flat_map(Case::with_noise).collect();
    let enough = |case: &Case, sabotage| {
        let sizes = std::iter::successors(Some(100), |runs| (2 * runs <= MOST).then_some(2 * runs));
        let alarms = |&runs: &u64| {
            let outcome = Case { runs, ..case.clone() }.with(sabotage).run();
            outcome.expect("a case with noise").verdict.alarm
        };
        { sizes }.find(alarms)
    };
    let row = |case: &Case| [Sabotage::HalfNoise, Sabotage::QuarterLater].map(|sabotage| enough(case, sabotage));
    // Two threads: one takes the odd numbers, the other the even ones.
    let (even, odd): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| cases.iter().skip(1).step_by(2).map(row).collect());
        (cases.iter().step_by(2).map(row).collect(), odd.join().expect("no audit panics"))
    });
    let mut missed = 0;
    for (number, case) in cases.iter().enumerate() {
        let [half, later] = if number % 2 == 0 { even[number / 2] } else { odd[number / 2] };
        let shown = |enough: Option<u64>| enough.map_or("more".to_owned(), |runs| runs.to_string());
        let Case { policy, epsilon, delta, arms, .. } = case;
        println!("{:14} {epsilon:7} {delta:5} {arms:4} {:>10} {:>13}", policy.name(), shown(half), shown(later));
        missed += [half, later].iter().filter(|enough| enough.is_none()).count();
    }
    println!("\n{}", if missed == 0 { "all caught" } else { "NOT all caught" });
    ExitCode::from(u8::from(missed > 0))
}

fn parse(arguments: &[String]) -> Result<Case, String> {
    let mut arguments = arguments.iter();
    let policy = arguments.next().ok_or("which policy?")?;
    let policy: Algorithm = policy.parse().map_err(|_| format!("no policy {policy}"))?;
    let (mut epsilon, mut delta, mut sabotage) = (None, None, Sabotage::Nothing);
    let (mut runs, mut arms, mut contributions, mut delivery, mut later) = (4000, 5, 1, Delivery::Once, false);
    while let Some(flag) = arguments.next() {
        if flag == "--later" {
            later = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--epsilon" => epsilon = Some(number(flag, value)?),
            "--delta" => delta = Some(number(flag, value)?),
            "--runs" => runs = number(flag, value)?,
            "--arms" => arms = number(flag, value)?,
            "--contributions" => contributions = number(flag, value)?,
            "--delivery" => {
                let named = |delivery: &&Delivery| format!("{delivery:?}").to_lowercase() == *value;
                delivery = *Delivery::ALL.iter().find(named).ok_or(format!("no delivery {value}"))?;
            }
            "--sabotage" => {
                let named = |sabotage: &Sabotage| sabotage.name() == *value;
                sabotage = Sabotage::all().into_iter().find(named).ok_or(format!("no sabotage {value}"))?;
            }
            _ => return Err(format!("no flag {flag}")),
        }
    }
    let epsilon = epsilon.ok_or("--epsilon is missing")?;
    if !(0.001..=20.0).contains(&epsilon) {
        return Err(format!("--epsilon must be in 0.001..=20 to be seen in any number of runs, got {epsilon}"));
    }
    let case = Case::new(policy, epsilon)?;
    if runs < 100 {
        return Err("--runs must be at least 100".into());
    }
    let delta = delta.unwrap_or(case.delta);
    Ok(Case { delta, runs, arms, contributions, delivery, later, ..case }.with(sabotage))
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{flag} is not {value}"))
}

fn usage() -> String {
    let policies: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
    let sabotage: Vec<_> = Sabotage::all().into_iter().map(Sabotage::name).collect();
    let deliveries: Vec<_> = Delivery::ALL.iter().map(|delivery| format!("{delivery:?}").to_lowercase()).collect();
    format!(
        "usage: audit <policy> --epsilon E [--delta D] [--contributions M] [--delivery NAME] [--later]\n\
         \x20            [--sabotage NAME] [--runs N] [--arms K]\n\n\
         policies: {}\ndeliveries: {}\nsabotage: {}",
        policies.join(" "),
        deliveries.join(" "),
        sabotage.join(" ")
    )
}
