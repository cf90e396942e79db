//! Exact noise: integers in, integers out, no floating point between entropy and sample.
//!
//! Inverse-CDF Laplace noise in floating point leaks through the gaps between doubles (Mironov
//! 2012). Every sampler here is a chain of comparisons of uniform integers, so its law is exact
//! and its output is bit-identical on every machine.

mod bernoulli;
mod laplace;
mod source;

pub use bernoulli::bernoulli_exp;
pub use laplace::Laplace;
pub use source::LaplaceSource;
