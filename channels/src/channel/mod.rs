//! Channels by themselves, without actors or graphs: typed ends that wait.
//!
//! - `options`: what a channel is like; makes one between threads or between processes. `memory`: what that takes.
//! - `shared`: a channel between processes, and the descriptor by which another process opens it; `names`: by which a
//!   stranger finds it.
//! - `writer`, `reader`: the ends. `loan`, `tensor_loan`, over `slot_loan`: messages built where they will lie; `view`:
//!   one read there.
//! - `control`: what a channel of tensors on a device asks of the channel that its metadata travel on (feature `cuda`).
//! - `line`: how an end waits, `helper` for who awaits; `peers`: how it notices that another one's process has died.
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
mod helper;
mod line;
mod loan;
mod memory;
mod names;
mod options;
mod peers;
mod reader;
mod shared;
mod slot_loan;
mod tensor_loan;
mod view;
mod writer;

pub use descriptor::{Descriptor, NotADescriptor};
pub use loan::Loan;
pub use memory::ChannelMemory;
pub use names::Published;
pub use options::ChannelOptions;
pub use reader::Reader;
pub use shared::SharedChannel;
pub use tensor_loan::TensorLoan;
pub use view::View;
pub use writer::{SendError, Writer};
