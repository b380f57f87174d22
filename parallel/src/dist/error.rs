//! The reasons that distributed arrays cannot be worked at.

use selvedge_core::{CallError, FetchError};

use crate::error::PoolError;

/// The reason that distributed arrays cannot be worked at.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DistError {
    /// The elements do not make whole rows.
    #[error("{len} elements do not make rows of {width}")]
    Rows {
        /// The number of elements.
        len: usize,
        /// The length of a row.
        width: usize,
    },
    /// Two arrays are split in different ways.
    #[error("the arrays are split in different ways: distribute both over one pool, with as many elements")]
    Different,
    /// A function gave another number of elements than it got.
    #[error(
        "part {part} has {has} elements instead of {wanted}: the function of a map returns as many as it gets"
    )]
    WrongLength {
        /// The place of the part.
        part: usize,
        /// The elements that it has.
        has: usize,
        /// The elements that it should have.
        wanted: usize,
    },
    /// No worker was there for the parts.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A part was not made, or is lost.
    #[error(transparent)]
    Part(#[from] FetchError),
    /// The call for a part gave no value.
    #[error(transparent)]
    Call(#[from] CallError),
}

selvedge_channels::debug_is_report!(DistError);
