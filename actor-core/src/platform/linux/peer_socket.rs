//! The sockets between two processes that are peers: a pair of Unix sockets, one end of which is watched by a reactor in
//! each process.
#![allow(unsafe_code)] // counts the bytes that the kernel has written into a vector

use std::future::pending;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
#[cfg(feature = "hosts")]
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use rustix::net::sockopt::{set_socket_linger, set_socket_send_buffer_size};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use tokio::io::Interest;
use tokio::runtime::Handle;

use super::lead_poll::LeadPoll;
use super::watched::{Watched, watch};

/// The room for bytes that the peer has not read yet. With more of it, sender and receiver of a long body wait less often for
/// each other; with too much, the bytes leave the processor's cache before they are read.
const SEND_BUFFER_BYTES: usize = 512 << 10;

/// The time without traffic after which the system asks whether a connection of TCP still stands. It is shorter than the time for
/// which the other side of a broken connection waits, so that a side that was told nothing dials in time.
#[cfg(feature = "hosts")]
const KEEPALIVE_IDLE: Duration = Duration::from_secs(2);
/// The time between two such questions, and the number of those that stay without an answer.
#[cfg(feature = "hosts")]
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
#[cfg(feature = "hosts")]
const KEEPALIVE_PROBES: u32 = 6;
/// The time for which bytes may be on their way, in milliseconds.
#[cfg(feature = "hosts")]
const UNACKNOWLEDGED_MAX_MS: u32 = 10_000;

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

/// The socket of a link over a network, and the bytes that come before those of the socket.
#[cfg(feature = "hosts")]
pub(crate) fn of_link(link: selvedge_cluster::net::Link) -> io::Result<(PeerEnd, Vec<u8>)> {
    let (socket, beyond) = link.into_socket()?;
    // Two workers may have nothing to say for long, while something between them forgets their connection. An error means
    // that the stream is carried by a pair.
    let _ = set_socket_keepalive(&socket, true)
        .and_then(|()| set_tcp_keepidle(&socket, KEEPALIVE_IDLE))
        .and_then(|()| set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL))
        .and_then(|()| set_tcp_keepcnt(&socket, KEEPALIVE_PROBES))
        .and_then(|()| set_tcp_user_timeout(&socket, UNACKNOWLEDGED_MAX_MS));
    Ok((socket, beyond))
}

/// Drops a connection that is not used. Its other end sees a reset, and no end of the stream.
#[cfg(any(test, feature = "hosts"))]
pub(crate) fn drop_unused(end: PeerEnd) {
    abandon(&end);
}

fn abandon(socket: &OwnedFd) {
    // An error means that the connection has ended already.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}

/// Gives an end to a reactor. [`PeerSource::begin`] begins to watch it.
pub(crate) fn register(end: PeerEnd, reactor: &Handle) -> io::Result<(PeerSource, PeerSocket)> {
    let socket = Arc::new(end);
    let source = source(Arc::clone(&socket), reactor);
    if source.is_err() {
        // Else a peer over a network would take this process for dead.
        abandon(&socket);
    }
    Ok((source?, PeerSocket(socket)))
}

fn source(socket: Arc<OwnedFd>, reactor: &Handle) -> io::Result<PeerSource> {
    let arrivals = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    let _context = reactor.enter();
    Ok(PeerSource {
        watched: watch(Arc::clone(&arrivals), Interest::READABLE)?,
        arrivals,
        room: None,
        socket,
    })
}

/// An end. Any thread may write, and one at a time reads; neither blocks.
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

    /// Reads what is there. 0 is the end of the stream.
    pub(crate) fn try_read(&self, into: ReadInto<'_>) -> io::Result<usize> {
        let room = into.memory.spare_capacity_mut();
        let room = room.get_mut(..into.most).ok_or(io::ErrorKind::InvalidInput)?;
        let ((read, _), _) = recv(&self.0, room, RecvFlags::DONTWAIT)?;
        let (read, length) = (read.len(), into.memory.len());
        // SAFETY: the kernel has written so many bytes behind the vector's own, within its capacity.
        unsafe { into.memory.set_len(length + read) };
        Ok(read)
    }

    /// Ends what [`PeerSource::begin`] has begun for the thread that leads.
    pub(crate) fn leave(&self, lead: &LeadPoll) {
        lead.remove(&self.0);
    }

    /// Has the other end see a reset, and no end of the stream, once the last owner of the socket drops it.
    pub(crate) fn abandon(&self) {
        abandon(&self.0);
    }

    /// Whether the connection was reset, which a read tells only once, and to one thread: later ones find the end of the stream.
    pub(crate) fn is_reset(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let found = poll(&mut polled, Some(&now));
        found.is_ok() && polled.iter().any(|it| it.revents().contains(PollFlags::HUP))
    }

    /// Resets the connection, which must be one of TCP.
    #[cfg(test)]
    pub(crate) fn reset(&self) -> io::Result<()> {
        Ok(rustix::net::connect_unspec(&self.0)?)
    }

    /// Ends both directions, which the other end sees as the end of the stream.
    pub(crate) fn close(&self) {
        // An error means that the other end is closed already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

/// The memory to read into: behind what the vector holds, and within its capacity.
pub(crate) struct ReadInto<'a> {
    pub(crate) memory: &'a mut Vec<u8>,
    /// The number of bytes to read at most.
    pub(crate) most: usize,
}

/// The events of an end, for one task.
///
/// The reactor watches for room only while somebody waits for it: otherwise each message that the peer reads, which makes
/// room, would wake the reactor.
pub(crate) struct PeerSource {
    socket: Arc<OwnedFd>,
    /// Has the socket as its only entry.
    arrivals: Arc<OwnedFd>,
    watched: Watched,
    room: Option<Watched>,
}

/// An event of an end.
pub(crate) enum SourceEvent {
    /// Bytes, perhaps.
    Bytes,
    /// Room to write, perhaps.
    Room,
}

impl PeerSource {
    /// Begins to watch for bytes. They are reported to the thread that leads, under this name, and only while none does, to
    /// the reactor.
    ///
    /// Linux passes an event on through the exclusive entries of a socket in the order in which they were made, up to the
    /// first one at which a thread waits.
    pub(crate) fn begin(&self, lead: &LeadPoll, name: u64) -> io::Result<()> {
        lead.add(&self.socket, name)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(
            &self.arrivals,
            &self.socket,
            epoll::EventData::new_u64(name),
            flags,
        )?;
        Ok(())
    }

    /// Waits for bytes, or for room if that is wanted. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self, for_room: bool) -> io::Result<SourceEvent> {
        if !for_room {
            self.room = None;
        } else if self.room.is_none() {
            self.room = Some(watch(Arc::clone(&self.socket), Interest::WRITABLE)?);
        }
        let room = async {
            match &self.room {
                Some(room) => room.ready(Interest::WRITABLE).await,
                None => pending().await,
            }
        };
        // Cleared before the bytes are read or written, so that the next ones are an event again.
        tokio::select! {
            ready = self.watched.ready(Interest::READABLE) => {
                ready?.clear_ready();
                Ok(SourceEvent::Bytes)
            }
            ready = room => {
                ready?.clear_ready();
                Ok(SourceEvent::Room)
            }
        }
    }
}
