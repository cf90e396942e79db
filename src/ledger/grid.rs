//! A table with a value for each arm in each row. Adding rows and arms never moves a value.

use crate::error::{Error, Result};
use crate::memory::WipedVec;
use crate::moving::{Archive, Persist};
use std::ops::{Index, IndexMut};

/// A grid of values. The arms of the configuration lie row by row in one table. Each added arm has a table of its own,
/// with one value for each row. Every table reserves its address space for all rows when it is created. In a grid of
/// one row all arms lie in one table.
#[derive(Default)]
pub(crate) struct Grid<T> {
    /// Number of the configuration's arms; in a grid of one row, of all arms.
    configured: usize,
    /// Maximum number of rows.
    capacity: usize,
    rows: usize,
    base: WipedVec<T>,
    added: Vec<WipedVec<T>>,
}

impl<T: Default> Grid<T> {
    /// Returns an empty grid for `arms` arms and at most `capacity` rows.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn try_new(arms: usize, capacity: usize) -> Result<Grid<T>> {
        let base = WipedVec::try_with_capacity(arms * capacity)?;
        Ok(Grid { configured: arms, capacity, rows: 0, base, added: Vec::new() })
    }

    /// Adds a row, within the capacity.
    pub fn push_row(&mut self) {
        (0..self.configured).for_each(|_| self.base.push(T::default()));
        self.added.iter_mut().for_each(|column| column.push(T::default()));
        self.rows += 1;
    }

    /// Returns the values of a new arm, for [`push_arm`](Self::push_arm).
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn new_arm(&mut self) -> Result<WipedVec<T>> {
        self.added.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let mut column = WipedVec::try_with_capacity(self.capacity)?;
        (0..self.rows).for_each(|_| column.push(T::default()));
        Ok(column)
    }

    /// Adds an arm with the values that [`new_arm`](Self::new_arm) returned.
    pub fn push_arm(&mut self, column: WipedVec<T>) {
        self.added.push(column);
    }
}

impl<T> Grid<T> {
    /// Returns a grid of one row, with these values.
    pub fn of_row(values: WipedVec<T>) -> Grid<T> {
        Grid { configured: values.len(), capacity: 1, rows: 1, base: values, added: Vec::new() }
    }

    /// Reserves memory for one more value of a grid of one row.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        self.base.reserve()
    }

    /// Adds an arm with this value to a grid of one row, after [`reserve`](Self::reserve).
    pub fn push(&mut self, value: T) {
        self.base.push(value);
        self.configured += 1;
    }

    /// Maximum number of rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn arms(&self) -> usize {
        self.configured + self.added.len()
    }

    /// Returns the value of an arm in a row, or `None` if the grid has no such row or arm.
    #[inline]
    pub fn get(&self, row: usize, arm: usize) -> Option<&T> {
        if arm < self.configured {
            self.base.get(row * self.configured + arm)
        } else {
            self.added.get(arm - self.configured)?.get(row)
        }
    }

    #[inline]
    pub fn get_mut(&mut self, row: usize, arm: usize) -> Option<&mut T> {
        match arm.checked_sub(self.configured) {
            None => self.base.get_mut(row * self.configured + arm),
            Some(column) => self.added.get_mut(column)?.get_mut(row),
        }
    }

    /// Iterates over all values, row by row, each row in the order of its arms.
    #[cfg(test)]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        let arms = self.arms();
        (0..self.rows * arms).map(move |place| &self[(place / arms, place % arms)])
    }

    /// Returns the value at this position of the table of the configuration's arms.
    #[inline]
    pub fn base_mut(&mut self, place: usize) -> &mut T {
        &mut self.base[place]
    }
}

impl<T> Index<(usize, usize)> for Grid<T> {
    type Output = T;

    #[inline]
    fn index(&self, (row, arm): (usize, usize)) -> &T {
        self.get(row, arm).expect("a row and an arm of the grid")
    }
}

impl<T> IndexMut<(usize, usize)> for Grid<T> {
    #[inline]
    fn index_mut(&mut self, (row, arm): (usize, usize)) -> &mut T {
        self.get_mut(row, arm).expect("a row and an arm of the grid")
    }
}

impl<T: Persist> Persist for Grid<T> {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let Grid { base, added, configured: _, capacity: _, rows: _ } = self;
        base.persist(with)?;
        with.each(added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and arms are added in any order: every value keeps its position, and new ones are empty.
    #[test]
    fn a_value_stays_where_it_is() {
        let mut grid: Grid<u64> = Grid::try_new(3, 9).unwrap();
        let name = |row: usize, arm: usize| (10 * row + arm + 1) as u64;
        for step in 0..14 {
            if [0, 1, 4, 6, 7, 11].contains(&step) {
                let column = grid.new_arm().unwrap();
                grid.push_arm(column);
            } else {
                grid.push_row();
            }
            for row in 0..grid.rows {
                for arm in 0..grid.arms() {
                    let value = &mut grid[(row, arm)];
                    assert!(*value == 0 || *value == name(row, arm));
                    *value = name(row, arm);
                }
            }
        }
        let all: Vec<u64> = (0..8).flat_map(|row| (0..9).map(move |arm| name(row, arm))).collect();
        assert!(grid.iter().copied().eq(all));
        assert_eq!((grid.get(7, 8), grid.get(8, 0), grid.get(0, 9)), (Some(&79), None, None));
    }
}
