//! The near ends of tunnels.

use std::fmt;
use std::num::NonZeroU16;

use super::command_error::CommandError;
use super::printable::excerpt;

/// The bytes of a socket's path; systems have 104 and more.
const PATH_BYTES_MAX: usize = 100;

/// The place on this host where a tunnel begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelEntry(Place);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Socket(String),
    Port(NonZeroU16),
}

impl TunnelEntry {
    /// A Unix socket, which `ssh` makes for this user alone. Nothing listens on a port.
    ///
    /// # Errors
    /// [`CommandError::SocketPath`]: `ssh` or the system would not take this path.
    pub fn socket(path: &str) -> Result<Self, CommandError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        match path.starts_with('/') && path.len() <= PATH_BYTES_MAX && path.bytes().all(is_allowed) {
            true => Ok(TunnelEntry(Place::Socket(path.to_owned()))),
            false => Err(CommandError::SocketPath {
                path: excerpt(path),
                max: PATH_BYTES_MAX,
            }),
        }
    }

    /// A port of the loopback interface, which every user of this host can dial.
    pub fn port(port: NonZeroU16) -> Self {
        TunnelEntry(Place::Port(port))
    }
}

impl fmt::Display for TunnelEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Socket(path) => f.write_str(path),
            Place::Port(port) => write!(f, "127.0.0.1:{port}"),
        }
    }
}
