//! Exact noise: integers in, integers out, no floating point between entropy and sample.
//!
//! Inverse-CDF Laplace noise in floating point leaks through the gaps between doubles (Mironov
//! 2012). Every sampler here is a chain of comparisons of uniform integers, so its law is exact
//! and its output is bit-identical on every machine.

mod bernoulli;
mod binomial;
mod gaussian;
#[cfg(feature = "test-hooks")]
#[doc(hidden)]
pub mod hand;
mod laplace;
mod source;
mod width;

pub use bernoulli::bernoulli_exp;
pub use binomial::binomial;
pub use gaussian::Gaussian;
pub use laplace::Laplace;
pub use source::{LaplaceSource, Law, Noise, NoiseSource};
pub use width::{SumWidth, binomial_width, laplace_sum_width};
