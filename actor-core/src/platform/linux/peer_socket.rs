//! The sockets between two processes that are peers: a pair of Unix sockets, one end of which is watched by a reactor in
//! each process.
#![allow(unsafe_code)] // counts the bytes that the kernel has written into a vector

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use tokio::io::{Interest, Ready};
use tokio::runtime::Handle;

use super::watched::{Watched, watch};

/// The room for bytes that the peer has not read yet. With more of it, sender and receiver of a long body wait less often for
/// each other; with too much, the bytes leave the processor's cache before they are read.
const SEND_BUFFER_BYTES: usize = 512 << 10;

/// An end of a pair that no reactor watches yet.
pub(crate) type PeerEnd = OwnedFd;

/// Makes a pair of connected sockets. A process that is executed later inherits neither.
pub(crate) fn pair() -> io::Result<(PeerEnd, PeerEnd)> {
    let (one, other) = UnixStream::pair()?;
    for end in [&one, &other] {
        // A kernel that allows less takes its own limit.
        let _ = set_socket_send_buffer_size(end, SEND_BUFFER_BYTES);
    }
    Ok((one.into(), other.into()))
}

/// Gives an end to a reactor.
pub(crate) fn register(end: PeerEnd, reactor: &Handle) -> io::Result<(PeerSource, PeerSocket)> {
    let socket = Arc::new(end);
    let _context = reactor.enter();
    let source = PeerSource {
        watched: Some(watch(Arc::clone(&socket), Interest::READABLE)?),
        for_room: false,
        socket: Arc::clone(&socket),
    };
    Ok((source, PeerSocket(socket)))
}

/// The writing half of an end. Any thread may write; a write never blocks.
pub(crate) struct PeerSocket(Arc<OwnedFd>);

impl PeerSocket {
    /// Writes as much of the slices as there is room for. A closed end is an error and never a signal, whatever the
    /// program has decided about SIGPIPE.
    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut space: [MaybeUninit<u8>; 0] = [];
        let mut nothing = SendAncillaryBuffer::new(&mut space);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(sendmsg(&self.0, slices, &mut nothing, flags)?)
    }

    /// Ends both directions, which the other end sees as the end of the stream.
    pub(crate) fn close(&self) {
        // An error means that the other end is closed already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

/// The reading half of an end, for one task.
///
/// The reactor watches for room only while somebody waits for it: otherwise each message that the peer reads, which makes
/// room, would wake the reactor.
pub(crate) struct PeerSource {
    socket: Arc<OwnedFd>,
    watched: Option<Watched>,
    for_room: bool,
}

/// An event of an end.
pub(crate) enum SourceEvent {
    /// The number of bytes that were read; 0 is the end of the stream.
    Read(usize),
    /// Room to write, perhaps.
    Room,
}

impl PeerSource {
    /// Waits for bytes and reads them, or for room if that is wanted. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self, mut into: ReadInto<'_>, for_room: bool) -> io::Result<SourceEvent> {
        let interest = if for_room {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        if self.for_room != for_room {
            // A reactor watches a descriptor once.
            self.watched = None;
            self.for_room = for_room;
        }
        let watched = match &self.watched {
            Some(watched) => watched,
            None => self.watched.insert(watch(Arc::clone(&self.socket), interest)?),
        };
        loop {
            let mut ready = watched.ready(interest).await?;
            if for_room && ready.ready().is_writable() {
                // Cleared before the write, so that the next room is an event again.
                ready.clear_ready_matching(Ready::WRITABLE);
                return Ok(SourceEvent::Room);
            }
            let (read, length) = (read_now(&self.socket, &mut into), into.most);
            // A short read has emptied the socket, and bytes that arrive from now on are an event again.
            if !matches!(read, Ok(read) if read == length || read == 0) {
                ready.clear_ready_matching(Ready::READABLE);
            }
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(SourceEvent::Read),
            }
        }
    }

    /// Reads what is there, even if the reactor has not reported anything yet.
    pub(crate) fn read_now(&self, mut into: ReadInto<'_>) -> io::Result<usize> {
        read_now(&self.socket, &mut into)
    }
}

/// The memory to read into: behind what the vector holds, and within its capacity.
pub(crate) struct ReadInto<'a> {
    pub(crate) memory: &'a mut Vec<u8>,
    /// The number of bytes to read at most.
    pub(crate) most: usize,
}

fn read_now(socket: &OwnedFd, into: &mut ReadInto<'_>) -> io::Result<usize> {
    let room = into.memory.spare_capacity_mut();
    let room = room.get_mut(..into.most).ok_or(io::ErrorKind::InvalidInput)?;
    let ((read, _), _) = recv(socket, room, RecvFlags::DONTWAIT)?;
    let (read, length) = (read.len(), into.memory.len());
    // SAFETY: the kernel has written so many bytes behind the vector's own, within its capacity.
    unsafe { into.memory.set_len(length + read) };
    Ok(read)
}
