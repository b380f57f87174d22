//! The platform: all that actors take from the operating system beyond `std` and the platform of channels. Two folders
//! have modules of the same names and functions: `linux`, and `portable` for every other system.
//!
//! - `launch`, `premain`: a worker process is started, and becomes a worker.
//! - `build_id`: the check that it is the same program.
//! - `link`: the socket between driver and worker, and the pipes of its output.
//! - `peer_socket`: the sockets between processes that are peers; `lead_poll`: the wait of one thread for all of them.
//! - `child`, `sentinel`, `signal`, `exit`: how a process ends, and how that is noticed.
//! - `cores`, `pages`: the affinity of threads, the pages of large memory.
//! - `alarm`: a wait shorter than a millisecond, on a runtime's thread.
//! - `host`: the name of the host.
//! - `inspect_socket`: the sockets by which other processes look into this one.
//! - `unnamed_file`: files without names.
//! - `restart`: the program starts again with another command line.
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
