//! The protocol between the driver and a worker process: messages and their frames.
//!
//! A frame is `[head length u32][body length u64][head][body]`, little endian. The head is a message in postcard. The
//! body is raw bytes (arguments, results, programs), so that large payloads are not walked byte by byte. This module
//! does no I/O: `link` (driver) and `serve` (worker) read and write.

use std::time::Duration;

use selvedge_cluster::peer::Peer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cell::saving::CheckpointRules;
use crate::failure::FailureReport;
use crate::home::placement::OnPanic;
#[cfg(feature = "hosts")]
use crate::hosts::host_key::Machine;
use crate::hub::notice::Notice;
use crate::id::{ActorId, LaneId, ProcessId};
use crate::worker::hello::Hello;

/// The number that matches an answer with its request; unique per link.
pub(crate) type RequestId = u64;

/// A message from the driver to a worker. Each variant names its body.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// The driver's answer to the worker's hello. No body.
    Welcome {
        hello: Hello,
        process: ProcessId,
        name: String,
        /// The worker's name among the peers, and the driver's.
        peer: Peer,
        driver: Peer,
        /// The time for which the worker's threads look for bytes before they sleep, if it is set.
        spin: Option<Duration>,
    },
    /// Builds an actor; the first actor of a lane opens the lane. Body: the constructor's arguments, and the last
    /// checkpoint if there is one.
    Create { request: RequestId, order: CreateActor },
    /// Drops an actor. No body.
    Remove { lane: LaneId, actor: ActorId },
    /// Makes an ordinary call. Body: the arguments.
    Call {
        request: RequestId,
        lane: LaneId,
        actor: ActorId,
        method: u16,
        /// The key of the extension that has the method.
        extension: Option<String>,
    },
    /// Loads programs and starts them. Body: the bytes for the loader.
    Load { request: RequestId, kind: String },
    /// Ends a lane, which drops its actors. No body.
    EndLane { request: RequestId, lane: LaneId },
    /// Cancels the call of a request. No body.
    Cancel { request: RequestId },
    /// Makes async methods that programs await ask again whether they are wanted. No body.
    WakeAsync,
    /// Tells the hub about a peer. No body; a descriptor comes with [`Notice::Linked`].
    Notice(Notice),
    /// Interrupts the functions that run in the worker. No body.
    Interrupt,
    /// Asks for a sign of life. No body.
    Ping,
    /// Ends the worker: it drops the actors, waits this long for busy lanes, and exits. If the runtime ends, nobody answers a method
    /// that waits, so all waits are refused. No body.
    Shutdown { grace_ms: u64, ends_runtime: bool },
}

/// The actor that a worker builds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CreateActor {
    pub(crate) lane: LaneId,
    pub(crate) lane_name: String,
    pub(crate) actor: ActorId,
    pub(crate) name: String,
    /// The key of the actor's type in the registry.
    pub(crate) type_name: String,
    /// The index of the constructor in the type's entry.
    pub(crate) constructor: u16,
    pub(crate) on_panic: OnPanic,
    pub(crate) core: Option<u32>,
    /// The number of async methods that may be in flight at a time.
    pub(crate) concurrency: u32,
    /// The time limit for an async constructor.
    pub(crate) build_limit: Duration,
    pub(crate) checkpoints: Option<CheckpointRules>,
    /// The number of bytes of the last checkpoint, at the end of the body; `None` if there is none yet.
    pub(crate) last_bytes: Option<u64>,
}

/// A message from a worker to the driver. Each variant names its body.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// The first message, with the worker's [`sentinels`](crate::worker::sentinel). No body.
    Hello { hello: Hello, sentinels: Vec<u32> },
    /// The first message of a worker of another host, which has introduced itself in the handshake. No body.
    #[cfg(feature = "hosts")]
    Joined {
        pid: u32,
        machine: Machine,
        /// The place where other workers dial it, if it has not announced that; `None` if they cannot.
        listens_at: Option<String>,
        /// The id of the cluster, if the worker was a member before.
        cluster_id: Option<String>,
    },
    /// Answers `Create`. No body.
    Created {
        request: RequestId,
        result: Result<(), FailureReport>,
    },
    /// Answers `Call`. Body: the result, if there is one.
    Returned {
        request: RequestId,
        result: Result<(), FailureReport>,
    },
    /// Answers `Call`: no such actor lives on the lane. No body.
    NoActor { request: RequestId },
    /// Answers `Load`: the lanes that run a program now. No body.
    Loaded {
        request: RequestId,
        result: Result<Vec<LaneId>, String>,
    },
    /// Answers `EndLane` when the lane's thread has ended. No body.
    LaneEnded { request: RequestId },
    /// Asks for a link to a peer. No body.
    AskLink { peer: Peer },
    /// The peer that this worker was told to dial cannot be reached. No body.
    NotLinked { peer: Peer, why: String },
    /// Answers `Ping`. No body.
    Pong,
    /// A checkpoint of an actor. Body: the encoded state.
    Saved { actor: ActorId },
    /// A program has ended, with the text of its panic if it panicked. No body.
    Ended { lane: LaneId, panic: Option<String> },
}

pub(crate) const FRAME_HEADER_BYTES: usize = 12;
/// The maximum size of a head. Heads are small; a larger one is invalid.
const HEAD_BYTES_MAX: u32 = 1 << 20;
/// The maximum size of a body: the arguments or the result of one ordinary call, or one shipment of programs.
const BODY_BYTES_MAX: u64 = 1 << 32;

/// The defect of a frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame announces a head of {0} bytes, {HEAD_BYTES_MAX} are allowed")]
    HeadTooLarge(u64),
    #[error("a frame announces a body of {0} bytes, {BODY_BYTES_MAX} are allowed")]
    BodyTooLarge(u64),
    #[error("a message cannot be read or written: {0}")]
    Postcard(postcard::Error),
    #[error("it cannot be sent: {0}")]
    #[cfg(feature = "hosts")]
    NotSent(String),
    #[error("the stream ended inside a frame or failed: {0}")]
    Io(std::io::Error),
}

impl From<std::io::Error> for FrameError {
    fn from(error: std::io::Error) -> Self {
        FrameError::Io(error)
    }
}

impl From<postcard::Error> for FrameError {
    fn from(error: postcard::Error) -> Self {
        FrameError::Postcard(error)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) head_bytes: usize,
    pub(crate) body_bytes: u64,
}

impl FrameHeader {
    /// Reads and checks the two lengths.
    pub(crate) fn parse(bytes: [u8; FRAME_HEADER_BYTES]) -> Result<Self, FrameError> {
        let [a, b, c, d, body @ ..] = bytes;
        let head = u32::from_le_bytes([a, b, c, d]);
        let body_bytes = u64::from_le_bytes(body);
        if head > HEAD_BYTES_MAX {
            return Err(FrameError::HeadTooLarge(u64::from(head)));
        }
        if body_bytes > BODY_BYTES_MAX {
            return Err(FrameError::BodyTooLarge(body_bytes));
        }
        let head_bytes = usize::try_from(head).map_err(|_| FrameError::HeadTooLarge(u64::from(head)))?;
        Ok(Self {
            head_bytes,
            body_bytes,
        })
    }
}

/// Returns a frame's header and head; the body follows them on the wire.
pub(crate) fn frame_front<M: Serialize>(message: &M, body: &[u8]) -> Result<Vec<u8>, FrameError> {
    let body_bytes = body.len() as u64;
    if body_bytes > BODY_BYTES_MAX {
        return Err(FrameError::BodyTooLarge(body_bytes));
    }
    let head = postcard::to_stdvec(message)?;
    let head_bytes = u32::try_from(head.len()).unwrap_or(u32::MAX);
    if head_bytes > HEAD_BYTES_MAX {
        return Err(FrameError::HeadTooLarge(head.len() as u64));
    }
    let mut front = Vec::with_capacity(FRAME_HEADER_BYTES + head.len());
    front.extend(head_bytes.to_le_bytes());
    front.extend(body_bytes.to_le_bytes());
    front.extend(head);
    Ok(front)
}

pub(crate) fn read_head<M: DeserializeOwned>(head: &[u8]) -> Result<M, FrameError> {
    Ok(postcard::from_bytes(head)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(head: u32, body: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&head.to_le_bytes());
        bytes[4..].copy_from_slice(&body.to_le_bytes());
        bytes
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let message = ToWorker::Remove {
            lane: LaneId(1),
            actor: ActorId(2),
        };
        let front = frame_front(&message, b"body").unwrap();
        let (start, head) = front.split_at(FRAME_HEADER_BYTES);
        let parsed = FrameHeader::parse(start.try_into().unwrap()).unwrap();
        assert_eq!(
            parsed,
            FrameHeader {
                head_bytes: head.len(),
                body_bytes: 4
            }
        );
        assert!(matches!(
            read_head(head).unwrap(),
            ToWorker::Remove {
                actor: ActorId(2),
                ..
            }
        ));
    }

    #[test]
    fn hostile_lengths_and_heads_are_refused() {
        assert!(matches!(
            FrameHeader::parse(header(u32::MAX, 0)),
            Err(FrameError::HeadTooLarge(_))
        ));
        assert!(matches!(
            FrameHeader::parse(header(0, u64::MAX)),
            Err(FrameError::BodyTooLarge(_))
        ));
        assert!(matches!(
            read_head::<FromWorker>(&[0xff; 9]),
            Err(FrameError::Postcard(_))
        ));
    }
}
