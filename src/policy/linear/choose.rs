//! How dp-linear chooses arms: by one of its draws of the model, evenly in the pilot, or the best in an outage.

use super::model::DRAWS;
use super::sample::RewardPurpose;
use super::{Linear, algebra};
use crate::policy::contract::Pull;
use crate::request::{NO_ARM, Offer, Row};

/// Number of decisions between redraws of one draw. (With 1, ads lose as much and items 6% less, which is within the
/// error, and a decision at d = 64 takes three times as long.)
pub(super) const RENEW: u64 = 4;

/// The probability of an arm in an even draw; `None`: of what is sure, which has none.
fn even(number: Option<usize>, arms: usize) -> f64 {
    number.map_or(0.0, |_| 1.0 / arms as f64)
}

impl Linear {
    /// Chooses one arm of an offer, by a draw of the models. Its row is kept until the decision's reward takes effect or
    /// the decision is cancelled.
    pub(super) fn draw(&mut self, offer: &mut Offer, arms: usize) {
        let (explores, purpose) = if self.plays_evenly() { (true, RewardPurpose::Model) } else { self.toss(offer) };
        self.row.purpose = purpose;
        let number = match explores && arms > 0 {
            true => Some(self.coins.below(arms as u64) as usize),
            false => {
                let draw = self.coins.below(DRAWS as u64) as usize;
                self.best(Some(draw), offer)
            }
        };
        let propensity = self.propensity(number, offer, arms);
        self.play(number, offer, propensity);
    }

    /// Plays what the models predict to be worth most, or explores.
    pub(super) fn play_best(&mut self, offer: &mut Offer, arms: usize) {
        let best = self.best(None, offer);
        let mut number = best;
        let (explores, purpose) = self.toss(offer);
        self.row.purpose = purpose;
        if explores && arms > 0 {
            number = Some(self.coins.below(arms as u64) as usize);
        }
        let own = f64::from(u8::from(number == best));
        let propensity = match self.exploration {
            0.0 => f64::NAN, // as always without it
            share => (1.0 - share) * own + share * even(number, arms),
        };
        self.play(number, offer, propensity);
    }

    /// Plays the arm at this place of an offer; `None`: what is sure.
    pub(super) fn play(&mut self, number: Option<usize>, offer: &mut Offer, propensity: f64) {
        let arm = match number {
            Some(number) => offer.among().and_then(|arms| arms.get(number)).copied(),
            None => offer.sure.map(|sure| sure.arm).filter(|&arm| arm != NO_ARM),
        };
        let Some(arm) = arm else {
            self.ledger.facts.decisions += 1;
            return offer.abstain(propensity);
        };
        if !self.shape.per_arm {
            self.is_large = self.spread_row(self.row_of(offer, arm));
        }
        self.oversized += u64::from(self.is_large);
        self.row.arm = arm;
        let slot = offer.ring_position();
        self.kept.keep(slot, &self.row);
        self.splitter.count(&self.row);
        if let Some(unit) = self.scale.see(self.size).filter(|_| self.is_pilot()) {
            self.rescale(unit);
        }
        self.ledger.facts.decisions += 1;
        self.refresh_next();
        offer.choose(Pull::new(slot as u32, self.ledger.facts.releases, propensity), arm, f64::NAN);
    }

    /// The row of an arm in an offer. With a model for each arm all of them have the same.
    #[inline]
    pub(super) fn row_of<'a>(&self, offer: &Offer<'a>, arm: u32) -> Row<'a> {
        let number = if self.shape.per_arm { 0 } else { offer.position(arm) };
        offer.rows.map_or(Row::Dense(&[]), |rows| rows.get(number, self.shape.features as usize))
    }

    /// Converts a request's row to the kept integers, and to x in units of C. Returns whether it is larger than C.
    pub(super) fn spread_row(&mut self, row: Row) -> bool {
        self.clear_x();
        let is_large;
        (self.size, is_large) = self.row.quantise(row, &self.scale);
        self.set_x();
        is_large
    }

    pub(super) fn clear_x(&mut self) {
        self.row.places().iter().for_each(|&j| self.x[1 + usize::from(j)] = 0.0);
    }

    pub(super) fn set_x(&mut self) {
        self.x[0] = 1.0;
        let grid = self.row.grid(self.scale.unit);
        for &j in self.row.places() {
            self.x[1 + usize::from(j)] = f64::from(self.row.r[usize::from(j)]) * grid;
        }
    }

    /// Returns the place of the arm with the largest x theta in this draw (`None`: with the posterior mean); with worths,
    /// of the arm that is worth most by the rate that this is the logit of. `None`: what is sure is worth as much.
    pub(super) fn best(&self, draw: Option<usize>, offer: &Offer) -> Option<usize> {
        let arms = offer.among().unwrap_or(&[]);
        let (mut best, mut largest) = (arms.first().map(|_| 0), f64::NEG_INFINITY);
        for (number, &arm) in arms.iter().enumerate() {
            let model = &self.models[self.model(arm)];
            let theta = draw.map_or(&*model.mean, |draw| model.draw(draw));
            let score = match self.shape.per_arm {
                true => self.x_dot(theta),
                false => self.row_of(offer, arm).score(&theta[1..], &self.scale),
            };
            let score = offer.worths.map_or(score, |worths| {
                let rest = if self.shape.per_arm { 0.0 } else { theta[0] };
                worths.of(arm, 1.0 / (1.0 + libm::exp(-(score + rest))))
            });
            if score > largest {
                (best, largest) = (Some(number), score);
            }
        }
        best.filter(|_| offer.sure_above(largest).is_none())
    }

    /// Returns x theta. Sums only the nonzero entries if these are few.
    #[inline]
    pub(super) fn x_dot(&self, theta: &[f64]) -> f64 {
        if 2 * self.row.places().len() > self.d() {
            return algebra::dot(&self.x, theta);
        }
        let each = |&j: &u16| self.x[1 + usize::from(j)] * theta[1 + usize::from(j)];
        self.x[0] * theta[0] + self.row.places().iter().map(each).sum::<f64>()
    }

    /// Writes the probability of each of these arms, the arms of an offer.
    pub(super) fn weigh(&self, offer: &Offer, arms: &[u32], weights: &mut [f64]) {
        let draws = if offer.is_outage { 0..1 } else { 0..DRAWS };
        let own = match self.plays_evenly() {
            true => 0.0,
            false if arms.is_empty() => 1.0,
            false => 1.0 - self.exploration,
        };
        for draw in draws.clone().filter(|_| own > 0.0) {
            let best = self.best((!offer.is_outage).then_some(draw), offer);
            let arm = best.map(|number| arms[number]).or(offer.sure.map(|sure| sure.arm));
            arm.into_iter().for_each(|arm| weights[arm as usize] += own / draws.len() as f64);
        }
        arms.iter().for_each(|&arm| weights[arm as usize] += (1.0 - own) / arms.len() as f64);
    }

    /// Returns the propensity of the arm at this place among those that are left; `None`: of what is sure.
    pub(super) fn propensity(&self, number: Option<usize>, offer: &Offer, arms: usize) -> f64 {
        if arms == 0 {
            return 1.0;
        }
        if self.plays_evenly() {
            return even(number, arms);
        }
        if self.exploration == 0.0 {
            return f64::NAN;
        }
        let share = (0..DRAWS).filter(|&draw| self.best(Some(draw), offer) == number).count() as f64 / DRAWS as f64;
        (1.0 - self.exploration) * share + self.exploration * even(number, arms)
    }

    /// Redraws one draw between releases and, with `forget_after`, refreshes one model to its faded evidence. After the
    /// pilot, and after the shrinkage has changed, refreshes one model instead.
    pub(super) fn refresh_next(&mut self) {
        if self.is_pilot() {
            return;
        }
        let models = self.models.len();
        if self.ready < models {
            self.refresh(self.ready);
            return;
        }
        if self.ledger.facts.decisions.is_multiple_of(RENEW) {
            self.cursor = (self.cursor + 1) % (DRAWS * models);
            self.models[self.cursor % models].redraw(self.cursor / models, &mut self.coins);
        }
        let decisions = self.ledger.facts.time.decisions_in(self.memory).min(1e18);
        let patience = (decisions / 16.0 / models as f64).max(64.0) as u64;
        if self.memory.is_finite() && self.ledger.facts.decisions.is_multiple_of(patience) {
            let model = (self.ledger.facts.decisions / patience % models as u64) as usize;
            self.fade(model);
            self.refit(model);
        }
    }
}
