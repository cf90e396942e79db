//! A model: what releases say of theta, its prior, and draws from what is believed.

use super::algebra::{add, add_square, dot, factorise, log_determinant, packed, solve, solve_transposed, zeros};
use super::batch::{Batch, Information, Instrument, TINY};
use crate::error::Result;
use crate::memory::WipedVec;
use crate::policy::prior::Prior;
use crate::random::Random;
use crate::snapshot::{Reader, Writer, ensure};

/// Draws of theta that are kept. A decision takes one of them.
pub const DRAWS: usize = 32;
/// Thompson sampling draws with this part of the posterior's deviation: at .35 runs lock in, at 1 it loses half as much
/// again.
const SPREAD: f64 = 0.5;

/// (With .5 ads lose 4% more at epsilon .1 in 1e5 decisions and as much elsewhere; with .25 as little, in wider tails; with
/// 1 unit vectors lose a tenth more.)
const FIRST: f64 = 0.35;

/// What public data may say of an intercept: with a gap of g logits from the rate, no more than a precision of this over
/// max(g^2, 1/4). However strong a wrong prior claims to be, Thompson sampling overcomes it.
const SAY: f64 = 1.5;

/// What is believed before anything is released: a logit of the intercept, and precisions, all public or released.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// theta of the intercept: the logit of the rate, over the intercept's coordinate.
    pub intercept: f64,
    /// The intercept's coordinate, c.
    pub constant: f64,
    /// Of each feature's theta.
    pub precision: f64,
}

impl Belief {
    /// theta and precision of the intercept, given what public data say of it: a logit of deviation 1 about the rate, and
    /// `strength` rewards of the prior's mean.
    fn intercept(&self, public: Option<Prior>) -> (f64, f64) {
        let (mut mean, mut precision) = (self.intercept * self.constant, 1.0);
        if let Some(Prior { mean: rate, strength }) = public {
            let rate = f64::from(rate).clamp(1e-6, 1.0 - 1e-6);
            let gap = libm::log(rate / (1.0 - rate)) - mean;
            let say = (f64::from(strength) * rate * (1.0 - rate)).min(SAY / (gap * gap).max(0.25));
            mean += gap * say / (1.0 + say);
            precision += say;
        }
        (mean / self.constant, precision * self.constant * self.constant)
    }
}

/// What all models have in common: functions of the pilots' releases.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    pub belief: Belief,
    /// Of a model's first batch.
    pub first: Instrument,
    /// Of the noise at sensitivity 1.
    pub variance: f64,
    /// Of a reward, and E|x|_1/C, in the pilot.
    pub spread: f64,
    pub size: f64,
    /// Handles that learn together, this one too.
    pub handles: f64,
}

/// What one handle's releases say of a model: the sums of A' S^-1 A (packed) and of A' S^-1 (y - e), and how many
/// rewards they hold.
pub struct Evidence {
    pub precision: WipedVec<f64>,
    pub shift: WipedVec<f64>,
    pub count: f64,
}

impl Evidence {
    /// Entries are at most this, so that the sum over 1025 handles is exact.
    const LARGEST: f64 = 1e18;

    /// # Errors
    /// `NoMemory`.
    pub(super) fn new(d: usize) -> Result<Evidence> {
        Ok(Evidence { precision: zeros(packed(d))?, shift: zeros(d)?, count: 0.0 })
    }

    fn copy_from(&mut self, other: &Evidence) {
        self.precision.copy_from_slice(&other.precision);
        self.shift.copy_from_slice(&other.shift);
        self.count = other.count;
    }

    pub(super) fn fade(&mut self, power: f64) {
        self.precision.iter_mut().chain(&mut *self.shift).for_each(|x| *x *= power);
        self.count *= power;
    }

    /// Writes what is left of it at this power.
    pub(super) fn save(&self, power: f64, to: &mut Writer) {
        to.f64(power * self.count);
        self.save_matrices(power, to);
    }

    pub(super) fn save_matrices(&self, power: f64, to: &mut Writer) {
        self.precision.iter().chain(&*self.shift).for_each(|&x| to.f64(power * x));
    }

    pub(super) fn load(&mut self, from: &mut Reader) -> Result<()> {
        self.count = from.f64()?;
        ensure((0.0..=Self::LARGEST).contains(&self.count))?;
        for x in self.precision.iter_mut().chain(&mut *self.shift) {
            *x = from.f64()?;
            ensure(x.abs() <= Self::LARGEST)?; // and so it is no NaN
        }
        Ok(())
    }
}

/// On a grid of 2^-50, on which sums are exact: so they are the same in whatever order handles are merged, and whichever
/// of them is one's own.
fn fixed(x: f64) -> i128 {
    (x * (1u64 << 50) as f64) as i128
}

fn real(x: i128) -> f64 {
    x as f64 / (1u64 << 50) as f64
}

/// Evidence of others, all together: precision, then shift, then count.
struct Joined(WipedVec<i128>);

impl Joined {
    fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |&count| real(count))
    }
}

/// Matrices that all models work in.
pub struct Scratch {
    pub y: WipedVec<f64>,
    total: WipedVec<f64>,
    covariance: WipedVec<f64>,
    design: WipedVec<f64>,
    before: Evidence,
}

impl Scratch {
    pub fn new(d: usize) -> Result<Scratch> {
        Ok(Scratch {
            y: zeros(d)?,
            total: zeros(packed(d))?,
            covariance: zeros(packed(d))?,
            design: zeros(d * d)?,
            before: Evidence::new(d)?,
        })
    }
}

pub struct Model {
    /// What this handle has released.
    pub own: Evidence,
    /// What others have.
    others: Option<Joined>,
    /// What public data say of the intercept.
    pub public: Option<Prior>,
    /// The factor of the whole precision L.
    root: WipedVec<f64>,
    /// theta.
    pub mean: WipedVec<f64>,
    draws: WipedVec<f64>,
    /// Decisions when evidence was last faded.
    pub faded: u64,
}

impl Model {
    pub fn new(d: usize) -> Result<Model> {
        Ok(Model {
            own: Evidence::new(d)?,
            others: None,
            public: None,
            root: zeros(packed(d))?,
            mean: zeros(d)?,
            draws: zeros(DRAWS * d)?,
            faded: 0,
        })
    }

    fn d(&self) -> usize {
        self.mean.len()
    }

    /// Rewards in all releases that it knows.
    pub fn count(&self) -> f64 {
        self.own.count + self.others.as_ref().map_or(0.0, Joined::count)
    }

    /// Is there memory for what others release?
    pub fn has_others(&self) -> bool {
        self.others.is_some()
    }

    /// Takes memory for what others release.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve_others(&mut self) -> Result<()> {
        let d = self.d();
        if self.others.is_none() {
            self.others = Some(Joined(WipedVec::new(packed(d) + d + 1, |_| 0)?));
        }
        Ok(())
    }

    /// What others have released, in place of what was joined before, after [`reserve_others`](Self::reserve_others).
    pub fn join(&mut self, others: &mut dyn Iterator<Item = &Evidence>) {
        if let Some(Joined(sums)) = &mut self.others {
            sums.fill(0);
            for Evidence { precision, shift, count } in others {
                let numbers = precision.iter().chain(&**shift).chain([count]);
                sums.iter_mut().zip(numbers).for_each(|(sum, &x)| *sum += fixed(x));
            }
        }
    }

    /// What is old loses this power.
    pub fn fade(&mut self, power: f64) {
        if power == 1.0 {
            return; // nor is anything rounded
        }
        self.own.fade(power);
        if let Some(Joined(sums)) = &mut self.others {
            sums.iter_mut().for_each(|x| *x = (*x as f64 * power) as i128);
        }
    }

    /// Own numbers and those of others from `first` on, added exactly.
    fn add_up(&self, own: &[f64], first: usize, to: &mut [f64]) {
        match &self.others {
            None => to.iter_mut().zip(own).for_each(|(to, own)| *to = real(fixed(*own))),
            Some(Joined(others)) => {
                let others = &others[first..];
                to.iter_mut().zip(own).zip(others).for_each(|((to, own), others)| *to = real(fixed(*own) + others));
            }
        }
    }

    /// L = prior + own + others.
    fn total(&self, belief: &Belief, total: &mut [f64]) {
        self.add_up(&self.own.precision, 0, total);
        total[0] += belief.intercept(self.public).1;
        (1..self.d()).for_each(|i| total[packed(i) + i] += belief.precision);
        (0..self.d()).for_each(|i| total[packed(i) + i] *= 1.0 + TINY);
    }

    /// Believes what prior and evidence say: theta = L^-1 h. False, and nothing has changed, where that is no
    /// distribution.
    #[must_use]
    pub fn refresh(&mut self, belief: &Belief, scratch: &mut Scratch, coins: &mut Random) -> bool {
        let (d, Scratch { y: mean, total, .. }) = (self.d(), scratch);
        self.total(belief, total);
        self.add_up(&self.own.shift, packed(d), mean);
        let (intercept, precision) = belief.intercept(self.public);
        mean[0] += precision * intercept;
        if !factorise(total, d) {
            return false;
        }
        solve(total, mean);
        solve_transposed(total, mean);
        if !mean.iter().all(|x| x.abs() <= 1e12) {
            return false;
        }
        std::mem::swap(&mut self.root, total);
        std::mem::swap(&mut self.mean, mean);
        (0..DRAWS).for_each(|draw| self.redraw(draw, coins));
        true
    }

    /// L += A' S^-1 A, h += A' S^-1 (y - e), from the released y - e in `scratch.y`. False, and nothing has changed,
    /// where that is no distribution.
    #[must_use]
    pub fn learn(&mut self, batch: &Batch, common: &Common, scratch: &mut Scratch, coins: &mut Random) -> bool {
        let (count, d) = (batch.count as f64, self.d());
        let Scratch { y, covariance, design, before, .. } = scratch;
        let mut information = Information { covariance, design };
        batch.inform(batch.instrument, 1.0, common.variance, &mut information);
        if !information.whiten(y) {
            return false;
        }
        before.copy_from(&self.own);
        add_square(&mut self.own.precision, design, d);
        for (design, y) in design.chunks_exact(d).zip(&**y) {
            add(&mut self.own.shift, *y, design);
        }
        self.own.count += count;
        let learned = self.refresh(&common.belief, scratch, coins);
        if !learned {
            std::mem::swap(&mut self.own, &mut scratch.before);
        }
        learned
    }

    /// ln det of L after `times` what `batch` holds, with this instrument.
    fn prospect(
        &self,
        batch: &Batch,
        instrument: Instrument,
        times: f64,
        common: &Common,
        scratch: &mut Scratch,
    ) -> f64 {
        let (d, Scratch { y, total, covariance, design, .. }) = (self.d(), scratch);
        let mut information = Information { covariance, design };
        batch.inform(instrument, times, common.variance, &mut information);
        y.fill(0.0);
        if !information.whiten(y) {
            return f64::NEG_INFINITY;
        }
        self.total(&common.belief, total);
        add_square(total, design, d);
        if factorise(total, d) { log_determinant(total, d) } else { f64::NEG_INFINITY }
    }

    /// The next batch: its instrument and size, where rows go on as in this one, and rewards that have variance 1 there
    /// have this one.
    pub fn next(&self, closing: &Batch, spread: f64, common: &Common, scratch: &mut Scratch) -> (Instrument, f64) {
        let mut best = (Instrument::Sum, self.quota(Instrument::Sum, common), f64::NEG_INFINITY);
        for instrument in Instrument::OF_FEATURES {
            let quota = self.quota(instrument, common);
            let times = spread * quota / closing.count as f64;
            let prospect = self.prospect(closing, instrument, times, common, scratch);
            if prospect > best.2 {
                best = (instrument, quota, prospect);
            }
        }
        (best.0, best.1)
    }

    /// n = max(B1, half of all before), B1 so large that a coordinate's expected sum is [`FIRST`] of the noise's scale.
    pub fn quota(&self, instrument: Instrument, common: &Common) -> f64 {
        let size = if instrument == Instrument::Bin { 1.0 } else { common.size / instrument.stretch() };
        let scale = (common.variance / 2.0).sqrt();
        let first = FIRST * self.d() as f64 * scale / (common.spread * size);
        first.max(self.count() / 2.0 / common.handles)
    }

    /// One of the draws, anew: theta + L^-1/2 z/2.
    pub fn redraw(&mut self, draw: usize, coins: &mut Random) {
        let d = self.d();
        let theta = &mut self.draws[draw * d..][..d];
        normals(theta, coins);
        solve_transposed(&self.root, theta);
        theta.iter_mut().zip(&*self.mean).for_each(|(theta, mean)| *theta = mean + SPREAD * *theta);
    }

    pub fn draw(&self, draw: usize) -> &[f64] {
        &self.draws[draw * self.d()..][..self.d()]
    }

    /// x theta and its deviation, for a whole row; the row is lost.
    pub fn predict(&self, x: &mut [f64]) -> (f64, f64) {
        let mean = dot(x, &self.mean);
        solve(&self.root, x);
        (mean, dot(x, x).sqrt())
    }
}

/// Standard normal variables, by Marsaglia's polar method: post-processing of releases, so floating point will do. libm
/// and IEEE arithmetic alone, so they are the same on every machine.
fn normals(to: &mut [f64], coins: &mut Random) {
    for pair in to.chunks_mut(2) {
        let (x, square) = loop {
            let x = [2.0 * coins.unit() - 1.0, 2.0 * coins.unit() - 1.0];
            let square = x[0] * x[0] + x[1] * x[1];
            if square > 0.0 && square < 1.0 {
                break (x, square);
            }
        };
        let radius = (-2.0 * libm::log(square) / square).sqrt();
        pair.iter_mut().zip(x).for_each(|(to, x)| *to = radius * x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    /// Mean, variance and fourth moment of 200,000: deviations .0022, .0032, .022; each within 6 of them, which three
    /// fail with chance 1e-8.
    #[test]
    fn normals_are_normal() {
        let mut x = vec![0.0; 200_001];
        normals(&mut x, &mut Seed::new(Some([5; 32])).unwrap().stream());
        let moment = |power: i32| x.iter().map(|x| x.powi(power)).sum::<f64>() / x.len() as f64;
        assert!(moment(1).abs() < 0.0135 && (moment(2) - 1.0).abs() < 0.019 && (moment(4) - 3.0).abs() < 0.132);
        let pairs = x.windows(2).map(|x| x[0] * x[1]).sum::<f64>() / x.len() as f64;
        assert!(pairs.abs() < 0.0135, "{pairs}");
    }
}
