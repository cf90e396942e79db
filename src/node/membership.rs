//! Rounds, and the watch over outages.
//!
//! **A round** beats, sends rewards and receives some. When it has ended well, the rewards that others had sent before it
//! began have arrived. Its reply names the nodes that are late: they have not beaten since a beat of this node that is older
//! than a delay. No two clocks are compared: the store counts beats, and each node measures by its own clock.
//!
//! **An outage** lasts while this node's last good round, or the last beat of another node, is older than a delay and than an
//! eighth of the window. Then rewards may be on their way that do not arrive, and their silence must not count. So the node
//! cancels decisions: those made since `click_delay` before the last time whose rewards have all arrived, and no others,
//! because what is missing of older ones is few rewards of all arms alike. It does so again and again while the outage
//! lasts, and once after. A *break* (a node is gone or comes back, or the store goes back) has the same effect once. Only beats decide, and
//! no reward has an effect on them.
//!
//! A store that has gone back may have forgotten a node that is cut off, so nobody can see that it is late. Rewards
//! come to it until it is unready, so the outage lasts as long. The same is true of a node whose number another process
//! has taken: its lease was shorter than 30 delays if the store's clock has jumped.

use super::command::{RoundReply, Version};
use std::collections::VecDeque;

/// A point in time: by the host's clock in milliseconds, and by the bandit's in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    pub at: u64,
    pub ticks: u64,
}

/// How old the last good round must be for an outage, besides a delay: an eighth of the window.
#[derive(Clone, Copy, Debug, Default)]
pub enum OutageAfter {
    /// There is none: silence does not count, or counts whatever the fleet does.
    #[default]
    Never,
    /// In milliseconds, for a clock of the caller's. (The bandit's own time stands still while its process does.)
    Milliseconds(u64),
    /// In decisions.
    Decisions(u64),
}

/// A round that ended well: when it began, and the number of its beat.
struct GoodRound {
    began: Moment,
    beats: u64,
}

/// A node that is late: when this node had first heard of its last beat, or later; and since when something may be missing.
struct LateNode {
    since: Moment,
    from: u64,
}

/// What this node knows of the others from its rounds.
#[derive(Default)]
pub struct Membership {
    delay: u64,
    outage_after: OutageAfter,
    rounds: VecDeque<GoodRound>,
    late: Vec<LateNode>,
    breaks: Option<u64>,
    /// When the first round after the store had gone back began.
    forgot: Option<Moment>,
    /// When this node had first heard of the last beat of a node whose number another process has, or later.
    taken: Option<Moment>,
    /// Whether this node may join. Each other node has had a round since the first one of this node, so it accepts rewards
    /// for this node's decisions; but for those that have not beaten for two delays: a round that is lost costs one.
    pub is_known: bool,
    /// When the last round that ended well began.
    pub returned: Moment,
    pub nodes: u64,
    pub news: u64,
    pub stored: Version,
    /// Since which tick something may be missing, while an outage lasts.
    pub outage: Option<u64>,
    /// When it was last looked at.
    looked: u64,
    pub outages: u64,
}

/// A node beats so often in a delay.
pub const BEATS: u64 = 8;
/// A node is gone after so many delays without a beat, and unready after the second number.
pub const UNTIL_GONE: u64 = 30;
pub const UNTIL_UNREADY: u64 = 10;

impl Membership {
    pub fn new(delay: u64, outage_after: OutageAfter, now: Moment) -> Membership {
        Membership { delay, outage_after, returned: now, looked: now.at, ..Membership::default() }
    }

    /// The number of the last beat; and the beats up to which a node is late, and gone. Before this node has joined, each is
    /// late that has not beaten since the first round.
    pub fn limits(&self, now: Moment) -> (u64, u64, u64) {
        let before = |age| {
            let old = self.rounds.iter().rev().find(|round| now.at - round.began.at > age);
            old.map_or(0, |round| round.beats)
        };
        // After a pause this node must call nobody late by a time in which it did not beat itself.
        let last = self.rounds.back().filter(|round| now.at - round.began.at <= self.delay);
        let first = self.rounds.front().map_or(0, |round| round.beats);
        let late = if self.is_known { before(self.delay) } else { first };
        let (late, gone) = last.map_or((0, 0), |_| (late, before(UNTIL_GONE * self.delay)));
        (self.rounds.back().map_or(0, |round| round.beats), late, gone)
    }

    /// The last tick at which this node knows that a beat was not yet made.
    fn before(&self, beat: u64) -> u64 {
        self.rounds.iter().rev().find(|round| round.beats <= beat).map_or(0, |round| round.began.ticks)
    }

    /// Takes over the reply to the round that began then. Returns since which tick a break may have lost something.
    pub fn heard(&mut self, began: Moment, reply: &RoundReply) -> Option<u64> {
        let (last, late, _) = self.limits(began);
        let have_beaten = reply.nodes <= 1 || late > 0 && reply.late.is_empty();
        let waited = self.rounds.front().map_or(0, |first| began.at - first.began.at);
        self.is_known |= have_beaten || waited > 2 * self.delay;
        if reply.before < last {
            self.forgot = Some(began);
        }
        let breaks = self.breaks.replace(reply.breaks);
        if let Some(breaks) = breaks.filter(|breaks| *breaks != reply.breaks) {
            let heard = self.rounds.iter().find(|round| breaks + 1 == reply.breaks && round.beats >= reply.broken);
            self.taken = Some(heard.map_or(began, |round| round.began));
        }
        let broken = match breaks {
            None => None,
            // The store has forgotten a beat of this node. Its count of breaks may be another one than it was, and look
            // the same.
            Some(_) if reply.before < last => Some(0),
            Some(breaks) if breaks == reply.breaks => None,
            Some(breaks) if breaks + 1 == reply.breaks => Some(self.before(reply.broken)),
            Some(_) => Some(0),
        };
        while self.rounds.back().is_some_and(|round| round.beats >= reply.beats) {
            self.rounds.pop_back(); // of a time that the store has forgotten
        }
        self.rounds.push_back(GoodRound { began, beats: reply.beats });
        while self.rounds.get(1).is_some_and(|round| began.at - round.began.at > (UNTIL_GONE + 2) * self.delay) {
            self.rounds.pop_front();
        }
        let late = reply.late.iter().map(|&(_, beat)| {
            let since = self.rounds.iter().find(|round| round.beats >= beat).map_or(began, |round| round.began);
            LateNode { since, from: self.before(beat) }
        });
        self.late = late.collect();
        (self.nodes, self.news, self.stored) = (reply.nodes, reply.news, reply.stored);
        self.returned = began;
        broken
    }

    /// Whether the last round has shown that the store had gone back.
    pub fn went_back(&self) -> bool {
        self.forgot.is_some_and(|forgot| forgot.at == self.returned.at)
    }

    /// A tick at which every reward that had been reported is in the last round that ended well: a node that is not late
    /// has beaten within a delay before it.
    fn sent(&self) -> u64 {
        let round = self.rounds.iter().rev().find(|round| self.returned.at - round.began.at >= self.delay);
        let sent = round.map_or(0, |round| round.began.ticks);
        self.late.iter().map(|late| late.from).fold(sent, u64::min)
    }

    /// Looks for an outage. Returns since which tick something may be missing, while one lasts and once after.
    pub fn look(&mut self, now: Moment) -> Option<u64> {
        let is_old = |since: Moment| {
            let age = now.at - since.at;
            let is_long = match self.outage_after {
                OutageAfter::Never => false,
                OutageAfter::Milliseconds(most) => age > most,
                OutageAfter::Decisions(most) => now.ticks.saturating_sub(since.ticks) > most,
            };
            age > self.delay && is_long
        };
        let own = is_old(self.returned).then(|| self.sent());
        let others = self.late.iter().filter(|late| is_old(late.since)).map(|late| late.from);
        // The round began up to a delay before the store went back.
        let may_come = |forgot: &Moment| now.at - forgot.at <= (UNTIL_UNREADY + 1) * self.delay;
        let is_endless = matches!(self.outage_after, OutageAfter::Never);
        let unheard = [self.forgot, self.taken].into_iter().flatten();
        let unheard = unheard.filter(|since| !is_endless && may_come(since)).map(|since| since.ticks);
        let from = others.chain(own).chain(unheard).min();
        let Some(from) = from else { return self.outage.take() };
        let lasts = self.outage.is_some();
        if lasts && now.at < self.looked + self.delay / BEATS {
            return None;
        }
        self.outages += u64::from(!lasts);
        self.looked = now.at;
        self.outage = Some(self.outage.map_or(from, |before| before.min(from)));
        self.outage
    }
}
