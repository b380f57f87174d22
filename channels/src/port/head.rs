//! The heads of a lane's ends: the first part of every [`Value`](crate::Value) and [`Outlet`](crate::Outlet), which can
//! be read without knowing its type.
//!
//! In every execution, a lane asks each of its values several times whether its message has arrived and whether it may
//! be released. The answers are in the head, where they are read without a virtual call and without the value's type.

use std::any::TypeId;

use crate::error::ChannelError;
use crate::kind::Arrival;

/// The number of reads of a value that is the same in every execution.
pub(crate) const ALWAYS: u32 = u32::MAX;

/// The untyped part of a value.
#[derive(Debug)]
pub(crate) struct ValueHead {
    /// The type of the value.
    pub(crate) id: TypeId,
    /// The execution that the held message belongs to.
    pub(crate) execution: u64,
    /// The number of reads in every execution, or [`ALWAYS`].
    pub(crate) reads: u32,
    /// The number of reads of the held message that are still to come; 0 if no message is held.
    pub(crate) left: u32,
    /// The kind of message that is held, if `left` is not 0.
    pub(crate) arrival: Arrival,
    /// True if the value has been moved out: nothing is left to be released.
    pub(crate) vacant: bool,
    /// True for a local value, which a task of the same lane puts, and for a constant.
    pub(crate) local: bool,
    /// True for a local value without a destructor, and for a constant. No writer waits for a slot of it and no user
    /// code runs on its release, so the release may be delayed.
    pub(crate) at_home: bool,
}

/// The action that is due after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRead {
    /// No action: other reads follow, or the value has been moved out.
    Nothing,
    /// The value has to be released.
    Release,
}

impl ValueHead {
    pub(crate) fn new(id: TypeId, reads: u32, local: bool, at_home: bool) -> Self {
        ValueHead {
            id,
            execution: 0,
            reads,
            left: 0,
            arrival: Arrival::Nothing,
            vacant: false,
            local,
            at_home,
        }
    }

    /// Whether the release of the value has no effect outside this end, so that it may be delayed.
    #[inline]
    pub(crate) fn owes_nothing(&self) -> bool {
        self.at_home || self.left == 0 || (self.left == 1 && self.vacant)
    }

    /// Records the message that has arrived.
    #[inline]
    pub(crate) fn arrived(&mut self, execution: u64, arrival: Arrival) {
        self.execution = execution;
        self.left = self.reads;
        self.arrival = arrival;
        self.vacant = false;
    }

    /// Whether the value of `execution` is held.
    #[inline]
    pub(crate) fn is_there(&self, execution: u64) -> bool {
        self.left > 0 && self.execution == execution && self.arrival == Arrival::Value
    }

    /// Counts one read, if the value need not be released after it. Else returns `false`, with nothing changed.
    #[inline]
    pub(crate) fn try_read_done(&mut self) -> bool {
        let counts = self.left > 1 || (self.left == 1 && self.vacant);
        if counts && self.left != ALWAYS {
            self.left -= 1;
        }
        counts
    }

    /// The kind of message that is held for `execution`, if one is.
    #[inline]
    pub(crate) fn held(&self, execution: u64) -> Option<Arrival> {
        (self.left > 0 && self.execution == execution).then_some(self.arrival)
    }

    /// Counts one read. Returns the action that is due after it.
    #[inline]
    pub(crate) fn read_done(&mut self) -> Result<AfterRead, ChannelError> {
        if self.try_read_done() {
            return Ok(AfterRead::Nothing);
        }
        match self.left {
            0 => Err(ChannelError::NoValue),
            _ => Ok(AfterRead::Release),
        }
    }
}

/// The untyped part of an outlet.
#[derive(Debug)]
pub(crate) struct OutletHead {
    /// The type of the outlet's values.
    pub(crate) id: TypeId,
    /// The index of the local value that is one of the routes.
    pub(crate) local: Option<usize>,
    /// True if the local value is the only route and no schema has to be checked.
    pub(crate) within: bool,
    /// True if there is at most one route, and publishing on it runs no user code.
    pub(crate) only_moves: bool,
}
