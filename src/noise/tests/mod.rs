//! What tests compare the samplers with.

mod reference;
pub mod width;
