//! DP-MED: draws each arm with a probability computed from its releases, and reports the probability.
//!
//! **Pure eps-DP** by Theorem P of [`crate::privacy`] (rho-zCDP with delta > 0). It needs no horizon and no tuning.
//! After each release arm i has the probability w_i/sum_j w_j with w_i = exp(-D'_i(mu*)), where mu* is the leading
//! mean and D' is the evidence in nats of an arm's releases against it ([`imed`](super::imed) has its proof). For an arm
//! without any evidence against it w_i is kappa: 1 for ten arms and fewer, and growing with their number as there. An arm
//! without a release has w_i = kappa too, until its decisions cover its first batch, and then 0 until that is released. So
//! a new arm takes at most half of the decisions, and no more of them than its first batch has while rewards are late.
//! Before any release all arms have the same probability. So every decision carries its exact propensity given
//! everything released before, and a log of decisions and rewards can evaluate other policies (inverse propensity).
//! Batches multiply an arm's total by 1.5, the leader's by 2.
//!
//! For a request with values v_a and costs c_a, arm i has the evidence D'_i((V + c_i)/v_i), where V is the largest worth,
//! value times mean minus cost ([`Curve`] interpolates it). An arm that cannot be worth more than V has the probability 0,
//! unless it is worth V. What is sure has the weight of a leader if it is worth V, and otherwise the probability 0.
//!
//! The policy follows Honda and Takemura (2011, MED: minimum empirical divergence), with divergences that account for
//! the noise. `forget_after` and `exploration` work as in [`imed`](super::imed).
//!
//! Cost: select O(log K), update O(1). The end of a batch computes D' of the released arm, or of all arms if the
//! leading mean has changed: at most 2^12 arms. `select_among` computes D' of its arms if the leading mean differs
//! from the last call's. About 490 bytes an arm.

use super::arms::BatchedArms;
use super::curve::{Curve, NATS};
use super::explore::{Explore, kappa};
use super::{ArmChange, Batched, Plan};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::memory::{WipedVec, try_with_capacity};
use crate::moving::{Archive, persist};
use crate::policy::contract::Pull;
use crate::random::Seed;
use crate::request::{Offer, Sure, Worths};

/// DP-MED: draws each arm with a probability.
pub type DpMed = Batched<MedPlan>;

/// Its plan.
pub struct MedPlan {
    arms: WipedVec<Weight>,
    /// For each live arm, in their order, the sum of the weights up to it. Capacity for one more.
    sums: Vec<f64>,
    explore: Explore,
    /// Whether the sums are up to date with the last releases.
    is_exact: bool,
}

struct Weight {
    /// The leading mean that the weight was computed for; NaN if there was a release since.
    at: f64,
    /// exp(-D').
    weight: f64,
    /// This handle's decisions for the arm since it was made, without the cancelled ones.
    pulls: u64,
    /// Whether these cover the first batch of an arm without a release.
    is_awaited: bool,
    /// D' at the points of requests with worths.
    curve: Curve,
}

impl Weight {
    const NEW: Weight = Weight { at: f64::NAN, weight: 0.0, pulls: 0, is_awaited: false, curve: Curve::UNKNOWN };
}

impl DpMed {
    pub fn new(config: &Config, seed: &mut Seed) -> Result<DpMed> {
        config.check_arms(MedPlan::MOST_ARMS)?;
        let arms = config.arms as usize;
        let batched = BatchedArms::new(config, seed)?;
        let plan = MedPlan {
            arms: WipedVec::new(arms, |_| Weight::NEW)?,
            sums: try_with_capacity(arms + 1)?,
            explore: Explore::new(config, seed),
            is_exact: false,
        };
        let mut policy = Batched { batched, plan };
        (0..arms).for_each(|arm| policy.open(arm));
        Ok(policy)
    }

    /// exp(-D'), computed at most once between releases.
    fn weight(&mut self, arm: usize, leading: f64) -> f64 {
        if self.plan.arms[arm].at != leading {
            let evidence = self.batched.evidence(arm);
            let exponent = evidence.exponent(leading).0;
            self.plan.arms[arm].weight = (-evidence.banded(leading, exponent)).exp();
            self.plan.arms[arm].at = leading;
        }
        self.plan.arms[arm].weight
    }

    /// Whether any of these arms has a release. If none has, all have the same probability.
    fn is_known(&self, arms: &[u32]) -> bool {
        arms.iter().any(|&arm| !self.batched.mean(arm as usize).is_nan())
    }

    /// Notes whether an arm's decisions cover its first batch, after a change of their number or of the batch.
    fn expect_rewards(&mut self, arm: usize) {
        let (closed, pulls) = (self.batched.closed(arm), self.plan.arms[arm].pulls * Pull::EXAMINATION);
        let pending = pulls.saturating_sub(closed);
        let is_awaited = self.batched.mean(arm).is_nan() && {
            let part = self.batched.part(self.batched.size(&self.batched.evidence(arm), 0.0));
            let missing = pending.saturating_sub(self.batched.open_sum(arm).own());
            pending >= part * Pull::EXAMINATION && self.batched.is_filled_by(arm, missing)
        };
        if std::mem::replace(&mut self.plan.arms[arm].is_awaited, is_awaited) != is_awaited {
            self.plan.is_exact = false;
        }
    }

    fn weight_among(&mut self, is_known: bool, arm: u32, leading: f64) -> f64 {
        if !is_known {
            return 1.0;
        }
        let weight = match self.batched.mean(arm as usize).is_nan() {
            true => f64::from(u8::from(!self.plan.arms[arm as usize].is_awaited)),
            false => self.weight(arm as usize, leading),
        };
        if weight == 1.0 { kappa(self.batched.ledger.roster.live().len()) } else { weight }
    }

    /// The weight of an arm in a request where V is the largest worth, if any is known: 0 if it cannot be the best one.
    fn valued_weight(&mut self, arm: u32, worths: Worths, best: Option<f64>) -> f64 {
        let mean = self.batched.mean(arm as usize);
        let Some(best) = best else { return 1.0 };
        let needed = worths.mean(arm, best);
        let leads = worths.of(arm, mean) >= best; // not if the mean is NaN
        if needed >= 1.0 && !leads {
            return 0.0;
        }
        if mean.is_nan() {
            return f64::from(u8::from(!self.plan.arms[arm as usize].is_awaited));
        }
        let distance = f64::min(needed, 1.0) - mean;
        let exponent = self.plan.arms[arm as usize].curve.at(distance).unwrap_or_else(|| {
            let evidence = self.batched.evidence(arm as usize);
            let at = |distance: f64| {
                let leading = f64::min(mean + distance, 1.0);
                evidence.banded(leading, evidence.exponent(leading).0)
            };
            self.plan.arms[arm as usize].curve.compute(distance, || evidence.reach(NATS), at)
        });
        (-exponent).exp()
    }

    /// Computes an arm's weight again before the next decision.
    fn invalidate(&mut self, arm: usize) {
        (self.plan.arms[arm].at, self.plan.arms[arm].curve) = (f64::NAN, Curve::UNKNOWN);
        self.plan.is_exact = false;
    }

    fn weigh_all(&mut self) {
        if self.plan.is_exact {
            return;
        }
        let leading = self.batched.mean(self.batched.leader());
        let is_known = self.is_known(self.batched.ledger.roster.live());
        self.plan.sums.clear();
        let mut sum = 0.0;
        for place in 0..self.batched.ledger.roster.live().len() {
            sum += self.weight_among(is_known, self.batched.ledger.roster.live()[place], leading);
            self.plan.sums.push(sum);
        }
        self.plan.is_exact = true;
    }

    /// Opens an arm's next batch.
    fn open(&mut self, arm: usize) {
        let evidence = self.batched.evidence(arm);
        let ratio = if arm == self.batched.leader() { 2.0 } else { 1.5 };
        let size = self.batched.size(&evidence, (ratio - 1.0) * evidence.count);
        self.batched.open(arm, size);
    }

    /// Draws one of these arms, of whose weights the sums up to each are known. If there is one sum more, it is that of
    /// what is sure, which exploration does not draw.
    fn draw(&mut self, arms: usize) -> (usize, f64) {
        let sums = &self.plan.sums;
        let (all, last) = (sums[sums.len() - 1], sums.len() - 1);
        let place = match self.plan.explore.tosses() {
            true => self.plan.explore.coins.below(arms as u64) as usize,
            false => {
                let point = self.plan.explore.coins.unit() * all;
                sums.partition_point(|&sum| sum <= point).min(last)
            }
        };
        let own = (sums[place] - if place > 0 { sums[place - 1] } else { 0.0 }) / all;
        let even = if place < arms { 1.0 / arms as f64 } else { 0.0 };
        (place, self.plan.explore.mix(even, own))
    }

    fn play(&mut self, arm: u32, propensity: f64) -> Pull {
        self.batched.ledger.facts.decisions += 1;
        self.plan.arms[arm as usize].pulls += 1;
        if self.batched.mean(arm as usize).is_nan() {
            self.expect_rewards(arm as usize);
        }
        Pull::new(arm, self.batched.ledger.facts.releases, propensity)
    }

    fn choose_among(&mut self, arms: &[u32]) -> Pull {
        let (_, leading) = self.batched.leader_of(arms);
        let is_known = self.is_known(arms);
        let mut all = 0.0;
        for &arm in arms {
            all += self.weight_among(is_known, arm, leading);
        }
        let mut drawn = arms[0];
        if self.plan.explore.tosses() {
            drawn = arms[self.plan.explore.coins.below(arms.len() as u64) as usize];
        } else {
            let mut point = self.plan.explore.coins.unit() * all;
            for &arm in arms {
                let weight = self.weight_among(is_known, arm, leading);
                if weight > 0.0 {
                    drawn = arm;
                    point -= weight;
                    if point < 0.0 {
                        break;
                    }
                }
            }
        }
        let own = self.weight_among(is_known, drawn, leading) / all;
        self.play(drawn, self.plan.explore.mix(1.0 / arms.len() as f64, own))
    }

    fn choose_offered(&mut self, offer: &mut Offer) {
        let (Some(arms), Some(worths)) = (offer.among(), offer.worths) else { return };
        let (sure, best) = self.best_worth(offer);
        // The sums of the weights up to each arm. Their memory is for all arms, so the next plain decision settles anew.
        self.plan.is_exact = false;
        self.plan.sums.clear();
        let mut sum = 0.0;
        for &arm in arms {
            sum += self.valued_weight(arm, worths, best);
            self.plan.sums.push(sum);
        }
        if sure.is_some() {
            self.plan.sums.push(sum + 1.0);
        }
        if arms.is_empty() {
            return self.play_sure(offer);
        }
        let (place, propensity) = self.draw(arms.len());
        match arms.get(place).copied().or(sure.and_then(|sure| sure.arm)) {
            Some(arm) => offer.choose(self.play(arm, propensity), arm, f64::NAN),
            None => self.batched.abstain(offer, propensity),
        }
    }

    /// What is sure, if it is worth as much as the best arm; and the largest worth, if any is known.
    fn best_worth(&self, offer: &Offer) -> (Option<Sure>, Option<f64>) {
        let (_, best) = self.batched.leader_in(offer, 1);
        let sure = offer.sure_above(best);
        (sure, sure.map(|sure| sure.worth).or((best > offer.least_worth()).then_some(best)))
    }

    /// Writes the weight of each of these arms, the arms of an offer, by its number. Returns what is sure, which has the weight 1.
    fn weigh(&mut self, offer: &Offer, arms: &[u32], weights: &mut [f64]) -> Option<Sure> {
        let (is_known, (sure, best)) = (self.is_known(arms), self.best_worth(offer));
        let leading = if arms.is_empty() { 0.0 } else { self.batched.leader_of(arms).1 };
        let leader = offer.among().map_or(self.batched.leader(), |_| self.batched.leader_in(offer, 1).0);
        let plays_best = offer.is_outage && !self.batched.mean(self.batched.leader()).is_nan();
        for &arm in arms {
            weights[arm as usize] = match offer.worths {
                _ if plays_best => f64::from(u8::from(sure.is_none() && arm as usize == leader)),
                Some(worths) => self.valued_weight(arm, worths, best),
                None => self.weight_among(is_known, arm, leading),
            };
        }
        sure
    }

    /// Plays what is sure, or explores an arm.
    fn play_sure(&mut self, offer: &mut Offer) {
        match self.plan.explore.choose_sure(offer) {
            (Some(arm), propensity) => offer.choose(self.play(arm, propensity), arm, f64::NAN),
            (None, propensity) => self.batched.abstain(offer, propensity),
        }
    }

    fn play_best(&mut self, best: usize, among: Option<&[u32]>) -> Pull {
        let (arm, propensity) = self.plan.explore.choose(best as u32, among, self.batched.ledger.roster.live());
        self.play(arm, propensity)
    }
}

impl Plan for MedPlan {
    /// With more the end of a batch could take longer than 50 ms.
    const MOST_ARMS: u32 = 1 << 12;

    fn choose(policy: &mut DpMed) -> Pull {
        policy.weigh_all();
        let (place, propensity) = policy.draw(policy.plan.sums.len());
        policy.play(policy.batched.ledger.roster.live()[place], propensity)
    }

    fn decide(policy: &mut DpMed, offer: &mut Offer) {
        match offer.is_outage && policy.choose_best(offer, DpMed::play_best, DpMed::play_sure) {
            true => (),
            false if offer.is_plain => policy.choose_plain(offer, DpMed::choose_among),
            false => policy.choose_offered(offer),
        }
    }

    fn weights(policy: &mut DpMed, offer: &Offer, weights: &mut [f64]) -> Result<()> {
        let listed = offer.among().unwrap_or(policy.batched.ledger.roster.live());
        let mut arms = try_with_capacity(listed.len())?;
        arms.extend_from_slice(listed);
        let sure = policy.weigh(offer, &arms, weights);
        let own = arms.iter().map(|&arm| weights[arm as usize]).sum::<f64>();
        let (all, even) = (own + f64::from(u8::from(sure.is_some())), 1.0 / arms.len() as f64);
        for &arm in &arms {
            weights[arm as usize] = policy.plan.explore.mix(even, weights[arm as usize] / all);
        }
        if let Some(arm) = sure.and_then(|sure| sure.arm) {
            weights[arm as usize] = if arms.is_empty() { 1.0 } else { policy.plan.explore.mix(0.0, 1.0 / all) };
        }
        Ok(())
    }

    fn cancel(policy: &mut DpMed, pull: Pull) {
        let arm = pull.arm() as usize;
        policy.plan.arms[arm].pulls -= 1;
        if policy.batched.mean(arm).is_nan() {
            policy.expect_rewards(arm);
        }
    }

    fn grow(&mut self) -> Result<()> {
        self.arms.reserve()?;
        self.sums.try_reserve(self.arms.len() + 2).map_err(|_| Error::NoMemory)
    }

    fn snapshot(policy: &mut DpMed, with: &mut Archive) -> Result<()> {
        if with.reads() {
            (0..policy.plan.arms.len()).for_each(|arm| policy.open(arm));
        }
        Ok(())
    }

    fn changed(policy: &mut DpMed, arm: usize, change: ArmChange) {
        match change {
            ArmChange::Added => {
                policy.plan.arms.push(Weight::NEW);
                policy.open(arm);
                policy.plan.is_exact = false;
            }
            ArmChange::Retired => policy.plan.is_exact = false,
            ArmChange::Duty => {
                policy.open(arm);
                policy.expect_rewards(arm);
            }
            ArmChange::Contributed | ArmChange::Moved => policy.expect_rewards(arm),
            ArmChange::Released => {
                policy.invalidate(arm);
                policy.refresh_some();
                policy.open(arm);
                policy.expect_rewards(arm);
            }
            ArmChange::Evidence => policy.invalidate(arm),
        }
    }
}

// Whether an arm's first batch is awaited follows from the rest.
persist!(Weight { pulls } made { at, weight, is_awaited, curve });

persist!(MedPlan { arms } made { sums, explore, is_exact });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::contract::Policy;
    use crate::policy::learner::AnyLearner;
    use crate::reward::Reward;

    /// Every propensity is the arm's weight over the sum of the weights, computed afresh; and the leader has kappa = 3.
    #[test]
    fn propensities_are_exact_and_prefer_the_leader() {
        let mut seed = Seed::new(Some([6; 32])).unwrap();
        let mut policy = DpMed::new(&Config::new(26, 1.0), &mut seed).unwrap();
        let mut coins = seed.stream();
        let mut leads = 0;
        for turn in 0..20_000 {
            let pull = policy.choose();
            if turn > 10_000 && turn % 100 == 0 {
                let leading = policy.batched.mean(policy.batched.leader());
                let weight = |arm: usize| {
                    let evidence = policy.batched.evidence(arm);
                    match policy.batched.mean(arm) >= leading {
                        true => 3.0,
                        false => (-evidence.banded(leading, evidence.exponent(leading).0)).exp(),
                    }
                };
                let all: f64 = (0..26).map(weight).sum();
                let expected = weight(pull.arm() as usize) / all;
                assert!((pull.propensity - expected).abs() < 1e-9, "{} {expected}", pull.propensity);
                leads += u32::from(pull.arm() as usize == policy.batched.leader());
            }
            let click = coins.unit() < 0.1 + 0.02 * f64::from(pull.arm());
            policy.observe(Pull::of(pull.arm()), Reward::from_units(u32::from(click) * Reward::ONE as u32));
        }
        assert!((10..90).contains(&leads), "{leads}");
    }

    /// An added arm has at most the leader's share until its decisions cover its first batch, and then none until that is
    /// released. A cancelled decision is made up for. So it is for plain requests, eligible arms and values.
    #[test]
    fn an_added_arm_takes_at_most_half_and_no_more_than_a_batch() {
        let (mut seed, new) = (Seed::new(Some([8; 32])).unwrap(), 3u32);
        let mut policy = DpMed::new(&Config::new(new, 0.02), &mut seed).unwrap();
        let mut coins = seed.stream();
        for _ in 0..20_000 {
            let pull = policy.choose();
            let click = coins.unit() < 0.1 + 0.3 * f64::from(pull.arm());
            policy.observe(Pull::of(pull.arm()), Reward::from_units(u32::from(click) * Reward::ONE as u32));
        }
        policy.add_arm(policy.batched.ledger.roster.arms() as u64).unwrap();
        let size = policy.batched.size(&policy.batched.evidence(new as usize), 0.0);
        let (arms, mut pulls, mut waiting) = ([0, 1, 2, new], 0, Vec::new());
        assert!(size >= 50);
        for turn in 0..10_000 {
            let pull = if turn % 2 == 0 { policy.choose() } else { policy.choose_among(&arms) };
            if pull.arm() == new {
                assert!(pulls < size && pull.propensity <= 0.5, "{turn}: {pulls} {}", pull.propensity);
                (pulls, _) = (pulls + 1, waiting.push(pull));
            } else {
                policy.observe(Pull::of(pull.arm()), Reward::from_units((pull.arm() << 23) * u32::from(turn % 8 > 0)));
            }
            if turn == 5000 {
                assert_eq!(pulls, size);
                waiting.drain(..20).for_each(|pull| policy.cancel(pull));
                pulls -= 20;
            }
        }
        assert_eq!(pulls, size);
        waiting.into_iter().for_each(|pull| policy.observe(Pull::of(pull.arm()), Reward::MIN));
        assert!(!policy.batched.mean(new as usize).is_nan()); // it is released
    }
}
