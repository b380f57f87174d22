//! The place where a worker is reached.

use std::fmt;

use super::address::WorkerAddress;
use super::part_error::PartError;
use super::printable::excerpt;

/// The bytes of a place of a transport of the user's own at most.
const PLACE_BYTES_MAX: usize = 1024;

/// The place where a worker listens, as it announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerPlace {
    /// A port of TCP, under TLS or not.
    Address(WorkerAddress),
    /// A text that only the transport of the user's own understands.
    Own(String),
}

impl WorkerPlace {
    /// The place of a transport of the user's own.
    ///
    /// # Errors
    /// [`PartError::Place`]: the text is empty, longer than 1024 bytes, or has a control character, so that it would not be read as
    /// it was written.
    pub fn own(connect_at: &str) -> Result<Self, PartError> {
        let is_sound = (1..=PLACE_BYTES_MAX).contains(&connect_at.len())
            && connect_at.trim() == connect_at
            && !connect_at.contains(char::is_control);
        match is_sound {
            true => Ok(WorkerPlace::Own(connect_at.to_owned())),
            false => Err(PartError::Place(excerpt(connect_at))),
        }
    }
}

impl fmt::Display for WorkerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerPlace::Address(address) => address.fmt(f),
            WorkerPlace::Own(place) => f.write_str(place),
        }
    }
}
