//! A node of a fleet, without sockets, threads or clock: it names the next [`command`], and the host runs it with a client
//! of its own, or with [`store::run`] on rows of its database.

pub mod command;
pub mod store;
