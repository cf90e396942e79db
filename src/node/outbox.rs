//! Rewards that wait to be sent to the nodes that decided.

use crate::error::{Error, Result};
use std::collections::VecDeque;

/// A reward for a decision of another node.
#[derive(Clone, Copy)]
pub struct Waiting {
    pub to: u16,
    pub ticket: u64,
    pub reward: f64,
}

/// The rewards that wait, in the order in which they came. Each has a sequence, so that a round that runs twice queues
/// none twice. All memory is reserved at first: adding a reward allocates nothing.
pub struct Outbox {
    rewards: VecDeque<Waiting>,
    /// The sequence of the first of them.
    first: u64,
    /// How many a round sends: half as many after each that fails.
    batch: usize,
    /// A bit for each number that a process ever had. An invented ticket must not create a queue in the store.
    numbers: Vec<u64>,
    /// Those that found no place.
    pub lost: u64,
}

impl Outbox {
    /// The most rewards in a round.
    const MOST: usize = 1000;

    pub fn new(places: usize) -> Result<Outbox> {
        let (mut rewards, mut numbers) = (VecDeque::new(), Vec::new());
        rewards.try_reserve_exact(places).map_err(|_| Error::NoMemory)?;
        numbers.try_reserve_exact(1 << 10).map_err(|_| Error::NoMemory)?;
        numbers.resize(1 << 10, 0);
        Ok(Outbox { rewards, first: 1, batch: Self::MOST, numbers, lost: 0 })
    }

    pub fn add(&mut self, reward: Waiting) -> Result<()> {
        if self.numbers[usize::from(reward.to) / 64] >> (reward.to % 64) & 1 == 0 {
            return Err(Error::UnknownTicket);
        }
        if self.rewards.len() == self.rewards.capacity() {
            self.lost += 1;
            let (number, most) = (self.rewards.len() as u64 + 1, self.rewards.len() as u64);
            return Err(Error::Full { what: "reward that waits", number, limit: "the queue", most });
        }
        self.rewards.push_back(reward);
        Ok(())
    }

    pub fn know(&mut self, number: u16) {
        self.numbers[usize::from(number) / 64] |= 1 << (number % 64);
    }

    /// How many numbers are known.
    pub fn known(&self) -> u64 {
        self.numbers.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// How many the store has accepted.
    pub fn sent(&self) -> u64 {
        self.first - 1
    }

    pub fn len(&self) -> usize {
        self.rewards.len()
    }

    /// The next rewards to send, and the sequence of the first.
    pub fn batch(&self) -> (u64, Vec<Waiting>) {
        (self.first, self.rewards.iter().take(self.batch).copied().collect())
    }

    /// The store has accepted the rewards up to this sequence.
    pub fn accepted(&mut self, sequence: u64) {
        let done = (sequence + 1).saturating_sub(self.first).min(self.rewards.len() as u64);
        self.rewards.drain(..done as usize);
        self.first += done;
        self.batch = (2 * self.batch).min(Self::MOST);
    }

    pub fn failed(&mut self) {
        self.batch = (self.batch / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_take_the_places_that_were_reserved() {
        let mut outbox = Outbox::new(100).unwrap();
        let reward = |ticket| Waiting { to: 7, ticket, reward: 1.0 };
        assert_eq!(outbox.add(reward(0)), Err(Error::UnknownTicket));
        outbox.know(7);
        let places = outbox.rewards.capacity();
        for ticket in 0..5 * places as u64 {
            let is_full = outbox.len() == places;
            assert_eq!(outbox.add(reward(ticket)).is_err(), is_full);
            if ticket % 3 == 0 {
                outbox.accepted(outbox.first); // the first one
            }
        }
        assert_eq!((outbox.rewards.capacity(), outbox.known()), (places, 1));
        assert!(outbox.lost > 0 && outbox.len() > 0);
    }

    /// A round that fails is sent again with half as many; what a late reply says was accepted is not.
    #[test]
    fn a_reward_keeps_its_sequence() {
        let mut outbox = Outbox::new(10).unwrap();
        outbox.know(7);
        (0..10).for_each(|ticket| outbox.add(Waiting { to: 7, ticket, reward: 1.0 }).unwrap());
        let sent = |outbox: &Outbox| {
            let (first, rewards) = outbox.batch();
            (first, rewards.iter().map(|reward| reward.ticket).collect::<Vec<_>>())
        };
        (0..9).for_each(|_| outbox.failed());
        assert_eq!(sent(&outbox), (1, vec![0]));
        outbox.accepted(4);
        assert_eq!(sent(&outbox), (5, vec![4, 5]));
        outbox.accepted(3);
        assert_eq!(sent(&outbox), (5, vec![4, 5, 6, 7]));
    }
}
