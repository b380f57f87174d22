//! What is known of a lane's ends without their types: the first part of every [`Value`](crate::Value) and
//! [`Outlet`](crate::Outlet).
//!
//! A lane asks each of its values several times in every execution whether its message has come and whether it may be given
//! back. The answers lie here, where they are read without a call and without the value's type.

use std::any::TypeId;

use crate::error::ChannelError;
use crate::value::Arrival;

/// Reads of a value that is the same in every execution.
pub(crate) const ALWAYS: u32 = u32::MAX;

/// The untyped part of a value.
#[derive(Debug)]
pub(crate) struct ValueHead {
    /// The type of what it holds.
    pub(crate) id: TypeId,
    /// The execution that is held.
    pub(crate) execution: u64,
    /// Reads in every execution, or [`ALWAYS`].
    pub(crate) reads: u32,
    /// Reads that are still to be done of what is held; 0 where nothing is.
    pub(crate) left: u32,
    /// What is held, where `left` is not 0.
    pub(crate) arrival: Arrival,
    /// What was held has been moved out: there is nothing to be given back.
    pub(crate) vacant: bool,
    /// It does not come from elsewhere and has no destructor: nobody notices when it is given back.
    pub(crate) at_home: bool,
}

/// What is to be done when a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRead {
    /// Nothing: others read it too, or it has been moved out.
    Nothing,
    /// It is to be given back.
    GiveBack,
}

impl ValueHead {
    pub(crate) fn new(id: TypeId, reads: u32, at_home: bool) -> Self {
        ValueHead {
            id,
            execution: 0,
            reads,
            left: 0,
            arrival: Arrival::Nothing,
            vacant: false,
            at_home,
        }
    }

    /// Whether nobody notices when what is held is given back.
    #[inline]
    pub(crate) fn owes_nothing(&self) -> bool {
        self.at_home || self.left == 0 || (self.left == 1 && self.vacant)
    }

    /// Takes note of what has come.
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

    /// One read is done, where nothing follows from it but a count.
    #[inline]
    pub(crate) fn count_read(&mut self) -> bool {
        let counts = self.left > 1 || (self.left == 1 && self.vacant);
        if counts && self.left != ALWAYS {
            self.left -= 1;
        }
        counts
    }

    /// What is held of `execution`.
    #[inline]
    pub(crate) fn held(&self, execution: u64) -> Option<Arrival> {
        (self.left > 0 && self.execution == execution).then_some(self.arrival)
    }

    /// One read is done.
    #[inline]
    pub(crate) fn read_done(&mut self) -> Result<AfterRead, ChannelError> {
        if self.count_read() {
            return Ok(AfterRead::Nothing);
        }
        match self.left {
            0 => Err(ChannelError::NoValue),
            _ => Ok(AfterRead::GiveBack),
        }
    }
}

/// The untyped part of an outlet.
#[derive(Debug)]
pub(crate) struct OutletHead {
    /// The type of what it takes.
    pub(crate) id: TypeId,
    /// Index of the local value it goes to.
    pub(crate) local: Option<usize>,
    /// It goes there and nowhere else, and nothing is agreed that would have to be looked at.
    pub(crate) within: bool,
    /// There is one route at most, and publishing on it runs none of the user's code.
    pub(crate) only_moves: bool,
}
