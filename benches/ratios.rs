//! The time of the hot path, compared with a reference in the same run: `cargo bench -p dpb-benches`.
//!
//! Times on a shared machine vary. So each case and its reference alternate, a few milliseconds each. The program
//! prints the median of the ratios, and the instructions that callgrind counts (if valgrind is installed), which do not
//! vary.
//!
//! Arguments are parts of the names of cases, `threads` and `releases` included. Without arguments it runs all.
//! `--test` only checks that each case runs.

mod cases;
mod linear;
mod threads;

use cases::{Case, cases};
use std::process::Command;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // The program runs itself again under callgrind.
    if let [_, flag, name, rounds] = &arguments[..]
        && flag == "--count"
    {
        let case = cases().into_iter().find(|case| case.name == *name).expect("a case of ours");
        (case.make)()(rounds.parse().expect("a number"));
        return;
    }
    let parts: Vec<_> = arguments[1..].iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()));
    if arguments[1..].iter().any(|argument| argument == "--test") {
        return cases().iter().for_each(|case| (case.make)()(1000));
    }
    println!("{:<44} {:>8} {:>8}  {:<30} {:>12}", "", "ns", "ratio", "to", "instructions");
    for mut case in cases().into_iter().filter(|case| wanted(&case.name)) {
        let (ns, ratio) = beside(&mut case);
        let count = instructions(&case).map_or("-".into(), |count| format!("{count:.0}"));
        println!("{:<44} {ns:>8.1} {ratio:>8.2}  {:<30} {count:>12}", case.name, case.reference.name);
    }
    if wanted("releases") {
        linear::releases();
    }
    if wanted("threads") {
        threads::table();
        threads::fleet();
    }
}

/// The nanoseconds of one round, and their ratio to the reference's.
fn beside(case: &mut Case) -> (f64, f64) {
    const TURNS: usize = 1001;
    let time = |run: &mut dyn FnMut(u64), rounds: u64| {
        let start = Instant::now();
        run(rounds);
        start.elapsed().as_nanos() as f64 / rounds as f64
    };
    let mut run = (case.make)();
    run(case.warm_up);
    // Short runs are rarely interrupted.
    let rounds = |ns: f64| (1e5 / ns.max(1.0)) as u64 + 1;
    let own = rounds(time(&mut run, 1000));
    let others = rounds(time(&mut case.reference.run, 1000));
    let mut turns: Vec<(f64, f64)> = (0..TURNS)
        .map(|_| {
            let (own, other) = (time(&mut run, own), time(&mut case.reference.run, others));
            (own, own / other)
        })
        .collect();
    turns.sort_by(|a, b| a.1.total_cmp(&b.1));
    let ratio = turns[TURNS / 2].1;
    turns.sort_by(|a, b| a.0.total_cmp(&b.0));
    (turns[TURNS / 2].0, ratio)
}

/// The instructions of one round after warm-up; `None` without valgrind.
fn instructions(case: &Case) -> Option<f64> {
    const ROUNDS: u64 = 20_000;
    let counted = |rounds: u64| {
        let me = std::env::current_exe().ok()?;
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(me)
            .args(["--count", &case.name, &rounds.to_string()])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&run.stderr);
        let line = text.lines().find(|line| line.contains("Collected :"))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let warm = case.warm_up.min(10 * ROUNDS);
    Some((counted(warm + ROUNDS)? - counted(warm)?) / ROUNDS as f64)
}
