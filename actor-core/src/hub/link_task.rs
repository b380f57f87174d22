//! The task of a link, one on the reactor's thread for each: it keeps the link's timer, writes what did not fit into the
//! socket at once, reads while no thread leads, and ends the link.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;

use tokio::time::{Instant, Sleep, sleep_until};

use super::lead::LeadPlace;
use super::link_end::LinkEnd;
use super::peer_stream::{PeerReader, PeerStream};
use crate::platform::peer_socket::{PeerSource, SourceEvent};

/// Is called once, at the end of the task or when its reactor ends.
pub(super) type OnLinkEnd = Box<dyn FnOnce(&PeerStream, LinkEnd) + Send>;

pub(super) struct LinkTask {
    reader: Arc<PeerReader>,
    source: PeerSource,
    on_end: Option<OnLinkEnd>,
    /// The link's place in the list of the thread that leads.
    listed: LeadPlace,
}

/// The timer of the task.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    until: Option<Instant>,
}

impl LinkTask {
    pub(super) fn new(
        reader: Arc<PeerReader>,
        source: PeerSource,
        listed: LeadPlace,
        on_end: OnLinkEnd,
    ) -> Self {
        LinkTask {
            reader,
            source,
            on_end: Some(on_end),
            listed,
        }
    }

    pub(super) async fn run(mut self) {
        let end = self.live().await;
        self.end(end);
    }

    async fn live(&mut self) -> LinkEnd {
        let link = Arc::clone(self.reader.stream().link());
        let mut timer = Timer::new();
        loop {
            let wait = link.task_wait();
            if let Some(end) = wait.closing {
                if self.reader.begin_last() {
                    let worse = end.drains().then(|| self.reader.stream().drain()).flatten();
                    return worse.unwrap_or(end);
                }
                link.woken().await;
                continue;
            }
            tokio::select! {
                event = self.source.next(wait.for_room) => match event {
                    Ok(SourceEvent::Bytes) => read(&self.reader, &mut self.listed).await,
                    Ok(SourceEvent::Room) => link.has_room(),
                    Err(error) => drop(link.close(error.into())),
                },
                () = tokio::task::yield_now(), if wait.is_left => link.has_room(),
                () = timer.end(wait.until) => link.tick(),
                () = link.woken() => {
                    if self.reader.take_left() {
                        read(&self.reader, &mut self.listed).await;
                    }
                }
            }
        }
    }

    fn end(&mut self, end: LinkEnd) {
        if let Some(on_end) = self.on_end.take() {
            on_end(self.reader.stream(), end);
        }
    }
}

/// Reads until nothing is left, not even the end of the stream. The thread's other tasks get their turn meanwhile.
async fn read(reader: &PeerReader, listed: &mut LeadPlace) {
    if listed.was_led_lately() {
        // Whoever has led reads when it waits again. Without this, the task would take its core from it for each few letters.
        thread::yield_now();
    }
    if !reader.begin() {
        return;
    }
    while reader.read_rest() {
        if reader.stream().link().task_wait().for_room {
            // The task looks for room first, and reads on when it is woken.
            return reader.leave();
        }
        tokio::task::yield_now().await;
    }
}

impl Drop for LinkTask {
    fn drop(&mut self) {
        self.end(match thread::panicking() {
            true => LinkEnd::Failed("its task panicked".to_owned()),
            false => LinkEnd::Shutdown,
        });
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
