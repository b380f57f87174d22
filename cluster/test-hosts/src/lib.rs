//! Test hosts: several hosts on one machine, with a network between them that the test controls.
//!
//! A host is a set of Linux namespaces: an interface with an address, a hostname, processes that see only each other. The hosts'
//! interfaces are TUN devices whose descriptors this process holds, and a thread, the switch, passes packets between them. So
//! cuts, losses, delays, repetitions and counters are one table of this process. The package's
//! [README](https://github.com/selvedge-rs/selvedge/tree/main/cluster/test-hosts) has a picture and the rules.
//!
//! ```
//! use std::process::{Command, Stdio};
//! use selvedge_test_hosts::Hosts;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let Some(hosts) = Hosts::or_left_out(2)? else { return Ok(()) };
//! let (a, b) = (hosts.host(0), hosts.host(1));
//! hosts.cut(a, b);
//! hosts.heal(a, b);
//! let mut command = Command::new("cat");
//! command.arg("/proc/sys/kernel/hostname").stdout(Stdio::piped());
//! let mut process = a.spawn(command)?;
//! let name = std::io::read_to_string(process.stdout.take().ok_or("no pipe")?)?;
//! assert_eq!(name.trim(), a.name());
//! assert!(process.wait()?.success());
//! # Ok(())
//! # }
//! ```
//!
//! - [`Hosts`]: the hosts and the network. [`Host`]: one of them. [`Process`]: a process of a host.
//! - [`Faults`]: what a line does to packets. [`Traffic`]: what it has done.
//! - [`HostsError`], [`LeftOut`]: the reasons why there are no hosts.
//!
//! Linux only, and only for root. Elsewhere [`Hosts::new`] says why the test is to be left out.

mod error;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{Faults, Host, HostProcess, Hosts, InterfaceBytes, Process, Socket, SocketState, Traffic};

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::Hosts;

pub use error::{HostsError, LeftOut};
