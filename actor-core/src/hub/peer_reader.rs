//! The task that reads a link: one on the reactor's thread for each link. It also keeps the link's timer, and writes what
//! did not fit into the socket at once.

use std::io::ErrorKind;
use std::sync::Arc;

use selvedge_cluster::frame::{Decoder, FrameLimits};
use tokio::time::{Instant, sleep_until};

use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::post::Letter;
use super::services::Services;
use crate::platform::peer_socket::PeerSocket;

/// The bytes of one read. After a full one, the thread's other tasks get their turn.
const READ_BYTES: usize = 64 << 10;

/// The number of reads at the end of a link: more than a socket holds.
const LAST_READS_MAX: usize = 1024;

/// Is called once, at the end of the task or when its reactor ends.
pub(super) type OnLinkEnd = Box<dyn FnOnce(&Arc<PeerLink>, LinkEnd) + Send>;

pub(super) struct PeerReader {
    link: Arc<PeerLink>,
    services: Arc<Services>,
    decoder: Decoder,
    on_end: Option<OnLinkEnd>,
}

/// An event that the task waits for.
enum Event {
    Bytes,
    Room,
    Due,
    Woken,
}

impl PeerReader {
    pub(super) fn new(
        link: Arc<PeerLink>,
        services: Arc<Services>,
        limits: FrameLimits,
        on_end: OnLinkEnd,
    ) -> Self {
        PeerReader {
            link,
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
        let link = Arc::clone(&self.link);
        let Some(socket) = link.socket() else {
            return LinkEnd::NoLink("it has no socket".to_owned());
        };
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let event = match next_event(&link, socket).await {
                Ok(event) => event,
                Err(end) => {
                    if end.drains() {
                        self.drain(socket, &mut buffer);
                    }
                    return end;
                }
            };
            match event {
                Event::Bytes => {
                    let read = socket.try_read(&mut buffer);
                    let is_full = read.as_ref().is_ok_and(|read| *read == buffer.len());
                    match self.take(read, &buffer) {
                        Err(end) => return end,
                        Ok(_) => link.delivered(),
                    }
                    if is_full {
                        tokio::task::yield_now().await;
                    }
                }
                Event::Room => link.has_room(),
                Event::Due => link.tick(),
                Event::Woken => {}
            }
        }
    }

    /// Delivers the bytes of a read. Returns whether there may be more.
    fn take(&mut self, read: std::io::Result<usize>, buffer: &[u8]) -> Result<bool, LinkEnd> {
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
    fn drain(&mut self, socket: &PeerSocket, buffer: &mut [u8]) {
        for _ in 0..LAST_READS_MAX {
            let read = socket.read_now(buffer);
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

/// Waits for the next event of a link, or for its end.
async fn next_event(link: &PeerLink, socket: &PeerSocket) -> Result<Event, LinkEnd> {
    let wait = link.reader_wait();
    if let Some(end) = wait.closing {
        return Err(end);
    }
    let due = async {
        match wait.until {
            Some(until) => sleep_until(Instant::from_std(until)).await,
            None => std::future::pending().await,
        }
    };
    // An error of the reactor means that it is gone, and this task with it.
    tokio::select! {
        _ = socket.readable() => Ok(Event::Bytes),
        _ = socket.writable(), if wait.for_room => Ok(Event::Room),
        () = due => Ok(Event::Due),
        () = link.woken() => Ok(Event::Woken),
    }
}
