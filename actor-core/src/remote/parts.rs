//! Long bodies: arguments and values that are longer than a letter travel in several. Plain data.
//!
//! The parts of one body come in order, and the letter of the call or of the value has the last one. Parts of other
//! bodies may lie between them.

use std::collections::BTreeMap;

use bytes::Bytes;
use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use crate::hub::post::{Letter, Post, PostError};

/// The length of the longest part in bytes. A letter of this length always fits.
pub(crate) const PART_BYTES_MAX: usize = 1 << 20;

/// The length of the longest body in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 30;

/// The body that a part belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Whole {
    /// The arguments of a call.
    Arguments,
    /// The value of a call.
    Value,
}

/// An error: a body is longer than [`BODY_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Sends a letter, in several if its body is long. Returns the number of the last one.
///
/// # Errors
/// [`PostError`]; the parts before may have been sent.
pub(crate) fn send_in_parts(
    post: &dyn Post,
    to: Peer,
    mut body: Bytes,
    part: impl Fn(Bytes) -> Letter,
    last: impl FnOnce(Bytes) -> Letter,
) -> Result<u64, PostError> {
    if body.len() > BODY_BYTES_MAX {
        let (bytes, limit) = (body.len(), BODY_BYTES_MAX);
        return Err(PostError::TooLarge { bytes, limit });
    }
    while body.len() > PART_BYTES_MAX {
        post.send(to, part(body.split_to(PART_BYTES_MAX)))?;
    }
    post.send(to, last(body))
}

/// The bodies of which parts have come, by what they belong to.
#[derive(Debug)]
pub(crate) struct BodyParts<K> {
    bodies: BTreeMap<(Peer, K), Vec<u8>>,
}

impl<K> Default for BodyParts<K> {
    fn default() -> Self {
        let bodies = BTreeMap::new();
        BodyParts { bodies }
    }
}

impl<K: Ord + Copy> BodyParts<K> {
    /// Adds a part.
    pub(crate) fn add(&mut self, from: Peer, of: K, part: &[u8]) -> Result<(), TooLong> {
        let body = self.bodies.entry((from, of)).or_default();
        if body.len().saturating_add(part.len()) > BODY_BYTES_MAX {
            self.bodies.remove(&(from, of));
            return Err(TooLong);
        }
        body.extend_from_slice(part);
        Ok(())
    }

    /// Completes a body by its last part. A body of one part is not copied.
    pub(crate) fn complete(&mut self, from: Peer, of: K, last: Bytes) -> Bytes {
        match self.bodies.remove(&(from, of)) {
            None => last,
            Some(mut body) => {
                body.extend_from_slice(&last);
                body.into()
            }
        }
    }

    /// Forgets the parts of a body that will not be completed.
    pub(crate) fn forget(&mut self, from: Peer, of: K) {
        self.bodies.remove(&(from, of));
    }

    /// Forgets the parts of a peer.
    pub(crate) fn died(&mut self, peer: Peer) {
        self.bodies.retain(|(from, ..), _| *from != peer);
    }

    /// The number of bodies that are not complete.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.bodies.len()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_cluster::peer::{Incarnation, ProcessId};

    use super::*;
    use crate::remote::calls::CallId;

    #[test]
    fn parts_of_several_bodies_may_be_mixed_and_go_with_their_peer() {
        let peer = Peer {
            process: ProcessId::HEAD,
            incarnation: Incarnation(1),
        };
        let (a, b) = (CallId(1), CallId(2));
        let mut parts = BodyParts::default();
        for (call, of, part) in [
            (a, Whole::Arguments, b"a"),
            (a, Whole::Value, b"v"),
            (b, Whole::Arguments, b"b"),
            (a, Whole::Arguments, b"c"),
        ] {
            assert_eq!(parts.add(peer, (call, of), part), Ok(()));
        }
        let last = Bytes::from_static(b"d");
        assert_eq!(parts.complete(peer, (a, Whole::Arguments), last.clone()), "acd");
        assert_eq!(parts.complete(peer, (a, Whole::Arguments), last), "d");
        parts.forget(peer, (b, Whole::Arguments));
        assert_eq!(parts.len(), 1);
        parts.died(peer);
        assert_eq!(parts.len(), 0);
    }
}
