//! The auditor, for the tests and for `--example audit`.

pub mod auditor;
pub mod engine;
pub mod library;
pub mod sabotage;
