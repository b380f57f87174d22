//! The platform: all that this crate takes from the operating system beyond `std` and tokio.
//!
//! - `file_access`: files that hold what this process was given, and who may read them.
//!
//! Two folders have modules of the same names and functions for transports: `linux`, and `portable` for every other system.
//!
//! - `stream_socket`: the sockets under streams.
//! - `unix_socket`: sockets with paths, between processes of one host.
//! - `private_directory`: directories that only this user may enter.
//! - `descriptors`: the number of open descriptors.
//!
//! `RUSTFLAGS='--cfg selvedge_portable'` chooses `portable` on Linux too, so that it can be tested there.

pub(crate) mod file_access;

#[cfg(all(feature = "net", target_os = "linux", not(selvedge_portable)))]
mod linux;
#[cfg(all(feature = "net", target_os = "linux", not(selvedge_portable)))]
pub(crate) use linux::*;

#[cfg(all(feature = "net", not(all(target_os = "linux", not(selvedge_portable)))))]
mod portable;
#[cfg(all(feature = "net", not(all(target_os = "linux", not(selvedge_portable)))))]
pub(crate) use portable::*;
