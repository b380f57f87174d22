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
    /// The letter with this head, about a channel. All letters about a channel are of one stream, so requests, values and
    /// answers keep their order; a long value holds up no other channel.
    pub(super) fn letter(&self, channel: RefId, body: impl Into<Body>) -> Letter {
        Letter {
            stream: stream(channel),
            ..Letter::new(CHANNELS, Class::Ordered, self, body)
        }
    }
}

/// The stream of a channel. Two channels may have the same one, and then wait for each other's values.
fn stream(channel: RefId) -> u64 {
    let [owner, creator] = [channel.owner, channel.creator].map(|peer| u64::from(peer.process.number()));
    channel.number << 32 ^ owner << 16 ^ creator
}

#[cfg(test)]
mod tests {
    use selvedge_objects::channel::Wish;

    use super::*;
    use crate::testing::peer;

    #[test]
    fn letters_about_one_channel_are_one_stream_and_those_about_others_are_not() {
        let channel = |owner, creator, number| RefId {
            owner: peer(owner),
            creator: peer(creator),
            number,
        };
        let asked = |channel| {
            let (number, wish) = (1, Wish::Take);
            let request = Request { number, wish };
            ChannelMessage::Asked { channel, request }.letter(channel, Body::EMPTY)
        };
        let answered = |channel| {
            let (number, answer) = (1, Ok(Answer::Stored));
            ChannelMessage::Answered { number, answer }.letter(channel, Body::EMPTY)
        };
        let first = channel(1, 2, 3);
        assert_eq!(asked(first).stream, answered(first).stream);
        for other in [channel(1, 2, 4), channel(1, 3, 3), channel(2, 2, 3)] {
            assert_ne!(asked(first).stream, asked(other).stream);
        }
    }
}
