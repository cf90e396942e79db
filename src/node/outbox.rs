//! Rewards that wait to be sent to the nodes that decided.
//!
//! Without a send rate each reward is a message, and all that wait leave with the next rounds.
//!
//! With a send rate the store must not see whether rewards wait, and no reward may decide what becomes of another. So
//! each round makes one message of one length for each number that is held, with the rewards that came since the last
//! round, and zeros in the other slots. If rewards waited in a queue, one more would delay all that come after it.
//! Those for which a message has no slot are lost: one reward more loses one other at most. A round after a pause, such
//! as that of a store which did not reply, makes a message for each eighth of a delay that has passed. Messages that
//! the store has not accepted are sent again, until they are too old. How many there are depends on time and on numbers
//! alone.

use super::command::Outgoing;
use super::membership::BEATS;
use crate::error::{Error, Result};
use crate::memory::try_with_capacity;
use std::collections::{BTreeMap, VecDeque};

/// A part of the reward of a decision; without parts it is part 0.
#[derive(Clone, Copy)]
pub struct PartReward {
    pub ticket: u64,
    pub part: u32,
    pub value: f64,
}

/// The size of a reward in a message: the ticket, the part, and the bits of the value, in big-endian order.
const SIZE: usize = 17;

impl PartReward {
    /// The number of the node that decided.
    pub fn number(&self) -> u16 {
        (self.ticket >> 48) as u16
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.ticket.to_be_bytes());
        to.push(self.part as u8);
        to.extend(self.value.to_bits().to_be_bytes());
    }

    /// The rewards in a message.
    pub fn read(text: &[u8]) -> impl Iterator<Item = PartReward> {
        let (rows, _) = text.as_chunks::<SIZE>();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let row = move |row: &[u8; SIZE]| PartReward {
            ticket: number(&row[..8]),
            part: row[8].into(),
            value: f64::from_bits(number(&row[9..])),
        };
        rows.iter().map(row).filter(|reward| reward.ticket != 0)
    }
}

/// A send rate.
#[derive(Clone, Copy)]
pub struct Pace {
    /// Rewards in each message.
    pub slots: usize,
    /// The time between two rounds.
    pub every: u64,
    /// A message waits so long at most; and a number gets messages so long after it was held, because a store whose
    /// clock has jumped, or which went back, says too late that it is.
    pub longest: u64,
    pub grace: u64,
}

/// A message that waits, with a send rate: the rewards for one number that came since a round.
struct PaddedMessage {
    to: u16,
    since: u64,
    rewards: usize,
    text: Vec<u8>,
}

/// The rewards for one number that came since the last round, and when it was held last.
struct Unsent {
    rewards: Vec<PartReward>,
    held: u64,
}

/// The rewards that wait. Each message has a sequence, so that a round that runs twice queues none twice. All memory is
/// reserved before: adding a reward allocates nothing.
pub struct Outbox {
    places: usize,
    /// Without a send rate, the rewards in the order in which they came.
    rewards: VecDeque<PartReward>,
    pace: Option<Pace>,
    /// With one, what came since the last round for each number that is held; and the messages of earlier rounds.
    lanes: BTreeMap<u16, Unsent>,
    packed: VecDeque<PaddedMessage>,
    /// The sequence of the first message.
    first: u64,
    /// How many a round sends: half as many after each that fails.
    batch: usize,
    most: usize,
    /// A bit for each number that a process ever had. An invented ticket must not create a queue in the store.
    numbers: Vec<u64>,
    /// Rewards that the store has accepted, and those that found no place.
    pub sent: u64,
    pub lost: u64,
}

impl Outbox {
    /// The most messages in a round, and their size with a send rate.
    const MOST: usize = 1000;
    const LARGEST: usize = 4 << 20;

    pub fn new(places: usize, pace: Option<Pace>) -> Result<Outbox> {
        // With a send rate, of each number: as many as a round after a delay sends.
        let places = pace.map_or(places, |pace| BEATS as usize * pace.slots);
        let most = pace.map_or(Self::MOST, |pace| (Self::LARGEST / (pace.slots * SIZE)).clamp(1, Self::MOST));
        let rewards = try_with_capacity(if pace.is_none() { places } else { 0 })?.into();
        let mut numbers = try_with_capacity(1 << 10)?;
        numbers.resize(1 << 10, 0);
        let (lanes, packed) = (BTreeMap::new(), VecDeque::new());
        Ok(Outbox { places, rewards, pace, lanes, packed, first: 1, batch: most, most, numbers, sent: 0, lost: 0 })
    }

    pub fn add(&mut self, reward: PartReward) -> Result<()> {
        let to = reward.number();
        if self.numbers[usize::from(to) / 64] >> (to % 64) & 1 == 0 {
            return Err(Error::UnknownTicket);
        }
        let lane = self.lanes.get_mut(&to);
        let (waiting, most) = match self.pace {
            None => (self.rewards.len(), self.places),
            Some(_) => (lane.as_ref().map_or(0, |lane| lane.rewards.len()), lane.as_ref().map_or(0, |_| self.places)),
        };
        if waiting >= most {
            self.lost += 1;
            let limit = if self.pace.is_some() { "the next message" } else { "the queue" };
            return Err(Error::Full {
                what: "reward that waits",
                number: waiting as u64 + 1,
                limit,
                most: most as u64,
            });
        }
        let is_same = |other: &PartReward| (other.ticket, other.part) == (reward.ticket, reward.part);
        match lane {
            None => self.rewards.push_back(reward),
            // The node would refuse it, and here it must not take another one's slot.
            Some(lane) if lane.rewards.iter().any(is_same) => {}
            Some(lane) => lane.rewards.push(reward),
        }
        Ok(())
    }

    /// Some process has or had these numbers. With a send rate, they are those that are held.
    pub fn know(&mut self, numbers: &[u16], now: u64) -> Result<()> {
        for number in numbers {
            self.numbers[usize::from(*number) / 64] |= 1 << (number % 64);
            if let Some(lane) = self.lanes.get_mut(number) {
                lane.held = now;
            } else if self.pace.is_some() {
                let rewards = try_with_capacity(self.places)?;
                self.lanes.insert(*number, Unsent { rewards, held: now });
            }
        }
        let (lost, grace) = (&mut self.lost, self.pace.map_or(0, |pace| pace.grace));
        self.lanes.retain(|_, lane| {
            let stays = now - lane.held <= grace;
            *lost += if stays { 0 } else { lane.rewards.len() as u64 };
            stays
        });
        Ok(())
    }

    /// How many numbers are known.
    pub fn known(&self) -> u64 {
        self.numbers.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// How many rewards wait.
    pub fn len(&self) -> usize {
        let packed: usize = self.packed.iter().map(|message| message.rewards).sum();
        self.rewards.len() + packed + self.lanes.values().map(|lane| lane.rewards.len()).sum::<usize>()
    }

    /// Whether rewards wait that came until then; with a send rate, whether messages do.
    pub fn waits(&self, until: u64, last_round: u64) -> bool {
        let are_packed = self.packed.front().is_none_or(|message| message.since > until) && last_round > until;
        if self.pace.is_some() { !are_packed } else { !self.rewards.is_empty() }
    }

    /// With a send rate, makes the messages of a round. Returns the rewards for this node's own number.
    pub fn pack(&mut self, own: u16, last_round: u64, now: u64) -> Vec<PartReward> {
        let Some(Pace { slots, every, longest, .. }) = self.pace else { return Vec::new() };
        while self.packed.front().is_some_and(|message| now - message.since > longest) {
            self.lost += self.packed.pop_front().map_or(0, |message| message.rewards as u64);
            self.first += 1;
        }
        let rounds = ((now - last_round + every / 2) / every).clamp(1, BEATS);
        let mut ours = Vec::new();
        for (&to, lane) in &mut self.lanes {
            if to == own {
                ours.append(&mut lane.rewards);
                continue;
            }
            let mut rewards = lane.rewards.drain(..);
            for _ in 0..rounds {
                let mut text = Vec::with_capacity(slots * SIZE);
                rewards.by_ref().take(slots).for_each(|reward| reward.write(&mut text));
                let count = text.len() / SIZE;
                text.resize(slots * SIZE, 0);
                self.packed.push_back(PaddedMessage { to, since: last_round, rewards: count, text });
            }
            self.lost += rewards.count() as u64;
        }
        ours
    }

    /// The next messages to send, and the sequence of the first.
    pub fn batch(&self) -> (u64, Vec<Outgoing>) {
        let one = |reward: &PartReward| {
            let mut text = Vec::with_capacity(SIZE);
            reward.write(&mut text);
            (reward.number(), text)
        };
        let single = self.rewards.iter().map(one);
        let packed = self.packed.iter().map(|message| (message.to, message.text.clone()));
        (self.first, single.chain(packed).take(self.batch).collect())
    }

    /// The store has accepted the messages up to this sequence.
    pub fn accepted(&mut self, sequence: u64) {
        let messages = self.rewards.len() + self.packed.len(); // one of them is empty
        let done = (sequence + 1).saturating_sub(self.first).min(messages as u64);
        let packed = self.packed.drain(..(done as usize).min(self.packed.len()));
        self.sent += packed.map(|message| message.rewards as u64).sum::<u64>();
        self.sent += self.rewards.drain(..(done as usize).min(self.rewards.len())).count() as u64;
        self.first += done;
        self.batch = (2 * self.batch).min(self.most);
    }

    pub fn failed(&mut self) {
        self.batch = (self.batch / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(to: u16, decision: u64) -> PartReward {
        PartReward { ticket: u64::from(to) << 48 | decision, part: 0, value: 1.0 }
    }

    /// The decisions whose rewards are in a message.
    fn decisions(text: &[u8]) -> Vec<u64> {
        PartReward::read(text).map(|reward| reward.ticket << 16 >> 16).collect()
    }

    #[test]
    fn rewards_take_the_places_that_were_reserved() {
        let mut outbox = Outbox::new(100, None).unwrap();
        let reward = |ticket| waiting(7, ticket);
        assert_eq!(outbox.add(reward(0)), Err(Error::UnknownTicket));
        outbox.know(&[7], 0).unwrap();
        let reserved = outbox.rewards.capacity();
        for ticket in 0..500 {
            let is_full = outbox.len() == 100;
            assert_eq!(outbox.add(reward(ticket)).is_err(), is_full);
            if ticket % 3 == 0 {
                outbox.accepted(outbox.first); // the first one
            }
        }
        assert_eq!((outbox.rewards.capacity(), outbox.known()), (reserved, 1));
        assert!(outbox.lost > 0 && outbox.len() > 0);
    }

    /// A round that fails is sent again with half as many; what a late reply says was accepted is not.
    #[test]
    fn a_reward_keeps_its_sequence() {
        let mut outbox = Outbox::new(10, None).unwrap();
        outbox.know(&[7], 0).unwrap();
        (0..10).for_each(|ticket| outbox.add(waiting(7, ticket + 1)).unwrap());
        let sent = |outbox: &Outbox| {
            let (first, rewards) = outbox.batch();
            (first, rewards.iter().flat_map(|row| decisions(&row.1)).collect::<Vec<_>>())
        };
        (0..9).for_each(|_| outbox.failed());
        assert_eq!(sent(&outbox), (1, vec![1]));
        outbox.accepted(4);
        assert_eq!(sent(&outbox), (5, vec![5, 6]));
        outbox.accepted(3);
        assert_eq!(sent(&outbox), (5, vec![5, 6, 7, 8]));
    }

    const PACE: Pace = Pace { slots: 3, every: 10, longest: 1000, grace: 100 };

    /// With a send rate one reward more changes no other one's message, and loses one other at most.
    #[test]
    fn no_reward_moves_another() {
        let mut coins = crate::random::Seed::new(Some([3; 32])).unwrap().stream();
        let mut below = |most: u64| coins.next_u64() % most;
        let mut all_lost = 0;
        for _ in 0..200 {
            // When each comes: the round, and its number; and how long each round takes.
            let rewards: Vec<_> = (0..60).map(|ticket| (below(8), 2 + below(3) as u16, ticket + 1)).collect();
            let (times, fails): (Vec<_>, Vec<_>) = (0..8).map(|_| (10 * (1 + below(3)), below(3) == 0)).unzip();
            let sent = |without: u64| {
                let mut outbox = Outbox::new(0, Some(PACE)).unwrap();
                outbox.know(&[1, 2, 3, 4], 0).unwrap();
                let (mut now, mut commands) = (0, Vec::new());
                for (i, time) in times.iter().enumerate() {
                    for (_, to, ticket) in rewards.iter().filter(|one| one.0 == i as u64 && one.2 != without) {
                        _ = outbox.add(waiting(*to, *ticket));
                    }
                    outbox.pack(1, now, now + time);
                    now += time;
                    let (first, messages) = outbox.batch();
                    commands.extend(messages.iter().map(|(to, text)| (i, *to, text.len(), decisions(text))));
                    if fails[i] { outbox.failed() } else { outbox.accepted(first + messages.len() as u64 - 1) }
                }
                (commands, outbox.lost)
            };
            let (all, lost) = sent(0);
            all_lost += lost;
            assert!(all.iter().all(|message| message.2 == 3 * SIZE));
            let (less, lost_less) = sent(1 + below(60));
            let form = |all: &[(usize, u16, usize, Vec<u64>)]| all.iter().map(|one| (one.0, one.1)).collect::<Vec<_>>();
            assert_eq!(form(&all), form(&less));
            assert!(lost_less == lost || lost_less + 1 == lost);
            // In each command, to each number: who is in one of the two only.
            for place in form(&all) {
                let of = |all: &[(usize, u16, usize, Vec<u64>)]| -> std::collections::BTreeSet<u64> {
                    all.iter().filter(|one| (one.0, one.1) == place).flat_map(|one| one.3.clone()).collect()
                };
                assert!(of(&all).symmetric_difference(&of(&less)).count() <= 2);
            }
        }
        assert!(all_lost > 0);
    }

    /// What waits for a number that nobody holds any more is lost, and so is what is too old. Nothing grows.
    #[test]
    fn what_finds_no_place_is_lost() {
        let mut outbox = Outbox::new(0, Some(PACE)).unwrap();
        outbox.know(&[1, 2, 3], 0).unwrap();
        for ticket in 1..=30 {
            assert_eq!(outbox.add(waiting(2, ticket)).is_ok(), ticket <= BEATS * 3);
        }
        assert_eq!((outbox.add(waiting(2, 1)).is_err(), outbox.add(waiting(3, 1))), (true, Ok(())));
        assert_eq!(outbox.add(waiting(3, 1)), Ok(()), "the same again");
        outbox.know(&[1, 2], 100).unwrap();
        assert_eq!(outbox.add(waiting(3, 1)), Ok(()), "it was held a while ago");
        outbox.know(&[1, 2], 101).unwrap();
        assert!(outbox.add(waiting(3, 2)).is_err());
        assert_eq!((outbox.len(), outbox.lost), (24, 9));
        assert!(outbox.waits(0, 0));
        outbox.add(waiting(1, 9)).unwrap();
        let own = outbox.pack(1, 0, 20);
        assert_eq!(
            (own[0].ticket, own.len(), outbox.len(), outbox.lost),
            (1 << 48 | 9, 1, 6, 27),
            "two messages of three"
        );
        outbox.accepted(1);
        assert!(outbox.waits(0, 20), "the second message");
        outbox.accepted(2);
        assert!(!outbox.waits(0, 20) && outbox.waits(20, 20));
        for round in 2..1000 {
            outbox.pack(1, 10 * round, 10 * (round + 1));
        }
        assert_eq!((outbox.len(), outbox.lost, outbox.packed.len()), (0, 27, 100));
        assert_eq!(outbox.batch().0, 1 + 1000 - 100);
    }
}
