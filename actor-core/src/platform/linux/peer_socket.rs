//! The sockets between two processes that are peers, each end watched by a reactor in its process: a connection over a network, or
//! a pair of Unix sockets with [byte rings](super::peer_rings) beside it.
#![allow(unsafe_code)] // counts the bytes that the kernel has written into a vector

#[cfg(feature = "hosts")]
use std::any::Any;
use std::future::pending;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::sockopt::set_socket_linger;
#[cfg(feature = "hosts")]
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown};
#[cfg(feature = "hosts")]
use selvedge_cluster::net::{Carried, Halves, StreamSocket};
use tokio::io::Interest;
#[cfg(feature = "hosts")]
use tokio::net::{TcpStream, tcp::OwnedReadHalf};
use tokio::runtime::Handle;

use super::lead_poll::LeadPoll;
use super::muting::{Muting, watch_arrivals};
use super::peer_rings::{PeerRings, RINGS_DESCRIPTORS, RingsEnd};
use super::watched::{Watched, watch};

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

/// The number of descriptors of an end of a pair.
pub(crate) const PAIR_DESCRIPTORS: usize = 1 + RINGS_DESCRIPTORS;

/// An end that no reactor watches yet: one of a pair, or of a connection over a network.
pub(crate) struct PeerEnd {
    socket: OwnedFd,
    /// Carry the bytes of a pair, instead of the socket.
    rings: Option<RingsEnd>,
    /// The way to abandon a stream that is no socket, and that a task carries to this one.
    #[cfg(feature = "hosts")]
    carried: Option<Carried>,
}

impl PeerEnd {
    fn new(socket: impl Into<OwnedFd>, rings: Option<RingsEnd>) -> Self {
        PeerEnd {
            socket: socket.into(),
            rings,
            #[cfg(feature = "hosts")]
            carried: None,
        }
    }

    /// The end of a connection over a network.
    #[cfg(any(test, feature = "hosts"))]
    pub(crate) fn of_socket(socket: impl Into<OwnedFd>) -> Self {
        PeerEnd::new(socket, None)
    }

    /// The end, to read and to write.
    fn open(self) -> io::Result<PeerSocket> {
        Ok(PeerSocket {
            socket: Arc::new(self.socket),
            rings: self.rings.map(PeerRings::new).transpose()?.map(Arc::new),
            muting: None,
            #[cfg(feature = "hosts")]
            carried: self.carried,
        })
    }

    /// The end without a reactor, and the descriptors that tell of its events.
    #[cfg(test)]
    pub(crate) fn unwatched(self) -> io::Result<(PeerSocket, Vec<Arc<OwnedFd>>)> {
        let socket = self.open()?;
        let bell = socket.rings.iter().map(|rings| Arc::clone(rings.own_bell()));
        let events = bell.chain([Arc::clone(&socket.socket)]).collect();
        Ok((socket, events))
    }

    /// The descriptors by which another process gets the end.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let rings = self.rings.iter().flat_map(RingsEnd::descriptors);
        std::iter::once(self.socket.as_fd()).chain(rings).collect()
    }

    /// The end of a pair whose descriptors another process has passed; `None` if some are missing.
    pub(crate) fn of_pair(descriptors: Vec<OwnedFd>) -> Option<Self> {
        let [socket, rings @ ..]: [OwnedFd; PAIR_DESCRIPTORS] = descriptors.try_into().ok()?;
        Some(PeerEnd::new(socket, Some(RingsEnd::of(rings))))
    }
}

/// Makes a pair of connected ends. A process that is executed later inherits neither.
pub(crate) fn pair() -> io::Result<(PeerEnd, PeerEnd)> {
    let (one, other) = UnixStream::pair()?;
    let (first, second) = RingsEnd::pair()?;
    Ok((PeerEnd::new(one, Some(first)), PeerEnd::new(other, Some(second))))
}

/// The socket of a link over a network, and the bytes that come before those of the socket.
#[cfg(feature = "hosts")]
pub(crate) fn of_link(link: selvedge_cluster::net::Link) -> io::Result<(PeerEnd, Vec<u8>)> {
    let (StreamSocket { descriptor, carried }, beyond) = link.into_socket()?;
    let end = PeerEnd {
        carried,
        ..PeerEnd::of_socket(descriptor)
    };
    Ok((end, beyond))
}

/// Has the system ask whether the connection under a stream still stands.
#[cfg(feature = "hosts")]
pub(crate) fn watch_over(halves: &Halves) {
    let reader: &dyn Any = &*halves.reader;
    let Some(half) = reader.downcast_ref::<OwnedReadHalf>() else {
        return;
    };
    let socket: &TcpStream = half.as_ref();
    // An error means that the connection has ended already.
    let _ = set_socket_keepalive(socket, true)
        .and_then(|()| set_tcp_keepidle(socket, KEEPALIVE_IDLE))
        .and_then(|()| set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL))
        .and_then(|()| set_tcp_keepcnt(socket, KEEPALIVE_PROBES))
        .and_then(|()| set_tcp_user_timeout(socket, UNACKNOWLEDGED_MAX_MS));
}

/// Drops a connection that is not used. Its other end sees a reset, and no end of the stream.
#[cfg(any(test, feature = "hosts"))]
pub(crate) fn drop_unused(end: PeerEnd) {
    #[cfg(feature = "hosts")]
    end.carried.iter().for_each(Carried::abandon);
    abandon(&end.socket);
}

fn abandon(socket: &OwnedFd) {
    // An error means that the connection has ended already.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}

/// Gives an end to a reactor. [`PeerSource::begin`] begins to watch it.
pub(crate) fn register(end: PeerEnd, reactor: &Handle) -> io::Result<(PeerSource, PeerSocket)> {
    let mut socket = end.open()?;
    let source = source(Arc::clone(&socket.socket), socket.rings.clone(), reactor);
    if source.is_err() {
        // Else a peer over a network would take this process for dead.
        socket.abandon();
    }
    let source = source?;
    socket.muting = match &socket.rings {
        Some(_) => None,
        None => Some(Muting::new(
            Arc::clone(&socket.socket),
            Arc::clone(&source.arrivals),
        )),
    };
    Ok((source, socket))
}

fn source(socket: Arc<OwnedFd>, rings: Option<Arc<PeerRings>>, reactor: &Handle) -> io::Result<PeerSource> {
    let arrivals = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    let _context = reactor.enter();
    Ok(PeerSource {
        watched: watch(Arc::clone(&arrivals), Interest::READABLE)?,
        arrivals,
        room: None,
        socket,
        rings,
    })
}

/// An end. Any thread may write, and one at a time reads; neither blocks.
pub(crate) struct PeerSocket {
    socket: Arc<OwnedFd>,
    /// Carry the bytes, instead of the socket.
    rings: Option<Arc<PeerRings>>,
    /// Set without rings, if a reactor watches.
    muting: Option<Muting>,
    #[cfg(feature = "hosts")]
    carried: Option<Carried>,
}

impl PeerSocket {
    /// Writes as much of the slices as there is room for. A closed end is an error and never a signal, whatever the
    /// program has decided about SIGPIPE.
    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(rings) = &self.rings {
            return rings.try_write(slices);
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if let [slice] = slices {
            return Ok(send(&self.socket, slice, flags)?);
        }
        let mut space: [MaybeUninit<u8>; 0] = [];
        let mut nothing = SendAncillaryBuffer::new(&mut space);
        Ok(sendmsg(&self.socket, slices, &mut nothing, flags)?)
    }

    /// Reads what is there. 0 is the end of the stream.
    pub(crate) fn try_read(&self, mut into: ReadInto<'_>) -> io::Result<usize> {
        let Some(rings) = &self.rings else {
            return self.receive(into);
        };
        let read = rings.try_read(&mut into)?;
        if read > 0 {
            return Ok(read);
        }
        // A peer that has ended has written everything before, so the rings are looked at once more.
        match self.is_ended()? {
            true => rings.try_read(&mut into),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Whether the peer has ended its side of a socket that carries no bytes.
    fn is_ended(&self) -> io::Result<bool> {
        let mut byte = Vec::with_capacity(1);
        let into = ReadInto {
            memory: &mut byte,
            most: 1,
        };
        match self.receive(into) {
            Ok(0) => Ok(true),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads from the socket.
    fn receive(&self, into: ReadInto<'_>) -> io::Result<usize> {
        let room = into.memory.spare_capacity_mut();
        let room = room.get_mut(..into.most).ok_or(io::ErrorKind::InvalidInput)?;
        let ((read, _), _) = recv(&self.socket, room, RecvFlags::DONTWAIT)?;
        let (read, length) = (read.len(), into.memory.len());
        // SAFETY: the kernel has written so many bytes behind the vector's own, within its capacity.
        unsafe { into.memory.set_len(length + read) };
        Ok(read)
    }

    /// Reads what is there into a slice. 0 is the end of the stream. Only for an end [without rings](Self::has_rings).
    pub(crate) fn try_fill(&self, slice: &mut [u8]) -> io::Result<usize> {
        let (read, _) = recv(&self.socket, slice, RecvFlags::DONTWAIT)?;
        Ok(read)
    }

    /// Ends what [`PeerSource::begin`] has begun for the thread that leads.
    pub(crate) fn leave(&self, lead: &LeadPoll) {
        lead.remove(&self.socket);
        if let Some(rings) = &self.rings {
            lead.remove(rings.own_bell());
        }
    }

    /// Whether there is room in rings to write. If not, the peer tells this end when there is.
    pub(crate) fn has_room(&self) -> bool {
        self.rings.as_ref().is_some_and(|rings| rings.has_room())
    }

    /// Whether bytes can be seen without the system.
    pub(crate) fn has_rings(&self) -> bool {
        self.rings.is_some()
    }

    /// Whether bytes in rings are seen to wait.
    pub(crate) fn has_bytes(&self) -> bool {
        self.rings.as_ref().is_some_and(|rings| rings.has_bytes())
    }

    /// The calling thread looks for bytes from now on, so nobody is told of them.
    pub(crate) fn watch(&self) {
        match (&self.rings, &self.muting) {
            (Some(rings), _) => rings.watch(),
            (None, Some(muting)) => muting.begin(),
            (None, None) => {}
        }
    }

    /// The calling thread looks no more. Returns whether there are bytes of which nobody is told.
    ///
    /// # Errors
    /// The system refuses to watch any more, so nobody is told of bytes from now on.
    pub(crate) fn unwatch(&self) -> io::Result<bool> {
        match (&self.rings, &self.muting) {
            (Some(rings), _) => Ok(rings.unwatch()),
            // The reactor is told of bytes that are there already.
            (None, Some(muting)) => muting.end().map(|()| false),
            (None, None) => Ok(false),
        }
    }

    /// Has the other end see a reset, and no end of the stream, once the last owner of the socket drops it.
    pub(crate) fn abandon(&self) {
        #[cfg(feature = "hosts")]
        self.carried.iter().for_each(Carried::abandon);
        abandon(&self.socket);
    }

    /// Whether the connection was reset, which a read tells only once, and to one thread: later ones find the end of the stream.
    pub(crate) fn is_reset(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
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
        Ok(rustix::net::connect_unspec(&self.socket)?)
    }

    /// Ends both directions, which the other end sees as the end of the stream.
    pub(crate) fn close(&self) {
        // An error means that the other end is closed already.
        let _ = shutdown(&self.socket, Shutdown::Both);
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
    rings: Option<Arc<PeerRings>>,
    /// Has the socket as its entry, and the bell of the rings.
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
        watch_arrivals(&self.arrivals, &self.socket)?;
        if let Some(rings) = &self.rings {
            lead.add(rings.own_bell(), name)?;
            // By edges: nobody reads the bell's count.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE | epoll::EventFlags::ET;
            let named = epoll::EventData::new_u64(name);
            epoll::add(&self.arrivals, rings.own_bell(), named, flags)?;
            rings.begin();
        }
        Ok(())
    }

    /// Waits for bytes, or for room if that is wanted. Room in rings is told as bytes are. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self, for_room: bool) -> io::Result<SourceEvent> {
        // Of room in rings the bell tells, as of bytes.
        if !for_room || self.rings.is_some() {
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
