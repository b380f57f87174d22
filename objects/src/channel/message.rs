//! Requests of users and answers of the home.

use selvedge_cluster::frame::Service;
use serde::{Deserialize, Serialize};

/// The service of frames whose head is a [`Request`] or an [`Answer`], beside the name of the channel.
pub const CHANNELS: Service = Service(3);

/// A request of a user, in an ordered frame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Request<V> {
    /// The user's number for it. [`Wish::Acknowledge`] and [`Wish::Cancel`] name an earlier request instead.
    pub number: u64,
    /// The wish itself.
    pub wish: Wish<V>,
}

/// Everything that a user may want of a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Wish<V> {
    /// Store this value behind all others, as soon as there is room.
    Put(V),
    /// Deliver the oldest value, and remove it when it is acknowledged.
    Take,
    /// Deliver the oldest value, and keep it.
    Peek,
    /// Tell whether there is a value now.
    IsReady,
    /// Tell as soon as there is a value.
    Ready,
    /// Let nobody put any more. No answer follows.
    Close,
    /// The value of this [`Wish::Take`] has arrived: remove it for good. No answer follows.
    Acknowledge,
    /// The request is not wanted any more; the value of a [`Wish::Take`] that is on its way goes back. No answer follows.
    Cancel,
}

/// The answer to a request. There is at most one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Answer<V> {
    /// The value of [`Wish::Put`] is stored; with a capacity of 0, it was handed to a taker.
    Stored,
    /// The value for [`Wish::Take`] or [`Wish::Peek`].
    Value(V),
    /// Whether there was a value when this answer was given; another taker may have it by now.
    Ready(bool),
    /// The channel is closed, and for all but [`Wish::Put`] also empty.
    Closed,
    /// The user has as many requests open here as it may have.
    TooMany {
        /// The number that is allowed.
        limit: usize,
    },
}

impl<V> Wish<V> {
    /// Whether the home answers.
    pub fn has_answer(&self) -> bool {
        !matches!(self, Wish::Close | Wish::Acknowledge | Wish::Cancel)
    }
}

impl<V> Request<V> {
    /// The request with another value in place of the value of a put: an index into the parts of a frame, and back.
    pub fn map<W>(self, convert: impl FnOnce(V) -> W) -> Request<W> {
        let wish = match self.wish {
            Wish::Put(value) => Wish::Put(convert(value)),
            Wish::Take => Wish::Take,
            Wish::Peek => Wish::Peek,
            Wish::IsReady => Wish::IsReady,
            Wish::Ready => Wish::Ready,
            Wish::Close => Wish::Close,
            Wish::Acknowledge => Wish::Acknowledge,
            Wish::Cancel => Wish::Cancel,
        };
        let number = self.number;
        Request { number, wish }
    }
}

impl<V> Answer<V> {
    /// The answer with another value in place of the value: an index into the parts of a frame, and back.
    pub fn map<W>(self, convert: impl FnOnce(V) -> W) -> Answer<W> {
        match self {
            Answer::Value(value) => Answer::Value(convert(value)),
            Answer::Stored => Answer::Stored,
            Answer::Ready(is_ready) => Answer::Ready(is_ready),
            Answer::Closed => Answer::Closed,
            Answer::TooMany { limit } => Answer::TooMany { limit },
        }
    }
}
