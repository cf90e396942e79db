//! States that move: a node that ends leaves its bandit to a node that lives, which keeps it as a *draining bandit* until
//! nothing is open in it. A draining bandit decides nothing; it gets the rewards in the queue of its number, and contributes.
//!
//! A state is addressed to a receiver, a random number that a living process has drawn and accepts once. So however often a
//! store gives a state, and whatever a failover brings back, one process at most continues from it.

use super::command::{Command, Member, Message, MovedState, Position};
use super::exchange::Step;
use super::machine::{Core, Lane, NodeState, PORTION};
use super::membership::{Moment, UNTIL_GONE, UNTIL_UNREADY};
use super::outbox::PartReward;
use super::{BanditSource, FleetBandit};
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// A node offers so many receivers.
const OFFERED: usize = 4;
/// A node that ends waits so long for states that are on their way to it, and for a receiver.
const LONGEST_ADOPTION: u64 = 2500;
const LONGEST_SEARCH: u64 = 5000;
/// A state has at most so many bytes. Its length hardly changes: it has a place for each decision that may be open.
const LARGEST_STATE: u64 = 128 << 20;
/// A store moves at least so many bytes of a state in a millisecond.
const STATE_RATE: u64 = 10_000;
/// Rewards that are kept for a state that may come.
const MOST_UNKNOWN: usize = 10_000;

/// A bandit of a node that has ended.
pub(super) struct DrainingBandit<B> {
    pub bandit: Arc<B>,
    member: Member,
    /// It has its number; otherwise another process has, which must get it.
    holds: bool,
    /// When it lost its number, or came.
    since: u64,
    /// The time up to which it has passed for it.
    time: u64,
    read: Position,
    /// The time of the KEEP in flight: it brings the rewards that had come before.
    asked: u64,
}

/// What a node remembers of states.
#[derive(Default)]
pub(super) struct MovingStates {
    /// What this node offers, and when each receiver was taken.
    receivers: Vec<(u64, Option<u64>)>,
    offers: u64,
    withdrawn: bool,
    /// The last state that it has read.
    read: Position,
    /// Rewards for decisions of the last process with this node's number.
    unknown: VecDeque<PartReward>,
    /// The command that leaves a state to another node.
    entrust: Option<Command>,
    /// The node and the receiver for this node's own bandit.
    host: Option<(u16, u64)>,
    /// Since when a node that ends seeks a receiver.
    searching_since: Option<u64>,
}

impl<S: BanditSource> Core<S> {
    /// Whether this node's state can move. Where a balancer brings each reward to the node that decided, none comes after
    /// the end.
    pub fn moves(&self) -> bool {
        self.options.fleet != 0 && !self.options.routed
    }

    /// Whether the bandit's state can move in time. Otherwise says why not: at the end it would be too late.
    pub fn check_state(&mut self, bandit: &S::Bandit) -> Result<bool> {
        self.state_length = if self.moves() { bandit.state_length()? } else { 0 };
        let fits = self.state_length <= LARGEST_STATE;
        if !fits {
            let why = format!("a state of {} bytes is too large to move: lower pending_capacity", self.state_length);
            self.end(NodeState::Failed, &why)?;
        }
        Ok(fits)
    }

    /// How long a command of an exchange may take: longer if it moves a state.
    pub fn exchange_timeout(&self) -> u64 {
        let moves = matches!(self.exchange.plan.front(), Some(Step::Entrust | Step::Adopt));
        let state = if moves { self.state_length / STATE_RATE } else { 0 };
        (self.options.interval / 2).max(1000) + state
    }

    /// A draining bandit's lease: this node renews it at each exchange.
    fn draining_lease(&self) -> u64 {
        (UNTIL_GONE * self.options.delay).max(3 * self.options.interval)
    }

    fn own_ticks(&self) -> Result<u64> {
        self.bandit.as_ref().map_or(Ok(0), |bandit| bandit.ticks())
    }

    /// The time of draining bandits at a moment, in ticks. It is not that of the node's own bandit: a caller's clock leaps
    /// when it is set for the first time, and their windows must not end then.
    fn time_at(&self, moment: Moment) -> u64 {
        moment.at.checked_div(self.options.tick).unwrap_or(moment.ticks)
    }

    /// Their time now.
    fn time(&self) -> Result<u64> {
        Ok(self.time_at(Moment { at: self.now, ticks: self.own_ticks()? }))
    }

    /// Cancels in the draining bandits what was made since `click_delay` before a tick of this node's bandit.
    pub fn cancel_draining(&self, from: u64) -> Result<()> {
        self.draining.iter().try_for_each(|one| self.cancel_in(&one.bandit, one.time, from))
    }

    /// The same in one, up to this time of which time has passed. Its decisions may be older than all ticks of this node. From
    /// 0 on is everything.
    fn cancel_in(&self, bandit: &S::Bandit, time: u64, from: u64) -> Result<()> {
        let age = self.own_ticks()?.saturating_sub(from).saturating_add(self.options.click_delay);
        let now = bandit.ticks()?.saturating_add(self.time()?).saturating_sub(time);
        bandit.cancel_since(if from == 0 { 0 } else { now.saturating_sub(age) })
    }

    /// The command of a step that needs no bandit of the node; None if there is nothing to do.
    pub fn state_command(&mut self, step: Step) -> Result<Option<Command>> {
        let (lease, tables, member) = (self.draining_lease(), self.tables.clone(), self.member);
        Ok(match step {
            Step::Take => {
                let lease = UNTIL_GONE * self.options.delay;
                Some(tables.take(self.options.number, member.life, lease, self.exchange.seen))
            }
            Step::Keep(number) => {
                let time = self.time()?;
                let one = self.draining.iter_mut().find(|one| one.member.number == number && one.holds);
                one.map(|one| {
                    one.asked = time;
                    tables.keep(one.member, lease, &one.read, PORTION)
                })
            }
            Step::Offer { withdraw } if self.moves() => {
                let fresh = if withdraw { Vec::new() } else { self.draw_receivers(lease)? };
                self.moving.offers += 1;
                Some(tables.offer(member, self.moving.offers, withdraw, &fresh))
            }
            Step::Adopt if self.moves() && (self.exchange.leader.generation != 0 || self.exchange.leaves()) => {
                Some(tables.adopt(member, lease, &self.moving.read))
            }
            Step::Host { number } => Some(tables.host(member, number, self.source.draw() as u32)),
            Step::Entrust => self.moving.entrust.clone(),
            Step::Release(member) => Some(tables.leave(member)),
            Step::Ends => self.plan_ends().map(|()| None)?,
            _ => None,
        })
    }

    /// Draws new receivers, so that some are open. One whose state has not come within a lease is given up.
    fn draw_receivers(&mut self, lease: u64) -> Result<Vec<u64>> {
        let (now, mut fresh) = (self.now, Vec::new());
        self.moving.receivers.retain(|(_, taken)| taken.is_none_or(|at| now < at + lease));
        let Some(bandit) = &self.bandit else { return Ok(fresh) };
        let open = self.moving.receivers.iter().filter(|row| row.1.is_none()).count();
        for _ in open..OFFERED {
            match bandit.receiver() {
                Ok(receiver) => fresh.push(receiver),
                Err(Error::Full { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        self.moving.receivers.extend(fresh.iter().map(|receiver| (*receiver, None)));
        Ok(fresh)
    }

    /// The reply to an OFFER: the receivers that nobody had taken.
    pub fn offered(&mut self, open: &[u64], withdraw: bool) {
        self.exchange.done();
        self.moving.withdrawn |= withdraw && self.exchange.leaves();
        let is_own = |receiver: &u64| self.moving.receivers.iter().any(|row| row.0 == *receiver);
        if !withdraw && !open.iter().all(is_own) {
            // A store that went back offers some that have had a state.
            self.exchange.plan.push_front(Step::Offer { withdraw: true });
        }
        for (receiver, taken) in &mut self.moving.receivers {
            if !open.contains(receiver) {
                taken.get_or_insert(self.now);
            }
        }
        if withdraw {
            self.moving.receivers.retain(|(_, taken)| taken.is_some());
        }
        if self.moving.receivers.iter().filter(|row| row.1.is_none()).count() < OFFERED {
            self.exchange.until_offer = 1; // they were taken, or the store has lost them
        }
    }

    /// Rewards of a draining bandit, and then time.
    pub fn kept(&mut self, number: u16, messages: &[Message]) -> Result<()> {
        let Some(at) = self.draining.iter().position(|one| one.member.number == number && one.holds) else {
            return Ok(());
        };
        messages.iter().for_each(|message| self.receive(message));
        if let Some(last) = messages.last() {
            self.draining[at].read = Position::after(last);
        }
        // With a send rate there always are more soon.
        let bytes: usize = messages.iter().map(|message| message.bytes.len()).sum();
        if (messages.len() as u64) < PORTION.items && (bytes as u64) < PORTION.bytes / 2 {
            self.let_time_pass(number, self.draining[at].asked)?;
            self.exchange.done();
        }
        Ok(())
    }

    /// Lets the time of this node pass for the draining bandits with a number: their rewards have come.
    fn let_time_pass(&mut self, number: u16, time: u64) -> Result<()> {
        let is_here = |one: &&mut DrainingBandit<_>| one.holds || one.member.number == self.member.number;
        for one in self.draining.iter_mut().filter(|one| one.member.number == number).filter(is_here) {
            one.bandit.skip(time.saturating_sub(one.time))?;
            one.time = one.time.max(time);
        }
        Ok(())
    }

    /// Another process has a draining bandit's number.
    pub fn lost_number(&mut self, number: u16) {
        for one in self.draining.iter_mut().filter(|one| one.member.number == number) {
            (one.holds, one.since) = (false, self.now);
        }
    }

    /// Continues from a state. Returns whether there may be more.
    pub fn adopted(&mut self, state: Option<MovedState>) -> Result<()> {
        let Some(MovedState { position, receiver, mut member, mut holds, age, bytes }) = state else {
            self.exchange.done();
            return Ok(());
        };
        self.moving.read = position;
        self.moving.receivers.retain(|row| row.0 != receiver);
        if receiver == 0 {
            self.say("a foreign message among the states is ignored".into());
            return Ok(());
        }
        // The rewards for it have all come here: this node was the next to have its number.
        let next = member.incarnation.checked_add(1);
        let is_next = member.number == self.member.number && next == Some(self.member.incarnation);
        // Otherwise another process with its number may have read some, which are lost. (If it only waits here for the process
        // that has its number, that one decides.)
        let mut has_lost = false;
        if member.number == self.member.number {
            (member, has_lost) = (self.member, !is_next);
        } else if let Some(other) = self.draining.iter().find(|one| !holds && one.member.number == member.number) {
            (member, holds, has_lost) = (other.member, other.holds, true);
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
        let mut time = self.time()?;
        if has_lost || age > UNTIL_UNREADY * self.options.delay {
            bandit.cancel_since(0)?; // or longer ago than rewards may be on their way
        } else if let Some(passed) = age.checked_div(self.options.tick) {
            time = time.saturating_sub(passed);
        }
        for &PartReward { ticket, part, value } in &self.moving.unknown {
            self.counts.received += u64::from(bandit.update_part(ticket, part, value).is_ok());
        }
        let recent = self.now.saturating_sub(age + LONGEST_SEARCH + UNTIL_UNREADY * self.options.delay);
        for (_, from) in self.cancelled.iter().filter(|row| row.0 >= recent) {
            self.cancel_in(&bandit, time, *from)?;
        }
        let (since, read) = (self.now, Position::default());
        self.draining.push(DrainingBandit { bandit, member, holds, since, time, read, asked: time });
        Ok(())
    }

    /// Reports a reward for a decision of this node, or of a draining bandit.
    pub fn report_reward(&mut self, reward: PartReward) {
        let (PartReward { ticket, part, value }, number) = (reward, reward.number());
        let own = self.bandit.as_ref().filter(|_| number == self.member.number);
        let draining = self.draining.iter().filter(|one| one.member.number == number).map(|one| &one.bandit);
        for bandit in own.into_iter().chain(draining) {
            match bandit.update_part(ticket, part, value) {
                Err(Error::UnknownTicket) => continue,
                Ok(()) => self.counts.received += 1,
                Err(_) => self.counts.refused += 1, // repeated, late or invalid
            }
            return;
        }
        // Perhaps of the last process with this number, whose state comes soon.
        if self.moves() && number == self.member.number && self.moving.unknown.len() < MOST_UNKNOWN {
            self.moving.unknown.push_back(reward);
        } else {
            self.counts.refused += 1;
        }
    }

    /// What an exchange does for the draining bandits first: rewards and time.
    pub fn plan_draining(&mut self) -> Result<()> {
        if self.draining.is_empty() && self.now > self.started + UNTIL_GONE * self.options.delay {
            self.moving.unknown.clear();
        }
        let time = self.time_at(self.membership.returned);
        self.let_time_pass(self.member.number, time)?; // its rewards come with rounds
        let mut numbers: Vec<u16> = self.draining.iter().filter(|one| one.holds).map(|one| one.member.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.exchange.plan.extend(numbers.into_iter().map(Step::Keep));
        Ok(())
    }

    /// Ends the draining bandits in which nothing is open: their sums are on their way. Passes on those whose numbers are
    /// other processes'.
    fn plan_ends(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(one) = self.draining.get(at) {
            let (member, is_elsewhere) = (one.member, !one.holds && one.member.number != self.member.number);
            if one.bandit.pending()? == 0 && self.exchange.leader.generation != 0 {
                let one = self.draining.remove(at);
                self.exchange.plan.extend(self.release(&one));
                continue;
            }
            if is_elsewhere && self.now > one.since + UNTIL_GONE * self.options.delay {
                one.bandit.cancel_since(0)?;
            }
            if is_elsewhere {
                self.exchange.plan.push_back(Step::Host { number: member.number });
            }
            at += 1;
        }
        Ok(())
    }

    /// Ends the lease of a draining bandit that has ended, unless the number is still needed.
    fn release(&self, one: &DrainingBandit<S::Bandit>) -> Option<Step> {
        let shared = self.draining.iter().any(|other| other.member == one.member) || one.member == self.member;
        (one.holds && !shared).then_some(Step::Release(one.member))
    }

    /// Plans the end of a node that moves: no more receivers, the states that are on their way, the rewards that wait;
    /// then a receiver for each draining bandit and for the node's own bandit. Rounds go on meanwhile.
    pub fn plan_moves(&mut self, passed: u64, waits: bool) -> Result<()> {
        if !self.moving.withdrawn {
            self.exchange.plan.push_back(Step::Offer { withdraw: true });
            return Ok(());
        }
        let knows_leader = self.exchange.leader.generation != 0;
        if !self.moving.receivers.is_empty() && passed < LONGEST_ADOPTION {
            self.exchange.plan.push_back(Step::Adopt);
            self.pause_for(self.options.delay / 40);
        } else if !waits {
            let last = self.draining.last().map_or(self.bandit.as_ref(), |one| Some(&one.bandit));
            let Some(last) = last else { return Ok(()) };
            let has_open = last.pending()? > 0 || !knows_leader;
            let since = *self.moving.searching_since.get_or_insert(self.now);
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
        self.moving.searching_since = None;
        match self.draining.pop() {
            Some(one) => self.exchange.plan.extend(self.release(&one)),
            None => self.exchange.closing = true,
        }
        Ok(())
    }

    /// Without rounds: the node's own state leaves for its host, or the node leaves.
    pub fn close(&mut self) -> Result<()> {
        if self.is_flying(Lane::Rounds) {
            return Ok(());
        }
        match (self.moving.host.take(), self.bandit.take()) {
            (Some(host), Some(bandit)) => self.pass_on(&bandit, self.member, host)?,
            (_, bandit) => {
                self.bandit = bandit;
                self.exchange.plan.push_back(Step::Leave);
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, bandit: &S::Bandit, member: Member, (to, receiver): (u16, u64)) -> Result<()> {
        self.moving.searching_since = None;
        let (lease, state) = (self.draining_lease(), bandit.suspend(receiver)?);
        self.moving.entrust = Some(self.tables.entrust(member, lease, to, receiver, state));
        self.exchange.plan.push_front(Step::Entrust);
        Ok(())
    }

    /// The reply to a HOST: a receiver for the draining bandit with that number, or for the last bandit of a node that
    /// ends.
    pub fn hosted(&mut self, number: u16, host: (u16, u64)) -> Result<()> {
        self.exchange.done();
        if host.1 == 0 {
            return Ok(()); // in a rolling restart the next one soon offers some
        }
        let is_meant = |one: &DrainingBandit<_>| number == 0 || one.member.number == number && !one.holds;
        match self.draining.iter().rposition(is_meant) {
            Some(at) => {
                let DrainingBandit { bandit, mut member, .. } = self.draining.remove(at);
                if member == self.member {
                    // This node keeps its number until its own bandit leaves: it is as if it had that after this one.
                    (member.incarnation, member.life) = (member.incarnation - 1, 0);
                }
                self.pass_on(&bandit, member, host)
            }
            None => {
                (self.moving.host, self.exchange.closing) = (Some(host).filter(|_| number == 0), number == 0);
                Ok(())
            }
        }
    }

    /// The reply to an ENTRUST.
    pub fn entrusted(&mut self) -> Result<()> {
        self.exchange.done();
        self.moving.entrust = None;
        if self.bandit.is_none() {
            self.end(NodeState::Left, "another node continues with what is open")
        } else {
            Ok(())
        }
    }
}
