//! Named references: an object that has a name outlives the process that made it, and any process of the runtime finds it.
//!
//! [`selvedge_objects::names`] decides which object has a name, and who holds what; this folder gives it letters and handles:
//!
//! - `verbs.rs`: what a runtime does with names; `error.rs`: why it has not; `info.rs`: the facts of a name;
//! - `service.rs`: the names, what this process holds for them, and the questions of this process; `reply.rs`: the ends of these;
//! - `heard.rs`: messages that arrive; `message.rs`: the messages.

mod error;
mod heard;
mod info;
pub(crate) mod message;
mod reply;
pub(crate) mod service;
mod verbs;

pub use error::NameError;
pub use info::NameInfo;
