//! Messages, bundles and parcels: everything that travels between processes.

use std::time::Duration;

use selvedge_cluster::frame::Service;
use selvedge_cluster::id_map::IdKey;
use serde::{Deserialize, Serialize};

use super::{Fork, RefId};

/// The service of frames whose head is a [`Bundle`].
pub const REFERENCES: Service = Service(2);

/// A message about one reference. Every message may arrive late, repeatedly, in any order, or never.
///
/// Three are questions, which are repeated until the answer beside them arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// User to owner: list me under this number.
    Fork {
        /// The reference.
        id: RefId,
        /// The user's number for the registration.
        number: u64,
    },
    /// Owner to user: the answer to [`Message::Fork`], and to a kept call.
    Forked {
        /// The reference.
        id: RefId,
        /// The user's number for the registration.
        number: u64,
        /// Whether the object is there or to come. If not, it was freed, since the user's parent died.
        is_alive: bool,
    },
    /// Child to parent: the owner has listed me; you need not hold the reference for me.
    Accept {
        /// The reference.
        id: RefId,
        /// The parent's number for the fork.
        fork: u64,
    },
    /// Parent to child: the answer to [`Message::Accept`].
    Accepted {
        /// The reference.
        id: RefId,
        /// The parent's number for the fork.
        fork: u64,
    },
    /// User to owner: strike this registration off the list.
    Release {
        /// The reference.
        id: RefId,
        /// The registration.
        fork: Fork,
    },
    /// Owner to user: the answer to [`Message::Release`].
    Released {
        /// The reference.
        id: RefId,
        /// The registration.
        fork: Fork,
    },
}

impl IdKey for Message {
    type Number = (Duration, Message);

    fn number(self) -> (Duration, Message) {
        (Duration::ZERO, self)
    }
}

/// Messages that go to one process together, in one loose frame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bundle {
    /// The smallest number under which the sender has registered something with the receiver and has no answer yet.
    pub low: u64,
    /// The messages.
    pub messages: Vec<Message>,
}

/// A reference that travels in the head of an ordered frame, beside the body that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Parcel {
    /// A call whose result the receiver has to keep under this name.
    Keep {
        /// The reference to the result.
        id: RefId,
    },
    /// A reference from its owner, which has already listed the receiver.
    Given {
        /// The reference.
        id: RefId,
        /// The owner's number for the registration.
        fork: u64,
    },
    /// A reference from a user, which holds its own until the receiver has accepted.
    Lent {
        /// The reference.
        id: RefId,
        /// The sender's number for the fork.
        fork: u64,
    },
}

impl Parcel {
    /// The reference in the parcel.
    pub fn id(&self) -> RefId {
        match self {
            Parcel::Keep { id } | Parcel::Given { id, .. } | Parcel::Lent { id, .. } => *id,
        }
    }
}
