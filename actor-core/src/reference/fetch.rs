//! The messages of a fetch: a question to the owner, and its answer.

use std::sync::Arc;

use bytes::Bytes;
use selvedge_cluster::frame::{Class, Service};
use selvedge_objects::refs::{Parcel, RefId};
use selvedge_objects::store::{StoreError, StoreId};
use selvedge_objects::transfer::CopyName;
use serde::{Deserialize, Serialize};

use super::handle::Handle;
use crate::body::Body;
use crate::failure::FailureReport;
use crate::hub::post::{Letter, PostError};
use crate::store::message::{FarObject, ObjectSpot};
use crate::store::pin::ObjectPin;

/// The service of fetches.
pub(crate) const FETCHES: Service = Service(17);

/// The wish of an asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The value, as soon as it is made.
    Value,
    /// A word, as soon as the value is made.
    Readiness,
    /// The value like [`Wish::Value`], in the letter and nowhere else: the asker can use no store.
    Letter,
    /// Whether the value is made by now.
    State,
}

impl Wish {
    /// The asker's name for a question: its number, and two bits by which the owner tells those that wait for the value.
    pub(super) fn question(self, number: u64) -> u64 {
        number << 2 | u64::from(self == Wish::Letter) << 1 | u64::from(self == Wish::Readiness)
    }

    /// Whether a question asks for the value in a letter.
    pub(super) fn is_by_letter(question: u64) -> bool {
        question & 2 != 0
    }

    /// Whether a question that waits for a value asks for the value itself.
    pub(super) fn is_value(question: u64) -> bool {
        question & 1 == 0
    }
}

/// The place of a value that is put.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum PutPlace {
    /// In the body of the letter.
    Letter,
    /// In the store of the receiver, where the sender has filled it.
    Store(StoreId),
    /// In the store of the sender's host.
    Far(FarObject),
}

/// The head of a letter of [`FETCHES`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FetchMessage {
    /// Asks for the value, which may not exist yet, or for a word once it does.
    Ask {
        /// The asker's name for the question: [`Wish::question`].
        question: u64,
        /// The reference.
        id: RefId,
    },
    /// Asks whether the value exists by now.
    Look {
        /// The asker's name for the question.
        question: u64,
        /// The reference.
        id: RefId,
    },
    /// Has the receiver hold an object without a value.
    Create {
        /// The creator's reference to it.
        parcel: Parcel,
    },
    /// The body is a value for an object of the receiver, the last one of the parcels. The answer says whether it is the first one.
    Set {
        /// The asker's name for the question.
        question: u64,
        /// The references in the value, and one to the object, which has the letter wait for a creation that it has overtaken.
        parcels: Vec<Parcel>,
    },
    /// Whether the value, or a failure in its place, is there; or whether a value was set.
    Ready {
        /// The asker's name for the question.
        question: u64,
        /// The answer.
        is_ready: bool,
    },
    /// The body is the value.
    Value {
        /// The asker's name for the question.
        question: u64,
        /// The references in the value.
        parcels: Vec<Parcel>,
    },
    /// The value lies in the store of the sender, and the receiver has a pin on it.
    Stored {
        /// The asker's name for the question.
        question: u64,
        /// The references in the value.
        parcels: Vec<Parcel>,
        /// The place of the value.
        spot: ObjectSpot,
    },
    /// The value is in stores, and the receiver's host is not the sender's: it asks the agent of its own host.
    Elsewhere {
        /// The asker's name for the question.
        question: u64,
        /// The references in the value.
        parcels: Vec<Parcel>,
        /// The name of the value in all stores.
        name: CopyName,
    },
    /// The store of the sender cannot provide the value.
    Unstored {
        /// The asker's name for the question.
        question: u64,
        /// The reason.
        error: StoreError,
    },
    /// Has the receiver hold an object with this value.
    Put {
        /// The creator's reference to it, and the references in the value.
        parcels: Vec<Parcel>,
        /// The place of the value.
        place: PutPlace,
    },
    /// The function that was to make the value failed.
    Failed {
        /// The asker's name for the question.
        question: u64,
        /// The failure.
        report: FailureReport,
    },
    /// The value cannot be encoded.
    Unreadable {
        /// The asker's name for the question.
        question: u64,
        /// The failure.
        report: FailureReport,
    },
    /// The value was freed.
    Freed {
        /// The asker's name for the question.
        question: u64,
    },
}

impl FetchMessage {
    pub(super) fn letter(&self, body: impl Into<Body>) -> Letter {
        Letter {
            stream: self.stream(),
            ..Letter::new(FETCHES, Class::Ordered, self, body)
        }
    }

    /// The stream of the letter. A question is one letter, is never cancelled, and has one answer, so nothing has to keep its
    /// order but `Create`: it comes before everything else about its object. No letter of its stream is long, so it waits for
    /// none. The numbers of answers are the peer's own, so they have other streams than the questions of this process.
    fn stream(&self) -> u64 {
        match self {
            FetchMessage::Create { .. } | FetchMessage::Put { .. } => 0,
            FetchMessage::Ask { question, .. }
            | FetchMessage::Look { question, .. }
            | FetchMessage::Set { question, .. } => question << 1,
            FetchMessage::Ready { question, .. }
            | FetchMessage::Value { question, .. }
            | FetchMessage::Stored { question, .. }
            | FetchMessage::Elsewhere { question, .. }
            | FetchMessage::Unstored { question, .. }
            | FetchMessage::Failed { question, .. }
            | FetchMessage::Unreadable { question, .. }
            | FetchMessage::Freed { question } => question << 1 | 1,
        }
    }
}

/// The answer to a question for a value.
#[derive(Clone)]
pub(super) enum Fetched {
    /// The encoded value, and the references that came beside it.
    Value { bytes: Bytes, handles: Vec<Arc<Handle>> },
    /// The place of the encoded value, and the references that came beside it.
    Stored {
        pin: Arc<ObjectPin>,
        handles: Vec<Arc<Handle>>,
    },
    /// No store can give this process the value.
    OutOfReach,
    /// The owner's store cannot provide the value.
    Unstored(StoreError),
    /// Whether the value, or a failure in its place, is there.
    Ready(bool),
    /// The function that was to make the value failed.
    Failed(FailureReport),
    /// The owner could not encode the value.
    Unreadable(FailureReport),
    /// The owner has freed the value.
    Freed,
    /// The owner is dead.
    OwnerLost,
    /// The owner has not confirmed in time that it makes the value.
    CreateTimedOut,
    /// The question could not be sent.
    Unreachable(PostError),
}

impl Fetched {
    /// The answer to a question that could not be sent. A death may be seen by the sender before it is told to the references.
    pub(super) fn of_unsent(error: PostError) -> Self {
        match error {
            PostError::Dead(_) => Fetched::OwnerLost,
            error => Fetched::Unreachable(error),
        }
    }
}
