//! Hosts on Linux.
//!
//! - `hosts`, `host`: all of them and the network; one of them.
//! - `host_thread`: the thread that is within a host. `init`: the host's process 1. `interface`: the host's network devices.
//! - `process`: a process of a host. `look`: what `/proc` says about a host.
//! - `switch`: the network.

mod hosts;

mod host;
mod host_thread;
mod init;
mod interface;
mod look;
mod process;

mod switch;
mod waiting;

pub use host::Host;
pub use hosts::Hosts;
pub use look::{HostProcess, InterfaceBytes, Socket, SocketState};
pub use process::Process;
pub use switch::{Faults, Traffic};
