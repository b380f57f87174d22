//! Lanes: threads that own actors. The same code runs in the driver and in worker processes.
//!
//! - `mailbox`: what reaches a lane, and how it is woken.
//! - `thread`: the thread and its loop.
//! - `host`: the lane as a program sees it.
//! - `gather`: lanes that lend their actors to another one.

pub(crate) mod gather;
pub(crate) mod host;
pub(crate) mod mailbox;
pub(crate) mod thread;
