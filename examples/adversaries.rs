//! Prints the regret against the five adversaries of Tossou and Dimitrakakis (2017), Figure 1, with K = 4 arms: the
//! median of means over 24 groups of runs.
//!
//! `cargo run --release -p dpb-figures --example adversaries [RUNS [LOG2_T [EPSILON]]]`
//!
//! By default RUNS is 48 (720 in the paper), LOG2_T is 18, and EPSILON is that of the paper's tau (`papers_level`).

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
