//! Interprets bytes as a sequence of calls of the whole C interface, and compares the results with a model that stores
//! everything. For all sequences:
//! * each status is one that the function's comment names, and never DPB_POISONED, which is a panic inside;
//! * a refused call writes no output and changes nothing that can be read, except one count of refusals;
//! * counts, pulls and the state of every ticket are the model's: each decision ends once;
//! * the privacy loss only grows, and stays within epsilon in each period; a budget is charged for each handle made
//!   with it, and for nothing else;
//! * a restored snapshot reads the same, and so does a snapshot of the restored handle; altered bytes with a valid
//!   checksum give a status, or a handle for which all this holds.
#![allow(unsafe_op_in_unsafe_fn)] // every call below is one that a C program could make

#[path = "features.rs"]
mod features;
#[path = "nodes.rs"]
pub mod nodes;
#[path = "segments.rs"]
mod segments;
#[path = "statuses.rs"]
pub mod statuses;
#[path = "tables.rs"]
mod tables;

use statuses::*;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char};
use std::mem::zeroed;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// Runs the program that these bytes encode. Panics if the library breaks one of the rules above.
pub fn run(bytes: &[u8]) {
    let mut world = World {
        bytes: Bytes(bytes),
        bandits: Vec::new(),
        budget: null_mut(),
        segments: None,
        features: None,
        counter: None,
        stopping: None,
        shuffler: None,
        generations: vec![0],
        sent: Vec::new(),
    };
    // SAFETY: pointers are NULL or valid below, sizes are true, and what is freed is not used again.
    unsafe {
        assert_eq!(dpb_new_budget(8.0, 1e-6, &raw mut world.budget, null_mut()), DPB_OK);
        while !world.bytes.0.is_empty() {
            world.step();
        }
        world.free();
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    /// The next byte; zero after the end.
    fn byte(&mut self) -> u8 {
        let (&byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        byte
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// True for one byte value in n.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }
}

/// After a refusal: gives a number that the policy does not use its default, or the delta that it needs. Returns whether
/// it did.
pub fn fits(config: &mut dpb_config, error: &dpb_error) -> bool {
    let defaults = dpb_config::defaults(2, 1.0);
    let message: String = error.message.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect();
    let field =
        message.split(' ').next().filter(|_| message.contains(" does not use it") || message.contains("no use"));
    if message.starts_with("delta must not be 0: ") {
        config.delta = 1e-6;
        return true;
    }
    match field {
        Some("delta") => config.delta = defaults.delta,
        Some("beta") => config.beta = defaults.beta,
        Some("base") => config.base = defaults.base,
        Some("batch") => config.batch = defaults.batch,
        Some("interval_exponent") => config.interval_exponent = defaults.interval_exponent,
        _ => return false,
    }
    true
}

pub type Constructor = unsafe fn(*const dpb_config, *mut *mut dpb_bandit, *mut dpb_error) -> dpb_status;

pub const CONSTRUCTORS: &[Constructor] = &[
    dpb_new,
    // begin generated constructors
    dpb_new_imed,
    dpb_new_med,
    dpb_new_tt,
    dpb_new_linear,
    dpb_new_se,
    dpb_new_ucb_bound,
    dpb_new_ucb,
    dpb_new_ucb_int,
    dpb_new_private_ucb,
    dpb_new_lap,
    dpb_new_exp3_lap,
    dpb_new_exp3_tau,
    dpb_new_tsallis,
    dpb_new_nonprivate_ucb1,
    dpb_new_nonprivate_klucb,
    dpb_new_nonprivate_imed,
    dpb_new_nonprivate_se,
    dpb_new_nonprivate_exp3,
    dpb_new_sdp_ae,
    dpb_new_vb_sdp_ae,
    dpb_new_ldp_ucb,
    dpb_new_ldp_klucb,
    // end generated constructors
];

const SEED: [u8; 32] = [7; 32];
const KEY: [u8; 32] = [9; 32];

/// Numbers at the limits of some valid range.
const ODD: &[f64] = &[0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300, 0.5, 5e-324, -0.0];

/// Values of arms.
const VALUES: &[f64] = &[1.0, 1.0, 2.0, 0.5, 0.0, 1e-3, 1e-7, 40.0];

/// Costs of arms.
const COSTS: &[f64] = &[0.0, 0.3, 0.1, -0.2, 0.5, 2.0, 1e-6, 30.0];

/// Probabilities with which visitors examine a slot.
const CHANCES: &[f64] = &[1.0, 0.6, 0.4, 0.1, 1e-4];

/// Returns the status, which must be one of `allowed`.
#[track_caller]
fn one_of(status: dpb_status, allowed: &[dpb_status]) -> dpb_status {
    // SAFETY: a static string.
    let name = unsafe { CStr::from_ptr(dpb_status_name(status)) };
    assert!(allowed.contains(&status), "{name:?} is none of {allowed:?}");
    status
}

/// Checks that a constructor returned either a handle or a status with a message.
#[track_caller]
unsafe fn made<H>(status: dpb_status, handle: *mut H, error: &dpb_error) -> Option<*mut H> {
    assert_eq!(status == DPB_OK, !handle.is_null());
    if status != DPB_OK {
        explained(error, status);
    }
    (status == DPB_OK).then_some(handle)
}

unsafe fn no_error() -> dpb_error {
    dpb_error { status: -1, message: [1; 252] }
}

/// The state of a decision: open, its reward held until the window ends, ended, or past its deadline.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Open,
    Held,
    Done,
    Gone,
}

/// A plain model of the caller's clock.
#[derive(Clone, Copy)]
pub struct CallerTime {
    /// The ticks that have passed, and the time that the clock showed last, if it has begun.
    pub passed: u64,
    shown: Option<u64>,
    window: u64,
    memory: u64,
}

impl CallerTime {
    pub fn new(window: u64, memory: u64) -> CallerTime {
        CallerTime { passed: 0, shown: None, window, memory }
    }

    /// The time that the clock showed last, moved by this many ticks.
    pub fn moved(&self, ticks: i64) -> u64 {
        self.shown.unwrap_or(0).saturating_add_signed(ticks)
    }

    pub fn shows(&mut self, time: u64) {
        let (window, memory) = (i128::from(self.window), i128::from(self.memory));
        let step = i128::from(time) - i128::from(self.shown.unwrap_or(0));
        let moves = match step {
            _ if self.shown.is_none() => Some(window),
            0.. if memory > 0 && step > 16 * window.max(memory) => Some(window),
            0.. => Some(step),
            // Without a window and without forgetting, time does not matter.
            _ if window + memory > 0 && -step > window.max(memory / 1024) => Some(0),
            _ => None,
        };
        if let Some(ticks) = moves {
            self.shown = Some(time);
            self.passed = self.passed.saturating_add(ticks as u64);
        }
    }

    /// Ticks pass, and then the clock shows as much more.
    pub fn skip(&mut self, ticks: u64) {
        self.shown = self.shown.map(|shown| shown.saturating_add(ticks));
        self.passed = self.passed.saturating_add(ticks);
    }
}

/// A plain model of what a handle counts: it stores every decision. Handles from altered snapshots have no model.
struct Model {
    window: usize,
    /// With the caller's clock: the time, when each decision was made, and the first decision whose window is still
    /// open.
    clock: Option<CallerTime>,
    stamps: Vec<u64>,
    first: usize,
    /// A new decision ends the decision this many places before it.
    depth: usize,
    log: Vec<(dpb_decision, Fate)>,
    /// With parts, the tickets and the parts that came.
    parts: Option<HashSet<(u64, u32)>>,
    /// For each decision, the first decision of its request; and whether all decisions of a request end with that one.
    firsts: Vec<usize>,
    limited: bool,
    /// Decisions of earlier generations; then how this generation's decisions ended.
    before: u64,
    answered: u64,
    cancelled: u64,
    expired: u64,
    pulls: Vec<u64>,
    retired: Vec<bool>,
    epsilon: f64,
    /// Periods of user counts, if users are counted.
    periods: u32,
}

impl Model {
    /// Whether another period may begin.
    fn another(&self, config: &dpb_config) -> dpb_status {
        let over = config.budget_periods > 0 && self.periods >= config.budget_periods;
        if over { DPB_OVER_BUDGET } else { DPB_OK }
    }

    /// The largest loss that may be reported. Losses of several periods with delta do not simply add up: no limit here.
    fn most(&self, delta: f64) -> f64 {
        let most = self.epsilon * f64::from(self.periods) * (1.0 + 1e-9);
        if self.periods > 1 && delta > 0.0 { f64::INFINITY } else { most }
    }

    /// Ends the decision that is due before the next one, which has `ahead` others before it in its request.
    fn before_select(&mut self, ahead: usize) {
        let Some(due) = (self.log.len() + ahead).checked_sub(self.depth) else { return };
        let (decision, fate) = self.log[due];
        let counted = self.clock.is_none();
        match fate {
            Fate::Held if counted => self.answered += 1,
            Fate::Open if self.window > 0 && counted => self.answered += 1,
            Fate::Open | Fate::Held => {
                self.expired += 1;
                self.pulls[decision.arm as usize] -= 1;
            }
            Fate::Done | Fate::Gone => {}
        }
        self.log[due].1 = Fate::Gone;
    }

    fn advance(&mut self, time: u64) {
        self.clock.iter_mut().for_each(|clock| clock.shows(time));
        self.pass();
    }

    /// Ends the decisions whose window is over on the caller's clock.
    fn pass(&mut self) {
        let over = |stamp: u64| self.clock.is_some_and(|clock| clock.passed - stamp >= self.window as u64);
        while self.window > 0 && self.first < self.log.len() && over(self.stamps[self.first]) {
            let fate = &mut self.log[self.first].1;
            self.answered += u64::from(matches!(fate, Fate::Open | Fate::Held));
            *fate = Fate::Gone;
            self.first += 1;
        }
    }

    /// Ticks pass. Where they are decisions, they count as cancelled ones, whose tickets nobody has.
    fn skip(&mut self, ticks: u64) {
        if let Some(clock) = &mut self.clock {
            clock.skip(ticks);
            return self.pass();
        }
        for _ in 0..ticks.min(self.window as u64) {
            self.before_select(0);
            self.cancelled += 1;
            self.stamps.push(0);
            self.firsts.push(self.log.len());
            self.log.push((NO_DECISION, Fate::Gone));
        }
    }

    fn selected(&mut self, decision: dpb_decision) {
        self.stamps.push(self.clock.map_or(0, |clock| clock.passed));
        if decision.arm == DPB_NO_ARM {
            self.cancelled += 1;
            self.firsts.push(self.log.len());
            return self.log.push((NO_DECISION, Fate::Gone));
        }
        assert!(!self.retired[decision.arm as usize], "a retired arm");
        self.pulls[decision.arm as usize] += 1;
        self.firsts.push(self.log.len());
        self.log.push((decision, Fate::Open));
    }

    /// Whether some decisions of a request are over and others are not.
    fn within(&self) -> bool {
        let due = self.log.len().checked_sub(self.depth);
        due.is_some_and(|due| due > 0 && due < self.log.len() && self.firsts[due] == self.firsts[due - 1])
    }

    /// The expected status for a part of a reward, or a cancellation; DPB_OK if it is valid.
    fn verdict(&self, ticket: u64, part: Option<u32>) -> dpb_status {
        let Some(at) = self.log.iter().rposition(|(decision, _)| decision.ticket == ticket) else {
            return DPB_UNKNOWN_TICKET;
        };
        let over = self.limited && self.clock.is_none() && self.firsts[at] + self.depth < self.log.len();
        match self.log[at].1 {
            Fate::Open | Fate::Held if part.is_none() => DPB_OK, // the status must not reveal that a reward came
            Fate::Open if !over && self.has_come(ticket, part) => DPB_DUPLICATE,
            Fate::Open if !over => DPB_OK,
            Fate::Held | Fate::Done if !over => DPB_DUPLICATE,
            _ => DPB_EXPIRED,
        }
    }

    fn has_come(&self, ticket: u64, part: Option<u32>) -> bool {
        part.is_some_and(|part| self.parts.as_ref().is_some_and(|parts| parts.contains(&(ticket, part))))
    }

    /// Cancels all open decisions.
    fn end_all(&mut self) {
        let depth = self.depth.min(self.log.len());
        let end = self.log.len() - depth;
        for (decision, fate) in &mut self.log[end..] {
            if matches!(fate, Fate::Open | Fate::Held) {
                *fate = Fate::Done;
                self.cancelled += 1;
                self.pulls[decision.arm as usize] -= 1;
            }
        }
    }

    fn ended(&mut self, ticket: u64, part: Option<u32>) {
        if let (Some(parts), Some(part)) = (&mut self.parts, part) {
            parts.insert((ticket, part));
            return;
        }
        let cancel = part.is_none();
        let window = self.window > 0;
        let (decision, fate) = self.log.iter_mut().rev().find(|(decision, _)| decision.ticket == ticket).unwrap();
        *fate = if window && !cancel { Fate::Held } else { Fate::Done };
        if cancel {
            self.cancelled += 1;
            self.pulls[decision.arm as usize] -= 1;
        } else if !window {
            self.answered += 1;
        }
    }
}

/// All readable state of a handle, as bits of numbers so that it can be compared.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    report: [u64; 14],
    arms: Vec<[u64; 5]>,
    best: Option<u32>,
    refusals: [u64; 4],
}

struct Player {
    handle: *mut dpb_bandit,
    model: Option<Model>,
    config: dpb_config,
    seen: Seen,
    /// Snapshots of other handles that were merged.
    merged: Vec<Vec<u8>>,
    /// Tickets of this generation, of other handles, and invented ones.
    tickets: Vec<u64>,
    /// The generation that the handle leads, or 0.
    led: u64,
}

unsafe fn report(handle: *const dpb_bandit) -> dpb_report {
    let mut report: dpb_report = zeroed();
    report.struct_size = size_of::<dpb_report>() as u32;
    assert_eq!(dpb_report_read(handle, &raw mut report), DPB_OK);
    report
}

unsafe fn arms(handle: *const dpb_bandit) -> Vec<dpb_arm> {
    let mut n = usize::MAX;
    assert_eq!(dpb_arms_read(handle, null_mut(), 0, &raw mut n), DPB_BUFFER_TOO_SMALL);
    let mut arms = vec![dpb_arm::default(); n];
    assert_eq!(dpb_arms_read(handle, arms.as_mut_ptr(), n, &raw mut n), DPB_OK);
    arms
}

impl Seen {
    unsafe fn of(handle: *const dpb_bandit) -> Seen {
        let r = report(handle);
        let arms: Vec<_> = arms(handle)
            .into_iter()
            .map(|a| {
                assert!(
                    !a.mean.is_infinite() && !a.width.is_infinite() && (a.width.is_nan() || a.width >= 0.0),
                    "{} {}",
                    a.mean,
                    a.width
                );
                assert!(a.effective_pulls >= 0.0 && a.active < 2 && a.reserved == 0 && a.spare == [0.0; 3]);
                [a.mean.to_bits(), a.width.to_bits(), a.pulls, a.active.into(), a.effective_pulls.to_bits()]
            })
            .collect();
        assert_eq!(r.decisions - r.answered - r.cancelled - r.expired, u64::from(r.pending));
        assert!(r.epsilon_spent >= 0.0 && r.delta_spent >= 0.0 && r.is_private < 2);
        let active = arms.iter().map(|arm| arm[3]).sum::<u64>();
        assert_eq!(active, u64::from(r.arms_active));
        let mut refused: dpb_diagnostics = zeroed();
        refused.struct_size = size_of::<dpb_diagnostics>() as u32;
        assert_eq!(dpb_diagnostics_read(handle, &raw mut refused), DPB_OK);
        let mut best = u32::MAX;
        let decided = one_of(dpb_best_arm(handle, &raw mut best), &[DPB_OK, DPB_NOT_READY, DPB_UNSUPPORTED]) == DPB_OK;
        assert!(if decided { (best as usize) < arms.len() } else { best == u32::MAX });
        let mut verdict: dpb_verdict = zeroed();
        verdict.struct_size = size_of::<dpb_verdict>() as u32;
        if one_of(dpb_verdict_read(handle, &raw mut verdict), &[DPB_OK, DPB_UNSUPPORTED]) == DPB_OK {
            assert!(verdict.leader.max(verdict.other) < arms.len() as u32 && verdict.mismatch < 2);
            assert!(verdict.more >= 0.0 || verdict.more.is_nan());
            assert!(verdict.low <= verdict.high || verdict.low.is_nan() && verdict.high.is_nan());
            assert_eq!(decided, [DPB_TEST_WON, DPB_TEST_TIED].contains(&verdict.state));
            let (mut text, mut n) = ([0; 4096], 0); // numbers of 300 digits
            assert_eq!(
                dpb_verdict_text(&raw const verdict, text.as_mut_ptr(), text.len(), &raw mut n, null_mut()),
                DPB_OK
            );
            assert!(n > 20 && std::str::from_utf8(&text[..n]).is_ok());
        }
        let form = (refused.late % 3) as u32;
        let (mut text, mut n, mut most) = ([0; 8192], 0, 0);
        let status = dpb_statement(handle, form, text.as_mut_ptr(), text.len(), &raw mut n, null_mut());
        let short = dpb_statement(handle, form, null_mut(), 0, &raw mut most, null_mut());
        assert_eq!(
            (status, short),
            if form < 2 { (DPB_OK, DPB_BUFFER_TOO_SMALL) } else { (DPB_INVALID_CONFIG, DPB_INVALID_CONFIG) }
        );
        assert_eq!(n, most);
        assert!(std::str::from_utf8(&text[..n]).is_ok_and(|said| n == 0 || said.contains("dpb")));
        Seen {
            report: [
                r.decisions,
                r.answered,
                r.cancelled,
                r.expired,
                r.epsilon_spent.to_bits(),
                r.delta_spent.to_bits(),
                r.phase.into(),
                r.arms_active.into(),
                r.is_private.into(),
                r.policy.into(),
                r.changes_detected,
                r.duty.into(),
                r.generation,
                r.warnings.into(),
            ],
            arms,
            best: decided.then_some(best),
            refusals: [refused.duplicates, refused.late, refused.rejected, refused.unknown],
        }
    }

    /// What a restored handle keeps: no open decisions and no counts of refusals.
    fn learned(&self) -> Vec<[u64; 4]> {
        self.arms.iter().map(|a| [a[0], a[1], a[3], a[4]]).collect()
    }
}

impl Player {
    unsafe fn new(handle: *mut dpb_bandit, config: dpb_config, periods: Option<u32>) -> Player {
        let (report, arms) = (report(handle), arms(handle));
        let (capacity, window) = (config.pending_capacity, config.reward_window);
        let clock = (config.clock == DPB_CLOCK_CALLER).then(|| CallerTime::new(window.into(), config.forget_after));
        let depth = if window > 0 && clock.is_none() { window } else { capacity.next_power_of_two() } as usize;
        let exact = periods.is_some();
        let model = periods.map(|periods| Model {
            window: window as usize,
            clock,
            stamps: Vec::new(),
            first: 0,
            depth,
            log: Vec::new(),
            parts: (config.parts > 0).then(HashSet::new),
            firsts: Vec::new(),
            limited: config.max_clicks > 0,
            before: report.decisions,
            answered: report.answered,
            cancelled: report.cancelled,
            expired: report.expired,
            pulls: arms.iter().map(|arm| arm.pulls).collect(),
            retired: arms.iter().map(|arm| arm.active == 0).collect(),
            epsilon: config.epsilon,
            periods,
        });
        let played = report.decisions - report.cancelled - report.expired;
        assert!(report.pending == 0 && (!exact || arms.iter().map(|arm| arm.pulls).sum::<u64>() == played));
        Player { handle, model, config, seen: Seen::of(handle), merged: Vec::new(), tickets: Vec::new(), led: 0 }
    }

    /// Checks the state after a call that was refused (nothing changed) or succeeded, with these new counts of
    /// refusals: duplicate, late, invalid, unknown.
    #[track_caller]
    unsafe fn after(&mut self, done: bool, refusals: [u64; 4]) {
        let now = Seen::of(self.handle);
        let mut expected = self.seen.refusals;
        expected.iter_mut().zip(refusals).for_each(|(sum, more)| *sum += more);
        assert_eq!(now.refusals, expected);
        if !done {
            self.seen.refusals = expected;
            assert_eq!(now, self.seen, "a refused call changed something");
        }
        let spent = |seen: &Seen| f64::from_bits(seen.report[4]);
        assert!(spent(&now) >= spent(&self.seen), "epsilon is never given back");
        if let Some(model) = &self.model {
            let decisions = model.before + model.log.len() as u64;
            assert_eq!(now.report[..4], [decisions, model.answered, model.cancelled, model.expired]);
            assert!(now.arms.iter().map(|arm| arm[2]).eq(model.pulls.iter().copied()), "{now:?} {:?}", model.pulls);
            assert!(spent(&now) <= model.most(self.config.delta) || spent(&now) == f64::INFINITY);
        }
        self.seen = now;
    }

    /// Records a new decision.
    fn take(&mut self, decision: dpb_decision) {
        let chance = decision.propensity;
        assert!(chance.is_nan() || (chance > 0.0 && chance <= 1.0 + 1e-9), "{chance}");
        let is_none = decision.arm == DPB_NO_ARM;
        assert!((decision.arm as usize) < self.seen.arms.len() || (is_none && decision.ticket == 0));
        self.tickets.push(decision.ticket);
        if let Some(model) = &mut self.model {
            let (node, ours) = (u64::from(dpb_ticket_node(decision.ticket)), self.config.node);
            assert!(node == ours || is_none || !(1..0x1_0000).contains(&ours));
            model.selected(decision);
        }
    }

    fn spec(&self, bytes: &mut Bytes) -> Spec {
        let segment = if bytes.once_in(24) { bytes.pick(&[1, u64::MAX]) } else { 0 };
        Spec::new(bytes, self.seen.arms.len(), self.config.expected_users > 0, segment)
    }

    /// The expected status of this request at this index of an array.
    fn expected_status(&self, model: &Model, spec: &Spec, number: usize) -> dpb_status {
        let policy = self.seen.report[9] as u32;
        let (users, slate) = (self.config.expected_users > 0, u64::from(self.config.max_slots));
        let slates = policy == dpb::Algorithm::Imed as u32;
        let among = slates || [dpb::Algorithm::Med as u32, dpb::Algorithm::TopTwo as u32].contains(&policy);
        let playable = |&arm: &u32| self.seen.arms.get(arm as usize).is_some_and(|arm| arm[3] == 1);
        let known = spec.eligible.iter().flatten().all(playable);
        if spec.flaw.is_some() {
            return spec.flawed(number);
        }
        match &spec.eligible {
            _ if spec.user != 0 && !users => return DPB_UNSUPPORTED,
            _ if spec.slots == 0 => return DPB_INVALID_REQUEST,
            Some(_) if !among => return DPB_UNSUPPORTED,
            Some(arms) if arms.is_empty() || !known => return DPB_INVALID_REQUEST,
            _ if spec.segment != 0 => return DPB_UNSUPPORTED,
            _ if spec.has_worths() && ![dpb::Algorithm::Imed as u32, dpb::Algorithm::Med as u32].contains(&policy) => {
                return DPB_UNSUPPORTED;
            }
            _ if spec.examined.is_some()
                && (policy != dpb::Algorithm::Imed as u32 || self.config.reward_min != 0.0) =>
            {
                return DPB_UNSUPPORTED;
            }
            _ if !spec.is_examined() => return DPB_INVALID_REQUEST,
            _ if spec.slots == 1 && !spec.has_worths() && spec.examined.is_none() => return DPB_OK,
            _ if spec.slots == 1 => {}
            _ if !slates => return DPB_UNSUPPORTED,
            _ if spec.abstain => return DPB_INVALID_REQUEST,
            _ if users && slate == 0 => return DPB_INVALID_REQUEST, // each reward would be a contribution
            _ => {}
        }
        let mut arms = spec.eligible.clone().unwrap_or_else(|| (0..self.seen.arms.len() as u32).collect());
        if spec.has_worths() {
            match spec.valued(self.seen.arms.len(), &self.config, |arm| playable(&arm)) {
                Ok(valued) => arms = valued,
                Err(status) => return status,
            }
        }
        arms.retain(playable);
        arms.sort_unstable();
        arms.dedup();
        let choices = arms.len().max(usize::from(spec.abstain));
        let most = if slate > 0 { slate } else { u64::MAX }.min(choices.min(model.depth) as u64);
        if u64::from(spec.slots) <= most { DPB_OK } else { DPB_INVALID_REQUEST }
    }

    /// Checks the decisions of these requests, up to the first one that was refused.
    #[track_caller]
    unsafe fn check_decisions(
        &mut self,
        specs: &[Spec],
        (status, done, decisions): (dpb_status, usize, Vec<dpb_decision>),
    ) {
        let refused = [DPB_INVALID_REQUEST, DPB_UNSUPPORTED, DPB_NEWER_VERSION, DPB_NOT_READY];
        assert!(status == DPB_OK || refused.contains(&status), "{status}");
        if let Some(model) = &self.model {
            for (number, spec) in specs.iter().enumerate().take(done + 1) {
                let expected = self.expected_status(model, spec, number);
                assert_eq!(if number < done { DPB_OK } else { status }, expected, "{spec:?} {:?}", self.seen.report);
            }
        }
        let mut left = &decisions[..];
        for spec in &specs[..done] {
            let (these, others) = left.split_at(spec.slots as usize);
            left = others;
            let first = self.model.as_mut().map_or(0, |model| {
                (0..these.len()).for_each(|ahead| model.before_select(ahead));
                model.log.len()
            });
            for (slot, &decision) in these.iter().enumerate() {
                assert!(spec.permits(decision.arm));
                assert!(these[..slot].iter().all(|before| before.arm != decision.arm));
                self.take(decision);
                self.model.iter_mut().for_each(|model| *model.firsts.last_mut().unwrap() = first);
            }
        }
        // Slots are in random order, so the model does not know whose window ends first. It decides until all decisions
        // of the request are over.
        while self.model.as_ref().is_some_and(Model::within) {
            let (status, _, decisions) = decide(self.handle, &[Spec::PLAIN], false);
            let [decision] = decisions[..] else { panic!("{status}") };
            self.model.iter_mut().for_each(|model| model.before_select(0));
            self.take(decision);
        }
        self.after(done > 0, [0; 4]);
    }

    /// The statuses that a reward or a cancellation may return. The range of an altered handle is unknown.
    fn expected(&self, ticket: u64, good: Option<bool>, part: Option<u32>) -> Vec<dpb_status> {
        let Some(model) = &self.model else {
            return vec![DPB_OK, DPB_UNKNOWN_TICKET, DPB_DUPLICATE, DPB_EXPIRED, DPB_INVALID_REWARD];
        };
        let verdict = model.verdict(ticket, part);
        match good {
            // It may be more than 15 ranges from 0.
            Some(true) if model.parts.is_some() && part.is_some() => vec![verdict, DPB_INVALID_REWARD],
            Some(true) => vec![verdict],
            Some(false) => vec![DPB_INVALID_REWARD],
            None => vec![verdict, DPB_INVALID_REWARD],
        }
    }

    fn ended(&mut self, status: dpb_status, ticket: u64, part: Option<u32>) {
        if let Some(model) = &mut self.model
            && status == DPB_OK
        {
            model.ended(ticket, part);
        }
    }

    /// A reward, and whether it must be accepted or refused; None if that depends on the grid.
    fn reward(&self, bytes: &mut Bytes) -> (f64, Option<bool>) {
        let (low, high) = (self.config.reward_min, self.config.reward_max);
        match bytes.below(8) {
            0..=2 => (low, Some(true)),
            3..=5 => (high, Some(true)),
            6 => (low / 2.0 + high / 2.0, None),
            _ => match bytes.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 7.0]) {
                bad if !bad.is_finite() => (bad, Some(false)),
                out => (out, None),
            },
        }
    }

    fn ticket(&self, bytes: &mut Bytes) -> u64 {
        match bytes.below(16) {
            0 => bytes.number(),
            1 => self.tickets.last().map_or(0, |ticket| ticket ^ 1 << bytes.below(64)),
            _ => {
                // Recent tickets are the most likely.
                let back = bytes.below(64.min(self.tickets.len()));
                self.tickets.iter().rev().nth(back).copied().unwrap_or(0)
            }
        }
    }
}

/// Which count of refusals grows with this status.
fn refusal(status: dpb_status) -> [u64; 4] {
    [DPB_DUPLICATE, DPB_EXPIRED, DPB_INVALID_REWARD, DPB_UNKNOWN_TICKET].map(|counted| (status == counted).into())
}

struct World<'a> {
    bytes: Bytes<'a>,
    bandits: Vec<Player>,
    segments: Option<segments::Player>,
    features: Option<features::Player>,
    budget: *mut dpb_budget,
    counter: Option<Counter>,
    stopping: Option<Stopping>,
    shuffler: Option<Shuffler>,
    /// The generations of all leaders.
    generations: Vec<u64>,
    /// All contributions, each with the generation that it is for, and whether it was added.
    sent: Vec<(u64, Vec<u8>, bool)>,
}

struct Counter {
    handle: *mut dpb_counter,
    /// The number of values that it accepts.
    most: u64,
    values: u64,
}

struct Stopping {
    handle: *mut dpb_stopping,
    range: f64,
    halted: bool,
}

struct Shuffler {
    handle: *mut dpb_shuffler,
    plan: dpb_shuffle_params,
    messages: u32,
    ones: usize,
}

const NO_DECISION: dpb_decision = dpb_decision { ticket: 99, propensity: -7.0, arm: 99, phase: 99 };

fn untouched(decision: &dpb_decision) -> bool {
    decision.ticket == 99 && decision.propensity == -7.0 && decision.arm == 99 && decision.phase == 99
}

/// A request, valid or not.
#[derive(Debug)]
struct Spec {
    slots: u32,
    segment: u64,
    user: u64,
    eligible: Option<Vec<u32>>,
    values: Option<Vec<f64>>,
    costs: Option<Vec<f64>>,
    abstain: bool,
    examined: Option<Vec<f64>>,
    flaw: Option<Flaw>,
}

#[derive(Debug)]
enum Flaw {
    /// The struct's size is wrong: longer, shorter, or no known size.
    Size(u32),
    /// A null pointer to eligible arms, with this length.
    Length(usize),
}

impl Spec {
    const PLAIN: Spec = Spec {
        slots: 1,
        segment: 0,
        user: 0,
        eligible: None,
        values: None,
        costs: None,
        abstain: false,
        examined: None,
        flaw: None,
    };

    /// A request among arms below `arms`, and sometimes one that does not exist.
    fn new(bytes: &mut Bytes, arms: usize, users: bool, segment: u64) -> Spec {
        Spec {
            slots: bytes.pick(&[1, 1, 1, 1, 2, 3, 4, 9, 0, 1, 2, 3, u32::MAX]),
            segment,
            user: if users || bytes.once_in(24) { bytes.pick(&[1, 1, 2, 3, u64::MAX, 0]) } else { 0 },
            eligible: match bytes.once_in(2) {
                true => None,
                false => Some((0..bytes.below(9)).map(|_| Self::arm(bytes, arms)).collect()),
            },
            flaw: match bytes.below(32) {
                0 => Some(Flaw::Size(bytes.pick(&[0, 4, 32, 39, 41, 48, u32::MAX]))),
                1 => Some(Flaw::Length(bytes.pick(&[1, usize::MAX]))),
                _ => None,
            },
            ..Spec::PLAIN
        }
    }

    /// The same with values, for a handle of so many arms.
    fn with_values(self, bytes: &mut Bytes, arms: usize) -> Spec {
        let length = self.eligible.as_ref().map_or(arms, Vec::len);
        let length = if bytes.once_in(16) { bytes.below(12) } else { length };
        let value = |bytes: &mut Bytes| if bytes.once_in(32) { bytes.pick(ODD) } else { bytes.pick(VALUES) };
        Spec { values: Some((0..length).map(|_| value(bytes)).collect()), ..self }
    }

    /// The same with costs, sometimes with values, and where sometimes no arm may be played.
    fn with_costs(self, bytes: &mut Bytes, arms: usize) -> Spec {
        let length = self.eligible.as_ref().map_or(arms, Vec::len);
        let length = if bytes.once_in(16) { bytes.below(12) } else { length };
        let cost = |bytes: &mut Bytes| if bytes.once_in(32) { bytes.pick(ODD) } else { bytes.pick(COSTS) };
        let costs = (!bytes.once_in(4)).then(|| (0..length).map(|_| cost(bytes)).collect());
        let spec = if bytes.once_in(2) { self.with_values(bytes, arms) } else { self };
        Spec { costs, abstain: bytes.once_in(2), ..spec }
    }

    fn has_worths(&self) -> bool {
        self.values.is_some() || self.costs.is_some() || self.abstain
    }

    /// Whether a decision may have this arm.
    fn permits(&self, arm: u32) -> bool {
        match arm {
            DPB_NO_ARM => self.abstain,
            arm => self.eligible.as_ref().is_none_or(|arms| arms.contains(&arm)),
        }
    }

    /// The same where slots are examined with some probabilities.
    fn with_positions(self, bytes: &mut Bytes) -> Spec {
        let length = if bytes.once_in(16) { bytes.below(12) } else { self.slots.min(12) as usize };
        let chance = |bytes: &mut Bytes| if bytes.once_in(32) { bytes.pick(ODD) } else { bytes.pick(CHANCES) };
        Spec { examined: Some((0..length).map(|_| chance(bytes)).collect()), ..self }
    }

    /// Whether the probabilities of the slots are valid, if there are any.
    fn is_examined(&self) -> bool {
        let valid = |chance: &f64| (0.5f64.powi(16)..=1.0).contains(chance);
        let is_alone = self.costs.is_none() && !self.abstain;
        let all_valid = |all: &Vec<f64>| all.len() == self.slots as usize && all.iter().all(valid) && is_alone;
        self.examined.as_ref().is_none_or(all_valid)
    }

    /// The arms that a request with values or costs may get, of so many arms; or its status.
    fn valued(&self, arms: usize, config: &dpb_config, is_live: impl Fn(u32) -> bool) -> Result<Vec<u32>, dpb_status> {
        let listed = self.eligible.clone().unwrap_or((0..arms as u32).collect());
        if config.reward_min != 0.0 {
            return Err(DPB_UNSUPPORTED);
        }
        let twice = (1..listed.len()).any(|place| listed[..place].contains(&listed[place]));
        let is_short = |list: &Option<Vec<f64>>| list.as_ref().is_some_and(|list| list.len() != listed.len());
        if is_short(&self.values) || is_short(&self.costs) || twice {
            return Err(DPB_INVALID_REQUEST);
        }
        let of = |list: &Option<Vec<f64>>, place: usize, other| list.as_ref().map_or(other, |list| list[place]);
        let read = (0..listed.len()).filter(|&place| is_live(listed[place]));
        let read: Vec<_> =
            read.map(|place| (listed[place], of(&self.values, place, 1.0), of(&self.costs, place, 0.0))).collect();
        let largest = read.iter().map(|&(_, value, _)| value).fold(0.0, f64::max);
        let unit = if largest > 0.0 { largest * config.reward_max } else { 1.0 };
        let is_cost = |cost: f64| cost.is_finite() && (largest == 0.0 || cost.abs() <= 2f64.powi(20) * unit);
        let is_bad = |&(_, value, cost): &(u32, f64, f64)| !(0.0..f64::INFINITY).contains(&value) || !is_cost(cost);
        if read.iter().any(is_bad) || (self.costs.is_some() && !unit.is_normal() && !read.is_empty()) {
            return Err(DPB_INVALID_REQUEST);
        }
        let is_sure = self.slots == 1 && self.costs.is_some();
        let may = |value: f64| value / largest >= 0.5f64.powi(20) || is_sure;
        Ok(read.into_iter().filter(|&(_, value, _)| may(value)).map(|(arm, ..)| arm).collect())
    }

    fn arm(bytes: &mut Bytes, arms: usize) -> u32 {
        match bytes.once_in(24) {
            true => bytes.pick(&[arms as u32, 1 << 20, u32::MAX]),
            false => bytes.below(arms) as u32,
        }
    }

    unsafe fn request(&self) -> dpb_request {
        let mut request: dpb_request = zeroed();
        dpb_request_init_sized(&raw mut request, size_of::<dpb_request>() as u32);
        assert_eq!((request.slots, request.segment, request.user), (1, 0, 0));
        assert!(request.eligible.is_null() && request.eligible_len == 0);
        (request.slots, request.segment, request.user) = (self.slots, self.segment, self.user);
        if let Some(arms) = &self.eligible {
            (request.eligible, request.eligible_len) = (arms.as_ptr(), arms.len());
        }
        if let Some(values) = &self.values {
            (request.values, request.values_len) = (values.as_ptr(), values.len());
        }
        if let Some(costs) = &self.costs {
            (request.costs, request.costs_len) = (costs.as_ptr(), costs.len());
        }
        request.abstain = self.abstain.into();
        if let Some(examined) = &self.examined {
            (request.examined, request.examined_len) = (examined.as_ptr(), examined.len());
        }
        match self.flaw {
            Some(Flaw::Size(size)) => request.struct_size = size,
            Some(Flaw::Length(length)) => (request.eligible, request.eligible_len) = (null(), length),
            None => {}
        }
        request
    }

    /// The expected status of a flawed struct, for any handle. The first element sets the size for the array.
    fn flawed(&self, number: usize) -> dpb_status {
        match self.flaw {
            Some(Flaw::Size(size)) if number == 0 && size as usize > size_of::<dpb_request>() => DPB_NEWER_VERSION,
            Some(_) => DPB_INVALID_REQUEST,
            None => DPB_OK,
        }
    }
}

/// Moves the clock: a little, by years, or backwards. Its status tells whether the handle has a clock.
unsafe fn advance(handle: *mut dpb_bandit, model: &mut Option<Model>, bytes: &mut Bytes) -> bool {
    let clock = model.as_ref().and_then(|model| model.clock);
    let ticks = bytes.pick(&[1, 0, 3, 10, 50, 1 << 40, -5, -(1 << 50), i64::MAX]);
    let later = clock.map_or(0, |clock| clock.moved(ticks));
    let done = one_of(dpb_advance(handle, later), &[DPB_OK, DPB_UNSUPPORTED]) == DPB_OK;
    if let Some(model) = model {
        assert_eq!(done, clock.is_some());
        if done {
            model.advance(later);
        }
    }
    done
}

/// Requests decisions one by one or in one batch. Returns the first status that is not DPB_OK, and the decisions made
/// before it.
#[track_caller]
unsafe fn decide(handle: *mut dpb_bandit, specs: &[Spec], many: bool) -> (dpb_status, usize, Vec<dpb_decision>) {
    let requests: Vec<_> = specs.iter().map(|spec| spec.request()).collect();
    let length = specs.iter().map(|spec| spec.slots.min(9) as usize).sum::<usize>();
    let (mut decisions, mut done) = (vec![NO_DECISION; length + 1], usize::MAX);
    let status = match specs {
        [_] if !many => {
            let checked = check(handle, &requests[0]);
            let status = dpb_select_for(handle, requests.as_ptr(), decisions.as_mut_ptr());
            assert_eq!(status, checked);
            done = usize::from(status == DPB_OK);
            status
        }
        _ => dpb_select_many(handle, requests.as_ptr(), specs.len(), decisions.as_mut_ptr(), &raw mut done),
    };
    if status != DPB_OK && specs[done].flaw.is_none() {
        assert_eq!(check(handle, &requests[done]), status);
    }
    assert_eq!(status == DPB_OK, done == specs.len());
    let written = specs[..done].iter().map(|spec| spec.slots as usize).sum();
    assert!(decisions[written..].iter().all(untouched), "a refused request wrote a decision");
    decisions.truncate(written);
    assert!(!decisions.iter().any(untouched));
    (status, done, decisions)
}

/// Checks a request, which gives a message if it would be refused.
unsafe fn check(handle: *const dpb_bandit, request: *const dpb_request) -> dpb_status {
    let mut error = no_error();
    let status = dpb_request_check(handle, request, &raw mut error);
    match status {
        DPB_OK => assert_eq!(error.status, -1),
        _ => explained(&error, status),
    }
    status
}

impl World<'_> {
    unsafe fn free(&mut self) {
        dpb_budget_free(self.budget);
        self.bandits.drain(..).for_each(|player| dpb_free(player.handle));
        self.segments = None;
        self.features = None;
        self.counter.take().into_iter().for_each(|counter| dpb_counter_free(counter.handle));
        self.stopping.take().into_iter().for_each(|stopping| dpb_stopping_free(stopping.handle));
        self.shuffler.take().into_iter().for_each(|shuffler| dpb_shuffler_free(shuffler.handle));
    }

    /// Each call has byte values of its own, in proportion to its likelihood. They must never change, or the corpus
    /// would have another meaning. Unassigned values do nothing and are free for new calls.
    unsafe fn step(&mut self) {
        if self.bandits.is_empty() {
            self.construct();
        }
        let op = self.bytes.byte();
        match op {
            202..=203 => return self.features(),
            219 => return nodes::play(&mut self.bytes),
            224..=227 => return self.construct(),
            159 => return self.construct_with_key(),
            228 => return tables::play(&mut self.bytes),
            229 => return self.nothing(),
            230..=236 => return self.count(),
            237..=242 => return self.stop(),
            243 => return self.construct_on(DPB_CLOCK_CALLER),
            244..=250 => return self.shuffle(),
            252 => return self.local(),
            251 => return self.segments(DPB_CLOCK_CALLER),
            253..=255 => return self.segments(DPB_CLOCK_DECISIONS),
            _ => {}
        }
        let n = self.bandits.len();
        let at = self.bytes.below(4) % n.max(1);
        let Some(mut player) = (at < n).then(|| self.bandits.swap_remove(at)) else { return };
        match op {
            0..=74 => self.select(&mut player),
            80..=146 => self.answer(&mut player),
            150..=157 => self.answer_many(&mut player),
            75..=76 => self.positioned(&mut player),
            77..=78 | 220 => self.costed(&mut player),
            160..=169 => self.request(&mut player),
            170..=174 => self.requests(&mut player),
            175..=183 => self.change_arms(&mut player),
            184 => self.valued(&mut player),
            185..=193 => self.submit(&mut player),
            195..=201 => self.read(&mut player),
            194 => self.skip(&mut player),
            204 => self.next_period(&mut player),
            205..=206 => self.foreign(&mut player),
            207..=209 => self.merge(&mut player),
            210..=218 => self.live_on(&player),
            221 => self.cancel_all(&mut player),
            222 => return dpb_free(player.handle),
            223 => self.advance(&mut player),
            79 | 147 | 149 => self.combining(&mut player),
            148 => self.alone(&mut player),
            158 => self.set_handles(&mut player),
            _ => {}
        }
        self.bandits.push(player);
    }

    unsafe fn config(&mut self) -> dpb_config {
        let (bytes, budget) = (&mut self.bytes, self.budget);
        let mut c: dpb_config = zeroed();
        let (arms, epsilon) = (bytes.pick(&[2, 3, 5, 8]), bytes.pick(&[1.0, 0.3, 4.0, 30.0]));
        dpb_config_init_sized(&raw mut c, size_of::<dpb_config>() as u32, arms, epsilon);
        let has_parts = bytes.byte() % 32 == 31;
        c.test_seed = SEED.as_ptr();
        c.pending_capacity = bytes.pick(&[8, 1, 3, 64]);
        c.reward_window = bytes.pick(&[0, 0, 5, 40]);
        c.horizon = bytes.pick(&[1000, 100_000]);
        c.delta = bytes.pick(&[0.0, 1e-6]);
        c.base = bytes.below(24) as u32;
        if has_parts {
            c.parts = bytes.pick(&[1, 3, 8, 9, u32::MAX]);
            let weight = bytes.pick(&[1.0, 0.1, -2.0, f64::NAN, 0.0]);
            c.part_weights.iter_mut().take(c.parts as usize).for_each(|each| *each = weight);
            c.part_weights[bytes.below(8)] = bytes.pick(&[1.0, 1.0, 1.0, 0.0, -1e300, 1e-300]);
        }
        for _ in 0..bytes.below(6) {
            match bytes.below(23) {
                0 => c.arms = bytes.pick(&[40, 0, 1, 100]),
                1 => c.epsilon = bytes.pick(ODD),
                2 => c.delta = bytes.pick(ODD),
                3 => c.beta = bytes.pick(ODD),
                4 => c.horizon = bytes.pick(&[0, 1, 2, 1 << 62, u64::MAX]),
                5 => {
                    (c.reward_min, c.reward_max) =
                        bytes.pick(&[(-3.0, 5.0), (1.0, 0.0), (0.0, 5e-324), (-1e290, 1e290)])
                }
                6 => c.reward_min = bytes.pick(ODD),
                7 => c.reward_max = bytes.pick(ODD),
                8 => c.reward_bits = bytes.pick(&[0, 1, 24, 25, u32::MAX]),
                9 => c.contributions_per_user = bytes.pick(&[2, 0, u32::MAX]),
                10 => c.pending_capacity = bytes.pick(&[0, 300, (1 << 24) + 1, u32::MAX]),
                11 => c.reward_window = bytes.pick(&[1, 300, (1 << 24) + 1, u32::MAX]),
                12 => c.flags = bytes.byte().into(),
                13 => c.interval_exponent = bytes.pick(&[1.5, 1.0, f64::NAN, 1.0000001]),
                14 => c.batch = bytes.pick(&[1, 2, 50, u32::MAX]),
                15 => c.node = bytes.pick(&[77, 77, 1 << 40, 0xffff]),
                16 => c.forget_after = bytes.pick(&[1024, 1, 1 << 40, u64::MAX]),
                17 => c.exploration = bytes.pick(ODD),
                18 => (c.test_seed, c.budget) = (null(), budget),
                19 => (c.expected_users, c.budget_periods) = bytes.pick(&[(100, 0), (1, 2), (1 << 29, 0), (3, 1)]),
                20 => c.max_slots = bytes.pick(&[3, 1, (1 << 24) + 1]),
                21 => {
                    (c.max_slots, c.max_clicks, c.reward_window) =
                        bytes.pick(&[(3, 1, 8), (4, 2, 40), (2, 3, 5), (3, 1, 0)])
                }
                // Unknown and newer sizes.
                _ => {
                    c.struct_size = {
                        let ours = size_of::<dpb_config>() as u32;
                        bytes.pick(&[ours - 8, 120, 0, 4, 121, ours + 8, u32::MAX])
                    }
                }
            }
        }
        c
    }

    unsafe fn construct(&mut self) {
        self.construct_on(DPB_CLOCK_DECISIONS);
    }

    unsafe fn construct_on(&mut self, clock: u32) {
        let config = dpb_config { clock, ..self.config() };
        if self.bytes.once_in(3) {
            let name = dpb_policy_at(self.bytes.below(23));
            self.constructed(config, |c, out, error| dpb_new_policy(name, c, out, error));
        } else {
            let constructor = self.bytes.pick(CONSTRUCTORS);
            self.constructed(config, |c, out, error| constructor(c, out, error));
        }
    }

    /// Two handles of a fleet with a key.
    unsafe fn construct_with_key(&mut self) {
        let config = dpb_config { fleet_key: KEY.as_ptr(), ..self.config() };
        let constructor = self.bytes.pick(&CONSTRUCTORS[..5]);
        for _ in 0..2 {
            self.constructed(config, |c, out, error| constructor(c, out, error));
        }
    }

    unsafe fn constructed(
        &mut self,
        mut config: dpb_config,
        constructor: impl Fn(*const dpb_config, *mut *mut dpb_bandit, *mut dpb_error) -> dpb_status,
    ) {
        let (mut handle, mut error, before) = (null_mut(), no_error(), spent(self.budget));
        let mut status = constructor(&raw const config, &raw mut handle, &raw mut error);
        while status == DPB_INVALID_CONFIG && fits(&mut config, &error) {
            status = constructor(&raw const config, &raw mut handle, &raw mut error);
        }
        let charged = !config.budget.is_null();
        let refusal = if charged { DPB_OVER_BUDGET } else { DPB_NULL };
        one_of(status, &[DPB_OK, DPB_NULL, DPB_INVALID_CONFIG, DPB_NEWER_VERSION, refusal]);
        let after = spent(self.budget);
        let grown = before <= after * (1.0 + 1e-9) && after <= 8.0 * (1.0 + 1e-9); // epsilon may be tiny
        assert!(if status == DPB_OK && charged { grown } else { before == after });
        match (config.struct_size as usize).cmp(&size_of::<dpb_config>()) {
            Ordering::Greater => assert!(matches!(status, DPB_NEWER_VERSION | DPB_NULL)),
            Ordering::Less => assert!(matches!(status, DPB_INVALID_CONFIG | DPB_NULL)),
            Ordering::Equal => {}
        }
        if let Some(handle) = made(status, handle, &error) {
            if self.bandits.len() == 4 {
                dpb_free(self.bandits.remove(0).handle);
            }
            let read = dpb_config { budget: null(), ..config };
            self.bandits.push(Player::new(handle, read, Some(1)));
        }
    }

    unsafe fn select(&mut self, player: &mut Player) {
        let n = if self.bytes.once_in(4) { self.bytes.below(70) } else { 1 };
        let mut decisions = vec![NO_DECISION; n.max(1)];
        let mut done = n;
        let status = match n {
            1 => dpb_select(player.handle, decisions.as_mut_ptr()),
            _ => dpb_select_many(player.handle, null(), n, decisions.as_mut_ptr(), &raw mut done),
        };
        if player.model.is_none() {
            one_of(status, &[DPB_OK, DPB_UNSUPPORTED]);
        } else {
            // Where users are counted, each request must name a user.
            assert_eq!(status, if player.config.expected_users > 0 { DPB_UNSUPPORTED } else { DPB_OK });
        }
        if status == DPB_OK {
            assert_eq!(done, n);
            decisions.truncate(n);
            let specs: Vec<_> = (0..n).map(|_| Spec::PLAIN).collect();
            player.check_decisions(&specs, (DPB_OK, n, decisions));
        } else {
            assert!(decisions.iter().all(untouched) && (n == 1 || done == 0));
            player.after(false, [0; 4]);
            let specs: Vec<_> =
                (0..n).map(|_| Spec { user: self.bytes.pick(&[1, 1, 2, 3, u64::MAX]), ..Spec::PLAIN }).collect();
            player.check_decisions(&specs, decide(player.handle, &specs, n != 1));
        }
    }

    /// Makes one request with values.
    unsafe fn valued(&mut self, player: &mut Player) {
        let specs = [player.spec(&mut self.bytes).with_values(&mut self.bytes, player.seen.arms.len())];
        player.check_decisions(&specs, decide(player.handle, &specs, false));
    }

    /// Makes one request with costs, or that may get no arm.
    unsafe fn costed(&mut self, player: &mut Player) {
        let specs = [player.spec(&mut self.bytes).with_costs(&mut self.bytes, player.seen.arms.len())];
        player.check_decisions(&specs, decide(player.handle, &specs, false));
    }

    /// Makes one request whose slots are not always examined, sometimes with values.
    unsafe fn positioned(&mut self, player: &mut Player) {
        let spec = player.spec(&mut self.bytes).with_positions(&mut self.bytes);
        let valued = self.bytes.once_in(4);
        let spec = if valued { spec.with_values(&mut self.bytes, player.seen.arms.len()) } else { spec };
        let specs = [spec];
        player.check_decisions(&specs, decide(player.handle, &specs, false));
    }

    /// Makes one request.
    unsafe fn request(&mut self, player: &mut Player) {
        let specs = [player.spec(&mut self.bytes)];
        player.check_decisions(&specs, decide(player.handle, &specs, false));
    }

    /// Makes many requests in one batch, up to the first one that is refused.
    unsafe fn requests(&mut self, player: &mut Player) {
        let specs: Vec<_> = (0..self.bytes.below(8)).map(|_| player.spec(&mut self.bytes)).collect();
        player.check_decisions(&specs, decide(player.handle, &specs, true));
    }

    unsafe fn answer(&mut self, player: &mut Player) {
        let (ticket, cancel) = (player.ticket(&mut self.bytes), self.bytes.once_in(6));
        let (reward, good) = if cancel { (0.0, Some(true)) } else { player.reward(&mut self.bytes) };
        let parts = player.config.parts;
        let part = if parts > 0 { self.bytes.below(1 + parts as usize) as u32 } else { 0 };
        if parts > 0 && part == parts && !cancel {
            assert_eq!(dpb_update_part(player.handle, ticket, part, reward), DPB_INVALID_CONFIG);
            return player.after(false, [0, 0, 1, 0]);
        }
        let part = (!cancel).then_some(part);
        let expected = player.expected(ticket, good, part);
        let status = match part {
            None => dpb_cancel(player.handle, ticket),
            Some(0) => dpb_update(player.handle, ticket, reward),
            Some(part) => dpb_update_part(player.handle, ticket, part, reward),
        };
        one_of(status, &expected);
        player.ended(status, ticket, part);
        player.after(status == DPB_OK, refusal(status));
    }

    unsafe fn advance(&mut self, player: &mut Player) {
        let done = advance(player.handle, &mut player.model, &mut self.bytes);
        player.after(done, [0; 4]);
    }

    unsafe fn skip(&mut self, player: &mut Player) {
        let ticks = self.bytes.pick(&[1, 3, 0, 40, u64::MAX]);
        assert_eq!(dpb_skip(player.handle, ticks), DPB_OK);
        player.model.iter_mut().for_each(|model| model.skip(ticks));
        player.after(true, [0; 4]);
    }

    unsafe fn cancel_all(&mut self, player: &mut Player) {
        assert_eq!(dpb_cancel_all(player.handle), DPB_OK);
        player.model.iter_mut().for_each(Model::end_all);
        player.after(true, [0; 4]);
    }

    unsafe fn answer_many(&mut self, player: &mut Player) {
        let n = self.bytes.below(20);
        let answers: Vec<_> =
            (0..n).map(|_| (player.ticket(&mut self.bytes), player.reward(&mut self.bytes))).collect();
        let tickets: Vec<_> = answers.iter().map(|&(ticket, _)| ticket).collect();
        let rewards: Vec<_> = answers.iter().map(|&(_, (reward, _))| reward).collect();
        let (mut each, mut done, mut refusals) = (vec![-1; n], usize::MAX, [0; 4]);
        let status =
            dpb_update_many(player.handle, tickets.as_ptr(), rewards.as_ptr(), n, each.as_mut_ptr(), &raw mut done);
        for (&(ticket, (_, good)), &status) in answers.iter().zip(&each) {
            one_of(status, &player.expected(ticket, good, Some(0)));
            player.ended(status, ticket, Some(0));
            refusals.iter_mut().zip(refusal(status)).for_each(|(sum, more)| *sum += more);
        }
        assert_eq!(done, each.iter().filter(|&&status| status == DPB_OK).count());
        assert_eq!(status, each.iter().copied().find(|&status| status != DPB_OK).unwrap_or(DPB_OK));
        player.after(done > 0, refusals);
    }

    unsafe fn change_arms(&mut self, player: &mut Player) {
        let (count, mut error) = (player.seen.arms.len() as u32, no_error());
        if self.bytes.once_in(2) && count < 60 {
            let mut arm = u32::MAX;
            let id = self.bytes.pick(&[0, 1, 100, u64::MAX]);
            let status = dpb_add_arm(player.handle, id, &raw mut arm, &raw mut error);
            one_of(status, &[DPB_OK, DPB_UNSUPPORTED, DPB_INVALID_CONFIG, DPB_INVALID_REQUEST]);
            if status != DPB_OK {
                explained(&error, status);
            }
            if status == DPB_OK && arm < count {
                assert!(id != 0 && arm >= player.config.arms, "an id that is known is its arm's");
                return player.after(false, [0; 4]);
            }
            assert_eq!(arm, if status == DPB_OK { count } else { u32::MAX });
            if let Some(model) = &mut player.model
                && status == DPB_OK
            {
                model.pulls.push(0);
                model.retired.push(false);
            }
            player.after(status == DPB_OK, [0; 4]);
        } else {
            let arm = self.bytes.below(count as usize + 1) as u32;
            if self.bytes.once_in(2) {
                return self.set_prior(player, arm);
            }
            let status = dpb_retire_arm(player.handle, arm);
            one_of(status, &[DPB_OK, DPB_UNSUPPORTED, DPB_INVALID_REQUEST]);
            if let Some(model) = &mut player.model
                && status == DPB_OK
            {
                assert!(!std::mem::replace(&mut model.retired[arm as usize], true));
            }
            player.after(status == DPB_OK, [0; 4]);
            assert!(status != DPB_OK || player.seen.arms[arm as usize][3] == 0);
        }
    }

    unsafe fn next_period(&mut self, player: &mut Player) {
        let status = one_of(dpb_next_period(player.handle), &[DPB_OK, DPB_UNSUPPORTED, DPB_OVER_BUDGET]);
        if let Some(model) = &mut player.model {
            assert_eq!(
                status,
                if player.config.expected_users > 0 { model.another(&player.config) } else { DPB_UNSUPPORTED }
            );
            model.periods += u32::from(status == DPB_OK);
            if model.periods % 2 == 0 {
                store(player.handle);
            }
        }
        player.after(status == DPB_OK, [0; 4]);
    }

    /// Sets a prior, which changes nothing that can be read.
    unsafe fn set_prior(&mut self, player: &mut Player, arm: u32) {
        let (low, high) = (player.config.reward_min, player.config.reward_max);
        let mean = self.bytes.pick(&[low, high, f64::NAN, 1e300]);
        let strength = self.bytes.pick(&[1.0, 100.0, 1e7, 0.0]);
        let mut error = no_error();
        let status = dpb_set_prior(player.handle, arm, mean, strength, &raw mut error);
        one_of(status, &[DPB_OK, DPB_UNSUPPORTED, DPB_INVALID_CONFIG, DPB_INVALID_REQUEST]);
        match status {
            DPB_OK => assert_eq!(error.status, -1),
            _ => explained(&error, status),
        }
        assert!(status != DPB_OK || (strength > 0.0 && mean < 1e300));
        player.after(false, [0; 4]);
    }

    /// A shuffled batch: of the right length or not, for the open phase or not.
    unsafe fn submit(&mut self, player: &mut Player) {
        let phase = (player.seen.report[6] as u32).wrapping_add(self.bytes.pick(&[0, 0, 0, 1, u32::MAX]));
        let mut plan: dpb_shuffle_params = zeroed();
        if one_of(dpb_shuffle_params_read(player.handle, phase, &raw mut plan), &[DPB_OK, DPB_UNSUPPORTED]) != DPB_OK {
            assert_eq!(dpb_submit_shuffled(player.handle, phase, 0, null(), 0), DPB_UNSUPPORTED);
            return;
        }
        let length = (plan.users as usize).saturating_mul(1 + plan.coins_per_user as usize);
        let length = if length > 1 << 20 { 7 } else { length } + usize::from(self.bytes.once_in(8));
        let mut bits = vec![self.bytes.byte() & 1; length];
        bits[0] = self.bytes.pick(&[0, 1, 1, 1, 2]);
        let arm = self.bytes.below(player.seen.arms.len() + 1) as u32;
        let status = dpb_submit_shuffled(player.handle, phase, arm, bits.as_ptr(), bits.len());
        let refused = [DPB_EXPIRED, DPB_NOT_READY, DPB_DUPLICATE, DPB_INVALID_CONFIG, DPB_UNSUPPORTED];
        if one_of(status, &[&[DPB_OK], &refused[..]].concat()) == DPB_OK && player.model.is_some() {
            assert!(bits[0] < 2);
        }
        player.after(status == DPB_OK, [0; 4]);
    }

    unsafe fn read(&mut self, player: &mut Player) {
        let (delta, mut epsilon) = (self.bytes.pick(ODD), -7.0);
        let status = dpb_epsilon_spent(player.handle, delta, &raw mut epsilon);
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG]);
        assert!(if status == DPB_OK { epsilon >= 0.0 } else { epsilon == -7.0 });
        let (confidence, mut low, mut high) = (delta, -7.0, -7.0);
        let j = (player.seen.report[0] % 5) as u32;
        let status = dpb_compare(player.handle, 0, j, confidence, &raw mut low, &raw mut high);
        one_of(status, &[DPB_OK, DPB_NOT_READY, DPB_INVALID_CONFIG, DPB_INVALID_REQUEST, DPB_UNSUPPORTED]);
        // The range of an altered handle is unknown.
        let declared = player.config.reward_max - player.config.reward_min;
        let range = if player.model.is_some() { declared } else { f64::INFINITY };
        assert!(match status {
            DPB_OK => confidence > 0.0 && confidence < 1.0 && j > 0 && -range <= low && low <= high && high <= range,
            _ => (low, high) == (-7.0, -7.0),
        });
        let (mut low, mut high) = (-7.0, -7.0);
        let control = if j == 4 { DPB_NO_ARM } else { j };
        let status = dpb_lift(player.handle, control, confidence, &raw mut low, &raw mut high);
        one_of(status, &[DPB_OK, DPB_NOT_READY, DPB_INVALID_CONFIG, DPB_INVALID_REQUEST, DPB_UNSUPPORTED]);
        assert!(match status {
            DPB_OK => confidence > 0.0 && confidence < 1.0 && -1.0 <= low && low <= high,
            _ => (low, high) == (-7.0, -7.0),
        });
        let name = dpb_policy_name(player.handle);
        assert_eq!(u64::from(dpb_policy_number(name)), player.seen.report[9]);
        // Structs of other sizes: nothing is written.
        let ours = size_of::<dpb_report>() as u32;
        let size = self.bytes.pick(&[ours, ours - 8, 72, 0, 4, ours - 1, ours + 8, u32::MAX]);
        let mut read = [7u64; 23];
        read.as_mut_ptr().cast::<u32>().write(size);
        let before = read;
        let status = dpb_report_read(player.handle, read.as_mut_ptr().cast());
        let words = size as usize / 8;
        match size.cmp(&ours) {
            Ordering::Equal => assert_eq!((status, &read[words..]), (DPB_OK, &before[words..])),
            Ordering::Greater => assert_eq!((status, read), (DPB_NEWER_VERSION, before)),
            Ordering::Less => assert_eq!((status, read), (DPB_INVALID_CONFIG, before)),
        }
        let mut n = 77;
        assert_eq!(dpb_segment_read(player.handle, 0, null_mut(), 0, &raw mut n), DPB_UNSUPPORTED);
        assert_eq!(n, 77);
        // A snapshot of another kind.
        let segments = segments::fresh(2, 1, 0, 0, 1);
        assert_eq!(dpb_merge(player.handle, segments.as_ptr(), segments.len(), null_mut()), DPB_INVALID_CONFIG);
        player.after(false, [0; 4]);
    }

    /// A ticket of another handle is unknown. (By chance it is known: 2^-32 for each try.)
    unsafe fn foreign(&mut self, player: &mut Player) {
        let Some(other) = self.bandits.first() else { return };
        let ticket = other.ticket(&mut self.bytes);
        if player.model.is_some() && other.tickets.contains(&ticket) {
            assert_eq!(dpb_update(player.handle, ticket, player.config.reward_max), DPB_UNKNOWN_TICKET);
            player.after(false, [0, 0, 0, 1]);
        }
    }

    /// Merges another handle's snapshot, as it is or altered, twice: merging changes no counts.
    unsafe fn merge(&mut self, player: &mut Player) {
        let Some(mut bytes) = self.bandits.first().and_then(|other| snapshot(other.handle)) else { return };
        for _ in 0..self.bytes.below(3) {
            let place = (usize::from(self.bytes.byte()) << 8 | usize::from(self.bytes.byte())) % bytes.len();
            bytes[place] = self.bytes.byte();
        }
        let bytes = sealed(bytes);
        for _ in 0..2 {
            let mut error = no_error();
            let status = dpb_merge(player.handle, bytes.as_ptr(), bytes.len(), &raw mut error);
            one_of(status, &[DPB_OK, DPB_UNSUPPORTED, DPB_INVALID_CONFIG, DPB_CORRUPT, DPB_NEWER_VERSION]);
            let news = status == DPB_OK && !player.merged.contains(&bytes);
            if news {
                player.merged.push(bytes.clone());
            }
            player.after(news, [0; 4]);
        }
    }

    /// Ends contributing and leading. What is addressed to the generation that it led is refused from now on.
    unsafe fn alone(&mut self, player: &mut Player) {
        let (keyed, mut error) = (!player.config.fleet_key.is_null(), no_error());
        let changes = keyed && player.seen.report[11] != u64::from(DPB_DUTY_ALONE);
        let status = dpb_alone(player.handle, &raw mut error);
        assert_eq!(status, if keyed { DPB_OK } else { DPB_UNSUPPORTED });
        player.led = 0;
        player.after(changes, [0; 4]);
        assert_eq!(player.seen.report[11..13], [DPB_DUTY_ALONE.into(), 0]);
    }

    /// Sets the number of handles that share the work. Nothing that can be read changes.
    unsafe fn set_handles(&mut self, player: &mut Player) {
        let (keyed, mut error) = (!player.config.fleet_key.is_null(), no_error());
        let handles = self.bytes.pick(&[1, 0, 2, 1000, u32::MAX]);
        let status = dpb_set_handles(player.handle, handles, &raw mut error);
        assert_eq!(status, if keyed { DPB_OK } else { DPB_UNSUPPORTED });
        player.after(false, [0; 4]);
    }

    /// Leads, contributes, combines, seals and opens. A contribution is added at most once, by the handle that leads the
    /// generation that it is for. None of this changes what can be read, except that combining may release.
    unsafe fn combining(&mut self, player: &mut Player) {
        let (handle, keyed, mut error) = (player.handle, !player.config.fleet_key.is_null(), no_error());
        let unless_keyed = |status| if keyed { status } else { DPB_UNSUPPORTED };
        match self.bytes.below(6) {
            0 => {
                let mut generation = 0;
                let status = dpb_lead(handle, &raw mut generation, &raw mut error);
                assert_eq!((status, generation != 0), (unless_keyed(DPB_OK), keyed));
                assert!(player.led == 0 || player.led == generation);
                player.led = generation;
                self.generations.push(generation);
                player.after(keyed, [0; 4]);
                let duty = if keyed { DPB_DUTY_LEADS } else { DPB_DUTY_ALONE };
                assert_eq!(player.seen.report[11..13], [duty.into(), generation]);
            }
            1 | 2 => {
                let n = self.generations.len();
                let generation = self.generations[n - 1 - self.bytes.below(n)];
                let mut len = usize::MAX;
                let call = |buf, cap, len| dpb_contribution(handle, generation, buf, cap, len, null_mut());
                let status = call(null_mut(), 0, &raw mut len);
                if !keyed || generation == 0 || generation == player.led {
                    assert_eq!((status, len), (unless_keyed(DPB_INVALID_CONFIG), usize::MAX));
                    return player.after(false, [0; 4]);
                }
                player.led = 0;
                player.after(true, [0; 4]);
                assert_eq!(player.seen.report[11..13], [DPB_DUTY_CONTRIBUTES.into(), generation]);
                if one_of(status, &[DPB_OK, DPB_BUFFER_TOO_SMALL]) == DPB_OK {
                    assert_eq!(len, 0);
                } else {
                    let (mut bytes, mut again) = (vec![0; len], 0);
                    assert_eq!(call(bytes.as_mut_ptr(), len - 1, &raw mut again), DPB_BUFFER_TOO_SMALL);
                    assert_eq!((again, bytes.iter().all(|&byte| byte == 0)), (len, true));
                    assert_eq!((call(bytes.as_mut_ptr(), len, &raw mut again), again), (DPB_OK, len));
                    assert_eq!((call(null_mut(), 0, &raw mut again), again), (DPB_OK, 0));
                    self.sent.push((generation, bytes, false));
                }
                player.after(false, [0; 4]);
            }
            3 | 4 => {
                let n = self.sent.len();
                let place = self.bytes.below(n);
                let Some((generation, sent, added)) = self.sent.get_mut(place) else { return };
                let mut bytes = sent.clone();
                if self.bytes.once_in(4) {
                    let at = (usize::from(self.bytes.byte()) << 8 | usize::from(self.bytes.byte())) % bytes.len();
                    bytes[at] = self.bytes.byte();
                }
                let before = report(handle).contributions;
                let status = dpb_combine(handle, bytes.as_ptr(), bytes.len(), &raw mut error);
                let done = status == DPB_OK;
                if !keyed {
                    assert_eq!(status, DPB_UNSUPPORTED);
                } else if bytes != *sent {
                    one_of(status, &[DPB_CORRUPT, DPB_NEWER_VERSION]);
                } else if status != DPB_INVALID_CONFIG {
                    let ours = player.led != 0 && player.led == *generation;
                    one_of(status, if ours { &[DPB_OK, DPB_DUPLICATE] } else { &[DPB_EXPIRED] });
                    assert!(!(done && *added), "added twice");
                    *added |= done;
                }
                assert_eq!(report(handle).contributions, before + u64::from(done));
                player.after(done, [0; 4]);
            }
            _ if self.bytes.once_in(4) => self.moves(player),
            _ => {
                let message: Vec<u8> = (0..self.bytes.below(5)).map(|_| self.bytes.byte()).collect();
                let (from, n, mut len) = (message.as_ptr(), message.len(), 0);
                let mut sealed = vec![0; n + DPB_SEAL_BYTES];
                let mut opened = vec![0; n];
                let length = self.bytes.pick(&[sealed.len(), sealed.len(), 0, sealed.len() - 1]);
                let fits = if length < sealed.len() { DPB_BUFFER_TOO_SMALL } else { DPB_OK };
                let status = dpb_seal(handle, from, n, sealed.as_mut_ptr(), length, &raw mut len, &raw mut error);
                assert_eq!((status, len), (unless_keyed(fits), if keyed { sealed.len() } else { 0 }));
                let mut open = |bytes: &[u8], cap| {
                    let to = opened.as_mut_ptr();
                    let status = dpb_open(handle, bytes.as_ptr(), bytes.len(), to, cap, &raw mut len, &raw mut error);
                    (status, opened == message)
                };
                if keyed && status == DPB_OK {
                    assert_eq!(open(&sealed, n), (DPB_OK, true));
                    assert!(n == 0 || open(&sealed, n - 1).0 == DPB_BUFFER_TOO_SMALL);
                    let at = self.bytes.below(sealed.len());
                    sealed[at] ^= 1 << self.bytes.below(8);
                    one_of(open(&sealed, n).0, &[DPB_CORRUPT, DPB_NEWER_VERSION]);
                } else {
                    assert_eq!(open(&sealed, n).0, unless_keyed(DPB_CORRUPT));
                }
                player.after(false, [0; 4]);
            }
        }
    }

    /// Suspends the handle, and continues with the one that resumes. Only what was merged is no longer known.
    unsafe fn moves(&mut self, player: &mut Player) {
        if !player.config.budget.is_null() {
            return; // of which a restored handle may have had no charge
        }
        let (old, mut receiver, mut len) = (player.handle, 0, usize::MAX);
        if self.bytes.once_in(2) {
            assert_eq!(dpb_receiver(old, &raw mut receiver, null_mut()), DPB_OK);
        }
        let status = dpb_suspend(old, receiver, null_mut(), 0, &raw mut len, null_mut());
        if player.config.fleet_key.is_null() {
            assert_eq!((status, len), (DPB_UNSUPPORTED, usize::MAX));
            return player.after(false, [0; 4]);
        }
        assert_eq!(status, DPB_BUFFER_TOO_SMALL);
        let mut state = vec![0; len];
        assert_eq!(dpb_suspend(old, receiver, state.as_mut_ptr(), len, &raw mut len, null_mut()), DPB_OK);
        assert_eq!(dpb_suspend(old, receiver, state.as_mut_ptr(), len, &raw mut len, null_mut()), DPB_HALTED);
        let config = player.config;
        let resume =
            |bytes: &[u8], out| dpb_resume(null(), &raw const config, bytes.as_ptr(), bytes.len(), out, null_mut());
        let (mut next, mut none) = (null_mut(), null_mut());
        let mut altered = state.clone();
        altered[self.bytes.below(len)] ^= 1 << self.bytes.below(8);
        one_of(resume(&altered, &raw mut none), &[DPB_CORRUPT, DPB_NEWER_VERSION]);
        assert_eq!(resume(&state, &raw mut next), DPB_OK);
        if receiver == 0 {
            assert_eq!(dpb_suspend(next, 0, null_mut(), 0, &raw mut len, null_mut()), DPB_NOT_READY);
        } else {
            assert_eq!(resume(&state, &raw mut none), DPB_EXPIRED);
        }
        assert_eq!(dpb_claimed(next), DPB_OK);
        dpb_free(old);
        (player.handle, player.led) = (next, 0);
        player.merged.clear();
        player.after(true, [0; 4]);
    }

    /// Takes a snapshot, restores it, and does both again.
    unsafe fn live_on(&mut self, player: &Player) {
        let Some(bytes) = snapshot(player.handle) else { return };
        if self.bytes.once_in(2) || !player.merged.is_empty() {
            return self.altered(bytes, player.config);
        }
        let another = player.model.as_ref().map(|model| model.another(&player.config));
        let second = match restore(&bytes) {
            Ok(second) => second,
            Err(status) => {
                return assert!(status == DPB_OVER_BUDGET && another.is_none_or(|another| another == status));
            }
        };
        assert!(another.is_none_or(|another| another == DPB_OK));
        let mut early = NO_DECISION;
        if player.config.expected_users > 0 && player.model.is_some() {
            let request = Spec { user: 1, ..Spec::PLAIN }.request();
            assert_eq!(dpb_select_for(second, &raw const request, &raw mut early), DPB_NOT_READY);
        }
        assert!(untouched(&early));
        if player.model.is_some() {
            restored_as_it_was(player, &bytes);
        }
        // Merging its own snapshot changes nothing, nor does a snapshot that it cannot read.
        let status = dpb_merge(second, bytes.as_ptr(), bytes.len(), null_mut());
        one_of(status, &[DPB_OK, DPB_UNSUPPORTED]);
        one_of(dpb_merge(second, bytes.as_ptr(), bytes.len() - 1, null_mut()), &[DPB_CORRUPT]);
        let next = snapshot(second).unwrap();
        gate(second, &bytes, &next, player.config.expected_users > 0 && player.model.is_some());
        let Ok(third) = restore(&next) else { return dpb_free(second) }; // over budget, as checked above
        let last = snapshot(third).unwrap();
        // The snapshots differ only in the generation's number and the checksum.
        assert!(next.len() == last.len() && next.iter().zip(&last).filter(|(a, b)| a != b).count() <= 8);
        let (seen, mut then) = (Seen::of(second), Seen::of(third));
        if player.model.is_none() || player.config.expected_users > 0 {
            // A new period: the reported loss may grow but not shrink.
            assert!(f64::from_bits(then.report[4]) >= f64::from_bits(seen.report[4]));
            then.report[4..6].copy_from_slice(&seen.report[4..6]);
        }
        assert_eq!((&seen, seen.learned()), (&then, player.seen.learned()));
        assert_eq!((seen.best, seen.refusals), (player.seen.best, [0; 4]));
        let (then, now) = (seen.report, player.seen.report);
        let open = now[0] - now[1] - now[2] - now[3];
        assert_eq!(then[..4], [now[0], now[1], now[2], now[3] + open]);
        assert!(f64::from_bits(then[4]) >= f64::from_bits(now[4]) && then[8] <= now[8]);
        dpb_free(third);
        let mut second = Player::new(
            second,
            dpb_config { fleet_key: null(), ..player.config },
            player.model.as_ref().map(|model| model.periods + 1),
        );
        if let (Some(next), Some(last)) = (&mut second.model, &player.model) {
            next.clock = last.clock;
        }
        if self.bandits.len() < 3 {
            self.bandits.push(second);
        } else {
            dpb_free(second.handle);
        }
    }

    unsafe fn altered(&mut self, mut bytes: Vec<u8>, config: dpb_config) {
        for _ in 0..=self.bytes.below(4) {
            let place = (usize::from(self.bytes.byte()) << 8 | usize::from(self.bytes.byte())) % bytes.len();
            bytes[place] = match self.bytes.below(4) {
                0 => bytes[place] ^ 1 << self.bytes.below(8),
                1 => self.bytes.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                _ => self.bytes.byte(),
            };
        }
        if self.bytes.once_in(8) {
            bytes.truncate(self.bytes.below(bytes.len()));
        }
        if self.bytes.once_in(8) {
            // Without a new checksum: the library accepts only unaltered bytes.
            return one_that_is_not(&bytes);
        }
        // tests/memory_usage.rs tests rings of millions of decisions and millions of users.
        for upper in sizes() {
            if let Some(upper) = bytes.get_mut(upper.clone()) {
                upper.fill(0);
            }
        }
        if let Ok(handle) = restore(&sealed(bytes)) {
            store(handle); // a restored handle that counts users decides only after this
            if self.bandits.len() < 3 && report(handle).max_segments == 0 {
                self.bandits.push(Player::new(handle, dpb_config { fleet_key: null(), ..config }, None));
            } else {
                dpb_free(handle);
            }
        }
    }

    unsafe fn count(&mut self) {
        let Some(counter) = &mut self.counter else {
            let bytes = &mut self.bytes;
            let (kind, epsilon, horizon) = (
                bytes.below(4) as u32,
                bytes.pick(&[1.0, 1.0, 1.0, -1.0, f64::NAN]),
                bytes.pick(&[9, 0, 100, u64::MAX]),
            );
            let (mut handle, mut error) = (null_mut(), no_error());
            let mut config: dpb_counter_config = zeroed();
            match bytes.below(4) {
                1 => dpb_counter_config_init_sized(&raw mut config, bytes.pick(&[32, 24, 3]), kind, epsilon),
                _ => dpb_counter_config_init_sized(&raw mut config, 32, kind, epsilon),
            }
            (config.horizon, config.test_seed) = (horizon, SEED.as_ptr());
            let status = dpb_new_counter(&raw const config, &raw mut handle, &raw mut error);
            one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_NEWER_VERSION]);
            let most = if kind == DPB_COUNTER_BINARY { horizon } else { u64::MAX };
            self.counter = made(status, handle, &error).map(|handle| Counter { handle, most, values: 0 });
            return;
        };
        let read = |handle| {
            let mut sum = f64::NAN;
            assert_eq!(dpb_counter_read(handle, &raw mut sum), DPB_OK);
            assert!(sum.is_finite());
            sum
        };
        let before = read(counter.handle);
        for _ in 0..=self.bytes.below(16) {
            let value = self.bytes.pick(&[1.0, 0.0, 0.5, 1.0, 2.0, f64::NAN]);
            let before = read(counter.handle);
            let status = dpb_counter_add(counter.handle, value);
            one_of(status, &[DPB_OK, DPB_INVALID_REWARD, DPB_HALTED]);
            counter.values += u64::from(status == DPB_OK);
            assert!(counter.values <= counter.most && (status != DPB_HALTED || counter.values == counter.most));
            assert!(status == DPB_OK || read(counter.handle) == before);
        }
        let mut private = 7;
        assert_eq!((dpb_counter_is_private(counter.handle, &raw mut private), private), (DPB_OK, 0));
        assert!(counter.values > 0 || before == 0.0);
        if self.bytes.once_in(8) {
            dpb_counter_free(counter.handle);
            self.counter = None;
        }
    }

    unsafe fn stop(&mut self) {
        let Some(stopping) = &mut self.stopping else {
            let bytes = &mut self.bytes;
            let mut config: dpb_stopping_config = zeroed();
            let (range, epsilon) =
                (bytes.pick(&[1.0, 1.0, 100.0, 0.0, f64::NAN]), bytes.pick(&[1.0, 10.0, 0.0, 1e300]));
            match bytes.below(4) {
                1 => dpb_stopping_config_init_sized(&raw mut config, bytes.pick(&[48, 40, 3]), range, epsilon),
                _ => dpb_stopping_config_init_sized(&raw mut config, 48, range, epsilon),
            }
            (config.alpha, config.beta) = (bytes.pick(&[0.9, 0.5, 0.0]), bytes.pick(&[0.5, 0.1, 1.0]));
            config.test_seed = SEED.as_ptr();
            let (mut handle, mut error) = (null_mut(), no_error());
            let new = bytes.pick(&[dpb_new_nas, dpb_new_dp_nas, dpb_new_dp_exp_nas]);
            let status = new(&raw const config, &raw mut handle, &raw mut error);
            one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_NEWER_VERSION]);
            self.stopping = made(status, handle, &error).map(|handle| Stopping { handle, range, halted: false });
            return;
        };
        for _ in 0..=self.bytes.byte() {
            let sample = stopping.range * self.bytes.pick(&[1.0, 1.0, 1.0, 0.5, -1.0, 2.0, f64::NAN]);
            let mut halted = 7;
            let status = dpb_stopping_push(stopping.handle, sample, &raw mut halted);
            one_of(status, &[DPB_OK, DPB_INVALID_REWARD, DPB_HALTED]);
            assert_eq!(status == DPB_OK, halted < 2);
            assert!(!stopping.halted || status != DPB_OK);
            stopping.halted |= halted == 1;
            if self.bytes.0.is_empty() {
                break;
            }
        }
        let (mut mean, mut private) = (f64::NAN, 7);
        let status = dpb_stopping_mean(stopping.handle, &raw mut mean);
        assert_eq!(status, if stopping.halted { DPB_OK } else { DPB_NOT_READY });
        assert_eq!(stopping.halted, mean.is_finite());
        assert_eq!((dpb_stopping_is_private(stopping.handle, &raw mut private), private), (DPB_OK, 0));
        if self.bytes.once_in(8) {
            dpb_stopping_free(stopping.handle);
            self.stopping = None;
        }
    }

    unsafe fn shuffle(&mut self) {
        let bytes = &mut self.bytes;
        let Some(shuffler) = &mut self.shuffler else {
            let (epsilon, delta) = (bytes.pick(&[1.0, 10.0, 50.0, 0.0, f64::NAN]), bytes.pick(&[1e-3, 0.5, 1e-9, 0.0]));
            let (users, flags) = (bytes.pick(&[2, 1, 5, 1000, 0]), bytes.pick(&[0, 0, DPB_SHUFFLE_PRINTED, 3]));
            let (mut plan, mut error) = (zeroed(), no_error());
            let status = dpb_shuffle_plan(epsilon, delta, users, flags, &raw mut plan, &raw mut error);
            if one_of(status, &[DPB_OK, DPB_INVALID_CONFIG]) != DPB_OK {
                assert_eq!(plan.struct_size, 0);
                return;
            }
            match bytes.below(12) {
                0 => plan.struct_size = bytes.pick(&[31, 33, 0, u32::MAX]),
                1 => plan.users = bytes.pick(&[1, 3, 0]),
                2 => plan.coins_per_user = bytes.pick(&[0, 1, 1 << 20, u32::MAX]),
                3 => plan.coin_numerator = bytes.pick(&[0, 1, 1 << 31, u32::MAX]),
                4 => plan.epsilon = bytes.pick(ODD),
                5 => plan.delta = bytes.pick(ODD),
                _ => {}
            }
            if (plan.users as usize).saturating_mul(plan.coins_per_user as usize) > 1 << 22 {
                return; // tests/memory_usage.rs tests large batches
            }
            let mut handle = null_mut();
            let status = dpb_new_shuffler(&raw const plan, &raw mut handle, &raw mut error);
            one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_NEWER_VERSION]);
            if let Some(handle) = made(status, handle, &error) {
                self.shuffler = Some(Shuffler { handle, plan, messages: 0, ones: 0 });
            }
            return;
        };
        let (plan, mut length) = (shuffler.plan, usize::MAX);
        let message = 1 + plan.coins_per_user as usize;
        let batch = plan.users as usize * message;
        match bytes.below(8) {
            0 => {
                dpb_shuffler_free(shuffler.handle);
                self.shuffler = None;
            }
            1 => {
                let mut bits = vec![9; batch];
                let cap = if bytes.once_in(3) { batch - 1 } else { batch };
                let status = dpb_shuffler_take(shuffler.handle, bits.as_mut_ptr(), cap, &raw mut length);
                let complete = shuffler.messages == plan.users;
                match one_of(status, &[DPB_OK, DPB_NOT_READY, DPB_BUFFER_TOO_SMALL]) {
                    DPB_OK => {
                        assert!(complete && cap == batch && length == batch && bits.iter().all(|&bit| bit < 2));
                        assert_eq!(bits.iter().filter(|&&bit| bit == 1).count(), shuffler.ones);
                        (shuffler.messages, shuffler.ones) = (0, 0);
                    }
                    DPB_NOT_READY => assert!(!complete && bits.iter().all(|&bit| bit == 9)),
                    _ => assert!(complete && cap < batch && length == batch && bits.iter().all(|&bit| bit == 9)),
                }
            }
            _ => {
                let mut bits = vec![9; message];
                let cap = if bytes.once_in(6) { bytes.below(message) } else { message };
                let reward = bytes.pick(&[1.0, 0.0, 0.5, 2.0, f64::NAN]);
                let status = dpb_shuffle_encode(&raw const plan, reward, bits.as_mut_ptr(), cap, &raw mut length);
                one_of(status, &[DPB_OK, DPB_INVALID_REWARD, DPB_BUFFER_TOO_SMALL]);
                assert!(if status == DPB_OK {
                    bits.iter().all(|&bit| bit < 2)
                } else {
                    bits.iter().all(|&bit| bit == 9)
                });
                if bytes.once_in(6) {
                    bits.truncate(bytes.below(message));
                }
                let status = dpb_shuffler_push(shuffler.handle, bits.as_ptr(), bits.len());
                one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_EXPIRED]);
                if status == DPB_OK {
                    assert!(bits.len() == message && bits[0] < 2 && shuffler.messages < plan.users);
                    shuffler.messages += 1;
                    shuffler.ones += bits.iter().filter(|&&bit| bit == 1).count();
                }
            }
        }
    }

    unsafe fn local(&mut self) {
        let (epsilon, reward) = (self.bytes.pick(&[1.0, 1e-6, 40.0, 0.0, 41.0, f64::NAN]), self.bytes.pick(ODD));
        let mut bit = 9;
        let status = dpb_ldp_encode(epsilon, reward, &raw mut bit);
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG, DPB_INVALID_REWARD]);
        assert!(if status == DPB_OK { bit < 2 } else { bit == 9 });
        let rows = [0.5f32, -1.0, 2.0, f32::NAN, 1e30, 0.0, 1.0, -2.0];
        let (n, features, len) = (
            self.bytes.pick(&[0, 1, 3, 4, usize::MAX]),
            self.bytes.pick(&[0, 1, 2, 257]),
            self.bytes.pick(&[0, 2, 3, 4]),
        );
        let (n, mut book, mut error) =
            (if n > 4 { n } else { n.min(8 / features.max(1) as usize) }, [9.0f32; 8], no_error());
        let status = dpb_codebook(rows.as_ptr(), n, features, len, book.as_mut_ptr(), &raw mut error);
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG]);
        assert!(status == DPB_OK || book == [9.0; 8]);
        let (delta, mut budget, mut error) = (reward, null_mut(), no_error());
        let status = dpb_new_budget(epsilon, delta, &raw mut budget, &raw mut error);
        one_of(status, &[DPB_OK, DPB_INVALID_CONFIG]);
        if let Some(budget) = made(status, budget, &error) {
            let mut left = -7.0;
            assert_eq!((dpb_budget_remaining(budget, &raw mut left), left, spent(budget)), (DPB_OK, epsilon, 0.0));
            let (other, mut error) = (self.bytes.pick(&[0.5, 1e-6, 0.0, -1.0, f64::NAN]), no_error());
            let charged = dpb_budget_charge(budget, other, delta, &raw mut error);
            one_of(charged, &[DPB_OK, DPB_INVALID_CONFIG, DPB_OVER_BUDGET]);
            let mut now = -7.0;
            assert_eq!(dpb_budget_spent(budget, delta, &raw mut now), DPB_OK);
            assert_eq!(now, if charged == DPB_OK { other } else { 0.0 });
            dpb_budget_free(budget);
        }
    }

    /// Creates a handle with segments, or makes some calls on it.
    unsafe fn segments(&mut self, clock: u32) {
        self.segments = match self.segments.take() {
            None => {
                let config = dpb_config { clock, ..self.config() };
                segments::Player::new(config, &mut self.bytes)
            }
            Some(player) => player.play(&mut self.bytes),
        };
    }

    unsafe fn features(&mut self) {
        self.features = match self.features.take() {
            None => {
                let config = self.config();
                features::Player::new(config, &mut self.bytes)
            }
            Some(player) => player.play(&mut self.bytes),
        };
    }

    /// Passes NULL for every pointer that may be NULL.
    unsafe fn nothing(&mut self) {
        let mut statuses = HashMap::new();
        let mut is_null = |what: &'static str, status| {
            assert_eq!((what, statuses.insert(what, status), status), (what, None, DPB_NULL))
        };
        let (mut number, mut real, mut size, mut handle) = (7u32, 7.0, 7usize, null_mut());
        let (mut decision, mut plan): (_, dpb_shuffle_params) = (NO_DECISION, zeroed());
        let config = self.config();
        for new in CONSTRUCTORS {
            assert_eq!(new(null(), &raw mut handle, null_mut()), DPB_NULL);
            assert_eq!(new(&raw const config, null_mut(), null_mut()), DPB_NULL);
        }
        is_null("name", dpb_new_policy(null(), &raw const config, &raw mut handle, null_mut()));
        is_null("config", dpb_new_policy(c"dp-se".as_ptr(), null(), &raw mut handle, null_mut()));
        is_null("restore", dpb_restore(null(), 5, &raw mut handle, null_mut()));
        is_null("restored", dpb_restore([1].as_ptr(), 1, null_mut(), null_mut()));
        is_null("select", dpb_select(null_mut(), &raw mut decision));
        let request = Spec::PLAIN.request();
        is_null("select_many", dpb_select_many(null_mut(), null(), 1, &raw mut decision, &raw mut size));
        is_null("select_for", dpb_select_for(null_mut(), &raw const request, &raw mut decision));
        is_null("request_check", dpb_request_check(null(), &raw const request, null_mut()));
        is_null("feature weights", dpb_feature_weights(null(), 0, null_mut(), null_mut(), 0, &raw mut size));
        is_null("predict", dpb_predict(null(), &raw const request, null_mut(), null_mut(), 0, &raw mut size));
        let (mut version, mut elsewhere): (u64, dpb_elsewhere) = (0, zeroed());
        is_null("weights", dpb_weights(null(), null(), null_mut(), 0, &raw mut size, null_mut()));
        is_null("table_begin", dpb_table_begin(null_mut(), 0, &raw mut version, null_mut()));
        is_null("record", dpb_record(null_mut(), 0, 0, &raw const request, &raw mut decision));
        is_null("find", dpb_find(null_mut(), 0, 0, &raw mut decision));
        let (all, text) = (1u64 << 32, c"text".as_ptr());
        is_null("decide", dpb_decide(null(), 1, text, text, text, &raw mut elsewhere, null_mut()));
        is_null("no salt", dpb_decide(&all, 1, null(), text, text, &raw mut elsewhere, null_mut()));
        is_null("no unit", dpb_decide(&all, 1, text, text, null(), &raw mut elsewhere, null_mut()));
        is_null("no out", dpb_decide(&all, 1, text, text, text, null_mut(), null_mut()));
        is_null("next_period", dpb_next_period(null_mut()));
        is_null("update", dpb_update(null_mut(), 1, 1.0));
        is_null("update_part", dpb_update_part(null_mut(), 1, 0, 1.0));
        is_null("cancel", dpb_cancel(null_mut(), 1));
        is_null("cancel_all", dpb_cancel_all(null_mut()));
        is_null("skip", dpb_skip(null_mut(), 1));
        is_null("advance", dpb_advance(null_mut(), 1));
        is_null("update_many", dpb_update_many(null_mut(), &1, &1.0, 1, null_mut(), &raw mut size));
        is_null("add_arm", dpb_add_arm(null_mut(), 0, &raw mut number, null_mut()));
        is_null("retire_arm", dpb_retire_arm(null_mut(), 0));
        is_null("set_prior", dpb_set_prior(null_mut(), 0, 0.5, 1.0, null_mut()));
        is_null("arms_read", dpb_arms_read(null(), null_mut(), 0, &raw mut size));
        is_null("segment_read", dpb_segment_read(null(), 0, null_mut(), 0, &raw mut size));
        is_null("report_read", dpb_report_read(null(), null_mut()));
        is_null("diagnostics_read", dpb_diagnostics_read(null(), null_mut()));
        is_null("best_arm", dpb_best_arm(null(), &raw mut number));
        is_null("verdict", dpb_verdict_read(null(), null_mut()));
        is_null("text", dpb_verdict_text(null(), null_mut(), 0, &raw mut size, null_mut()));
        is_null("statement", dpb_statement(null(), 0, null_mut(), 0, &raw mut size, null_mut()));
        is_null("compare", dpb_compare(null(), 0, 1, 0.5, &raw mut real, &raw mut real));
        is_null("lift", dpb_lift(null(), 1, 0.5, &raw mut real, &raw mut real));
        is_null("epsilon_spent", dpb_epsilon_spent(null(), 0.0, &raw mut real));
        is_null("merge", dpb_merge(null_mut(), null(), 0, null_mut()));
        is_null("snapshot", dpb_snapshot(null(), null_mut(), 0, &raw mut size, null_mut()));
        is_null("params", dpb_shuffle_params_read(null(), 1, &raw mut plan));
        is_null("submit", dpb_submit_shuffled(null_mut(), 1, 0, &1, 1));
        is_null("budget", dpb_new_budget(1.0, 0.0, null_mut(), null_mut()));
        is_null("budget_spent", dpb_budget_spent(null(), 0.0, &raw mut real));
        is_null("budget_remaining", dpb_budget_remaining(null(), &raw mut real));
        is_null("budget_charge", dpb_budget_charge(null(), 1.0, 0.0, null_mut()));
        is_null("no spent", dpb_budget_spent(self.budget, 0.0, null_mut()));
        is_null("no remaining", dpb_budget_remaining(self.budget, null_mut()));
        is_null("codebook", dpb_codebook(null(), 1, 1, 1, null_mut(), null_mut()));
        is_null("counter", dpb_new_counter(null(), null_mut(), null_mut()));
        is_null("counter_add", dpb_counter_add(null_mut(), 1.0));
        is_null("counter_read", dpb_counter_read(null(), &raw mut real));
        is_null("counter_private", dpb_counter_is_private(null(), &raw mut number));
        is_null("nas", dpb_new_nas(null(), null_mut(), null_mut()));
        is_null("push", dpb_stopping_push(null_mut(), 1.0, &raw mut number));
        is_null("mean", dpb_stopping_mean(null(), &raw mut real));
        is_null("rule_private", dpb_stopping_is_private(null(), &raw mut number));
        is_null("plan", dpb_shuffle_plan(1.0, 0.1, 1, 0, null_mut(), null_mut()));
        is_null("encode", dpb_shuffle_encode(null(), 1.0, null_mut(), 0, &raw mut size));
        is_null("shuffler", dpb_new_shuffler(null(), null_mut(), null_mut()));
        is_null("shuffler_push", dpb_shuffler_push(null_mut(), &1, 1));
        is_null("shuffler_take", dpb_shuffler_take(null_mut(), null_mut(), 0, &raw mut size));
        is_null("ldp", dpb_ldp_encode(1.0, 1.0, null_mut()));
        if let Some(player) = self.bandits.last_mut() {
            let bandit = player.handle;
            is_null("no decision", dpb_select(bandit, null_mut()));
            is_null("no decisions", dpb_select_many(bandit, null(), 1, null_mut(), &raw mut size));
            is_null("no done", dpb_select_many(bandit, null(), 1, &raw mut decision, null_mut()));
            is_null("no request", dpb_select_for(bandit, null(), &raw mut decision));
            is_null("no request to check", dpb_request_check(bandit, null(), null_mut()));
            is_null("no request to predict", dpb_predict(bandit, null(), null_mut(), null_mut(), 0, &raw mut size));
            is_null("no n of feature weights", dpb_feature_weights(bandit, 0, null_mut(), null_mut(), 0, null_mut()));
            is_null("no n", dpb_predict(bandit, &raw const request, null_mut(), null_mut(), 0, null_mut()));
            is_null("no weights", dpb_weights(bandit, null(), null_mut(), 1, &raw mut size, null_mut()));
            is_null("no n of weights", dpb_weights(bandit, null(), null_mut(), 0, null_mut(), null_mut()));
            is_null("no version", dpb_table_begin(bandit, 0, null_mut(), null_mut()));
            is_null("no request to record", dpb_record(bandit, 0, 0, null(), &raw mut decision));
            is_null("no decision to record", dpb_record(bandit, 0, 0, &raw const request, null_mut()));
            is_null("no decision to find", dpb_find(bandit, 0, 0, null_mut()));
            is_null("no decision for it", dpb_select_for(bandit, &raw const request, null_mut()));
            is_null("no tickets", dpb_update_many(bandit, null(), null(), 1, null_mut(), &raw mut size));
            is_null("no arm", dpb_add_arm(bandit, 0, null_mut(), null_mut()));
            is_null("nothing to merge", dpb_merge(bandit, null(), 5, null_mut()));
            is_null("no report", dpb_report_read(bandit, null_mut()));
            is_null("no diagnostics", dpb_diagnostics_read(bandit, null_mut()));
            is_null("no n of arms", dpb_arms_read(bandit, null_mut(), 0, null_mut()));
            is_null("no n in a segment", dpb_segment_read(bandit, 0, null_mut(), 0, null_mut()));
            is_null("no best", dpb_best_arm(bandit, null_mut()));
            is_null("no verdict", dpb_verdict_read(bandit, null_mut()));
            is_null("no length of a statement", dpb_statement(bandit, 0, null_mut(), 0, null_mut(), null_mut()));
            let mut verdict: dpb_verdict = zeroed();
            is_null("no length of a text", dpb_verdict_text(&raw const verdict, null_mut(), 0, null_mut(), null_mut()));
            let whole = size_of::<dpb_verdict>() as u32;
            for (struct_size, state, status) in [
                (0, 0, DPB_INVALID_CONFIG),
                (whole + 8, 0, DPB_NEWER_VERSION),
                (whole, 4, DPB_INVALID_CONFIG),
                (whole, 3, DPB_BUFFER_TOO_SMALL),
            ] {
                (verdict.struct_size, verdict.state) = (struct_size, state);
                let mut n = 0;
                let text = dpb_verdict_text(&raw const verdict, null_mut(), 0, &raw mut n, null_mut());
                assert_eq!(text, status, "{struct_size} {state}");
            }
            is_null("no epsilon", dpb_epsilon_spent(bandit, 0.0, null_mut()));
            is_null("no low", dpb_compare(bandit, 0, 1, 0.5, null_mut(), &raw mut real));
            is_null("no high", dpb_compare(bandit, 0, 1, 0.5, &raw mut real, null_mut()));
            is_null("no low of a lift", dpb_lift(bandit, 1, 0.5, null_mut(), &raw mut real));
            is_null("no high of a lift", dpb_lift(bandit, 1, 0.5, &raw mut real, null_mut()));
            is_null("no length", dpb_snapshot(bandit, null_mut(), 0, null_mut(), null_mut()));
            is_null("no new configuration", dpb_restore_as(null(), null(), null(), 0, &raw mut handle, null_mut()));
            is_null("no plan", dpb_shuffle_params_read(bandit, 1, null_mut()));
            player.after(false, [0; 4]);
        }
        dpb_request_init_sized(null_mut(), size_of::<dpb_request>() as u32);
        dpb_config_init_sized(null_mut(), size_of::<dpb_config>() as u32, 1, 1.0);
        dpb_free(null_mut());
        dpb_budget_free(null_mut());
        dpb_counter_free(null_mut());
        dpb_stopping_free(null_mut());
        dpb_shuffler_free(null_mut());
        assert!((number, real, size, handle.is_null()) == (7, 7.0, 7, true) && untouched(&decision));
        assert_eq!((plan.struct_size, dpb_policy_number(null()), *dpb_policy_name(null())), (0, 0, 0 as c_char));
        assert_eq!(CStr::from_ptr(dpb_version()).to_bytes().len(), 5);
        assert_eq!(dpb_abi_version() >> 16, 0);
    }
}

unsafe fn spent(budget: *const dpb_budget) -> f64 {
    let mut epsilon = -7.0;
    assert_eq!(dpb_budget_spent(budget, 1e-6, &raw mut epsilon), DPB_OK);
    epsilon
}

unsafe fn snapshot(handle: *const dpb_bandit) -> Option<Vec<u8>> {
    let mut length = 0;
    match one_of(
        dpb_snapshot(handle, null_mut(), 0, &raw mut length, null_mut()),
        &[DPB_BUFFER_TOO_SMALL, DPB_UNSUPPORTED],
    ) {
        DPB_UNSUPPORTED => None,
        _ => {
            let mut bytes = vec![0; length];
            assert_eq!(dpb_snapshot(handle, bytes.as_mut_ptr(), length, &raw mut length, null_mut()), DPB_OK);
            Some(bytes)
        }
    }
}

/// Says that a snapshot is stored.
unsafe fn store(handle: *mut dpb_bandit) {
    if let Some(bytes) = snapshot(handle) {
        assert_eq!(dpb_stored(handle, bytes.as_ptr(), bytes.len(), null_mut()), DPB_OK);
    }
}

/// A handle that is restored from `from` accepts its own snapshot as stored, and no other bytes. If it `counts` users, it
/// decides nothing before.
unsafe fn gate(handle: *mut dpb_bandit, from: &[u8], own: &[u8], counts: bool) {
    let stored = |bytes: &[u8]| dpb_stored(handle, bytes.as_ptr(), bytes.len(), null_mut());
    let request = Spec { user: 1, ..Spec::PLAIN }.request();
    assert_eq!([stored(from), stored(&own[1..]), stored(&[])], [DPB_INVALID_CONFIG, DPB_CORRUPT, DPB_CORRUPT]);
    assert!(!counts || dpb_request_check(handle, &raw const request, null_mut()) == DPB_NOT_READY);
    assert_eq!(stored(own), DPB_OK);
    assert!(!counts || dpb_request_check(handle, &raw const request, null_mut()) != DPB_NOT_READY);
}

unsafe fn restore(bytes: &[u8]) -> Result<*mut dpb_bandit, dpb_status> {
    let (mut handle, mut error) = (null_mut(), no_error());
    let status = dpb_restore(bytes.as_ptr(), bytes.len(), &raw mut handle, &raw mut error);
    one_of(status, &[DPB_OK, DPB_CORRUPT, DPB_NEWER_VERSION, DPB_INVALID_CONFIG, DPB_UNSUPPORTED, DPB_OVER_BUDGET]);
    made(status, handle, &error).ok_or(status)
}

/// A snapshot is restored under its own policy and configuration, and under no other.
unsafe fn restored_as_it_was(player: &Player, bytes: &[u8]) {
    let name = dpb_policy_name(player.handle);
    let restore_as = |config: &dpb_config| {
        let (mut handle, mut error) = (null_mut(), no_error());
        let status = dpb_restore_as(name, config, bytes.as_ptr(), bytes.len(), &raw mut handle, &raw mut error);
        dpb_free(handle);
        status
    };
    let mut other = player.config;
    other.contributions_per_user ^= 1 << 20;
    assert_eq!(restore_as(&other), DPB_INVALID_CONFIG);
    other = dpb_config { max_segments: 1, ..player.config };
    assert_eq!(restore_as(&other), DPB_INVALID_CONFIG);
    assert_eq!(restore_as(&player.config), DPB_OK);
    let mut retuned = player.config;
    (retuned.pending_capacity, retuned.node) = (5, 99);
    assert_eq!(restore_as(&retuned), DPB_OK);
}

/// Bytes with a wrong checksum are not a snapshot.
unsafe fn one_that_is_not(bytes: &[u8]) {
    let fits = bytes.len() > 4 && sealed(bytes.to_vec()) == bytes;
    match restore(bytes) {
        Ok(handle) => {
            assert!(fits);
            dpb_free(handle);
        }
        Err(status) => assert!(fits || matches!(status, DPB_CORRUPT | DPB_NEWER_VERSION)),
    }
}

/// Gives altered bytes a valid checksum, as an attacker would.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len().saturating_sub(4));
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// The positions of the sizes of the ring and of the user counters in a snapshot, except each one's lower two bytes.
fn sizes() -> &'static [Range<usize>; 3] {
    static SIZES: OnceLock<[Range<usize>; 3]> = OnceLock::new();
    SIZES.get_or_init(|| {
        // SAFETY: as in run.
        let with = |capacity, window, users| unsafe {
            let (mut config, mut handle): (dpb_config, _) = (zeroed(), null_mut());
            dpb_config_init_sized(&raw mut config, size_of::<dpb_config>() as u32, 2, 1.0);
            (config.pending_capacity, config.reward_window, config.expected_users) = (capacity, window, users);
            (config.test_seed, config.node) = (SEED.as_ptr(), 7);
            assert_eq!(dpb_new_imed(&raw const config, &raw mut handle, null_mut()), DPB_OK);
            let bytes = snapshot(handle).unwrap();
            dpb_free(handle);
            bytes
        };
        let plain = with(1, 0, 0);
        [(with(2, 0, 0), 4), (with(1, 1, 0), 4), (with(1, 0, 1), 8)].map(|(other, bytes)| {
            let place = plain.iter().zip(&other).position(|(a, b)| a != b).unwrap();
            place + 2..place + bytes
        })
    })
}
