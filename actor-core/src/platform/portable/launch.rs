//! The launch of a worker process: refused.

use std::io;

use super::child::Unwatched;
use super::link::{OutputPipe, Stream};
use crate::worker::launch::NotAllowed;

/// Whether this system has worker processes.
///
/// # Errors
/// [`NotAllowed::NoProcesses`], always.
pub(crate) fn supported() -> Result<(), NotAllowed> {
    Err(NotAllowed::NoProcesses)
}

/// A process that was started, which does not exist here.
pub(crate) struct Launched {
    pub(crate) pid: u32,
    pub(crate) process: Unwatched,
    pub(crate) stream: Stream,
    pub(crate) stdout: OutputPipe,
    pub(crate) stderr: OutputPipe,
}

/// Refuses to start a process.
pub(crate) fn launch(_: &str, _: &[(String, String)], _: u32) -> io::Result<Launched> {
    Err(io::ErrorKind::Unsupported.into())
}
