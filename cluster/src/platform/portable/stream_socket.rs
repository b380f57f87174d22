//! The sockets under streams, which nobody takes.

use std::io;

use crate::net::Halves;

/// The socket of a stream, of which there is none.
#[derive(Debug)]
pub enum StreamSocket {}

/// Refuses.
///
/// # Errors
/// Always.
pub(crate) fn into_socket(_: Halves) -> io::Result<StreamSocket> {
    Err(io::ErrorKind::Unsupported.into())
}
