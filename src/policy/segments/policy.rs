//! Segments as a policy that decides by request. A request names its segment by a key.

use super::peers::read_keys;
use super::{Segments, is_trial};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ledger::learner::AnyLearner;
use crate::moving::Moving;
use crate::policy::compare::{ReleaseTotals, Totals};
use crate::policy::contract::{Abilities, ArmState, Offer, Policy, PolicyCounts, Pull, SlotPull};
use crate::policy::cumulant::Cumulant;
use crate::policy::prior::Prior;
use crate::privacy::PrivacyLoss;
use crate::request::{Request, Values};
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure};

/// Every pull's number fits into the engine's ring.
const _: () = assert!(2 * Segments::MOST_CELLS <= Engine::MOST_ARM as u64);

impl Segments {
    /// Returns the segment of the request that was checked last, and adds it if it is new.
    #[inline]
    fn segment(&mut self, key: u64) -> u32 {
        let segment = match self.found {
            Some(segment) => segment,
            None => self.add_segment(key),
        };
        self.found = Some(segment);
        segment
    }

    /// Reads what [`save_pulls`](Policy::save_pulls) wrote, into new segments.
    fn load_pulls(&mut self, from: &mut Reader) -> Result<()> {
        let keys = read_keys(from)?;
        if keys.len() > self.max_segments as usize {
            let rule = format!("must be at least {}, as in the snapshot", keys.len());
            return Err(Error::config("max_segments", &rule, self.max_segments));
        }
        for key in keys {
            ensure(self.ledger.keys.find(key).is_none())?;
            self.ledger.keys.push(key);
            self.push_row();
        }
        for row in 1..self.rows.len() {
            for arm in 0..self.rates.len() {
                self.ledger.cells[(row, arm)].pulls = from.count()?;
            }
        }
        Ok(())
    }

    #[cold]
    fn full(&self, number: u64) -> Error {
        Error::Full { what: "segment", number, limit: "all of config.max_segments", most: self.max_segments.into() }
    }
}

impl Policy for Segments {
    fn abilities(&self) -> Abilities {
        Abilities { arms: true, slots: true, values: true, by_request: true, ..Abilities::default() }
    }

    fn choose(&mut self) -> Pull {
        unreachable!("each decision names its segment")
    }

    #[inline]
    fn check(&mut self, request: &Request) -> Result<()> {
        if request.features.is_some() {
            return Err(Error::unconfigured("features: config.features is 0"));
        }
        self.found = self.ledger.keys.find(request.segment).map(|segment| segment as u32);
        if self.found.is_none() && self.is_full() { Err(self.full(request.segment)) } else { Ok(()) }
    }

    #[inline]
    fn choose_for(&mut self, request: &Request, _place: usize) -> (Pull, u32) {
        let segment = self.segment(request.segment);
        let pull = match request.eligible {
            Some(eligible) => self.choose_among_in(segment, eligible),
            None => self.choose_in(segment),
        };
        (pull, self.arm_of(pull))
    }

    fn choose_slots(&mut self, offer: Offer, each: &mut dyn FnMut(SlotPull)) {
        let segment = self.segment(offer.request.segment);
        let slots = offer.request.slots as usize;
        self.choose_slate(segment, offer.left, offer.values, slots, each);
    }

    fn choose_best(
        &mut self,
        request: &Request,
        among: Option<&[u32]>,
        values: Option<&Values>,
        _place: usize,
    ) -> Option<SlotPull> {
        if self.all.count + self.peers.all.count == 0.0 {
            return None;
        }
        let segment = self.segment(request.segment);
        let pull = self.play_best(segment, among, |arm| values.map_or(1.0, |values| values.of(arm)));
        Some(SlotPull { pull, worth: f64::NAN })
    }

    fn unplay(&mut self, pull: Pull) {
        self.own_play(pull.arm() / 2).pulls -= 1;
    }

    fn save_pulls(&self, to: &mut Writer, pending: &mut dyn Iterator<Item = Pull>) {
        to.u32(self.ledger.keys.len() as u32);
        to.alike(self.ledger.keys.iter().copied(), Writer::u64);
        let arms = self.rates.len();
        let pulls = (arms..self.rows.len() * arms).map(|place| self.ledger.cells[(place / arms, place % arms)].pulls);
        let place = |pull: Pull| {
            let (segment, arm) = self.cell(pull.arm() / 2);
            segment * arms + arm
        };
        to.counts(pulls, pending.map(place));
    }

    fn arm_in(&self, segment: u64, arm: u32) -> Result<(ArmState, u64)> {
        let known = || Error::request("segment", "must be the key of an earlier request", segment);
        let segment = self.ledger.keys.find(segment).ok_or_else(known)? as u32;
        let (mean, effective_pulls) = self.estimate(segment, arm);
        let state = ArmState { mean, width: f64::NAN, effective_pulls, active: self.is_live(arm) };
        Ok((state, self.ledger.cells[(segment as usize + 1, arm as usize)].pulls))
    }

    #[inline]
    fn observe(&mut self, pull: Pull, reward: Reward) {
        let number = pull.arm() / 2;
        let play = if is_trial(pull) {
            let (_, arm) = self.cell(number);
            &mut self.ledger.cells[(0, arm)]
        } else {
            self.own_play(number)
        };
        if play.batch.collect(reward) && play.batch.free() == 0 {
            let (segment, arm) = self.cell(number);
            let row = if is_trial(pull) { 0 } else { segment + 1 };
            self.release_cell(row, arm);
        }
    }

    /// A cancelled decision does not count towards the decisions of its segment.
    fn cancel(&mut self, pull: Pull) {
        let (segment, _) = self.cell(pull.arm() / 2);
        let decisions = &mut self.turns[segment + 1].decisions;
        *decisions = decisions.saturating_sub(1); // a snapshot counts pending decisions, but does not restore them
    }

    fn arm_of(&self, pull: Pull) -> u32 {
        self.cell(pull.arm() / 2).1 as u32
    }

    /// The mean of an arm's rate in an average segment, and the rewards in all of its releases, here and at peers.
    fn arm(&self, arm: u32) -> ArmState {
        let effective_pulls = (0..self.rows.len()).map(|row| self.released(row, arm as usize).count).sum();
        let mean = self.rates[arm as usize].mean;
        ArmState { mean, width: f64::NAN, effective_pulls, active: self.is_live(arm) }
    }

    fn counts(&self) -> PolicyCounts {
        PolicyCounts {
            phase: self.ledger.facts.releases,
            active: self.ledger.arms.live.len() as u32,
            merges: self.ledger.peers.updates(),
            segments: self.ledger.keys.len() as u32,
            ..PolicyCounts::default()
        }
    }

    fn learner(&mut self) -> Option<&mut dyn AnyLearner> {
        Some(self)
    }

    /// The releases of an arm's trials, here and at peers, for an interval that holds at all times. The module's page
    /// says what mean they estimate. Merging widens the interval, by the number of merges.
    fn sums(&self, arm: u32) -> Result<ReleaseTotals> {
        if self.half_life.is_finite() {
            return Err(Error::unsupported(
                "comparing with forget_after: what moves has no mean that holds at all times",
            ));
        }
        let mut trials = self.rates[arm as usize].trials;
        trials.add(&self.peers.trials(arm as usize));
        if trials == Totals::NONE {
            return Err(Error::NotReady);
        }
        Ok(ReleaseTotals::of(Cumulant::of(&self.ledger.noise.distribution()), trials))
    }

    fn set_prior(&mut self, arm: u32, prior: Prior) -> Result<()> {
        self.ledger.facts.time.learn();
        self.rates[arm as usize].prior = Some((prior, self.now()));
        self.learn(0);
        Ok(())
    }

    fn privacy(&self) -> PrivacyLoss {
        self.ledger.facts.privacy(&self.ledger.noise.distribution())
    }

    fn snapshot(&mut self, with: &mut Moving) -> Result<()> {
        if let Moving::In(from) = with {
            self.load_pulls(from)?;
        }
        self.move_releases(with)
    }

    fn is_live(&self, arm: u32) -> bool {
        self.rates[arm as usize].live
    }

    fn retire_arm(&mut self, arm: u32) {
        self.ledger.arms.retire(arm);
        let rate = &mut self.rates[arm as usize];
        rate.live = false;
        let had_prior = rate.prior.take().is_some();
        self.trial &= self.turns[0].best != arm;
        for turn in self.turns.iter_mut().filter(|turn| turn.best == arm) {
            turn.left = 0;
        }
        if had_prior { self.learn(0) } else { self.plan() }
    }
}
