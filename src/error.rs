//! The errors of the library, one variant for each status of the C interface, and two for DPB_EXPIRED.

use std::fmt::{Arguments, Display, Formatter};

/// The reason why a call was refused. A refused call has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration that the policy cannot run with.
    #[error("{field} {problem}")]
    InvalidConfig {
        /// The field's name, as in [`Config`](crate::Config).
        field: &'static str,
        /// The rule, and the value given.
        problem: Box<str>,
    },
    /// A request that cannot be served: an arm that does not exist or is retired, no arm at all, or too many slots.
    #[error("{field} {problem}")]
    InvalidRequest {
        /// The part of the request that is wrong, as the C interface calls it: "slots", "eligible", "features_len".
        field: &'static str,
        /// The rule, and the value given.
        problem: Box<str>,
    },
    /// A reward that is not finite, is outside the declared range, or is neither end of the range where only the two
    /// ends are rewards.
    #[error("the reward is not a finite number in the declared range")]
    InvalidReward,
    /// A ticket that this handle never issued.
    #[error("this ticket was never issued by this handle")]
    UnknownTicket,
    /// A ticket that already has a reward or was cancelled.
    #[error("this ticket already has a reward or was cancelled, or this contribution was added before")]
    Duplicate,
    /// A ticket whose reward window has ended, or whose decision was evicted from the pending table.
    #[error("this ticket has expired, or this contribution is for another generation")]
    Expired,
    /// A state that is too old or from the future, or whose receiver cannot have it: see
    /// [`Bandit::resume`](crate::Bandit::resume). In C the status is that of `Expired`.
    #[error("{0}")]
    ExpiredState(
        /// Which of them.
        Box<str>,
    ),
    /// There is no result yet, or a handle that was resumed from a state at rest is not claimed.
    #[error("there is no result yet, or the handle was resumed from a state at rest and waits for Bandit::claimed")]
    NotReady,
    /// A restored handle that counts users, of which no snapshot is stored.
    #[error(
        "config.expected_users is set, and no snapshot of the restored handle is stored: store one, and then call \
         Bandit::stored"
    )]
    NotStored,
    /// A stopping rule that has halted, a full counter, a handle that was suspended, or a node that has left.
    #[error(
        "it has ended: a stopping rule that has halted, a full counter, a suspended handle, or a node that has left"
    )]
    Halted,
    /// A buffer of the caller that is too small.
    #[error("the buffer is too small: {needed} needed")]
    BufferTooSmall {
        /// The number of elements that the buffer must hold.
        needed: usize,
    },
    /// Bytes that are truncated or altered.
    #[error("the data is truncated or altered")]
    Corrupt,
    /// A structure from a newer library.
    #[error("the structure comes from a newer version of the library")]
    NewerVersion,
    /// The operating system gave no randomness, so nothing private is possible.
    #[error("the operating system gave no randomness")]
    Entropy,
    /// What the handle's policy or configuration does not support.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// An earlier call failed before it was complete, or the process was forked after the handle was created. The
    /// handle is closed for ever.
    #[error("the handle is closed after an internal failure or a fork")]
    Poisoned,
    /// The allocation failed.
    #[error("not enough memory")]
    NoMemory,
    /// The maximum number of such objects is reached.
    #[error("{what} {number} is new, and {limit} = {most} are in use")]
    Full {
        /// What there would be too many of: "segment".
        what: &'static str,
        /// Its number.
        number: u64,
        /// The name of the limit.
        limit: &'static str,
        /// The limit.
        most: u64,
    },
    /// The handle may cost more than what remains of its budget.
    #[error("{0}")]
    OverBudget(
        /// The epsilon that would be spent, and the budget.
        Box<str>,
    ),
}

impl Error {
    /// An invalid field: `config("epsilon", "must be finite and > 0", -1.0)`.
    pub(crate) fn config(field: &'static str, rule: &str, got: impl Into<Value>) -> Error {
        Error::InvalidConfig { field, problem: problem(rule, got.into()) }
    }

    /// The same, for a value that is not a number.
    #[cold]
    pub(crate) fn refused(field: &'static str, problem: Arguments) -> Error {
        Error::InvalidConfig { field, problem: std::fmt::format(problem).into() }
    }

    /// Refuses a field of the configuration unless its rule holds.
    pub(crate) fn unless(holds: bool, field: &'static str, rule: &str, got: impl Into<Value>) -> Result<()> {
        if holds { Ok(()) } else { Err(Error::config(field, rule, got)) }
    }

    /// An invalid request: `request("arm", "must be below 10", 11)`.
    pub(crate) fn request(field: &'static str, rule: &str, got: impl Into<Value>) -> Error {
        Error::InvalidRequest { field, problem: problem(rule, got.into()) }
    }

    /// What the policy does not support, and why: `unsupported("new arms: its arms are fixed")`.
    #[cold]
    pub(crate) fn unsupported(what: &'static str) -> Error {
        Error::Unsupported(Unsupported { policy: true, what, number: None })
    }

    /// The same for a field of a request: `unsupported_number("slots", 2, "it has one slot for each request")`.
    #[cold]
    pub(crate) fn unsupported_number(what: &'static str, number: u64, why: &'static str) -> Error {
        Error::Unsupported(Unsupported { policy: true, what, number: Some((number, why)) })
    }

    /// What the configuration does not support, and why: `unconfigured("features: config.features is 0")`.
    #[cold]
    pub(crate) fn unconfigured(what: &'static str) -> Error {
        Error::Unsupported(Unsupported { policy: false, what, number: None })
    }

    /// The same for a field of a request: `unconfigured_number("segment", 7, "config.max_segments is 0")`.
    #[cold]
    pub(crate) fn unconfigured_number(what: &'static str, number: u64, why: &'static str) -> Error {
        Error::Unsupported(Unsupported { policy: false, what, number: Some((number, why)) })
    }

    /// A charge that would overspend the budget.
    pub(crate) fn over_budget(spent: f64, epsilon: f64, delta: f64) -> Error {
        let [spent, epsilon, delta] = [spent, epsilon, delta].map(Value::from);
        let budget = format!("the budget of epsilon {epsilon} at delta {delta} would be overspent: {spent}");
        Error::OverBudget(budget.into())
    }
}

/// What a handle does not support, and why if that is not obvious. Takes no memory, because requests may be refused often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Whether the policy does not support it, whatever the configuration is.
    policy: bool,
    what: &'static str,
    /// The number that is not supported, and why not.
    number: Option<(u64, &'static str)>,
}

impl Display for Unsupported {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let subject = if self.policy { "policy" } else { "configuration" };
        write!(f, "this {subject} does not support {}", self.what)?;
        self.number.map_or(Ok(()), |(number, why)| write!(f, " {number}: {why}"))
    }
}

/// Not inlined, so that all refusals share one copy of the code.
#[cold]
#[inline(never)]
fn problem(rule: &str, got: Value) -> Box<str> {
    format!("{rule}, got {got}").into()
}

/// The value of a field, for messages and comparisons. A real number is kept as its bits, so that every value equals
/// itself, NaN too.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Number(u64),
    Real(u64),
    Flag(bool),
    /// Real numbers. Zeros at the end are not shown.
    Reals([u64; 8]),
    /// A pointer or an option that is not set.
    Null,
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

impl From<[f64; 8]> for Value {
    fn from(values: [f64; 8]) -> Value {
        Value::Reals(values.map(f64::to_bits))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Flag(value)
    }
}

/// Shows real numbers in few characters that read back as the same number: 0.05 and 1e-320.
impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(value) => value.fmt(f),
            Value::Real(bits) => {
                let value = f64::from_bits(*bits);
                let size = value.abs();
                if (1e-4..1e16).contains(&size) || size == 0.0 { write!(f, "{value}") } else { write!(f, "{value:e}") }
            }
            Value::Flag(value) => value.fmt(f),
            Value::Reals(values) => {
                let shown = values.iter().rposition(|&bits| bits != 0).map_or(0, |last| last + 1);
                let shown: Vec<String> = values[..shown].iter().map(|&bits| Value::Real(bits).to_string()).collect();
                write!(f, "[{}]", shown.join(", "))
            }
            Value::Null => f.write_str("NULL"),
        }
    }
}

/// Refuses a number that is not finite and above 0.
pub(crate) fn check_positive(field: &'static str, value: f64) -> Result<()> {
    Error::unless(value.is_finite() && value > 0.0, field, "must be finite and > 0", value)
}

/// Refuses a number that is not between 0 and 1, ends excluded.
pub(crate) fn check_share(field: &'static str, value: f64) -> Result<()> {
    Error::unless(value > 0.0 && value < 1.0, field, "must be in (0, 1)", value)
}

/// Returns the length that a buffer needs, which must be within its limit.
pub(crate) fn within(limit: usize, needed: usize) -> Result<usize> {
    if needed > limit { Err(Error::BufferTooSmall { needed }) } else { Ok(needed) }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number fits into a dpb_error.
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
