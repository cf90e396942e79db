//! Decides by a published table of probabilities: one answer in every program that has the table, without a state.

use crate::error::{Error, Result};
use hmac_sha256::Hash;

/// A decision that was made by a table. [`Bandit::record`](crate::Bandit::record) takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elsewhere {
    /// Names the decision.
    pub id: u64,
    /// The arm's probability.
    pub propensity: f64,
    /// The arm, counted from 0.
    pub arm: u32,
}

/// Decides by weights that sum to 2^32 ([`Bandit::weights`](crate::Bandit::weights)). The SHA-256 of `salt`, `context` and
/// `unit`, with newlines between them, gives the arm (by its first 32 bits) and the id (its first 64). So a unit, such as a
/// visitor, gets the same arm in every program while the table is the same.
///
/// # Errors
/// `InvalidConfig` for weights with another sum, or none; `InvalidRequest` for an empty unit, and for a newline.
pub fn decide(weights: &[u64], salt: &[u8], context: &[u8], unit: &[u8]) -> Result<Elsewhere> {
    const ALL: u64 = 1 << 32;
    let sum = weights.iter().fold(0, |sum: u64, &weight| sum.saturating_add(weight));
    Error::unless(sum == ALL, "weights", "must sum to 2^32", sum)?;
    if unit.is_empty() {
        return Err(Error::request("unit", "must not be empty", 0u32));
    }
    for (name, text) in [("salt", salt), ("context", context), ("unit", unit)] {
        if text.contains(&b'\n') {
            return Err(Error::request(name, "must have no newline", u32::from(b'\n')));
        }
    }
    let mut hash = Hash::new();
    [salt, b"\n", context, b"\n", unit].iter().for_each(|part| hash.update(part));
    let id = hash.finalize()[..8].iter().fold(0, |id, &byte| id << 8 | u64::from(byte));
    let (mut left, mut arm) = (id >> 32, 0);
    while left >= weights[arm] {
        left -= weights[arm];
        arm += 1;
    }
    Ok(Elsewhere { id, propensity: weights[arm] as f64 / ALL as f64, arm: arm as u32 })
}
