//! The post of a process that knows no other.

use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use crate::hub::post::{Letter, Post, PostError};

/// The post of a process that knows no other.
pub(crate) struct Alone;

impl Post for Alone {
    fn me(&self) -> Peer {
        Peer {
            process: ProcessId::HEAD,
            incarnation: Incarnation(1),
        }
    }

    fn peers(&self) -> Vec<Peer> {
        Vec::new()
    }

    fn send(&self, to: Peer, _: Letter) -> Result<u64, PostError> {
        Err(PostError::NoSuchPeer(to.process))
    }

    fn cut(&self, _: Peer, _: String) {}
}
