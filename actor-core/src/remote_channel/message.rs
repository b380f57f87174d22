//! The messages of channels.

use bytes::Bytes;
use selvedge_cluster::frame::Class;
use selvedge_objects::channel::{Answer, CHANNELS, Request};
use selvedge_objects::refs::{Parcel, RefId};
use serde::{Deserialize, Serialize};

use crate::failure::FailureReport;
use crate::hub::post::Letter;

/// The head of a letter of channels. The body is the value of a put, of a take or of a peek.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ChannelMessage {
    /// Makes a channel under this name.
    Make { parcel: Parcel, capacity: u64 },
    /// A request to a channel, with the references in the value.
    Asked {
        channel: RefId,
        request: Request<Vec<Parcel>>,
    },
    /// The answer to the request with this number, with the references in the value.
    Answered {
        number: u64,
        answer: Result<Answer<Vec<Parcel>>, ChannelRefusal>,
    },
}

/// The reason that a channel gave no answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ChannelRefusal {
    /// There is no such channel.
    Gone,
    /// The value cannot be encoded or passed.
    Unreadable(FailureReport),
}

impl ChannelMessage {
    pub(super) fn letter(&self, body: Bytes) -> Letter {
        Letter::new(CHANNELS, Class::Ordered, self, body)
    }
}
