//! Muting of a socket while a thread looks at it: nobody is told of bytes that arrive.
#![allow(unsafe_code)] // an option of sockets that rustix does not have

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::ipproto::TCP;
use rustix::net::sockopt::socket_protocol;

/// The number of bytes of which a muted connection of TCP tells. Linux gives such a connection room for twice as many.
const LOUD: libc::c_int = 1 << 20;

/// The way in which a socket is muted.
enum MutedBy {
    /// A raised low-water mark, which costs half as much as the other way. Only TCP heeds that mark.
    LowWater,
    /// No entry with the reactor.
    NoEntry,
}

/// A socket, and the entries that the reactor watches.
pub(super) struct Muting {
    socket: Arc<OwnedFd>,
    entries: Arc<OwnedFd>,
    by: MutedBy,
}

impl Muting {
    pub(super) fn new(socket: Arc<OwnedFd>, entries: Arc<OwnedFd>) -> Self {
        let is_tcp = socket_protocol(&socket).is_ok_and(|protocol| protocol == Some(TCP));
        let by = match is_tcp && set_low_water(&socket, 1).is_ok() {
            true => MutedBy::LowWater,
            false => MutedBy::NoEntry,
        };
        Muting { socket, entries, by }
    }

    /// Begins. An error means that the reactor does not watch yet, or is told of bytes as well.
    pub(super) fn begin(&self) {
        match self.by {
            MutedBy::LowWater => _ = set_low_water(&self.socket, LOUD),
            MutedBy::NoEntry => _ = epoll::delete(&self.entries, &self.socket),
        }
    }

    /// Ends. Linux tells of the bytes that are there already.
    ///
    /// # Errors
    /// The system refuses, so nobody is told of bytes from now on.
    pub(super) fn end(&self) -> io::Result<()> {
        #[cfg(test)]
        if REFUSES_TO_WATCH.replace(false) {
            return Err(Errno::NOSPC.into());
        }
        match self.by {
            MutedBy::LowWater => set_low_water(&self.socket, 1),
            MutedBy::NoEntry => watch_arrivals(&self.entries, &self.socket),
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Whether the system refuses to end the next muting of this thread, as it does when its user has too many entries.
    pub(crate) static REFUSES_TO_WATCH: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Has the reactor told of bytes at a socket, as long as no thread leads. A second call changes nothing.
pub(super) fn watch_arrivals(entries: &OwnedFd, socket: &OwnedFd) -> io::Result<()> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
    match epoll::add(entries, socket, epoll::EventData::new_u64(0), flags) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sets the number of bytes from which on a socket tells of them. The end of the stream is told in any case.
fn set_low_water(socket: &OwnedFd, bytes: libc::c_int) -> io::Result<()> {
    let (level, name, length) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT, size_of_val(&bytes));
    // SAFETY: the descriptor is open as long as it is borrowed, and the kernel reads `length` bytes of an integer that lives as long.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const bytes).cast(),
            length as libc::socklen_t,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::mem::MaybeUninit;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use rustix::event::Timespec;

    use super::*;

    fn is_told(entries: &OwnedFd, limit: i64) -> bool {
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); 4];
        let limit = Timespec {
            tv_sec: limit,
            tv_nsec: 0,
        };
        !epoll::wait(entries, &mut space, Some(&limit))
            .unwrap()
            .0
            .is_empty()
    }

    fn only_a_muted_socket_tells_of_nothing(end: impl Into<OwnedFd>, mut other: impl Write) {
        let socket = Arc::new(end.into());
        let entries = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
        let muting = Muting::new(Arc::clone(&socket), Arc::clone(&entries));
        watch_arrivals(&entries, &socket).unwrap();
        for _ in 0..3 {
            muting.begin();
            other.write_all(b"bytes").unwrap();
            assert!(!is_told(&entries, 0));
            muting.end().unwrap();
            assert!(is_told(&entries, 60), "of bytes that were there at the end");
            rustix::io::read(&socket, &mut [0; 8]).unwrap();
            assert!(!is_told(&entries, 0));
            other.write_all(b"bytes").unwrap();
            assert!(is_told(&entries, 60), "of bytes that have come since");
            rustix::io::read(&socket, &mut [0; 8]).unwrap();
        }
        muting.begin();
        drop(other);
        muting.end().unwrap();
        assert!(is_told(&entries, 60), "of the end of the stream");
    }

    #[test]
    fn only_a_muted_socket_tells_of_nothing_over_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        only_a_muted_socket_tells_of_nothing(listener.accept().unwrap().0, other);
    }

    #[test]
    fn only_a_muted_socket_tells_of_nothing_over_a_pair() {
        let (end, other) = UnixStream::pair().unwrap();
        only_a_muted_socket_tells_of_nothing(end, other);
    }
}
