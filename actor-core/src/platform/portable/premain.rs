//! The start of a worker: no process is started as one.

use super::link::Stream;

/// The link of a process that was started as a worker; `None`, always.
pub(crate) fn link() -> Option<Result<Stream, String>> {
    None
}

/// Prepares a process to be a worker.
#[cfg(feature = "hosts")]
pub(crate) fn begin_hosted() {}

/// Leaves the standard input as it is.
#[cfg(feature = "hosts")]
pub(crate) fn close_stdin() -> std::io::Result<()> {
    Ok(())
}
