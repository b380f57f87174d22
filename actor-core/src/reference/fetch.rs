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

/// The head of a letter of [`FETCHES`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FetchMessage {
    /// Asks for the value, which may not exist yet.
    Ask {
        /// The asker's name for the question.
        question: u64,
        /// The reference.
        id: RefId,
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

/// The answer to a question for a value.
#[derive(Debug)]
pub(super) enum Fetched {
    /// The encoded value, and the references that came beside it.
    Value { bytes: Bytes, handles: Vec<Arc<Handle>> },
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
