//! Finds the arm with the largest score, for the index policies.

use crate::error::Result;
use crate::memory::WipedVec;
use crate::moving::persist;

/// A score for each arm: mean + offset + radius * x(t) + slope * l(t). All scores are linear in the same two
/// functions of time, so advancing the time costs two multiplications an arm.
///
/// The three arrays allow vector code for the argmax: about 1 ns and 24 bytes an arm.
pub struct Scores {
    base: WipedVec<f64>,
    radius: WipedVec<f64>,
    slope: WipedVec<f64>,
}

/// Number of arms that are compared at a time. The arrays are padded to a multiple.
const LANES: usize = 8;

impl Scores {
    /// Scores of unplayed arms: infinite, so that these come first, in order.
    pub fn new(arms: u32) -> Result<Scores> {
        let (arms, padded) = (arms as usize, (arms as usize).next_multiple_of(LANES));
        let base = WipedVec::new(padded, |arm| if arm < arms { f64::INFINITY } else { f64::NEG_INFINITY })?;
        Ok(Scores { base, radius: WipedVec::new(padded, |_| 0.0)?, slope: WipedVec::new(padded, |_| 0.0)? })
    }

    /// Sets an arm's score. None of the three numbers may be NaN.
    #[inline]
    pub fn set(&mut self, arm: u32, base: f64, radius: f64, slope: f64) {
        let arm = arm as usize;
        (self.base[arm], self.radius[arm], self.slope[arm]) = (base, radius, slope);
    }

    /// The first arm with the largest score at this x and l.
    #[inline]
    pub fn argmax(&self, x: f64, l: f64) -> u32 {
        let mut most = [f64::NEG_INFINITY; LANES];
        let mut rows = [0u64; LANES];
        let columns = self.base.chunks_exact(LANES).zip(self.radius.chunks_exact(LANES));
        for (row, ((base, radius), slope)) in columns.zip(self.slope.chunks_exact(LANES)).enumerate() {
            for lane in 0..LANES {
                let score = base[lane] + x * radius[lane] + l * slope[lane];
                let more = score > most[lane];
                most[lane] = if more { score } else { most[lane] };
                rows[lane] = if more { row as u64 } else { rows[lane] };
            }
        }
        let arm = |lane: usize| rows[lane] * LANES as u64 + lane as u64;
        let better = |a: usize, b: usize| most[b] > most[a] || (most[b] == most[a] && arm(b) < arm(a));
        arm((1..LANES).fold(0, |best, lane| if better(best, lane) { lane } else { best })) as u32
    }
}

persist!(Scores { base, radius, slope });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn argmax_is_the_plain_one() {
        let mut random = Seed::new(Some([1; 32])).unwrap().stream();
        for arms in [2, 7, 8, 9, 31, 64, 1000] {
            let mut scores = Scores::new(arms).unwrap();
            for played in 0..arms {
                assert_eq!(scores.argmax(1.0, 1.0), played); // the unplayed come first, in order
                // few different values, so that there are ties
                let mut draw = || random.below(5) as f64;
                scores.set(played, draw(), draw(), draw());
            }
            for (x, l) in [(0.0, 0.0), (1.0, 0.5), (0.1, 7.0)] {
                let score = |arm: usize| scores.base[arm] + x * scores.radius[arm] + l * scores.slope[arm];
                let plain = (1..arms as usize).fold(0, |best, arm| if score(arm) > score(best) { arm } else { best });
                assert_eq!(scores.argmax(x, l), plain as u32, "{arms} arms");
            }
        }
    }
}
