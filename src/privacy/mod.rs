//! The contract's theorems as code.
//!
//! # Theorem P (adaptive disjoint batches)
//!
//! If every reward belongs to exactly one batch; batch membership, batch size and every action are
//! functions of earlier *releases*, coins and public data only; each batch is released once, as
//! its sum plus noise that is eps-DP (rho-zCDP) at sensitivity one; and everything observable is a
//! function of releases and coins; then the whole transcript is eps-DP (rho-zCDP), with no factor
//! for the number of arms or batches.
//!
//! *Proof.* Take two reward tables that differ in one reward, fix the coins and a transcript of
//! releases. By induction over releases, memberships, sizes and actions up to each release are the
//! same in both worlds, so the density of the transcript is a product over batches, one factor
//! each, and the changed reward is in one batch: one factor differs, by at most e^eps (for zCDP:
//! one Renyi divergence of at most rho * alpha, and the chain rule adds zeros). ∎
//!
//! What breaks it: closing a batch by *arrival* when the time of arrival depends on the reward
//! (hence `answer_window`), and releasing a batch twice (retries, re-noising, old snapshots).

mod binomial;
pub mod calibration;

/// The privacy loss of one reward so far, as the mechanism's theorem states it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PrivacyLoss {
    /// Pure eps-DP; 0 before the first release.
    Pure(f64),
    /// No guarantee: a baseline.
    Unbounded,
}

impl PrivacyLoss {
    /// The smallest known epsilon at this delta for a user behind `contributions` rewards (group
    /// privacy), rounded up; infinite where there is none.
    pub fn epsilon(self, _delta: f64, contributions: u32) -> f64 {
        match self {
            PrivacyLoss::Pure(epsilon) if contributions == 1 => epsilon,
            PrivacyLoss::Pure(epsilon) => (epsilon * f64::from(contributions)).next_up(),
            PrivacyLoss::Unbounded => f64::INFINITY,
        }
    }
}
