//! The messages of channels.

use selvedge_cluster::frame::Class;
use selvedge_objects::channel::{Answer, CHANNELS, Request};
use selvedge_objects::refs::{Parcel, RefId};
use serde::{Deserialize, Serialize};

use crate::body::Body;
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
    /// The channel does not exist.
    Gone,
    /// The value cannot be encoded or passed.
    Unreadable(FailureReport),
}

impl ChannelMessage {
    /// The letter with this head. All letters of channels are of one stream, so values keep their order.
    pub(super) fn letter(&self, body: impl Into<Body>) -> Letter {
        Letter::new(CHANNELS, Class::Ordered, self, body)
    }
}
