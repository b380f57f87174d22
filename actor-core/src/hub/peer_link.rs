//! The link to one peer: its state under a lock, and the socket, to which whoever has an event writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use selvedge_cluster::frame::{Joiner, Service};
use selvedge_cluster::peer::Peer;
use tokio::sync::Notify;

use super::connection::{BrokenLink, Connections};
#[cfg(any(test, feature = "hosts"))]
use super::connection::{Connection, Resume};
use super::link_end::LinkEnd;
use super::link_state::{Arrived, Fates, LinkState};
use super::post::{Letter, PostError};
use super::settings::LinkSettings;
use super::tap::ServiceTraffic;
use super::wire::{ArrivedFrame, write_frames};
use crate::body::BodyMemory;
use crate::platform::peer_socket::PeerSocket;
#[cfg(any(test, feature = "hosts"))]
use crate::platform::peer_socket::drop_unused;

/// The number of writes that a thread performs in a row, of its own frames and those that other threads add meanwhile.
/// After that, the link's task goes on.
const WRITES_MAX: usize = 16;

/// The link to one incarnation of a process, from the first letter or notice to the incarnation's end.
pub(super) struct PeerLink {
    peer: Peer,
    /// The moment from which the session counts its time.
    epoch: Instant,
    parts: Mutex<LinkParts>,
    /// Whether the link has or had a connection.
    is_made: AtomicBool,
    /// Whether letters can still be sent.
    is_open: AtomicBool,
    /// Whether the peer's number is lower than this process's.
    #[cfg(any(test, feature = "hosts"))]
    is_to_lower: bool,
    /// Wakes the link's task.
    wake: Notify,
}

/// The effects of a frame that has arrived.
pub(super) struct FrameEffects {
    /// The letters and chunks to deliver, in order.
    pub(super) letters: Arrived,
    /// Whether [`PeerLink::delivered`] has something to do after that.
    pub(super) is_due: bool,
}

struct LinkParts {
    state: LinkState,
    connections: Connections,
}

/// The events that the link's task waits for, beside bytes.
pub(super) struct TaskWait {
    pub(super) closing: Option<LinkEnd>,
    /// Whether frames wait for room in the socket.
    pub(super) for_room: bool,
    /// Whether frames are left that the socket may have room for.
    pub(super) is_left: bool,
    pub(super) until: Option<Instant>,
}

impl PeerLink {
    pub(super) fn new(local: Peer, peer: Peer, settings: LinkSettings) -> Self {
        PeerLink {
            peer,
            epoch: Instant::now(),
            parts: Mutex::new(LinkParts {
                state: LinkState::new(local, peer, settings),
                connections: Connections::default(),
            }),
            is_made: AtomicBool::new(false),
            is_open: AtomicBool::new(true),
            #[cfg(any(test, feature = "hosts"))]
            is_to_lower: peer < local,
            wake: Notify::new(),
        }
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// The present socket.
    #[cfg(test)]
    pub(super) fn socket(&self) -> Option<Arc<PeerSocket>> {
        self.parts.lock().connections.socket.clone()
    }

    /// Whether the link has or had a connection. One that has broken gets another one by itself.
    pub(super) fn is_made(&self) -> bool {
        // Relaxed: whoever goes on takes the lock, under which this was set; and whoever does not asks the broker.
        self.is_made.load(Ordering::Relaxed)
    }

    /// Notes a first connection, which carries nothing.
    #[cfg(all(test, feature = "hosts"))]
    pub(super) fn note_made(&self) {
        let mut parts = self.parts.lock();
        parts.state.note_made();
        self.unlock(parts);
    }

    /// Whether somebody has asked for a socket, and there was none yet.
    #[cfg(feature = "hosts")]
    pub(super) fn is_asked_for(&self) -> bool {
        self.parts.lock().state.is_asked_for()
    }

    /// Whether letters can still be sent.
    pub(super) fn is_open(&self) -> bool {
        // Relaxed: it never becomes true again, and whoever sends a letter nevertheless is told under the lock.
        self.is_open.load(Ordering::Relaxed)
    }

    /// Gives up the lock after the state has changed: publishes what is seen without the lock, and drops what the link needs no more once the
    /// lock is given up, because a drop may send a letter by this link.
    fn unlock(&self, mut parts: MutexGuard<'_, LinkParts>) {
        let is_made = parts.state.connection() > 0;
        // Relaxed: as in `is_made` and in `is_open`.
        self.is_made.store(is_made, Ordering::Relaxed);
        self.is_open.store(parts.state.is_open(), Ordering::Relaxed);
        let spent = parts.state.take_spent();
        drop(parts);
        drop(spent);
    }

    /// Sends a letter, on the calling thread as far as the socket has room. Returns the letter's number, and whether a socket is
    /// needed and this is the first letter that needs one.
    pub(super) fn send(&self, letter: Letter) -> Result<(u64, bool), PostError> {
        let mut parts = self.parts.lock();
        let now = self.now();
        let number = match parts.state.accept(now, self.peer, letter) {
            Ok(number) => number,
            Err(error) => {
                self.unlock(parts);
                return Err(error);
            }
        };
        let is_first_need = parts.state.is_first_need();
        self.write(parts, now);
        Ok((number, is_first_need))
    }

    /// Puts a socket under the link, unless the link has one or is about to end. Returns whether the socket is used; the
    /// caller then starts the reader.
    pub(super) fn connect(&self, socket: &Arc<PeerSocket>) -> bool {
        let mut parts = self.parts.lock();
        if !parts.state.connect(self.now()) {
            return false;
        }
        parts.connections.socket = Some(Arc::clone(socket));
        self.write(parts, self.now());
        true
    }

    /// A connection was made. Notes the way to another one: from now on the link outlives its connection. If both sides have dialled,
    /// the dial of the process with the higher number counts. Returns whether this one does.
    #[cfg(any(test, feature = "hosts"))]
    pub(super) fn made(&self, resume: Resume) -> bool {
        let mut parts = self.parts.lock();
        let LinkParts { state, connections } = &mut *parts;
        let is_ours = |resume: &Resume| matches!(resume, Resume::Dials(_));
        let counts = match &connections.resume {
            Some(before) if is_ours(before) == is_ours(&resume) => return true,
            Some(_) => is_ours(&resume) == self.is_to_lower,
            None => true,
        };
        if counts {
            connections.resume = Some(resume);
            state.set_resumable();
        }
        counts
    }

    /// Whether no other dial of this process counts: it has dialled, or the peer has, and has the higher number.
    #[cfg(feature = "hosts")]
    pub(super) fn is_settled(&self) -> bool {
        match &self.parts.lock().connections.resume {
            Some(Resume::Dials(_)) => true,
            Some(Resume::Waits) => !self.is_to_lower,
            None => false,
        }
    }

    /// Closes the link if it never had a connection. Returns whether it is closed now.
    #[cfg(feature = "hosts")]
    pub(super) fn close_unmade(&self, why: LinkEnd) -> bool {
        let mut parts = self.parts.lock();
        let is_closed = parts.state.connection() == 0 && parts.state.close(why);
        self.unlock(parts);
        is_closed
    }

    /// Whether the link outlives its connection.
    pub(super) fn is_resumable(&self) -> bool {
        self.parts.lock().state.is_resumable()
    }

    /// The peer has made another connection. If the link has one that has not ended yet, that one ends now, and the new one
    /// follows; else the new one comes back.
    #[cfg(any(test, feature = "hosts"))]
    pub(super) fn replace(&self, next: Connection) -> Option<Connection> {
        let mut parts = self.parts.lock();
        if !parts.state.is_linked() || !parts.state.is_resumable() {
            return Some(next);
        }
        let older = parts.connections.next.replace(next);
        parts.state.close(LinkEnd::Reset);
        self.unlock(parts);
        self.wake.notify_one();
        if let Some((end, _)) = older {
            drop_unused(end);
        }
        None
    }

    /// The connection has ended for this reason. Returns how the link goes on; `None` if it ends too.
    pub(super) fn disconnect(&self, why: &LinkEnd) -> Option<BrokenLink> {
        let mut parts = self.parts.lock();
        let now = self.now();
        let LinkParts { state, connections } = &mut *parts;
        let connection = state.disconnect(now, why)?;
        let (breaks, is_futile) = (state.breaks().count(), state.breaks().is_futile(now));
        let (socket, next) = (connections.socket.take(), connections.next.take());
        let resume = connections.resume.clone();
        self.unlock(parts);
        if let Some(socket) = socket {
            // Else the peer would see the end of the stream, and take this process for dead.
            socket.abandon();
        }
        Some(BrokenLink {
            connection,
            breaks,
            is_futile,
            resume: resume?,
            next,
        })
    }

    /// Whether the link waits for another connection.
    pub(super) fn is_broken(&self) -> bool {
        self.parts.lock().state.is_broken()
    }

    /// The number of the present connection, or of the last one.
    pub(super) fn connection(&self) -> u64 {
        self.parts.lock().state.connection()
    }

    /// A part of a body has arrived that is not whole yet.
    pub(super) fn note_progress(&self) {
        self.parts.lock().state.note_progress();
    }

    /// Whether long letters from or to the peer have come further since the last call.
    pub(super) fn take_progress(&self) -> bool {
        self.parts.lock().state.take_progress()
    }

    /// Keeps the long message that a connection has left unfinished.
    pub(super) fn keep(&self, joiner: Joiner<BodyMemory>) {
        let older = self.parts.lock().connections.joiner.replace(joiner);
        drop(older);
    }

    /// The long message that the last connection has left unfinished.
    pub(super) fn take_joiner(&self) -> Option<Joiner<BodyMemory>> {
        self.parts.lock().connections.joiner.take()
    }

    /// A frame has arrived at this time.
    pub(super) fn arrived(&self, now: Duration, frame: ArrivedFrame) -> Result<FrameEffects, LinkEnd> {
        let mut parts = self.parts.lock();
        let arrived = parts.state.arrived(now, frame);
        let is_due = parts.state.is_due(now);
        self.unlock(parts);
        Ok(FrameEffects {
            letters: arrived?,
            is_due,
        })
    }

    /// All frames that have arrived at this time are delivered: acknowledges them if that is due. Returns whether the link goes on.
    pub(super) fn delivered(&self, now: Duration) -> bool {
        let mut parts = self.parts.lock();
        let LinkParts { state, connections } = &mut *parts;
        let goes_on = state.is_open();
        if state.is_blocked()
            && connections
                .socket
                .as_ref()
                .is_some_and(|socket| socket.has_room())
        {
            // The peer tells of room and of bytes in one way.
            state.unblock();
        }
        self.write(parts, now);
        goes_on
    }

    /// The task's timer has fired. Performs what is due.
    pub(super) fn tick(&self) {
        let mut parts = self.parts.lock();
        let now = self.now();
        parts.state.fired(now);
        self.write(parts, now);
    }

    /// The socket has room.
    pub(super) fn has_room(&self) {
        let mut parts = self.parts.lock();
        parts.state.unblock();
        self.write(parts, self.now());
    }

    /// The events that the link's task waits for.
    pub(super) fn task_wait(&self) -> TaskWait {
        let state = &self.parts.lock().state;
        let until = state.armed().and_then(|due| self.epoch.checked_add(due));
        TaskWait {
            closing: state.closing().cloned(),
            for_room: state.is_blocked(),
            is_left: state.is_left(),
            until,
        }
    }

    /// Begins to end the link. Returns whether nobody reads the link, so that the caller ends it.
    pub(super) fn close(&self, why: LinkEnd) -> bool {
        let mut parts = self.parts.lock();
        let is_unread = parts.state.close(why);
        self.unlock(parts);
        self.wake.notify_one();
        is_unread
    }

    /// Ends the link for this reason; false if it has ended before.
    pub(super) fn end(&self, why: LinkEnd) -> bool {
        let mut parts = self.parts.lock();
        let is_first = parts.state.end(why);
        let connections = &mut parts.connections;
        let socket = connections.socket.take();
        let unused = (connections.next.take(), connections.joiner.take());
        self.unlock(parts);
        if let Some(socket) = socket {
            socket.close();
        }
        drop(unused);
        is_first
    }

    /// Whether the death of the peer is announced with its burial.
    pub(super) fn awaits_burial(&self) -> bool {
        self.parts.lock().state.awaits_burial(self.peer)
    }

    /// The death of the peer is announced. Returns the fates of the letters that it has not acknowledged; `None` if the link has not
    /// ended, or the death was announced before.
    pub(super) fn announce(&self) -> Option<Fates> {
        let mut parts = self.parts.lock();
        let fates = parts.state.announce();
        self.unlock(parts);
        fates
    }

    /// Wakes the link's task.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until the link's task has something else to wait for.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(super) fn traffic(&self) -> Vec<(Service, ServiceTraffic)> {
        self.parts.lock().state.traffic()
    }

    /// The time of the session.
    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Writes the frames that wait, unless another thread does, which then writes these too, and gives up the lock.
    fn write(&self, mut parts: MutexGuard<'_, LinkParts>, now: Duration) {
        self.write_some(&mut parts, now);
        self.unlock(parts);
    }

    /// Writes the frames that wait. The lock is not held during a system call.
    fn write_some(&self, parts: &mut MutexGuard<'_, LinkParts>, now: Duration) {
        for _ in 0..WRITES_MAX {
            let Some(mut frames) = parts.state.begin_write(now) else {
                return self.arm(&mut parts.state);
            };
            let Some(socket) = parts.connections.socket.clone() else {
                parts.state.end_write(frames, || false);
                return;
            };
            let written = MutexGuard::unlocked(parts, || write_frames(&socket, &mut frames));
            let state = &mut parts.state;
            let is_present = state.end_write(frames, || socket.has_room());
            if let (Err(error), true) = (written, is_present) {
                // The reader still delivers what the peer has sent before.
                state.close(error);
            }
            if state.is_blocked() {
                return self.wake.notify_one();
            }
            if is_present && !state.has_more() {
                return self.arm(state);
            }
        }
        parts.state.block();
        self.wake.notify_one();
    }

    /// Wakes the link's task if its timer would be too late.
    fn arm(&self, state: &mut LinkState) {
        if state.arm() {
            self.wake.notify_one();
        }
    }
}
