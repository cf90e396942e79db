//! Regret against the five adversaries of Tossou and Dimitrakakis (2017), Figure 1: T = 2^18, K = 4,
//! median of means over 24 groups. `cargo run --release -p dpb-figures --example adversaries [RUNS [LOG2_T
//! [EPSILON]]]`; the paper has 720 runs.

#[path = "common/adversaries.rs"]
mod adversaries;

use adversaries::{ADVERSARIES, median_of_means, papers_level, players, tournament};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<f64>().expect("a number"));
    let runs = arguments.next().unwrap_or(48.0) as u64;
    let rounds = 1 << arguments.next().unwrap_or(18.0) as u32;
    let epsilon = arguments.next().unwrap_or_else(|| papers_level(rounds, 4));
    let players = players(rounds, 4, epsilon);
    println!("T = {rounds}, K = 4, {runs} runs, epsilon = {epsilon:.2}");
    print!("{:<16}", "");
    players.iter().for_each(|player| print!("{:>14}", player.0));
    for (name, adversary) in ADVERSARIES {
        print!("\n{name:<16}");
        for regrets in tournament(adversary, &players, rounds, runs) {
            print!("{:>14.0}", median_of_means(&regrets, 24));
        }
    }
    println!();
}
