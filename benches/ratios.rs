//! Measures the time of decisions and updates, compared with a reference in the same run: `cargo bench -p dpb-benches`.
//!
//! On a shared machine, nanoseconds vary with the load. So criterion measures each case twice. `time` is its time.
//! `ratio` is the number of rounds of its reference that take the same time. For the ratio, the case and the reference
//! take turns within each sample. `--save-baseline` and `--baseline` compare two commits. With `--instructions` as the
//! only argument, callgrind counts instructions instead, which do not depend on the load.

mod cases;
mod linear;
mod threads;

use cases::{Case, Run};
use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{Criterion, Throughput};
use std::process::Command;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match &arguments[1..] {
        // This program runs itself with this option under callgrind.
        [flag, name, rounds] if flag == "--count" => {
            let case = cases().into_iter().find(|case| case.name == *name).expect("the name of a case");
            (case.make)()(rounds.parse().expect("a number"));
            return;
        }
        [flag, ..] if flag == "--instructions" => return cases::cases().iter().for_each(instructions),
        _ => {}
    }
    // Few samples are enough, because each has thousands of rounds.
    let mut time = Criterion::default().sample_size(50).configure_from_args();
    measured(&mut time, "time", |case| case.name.clone(), |case, rounds| (case.run)(rounds));
    let mut ratio = Criterion::default().sample_size(50).with_measurement(Ratio).configure_from_args();
    measured(&mut ratio, "ratio", |case| format!("{} : {}", case.name, case.reference.name), beside);
    time.final_summary();
}

fn cases() -> Vec<Case> {
    cases::cases().into_iter().chain(linear::releases()).chain(threads::cases()).collect()
}

struct Running {
    run: Run,
    reference: Run,
}

fn measured<M: Measurement + 'static>(
    criterion: &mut Criterion<M>,
    group: &str,
    name: impl Fn(&Case) -> String,
    mut sample: impl FnMut(&mut Running, u64) -> M::Value,
) {
    let mut group = criterion.benchmark_group(group);
    let is_tested = std::env::args().any(|argument| argument == "--test"); // each case once
    for case in cases() {
        let name = name(&case);
        let Case { make, warm_up, reference, .. } = case;
        let mut reference = Some(reference.run);
        let mut running = None;
        group.bench_function(name, |bencher| {
            let running = running.get_or_insert_with(|| {
                let mut run = make();
                run(if is_tested { 1 } else { warm_up });
                Running { run, reference: reference.take().expect("made once") }
            });
            bencher.iter_custom(|rounds| sample(running, rounds));
        });
    }
    group.finish();
}

/// The number of rounds of the reference that take as long as this number of rounds of the case.
fn beside(case: &mut Running, rounds: u64) -> f64 {
    // Short turns are interrupted less often.
    const TURNS: u64 = 8;
    let (mut own, mut other) = (0.0, 0.0);
    for turn in 0..TURNS {
        let rounds = rounds / TURNS + u64::from(turn < rounds % TURNS);
        own += (case.run)(rounds).as_secs_f64();
        other += (case.reference)(rounds).as_secs_f64();
    }
    own / other * rounds as f64
}

/// A measurement of criterion in multiples of the reference's time.
struct Ratio;

impl Measurement for Ratio {
    type Intermediate = ();
    type Value = f64;

    fn start(&self) {}

    fn end(&self, (): ()) -> f64 {
        unreachable!("only iter_custom is called")
    }

    fn add(&self, one: &f64, other: &f64) -> f64 {
        one + other
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, value: &f64) -> f64 {
        *value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Ratio
    }
}

impl ValueFormatter for Ratio {
    fn scale_values(&self, _: f64, _: &mut [f64]) -> &'static str {
        "x the reference"
    }

    fn scale_throughputs(&self, _: f64, _: &Throughput, _: &mut [f64]) -> &'static str {
        "x the reference"
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        "x the reference"
    }
}

/// Prints the number of instructions of one round after the warm-up.
fn instructions(case: &Case) {
    const ROUNDS: u64 = 20_000;
    let counted = |rounds: u64| {
        let me = std::env::current_exe().expect("the path of this program");
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(me)
            .args(["--count", &case.name, &rounds.to_string()])
            .output()
            .expect("valgrind");
        let text = String::from_utf8_lossy(&run.stderr);
        let line = text.lines().find(|line| line.contains("Collected :")).expect("callgrind's count");
        line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).expect("a number")
    };
    let warm = case.warm_up.min(10 * ROUNDS);
    println!("{:<62} {:>12.0}", case.name, (counted(warm + ROUNDS) - counted(warm)) / ROUNDS as f64);
}
