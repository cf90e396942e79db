//! The open batch: the vector that multiplies each reward, and the public sums beside the sum of rewards.

use super::algebra::{add, packed, solve, solve_rows, zeros};
use super::rows::{SpreadRow, UNIT};
use crate::error::{Error, Result};
use crate::ledger::cells::OpenSum;
use crate::ledger::open::RawSum;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::noise::{Distribution, NoiseSource};
use crate::reward::Reward;
use crate::snapshot::{Reader, Writer, ensure, is_plausible};

/// Maximum of |u|_1 (|u|_2 with Gaussian noise) for every instrument. So the sensitivity of a released vector is this
/// many grid units.
pub const BOUND: i32 = 8 * UNIT;
/// Maximum number of rewards in a batch: 2^22 of them with u = 2^16 on a grid of 2^24 leave two bits of an i64 for the
/// noise.
pub const LARGEST_BATCH: u64 = 1 << 22;

/// Added to a variance, so that with collinear features the matrix is positive definite in f64 however little noise
/// there is.
pub const TINY: f64 = 1e-11;

/// The integer vector u that a batch multiplies its rewards by, as a function of the kept row. Coordinate 0 is the
/// intercept's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Instrument {
    /// The intercept alone, which gives the plain sum of rewards.
    Rate = 0,
    /// All coordinates. An eighth of the norm is the intercept's.
    #[default]
    Sum = 1,
    /// The features without the intercept. The sum over a one-hot field determines the intercept.
    Fields = 2,
    /// The sign of the largest feature, or the intercept if there is none.
    Bin = 3,
}

impl Instrument {
    pub const ALL: [Instrument; 4] = [Instrument::Sum, Instrument::Fields, Instrument::Bin, Instrument::Rate];

    /// With Gaussian noise: a bin has no more than a sum, and a sum has the rate at three eighths of the norm. (With
    /// plain sums too, Satellite has 43% wrong instead of 41% at epsilon 1, and LetterRecognition 87% instead of 81% at
    /// 4. Ads lose as much.)
    pub const SUMS: [Instrument; 2] = [Instrument::Sum, Instrument::Fields];

    pub fn from_number(number: u8) -> Result<Instrument> {
        Instrument::ALL.into_iter().find(|&instrument| instrument as u8 == number).ok_or(Error::Corrupt)
    }

    /// Returns the factor by which u is smaller than BOUND x/w.
    pub fn stretch(self) -> f64 {
        if self == Instrument::Sum { 8.0 / 7.0 } else { 1.0 }
    }

    /// Returns the coordinates that may differ from 0. The others are not released.
    fn coordinates(self, d: usize) -> std::ops::Range<usize> {
        match self {
            Instrument::Rate => 0..1,
            Instrument::Fields => 1..d,
            Instrument::Sum | Instrument::Bin => 0..d,
        }
    }

    /// Calls `each` with the coordinates of u, except those that are 0.
    fn each(self, row: &SpreadRow, intercept: i32, mut each: impl FnMut(usize, i32)) {
        match self {
            Instrument::Rate => each(0, BOUND),
            Instrument::Sum => {
                each(0, (f64::from(intercept) / row.weight) as i32);
                row.places().iter().for_each(|&j| each(1 + usize::from(j), 7 * row.u[usize::from(j)]));
            }
            Instrument::Fields => {
                row.places().iter().for_each(|&j| each(1 + usize::from(j), 8 * row.u[usize::from(j)]));
            }
            Instrument::Bin => {
                let (j, sign) = bin(row, intercept);
                each(j, sign * BOUND);
            }
        }
    }
}

/// Returns the largest feature and its sign. (With 16 dense features, a bin for the intercept would take half of all
/// rewards, and the pilot knows the rate already.)
fn bin(row: &SpreadRow, intercept: i32) -> (usize, i32) {
    let mut best = (0, if row.places().is_empty() { intercept } else { 0 });
    for &j in row.places() {
        let u = row.u[usize::from(j)];
        if u.abs() > best.1.abs() {
            best = (1 + usize::from(j), u);
        }
    }
    (best.0, best.1.signum())
}

/// The rewards of one released vector. G leaves it only by [`release`](Self::release), or sealed to the
/// leader of the fleet ([`save`](Self::save)).
pub struct VectorBatch {
    d: usize,
    intercept: i32,
    pub instrument: Instrument,
    pub quota: u64,
    pub count: u64,
    /// Of the pilot, the sum of |x|_1.
    pub size: f64,
    /// G: the sum of u q.
    sums: WipedVec<RawSum>,
    /// e, the sum of u (p - v x theta): the prediction of G, linearised in theta.
    expected: WipedVec<f64>,
    /// H, the packed sum of v x x'/w.
    pub moments: WipedVec<f64>,
    /// For the bins: the sum of v u x', and the sum of v over the rewards with this u.
    bins: WipedVec<f64>,
    weights: WipedVec<f64>,
    /// For the plain sum: the sum of v x'.
    plain: WipedVec<f64>,
}

/// The information of a released vector: y - e = A (theta - its linearisation) + noise of covariance S.
pub struct Information<'a> {
    /// S, packed; then its factor R.
    pub covariance: &'a mut [f64],
    /// A; then R^-1 A.
    pub design: &'a mut [f64],
}

impl VectorBatch {
    /// Returns a batch for rows of `d` coordinates including the intercept, whose coordinate is `intercept` in a sum
    /// instrument.
    pub fn new(d: usize, intercept: i32) -> Result<VectorBatch> {
        Ok(VectorBatch {
            d,
            intercept,
            instrument: Instrument::Rate,
            quota: 0,
            count: 0,
            size: 0.0,
            sums: WipedVec::new(d, |_| RawSum::default())?,
            expected: zeros(d)?,
            moments: zeros(packed(d))?,
            bins: zeros(d * d)?,
            weights: zeros(d)?,
            plain: zeros(d)?,
        })
    }

    /// Begins a new batch. The contents of the old one are dropped.
    pub fn open(&mut self, instrument: Instrument, quota: u64) {
        (self.instrument, self.quota) = (instrument, quota);
        self.clear();
    }

    /// A number of rewards to release.
    pub fn size(rewards: f64) -> u64 {
        (rewards.ceil() as u64).clamp(1, LARGEST_BATCH)
    }

    /// Returns the number of coordinates, including the intercept.
    pub fn d(&self) -> usize {
        self.d
    }

    /// Adds a reward. `x` is the whole row in units of C, m = x theta, and p and v are the mean and the variance at
    /// theta.
    pub fn collect(&mut self, row: &SpreadRow, x: &[f64], [m, p, v]: [f64; 3], reward: Reward) {
        if self.count == LARGEST_BATCH {
            return; // a contributor whose leader is gone
        }
        self.count += 1;
        let (q, known) = (reward.units(), p - v * m);
        let (sums, expected) = (&mut self.sums, &mut self.expected);
        self.instrument.each(row, self.intercept, |j, u| {
            sums[j].add(i64::from(u) * q);
            expected[j] += f64::from(u) * known;
        });
        let (j, sign) = bin(row, self.intercept);
        self.weights[j] += v;
        let bins = &mut self.bins[j * self.d..][..self.d];
        let v_w = v / row.weight;
        bins[0] += f64::from(sign) * v * x[0];
        self.moments[0] += v_w * x[0] * x[0];
        self.plain[0] += v * x[0];
        for &i in row.places() {
            let i = 1 + usize::from(i);
            self.plain[i] += v * x[i];
            bins[i] += f64::from(sign) * v * x[i];
            let moments = &mut self.moments[packed(i)..][..=i];
            moments[0] += v_w * x[i] * x[0];
            if 2 * row.places().len() > self.d {
                add(&mut moments[1..], v_w * x[i], &x[1..]);
            } else {
                for &j in row.places() {
                    let j = 1 + usize::from(j);
                    if j <= i {
                        moments[j] += v_w * x[i] * x[j];
                    }
                }
            }
        }
    }

    /// Writes y = G + Z, in grid units. This is the only place where rewards become public.
    pub fn release<L: Distribution>(&mut self, noise: &mut NoiseSource<L>, y: &mut [f64]) {
        y.fill(0.0);
        noise.renew();
        for j in self.instrument.coordinates(self.d) {
            y[j] = self.sums[j].release(noise) as f64;
        }
    }

    /// Returns the factor from grid units of G to units of x.
    pub fn unit(&self) -> f64 {
        self.instrument.stretch() / f64::from(BOUND)
    }

    /// Replaces y, as released, by y - e in units of x.
    pub fn residuals(&self, y: &mut [f64]) {
        let unit = self.unit();
        for (y, e) in y.iter_mut().zip(&*self.expected) {
            *y = unit * (*y / Reward::ONE as f64 - e);
        }
    }

    /// Computes A and S for `times` as many decisions with this instrument. `variance` is that of the noise at
    /// sensitivity 1.
    pub fn inform(&self, instrument: Instrument, times: f64, variance: f64, to: &mut Information) {
        let d = self.d;
        let noise = variance * instrument.stretch() * instrument.stretch();
        match instrument {
            Instrument::Bin => {
                to.covariance.fill(0.0);
                to.design.iter_mut().zip(&*self.bins).for_each(|(to, from)| *to = times * from);
                (0..d).for_each(|i| to.covariance[packed(i) + i] = times * self.weights[i]);
            }
            Instrument::Rate => {
                to.covariance.fill(0.0);
                to.design.fill(0.0);
                to.design.iter_mut().zip(&*self.plain).for_each(|(to, from)| *to = times * from);
                to.covariance[0] = times * self.weights.iter().sum::<f64>();
            }
            Instrument::Sum | Instrument::Fields => {
                to.covariance.iter_mut().zip(&*self.moments).for_each(|(to, from)| *to = times * from);
                for (i, j) in (0..d).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                    let value = to.covariance[packed(i) + j];
                    (to.design[i * d + j], to.design[j * d + i]) = (value, value);
                }
                let released = instrument.coordinates(d);
                for i in (0..d).filter(|i| !released.contains(i)) {
                    to.design[i * d..][..d].fill(0.0);
                    (0..d).for_each(|j| to.covariance[packed(i.max(j)) + i.min(j)] = 0.0);
                }
            }
        }
        for i in 0..d {
            let variance = &mut to.covariance[packed(i) + i];
            *variance += noise + TINY * *variance;
        }
    }
}

impl OpenSum for VectorBatch {
    const SHORTEST: usize = 17;

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn write(&self, to: &mut Writer) {
        to.f64(self.size);
        to.u8(self.instrument as u8);
        to.u64(self.count);
        self.sums.iter().for_each(|sum| sum.save(to));
        for table in [&self.expected, &self.moments, &self.bins, &self.weights, &self.plain] {
            table.iter().for_each(|&x| to.f64(x));
        }
    }

    fn read(&self, from: &mut Reader) -> Result<VectorBatch> {
        let mut part = VectorBatch::new(self.d, self.intercept)?;
        part.size = from.f64()?;
        ensure(is_plausible(part.size))?;
        (part.instrument, part.count) = (Instrument::from_number(from.u8()?)?, from.u64()?);
        ensure((1..=LARGEST_BATCH).contains(&part.count))?;
        let most = i64::from(BOUND) * Reward::ONE;
        part.sums.iter_mut().try_for_each(|sum| sum.load(from, part.count, -most, most))?;
        for table in [&mut part.expected, &mut part.moments, &mut part.bins, &mut part.weights, &mut part.plain] {
            for x in &mut **table {
                *x = from.f64()?;
                ensure(is_plausible(*x))?;
            }
        }
        Ok(part)
    }

    /// Both must have one instrument, and at most [`LARGEST_BATCH`] rewards together.
    fn add(&mut self, part: &VectorBatch) -> bool {
        if part.instrument != self.instrument || self.count + part.count > LARGEST_BATCH {
            return false;
        }
        self.count += part.count;
        self.size += part.size;
        self.sums.iter_mut().zip(&*part.sums).for_each(|(to, from)| to.join(from));
        add(&mut self.expected, 1.0, &part.expected);
        add(&mut self.moments, 1.0, &part.moments);
        add(&mut self.bins, 1.0, &part.bins);
        add(&mut self.weights, 1.0, &part.weights);
        add(&mut self.plain, 1.0, &part.plain);
        true
    }

    fn is_full(&self) -> bool {
        self.count >= self.quota
    }

    fn clear(&mut self) -> bool {
        self.size = 0.0;
        if std::mem::take(&mut self.count) == 0 {
            return false; // all sums are 0
        }
        self.sums.iter_mut().for_each(RawSum::clear);
        for table in [&mut self.expected, &mut self.moments, &mut self.bins, &mut self.weights, &mut self.plain] {
            table.fill(0.0);
        }
        true
    }
}

impl Information<'_> {
    /// Computes R^-1 A and R^-1 y, where S = R R'. Returns false if S is not positive definite.
    #[must_use]
    pub fn whiten(&mut self, y: &mut [f64]) -> bool {
        let d = y.len();
        let sound = super::algebra::factorise(self.covariance, d);
        if sound {
            solve_rows(self.covariance, self.design, d);
            solve(self.covariance, y);
        }
        sound
    }
}

impl std::fmt::Debug for VectorBatch {
    /// Shows only public facts.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorBatch").field("quota", &self.quota).field("count", &self.count).finish_non_exhaustive()
    }
}

persist!(VectorBatch {
    instrument, quota, count, sums, expected, moments, bins, weights, plain,
} made { d, intercept, size });

impl Persist for Instrument {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let mut number = *self as u8;
        number.persist(with)?;
        *self = Instrument::from_number(number)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Linear;
    use super::super::rows::{PendingRows, Scale};
    use super::*;
    use crate::config::Config;
    use crate::random::Seed;
    use crate::request::Row;

    /// |u| <= BOUND, with the intercept, for every instrument, both norms, and rows of every size as they are kept. Some
    /// rows use the whole of it.
    #[test]
    fn no_instrument_exceeds_the_bound() {
        let mut seed = Seed::new(Some([8; 32])).unwrap();
        let mut coins = seed.stream();
        for delta in [0.0, 1e-6] {
            let config = Config { features: 6, delta, feature_norm: 3.0, ..Config::new(2, 1.0) };
            let Linear { scale, intercept, .. } = Linear::new(&config, &mut seed).unwrap();
            assert_eq!(scale.euclidean, delta > 0.0);
            let (mut kept, mut row) = (PendingRows::new(1, 6).unwrap(), SpreadRow::new(&scale).unwrap());
            let mut largest = [0.0f64; 4];
            for number in 0..4000 {
                let mut features: [f32; 6] = std::array::from_fn(|_| (2.0 * coins.unit() - 1.0) as f32);
                if number % 2 == 0 {
                    features[1 + number % 5..].fill(0.0);
                }
                let norm: f32 = match scale.euclidean {
                    false => features.iter().map(|x| x.abs()).sum(),
                    true => features.iter().map(|x| x * x).sum::<f32>().sqrt(),
                };
                // Exactly C, a little more and less, much more, and rows of zeros.
                let size = 3.0 * [1.0, 1.0001, 0.9999, 0.3, 2.0, 40.0, 0.0][number % 7] / norm;
                features.iter_mut().for_each(|x| *x *= size);
                row.quantise(Row::Dense(&features), &scale);
                kept.keep(0, &row);
                kept.spread(0, &mut row);
                for instrument in Instrument::ALL {
                    let mut u = [0.0; 7];
                    instrument.each(&row, intercept, |j, entry| u[j] += f64::from(entry));
                    let size = match scale.euclidean {
                        false => u.iter().map(|u| u.abs()).sum::<f64>(),
                        true => u.iter().map(|u| u * u).sum::<f64>().sqrt(),
                    };
                    assert!(size <= f64::from(BOUND), "{instrument:?} {delta}: {size} of {BOUND} for {features:?}");
                    largest[instrument as usize] = largest[instrument as usize].max(size / f64::from(BOUND));
                }
            }
            assert!(largest.iter().all(|&largest| largest > 0.95), "{largest:?}");
        }
    }

    /// y - e is A theta plus noise, whatever the instrument: exact here, because every reward is what the model
    /// predicts at theta, linearised elsewhere. S is the covariance of y for rows that are not too large.
    #[test]
    fn a_released_vector_is_what_is_learned_from() {
        let (d, constant) = (4, 1.0 / 7.0);
        let scale = Scale { features: d - 1, norm: 1.0, euclidean: false };
        let (theta, about) = ([-9.0, 0.4, -0.3, 0.2], [-8.0, 0.1, 0.2, -0.2]);
        let mut coins = Seed::new(Some([4; 32])).unwrap().stream();
        for (instrument, largest) in Instrument::ALL.into_iter().flat_map(|one| [(one, 0.3), (one, 2.0)]) {
            let mut batch = VectorBatch::new(d, UNIT).unwrap();
            batch.open(instrument, 1_000_000);
            let mut row = SpreadRow::new(&scale).unwrap();
            let mut covariance = vec![0.0; packed(d)];
            for _ in 0..300 {
                let features: [f32; 3] = std::array::from_fn(|_| largest * (1.4 * coins.unit() - 0.4) as f32);
                row.quantise(Row::Dense(&features), &scale);
                let mut x = vec![constant; d];
                (0..d - 1).for_each(|j| x[1 + j] = row.weight * f64::from(row.u[j]) / f64::from(UNIT));
                let dot = |theta: &[f64]| x.iter().zip(theta).map(|(x, theta)| x * theta).sum::<f64>();
                let m = dot(&about);
                let p = 1.0 / (1.0 + libm::exp(-m));
                let v = p * (1.0 - p);
                let mean = p + v * (dot(&theta) - m);
                batch.collect(&row, &x, [m, p, v], Reward::from_units((mean * Reward::ONE as f64).round() as u32));
                let mut u = vec![0.0; d];
                instrument.each(&row, UNIT, |j, entry| u[j] = f64::from(entry) * batch.unit());
                for (i, j) in (0..d).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                    covariance[packed(i) + j] += v * u[i] * u[j];
                }
            }
            let mut y: Vec<f64> = batch.sums.iter().map(RawSum::units).collect();
            batch.residuals(&mut y);
            let (mut reported, mut design) = (vec![0.0; packed(d)], vec![0.0; d * d]);
            let mut information = Information { covariance: &mut reported, design: &mut design };
            batch.inform(instrument, 1.0, 0.0, &mut information);
            for (i, y) in y.iter().enumerate() {
                let predicted: f64 = design[d * i..][..d].iter().zip(theta).map(|(a, theta)| a * theta).sum();
                // Quantised entries are off by 2^-13 of C at most, of 300 rows.
                assert!((y - predicted).abs() < 0.02, "{instrument:?} {largest}: {i}: {y} for {predicted}");
                assert!(predicted.abs() > 0.1 || predicted == 0.0, "{instrument:?}: {i}: {predicted}");
            }
            for (reported, is) in reported.iter().zip(&covariance) {
                assert!((reported - is).abs() < 0.01 || largest > 1.0, "{instrument:?}: {reported} for {is}");
            }
        }
    }
}
