//! Bounds how much better the arms are, as they were shown, than a control, at all times:
//! [`Bandit::lift`](crate::Bandit::lift).
//!
#![doc = include_str!("../../docs/theory/lift.md")]

use super::compare::{MeanEvidence, ReleaseTotals};

/// One arm: its releases (none yet: `None`), its share of what was shown, and its share of the control.
pub struct ShownArm {
    pub sums: Option<ReleaseTotals>,
    pub share: f64,
    pub of_control: f64,
}

/// The least evidence g against a mean m of one arm, as the corners (m, g) of a convex polygon below it.
struct Corners(Vec<(f64, f64)>);

/// The number of tangents of a polygon.
const TANGENTS: usize = 48;
/// Steps of each search.
const STEPS: u32 = 24;

/// An argument just beyond those of which it is true, from `from`, where it is true, towards `to`; `to` if it is true of all.
fn farthest(from: f64, to: f64, is_true: impl Fn(f64) -> bool) -> f64 {
    let (mut inside, mut outside) = (from, to);
    for _ in 0..STEPS {
        let middle = 0.5 * (inside + outside);
        *if is_true(middle) { &mut inside } else { &mut outside } = middle;
    }
    outside
}

impl Corners {
    /// Of the means with at most `room` more evidence than the one that has least, which is `best`.
    fn of(evidence: &MeanEvidence, best: f64, room: f64) -> Corners {
        let least = evidence.at(best).0;
        let is_possible = |mean: f64| evidence.at(mean).0 <= least + room;
        let [low, high] = [0.0, 1.0].map(|end| farthest(best, end, is_possible));
        let touched = (0..=TANGENTS).map(|i| low + (high - low) * i as f64 / TANGENTS as f64);
        let tangents: Vec<_> = touched.map(|mean| (mean, evidence.at(mean))).collect();
        let on = |&(at, (value, slope)): &(f64, (f64, f64)), mean: f64| (mean, value + slope * (mean - at));
        let meet = |pair: &[(f64, (f64, f64))]| {
            let &[(a, (f, s)), (b, (g, t))] = pair else { return (0.0, 0.0) };
            let step = if t > s { ((f - g + t * (b - a)) / (t - s)).clamp(0.0, b - a) } else { 0.0 };
            on(&pair[0], a + step)
        };
        let mut corners = vec![on(&tangents[0], low)];
        corners.extend(tangents.windows(2).map(meet));
        corners.push(on(&tangents[TANGENTS], high));
        Corners(corners)
    }

    /// The corner with the least c m + price g.
    fn least(&self, c: f64, price: f64) -> (f64, f64) {
        let cost = |&(mean, evidence): &(f64, f64)| c * mean + price * evidence;
        self.0.iter().copied().min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or((0.0, 0.0))
    }
}

/// What is known of all means together: their evidence is at most `enough`.
struct Set<'a> {
    arms: Vec<(Corners, &'a ShownArm)>,
    enough: f64,
    /// What each mean is more than in the unit interval; and by how much it may be wrong.
    offset: f64,
    rounding: f64,
}

impl Set<'_> {
    /// A lower bound of the sum of c m over the set, for the c of each arm. It is the dual's value at a price of
    /// evidence, which is a bound whatever the price.
    fn least(&self, c: impl Fn(&ShownArm) -> f64) -> f64 {
        let at = |price: f64| {
            let corners = self.arms.iter().map(|(corners, arm)| (c(arm), corners.least(c(arm), price)));
            corners.fold((0.0, 0.0), |(sum, evidence), (c, (mean, g))| {
                (sum + c * (mean + self.offset) - c.abs() * self.rounding, evidence + g)
            })
        };
        let is_too_low = |ln_price: f64| at(ln_price.exp()).1 > self.enough;
        let price = farthest(-30.0, 5.0, is_too_low).exp();
        let (sum, evidence) = at(price);
        sum + price * (evidence - self.enough)
    }

    /// The least and the largest mean of what was shown, as a multiple of the control's.
    fn ratio(&self) -> (f64, f64) {
        const MOST: f64 = 20.0; // ln of a multiple that counts as infinite
        let is_at_least = |ln: f64| self.least(|arm| arm.share - ln.exp() * arm.of_control) >= 0.0;
        let is_at_most = |ln: f64| self.least(|arm| ln.exp() * arm.of_control - arm.share) >= 0.0;
        let low = if is_at_least(-MOST) { farthest(MOST, -MOST, |ln| !is_at_least(ln)) } else { f64::NEG_INFINITY };
        let high = if is_at_most(MOST) { farthest(-MOST, MOST, |ln| !is_at_most(ln)) } else { f64::INFINITY };
        (low.exp(), high.exp())
    }
}

/// The ends of an interval for the mean of what was shown, divided by that of the control. Together they are wrong, at any
/// time ever, with probability at most e^-nats. Infinite if it has no upper end.
pub fn ratio(arms: &[ShownArm], offset: f64, rounding: f64, nats: f64) -> (f64, f64) {
    let evidence: Vec<_> = arms.iter().map(|arm| MeanEvidence::of(arm.sums.as_ref())).collect();
    let best: Vec<f64> = evidence.iter().map(|of| farthest(0.0, 1.0, |mean| of.at(mean).1 <= 0.0)).collect();
    let least: f64 = evidence.iter().zip(&best).map(|(of, &best)| of.at(best).0).sum();
    let room = (nats - least).max(0.0);
    let corners = evidence.iter().zip(&best).map(|(of, &best)| Corners::of(of, best, room));
    Set { arms: corners.zip(arms).collect(), enough: nats, offset, rounding }.ratio()
}
