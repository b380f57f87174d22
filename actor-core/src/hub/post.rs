//! The seam between the hub and the services above it: letters, the way to other processes, and their receivers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use selvedge_cluster::frame::{Class, Head, Service};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::Outcome;
use serde::Serialize;
use thiserror::Error;

use super::lead::Lead;
use super::letter_head::encoded;
use super::tap::ServiceTraffic;
use crate::body::{Body, LentMemory};
use crate::process_end::EndBook;
use crate::process_name::NameBook;

/// A message for a service of another process. `head` is small and encoded by postcard; `body` is bytes of the user, of up
/// to 1 GiB.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) service: Service,
    /// `Ordered` or `Loose`; a letter of any other class is sent as a loose one.
    pub(crate) class: Class,
    /// Letters of a service with the same stream keep their order even if one of them is long; others may overtake it.
    /// A letter that has arrived has none.
    pub(crate) stream: u64,
    pub(crate) head: Head,
    pub(crate) body: Body,
}

impl Letter {
    /// A letter with this head, of stream 0.
    pub(crate) fn new(service: Service, class: Class, head: &impl Serialize, body: impl Into<Body>) -> Self {
        Letter {
            service,
            class,
            stream: 0,
            head: encoded(head),
            body: body.into(),
        }
    }
}

impl Clone for Letter {
    /// Shares the body, and copies the head at once; the vector's own clone copies it byte by byte.
    fn clone(&self) -> Self {
        Letter {
            head: Head::from_slice(&self.head),
            body: self.body.clone(),
            ..*self
        }
    }
}

/// The way to other processes.
pub(crate) trait Post: Send + Sync {
    /// The name of this process.
    fn me(&self) -> Peer;

    /// The living processes that letters reach and that take work, this one not among them, in the order of their numbers: neither jobs, nor workers that
    /// were told to end, nor processes that were only named and have not joined.
    fn peers(&self) -> Vec<Peer>;

    /// The first of these [`peers`](Self::peers) whose number is higher than this one.
    fn peer_after(&self, process: ProcessId) -> Option<Peer> {
        self.peers().into_iter().find(|peer| peer.process > process)
    }

    /// The living incarnation of a process that letters reach; `None` if there is none, or if it is this process.
    fn peer(&self, process: ProcessId) -> Option<Peer> {
        self.peers().into_iter().find(|peer| peer.process == process)
    }

    /// Whether a process of this number has lived, as far as this one knows: it has ended, or its end is not announced yet.
    fn has_lived(&self, _process: ProcessId) -> bool {
        false
    }

    /// Sends a letter: exactly once, and in order for `Class::Ordered`; see [`Letter::stream`]. Never blocks on the peer. Returns the letter's
    /// number, by which [`Receiver::died`] reports its outcome, unless the peer has taken it before it died; 0 for a
    /// loose letter. The peer may die before this returns, so the sender notes the letter under its own lock.
    fn send(&self, to: Peer, letter: Letter) -> Result<u64, PostError>;

    /// Whether a process, which may be this one, is a job: it takes no work.
    fn is_job(&self, _: Peer) -> bool {
        false
    }

    /// Whether a peer is on this host, and can map memory of this process.
    fn is_near(&self, _peer: Peer) -> bool {
        false
    }

    /// The cores that a process of another host may use, as it has said when it joined; `None` if this process was not told.
    fn cores(&self, _peer: Peer) -> Option<u32> {
        None
    }

    /// The name of this host, which processes that can map each other's memory have in common; `None` if memory is shared only with
    /// those that are [near](Post::is_near).
    fn host(&self) -> Option<String> {
        None
    }

    /// Cuts off a peer that violates the protocol of a service, or that cannot be told what it must learn. The peer is
    /// reported as dead.
    fn cut(&self, peer: Peer, why: String);

    /// Cuts off a peer to which a letter that it must have was not sent: whoever waits there would wait for ever. A peer
    /// that is dead needs to learn nothing, and one that is away has asked nothing of this life of the head.
    fn told(&self, peer: Peer, sent: Result<u64, PostError>) {
        match sent {
            Ok(_) | Err(PostError::Dead(_) | PostError::NoSuchPeer(_) | PostError::Away(_)) => {}
            Err(error) => self.cut(peer, format!("a letter that it needs cannot be sent: {error}")),
        }
    }

    /// The frames and bytes of all links, by peer and service.
    fn traffic(&self) -> Vec<(Peer, Service, ServiceTraffic)> {
        Vec::new()
    }

    /// The lead of those that wait for letters.
    fn lead(&self) -> Arc<Lead> {
        Arc::default()
    }

    /// The names of processes in errors.
    fn names(&self) -> Arc<NameBook> {
        Arc::default()
    }

    /// How the last processes that have died ended.
    fn ends(&self) -> Arc<EndBook> {
        Arc::default()
    }

    /// Runs the task on the thread of the links' tasks. Returns false if there is no such thread: then there are no peers.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool;
}

/// A service: the receiver of letters. Called on the thread that reads the link, which may be any that waits for a letter, with
/// no lock of the hub held; must not block and must not run user code.
pub(crate) trait Receiver: Send + Sync {
    /// A letter has arrived.
    fn received(&self, from: Peer, letter: Letter);

    /// A letter with this head, and with a body of so many bytes, has begun to arrive: memory for its body. The letter is received
    /// with that memory as its body, unless the peer dies before or the connection breaks early; then it is dropped, and asked
    /// for once more if the letter begins again. A letter that was lent memory may never arrive.
    fn lend(&self, _from: Peer, _head: &[u8], _bytes: usize) -> Option<Box<dyn LentMemory>> {
        None
    }

    /// Letters reach `peer` from now on. Called in the driver alone.
    fn joined(&self, _peer: Peer) {}

    /// `peer` was told to end, and gets no further call that names no process. Called in the driver alone.
    fn leaves(&self, _peer: Peer) {}

    /// The process of `peer` has ended, as its parent has seen. Called in the driver alone, before or after `died`.
    fn ended(&self, _peer: Peer) {}

    /// `peer` is dead; no letter of it follows. `fates` are the numbers of the letters that it has not acknowledged, in
    /// order, each with its outcome: `NotSent` or `Unknown`. Called once for each incarnation.
    fn died(&self, peer: Peer, fates: &[(u64, Outcome)]);
}

/// The reason that a letter was not sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PostError {
    #[error("{0} is no process of this runtime")]
    NoSuchPeer(ProcessId),
    #[error("{0} is dead")]
    Dead(Peer),
    #[error("{0} has not come back to the head since that began anew: ask again later")]
    Away(Peer),
    #[error("a letter of {bytes} bytes, and {limit} are allowed: send several")]
    TooLarge { bytes: usize, limit: usize },
    #[error("{bytes} bytes of letters wait for {peer}, and {limit} are allowed: wait for its answers first")]
    Full { peer: Peer, bytes: usize, limit: usize },
    #[error("no link to {peer} can be made: {why}")]
    NoLink { peer: Peer, why: String },
}
