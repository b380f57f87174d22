//! The platform: all that transports take from the operating system beyond `std` and tokio. Two folders have modules of the
//! same names and functions: `linux`, and `portable` for every other system.
//!
//! - `unix_socket`: sockets with paths, between processes of one host.
//! - `private_directory`: a directory that only this user may enter.
//! - `descriptors`: the number of open descriptors.
//!
//! `RUSTFLAGS='--cfg selvedge_portable'` chooses `portable` on Linux too, so that it can be tested there.

#[cfg(all(target_os = "linux", not(selvedge_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(selvedge_portable)))]
pub(crate) use linux::*;

#[cfg(not(all(target_os = "linux", not(selvedge_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", not(selvedge_portable))))]
pub(crate) use portable::*;
