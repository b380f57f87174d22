//! Work with a time at which it is due, in the order of the times. All of it is numbered alike, so that one tree serves for all.

use std::time::Duration;

use selvedge_cluster::id_map::IdKey;
use selvedge_cluster::peer::Peer;

use super::{Message, RefId};

/// A question, and the time of its repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Repetition {
    pub(super) due: Duration,
    pub(super) question: Message,
}

impl IdKey for Repetition {
    type Number = (Duration, Message);

    fn number(self) -> (Duration, Message) {
        (self.due, self.question)
    }
}

/// A result that its owner has to confirm, and the time until which it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Creation {
    pub(super) due: Duration,
    pub(super) id: RefId,
}

impl IdKey for Creation {
    type Number = (Duration, Message);

    fn number(self) -> (Duration, Message) {
        let (id, number) = (self.id, self.id.number);
        (self.due, Message::Fork { id, number })
    }
}

/// A peer whose link has something to do at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkDue {
    pub(super) due: Duration,
    pub(super) peer: Peer,
}

impl IdKey for LinkDue {
    type Number = (Duration, Message);

    fn number(self) -> (Duration, Message) {
        let id = RefId {
            owner: self.peer,
            creator: self.peer,
            number: 0,
        };
        (self.due, Message::Fork { id, number: 0 })
    }
}
