//! The arms in the race, and a floor under their chances.

use crate::error::{Error, Result};
use crate::random::Random;

/// Who can be played.
#[derive(Default)]
pub struct Live(Vec<u32>);

impl Live {
    pub fn new(arms: u32) -> Result<Live> {
        let mut live = Live::default();
        live.reserve(arms as usize)?;
        live.0.extend(0..arms);
        Ok(live)
    }

    /// Makes capacity for so many more, so that the next [`push`](Self::push) cannot fail.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        self.0.try_reserve(more).map_err(|_| Error::NoMemory)
    }

    pub fn push(&mut self, arm: u32) {
        self.0.push(arm);
    }

    pub fn remove(&mut self, arm: u32) {
        self.0.retain(|&other| other != arm);
    }

    pub fn arms(&self) -> &[u32] {
        &self.0
    }

    pub fn count(&self) -> u32 {
        self.0.len() as u32
    }
}

/// `exploration` f: with chance f an arm drawn evenly plays in place of the policy's, so that
/// each of K arms has a chance of f/K at least. It costs f times the mean gap a decision.
pub struct Explore {
    pub share: f64,
}

impl Explore {
    pub fn new(share: f64) -> Explore {
        Explore { share }
    }

    /// Is this decision's arm to be drawn evenly?
    #[inline]
    pub fn tosses(&self, coins: &mut Random) -> bool {
        self.share > 0.0 && coins.unit() < self.share
    }

    /// The chance of an arm, from that of an even draw and the policy's.
    #[inline]
    pub fn mix(&self, even: f64, own: f64) -> f64 {
        self.share * even + (1.0 - self.share) * own
    }
}

/// The chance of an arm in an even draw from a list that may name it more than once.
pub fn even_chance(arms: &[u32], arm: u32) -> f64 {
    arms.iter().filter(|&&other| other == arm).count() as f64 / arms.len() as f64
}
