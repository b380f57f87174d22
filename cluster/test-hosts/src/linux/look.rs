//! What `/proc` says about a host.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::interface::TUN;

/// A process as its host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostProcess {
    /// Its pid within the host. Process 1 is the host's init.
    pub pid: u32,
    /// The name of its program, of which the kernel keeps 15 bytes.
    pub name: String,
    /// Its state as the kernel writes it: `R` runs, `S` and `D` wait, `T` is stopped, `Z` is dead and not reaped.
    pub state: char,
}

/// The bytes that a host's interface has carried, as the host's kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceBytes {
    /// The bytes that came from the network.
    pub received: u64,
    /// The bytes that went to the network.
    pub sent: u64,
}

/// A TCP socket of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Socket {
    /// The address that it is bound to.
    pub local: SocketAddr,
    /// The address that it is connected to; port 0 if it is not.
    pub remote: SocketAddr,
    /// The state of the connection.
    pub state: SocketState,
}

/// The state of a TCP socket (RFC 9293).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketState {
    /// Connected: neither side is known to have ended.
    Established,
    /// Listening.
    Listen,
    /// The peer has ended its direction.
    CloseWait,
    /// Another state, by the kernel's number.
    Other(u8),
}

/// The processes in a `/proc`.
pub(super) fn processes(folder: &str) -> io::Result<Vec<HostProcess>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has ended meanwhile is none.
        if let Ok(stat) = fs::read_to_string(format!("{folder}/{pid}/stat")) {
            found.push(process(pid, &stat).ok_or(ErrorKind::InvalidData)?);
        }
    }
    found.sort_by_key(|process: &HostProcess| process.pid);
    Ok(found)
}

/// Reads a line such as `7 (name) S ...`. The name may have parentheses of its own.
fn process(pid: u32, stat: &str) -> Option<HostProcess> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some(HostProcess {
        pid,
        name: name.to_owned(),
        state: rest.trim_start().chars().next()?,
    })
}

/// The counters of the interface to the other hosts, from a `net/dev`.
pub(super) fn interface_bytes(file: &str) -> io::Result<InterfaceBytes> {
    let table = fs::read_to_string(file)?;
    let row = table
        .lines()
        .find_map(|line| line.trim().strip_prefix(TUN)?.strip_prefix(':'));
    let mut numbers = row
        .unwrap_or_default()
        .split_whitespace()
        .map(|text| text.parse().ok());
    match (numbers.next().flatten(), numbers.nth(7).flatten()) {
        (Some(received), Some(sent)) => Ok(InterfaceBytes { received, sent }),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// The TCP sockets in a folder `net` of `/proc`.
pub(super) fn sockets(folder: &str) -> io::Result<Vec<Socket>> {
    let mut found = Vec::new();
    for file in ["tcp", "tcp6"] {
        match fs::read_to_string(format!("{folder}/{file}")) {
            Ok(table) => {
                for row in table.lines().skip(1) {
                    found.push(socket(row).ok_or(ErrorKind::InvalidData)?);
                }
            }
            // A kernel without IPv6 has no such table.
            Err(error) if error.kind() == ErrorKind::NotFound && file == "tcp6" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Reads a line such as `0: 0100007F:1F90 00000000:0000 0A ...`.
fn socket(row: &str) -> Option<Socket> {
    let mut words = row.split_whitespace().skip(1);
    Some(Socket {
        local: address(words.next()?)?,
        remote: address(words.next()?)?,
        state: match u8::from_str_radix(words.next()?, 16).ok()? {
            1 => SocketState::Established,
            8 => SocketState::CloseWait,
            10 => SocketState::Listen,
            other => SocketState::Other(other),
        },
    })
}

/// Reads an address such as `0100007F:1F90`: words of 32 bits as the machine has them, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let bytes = words.as_bytes().chunks(8).flat_map(|word| {
        let word = str::from_utf8(word)
            .ok()
            .and_then(|word| u32::from_str_radix(word, 16).ok());
        word.unwrap_or_default().to_ne_bytes()
    });
    let bytes: Vec<u8> = bytes.collect();
    let address = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_read_from_its_row() {
        let row =
            "   0: 0100007F:1F90 0200C612:0001 08 00000000:00000000 00:00000000 00000000     0        0 4 1";
        let read = socket(row).unwrap();
        assert_eq!(read.local, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(read.remote, "18.198.0.2:1".parse().unwrap());
        assert_eq!(read.state, SocketState::CloseWait);
        let row = "   1: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A";
        assert_eq!(socket(row).unwrap().local, "[::1]:22".parse().unwrap());
    }

    #[test]
    fn a_process_with_parentheses_in_its_name_is_read() {
        let read = process(7, "7 (a) S (b) T 1 7").unwrap();
        assert_eq!((read.name.as_str(), read.state), ("a) S (b", 'T'));
    }
}
