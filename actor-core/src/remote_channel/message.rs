//! The messages of channels.

use bytes::Bytes;
use selvedge_cluster::frame::Class;
use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::{Answer, CHANNELS, Request};
use selvedge_objects::refs::{Parcel, RefId};
use serde::{Deserialize, Serialize};

use crate::failure::FailureReport;
use crate::hub::post::{Letter, Post, PostError};
use crate::remote::parts::send_in_parts;

/// The head of a letter of channels. The body is the value of a put, of a take or of a peek.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ChannelMessage {
    /// Makes a channel under this name.
    Make { parcel: Parcel, capacity: u64 },
    /// A part of a long value that a later letter completes. The body is the part.
    Part { of: PartOf },
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

/// The letter that a part belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum PartOf {
    /// The request with this number. No number is used for two channels of a process.
    Request(u64),
    /// The answer to the request with this number.
    Answer(u64),
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
    pub(super) fn letter(&self, body: Bytes) -> Letter {
        Letter::new(CHANNELS, Class::Ordered, self, body)
    }

    /// Sends the message, in several letters if its body is long.
    ///
    /// # Errors
    /// [`PostError`]; the parts before may have been sent.
    pub(super) fn send(&self, post: &dyn Post, to: Peer, of: PartOf, body: Bytes) -> Result<u64, PostError> {
        let part = |part| ChannelMessage::Part { of }.letter(part);
        send_in_parts(post, to, body, part, |last| self.letter(last))
    }
}
