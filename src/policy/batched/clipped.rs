//! DP-IMED with a [learned clip](super::pilot): a pilot plays all arms evenly until it knows a clip. Then DP-IMED learns
//! from clipped rewards.
//!
#![doc = include_str!("../../../docs/theory/clip.md")]

use super::arm_sum::ArmSum;
use super::arms::BatchedLedger;
use super::imed::DpImed;
use super::peers::HandleReleases;
use super::pilot::{Found, Pilot};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::cells::{Ledger, Place};
use crate::ledger::facts::Duty;
use crate::ledger::peers::Peer;
use crate::moving::{Archive, Persist};
use crate::os::DefaultRounding;
use crate::policy::compare::ReleaseTotals;
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::learner::{AnyLearner, Change, Growth, Learner, PeerHead};
use crate::random::Seed;
use crate::request::Offer;
use crate::reward::Reward;
use crate::snapshot::Reader;

/// DP-IMED behind a pilot, whose open batch is the [whole](Ledger::whole).
pub struct ClippedImed {
    imed: DpImed,
    pilot: Pilot,
}

impl ClippedImed {
    /// # Errors
    /// As [`DpImed::new`].
    pub fn new(config: &Config, seed: &mut Seed) -> Result<ClippedImed> {
        check(config)?;
        let mut policy = ClippedImed { imed: DpImed::new(config, seed)?, pilot: Pilot::new(config, &config.noise()?) };
        policy.open();
        Ok(policy)
    }

    /// Whether the pilot still plays. A contributor's ends when its leader's has.
    fn pilots(&mut self) -> bool {
        let facts = &self.imed.ledger().facts;
        if !facts.duty().contributes() && self.pilot.ends(facts.decisions) {
            self.open();
        }
        !self.pilot.found.has_clip()
    }

    /// Opens an empty batch for what the pilot asks now, if anything.
    fn open(&mut self) {
        let (found, ledger) = (&self.pilot.found, self.imed.ledger());
        ledger.unit = Some(found.unit());
        match found.has_clip() {
            true => ledger.whole = None,
            false => **ledger.whole.get_or_insert_default() = ArmSum::default(),
        }
        self.resize();
    }

    /// Gives the pilot's batch its size. What it has collected stays.
    fn resize(&mut self) {
        let Ledger { whole, facts, .. } = self.imed.ledger();
        whole.iter_mut().for_each(|sum| sum.open(facts.quota(self.pilot.found.size)));
    }

    /// Releases the pilot's full batch.
    #[inline(never)]
    fn release(&mut self) {
        let _rounding = DefaultRounding::set();
        let Ledger { whole, facts, noise, .. } = self.imed.ledger();
        let Some(sum) = whole else { return };
        facts.time.learn();
        let release = sum.batch.release(noise);
        facts.release(release.count);
        self.pilot.learn(release);
        self.open();
    }

    /// What is to be counted of rewards from now on: what the leader counts, if its snapshot is known; otherwise what comes
    /// first of all that pilots are known to have found.
    fn first(&mut self) -> Found {
        let own = self.found();
        let Ledger { facts, peers, .. } = self.imed.ledger();
        let leads = |peer: &&Peer<HandleReleases>| facts.duty() == Duty::Contributes(peer.releases.led);
        if let Some(leader) = peers.iter().find(leads) {
            return leader.releases.found;
        }
        let all = peers.iter().map(|peer| peer.releases.found);
        all.fold(own, |first, found| if found.order() > first.order() { found } else { first })
    }

    /// What the pilot has found, with the rewards that are known now.
    fn found(&self) -> Found {
        let mut found = self.pilot.found;
        if found.has_clip() {
            found.rewards = found.rewards.max(self.imed.batched.known());
        }
        found
    }

    /// Counts what is [first](Self::first). Open sums and releases that count something else are dropped.
    fn follow(&mut self) {
        let first = self.first();
        let before = std::mem::replace(&mut self.pilot.found, first);
        if before.unit() == self.pilot.found.unit() {
            return self.resize();
        }
        self.clear_open();
        self.open();
        let peers = self.imed.ledger().peers.iter().len();
        (0..peers).for_each(|peer| self.choose_whether_it_counts(peer));
        self.imed.batched.forget();
        self.join_all();
        self.imed.changed(Change::Duty); // batches have other sizes
    }

    /// Learns again from what counts of other handles.
    fn join_all(&mut self) {
        let arms = self.imed.ledger().cells.arms();
        self.imed.join_again(0..arms);
    }

    /// Whether the releases of this peer count.
    fn choose_whether_it_counts(&mut self, peer: usize) {
        let releases = &mut self.imed.ledger().peers[peer].releases;
        releases.counts = releases.found.unit() == self.pilot.found.unit();
    }
}

/// Refuses what a learned clip cannot have.
fn check(config: &Config) -> Result<()> {
    let Config { max_segments, parts, reward_min, reward_bits, delta, max_slots, .. } = *config;
    Error::unless(max_segments == 0, "max_segments", "must be 0 with a learned clip", max_segments)?;
    // The median amount would be that of the part that comes most often.
    Error::unless(parts == 0, "parts", "must be 0 with a learned clip", parts)?;
    Error::unless(reward_min == 0.0, "reward_min", "must be 0 with a learned clip", reward_min)?;
    Error::unless(reward_bits >= Reward::BITS, "reward_bits", "must be 24 with a learned clip", reward_bits)?;
    // The slots of a request share a batch of the pilot, so the squares of their effects do not just add up.
    let adds_up = delta <= 0.0 || max_slots == 0;
    Error::unless(adds_up, "delta", "must be 0 with a learned clip and max_slots", delta)
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
        if !self.pilot.found.has_clip() {
            let (counted, ledger) = (self.pilot.found.counted(reward), self.imed.ledger());
            let fills = |sum: &mut Box<ArmSum>| sum.collect(counted);
            let is_full = ledger.whole.as_mut().is_some_and(fills);
            self.imed.cancel(pull);
            if is_full {
                self.release();
            }
        } else if self.imed.batched.is_open(pull.arm() as usize) {
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
        self.pilot.found = self.found();
        persist_found(&mut self.pilot.found, &mut self.imed.ledger().facts.duty().led(), with)?;
        if with.reads() {
            self.open();
        }
        Ok(())
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }
}

/// Its sums and releases add up only with those that count the same of a reward.
impl Learner for ClippedImed {
    type Sum = ArmSum;
    type Releases = HandleReleases;

    fn ledger(&mut self) -> &mut BatchedLedger {
        self.imed.ledger()
    }

    fn changed(&mut self, change: Change<HandleReleases>) {
        match change {
            Change::Full(Place::Whole) => self.release(),
            Change::Joined { peer, before } => {
                self.choose_whether_it_counts(peer);
                self.imed.changed(change);
                let now = &self.imed.ledger().peers[peer].releases;
                if before.is_some_and(|before| now.lacks_some_of(&before.releases)) {
                    self.join_all();
                }
            }
            Change::Merged => self.follow(),
            Change::Duty => {
                self.imed.changed(change);
                self.follow();
            }
            _ => self.imed.changed(change),
        }
    }

    fn grow(&mut self, by: Growth) -> Result<()> {
        self.imed.grow(by)
    }

    fn read_peer(head: &PeerHead, from: &mut Reader) -> Result<HandleReleases> {
        let (mut read, with) = (DpImed::read_peer(head, from)?, &mut Archive::In(from));
        persist_found(&mut read.found, &mut read.led, with)?;
        Ok(read)
    }
}

/// Moves what a snapshot has of a pilot.
fn persist_found(found: &mut Found, led: &mut u64, with: &mut Archive) -> Result<()> {
    found.persist(with)?;
    led.persist(with)
}

impl Persist for ClippedImed {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.imed.persist(with)?;
        self.imed.ledger().whole.iter_mut().try_for_each(|sum| sum.persist(with))
    }
}
