//! DP-IMED with a [learned clip](super::pilot): a pilot plays all arms evenly until it knows a clip. Then DP-IMED learns
//! from clipped rewards.
//!
#![doc = include_str!("../../../docs/theory/clip.md")]

use super::arm_sum::ArmSum;
use super::arms::BatchedLedger;
use super::imed::DpImed;
use super::peers::HandleReleases;
use super::pilot::Pilot;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::peers::Peer;
use crate::moving::{Archive, persist};
use crate::os::DefaultRounding;
use crate::policy::compare::ReleaseTotals;
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::learner::{AnyLearner, Change, Growth, Learner, PeerHead};
use crate::random::Seed;
use crate::request::Offer;
use crate::reward::Reward;
use crate::snapshot::Reader;

/// DP-IMED behind a pilot.
pub struct ClippedImed {
    imed: DpImed,
    pilot: Pilot,
}

impl ClippedImed {
    /// # Errors
    /// As [`DpImed::new`].
    pub fn new(config: &Config, seed: &mut Seed) -> Result<ClippedImed> {
        check(config)?;
        Ok(ClippedImed { imed: DpImed::new(config, seed)?, pilot: Pilot::new(config, &config.noise()?) })
    }

    /// Whether the pilot still plays.
    fn pilots(&mut self) -> bool {
        let decisions = self.imed.ledger().facts.decisions;
        self.pilot.check_end(decisions);
        !self.pilot.has_ended()
    }

    /// Releases the pilot's full batch.
    #[inline(never)]
    fn release(&mut self) {
        let _rounding = DefaultRounding::set();
        let ledger = self.imed.ledger();
        ledger.facts.time.learn();
        let rewards = self.pilot.release(&mut ledger.noise);
        ledger.facts.release(rewards);
    }
}

/// Refuses what a learned clip cannot have.
fn check(config: &Config) -> Result<()> {
    if config.max_segments > 0 {
        return Err(Error::config("max_segments", "must be 0 with a learned clip", config.max_segments));
    }
    if config.parts > 0 {
        // The median amount would be that of the part that comes most often.
        return Err(Error::config("parts", "must be 0 with a learned clip", config.parts));
    }
    if config.reward_min != 0.0 {
        return Err(Error::config("reward_min", "must be 0 with a learned clip", config.reward_min));
    }
    if config.reward_bits < Reward::BITS {
        return Err(Error::config("reward_bits", "must be 24 with a learned clip", config.reward_bits));
    }
    if config.delta > 0.0 && config.max_slots > 0 {
        // The slots of a request share a batch of the pilot, so the squares of their effects do not just add up.
        return Err(Error::config("delta", "must be 0 with a learned clip and max_slots", config.delta));
    }
    Ok(())
}

impl Policy for ClippedImed {
    fn choose(&mut self) -> Pull {
        if self.pilots() { self.imed.play_evenly(None) } else { self.imed.choose() }
    }

    fn decide(&mut self, offer: &mut Offer) {
        if !self.pilots() {
            return self.imed.decide(offer);
        }
        while offer.has_slots_left() {
            let pull = self.imed.play_evenly(offer.among());
            offer.choose(pull, pull.arm(), f64::NAN);
        }
        self.imed.count_unexamined(offer);
    }

    /// A reward of the pilot's counts for no arm. One that is late counts for its arm, if the arm's batch is open.
    fn observe(&mut self, pull: Pull, reward: Reward) {
        if !self.pilot.has_ended() {
            self.imed.cancel(pull);
            if self.pilot.collect(reward) {
                self.release();
            }
        } else if self.imed.is_open(pull.arm()) {
            self.imed.observe(pull, self.pilot.clip(reward));
        } else {
            self.imed.cancel(pull);
        }
    }

    fn cancel(&mut self, pull: Pull) {
        self.imed.cancel(pull);
    }

    /// Its mean is that of clipped rewards, as a share of the range.
    fn arm(&self, arm: u32) -> ArmState {
        let (state, share) = (self.imed.arm(arm), self.pilot.share().unwrap_or(1.0));
        ArmState { mean: share * state.mean, width: share * state.width, ..state }
    }

    fn counts(&self) -> PolicyCounts {
        PolicyCounts { clip: self.pilot.share(), ..self.imed.counts() }
    }

    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        self.imed.sums(arm)
    }

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        self.imed.snapshot(with)?;
        self.pilot.snapshot(with)
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }
}

/// Its releases are in units of its clip, so no other handle can use them: a handle refuses merges and contributions.
impl Learner for ClippedImed {
    type Sum = ArmSum;
    type Releases = HandleReleases;

    fn ledger(&mut self) -> &mut BatchedLedger {
        self.imed.ledger()
    }

    fn changed(&mut self, change: Change) {
        self.imed.changed(change);
    }

    fn grow(&mut self, by: Growth) -> Result<()> {
        self.imed.grow(by)
    }

    fn join(&mut self, peer: usize, before: Option<&Peer<HandleReleases>>) {
        self.imed.join(peer, before);
    }

    fn read_peer(head: &PeerHead, from: &mut Reader) -> Result<HandleReleases> {
        DpImed::read_peer(head, from)
    }
}

persist!(ClippedImed { imed, pilot });
