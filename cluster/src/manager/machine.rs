//! Machines: lines of a machine file.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use thiserror::Error;

use super::address::{BindAddress, host_and_port};
use super::count::Count;
use super::host_name::HostName;
use super::part_error::PartError;
use super::printable::excerpt;
use super::user_name::UserName;

/// A machine on which workers are started: `[count*][user@]host[:port] [bind_address[:port]]`.
///
/// A word that begins with `#` begins a comment.
///
/// ```
/// use selvedge_cluster::manager::{Count, MachineSpec};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let machine: MachineSpec = "auto*ada@[fe80::1]:2222 10.0.0.7  # behind the firewall".parse()?;
/// assert_eq!((machine.count, machine.host.as_str()), (Count::Auto, "fe80::1"));
/// assert_eq!(machine.to_string(), "auto*ada@[fe80::1]:2222 10.0.0.7");
///
/// let error = MachineSpec::parse_file("gpu0\n4*gpu1:99999").map_err(|it| it.to_string());
/// assert_eq!(error, Err("line 2, `4*gpu1:99999`: `99999` is no port: write a number from 1 to 65535".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineSpec {
    /// The number of workers; one if the line has none.
    pub count: Count,
    /// The user; `None` for the one of `ssh`.
    pub user: Option<UserName>,
    /// The host.
    pub host: HostName,
    /// The port of the host's `sshd`; `None` for the one of `ssh`.
    pub port: Option<NonZeroU16>,
    /// The address on which the workers listen; `None` for the host's own. A port in it is the first worker's; the
    /// others take free ports.
    pub bind: Option<BindAddress>,
}

/// The line of a machine file that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, `{text}`: {part}")]
pub struct MachineSpecError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The beginning of the line.
    pub text: String,
    /// The part that is wrong, and how to mend it.
    pub part: PartError,
}

impl MachineSpec {
    /// One worker on a host.
    pub fn new(host: HostName) -> Self {
        MachineSpec {
            count: Count::ONE,
            user: None,
            host,
            port: None,
            bind: None,
        }
    }

    /// The machines of a file: one a line, with comments and empty lines.
    ///
    /// # Errors
    /// [`MachineSpecError`]: the first line that is wrong.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, MachineSpecError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let numbered = (1..).zip(text.lines());
        let lines = numbered.filter(|(_, line)| words(line).next().is_some());
        lines.map(|(number, line)| parse_line(number, line)).collect()
    }
}

/// The words of a line, without its comment.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_ascii_whitespace()
        .take_while(|word| !word.starts_with('#'))
}

fn parse_line(number: usize, text: &str) -> Result<MachineSpec, MachineSpecError> {
    parse(text).map_err(|part| MachineSpecError {
        line: number,
        text: excerpt(text.trim()),
        part,
    })
}

fn parse(line: &str) -> Result<MachineSpec, PartError> {
    let mut words = words(line);
    let rest = words.next().ok_or(PartError::Empty)?;
    let bind = words.next().map(str::parse).transpose()?;
    if let Some(surplus) = words.next() {
        return Err(PartError::Surplus(excerpt(surplus)));
    }
    let (count, rest) = match rest.split_once('*') {
        Some((count, rest)) => (count.parse()?, rest),
        None => (Count::ONE, rest),
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (Some(user.parse()?), rest),
        None => (None, rest),
    };
    let (host, port) = host_and_port(rest)?;
    Ok(MachineSpec {
        count,
        user,
        host,
        port,
        bind,
    })
}

impl FromStr for MachineSpec {
    type Err = MachineSpecError;

    fn from_str(text: &str) -> Result<Self, MachineSpecError> {
        parse_line(1, text)
    }
}

impl fmt::Display for MachineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count != Count::ONE {
            write!(f, "{}*", self.count)?;
        }
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}", self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        self.bind.as_ref().map_or(Ok(()), |bind| write!(f, " {bind}"))
    }
}
