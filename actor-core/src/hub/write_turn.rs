//! The turn to write a link, which one thread has at a time. Plain data; [`LinkState`](super::link_state::LinkState) holds it.
//!
//! - `TURN-3`: a write that finds no room looks for it once more when it is noted that its frames wait. Whoever was told of room
//!   before has found nothing that waits, and nobody is told twice.
//! - `TURN-4`: the write of a connection that has ended changes nothing, and the next connection's write begins after it.

/// The turn to write a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteTurn {
    /// The connection to which a thread writes.
    holder: Option<u64>,
    rest: Remaining,
}

/// The frames that the last write has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Remaining {
    /// None, or the next thread with the turn writes them.
    #[default]
    Free,
    /// The link's task writes them when it is told of room.
    WaitsForRoom,
    /// The link's task writes them next: a socket that was not full tells of no room.
    IsTasks,
}

impl WriteTurn {
    /// Takes the turn, to write to this connection. `false` if another thread has it, or the link's task writes next.
    pub(super) fn take(&mut self, connection: u64) -> bool {
        let is_free = self.holder.is_none() && self.rest == Remaining::Free;
        if is_free {
            self.holder = Some(connection);
        }
        is_free
    }

    /// Ends the turn, in which the stream has taken all frames, or had no more room. Returns whether the write was to the connection
    /// that is present now, if there is one.
    pub(super) fn end(
        &mut self,
        present: Option<u64>,
        has_rest: bool,
        has_room: impl FnOnce() -> bool,
    ) -> bool {
        let holder = self.holder.take();
        if holder.is_none() || holder != present {
            return false;
        }
        self.rest = match has_rest && !has_room() {
            true => Remaining::WaitsForRoom,
            false => Remaining::Free,
        };
        true
    }

    /// Leaves what is there to the link's task.
    pub(super) fn leave(&mut self) {
        self.rest = Remaining::IsTasks;
    }

    /// Any thread may write next: the stream has room, or the connection has ended.
    pub(super) fn free(&mut self) {
        self.rest = Remaining::Free;
    }

    /// Whether the link's task writes next.
    pub(super) fn is_blocked(&self) -> bool {
        self.rest != Remaining::Free
    }

    /// Whether the link's task writes next without waiting for room.
    pub(super) fn is_left(&self) -> bool {
        self.rest == Remaining::IsTasks
    }
}
