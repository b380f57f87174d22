//! The number of entries that each other process has caused here, and its limit.
//!
//! An entry is a registration of the peer, a reference to an object of the peer, a fork that was passed to the peer or
//! came from it and is not accepted, a fetch or a call of the peer that waits, a question that the peer has not
//! answered, or a number of the peer that was struck off. Reaching the limit loses nothing: messages are repeated until
//! there is room, calls and fetches are refused with an error. Nothing is charged to this process itself.

use selvedge_cluster::peer::Peer;

use super::{RefError, Refs};

impl Refs {
    /// Counts one more entry of a peer.
    pub(super) fn charge(&mut self, peer: Peer) {
        if peer != self.me && !self.is_buried(peer) {
            self.links.or_default(peer).entries += 1;
        }
    }

    /// Counts fewer entries of a peer.
    pub(super) fn credit(&mut self, peer: Peer, entries: usize) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.entries = link.entries.saturating_sub(entries);
        }
    }

    /// The number of entries of a peer.
    pub fn load(&self, peer: Peer) -> usize {
        self.links.get(&peer).map_or(0, super::link::Link::load)
    }

    /// Whether a peer may have some entries more.
    pub(super) fn check_room(&self, peer: Peer, more: usize) -> Result<(), RefError> {
        if peer == self.me {
            return Ok(());
        }
        let (entries, limit) = (self.load(peer), self.settings.entries_max);
        match entries.saturating_add(more) <= limit {
            true => Ok(()),
            false => Err(RefError::TooMany { peer, entries, limit }),
        }
    }

    /// Whether a peer has so many entries that even refusals are too many.
    pub(super) fn is_far_beyond(&self, peer: Peer) -> bool {
        self.load(peer) >= self.settings.entries_max.saturating_mul(2)
    }

    /// Whether a message of a peer may cause another entry. If not, the message has no effect, and is repeated.
    pub(super) fn has_room(&mut self, peer: Peer) -> bool {
        let room = self.check_room(peer, 1);
        if let Err(error) = room {
            self.actions.push(super::Action::Overloaded { peer, error });
        }
        room.is_ok()
    }
}
