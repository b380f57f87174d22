//! Names of hosts.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::part_error::PartError;
use super::printable::excerpt;

/// The bytes that a name may have: those of the domain name system.
const BYTES_MAX: usize = 253;

/// The name or the address of a host, checked: it has no character that a shell, `ssh` or a machine file would take for
/// something else, and no option of a program begins as it does.
///
/// An IPv6 address is written in brackets; [`as_str`](HostName::as_str) leaves them out.
///
/// ```
/// use selvedge_cluster::manager::HostName;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host: HostName = "[fe80::1%eth0]".parse()?;
/// assert_eq!((host.as_str(), host.to_string()), ("fe80::1%eth0", "[fe80::1%eth0]".to_owned()));
/// assert!("-oProxyCommand=x".parse::<HostName>().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// The name, without brackets.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host of the text between two brackets.
    pub(super) fn in_brackets(text: &str) -> Result<Self, PartError> {
        let (address, zone) = match text.split_once('%') {
            Some((address, zone)) => (address, Some(zone)),
            None => (text, None),
        };
        let is_address = address.parse::<Ipv6Addr>().is_ok();
        match is_address && zone.is_none_or(is_name) {
            true => Ok(HostName(text.to_owned())),
            false => Err(PartError::Ipv6(excerpt(text))),
        }
    }
}

/// Whether the text is a name that nothing takes for an option.
fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=BYTES_MAX).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(is_allowed)
}

impl FromStr for HostName {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Self, PartError> {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        match inner {
            Some(inner) => HostName::in_brackets(inner),
            None if text.contains(':') => Err(PartError::Ipv6(excerpt(text))),
            None if is_name(text) => Ok(HostName(text.to_owned())),
            None => Err(PartError::Host(excerpt(text))),
        }
    }
}

impl From<IpAddr> for HostName {
    fn from(address: IpAddr) -> Self {
        HostName(address.to_string())
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.contains(':') {
            true => write!(f, "[{}]", self.0),
            false => f.write_str(&self.0),
        }
    }
}
