//! Rows of features as integers, as pending decisions keep them.

use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::persist;
use crate::request::Row;

/// C in integers: the maximum of |u|_1, or |u|_2, of every kept row.
pub const UNIT: i32 = 1 << 13;
/// Maximum size of a row, in units of C. A larger one counts as one of this size.
pub const LARGEST: f64 = 16.0;

/// The conversion of features to integers.
#[derive(Clone, Copy)]
pub struct Scale {
    /// d, the number of features.
    pub features: usize,
    /// C, the norm bound.
    pub norm: f64,
    /// Whether C bounds |x|_2 instead of |x|_1.
    pub euclidean: bool,
}

impl Row<'_> {
    fn each(self, mut each: impl FnMut(usize, f64)) {
        match self {
            Row::Dense(values) => values.iter().enumerate().for_each(|(j, &value)| each(j, value.into())),
            Row::Sparse(entries) => entries.iter().for_each(|entry| each(entry.index as usize, entry.value.into())),
        }
    }

    /// Returns |x|/C, and the factor that brings x to units of C and to at most [`LARGEST`].
    fn size(self, scale: &Scale) -> (f64, f64) {
        let mut sum = 0.0;
        match scale.euclidean {
            false => self.each(|_, x| sum += x.abs()),
            true => self.each(|_, x| sum += x * x),
        }
        let size = if scale.euclidean { sum.sqrt() } else { sum } / scale.norm;
        (size, (LARGEST / size).min(1.0) / scale.norm)
    }

    /// Returns x t, with x in units of C.
    #[inline]
    pub fn score(self, t: &[f64], scale: &Scale) -> f64 {
        let (mut sum, mut size) = (0.0, 0.0);
        match (self, scale.euclidean) {
            (Row::Dense(values), false) => {
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
            (_, false) => self.each(|j, x| {
                sum += x * t[j];
                size += x.abs();
            }),
            (_, true) => {
                self.each(|j, x| {
                    sum += x * t[j];
                    size += x * x;
                });
                size = size.sqrt();
            }
        }
        sum / size.max(LARGEST * scale.norm) * LARGEST
    }
}

/// The rows of pending decisions: u, of norm at most [`UNIT`], and the weight w >= 1 that scaled it down, so that x = w
/// C u/UNIT. Rows are dense, 2 d bytes each, because their sparsity is not known in advance and memory is bounded.
pub struct PendingRows {
    features: usize,
    values: WipedVec<i16>,
    heads: WipedVec<RowHead>,
}

#[derive(Clone, Copy, Default)]
struct RowHead {
    arm: u32,
    weight: f32,
}

/// A kept row, unpacked.
pub struct SpreadRow {
    pub arm: u32,
    /// w, the weight.
    pub weight: f64,
    /// u, for each feature.
    pub u: WipedVec<i32>,
    /// Indices where u is not 0, each once.
    places: WipedVec<u16>,
    used: usize,
    is_marked: WipedVec<bool>,
}

impl SpreadRow {
    pub fn new(scale: &Scale) -> Result<SpreadRow> {
        Ok(SpreadRow {
            arm: 0,
            weight: 1.0,
            u: WipedVec::new(scale.features, |_| 0)?,
            places: WipedVec::new(scale.features, |_| 0)?,
            used: 0,
            is_marked: WipedVec::new(scale.features, |_| false)?,
        })
    }

    /// Returns the indices where u is not 0.
    pub fn places(&self) -> &[u16] {
        &self.places[..self.used]
    }

    fn clear(&mut self) {
        for place in 0..self.used {
            let j = self.places[place] as usize;
            (self.u[j], self.is_marked[j]) = (0, false);
        }
        self.used = 0;
    }

    fn set(&mut self, j: usize, u: i32) {
        self.u[j] += u;
        if u != 0 && !std::mem::replace(&mut self.is_marked[j], true) {
            self.places[self.used] = j as u16;
            self.used += 1;
        }
    }

    /// Returns |u|, or its square if `scale` bounds |x|_2, exactly.
    fn size(&self, scale: &Scale) -> i64 {
        let size = |&j: &u16| match i64::from(self.u[j as usize]) {
            u if scale.euclidean => u * u,
            u => u.abs(),
        };
        self.places().iter().map(size).sum()
    }

    /// Quantises a row towards zero. The integers decide whether it is small enough, so floating point cannot err.
    /// Returns whether the row was larger than C.
    pub fn quantise(&mut self, row: Row, scale: &Scale) -> bool {
        let (size, shrink) = row.size(scale);
        self.weight = size.clamp(1.0, LARGEST);
        let mut unit = f64::from(UNIT) / self.weight * shrink;
        let most = if scale.euclidean { i64::from(UNIT) * i64::from(UNIT) } else { i64::from(UNIT) };
        loop {
            self.clear();
            row.each(|j, x| self.set(j, (x * unit) as i32));
            let found = self.size(scale);
            if found <= most {
                return size > 1.0;
            }
            // Rounding, or repeated entries in L2.
            let ratio = most as f64 / found as f64;
            unit *= (1.0 - 1e-6) * if scale.euclidean { ratio.sqrt() } else { ratio };
        }
    }
}

impl PendingRows {
    pub fn new(capacity: usize, features: usize) -> Result<PendingRows> {
        let values = WipedVec::new(capacity * features, |_| 0)?;
        Ok(PendingRows { features, values, heads: WipedVec::new(capacity, |_| RowHead::default())? })
    }

    /// Returns the arm of a kept row.
    pub fn arm(&self, slot: usize) -> u32 {
        self.heads[slot].arm
    }

    /// Keeps the row of a decision.
    pub fn keep(&mut self, slot: usize, row: &SpreadRow) {
        let values = &mut self.values[slot * self.features..][..self.features];
        values.iter_mut().zip(&*row.u).for_each(|(value, &u)| *value = u as i16);
        self.heads[slot] = RowHead { arm: row.arm, weight: row.weight as f32 };
    }

    /// Unpacks a kept row.
    pub fn spread(&self, slot: usize, row: &mut SpreadRow) {
        let RowHead { arm, weight } = self.heads[slot];
        row.clear();
        (row.arm, row.weight) = (arm, weight.into());
        let values = &self.values[slot * self.features..][..self.features];
        values.iter().enumerate().for_each(|(j, &u)| row.set(j, u.into()));
    }
}

persist!(PendingRows { values, heads } made { features });
persist!(RowHead { arm, weight });
