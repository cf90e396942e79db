//! Who leads, and the sums that its nodes contribute.

use super::command::{Capacity, Leadership, Position};
use super::exchange::{Exchange, Step};
use super::machine::{Core, NodeState};
use super::{BanditSource, FleetBandit};
use crate::error::{Error, Result};

/// Nodes up to this number take the lead at once, others only if they find no leader at two exchanges. So few nodes ever
/// release, and the others have few snapshots to read.
const FIRST_LEADERS: u16 = 8;
/// A queue of contributions keeps so many, and a minute.
const SUMS: Capacity = Capacity { messages: 10_000, lifetime: 60_000 };

impl<S: BanditSource> Core<S> {
    pub fn leads(&self) -> bool {
        let Exchange { leader, led, .. } = &self.exchange;
        *led != 0 && (leader.number, leader.generation) == (self.member.number, *led)
    }

    /// Who leads. If nobody does, this node may take the lease, for a generation of its bandit.
    pub fn led(&mut self, leader: Leadership, again: bool) -> Result<()> {
        self.exchange.done();
        self.exchange.leader = leader;
        if leader.number == self.member.number && leader.generation != self.exchange.led {
            self.exchange.leader.generation = 0; // held before a restart
        }
        if leader.number != 0 {
            self.exchange.leaderless = false;
            if !self.leads() && self.state != NodeState::Resigning {
                self.exchange.led = 0;
            }
            return Ok(());
        }
        let is_first = self.member.number <= FIRST_LEADERS || self.exchange.releases.is_some_and(|count| count > 0);
        if !again && !self.exchange.leaves() && (is_first || self.exchange.leaderless) {
            let Some(bandit) = &self.bandit else { return Ok(()) };
            let generation = bandit.lead()?;
            if generation != self.exchange.led {
                (self.exchange.led, self.exchange.collected) = (generation, Position::default());
            }
            self.exchange.plan.push_front(Step::Lead(true));
        }
        self.exchange.leaderless = true;
        Ok(())
    }

    /// Takes the open sums out of this node's bandit and the draining ones, for the leader; a leader adds the latter.
    pub fn take_sums(&mut self, bandit: &S::Bandit) -> Result<()> {
        let generation = self.exchange.leader.generation;
        if generation == 0 {
            return Ok(());
        }
        let mut taken = Vec::new();
        for one in &self.draining {
            taken.push(one.bandit.contribution(generation)?);
        }
        if generation == self.exchange.led {
            taken.iter().filter(|sums| !sums.is_empty()).for_each(|sums| self.combine(sums));
            return Ok(());
        }
        taken.push(bandit.contribution(generation)?);
        for sums in taken.into_iter().filter(|sums| !sums.is_empty()) {
            self.exchange.sequence += 1;
            let sequence = self.exchange.sequence;
            self.exchange.sums.push_back(self.tables.contribute(self.member, generation, sequence, SUMS, sums));
        }
        Ok(())
    }

    /// Adds a contribution. A repeated one is no error.
    pub fn combine(&mut self, contribution: &[u8]) {
        let Some(bandit) = &self.bandit else { return };
        match bandit.combine(contribution) {
            Ok(()) | Err(Error::Duplicate) => {}
            Err(error) => self.say(format!("a contribution is refused and lost: {error}")),
        }
    }
}
