//! Policies of the local model: they learn from bits that were privatised on the user's device.

pub mod ldp_klucb;
pub mod ldp_ucb;
