//! The death of a peer: its link ends, the driver buries it, and the services are told.

use std::sync::{Arc, Weak};
use std::time::Duration;

use selvedge_cluster::peer::Peer;

use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::peer_table::PeerStatus;
use super::{Hub, Role};
use crate::boxed::boxed_task;
use crate::death::Exit;
use crate::process_end::ProcessEnd;

/// The time after which a peer that has closed its link is dead, also if the driver has not said how its process ended. The
/// driver kills a process that has closed its link to it and lives on, and says so before. Of a worker that has cut off another one it
/// says nothing.
const BURIAL_TIMEOUT: Duration = Duration::from_secs(2);

impl Hub {
    /// Ends a link, unless that has happened before. The services are told of the death at once, or with the burial.
    pub(super) fn finish(&self, link: &Arc<PeerLink>, why: LinkEnd) {
        if !link.end(why.clone()) {
            return;
        }
        let peer = link.peer();
        #[cfg(test)]
        self.table.lock().note_reason(peer, why.clone());
        if let Role::Driver(driver) = &self.role {
            self.fence(driver, peer, &why);
        }
        let is_buried = self.table.lock().is_buried(peer);
        match self.reactor.get() {
            Some(reactor) if link.awaits_burial() && !is_buried => {
                let late = bury_late(self.myself.clone(), Arc::clone(link), why);
                drop(reactor.spawn(boxed_task(late)));
            }
            _ => {
                if !is_buried {
                    self.ends.guessed(peer, self.end_by(link, &why));
                }
                self.announce(link);
            }
        }
    }

    /// The end of the peer as its driver sees it, or else as the end of its link tells it.
    fn end_by(&self, link: &PeerLink, why: &LinkEnd) -> ProcessEnd {
        if let Role::Driver(driver) = &self.role {
            let courier = driver.broker.lock().courier(link.peer()).cloned();
            if let Some(seen) = courier.and_then(|courier| courier.seen_end()) {
                return seen;
            }
        }
        let exit = match why {
            LinkEnd::Shutdown => Exit::Shutdown,
            why if matches!(self.role, Role::Driver(_)) && !link.is_resumable() => {
                Exit::Severed(why.to_string())
            }
            why => Exit::Fenced(why.to_string()),
        };
        ProcessEnd::of(exit)
    }

    /// A peer is buried: announces its death, unless that has happened before.
    pub(super) fn bury(&self, peer: Peer) {
        let known = self.table.lock().note_burial(peer);
        if let PeerStatus::Linked(link) = known
            && !self.announce(&link)
        {
            self.close_link(peer, LinkEnd::Buried);
        }
    }

    /// Tells the services of the death of a peer whose link has ended; false if it has not, or if they were told before.
    pub(super) fn announce(&self, link: &PeerLink) -> bool {
        let Some(fates) = link.announce() else {
            return false;
        };
        let peer = link.peer();
        let removed = {
            let mut table = self.table.lock();
            let removed = table.bury(peer);
            self.count_processes(&table);
            removed
        };
        drop(removed);
        self.services.died(peer, &fates);
        let is_over = {
            let mut table = self.table.lock();
            table.forget_job(peer.process);
            table.lives(peer.process).is_empty()
        };
        if is_over {
            self.names.died(peer.process);
        }
        true
    }
}

/// Announces the death of a peer whose burial was not heard of.
async fn bury_late(hub: Weak<Hub>, link: Arc<PeerLink>, why: LinkEnd) {
    tokio::time::sleep(BURIAL_TIMEOUT).await;
    let Some(hub) = hub.upgrade() else { return };
    if link.awaits_burial() {
        hub.ends.guessed(link.peer(), hub.end_by(&link, &why));
        hub.announce(&link);
    }
}
