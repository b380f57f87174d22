//! How a link is read, by whoever has the turn: the thread that leads, or the link's task.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_cluster::frame::{Class, Decoder, Frame, FrameLimits, Joiner, Service};

use super::lead::{LedLink, LinkLook};
use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::post::Letter;
use super::read_turn::{AfterTurn, ReadTurn};
use super::services::Services;
use super::settings::LinkSettings;
use super::wire::ArrivedFrame;
use crate::body::{BodyMemory, BodyRoom};
use crate::failure::panic_message;
use crate::platform::lead_poll::LeadPoll;
use crate::platform::peer_socket::{PeerSocket, ReadInto};

/// The bytes of one read, unless it goes straight into a body that lacks more.
const READ_BYTES: usize = 64 << 10;

/// The number of reads at the end of a link: more than a socket or a ring holds.
const LAST_READS_MAX: usize = 1024;

/// The number of reads in a row by the thread that leads: those of a long body.
const READS_MAX: usize = 4096;

/// The reader of a link, shared by all threads that may have the turn.
pub(super) struct PeerReader {
    link: Arc<PeerLink>,
    socket: Arc<PeerSocket>,
    services: Arc<Services>,
    turn: Mutex<ReadTurn>,
    /// Locked by whoever has the turn, so nobody waits for this lock.
    reading: Mutex<ReadState>,
}

struct ReadState {
    settings: FrameLimits,
    decoder: Decoder<BodyMemory>,
    joiner: Joiner<BodyMemory>,
    /// The bytes of the last read, unless it went straight into a body.
    buffer: Vec<u8>,
    /// Whether the buffer has bytes that come before those of the socket.
    is_begun: bool,
    /// Whether a read has failed. What follows is not read, because some bytes before it were dropped.
    is_broken: bool,
}

/// The result of one read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum ReadResult {
    /// No bytes are left, and the stream goes on.
    Nothing,
    /// Fewer bytes than could be read. No more are left, but the end of the stream may be.
    Some,
    /// All the bytes that could be read.
    Full,
}

impl PeerReader {
    /// The reader of a link. `beyond` are bytes of the stream that were read before.
    pub(super) fn new(
        link: Arc<PeerLink>,
        socket: Arc<PeerSocket>,
        services: Arc<Services>,
        settings: LinkSettings,
        beyond: Vec<u8>,
    ) -> Arc<Self> {
        let is_begun = !beyond.is_empty();
        let joiner = link.take_joiner();
        let reader = PeerReader {
            link,
            socket,
            services,
            turn: Mutex::default(),
            reading: Mutex::new(ReadState {
                settings: settings.frame(),
                decoder: Decoder::new(settings.frame()),
                joiner: joiner.unwrap_or_else(|| Joiner::new(settings.body_bytes_max)),
                buffer: beyond,
                is_begun,
                is_broken: false,
            }),
        };
        if is_begun {
            // The socket may have no event for the bytes that are here.
            reader.leave();
        }
        Arc::new(reader)
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

    /// Ends the turn, and leaves what may be there to the link's task.
    pub(super) fn leave(&self) {
        self.turn.lock().leave();
        self.link.wake();
    }

    /// Whether bytes were left to the link's task.
    pub(super) fn take_left(&self) -> bool {
        self.turn.lock().take_left()
    }

    /// Begins the last turn, for the link's task. `false` if another thread has a turn, which wakes the task at its end.
    pub(super) fn begin_last(&self) -> bool {
        self.turn.lock().begin_last()
    }

    /// Reads once, within the turn.
    pub(super) fn read(&self) -> ReadResult {
        let read = caught(|| {
            let found = self.deliver()?;
            // A socket at which there is nothing tells of no room either.
            let is_idle = found == ReadResult::Nothing && !self.socket.has_rings();
            Ok((found, is_idle || self.link.delivered()))
        });
        match read {
            Ok((found, true)) => return found,
            Ok((_, false)) => {}
            Err(end) => drop(self.link.close(end)),
        }
        // From now on only the link's task reads.
        self.turn.lock().begin_last();
        ReadResult::Nothing
    }

    /// Delivers what the peer has sent before the end. Returns the fault of the peer or of a service that this reveals, which is
    /// a worse end than that of the connection.
    pub(super) fn drain(&self) -> Option<LinkEnd> {
        for _ in 0..LAST_READS_MAX {
            if self.reading.lock().is_broken {
                return None;
            }
            match self.deliver() {
                Ok(ReadResult::Nothing) => return None,
                Ok(_) => {}
                Err(end) => return Some(end).filter(|end| !end.drains()),
            }
        }
        None
    }

    /// Leaves the message that is unfinished to the reader of the link's next connection.
    pub(super) fn hand_over(&self) {
        let mut reading = self.reading.lock();
        let ReadState {
            settings,
            decoder,
            joiner,
            ..
        } = &mut *reading;
        let decoder = std::mem::replace(decoder, Decoder::new(*settings));
        let mut joiner = std::mem::replace(joiner, Joiner::new(0));
        joiner.interrupted(decoder.into_part());
        self.link.keep(joiner);
    }

    /// Reads once, and delivers the letters.
    fn deliver(&self) -> Result<ReadResult, LinkEnd> {
        let mut reading = self.reading.lock();
        let found = caught(|| self.deliver_from(&mut reading));
        reading.is_broken |= found.is_err();
        found
    }

    fn deliver_from(&self, reading: &mut ReadState) -> Result<ReadResult, LinkEnd> {
        if std::mem::take(&mut reading.is_begun) {
            self.decode(reading)?;
            return Ok(ReadResult::Full);
        }
        let ReadState { decoder, buffer, .. } = reading;
        let (most, read) = self.read_some(decoder, buffer);
        let read = match read {
            Ok(0) if self.link.is_resumable() && self.socket.is_reset() => return Err(LinkEnd::Reset),
            Ok(0) => return Err(LinkEnd::Closed),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(ReadResult::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(ReadResult::Full),
            Err(error) => return Err(error.into()),
        };
        if buffer.is_empty() {
            if let Some((body, _)) = decoder.part() {
                body.filled(read);
            }
            decoder.filled(read);
        }
        self.decode(reading)?;
        Ok(match read == most {
            true => ReadResult::Full,
            false => ReadResult::Some,
        })
    }

    /// Reads into the body that is being read if it lacks much, or else into the buffer, which is empty before in both cases. Returns the
    /// number of bytes that were wanted, and of those that were read.
    fn read_some(
        &self,
        decoder: &mut Decoder<BodyMemory>,
        buffer: &mut Vec<u8>,
    ) -> (usize, io::Result<usize>) {
        buffer.clear();
        let body = decoder.part().filter(|(_, most)| *most >= READ_BYTES);
        let (memory, most) = match body.map(|(body, most)| (body.room(), most)) {
            Some((BodyRoom::Vector(memory), most)) => (memory, most),
            Some((BodyRoom::Slice(room), most)) => {
                // A body has room for all of its bytes.
                let room = room.get_mut(..most).ok_or(ErrorKind::InvalidInput.into());
                return (most, room.and_then(|room| self.socket.try_fill(room)));
            }
            None => {
                buffer.reserve(READ_BYTES);
                (buffer, READ_BYTES)
            }
        };
        (most, self.socket.try_read(ReadInto { memory, most }))
    }

    /// The memory that the receiver of a long body lends for it. A ring is read into memory of the process.
    fn lent(&self, service: Service, head: &[u8], bytes: usize) -> Option<BodyMemory> {
        if self.socket.has_rings() {
            return None;
        }
        let lent = self.services.lend(self.link.peer(), service, head, bytes);
        // Another length would be a bug of the service.
        let lent = lent.filter(|lent| lent.bytes().len() == bytes);
        lent.map(BodyMemory::lent)
    }

    /// Decodes the bytes of the buffer, or of the body that was read into, and delivers the letters.
    fn decode(&self, reading: &mut ReadState) -> Result<(), LinkEnd> {
        let ReadState {
            decoder,
            joiner,
            buffer,
            ..
        } = reading;
        let mut bytes = buffer.as_slice();
        let now = self.link.now();
        loop {
            let lend = |service, head: &[u8], bytes| self.lent(service, head, bytes);
            let place = |frame: &Frame<BodyMemory>, bytes| joiner.place(frame, bytes, lend);
            let Some(mut frame) = decoder.decode_with(&mut bytes, place)? else {
                return Ok(());
            };
            let body_bytes = joiner.store(&mut frame);
            for letter in self.link.arrived(now, ArrivedFrame::new(frame, body_bytes))? {
                let letter = Arc::try_unwrap(letter).unwrap_or_else(|letter| Letter::clone(&letter));
                if let Some(letter) = joined(joiner, letter)? {
                    self.services.deliver(self.link.peer(), letter)?;
                }
            }
        }
    }
}

impl LedLink for PeerReader {
    fn read_on(&self, goes_on: &dyn Fn() -> bool) {
        if !self.begin() {
            return;
        }
        let mut is_enough = ReadResult::Some;
        // A peer that writes as fast as this thread reads does not keep it from the other links.
        for _ in 0..READS_MAX {
            if self.read() <= is_enough {
                if !self.end() {
                    return;
                }
                // Another thread was told, perhaps of the end of the stream.
                is_enough = ReadResult::Nothing;
            }
            if !goes_on() {
                break;
            }
        }
        self.leave();
    }

    fn leave(&self, poll: &LeadPoll) {
        self.socket.leave(poll);
    }

    fn is_watchable(&self) -> bool {
        self.socket.has_rings()
    }

    fn look(&self) -> LinkLook {
        // Those of a link that another thread reads are not for the leader.
        if self.socket.has_rings() {
            return match self.socket.has_bytes() && self.turn.lock().is_free() {
                true => LinkLook::Bytes,
                false => LinkLook::Nothing,
            };
        }
        let mut turn = self.turn.lock();
        if !(turn.is_free() && turn.take()) {
            return LinkLook::Nothing;
        }
        drop(turn);
        let found = self.read();
        if self.end() {
            // Another thread was told, perhaps of the end of the stream.
            self.leave();
        }
        match found {
            ReadResult::Nothing => LinkLook::Nothing,
            ReadResult::Some | ReadResult::Full => LinkLook::Read,
        }
    }

    fn watch(&self) {
        self.socket.watch();
    }

    fn unwatch(&self) -> bool {
        match self.socket.unwatch() {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                // Else the link would be deaf. The link's task delivers what is there, and the link goes on over another connection,
                // or ends.
                self.link.close(error.into());
                return false;
            }
        }
        let mut turn = self.turn.lock();
        let is_free = turn.is_free();
        if !is_free {
            // Whoever has the turn looks again.
            turn.take();
        }
        is_free
    }

    fn leave_rest(&self) {
        // Whoever has the turn looks again.
        if self.begin() {
            PeerReader::leave(self);
        }
    }
}

/// Reads something. A panic is a bug; it ends the link, and not the thread that has the turn.
fn caught<T>(read: impl FnOnce() -> Result<T, LinkEnd>) -> Result<T, LinkEnd> {
    // Unwind safe: after a panic nothing is read any more.
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|payload| Err(LinkEnd::Failed(panic_message(payload))))
}

/// The letter of a frame that is delivered in its order; `None` for a chunk with others behind it.
fn joined(joiner: &mut Joiner<BodyMemory>, letter: Letter) -> Result<Option<Letter>, LinkEnd> {
    match letter.class {
        Class::Loose | Class::Acknowledgement => Ok(Some(letter)),
        Class::Ordered => {
            joiner.delivered();
            Ok(Some(letter))
        }
        Class::Chunk => {
            let message = joiner.join(letter.service, &letter.head, &letter.body.to_bytes())?;
            Ok(message.map(|message| Letter {
                class: Class::Ordered,
                head: message.head.into(),
                body: Bytes::from(message.body).into(),
                ..letter
            }))
        }
    }
}
