//! Arm elimination: viable arms are pulled in turn, and the arms that are worse than another one are eliminated.

pub mod sdp_ae;
pub mod se;
pub mod vb_sdp_ae;
