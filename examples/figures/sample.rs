//! The random bits of a run, and the statistics of many runs.

use dpb::{Random, Seed};

/// The values that one run measures, one for each time of the experiment.
pub type Curve = Vec<f64>;

/// One run of one cell. It determines all random bits of the run.
#[derive(Clone, Copy)]
pub struct Trial {
    /// The program's `--seed`.
    pub seed: u64,
    /// The number of the run. Cells use the same random bits of the environment for the same number where possible.
    pub run: u64,
}

impl Trial {
    /// The test seed of the policy.
    pub fn policy_seed(self) -> [u8; 32] {
        self.key(1)
    }

    /// The random bits of the environment, independent of the policy's.
    pub fn coins(self) -> Random {
        Seed::new(Some(self.key(2))).expect("a test seed needs no entropy").stream()
    }

    /// A key of 32 bytes for this purpose, unique to the seed and the run.
    pub fn key(self, purpose: u64) -> [u8; 32] {
        let mut key = [0; 32];
        for (place, word) in key.chunks_exact_mut(8).zip([self.seed, self.run, purpose, 0x6470_6266_6967_7572]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        key
    }
}

/// The curves of all runs of one cell, in the order of the runs.
#[derive(Clone)]
pub struct Sample(pub Vec<Curve>);

impl Sample {
    /// The mean curve.
    pub fn mean(&self) -> Curve {
        self.pointwise(|values| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The standard error of the mean curve.
    pub fn errors(&self) -> Curve {
        self.pointwise(standard_error)
    }

    /// A curve of a statistic. The argument of `statistic` is the sorted values of all runs at one time.
    pub fn pointwise(&self, statistic: impl Fn(&[f64]) -> f64) -> Curve {
        let at = |time: usize| {
            let mut values: Vec<f64> = self.0.iter().map(|curve| curve[time]).collect();
            values.sort_by(f64::total_cmp);
            statistic(&values)
        };
        (0..self.0[0].len()).map(at).collect()
    }

    /// The final values of all runs, sorted.
    pub fn last(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.0.iter().map(|curve| curve[curve.len() - 1]).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The mean of the final values, and its standard error.
    pub fn last_mean(&self) -> (f64, f64) {
        let values = self.last();
        (values.iter().sum::<f64>() / values.len() as f64, standard_error(&values))
    }
}

fn standard_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0).max(1.0) / n).sqrt()
}
