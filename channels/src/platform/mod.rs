//! The platform: all that channels take from the operating system beyond `std`. Two folders have modules of the same
//! names and functions: `linux`, and `portable` for every other system, where one process is all there is.
//!
//! - `clock`: the monotonic clock.
//! - `cores`: the core that a thread runs on.
//! - `deaths`, `process`: other processes, and their ends.
//! - `extent_file`: memory that processes lend to each other in extents.
//! - `error`: which errors of the system are shortages, and how to mend them.
//! - `file_lock`: locks of the files that processes map.
//! - `forks`: forked children are told from their parent.
//! - `futex`: a thread sleeps on a word.
//! - `mapped_file`: files whose bytes processes share.
//! - `names`: the names by which unrelated processes find a channel.
//! - `segment`, `passed`, `room`: memory that processes share, by id or by descriptor, and its limits.
//! - `user_memory`: memory that all processes of a user share.
//!
//! `RUSTFLAGS='--cfg selvedge_portable'` chooses `portable` on Linux too, so that it can be tested there.

#[cfg(all(target_os = "linux", not(selvedge_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(selvedge_portable), not(loom)))]
pub use linux::*;
#[cfg(all(target_os = "linux", not(selvedge_portable), loom))]
pub(crate) use linux::*;

#[cfg(not(all(target_os = "linux", not(selvedge_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", not(selvedge_portable))))]
pub use portable::*;
