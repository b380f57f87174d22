//! The task that reads a link: one on the reactor's thread for each link. It also keeps the link's timer, and writes what
//! did not fit into the socket at once.

use std::future::pending;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;

use selvedge_cluster::frame::{Decoder, FrameLimits};
use tokio::time::{Instant, Sleep, sleep_until};

use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::post::Letter;
use super::services::Services;
use crate::platform::peer_socket::{PeerSource, SourceEvent};

/// The bytes of one read. After a full one, the thread's other tasks get their turn.
const READ_BYTES: usize = 64 << 10;

/// The number of reads at the end of a link: more than a socket holds.
const LAST_READS_MAX: usize = 1024;

/// Is called once, at the end of the task or when its reactor ends.
pub(super) type OnLinkEnd = Box<dyn FnOnce(&Arc<PeerLink>, LinkEnd) + Send>;

pub(super) struct PeerReader {
    link: Arc<PeerLink>,
    source: PeerSource,
    services: Arc<Services>,
    decoder: Decoder,
    on_end: Option<OnLinkEnd>,
}

/// An event that the task waits for.
enum Event {
    Read(io::Result<usize>),
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
        limits: FrameLimits,
        on_end: OnLinkEnd,
    ) -> Self {
        PeerReader {
            link,
            source,
            services,
            decoder: Decoder::new(limits),
            on_end: Some(on_end),
        }
    }

    pub(super) async fn run(mut self) {
        let end = self.read_to_end().await;
        self.end(end);
    }

    async fn read_to_end(&mut self) -> LinkEnd {
        let mut buffer = vec![0; READ_BYTES];
        let mut timer = Timer::new();
        loop {
            let event = match self.next_event(&mut buffer, &mut timer).await {
                Ok(event) => event,
                Err(end) => {
                    if end.drains() {
                        self.drain(&mut buffer);
                    }
                    return end;
                }
            };
            match event {
                Event::Read(read) => {
                    let is_full = read.as_ref().is_ok_and(|read| *read == buffer.len());
                    match self.take(read, &buffer) {
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
    async fn next_event(&mut self, buffer: &mut [u8], timer: &mut Timer) -> Result<Event, LinkEnd> {
        let wait = self.link.reader_wait();
        if let Some(end) = wait.closing {
            return Err(end);
        }
        tokio::select! {
            event = self.source.next(buffer, wait.for_room) => Ok(match event {
                Ok(SourceEvent::Read(read)) => Event::Read(Ok(read)),
                Ok(SourceEvent::Room) => Event::Room,
                Err(error) => Event::Read(Err(error)),
            }),
            () = timer.end(wait.until) => Ok(Event::Due),
            () = self.link.woken() => Ok(Event::Woken),
        }
    }

    /// Delivers the bytes of a read. Returns whether there may be more.
    fn take(&mut self, read: io::Result<usize>, buffer: &[u8]) -> Result<bool, LinkEnd> {
        let read = match read {
            Ok(0) => return Err(LinkEnd::Closed),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = buffer.get(..read).unwrap_or_default();
        while let Some(frame) = self.decoder.decode(&mut bytes)? {
            for letter in self.link.arrived(frame)? {
                let letter = Arc::try_unwrap(letter).unwrap_or_else(|letter| Letter::clone(&letter));
                self.services.deliver(self.link.peer(), letter)?;
            }
        }
        Ok(true)
    }

    /// Delivers what the peer has sent before the end.
    fn drain(&mut self, buffer: &mut [u8]) {
        for _ in 0..LAST_READS_MAX {
            let read = self.source.read_now(buffer);
            if !matches!(self.take(read, buffer), Ok(true)) {
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
