//! Exact noise: integers in, integers out, no floating point between entropy and sample.
//!
//! Inverse-CDF Laplace noise in floating point leaks through the gaps between doubles (Mironov
//! 2012). Every sampler here computes on integers alone, with proved errors and more bits where an error
//! could matter, so its law is exact and its output is bit-identical on every machine.

mod binomial;
mod exponential;
mod gaussian;
#[cfg(feature = "test-hooks")]
#[doc(hidden)]
pub mod hand;
mod laplace;
mod logarithms;
#[cfg(test)]
mod reference;
mod source;
mod width;

pub use binomial::binomial;
pub use gaussian::Gaussian;
pub use laplace::Laplace;
pub use source::{LaplaceSource, Law, Noise, NoiseSource};
pub use width::{SumWidth, binomial_width, laplace_sum_width};
