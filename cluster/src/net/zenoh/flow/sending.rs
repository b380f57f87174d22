//! The direction of a flow in which this side writes.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use super::round_trip::RoundTrip;
use super::window::CongestionWindow;
use super::{BYTES_MAX, FRAGMENT_BYTES, FRAGMENTS};
use crate::net::zenoh::packet::{Fragment, Receipt};

/// The fragments behind a travelling one that have to be there until it counts as dropped: some may have overtaken it.
const OVERTAKEN_MAX: u64 = 3;

/// The bytes that this side has written, until the peer has them.
///
/// Bytes wait until a fragment of them may travel, and a fragment is kept until the peer says that it has all before it.
#[derive(Debug)]
pub(super) struct SendSide {
    /// The number of the oldest fragment that is kept.
    first: u64,
    kept: VecDeque<Kept>,
    waiting: VecDeque<Vec<u8>>,
    /// The bytes of those that are kept and those that wait.
    bytes: usize,
    is_ended: bool,
    is_end_sent: bool,
    /// Whether nobody reads at the other side.
    is_refused: bool,
    /// The peer takes no fragment from this number on.
    limit: u64,
    window: CongestionWindow,
    round_trip: RoundTrip,
    /// The number of transmissions so far.
    transmissions: u64,
    /// The last transmission when the window was made smaller: what was sent before tells no more of the way.
    shrunk: u64,
    /// When the peer is asked whether it takes more.
    ask_at: Option<Duration>,
    asks: bool,
}

#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    is_last: bool,
    state: KeptState,
    /// The last transmission of the fragment, and when that was.
    transmission: u64,
    sent: Duration,
    tries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptState {
    Travelling,
    Dropped,
    There,
}

impl SendSide {
    pub(super) fn new() -> Self {
        SendSide {
            first: 0,
            kept: VecDeque::new(),
            waiting: VecDeque::new(),
            bytes: 0,
            is_ended: false,
            is_end_sent: false,
            is_refused: false,
            limit: FRAGMENTS,
            window: CongestionWindow::new(),
            round_trip: RoundTrip::default(),
            transmissions: 0,
            shrunk: 0,
            ask_at: None,
            asks: false,
        }
    }

    /// Takes bytes as far as there is room, and returns their number.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(BYTES_MAX.saturating_sub(self.bytes));
        let (mut rest, _) = bytes.split_at(taken);
        while !rest.is_empty() {
            let room = |last: &&mut Vec<u8>| last.len() < FRAGMENT_BYTES;
            let Some(last) = self.waiting.back_mut().filter(room) else {
                self.waiting.push_back(Vec::new());
                continue;
            };
            let (now, later) = rest.split_at(rest.len().min(FRAGMENT_BYTES - last.len()));
            last.extend_from_slice(now);
            rest = later;
        }
        self.bytes += taken;
        taken
    }

    /// No more bytes are written.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
    }

    /// Forgets all bytes: nobody reads them.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
        self.kept.clear();
        self.waiting.clear();
        self.bytes = 0;
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the peer has all that it wants, the end included.
    pub(super) fn is_done(&self) -> bool {
        self.is_refused || (self.is_end_sent && self.kept.is_empty())
    }

    /// Whether the end was sent, and no byte.
    pub(super) fn has_sent_only_the_end(&self) -> bool {
        self.is_end_sent && self.first == 0 && self.kept.len() == 1 && self.bytes == 0
    }

    /// Whether an answer of the peer is waited for.
    pub(super) fn is_asking(&self) -> bool {
        !self.kept.is_empty() || self.ask_at.is_some()
    }

    /// The number of the next new fragment.
    fn next_number(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Whether there is something that was not sent yet.
    fn has_more(&self) -> bool {
        !self.is_refused && (!self.waiting.is_empty() || (self.is_ended && !self.is_end_sent))
    }

    fn travelling(&self) -> usize {
        let travelling = |kept: &&Kept| kept.state == KeptState::Travelling;
        self.kept.iter().filter(travelling).count()
    }

    /// The next fragment that is to be sent now.
    pub(super) fn next(&mut self, now: Duration) -> Option<Fragment<'_>> {
        if self.travelling() >= self.window.fragments() {
            return None;
        }
        let dropped = |kept: &Kept| kept.state == KeptState::Dropped;
        let index = match self.kept.iter().position(dropped) {
            Some(index) => index,
            None => self.begin_next()?,
        };
        self.transmissions += 1;
        let (number, transmission) = (self.first + index as u64, self.transmissions);
        let kept = self.kept.get_mut(index)?;
        kept.state = KeptState::Travelling;
        kept.sent = now;
        kept.transmission = transmission;
        kept.tries = kept.tries.saturating_add(1);
        Some(Fragment {
            number,
            is_last: kept.is_last,
            bytes: Cow::Borrowed(&kept.bytes),
        })
    }

    /// Makes the next fragment of the bytes that wait, and returns its index.
    fn begin_next(&mut self) -> Option<usize> {
        if !self.has_more() || self.next_number() >= self.limit {
            return None;
        }
        let bytes = self.waiting.pop_front().unwrap_or_default();
        let is_last = self.is_ended && self.waiting.is_empty();
        self.is_end_sent |= is_last;
        self.kept.push_back(Kept {
            bytes,
            is_last,
            state: KeptState::Dropped,
            transmission: 0,
            sent: Duration::ZERO,
            tries: 0,
        });
        Some(self.kept.len() - 1)
    }

    /// Whether the peer is to be asked now whether it takes more.
    pub(super) fn take_ask(&mut self) -> bool {
        std::mem::take(&mut self.asks)
    }

    /// The peer has said how far it is. What it cannot have received, it is not believed. Returns whether it has taken a fragment
    /// in order.
    pub(super) fn receive(&mut self, receipt: &Receipt, now: Duration) -> bool {
        if receipt.is_deaf {
            self.refuse();
        }
        if receipt.expected > self.next_number() || receipt.expected < self.first {
            return false;
        }
        let takes_more = receipt.expected > self.first;
        self.round_trip.answered();
        self.limit = self
            .limit
            .max(receipt.limit.min(receipt.expected.saturating_add(FRAGMENTS)));
        if self.next_number() < self.limit {
            self.ask_at = None;
        }
        let mut newest = 0;
        let mut delivered = |kept: &mut Kept| newest = newest.max(kept.transmission);
        while self.first < receipt.expected
            && let Some(mut kept) = self.kept.pop_front()
        {
            self.first += 1;
            self.bytes = self.bytes.saturating_sub(kept.bytes.len());
            kept.is_there(&mut self.window, &mut self.round_trip, now);
            delivered(&mut kept);
        }
        for (kept, offset) in self.kept.iter_mut().skip(1).zip(0..FRAGMENTS) {
            if receipt.beyond & (1 << offset) != 0 {
                kept.is_there(&mut self.window, &mut self.round_trip, now);
                delivered(kept);
            }
        }
        self.find_dropped(newest);
        takes_more
    }

    /// Finds the fragments that were dropped on the way: those that were sent well before one that is there.
    fn find_dropped(&mut self, newest: u64) {
        let overtaken = |kept: &&mut Kept| {
            kept.state == KeptState::Travelling && kept.transmission + OVERTAKEN_MAX <= newest
        };
        let mut last = 0;
        for kept in self.kept.iter_mut().filter(overtaken) {
            kept.state = KeptState::Dropped;
            last = last.max(kept.transmission);
        }
        if last > self.shrunk {
            self.shrunk = self.transmissions;
            self.window.dropped();
        }
    }

    /// The time for the next [`tick`](Self::tick).
    pub(super) fn deadline(&self) -> Option<Duration> {
        let travelling = self
            .kept
            .iter()
            .filter(|kept| kept.state == KeptState::Travelling);
        let oldest = travelling.map(|kept| kept.sent).min();
        let again = oldest.map(|sent| sent + self.round_trip.patience());
        again.into_iter().chain(self.ask_at).min()
    }

    /// Looks at what the time has brought: fragments without an answer, and a peer that takes no more and says nothing.
    pub(super) fn tick(&mut self, now: Duration) {
        let patience = self.round_trip.patience();
        let late = |kept: &Kept| kept.state == KeptState::Travelling && kept.sent + patience <= now;
        if self.kept.iter().any(late) {
            self.round_trip.unanswered();
            self.window.silent();
            self.shrunk = self.transmissions;
            self.again();
        }
        let is_held_up = self.kept.is_empty() && self.has_more() && self.next_number() >= self.limit;
        match self.ask_at {
            _ if !is_held_up => self.ask_at = None,
            None => self.ask_at = Some(now + patience),
            Some(at) if at <= now => {
                self.asks = true;
                self.round_trip.unanswered();
                self.ask_at = Some(now + self.round_trip.patience());
            }
            Some(_) => {}
        }
    }

    /// The way to the peer is there again: what has no answer is sent at once.
    pub(super) fn resume(&mut self) {
        self.round_trip.answered();
        self.again();
        self.asks |= self.ask_at.is_some();
    }

    fn again(&mut self) {
        let travelling = |kept: &&mut Kept| kept.state == KeptState::Travelling;
        for kept in self.kept.iter_mut().filter(travelling) {
            kept.state = KeptState::Dropped;
        }
    }
}

impl Kept {
    /// The peer has the fragment.
    fn is_there(&mut self, window: &mut CongestionWindow, round_trip: &mut RoundTrip, now: Duration) {
        if self.state == KeptState::There {
            return;
        }
        self.state = KeptState::There;
        window.delivered();
        if self.tries == 1 {
            round_trip.measured(now.saturating_sub(self.sent));
        }
    }
}
