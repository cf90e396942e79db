//! DP-IMED, the recommended policy: the arm with the smallest [index](super::index) is pulled. [`arms`](super::arms)
//! collects and releases.
//!
#![doc = include_str!("../../../docs/theory/imed.md")]
#![doc = include_str!("../../../docs/theory/min-index.md")]

mod slots;

use super::arms::BatchedArms;
use super::curve::{Curve, NATS};
use super::explore::Explore;
use super::index::{self, Chernoff};
use super::released::Evidence;
use super::{ArmChange, Batched, Plan};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::memory::{WipedVec, try_with_capacity};
use crate::moving::{Archive, persist};
use crate::os::DefaultRounding;
use crate::policy::contract::Pull;
use crate::random::Seed;
use crate::request::{Offer, Sure, Worths};
use crate::tournament::{Line, Tournament};

/// DP-IMED: pulls the arm with the smallest index.
pub type DpImed = Batched<ImedPlan>;

/// Its plan.
pub struct ImedPlan {
    index: Chernoff,
    arms: WipedVec<ArmPlan>,
    explore: Explore,
    /// The arms by their lines, or by their indices if these are computed.
    order: Tournament,
    /// Arms whose indices are in `order`.
    computed: Vec<u32>,
    /// The current point. `stale`: whether some indices in `order` are of an earlier one.
    point: f64,
    stale: bool,
    /// Whether the lowest entry of `order` is an index of the current point.
    is_exact: bool,
    /// The arm to pull, if exact.
    best: usize,
}

/// The pulls planned for an arm, all counted in this handle's decisions for it since the handle was made, in units of an
/// [examination](Pull::EXAMINATION): closed <= awaited <= requested.
struct ArmPlan {
    /// Decisions without the cancelled ones; less than one above what was requested, and at most that where all slots are
    /// always examined.
    pulls: u64,
    /// End of the batches that pending decisions cover.
    awaited: u64,
    /// End of the last batch that was requested.
    requested: u64,
    /// The last computed indices, each with its point (NaN: none), and where the next one goes.
    known: [(f64, f64); POINTS],
    next: u8,
    /// A line nowhere above the index.
    line: Line,
    /// Position in `computed`, if the arm is there.
    place: Option<u32>,
    /// Whether a batch was requested because the arm led in a request of its kind.
    leads: bool,
    /// The index at the points of requests with worths.
    curve: Curve,
}

/// What the arms of a request are compared by.
#[derive(Clone, Copy)]
struct Comparison<'a> {
    /// The best arm, or the m-th best one for m slots.
    leader: usize,
    /// The point of all arms; with worths V, that of the leader.
    point: f64,
    worths: Option<Worths<'a>>,
    /// What is sure, if that leads in place of an arm.
    sure: Option<Sure>,
    /// Whether other requests may have other leaders: this one has eligible arms, slots or worths.
    is_special: bool,
    /// Whether there is only one arm, so that there is nothing to lead.
    is_alone: bool,
}

impl Comparison<'_> {
    fn plain(leader: usize, point: f64) -> Comparison<'static> {
        Comparison { leader, point, worths: None, sure: None, is_special: false, is_alone: false }
    }

    fn special(leader: usize, point: f64, arms: usize) -> Comparison<'static> {
        Comparison { is_special: true, is_alone: arms == 1, ..Comparison::plain(leader, point) }
    }

    /// What an arm with this mean is worth.
    #[inline]
    fn worth(&self, arm: usize, mean: f64) -> f64 {
        self.worths.map_or(mean, |worths| worths.of(arm as u32, mean))
    }
}

impl ArmPlan {
    const NEW: ArmPlan = ArmPlan {
        pulls: 0,
        awaited: 0,
        requested: 0,
        known: [UNKNOWN; POINTS],
        next: 0,
        line: FIRST,
        place: None,
        leads: false,
        curve: Curve::UNKNOWN,
    };

    /// The index at this point, if it is among the last computed ones.
    #[inline]
    fn index(&self, point: f64) -> Option<f64> {
        self.known.iter().find(|&&(at, _)| at == point).map(|&(_, index)| index)
    }

    /// A lower bound of the index at this point.
    #[inline]
    fn bound(&self, point: f64) -> f64 {
        self.index(point).unwrap_or_else(|| self.line.at(point))
    }
}

/// Indices kept for each arm. Plain requests, each number of slots, and sets of eligible arms have different leaders,
/// so an index is needed at several points in turn. (With 25 eligible arms at random of 50, a decision takes 12 us with
/// one, 5 with four, 1.6 with eight and 1.4 with sixteen.)
const POINTS: usize = 8;
/// 2^64 over the golden ratio: its multiples are evenly spread.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const UNKNOWN: (f64, f64) = (f64::NAN, 0.0);

/// Arms without evidence come before all others. Once pending decisions cover their first batch, they come after all
/// others, in turn.
const FIRST: Line = Line::level(-1e15);
fn last(awaited: f64) -> Line {
    Line::level(1e15 + awaited)
}

impl DpImed {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<DpImed> {
        let arms = config.arms as usize;
        let batched = BatchedArms::new(config, seed)?;
        let plan = ImedPlan {
            index: Chernoff::new(config),
            arms: WipedVec::new(arms, |_| ArmPlan::NEW)?,
            explore: Explore::new(config, seed),
            order: Tournament::new(arms, FIRST)?,
            computed: try_with_capacity(arms)?,
            point: f64::NAN,
            stale: false,
            is_exact: false,
            best: 0,
        };
        Ok(Batched { batched, plan })
    }

    /// Maximum number of indices computed at one decision. Eight times as many may be replaced by their lines.
    const AT_ONCE: usize = 16;

    /// An arm's evidence, including what pending decisions cover.
    fn evidence(&self, arm: usize) -> Evidence {
        let mut evidence = self.batched.evidence(arm);
        let awaited = (self.plan.arms[arm].awaited - self.batched.closed(arm)) as f64 / Pull::EXAMINATION as f64;
        evidence.awaited = evidence.count + awaited * f64::from(self.batched.ledger.facts.share().sharers);
        evidence
    }

    /// Whether an arm without evidence has pending decisions whose rewards will fill its batch. A leader's batch may also
    /// lack rewards that nobody contributes.
    fn is_awaited(&self, arm: usize) -> bool {
        let (plan, closed) = (&self.plan.arms[arm], self.batched.closed(arm));
        let pending = plan.pulls - closed - self.batched.open_sum(arm).own();
        plan.awaited > closed && self.batched.is_filled_by(arm, pending)
    }

    /// An arm's index at this point, computed if it is not known yet.
    #[inline]
    fn index_of(&mut self, arm: usize, point: f64) -> f64 {
        match self.plan.arms[arm].index(point) {
            Some(index) => index,
            None => self.compute(arm, point),
        }
    }

    #[inline(never)]
    fn compute(&mut self, arm: usize, point: f64) -> f64 {
        let evidence = self.evidence(arm);
        let (index, line) = if !evidence.is_empty() {
            self.plan.index.at(&evidence, point)
        } else {
            let line = self.line_without_evidence(arm, &evidence);
            (line.base, line)
        };
        let plan = &mut self.plan.arms[arm];
        plan.known[plan.next as usize] = (point, index);
        (plan.next, plan.line) = ((plan.next + 1) % POINTS as u8, line);
        index
    }

    fn line_without_evidence(&self, arm: usize, evidence: &Evidence) -> Line {
        if self.is_awaited(arm) { last(evidence.awaited) } else { FIRST }
    }

    /// An arm's index in a request with worths, at this mean.
    #[inline]
    fn valued_index_of(&mut self, arm: usize, mean: f64) -> f64 {
        let distance = mean - self.batched.mean(arm);
        match self.plan.arms[arm].curve.at(distance) {
            Some(index) => index,
            None => self.compute_curve(arm, distance),
        }
    }

    #[inline(never)]
    fn compute_curve(&mut self, arm: usize, distance: f64) -> f64 {
        let evidence = self.evidence(arm);
        if evidence.is_empty() {
            return self.line_without_evidence(arm, &evidence).base;
        }
        let (mean, index) = (self.batched.mean(arm), &self.plan.index);
        let at = |distance: f64| index.at(&evidence, f64::min(mean + distance, 1.0)).0;
        self.plan.arms[arm].curve.compute(distance, || evidence.reach(NATS), at)
    }

    /// An arm's index in a request.
    fn index_in(&mut self, arm: usize, comparison: &Comparison) -> f64 {
        match comparison.worths {
            None => self.index_of(arm, comparison.point),
            Some(worths) => self.valued_index_of(arm, worths.mean(arm as u32, comparison.point).min(1.0)),
        }
    }

    /// The arm with the smallest index, exactly; or the leader while that arm is not known yet.
    #[inline]
    fn least(&mut self, leader: usize) -> usize {
        if !self.plan.is_exact {
            self.find_best();
        }
        if self.plan.is_exact { self.plan.best } else { leader }
    }

    /// Computes indices until the lowest entry is one. Computes at most [`AT_ONCE`](Self::AT_ONCE), so that no
    /// decision takes long; the next decision continues.
    #[inline(never)]
    fn find_best(&mut self) {
        let _rounding = DefaultRounding::set();
        let point = self.batched.mean(self.batched.leader()).max(0.0);
        if point != self.plan.point {
            (self.plan.point, self.plan.stale) = (point, true);
            self.plan.order.move_to(point);
        }
        let mut effort = 8 * Self::AT_ONCE;
        while self.plan.stale && effort > 0 {
            match self.plan.computed.last() {
                Some(&arm) => self.forget(arm as usize),
                None => self.plan.stale = false,
            }
            effort -= 1;
        }
        for _ in 0..effort / 8 {
            let arm = self.plan.order.winner();
            if self.plan.arms[arm].place.is_some() {
                let leader = self.batched.leader();
                let comparison = Comparison::plain(leader, point);
                self.plan.best = self.prefer_leading(arm, &[leader as u32], &comparison);
                self.lower_unless_leading(self.plan.best, &comparison);
                self.plan.is_exact = true;
                return;
            }
            let index = self.index_of(arm, point);
            self.plan.arms[arm].place = Some(self.plan.computed.len() as u32);
            self.plan.computed.push(arm as u32);
            self.plan.order.set(arm, Line::level(index));
        }
    }

    /// Replaces a computed index by the line below it.
    fn forget(&mut self, arm: usize) {
        if let Some(place) = self.plan.arms[arm].place.take() {
            self.plan.computed.swap_remove(place as usize);
            if let Some(&moved) = self.plan.computed.get(place as usize) {
                self.plan.arms[moved as usize].place = Some(place);
            }
        }
        if self.batched.ledger.roster.is_live(arm) {
            self.plan.order.set(arm, self.plan.arms[arm].line);
        }
    }

    /// Opens an arm's next batch for the requested pulls that are left, if there are any. If they exceed the batch, their
    /// batches double, so that releases come early. A leader's batch is always open, because others contribute to it.
    /// Returns this handle's part.
    fn open_next(&mut self, arm: usize) -> u64 {
        let left = self.plan.arms[arm].requested.saturating_sub(self.batched.closed(arm)).div_ceil(Pull::EXAMINATION);
        let doubling = self.batched.doubling(arm);
        let part = left.min(self.batched.part(doubling));
        if part > 0 {
            self.batched.open(arm, self.batched.whole(part).min(doubling));
        } else if self.batched.ledger.facts.duty().leads() {
            self.batched.open(arm, doubling);
        }
        part
    }

    /// Updates an arm whose open sum was released or contributed. The arm's next batch has `size` units of this handle.
    fn begin_batch(&mut self, arm: usize, size: u64) {
        let (plan, closed) = (&mut self.plan.arms[arm], self.batched.closed(arm));
        plan.leads = false;
        plan.requested = plan.requested.max(closed); // a batch may close with more than its size
        // A batch that the pending decisions do not fill is not awaited.
        plan.awaited = if plan.pulls < closed + size { closed } else { plan.awaited.max(closed) };
        self.invalidate(arm);
    }

    /// Discards an arm's indices. The arm comes first until one is computed again.
    fn invalidate(&mut self, arm: usize) {
        let plan = &mut self.plan.arms[arm];
        (plan.known, plan.line, plan.curve) = ([UNKNOWN; POINTS], FIRST, Curve::UNKNOWN);
        self.forget(arm);
        self.plan.is_exact = false;
    }

    /// Whether this arm, which has the smallest index, is to be pulled. If pending decisions cover its requested
    /// batch, its index changes, and the comparison must be repeated.
    #[inline]
    fn has_pulls_left(&mut self, arm: usize, comparison: &Comparison) -> bool {
        let plan = &self.plan.arms[arm];
        plan.pulls < plan.requested || self.has_pulls_left_after(arm, comparison)
    }

    /// The same for an arm that has had all its requested pulls.
    #[inline(never)]
    fn has_pulls_left_after(&mut self, arm: usize, comparison: &Comparison) -> bool {
        let _rounding = DefaultRounding::set();
        let plan = &mut self.plan.arms[arm];
        if plan.awaited < plan.requested {
            plan.awaited = plan.requested;
            self.invalidate(arm);
            return false;
        }
        self.request_batch(arm, comparison);
        true
    }

    /// Whether an arm is the leader of others, or better: with several slots some arms are. Before the first release no arm
    /// leads.
    #[inline]
    fn leads(&self, arm: usize, comparison: &Comparison) -> bool {
        if comparison.is_alone || comparison.sure.is_some() {
            return false;
        }
        let score = self.score(arm, comparison);
        if arm == comparison.leader { !score.is_nan() } else { score > self.score(comparison.leader, comparison) }
    }

    /// What an arm is worth by its released mean.
    #[inline]
    fn score(&self, arm: usize, comparison: &Comparison) -> f64 {
        comparison.worth(arm, self.batched.mean(arm))
    }

    /// N of the leader. What is sure was played in all decisions, as it were: it needs no rewards to be known.
    fn leaders_rewards(&self, comparison: &Comparison) -> f64 {
        match comparison.sure {
            Some(_) => self.batched.decisions(),
            None => index::rewards(&self.evidence(comparison.leader)),
        }
    }

    /// The number of rewards in the usual batch of an arm that does not lead.
    fn usual_batch(&mut self, arm: usize, comparison: &Comparison) -> u64 {
        let index = self.index_in(arm, comparison);
        let evidence = self.evidence(arm);
        let (leaders, margin) =
            (self.leaders_rewards(comparison), self.plan.index.margin(self.batched.ledger.roster.live().len()));
        self.batched.size(&evidence, self.plan.index.batch(&evidence, leaders, index, margin))
    }

    /// Requests one more batch for an arm.
    fn request_batch(&mut self, arm: usize, comparison: &Comparison) {
        let leads = self.leads(arm, comparison);
        let size = if leads {
            let evidence = self.evidence(arm);
            self.batched.size(&evidence, self.plan.index.leaders_batch(&evidence))
        } else {
            self.usual_batch(arm, comparison)
        };
        if leads && comparison.is_special {
            (self.plan.arms[arm].leads, self.plan.is_exact) = (true, false);
        }
        if self.plan.arms[arm].requested == self.batched.closed(arm) {
            self.batched.open(arm, size);
        }
        self.plan.arms[arm].requested += self.batched.part(size) * Pull::EXAMINATION;
    }

    /// Pulls the policy's choice `best`, or explores another of these arms.
    fn play(&mut self, best: usize, comparison: &Comparison, among: Option<&[u32]>) -> Pull {
        let (arm, propensity) = match self.plan.explore.share > 0.0 {
            true => self.explore(best, comparison, among),
            false => (best, 1.0),
        };
        self.pull(arm, propensity)
    }

    #[inline]
    fn pull(&mut self, arm: usize, propensity: f64) -> Pull {
        self.plan.arms[arm].pulls += Pull::EXAMINATION;
        self.batched.ledger.facts.decisions += 1;
        Pull::new(arm as u32, self.batched.ledger.facts.releases, propensity)
    }

    /// Chooses an arm where more than the planned pulls is to be considered.
    #[inline(never)]
    fn choose_again(&mut self) -> Pull {
        let leader = self.batched.leader(); // only a release changes it
        loop {
            let arm = self.least(leader);
            let comparison = Comparison::plain(leader, self.plan.point);
            if self.has_pulls_left(arm, &comparison) {
                return self.play(arm, &comparison, None);
            }
        }
    }

    /// Pulls the arm with the smallest index of these eligible ones.
    fn choose_among(&mut self, arms: &[u32]) -> Pull {
        let (leader, point) = self.batched.leader_of(arms);
        self.play_among(arms, &Comparison::special(leader, point, arms.len()))
    }

    fn choose_offered(&mut self, offer: &mut Offer) {
        let arms = offer.among().map_or(0, <[u32]>::len) + usize::from(offer.sure.is_some());
        let (leader, best) = self.batched.leader_in(offer, offer.slots as usize);
        let sure = offer.sure_above(best);
        let point = sure.map_or(best, |sure| sure.worth);
        let comparison = Comparison { worths: offer.worths, sure, ..Comparison::special(leader, point, arms) };
        self.sort_leading(offer.listed_mut(), &comparison);
        while let Some(arms) = offer.among().filter(|_| offer.has_slots_left()) {
            match self.play_leading(arms, &comparison) {
                Some(pull) => offer.choose(pull, pull.arm(), self.score(pull.arm() as usize, &comparison)),
                None => self.play_sure(offer),
            }
        }
    }

    /// Plays what is sure, or explores an arm.
    fn play_sure(&mut self, offer: &mut Offer) {
        let (arm, propensity) = self.plan.explore.choose_sure(offer);
        let Some(arm) = arm else { return self.batched.abstain(offer, propensity) };
        let comparison = Comparison::special(arm as usize, 0.0, 1);
        while !self.has_pulls_left(arm as usize, &comparison) {}
        offer.choose(self.pull(arm as usize, propensity), arm, f64::NAN);
    }

    fn play_best(&mut self, best: usize, among: Option<&[u32]>) -> Pull {
        let _rounding = DefaultRounding::set();
        let point = self.batched.mean(best).max(0.0);
        let comparison = match among {
            None => Comparison::plain(best, point),
            Some(arms) => Comparison::special(best, point, arms.len()),
        };
        while !self.has_pulls_left(best, &comparison) {}
        self.play(best, &comparison, among)
    }
}

impl Plan for ImedPlan {
    #[inline(always)] // into the one caller
    fn choose(policy: &mut DpImed) -> Pull {
        if policy.plan.is_exact
            && policy.plan.explore.is_off()
            && let Some(plan) = policy.plan.arms.get_mut(policy.plan.best)
            && plan.pulls < plan.requested
        {
            plan.pulls += Pull::EXAMINATION;
            policy.batched.ledger.facts.decisions += 1;
            return Pull::new(policy.plan.best as u32, policy.batched.ledger.facts.releases, 1.0);
        }
        policy.choose_again()
    }

    fn decide(policy: &mut DpImed, offer: &mut Offer) {
        match offer.is_outage && policy.choose_best(offer, DpImed::play_best, DpImed::play_sure) {
            true => (),
            false if offer.is_plain => policy.choose_plain(offer, DpImed::choose_among),
            false => policy.choose_offered(offer),
        }
        policy.count_unexamined(offer);
    }

    fn cancel(policy: &mut DpImed, pull: Pull) {
        let arm = pull.arm() as usize;
        let plan = &mut policy.plan.arms[arm];
        plan.pulls -= Pull::EXAMINATION - u64::from(pull.unexamined());
        if plan.pulls < plan.awaited {
            plan.awaited = policy.batched.closed(arm);
            policy.invalidate(arm);
        }
    }

    fn grow(&mut self) -> Result<()> {
        self.arms.reserve()?;
        self.order.reserve()?;
        self.computed.try_reserve(self.arms.len() + 1).map_err(|_| Error::NoMemory)
    }

    fn snapshot(policy: &mut DpImed, with: &mut Archive) -> Result<()> {
        if with.reads() {
            let retired = (0..policy.plan.arms.len()).filter(|&arm| !policy.batched.ledger.roster.is_live(arm));
            retired.for_each(|arm| policy.plan.order.set(arm, Line::NEVER));
        }
        Ok(())
    }

    fn changed(policy: &mut DpImed, arm: usize, change: ArmChange) {
        match change {
            ArmChange::Added => {
                policy.plan.arms.push(ArmPlan::NEW);
                policy.plan.order.push(FIRST);
                policy.plan.is_exact = false;
            }
            ArmChange::Retired => {
                policy.plan.order.set(arm, Line::NEVER);
                policy.plan.is_exact = false;
            }
            ArmChange::Duty => {
                policy.open_next(arm);
                policy.invalidate(arm);
            }
            ArmChange::Contributed => {
                policy.begin_batch(arm, policy.plan.arms[arm].requested.saturating_sub(policy.batched.closed(arm)));
            }
            ArmChange::Released => {
                let _rounding = DefaultRounding::set();
                let size = policy.open_next(arm);
                policy.begin_batch(arm, size * Pull::EXAMINATION);
                policy.refresh_some();
            }
            ArmChange::Evidence => policy.invalidate(arm),
            ArmChange::Moved => (),
        }
    }
}

persist!(ArmPlan { pulls, awaited, requested, leads } made { known, next, line, place, curve });

persist!(ImedPlan { arms } made { index, explore, order, computed, point, stale, is_exact, best });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::contract::Policy;
    use crate::policy::learner::AnyLearner;
    use crate::random::Random;
    use crate::request::{Limits, Offers, Request};
    use crate::reward::Reward;
    use crate::snapshot::{Reader, write};

    /// Checks that the arm has the smallest index of these, where every index is computed afresh, and those of leading
    /// arms are smaller by the margin. Returns whether the arm is known, and the margin changes the choice.
    fn is_the_least(policy: &DpImed, arm: u32, arms: &[u32], leader: usize, point: f64) -> bool {
        let known = |arm: u32| !policy.batched.evidence(arm as usize).is_empty();
        if !known(arm) {
            return false;
        }
        let margin = policy.plan.index.margin(policy.batched.ledger.roster.live().len());
        let leads = |arm: u32| policy.batched.mean(arm as usize) >= policy.batched.mean(leader);
        let index = |arm: u32| policy.plan.index.at(&policy.evidence(arm as usize), point).0;
        let compared = |arm: u32| if leads(arm) { index(arm) - margin } else { index(arm) };
        let least = compared(arm);
        for &other in arms.iter().filter(|&&other| known(other)) {
            assert!(compared(other) >= least - 1e-6 * least.abs(), "{} before {least}", compared(other));
        }
        arms.iter().any(|&other| known(other) && index(other) < index(arm) - 1e-6)
    }

    /// Plays at random for a while. At the end of every batch, and in every request of several slots or of eligible arms,
    /// the arm that is pulled [`is_the_least`]. Each reward is in one open batch or in one release. Returns how often the
    /// margin has changed the choice.
    fn plays_the_least(mut policy: DpImed, random: &mut Random) -> [u32; 2] {
        let mut waiting: Vec<Pull> = Vec::new();
        let (mut checks, mut answered, mut changed) = (0, 0, [0; 2]);
        for step in 0..20_000u32 {
            let in_flight = [0, 0, 300][step as usize / 1000 % 3];
            let was_exact = policy.plan.is_exact;
            let pull = policy.choose();
            let (arm, point) = (pull.arm() as usize, policy.plan.point);
            if !was_exact && policy.plan.is_exact && pull.propensity > 0.5 {
                // Of several arms with the largest mean, only the leader is preferred.
                let (leader, mean) = (policy.batched.leader(), |arm: u32| policy.batched.mean(arm as usize));
                let mut arms = policy.batched.ledger.roster.live().to_vec();
                arms.retain(|&arm| arm == leader as u32 || !(mean(arm) == mean(leader as u32)));
                checks += 1;
                changed[0] += u32::from(is_the_least(&policy, pull.arm(), &arms, leader, point));
            }
            let plan = &policy.plan.arms[arm];
            assert!(
                policy.batched.closed(arm) <= plan.awaited
                    && plan.awaited <= plan.requested
                    && plan.pulls <= plan.requested
            );
            waiting.push(pull);
            if step % 10 == 0 {
                // A request of three slots for the live arms of the first 25.
                let mut left = policy.batched.ledger.roster.live().to_vec();
                left.retain(|&arm| arm < 25);
                let (leader, point) = policy.batched.leader_at(&left, 3, 0.0, |_, mean| mean);
                let comparison = Comparison::special(leader, point, left.len());
                for _ in 0..3 {
                    let pull = policy.play_among(&left, &comparison);
                    if pull.propensity > 0.5 {
                        changed[1] += u32::from(is_the_least(&policy, pull.arm(), &left, leader, point));
                    }
                    assert!(left.contains(&pull.arm()));
                    left.retain(|&arm| arm != pull.arm());
                    waiting.push(pull);
                }
            }
            while waiting.len() > in_flight {
                let pull = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
                if random.below(20) == 0 {
                    policy.cancel(Pull::of(pull.arm()));
                } else {
                    let mean = f64::from(pull.arm() % 7) / 10.0 + 0.2;
                    policy.observe(
                        Pull::of(pull.arm()),
                        Reward::from_units((random.unit() < mean) as u32 * Reward::ONE as u32),
                    );
                    answered += 1;
                }
            }
            assert_eq!(policy.batched.collected(), answered);
            match step % 4000 {
                1 => policy.add_arm(policy.batched.ledger.roster.arms() as u64).unwrap(),
                2 if ![20, 5, 30].contains(&arm) => policy.retire_arm(arm as u32), // some of its rewards come later
                3 => drop(policy.choose_among(&[20, 5, 30])),
                _ => {}
            }
        }
        assert!(checks > 100, "{checks}");
        changed
    }

    #[test]
    fn the_lazy_order_is_the_exact_one() {
        for (epsilon, exploration) in [(0.1, 0.0), (1.0, 0.0), (0.5, 0.2)] {
            let mut seed = Seed::new(Some([9; 32])).unwrap();
            let config = Config { exploration, ..Config::new(40, epsilon) };
            let mut random = seed.stream();
            let changed = plays_the_least(DpImed::new(&config, &mut seed).unwrap(), &mut random);
            assert!(changed.iter().all(|&times| times > 10), "{changed:?}");
        }
    }

    /// An index that one kind of request has computed is still known when its turn comes again. Requests of one, two and
    /// three slots, and of eligible arms without the leader, have different points.
    #[test]
    fn requests_of_several_kinds_share_the_computed_indices() {
        let mut seed = Seed::new(Some([7; 32])).unwrap();
        let config = Config { max_slots: 3, ..Config::new(8, 1.0) };
        let mut policy = DpImed::new(&config, &mut seed).unwrap();
        let mut random = seed.stream();
        let mut offers = Offers::for_tests(&config, 8);
        let mut pulls = 0;
        while pulls < 300_000 {
            let mut chosen = Vec::with_capacity(3);
            match random.below(5) {
                0 => chosen.push(policy.choose()),
                1 => chosen.push(policy.choose_among(&[0, 2, 4, 6])),
                slots => {
                    let eligible: Vec<u32> = (0..8).collect();
                    let request = Request { slots: slots as u32 - 1, eligible: Some(&eligible), ..Request::default() };
                    let mut offer = offers.check(&request, policy.catalog(), &Limits::for_tests(0)).unwrap();
                    policy.choose_offered(&mut offer);
                    chosen.extend(offer.choices().iter().map(|choice| choice.pull));
                }
            }
            for pull in chosen {
                pulls += 1;
                let click = random.unit() < 0.2 + 0.01 * f64::from(pull.arm());
                policy.observe(Pull::of(pull.arm()), Reward::from_units(u32::from(click) * Reward::ONE as u32));
            }
        }
        let (count, releases) = (policy.plan.index.computed.get(), u64::from(policy.batched.ledger.facts.releases));
        assert!(releases > 50 && count < 10 * releases, "{count} indices, {releases} releases");
    }

    /// With thousands of arms, no decision computes or replaces more than it may. The leading arm is pulled while the
    /// smallest index is not known, and that is rare.
    #[test]
    fn nobody_waits_for_thousands_of_indices() {
        let mut seed = Seed::new(Some([3; 32])).unwrap();
        let config = Config::new(5000, 1.0);
        let mut policy = DpImed::new(&config, &mut seed).unwrap();
        let mut random = seed.stream();
        let (mut inexact, mut most) = (0, 0);
        for _ in 0..200_000 {
            let before = policy.plan.computed.len();
            let pull = policy.choose();
            if !policy.plan.is_exact {
                inexact += 1;
                assert_eq!(pull.arm() as usize, policy.batched.leader());
            }
            let after = policy.plan.computed.len();
            most = most.max(after.saturating_sub(before)).max(before.saturating_sub(after) / 8);
            let click = random.unit() < 0.2 + 0.5 * f64::from(pull.arm()) / 5000.0;
            policy.observe(Pull::of(pull.arm()), Reward::from_units(u32::from(click) * Reward::ONE as u32));
        }
        assert!(most <= DpImed::AT_ONCE && (1..10_000).contains(&inexact), "{most} {inexact}");
    }

    /// A restored arm continues where its releases end: no batch is requested, and no decision is pending.
    #[test]
    fn a_restored_arm_has_no_decision_to_make_up_for() {
        let mut seed = Seed::new(Some([5; 32])).unwrap();
        let config = Config::new(5, 0.5);
        let mut fresh = || DpImed::new(&config, &mut seed).unwrap();
        let (mut policy, mut next) = (fresh(), fresh());
        for turn in 0..3000 {
            let pull = policy.choose();
            if turn % 7 > 0 {
                policy.observe(Pull::of(pull.arm()), Reward::from_units(pull.arm() << 21));
            }
        }
        let bytes = write(usize::MAX, |to| policy.snapshot(&mut Archive::Out(to))).unwrap().seal();
        next.snapshot(&mut Archive::In(&mut Reader::new(&bytes).unwrap())).unwrap();
        for (arm, plan) in next.plan.arms.iter().enumerate() {
            assert_eq!([plan.pulls, plan.awaited, plan.requested, next.batched.closed(arm)], [0; 4]);
            assert_eq!(next.evidence(arm).awaited, policy.batched.evidence(arm).count);
        }
        // So the first decision requests a batch, and its reward is collected.
        let pull = next.choose();
        let arm = pull.arm() as usize;
        assert!(
            next.plan.arms[arm].requested > next.batched.closed(arm)
                && next.plan.arms[arm].pulls == next.batched.closed(arm) + Pull::EXAMINATION
        );
    }

    /// As long as no reward has arrived, all arms are pulled about equally often.
    #[test]
    fn without_rewards_no_arm_is_preferred() {
        let config = Config::new(5, 1.0);
        let mut policy = DpImed::new(&config, &mut Seed::new(Some([4; 32])).unwrap()).unwrap();
        let mut pulls = [0; 5];
        (0..10_000).for_each(|_| pulls[policy.choose().arm() as usize] += 1);
        assert!(pulls.iter().all(|pulls| (1800..2200).contains(pulls)), "{pulls:?}");
    }

    /// The first batch of every arm in turn is ceil(1/eps). Then the leader quadruples, and another arm's batch is
    /// between an eighth of its total and all of it, and is not always one of the two.
    #[test]
    fn batches_begin_and_grow_as_they_should() {
        let (mut leaders, mut others) = (Vec::new(), Vec::new());
        let config = Config::new(2, 0.1);
        let mut policy = DpImed::new(&config, &mut Seed::new(Some([2; 32])).unwrap()).unwrap();
        for _ in 0..100_000 {
            let (releases, before) =
                (policy.batched.ledger.facts.releases, [0, 1].map(|arm| policy.batched.closed(arm)));
            let pull = policy.choose();
            policy.observe(Pull::of(pull.arm()), Reward::from_units(u32::from(pull.arm() == 0) * Reward::ONE as u32));
            if policy.batched.ledger.facts.releases > releases {
                let arm = pull.arm() as usize;
                let (before, after) = (before[arm], policy.batched.closed(arm));
                if arm == 0 {
                    leaders.push(after / Pull::EXAMINATION)
                } else {
                    others.push((after - before) as f64 / before as f64)
                }
            }
        }
        assert_eq!(leaders, [10, 40, 160, 640, 2560, 10_240, 40_960]);
        assert_eq!(others[0], f64::INFINITY);
        assert!(others[1..].iter().all(|share| (0.125..=1.0).contains(share)), "{others:?}");
        assert!(others[1..].iter().any(|&share| share > 0.14 && share < 0.9), "{others:?}");
    }
}
