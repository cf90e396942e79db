//! The live arms, and a minimum for their probabilities.

use crate::config::Config;
use crate::random::{Random, Seed};
use crate::request::Offer;

/// How far policies prefer the leader among this number of live arms: see [`imed`](super::imed).
pub fn kappa(arms: usize) -> f64 {
    1.0 + arms.saturating_sub(10) as f64 / 8.0
}

/// `exploration` f: with probability f a uniformly drawn arm is pulled instead of the policy's, so that each of K
/// arms has a probability of at least f/K. It costs f times the mean gap for each decision.
pub struct Explore {
    pub share: f64,
    pub coins: Random,
}

impl Explore {
    pub fn new(config: &Config, seed: &mut Seed) -> Explore {
        Explore { share: config.exploration, coins: seed.stream() }
    }

    /// Whether no arm is ever drawn uniformly.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.share.to_bits() == 0 // as an integer, which takes fewer instructions; the share is not negative
    }

    /// Draws whether this decision's arm is to be drawn uniformly.
    #[inline]
    pub fn tosses(&mut self) -> bool {
        self.share > 0.0 && self.coins.unit() < self.share
    }

    /// The probability of an arm, from that in a uniform draw and the policy's own.
    #[inline]
    pub fn mix(&self, even: f64, own: f64) -> f64 {
        self.share * even + (1.0 - self.share) * own
    }

    /// Returns the policy's choice `best`, or a uniformly drawn arm of these (`None`: of all live ones); and its
    /// probability.
    pub fn choose(&mut self, best: u32, among: Option<&[u32]>, live: &[u32]) -> (u32, f64) {
        let arms = among.unwrap_or(live);
        let mut arm = best;
        if self.tosses() {
            arm = arms[self.coins.below(arms.len() as u64) as usize];
        }
        (arm, self.mix(1.0 / arms.len() as f64, f64::from(u8::from(arm == best))))
    }

    /// The same where the policy's choice is what is sure in the offer; `None`: no arm.
    pub fn choose_sure(&mut self, offer: &Offer) -> (Option<u32>, f64) {
        let (arms, sure) = (offer.arms(), offer.sure.and_then(|sure| sure.arm));
        match arms.len() {
            0 => (sure, 1.0),
            n if self.tosses() => (Some(arms[self.coins.below(n as u64) as usize]), self.mix(1.0 / n as f64, 0.0)),
            _ => (sure, self.mix(0.0, 1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kappa_grows_with_the_arms_beyond_ten() {
        let kappas = [1, 5, 10, 11, 40, 100].map(kappa);
        assert_eq!(kappas, [1.0, 1.0, 1.0, 1.125, 4.75, 12.25]);
    }
}
