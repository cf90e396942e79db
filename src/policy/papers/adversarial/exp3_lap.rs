//! DP-EXP3-Lap: DP-Lambda-Lap over EXP3.
//!
//! Tossou and Dimitrakakis (2017), Algorithm 1, with mini-batches as an option. **Pure eps-DP**. Its regret depends
//! on `batch`: O(sqrt(K T ln K) ln T/eps) with 1 (the paper's, and the default), O(sqrt(K T ln K/eps) ln T) with
//! ceil(1/eps), and O(sqrt(K T ln K ln T/eps)) with the best one, 2 ln(T)/eps: see [`Lap`].
//!
//! Cost: select and update O(log K); 40 bytes an arm and those of the intervals.

use super::lap::Lap;
use crate::config::Config;
use crate::error::Result;
use crate::policy::Algorithm;
use crate::random::Seed;

pub fn new(config: &Config, seed: &mut Seed) -> Result<Lap> {
    Lap::over(Algorithm::NonprivateExp3, config, seed)
}
