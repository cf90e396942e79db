//! The policies of the papers, as the papers have them, and baselines. The recommended ones are beside this directory.

pub mod adversarial;
pub mod baselines;
pub mod continual;
pub mod elimination;
pub mod local;
mod scores;
