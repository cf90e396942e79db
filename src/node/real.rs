//! The bandit of a node, and the rewards that travel to it: sealed if the fleet has a key.

use super::{BanditSource, FleetBandit, NodeOptions};
use crate::bandit::Bandit;
use crate::config::{Clock, Config};
use crate::contribution::FleetKey;
use crate::error::{Error, Result};
use crate::policy::Algorithm;
use crate::random::{Random, Seed};
use std::marker::PhantomData;

/// Functions that are those of [`Bandit`].
macro_rules! as_bandit {
    ($(fn $name:ident($($given:ident: $type:ty),*) -> $out:ty;)*) => {$(
        fn $name(&self $(, $given: $type)*) -> $out {
            self.as_ref().$name($($given),*)
        }
    )*};
}

impl<B: AsRef<Bandit>> FleetBandit for B {
    as_bandit! {
        fn update_part(ticket: u64, part: u32, value: f64) -> Result<()>;
        fn ticks() -> Result<u64>;
        fn next_period() -> Result<()>;
        fn cancel_since(from: u64) -> Result<()>;
        fn snapshot() -> Result<Vec<u8>>;
        fn stored(snapshot: &[u8]) -> Result<()>;
        fn merge(snapshot: &[u8]) -> Result<()>;
        fn lead() -> Result<u64>;
        fn set_handles(handles: u32) -> Result<()>;
        fn contribution(generation: u64) -> Result<Vec<u8>>;
        fn combine(contribution: &[u8]) -> Result<()>;
        fn skip(ticks: u64) -> Result<()>;
        fn receiver() -> Result<u64>;
        fn suspend(receiver: u64) -> Result<Vec<u8>>;
    }

    fn releases(&self) -> Result<u64> {
        Ok(self.as_ref().report()?.phase.into())
    }

    fn pending(&self) -> Result<u64> {
        Ok(self.as_ref().report()?.counts.pending())
    }

    fn state_length(&self) -> Result<u64> {
        match self.as_ref().suspend_within(0, 0) {
            Err(Error::BufferTooSmall { needed, .. }) => Ok(needed as u64),
            other => other.map(|state| state.len() as u64),
        }
    }

    fn seal(&self, message: &[u8]) -> Result<Vec<u8>> {
        self.as_ref().seal(message).or_else(|error| match error {
            Error::Unsupported { .. } => Ok(message.to_vec()),
            error => Err(error),
        })
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>> {
        match self.as_ref().open(sealed) {
            Err(Error::Unsupported { .. }) => Ok(sealed.to_vec()),
            opened => opened.map(|text| text.to_vec()),
        }
    }
}

/// Makes the bandits of nodes, as `B`.
pub struct Bandits<B = Bandit> {
    algorithm: Algorithm,
    config: Config,
    random: Random,
    made: PhantomData<fn() -> B>,
}

impl<B> Bandits<B> {
    /// Bandits of this policy and configuration, but for their numbers.
    ///
    /// # Errors
    /// As `Bandit::new`; `Unsupported` for a policy that cannot merge.
    pub fn new(algorithm: Algorithm, config: Config) -> Result<Bandits<B>> {
        // What is wrong with a configuration is said now, and not when the store has replied.
        let trial = Config { node: 1, budget: None, budget_periods: 0, ..config.clone() };
        let trial = Bandit::new(algorithm, &trial)?;
        trial.merge(&trial.snapshot()?)?;
        Ok(Bandits { algorithm, config, random: Seed::new(None)?.stream(), made: PhantomData })
    }

    /// The options of a node with such a bandit. `name` is the fleet's.
    ///
    /// # Errors
    /// `InvalidConfig` for a number above 65,535; `NoMemory`.
    pub fn options(&self, name: &str) -> Result<NodeOptions> {
        let Config { node, reward_window, clock, fleet_key, .. } = &self.config;
        let number = u16::try_from(*node).map_err(|_| Error::config("node", "must be in 0..=65535", *node))?;
        Ok(NodeOptions {
            number,
            tick: u64::from(*clock == Clock::Caller),
            fleet: fleet_key.as_ref().map_or(Ok(0), FleetKey::id)?,
            ..NodeOptions::new(name, (*reward_window).into())
        })
    }
}

impl<B: FleetBandit + From<Bandit>> BanditSource for Bandits<B> {
    type Bandit = B;

    fn bandit(&mut self, number: u16, snapshot: Option<&[u8]>) -> Result<B> {
        self.config.node = number.into();
        let bandit = match snapshot {
            None => Bandit::new(self.algorithm, &self.config),
            Some(snapshot) => Bandit::restore_as(self.algorithm, &self.config, snapshot),
        };
        Ok(bandit?.awaits_store()?.into())
    }

    fn counts(&self, number: u16, snapshot: &[u8]) -> Result<(u64, [u64; 3])> {
        Bandit::counts_of(snapshot, number.into())
    }

    fn resume(&mut self, number: u16, state: &[u8]) -> Result<B> {
        // The budget of the node that has ended has the loss of these rewards.
        let config = Config { node: number.into(), budget: None, budget_periods: 0, ..self.config.clone() };
        Ok(Bandit::resume(Some(self.algorithm), &config, state)?.into())
    }

    fn draw(&mut self) -> u64 {
        self.random.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions at ticks 0 to 9, of which those since tick 6 are cancelled: the others keep their rewards.
    #[test]
    fn an_outage_cancels_what_was_made_since_then() {
        for clock in [Clock::Decisions, Clock::Caller] {
            let config = Config { reward_window: 20, clock, ..Config::new(3, 1.0) };
            let bandit = Bandit::new(Algorithm::RECOMMENDED, &config).unwrap();
            let mut tickets = Vec::new();
            for tick in 0..10 {
                if clock == Clock::Caller {
                    bandit.advance(1_700_000_000_000 + tick).unwrap();
                }
                tickets.push((bandit.ticks().unwrap(), bandit.select().unwrap().ticket));
            }
            assert_eq!(tickets[9].0, tickets[0].0 + 9);
            bandit.cancel_since(tickets[6].0).unwrap();
            assert_eq!(bandit.report().unwrap().counts.cancelled, 4);
            for (i, (_, ticket)) in tickets.into_iter().enumerate() {
                assert_eq!(bandit.update(ticket, 1.0).is_ok(), i < 6, "{i}");
            }
            bandit.cancel_since(1000).unwrap();
            assert_eq!(bandit.report().unwrap().counts.cancelled, 4);
        }
    }
}
