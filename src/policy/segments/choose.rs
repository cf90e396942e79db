//! How segments choose arms: the segment's own choice, trials that all segments make together, and exploration.

use super::model::Rate;
use super::{GOLDEN, Segments, by_index, smallest};
use crate::policy::contract::Pull;
use crate::request::{Offer, Sure, Worths};

impl Segments {
    /// Chooses the next arm in a segment.
    #[inline]
    pub(super) fn choose_in(&mut self, segment: u32) -> Pull {
        let own = segment as usize + 1;
        self.count(own, 1);
        let row = if self.trial && self.takes_part(self.turns[0].best) { 0 } else { own };
        let best = self.current(row);
        if self.explore.share > 0.0 {
            return self.explore(segment, row, best, None);
        }
        self.take_turn(row, best);
        self.pull(segment, row, best, 1.0)
    }

    /// Chooses the next arm in a segment among `arms`, all live.
    pub(super) fn choose_among_in(&mut self, segment: u32, arms: &[u32]) -> Pull {
        let own = segment as usize + 1;
        self.count(own, 1);
        let (row, best) = match self.trial_among(arms) {
            Some(arm) => (0, arm),
            None => (own, self.least(own, arms)),
        };
        self.explore(segment, row, best, Some(arms))
    }

    /// Plays `best` for this row, or an arm drawn evenly from `among` (`None`: all live arms) for the segment's own
    /// row.
    #[inline(never)]
    pub(super) fn explore(&mut self, segment: u32, row: usize, best: u32, among: Option<&[u32]>) -> Pull {
        let (arm, propensity) = self.explore.choose(best, among, self.ledger.roster.live());
        let row = if arm == best { row } else { segment as usize + 1 };
        if arm == best && (row == 0 || among.is_none()) {
            self.take_turn(row, arm);
        }
        self.ensure_open(row, arm as usize);
        self.pull(segment, row, arm, propensity)
    }

    /// Plays the arms of an offer that are worth most in a segment, or explores others of them.
    #[cold]
    pub(super) fn choose_best(&mut self, segment: u32, offer: &mut Offer) {
        let own = segment as usize + 1;
        while offer.has_slots_left() {
            self.count(own, 1);
            let (among, live) = (offer.among(), self.ledger.roster.live());
            let loss = |&arm: &u32| (-offer.worth(arm, self.distribution(own, arm as usize).0), arm);
            let least = among.unwrap_or(live).iter().map(loss).min_by(|a, b| a.0.total_cmp(&b.0));
            let (loss, best) = least.unwrap_or((f64::INFINITY, 0));
            if offer.sure_above(-loss).is_some() {
                return self.choose_sure(segment, offer);
            }
            let (arm, propensity) = self.explore.choose(best, among, live);
            self.ensure_open(own, arm as usize);
            offer.choose(self.pull(segment, own, arm, propensity), arm, f64::NAN);
        }
    }

    /// Plays what is sure, or explores an arm in a segment.
    fn choose_sure(&mut self, segment: u32, offer: &mut Offer) {
        let own = segment as usize + 1;
        let (arm, propensity) = self.explore.choose_sure(offer);
        let Some(arm) = arm else { return offer.abstain(propensity) };
        self.ensure_open(own, arm as usize);
        offer.choose(self.pull(segment, own, arm, propensity), arm, f64::NAN);
    }

    /// Chooses different arms for the slots of an offer. Each slot counts as one decision.
    pub(super) fn choose_slate(&mut self, segment: u32, offer: &mut Offer) {
        let (own, slots) = (segment as usize + 1, offer.slots as usize);
        self.count(own, slots as u64);
        let arms = offer.arms();
        if arms.is_empty() {
            return self.choose_sure(segment, offer);
        }
        let best = self.leading(own, arms, offer, slots);
        let sure = offer.sure_above(best).filter(|_| self.has_released());
        let leading = sure.map_or(best, |sure| sure.worth);
        let trial = match offer.worths {
            None => self.trial_among(arms),
            Some(worths) => self.trial_for(arms, worths, leading, offer.sure),
        };
        self.rank(own, offer, leading, slots, trial);
        // What is sure was played in all decisions, as it were: it needs no rewards to be known.
        if sure.is_some() && trial.is_none() && self.ranks[0].0 >= self.decisions(own).ln() {
            return self.choose_sure(segment, offer);
        }
        for slot in 0..slots {
            let (best, rest) = (self.ranks[slot].1, self.ranks.len() - slot);
            if self.explore.tosses() {
                let drawn = slot + self.explore.coins.below(rest as u64) as usize;
                let (kept, rank) = (drawn.min(slots - 1), self.ranks[drawn]);
                // Drawing an arm from outside the ranked ones drops the last ranked arm, which is no longer needed.
                self.ranks[drawn] = self.ranks[kept];
                self.ranks[kept] = rank;
                self.ranks[slot..=kept].rotate_right(1);
            }
            let arm = self.ranks[slot].1;
            let propensity = self.explore.mix(1.0 / rest as f64, f64::from(u8::from(arm == best)));
            let row = if Some(arm) == trial { 0 } else { own };
            if row == 0 {
                self.take_turn(0, arm);
            } else {
                self.open_as_now(row, arm as usize);
            }
            offer.choose(self.pull(segment, row, arm, propensity), arm, f64::NAN);
        }
    }

    /// Returns the `slots`-th largest worth of these arms, all different. Keeps the arms to be ranked.
    pub(super) fn leading(&mut self, row: usize, arms: &[u32], offer: &Offer, slots: usize) -> f64 {
        let mut ranks = std::mem::take(&mut self.ranks);
        ranks.clear();
        ranks.extend(arms.iter().map(|&arm| (-offer.worth(arm, self.distribution(row, arm as usize).0), arm)));
        let leading = -ranks.select_nth_unstable_by(slots - 1, by_index).1.0;
        self.ranks = ranks;
        leading
    }

    /// Ranks these arms: the trial's arm comes first, then those with the smallest indices, up to `slots`. An arm that
    /// cannot be worth more than `leading` has an infinite index unless it leads.
    pub(super) fn rank(&mut self, row: usize, offer: &Offer, leading: f64, slots: usize, trial: Option<u32>) {
        let mut ranks = std::mem::take(&mut self.ranks);
        let caution = self.caution(row);
        for (index, arm) in &mut ranks {
            let mean = f64::min(offer.mean(*arm, leading), 1.0);
            *index = if Some(*arm) == trial { f64::NEG_INFINITY } else { self.index(row, *arm, mean, caution) };
        }
        ranks.select_nth_unstable_by(slots - 1, by_index);
        ranks[..slots].sort_unstable_by(by_index);
        self.ranks = ranks;
    }

    /// Whether this decision takes part in the trial of an arm.
    #[inline]
    pub(super) fn takes_part(&self, arm: u32) -> bool {
        self.rates[arm as usize].left > 0 || self.ledger.facts.decisions.wrapping_mul(GOLDEN) >> 61 == 0
    }

    /// Returns the arm of these whose trial this decision takes part in.
    pub(super) fn trial_among(&mut self, arms: &[u32]) -> Option<u32> {
        if !self.trial {
            return None;
        }
        let mut arm = self.turns[0].best;
        if !arms.contains(&arm) {
            let index = |rate: &Rate| self.rule.index(rate, self.rule.largest / rate.mean);
            arm = smallest(arms.iter().filter_map(|&arm| Some((index(&self.rates[arm as usize])?, arm))))?;
            self.ensure_open(0, arm as usize);
        }
        self.takes_part(arm).then_some(arm)
    }

    /// The same for a request with worths. It takes part only in the trial of an arm that may be its best one, so a trial
    /// waits for no arm whose value is too low. Arms are compared by what they, and what is sure, are worth by their rates,
    /// whatever the largest rate.
    pub(super) fn trial_for(&mut self, arms: &[u32], worths: Worths, leading: f64, sure: Option<Sure>) -> Option<u32> {
        let rate = |arm: u32| self.rates[arm as usize].mean;
        let least = sure.map_or(f64::NEG_INFINITY, |sure| sure.worth);
        let largest = arms.iter().map(|&arm| worths.of(arm, rate(arm))).fold(least, f64::max);
        let able = arms.iter().filter(|&&arm| worths.mean(arm, leading) < 1.0);
        let index = |arm: u32| self.rule.index(&self.rates[arm as usize], worths.mean(arm, largest) / rate(arm));
        let arm = smallest(able.filter_map(|&arm| Some((index(arm)?, arm))))?;
        self.ensure_open(0, arm as usize);
        self.takes_part(arm).then_some(arm)
    }

    /// Returns the arm that a row plays now.
    #[inline]
    pub(super) fn current(&mut self, row: usize) -> u32 {
        if self.turns[row].left == 0 && row > 0 {
            let best = self.least(row, self.ledger.roster.live());
            self.turn(row, best);
        }
        self.turns[row].best
    }

    /// Returns the number of decisions until arms are compared again in a row; in trials, that the arm's trial needs.
    #[inline]
    pub(super) fn left(&mut self, row: usize, arm: u32) -> &mut u32 {
        if row == 0 { &mut self.rates[arm as usize].left } else { &mut self.turns[row].left }
    }

    /// Counts a decision for the arm that a row plays now.
    #[inline]
    pub(super) fn take_turn(&mut self, row: usize, arm: u32) {
        let left = self.left(row, arm);
        *left = left.saturating_sub(1);
    }
}
