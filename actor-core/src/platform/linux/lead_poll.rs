//! The wait of the one thread that leads: for the bytes of all links, and for a call by other threads.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::{Errno, write};

/// The sockets and bells that one wait reports at most.
pub(crate) const ARRIVALS_MAX: usize = 16;

/// The longest wait; whoever waits longer waits again.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The name of the bell among those of the sockets.
const BELL: u64 = 0;

/// The wait of the thread that leads.
pub(crate) struct LeadPoll {
    epoll: OwnedFd,
    bell: OwnedFd,
}

impl LeadPoll {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // By edges: each ring is an event, and nobody reads the count.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), flags)?;
        Ok(LeadPoll { epoll, bell })
    }

    /// Reports arrivals at a socket under this name, which is not 0.
    pub(super) fn add(&self, socket: &OwnedFd, name: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(name), flags)?;
        Ok(())
    }

    /// Reports no more arrivals at a socket.
    pub(super) fn remove(&self, socket: &OwnedFd) {
        // An error means that it was never added.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Ends the present wait, or the next one.
    pub(crate) fn ring(&self) {
        // The count has room for 2^64 - 2 rings.
        let _ = write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Waits until bytes arrive, the bell rings, or the time is over, and passes the names of the sockets to `arrived`.
    /// Returns whether there may be more.
    pub(crate) fn wait(&self, timeout: Option<Duration>, mut arrived: impl FnMut(u64)) -> io::Result<bool> {
        let mut timeout = timeout.and_then(|timeout| Timespec::try_from(timeout.min(WAIT_MAX)).ok());
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); ARRIVALS_MAX];
        let (events, rest) = loop {
            match epoll::wait(&self.epoll, &mut space, timeout.as_ref()) {
                Ok(found) => break found,
                // A signal may come together with an event that nobody else is told of.
                Err(Errno::INTR) => timeout = Some(Timespec::default()),
                Err(error) => return Err(error.into()),
            }
        };
        let names = events.iter().map(|event| event.data.u64());
        names.filter(|name| *name != BELL).for_each(&mut arrived);
        Ok(rest.is_empty())
    }
}
