//! libdpb's experiment with the claims of tests that stop: how many of them are wrong.

use super::Options;
use super::plot::table;
use super::runner::{Cell, Sample, Trial, run as run_cells};
use dpb::{Algorithm, Bandit, Config, Request, TestState};
use std::error::Error;

/// A claim is wrong with this probability at most.
const BETA: f64 = 0.1;
/// If each claim were wrong with that probability, more than so many of 2000 would be with probability below 1e-6.
pub const MOST_WRONG: u64 = 267;
const PEOPLE: usize = 5000;

/// Who comes, and what happens to the arms.
#[derive(Clone, Copy, PartialEq)]
enum Story {
    /// Each visitor is somebody new.
    Plain,
    /// 5000 people come 40 times each and keep their arm. Some of them always buy, the others never.
    Sticky,
    /// All rates are a sixth in three of four spans of 600 visitors.
    Together,
    /// Once all arms have a release, all but the first and the best of the others by released means retire.
    Chosen,
    /// After 2000 visitors the arm with the worst released mean retires, and another one is added.
    Replaced,
}

struct Setting {
    name: &'static str,
    rates: Vec<f64>,
    epsilon: f64,
    tolerance: f64,
    /// The number of rewards at which the test ends without a claim.
    planned_end: u64,
    /// Decisions until a reward takes effect.
    delay: u32,
    control_share: f64,
    story: Story,
}

/// A test of arms of these rates.
fn plain(name: &'static str, rates: Vec<f64>, epsilon: f64, planned_end: u64) -> Setting {
    Setting { name, rates, epsilon, tolerance: 0.0, planned_end, delay: 0, control_share: 0.0, story: Story::Plain }
}

/// An arm of one rate, and others of another one.
fn one_of(arms: usize, best: f64, rate: f64) -> Vec<f64> {
    (0..arms).map(|arm| if arm == 0 { best } else { rate }).collect()
}

/// An end that comes long after the first releases.
fn end(arms: usize, epsilon: f64) -> u64 {
    (arms as u64) * (1000.0 + 150.0 / epsilon) as u64
}

fn settings() -> Vec<Setting> {
    let equal = |arms: usize, epsilon: f64| plain("equal", vec![0.5; arms], epsilon, end(arms, epsilon));
    let mut settings = Vec::new();
    for arms in [2, 3, 5, 10] {
        settings.extend([0.1, 1.0, 10.0].map(|epsilon| equal(arms, epsilon)));
    }
    for arms in [2, 10] {
        for epsilon in [0.1, 1.0, 10.0] {
            let rates = one_of(arms, 0.551, 0.5);
            settings.push(Setting { tolerance: 0.05, ..plain("gap .051, tolerance .05", rates, epsilon, 0) });
        }
    }
    for arms in [2, 5, 10] {
        settings.push(Setting { tolerance: 0.1, planned_end: 0, name: "equal, tolerance .1", ..equal(arms, 1.0) });
    }
    settings.push(plain("equal, rates of 2%", vec![0.02; 2], 1.0, 10_000));
    for arms in [2, 5] {
        settings.push(Setting { delay: 500, name: "equal, rewards 500 decisions late", ..equal(arms, 1.0) });
        let late = plain("gap .051, tolerance .05, 500 decisions late", one_of(arms, 0.551, 0.5), 1.0, 0);
        settings.push(Setting { tolerance: 0.05, delay: 500, ..late });
    }
    for control_share in [0.2, 0.5] {
        settings.push(Setting { control_share, name: "equal, with a control", ..equal(3, 1.0) });
        // The control is not the best arm.
        let gap = plain("gap .051, tolerance .05, with a control", vec![0.5, 0.551, 0.5], 1.0, 0);
        settings.push(Setting { tolerance: 0.05, control_share, ..gap });
    }
    for epsilon in [0.5, 4.0] {
        let sticky = plain("equal, sticky, 5000 people come 40 times", vec![0.3; 2], epsilon, 0);
        settings.push(Setting { story: Story::Sticky, ..sticky });
    }
    for epsilon in [1.0, 4.0] {
        for control_share in [0.0, 0.5] {
            let rates = vec![0.6, 0.6, 0.05];
            let change = plain("two equal, all rates change together", rates, epsilon, 6000);
            settings.push(Setting { control_share, story: Story::Together, ..change });
        }
    }
    for (arms, epsilon) in [(10, 1.0), (20, 1.0), (200, 10.0)] {
        // Long after the first releases of all.
        let planned_end = 5000 + 50 * arms as u64;
        let name = "equal, all but two retire by released means";
        settings.push(Setting { story: Story::Chosen, ..plain(name, vec![0.5; arms], epsilon, planned_end) });
    }
    let replaced = plain("equal, the worst retires, one is added", vec![0.5; 6], 1.0, 6000);
    settings.push(Setting { story: Story::Replaced, ..replaced });
    settings
}

impl Setting {
    fn bandit(&self, trial: Trial) -> Bandit {
        let mut config = Config {
            beta: BETA,
            tolerance: self.tolerance,
            planned_end: self.planned_end,
            control_share: self.control_share,
            reward_window: self.delay,
            pending_capacity: self.delay + 2,
            test_seed: Some(trial.policy_seed()),
            ..Config::new(self.rates.len() as u32, self.epsilon)
        };
        if self.story == Story::Sticky {
            (config.sticky, config.expected_users) = (trial.run + 1, 2 * PEOPLE as u64);
        }
        if self.story == Story::Replaced {
            config.arms -= 1; // the last one comes later
        }
        Bandit::new(Algorithm::TopTwo, &config).expect("a valid configuration")
    }

    /// 1 each if a test has won, has tied, has made a wrong claim, or has made a right one with an interval that misses the
    /// difference; and its rewards.
    fn play(&self, trial: Trial) -> Vec<f64> {
        let (bandit, mut coins) = (self.bandit(trial), trial.coins());
        let mut live: Vec<usize> = (0..self.rates.len()).collect();
        let buyers: Vec<bool> = (0..PEOPLE).map(|_| coins.unit() < self.rates[0]).collect();
        let mut come = vec![false; PEOPLE];
        let mut new = PEOPLE;
        for number in 1.. {
            let (decision, is_bought) = if self.story == Story::Sticky {
                let person = coins.below(PEOPLE as u64) as usize;
                new -= usize::from(!std::mem::replace(&mut come[person], true));
                let request = Request { user: person as u64 + 1, ..Request::default() };
                (bandit.select_for(&request).expect("a decision"), buyers[person])
            } else {
                let decision = bandit.select().expect("a decision");
                let is_bad = self.story == Story::Together && number / 600 % 4 != 0;
                let rate = self.rates[decision.arm as usize] / if is_bad { 6.0 } else { 1.0 };
                (decision, coins.unit() < rate)
            };
            bandit.update(decision.ticket, f64::from(u8::from(is_bought))).expect("an accepted reward");
            let has_ended = || bandit.report().expect("a report").arms_active == 1;
            // Nobody new comes any more, or the end was not a claim.
            if bandit.best_arm().is_ok() || new == 0 || (number % 64 == 0 && has_ended()) {
                break;
            }
            if number % 64 == 0 && live.len() == self.rates.len() {
                self.change_arms(&bandit, number, &mut live);
            }
        }
        let said = bandit.verdict().expect("a verdict");
        let rate = |arm: u32| self.rates[arm as usize];
        // Of equal arms the first counts as the best.
        let best = live
            .iter()
            .copied()
            .fold(live[0], |best, arm| if rate(arm as u32) > rate(best as u32) { arm } else { best });
        let wrong = match said.state {
            TestState::Won => said.leader as usize != best,
            TestState::Tied => rate(best as u32) - rate(said.leader) >= self.tolerance,
            TestState::Running | TestState::Undecided => false,
        };
        let claims = matches!(said.state, TestState::Won | TestState::Tied);
        // If rates change, so does a difference that is not 0.
        let difference = rate(said.leader) - rate(said.other);
        let is_known = self.story != Story::Together || difference == 0.0;
        let missed = claims && !wrong && is_known && !(said.low..=said.high).contains(&difference);
        let flags = [said.state == TestState::Won, said.state == TestState::Tied, wrong, missed];
        flags.into_iter().map(|flag| f64::from(u8::from(flag))).chain([said.rewards as f64]).collect()
    }

    /// Retires and adds arms by what was released.
    fn change_arms(&self, bandit: &Bandit, number: u64, live: &mut Vec<usize>) {
        if !matches!(self.story, Story::Chosen | Story::Replaced) || (self.story == Story::Replaced && number < 2000) {
            return;
        }
        let arms = bandit.arm_reports().expect("reports");
        if arms.iter().any(|arm| arm.effective_pulls == 0.0) {
            return;
        }
        let mut others: Vec<usize> = (1..arms.len()).collect();
        others.sort_by(|&a, &b| arms[b].mean.total_cmp(&arms[a].mean));
        let retire = |arm: usize| bandit.retire_arm(arm as u32).expect("an arm that retires");
        if self.story == Story::Chosen {
            others[1..].iter().copied().for_each(retire);
            *live = vec![0, others[0]];
        } else {
            let worst = others[others.len() - 1];
            retire(worst);
            bandit.add_arm().expect("a new arm");
            live.retain(|&arm| arm != worst);
        }
    }
}

pub fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let (runs, mut settings) = (options.runs(2, 2000), settings());
    settings.truncate(options.pick(2, settings.len()));
    let mut cells = Vec::new();
    for (number, setting) in settings.iter().enumerate() {
        // Settings have random bits of their own, so that their errors are independent.
        let own = move |trial: Trial| Trial { seed: trial.seed + ((number as u64 + 1) << 32), ..trial };
        cells.push(Cell::new(runs, move |trial| setting.play(own(trial))));
    }
    let samples = run_cells("verdicts", &cells, options);
    let header = ["setting", "arms", "epsilon", "rewards", "won", "tied", "wrong", "missed"].map(String::from);
    let row = |(setting, sample): (&Setting, &Sample)| -> Vec<String> {
        let sums: Vec<f64> = (0..5).map(|place| sample.0.iter().map(|test| test[place]).sum()).collect();
        let name = match setting.control_share {
            0.0 => setting.name.to_owned(),
            share => format!("{} ({share})", setting.name),
        };
        let mean = format!("{:.0}", sums[4] / runs as f64);
        let counts = sums[..4].iter().map(f64::to_string);
        [name, setting.rates.len().to_string(), setting.epsilon.to_string(), mean].into_iter().chain(counts).collect()
    };
    let rows: Vec<_> = settings.iter().zip(&samples).map(row).collect();
    Ok(format!("Of {runs} tests at beta = {BETA}: how many claims are wrong.\n\n{}", table(&header, &rows)))
}
