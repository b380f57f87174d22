//! A sequential bounded queue: what users of a channel should see.

use std::collections::VecDeque;

use stateright::semantics::SequentialSpec;

use super::Deed;

/// A bounded queue that one thread uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BoundedQueue {
    values: VecDeque<u8>,
    capacity: usize,
    is_closed: bool,
}

/// The result of a deed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Seen {
    Stored,
    Value(u8),
    Closed,
    /// The deed would wait: it takes effect later.
    Waits,
}

impl BoundedQueue {
    pub(super) fn new(capacity: usize) -> Self {
        BoundedQueue {
            values: VecDeque::new(),
            capacity,
            is_closed: false,
        }
    }

    fn none(&self) -> Seen {
        if self.is_closed { Seen::Closed } else { Seen::Waits }
    }
}

impl SequentialSpec for BoundedQueue {
    type Op = Deed;
    type Ret = Seen;

    fn invoke(&mut self, deed: &Deed) -> Seen {
        match deed {
            Deed::Put(_) if self.is_closed => Seen::Closed,
            Deed::Put(_) if self.values.len() >= self.capacity => Seen::Waits,
            Deed::Put(value) => {
                self.values.push_back(*value);
                Seen::Stored
            }
            Deed::Take | Deed::TakeAll => self.values.pop_front().map_or(self.none(), Seen::Value),
            Deed::Peek => self.values.front().copied().map_or(self.none(), Seen::Value),
            Deed::Close => {
                self.is_closed = true;
                Seen::Stored
            }
        }
    }
}
