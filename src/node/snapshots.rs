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

    pub fn put(&mut self, stored: Version) -> Result<()> {
        self.exchange.done();
        let Some((version, releases, bytes)) = self.exchange.putting.take() else { return Ok(()) };
        if stored != version {
            self.exchange.put_now = true; // the store has a later one, which this process did not put
            self.exchange.version = self.exchange.version.max(stored);
            return Ok(());
        }
        (self.exchange.releases, self.exchange.unputs) = (Some(releases), 0);
        let confirmed = Some((version, self.now, bytes));
        match self.exchange.settling {
            None => self.exchange.settling = confirmed,
            Some(_) => self.exchange.later = confirmed,
        }
        Ok(())
    }

    /// The gate: the bandit learns on the strength of a snapshot that the store still has when a failover can no longer
    /// go back behind it.
    pub fn settle(&mut self, bandit: &S::Bandit) -> Result<()> {
        let Some((version, confirmed, bytes)) = &self.exchange.settling else { return Ok(()) };
        if self.membership.stored < *version {
            self.exchange.settling = None;
            self.exchange.later = None;
            self.exchange.put_now = true;
        } else if self.now - confirmed >= self.options.settle {
            bandit.stored(bytes)?;
            self.exchange.has_settled = true;
            self.exchange.settling = self.exchange.later.take();
        }
        Ok(())
    }
}
