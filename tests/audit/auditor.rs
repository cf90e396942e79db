//! Audits a policy through the C interface. Two reward tables (arm by pull index) differ in a few rewards of arm 0. The
//! auditor compares all public outputs of the handle on both.
//!
//! It tries several tables and several outputs: means, widths, counts, the arms chosen, the active arms, the ends of
//! phases, the privacy loss. Pilot runs choose the table, the output and the event that distinguish best. New runs give
//! the verdict: see the engine.
#![allow(dead_code, reason = "the tests and the tool use a part each")]

use super::engine::{Audit, Seen, Verdict, pattern, seed};
use super::library::Library;
use super::sabotage::Sabotage;
use dpb::ffi::*;
use dpb::local::RandomizedResponse;
use dpb::{Algorithm, Config, Fault, Seed};
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::ops::Range;

/// What is audited, and how.
#[derive(Clone, Debug)]
pub struct Case {
    pub policy: Algorithm,
    pub epsilon: f64,
    /// The claim's delta; 0 for a pure policy.
    pub delta: f64,
    pub arms: u32,
    /// The maximum number of rewards of one user.
    pub contributions: u32,
    /// Runs of each world that give the verdict. Each pair of tables gets a quarter as many pilot runs.
    pub runs: u64,
    /// Whether the changed rewards come after the arm's first release.
    pub later: bool,
    pub delivery: Delivery,
    pub sabotage: Sabotage,
    /// The part of the loss that is claimed. Below 1 the claim is false, whatever the library does.
    pub claimed: f64,
    pub library: Library,
}

/// How rewards arrive, and which other calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Each reward immediately.
    Once,
    /// Each reward late, and the changed ones four times.
    Repeated,
    /// With a reward window: clicks immediately, and no update for other decisions.
    Window,
    /// As with Window; afterwards some decisions are cancelled, the changed ones among them.
    Cancelled,
    /// Each reward late, and every third never, so that its decision expires.
    Expiring,
    /// Each reward immediately; requests offer only some arms, some with values, and one arm is retired.
    Sets,
}

impl Delivery {
    pub const ALL: [Delivery; 6] =
        [Delivery::Once, Delivery::Repeated, Delivery::Window, Delivery::Cancelled, Delivery::Expiring, Delivery::Sets];

    fn window(self) -> u32 {
        if matches!(self, Delivery::Window | Delivery::Cancelled) { WINDOW } else { 0 }
    }
}

/// Updates for each changed reward under [`Delivery::Repeated`].
const REPEATS: u64 = 4;
/// The reward window, in decisions.
const WINDOW: u32 = 16;
/// Decisions before a reward arrives under [`Delivery::Expiring`]; the ring holds eight decisions.
const LATE: u64 = 4;
/// The maximum length of a run, in decisions. A run without a release ends after the horizon.
const LONGEST: u64 = 20_000;
/// How many releases after the change the outputs about sums use.
const RELEASES: usize = 8;
/// The probability of an alarm against a true claim, and of a lower bound above the true loss.
pub const FAILURE: f64 = 1e-6;
/// The names of the outputs that the audit looks at.
pub const SIGHTS: [&str; 21] = [
    "the mean at its release",
    "the mean at the end",
    "how much the sum has grown",
    "what the sums have too much",
    "how much the sums have grown",
    "the width before a release",
    "the width at the end",
    "another arm's mean",
    "the loss",
    "how often the arm was played",
    "when the release came",
    "the next propensity",
    "the last plays",
    "which arms are left",
    "when phases ended",
    "the pulls of all arms",
    "the counts",
    "the best arm",
    "what cancellations returned",
    "the first number that was released after the change",
    "the last number of that release",
];

/// The result of an audit, and its claim.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub verdict: Verdict,
    /// The claimed loss for all changed rewards together, and its delta.
    pub claim: f64,
    pub delta: f64,
    pub changed: u64,
}

/// One pair of reward tables. The first rewards of an arm are 1 and the others follow `rest`, except for the changed
/// rewards: they are 0 in one world and 1 in the other.
#[derive(Clone, Debug)]
struct Tables {
    /// The number of leading ones for arm 0, and for every other arm.
    ones: (u64, u64),
    rest: Rest,
    /// The pulls of arm 0 whose rewards change.
    changed: Range<u64>,
    /// The run ends with the first phase. Otherwise it ends some time after the release of the changed rewards.
    one_phase: bool,
    /// Arm 0 is retired soon after the change.
    retires: bool,
    /// The maximum length of the run, in decisions.
    longest: u64,
}

#[derive(Clone, Copy, Debug)]
enum Rest {
    Zero,
    /// One and zero alternate: the mean is one half and no sampling noise moves it.
    Half,
    /// One and zero alternate for arm 0; all other arms get zero.
    HalfOfFirst,
}

impl Tables {
    fn reward(&self, arm: u32, pull: u64, neighbour: bool) -> f64 {
        let ones = if arm == 0 { self.ones.0 } else { self.ones.1 };
        let one = match self.rest {
            _ if arm == 0 && self.changed.contains(&pull) => neighbour,
            _ if pull < ones => true,
            Rest::Zero => false,
            Rest::Half => pull.is_multiple_of(2),
            Rest::HalfOfFirst => arm == 0 && pull.is_multiple_of(2),
        };
        f64::from(u8::from(one))
    }
}

/// Public facts of a policy, learned from one honest run in which arm 0 is best.
#[derive(Default)]
struct Scout {
    /// For each release of arm 0: its pulls so far, and the loss of one user so far at delta = 0.
    releases: Vec<(u64, f64)>,
    /// The loss of the first release of any arm. When arm 0 is released, a public schedule may already be further.
    first: f64,
    /// The width of arm 0 at its first release.
    width: f64,
    /// Enough decisions for all expected releases.
    longest: u64,
}

impl Scout {
    /// The loss of one user from the first release, or from the next one.
    fn cost(&self, later: bool) -> f64 {
        match self.releases[..] {
            [] => f64::NAN,
            [(_, first), (_, second), ..] if later && second > first => second - first,
            [(_, first), ..] => first,
        }
    }

    /// Whether no bound exists at delta = 0.
    fn is_approximate(&self) -> bool {
        self.releases.first().is_some_and(|release| release.1 == f64::INFINITY)
    }

    /// Whether each release adds to the loss.
    fn composes(&self) -> bool {
        self.releases.len() > 1 && self.releases[1].1 > self.releases[0].1
    }
}

impl Case {
    /// The honest policy at this claim, with five arms and 4000 runs. A policy that is not pure is audited at (eps,
    /// 0.1), because detecting the effect of a small delta takes very many runs.
    ///
    /// # Errors
    /// The library's message if the policy refuses the configuration.
    pub fn new(policy: Algorithm, epsilon: f64) -> Result<Case, String> {
        Case::of(Library::HERE, policy, epsilon)
    }

    /// The same with a library.
    ///
    /// # Errors
    /// As [`Case::new`].
    pub fn of(library: Library, policy: Algorithm, epsilon: f64) -> Result<Case, String> {
        let mut case = Case {
            policy,
            epsilon,
            delta: 0.0,
            arms: 5,
            contributions: 1,
            runs: 4000,
            later: false,
            delivery: Delivery::Once,
            sabotage: Sabotage::Nothing,
            claimed: 1.0,
            library,
        };
        if case.open(0).is_err() {
            case.delta = 0.1;
        }
        case.open(0).map(|_| case)
    }

    /// The policy with each of its noise distributions, if it draws noise, at a loss of one, so that the audits of
    /// different policies compare.
    pub fn with_noise(policy: Algorithm) -> Vec<Case> {
        let case = |delta| {
            let case = Case { delta, ..Case::new(policy, 1.0).ok()? };
            // With two arms: with more, the noise of the zeros that the other arms insert hides this arm's reward in
            // DP-UCB; and in dp-linear its release is often among the first, whose noise is right.
            let few = matches!(policy, Algorithm::Ucb | Algorithm::Linear);
            Some(if few { Case { arms: 2, ..case } } else { case })
        };
        let pure = case(0.0).filter(|case| case.open(0).is_ok());
        let other = case(0.1).filter(|case| pure.is_none() || case.scout().is_ok_and(|scout| scout.is_approximate()));
        let noisy = |case: &Case| Case { runs: 100, ..case.clone() }.with(Sabotage::NoNoise).run().is_ok();
        pure.into_iter().chain(other).filter(noisy).collect()
    }

    /// The same case with this sabotage, and with the settings that make it visible.
    pub fn with(self, sabotage: Sabotage) -> Case {
        let delivery = match sabotage {
            Sabotage::Built(Fault::DuplicateBelieved) => Delivery::Repeated,
            Sabotage::Built(Fault::ClosedByArrival) => Delivery::Window,
            Sabotage::Built(Fault::CancelTells) => Delivery::Cancelled,
            Sabotage::Built(Fault::RawLeader | Fault::RawRetired) => Delivery::Sets,
            _ => self.delivery,
        };
        let later = self.later
            || matches!(
                sabotage,
                Sabotage::QuarterLater | Sabotage::Built(Fault::RawWidth | Fault::RawLeader | Fault::RawRetired)
            );
        Case { sabotage, delivery, later, ..self }
    }

    /// Runs the audit.
    ///
    /// # Errors
    /// The library's message if it refuses the configuration, or a message if the sabotage changes nothing.
    pub fn run(&self) -> Result<Outcome, String> {
        self.open(0)?;
        if self.delivery == Delivery::Sets && !self.is_flexible()? {
            return Err(format!("{} needs every arm", self.policy.name()));
        }
        let scout = self.scout()?;
        let (tables, changed) = self.tables(&scout)?;
        let (loss, delta) = self.claim(&scout, &tables, changed);
        let claim = self.claimed * loss;
        let audit = Audit { epsilon: claim, delta, pilot: self.runs / 4, verdict: self.runs, failure: FAILURE };
        Fault::was_done();
        let verdict = audit.search(tables.len(), |candidate, seed, neighbour| {
            self.play(&scout, &tables[candidate], seed, neighbour).seen
        });
        if self.sabotage != Sabotage::Nothing && !Fault::was_done() && !self.sabotages_device() {
            return Err(format!("{} does not touch {} like this", self.sabotage.name(), self.policy.name()));
        }
        Ok(Outcome { verdict, claim, delta, changed })
    }

    fn config(&self, seed: &[u8; 32]) -> dpb_config {
        let mut config = dpb_config::defaults(self.arms, self.epsilon);
        let base = Algorithm::NonprivateExp3 as u32;
        let beta = 0.9; // short epochs; privacy does not depend on beta
        let used = self.policy.fit(&Config { delta: self.delta, beta, base, ..Config::new(self.arms, self.epsilon) });
        (config.delta, config.beta, config.base) = (used.delta, used.beta, used.base);
        config.horizon = self.horizon();
        config.contributions_per_user = self.contributions;
        if self.policy == Algorithm::SdpAe {
            // large enough that an arm can be dropped after the first batch
            config.batch = 50 * (f64::from(self.contributions) / self.epsilon).powi(2).ceil() as u32;
        }
        config.pending_capacity = if self.delivery == Delivery::Expiring { 8 } else { 4096 };
        config.reward_window = self.delivery.window();
        if self.policy == Algorithm::Linear {
            (config.features, config.feature_model) = (1, DPB_MODEL_PER_ARM);
        }
        config.test_seed = if self.library.is_released { std::ptr::null() } else { seed.as_ptr() };
        config
    }

    fn open(&self, number: u64) -> Result<Handle, String> {
        let seed = seed(number);
        Handle::new(self.library, self.policy, &self.config(&seed))
    }

    /// The horizon, for policies that use it. A tree over few rewards splits its budget among few levels.
    fn horizon(&self) -> u64 {
        let group = (f64::from(self.contributions) / self.epsilon).ceil() as u64;
        if self.policy == Algorithm::PrivateUcb { 2 * group } else { 64 * group }
    }

    /// Decisions before a reward arrives: enough that a duplicate which is learned from leaves pulls in flight.
    fn lag(&self, changed: u64) -> u64 {
        match self.delivery {
            Delivery::Repeated => u64::from(self.arms) * (REPEATS * changed + 2),
            Delivery::Expiring => LATE,
            _ => 0,
        }
    }

    fn is_flexible(&self) -> Result<bool, String> {
        let handle = self.honest().open(0)?;
        let mut decision = dpb_decision { ticket: 0, propensity: 0.0, arm: 0, phase: 0 };
        // SAFETY: a live handle, one arm and a valid place.
        Ok(unsafe { (handle.library.dpb_select_for)(handle.bandit, &handle.request(&[0]), &mut decision) } == DPB_OK)
    }

    fn honest(&self) -> Case {
        Case { sabotage: Sabotage::Nothing, delivery: Delivery::Once, ..self.clone() }
    }

    fn scout(&self) -> Result<Scout, String> {
        let handle = self.honest().open(0)?;
        let mut scout = Scout { longest: LONGEST, ..Scout::default() };
        let (mut pulls, mut mean) = (0u64, f64::NAN);
        for decisions in 0..LONGEST {
            let done = scout.releases.len() > 1 && pulls >= 32;
            if done || scout.releases.first().is_some_and(|_| decisions > scout.longest) {
                scout.longest = 4 * decisions;
                break;
            }
            let decision = handle.select();
            let one = decision.arm == 0 && pulls.is_multiple_of(2);
            handle.update(decision.ticket, f64::from(u8::from(one)));
            pulls += u64::from(decision.arm == 0);
            if scout.first == 0.0 {
                scout.first = handle.spent(0.0);
            }
            let arm = handle.arms(self.arms)[0];
            if !arm.mean.is_nan() && arm.mean.to_bits() != mean.to_bits() {
                if mean.is_nan() {
                    (scout.width, scout.longest) = (arm.width, 10 * decisions + 400);
                }
                mean = arm.mean;
                scout.releases.push((pulls, handle.spent(0.0)));
            }
        }
        Ok(scout)
    }

    /// The pairs of tables worth trying, and the number of rewards in which they differ: those of so many users that
    /// their losses add up to one. Group privacy is exact for a pure claim, and detecting a small loss takes very many
    /// runs.
    fn tables(&self, scout: &Scout) -> Result<(Vec<Tables>, u64), String> {
        let cost = scout.cost(self.later);
        let group = if cost.is_finite() { (1.0 / cost - 1e-3).ceil().max(1.0) as u64 } else { 1 };
        let m = group * u64::from(self.contributions);
        let longest = if scout.releases.is_empty() { self.horizon() } else { scout.longest.max(200 * m) };
        let all = |ones: (u64, u64), rest, from: u64| Tables {
            ones,
            rest,
            changed: from..from + m,
            one_phase: false,
            retires: false,
            longest,
        };
        if self.later {
            let rest = if self.eliminates() { Rest::Half } else { Rest::HalfOfFirst };
            let mut from = vec![scout.releases.first().ok_or("nothing is released")?.0];
            from.extend(scout.releases.last().map(|last| last.0).filter(|&last| last > from[0] && last <= 64));
            from.truncate(if scout.composes() { 1 } else { 2 });
            // In dp-linear the leading ones end the pilot; then the arm's batch contains only the changed rewards.
            let plain: Vec<Tables> = match self.policy {
                Algorithm::Linear => [24, 32].map(|from| all((8, 8), Rest::Zero, from)).into(),
                _ => from.into_iter().map(|from| all((0, 0), rest, from)).collect(),
            };
            let retires = |tables: Tables| Tables { retires: true, ..tables };
            return Ok(match self.delivery {
                Delivery::Sets => (plain.iter().cloned().chain(plain.iter().cloned().map(retires)).collect(), m),
                _ => (plain, m),
            });
        }
        let pulls = scout.releases.first().map_or(0, |release| release.0);
        if self.delivery.window() > 0 {
            let from = if self.eliminates() { pulls.saturating_sub(m) } else { 0 };
            return Ok((vec![all((u64::MAX, u64::MAX), Rest::Zero, from)], m));
        }
        // Tables for an arm at the threshold at which the first release drops it, and for one at which it drops all
        // others, up to m rewards to either side.
        let edge = (2.0 * scout.width * pulls as f64).round() as u64;
        if self.eliminates() && edge + 5 * m <= pulls {
            let longest = u64::from(self.arms) * pulls + self.lag(m) + 1;
            let of = |canary: u64, others: u64| Tables {
                one_phase: true,
                longest,
                ..all((canary, others), Rest::Zero, canary)
            };
            let (many, few) = (pulls - 2 * m, 2 * m);
            let tables = (0..3).flat_map(|i| [of(many - edge + i * m - m, many), of(few + edge + i * m - m, few)]);
            return Ok((tables.collect(), m));
        }
        let ends = [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)];
        Ok((ends.map(|ones| all(ones, Rest::Zero, 0)).into(), m))
    }

    /// Whether the policy drops arms at the end of its first phase.
    fn eliminates(&self) -> bool {
        matches!(self.policy, Algorithm::Se | Algorithm::SdpAe)
    }

    /// The largest loss for the changed rewards from the releases of such a run, and its delta.
    fn claim(&self, scout: &Scout, tables: &[Tables], changed: u64) -> (f64, f64) {
        let honest = self.honest();
        let spent: Vec<_> = tables.iter().map(|tables| honest.play(scout, tables, 0, false).spent).collect();
        let most = |i: usize| spent.iter().map(|spent| spent[i]).fold(0.0, f64::max);
        let group = (changed / u64::from(self.contributions)) as f64;
        let before = if self.later && scout.composes() { scout.first } else { 0.0 };
        match (most(0), most(1)) {
            (0.0, _) => (self.epsilon, self.delta),
            (pure, _) if pure.is_finite() => (group * (pure - before), 0.0),
            (_, approximate) => (approximate.min(self.epsilon), self.delta),
        }
    }

    /// The local model: how the user's device encodes a reward. It works as `dpb_ldp_encode`, with fixed coins.
    fn device(&self, number: u64) -> Option<impl FnMut(f64, u64) -> f64> {
        if !self.policy.name().starts_with("ldp-") {
            return None;
        }
        let response = |epsilon| RandomizedResponse::new(epsilon).expect("a claim in its range");
        let epsilon = self.epsilon / f64::from(self.contributions);
        let (honest, weak) = match self.sabotage {
            Sabotage::NoNoise => (epsilon, 40.0),
            Sabotage::HalfNoise => (epsilon, 2.0 * epsilon),
            Sabotage::TenPercentLess => (epsilon, epsilon / 0.9),
            Sabotage::QuarterLater => (epsilon, 4.0 * epsilon),
            _ => (epsilon, epsilon),
        };
        let (honest, weak) = (response(honest), response(weak));
        let mut coins = Seed::new(Some(seed(!number))).expect("a seed").stream();
        let later = self.sabotage == Sabotage::QuarterLater;
        Some(move |reward, pull| {
            let response = if later && pull == 0 { &honest } else { &weak };
            f64::from(u8::from(response.encode(reward, &mut coins).expect("a reward")))
        })
    }

    fn sabotages_device(&self) -> bool {
        use Sabotage::*;
        self.device(0).is_some() && matches!(self.sabotage, HalfNoise | TenPercentLess | NoNoise | QuarterLater)
    }

    /// The arms that the next request offers.
    fn eligible(&self, decisions: u64, retired: bool) -> Vec<u32> {
        let bits = decisions.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let live = |arm: &u32| !(retired && *arm == 0);
        let some: Vec<u32> = (0..self.arms).filter(live).filter(|arm| bits >> arm & 1 == 1).collect();
        if some.is_empty() { (0..self.arms).filter(live).collect() } else { some }
    }

    /// One run.
    fn play(&self, scout: &Scout, tables: &Tables, number: u64, neighbour: bool) -> Run {
        let hand = self.sabotage.hand(self.arms);
        let handle = self.open(number).expect("a configuration that was accepted before");
        let m = tables.changed.end - tables.changed.start;
        let lag = self.lag(m);
        let mut device = self.device(number);
        let mut pulls = vec![0; self.arms as usize];
        let mut in_flight = VecDeque::new();
        let mut canary = Canary::new(m);
        let (mut steps, mut ends, mut phase) = (Vec::new(), Vec::new(), None);
        let (mut next, mut returned, mut retired) = (None, Vec::new(), false);
        let (mut decisions, mut end) = (0, tables.longest);
        while decisions < end {
            let decision = match self.delivery {
                Delivery::Sets => handle.select_among(&self.eligible(decisions, retired), decisions % 3 == 2),
                _ => handle.select(),
            };
            // A step is a phase, or a decision if the policy has no phases.
            if decision.phase == 0 || phase != Some(decision.phase) {
                steps.push(decision.arm == 0);
            }
            if phase.is_some_and(|phase| phase != decision.phase) {
                ends.push(decisions);
            }
            if tables.one_phase && decision.phase > 1 {
                break;
            }
            phase = Some(decision.phase);
            if canary.is_changed() {
                next.get_or_insert((decision.arm, (decision.propensity * 256.0).floor() as i64));
            }
            let pull = pulls[decision.arm as usize];
            pulls[decision.arm as usize] += 1;
            let mut reward = tables.reward(decision.arm, pull, neighbour);
            if let Some(device) = &mut device {
                reward = device(reward, pull);
            }
            let changed = decision.arm == 0 && tables.changed.contains(&pull);
            let lost = self.delivery == Delivery::Expiring && decisions.is_multiple_of(3) && !changed;
            let cancelled = self.delivery == Delivery::Cancelled && (decisions.is_multiple_of(3) || changed);
            in_flight.push_back((decision, reward, changed, lost, cancelled));
            decisions += 1;
            if in_flight.len() as u64 <= lag {
                continue;
            }
            let Some((decision, reward, changed, lost, cancelled)) = in_flight.pop_front() else { continue };
            if !lost && (self.delivery.window() == 0 || reward > 0.0) {
                let times = if changed && self.delivery == Delivery::Repeated { REPEATS } else { 1 };
                (0..times).for_each(|_| handle.update(decision.ticket, reward));
            }
            if cancelled {
                returned.push(handle.cancel(decision.ticket));
            }
            if decision.arm == 0 && !lost {
                canary.answered(reward, changed);
            }
            // Other policies also output messages of devices, which are not public.
            let released = if handle.has_features { hand.released() } else { Vec::new() };
            // An arm's batch ends with a reward of the arm; the pilot's, where propensities are known, with any.
            let is_own = decision.arm == 0 || decision.propensity > 0.0;
            let released = if is_own { &released[..] } else { &[] };
            if canary.look(&handle.arms(self.arms)[0], decisions, released) {
                let tail = if scout.composes() { 0 } else { 2 * lag + 40 * m };
                end = end.min(decisions + tail);
            }
            if canary.is_changed() && tables.retires && !retired {
                handle.retire(0);
                retired = true;
            }
            if canary.is_changed() && (retired || self.delivery == Delivery::Cancelled) {
                end = end.min(decisions + 3 * u64::from(WINDOW)); // the change is never released
            }
        }
        let (arms, report) = (handle.arms(self.arms), handle.report());
        let left: Vec<_> = arms.iter().map(|arm| arm.active).collect();
        let played: Vec<_> = arms.iter().map(|arm| arm.pulls).collect();
        let counts = (report.answered, report.cancelled, report.expired, report.pending);
        let seen = vec![
            Seen::Number(canary.releases.first().map_or(f64::NAN, |release| release.mean)),
            Seen::Number(arms[0].mean),
            Seen::Number(canary.releases.first().map_or(f64::NAN, |release| release.grown)),
            Seen::Number(canary.too_much(|release| release.excess)),
            Seen::Number(canary.too_much(|release| release.grown)),
            Seen::Number(canary.width),
            Seen::Number(arms[0].width),
            Seen::Number(arms[1].mean),
            Seen::Number(report.epsilon_spent),
            Seen::Number(steps.iter().filter(|&&canary| canary).count() as f64),
            Seen::Number(canary.releases.first().map_or(f64::NAN, |release| release.at as f64)),
            Seen::Pattern(pattern(next)),
            Seen::Pattern(pattern(&steps[steps.len().saturating_sub(6)..])),
            Seen::Pattern(pattern(left)),
            Seen::Pattern(pattern(&ends[..ends.len().min(6)])),
            Seen::Pattern(pattern(played)),
            Seen::Pattern(pattern(counts)),
            Seen::Pattern(pattern(handle.best_arm())),
            Seen::Pattern(pattern(returned)),
            Seen::Number(canary.released[0]),
            Seen::Number(canary.released[1]),
        ];
        Run { seen, spent: [handle.spent(0.0), handle.spent(self.delta)] }
    }
}

/// The outputs of a run, one for each of the [`SIGHTS`], and the loss that it reports, at delta = 0 and at the claim's
/// delta.
struct Run {
    seen: Vec<Seen>,
    spent: [f64; 2],
}

/// The state of arm 0, whose rewards change.
struct Canary {
    /// The number of changed rewards, and how many of them have arrived.
    changes: u64,
    changed: u64,
    /// The number of rewards so far, and the sum of all but the changed ones.
    answered: u64,
    known: f64,
    /// The last released mean, and by how much its sum exceeded the known sum before the change.
    mean: f64,
    before: f64,
    /// The width after the last changed reward.
    width: f64,
    /// The first and the last number of the arm's first release after the change, if the policy outputs these.
    released: [f64; 2],
    /// Releases since the change.
    releases: Vec<Release>,
}

/// One release: its mean, by how much its sum exceeds the known sum, and how much that has grown since before the
/// change.
struct Release {
    mean: f64,
    excess: f64,
    grown: f64,
    at: u64,
}

impl Canary {
    fn new(changes: u64) -> Canary {
        Canary {
            changes,
            changed: 0,
            answered: 0,
            known: 0.0,
            mean: f64::NAN,
            before: 0.0,
            width: f64::NAN,
            released: [f64::NAN; 2],
            releases: Vec::new(),
        }
    }

    fn is_changed(&self) -> bool {
        self.changed == self.changes
    }

    fn answered(&mut self, reward: f64, changed: bool) {
        self.answered += 1;
        self.changed += u64::from(changed);
        self.known += if changed { 0.0 } else { reward };
    }

    /// Records new outputs. Returns true at the first release after the change.
    fn look(&mut self, arm: &dpb_arm, decisions: u64, released: &[(usize, i64)]) -> bool {
        if self.is_changed() && self.width.is_nan() {
            self.width = arm.width;
        }
        if let (true, true, [first, ..]) = (self.is_changed(), self.released[0].is_nan(), released) {
            self.released = [first.1 as f64, released[released.len() - 1].1 as f64];
        }
        if arm.mean.is_nan() || arm.mean.to_bits() == self.mean.to_bits() {
            return false;
        }
        self.mean = arm.mean;
        let excess = arm.mean * self.answered as f64 - self.known;
        if self.changed == 0 {
            self.before = excess;
        }
        if self.is_changed() {
            let (mean, grown) = (arm.mean, excess - self.before);
            self.releases.push(Release { mean, excess, grown, at: decisions });
        }
        self.is_changed() && self.releases.len() == 1
    }

    /// The log-likelihood ratio of the first releases after the change, up to a factor, as if their noises were
    /// independent with a Laplace distribution. Each contributes its excess, clamped between zero and the change.
    fn too_much(&self, of: impl Fn(&Release) -> f64) -> f64 {
        let first = self.releases.iter().take(RELEASES);
        first.map(|release| of(release).clamp(0.0, self.changes as f64)).sum()
    }
}

/// The features of every request.
const ROW: [f32; 1] = [1.0];

/// A bandit behind the C interface.
struct Handle {
    library: Library,
    bandit: *mut dpb_bandit,
    has_features: bool,
    has_values: bool,
}

impl Handle {
    fn new(library: Library, policy: Algorithm, config: &dpb_config) -> Result<Handle, String> {
        let mut bandit = std::ptr::null_mut();
        let mut error = dpb_error { status: DPB_OK, message: [0; 252] };
        let name = CString::new(policy.name()).expect("a name without NUL");
        // SAFETY: all pointers are valid, and the configuration's seed outlives the call.
        let status = unsafe { (library.dpb_new_policy)(name.as_ptr(), config, &mut bandit, &mut error) };
        if status != DPB_OK {
            // SAFETY: always NUL-terminated.
            return Err(unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned());
        }
        let has_values = [Algorithm::Imed, Algorithm::Med, Algorithm::Linear].contains(&policy);
        Ok(Handle { library, bandit, has_features: policy == Algorithm::Linear, has_values })
    }

    /// A request among these arms, or among all arms. It has a row of features if the policy needs one.
    fn request(&self, arms: &[u32]) -> dpb_request {
        let eligible = if arms.is_empty() { std::ptr::null() } else { arms.as_ptr() };
        let request = dpb_request { eligible, eligible_len: arms.len(), ..dpb_request::defaults() };
        match self.has_features {
            true => dpb_request { features: ROW.as_ptr(), features_len: ROW.len(), ..request },
            false => request,
        }
    }

    fn select(&self) -> dpb_decision {
        if self.has_features {
            return self.select_among(&[], false);
        }
        let mut decision = dpb_decision { ticket: 0, propensity: 0.0, arm: 0, phase: 0 };
        // SAFETY: a live handle and a valid place.
        let status = unsafe { (self.library.dpb_select)(self.bandit, &mut decision) };
        assert_eq!(status, DPB_OK, "dpb_select");
        decision
    }

    /// Decides among these arms; `valued`: with values, if the policy supports them.
    fn select_among(&self, arms: &[u32], valued: bool) -> dpb_decision {
        let values: Vec<f64> = arms.iter().map(|arm| [1.0, 2.0, 0.75, 1.5][*arm as usize % 4]).collect();
        let mut request = self.request(arms);
        if valued && self.has_values {
            (request.values, request.values_len) = (values.as_ptr(), values.len());
        }
        let mut decision = dpb_decision { ticket: 0, propensity: 0.0, arm: 0, phase: 0 };
        // SAFETY: a live handle, a slice of that many arms and a valid place.
        let status = unsafe { (self.library.dpb_select_for)(self.bandit, &request, &mut decision) };
        assert_eq!(status, DPB_OK, "dpb_select_for");
        decision
    }

    /// Reports a reward. The library refuses it if the decision has expired or has a reward already.
    fn update(&self, ticket: u64, reward: f64) {
        // SAFETY: a live handle.
        let status = unsafe { (self.library.dpb_update)(self.bandit, ticket, reward) };
        assert!(matches!(status, DPB_OK | DPB_DUPLICATE | DPB_EXPIRED), "dpb_update: {status}");
    }

    fn cancel(&self, ticket: u64) -> dpb_status {
        // SAFETY: a live handle.
        unsafe { (self.library.dpb_cancel)(self.bandit, ticket) }
    }

    fn retire(&self, arm: u32) {
        // SAFETY: a live handle.
        let status = unsafe { (self.library.dpb_retire_arm)(self.bandit, arm) };
        assert_eq!(status, DPB_OK, "dpb_retire_arm");
    }

    fn arms(&self, arms: u32) -> Vec<dpb_arm> {
        let mut all = vec![dpb_arm::default(); arms as usize];
        let mut n = 0;
        // SAFETY: a live handle, room for all.len() arms.
        let status = unsafe { (self.library.dpb_arms_read)(self.bandit, all.as_mut_ptr(), all.len(), &mut n) };
        assert_eq!(status, DPB_OK, "dpb_arms_read");
        if self.has_features && self.report().phase > 0 {
            let (mut means, mut deviations) = (vec![0.0; all.len()], vec![0.0; all.len()]);
            // SAFETY: a live handle, a row, room for all arms.
            let request = self.request(&[]);
            let status = unsafe {
                (self.library.dpb_predict)(
                    self.bandit,
                    &request,
                    means.as_mut_ptr(),
                    deviations.as_mut_ptr(),
                    all.len(),
                    &mut n,
                )
            };
            assert_eq!(status, DPB_OK, "dpb_predict");
            for (arm, (mean, deviation)) in all.iter_mut().zip(means.into_iter().zip(deviations)) {
                (arm.mean, arm.width) = (mean, deviation);
            }
        }
        all
    }

    fn report(&self) -> dpb_report {
        let mut report = std::mem::MaybeUninit::<dpb_report>::zeroed();
        // SAFETY: zeros are a valid report because it contains only numbers; a live handle and a valid place of this
        // size.
        unsafe {
            (*report.as_mut_ptr()).struct_size = size_of::<dpb_report>() as u32;
            assert_eq!((self.library.dpb_report_read)(self.bandit, report.as_mut_ptr()), DPB_OK, "dpb_report_read");
            report.assume_init()
        }
    }

    /// The best arm, or None if the policy has named none.
    fn best_arm(&self) -> Option<u32> {
        let mut arm = 0;
        // SAFETY: a live handle and a valid place.
        let status = unsafe { (self.library.dpb_best_arm)(self.bandit, &mut arm) };
        (status == DPB_OK).then_some(arm)
    }

    fn spent(&self, delta: f64) -> f64 {
        let mut epsilon = 0.0;
        // SAFETY: a live handle and a valid place.
        let status = unsafe { (self.library.dpb_epsilon_spent)(self.bandit, delta, &mut epsilon) };
        assert_eq!(status, DPB_OK, "dpb_epsilon_spent");
        epsilon
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by a constructor, freed once.
        unsafe { (self.library.dpb_free)(self.bandit) };
    }
}
