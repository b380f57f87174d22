//! The streams and listeners of a node: who gets which packet.
//!
//! Threads of zenoh call [`Switchboard::receive`] and the functions about tokens. These wait for nothing and send nothing: what is to be
//! sent or looked at is a chore of the node's keeper.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::zenoh::Session;
use tokio::sync::mpsc;

use super::doubts::Doubts;
use super::ended::EndedDialers;
use super::packet::{NodeId, PacketBody, RelayPacket, StreamPlace};
use super::stream::{RoutedStream, Word};
use super::watches::{TokenWatch, Watches};
use crate::net::random;

/// The dialers that wait at a listener. More of them ask again.
const DIALERS_MAX: usize = 128;
/// The streams of dialers at most. Before there are more, those that nobody uses are cut, and a dialer that finds no room asks again.
const ACCEPTED_MAX: usize = 16 << 10;
/// The refusals that wait for the keeper. Whoever gets none asks again.
const REFUSALS_MAX: usize = 1024;

/// The table of a node.
#[derive(Debug)]
pub(super) struct Switchboard {
    pub(super) me: NodeId,
    lines: Mutex<LineTable>,
    /// Notified when there is a chore.
    chores: Condvar,
}

#[derive(Debug, Default)]
struct LineTable {
    streams: HashMap<u64, Arc<RoutedStream>>,
    /// The streams that were accepted, by the place of the dialer: it may ask several times.
    accepted: HashMap<StreamPlace, u64>,
    ended: EndedDialers,
    listeners: HashMap<u64, mpsc::Sender<StreamPlace>>,
    watches: Watches,
    doubts: Doubts,
    refusals: VecDeque<RefusedCall>,
    /// The session of a node that nobody uses any more.
    closing: Option<Option<Session>>,
}

/// A packet that says that nobody is there.
#[derive(Debug)]
pub(super) struct RefusedCall {
    pub(super) from: StreamPlace,
    pub(super) to: StreamPlace,
}

/// A task for the keeper of a node.
#[derive(Debug)]
pub(super) enum Chore {
    Refuse(RefusedCall),
    Watch(TokenWatch),
    /// Nodes are missed: is there a router?
    Look,
    /// The node is not used any more. Its own handle of the session ends with this.
    Close(#[allow(dead_code, reason = "dropped")] Option<Session>),
}

impl Switchboard {
    pub(super) fn new(me: NodeId) -> Self {
        Switchboard {
            me,
            lines: Mutex::default(),
            chores: Condvar::new(),
        }
    }

    fn lines(&self) -> MutexGuard<'_, LineTable> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place of this node with a number that nobody can guess.
    ///
    /// # Errors
    /// The system has no random bytes.
    fn place(&self) -> io::Result<StreamPlace> {
        let number = u64::from_le_bytes(random::bytes()?);
        let node = self.me;
        Ok(StreamPlace { node, number })
    }

    /// Begins to listen: the number of the listener, and the dialers that ask it.
    ///
    /// # Errors
    /// Those of [`place`](Self::place).
    pub(super) fn listen(&self) -> io::Result<(u64, mpsc::Receiver<StreamPlace>)> {
        let (sender, receiver) = mpsc::channel(DIALERS_MAX);
        let number = self.place()?.number;
        self.lines().listeners.insert(number, sender);
        Ok((number, receiver))
    }

    pub(super) fn unlisten(&self, number: u64) {
        self.lines().listeners.remove(&number);
    }

    /// Begins a stream to a listener.
    ///
    /// # Errors
    /// Those of [`place`](Self::place).
    pub(super) fn dial(&self, listener: StreamPlace) -> io::Result<Arc<RoutedStream>> {
        let here = self.place()?;
        let stream = Arc::new(RoutedStream::dialing(here, listener));
        self.enter(&mut self.lines(), &stream);
        Ok(stream)
    }

    /// Begins the stream of a dialer, unless it has one, has had one, or there are too many.
    ///
    /// # Errors
    /// Those of [`place`](Self::place).
    pub(super) fn accept(&self, dialer: StreamPlace) -> io::Result<Option<Arc<RoutedStream>>> {
        let here = self.place()?;
        let mut lines = self.lines();
        if lines.accepted.contains_key(&dialer) || lines.ended.contains(dialer) {
            return Ok(None);
        }
        if lines.accepted.len() >= ACCEPTED_MAX {
            lines.cut_orphans();
            return Ok(None);
        }
        lines.accepted.insert(dialer, here.number);
        let stream = Arc::new(RoutedStream::accepted(here, dialer));
        self.enter(&mut lines, &stream);
        Ok(Some(stream))
    }

    fn enter(&self, lines: &mut LineTable, stream: &Arc<RoutedStream>) {
        lines.streams.insert(stream.here.number, Arc::clone(stream));
        if stream.far_node != self.me {
            lines.watches.enter(stream.far_node);
        }
        self.miss(lines, stream.far_node);
    }

    /// Misses a node, if it has no token.
    fn miss(&self, lines: &mut LineTable, node: NodeId) {
        if node != self.me {
            lines.doubts.miss(node, Instant::now());
            self.chores.notify_one();
        }
    }

    /// Forgets a stream. The dialer that has begun it gets no other one.
    pub(super) fn remove(&self, stream: &RoutedStream) {
        let peer = stream.peer();
        let mut lines = self.lines();
        let is_there = lines.streams.remove(&stream.here.number).is_some();
        if is_there && stream.far_node != self.me && lines.watches.leave(stream.far_node) {
            lines.doubts.settle(stream.far_node);
            self.chores.notify_one();
        }
        if let Some(peer) = peer
            && lines.accepted.get(&peer) == Some(&stream.here.number)
        {
            lines.accepted.remove(&peer);
            lines.ended.insert(peer);
        }
    }

    /// A message has arrived, from anybody.
    pub(super) fn receive(&self, bytes: &[u8]) {
        let Some(RelayPacket { from, to, body }) = RelayPacket::decode(bytes) else {
            return;
        };
        let mut lines = self.lines();
        lines.doubts.heard(from.node, Instant::now());
        let stream = match &body {
            PacketBody::Open => lines.accepted.get(&from).copied(),
            PacketBody::Refused | PacketBody::Flow(_) => Some(to),
        };
        let stream = stream.and_then(|number| lines.streams.get(&number).cloned());
        match (body, stream) {
            (PacketBody::Open, Some(stream)) => stream.hear(Word::Asked),
            (PacketBody::Flow(flow), Some(stream)) => stream.hear(Word::Flow(from, flow.into_owned())),
            (PacketBody::Refused, Some(stream)) => stream.hear(Word::Refused(from)),
            (PacketBody::Refused, None) => {}
            // A listener that has no room is asked again.
            (PacketBody::Open, None) if !lines.ended.contains(from) && lines.calls(to, from) => {}
            (PacketBody::Open | PacketBody::Flow(_), None) => self.refuse(&mut lines, to, from),
        }
    }

    fn refuse(&self, lines: &mut LineTable, number: u64, to: StreamPlace) {
        if lines.refusals.len() < REFUSALS_MAX {
            let node = self.me;
            let from = StreamPlace { node, number };
            lines.refusals.push_back(RefusedCall { from, to });
            self.chores.notify_one();
        }
    }

    /// The token of a node is there.
    pub(super) fn appeared(&self, node: NodeId) {
        let mut lines = self.lines();
        if lines.watches.is_watched(node) {
            lines.doubts.appeared(node);
            lines.streams_to(node).for_each(|stream| stream.resume());
        }
    }

    /// The token of a node is gone.
    pub(super) fn vanished(&self, node: NodeId) {
        let mut lines = self.lines();
        lines.doubts.vanished(node);
        if lines.watches.has_streams(node) {
            self.miss(&mut lines, node);
        }
    }

    /// Settles the doubts whose time has come.
    pub(super) fn looked(&self, has_router: bool) {
        let mut lines = self.lines();
        for node in lines.doubts.look(Instant::now(), has_router) {
            lines.streams_to(node).for_each(|stream| stream.lose());
        }
    }

    /// Waits for the next chore.
    pub(super) fn chore(&self) -> Chore {
        let mut lines = self.lines();
        loop {
            if let Some(session) = lines.closing.take() {
                return Chore::Close(session);
            }
            if let Some(watch) = lines.watches.next() {
                if let TokenWatch::End(node) = watch {
                    lines.doubts.forget(node);
                }
                return Chore::Watch(watch);
            }
            if let Some(refusal) = lines.refusals.pop_front() {
                return Chore::Refuse(refusal);
            }
            let now = Instant::now();
            lines = match lines.doubts.look_at() {
                Some(look) if look <= now => return Chore::Look,
                Some(look) => {
                    let waited = self.chores.wait_timeout(lines, look - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.chores.wait(lines).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Waits so long. Returns whether the node is still wanted.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let open = |lines: &mut LineTable| lines.closing.is_none();
        let waited = self.chores.wait_timeout_while(self.lines(), time, open);
        waited.unwrap_or_else(PoisonError::into_inner).0.closing.is_none()
    }

    /// Has the keeper close the node, which nobody uses any more.
    pub(super) fn close(&self, session: Option<Session>) {
        self.lines().closing = Some(session);
        self.chores.notify_one();
    }
}

impl LineTable {
    /// Calls a listener for a dialer. Returns whether there is the listener.
    fn calls(&self, listener: u64, dialer: StreamPlace) -> bool {
        let Some(listener) = self.listeners.get(&listener) else {
            return false;
        };
        !matches!(
            listener.try_send(dialer),
            Err(mpsc::error::TrySendError::Closed(_))
        )
    }

    fn streams_to(&self, node: NodeId) -> impl Iterator<Item = &Arc<RoutedStream>> {
        self.streams
            .values()
            .filter(move |stream| stream.far_node == node)
    }

    /// Cuts the streams that nobody uses any more and that wait for their peers.
    fn cut_orphans(&self) {
        let orphans = self.streams.values().filter(|stream| stream.is_orphan());
        orphans.for_each(|stream| stream.cut());
    }
}

#[cfg(test)]
#[path = "switchboard_tests.rs"]
mod tests;
