//! The types that users hold, and the entry from a runtime to a running graph.

pub(crate) mod execution;
pub(crate) mod graph;
pub(crate) mod map;
mod object;
pub(crate) mod options;
mod over_hosts;
pub(crate) mod prepare;
pub(crate) mod sealed;
pub(crate) mod start;
mod trace;
mod workers;
