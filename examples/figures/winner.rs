//! libdpb's experiment with tests that stop: how many decisions it takes to know the best arm at a confidence.

use super::Options;
use super::clicks::mean;
use super::environment::instances;
use super::plot::table;
use super::runner::{Cell, Sample, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Random};
use std::error::Error;

/// A test's error probability.
const BETA: f64 = 0.01;
/// Where a test ends that has no winner.
const MOST: u64 = 10_000_000;
const EPSILONS: [f64; 2] = [1.0, 0.1];

/// A, B, C, and ten ads of .5% to 1%.
fn worlds() -> Vec<(&'static str, Vec<f64>)> {
    let ads = (0..10).map(|ad| 0.01 - 0.005 * f64::from(ad) / 9.0).collect();
    instances().into_iter().chain([("ten ads of .5% to 1%", ads)]).collect()
}

/// The winner of a test, if it has one by now.
type Winner = fn(&Bandit) -> Option<u32>;

/// Each way to find a winner: its name, the policy, and whether all arms are shown equally often.
const WAYS: [(&str, Algorithm, f64, Winner); 3] = [
    ("DP-TT", Algorithm::TopTwo, 0.0, |bandit| bandit.best_arm().ok()),
    ("DP-SE", Algorithm::Se, 0.0, |bandit| bandit.best_arm().ok()),
    ("`dpb_compare`, even shares", Algorithm::Imed, 1.0, compared),
];

/// The arm that is above every other one, each at its share of the confidence.
fn compared(bandit: &Bandit) -> Option<u32> {
    let arms = bandit.arm_reports().ok()?;
    let best = (0..arms.len()).max_by(|&a, &b| arms[a].mean.total_cmp(&arms[b].mean))?;
    let confidence = 1.0 - BETA / (arms.len() - 1) as f64;
    let is_above = |other: usize| {
        other == best || bandit.compare(best as u32, other as u32, confidence).is_ok_and(|(least, _)| least > 0.0)
    };
    (0..arms.len()).all(is_above).then_some(best as u32)
}

/// 1 if a test ends, 1 if it ends with another arm than the best, and its length.
fn length(way: (Algorithm, f64, Winner), rates: &[f64], epsilon: f64, trial: Trial) -> Vec<f64> {
    let (algorithm, exploration, winner) = way;
    let mut config = Config {
        beta: BETA,
        exploration,
        pending_capacity: 1,
        test_seed: Some(trial.policy_seed()),
        ..Config::new(rates.len() as u32, epsilon)
    };
    if algorithm == Algorithm::Se {
        config.horizon = MOST;
    }
    let bandit = Bandit::new(algorithm, &config).expect("a valid configuration");
    let (mut coins, mut next): (Random, _) = (trial.coins(), 1);
    for decisions in 1..=MOST {
        let decision = bandit.select().expect("a decision");
        let reward = f64::from(u8::from(coins.unit() < rates[decision.arm as usize]));
        bandit.update(decision.ticket, reward).expect("an accepted reward");
        // A comparison takes time, so they are rare, and cost the test at most a hundredth.
        if decisions >= next {
            if let Some(arm) = winner(&bandit) {
                let is_best = rates.iter().all(|&rate| rate <= rates[arm as usize]);
                return vec![1.0, f64::from(u8::from(!is_best)), decisions as f64];
            }
            next = if exploration > 0.0 { decisions + decisions / 100 + 1 } else { decisions + 1 };
        }
    }
    vec![0.0, 0.0, MOST as f64]
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, mut worlds) = (options.runs(2, 40), worlds());
    worlds.truncate(options.pick(1, worlds.len()));
    let mut cells = Vec::new();
    for (_, rates) in &worlds {
        for epsilon in EPSILONS {
            for (_, algorithm, exploration, winner) in WAYS {
                cells.push(Cell::new(runs, move |trial| {
                    length((algorithm, exploration, winner), rates, epsilon, trial)
                }));
            }
        }
    }
    let samples = run_cells("winner", &cells, options);
    let mut header = vec![String::from("arms, epsilon")];
    header.extend(WAYS.iter().map(|(name, ..)| (*name).to_owned()));
    let settings = worlds.iter().flat_map(|(name, _)| EPSILONS.map(|epsilon| format!("{name}, eps {epsilon}")));
    let row = |(setting, samples): (String, &[Sample])| {
        let cells = samples.iter().map(|sample| {
            let count = |place: usize| sample.0.iter().filter(|test| test[place] == 1.0).count();
            match (count(0), count(1)) {
                (ended, _) if ended < sample.0.len() => format!("{ended} of {runs} ended by {MOST}"),
                (_, 0) => mean(sample, 0),
                (_, wrong) => format!("{} ({wrong} wrong)", mean(sample, 0)),
            }
        });
        [setting].into_iter().chain(cells).collect()
    };
    let rows: Vec<_> = settings.zip(samples.chunks(WAYS.len())).map(row).collect();
    Ok(format!("Decisions until the best arm is known at beta = {BETA}, {runs} runs.\n\n{}", table(&header, &rows)))
}
