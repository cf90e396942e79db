//! States that move: a node that ends leaves its bandit to a node that lives, which keeps it as a *ward* until nothing is
//! open in it. A ward decides nothing; it gets the rewards in the queue of its number, and contributes.
//!
//! A state is addressed to a receiver, a random number that a living process has drawn and accepts once. So however often a
//! store gives a state, and whatever a failover brings back, one process at most continues from it.

use super::command::{Command, Legacy, Member, Message, Position};
use super::exchange::Step;
use super::machine::{Core, Lane, NodeState, PORTION};
use super::membership::{UNTIL_GONE, UNTIL_UNREADY};
use super::{BanditSource, FleetBandit};
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// A node offers so many receivers.
const OFFERED: usize = 4;
/// A node that ends waits so long for states that are on their way to it, and for a receiver.
const LONGEST_ADOPTION: u64 = 2500;
const LONGEST_SEARCH: u64 = 5000;
/// Rewards that are kept for a state that may come.
const MOST_UNKNOWN: usize = 10_000;

/// A bandit of a node that has ended.
pub(super) struct Ward<B> {
    pub bandit: Arc<B>,
    member: Member,
    /// It has its number; otherwise another process has, which must get it.
    holds: bool,
    /// When it lost its number, or came.
    since: u64,
    /// The tick of this node's clock up to which time has passed for it.
    ticks: u64,
    read: Position,
}

/// A bandit on its way to another node.
pub(super) struct Passage {
    member: Member,
    to: u16,
    receiver: u64,
    state: Vec<u8>,
}

/// What a node remembers of states.
pub(super) struct Wards<B> {
    pub all: Vec<Ward<B>>,
    /// What this node offers, and when each receiver was taken.
    receivers: Vec<(u64, Option<u64>)>,
    /// Those in the last OFFER that are new.
    fresh: Vec<u64>,
    offers: u64,
    withdrawn: bool,
    /// The last state that it has read.
    read: Position,
    /// Rewards for decisions of the last process with this node's number.
    unknown: VecDeque<(u64, f64)>,
    passage: Option<Passage>,
    /// The node and the receiver for this node's own bandit.
    host: Option<(u16, u64)>,
    /// Since when a node that ends seeks a receiver.
    sought: Option<u64>,
}

impl<B> Default for Wards<B> {
    fn default() -> Self {
        Wards {
            all: Vec::new(),
            receivers: Vec::new(),
            fresh: Vec::new(),
            offers: 0,
            withdrawn: false,
            read: Position::default(),
            unknown: VecDeque::new(),
            passage: None,
            host: None,
            sought: None,
        }
    }
}

impl<S: BanditSource> Core<S> {
    /// Whether this node's state can move. Where a balancer brings each reward to the node that decided, none comes after
    /// the end.
    pub fn moves(&self) -> bool {
        self.options.fleet != 0 && !self.options.routed
    }

    /// A ward's lease: this node renews it at each exchange.
    fn ward_lease(&self) -> u64 {
        (UNTIL_GONE * self.options.delay).max(3 * self.options.interval)
    }

    fn own_ticks(&self) -> Result<u64> {
        self.bandit.as_ref().map_or(Ok(0), |bandit| bandit.ticks())
    }

    /// Cancels in a ward what was made since a tick of this node's clock.
    pub fn cancel_wards(&self, from: u64) -> Result<()> {
        self.wards.all.iter().try_for_each(|ward| {
            let from = ward.bandit.ticks()?.saturating_add(from).saturating_sub(ward.ticks);
            ward.bandit.cancel_since(from)
        })
    }

    /// The command of a step with states; None if there is nothing to do.
    pub fn ward_command(&mut self, step: Step) -> Result<Option<Command>> {
        let (lease, tables, member) = (self.ward_lease(), self.tables.clone(), self.member);
        Ok(match step {
            Step::Keep(number) => {
                let ward = self.wards.all.iter().find(|ward| ward.member.number == number && ward.holds);
                ward.map(|ward| tables.keep(ward.member, lease, &ward.read, PORTION))
            }
            Step::Offer { withdraw } if self.moves() => {
                self.wards.fresh.clear();
                if !withdraw {
                    self.draw_receivers(lease)?;
                }
                self.wards.offers += 1;
                Some(tables.offer(member, self.wards.offers, withdraw, &self.wards.fresh))
            }
            Step::Adopt if self.moves() && self.exchange.leader.generation != 0 => {
                Some(tables.adopt(member, lease, &self.wards.read))
            }
            Step::Host { number } => Some(tables.host(member, number, self.source.draw() as u32)),
            Step::Entrust => self.wards.passage.as_ref().map(|passage| {
                let Passage { member, to, receiver, state } = passage;
                tables.entrust(*member, lease, *to, *receiver, state.clone())
            }),
            Step::Release(ward) => Some(tables.leave(ward)),
            Step::Ends => self.plan_ends().map(|()| None)?,
            _ => None,
        })
    }

    /// Keeps some receivers open. One whose state has not come within a lease is given up.
    fn draw_receivers(&mut self, lease: u64) -> Result<()> {
        let now = self.now;
        self.wards.receivers.retain(|(_, taken)| taken.is_none_or(|at| now < at + lease));
        let Some(bandit) = &self.bandit else { return Ok(()) };
        let open = self.wards.receivers.iter().filter(|row| row.1.is_none()).count();
        for _ in open..OFFERED {
            match bandit.receiver() {
                Ok(receiver) => {
                    self.wards.receivers.push((receiver, None));
                    self.wards.fresh.push(receiver);
                }
                Err(Error::Full { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The reply to an OFFER: the receivers that nobody had taken.
    pub fn offered(&mut self, open: &[u64], withdraw: bool) {
        self.exchange.done();
        self.wards.withdrawn |= withdraw;
        for (receiver, taken) in &mut self.wards.receivers {
            if !open.contains(receiver) {
                taken.get_or_insert(self.now);
            }
        }
        if withdraw {
            self.wards.receivers.retain(|(_, taken)| taken.is_some());
        }
    }

    /// Rewards of a ward, and then time.
    pub fn kept(&mut self, number: u16, messages: &[Message]) -> Result<()> {
        let ticks = self.own_ticks()?;
        let Some(at) = self.wards.all.iter().position(|ward| ward.member.number == number && ward.holds) else {
            return Ok(());
        };
        messages.iter().for_each(|message| self.receive(number, message));
        let ward = &mut self.wards.all[at];
        if let Some(last) = messages.last() {
            ward.read = Position::after(last);
        } else {
            self.let_time_pass(number, ticks)?;
            self.exchange.done();
        }
        Ok(())
    }

    /// Lets the time of this node pass for the wards with a number: their rewards have come.
    fn let_time_pass(&mut self, number: u16, ticks: u64) -> Result<()> {
        for ward in self.wards.all.iter_mut().filter(|ward| ward.member.number == number) {
            ward.bandit.skip(ticks.saturating_sub(ward.ticks))?;
            ward.ticks = ward.ticks.max(ticks);
        }
        Ok(())
    }

    /// Another process has a ward's number.
    pub fn lost_number(&mut self, number: u16) {
        for ward in self.wards.all.iter_mut().filter(|ward| ward.member.number == number) {
            (ward.holds, ward.since) = (false, self.now);
        }
    }

    /// Continues from a state. Returns whether there may be more.
    pub fn adopted(&mut self, legacy: Option<Legacy>) -> Result<()> {
        let Some(Legacy { position, receiver, mut member, age, bytes }) = legacy else {
            self.exchange.done();
            return Ok(());
        };
        self.wards.read = position;
        self.wards.receivers.retain(|row| row.0 != receiver);
        if receiver == 0 {
            self.say("a foreign message among the states is ignored".into());
            return Ok(());
        }
        let mut holds = member.incarnation > 0;
        if member.number == self.member.number {
            member = self.member;
        } else if let Some(other) = self.wards.all.iter().find(|ward| !holds && ward.member.number == member.number) {
            (member, holds) = (other.member, other.holds);
        }
        let bandit = match self.source.resume(member.number, &bytes) {
            Ok(bandit) => Arc::new(bandit),
            Err(error) => {
                self.say(format!(
                    "the state of a node that has ended is refused, and what was open in it is lost: {error}"
                ));
                if holds {
                    self.exchange.plan.insert(1, Step::Release(member));
                }
                return Ok(());
            }
        };
        let mut ticks = self.own_ticks()?;
        if age > UNTIL_UNREADY * self.options.delay {
            bandit.cancel_since(0)?; // longer than rewards may be on their way
        } else if let Some(passed) = age.checked_div(self.options.tick) {
            ticks = ticks.saturating_sub(passed);
        }
        for (ticket, reward) in &self.wards.unknown {
            _ = bandit.update(*ticket, *reward);
        }
        let recent = self.now.saturating_sub(age + LONGEST_SEARCH + UNTIL_UNREADY * self.options.delay);
        for (_, from) in self.cancelled.iter().filter(|row| row.0 >= recent) {
            bandit.cancel_since(bandit.ticks()?.saturating_add(*from).saturating_sub(ticks))?;
        }
        self.wards.all.push(Ward { bandit, member, holds, since: self.now, ticks, read: Position::default() });
        Ok(())
    }

    /// Reports a reward for a decision with this number: of this node, or of a ward.
    pub fn report_reward(&mut self, number: u16, ticket: u64, reward: f64) {
        let own = self.bandit.as_ref().filter(|_| number == self.member.number);
        let wards = self.wards.all.iter().filter(|ward| ward.member.number == number).map(|ward| &ward.bandit);
        for bandit in own.into_iter().chain(wards) {
            match bandit.update(ticket, reward) {
                Err(Error::UnknownTicket) => {}
                _ => return, // also a repeated one, and one that is late
            }
        }
        // Perhaps of the last process with this number, whose state comes soon.
        if self.moves() && number == self.member.number && self.wards.unknown.len() < MOST_UNKNOWN {
            self.wards.unknown.push_back((ticket, reward));
        }
    }

    /// What an exchange does for the wards first: rewards and time.
    pub fn plan_wards(&mut self) -> Result<()> {
        if self.wards.all.is_empty() && self.now > self.started + UNTIL_GONE * self.options.delay {
            self.wards.unknown.clear();
        }
        let ticks = self.own_ticks()?;
        self.let_time_pass(self.member.number, ticks)?; // its rewards come with rounds
        let mut numbers: Vec<u16> =
            self.wards.all.iter().filter(|ward| ward.holds).map(|ward| ward.member.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.exchange.plan.extend(numbers.into_iter().map(Step::Keep));
        Ok(())
    }

    /// Ends the wards in which nothing is open: their sums are on their way. Passes on those whose numbers are other
    /// processes'.
    fn plan_ends(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(ward) = self.wards.all.get(at) {
            let (member, is_elsewhere) = (ward.member, !ward.holds && ward.member.number != self.member.number);
            if ward.bandit.pending()? == 0 && self.exchange.leader.generation != 0 {
                let ward = self.wards.all.remove(at);
                self.exchange.plan.extend(self.release(&ward));
                continue;
            }
            if is_elsewhere && self.now > ward.since + UNTIL_GONE * self.options.delay {
                ward.bandit.cancel_since(0)?;
            }
            if is_elsewhere {
                self.exchange.plan.push_back(Step::Host { number: member.number });
            }
            at += 1;
        }
        Ok(())
    }

    /// Ends the lease of a ward that has ended, unless the number is still needed.
    fn release(&self, ward: &Ward<S::Bandit>) -> Option<Step> {
        let shared = self.wards.all.iter().any(|other| other.member == ward.member) || ward.member == self.member;
        (ward.holds && !shared).then_some(Step::Release(ward.member))
    }

    /// Plans the end of a node that moves: no more receivers, the states that are on their way, the rewards that wait;
    /// then a receiver for each ward and for the node's own bandit. Rounds go on meanwhile.
    pub fn plan_moves(&mut self, passed: u64, waits: bool) -> Result<()> {
        if !self.wards.withdrawn {
            self.exchange.plan.push_back(Step::Offer { withdraw: true });
            return Ok(());
        }
        let knows_leader = self.exchange.leader.generation != 0;
        if !self.wards.receivers.is_empty() && knows_leader && passed < LONGEST_ADOPTION {
            self.exchange.plan.push_back(Step::Adopt);
            self.pause_for(self.options.delay / 40);
        } else if !waits {
            let last = self.wards.all.last().map_or(self.bandit.as_ref(), |ward| Some(&ward.bandit));
            let Some(last) = last else { return Ok(()) };
            let has_open = last.pending()? > 0 || !knows_leader;
            let since = *self.wards.sought.get_or_insert(self.now);
            if !has_open || self.now > since + LONGEST_SEARCH {
                return self.end_last();
            }
            self.exchange.plan.push_back(Step::Host { number: 0 });
            self.pause_for(self.options.delay / 40);
        }
        Ok(())
    }

    /// Ends the last bandit of a node that ends, whose state nobody takes.
    fn end_last(&mut self) -> Result<()> {
        self.wards.sought = None;
        match self.wards.all.pop() {
            Some(ward) => self.exchange.plan.extend(self.release(&ward)),
            None => self.exchange.closing = true,
        }
        Ok(())
    }

    /// Without rounds: the node's own state leaves for its host, or the node leaves.
    pub fn close(&mut self) -> Result<()> {
        if self.is_flying(Lane::Rounds) {
            return Ok(());
        }
        match (self.wards.host.take(), self.bandit.take()) {
            (Some(host), Some(bandit)) => self.pass_on(&bandit, self.member, host)?,
            (_, bandit) => {
                self.bandit = bandit;
                self.exchange.plan.push_back(Step::Leave);
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, bandit: &S::Bandit, member: Member, (to, receiver): (u16, u64)) -> Result<()> {
        self.wards.sought = None;
        self.wards.passage = Some(Passage { member, to, receiver, state: bandit.suspend(receiver)? });
        self.exchange.plan.push_front(Step::Entrust);
        Ok(())
    }

    /// The reply to a HOST: a receiver for the ward with that number, or for the last bandit of a node that ends.
    pub fn hosted(&mut self, number: u16, host: (u16, u64)) -> Result<()> {
        self.exchange.done();
        if host.1 == 0 {
            return if number == 0 && host.0 == 0 { self.end_last() } else { Ok(()) };
        }
        let is_meant = |ward: &Ward<_>| number == 0 || ward.member.number == number && !ward.holds;
        match self.wards.all.iter().rposition(is_meant) {
            Some(at) => {
                let ward = self.wards.all.remove(at);
                self.pass_on(&ward.bandit, ward.member, host)
            }
            None => {
                (self.wards.host, self.exchange.closing) = (Some(host).filter(|_| number == 0), number == 0);
                Ok(())
            }
        }
    }

    /// The reply to an ENTRUST.
    pub fn entrusted(&mut self) -> Result<()> {
        self.exchange.done();
        self.wards.passage = None;
        if self.bandit.is_none() {
            self.end(NodeState::Left, "another node continues with what is open")
        } else {
            Ok(())
        }
    }
}
