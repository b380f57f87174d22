//! The start of a worker: no process is started as one.

use super::link::Stream;

/// The link of a process that was started as a worker; `None`, always.
pub(crate) fn link() -> Option<Result<Stream, String>> {
    None
}
