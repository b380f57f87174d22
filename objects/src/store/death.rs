//! The death of processes. One that counts as dead may still run for a while, and reads and writes what it has: so its memory goes back
//! only when it has ended as well.

use selvedge_cluster::peer::Peer;

use super::error::StoreError;
use super::lending::Want;
use super::object::Place;
use super::{Store, StoreId};

impl Store {
    /// Refuses what a process waits for that counts as dead. What it fills keeps its memory, but nobody waits for it any more.
    pub(super) fn bury(&mut self, peer: Peer) {
        self.buried.note(peer);
        let (of_dead, wants) = std::mem::take(&mut self.wants)
            .into_iter()
            .partition(|want| want.is_of(peer));
        self.wants = wants;
        for want in of_dead {
            if let Want::Reserve { request, .. } = want {
                self.refuse(request, StoreError::Gone);
            }
        }
        let mut refused = Vec::new();
        let objects: Vec<StoreId> = self.objects.keys().copied().collect();
        for object in objects {
            let Some(entry) = self.objects.get_mut(&object) else {
                continue;
            };
            if matches!(entry.place, Place::Unsealed { by, .. } if by == peer) {
                self.filling.remove(&object);
            }
            entry.openers.retain(|(request, by)| {
                let stays = *by != peer;
                if !stays {
                    refused.push(*request);
                }
                stays
            });
        }
        refused
            .into_iter()
            .for_each(|request| self.refuse(request, StoreError::Gone));
        self.reclaim(peer);
    }

    /// Takes back what a process has that counts as dead and has ended.
    pub(super) fn reclaim(&mut self, peer: Peer) {
        if !self.buried.has(peer) || !self.ended.has(peer) {
            return;
        }
        let held: Vec<StoreId> = self.objects.keys().copied().collect();
        for object in held {
            if self.is_borrowed(peer, object) {
                self.abort(peer, object);
                continue;
            }
            let Some(entry) = self.objects.get_mut(&object) else {
                continue;
            };
            let pins = entry.pins.len();
            entry.pins.retain(|(by, _)| *by != peer);
            if entry.pins.len() < pins {
                self.rest(object);
            }
        }
    }
}
