//! The reasons that elements cannot be used.

use crate::error::SegmentError;
use crate::payload::DType;

/// The reason that elements of an array cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// A process looks at the array, so no part can be claimed.
    #[error(
        "the process with pid {pid} has a view of the array, and its elements must not change under it: claim a part when no view is open, \
         or write through the view"
    )]
    InUse {
        /// The system's number of the process.
        pid: u32,
    },
    /// A process has claimed its part, so it cannot be looked at, or claimed again.
    #[error(
        "the process with pid {pid} has claimed its part of the array: open a view when no part is claimed"
    )]
    Claimed {
        /// The system's number of the process.
        pid: u32,
    },
    /// The elements have another type.
    #[error("the elements are `{has:?}`, and were to be used as `{wanted:?}`")]
    WrongType {
        /// The type of the elements.
        has: DType,
        /// The type that was asked for.
        wanted: DType,
    },
    /// The bytes are no element of the array.
    #[error("an element has {wanted} bytes, and {has} were given")]
    WrongLength {
        /// The bytes that were given.
        has: usize,
        /// The bytes of an element.
        wanted: usize,
    },
    /// The array was opened for reading alone.
    #[error("the array was opened for reading alone: open its file in another mode")]
    ReadOnly,
    /// The element does not exist.
    #[error("element {index} is outside of an array of {len} elements")]
    OutOfBounds {
        /// The place of the element, in memory order.
        index: usize,
        /// The number of elements.
        len: usize,
    },
    /// A range of elements ends before it starts.
    #[error("the range {start}..{end} of elements ends before it starts: exchange its ends")]
    Reversed {
        /// The start of the range.
        start: usize,
        /// The end of the range.
        end: usize,
    },
    /// The memory cannot be had, or is not the array that was meant.
    #[error(transparent)]
    Memory(#[from] SegmentError),
}

crate::debug_is_report!(ArrayError);
