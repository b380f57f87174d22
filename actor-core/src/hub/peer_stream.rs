//! The stream of a link, as whoever has the turn reads it: bytes, frames, letters.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_cluster::frame::{Class, Decoder, Frame, FrameLimits, Joiner, Service};

use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::post::Letter;
use super::read_turn::ReadResult;
use super::services::Services;
use super::settings::LinkSettings;
use super::turn_reader::{TurnReader, TurnStream};
use super::wire::ArrivedFrame;
use crate::body::{BodyMemory, BodyRoom};
use crate::failure::panic_message;
use crate::platform::lead_poll::LeadPoll;
use crate::platform::peer_socket::{PeerSocket, ReadInto};

/// The bytes of one read, unless it goes straight into a body that lacks more.
const READ_BYTES: usize = 64 << 10;

/// The number of reads at the end of a link: more than a socket or a ring holds.
const LAST_READS_MAX: usize = 1024;

/// The stream of a link with the turn to read it.
pub(super) type PeerReader = TurnReader<PeerStream>;

/// The stream of a link.
pub(super) struct PeerStream {
    link: Arc<PeerLink>,
    socket: Arc<PeerSocket>,
    services: Arc<Services>,
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

impl PeerStream {
    /// The stream of a link, in turns. `beyond` are bytes of it that were read before.
    pub(super) fn in_turns(
        link: Arc<PeerLink>,
        socket: Arc<PeerSocket>,
        services: Arc<Services>,
        settings: LinkSettings,
        beyond: Vec<u8>,
    ) -> Arc<PeerReader> {
        let is_begun = !beyond.is_empty();
        let joiner = link.take_joiner();
        let stream = PeerStream {
            link,
            socket,
            services,
            reading: Mutex::new(ReadState {
                settings: settings.frame(),
                decoder: Decoder::new(settings.frame()),
                joiner: joiner.unwrap_or_else(|| Joiner::new(settings.body_bytes_max)),
                buffer: beyond,
                is_begun,
                is_broken: false,
            }),
        };
        let reader = TurnReader::new(stream);
        if is_begun {
            // The socket may have no event for the bytes that are here.
            reader.leave();
        }
        Arc::new(reader)
    }

    pub(super) fn link(&self) -> &Arc<PeerLink> {
        &self.link
    }

    /// Delivers what the peer has sent before the end. Returns the fault of the peer or of a service that this reveals, which is
    /// a worse end than that of the connection.
    pub(super) fn drain(&self) -> Option<LinkEnd> {
        for _ in 0..LAST_READS_MAX {
            if self.reading.lock().is_broken {
                return None;
            }
            match self.deliver() {
                Ok((ReadResult::Nothing, _)) => return None,
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

    /// Reads once, and delivers the letters. If the link may have something to do after that, returns when it was, too.
    fn deliver(&self) -> Result<(ReadResult, Option<Duration>), LinkEnd> {
        let mut reading = self.reading.lock();
        let found = caught(|| self.deliver_from(&mut reading));
        reading.is_broken |= found.is_err();
        found
    }

    fn deliver_from(&self, reading: &mut ReadState) -> Result<(ReadResult, Option<Duration>), LinkEnd> {
        if std::mem::take(&mut reading.is_begun) {
            return Ok((ReadResult::Full, self.decode(reading)?));
        }
        let ReadState { decoder, buffer, .. } = reading;
        let (most, read) = self.read_some(decoder, buffer);
        let read = match read {
            Ok(0) if self.link.is_resumable() && self.socket.is_reset() => return Err(LinkEnd::Reset),
            Ok(0) => return Err(LinkEnd::Closed),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // A socket at which there is nothing tells of no room either.
                let due = self.socket.has_rings().then(|| self.link.now());
                return Ok((ReadResult::Nothing, due));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok((ReadResult::Full, None)),
            Err(error) => return Err(error.into()),
        };
        if buffer.is_empty() {
            if let Some((body, _)) = decoder.part() {
                body.filled(read);
            }
            decoder.filled(read);
        }
        let due = self.decode(reading)?;
        if reading.decoder.part().is_some() {
            self.link.note_progress();
        }
        let found = match read == most {
            true => ReadResult::Full,
            false => ReadResult::Some,
        };
        Ok((found, due))
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

    /// Decodes the bytes of the buffer, or of the body that was read into, and delivers the letters. If the link may have
    /// something to do after that, returns when it was: the last whole frame tells, and without one nobody has looked.
    fn decode(&self, reading: &mut ReadState) -> Result<Option<Duration>, LinkEnd> {
        let ReadState {
            decoder,
            joiner,
            buffer,
            ..
        } = reading;
        let now = self.link.now();
        let mut is_due = true;
        let mut bytes = buffer.as_slice();
        loop {
            let lend = |service, head: &[u8], bytes| self.lent(service, head, bytes);
            let place = |frame: &Frame<BodyMemory>, bytes| joiner.place(frame, bytes, lend);
            let Some(mut frame) = decoder.decode_with(&mut bytes, place)? else {
                return Ok(is_due.then_some(now));
            };
            let body_bytes = joiner.store(&mut frame);
            let effects = self.link.arrived(now, ArrivedFrame::new(frame, body_bytes))?;
            is_due = effects.is_due;
            for letter in effects.letters {
                if let Some(letter) = joined(joiner, letter)? {
                    self.services.deliver(self.link.peer(), letter)?;
                }
            }
        }
    }
}

impl TurnStream for PeerStream {
    fn read(&self) -> Option<ReadResult> {
        let read = caught(|| {
            let (found, due) = self.deliver()?;
            let goes_on = due.is_none_or(|now| self.link.delivered(now));
            Ok(goes_on.then_some(found))
        });
        read.unwrap_or_else(|end| {
            self.link.close(end);
            None
        })
    }

    fn wake_task(&self) {
        self.link.wake();
    }

    fn is_watchable(&self) -> bool {
        self.socket.has_rings()
    }

    fn has_bytes(&self) -> bool {
        self.socket.has_bytes()
    }

    fn watch(&self) {
        self.socket.watch();
    }

    fn unwatch(&self) -> bool {
        self.socket.unwatch().unwrap_or_else(|error| {
            // Else the link would be deaf. The link's task delivers what is there, and the link goes on over another connection, or
            // ends.
            self.link.close(error.into());
            false
        })
    }

    fn leave(&self, poll: &LeadPoll) {
        self.socket.leave(poll);
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
                body: message.body.into(),
                ..letter
            }))
        }
    }
}
