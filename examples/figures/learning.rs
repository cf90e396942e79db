//! libdpb's experiment for the README: how fast DP-IMED learns ten ads, by epsilon.

use super::Options;
use super::environment::{Player, Setting, Thompson, instances, log_times, play};
use super::plot::{Axis, Figure, Line, Panel, mean_curve, table};
use super::runner::{Cell, Sample, run as run_cells};
use dpb::Algorithm;
use std::error::Error;

/// The label, the policy (`None`: Thompson sampling), and epsilon.
const LINES: [(&str, Option<Algorithm>, f64); 6] = [
    ("epsilon 0.1", Some(Algorithm::Imed), 0.1),
    ("epsilon 0.25", Some(Algorithm::Imed), 0.25),
    ("epsilon 0.5", Some(Algorithm::Imed), 0.5),
    ("epsilon 1", Some(Algorithm::Imed), 1.0),
    ("not private (IMED)", Some(Algorithm::NonprivateImed), 1.0),
    ("not private (Thompson sampling)", None, 1.0),
];

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (horizon, runs) = (options.pick(100_000, 1_000_000), options.runs(8, 100));
    let at = log_times(1000, horizon, 40);
    let (_, means) = &instances()[1];
    let setting = Setting::new(means, horizon);
    let uniform = setting.gaps().iter().sum::<f64>() / means.len() as f64;
    let players = LINES.map(|(label, algorithm, epsilon)| {
        algorithm.map(|algorithm| Player::new(label, algorithm, means.len(), epsilon, 0.0))
    });
    let cells: Vec<Cell> = players
        .iter()
        .map(|player| {
            let (setting, at) = (&setting, &at);
            // In percent of the loss of a uniform rotation at the same time.
            let share = move |(&lost, &time): (&f64, &u64)| 100.0 * lost / (uniform * time as f64);
            Cell::new(runs, move |trial| {
                let lost = match player {
                    Some(player) => play(player, setting, at, trial),
                    None => Thompson::play(setting, at, trial),
                };
                lost.iter().zip(at).map(share).collect()
            })
        })
        .collect();
    let samples = run_cells("learning", &cells, options);
    let lines = |(place, sample): (usize, &Sample)| Line::new(LINES[place].0, place, mean_curve(&at, sample));
    let lines = samples.iter().enumerate().map(lines).collect();
    let (x, y) = (Axis { label: "decisions", log: true }, Axis { label: "% of the rotation's loss", log: false });
    let panels = vec![Panel { title: "clicks lost so far, ten ads of 5% to 1%".into(), x, y, lines }];
    Figure { name: "learning", columns: 1, panels }.write(&options.out)?;
    let header = ["", "after 10,000 decisions", "after 100,000", "at the end", "clicks lost"].map(String::from);
    let place = |time: u64| at.partition_point(|&t| t < time).min(at.len() - 1);
    let row = |(line, sample): (&(&str, Option<Algorithm>, f64), &Sample)| {
        let (mean, errors) = (sample.mean(), sample.errors());
        let of = |time: u64| format!("{:.1} ± {:.1}", mean[place(time)], errors[place(time)]);
        let (clicks, each) = (sample.last_mean(), 0.01 * uniform * horizon as f64);
        let clicks = format!("{:.0} ± {:.0}", each * clicks.0, each * clicks.1);
        vec![line.0.to_owned(), of(10_000), of(100_000), of(horizon), clicks]
    };
    let rows: Vec<_> = LINES.iter().zip(&samples).map(row).collect();
    Ok(format!(
        "Ten ads that are clicked by 5% down to 1%: clicks lost so far, in % of what a uniform rotation loses. \
         T = {horizon}, {runs} runs, mean ± standard error.\n\n{}",
        table(&header, &rows)
    ))
}
