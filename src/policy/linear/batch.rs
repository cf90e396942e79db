//! The open batch: the vector that multiplies each reward, and the public sums beside the sum of rewards.

use super::algebra::{add, factorise, packed, solve, solve_rows, zeros};
use super::partition::{CELLS, Partition};
use super::rows::UnpackedRow;
use super::sample::RewardPurpose;
use crate::error::Result;
use crate::ledger::cells::OpenSum;
use crate::ledger::open::RawSum;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::noise::NoiseSource;
use crate::reward::Reward;
use crate::snapshot::is_plausible;

/// Maximum of |u|_1 for every instrument. So the sensitivity of a released vector is this many grid units.
pub const BOUND: i32 = 1 << 16;
/// Maximum number of rewards in a batch: 2^22 of them with u = 2^16 on a grid of 2^24 leave two bits of an i64 for the
/// noise.
pub const LARGEST_BATCH: u64 = 1 << 22;

/// Added to a variance, so that with collinear features the matrix is positive definite in f64 however little noise
/// there is.
pub const TINY: f64 = 1e-11;

/// The integer vector u that a batch multiplies its rewards by, as a function of the kept row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instrument {
    /// All features of the row, without the intercept: one cell gives that, and the pilot knows the rate. (With an eighth
    /// of the norm for the intercept, items lose 13.3 instead of 12.3% at epsilon .25, and Shuttle has 4.2% wrong instead of
    /// 4.7 without noise.)
    #[default]
    Sum,
    /// The sign of the largest feature, at its coordinate of theta, or the intercept if there is none.
    Bin,
    /// The cell of the row under the first splits of the partition. One cell gives the plain sum of rewards.
    Cells(usize),
    /// The sample that the decision belongs to.
    Samples,
}

impl Instrument {
    /// Returns the instruments for a partition.
    pub fn all(partition: &Partition) -> impl Iterator<Item = Instrument> {
        let cells = partition.cells();
        let counts = (0..=CELLS.ilog2()).map(|power| 1 << power).filter(move |&count| count <= cells);
        [Instrument::Sum, Instrument::Bin].into_iter().chain(counts.map(Instrument::Cells))
    }

    /// Moves the instrument of any batch.
    fn move_any(&mut self, with: &mut Archive) -> Result<()> {
        with.numbered(self.number(), self, |number| match number {
            1..=64 => Some(Instrument::Cells(number.into())),
            65 => Some(Instrument::Sum),
            66 => Some(Instrument::Bin),
            67 => Some(Instrument::Samples),
            _ => None,
        })
    }

    fn number(self) -> u8 {
        match self {
            Instrument::Cells(cells) => cells as u8,
            Instrument::Sum => 65,
            Instrument::Bin => 66,
            Instrument::Samples => 67,
        }
    }

    /// Returns the number of coordinates that are released.
    pub fn coordinates(self, d: usize) -> usize {
        match self {
            Instrument::Sum => d - 1,
            Instrument::Bin => d,
            Instrument::Cells(cells) => cells,
            Instrument::Samples => 2,
        }
    }
}

/// What a batch fixes when it opens: how it multiplies its rewards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub instrument: Instrument,
    pub partition: Partition,
    /// C, in which x is measured.
    pub unit: f64,
}

impl Setting {
    /// Calls `each` with the coordinates of u, except those that are 0. The integers decide how large u is. `bin` and `cell`
    /// are where the row is.
    fn each(&self, row: &UnpackedRow, bin: (usize, i32), cell: usize, mut each: impl FnMut(usize, i32)) {
        match self.instrument {
            Instrument::Bin => each(bin.0, bin.1 * BOUND),
            Instrument::Cells(cells) => each(self.partition.ancestor(cell, cells), BOUND),
            Instrument::Samples => each(usize::from(row.head.purpose == RewardPurpose::Own), BOUND),
            Instrument::Sum => {
                // u = BOUND r/max(C, |r|_1), rounded towards zero.
                let unit = (1.0 / row.grid(self.unit)).ceil().clamp(1.0, 1e15) as i64;
                let scale = (i64::from(BOUND) << 32) / unit.max(row.size());
                for j in row.places().iter().map(|&j| usize::from(j)) {
                    let u = (i64::from(row.r[j].abs()) * scale) >> 32;
                    each(j, row.r[j].signum() * u as i32);
                }
            }
        }
    }
}

/// Returns the largest feature and its sign. (With 16 dense features, a bin for the intercept would take half of all
/// rewards, and the pilot knows the rate already.)
fn bin(row: &UnpackedRow) -> (usize, i32) {
    let mut best = (0, i32::from(row.places().is_empty()));
    for &j in row.places() {
        let r = row.r[usize::from(j)];
        if r.abs() > best.1.abs() {
            best = (1 + usize::from(j), r);
        }
    }
    (best.0, best.1.signum())
}

/// Public sums over the rewards of each coordinate, for an instrument with one coordinate for a reward and u = s BOUND
/// there: of v s x', and of v.
struct CoordinateSums {
    design: WipedVec<f64>,
    weights: WipedVec<f64>,
}

impl CoordinateSums {
    fn new(rows: usize, d: usize) -> Result<CoordinateSums> {
        Ok(CoordinateSums { design: zeros(rows * d)?, weights: zeros(rows)? })
    }

    fn collect(&mut self, (at, sign): (usize, i32), v: f64, row: &UnpackedRow, x: &[f64]) {
        self.weights[at] += v;
        let design = &mut self.design[at * x.len()..][..x.len()];
        let v = f64::from(sign) * v;
        design[0] += v * x[0];
        for i in row.places().iter().map(|&j| 1 + usize::from(j)) {
            design[i] += v * x[i];
        }
    }

    /// Brings x to a unit that is larger by 1/`factor`.
    fn rescale(&mut self, factor: f64, d: usize) {
        self.design.chunks_exact_mut(d).flat_map(|row| &mut row[1..]).for_each(|x| *x *= factor);
    }

    /// Adds a coordinate of another table to one of this table.
    fn add(&mut self, to: usize, other: &CoordinateSums, from: usize, d: usize) {
        add(&mut self.design[to * d..][..d], 1.0, &other.design[from * d..][..d]);
        self.weights[to] += other.weights[from];
    }
}

persist!(CoordinateSums { design, weights });

/// The rewards of one released vector. G leaves it only by [`release`](Self::release), or sealed to the
/// leader of the fleet ([`contribute`](OpenSum::contribute)).
pub struct VectorBatch {
    d: usize,
    pub setting: Setting,
    pub quota: u64,
    pub count: u64,
    /// The sum of |x|_1.
    pub size: f64,
    /// G: the sum of u q.
    sums: WipedVec<RawSum>,
    /// e, the sum of u (p - v x theta): the prediction of G, linearised in theta.
    expected: WipedVec<f64>,
    /// H, the packed sum of v x x'/w, where w = max(1, |x|_1).
    pub moments: WipedVec<f64>,
    bins: CoordinateSums,
    cells: CoordinateSums,
}

/// What a released vector says: y - e = A (theta - its linearisation) + noise of covariance S.
pub struct Information {
    /// y, as released; then y - e; then R^-1 (y - e).
    pub y: WipedVec<f64>,
    /// S, packed; then its factor R.
    covariance: WipedVec<f64>,
    /// A, a row for each coordinate; then R^-1 A.
    pub design: WipedVec<f64>,
}

impl Information {
    /// # Errors
    /// `NoMemory`.
    pub fn new(d: usize) -> Result<Information> {
        let most = d.max(CELLS);
        Ok(Information { y: zeros(most)?, covariance: zeros(packed(d))?, design: zeros(most * d)? })
    }
}

impl VectorBatch {
    /// Returns a batch for rows of `d` coordinates, the intercept's included.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn new(d: usize) -> Result<VectorBatch> {
        let coordinates = d.max(CELLS);
        Ok(VectorBatch {
            d,
            setting: Setting { instrument: Instrument::Cells(1), partition: Partition::default(), unit: 1.0 },
            quota: 0,
            count: 0,
            size: 0.0,
            sums: WipedVec::new(coordinates, |_| RawSum::default())?,
            expected: zeros(coordinates)?,
            moments: zeros(packed(d))?,
            bins: CoordinateSums::new(d, d)?,
            cells: CoordinateSums::new(CELLS, d)?,
        })
    }

    /// Begins a new batch. The contents of the old one are dropped.
    pub fn open(&mut self, setting: Setting, quota: u64) {
        self.clear();
        (self.setting, self.quota) = (setting, quota);
    }

    /// Returns the quota that is nearest to this number of rewards.
    pub fn quota_of(rewards: f64) -> u64 {
        (rewards.ceil() as u64).clamp(1, LARGEST_BATCH)
    }

    /// Returns the number of coordinates of a row, the intercept's included.
    pub fn d(&self) -> usize {
        self.d
    }

    /// Adds a reward. `x` is the whole row in units of C, m = x theta, and p and v are the mean and the variance at
    /// theta.
    pub fn collect(&mut self, row: &UnpackedRow, x: &[f64], [m, p, v]: [f64; 3], reward: Reward) {
        if self.count == LARGEST_BATCH {
            return; // a contributor whose leader is gone
        }
        self.count += 1;
        let size = row.size() as f64 * row.grid(self.setting.unit);
        self.size += size;
        let (w, bin, cell) = (size.max(1.0), bin(row), self.setting.partition.cell(row));
        let (sums, expected) = (&mut self.sums, &mut self.expected);
        self.setting.each(row, bin, cell, |j, u| {
            sums[j].add(i64::from(u) * reward.units());
            expected[j] += f64::from(u) * (p - v * m);
        });
        self.bins.collect(bin, v, row, x);
        self.cells.collect((cell, 1), v, row, x);
        let v_w = v / w;
        for i in row.places().iter().map(|&j| 1 + usize::from(j)) {
            let moments = &mut self.moments[packed(i)..][..=i];
            moments[0] += v_w * x[i] * x[0];
            if 2 * row.places().len() > self.d {
                add(&mut moments[1..], v_w * x[i], &x[1..]);
            } else {
                for j in row.places().iter().map(|&j| 1 + usize::from(j)).filter(|&j| j <= i) {
                    moments[j] += v_w * x[i] * x[j];
                }
            }
        }
    }

    /// Writes y = G + Z, in grid units. This is the only place where rewards become public.
    pub fn release(&mut self, noise: &mut NoiseSource, y: &mut [f64]) {
        noise.renew();
        for (y, sum) in y.iter_mut().zip(&mut *self.sums).take(self.setting.instrument.coordinates(self.d)) {
            *y = sum.release(noise) as f64;
        }
    }

    /// Returns e at each coordinate.
    pub fn expectations(&self) -> impl Iterator<Item = f64> {
        self.expected.iter().copied()
    }

    /// Replaces y, as released, by y - e in units of x.
    pub fn residuals(&self, y: &mut [f64]) {
        for (y, e) in y.iter_mut().zip(&*self.expected) {
            *y = (*y / Reward::ONE as f64 - e) / f64::from(BOUND);
        }
    }

    /// Computes R^-1 A and R^-1 (y - e) for `times` as many decisions with this instrument. `variance` is that of the
    /// noise at sensitivity 1. Returns the number of coordinates; `None` if S is not positive definite.
    pub fn inform(&self, instrument: Instrument, times: f64, variance: f64, to: &mut Information) -> Option<usize> {
        let (d, Information { y, covariance, design }) = (self.d, to);
        let coordinates = instrument.coordinates(d);
        let (y, design) = (&mut y[..coordinates], &mut design[..coordinates * d]);
        let of_table = |y: &mut [f64], design: &mut [f64], weights: &[f64]| {
            for ((a, y), weight) in design.chunks_exact_mut(d).zip(y).zip(weights) {
                let scale = 1.0 / (times * weight * (1.0 + TINY) + variance).sqrt();
                a.iter_mut().for_each(|a| *a *= times * scale);
                *y *= scale;
            }
        };
        match instrument {
            Instrument::Samples => return None,
            Instrument::Bin => {
                design.copy_from_slice(&self.bins.design);
                of_table(y, design, &self.bins.weights);
            }
            Instrument::Cells(cells) => {
                let mut weights = [0.0; CELLS];
                design.fill(0.0);
                for (cell, a) in self.cells.design.chunks_exact(d).enumerate().take(self.setting.partition.cells()) {
                    let ancestor = self.setting.partition.ancestor(cell, cells);
                    add(&mut design[ancestor * d..][..d], 1.0, a);
                    weights[ancestor] += self.cells.weights[cell];
                }
                of_table(y, design, &weights);
            }
            Instrument::Sum => {
                for i in 0..coordinates {
                    let (moments, own) = (&self.moments[packed(1 + i)..][..2 + i], &mut covariance[packed(i)..][..=i]);
                    design[i * d] = times * moments[0];
                    for (j, value) in moments[1..].iter().map(|moment| times * moment).enumerate() {
                        (design[i * d + 1 + j], design[j * d + 1 + i], own[j]) = (value, value, value);
                    }
                    own[i] += variance + TINY * own[i];
                }
                let covariance = &mut covariance[..packed(coordinates)];
                if !factorise(covariance, coordinates) {
                    return None;
                }
                solve_rows(covariance, design, d);
                solve(covariance, y);
            }
        }
        Some(coordinates)
    }

    /// Brings the public sums to another unit.
    pub fn rescale(&mut self, unit: f64) {
        let factor = self.setting.unit / unit;
        self.setting.unit = unit;
        self.size *= factor;
        self.bins.rescale(factor, self.d);
        self.cells.rescale(factor, self.d);
        rescale(&mut self.moments, self.d, factor);
    }

    /// The public sums, as a contribution has them.
    fn tables_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        let (d, setting) = (self.d, &self.setting);
        let (coordinates, cells) = (setting.instrument.coordinates(d), setting.partition.cells());
        let own = self.expected[..coordinates].iter_mut().chain(&mut *self.moments);
        let bins = self.bins.design.iter_mut().chain(&mut *self.bins.weights);
        own.chain(bins).chain(&mut self.cells.design[..cells * d]).chain(&mut self.cells.weights[..cells])
    }
}

/// Brings the packed matrix of products of rows of `d` coordinates to a unit of the features that is larger by 1/`factor`.
pub fn rescale(moments: &mut [f64], d: usize, factor: f64) {
    for i in 1..d {
        let row = &mut moments[packed(i)..][..=i];
        row[0] *= factor;
        row[1..].iter_mut().for_each(|x| *x *= factor * factor);
    }
}

impl OpenSum for VectorBatch {
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn empty(&self) -> Result<VectorBatch> {
        VectorBatch::new(self.d)
    }

    fn contribute(&mut self, with: &mut Archive) -> Result<()> {
        self.setting.persist(with)?;
        self.count.persist(with)?;
        self.size.persist(with)?;
        with.ensure((1..=LARGEST_BATCH).contains(&self.count) && is_plausible(self.size))?;
        let (coordinates, most) = (self.setting.instrument.coordinates(self.d), i64::from(BOUND) * Reward::ONE);
        self.sums.iter_mut().take(coordinates).try_for_each(|sum| sum.contribute(self.count, -most, most, with))?;
        self.tables_mut().try_for_each(|x| {
            x.persist(with)?;
            with.ensure(is_plausible(*x))
        })
    }

    /// Both must have one instrument and unit, and at most [`LARGEST_BATCH`] rewards together. The rows of the part are
    /// brought to the unit of this sum, if they can. Cells that have not been split alike are added up under the first
    /// splits, of which the instrument is.
    fn add(&mut self, part: &mut VectorBatch) -> bool {
        if part.setting.instrument != Instrument::Sum {
            part.rescale(self.setting.unit);
        }
        let (mine, theirs) = (&mut self.setting, &part.setting);
        let alike = (mine.instrument, mine.unit) == (theirs.instrument, theirs.unit);
        if !alike || self.count + part.count > LARGEST_BATCH {
            return false;
        }
        let cells = match mine.instrument {
            _ if mine.partition.extends(&theirs.partition) => CELLS,
            _ if theirs.partition.extends(&mine.partition) => {
                mine.partition = theirs.partition;
                CELLS
            }
            Instrument::Cells(cells) => cells,
            _ => 1,
        };
        self.count += part.count;
        self.size += part.size;
        self.sums.iter_mut().zip(&*part.sums).for_each(|(to, from)| to.join(from));
        add(&mut self.expected, 1.0, &part.expected);
        add(&mut self.moments, 1.0, &part.moments);
        for coordinate in 0..self.d {
            self.bins.add(coordinate, &part.bins, coordinate, self.d);
        }
        for cell in 0..theirs.partition.cells() {
            self.cells.add(theirs.partition.ancestor(cell, cells), &part.cells, cell, self.d);
        }
        true
    }

    fn is_full(&self) -> bool {
        self.count >= self.quota
    }

    fn is_of_all(&self) -> bool {
        self.setting.instrument != Instrument::Samples
    }

    fn clear(&mut self) -> bool {
        self.size = 0.0;
        if std::mem::take(&mut self.count) == 0 {
            return false; // all sums are 0
        }
        self.sums.iter_mut().for_each(RawSum::clear);
        self.tables_mut().for_each(|x| *x = 0.0);
        true
    }
}

impl std::fmt::Debug for VectorBatch {
    /// Shows only public facts.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorBatch").field("quota", &self.quota).field("count", &self.count).finish_non_exhaustive()
    }
}

persist!(VectorBatch {
    setting, quota, count, size, sums, expected, moments, bins, cells,
} made { d });

/// The instrument of a model, which is never [`Samples`](Instrument::Samples).
impl Persist for Instrument {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.move_any(with)?;
        with.ensure(*self != Instrument::Samples)
    }
}

impl Persist for Setting {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let Setting { instrument, partition, unit } = self;
        instrument.move_any(with)?;
        partition.persist(with)?;
        with.ensure(!matches!(instrument, Instrument::Cells(cells) if *cells > partition.cells()))?;
        unit.persist(with)?;
        with.ensure(*unit > 0.0 && unit.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::super::partition::Splitter;
    use super::super::rows::{PendingRows, Scale};
    use super::*;
    use crate::random::{Random, Seed};
    use crate::request::Row;

    fn coins(seed: u8) -> Random {
        Seed::new(Some([seed; 32])).unwrap().stream()
    }

    /// Splits a partition by rows like these until it has as many cells.
    fn split(partition: Partition, cells: usize, mut row: impl FnMut(&mut UnpackedRow)) -> Partition {
        let mut spread = UnpackedRow::new(6).unwrap();
        let mut splitter = Splitter::new(6).unwrap();
        splitter.follow(&partition);
        for number in 0..100_000 {
            row(&mut spread);
            splitter.count(&spread);
            if number % 64 == 63 && splitter.partition.cells() < cells {
                splitter.split();
            }
        }
        assert_eq!(splitter.partition.cells(), cells);
        splitter.partition
    }

    /// |u|_1 <= BOUND for every instrument, for units that are far too large or small, and for rows of
    /// every size as they are kept. Some rows use the whole of it.
    #[test]
    fn no_instrument_exceeds_the_bound() {
        let mut coins = coins(8);
        let (mut kept, mut row) = (PendingRows::new(1, 6).unwrap(), UnpackedRow::new(6).unwrap());
        let partition = split(Partition::default(), CELLS, |row| {
            let features: [f32; 6] = std::array::from_fn(|_| (coins.unit() - 0.5) as f32);
            row.quantise(Row::Dense(&features), &Scale::default());
        });
        let mut largest = [0.0f64; 3];
        for number in 0..4000 {
            let mut features: [f32; 6] = std::array::from_fn(|_| (2.0 * coins.unit() - 1.0) as f32);
            if number % 2 == 0 {
                features[1 + number % 5..].fill(0.0);
            }
            let norm: f32 = features.iter().map(|x| x.abs()).sum();
            // Exactly C, a little more and less, much more, and rows of zeros.
            let size = 3.0 * [1.0, 1.0001, 0.9999, 0.3, 2.0, 1e30, 1e-30, 0.0][number % 8] / norm;
            features.iter_mut().for_each(|x| *x *= size);
            row.quantise(Row::Dense(&features), &Scale::default());
            kept.keep(0, &row);
            kept.unpack(0, &mut row);
            for unit in [3.0, 1e-35, 1e35, 2.7] {
                for (place, instrument) in
                    [Instrument::Sum, Instrument::Bin, Instrument::Cells(32)].into_iter().enumerate()
                {
                    let (mut size, setting) = (0.0, Setting { instrument, partition, unit });
                    setting.each(&row, bin(&row), partition.cell(&row), |_, u| size += f64::from(u.abs()));
                    assert!(size <= f64::from(BOUND), "{instrument:?}: {size} of {BOUND} for {features:?}");
                    largest[place] = largest[place].max(size / f64::from(BOUND));
                }
            }
        }
        assert!(largest.iter().all(|&largest| largest > 0.95), "{largest:?}");
    }

    /// y - e is A theta plus noise, whatever the instrument: exact here, because every reward is what the model
    /// predicts at theta, linearised elsewhere. S is the covariance of y for rows that are not too large. The rewards are those
    /// of two handles, which have split the cells of their instrument further, each in its own way.
    #[test]
    fn a_released_vector_is_what_is_learned_from() {
        let (d, unit, mut coins) = (7, 2.0, coins(4));
        let (theta, about) = ([-1.3, 0.4, -0.3, 0.2, 0.1, -0.5, 0.3], [-1.1, 0.1, 0.2, -0.2, 0.0, 0.3, -0.1]);
        let mut random = |largest: f64, row: &mut UnpackedRow| {
            let features: [f32; 6] = std::array::from_fn(|_| (largest * (1.4 * coins.unit() - 0.4)) as f32);
            row.quantise(Row::Dense(&features), &Scale::default());
        };
        let eight = split(Partition::default(), 8, |row| random(0.15, row));
        let partitions = [0.3, 2.0].map(|largest| split(eight, 32, |row| random(largest, row)));
        assert!(!partitions[0].extends(&partitions[1]) && partitions.iter().all(|partition| partition.extends(&eight)));
        let instruments = [Instrument::Sum, Instrument::Bin, Instrument::Cells(1), Instrument::Cells(8)];
        for (instrument, largest) in instruments.into_iter().flat_map(|one| [(one, 0.15), (one, 2.0)]) {
            let mut row = UnpackedRow::new(d - 1).unwrap();
            let coordinates = instrument.coordinates(d);
            let mut covariance = vec![0.0; packed(coordinates)];
            let mut handles = partitions.map(|partition| {
                let mut batch = VectorBatch::new(d).unwrap();
                batch.open(Setting { instrument, partition, unit }, 1_000_000);
                batch
            });
            for number in 0..600 {
                let batch = &mut handles[number % 2];
                random(largest, &mut row);
                let mut x = vec![1.0; d];
                (0..d - 1).for_each(|j| x[1 + j] = f64::from(row.r[j]) * row.grid(unit));
                let dot = |theta: &[f64]| x.iter().zip(theta).map(|(x, theta)| x * theta).sum::<f64>();
                let m = dot(&about);
                let p = 1.0 / (1.0 + libm::exp(-m));
                let v = p * (1.0 - p);
                let mean = (p + v * (dot(&theta) - m)).clamp(0.0, 1.0);
                assert!(largest > 1.0 || mean == p + v * (dot(&theta) - m));
                batch.collect(&row, &x, [m, p, v], Reward::from_units((mean * Reward::ONE as f64).round() as u32));
                let (mut u, setting) = (vec![0.0; coordinates], batch.setting);
                setting.each(&row, bin(&row), setting.partition.cell(&row), |j, entry| {
                    u[j] = f64::from(entry) / f64::from(BOUND);
                });
                for (i, j) in (0..coordinates).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                    covariance[packed(i) + j] += v * u[i] * u[j];
                }
            }
            let [mut batch, mut part] = handles;
            assert!(batch.add(&mut part));
            let mut information = Information::new(d).unwrap();
            batch.sums.iter().zip(&mut *information.y).for_each(|(sum, y)| *y = sum.units());
            batch.residuals(&mut information.y);
            // R^-1 (y - e) and R^-1 A, where R R' = S: compared by products with R, which is a root of what S should be.
            let y = information.y[..coordinates].to_vec();
            assert_eq!(batch.inform(instrument, 1.0, 1e-9, &mut information), Some(coordinates));
            for (i, a) in information.design.chunks_exact(d).take(coordinates).enumerate() {
                let predicted: f64 = a.iter().zip(theta).map(|(a, theta)| a * theta).sum();
                // Quantised entries are off by 2^-14 of a row at most.
                let close = (information.y[i] - predicted).abs() < 0.02;
                assert!(close || largest > 1.0, "{instrument:?} {largest}: {i}: {} {predicted}", information.y[i]);
            }
            (0..coordinates).for_each(|i| covariance[packed(i) + i] += 1e-9);
            assert!(factorise(&mut covariance, coordinates), "{instrument:?}");
            let mut whitened = y;
            solve(&covariance, &mut whitened);
            assert!(
                2 * whitened.iter().filter(|y| y.abs() > 0.1).count() > coordinates,
                "{instrument:?}: {whitened:?}"
            );
            for (i, (is, found)) in whitened.iter().zip(&*information.y).enumerate() {
                assert!((is - found).abs() < 0.02 || largest > 1.0, "{instrument:?}: {i}: {found} for {is}");
            }
        }
    }

    /// A unit changes the public sums, and nothing that is learned.
    #[test]
    fn a_unit_changes_nothing() {
        let d = 3;
        let mut row = UnpackedRow::new(2).unwrap();
        let learned = [1.0, 8.0].map(|unit| {
            let mut batch = VectorBatch::new(d).unwrap();
            let setting = Setting { instrument: Instrument::Bin, partition: Partition::default(), unit: 1.0 };
            batch.open(setting, 1000);
            for number in 0..50 {
                let features = [0.1 + number as f32 / 99.0, 0.3];
                row.quantise(Row::Dense(&features), &Scale::default());
                let x = [1.0, f64::from(row.r[0]) * row.grid(1.0), f64::from(row.r[1]) * row.grid(1.0)];
                batch.collect(&row, &x, [-1.0, 0.3, 0.2], Reward::from_units(1 << 20));
            }
            batch.rescale(unit);
            let mut information = Information::new(d).unwrap();
            batch.inform(Instrument::Bin, 1.0, 0.1, &mut information);
            let factors = [1.0, unit, unit];
            let in_first = information.design.iter().enumerate().map(|(i, a)| a * factors[i % d]).collect::<Vec<_>>();
            (in_first, batch.size * unit)
        });
        assert!(learned[0] == learned[1]);
    }
}
