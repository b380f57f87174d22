//! Letters, and the two sides that services and the hub show each other.

use bytes::Bytes;
use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::Outcome;

/// A message for a service of another process.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// The receiver within the process.
    pub(crate) service: Service,
    /// The delivery.
    pub(crate) class: Class,
    /// A few words, encoded by postcard.
    pub(crate) head: Bytes,
    /// Bytes of the user.
    pub(crate) body: Bytes,
}

/// The reason why a letter was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PostError {
    /// No such process was ever a peer.
    #[error("{0} is unknown here: send to a worker of this runtime")]
    NoSuchPeer(ProcessId),
    /// The peer is dead.
    #[error("{0} is dead")]
    Dead(Peer),
    /// The letter is larger than a frame may be.
    #[error("a message of {bytes} bytes is larger than the limit of {limit} bytes: send less at a time")]
    TooLarge {
        /// The size of the letter.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// The way to other processes.
pub(crate) trait Post: Send + Sync {
    /// The name of this process.
    fn me(&self) -> Peer;

    /// The living processes that letters reach, this one not among them, in the order of their numbers.
    fn peers(&self) -> Vec<Peer>;

    /// Sends a letter: exactly once and in order for [`Class::Ordered`]. Never blocks on the peer. Returns the letter's
    /// number, under which [`Receiver::died`] reports its fate.
    ///
    /// # Errors
    /// [`PostError`]; the letter was not sent.
    fn send(&self, to: Peer, letter: Letter) -> Result<u64, PostError>;
}

/// A service: the receiver of letters.
///
/// The hub calls it on the thread that reads the link, with no lock held. It must not block, and must not run user code.
pub(crate) trait Receiver: Send + Sync {
    /// A letter has arrived.
    fn received(&self, from: Peer, letter: Letter);

    /// A peer is dead. `fates` are the numbers of its letters that were not delivered for certain, with their outcome.
    fn died(&self, peer: Peer, fates: &[(u64, Outcome)]);
}
