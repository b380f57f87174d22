//! Managers: how workers are named, launched, heard and ended.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/cluster/src/manager) of this folder has the order of a
//! worker's life and the invariants `MANAGER-1` to `MANAGER-6`. Nothing here starts a process or reads a stream: command lines
//! come out, and bytes, ends and the time go in.
//!
//! - [`MachineSpec`]: a machine, as a line of a machine file names it;
//! - [`WorkerConfig`]: all that a manager knows of a worker; [`WorkerCommand`]: the command that starts it;
//! - [`SshOptions`]: the command lines of `ssh`, which start workers on other hosts and carry tunnels;
//! - [`StartUp`]: the output of a process until it says where it listens;
//! - [`WorkerSetUp`]: the order in which a worker joins and leaves.

mod printable;

mod address;
mod count;
mod host_name;
mod machine;
mod part_error;
mod user_name;

mod command_error;
mod command_line;
mod shell;
mod ssh;
mod tunnel_entry;
mod worker_command;
mod worker_config;
mod worker_flags;
mod worker_place;
mod worker_tls;

mod announcement;
mod lines;
mod start_up;

mod set_up;

pub use address::{BindAddress, WorkerAddress};
pub use command_error::CommandError;
pub use command_line::CommandLine;
pub use count::Count;
pub use host_name::HostName;
pub use lines::{LINE_BYTES_MAX, Lines, OutputLine};
pub use machine::{MachineSpec, MachineSpecError};
pub use part_error::PartError;
pub use set_up::{ManageEvent, OutOfTurn, SetUpAction, Stage, WorkerSetUp};
pub use ssh::SshOptions;
pub use start_up::{START_UP_LINES_MAX, StartUp, StartUpError, StartUpEvent};
pub use tunnel_entry::TunnelEntry;
pub use user_name::UserName;
pub use worker_command::{BIND_FLAG, WORKER_FLAG, WorkerCommand};
pub use worker_config::WorkerConfig;
pub use worker_flags::{COOKIE_FILE_FLAG, DIAL_FLAG, NO_PORT_FLAG, WorkerFlagError, WorkerFlags};
pub use worker_place::WorkerPlace;
pub use worker_tls::{TlsFiles, WorkerLinks, WorkerTls};

#[cfg(test)]
mod tests;
