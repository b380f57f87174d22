//! How a link is read, by whoever has the turn: the thread that leads, or the link's task.

use std::io::ErrorKind;
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_cluster::frame::{Decoder, FrameLimits};

use super::lead::LedLink;
use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::post::Letter;
use super::read_turn::{AfterTurn, ReadTurn};
use super::services::Services;
use crate::platform::lead_poll::LeadPoll;

/// The bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// The number of reads at the end of a link: more than a socket holds.
const LAST_READS_MAX: usize = 1024;

/// The reader of a link, shared by all threads that may have the turn.
pub(super) struct PeerReader {
    link: Arc<PeerLink>,
    services: Arc<Services>,
    turn: Mutex<ReadTurn>,
    /// Locked by whoever has the turn, so nobody waits for this lock.
    reading: Mutex<ReadState>,
}

struct ReadState {
    decoder: Decoder,
    buffer: Vec<u8>,
}

/// The result of one read.
#[derive(PartialEq, Eq)]
enum ReadResult {
    Nothing,
    /// Bytes, and no more are there.
    All,
    /// Bytes, and the buffer is full.
    Full,
}

impl PeerReader {
    pub(super) fn new(link: Arc<PeerLink>, services: Arc<Services>, limits: FrameLimits) -> Arc<Self> {
        Arc::new(PeerReader {
            link,
            services,
            turn: Mutex::default(),
            reading: Mutex::new(ReadState {
                decoder: Decoder::new(limits),
                buffer: vec![0; READ_BYTES],
            }),
        })
    }

    pub(super) fn link(&self) -> &Arc<PeerLink> {
        &self.link
    }

    /// Takes the turn; `false` if another thread has it, which then looks again.
    pub(super) fn begin(&self) -> bool {
        self.turn.lock().take()
    }

    /// Ends the turn; returns whether it goes on, because bytes have arrived meanwhile.
    pub(super) fn end(&self) -> bool {
        let after = self.turn.lock().end();
        if after == AfterTurn::Wake {
            self.link.wake();
        }
        after == AfterTurn::Again
    }

    /// Whether bytes were left to the link's task.
    pub(super) fn take_left(&self) -> bool {
        self.turn.lock().take_left()
    }

    /// Begins the last turn, for the link's task. `false` if another thread has a turn, which wakes the task at its end.
    pub(super) fn begin_last(&self) -> bool {
        self.turn.lock().begin_last()
    }

    /// Reads once, within the turn. Returns whether there may be more.
    pub(super) fn read(&self) -> bool {
        match self.deliver() {
            Ok(found) if self.link.delivered() => return found == ReadResult::Full,
            Ok(_) => {}
            Err(end) => drop(self.link.close(end)),
        }
        // From now on only the link's task reads.
        self.turn.lock().begin_last();
        false
    }

    /// Delivers what the peer has sent before the end.
    pub(super) fn drain(&self) {
        for _ in 0..LAST_READS_MAX {
            if matches!(self.deliver(), Ok(ReadResult::Nothing) | Err(_)) {
                return;
            }
        }
    }

    /// Reads once, and delivers the letters.
    fn deliver(&self) -> Result<ReadResult, LinkEnd> {
        let mut reading = self.reading.lock();
        let ReadState { decoder, buffer } = &mut *reading;
        let read = match self.link.read(buffer) {
            Ok(0) => return Err(LinkEnd::Closed),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(ReadResult::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(ReadResult::Full),
            Err(error) => return Err(error.into()),
        };
        let found = if read == buffer.len() {
            ReadResult::Full
        } else {
            ReadResult::All
        };
        let mut bytes = buffer.get(..read).unwrap_or_default();
        while let Some(frame) = decoder.decode(&mut bytes)? {
            for letter in self.link.arrived(frame)? {
                let letter = Arc::try_unwrap(letter).unwrap_or_else(|letter| Letter::clone(&letter));
                self.services.deliver(self.link.peer(), letter)?;
            }
        }
        Ok(found)
    }
}

impl LedLink for PeerReader {
    fn read_on(&self, goes_on: &dyn Fn() -> bool) {
        if !self.begin() {
            return;
        }
        loop {
            if !self.read() {
                if !self.end() {
                    return;
                }
            } else if !goes_on() {
                self.turn.lock().leave();
                return self.link.wake();
            }
        }
    }

    fn leave(&self, poll: &LeadPoll) {
        self.link.leave(poll);
    }
}
