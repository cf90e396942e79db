//! How dp-linear chooses arms: by one of its draws of the model, evenly in the pilot, or the best in an outage.

use super::algebra::sigma;
use super::model::DRAWS;
use super::sample::RewardPurpose;
use super::{Linear, algebra};
use crate::policy::contract::Pull;
use crate::request::{Offer, Row};

/// Number of decisions between redraws of one draw. (With 1, ads lose as much and items 6% less, which is within the
/// error, and a decision at d = 64 takes three times as long.)
pub(super) const RENEW: u64 = 4;

/// Returns the arm of an offer with the largest score, of equal ones the first; `None`: what is sure is worth as much.
/// `score` returns an arm's score and its logit. With worths the score is what the arm is worth by the rate of this
/// logit.
#[inline]
pub(super) fn best(offer: &Offer, mut score: impl FnMut(u32) -> (f64, f64)) -> Option<u32> {
    let arms = offer.arms();
    let (mut best, mut largest) = (arms.first().copied(), f64::NEG_INFINITY);
    for &arm in arms {
        let (score, logit) = score(arm);
        let score = offer.worths.map_or(score, |worths| worths.of(arm, sigma(logit)));
        if score > largest {
            (best, largest) = (Some(arm), score);
        }
    }
    best.filter(|_| offer.sure_above(largest).is_none())
}

impl Linear {
    /// Chooses one arm of an offer, by a draw of the models, in an outage by their means, or evenly.
    pub(super) fn draw(&mut self, offer: &mut Offer) {
        let (explores, purpose) = if self.plays_evenly() { (true, RewardPurpose::Model) } else { self.toss(offer) };
        self.row.head.purpose = purpose;
        let arms = offer.arms();
        let arm = match explores && !arms.is_empty() {
            true => Some(arms[self.models.coins.below(arms.len() as u64) as usize]),
            false if self.plays_means(offer) => self.best(None, offer),
            false => {
                let draw = self.models.coins.below(DRAWS as u64) as usize;
                self.best(Some(draw), offer)
            }
        };
        let propensity = self.propensity(arm, offer);
        self.play(arm, offer, propensity);
    }

    /// Plays this arm of an offer; `None`: what is sure. Its row is kept until the decision's reward takes effect or
    /// the decision is cancelled.
    fn play(&mut self, arm: Option<u32>, offer: &mut Offer, propensity: f64) {
        let Some(arm) = arm.or(offer.sure.and_then(|sure| sure.arm)) else {
            self.ledger.facts.decisions += 1;
            return offer.abstain(propensity);
        };
        if !self.shape.per_arm {
            self.take_row(self.shape.row(offer, offer.position(arm)));
        }
        self.saved.oversized += u64::from(self.is_large);
        self.row.head.arm = arm;
        let position = offer.ring_position();
        self.kept.keep(position, &self.row);
        self.splitter.count(&self.row);
        if let Some(unit) = self.saved.scale.see(self.size).filter(|_| self.is_pilot()) {
            self.rescale(unit);
        }
        self.ledger.facts.decisions += 1;
        self.refresh_next();
        offer.choose(Pull::new(position as u32, self.ledger.facts.releases, propensity), arm, f64::NAN);
    }

    /// Converts a request's row to the kept integers, and to x in units of C.
    pub(super) fn take_row(&mut self, row: Row) {
        self.clear_x();
        (self.size, self.is_large) = self.row.quantise(row, &self.saved.scale);
        self.set_x();
    }

    pub(super) fn clear_x(&mut self) {
        self.row.places().iter().for_each(|&j| self.x[1 + usize::from(j)] = 0.0);
    }

    pub(super) fn set_x(&mut self) {
        self.x[0] = 1.0;
        let grid = self.row.grid(self.saved.scale.unit);
        for &j in self.row.places() {
            self.x[1 + usize::from(j)] = f64::from(self.row.r[usize::from(j)]) * grid;
        }
    }

    /// Whether decisions are by the models' means, and not by draws.
    fn plays_means(&self, offer: &Offer) -> bool {
        offer.is_outage && !self.plays_evenly()
    }

    /// Returns what theta a decision may take, each with the same probability: a draw, or the mean (`None`).
    fn thetas(&self, offer: &Offer) -> impl ExactSizeIterator<Item = Option<usize>> + use<> {
        let plays_means = self.plays_means(offer);
        (0..if plays_means { 1 } else { DRAWS }).map(move |draw| (!plays_means).then_some(draw))
    }

    /// Returns the arm with the largest x theta in this draw (`None`: with the mean); with worths, the arm that is
    /// worth most. `None`: what is sure is worth as much.
    fn best(&self, draw: Option<usize>, offer: &Offer) -> Option<u32> {
        best(offer, |arm| {
            let model = &self.models.all[self.shape.model(arm)];
            let theta = draw.map_or(&*model.mean, |draw| model.draw(draw));
            if self.shape.per_arm {
                let logit = self.x_dot(theta);
                return (logit, logit);
            }
            // The intercept, which all arms share, does not order them.
            let score = self.shape.row(offer, offer.position(arm)).score(&theta[1..], &self.saved.scale);
            (score, score + theta[0])
        })
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

    /// Writes the probability of each arm of an offer.
    pub(super) fn weigh(&self, offer: &Offer, weights: &mut [f64]) {
        let (arms, thetas) = (offer.arms(), self.thetas(offer));
        let own = match self.plays_evenly() {
            true => 0.0,
            false if arms.is_empty() => 1.0,
            false => 1.0 - self.exploration,
        };
        let share = own / thetas.len() as f64;
        for theta in thetas.filter(|_| own > 0.0) {
            let arm = self.best(theta, offer).or(offer.sure.and_then(|sure| sure.arm));
            arm.into_iter().for_each(|arm| weights[arm as usize] += share);
        }
        arms.iter().for_each(|&arm| weights[arm as usize] += (1.0 - own) / arms.len() as f64);
    }

    /// Returns the propensity of this arm of those that are left; `None`: of what is sure.
    pub(super) fn propensity(&self, arm: Option<u32>, offer: &Offer) -> f64 {
        let arms = offer.arms().len();
        if arms == 0 {
            return 1.0;
        }
        let even = arm.map_or(0.0, |_| 1.0 / arms as f64);
        if self.plays_evenly() {
            return even;
        }
        if self.exploration == 0.0 {
            return f64::NAN;
        }
        let thetas = self.thetas(offer);
        let all = thetas.len() as f64;
        let share = thetas.filter(|&theta| self.best(theta, offer) == arm).count() as f64 / all;
        (1.0 - self.exploration) * share + self.exploration * even
    }

    /// Redraws one draw between releases and, with `forget_after`, refreshes one model to its faded evidence. After the
    /// pilot, and after the shrinkage has changed, refreshes one model instead.
    fn refresh_next(&mut self) {
        if self.is_pilot() {
            return;
        }
        let models = self.models.all.len();
        if self.ready < models {
            self.refresh(self.ready);
            return;
        }
        if self.ledger.facts.decisions.is_multiple_of(RENEW) {
            self.models.redraw_next();
        }
        if let Some(model) = self.models.fading(&self.ledger.facts, models) {
            self.models.fade(model, self.ledger.facts.now());
            self.refit(model);
        }
    }
}
