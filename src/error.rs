//! What can go wrong, one variant for each status of the C interface.

use std::fmt::Arguments;

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
    /// A ticket whose reward window is over, or that was pushed out of the pending table.
    #[error("this ticket's time is over")]
    Expired,
    /// There is no result yet; or a restored handle that counts users has not been saved yet.
    #[error("there is no result yet, or no snapshot yet of a restored handle that counts users")]
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
    pub(crate) fn config(field: &'static str, rule: &str, got: impl Into<Value>) -> Error {
        Error::InvalidConfig { field, problem: problem(rule, got.into()) }
    }

    /// The same, of what is no number.
    #[cold]
    pub(crate) fn refused(field: &'static str, problem: Arguments) -> Error {
        Error::InvalidConfig { field, problem: std::fmt::format(problem).into() }
    }

    /// An invalid request: `request("arm", "must be below 10", 11)`.
    pub(crate) fn request(field: &'static str, rule: &str, got: impl Into<Value>) -> Error {
        Error::InvalidRequest { field, problem: problem(rule, got.into()) }
    }

    /// What would be spent, of how much.
    pub(crate) fn over_budget(spent: f64, epsilon: f64, delta: f64) -> Error {
        let [spent, epsilon, delta] = [spent, epsilon, delta].map(Value::from);
        let budget = format!("the budget of epsilon {epsilon} at delta {delta} would be overspent: {spent}");
        Error::OverBudget(budget.into())
    }
}

/// One copy of this for all refusals.
#[cold]
#[inline(never)]
fn problem(rule: &str, got: Value) -> Box<str> {
    format!("{rule}, got {got}").into()
}

/// What a message shows, and what a field holds: a real number's bits, so that all that a policy does not look at is the
/// same as itself.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Number(u64),
    Real(u64),
    Flag(bool),
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Number(value.into())
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Value {
        Value::Number(value as u64)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Number(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value.to_bits())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Flag(value)
    }
}

/// Real numbers in few characters that read back as the same number: 0.05 and 1e-320.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(value) => value.fmt(f),
            Value::Real(bits) => {
                let value = f64::from_bits(*bits);
                let size = value.abs();
                if (1e-4..1e16).contains(&size) || size == 0.0 { write!(f, "{value}") } else { write!(f, "{value:e}") }
            }
            Value::Flag(value) => value.fmt(f),
        }
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    /// All of it fits into a dpb_error.
    #[test]
    fn numbers_are_shown_in_few_characters_that_read_back() {
        for x in
            [0.05, -1.0, 1e-320, -1e-320, 0.1 + 0.2, 1e300, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, -0.0, 123.5]
        {
            let text = Value::from(x).to_string();
            assert!(text.len() <= 24 && text.parse::<f64>().unwrap().to_bits() == x.to_bits(), "{text}");
        }
        let shown = [0.05, 2000.0, 0.0, 1e-320, 1e300, f64::NAN].map(|x| Value::from(x).to_string());
        assert_eq!(shown, ["0.05", "2000", "0", "1e-320", "1e300", "NaN"]);
        assert_eq!(Error::config("epsilon", "must be", 5e-324).to_string(), "epsilon must be, got 5e-324");
        assert_eq!(Value::from(u64::MAX).to_string(), u64::MAX.to_string());
        assert!(Error::over_budget(1e-310, 1e-315, 1e-320).to_string().ends_with("overspent: 1e-310"));
    }
}
