//! The turn to read a link, which one thread has at a time. Plain data; [`TurnReader`](super::turn_reader::TurnReader) holds
//! it under a lock.
//!
//! - `TURN-1`: whoever finds bytes while another thread has the turn makes it look again, so no bytes are left unread.
//!   Whoever looks again reads until nothing is left: the other thread may have been told of the end of the stream, which no
//!   short read reveals.
//! - `TURN-2`: the last turn begins when nobody has one, and no other follows it.

/// The turn to read a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ReadTurn {
    state: TurnState,
    /// Whether a reader has left bytes to the link's task.
    is_left: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum TurnState {
    #[default]
    Free,
    Taken,
    /// Another thread has found bytes meanwhile.
    TakenAgain,
    /// The link's task waits for the last turn.
    TakenLast,
    /// The last turn.
    Over,
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum ReadResult {
    /// No bytes are left, and the stream goes on.
    Nothing,
    /// Fewer bytes than could be read. No more are left, but the end of the stream may be.
    Some,
    /// All the bytes that could be read.
    Full,
}

/// The step that follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterTurn {
    /// Nothing.
    Nothing,
    /// The turn goes on.
    Again,
    /// The link's task has to be woken.
    Wake,
}

impl ReadTurn {
    /// Takes the turn for bytes that may be there. `false` if somebody has it, who looks again then.
    pub(super) fn take(&mut self) -> bool {
        match self.state {
            TurnState::Free => self.state = TurnState::Taken,
            TurnState::Taken => {
                self.state = TurnState::TakenAgain;
                return false;
            }
            TurnState::TakenAgain | TurnState::TakenLast | TurnState::Over => return false,
        }
        true
    }

    /// Ends the turn, as all bytes are read.
    pub(super) fn end(&mut self) -> AfterTurn {
        match self.state {
            TurnState::TakenAgain => {
                self.state = TurnState::Taken;
                AfterTurn::Again
            }
            TurnState::TakenLast => {
                self.state = TurnState::Free;
                AfterTurn::Wake
            }
            TurnState::Taken | TurnState::Free => {
                self.state = TurnState::Free;
                AfterTurn::Nothing
            }
            TurnState::Over => AfterTurn::Nothing,
        }
    }

    /// Ends the turn and leaves bytes to the link's task, which has to be woken.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
        self.state = TurnState::Free;
    }

    /// Whether nobody has the turn.
    pub(super) fn is_free(&self) -> bool {
        self.state == TurnState::Free
    }

    /// Whether bytes were left since the last call.
    pub(super) fn take_left(&mut self) -> bool {
        std::mem::take(&mut self.is_left)
    }

    /// Begins the last turn. `false` if somebody has a turn, whose end is told then.
    pub(super) fn begin_last(&mut self) -> bool {
        self.state = match self.state {
            TurnState::Free | TurnState::Over => TurnState::Over,
            _ => TurnState::TakenLast,
        };
        self.state == TurnState::Over
    }
}

#[cfg(test)]
#[path = "read_turn_tests.rs"]
mod read_turn_tests;
