//! Segments as a policy that decides by request. A request names its segment by a key.

use super::model::Rate;
use super::peers::read_keys;
use super::{Segments, is_trial};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ledger::learner::AnyLearner;
use crate::moving::Archive;
use crate::policy::compare::{ReleaseTotals, Totals};
use crate::policy::contract::{ArmState, Policy, PolicyCounts, Pull};
use crate::policy::cumulant::Cumulant;
use crate::policy::prior::Prior;
use crate::request::{Catalog, Offer, Segment};
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure};

/// Every pull's number fits into the engine's ring.
const _: () = assert!(2 * Segments::MOST_CELLS <= Engine::MOST_ARM as u64);

impl Segments {
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
}

impl Policy for Segments {
    fn choose(&mut self) -> Pull {
        unreachable!("each decision names its segment")
    }

    fn decide(&mut self, offer: &mut Offer) {
        let segment = match offer.segment {
            Segment::Known(segment) => segment,
            Segment::New(key) => self.add_segment(key),
            Segment::None => unreachable!("each request has a segment"),
        };
        if offer.is_outage && self.all.count + self.peers.all.count != 0.0 {
            self.choose_best(segment, offer);
        } else if offer.is_plain {
            let pull = match offer.among() {
                Some(arms) => self.choose_among_in(segment, arms),
                None => self.choose_in(segment),
            };
            offer.choose(pull, self.arm_of(pull), f64::NAN);
        } else {
            self.choose_slate(segment, offer);
        }
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
        let state =
            ArmState { mean, width: f64::NAN, effective_pulls, active: self.ledger.roster.is_live(arm as usize) };
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
        ArmState { mean, width: f64::NAN, effective_pulls, active: self.ledger.roster.is_live(arm as usize) }
    }

    fn counts(&self) -> PolicyCounts {
        PolicyCounts {
            phase: self.ledger.facts.releases,
            active: self.ledger.roster.live().len() as u32,
            merges: self.ledger.peers.updates(),
            segments: self.ledger.keys.len() as u32,
            ..PolicyCounts::of(self.ledger.facts.privacy(&self.ledger.noise.distribution()))
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

    fn snapshot(&mut self, with: &mut Archive) -> Result<()> {
        if let Archive::In(from) = with {
            self.load_pulls(from)?;
        }
        self.move_releases(with)
    }

    fn catalog(&self) -> Catalog<'_> {
        Catalog { arms: Some(&self.ledger.roster), segments: Some((&self.ledger.keys, self.max_segments)) }
    }

    /// Adds an arm to every segment.
    ///
    /// # Errors
    /// `InvalidConfig` for more than [`MOST_CELLS`](Segments::MOST_CELLS); `NoMemory`.
    fn add_arm(&mut self, id: u64) -> Result<()> {
        let arms = u64::from(self.arms()) + 1;
        if (u64::from(self.max_segments) + 1) * arms > Segments::MOST_CELLS {
            return Err(Error::config("arms", "times max_segments must be at most 2^27", arms));
        }
        let no_memory = |_| Error::NoMemory;
        self.ledger.roster.reserve()?;
        self.rates.reserve()?;
        self.order.try_reserve(1).map_err(no_memory)?;
        let more = (arms as usize).saturating_sub(self.ranks.len());
        self.ranks.try_reserve(more).map_err(no_memory)?;
        let (plays, cells) = (self.ledger.cells.new_arm()?, self.cells.new_arm()?);
        self.peers.add_arm()?;
        let arm = self.arms();
        self.ledger.cells.push_arm(plays);
        self.cells.push_arm(cells);
        self.rates.push(Rate::new());
        self.ledger.roster.add(id);
        self.order.push(arm);
        let mean = self.mean_rate();
        self.update_rate(arm as usize, mean);
        if !self.trial {
            self.plan();
        }
        self.seed_arm_from_peers();
        Ok(())
    }

    fn retire_arm(&mut self, arm: u32) {
        self.ledger.roster.retire(arm as usize);
        let rate = &mut self.rates[arm as usize];
        let had_prior = rate.prior.take().is_some();
        self.trial &= self.turns[0].best != arm;
        for turn in self.turns.iter_mut().filter(|turn| turn.best == arm) {
            turn.left = 0;
        }
        if had_prior { self.learn(0) } else { self.plan() }
    }
}
