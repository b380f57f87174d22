//! The askers of a store, and their answers.

use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use selvedge_objects::store::StoreError;

use super::borrowed::{Borrowed, BorrowedFrom};
use super::host_store::HostStore;
use super::message::{LentSpot, ObjectSpot};
use crate::promise::Promise;

/// The one who has asked the store for something.
pub(super) enum StoreAsker {
    /// A thread of this process that wants to fill memory.
    Borrower(Promise<Result<Borrowed, StoreError>>),
    /// A thread of this process that wants to read.
    Reader(Promise<Result<Bytes, StoreError>>),
    /// Another process that wants to fill memory: it is sent a letter.
    FarBorrower(Box<dyn FnOnce(Result<LentSpot, StoreError>) + Send>),
    /// Another process that wants to read: it is sent a letter. What it does not use it gives back.
    FarReader(Box<dyn FnOnce(Result<ObjectSpot, StoreError>) + Send>),
    /// A sender of this process: it sends a part of an object to another host.
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
    /// Tells the one who has asked. Returns the waker of a task that waits.
    pub(super) fn tell(self, host: &Arc<HostStore>, given: Given) -> Option<Waker> {
        match self {
            StoreAsker::Borrower(promise) => {
                let from = || BorrowedFrom::Host(Arc::clone(host));
                promise.keep_unwoken(given.lent().map(|lent| Borrowed::new(lent, from())))
            }
            StoreAsker::Reader(promise) => {
                promise.keep_unwoken(given.granted().and_then(|spot| host.bytes_of(spot)))
            }
            StoreAsker::FarBorrower(then) => {
                then(given.lent());
                None
            }
            StoreAsker::FarReader(then) => {
                then(given.granted());
                None
            }
            StoreAsker::PartReader(range, then) => {
                then(match given {
                    Given::Part(part) => Ok(part),
                    given => given
                        .granted()
                        .and_then(|spot| host.bytes_of(spot))
                        .and_then(|bytes| part_of(&bytes, range)),
                });
                None
            }
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
