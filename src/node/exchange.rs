//! Exchanges: a number and a snapshot first; then, again and again, who leads, sums to the leader, snapshots; and the end.

use super::command::{Command, Leadership, Member, Position, Refusal, Version, reply};
use super::machine::{Core, NodeState, PORTION};
use super::membership::Moment;
use super::outbox::Outbox;
use super::snapshots::{Putting, Settling};
use super::{BanditSource, FleetBandit};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// One command of an exchange, and what follows from its reply. It stays the first until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Take,
    Put,
    News,
    /// Reads the lease, renews it or takes it; true: once more, for this generation.
    Lead(bool),
    /// Ends the lease.
    Resign,
    /// Sends the sums of this node to the leader.
    Contribute,
    /// Reads what others have sent to this node's generation.
    Collect,
    /// Rewards of the draining bandits with this number.
    Keep(u16),
    /// Ends draining bandits, or passes them on.
    Ends,
    Offer {
        withdraw: bool,
    },
    Adopt,
    /// Seeks a receiver: of the process with this number, for its draining bandit; 0: of any, for the last bandit of this
    /// node.
    Host {
        number: u16,
    },
    Entrust,
    /// Ends the lease of a draining bandit.
    Release(Member),
    Leave,
}

/// What the lane of exchanges remembers.
#[derive(Default)]
pub(super) struct Exchange {
    pub plan: VecDeque<Step>,
    /// When the next exchange begins, and until when the lane pauses after a failure.
    at: u64,
    pause: u64,
    failures: u32,
    /// Put a snapshot, and read those of others, before the next exchange.
    pub put_now: bool,
    pub news: bool,
    /// A state waits; exchanges until the next offer.
    pub states: bool,
    pub until_offer: u32,
    /// Until when the node leaves, if the host has asked it to; since when it resigns or moves.
    pub leave_by: Option<u64>,
    since: u64,
    /// The version of the snapshot that the bandit was restored from, and of the last one that was put.
    pub seen: Option<Version>,
    pub version: Version,
    /// The snapshot in flight.
    pub putting: Option<Putting>,
    /// A period has begun, which the next snapshot counts; and the snapshots that count a period and have not settled.
    pub has_begun: bool,
    pub settling: VecDeque<Settling>,
    /// Releases in the last snapshot that was news; exchanges since the last put.
    pub releases: Option<u64>,
    pub unputs: u32,
    pub merged: BTreeMap<u16, Version>,
    /// Those of them whose newest snapshot was refused.
    pub incompatible: BTreeSet<u16>,
    handles: u64,
    /// Who leads; the generation that this node leads or would lead; what it has collected of it.
    pub leader: Leadership,
    pub led: u64,
    pub collected: Position,
    /// The last exchange found no leader.
    pub leaderless: bool,
    /// The commands that send the sums of this node and of its draining bandits.
    pub sums: VecDeque<Command>,
    pub sequence: u64,
    /// How many the store has accepted.
    pub contributed: u64,
    /// Whether the plan is of an exchange; how many have ended well, and when the last one did.
    exchanges: bool,
    pub ended: u64,
    pub ended_at: u64,
    /// No round begins any more: when none is in flight, the node's own state leaves, or the node does.
    pub closing: bool,
}

/// A lease lasts so many intervals, and at least so long.
const LEASE: u64 = 3;
const SHORTEST_LEASE: u64 = 3000;
/// A node that contributes and has released nothing new puts a snapshot at each of so many exchanges.
pub(super) const UNTIL_PUT: u32 = 12;
/// A leader that ends collects for two intervals, at most so long; and then waits for its successor, so long.
const LONGEST_DRAIN: u64 = 10_000;
const LONGEST_WAIT: u64 = 5000;
/// Snapshots in one reply.
const SNAPSHOTS: u64 = 64;

impl Exchange {
    pub fn leaves(&self) -> bool {
        self.leave_by.is_some()
    }

    pub fn done(&mut self) {
        self.plan.pop_front();
        self.failures = 0;
    }
}

impl<S: BanditSource> Core<S> {
    /// Pauses after a failure, each time twice as long, up to half an interval.
    pub fn pause(&mut self) {
        self.exchange.failures = (self.exchange.failures + 1).min(5);
        let longest = self.options.interval >> (6 - self.exchange.failures);
        self.exchange.pause = self.now + longest / 2 + self.jitter(longest / 2);
    }

    fn jitter(&mut self, most: u64) -> u64 {
        self.source.draw() % (most + 1)
    }

    pub fn has_key(&self) -> bool {
        self.options.fleet != 0
    }

    fn lease(&self) -> u64 {
        (LEASE * self.options.interval).max(SHORTEST_LEASE)
    }

    /// The next command, if one is due.
    pub fn step(&mut self, outbox: &Mutex<Outbox>) -> Result<Option<Command>> {
        if self.state == NodeState::Taking && self.exchange.leaves() {
            self.end(NodeState::Left, "the node has left")?; // a lease that it may have ends by itself
        }
        if self.now < self.exchange.pause || self.state.has_ended() {
            return Ok(None);
        }
        if self.exchange.plan.is_empty() {
            if std::mem::take(&mut self.exchange.exchanges) {
                self.exchange.ended += 1;
                self.exchange.ended_at = self.now;
            }
            self.plan(outbox)?;
        }
        while let Some(&step) = self.exchange.plan.front() {
            if let Some(command) = self.command(step)? {
                return Ok(Some(command));
            }
            self.exchange.done();
        }
        Ok(None)
    }

    /// Plans what comes next, by the node's state.
    fn plan(&mut self, outbox: &Mutex<Outbox>) -> Result<()> {
        use Step::{Adopt, Collect, Contribute, Ends, Lead, News, Offer, Put, Resign, Take};
        let exchange = [Lead(false), Contribute, Collect, Put, News, Ends];
        if self.state == NodeState::Storing {
            self.state = NodeState::Serving;
            self.exchange.at = self.now + self.options.interval / 2;
        }
        if self.state == NodeState::Serving && self.exchange.leaves() {
            if !self.leads() {
                return self.begin_moving();
            }
            self.state = NodeState::Resigning;
            self.exchange.since = self.now;
            self.exchange.plan.push_back(Resign);
            return Ok(());
        }
        let passed = self.now - self.exchange.since;
        match self.state {
            NodeState::Taking => self.exchange.plan.push_back(Take),
            NodeState::Serving if self.now >= self.exchange.at => {
                let half = self.options.interval / 2;
                self.exchange.at = self.now + half + self.jitter(half);
                self.plan_draining()?;
                self.exchange.plan.extend(exchange);
                self.exchange.exchanges = true;
                self.exchange.until_offer = (self.exchange.until_offer + UNTIL_PUT - 1) % UNTIL_PUT;
                if self.exchange.until_offer == 0 {
                    self.exchange.plan.push_back(Offer { withdraw: false });
                }
            }
            NodeState::Serving if std::mem::take(&mut self.exchange.states) => {
                self.exchange.plan.extend([Adopt, Contribute, Offer { withdraw: false }]);
            }
            NodeState::Serving if self.exchange.put_now => self.exchange.plan.push_back(Put),
            NodeState::Serving if self.exchange.news => self.exchange.plan.push_back(News),
            NodeState::Resigning => {
                let drain = (2 * self.options.interval).min(LONGEST_DRAIN);
                let is_over = passed > drain + self.options.interval.min(LONGEST_WAIT);
                let is_alone = self.membership.nodes <= 1 && passed > drain / 40; // and has collected once
                if std::mem::take(&mut self.exchange.states) {
                    self.exchange.plan.extend([Adopt, Offer { withdraw: false }]); // of others that leave too
                }
                if is_over || is_alone || passed > drain && self.exchange.leader.number > 0 {
                    self.begin_moving()?;
                } else {
                    self.pause_for(drain / 40);
                    self.exchange.plan.extend([Collect, Lead(false)]);
                }
            }
            NodeState::Moving => {
                let outbox = outbox.lock().map_err(|_| Error::Poisoned)?;
                let waits = outbox.waits(self.exchange.since, self.began.at) && passed < LONGEST_WAIT;
                drop(outbox);
                if self.exchange.closing {
                    self.close()?;
                } else if self.moves() {
                    self.plan_moves(passed, waits)?;
                } else {
                    self.exchange.closing = !waits;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the state does not move, what is open is lost, so nothing of it takes effect after the last contribution.
    fn begin_moving(&mut self) -> Result<()> {
        self.state = NodeState::Moving;
        (self.exchange.since, self.exchange.put_now) = (self.now, true);
        self.plan_draining()?;
        self.exchange.plan.extend([Step::Contribute, Step::Put]);
        let lost = self.bandit.as_ref().filter(|_| !self.moves());
        lost.map_or(Ok(()), |bandit| bandit.cancel_since(0))
    }

    pub fn pause_for(&mut self, time: u64) {
        self.exchange.pause = self.now + time;
    }

    /// The command of a step; None if there is nothing to do.
    fn command(&mut self, step: Step) -> Result<Option<Command>> {
        let (member, tables) = (self.member, self.tables.clone());
        let Some(bandit) = self.bandit.clone() else { return self.state_command(step) };
        Ok(match step {
            Step::Put if self.exchange.putting.is_none() && !self.put_is_due(&bandit)? => None,
            Step::Put => {
                if self.exchange.putting.is_none() {
                    let releases = bandit.releases()?;
                    self.exchange.version.0 += 1;
                    let (version, bytes) = (self.exchange.version, bandit.snapshot()?);
                    let begins = std::mem::take(&mut self.exchange.has_begun);
                    self.exchange.putting = Some(Putting { version, releases, begins, bytes });
                    self.exchange.put_now = false;
                }
                // Each node reads all news, so what tells nothing is none.
                let is_new = |releases| releases > 0 && self.exchange.releases != Some(releases);
                let is_news = |releases| !self.has_key() || self.leads() || is_new(releases);
                let put = |one: &Putting| tables.put(member, one.version, is_news(one.releases), one.bytes.clone());
                self.exchange.putting.as_ref().map(put)
            }
            Step::News => {
                self.exchange.news = false;
                if self.has_key() && self.exchange.handles != self.membership.nodes {
                    self.exchange.handles = self.membership.nodes;
                    bandit.set_handles(self.exchange.handles as u32)?;
                }
                let portion = super::command::Portion { items: SNAPSHOTS, ..PORTION };
                let known = self.exchange.merged.iter().map(|(number, version)| (*number, *version));
                Some(tables.news(member, portion, known))
            }
            Step::Lead(_) | Step::Resign if !self.has_key() => None,
            Step::Lead(_) => {
                let generation = if self.exchange.leaves() { 0 } else { self.exchange.led };
                Some(tables.lead(member, self.options.fleet, generation, self.exchange.leader.term, self.lease()))
            }
            Step::Resign => {
                Some(tables.lead(member, self.options.fleet, self.exchange.led, self.exchange.leader.term, 0))
            }
            Step::Contribute => {
                if self.exchange.sums.is_empty() {
                    self.take_sums(&bandit)?;
                }
                self.exchange.sums.front().cloned()
            }
            Step::Collect if self.exchange.led != 0 && (self.leads() || self.state == NodeState::Resigning) => {
                Some(tables.collect(member, self.exchange.led, &self.exchange.collected, PORTION))
            }
            Step::Collect => None,
            Step::Leave => Some(tables.leave(member)),
            step => self.state_command(step)?,
        })
    }

    /// Takes over the reply to the first step.
    pub fn heard(&mut self, bytes: &[u8]) -> std::result::Result<Result<()>, Refusal> {
        let Some(&step) = self.exchange.plan.front() else { return Ok(Ok(())) };
        match step {
            Step::Take => match reply::take(bytes) {
                Err(Refusal::Taken(_) | Refusal::Full) => {
                    self.last_error = "the number is another process's, or none is free: this node waits".into();
                    self.pause_for(self.options.delay);
                }
                taken => return Ok(self.taken(taken?)),
            },
            Step::Put => self.put(reply::put(bytes)?),
            Step::News => {
                let (more, news) = reply::news(bytes)?;
                if !more {
                    self.exchange.done();
                }
                return Ok(news.iter().try_for_each(|new| self.merge(new.number, new.version, &new.snapshot)));
            }
            Step::Lead(again) => return Ok(self.led(reply::lead(bytes)?, again)),
            Step::Resign => {
                self.exchange.leader = reply::lead(bytes)?;
                self.exchange.done();
            }
            Step::Contribute => {
                reply::done(bytes)?;
                self.exchange.contributed += 1;
                self.exchange.sums.pop_front();
                if self.exchange.sums.is_empty() {
                    self.exchange.done();
                }
            }
            Step::Collect => {
                let messages = reply::messages(bytes)?;
                messages.iter().for_each(|message| self.combine(message.content()));
                match messages.last() {
                    Some(last) => self.exchange.collected = Position::after(last),
                    None => self.exchange.done(),
                }
            }
            Step::Keep(number) => match reply::messages(bytes) {
                Err(Refusal::Replaced) => {
                    self.lost_number(number);
                    self.exchange.done();
                }
                messages => return Ok(self.kept(number, &messages?)),
            },
            Step::Offer { withdraw } => self.offered(&reply::offer(bytes)?, withdraw),
            Step::Adopt => return Ok(self.adopted(reply::adopt(bytes)?)),
            Step::Host { number } => return Ok(self.hosted(number, reply::host(bytes)?)),
            Step::Entrust => {
                reply::done(bytes)?;
                return Ok(self.entrusted());
            }
            Step::Ends | Step::Release(_) => self.exchange.done(),
            Step::Leave => {
                reply::done(bytes)?;
                self.exchange.done();
                return Ok(self.end(NodeState::Left, "the node has left"));
            }
        }
        Ok(Ok(()))
    }

    /// Restores the bandit from the snapshot of its number. A given number is taken only then: a process that cannot
    /// continue must not take it.
    fn taken(&mut self, taken: super::command::Taken) -> Result<()> {
        if self.exchange.seen != Some(taken.version) || self.bandit.is_none() {
            let file = self.options.snapshot.take();
            let newest = self.newest(taken.number, file.as_deref(), &taken.snapshot);
            let made = newest.and_then(|newest| self.source.bandit(taken.number, newest));
            self.options.snapshot = file;
            match made {
                Ok(bandit) if !self.check_state(&bandit)? => return Ok(()),
                Ok(bandit) => self.bandit = Some(Arc::new(bandit)),
                Err(error) => return self.end(NodeState::Failed, &format!("number {}: {error}", taken.number)),
            }
            self.exchange.seen = Some(taken.version);
        }
        let Some(bandit) = self.bandit.clone().filter(|_| taken.incarnation > 0) else { return Ok(()) };
        self.options.snapshot = None;
        self.member.number = taken.number;
        self.member.incarnation = taken.incarnation;
        self.exchange.version = Version::first(taken.incarnation);
        self.begin_period();
        self.exchange.done();
        self.state = NodeState::Storing;
        let offer = Step::Offer { withdraw: false };
        self.exchange.plan.extend([Step::Put, Step::News, Step::Lead(false), Step::Contribute, offer]);
        self.exchange.exchanges = true;
        self.started = self.now;
        self.exchange.until_offer = UNTIL_PUT;
        (self.membership.returned, self.round_at) = (Moment { at: self.now, ticks: bandit.ticks()? }, self.now);
        Ok(())
    }

    /// Merges a snapshot. One that is refused keeps the node from no other.
    fn merge(&mut self, number: u16, version: Version, snapshot: &[u8]) -> Result<()> {
        self.exchange.merged.insert(number, version);
        self.exchange.incompatible.remove(&number);
        match self.bandit.as_ref().map_or(Ok(()), |bandit| bandit.merge(snapshot)) {
            Err(Error::Poisoned) => Err(Error::Poisoned),
            Err(error) => {
                self.exchange.incompatible.insert(number);
                self.say(format!("node {number} is incompatible: it and this node ignore each other: {error}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}
