//! The words by which joints speak to each other.

use selvedge_channels::{Fault, FaultKind, SegmentId};
use selvedge_core::LaneId;
use serde::{Deserialize, Serialize};

use crate::ir::ChannelId;
use crate::run::control::Progress;

/// The head of a letter between two joints. Body: the bytes of a `Message`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// To the driver, from the steward of a host: the memory of the host.
    Memory(SegmentId),
    /// From the driver: every process has loaded the graph.
    Begin,
    /// From the driver: an execution is cancelled.
    Cancel(u64),
    /// From the driver: the graph has ended.
    Stop,
    /// To the driver: a lane, or the joint of a process, cannot go on.
    Failed { lane: LaneId, text: String },
    /// From the driver, to the steward of a host: how far are its lanes?
    Ask { question: u64 },
    /// To the driver: the answer.
    Progress {
        question: u64,
        lanes: Vec<(LaneId, Progress)>,
    },
    /// To the far end of a shuttle: a message of the channel.
    Message {
        mirror: ChannelId,
        number: u64,
        kind: MessageKind,
    },
    /// To the leader of another host: this host's share of an operation of a collective. Body: the share.
    Share { group: u32, number: u64 },
    /// To the near end of a shuttle: the number of messages that the mirror has.
    Taken { mirror: ChannelId, messages: u64 },
}

/// The kind of a message. The body is the encoded value, the report of the failure, or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MessageKind {
    Value,
    Failed,
    Cancelled,
}

impl MessageKind {
    /// The kind of a fault.
    pub(super) fn of(fault: &Fault) -> Self {
        match fault.kind() {
            FaultKind::Failed => MessageKind::Failed,
            FaultKind::Cancelled => MessageKind::Cancelled,
        }
    }
}

/// The length in bytes from which on a message is long: it counts for the limit of bytes that are on their way, and the
/// near end is told of it at once.
pub(super) const LONG_BYTES: usize = 64 << 10;

/// The streams of letters: those of one stream arrive in order. Letters about the graph as a whole have the first.
const WHOLE: u32 = 0;

impl Word {
    /// The stream of the letter: messages of a shuttle must not overtake each other, and may overtake those of others.
    pub(super) fn stream(&self) -> u32 {
        match self {
            Word::Message { mirror, .. } | Word::Taken { mirror, .. } => mirror.0.wrapping_add(1),
            // Channels count from the bottom, and groups from the top.
            Word::Share { group, .. } => u32::MAX - group,
            _ => WHOLE,
        }
    }

    /// The words in a letter; `None` if it has none.
    pub(super) fn decoded(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}
