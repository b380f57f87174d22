//! Lanes: threads that own actors. The same code runs in the driver and in worker processes.
//!
//! - `mailbox`: the queue of messages to a lane, and the wake-up of the lane.
//! - `thread`: the thread and its loop.
//! - `host`: the lane as its program sees it.
//! - `flights`: the futures of methods that overlap.
//! - `gather`: lanes that lend their actors to another lane.

pub(crate) mod program;

pub(crate) mod flights;
pub(crate) mod gather;
pub(crate) mod host;
pub(crate) mod mailbox;
pub(crate) mod thread;
