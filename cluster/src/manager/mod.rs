//! Managers: how workers are named, launched, heard and ended.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/cluster/src/manager) of this folder has the order of a
//! worker's life and the invariants `MANAGER-1` to `MANAGER-7`. Nothing here starts a process or reads a stream: command lines
//! come out, and bytes, ends and the time go in.
//!
//! - [`MachineSpec`]: a machine, as a line of a machine file names it;
//! - [`StartUp`]: the output of a process until it says where it listens; [`Forwarder`]: its output after that;

mod printable;

mod address;
mod count;
mod host_name;
mod machine;
mod part_error;
mod user_name;

mod announcement;
mod forwarder;
mod lines;
mod start_up;

pub use address::{BindAddress, WorkerAddress};
pub use count::Count;
pub use forwarder::{Forwarder, Origin};
pub use host_name::HostName;
pub use lines::{LINE_BYTES_MAX, Lines, OutputLine};
pub use machine::{MachineSpec, MachineSpecError};
pub use part_error::PartError;
pub use start_up::{START_UP_LINES_MAX, StartUp, StartUpError, StartUpEvent};
pub use user_name::UserName;

#[cfg(test)]
mod tests;
