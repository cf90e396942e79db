//! Arms are played in turn and leave the race one after another.

pub mod sdp_ae;
pub mod se;
pub mod vb_sdp_ae;
