//! What a caller says about one decision.

use crate::policy::linear::Rows;

/// One request for a decision. All of it is public: nothing in it may be made from rewards.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Different arms wanted, at least 1. Each gets a decision and a ticket of its own.
    pub slots: u32,
    /// The segment's key, where the handle has segments; else 0.
    pub segment: u64,
    /// The person who makes the request, where the handle counts users; else 0.
    pub user: u64,
    /// Arms that may be chosen, in any order; duplicates are harmless. `None` = all live arms.
    pub eligible: Option<&'a [u32]>,
    /// Where the configuration has features: one row for a model for each arm, else a row for each eligible arm, in that
    /// order, or for every arm by number.
    pub features: Option<Rows<'a>>,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request { slots: 1, segment: 0, user: 0, eligible: None, features: None }
    }
}
