//! The node: its states, its two lanes, and its rounds.

use super::command::{Beat, Capacity, Command, Member, Message, Portion, Position, Refusal, RoundReply, Tables, reply};
use super::draining::{DrainingBandit, MovingStates};
use super::exchange::Exchange;
use super::membership::{BEATS, Membership, Moment, OutageAfter, UNTIL_GONE, UNTIL_UNREADY};
use super::outbox::{Outbox, Pace, PartReward};
use super::report::{NodeCounted, NodeDiagnostics, NodeReading, NodeReport};
use super::{BanditSource, FleetBandit, NodeOptions};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::os::Origin;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// What a node is doing: the module has the table.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    Taking,
    Storing,
    Serving,
    Resigning,
    Moving,
    Left,
    Replaced,
    Failed,
}

impl NodeState {
    /// Whether nothing more happens.
    pub fn has_ended(self) -> bool {
        matches!(self, NodeState::Left | NodeState::Replaced | NodeState::Failed)
    }
}

/// One of the two lanes. Each has at most one command in flight, so a slow exchange delays no beat.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    Rounds,
    Exchanges,
}

impl Lane {
    /// Both.
    pub const ALL: [Lane; 2] = [Lane::Rounds, Lane::Exchanges];
}

/// What the host does next in a lane.
#[derive(Clone, Debug)]
pub enum Task {
    /// Wait so many milliseconds, and ask again.
    Wait(u64),
    /// Log this text.
    Log(String),
    /// Run this command, and pass its reply to [`Node::reply`] or its error to [`Node::failed`]. After so many
    /// milliseconds the node has given it up, and a reply changes nothing.
    Run {
        /// The command's id.
        id: u64,
        /// The command.
        command: Command,
        /// Milliseconds.
        timeout: u64,
    },
    /// The node has ended: the report says how.
    Ended,
}

/// What a node counts of rewards and commands. NOT private.
#[derive(Clone, Copy, Default)]
pub(super) struct NodeCounts {
    pub received: u64,
    pub refused: u64,
    pub failures: u64,
}

/// A command in flight, until the node gives it up.
struct Flight {
    id: u64,
    until: u64,
}

/// A node of a fleet. Any thread may call it: one lock serves the two lanes, another one [`update`](Node::update). In a
/// forked child every call is `Poisoned`.
pub struct Node<S: BanditSource> {
    core: Mutex<Core<S>>,
    outbox: Mutex<Outbox>,
    /// Its number and its bandit, once it has joined.
    joined: OnceLock<(u16, Arc<S::Bandit>)>,
    origin: Origin,
}

/// What the lock of the lanes protects.
pub(super) struct Core<S: BanditSource> {
    pub options: NodeOptions,
    pub tables: Tables,
    pub source: S,
    pub state: NodeState,
    /// The latest time that the host passed.
    pub now: u64,
    pub member: Member,
    pub bandit: Option<Arc<S::Bandit>>,
    /// The length of its state, if that can move.
    pub state_length: u64,
    pub exchange: Exchange,
    pub membership: Membership,
    pub draining: Vec<DrainingBandit<S::Bandit>>,
    pub moving: MovingStates,
    /// When the node had its number.
    pub started: u64,
    /// When this node cancelled, and since which tick: for the states that were on their way to it.
    pub cancelled: Vec<(u64, u64)>,
    /// What the node has read of its rewards.
    read: Position,
    /// When the next round begins, and when the one in flight began.
    pub round_at: u64,
    pub began: Moment,
    /// The store's time in a reply, and this node's when the reply came.
    store_time: Option<(u64, u64)>,
    flights: [Option<Flight>; 2],
    ids: u64,
    log: VecDeque<String>,
    pub last_error: String,
    pub counts: NodeCounts,
}

/// A queue of rewards keeps so many, and an hour: after that their node has restarted.
const REWARDS: Capacity = Capacity { messages: 100_000, lifetime: 3_600_000 };
/// What one reply brings at most.
pub(super) const PORTION: Portion = Portion { items: 1000, bytes: 1 << 20 };
/// A node that leaves ends within so many milliseconds, whatever the store does.
const LONGEST_LEAVE: u64 = 25_000;
/// Rewards in one message, at most.
const MOST_SLOTS: u64 = 1 << 12;
/// Log texts that wait for the host.
const MOST_TEXTS: usize = 64;

fn locked<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().map_err(|_| Error::Poisoned)
}

impl<S: BanditSource> Node<S> {
    /// A node that begins to join at its first [`next`](Self::next).
    ///
    /// # Errors
    /// `InvalidConfig` for `send_rate`, and for `snapshot` without a number; `NoMemory`.
    pub fn new(options: NodeOptions, mut source: S, now: u64) -> Result<Node<S>> {
        if options.snapshot.is_some() && options.number == 0 {
            return Err(Error::refused("node", format_args!("must be the number of the snapshot from the file")));
        }
        let slots = options.send_rate.saturating_mul(options.delay).div_ceil(1000 * BEATS);
        let is_sealed = slots == 0 || options.fleet != 0;
        Error::unless(is_sealed, "send_rate", "must be 0 without a fleet key", options.send_rate)?;
        if slots > MOST_SLOTS {
            let most = MOST_SLOTS * 1000 * BEATS / options.delay;
            return Err(Error::config(
                "send_rate",
                &format!("must be at most {most} with this delay"),
                options.send_rate,
            ));
        }
        let outage_after = match options.tick {
            _ if options.window == 0 || options.routed => OutageAfter::Never,
            0 => OutageAfter::Decisions(options.window / 8),
            tick => OutageAfter::Milliseconds(options.window.saturating_mul(tick) / 8),
        };
        // Rewards that are lost after so long are of decisions that an outage or a break has cancelled.
        let (every, grace) = ((options.delay / BEATS).max(1), UNTIL_GONE * options.delay);
        let longest = match outage_after {
            OutageAfter::Milliseconds(most) => most.max(grace) + options.delay,
            _ => grace + options.delay,
        };
        let pace = Pace { slots: slots as usize, every, longest, grace };
        let outbox = Mutex::new(Outbox::new(options.queue, Some(pace).filter(|_| slots > 0))?);
        let start = Moment { at: now, ticks: 0 };
        let core = Core {
            tables: Tables::new(&options.name),
            state: NodeState::Taking,
            now,
            member: Member { number: options.number, incarnation: 0, life: source.draw().max(1) },
            bandit: None,
            state_length: 0,
            exchange: Exchange::default(),
            membership: Membership::new(options.delay, outage_after, start),
            draining: Vec::new(),
            moving: MovingStates::default(),
            started: now,
            cancelled: Vec::new(),
            read: Position::default(),
            round_at: now,
            store_time: None,
            began: start,
            flights: [None, None],
            ids: 0,
            log: VecDeque::new(),
            last_error: String::new(),
            counts: NodeCounts::default(),
            options,
            source,
        };
        Ok(Node { core: Mutex::new(core), outbox, joined: OnceLock::new(), origin: Origin::here() })
    }

    /// What the lanes share. In a forked child it is refused before the lock, which a thread of the parent may have
    /// had.
    fn core(&self) -> Result<MutexGuard<'_, Core<S>>> {
        self.origin.check()?;
        locked(&self.core)
    }

    /// The node's bandit, once it has joined.
    pub fn bandit(&self) -> Option<&S::Bandit> {
        self.joined.get().map(|(_, bandit)| &**bandit)
    }

    /// What the host does next in this lane. It waits at most an eighth of a delay, so nothing need wake it.
    ///
    /// # Errors
    /// Those of the bandit: the node is of no more use.
    pub fn next(&self, lane: Lane, now: u64) -> Result<Task> {
        let core = &mut *self.core()?;
        core.pass(now)?;
        if let Some(text) = core.log.pop_front() {
            return Ok(Task::Log(text));
        }
        if core.exchange.leave_by.is_some_and(|time| core.now >= time) && !core.state.has_ended() {
            core.end(
                NodeState::Left,
                "the node has left, and the store does not answer: what it had collected is lost",
            )?;
        }
        if core.state.has_ended() {
            return Ok(Task::Ended);
        }
        let most = (core.options.delay / BEATS).max(1);
        if let Some(flight) = &core.flights[lane as usize] {
            if core.now < flight.until {
                return Ok(Task::Wait((flight.until - core.now).min(most)));
            }
            self.has_failed(core, lane, "no reply in time")?;
        }
        let (made, timeout) = match lane {
            Lane::Rounds => (self.round(core)?, core.options.delay),
            Lane::Exchanges => (core.step(&self.outbox)?, core.exchange_timeout()),
        };
        if lane == Lane::Exchanges {
            core.join(&self.joined);
        }
        let Some(command) = made else {
            let due = if lane == Lane::Rounds { core.round_at.saturating_sub(core.now) } else { most };
            return Ok(if core.state.has_ended() { Task::Ended } else { Task::Wait(due.clamp(1, most)) });
        };
        core.ids += 1;
        let id = core.ids;
        core.flights[lane as usize] = Some(Flight { id, until: core.now + timeout });
        Ok(Task::Run { id, command, timeout })
    }

    /// Passes the reply to a command. A reply to a command that was given up is ignored.
    ///
    /// # Errors
    /// Those of the bandit.
    pub fn reply(&self, id: u64, now: u64, bytes: &[u8]) -> Result<()> {
        let core = &mut *self.core()?;
        let Some(lane) = core.landed(id, now) else { return core.pass(now) };
        let done = match lane {
            Lane::Rounds => reply::round(bytes).map(|reply| self.heard_round(core, reply)),
            Lane::Exchanges => core.heard(bytes),
        };
        match done {
            Ok(result) => result?,
            Err(Refusal::Replaced) => core.end(NodeState::Replaced, "another process has this node's number")?,
            // The store's clock has jumped, or this round's reply tells of another one that came late.
            Err(Refusal::Late(then)) => core.store_time = Some((then, core.now)),
            Err(refusal) => {
                self.has_failed(core, lane, &format!("a reply that this version does not know: {refusal:?}"))?
            }
        }
        core.pass(now)
    }

    /// Says that a command has failed, or perhaps has. The node repeats it.
    ///
    /// # Errors
    /// Those of the bandit.
    pub fn failed(&self, id: u64, now: u64, why: &str) -> Result<()> {
        let core = &mut *self.core()?;
        if let Some(lane) = core.landed(id, now) {
            self.has_failed(core, lane, why)?;
        }
        core.pass(now)
    }

    /// Reports the reward of a decision of any node. Of another node's it waits for the next round. Never waits for the
    /// store, and allocates nothing.
    ///
    /// # Errors
    /// Those of the bandit; `UnknownTicket` for a number that no process ever had, and before the node has joined;
    /// `Full` if too many rewards wait, with `send_rate` for the next message to that node. Like every error of a
    /// reward, these are NOT private.
    pub fn update(&self, ticket: u64, reward: f64) -> Result<()> {
        self.update_part(ticket, 0, reward)
    }

    /// The same for a part of a reward: as `Bandit::update_part`.
    ///
    /// # Errors
    /// As [`update`](Self::update); `InvalidConfig` for a part that no bandit has.
    pub fn update_part(&self, ticket: u64, part: u32, value: f64) -> Result<()> {
        self.origin.check()?;
        let (number, bandit) = self.joined.get().ok_or(Error::UnknownTicket)?;
        Error::unless(part < Config::MOST_PARTS, "part", "must be below 8", part)?;
        let reward = PartReward { ticket, part, value };
        match if reward.number() == *number {
            bandit.update_part(ticket, part, value)
        } else {
            Err(Error::UnknownTicket)
        } {
            // Perhaps of a draining bandit with this number, or of one that comes soon: it takes the way of the others'.
            Err(Error::UnknownTicket) => locked(&self.outbox)?.add(reward),
            done => done,
        }
    }

    /// Begins a period of the bandit, and puts a snapshot that counts it at once. The bandit learns from nobody until
    /// that has settled.
    ///
    /// # Errors
    /// As `Bandit::next_period`; `NotReady` before the node has joined.
    pub fn next_period(&self) -> Result<()> {
        let core = &mut *self.core()?;
        self.bandit().ok_or(Error::NotReady)?.next_period()?;
        core.begin_period();
        Ok(())
    }

    /// Begins to hand over. Decide nothing after it, and call [`next`](Self::next) until the node has ended: within 25 s,
    /// whatever the store does.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn leave(&self, now: u64) -> Result<()> {
        let core = &mut *self.core()?;
        core.pass(now)?;
        core.exchange.leave_by.get_or_insert(core.now + LONGEST_LEAVE);
        Ok(())
    }

    /// What anybody may know of the node.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn report(&self, now: u64) -> Result<NodeReport> {
        let core = &mut *self.core()?;
        core.pass(now)?;
        let since = core.now - core.membership.returned.at;
        let serves = self.joined.get().is_some() && core.state == NodeState::Serving && !core.exchange.leaves();
        let is_ready = serves && (core.options.routed || since <= UNTIL_UNREADY * core.options.delay);
        Ok(NodeReport::of(&NodeReading { core, is_ready }))
    }

    /// What only the operator may know: NOT private.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn diagnostics(&self) -> Result<NodeDiagnostics> {
        let (core, outbox) = (&*self.core()?, &*locked(&self.outbox)?);
        Ok(NodeDiagnostics::of(&NodeCounted { core, outbox }))
    }

    fn has_failed(&self, core: &mut Core<S>, lane: Lane, why: &str) -> Result<()> {
        core.flights[lane as usize] = None;
        core.counts.failures += 1;
        if core.last_error != why {
            core.last_error = why.into();
            core.say(format!("the store fails, and this node tries again: {why}"));
        }
        match lane {
            Lane::Rounds => locked(&self.outbox)?.failed(),
            Lane::Exchanges => core.pause(),
        }
        Ok(())
    }

    /// The command of a round, if one is due.
    fn round(&self, core: &mut Core<S>) -> Result<Option<Command>> {
        let Some(bandit) = core.bandit.clone().filter(|_| core.member.incarnation > 0) else { return Ok(None) };
        if core.now < core.round_at || core.exchange.closing {
            return Ok(None);
        }
        let every = (core.options.delay / BEATS).max(1);
        core.round_at = (core.round_at + every).max(core.now + every / 2);
        let (own, known, (first, waiting)) = {
            let mut outbox = locked(&self.outbox)?;
            (outbox.pack(core.member.number, core.began.at, core.now), outbox.known(), outbox.batch())
        };
        own.into_iter().for_each(|reward| core.report_reward(reward));
        core.began = Moment { at: core.now, ticks: bandit.ticks()? };
        let (last, late, gone) = core.membership.limits(core.began);
        let lease = UNTIL_GONE * core.options.delay;
        let (held, read, portion) = (core.options.send_rate > 0, core.read.clone(), PORTION);
        let due = core.store_time.map_or(0, |(then, at)| then + (core.now - at) + core.options.delay);
        let beat = Beat { lease, last, late, gone, known, held, read, portion, due };
        let mut rewards = Vec::with_capacity(waiting.len());
        for (to, message) in waiting {
            rewards.push((to, bandit.seal(&message)?));
        }
        Ok(Some(core.tables.round(core.member, &beat, first, &rewards, REWARDS)))
    }

    /// Takes over the reply to a round.
    fn heard_round(&self, core: &mut Core<S>, reply: RoundReply) -> Result<()> {
        let Some(bandit) = core.bandit.clone() else { return Ok(()) };
        core.store_time = Some((reply.now, core.now));
        {
            let mut outbox = locked(&self.outbox)?;
            outbox.accepted(reply.sent);
            outbox.know(&reply.numbers, core.now)?;
        }
        reply.rewards.iter().for_each(|message| core.receive(message));
        if let Some(last) = reply.rewards.last() {
            core.read = Position::after(last);
        }
        for (number, _) in &reply.gone {
            core.say(format!("node {number} is gone: its number is free"));
        }
        let news = core.membership.news;
        if let Some(from) = core.membership.heard(core.began, &reply) {
            core.cancel_since(from)?;
        }
        core.exchange.news |= news != core.membership.news;
        core.exchange.states |= reply.states > 0;
        core.settle(&bandit)
    }
}

impl<S: BanditSource> Core<S> {
    /// Lets time pass, and looks for an outage.
    fn pass(&mut self, now: u64) -> Result<()> {
        self.now = self.now.max(now);
        // Before its rounds begin, nothing can be missing.
        let watches = self.member.incarnation > 0 && !self.state.has_ended();
        let Some(bandit) = self.bandit.clone().filter(|_| watches) else { return Ok(()) };
        let now = Moment { at: self.now, ticks: bandit.ticks()? };
        let before = self.membership.outage.is_some();
        let from = self.membership.look(now);
        match (before, self.membership.outage.is_some()) {
            (false, true) => {
                self.say("rewards do not arrive in time: this node cancels decisions until they do".into())
            }
            (true, false) => self.say("rewards arrive in time again".into()),
            _ => {}
        }
        from.map_or(Ok(()), |from| self.cancel_since(from))
    }

    fn cancel_since(&mut self, from: u64) -> Result<()> {
        let (now, delay) = (self.now, self.options.delay);
        self.cancelled.retain(|(at, _)| now - at <= (UNTIL_GONE + UNTIL_UNREADY) * delay);
        self.cancelled.retain(|(_, before)| *before < from);
        self.cancelled.push((now, from));
        self.cancel_draining(from)?;
        let from = from.saturating_sub(self.options.click_delay);
        self.bandit.as_ref().map_or(Ok(()), |bandit| bandit.cancel_since(from))
    }

    /// The lane whose command in flight has this id, which has landed in time.
    fn landed(&mut self, id: u64, now: u64) -> Option<Lane> {
        self.now = self.now.max(now);
        let is_this =
            |flight: &Option<Flight>| flight.as_ref().is_some_and(|flight| flight.id == id && self.now < flight.until);
        let lane = Lane::ALL.into_iter().find(|lane| is_this(&self.flights[*lane as usize]))?;
        self.flights[lane as usize] = None;
        Some(lane)
    }

    /// Whether a command of this lane is in flight.
    pub fn is_flying(&self, lane: Lane) -> bool {
        self.flights[lane as usize].is_some()
    }

    /// Shows the bandit, when its first snapshot is in the store, and this node and the others know each other.
    fn join(&mut self, joined: &OnceLock<(u16, Arc<S::Bandit>)>) {
        if let (NodeState::Serving, true, Some(bandit)) = (self.state, self.membership.is_known, &self.bandit) {
            joined.get_or_init(|| (self.member.number, bandit.clone()));
        }
    }

    pub fn end(&mut self, state: NodeState, why: &str) -> Result<()> {
        self.state = state;
        self.say(why.into());
        self.last_error = why.into();
        self.draining.iter().try_for_each(|one| one.bandit.cancel_since(0))?;
        self.bandit.as_ref().map_or(Ok(()), |bandit| bandit.cancel_since(0))
    }

    pub fn say(&mut self, text: String) {
        if self.log.len() < MOST_TEXTS {
            self.log.push_back(text);
        }
    }

    /// Reports the rewards of a message from another node.
    pub fn receive(&mut self, message: &Message) {
        let Some(Ok(text)) = self.opener().map(|bandit| bandit.open(message.content())) else {
            return self.say("a reward that is not sealed with this node's fleet key is ignored".into());
        };
        PartReward::read(&text).for_each(|reward| self.report_reward(reward));
    }

    /// A bandit with the fleet key.
    fn opener(&self) -> Option<&S::Bandit> {
        self.bandit.as_deref().or(self.draining.first().map(|one| &*one.bandit))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bandits;
    use super::*;
    use crate::bandit::Bandit;
    use crate::policy::Algorithm;

    /// A child of fork is refused without a wait for a lock that a thread of its parent had.
    #[cfg(unix)]
    #[test]
    fn a_forked_child_is_no_node() {
        let bandits = Bandits::<Bandit>::new(Algorithm::RECOMMENDED, Config::new(3, 1.0)).unwrap();
        let node = Node::new(bandits.options("ads").unwrap(), bandits, 0).unwrap();
        assert_eq!(node.update(7 << 48, 1.0), Err(Error::UnknownTicket));
        let locks = (node.core.lock().unwrap(), node.outbox.lock().unwrap());
        let is_refused = || {
            let results = [
                node.next(Lane::Rounds, 1).map(drop),
                node.reply(1, 1, b""),
                node.failed(1, 1, ""),
                node.update(7 << 48, 1.0),
                node.next_period(),
                node.leave(1),
                node.report(1).map(drop),
                node.diagnostics().map(drop),
            ];
            results.into_iter().all(|result| result == Err(Error::Poisoned))
        };
        assert!(crate::os::in_child(false, is_refused));
        drop(locks);
        assert!(node.next_period() == Err(Error::NotReady) && node.report(1).is_ok());
    }
}
