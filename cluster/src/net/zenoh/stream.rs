//! The end of a stream at a node: its flow, and whoever reads, writes and carries it.
//!
//! Three kinds of threads meet here, and each holds a lock for a moment only. A thread of zenoh puts words into the inbox. The user of
//! the halves reads and writes the flow. The task of the stream takes the words, and carries what the flow has to say.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::flow::{Flow, FlowRead, NotWritten};
use super::packet::{FlowPacket, NodeId, PacketBody, RelayPacket, StreamPlace};

/// The words that wait for the task of a stream. More of them are dropped, as the network may drop them: each is said again while it
/// matters.
const INBOX_MAX: usize = 256;
/// The pause before a dialer asks a second time; it doubles up to the longest one.
const OPEN_PAUSE: Duration = Duration::from_millis(100);
const OPEN_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A word that a stream hears from the network.
#[derive(Debug)]
pub(super) enum Word {
    /// A packet of the other end, or of somebody else.
    Flow(StreamPlace, FlowPacket<'static>),
    /// The place has no such listener or stream.
    Refused(StreamPlace),
    /// The dialer has asked again.
    Asked,
}

/// The words and the events that wait for the task of a stream.
#[derive(Debug, Default)]
struct Inbox {
    /// At most [`INBOX_MAX`], since anybody may send them.
    words: VecDeque<Word>,
    /// The way to the other node is there again.
    has_resumed: bool,
    /// The other node is lost.
    is_lost: bool,
}

/// The end of a stream at this node.
#[derive(Debug)]
pub(super) struct RoutedStream {
    /// The place of this end.
    pub(super) here: StreamPlace,
    /// The node of the other end.
    pub(super) far_node: NodeId,
    begun: Instant,
    inbox: Mutex<Inbox>,
    state: Mutex<StreamState>,
    /// Notified when there is something for the task.
    nudge: Notify,
}

#[derive(Debug)]
struct StreamState {
    flow: Flow,
    far: Far,
    opened: Option<Waker>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The other end.
#[derive(Debug)]
enum Far {
    /// A listener, which is asked for a stream.
    Listener {
        place: StreamPlace,
        ask_at: Duration,
        pause: Duration,
        is_refused: bool,
    },
    Peer(StreamPlace),
}

/// The next step of the task of a stream.
#[derive(Debug)]
pub(super) enum Next {
    /// Waits for a nudge, until this time at most.
    Wait(Option<Instant>),
    /// Ends: the stream needs its peer no more.
    End,
}

/// The packets of a turn, each with the answer to whether it is one without bytes.
pub(super) type Said = Vec<(Vec<u8>, bool)>;

impl RoutedStream {
    /// The end of a dialer, for a stream to this listener.
    pub(super) fn dialing(here: StreamPlace, listener: StreamPlace) -> Self {
        Self::to(
            here,
            listener.node,
            Far::Listener {
                place: listener,
                ask_at: Duration::ZERO,
                pause: OPEN_PAUSE,
                is_refused: false,
            },
        )
    }

    /// The end of a listener, for the stream of this dialer.
    pub(super) fn accepted(here: StreamPlace, dialer: StreamPlace) -> Self {
        let stream = Self::to(here, dialer.node, Far::Peer(dialer));
        // The first packet is the answer.
        stream.state().flow.greet();
        stream
    }

    fn to(here: StreamPlace, far_node: NodeId, far: Far) -> Self {
        RoutedStream {
            here,
            far_node,
            begun: Instant::now(),
            inbox: Mutex::default(),
            state: Mutex::new(StreamState {
                flow: Flow::new(),
                far,
                opened: None,
                reader: None,
                writer: None,
            }),
            nudge: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of the other end, once a dialer has its answer.
    pub(super) fn peer(&self) -> Option<StreamPlace> {
        match &self.state().far {
            Far::Listener { .. } => None,
            Far::Peer(place) => Some(*place),
        }
    }

    /// Puts a word into the inbox, or drops it if that is full. Waits for nothing.
    pub(super) fn hear(&self, word: Word) {
        self.note(|inbox| {
            if inbox.words.len() < INBOX_MAX {
                inbox.words.push_back(word);
            }
        });
    }

    /// The way to the other node is there again.
    pub(super) fn resume(&self) {
        self.note(|inbox| inbox.has_resumed = true);
    }

    /// The other node is lost.
    pub(super) fn lose(&self) {
        self.note(|inbox| inbox.is_lost = true);
    }

    fn note(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner));
        self.nudge.notify_one();
    }

    /// Whether nobody uses the stream any more. Its task ends it.
    pub(super) fn is_orphan(&self) -> bool {
        self.state().flow.is_orphan()
    }

    /// Waits until there is something for the task.
    pub(super) async fn nudged(&self) {
        self.nudge.notified().await;
    }

    /// Takes the words, and has the flow say what it has to say.
    pub(super) fn turn(&self) -> (Said, Next) {
        let inbox = std::mem::take(&mut *self.inbox.lock().unwrap_or_else(PoisonError::into_inner));
        let now = self.begun.elapsed();
        let mut state = self.state();
        let has_heard = !inbox.words.is_empty();
        for word in inbox.words {
            state.hear(word, now);
        }
        if inbox.has_resumed {
            state.resume(now);
        }
        if inbox.is_lost {
            state.flow.lose();
        }
        state.flow.tick(now);
        let said = state.say(self.here, now);
        if has_heard || state.flow.is_lost() {
            state.wake();
        }
        let next = match state.flow.is_over() {
            true => Next::End,
            false => Next::Wait(state.deadline().map(|deadline| self.begun + deadline)),
        };
        (said, next)
    }

    /// Leaves the stream: the other end sees that it is lost.
    pub(super) fn cut(&self) {
        let mut state = self.state();
        state.flow.lose();
        state.wake();
        drop(state);
        self.nudge.notify_one();
    }

    /// Ends the carrying of the stream. Returns whether that is its loss, and not its end.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.state();
        let is_loss = !state.flow.is_over();
        if is_loss {
            state.flow.lose();
            state.wake();
        }
        is_loss
    }

    /// Whether the listener has the stream.
    pub(super) fn poll_opened(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        match &state.far {
            Far::Peer(_) => Poll::Ready(Ok(())),
            Far::Listener { is_refused: true, .. } => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                "the process is there, and does not listen any more or has ended the stream",
            ))),
            Far::Listener { .. } if state.flow.is_lost() => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::HostUnreachable,
                "no router knows the process",
            ))),
            Far::Listener { .. } => {
                state.opened = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Reads bytes into a buffer that is not empty.
    pub(super) fn poll_read(&self, cx: &Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let read = match state.flow.read(buffer) {
            Some(FlowRead::Bytes(length)) => Ok(length),
            Some(FlowRead::End) => Ok(0),
            None => Err(lost()),
            Some(FlowRead::Nothing) => {
                state.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
        };
        let owes = state.flow.owes();
        drop(state);
        if owes {
            self.nudge.notify_one();
        }
        Poll::Ready(read)
    }

    /// Writes bytes, at least one.
    pub(super) fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        match state.flow.write(bytes) {
            Ok(0) if !bytes.is_empty() => {
                state.writer = Some(cx.waker().clone());
                Poll::Pending
            }
            Ok(written) => {
                drop(state);
                self.nudge.notify_one();
                Poll::Ready(Ok(written))
            }
            Err(NotWritten::Ended) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Err(NotWritten::Lost) => Poll::Ready(Err(lost())),
        }
    }

    /// Ends the direction in which this side writes.
    pub(super) fn end(&self) {
        self.state().flow.end();
        self.nudge.notify_one();
    }

    /// Ends the reading of this side.
    pub(super) fn refuse(&self) {
        self.state().flow.refuse();
        self.nudge.notify_one();
    }
}

impl StreamState {
    fn hear(&mut self, word: Word, now: Duration) {
        match (word, &mut self.far) {
            (Word::Flow(from, packet), Far::Listener { place, .. }) if from.node == place.node => {
                self.far = Far::Peer(from);
                self.flow.receive(packet, now);
            }
            (Word::Flow(from, packet), Far::Peer(peer)) if from == *peer => self.flow.receive(packet, now),
            (
                Word::Refused(from),
                Far::Listener {
                    place, is_refused, ..
                },
            ) if from == *place => {
                *is_refused = true;
                self.flow.lose();
            }
            (Word::Refused(from), Far::Peer(peer)) if from == *peer => self.flow.gone(),
            // Somebody else's, or of another time.
            (Word::Flow(..) | Word::Refused(_), _) => {}
            (Word::Asked, _) => self.flow.greet(),
        }
    }

    fn resume(&mut self, now: Duration) {
        if let Far::Listener { ask_at, .. } = &mut self.far {
            *ask_at = now;
        }
        self.flow.resume();
    }

    fn say(&mut self, here: StreamPlace, now: Duration) -> Said {
        match &mut self.far {
            Far::Listener {
                place, ask_at, pause, ..
            } if *ask_at <= now && !self.flow.is_lost() => {
                *ask_at = now + *pause;
                *pause = OPEN_PAUSE_MAX.min(*pause * 2);
                vec![(packet(here, place.number, PacketBody::Open), true)]
            }
            Far::Listener { .. } => Vec::new(),
            Far::Peer(peer) if self.flow.is_lost() => {
                vec![(packet(here, peer.number, PacketBody::Refused), true)]
            }
            Far::Peer(peer) => {
                let mut said = Vec::new();
                while let Some(flow) = self.flow.next(now) {
                    let is_short = flow.fragment.is_none();
                    said.push((packet(here, peer.number, PacketBody::Flow(flow)), is_short));
                }
                said
            }
        }
    }

    fn deadline(&self) -> Option<Duration> {
        match &self.far {
            Far::Listener { ask_at, .. } => Some(*ask_at),
            Far::Peer(_) => self.flow.deadline(),
        }
    }

    fn wake(&mut self) {
        let wakers = [self.opened.take(), self.reader.take(), self.writer.take()];
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

fn packet(from: StreamPlace, to: u64, body: PacketBody<'_>) -> Vec<u8> {
    RelayPacket { from, to, body }.encode()
}

fn lost() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "the other process is not heard through the router any more",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_strangers_fill_no_memory_and_hide_no_loss() {
        let (here, dialer) = (
            StreamPlace {
                node: NodeId(1),
                number: 1,
            },
            StreamPlace {
                node: NodeId(2),
                number: 2,
            },
        );
        let stream = RoutedStream::accepted(here, dialer);
        for number in 0..100_000 {
            stream.hear(Word::Refused(StreamPlace {
                node: NodeId(3),
                number,
            }));
            stream.hear(Word::Asked);
            stream.resume();
        }
        let inbox = |stream: &RoutedStream| stream.inbox.lock().map(|inbox| inbox.words.len()).unwrap_or(0);
        assert_eq!(inbox(&stream), INBOX_MAX);
        assert!(
            matches!(stream.turn().1, Next::Wait(_)),
            "nothing of it was about this stream"
        );
        for _ in 0..INBOX_MAX {
            stream.hear(Word::Asked);
        }
        stream.lose();
        assert!(matches!(stream.turn().1, Next::End));
    }
}
