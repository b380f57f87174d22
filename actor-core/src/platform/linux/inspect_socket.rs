//! The sockets by which other processes look into this one: abstract names, which the kernel forgets with their process.
#![allow(unsafe_code)] // the kernel says who is at the other end of a socket

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tokio::net::UnixListener;

/// The beginning of a name; the pid and the number of the runtime follow.
const PREFIX: &str = "selvedge-inspect-";
/// The numbers that are tried. Another user may have taken a name.
const NAMES_MAX: u32 = 16;

fn name(pid: u32, number: u32) -> String {
    format!("{PREFIX}{pid}-{number}")
}

/// Whether a process of this user may look into one of mine, which runs as `mine`.
fn is_allowed(user: u32, mine: u32) -> bool {
    user == mine || user == 0
}

/// The process and the user that have connected a socket, or that listen at its other end. The pid is 0 if that process is outside
/// this one's namespace of pids, so they are not asked for by `rustix`, whose pids are never 0.
fn owner(socket: impl AsFd) -> io::Result<libc::ucred> {
    let mut owner = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut bytes = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    let (socket, option) = (socket.as_fd().as_raw_fd(), libc::SO_PEERCRED);
    let (to, length) = (&raw mut owner, &raw mut bytes);
    // SAFETY: both pointers lead to values that live until the call has returned; the kernel writes at most `bytes` bytes, the
    // length of the first, which is made of integers alone.
    match unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, option, to.cast(), length) } {
        0 => Ok(owner),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The socket at which a runtime can be asked.
pub(crate) struct InspectListener(UnixListener);

/// A process that asks.
pub(crate) struct InspectCaller {
    pub(crate) stream: InspectStream,
    /// Whether the asker is the user of this process, or root.
    pub(crate) is_allowed: bool,
}

impl InspectListener {
    /// Listens under the next free name, on the tokio runtime of the calling thread.
    pub(crate) fn bind() -> io::Result<Self> {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let mut refused = io::ErrorKind::AddrInUse.into();
        for _ in 0..NAMES_MAX {
            // Relaxed: the number publishes nothing.
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let name = SocketAddr::from_abstract_name(name(std::process::id(), number))?;
            match StdListener::bind_addr(&name) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    return UnixListener::from_std(listener).map(InspectListener);
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Waits for a process that asks; `None` if that has gone already.
    ///
    /// # Errors
    /// No descriptor is left. The next call begins at the same process.
    pub(crate) async fn accept(&self) -> io::Result<Option<InspectCaller>> {
        let stream = match self.0.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Ok(None),
            Err(error) => return Err(error),
        };
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        let user = owner(&stream)?.uid;
        Ok(Some(InspectCaller {
            stream: InspectStream(stream),
            is_allowed: is_allowed(user, rustix::process::geteuid().as_raw()),
        }))
    }
}

/// A conversation.
pub(crate) struct InspectStream(UnixStream);

impl InspectStream {
    /// Fills the buffer.
    ///
    /// # Errors
    /// The other side has ended, or the deadline has passed.
    pub(crate) fn read_until(&self, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !buffer.is_empty() {
            self.0.set_read_timeout(Some(left(deadline)?))?;
            match (&self.0).read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => buffer = buffer.get_mut(bytes..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// The other side has ended, or the deadline has passed.
    pub(crate) fn write_until(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.0.set_write_timeout(Some(left(deadline)?))?;
            match (&self.0).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The time that is left, which is not zero.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// The reason that a process cannot be asked.
pub(crate) enum Absent {
    Process,
    OtherUser,
    OtherNetwork,
    System(io::Error),
}

/// The place at which a runtime can be asked.
pub(crate) struct InspectSpot {
    pid: u32,
    user: u32,
    name: String,
    number: u32,
}

impl InspectSpot {
    /// The number of the runtime in its process.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Begins a conversation; `None` if the runtime has ended, or if another process has taken the name.
    ///
    /// # Errors
    /// The process does not accept, or the system refuses a socket.
    pub(crate) fn connect(&self) -> io::Result<Option<InspectStream>> {
        // Not blocking, so that a process that does not accept is an error and no wait without an end.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new_abstract_name(self.name.as_bytes())?;
        match connect(&socket, &address) {
            Ok(()) => {}
            Err(rustix::io::Errno::CONNREFUSED) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let there = owner(&socket)?;
        if (u32::try_from(there.pid), there.uid) != (Ok(self.pid), self.user) {
            return Ok(None);
        }
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(Some(InspectStream(stream)))
    }
}

/// The places at which the runtimes of a process can be asked.
pub(crate) fn find(pid: u32) -> Result<Vec<InspectSpot>, Absent> {
    let status = match fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => status,
        // The kernel says the second of a process that ends meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Absent::Process),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            return Err(Absent::Process);
        }
        Err(error) => return Err(Absent::System(error)),
    };
    // The real user is the first number, the effective one the second.
    let user = field(&status, "Uid:").nth(1).unwrap_or(u32::MAX);
    if !is_allowed(rustix::process::geteuid().as_raw(), user) {
        return Err(Absent::OtherUser);
    }
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    if let (Some(here), Some(there)) = (network("self"), network(&pid.to_string()))
        && here != there
    {
        return Err(Absent::OtherNetwork);
    }
    // In a namespace of pids the process has named itself by the pid that it has there, which is the last of its pids.
    let own = field(&status, "NSpid:").last().unwrap_or(pid);
    let spots = names().map_err(Absent::System)?.into_iter();
    let spots = spots.filter(|(named, _)| *named == own);
    let mut spots: Vec<_> = spots
        .map(|(_, number)| InspectSpot {
            pid,
            user,
            name: name(own, number),
            number,
        })
        .collect();
    spots.sort_unstable_by_key(InspectSpot::number);
    Ok(spots)
}

fn field<'a>(status: &'a str, name: &str) -> impl Iterator<Item = u32> + use<'a> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default()
        .split_whitespace()
        .filter_map(|it| it.parse().ok())
}

/// The process that has started a process, if that still lives.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field(&status, "PPid:").next()
}

/// The processes with a runtime that can be asked, as they name themselves.
pub(crate) fn processes() -> Vec<u32> {
    let mut pids: Vec<u32> = names()
        .unwrap_or_default()
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The pids and numbers in the names of this network namespace.
fn names() -> io::Result<Vec<(u32, u32)>> {
    // Names of other programs are any bytes.
    let table = fs::read("/proc/net/unix")?;
    let table = String::from_utf8_lossy(&table);
    let named = table.lines().filter_map(|line| {
        let name = line.split_whitespace().nth(7)?.strip_prefix('@')?;
        let (pid, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
        Some((pid.parse().ok()?, number.parse().ok()?))
    });
    let mut names: Vec<_> = named.collect();
    // A socket that was accepted has the name of the one that listens.
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_process_and_root_may_look_into_it_and_nobody_else() {
        assert!(is_allowed(1000, 1000));
        assert!(is_allowed(0, 1000));
        assert!(!is_allowed(1001, 1000));
        assert!(!is_allowed(1000, 0));
    }

    #[test]
    fn the_fields_of_a_process_are_read_by_their_names() {
        let status = "Name:\tx Uid: 7\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t40\t3\n";
        assert_eq!(field(status, "Uid:").nth(1), Some(1001));
        assert_eq!(field(status, "NSpid:").last(), Some(3));
        assert_eq!(field(status, "Gid:").next(), None);
    }
}
