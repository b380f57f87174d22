//! Peers that are reached over a network.

use std::io;
#[cfg(feature = "hosts")]
use std::sync::Arc;

use selvedge_cluster::peer::Peer;

use super::Hub;
use super::connection::{Connection, Resume};
#[cfg(feature = "hosts")]
use super::link_end::LinkEnd;
#[cfg(feature = "hosts")]
use super::peer_link::PeerLink;
use super::peer_table::PeerStatus;
#[cfg(feature = "hosts")]
use super::post::Letter;
use crate::platform::peer_socket::drop_unused;

impl Hub {
    /// Puts a connection that was made over a network under the link to a peer, and notes how the link gets another one if
    /// that breaks. A connection that the link has already is replaced: the peer has noticed its end, and this side has not
    /// yet. Returns whether the connection is used: not if the peer is dead, or if both have dialled and the other dial counts.
    pub(crate) fn adopt(&self, peer: Peer, connection: Connection, resume: Resume) -> io::Result<bool> {
        if self.table.lock().is_no_survivor(peer) {
            return Ok(false);
        }
        let PeerStatus::Linked(link) = self.hear(peer) else {
            return Ok(false);
        };
        if !link.made(resume) {
            drop_unused(connection.0);
            return Ok(false);
        }
        {
            let mut table = self.table.lock();
            table.note_far(peer);
            self.count_processes(&table);
        }
        match link.replace(connection) {
            Some((end, beyond)) => self.connect(&link, end, beyond),
            None => Ok(true),
        }
    }
}

#[cfg(feature = "hosts")]
impl Hub {
    /// Expects a peer, to which this letter is the first. Returns `false` if something is known of the peer.
    pub(crate) fn begin_with(&self, peer: Peer, letter: Letter) -> bool {
        let link = Arc::new(PeerLink::new(self.me, peer, self.settings));
        // Nobody else finds the link before the letter is in it.
        if link.send(letter).is_err() {
            return false;
        }
        let mut table = self.table.lock();
        let is_new = matches!(table.find(peer), PeerStatus::Unknown);
        if is_new {
            table.insert(link);
        }
        is_new
    }

    /// Notes the cores that a process may use, before it joins.
    pub(crate) fn note_cores(&self, peer: Peer, cores: u32) {
        self.table.lock().note_cores(peer.process, cores);
    }

    /// Whether this process has to dial a peer: the peer lives, and has made no link that counts.
    pub(crate) fn has_to_dial(&self, peer: Peer) -> bool {
        let known = self.table.lock().find(peer);
        match known {
            PeerStatus::Linked(link) => !link.is_settled(),
            PeerStatus::Unknown => true,
            PeerStatus::Dead => false,
        }
    }

    /// A peer could not be dialled. Unless it has made the link meanwhile, calls `tell`, and the peer counts as dead.
    pub(crate) fn not_dialled(&self, peer: Peer, why: String, tell: impl FnOnce(String)) {
        // A peer that is expected only now is dead from now on.
        let PeerStatus::Linked(link) = self.expect(peer) else {
            return;
        };
        let end = LinkEnd::NoLink(why.clone());
        if link.close_unmade(end.clone()) {
            // Before the services learn of the death, whose reason this is.
            tell(why);
            self.finish(&link, end);
        }
    }

    /// Whether a peer has died.
    pub(crate) fn is_buried(&self, peer: Peer) -> bool {
        let table = self.table.lock();
        table.is_no_survivor(peer) || matches!(table.find(peer), PeerStatus::Dead)
    }

    /// A peer cannot be reached, so it counts as dead for this process.
    pub(crate) fn unreachable(&self, peer: Peer, why: String) {
        self.close_link(peer, LinkEnd::NoLink(why));
    }
}
