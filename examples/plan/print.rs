//! The program's tables and plots.

use crate::log::Log;
use crate::options::Options;
use crate::plot::{Axis, BLACK, Figure, Line, Panel, Point, table};
use crate::replay::Estimate;
use crate::simulate::{Loss, World};
use crate::{Replayed, Simulated, Tested, doubt, indistinct, is_baseline, replayed, simulated, tested};
use dpb::Algorithm;
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;

/// Shows the progress of an action, whose share of completed work the returned function takes.
fn bar(action: &str) -> (ProgressBar, impl Fn(f64) -> bool + Sync) {
    const WHOLE: f64 = 1000.0;
    let style = ProgressStyle::with_template("{msg:<12} [{bar:30}] {percent}%  {elapsed} gone, {eta} left");
    let bar = ProgressBar::new(WHOLE as u64).with_style(style.expect("a valid template").progress_chars("##."));
    bar.set_message(action.to_owned());
    (bar.clone(), move |share| {
        bar.set_position((WHOLE * share.min(1.0)) as u64);
        true
    })
}

/// Returns the text to print, with the table. Writes plan.svg and plan.csv.
pub fn plan(options: &Options) -> Result<String, Box<dyn Error>> {
    std::fs::create_dir_all(&options.out)?;
    match &options.log {
        None if options.winner => of_tests(options),
        None => of_simulation(options),
        Some(log) => of_log(options, log),
    }
}

/// A rounded number with commas between thousands.
fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::from(if number <= -0.5 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn of_simulation(options: &Options) -> Result<String, Box<dyn Error>> {
    let (bar, progress) = bar("simulating");
    let done = simulated(options, progress);
    bar.finish_and_clear();
    let Simulated { world, named, losses, refusals } = done?;
    let point = |at: usize| {
        let Loss { part, whole, .. } = losses[at];
        whole.map(|(mean, error)| (mean, (mean - error).min(part.0), mean + error))
    };
    let title = "What is lost, by epsilon".to_owned();
    draw(options, &named, title, "lost rewards", true, point, None)?;
    let lost = lost(&world, &named, &options.epsilons, &losses);
    let left_out = if refusals.is_empty() { refusals } else { format!("\nLeft out:\n{refusals}") };
    let [most, rotation] = [world.best(), world.rotation()].map(|each| grouped(each * world.horizon as f64));
    let aim =
        format!("The best arms win {most}; an even rotation of all loses {rotation} of these. The policies lose:\n\n");
    let enough = options.lose.map_or(String::new(), |share| enough(share, &world, &named, &losses));
    Ok(described(options, &world) + &aim + &lost + &enough + &left_out + &written(options))
}

/// For each private policy the smallest epsilon at which, and above which, it loses no more than this share of what the
/// best arms win, by two standard errors.
fn enough(share: f64, world: &World, named: &[(Algorithm, f64)], losses: &[Loss]) -> String {
    let most = share * world.best() * world.horizon as f64;
    let mut text = format!("\nTo lose at most {}% of what the best arms win ({}):\n", 100.0 * share, grouped(most));
    let mut policies: Vec<Algorithm> = named.iter().map(|&(policy, _)| policy).filter(|&p| !is_baseline(p)).collect();
    policies.dedup();
    for policy in policies {
        let mut tried: Vec<(f64, f64)> =
            named.iter().zip(losses).filter(|((p, _), _)| *p == policy).map(by_loss).collect();
        tried.sort_by(|a, b| b.0.total_cmp(&a.0));
        let fits = tried.iter().take_while(|&&(_, loss)| loss <= most);
        text += &match fits.last() {
            None => format!("  {}: no epsilon of the table is enough\n", policy.name()),
            Some(&(epsilon, loss)) => {
                let all = if Some(epsilon) == tried.last().map(|tried| tried.0) { ", or a smaller one" } else { "" };
                let percent = 100.0 * loss / (world.best() * world.horizon as f64);
                format!("  {}: epsilon {epsilon}{all} (it loses at most {percent:.2}%)\n", policy.name())
            }
        };
    }
    text + "The loss is that of the table and two standard errors. Only the table's epsilons were tried: name more by --epsilon.\n"
}

/// An epsilon, and the most that it loses.
fn by_loss((&(_, epsilon), loss): (&(Algorithm, f64), &Loss)) -> (f64, f64) {
    (epsilon, loss.whole.map_or(f64::INFINITY, |(mean, error)| mean + 2.0 * error))
}

/// How long a test runs.
fn of_tests(options: &Options) -> Result<String, Box<dyn Error>> {
    let (bar, progress) = bar("testing");
    let done = tested(options, progress);
    bar.finish_and_clear();
    let tested = done?;
    let Tested { world, named, ended, refusals } = &tested;
    let days = |decisions: f64| {
        let days = decisions / world.daily as f64;
        if days < 10.0 { format!("{days:.1}") } else { grouped(days) }
    };
    let cell = |at: usize| {
        let ((mean, error), late) = (tested.mean(at), tested.late(at));
        if ended[at].iter().any(Option::is_none) {
            let done = ended[at].iter().flatten().count();
            return format!("{done} of {} ended", ended[at].len());
        }
        format!("{} ± {} (days: {}, 90% within {})", grouped(mean), grouped(error), days(mean), days(late))
    };
    let table = by_policy(named, &options.epsilons, cell);
    let title = "How long a test runs, by epsilon".to_owned();
    let point = |at: usize| {
        let (mean, error) = tested.mean(at);
        ended[at].iter().all(Option::is_some).then_some((mean, mean - error, mean + error))
    };
    draw(options, named, title, "decisions", true, point, None)?;
    let (runs, wrong) =
        (ended.iter().flatten().count(), ended.iter().flatten().flatten().filter(|(_, right)| !right).count());
    let left_out = if refusals.is_empty() { String::new() } else { format!("\nLeft out:\n{refusals}") };
    Ok(format!(
        "{}Decisions until the {} known at confidence {}:\n\n{table}\n±: the standard error of {} simulated \
         tests. {wrong} of all {runs} ended with a worse arm{}. Tests are not longer than {} days.\n{left_out}{}",
        described(options, world),
        if options.winners > 1 { format!("{} winners are", options.winners) } else { "winner is".to_owned() },
        options.confidence,
        ended.iter().map(Vec::len).max().unwrap_or(0),
        if options.tolerance > 0.0 { " by the tolerance or more" } else { "" },
        days(world.horizon as f64),
        written(options)
    ))
}

/// The table of losses, and what its numbers mean.
fn lost(world: &World, named: &[(Algorithm, f64)], epsilons: &[f64], losses: &[Loss]) -> String {
    let percent = |loss: f64| 100.0 * loss / (world.rotation() * world.horizon as f64);
    let in_part = |loss: &Loss| loss.simulated < world.horizon;
    let cell = |at: usize| match (losses[at].part.0, losses[at].whole) {
        (part, None) => format!("at least {} ({:.1}%)", grouped(part), percent(part)),
        (part, Some((whole, _))) if in_part(&losses[at]) => {
            format!("{} to {} ({:.1} to {:.1}%)", grouped(part), grouped(whole), percent(part), percent(whole))
        }
        (_, Some((whole, error))) => format!("{} ± {} ({:.1}%)", grouped(whole), grouped(error), percent(whole)),
    };
    let mut text = by_policy(named, epsilons, cell);
    let runs = losses.iter().map(|loss| loss.runs);
    let (least, most) = (runs.clone().min().unwrap_or(0), runs.max().unwrap_or(0));
    let runs = if least < most { format!("{least} to {most}") } else { most.to_string() };
    text +=
        &format!("\n±: the standard error of {runs} simulated runs. In brackets: percent of the rotation's loss.\n");
    if losses.iter().any(in_part) {
        let rest = if world.change_every > 0 {
            "that part. \"At least\": there is no estimate, because fewer than two spans between changes were simulated"
        } else {
            "the last three quarters of that part. This is an upper estimate, because a policy learns"
        };
        text += &format!(
            "A range: only a part of the decisions was simulated. The first number is the loss in that part. The \
             second is an estimate for all decisions, if the others lose as {rest}. Ranges are narrower with more \
             --seconds, fewer policies or fewer epsilons. Simulated decisions, of {}:\n\n{}",
            grouped(world.horizon as f64),
            by_policy(named, epsilons, |at| grouped(losses[at].simulated as f64))
        );
    }
    if losses.iter().any(|loss| loss.whole.is_some_and(|(whole, _)| percent(whole) > 100.0)) {
        text += "\nMore than 100%: worse than an even rotation, because the policy stayed with arms that are worse than \
                 their mean. In a range, it can also be the error of an estimate from too few decisions.\n";
    }
    text
}

/// The simulated service in words.
fn described(options: &Options, world: &World) -> String {
    let mut text = format!("{} arms with rewards", options.arms);
    match world.amount {
        Some(amount) => {
            let kind = match world.spread {
                0.0 => "exponential".into(),
                spread => format!("lognormal of spread {spread}"),
            };
            text += &format!(" of mean {amount}, {kind} and at most {},", world.most);
        }
        None if world.most != 1.0 => text += &format!(" of {}", world.most),
        None => {}
    }
    text += &format!(" in {} of decisions for the best down to {} for the worst; ", options.rate, options.worst());
    if options.learn_clip {
        text += "dp-imed learns a clip; ";
    }
    if world.payouts > 0.0 {
        text += &format!("each worth exp({} N) for an arm times the same in a request; ", world.payouts);
    }
    if world.costs > 0.0 {
        let none = if world.abstain { ", and a decision may choose no arm" } else { "" };
        text += &format!("each arm costs up to {} exp(N/2) in a request{none}; ", world.costs);
    }
    if world.slots > 1 {
        text += &format!("{} slots in a decision; ", world.slots);
    }
    let days = options.days();
    text += &format!("{} decisions a day", grouped(world.daily as f64));
    if !options.winner {
        text += &format!(" for {days} {}", if days == 1.0 { "day" } else { "days" });
    }
    text += &format!("; rewards after {} decisions; ", world.delay);
    if world.change_every > 0 {
        text += &format!("the arms exchange their rates every {} decisions; ", grouped(world.change_every as f64));
    }
    match options.decisions(options.forget_after) {
        0 => {}
        after => text += &format!("policies forget what is older than {} decisions; ", grouped(after as f64)),
    }
    let limit = u64::from(options.users_limit);
    let unit = if options.max_clicks > 0 {
        let clicks = plural(options.max_clicks.into(), "reward", "rewards");
        format!("{} of a person, with at most {clicks} each", plural(limit, "decision", "decisions"))
    } else {
        format!("{} of a person", plural(limit, "reward", "rewards"))
    };
    if world.people > 0 {
        let each = grouped(world.period as f64);
        let period = if world.period > 0 { format!("in each {each} decisions") } else { "for ever".to_owned() };
        text += &format!("{} people, limited {period}; ", grouped(world.people as f64));
    }
    text += &format!("{}; epsilon is for {unit}.\n", plural(u64::from(options.processes), "process", "processes"));
    text
}

fn plural(many: u64, one: &str, more: &str) -> String {
    if many == 1 { format!("1 {one}") } else { format!("{many} {more}") }
}

fn written(options: &Options) -> String {
    format!("\nWritten: {0}/plan.svg, {0}/plan.csv\n", options.out.display())
}

/// A table with a row for each epsilon, and a column for each policy. Each baseline has a row at the end.
fn by_policy(named: &[(Algorithm, f64)], epsilons: &[f64], cell: impl Fn(usize) -> String) -> String {
    let mut policies: Vec<Algorithm> = named.iter().map(|&(policy, _)| policy).collect();
    policies.dedup();
    let (baselines, private): (Vec<_>, Vec<_>) = policies.into_iter().partition(|&policy| is_baseline(policy));
    let place = |policy, epsilon| named.iter().position(|&(p, e)| p == policy && e == epsilon);
    let mut header: Vec<String> =
        std::iter::once("epsilon").chain(private.iter().map(|p| p.name())).map(String::from).collect();
    header.resize(header.len().max(2), String::new());
    let mut rows: Vec<Vec<String>> = Vec::new();
    if !private.is_empty() {
        for &epsilon in epsilons {
            let cells = private.iter().map(|&policy| place(policy, epsilon).map_or("-".into(), &cell));
            rows.push(std::iter::once(epsilon.to_string()).chain(cells).collect());
        }
    }
    for policy in baselines {
        let mut row = vec![format!("none ({})", policy.name())];
        row.push(place(policy, epsilons[0]).map_or("-".into(), &cell));
        row.resize(header.len(), String::new());
        rows.push(row);
    }
    table(&header, &rows)
}

/// Draws a line over epsilon for each policy, and a horizontal line for each baseline and for the log.
fn draw(
    options: &Options,
    named: &[(Algorithm, f64)],
    title: String,
    what: &'static str,
    log: bool,
    value: impl Fn(usize) -> Option<(f64, f64, f64)>,
    level: Option<(&str, f64)>,
) -> Result<(), Box<dyn Error>> {
    let ends = options.epsilons.iter().fold((f64::MAX, f64::MIN), |(low, high), &e| (low.min(e), high.max(e)));
    let ends = if ends.0 < ends.1 { [ends.0, ends.1] } else { [ends.0, 2.0 * ends.0] };
    let mut policies: Vec<Algorithm> = named.iter().map(|&(policy, _)| policy).collect();
    policies.dedup();
    let mut lines = Vec::new();
    for (colour, policy) in policies.into_iter().enumerate() {
        let places = named.iter().enumerate().filter(|(_, (p, _))| *p == policy);
        let mut points: Vec<Point> =
            places.filter_map(|(at, &(_, x))| value(at).map(|(y, low, high)| Point { x, y, low, high })).collect();
        if let (true, Some(&point)) = (is_baseline(policy), points.first()) {
            points = ends.map(|x| Point::new(x, point.y)).to_vec();
        }
        lines.push(Line::new(policy.name(), colour, points));
    }
    if let Some((name, y)) = level {
        lines.push(Line::new(name, BLACK, ends.map(|x| Point::new(x, y)).to_vec()));
    }
    lines.retain(|line| !line.points.is_empty());
    let (x, y) = (Axis { label: "epsilon", log: true }, Axis { label: what, log });
    Figure { name: "plan", columns: 1, panels: vec![Panel { title, x, y, lines }] }.write(&options.out)
}

fn of_log(options: &Options, path: &std::path::Path) -> Result<String, Box<dyn Error>> {
    let (checking, progress) = bar("checking");
    let (bar, again) = bar("replaying");
    let done = replayed(options, &Log::File(path), progress, again);
    checking.finish_and_clear();
    bar.finish_and_clear();
    let Replayed { survey, least, named, fixed, evaluations } = done?;
    let played = survey.entries as f64 * least;
    let mut text = format!(
        "{}: {} decisions, {} arms, propensities from {} (line {}) on; epsilon is for {} of a person.\n\
         Mean reward of a decision, with 95% intervals, in about the first {} decisions of a policy \
         (the log's times {least}):\n\n",
        path.display(),
        grouped(survey.entries as f64),
        survey.arms,
        survey.least.0,
        survey.least.1,
        plural(u64::from(options.users_limit), "reward", "rewards"),
        grouped(played),
    );
    let shown = |estimate: &Estimate| format!("{:.5} ± {:.5}", estimate.mean, estimate.width);
    let (logged, rotation) = fixed.estimates();
    let header = ["policy", "epsilon", "inverse propensity", "self-normalised", "doubly robust"].map(String::from);
    let mut rows = vec![vec!["the log's own".into(), "-".into(), shown(&logged), "-".into(), "-".into()]];
    let mut row = vec!["even rotation".into(), "-".into()];
    row.extend(rotation.iter().map(shown));
    rows.push(row);
    let mut notes = Vec::new();
    for ((policy, epsilon), evaluation) in named.iter().zip(&evaluations) {
        let epsilon = if is_baseline(*policy) { "none".into() } else { epsilon.to_string() };
        match evaluation {
            Ok(evaluation) => {
                let mut row = vec![policy.name().to_owned(), epsilon];
                row.extend(evaluation.estimates.iter().map(shown));
                rows.push(row);
                notes.extend(doubt(evaluation, played).map(|doubt| format!("{}: {doubt}\n", policy.name())));
            }
            Err(error) => notes.push(format!("{}: {error}\n", policy.name())),
        }
    }
    notes.dedup();
    notes.extend(indistinct(&evaluations, played, survey.entries).map(|note| format!("Note: {note}.\n")));
    text += &table(&header, &rows);
    if played < 10.0 * survey.arms as f64 {
        notes.push(format!(
            "Too few decisions can be replayed: log with exploration, or see line {}.\n",
            survey.least.1
        ));
    }
    if !notes.is_empty() {
        text += &format!("\n{}", notes.concat());
    }
    let point = |at: usize| {
        let estimate = evaluations[at].as_ref().ok()?.estimates[2];
        let interval = (estimate.mean, estimate.mean - estimate.width, estimate.mean + estimate.width);
        estimate.width.is_finite().then_some(interval)
    };
    let title = "What would have been won (doubly robust), by epsilon".to_owned();
    draw(options, &named, title, "mean reward", false, point, Some(("the log's own policy", logged.mean)))?;
    Ok(text + &written(options))
}
