//! Arm elimination: viable arms are pulled in turn, and the arms that are worse than another one are eliminated.

pub mod sdp_ae;
pub mod se;
pub mod vb_sdp_ae;

use crate::error::Result;
use crate::moving::{Archive, Persist};
use crate::policy::contract::ArmState;

/// What the last release says of an arm.
struct Estimate {
    mean: f64,
    width: f64,
    /// Number of rewards in the mean.
    count: u64,
}

impl Estimate {
    fn state(&self, active: bool) -> ArmState {
        ArmState { mean: self.mean, width: self.width, effective_pulls: self.count as f64, active }
    }
}

/// Before the first release.
impl Default for Estimate {
    fn default() -> Estimate {
        Estimate { mean: f64::NAN, width: f64::NAN, count: 0 }
    }
}

impl Persist for Estimate {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        self.mean.persist(with)?;
        self.width.persist(with)?;
        with.count(&mut self.count)?;
        with.ensure_interval(self.count > 0, self.mean, self.width)
    }
}
