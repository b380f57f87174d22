//! The launch of a worker process: refused.

use std::io;

#[cfg(feature = "hosts")]
use crate::worker::launch::LaunchedChild;
use crate::worker::launch::{Launched, NotAllowed};

/// Whether this system has worker processes.
///
/// # Errors
/// [`NotAllowed::NoProcesses`], always.
pub(crate) fn supported() -> Result<(), NotAllowed> {
    Err(NotAllowed::NoProcesses)
}

/// Refuses to start a process.
pub(crate) fn launch(_: &str, _: &[(String, String)], _: u32) -> io::Result<Launched> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refuses to start a process.
#[cfg(feature = "hosts")]
pub(crate) fn launch_command(
    _: std::process::Command,
    _: &[u8],
) -> io::Result<(LaunchedChild, Option<std::process::ChildStdin>)> {
    Err(io::ErrorKind::Unsupported.into())
}
