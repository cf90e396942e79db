//! The figures' fast simulations have the distribution of the public interface, and the program runs.

#[path = "../main.rs"]
#[allow(dead_code, reason = "these tests take a part of the program")]
mod figures;

use dpb::Algorithm;
use figures::environment::{Player, Recorder, SS19, Setting, decide, log_times, play};
use figures::fast;
use figures::linear::{self, Kind};
use figures::plot::{MOST_POINTS, thinned};
use figures::runner::{Cell, Curve, Trial, run};
use figures::{EXPERIMENTS, Options, perform};
use figures::{tails, trace, verdicts};
use std::path::{Path, PathBuf};

/// The curves' values at each of the times, for this many runs.
fn columns(runs: u64, seed: u64, play: impl Fn(Trial) -> Curve + Sync) -> Vec<Vec<f64>> {
    let sample = &run("", &[Cell::new(runs, play)], &Options { seed, threads: 2, ..Options::default() })[0];
    // Rounded, because sums of the same gaps in another order differ in the last bits.
    let rounded = |curve: &Curve, time: usize| (curve[time] * 1e6).round() / 1e6;
    (0..sample.0[0].len()).map(|time| sample.0.iter().map(|curve| rounded(curve, time)).collect()).collect()
}

/// The Kolmogorov-Smirnov distance of two samples.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let share = |sample: &[f64], x: f64| sample.iter().filter(|&&y| y <= x).count() as f64 / sample.len() as f64;
    a.iter().chain(b).map(|&x| (share(a, x) - share(b, x)).abs()).fold(0.0, f64::max)
}

/// Two samples of n from one distribution are farther apart than this with probability at most `failure`: 2 exp(-n d^2)
/// (Massart 1990 for each, Wei and Dudley 2012 for two of equal size n >= 458). Ties only make it rarer.
fn critical(n: usize, failure: f64) -> f64 {
    ((2.0 / failure).ln() / n as f64).sqrt()
}

/// If the distributions are equal, all comparisons of a test together fail with at most this probability.
const FAILURE: f64 = 1e-6;

fn largest_distance(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| distance(a, b)).fold(0.0, f64::max)
}

/// With a large beta, and gaps that the first epoch can hardly distinguish, epochs end in every way. The test detects
/// another beta (and, when tried by hand, half of the noise).
#[test]
fn whole_epochs_have_the_distribution_of_single_decisions() {
    const RUNS: u64 = 1000;
    let setting = Setting::new(&[0.6, 0.44, 0.44, 0.44, 0.44], 100_000);
    let (epsilon, beta, at) = (0.05, 0.9, log_times(1_000, 100_000, 8));
    let mut slow = Player::new("", Algorithm::Se, 5, epsilon, 0.0);
    slow.config.beta = beta;
    let public = columns(RUNS, 1, |trial| play(&slow, &setting, &at, trial));
    let bound = critical(RUNS as usize, FAILURE / at.len() as f64);
    let same = columns(RUNS, 2, |trial| fast::dp_se_with(epsilon, beta, &setting, &at, trial));
    assert!(largest_distance(&public, &same) < bound, "{} >= {bound}", largest_distance(&public, &same));
    let other = columns(RUNS, 3, |trial| fast::dp_se_with(epsilon, 0.5, &setting, &at, trial));
    assert!(largest_distance(&public, &other) > bound, "beta 0.5 for 0.9 went unnoticed");
    let values = |column: &Vec<f64>| column.iter().map(|x| x.to_bits()).collect::<std::collections::HashSet<_>>().len();
    assert!(values(&public[7]) > 10, "the regret takes too few values to compare");
}

/// The fast simulation draws noise from logarithms and plays the leader until others may pass it. The test detects a
/// tenth less of noise.
#[test]
fn private_ucb_has_the_distribution_of_the_library() {
    const RUNS: u64 = 1000;
    let setting = Setting::new(&[0.7, 0.5, 0.3], 4_000);
    let (epsilon, at) = (1.0, log_times(20, 4_000, 8));
    let library = Player::new("", Algorithm::PrivateUcb, 3, epsilon, 0.0);
    let public = columns(RUNS, 4, |trial| play(&library, &setting, &at, trial));
    let bound = critical(RUNS as usize, FAILURE / at.len() as f64);
    let same = columns(RUNS, 5, |trial| fast::private_ucb(epsilon, &setting, &at, trial));
    assert!(largest_distance(&public, &same) < bound, "{} >= {bound}", largest_distance(&public, &same));
    let other = columns(RUNS, 6, |trial| fast::private_ucb(epsilon / 0.9, &setting, &at, trial));
    assert!(largest_distance(&public, &other) > bound, "a tenth less of noise went unnoticed");
}

/// The fast simulation plays whole batches, with noise from logarithms and bisections. The test detects doubling
/// batches, and less caution (at eps 0.1, where it matters); and with forty arms another preference of the leader.
#[test]
fn dp_imed_has_the_distribution_of_the_library() {
    const RUNS: u64 = 1000;
    let many: Vec<f64> = (0..40).map(|arm| 0.5 - 0.01 * f64::from(arm)).collect();
    let default = tails::DEFAULT;
    for (means, others) in [
        (
            &[0.7, 0.5, 0.3][..],
            [tails::Variant { doubling: true, ..default }, tails::Variant { caution: 0.0, ..default }],
        ),
        (&many, [1.0, 20.0].map(|kappa| tails::Variant { kappa: Some(kappa), ..default })),
    ] {
        let setting = Setting::new(means, 10_000);
        let (epsilon, at) = (if means.len() > 3 { 1.0 } else { 0.1 }, log_times(100, 10_000, 8));
        let library = Player::new("", Algorithm::Imed, means.len(), epsilon, 0.0);
        let public = columns(RUNS, 4, |trial| play(&library, &setting, &at, trial));
        let bound = critical(RUNS as usize, FAILURE / (2 * at.len()) as f64);
        let same = columns(RUNS, 5, |trial| tails::imed(default, epsilon, &setting, &at, trial));
        assert!(largest_distance(&public, &same) < bound, "{} >= {bound}", largest_distance(&public, &same));
        for other in others {
            let other = columns(RUNS, 6, |trial| tails::imed(other, epsilon, &setting, &at, trial));
            assert!(largest_distance(&public, &other) > bound, "{} went unnoticed", largest_distance(&public, &other));
        }
    }
}

/// The important rows of the table, with 20 worlds each. The bounds are five standard errors of such a mean above the
/// measured value. Another policy with the same distribution fails with probability about 1e-4, given that few worlds
/// cost several times the mean.
#[test]
#[ignore = "a minute"]
fn contextual_decisions_cost_what_the_page_says() {
    let ads = Kind::Ads { cells: 0.0 };
    for (kind, epsilon, time, runs, most, worst) in [
        (ads, 1.0, 1_000_000, 20, 8.0, 20.0),
        (ads, 0.25, 100_000, 20, 50.0, 90.0),
        (ads, 1.0, 100_000, 20, 30.0, 60.0),
        (Kind::Unit(8), 0.25, 100_000, 4, 3.5, 5.0),
        (Kind::Unit(16), 0.25, 100_000, 8, 9.5, 14.0),
        (Kind::Items { curved: 0.0 }, 1.0, 100_000, 20, 14.5, 50.0),
    ] {
        let player = linear::linear(epsilon);
        let lost = columns(runs, 1, |trial| linear::play(kind, player, &[time], trial));
        let mean = lost[0].iter().sum::<f64>() / runs as f64;
        let largest = lost[0].iter().copied().fold(0.0, f64::max);
        println!("{kind:?}, eps {epsilon}, {time}: {mean:.1}, at most {largest:.1}");
        assert!(mean < most && largest < worst, "{kind:?}, eps {epsilon}, {time}: {mean} {largest}");
    }
}

/// Ending a run when the policy has decided does not change the curve.
#[test]
fn a_decided_policy_need_not_be_asked() {
    let (_, instance) = SS19[1];
    let setting = Setting::new(&instance(4), 200_000);
    let (at, player) = (log_times(10, 200_000, 50), Player::new("", Algorithm::Se, 4, 1.0, 0.0));
    for run in 0..3 {
        let trial = Trial { seed: 1, run };
        let (gaps, mut full, mut decided_at) = (setting.gaps(), Recorder::new(&at), None);
        decide(&player, &setting, trial, |bandit, arm| {
            full.step(gaps[arm]);
            decided_at = decided_at.or(bandit.best_arm().ok().map(|_| full.time()));
            true
        });
        assert!(decided_at.is_some_and(|time| time < 100_000), "{decided_at:?}");
        assert_eq!(play(&player, &setting, &at, trial), full.finish(0.0));
    }
}

#[test]
fn round_robins_are_recorded_as_single_steps_are() {
    let (at, gaps) = ([1, 2, 5, 7, 8, 30, 100], [0.0, 0.5, 0.25]);
    let mut whole = Recorder::new(&at);
    whole.round_robin(&gaps, 3);
    whole.round_robin(&gaps[1..], 4);
    let mut single = Recorder::new(&at);
    (0..9).for_each(|i| single.step(gaps[i % 3]));
    (0..8).for_each(|i| single.step(gaps[1 + i % 2]));
    assert_eq!(whole.time(), 17);
    assert_eq!(whole.finish(0.125), single.finish(0.125));
}

/// A file of this package.
fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Runs every experiment once.
#[test]
#[ignore = "a minute"]
fn every_experiment_runs_and_writes_what_the_page_shows() {
    let out = std::env::temp_dir().join(format!("dpb-figures-{}", std::process::id()));
    let options = Options { quick: true, most_runs: 1, out: out.clone(), threads: 2, ..Options::default() };
    for &(name, _, experiment) in EXPERIMENTS {
        let tables = perform(name, experiment, &options).unwrap();
        assert!(tables.lines().filter(|line| line.starts_with('|')).count() >= 4, "{tables}");
        assert!(!tables.contains("NaN") && !tables.contains("inf"), "{tables}");
    }
    let page = std::fs::read_to_string(here("README.md")).unwrap();
    let shown: Vec<_> = page.split("](out/").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(shown.len() >= 9, "{shown:?}");
    for file in shown {
        assert!(out.join(file).exists(), "{file} is shown, but not made");
        // Its points are in a file beside it, with the same columns as in the repository (one run has no bars).
        let lines = |path: PathBuf| -> Vec<String> {
            let points = std::fs::read_to_string(path).unwrap();
            let bar = |name: &String| name.ends_with(", low") || name.ends_with(", high");
            cells(points.lines().next().unwrap()).into_iter().filter(|name| !bar(name)).collect()
        };
        let points = Path::new(file).with_extension("csv");
        assert_eq!(lines(out.join(&points)), lines(here("out").join(&points)), "{file}");
    }
    std::fs::remove_dir_all(out).unwrap();
}

/// The page's numbers are those of the tables that the program wrote.
#[test]
fn the_page_quotes_the_tables() {
    let page = std::fs::read_to_string(here("README.md")).unwrap();
    for (name, _, _) in EXPERIMENTS {
        let tables = std::fs::read_to_string(here(&format!("out/{name}.md"))).unwrap();
        for line in tables.lines() {
            assert!(page.contains(line), "{name}: not on the page: {line}");
        }
    }
}

/// In no setting are more claims of tests wrong, or more intervals of right ones, than chance explains.
#[test]
fn claims_are_wrong_as_seldom_as_they_should_be() {
    let tables = std::fs::read_to_string(here("out/verdicts.md")).unwrap();
    assert!(tables.starts_with("Of 2000 tests "));
    let rows = tables.lines().filter(|line| line.starts_with('|')).skip(2);
    let counts =
        rows.map(|row| row.rsplit('|').skip(1).take(2).map(|cell| cell.trim().parse::<u64>().unwrap()).collect());
    let counts: Vec<Vec<u64>> = counts.collect();
    assert!(counts.len() == 40 && counts.iter().flatten().all(|&wrong| wrong <= verdicts::MOST_WRONG), "{counts:?}");
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let quoted = |(odd, part): (usize, &str)| if odd % 2 == 1 { part.replace(',', "\0") } else { part.into() };
    let line: String = line.split('"').enumerate().map(quoted).collect();
    line.split(',').map(|cell| cell.replace('\0', ",")).collect()
}

/// A plot's last points are the numbers of its table, because both are of the same runs.
#[test]
fn the_points_are_those_of_the_tables() {
    let read = |file: &str| std::fs::read_to_string(here("out").join(file)).unwrap();
    let points: Vec<_> = read("td16.csv").lines().map(cells).collect();
    let ends: Vec<_> = points.iter().filter(|row| row[1] == "100000").collect();
    let tables = read("td16.md");
    let rows: Vec<Vec<&str>> = tables.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    let mut compared = 0;
    for (column, name) in
        points[0].iter().enumerate().skip(2).filter(|(_, name)| !name.ends_with("low") && !name.ends_with("high"))
    {
        let row = rows.iter().find(|row| row.get(1) == Some(&name.as_str())).unwrap();
        for (panel, end) in ends.iter().enumerate() {
            let mean: f64 = end[column].parse().unwrap();
            assert_eq!(row[2 + panel].split(' ').next(), Some(format!("{mean:.0}").as_str()), "{name}, {panel}");
            compared += 1;
        }
    }
    assert_eq!(compared, 7 * 4);
}

/// The trace's world is the file: the days are in order, each with as many decisions as views.
#[test]
fn the_trace_is_the_file() {
    let text = std::fs::read_to_string(here("data/wikipedia.csv")).unwrap();
    let counts = |line: &str| line.split(',').skip(1).map(|cell| cell.parse().unwrap()).collect();
    let days: Vec<Vec<f64>> = text.lines().skip(1).map(counts).collect();
    let all: f64 = days.iter().flatten().sum();
    let (mut seen, mut means) = (0.0, [0.0; 9]);
    assert_eq!((days.len(), all), (550, 18_398_204.0));
    for views in &days {
        let today: f64 = views.iter().sum();
        for moment in [0.01, 0.99] {
            let until = (trace::WORLD.means)((seen + moment * today) / all, &mut means);
            assert!((until - (seen + today) / all).abs() < 1e-12);
            assert!(views.iter().zip(means).all(|(views, mean)| (views / today - mean).abs() < 1e-12));
        }
        seen += today;
    }
    // A policy that always shows one page gets that page's share of all views, up to the rounding of days to decisions.
    let at = [1_840_000];
    let share = trace::clicks(&at, |shares| shares[trace::MOST_READ])[0] / at[0] as f64;
    let views = |page: usize| days.iter().map(|views| views[page]).sum::<f64>();
    assert!((share - views(trace::MOST_READ) / all).abs() < 1e-4, "{share}");
    assert!((0..9).all(|page| views(page) <= views(trace::MOST_READ)));
}

/// A curve has at most 200 points, evenly spaced on its axis, in what is drawn and in what is committed.
#[test]
fn curves_have_few_points() {
    for log in [false, true] {
        let curve: Vec<(f64, f64)> = (1..=10_000).map(|x| (f64::from(x), 0.5)).collect();
        let thin = thinned(curve.clone(), log);
        assert!((100..=MOST_POINTS).contains(&thin.len()), "{}", thin.len());
        assert!(thin[0] == curve[0] && thin[thin.len() - 1] == curve[curve.len() - 1]);
        let steps = thin.windows(2).map(|pair| if log { (pair[1].0 / pair[0].0).ln() } else { pair[1].0 - pair[0].0 });
        let most = if log { 2f64.ln() } else { 52.0 };
        assert!(steps.fold(0.0, f64::max) <= most + 1e-9);
        assert_eq!(thinned(curve[..MOST_POINTS].to_vec(), log), curve[..MOST_POINTS]);
    }
    let mut curves = 0;
    for file in std::fs::read_dir(here("out")).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|ending| ending == "svg") {
            for line in std::fs::read_to_string(&file).unwrap().split("points=\"").skip(1) {
                curves += 1;
                let points: Vec<&str> = line.split('"').next().unwrap().split_whitespace().collect();
                assert!(points.len() <= MOST_POINTS, "{}: {}", file.display(), points.len());
            }
        }
    }
    assert!(curves > 500, "{curves}");
}
