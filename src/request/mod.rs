//! What a caller says about one decision, and how it becomes a choice: [`Offers::check`] makes an [`Offer`] of a
//! [`Request`], and a policy chooses by it.

mod choice;
mod offer;
mod rows;

use crate::config::Config;
pub(crate) use choice::Choice;
pub use choice::Pull;
pub(crate) use offer::{Catalog, Limits, Offer, Offers, Segment, Values};
pub(crate) use rows::Row;
pub use rows::{Feature, Rows, feature_cross, feature_hash};

/// One request for a decision. All of it is public: compute nothing in it from rewards.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The number of different arms to choose, at least 1. Each gets a decision and a ticket of its own.
    pub slots: u32,
    /// The segment's key with [`Config::max_segments`](crate::Config::max_segments); else 0.
    pub segment: u64,
    /// A keyed hash of the person with [`Config::expected_users`](crate::Config::expected_users); else 0.
    pub user: u64,
    /// Arms that may be chosen, in any order; one listed twice counts once. `None` = all live arms. Choose them by
    /// public information only.
    pub eligible: Option<&'a [u32]>,
    /// What a reward of each eligible arm is worth in this request, in that order; without a list, of every arm by its
    /// number, where those of retired arms are not read. Finite and at least 0. The policy then maximises the value times
    /// the mean. Compute values from public facts, such as bids and prices, and never from rewards. `None` = all alike.
    pub values: Option<&'a [f64]>,
    /// For each slot the probability that a visitor examines it, from 2^-16 to 1. The slots then get the arms in the order
    /// of value times mean, and the policy learns click rates: the chance of a click where the slot is examined. Public:
    /// estimate it from slots at random, not from what this service shows. `None` = all slots are always examined.
    pub examined: Option<&'a [f64]>,
    /// With [`Config::features`](crate::Config::features): one row if each arm has a model; else a row for each
    /// eligible arm, in that order, or for every arm by its number.
    pub features: Option<Rows<'a>>,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request { slots: 1, segment: 0, user: 0, eligible: None, values: None, examined: None, features: None }
    }
}

/// Units of one examination of a slot.
pub(crate) const EXAMINATION: u64 = 1 << 16;

/// What requests a policy can decide, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Abilities {
    /// Requests with several slots.
    pub slots: bool,
    /// Requests with values.
    pub values: bool,
    /// Requests whose slots are examined with known probabilities.
    pub examined: bool,
}

impl Abilities {
    /// The abilities that a policy's row in the table names.
    pub fn of(can: &str, config: &Config) -> Abilities {
        let can = |what: &str| can.split(", ").any(|word| word == what);
        let examined = can("examined") && config.max_segments == 0;
        Abilities { slots: can("slate"), values: can("values"), examined }
    }
}
