//! Fleets of nodes: the commands of their store, and worlds of nodes in which everything fails.

#[path = "../support/mod.rs"]
mod support;

#[cfg(unix)]
mod commands;
mod rows;
