//! What happens to held rewards when they are due: parts are summed up, and of a request a limited number counts.

use super::requests::Requests;
use super::ring::{Fate, Slot};
use crate::error::{Error, Result};
use crate::memory::WipedVec;
use crate::moving::persist;
use crate::parts::{Earned, PartScales};
use zeroize::Zeroize;

/// For handles with parts, a maximum of clicks, or both.
#[derive(Default)]
pub struct Settlement {
    pub requests: Option<Requests>,
    pub parts: Option<Parts>,
}

/// Which parts have come.
pub struct Parts {
    pub scales: PartScales,
    /// A bit for each part of each slot's decision.
    reported: WipedVec<u8>,
}

impl Parts {
    pub fn new(slots: usize, scales: PartScales) -> Result<Parts> {
        Ok(Parts { scales, reported: WipedVec::new(slots, |_| 0)? })
    }

    /// Notes that a part of a slot's decision has come.
    ///
    /// # Errors
    /// `Duplicate` if it had come before.
    pub fn report(&mut self, place: usize, part: u32) -> Result<()> {
        let bit = 1 << part;
        if self.reported[place] & bit != 0 {
            return Err(Error::Duplicate);
        }
        self.reported[place] |= bit;
        Ok(())
    }
}

impl Settlement {
    /// Stores a new decision.
    pub fn enter(&mut self, place: usize, follows: bool) {
        if let Some(requests) = &mut self.requests {
            requests.enter(place, follows);
        }
        if let Some(parts) = &mut self.parts {
            parts.reported[place] = 0;
        }
    }

    /// Whether a decision is settled together with the one before, because they are of one request.
    pub fn follows(&self, sequence: u64) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.follows(sequence))
    }

    /// As [`Requests::start`].
    pub fn start(&self, sequence: u64, over: u64) -> u64 {
        self.requests.as_ref().map_or(sequence, |requests| requests.start(sequence, over))
    }

    /// Settles the decision that is due, and those of its request: their rewards are final, and no other one is taken.
    /// Returns the end of the request.
    #[inline(never)]
    pub fn settle(&mut self, ring: &mut [Slot], held: &mut [Earned], due: u64, issued: u64) -> u64 {
        let end = self.requests.as_ref().map_or(due + 1, |requests| requests.end(due, issued));
        let mask = ring.len() - 1;
        let places = (due..end).map(|sequence| sequence as usize & mask);
        if let Some(parts) = &self.parts {
            for place in places.clone().filter(|&place| ring[place].fate() != Fate::DONE) {
                held[place] = Earned::of(parts.scales.reward(held[place]));
            }
        }
        if let Some(requests) = &mut self.requests {
            requests.draw(held, due..end);
        }
        for place in places {
            if ring[place].fate().is_open() {
                ring[place].hold();
            }
        }
        end
    }
}

/// Wipes which parts have come.
impl Drop for Parts {
    fn drop(&mut self) {
        self.reported.zeroize();
    }
}

persist!(Settlement { requests, parts });
persist!(Parts { reported } made { scales });
