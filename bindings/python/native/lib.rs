//! The library of the Python package.
pub use dpb::ffi;
