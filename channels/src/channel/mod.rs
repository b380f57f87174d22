//! Stand-alone channels, without actors or graphs: typed endpoints that wait.
//!
//! - `options`: the options of a channel, the memory that it needs, and the functions that make one between threads or
//!   between processes.
//! - `shared`: a channel between processes; `descriptor`: the data by which another process opens it; `names`: names by
//!   which unrelated processes find it.
//! - `writer`, `reader`: the endpoints. `loan`: messages built in place; `view`:
//!   a message read in place.
//! - `control`: the operations that a channel of tensors on a device needs of the channel that carries its metadata
//!   (feature `cuda`).
//! - `endpoint_waiter`: the waiting of an endpoint; `helper`: the thread that waits for async callers; `peers`: the detection of
//!   the death of a peer's process.
//!
//! ```
//! use selvedge_channels::ChannelOptions;
//!
//! let (mut writer, mut readers) = ChannelOptions::new().slots(8).threads::<String>()?;
//! let mut reader = readers.remove(0);
//! let thread = std::thread::spawn(move || reader.recv());
//! writer.send("hello".to_owned())?;
//! assert_eq!(thread.join().unwrap()?, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "cuda")]
mod control;
mod descriptor;
mod endpoint_waiter;
mod helper;
mod loan;
mod options;
mod peers;
mod reader;
mod shared;
mod view;
mod writer;

pub use crate::platform::names::Published;
pub use descriptor::{Descriptor, NotADescriptor};
pub use loan::{Loan, TensorLoan};
pub use options::{ChannelMemory, ChannelOptions};
pub use reader::Reader;
pub use shared::SharedChannel;
pub use view::View;
pub use writer::{SendError, Writer};
