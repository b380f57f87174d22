//! The askers of a store, and their answers.

use bytes::Bytes;
use selvedge_objects::store::StoreError;

use super::host_store::HostStore;
use super::message::{LentSpot, ObjectSpot};

/// An asker of the store, with the callback that gets the answer.
pub(super) enum StoreAsker {
    /// Wants memory to fill.
    Borrower(Box<dyn FnOnce(Result<LentSpot, StoreError>) + Send>),
    /// Wants an object to read, and gives back what it does not use.
    Reader(Box<dyn FnOnce(Result<ObjectSpot, StoreError>) + Send>),
    /// Wants a part of an object, to send it to another host.
    PartReader(PartRange, Box<dyn FnOnce(Result<Bytes, StoreError>) + Send>),
}

/// A part of an object: the first byte, and the one behind the last.
pub(super) type PartRange = std::ops::Range<usize>;

/// The answer that an asker gets.
pub(super) enum Given {
    Lent(LentSpot),
    Granted(ObjectSpot),
    /// A part of an object, from the file of spilled ones.
    Part(Bytes),
    Refused(StoreError),
}

impl StoreAsker {
    /// Tells the one who has asked.
    pub(super) fn tell(self, host: &HostStore, given: Given) {
        match self {
            StoreAsker::Borrower(then) => then(given.lent()),
            StoreAsker::Reader(then) => then(given.granted()),
            StoreAsker::PartReader(range, then) => then(match given {
                Given::Part(part) => Ok(part),
                given => given
                    .granted()
                    .and_then(|spot| host.bytes_of(spot))
                    .and_then(|bytes| part_of(&bytes, range)),
            }),
        }
    }
}

/// A part of an object that is in memory, which stays there for as long as the part is used.
fn part_of(bytes: &Bytes, range: PartRange) -> Result<Bytes, StoreError> {
    let part = bytes.get(range).ok_or(StoreError::Gone)?;
    Ok(bytes.slice_ref(part))
}

/// The store answers each question with what was asked for, so nobody gets the error for another answer.
impl Given {
    fn lent(self) -> Result<LentSpot, StoreError> {
        match self {
            Given::Lent(lent) => Ok(lent),
            Given::Refused(error) => Err(error),
            Given::Granted(_) | Given::Part(_) => Err(StoreError::Gone),
        }
    }

    fn granted(self) -> Result<ObjectSpot, StoreError> {
        match self {
            Given::Granted(spot) => Ok(spot),
            Given::Refused(error) => Err(error),
            Given::Lent(_) | Given::Part(_) => Err(StoreError::Gone),
        }
    }
}
