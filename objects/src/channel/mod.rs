//! Remote channels: a bounded queue in one process, its *home*, that others put into and take from.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/objects/src/channel) of this folder has the protocol, its
//! invariants `CHANNEL-1` to `CHANNEL-8`, and the model that checks them.
//!
//! [`ChannelHome`] is the queue, [`ChannelUser`] the other side in each process that uses it, the home's own one included.
//! [`Request`]s and [`Answer`]s travel between them in ordered frames. Neither reads a clock or sends anything.
//!
//! ```
//! use selvedge_cluster::peer::ProcessId;
//! use selvedge_objects::channel::{ChannelHome, ChannelSettings, ChannelUser, Outcome};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let peer = |number| ProcessId::new(number).map(ProcessId::first_life);
//! let (here, there) = (peer(1).ok_or("zero")?, peer(2).ok_or("zero")?);
//! let mut home = ChannelHome::new(ChannelSettings::with_capacity(32));
//! let mut user = ChannelUser::new(here);
//!
//! let (put, request) = user.put("a job")?;
//! for reply in home.request(there, request) {
//!     assert_eq!(user.answered(reply.number, reply.answer), Some(Outcome::Stored));
//! }
//! let (take, request) = user.take()?;
//! for reply in home.request(there, request) {
//!     assert_eq!(user.answered(reply.number, reply.answer), Some(Outcome::Value("a job")));
//! }
//! assert_eq!(home.snapshot(), [] as [&str; 0]);
//! let done = user.acknowledge(take).ok_or("not taken")?;  // until then the value goes back if this process dies
//! home.request(there, done);
//! # let _ = put;
//! # Ok(())
//! # }
//! ```

mod error;
mod message;
mod settings;

mod items;
mod mutant;
mod waiters;

mod home;
mod user;

#[cfg(test)]
mod model;

pub use error::{ChannelError, NotPut};
pub use home::{ChannelHome, Reply};
pub use message::{Answer, CHANNELS, Request, Wish};
pub use settings::ChannelSettings;
pub use user::{ChannelUser, Outcome};
