//! The choice among eligible arms, by worths, and for several slots.

use super::{Comparison, DpImed, GOLDEN};
use crate::policy::contract::Pull;
use crate::request::{Offer, Worths};

impl DpImed {
    /// Pulls a uniformly drawn arm of these; `None`: of all live ones. For a [pilot](super::super::clipped), whose pulls count
    /// as others do until their rewards arrive.
    pub(in super::super) fn play_evenly(&mut self, among: Option<&[u32]>) -> Pull {
        let arms = among.unwrap_or(self.batched.ledger.roster.live());
        let arm = arms[self.plan.explore.coins.below(arms.len() as u64) as usize];
        let even = 1.0 / arms.len() as f64;
        self.pull(arm as usize, even)
    }

    /// Counts what the slots of a request lack of an examination, after its choices.
    pub(in super::super) fn count_unexamined(&mut self, offer: &Offer) {
        for choice in offer.choices().iter().filter(|choice| choice.unexamined > 0) {
            self.plan.arms[choice.arm as usize].pulls -= u64::from(choice.unexamined);
        }
    }

    /// The arm to pull, where `best` has the smallest index of all: the leading arm of these with the smallest index,
    /// unless `best` is below it by more than the [`margin`](Chernoff::margin).
    pub(super) fn prefer_leading(&mut self, mut best: usize, arms: &[u32], comparison: &Comparison) -> usize {
        let margin = self.plan.index.margin(self.batched.ledger.roster.live().len());
        let leading = self.score(comparison.leader, comparison);
        if margin > 0.0 && self.score(best, comparison) < leading {
            let mut most = self.index_in(best, comparison) + margin;
            for arm in arms.iter().map(|&arm| arm as usize) {
                if self.score(arm, comparison) >= leading {
                    let index = self.index_in(arm, comparison);
                    if index < most {
                        (best, most) = (arm, index);
                    }
                }
            }
        }
        best
    }

    /// Pulls the arm with the smallest index of these, or explores another of them.
    pub(super) fn play_among(&mut self, arms: &[u32], comparison: &Comparison) -> Pull {
        arms.iter().for_each(|&arm| self.lower_unless_leading(arm as usize, comparison));
        loop {
            let best = self.least_of(arms, comparison.point);
            let best = self.prefer_leading(best, arms, comparison);
            if self.has_pulls_left(best, comparison) {
                return self.play(best, comparison, Some(arms));
            }
        }
    }

    /// Lowers the batch that an arm has as a leader, if it does not lead in this request.
    #[inline]
    pub(super) fn lower_unless_leading(&mut self, arm: usize, comparison: &Comparison) {
        if self.plan.arms[arm].leads && !self.leads(arm, comparison) {
            self.lower(arm, comparison);
        }
    }

    #[inline(never)]
    pub(super) fn lower(&mut self, arm: usize, comparison: &Comparison) {
        let size = self.usual_batch(arm, comparison);
        let size = self.batched.lower(arm, size);
        let requested = self.batched.closed(arm) + self.batched.part(size) * Pull::EXAMINATION;
        let plan = &mut self.plan.arms[arm];
        (plan.leads, plan.requested) = (false, plan.requested.min(requested.max(plan.pulls)));
    }

    /// The arm with the smallest index of these.
    pub(super) fn least_of(&mut self, arms: &[u32], point: f64) -> usize {
        // The arm with the lowest line comes first, so that few others need their index computed.
        let (mut best, mut least) = (arms[0], f64::INFINITY);
        for &arm in arms {
            let bound = self.plan.arms[arm as usize].bound(point);
            if bound < least {
                (best, least) = (arm, bound);
            }
        }
        least = self.index_of(best as usize, point);
        for &arm in arms {
            if self.plan.arms[arm as usize].bound(point) < least {
                let index = self.index_of(arm as usize, point);
                if index < least {
                    (best, least) = (arm, index);
                }
            }
        }
        best as usize
    }

    /// The same by worths, among the arms that may be the best one, if there are any: as many as there are slots lead.
    pub(super) fn least_valued(&mut self, arms: &[u32], worths: Worths, comparison: &Comparison) -> Option<usize> {
        let first = self.batched.ledger.facts.decisions.wrapping_mul(GOLDEN) >> 32;
        let (later, sooner) = arms.split_at(((first * arms.len() as u64) >> 32) as usize);
        let (mut best, mut least) = (None, f64::INFINITY);
        for &arm in sooner.iter().chain(later) {
            let mean = worths.mean(arm, comparison.point);
            if mean < 1.0 || self.score(arm as usize, comparison) >= comparison.point {
                let index = self.valued_index_of(arm as usize, f64::min(mean, 1.0));
                if index < least {
                    (best, least) = (Some(arm as usize), index);
                }
            }
        }
        best
    }

    /// The best of these leading arms, unless one of the others is to be explored. `None`: what is sure leads, and no arm is.
    pub(super) fn least_of_others(
        &mut self,
        others: &[u32],
        leading: &[u32],
        comparison: &Comparison,
    ) -> Option<usize> {
        let least = match (others, comparison.worths) {
            ([], _) => None,
            (_, None) => Some(self.least_of(others, comparison.point)),
            (_, Some(worths)) => self.least_valued(others, worths, comparison),
        };
        let best = leading.last().map(|&best| best as usize);
        let Some(explored) = least.filter(|_| best.is_some() || comparison.sure.is_some()) else {
            let any = others.first().map_or(comparison.leader, |&arm| arm as usize);
            return best.or(least).or(comparison.sure.is_none().then_some(any));
        };
        let theirs = match best {
            None => self.leaders_rewards(comparison).ln(),
            Some(_) => {
                let indices = leading.iter().map(|&arm| self.index_in(arm as usize, comparison));
                let most = indices.fold(f64::NEG_INFINITY, f64::max);
                0.5 * (most + self.index_in(comparison.leader, comparison))
            }
        };
        let margin = self.plan.index.margin(self.batched.ledger.roster.live().len());
        if self.index_in(explored, comparison) + margin < theirs { least } else { best }
    }

    /// Pulls the arm with the smallest index of these that are [sorted](Self::sort_leading), where leading arms come in
    /// the order of their score. `None`: nothing is pulled, because what is sure is better.
    pub(super) fn play_leading(&mut self, arms: &[u32], comparison: &Comparison) -> Option<Pull> {
        arms.iter().for_each(|&arm| self.lower_unless_leading(arm as usize, comparison));
        let first = arms.partition_point(|&arm| self.rank(arm, comparison) == f64::NEG_INFINITY);
        loop {
            let best = self.least_of_others(&arms[..first], &arms[first..], comparison)?;
            if self.has_pulls_left(best, comparison) {
                return Some(self.play(best, comparison, Some(arms)));
            }
        }
    }

    /// Sorts arms so that the leading ones come last, the best one at the end.
    pub(super) fn sort_leading(&self, arms: &mut [u32], comparison: &Comparison) {
        let mut others = 0;
        for place in 0..arms.len() {
            if self.rank(arms[place], comparison) == f64::NEG_INFINITY {
                arms.swap(others, place);
                others += 1;
            }
        }
        let rank = |arm: u32| self.rank(arm, comparison);
        arms[others..].sort_unstable_by(|&a, &b| f64::total_cmp(&rank(a), &rank(b)).then(a.cmp(&b)));
    }

    /// A leading arm's score; the smallest number for others.
    pub(super) fn rank(&self, arm: u32, comparison: &Comparison) -> f64 {
        match self.score(arm as usize, comparison) {
            score if comparison.sure.is_none() && score >= self.score(comparison.leader, comparison) => score,
            _ => f64::NEG_INFINITY,
        }
    }

    /// The arm to pull with exploration, and its probability.
    #[inline(never)]
    pub(super) fn explore(&mut self, best: usize, comparison: &Comparison, among: Option<&[u32]>) -> (usize, f64) {
        let (arm, propensity) = self.plan.explore.choose(best as u32, among, self.batched.ledger.roster.live());
        while !self.has_pulls_left(arm as usize, comparison) {}
        (arm as usize, propensity)
    }
}
