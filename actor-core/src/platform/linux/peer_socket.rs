//! The sockets between two processes that are peers: a pair of Unix sockets, one end of which is registered with a
//! reactor in each process.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use tokio::io::Interest;
use tokio::runtime::Handle;

/// An end of a pair that no reactor watches yet.
pub(crate) type PeerEnd = OwnedFd;

/// Makes a pair of connected sockets. A process that is executed later inherits neither.
pub(crate) fn pair() -> io::Result<(PeerEnd, PeerEnd)> {
    let (one, other) = UnixStream::pair()?;
    Ok((one.into(), other.into()))
}

/// An end of a pair that a reactor watches. Reads and writes never block, and any thread may write.
pub(crate) struct PeerSocket(tokio::net::UnixStream);

impl PeerSocket {
    /// Gives an end to a reactor.
    pub(crate) fn register(end: PeerEnd, reactor: &Handle) -> io::Result<Self> {
        let stream = UnixStream::from(end);
        stream.set_nonblocking(true)?;
        let _context = reactor.enter();
        tokio::net::UnixStream::from_std(stream).map(PeerSocket)
    }

    /// Waits until there is something to read, or the end of the stream.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Waits until there is room to write, or the other end is closed.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.0.writable().await
    }

    /// Reads what is there; 0 is the end of the stream.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }

    /// Like `try_read`, but asks the system even if the reactor has not reported anything yet.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (read, _) = recv(&self.0, buffer, RecvFlags::DONTWAIT)?;
        Ok(read)
    }

    /// Writes as much of the slices as there is room for. A closed end is an error and never a signal, whatever the
    /// program has decided about SIGPIPE.
    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, || {
            let mut space: [MaybeUninit<u8>; 0] = [];
            let mut nothing = SendAncillaryBuffer::new(&mut space);
            Ok(sendmsg(&self.0, slices, &mut nothing, SendFlags::NOSIGNAL)?)
        })
    }

    /// Ends both directions, which the other end sees as the end of the stream.
    pub(crate) fn close(&self) {
        // An error means that the other end is closed already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}
