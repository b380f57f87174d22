//! A link that is read in turns, by the thread that leads and by the link's task.

use super::lead::{LedLink, LinkLook};
use super::read_turn::{AfterTurn, ReadResult, ReadTurn};
use crate::platform::lead_poll::LeadPoll;
use crate::sync::Mutex;

/// The number of reads in a row by the thread that leads: those of a long body.
const READS_MAX: usize = 4096;

/// The stream of a link. Whoever has the turn reads it.
pub(super) trait TurnStream: Send + Sync {
    /// Reads once, and delivers what was read. `None` if the stream has ended: it is the task's from now on.
    fn read(&self) -> Option<ReadResult>;

    /// Wakes the link's task.
    fn wake_task(&self);

    /// Whether bytes can be seen without the system.
    fn is_watchable(&self) -> bool;

    /// Whether bytes of a watchable stream are there.
    fn has_bytes(&self) -> bool;

    /// The thread that leads looks for bytes from now on, so nobody is told of them.
    fn watch(&self);

    /// The thread that leads looks no more. Returns whether there are bytes, of which nobody is told.
    fn unwatch(&self) -> bool;

    /// Ends the wait of the thread that leads for this stream.
    fn leave(&self, poll: &LeadPoll);
}

/// A stream with the turn to read it, shared by all threads that may have the turn.
pub(super) struct TurnReader<S> {
    stream: S,
    turn: Mutex<ReadTurn>,
}

impl<S: TurnStream> TurnReader<S> {
    pub(super) fn new(stream: S) -> Self {
        TurnReader {
            stream,
            turn: Mutex::default(),
        }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Takes the turn; `false` if another thread has it, which then looks again.
    pub(super) fn begin(&self) -> bool {
        self.turn.lock().take()
    }

    /// Ends the turn; returns whether it goes on, because bytes have arrived meanwhile.
    fn end(&self) -> bool {
        let after = self.turn.lock().end();
        if after == AfterTurn::Wake {
            self.stream.wake_task();
        }
        after == AfterTurn::Again
    }

    /// Ends the turn, and leaves what may be there to the link's task.
    pub(super) fn leave(&self) {
        self.turn.lock().leave();
        self.stream.wake_task();
    }

    /// Whether bytes were left to the link's task.
    pub(super) fn take_left(&self) -> bool {
        self.turn.lock().take_left()
    }

    /// Begins the last turn, for the link's task. `false` if another thread has a turn, which wakes the task at its end.
    pub(super) fn begin_last(&self) -> bool {
        self.turn.lock().begin_last()
    }

    /// Reads what is there, a part of it in each call within the turn. Returns `false` if nothing is left, not even the end of the
    /// stream: the turn has ended then.
    pub(super) fn read_rest(&self) -> bool {
        let mut found = self.read();
        if found == ReadResult::Some {
            found = self.read();
        }
        found != ReadResult::Nothing || self.end()
    }

    /// Reads once, within the turn.
    fn read(&self) -> ReadResult {
        self.stream.read().unwrap_or_else(|| {
            // From now on only the link's task reads.
            self.turn.lock().begin_last();
            ReadResult::Nothing
        })
    }
}

impl<S: TurnStream> LedLink for TurnReader<S> {
    fn read_on(&self, goes_on: &dyn Fn() -> bool) {
        if !self.begin() {
            return;
        }
        let mut is_enough = ReadResult::Some;
        // A peer that writes as fast as this thread reads does not keep it from the other links.
        for _ in 0..READS_MAX {
            if self.read() <= is_enough {
                if !self.end() {
                    return;
                }
                // Another thread was told, perhaps of the end of the stream.
                is_enough = ReadResult::Nothing;
            }
            if !goes_on() {
                break;
            }
        }
        self.leave();
    }

    fn leave(&self, poll: &LeadPoll) {
        self.stream.leave(poll);
    }

    fn is_watchable(&self) -> bool {
        self.stream.is_watchable()
    }

    fn look(&self) -> LinkLook {
        // Those of a link that another thread reads are not for the leader.
        if self.stream.is_watchable() {
            return match self.stream.has_bytes() && self.turn.lock().is_free() {
                true => LinkLook::Bytes,
                false => LinkLook::Nothing,
            };
        }
        let mut turn = self.turn.lock();
        if !(turn.is_free() && turn.take()) {
            return LinkLook::Nothing;
        }
        drop(turn);
        let found = self.read();
        if self.end() {
            // Another thread was told, perhaps of the end of the stream.
            self.leave();
        }
        match found {
            ReadResult::Nothing => LinkLook::Nothing,
            ReadResult::Some | ReadResult::Full => LinkLook::Read,
        }
    }

    fn watch(&self) {
        self.stream.watch();
    }

    fn unwatch(&self) -> bool {
        if !self.stream.unwatch() {
            return false;
        }
        let mut turn = self.turn.lock();
        let is_free = turn.is_free();
        if !is_free {
            // Whoever has the turn looks again.
            turn.take();
        }
        is_free
    }

    fn leave_rest(&self) {
        // Whoever has the turn looks again.
        if self.begin() {
            TurnReader::leave(self);
        }
    }
}
