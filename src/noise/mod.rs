//! Exact noise: integers in, integers out, no floating point between entropy and sample.
//!
//! Inverse-CDF Laplace noise in floating point leaks through the gaps between doubles (Mironov
//! 2012). Every sampler here computes on integers alone, with proved errors and more bits where an error
//! could matter, so its distribution is exact and its output is bit-identical on every machine.

mod binomial;
mod exponential;
mod gaussian;
mod laplace;
mod logarithms;
#[cfg(dpb_faults)]
#[doc(hidden)]
pub mod probe;
#[cfg(test)]
mod reference;
mod source;
mod width;

pub use binomial::binomial;
pub use gaussian::Gaussian;
pub use laplace::Laplace;
pub use source::{Distribution, LaplaceSource, Noise, NoiseSource};
pub use width::{SumWidth, binomial_width, laplace_sum_width};
