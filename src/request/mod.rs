//! What a caller says about one decision, and how it becomes a choice: [`Offers::check`] makes an [`Offer`] of a
//! [`Request`], and a policy chooses by it.

mod choice;
mod listing;
mod offer;
mod rows;

use crate::config::Config;
pub(crate) use choice::Choice;
pub use choice::Pull;
pub(crate) use listing::{Sure, Worths};
pub(crate) use offer::{Catalog, Limits, Offer, Offers, Segment};
pub(crate) use rows::Row;
pub use rows::{Feature, Rows, feature_cross, feature_hash};

/// Declares the fields of [`Request`]: see the file `tables/request.rs`, which is the table.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ty = $default:expr, $since:literal $(, $length:literal)? $({ $($members:tt)* })?;
    )*) => {
        /// One request for a decision. All of it is public: compute nothing in it from rewards.
        #[derive(Clone, Copy, Debug)]
        pub struct Request<'a> {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for Request<'_> {
            fn default() -> Self {
                Request { $($name: $default,)* }
            }
        }
    };
}

include!("../tables/request.rs");

/// In place of the arm of a decision: the request [may get none](Request::abstain), and got none.
pub const NO_ARM: u32 = u32::MAX;

/// Units of one examination of a slot.
pub(crate) const EXAMINATION: u64 = 1 << 16;

/// What requests a policy can decide, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Abilities {
    /// Requests with several slots.
    pub slots: bool,
    /// Requests with values and costs, and that may get no arm.
    pub values: bool,
    /// Whether rewards have a learned clip, so that they cannot be compared with costs.
    pub clips: bool,
    /// Requests whose slots are examined with known probabilities.
    pub examined: bool,
    /// Whether a test splits decisions in fixed shares, so that all of its arms must be eligible.
    pub is_split: bool,
}

impl Abilities {
    /// The abilities that a policy's row in the table names.
    pub fn of(can: &str, config: &Config) -> Abilities {
        let can = |what: &str| can.split(", ").any(|word| word == what);
        let examined = can("examined") && config.max_segments == 0;
        let is_split = config.control_share > 0.0 || config.sticky > 0;
        let slots = can("slate") && !config.private_features;
        Abilities { slots, values: can("values"), clips: config.learn_clip, examined, is_split }
    }
}
