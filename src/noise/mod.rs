//! Draws exact noise on the integers. No floating point is used between entropy and sample.
//!
//! Laplace noise by inversion in floating point leaks through the gaps between doubles (Mironov 2012). Every sampler
//! here computes on integers alone, with proved errors, and uses more bits where an error could matter. So its
//! distribution is exact, and its output is bit-identical on every machine.

mod binomial;
mod exponential;
mod gaussian;
mod laplace;
mod logarithms;
mod source;
#[cfg(test)]
mod tests;

pub use binomial::binomial;
pub use gaussian::Gaussian;
pub use laplace::Laplace;
pub use source::{Noise, NoiseSource};
