//! What a caller says about one decision.

use crate::policy::linear::Rows;

/// One request for a decision. All of it is public: compute nothing in it from rewards.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The number of different arms to choose, at least 1. Each gets a decision and a ticket of its own.
    pub slots: u32,
    /// The segment's key with [`Config::max_segments`](crate::Config::max_segments); else 0.
    pub segment: u64,
    /// A keyed hash of the person with [`Config::expected_users`](crate::Config::expected_users); else 0.
    pub user: u64,
    /// Arms that may be chosen, in any order; duplicates are harmless. `None` = all live arms. Choose them by
    /// public information only.
    pub eligible: Option<&'a [u32]>,
    /// With [`Config::features`](crate::Config::features): one row if each arm has a model; else a row for each
    /// eligible arm, in that order, or for every arm by its number.
    pub features: Option<Rows<'a>>,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request { slots: 1, segment: 0, user: 0, eligible: None, features: None }
    }
}
