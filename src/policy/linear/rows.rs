//! Rows of features as integers, as pending decisions keep them.

use super::sample::RewardPurpose;
use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};
use crate::request::Row;

/// Maximum size of a row, in units of C. A larger one counts as one of this size.
pub const LARGEST: f64 = 16.0;
/// Maximum of |r|_1 of a kept row.
pub const MOST: i64 = (1 << 15) - 1;

/// 2^n, exactly.
pub fn power(n: i32) -> f64 {
    f64::from_bits(((1023 + n.clamp(-1022, 1023)) as u64) << 52)
}

/// C, the unit of the models' rows, which the library finds: most of the first rows are at most this large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// C, at least [`LEAST`](Self::LEAST).
    pub unit: f64,
    /// Number of rows that C is from, at most [`ROWS`](Self::ROWS); the sums of log2 |x|_1 and of its squares.
    rows: u16,
    logs: f64,
    squares: f64,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { unit: 1.0, rows: 0, logs: 0.0, squares: 0.0 }
    }
}

impl Scale {
    const ROWS: u16 = 64;
    /// C is this many standard deviations above the mean, in logarithms: near the .9 quantile. (From half of that to 1.4
    /// times it, losses are equal within the error.)
    const ABOVE: f64 = 1.28;
    /// The range of C. (A row of floats may be smaller or larger.)
    const LEAST: f64 = 1e-40;
    const MOST: f64 = 1e40;

    /// Whether C stays as it is.
    pub fn is_final(&self) -> bool {
        self.rows >= Self::ROWS
    }

    /// Counts a row, and returns what C should be now if it is the first row or the last one that counts.
    pub fn see(&mut self, size: f64) -> Option<f64> {
        if self.is_final() || size == 0.0 {
            return None;
        }
        self.rows += 1;
        let log = libm::log2(size);
        (self.logs, self.squares) = (self.logs + log, self.squares + log * log);
        let (rows, due) = (f64::from(self.rows), self.rows == 1 || self.is_final());
        let mean = self.logs / rows;
        let deviation = (self.squares / rows - mean * mean).max(0.0).sqrt();
        // Rounded, so that it is proportional to the rows to the last bit.
        let log = (8.0 * (mean + Self::ABOVE * deviation)).round() / 8.0;
        due.then(|| libm::exp2(log).clamp(Self::LEAST, Self::MOST))
    }

    /// Ends the search for C.
    pub fn settle(&mut self) {
        self.rows = Self::ROWS;
    }

    /// Returns what brings a row of this size to at most [`LARGEST`].
    fn shrink(&self, size: f64) -> f64 {
        if self.rows == 0 { 1.0 } else { (LARGEST * self.unit / size).min(1.0) }
    }
}

impl Persist for Scale {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let Scale { unit, rows, logs, squares } = self;
        unit.persist(with)?;
        with.ensure((Self::LEAST..=Self::MOST).contains(unit))?;
        rows.persist(with)?;
        logs.persist(with)?;
        squares.persist(with)?;
        with.ensure(logs.abs() <= 1e5 && (0.0..=1e7).contains(squares))
    }
}

impl Row<'_> {
    /// Calls `each` with each index that the row lists, and the value.
    pub fn each(self, mut each: impl FnMut(usize, f64)) {
        match self {
            Row::Dense(values) => values.iter().enumerate().for_each(|(j, &value)| each(j, value.into())),
            Row::Sparse(entries) => entries.iter().for_each(|entry| each(entry.index as usize, entry.value.into())),
        }
    }

    /// Returns |x|_1.
    fn size(self) -> f64 {
        let mut sum = 0.0;
        self.each(|_, x| sum += x.abs());
        sum
    }

    /// Returns x t, with x in units of C.
    #[inline]
    pub fn score(self, t: &[f64], scale: &Scale) -> f64 {
        let (mut sum, mut size) = (0.0, 0.0);
        match self {
            Row::Dense(values) => {
                // As in `algebra::dot`: four sums, in the same order on every machine.
                let ((x, x_rest), (t, t_rest)) = (values.as_chunks::<4>(), t.as_chunks::<4>());
                let (mut sums, mut sizes) = ([0.0; 4], [0.0; 4]);
                for (x, t) in x.iter().zip(t) {
                    for i in 0..4 {
                        let x = f64::from(x[i]);
                        sums[i] += x * t[i];
                        sizes[i] += x.abs();
                    }
                }
                for (&x, t) in x_rest.iter().zip(t_rest) {
                    sum += f64::from(x) * t;
                    size += f64::from(x.abs());
                }
                sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
                size += (sizes[0] + sizes[1]) + (sizes[2] + sizes[3]);
            }
            Row::Sparse(_) => self.each(|j, x| {
                sum += x * t[j];
                size += x.abs();
            }),
        }
        sum / size.max(LARGEST * scale.unit) * LARGEST
    }
}

/// The rows of pending decisions: r, of |r|_1 at most [`MOST`], and an exponent, so that x = r 2^exponent. Rows are
/// dense, 2 d bytes each, because their sparsity is not known in advance and memory is bounded.
pub struct PendingRows {
    features: usize,
    values: WipedVec<i16>,
    heads: WipedVec<RowHead>,
}

/// What a kept row has besides r.
#[derive(Clone, Copy, Default)]
pub struct RowHead {
    pub arm: u32,
    pub exponent: i16,
    pub purpose: RewardPurpose,
}

/// A kept row, unpacked.
pub struct UnpackedRow {
    pub head: RowHead,
    /// r, for each feature.
    pub r: WipedVec<i32>,
    /// Indices where r is not 0, each once.
    places: WipedVec<u16>,
    used: usize,
    is_marked: WipedVec<bool>,
}

impl UnpackedRow {
    pub fn new(features: usize) -> Result<UnpackedRow> {
        Ok(UnpackedRow {
            head: RowHead::default(),
            r: WipedVec::new(features, |_| 0)?,
            places: WipedVec::new(features, |_| 0)?,
            used: 0,
            is_marked: WipedVec::new(features, |_| false)?,
        })
    }

    /// Returns the indices where r is not 0.
    pub fn places(&self) -> &[u16] {
        &self.places[..self.used]
    }

    fn clear(&mut self) {
        for place in 0..self.used {
            let j = self.places[place] as usize;
            (self.r[j], self.is_marked[j]) = (0, false);
        }
        self.used = 0;
    }

    fn set(&mut self, j: usize, r: i32) {
        self.r[j] += r;
        if r != 0 && !std::mem::replace(&mut self.is_marked[j], true) {
            self.places[self.used] = j as u16;
            self.used += 1;
        }
    }

    /// Returns |r|_1, exactly.
    pub fn size(&self) -> i64 {
        self.places().iter().map(|&j| i64::from(self.r[usize::from(j)].abs())).sum()
    }

    /// Returns what a unit of r is in these units.
    pub fn grid(&self, unit: f64) -> f64 {
        power(self.head.exponent.into()) / unit
    }

    /// Quantises a row towards zero, so finely that |r|_1 is more than half of [`MOST`]. The integers decide whether it
    /// is small enough, so floating point cannot err. Returns |x|_1, and whether that was too large.
    pub fn quantise(&mut self, row: Row, scale: &Scale) -> (f64, bool) {
        let size = row.size();
        let shrink = scale.shrink(size);
        let (_, exponent) = libm::frexp(size * shrink);
        self.head.exponent = if size > 0.0 { (exponent - 15) as i16 } else { 0 };
        loop {
            self.clear();
            let unit = shrink * power(-i32::from(self.head.exponent));
            row.each(|j, x| self.set(j, (x * unit) as i32));
            if self.size() <= MOST {
                return (size, shrink < 1.0);
            }
            self.head.exponent += 1; // rounding
        }
    }
}

impl PendingRows {
    pub fn new(capacity: usize, features: usize) -> Result<PendingRows> {
        let values = WipedVec::new(capacity * features, |_| 0)?;
        Ok(PendingRows { features, values, heads: WipedVec::new(capacity, |_| RowHead::default())? })
    }

    /// Returns the arm of a kept row.
    pub fn arm(&self, position: usize) -> u32 {
        self.heads[position].arm
    }

    /// Keeps the row of a decision.
    pub fn keep(&mut self, position: usize, row: &UnpackedRow) {
        let values = &mut self.values[position * self.features..][..self.features];
        values.iter_mut().zip(&*row.r).for_each(|(value, &r)| *value = r as i16);
        self.heads[position] = row.head;
    }

    /// Unpacks a kept row.
    pub fn unpack(&self, position: usize, row: &mut UnpackedRow) {
        row.clear();
        row.head = self.heads[position];
        let values = &self.values[position * self.features..][..self.features];
        values.iter().enumerate().for_each(|(j, &r)| row.set(j, r.into()));
    }
}

persist!(PendingRows { values, heads } made { features });
persist!(RowHead { arm, exponent, purpose });
