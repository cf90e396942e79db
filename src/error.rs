//! What can go wrong, one variant for each status of the C interface.

/// Why a call was refused. A refused call has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration that no policy of this kind can run with.
    #[error("{field} {problem}")]
    InvalidConfig {
        /// The field's name, as in [`Config`](crate::Config).
        field: &'static str,
        /// What must hold, and the value given.
        problem: Box<str>,
    },
    /// A request that cannot be met: an arm that does not exist or is retired, no arm at all, too many slots.
    #[error("{field} {problem}")]
    InvalidRequest {
        /// What is wrong: "arm", "slots", "eligible".
        field: &'static str,
        /// What must hold, and the value given.
        problem: Box<str>,
    },
    /// A reward that is not finite, or outside the declared range, or off a binary grid.
    #[error("the reward is not a finite number in the declared range")]
    InvalidReward,
    /// A ticket that this handle never issued.
    #[error("this ticket was never issued by this handle")]
    UnknownTicket,
    /// A ticket that was answered or cancelled already.
    #[error("this ticket was answered or cancelled already")]
    Duplicate,
    /// A ticket whose answer window is over, or that was pushed out of the pending table.
    #[error("this ticket's time is over")]
    Expired,
    /// There is no result yet.
    #[error("there is no result yet")]
    NotReady,
    /// The stopping rule has halted and takes no more samples.
    #[error("the stopping rule has halted")]
    Halted,
    /// The caller's buffer is too small.
    #[error("the buffer is too small: {needed} needed")]
    BufferTooSmall {
        /// How many elements the caller must have room for.
        needed: usize,
    },
    /// The bytes are not what they claim to be.
    #[error("the data is truncated or altered")]
    Corrupt,
    /// A structure from a newer library.
    #[error("the structure comes from a newer version of the library")]
    NewerVersion,
    /// The operating system gave no randomness, so nothing private is possible.
    #[error("the operating system gave no randomness")]
    Entropy,
    /// This policy cannot do what was asked: what it was, and why where that is not obvious.
    #[error("this policy does not support {0}")]
    Unsupported(&'static str),
    /// An earlier call failed half-way, or the process was forked after the handle was made: the
    /// handle is closed for ever.
    #[error("the handle is closed after an internal failure, or a fork")]
    Poisoned,
    /// There is no memory for this.
    #[error("there is no memory for this")]
    NoMemory,
    /// There is no place left for another of its kind.
    #[error("there is no place left for another")]
    Full,
    /// The handle may cost more than what is left of its budget.
    #[error("{0}")]
    OverBudget(
        /// What would be spent, and of how much.
        Box<str>,
    ),
}

impl Error {
    /// An invalid field: `config("epsilon", "must be finite and > 0", -1.0)`.
    pub(crate) fn config(field: &'static str, rule: &str, got: impl std::fmt::Display) -> Error {
        Error::InvalidConfig { field, problem: format!("{rule}, got {got}").into() }
    }

    /// An invalid request: `request("arm", "must be below 10", 11)`.
    pub(crate) fn request(field: &'static str, rule: &str, got: impl std::fmt::Display) -> Error {
        Error::InvalidRequest { field, problem: format!("{rule}, got {got}").into() }
    }

    /// What would be spent, of how much.
    pub(crate) fn over_budget(spent: f64, epsilon: f64, delta: f64) -> Error {
        let budget = format!("the budget of epsilon {epsilon} at delta {delta} would be overspent: {spent}");
        Error::OverBudget(budget.into())
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
