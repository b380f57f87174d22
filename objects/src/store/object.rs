//! One object of a store, and where it lies.

use std::collections::VecDeque;

use selvedge_cluster::id_map::IdSet;
use selvedge_cluster::peer::Peer;

use super::extents::Extent;

/// The place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Memory that its borrower fills.
    Unsealed { by: Peer, extent: Extent },
    /// In memory.
    Here(Extent),
    /// In memory, and on its way to the file. It can be read meanwhile.
    Leaving {
        extent: Extent,
        to: Extent,
        attempt: u64,
    },
    /// In the file alone.
    Away,
    /// On its way from the file to memory.
    Coming { extent: Extent, attempt: u64 },
    /// Nowhere: it was dropped for want of room, since it can be made again.
    Dropped,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Object {
    pub(super) bytes: u64,
    pub(super) place: Place,
    /// The copy in the file. It stays when the object is restored: the object does not change.
    pub(super) copy: Option<Extent>,
    /// The pins: who has views, by way of which grant.
    pub(super) pins: IdSet<(Peer, u64)>,
    /// The questions that wait until the object is in memory, each with its process.
    pub(super) openers: VecDeque<(u64, Peer)>,
    /// Since when nobody has a view of the object, if it is sealed and in memory.
    pub(super) idle_since: Option<u64>,
    /// Whether nobody holds a reference to it.
    pub(super) is_freed: bool,
    /// Whether the owner can make the object again.
    pub(super) is_remakeable: bool,
}

impl Object {
    pub(super) fn unsealed(bytes: u64, by: Peer, extent: Extent) -> Self {
        Object {
            bytes,
            place: Place::Unsealed { by, extent },
            copy: None,
            pins: IdSet::new(),
            openers: VecDeque::new(),
            idle_since: None,
            is_freed: false,
            is_remakeable: false,
        }
    }

    /// The processes that have views.
    pub(super) fn pinned_by(&self) -> Vec<Peer> {
        let mut peers: Vec<Peer> = self.pins.iter().map(|(peer, _)| *peer).collect();
        // The pins are in the order of their processes.
        peers.dedup();
        peers
    }

    /// Whether somebody waits for the object, which lies in the file alone.
    pub(super) fn is_awaited_in_file(&self) -> bool {
        self.place == Place::Away && !self.openers.is_empty()
    }
}
