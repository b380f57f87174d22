//! Errors of a part of a machine's line.

use thiserror::Error;

/// The reason that a part of a line is refused. Each variant quotes the part.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PartError {
    /// A line without a machine.
    #[error("there is no machine: write `[count*][user@]host[:port] [bind_address[:port]]`")]
    Empty,
    /// The text before `*` is no count.
    #[error("`{0}` is no count of workers: write a number from 1 to 65535, or `auto` for one worker a core")]
    Count(String),
    /// The text before `@` is no user.
    #[error(
        "`{0}` is no user: letters, digits and `.`, `_`, `-`, `+`, `@` are allowed, and `-` not in front"
    )]
    User(String),
    /// The text is no name of a host.
    #[error(
        "`{0}` is no host: write a name of letters, digits and `.`, `_`, `-` (no `-` in front), or an IP address"
    )]
    Host(String),
    /// The text has several colons and no brackets, or there is no IPv6 address between the brackets.
    #[error("`{0}` is no host: write an IPv6 address in brackets, as in `[fe80::1]:22`")]
    Ipv6(String),
    /// The text after the host is no port.
    #[error("`{0}` is no port: write a number from 1 to 65535")]
    Port(String),
    /// A worker's address without a port.
    #[error("`{0}` has no port: write `host:port`")]
    NoPort(String),
    /// The text is no place that a worker can announce.
    #[error(
        "`{0}` is no place: a transport needs 1 to 1024 bytes of text, without control characters and blanks around them"
    )]
    Place(String),
    /// The line has more words than a machine and an address.
    #[error("`{0}` is a word too many: a line has a machine and, behind a space, an address to listen on")]
    Surplus(String),
}
