//! The services of a process, by number.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::RwLock;
use selvedge_channels::dispose;
use selvedge_cluster::frame::Service;
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;

use super::delivering::delivering;
use super::link_end::LinkEnd;
use super::link_state::Fates;
use super::post::{Letter, Receiver};
use crate::body::LentMemory;
use crate::failure::panic_message;

#[derive(Default)]
pub(super) struct Services(RwLock<IdMap<Service, Arc<dyn Receiver>>>);

impl Services {
    pub(super) fn register(&self, service: Service, receiver: Arc<dyn Receiver>) {
        let before = self.0.write().insert(service, receiver);
        dispose(before);
    }

    /// Forgets all services, which may hold the hub themselves.
    pub(super) fn clear(&self) {
        let services = std::mem::take(&mut *self.0.write());
        dispose(services);
    }

    /// Passes a letter to its service.
    pub(super) fn deliver(&self, from: Peer, letter: Letter) -> Result<(), LinkEnd> {
        let service = letter.service;
        let receiver = self.0.read().get(&service).cloned();
        let receiver = receiver.ok_or(LinkEnd::UnknownService(service))?;
        // Unwind safe: a service that panics has a bug, and is asked nothing more by this peer.
        let received = catch_unwind(AssertUnwindSafe(|| {
            delivering(|| receiver.received(from, letter))
        }));
        received.map_err(|payload| LinkEnd::ServiceFailed {
            service,
            text: panic_message(payload),
        })
    }

    /// The memory that a service lends for the body of a letter with this head.
    pub(super) fn lend(
        &self,
        from: Peer,
        service: Service,
        head: &[u8],
        bytes: usize,
    ) -> Option<Box<dyn LentMemory>> {
        let receiver = self.0.read().get(&service).cloned()?;
        // Unwind safe: a service that panics has a bug, and lends nothing.
        let lent = catch_unwind(AssertUnwindSafe(|| {
            delivering(|| receiver.lend(from, head, bytes))
        }));
        lent.unwrap_or_else(|payload| {
            dispose(payload);
            None
        })
    }

    /// Tells every service that letters reach a peer.
    pub(super) fn joined(&self, peer: Peer) {
        self.tell(|receiver| receiver.joined(peer));
    }

    /// Tells every service that a peer was told to end.
    pub(super) fn leaves(&self, peer: Peer) {
        self.tell(|receiver| receiver.leaves(peer));
    }

    /// Tells every service that the process of a peer has ended.
    pub(super) fn ended(&self, peer: Peer) {
        self.tell(|receiver| receiver.ended(peer));
    }

    /// Tells every service that a peer is dead.
    pub(super) fn died(&self, peer: Peer, fates: &Fates) {
        self.tell(|receiver| receiver.died(peer, fates));
    }

    /// Tells each receiver once, whatever the number of its services.
    fn tell(&self, tell: impl Fn(&dyn Receiver)) {
        let mut receivers: Vec<_> = self.0.read().values().cloned().collect();
        let address = |receiver: &Arc<dyn Receiver>| Arc::as_ptr(receiver).cast::<()>();
        receivers.sort_unstable_by_key(address);
        receivers.dedup_by_key(|receiver| address(receiver));
        for receiver in receivers {
            // Unwind safe: as in `deliver`. The other services still have to be told.
            let told = catch_unwind(AssertUnwindSafe(|| delivering(|| tell(&*receiver))));
            told.err().into_iter().for_each(dispose);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use selvedge_cluster::session::Outcome;

    use super::*;
    use crate::testing::peer;

    #[derive(Default)]
    struct CountsDeaths(AtomicUsize);

    impl Receiver for CountsDeaths {
        fn received(&self, _: Peer, _: Letter) {}

        fn died(&self, _: Peer, _: &[(u64, Outcome)]) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_receiver_of_several_services_is_told_of_a_death_once() {
        let (services, dead) = (Services::default(), peer(1));
        let [several, one] = [(); 2].map(|()| Arc::<CountsDeaths>::default());
        for service in [1, 2, 3] {
            services.register(Service(service), Arc::clone(&several) as Arc<dyn Receiver>);
        }
        services.register(Service(4), Arc::clone(&one) as Arc<dyn Receiver>);
        services.died(dead, &Fates::new());
        let told = [several, one].map(|receiver| receiver.0.load(Ordering::Relaxed));
        assert_eq!(told, [1, 1]);
    }
}
