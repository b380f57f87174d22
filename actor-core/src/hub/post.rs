//! The seam between the links to other processes and the services that speak over them.
#![cfg_attr(
    not(test),
    allow(dead_code, reason = "the links, which use it, are not there yet")
)]

use bytes::Bytes;
use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::Outcome;

/// A message for a service of another process.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// The service that gets the letter.
    pub(crate) service: Service,
    /// The delivery that the letter asks for.
    pub(crate) class: Class,
    /// The small part, encoded by postcard.
    pub(crate) head: Bytes,
    /// The bytes of the user.
    pub(crate) body: Bytes,
}

/// The reason that a letter was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PostError {
    /// No process has this number.
    #[error("there is no {0}")]
    NoSuchPeer(ProcessId),
    /// The peer is dead.
    #[error("{0} is dead")]
    Dead(Peer),
    /// The letter is longer than a frame may be.
    #[error("a letter of {bytes} bytes, and {limit} are allowed")]
    TooLarge {
        /// The length of the letter in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

/// The way to other processes.
pub(crate) trait Post: Send + Sync {
    /// The name of this process.
    fn me(&self) -> Peer;

    /// The living processes that letters reach, this one not among them, in the order of their numbers.
    fn peers(&self) -> Vec<Peer>;

    /// Sends a letter: exactly once and in order for `Class::Ordered`. Never blocks on the peer. Returns the letter's
    /// number, by which [`Receiver::died`] reports its fate if the peer dies before it has acknowledged the letter.
    fn send(&self, to: Peer, letter: Letter) -> Result<u64, PostError>;
}

/// A service: the receiver of letters. Called on the thread that reads the link, with no lock of the hub held; must not
/// block and must not run user code.
pub(crate) trait Receiver: Send + Sync {
    /// A letter of a peer has come.
    fn received(&self, from: Peer, letter: Letter);

    /// `peer` is dead; `fates` are the numbers of its unacknowledged letters with their outcome.
    fn died(&self, peer: Peer, fates: &[(u64, Outcome)]);
}
