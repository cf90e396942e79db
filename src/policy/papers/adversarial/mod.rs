//! Policies for adversarial rewards, which need not follow any distribution. [`weights`] draws among thousands of
//! arms in proportion to their weights; [`intervals`] batches consecutive decisions.

pub mod exp3;
pub mod exp3_lap;
pub mod exp3_tau;
mod intervals;
pub mod lap;
pub mod tsallis;
mod weights;
