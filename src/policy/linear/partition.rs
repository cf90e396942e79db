//! The partition of rows into cells, a function of public rows only.

use super::rows::{UnpackedRow, power};
use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist, persist};

/// Maximum number of cells.
pub const CELLS: usize = 64;
/// Number of rows that a cell needs, since it was made, before it is split. (With 16 to 256, and with as many cells, the
/// loss is the same within the error.)
const ROWS: f64 = 64.0;

/// Rows of a cell whose feature is above the threshold are in a cell of their own, which has the next number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Split {
    cell: u8,
    feature: u8,
    threshold: f32,
    /// The next split of its cell, and the first one of the cell that it makes. 0: none.
    stay: u8,
    go: u8,
}

/// A list of splits, which only grows. So the cells under the first splits never change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partition {
    splits: [Split; CELLS - 1],
    used: u8,
}

impl Default for Partition {
    fn default() -> Partition {
        Partition { splits: [Split::default(); CELLS - 1], used: 0 }
    }
}

impl Partition {
    fn splits(&self) -> &[Split] {
        &self.splits[..self.used.into()]
    }

    /// Returns the number of cells.
    pub fn cells(&self) -> usize {
        1 + usize::from(self.used)
    }

    /// Returns the cell of a row.
    pub fn cell(&self, row: &UnpackedRow) -> usize {
        let (mut cell, mut number, unit) = (0, 0, power(row.head.exponent.into()));
        while let Some(split) = self.splits().get(number) {
            let r = row.r.get(usize::from(split.feature)).copied().unwrap_or(0);
            let is_above = f64::from(r) * unit > split.threshold.into();
            if is_above {
                cell = number + 1;
            }
            number = usize::from(if is_above { split.go } else { split.stay });
            if number == 0 {
                break;
            }
        }
        cell
    }

    /// Returns which of the first `cells` cells this one has been split from.
    pub fn ancestor(&self, mut cell: usize, cells: usize) -> usize {
        while cell >= cells {
            cell = self.splits[cell - 1].cell.into();
        }
        cell
    }

    /// Adds a split of a cell.
    fn push(&mut self, cell: u8, feature: u8, threshold: f32) {
        let number = self.used;
        for (before, split) in self.splits.iter_mut().enumerate().take(number.into()).rev() {
            let place = match cell {
                cell if cell == split.cell => &mut split.stay,
                cell if usize::from(cell) == before + 1 => &mut split.go,
                _ => continue,
            };
            *place = number;
            break;
        }
        self.splits[usize::from(number)] = Split { cell, feature, threshold, stay: 0, go: 0 };
        self.used += 1;
    }

    /// Whether this partition is the other one, or has been split from it.
    pub fn extends(&self, other: &Partition) -> bool {
        let same = |(a, b): (&Split, &Split)| (a.cell, a.feature, a.threshold) == (b.cell, b.feature, b.threshold);
        self.used >= other.used && self.splits().iter().zip(other.splits()).all(same)
    }
}

impl Persist for Partition {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let Partition { splits, mut used } = std::mem::take(self);
        used.persist(with)?;
        with.ensure(usize::from(used) < CELLS)?;
        for (number, Split { mut cell, mut feature, mut threshold, .. }) in (0..used).zip(splits) {
            cell.persist(with)?;
            feature.persist(with)?;
            threshold.persist(with)?;
            with.ensure(cell <= number && threshold.is_finite())?;
            self.push(cell, feature, threshold);
        }
        Ok(())
    }
}

/// Finds the next split: the largest sum of squared deviations of a feature in a cell, split at the mean.
pub struct Splitter {
    pub partition: Partition,
    /// For each cell since it was made: the number of rows, and for each feature the sum and the sum of squares.
    moments: WipedVec<f64>,
}

impl Splitter {
    /// # Errors
    /// `NoMemory`.
    pub fn new(features: usize) -> Result<Splitter> {
        let moments = WipedVec::new(CELLS * (1 + 2 * features), |_| 0.0)?;
        Ok(Splitter { partition: Partition::default(), moments })
    }

    fn of(&mut self, cell: usize) -> &mut [f64] {
        let width = self.moments.len() / CELLS;
        &mut self.moments[cell * width..][..width]
    }

    /// Counts a row.
    pub fn count(&mut self, row: &UnpackedRow) {
        let unit = power(row.head.exponent.into());
        let moments = self.of(self.partition.cell(row));
        moments[0] += 1.0;
        for &j in row.places() {
            let (j, value) = (usize::from(j), f64::from(row.r[usize::from(j)]) * unit);
            moments[1 + 2 * j] += value;
            moments[2 + 2 * j] += value * value;
        }
    }

    /// Splits a cell, if one has enough rows that differ.
    pub fn split(&mut self) {
        let number = self.partition.cells();
        if number == CELLS {
            return;
        }
        let (mut best, mut largest) = (None, 0.0);
        for cell in 0..number {
            let [rows, ref of_features @ ..] = *self.of(cell) else { continue };
            for (feature, of_feature) in of_features.as_chunks::<2>().0.iter().enumerate().filter(|_| rows >= ROWS) {
                let [sum, square] = *of_feature;
                let deviation = square - sum * sum / rows;
                if deviation > largest && deviation > 1e-9 * square {
                    (best, largest) = (Some((cell as u8, feature as u8, (sum / rows) as f32)), deviation);
                }
            }
        }
        if let Some((cell, feature, threshold)) = best {
            self.partition.push(cell, feature, threshold);
            self.of(cell.into()).fill(0.0);
            self.of(number).fill(0.0);
        }
    }

    /// Takes over a partition.
    pub fn follow(&mut self, partition: &Partition) {
        if self.partition != *partition {
            self.partition = *partition;
            self.moments.fill(0.0);
        }
    }
}

persist!(Splitter { partition, moments });

#[cfg(test)]
mod tests {
    use super::super::rows::Scale;
    use super::*;
    use crate::random::Seed;
    use crate::request::Row;

    /// A row's cell is what all splits in their order say.
    #[test]
    fn a_cell_is_what_the_splits_say() {
        let mut coins = Seed::new(Some([6; 32])).unwrap().stream();
        let (mut splitter, mut row) = (Splitter::new(3).unwrap(), UnpackedRow::new(3).unwrap());
        for number in 0..30_000 {
            let features: [f32; 3] = std::array::from_fn(|_| (coins.unit() * coins.unit()) as f32);
            row.quantise(Row::Dense(&features), &Scale::default());
            splitter.count(&row);
            if number % 64 == 0 {
                splitter.split();
            }
            let (mut cell, unit) = (0, power(row.head.exponent.into()));
            for (number, split) in splitter.partition.splits().iter().enumerate() {
                let value = f64::from(row.r[usize::from(split.feature)]) * unit;
                if usize::from(split.cell) == cell && value > split.threshold.into() {
                    cell = number + 1;
                }
            }
            assert_eq!(splitter.partition.cell(&row), cell);
        }
        assert_eq!(splitter.partition.cells(), CELLS);
    }
}
