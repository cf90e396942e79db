//! A codebook: the public rows of features in which private ones are counted.

use crate::error::{Error, Result};
use crate::memory::try_with_capacity;
use crate::random::{Random, Seed};
use std::sync::Arc;

/// Public rows of features, for [`private_features`](crate::Config::private_features). Old, synthetic or enumerated rows,
/// never those of people whom the handle protects.
#[derive(Clone, PartialEq)]
pub struct Codebook {
    features: usize,
    rows: Arc<Vec<f32>>,
}

impl Codebook {
    /// Maximum number of rows.
    pub const MOST: u32 = 1 << 16;

    /// These rows, one after another.
    ///
    /// # Errors
    /// `InvalidConfig` for no row, a length that is no multiple of `features`, numbers that are not finite, and a mean
    /// square of the rows' lengths outside `2^-20 .. 2^20`, which calls for features of another scale; `NoMemory`.
    pub fn new(rows: &[f32], features: u32) -> Result<Codebook> {
        let features = features as usize;
        check_rows(rows, features)?;
        let mut copy = try_with_capacity(rows.len())?;
        copy.extend_from_slice(rows);
        let book = Codebook { features, rows: Arc::new(copy) };
        let square = book.mean_square();
        let is_plausible = (2f64.powi(-20)..=2f64.powi(20)).contains(&square);
        let rule = "must have rows of a mean square length in 2^-20 .. 2^20";
        Error::unless(is_plausible, "codebook", rule, square)?;
        Ok(book)
    }

    /// The 2 d signed unit vectors, for want of public rows. They lose more.
    ///
    /// # Errors
    /// `InvalidConfig` for 0 features and more than 256; `NoMemory`.
    pub fn axes(features: u32) -> Result<Codebook> {
        check_features(features)?;
        let d = features as usize;
        let mut rows = try_with_capacity(2 * d * d)?;
        rows.resize(2 * d * d, 0.0);
        (0..d).for_each(|j| (rows[2 * j * d + j], rows[(2 * j + 1) * d + j]) = (1.0, -1.0));
        Codebook::new(&rows, features)
    }

    /// `len` means of these public rows, by k-means; the same for the same rows. Without rows, the [`axes`](Self::axes).
    /// O(rows len features), at most 31 times.
    ///
    /// # Errors
    /// `InvalidConfig` as [`new`](Self::new), and for a `len` that is 0 or more than there are rows, or not 2 `features`
    /// without rows; `NoMemory`.
    pub fn of_rows(rows: &[f32], features: u32, len: u32) -> Result<Codebook> {
        check_features(features)?;
        let d = features as usize;
        if rows.is_empty() {
            let rule = || Error::config("len", &format!("must be {} without rows", 2 * d), len);
            return if len as usize == 2 * d { Codebook::axes(features) } else { Err(rule()) };
        }
        check_rows(rows, d)?;
        let (n, s) = (rows.len() / d, len as usize);
        if s == 0 || s > n.min(Self::MOST as usize) {
            let rule = format!("must be in 1 .. {}, the number of rows", n.min(Self::MOST as usize));
            return Err(Error::config("len", &rule, len));
        }
        let mut means = Means { d, rows, centers: try_with_capacity(s * d)?, nearest: try_with_capacity(n)? };
        means.nearest.resize(n, (0, f64::INFINITY));
        means.choose(s, &mut Seed::new(Some([57; 32]))?.stream());
        let (mut sums, mut counts) = (try_with_capacity(s * d)?, try_with_capacity(s)?);
        for _ in 0..ROUNDS {
            if !means.improve(&mut sums, &mut counts) {
                break;
            }
        }
        Codebook::new(&means.centers, features)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len() / self.features
    }

    /// Whether there is no row, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        self.features
    }

    /// All rows, one after another.
    pub fn rows(&self) -> &[f32] {
        &self.rows
    }

    /// One of the rows.
    pub fn row(&self, place: usize) -> &[f32] {
        &self.rows[place * self.features..][..self.features]
    }

    /// The mean of |x|^2.
    pub(crate) fn mean_square(&self) -> f64 {
        self.rows.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / self.len() as f64
    }

    /// A number by which different codebooks differ.
    pub(crate) fn id(&self) -> u64 {
        let mut hasher = crc32fast::Hasher::new();
        self.rows.iter().for_each(|x| hasher.update(&x.to_le_bytes()));
        (self.len() as u64) << 32 | u64::from(hasher.finalize())
    }
}

impl std::fmt::Debug for Codebook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Codebook({} rows of {})", self.len(), self.features)
    }
}

const ROUNDS: usize = 30;

fn check_features(features: u32) -> Result<()> {
    Error::unless((1..=256).contains(&features), "features", "must be in 1 .. 256", features)
}

fn check_rows(rows: &[f32], features: usize) -> Result<()> {
    if features == 0 || rows.is_empty() || !rows.len().is_multiple_of(features) {
        let rule = format!("must be a positive multiple of {features} features");
        return Err(Error::config("codebook", &rule, rows.len()));
    }
    match rows.iter().find(|x| !x.is_finite()) {
        Some(&x) => Err(Error::config("codebook", "must be finite", f64::from(x))),
        None => Ok(()),
    }
}

/// The state of k-means.
struct Means<'a> {
    d: usize,
    rows: &'a [f32],
    centers: Vec<f32>,
    /// The nearest center of each row, and the square of its distance.
    nearest: Vec<(usize, f64)>,
}

fn square_distance(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum()
}

impl Means<'_> {
    /// Chooses rows as centers, each with a probability proportional to the square of its distance from those before it.
    fn choose(&mut self, many: usize, coins: &mut Random) {
        for number in 0..many {
            let total: f64 = self.nearest.iter().map(|(_, square)| square).sum();
            let mut left = coins.unit() * total;
            let place = match number {
                0 => 0,
                _ => self
                    .nearest
                    .iter()
                    .position(|(_, square)| {
                        left -= square;
                        left < 0.0
                    })
                    .unwrap_or(0),
            };
            let row = &self.rows[place * self.d..][..self.d];
            self.centers.extend_from_slice(row);
            for (other, nearest) in self.rows.chunks_exact(self.d).zip(&mut self.nearest) {
                let square = square_distance(row, other);
                if square < nearest.1 {
                    *nearest = (number, square);
                }
            }
        }
    }

    /// Moves each center to the mean of its rows, and finds the nearest centers anew. Returns whether one is another.
    fn improve(&mut self, sums: &mut Vec<f64>, counts: &mut Vec<u32>) -> bool {
        let (d, s) = (self.d, self.centers.len() / self.d);
        sums.clear();
        counts.clear();
        sums.resize(s * d, 0.0);
        counts.resize(s, 0);
        for (row, &(center, _)) in self.rows.chunks_exact(d).zip(&self.nearest) {
            counts[center] += 1;
            sums[center * d..][..d].iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        for center in (0..s).filter(|&center| counts[center] > 0) {
            let (to, from) = (&mut self.centers[center * d..][..d], &sums[center * d..][..d]);
            to.iter_mut().zip(from).for_each(|(to, sum)| *to = (sum / f64::from(counts[center])) as f32);
        }
        let mut moved = false;
        for (row, nearest) in self.rows.chunks_exact(d).zip(&mut self.nearest) {
            let of = |center: usize| (center, square_distance(row, &self.centers[center * d..][..d]));
            let best = (0..s).map(of).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0));
            moved |= best.0 != nearest.0;
            *nearest = best;
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_in_the_middle_of_what_is_near() {
        let mut coins = Seed::new(Some([3; 32])).unwrap().stream();
        let places = [[0.0, 0.0], [5.0, 0.0], [0.0, -4.0], [7.0, 7.0]];
        let near = |x: f64, coins: &mut Random| (x + 0.2 * coins.unit() - 0.1) as f32;
        let rows: Vec<f32> = (0..400).flat_map(|i| places[i % 4].map(|x| near(x, &mut coins))).collect();
        let book = Codebook::of_rows(&rows, 2, 4).unwrap();
        for place in places {
            let found = (0..4).filter(|&row| square_distance(book.row(row), &place.map(|x| x as f32)) < 1e-3);
            assert_eq!(found.count(), 1, "{place:?}");
        }
        assert_eq!(book, Codebook::of_rows(&rows, 2, 4).unwrap());
        assert_eq!((book.len(), book.features(), book.is_empty()), (4, 2, false));
        assert_ne!(book.id(), Codebook::axes(2).unwrap().id());
        // Rows that are all alike are enough.
        assert_eq!(Codebook::of_rows(&[2.0; 12], 2, 3).unwrap().rows(), [2.0; 6]);
    }

    #[test]
    fn axes_are_signed() {
        let book = Codebook::axes(2).unwrap();
        assert_eq!((book.rows(), book.mean_square()), (&[1.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0, -1.0][..], 1.0));
    }

    #[test]
    fn what_is_no_codebook_is_refused() {
        let refused = |book: Result<Codebook>| book.unwrap_err().to_string();
        assert!(refused(Codebook::new(&[], 2)).contains("codebook must be a positive multiple of 2"));
        assert!(refused(Codebook::new(&[1.0; 3], 2)).contains("codebook"));
        assert!(refused(Codebook::new(&[1.0, f32::NAN], 2)).contains("finite"));
        assert!(refused(Codebook::new(&[1e-9, 0.0], 2)).contains("2^-20"));
        assert!(refused(Codebook::new(&[1e9, 0.0], 2)).contains("2^-20"));
        assert!(refused(Codebook::axes(0)).contains("features"));
        assert!(refused(Codebook::of_rows(&[1.0; 4], 2, 3)).contains("len must be in 1 .. 2"));
        assert!(refused(Codebook::of_rows(&[], 2, 3)).contains("len must be 4 without rows"));
        assert!(refused(Codebook::of_rows(&[1.0; 4], 2, 0)).contains("len"));
        assert!(refused(Codebook::of_rows(&[1.0; 4], 257, 1)).contains("features"));
    }
}
