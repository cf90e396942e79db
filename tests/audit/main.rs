//! Does a policy keep its privacy claim? Audits it through the C interface.
//!
//! `cargo run --release --example audit -- <policy> --epsilon E [--delta D] [--sabotage NAME] [--runs N] [--arms K]`
//!
//! Prints the measured loss and PASS (exit code 0) or FAIL (1); bad usage is 2. With `--sabotage` the
//! library is broken on purpose, and FAIL is what should come.

mod auditor;

use auditor::{Case, FAILURE, SIGHTS};
use dpb::{Algorithm, Fault};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (case, verdict) = match parse(&arguments).and_then(|case| case.run().map(|verdict| (case, verdict))) {
        Ok(audited) => audited,
        Err(problem) => {
            eprintln!("audit: {problem}\n\n{}", usage());
            return ExitCode::from(2);
        }
    };
    let claim = case.epsilon * case.changed() as f64;
    println!(
        "{}, fault: {}, arms: {}, changed rewards: {}",
        case.policy.name(),
        name(case.fault),
        case.arms,
        case.changed()
    );
    println!("  claimed loss   {claim} at delta {}", case.delta);
    println!("  measured loss  at least {:.4}, wrong with chance {FAILURE:e}", verdict.epsilon.max(0.0));
    println!(
        "  told most by   {}, on table {}: {} of {} runs against {}",
        SIGHTS[verdict.sight], verdict.candidate, verdict.hits.0, case.runs, verdict.hits.1
    );
    println!("{}", if verdict.alarm { "FAIL" } else { "PASS" });
    ExitCode::from(u8::from(verdict.alarm))
}

fn parse(arguments: &[String]) -> Result<Case, String> {
    let mut arguments = arguments.iter();
    let policy = arguments.next().ok_or("which policy?")?;
    let policy = Algorithm::ALL.iter().find(|a| a.name() == policy).ok_or(format!("no policy {policy}"))?;
    let (mut epsilon, mut delta, mut fault, mut runs, mut arms) = (None, None, Fault::None, 4000, 5);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or(format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--epsilon" => epsilon = Some(number(flag, value)?),
            "--delta" => delta = Some(number(flag, value)?),
            "--runs" => runs = number(flag, value)?,
            "--arms" => arms = number(flag, value)?,
            "--sabotage" => {
                fault = *Fault::ALL.iter().find(|&&f| name(f) == *value).ok_or(format!("no sabotage {value}"))?;
            }
            _ => return Err(format!("no flag {flag}")),
        }
    }
    let epsilon = epsilon.ok_or("--epsilon is missing")?;
    if !(0.001..=20.0).contains(&epsilon) {
        return Err(format!("--epsilon must be in 0.001..=20 to be seen in any number of runs, got {epsilon}"));
    }
    let case = Case::new(*policy, epsilon)?;
    if runs < 100 {
        return Err("--runs must be at least 100".into());
    }
    Ok(Case { delta: delta.unwrap_or(case.delta), runs, arms, ..case }.with_fault(fault))
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{flag} is not {value}"))
}

/// HalfNoise is half-noise.
fn name(fault: Fault) -> String {
    let mut name = String::new();
    for letter in format!("{fault:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

fn usage() -> String {
    let policies: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
    let faults: Vec<_> = Fault::ALL.iter().map(|&fault| name(fault)).collect();
    format!(
        "usage: audit <policy> --epsilon E [--delta D] [--sabotage NAME] [--runs N] [--arms K]\n\npolicies: {}\nsabotage: {}",
        policies.join(" "),
        faults.join(" ")
    )
}
