//! Invariant 2: what is lost has a cause in what really failed, and the cause explains all that is lost.
//!
//! The world notes what fails, and when each process really beats. So it knows from the store's side what the nodes can
//! only infer: since when a process did not beat, or did not hear. A decision that is cancelled must have been made since
//! `click_delay` before such a time; a state, a sum or a reward that is lost needs a fault of one of the two processes, or
//! of the store, while it was on its way.

use super::model::{Fact, Lost, LostBy, Truth};
use super::plan::Plan;
use super::world::DELAY;
use dpb::node::command::{Command, CommandKind};
use std::collections::BTreeMap;

/// What failed, where (everywhere without a place), and how long.
struct Fault {
    slot: Option<usize>,
    from: u64,
    until: u64,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Ended {
    Killed,
    Left,
    Replaced,
}

/// A time in which a process did not beat, or heard no reply to a round.
type Gap = (u64, u64);

#[derive(Default)]
struct Process {
    slot: usize,
    began: u64,
    /// Its number and its life, as in its commands: not those of the bandits that drain in it.
    number: u64,
    life: Vec<u8>,
    /// When it took its number last: until it knows that, it makes no rounds.
    took: u64,
    /// Its first beat, and the last one.
    first: u64,
    beat: Option<u64>,
    beat_gaps: Vec<Gap>,
    /// When the last round began whose reply it heard.
    heard: Option<u64>,
    heard_gaps: Vec<Gap>,
    leaves: Option<u64>,
    /// When it left its number or its state to the store.
    left: Option<u64>,
    ended: Option<(u64, Ended)>,
}

/// What has really happened.
#[derive(Default)]
pub struct Losses {
    faults: Vec<Fault>,
    processes: Vec<Process>,
    /// When the beat was made after which a break may have lost something, and when the store noted the break; and to when
    /// the store went back, when, and when it ran again.
    pub breaks: Vec<Gap>,
    returns: Vec<(u64, u64, u64)>,
    /// When its clock went back, and by how much: leases last so much longer.
    pub delayed: Vec<(u64, u64)>,
}

/// Rounds of an eighth of a delay, and their commands and replies on their way: nothing that is well takes longer.
const SLACK: u64 = DELAY;
/// A process cancels from so long before its last good round, or a beat, at most.
const BEFORE: u64 = 9 * DELAY / 4;
/// A process is gone after so long; and its lease, and a receiver that a state did not reach, last as long.
const GONE: u64 = 30 * DELAY;
/// A process that is told to leave takes so long at most.
const LEAVING: u64 = 25_000;
/// So long after a store went back, a node that it has forgotten may get clicks.
const FORGOTTEN: u64 = 12 * DELAY;

impl Losses {
    pub fn begins(&mut self, slot: usize, now: u64) -> u64 {
        self.processes.push(Process { slot, began: now, ..Process::default() });
        self.processes.len() as u64 - 1
    }

    pub fn fails(&mut self, slot: Option<usize>, from: u64, time: u64) {
        self.faults.push(Fault { slot, from, until: from + time });
    }

    pub fn goes_back(&mut self, now: u64, lag: u64, down: u64) {
        self.fails(None, now - lag, lag + down);
        self.returns.push((now - lag, now, now + down));
    }

    /// The store executed a round of this process.
    pub fn beats(&mut self, process: u64, by: &Command, now: u64) {
        let one = &mut self.processes[process as usize];
        one.number = std::str::from_utf8(&by.args[0]).expect("digits").parse().expect("a number");
        one.life.clone_from(&by.args[2]);
        one.took = if by.kind == CommandKind::Take { now } else { one.took };
        one.first = if one.beat.is_none() { now } else { one.first };
        let last = one.beat.replace(now).unwrap_or(now);
        one.beat_gaps.extend((now - last > SLACK).then_some((last, now)));
    }

    /// It heard the reply to a round that began then.
    pub fn hears(&mut self, process: u64, began: u64, now: u64) {
        let one = &mut self.processes[process as usize];
        let last = one.heard.replace(began).unwrap_or(began);
        one.heard_gaps.extend((now - last > SLACK).then_some((last, now)));
    }

    pub fn leaves(&mut self, process: u64, now: u64) {
        self.processes[process as usize].leaves = Some(now);
    }

    /// The store ended the lease of this life.
    pub fn left(&mut self, process: u64, life: &[u8], now: u64) {
        let one = &mut self.processes[process as usize];
        one.left = if one.life == life { Some(now) } else { one.left };
    }

    pub fn ends(&mut self, process: u64, now: u64, how: Ended) {
        self.processes[process as usize].ended = Some((now, how));
    }

    /// Whether something failed then at one of these places or in the store: a process that is killed too.
    fn failed(&self, places: &[usize], from: u64, until: u64) -> bool {
        let is_here = |slot: usize| places.contains(&slot);
        let fails = |fault: &Fault| fault.slot.is_none_or(is_here) && fault.from <= until && fault.until >= from;
        let ends = |one: &Process| {
            is_here(one.slot) && one.ended.is_some_and(|(at, how)| how != Ended::Left && from <= at && at <= until)
        };
        self.faults.iter().any(fails) || self.processes.iter().any(ends)
    }

    /// How much of this time what failed explains, at this place.
    fn explained(&self, slot: usize, (from, until): Gap) -> u64 {
        let here = self.faults.iter().filter(|fault| fault.slot.is_none_or(|other| other == slot));
        let length = |fault: &Fault| match (fault.from.max(from), fault.until.min(until)) {
            (begin, end) if begin > end => 0,
            // What it interrupts, and the next round.
            (begin, end) => end - begin + DELAY + DELAY / 4,
        };
        here.map(length).sum()
    }

    /// The times in which this process had reason to cancel.
    fn outages(&self, process: u64, at: u64) -> Vec<Gap> {
        let own = &self.processes[process as usize];
        let mut all = own.heard_gaps.clone();
        let end = own.ended.map_or(u64::MAX, |ended| ended.0);
        all.extend(own.heard.map(|heard| (heard, end)).filter(|gap| gap.1 - gap.0 > SLACK));
        // Since when the process counts how long another one has not beaten.
        let began = self.returns.iter().map(|one| one.2).chain(own.heard_gaps.iter().map(|gap| gap.1));
        let counts = began.filter(|since| *since <= at).fold(own.first, u64::max);
        for (_, other) in self.processes.iter().enumerate().filter(|other| other.0 as u64 != process) {
            all.extend(&other.beat_gaps);
            let (Some(beat), Some((ended, how))) = (other.beat, other.ended) else { continue };
            // By a failover, or by a TAKE that came late.
            let is_undone = |left: u64| left < beat || self.returns.iter().any(|back| back.0 <= left && left <= back.1);
            all.push(match other.left.filter(|left| !is_undone(*left)) {
                Some(left) if how == Ended::Left => (beat, left),
                _ => (beat, ended.max(beat).max(counts) + GONE),
            });
        }
        // A process that has just come, or heard again, cannot tell how long ago the beat before a break was.
        let hears = || own.heard_gaps.iter().map(|gap| gap.1).chain([own.first]);
        let doubts = |(beaten, at): &Gap| {
            hears().filter(|since| since <= at).chain([*beaten]).map(|since| since + FORGOTTEN).fold(*at, u64::max)
        };
        all.extend(self.breaks.iter().map(|one| (one.1, doubts(one))));
        // Of two breaks at once a process knows neither since when nor for how long something was missing.
        for pair in self.breaks.windows(2).map(|pair| [pair[0].1, pair[1].1]) {
            let unheard = own.heard_gaps.iter().find(|gap| gap.0 <= pair[0] && pair[1] <= gap.1);
            let known = unheard.map(|gap| gap.1).or((pair[1] - pair[0] <= SLACK).then_some(pair[1]));
            all.extend(known.map(|known| (pair[0], known + FORGOTTEN)));
        }
        for (from, then, until) in &self.returns {
            let unheard = own.heard_gaps.iter().find(|gap| gap.0 <= *then && then <= &gap.1);
            all.push((*from, unheard.map_or(*until, |gap| gap.1.max(*until)) + FORGOTTEN));
        }
        all
    }

    /// Since when something was missing, as far as a process can know that cancels then; or why it had no reason to.
    fn missing(&self, process: u64, at: u64, written: Option<u64>, plan: &Plan) -> Result<u64, &'static str> {
        let own = &self.processes[process as usize];
        let ends = own.ended.is_some_and(|(end, _)| at <= end && end <= at + DELAY / 2);
        if ends && self.ends_for_nothing(own).is_none() {
            return Ok(0);
        }
        // What the process cancelled before the state came to it, it cancels in the state.
        let since = written.map_or(at, |written| written - LONGEST_SEARCH - 10 * DELAY);
        if written.is_some_and(|written| at - written > LONGEST_SEARCH && self.failed(&[own.slot], written, at)) {
            return Ok(0);
        }
        let outages = self.outages(process, at);
        let begins = |before: u64, reaches: u64| {
            outages.iter().filter(|gap| gap.0 < before && gap.1 + SLACK >= reaches).map(|gap| gap.0).min()
        };
        let mut from = begins(at + 1, since).ok_or("nothing had failed")?;
        while let Some(begin) = begins(from, from) {
            from = begin;
        }
        let breaks = self.breaks.iter().filter(|then| (from..=at).contains(&then.1)).count();
        let went_back = self.returns.iter().any(|(_, then, _)| (from..=at).contains(then));
        if breaks == 0 && !went_back && at - from + SLACK < plan.limit() {
            return Err("it failed for too short a time");
        }
        // A process takes what it has not seen begin for lost from the first.
        Ok(if breaks > 1 || went_back || own.began + SLACK > from { 0 } else { from })
    }

    /// Whether another process with this number began since the decision was made, and has ended: it had read some
    /// rewards, and nobody knows which.
    fn had_another(&self, number: u64, made: u64, lost: Lost) -> bool {
        let is_another = |one: &Process| one.number == number && one.began > made;
        let has_ended = |one: &Process| one.ended.is_some_and(|(end, _)| end <= lost.at);
        self.processes.iter().any(|one| is_another(one) && has_ended(one))
    }

    /// Why a process need not have ended with what it had, if so.
    fn ends_for_nothing(&self, process: &Process) -> Option<&'static str> {
        let Some((at, how)) = process.ended else { return Some("its process lives") };
        let places: Vec<usize> = (0..=self.processes.len()).collect();
        let from = process.leaves.unwrap_or(at).saturating_sub(LEAVING);
        let has_reason = match how {
            Ended::Killed => true,
            Ended::Replaced => self.failed(&[process.slot], at.saturating_sub(3 * GONE), at),
            // No other node was there to continue, or something failed while it left.
            Ended::Left => {
                let lives = |one: &Process| {
                    one.slot != process.slot
                        && one.began + 3 * LONGEST_SEARCH < at
                        && one.leaves.is_none_or(|leaves| leaves > at)
                        && one.ended.is_none_or(|ended| ended.0 > at)
                };
                self.failed(&places, from, at) || !self.processes.iter().any(lives)
            }
        };
        (!has_reason).then_some("its process ended, and nothing had failed")
    }

    /// The first loss without a cause.
    pub fn violated(&self, truth: &Truth, plan: &Plan) -> Option<String> {
        for (id, one) in self.processes.iter().enumerate() {
            for gap in one.beat_gaps.iter().chain(&one.heard_gaps) {
                let length = gap.1 - gap.0;
                let has_ended = one.ended.is_some_and(|ended| ended.0 < gap.1);
                if !has_ended && gap.1 > one.took && length > self.explained(one.slot, *gap) + SLACK {
                    return Some(format!("2: process {id} made no good round for {length}, lost at {}", gap.0));
                }
            }
        }
        let slot = |process: u64| self.processes[process as usize].slot;
        let mut moving = BTreeMap::new();
        for (place, state) in truth.states.iter().enumerate() {
            let Some(inner) = &state.inner else { continue };
            let has_cause =
                self.failed(&[slot(state.by), slot(state.to)], state.at.saturating_sub(LEAVING), state.at + GONE);
            moving.extend(inner.tickets().map(|ticket| (ticket, has_cause)));
            if !has_cause && inner.tickets().count() > 0 {
                return Some(format!(
                    "2: nobody continues from state {place}, and nothing had failed; lost at {}",
                    state.at
                ));
            }
        }
        for (place, sum) in truth.sums.iter().enumerate().filter(|(_, sum)| !sum.arrived) {
            let leader = truth.generations.get(&sum.generation).copied().unwrap_or(sum.by);
            let longer =
                self.delayed.iter().filter(|row| row.0 <= sum.at && sum.at <= row.0 + GONE + row.1).map(|row| row.1);
            let since = sum.at.saturating_sub(GONE + longer.sum::<u64>());
            let has_cause = self.failed(&[slot(sum.by), slot(leader)], since, sum.at + GONE);
            moving.extend(sum.tickets.iter().map(|ticket| (*ticket, has_cause)));
            if !has_cause && sum.at + GONE < truth.now {
                return Some(format!("2: no leader got sum {place}, and nothing had failed; lost at {}", sum.at));
            }
        }
        let kept = truth.kept.as_ref()?;
        let mut missings = BTreeMap::new();
        for (ticket, fact) in &truth.facts {
            let clicked = fact.click.map_or(String::new(), |(at, by)| format!(", reported at {at} to process {by},"));
            let told = |why: &str, lost: &Lost| {
                let Lost { at, process, how, .. } = lost;
                let made = fact.made;
                Some(format!(
                    "2: {ticket:x}, made at {made}{clicked} is lost at {at} in process {process} by {how:?}: {why}"
                ))
            };
            if truth.released.contains(ticket) {
                if let Some(why) = self.is_late_for_nothing(fact, plan) {
                    return Some(format!("2: the click of {ticket:x}{clicked} counts as none: {why}"));
                }
            } else if let Some(lost) = fact.lost {
                let why = match lost.how {
                    LostBy::Cancel(written) => {
                        let key = (lost.process, lost.at, written);
                        let missing = || self.missing(lost.process, lost.at, written, plan);
                        let why = match *missings.entry(key).or_insert_with(missing) {
                            Ok(from) if fact.made + plan.click_delay + BEFORE + lost.lag < from => {
                                Some("it was made long before")
                            }
                            Ok(_) => None,
                            Err(why) => Some(why),
                        };
                        why.filter(|_| !self.had_another(ticket >> 48, fact.made, lost))
                    }
                    LostBy::End => self.ends_for_nothing(&self.processes[lost.process as usize]),
                };
                if let Some(why) = why {
                    return told(why, &lost);
                }
            } else if !kept.contains(ticket) && !moving.contains_key(ticket) {
                return Some(format!("2: {ticket:x}{clicked} is nowhere"));
            }
        }
        None
    }

    /// Why a click should have come in time to its decision, whose silence is learned; if so.
    fn is_late_for_nothing(&self, fact: &Fact, plan: &Plan) -> Option<&'static str> {
        let ((at, by), (_, as_click, process)) = (fact.click?, fact.learned?);
        let end = fact.made + plan.window;
        if as_click || at + SLACK >= end {
            return None;
        }
        let slots = [by, process].map(|process| self.processes[process as usize].slot);
        let excuses: u64 = slots.into_iter().map(|slot| self.explained(slot, (at, end))).sum();
        (at + SLACK + excuses < end).then_some("nothing had failed")
    }
}

/// A node that is leaving seeks a receiver for so long.
const LONGEST_SEARCH: u64 = 5000;
