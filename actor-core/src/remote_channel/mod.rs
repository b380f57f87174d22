//! Remote channels: [`RemoteChannel`], a bounded queue in one process that any process puts into and takes from. The
//! [README](https://github.com/selvedge-rs/selvedge/tree/main/actor-core/src/remote_channel) of this folder has the letters,
//! the threads and the races.
//!
//! A channel is an object behind a reference, and its queue is [`selvedge_objects::channel`]; this folder gives it values
//! and letters:
//!
//! - `channel_type`: [`RemoteChannel`], which users hold; `iteration`: loops over its values; `error`: [`RemoteChannelError`]; `refused`: [`PutRefused`], with
//!   a value that was not put;
//! - `operation`: one request of this process, until its answer; `requests`: all of them;
//! - `cell`: the queue of a channel, in the cell of its object; `inbox`: requests of others in their order;
//! - `service`: the service of a process, with `asking` for its own requests, `serving` for those of others, and `replying`
//!   for the answers;
//! - `value`: a value on its way, and where it is dropped; `message`: the letters;
//! - `verbs`: how a runtime makes a channel.

mod asking;
mod cell;
mod channel_type;
mod error;
mod inbox;
mod iteration;
mod message;
mod operation;
mod refused;
mod replying;
mod requests;
pub(crate) mod service;
mod serving;
mod value;
mod verbs;

#[cfg(test)]
mod tests;

pub use channel_type::RemoteChannel;
pub use error::RemoteChannelError;
pub use iteration::{ChannelIter, ChannelStream};
pub use refused::PutRefused;
