//! The loop: runs a compiled plan.
//!
//! `layout` and `control` are the memory that all processes share. `lane` runs one lane's program. `driver` is the lane
//! that executing threads use, and `engine` is what these threads do around it: submit, wait, cancel and end. `hosts` joins
//! the memory of several hosts.
//! `README.md` explains their protocol.

pub(crate) mod actor_set;
pub(crate) mod clock;
pub(crate) mod control;
pub(crate) mod driver;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod hosts;
pub(crate) mod lane;
pub(crate) mod layout;
pub(crate) mod ranks;
pub(crate) mod report;
pub(crate) mod table;
pub(crate) mod trace;

#[cfg(test)]
#[path = "../../../channels/tests/models/explore.rs"]
mod explore;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
pub(crate) mod model;
