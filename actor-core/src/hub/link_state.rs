//! The state of a link to a peer: its session, the letters behind the window, and the frames that wait for the socket.
//! Plain data without input or output; [`PeerLink`](super::peer_link::PeerLink) holds it under a lock.

use std::collections::VecDeque;
use std::time::Duration;

use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::{Outcome, Packet, Received, Session};
use smallvec::SmallVec;

use super::breaks::Breaks;
use super::link_end::LinkEnd;
use super::post::{Letter, PostError};
use super::queue::{LetterQueue, NextLetter, is_long};
use super::settings::LinkSettings;
use super::tap::{ServiceTraffic, Tap};
use super::wire::{ArrivedFrame, OutgoingFrame};
use super::write_turn::WriteTurn;
use crate::body::Body;

/// The frames that wait for the socket at most, and their bytes; one frame of any size always fits.
const OUTBOX_FRAMES_MAX: usize = 64;
const OUTBOX_BYTES_MAX: usize = 256 << 10;

/// Letters by number, each with its fate.
pub(super) type Fates = Vec<(u64, Outcome)>;

/// The letters and chunks that one frame lets arrive: mostly one.
pub(super) type Arrived = SmallVec<[Letter; 1]>;

/// Bodies that the link needs no more. A drop may send a letter, for example if a body lies in a store's memory, and the letter
/// needs the lock of a link: whoever has the lock drops them after it.
#[derive(Default)]
pub(super) struct SpentBodies(Vec<Body>);

impl SpentBodies {
    fn add(&mut self, body: Body) {
        // Most bodies are short, and need no memory here.
        if body.is_shared() && !body.is_empty() {
            self.0.push(body);
        }
    }

    fn add_frames(&mut self, frames: impl IntoIterator<Item = OutgoingFrame>) {
        frames.into_iter().for_each(|frame| self.add(frame.into_body()));
    }
}

pub(super) struct LinkState {
    local: Peer,
    settings: LinkSettings,
    /// The session; `None` once the link has ended.
    session: Option<Session<Letter>>,
    /// Whether a socket carries the link.
    is_linked: bool,
    /// Whether the driver was asked for one.
    is_asked: bool,
    /// Letters that no session has yet.
    backlog: LetterQueue,
    /// The number of the last ordered letter.
    last: u64,
    /// The numbers of the letters that end with the messages in the session's window; 0 for a chunk that ends none.
    window: VecDeque<u64>,
    /// Frames that wait for the socket.
    outbox: VecDeque<OutgoingFrame>,
    outbox_bytes: usize,
    /// The number of the present connection, or of the last one.
    connection: u64,
    /// The connections that have broken in a row before a frame arrived.
    breaks: Breaks,
    write_turn: WriteTurn,
    /// Letters and bytes that have arrived since the last frame to the peer.
    unacknowledged: (u64, usize),
    /// The moment for which the link's task sets its timer.
    armed: Option<Duration>,
    /// Whether letters have arrived since the timer fired last.
    is_in_use: bool,
    /// Whether long letters from or to the peer have come further, since that was asked last.
    has_progressed: bool,
    /// The reason for which the link is about to end, or has ended.
    closing: Option<LinkEnd>,
    /// The fates of the letters that the peer has not acknowledged, from the end of the link to the announcement of the death.
    fates: Option<Fates>,
    /// Whether the link can go on over another connection.
    is_resumable: bool,
    /// The reason for which the connection is about to end, and the link is not.
    breaking: Option<LinkEnd>,
    spent: SpentBodies,
    tap: Tap,
}

impl LinkState {
    pub(super) fn new(local: Peer, remote: Peer, settings: LinkSettings) -> Self {
        LinkState {
            local,
            settings,
            session: Some(Session::new(local, remote, settings.session)),
            is_linked: false,
            is_asked: false,
            backlog: LetterQueue::default(),
            last: 0,
            window: VecDeque::new(),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            connection: 0,
            breaks: Breaks::default(),
            write_turn: WriteTurn::default(),
            unacknowledged: (0, 0),
            armed: None,
            is_in_use: false,
            has_progressed: false,
            closing: None,
            fates: None,
            is_resumable: false,
            breaking: None,
            spent: SpentBodies::default(),
            tap: Tap::default(),
        }
    }

    #[cfg(any(test, feature = "hosts"))]
    pub(super) fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Whether a first connection is needed and this is the first time that somebody asks.
    pub(super) fn is_first_need(&mut self) -> bool {
        self.connection == 0 && !std::mem::replace(&mut self.is_asked, true)
    }

    /// Whether a first connection was asked for, and has not come.
    #[cfg(feature = "hosts")]
    pub(super) fn is_asked_for(&self) -> bool {
        self.connection == 0 && self.is_asked && self.is_open()
    }

    /// Whether letters can still be sent.
    pub(super) fn is_open(&self) -> bool {
        self.session.is_some() && self.closing.is_none()
    }

    /// Whether the death of the peer is announced with its burial. The driver sees how a process with a pair ends, and tells all others how
    /// each process has ended, but nobody says that of the driver. A letter that is sent meanwhile is not sent, and whoever waits for
    /// its answer hears the same.
    pub(super) fn awaits_burial(&self, peer: Peer) -> bool {
        let is_told = match (&self.closing, self.local.process) {
            (Some(LinkEnd::Closed | LinkEnd::Reset), ProcessId::HEAD) => !self.is_resumable,
            (Some(LinkEnd::Closed | LinkEnd::Reset | LinkEnd::Lost(_)), _) => peer.process != ProcessId::HEAD,
            _ => false,
        };
        let is_announced = self.session.is_none() && self.fates.is_none();
        is_told && !is_announced
    }

    /// Accepts a letter and returns its number. [`begin_write`](Self::begin_write) sends it.
    pub(super) fn accept(&mut self, now: Duration, to: Peer, letter: Letter) -> Result<u64, PostError> {
        if let Err(error) = self.admits(to, &letter) {
            self.spent.add(letter.body);
            return Err(error);
        }
        let is_ordered = letter.class == Class::Ordered;
        self.last += u64::from(is_ordered);
        let number = if is_ordered { self.last } else { 0 };
        if self.backlog.is_empty() && !is_long(&letter) && self.takes_letters() {
            // Nothing is before it.
            self.hand_over(now, NextLetter::of(letter, number));
        } else {
            self.backlog.push(letter, number);
        }
        Ok(number)
    }

    /// Refuses a letter that cannot be sent.
    fn admits(&mut self, to: Peer, letter: &Letter) -> Result<(), PostError> {
        if !self.is_open() && !self.awaits_burial(to) {
            return Err(PostError::Dead(to));
        }
        self.settings.check(letter)?;
        let limit = self.settings.backlog_bytes_max;
        let (bytes, waiting) = self.backlog.load(letter);
        if waiting > 0 && waiting.saturating_add(bytes) > limit {
            return Err(PostError::Full {
                peer: to,
                bytes: waiting,
                limit,
            });
        }
        Ok(())
    }

    /// The bodies that the link needs no more.
    pub(super) fn take_spent(&mut self) -> SpentBodies {
        std::mem::take(&mut self.spent)
    }

    /// A socket carries the link from now on. Returns `false`, and changes nothing, if another one does or if the link is
    /// about to end.
    pub(super) fn connect(&mut self, now: Duration) -> bool {
        if self.is_linked || !self.is_open() {
            return false;
        }
        let Some(session) = &mut self.session else {
            return false;
        };
        let Ok(packets) = session.connected(now, session.remote()) else {
            return false;
        };
        self.is_linked = true;
        self.connection += 1;
        self.breaks.connected(now);
        self.transmit(packets);
        true
    }

    /// Notes a first connection, which carries nothing.
    #[cfg(all(test, feature = "hosts"))]
    pub(super) fn note_made(&mut self) {
        self.connection = self.connection.max(1);
    }

    /// The link can go on over another connection from now on.
    #[cfg(any(test, feature = "hosts"))]
    pub(super) fn set_resumable(&mut self) {
        self.is_resumable = true;
    }

    /// Whether the link can go on over another connection.
    pub(super) fn is_resumable(&self) -> bool {
        self.is_resumable
    }

    /// The connection has ended for this reason. Returns the connection's number if the link goes on, and waits for another
    /// one; the frames that were not written are sent again then, as far as they are not acknowledged.
    pub(super) fn disconnect(&mut self, now: Duration, why: &LinkEnd) -> Option<u64> {
        if !self.is_resumable || !self.is_open() || !why.is_of_connection() {
            return None;
        }
        let awaits_nothing = self.window.is_empty() && !self.has_more();
        self.session.as_mut()?.disconnected();
        self.is_linked = false;
        self.breaks.broken(now, awaits_nothing);
        self.unblock();
        self.breaking = None;
        self.clear_outbox();
        self.armed = None;
        Some(self.connection)
    }

    /// The number of the present connection, or of the last one.
    pub(super) fn connection(&self) -> u64 {
        self.connection
    }

    /// The connections that have broken in a row before a frame arrived.
    pub(super) fn breaks(&self) -> &Breaks {
        &self.breaks
    }

    /// Whether the link waits for another connection.
    pub(super) fn is_broken(&self) -> bool {
        self.is_open() && !self.is_linked && self.connection > 0
    }

    /// The frames to write next. The caller writes them to the socket and calls [`end_write`](Self::end_write). `None` if
    /// there is nothing to write, or if another thread writes or will write it.
    pub(super) fn begin_write(&mut self, now: Duration) -> Option<VecDeque<OutgoingFrame>> {
        self.pump(now);
        self.acknowledge(now);
        if self.outbox.is_empty() || !self.write_turn.take(self.connection) {
            return None;
        }
        self.outbox_bytes = 0;
        Some(std::mem::take(&mut self.outbox))
    }

    /// Ends a write, of which `rest` is left because the socket had no more room. `has_room` looks once more: whoever was told of room
    /// meanwhile has found nothing that waits for it. Returns whether the write was to the present connection.
    pub(super) fn end_write(
        &mut self,
        mut rest: VecDeque<OutgoingFrame>,
        has_room: impl FnOnce() -> bool,
    ) -> bool {
        let present = self.is_linked.then_some(self.connection);
        if !self.write_turn.end(present, !rest.is_empty(), has_room) {
            // The connection has ended. The session sends again what matters.
            self.spent.add_frames(rest);
            return false;
        }
        self.outbox_bytes += rest.iter().map(OutgoingFrame::len).sum::<usize>();
        if !self.outbox.is_empty() {
            rest.append(&mut self.outbox);
        }
        self.outbox = rest;
        true
    }

    /// Whether there is something to write, now or when the window has room.
    pub(super) fn has_more(&self) -> bool {
        !(self.outbox.is_empty() && self.backlog.is_empty())
    }

    /// Leaves all further writes to the link's task.
    pub(super) fn block(&mut self) {
        self.write_turn.leave();
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.write_turn.is_blocked()
    }

    /// Whether the link's task writes next without waiting for room: a socket that was not full tells of none.
    pub(super) fn is_left(&self) -> bool {
        self.write_turn.is_left()
    }

    /// The socket has room again.
    pub(super) fn unblock(&mut self) {
        self.write_turn.free();
    }

    /// A frame has arrived. Returns the letters and chunks to deliver, in order.
    pub(super) fn arrived(&mut self, now: Duration, frame: ArrivedFrame) -> Result<Arrived, LinkEnd> {
        let is_cut = self.closing.as_ref().is_some_and(|end| !end.drains());
        let Some(session) = self.session.as_mut().filter(|_| !is_cut) else {
            let letter = frame.packet.content.into_message();
            letter.into_iter().for_each(|letter| self.spent.add(letter.body));
            return Ok(Arrived::new());
        };
        self.breaks.arrived();
        self.tap.note_received(frame.service, frame.bytes);
        let Received {
            settled,
            messages: letters,
        } = session.received_keeping(now, frame.packet, frame.bytes, |letter| {
            self.spent.add(letter.body);
        })?;
        let settled = settled.count().min(self.window.len());
        self.window.drain(..settled);
        if settled > 0 && !self.window.is_empty() {
            self.note_progress();
        }
        if !letters.is_empty() {
            self.unacknowledged.0 += letters.len() as u64;
            self.unacknowledged.1 += frame.bytes;
            self.is_in_use = true;
        }
        Ok(letters)
    }

    /// A part of an unfinished body has arrived, or the peer has acknowledged some of the letters that are on their way to it.
    pub(super) fn note_progress(&mut self) {
        self.has_progressed = true;
    }

    /// Whether there was progress since the last call.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progressed)
    }

    /// Whether the link has something to do beside what is sent anyway: to write, to acknowledge, to set its timer, or to end.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        let is_timed = self
            .deadline()
            .is_some_and(|due| due <= now || self.is_before_timer(due));
        is_timed || self.has_more() || self.is_blocked() || self.owes_much() || !self.is_open()
    }

    /// The timer has fired. [`begin_write`](Self::begin_write) sends what is due. A link in use keeps its timer, for the moment that the
    /// next letter would set: so no thread that reads one has to wake the link's task.
    pub(super) fn fired(&mut self, now: Duration) {
        let next = now.saturating_add(self.settings.session.acknowledge_after);
        self.armed = std::mem::take(&mut self.is_in_use).then_some(next);
    }

    /// Sets the timer for an earlier moment, if something is due before it. Returns whether the link's task has to be told.
    /// A timer that is set for an earlier moment stays as it is, because most acknowledgements are sent with other frames
    /// before they are due.
    pub(super) fn arm(&mut self) -> bool {
        let earlier = self.deadline().filter(|due| self.is_before_timer(*due));
        self.armed = earlier.or(self.armed);
        earlier.is_some()
    }

    /// The moment for which the timer is set, whose end the link's task reports to [`fired`](Self::fired).
    pub(super) fn armed(&self) -> Option<Duration> {
        self.armed
    }

    /// Whether the timer would be too late for what is due then.
    fn is_before_timer(&self, due: Duration) -> bool {
        self.armed.is_none_or(|armed| due < armed)
    }

    fn deadline(&self) -> Option<Duration> {
        // What is due while the outbox is full is sent when there is room.
        let session = self.session.as_ref().filter(|_| self.has_room());
        let deadline = session.and_then(Session::deadline);
        // The longest time stands for never.
        deadline.filter(|due| *due < Duration::MAX)
    }

    /// Begins to end the link; the first reason counts. Returns whether nobody reads the link, so that the caller ends it.
    pub(super) fn close(&mut self, why: LinkEnd) -> bool {
        if self.is_resumable && self.connection > 0 && why.is_of_connection() {
            // An error of a connection that has ended changes nothing: the link waits for the next one.
            if self.is_linked {
                self.breaking.get_or_insert(why);
            }
            return false;
        }
        self.closing.get_or_insert(why);
        !self.is_linked
    }

    /// The reason for which the link, or its connection, is about to end.
    pub(super) fn closing(&self) -> Option<&LinkEnd> {
        self.closing.as_ref().or(self.breaking.as_ref())
    }

    /// Ends the link for this reason; false if it has ended before.
    pub(super) fn end(&mut self, why: LinkEnd) -> bool {
        let Some(session) = self.session.take() else {
            return false;
        };
        self.closing = Some(why);
        let outcomes = session.end_keeping(|letter| self.spent.add(letter.body));
        let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome);
        let ends = self.window.drain(..).zip(outcomes);
        let mut fates: Fates = ends.filter(|(number, _)| *number > 0).collect();
        fates.extend(self.unsent());
        self.clear_outbox();
        self.fates = Some(fates);
        true
    }

    /// The death of the peer is announced. Returns the fates of the letters that it has not acknowledged; `None` if the link has not
    /// ended, or the death was announced before.
    pub(super) fn announce(&mut self) -> Option<Fates> {
        let mut fates = self.fates.take()?;
        fates.extend(self.unsent());
        fates.sort_unstable_by_key(|(number, _)| *number);
        Some(fates)
    }

    fn unsent(&mut self) -> impl Iterator<Item = (u64, Outcome)> + use<> {
        let numbers = self.backlog.clear(|letter| self.spent.add(letter.body));
        numbers.into_iter().map(|number| (number, Outcome::NotSent))
    }

    fn clear_outbox(&mut self) {
        self.spent.add_frames(self.outbox.drain(..));
        self.outbox_bytes = 0;
    }

    pub(super) fn traffic(&self) -> Vec<(Service, ServiceTraffic)> {
        self.tap.counts()
    }

    /// Hands letters to the session as long as its window and the outbox have room.
    fn pump(&mut self, now: Duration) {
        while self.takes_letters() && !self.backlog.is_empty() {
            let Some(next) = self.backlog.pop() else { return };
            if !self.hand_over(now, next) {
                return;
            }
        }
    }

    /// Whether the session may get another letter.
    fn takes_letters(&self) -> bool {
        let goes_on = self.is_linked && self.is_open() && self.breaking.is_none();
        goes_on && self.has_room()
    }

    /// Hands a letter to the session, or puts it back to the backlog. Returns whether the session has taken it.
    fn hand_over(&mut self, now: Duration, next: NextLetter) -> bool {
        let Some(session) = &mut self.session else {
            return false;
        };
        let NextLetter {
            letter,
            number,
            bytes,
        } = next;
        let packet = match letter.class {
            Class::Ordered | Class::Chunk => match session.send(now, letter, bytes) {
                Ok((_, packet)) => {
                    self.window.push_back(number);
                    packet
                }
                Err(full) => {
                    let letter = full.message;
                    self.backlog.put_back(NextLetter {
                        letter,
                        number,
                        bytes,
                    });
                    return false;
                }
            },
            Class::Loose | Class::Acknowledgement => session.send_loose(letter),
        };
        self.transmit(packet);
        true
    }

    /// Sends the acknowledgement that is owed: at its time, or at once if half the window is taken, so that a peer which only
    /// sends never waits for the timer. While the outbox is full, a peer that reads nothing gets no more of them.
    fn acknowledge(&mut self, now: Duration) {
        let (owes_much, has_room) = (self.owes_much(), self.has_room());
        let Some(session) = self.session.as_mut().filter(|_| has_room) else {
            return;
        };
        let packets = match owes_much {
            true => session.acknowledge().into_iter().collect(),
            false if session.deadline().is_some_and(|due| due <= now) => session.tick(now),
            false => return,
        };
        self.transmit(packets);
    }

    /// Whether the letters that are to be acknowledged take half the window.
    fn owes_much(&self) -> bool {
        let (letters, bytes) = self.unacknowledged;
        let window = &self.settings.session;
        letters >= window.frames_max.div_ceil(2) || bytes >= window.bytes_max / 2
    }

    fn has_room(&self) -> bool {
        self.outbox.len() < OUTBOX_FRAMES_MAX && self.outbox_bytes < OUTBOX_BYTES_MAX
    }

    fn transmit(&mut self, packets: impl IntoIterator<Item = Packet<Letter>>) {
        for packet in packets {
            let frame = OutgoingFrame::new(packet);
            self.tap.note_sent(frame.service, frame.len());
            self.outbox_bytes += frame.len();
            self.outbox.push_back(frame);
            self.unacknowledged = (0, 0);
        }
    }
}

#[cfg(test)]
#[path = "link_state_tests.rs"]
mod link_state_tests;
