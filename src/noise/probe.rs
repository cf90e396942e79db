//! The functions of `tests/hooked/probe.rs` that the library calls, in a build without faults: they change nothing.

/// Whether draws are seen.
pub(crate) const ENABLED: bool = false;

macro_rules! faulty {
    ($fault:ident) => {
        false
    };
}
pub(crate) use faulty;

pub(crate) fn laplace(scale: u64, draw: impl FnOnce(u64) -> i64) -> i64 {
    draw(scale)
}

pub(crate) fn gaussian(sigma: u64, draw: impl FnOnce(u64) -> i64) -> i64 {
    draw(sigma)
}

pub(crate) fn ones<P>(params: &P, count: impl FnOnce(&P) -> u64) -> u64 {
    count(params)
}

pub(crate) fn release(sum: i64, _again: impl FnOnce() -> i64) -> i64 {
    sum
}

pub(crate) fn fill(_key: &mut [u8]) -> bool {
    false
}
