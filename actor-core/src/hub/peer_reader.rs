//! The task that reads a link: one on the reactor's thread for each link. It also keeps the link's timer, and writes what
//! did not fit into the socket at once.

use std::future::pending;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use selvedge_cluster::frame::{Class, Decoder, Frame, Joiner};
use tokio::time::{Instant, Sleep, sleep_until};

use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::post::Letter;
use super::services::Services;
use super::settings::LinkSettings;
use super::wire::ArrivedFrame;
use crate::body::BodyMemory;
use crate::platform::peer_socket::{PeerSource, ReadInto, SourceEvent};

/// The bytes of one read, unless it goes straight into a body that lacks more. After a full one, the thread's other tasks get
/// their turn.
const READ_BYTES: usize = 64 << 10;

/// The number of reads at the end of a link: more than a socket holds.
const LAST_READS_MAX: usize = 1024;

/// Is called once, at the end of the task or when its reactor ends.
pub(super) type OnLinkEnd = Box<dyn FnOnce(&Arc<PeerLink>, LinkEnd) + Send>;

pub(super) struct PeerReader {
    link: Arc<PeerLink>,
    source: PeerSource,
    services: Arc<Services>,
    decoder: Decoder<BodyMemory>,
    joiner: Joiner<BodyMemory>,
    /// The bytes of the last read, unless it went straight into a body.
    buffer: Vec<u8>,
    on_end: Option<OnLinkEnd>,
}

/// An event that the task waits for.
enum Event {
    /// The number of bytes that were read, and the number that could be.
    Read(io::Result<usize>, usize),
    Room,
    Due,
    Woken,
}

/// The timer of the task.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    until: Option<Instant>,
}

impl PeerReader {
    pub(super) fn new(
        link: Arc<PeerLink>,
        source: PeerSource,
        services: Arc<Services>,
        settings: LinkSettings,
        on_end: OnLinkEnd,
    ) -> Self {
        PeerReader {
            link,
            source,
            services,
            decoder: Decoder::new(settings.frame()),
            joiner: Joiner::new(settings.body_bytes_max),
            buffer: Vec::with_capacity(READ_BYTES),
            on_end: Some(on_end),
        }
    }

    pub(super) async fn run(mut self) {
        let end = self.read_to_end().await;
        self.end(end);
    }

    async fn read_to_end(&mut self) -> LinkEnd {
        let mut timer = Timer::new();
        loop {
            let event = match self.next_event(&mut timer).await {
                Ok(event) => event,
                Err(end) => {
                    if end.drains() {
                        self.drain();
                    }
                    return end;
                }
            };
            match event {
                Event::Read(read, most) => {
                    let is_full = read.as_ref().is_ok_and(|read| *read == most);
                    match self.take(read) {
                        Err(end) => return end,
                        Ok(_) => self.link.delivered(),
                    }
                    if is_full {
                        tokio::task::yield_now().await;
                    }
                }
                Event::Room => self.link.has_room(),
                Event::Due => self.link.tick(),
                Event::Woken => {}
            }
        }
    }

    /// Waits for the next event of the link, or for its end.
    async fn next_event(&mut self, timer: &mut Timer) -> Result<Event, LinkEnd> {
        let wait = self.link.reader_wait();
        if let Some(end) = wait.closing {
            return Err(end);
        }
        let into = read_into(&mut self.decoder, &mut self.buffer);
        let most = into.most;
        tokio::select! {
            event = self.source.next(into, wait.for_room) => Ok(match event {
                Ok(SourceEvent::Read(read)) => Event::Read(Ok(read), most),
                Ok(SourceEvent::Room) => Event::Room,
                Err(error) => Event::Read(Err(error), most),
            }),
            () = timer.end(wait.until) => Ok(Event::Due),
            () = self.link.woken() => Ok(Event::Woken),
        }
    }

    /// Delivers the bytes of a read. Returns whether there may be more.
    fn take(&mut self, read: io::Result<usize>) -> Result<bool, LinkEnd> {
        let read = match read {
            Ok(0) => return Err(LinkEnd::Closed),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = self.buffer.as_slice();
        if bytes.is_empty() {
            self.decoder.filled(read);
        }
        loop {
            let place = |frame: &Frame<BodyMemory>, bytes| self.joiner.place(frame, bytes);
            let Some(mut frame) = self.decoder.decode_with(&mut bytes, place)? else {
                return Ok(true);
            };
            let body_bytes = self.joiner.store(&mut frame);
            for letter in self.link.arrived(ArrivedFrame::new(frame, body_bytes))? {
                let letter = Arc::try_unwrap(letter).unwrap_or_else(|letter| Letter::clone(&letter));
                if let Some(letter) = joined(&mut self.joiner, letter)? {
                    self.services.deliver(self.link.peer(), letter)?;
                }
            }
        }
    }

    /// Delivers what the peer has sent before the end.
    fn drain(&mut self) {
        for _ in 0..LAST_READS_MAX {
            let into = read_into(&mut self.decoder, &mut self.buffer);
            let read = self.source.read_now(into);
            if !matches!(self.take(read), Ok(true)) {
                return;
            }
        }
    }

    fn end(&mut self, end: LinkEnd) {
        if let Some(on_end) = self.on_end.take() {
            on_end(&self.link, end);
        }
    }
}

/// The memory for the next read: that of the body that is being read if it lacks much, or else the buffer, which is empty in
/// both cases.
fn read_into<'a>(decoder: &'a mut Decoder<BodyMemory>, buffer: &'a mut Vec<u8>) -> ReadInto<'a> {
    buffer.clear();
    match decoder.part() {
        Some((body, most)) if most >= READ_BYTES => ReadInto {
            memory: body.vec(),
            most,
        },
        _ => ReadInto {
            memory: buffer,
            most: READ_BYTES,
        },
    }
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

impl Drop for PeerReader {
    fn drop(&mut self) {
        self.end(LinkEnd::Shutdown);
    }
}

impl Timer {
    fn new() -> Self {
        Timer {
            sleep: Box::pin(sleep_until(Instant::now())),
            until: None,
        }
    }

    /// Waits until a moment, for ever if there is none. The system's timer is set only if the moment has changed.
    async fn end(&mut self, until: Option<std::time::Instant>) {
        let Some(until) = until.map(Instant::from_std) else {
            return pending().await;
        };
        if self.until != Some(until) {
            self.sleep.as_mut().reset(until);
            self.until = Some(until);
        }
        self.sleep.as_mut().await;
        self.until = None;
    }
}
