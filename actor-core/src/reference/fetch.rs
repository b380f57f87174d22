//! The messages of a fetch: a question to the owner, and its answer.

use std::sync::Arc;

use bytes::Bytes;
use selvedge_cluster::frame::Service;
use selvedge_objects::refs::{Parcel, RefId};
use serde::{Deserialize, Serialize};

use super::handle::Handle;
use crate::failure::FailureReport;
use crate::hub::post::PostError;

/// The service of fetches.
pub(crate) const FETCHES: Service = Service(17);

/// The wish of an asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The value, as soon as it is made.
    Value,
    /// A word, as soon as the value is made.
    Readiness,
    /// Whether the value is made by now.
    State,
}

impl Wish {
    /// The asker's name for a question: its number, and a bit by which the owner tells the two that wait for the value.
    pub(super) fn question(self, number: u64) -> u64 {
        number << 1 | u64::from(self == Wish::Readiness)
    }

    /// Whether a question that waits for a value asks for the value itself.
    pub(super) fn is_value(question: u64) -> bool {
        question & 1 == 0
    }
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
    /// The stream of the letter. A question is one letter, is never cancelled, and has one answer, so nothing has to keep its
    /// order but `Create`: it comes before everything else about its object. No letter of its stream is long, so it waits for
    /// none. The numbers of answers are the peer's own, so they have other streams than the questions of this process.
    pub(super) fn stream(&self) -> u64 {
        match self {
            FetchMessage::Create { .. } => 0,
            FetchMessage::Ask { question, .. }
            | FetchMessage::Look { question, .. }
            | FetchMessage::Set { question, .. } => question << 1,
            FetchMessage::Ready { question, .. }
            | FetchMessage::Value { question, .. }
            | FetchMessage::Failed { question, .. }
            | FetchMessage::Unreadable { question, .. }
            | FetchMessage::Freed { question } => question << 1 | 1,
        }
    }
}

/// The answer to a question for a value.
#[derive(Clone, Debug)]
pub(super) enum Fetched {
    /// The encoded value, and the references that came beside it.
    Value { bytes: Bytes, handles: Vec<Arc<Handle>> },
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
