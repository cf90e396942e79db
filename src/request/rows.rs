//! Rows of features, as requests contain them.

use crate::error::{Error, Result};

/// A feature of a sparse row. The values of a repeated index are added.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Feature {
    /// Index of the feature, below `features`.
    pub index: u32,
    /// Its value, finite.
    pub value: f32,
}

/// Returns the index of a category: the CRC-32 (as in zlib and PNG) of "field=value", modulo d; 0 for d = 0.
pub fn feature_hash(field: &[u8], value: &[u8], d: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    [field, b"=", value].into_iter().for_each(|bytes| hasher.update(bytes));
    hasher.finalize().checked_rem(d).unwrap_or(0)
}

/// Returns the index of a pair of categories: the CRC-32 of both indices, little-endian, modulo d; 0 for d = 0.
pub fn feature_cross(a: u32, b: u32, d: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    crc32fast::hash(&both.to_le_bytes()).checked_rem(d).unwrap_or(0)
}

/// The features of a request. With a model for each arm: one row. With one model: a row for each eligible arm, in the
/// request's order; without a list, a row for every arm by number, where the rows of retired arms are present but not
/// read.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// All rows, one after another.
    Dense(&'a [f32]),
    /// The features of all rows, one row after another, and the end of each row.
    Sparse(&'a [Feature], &'a [u32]),
}

/// One row.
#[derive(Clone, Copy)]
pub(crate) enum Row<'a> {
    Dense(&'a [f32]),
    Sparse(&'a [Feature]),
}

impl<'a> Rows<'a> {
    /// Checks the number of rows, and that the features that are read are finite. Else `InvalidRequest`.
    pub(crate) fn check(&self, rows: usize, is_read: impl Fn(usize) -> bool, features: usize) -> Result<()> {
        match *self {
            Rows::Dense(values) => {
                let needed = rows * features;
                if values.len() != needed {
                    return Err(wrong_length("features_len", needed, values.len()));
                }
                values.chunks_exact(features).enumerate().try_for_each(|(row, values)| {
                    if is_read(row) { finite("features", values.iter().copied()) } else { Ok(()) }
                })
            }
            Rows::Sparse(entries, ends) => {
                if ends.len() != rows {
                    return Err(wrong_length("sparse_ends_len", rows, ends.len()));
                }
                let needed = ends.last().copied().unwrap_or_default();
                if entries.len() != needed as usize {
                    return Err(wrong_length("features_len", needed as usize, entries.len()));
                }
                if let Some(pair) = ends.windows(2).find(|pair| pair[0] > pair[1]) {
                    return Err(Error::request(
                        "sparse_ends",
                        &format!("must not be below the {} before", pair[0]),
                        pair[1],
                    ));
                }
                (0..rows)
                    .filter(|&row| is_read(row))
                    .try_for_each(|row| check_entries(&entries[self.ends(row)], features))
            }
        }
    }

    fn ends(&self, row: usize) -> std::ops::Range<usize> {
        match *self {
            Rows::Dense(_) => 0..0,
            Rows::Sparse(_, ends) => row.checked_sub(1).map_or(0, |row| ends[row] as usize)..ends[row] as usize,
        }
    }

    /// Returns a row of checked ones.
    pub(crate) fn get(&self, row: usize, features: usize) -> Row<'a> {
        match *self {
            Rows::Dense(values) => Row::Dense(&values[row * features..][..features]),
            Rows::Sparse(entries, _) => Row::Sparse(&entries[self.ends(row)]),
        }
    }
}

fn check_entries(entries: &[Feature], features: usize) -> Result<()> {
    if let Some(entry) = entries.iter().find(|entry| entry.index as usize >= features) {
        let rule = format!("must have an index below config.features = {features}");
        return Err(Error::request("sparse", &rule, entry.index));
    }
    finite("sparse", entries.iter().map(|entry| entry.value))
}

#[cold]
fn wrong_length(field: &'static str, needed: usize, given: usize) -> Error {
    Error::request(field, &format!("must be {needed} for this request"), given)
}

fn finite(field: &'static str, values: impl Iterator<Item = f32> + Clone) -> Result<()> {
    // This loop has no early exit, so that it uses vector instructions.
    if values.clone().fold(true, |all, value| all & value.is_finite()) {
        return Ok(());
    }
    let value = values.into_iter().find(|value| !value.is_finite()).unwrap_or_default();
    Err(Error::request(field, "must be finite", f64::from(value)))
}
