//! A world of nodes on one store, in which a seed decides everything: what fails, when, and in which order things happen.

use super::coins::Coins;
use super::losses::{Ended, Losses};
use super::model::{Models, Truth};
use super::plan::{Failure, Plan};
use super::rows::{LONGEST_LAG, Memory};
use super::sabotage::{self, Sabotage};
use dpb::Error;
use dpb::node::command::{Command, CommandKind};
use dpb::node::{FleetBandit, Lane, Node, NodeOptions, NodeState, Task};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;

pub const DELAY: u64 = 1000;
const INTERVAL: u64 = 5000;
const FLEET: u64 = 7;

enum Event {
    Wake(usize, u64, Lane),
    Decide(usize, u64),
    /// A click comes to some node.
    Click(u64),
    /// A command arrives at the store, as a copy if it is true; the reply goes to its process.
    Arrive(Flight, bool),
    Reply(Flight, Result<Vec<u8>, String>),
    Join(usize),
    Chance,
    Fail(Failure),
}

/// A command on its way, and of which process: when it was sent, and how long that waits.
#[derive(Clone)]
struct Flight {
    slot: usize,
    process: u64,
    id: u64,
    sent: u64,
    timeout: u64,
    command: Rc<Command>,
}

/// A command that a node sends: when, the place, the kind, and the lengths of its arguments.
#[derive(Debug, PartialEq)]
pub struct Sent {
    pub at: u64,
    pub slot: usize,
    pub kind: CommandKind,
    pub lengths: Vec<usize>,
}

/// A process, or a place for one.
#[derive(Default)]
struct Slot {
    node: Option<Node<Models>>,
    /// The process of this place.
    process: u64,
    /// Its clock is ahead by this.
    skew: u64,
    paused_until: u64,
    cut_until: u64,
    leaving: bool,
    disk: Option<Vec<u8>>,
}

#[derive(Default)]
pub struct World {
    pub truth: Rc<RefCell<Truth>>,
    plan: Plan,
    coins: Coins,
    /// Random faults have coins of their own, so that those remain which follow one that is left out.
    chances: Coins,
    /// How many random faults there were, those that were left out included.
    pub chance: u64,
    pub now: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: BTreeMap<u64, Event>,
    slots: Vec<Slot>,
    rows: Memory,
    /// What the store's clock is ahead by; and until when it refuses everything.
    ahead: u64,
    down_until: u64,
    /// Its count of breaks, and when it counted each beat.
    breaks: Option<Vec<u8>>,
    beats: BTreeMap<Vec<u8>, u64>,
    healed: bool,
    /// No click comes any more.
    still: bool,
    pub steps: u64,
    /// What the losses are measured by.
    losses: Losses,
    /// What all nodes send, for twins.
    pub sent: Option<Vec<Sent>>,
    /// Times, whether something failed, and what happened.
    pub log: Option<Vec<(u64, bool, String)>>,
    pub faults: BTreeMap<&'static str, u64>,
    /// Clicks that a node refused because it did not know the number.
    pub refused: u64,
}

impl World {
    pub fn new(seed: u64, plan: Plan, log: bool) -> World {
        let truth = Truth {
            coins: Coins(seed ^ 0xabcd),
            sabotage: plan.sabotage,
            window: plan.window,
            // A beat, its reply and the look at it may each take an eighth of a delay more.
            allowance: (plan.window / 8).max(4 * DELAY) + DELAY,
            is_exact: !plan.failovers && !plan.leaves && plan.script.is_empty(),
            ..Truth::default()
        };
        let fails_over = plan.failovers || !plan.script.is_empty();
        let mut world = World {
            truth: Rc::new(RefCell::new(truth)),
            plan,
            coins: Coins(seed),
            chances: Coins(seed ^ 0x7777),
            now: 1_000_000,
            rows: if fails_over { Memory::with_replica() } else { Memory::default() },
            log: log.then(Vec::new),
            ..World::default()
        };
        for slot in 0..plan.nodes {
            let skew = world.coins.below(1_000_000);
            world.slots.push(Slot { skew, ..Slot::default() });
            let at = world.coins.below(3000);
            world.after(at, Event::Join(slot));
        }
        if plan.script.is_empty() {
            world.after(10_000, Event::Chance);
        }
        plan.script.iter().for_each(|(at, failure)| world.after(*at, Event::Fail(*failure)));
        world
    }

    fn after(&mut self, time: u64, event: Event) {
        let number = self.steps << 8 | self.waiting.len() as u64 & 0xff;
        let number = (number..).find(|number| !self.waiting.contains_key(number)).expect("a number");
        self.waiting.insert(number, event);
        self.events.push(Reverse((self.now + time, number)));
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push((self.now, false, text()));
        }
    }

    fn fault(&mut self, name: &'static str, text: impl FnOnce() -> String) {
        *self.faults.entry(name).or_default() += 1;
        if let Some(log) = &mut self.log {
            log.push((self.now, !matches!(name, "lost" | "repeated"), text()));
        }
    }

    fn is_this(&self, slot: usize, process: u64) -> bool {
        self.slots[slot].process == process && self.slots[slot].node.is_some()
    }

    /// Runs for so long. Returns what is violated.
    pub fn run(&mut self, time: u64) -> Result<(), String> {
        let end = self.now + time;
        while let Some(&Reverse((at, number))) = self.events.peek().filter(|next| next.0.0 <= end) {
            self.events.pop();
            self.now = at;
            self.truth.borrow_mut().now = at;
            self.steps += 1;
            let event = self.waiting.remove(&number).expect("an event");
            self.happen(event);
            if let Some(what) = self.truth.borrow_mut().violation.take() {
                return Err(what);
            }
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Join(slot) => self.join(slot),
            Event::Wake(slot, process, lane) if self.is_this(slot, process) => self.wake(slot, lane),
            Event::Decide(slot, process) if self.is_this(slot, process) => self.decide(slot),
            Event::Wake(..) | Event::Decide(..) => {}
            Event::Click(_) if self.still => {}
            Event::Click(ticket) => self.click(ticket),
            Event::Arrive(flight, is_copy) => self.arrive(flight, is_copy),
            Event::Reply(flight, bytes) if self.is_this(flight.slot, flight.process) => self.reply(flight, bytes),
            Event::Reply(..) => {}
            Event::Chance | Event::Fail(_) if self.healed => {}
            Event::Chance => self.chance(),
            Event::Fail(failure) => self.fail(failure),
        }
    }

    fn reply(&mut self, flight: Flight, bytes: Result<Vec<u8>, String>) {
        let Flight { slot, process, id, sent, .. } = flight;
        if let Some(left) = self.slots[slot].paused_until.checked_sub(self.now).filter(|left| *left > 0) {
            return self.after(left, Event::Reply(flight, bytes));
        }
        let (node, now) = (self.slots[slot].node.as_ref().expect("a node"), self.now + self.slots[slot].skew);
        if flight.command.kind == CommandKind::Round && is_done(&bytes) && self.now < sent + DELAY {
            self.losses.hears(process, sent, self.now);
        }
        match bytes {
            Ok(bytes) => node.reply(id, now, &bytes).expect("no failure"),
            Err(why) => node.failed(id, now, &why).expect("no failure"),
        }
        if self.plan.prompt {
            Lane::ALL.into_iter().for_each(|lane| _ = self.ask(slot, lane));
        }
    }

    fn join(&mut self, slot: usize) {
        let mut options = NodeOptions::new("ads", self.plan.window);
        (options.delay, options.interval, options.fleet, options.tick) = (DELAY, INTERVAL, FLEET, 1);
        (options.click_delay, options.send_rate) = (self.plan.click_delay, self.plan.send_rate);
        if self.plan.sabotage == Sabotage::SettlesAtOnce {
            options.settle = 0;
        }
        let place = &mut self.slots[slot];
        if self.plan.disks {
            (options.number, options.snapshot) = (slot as u16 + 1, place.disk.clone());
        }
        place.process = self.losses.begins(slot, self.now);
        (place.paused_until, place.cut_until, place.leaving) = (0, 0, false);
        place.node = Some(
            Node::new(options, Models { truth: self.truth.clone(), process: place.process }, self.now + place.skew)
                .expect("memory"),
        );
        let process = place.process;
        self.note(|| format!("process {process} of place {slot} begins"));
        for lane in Lane::ALL {
            self.after(1, Event::Wake(slot, process, lane));
        }
        self.after(1, Event::Decide(slot, process));
    }

    fn wake(&mut self, slot: usize, lane: Lane) {
        let process = self.slots[slot].process;
        if self.slots[slot].paused_until > self.now {
            let left = self.slots[slot].paused_until - self.now;
            return self.after(left, Event::Wake(slot, process, lane));
        }
        if let Some(time) = self.ask(slot, lane) {
            self.after(time, Event::Wake(slot, process, lane));
        }
    }

    /// Asks a node what comes next, and does it. Returns when to ask again.
    fn ask(&mut self, slot: usize, lane: Lane) -> Option<u64> {
        let now = self.now + self.slots[slot].skew;
        let process = self.slots[slot].process;
        let node = self.slots[slot].node.as_ref()?;
        let task = node.next(lane, now).expect("no failure");
        if let Some(bandit) = node.bandit() {
            bandit.advance(self.now);
        }
        match task {
            Task::Wait(time) => {
                assert!((1..=DELAY / 8).contains(&time), "{time}");
                Some(time)
            }
            Task::Log(text) => {
                self.note(|| format!("process {process} of place {slot} says: {text}"));
                Some(0)
            }
            Task::Run { id, mut command, timeout } => {
                if self.plan.sabotage == Sabotage::SendsNoZeros {
                    sabotage::send_no_zeros(&mut command);
                }
                let lengths = || command.args.iter().map(Vec::len).collect();
                let sent =
                    |all: &mut Vec<_>| all.push(Sent { at: self.now, slot, kind: command.kind, lengths: lengths() });
                self.sent.as_mut().map(sent);
                self.send(Flight { slot, process, id, sent: self.now, timeout, command: Rc::new(command) });
                Some(1)
            }
            Task::Ended => {
                self.end(slot);
                None
            }
        }
    }

    /// A process has ended, and another one begins.
    fn end(&mut self, slot: usize) {
        let Some(node) = self.slots[slot].node.take() else { return };
        let state = node.report(self.now).expect("no failure").state;
        let process = self.slots[slot].process;
        self.note(|| format!("process {process} of place {slot} has ended: {state:?}"));
        assert!(state != NodeState::Failed);
        self.losses.ends(process, self.now, if state == NodeState::Left { Ended::Left } else { Ended::Replaced });
        let pause = self.coins.below(40_000);
        self.after(if self.healed { 1 } else { pause }, Event::Join(slot));
    }

    /// Whether commands and replies are lost.
    fn loses(&self) -> bool {
        self.plan.losses && !self.healed && self.plan.without & 1 == 0
    }

    fn send(&mut self, flight: Flight) {
        let (slot, timeout, kind) = (flight.slot, flight.timeout, flight.command.kind);
        let is_lossy = self.loses();
        let there = match self.coins.below(100) {
            0 if is_lossy => self.coins.below(30_000),
            _ => 1 + self.coins.below(20),
        };
        if there > 20 {
            self.losses.fails(Some(slot), self.now, timeout);
        }
        if is_lossy && self.coins.one_in(self.plan.repeats) {
            let later = self.coins.below(20_000);
            self.fault("repeated", || format!("{kind:?} of place {slot} comes again in {later}"));
            self.after(later, Event::Arrive(flight.clone(), true));
        }
        if self.slots[slot].cut_until > self.now || is_lossy && self.coins.one_in(60) {
            self.losses.fails(Some(slot), self.now, timeout);
            return self.fault("lost", || format!("{kind:?} of place {slot} is lost"));
        }
        self.after(there, Event::Arrive(flight, false));
    }

    fn arrive(&mut self, flight: Flight, is_copy: bool) {
        let Flight { slot, process, id, timeout, ref command, .. } = flight;
        let bytes = if self.down_until > self.now {
            Err("READONLY".to_owned())
        } else {
            self.rows.pass(self.now);
            sabotage::run(&mut self.rows, command, self.now + self.ahead, self.plan.sabotage)
        };
        self.note(|| {
            let text = bytes.as_ref().map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
            format!("{:?} {id} of place {slot}: {text:?}", command.kind)
        });
        self.witness(process, command, &bytes);
        let is_lost = self.loses() && self.coins.one_in(60);
        if is_lost {
            self.losses.fails(Some(slot), self.now, timeout);
        }
        if is_copy || is_lost || !self.is_this(slot, process) || self.slots[slot].cut_until > self.now {
            return;
        }
        let back = 1 + self.coins.below(20);
        self.after(back, Event::Reply(flight, bytes));
    }

    /// Notes what the store has done, for the losses.
    fn witness(&mut self, process: u64, command: &Command, bytes: &Result<Vec<u8>, String>) {
        if !is_done(bytes) {
            return;
        }
        match command.kind {
            CommandKind::Round | CommandKind::Take => self.losses.beats(process, command, self.now),
            CommandKind::Leave | CommandKind::Entrust => self.losses.left(process, &command.args[2], self.now),
            _ => {}
        }
        if matches!(command.kind, CommandKind::Round | CommandKind::Leave | CommandKind::Take) {
            let count = |name: &str| self.rows.0.get(format!("dpb:{{ads}}:counts\0{name}").as_bytes()).cloned();
            let (beats, breaks) = (count("beats"), count("breaks"));
            if breaks != self.breaks {
                let beaten = count("broken").and_then(|beat| self.beats.get(&beat).copied());
                self.losses.breaks.push((beaten.unwrap_or(0), self.now));
                self.breaks = breaks;
            }
            self.beats.extend(beats.map(|beat| (beat, self.now)));
        }
    }

    fn decide(&mut self, slot: usize) {
        let process = self.slots[slot].process;
        let pause = 1 + self.coins.below(self.plan.pause);
        self.after(pause, Event::Decide(slot, process));
        let place = &self.slots[slot];
        if place.paused_until > self.now || place.leaving {
            return;
        }
        let Some(node) = &place.node else { return };
        let Some(bandit) = node.bandit() else { return };
        if bandit.ends_period() {
            node.next_period().expect("no failure");
        }
        if self.plan.disks && self.coins.one_in(40) {
            self.slots[slot].disk = bandit.snapshot().ok();
        }
        let bandit = self.slots[slot].node.as_ref().and_then(Node::bandit).expect("a bandit");
        let ticket = bandit.select();
        if self.coins.one_in(3) {
            let later = self.coins.below(self.plan.click_delay);
            self.after(later, Event::Click(ticket));
        }
    }

    /// A balancer sends a click to a node that is ready.
    fn click(&mut self, ticket: u64) {
        let first = self.coins.below(self.slots.len() as u64) as usize;
        for i in 0..self.slots.len() {
            let slot = (first + i) % self.slots.len();
            let place = &self.slots[slot];
            let Some(node) = &place.node else { continue };
            if place.paused_until > self.now || !node.report(self.now + place.skew).expect("no failure").ready {
                continue;
            }
            let Some(reward) = self.plan.reward else { return };
            let done = node.update(ticket, reward);
            self.refused += u64::from(done == Err(Error::UnknownTicket));
            if done.is_ok() {
                if self.plan.sabotage == Sabotage::PutsRewards {
                    node.next_period().expect("it has joined");
                }
                let by = place.process;
                self.note(|| format!("the click of {ticket:x} comes to process {by}"));
                let mut truth = self.truth.borrow_mut();
                truth.facts.get_mut(&ticket).expect("a decision").click.get_or_insert((self.now, by));
            }
            return;
        }
    }

    /// Something fails, at random.
    fn chance(&mut self) {
        let pause = 500 + self.chances.below(25_000);
        self.after(pause, Event::Chance);
        let slot = self.chances.below(self.slots.len() as u64) as usize;
        let (plan, time) = (self.plan, self.chances.below(60_000));
        let time = if self.chances.one_in(2) { time / 10 } else { time };
        let failure = match self.chances.below(8) {
            0 if plan.kills => Failure::Kill(slot, time),
            1 if plan.pauses => Failure::Pause(slot, time),
            2 if plan.pauses => Failure::Cut(slot, time),
            3 | 4 if plan.leaves => Failure::Leave(slot),
            5 if plan.failovers => Failure::Failover(self.chances.below(LONGEST_LAG), self.chances.below(8000)),
            6 if plan.failovers && self.chances.one_in(4) => Failure::Empty,
            7 if plan.jumps => Failure::Jump(self.chances.below(100_000), self.chances.one_in(2)),
            _ => return,
        };
        self.chance += 1;
        let number = self.chance;
        if self.plan.without >> number.min(63) & 1 == 0 {
            self.fail(failure);
        }
    }

    /// The place of the leader, if one knows that it leads.
    pub fn leader(&self) -> Option<usize> {
        let leads =
            |place: &Slot| place.node.as_ref().is_some_and(|node| node.report(0).is_ok_and(|report| report.leads));
        self.slots.iter().position(leads)
    }

    pub fn fail(&mut self, failure: Failure) {
        match failure {
            Failure::Kill(slot, time) => {
                let process = self.slots[slot].process;
                if self.slots[slot].node.take().is_none() {
                    return;
                }
                self.losses.ends(process, self.now, Ended::Killed);
                self.fault("killed", || format!("process {process} of place {slot} is killed"));
                self.after(time, Event::Join(slot));
            }
            Failure::Pause(slot, time) => {
                self.fault("paused", || format!("place {slot} stands still for {time}"));
                self.slots[slot].paused_until = self.now + time;
                self.losses.fails(Some(slot), self.now, time);
            }
            Failure::Cut(slot, time) => {
                self.fault("cut", || format!("the network of place {slot} is cut for {time}"));
                self.slots[slot].cut_until = self.now + time;
                self.losses.fails(Some(slot), self.now, time);
            }
            Failure::Leave(slot) => {
                let place = &mut self.slots[slot];
                let Some(node) = place.node.as_ref().filter(|node| node.bandit().is_some() && !place.leaving) else {
                    return;
                };
                node.leave(self.now + place.skew).expect("no failure");
                place.leaving = true;
                let process = place.process;
                self.losses.leaves(process, self.now);
                self.fault("leaves", || format!("process {process} of place {slot} is asked to leave"));
            }
            Failure::Failover(lag, down) => {
                self.rows.go_back(self.now - lag);
                self.down_until = self.now + down;
                self.losses.goes_back(self.now, lag, down);
                self.fault("failover", || format!("a replica that lags by {lag} takes over after {down}"));
            }
            Failure::Empty => {
                self.rows = Memory::with_replica();
                self.truth.borrow_mut().forgotten = true;
                self.losses.goes_back(self.now, 0, 0);
                self.fault("empty", || "the store is empty".into());
            }
            Failure::Jump(jump, back) => {
                let back = back && self.ahead >= jump;
                self.ahead = if back { self.ahead - jump } else { self.ahead + jump };
                self.losses.fails(None, self.now, DELAY);
                self.losses.delayed.push((self.now, if back { jump } else { 0 }));
                self.fault("jump", || format!("the store's clock jumps by {jump}, back: {back}"));
            }
        }
    }

    /// How many decisions are lost: dropped, cancelled, or in states and sums that nobody has read.
    pub fn lost(&self) -> usize {
        let truth = self.truth.borrow();
        let lost = truth.facts.values().filter(|fact| fact.lost.is_some()).count();
        let states: usize =
            truth.states.iter().flat_map(|state| &state.inner).map(|inner| inner.tickets().count()).sum();
        let sums = truth.sums.iter().filter(|sum| !sum.arrived && sum.at + 4 * INTERVAL < self.now);
        lost + states + sums.map(|sum| sum.tickets.len()).sum::<usize>()
    }

    /// Ends all faults, waits, and checks that all is well again.
    pub fn heal(&mut self) -> Result<(), String> {
        self.healed = true;
        self.down_until = 0;
        for slot in 0..self.slots.len() {
            let place = &mut self.slots[slot];
            (place.paused_until, place.cut_until) = (place.paused_until.min(self.now), 0);
        }
        self.note(|| "nothing fails any more".into());
        // Leaving, 30 delays until a lease or a node is gone, six intervals, a window; and a command that is still late.
        self.run(45_000 + 30_000 + 30 * DELAY + 6 * INTERVAL + self.plan.window)?;
        self.still = true;
        self.run(2 * DELAY)?;
        let reports: Vec<_> = self
            .slots
            .iter()
            .map(|place| place.node.as_ref().map(|node| (node.report(self.now + place.skew), node.diagnostics())))
            .collect();
        let mut leaders = BTreeSet::new();
        for (slot, report) in reports.iter().enumerate() {
            let Some((Ok(report), Ok(counts))) = report else { return Err(format!("8: place {slot} has no process")) };
            let is_well = report.state == NodeState::Serving && report.ready && !report.outage;
            if !is_well || counts.waiting > 0 || report.nodes as usize != self.slots.len() {
                return Err(format!("8: place {slot} is not well: {report:?}, {counts:?}"));
            }
            leaders.insert(report.leader);
        }
        if leaders.len() != 1 || leaders.iter().any(|leader| leader.1 == 0) {
            return Err(format!("8: not one leader: {leaders:?}"));
        }
        let learned =
            |fact: &&super::model::Fact| fact.learned.is_some_and(|learned| learned.0 + 2 * INTERVAL > self.now);
        if self.truth.borrow().facts.values().filter(learned).count() == 0 {
            return Err("8: nothing is learned".into());
        }
        self.truth.borrow_mut().kept = Some(BTreeSet::new());
        self.slots.iter_mut().for_each(|place| place.node = None);
        self.losses.violated(&self.truth.borrow(), &self.plan).map_or(Ok(()), Err)
    }
}

/// Whether a command has done something.
fn is_done(reply: &Result<Vec<u8>, String>) -> bool {
    reply.as_ref().is_ok_and(|bytes| bytes.starts_with(b"2:ok"))
}
