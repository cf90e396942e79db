//! Which snapshot a node continues from, when it puts one, and when its bandit may learn on the strength of it.

use super::command::Version;
use super::exchange::{Exchange, UNTIL_PUT};
use super::machine::Core;
use super::{BanditSource, FleetBandit};
use crate::error::{Error, Result};

impl<S: BanditSource> Core<S> {
    /// The one of two snapshots that counts more. They must be of one handle: the node cannot continue from both.
    pub fn newest<'a>(&self, number: u16, file: Option<&'a [u8]>, stored: &'a [u8]) -> Result<Option<&'a [u8]>> {
        let stored = Some(stored).filter(|stored| !stored.is_empty());
        let Some(file) = file else { return Ok(stored) };
        let (origin, counts) = self.source.counts(number, file)?;
        let Some(stored) = stored else { return Ok(Some(file)) };
        let (stored_origin, stored_counts) = self.source.counts(number, stored)?;
        if origin != stored_origin {
            return Err(Error::refused("snapshot", format_args!("must be of the handle whose snapshot the store has")));
        }
        Ok(Some(if counts > stored_counts { file } else { stored }))
    }

    /// Nodes that release nothing put only what a process that continues from it needs, and so seldom.
    pub fn put_is_due(&mut self, bandit: &S::Bandit) -> Result<bool> {
        self.exchange.unputs += 1;
        let Exchange { unputs, releases, put_now, .. } = &self.exchange;
        let is_seldom = self.has_key() && !self.leads() && *releases == Some(bandit.releases()?);
        Ok(*put_now || !is_seldom || *unputs >= UNTIL_PUT)
    }

    /// The reply to a PUT.
    pub fn put(&mut self, stored: Version) {
        let Some(Putting { version, releases, begins, bytes }) = self.exchange.putting.take() else {
            return self.exchange.done();
        };
        if stored != version {
            // The store has a later one, which this process did not put: once more.
            self.exchange.version = self.exchange.version.max(stored);
            (self.exchange.put_now, self.exchange.has_begun) = (true, self.exchange.has_begun || begins);
            return;
        }
        self.exchange.done();
        (self.exchange.releases, self.exchange.unputs) = (Some(releases), 0);
        if begins {
            self.exchange.settling.push_back(Settling { version, since: self.now, is_shown: false, bytes });
        }
    }

    /// A period has begun: the bandit learns from people once a snapshot that counts it has settled.
    pub fn begin_period(&mut self) {
        (self.exchange.put_now, self.exchange.has_begun) = (true, true);
    }

    /// Whether a snapshot that counts the bandit's period has settled.
    pub fn has_settled(&self) -> bool {
        let Exchange { putting, has_begun, settling, .. } = &self.exchange;
        let is_put = putting.as_ref().is_none_or(|one| !one.begins);
        self.member.incarnation > 0 && is_put && !has_begun && settling.is_empty()
    }

    /// The gate, after each round: the bandit learns on the strength of a snapshot that the store still has when a
    /// failover can no longer go back behind it. Time runs from the first round that shows it; and from none, once the
    /// store has gone back, because then it had the snapshot for less time than it seems.
    pub fn settle(&mut self, bandit: &S::Bandit) -> Result<()> {
        let (began, stored, settle) = (self.began.at, self.membership.stored, self.options.settle);
        let is_lost = |one: &Settling| began >= one.since && stored < one.version;
        if self.membership.went_back() || self.exchange.settling.iter().any(is_lost) {
            // The others may not have read its last release, and the store has forgotten it: it is news once more.
            (self.exchange.put_now, self.exchange.releases) = (true, None);
            self.exchange.until_offer = 1; // it has forgotten the receivers, too
            if !self.exchange.settling.is_empty() {
                self.exchange.settling.clear();
                self.begin_period();
            }
        }
        for one in self.exchange.settling.iter_mut().filter(|one| !one.is_shown && began >= one.since) {
            (one.is_shown, one.since) = (true, self.now);
        }
        let has_settled = |one: &Settling| one.is_shown && began >= one.since + settle;
        while self.exchange.settling.front().is_some_and(has_settled) {
            let settled = self.exchange.settling.pop_front();
            settled.map_or(Ok(()), |one| bandit.stored(&one.bytes))?;
        }
        Ok(())
    }
}

/// A snapshot on its way to the store.
pub struct Putting {
    pub version: Version,
    pub releases: u64,
    /// It is the first one that counts a period.
    pub begins: bool,
    pub bytes: Vec<u8>,
}

/// The first snapshot that counts a period, in the store.
pub struct Settling {
    version: Version,
    /// When the store confirmed it, or a round showed it first.
    since: u64,
    is_shown: bool,
    bytes: Vec<u8>,
}
