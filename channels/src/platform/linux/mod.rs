//! Linux: futexes, memfds, pidfds, `/proc`.

#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub(crate) mod cores;
#[cfg(not(loom))]
pub mod deaths;
pub(crate) mod error;
#[cfg(not(loom))]
pub mod extent_file;
#[cfg(not(loom))]
pub mod file_lock;
#[cfg(not(loom))]
pub(crate) mod forks;
#[cfg(not(loom))]
pub(crate) mod futex;
#[cfg(not(loom))]
mod header;
#[cfg(not(loom))]
pub(crate) mod mapped_file;
#[cfg(not(loom))]
mod memfd;
#[cfg(all(feature = "named", not(loom)))]
mod named;
#[cfg(not(loom))]
pub mod names;
#[cfg(not(loom))]
pub mod passed;
#[cfg(not(loom))]
pub mod process;
#[cfg(not(loom))]
pub(crate) mod room;
#[cfg(not(loom))]
pub(crate) mod segment;
#[cfg(all(feature = "cuda", not(loom)))]
pub(crate) mod socket_peer;
#[cfg(not(loom))]
pub(crate) mod user_memory;
