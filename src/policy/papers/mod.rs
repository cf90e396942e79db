//! The policies of the papers, as the papers have them, and baselines. The recommended ones are beside this directory.

pub mod adversarial;
pub mod baselines;
pub mod continual;
mod counting;
pub mod elimination;
pub mod local;
mod scores;
