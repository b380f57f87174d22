//! The hub as services see it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use selvedge_cluster::frame::Service;
use selvedge_cluster::peer::{Peer, ProcessId};

use super::lead::Lead;
use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::peer_table::PeerStatus;
use super::post::{Letter, Post, PostError};
use super::tap::ServiceTraffic;
use super::{Hub, Role};
use crate::process_end::EndBook;
use crate::process_name::NameBook;

impl Post for Hub {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> Vec<Peer> {
        let table = self.table.lock();
        let workers = table.all_lives().filter(|link| table.takes_work(link));
        workers.map(|link| link.peer()).collect()
    }

    fn peer_after(&self, process: ProcessId) -> Option<Peer> {
        let table = self.table.lock();
        let mut last = process;
        loop {
            let lives = table.lives_after(last);
            last = lives.first()?.peer().process;
            if let Some(worker) = lives.iter().find(|link| table.takes_work(link)) {
                return Some(worker.peer());
            }
        }
    }

    fn is_job(&self, peer: Peer) -> bool {
        self.table.lock().is_job(peer.process)
    }

    fn peer(&self, process: ProcessId) -> Option<Peer> {
        let table = self.table.lock();
        let open = table.lives(process).iter().find(|link| link.is_open());
        if let Some(open) = open {
            return Some(open.peer());
        }
        // The lock of a link is not taken under that of the table.
        let links = table.links_of(process);
        drop(table);
        // A letter to one that is about to be buried is lost with it.
        let found = links.iter().find(|link| link.awaits_burial());
        found.map(|link| link.peer())
    }

    fn has_lived(&self, process: ProcessId) -> bool {
        self.table.lock().has_lived(process)
    }

    fn send(&self, to: Peer, letter: Letter) -> Result<u64, PostError> {
        let link = self.link(to)?;
        let (number, is_first_need) = link.send(letter)?;
        if is_first_need {
            self.ask(&link);
        }
        Ok(number)
    }

    fn is_near(&self, peer: Peer) -> bool {
        let known = match &self.role {
            Role::Driver(_) => self.table.lock().find(peer),
            Role::Worker(_) => self.hear(peer),
        };
        matches!(known, PeerStatus::Linked(link) if !link.is_resumable())
    }

    fn cores(&self, peer: Peer) -> Option<u32> {
        self.table.lock().cores(peer.process)
    }

    #[cfg(feature = "hosts")]
    fn host(&self) -> Option<String> {
        Some(crate::hosts::host_key::HostKey::mine().into_name())
    }

    fn cut(&self, peer: Peer, why: String) {
        self.close_link(peer, LinkEnd::CutOff(why));
    }

    fn traffic(&self) -> Vec<(Peer, Service, ServiceTraffic)> {
        let links = self.table.lock().links();
        let of_link = |link: Arc<PeerLink>| {
            let counts = link.traffic().into_iter();
            counts.map(move |(service, counts)| (link.peer(), service, counts))
        };
        links.into_iter().flat_map(of_link).collect()
    }

    fn lead(&self) -> Arc<Lead> {
        Arc::clone(&self.lead)
    }

    fn names(&self) -> Arc<NameBook> {
        Arc::clone(&self.names)
    }

    fn ends(&self) -> Arc<EndBook> {
        Arc::clone(&self.ends)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
        let reactor = match &self.role {
            Role::Driver(_) => self.reactor.get().cloned(),
            // References come along the edges of graphs before there is any link.
            Role::Worker(_) => self.worker_reactor().ok(),
        };
        reactor.map(|reactor| reactor.spawn(task)).is_some()
    }
}
