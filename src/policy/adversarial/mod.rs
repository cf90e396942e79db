//! Exponential weights and their kin, for rewards that follow no distribution. Shared: the [`weights`] of
//! thousands of arms, and [`intervals`], batches of consecutive decisions.

pub mod exp3;
pub mod exp3_lap;
pub mod exp3_tau;
mod intervals;
pub mod lap;
pub mod tsallis;
mod weights;
