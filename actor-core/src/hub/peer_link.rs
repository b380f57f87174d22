//! The link to one peer: its state under a lock, and the socket, to which whoever has an event writes.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use selvedge_cluster::frame::Service;
use selvedge_cluster::peer::Peer;
use tokio::sync::Notify;

use super::link_end::LinkEnd;
use super::link_state::{Fates, LinkState};
use super::post::{Letter, PostError};
use super::settings::LinkSettings;
use super::tap::ServiceTraffic;
use super::wire::{ArrivedFrame, OutgoingFrame};
use crate::platform::lead_poll::LeadPoll;
use crate::platform::peer_socket::{PeerSocket, ReadInto};

/// The number of writes that a thread performs in a row, of its own frames and those that other threads add meanwhile.
/// After that, the link's task goes on.
const WRITES_MAX: usize = 16;

/// The parts of frames in one vectored write.
const SLICES_MAX: usize = 32;

/// The link to one incarnation of a process, from the first letter or notice to the incarnation's end.
pub(super) struct PeerLink {
    peer: Peer,
    /// The moment from which the session counts its time.
    epoch: Instant,
    state: Mutex<LinkState>,
    socket: OnceLock<PeerSocket>,
    /// Wakes the link's task.
    wake: Notify,
}

/// The events that the link's task waits for, beside bytes.
pub(super) struct TaskWait {
    pub(super) closing: Option<LinkEnd>,
    /// Whether frames wait for room in the socket.
    pub(super) for_room: bool,
    pub(super) until: Option<Instant>,
}

impl PeerLink {
    pub(super) fn new(local: Peer, peer: Peer, settings: LinkSettings) -> Self {
        PeerLink {
            peer,
            epoch: Instant::now(),
            state: Mutex::new(LinkState::new(local, peer, settings)),
            socket: OnceLock::new(),
            wake: Notify::new(),
        }
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> Option<&PeerSocket> {
        self.socket.get()
    }

    pub(super) fn is_linked(&self) -> bool {
        self.state.lock().is_linked()
    }

    /// Whether a socket is needed and this is the first time that somebody asks.
    pub(super) fn is_first_need(&self) -> bool {
        self.state.lock().is_first_need()
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.lock().is_open()
    }

    /// Sends a letter, on the calling thread as far as the socket has room.
    pub(super) fn send(&self, letter: Letter) -> Result<u64, PostError> {
        let mut state = self.state.lock();
        let number = state.accept(self.peer, letter)?;
        self.write(state);
        Ok(number)
    }

    /// Puts a socket under the link, unless the link has one or is about to end. Returns whether the socket is used; the
    /// caller then starts the reader.
    pub(super) fn connect(&self, socket: PeerSocket) -> bool {
        let mut state = self.state.lock();
        if !state.connect(self.now()) {
            return false;
        }
        // The state was not linked before, so there is no other socket.
        let _ = self.socket.set(socket);
        self.write(state);
        true
    }

    /// A frame has arrived. Returns the letters and chunks to deliver, in order.
    pub(super) fn arrived(&self, frame: ArrivedFrame) -> Result<Vec<Arc<Letter>>, LinkEnd> {
        self.state.lock().arrived(self.now(), frame)
    }

    /// All frames that have arrived are delivered: acknowledges them if that is due. Returns whether the link goes on.
    pub(super) fn delivered(&self) -> bool {
        let state = self.state.lock();
        let goes_on = state.is_open();
        self.write(state);
        goes_on
    }

    /// Reads from the socket.
    pub(super) fn read(&self, into: ReadInto<'_>) -> io::Result<usize> {
        match self.socket.get() {
            Some(socket) => socket.try_read(into),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// The task's timer has fired. Performs what is due.
    pub(super) fn tick(&self) {
        let mut state = self.state.lock();
        state.disarm();
        self.write(state);
    }

    /// The socket has room.
    pub(super) fn has_room(&self) {
        let mut state = self.state.lock();
        state.unblock();
        self.write(state);
    }

    /// The events that the link's task waits for.
    pub(super) fn task_wait(&self) -> TaskWait {
        let state = self.state.lock();
        let until = state.armed().and_then(|due| self.epoch.checked_add(due));
        TaskWait {
            closing: state.closing().cloned(),
            for_room: state.is_blocked(),
            until,
        }
    }

    /// Begins to end the link. Returns whether nobody reads the link, so that the caller ends it.
    pub(super) fn close(&self, why: LinkEnd) -> bool {
        let is_unread = self.state.lock().close(why);
        self.wake.notify_one();
        is_unread
    }

    /// Ends the link. Returns the fates of the letters that the peer has not acknowledged; `None` if it has ended before.
    pub(super) fn end(&self) -> Option<Fates> {
        let fates = self.state.lock().end();
        if let Some(socket) = self.socket.get() {
            socket.close();
        }
        fates
    }

    /// Ends the waits of the thread that leads for this link.
    pub(super) fn leave(&self, poll: &LeadPoll) {
        if let Some(socket) = self.socket.get() {
            socket.leave(poll);
        }
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
        self.state.lock().traffic()
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Writes the frames that wait, unless another thread does, which then writes these too. The lock is not held during
    /// a system call.
    fn write(&self, state: MutexGuard<'_, LinkState>) {
        if let Some(socket) = self.socket.get() {
            self.write_to(socket, state);
        }
    }

    fn write_to(&self, socket: &PeerSocket, mut state: MutexGuard<'_, LinkState>) {
        for _ in 0..WRITES_MAX {
            let Some(mut frames) = state.begin_write(self.now()) else {
                if state.arm() {
                    self.wake.notify_one();
                }
                return;
            };
            let written = MutexGuard::unlocked(&mut state, || write_frames(socket, &mut frames));
            state.end_write(frames);
            if let Err(error) = written {
                // The reader still delivers what the peer has sent before.
                state.close(error);
            }
            if state.is_blocked() {
                return self.wake.notify_one();
            }
        }
        state.block();
        self.wake.notify_one();
    }
}

/// Writes frames until the socket has no more room, and removes those that are written.
fn write_frames(socket: &PeerSocket, frames: &mut VecDeque<OutgoingFrame>) -> Result<(), LinkEnd> {
    while !frames.is_empty() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let parts = frames.iter().flat_map(OutgoingFrame::rest);
        let places = slices.iter_mut().zip(parts);
        let used = places.map(|(place, part)| *place = IoSlice::new(part)).count();
        let mut written = match socket.try_write(slices.get(..used).unwrap_or_default()) {
            Ok(written) => written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        while let Some(frame) = frames.front_mut() {
            written = frame.advance(written);
            if !frame.is_written() {
                break;
            }
            frames.pop_front();
        }
    }
    Ok(())
}
