//! The bandit of a node, and the rewards that travel to it: sealed if the fleet has a key.

use super::{BanditSource, FleetBandit};
use crate::bandit::Bandit;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::policy::Algorithm;
use crate::random::{Random, Seed};

impl FleetBandit for Bandit {
    fn update(&self, ticket: u64, reward: f64) -> Result<()> {
        Bandit::update(self, ticket, reward)
    }

    fn ticks(&self) -> Result<u64> {
        Bandit::ticks(self)
    }

    fn cancel_since(&self, from: u64) -> Result<()> {
        Bandit::cancel_since(self, from)
    }

    fn releases(&self) -> Result<u64> {
        Ok(self.report()?.phase.into())
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Bandit::snapshot(self)
    }

    fn stored(&self, snapshot: &[u8]) -> Result<()> {
        Bandit::stored(self, snapshot)
    }

    fn merge(&self, snapshot: &[u8]) -> Result<()> {
        Bandit::merge(self, snapshot)
    }

    fn lead(&self) -> Result<u64> {
        Bandit::lead(self)
    }

    fn set_handles(&self, handles: u32) -> Result<()> {
        Bandit::set_handles(self, handles)
    }

    fn contribution(&self, generation: u64) -> Result<Vec<u8>> {
        Bandit::contribution(self, generation)
    }

    fn combine(&self, contribution: &[u8]) -> Result<()> {
        Bandit::combine(self, contribution)
    }

    fn pending(&self) -> Result<u64> {
        Ok(self.report()?.counts.pending())
    }

    fn skip(&self, ticks: u64) -> Result<()> {
        Bandit::skip(self, ticks)
    }

    fn receiver(&self) -> Result<u64> {
        Bandit::receiver(self)
    }

    fn suspend(&self, receiver: u64) -> Result<Vec<u8>> {
        Bandit::suspend(self, receiver)
    }

    fn seal(&self, message: &[u8]) -> Result<Vec<u8>> {
        Bandit::seal(self, message).or_else(|error| match error {
            Error::Unsupported { .. } => Ok(message.to_vec()),
            error => Err(error),
        })
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>> {
        match Bandit::open(self, sealed) {
            Err(Error::Unsupported { .. }) => Ok(sealed.to_vec()),
            opened => opened.map(|text| text.to_vec()),
        }
    }
}

/// Makes the bandits of nodes.
pub struct Bandits {
    algorithm: Algorithm,
    config: Config,
    random: Random,
}

impl Bandits {
    /// Bandits of this policy and configuration, but for their numbers.
    ///
    /// # Errors
    /// `Entropy`.
    pub fn new(algorithm: Algorithm, config: Config) -> Result<Bandits> {
        Ok(Bandits { algorithm, config, random: Seed::new(None)?.stream() })
    }
}

impl BanditSource for Bandits {
    type Bandit = Bandit;

    fn bandit(&mut self, number: u16, snapshot: Option<&[u8]>) -> Result<Bandit> {
        self.config.node = number.into();
        match snapshot {
            None => Bandit::new(self.algorithm, &self.config),
            Some(snapshot) => Bandit::restore_as(self.algorithm, &self.config, snapshot),
        }
    }

    fn resume(&mut self, number: u16, state: &[u8]) -> Result<Bandit> {
        // The budget of the node that has ended has the loss of these rewards.
        let config = Config { node: number.into(), budget: None, budget_periods: 0, ..self.config.clone() };
        Bandit::resume(Some(self.algorithm), &config, state)
    }

    fn draw(&mut self) -> u64 {
        self.random.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Clock;

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
