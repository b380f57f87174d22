//! Addresses: a host with a port.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use super::host_name::HostName;
use super::part_error::PartError;
use super::printable::excerpt;

/// The address on which a worker listens: `host` or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindAddress {
    /// The address or the name of one interface.
    pub host: HostName,
    /// The port; `None` for a free one.
    pub port: Option<NonZeroU16>,
}

impl BindAddress {
    /// The address of one of several workers with this one, counted from 1: a port is the first worker's.
    #[must_use]
    pub fn of_worker(self, number: u16) -> Self {
        let port = self.port.filter(|_| number == 1);
        BindAddress { port, ..self }
    }
}

/// The address at which a worker can be reached: `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerAddress {
    /// The host.
    pub host: HostName,
    /// The port.
    pub port: NonZeroU16,
}

/// Splits `host[:port]`.
pub(super) fn host_and_port(text: &str) -> Result<(HostName, Option<NonZeroU16>), PartError> {
    if let Some(text) = text.strip_prefix('[') {
        let (host, rest) = text
            .split_once(']')
            .ok_or_else(|| PartError::Ipv6(excerpt(text)))?;
        let host = HostName::in_brackets(host)?;
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((host, Some(port(digits)?))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(PartError::Port(excerpt(rest))),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Err(PartError::Ipv6(excerpt(text))),
        Some((host, digits)) => Ok((host.parse()?, Some(port(digits)?))),
        None => Ok((text.parse()?, None)),
    }
}

fn port(text: &str) -> Result<NonZeroU16, PartError> {
    number(text).ok_or_else(|| PartError::Port(excerpt(text)))
}

/// The number of these digits, if it is from 1 to 65535.
pub(super) fn number(digits: &str) -> Option<NonZeroU16> {
    // `parse` takes a sign too.
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_digits)
}

impl FromStr for BindAddress {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Self, PartError> {
        host_and_port(text).map(|(host, port)| BindAddress { host, port })
    }
}

impl FromStr for WorkerAddress {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Self, PartError> {
        match host_and_port(text)? {
            (host, Some(port)) => Ok(WorkerAddress { host, port }),
            (_, None) => Err(PartError::NoPort(excerpt(text))),
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
