//! Guests, as far as the driver can act on them: by their links alone.

use std::sync::{Arc, Weak};

use selvedge_cluster::peer::Peer;

use crate::hub::Hub;
use crate::hub::post::Post;

/// A worker that has dialled in. Its process is no child of this one.
#[derive(Clone)]
pub(crate) struct GuestLink {
    hub: Weak<Hub>,
    peer: Peer,
}

impl GuestLink {
    pub(super) fn new(hub: &Arc<Hub>, peer: Peer) -> Self {
        GuestLink {
            hub: Arc::downgrade(hub),
            peer,
        }
    }

    /// Cuts the link to the guest, which is not let in again and ends by itself.
    pub(super) fn cut(&self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.cut(self.peer, "the driver has ended its link".to_owned());
        }
    }
}
