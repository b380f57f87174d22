//! An end of a pair that the test reads and writes itself.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::TIMEOUT;
use crate::platform::peer_socket::{PeerEnd, PeerSocket, ReadInto};

/// An end of a pair. Reads and writes block, for a limited time.
pub(super) struct RawEnd {
    socket: PeerSocket,
    events: Vec<Arc<OwnedFd>>,
}

impl RawEnd {
    pub(super) fn new(end: PeerEnd) -> Self {
        let (socket, events) = end.unwatched().unwrap();
        RawEnd { socket, events }
    }

    /// Waits for an event.
    fn wait(&self) -> io::Result<()> {
        let mut polled: Vec<_> = self
            .events
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        let limit = Timespec::try_from(TIMEOUT).unwrap();
        if poll(&mut polled, Some(&limit))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let bell = self.events.first().filter(|_| self.events.len() > 1);
        // The count of the bell begins anew.
        let _ = bell.map(|bell| rustix::io::read(bell, &mut [0_u8; 8]));
        Ok(())
    }

    fn until_done(&self, mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                done => return done,
            }
        }
    }
}

impl Read for RawEnd {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len();
        let mut memory = Vec::with_capacity(most);
        let read = self.until_done(|| {
            self.socket.try_read(ReadInto {
                memory: &mut memory,
                most,
            })
        })?;
        into[..read].copy_from_slice(&memory[..read]);
        Ok(read)
    }
}

impl Write for RawEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.until_done(|| self.socket.try_write(&[IoSlice::new(bytes)]))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
