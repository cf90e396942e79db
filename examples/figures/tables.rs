//! libdpb's experiment with tables: what is lost if programs elsewhere decide by a published table of probabilities, and
//! report what they have shown, instead of a handle that decides.

use super::Options;
use super::clicks::mean;
use super::plot::table;
use super::runner::{Cell, Curve, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Request, decide};
use std::error::Error;

/// The number of ads, with click rates from 5% down to 1%; and after how many decisions a reward takes effect.
const SETTINGS: [(u32, u32); 4] = [(10, 1000), (10, 10_000), (10, 50_000), (100, 10_000)];

#[derive(Clone, Copy)]
enum Player {
    /// One handle decides.
    Handle(Algorithm),
    /// A table of its weights decides for a quarter of the window, and every decision is recorded.
    Table,
    /// A table whose only arm is the one that the handle would choose when it begins.
    OneArm,
}

const PLAYERS: [(&str, Player); 4] = [
    ("`dp-imed`, one handle", Player::Handle(Algorithm::Imed)),
    ("`dp-med`, one handle", Player::Handle(Algorithm::Med)),
    ("`dp-med`, a table", Player::Table),
    ("`dp-imed`, the present arm as a table", Player::OneArm),
];

/// The loss in percent of that of uniform play.
fn play(player: Player, arms: u32, window: u32, decisions: u64, trial: Trial) -> Curve {
    let rates: Vec<f64> = (0..arms).map(|ad| 0.05 - 0.04 * f64::from(ad) / f64::from(arms - 1)).collect();
    let (algorithm, life) = match player {
        Player::Handle(algorithm) => (algorithm, u64::MAX),
        Player::Table => (Algorithm::Med, u64::from(window / 4)),
        Player::OneArm => (Algorithm::Imed, u64::from(window / 4)),
    };
    let (test_seed, table_capacity) = (Some(trial.policy_seed()), 2 * window);
    let config = Config { reward_window: window, table_capacity, test_seed, ..Config::new(arms, 1.0) };
    let bandit = Bandit::new(algorithm, &config).expect("a valid configuration");
    let (mut coins, mut lost, mut uniform) = (trial.coins(), 0.0, 0.0);
    let (mut version, mut weights, mut salt) = (0, vec![], [0; 16]);
    for number in 0..decisions {
        if life < u64::MAX && number % life == 0 {
            version = bandit.table_begin(life / 4).expect("a version");
            salt = std::array::from_fn(|_| b'a' + coins.below(26) as u8);
            weights = match player {
                Player::OneArm => {
                    let present = bandit.select().expect("a decision");
                    bandit.cancel(present.ticket).expect("an open decision");
                    (0..arms).map(|arm| u64::from(arm == present.arm) << 32).collect()
                }
                _ => bandit.weights(&Request::default()).expect("weights"),
            };
        }
        let decision = match player {
            Player::Handle(_) => bandit.select().expect("a decision"),
            _ => {
                let shown = decide(&weights, &salt, b"", number.to_string().as_bytes()).expect("a sound table");
                let request = Request { eligible: Some(&[shown.arm]), ..Request::default() };
                bandit.record(version, shown.id, &request).expect("a new id of an open version")
            }
        };
        let rate = rates[decision.arm as usize];
        bandit.update(decision.ticket, f64::from(u8::from(coins.unit() < rate))).expect("an accepted reward");
        lost += rates[0] - rate;
        uniform += rates[0] - rates.iter().sum::<f64>() / f64::from(arms);
    }
    vec![100.0 * lost / uniform]
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, decisions) = (options.runs(2, 12), options.pick(20_000, 1_000_000));
    let mut cells = Vec::new();
    for (_, player) in PLAYERS {
        for (arms, window) in SETTINGS {
            cells.push(Cell::new(runs, move |trial| play(player, arms, window, decisions, trial)));
        }
    }
    let samples = run_cells("tables", &cells, options);
    let mut header = vec![String::from("ads, window")];
    header.extend(SETTINGS.map(|(arms, window)| format!("{arms}, {window}")));
    let rows: Vec<Vec<String>> = PLAYERS
        .iter()
        .zip(samples.chunks(SETTINGS.len()))
        .map(|((name, _), samples)| {
            [(*name).to_owned()].into_iter().chain(samples.iter().map(|sample| mean(sample, 1))).collect()
        })
        .collect();
    Ok(format!(
        "The loss in percent of what uniform play loses: {decisions} decisions, eps 1, each reward takes effect a window \
         after its decision, a version of a table lives a quarter of a window; {runs} runs.\n\n{}",
        table(&header, &rows),
    ))
}
