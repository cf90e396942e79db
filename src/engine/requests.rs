//! Requests with several decisions, of whose rewards only a limited number may be clicks: rewards above the smallest
//! one.

use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::persist;
use crate::parts::Earned;
use crate::random::Random;
use std::ops::Range;

/// The decisions of the ring that belong to one request.
pub struct Requests {
    /// For each slot, whether its decision belongs to the same request as the one before.
    follows: WipedVec<bool>,
    /// Maximum number of clicks of a request that count.
    most: u32,
    coins: Random,
}

impl Requests {
    pub fn new(slots: usize, most: u32, coins: Random) -> Result<Requests> {
        Ok(Requests { follows: WipedVec::new(slots, |_| false)?, most, coins })
    }

    #[inline]
    pub fn follows(&self, sequence: u64) -> bool {
        self.follows[sequence as usize & (self.follows.len() - 1)]
    }

    #[inline]
    pub fn enter(&mut self, slot: usize, follows: bool) {
        self.follows[slot] = follows;
    }

    /// The end of the request that this decision is the first one of.
    pub fn end(&self, first: u64, issued: u64) -> u64 {
        (first + 1..issued).find(|&next| !self.follows(next)).unwrap_or(issued)
    }

    /// Draws which rewards of a request count, when its first decision is due, or the first one that did not expire. If it
    /// has more than `most` clicks, that many are drawn evenly, and the others become the smallest reward. Each decision
    /// uses one coin, whatever its reward. A coin may use one more word of the stream, by rejection, and so shift later
    /// coins: [`crate::privacy::slates`] explains why that reveals nothing.
    pub fn draw(&mut self, held: &mut [Earned], request: Range<u64>) {
        let mask = held.len() - 1;
        let place = |sequence: u64| sequence as usize & mask;
        let clicked = |held: Earned| held != Earned::NOTHING;
        let mut clicks = request.clone().filter(|&sequence| clicked(held[place(sequence)])).count() as u64;
        let mut most = u64::from(self.most);
        for sequence in request {
            let drawn = self.coins.below(clicks.max(1));
            let held = &mut held[place(sequence)];
            let kept = clicked(*held) && drawn < most;
            clicks -= u64::from(clicked(*held));
            most -= u64::from(kept);
            if !kept {
                *held = Earned::NOTHING;
            }
        }
    }

    /// Goes back from this decision to the first one of its request, but not beyond the last one before `over`.
    pub fn start(&self, mut sequence: u64, over: u64) -> u64 {
        while sequence >= over && self.follows(sequence) {
            sequence -= 1;
        }
        sequence
    }
}

persist!(Requests { follows } made { most, coins });

#[cfg(test)]
mod tests {
    use super::super::{Counts, Engine, Event};
    use crate::config::{Clock, Config};
    use crate::engine::Pull;
    use crate::error::Error;
    use crate::random::{Random, Seed};
    use crate::reward::Reward;

    const WINDOW: u64 = 24;

    fn engine(most: u32, number: u8) -> (Engine, Random) {
        engine_on(Clock::Decisions, 1, most, number)
    }

    fn engine_on(clock: Clock, capacity: u32, most: u32, number: u8) -> (Engine, Random) {
        let mut seed = Seed::new(Some([number; 32])).unwrap();
        let config = Config { pending_capacity: capacity, reward_window: WINDOW as u32, clock, ..Config::new(2, 1.0) };
        let mut engine = Engine::new(&config, &mut seed.stream()).unwrap();
        engine.limit_clicks(most, seed.stream()).unwrap();
        (engine, seed.stream())
    }

    /// Issues a request. Returns its tickets, and the decisions that it pushed out. The arms are the numbers of
    /// decisions.
    fn request(engine: &mut Engine, size: u64) -> (Vec<u64>, Vec<(u64, u32)>) {
        let mut ends = Vec::new();
        for ahead in 0..size {
            if let Some(Event::Answered(pull, reward)) = engine.make_room(ahead) {
                ends.push((pull.arm().into(), reward.units() as u32));
            }
        }
        let pull = |number: u64| Pull::new(number as u32, 0, 1.0);
        let tickets = (0..size).map(|slot| engine.issue(pull(engine.counts().decisions), slot > 0)).collect();
        (tickets, ends)
    }

    /// Requests of one to six decisions get rewards and cancellations at random. Each request keeps its clicks, up to
    /// the maximum, at their values. Every decision ends in its turn. A ticket expires together with the first one of
    /// its request.
    #[test]
    fn as_many_clicks_as_may_be_are_kept() {
        for most in 1..=3 {
            let (mut engine, mut random) = engine(most, most as u8);
            // Of each decision: its ticket, the first decision of its request, its reward, and whether it was
            // cancelled.
            let mut log: Vec<(u64, u64, Option<u32>, bool)> = Vec::new();
            let (mut ended, mut kept, mut clicked) = (Vec::new(), Vec::new(), Vec::new());
            // The first decisions of requests with a cancellation after they were fixed.
            let mut late = std::collections::HashSet::new();
            for _ in 0..5000 {
                let (first, over) = (log.len() as u64, log.len().saturating_sub(WINDOW as usize) as u64);
                let (tickets, ends) = request(&mut engine, 1 + random.below(6));
                log.extend(tickets.into_iter().map(|ticket| (ticket, first, None, false)));
                for (number, reward) in ends {
                    let (_, first, answer, cancelled) = log[number as usize];
                    assert!(!cancelled && (reward == 0 || answer == Some(reward)), "{number}");
                    assert!((over..log.len() as u64 - WINDOW).contains(&number));
                    ended.push(number);
                    kept.resize(log.len(), 0);
                    kept[first as usize] += u32::from(reward > 0);
                }
                // The clicks of the requests that were just fixed.
                clicked.resize(log.len(), None);
                for first in over..log.len() as u64 - WINDOW.min(log.len() as u64) {
                    if log[first as usize].1 == first && clicked[first as usize].is_none() {
                        let of = log.iter().skip(first as usize).take(6).filter(|d| d.1 == first && !d.3);
                        clicked[first as usize] = Some(of.filter(|decision| decision.2 > Some(0)).count() as u32);
                    }
                }
                if random.below(60) == 0 {
                    for number in engine.in_flight() {
                        let taken_back = engine.cancel_at(number).is_some();
                        late.extend(
                            clicked[log[number as usize].1 as usize].is_some().then_some(log[number as usize].1),
                        );
                        assert_ne!(taken_back, std::mem::replace(&mut log[number as usize].3, true), "{number}");
                    }
                }
                for _ in 0..random.below(12) {
                    let number = (log.len() as u64 - 1).saturating_sub(random.below(40)) as usize;
                    let (ticket, first, answer, cancelled) = log[number];
                    let issued = log.len() as u64;
                    let (own, all) = (number as u64 + WINDOW >= issued, first + WINDOW >= issued);
                    if random.below(8) == 0 {
                        let refused = if all { Error::Duplicate } else { Error::Expired };
                        let expected = if own && !cancelled { Ok(()) } else { Err(refused) };
                        assert_eq!(engine.cancel(ticket).map(|_| ()), expected, "{number} of {issued}");
                        log[number].3 |= expected.is_ok();
                        late.extend(clicked[first as usize].is_some().then_some(first));
                    } else {
                        let reward = (random.below(3) * random.below(1 << 20)) as u32;
                        let expected = match all {
                            false => Err(Error::Expired),
                            true if answer.is_some() || cancelled => Err(Error::Duplicate),
                            true => Ok(()),
                        };
                        let outcome =
                            engine.answer(ticket, Reward::from_units(reward)).map(|event| assert!(event.is_none()));
                        assert_eq!(outcome, expected, "{number} of {issued}");
                        if expected.is_ok() {
                            log[number].2 = Some(reward);
                        }
                    }
                }
            }
            let open = log.len() - WINDOW as usize;
            assert!(ended.is_sorted() && ended.len() > open / 2);
            let done = log.iter().take(open).filter(|decision| !decision.3).count();
            assert_eq!(ended.len(), done, "each that was not cancelled ends once");
            assert_eq!(engine.counts().answered, ended.len() as u64);
            let Counts { decisions, cancelled, .. } = engine.counts();
            assert_eq!((decisions, cancelled), (log.len() as u64, log.iter().filter(|d| d.3).count() as u64));
            let full = clicked.iter().zip(&kept).take(open - 6).filter(|(clicked, _)| **clicked > Some(most)).count();
            assert!(full > 100, "{full}");
            for (first, (clicked, &kept)) in clicked.iter().zip(&kept).enumerate().take(open - 6) {
                // A cancellation after that leaves fewer.
                let most = clicked.unwrap_or(0).min(most);
                assert!(kept == most || (late.contains(&(first as u64)) && kept < most), "{first}: {kept} of {most}");
            }
        }
    }

    /// On the caller's clock, requests of one to six decisions at random times get rewards and cancellations at random,
    /// and a small ring pushes some decisions out before their time. The rest of a request ends in the first advance to
    /// the end of its window, and keeps its clicks, up to the maximum, at their values.
    #[test]
    fn as_many_clicks_as_may_be_are_kept_on_the_callers_clock() {
        for (most, capacity) in [(1, 16), (2, 128), (3, 32)] {
            let (mut engine, mut random) = engine_on(Clock::Caller, capacity, most, 20 + most as u8);
            // Of each decision: its ticket, the first decision of its request, its reward, and whether it has ended.
            let mut log: Vec<(u64, u64, Option<u32>, bool)> = Vec::new();
            let (mut stamps, mut now, mut oldest) = (Vec::new(), 1u64, 0);
            let (mut full, mut pushed) = (0, 0);
            engine.advance(now).unwrap(); // the first call begins the time
            for _ in 0..8000 {
                // Steps of several windows, earlier times, and bursts.
                let leap = [0, 0, 1, 2, 5, random.below(40), 3 * WINDOW][random.below(7) as usize];
                let given = if random.below(9) == 0 { now.saturating_sub(leap.min(WINDOW)) } else { now + leap };
                let given = given.max(1);
                assert_eq!(engine.advance(given).unwrap(), given.saturating_sub(now));
                now = now.max(given);
                let mut ends = Vec::new();
                engine.expire_windows(|event| {
                    let Event::Answered(pull, reward) = event else { panic!("its window was over") };
                    ends.push((u64::from(pull.arm()), reward.units() as u32));
                });
                let due = (oldest..log.len()).take_while(|&number| now - stamps[number] >= WINDOW).count();
                let open = (oldest..oldest + due).filter(|&number| !log[number].3).map(|number| number as u64);
                assert!(open.eq(ends.iter().map(|&(number, _)| number)));
                for request in (oldest..oldest + due).collect::<Vec<_>>().chunk_by(|&a, &b| log[a].1 == log[b].1) {
                    let clicks = |number: &&usize| !log[**number].3 && log[**number].2 > Some(0);
                    let clicked = request.iter().filter(clicks).count();
                    let of = |number: u64| request.contains(&(number as usize));
                    let kept = ends.iter().filter(|&&(number, reward)| of(number) && reward > 0);
                    let true_ones = kept.clone().filter(|&&(number, reward)| log[number as usize].2 == Some(reward));
                    assert_eq!((kept.count(), true_ones.count()), [clicked.min(most as usize); 2].into());
                    full += u32::from(clicked > most as usize);
                }
                (oldest..oldest + due).for_each(|number| log[number].3 = true);
                oldest += due;
                if random.below(3) > 0 {
                    let (first, size) = (log.len() as u64, 1 + random.below(6));
                    for ahead in 0..size {
                        let gone = (log.len() as u64 + ahead).checked_sub(capacity.into());
                        let open = gone.is_some_and(|gone| !log[gone as usize].3);
                        match engine.make_room(ahead) {
                            Some(Event::Unplayed { pull, learned: true }) => {
                                assert!(open && gone == Some(pull.arm().into()));
                                pushed += 1;
                            }
                            Some(_) => panic!("an answer took effect too soon"),
                            None => assert!(!open),
                        }
                        if let Some(gone) = gone {
                            log[gone as usize].3 = true;
                            oldest = oldest.max(gone as usize + 1);
                        }
                    }
                    for slot in 0..size {
                        let ticket = engine.issue(Pull::new(log.len() as u32, 0, 1.0), slot > 0);
                        log.push((ticket, first, None, false));
                        stamps.push(now);
                    }
                }
                assert_eq!(engine.in_flight(), oldest as u64..log.len() as u64);
                for _ in 0..random.below(if log.is_empty() { 1 } else { 12 }) {
                    let number = (log.len() as u64 - 1).saturating_sub(random.below(80)) as usize;
                    let (ticket, _, answer, ended) = log[number];
                    let refused = if number < oldest { Error::Expired } else { Error::Duplicate };
                    if random.below(8) == 0 {
                        let expected = if ended { Err(refused) } else { Ok(()) };
                        assert_eq!(engine.cancel(ticket).map(|_| ()), expected, "{number}");
                        log[number].3 = true;
                    } else {
                        let reward = (random.below(3) * random.below(1 << 20)) as u32;
                        let expected = if ended || answer.is_some() { Err(refused) } else { Ok(()) };
                        let outcome = engine.answer(ticket, Reward::from_units(reward));
                        assert_eq!(outcome.map(|event| assert!(event.is_none())), expected, "{number}");
                        if expected.is_ok() {
                            log[number].2 = Some(reward);
                        }
                    }
                }
            }
            assert_eq!(engine.counts().expired, pushed);
            assert!(full > 10 && (pushed > 500) == (capacity < 128), "{full} {pushed}");
        }
    }

    /// 60,000 requests have five clicks, some other rewards and a cancellation: each of the five clicks is kept equally
    /// often. A count is off by 5 of its standard deviations, sqrt(n p (1 - p)), with probability 6e-7; there are 15
    /// counts.
    #[test]
    fn clicks_are_kept_evenly() {
        const REQUESTS: u32 = 60_000;
        for most in 1..=3 {
            let (mut engine, _) = engine(most, 10 + most as u8);
            let mut kept = [0u32; 8];
            for _ in 0..REQUESTS {
                let (tickets, ends) = request(&mut engine, 8);
                ends.iter().for_each(|&(number, reward)| kept[number as usize % 8] += u32::from(reward > 0));
                // Slots 0, 2, 3, 5 and 7, the last ones first; 1 has no reward, 4 is cancelled, 6 gets the smallest
                // reward.
                for slot in [7, 5, 3, 2, 0] {
                    engine.answer(tickets[slot], Reward::from_units(1 << slot)).unwrap();
                }
                engine.cancel(tickets[4]).unwrap();
                engine.answer(tickets[6], Reward::MIN).unwrap();
            }
            let p = f64::from(most) / 5.0;
            let n = f64::from(REQUESTS) - WINDOW as f64 / 8.0;
            for slot in [0, 2, 3, 5, 7] {
                let off = (f64::from(kept[slot]) - n * p) / (n * p * (1.0 - p)).sqrt();
                assert!(off.abs() < 5.0, "{most}: {kept:?}");
            }
            assert_eq!([kept[1], kept[4], kept[6]], [0; 3]);
        }
    }
}
