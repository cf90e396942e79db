//! One world: it executes a history and records all public outputs.

use super::handle::{Features, Subject, arms, chances, costs, live, rest, values};
use super::history::{Call, Event, History, Step, WINDOW, Which};
use crate::audit::engine::{pattern, seed};
use crate::support::sealed::{head, nonce};
use dpb::noise::probe::{Draw, NoiseProbe};
use dpb::{Bandit, Budget, Clock, Config, Decision, Duty, Error, Report, Request};
use std::collections::HashSet;
use std::fmt::{Display, Formatter};
use std::hash::Hash;
use std::ops::Range;

/// The kinds of entries in a transcript.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sight {
    /// A sum, with the index of the draw that covers it.
    Release(usize),
    /// Estimates of an arm.
    Estimate,
    /// The arm of a decision of this phase.
    Arm(u32),
    /// Other return values, and all other readable state.
    Rest,
}

/// The first entry in which a transcript differs from the other world's.
pub struct Difference {
    pub place: usize,
    pub sight: Sight,
    /// The other world's value minus this world's value.
    pub by: i64,
    /// The number of decisions so far.
    decisions: usize,
    /// The draws during the call.
    pub draws: Range<usize>,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        write!(f, "{:?} after {} decisions, draws {:?}", self.sight, self.decisions, self.draws)
    }
}

/// One generation of a handle.
struct Generation {
    bandit: Bandit,
    decisions: u32,
}

/// A decision, the index of its handle, and how many decisions that handle had made before the request.
struct Made {
    decision: Decision,
    at: usize,
    before: u32,
    period: usize,
    /// Cancelled in time, or in a period that was not stored.
    is_idle: bool,
    reports: u32,
}

/// The periods of users, as the handle must count them.
struct Periods {
    begun: u32,
    stored: u32,
    /// What each kept snapshot counts.
    kept: Vec<u32>,
    /// The most that a handle has begun.
    most: u32,
}

impl Periods {
    fn begin(&mut self, begun: u32, stored: u32) {
        (self.begun, self.stored, self.most) = (begun, stored, self.most.max(begun));
    }
}

/// The system's time at which states are suspended.
const NOW: u64 = 1_800_000_000;

struct World<'a> {
    subject: Subject,
    history: &'a History,
    /// That of the history. If the history has one handle that moves, it shares a budget with nobody.
    config: Config,
    world: usize,
    generations: Vec<Generation>,
    /// Handles that must not act: suspended ones, and second ones that continue from a state.
    ghosts: Vec<Bandit>,
    /// In the order in which they were taken.
    snapshots: Vec<Vec<u8>>,
    /// The leaders' generations, and the contributions, in their order.
    leaders: Vec<u64>,
    contributions: Vec<Vec<u8>>,
    /// The nonces of all sealed bytes, and whether one came twice.
    nonces: HashSet<Vec<u8>>,
    nonce_repeats: bool,
    hand: NoiseProbe,
    /// The other world's transcript, if it has run.
    other: &'a [u64],
    transcript: Vec<u64>,
    /// A hash of the transcript so far without bytes of snapshots, contributions and states. The adversary who chooses the
    /// features knows it.
    known: u64,
    made: Vec<Made>,
    /// The periods of user counts so far, in all incarnations.
    periods: usize,
    /// Whether a handle knows what another one has released.
    merged: bool,
    counted: Periods,
    /// The time of the caller's clock.
    now: u64,
    /// The largest loss that any handle reported.
    reported: [f64; 2],
    /// Calls since the last event, and draws before the last call.
    looks: usize,
    drawn: usize,
}

type Look = Result<(), Difference>;

impl World<'_> {
    fn see(&mut self, value: u64, sight: Sight) -> Look {
        self.known = (self.known ^ value).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        self.see_bytes(value, sight)
    }

    /// The same for the bytes of a snapshot, a contribution or a state: they are no part of what is known, so that a change
    /// of their format changes nothing else.
    fn see_bytes(&mut self, value: u64, sight: Sight) -> Look {
        let place = self.transcript.len();
        self.transcript.push(value);
        let Some(by) = self.other.get(place).map(|&other| other.wrapping_sub(value) as i64).filter(|&by| by != 0)
        else {
            return Ok(());
        };
        Err(Difference { place, sight, by, decisions: self.made.len(), draws: self.drawn..self.hand.draws() })
    }

    /// Records what is public after a call of this handle: the released sums, the estimates, the decision, and the
    /// rest.
    fn look(&mut self, at: usize, returned: impl Hash, decision: Option<Decision>) -> Look {
        for (draw, sum) in self.hand.released() {
            self.see(sum as u64, Sight::Release(draw))?;
        }
        // Reading all state is slow, and a difference persists. So this happens after events, after draws, and at every
        // eighth call.
        let looks = self.looks.is_multiple_of(8) || self.hand.draws() > self.drawn;
        let arms = if looks { arms(self.subject, &self.generations[at].bandit) } else { Vec::new() };
        for arm in &arms {
            self.see(pattern(arm.estimates), Sight::Estimate)?;
        }
        if let Some(decision) = decision {
            self.see(decision.arm.into(), Sight::Arm(decision.phase))?;
        }
        let decision = decision.map(|decision| (decision.ticket, decision.phase, decision.propensity.to_bits()));
        let counts: Vec<_> = arms.iter().map(|arm| arm.counts).collect();
        let bandit = &self.generations[at].bandit;
        let (rest, snapshot) = match looks && self.transcript.len().is_multiple_of(8) {
            true => (Some(rest(bandit)), bandit.snapshot().ok()),
            false => (None, None),
        };
        self.see(pattern((returned, decision, counts, rest)), Sight::Rest)?;
        if snapshot.is_some() {
            self.see_bytes(pattern(snapshot), Sight::Rest)?;
        }
        self.looks += 1;
        self.drawn = self.hand.draws();
        Ok(())
    }

    /// What can be read of a handle that has merged nothing, and of its budget: a handle that continues from its state has
    /// the same. Left out are its loss, which is then at least that of one release; its duty as a leader; and estimates of
    /// segments and of features, because their models are fitted anew.
    fn readable(&self, bandit: &Bandit) -> String {
        let report = bandit.report().unwrap();
        let duty = if matches!(report.duty, Duty::Leads(_)) { Duty::Alone } else { report.duty };
        let report = Report { duty, contributions: 0, contributions_lost: 0, ..report };
        let report = Report { epsilon_spent: 0.0, delta_spent: 0.0, epsilon_left: 0.0, ..report };
        let is_exact = self.subject != Subject::Segments && !self.subject.has_features();
        let arms: Vec<_> =
            arms(self.subject, bandit).iter().map(|arm| (is_exact.then_some(arm.estimates), arm.counts)).collect();
        let spent = self.config.budget.as_ref().map(|budget| budget.spent(self.config.delta).unwrap());
        format!("{report:?} {:?} {arms:?} {spent:?}", bandit.diagnostics().unwrap())
    }

    /// Records the loss that this handle reports.
    fn settle(&mut self, at: usize) {
        let spent = |delta| self.generations[at].bandit.epsilon_spent(delta).unwrap();
        let reported = [0.0, self.history.config.delta].map(spent);
        self.reported = [0, 1].map(|i| f64::max(self.reported[i], reported[i]));
    }

    /// The last snapshot, or the one this many before it.
    fn snapshot(&self, last_but: usize) -> Option<&Vec<u8>> {
        self.snapshots.iter().rev().cycle().nth(last_but)
    }

    fn meet(&mut self, at: usize, event: Event) -> Look {
        let bandit = &self.generations[at].bandit;
        let live = live(bandit);
        let number = |which| match which {
            Which::Any(any) => live[any % live.len()],
            Which::Of(decision) => self.made[decision].decision.arm,
        };
        // With several slots, enough arms must stay active for a full request.
        let retire =
            |arm: u32| (live.len() > self.history.config.max_slots as usize).then(|| bandit.retire_arm(arm).is_ok());
        let mut bytes = None;
        let returned = match event {
            Event::AddArm(id) => pattern(id.map_or_else(|| bandit.add_arm(), |id| bandit.add_arm_as(id)).ok()),
            Event::RetireArm(which) => pattern(retire(number(which))),
            Event::Prior { arm, mean, strength } => pattern(bandit.set_prior(number(arm), mean, strength).is_ok()),
            Event::Period => {
                self.periods += 1;
                let (begun, saves) = (self.counted.begun + 1, bandit.snapshot().is_ok());
                self.counted.begin(begun, if saves { self.counted.stored } else { begun });
                pattern(bandit.next_period().is_ok())
            }
            Event::Advance(ticks) => {
                self.now = self.now.saturating_add_signed(ticks);
                pattern(bandit.advance(self.now).is_ok())
            }
            Event::Skip(ticks) => pattern(bandit.skip(ticks).is_ok()),
            Event::Snapshot => {
                let snapshot = bandit.snapshot().ok();
                bytes = Some(pattern(&snapshot));
                let made = snapshot.is_some();
                if let Some(snapshot) = snapshot {
                    bandit.stored(&snapshot).unwrap();
                    self.counted.stored = self.counted.begun;
                    self.counted.kept.push(self.counted.begun);
                    self.snapshots.push(snapshot);
                }
                made.into()
            }
            Event::Lost => {
                let lost = bandit.snapshot().ok();
                let wrong = self.snapshots.last().map(|snapshot| bandit.stored(snapshot).is_ok());
                bytes = Some(pattern(lost));
                pattern(wrong)
            }
            Event::Merge(last_but) => {
                self.merged = true;
                pattern(self.snapshot(last_but).map(|snapshot| bandit.merge(snapshot).is_ok()))
            }
            Event::Restore(last_but) => {
                let Some(snapshot) = self.snapshot(last_but) else { return Ok(()) };
                let bandit = self.subject.restore(&self.config, snapshot).unwrap();
                self.settle(at);
                self.generations[at] = Generation { bandit, decisions: 0 };
                self.periods += 1;
                if self.history.config.expected_users > 0 {
                    let before = self.counted.kept[self.counted.kept.len() - 1 - last_but];
                    self.counted.begin(before + 1, 0);
                }
                0
            }
            Event::Lead => {
                let generation = bandit.lead().unwrap();
                self.leaders.push(generation);
                generation
            }
            Event::Alone => pattern(bandit.alone().is_ok()),
            Event::SetHandles(handles) => pattern(bandit.set_handles(handles).is_ok()),
            Event::Contribute(last_but) => {
                let leader = self.leaders.iter().rev().cycle().nth(last_but);
                let contribution = leader.and_then(|&leader| bandit.contribution(leader).ok());
                // By all without the key.
                bytes = Some(pattern(contribution.as_ref().map(|bytes| (bytes.len(), head(bytes).to_vec()))));
                let returned = contribution.as_ref().map(Vec::is_empty);
                let sealed = contribution.filter(|contribution| !contribution.is_empty());
                self.nonce_repeats |= sealed.as_ref().is_some_and(|bytes| !self.nonces.insert(nonce(bytes).to_vec()));
                self.contributions.extend(sealed);
                pattern(returned)
            }
            Event::Seal => {
                let sealed = bandit.seal(b"a click").unwrap();
                self.nonce_repeats |= !self.nonces.insert(nonce(&sealed).to_vec());
                bytes = Some(pattern(head(&sealed)));
                0
            }
            Event::Move { addressed } => {
                let receiver = if addressed { bandit.receiver().unwrap() } else { 0 };
                let before = (!self.merged).then(|| self.readable(bandit));
                self.hand.set_time(NOW);
                let state = bandit.suspend(receiver).unwrap();
                self.nonce_repeats |= !self.nonces.insert(nonce(&state).to_vec());
                let resumed = || self.subject.resume(&self.config, &state);
                self.hand.set_time(NOW + Bandit::STATE_LIFETIME + 1);
                if !addressed {
                    assert!(matches!(resumed(), Err(Error::ExpiredState(_))), "a state is older than its lifetime");
                    self.hand.set_time(NOW + Bandit::STATE_LIFETIME);
                }
                if self.config.budget_periods > 0 && self.periods > 0 {
                    let fewer = Config { budget_periods: self.periods as u32, ..self.config.clone() };
                    let refused = self.subject.resume(&fewer, &state).err();
                    // (Policies that do not learn from a set of releases keep their configuration.)
                    let is_refused = matches!(refused, Some(Error::OverBudget(_) | Error::InvalidConfig { .. }));
                    assert!(is_refused, "{refused:?} after {} periods", self.periods);
                }
                let (next, second) = (resumed().unwrap(), resumed());
                next.claimed().unwrap();
                if let Some(before) = before {
                    assert_eq!(before, self.readable(&next), "what moves is not what ended");
                }
                let ended = std::mem::replace(&mut self.generations[at].bandit, next);
                // What must not act does so at most once in a history, because a third could hide a second.
                if self.ghosts.is_empty() {
                    self.ghosts.extend([Some(ended), second.ok()].into_iter().flatten());
                }
                bytes = Some(pattern((state.len(), head(&state))));
                0
            }
            Event::Combine(last_but) => {
                let contribution = self.contributions.iter().rev().cycle().nth(last_but);
                pattern(contribution.map(|contribution| bandit.combine(contribution).err().map(|e| e.to_string())))
            }
        };
        if let Some(bytes) = bytes {
            self.see_bytes(bytes, Sight::Rest)?;
        }
        self.looks = 0;
        self.look(at, returned, None)
    }

    /// Makes one decision, or all decisions of the request that begins here.
    fn decide(&mut self, steps: &[Step], step: usize) -> Look {
        let at = steps[0].at;
        let Generation { bandit, decisions } = &self.generations[at];
        let before = *decisions;
        let shown = steps[0].shows.map(|(from, many)| {
            let live = live(bandit);
            (from..from + many).map(|i| live[i % live.len()]).collect::<Vec<_>>()
        });
        let user = self.history.who.get(step).copied().unwrap_or_default();
        let slots = match self.history.config.max_slots {
            0 => 1,
            _ => 1 + steps[1..].iter().take_while(|step| step.follows).count(),
        };
        let examined = (steps[0].examined && self.subject.has_positions()).then(|| chances(slots, self.known));
        let examined = examined.as_deref();
        let request = Request { user, slots: slots as u32, examined, ..self.subject.request(steps[0].key) };
        let choose = |eligible: Option<&[u32]>| {
            let mut chosen = Vec::new();
            let rows = self.subject.rows(bandit, eligible);
            let features = (rows > 0).then(|| Features::new(rows, self.known));
            let features = features.as_ref().map(Features::rows);
            let arms = eligible.map_or_else(|| bandit.arms().unwrap() as usize, <[u32]>::len);
            let values = (steps[0].valued && self.subject.has_values()).then(|| values(arms, self.known));
            let mut each = |slot, decision| chosen.push((slot, decision));
            let request = Request { eligible, features, ..request };
            // Too few arms may have a value for all slots.
            let mut valued = Request { values: values.as_deref(), ..request };
            let (costs, may_abstain) = costs(arms, self.known);
            if values.is_some() && self.known >> 63 == 0 {
                let abstain = may_abstain && slots == 1;
                valued = Request { costs: Some(&costs), abstain, examined: None, ..valued };
            }
            if valued.values.is_none() || bandit.select_slots(&valued, &mut each).is_err() {
                bandit.select_slots(&request, each)?;
            }
            chosen.sort_unstable_by_key(|&(slot, _)| slot);
            dpb::Result::Ok(chosen.into_iter().map(|(_, decision)| decision).collect::<Vec<_>>())
        };
        let some = shown.and_then(|shown| choose(Some(&shown)).ok());
        let returned = some.is_some();
        for ghost in &self.ghosts {
            let row = Features::new(if self.subject == Subject::Models { 1 } else { 3 }, 1);
            let features = self.subject.has_features().then(|| row.rows());
            if let Ok(decision) = ghost.select_for(&Request { features, slots: 1, examined: None, ..request }) {
                _ = ghost.update(decision.ticket, 0.5);
            }
        }
        for decision in some.unwrap_or_else(|| choose(None).unwrap()) {
            self.generations[at].decisions += 1;
            let is_idle = self.counted.stored < self.counted.begun;
            self.made.push(Made { decision, at, before, period: self.periods, is_idle, reports: 0 });
            self.look(at, returned, Some(decision))?;
        }
        Ok(())
    }

    fn call(&mut self, call: Call) -> Look {
        let (Call::Answer(number) | Call::Cancel(number)) = call;
        let Made { decision, at, before, .. } = self.made[number];
        let Generation { bandit, decisions } = &self.generations[at];
        let windowed = self.history.config.reward_window > 0;
        match call {
            Call::Cancel(_) => {
                let cancelled = bandit.cancel(decision.ticket);
                // After that, the request's clicks are already drawn. (On the caller's clock the request is then over.)
                let fixed = windowed && self.history.config.clock == Clock::Decisions && *decisions > before + WINDOW;
                self.made[number].is_idle |= cancelled.is_ok() && !fixed;
                self.look(at, cancelled.err().map(|error| error.to_string()), None)
            }
            Call::Answer(_) => {
                let Some(reward) = self.history.reward(number, self.world) else { return Ok(()) };
                let made = &mut self.made[number];
                // With parts, the first report is of part 0, and a second one of part 1.
                let in_parts = self.history.config.parts > 0;
                let answered = match in_parts {
                    true => bandit.update_part(decision.ticket, made.reports, reward),
                    false => bandit.update(decision.ticket, reward),
                };
                assert!(answered.is_err() || made.reports == 0 || in_parts, "a second reward counts");
                made.reports += u32::from(answered.is_ok());
                // With a window, the user's update calls are secret.
                match windowed && self.history.changed.contains(&number) {
                    true => Ok(()),
                    false => self.look(at, answered.err().map(|error| error.to_string()), None),
                }
            }
        }
    }

    fn play(&mut self) -> Look {
        let history = self.history;
        for (number, step) in history.steps.iter().enumerate() {
            step.events.iter().try_for_each(|&event| self.meet(step.at, event))?;
            if !step.follows || history.config.max_slots == 0 {
                self.decide(&history.steps[number..], number)?;
            }
            step.calls.iter().try_for_each(|&call| self.call(call))?;
        }
        Ok(())
    }
}

/// The result of running one world.
pub struct Run {
    pub transcript: Vec<u64>,
    /// A hash of the transcript without bytes of snapshots, contributions and states.
    pub known: u64,
    pub draws: Vec<Draw>,
    pub phases: Vec<u32>,
    pub difference: Option<Difference>,
    /// The largest loss that any handle reports, at delta = 0 and at the configured one.
    pub reported: [f64; 2],
    /// Whether two sealed messages have one nonce.
    pub nonce_repeats: bool,
    /// Whether random words of the noise were used again.
    pub noise_repeats: bool,
    /// For each decision: its period, and whether its reward cannot matter, because it was cancelled in time or because the
    /// period was not stored.
    pub made: Vec<(usize, bool)>,
    /// The most periods of users that a handle has begun.
    pub periods: u32,
    /// The learned clips of the handles at the end.
    pub clips: Vec<Option<f64>>,
}

/// Runs a world with these draws of noise moved, until its transcript differs from the other one.
pub fn run(subject: Subject, history: &History, world: usize, moves: &[(usize, i64)], other: &[u64]) -> Run {
    let hand = history.sabotage.hand(history.config.arms).seeding(seed(history.number)).moving(moves);
    let config = with_budget(history);
    let generation = |_| Generation { bandit: subject.make(&config).unwrap(), decisions: 0 };
    let mut it = World {
        subject,
        history,
        generations: (0..history.handles).map(generation).collect(),
        config,
        world,
        ghosts: Vec::new(),
        snapshots: Vec::new(),
        leaders: Vec::new(),
        contributions: Vec::new(),
        nonces: HashSet::new(),
        nonce_repeats: false,
        looks: 0,
        drawn: hand.draws(),
        hand,
        other,
        transcript: Vec::new(),
        known: 0,
        made: Vec::new(),
        periods: 0,
        merged: false,
        counted: Periods { begun: 1, stored: 1, kept: Vec::new(), most: 1 },
        now: 0,
        reported: [0.0; 2],
    };
    let difference = it.play().err();
    assert!(difference.is_some() || other.is_empty() || other.len() == it.transcript.len());
    (0..history.handles).for_each(|at| it.settle(at));
    let phases = it.made.iter().map(|made| made.decision.phase).collect();
    let made = it.made.iter().map(|made| (made.period, made.is_idle)).collect();
    let clips = it.generations.iter().map(|one| one.bandit.report().unwrap().clip).collect();
    let World { transcript, known, hand, reported, nonce_repeats, counted: Periods { most: periods, .. }, .. } = it;
    let noise_repeats = other.is_empty() && hand.repeats();
    Run {
        transcript,
        known,
        draws: hand.lift(),
        phases,
        difference,
        reported,
        nonce_repeats,
        noise_repeats,
        made,
        periods,
        clips,
    }
}

/// The configuration of a history; with a budget of its own if it has one private handle, which moves.
fn with_budget(history: &History) -> Config {
    let config = history.config.clone();
    if history.handles > 1 || config.fleet_key.is_none() || config.test_seed.is_some() {
        return config;
    }
    let budget_periods = if config.expected_users > 0 { history.periods() } else { 0 };
    Config { budget: Some(Budget::new(1e6, 0.9).unwrap()), budget_periods, ..config }
}
